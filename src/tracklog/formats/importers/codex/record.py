"""One record of Codex while it is mapped."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from tracklog.formats.importers import remember, word
from tracklog.formats.importers._fact_bodies import call_fact, message_fact, result_fact
from tracklog.model.event import Body
from tracklog.model.fact import Fact, Linked, Noted

if TYPE_CHECKING:
    from tracklog.formats.importers.codex.reader import CodexReader

NAME = "codex"
EMPTY: tuple[Any, ...] = (None, "", [], {})
ENVELOPE = frozenset({"timestamp", "ordinal", "type", "payload", "item"})
_CALL = frozenset({"type", "id", "call_id", "name", "arguments", "input", "namespace", "function"})
_RESULT = frozenset({"type", "call_id", "name", "output", "result"})
_END = frozenset({"type", "call_id", "turn_id", "duration", "status"})
USED: Mapping[str, frozenset[str]] = {
    "message": frozenset({"type", "id", "role", "content", "message", "text", "phase", "model"}),
    "reasoning": frozenset({"type", "id", "summary", "content", "text", "encrypted_content"}),
    "function_call": _CALL,
    "custom_tool_call": _CALL,
    "function_call_output": _RESULT,
    "function_result": _RESULT,
    "custom_tool_call_output": _RESULT,
    "local_shell_call": frozenset({"type", "id", "call_id", "action"}),
    "exec_command_end": _END | {"exit_code", "aggregated_output"},
    "patch_apply_end": _END | {"success", "stdout", "stderr", "changes"},
    "mcp_tool_call_end": _END | {"result"},
    "task_complete": frozenset({"type", "turn_id", "error", "duration_ms"}),
    "turn_complete": frozenset({"type", "turn_id", "error", "duration_ms"}),
    "turn_aborted": frozenset({"type", "turn_id", "reason", "duration_ms"}),
}
"""The fields that the mapping of an item or event uses; the others are stored beside its fact."""


class CodexRecord:
    """One record; the state of the thread is the reader's."""

    __slots__ = ("_counted", "_rest", "at", "body", "reader", "state")

    def __init__(self, reader: "CodexReader", body: Body, at: str | None) -> None:
        self.reader, self.body, self.at = reader, body, at
        self.state = reader.state
        self._counted = False
        self._rest: Body | None = None

    def write(
        self, record: tuple[str, Callable[["CodexRecord", Body], bool | None] | None, Body]
    ) -> None:
        name, meaning, held = record
        used = USED.get(name.rpartition("/")[2])
        if used is not None and not held.keys() <= used:
            self._rest = {k: v for k, v in held.items() if k not in used and v not in EMPTY}
        if held is not self.body and not self.body.keys() <= ENVELOPE:
            around = {k: v for k, v in self.body.items() if k not in ENVELOPE and v is not None}
            self._rest = {**(self._rest or {}), **around}
        if meaning is None or meaning(self, held) is False:
            self.reader.out.unknown(name, self.body, at=self.at)
        elif not self._counted:
            self.reader.out.report.mapped[name] += 1

    def hold(self) -> None:
        """Count the record later, when it is known what it is."""
        self._counted = True

    def ignore(self, why: str) -> None:
        self._counted = True
        self.reader.out.report.ignored[why] += 1

    def write_fact(self, fact: Fact | Body, extra: Mapping[str, Any] | None = None) -> None:
        """Write a fact of the turn, unless it names another step itself.

        The first of a record carries the fields that the mapping does not use.
        """
        if self._rest:
            extra = {**(extra or {}), "fields": self._rest}
            self._rest = None
        self.reader.out.write(fact, at=self.at, extra=extra, step=self.state.get("turn"))

    def note(self, label: str, kind: str, held: Any = None, text: str | None = None) -> None:
        self.write_fact(Noted(label=label, kind=kind, text=text, data=held))

    def link(self, kind: Any, **ends: Any) -> None:
        self.write_fact(link(kind, **ends))

    def say(self, role: Any, blocks: list[dict[str, Any]], **more: Any) -> None:
        if blocks:
            if role == "assistant":
                more.setdefault("model", self.state.get("model"))
            extra = more.pop("extra", None)
            agent, to = more.pop("agent", None), more.pop("to", None)
            fact = message_fact(role, blocks, **more)
            if agent:
                fact["agent"] = agent
            if to:
                fact["to"] = to
            self.write_fact(fact, extra=extra)

    def call(self, tool: str, id: str | None, given: Any, **more: Any) -> str:
        """Write a call; returns its id, generated and flagged where there is none."""
        name = id or self._made_up(tool)
        self.write_fact(call_fact(tool, name, given, synthetic_id=not id, **more))
        remember(self.state.setdefault("calls", {}), name, tool)
        return name

    def give_back(self, id: str | None, output: Any, **more: Any) -> None:
        """Write the result of a call; without an id it belongs to the oldest call without one."""
        calls: dict[str, str] = self.state.setdefault("calls", {})
        tool = more.pop("tool", None)
        name = id or next(
            (call for call, of in calls.items() if call.startswith("syn-") and tool in (None, of)),
            None,
        )
        name = name or self._made_up(tool or "unknown")
        known = calls.get(name) or tool
        if not id:
            calls.pop(name, None)
        self.write_fact(result_fact(name, known, output=output, synthetic_id=not id, **more))

    def _made_up(self, tool: str) -> str:
        number = self.state["made_up"] = self.state.get("made_up", 0) + 1
        return f"syn-{number}-{tool}"


def link(kind: Any, **ends: Any) -> Linked:
    return Linked(kind=kind, **ends)


def element_text(value: Any) -> str | None:
    """The text of a string, of a list of strings, or of elements with a text each."""
    if isinstance(value, str):
        return value or None
    if isinstance(value, list):
        texts = [
            element_text(each.get("text") if isinstance(each, dict) else each) for each in value
        ]
        return "\n\n".join(each for each in texts if each) or None
    return word(value.get("text")) if isinstance(value, dict) else None
