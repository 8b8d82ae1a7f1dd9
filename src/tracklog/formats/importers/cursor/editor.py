"""The chats of the Cursor editor: rows of its databases, of which only named keys are read."""

import re
import sqlite3
from collections.abc import Iterator
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson

from tracklog.formats.importers import count, run_id, utc_time, word
from tracklog.formats.importers._editors import path_of
from tracklog.formats.importers._snapshots import (
    SnapshotReader,
    Stored,
    exit_code_of,
    foreign_block,
    open_run,
    parsed,
    plain_value,
    read_json,
    text_block,
    thought_block,
    without,
)
from tracklog.formats.importers._sqlite import columns, connected
from tracklog.formats.providers import Body, items, obj, usage
from tracklog.model.fact import Called, Linked, Noted, Returned, Said, Spent

NAME = "cursor"
CHATS = "workbench.panel.aichat.view.aichat.chatdata"
COMPOSERS = "composer.composerData"
HEADERS = "composer.composerHeaders"
INJECTED = re.compile(r"\s*(?:<timestamp>.*?</timestamp>\s*)?<system_notification>", re.DOTALL)
TOOL = ("toolCallId", "name", "params", "rawArgs", "result", "status", "error")
CALL = ("toolCallId", "name", "tool", "params", "rawArgs")
"""The fields of which a call has one; text may have an object without them."""
BUBBLE = ("text", "type", "bubbleId", "createdAt", "thinking", "toolFormerData", "modelInfo",
          "tokenCount", "richText", "_v", "requestId", "key")  # fmt: skip
COMPOSER = ("composerId", "name", "createdAt", "lastUpdatedAt", "fullConversationHeadersOnly",
            "workspaceIdentifier", "modelConfig", "subComposerIds", "_v")  # fmt: skip
ABOUT = ("composerId", "name", "createdAt", "unifiedMode", "modelConfig", "workspaceIdentifier",
        "trackedGitRepos", "subagentInfo", "subComposerIds")  # fmt: skip
METERS = ("contextTokensUsed", "promptTokenBreakdown")


