"""The models that answer a prompt: a deterministic stub, or a model server."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import orjson

from tracklog.hosts._endpoint import Endpoint, question, text_in, thought_in
from tracklog.hosts.openwop.settings import ModelServer, Settings

Message = dict[str, Any]
Think = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReply:
    """The reply of a model in one turn."""

    text: str = ""
    reasoning: str = ""
    chunks: tuple[str, ...] = ()
    """The pieces in which its reasoning arrived, where that was recorded."""
    calls: tuple[tuple[str, str, Any], ...] = ()
    """Tools that it wants called: its own id of the call, the tool, the arguments."""
    confidence: float | None = None
    usage: Mapping[str, int] = field(default_factory=dict)
    provider: str = "stub"
    model: str = "stub"
    failed: str | None = None
    """Why the reply ends here, where that was recorded."""


class Model(Protocol):
    """A model that answers messages."""

    async def ask(
        self,
        messages: Sequence[Message],
        tools: Sequence[str],
        options: Mapping[str, Any],
        think: Think,
    ) -> ModelReply:
        """Its reply; `think` gets the reasoning piece by piece, if it is streamed."""

    async def close(self) -> None:
        """Close its connections."""


class Stub:
    """Answers without a network, and always the same.

    It says how many messages it remembers and repeats the last; a line `call TOOL JSON` makes it
    call a tool once, and `confidence N` makes it unsure. It goes by the `model` that it is asked for,
    ends after `maxTokens` words, and says the `temperature` at which it was asked.
    """

    async def ask(
        self,
        messages: Sequence[Message],
        tools: Sequence[str],  # noqa: ARG002  # the signature of a model
        options: Mapping[str, Any],
        think: Think,  # noqa: ARG002
    ) -> ModelReply:
        asked = next(m["content"] for m in reversed(messages) if m["role"] == "user")
        earlier = sum(m["role"] == "user" for m in messages) - 1
        confidence: float | None = None
        calls: list[tuple[str, str, Any]] = []
        for line in asked.splitlines():
            word, _, rest = line.partition(" ")
            if word == "confidence":
                confidence = _share(rest)
            elif word == "call" and rest and messages[-1]["role"] == "user":
                tool, _, given = rest.partition(" ")
                calls.append((f"call-{len(calls)}", tool, _json(given)))
        model, most = options.get("model", "stub"), options.get("maxTokens", sys.maxsize)
        size = sum(len(str(m["content"]).split()) for m in messages)
        usage = {"inputTokens": size, "outputTokens": min(most, len(asked.split()))}
        if calls:
            thought = f"I was asked to call {', '.join(tool for _, tool, _ in calls)}."
            return ModelReply(reasoning=thought, calls=tuple(calls), usage=usage, model=model)
        rows = [m["content"] for m in messages if m["role"] == "tool"]
        warmth = f", temperature {options['temperature']:g}" if "temperature" in options else ""
        text = f"[{earlier} earlier{warmth}] {asked}" + "".join(f"\n{each}" for each in rows)
        text = " ".join(text.split(" ")[:most])
        thought = f"I remember {earlier} earlier messages, and repeat the last."
        return ModelReply(
            text=text, reasoning=thought, confidence=confidence, usage=usage, model=model
        )

    async def close(self) -> None:
        pass


def _share(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 <= value <= 1 else None


def _json(text: str) -> Any:
    try:
        return orjson.loads(text) if text else {}
    except orjson.JSONDecodeError:
        return {"text": text}


class ServedModel:
    """A model server with the OpenAI protocol."""

    def __init__(self, server: ModelServer) -> None:
        self._server = Endpoint(
            f"{server.base_url}#{server.name}", server.key, patience=server.seconds
        )

    async def ask(
        self,
        messages: Sequence[Message],
        tools: Sequence[str],
        options: Mapping[str, Any],
        think: Think,
    ) -> ModelReply:
        names = {_wire(tool): tool for tool in tools}
        offered = [{"name": name, "parameters": {"type": "object"}} for name in names]
        asked = question(messages, offered)
        for ours, theirs in (
            ("model", "model"),
            ("temperature", "temperature"),
            ("maxTokens", "max_tokens"),
        ):
            asked |= {theirs: options[ours]} if ours in options else {}
        lines: list[bytes] = []

        def read(line: bytes) -> None:
            lines.append(line)
            if piece := thought_in(line):
                think(piece)

        await self._server.ask(asked, read)
        answer = text_in(lines)
        spent = {
            theirs: answer.usage[ours]
            for ours, theirs in (("input_tokens", "inputTokens"), ("output_tokens", "outputTokens"))
            if ours in answer.usage
        }
        return ModelReply(
            text=answer.text,
            reasoning=answer.reasoning,
            calls=tuple(
                (id, names.get(name, name), given or {}) for id, name, given in answer.calls
            ),
            usage=spent if len(spent) == 2 else {},
            provider="openai-compatible",
            model=answer.model or self._server.name,
        )

    async def close(self) -> None:
        await self._server.close()


def _wire(tool: str) -> str:
    """A tool's name as the protocol allows it."""
    return "".join(char if char.isalnum() or char in "_-" else "_" for char in tool)[:64]


def model_of(settings: Settings) -> Model:
    return Stub() if settings.model is None else ServedModel(settings.model)
