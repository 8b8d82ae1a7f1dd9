"""Version 2 of the protocol: another rendering of the same runs.

The journal has the names and payloads of RFC 0002. Here they get the names of version 2; what its
closed payloads have no place for is sent under a name that begins with `x-`.
"""

import hashlib
import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

import orjson

from tracklog import OPENWOP_TYPES, Body, Log
from tracklog.hosts.openwop.agents import narrow
from tracklog.hosts.openwop.discovery import LOG_VERSION_2
from tracklog.hosts.openwop.failures import Failure
from tracklog.hosts.openwop.handed_on import HandedOn
from tracklog.hosts.openwop.own_lines import OwnLines
from tracklog.hosts.openwop.questions import VOTE
from tracklog.hosts.openwop.runlog import RunLog
from tracklog.hosts.openwop.schemas import is_equal
from tracklog.hosts.openwop.settings import ENGINE, Key, Settings
from tracklog.hosts.openwop.wires import LINKS

NAMES = {
    "agent.toolCalled": "agent.tool-called",
    "agent.toolReturned": "agent.tool-returned",
    "agent.reasoning.delta": "agent.reasoning-delta",
    "runOrchestrator.decided": "orchestrator.decided",
}
IDS = ("runId", "sourceRunId", "parentRunId", "childRunId", "activeRunId")
ENVELOPE = ("eventId", "type", "payload", "timestamp", "sequence", "nodeId", "causationId")
CODES = {
    "run_not_found": "not_found",
    "workflow_not_found": "not_found",
    "interrupt_not_found": "not_found",
    "subscription_not_found": "not_found",
    "method_not_allowed": "not_found",
    "misdirected_request": "forbidden",
    "unsupported_force_engine_version": "validation_error",
    "unsupported_media_type": "validation_error",
    "unsupported_mock_provider": "validation_error",
    "correlation_mismatch": "validation_error",
    "request_too_large": "payload_too_large",
    "engine_version_mismatch": "version_conflict",
    "fork_out_of_range": "fork_point_invalid",
    "unavailable": "service_unavailable",
}
"""The codes of version 2 for those of version 1 that it does not have."""
REGISTERED = frozenset(
    """approval_rejected capability_not_provided forbidden internal_error loop_limit_exceeded
    rate_limited recursion_limit_exceeded replay_source_missing run_timeout validation_error
    version_conflict""".split()  # noqa: SIM905  # a list of words
)
"""The codes of failed runs and nodes that version 2 has."""
RUN = ("recursionLimit", "runTimeoutMs", "maxLoopIterations", "escalationThreshold")
AI = ("model", "temperature", "maxTokens", "reasoningVerbosity", "mockProvider")
SECTIONS = ("run", "ai", "distillation", "budget", "extensions")
VERBOSITIES = ("none", "summary", "full")
"""The values of `reasoningVerbosity`; `none` is what version 1 calls `off`."""
ORGANISATION = "tracklog"
"""The extension that has the options which workflows declare."""
DECISIONS = {"accept": "granted", "edit-accept": "granted", "reject": "rejected"}
CHANGES = ("refineFeedback", "editedArtifactData")
"""Members of an answer with the changes that a person wants, or has made."""
AGENT_ID = re.compile(r"[A-Za-z0-9._~:-]{1,128}")
SNAPSHOT = frozenset(
    """runId workflowId status owner currentNodeId startedAt completedAt agent runOrchestrator
    nodeStates variables channels error engineVersion eventLogSchemaVersion tags metadata
    configurable parentRunId parentNodeId interrupt""".split()  # noqa: SIM905  # a list of words
)
"""The members of a snapshot, which is closed; any other one is in an extension."""


def new_name(kind: str) -> str:
    """The name of a type of event in version 2."""
    return NAMES.get(kind, kind)


