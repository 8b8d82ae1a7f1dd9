"""Targets of the fuzzer that read files and requests of other programs.

YAML of hosts and alerts, databases of agents, archives of a journal, OpenTelemetry as protobuf.
"""

import contextlib
import sqlite3
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import zstandard

from tracklog.collector.alerts import rules
from tracklog.collector.alerts.tables import FIELDS
from tracklog.collector.otlp import Telemetry
from tracklog.formats.importers.otlp import wire
from tracklog.formats.importing import Importing
from tracklog.home.home import Home
from tracklog.hosts.fishbowl import scenario
from tracklog.hosts.openwop.agents import Agents
from tracklog.hosts.openwop.settings import Settings, read_settings
from tracklog.hosts.openwop.workflows import Workflows
from tracklog.hosts.workflow import loading
from tracklog.journal.archive.reader import ArchiveReader
from tracklog.journal.archive.shipping import Archiver
from tracklog.journal.archive.verify import verify_archive
from tracklog.model.errors import NoSuchObject, TracklogError

ROOT = Path(__file__).parents[1]
SAMPLES = ROOT / "tests" / "samples"
DATABASES = sorted(
    path
    for path in (SAMPLES / "importers").rglob("*")
    if path.suffix in (".db", ".vscdb") and path.is_file()
)
LINE = (
    b'{"ts":"2026-05-05T09:00:00.000Z","run_id":"r","event":"agent_run_start",'
    b'"agent_id":"a","task":"%d"}'
)
ALERTS = b"""rules:
- {name: failing, on: run, when: {status: failed}, for: 1m, to: [me]}
- {name: old, on: checkpoint, when: {age: {above: 3600}}, severity: critical, to: [me]}
targets:
  me: {url: "https://example.com/hook"}
"""
SETTINGS = b"agents: [agents]\nkeys: [{env: KEY, tenant: a}]\nmodels: {default: {url: http://a}}\n"

Target = Callable[[bytes], None]


def yaml(stack: contextlib.ExitStack) -> Target:
    """Files that hosts and alerts read; the first byte says which."""
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    path = folder / "file.yaml"
    readers: list[Callable[[], object]] = [
        lambda: loading.load(path),
        lambda: scenario.load(path),
        lambda: rules.load(path, FIELDS),
        lambda: _openwop(Settings(workflows=(path,))),
        lambda: _openwop(Settings(manifests=(path,))),
        lambda: read_settings(path, {"KEY": "k" * 20}),
    ]

    def read(data: bytes) -> None:
        path.write_bytes(data[1:])
        with contextlib.suppress(TracklogError):
            readers[(data[0] if data else 0) % len(readers)]()

    return read


def _openwop(settings: Settings) -> None:
    Workflows(settings, Agents(settings)).load()


def yaml_seeds() -> list[bytes]:
    found = {
        0: "workflow/*.yaml",
        1: "fishbowl/*.yaml",
        3: "openwop/*.yaml",
        4: "openwop/agents/*.yaml",
    }
    seeds = [
        bytes([number]) + path.read_bytes()
        for number, pattern in found.items()
        for path in sorted((ROOT / "examples").glob(pattern))
    ]
    odd = [b"a: 2026-13-45", b"[" * 300, b"a: " + b"9" * 4_400, b"? [a]\n: b", b"a: &b [*b, *b]"]
    seeds += [bytes([number]) + each for number in range(6) for each in odd]
    return [*seeds, b"\2" + ALERTS, b"\5" + SETTINGS]


def sqlite(stack: contextlib.ExitStack) -> Target:
    """Databases of agents: bytes of the file, or the value of one cell, are those of the input."""
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))

    def read(data: bytes) -> None:
        which, place = (data[0] if data else 0) % len(DATABASES), int.from_bytes(data[1:4], "big")
        path = folder / DATABASES[which].name
        whole = bytearray(DATABASES[which].read_bytes())
        if data[4:5] < b"\x80":
            at = place % len(whole)
            whole[at : at + len(data) - 5] = data[5:]
        path.write_bytes(whole)
        if data[4:5] >= b"\x80":
            _put_cell(path, place, data[5:])
        with Home("memory:") as home, contextlib.suppress(TracklogError):
            Importing(home).bring([path])

    return read


