"""Import the logs that agents left on disk into a home: only what is new, with a full report.

The offset of each source is stored in `<home>/sources`, a cache: without it everything is read
again, and known events are dropped as duplicates by their identity.
"""

import gc
import os
import stat
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from errno import EDQUOT, ENOSPC
from itertools import groupby
from pathlib import Path
from typing import Any

from tracklog.dialects import tracklog as native
from tracklog.formats import registry
from tracklog.formats.follow import TornLine
from tracklog.formats.importers import (
    Importer,
    SourcePosition,
    SourceReading,
    hashed,
    status_of,
)
from tracklog.formats.importing_known import (
    KnownSource,
    KnownSources,
    OtherSources,
    name_of,
)
from tracklog.formats.importing_lines import (
    DOCUMENT,
    Native,
    holds_lines,
    note_imported,
    runs_of,
    torn_line,
)
from tracklog.formats.importing_summary import FEW, ImportSummary
from tracklog.formats.recognition import Recognition, is_database, recognised_file
from tracklog.home.home import Home
from tracklog.intake.reserved import Source
from tracklog.intake.verdicts import Verdict
from tracklog.journal.frame import stamp
from tracklog.model.errors import TracklogError
from tracklog.model.event import Body
from tracklog.model.fact import Noted

SAVED = 32 << 20
"""The offset is saved after this many bytes of a source."""
GROWING = 600
"""Seconds after its last change in which a followed file counts as being written."""
_HELD = 8 << 20  # bytes of blobs that are stored together

Progress = Callable[[int, int], None]
"""Called with the number of bytes done and the total."""


