"""What is remembered while a journal is indexed: of the records at hand, and of each run."""

from collections.abc import Iterator, Mapping
from typing import Any

from tracklog.dialects import Dialect
from tracklog.folds import Fold, Sums, Told, rows_of
from tracklog.index.codec import freeze
from tracklog.index.indexes import Found, Words
from tracklog.journal.frame import Record, Run
from tracklog.model.event import Event, Finding
from tracklog.model.fact import Fact
from tracklog.reading.replay import Retold, failure

PAST = "past:"
"""Before a fold's name: what its states were at some moments, by run and record."""
TOO_LARGE = b"null"
"""In the place of a past state that is not worth its room."""
_LARGE = 1 << 16  # bytes


class Batch:
    """What a batch of records comes to."""

    def __init__(self) -> None:
        self.steps: list[tuple[tuple[str, str], Fold[Any] | None, Told, Fact | None]] = []
        """What is to be done to which state; without a fact it is kept as it is then."""
        self.past: dict[tuple[str, str], bytes] = {}
        self.changed: dict[tuple[str, str], int] = {}
        self.before: dict[tuple[str, str], Sums] = {}
        """What the states of folds with sums added before this batch."""
        self.findings: list[Found] = []
        self.words: list[Words] = []
        self.erasures: list[int] = []
        self.ids: list[tuple[int, Told]] = []
        """Identities that should stand in one run only."""
        self.names: dict[Run, dict[int, int]] = {}
        """What the records of a run go by, and what they say caused them."""
        self.heard: dict[Run, int] = {}
        """The runs that said something that counts, and where last."""
        self.silent: list[int] = []
        """The records that no longer count."""
        self.mixed: set[Run] = set()
        """The runs of which something was told more than once."""
        self.anew: dict[Run, None] = {}
        """The runs of which something that was heard before reads differently now."""

    def find(self, record: Record, finding: Finding) -> None:
        self.findings.append(Found(record.seq, record.family, record.run, finding))

    def forget(self, run: Run) -> None:
        """Takes back what a run comes to, because it is folded anew."""
        self.steps = [each for each in self.steps if each[2][2:4] != run]
        rows = rows_of(*run)
        self.past = {name: each for name, each in self.past.items() if name[1][:-15] != rows}
        self.findings = [each for each in self.findings if each[1:3] != run]
        self.ids = [each for each in self.ids if each[1][2:4] != run]
        self.names.pop(run, None)
        self.heard.pop(run, None)

    def keep_past(self, name: tuple[str, str], told: Told, state: Any) -> None:
        if state is not None:
            key = f"{rows_of(told.family, told.run)}{told.seq:015}"
            kept = freeze(name[1], state)
            self.past[PAST + name[0], key] = kept if len(kept) <= _LARGE else TOO_LARGE

    def note_erasure(self, record: Record, noted: Any, through: int) -> None:
        """An erasure that was put on record after this index was begun concerns it."""
        seq = noted.data.get("seq") if isinstance(noted.data, dict) else None
        if isinstance(seq, int) and 0 < seq < record.seq and record.seq > through:
            self.erasures.append(seq)


class Watch:
    """What is remembered of a run: by the rules of its dialects, and of how often it was told.

    The door stores an identity once, or, where it keeps conflicts, a second line only if it
    differs: so that an identity is heard again is all there is to find out.
    """

    __slots__ = ("amiss", "count", "ids", "retold", "states")

    def __init__(self) -> None:
        self.retold = Retold()
        self.amiss = -1
        """How much was amiss if nothing more came; not known at first."""
        self.begin_again()

    def begin_again(self) -> None:
        """Forgets what the rules remember."""
        self.states: dict[str, Any] = {}
        self.ids: set[tuple[str, str]] = set()
        self.count = 0

    def hear(self, dialect: Dialect, event: Event) -> Iterator[Finding]:
        self.count += 1
        yield from event.odd
        if event.id is not None and dialect.policy.identity == "keep":
            if (dialect.name, event.id) in self.ids:
                message = f"{event.id} was heard before with another line"
                yield Finding(dialect.policy.reused, message, "error")
            self.ids.add((dialect.name, event.id))
        try:
            state, found = dialect.rules(self.states.get(dialect.name), event)
        except Exception as error:  # noqa: BLE001  # one record must not stop the others
            yield failure(f"the dialect {dialect.name}", error)
        else:
            self.states[dialect.name] = state
            yield from found

    def rest(self, dialects: Mapping[str, Dialect]) -> list[Finding]:
        """What is amiss if nothing more comes."""
        found: list[Finding] = []
        for name, state in self.states.items():
            try:
                found += dialects[name].rest(state)
            except Exception as error:  # noqa: BLE001  # one dialect must not stop the others
                found.append(failure(f"the dialect {name}", error))
        return found
