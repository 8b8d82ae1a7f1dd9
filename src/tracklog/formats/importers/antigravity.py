"""antigravity: the conversations of Antigravity: transcripts, and databases with the counts."""

import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tracklog.formats.importers import (
    DAMAGED,
    Form,
    Importer,
    Raw,
    Signs,
    by_signs,
    inside,
    run_id,
    score,
    utc_time,
    word,
)
from tracklog.formats.importers._fields import integer_at, text_at, texts_in
from tracklog.formats.importers._snapshots import (
    SnapshotReader,
    Stored,
    json_lines,
    log_beside,
    open_run,
    parsed,
    stored,
    text_block,
    thought_block,
    without,
)
from tracklog.formats.importers._sqlite import MAGIC, columns
from tracklog.formats.providers import Body, items, obj, usage
from tracklog.model.fact import Called, Linked, Noted, Returned, Said, Spent

NAME = "antigravity"
ENCRYPTED = ".pb"
"""The end of the name of a conversation of older versions."""
LOG = (".system_generated", "logs", "transcript.jsonl")
REQUEST = re.compile(r"<USER_REQUEST>\n?(.*?)\n?</USER_REQUEST>", re.DOTALL)
CHOSEN = re.compile(r"`Model Selection` from .*? to (.+?)\.(?:\s|$)")
FAILED = re.compile(r"failed with exit code: (-?\d+)")
CHILD = re.compile(r'"conversationId":\s*"([^"]+)"')
STEP = ("step_index", "source", "type", "status", "created_at", "content", "thinking", "tool_calls")
QUIET = ("CONVERSATION_HISTORY", "EPHEMERAL_MESSAGE", "SYSTEM_MESSAGE")
CANCELLED = ("CANCELED", "CANCELLED")
TYPED, PLANNED = 14, 15
"""The types of steps in a database that hold a prompt and an answer."""


