"""Texts that users read are in ordinary words: phrases of a private idiom do not come back."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.ruling import for_each

ROOT = Path(__file__).parents[1]
BANNED = (
    r"the door\b",
    r"neediest",
    r"(?:next of )?kin\b",
    r"twins\b",
    r"the very bytes",
    r"eleven verbs and a shrug",
    r"who needs somebody",
    r"a number in its hand",
    r"told (?:twice|once|whole|in other words|in another)",
    r"kept (?:once|whole|twice)",
    r"not kept any more",
    r"unless told otherwise",
    r"(?:what|which) (?:is|was) (?:told|heard)\b",
    r"(?:is|was|were) heard\b",
    r"in someone else's (?:format|words)",
    r"speaks? (?:a|the|one|every|any|this|that|its|their) dialect",
    r"turned away",
    r"made anew",
    r"\bmends?\b",
    r"on record\b",
    r"keeps? (?:its|the|their) record\b",
    r"(?:folder|database) of the record\b",
    r"questions about the record\b",
    r"(?:copy|copies|archive|replay|verify) the record\b",
)
"""Write instead: intake, most urgent first, related, duplicates, raw JSON, recorded, repaired. A
record is one event as it is stored; all of them are the journal.
"""
IDIOM = re.compile("|".join(rf"\b(?:{each})" for each in BANNED), re.IGNORECASE)
CODE = re.compile(r"^```(?:python|ts|js|toml|yaml)\n.*?^```", re.MULTILINE | re.DOTALL)
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    ROOT / "contracts/README.md",
    *sorted((ROOT / "contracts").glob("*/README.md")),
]
CONSOLE = [
    path
    for folder in ("console/src", "console/test", "console/browser", "contracts/ts/src")
    for path in sorted((ROOT / folder).rglob("*.ts*"))
]
PACKAGE = ROOT / "src/tracklog"
CODE_FILES = sorted(PACKAGE.rglob("*.py"))
PRIVATE = {"told", "tell", "tells", "telling", "untold", "heard", "hear", "hears", "unheard"}
PRIVATE |= {"said", "spoken", "kept", "mend", "mended", "mends", "anew", "door", "kin", "twins"}
PRIVATE |= {"moment", "fate", "lifting", "rested", "turned", "cooling"}
"""Parts of names that mean nothing to a reader. Write instead what the value is: text, fields, row,
event, record, match, stored, repaired, intake, outcome, large values.
"""
IN_CONSOLE = re.compile(r"\b(?:Book|useBook|book|Shaping|shaping|Sorry)\b")
"""Names that the console does not use. Write instead RunRecords, RunStructure, ErrorCard."""
FILES_OF_CONSOLE = {"book", "line", "shape", "sorry"}
"""Names of files that say nothing of their content: run-records, stream-worker, run-structure."""
VERSION = re.compile(r"\d+\.\d+\.\d+ \(\d{4}-\d\d-\d\d")
LONGEST_CHANGE = 400
"""In characters. A longer line of the change log holds several changes: one line for each."""
TESTS = sorted((ROOT / "tests").rglob("test_*.py"))
NOT_IN_TESTS = PRIVATE | {"neediest", "whole"}
"""Parts of names of tests that mean nothing to a reader."""
BESIDE = [
    path
    for folder in ("tests", "bench", "scripts")
    for path in sorted((ROOT / folder).rglob("*.py"))
    if path != Path(__file__) and ".venv" not in path.relative_to(ROOT).parts  # of a bench
]
OF_A_FACT = {
    "said": ("fact.py", "shapes.py", "_turns.py", "messages.py", "turns.py"),
    "kept": ("loss.py", "_reading.py"),
    "fate": ("loss.py", "__init__.py", "atif.py", "convert.py", "exporters.py", "_writing.py"),
}
"""Names that are those of a fact or of a published or stored value, and the files that have them."""


def found(text: str) -> list[str]:
    """The banned phrases of a text, each with some words around it."""
    return [text[max(0, hit.start() - 30) : hit.end() + 30] for hit in IDIOM.finditer(text)]


def names(tree: ast.AST) -> Iterator[str]:
    """Every name that a module defines: of values, parameters, attributes, functions, classes."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
            case ast.ClassDef(name=name) | ast.arg(arg=name):
                yield name


