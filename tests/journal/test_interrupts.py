"""A leader of a commit group that is interrupted at any place: the others get a true answer."""

import contextlib
import linecache
import sys
import threading
import traceback
from collections import Counter
from itertools import count

import pytest

from support.waiting import eventually
from tracklog.journal import journal as journals
from tracklog.journal.journal import Journal, JournalEntry
from tracklog.journal.stores.memory import MemoryStore
from tracklog.model.errors import NotAppended
from tracklog.testing import Clock


class GatedStore(MemoryStore):
    """A store whose first append waits, so that the next ones form a group."""

    def __init__(self):
        super().__init__()
        self.gate, self.entered = threading.Event(), threading.Event()

    def append(self, make, *, lifecycle=False):
        if not self.entered.is_set():
            self.entered.set()
            assert self.gate.wait(10)
        return super().append(make, lifecycle=lifecycle)


class Interrupts:
    """Raises KeyboardInterrupt at a line of the journal's code, and again at a call after that.

    Only where a signal can interrupt: not between the end of a `with` block and the release of its
    lock, and after a built-in function, not before it.
    """

    def __init__(self, line, call=None):
        self.line, self.call, self.hits = line, call, 0

    def __enter__(self):
        sys.settrace(self._trace)

    def __exit__(self, *_):
        sys.settrace(None)
        sys.setprofile(None)

    def _trace(self, frame, event, _):
        if frame.f_code.co_filename != journals.__file__:
            return None
        if event == "line" and not self._is_with(frame):
            self.line -= 1
            if self.line == 0:
                self.hits += 1
                if self.call is not None:
                    sys.setprofile(self._profile)
                raise KeyboardInterrupt
        return self._trace

    @staticmethod
    def _is_with(frame):
        line = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
        return line.lstrip().startswith("with ")

    def _profile(self, frame, event, _):
        if frame.f_code.co_filename == journals.__file__ and event in ("call", "c_return"):
            self.call -= 1
            if self.call == 0:
                self.hits += 1
                raise KeyboardInterrupt


def group_with_interrupts(interrupts):
    """Two appends in one group, of which the leader is interrupted: both outcomes, and the journal.

    An outcome is the numbers or the error; with it the functions in which the leader was.
    """
    store = GatedStore()
    journal = Journal(store, Clock())
    outcomes, inside = {}, []

    def produce(name, trace=None):
        try:
            with trace or contextlib.nullcontext():
                outcomes[name] = journal.append(
                    [JournalEntry("spoken", "spoken", name, b'{"by":"%b"}' % name.encode())] * 2
                )
        except (KeyboardInterrupt, NotAppended) as error:
            outcomes[name] = error
            if name == "leader":
                inside.extend(each.name for each in traceback.extract_tb(error.__traceback__))

    given = {"first": ("first",), "leader": ("leader", interrupts), "other": ("other",)}
    threads = {
        name: threading.Thread(target=produce, args=arguments, daemon=True)
        for name, arguments in given.items()
    }
    threads["first"].start()
    assert store.entered.wait(10)
    threads["leader"].start()
    eventually(lambda: len(journal._waiting) == 1 or "leader" in outcomes)
    threads["other"].start()
    eventually(lambda: len(journal._waiting) == 2 or "leader" in outcomes)
    store.gate.set()
    for thread in threads.values():
        thread.join(10)
        assert not thread.is_alive(), "nobody leads any more"
    return outcomes, inside, journal


@pytest.mark.parametrize("call", [None, *range(1, 9)])
def test_wherever_a_leader_is_interrupted_the_others_get_a_true_answer(call):
    """Also when it is interrupted again while it withdraws."""
    answered = Counter()
    for line in count(1):
        interrupts = Interrupts(line, call)
        outcomes, inside, journal = group_with_interrupts(interrupts)
        stored = {name: [] for name in outcomes}
        for record in journal.records():
            stored[record.run].append(record.seq)
        for name, outcome in outcomes.items():
            if isinstance(outcome, range):
                assert stored[name] == list(outcome), (name, line)
            else:
                assert len(stored[name]) in (0, 2), "all lines or none"
        if {"_hand_over", "_wake"} & {*inside}:  # all was written before
            assert isinstance(outcomes["other"], range), (line, inside)
            answered["written"] += 1
        elif "_take" in inside:
            answered["not written"] += isinstance(outcomes["other"], NotAppended)
        assert list(journal.append([JournalEntry("spoken", "spoken", "r", b"{}")]))
        if not interrupts.hits:
            break
    assert line > 40
    assert answered["written"]
    assert answered["not written"]
