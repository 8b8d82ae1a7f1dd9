"""A model server with the OpenAI protocol: requests, streamed answers, tool calls.

`https://host/v1#model` names the server and the model. Answers are streamed: the caller gets each
piece when it arrives, as a line of the provider's own stream. So the text that has arrived is known
if the model fails or takes too long.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from tracklog import Normaliser, TracklogError

PROVIDER = "openai_compatible"
PATIENCE = 60.0
"""Seconds within which a server must send the next piece of its answer."""
RETRIES = 2
"""How often a request that failed before its answer began is sent again."""
SHOWN = 300

Feed = Callable[[bytes], None]
Asked = Mapping[str, Any]


class NoClient(TracklogError):
    """An agent needs a model server, and the client for it is not installed."""


class ModelFailed(TracklogError):
    """A model gave no answer that can be used."""

    stalled = False
    """Whether it timed out."""


class ModelText(NamedTuple):
    """The answer of a model."""

    text: str
    reasoning: str
    calls: tuple[tuple[str, str, Any], ...]
    """Tools that it wants called: its own id of the call, the tool, the arguments."""
    usage: Mapping[str, int]
    model: str


def is_endpoint(url: str) -> bool:
    """Whether a URL names a server and a model."""
    return url.startswith(("http://", "https://")) and bool(url.partition("#")[2])


def question(
    messages: Sequence[Mapping[str, Any]], tools: Iterable[Mapping[str, Any]] = (), **options: Any
) -> dict[str, Any]:
    """The body of a request; `tools` are functions as the protocol describes them."""
    offered = [{"type": "function", "function": dict(tool)} for tool in tools]
    asked = {"messages": [dict(message) for message in messages], **options}
    return {**asked, "tools": offered} if offered else asked


class Endpoint:
    """Asks one model of one server, through the protocol's maintained client."""

    def __init__(self, url: str, key: str | None = None, *, patience: float = PATIENCE) -> None:
        try:
            import openai  # noqa: PLC0415  # an extra
        except ImportError:
            raise NoClient(
                f"{url} needs the client for model servers",
                "install it: pip install 'tracklog[models]'",
            ) from None
        base, _, self.name = url.partition("#")
        self._patience = patience
        # A piece of a stream that is no JSON is a ValueError.
        self._failures: Any = (openai.OpenAIError, ValueError)
        self._options: dict[str, Any] = {"base_url": base, "api_key": key or "none"}
        self._options |= {"timeout": patience, "max_retries": RETRIES}
        self._openai = openai
        self._later: Any = None
        self._now: Any = None

    async def ask(self, asked: Asked, feed: Feed) -> None:
        """Ask, and pass every piece of the answer to `feed`; raises `ModelFailed`."""
        import asyncio  # noqa: PLC0415  # `ask_now` does not need it

        if self._later is None:
            self._later = self._openai.AsyncOpenAI(**self._options)
        create, streamed = self._later.chat.completions.create, False
        try:
            async with asyncio.timeout(self._patience * (RETRIES + 1)):
                async for chunk in await create(**self._streamed(asked)):
                    streamed = True
                    feed(_line(chunk))
                if not streamed:  # a server that does not stream
                    feed(_line(await create(**{"model": self.name, **asked})))
        except TimeoutError:
            raise self._stalled() from None
        except self._failures as error:
            raise self._failed(error) from None

    def ask_now(self, asked: Asked, feed: Feed) -> None:
        """The same without an event loop."""
        if self._now is None:
            self._now = self._openai.OpenAI(**self._options)
        create, streamed = self._now.chat.completions.create, False
        until = time.monotonic() + self._patience * (RETRIES + 1)
        try:
            with create(**self._streamed(asked)) as stream:
                for chunk in stream:
                    streamed = True
                    feed(_line(chunk))
                    if time.monotonic() > until:
                        raise self._stalled()
            if not streamed:
                feed(_line(create(**{"model": self.name, **asked})))
        except self._failures as error:
            raise self._failed(error) from None

    async def close(self) -> None:
        """Close its connections."""
        if self._later is not None:
            await self._later.close()
        self.close_now()

    def close_now(self) -> None:
        """The same, where `ask` was never called."""
        if self._now is not None:
            self._now.close()

    def _streamed(self, asked: Asked) -> dict[str, Any]:
        counted = {"stream": True, "stream_options": {"include_usage": True}}
        return {"model": self.name, **asked, **counted}

    def _stalled(self) -> ModelFailed:
        most = f"{self._patience * (RETRIES + 1):g} s"
        failure = ModelFailed(f"{self.name}: it took more than {most}", "is it overloaded?")
        failure.stalled = True
        return failure

    def _failed(self, error: Exception) -> ModelFailed:
        text = f"{self.name}: {type(error).__name__}: {error}"
        key = self._options["api_key"]
        text = text.replace(key, "…") if len(key) > 8 else text  # a server may quote it
        failure = ModelFailed(text[:SHOWN], "see that the model server runs and knows the model")
        failure.stalled = isinstance(error, self._openai.APITimeoutError)
        return failure


def _line(chunk: Any) -> bytes:
    text: str = chunk.model_dump_json(exclude_none=True)
    return text.encode() + b"\n"


def thought_in(line: bytes) -> str:
    """The reasoning in one piece of a streamed answer."""
    for choice in orjson.loads(line).get("choices", ()):
        delta = choice.get("delta") or {}
        for name in ("reasoning_content", "reasoning"):
            if isinstance(delta.get(name), str):
                return str(delta[name])
    return ""


def text_in(lines: Iterable[bytes]) -> ModelText:
    """The complete answer in the lines of a stream; raises `ModelFailed` if it is incomplete."""
    normaliser = Normaliser(PROVIDER)
    for line in lines:
        normaliser.feed(line)
    blocks, meta, report = normaliser.finish()
    if meta["status"] != "ok" or report.partial:
        raise ModelFailed(meta.get("error") or "the answer broke off", "ask it again")
    data: dict[str, list[str]] = {"text": [], "thinking": []}
    for block in blocks:
        if block["type"] in data:
            data[block["type"]].append(block.get(block["type"]) or "")
    calls = [
        (block["tool_id"], block["tool_name"], block["tool_input"])
        for block in blocks
        if block["type"] == "tool_use"
    ]
    return ModelText(
        "".join(data["text"]),
        "".join(data["thinking"]),
        tuple(calls),
        {key: value for key, value in meta.get("usage", {}).items() if isinstance(value, int)},
        meta.get("model", ""),
    )
