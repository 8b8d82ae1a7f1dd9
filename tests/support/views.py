"""Every view of a run, by name, and what each says of calls, failures, tokens, cost, status, times.

All views of the product are listed here: in `VIEWS` those of one run, in `TOTALS` those of all runs
together, in `LOG` the methods of the public API, and in `SERVED` the routes. A question whose rows
have a `run` and numbers of the law is a view without being listed; `OTHER_NUMBERS` lists rows of
something else.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, fields, is_dataclass, replace
from functools import cached_property
from inspect import get_annotations, signature
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote

import orjson

from support.asking import ask
from tracklog import Log
from tracklog.answers import Question
from tracklog.answers.duplicates import same_conversation
from tracklog.answers.registry import questions
from tracklog.collector.results import shapes_of
from tracklog.folds import epoch_ms
from tracklog.folds import runs as runs_fold
from tracklog.formats import registry as formats
from tracklog.formats.convert import convert
from tracklog.formats.export import export, export_run_of
from tracklog.formats.importing import Importing
from tracklog.formats.live import live_of
from tracklog.formats.loss import LossReport
from tracklog.home import registry
from tracklog.home.home import Home
from tracklog.journal.frame import stamp

Said = Mapping[str, Any]
SUMMARY = {
    "calls": "tool_calls", "failures": "tool_failures", "tokens": "tokens", "cost": "cost_usd",
    "status": "status", "first": "first_at", "last": "last_at", "title": "title",
}  # fmt: skip  # what the law is about, and what a row calls it


OTHER_NAMES = {"calls": "calls", "failures": "failures", "tokens": "total_tokens"}
"""What rows of other questions call the same."""


NUMBERS = {"calls", "failures", "total_tokens", *SUMMARY.values()}
"""What a field is called that holds a number of the law."""
OTHER_NUMBERS = {
    "SpanRow": "the cost of a part of a run",
    "TurnRow": "the cost of a turn",
    "GraphNode": "the numbers of an agent, or of a sub-run in the graph of another run",
    "GraphEdge": "the tokens between two agents",
    "DensityAnswer": "the failures in each slice of a run's time",
    "TurnCompaction": "the tokens of a context before and after it was compacted",
    "TraceRow": "the calls in each slice of a run's time",
    "AgentNowRow": "the status of an agent",
    "TopAgentRow": "the status of an agent",
    "ContestRow": "the tokens of a contest",
    "Summary": "the tokens of a contest",
    "InboxRow": "the title of the run that asks",
    "SearchRow": "the title of the run that was found",
}
"""Rows with such a field that are not of one run, and what the field says."""
LIKE_NUMBERS = {"call", "calls", "failure", "failures", "failed", "token", "tokens", "cost", "usd"}
LIKE_NUMBERS |= {"status", "title"}
"""Words in the names of fields that show a number of the law under another name."""


def summary(row: Mapping[str, Any]) -> dict[str, Any]:
    """What a row says of a run: of the fields of the law, those that it has."""
    names = [*OTHER_NAMES.items(), *SUMMARY.items()]
    return {name: row[key] for name, key in names if key in row}


class Look:
    """A home at one moment."""

    def __init__(self, home: Home) -> None:
        self.home, self.index = home, home.index
        self.index.catch_up()
        self.now = max((each.received for each in home.journal.records()), default="")

    @property
    def keys(self) -> list[str]:
        keys = [f"{family}:{run}" for family, run in sorted(self.home.runs())]
        return [key for key in keys if self.index.state("runs", key).run]

    @cached_property
    def rows(self) -> dict[str, Said]:
        """What the list of runs says of each."""
        rows = ask(self.home, "runs", now=self.now, limit=None)
        return {f"{row['family']}:{row['run']}": summary(row) for row in rows}

    @cached_property
    def end(self) -> str:
        """A moment behind everything that happened, and that was received."""
        told = [self.now, *(row[name] for row in self.rows.values() for name in ("first", "last"))]
        return stamp(max(epoch_ms(at) or 0 for at in told) / 1000 + 1)

    def run(self, key: str) -> tuple[str, str]:
        family, _, run = key.partition(":")
        return family, run

    def export_run(self, key: str) -> Any:
        return replace(export_run_of(self.home, self.run(key)), below=())


def _row(rows: list[dict[str, Any]], key: str) -> dict[str, Any]:
    return next(row for row in rows if f"{row['family']}:{row['run']}" == key)


def runs(look: Look, key: str) -> Said:
    return look.rows[key]


def show_at(look: Look, key: str) -> Said:
    return summary(ask(look.home, "show", run=key, at=look.home.journal.last))


def shows_runs(kind: type) -> bool:
    """Whether the rows of a class show numbers of the law, each row those of one run."""
    names = {name for each in kind.__mro__ for name in get_annotations(each)}
    return "run" in names and bool(NUMBERS & names) and kind.__name__ not in OTHER_NUMBERS


def unlisted(question: Question) -> set[str]:
    """The rows of a question that may show numbers of one run, and that no view compares."""
    about_one = any(each.name == "run" and each.required for each in question.params)
    if question.name in {*QUESTIONS, *TOTALS}:
        return set()
    return {
        kind.__name__
        for kind in shapes_of([question.result])
        for names in [{name for each in kind.__mro__ for name in get_annotations(each)}]
        for alike in [any(LIKE_NUMBERS & {*name.split("_")} for name in names)]
        if (NUMBERS & names or (alike and (about_one or "run" in names)))
        and kind.__name__ not in OTHER_NUMBERS
    }


def key_of(row: Any) -> str:
    """The run of a row: in two fields, or in one."""
    return f"{row.family}:{row.run}" if hasattr(row, "family") else str(row.run)


def rows_of_runs(answer: object) -> Iterator[Any]:
    """The rows of runs in an answer, at any depth."""
    if shows_runs(type(answer)):
        yield answer
    elif isinstance(answer, list):
        for each in answer:
            yield from rows_of_runs(each)
    elif is_dataclass(answer):
        for field in fields(answer):
            yield from rows_of_runs(getattr(answer, field.name))


def asked(question: Question) -> "View":
    """What the rows of runs in the answer to a question say."""

    def view(look: Look, key: str) -> Said:
        given: dict[str, Any] = {
            each.argument: value
            for each in question.params
            for name, value in {"run": key, "limit": 10_000, "around": True}.items()
            if each.name == name
        }
        if "now" in signature(question.ask).parameters:
            given["now"] = look.now
        rows = {
            orjson.dumps(summary(asdict(row)))
            for row in rows_of_runs(question.ask(look.home, **given))
            if key_of(row) == key
        }
        if question.name == "hits" and not rows:
            return {}  # there is no text in the run
        [row] = rows
        return orjson.loads(row)

    return view


def diff(look: Look, key: str) -> Said:
    deltas = ask(look.home, "diff", a=key, b=key, now=look.now)["deltas"]
    return summary({name: each["a"] for name, each in deltas.items()})


def costs(look: Look, key: str) -> Said:
    return _cost_of(look, key, ask(look.home, "costs", by="run"))


def _cost_of(look: Look, key: str, rows: list[dict[str, Any]]) -> Said:
    if key in same_conversation(look.index):
        return {}  # another run has the same conversation, and is counted
    found = [row for row in rows if row["of"] == key]
    row = found[0] if found else {"total_tokens": None, "cost_usd": None}
    return {"tokens": row["total_tokens"], "cost": row["cost_usd"]}


def run_spends(look: Look, key: str) -> Said:
    return _spent(look, key, ask(look.home, "run-spends", run=key))


def _spent(look: Look, key: str, rows: list[dict[str, Any]]) -> Said:
    if key in same_conversation(look.index):
        return {}  # another run has the same conversation, and is counted
    tokens = [row["total_tokens"] for row in rows if row["total_tokens"] is not None]
    costs = [row["cost_usd"] for row in rows if row["cost_usd"] is not None]
    return {
        "tokens": sum(tokens) if tokens else None,
        "cost": round(math.fsum(costs), 9) if costs else None,
    }


def story(look: Look, key: str) -> Said:
    return _calls_of(ask(look.home, "story", run=key, limit=100_000)["records"])


def shown(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The facts that a story shows."""
    current = (record for record in records if not record.get("superseded"))
    return [fact for record in current for fact in record["facts"] if not fact.get("again")]


