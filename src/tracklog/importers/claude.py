"""claude: the conversations that Claude Code keeps under ~/.claude/projects."""

import re
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson

from tracklog.event import Body
from tracklog.fact import Began, Called, Ended, Linked, Noted, Returned, Said, Spent
from tracklog.importers import (
    Importer,
    Raw,
    Reader,
    count,
    inside,
    moment,
    opening,
    run_id,
    seconds,
    word,
)
from tracklog.importers._blocks import Result, Use, Words, parts, usage

NAME = "claude"
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
REMEMBERED = 64
"""How many spends and open calls are remembered."""

FRAME = {
    "type", "uuid", "parentUuid", "logicalParentUuid", "sessionId", "session_id", "timestamp",
    "isSidechain", "userType", "cwd", "version", "gitBranch", "message", "agentId", "toolUseResult",
    "requestId",
}  # fmt: skip  # names, in rows
"""The keys that have a place of their own on a line."""
QUIET = {"isMeta": False, "isApiErrorMessage": False, "error": None, "isSnapshotUpdate": False}
"""Keys that say nothing with these values."""

SYSTEM = {
    "session_start", "init", "turn_duration", "stop_hook_summary", "compact_boundary", "api_error",
    "api_refusal", "model_refusal_fallback", "local_command", "away_summary", "informational",
    "error", "bridge_status", "microcompact_boundary",
}  # fmt: skip
SMALL = {
    "file-history-snapshot", "progress", "queue-operation", "agent-name", "agent-setting",
    "last-prompt", "bridge-session", "worktree-state", "relocated", "frame-link", "started",
    "atis-latch", "tag", "content-replacement", "rate_limit_event", "keep_alive",
}  # fmt: skip
TITLES = {"custom-title": "customTitle", "ai-title": "aiTitle"}
MODES = {"mode": "mode", "permission-mode": "permissionMode"}

WRAPPED = re.compile(
    r"\s*<(command-name|command-message|local-command-stdout|local-command-stderr|system-reminder"
    r"|ide_opened_file|ide_selection|teammate-message)\b[^>]*>.*</[\w-]+>\s*",
    re.DOTALL,
)
IDE = re.compile(r"\s*(?:<(ide_opened_file|ide_selection)\b[^>]*>.*?</\1>\s*)+", re.DOTALL)


class ClaudeReader(Reader):
    """Reads one file: a conversation, or what one of its sub-agents did."""

    def identify(self, raw: Raw) -> str | None:
        value = raw.value if isinstance(raw.value, dict) else {}
        session = word(value.get("sessionId")) or word(value.get("session_id"))
        agent, parent = _sub_agent(self.source.path)
        if agent:
            if parent is None and session and not session.startswith("agent-"):
                parent = session
            if parent is None:
                return None
            self.state |= {"session": parent, "agent": agent}
            return run_id(NAME, parent, agent)
        stem = self.source.path.name.partition(".")[0]
        native = stem if UUID.fullmatch(stem) else session
        if native is None:
            return None
        self.state["session"] = native
        return run_id(NAME, native)

    def unidentified(self) -> str:
        agent, _ = _sub_agent(self.source.path)
        self.state |= {"session": self.source.path.stem, "agent": agent}
        return run_id(NAME, self.source.path.stem, agent or "")

    def record(self, raw: Raw) -> None:
        value = raw.value
        if not isinstance(value, dict):
            self.tell.about(raw, bare=True)
            self.tell.unknown(_kind_of(value), value)
            return
        key = word(value.get("uuid"))
        at = moment(value.get("timestamp"))
        said: Body = self.tell.about(raw, key=key, bare=key is None and at is None)
        self.tell.copied = key is not None and self._is_copy(key)
        self.tell.agent = word(said.get("agentId")) or self.state.get("agent")
        home = self.tell.run
        if said.get("isSidechain") is True and not self.state.get("agent"):
            self.tell.run = self._side_run(said, key, at)
        try:
            Line(self, said, key, at).tell()
        finally:
            self.tell.run = home

    def _is_copy(self, key: str) -> bool:
        """Whether a record stands in another conversation that was read before: a fork."""
        state, tell = self.state, self.tell
        if "root" not in state:
            state["root"] = key
            known = self.source.others.keyed(f"root:{key}")
            if known and known[1] != tell.run:
                state["copy"] = [str(known[0]), known[1]]
                tell.tell(Linked(kind="fork", parent=known[1]), fidelity="inferred")
            else:
                tell.keys[f"root:{key}"] = tell.run
        if not state.get("copy"):
            return False
        if key in self._known(Path(state["copy"][0])):
            return True
        del state["copy"]  # from here on it is this conversation's own
        return False

    def _known(self, path: Path) -> frozenset[str]:
        if not hasattr(self, "_uuids"):
            self._uuids = frozenset(_uuids(path))
        return self._uuids

    def _side_run(self, said: Body, key: str | None, at: str | None) -> str:
        """The run of a sub-agent whose records stand among its parent's."""
        sides: dict[str, str] = self.state.setdefault("sides", {})
        parent = word(said.get("parentUuid"))
        agent = word(said.get("agentId"))
        root = agent or (sides.get(parent) if parent else None)
        fresh = root is None or (agent is not None and agent not in sides)
        root = root or key or "side"
        if key:
            sides[key] = root
            while len(sides) > 8 * REMEMBERED:
                del sides[next(iter(sides))]
        if agent:
            sides[agent] = agent
        child = run_id(NAME, self.state["session"], root)
        if fresh:
            call = self._task_for(_prompt(said))
            link = Linked(kind="sub-run", child=child, call_id=call)
            self.tell.tell(link, at=at, fidelity="inferred" if call or not agent else None)
            self.tell.tell(Began(what="run"), run=child, at=at)
        return child

    def _task_for(self, prompt: str | None) -> str | None:
        tasks: dict[str, str] = self.state.get("tasks", {})
        digest = _digest(prompt) if prompt else None
        return next((call for call, known in tasks.items() if known == digest), None)