class Version2:
    """Version 2: closed shapes, ids with their tenant, names in kebab case."""

    version, prefix = "2.0", ""

    def __init__(
        self, settings: Settings, journal: Log | None = None, own: OwnLines | None = None
    ) -> None:
        self._settings = settings
        self._ids_in_values = HandedOn(journal, own)

    # Ids.

    def run_of(self, text: str, key: Key) -> str:
        """The bare id of a bound id; `~2F` stands for the slash in a path."""
        if re.search(r"~(?![0-9A-Fa-f]{2})", text):
            raise _invalid("path", "an id in a path has two hex digits after each ~")
        bound = re.sub(r"~([0-9A-Fa-f]{2})", lambda hit: chr(int(hit[1], 16)), text)
        tenant, slash, name = bound.rpartition("/")
        own = key.tenant or self._settings.tenant
        if slash and tenant != own:
            raise Failure("id_tenant_mismatch", f"this key acts for the tenant {own}")
        return name

    def _bound(self, name: str, tenant: str) -> str:
        return f"{tenant}/{name}"

    def _interrupt(self, run: str, name: str, tenant: str) -> str:
        digest = hashlib.sha256(f"{run}:{name.removeprefix('int:')}".encode()).hexdigest()[:32]
        return self._bound(digest, tenant)

    def _ids(self, data: dict[str, Any], tenant: str) -> dict[str, Any]:
        for key in IDS:
            if isinstance(data.get(key), str) and "/" not in data[key]:
                data[key] = self._bound(data[key], tenant)
        return data

    def _handed_on(self, data: Body, log: RunLog) -> Body:
        tenant = self._tenant(log)
        return self._ids_in_values.bind(data, log, lambda name: self._bound(name, tenant))

    # Answers.

    def reply(self, data: dict[str, Any], tenant: str) -> dict[str, Any]:
        run = data.get("runId")
        data = self._ids(dict(data), tenant)
        for key in ("webhookId", "subscriptionId"):
            if key in data:
                data[key] = self._bound(data[key], tenant)
        for key in LINKS:
            if key in data:
                data[key] = data[key].replace(f"/runs/{run}", f"/runs/{_segment(tenant, run)}")
        if "deliveries" in data:
            data["deliveries"] = [self._delivery(each, tenant) for each in data["deliveries"]]
        if "effects" in data:
            data["effects"] = [self._effect(each, str(run), tenant) for each in data["effects"]]
        return data

    def _delivery(self, letter: Mapping[str, Any], tenant: str) -> dict[str, Any]:
        names = ("deliveryId", "webhookId", "runId")
        return {**letter, **{key: self._bound(letter[key], tenant) for key in names}}

    def _effect(self, effect: Mapping[str, Any], run: str, tenant: str) -> dict[str, Any]:
        digest = hashlib.sha256(f"{run}:{effect['effectId']}".encode()).hexdigest()[:32]
        # Version 2 counts attempts from 1.
        attempt = effect["attempt"] + 1
        return {**effect, "effectId": self._bound(digest, tenant), "attempt": attempt}

    def failure(self, failure: Failure) -> Failure:
        code, details = CODES.get(failure.code, failure.code), dict(failure.details)
        if failure.code == "correlation_mismatch":  # to be told from a wrong answer
            details["code"] = failure.code
        return Failure(code, failure.message, details, failure.headers)

    def snapshot(self, data: dict[str, Any], log: RunLog) -> dict[str, Any]:
        tenant = self._tenant(log)
        data = self._handed_on(self._ids(dict(data), tenant), log)
        if "childRuns" in data:
            data["childRuns"] = [self._ids(dict(each), tenant) for each in data["childRuns"]]
        if "interrupt" in data:
            asked = dict(data["interrupt"])
            asked["interruptId"] = self._interrupt(log.name, asked["interruptId"], tenant)
            data["interrupt"] = asked
        for key in ("agent", "runOrchestrator"):
            if key in data:
                agent = narrow(data.pop(key))
                data |= {key: agent} if AGENT_ID.fullmatch(agent["agentId"]) else {}
        if "error" in data:
            data["error"] = _closed_error(data["error"])
        data["configurable"] = _nested(data.get("configurable", {}))
        data["owner"] = self._owner(log)
        data |= {"engineVersion": ENGINE, "eventLogSchemaVersion": LOG_VERSION_2}
        rest = {key: data.pop(key) for key in data.keys() - SNAPSHOT}
        return {**data, "extensions": {f"{ORGANISATION}.run": rest}} if rest else data

    def _tenant(self, log: RunLog) -> str:
        tenant: str = log.snapshot.host.get("tenant", self._settings.tenant)
        return tenant

    def _owner(self, log: RunLog) -> dict[str, Any]:
        tenant = self._tenant(log)
        host = log.snapshot.host  # the owner of a fork is that of its source
        owner: str = host.get("owner", host.get("principal", "default"))
        return {"tenant": tenant, "subject": self._subject(log, owner)}

    def _subject(self, log: RunLog, principal: str) -> dict[str, Any]:
        """A person or program; runs from before there were tenants have no issuer that is known."""
        is_old = "tenant" not in log.snapshot.host
        return {
            "issuer": "urn:openwop:legacy" if is_old else "urn:tracklog:api-key",
            "subjectId": re.sub(r"[\s/]", lambda hit: quote(hit[0], safe=""), principal),
            "tenant": self._tenant(log),
            "lane": "api-key",
            "kind": "user",
        }

    # Events.

    def kind(self, kind: str) -> str:
        return new_name(kind)

    def event(self, line: bytes, event: Body, log: RunLog) -> bytes:  # noqa: ARG002  # a wire's
        kind = event["type"]
        if kind not in OPENWOP_TYPES:
            raise Failure("event_type_unmapped", f"version 2 has no type of event {kind[:50]!r}")
        tenant = self._tenant(log)
        data = {key: event[key] for key in ENVELOPE if key in event}
        data["type"], data["runId"] = new_name(kind), self._bound(log.name, tenant)
        data |= {"schemaVersion": event.get("schemaVersion", 1), "engineVersion": ENGINE}
        payload = self._payload(kind, dict(event["payload"]), event, log)
        data["payload"] = self._handed_on(self._ids(payload, tenant), log)
        return orjson.dumps(data)

    def _payload(self, kind: str, payload: Body, event: Body, log: RunLog) -> Body:
        if "interruptId" in payload:
            name = str(payload["interruptId"])
            payload["interruptId"] = self._interrupt(log.name, name, self._tenant(log))
        for key in ("error", "lastError"):
            if isinstance(payload.get(key), dict):
                payload[key] = _error(payload[key])
        if "divergencePoint" in payload:
            payload["divergencePoint"] = new_name(payload["divergencePoint"])
        if kind == "run.started":
            payload |= {"engineVersion": ENGINE, "owner": self._owner(log)}
            host = log.snapshot.host
            payload |= {key: host[key] for key in ("tags", "metadata") if key in host}
        if kind in ("approval.received", "clarification.resolved"):
            payload = self._received(kind, payload, event, log)
        elif kind == "interrupt.resolved":
            payload = self._resolved(payload, log)
        elif kind in SPELLINGS:
            payload = SPELLINGS[kind](payload)
        known = KNOWN.get(kind)
        if known is None:
            return payload
        return {
            key if key in known or key.startswith("x-") else f"x-{key}": value
            for key, value in payload.items()
        }

    def _received(self, kind: str, payload: Body, event: Body, log: RunLog) -> Body:
        """A vote or an answer, in the one shape that version 2 has for both."""
        number = str(event.get("causationId", "")).rpartition("-")[2]
        asked = log.events[int(number)] if number.isdecimal() else None
        name = f"int:{asked['payload']['key']}" if asked else ""
        data: Body = {"nodeId": payload.pop("nodeId")}
        data["interruptId"] = self._interrupt(log.name, name, self._tenant(log))
        data["kind"] = asked["payload"]["kind"] if asked else "approval"
        by = payload.pop("decidedBy", None) or payload.pop("answeredBy", None)
        if kind == "approval.received":
            data["resumeValue"] = {key: payload[key] for key in VOTE if key in payload}
            action = payload.pop("action")
            data |= _decision(action)
            by = None if action == "timeout" else by  # no person resolved it
        else:
            data["resumeValue"] = {"answers": payload.pop("answers")}
        data |= {"resolvedBy": self._subject(log, by)} if by else {}
        return {**data, **payload}

    def _resolved(self, payload: Body, log: RunLog) -> Body:
        by = payload.pop("resolvedBy", None)
        value = payload.get("resumeValue")
        if payload.get("reason") == "timeout":
            return {**payload, **_decision("timeout")}
        payload |= {"resolvedBy": self._subject(log, by)} if by else {}
        if payload.get("kind") == "approval" and isinstance(value, str):  # a bare word
            value = {"action": value}
        if payload.get("kind") != "approval" or not isinstance(value, dict):
            return payload
        vote = {key: value[key] for key in VOTE if key in value}
        payload |= {"resumeValue": vote, **({"x-resumeValue": value} if vote != value else {})}
        payload |= {key: value[key] for key in CHANGES if key in value}
        return {**payload, **_decision(value["action"])}

    # Requests.

    def body(self, body: dict[str, Any]) -> dict[str, Any]:
        """Options are nested and closed; a section that is null is taken as absent."""
        options = body.get("configurable")
        if options is None:
            return body
        if not isinstance(options, dict):
            raise _invalid("configurable", "configurable must be an object")
        for name in options.keys() - {"version", *SECTIONS}:
            raise _invalid(f"configurable.{name}", f"there is no option {name[:50]!r}")
        if not is_equal(options.get("version"), 1):
            raise _invalid("configurable.version", "version is 1")
        flat: dict[str, Any] = {}
        for section in SECTIONS:
            values = options.get(section)
            if values is None:
                continue
            if not isinstance(values, dict):
                raise _invalid(f"configurable.{section}", f"{section} must be an object")
            flat |= _declared(values) if section == "extensions" else _known(section, values)
        verbosity = flat.get("reasoningVerbosity", "summary")
        if verbosity not in VERBOSITIES:
            text = f"reasoningVerbosity is one of {', '.join(VERBOSITIES)}"
            raise _invalid("configurable.ai.reasoningVerbosity", text)
        if verbosity == "none":
            flat["reasoningVerbosity"] = "off"
        return {**body, "configurable": flat}

    def place(self, option: str) -> str:
        for section, names in (("run", RUN), ("ai", AI)):
            if option in names:
                return f"configurable.{section}.{option}"
        return f"configurable.extensions.{ORGANISATION}.{option}"