def _calls_of(records: list[dict[str, Any]]) -> Said:
    """Calls as a story shows them, each once."""
    facts = [fact for fact in shown(records) if not fact.get("copied")]
    kinds = Counter(fact["fact"] for fact in facts)
    torn = sum(fact["fact"] == "Returned" and fact.get("torn", False) for fact in facts)
    failed = sum(fact["fact"] == "Returned" and fact.get("ok") is False for fact in facts)
    return {"calls": kinds["Called"] + torn, "failures": failed}


def query(look: Look, key: str) -> Said:
    family, run = (part.replace("'", "''") for part in look.run(key))
    columns = "tool_calls, tool_failures, first_at, last_at"
    sql = f"SELECT {columns} FROM runs WHERE family='{family}' AND run='{run}'"
    [row] = ask(look.home, "query", sql=sql)["rows"]
    return dict(zip(("calls", "failures", "first", "last"), row, strict=True))


def exported(look: Look, key: str) -> Said:
    """What every exporter is given to write."""
    return summary(export_run_of(look.home, look.run(key)).summary)


def followed(look: Look, key: str) -> Said:
    """What those who write a run while it goes on know of it at its last record."""
    exporter = next(each for each in formats.exporters() if each.follow is not None)
    live = live_of(look.home, look.run(key), exporter, exporter.chosen())
    live.join(0)
    while live.read_on():
        pass
    return summary(live._export_run().summary)


