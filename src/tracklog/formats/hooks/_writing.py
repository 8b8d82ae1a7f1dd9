"""Write the events of an agent's hooks as facts of its run."""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Protocol

from tracklog.dialects import tracklog as native
from tracklog.formats.importers import LineWriter, remember
from tracklog.formats.importers._live_calls import input_hash, live_id
from tracklog.model.event import Body
from tracklog.model.fact import (
    Answered,
    Asked,
    Began,
    Called,
    Ended,
    Fact,
    Fidelity,
    Linked,
    Noted,
    Returned,
    Said,
)

COMMON = frozenset(
    {"session_id", "sessionId", "sessionID", "transcript_path", "transcriptPath", "cwd", "timestamp",
     "hook_event_name", "hookName", "stop_hook_active", "permission_mode"}
)  # fmt: skip  # one row
"""Keys that every event of a conversation repeats."""
ROOM = 4096
"""How many calls and messages of a run are remembered."""
UNKNOWN = "answered in the terminal"
"""The answer to a question of which it is only known that the agent went on."""
NO_RESULT = "no result"
"""The status of a call of which no event reported a result, although the agent went on."""
TERMINAL = "terminal"
"""Who answered a question that was asked in the agent's own terminal; it is no operator."""


def rest_of(event: Mapping[str, Any], *used: str) -> Body:
    """The fields of an event that were not mapped."""
    return {
        key: value
        for key, value in event.items()
        if key not in COMMON and key not in used and value is not None
    }


class HookedRun:
    """What the hooks of one run have reported: a cache, which can be read from the run's own lines."""

    def __init__(self) -> None:
        self.named = False
        self.ended = False
        self.calls: dict[str, str] = {}
        """By id of a call: `called`, then `returned`, or `closed` where no event reported a result."""
        self.counts: dict[str, int] = {}
        """How many calls without an id had the same tool and input."""
        self.open: dict[str, str] = {}
        """The calls without an id that have not returned, and the hash of tool and input."""
        self.asking: dict[str, str | None] = {}
        """The open questions, and the call that each is about."""
        self.asked = 0
        self.messages: dict[str, int] = {}
        self.models: dict[str, str] = {}
        """The model of a message; not stored in lines."""
        self.title: str | None = None

    def remember(self, body: Mapping[str, Any]) -> None:
        """Remember a line of the run."""
        match body["fact"]:
            case "Linked" if body["kind"] == "alias":
                self.named = True
            case "Began" if body["what"] == "run":
                self.ended = False
            case "Ended" if body["what"] == "run":
                self.ended = True
                self.asking.clear()
            case "Called":
                id = body["call_id"]
                remember(self.calls, id, "called", ROOM)
                if body.get("synthetic_id"):
                    equal = id.split("/")[1] if id.count("/") == 2 else id
                    remember(self.counts, equal, self.counts.get(equal, 0) + 1, ROOM)
                    remember(self.open, id, equal, ROOM)
            case "Returned":
                state = "closed" if body.get("status") == NO_RESULT else "returned"
                remember(self.calls, body["call_id"], state, ROOM)
                self.open.pop(body["call_id"], None)
            case "Asked":
                self.asked += 1
                self.asking[body["question_id"]] = body.get("call_id")
            case "Answered":
                self.asking.pop(body["question_id"], None)
            case "Said" if body.get("message_id"):
                remember(self.messages, body["message_id"], 1, ROOM)
            case "Noted" if body["label"] == "title":
                self.title = body.get("text")


class OtherReports(Protocol):
    """What else is known of the calls of a run."""

    def remember_hook(self, body: Mapping[str, Any]) -> None:
        """Remember a line that a hook reported."""

    def find_call(self, tool: str, given: Any) -> str | None:
        """The id of a call that no hook has reported yet."""


