"""One record of Claude Code while it is mapped: its position, its frame, and its context."""

from typing import TYPE_CHECKING, Any

from tracklog.formats.importers import run_id, word
from tracklog.formats.importers.claude.files import NAME, call_with, meta_of, parent_file, prompt_of
from tracklog.model.event import Body
from tracklog.model.fact import Began, Fact, Linked, Noted

if TYPE_CHECKING:
    from tracklog.formats.importers.claude.reader import ClaudeReader

FRAME = {
    "type", "uuid", "parentUuid", "logicalParentUuid", "sessionId", "session_id", "timestamp",
    "isSidechain", "userType", "cwd", "version", "gitBranch", "message", "agentId", "toolUseResult",
    "requestId",
}  # fmt: skip  # names, in rows
"""The keys that have a field of their own on a line."""
MESSAGE = {"id", "type", "role", "model", "content", "stop_reason", "usage"}
"""Those of a message."""
SETTING = ("cwd", "gitBranch", "version")
"""Settings at the beginning of a conversation, written again when they change."""
NOTHING: Body = {}
QUIET = {"isMeta": False, "isApiErrorMessage": False, "error": None, "isSnapshotUpdate": False}
"""Keys that carry no information with these values."""


class ClaudeRecord:
    """One record while it is mapped."""

    __slots__ = ("at", "body", "cause", "extra", "key", "kind", "out", "reader", "state")

    def __init__(self, reader: "ClaudeReader", body: Body, key: str | None, at: str | None) -> None:
        self.reader, self.body, self.key, self.at = reader, body, key, at
        self.state, self.out = reader.state, reader.out
        self.kind = word(body.get("type")) or ""
        self.cause = word(body.get("parentUuid")) or word(body.get("logicalParentUuid"))
        self.extra: Body | None = None

    def begin(self) -> None:
        """Write the beginning of the conversation as soon as it is known, and store keys without a
        field.
        """
        if "named" not in self.state:
            self._name()
        if "began" not in self.state and isinstance(self.body.get("cwd"), str):
            self._begin()
        self.extra = self._rest()

    def write_fact(
        self,
        fact: Fact | Body,
        extra: Body | None = None,
        cause: str | None = None,
    ) -> None:
        """Write a fact; the first of a record carries the keys without a field of their own."""
        if self.extra:
            extra = {**self.extra, **extra} if extra else self.extra
            self.extra = None
        self.out.write(fact, self.at, cause or self.cause, extra)

    def unknown(self, kind: str) -> None:
        self.out.unknown(kind or "no type", self.body, at=self.at, cause=self.cause)

    def _rest(self) -> Body | None:
        """The keys without a field of their own, and settings that have changed."""
        body = self.body
        began: Body = self.state.get("began") or NOTHING
        message = body.get("message")
        more = None
        if isinstance(message, dict) and not message.keys() <= MESSAGE:
            more = _rest_of(message)
        framed = not more and body.keys() <= FRAME
        if framed and began and began.items() <= body.items():  # the common case
            return None
        rest: Body = {}
        if not framed:
            rest = {
                key: value
                for key, value in body.items()
                if key not in FRAME and not (key in QUIET and QUIET[key] == value)
            }
        if more:
            rest["message"] = more
        for key in SETTING:
            if key in body and body[key] != began.get(key):
                rest[key] = body[key]
        return rest

    def _name(self) -> None:
        """Write the names of this conversation, and its parent."""
        out, state = self.out, self.state
        state["named"] = True
        session, agent = state["session"], state.get("agent")
        out.write(Linked(kind="alias", system=NAME, alias=agent or session), at=self.at)
        if agent:
            with out.revised("parent"):
                self._link(session)

    def _link(self, session: str) -> None:
        """Write the parent of a sub-agent, as far as its file is there."""
        out = self.out
        source, exact = self._source_call()
        link = Linked(kind="sub-run", parent=run_id(NAME, session), call_id=source)
        out.write(link, at=self.at, fidelity=None if exact or not source else "inferred")
        if not parent_file(self.reader.source.path, session).exists():
            words = f"the conversation {session} that began this one is not there"
            finding = {"name": "parent-missing", "session": session}
            out.write(Noted(label="finding", kind="parent-missing", text=words, data=finding))
            out.report.repaired["parent-missing"] += 1

    def _source_call(self) -> tuple[str | None, bool]:
        if source := word(self.body.get("sourceToolUseID")):
            return source, True
        prompt = prompt_of(self.body)
        file = parent_file(self.reader.source.path, self.state["session"])
        return (call_with(file, prompt) if prompt else None), False

    def _begin(self) -> None:
        body, state, agent = self.body, self.state, self.state.get("agent")
        state["began"] = {key: body.get(key) for key in SETTING}
        version = word(body.get("version")) or word(body.get("claude_code_version"))
        software = {"name": "claude-code", **({"version": version} if version else {})}
        branch = word(body.get("gitBranch"))
        extra: dict[str, Any] = {
            key: body[key] for key in ("userType", "entrypoint", "sessionKind") if key in body
        }
        began = Began(
            what="run",
            cwd=body["cwd"],
            software=software,
            git={"branch": branch} if branch else None,
            model=word(body.get("model")),
        )
        if not agent:
            self.out.write(began, at=self.at, extra=extra or None)
            return
        extra |= meta_of(self.reader.source.path)
        with self.out.revised("begin"):
            self.out.write(began, at=self.at, extra=extra or None)


def _rest_of(message: Body) -> Body:
    """The fields of a message that have no field of their own, and are not null."""
    return {key: each for key, each in message.items() if key not in MESSAGE and each is not None}