def atif(look: Look, key: str) -> Said:
    return _atif(look, key, orjson.loads(b"".join(export(look.export_run(key), "atif"))))


def _atif(look: Look, key: str, page: dict[str, Any]) -> Said:
    calls = [call for step in page["steps"] for call in step.get("tool_calls", ())]
    extra = page["extra"]["tracklog"]
    found: dict[str, Any] = {"status": extra["status"], "title": extra.get("title")}
    facts = shown(ask(look.home, "story", run=key, limit=100_000)["records"])
    if not any(fact.get("torn") or fact.get("copied") for fact in facts):
        found["calls"] = len(calls)  # else it shows a call that is not counted, or the reverse
    metrics = page["final_metrics"]
    if page.get("subagent_trajectories"):  # the total is that of the run and of those below it
        return found | {"cost": metrics.get("extra", {}).get("root_cost_usd")}
    return found | {"cost": metrics.get("total_cost_usd")}


def html(look: Look, key: str) -> Said:
    page = b"".join(export(look.export_run(key), "html")).decode()
    stats = dict(re.findall(r"<dt>([^<]+)</dt><dd>(?:<[^>]+>)?([^<]*)", page))
    calls, failures = 0, 0
    if "tool calls" in stats:
        calls = int(re.match(r"[\d,]+", stats["tool calls"])[0].replace(",", ""))
        failed = re.search(r"([\d,]+) failed", stats["tool calls"])
        failures = int(failed[1].replace(",", "")) if failed else 0
    tokens = int(stats["tokens"].replace(",", "")) if "tokens" in stats else None
    return {"calls": calls, "failures": failures, "tokens": tokens, "status": stats["status"]}


def _alone(look: Look, key: str, home: Home, fields: tuple[str, ...]) -> Said:
    """What the only run of another home says, which was made of a run of this one.

    What other runs spent before it is not known there.
    """
    there = Look(home)
    [other] = there.keys
    said = runs(there, other)
    shared = _shares_spends(look, key)
    return {name: said[name] for name in fields if not (shared and name in ("tokens", "cost"))}


def _shares_spends(look: Look, key: str) -> bool:
    """Whether another run told of the same spends."""
    alone = summary(runs_fold.row(look.index.state("runs", key), look.now))
    return any(alone[name] != runs(look, key)[name] for name in ("tokens", "cost"))


ALL = tuple(SUMMARY)
AT_REST = tuple(name for name in ALL if name != "status")
"""What a file keeps in which the lines are unchanged: a run that is read from it does not go on."""
READ_BACK = tuple(name for name in AT_REST if name != "title")
"""What every format keeps that can be read back."""


def jsonl(look: Look, key: str) -> Said:
    """The lines, kept by another home."""
    lines = b"".join(export(look.export_run(key), "jsonl")).splitlines()
    records = [each for each in look.home.journal.records(run=look.run(key)) if each.line]
    assert lines == [each.line for each in records]
    if not lines:
        return {}
    with Home("memory:") as home:
        for record in records:
            home.intake.admit([record.line], record.dialect)
        return _alone(look, key, home, ALL)


