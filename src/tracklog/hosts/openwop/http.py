"""The HTTP handlers of the host: authenticate, check the request, carry it out."""

import asyncio
import hmac
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any
from urllib.parse import parse_qsl

import orjson
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from tracklog import NotAppended, TracklogError, UnknownName
from tracklog.hosts import NotBegun, Program, Wanted
from tracklog.hosts.openwop.definitions import Refused
from tracklog.hosts.openwop.engine import (
    AlreadyResolved,
    Engine,
    Newer,
    Unknown,
)
from tracklog.hosts.openwop.exceptions import BadAnswer
from tracklog.hosts.openwop.forks import forked, started
from tracklog.hosts.openwop.requests import Request
from tracklog.hosts.openwop.routes import ROUTES, openapi
from tracklog.hosts.openwop.runlog import RunLog
from tracklog.hosts.openwop.seams import toolhooks
from tracklog.hosts.openwop.settings import VERBOSITIES, Key, digest, discovery, etag
from tracklog.hosts.openwop.streams import MODES, Stream
from tracklog.web import bodies, logs
from tracklog.web.guard import Guard
from tracklog.web.limits import Limits
from tracklog.web.routing import Router
from tracklog.web.trouble import ClientGone, Trouble

STATUS = {
    "validation_error": 400,
    "unsupported_stream_mode": 400,
    "unauthenticated": 401,
    "forbidden": 403,
    "not_found": 404,
    "run_not_found": 404,
    "workflow_not_found": 404,
    "interrupt_not_found": 404,
    "method_not_allowed": 405,
    "idempotency_key_mismatch": 409,
    "interrupt_already_resolved": 409,
    "request_too_large": 413,
    "unsupported_media_type": 415,
    "misdirected_request": 421,
    "capability_required": 422,
    "engine_version_mismatch": 422,
    "fork_out_of_range": 422,
    "rate_limited": 429,
    "internal_error": 500,
    "fork_mode_unsupported": 501,
    "unavailable": 503,
}
CODES = {status: code for code, status in reversed(STATUS.items())}
NOT_CACHED = (400, 401, 403)
OTLP = ("/v1/traces", "/v1/logs", "/v1/metrics")
LONGEST_POLL = 60.0
LONGEST_KEY = 256
_LATER = {"Retry-After": "5"}