class HookWriter:
    """Writes the facts of one event."""

    def __init__(
        self,
        out: LineWriter,
        run: str,
        past: HookedRun,
        reports: OtherReports,
        at: str,
        clock: str | None,
    ) -> None:
        self.out, self.run, self.past, self.at, self.clock = out, run, past, at, clock
        self._reports = reports
        """What OTLP reports about the run."""

    def write(
        self,
        fact: Fact,
        extra: Mapping[str, Any] | None = None,
        *,
        at: str | None = None,
        fidelity: Fidelity | None = None,
    ) -> None:
        """Write a fact, at the time of the event if no other is given."""
        body = native.body_of(fact)
        clock = None if at else self.clock
        self.out.write(
            body, at=at or self.at, run=self.run, extra=self._lifted(dict(extra or {})) or None,
            fidelity=fidelity, clock=clock,
        )  # fmt: skip  # one call
        self.past.remember(body)
        self._reports.remember_hook(body)

    def name(self, system: str, session: str, parent: str | None = None) -> None:
        """Write the name of the conversation, once."""
        if not self.past.named:
            self.write(Linked(kind="alias", system=system, alias=session))
            if parent is not None:
                self.write(Linked(kind="sub-run", parent=parent))

    def begin(
        self,
        software: str,
        extra: Mapping[str, Any] | None = None,
        *,
        cwd: str | None = None,
        model: str | None = None,
        version: str | None = None,
    ) -> None:
        """The conversation began, or goes on."""
        named = {"name": software} | ({"version": version} if version else {})
        self.write(Began(what="run", software=named, cwd=cwd, model=model), extra)

    def end(self, reason: str | None, extra: Mapping[str, Any] | None = None) -> None:
        """The conversation ended; nobody waits for its questions any more."""
        if not self.past.ended:
            self.write(Ended(what="run", outcome=reason), extra)

    def say(
        self,
        role: Any,
        text: str | None,
        extra: Mapping[str, Any] | None = None,
        *,
        injected: bool = False,
        message: str | None = None,
        model: str | None = None,
        at: str | None = None,
    ) -> None:
        """A message; one with a known id is written once."""
        if not text or (message is not None and message in self.past.messages):
            return
        block = {"type": "text", "text": self._lifted(text)}
        fact = Said(role=role, blocks=(block,), injected=injected, message_id=message, model=model)
        self.write(fact, extra, at=at)

    def call(
        self,
        tool: str | None,
        given: Any,
        id: str | None = None,
        extra: Mapping[str, Any] | None = None,
        *,
        at: str | None = None,
    ) -> str:
        """A call began; without an id, one is derived as the importer of the file does."""
        tool, given = tool or "unknown", self._lifted(given)
        if id is not None and id in self.past.calls:
            return id
        self.close_questions()
        server = tool.split("__")[1] if tool.startswith("mcp__") and tool.count("__") > 1 else None
        made, other = id, None
        if made is None:
            made = live_id(tool, given, self.past.counts.get(input_hash(tool, given), 0))
            other = self._reports.find_call(tool, given)
        fact = Called(tool=tool, call_id=made, input=given, provider_call_id=other,
                      tool_server=server, synthetic_id=id is None)  # fmt: skip
        self.write(fact, extra, at=at)
        return made

    def returned(
        self,
        tool: str | None,
        given: Any,
        id: str | None = None,
        extra: Mapping[str, Any] | None = None,
        *,
        ok: bool | None = None,
        at: str | None = None,
        **more: Any,
    ) -> None:
        """A call returned; its begin is written, too, where no event reported it.

        Where the agent does not say how the call went, any report that knows it counts instead.
        """
        if id is None:
            tool, given = tool or "unknown", self._lifted(given)
            equal = input_hash(tool, given)
            waits = (call for call, of in self.past.open.items() if of == equal)
            made = next(waits, None) or self.call(tool, given, at=at)
        else:
            made = self.call(tool, given, id, at=at)
        if self.past.calls.get(made) == "returned":
            return
        self.close_questions(made)
        if "output" in more:
            more["output"] = self._lifted(more["output"])
        fact = Returned(call_id=made, tool=tool, ok=ok, synthetic_id=id is None, **more)
        self.write(fact, extra, at=at, fidelity="inferred" if ok is None else None)

    def ask(
        self,
        text: str,
        call: str | None = None,
        extra: Mapping[str, Any] | None = None,
        *,
        id: str | None = None,
        options: tuple[str, ...] | None = None,
        what: str = "permission",
    ) -> None:
        """The agent asks in its terminal; nobody can answer elsewhere."""
        made = id or f"{what}/{self.run[:8]}/{self.past.asked + 1}"
        if made in self.past.asking or (call is not None and call in self.past.asking.values()):
            return
        self.write(
            Asked(question_id=made, text=text, what=what, call_id=call, options=options), extra
        )

    def close_questions(self, returned: str | None = None) -> None:
        """The agent goes on, so its questions were answered: a call that returned was allowed."""
        for question, call in list(self.past.asking.items()):
            is_allowed = returned is not None and call == returned
            self.answer(question, "allowed" if is_allowed else UNKNOWN)

    def only_open_call(self) -> str | None:
        """The call that has not returned, if it is the only one."""
        called = [id for id, state in self.past.calls.items() if state == "called"]
        return called[0] if len(called) == 1 else None

    def close_calls(self, call: str | None = None) -> None:
        """No result of a call will come, or of any: it was denied, or stopped.

        Any report that knows how the call went counts instead.
        """
        for each in [id for id, state in self.past.calls.items() if state == "called"]:
            if call is None or call == each:
                unnamed = each in self.past.open
                fact = Returned(call_id=each, status=NO_RESULT, synthetic_id=unnamed)
                self.write(fact, fidelity="inferred")

    def answer(self, question: str, answer: str) -> None:
        """An answer that was given in the terminal."""
        if question in self.past.asking:
            self.write(Answered(question_id=question, answer=answer, by=TERMINAL))

    def note(
        self,
        label: str,
        data: Mapping[str, Any],
        *,
        kind: str | None = None,
        text: str | None = None,
    ) -> None:
        """Anything else."""
        self.write(Noted(label=label, kind=kind or label, text=text, data=self._lifted(dict(data))))

    def _lifted(self, value: Any) -> Any:
        return self.out.lift.value(value)


def digest_of(content: bytes, received: str, number: int) -> str:
    """The identity of one event: no two are the same, even if they have the same content."""
    return sha256(b"%b\n%b\n%d" % (content, received.encode(), number)).hexdigest()
