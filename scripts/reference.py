"""The reference pages, made of what the source says of itself."""

import ast
import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from tracklog import _API, Leases, Recorder, Scope, Tape, log
from tracklog.cli import main, tracklog
from tracklog.cli._groups import grouped
from tracklog.collector.openapi import ABOUT_HEADER, HEADER, VERSION, document
from tracklog.collector.routes import ROUTES
from tracklog.dialects import Dialect
from tracklog.dialects.checking import LocatedFinding
from tracklog.dialects.schemas import schema_of
from tracklog.formats import registry as formats
from tracklog.home import registry
from tracklog.journal import checkpoints, merkle
from tracklog.model import errors
from tracklog.model.event import Finding
from tracklog.model.problems import CODES
from tracklog.web.routing import Param, Route

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "docs" / "reference"
README = ROOT / "README.md"
FORMAT = PAGES / "journal-format.md"
ARCHITECTURE = ROOT / "docs" / "architecture.md"
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
_PATHS = re.compile(r"(?:[a-z_]+\.)+(?=[A-Za-z])")  # of modules, before a name
SOURCE = ROOT / "src" / "tracklog"
SAMPLES = ROOT / "tests" / "samples" / "dialects"


def pages() -> dict[Path, str]:
    """The text of every reference page, by its path."""
    made = {
        "cli": _cli(),
        "dialects": _dialects(),
        "errors": _errors(),
        "http": _http(),
        "importers": _importers(),
        "python": _python(),
    }
    return {PAGES / f"{name}.md": text for name, text in made.items()} | {
        README: _readme(),
        FORMAT: _format(),
        ARCHITECTURE: _architecture(),
        CONTRIBUTING: _filled(CONTRIBUTING.read_text(), "rooms", _rooms()),
    }


def rooms() -> tuple[str, ...]:
    """The rooms in their order, from the test that holds everybody to it."""
    tree = ast.parse((ROOT / "tests" / "test_architecture.py").read_text())
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "ROOMS":
            order: tuple[str, ...] = ast.literal_eval(node.value)
            return order
    raise LookupError("tests/test_architecture.py has no ROOMS")


def _first_sentence(path: Path) -> str:
    """What a module says of itself in its first sentence or lines, on one line."""
    text = ast.get_docstring(ast.parse(path.read_text())) or ""
    return " ".join(text.split("\n\n")[0].split()).replace("|", "\\|")


def _rooms() -> str:
    rows = ["| room | holds |", "|---|---|"]
    for room in rooms():
        about = _first_sentence(SOURCE / room / "__init__.py")
        rows.append(f"| [`{room}/`](src/tracklog/{room}) | {about} |")
    return "\n".join(rows)


def _modules(room: str) -> str:
    """Every module of a room with its sentence, a folder with its files, and the verbs by name."""
    rows, verbs = ["| module | holds |", "|---|---|"], []
    for path in sorted((SOURCE / room).iterdir()):
        if path.is_dir() and (path / "__init__.py").is_file():
            about = _first_sentence(path / "__init__.py")
            rows.append(f"| `{path.name}/` | {about} Files: {', '.join(_files(path))}. |")
        elif path.suffix == ".py" and path.name != "__init__.py":
            if room == "cli" and not path.name.startswith("_"):
                verbs.append(f"`{path.stem}`")
            else:
                rows.append(f"| `{path.stem}` | {_first_sentence(path)} |")
    if verbs:
        rows.append(
            f"\nCommands with a file of their own (the others are made from their question in `answers/`): {', '.join(verbs)}."
        )
    return "\n".join(rows)


def _files(folder: Path) -> list[str]:
    """The modules and folders in a folder of a room."""
    return [
        f"`{path.name}/`" if path.is_dir() else f"`{path.stem}`"
        for path in sorted(folder.iterdir())
        if (path / "__init__.py").is_file() or (path.suffix == ".py" and path.name != "__init__.py")
    ]