class Line:
    """One record, being told."""

    def __init__(self, reader: ClaudeReader, said: Body, key: str | None, at: str | None) -> None:
        self.reader, self.said, self.key, self.at = reader, said, key, at
        self.state = reader.state
        self.kind = word(said.get("type")) or ""
        self.cause = word(said.get("parentUuid")) or word(said.get("logicalParentUuid"))
        self.extra: dict[str, Any] | None = None

    def tell(self) -> None:
        if not self.state.get("named"):
            self._name()
        if not self.state.get("began") and isinstance(self.said.get("cwd"), str):
            self._begin()
        self.extra = self._rest()
        known = KINDS.get(self.kind)
        if known is None:
            self._unknown(self.kind)
        elif known(self) is False:
            self._unknown(f"{self.kind} of an unknown shape")
        else:
            self.reader.tell.report.mapped[self.kind] += 1

    def _tell(self, fact: Any, **more: Any) -> None:
        """Tells a fact; the first of a record carries what has no field of its own."""
        extra = {**(self.extra or {}), **more.pop("extra", {})}
        self.extra = None
        more.setdefault("cause", self.cause)
        self.reader.tell.tell(fact, at=self.at, extra=extra or None, **more)

    def _unknown(self, kind: str) -> None:
        self.reader.tell.unknown(kind or "no type", self.said, at=self.at, cause=self.cause)

    def _rest(self) -> dict[str, Any]:
        """What has no field of its own, and what is not as it was at the beginning."""
        rest = {
            key: value
            for key, value in self.said.items()
            if key not in FRAME and not (key in QUIET and QUIET[key] == value)
        }
        began = self.state.get("began") or {}
        for key in ("cwd", "gitBranch", "version"):
            if key in self.said and self.said[key] != began.get(key):
                rest[key] = self.said[key]
        return rest

    def _name(self) -> None:
        """What this conversation is called, and whose child it is."""
        tell, state = self.reader.tell, self.state
        state["named"] = True
        session, agent = state["session"], state.get("agent")
        tell.tell(Linked(kind="alias", system=NAME, alias=agent or session), at=self.at)
        if agent:
            source, exact = self._source_call()
            parent = run_id(NAME, session)
            link = Linked(kind="sub-run", parent=parent, call_id=source)
            tell.tell(link, at=self.at, fidelity=None if exact or not source else "inferred")
            if not _parent_file(self.reader.source.path, session).exists():
                words = f"the conversation {session} that began this one is not there"
                found = {"name": "parent-missing", "session": session}
                tell.tell(Noted(label="finding", kind="parent-missing", text=words, data=found))
                tell.report.repaired["parent-missing"] += 1

    def _source_call(self) -> tuple[str | None, bool]:
        if source := word(self.said.get("sourceToolUseID")):
            return source, True
        prompt = _prompt(self.said)
        file = _parent_file(self.reader.source.path, self.state["session"])
        return (_call_with(file, prompt) if prompt else None), False

    def _begin(self) -> None:
        said, state, agent = self.said, self.state, self.state.get("agent")
        state["began"] = {key: said.get(key) for key in ("cwd", "gitBranch", "version")}
        version = word(said.get("version")) or word(said.get("claude_code_version"))
        software = {"name": "claude-code", **({"version": version} if version else {})}
        branch = word(said.get("gitBranch"))
        extra: dict[str, Any] = {
            key: said[key] for key in ("userType", "entrypoint", "sessionKind") if key in said
        }
        if agent:
            extra |= _meta(self.reader.source.path)
        began = Began(
            what="run",
            cwd=said["cwd"],
            software=software,
            git={"branch": branch} if branch else None,
            model=word(said.get("model")),
        )
        self.reader.tell.tell(began, at=self.at, extra=extra or None)

    def user(self) -> bool | None:
        said = self.said
        message = said.get("message")
        content = message.get("content") if isinstance(message, dict) else message
        if content is None:
            return False
        result = said.get("toolUseResult")
        told = False
        for n, part in enumerate(parts(content)):
            if isinstance(part, Result):
                self._returned(part, n, result)
            elif isinstance(part, Use):
                self._called(part, n)
            else:
                self._prompted(part)
            told = True
        if not told and (result is not None or content not in ("", [])):
            return False
        return None

    def _prompted(self, part: Words) -> None:
        typed: list[dict[str, Any]] = []
        for block, injected in self._judged(part.blocks):
            if injected:
                self._say("user", typed)
                typed = []
                self._say("user", [block], injected=True)
            else:
                typed.append(block)
        self._say("user", typed)

    def _judged(self, blocks: list[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], bool]]:
        """Each block, and whether no person typed it."""
        said = self.said
        origin = said.get("origin")
        injected = (
            said.get("isMeta") is True
            or said.get("isCompactSummary") is True
            or said.get("isSidechain") is True
            or said.get("promptSource") == "system"
            or (isinstance(origin, dict) and origin.get("kind") == "task-notification")
        )
        for block in blocks:
            text = block.get("text")
            if injected or not isinstance(text, str):
                yield block, injected
            elif (wrapper := IDE.match(text)) and text[wrapper.end() :].strip():
                yield {**block, "text": text[: wrapper.end()]}, True
                yield {**block, "text": text[wrapper.end() :]}, False
            else:
                yield block, is_injected(text)

    def _say(self, role: Any, blocks: list[dict[str, Any]], **more: Any) -> None:
        if blocks:
            self._tell(Said(role=role, blocks=tuple(blocks), **more))

    def _returned(self, part: Result, n: int, whole: Any) -> None:
        state, tell = self.state, self.reader.tell
        open_calls: dict[str, str] = state.setdefault("calls", {})
        id = part.id
        if id is None:
            id = next((call for call in open_calls if call.startswith("syn-")), self._synthetic(n))
        extra: dict[str, Any] = {} if whole is None else {"toolUseResult": whole}
        if isinstance(part.output, str) and part.output.rstrip().endswith("</system-reminder>"):
            extra["injected"] = True
        told = whole if isinstance(whole, dict) else {}
        interrupted = told.get("interrupted") is True
        fact = Returned(
            call_id=id,
            tool=open_calls.pop(id, None),
            ok=None if interrupted else part.ok,
            output=part.output,
            status="interrupted" if interrupted else None,
            seconds=seconds(told.get("totalDurationMs", told.get("durationMs")), 1000),
            synthetic_id=part.id is None,
        )
        self._tell(fact, extra=extra)
        state.get("tasks", {}).pop(id, None)
        if agent := word(told.get("agentId")):
            child = run_id(NAME, state["session"], agent)
            tell.tell(Linked(kind="sub-run", child=child, call_id=id), at=self.at)

    def _called(self, part: Use, n: int) -> None:
        id = part.id or self._synthetic(n)
        server = part.tool.split("__")[1:2] if part.tool.startswith("mcp__") else []
        fact = Called(
            tool=part.tool,
            call_id=id,
            input=part.input,
            tool_server=server[0] if server else None,
            by_provider=part.by_provider,
            synthetic_id=part.id is None,
        )
        self._tell(fact)
        _remember(self.state.setdefault("calls", {}), id, part.tool)
        given = part.input if isinstance(part.input, dict) else {}
        if part.tool in ("Task", "Agent") and isinstance(given.get("prompt"), str):
            _remember(self.state.setdefault("tasks", {}), id, _digest(given["prompt"]))

    def _synthetic(self, n: int) -> str:
        return f"syn-{self.key or self.at or 'record'}-{n}"

    def assistant(self) -> bool | None:
        message = self.said.get("message")
        if isinstance(message, str):
            message = {"content": message}
        if not isinstance(message, dict) or message.get("content") is None:
            return False
        id = word(message.get("id"))
        seen = self._group(id)
        if self.said.get("isApiErrorMessage") is True:
            self._failed(message)
        else:
            model = word(message.get("model"))
            stop = word(message.get("stop_reason"))
            for n, part in enumerate(parts(message["content"])):
                if isinstance(part, Words):
                    fresh = [block for block in part.blocks if _is_new(seen, block)]
                    self._say("assistant", fresh, message_id=id, model=model, stop_reason=stop)
                    self._count_opaque(fresh)
                elif isinstance(part, Result):
                    self._returned(part, n, None)
                elif part.id is None or _is_new(seen, part._asdict()):
                    self._called(part, n)
        self._spent(message, id)
        return None

    def _count_opaque(self, blocks: list[dict[str, Any]]) -> None:
        for block in blocks:
            if "opaque" in block or block.get("signature"):
                self.reader.tell.report.opaque[
                    "redacted_thinking" if "opaque" in block else "signature"
                ] += 1

    def _group(self, id: str | None) -> dict[str, Any]:
        """What was told of this response already: one response stands on several lines."""
        if id is None:
            return {}
        group = self.state.get("group")
        if group is None or group["id"] != id:
            group = self.state["group"] = {"id": id, "seen": {}}
        seen: dict[str, Any] = group["seen"]
        return seen

    def _failed(self, message: Body) -> None:
        words = [part.blocks for part in parts(message["content"]) if isinstance(part, Words)]
        text = "\n".join(str(block.get("text", "")) for blocks in words for block in blocks)
        self._tell(Noted(label="error", kind="api_error", text=text or None, data=message))

    def _spent(self, message: Body, id: str | None) -> None:
        said = message.get("usage")
        if not isinstance(said, dict) or message.get("model") == "<synthetic>":
            return
        request = word(self.said.get("requestId"))
        key = f"{id}:{request}" if id and request else id or self.key
        output = count(said.get("output_tokens")) or 0
        spent: dict[str, int] = self.state.setdefault("spent", {})
        if key is None or spent.get(key, -1) >= output or (found := usage(said)) is None:
            return
        _remember(spent, key, output)
        model = word(message.get("model"))
        fact = Spent(
            key=key, provider="anthropic", model=model, usage=found, calls=1, bound="lower"
        )
        self.reader.tell.tell(fact, at=self.at, cause=self.cause)

    def system(self) -> bool | None:
        said = self.said
        subtype = word(said.get("subtype")) or "system"
        rest, self.extra = self.extra or {}, None
        rest.pop("subtype", None)
        text = word(said.get("content"))
        label = LABELS.get(subtype, subtype)
        held: Any = rest
        if subtype == "compact_boundary":
            meta = said.get("compactMetadata")
            meta = dict(meta) if isinstance(meta, dict) else {}
            before = {"before": meta["preTokens"]} if "preTokens" in meta else {}
            held = {**meta, **before}
        elif subtype == "model_refusal_fallback":
            ends = {"from": said.get("originalModel"), "to": said.get("fallbackModel")}
            held = {**rest, **{key: value for key, value in ends.items() if value is not None}}
        if subtype not in SYSTEM:
            self.reader.tell.report.unknown[f"system/{subtype}"] += 1
            self.reader.tell.report.mapped["system"] -= 1
        self._tell(Noted(label=label, kind=subtype, text=text, data=held or None))
        return None

    def summary(self) -> None:
        self.extra = None
        leaf = word(self.said.get("leafUuid"))
        text = word(self.said.get("summary"))
        self._tell(Noted(label="title", kind="summary", text=text), cause=leaf)

    def title(self) -> None:
        text = word(self.said.get(TITLES[self.kind])) or word(self.said.get("title"))
        rest, self.extra = self.extra, None
        self._tell(Noted(label="title", kind=self.kind, text=text, data=None if text else rest))

    def mode(self) -> None:
        to = self.said.get(MODES[self.kind])
        modes = self.state.setdefault("modes", {})
        before = modes.get(self.kind)
        modes[self.kind] = to
        change = {"to": to} if before is None else {"from": before, "to": to}
        self.extra = None
        self._tell(Noted(label="mode-change", kind=self.kind, data=change))

    def pull_request(self) -> None:
        rest, self.extra = self.extra, None
        text = word(self.said.get("prUrl")) or word(self.said.get("url"))
        self._tell(Noted(label="result", kind=self.kind, text=text, data=rest))

    def attachment(self) -> bool | None:
        held = self.said.get("attachment")
        if not isinstance(held, dict):
            return False
        kind = word(held.get("type")) or "attachment"
        (self.extra or {}).pop("attachment", None)
        if kind == "queued_command":
            prompt = held.get("prompt", held.get("content"))
            self.extra = {**(self.extra or {}), "queued": True}
            for part in parts(prompt):
                if isinstance(part, Words):
                    self._prompted(part)
            return None
        self._tell(Noted(label=kind, kind=f"attachment/{kind}", data=held))
        return None

    def small(self) -> None:
        rest, self.extra = self.extra, None
        self._tell(Noted(label=self.kind, kind=self.kind, data=rest or None))

    def result(self) -> None:
        """The end of a printed stream, or a small record of the same name."""
        said = self.said
        if "is_error" not in said and "subtype" not in said:
            self.small()
            return
        rest, self.extra = self.extra or {}, None
        failed = said.get("is_error")
        ended = Ended(
            what="run",
            outcome=word(said.get("subtype")),
            passed=not failed if isinstance(failed, bool) else None,
            seconds=seconds(said.get("duration_ms"), 1000),
        )
        self._tell(ended)
        self._tell(Noted(label="totals", kind="result", data=rest))
        if text := word(said.get("result")):
            self._tell(Noted(label="result", kind="result", text=text))

    def stream_event(self) -> None:
        """A piece of what a whole line tells as well."""
        self.reader.tell.report.ignored["stream_event (partial)"] += 1
        self.reader.tell.report.mapped["stream_event"] -= 1

    def legacy_call(self) -> None:
        name = word(self.said.get("name")) or word(self.said.get("tool_name")) or "unknown"
        id = word(self.said.get("id")) or word(self.said.get("tool_use_id"))
        given = self.said.get("input", self.said.get("tool_input"))
        for key in ("name", "tool_name", "id", "tool_use_id", "input", "tool_input"):
            (self.extra or {}).pop(key, None)
        self._called(Use(id, name, given, by_provider=False), 0)

    def legacy_result(self) -> None:
        part = next(parts([self.said]))
        assert isinstance(part, Result)
        for key in ("tool_use_id", "content", "is_error", "id"):
            (self.extra or {}).pop(key, None)
        self._returned(part, 0, self.said.get("toolUseResult"))