def reimported(format: str, *fields: str, **options: str) -> "View":
    """The view that another home has of an export that it imported."""

    def view(look: Look, key: str) -> Said:
        content = b"".join(export(look.export_run(key), format, options))
        exporter = formats.exporter(format)
        return _imported(look, key, content, exporter.suffix, fields)

    return view


def exported_as(format: str) -> "View":
    """The view of a format that has none of its own below: what it says when it is read back."""
    if format in formats.importer_names():
        return reimported(format, *AT_REST)

    def view(look: Look, key: str) -> Said:
        assert all(isinstance(each, bytes) for each in export(look.export_run(key), format))
        return {}

    return view


def _imported(look: Look, key: str, content: bytes, suffix: str, fields: tuple[str, ...]) -> Said:
    with TemporaryDirectory() as folder, Home("memory:") as home:
        path = Path(folder) / f"run{suffix}"
        path.write_bytes(content)
        Importing(home).bring([path])
        if not list(home.runs()):
            return {}
        return _as_spelled(_alone(look, key, home, fields), runs(look, key))


def _as_spelled(said: Said, first: Said) -> Said:
    """The same with the times as the run spells them, where they are the same: formats have UTC."""
    same = [name for name in ("first", "last") if epoch_ms(said.get(name)) == epoch_ms(first[name])]
    return {**said, **{name: first[name] for name in same if name in said}}


def converted(name: str) -> "View":
    """The view of a home that has the run in another dialect and back, where nothing was dropped."""

    def view(look: Look, key: str) -> Said:
        dialects = look.home.dialects
        records = list(look.home.journal.records(run=look.run(key)))
        own = {record.dialect for record in records}
        if len(own) != 1 or not any(record.line for record in records):
            return {}
        report, [first] = LossReport(), own
        lines = list(convert(records, dialects, dialects[name], report))
        if any(fate == "dropped" for _, _, fate in report.counts) or not lines:
            return {}
        return _there_and_back(look, key, lines, name, first)

    return view


def _there_and_back(look: Look, key: str, lines: list[bytes], name: str, first: str) -> Said:
    """The view of a home with the lines of a run in another dialect, converted back."""
    dialects = look.home.dialects
    with Home("memory:") as there:
        verdicts = there.intake.admit(lines, name)
        assert all(each.seq for each in verdicts), verdicts
        back = list(convert(there.journal.records(), dialects, dialects[first]))
    with Home("memory:") as home:
        home.intake.admit(back, first)
        return _alone(look, key, home, ALL)


def log_runs(look: Look, key: str) -> Said:
    rows = Log(look.home).runs(now=look.now, limit=None)
    return summary(next(asdict(row) for row in rows if row.key == key))


def log_run(look: Look, key: str) -> Said:
    return summary(asdict(Log(look.home).run(key)))


def log_run_at(look: Look, key: str) -> Said:
    return summary(asdict(Log(look.home).run(key, at=look.home.journal.last)))


def log_costs(look: Look, key: str) -> Said:
    return _cost_of(look, key, [asdict(row) for row in Log(look.home).costs()])


def log_export(look: Look, key: str) -> Said:
    return _atif(look, key, orjson.loads(Log(look.home).export(key, "atif")))


View = Callable[[Look, str], Said]

LOG: Mapping[str, View] = {
    "runs": log_runs,
    "run": log_run,
    "run(at)": log_run_at,
    "costs": log_costs,
    "export": log_export,
}
"""The methods of `Log` that answer for one run."""
NOT_ANSWERS = {
    "admit", "admit_transcript", "append", "append_fact", "clock", "close", "durability", "event",
    "fact_line", "facts_in", "find", "folder", "last", "lease", "leases", "now", "place", "read",
    "recorded_answers", "search", "tail", "transcript", "verify", "wait", "walk", "why",
}  # fmt: skip  # one list
"""The other names of `Log`: they write, or give records, words and causes, and no sums."""