def _architecture() -> str:
    """The page on the rooms: its tables are made from the source."""
    parts = []
    for number, room in enumerate(rooms(), 1):
        about = _first_sentence(SOURCE / room / "__init__.py")
        parts.append(f"### {number}. `{room}/`\n\n{about}\n\n{_modules(room)}\n")
    return _filled(ARCHITECTURE.read_text(), "rooms", "\n".join(parts).rstrip("\n"))


def _readme() -> str:
    """The README with current tables of dialects and of verbs."""
    rows = [
        "| dialect | what it records | kinds of event | fields it does not define |",
        "|---|---|---|---|",
    ]
    for dialect in registry.dialects():
        known, policy = len(dialect.kinds), dialect.policy
        others = f"{known}, and any other" if known else "any"
        kinds = f"only these {known}" if policy.kinds == "closed" else others
        fields = "are refused" if policy.fields == "closed" else "are stored"
        rows.append(f"| `{dialect.name}` | {dialect.about} | {kinds} | {fields} |")
    text = _filled(README.read_text(), "dialects", "\n".join(rows))
    return _filled(text, "verbs", _groups())


def _groups() -> str:
    """The groups of verbs, from the table that the help is made of."""
    rows = ["| to | use |", "|---|---|"]
    for group, members in grouped(tracklog.list_commands(click.Context(tracklog))):
        verbs = ", ".join(f"`{verb}`" for verb in members)
        rows.append(f"| **{group.name}**: {group.about} | {verbs} |")
    return "\n".join(rows)


def _format() -> str:
    """The page on the journal's format with what the arithmetic says of itself."""
    page = _filled(FORMAT.read_text(), "chain", f"```text\n{inspect.getdoc(merkle)}\n```")
    return _filled(page, "checkpoints", f"```text\n{inspect.getdoc(checkpoints)}\n```")


def _filled(page: str, name: str, text: str) -> str:
    """A page written by hand, with one derived part."""
    opening = f"<!-- {name}: derived by scripts/derive.py -->\n"
    before, start, rest = page.partition(opening)
    _, end, after = rest.partition(f"<!-- /{name} -->")
    return f"{before}{start}{text}\n{end}{after}"


def _cli() -> str:
    _, _, codes = (inspect.getdoc(main) or "").partition("\n\n")
    parts = [
        "# The command line\n\nWhat `tracklog COMMAND --help` prints. [Environment variables](environment.md) have a page of their own.\n",
        f"{_groups()}\n",
        f"## Exit codes\n\n{codes}\n",
    ]
    # The group's own settings, too: a verb remembers the help option of whoever asked first.
    settings = {**tracklog.context_settings, "terminal_width": 90, "max_content_width": 90}
    root = click.Context(tracklog, info_name="tracklog", **settings)
    return "\n".join([*parts, *_helps(tracklog, root)])


def _helps(group: click.Group, parent: click.Context, path: str = "") -> Iterator[str]:
    """The help of every command below a group, each under its name."""
    for name in group.list_commands(parent):
        command = group.get_command(parent, name)
        assert command is not None
        context = click.Context(
            command, info_name=name, parent=parent, terminal_width=90, max_content_width=90
        )
        help_text = "\n".join(line.rstrip() for line in command.get_help(context).splitlines())
        yield f"## {path}{name}\n\n```text\n{help_text}\n```\n"
        if isinstance(command, click.Group):
            yield from _helps(command, context, f"{path}{name} ")


def _importers() -> str:
    parts = [
        "# Importers\n",
        "What `tracklog import` reads; [how to use it](../how-to/import-agent-logs.md).",
        "*Mapping* is the version of an importer; when it changes, sources are read again.",
        "*Cleaned* files were recorded by the real program and sanitised afterwards.\n",
    ]
    parts += ["| importer | reads | tested with | mapping |", "|---|---|---|---|"]
    for each in formats.importers():
        parts.append(f"| `{each.name}` | {each.about} | {each.proven} | {each.mapping} |")
    return "\n".join(parts) + "\n"


