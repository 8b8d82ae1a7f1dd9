"""inspect: the logs of Inspect AI; each sample of an evaluation is a run."""

import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson
import zstandard

from tracklog.formats.importers import (
    DAMAGED,
    Form,
    Importer,
    Raw,
    Signs,
    beginning,
    count,
    in_seconds,
    run_id,
    score,
    utc_time,
    word,
)
from tracklog.formats.importers._records import repaired_value
from tracklog.formats.importers._snapshots import (
    SnapshotReader,
    foreign_block,
    open_run,
    parsed,
    text_block,
    thought_block,
    without,
)
from tracklog.formats.providers import Body, items, obj, usage
from tracklog.model.fact import Began, Called, Decided, Ended, Noted, Returned, Said, Spent

NAME = "inspect"
ZSTD = 93
"""The method of a zip member that is compressed with Zstandard."""
COMMON = ("event", "uuid", "span_id", "timestamp", "working_start", "pending", "parent_id")
MODEL = (*COMMON, "model", "input", "input_refs", "output", "error", "tools", "call", "cache",
         "working_time", "completed")  # fmt: skip
TOOL = (*COMMON, "type", "id", "function", "arguments", "result", "error", "events", "working_time",
        "completed", "message_id")  # fmt: skip
SAMPLE = ("messages", "events", "attachments", "events_data", "message_pool", "transcript", "id",
          "epoch", "uuid", "model_usage", "role_usage", "output", "store")  # fmt: skip