QUESTIONS: Mapping[str, View] = {
    **{
        each.name: asked(each)
        for each in questions()
        if any(map(shows_runs, shapes_of([each.result])))
    },
    "diff": diff, "costs": costs, "run-spends": run_spends, "story": story, "query": query,
}  # fmt: skip  # by the question's name
EXPORTS: Mapping[str, View] = {
    **{name: exported_as(name) for name in formats.exporter_names()},
    "jsonl": jsonl,
    "atif": atif,
    "html": html,
    "cloudevents": reimported("cloudevents", *AT_REST, whole="yes"),
    "otel": reimported("otel", *READ_BACK, content="yes"),
    "agui": reimported("agui", *AT_REST),
}
"""By the exporter's name."""
VIEWS: Mapping[str, View] = {
    **QUESTIONS,
    "show --at": show_at,
    "export": exported,
    "export --follow": followed,
    **{f"export {name}": view for name, view in EXPORTS.items()},
    **{f"Log.{name}": view for name, view in LOG.items()},
    "atif, imported": reimported("atif", *AT_REST),
    **{f"convert --to {name}": converted(name) for name in registry.dialect_names()},
}
"""Every view of one run."""
TOTALS = ("tools", "costs", "hours", "series")
"""Questions about all runs together: they are the sum of what the runs say."""


class Served:
    """What a collector says of a run over HTTP."""

    def __init__(self, http: Any) -> None:
        self._http = http

    def json(self, path: str, **given: Any) -> Any:
        answer = self._http.get(path, params=given)
        assert answer.status_code == 200, answer.text
        return orjson.loads(answer.content)

    def post(self, path: str, **given: Any) -> Any:
        kind = {"content-type": "application/x-ndjson"}
        answer = self._http.post(path, params=given, content=b"", headers=kind)
        assert answer.status_code == 200, answer.text
        return orjson.loads(answer.content)

    def stream(self, path: str, size: int, **given: Any) -> bytes:
        """So many bytes of a stream, or all until it ends; without comments and the retry."""
        heard = b""
        with self._http.stream("GET", path, params=given) as answer:
            for piece in answer.iter_raw():
                heard += piece
                said = re.sub(rb"^retry: \d+\n\n|^:[^\n]*\n\n", b"", heard, flags=re.MULTILINE)
                if len(said) >= size:
                    return said
        return said


def _path(key: str) -> str:
    return "/".join(quote(part, safe="") for part in key.split(":", 1))


def served_runs(served: Served, look: Look, key: str) -> Said:
    return summary(_row(served.json("/api/runs", limit=10_000), key))


def served_board(served: Served, look: Look, key: str) -> Said:
    return summary(_row(served.json("/api/board", limit=10_000)["runs"], key))


def served_header(served: Served, look: Look, key: str) -> Said:
    """What the console's header is made of."""
    return summary(served.json(f"/api/runs/{_path(key)}"))


def served_past(served: Served, look: Look, key: str) -> Said:
    return summary(served.json(f"/api/runs/{_path(key)}", at=look.home.journal.last))


def served_tree(served: Served, look: Look, key: str) -> Said:
    rows = served.json(f"/api/runs/{_path(key)}/tree", around="true")
    return summary(next(row["run"] for row in rows if row["key"] == key))


def served_top(served: Served, look: Look, key: str) -> Said:
    return summary(_row(served.json("/api/top")["runs"], key))


def served_diff(served: Served, look: Look, key: str) -> Said:
    deltas = served.json("/api/diff", a=key, b=key)["deltas"]
    return summary({name: each["a"] for name, each in deltas.items()})


def served_story(served: Served, look: Look, key: str) -> Said:
    records = served.json(f"/api/runs/{_path(key)}/story", limit=10_000)["records"]
    return _calls_of(records)


def served_spends(served: Served, look: Look, key: str) -> Said:
    return _spent(look, key, served.json(f"/api/runs/{_path(key)}/spends"))


def served_costs(served: Served, look: Look, key: str) -> Said:
    return _cost_of(look, key, served.json("/api/costs", by="run"))


def served_export(served: Served, look: Look, key: str) -> Said:
    return _atif(look, key, served.json(f"/api/export/atif/{_path(key)}"))


def served_live(served: Served, look: Look, key: str) -> Said:
    """What a watcher of the run in a foreign format was sent at its last record."""
    exporter = formats.exporter("agui")
    live = live_of(look.home, look.run(key), exporter, exporter.chosen())
    sent = live.join(0)
    while more := live.read_on():
        sent += more
    heard = served.stream(f"/api/export/agui/{_path(key)}/live", len(sent), after=0)
    assert heard == sent
    records = ask(look.home, "story", run=key, limit=100_000)["records"]
    if any(record.get("superseded") or record.get("withdrawn") for record in records):
        return {}  # what was sent before it was revised cannot be taken back
    return _imported(look, key, heard, exporter.suffix, AT_REST)


