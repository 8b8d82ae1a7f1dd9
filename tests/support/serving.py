"""A small real model server: it answers in streams, fails, stalls, limits, and breaks off."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

STALL = "stall"
"""Nothing is answered until the server ends."""
CUT = "cut"
"""The stream ends in the middle."""
HANG = "hang"
"""The stream begins, and then nothing comes any more."""
WHOLE = "whole"
"""Not streamed, though that was asked for."""


def calls(name: str, arguments: dict, id: str = "c1") -> dict:
    called = {"name": name, "arguments": json.dumps(arguments)}
    return {"tool_calls": [{"id": id, "type": "function", "function": called}]}


def answers(said: Any) -> tuple[dict, str]:
    """A message and how it is sent, from a text, a message, or one of these with a word."""
    said, how = said if isinstance(said, tuple) else (said, "")
    return ({"content": said} if isinstance(said, str) else said), how


USAGE = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
HEAD = {"id": "c-1", "created": 1, "model": "m-1"}


def chunks(message: dict) -> Iterator[dict]:
    """A message in pieces, as a server streams it."""
    head = {**HEAD, "object": "chat.completion.chunk"}

    def chunk(delta: dict, reason: str | None = None) -> dict:
        return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}

    yield chunk({"role": "assistant"})
    for key in ("reasoning_content", "content"):
        text = message.get(key) or ""
        for at in range(0, len(text), 7):
            yield chunk({key: text[at : at + 7]})
    for index, call in enumerate(message.get("tool_calls", ())):
        function = call["function"]
        begun = {"index": index, "id": call["id"], "type": "function"}
        yield chunk({"tool_calls": [begun | {"function": {"name": function["name"]}}]})
        half = len(function["arguments"]) // 2
        for piece in (function["arguments"][:half], function["arguments"][half:]):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield chunk({}, "tool_calls" if message.get("tool_calls") else "stop")
    yield {**head, "choices": [], "usage": USAGE}


def whole(message: dict) -> dict:
    said = {"role": "assistant", "content": None, **message}
    choice = {"index": 0, "finish_reason": "stop", "message": said}
    return {**HEAD, "object": "chat.completion", "choices": [choice], "usage": USAGE}


@contextmanager
def serving(*said: Any) -> Iterator[tuple[str, list[dict]]]:
    """Answers in order, the last one again and again; the base URL, and what was asked."""
    left, asked, over = list(said), [], threading.Event()

    class Answering(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.append({"path": self.path, "key": self.headers["Authorization"], **body})
            said = left.pop(0) if len(left) > 1 else left[0]
            with suppress(OSError):  # who asked may be gone
                if said == STALL:
                    over.wait()
                elif isinstance(said, int):
                    self.put(json.dumps({"error": {"message": "no"}}).encode(), said)
                else:
                    message, how = answers(said)
                    if body.get("stream") and how != WHOLE:
                        self.stream(message, how)
                    else:
                        self.put(json.dumps(whole(message)).encode())

        def put(self, raw: bytes, status: int = 200) -> None:
            self.send_response(status)
            for name, value in (("Content-Type", "application/json"), ("Retry-After", "0")):
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def stream(self, message: dict, how: str) -> None:
            self.close_connection = True
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Connection", "close")
            self.end_headers()
            pieces = list(chunks(message))
            for piece in pieces[: len(pieces) - 2] if how else pieces:
                self.wfile.write(b"data: " + json.dumps(piece).encode() + b"\n\n")
                self.wfile.flush()
            if how == HANG:
                over.wait()
            elif not how:
                self.wfile.write(b"data: [DONE]\n\n")

        def log_message(self, *_arguments):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    server.daemon_threads = False
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1", asked
    finally:
        over.set()
        server.shutdown()
        thread.join()
        server.server_close()
