"""One record of Claude Code, being told."""

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from tracklog.event import Body
from tracklog.fact import Began, Ended, Fact, Linked, Noted
from tracklog.importers import count, remember, run_id, seconds, word
from tracklog.importers._spelled import called, returned, said, spent
from tracklog.importers.claude.files import (
    NAME,
    call_with,
    digest,
    meta_of,
    parent_file,
    prompt_of,
)
from tracklog.providers.claude import Result, Use, part_of, tokens

if TYPE_CHECKING:
    from tracklog.importers.claude.reader import ClaudeReader

FRAME = {
    "type", "uuid", "parentUuid", "logicalParentUuid", "sessionId", "session_id", "timestamp",
    "isSidechain", "userType", "cwd", "version", "gitBranch", "message", "agentId", "toolUseResult",
    "requestId",
}  # fmt: skip  # names, in rows
"""The keys that have a place of their own on a line."""
SETTING = ("cwd", "gitBranch", "version")
"""What a conversation begins with, and is told again where it changed."""
NOTHING: Body = {}
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

WRAPPERS = {
    "command-name", "command-message", "local-command-stdout", "local-command-stderr",
    "system-reminder", "ide_opened_file", "ide_selection", "teammate-message",
}  # fmt: skip
OPENED = re.compile(r"\s*<([\w-]+)\b[^>]*>")
IDE = re.compile(r"\s*(?:<(ide_opened_file|ide_selection)\b[^>]*>.*?</\1>\s*)+", re.DOTALL)