def served_convert(served: Served, look: Look, key: str) -> Said:
    """The run in tracklog's own dialect and back, where nothing was dropped."""
    records = list(look.home.journal.records(run=look.run(key)))
    own = {record.dialect for record in records}
    if len(own) != 1:
        return {}
    answer = served.post("/api/convert/tracklog", run=key)
    lines = [orjson.dumps(each) for each in answer["lines"]]
    if answer["report"]["totals"]["dropped"] or not lines:
        return {}
    [first] = own
    return _there_and_back(look, key, lines, "tracklog", first)


def served_hits(served: Served, look: Look, key: str) -> Said:
    """What the runs with hits say; nothing of a run without any text."""
    rows = [each["run"] for each in served.json("/api/hits", limit=10_000)["runs"]]
    return next((summary(row) for row in rows if f"{row['family']}:{row['run']}" == key), {})


def served_rows(path: str) -> Callable[[Served, Look, str], Said]:
    """What the rows of a route say of a run; nothing where it is not among them."""

    def view(served: Served, look: Look, key: str) -> Said:
        answer = served.json(path)
        rows = answer if isinstance(answer, list) else [answer]
        own = [row for row in rows if key in (row["run"], f"{row.get('family')}:{row['run']}")]
        return summary(own[0]) if own else {}

    return view


WRITTEN: Mapping[str, Callable[[Served, Look, str], Said]] = {
    "/api/runs": served_runs,
    "/api/board": served_board,
    "/api/runs/{family}/{run}": served_header,
    "/api/runs/{family}/{run}?at": served_past,
    "/api/runs/{family}/{run}/tree": served_tree,
    "/api/runs/{family}/{run}/story": served_story,
    "/api/runs/{family}/{run}/spends": served_spends,
    "/api/top": served_top,
    "/api/hits": served_hits,
    "/api/diff": served_diff,
    "/api/costs": served_costs,
    "/api/export/{format}/{family}/{run}": served_export,
    "/api/export/{format}/{family}/{run}/live": served_live,
    "/api/convert/{dialect}": served_convert,
}
OTHER_ROUTES = {
    "/api/tree": "the same answer for all runs",
    "/api/tools": "all runs together",
    "/api/hours": "all runs together",
    "/api/events": "records as they are",
    "/api/stream": "records as they are",
    "/api/runs/{family}/{run}/proof": "hashes",
    "/api/runs/{family}/{run}/cost-limits": "the limits of alert rules",
    "/api/blobs/{sha256}": "bytes",
    "/api/inbox/{question}/answer": "one answer",
    "/api/hosts": "programs",
    "/healthz": "the collector itself",
    "/checkpoint": "the journal itself",
    "/api/sources/found": "the logs on this machine",
    "/api/views": "filters that people saved",
    "/api/alerts": "rules, and what breaks them",
    "/api/settings/prices": "what a token costs",
    "/api/settings/tokens": "who may ask",
    "/api/settings/storage": "the journal itself",
    "/api/settings/checkpoints": "the journal itself",
    "/metrics": "the collector itself",
    "/api/openapi.json": "the routes",
    "/": "the console, which asks the other routes",
}
"""Routes that are no view of one run, and what they give instead."""
SERVED: Mapping[str, Callable[[Served, Look, str], Said]] = {
    **{
        path: served_rows(path)
        for each in questions()
        for path in each.routes
        if each.name in QUESTIONS and "{" not in path and path not in OTHER_ROUTES
    },
    **WRITTEN,
}
"""Every view of one run over HTTP, by its route."""


def disagreements(home: Home, views: Mapping[str, View] = VIEWS) -> list[tuple[str, ...]]:
    """By run, what its views do not agree on."""
    look = Look(home)
    found = []
    for key in look.keys:
        first = runs(look, key)
        for name, view in views.items():
            for field, value in view(look, key).items():
                if value != first[field]:
                    found.append((key, field, f"runs: {first[field]}", f"{name}: {value}"))
    return [*found, *_in_total(look)]


