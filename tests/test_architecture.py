"""The rooms and the directions: who may import whom, and who may name whom."""

import ast
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path

import pytest

import tracklog
from support.ruling import for_each
from tracklog.home import registry

SOURCE = Path(tracklog.__file__).parent
ROOMS = (
    "model",
    "dialects",
    "journal",
    "intake",
    "folds",
    "reading",
    "index",
    "home",
    "answers",
    "recording",
    "formats",
    "web",
    "hosts",
    "demo",
    "collector",
    "cli",
    "testing",
)
"""In this order: a room imports rooms that stand before it, and itself."""

SHELLS = ("cli", "collector", "hosts", "web")
"""The rooms that may know processes, sockets, environment and exit codes."""

PLUGS = (
    "dialects",
    "folds",
    "journal.storages",
    "index.indexes",
    "formats.importers",
    "formats.exporters",
    "formats.hooks",
    "formats.adapters",
    "formats.providers",
    "hosts",
    "collector.publishers",
)
"""Folders of plugs: a plug imports no other plug of its folder."""

OF_A_PROVIDER = ("formats.importers", "formats.hooks")
CROSSINGS = {
    ("tracklog.dialects.ralph", "tracklog.dialects.kahn_ci"),  # a profile builds on its base
}
SPEAKERS = {
    "tracklog.recording": "awf",
    "tracklog.formats.exec": "awf",
    "tracklog.home": "tracklog",  # what an operator did, as notes
    "tracklog.formats.hooks": "tracklog",
    "tracklog.formats.importers": "tracklog",
    "tracklog.formats.importing": "tracklog",
    "tracklog.formats.importing_lines": "tracklog",
    "tracklog.testing": "tracklog",  # facts of a test, as a run
    "tracklog.hosts.fishbowl": "fishbowl",
    "tracklog.hosts.openwop": "openwop",
    "tracklog.hosts.workflow": "awf",
}
"""Who may write which dialect, outside the dialect's own file."""

IMPURE = {"os", "sys", "io", "time", "random", "secrets", "uuid", "pathlib", "asyncio", "socket"}
IMPURE |= {"subprocess", "threading", "tempfile", "shutil", "logging"}
PURE = ("model", "dialects", "folds", "formats.providers")
FILES = {"__init__.py", "__main__.py", "adapters.py", "log.py", "names.py", "py.typed"}
"""What stands beside the rooms."""


def name_of(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in SOURCE.rglob("*.py")}


@cache
def tree_of(name: str) -> ast.Module:
    return ast.parse(MODULES[name].read_text())


@pytest.fixture(scope="module", autouse=True)
def forgets():
    """The trees of all modules take the memory of as many tests again."""
    yield
    tree_of.cache_clear()


@cache
def imports(name: str, *, at_top: bool = False) -> set[str]:
    """What a module imports, by full name; lazily and for types too, unless only the top counts."""
    tree = tree_of(name)
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
    """The dialect that a module, or what it is part of, may write."""
    parts = name.split(".")
    wholes = (".".join(parts[:end]) for end in range(len(parts), 1, -1))
    return next((SPEAKERS[each] for each in wholes if each in SPEAKERS), "")


def room(name: str) -> str:
    parts = name.split(".")
    return parts[1] if len(parts) > 1 else ""


def plug(name: str) -> tuple[str, str] | None:
    """The folder of plugs that a module stands in, and the plug that it is or is part of."""
    for folder in PLUGS:
        inside = name.removeprefix(f"tracklog.{folder}.")
        if inside != name and not inside.startswith("_"):
            first = inside.split(".")[0]
            return None if folder == "dialects" and first in registry.MACHINERY else (folder, first)
    return None


def within(name: str, folders: tuple[str, ...]) -> bool:
    return any(f"{name}.".startswith(f"tracklog.{each}.") for each in folders)


def test_the_package_holds_the_rooms_and_few_files():
    built = {"console", "__pycache__"}  # made by the set-up
    here = {path.name for path in SOURCE.iterdir()} - built
    assert here == set(ROOMS) | FILES


@for_each(ROOMS)
def test_a_room_has_its_tests_in_a_folder_of_its_name(room):
    assert list((Path(__file__).parent / room).glob("test_*.py"))


