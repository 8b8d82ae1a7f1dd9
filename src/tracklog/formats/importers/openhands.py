"""openhands: the conversations of OpenHands, of its first generation and of its SDK."""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tracklog.formats.importers import (
    Importer,
    Raw,
    Signs,
    beginning,
    count,
    inside,
    run_id,
    score,
    utc_time,
    word,
)
from tracklog.formats.importers._exchanges import reply_of
from tracklog.formats.importers._snapshots import (
    SnapshotReader,
    exit_code_of,
    foreign_block,
    json_lines,
    lines_at_once,
    open_run,
    parsed,
    read_json,
    text_block,
    thought_block,
    without,
)
from tracklog.formats.providers import Body, items, obj, usage
from tracklog.model.fact import Called, Ended, Noted, Returned, Said, Spent

NAME = "openhands"
BASE = "base_state.json"
ACP = "ACPToolCallEvent"
COMMON = ("id", "timestamp", "source", "kind", "parent_id")
THINK = re.compile(r"<think>.*?</think>\s*", re.DOTALL)
QUIET = ("recall", "change_agent_state", "agent_state_changed", "null", "condensation", "think",
         "system", "message", "finish", "reject")  # fmt: skip


class OpenhandsReader(SnapshotReader):
    """Reads one conversation: a list of events, or a folder of them."""

    def run_of(self, value: Body) -> str | None:
        return run_id(NAME, self._native(value))

    def _native(self, value: Body) -> str:
        path = self.source.path
        if path.name == BASE or "instance_id" in value:
            return word(value.get("id")) or word(value.get("instance_id")) or path.parent.name
        return path.parent.parent.name if path.parent.name == "events" else path.stem

    def identify(self, raw: Raw) -> str | None:
        value = raw.value
        if isinstance(value, list):
            return self.run_of({})
        return self.run_of(value) if isinstance(value, dict) else None

    def record(self, raw: Raw) -> None:
        value = raw.value
        if isinstance(value, list):
            value = {"events": value}
        if not isinstance(value, dict):
            self.out.unknown("value", self.out.about(raw, bare=True))
            return
        self.out.run = self.run_of(value) or self.out.run
        self.conversation(value)

    def conversation(self, value: Body) -> None:
        path = self.source.path
        if "events" in value or "history" in value:
            events = items(value.get("events")) or items(value.get("history"))
        else:
            events = [read_json(each) for each in events_of(path)]
        fields = [obj(each) for each in events]
        llm = obj(obj(value.get("agent")).get("llm"))
        self.model = word(llm.get("model"))
        first = next((at for each in fields if (at := utc_time(each.get("timestamp")))), None)
        about = {"id": self._native(value), "model": self.model,
                 "workspace": obj(value.get("workspace")).get("working_dir"),
                 **without(value, "events", "history", "agent", "stats", "id", "workspace",
                           "execution_status", "secrets", "agent_state", "llm_metrics", "metrics")}  # fmt: skip
        self.about("conversation")
        about = about if "instance_id" in value else without(about)
        rest = without(about, "id", "model", "workspace") if "instance_id" in value else None
        open_run(self.out, NAME, about.get("id"), at=first, model=self.model,
                 cwd=about.get("workspace"), title=value.get("title"), extra=rest)  # fmt: skip
        self._actions: dict[str, str] = {}
        self._responses: set[str] = set()
        self._stats: Body = {}
        agent = str(obj(value.get("agent")).get("kind"))
        self._is_acp = agent.startswith("ACP") or any(each.get("kind") == ACP for each in fields)
        last = next((at for each in fields[::-1] if (at := utc_time(each.get("timestamp")))), None)
        for place, event in enumerate(fields):
            key = event.get("id")
            key = str(key) if key is not None and key != "" else f"event/{place}"
            self.about(key)
            at = utc_time(event.get("timestamp"))
            if "kind" in event:
                self._sdk(key, event, at)
            elif "action" in event or "observation" in event:
                self._v0(key, event, at)
            else:
                self.out.unknown("event", event, at=at)
        stats = self._stats or obj(obj(value.get("stats")).get("usage_to_metrics"))
        if stats:
            self.about("stats")
            self._sum(stats, last)

    # The first generation.

    def _v0(self, key: str, event: Body, at: str | None) -> None:
        if "observation" in event:
            self._observed(event, at)
            return
        action, args = str(event.get("action")), obj(event.get("args"))
        meta = obj(event.get("tool_call_metadata"))
        self.out.report.mapped[action] += 1
        self._answered = self._response(obj(meta.get("model_response")), at)
        agent = event.get("source") == "agent"
        extra = without(event, "id", "timestamp", "source", "message", "action", "args",
                        "tool_call_metadata", "llm_metrics")  # fmt: skip
        thought = word(args.get("thought"))
        if action == "message":
            blocks = (text_block(args.get("content")),)
            fact = Said(role="assistant" if agent else "user", blocks=blocks, message_id=key,
                        model=self.model if agent else None,
                        injected=event.get("source") == "environment")  # fmt: skip
            self.put(fact, at, {**extra, **without(args, "content")})
        elif action == "system":
            fact = Said(role="system", blocks=(text_block(args.get("content")),), injected=True)
            self.put(fact, at, {**extra, **without(args, "content")})
        elif action in ("think", "finish", "reject"):
            text = word(args.get("final_thought")) or thought or word(event.get("message"))
            block = thought_block(text) if action == "think" else text_block(text)
            fact = Said(role="assistant", blocks=(block,), message_id=key, model=self.model)
            self.put(fact, at, {**extra, **without(args, "thought", "final_thought")})
        elif action in QUIET:
            label = "compaction" if action == "condensation" else action
            self.put(Noted(label=label, kind=action, data=without({**args, **extra})), at)
        else:
            if thought and thought != self._answered:
                fact = Said(role="assistant", blocks=(text_block(thought),), model=self.model,
                            message_id=f"{key}/thought")  # fmt: skip
                self.put(fact, at)
            native = word(meta.get("tool_call_id"))
            id = self._actions[str(event.get("id"))] = native or key
            tool = word(meta.get("function_name")) or action
            given = without(args, "thought")
            call = Called(tool=tool, call_id=id, input=given, synthetic_id=native is None)
            self.put(call, at, {**extra, **without({"message": event.get("message")})})

    def _observed(self, event: Body, at: str | None) -> None:
        kind, extras = str(event.get("observation")), obj(event.get("extras"))
        self.out.report.mapped[kind] += 1
        meta = obj(event.get("tool_call_metadata"))
        self._response(obj(meta.get("model_response")), at)
        id = self._actions.get(str(event.get("cause"))) or word(meta.get("tool_call_id"))
        content = event.get("content")
        if id is None:
            label = "error" if kind == "error" else kind
            text = word(content) or word(event.get("message"))
            self.put(Noted(label=label, kind=kind, text=text, data=extras or None), at)
            return
        code = obj(extras.get("metadata")).get("exit_code", extras.get("exit_code"))
        exit_code = _ended(code)
        wrong = kind == "error" or bool(exit_code) or event.get("success") is False
        tool = word(meta.get("function_name"))
        back = Returned(call_id=id, tool=tool, ok=not wrong, output=content, exit_code=exit_code,
                        status=kind, synthetic_id=not word(meta.get("tool_call_id")))  # fmt: skip
        self.put(back, at, without({"message": event.get("message"), "extras": extras}))

    def _response(self, response: Body, at: str | None) -> str | None:
        """Write a response, which is repeated on each of its calls and results; returns its words."""
        id = word(response.get("id"))
        choice = obj(next(iter(items(response.get("choices"))), None))
        text = word(obj(choice.get("message")).get("content"))
        if id is None or id in self._responses:
            return text
        self._responses.add(id)
        self.model = word(response.get("model")) or self.model
        if text:
            fact = Said(
                role="assistant", blocks=(text_block(text),), message_id=id, model=self.model
            )
            self.put(fact, at)
        known = obj(reply_of("openai", [response]).meta.get("usage"))
        if known:
            raw = obj(response.get("usage"))
            written = count(raw.get("cache_creation_input_tokens"))
            known = {**known, "cache_write_tokens": written} if written else known
            self.put(Spent(key=id, model=self.model, usage=known, calls=1), at)
        return text

    # The SDK.

    def _sdk(self, key: str, event: Body, at: str | None) -> None:
        kind = str(event.get("kind"))
        self.out.report.mapped[kind] += 1
        extra = without(event, *COMMON)
        if kind == "MessageEvent":
            message = obj(event.get("llm_message"))
            role = "assistant" if message.get("role") == "assistant" else "user"
            blocks = [*_thoughts(message), *_blocks(message.get("content"))]
            hidden = event.get("source") != "user" and role == "user"
            fact = Said(role="assistant" if role == "assistant" else "user", blocks=tuple(blocks),
                        message_id=key, model=self.model if role == "assistant" else None,
                        injected=hidden)  # fmt: skip
            self.put(fact, at, without(extra, "llm_message"))
        elif kind == "SystemPromptEvent":
            prompt = event.get("system_prompt", event.get("prompt"))
            text = obj(prompt).get("text", prompt)
            fact = Said(role="system", blocks=(text_block(text),), injected=True)
            self.put(fact, at, without(extra, "system_prompt", "prompt"))
        elif kind in ("ActionEvent", ACP):
            self._action(key, event, at)
        elif kind in ("ObservationEvent", "AgentErrorEvent", "UserRejectObservation"):
            self._result(event, at)
        elif kind == "ConversationStateUpdateEvent" and event.get("key") == "stats":
            self._stats = obj(obj(event.get("value")).get("usage_to_metrics")) or self._stats
        elif "Error" in kind:
            text = word(event.get("detail")) or word(event.get("error")) or word(event.get("code"))
            self.put(Noted(label="error", kind=kind, text=text, data=extra), at)
        elif kind in ("PauseEvent", "InterruptEvent"):
            self.put(Ended(what="step", step="turn", outcome=kind), at, extra)
        else:
            label = "compaction" if kind.startswith("Condensation") else kind
            text = word(event.get("summary"))
            self.put(Noted(label=label, kind=kind, text=text, data=extra or None), at)

    def _action(self, key: str, event: Body, at: str | None) -> None:
        thoughts = list(_thoughts(event))
        known = {block.get("thinking") for block in thoughts}
        for block in _blocks(event.get("thought")):
            text = block.get("text")
            rest = THINK.sub("", text) if isinstance(text, str) and known else text
            if rest not in (None, ""):
                thoughts.append({**block, "text": rest} if block["type"] == "text" else block)
        if thoughts:
            id = word(event.get("llm_response_id")) or key
            fact = Said(role="assistant", blocks=tuple(thoughts), message_id=id, model=self.model)
            self.put(fact, at)
        call, native = obj(event.get("tool_call")), word(event.get("tool_call_id"))
        given = parsed(call.get("arguments")) if call else without(obj(event.get("action")), "kind")
        extra = without(event, *COMMON, "thought", "reasoning_content", "thinking_blocks", "tool_call",
                        "tool_name", "tool_call_id", "action")  # fmt: skip
        name = word(event.get("tool_name")) or word(call.get("name")) or "unknown"
        called = Called(tool=name, call_id=native or key, input=given, synthetic_id=native is None)
        self.put(called, at, extra)

    def _result(self, event: Body, at: str | None) -> None:
        seen, native = obj(event.get("observation")), word(event.get("tool_call_id"))
        error = event.get("error") or event.get("rejection_reason")
        exit_code = _ended(seen.get("exit_code"))
        wrong = seen.get("is_error") is True or bool(error)
        back = Returned(
            call_id=native or word(event.get("action_id")) or "unknown",
            tool=word(event.get("tool_name")),
            ok=not wrong,
            output=seen.get("content"),
            error=error,
            status="rejected" if event.get("rejection_reason") else None,
            exit_code=exit_code,
            synthetic_id=native is None,
        )
        rest = without(seen, "content", "is_error", "exit_code", "kind")
        self.put(back, at, without({"observation": rest}))

    def _sum(self, stats: Body, at: str | None) -> None:
        """The last counts of each use of a model: they are cumulative."""
        for name, each in stats.items():
            fields = obj(each)
            counts, cost = (
                obj(fields.get("accumulated_token_usage")),
                fields.get("accumulated_cost"),
            )
            asked, read, written = (
                count(counts.get(f"{each}_tokens"))
                for each in ("prompt", "cache_read", "cache_write")
            )
            if self._is_acp:  # there the prompt is only what the cache did not have
                asked = (asked or 0) + (read or 0) + (written or 0)
            known = usage(
                counts or None,
                input_tokens=asked,
                cached_tokens=read,
                cache_write_tokens=written,
                output_tokens=count(counts.get("completion_tokens")),
                reasoning_tokens=count(counts.get("reasoning_tokens")),
            )
            paid = cost if isinstance(cost, int | float) and cost > 0 else None
            if known.get("total_tokens") or paid:
                calls = len(items(fields.get("token_usages"))) or None
                spent = Spent(key=f"{self.out.run}/{name}", model=word(fields.get("model_name")),
                              usage=known, cost_usd=paid, calls=calls)  # fmt: skip
                self.put(spent, at)