LABELS = {
    "compact_boundary": "compaction",
    "microcompact_boundary": "compaction",
    "api_error": "error",
    "error": "error",
    "api_refusal": "refusal",
    "model_refusal_fallback": "model-change",
}

KINDS: dict[str, Callable[[Line], bool | None]] = {
    "user": Line.user,
    "assistant": Line.assistant,
    "system": Line.system,
    "summary": Line.summary,
    "attachment": Line.attachment,
    "pr-link": Line.pull_request,
    "result": Line.result,
    "stream_event": Line.stream_event,
    "tool_use": Line.legacy_call,
    "tool_result": Line.legacy_result,
    **dict.fromkeys(TITLES, Line.title),
    **dict.fromkeys(MODES, Line.mode),
    **dict.fromkeys(SMALL, Line.small),
}


def is_injected(text: str) -> bool:
    """Whether the tool itself put a text where a person's prompt stands."""
    start = text.lstrip()
    if start.startswith("Caveat:") and "local commands" in start:
        return True
    return start.startswith("<") and WRAPPED.fullmatch(text) is not None


def _is_new(seen: dict[str, Any], block: Mapping[str, Any]) -> bool:
    """Whether a part of a response was not told yet; a longer copy of one that was is new."""
    digest = _digest(orjson.dumps(block, option=orjson.OPT_SORT_KEYS).decode())
    if digest in seen:
        return False
    seen[digest] = 1
    return True


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


