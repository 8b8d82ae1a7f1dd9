"""vscode-chat: the chats of VS Code, as documents and as logs of changes."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tracklog.formats.importers import (
    DAMAGED,
    Form,
    Importer,
    Raw,
    Signs,
    beginning,
    count,
    in_seconds,
    inside,
    run_id,
    score,
    utc_time,
    word,
)
from tracklog.formats.importers._editors import path_of, user_folders
from tracklog.formats.importers._snapshots import (
    SnapshotReader,
    exit_code_of,
    foreign_block,
    json_lines,
    open_run,
    parsed,
    read_json,
    text_block,
    thought_block,
    without,
)
from tracklog.formats.providers import Body, items, obj, usage
from tracklog.model.fact import Called, Ended, Noted, Returned, Said, Spent

NAME = "vscode-chat"
PENDING, COMPLETE, CANCELLED, FAILED, NEEDS_INPUT = range(5)
DENIED = (0, 5, "denied", "skipped")
STATE = ("requests", "sessionId", "creationDate", "customTitle", "lastMessageDate", "inputState",
         "version", "pendingRequests")  # fmt: skip
REQUEST = ("requestId", "timestamp", "message", "response", "result", "modelId", "modelState",
           "promptTokens", "completionTokens", "agent", "responseId")  # fmt: skip
ODD = "$odd"
"""The key of values in a log that are no changes."""
DROPPED = ("prepareToolInvocation", "undoStop", "mcpServersStarting")
OUTCOMES: dict[int | None, str] = {COMPLETE: "complete", CANCELLED: "cancelled", FAILED: "failed"}


class VscodeReader(SnapshotReader):
    """Reads one chat; a request with its answer is one record."""

    def run_of(self, value: Body) -> str | None:
        return run_id(NAME, word(value.get("sessionId")) or self.source.path.stem)

    def conversation(self, value: Body) -> None:
        self._agent: Any = None
        for place, odd in enumerate(items(value.pop(ODD, None))):
            self.out.report.mapped["value"] += 1
            self.about(f"odd/{place}")
            self.put(Noted(label="value", kind="value", data=odd))
        self._open(value)
        for place, request in enumerate(items(value.get("requests"))):
            self._request(place, obj(request))

    def _open(self, value: Body) -> None:
        fixed = {key: each for key, each in value.items() if key not in ("requests", "inputState",
                 "pendingRequests", "lastMessageDate", "hasPendingEdits")}  # fmt: skip
        folder = folder_of(self.source.path) or path_of(value.get("workingDirectory"))
        self.about("session")
        about = {**fixed, "folder": folder}
        first = obj(next(iter(items(value.get("requests"))), None))
        open_run(
            self.out,
            NAME,
            word(value.get("sessionId")) or self.source.path.stem,
            at=utc_time(value.get("creationDate")) or utc_time(first.get("timestamp")),
            version=obj(first.get("agent")).get("extensionVersion"),
            cwd=folder,
            branch=obj(value.get("repoData")).get("branch"),
            title=value.get("customTitle"),
            extra=without(about, *STATE, "folder"),
        )
        self.out.report.mapped["session"] += 1

    def _request(self, place: int, request: Body) -> None:
        state = count(obj(request.get("modelState")).get("value"))
        if state in (PENDING, NEEDS_INPUT) and not self.final:
            return  # it is being answered
        id = word(request.get("requestId")) or f"request/{place}"
        self.about(id)
        value = request
        self.out.report.mapped["request"] += 1
        at, result = utc_time(value.get("timestamp")), obj(value.get("result"))
        done = utc_time(obj(value.get("modelState")).get("completedAt"))
        done = done or utc_time(value.get("responseTimestamp")) or at
        meta = obj(result.get("metadata"))
        model = word(meta.get("resolvedModel")) or _model(value.get("modelId"))
        message = obj(value.get("message"))
        prompt = message.get("text")
        extra: Body = without(value, *REQUEST)
        extra |= without({"message": without(message, "text")})
        if value.get("agent") != self._agent:  # the same description stands on every request
            self._agent = value.get("agent")
            extra |= without({"agent": self._agent})
        fact = Said(role="user", blocks=(text_block(prompt),) if prompt else (), message_id=id)
        self.put(fact, at, extra)
        unshown = self._answer(id, value, meta, model, at, done)
        self._spent(id, value, result, meta, model, done)
        rest = without(meta, "toolCallRounds", "toolCallResults", "resolvedModel")
        rest |= without({"result": without(result, "metadata", "errorDetails"), **unshown})
        error = obj(result.get("errorDetails"))
        if error or state == FAILED:
            text = word(error.get("message")) or "the request failed"
            self.put(Noted(label="error", kind="errorDetails", text=text, data=error or None), done)
        outcome = OUTCOMES.get(state, "failed" if error else None)
        took = in_seconds(value.get("elapsedMs"), 1000)
        passed = False if state == FAILED or error else None
        if outcome is not None:
            ended = Ended(what="step", step=id, outcome=outcome, passed=passed, seconds=took)
            self.put(ended, done, {"metadata": rest} if rest else None)
        elif rest:
            self.put(Noted(label="metadata", kind="result", data=rest), done)

    def _answer(
        self, id: str, value: Body, meta: Body, model: str | None, at: str | None, done: str | None
    ) -> Body:
        """Write the answer; returns what only the rounds of its model calls have."""
        rounds = [obj(call) for each in items(meta.get("toolCallRounds"))
                  for call in items(obj(each).get("toolCalls"))]  # fmt: skip
        known = {word(each.get("id")): each for each in rounds}
        results = obj(meta.get("toolCallResults"))
        blocks: list[Body] = []

        def speak() -> None:
            if blocks:
                fields = Said(role="assistant", blocks=tuple(_merged(blocks)), message_id=f"{id}/answer",
                            model=model)  # fmt: skip
                self.put(fields, done)
                blocks.clear()

        for place, part in enumerate(items(value.get("response"))):
            fields = obj(part)
            kind = word(fields.get("kind"))
            if kind == "toolInvocationSerialized":
                speak()
                call = known.pop(word(fields.get("toolCallId")), {})
                self._call(f"{id}/{place}", fields, call, results, at, done)
            elif kind not in DROPPED:
                blocks.append(_block(part, fields, kind))
        speak()
        for place, call in enumerate(known.values()):
            self._call(f"{id}/round/{place}", {}, call, results, at, done)
        shown = "".join(each for part in items(value.get("response")) for each in _words(part))
        unshown = [without(obj(each), "toolCalls") for each in items(meta.get("toolCallRounds"))]
        return without(
            {
                "rounds": [
                    each for each in unshown if not all(words in shown for words in _words(each))
                ]
            }
        )

    def _call(
        self, made: str, part: Body, call: Body, results: Body, at: str | None, done: str | None
    ) -> None:
        native = word(part.get("toolCallId")) or word(call.get("id"))
        id = native or made
        detail, data = part.get("resultDetails"), obj(part.get("toolSpecificData"))
        fields = obj(detail)
        given = parsed(call.get("arguments")) if call else None
        given = given or parsed(fields.get("input")) or data.get("rawInput")
        line = obj(data.get("commandLine"))
        if given is None and line:
            given = {"command": line.get("toolEdited") or line.get("original")}
        if given is None and data.get("prompt"):
            given = {"prompt": data["prompt"], "agentName": data.get("agentName")}
        tool = word(part.get("toolId")) or word(call.get("name")) or "unknown"
        extra = without(part, "kind", "toolId", "toolCallId", "resultDetails", "isComplete")
        called = Called(
            tool=tool,
            call_id=id,
            input=given,
            parent_call_id=word(part.get("subAgentInvocationId")),
            synthetic_id=native is None,
        )
        self.put(called, at, extra)
        confirmed = part.get("isConfirmed")
        confirmed = confirmed.get("type") if isinstance(confirmed, dict) else confirmed
        denied = confirmed is False or (confirmed is not True and confirmed in DENIED)
        output = fields.get("output", detail if isinstance(detail, list) else None)
        full = results.get(id, data.get("result"))
        output = full if output is None else output
        shown = obj(data.get("terminalCommandState"))
        exit_code = exit_code_of(shown.get("exitCode", data.get("exitCode")))
        error = part.get("resultError")
        wrong = bool(fields.get("isError") or error or denied)
        wrong = wrong or bool(exit_code)
        if not part and output is None:
            return  # the rounds name the call only
        back = Returned(
            call_id=id,
            tool=tool,
            ok=not wrong,
            output=output,
            error=error,
            status="denied" if denied else None,
            exit_code=exit_code,
            synthetic_id=native is None,
        )
        self.put(back, done, without({"result": full}) if full is not output else None)

    def _spent(
        self, id: str, value: Body, result: Body, meta: Body, model: str | None, at: str | None
    ) -> None:
        output = count(value.get("completionTokens"))
        for fields in (meta, result):
            output = count(fields.get("outputTokens")) if output is None else output
            output = count(fields.get("completionTokens")) if output is None else output
        asked = count(value.get("promptTokens"))
        for fields in (meta, result):
            asked = count(fields.get("promptTokens")) if asked is None else asked
        credits = value.get("copilotCredits")
        if output is None and asked is None and not isinstance(credits, int | float):
            return
        spent = Spent(
            key=f"{self.out.run}/{id}",
            provider="github.copilot",
            model=model,
            usage=usage(None, input_tokens=asked, output_tokens=output),
            credits=credits if isinstance(credits, int | float) else None,
            bound="lower",
        )
        self.put(spent, at)


def _model(name: Any) -> str | None:
    """The model without the name of its vendor; `auto` is none."""
    model = (word(name) or "").rpartition("/")[2]
    return None if model in ("", "auto") else model


def _block(part: Any, fields: Body, kind: str | None) -> Body:
    if isinstance(part, str):
        return text_block(part)
    value = fields.get("value")
    if kind is None and isinstance(value, str):
        return text_block(value)
    if kind == "markdownContent":
        content = fields.get("content")
        return text_block(obj(content).get("value") or content)
    if kind == "thinking":
        text = "".join(map(str, value)) if isinstance(value, list) else value
        return thought_block(text)
    return foreign_block(kind or "part", part)


def _words(value: Any) -> Iterator[str]:
    """The texts in a value."""
    if isinstance(value, str):
        yield value
    for each in obj(value).values() if isinstance(value, dict) else items(value):
        yield from _words(each)


def _merged(blocks: list[Body]) -> Iterator[Body]:
    """Texts that follow each other are one."""
    last: Body | None = None
    for block in blocks:
        both = last is not None and last["type"] == block["type"] == "text"
        if both and last and isinstance(last["text"], str) and isinstance(block["text"], str):
            last = {**last, "text": last["text"] + block["text"]}
            continue
        if last is not None:
            yield last
        last = block
    if last is not None:
        yield last


def replayed(path: Path, state: dict[str, Any]) -> Iterator[Raw]:  # noqa: ARG001  # the shape
    """The state at the end of a log of changes; only that has a meaning."""
    file = json_lines(path, lambda body: "kind" in body)
    chat, strange = None, []
    for line, change in file.values:
        fields = obj(change)
        if fields.get("kind") == 0:
            chat = fields.get("v")
        elif chat is not None and fields.get("kind") in (1, 2, 3):
            apply(chat, fields)
        elif "kind" not in fields:
            strange.append(change)
        elif fields.get("kind") in (1, 2, 3):
            words = "a change without the state that it changes"
            file.damaged.append(Raw(0, line, DAMAGED, (("lost-start", words),), exact=False))
    if isinstance(chat, dict):
        yield Raw(0, b"", {**chat, ODD: strange}, through=file.size)
    yield from file.damaged


def apply(chat: Any, change: Body) -> None:
    """Apply one change: set, cut and push, or delete; a path that does not exist changes nothing."""
    path = items(change.get("k")) or items(change.get("path"))
    if not path:
        return
    for key in path[:-1]:
        chat = _at(chat, key)
    last, kind, value = path[-1], change.get("kind"), change.get("v")
    if kind == 1 and isinstance(chat, dict):
        chat[last] = value
    elif kind == 1 and isinstance(chat, list) and isinstance(last, int) and 0 <= last <= len(chat):
        chat[last : last + 1] = [value]
    elif kind == 2:
        if isinstance(chat, dict):
            chat.setdefault(last, [])
        there = _at(chat, last)
        if isinstance(there, list):
            if isinstance(cut := change.get("i"), int) and cut >= 0:
                del there[cut:]
            there.extend(items(value))
    elif kind == 3 and isinstance(chat, dict):
        chat.pop(last, None)


def _at(value: Any, key: Any) -> Any:
    if isinstance(value, dict):
        return value.get(key) if isinstance(key, str) else None
    if isinstance(value, list) and isinstance(key, int) and 0 <= key < len(value):
        return value[key]
    return None


def folder_of(path: Path) -> str | None:
    """The folder of the workspace that a chat belongs to."""
    fields = obj(read_json(workspace_of(path)))
    return path_of(fields.get("folder")) or path_of(fields.get("workspace"))


def workspace_of(path: Path) -> Path:
    return path.parent.parent / "workspace.json"


SIGNS = (
    Signs({"kind": int, "v.sessionId": str, "v.requests": list}, sure=0.97),
    Signs({"sessionId": str, "requests": list, "responderUsername": str}, sure=0.97),
    Signs({"sessionId": str, "requests": list, "creationDate": int}, sure=0.97),
)
BARE = Signs({"requestId": str, "message.text": str, "response": list})
CHANGE = Signs({"kind": int, "k": list})
PLACES = ("chatSessions", "emptyWindowChatSessions")


def recognise(path: Path, head: bytes) -> float:
    if sure := score(path, head, SIGNS):
        return sure
    objects = beginning(path, head).objects
    bare = any(
        map(BARE.match, (obj(each) for fields in objects for each in items(fields.get("requests"))))
    )
    lost = path.parent.name in PLACES and any(map(CHANGE.match, objects))
    return 0.9 if bare or lost else 0.0


def companion(path: Path, head: bytes) -> bool:
    named = path.name == "workspace.json" and (path.parent / PLACES[0]).is_dir()
    fields = next(iter(beginning(path, head).objects), {}) if named else {}
    return "folder" in fields or "workspace" in fields


def form(path: Path, head: bytes) -> Form:  # noqa: ARG001  # the shape
    return "store" if path.suffix == ".jsonl" else "document"


def find(home: Path, environment: Mapping[str, str]) -> Iterable[Path]:
    for user in user_folders(home, environment):
        for place in ("workspaceStorage/*/chatSessions", "globalStorage/emptyWindowChatSessions"):
            for path in inside(user, f"{place}/*.jsonl", f"{place}/*.json"):
                if path.suffix == ".jsonl" or not path.with_suffix(".jsonl").is_file():
                    yield path


importer = Importer(
    name=NAME,
    about="The chats of VS Code: its folders `chatSessions`, as documents and as logs of changes.",
    mapping="3",
    reader=VscodeReader,
    recognise=recognise,
    find=find,
    form=form,
    companion=companion,
    beside=lambda path: [workspace_of(path)],
    records=replayed,
    fits=lambda body: "requests" in body,
    proven="a real log of VS Code 1.109 with Copilot Chat 0.47, its texts removed; documents written as "
    "tests",
)
