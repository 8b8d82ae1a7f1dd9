"""The attributes of an item: by name, and by meaning."""

from collections.abc import Callable, Container, Iterable, Mapping
from typing import Any, TypeVar

from tracklog.formats.importers.otlp.shape import Message, attributes

T = TypeVar("T")

CONVERSATIONS = ("gen_ai.conversation.id", "session.id", "conversation.id", "thread.id")
OS_THREAD = "thread.id"
"""A number under this name is a thread of the operating system; only a text names a conversation."""
RUN_KEYS = ("tracklog.run.id", *CONVERSATIONS)
"""The attributes that name the run of an item, the strongest first; the trace comes last."""
_RUN_KEYS = frozenset(RUN_KEYS)

INPUT = ("input.value", "traceloop.entity.input")
OUTPUT = ("output.value", "traceloop.entity.output")
NAMES: Mapping[str, tuple[str, ...]] = {
    "provider": ("gen_ai.provider.name", "gen_ai.system", "llm.provider", "llm.system"),
    "agent": ("gen_ai.agent.name", "agent.name", "gen_ai.agent.id"),
    "workflow": ("gen_ai.workflow.name", "traceloop.workflow.name"),
    "asked": (
        "gen_ai.request.model",
        "llm.request.model_name",
        "llm.model_name",
        "embedding.model_name",
        "reranker.model_name",
    ),
    "answered": ("gen_ai.response.model", "llm.response.model_name"),
    "response": ("gen_ai.response.id",),
    "tool": ("gen_ai.tool.name", "tool.name"),
    "call": ("gen_ai.tool.call.id", "gen_ai.tool.call_id", "tool.id", "tool_call.id"),
    "arguments": ("gen_ai.tool.call.arguments", *INPUT, "tool.parameters"),
    "result": ("gen_ai.tool.call.result", *OUTPUT),
    "node": ("graph.node.name", "graph.node.id", "langgraph_node"),
}
"""The names of each value; the first that is present is read."""


PRIVATE = ("user.", "enduser.")
"""Attributes about persons, which stay in the raw item."""


class Used:
    """Attributes that are mapped to fields of a line."""

    def __init__(self, names: frozenset[str], prefixes: tuple[str, ...] = ()) -> None:
        self.names, self.prefixes = names, prefixes

    def __or__(self, other: "Used") -> "Used":
        return Used(self.names | other.names, self.prefixes + other.prefixes)

    def others(self, names: "Names") -> list[str]:
        """The names of the other attributes; those about persons are left out."""
        prefixes = self.prefixes + PRIVATE
        return [
            name for name in names.all if name not in self.names and not name.startswith(prefixes)
        ]


class _Meanings(dict[str, tuple[str, ...]]):
    """For each meaning the names that are present, the newest first."""

    def __init__(self, names: Container[str]) -> None:
        self._names = names

    def __missing__(self, meaning: str) -> tuple[str, ...]:
        found = self[meaning] = tuple(name for name in NAMES[meaning] if name in self._names)
        return found


class Names:
    """The names of an item's attributes, with what follows from the names alone.

    Items of one kind have the same names: all of them share one object.
    """

    __slots__ = ("_known", "_others", "all", "is_marked", "joined", "meanings", "run_keys")

    def __init__(self, names: tuple[str, ...]) -> None:
        self.all = dict.fromkeys(names)
        self.joined = "\n".join(("", *names))
        """All names, each after a newline."""
        self.run_keys = not _RUN_KEYS.isdisjoint(names)
        """Whether one of them names the run."""
        self.is_marked = self.has("tracklog.") or self.has("logfire.")
        """Whether one of them may be a mark of our own exporter, or of Logfire."""
        self.meanings = _Meanings(self.all)
        self._known: dict[Callable[[Names], Any], Any] = {}
        self._others: dict[Used, list[str]] = {}

    def once(self, read: Callable[["Names"], T]) -> T:
        """The result of a function of the names, which is called once."""
        try:
            found: T = self._known[read]
        except KeyError:
            found = self._known[read] = read(self)
        return found

    def others(self, used: "Used") -> list[str]:
        """The names that are not mapped to fields of a line."""
        found = self._others.get(used)
        if found is None:
            found = self._others[used] = used.others(self)
        return found

    def has(self, prefix: str) -> bool:
        """Whether a name begins with this prefix."""
        return f"\n{prefix}" in self.joined


_KNOWN: dict[tuple[str, ...], Names] = {}
_MOST, _LONGEST = 1000, 4000  # names of different kinds of items, and characters of one kind


def _names(attrs: Iterable[str]) -> Names:
    key = tuple(attrs)
    found = _KNOWN.get(key)
    if found is None:
        found = Names(key)
        if len(found.joined) <= _LONGEST:
            if len(_KNOWN) >= _MOST:
                _KNOWN.clear()
            _KNOWN[key] = found
    return found


class Attrs(dict[str, Any]):
    """Attributes by name."""

    __slots__ = ("names",)

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.update(given)
        self.names = _names(self)

    @classmethod
    def read(cls, pairs: Iterable[Message] | None) -> "Attrs":
        """The attributes of an item; of two with one name the last."""
        return cls(attributes(pairs))


def text(value: Any) -> str | None:
    """A text that is not empty; None for anything else."""
    return value if isinstance(value, str) and value else None