def _ended(code: Any) -> int | None:
    """The exit code of a command; -1 means that it still ran."""
    exit_code = exit_code_of(code)
    return None if exit_code == -1 else exit_code


def _thoughts(fields: Body) -> Iterator[Body]:
    for block in items(fields.get("thinking_blocks")):
        each = obj(block)
        yield thought_block(each.get("thinking"), each.get("signature") or each.get("data"))
    if not items(fields.get("thinking_blocks")) and word(fields.get("reasoning_content")):
        yield thought_block(fields["reasoning_content"])


def _blocks(content: Any) -> Iterator[Body]:
    if isinstance(content, str):
        yield text_block(content)
    for part in items(content):
        fields = obj(part)
        if fields.get("type") == "text":
            yield text_block(fields.get("text"))
        else:
            yield foreign_block(word(fields.get("type")) or "part", part)


def _is_event(body: Body) -> bool:
    return "kind" in body or "source" in body or "history" in body


NUMBER = re.compile(r"(?:event-)?(\d+)")


def events_of(path: Path) -> list[Path]:
    """The files of events of a conversation, in order."""
    folder = path.parent if path.parent.name == "events" else path.parent / "events"
    paths = [each for each in inside(folder, "*.json") if NUMBER.match(each.name)]
    return sorted(paths, key=lambda each: int(NUMBER.match(each.name)[1]))  # type: ignore[index]  # it matched


