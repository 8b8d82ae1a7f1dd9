"""A pooler before PostgreSQL, as pgbouncer is: it gives each transaction a session that is free."""

import contextlib
import queue
import socket
import threading
from collections.abc import Callable

_ENCRYPTED = (80877103, 80877104)  # what a client asks for before it says who it is
_ASKED = (3, 5, 10, 11)  # requests of a server for one more message of the client's password


class TransactionPooler:
    """Listens on loopback. After their login the clients share the sessions of all of them."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self._free: queue.LifoQueue[socket.socket] = queue.LifoQueue()
        self._open: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for each in self._open:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(10)
        for each in self._open:
            each.close()

    def _start(self, does: Callable[..., None], *arguments: socket.socket) -> None:
        thread = threading.Thread(target=does, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._socket.accept()
                server = socket.create_connection(("127.0.0.1", self._target))
                self._open += [client, server]
                self._start(self._serve, client, server)

    def _serve(self, client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            _log_in(client, server)
            self._free.put(server)
            while (asked := _message(client))[:1] != b"X":
                self._transact(client, asked)
            client.close()

    def _transact(self, client: socket.socket, asked: bytes) -> None:
        """Hand on a transaction, and all that the server answers."""
        session = self._free.get()
        while True:
            session.sendall(asked)
            if asked[:1] in (b"Q", b"S"):
                while (answer := _message(session))[:1] != b"Z":
                    client.sendall(answer)
                if answer[5:] == b"I":  # it is over
                    self._free.put(session)
                    client.sendall(answer)
                    return
                client.sendall(answer)
            asked = _message(client)


def _log_in(client: socket.socket, server: socket.socket) -> None:
    """Hand on the login; the client is told another process than that of its session."""
    while True:
        length = _exactly(client, 4)
        body = _exactly(client, int.from_bytes(length) - 4)
        server.sendall(length + body)
        if int.from_bytes(body[:4]) not in _ENCRYPTED:
            break
        client.sendall(_exactly(server, 1))
    while True:
        answer = _message(server)
        if answer[:1] == b"K":
            answer = answer[:5] + bytes(8)
        client.sendall(answer)
        if answer[:1] == b"R" and int.from_bytes(answer[5:9]) in _ASKED:
            server.sendall(_message(client))
        if answer[:1] == b"Z":
            return


def _message(of: socket.socket) -> bytes:
    head = _exactly(of, 5)
    return head + _exactly(of, int.from_bytes(head[1:]) - 4)


def _exactly(of: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = of.recv(size - len(data))
        if not part:
            raise ConnectionResetError("the other side ended")
        data += part
    return data
