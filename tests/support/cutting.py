"""Cuts between a client and a server: a relay that cuts at a word, and a network that is cut."""

import contextlib
import ctypes
import secrets
import shutil
import socket
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest


class Relay:
    """Listens on loopback and hands on to another port, until a word is to be cut at."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self.cut_at: bytes | None = None
        self.lets_through = False
        """Whether the server still gets what the connection is cut at; its answer never comes."""
        self.cuts = 0
        self._threads: list[threading.Thread] = []
        self._open: list[socket.socket] = []
        self._mute: set[socket.socket] = set()
        self._flows = threading.Event()
        self._flows.set()
        self._lost: set[socket.socket] = set()
        self._start(self._accept)

    def freeze(self) -> None:
        """Hand on nothing more, as a network that is cut: nobody is told, and nothing arrives."""
        self._flows.clear()

    def thaw(self, *, drop: bool = False) -> None:
        """Hand on again what waits; or drop it with its connections, as a firewall would."""
        if drop:
            self._lost |= set(self._open)
        self._flows.set()
        if drop:
            for each in self._lost:
                _end(each)

    def close(self) -> None:
        self._flows.set()
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for each in self._open:
            _end(each)
        for thread in self._threads:
            thread.join(10)

    def _start(self, does, *arguments) -> None:
        thread = threading.Thread(target=does, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:
                return
            self._flows.wait()
            server = socket.create_connection(("127.0.0.1", self._target))
            self._open += [client, server]
            self._start(self._to_server, client, server)
            self._start(self._to_client, server, client)

    def _to_server(self, client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := client.recv(1 << 16):
                self._flows.wait()
                if client in self._lost:
                    break
                word = self.cut_at
                if word is not None and word in data:
                    self.cut_at = None
                    self.cuts += 1
                    self._mute.add(client)
                    if self.lets_through:
                        server.sendall(data)
                    break
                server.sendall(data)
        _end(client)
        with contextlib.suppress(OSError):  # it answers what it got, and then sees the end
            server.shutdown(socket.SHUT_WR)

    def _to_client(self, server: socket.socket, client: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := server.recv(1 << 16):
                self._flows.wait()
                if client in self._lost:
                    break
                if client not in self._mute:
                    client.sendall(data)
        _end(client)
        _end(server)


def _end(each: socket.socket) -> None:
    with contextlib.suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)
    each.close()


class CutNetwork:
    """A network namespace with one wire to this machine, which can be cut: nobody is told.

    `inside` runs a function in a thread in the namespace; what it starts is in the namespace, too.
    """

    def __init__(self) -> None:
        for _ in range(100):  # until no other test has this name
            number = secrets.randbelow(256)
            self._name = f"tracklog{number}"
            done = _ip("netns", "add", self._name, check=False)
            if "exists" not in done.stderr:
                break
        if done.returncode:
            pytest.skip(f"no network namespace can be made here: {done.stderr.strip()}")
        self.outside, self.address = f"10.91.{number}.1", f"10.91.{number}.2"
        self._pool = ThreadPoolExecutor(1, initializer=self._enter)
        try:
            _ip(
                "link",
                "add",
                self._name,
                "type",
                "veth",
                "peer",
                "name",
                "wire",
                "netns",
                self._name,
            )
            _ip("addr", "add", f"{self.outside}/30", "dev", self._name)
            _ip("link", "set", self._name, "up")
            _ip("-n", self._name, "addr", "add", f"{self.address}/30", "dev", "wire")
            _ip("-n", self._name, "link", "set", "lo", "up")
            self.heal()
        except BaseException:
            self.close()
            raise

    def inside(self, does, *arguments):
        """What a function returns that runs in the namespace."""
        return self._pool.submit(does, *arguments).result()

    def cut(self) -> None:
        _ip("-n", self._name, "link", "set", "wire", "down")

    def heal(self) -> None:
        _ip("-n", self._name, "link", "set", "wire", "up")

    def close(self) -> None:
        self._pool.shutdown()
        _ip("netns", "del", self._name)

    def _enter(self) -> None:
        with Path(f"/run/netns/{self._name}").open() as file:
            assert ctypes.CDLL(None, use_errno=True).setns(file.fileno(), _NETWORK) == 0


_NETWORK = 0x40000000  # CLONE_NEWNET


def _ip(*arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    command = [shutil.which("ip") or "/usr/sbin/ip", *arguments]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=check)
    except FileNotFoundError as error:
        return subprocess.CompletedProcess(command, 127, "", str(error))
