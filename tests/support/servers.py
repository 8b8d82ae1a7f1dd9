"""PostgreSQL servers for the tests: started on loopback by the tests, and stopped with them."""

import atexit
import os
import shutil
import tempfile
from functools import cache
from hashlib import sha256
from pathlib import Path

from tracklog.cli._local_postgres import LocalPostgres, of_wheel


def folder() -> Path:
    """A new folder for a server, in a place that another user may enter."""
    return Path(tempfile.mkdtemp(prefix="tracklog-pg-", dir="/tmp"))


def new_server(bin: Path | None = None) -> LocalPostgres:
    """A server that is not started."""
    return LocalPostgres(folder(), bin=bin)


def reachable(bin: Path) -> Path:
    """The same programs where another user can run them."""
    if os.geteuid() or all(each.stat().st_mode & 0o001 for each in (bin, *bin.parents)):
        return bin
    copy = Path(tempfile.mkdtemp(prefix="tracklog-pg-bin-", dir="/tmp"))
    atexit.register(shutil.rmtree, copy, ignore_errors=True)
    copy.chmod(0o755)
    package = bin.parents[1]
    libraries = package.with_name(f"{package.name}.libs")  # where a wheel puts them
    if libraries.exists():
        shutil.copytree(libraries, copy / libraries.name)
    copied = Path(shutil.copytree(bin.parent, copy / package.name / bin.parent.name))
    for path in copy.rglob("*"):  # which have the modes that the installing user's umask left
        mode = path.stat().st_mode
        path.chmod(mode | (0o055 if mode & 0o100 else 0o044))
    return copied / "bin"


def wheel_programs() -> Path:
    """The programs of the wheel in the development lock."""
    found = of_wheel()
    assert found is not None, "the development lock has it"
    return reachable(found)


@cache
def postgres() -> LocalPostgres:
    """The server that the tests of this process share; those that kill one start their own."""
    server = new_server()
    server.settings |= {"fsync": "off", "full_page_writes": "off"}  # it is never started again
    server.bin = reachable(server.bin)
    atexit.register(server.remove)
    server.make()
    return server.start()


def tenant(where: object) -> str:
    """A tenant of its own for a test, by its folder."""
    return "t" + sha256(str(where).encode()).hexdigest()[:12]


def store_url(where: object) -> str:
    """The URL of a storage of its own for a test; the same for the same folder.

    It waits longer for a connection than the default of 5 s: a busy machine is no failure.
    """
    return f"{postgres().url}?connect_timeout=120&tenant={tenant(where)}"