class Failure(Exception):
    """A request that ends here: the closed error envelope, and nothing beside it."""

    def __init__(
        self,
        code: str,
        message: str,
        details: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.code, self.message, self.details = code, message, details
        self.headers = dict(headers or {})


@dataclass(slots=True)
class Call:
    """One request."""

    scope: Scope
    receive: Receive
    send: Send
    headers: dict[bytes, bytes]
    key: Key
    names: dict[str, str] = field(default_factory=dict)
    query: dict[str, str] = field(default_factory=dict)
    body: Any = None
    request: Request | None = None


class App:
    """The host as an ASGI application, alone or inside a collector."""

    def __init__(
        self, engine: Engine, guard: Guard | None = None, keys: tuple[Key, ...] = ()
    ) -> None:
        self.engine, self.guard = engine, guard or Guard()
        self.keys = keys
        self.held = bodies.Held(Limits(body=engine.settings.max_request_bytes))
        self.discovery = discovery(engine.settings, engine.workflows.fixtures)
        self.etag = etag(self.discovery)
        self._router = Router(ROUTES)

    def programs(self) -> list[Program]:
        """The workflows that can be run, those of the operator first."""
        known = self.engine.workflows.known.values()
        return [
            Program(
                name=each.id,
                about=str(each.source.get("description") or each.source["name"]),
                inputs={v["name"]: v.get("defaultValue") for v in each.source["variables"]},
            )
            for each in sorted(known, key=lambda each: each.id.startswith("conformance-"))
        ]

    async def begin(self, wanted: Wanted) -> str:
        """Begin a run for an operator, outside the protocol."""
        if wanted.body is not None:
            raise NotBegun(
                "a workflow that is sent here is not run", "give --workflows to the host"
            )
        definition = self.engine.workflows.known.get(wanted.program or "")
        if definition is None:
            names = ", ".join(sorted(self.engine.workflows.known)) or "none; name a folder of them"
            raise UnknownName(f"there is no workflow {wanted.program!r}", f"there is: {names}")
        host: dict[str, Any] = {"principal": "default"}
        if wanted.tape is not None:
            source = self.engine.journal.find(wanted.tape.run)
            host["tape"] = {"run": source[1], "by": wanted.tape.by, "miss": wanted.tape.miss}
        try:
            log = await self.engine.create(definition, wanted.inputs, {}, host)
        except Refused as refused:
            raise NotBegun(refused.message, "give it what it needs") from None
        return log.name

    def claims(self, path: str) -> bool:
        """Whether a path belongs to the protocol; the OTLP paths beside it belong to the collector."""
        return path == "/.well-known/openwop" or (path.startswith("/v1/") and path not in OTLP)

    async def start(self) -> None:
        await self.engine.start()

    async def stop(self) -> None:
        await self.engine.stop()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])
        try:
            response = await self._answered(scope, receive, send, headers)
        except Failure as failure:
            response = self._failed(failure)
        except Trouble as trouble:
            code = CODES.get(trouble.status, "validation_error")
            response = self._failed(Failure(code, trouble.message, None, trouble.headers))
        except NotAppended as error:
            logs.log("error", error.message, hint=error.hint)
            later = Failure("unavailable", "nothing can be recorded now", None, _LATER)
            response = self._failed(later)
        except ClientGone:
            return
        except Exception as error:  # noqa: BLE001  # the client is told, the log says where
            what = error.message if isinstance(error, TracklogError) else "a request failed"
            logs.log_failure(what, error, method=scope["method"])
            response = self._failed(Failure("internal_error", "something went wrong here"))
        if response is not None:
            response.headers.setdefault("Cache-Control", "no-store")
            response.headers.setdefault("X-Content-Type-Options", "nosniff")
            await response(scope, receive, send)

    def _failed(self, failure: Failure) -> Response:
        data: dict[str, Any] = {"error": failure.code, "message": failure.message}
        if failure.details:
            data["details"] = dict(failure.details)
        return _json(self.engine.redactor.clean(data), STATUS[failure.code], failure.headers)

    async def _answered(
        self, scope: Scope, receive: Receive, send: Send, headers: dict[bytes, bytes]
    ) -> Response | None:
        self.guard.check_host(headers)
        path, method = scope["raw_path"], scope["method"]
        if path == b"/.well-known/openwop" and method in ("GET", "HEAD"):
            data = {"Cache-Control": "public, max-age=300", "Capabilities-Etag": self.etag}
            return _json(self.discovery, 200, data)
        if path == b"/v1/openapi.json" and method in ("GET", "HEAD"):
            return _json(openapi())
        key = self._key(headers)
        route, names = self._router.find(method, path)
        query = dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True))
        call = Call(scope, receive, send, headers, key, names, query)
        endpoint = getattr(self, route.name)
        return await (self._posted(call, endpoint) if method == "POST" else endpoint(call))

    def _key(self, headers: Mapping[bytes, bytes]) -> Key:
        """The key of the caller; a token that was sent is never repeated in an answer."""
        if not self.keys:
            return Key(digest=b"")
        scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
        shown = digest(given.strip().decode("latin-1"))
        found = [key for key in self.keys if hmac.compare_digest(key.digest, shown)]
        if scheme.lower() != b"bearer" or not found:
            data = {"WWW-Authenticate": "Bearer"}
            raise Failure("unauthenticated", "a valid bearer key is needed", None, data)
        return found[0]

    # What changes something: a body, and perhaps a key under which it may come again.

    async def _posted(
        self, call: Call, endpoint: Callable[[Call], Awaitable[Response | None]]
    ) -> Response | None:
        self.guard.check_origin(call.headers)
        if not call.key.may("write"):
            raise Failure("forbidden", "this key may only read")
        if "run" in call.names:
            self._run(call)  # before what was given is looked at
        raw = await bodies.read(call.receive, call.headers, self.held)
        self.held.now -= len(raw)
        try:
            call.body = orjson.loads(raw) if raw.strip() else {}
        except orjson.JSONDecodeError as error:
            raise Failure("validation_error", f"the body is no JSON: {error}") from None
        if not isinstance(call.body, dict):
            raise Failure("validation_error", "the body is a JSON object")
        given = call.headers.get(b"idempotency-key", b"").decode("latin-1").strip()
        if not given:
            return await endpoint(call)
        if len(given) > LONGEST_KEY:
            raise Failure("validation_error", f"Idempotency-Key is at most {LONGEST_KEY} long")
        return await self._once(call, endpoint, given)

    async def _once(
        self, call: Call, endpoint: Callable[[Call], Awaitable[Response | None]], given: str
    ) -> Response | None:
        """Process a request once; a retry with the same key and body gets the same answer."""
        path = call.scope["raw_path"].decode("latin-1")
        key = _sha([call.key.principal, call.scope["method"], path, given])
        body = _sha(call.body)
        requests = self.engine.requests
        async with requests.alone(key):
            self.engine.pass_on(await asyncio.to_thread(self.engine.reader.catch_up))
            known = requests.find(key)
            if known is not None:
                if known["body"] != body:
                    raise Failure("idempotency_key_mismatch", "this key came with another body")
                again = {"openwop-Idempotent-Replay": "true"}
                return _json(known["reply"], known["status"], again)
            call.request = Request(self.engine, key, body)
            try:
                response = await endpoint(call)
            except Failure as failure:
                response = self._failed(failure)
            assert response is not None
            if response.status_code not in NOT_CACHED and response.status_code < 500:
                done = response.status_code < 300
                if done and call.request.noted is not None:
                    response = _json(call.request.noted, response.status_code)
                reply = orjson.loads(bytes(response.body))
                requests.keep(key, body, response.status_code, reply)
                run = call.names.get("run")
                if done and call.request.noted is None and run is not None:
                    log = self.engine.known(run)
                    await self.engine.write(
                        log, [], (call.request.note(response.status_code, reply),)
                    )
            return response

    # The routes, by the names that `surface` has for them.

    async def workflow(self, call: Call) -> Response:
        found = self.engine.workflows.known.get(call.names["id"])
        if found is None:
            raise Failure("workflow_not_found", "there is no such workflow")
        return _json(found.source)

    async def create(self, call: Call) -> Response:
        body, engine = call.body, self.engine
        name = body.get("workflowId")
        if not isinstance(name, str) or not name:
            raise Failure("validation_error", "workflowId is missing, or no text")
        for key, kind in (
            ("inputs", dict),
            ("configurable", dict),
            ("metadata", dict),
            ("tags", list),
        ):
            if key in body and not isinstance(body[key], kind):
                word = "an object" if kind is dict else "a list"
                raise Failure("validation_error", f"{key} must be {word}")
        if name in engine.workflows.refused:
            refused = engine.workflows.refused[name]
            raise Failure(refused.code, refused.message, refused.details)
        definition = engine.workflows.known.get(name)
        if definition is None:
            raise Failure("workflow_not_found", "there is no such workflow")
        configurable = body.get("configurable", {})
        _check_options(configurable)
        host: dict[str, Any] = {"principal": call.key.principal}
        tags = body.get("tags")
        if tags is not None:
            if len(tags) > 100 or not all(isinstance(t, str) and 1 <= len(t) <= 256 for t in tags):
                raise Failure(
                    "validation_error", "tags are at most 100 texts of 1 to 256 characters"
                )
            host["tags"] = tags
        host |= {"metadata": body["metadata"]} if "metadata" in body else {}
        try:
            log = await engine.create(
                definition, body.get("inputs", {}), configurable, host, request=call.request
            )
        except Refused as refused:
            raise Failure(refused.code, refused.message, refused.details) from None
        return _json(started(log.name, log.events[0]), 201)

    def _run(self, call: Call) -> RunLog:
        try:
            return self.engine.known(call.names["run"])
        except Unknown:
            raise Failure("run_not_found", "there is no such run") from None

    async def snapshot(self, call: Call) -> Response:
        return _json(self._run(call).as_json())

    async def events(self, call: Call) -> Response | None:
        log = self._run(call)
        modes, types = _modes(call.query)
        buffer = _number(call.query, "bufferMs", 0, 0, 5000)
        accept = call.headers.get(b"accept", b"*/*").lower()
        if b"text/event-stream" not in accept and b"application/json" in accept:
            return Response(
                b'{"events":[%b]}' % b",".join(log.lines), 200, None, "application/json"
            )
        after = -1
        if b"last-event-id" in call.headers:
            try:
                after = int(call.headers[b"last-event-id"])
            except ValueError:
                raise Failure("validation_error", "Last-Event-ID is a sequence number") from None
        told = Stream(call.send, log, modes, types, buffer / 1000)
        await told.run(call.receive, after, lambda: self.engine.stopping)
        return None

    async def poll(self, call: Call) -> Response:
        log = self._run(call)
        last = _number(call.query, "lastSequence", -1, None, None)
        timeout = min(LONGEST_POLL, _number(call.query, "timeout", 0, 0, None))
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout
        while last + 1 >= len(log.lines) and not log.ended and not self.engine.stopping:
            left = until - loop.time()
            if left <= 0:
                break
            await log.wait(left)
        lines = log.lines[max(0, last + 1) :]
        done = b"true" if log.ended else b"false"
        raw = b'{"events":[%b],"isComplete":%b}' % (b",".join(lines), done)
        return Response(raw, 200, None, "application/json")

    async def cancel(self, call: Call) -> Response:
        reason = call.body.get("reason")
        if reason is not None and not isinstance(reason, str):
            raise Failure("validation_error", "reason must be a text")
        log = await self.engine.cancel(call.names["run"], reason, call.key.principal)
        status = log.snapshot.status if log.ended else "cancelling"
        return _json({"runId": log.name, "status": status})

    async def resolve(self, call: Call) -> Response:
        name, node, value = call.names["run"], call.names["node"], call.body.get("resumeValue")
        try:
            log = await self.engine.resolve(name, node, value, call.key.principal, call.request)
        except Unknown:
            raise Failure("interrupt_not_found", "nothing is asked there") from None
        except AlreadyResolved:
            raise Failure("interrupt_already_resolved", "somebody else was quicker") from None
        except BadAnswer as error:
            raise Failure("validation_error", str(error)) from None
        except Newer:
            raise Failure("engine_version_mismatch", "a newer engine wrote this run") from None
        return _json({"runId": name, "status": log.snapshot.status})

    async def fork(self, call: Call) -> Response:
        source, body = self._run(call), call.body
        mode, start = body.get("mode"), body.get("fromSeq")
        overlay = body.get("runOptionsOverlay", {})
        if not isinstance(mode, str):
            raise Failure("validation_error", "mode is replay or branch")
        if mode not in ("replay", "branch"):
            raise Failure("validation_error", f"there is no mode {mode[:50]!r}")
        start = 0 if start is None and mode == "replay" else start
        if isinstance(start, bool) or not isinstance(start, int) or start < 0:
            raise Failure("validation_error", "fromSeq is a whole number, 0 or more")
        if not isinstance(overlay, dict) or not isinstance(overlay.get("configurable", {}), dict):
            raise Failure("validation_error", "runOptionsOverlay is an object of run options")
        if mode == "replay" and overlay:
            raise Failure("validation_error", "a replay has the options of its source")
        options = overlay.get("configurable", {})
        _check_options(options)
        if start > len(source.events):
            details = {"events": len(source.events)}
            raise Failure("fork_out_of_range", "the source has not so many events", details)
        try:
            log, start = await self.engine.fork(
                source, mode, start, options, call.key.principal, call.request
            )
        except Newer:
            raise Failure("engine_version_mismatch", "this run cannot be executed here") from None
        return _json(forked(log.name, source.name, start, mode, log.snapshot.status), 201)

    async def toolhooks(self, call: Call) -> Response:
        if not self.engine.settings.seams:
            raise Failure("not_found", "there is nothing here")
        said = toolhooks(self.engine, call.body)
        if isinstance(said, str):
            raise Failure("validation_error", said)
        return _json(self.engine.redactor.clean(said))