def private_names(text: str) -> set[str]:
    """The names in a module that have a word of the private idiom."""
    return {
        name for name in names(ast.parse(text)) if not PRIVATE.isdisjoint(name.lower().split("_"))
    }


@for_each(CODE_FILES)
def test_the_code_uses_ordinary_words(source):
    """In names, and in everything that is written in it: docstrings, comments, messages."""
    text = source.read_text()
    of_a_fact = {name for name, files in OF_A_FACT.items() if source.name in files}
    assert {
        name for name in private_names(text) if name.lower().strip("_") not in of_a_fact
    } == set()
    assert PRIVATE.isdisjoint(source.stem.split("_"))
    assert found(text) == []


@for_each(TESTS)
def test_the_names_of_tests_use_ordinary_words(source):
    tests = [name for name in names(ast.parse(source.read_text())) if name.startswith("test_")]
    assert [name for name in tests if not NOT_IN_TESTS.isdisjoint(name.split("_"))] == []


def prose(text: str) -> Iterator[str]:
    """The comments and docstrings of a module."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.string
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Expr(value=ast.Constant(value=str(docstring))):
                yield docstring


@for_each(BESIDE)
def test_what_is_written_in_tests_and_scripts_uses_ordinary_words(source):
    assert [hit for text in prose(source.read_text()) for hit in found(text)] == []


def test_comments_and_docstrings_are_read_and_data_is_not():
    text = 'def f():\n    """The door."""\n    x = "at the door"  # a twin\n'
    assert sorted(prose(text)) == ["# a twin", "The door."]


def test_a_private_name_is_found_wherever_it_is_defined():
    text = "def tell_all(heard, *, a): self.kept = [said for said in a]; foretold = told"
    assert private_names(text) == {"tell_all", "heard", "kept", "said"}
    assert private_names("class Heard: pass") == {"Heard"}


@for_each(PAGES)
def test_a_page_uses_ordinary_words(page):
    """The pages on the command line and on HTTP are made of the help texts, so these count too."""
    text = CODE.sub("", page.read_text())
    if page.name == "CHANGELOG.md":
        text = re.sub("`[^`\n]*`", "", text)  # it names what was renamed
    assert found(text) == []


def test_the_change_log_has_one_short_line_per_change_under_a_version_and_a_date():
    text = (ROOT / "CHANGELOG.md").read_text()
    headings = re.findall("^## (.*)", text, re.MULTILINE)
    assert [each for each in headings if not VERSION.match(each)] == []
    for section in re.split("^## ", text, flags=re.MULTILINE)[1:]:
        changes = [line for line in section.splitlines() if line.startswith("- ")]
        assert sorted(set(changes)) == sorted(changes)
        assert [each for each in changes if len(each) > LONGEST_CHANGE] == []


@for_each(CONSOLE)
def test_the_console_shows_ordinary_words(source):
    """Comments of the sources count as well: they are read by whoever changes it next."""
    assert found(source.read_text()) == []


@for_each([path for path in CONSOLE if path.is_relative_to(ROOT / "console")])
def test_the_names_in_the_console_are_ordinary_words(source):
    assert IN_CONSOLE.findall(source.read_text()) == []
    assert source.name.split(".")[0] not in FILES_OF_CONSOLE


@pytest.mark.parametrize(
    ("text", "hits"),
    [("Refused at the door.", 1), ("The doorbell rings; kindly wait.", 0), ("What was heard", 1)],
)
def test_a_banned_phrase_is_found_and_a_longer_word_is_not(text, hits):
    assert len(found(text)) == hits
