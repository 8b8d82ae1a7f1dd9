"""Ids of tool calls for agents whose hooks report a call without its id.

The hooks and the file of a conversation derive the same id: from the tool, from its input, and from
how many calls with the same tool and input came before.
"""

from hashlib import sha256
from typing import Any

import orjson

from tracklog.formats.importers._memory import LONG, remember


def live_id(tool: str, given: Any, before: int) -> str:
    """The id of a call; `before` is the number of equal calls before it."""
    return f"live/{input_hash(tool, given)}/{before + 1}"


def input_hash(tool: str, given: Any) -> str:
    """A hash that calls of one tool with one input have in common."""
    dumped = orjson.dumps([tool, given], option=orjson.OPT_SORT_KEYS, default=str)
    return sha256(dumped).hexdigest()[:16]


class LiveCalls:
    """The derived ids of the calls in a file; they are in the state of its reader, and bounded."""

    def __init__(self, state: dict[str, Any]) -> None:
        known = state.setdefault("live", {"ids": {}, "counts": {}})
        self._ids: dict[str, str] = known["ids"]
        self._counts: dict[str, int] = known["counts"]

    def id_of(self, tool: str, given: Any, call: str) -> str:
        """The derived id of a call, the same each time the call is read."""
        known = self._ids.get(call)
        if known is not None:
            return known
        equal = input_hash(tool, given)
        before = self._counts.get(equal, 0)
        remember(self._counts, equal, before + 1, LONG)
        made = f"live/{equal}/{before + 1}"
        remember(self._ids, call, made, LONG)
        return made
