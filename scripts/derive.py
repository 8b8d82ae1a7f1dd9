"""Writes the files that are derived from the source; with --check, only says which are stale."""

import json
import sys
from pathlib import Path

import answer_types
import emitters
import reference
from tracklog.dialects.schemas import published
from tracklog.home import registry

SCHEMAS = Path(__file__).parents[1] / "contracts" / "schemas"
PINNED = frozenset({"transitions.schema.json"})
"""K29: these play the upstream; no command writes them."""


def derived() -> dict[Path, str]:
    """The text of every derived schema, by its path."""
    return {
        SCHEMAS / f"{name}.schema.json": json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
        for name, schema in published(registry.dialects()).items()
        if f"{name}.schema.json" not in PINNED
    }


def stale() -> list[str]:
    """What is missing, differs from what is derived, or is derived from nothing."""
    files = derived() | emitters.files() | reference.pages()
    differ = [path for path, text in files.items() if not path.exists() or path.read_text() != text]
    orphans = [
        path
        for path in SCHEMAS.glob("*.schema.json")
        if path not in files and path.name not in PINNED
    ]
    types = [] if answer_types.current() else [answer_types.FILE]
    return sorted(path.name for path in differ + orphans + types)


def main(arguments: list[str]) -> int:
    if arguments == ["--check"]:
        names = stale()
        if names:
            print(f"not as derived: {', '.join(names)}; run make derive", file=sys.stderr)
        return 1 if names else 0
    if arguments:
        print("usage: derive.py [--check]", file=sys.stderr)
        return 2
    for path, text in (derived() | emitters.files() | reference.pages()).items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    if not answer_types.current():
        answer_types.FILE.write_text(answer_types.text())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