def _python() -> str:
    """Made of the docstrings of the public API."""
    parts = [f"# Python\n\n{inspect.getdoc(log)}\n"]
    parts += [_callable(f"tracklog.{each.__name__}", each) for each in (log.open, log.check)]
    parts.append(_class("Log", log.Log))
    for title, modules in GROUPS.items():
        parts.append(f"## {title}\n")
        names = [(name, module) for module in modules for name in _API[module]]
        rows = [row for name, module in names if (row := _name(name, module))]
        parts += ["| name | what it is |", "|---|---|", *rows, ""]
    documented = (Recorder, Scope, Tape, Leases)
    parts += [_class(each.__name__, each) for each in documented]
    return "\n".join(parts).rstrip("\n") + "\n"


GROUPS = {
    "Functions and types of the log": ("tracklog.log",),
    "Records and events": (
        "tracklog.journal.frame",
        "tracklog.model.event",
        "tracklog.intake.verdicts",
        "tracklog.reading.walk",
        "tracklog.journal.stores",
    ),
    "Facts": ("tracklog.model.fact",),
    "Errors": ("tracklog.model.errors",),
    "Recording a run": (
        "tracklog.recording.recorder",
        "tracklog.recording.recorder.scopes",
        "tracklog.recording.transcript.views",
    ),
    "Running agents": (
        "tracklog.journal.leases",
        "tracklog.home.plugs",
        "tracklog.recording.tape",
        "tracklog.formats.providers",
    ),
    "Models of the contracts": ("tracklog.names",),
}
"""The parts of the page, and the modules whose public names stand in each."""
assert {module for modules in GROUPS.values() for module in modules} == set(_API)


def _name(name: str, module: str) -> str:
    """A row of the table: the name, and the first sentence of what is said of it."""
    if (name, module) in (("Log", log.__name__), ("open", log.__name__), ("check", log.__name__)):
        return ""  # described in full
    path = Path(import_module(module).__file__ or "")
    text = " ".join(_said_of(name, path).split("\n\n")[0].split()).replace("|", "\\|")
    assert text, f"tracklog.{name} has no docstring"
    return f"| `{name}` | {text} |"


def _said_of(name: str, path: Path) -> str:
    """The docstring of a class, a function or a name in a module, wherever it was imported from."""
    tree = ast.parse(path.read_text())
    for place, node in enumerate(tree.body):
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name:
            return ast.get_docstring(node) or ""
        if isinstance(node, ast.Assign | ast.AnnAssign):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            after = tree.body[place + 1] if place + 1 < len(tree.body) else None
            if ast.unparse(target) == name and isinstance(after, ast.Expr):
                value = after.value
                if isinstance(value, ast.Constant) and isinstance(value.value, str):
                    return inspect.cleandoc(value.value)
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    file = import_module(node.module).__file__ or ""
                    return _said_of(alias.name, Path(file))
    return ""


def _class(name: str, each: type) -> str:
    """A class with its properties and its methods."""
    parts = [f"## `tracklog.{name}`\n\n{inspect.getdoc(each)}\n"]
    for called, value in vars(each).items():
        if called.startswith("_") or not getattr(value, "__doc__", None):
            continue
        if isinstance(value, property):
            parts.append(f"### `{name}.{called}`\n\n{inspect.getdoc(value)}\n")
        elif inspect.isfunction(value) or isinstance(value, classmethod):
            method = value.__func__ if isinstance(value, classmethod) else value
            parts.append(_callable(f"{name}.{called}", method))
    return "\n".join(parts)


def _callable(name: str, each: Any) -> str:
    return f"### `{name}{_signature(each)}`\n\n{inspect.getdoc(each)}\n"


def _signature(each: Any) -> str:
    """The signature without `self`, and types by their own names."""
    found = inspect.signature(each)
    params = [
        param.replace(annotation=_unquoted(param.annotation))
        for name, param in found.parameters.items()
        if name not in ("self", "cls")
    ]
    returned = _unquoted(found.return_annotation)
    text = _PATHS.sub("", str(found.replace(parameters=params, return_annotation=returned)))
    return re.sub(r"Unpack\[(\w+)\]", r"\1", text)  # an unpacked mapping of keywords


