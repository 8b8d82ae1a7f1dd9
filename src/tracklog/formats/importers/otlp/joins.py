"""Joins the reports of one tool call: a message, a span, a log event, a hook, a call over MCP.

Reports with one id are one call. A report without an id joins a call of the same tool that no
report of its own kind has named yet: one with the same input if there is one, else the first.
So the number of calls does not depend on the order in which reports arrive: per tool it is the
largest number that any one kind of report has.
"""

from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any

import orjson

NAMED, MESSAGE, SPAN, LOG, MCP, HOOK = "named", "message", "span", "log", "mcp", "hook"
KINDS = (NAMED, MESSAGE, SPAN, LOG, MCP, HOOK)
"""Kinds of reports: one with the id of a call, and five kinds without it."""
_WITH_ID = (NAMED, MESSAGE, MCP, HOOK)
_OTHERS = {
    (kind, own): [each for each in KINDS if each != kind and not (own and each == NAMED)]
    for kind in KINDS
    for own in (True, False)
}
"""The kinds of reports that may follow one of a kind, where the id is the call's own, or is not."""
MCP_CALL = "mcp/"
"""The beginning of ids that both ends of a call over MCP derive from its request."""


def input_key(tool: str, given: Any) -> str:
    """A hash that calls of one tool with one input have in common."""
    dumped = orjson.dumps([tool, given], option=orjson.OPT_SORT_KEYS, default=str)
    return sha256(dumped).hexdigest()[:16]


def bare(given: Any) -> Any:
    """The input without its wrapper: the keyword arguments, or the value of an only argument."""
    if isinstance(given, dict):
        if "kwargs" in given:
            given = keywords(given)
        if len(given) == 1 and isinstance(value := next(iter(given.values())), str):
            return value
    return given


def keywords(given: Any) -> Any:
    """The keyword arguments of a Python call, where nothing else was passed to it."""
    if not isinstance(given, dict) or not isinstance(inner := given.get("kwargs"), dict):
        return given
    if given.get("args") or given.keys() - {"args", "kwargs", "sanitize_inputs_outputs"}:
        return given
    return inner


class Joins:
    """The tool calls of one run."""

    def __init__(self, state: dict[str, Any]) -> None:
        self.calls: dict[str, str] = state.setdefault("calls", {})
        """The call of every id: the id under which it was first reported."""
        self.heads: dict[str, str] = state.setdefault("heads", {})
        """The id that the next report of a call refers to, where it is not the first one."""
        self.others: dict[str, str] = state.setdefault("others", {})
        """The id of an earlier report of the same call, by an id that came later."""
        self.items: dict[str, str] = state.setdefault("items", {})
        """The id under which an item without an id was reported, by the key of the item."""
        self._open: dict[str, dict[str, dict[str, str]]] = state.setdefault("open", {})
        """By tool and kind: the calls without a report of that kind, and the hash of their input."""

    def other(self, kind: str, id: str, tool: str, given: Any) -> str | None:
        """The earlier id of a call that is reported with an id of its own."""
        if id in self.calls:
            return self.others.get(id)
        return self._first(self._open.get(tool, {}).get(kind), tool, given)

    def find(self, kind: str, tool: str, given: Any, hint: str | None) -> str | None:
        """The id of the call that an item without an id reports; None for a new call.

        `hint` is an id that is preferred, where the call that has it is free.
        """
        calls = self._open.get(tool, {}).get(kind)
        if hint and calls and self.calls.get(hint) in calls:
            return hint
        return self._first(calls, tool, given)

    def _first(self, calls: Mapping[str, str] | None, tool: str, given: Any) -> str | None:
        if not calls:
            return None
        same = input_key(tool, bare(given))
        call = next((call for call, key in calls.items() if key == same), None)
        call = call or next(iter(calls))
        return self.heads.get(call, call)

    def add(self, kind: str, key: str, line: Mapping[str, Any]) -> None:
        """Remember a report by its line; `key` is the id, or that of an item without an id."""
        id, other = line["call_id"], line.get("provider_call_id")
        named = kind in _WITH_ID
        if key in (self.calls if named else self.items):
            return
        kinds = self._open.get(line["tool"])
        if kinds is None:
            kinds = self._open[line["tool"]] = {each: {} for each in KINDS}
        call = self.calls.get(other or id)
        if call is None:
            call = self.calls[id] = id
            asked = input_key(line["tool"], bare(line.get("input")))
            # An id that was read in an item, and not made of its key, is the call's own.
            own = kind == NAMED or not (named or id.startswith(key))
            for each in _OTHERS[kind, own]:
                kinds[each][call] = asked
        else:
            kinds[kind].pop(call, None)
        self.calls[id] = call
        if not named:
            self.items[key] = id
        if other:
            self.others[id], self.heads[call] = other, id

    def trim(self, trim: Callable[[dict[str, Any], int], None], most: int) -> None:
        """Forget the oldest."""
        for each in (self.calls, self.heads, self.others, self.items, self._open):
            trim(each, most)
        for kinds in self._open.values():
            for calls in kinds.values():
                trim(calls, most)