class InspectReader(SnapshotReader):
    """Reads the samples of a log, each as a run; events are read, messages only without them."""

    def identify(self, raw: Raw) -> str | None:
        value = obj(raw.value)
        samples = [value.get("sample")] if "sample" in value else items(value.get("samples"))
        first = obj(next(iter(samples), None))
        return self._run(obj(value.get("eval")), first) if "eval" in value else None

    def run_of(self, value: Body) -> str | None:
        return self._run(obj(value.get("eval")), obj(value.get("sample")))

    def _run(self, about: Body, sample: Body) -> str:
        id = word(about.get("eval_id")) or word(about.get("run_id")) or str(about.get("task_id"))
        native = word(sample.get("uuid"))
        return run_id(NAME, native or f"{id}/{sample.get('id')}/{sample.get('epoch')}")

    def record(self, raw: Raw) -> None:
        value = raw.value
        if not isinstance(value, dict) or "eval" not in value:
            self.out.unknown("value", self.out.about(raw, bare=True))
            return
        if "sample" in value:
            self._sample(value, obj(value["sample"]))
            return
        for sample in items(value.get("samples")):
            self._sample(value, obj(sample))
        if not items(value.get("samples")) and raw.exact:
            self._alone(value)  # of a torn log the samples may be missing

    def conversation(self, value: Body) -> None:
        self._sample(value, obj(value.get("sample")))

    def _alone(self, value: Body) -> None:
        """A log without samples: it failed before the first one, or has just begun."""
        self.out.run = self._run(obj(value.get("eval")), {})
        self.about("eval")
        about = without(value, "samples", "stats")
        self._open(obj(about.get("eval")), {}, utc_time(obj(about.get("eval")).get("created")))
        if error := obj(about.get("error")):
            text = word(error.get("message"))
            self.put(Noted(label="error", kind="error", text=text, data=error))

    def _open(self, about: Body, sample: Body, at: str | None) -> None:
        task = word(about.get("task_display_name")) or word(about.get("task"))
        name = f"{task} {sample['id']}" if "id" in sample else task
        epoch = sample.get("epoch")
        title = f"{name} (epoch {epoch})" if isinstance(epoch, int) and epoch > 1 else name
        revision = obj(about.get("revision"))
        open_run(
            self.out,
            NAME,
            word(sample.get("uuid")) or word(about.get("eval_id")),
            at=at,
            program="inspect-ai",
            version=obj(about.get("packages")).get("inspect_ai"),
            model=about.get("model"),
            title=title,
            extra={
                "eval": without(about, "model_args"),
                **without(sample, *SAMPLE, "scores", "error"),
                **({"commit": revision} if revision else {}),
            },
        )
        self.out.report.mapped["sample"] += 1

    def _sample(self, log: Body, sample: Body) -> None:
        about = obj(log.get("eval"))
        self.out.run = self._run(about, sample)
        self.model = word(about.get("model"))
        old = obj(sample.get("transcript"))
        events = items(sample.get("events")) or items(old.get("events"))
        texts = {**obj(old.get("content")), **obj(sample.get("attachments"))}
        pool = items(obj(sample.get("events_data")).get("messages")) or items(
            sample.get("message_pool")
        )
        fixed = {"eval": without(about, "model_args"), "sample": without(sample, *SAMPLE[:6])}
        self.about("sample")
        fixed = _resolved(fixed, texts)
        began = utc_time(sample.get("started_at")) or next(
            (at for each in events if (at := utc_time(obj(each).get("timestamp")))), None
        )
        self._open(obj(fixed.get("eval")), obj(fixed.get("sample")), began)
        self._known: set[str] = set()
        self._called: set[str] = set()
        self._answered = {
            str(obj(each).get("id")) for each in events if obj(each).get("event") == "tool"
        }
        self._agents: list[tuple[str, str]] = []
        for place, event in enumerate(events):
            self._event(f"event/{place}", obj(event), texts, pool)
        if not events:
            for place, message in enumerate(items(sample.get("messages"))):
                self.about(f"message/{place}")
                fields = _resolved(message, texts)
                self._message(obj(fields), None, whole=True)
        self._end(log, sample, texts)

    def _end(self, log: Body, sample: Body, texts: Body) -> None:
        error, limit = obj(sample.get("error")), obj(sample.get("limit"))
        scores = obj(sample.get("scores"))
        done = utc_time(sample.get("completed_at"))
        status = word(log.get("status"))
        fields = {
            "error": error,
            "limit": limit,
            "status": status,
            "retries": sample.get("error_retries"),
        }
        self.about("end")
        fields = obj(_resolved(without(fields), texts))
        if error:
            text = word(error.get("message"))
            self.put(Noted(label="error", kind="error", text=text, data=error), done, fields)
        elif fields.get("retries"):
            self.put(Noted(label="error", kind="error_retries", data=fields["retries"]), done)
        if done or error or status not in (None, "started"):
            broken = status if not done and status in ("cancelled", "error") else None
            outcome = "error" if error else word(limit.get("type")) or broken or "success"
            ended = Ended(
                what="run",
                outcome=outcome,
                passed=False if outcome == "error" else None,
                reason=word(error.get("message")),
                seconds=in_seconds(sample.get("total_time")),
            )
            self.put(ended, done)
        if scores and not self._known & {"score"}:
            self.about("scores")
            for name, each in obj(_resolved(scores, texts)).items():
                self._decide(name, obj(each), done)

    def _event(self, key: str, event: Body, texts: Body, pool: list[Any]) -> None:
        kind = word(event.get("event")) or "event"
        name = word(event.get("uuid")) or key
        full = dict(event)
        if not items(event.get("input")) and items(event.get("input_refs")):
            full["input"] = [message for span in items(event["input_refs"])
                             for message in _span(pool, span)]  # fmt: skip
        full = _resolved(full, texts)
        self.about(name)
        value = (
            obj(self.out.lift.value(without(full, "call")))
            if kind == "model"
            else obj(self.out.lift.value(full))
        )
        at = utc_time(event.get("timestamp"))
        self.out.report.mapped[kind] += 1
        if kind == "model":
            self._model(name, value, at)
        elif kind == "tool":
            self._tool(value, at, texts, pool, key)
        elif kind == "score":
            self._known.add("score")
            self._decide(word(value.get("scorer")) or "score", obj(value.get("score")), at)
        elif kind in ("span_begin", "span_end", "step", "subtask"):
            self._span(kind, value, at)
        elif kind in ("error", "sample_limit"):
            fields = obj(value.get("error"))
            text = word(fields.get("message")) or word(value.get("message"))
            self.put(Noted(label="error", kind=kind, text=text, data=without(value, *COMMON)), at)
        else:
            data = without(value, *COMMON)
            label = "compaction" if kind == "compaction" else kind
            text = word(value.get("message")) or word(obj(value.get("message")).get("message"))
            self.put(Noted(label=label, kind=kind, text=text, data=data or None), at)

    def _span(self, kind: str, value: Body, at: str | None) -> None:
        """Agents are spans of their own type; other spans only order the events."""
        id, name = word(value.get("id")), word(value.get("name"))
        if kind == "span_begin" and value.get("type") == "agent":
            self._agents.append((id or "", name or "agent"))
            self.put(Began(what="agent", agent=name or "agent"), at)
        elif kind == "span_end" and self._agents and self._agents[-1][0] == id:
            self.put(Ended(what="agent", agent=self._agents.pop()[1]), at)
        else:
            data = without(value, *COMMON)
            self.put(Noted(label=kind, kind=kind, text=name, data=data or None), at)

    def _model(self, key: str, value: Body, at: str | None) -> None:
        for message in items(value.get("input")):
            self._message(obj(message), at)
        output = obj(value.get("output"))
        model = word(value.get("model")) or word(output.get("model")) or self.model
        done = utc_time(value.get("completed")) or at
        choice = obj(next(iter(items(output.get("choices"))), None))
        message = obj(choice.get("message"))
        if message:
            self._message(message, done, model, word(choice.get("stop_reason")))
        error = value.get("error")
        if error:
            text = word(obj(error).get("message")) or word(error)
            self.put(Noted(label="error", kind="model", text=text, data=error), done)
        fields = obj(output.get("usage"))
        if fields and value.get("cache") != "read":
            self._spent(key, fields, model, done)
        rest = without(value, *MODEL)
        if rest or without(output, "choices", "usage", "model", "completion"):
            rest |= {"output": without(output, "choices", "usage", "model")}
            self.put(Noted(label="model", kind="model", data=without(rest)), at)

    def _spent(self, key: str, fields: Body, model: str | None, at: str | None) -> None:
        read = count(fields.get("input_tokens_cache_read")) or 0
        written = count(fields.get("input_tokens_cache_write")) or 0
        fresh, cost = count(fields.get("input_tokens")), fields.get("total_cost")
        known = usage(
            fields,
            input_tokens=None if fresh is None else fresh + read + written,
            cached_tokens=read,
            cache_write_tokens=written,
            output_tokens=count(fields.get("output_tokens")),
            reasoning_tokens=count(fields.get("reasoning_tokens")),
        )
        if known.get("total_tokens"):
            paid = cost if isinstance(cost, int | float) and cost > 0 else None
            spent = Spent(
                key=f"{self.out.run}/{key}", model=model, usage=known, cost_usd=paid, calls=1
            )
            self.put(spent, at)

    def _message(
        self,
        message: Body,
        at: str | None,
        model: str | None = None,
        stop: str | None = None,
        *,
        whole: bool = False,
    ) -> None:
        """Write a message once; a model is sent the same ones again and again."""
        role = word(message.get("role")) or "user"
        print_ = sha256(orjson.dumps([role, message.get("id"), message.get("content"),
                                      message.get("tool_calls")], default=str)).hexdigest()  # fmt: skip
        name = word(message.get("id")) or print_
        if name in self._known and not whole:
            return
        self._known.add(name)
        blocks = tuple(_blocks(message.get("content")))
        if role == "tool":
            if whole or str(message.get("tool_call_id")) not in self._answered:
                self._returned(message, at)
            return
        speaks = "assistant" if role == "assistant" else "system" if role == "system" else "user"
        extra = without(message, "id", "role", "content", "tool_calls", "model", "source")
        id = word(message.get("id"))
        if blocks or not items(message.get("tool_calls")):
            fact = Said(role=speaks, blocks=blocks, message_id=id, stop_reason=stop,  # type: ignore[arg-type]  # three roles
                        model=model or word(message.get("model")) if role == "assistant" else None)  # fmt: skip
            self.put(fact, at, extra)
        for place, call in enumerate(items(message.get("tool_calls"))):
            self._call(obj(call), f"{name}/{place}", at)

    def _call(self, call: Body, made: str, at: str | None) -> None:
        id = word(call.get("id"))
        if id in self._called:
            return
        self._called.add(id or made)
        name = word(call.get("function")) or "unknown"
        given = parsed(call.get("arguments"))
        self.put(Called(tool=name, call_id=id or made, input=given, synthetic_id=id is None), at)

    def _returned(self, message: Body, at: str | None) -> None:
        id, error = word(message.get("tool_call_id")), message.get("error")
        back = Returned(
            call_id=id or "unknown",
            tool=word(message.get("function")),
            ok=error is None,
            output=message.get("content"),
            error=error,
            status=word(obj(error).get("type")),
            synthetic_id=id is None,
        )
        self.put(back, at)

    def _tool(self, value: Body, at: str | None, texts: Body, pool: list[Any], key: str) -> None:
        id, error = word(value.get("id")), value.get("error")
        self._call(value, key, at)
        for place, inner in enumerate(items(value.get("events"))):
            self._event(f"{key}/{place}", obj(inner), texts, pool)
        kind = word(obj(error).get("type"))
        back = Returned(
            call_id=id or key,
            tool=word(value.get("function")),
            ok=None if kind == "cancelled" else error is None,
            output=value.get("result"),
            error=error,
            status=kind,
            seconds=in_seconds(value.get("working_time")),
            synthetic_id=id is None,
        )
        self.put(back, utc_time(value.get("completed")) or at, without(value, *TOOL))

    def _decide(self, name: str, fields: Body, at: str | None) -> None:
        value = fields.get("value")
        number = float(value) if isinstance(value, int | float) else None
        decided = Decided(
            name=name,
            verdict=value,
            score=number,
            reason=word(fields.get("explanation")),
            evidence=fields.get("answer"),
        )
        self.put(decided, at, without(fields, "value", "explanation", "answer", "history"))