class EditorReader(SnapshotReader):
    """Reads composers and the chat tabs of older versions."""

    def run_of(self, value: Body) -> str | None:
        id = word(value.get("id"))
        return run_id(NAME, id) if id else None

    def conversation(self, value: Body) -> None:
        kind = value["kind"]
        self.model: str | None = None
        self._timed = False
        if kind == "tab":
            self._tab(value)
        elif kind == "inline":
            self._inline(value)
        else:
            self._composer(value)

    def _open(self, value: Body, about: Body, at: Any, title: Any) -> None:
        place = obj(obj(about.get("workspaceIdentifier")).get("uri"))
        self.about("composer")
        parent = word(obj(about.get("subagentInfo")).get("parentComposerId"))
        open_run(
            self.out,
            NAME,
            value.get("id"),
            at=utc_time(at),
            model=_model(obj(about.get("modelConfig")).get("modelName")),
            cwd=word(place.get("fsPath"))
            or folder_of(self.source.path)
            or self._folder(value, about),
            title=title,
            parent=run_id(NAME, parent) if parent else None,
            extra=without(about, *COMPOSER),
        )
        for child in items(about.get("subComposerIds")):
            if word(child):
                self.put(Linked(kind="sub-run", child=run_id(NAME, child)), utc_time(at))
        self.out.report.mapped["composer"] += 1

    def _folder(self, value: Body, about: Body) -> str | None:
        """The folder of the workspace that lists a conversation, or its repository."""
        if not hasattr(self, "_folders"):
            self._folders = folders_below(self.source.path.parent.parent / "workspaceStorage")
        repository = obj(next(iter(items(about.get("trackedGitRepos"))), None))
        return self._folders.get(str(value.get("id"))) or word(repository.get("repoPath"))

    def _composer(self, value: Body) -> None:
        composer, bubbles = obj(value.get("composer")), obj(value.get("bubbles"))
        about = {key: composer[key] for key in ABOUT if composer.get(key)}
        self._open(value, about, composer.get("createdAt"), composer.get("name"))
        self.model = _model(obj(composer.get("modelConfig")).get("modelName"))
        by_id = {str(obj(each).get("bubbleId")): key for key, each in bubbles.items() if each}
        used = set()
        for place, header in enumerate(items(composer.get("fullConversationHeadersOnly"))):
            id = str(obj(header).get("bubbleId") or "")
            key = id if id in bubbles and id else by_id.get(id)
            bubble = bubbles.get(key) if key is not None else None
            if not isinstance(bubble, dict):
                self.about(f"missing/{id or place}")
                finding = {"name": "missing-bubble", "bubble": id}
                text = "a message of the conversation is not in the database"
                self.put(Noted(label="finding", kind="missing-bubble", text=text, data=finding))
                continue
            used.add(key)
            tool = obj(bubble.get("toolFormerData"))
            name = word(tool.get("toolCallId")) or word(obj(header).get("serverBubbleId")) or key
            times = without({"createdAt": obj(header).get("createdAt")})
            self._bubble(str(name or place), {**times, **without(bubble)})
        for key, orphan in bubbles.items():
            if key not in used and orphan:
                self.about(f"orphan/{key}")
                self.out.report.mapped["orphan"] += 1
                self.put(Noted(label="orphan", kind="bubble", data=orphan))
        self._updated(composer)
        meters = {key: composer[key] for key in METERS if composer.get(key)}
        if meters:
            self.about("meters")
            self.put(Noted(label="context", kind="contextTokensUsed", data=meters))

    def _bubble(self, key: str, value: Body) -> None:
        self.about(key)
        at, kind = utc_time(value.get("createdAt")), value.get("type")
        self._timed = self._timed or at is not None
        self.out.report.mapped["user" if kind == 1 else "assistant"] += 1
        extra = without(value, *BUBBLE)
        text = value.get("text")
        if kind == 1:
            self.model = _model(obj(value.get("modelInfo")).get("modelName")) or self.model
            hidden = isinstance(text, str) and INJECTED.match(text) is not None
            rich = None if text else parsed(value.get("richText"))
            text = text or "\n".join(_rich(rich))
            blocks = (text_block(text),) if text else ()
            self.put(Said(role="user", blocks=blocks, message_id=key, injected=hidden), at, extra)
            return
        blocks_: list[Body] = []
        thinking = value.get("thinking")
        if thinking:
            thought = obj(thinking)
            blocks_.append(thought_block(thought.get("text") if thought else thinking,
                                         thought.get("signature")))  # fmt: skip
        if text:
            blocks_.append(text_block(text))
        tool = obj(value.get("toolFormerData"))
        if tool and not any(tool.get(key) not in (None, "") for key in CALL):
            extra, tool = {**extra, "toolFormerData": tool}, {}
        if blocks_ or not tool:
            fact = Said(role="assistant", blocks=tuple(blocks_), message_id=key, model=self.model)
            self.put(fact, at, extra)
            extra = {}
        if tool:
            self._call(key, tool, at, extra)
        self._spent(key, value, at)

    def _call(self, key: str, tool: Body, at: str | None, extra: Body) -> None:
        native = word(tool.get("toolCallId"))
        given = parsed(tool.get("params")) or parsed(tool.get("rawArgs"))
        name, id = word(tool.get("name")) or "unknown", native or key
        called = Called(tool=name, call_id=id, input=given, synthetic_id=native is None)
        self.put(called, at, {**extra, **without(tool, *TOOL)})
        result, status = parsed(tool.get("result")), word(tool.get("status"))
        if status in ("loading", "running", "pending") or (status is None and not result):
            return  # it has not returned
        fields = obj(result)
        error, code = fields.get("error") or tool.get("error"), exit_code_of(fields.get("exitCode"))
        wrong = status == "error" or bool(error) or bool(code)
        ok = None if status == "cancelled" else not wrong
        back = Returned(call_id=id, tool=name, ok=ok, output=result, error=error, status=status,
                        exit_code=code, synthetic_id=native is None)  # fmt: skip
        unread = {"readable": False} if result in (None, "", {}) else None
        self.put(back, at, unread)

    def _spent(self, key: str, value: Body, at: str | None) -> None:
        fields = obj(value.get("tokenCount"))
        asked, output = count(fields.get("inputTokens")), count(fields.get("outputTokens"))
        if asked or output:
            name = word(value.get("requestId")) or word(value.get("usageUuid")) or key
            known = usage(fields, input_tokens=asked, output_tokens=output)
            spent = Spent(
                key=f"{self.out.run}/{name}", model=self.model, usage=known, bound="lower"
            )
            self.put(spent, at)

    def _inline(self, value: Body) -> None:
        composer = obj(value.get("composer"))
        about = without(composer, "conversation", "richText", "text", "lastUpdatedAt", "status")
        self._open(value, about, composer.get("createdAt"), composer.get("name"))
        for place, bubble in enumerate(items(composer.get("conversation"))):
            fields = obj(bubble)
            self._bubble(word(fields.get("bubbleId")) or f"bubble/{place}", fields)
        self._updated(composer)

    def _updated(self, composer: Body) -> None:
        """Write when a conversation was changed last, if no message says when it was sent."""
        last = utc_time(composer.get("lastUpdatedAt"))
        if last and not self._timed:
            self.about("updated")
            self.put(Noted(label="updated"), last)

    def _tab(self, value: Body) -> None:
        tab = obj(value.get("tab"))
        about: Body = {"tabId": tab.get("tabId"), "chatTitle": tab.get("chatTitle")}
        self._open(value, about, tab.get("lastSendTime"), tab.get("chatTitle"))
        for place, bubble in enumerate(items(tab.get("bubbles"))):
            fields = obj(bubble)
            self.about(word(fields.get("id")) or f"bubble/{place}")
            text = fields.get("text") or fields.get("rawText")
            model, kind = word(fields.get("modelType")), fields.get("type")
            extra = without(fields, "text", "type", "id", "modelType", "initText")
            if not text and kind == "user":
                self.out.report.ignored["an empty draft"] += 1
                continue
            self.out.report.mapped[str(kind)] += 1
            blocks = (text_block(text),) if text else (foreign_block("bubble", bubble),)
            role = "user" if kind == "user" else "assistant"
            fact = Said(role="user" if role == "user" else "assistant", blocks=blocks,
                        model=model if role == "assistant" else None)  # fmt: skip
            self.put(fact, None, extra)


