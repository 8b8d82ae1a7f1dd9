"""The host as a web application: versions, keys and scopes, retries, and errors."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from hashlib import sha256
from typing import Any

import orjson
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from tracklog import NotAppended, TracklogError, UnknownName
from tracklog.hosts import NotBegun, Program, Wanted
from tracklog.hosts.openwop.calls import WHOLE_BODY, HostCall, query_in
from tracklog.hosts.openwop.definitions import DefinitionRefused
from tracklog.hosts.openwop.discovery import (
    PROTOCOL,
    discovery,
    discovery_2,
    etag,
    is_unchanged,
    versions_of,
)
from tracklog.hosts.openwop.engine import Engine
from tracklog.hosts.openwop.failures import CODES, STATUS, Failure, unauthenticated
from tracklog.hosts.openwop.handlers import Handlers
from tracklog.hosts.openwop.requests import Request
from tracklog.hosts.openwop.routes import SEGMENTS, HostRoute, query_of, routes_of
from tracklog.hosts.openwop.schemas import DEEPEST, is_deep
from tracklog.hosts.openwop.settings import Key
from tracklog.hosts.openwop.wires import Wire
from tracklog.web import bodies, logs
from tracklog.web.guard import Guard
from tracklog.web.limits import Limits
from tracklog.web.routing import Router
from tracklog.web.trouble import ClientGone, Trouble

NOT_CACHED = frozenset({"validation_error", "idempotency_key_invalid", "idempotency_key_mismatch"})
"""Codes of refusals that are not stored for a retry; 401, 403 and 5xx are not stored either."""
OTLP = ("/v1/traces", "/v1/logs", "/v1/metrics")
DISCOVERY = "/.well-known/openwop"
HEADERS = {
    "X-Dedup": ("create",),
    "OpenWOP-Dedup": ("create",),
    "Last-Event-ID": ("events",),
}
"""Headers that only some routes carry out."""
SINGLE = (
    ("X-Dedup", "OpenWOP-Dedup"),
    ("X-Force-Engine-Version", "OpenWOP-Force-Engine-Version"),
    ("Last-Event-ID",),
    ("OpenWOP-Version",),
    ("Idempotency-Key",),
    ("Authorization",),
)
"""Headers, in all their spellings, that a request has once: of two, only one could hold."""
LONGEST_KEY = 256
KEY_OF_V2 = re.compile(r"[A-Za-z0-9._~-]{22,128}")
_LATER = {"Retry-After": "5"}
LONGEST_INTEGER = 20
"""The digits of the longest number of 64 bits."""
Endpoint = Callable[[HostCall], Awaitable[Response | None]]


class App:
    """The host as an ASGI application, alone or inside a collector."""

    def __init__(self, engine: Engine, guard: Guard | None = None) -> None:
        self.engine, self.guard = engine, guard or Guard()
        self.made_key: str | None = None
        """The key that was made at the start, where the operator had set none."""
        self.handlers = Handlers(engine)
        self.held = bodies.Held(Limits(body=engine.settings.max_request_bytes))
        self._documents: dict[str, dict[str, Any]] = {}
        self._describe()
        engine.keys.on_change.append(self._describe)
        self._wires = {each: engine.wires[each] for each in versions_of(engine.settings)}
        self._routers: dict[str, Router[HostRoute]] = {
            version: Router(routes_of(wire)) for version, wire in self._wires.items()
        }

    def _describe(self) -> None:
        engine = self.engine
        about = (engine.settings, engine.workflows.fixtures, engine.keys.all())
        newer = discovery_2(*about, are_revocable=engine.keys.are_revocable)
        self._documents = {"1.0": discovery(*about), "2.0": newer}

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
        workflows = self.engine.workflows
        if wanted.program not in workflows.known and wanted.program not in workflows.refused:
            names = ", ".join(sorted(workflows.known)) or "none; name a folder of them"
            raise UnknownName(f"there is no workflow {wanted.program!r}", f"there is: {names}")
        host: dict[str, Any] = {"principal": "default", "tenant": self.engine.settings.tenant}
        host["operator"] = True
        if wanted.seed is not None:
            raise NotBegun("an OpenWOP workflow has no seed", "leave the seed out")
        if wanted.tape is not None:
            source = self.engine.journal.find(wanted.tape.run)
            host["tape"] = {"run": source[1], "by": wanted.tape.by, "miss": wanted.tape.miss}
        try:
            tenant, is_taped = self.engine.settings.tenant, wanted.tape is not None
            definition = workflows.find(wanted.program, tenant, is_taped=is_taped)
            log = await self.engine.starter.create(
                definition, wanted.inputs, {}, host, announce=wanted.announce
            )
        except DefinitionRefused as refused:
            raise NotBegun(refused.message, "give it what it needs") from None
        return log.name

    def claims(self, path: str) -> bool:
        """Whether a path belongs to the protocol; the OTLP paths beside it belong to the collector."""
        if path.startswith("/v1/"):
            return path not in OTLP
        return path == DISCOVERY or path.split("/")[1].partition(":")[0] in SEGMENTS

    async def start(self) -> None:
        await self.engine.start()

    async def stop(self) -> None:
        await self.engine.stop()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])
        wire = self._wire_of(scope["path"])
        try:
            response = await self._answered(scope, receive, send, headers, wire)
        except (Failure, DefinitionRefused) as failure:
            response = self._failed(failure, wire)
        except Trouble as trouble:
            code = CODES.get(trouble.status, "validation_error")
            response = self._failed(Failure(code, trouble.message, None, trouble.headers), wire)
        except NotAppended as error:
            logs.log("error", error.message, hint=error.hint)
            later = Failure("unavailable", "nothing can be recorded now", None, _LATER)
            response = self._failed(later, wire)
        except ClientGone:
            return
        except Exception as error:  # noqa: BLE001  # the client gets an answer, the log says where
            what = error.message if isinstance(error, TracklogError) else "a request failed"
            logs.log_failure(what, error, method=scope["method"])
            response = self._failed(
                Failure("internal_error", "the host failed; its log says why"), wire
            )
        if response is not None:
            response.headers.setdefault("Cache-Control", "no-store")
            response.headers.setdefault("X-Content-Type-Options", "nosniff")
            response.headers.setdefault("OpenWOP-Version", wire.version)
            await response(scope, receive, send)

    def _failed(self, error: Failure | DefinitionRefused, wire: Wire) -> Response:
        if isinstance(error, DefinitionRefused):
            error = Failure(error.code, error.message, error.details)
        failure = wire.failure(error)
        raw = orjson.dumps(self.engine.redactor.clean(failure.envelope))
        return Response(raw, STATUS[failure.code], failure.headers, "application/json")

    # Which version of the protocol is spoken.

    def _wire_of(self, path: str) -> Wire:
        is_new = not path.startswith("/v1/") and path != DISCOVERY
        return self._wires["2.0" if is_new and "2.0" in self._wires else PROTOCOL]

    def _major(self, headers: Mapping[bytes, bytes], *, default: str) -> str:
        """The major version that a request asks for; one that is not served is refused."""
        text = headers.get(b"openwop-version", default.encode()).decode("latin-1").strip()
        if not re.fullmatch(r"[0-9]{1,3}(\.[0-9]{1,3})?", text):
            text = "OpenWOP-Version is <major>.<minor>"
            raise Failure("validation_error", text, {"field": "OpenWOP-Version"})
        major = text.partition(".")[0]
        served = {version[0] for version in self._wires}
        if major not in served:
            details = {"protocolVersions": list(self._wires)}
            raise Failure(
                "protocol_version_unsupported", "this version is not served here", details
            )
        return major

    def _check_client(self, headers: Mapping[bytes, bytes]) -> None:
        text = headers.get(b"openwop-client-version", b"").decode("latin-1").strip()
        known = re.fullmatch(r"(0|[1-9][0-9]*)(\.(0|[1-9][0-9]*)){1,2}", text[:50])
        if known and int(known[1]) < int(PROTOCOL[0]):
            raise Failure("client_version_unsupported", f"clients are {PROTOCOL} or newer")

    def _discovered(self, headers: Mapping[bytes, bytes]) -> Response:
        version = f"{self._major(headers, default=PROTOCOL)}.0"
        self.engine.keys.all()  # there may be other ones than before
        document = self._documents[version]
        tag = etag(document)
        data = {"Cache-Control": "public, max-age=300", "ETag": tag, "OpenWOP-Version": version}
        data["Vary"] = "OpenWOP-Version"
        if version == PROTOCOL:
            data["Capabilities-Etag"] = tag
        if is_unchanged(headers.get(b"if-none-match", b"").decode("latin-1"), tag):
            return Response(b"", 304, data)
        return Response(orjson.dumps(document), 200, data, "application/json")

    async def _answered(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        headers: dict[bytes, bytes],
        wire: Wire,
    ) -> Response | None:
        self.guard.check_host(headers)
        _check_single(scope)
        path, method = scope["raw_path"], scope["method"]
        self._check_client(headers)
        if path == DISCOVERY.encode() and method in ("GET", "HEAD"):
            query_in(scope, query_of("discovery", wire))
            return self._discovered(headers)
        if not path.startswith(b"/v1/") and wire.version == PROTOCOL and path != DISCOVERY.encode():
            text = "the paths of this host begin with /v1/"
            raise Failure("validation_error", text, {"field": "path"})
        if self._major(headers, default=wire.version) != wire.version[0]:
            text = f"this path is of version {wire.version}"
            raise Failure("protocol_version_mismatch", text)
        key = self._key(headers, required=not self._is_free(method, path, wire))
        route, names = self._routers[wire.version].find(method, path)
        for each in route.scopes:
            if not key.may(each):
                raise Failure(
                    "forbidden", f"this key does not have the scope {each}", {"scopeRequired": each}
                )
        tenant = key.tenant or self.engine.settings.tenant
        call = HostCall(scope, receive, send, headers, wire, key, tenant, names)
        if "run" in names:
            self.handlers.run(call)  # before what was given is looked at
        call.accept_query(query_of(route.name, wire))
        _check_headers(call, route.name)
        endpoint: Endpoint = getattr(self.handlers, route.name)
        if method in ("GET", "HEAD"):
            return await endpoint(call)
        return await self._posted(call, endpoint)

    def _is_free(self, method: str, path: bytes, wire: Wire) -> bool:
        """Whether a path is answered without a key."""
        try:
            return not self._routers[wire.version].find(method, path)[0].scopes
        except Trouble:
            return False

    def _key(self, headers: Mapping[bytes, bytes], *, required: bool) -> Key:
        """The key of the caller; a token that was sent is never repeated in an answer."""
        keys = self.engine.keys
        if keys.is_open:
            return Key(digest=b"", scopes=frozenset({"*"}), operator=True)
        scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
        text = given.strip().decode("latin-1")
        if scheme.lower() == b"bearer" and text and (key := keys.find(text)) is not None:
            return key
        if not required:
            return Key(digest=b"")
        raise unauthenticated()

    # What changes something: a body, and perhaps a key under which it may come again.

    async def _posted(self, call: HostCall, endpoint: Endpoint) -> Response | None:
        self.guard.check_origin(call.headers)
        raw = await bodies.read(call.receive, call.headers, self.held)
        self.held.now -= len(raw)
        if not self.engine.keys.accepts(call.key):
            raise unauthenticated()  # it was revoked while the body was sent
        call.body = _body(raw)
        given = call.header("idempotency-key")
        if given is None:
            return await endpoint(call)
        if call.is_v2 and not KEY_OF_V2.fullmatch(given):
            text = "Idempotency-Key has 22 to 128 letters, digits, or . _ ~ -"
            raise Failure("idempotency_key_invalid", text, {"field": "Idempotency-Key"})
        if not 1 <= len(given) <= LONGEST_KEY:
            text = f"Idempotency-Key has 1 to {LONGEST_KEY} characters"
            raise Failure("validation_error", text, {"field": "Idempotency-Key"})
        return await self._once(call, endpoint, given)

    def _place_of(self, call: HostCall, given: str) -> str:
        """The key under which an answer is stored: by principal and tenant, route and run.

        A run has several spellings in a path. That of the official clients stands for all of them.
        """
        path = call.scope["raw_path"].decode("latin-1")
        if "run" in call.names:
            name = self.handlers.run(call).name
            spelt = call.wire.reply({"runId": name, "statusUrl": f"/runs/{name}"}, call.tenant)
            path = spelt["statusUrl"] + path[len(_with_run(path, call.wire.prefix)) :]
        own = self.engine.settings.tenant
        tenant = [] if call.tenant == own else [call.tenant]
        return _sha([call.key.principal, call.scope["method"], path, given, *tenant])

    async def _once(self, call: HostCall, endpoint: Endpoint, given: str) -> Response | None:
        """Process a request once; a retry with the same key and body gets the same answer."""
        key = self._place_of(call, given)
        body = _sha(call.body)
        requests = self.engine.requests
        async with requests.alone(key):
            self.engine.pass_on(await asyncio.to_thread(self.engine.reader.catch_up))
            known = requests.find(key)
            if known is not None:
                if known["body"] != body:
                    raise Failure(
                        "idempotency_key_mismatch", "this Idempotency-Key came with another body"
                    )
                again = {"OpenWOP-Idempotent-Replay": "true"}
                if known["reply"] is None:
                    return Response(b"", known["status"], again)
                return _json(known["reply"], known["status"], again)
            call.request = Request(
                self.engine, key, body, lambda reply: call.wire.reply(reply, call.tenant)
            )
            code: str | None = None
            try:
                response = await endpoint(call)
            except (Failure, DefinitionRefused) as failure:
                response, code = self._failed(failure, call.wire), failure.code
            assert response is not None
            status = response.status_code
            if code is None and endpoint == self.handlers.register_webhook:
                return response  # it recognises a retry itself; its secret is not stored
            if status in (401, 403) or status >= 500 or code in NOT_CACHED:
                return response
            if "retry-after" in response.headers:  # a later retry may succeed
                return response
            if status < 300 and call.request.noted is not None:
                response = _json(call.request.noted, status)
            raw = bytes(response.body)
            reply: Any = orjson.loads(raw) if raw else None
            requests.keep(key, body, status, reply)
            if call.request.noted is None and status < 300 and "run" in call.names:
                log = self.handlers.run(call)
                note = call.request.note_of(log.name, status, reply)
                await self.engine.write(log, [], (note,))
            elif call.request.noted is None:
                await asyncio.to_thread(requests.store, key)
            return response


def _check_single(scope: Scope) -> None:
    """Refuse a header that comes twice, or in the spellings of both versions."""
    given = [name.decode("latin-1") for name, _ in scope["headers"]]
    for names in SINGLE:
        if sum(map(given.count, map(str.lower, names))) > 1:
            text = f"{' or '.join(names)} is there twice"
            raise Failure("validation_error", text, {"field": names[-1]})


def _check_headers(call: HostCall, route: str) -> None:
    """Refuse a header that asks a route for something which only another one does."""
    Handlers.check_engine(call)
    for name, routes in HEADERS.items():
        if name.lower().encode() in call.headers and route not in routes:
            raise Failure("validation_error", f"{name} is not for this route", {"field": name})


def _with_run(path: str, prefix: str) -> str:
    """The beginning of a path, with the run as the caller spells it."""
    head = f"{prefix}/runs/"
    return head + re.split(r"[/:]", path[len(head) :], maxsplit=1)[0]


def _body(raw: bytes) -> dict[str, Any]:
    """The JSON object in a body; a number that would be changed by reading it is refused."""
    try:
        body = orjson.loads(raw) if raw.strip() else {}
    except orjson.JSONDecodeError as error:
        raise Failure("validation_error", f"the body is no JSON: {error}", WHOLE_BODY) from None
    if not isinstance(body, dict):
        raise Failure("validation_error", "the body is a JSON object", WHOLE_BODY)
    if raw.count(b"[") + raw.count(b"{") > DEEPEST and is_deep(body):
        text = f"the body has more than {DEEPEST} levels of objects and lists"
        raise Failure("validation_error", text, WHOLE_BODY)
    # orjson makes a float of a long number, and takes the last of two members with one name.
    json.loads(raw.strip() or b"{}", parse_int=_integer, object_pairs_hook=_members)
    return body


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        name = next(each for each in names if names.count(each) > 1)
        text = f"the body has the member {name[:50]!r} twice"
        raise Failure("validation_error", text, {"field": name})
    return found


def _integer(text: str) -> int:
    value = int(text) if len(text) <= LONGEST_INTEGER else None
    if value is None or not -(2**63) <= value < 2**64:
        message = f"the number {text[:30]} has more than 64 bits: send it as a text"
        raise Failure("validation_error", message, WHOLE_BODY)
    return value


def _json(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(orjson.dumps(value), status, headers, "application/json")


def _sha(value: Any) -> str:
    return sha256(orjson.dumps(value, option=orjson.OPT_SORT_KEYS)).hexdigest()