def _blocks(content: Any) -> Iterator[Body]:
    if isinstance(content, str):
        if content:
            yield text_block(content)
        return
    for part in items(content):
        fields = obj(part)
        kind = word(fields.get("type"))
        if kind == "text":
            yield text_block(fields.get("text"))
        elif kind == "reasoning":
            hidden = fields.get("redacted") is True
            thought = fields.get("summary") if hidden else fields.get("reasoning")
            yield thought_block(
                thought, fields.get("reasoning") if hidden else fields.get("signature")
            )
        else:
            yield foreign_block(kind or "part", part)


def _span(pool: list[Any], span: Any) -> list[Any]:
    if isinstance(span, int):
        return pool[span : span + 1]
    ends = [each for each in items(span) if isinstance(each, int)]
    return pool[ends[0] : ends[1]] if len(ends) == 2 else []


def _resolved(value: Any, texts: Body) -> Any:
    """A value with the texts that stand elsewhere in the log."""
    if isinstance(value, str):
        if value.startswith(("attachment://", "tc://")):
            return texts.get(value.partition("://")[2], value)
        return value
    if isinstance(value, dict):
        return {key: _resolved(each, texts) for key, each in value.items()}
    if isinstance(value, list):
        return [_resolved(each, texts) for each in value]
    return value