@for_each(ROOMS)
def test_a_room_says_in_a_sentence_what_it_holds(room):
    text = ast.get_docstring(ast.parse((SOURCE / room / "__init__.py").read_text()))
    assert text
    assert text.split("\n")[0].endswith(".")


@for_each(sorted(name for name in MODULES if room(name) in ROOMS))
def test_a_room_imports_only_rooms_before_it(name):
    before = ROOMS[: ROOMS.index(room(name)) + 1]
    for other in ours(name):
        assert room(other) in ("", *before), f"{name} imports {other}"


@for_each(sorted(MODULES))
def test_no_plug_imports_another_of_its_folder(name):
    own = plug(name)
    for other in ours(name):
        theirs = plug(other)
        apart = own is None or theirs is None or own[0] != theirs[0]
        assert apart or own == theirs or (name, other) in CROSSINGS, f"{name} imports {other}"


@for_each(sorted(MODULES))
def test_only_its_speakers_and_questions_import_a_plug(name):
    """A dialect is imported by who writes it, a fold by the question that it answers."""
    for other in ours(name):
        theirs = plug(other)
        if theirs is None or theirs == plug(name) or (name, other) in CROSSINGS:
            continue
        folder, which = theirs
        allowed = (
            name
            in (
                "tracklog.log",
                "tracklog.names",
            )  # the models of every dialect, under their public names
            or room(name) in SHELLS
            or (folder == "dialects" and speaks(name) == which)
            or (folder == "folds" and room(name) in ("answers", "formats"))
            # A provider's files are read with the normaliser of its streams.
            or (
                folder == "formats.providers"
                and plug(name) in [(each, which) for each in OF_A_PROVIDER]
            )
        )
        assert allowed, f"{name} imports {other}"


@for_each(sorted(name for name in MODULES if room(name) == "hosts"))
def test_a_host_imports_only_the_public_api_the_answers_and_the_shared_router(name):
    """That ours can be written so is the proof that an outside author can write one."""
    for other in ours(name):
        public = other == "tracklog" or within(other, ("hosts", "answers", "web"))
        assert public, f"{name} imports {other}"


@for_each(sorted(name for name in MODULES if room(name) == "hosts"))
def test_a_host_uses_of_the_package_only_public_names(name):
    tree = tree_of(name)
    names = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "tracklog"
        for alias in node.names
    }
    assert names <= {*tracklog._MODULES, "__version__"}


@for_each(sorted(name for name in MODULES if room(name) in ROOMS))
def test_only_the_outer_rooms_use_the_public_api(name):
    """A room of the core that imported it would import rooms that stand behind it."""
    if room(name) not in ("web", "hosts", "demo", "collector", "cli", "testing"):
        tree = tree_of(name)
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module == "tracklog":
                modules = {each.name for each in node.names if f"tracklog.{each.name}" in MODULES}
                assert {each.name for each in node.names} <= {"__version__", *modules}


