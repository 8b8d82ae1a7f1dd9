"""langsmith: runs of LangSmith, as exports and as the bodies that its SDK sends; a trace is a run."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from tracklog.formats.importers import (
    ANY,
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
from tracklog.formats.importers._exchanges import reply_of
from tracklog.formats.importers._snapshots import lines_at_once, open_run, without
from tracklog.formats.importers._traces import OTHER, TraceReader, grouped_lines
from tracklog.formats.providers import Body, items, obj, usage
from tracklog.model.fact import Ended, Noted, Returned, Spent

NAME = "langsmith"
TRACE, PARTS = b'"trace_id"', re.compile(rb'"(?:post|patch)"\s*:')
RUN = ("id", "trace_id", "parent_run_id", "dotted_order", "run_type", "name", "start_time", "end_time",
       "inputs", "outputs", "error", "session_name", "child_run_ids", "events")  # fmt: skip


class LangsmithReader(TraceReader):
    """Reads traces; only runs of models count tokens, those above hold sums of them."""

    def run_of(self, value: Body) -> str | None:
        id = word(value.get("trace"))
        return run_id(NAME, id) if id else None

    def traces_of(self, value: Any) -> Iterator[Body]:
        return traces(value)

    def conversation(self, value: Body) -> None:
        runs = sorted(
            value["runs"], key=lambda each: str(each.get("dotted_order") or each.get("start_time"))
        )
        root = next((each for each in runs if not each.get("parent_run_id")), runs[0])
        meta = obj(obj(root.get("extra")).get("metadata"))
        self.about("trace")
        open_run(
            self.out,
            NAME,
            value["trace"],
            at=utc_time(root.get("start_time")),
            program="langsmith",
            version=obj(obj(root.get("extra")).get("runtime")).get("sdk_version"),
            title=root.get("name"),
            cwd=root.get("session_name"),
            extra=without({"tags": root.get("tags"),
                           "thread": meta.get("session_id") or meta.get("thread_id")}),
        )  # fmt: skip
        self.begin()
        for run in runs:
            self._run(run)
        if root.get("end_time"):
            error = word(root.get("error"))
            self.about("end")
            outcome = "error" if error else word(root.get("status")) or "success"
            ended = Ended(what="run", outcome=outcome, passed=False if error else None,
                          reason=error.partition("\n")[0] if error else None)  # fmt: skip
            self.put(ended, utc_time(root["end_time"]))

    def _run(self, run: Body) -> None:
        id = str(run.get("id"))
        self.about(id)
        value = obj(run)
        kind = word(value.get("run_type")) or "run"
        at, done = utc_time(value.get("start_time")), utc_time(value.get("end_time"))
        self.out.report.mapped[kind] += 1
        error = word(value.get("error"))
        extra = without(value, *RUN)
        if kind == "llm":
            self._llm(id, value, at, done, extra)
        elif kind == "tool":
            self._tool(id, value, at, done, error, extra)
        else:
            data = without(
                {"inputs": value.get("inputs"), "outputs": value.get("outputs"), **extra}
            )
            self.put(Noted(label=kind, kind=kind, text=word(value.get("name")), data=data), at)
        if error and kind != "tool":
            text = error.partition("\n")[0]
            self.put(Noted(label="error", kind=kind, text=text, data={"error": error}), done or at)

    def _llm(self, id: str, value: Body, at: str | None, done: str | None, extra: Body) -> None:
        given, out = obj(value.get("inputs")), value.get("outputs")
        meta = obj(obj(value.get("extra")).get("metadata"))
        model = (
            word(meta.get("ls_model_name"))
            or word(given.get("model"))
            or word(obj(out).get("model"))
        )
        rest: Body | None = {**extra, **without(given, "messages", "model")}
        for message in _messages(given):
            for fact in self.new(message):
                self.put(fact, at, rest)
                rest = None
        for message in _answers(out):
            for fact in self.new(message, model, id):
                self.put(fact, done or at, rest)
                rest = None
        self._spent(id, value, obj(out), meta, model, done or at)

    def _spent(
        self, id: str, value: Body, out: Body, meta: Body, model: str | None, at: str | None
    ) -> None:
        fields = (
            obj(out.get("usage_metadata"))
            or obj(meta.get("usage_metadata"))
            or _generated(out)
            or obj(obj(obj(out.get("output")).get("kwargs")).get("usage_metadata"))
            or obj(obj(out.get("output")).get("usage_metadata"))
        )
        inside_, outside = (
            obj(fields.get("input_token_details")),
            obj(fields.get("output_token_details")),
        )
        known = usage(
            fields or None,
            input_tokens=count(fields.get("input_tokens")),
            cached_tokens=count(inside_.get("cache_read")),
            cache_write_tokens=count(inside_.get("cache_creation")),
            output_tokens=count(fields.get("output_tokens")),
            reasoning_tokens=count(outside.get("reasoning")),
        )
        raw = out.get("usage") or obj(out.get("llm_output")).get("token_usage")
        if not known and raw:
            known = obj(reply_of("openai", [{"choices": [], "usage": raw}]).meta.get("usage"))
        if not known:
            asked, answered = (
                obj(value.get(f"{name}_token_details")) for name in ("prompt", "completion")
            )
            known = usage(
                None,
                input_tokens=count(value.get("prompt_tokens")),
                cached_tokens=count(asked.get("cache_read")),
                cache_write_tokens=count(asked.get("cache_creation")),
                output_tokens=count(value.get("completion_tokens")),
                reasoning_tokens=count(answered.get("reasoning")),
            )
        paid = _money(value.get("total_cost")) or (
            _money(value.get("prompt_cost")) + _money(value.get("completion_cost"))
        )
        paid = paid or _money(fields.get("total_cost"))
        if known.get("total_tokens") or paid:
            spent = Spent(key=id, provider=word(meta.get("ls_provider")), model=model, usage=known,
                          cost_usd=paid or None, calls=1)  # fmt: skip
            self.put(spent, at)

    def _tool(
        self, id: str, value: Body, at: str | None, done: str | None, error: str | None, extra: Body
    ) -> None:
        given, out = value.get("inputs"), value.get("outputs")
        output = obj(out).get("output", out)
        native = word(obj(given).get("tool_call_id")) or word(obj(output).get("tool_call_id"))
        name = word(value.get("name")) or "unknown"
        call, made = self.tool(id, name, given, native)
        if made is not None:
            self.put(made, at, extra)
        if done or error:
            back = Returned(call_id=call, tool=name, ok=error is None, output=output, error=error,
                            synthetic_id=made is not None)  # fmt: skip
            self.put(back, done or at, extra if made is None else None)


def _money(cost: Any) -> float:
    """An amount, which may be a text; 0 where there is none."""
    try:
        return float(cost or 0)
    except (TypeError, ValueError):
        return 0.0


def _messages(given: Body) -> Iterator[Any]:
    messages = items(given.get("messages")) or items(given.get("input"))
    if isinstance(prompts := given.get("prompts"), list):
        messages = [*messages, *prompts]
    if isinstance(given.get("input"), str):
        yield given["input"]
    for message in messages:
        yield from message if isinstance(message, list) else [message]


def _answers(out: Any) -> Iterator[Any]:
    fields = obj(out)
    for choice in items(fields.get("choices")):
        yield {"role": "assistant", **obj(obj(choice).get("message"))}
    for generation in items(fields.get("generations")):
        for each in generation if isinstance(generation, list) else [generation]:
            message = obj(each).get("message")
            yield message or {"role": "assistant", "content": obj(each).get("text")}
    if "content" in fields:
        yield {
            "role": "assistant",
            **{key: fields[key] for key in ("content", "tool_calls") if key in fields},
        }
    elif word(fields.get("output")):
        yield {"role": "assistant", "content": fields["output"]}
    elif isinstance(fields.get("output"), dict):
        yield {"role": "assistant", **fields["output"]}


def _generated(out: Body) -> Body:
    for generation in items(out.get("generations")):
        for each in generation if isinstance(generation, list) else [generation]:
            usage_fields = obj(
                obj(obj(obj(each).get("message")).get("kwargs")).get("usage_metadata")
            )
            if usage_fields:
                return usage_fields
    return {}


def traces(value: Any) -> Iterator[Body]:
    """The traces in a body, a list or a batch; later parts of a run complete earlier ones."""
    fields = obj(value)
    if "trace" in fields and "runs" in fields:
        yield fields
        return
    listed = [*items(fields.get("post")), *items(fields.get("patch"))]
    runs_given = (
        listed or items(fields.get("runs")) or (value if isinstance(value, list) else [value])
    )
    merged: dict[str, Body] = {}
    for run in runs_given:
        each = obj(run)
        if id := word(each.get("id")):
            known = merged.setdefault(id, {})
            known |= {key: part for key, part in each.items() if part not in (None, {}, [])
                      or key not in known}  # fmt: skip
    groups: dict[str, list[Body]] = {}
    for id, run in merged.items():
        groups.setdefault(word(run.get("trace_id")) or id, []).append(run)
    for trace, runs in groups.items():
        yield {"trace": trace, "runs": runs}


def lines(path: Path, state: dict[str, Any]) -> Iterator[Raw]:  # noqa: ARG001  # the shape
    """The traces of a file with a run, or a batch of them, on each line, in any order."""
    size, named = path.stat().st_size, _traces_of_loose(path)

    def trace_of(run: Body) -> str | None:
        id = word(run.get("id"))
        return word(run.get("trace_id")) or named.get(id or "", id)

    def keys_of(value: Any) -> list[str]:
        return [trace for each in _runs(value) if (trace := trace_of(each))] or [OTHER]

    for group in grouped_lines(path, _is_row, keys_of):
        if isinstance(group, Raw):
            yield group
            continue
        key, values = group
        if key == OTHER:
            yield from (Raw(0, b"", value, through=size) for value in values)
            continue
        runs = [each for value in values for each in _runs(value) if trace_of(each) == key]
        yield from (Raw(0, b"", trace, through=size) for trace in traces(runs))


def _runs(value: Any) -> list[Body]:
    """The runs of a line: of a batch, later parts complete earlier ones."""
    fields = obj(value)
    batch = [*items(fields.get("post")), *items(fields.get("patch"))]
    return [each for each in batch or [value] if isinstance(each, dict)]


def _traces_of_loose(path: Path) -> dict[str, str]:
    """The traces of runs that a later part names without their trace."""
    loose: set[str] = set()
    known: dict[str, str] = {}
    with path.open("rb") as file:
        for line in file:
            if PARTS.search(line) or TRACE not in line:
                loose |= {
                    str(each.get("id")) for each in _runs(_json(line)) if not each.get("trace_id")
                }
        file.seek(0)
        for line in file if loose else ():
            for each in _runs(_json(line)):
                id, trace = word(each.get("id")), word(each.get("trace_id"))
                if id in loose and id and trace:
                    known[id] = trace
    return known


def _json(line: bytes) -> Any:
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        return None


def _is_row(body: Body) -> bool:
    return not body.keys().isdisjoint({"run_type", "trace_id", "post", "patch", "runs"})


SIGNS = (
    Signs({"run_type": str, "dotted_order": str, "trace_id": str}, sure=0.97),
    Signs({"run_type": str, "trace_id": str, "start_time": ANY, "inputs": ANY}, sure=0.97),
)


def recognise(path: Path, head: bytes) -> float:
    objects = beginning(path, head).objects
    inner = [obj(each) for fields in objects for key in ("post", "patch", "runs")
             for each in items(fields.get(key))[:5]]  # fmt: skip
    if any(sign.match(each) for each in inner for sign in SIGNS):
        return 0.97
    return score(path, head, SIGNS)


importer = Importer(
    name=NAME,
    about="LangSmith: exported runs, and the bodies that its SDK sends; each trace is a run.",
    mapping="3",
    reader=LangsmithReader,
    recognise=recognise,
    form=lines_at_once,
    records=lines,
    fits=_is_row,
    proven="bodies of the SDK 0.14 from a test run, and a real batch of 2024",
)
