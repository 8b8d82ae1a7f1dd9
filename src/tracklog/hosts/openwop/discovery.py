"""The documents at `/.well-known/openwop`: what the host can do, for each version of the protocol."""

from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any

import orjson

from tracklog import __version__
from tracklog.hosts.openwop.settings import ENGINE, LOG_VERSION, TEST_PREFIX, Key, Settings

PROTOCOL = "1.0"
LOG_VERSION_2 = 3
"""The version of the log that v2 reports: its names are those of v2."""
MOST_RUNS = MOST_LETTERS = 100
"""Runs, and deliveries that were given up, on one page of a list."""

LETTER_DAYS = 30
"""Days for which a delivery that was given up can be read."""


def versions_of(settings: Settings) -> tuple[str, ...]:
    """The versions of the protocol that are served."""
    return (PROTOCOL, "2.0") if settings.serves_v2 else (PROTOCOL,)


def _testing(keys: Iterable[Key]) -> dict[str, Any]:
    """The options that keys of tests have; nothing if there is no such key."""
    if not any(key.test for key in keys):
        return {}
    versions = {"min": ENGINE, "max": ENGINE}
    return {
        "testing": {
            "mockProviders": ["stream-text"],
            "testKeyPrefix": TEST_PREFIX,
            "forceEngineVersionRange": versions,
        }
    }


def _retries(settings: Settings) -> dict[str, Any]:
    return {"maxAttempts": settings.webhook_attempts, "backoff": "exponential"}


def discovery(settings: Settings, fixtures: list[str], keys: Iterable[Key] = ()) -> dict[str, Any]:
    """The document at /.well-known/openwop; both layouts of the agents' block have one source."""
    reasoning = {
        "verbosity": settings.verbosity,
        "tokenLimit": settings.token_limit,
        "streaming": settings.streaming,
    }
    supported = settings.agents_supported
    root: dict[str, Any] = {"supported": supported}
    block: dict[str, Any] = {
        "reasoningEvents": settings.reasoning_events,
        "toolEvents": settings.tool_events,
        "handoffEvents": settings.handoff_events,
        "decisionEvents": settings.decision_events,
        "memoryBackends": ["conversation"],
        "supported": supported,
    }
    if supported:
        root["modelClasses"] = ["reasoning", "chat", "classification"]
        root["orchestrator"] = root["dispatch"] = root["dispatchMapping"] = settings.orchestrates
    if settings.reasoning_events:
        root["reasoning"] = block["reasoning"] = reasoning
    versions = list(versions_of(settings))
    return {
        "protocolVersion": PROTOCOL,
        "protocolVersions": versions,
        "preferredVersion": PROTOCOL,
        "supportedEnvelopes": ["clarification.request"],
        "schemaVersions": {},
        "limits": {
            "clarificationRounds": settings.clarification_rounds,
            "schemaRounds": 2,
            "envelopesPerTurn": 5,
            "maxNodeExecutions": settings.max_node_executions,
            "maxRunDurationMs": settings.max_run_duration_ms,
            "maxRequestBodyBytes": settings.max_request_bytes,
        },
        "implementation": {"name": "tracklog", "version": __version__, "vendor": "tracklog"},
        "engineVersion": ENGINE,
        "eventLogSchemaVersion": LOG_VERSION,
        "minClientVersion": PROTOCOL,
        "supportedTransports": ["rest"],
        "fixtures": fixtures,
        "agents": root,
        "capabilities": {"agents": block},
        "subWorkflow": {"inputMapping": True},
        **_testing(keys),
        "conformance": {"mockAgent": settings.conformance},
        "runs": {"pauseResume": {"supported": True}},
        "webhooks": {
            "supported": True,
            "signatureAlgorithms": ["v1"],
            "retryPolicy": _retries(settings),
        },
        "replay": {"supported": True, "modes": ["replay", "branch"], "cached": True},
        "providerUsage": {"supported": True},
        "toolHooks": {
            "supported": settings.tool_events,
            "prePostEvents": settings.tool_events,
            "perToolAuthorization": settings.tool_events,
            "perToolRateLimit": settings.tool_events,
        },
    }


def etag(document: Mapping[str, Any]) -> str:
    return f'"{sha256(orjson.dumps(document, option=orjson.OPT_SORT_KEYS)).hexdigest()[:32]}"'


def is_unchanged(header: str | None, tag: str) -> bool:
    """Whether a client has the current state already: by the header `If-None-Match`."""
    tags = [each.strip().removeprefix("W/") for each in (header or "").split(",")]
    return tag in tags or tags == ["*"]


def discovery_2(
    settings: Settings,
    fixtures: list[str],
    keys: Iterable[Key] = (),
    *,
    are_revocable: bool = False,
) -> dict[str, Any]:
    """The document of v2: closed, with one record for each family that is offered.

    That of keys promises that a key can be revoked, which needs a settings file.
    """
    stable = {"status": "stable", "since": "2.0", "witness": "witnessable-gated"}
    document: dict[str, Any] = {
        "protocolVersions": list(versions_of(settings)),
        "preferredVersion": PROTOCOL,
        "protocolVersion": PROTOCOL,
        "engineVersion": ENGINE,
        "eventLogSchemaVersion": LOG_VERSION_2,
        "minClientVersion": PROTOCOL,
        "implementation": {"name": "tracklog", "version": __version__, "vendor": "tracklog"},
        "fixtures": fixtures,
        "conformance": {"mockAgent": settings.conformance},
        **_testing(keys),
        "limits": {
            **stable,
            "maxNodeExecutions": settings.max_node_executions,
            "maxRunDurationMs": settings.max_run_duration_ms,
            "maxRequestBodyBytes": settings.max_request_bytes,
        },
        "replay": {
            **stable,
            "modes": ["replay", "branch"],
            "effectSeamsManifest": "/host/effect-seams",
        },
        "interrupt": {**stable, "tokenAlgs": ["hs256"], "refKinds": ["principal"]},
        "idempotency": stable,
        "providerUsage": stable,
        "webhooks": {
            **stable,
            "signatureAlgorithms": ["v1"],
            "retryPolicy": _retries(settings),
            "deadLetter": {"retentionDays": LETTER_DAYS, "maxPageSize": MOST_LETTERS},
        },
        "runList": {**stable, "maxPageSize": MOST_RUNS, "filters": ["workflowId", "status"]},
        "eventLog": {**stable, "witness": "claims-check"},
    }
    if are_revocable:
        lane = {"lane": "api-key", "issuers": ["urn:tracklog:api-key"]}
        lane |= {"revocation": "next-request", "minimumAssurance": "bearer"}
        document["auth"] = {**stable, "witness": "seam-gated", "lanes": [lane]}
    if settings.agents_supported:
        document["agents"] = {
            "status": "experimental",
            "since": "2.0",
            "until": "2027-12-31",
            "witness": "witnessable-gated",
            "modelClasses": ["reasoning", "classification"],
            "orchestrator": settings.orchestrates,
            "dispatch": settings.orchestrates,
            "dispatchMapping": settings.orchestrates,
            "reasoning": {
                "verbosity": settings.verbosity,
                "tokenLimit": settings.token_limit,
                "streaming": settings.streaming,
            },
        }
    return document