def test_the_public_names_are_the_same_for_a_type_checker():
    tree = tree_of("tracklog")
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    typed = {
        alias.name: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert typed == tracklog._MODULES


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


@for_each(sorted(name for name in MODULES if within(name, PURE)))
def test_the_core_is_pure(name):
    tops = {each.split(".")[0] for each in imports(name)}
    assert not tops & IMPURE
    calls = {
        node.func.id
        for node in ast.walk(tree_of(name))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert not calls & {"open", "print", "input"}
    text = MODULES[name].read_text()
    for clock in ("async ", ".now(", ".utcnow(", ".today("):
        assert clock not in text


@for_each(sorted(n for n in MODULES if room(n) not in (*SHELLS, "__main__")))
def test_only_the_shells_know_the_terminal_and_the_environment(name):
    assert not {each.split(".")[0] for each in imports(name)} & {"click", "rich", "argparse"}
    text = MODULES[name].read_text()
    assert "os.environ" not in text
    assert "sys.exit" not in text


@for_each(sorted(MODULES))
def test_nobody_names_a_dialect_outside_its_own_file(name):
    """A string that is a dialect's name, anywhere but in that dialect or its sanctioned speaker."""
    names = set(registry.dialect_names()) - {"tracklog"}  # that one is also the program's name
    spoken = {
        node.value
        for node in ast.walk(tree_of(name))
        if isinstance(node, ast.Constant) and node.value in names
    }
    own = {part.replace("_", "-") for part in name.split(".")} | {speaks(name)}
    assert spoken <= own


READERS = {
    # The identity of a stored line, to recognise a duplicate: intake stands before `reading`, and
    # an event that does not count was recorded all the same.
    "tracklog.intake.identities": {"understood"},
}
"""Who else turns lines into events, and what for."""


def meanings(name: str) -> set[str]:
    """What a module calls that turns a line into an event, facts or findings."""
    tree, found = tree_of(name), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            found |= {each.name for each in node.names} & {"understand", "understood"}
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            of, called = node.func.value, node.func.attr
            of_itself = isinstance(of, ast.Name) and of.id == "self"
            found |= {called} & {"facts", "rules"} if not of_itself else set()
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name | ast.Attribute):
            of = node.value.id if isinstance(node.value, ast.Name) else node.value.attr
            found |= {node.attr} & {"facts", "rules"} if "dialect" in of else set()
    return found


@for_each(sorted(MODULES))
def test_nobody_reads_records_but_the_one_walk(name):
    """A second walk would count what the first does not, and two views would disagree."""
    if room(name) not in ("dialects", "reading"):
        assert meanings(name) == READERS.get(name, set())


KEYED = {"dict", "Dict", "Mapping", "MutableMapping", "defaultdict", "OrderedDict"}
NAMED = {
    "tracklog.answers.Arguments": "the values of a question's parameters: its `Param`s declare them",
    "tracklog.answers.story.StoryBlock": "a block of AWF, as its agent reported it",
    "tracklog.collector.shapes.JsonObject": "an object of which only its writer knows the keys",
    "tracklog.web.routing.Schema": "a JSON Schema",
    "tracklog.collector.results.results_of": "types by name, for their schemas",
}
"""Where an object of any keys is declared, and what it is; others use it by this name."""
OF_LINES = {"tracklog.model.event.Body"}
"""A line of a dialect, or a request, as it was sent: for the shells, and for no answer."""


def untyped(tree: ast.AST, aliases: Collection[str] = ()) -> Iterator[ast.AST]:
    """Annotations that say nothing of the values: by key, or of a list; also in quotes.

    `aliases` are names of this module that stand for such an annotation.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and _says_nothing(node):
            yield node
        elif isinstance(node, ast.arg | ast.AnnAssign | ast.FunctionDef | ast.AsyncFunctionDef):
            kind = node.returns if hasattr(node, "returns") else node.annotation
            parts = list(_parts(kind))
            inside = {id(each.value) for each in parts if isinstance(each, ast.Subscript)}
            for each in parts:
                known = isinstance(each, ast.Name) and each.id in {*KEYED, "list", *aliases}
                if (known and id(each) not in inside) or (
                    isinstance(each, ast.Subscript) and _says_nothing(each)
                ):
                    yield each
        elif isinstance(node, ast.Call) and {"extra": "allow"}.items() & _words(node).items():
            yield node  # a shape of pydantic that takes every key


def _says_nothing(node: ast.Subscript) -> bool:
    values = node.slice.elts[-1:] if isinstance(node.slice, ast.Tuple) else []
    parts = [part for each in values for part in _parts(each)]
    name = ast.unparse(node.value).rpartition(".")[2]
    words = {ast.unparse(each).rpartition(".")[2] for each in parts}
    return name in KEYED and bool(words & {"Any", "object"})


def _parts(kind: ast.AST | None) -> Iterator[ast.AST]:
    """All of an annotation, and of what stands in it in quotes; a function is a part by itself."""
    if kind is None:
        return
    yield kind
    name = ast.unparse(kind.value) if isinstance(kind, ast.Subscript) else ""
    if isinstance(kind, ast.Constant) and isinstance(kind.value, str):
        yield from _parts(_parsed(kind.value))
    elif name not in ("Callable", "Literal"):
        for each in ast.iter_child_nodes(kind):
            yield from _parts(each)


def _parsed(text: str) -> ast.AST | None:
    try:
        return ast.parse(text, mode="eval").body
    except SyntaxError:  # a word of a `Literal`
        return None


def _words(call: ast.Call) -> dict[str, object]:
    return {
        each.arg: each.value.value
        for each in call.keywords
        if each.arg and isinstance(each.value, ast.Constant)
    }


@cache
def untyped_aliases() -> frozenset[str]:
    """Every name at the top of a module that stands for an object of any keys, by full name."""
    found: set[str] = set()
    while True:
        more = {
            f"{name}.{target}"
            for name in MODULES
            for target, value in _assigned(tree_of(name))
            if any(
                (isinstance(each, ast.Subscript) and _says_nothing(each))
                or (isinstance(each, ast.Name) and each.id in local(name, found))
                for each in _parts(value)
            )
        }
        if more <= found:
            return frozenset(found)
        found |= more


def _assigned(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    """The names at the top of a module that are written as those of types are."""
    for node in tree.body:
        value = getattr(node, "value", None)
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        for target in targets:
            word = target.id.strip("_") if isinstance(target, ast.Name) else ""
            if word[:1].isupper() and not word.isupper() and value is not None:
                yield target.id, value


def local(name: str, aliases: Collection[str]) -> dict[str, str]:
    """What a module calls the aliases that it imports or defines: its name to the full name."""
    found = {each.rpartition(".")[2]: each for each in aliases if each.startswith(f"{name}.")}
    found = {word: each for word, each in found.items() if each == f"{name}.{word}"}
    for node in ast.walk(tree_of(name)):
        if isinstance(node, ast.ImportFrom):
            for each in node.names:
                if f"{node.module}.{each.name}" in aliases:
                    found[each.asname or each.name] = f"{node.module}.{each.name}"
    return found


def declares(name: str, node: ast.AST) -> str:
    """The name of the alias or the function at the top of a module that holds a node."""
    for each in tree_of(name).body:
        if any(inner is node for inner in ast.walk(each)):
            target = each.targets[0] if isinstance(each, ast.Assign) else each
            return f"{name}.{getattr(target, 'id', getattr(target, 'name', ''))}"
    return name


@for_each(sorted(n for n in MODULES if room(n) in ("answers", "cli", "collector", "web")))
def test_answers_and_bodies_have_types_of_their_own(name):
    """An object of any keys says nothing to the shells, the schema and the console.

    `Body` is such an object, too: a line of a dialect or a request, as it was sent. No answer is.
    """
    asked = NAMED.keys() if room(name) == "answers" else {*NAMED, *OF_LINES}
    aliases = local(name, untyped_aliases() - asked)
    assert {
        declares(name, node) for node in untyped(tree_of(name), aliases)
    } - NAMED.keys() == set()


@pytest.mark.parametrize(
    "text",
    [
        "x: dict[str, Any]",
        "x: Mapping[str, object]",
        "def f() -> MutableMapping[str, Any]: ...",
        "def f(x: list[dict[str, Any]]): ...",
        "x: dict",
        "def f(x: Mapping | None): ...",
        "async def f() -> list: ...",
        "Row = dict[str, Any]",
        "def f(x: 'Mapping[str, Any]'): ...",
        "x: dict[str, list[Any]]",
        "x: dict[str, Sequence[object] | None]",
        "x: 'Row | None'",
        "config = ConfigDict(extra='allow')",
    ],
)
def test_an_object_of_any_keys_is_found_in_every_spelling(text):
    assert list(untyped(ast.parse(text), {"Row"}))
    assert not list(untyped(ast.parse("x: dict[str, int] = dict(a=1)")))


def test_a_module_begins_with_what_lives_in_it():
    for name in MODULES:
        assert ast.get_docstring(tree_of(name)), name


LONGEST = 500
"""Lines of a module that one can read at once."""


def lines_of_code(tree: ast.AST) -> int:
    """The lines of all functions and methods, as far as they are not inside one another."""
    count = 0
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            count += (node.end_lineno or 0) - node.lineno + 1
        else:
            count += lines_of_code(node)
    return count


@for_each(sorted(MODULES))
def test_a_module_is_short_unless_it_is_a_list_of_shapes(name):
    text = MODULES[name].read_text()
    length = len(text.splitlines())
    assert length <= LONGEST or lines_of_code(tree_of(name)) * 10 < length


@for_each(sorted((SOURCE.parents[1] / "contracts/source").glob("*.py")))
def test_a_part_of_an_emitter_is_short(part):
    assert len(part.read_text().splitlines()) <= LONGEST
