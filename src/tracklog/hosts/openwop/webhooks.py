"""Send the events of runs to subscribers: signed, at least once, and never to a private address.

A subscription is a file beside the journal, which also holds its position in the journal. An event
that cannot be delivered is tried again with growing pauses, and at last put on the list of dead
letters; the position moves on only then. So no event is lost when the host is stopped or killed.
"""

import asyncio
import contextlib
import hashlib
import hmac
import http.client
import ipaddress
import os
import re
import socket
import ssl
import threading
import time
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, urlsplit

import orjson

from tracklog import OPENWOP_TYPES, Record, write_file
from tracklog.hosts.openwop.discovery import LETTER_DAYS
from tracklog.hosts.openwop.failures import Failure
from tracklog.hosts.openwop.options import checked_tags
from tracklog.hosts.openwop.own_lines import OwnLines
from tracklog.hosts.openwop.repetition import Repetition
from tracklog.hosts.openwop.requests import Request
from tracklog.hosts.openwop.runlog import FAMILY, RunLog
from tracklog.hosts.openwop.wires import Wire
from tracklog.web import logs

if TYPE_CHECKING:
    from tracklog.hosts.openwop.engine import Engine

MOST_KNOWN = 100
"""Runs whose events are held in memory while they are delivered."""
PATIENCE = 5.0
"""Seconds that a delivery may take."""
LONGEST_PAUSE = 60.0
HOOK_OF_V2 = ("url", "events", "secret", "tags")
HOOK = (*HOOK_OF_V2, "tenantId")
"""The members of a subscription."""


class Rejected(Exception):
    """An address that nothing is sent to."""


def addresses_of(url: SplitResult, allowed: tuple[str, ...]) -> list[str]:
    """The public addresses of a URL; `Rejected` when one of them is not public."""
    host = (url.hostname or "").lower()
    is_allowed = host in allowed
    if not host or url.username or url.password:
        raise Rejected("the URL names no host, or holds a password")
    if url.scheme != "https" and not (is_allowed and url.scheme == "http"):
        raise Rejected("the URL does not begin with https://")
    try:
        port = url.port
        rows = socket.getaddrinfo(host, port or 443, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError, ValueError):
        raise Rejected(f"{host} has no address") from None
    if port == 0:
        raise Rejected("nothing can be sent to port 0")
    found = list(dict.fromkeys(str(row[4][0]) for row in rows))
    for address in found:
        if not is_allowed and not is_public(address):
            raise Rejected(f"{host} is a private address")
    return found