class _Unquoted(str):
    """The text of a type that is only known to type checkers."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _unquoted(annotation: Any) -> Any:
    return _Unquoted(annotation) if isinstance(annotation, str) else annotation


def _http() -> str:
    """Made of the table that mounts the routes."""
    parts = [
        "# HTTP\n\nThe requests that `tracklog serve` answers, at http://127.0.0.1:4318 unless you choose another address.",
        "`GET /api/openapi.json` returns the same description as an OpenAPI 3.1 document.",
        'An error is `{"error": …, "hint": …}`: what is wrong, and what to do next.',
        f"Every answer has the header `{HEADER}: {VERSION}`: {ABOUT_HEADER[0].lower()}{ABOUT_HEADER[1:]}",
        "[Who may use the collector](../how-to/security.md) is about tokens, origins and the [limits](../how-to/security.md#limits) of a request.\n",
    ]
    made = document(ROUTES)
    for route in ROUTES:
        parts.append(f"## {route.method} `{route.path}`\n\n{route.about}\n")
        if route.takes:
            kinds = ", ".join(f"`{kind.decode()}`" for kind in sorted(route.takes))
            parts.append(f"Body: {kinds}.\n")
        if route.params:
            parts += ["| parameter | type | default | meaning |", "|---|---|---|---|"]
            parts += [_param(param) for param in route.params]
            parts.append("")
        parts.append(f"Answer: `{route.gives}`{_answer(made, route)}.\n")
        if route.answers:
            parts += ["| status | means |", "|---|---|"]
            parts += [f"| {status} | {about} |" for status, about in sorted(route.answers.items())]
            parts.append("")
    parts.append("# Answers and bodies\n\nEvery field is always there, unless it is optional.\n")
    schemas = made["components"]["schemas"]
    for name, schema in schemas.items():
        about = f"{schema['description']}\n\n" if "description" in schema else ""
        parts.append(f"## {name}\n\n{about}{_fields(schema, optional=True)}")
    return "\n".join(parts)


def _answer(made: dict[str, Any], route: Route) -> str:
    """What a route answers with, by the name of its schema."""
    operation = made["paths"][route.path][route.method.lower()]
    schema = operation["responses"]["200"]["content"][route.gives]["schema"]
    named = "$ref" in schema or schema.get("items", {}).get("$ref") or "anyOf" in schema
    return f", {_type(schema, {}, linked=True)}" if named else ""


def _param(param: Param) -> str:
    name = f"**{param.name}**" if param.required else param.name
    kind = " · ".join(f"`{option}`" for option in param.options) or param.kind
    usual = "" if param.default is None else f"`{str(param.default).lower()}`"
    return f"| {name} | {kind} | {usual} | {param.about.replace('|', chr(92) + '|')} |"


def _errors() -> str:
    parts = [f"# Errors\n\n```text\n{inspect.getdoc(errors)}\n```\n"]
    for name, kind in vars(errors).items():
        if isinstance(kind, type) and issubclass(kind, Exception):
            parts.append(f"- **{name}**: {inspect.getdoc(kind)}")
    parts.append(
        "\n## Codes of problems\n\nA refused line has one problem or more, each with a code. "
        "`check`, `record --json` and the HTTP answers show it. A code is never renamed. The code of "
        "a finding is its name, see [dialects](dialects.md).\n\n| code | meaning |\n|---|---|"
    )
    parts += [f"| `{code}` | {about} |" for code, about in CODES.items()]
    return "\n".join(parts) + "\n"


def _dialects() -> str:
    head = (
        "# Dialects\n\nA dialect is an event format. The keys in bold are required. "
        "At the end of each dialect is the list of its findings: what `tracklog check` and "
        "`tracklog findings` report of lines that are accepted.\n"
    )
    return "\n".join([head, *map(_dialect, registry.dialects())])


def _dialect(dialect: Dialect) -> str:
    policy = dialect.policy
    identity = {
        "none": "Its events have no identity: two equal lines are two events.",
        "refuse": "A second, different line with the same identity is refused.",
        "keep": "A second, different line with the same identity is recorded, with a finding.",
    }[policy.identity]
    kinds = "accepted" if policy.kinds == "open" else "refused"
    others = "stored" if policy.fields == "open" else "refused"
    parts = [f"## {dialect.name}\n\n{dialect.about}\n"]
    parts.append(
        f"The key `{dialect.kind_key}` holds the kind of an event. Other kinds are {kinds}, "
        f"and keys that are not listed are {others}.\n"
        f"Its runs belong to the family `{dialect.family}`.\n{identity}\n"
    )
    shapes = dict(dialect.kinds)
    if policy.kinds == "open":
        shapes["any other kind"] = dialect.frame
    seen: dict[type, list[str]] = {}
    for kind, shape in shapes.items():
        seen.setdefault(shape, []).append(kind)
    for shape, named in seen.items():
        title = ", ".join(f"`{kind}`" if kind in dialect.kinds else kind for kind in named)
        parts.append(f"### {title}\n\n{inspect.getdoc(shape) or ''}\n\n{_fields(schema_of(shape))}")
    parts.append(f"### Findings of {dialect.name}\n\n{_findings(dialect)}")
    return "\n".join(parts)


def _findings(dialect: Dialect) -> str:
    """A table of the findings that the samples of a dialect are made for, each with a message."""
    examples: dict[str, Finding] = {}
    for path in sorted(SAMPLES.glob(f"{dialect.name}/odd/*.jsonl")):
        name = path.stem.rpartition("@")[2]
        for each in log.check(path.read_bytes(), dialect.name):
            if isinstance(each, LocatedFinding) and each.finding.name == name:
                examples.setdefault(name, each.finding)
    rows = ["| finding | level | message, for example |", "|---|---|---|"]
    for name, finding in sorted(examples.items()):
        text = finding.message.replace("|", "\\|")
        rows.append(f"| `{name}` | {finding.level} | {text} |")
    return "\n".join(rows) + "\n"


def _fields(schema: dict[str, Any], *, optional: bool = False) -> str:
    """A table of the keys: required ones are bold, or, if asked, the others are called optional."""
    definitions = schema.get("$defs", {})
    required = schema.get("required", [])
    rows = ["| key | type | meaning |", "|---|---|---|"]
    for key, value in schema.get("properties", {}).items():
        name = f"**{key}**" if key in required else key
        if optional:
            name = key if key in required else f"{key} (optional)"
        about = str(value.get("description", "")).replace("\n", " ").replace("|", "\\|")
        rows.append(f"| {name} | {_type(value, definitions, linked=optional)} | {about} |")
    return "\n".join(rows) + "\n"


def _type(value: dict[str, Any], definitions: dict[str, Any], *, linked: bool = False) -> str:
    if "$ref" in value:
        name = value["$ref"].rpartition("/")[2]
        inner = definitions.get(name, {})
        if "enum" in inner:
            return _type(inner, definitions, linked=linked)
        return f"[{name}](#{name.lower()})" if linked else name
    if "const" in value:
        return f"`{value['const']}`"
    if "enum" in value:
        return " · ".join(f"`{option}`" for option in value["enum"])
    for union in ("anyOf", "oneOf"):
        if union in value and "type" not in value:
            each = (_type(each, definitions, linked=linked) for each in value[union])
            return " or ".join(dict.fromkeys(each))
    if value.get("type") == "array":
        return f"list of {_type(value.get('items', {}), definitions, linked=linked)}"
    values = value.get("additionalProperties")
    if linked and isinstance(values, dict):
        return f"{_type(values, definitions, linked=True)} by name"
    if isinstance(value.get("type"), list):
        return " or ".join(value["type"])
    return str(value.get("type", "any JSON"))
