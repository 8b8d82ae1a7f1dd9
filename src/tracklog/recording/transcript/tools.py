"""Tool calls, each once, whoever reported them and however often."""

import json
from dataclasses import dataclass
from typing import Any

from tracklog.dialects.awf.meaning import GO_KEYS
from tracklog.model.event import Body


@dataclass(slots=True)
class TranscriptCall:
    """One tool call, once, whoever reported it."""

    name: str
    call_id: str | None
    """None where it has no id."""
    fidelity: str
    input: Any
    provider_call_id: str | None = None
    output: Any = None
    error: str | None = None
    is_error: bool = False
    returned: bool = False
    """Whether a result was reported; a call without one is legal."""
    path: str | None = None
    """The path of the step that made the call."""
    place: int = 0
    """Its position among the events of its run."""

    @property
    def arguments(self) -> Any:
        """The input, parsed where it is a string that holds an object."""
        if isinstance(self.input, str):
            try:
                parsed = json.loads(self.input)
            except ValueError:
                return self.input
            return parsed if isinstance(parsed, dict) else self.input
        return self.input

    @property
    def result(self) -> Any:
        """The output with keys in lower case, as its writer may have capitalised them."""
        return lowered(self.output)


class Tools:
    """Collects the reports of tool calls, in any order, and joins them by id.

    AWF-37: the router's report takes precedence over the agent's; an event over a block.
    """

    def __init__(self) -> None:
        self._events: list[TranscriptCall] = []
        self._blocks: list[TranscriptCall] = []
        self._results: list[Body] = []
        self._block_results: list[Body] = []

    def call(self, place: int, payload: Body, path: str | None) -> None:
        """Add a `tool.call` event."""
        self._events.append(
            TranscriptCall(
                name=str(payload.get("name", "")),
                call_id=_text(payload.get("call_id")),
                fidelity=str(payload.get("fidelity", "")),
                input=payload.get("input"),
                provider_call_id=_text(payload.get("provider_call_id")),
                path=path,
                place=place,
            )
        )

    def result(self, payload: Body) -> None:
        """Add a `tool.result` event."""
        self._results.append(payload)

    def blocks(self, place: int, blocks: list[Body], path: str | None) -> None:
        """Add the blocks of a message."""
        for block in blocks:
            if block.get("type") == "tool_use":
                self._blocks.append(
                    TranscriptCall(
                        name=str(block.get("tool_name", "")),
                        call_id=_text(block.get("tool_id")),
                        fidelity=str(block.get("fidelity", "")),
                        input=block.get("tool_input"),
                        path=path,
                        place=place,
                    )
                )
            elif block.get("type") == "tool_result":
                self._block_results.append(block)

    def once(self) -> list[TranscriptCall]:
        """Every call once, in the order of the calls."""
        calls: list[TranscriptCall] = []
        known: dict[str, TranscriptCall] = {}
        router_first = sorted(self._events, key=lambda call: call.fidelity != "router")
        for call in [*router_first, *self._blocks]:
            ids = {id for id in (call.call_id, call.provider_call_id) if id}
            first = next((known[id] for id in ids if id in known), None)
            if first is None:
                calls.append(call)
                known.update(dict.fromkeys(ids, call))
            else:
                first.place = min(first.place, call.place)
        for payload in self._results:
            _return(known.get(_text(payload.get("call_id")) or ""), payload)
        for block in self._block_results:
            _return_block(known.get(_text(block.get("tool_id")) or ""), block)
        return sorted(calls, key=lambda call: call.place)


def _return(call: TranscriptCall | None, payload: Body) -> None:
    if call is None or (call.returned and payload.get("fidelity") != "router"):
        return
    call.output, call.error = payload.get("output"), _text(payload.get("error"))
    call.is_error = bool(payload.get("is_error")) or bool(call.error)
    call.returned = True


def _return_block(call: TranscriptCall | None, block: Body) -> None:
    if call is not None and not call.returned:
        call.output, call.returned = block.get("tool_content"), True
        call.is_error = bool(block.get("is_error"))


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def lowered(value: Any) -> Any:
    """A tool's output with its capitalised keys in lower case."""
    if isinstance(value, list):
        return [lowered(each) for each in value]
    if isinstance(value, dict):
        return {GO_KEYS.get(key, key): lowered(part) for key, part in value.items()}
    return value