def _put_cell(path: Path, place: int, value: bytes) -> None:
    """Changes one cell of a database; half of them to text."""
    with contextlib.closing(sqlite3.connect(path)) as database:
        rows = database.execute("SELECT name FROM sqlite_master WHERE type='table'").fetchall()
        tables = [name for (name,) in rows if not name.startswith("sqlite_")]
        table = tables[place % len(tables)]
        columns = [row[1] for row in database.execute(f'PRAGMA table_info("{table}")')]
        column = columns[place // 7 % len(columns)]
        rows = database.execute(f'SELECT rowid FROM "{table}"').fetchall()  # noqa: S608
        if not rows:
            return
        (row,) = rows[place // 71 % len(rows)]
        given: object = value.decode("utf-8", "replace") if place % 2 else value
        with contextlib.suppress(sqlite3.Error):  # such as a column that must be unique
            database.execute(f'UPDATE "{table}" SET "{column}"=? WHERE rowid=?', (given, row))  # noqa: S608
            database.commit()


def sqlite_seeds() -> list[bytes]:
    contents = [
        b'{"type":"text","text":"a"}',
        b"",
        b'{"role":"user","content":[]}',
        b"\0" * 8,
        b"1",
    ]
    return [
        bytes([which, at, at * 7 % 256, at * 31 % 256, kind]) + content
        for which in range(len(DATABASES))
        for at in range(0, 256, 51)
        for kind in (0, 128)
        for content in contents
    ]


class Objects:
    """The objects of an archive, in memory."""

    url = "memory"

    def __init__(self, contents: dict[str, bytes]) -> None:
        self.contents = contents

    def put(self, name: str, content: bytes) -> None:
        self.contents[name] = content

    def create(self, name: str, content: bytes) -> bool:
        return self.contents.setdefault(name, content) is content

    def get(self, name: str) -> bytes:
        if name not in self.contents:
            raise NoSuchObject(f"{name} is not there", "")
        return self.contents[name]

    def has(self, name: str) -> bool:
        return name in self.contents

    def delete(self, name: str) -> None:
        self.contents.pop(name, None)

    def sizes(self, folder: str) -> dict[str, int]:
        start = f"{folder}/"
        return {
            name.removeprefix(start): len(content)
            for name, content in sorted(self.contents.items())
            if name.startswith(start) and "/" not in name.removeprefix(start)
        }


def archived() -> dict[str, bytes]:
    """The objects of a small archive with a blob and a tombstone."""
    objects = Objects({})
    with Home("memory:") as home:
        for turn in range(3):
            home.intake.admit([LINE % each for each in range(turn * 4, turn * 4 + 4)])
            if turn:
                home.store.erase(turn, reason="r", by="b", at="2026-05-05T09:00:00.000Z")
            Archiver(home.storage, objects).ship()
    return objects.contents


def archive(stack: contextlib.ExitStack) -> Target:
    """Archives with one object that was changed; records are changed before they are packed."""
    del stack
    good = archived()
    names = sorted(good)

    def read(data: bytes) -> None:
        place, content = (data[0] if data else 0), data[1:]
        name = names[place // 2 % len(names)]
        if place % 2:
            content = zstandard.ZstdCompressor().compress(content)
        objects = Objects({**good, name: content})
        with contextlib.suppress(TracklogError):
            verify_archive(objects)
        with contextlib.suppress(TracklogError):
            reader, after = ArchiveReader(objects), 0
            list(reader.links())
            while frames := reader.read(after, 100):
                after += len(frames)

    return read


def archive_seeds() -> list[bytes]:
    seeds = []
    for number, (_, content) in enumerate(sorted(archived().items())):
        seeds.append(bytes([number * 2]) + content)
        if content[:4] == b"\x28\xb5\x2f\xfd":
            plain = zstandard.ZstdDecompressor().stream_reader(content, read_across_frames=True)
            seeds.append(bytes([number * 2 + 1]) + plain.read())
    return seeds


def otlp(stack: contextlib.ExitStack) -> Target:
    """OpenTelemetry as protobuf; the first byte says which signal."""
    home = stack.enter_context(Home("memory:"))
    telemetry = Telemetry(home)
    stack.callback(telemetry.close)
    signals: list[wire.Signal] = ["traces", "logs"]

    def read(data: bytes) -> None:
        with contextlib.suppress(wire.Undecodable):
            telemetry.take(signals[(data[0] if data else 0) % 2], data[1:], False)

    return read


def otlp_seeds() -> list[bytes]:
    sys.path.insert(0, str(ROOT / "tests"))
    import orjson  # noqa: PLC0415

    from support.telemetry import as_protobuf  # noqa: PLC0415  # the reference implementation

    seeds = []
    keys = {"traces": "resourceSpans", "logs": "resourceLogs"}
    for path in sorted((SAMPLES / "otlp").glob("*.json")):
        for sent in orjson.loads(path.read_bytes())["sent"]:
            signal = sent["to"].removeprefix("/v1/")
            if signal in keys:
                number = list(keys).index(signal)
                seeds.append(bytes([number]) + as_protobuf(signal, sent["body"]))
    return seeds


SOURCES = {
    "yaml": (yaml, yaml_seeds),
    "sqlite": (sqlite, sqlite_seeds),
    "archive": (archive, archive_seeds),
    "otlp": (otlp, otlp_seeds),
}