def joined(path: Path, state: dict[str, Any]) -> Iterator[Raw]:  # noqa: ARG001  # the shape
    """A file of lines: of one conversation an event each, or a conversation each."""
    file = json_lines(path, _is_event)
    events = []
    for _, value in file.values:
        if isinstance(value, dict) and isinstance(value.get("history"), list):
            yield Raw(0, b"", value, through=file.size)
        else:
            events.append(value)
    if events:
        yield Raw(0, b"", {"events": events}, through=file.size)
    yield from file.damaged


SDK = re.compile(r"[A-Z]\w*(Event|Observation|Condensation\w*)$|Condensation")
SIGNS = (
    Signs({"kind": SDK, "source": {"agent", "user", "environment", "hook"}, "timestamp": str}),
    Signs({"source": str, "action": str, "args": dict, "timestamp": str}),
    Signs({"source": str, "observation": str, "content": str, "extras": dict}),
    Signs({"instance_id": str, "history": list}),
)
STATE = Signs({"id": str, "agent.llm": dict, "execution_status": str})


def recognise(path: Path, head: bytes) -> float:
    objects = beginning(path, head).objects
    if path.name == BASE and any("agent" in each and "id" in each for each in objects):
        return 0.95
    return score(path, head, SIGNS)


def companion(path: Path, head: bytes) -> bool:
    """The files of events that are read with the first one, or with the state."""
    if path.parent.name != "events" or path.suffix != ".json" or not NUMBER.match(path.name):
        return False
    if not score(path, head, SIGNS):
        return False
    return (path.parent.parent / BASE).is_file() or next(iter(events_of(path)), path) != path


def beside(path: Path) -> list[Path]:
    return events_of(path) if path.name == BASE or path.parent.name == "events" else []


def find(home: Path, environment: Mapping[str, str]) -> Iterable[Path]:
    base = Path(environment.get("OPENHANDS_CONVERSATIONS_DIR") or home / ".openhands/conversations")
    yield from inside(base, f"*/{BASE}")
    for pattern in ("sessions/*/events", "users/*/conversations/*/events"):
        for folder in sorted((home / ".openhands").glob(pattern)):
            yield from events_of(folder / "0.json")[:1]  # ids have gaps


importer = Importer(
    name=NAME,
    about="OpenHands: events of its first generation and of its SDK, in folders, lists and lines.",
    mapping="3",
    reader=OpenhandsReader,
    recognise=recognise,
    find=find,
    form=lines_at_once,
    companion=companion,
    beside=beside,
    records=joined,
    fits=_is_event,
    proven="real events of the SDK (June 2026) and a real trajectory of January 2025",
)
