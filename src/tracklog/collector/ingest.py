"""Receive lines: `POST /api/events/{dialect}`, a bare ASGI route because every event passes it."""

import asyncio
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

import orjson

from tracklog.collector.committing import Late
from tracklog.collector.metrics import WORD
from tracklog.dialects import tracklog as native
from tracklog.dialects.recognition import Hints
from tracklog.intake.reserved import RESERVED
from tracklog.model.event import Refusal
from tracklog.model.fact import Answered, Marked
from tracklog.model.lines import BOM
from tracklog.web import bodies
from tracklog.web.guard import LOCAL, MASTER
from tracklog.web.trouble import Trouble

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tracklog.collector.app import Collector
    from tracklog.collector.shapes import Admitted
    from tracklog.collector.shapes import Problem as ProblemRow
    from tracklog.collector.shapes import Verdict as VerdictRow
    from tracklog.dialects import Dialect
    from tracklog.intake.intake import Checked
    from tracklog.intake.verdicts import Verdict, Verdicts
    from tracklog.model.event import Passed, Problem
    from tracklog.web.bodies import Held
    from tracklog.web.limits import Limits
    from tracklog.web.routing import RoutedRequest
    from tracklog.web.tokens import Identity

TYPES = frozenset(
    f"application/{name}".encode()
    for name in ("x-ndjson", "ndjson", "jsonl", "x-jsonlines", "json", "octet-stream")
)
"""Content types that a form on another page cannot send."""

BY_ADDRESS = "POST to /api/events/{}"
"""How a sender names the dialect of its lines."""

SEEN = b"tracklog-seen"
"""The header with the number of records of the last checkpoint that a client saw."""

SEND_JSON = "tracklog.send_json"
"""An extension of the scope: our own connection sends a complete answer at once, if it can."""

_LINE = 256  # bytes that a line takes in addition to its own, while it is checked
RATE = 1 << 20
"""Bytes that are stored in a second at least, or the sender is asked to wait."""
_INLINE = 256 << 10  # bytes that are admitted without a thread, where there is no disk to wait for
_JSON = (b"content-type", b"application/json")


async def ingest(collector: "Collector", call: "RoutedRequest") -> None:
    """Admit the lines of a body and return the verdicts."""
    held = collector.held
    dialect = call.names.get("dialect")
    if dialect is not None and dialect not in collector.home.dialects:
        known = ", ".join(sorted(collector.home.dialects))
        raise Trouble(404, f"there is no dialect {dialect!r}", f"the dialects are: {known}")
    body = await bodies.read(call.receive, call.headers, held)
    weight, small = len(body), len(body) <= _INLINE
    loop = asyncio.get_running_loop()
    try:
        lines, blank = cut(body) if small else ([], [])  # which takes no longer than to count them
        count = len(lines) + len(blank) if small else body.count(b"\n") + 1
        check_lines(count, collector.limits)
        held.take(count * _LINE)
        weight += count * _LINE
        if not small:
            lines, blank = await loop.run_in_executor(collector.pool, cut, body)
        collector.rate.take(len(lines))
        key, intake = _batch_key(call), collector.home.intake
        check = partial(intake.check, lines, dialect, batch=key, source="operator")
        checked = check() if small else await loop.run_in_executor(collector.pool, check)
        if "operate" not in call.identity.rights:
            _check_writes(call.identity, checked)
        elif call.identity not in (LOCAL, MASTER):
            _check_names(call.identity, checked)
        if collector.inline and small:
            verdicts = intake.commit_one(checked)
        else:
            seconds = collector.limits.append_seconds + weight / RATE
            try:
                verdicts = await collector.committer.store(checked, seconds)
            except Late as late:
                if late.commit.begun:  # its lines are in memory until it ends
                    late.commit.on_end = partial(_give_back, held, weight)
                    weight = 0
                raise late_trouble() from None
        collector.hub.poke()
        collector.counts.lines(dialect, verdicts)
        hint = "" if dialect else uncertain(verdicts, collector.home.dialects.values())
        respond = partial(answer, verdicts, blank, body, verbose=call.query["verbose"], hint=hint)
        result = respond() if small else await loop.run_in_executor(collector.pool, respond)
    finally:
        held.now -= weight
    if (worker := collector.checkpointer) is not None and (seen := worker.seen):
        if (old := call.headers.get(SEEN, b"")).isdigit() and len(old) < 19:
            seen = await loop.run_in_executor(collector.pool, worker.seen_since, int(old))
        result = b'%b,"checkpoint":%b}\n' % (result[:-2], seen) if seen else result
    await _send(call, result)


