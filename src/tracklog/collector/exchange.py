"""Export to other formats and convert to other dialects, with a report of the losses."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import orjson
from starlette.responses import Response, StreamingResponse

from tracklog.answers import Arguments
from tracklog.collector.ingest import check_lines, cut, numbered, refusal
from tracklog.dialects.checking import checker, checker_for
from tracklog.formats import registry as formats
from tracklog.formats.convert import convert as convert_to
from tracklog.formats.export import export_run_now
from tracklog.formats.loss import LossReport
from tracklog.home import registry
from tracklog.journal import proof as proofs
from tracklog.journal.checkpoints.checkpoint import Checkpoint, extension
from tracklog.journal.checkpoints.notes import read_note
from tracklog.journal.frame import Record, Run, stamp
from tracklog.journal.journal import Journal
from tracklog.model.event import Event
from tracklog.web import bodies
from tracklog.web.trouble import Trouble, json_response

if TYPE_CHECKING:
    from tracklog.collector.app import Collector
    from tracklog.collector.shapes import ProofCheck, RunCheckpoint, Verdict
    from tracklog.dialects import Dialect
    from tracklog.formats.exporters import ExportRun
    from tracklog.home.home import Home
    from tracklog.journal.proof import Proof
    from tracklog.journal.storages import Storage
    from tracklog.web.routing import RoutedRequest

_ALONE = {"Content-Security-Policy": "sandbox; default-src 'none'"}
"""Exported content may hold anything: a browser saves it, and runs nothing of it."""


async def export(collector: "Collector", call: "RoutedRequest") -> Response:
    """A run in a foreign format, piece by piece."""
    home, query = collector.home, call.query
    run = (call.names["family"], call.names["run"])
    exporter = formats.exporter(call.names["format"])
    chosen = exporter.chosen(options_of(call))

    def prepare() -> "tuple[ExportRun, LossReport | None]":
        exported = export_run_now(home, here(home, run), prove=exporter.proof == "inside")
        wanted = query["report"] or query["strict"]
        return exported, exporter.losses(exported, chosen) if wanted else None

    exported, losses = await collector.runner.ask(prepare)
    if query["report"] and losses is not None:
        return json_response(losses.as_json())
    if losses is not None and not losses.lossless:
        raise Trouble(
            409,
            "something would be lost",
            "leave `strict` out to get it anyway",
            report=losses.as_json(),
        )
    headers = {**_ALONE, "Content-Disposition": "attachment"}
    kind = exporter.type_of(chosen)
    return StreamingResponse(exporter.write(exported, chosen), 200, headers, kind)


async def proof(collector: "Collector", call: "RoutedRequest") -> Response:
    """The proof that `contracts/tracklog_verify.py` checks a run's lines with."""
    home, run = collector.home, (call.names["family"], call.names["run"])

    def prove() -> "Proof | ProofCheck":
        document = proofs.prove_all(home.storage_of(run), here(home, run))
        if not call.query["check"]:
            return document
        return _checked(home, run, document, call.query["seen"])

    return json_response(await collector.runner.run(prove))


def _checked(home: "Home", run: Run, proof: "Proof", seen: int | None) -> "ProofCheck":
    """Whether the lines are still those that were chained."""
    storage = home.storage_of(run)
    own = Journal(storage.store)  # a proof has the numbers of its own shard
    records = own.records(run=run, through=proof["head"]["through"])
    faults = proofs.check_proof(proof, [each.line for each in records if each.line])
    return {
        "records": len(proof["records"]),
        "head": proof["head"],
        "whole": not faults,
        "faults": [{"seq": fault.seq, "message": fault.why} for fault in faults[:100]],
        "checkpoint": _checkpoint(storage, proof, seen),
    }


def _checkpoint(storage: "Storage", proof: "Proof", seen: int | None) -> "RunCheckpoint | None":
    """The checkpoint up to which the proof shows that nothing is missing."""
    if "complete" not in proof:
        return None
    note = read_note(proof["complete"]["checkpoint"].encode())
    stated = Checkpoint.of(note.text)
    made: RunCheckpoint = {
        "origin": stated.origin,
        "records": stated.size,
        "root": stated.root.hex(),
        "witnesses": [{"name": each.name, "at": stamp(each.at or 0)} for each in note.witnesses()],
    }
    if seen is not None and seen < stated.size:
        made["proof"] = [each.hex() for each in extension(storage, seen, stated.size)]
    return made


async def blob(collector: "Collector", call: "RoutedRequest") -> Response:
    """A large value that is stored outside of its line."""
    home, name = collector.home, call.names["sha256"]
    if len(name) != 64 or not set(name) <= set("0123456789abcdef"):
        raise Trouble(404, "there is no such blob", "its name is 64 hexadecimal digits")
    content = await collector.runner.run(lambda: home.blobs.get(name))
    headers = {**_ALONE, "Content-Disposition": "attachment"}
    return Response(content, 200, headers, "application/octet-stream")


async def convert(collector: "Collector", call: "RoutedRequest") -> Response:
    """Lines of the body, or a stored run, converted to another dialect; nothing is recorded."""
    home, query = collector.home, call.query
    to = registry.dialect(call.names["dialect"])
    body = await bodies.read(call.receive, call.headers, collector.held)
    try:
        check_lines(body.count(b"\n") + 1, collector.limits)
        return await collector.runner.run(
            lambda: Response(_converted(home, to, body, query), media_type="application/json")
        )
    finally:
        collector.held.now -= len(body)


def _converted(home: "Home", to: "Dialect", body: bytes, query: Arguments) -> bytes:
    refused: list[Verdict] = []
    report = LossReport()
    if query["run"] is not None:
        if body.strip():
            raise Trouble(400, "there are both a run and lines", "send one of them")
        records = iter(list(home.journal.records(run=home.run(query["run"]))))
    else:
        records = _records_of(home, body, query["from"], refused)
    lines = list(convert_to(records, home.dialects, to, report, carry=not query["bare"]))
    if query["strict"] and not report.lossless:
        raise Trouble(
            409,
            "something would be lost",
            "leave `strict` out to get it anyway",
            report=report.as_json(),
        )
    rest = orjson.dumps({"report": report.as_json(), "refused": refused})
    return b'{"lines":[%b],%b' % (b",".join(lines), rest[1:])


def _records_of(
    home: "Home", body: bytes, dialect: str | None, refused: "list[Verdict]"
) -> Iterator[Record]:
    """The lines of a body as records that are not stored."""
    check_line = (
        checker(registry.dialect(dialect)) if dialect else checker_for(home.dialects.values())
    )
    lines, blank = cut(body)
    now = stamp(home.clock())
    for number, line in zip(numbered(len(lines), blank), lines, strict=True):
        result = check_line(line)
        if isinstance(result, Event):
            yield Record(number, now, result.dialect, result.family, result.run, line)
        else:
            refused.append(refusal(number, result.problems))


def here(home: "Home", run: Run) -> Run:
    """The run; refused where no record of it is stored."""
    if not home.journal.read(0, 1, run):
        raise Trouble(404, f"there is no run {':'.join(run)!r} here", "GET /api/runs lists them")
    return run


def options_of(call: "RoutedRequest") -> dict[str, str]:
    """The options of a format."""
    return dict(_pairs(call.query["option"]))


def _pairs(text: str | None) -> Iterator[tuple[str, str]]:
    for option in text.split(",") if text else ():
        name, sign, value = option.partition("=")
        if not sign:
            raise Trouble(
                400, f"{option[:50]!r} is not NAME=VALUE", "for example option=content=yes"
            )
        yield name, value