def _model(name: Any) -> str | None:
    """The name of a model; `default` stands for a choice that is not told."""
    model = word(name)
    return None if model in (None, "default") else model


def folder_of(path: Path) -> str | None:
    """The folder of the workspace that a database belongs to."""
    return path_of(obj(read_json(path.with_name("workspace.json"))).get("folder"))


def folders_below(storage: Path) -> dict[str, str]:
    """The folder of each conversation that a workspace lists."""
    folders: dict[str, str] = {}
    for path in sorted(storage.glob("*/state.vscdb")):
        folder = folder_of(path)
        if folder is None:
            continue
        try:
            with connected(path) as connection:
                if "ItemTable" not in columns(connection):
                    continue
                for key in (COMPOSERS, HEADERS):
                    row = connection.execute(ITEM, (key,)).fetchone()
                    listed = obj(parsed(row[0]) if row else None)
                    for each in items(listed.get("allComposers")):
                        if id := word(obj(each).get("composerId")):
                            folders.setdefault(id, folder)
        except OSError:
            continue  # another program holds it
    return folders


def _rich(value: Any) -> Iterator[str]:
    """The texts in the JSON of an editor."""
    if isinstance(value, dict):
        if isinstance(text := value.get("text"), str) and text:
            yield text
        for each in value.values():
            yield from _rich(each)
    for each in items(value):
        yield from _rich(each)


COMPOSED = (
    "SELECT key, value FROM cursorDiskKV WHERE key >= 'composerData:' AND key < 'composerData;'"
)
COMPOSER_KEYS = COMPOSED.replace("key, value", "key")
SIZES = "SELECT count(*), sum(length(value)) FROM cursorDiskKV WHERE key >= ? AND key < ?"
BUBBLES = "SELECT key, value FROM cursorDiskKV WHERE key >= ? AND key < ?"
ITEM = "SELECT value FROM ItemTable WHERE key = ?"


def conversations(connection: sqlite3.Connection) -> Iterator[Stored]:
    """The conversations of a database, by their named keys; no other key is read."""
    tables = columns(connection)
    if "cursorDiskKV" in tables:
        yield from _composers(connection)
    if "ItemTable" in tables:
        yield from _older(connection)


def _composers(connection: sqlite3.Connection) -> Iterator[Stored]:
    for row in connection.execute(COMPOSED).fetchall():
        id, data = str(row[0]).partition(":")[2], plain_value(row[1])
        if not isinstance(data, str) or "\n" in id:
            continue
        span = (f"bubbleId:{id}:", f"bubbleId:{id};")
        size = connection.execute(SIZES, span).fetchone()
        digest = [sha256(data.encode()).hexdigest(), *size]

        def load(id: str = id, data: str = data, span: tuple[str, str] = span) -> Body:
            rows = connection.execute(BUBBLES, span).fetchall()
            bubbles = {str(key).rpartition(":")[2]: parsed(value) for key, value in rows}
            return {"id": id, "kind": "composer", "composer": parsed(data), "bubbles": bubbles}

        if items(obj(parsed(data)).get("fullConversationHeadersOnly")) or size[0]:
            yield Stored(id, digest, size[0], load)
        elif items(obj(parsed(data)).get("conversation")):
            value = {"id": id, "kind": "inline", "composer": parsed(data)}
            yield Stored(id, digest, 0, partial(dict, value))


def _older(connection: sqlite3.Connection) -> Iterator[Stored]:
    for key, inner, id, kind, field in (
        (COMPOSERS, "allComposers", "composerId", "inline", "composer"),
        (CHATS, "tabs", "tabId", "tab", "tab"),
    ):
        row = connection.execute(ITEM, (key,)).fetchone()
        for each in items(obj(parsed(row[0]) if row else None).get(inner)):
            fields = obj(each)
            name = word(fields.get(id))
            talk = items(fields.get("conversation")) or items(fields.get("bubbles"))
            if name and talk:
                value = {"id": name, "kind": kind, field: fields}
                digest = sha256(orjson.dumps(fields)).hexdigest()
                yield Stored(name, digest, len(talk), partial(dict, value))