class Line:
    """One record, being told."""

    __slots__ = ("at", "cause", "extra", "key", "kind", "reader", "said", "state", "teller")

    def __init__(self, reader: "ClaudeReader", said: Body, key: str | None, at: str | None) -> None:
        self.reader, self.said, self.key, self.at = reader, said, key, at
        self.state, self.teller = reader.state, reader.tell
        self.kind = word(said.get("type")) or ""
        self.cause = word(said.get("parentUuid")) or word(said.get("logicalParentUuid"))
        self.extra: Body | None = None

    def tell(self) -> None:
        state = self.state
        if "named" not in state:
            self._name()
        if "began" not in state and isinstance(self.said.get("cwd"), str):
            self._begin()
        self.extra = self._rest()
        known = KINDS.get(self.kind)
        if known is None:
            self._unknown(self.kind)
        elif known(self) is False:
            self._unknown(f"{self.kind} of an unknown shape")
        else:
            self.teller.report.mapped[self.kind] += 1
        self._hang()

    def _hang(self) -> None:
        """Remembers where in the conversation this record hangs, and which was last spoken."""
        if self.key and self.said.get("isSidechain") is not True:
            remember(
                self.state.setdefault("chain", {}), self.key, word(self.said.get("parentUuid"))
            )
            if self.kind in ("user", "assistant"):
                self.state["tip"] = self.key

    def _leave_branch(self) -> None:
        """What was spoken since the record that a prompt goes on from is taken back: a rewind."""
        parent, chain = word(self.said.get("parentUuid")), self.state.get("chain", {})
        here = self.state.get("tip")
        for _ in chain:  # no further, whatever hangs in a circle
            if parent is None or here is None or here == parent:
                return
            if chain.get(here) == parent:
                back = Noted(label="withdrawn", kind="rewind", data={"from": here})
                self.teller.tell(back, at=self.at)
                return
            here = chain.get(here)

    def _tell(
        self,
        fact: Fact | Body,
        extra: Body | None = None,
        cause: str | None = None,
    ) -> None:
        """Tells a fact; the first of a record carries what has no field of its own."""
        if self.extra:
            extra = {**self.extra, **extra} if extra else self.extra
            self.extra = None
        self.teller.tell(fact, self.at, cause or self.cause, extra)

    def _unknown(self, kind: str) -> None:
        self.teller.unknown(kind or "no type", self.said, at=self.at, cause=self.cause)

    def _rest(self) -> Body | None:
        """What has no field of its own, and what is not as it was at the beginning."""
        said = self.said
        began: Body = self.state.get("began") or NOTHING
        framed = said.keys() <= FRAME
        if framed and began and began.items() <= said.items():  # as most are
            return None
        rest: Body = {}
        if not framed:
            rest = {
                key: value
                for key, value in said.items()
                if key not in FRAME and not (key in QUIET and QUIET[key] == value)
            }
        for key in SETTING:
            if key in said and said[key] != began.get(key):
                rest[key] = said[key]
        return rest

    def _name(self) -> None:
        """What this conversation is called, and whose child it is."""
        tell, state = self.teller, self.state
        state["named"] = True
        session, agent = state["session"], state.get("agent")
        tell.tell(Linked(kind="alias", system=NAME, alias=agent or session), at=self.at)
        if agent:
            source, exact = self._source_call()
            parent = run_id(NAME, session)
            link = Linked(kind="sub-run", parent=parent, call_id=source)
            tell.tell(link, at=self.at, fidelity=None if exact or not source else "inferred")
            if not parent_file(self.reader.source.path, session).exists():
                words = f"the conversation {session} that began this one is not there"
                found = {"name": "parent-missing", "session": session}
                tell.tell(Noted(label="finding", kind="parent-missing", text=words, data=found))
                tell.report.repaired["parent-missing"] += 1

    def _source_call(self) -> tuple[str | None, bool]:
        if source := word(self.said.get("sourceToolUseID")):
            return source, True
        prompt = prompt_of(self.said)
        file = parent_file(self.reader.source.path, self.state["session"])
        return (call_with(file, prompt) if prompt else None), False

    def _begin(self) -> None:
        said, state, agent = self.said, self.state, self.state.get("agent")
        state["began"] = {key: said.get(key) for key in SETTING}
        version = word(said.get("version")) or word(said.get("claude_code_version"))
        software = {"name": "claude-code", **({"version": version} if version else {})}
        branch = word(said.get("gitBranch"))
        extra: dict[str, Any] = {
            key: said[key] for key in ("userType", "entrypoint", "sessionKind") if key in said
        }
        if agent:
            extra |= meta_of(self.reader.source.path)
        began = Began(
            what="run",
            cwd=said["cwd"],
            software=software,
            git={"branch": branch} if branch else None,
            model=word(said.get("model")),
        )
        self.teller.tell(began, at=self.at, extra=extra or None)

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

    def _prompted(self, blocks: list[Body]) -> None:
        typed: list[dict[str, Any]] = []
        for block, injected in self._judged(blocks):
            if injected:
                self._say(typed)
                typed = []
                self._say([block], injected=True)
            else:
                typed.append(block)
        self._say(typed)

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

    def _say(self, blocks: list[dict[str, Any]], injected: bool = False) -> None:
        if blocks:
            if not injected:
                self._leave_branch()
            self._tell(said("user", blocks, injected=injected))

    def _returned(self, part: Result, n: int, whole: Any) -> None:
        state, tell = self.state, self.teller
        open_calls: dict[str, str] = state.setdefault("calls", {})
        id = part.id
        if id is None:
            id = next((call for call in open_calls if call.startswith("syn-")), self._synthetic(n))
        extra: dict[str, Any] = {} if whole is None else {"toolUseResult": whole}
        output = _plain(part.content)
        if isinstance(output, str) and output.rstrip().endswith("</system-reminder>"):
            extra["injected"] = True
        told = whole if isinstance(whole, dict) else {}
        interrupted = told.get("interrupted") is True
        fact = returned(
            id,
            tool=open_calls.pop(id, None),
            ok=None if interrupted else not part.wrong,
            output=output,
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
        tool, server = part.tool or "unknown", part.server
        if server is None and tool.startswith("mcp__"):
            server = tool.split("__")[1] or None
        fact = called(
            tool,
            id,
            part.input,
            tool_server=server,
            by_provider=part.by_provider,
            synthetic_id=part.id is None,
        )
        self._tell(fact)
        remember(self.state.setdefault("calls", {}), id, tool)
        given = part.input if isinstance(part.input, dict) else {}
        if tool in ("Task", "Agent") and isinstance(given.get("prompt"), str):
            remember(self.state.setdefault("tasks", {}), id, digest(given["prompt"]))

    def _synthetic(self, n: int) -> str:
        return f"syn-{self.key or self.at or 'record'}-{n}"

    def assistant(self) -> bool | None:
        message = self.said.get("message")
        if isinstance(message, str):
            message = {"content": message}
        if not isinstance(message, dict) or message.get("content") is None:
            return False
        id = word(message.get("id"))
        group = self._group(id)
        told: list[Any] = group["told"]
        if self.said.get("isApiErrorMessage") is True:
            self._failed(message)
        else:
            for n, part in enumerate(parts(message["content"])):
                if isinstance(part, list):
                    fresh = [block for block in part if _is_new(told, block)]
                    if fresh:
                        if len(fresh) == 1 < len(told):
                            self._take_back_shorter(group, fresh[0])
                        group["key"] = self.key if len(fresh) == 1 else None
                        stop = word(message.get("stop_reason"))
                        self._tell(said("assistant", fresh, id, word(message.get("model")), stop))
                        self._count_opaque(fresh)
                elif isinstance(part, Result):
                    self._returned(part, n, None)
                elif part.id is None or _is_new(told, list(part)):
                    self._called(part, n)
        self._spent(message, id)
        return None

    def _take_back_shorter(self, group: dict[str, Any], block: dict[str, Any]) -> None:
        """A longer copy of what the last line of this response said stands in its place."""
        last, key = group["told"][-2], group.get("key")
        kind = block.get("type", "")
        text, before = block.get(kind), last.get(kind) if isinstance(last, dict) else None
        if key and isinstance(text, str) and isinstance(before, str) and text.startswith(before):
            back = Noted(label="withdrawn", kind="longer copy", data={"from": key})
            self.teller.tell(back, at=self.at)

    def _count_opaque(self, blocks: list[dict[str, Any]]) -> None:
        for block in blocks:
            if "opaque" in block or block.get("signature"):
                self.teller.report.opaque[
                    "redacted_thinking" if "opaque" in block else "signature"
                ] += 1

    def _group(self, id: str | None) -> dict[str, Any]:
        """What was told of this response already: one response stands on several lines."""
        group: dict[str, Any] | None = self.state.get("group")
        if id is None:
            return {"told": []}
        if group is None or group["id"] != id:
            group = self.state["group"] = {"id": id, "told": []}
        return group

    def _failed(self, message: Body) -> None:
        words = [part for part in parts(message["content"]) if isinstance(part, list)]
        text = "\n".join(str(block.get("text", "")) for blocks in words for block in blocks)
        self._tell(Noted(label="error", kind="api_error", text=text or None, data=message))

    def _spent(self, message: Body, id: str | None) -> None:
        said = message.get("usage")
        if not isinstance(said, dict) or message.get("model") == "<synthetic>":
            return
        request = word(self.said.get("requestId"))
        key = f"{id}:{request}" if id and request else id or self.key
        output = said.get("output_tokens")
        if type(output) is not int:
            output = count(output) or 0
        told: dict[str, int] = self.state.setdefault("spent", {})
        if key is None or told.get(key, -1) >= output or not (found := tokens(said)):
            return
        remember(told, key, output)
        fact = spent(
            key,
            found,
            "anthropic",
            word(message.get("model")),
            group=self.state["session"],
            whole="sessionId" in self.said,  # what was printed knows no requests: the file counts
            bound="lower",
        )
        self.teller.tell(fact, self.at, self.cause)

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
            ends = {
                "from": rest.pop("originalModel", None),
                "to": rest.pop("fallbackModel", None),
            }
            held = {**rest, **{key: value for key, value in ends.items() if value is not None}}
        if subtype not in SYSTEM:
            self.teller.report.unknown[f"system/{subtype}"] += 1
            self.teller.report.mapped["system"] -= 1
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
                if isinstance(part, list):
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
        self.teller.report.ignored["stream_event (partial)"] += 1
        self.teller.report.mapped["stream_event"] -= 1

    def legacy_call(self) -> None:
        name = word(self.said.get("name")) or word(self.said.get("tool_name")) or "unknown"
        id = word(self.said.get("id")) or word(self.said.get("tool_use_id"))
        given = self.said.get("input", self.said.get("tool_input"))
        for key in ("name", "tool_name", "id", "tool_use_id", "input", "tool_input"):
            (self.extra or {}).pop(key, None)
        self._called(Use(id, name, given), 0)

    def legacy_result(self) -> None:
        part = parts([self.said])[0]
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


def parts(content: Any) -> list[Use | Result | list[Body]]:
    """The content of a message, in order; blocks that stand together are one part."""
    elements = content if type(content) is list else [content]
    if len(elements) == 1:  # as most are
        part = part_of(elements[0])
        return [] if part is None else [[part]] if type(part) is dict else [part]  # type: ignore[list-item]  # no block
    found: list[Use | Result | list[Body]] = []
    for part in map(part_of, elements):
        if isinstance(part, Use | Result):
            found.append(part)
        elif part is not None:
            if not found or not isinstance(found[-1], list):
                found.append([])
            found[-1].append(part)  # type: ignore[union-attr]  # a list of blocks
    return found


def _plain(content: Any) -> Any:
    """The text of a result that is nothing but one text; else all of it."""
    if type(content) is list and len(content) == 1:
        only = content[0]
        if isinstance(only, dict) and only.keys() == {"type", "text"} and only["type"] == "text":
            return only["text"]
    return content


def is_injected(text: str) -> bool:
    """Whether the tool itself put a text where a person's prompt stands."""
    start = text.lstrip()
    if start.startswith("Caveat:") and "local commands" in start:
        return True
    opened = OPENED.match(start)
    if opened is None or opened[1] not in WRAPPERS:
        return False
    while opened is not None:  # one element after the other, and nothing between them
        end = f"</{opened[1]}>"
        close = start.find(end, opened.end())
        if close < 0:
            return False
        start = start[close + len(end) :]
        opened = OPENED.match(start)
    return not start.strip()


def _is_new(told: list[Any], part: Any) -> bool:
    """Whether a part of a response was not told yet; a longer copy of one that was is new."""
    if part in told:
        return False
    told.append(part)
    return True