class AntigravityReader(SnapshotReader):
    """Reads a transcript, or a database of the same conversation."""

    def run_of(self, value: Body) -> str | None:  # noqa: ARG002  # its place names it
        return run_id(NAME, conversation_of(self.source.path))

    def conversation(self, value: Body) -> None:
        if "encrypted" in value:
            self._open(None, None)
            text = "the conversation is encrypted: only the program itself can read it"
            self.put(Noted(label="finding", kind="unreadable", text=text,
                           data={"name": "unreadable", "bytes": value["encrypted"]}))  # fmt: skip
        elif "steps" in value:
            self._steps(value)
        else:
            self._database(value)

    def _open(self, at: str | None, model: str | None) -> None:
        native = conversation_of(self.source.path)
        self.about("conversation")
        folder = folder_of(self.source.path, native)
        open_run(self.out, NAME, native, at=at, model=model, cwd=folder)

    def _steps(self, value: Body) -> None:
        steps = [obj(each) for each in items(value["steps"])]
        first = next((at for each in steps if (at := utc_time(each.get("created_at")))), None)
        chosen = next((match[1] for each in steps if isinstance(text := each.get("content"), str)
                       and (match := CHOSEN.search(text))), None)  # fmt: skip
        self._open(first, chosen)
        self.model = chosen
        self._waiting: list[tuple[str, str]] = []
        seen: set[Any] = set()
        again = []
        for step in steps:
            index = step.get("step_index")
            if not isinstance(index, int) or index in seen:
                again.append(step)
            else:
                seen.add(index)
        unique = [each for each in steps if not any(each is other for other in again)]
        for step in sorted(unique, key=lambda each: each["step_index"]):
            self._step(f"step/{step['step_index']}", step)
        for place, step in enumerate(again):
            self._step(f"again/{place}", step)
        if again:
            self.about("finding")
            text = f"{len(again)} steps have no number of their own, and stand in the order of the file"
            self.put(Noted(label="finding", kind="repeated-step", text=text,
                           data={"name": "repeated-step", "steps": len(again)}))  # fmt: skip

    def _step(self, key: str, value: Body) -> None:
        self.about(key)
        kind, at = word(value.get("type")) or "STEP", utc_time(value.get("created_at"))
        content, extra = value.get("content"), without(value, *STEP)
        self.out.report.mapped[kind] += 1
        if kind == "USER_INPUT":
            typed = REQUEST.search(content) if isinstance(content, str) else None
            if typed and isinstance(content, str):
                around = REQUEST.sub("", content).strip()
                extra |= {"around": around} if around else {}
                self.model = match[1] if (match := CHOSEN.search(content)) else self.model
            text = typed[1] if typed else content
            self.put(Said(role="user", blocks=(text_block(text),), message_id=key), at, extra)
        elif kind == "PLANNER_RESPONSE":
            self._planned(key, value, at, extra)
        elif kind == "ERROR_MESSAGE":
            self.put(Noted(label="error", kind=kind, text=word(content), data=extra or None), at)
        elif kind == "CHECKPOINT":
            self.put(
                Noted(label="compaction", kind=kind, text=word(content), data=extra or None), at
            )
        elif kind in QUIET or value.get("source") == "SYSTEM":
            if content is None:
                self.put(Noted(label=kind, kind=kind, data=extra or None), at)
            else:
                fact = Said(role="user", blocks=(text_block(content),), injected=True)
                self.put(fact, at, extra)
        else:
            self._result(key, kind, content, at, extra, value.get("status"))

    def _planned(self, key: str, value: Body, at: str | None, extra: Body) -> None:
        blocks = []
        if value.get("thinking"):
            blocks.append(thought_block(value["thinking"]))
        if value.get("content"):
            blocks.append(text_block(value["content"]))
        calls = [obj(each) for each in items(value.get("tool_calls"))]
        self._waiting = []  # what was not answered before the next response never is
        if blocks or not calls:
            fact = Said(role="assistant", blocks=tuple(blocks), message_id=key, model=self.model)
            self.put(fact, at, extra)
        for place, call in enumerate(calls):
            id, name = f"{key}/{place}", word(call.get("name")) or "unknown"
            given = {name: parsed(each) for name, each in obj(call.get("args")).items()}
            self._waiting.append((id, name))
            self.put(Called(tool=name, call_id=id, input=given, synthetic_id=True), at)

    def _result(
        self, key: str, kind: str, content: Any, at: str | None, extra: Body, status: Any
    ) -> None:
        """A result follows its call in the order of steps; neither has an id."""
        place = next((n for n, each in enumerate(self._waiting) if each[1] == kind.lower()), 0)
        id, name = self._waiting.pop(place) if self._waiting else (key, kind.lower())
        failed = FAILED.search(content) if isinstance(content, str) else None
        code = int(failed[1]) if failed else None
        ok = None if status in CANCELLED else not code and status != "ERROR"
        back = Returned(call_id=id, tool=name, ok=ok, output=content, exit_code=code,
                        status=kind, synthetic_id=True)  # fmt: skip
        self.put(back, at, extra)
        children = (
            CHILD.findall(content) if kind == "INVOKE_SUBAGENT" and isinstance(content, str) else []
        )
        for child in children:
            self.put(Linked(kind="sub-run", child=run_id(NAME, child), call_id=id), at)

    def _database(self, value: Body) -> None:
        rows = [(index, bytes.fromhex(data)) for index, data in value["calls"]]
        models = [text_at(data, 1, 19) or text_at(data, 1, 21) for _, data in rows]
        self._open(value.get("at"), next(filter(None, models), None))
        if value["texts"]:
            for index, kind, text, thought, at in value["texts"]:
                self.about(f"step/{index}")
                self.out.report.mapped[f"step of type {kind}"] += 1
                blocks = [thought_block(thought)] if thought else []
                blocks += [text_block(text)] if text else []
                role = "user" if kind == TYPED else "assistant"
                fact = Said(role="user" if role == "user" else "assistant", blocks=tuple(blocks),
                            model=models[0] if models and role == "assistant" else None)  # fmt: skip
                self.put(fact, at)
        for index, kind, found, at in value["others"]:
            self.about(f"step/{index}")
            name = f"step of type {kind}"
            self.out.report.mapped[name] += 1
            self.put(Noted(label="step", kind=name, data={"index": index, "texts": found}), at)
        for (index, data), model in zip(rows, models, strict=True):
            self._call(index, data, model)

    def _call(self, index: int, data: bytes, model: str | None) -> None:
        fields = {
            name: integer_at(data, 1, 4, number)
            for name, number in (("fresh", 2), ("output", 3), ("cached", 5), ("thinking", 9))
        }
        id = text_at(data, 1, 4, 11)
        at = _time(data, 1, 9, 4)
        self.about(f"call/{index}")
        self.out.report.mapped["gen_metadata"] += 1
        if fields["fresh"] is None and fields["output"] is None:
            return
        known = usage(
            None,
            input_tokens=(fields["fresh"] or 0) + (fields["cached"] or 0),
            cached_tokens=fields["cached"] or 0,
            output_tokens=fields["output"],
            reasoning_tokens=fields["thinking"],
        )
        key = f"{self.out.run}/{id or index}"
        self.put(Spent(key=key, model=model, usage=known, calls=1), at)


def _time(data: bytes, *path: int) -> str | None:
    """A time of protobuf: seconds, and nanoseconds."""
    whole, part = integer_at(data, *path, 1), integer_at(data, *path, 2) or 0
    return utc_time(whole + part / 1e9) if whole else None


def conversation_of(path: Path) -> str:
    """The conversation of a transcript or a database, by its place."""
    if path.parts[-3:] == LOG:
        return path.parents[2].name
    return path.stem


def folder_of(path: Path, native: str) -> str | None:
    """The folder of a conversation, which only the history of prompts names."""
    root = path.parents[4] if path.parts[-3:] == LOG and len(path.parts) > 5 else path.parent.parent
    try:
        with (root / "history.jsonl").open("rb") as file:
            for line in file:
                if native.encode() in line and word(folder := obj(parsed(line)).get("workspace")):
                    return str(folder)
    except OSError:
        pass
    return None


