"""A collector in a process of its own, on a port of its own, for the tests that talk to one."""

import contextlib
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import orjson

from support.forking import Tracklog
from support.plain_http import NO_CERTIFICATES
from tracklog.collector import app, server
from tracklog.collector.pages import Console
from tracklog.home.home import Home
from tracklog.web.limits import Limits

NDJSON = {"Content-Type": "application/x-ndjson"}
ENVIRONMENT = {key: value for key, value in os.environ.items() if not key.startswith("TRACKLOG")}


def _with_limits() -> None:
    """Of those limits that the command line has no word for."""
    home, limits, console, durability = sys.argv[1:]
    bound = server.listen("127.0.0.1", 0)
    collector = app.Collector(
        Home(home, durability=durability), limits=Limits(**orjson.loads(limits))
    )
    collector.console = Console(Path(console))
    url = f"http://127.0.0.1:{bound.getsockname()[1]}"
    server.serve(collector, bound, lambda: print(url, flush=True))


class Collector:
    """Started when made; `stop` and `kill` end it by its own id."""

    def __init__(
        self,
        home: Path,
        *arguments: str,
        port: int = 0,
        limits: dict | None = None,
        console: str = "",
        durability: str = "os",
        **environment: str,
    ) -> None:
        self.home = home
        verb, run = ["serve", "--home", home, "--port", port, *arguments], {}
        if limits is not None:
            verb = [home, orjson.dumps(limits).decode(), console or home / "none", durability]
            run = {"run": _with_limits}
        self.process = Tracklog(
            *verb,
            **run,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**ENVIRONMENT, **environment},
            text=True,
        )
        self.said: list[str] = []
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        line = self.process.stdout.readline()
        found = re.search(r"https?://\S+:(\d+)", line)
        if found is None:
            self.process.wait(120)
            self._listener.join(60)
            self.process.stdout.close()
            raise AssertionError(f"it did not start: {line!r} {self.said}")
        self.url, self.port = found[0], int(found[1])
        self.http = httpx.Client(
            base_url=self.url, timeout=120, trust_env=False, verify=NO_CERTIFICATES
        )

    def _listen(self) -> None:
        with self.process.stderr:
            for line in self.process.stderr:
                self.said.append(line)

    def post(self, lines, dialect="kahn-agent", **options) -> httpx.Response:
        body = lines if isinstance(lines, bytes) else b"".join(line + b"\n" for line in lines)
        headers = {**NDJSON, **options.pop("headers", {})}
        return self.http.post(f"/api/events/{dialect}", content=body, headers=headers, **options)

    def get(self, path: str, **options) -> httpx.Response:
        return self.http.get(path, **options)

    def raw(self) -> socket.socket:
        made = socket.create_connection(("127.0.0.1", self.port), timeout=120)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return made

    def stop(self) -> int:
        """As an operator would."""
        return self._end(signal.SIGTERM)

    def kill(self) -> int:
        return self._end(signal.SIGKILL)

    def _end(self, number: int) -> int:
        self.http.close()
        if self.process.poll() is None:
            self.process.send_signal(number)
        code = self.process.wait(120)
        self._listener.join(60)
        self.process.stdout.close()
        return code

    @property
    def logs(self) -> list[dict]:
        """What it said on standard error; every line must be JSON."""
        return [orjson.loads(line) for line in self.said]


@contextlib.contextmanager
def collector(home: Path, *arguments: str, **options: Any) -> Iterator[Collector]:
    made = Collector(home, *arguments, **options)
    try:
        yield made
    finally:
        made.stop()
    errors = [line for line in made.logs if line["level"] == "error"]
    assert not errors, errors


def lasting_port() -> int:
    """A port that nobody gets by chance while the one who listens there is away."""
    for port in random.SystemRandom().sample(range(20_000, 30_000), 99):  # no seed: two may ask
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise AssertionError("every port is taken")


