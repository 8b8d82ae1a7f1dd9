"""The official OpenWOP clients for Python, each version in a folder of its own."""

import fcntl
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
CLIENTS = ROOT / ".venv/openwop-clients"
"""`make setup` installs them there, from requirements-openwop-*.lock."""


def python_with(version: str, code: str, *arguments: str, seconds: float = 120) -> str:
    """The output of a program that runs with one version of the client, and with nothing of ours."""
    folder = CLIENTS / version
    if not (folder / ".ready").exists():  # set up before there were these tests
        with (ROOT / ".venv/openwop-clients.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            target = f".venv/openwop-clients/{version}/.ready"
            subprocess.run(["make", "-s", target], cwd=ROOT, check=True)
    head = f"import sys; sys.path.insert(0, {str(folder)!r})\n"
    done = subprocess.run(
        [sys.executable, "-I", "-c", head + code, *arguments],
        capture_output=True, text=True, timeout=seconds, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def fields_of(version: str, name: str) -> set[str]:
    """The fields of one of the client's types."""
    code = (
        "import dataclasses, json, openwop_client.types as types\n"
        f"print(json.dumps([each.name for each in dataclasses.fields(types.{name})]))"
    )
    return set(json.loads(python_with(version, code)))


def requests_of(version: str) -> set[str]:
    """The names of the client's types that are bodies of requests."""
    code = (
        "import json, openwop_client.types as types\n"
        "print(json.dumps([name for name in vars(types) if name.endswith('Request')]))"
    )
    return set(json.loads(python_with(version, code)))


def about(version: str, name: str) -> str:
    """What the client says about one of its types."""
    code = f"import openwop_client.types as types\nprint(types.{name}.__doc__)"
    return python_with(version, code)
