"""The emitters that other projects copy: one file each, made of a template or of several modules."""

import re
from collections import defaultdict
from pathlib import Path

from tracklog import __version__
from tracklog.cli.emitter import EMITTERS

CONTRACTS = Path(__file__).parents[1] / "contracts"
SOURCE = CONTRACTS / "source"
TYPESCRIPT = CONTRACTS / "ts" / "src"
_INCLUDES = re.compile(r"(?:^# include \w+\.py\n)+", re.MULTILINE)
_IMPORT = re.compile(r'^import (type )?\{([^}]*)\} from "([^"]+)";\n', re.MULTILINE)
_LISTED = re.compile(r'^export \{([^}]*)\} from "\./emit/([\w-]+)\.js";\n', re.MULTILINE)
_ALL = re.compile(r'^export \* from "\./emit/([\w-]+)\.js";\n', re.MULTILINE)
_EXPORTED = re.compile(
    r"^export ((?:async )?(?:const|class|function|interface|type) (\w+))", re.MULTILINE
)
_AGAIN = re.compile(r"^export (?:type )?\{[^}]*\};\n", re.MULTILINE)
_ABOUT = re.compile(r"\A/\*\* (.*) \*/\n")


def files() -> dict[Path, str]:
    """The text of every emitter, by its path."""
    return {CONTRACTS / file: _headed(name, file) for name, file in EMITTERS.items()}


def _headed(name: str, file: str) -> str:
    """An emitter below the lines that say what it is; the first names its version."""
    mark = "//" if file.endswith(".ts") else "#"
    if file.endswith(".ts"):
        origin, text = "contracts/ts/src/emit", _typescript()
    else:
        template = SOURCE / f"emit_{file.removesuffix('_emit.py')}.py"
        origin = f"contracts/source/{template.name}"
        text = _INCLUDES.sub(_included, template.read_text())
    return (
        f"{mark} tracklog {__version__}, emitter {name}; `tracklog emitter {name}` prints it.\n"
        f"{mark} Generated from {origin}: edit that and run `make derive`.\n{text}"
    )


def _included(lines: re.Match[str]) -> str:
    names = [line.removeprefix("# include ") for line in lines[0].splitlines()]
    return "\n\n".join((SOURCE / name).read_text() for name in names)


def _typescript() -> str:
    """The modules of the TypeScript emitter as one module: each after those that it imports."""
    index = (TYPESCRIPT / "emit.ts").read_text()
    modules = {path.stem: path.read_text() for path in sorted((TYPESCRIPT / "emit").glob("*.ts"))}
    public = {_bare(name) for names, _ in _LISTED.findall(index) for name in _split(names)}
    for module in _ALL.findall(index):
        public |= {name for _, name in _EXPORTED.findall(modules[module])}
    imports: dict[str, set[str]] = defaultdict(set)
    parts: dict[str, str] = {}

    def add(module: str) -> None:
        for kind, names, source in _IMPORT.findall(modules[module]):
            if source.startswith("./"):
                add(Path(source).stem)
            else:
                imports[source] |= {f"{kind}{name}" for name in _split(names)}
        parts.setdefault(module, _part(modules[module], public))

    for module in modules:
        add(module)
    about = _ALL.sub("", _LISTED.sub("", index)).strip()
    heads = [
        f'import {{ {", ".join(sorted(imports[source], key=_bare))} }} from "{source}";'
        for source in sorted(imports)
    ]
    return "\n\n".join([about, "\n".join(heads), *parts.values()]) + "\n"


def _part(text: str, public: set[str]) -> str:
    """A module without its imports, and with the exports that are public."""
    text = _AGAIN.sub("", _IMPORT.sub("", _ABOUT.sub(r"// \1\n", text)))
    text = _EXPORTED.sub(lambda found: found[0] if found[2] in public else found[1], text)
    return re.sub(r"\n{3,}", "\n\n", text).strip()


def _split(names: str) -> list[str]:
    return [name.strip() for name in names.split(",") if name.strip()]


def _bare(name: str) -> str:
    return name.removeprefix("type ").split(" as ")[0]