class Events:
    """Reads a stream of server-sent events from a raw socket, as they come."""

    def __init__(
        self, server: Collector, query: str = "", *, path: str = "/api/stream", **headers: str
    ) -> None:
        self.socket = server.raw()
        lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
        head = f"GET {path}{query} HTTP/1.1\r\nHost: 127.0.0.1\r\n{lines}\r\n"
        self.socket.sendall(head.encode())
        self._raw = b""
        self.head = self._until(b"\r\n\r\n")
        self._text = b""

    def _more(self) -> bytes:
        read = self.socket.recv(1 << 16)
        if not read:
            raise EOFError
        return read

    def _until(self, mark: bytes) -> bytes:
        while mark not in self._raw:
            self._raw += self._more()
        found, _, self._raw = self._raw.partition(mark)
        return found

    def _take(self, size: int) -> bytes:
        while len(self._raw) < size:
            self._raw += self._more()
        found, self._raw = self._raw[:size], self._raw[size:]
        return found

    def _chunk(self) -> bytes:
        size = int(self._until(b"\r\n"), 16)
        chunk = self._take(size)
        self._take(2)
        if not size:
            raise EOFError
        return chunk

    def next(self) -> dict[str, str]:
        """The next event, with its fields; comments and bare `retry` fields are passed over."""
        while True:
            while b"\n\n" not in self._text:
                self._text += self._chunk()
            event, _, self._text = self._text.partition(b"\n\n")
            pairs = [line.partition(": ") for line in event.decode().split("\n")]
            fields = {name: value for name, _, value in pairs}
            if "data" in fields:
                return fields

    def records(self, count: int) -> list[dict]:
        """The next so many records, heartbeats aside."""
        found = []
        while len(found) < count:
            event = self.next()
            if "event" not in event:
                frame = orjson.loads(event["data"])
                assert str(frame["seq"]) == event["id"]
                found.append(frame)
        return found

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> "Events":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def start(run: str, agent: str = "coder", **more) -> bytes:
    body = {"ts": "2026-05-05T09:00:00.000Z", "run_id": run, "event": "agent_run_start"}
    return orjson.dumps({**body, "agent_id": agent, "task": "Add /v2/health", **more})


def tool(run: str, step: int = 0, **more) -> bytes:
    body = {"ts": "2026-05-05T09:00:01.000Z", "run_id": run, "event": "tool_invocation"}
    body |= {"agent_id": "coder", "step": step, "tool_name": "Read", "duration_s": 0.1, "ok": True}
    return orjson.dumps({**body, **more})


def asks(run: str, question: str, text: str = "which port?") -> bytes:
    body = {"ts": "2026-05-05T09:00:02.000Z", "run_id": run, "event": "agent_transition"}
    body |= {"agent_id": "coder", "step": 1, "from": "thinking", "to": "blocked-on-clarification"}
    return orjson.dumps({**body, "reason": f"clarification:{question}", "question": text})


def ends(run: str) -> bytes:
    body = {"ts": "2026-05-05T09:00:09.000Z", "run_id": run, "event": "agent_run_end"}
    body |= {"agent_id": "coder", "outcome": "aborted", "total_duration_s": 9.0, "total_steps": 1}
    return orjson.dumps(
        {**body, "total_tool_calls": 0, "total_audit_checkpoints": 0}
        | {"audits_passed": 0, "audits_failed": 0}
    )


def began(run: str, **more) -> bytes:
    """A native line, whose run may have any name."""
    origin = {"writer": "test", "fidelity": "observed"}
    body = {"id": os.urandom(8).hex(), "run": run, "fact": "Began", "what": "run"}
    return orjson.dumps({**body, **more, "origin": origin})


def made_certificate(folder: Path) -> tuple[str, str]:
    """A certificate for 127.0.0.1 that signs itself, and its key."""
    key, certificate = str(folder / "key.pem"), str(folder / "cert.pem")
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    make = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
    files = ["-nodes", "-days", "2", "-keyout", key, "-out", certificate]
    subprocess.run([*make, *files, *subject], check=True, capture_output=True)
    return certificate, key