def _known(section: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a section; one that is not carried out is refused."""
    names = {"run": RUN, "ai": AI}.get(section, ())
    for name in values:
        if name not in names:
            others = f"there are: {', '.join(names)}" if names else f"{section} is not offered"
            text = f"there is no option {name[:50]!r} here; {others}"
            raise _invalid(f"configurable.{section}.{name}", text)
    if not names:
        raise _invalid(f"configurable.{section}", f"{section} is not offered here")
    return dict(values)


def _declared(extensions: Mapping[str, Any]) -> dict[str, Any]:
    """The options that workflows declare; they are checked when the workflow is known."""
    for name in extensions.keys() - {ORGANISATION}:
        text = f"{name[:50]} is not known here; options of workflows are in {ORGANISATION}"
        raise _invalid(f"configurable.extensions.{name}", text)
    place, values = f"configurable.extensions.{ORGANISATION}", extensions.get(ORGANISATION, {})
    if not isinstance(values, dict):
        raise _invalid(place, f"{ORGANISATION} must be an object")
    for name in values.keys() & {*RUN, *AI}:
        raise _invalid(f"{place}.{name}", f"{name} is an option of the protocol: put it there")
    return values


def _invalid(field: str, message: str) -> Failure:
    return Failure("validation_error", message, {"field": field})


def _segment(tenant: str, run: Any) -> str:
    """A bound id as one segment of a path."""
    raw = f"{tenant}/{run}".encode()
    return "".join(
        chr(each) if (chr(each).isalnum() and each < 128) or chr(each) in "._-" else f"~{each:02X}"
        for each in raw
    )


def _nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Options in the sections of version 2; those that a workflow declares are an extension."""
    data: dict[str, Any] = {"version": 1}
    for section, names in (("run", RUN), ("ai", AI)):
        if values := {name: flat[name] for name in names if name in flat}:
            data[section] = values
    if data.get("ai", {}).get("reasoningVerbosity") == "off":
        data["ai"]["reasoningVerbosity"] = "none"
    if rest := {name: flat[name] for name in flat if name not in (*RUN, *AI)}:
        data["extensions"] = {ORGANISATION: rest}
    return data


def _decision(action: str) -> dict[str, Any]:
    data = {"action": action}
    if action == "timeout":
        return {**data, "decision": "rejected", "reason": "timeout"}
    return {**data, "decision": DECISIONS[action]} if action in DECISIONS else data


def _error(error: Mapping[str, Any]) -> dict[str, Any]:
    """An error without its second name; a code that version 2 does not have is in the details.

    `details.retryable` is in snapshots and events; events have it beside the details, too.
    """
    data = {key: value for key, value in error.items() if key != "error"}
    details = dict(data.get("details") or {})
    if "retryable" in details:
        data["retryable"] = details["retryable"]
    if data.get("code") not in REGISTERED:
        details["code"] = data.get("code")
        data["code"] = "internal_error"
    data.pop("details", None)
    return {**data, "details": details} if details else data


def _closed_error(error: Mapping[str, Any]) -> dict[str, Any]:
    """The error of a snapshot, which has a code, a message and details only."""
    return {key: value for key, value in _error(error).items() if key != "retryable"}


def _renamed(old: str, new: str) -> Callable[[Body], Body]:
    """A property under another name; a copy that is there under that name already is dropped."""

    def rename(payload: Body) -> Body:
        return {
            new if key == old else key: value
            for key, value in payload.items()
            if key != new or old not in payload
        }

    return rename


SPELLINGS: Mapping[str, Callable[[Body], Body]] = {
    "agent.toolCalled": _renamed("arguments", "inputs"),
    "agent.toolReturned": _renamed("result", "outcome"),
}
RESOLVED = (
    "nodeId interruptId kind action decision reason resolvedBy resumeValue"
    " refineFeedback editedArtifactData"
)
KNOWN: Mapping[str, frozenset[str]] = {
    kind: frozenset(names.split())
    for kind, names in {
        "agent.toolCalled": "agentId toolName callId inputs argsHash principal transport",
        "agent.toolReturned": "agentId toolName callId outcome error status durationMs",
        "agent.handoff": "fromAgentId toAgentId reason",
        "agent.decided": "agentId decision confidence",
        "node.started": "nodeId typeId attempt",
        "node.completed": "nodeId outputs durationMs",
        "node.suspended": "nodeId interruptId kind reason key",
        "run.started": "workflowId inputs transport engineVersion owner tags metadata",
        "approval.received": RESOLVED,
        "clarification.resolved": RESOLVED,
        "interrupt.resolved": RESOLVED,
    }.items()
}
"""The properties of closed payloads; any other is sent with `x-` before its name."""
