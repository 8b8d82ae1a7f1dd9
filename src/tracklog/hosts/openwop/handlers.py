"""The handlers of the routes: each serves all versions of the protocol."""

import asyncio
import re
from collections.abc import Mapping
from functools import partial
from hashlib import sha256
from typing import Any

import orjson
from starlette.responses import Response

from tracklog import Body
from tracklog.hosts._notes import OPERATIONS, put
from tracklog.hosts.openwop.calls import WHOLE_BODY, HostCall, number, text_member, without_null
from tracklog.hosts.openwop.control import AlreadyResolved, Conflict
from tracklog.hosts.openwop.definitions import DefinitionRefused
from tracklog.hosts.openwop.discovery import etag, is_unchanged
from tracklog.hosts.openwop.engine import Engine
from tracklog.hosts.openwop.event_query import modes_of, modes_of_list
from tracklog.hosts.openwop.exceptions import (
    AlreadyVoted,
    BadAnswer,
    Mismatch,
    Newer,
    NotAllowed,
    Unknown,
)
from tracklog.hosts.openwop.failures import Failure, unauthenticated
from tracklog.hosts.openwop.forks import forked, open_question, started
from tracklog.hosts.openwop.kinds import KINDS
from tracklog.hosts.openwop.mock_provider import OPTION, check_provider
from tracklog.hosts.openwop.options import (
    BODY,
    NOT_DONE,
    OVERLAY,
    RunOptions,
    read_options,
    refuse_unknown,
)
from tracklog.hosts.openwop.routes import openapi
from tracklog.hosts.openwop.run_diff import diff_of
from tracklog.hosts.openwop.runlog import RunLog
from tracklog.hosts.openwop.seams import SEAM, toolhooks
from tracklog.hosts.openwop.settings import ENGINE
from tracklog.hosts.openwop.streams import Stream, wanted
from tracklog.hosts.openwop.views import Views
from tracklog.hosts.openwop.webhooks import HOOK, HOOK_OF_V2

LONGEST_POLL, USUAL_POLL = 60.0, 30
"""Seconds that a poll waits for the next event: at most, and in version 2 where none are given."""
MOST_CANCELLED = 100
TOKEN = ("interruptToken", "callbackUrl")
POLICIES = ("drain-current-node", "immediate")
FORK = ("mode", "fromSeq", "runOptionsOverlay")
RESUME_VALUE = {"field": "resumeValue"}