def _check_writes(identity: "Identity", checked: "Checked") -> None:
    """Refuse all lines if one is of a run that the token is not for, or is an act of an operator."""
    for refused in checked.results:
        if isinstance(refused, Refusal) and refused.problems[0].code == RESERVED:
            raise Trouble(
                403,
                f"{identity.name!r} may only write: {refused.problems[0].message}",
                "nothing was stored; only tracklog itself writes this",
                code=RESERVED,
            )
    for each in checked.events:
        if not identity.may_see(each.run):
            raise Trouble(
                403,
                f"{identity.name!r} may only write to runs that begin with {identity.run_prefix!r}, "
                f"and a line is of {each.run[:100]!r}",
                "nothing was stored",
            )
        if each.dialect == native.dialect.name and _is_act(each):
            raise Trouble(
                403,
                f"{identity.name!r} may only write: a line of {each.run[:100]!r} is an act of an "
                f"operator ({each.kind})",
                "nothing was stored; answer, mark and stop runs with a token that may operate",
                code=RESERVED,
            )


def _check_names(identity: "Identity", checked: "Checked") -> None:
    """Refuse all lines if one says that somebody else than the owner of the token acted."""
    for each in checked.events:
        if each.dialect != native.dialect.name or not _is_act(each):
            continue
        body = orjson.loads(each.line)
        data = body.get("data")
        by = body.get("by") or (data.get("by") if isinstance(data, dict) else None)
        if isinstance(by, str) and by != identity.name and not by.endswith(f" ({identity.name})"):
            raise Trouble(
                403,
                f"the token is that of {identity.name!r}, and a line of {each.run[:100]!r} says that "
                f"{by[:100]!r} did it",
                "nothing was stored; leave `by` out, or give the name of the token",
                code=RESERVED,
            )


def _is_act(passed: "Passed") -> bool:
    """Whether a native line is what operators and the collector write: an answer that names who gave
    it, a mark, and anything about a run of another family, such as a request to stop it.
    """
    if passed.family != native.dialect.family:
        return True
    if passed.kind == Answered.__name__:
        return orjson.loads(passed.line).get("by") is not None
    return passed.kind == Marked.__name__


def _give_back(held: "Held", size: int) -> None:
    held.now -= size


def late_trouble() -> Trouble:
    """The answer to lines that could not be stored in time."""
    return Trouble(
        503,
        "the lines are not stored yet: the disk or the database does not answer",
        "nothing was acknowledged; send them again, under the same batch key if they have one",
        headers={"Retry-After": "5"},
    )


def check_lines(count: int, limits: "Limits") -> None:
    """Refuse a body of too many lines before any is read; blank ones cost as much."""
    if count > limits.lines:
        raise Trouble(
            413,
            f"the body has more than {limits.lines:,} lines",
            "send it in several requests",
        )


def uncertain(verdicts: "Verdicts", dialects: "Iterable[Dialect]") -> str:
    """Hints about lines that were recognised, and might be of another dialect."""
    hints = Hints(dialects, BY_ADDRESS)
    lines_of_runs = {(each.dialect, each.run): None for each in verdicts}
    return " ".join(hint for dialect, run in lines_of_runs if (hint := hints.of(dialect, run)))


def cut(body: bytes) -> tuple[list[bytes], list[int]]:
    """The lines of a body, and the numbers of the blank ones; a CR at the end is removed."""
    lines = body.split(b"\n")
    if not lines[-1]:
        lines.pop()
    if lines and lines[0].startswith(BOM):
        lines[0] = lines[0][3:]
    if b"\r" in body:
        lines = [line.removesuffix(b"\r") for line in lines]
    blank: list[int] = []
    if lines and min(lines) < b"!":  # one at least is empty or begins with a blank
        blank = [n for n, line in enumerate(lines, 1) if not line.strip()]
        lines = [line for line in lines if line.strip()]
    return lines, blank