def members(path: Path, state: dict[str, Any]) -> Iterator[Raw]:
    """The samples of an archive that have changed, each with the header of the log."""
    seen: dict[str, Any] = state.setdefault("seen", {})
    size = path.stat().st_size
    try:
        with zipfile.ZipFile(path) as archive, path.open("rb") as file:
            infos = {each.filename: each for each in archive.infolist()}
            about = infos.get("header.json") or infos.get("_journal/start.json")
            header = obj(_member(file, about)) if about else {}
            for name, info in infos.items():
                if not name.startswith("samples/") or seen.get(name) == [
                    info.CRC,
                    about and about.CRC,
                ]:
                    continue
                sample = _member(file, info)
                if not isinstance(sample, dict):
                    flaw = ("irreparable", f"{name} of the archive cannot be read")
                    yield Raw(0, b"", DAMAGED, (flaw,), exact=False, through=size)
                    continue
                yield Raw(0, b"", {**header, "sample": sample}, through=size)
                seen[name] = [info.CRC, about and about.CRC]
            if header and not any(name.startswith("samples/") for name in infos):
                yield Raw(0, b"", header, through=size)
    except (zipfile.BadZipFile, ValueError, struct.error, EOFError, NotImplementedError) as error:
        flaw = ("unreadable", f"no archive that can be read: {error}")
        yield Raw(0, b"", DAMAGED, (flaw,), exact=False, through=size)


def _member(file: Any, info: zipfile.ZipInfo) -> Any:
    """A member of an archive as JSON; None where it cannot be read."""
    file.seek(info.header_offset)
    head = file.read(30)
    if len(head) < 30 or head[:4] != b"PK\x03\x04":
        return None
    name, extra = struct.unpack("<HH", head[26:30])
    file.seek(name + extra, 1)
    data = file.read(info.compress_size)
    try:
        if info.compress_type == ZSTD:
            data = zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True).read()
        elif info.compress_type == zipfile.ZIP_DEFLATED:
            data = zlib.decompress(data, -15)
    except (zstandard.ZstdError, zlib.error):
        return None
    value = repaired_value(data)
    return None if value is DAMAGED else value


SIGNS = (Signs({"version": int, "status": str, "eval.task": str, "eval.model": str}, sure=0.98),)


def recognise(path: Path, head: bytes) -> float:
    names = beginning(path, head).members
    if names:
        return 0.98 if names & {"_journal/start.json", "header.json"} else 0.0
    return score(path, head, SIGNS)


def form(path: Path, head: bytes) -> Form:  # noqa: ARG001  # the shape
    return "store" if head.startswith(b"PK") else "document"


def find(home: Path, environment: Mapping[str, str]) -> Iterable[Path]:  # noqa: ARG001  # the shape
    """The folder that the environment names; by default logs are in the folder of each project."""
    given = environment.get("INSPECT_LOG_DIR")
    folder = Path(given) if given and "://" not in given else None
    if folder is not None and folder.is_dir():
        yield from sorted(each for each in folder.rglob("*.eval") if each.is_file())


importer = Importer(
    name=NAME,
    about="Inspect AI: evaluation logs, `.eval` and `.json`; each sample is a run.",
    mapping="2",
    reader=InspectReader,
    recognise=recognise,
    find=find,
    form=form,
    records=members,
    fits=lambda body: "eval" in body,
    proven="logs of 0.3.285 from a test run, and logs of 2024 and 2026 from its makers",
)
