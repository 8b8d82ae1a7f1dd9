"""The installed command as a user starts it, and raw connections to it."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import httpx
import orjson

from support.forking import tracklog
from support.plain_http import NO_CERTIFICATES

TRACKLOG = str(Path(sys.executable).with_name("tracklog"))
NDJSON = {"Content-Type": "application/x-ndjson"}


def environment(**more: str) -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if not k.startswith("TRACKLOG")} | more


def run(*arguments: object, **options) -> subprocess.CompletedProcess:
    """`tracklog …` from its start to its end."""
    env = environment(**options.pop("env", {}))
    words = [TRACKLOG, *map(str, arguments)]
    return subprocess.run(words, env=env, capture_output=True, timeout=120, check=False, **options)


def lines_of(home: Path, name: str) -> list[bytes]:
    """The lines of a run, as `tracklog events --raw` prints them."""
    done = tracklog(home, "events", name, "--raw")
    assert done.returncode == 0, done.stderr
    return done.stdout.split(b"\n")[:-1]


class Serving:
    """`tracklog serve`, or another verb that serves, in a process of its own."""

    def __init__(
        self, home: Path, *arguments: object, verb: str = "serve", files: int = 0, **env: str
    ) -> None:
        words = [TRACKLOG, *verb.split(), "--home", home, "--port", "0", *arguments]
        if files:  # as a shell's `ulimit -n` sets it
            words = ["/bin/sh", "-c", f'ulimit -n {files}; exec "$@"', "sh", *words]
        self.process = subprocess.Popen(
            list(map(str, words)),
            env=environment(**env),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.home, self.said = home, []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        line = self.process.stdout.readline()
        found = re.search(r"http://(\S+):(\d+)", line)
        if found is None:
            self.stop()
            raise AssertionError(f"it did not start: {line!r} {self.said}")
        self.url, self.port = found[0], int(found[2])
        headers = {}
        if "TRACKLOG_TOKEN" in env:
            headers = {"Authorization": f"Bearer {env['TRACKLOG_TOKEN']}"}
        self.http = httpx.Client(
            base_url=f"http://127.0.0.1:{self.port}",
            timeout=60,
            trust_env=False,
            headers=headers,
            verify=NO_CERTIFICATES,
        )

    def __enter__(self) -> "Serving":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _read(self) -> None:
        with self.process.stderr:
            for line in self.process.stderr:
                self.said.append(line)

    @property
    def logs(self) -> list[dict]:
        return [orjson.loads(line) for line in self.said]

    def post(self, lines, dialect="kahn-agent", **headers: str) -> httpx.Response:
        body = lines if isinstance(lines, bytes) else b"".join(line + b"\n" for line in lines)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        headers = {**NDJSON, **named}
        return self.http.post(f"/api/events/{dialect}", content=body, headers=headers)

    def get(self, path: str, **options) -> httpx.Response:
        return self.http.get(path, **options)

    def raw(self, sent: bytes = b"") -> socket.socket:
        made = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        made.sendall(sent)
        return made

    def ask(self, sent: bytes) -> bytes:
        """All that is answered to these bytes, until the server closes or falls silent."""
        with self.raw(sent) as made:
            made.settimeout(60)
            return heard(made)

    def seconds_of_cpu(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def peak_memory(self) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) << 10

    def stop(self, number: int = signal.SIGTERM, seconds: float = 60) -> int:
        if hasattr(self, "http"):
            self.http.close()
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        self._reader.join(10)
        self.process.stdout.close()
        return code


def heard(made: socket.socket) -> bytes:
    """All that comes until the other end closes."""
    found = b""
    with contextlib.suppress(ConnectionError):
        while read := made.recv(1 << 16):
            found += read
    return found


def head(method: str, path: str, *lines: str) -> bytes:
    """A request's head, with a Host that is taken."""
    text = "\r\n".join([f"{method} {path} HTTP/1.1", "Host: localhost", *lines, "", ""])
    return text.encode()


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/") else 0
