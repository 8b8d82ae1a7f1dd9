"""Write the facts of a source as native lines, each with its origin and a stable id."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from typing import Any, NamedTuple

import orjson

from tracklog.dialects import tracklog as native
from tracklog.formats.importers._large_values import MEDIA, Lift, Put, Redact, hashed
from tracklog.formats.importers._memory import remember
from tracklog.formats.importers._records import DAMAGED, TORN, Raw
from tracklog.formats.importers._report import ImportReport
from tracklog.model.event import Body
from tracklog.model.fact import Fact, Fidelity, Noted

ROOM = 1 << 20
"""Bytes of a line from which its largest part is moved to a blob."""
EQUALS = 1 << 16
"""How many different records without time and key are remembered."""

SORTED = orjson.OPT_SORT_KEYS
_BIG = ("data", "output", "input", "extra", "error", "context", "evidence", "answer", "usage")
"""Fields with any JSON, which may be moved to a blob completely."""


_LIFTED = ("blocks", *_BIG)
"""Fields in which a long value may be replaced by the reference to its blob."""


class _WaitingFact(NamedTuple):
    """A fact that waits for the end of its record."""

    run: str
    line: bytes
    """Its line from the field after the id on, without the origin."""
    body: Body
    spelled: bool
    changes: Body
    """What its origin has of its own."""


class LineWriter:
    """Writes the facts of one source; the lines wait in `lines` until they are taken."""

    def __init__(
        self,
        writer: str,
        mapping: str,
        path: str,
        *,
        put: Put = hashed,
        redact: Redact | None = None,
        report: ImportReport | None = None,
        memory: dict[str, Any] | None = None,
    ) -> None:
        self.writer = writer
        self.mapping = mapping
        self.path = path
        self.report = report if report is not None else ImportReport()
        self.lift = Lift(put, self._count_lifted, redact)
        self.lines: list[bytes] = []
        self.bodies: list[Body | None] = []
        """The bodies of those lines, where they hold only JSON types."""
        self.quoted: list[tuple[str, bytes]] = []
        """Lines that the source carries in another dialect, each with the dialect's name."""
        self.size = 0
        """Bytes of the waiting lines."""
        self.run = ""
        """The current run."""
        self.agent: str | None = None
        """The agent of facts that name none."""
        self.timeless: set[str] = set()
        """The runs with a line without a time, and with one."""
        self.timed: set[str] = set()
        self.copied = False
        """Whether the current records are a copy of another run's history."""
        memory = self.memory = memory if memory is not None else {}
        self.equals: dict[str, int] = memory.setdefault("equals", {})
        """How many records without time and key were equal, by the beginning of their hash.

        An equal record is recognised if fewer than half of `EQUALS` different ones came between.
        """
        self.keys: dict[str, str] = memory.setdefault("keys", {})
        """Keys by which other sources find this source, and its run."""
        self.runs: dict[str, int] = memory.setdefault("runs", {})
        """The runs of the source, with their number of lines."""
        self.shared: set[str] = set()
        """The records, by their hash, that were resumed after some of their facts were written."""
        self._raw: Raw | None = None
        self._n = 0
        self._hashed = b""
        """The hash of the record and the number of equal ones before it, as used in ids."""
        self._data, self._data_hash = b"", sha256().hexdigest()
        self._named, self._head = "", b""
        self._common: dict[str, Any] = {
            "writer": writer,
            "fidelity": "reconstructed",
            "mapping": mapping,
            "path": path,
        }
        self._origin: dict[str, Any] = {}
        self._held: list[_WaitingFact] | None = None
        """The facts of the current record, where its last content counts."""
        self._key, self._content = "", ""
        self._contents: dict[tuple[str, str], str] = {}
        """The hash of each record of the current conversation, by run and key."""

    def _count_lifted(self, media_type: str) -> None:
        self.report.lifted[media_type] += 1

    def about(
        self,
        raw: Raw,
        *,
        key: Any = None,
        bare: bool = False,
        lift: bool = True,
    ) -> Any:
        """Start a record; returns its value, with every long part moved to a blob.

        `key` is the record's key at its source. A `bare` record has neither time nor key, so equal
        ones are numbered.
        """
        if self._held is not None:
            self.end_record()
        if raw is self._raw:  # its problems were written already
            self._origin |= {"record": key} if key else {}
            return raw.value if not lift or len(raw.data) <= MEDIA else self.lift.value(raw.value)
        self._raw, self._n, before = raw, 0, 0
        data = raw.data
        canonical = orjson.dumps(raw.value, None, SORTED) if raw.exact else data
        digest = sha256(canonical).hexdigest()
        if bare:
            before = self.equals.get(digest[:16], 0)
            remember(self.equals, digest[:16], before + 1, EQUALS)
        self._hashed = b"%b\n%d\n" % (digest.encode(), before)
        self._origin = origin = self._common.copy()
        origin["offset"] = raw.offset
        if data is not self._data:  # pieces of one record share its bytes
            self._data, self._data_hash = data, sha256(data).hexdigest()
        origin["raw"] = self._data_hash
        if key is not None and key != "":
            origin["record"] = key
        if not lift or len(data) <= MEDIA:
            return raw.value
        return self.lift.value(raw.value)

    def about_revised(self, key: str, content: str = "") -> None:
        """Start a record of which the last content counts: it is known by its key.

        Its content is its facts. They wait until it ends, because their ids come from all of them:
        whatever made a fact differ, the record is a new version of itself. `content` stands for
        them where they have the path of the source, which is in no id.
        """
        self.end_record()
        self._raw, self._held, self._key, self._content = None, [], key, content

    @contextmanager
    def revised(self, key: str) -> Iterator[None]:
        """Write facts that also come from files beside, which change: the last content counts.

        They are a record of their own, within the current one.
        """
        mark = self.mark()
        self.about_revised(key)
        yield
        self.end_record()
        self.again(mark)

    def end_record(self) -> None:
        """Write the lines of a record of which the last content counts."""
        held, self._held = self._held, None
        if not held:
            return
        facts = self._content.encode() or b"\n".join([fact.line for fact in held])
        content = sha256(facts).hexdigest()
        run, key, number = held[0].run, self._key, 1
        while self._contents.setdefault((run, key), content) != content:
            number += 1  # another record of this conversation has the same key
            key = f"{self._key}#{number}"
        generation = self.memory.get("generation")
        version = f"{key}\n{content}\n{generation}" if generation else f"{key}\n{content}"
        raw = sha256(version.encode()).hexdigest()
        origin = {**self._common, "offset": 0, "raw": raw, "record": key, "revised": True}
        spelled_origin = orjson.dumps(origin)
        for place, fact in enumerate(held):
            run = fact.run
            head = f"{self.writer}\n{self.mapping}\n{run}\n{raw}\n0\n{place}"
            id = sha256(head.encode("utf-8", "replace")).hexdigest()[:32]
            own = {**origin, **fact.changes} if fact.changes else origin
            ending = orjson.dumps(own) if fact.changes else spelled_origin
            line = b'{"id":"%b",%b,"origin":%b}' % (id.encode(), fact.line, ending)
            self.runs[run] = self.runs.get(run, 0) + 1
            self.lines.append(line)
            body = {**fact.body, "id": id, "origin": own} if fact.spelled else None
            self.bodies.append(body)
            self.size += len(line)

    def end_conversation(self) -> None:
        """Write what waits, and forget the keys: no record of this conversation follows."""
        self.end_record()
        self._contents.clear()

    def mark(self) -> dict[str, Any]:
        """The current record, as JSON, to add to it later."""
        hash, k, _ = self._hashed.decode().split("\n")
        return {"hash": hash, "k": k, "n": self._n, "origin": self._origin}

    def again(self, mark: Mapping[str, Any]) -> None:
        """Resume a marked record."""
        self._raw, self._n = None, mark["n"]
        if self._n:
            self.shared.add(mark["origin"]["raw"])
        self._hashed = f"{mark['hash']}\n{mark['k']}\n".encode()
        self._origin = dict(mark["origin"])

    def draft(self, number: int) -> None:
        """Mark the current record as incomplete: it counts until more of it, or all, is imported.

        Its mapping is older than any other, and that of a later draft is newer.
        """
        self._origin = {**self._origin, "mapping": f"0.{number}"}

    def about_hash(self, digest: str, origin: Mapping[str, Any], before: int = 0) -> None:
        """Start a record by its hash alone; `before` is the number of equal ones before it."""
        self._raw, self._hashed, self._n = None, f"{digest}\n{before}\n".encode(), 0
        self._origin = dict(origin)

    def write(
        self,
        fact: Fact | Body,
        at: str | None = None,
        cause: str | None = None,
        extra: Mapping[str, Any] | None = None,
        run: str | None = None,
        step: str | None = None,
        fidelity: Fidelity | None = None,
        clock: str | None = None,
        n: int | None = None,
    ) -> str:
        """Write one fact of the record; returns the id of its line. `n` is its position, if not the
        next one.

        `clock` names the clock of the time, where the record has none of its own. A fact that is
        already a body is written unchanged.
        """
        run = run or self.run
        id = "" if self._held is not None else self._next_id(run, n)
        body: Body = {"id": id, "run": run} if at is None else {"id": id, "run": run, "at": at}
        spelled = type(fact) is dict
        body |= fact if spelled else native.body_of(fact)  # type: ignore[arg-type]  # as it says
        if self.agent is not None and "agent" not in body:
            body["agent"] = self.agent
        if step is not None and "step" not in body:
            body["step"] = step
        if self.copied:
            body["copied"] = True
        if cause:
            body["cause"] = cause
        if extra:
            body["extra"] = extra
        (self.timeless if at is None else self.timed).add(run)
        if self._held is not None:
            changes = {"fidelity": fidelity, "clock": clock}
            self._hold(run, body, {k: each for k, each in changes.items() if each is not None})
            return id
        origin = self._origin
        if fidelity is not None:
            origin = {**origin, "fidelity": fidelity}
        if clock is not None:
            origin = {**origin, "clock": clock}
        body["origin"] = origin
        self.add(run, body, spelled=spelled)
        return id

    def add(self, run: str, body: Body, *, spelled: bool = True) -> None:
        """Add a line by its complete body; `spelled` says whether that has only JSON types."""
        line = orjson.dumps(body, str)
        size = len(line)
        if size > ROOM:
            line, spelled = orjson.dumps(self._lighter(body), str), False
            size = len(line)
        self.runs[run] = self.runs.get(run, 0) + 1
        self.lines.append(line)
        self.bodies.append(body if spelled else None)
        self.size += size

    def _next_id(self, run: str, n: int | None) -> str:
        place = self._n if n is None else n
        self._n = place + 1
        if run is not self._named:
            self._named = run
            head = f"{self.writer}\n{self.mapping}\n{run}\n"
            self._head = head.encode("utf-8", "replace")
        return sha256(b"%b%b%d" % (self._head, self._hashed, place)).hexdigest()[:32]

    def _hold(self, run: str, body: Body, changes: Body) -> None:
        assert self._held is not None
        del body["id"]
        line, spelled = orjson.dumps(body, str), True
        if len(line) > MEDIA:
            for key in body.keys() & _LIFTED:
                value = body[key]
                body[key] = self.lift.value(list(value) if key == "blocks" else value, key)
            line = orjson.dumps(body, str)
        if len(line) > ROOM:
            body, spelled = self._lighter(body), False
            line = orjson.dumps(body, str)
        self._held.append(_WaitingFact(run, line[1:-1], body, spelled, changes))

    def flaws(self, raw: Raw) -> None:
        """Write the problems of a record, and store the bytes of one that cannot be read."""
        for name, words in raw.flaws:
            self.report.repaired[name] += 1
            if name == TORN:
                self.memory["torn"] = raw.offset
            size = max(raw.through - raw.offset, len(raw.data))
            finding: dict[str, Any] = {"name": name, "bytes": size}
            if raw.data and (raw.value is DAMAGED or name == "bad-utf8"):
                finding["kept"] = self.lift.blob(
                    raw.data,
                    "application/octet-stream",
                    raw.data[:100].decode("utf-8", "replace"),
                )
            # The line may turn out to be complete: then its own facts are numbered from 0 on.
            n = -1 if name == TORN else None
            self.write(Noted(label="finding", kind=name, text=words, data=finding), n=n)

    def unknown(self, kind: str, value: Any, **more: Any) -> None:
        """Store a complete record of a type that the mapping does not know."""
        self.report.unknown[kind] += 1
        self.write(Noted(label=kind or "record", kind=kind, data=value), **more)

    def quote(self, dialect: str, line: bytes) -> None:
        """Add a line that the source carries in another dialect, unchanged."""
        self.quoted.append((dialect, line))
        self.size += len(line)

    def take_quoted(self) -> list[tuple[str, bytes]]:
        """Take the quoted lines."""
        quoted, self.quoted = self.quoted, []
        return quoted

    def take(self) -> list[bytes]:
        """Take the waiting lines."""
        lines, self.lines, self.size, self.bodies = self.lines, [], 0, []
        return lines

    def _lighter(self, body: Body) -> Body:
        """A line whose largest parts are moved to blobs, until it is short enough."""
        body = dict(body)
        for size, key in sorted(
            ((len(_dumped(body[k])), k) for k in _BIG if k in body), reverse=True
        ):
            if size > ROOM // 8:
                body[key] = self.lift.whole(body[key])
            if len(_dumped(body)) <= ROOM:
                return body
        for key in ("text", "task", "reason"):
            if isinstance(body.get(key), str) and len(body[key]) > ROOM // 8:
                lifted = self.lift.text(body[key])
                body["extra"] = {**body.get("extra", {}), key: lifted}
                body[key] = f"{body[key][:500]}…"
        if isinstance(blocks := body.get("blocks"), list | tuple) and len(_dumped(blocks)) > ROOM:
            body["blocks"] = [
                {"type": "stream", "provider_type": "blocks", "chunk": self.lift.whole(blocks)}
            ]
        return body


