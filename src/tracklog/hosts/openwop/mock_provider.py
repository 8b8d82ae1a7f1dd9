"""`stream-text`: a provider for tests, which answers every prompt with the tokens of its options."""

from collections.abc import Mapping
from typing import Any

from tracklog.hosts.openwop.definitions import DefinitionRefused
from tracklog.hosts.openwop.models import ModelReply
from tracklog.hosts.openwop.redaction import Redactor
from tracklog.hosts.openwop.settings import Key
from tracklog.hosts.openwop.step import NodeStep

OPTION = "mockProvider"
NAME = "stream-text"
MODEL = "mock-stream-text-v1"
TOKENS = ["mock", " response"]
LONGEST_DELAY = 5000
"""Milliseconds before a token."""
REASONS = ("stop", "length", "tool_calls", "content_filter")
USAGE = ("promptTokens", "completionTokens", "totalTokens")


def _is_count(value: Any, most: int = 2**53) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _is_usage(value: Any) -> bool:
    return isinstance(value, dict) and all(
        key in USAGE and _is_count(count) for key, count in value.items()
    )


CONFIG = {
    "tokens": (_is_texts, "a list of texts"),
    "delayMsPerToken": (
        lambda value: _is_count(value, LONGEST_DELAY),
        f"a whole number from 0 to {LONGEST_DELAY}",
    ),
    "finishReason": (REASONS.__contains__, f"one of {', '.join(REASONS)}"),
    "usage": (_is_usage, f"an object with counts: {', '.join(USAGE)}"),
    "model": (lambda value: isinstance(value, str) and bool(value), "the name of a model"),
}
"""The options of the provider, each with its check and what it must be."""


def check_provider(given: Any, key: Key, field: str) -> None:
    """Refuse a provider that is unknown, whose options are wrong, or that the caller may not use.

    `field` is its place in the request.
    """
    name = given.get("id") if isinstance(given, dict) else None
    offered = {"requestedProvider": name, "supportedProviders": [NAME]}
    if not key.test:
        text = f"{OPTION} is only for test keys"
        raise DefinitionRefused("mock_provider_forbidden", text, field=field, **offered)
    if not isinstance(given, dict) or not isinstance(name, str) or given.keys() - {"id", "config"}:
        raise DefinitionRefused(
            "validation_error", f"{OPTION} has an id, and may have a config", field=field
        )
    if name != NAME:
        text = f"the only {OPTION} here is {NAME}"
        raise DefinitionRefused("unsupported_mock_provider", text, field=field, **offered)
    config = given.get("config", {})
    if not isinstance(config, dict):
        raise DefinitionRefused(
            "validation_error", "config must be an object", field=f"{field}.config"
        )
    for option, value in config.items():
        is_good, what = CONFIG.get(option, (None, ""))
        if is_good is None or not is_good(value):
            text = f"{option} is {what}" if is_good else f"there is no option {option[:50]!r}"
            raise DefinitionRefused("validation_error", text, field=f"{field}.config.{option}")


def masked_tokens(options: Mapping[str, Any], redactor: Redactor) -> dict[str, Any]:
    """The options of a run, without the secrets that the tokens of its provider add up to."""
    given = options.get(OPTION)
    config = given.get("config", {}) if isinstance(given, dict) else {}
    if "tokens" not in config:
        return dict(options)
    config = {**config, "tokens": redactor.pieces(config["tokens"])}
    return {**options, OPTION: {**options[OPTION], "config": config}}


async def stream_text(step: NodeStep, config: Mapping[str, Any]) -> ModelReply:
    """Write each token as an `output.chunk`; the last one says how the reply ended."""
    tokens: list[str] = config.get("tokens", TOKENS) or [""]
    count = {"promptTokens": 1, "completionTokens": len(tokens), "totalTokens": len(tokens) + 1}
    ends = {
        "finishReason": config.get("finishReason", REASONS[0]),
        "usage": config.get("usage", count),
    }
    before = step.started
    for number, token in enumerate(step.x.redactor.pieces(tokens), 1):
        await step.x.sleep_until(before, config.get("delayMsPerToken", 0) / 1000)
        is_last = number == len(tokens)
        meta = {"model": config.get("model", MODEL), **(ends if is_last else {})}
        data = {"nodeId": step.node.id, "chunk": token}
        event = step.emit("output.chunk", {**data, "isLast": is_last, "meta": meta})
        assert event is not None
        before = event
        await step.x.flush()
    return ModelReply(text="".join(tokens))
