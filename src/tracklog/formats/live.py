"""Export a run to a foreign format while it is running."""

from collections.abc import Callable, Iterator

from tracklog.answers.related import related_runs
from tracklog.answers.spends import Spends, spends_elsewhere
from tracklog.formats import registry
from tracklog.formats.export import (
    Survey,
    Tree,
    conversation_of,
    export_record,
    export_records,
    root_of,
    surveyed,
)
from tracklog.formats.exporters import Exporter, ExportRun, Options
from tracklog.home.home import Home
from tracklog.journal.frame import Record, Run
from tracklog.journal.journal import Journal
from tracklog.model.errors import UnknownName
from tracklog.reading.record import Dialects
from tracklog.reading.walk import Walker

BLOCK = 1000
"""Records that are written together."""
PATIENCE = 0.5
"""Seconds after which the journal is read again without a notification."""


def live_of(home: Home, run: Run, exporter: Exporter, options: Options) -> "Live":
    """Follow a run of a home; the index must be up to date."""
    key = ":".join(run)
    states = related_runs(home.index, [key])

    def elsewhere() -> Spends:
        home.index.catch_up()
        return spends_elsewhere(home.index, key)

    return Live(run, home.journal_of(run), home.dialects, states, exporter, options, elsewhere)


class Live:
    """Follows a run: writes the state up to the cursor, then each record after it.

    No record is left out; records that were deleted are written as a gap.
    """

    def __init__(
        self,
        run: Run,
        journal: Journal,
        dialects: Dialects,
        tree: Tree,
        exporter: Exporter,
        options: Options,
        elsewhere: Callable[[], Spends] = Spends,
    ) -> None:
        """`elsewhere` gives what other runs record of the spends of this one."""
        if exporter.follow is None:
            known = ", ".join(each.name for each in registry.exporters() if each.follow)
            raise UnknownName(
                f"{exporter.name} cannot be followed: it can only be written after the run has ended",
                f"these can be: {known}",
            )
        self.run, self.journal, self.dialects = run, journal, dialects
        self._elsewhere = elsewhere
        self._root = root_of(run, tree)
        self._conversation = conversation_of(run, self._root, tree)
        self._survey, self._last = Survey(run, Walker(dialects)), 0
        self._writer = exporter.follow(self._export_run, options)
        self.cursor = 0
        """Every record up to this one was written."""
        self.over = False
        """The run has ended, and all of it was written."""

    def join(self, after: int | None = None) -> bytes:
        """The state of the run up to a record, or up to now."""
        last = self.journal.last
        self.cursor = last if after is None else min(after, last)
        for record in self.journal.records(run=self.run, through=self.cursor):
            self._add(record)
        self._settle()
        return self._writer.join(self.cursor)

    @property
    def has_read_all(self) -> bool:
        """Whether the run has ended, and no record of it follows the cursor."""
        return self._survey.ended and not self.journal.read(self.cursor, 1, self.run)

    def read_on(self, limit: int = BLOCK) -> bytes | None:
        """The output for the next records; None where there are none."""
        first, last = self.journal.first, self.journal.last
        if self.cursor + 1 < first:
            after, self.cursor = self.cursor, first - 1
            return self._writer.gap(after, first)
        records = self.journal.read(self.cursor, limit, self.run)
        if records:
            self.cursor = records[-1].seq
            content = b"".join(map(self._add, records))
            self._settle()
            return content
        self.cursor = max(self.cursor, last)
        if self.over or not self._survey.ended:
            return None
        self.over = True
        return self._writer.end(self._last)

    def follow(self) -> Iterator[bytes]:
        """The output for each new record, until the run has ended."""
        while not self.over:
            content = self.read_on()
            if content is None:
                self.journal.wait(self.cursor, PATIENCE)
            else:
                yield content

    def _add(self, record: Record) -> bytes:
        walker = self._survey.walker
        reading = walker.read(record)
        if reading.marks:
            return b""
        self._survey.add(reading)
        self._last = record.seq
        ended = self._survey.ended and not walker.changed
        return self._writer.write(export_record(reading, {}), ended=ended)

    def _settle(self) -> None:
        """Read the run again when a record that was counted does not count any more."""
        if self._survey.walker.changed:
            self._survey = surveyed(self.run, self._records, self.dialects)

    def _records(self) -> Iterator[Record]:
        return self.journal.records(run=self.run, through=self._last)

    def _export_run(self) -> ExportRun:
        self._settle()
        self._survey.elsewhere = self._elsewhere()
        counted, revisions = self._survey.counted(), self._survey.walker.revisions
        return ExportRun(
            family=self.run[0],
            id=self.run[1],
            root=self._root,
            conversation=self._conversation,
            lines=lambda: export_records(self._records(), self.dialects, counted, revisions),
            summary=self._survey.summary(),
            spends=tuple(spend for spend in counted.values() if spend.counts),
        )
