"""What of a dependency is overridden, and that its versions are bounded where something is."""

import ast
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "tracklog"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
MADE_TO_BE_EXTENDED = {
    "pydantic.BaseModel",
    "pydantic.RootModel",
    "grpc.GenericRpcHandler",
    "psycopg.adapt.Dumper",
    "typing_extensions.TypedDict",
}
OVERRIDDEN = {
    "click": {
        "click.ClickException",
        "click.Command",
        "click.Group",
        "click.ParamType",
        "click.Path",
    },
    "mcp": {"mcp.server.MCPServer"},
    "uvicorn": {"uvicorn.Server", "uvicorn.protocols.http.httptools_impl.HttpToolsProtocol"},
}
"""By package, the classes of which we override methods: their insides may change with a release."""


def imports(tree: ast.Module) -> dict[str, str]:
    """What each imported name of a module stands for."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {each.asname or each.name: each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            names |= {each.asname or each.name: f"{node.module}.{each.name}" for each in node.names}
    return names


def foreign_bases() -> dict[str, set[str]]:
    """By package, the classes of others from which a class of ours inherits."""
    found: dict[str, set[str]] = {}
    for path in SOURCE.rglob("*.py"):
        tree = ast.parse(path.read_text())
        names = imports(tree)
        for node in ast.walk(tree):
            for base in node.bases if isinstance(node, ast.ClassDef) else ():
                root, dot, rest = ast.unparse(base).partition("[")[0].partition(".")
                name = names.get(root, "tracklog") + dot + rest
                package = name.partition(".")[0]
                if package in sys.stdlib_module_names | {"tracklog"} or name in MADE_TO_BE_EXTENDED:
                    continue
                found.setdefault(package, set()).add(name)
    return found


def required(*extras: str) -> dict[str, str]:
    """The bounds of each dependency, by its name; also those of extras."""
    optional = [each for extra in extras for each in PROJECT["optional-dependencies"][extra]]
    matches = (re.match(r"([a-z0-9-]+)(.*)", each) for each in PROJECT["dependencies"] + optional)
    return {match[1]: match[2] for match in matches if match}


def test_the_classes_of_others_that_we_override_are_listed_here():
    assert foreign_bases() == OVERRIDDEN


def test_a_dependency_whose_classes_are_overridden_has_an_upper_bound():
    for package in OVERRIDDEN:
        assert re.search(r",<\d", required("mcp")[package]), package


def test_the_readme_names_every_dependency():
    readme = (ROOT / "README.md").read_text()
    section = readme.partition("## Dependencies")[2]
    assert [name for name in required() if f"**{name}**" not in section] == []


def test_starlette_gives_responses_and_types_and_no_routes():
    """README says so: the router in `web/routing.py` serves the collector and the hosts."""
    names = set()
    for path in SOURCE.rglob("*.py"):
        names |= set(imports(ast.parse(path.read_text())).values())
    used = {".".join(name.split(".")[:2]) for name in names if name.startswith("starlette")}
    assert used == {"starlette.responses", "starlette.types"}
