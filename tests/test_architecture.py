"""The rooms and the directions: who may import whom, and who may name whom."""

import ast
from pathlib import Path

import pytest

import tracklog
from tracklog import registry

SOURCE = Path(tracklog.__file__).parent
VOCABULARY = {"tracklog.event", "tracklog.fact", "tracklog.errors"}
SHELLS = ("cli", "collector", "hosts")
"""The rooms that may know processes, sockets, environment and exit codes."""

PLUGS = ("dialects", "folds", "stores", "indexes", "importers", "exporters", "hosts", "providers")
CROSSINGS = {
    ("tracklog.dialects.ralph", "tracklog.dialects.kahn_ci"),  # a profile builds on its base
}
SPEAKERS = {
    "tracklog.recorder": "awf",
    "tracklog.transcript": "awf",
    "tracklog.fanout": "awf",
    "tracklog.home": "tracklog",  # an operator's acts, on record
    "tracklog.importers": "tracklog",
    "tracklog.importing": "tracklog",
    "tracklog.importing_lines": "tracklog",
    "tracklog.recording": "awf",
    "tracklog.testing.exporters": "tracklog",  # facts of a test, as a run
}
"""Who may write which dialect, outside the dialect's own file."""

QUESTIONS = {
    "tracklog.answers",
    "tracklog.board",
    "tracklog.causes",
    "tracklog.kin",
    "tracklog.twins",
    "tracklog.diff",
    "tracklog.fleet",
    "tracklog.why",
    "tracklog.export",
}
"""What answers from the folds."""

IMPURE = {"os", "sys", "io", "time", "random", "secrets", "uuid", "pathlib", "asyncio", "socket"}
IMPURE |= {"subprocess", "threading", "tempfile", "shutil", "logging"}


def name_of(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in SOURCE.rglob("*.py")}


def imports(name: str, *, at_top: bool = False) -> set[str]:
    """What a module imports, by full name; lazily too, unless only the top is asked for."""
    tree = ast.parse(MODULES[name].read_text())
    found = set()
    for node in tree.body if at_top else ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name} imports relatively"
            whole = {f"{node.module}.{alias.name}" for alias in node.names}
            inner = whole & MODULES.keys()
            found |= inner if len(inner) == len(whole) else inner | {node.module}
    return found


def ours(name: str) -> set[str]:
    return {each for each in imports(name) if each.split(".")[0] == "tracklog"}


def speaks(name: str) -> str:
    """The dialect that a module, or its room, may write."""
    return SPEAKERS.get(name) or SPEAKERS.get(".".join(name.split(".")[:2]), "")


def room(name: str) -> str:
    parts = name.split(".")
    return parts[1] if len(parts) > 1 else ""


@pytest.mark.parametrize("name", sorted(VOCABULARY))
def test_the_vocabulary_imports_nothing_of_ours(name):
    assert ours(name) == set()


@pytest.mark.parametrize("name", sorted(MODULES))
def test_imports_point_inward(name):
    parts = name.split(".")
    for other in ours(name):
        target = other.split(".")
        if room(name) in PLUGS and room(name) != "hosts":
            own = f"tracklog.{room(name)}"
            shared = other.startswith(f"{own}._")  # what the folder's plugs have in common
            inside = shared or (len(parts) > 2 and other.startswith(f"{own}.{parts[2]}"))
            spoken = SPEAKERS.get(own) == target[-1] and room(other) == "dialects"
            # A provider's files are read with the normaliser of its streams.
            spoken |= room(name) == "importers" and target[1:] == ["providers", *parts[2:3]]
            allowed = other in VOCABULARY | {own} or (name, other) in CROSSINGS
            assert allowed or inside or spoken or other in LIBRARY, f"{name} imports {other}"
        elif name in QUESTIONS and room(other) == "folds":
            continue  # the questions know their folds
        elif name == "tracklog.names":
            continue  # the models of every dialect, under their public names
        elif room(other) in PLUGS and len(target) > 2:
            assert speaks(name) == target[2] or room(name) in SHELLS, f"{name} imports {other}"
        if room(other) in SHELLS:
            assert room(name) in (*SHELLS, "__main__"), f"{name} imports {other}"


LIBRARY = {"tracklog.lines", "tracklog.blobs", "tracklog.disk", "tracklog.frame", "tracklog.chain"}
LIBRARY |= {"tracklog.segments", "tracklog.segments.reader", "tracklog.segments.writer"}
LIBRARY |= {"tracklog.segments.upgrade"}
LIBRARY |= {"tracklog.retention", "tracklog.loss"}
LIBRARY |= {"tracklog.transcript.healing"}
LIBRARY |= {"tracklog.providers"}  # streams and files share one normaliser per provider
"""Plain tools that importers and stores may use: they know no plug."""


def test_there_are_no_import_cycles():
    graph = {
        name: {other for other in imports(name, at_top=True) if other in MODULES}
        for name in MODULES
    }
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        assert name not in trail, " -> ".join((*trail, name))
        if name not in done:
            for other in graph[name]:
                visit(other, (*trail, name))
            done.add(name)

    for name in graph:
        visit(name, ())


@pytest.mark.parametrize(
    "name",
    sorted(
        name
        for name in MODULES
        if room(name) in ("event", "fact", "errors", "dialects", "folds", "providers")
    ),
)
def test_the_core_is_pure(name):
    tops = {each.split(".")[0] for each in imports(name)}
    assert not tops & IMPURE
    calls = {
        node.func.id
        for node in ast.walk(ast.parse(MODULES[name].read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert not calls & {"open", "print", "input"}
    text = MODULES[name].read_text()
    for clock in ("async ", ".now(", ".utcnow(", ".today("):
        assert clock not in text


@pytest.mark.parametrize("name", sorted(n for n in MODULES if room(n) not in (*SHELLS, "__main__")))
def test_only_the_shells_know_the_terminal_and_the_environment(name):
    assert not {each.split(".")[0] for each in imports(name)} & {"click", "rich", "argparse"}
    text = MODULES[name].read_text()
    assert "os.environ" not in text
    assert "sys.exit" not in text


@pytest.mark.parametrize("name", sorted(MODULES))
def test_nobody_names_a_dialect_outside_its_own_file(name):
    """A string that is a dialect's name, anywhere but in that dialect or its sanctioned speaker."""
    names = set(registry.dialect_names()) - {"tracklog"}  # that one is also the program's name
    spoken = {
        node.value
        for node in ast.walk(ast.parse(MODULES[name].read_text()))
        if isinstance(node, ast.Constant) and node.value in names
    }
    own = {part.replace("_", "-") for part in name.split(".")} | {speaks(name)}
    assert spoken <= own


def test_a_module_begins_with_what_lives_in_it():
    for name, path in MODULES.items():
        assert ast.get_docstring(ast.parse(path.read_text())), name