def _dumped(value: Any) -> bytes:
    return orjson.dumps(value, default=str)


def in_seconds(value: Any, per: float = 1) -> float | None:
    """A duration in seconds, from a number of units of which `per` make one second; None otherwise."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e15:
        return None
    return value / per


_UTC = re.compile(
    r"([0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01]))"
    r"T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,9})?Z"
)


def utc_time(value: Any) -> str | None:
    """A time as lines have it: UTC, with the precision of the source; None for anything else.

    Numbers are seconds since 1970, or milliseconds where seconds would be far in the future.
    """
    if isinstance(value, str):
        match = _UTC.fullmatch(value)
        if match and _is_day(match[1]):
            return value
        return _converted(value)
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e14:
        scaled = value / 1000 if value > 1e11 else value
        return _spelled(datetime.fromtimestamp(scaled, UTC))
    return None


@lru_cache(64)
def _is_day(day: str) -> bool:
    try:
        datetime.fromisoformat(day)
    except ValueError:
        return False
    return True


def _converted(text: str) -> str | None:
    try:
        time = datetime.fromisoformat(text)
        time = time if time.tzinfo else time.replace(tzinfo=UTC)
        return _spelled(time.astimezone(UTC))
    except (ValueError, OverflowError):
        return None


def _spelled(time: datetime) -> str:
    text = time.isoformat(timespec="microseconds")[:26].rstrip("0").rstrip(".")
    return f"{text}Z"