def conversations(connection: sqlite3.Connection, path: Path) -> Iterator[Stored]:
    """The conversation of a database."""
    counts = [connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]  # noqa: S608  # two names
              for table in ("steps", "gen_metadata")]  # fmt: skip
    size = connection.execute("SELECT sum(length(data)) FROM gen_metadata").fetchone()[0]
    steps = connection.execute("SELECT sum(length(step_payload)) FROM steps").fetchone()[0]

    def load() -> Body:
        calls = connection.execute("SELECT idx, data FROM gen_metadata ORDER BY idx").fetchall()
        generations = [[row[0], _bytes(row[1]).hex()] for row in calls]
        texts: list[list[Any]] = []
        others: list[list[Any]] = []
        at = None
        meta = "metadata" if "metadata" in columns(connection)["steps"] else "NULL"
        query = f"SELECT idx, step_type, {meta}, step_payload FROM steps ORDER BY idx"  # noqa: S608  # ours
        for index, kind, meta, payload in connection.execute(query).fetchall():
            at_step = _time(_bytes(meta), 1)
            at = at or at_step
            data = _bytes(payload)
            text = text_at(data, 19, 2) if kind == TYPED else text_at(data, 20, 1)
            thought = text_at(data, 20, 3) if kind == PLANNED else None
            if kind in (TYPED, PLANNED) and (text or thought):
                texts.append([index, kind, text, thought, at_step])
            else:  # nobody published the schema: only the texts in it can be read
                others.append([index, kind, list(texts_in(data)), at_step])
        if transcript_of(path).is_file():
            texts, others = [], []
        return {"id": path.stem, "calls": generations, "texts": texts, "others": others, "at": at}

    yield Stored(path.stem, [*counts, size, steps], sum(counts), load)


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value or "").encode()


def transcript_of(path: Path) -> Path:
    return path.parent.parent.joinpath("brain", path.stem, *LOG)


def records(path: Path, state: dict[str, Any]) -> Iterator[Raw]:
    with path.open("rb") as file:
        if file.read(len(MAGIC)) == MAGIC:
            database_records = stored(
                lambda each: conversations(each, path), lambda id: run_id(NAME, id)
            )
            yield from database_records(path, state)
            return
    if path.suffix == ENCRYPTED:
        size = path.stat().st_size
        yield Raw(0, b"", {"encrypted": size}, through=size)
        return
    read = json_lines(path, _is_step)
    steps = [value for _, value in read.values if isinstance(value, dict)]
    if steps:
        yield Raw(0, b"", {"steps": steps}, through=read.size)
    for line, value in read.values:
        if not isinstance(value, dict):
            yield Raw(0, line, DAMAGED, (("irreparable", "a step that is no object"),), exact=False)
    yield from read.damaged


def _is_step(body: Body) -> bool:
    return "step_index" in body


PROMPT = Signs({"conversationId": str, "workspace": str})
SIGNS = (Signs({"step_index": int, "source": str, "type": str, "created_at": str}),)
TABLES = {"steps": ("idx", "step_type", "step_payload"), "gen_metadata": ("idx", "data")}


def recognise(path: Path, head: bytes) -> float:
    """By its records; an encrypted conversation by its place, unless its transcript is there."""
    if path.suffix == ENCRYPTED and path.parts[-2:-1] == ("conversations",):
        ours = any(part.startswith(NAME) for part in path.parts)
        return 0.9 if ours and not transcript_of(path).is_file() else 0.0
    return by_signs(SIGNS, TABLES)(path, head)


def companion(path: Path, head: bytes) -> bool:
    """The list of prompts, and an encrypted conversation whose transcript is there."""
    if path.suffix == ENCRYPTED:
        return path.parts[-2:-1] == ("conversations",) and transcript_of(path).is_file()
    listed = path.name == "history.jsonl" and any(part.startswith(NAME) for part in path.parts)
    return listed and score(path, head, [PROMPT]) > 0


def form(path: Path, head: bytes) -> Form:  # noqa: ARG001  # the shape
    return "store"


def find(home: Path, environment: Mapping[str, str]) -> Iterable[Path]:  # noqa: ARG001  # the shape
    for folder in ("antigravity-cli", "antigravity-ide", "antigravity"):
        base = home / ".gemini" / folder
        yield from inside(base, "conversations/*.db", f"brain/*/{'/'.join(LOG)}")
        for path in inside(base, f"conversations/*{ENCRYPTED}"):
            if not transcript_of(path).is_file() and not path.with_suffix(".db").is_file():
                yield path


importer = Importer(
    name=NAME,
    about="Antigravity: the transcripts of its conversations, and its databases with the counts.",
    mapping="2",
    reader=AntigravityReader,
    recognise=recognise,
    find=find,
    form=form,
    companion=companion,
    beside=log_beside,
    records=records,
    fits=_is_step,
    proven="real files of June 2026; the meaning of the fields of its databases is only observed",
)
