"""The samples: files under tests/samples, found by walking, never listed by name."""

import os
from dataclasses import fields
from pathlib import Path

import orjson

ROOT = Path(__file__).parents[1] / "samples"
REFRESH = "TRACKLOG_REFRESH" in os.environ
"""Set to write the expected facts anew; read the difference before it is committed."""


def of(kind: str) -> list[Path]:
    """The samples of all dialects that are good, bad or odd."""
    return sorted(ROOT.glob(f"dialects/*/{kind}/*.jsonl"))


def dialect_of(path: Path) -> str:
    return path.parent.parent.name


def name_of(path: Path) -> str:
    return f"{dialect_of(path)}/{path.stem}"


def lines_of(path: Path) -> list[bytes]:
    return [line for line in path.read_bytes().split(b"\n") if line]


def mark_of(path: Path) -> str:
    """What stands behind the @ of a sample's name: a finding, or JSON pointers with dots and +."""
    return path.stem.rpartition("@")[2]


def pointers_of(path: Path) -> list[str]:
    """Where a bad sample is at fault."""
    marks = mark_of(path).split("+")
    return ["/" + mark.replace(".", "/") if mark else "" for mark in marks]


def plain(fact) -> dict:
    """A fact as JSON, without what it does not say."""
    said = {
        field.name.rstrip("_"): getattr(fact, field.name)
        for field in fields(fact)
        if getattr(fact, field.name) != field.default
    }
    return orjson.loads(orjson.dumps({"fact": type(fact).__name__, **said}))
