"""Gemini CLI: its conversations on disk, as JSON documents and as JSON lines."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from tracklog.formats.importers import (
    ANY,
    LONG,
    Form,
    Importer,
    Raw,
    Reader,
    Signs,
    by_signs,
    inside,
    remember,
    run_id,
    utc_time,
    word,
)
from tracklog.formats.importers._live_calls import LiveCalls
from tracklog.formats.importers._snapshots import read_json
from tracklog.formats.providers import obj
from tracklog.formats.providers.gemini import block_of, exit_code_in, message_tokens, thought_of
from tracklog.model.fact import Began, Called, Fact, Linked, Noted, Returned, Said, Spent

NAME = "gemini"
CUT = re.compile(
    r"tool output was too large and has been truncated|\[CONTENT TRUNCATED\]", re.IGNORECASE
)
KINDS = ("user", "gemini", "info", "warning", "error")
META = ("sessionId", "projectHash", "startTime")
OWN = ("id", "timestamp", "type", "content", "thoughts", "tokens", "toolCalls", "model")
CALL = ("id", "name", "args", "status", "timestamp", "result")


class _MessageFact(NamedTuple):
    fact: Fact
    at: str | None
    extra: dict[str, Any] | None = None


class GeminiReader(Reader):
    """Reads one conversation; a message that is written again gives only what is new in it."""

    def identify(self, raw: Raw) -> str | None:
        value = raw.value
        if not isinstance(value, dict):
            return None
        if native := word(value.get("sessionId")):
            return run_id(NAME, native)
        if self._is_document() and "messages" not in value and (id := word(value.get("id"))):
            return run_id(NAME, id)  # one message, taken out of its conversation
        return None

    def record(self, raw: Raw) -> None:
        value = raw.value
        if not isinstance(value, dict):
            self.out.unknown("value", self.out.about(raw, bare=True))
        elif "$set" in value:
            self._set(raw, value["$set"])
        elif "$rewindTo" in value:
            self._rewind(raw, value["$rewindTo"])
        elif "sessionId" in value or "messages" in value or "projectHash" in value:
            self._begin(raw, value)
        elif word(value.get("id")):
            self._message(raw)
        else:
            self.out.unknown(word(value.get("type")) or "record", self.out.about(raw, bare=True))

    def _is_document(self) -> bool:
        return form(self.source.path, self.source.head) == "document"

    def _part(self, raw: Raw, value: Any) -> Raw:
        """A piece of a larger record, as a record of its own: the same in every form of file."""
        return raw._replace(value=value, exact=True, flaws=())

    def _begin(self, raw: Raw, value: dict[str, Any]) -> None:
        self.out.report.mapped["session"] += 1
        native = word(value.get("sessionId"))
        if native and native != self.state.get("session"):
            self.state["session"] = native
            self._open(raw, value, native)
        self._title(raw, value.get("summary"))
        for message in _listed(value.get("messages")):
            self._message(self._part(raw, message))

    def _open(self, raw: Raw, value: dict[str, Any], native: str) -> None:
        named = self._part(raw, {key: value[key] for key in META if key in value})
        self.out.about(named, key=native)
        at, folders = utc_time(value.get("startTime")), _listed(value.get("directories"))
        project = project_of(self.source.path, value.get("projectHash"))
        began = Began(
            what="run",
            software={"name": "gemini-cli"},
            cwd=project or next((each for each in folders if isinstance(each, str)), None),
        )
        known = {*META, "messages", "lastUpdated", "summary"}
        extra = {key: each for key, each in value.items() if key not in known}
        if "projectHash" in value:
            extra["projectHash"] = value["projectHash"]
        with self.out.revised("session"):
            self.out.write(began, at=at, extra=extra)
        self.out.write(Linked(kind="alias", system=NAME, alias=native), at=at)
        parent = self.source.path.parent.name
        if self.source.path.parent.parent.name == "chats" and parent != native:
            self.out.write(Linked(kind="sub-run", parent=run_id(NAME, parent)), at=at)

    def _title(self, raw: Raw, summary: Any) -> None:
        if word(summary) and summary != self.state.get("title"):
            self.state["title"] = summary
            named = {"sessionId": self.state.get("session", ""), "summary": summary}
            self.out.about(self._part(raw, named), key="summary")
            self.out.write(Noted(label="title", kind="summary", text=summary))

    def _set(self, raw: Raw, fields: Any) -> None:
        self.out.report.mapped["$set"] += 1
        fields = fields if isinstance(fields, dict) else {"value": fields}
        if isinstance(fields.get("messages"), list):
            self._rebuild(raw, fields["messages"])
        self._title(raw, fields.get("summary"))
        rest = {
            key: value
            for key, value in fields.items()
            if key not in ("messages", "summary", "lastUpdated", "sessionId", "startTime")
        }
        if rest:
            self.out.about(raw, bare=True)
            self.out.write(Noted(label="metadata", kind="$set", data=self.out.lift.value(rest)))

    def _rebuild(self, raw: Raw, messages: list[Any]) -> None:
        """A checkpoint holds the complete conversation. Messages that it lacks are withdrawn, with
        all after them.

        Of the messages after those that still exist, the checkpoint writes new facts.
        """
        ids = set(map(_id, messages))
        gone = next((id for id in self._live if id not in ids), None)
        back: set[str] = set()
        if gone is not None:
            self.out.about(raw, bare=True, lift=False)
            back = set(self._withdraw(gone, "$set"))
            mark = self.out.mark()
        self._live.clear()
        for message in messages:
            if (id := _id(message)) not in back:
                self._message(self._part(raw, message))
                continue
            remember(self._live, id, 1, LONG)
            self.out.again({**mark, "origin": {**mark["origin"], "record": id}})
            for each in _all_of(self.out.lift.value(message), id):
                self.out.write(self._named(each.fact), at=each.at, extra=each.extra)
            mark = self.out.mark()

    def _rewind(self, raw: Raw, id: Any) -> None:
        self.out.report.mapped["$rewindTo"] += 1
        self.out.about(raw, bare=True)
        if self._live:
            known = isinstance(id, str) and id in self._live
            self._withdraw(id if known else next(iter(self._live)), "$rewindTo")

    def _withdraw(self, id: str, kind: str) -> list[str]:
        """Withdraw a message and all after it."""
        self.out.write(Noted(label="withdrawn", kind=kind, data={"from": id}))
        live = list(self._live)
        gone = live[live.index(id) :]
        for each in gone:
            del self._live[each]
        return gone

    @property
    def _live(self) -> dict[str, int]:
        """The messages that were not withdrawn, in order."""
        live: dict[str, int] = self.state.setdefault("alive", {})
        return live

    def _message(self, raw: Raw) -> None:
        """Write the facts of a message; a copy with the same id gives only the new ones."""
        message = raw.value
        id = _id(message)
        if not isinstance(message, dict) or not id:
            self.out.unknown("message", self.out.about(raw, bare=True))
            return
        if id not in self._live:
            remember(self._live, id, 1, LONG)
        value = self.out.about(raw, key=id)
        kind = word(value.get("type")) or "message"
        known = kind in KINDS
        self.out.report.mapped[kind] += known
        prints = self.state.setdefault("prints", {})
        seen: list[str] = prints.get(id) or []
        for n, each in enumerate(_all_of(value, id)):
            print_ = _print(each)
            if print_ in seen:
                continue
            seen.append(print_)
            if not known:
                self.out.report.unknown[kind] += 1
            self.out.write(self._named(each.fact), at=each.at, extra=each.extra, n=n)
        remember(prints, id, seen, LONG)

    def _named(self, fact: Fact) -> Fact:
        """A call with the id under which the hooks of Gemini CLI report it."""
        if not isinstance(fact, Called):
            return fact
        id = LiveCalls(self.state).id_of(fact.tool, fact.input, fact.call_id)
        return replace(fact, provider_call_id=id)


def _all_of(value: dict[str, Any], id: str) -> list[_MessageFact]:
    """All facts of a message, of whatever type."""
    kind = word(value.get("type")) or "message"
    if kind in KINDS:
        return _facts(value, id, kind)
    return [
        _MessageFact(Noted(label=kind, kind=kind, data=value), utc_time(value.get("timestamp")))
    ]


def _print(message: _MessageFact) -> str:
    text = (
        f"_Told{repr(message).removeprefix(_MessageFact.__name__)}"  # as states hold it since 0.1
    )
    return sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


def _id(message: Any) -> str:
    return (word(message.get("id")) if isinstance(message, dict) else None) or ""


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _facts(value: dict[str, Any], id: str, kind: str) -> list[_MessageFact]:
    """All facts of a message, in order, including those written before."""
    at = utc_time(value.get("timestamp"))
    extra = {key: each for key, each in value.items() if key not in OWN} or None
    blocks, returns = _parts(value.get("content"))
    if kind in ("info", "warning", "error"):
        text = "\n".join(str(block["text"]) for block in blocks if block["type"] == "text")
        return [_MessageFact(Noted(label=kind, kind=kind, text=text), at, extra)]
    if kind == "user":
        facts = [_MessageFact(fact, at) for fact in returns]
        if blocks or not facts:
            message = Said(role="user", blocks=tuple(blocks), message_id=id)
            facts.insert(0, _MessageFact(message, at, extra))
        return facts
    model = word(value.get("model"))
    blocks = [*map(thought_of, _listed(value.get("thoughts"))), *blocks]
    calls = [each for each in _listed(value.get("toolCalls")) if isinstance(each, dict)]
    facts = [_MessageFact(fact, at) for fact in returns]
    if blocks or not calls:
        message = Said(role="assistant", blocks=tuple(blocks), message_id=id, model=model)
        facts.insert(0, _MessageFact(message, at, extra))
    for place, call in enumerate(calls):
        facts += _call(call, f"{id}/{place}", at)
    if spent := message_tokens(value.get("tokens")):
        cost = Spent(key=id, provider="gcp.gemini", model=model, usage=spent, calls=1)
        facts.append(_MessageFact(cost, at))
    return facts


def _parts(content: Any) -> tuple[list[dict[str, Any]], list[Fact]]:
    """The blocks of a content, and the tool results among its parts."""
    blocks: list[dict[str, Any]] = []
    returns: list[Fact] = []
    for part in content if isinstance(content, list) else [content]:
        if isinstance(part, dict) and isinstance(part.get("functionResponse"), dict):
            returns.append(_answered(part["functionResponse"]))
        elif (block := block_of(part)) is not None:
            blocks.append(block)
    return blocks, returns


def _answered(fields: dict[str, Any]) -> Returned:
    response = fields.get("response")
    error = response.get("error") if isinstance(response, dict) else None
    output = response.get("output", response) if isinstance(response, dict) else response
    exit_code = exit_code_in(fields.get("name"), output)
    return Returned(
        call_id=word(fields.get("id")) or "unknown",
        tool=word(fields.get("name")),
        ok=error is None and not exit_code,
        exit_code=exit_code,
        output=None if error is not None else output,
        error=error,
        synthetic_id=not word(fields.get("id")),
    )


def _call(call: dict[str, Any], synthetic: str, at: str | None) -> list[_MessageFact]:
    id, name = word(call.get("id")), word(call.get("name")) or "unknown"
    extra = {key: each for key, each in call.items() if key not in CALL}
    shown = extra.pop("resultDisplay", None)
    facts = [
        _MessageFact(
            Called(
                tool=name,
                call_id=id or synthetic,
                input=call.get("args"),
                synthetic_id=id is None,
            ),
            at,
            extra or None,
        )
    ]
    if agent := word(call.get("agentId")):
        child = run_id(NAME, agent)
        facts.append(_MessageFact(Linked(kind="sub-run", child=child, call_id=id or synthetic), at))
    results = _listed(call.get("result"))
    if not results:
        return facts  # it refers to nothing
    answers = [each for each in results if isinstance(each, dict)]
    answer: dict[str, Any]
    answer = next((each["functionResponse"] for each in answers if _has_response(each)), {})
    returned = _answered(answer)
    status = word(call.get("status"))
    ok = {"success": not returned.exit_code, "error": False}.get(status or "")
    output = returned.output if answer else results
    later = utc_time(call.get("timestamp")) or at
    back = Returned(
        call_id=id or synthetic,
        tool=name,
        ok=ok,
        output=output,
        exit_code=returned.exit_code,
        error=returned.error,
        status=status,
        synthetic_id=id is None,
    )
    facts.append(_MessageFact(back, later, {"resultDisplay": shown} if shown else None))
    if isinstance(output, str) and CUT.search(output):
        finding = {"name": "tool_output_truncated"}
        text = f"the output of {name} was cut before it was written"
        facts.append(_MessageFact(Noted(label="finding", text=text, data=finding), later))
    return facts


def _has_response(part: dict[str, Any]) -> bool:
    return isinstance(part.get("functionResponse"), dict)


def form(path: Path, head: bytes) -> Form:
    """Lines where the first line is a complete object, else one document."""
    if ".jsonl" in path.name:
        return "lines"
    first = head.partition(b"\n")[0].strip()
    try:
        whole = isinstance(orjson.loads(first), dict) and b"\n" in head.rstrip()
    except orjson.JSONDecodeError:
        whole = False
    return "lines" if whole else "document"


def project_of(path: Path, hash: Any) -> str | None:
    """The folder of a conversation, which the program names beside it, or in its list of projects."""
    folder = next((each.parent for each in path.parents if each.name == "chats"), None)
    if folder is None:
        return None
    try:
        named = folder.joinpath(".project_root").read_text("utf-8", "replace").strip()
    except OSError:
        named = ""
    if named:
        return named
    listed = obj(obj(read_json(folder.parents[1] / "projects.json")).get("projects"))
    hashes = ((each, sha256(each.encode("utf-8", "replace")).hexdigest()) for each in listed)
    known = (each for each, print_ in hashes if listed[each] == folder.name or print_ == hash)
    return next(known, None)


SIGNS = (
    Signs({"sessionId": str, "projectHash": str}, sure=0.95),
    Signs({"type": {"gemini"}, "id": str, "timestamp": str}, ("uuid", "payload", "data")),
    Signs(
        {"type": {"user", "info", "error", "warning"}, "id": str, "timestamp": str, "content": ANY},
        ("uuid", "payload", "data", "parentId", "role", "message", "sessionId"),
    ),
)


def find(home: Path, environment: Mapping[str, str]) -> Iterable[Path]:  # noqa: ARG001  # the shape
    return inside(home / ".gemini" / "tmp", "*/chats/**/*.json", "*/chats/**/*.jsonl",
                  "*/chats/**/*.unreadable-*")  # fmt: skip


importer = Importer(
    name=NAME,
    about="Gemini CLI: ~/.gemini/tmp/*/chats, both file forms.",
    mapping="3",
    reader=GeminiReader,
    recognise=by_signs(SIGNS),
    find=find,
    form=form,
    fits=lambda body: not body.keys().isdisjoint({"id", "sessionId", "$set", "$rewindTo"}),
    proven="a real document of 2025, and real, cleaned lines of 0.40",
)