class Handlers:
    """The handlers, by the names that `routes` has for them."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.views = Views(engine)

    async def openapi(self, call: HostCall) -> Response:
        return Response(orjson.dumps(openapi(call.wire)), 200, None, "application/json")

    async def workflow(self, call: HostCall) -> Response:
        found = self.engine.workflows.known.get(call.names["id"])
        if found is None or not found.is_for(call.tenant):
            raise Failure("workflow_not_found", "there is no such workflow")
        return Response(orjson.dumps(found.source), 200, None, "application/json")

    # Runs begin.

    async def create(self, call: HostCall) -> Response:
        engine, body = self.engine, without_null(call.wire.body(call.body), BODY | NOT_DONE)
        call.accept(body, *BODY)
        definition = engine.workflows.find(body.get("workflowId"), call.tenant)
        inputs = body.get("inputs", {})
        if not isinstance(inputs, dict):
            raise DefinitionRefused("validation_error", "inputs must be an object", field="inputs")
        options = read_options(body, call.key, call.tenant, definition, call.wire.place)
        host = {**call.caller, **options.labels}
        begin = partial(
            engine.starter.create,
            definition,
            inputs,
            options.configurable,
            host,
            request=call.request,
        )
        dedup = call.header("x-dedup", "openwop-dedup")
        if dedup is None:
            log = await begin()
        else:
            async with engine.requests.alone(self._place_of(call, dedup, host)):
                await self._check_active(call, host)
                log = await begin()
        return call.json(started(log.name, log.events[0]), 201)

    @staticmethod
    def check_engine(call: HostCall) -> None:
        """Refuse another version of the engine than there is, and a choice by those who have none."""
        wanted = call.header("x-force-engine-version", "openwop-force-engine-version")
        if wanted is None:
            return
        if not call.key.test:
            text = "only a test key may choose the version of the engine"
            raise Failure("force_engine_version_forbidden", text)
        if wanted != str(ENGINE):
            text = f"there is only version {ENGINE} of the engine"
            details = {"field": _header(call, "Force-Engine-Version")}
            raise Failure("unsupported_force_engine_version", text, details)

    @staticmethod
    def _place_of(call: HostCall, dedup: str, host: Mapping[str, Any]) -> str:
        """The key of a scope, in which only one run may be active."""
        name = _header(call, "Dedup")
        if dedup != "enforce":
            raise Failure("validation_error", f"{name} is enforce", {"field": name})
        if "scopeId" not in host:
            text = f"{name} needs a scopeId: only one run of a scope may be active"
            raise Failure("validation_error", text, {"field": "scopeId"})
        return sha256(orjson.dumps(["dedup", host["tenant"], host["scopeId"]])).hexdigest()

    async def _check_active(self, call: HostCall, host: Mapping[str, Any]) -> None:
        engine = self.engine
        engine.pass_on(await asyncio.to_thread(engine.reader.catch_up))
        for name in sorted(engine.reader.open):
            other = engine.log(name).snapshot
            if other.ended:
                continue
            scope = engine.redactor.clean(host["scopeId"])
            if (other.host.get("tenant"), other.host.get("scopeId")) == (host["tenant"], scope):
                details = call.wire.reply({"activeRunId": name}, call.tenant)
                details |= {"tenantId": call.tenant, "scopeId": host["scopeId"]}
                text = "a run of this scope is active"
                raise Failure("run_already_active", text, details, {"Retry-After": "5"})

    async def fork(self, call: HostCall) -> Response:
        source, body = self.run(call), without_null(call.body, FORK)
        mode, start = body.get("mode"), body.get("fromSeq")
        overlay = body.get("runOptionsOverlay", {})
        if not isinstance(mode, str) or mode not in ("replay", "branch"):
            raise Failure("validation_error", "mode is replay or branch", {"field": "mode"})
        start = 0 if start is None and mode == "replay" else start
        if isinstance(start, bool) or not isinstance(start, int) or start < 0:
            text = "fromSeq is a whole number, 0 or more"
            raise Failure("validation_error", text, {"field": "fromSeq"})
        if not isinstance(overlay, dict):
            text = "runOptionsOverlay is an object of run options"
            raise Failure("validation_error", text, {"field": "runOptionsOverlay"})
        if mode == "replay" and overlay:
            text = "a replay has the options of its source"
            raise Failure("validation_error", text, {"field": "runOptionsOverlay"})
        call.accept(body, *FORK)
        overlay = without_null(_overlay(call, overlay), OVERLAY | BODY | NOT_DONE)
        outer = "runOptionsOverlay."
        refuse_unknown(overlay, OVERLAY, outer)
        definition = self.engine.workflows.known.get(source.snapshot.workflow)
        if mode == "replay":  # with the options that were checked when its source began
            options = RunOptions()
        else:
            about = (call.key, call.tenant, definition, call.wire.place, outer)
            options = read_options(overlay, *about, source.snapshot.configurable)
        if mode == "branch" and OPTION in source.snapshot.configurable:
            provider = source.snapshot.configurable[OPTION]
            check_provider(provider, call.key, call.wire.place(OPTION))
        if start >= len(source.events):
            details = {"field": "fromSeq", "events": len(source.events)}
            raise Failure(
                "fork_out_of_range", f"the source has only {len(source.events)} events", details
            )
        asked = open_question(source.events, start) if mode == "branch" else None
        if asked is not None and not self._only_asks(source, asked):
            text = f"an agent of {asked['nodeId']} waits for an answer there: begin before it asks"
            raise Failure("fork_out_of_range", text, {"field": "fromSeq"})
        try:
            log, start = await self.engine.starter.fork(
                source, mode, start, options, call.caller, call.request
            )
        except Newer:
            raise Failure("engine_version_mismatch", "this run cannot be executed here") from None
        return call.json(forked(log.name, source.name, start, mode, log.snapshot.status), 201)

    def _only_asks(self, source: RunLog, asked: Body) -> bool:
        definition = self.engine.workflows.known.get(source.snapshot.workflow)
        node = definition.nodes.get(asked["nodeId"]) if definition else None
        return node is not None and KINDS[node.type].only_asks

    # Runs are looked at.

    def run(self, call: HostCall, text: str | None = None) -> RunLog:
        """The run of a request; one of another tenant is not found."""
        name = call.wire.run_of(call.names["run"] if text is None else text, call.key)
        try:
            log = self.engine.known(name)
        except Unknown:
            raise Failure("run_not_found", "there is no such run") from None
        if self.views.tenant(log) != call.tenant:
            raise Failure("run_not_found", "there is no such run")
        return log

    async def snapshot(self, call: HostCall) -> Response:
        log = self.run(call)
        data = call.wire.snapshot(self.views.snapshot(log, call), log)
        # Each answer has a new token, which is no change of the run.
        asked = {key: each for key, each in data.get("interrupt", {}).items() if key not in TOKEN}
        tag = {"ETag": etag({**data, "interrupt": asked})}
        if is_unchanged(call.header("if-none-match"), tag["ETag"]):
            return Response(b"", 304, tag)
        return Response(orjson.dumps(data), 200, tag, "application/json")

    async def list_runs(self, call: HostCall) -> Response:
        return await self.views.list_runs(call)

    async def diff(self, call: HostCall) -> Response:
        against = call.query.get("against")
        if not against:
            text = "against names the run to compare with"
            raise Failure("validation_error", text, {"field": "against"})
        logs = self.run(call), self.run(call, against)
        names = [call.wire.reply({"runId": log.name}, call.tenant)["runId"] for log in logs]
        return call.json({"a": names[0], "b": names[1], **diff_of(*logs, call.wire)})

    async def artifact(self, call: HostCall) -> Response:
        return call.json(self.views.artifact(self.run(call), call.names["artifact"]))

    async def verify_audit(self, call: HostCall) -> Response:  # noqa: ARG002  # a handler's
        raise Failure("not_found", "openwop-audit-log-integrity is not offered here")

    async def effects(self, call: HostCall) -> Response:
        return call.json(self.views.effects(self.run(call)))

    async def effect_seams(self, call: HostCall) -> Response:
        return call.json(self.views.effect_seams())

    async def events(self, call: HostCall) -> Response | None:
        log, wire = self.run(call), call.wire
        modes, types = modes_of(call)
        buffer = number(call.query, "bufferMs", 0, 0, 5000)
        accept = call.headers.get(b"accept", b"*/*").lower()
        if b"text/event-stream" not in accept and b"application/json" in accept:
            modes = modes_of_list(call, modes)
            rows = [
                wire.event(line, event, log)
                for line, event in zip(log.lines, log.events, strict=True)
                if wanted(event["type"], modes, types, wire.kind(event["type"]))
            ]
            raw = b'{"events":[%b]}' % b",".join(rows)
            return Response(raw, 200, None, "application/json")
        after = -1
        if (last := call.header("last-event-id")) is not None:
            if not re.fullmatch(r"[0-9]{1,15}", last):
                text = "Last-Event-ID is a sequence number"
                raise Failure("validation_error", text, {"field": "Last-Event-ID"})
            after = int(last)
        if call.scope["method"] == "HEAD":
            return Response(b"", 200, None, "text/event-stream")
        stream = Stream(call.send, log, wire, modes, types, buffer / 1000, self.views.state)
        is_allowed = partial(self.engine.keys.accepts, call.key)
        await stream.run(call.receive, after, lambda: self.engine.stopping, is_allowed)
        return None

    async def poll(self, call: HostCall) -> Response:
        log = self.run(call)
        if call.is_v2 and call.query.get("streamMode", "debug") != "debug":
            text = "a poll has all events, which is the streamMode debug"
            details = {"field": "streamMode", "supported": ["debug"]}
            raise Failure("unsupported_stream_mode", text, details)
        if call.is_v2:
            last = number(call.query, "afterSequence", -1, 0, None)
            timeout = float(number(call.query, "timeout", USUAL_POLL, 1, int(LONGEST_POLL)))
        else:
            last = number(call.query, "lastSequence", -1, None, None)
            timeout = min(LONGEST_POLL, number(call.query, "timeout", 0, 0, None))
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout
        while last + 1 >= len(log.lines) and not log.ended and not self.engine.stopping:
            left = until - loop.time()
            if left <= 0 or not self.engine.keys.accepts(call.key):
                break
            await log.wait(min(left, 1))
        if not self.engine.keys.accepts(call.key):
            raise unauthenticated()  # it was revoked while the poll waited
        begin = max(0, last + 1)
        pairs = list(zip(log.lines[begin:], log.events[begin:], strict=True))
        rows = b",".join(call.wire.event(line, event, log) for line, event in pairs)
        done = b"true" if log.ended else b"false"
        if call.is_v2:
            rest = {
                "lastSequence": len(log.events) - 1,
                "status": self.engine.control.status(log),
                "isTerminal": log.ended,
            }
            head = orjson.dumps(call.wire.reply({"runId": log.name, **rest}, call.tenant))
            raw = b'%b,"events":[%b]}' % (head[:-1], rows)
        else:
            raw = b'{"events":[%b],"isComplete":%b}' % (rows, done)
        return Response(raw, 200, None, "application/json")

    # Runs are ended, paused and answered.

    async def cancel(self, call: HostCall) -> Response:
        reason = text_member(call.body, "reason")
        call.accept(call.body, "reason")
        log = self.run(call)
        if call.is_v2 and log.ended:
            details = {"runStatus": log.snapshot.status}
            raise Failure("run_terminal", f"the run is {log.snapshot.status}", details)
        log = await self.engine.control.cancel(log.name, reason, call.key.principal)
        status = log.snapshot.status if log.ended else "cancelling"
        return call.json({"runId": log.name, "status": status})

    async def bulk_cancel(self, call: HostCall) -> Response:
        names, reason = call.body.get("runIds"), text_member(call.body, "reason")
        call.accept(call.body, "runIds", "reason")
        if (
            not isinstance(names, list)
            or not names
            or not all(isinstance(each, str) for each in names)
        ):
            raise Failure("validation_error", "runIds is a list of ids", {"field": "runIds"})
        if len(names) > MOST_CANCELLED:
            details = {"field": "runIds", "maxRunIds": MOST_CANCELLED}
            raise Failure("validation_error", f"at most {MOST_CANCELLED} runs at once", details)
        asked: set[str] = set()
        rows = await asyncio.gather(*(self._cancelled(call, each, reason, asked) for each in names))
        return call.json({"results": rows})

    async def _cancelled(
        self, call: HostCall, name: str, reason: str | None, asked: set[str]
    ) -> dict[str, Any]:
        """The result for one run of a bulk cancel; `asked` are those that it cancels already.

        A run is called as everywhere in its version; an id that names none comes back as it was sent.
        """
        try:
            log = self.run(call, name)
        except Failure as failure:
            code = "not_found" if failure.code == "run_not_found" else failure.code
            return _not_ended(name, code, failure.message)
        status = log.snapshot.status
        name = call.wire.reply({"runId": log.name}, call.tenant)["runId"]
        if log.ended and status != "cancelled":
            return _not_ended(name, "run_terminal", f"the run is {status}")
        if log.ended or log.cancel is not None or log.name in asked:
            return {"runId": name, "ok": True, "status": "cancelled"}
        asked.add(log.name)
        await self.engine.control.cancel(log.name, reason, call.key.principal)
        status = log.snapshot.status
        if log.ended and status != "cancelled":  # it was faster
            return _not_ended(name, "run_terminal", f"the run is {status}")
        return {"runId": name, "ok": True, "status": "cancelling"}

    async def pause(self, call: HostCall) -> Response:
        policy = call.body.get("drainPolicy", POLICIES[0])
        reason = text_member(call.body, "reason")
        call.accept(call.body, "reason", "drainPolicy")
        if policy not in POLICIES:
            text = f"drainPolicy is one of {', '.join(POLICIES)}"
            raise Failure("validation_error", text, {"field": "drainPolicy"})
        log = self.run(call)
        try:
            at = await self.engine.control.pause(log.name, policy, reason, call.key.principal)
        except Conflict as conflict:
            raise _conflict(conflict) from None
        data = {"runId": log.name, "status": "paused"}  # as the protocol has it for a request, too
        return call.json({**data, "pausedAt": at} if at else data, 202)

    async def resume(self, call: HostCall) -> Response:
        reason = text_member(call.body, "reason")
        call.accept(call.body, "reason")
        log = self.run(call)
        try:
            at = await self.engine.control.resume(log.name, reason, call.key.principal)
        except Conflict as conflict:
            raise _conflict(conflict) from None
        return call.json({"runId": log.name, "status": "running", "resumedAt": at}, 202)

    async def resolve(self, call: HostCall) -> Response:
        log = self.run(call)
        return await self._resolve(call, log.name, call.names["node"], call.key.principal)

    async def _resolve(self, call: HostCall, name: str, node: str, by: str) -> Response:
        call.accept(call.body, "resumeValue")
        value = call.body.get("resumeValue")
        try:
            log = await self.engine.control.resolve(name, node, value, by, call.request)
        except Unknown:
            raise Failure("interrupt_not_found", "this node asks no question") from None
        except AlreadyResolved:
            text = "it was answered before, or its run has ended"
            raise Failure("interrupt_already_resolved", text) from None
        except NotAllowed as error:
            raise Failure("forbidden", str(error)) from None
        except AlreadyVoted as error:
            details = {
                "runStatus": self.engine.control.status(self.engine.known(name)),
                "vote": error.vote,
            }
            raise Failure("run_state_conflict", str(error), details) from None
        except Mismatch as error:
            raise Failure("correlation_mismatch", str(error), RESUME_VALUE) from None
        except BadAnswer as error:
            raise Failure("validation_error", str(error), {"field": error.field}) from None
        except Newer:
            raise Failure("engine_version_mismatch", "a newer engine wrote this run") from None
        return call.json({"runId": name, "nodeId": node, "status": log.snapshot.status})

    # Questions by token, and webhooks.

    async def inspect_by_token(self, call: HostCall) -> Response:
        _, question = self.views.question_of(call)
        return call.json(question)

    async def resolve_by_token(self, call: HostCall) -> Response:
        token, _ = self.views.question_of(call)
        if token.intent != "resolve":
            raise Failure("forbidden", "this token only shows the question")
        return await self._resolve(call, token.run, token.node, token.principal)

    async def register_webhook(self, call: HostCall) -> Response:
        names = HOOK_OF_V2 if call.is_v2 else HOOK
        body = without_null(call.body, names)
        call.accept(body, *names)
        data, is_known = await self.engine.webhooks.register(
            body, call.tenant, call.wire.version, call.request
        )
        if not is_known:
            await self._record_hook(call, "webhook-registered", data["webhookId"])
        return call.json(data, 201, {"OpenWOP-Idempotent-Replay": "true"} if is_known else None)

    async def unregister_webhook(self, call: HostCall) -> Response:
        name = call.wire.run_of(call.names["webhook"], call.key)
        call.accept(call.body)
        if call.query.get("tenantId", call.tenant) != call.tenant:
            text = f"this key acts for the tenant {call.tenant}"
            raise Failure("forbidden", text, {"field": "tenantId"})
        if not self.engine.webhooks.remove(name, call.tenant):
            raise Failure("subscription_not_found", "there is no such subscription")
        await self._record_hook(call, "webhook-removed", name)
        return Response(b"", 204)

    async def _record_hook(self, call: HostCall, label: str, hook: str) -> None:
        """Record who has events sent elsewhere, or ends that; a URL may hold a secret."""
        data = {"webhook": hook, "tenant": call.tenant, "by": call.key.principal}
        await asyncio.to_thread(put, self.engine.journal, OPERATIONS, label, data)

    async def dead_letters(self, call: HostCall) -> Response:
        return call.json(self.views.dead_letters(call))

    async def toolhooks(self, call: HostCall) -> Response:
        if not self.engine.settings.seams:
            raise Failure("not_found", "there is no such route")
        call.accept(call.body, *SEAM)
        result = toolhooks(self.engine, call.body)
        if isinstance(result, str):
            raise Failure("validation_error", result, WHOLE_BODY)
        return call.json(self.engine.redactor.clean(result))


def _header(call: HostCall, name: str) -> str:
    """The name of a header of the protocol, as the caller's version spells it."""
    return f"{'OpenWOP' if call.is_v2 else 'X'}-{name}"


def _overlay(call: HostCall, overlay: dict[str, Any]) -> dict[str, Any]:
    """The options of a branch in the form of version 1; a fault is named with its place."""
    try:
        return call.wire.body(overlay)
    except Failure as failure:
        field = f"runOptionsOverlay.{failure.details['field']}"
        raise Failure(failure.code, failure.message, {"field": field}) from None


def _not_ended(name: str, code: str, message: str) -> dict[str, Any]:
    error = {"error": code, "code": code, "message": message}
    return {"runId": name, "ok": False, "error": error}


def _conflict(conflict: Conflict) -> Failure:
    details = {"runStatus": conflict.status}
    details |= {"pausedAt": conflict.paused_at} if conflict.paused_at else {}
    code = "run_terminal" if conflict.ended else "run_state_conflict"
    return Failure(code, str(conflict), details)
