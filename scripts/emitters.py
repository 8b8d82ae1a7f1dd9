"""The emitters that other projects copy, each made of one template and the parts that it includes."""

import re
from pathlib import Path

CONTRACTS = Path(__file__).parents[1] / "contracts"
SOURCE = CONTRACTS / "source"
_INCLUDES = re.compile(r"(?:^# include \w+\.py\n)+", re.MULTILINE)


def files() -> dict[Path, str]:
    """The text of every emitter, by its path: `emit_kahn.py` gives `kahn_emit.py`."""
    return {
        CONTRACTS / f"{path.stem.removeprefix('emit_')}_emit.py": _emitter(path)
        for path in sorted(SOURCE.glob("emit_*.py"))
    }


def _emitter(template: Path) -> str:
    text = _INCLUDES.sub(_included, template.read_text())
    origin = f"contracts/source/{template.name}"
    return f"# Generated from {origin}: edit that and run `make derive`.\n{text}"


def _included(lines: re.Match[str]) -> str:
    names = [line.removeprefix("# include ") for line in lines[0].splitlines()]
    return "\n\n".join((SOURCE / name).read_text() for name in names)
