"""A relay on loopback that stands before a collector, and keeps what a program sends to it."""

import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

KEPT = ("Content-Type", "Content-Encoding")
"""The headers that are passed on."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    target: str
    sent: list[bytes]

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_POST(self) -> None:
        try:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        except ConnectionError:  # the program ended while it sent
            return
        self.sent.append(body)
        headers = {name: self.headers[name] for name in KEPT if name in self.headers}
        request = urllib.request.Request(self.target + self.path, body, headers)  # noqa: S310  # loopback
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310  # loopback
                status, content = answer.status, answer.read()
        except urllib.error.HTTPError as refusal:
            status, content = refusal.code, refusal.read()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


@contextmanager
def relay(target: str) -> Iterator[tuple[str, list[bytes]]]:
    """The address of a relay to a collector, and the bodies that were sent to it."""
    sent: list[bytes] = []
    handler = type("_Handler", (Handler,), {"target": target, "sent": sent})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", sent
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
