"""What answers a prompt: a deterministic stub, or a model behind an OpenAI-compatible endpoint."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import orjson

from tracklog.errors import TracklogError
from tracklog.hosts.openwop.settings import ModelServer, Settings

Message = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a model said in one turn."""

    text: str = ""
    reasoning: str = ""
    calls: tuple[tuple[str, str, Any], ...] = ()
    """Tools that it wants called: its own id of the call, the tool, the arguments."""
    confidence: float | None = None
    usage: Mapping[str, int] = field(default_factory=dict)
    provider: str = "stub"
    model: str = "stub"


class ModelFailed(Exception):
    """A model did not answer; the message says why, in words that hold no key."""


class Model(Protocol):
    """One thing that can be asked."""

    async def ask(
        self, messages: Sequence[Message], tools: Sequence[str], options: Mapping[str, Any]
    ) -> Reply: ...

    async def close(self) -> None:
        """Lets go of its connections."""


class Stub:
    """Answers without a network, and always the same.

    It says how many messages it remembers and repeats the last; a line `call TOOL JSON` makes it
    call a tool once, and `confidence N` makes it unsure.
    """

    async def ask(
        self,
        messages: Sequence[Message],
        tools: Sequence[str],  # noqa: ARG002  # the signature of a model
        options: Mapping[str, Any],  # noqa: ARG002
    ) -> Reply:
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
        size = sum(len(str(m["content"]).split()) for m in messages)
        usage = {"inputTokens": size, "outputTokens": len(asked.split())}
        if calls:
            thought = f"I was asked to call {', '.join(tool for _, tool, _ in calls)}."
            return Reply(reasoning=thought, calls=tuple(calls), usage=usage)
        said = [m["content"] for m in messages if m["role"] == "tool"]
        text = f"[{earlier} earlier] {asked}" + "".join(f"\n{each}" for each in said)
        thought = f"I remember {earlier} earlier messages, and repeat the last."
        return Reply(text=text, reasoning=thought, confidence=confidence, usage=usage)

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


class OpenAI:
    """Any server that speaks the protocol, through its maintained client."""

    def __init__(self, server: ModelServer) -> None:
        try:
            import openai  # noqa: PLC0415  # an optional extra
        except ImportError:
            raise TracklogError(
                "a model server is named, and the client for it is not installed",
                "pip install 'tracklog[models]', or leave `model` out for the offline stub",
            ) from None
        self._server, self._failures = server, openai.OpenAIError
        self._client = openai.AsyncOpenAI(
            base_url=server.base_url, api_key=server.key or "none", timeout=server.seconds
        )

    async def ask(
        self, messages: Sequence[Message], tools: Sequence[str], options: Mapping[str, Any]
    ) -> Reply:
        names = {_wire(tool): tool for tool in tools}
        offered = [
            {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}
            for name in names
        ]
        asked: dict[str, Any] = {"model": options.get("model", self._server.name)}
        asked["messages"] = list(messages)
        asked |= {"tools": offered} if offered else {}
        for ours, theirs in (("temperature", "temperature"), ("maxTokens", "max_tokens")):
            asked |= {theirs: options[ours]} if ours in options else {}
        try:
            answer = await self._client.chat.completions.create(**asked)
        except self._failures as error:
            raise ModelFailed(f"{type(error).__name__}: {str(error)[:300]}") from None
        if not answer.choices:
            raise ModelFailed("the model's answer holds no choice")
        said = answer.choices[0].message
        calls = [
            (
                call.id,
                names.get(call.function.name, call.function.name),
                _json(call.function.arguments),
            )
            for call in said.tool_calls or ()
            if call.type == "function"
        ]
        usage = answer.usage
        spent = {} if usage is None else {"inputTokens": usage.prompt_tokens}
        spent |= {} if usage is None else {"outputTokens": usage.completion_tokens}
        reasoning = getattr(said, "reasoning_content", None) or ""
        return Reply(
            text=said.content or "",
            reasoning=reasoning,
            calls=tuple(calls),
            usage=spent,
            provider="openai-compatible",
            model=answer.model or self._server.name,
        )

    async def close(self) -> None:
        await self._client.close()


def _wire(tool: str) -> str:
    """A tool's name as the protocol allows it."""
    return "".join(char if char.isalnum() or char in "_-" else "_" for char in tool)[:64]


def model_of(settings: Settings) -> Model:
    return Stub() if settings.model is None else OpenAI(settings.model)