def answer(
    verdicts: "Verdicts",
    blank: list[int],
    body: bytes,
    *,
    verbose: bool = False,
    hint: str = "",
) -> bytes:
    """Counts, the last number, and a verdict for each line that was not simply accepted."""
    marked = body.startswith(BOM)
    plain = not (verbose or marked or hint or verdicts.replayed)
    if plain and set(map(WORD, verdicts)) == {"accepted"}:
        return b'{"accepted":%d,"duplicate":0,"refused":0,"last_seq":%d,"verdicts":[]}\n' % (
            len(verdicts),
            verdicts[-1][1] or 0,
        )
    counts = Counter(map(WORD, verdicts))
    admitted: Admitted = {
        "accepted": counts["accepted"],
        "duplicate": counts["duplicate"],
        "refused": counts["refused"],
        "last_seq": max((each.seq for each in verdicts if each.seq is not None), default=None),
        "verdicts": [
            _row(number, verdict)
            for number, verdict in zip(numbered(len(verdicts), blank), verdicts, strict=True)
            if verbose or verdict.verdict != "accepted"
        ],
    }
    if verdicts.replayed:
        admitted["replayed"] = True
    if marked:
        admitted["bom"] = True
    if counts["refused"]:
        hint = _pretty(body) or hint
    if hint:
        admitted["hint"] = hint
    return orjson.dumps(admitted, option=orjson.OPT_APPEND_NEWLINE)


def _row(number: int, verdict: "Verdict") -> "VerdictRow":
    if verdict.seq is None:
        return refusal(number, verdict.problems)
    return {"line": number, "verdict": verdict.verdict, "seq": verdict.seq}


def refusal(number: int, problems: "Iterable[Problem]") -> "VerdictRow":
    """The row of a line that is refused."""
    rows: list[ProblemRow] = [
        {
            "pointer": each.pointer,
            "message": each.message,
            "hint": each.hint,
            "code": each.code,
        }
        for each in problems
    ]
    return {"line": number, "verdict": "refused", "problems": rows}


def numbered(count: int, blank: list[int]) -> "list[int] | range":
    """The numbers of the lines in the body, blank ones counted."""
    if not blank:
        return range(1, count + 1)
    gone = set(blank)
    return [n for n in range(1, count + len(blank) + 1) if n not in gone]


def _pretty(body: bytes) -> str:
    """A hint for a sender of one document over many lines, or of an array."""
    start = body.removeprefix(BOM).lstrip()[:1]
    if start not in (b"{", b"["):
        return ""
    try:
        document = orjson.loads(body.removeprefix(BOM))
    except orjson.JSONDecodeError:
        return ""
    if isinstance(document, list):
        return "the body is a JSON array; send one object per line (`jq -c '.[]'` makes it so)"
    if b"\n" in body.strip():
        return "the body is pretty-printed; send each object on one line (`jq -c .` makes it so)"
    return ""


def _batch_key(call: "RoutedRequest") -> str | None:
    header = call.headers.get(b"idempotency-key")
    key: str | None = call.query["batch"]
    if header is not None:
        other = header.decode("latin-1").strip()
        if key is not None and key != other:
            raise Trouble(
                400,
                "the header `Idempotency-Key` and the parameter `batch` name two different keys",
                "send one of them; nothing was recorded",
            )
        key = other
    if key is None:
        return None
    if not key:
        raise Trouble(
            400,
            "the batch key is empty",
            "leave the header `Idempotency-Key` and the parameter `batch` out, or give the batch a "
            "name of its own",
        )
    if len(key) > 256:
        raise Trouble(400, "the batch key is longer than 256 characters", "send a shorter one")
    return key


async def _send(call: "RoutedRequest", body: bytes) -> None:
    send_json = (call.scope.get("extensions") or {}).get(SEND_JSON)
    if send_json is not None and send_json(body):
        call.status = 200
        return
    send = call.send
    size = (b"content-length", b"%d" % len(body))
    await send({"type": "http.response.start", "status": 200, "headers": [_JSON, size]})
    await send({"type": "http.response.body", "body": body, "more_body": False})
