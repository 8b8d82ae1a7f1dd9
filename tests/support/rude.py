"""A small collector for tests that can be rude: it hangs, resets, refuses, drips, forgets to answer.

It names the version of the protocol as a collector does; a mood may set another header or None.
"""

import json
import socket
import struct
import threading
import time
from collections import deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from support.collecting import lasting_port


class Rude(ThreadingHTTPServer):
    """Keeps each batch once, by its key; for each request it is in the next of its moods."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, *moods, port=0):
        super().__init__(("127.0.0.1", port or lasting_port()), _Answer)
        self.moods, self.lock = deque(moods), threading.Lock()
        self.batches, self.asked, self.conflicts = {}, [], []
        self.stopped = threading.Event()
        self.url = f"http://127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stopped.set()
        self.shutdown()
        self.server_close()

    def handle_error(self, request, client_address):
        pass  # being rude is no error here

    def lines(self, dialect=None):
        """What was kept, in order."""
        return [
            line
            for spoken, lines in list(self.batches.values())
            for line in lines
            if dialect in (None, spoken)
        ]

    def heard(self, count, seconds=60.0):
        """The lines, once there are so many."""
        until = time.monotonic() + seconds
        while len(found := self.lines()) < count and time.monotonic() < until:
            time.sleep(0.01)
        assert len(found) >= count, (len(found), count)
        return found

    def keep(self, key, dialect, lines):
        with self.lock:
            if self.batches.setdefault(key, (dialect, lines)) != (dialect, lines):
                self.conflicts.append(key)


class _Answer(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 30
    disable_nagle_algorithm = True

    def do_POST(self):
        server = self.server
        body = self.rfile.read(int(self.headers["Content-Length"]))
        lines, dialect = body.split(b"\n")[:-1], self.path.rpartition("/")[2]
        with server.lock:
            server.asked.append((time.monotonic(), self.path, dict(self.headers)))
            mood = server.moods.popleft() if server.moods else "kind"
        if callable(mood):
            mood = mood(lines)
        if mood == "hang":
            server.stopped.wait(30)
            raise ConnectionResetError
        if mood == "reset":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
            raise ConnectionResetError
        if isinstance(mood, tuple):
            status, headers, said = mood
            answer = said if isinstance(said, bytes) else json.dumps(said).encode()
            self._say(status, answer, headers)
            return
        server.keep(self.headers["Idempotency-Key"], dialect, lines)
        counts = {"accepted": len(lines), "duplicate": 0, "refused": 0, "last_seq": 1}
        answer = json.dumps({**counts, "verdicts": []}).encode()
        if mood == "forget":
            raise ConnectionResetError
        if mood == "half":
            self._say(200, answer, {}, sent=len(answer) // 2)
            raise ConnectionResetError
        if mood == "drip":
            self._say(200, answer, {}, sent=0)
            for at in range(len(answer)):
                time.sleep(0.005)
                self.wfile.write(answer[at : at + 1])
            return
        self._say(200, answer, {})

    def _say(self, status, answer, headers, sent=None):
        head = {"Content-Length": str(len(answer)), "Tracklog-Protocol": "1", **headers}
        text = "".join(f"{name}: {value}\r\n" for name, value in head.items() if value is not None)
        line = f"HTTP/1.1 {status} So\r\n{text}\r\n".encode()
        self.wfile.write(line + (answer if sent is None else answer[:sent]))

    def log_message(self, *_):
        pass