class Importing:
    """The sources of one home; each call imports what is new."""

    def __init__(self, home: Home, importers: Iterable[Importer] | None = None) -> None:
        self._home = home
        self.importers = {each.name: each for each in importers or registry.importers()}
        self._sources = KnownSources(home)
        self._known = self._sources.by_name
        self._chosen: dict[str, Importer] = {}
        self._undecided: dict[str, Recognition] = {}
        """The files that no importer reads, or none alone."""
        self._lifted: dict[str, bytes] = {}
        self._lifted_size = 0
        self._growing: dict[str, float] = {}
        """The last note that a source without times is being written, by run."""

    def find(self, user: Path, environment: Mapping[str, str]) -> list[Path]:
        """Every source in the usual places of a user."""
        paths: list[Path] = []
        for importer in self.importers.values():
            for path in importer.find(user, environment):
                self._chosen[name_of(path)] = importer
                paths.append(path)
        return paths

    def below(self, paths: Iterable[Path]) -> list[Path]:
        """The files to import: those named, and all files in the named folders."""
        files: list[Path] = []
        for path in paths:
            if path.is_dir():
                files += sorted(each for each in path.rglob("*") if _may_be_source(each))
            else:
                files.append(path)
        own = self._home.path.resolve()
        return [path for path in files if own not in path.resolve().parents]

    def known(self) -> list[Path]:
        """Every source that was read before and still exists."""
        return [each.path for each in self._known.values() if each.path.exists()]

    def importer_of(self, path: Path, only: str | None = None) -> Importer | None:
        """The importer for a file, by where it was found, by its name and its beginning."""
        name = name_of(path)
        if only:
            return self.importers[only]
        if name in self._chosen:
            return self._chosen[name]
        recognised = recognised_file(self.importers.values(), path)
        known = self._known.get(name)
        if known and recognised == Recognition() and is_database(path):
            return self.importers.get(known.place.importer)  # its last conversation was deleted
        if recognised.importer is None or recognised.companion:
            self._undecided[name] = recognised
            return None
        self._chosen[name] = recognised.importer
        return recognised.importer

    def bring(
        self,
        paths: Sequence[Path],
        *,
        only: str | None = None,
        final: bool = True,
        again: bool = False,
        dry: bool = False,
        report: Callable[[Path, ImportSummary], None] | None = None,
        progress: Progress = lambda _done, _total: None,
        into: ImportSummary | None = None,
    ) -> ImportSummary:
        """Read what is new in these sources and admit it.

        `again` reads them from their start; `dry` stores nothing. Without `final`, records that are
        still being written are left for the next call. `report` is called for each source with
        something new. The result is added to `into`, if given, so that it is available after an
        interrupt.
        """
        whole = ImportSummary() if into is None else into
        with _seldom_collected():
            self._bring(whole, paths, only, final, again, dry, report, progress)
        return whole

    def _bring(
        self,
        whole: ImportSummary,
        paths: Sequence[Path],
        only: str | None,
        final: bool,
        again: bool,
        dry: bool,
        report: Callable[[Path, ImportSummary], None] | None,
        progress: Progress,
    ) -> None:
        plain_lines = [] if only else self._plain_lines(paths)
        if plain_lines:
            beside = Native(self._home, plain_lines)
            beside.bring(whole, dry=dry, report=report)
            paths = [path for path in paths if path not in plain_lines]
            documents = [each for each in paths if beside.holds(each) and self._is_unknown(each)]
            for path in documents:
                beside.take(path, whole, dry=dry)
            paths = [path for path in paths if path not in documents]
        work = self._work(paths, only, final, again, whole)
        total = sum(size for _, _, size in work)
        others = {
            name: OtherSources(
                self._sources, name, [path for path, importer, _ in work if importer.name == name]
            )
            for name in self.importers
        }
        done = 0
        progress(0, total)
        for path, importer, size in work:
            one = ImportSummary()
            reading = SourceReading(
                importer,
                path,
                others=others[importer.name],
                put=hashed if dry else self._store_blob,
                redact=self._home.redact,
            )
            try:
                for through in self._read(reading, one, final=final, again=again, dry=dry):
                    progress(min(done + through, done + size), total)
            except OSError as error:
                # our own disk is full; the source is not at fault
                if error.errno in (ENOSPC, EDQUOT):
                    raise
                one.unread.append((str(path), error.strerror or str(error)))
            finally:
                # also for a file that was not read to its end
                one.files = int(not one.unread)
                one.by_importer[importer.name] = reading.report
                one.events[importer.name] = one.lines.total()
                whole.add(one)
            done += size
            progress(done, total)
            if report and (one.lines or one.unread):
                report(path, one)

    def _is_unknown(self, path: Path) -> bool:
        """Whether no importer recognises a file."""
        try:
            known = name_of(path) in self._known or not path.is_file()
            if known or self.importer_of(path) is not None:
                return False
            return not self._undecided.get(name_of(path), Recognition()).companion
        except OSError:
            return False  # reported when it is read

    def _plain_lines(self, paths: Sequence[Path]) -> list[Path]:
        """The files that no importer recognises and that hold lines of a dialect."""
        files = []
        for path in dict.fromkeys(paths):
            with suppress(OSError):  # reported when it is read
                unknown = path.suffix != DOCUMENT and self._is_unknown(path)
                if unknown and holds_lines(self._home, path):
                    files.append(path)
        return files

    def _store_blob(self, content: bytes) -> str:
        """Store a blob."""
        name = hashed(content)
        self._lifted[name] = content
        self._lifted_size += len(content)
        if self._lifted_size > _HELD:
            self._put_lifted()
        return name

    def _put_lifted(self) -> None:
        self._home.blobs.put_all(self._lifted.values())
        self._lifted.clear()
        self._lifted_size = 0

    def look_for_gone(self, *, dry: bool = False) -> list[str]:
        """Note on the runs of every missing source that it is missing; its records stay."""
        alive = {each.place.run for each in self._known.values() if each.path.exists()}
        gone: list[str] = []
        for name, each in list(self._known.items()):
            if each.gone is not None or each.path.exists() or not each.place.run:
                continue
            now = stamp(self._home.clock())
            if each.place.run not in alive and not dry:
                self._write_gone(each, now)
            if each.place.run not in alive:
                gone.append(str(each.path))
            if not dry:
                self._sources.save(name, each._replace(gone=now))
        return gone

    def _work(
        self,
        paths: Sequence[Path],
        only: str | None,
        final: bool,
        again: bool,
        whole: ImportSummary,
    ) -> list[tuple[Path, Importer, int]]:
        """The sources to read: the oldest first, so that a copy comes after its original."""
        work: list[tuple[int, str, Path, Importer, int]] = []
        for path in dict.fromkeys(paths):
            try:
                state = path.stat()
                if not stat.S_ISREG(state.st_mode):
                    raise OSError(0, "it is no regular file")  # noqa: TRY301  # told as one
                known = self._known.get(name_of(path))
                if known and not again and self._is_unchanged(known, state, final, only):
                    whole.unchanged += 1
                    continue
                importer = self.importer_of(path, only)
            except OSError as error:
                whole.unread.append((str(path), error.strerror or str(error)))
                continue
            if importer is None:
                if state.st_size or not path.exists():
                    self._report_undecided(path, whole, final=final)
                else:
                    whole.empty.append(str(path))
                continue
            work.append((state.st_mtime_ns, str(path), path, importer, state.st_size))
        return [(path, importer, size) for _, _, path, importer, size in sorted(work, key=_age)]

    def _report_undecided(self, path: Path, whole: ImportSummary, *, final: bool) -> None:
        undecided = self._undecided.get(name_of(path), Recognition())
        if undecided.companion:
            whole.companions += 1
            return
        torn = torn_line(path, self._home.intake.cap) if final else None
        if torn is not None:
            whole.torn.append(torn)
            return
        whole.unrecognised.append(str(path))
        if undecided.candidates:
            whole.ambiguous[str(path)] = undecided.candidates

    def _is_unchanged(
        self, known: KnownSource, state: os.stat_result, final: bool, only: str | None
    ) -> bool:
        place = known.place
        importer = self.importers.get(place.importer)
        return (
            importer is not None
            and importer.mapping == place.mapping
            and (only is None or only == place.importer)
            and (place.device, place.inode) == (state.st_dev, state.st_ino)
            and (place.size, place.modified)
            == status_of(known.path, importer.beside(known.path))[2:]
            and (known.final or not final)
            and known.gone is None
        )

    def _read(
        self, reading: SourceReading, one: ImportSummary, *, final: bool, again: bool, dry: bool
    ) -> Iterator[int]:
        name = name_of(reading.path)
        known = None if again else self._known.get(name) or self._moved(reading)
        place = known.place if known else None
        start = saved = place.offset if place else 0
        for batch in reading.lines(place, final=final):
            one.bytes = max(0, batch.through - start)
            self._keep(batch.lines, reading, one, dry=dry, bodies=batch.bodies)
            for dialect, lines in groupby(batch.quoted, lambda each: each[0]):
                known_dialect = dialect if dialect in self._home.dialects else None
                quoted = [line for _, line in lines]
                verdicts = self._keep(quoted, reading, one, dry=dry, dialect=known_dialect)
                one.notes += note_imported(self._home, reading.path, runs_of(self._home, verdicts))
            place = batch.place
            one.runs |= reading.runs.keys()
            if not dry and batch.through >= saved + SAVED:
                saved = batch.through
                self._sources.save(
                    name, KnownSource(reading.path, place.copy(), False, self._home.journal.last)
                )
            yield batch.through
        if reading.torn is not None:
            one.torn.append(TornLine(reading.path, *reading.torn))
        lost = reading.torn is not None and not reading.torn.stored  # it is reported every time
        if not dry and place is not None and not lost:
            self._note(reading, place, one, final=final)
            self._sources.save(
                name, KnownSource(reading.path, place, final, self._home.journal.last)
            )
        if reading.again:
            one.again[reading.again] += 1
            one.bytes += start

    def _note(
        self, reading: SourceReading, place: SourcePosition, one: ImportSummary, *, final: bool
    ) -> None:
        """Record facts about a source that no line of it can state."""
        spelled = os.fsencode(reading.path.absolute()).decode("utf-8", "backslashreplace")
        if reading.completed is not None and place.run:
            text = "the record at the end of the file is complete now"
            about = {"offset": reading.completed}
            self._write_note(place, place.run, "completed", text, spelled, about)
        for guess in reading.replaced:
            text = "what was read from the end of the file is replaced by what it holds now"
            about = guess.replacement(place.mapping)
            self._write_note(place, guess.run, "completed", text, spelled, about)
        now = self._home.clock()
        growing = not final and one.lines["accepted"] and now - place.modified / 1e9 < GROWING
        for run in sorted(reading.timeless) if growing else ():
            if now - self._growing.get(run, 0) > GROWING / 10:
                self._growing[run] = now
                text = "the file, which has no times, is being written"
                self._write_note(place, run, "growing", text, spelled)

    def _write_note(
        self,
        place: SourcePosition,
        run: str,
        label: str,
        text: str,
        path: str,
        about: Mapping[str, Any] | None = None,
    ) -> None:
        origin = {"writer": place.importer, "fidelity": "observed", "path": path, **(about or {})}
        line = native.line(
            Noted(label=label, text=text), id=uuid.uuid4().hex, run=run, origin=origin
        )
        self._home.intake.admit([line], native.dialect.name)

    def _keep(
        self,
        lines: list[bytes],
        reading: SourceReading,
        one: ImportSummary,
        *,
        dry: bool,
        dialect: str | None = native.dialect.name,
        bodies: Sequence[Body | None] | None = None,
    ) -> Sequence[Verdict]:
        if dry:
            one.lines["told"] += len(lines)
        if dry or not lines:
            return ()
        self._put_lifted()  # first: a line must not refer to a blob that does not exist
        source: Source = "outside" if bodies is None else "reader"
        verdicts = self._home.intake.admit(lines, dialect, bodies=bodies, source=source)
        one.lines.update([verdict[0] for verdict in verdicts])
        refused = [verdict.problems for verdict in verdicts if verdict[2]]
        one.refused += [(str(reading.path), each) for each in refused[: FEW - len(one.refused)]]
        return verdicts

    def _moved(self, reading: SourceReading) -> KnownSource | None:
        """The known state of a file that was renamed."""
        state = reading.path.stat()
        for each in self._known.values():
            place = each.place
            same = (place.device, place.inode) == (state.st_dev, state.st_ino)
            if same and place.importer == reading.importer.name and not each.path.exists():
                return each
        return None

    def _write_gone(self, known: KnownSource, now: str) -> None:
        place = known.place
        path = os.fsencode(known.path).decode("utf-8", "backslashreplace")
        lines = [
            native.line(
                Noted(
                    label="source-gone", text=f"{path} is not there any more", data={"path": path}
                ),
                id=uuid.uuid4().hex,
                run=run,
                at=now,
                origin={"writer": place.importer, "fidelity": "observed", "path": path},
            )
            for run in place.kept.get("runs", {place.run: 1})
        ]
        self._home.intake.admit(lines, native.dialect.name)


