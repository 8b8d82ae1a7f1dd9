"""Bytes that recovery after a crash moved aside: reported until an operator accepts them."""

from collections.abc import Sequence
from pathlib import Path

import orjson

from tracklog.journal.disk import Disk, write_file


def pieces(home: Path) -> list[Path]:
    """The files in quarantine that nobody has accepted yet, by name."""
    try:
        paths = sorted(path for path in (home / "quarantine").iterdir() if path.is_file())
    except FileNotFoundError:
        return []
    accepted = set(_accepted(home)) if paths else set()
    return [path for path in paths if _name(path) not in accepted]


def accept(home: Path, files: Sequence[Path], *, by: str, at: str) -> None:
    """Records that an operator has seen these files."""
    entries = [orjson.dumps({"file": _name(path), "by": by, "at": at}) for path in files]
    path = home / "accepted"
    earlier = path.read_bytes() if path.exists() else b""
    write_file(Disk(), path, b"\n".join([earlier.rstrip(b"\n"), *entries, b""]).lstrip(b"\n"))


def _name(path: Path) -> str:
    """The file with its size: a name may be used again when the file was removed."""
    return f"{path.name} {path.stat().st_size}"


def _accepted(home: Path) -> list[str]:
    try:
        lines = (home / "accepted").read_bytes().splitlines()
    except FileNotFoundError:
        return []
    names = []
    for line in lines:
        try:
            names.append(orjson.loads(line)["file"])
        except (orjson.JSONDecodeError, KeyError, TypeError):
            continue  # a damaged line accepts nothing
    return names