def is_public(text: str) -> bool:
    """Whether an address is public; an IPv4 address inside an IPv6 address is the one that counts."""
    address = ipaddress.ip_address(text.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if inner is None and address in _NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is None and int(address) >> 32 == 0 and int(address) > 1:
            inner = ipaddress.IPv4Address(int(address))
        if inner is not None:
            return is_public(str(inner))
    is_local = any(address in each for each in _LOCAL)
    return address.is_global and not address.is_multicast and not is_local


_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_LOCAL = tuple(map(ipaddress.ip_network, ("64:ff9b:1::/48", "3fff::/20", "5f00::/16")))
"""Networks inside an organisation, which older versions of Python take for public ones."""


class _Pinned(http.client.HTTPConnection):
    """A connection to an address that was checked, whatever the name resolves to by now."""

    def __init__(self, url: SplitResult, address: str) -> None:
        port = url.port or (443 if url.scheme == "https" else 80)
        super().__init__(url.hostname or "", port, timeout=PATIENCE)
        self._address, self._is_secure = address, url.scheme == "https"

        self.is_late = False

    def connect(self) -> None:
        self.sock = socket.create_connection((self._address, self.port), PATIENCE)
        if self._is_secure:
            self.sock = ssl.create_default_context().wrap_socket(
                self.sock, server_hostname=self.host, do_handshake_on_connect=False
            )
        if self.is_late:
            raise TimeoutError
        if isinstance(self.sock, ssl.SSLSocket):
            self.sock.do_handshake()

    def end(self) -> None:
        """End the delivery, whatever it waits for; the time of a socket is that of one read."""
        self.is_late, connected = True, self.sock
        if connected is not None:
            with contextlib.suppress(OSError):
                connected.shutdown(socket.SHUT_RDWR)


def deliver(url: SplitResult, address: str, body: bytes, headers: Mapping[str, str]) -> int:
    """Send a body; the status of the answer. Redirects are not followed."""
    connection = _Pinned(url, address)
    target = (url.path or "/") + (f"?{url.query}" if url.query else "")
    timer = threading.Timer(PATIENCE, connection.end)
    timer.daemon = True
    timer.start()
    try:
        connection.request("POST", target, body, dict(headers))
        status = connection.getresponse().status
    finally:
        timer.cancel()
        connection.close()
    if connection.is_late:
        raise TimeoutError(f"no whole answer in {PATIENCE:g} seconds")
    return status


class Webhooks:
    """The subscriptions of a host, and a thread that delivers."""

    def __init__(self, engine: "Engine", wires: Mapping[str, Wire]) -> None:
        self._engine, self._wires = engine, wires
        self._leases, self._lock = engine.journal.leases(), threading.Lock()
        self._folder = engine.journal.folder() / "webhooks"
        self._stopping = threading.Event()
        self._workers: dict[str, threading.Thread] = {}

    # Subscriptions.

    async def register(
        self, body: Mapping[str, Any], tenant: str, version: str, request: Request | None = None
    ) -> tuple[dict[str, Any], bool]:
        """Subscribe; the answer with the secret, and whether the request is a retry.

        The id follows from the key of the request. So a retry finds its subscription, and no answer
        with a secret has to be stored for it.
        """
        url, events = body.get("url"), body.get("events")
        for name in body.keys() - {*HOOK}:
            raise _invalid(name, f"there is no option {name[:50]!r} here")
        if not isinstance(url, str) or not re.fullmatch(r"[a-z]+://[!-~]+", url):
            raise _invalid("url", "url is the address of a web server")
        if not _is_texts(events) or not events:
            raise _invalid("events", "events is a list of types of events")
        names = {self._wires[version].kind(each) for each in OPENWOP_TYPES}
        for each in set(events) - names:
            raise _invalid("events", f"there is no type of event {each[:50]!r}")
        tags = checked_tags(body.get("tags", []), "tags")
        secret = body.get("secret")
        if secret is not None and (not isinstance(secret, str) or len(secret) < 16):
            raise _invalid("secret", "secret is a text of 16 characters or more")
        try:
            parts = urlsplit(url)
            await asyncio.to_thread(addresses_of, parts, self._engine.settings.webhook_hosts)
        except (Rejected, ValueError) as error:
            raise Failure("webhook_url_rejected", str(error), {"field": "url"}) from None
        if body.get("tenantId", tenant) != tenant:
            text = f"this key acts for the tenant {tenant}"
            raise Failure("forbidden", text, {"field": "tenantId"})
        name = f"hook-{uuid.uuid5(uuid.NAMESPACE_OID, request.key) if request else uuid.uuid4()}"
        known = self._load(name)
        if known is not None:
            if request is not None and known["request"] != request.body:
                raise Failure(
                    "idempotency_key_mismatch", "this Idempotency-Key came with another body"
                )
            return self._answer(known), True
        data: dict[str, Any] = {
            "id": name,
            "url": url,
            "events": events,
            "tags": tags,
            "tenant": tenant,
            "version": version,
            "created": self._engine.journal.now(),
        }
        data |= {"secret": secret} if secret is not None else {}
        data |= {"cursor": self._engine.journal.last, "request": request.body if request else None}
        await asyncio.to_thread(self._write, f"{name}.json", data)
        self._start(name)
        return self._answer(data), False

    def _answer(self, data: Mapping[str, Any]) -> dict[str, Any]:
        key = self._secret(data)
        return {
            "webhookId": data["id"],
            "subscriptionId": data["id"],
            "url": data["url"],
            "secret": key,
            "secretFingerprint": hashlib.sha256(key.encode()).hexdigest()[:16],
            "events": data["events"],
            "eventTypes": data["events"],
            "createdAt": data["created"],
        }

    def remove(self, name: str, tenant: str) -> bool:
        """End a subscription; whether there was one."""
        data = self._load(name)
        if data is None or data["tenant"] != tenant:
            return False
        for each in (f"{name}.json", f"{name}.position", f"{name}.dead"):
            (self._folder / each).unlink(missing_ok=True)
        return True

    def dead_letters(self, name: str, tenant: str) -> list[dict[str, Any]] | None:
        """The deliveries that were given up, the latest first; None without such a subscription."""
        data = self._load(name)
        if data is None or data["tenant"] != tenant:
            return None
        now, found = self._engine.journal.now(), dict[str, dict[str, Any]]()
        with contextlib.suppress(FileNotFoundError):
            for line in (self._folder / f"{name}.dead").read_bytes().splitlines():
                with contextlib.suppress(orjson.JSONDecodeError):  # cut off by a crash
                    letter = orjson.loads(line)
                    found[letter["deliveryId"]] = letter
        rows = [each for each in found.values() if each["expiresAt"] > now]
        return sorted(rows, key=lambda each: int(each["seq"]), reverse=True)

    def _forget_letters(self, name: str) -> None:
        """Remove the dead letters that have expired."""
        data = self._load(name)
        if data is None or not (self._folder / f"{name}.dead").exists():
            return
        letters = self.dead_letters(name, data["tenant"]) or []
        lines = [orjson.dumps(each) + b"\n" for each in reversed(letters)]
        write_file(self._folder / f"{name}.dead", b"".join(lines))

    def _load(self, name: str) -> dict[str, Any] | None:
        if not re.fullmatch(r"hook-[0-9a-f-]{36}", name):
            return None
        try:
            data: dict[str, Any] = orjson.loads((self._folder / f"{name}.json").read_bytes())
        except (OSError, ValueError):
            return None
        return data

    def _position(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """The position in the journal up to which events were delivered or given up.

        It has a file of its own, so that a delivery cannot restore a subscription that was ended.
        """
        try:
            raw = (self._folder / f"{data['id']}.position").read_bytes()
            position: dict[str, Any] = orjson.loads(raw)
        except (OSError, ValueError):
            position = {"cursor": data["cursor"]}
        return position

    def _write(self, name: str, data: Mapping[str, Any]) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_file(self._folder / name, orjson.dumps(data))

    def _secret(self, data: Mapping[str, Any]) -> str:
        given: str | None = data.get("secret")
        return given or self._engine.tokens.derive(f"webhook:{data['id']}")

    # Deliveries.

    def start(self) -> None:
        """Deliver to every subscriber, each from where it was left.

        It may be called again, for subscriptions that were made at another host.
        """
        with contextlib.suppress(OSError):
            for path in sorted(self._folder.glob("hook-*.json")):
                self._start(path.stem)

    def stop(self) -> None:
        """Stop; what is not delivered is delivered by the next host."""
        self._stopping.set()
        for worker in self._workers.values():
            worker.join(PATIENCE + 1)
        self._leases.close()

    def _start(self, name: str) -> None:
        worker = self._workers.get(name)
        if worker is not None and worker.is_alive():
            return
        worker = threading.Thread(target=self._work, args=(name,), name=name, daemon=True)
        self._workers[name] = worker
        worker.start()

    def _work(self, name: str) -> None:
        lease = ("webhook", name)
        while not self._stopping.is_set() and self._load(name) is not None:
            try:
                with self._lock:
                    taken = self._leases.take(lease)
                if not taken:
                    self._stopping.wait(1)  # another host delivers
                    continue
                try:
                    self._deliver_all(name)
                finally:
                    with self._lock:
                        self._leases.release(lease)
            except Exception as error:  # noqa: BLE001  # logged, and tried again
                if not self._stopping.is_set():
                    logs.log_failure("events could not be delivered", error, webhook=name)
                    self._stopping.wait(1)

    def _deliver_all(self, name: str) -> None:
        journal, known = self._engine.journal, dict[str, _KnownRun]()
        self._forget_letters(name)
        while not self._stopping.is_set() and (data := self._load(name)) is not None:
            position = {"cursor": self._position(data)["cursor"]}
            for record in journal.read(position["cursor"]):
                body = self._body(record, data, known)
                if body is not None:
                    if not self._deliver(data, record, *body):
                        return  # the host stops: it is delivered by the next
                    self._write(f"{name}.position", {**position, "cursor": record.seq})
                    if self._load(name) is None:
                        return
                position["cursor"] = record.seq
            self._write(f"{name}.position", position)
            while not self._stopping.is_set() and self._load(name) is not None:
                if journal.wait(position["cursor"], 0.2):
                    break

    def _body(
        self, record: Record, data: Mapping[str, Any], known: dict[str, "_KnownRun"]
    ) -> tuple[str, bytes] | None:
        """The type and the body of a record's delivery; None if nothing is to be delivered."""
        if record.family != FAMILY or record.dialect != FAMILY or not record.line:
            return None
        event, wire = orjson.loads(record.line), self._wires[data["version"]]
        kind = wire.kind(event["type"])
        if kind not in data["events"] or not self._engine.own.has_event(record, event):
            return None
        if len(known) >= MOST_KNOWN:
            known.clear()
        run = known.setdefault(record.run, _KnownRun(record.run, self._engine.own))
        log = run.log
        log.refresh(self._engine.journal)
        host = log.snapshot.host
        tenant = host.get("tenant", self._engine.settings.tenant)
        if host.get("instance") != self._engine.instance or tenant != data["tenant"]:
            return None
        if log.ended and event["sequence"] == len(log.events) - 1:
            known.pop(record.run)
        if not self._is_new(event["sequence"], run):
            return None  # it is history, and was delivered when it was new
        if data["tags"] and not set(data["tags"]) & set(host.get("tags", ())):
            return None
        rendered = orjson.Fragment(wire.event(record.line, event, log))
        reply = wire.reply({"runId": record.run}, tenant)
        return kind, orjson.dumps({**reply, "event": rendered})

    def _is_new(self, sequence: int, run: "_KnownRun") -> bool:
        """Whether an event of a fork is none of its source."""
        fork = run.log.snapshot.host.get("fork", {})
        if sequence < fork.get("fromSeq", 0) or fork.get("mode") != "replay":
            return bool(sequence >= fork.get("fromSeq", 0))
        repetition = run.repetition
        if repetition is None:
            source = RunLog(fork["sourceRunId"], self._engine.own)
            source.refresh(self._engine.journal)
            events = source.events[: fork.get("through")]
            repetition = Repetition(run.log, events, self._engine.settings.writes)
            if "through" in fork or source.ended:  # else it has more events later
                run.repetition = repetition
        return repetition.is_new(sequence)

    def _deliver(
        self,
        data: Mapping[str, Any],
        record: Record,
        kind: str,
        body: bytes,
    ) -> bool:
        """Deliver one event, or add it to the dead letters; False if the host stops before."""
        settings = self._engine.settings
        made, status = self._attempts(data, record)
        for attempt in range(made, settings.webhook_attempts):
            if attempt > made:
                self._write_attempts(data, record, attempt, status)
            if attempt:
                pause = min(LONGEST_PAUSE, settings.webhook_backoff_ms / 1000 * 2 ** (attempt - 1))
                if self._stopping.wait(pause):
                    return False
            try:
                url = urlsplit(data["url"])
                address = addresses_of(url, settings.webhook_hosts)[0]
                status = deliver(url, address, body, self._headers(data, kind, body))
            except (Rejected, OSError, http.client.HTTPException, ValueError) as error:
                logs.log("warning", "a delivery failed", webhook=data["id"], why=str(error)[:200])
                continue
            if 200 <= status < 300:
                return True
            logs.log("warning", "a delivery failed", webhook=data["id"], status=status)
        self._give_up(data, record, kind, status)
        return True

    def _attempts(self, data: Mapping[str, Any], record: Record) -> tuple[int, int]:
        """The attempts to deliver an event that failed before a restart, and the last status."""
        failed = self._position(data).get("failed", {})
        if failed.get("seq") != record.seq:
            return 0, 0
        return int(failed["attempts"]), int(failed["status"])

    def _write_attempts(
        self, data: Mapping[str, Any], record: Record, attempts: int, status: int
    ) -> None:
        """Remember how often the delivery of an event has failed: a restart counts on from there."""
        position = self._position(data)
        if self._load(data["id"]) is None:  # it was ended meanwhile
            return
        failed = {"seq": record.seq, "attempts": attempts, "status": status}
        self._write(f"{data['id']}.position", {**position, "failed": failed})

    def _give_up(self, data: Mapping[str, Any], record: Record, kind: str, status: int) -> None:
        """Add a delivery to the dead letters: its event and run, and never its content."""
        event = orjson.loads(record.line)["eventId"]
        now = datetime.fromtimestamp(self._engine.clock(), UTC)
        letter: dict[str, Any] = {
            "seq": record.seq,
            "deliveryId": hashlib.sha256(f"{data['id']}:{event}".encode()).hexdigest()[:32],
            "runId": record.run,
            "eventId": event,
            "eventType": kind,
            "attempts": self._engine.settings.webhook_attempts,
            "deadLetteredAt": _time(now),
            "expiresAt": _time(now + timedelta(days=LETTER_DAYS)),
            "reason": "retries_exhausted",
        }
        letter |= {"lastStatus": status} if status else {}
        with (self._folder / f"{data['id']}.dead").open("ab") as file:
            file.write(b"\n" + orjson.dumps(letter) + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def _headers(self, data: Mapping[str, Any], kind: str, body: bytes) -> dict[str, str]:
        at, wire = str(int(time.time())), self._wires[data["version"]]
        key = self._secret(data).encode()
        mac = hmac.new(key, at.encode() + b"." + body, hashlib.sha256).hexdigest()
        values = {
            "Webhook-Id": wire.reply({"webhookId": data["id"]}, data["tenant"])["webhookId"],
            "Event-Type": kind,
            "Timestamp": at,
            "Signature": f"sha256={mac}",
            "Signature-Algorithm": "v1",
        }
        families = ("X-openwop-", "OpenWOP-")
        headers = {f"{each}{name}": value for each in families for name, value in values.items()}
        return {**headers, "Content-Type": "application/json"}


class _KnownRun:
    """A run whose events are delivered."""

    def __init__(self, name: str, own: OwnLines) -> None:
        self.log = RunLog(name, own)
        self.repetition: Repetition | None = None


def _time(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _invalid(name: str, message: str) -> Failure:
    return Failure("validation_error", message, {"field": name})


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) and each for each in value)