def sources(
    importing: Importing, paths: Sequence[Path], user: Path, environment: Mapping[str, str]
) -> list[Path]:
    """The sources to import: those given, or everything in the usual places."""
    if not paths:
        return importing.find(user, environment)
    if Path("-") in paths:
        raise TracklogError(
            "import reads files, and not standard input",
            "pipe lines of a dialect to `tracklog record`; write the log of an agent to a file",
        )
    missing = [path for path in paths if not path.exists()]
    if missing:
        raise TracklogError(f"{missing[0]} does not exist", "name files or folders that exist")
    return importing.below(paths)


@contextmanager
def _seldom_collected() -> Iterator[None]:
    """Collect garbage less often: millions of small values come and go here without a cycle."""
    before = gc.get_threshold()
    gc.set_threshold(1_000_000, 20, 100)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _age(piece: tuple[int, str, Path, Importer, int]) -> tuple[int, str]:
    return piece[0], piece[1]


SUFFIXES = {
    ".jsonl", ".json", ".zst", ".gz", ".sse", ".ndjson", ".txt", ".db", ".sqlite", ".vscdb", ".eval",
    ".csv",
}  # fmt: skip
AIDER = ".aider."
"""The beginning of the names of Aider's files, whose suffixes are those of any text."""


RESET = ".jsonl.reset."
"""In the names of sessions that OpenClaw has put aside."""


def _may_be_source(path: Path) -> bool:
    named = path.suffix in SUFFIXES or path.name.startswith(AIDER) or RESET in path.name
    return named and path.is_file()