def _in_total(look: Look) -> list[tuple[str, ...]]:
    again = same_conversation(look.index)
    own = [runs(look, key) for key in look.keys if key not in again]
    tools, hours = ask(look.home, "tools"), _hours(look)
    costs, by_run = (ask(look.home, "costs", by=by) for by in ("all", "run"))
    totals = {
        "tools": (tools, {"calls": "calls", "failures": "failures"}, own),
        "costs": (costs, {"total_tokens": "tokens", "cost_usd": "cost"}, own),
        "hours": (hours, {"calls": "calls", "failures": "failures"}, tools),
        "hours, spent": (hours, {"total_tokens": "total_tokens", "cost_usd": "cost_usd"}, costs),
        "costs by run": (by_run, {"total_tokens": "total_tokens"}, costs),
    }
    found = []
    for name, (rows, names, parts) in totals.items():
        for field, part in names.items() if rows is not None else ():
            total, added = (_sum(*each) for each in ((rows, field), (parts, part)))
            if total != added:
                found.append(("all runs", field, f"in parts: {added}", f"{name}: {total}"))
    if any(row["tool"] in ("", None) for row in tools if not row["calls"]):
        found.append(("all runs", "tools", "a tool without a name", ""))
    statuses = Counter(each["status"] for each in own)
    return [*found, *_over_time(look, tools, statuses)]


def _over_time(
    look: Look, tools: list[dict[str, Any]], statuses: Mapping[str, int]
) -> Iterator[tuple[str, ...]]:
    """What a series over all time does not say as the other questions do."""
    for by in ("model", "agent", "project"):
        rows = ask(look.home, "costs", by=by)
        tokens = {row["of"]: row["total_tokens"] or 0 for row in rows}
        yield from _differences(by, "tokens", tokens, _series(look, "tokens", by))
        cost = {row["of"]: (row["cost_usd"] or 0) + (row["computed_usd"] or 0) for row in rows}
        yield from _differences(by, "cost", cost, _series(look, "cost", by))
    for metric in ("calls", "failures"):
        counts = {row["tool"] or None: row[metric] for row in tools}
        yield from _differences("tool", metric, counts, _series(look, metric, "tool"))
    yield from _differences("outcome", "runs", statuses, _series(look, "runs", "outcome"))


def _series(look: Look, metric: str, by: str) -> dict[str | None, float]:
    given = {"since": "all", "until": look.end, "bucket": "1mo", "tz": "UTC", "top": 100}
    answer = ask(look.home, "series", metric=[metric], by=by, now=look.now, **given)
    keys = {each["key"]: each["sum"] or 0 for each in answer["keys"]}
    for each in answer["keys"]:
        assert math.isclose(math.fsum(value or 0 for value in each["values"]), each["sum"] or 0)
    assert math.isclose(math.fsum(keys.values()), answer["total"] or 0)
    return keys


def _differences(
    by: str, metric: str, known: Mapping[Any, float], over_time: Mapping[Any, float]
) -> Iterator[tuple[str, ...]]:
    for name in {**known, **over_time}:
        one, other = known.get(name, 0), over_time.get(name, 0)
        if not math.isclose(one, other, abs_tol=1e-12):
            yield f"{by} {name}", metric, f"the question: {one}", f"series: {other}"


def _sum(rows: Iterable[Mapping[str, Any]], name: str) -> float:
    return math.fsum(row[name] or 0 for row in rows)


LONG = 24 * 31 * 8
"""Hours that are added up."""


def _hours(look: Look) -> list[dict[str, Any]] | None:
    """The last hours; None where something happened before them or, by its own clock, later."""
    now = epoch_ms(look.now) or 0
    times = [epoch_ms(runs(look, key)[name]) for key in look.keys for name in ("first", "last")]
    if any(at is not None and not 0 <= now - at < (LONG - 1) * 3_600_000 for at in times):
        return None
    return ask(look.home, "hours", count=LONG, now=look.now)


def differences_served(home: Home, http: Any) -> list[tuple[str, ...]]:
    """By run, what is not the same over HTTP."""
    look, served = Look(home), Served(http)
    return [
        (key, field, f"runs: {first[field]}", f"{name}: {value}")
        for key in look.keys
        for first in (runs(look, key),)
        for name, view in SERVED.items()
        for field, value in view(served, look, key).items()
        if value != first[field]
    ]
