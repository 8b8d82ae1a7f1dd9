"""The files of a journal: one writer at a time, what a reader knows, what a crash leaves."""

import shutil
import subprocess
import sys
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.failing import HastyDisk
from support.waiting import eventually
from tracklog.journal.journal import Journal, JournalEntry
from tracklog.journal.segments import chain_path, firsts, head, segment_path
from tracklog.journal.stores.file import FileStore
from tracklog.journal.verify import verify
from tracklog.model.errors import BadFormat
from tracklog.testing import Clock


def entries(count: int, run: str = "r", size: int = 0) -> list[JournalEntry]:
    return [JournalEntry("spoken", "spoken", run, b'{"n":%d,"x":"%b"}' % (n, b"x" * size)) for n in range(count)]  # fmt: skip


def opened(home, **options) -> Journal:
    return Journal(FileStore(home, disk=HastyDisk(), **options), Clock())


FORKED = """
import os, sys
from tracklog.journal.journal import JournalEntry, Journal
from tracklog.journal.stores.file import FileStore
journal = Journal(FileStore(sys.argv[1], durability="os"))
journal.append([JournalEntry("spoken", "spoken", "r", b"{}")])
child = os.fork()
name = b"child" if child == 0 else b"parent"
for n in range(300):
    seqs = journal.append([JournalEntry("spoken", "spoken", "r", b'{"by":"%b","n":%d}' % (name, n))] * 3)
    os.write(1, b"%b %d %d\\n" % (name, n, seqs.start))
if child == 0:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
journal.close()
"""


def test_a_forked_child_and_its_parent_write_one_after_the_other(tmp_path):
    """One open file is one owner of a lock: the child needs its own."""
    done = subprocess.run(
        [sys.executable, "-c", FORKED, str(tmp_path)], capture_output=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert verify(tmp_path).ok
    journal = opened(tmp_path)
    stored = {record.seq: record.line for record in journal.records()}
    assert list(stored) == list(range(1, 1 + 2 * 300 * 3 + 1))
    for line in done.stdout.decode().splitlines():
        name, n, seq = line.split()
        wanted = b'{"by":"%b","n":%d}' % (name.encode(), int(n))
        assert [stored[int(seq) + each] for each in range(3)] == [wanted] * 3


@pytest.mark.parametrize("rest", [b"", b'{"opened'])
def test_the_head_of_a_chain_without_a_complete_line_says_what_to_do(tmp_path, rest):
    journal = opened(tmp_path)
    journal.append(entries(2))
    journal.close()
    folder = tmp_path / "journal"
    chain_path(folder, 1).write_bytes(rest)
    with pytest.raises(BadFormat, match="segment 1 is torn") as error:
        head(folder)
    assert "open the journal for writing" in error.value.hint
    opened(tmp_path).close()
    assert head(folder).through == 2


@pytest.mark.parametrize("sealed", [0, 3])
def test_a_reader_stops_before_a_segment_whose_chain_has_no_line_yet(tmp_path, sealed):
    """A crash can come between the names of the files and their first line."""
    journal = opened(tmp_path, segment_size=200)
    for _ in range(sealed):
        journal.append(entries(2, size=200))
    journal.close()
    folder = tmp_path / "journal"
    first = firsts(folder)[-1]
    assert (first > 1) == bool(sealed)
    chain_path(folder, first).write_bytes(b"")
    segment_path(folder, first).write_bytes(b"")
    store = FileStore(tmp_path, readonly=True)
    assert store.last == first - 1
    assert len(store.read(0, 100)) == first - 1
    store.close()


class CountingCondition(threading.Condition):
    """Counts how often it is notified."""

    notified = 0

    def notify_all(self):
        self.notified += 1
        super().notify_all()


def test_an_append_wakes_those_who_wait_and_does_nothing_where_nobody_does(tmp_path):
    journal = opened(tmp_path)
    reader = journal.store.reader
    reader._grew = condition = CountingCondition()
    journal.append(entries(1))
    assert condition.notified == 0
    waiting = threading.Thread(target=journal.wait, args=(1, 60))
    waiting.start()
    eventually(lambda: reader._waiting == 1)
    while not condition.notified and waiting.is_alive():
        with condition:  # it waits inside, or is about to
            if reader._waiting:
                break
    journal.append(entries(1))
    waiting.join(60)
    assert not waiting.is_alive()
    assert reader._waiting == 0


def test_a_run_is_found_in_a_segment_that_was_sealed_and_rewritten_since(tmp_path):
    """A reader that knew the open segment must not take the old places for the new ones."""
    writer = opened(tmp_path, segment_size=5_000)
    writer.append(entries(5, "a", 100) + entries(5, "b", 100))
    reader = Journal(FileStore(tmp_path, readonly=True), Clock())
    wanted = [record.line for record in reader.records(run=("spoken", "b"))]
    assert len(wanted) == 5
    for _ in range(2):
        writer.append(entries(40, "c", 100))  # seals the first segment
    assert len(firsts(tmp_path / "journal")) > 1
    writer.store.erase(
        2, reason="much longer than the line " * 20, by="me", at="2026-05-05T09:00:00.000Z"
    )
    for _ in range(2):
        assert [record.line for record in reader.records(run=("spoken", "b"))] == wanted
    assert len(list(reader.records(run=("spoken", "a")))) == 5
    reader.close()
    writer.close()


@settings(max_examples=60, deadline=None)
@given(after=st.integers(0, 130), limit=st.integers(1, 130), run=st.sampled_from("abc"))
def test_a_page_of_a_run_has_the_records_that_were_asked_for(tmp_path_factory, after, limit, run):
    home = tmp_path_factory.getbasetemp() / "of-a-run"
    if not home.exists():
        journal = opened(home, segment_size=3_000)
        for n in range(40):
            journal.append([*entries(1, "abc"[n % 3]), *entries(2, "abc"[n % 2])])
        journal.close()
        assert len(firsts(home / "journal")) > 2
    store = FileStore(home, readonly=True)
    journal = Journal(store, Clock())
    every = [record for record in journal.records(after) if record.run == run]
    found = journal.read(after, limit, ("spoken", run))
    assert found == every[: len(found)]
    assert len(found) == min(limit, len(every))
    store.close()


def test_the_zeros_of_a_lost_write_do_not_touch_the_groups_before_it(tmp_path):
    """Power loss can leave a hole at the end: all that is whole before it keeps its chain."""
    journal = opened(tmp_path, durability="os")
    for _ in range(4):
        journal.append(entries(3))
    folder = tmp_path / "journal"
    copy = tmp_path / "copy"
    shutil.copytree(tmp_path, copy, ignore=shutil.ignore_patterns("copy"))  # as a crash leaves it
    journal.close()
    chain = chain_path(copy / "journal", 1).read_bytes()
    assert b'"synced":false' in chain.rstrip().split(b"\n")[-1]
    with segment_path(copy / "journal", 1).open("ab") as file:
        file.write(bytes(500))
    again = opened(copy)
    assert again.last == 12
    assert [finding.name for finding in again.store.findings] == ["torn-tail"]
    again.append(entries(1))
    again.close()
    assert chain_path(copy / "journal", 1).read_bytes().startswith(chain)
    names = [path.name for path in (copy / "quarantine").iterdir()]
    assert [name for name in names if name.endswith(".links")] == []
    assert verify(copy).ok
    assert folder.exists()
