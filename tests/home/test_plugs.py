"""One more plug is one more file: a dialect from another package is read like ours."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import orjson
import pytest

from tracklog.home import registry
from tracklog.model.errors import UnknownName

MORSE = '''
"""morse: a dialect that this test made up."""

from typing import Literal

from tracklog.dialects import Dialect, Policy, Shape, share
from tracklog.model.fact import Said


class Frame(Shape):
    station: str


class Sent(Frame):
    kind: Literal["sent"]
    text: str


dialect = Dialect(
    name="morse",
    about="Telegraph stations.",
    policy=Policy(kinds="closed", fields="open"),
    kind_key="kind",
    kinds={"sent": Sent},
    frame=Frame,
    claim=lambda body: share(body, ("station", "kind", "text"), body.get("kind") == "sent"),
    read=lambda body: (body.get("station", ""), body.get("kind", ""), *[None] * 5),
    facts=lambda event: iter([Said(role="note", blocks=({"type": "text", "text": event.body["text"]},))]),
    rules=lambda state, event: (state, []),
    write=lambda fact, scene: None,
    contract="morse",
)
'''


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A package with one dialect file, installed nowhere but on the path."""
    (tmp_path / "morse.py").write_text(MORSE)
    info = tmp_path / "morse-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: morse\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[tracklog.dialects]\nmorse = morse:dialect\n")
    return tmp_path


def tracklog(folder: Path, *arguments: str, given: bytes = b""):
    return subprocess.run(
        [sys.executable, "-m", "tracklog", *arguments],
        input=given,
        capture_output=True,
        env={"PYTHONPATH": str(folder), "PATH": "/usr/bin:/bin"},
        timeout=60,
        check=False,
    )


def test_one_file_adds_a_dialect(outside):
    """Recognised, checked, listed and published, with no other file touched."""
    good, bad = b'{"station":"s1","kind":"sent","text":"hi"}', b'{"station":"s1","kind":"sent"}'
    done = tracklog(outside, "check", "--json", given=good + b"\n" + bad + b"\n")
    first, second = map(orjson.loads, done.stdout.splitlines())
    assert (first["verdict"], first["dialect"], first["run"]) == ("accepted", "morse", "s1")
    assert (second["verdict"], second["problems"][0]["pointer"]) == ("refused", "/text")
    assert done.returncode == 1
    assert b"morse" in tracklog(outside, "dialects").stdout
    schema = orjson.loads(tracklog(outside, "schema", "morse").stdout)
    assert schema["$defs"]["Sent"]["required"] == ["station", "kind", "text"]


def test_a_file_without_a_dialect_is_named(outside):
    (outside / "morse.py").write_text("dialect = 'a string'\n")
    done = tracklog(outside, "dialects")
    assert done.returncode == 2
    assert b"'morse' is not a Dialect" in done.stderr
    assert b"Traceback" not in done.stderr


def test_an_unknown_name_is_answered_with_the_known_ones():
    with pytest.raises(UnknownName) as caught:
        registry.dialect("klingon")
    assert all(name in caught.value.hint for name in registry.dialect_names())


LISTS = """
import sys
from tracklog.home import registry
from tracklog.model.errors import TracklogError
from pathlib import Path
from support.rights import modes_bind
folder, ask = Path(registry.__file__).parents[1] / sys.argv[1], sys.argv[2]
folder.chmod(0)
try:
    with modes_bind():
        eval(ask)
except TracklogError as error:
    print(type(error).__name__, error)
finally:
    folder.chmod(0o755)
"""


@pytest.mark.parametrize(
    ("part", "ask", "what"),
    [
        (
            "journal/storages",
            "registry.storage('memory:')",
            "the plugs of tracklog.journal.storages",
        ),
        (
            "index/indexes",
            "registry.index('sqlite::memory:')",
            "the plugs of tracklog.index.indexes",
        ),
        ("dialects", "registry.dialects()", "the plugs of tracklog.dialects"),
        ("dialects", "registry.dialect('awf')", "the plugs of tracklog.dialects"),
        ("journal/storages/memory.py", "registry.storage('memory:')", "the storage 'memory'"),
    ],
)
def test_plugs_that_cannot_be_read_are_reported_with_their_folder(tmp_path, part, ask, what):
    """Not as plugs that do not exist."""
    house = Path(registry.__file__).parents[1]
    shutil.copytree(house, tmp_path / "tracklog", ignore=shutil.ignore_patterns("__pycache__"))
    path = f"{tmp_path}:{Path(__file__).parents[1]}"
    ran = subprocess.run(
        [sys.executable, "-c", LISTS, part, ask],
        env={**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    hint = f"let this user read {tmp_path / 'tracklog' / part}"
    assert ran.stdout == f"BadPlug {what} cannot be read: Permission denied\n  {hint}\n", ran.stderr
