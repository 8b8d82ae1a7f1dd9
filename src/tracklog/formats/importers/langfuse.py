"""langfuse: traces of Langfuse, as documents and as exported observations; a trace is a run."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tracklog.formats.importers import (
    Form,
    Importer,
    Raw,
    Signs,
    beginning,
    count,
    run_id,
    score,
    utc_time,
    word,
)
from tracklog.formats.importers._csv import csv_rows, header
from tracklog.formats.importers._snapshots import (
    JsonLines,
    json_lines,
    lines_at_once,
    open_run,
    parsed,
    without,
)
from tracklog.formats.importers._traces import OTHER, TraceReader, grouped_lines
from tracklog.formats.providers import Body, items, obj, usage
from tracklog.model.fact import Called, Decided, Ended, Noted, Returned, Spent

NAME = "langfuse"
COUNTED = ("GENERATION", "EMBEDDING")
KINDS = {*COUNTED, "SPAN", "EVENT", "TOOL", "AGENT", "CHAIN", "RETRIEVER", "EVALUATOR", "GUARDRAIL"}
OF_TRACE = {
    "traceName": "name", "userId": "userId", "sessionId": "sessionId", "tags": "tags",
    "release": "release",
}  # fmt: skip
"""What newer exports say of the trace in each of its observations."""
OBSERVATION = ("id", "traceId", "parentObservationId", "type", "name", "startTime", "endTime", "model",
               "input", "output", "usageDetails", "costDetails", "level", "statusMessage", "projectId",
               "createdAt", "updatedAt", "inputCost", "outputCost", "totalCost", "inputUsage",
               "outputUsage", "totalUsage", "toolCalls", "latency", "usage", *OF_TRACE)  # fmt: skip
CSV = ".csv"
FOLDERS = ("observations", "observations_v2")
"""The folders of observations in an export to a storage; traces and scores are beside them."""
SNAKE = {"trace_id", "start_time", "user_id", "session_id", "project_id"}
COLUMNS = (
    {"id", "trace_id", "type", "start_time"},
    {"id", "traceId", "type", "startTime"},
)
_WORD = re.compile(r"_([a-z])")


class LangfuseReader(TraceReader):
    """Reads traces; only generations and embeddings count tokens."""

    def run_of(self, value: Body) -> str | None:
        id = word(value.get("id"))
        return run_id(NAME, id) if id else None

    def traces_of(self, value: Any) -> Iterator[Body]:
        return traces(value)

    def conversation(self, value: Body) -> None:
        trace = obj(value.get("trace"))
        seen = sorted(value["observations"], key=lambda each: str(each.get("startTime")))
        first = seen[0] if seen else {}
        about = {key: unquoted(each) for key, each in trace.items()
                 if key not in ("observations", "updatedAt", "scores")}  # fmt: skip
        self.about("trace")
        about = {"id": value["id"], **about}
        began = utc_time(first.get("startTime"))
        stamped = utc_time(trace.get("timestamp"))
        open_run(
            self.out,
            NAME,
            value["id"],
            at=min(filter(None, (began, stamped)), default=None),
            version=trace.get("release"),
            title=word(trace.get("name")) or first.get("name"),
            extra=without(about, "id", "name", "timestamp", "projectId", "createdAt"),
        )
        self.begin()
        for observation in seen:
            self._observation(observation)
        for place, score_ in enumerate(items(trace.get("scores"))):
            self.about(f"score/{obj(score_).get('id', place)}")
            each = obj(score_)
            number = each.get("value")
            decided = Decided(
                name=word(each.get("name")),
                score=float(number) if isinstance(number, int | float) else None,
                verdict=each.get("stringValue"),
                reason=word(each.get("comment")),
                by=word(each.get("source")),
            )
            self.put(decided, utc_time(each.get("timestamp")))
        root = next((each for each in seen if not each.get("parentObservationId")), None)
        if root is not None and root.get("endTime"):
            wrong = root.get("level") == "ERROR"
            self.about("end")
            ended = Ended(what="run", outcome="error" if wrong else "success",
                          passed=False if wrong else None, reason=word(root.get("statusMessage")))  # fmt: skip
            self.put(ended, utc_time(root["endTime"]))

    def _observation(self, observation: Body) -> None:
        id = str(observation.get("id"))
        self.about(id)
        value = obj(observation)
        kind = word(value.get("type")) or "SPAN"
        at, done = utc_time(value.get("startTime")), utc_time(value.get("endTime"))
        self.out.report.mapped[kind] += 1
        given = self.out.lift.value(unquoted(observation.get("input")))
        out = self.out.lift.value(unquoted(observation.get("output")))
        extra = {key: unquoted(each) for key, each in without(value, *OBSERVATION).items()}
        wrong = value.get("level") == "ERROR"
        text = word(value.get("statusMessage"))
        if kind in COUNTED:
            self._generation(id, value, given, out, at, done, extra)
        elif kind == "TOOL":
            name = word(value.get("name")) or "unknown"
            inner = obj(given).get("input", given)
            call, made = self.tool(id, name, inner)
            if made is not None:
                self.put(made, at, extra)
            back = Returned(call_id=call, tool=name, ok=not wrong, output=out,
                            error=text if wrong else None, synthetic_id=made is not None)  # fmt: skip
            self.put(back, done or at, extra if made is None else None)
        else:
            data = without({"input": given, "output": out, **extra})
            self.put(
                Noted(label=kind.lower(), kind=kind, text=word(value.get("name")), data=data), at
            )
        if wrong and kind != "TOOL":
            noted = Noted(label="error", kind=kind, text=text or "an observation failed")
            self.put(noted, done or at)

    def _generation(
        self,
        id: str,
        value: Body,
        given: Any,
        out: Any,
        at: str | None,
        done: str | None,
        extra: Body,
    ) -> None:
        model = word(value.get("model"))
        rest: Body | None = extra
        for message in _messages(given):
            for fact in self.new(message):
                self.put(fact, at, rest)
                rest = None
        known_calls = len(self.calls)
        for message in _messages(out):
            answer = message if isinstance(message, dict) else {"content": message}
            for fact in self.new({"role": "assistant", **answer}, model, id):
                self.put(fact, done or at, rest)
                rest = None
        calls = [unquoted(each) for each in items(unquoted(value.get("toolCalls")))]
        if len(self.calls) == known_calls:  # the output has none
            for fact in self.new({"role": "assistant", "tool_calls": calls}, model, id):
                if isinstance(fact, Called):
                    self.put(fact, done or at)
        details, costs, given_costs = (
            obj(unquoted(value.get(name)))
            for name in ("usageDetails", "costDetails", "providedCostDetails")
        )
        known = tokens(details or obj(unquoted(value.get("usage"))))
        costs = costs or given_costs
        cost = costs.get("total", sum(v for v in costs.values() if isinstance(v, int | float)))
        paid = cost if isinstance(cost, int | float) and cost > 0 else None
        if known.get("total_tokens") or paid:
            spent = Spent(key=id, model=model, usage=known, cost_usd=paid, calls=1)
            self.put(spent, done or at)


def tokens(fields: Body) -> Body:
    """The counts of an observation; parts of the input may stand beside it or inside it."""
    counts = {key: amount for key, each in fields.items() if (amount := count(each)) is not None}
    total = counts.pop("total", None)
    asked = {
        key: each for key, each in counts.items() if key.startswith(("input", "cache", "prompt"))
    }
    answered = {
        key: each for key, each in counts.items() if key.startswith(("output", "completion"))
    }
    read = sum(each for key, each in asked.items() if "read" in key or "cached" in key)
    written = sum(each for key, each in asked.items() if "creation" in key or "write" in key)
    thought = sum(each for key, each in answered.items() if "reasoning" in key)
    given, output = sum(asked.values()), sum(answered.values())
    if total is not None and given + output > total:
        given = counts.get("input", counts.get("prompt_tokens", given))
        output = counts.get("output", counts.get("completion_tokens", output))
    return usage(
        fields or None,
        input_tokens=given if asked else None,
        cached_tokens=read or None,
        cache_write_tokens=written or None,
        output_tokens=output if answered else None,
        reasoning_tokens=thought or None,
        total_tokens=total,
    )


def unquoted(value: Any) -> Any:
    """A value that may be JSON in a string, even twice."""
    for _ in range(3):
        inner = parsed(value)
        if inner is value or not isinstance(value, str) or isinstance(inner, int | float | bool):
            return value
        value = inner
    return value


def _messages(value: Any) -> Iterator[Any]:
    fields = obj(value)
    if isinstance(value, list):
        yield from value
    elif isinstance(fields.get("messages"), list):
        yield from fields["messages"]
    elif value not in (None, "", {}, []):
        yield value


def traces(value: Any, beside: Mapping[str, Body] | None = None) -> Iterator[Body]:
    """The traces of a document, or of a list of observations; `beside` has what else is known."""
    fields = obj(value)
    if "observations" in fields or word(obj(fields.get("trace")).get("id")):
        trace = obj(fields.get("trace")) or {k: v for k, v in fields.items() if k != "observations"}
        seen = [camel(obj(each)) for each in items(fields.get("observations"))]
        id = word(trace.get("id")) or next((word(each.get("traceId")) for each in seen), None)
        if id:
            yield {"id": id, "trace": camel(trace), "observations": seen}
        return
    groups: dict[str, list[Body]] = {}
    for each in value if isinstance(value, list) else [value]:
        seen_ = camel(obj(each))
        if id := word(seen_.get("traceId")):
            groups.setdefault(id, []).append(seen_)
    for id, observations in groups.items():
        first = observations[0]
        trace = {key: first[name] for name, key in OF_TRACE.items() if first.get(name)}
        yield {
            "id": id,
            "trace": {**trace, **(beside or {}).get(id, {})},
            "observations": observations,
        }


def camel(fields: Body) -> Body:
    """The names of exported files, `trace_id`, as those of the API, `traceId`."""
    if not SNAKE & fields.keys():
        return fields
    renamed = {_WORD.sub(lambda mark: mark[1].upper(), key): each for key, each in fields.items()}
    if "providedModelName" in renamed:
        renamed.setdefault("model", renamed.pop("providedModelName"))
    for key in ("startTime", "endTime", "timestamp"):
        if isinstance(text := renamed.get(key), str) and " " in text:
            renamed[key] = text.replace(" ", "T", 1)
    return renamed


def lines(path: Path, state: dict[str, Any]) -> Iterator[Raw]:  # noqa: ARG001  # the shape
    """The traces of a file with an observation on each line or row, in any order."""
    size, beside = path.stat().st_size, _traces_beside(path)
    for values in _observations(path):
        if isinstance(values, Raw):
            yield values
        elif not _trace_ids(values[0])[0]:  # each may be a whole trace, or nothing that is known
            yield from (Raw(0, b"", each, through=size) for each in values)
        else:
            yield from (Raw(0, b"", each, through=size) for each in traces(values, beside))


def _observations(path: Path) -> Iterator[list[Any] | Raw]:
    """The observations of a file, by their traces; of a table, all at once."""
    if path.suffix == CSV:
        file = csv_rows(path, "an observation")
        yield [value for _, value in file.values]
        yield from file.damaged
        return
    for group in grouped_lines(path, _is_row, _trace_ids):
        yield group if isinstance(group, Raw) else group[1]


def _is_row(body: Body) -> bool:
    return not body.keys().isdisjoint({"traceId", "trace_id", "observations"})


def _trace_ids(value: Any) -> list[str]:
    id = word(camel(obj(value)).get("traceId"))
    return [id or OTHER]


def _file(path: Path, what: str) -> JsonLines:
    return (
        csv_rows(path, what) if path.suffix == CSV else json_lines(path, lambda body: "id" in body)
    )


def _traces_beside(path: Path) -> dict[str, Body]:
    """The traces, with their scores, that an export has in folders beside that of observations."""
    known: dict[str, Body] = {}
    for each in _beside(path, "traces"):
        for _, value in _file(each, "a trace").values:
            trace = {key: each for key, each in camel(obj(value)).items() if each not in (None, "")}
            if id := word(trace.get("id")):
                known[id] = trace
    for each in _beside(path, "scores"):
        for _, value in _file(each, "a score").values:
            score_ = camel(obj(value))
            number = parsed(score_.get("value"))
            trace = known.setdefault(str(score_.get("traceId")), {})
            trace.setdefault("scores", []).append({**score_, "value": number})
    return known


def _beside(path: Path, folder: str) -> Iterator[Path]:
    if path.parent.name in FOLDERS:
        places = (path.parent.parent / folder / f"{path.stem}{each}" for each in (".jsonl", CSV))
        yield from (each for each in places if each.is_file())


def beside(path: Path) -> Iterator[Path]:
    for folder in ("traces", "scores"):
        for suffix in (".jsonl", CSV) if path.parent.name in FOLDERS else ():
            yield path.parent.parent / folder / f"{path.stem}{suffix}"


def companion(path: Path, head: bytes) -> bool:
    """The traces and scores of an export, whose observations are in a folder beside."""
    if path.parent.name not in ("traces", "scores") or path.suffix not in (".jsonl", CSV):
        return False
    columns = set(header(head)) if path.suffix == CSV else set()
    for each in beginning(path, head).objects[:1]:
        columns |= each.keys()
    places = (path.parent.parent / folder / path.name for folder in FOLDERS)
    return bool({"id", "timestamp"} <= columns and any(map(Path.is_file, places)))


def form(path: Path, head: bytes) -> Form:
    return "store" if path.suffix == CSV else lines_at_once(path, head)


SIGNS = (
    Signs({"traceId": str, "type": KINDS, "startTime": str, "id": str}, sure=0.97),
    Signs({"trace_id": str, "type": KINDS, "start_time": str, "id": str}, ("run_type",), sure=0.97),
)


def recognise(path: Path, head: bytes) -> float:
    if path.suffix == CSV:
        columns = set(header(head))
        return 0.97 if any(each <= columns for each in COLUMNS) else 0.0
    objects = beginning(path, head).objects
    whole = any(
        "observations" in each and ("trace" in each or "projectId" in each) for each in objects
    )
    # A long trace before its observations may be all that is looked at.
    cut = any("projectId" in obj(each.get("trace")) for each in objects)
    return 0.97 if whole or cut else score(path, head, SIGNS)


importer = Importer(
    name=NAME,
    about="Langfuse: traces of its user interface and API, and exported observations (JSON, CSV).",
    mapping="3",
    reader=LangfuseReader,
    recognise=recognise,
    form=form,
    companion=companion,
    beside=beside,
    records=lines,
    fits=_is_row,
    proven="real traces of 2025 from its makers; exported folders without real files",
)