def _remember(kept: dict[str, Any], key: str, value: Any) -> None:
    """Keeps it as the newest, and forgets the oldest of too many."""
    kept.pop(key, None)
    kept[key] = value
    while len(kept) > 4 * REMEMBERED:
        del kept[next(iter(kept))]


def _kind_of(value: Any) -> str:
    names = {str: "a string", bool: "a boolean", list: "an array", type(None): "null"}
    return names.get(type(value), "a number")


def _sub_agent(path: Path) -> tuple[str | None, str | None]:
    """The sub-agent whose file this is, and the conversation it belongs to, as the path says."""
    stem = path.name.partition(".")[0]
    if not stem.startswith("agent-"):
        return None, None
    places = path.absolute().parts
    if "subagents" in places:
        return stem[6:], places[places.index("subagents") - 1]
    return stem[6:], None


def _parent_file(path: Path, session: str) -> Path:
    places = path.absolute().parts
    if "subagents" in places:
        return Path(*places[: places.index("subagents") - 1]) / f"{session}.jsonl"
    return path.with_name(f"{session}.jsonl")


def _meta(path: Path) -> dict[str, Any]:
    """What stands beside a sub-agent's file."""
    try:
        found = orjson.loads(path.with_suffix(".meta.json").read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _prompt(said: Body) -> str | None:
    message = said.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, list) and content and isinstance(content[0], dict):
        content = content[0].get("text")
    return word(content)