def _json(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(orjson.dumps(value), status, headers, "application/json")


def _sha(value: Any) -> str:
    return sha256(orjson.dumps(value, option=orjson.OPT_SORT_KEYS)).hexdigest()


def _number(
    query: Mapping[str, str], name: str, default: int, least: int | None, most: int | None
) -> int:
    text = query.get(name)
    if text is None:
        return default
    if not re.fullmatch(r"-?[0-9]{1,15}", text):
        raise Failure("validation_error", f"{name} is a whole number")
    value = int(text)
    if (least is not None and value < least) or (most is not None and value > most):
        limits = f"{least} to {most}" if most is not None else f"{least} or more"
        raise Failure("validation_error", f"{name} is from {limits}")
    return value


def _modes(query: Mapping[str, str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    said = query.get("streamMode", "updates")
    modes = tuple(part.strip() for part in said.split(","))
    if not set(modes) <= set(MODES) or ("values" in modes and len(set(modes)) > 1):
        message = f"streamMode {said[:100]!r} is not supported"
        raise Failure("unsupported_stream_mode", message, {"supported": list(MODES)})
    types = tuple(part.strip() for part in query.get("types", "").split(",") if part.strip())
    return (tuple(dict.fromkeys(modes)), types)


def _check_options(options: Mapping[str, Any]) -> None:
    threshold = options.get("escalationThreshold")
    if threshold is not None and not (
        isinstance(threshold, int | float)
        and not isinstance(threshold, bool)
        and 0 <= threshold <= 1
    ):
        raise Failure("validation_error", "escalationThreshold is a number from 0 to 1")
    if "reasoningVerbosity" in options and options["reasoningVerbosity"] not in VERBOSITIES:
        raise Failure("validation_error", f"reasoningVerbosity is one of {', '.join(VERBOSITIES)}")
    limit = options.get("recursionLimit")
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
        raise Failure("validation_error", "recursionLimit is a whole number, 1 or more")