def _call_with(path: Path, prompt: str) -> str | None:
    """The call in a parent's file that gave a sub-agent this prompt."""
    try:
        with path.open("rb") as file:
            for line in file:
                if b'"Task"' not in line and b'"Agent"' not in line:
                    continue
                for use in _uses(line):
                    given = use.input if isinstance(use.input, dict) else {}
                    if given.get("prompt") == prompt and use.id:
                        return use.id
    except OSError:
        pass  # the parent is not there, and that is told
    return None


def _uses(line: bytes) -> Iterator[Use]:
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        return
    message = value.get("message") if isinstance(value, dict) else None
    if isinstance(message, dict):
        yield from (part for part in parts(message.get("content")) if isinstance(part, Use))


def _uuids(path: Path) -> Iterator[str]:
    try:
        with path.open("rb") as file:
            for line in file:
                try:
                    value = orjson.loads(line)
                except orjson.JSONDecodeError:
                    continue
                if isinstance(value, dict) and isinstance(value.get("uuid"), str):
                    yield value["uuid"]
    except OSError:
        return  # gone since: what is told once more has the same keys


def find(home: Path, environment: Mapping[str, str]) -> Iterator[Path]:
    given = environment.get("CLAUDE_CONFIG_DIR")
    folders = given.split(",") if given else [str(home / ".claude"), str(home / ".config/claude")]
    for folder in folders:
        yield from inside(Path(folder).expanduser() / "projects", "**/*.jsonl")


def recognise(path: Path, head: bytes) -> float:
    for value in opening(head):
        if not isinstance(value, dict):
            continue
        if "sessionId" in value and ("uuid" in value or value.get("type") in KINDS):
            return 0.9
        if value.get("type") == "summary" and "leafUuid" in value:
            return 0.9
        if "session_id" in value and value.get("type") in ("system", "assistant", "user", "result"):
            return 0.8
        if value.get("type") in ("file-history-snapshot", "queue-operation"):
            return 0.8
    return 0.5 if b'"parentUuid"' in head and path.suffix == ".jsonl" else 0


def fits(body: Body) -> bool:
    return "type" in body and ("sessionId" in body or "uuid" in body or "leafUuid" in body)


importer = Importer(
    name=NAME,
    about="The conversations of Claude Code, with their sub-agents.",
    mapping="1",
    reader=ClaudeReader,
    recognise=recognise,
    find=find,
    fits=fits,
)
