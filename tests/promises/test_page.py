"""docs/promises.md promises nothing without a test, and no test claims what the page does not say."""

import ast
import re
from collections import Counter
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "promises.md"
EXEMPT = "Not promised"


def sentences(text: str) -> list[str]:
    """Every sentence of the sections: of paragraphs, list items and rows of tables."""
    found = []
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        title, *lines = section.splitlines()
        if title == EXEMPT:
            continue
        for number, line in enumerate(lines):
            below = lines[number + 1] if number + 1 < len(lines) else ""
            if re.match(r"\|[-| :]+$", line) or re.match(r"\|[-| :]+$", below):
                continue  # the head of a table
            if line.startswith("|"):
                found.append(line.strip("| "))
            else:
                parts = re.split(r"(?<=[.!?])\s+(?=[A-Z`])", re.sub(r"^\s*[-*]\s+", "", line))
                found += [part.strip() for part in parts if part.strip()]
    return found


def claims() -> list[tuple[str, str]]:
    """The beginnings of sentences that tests of this folder claim to prove, and which test it is."""
    found = []
    for path in sorted(Path(__file__).parent.glob("test_*.py")):
        for node in ast.parse(path.read_bytes()).body:  # what stands elsewhere may never be run
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                for mark in node.decorator_list:
                    if isinstance(mark, ast.Call) and ast.unparse(mark.func).endswith(".promise"):
                        found += [
                            (argument.value, f"{path.name}: {node.name}")
                            for argument in mark.args
                            if isinstance(argument, ast.Constant)
                        ]
    return found


def test_each_sentence_is_proven():
    begun = tuple(beginning for beginning, _ in claims())
    every = sentences(PAGE.read_text())
    assert len(every) > 50
    assert [each for each in every if not each.startswith(begun)] == []


def test_each_claim_is_the_beginning_of_one_sentence():
    every = sentences(PAGE.read_text())
    meant = {
        (beginning, test): [each for each in every if each.startswith(beginning)]
        for beginning, test in claims()
    }
    assert {claim: found for claim, found in meant.items() if len(found) != 1} == {}


def test_no_sentence_stands_there_twice():
    counts = Counter(sentences(PAGE.read_text()))
    assert [each for each, count in counts.items() if count > 1] == []


def test_sentences_of_paragraphs_lists_and_tables_are_found():
    text = "# T\nNo.\n\n## A\n\nOne.\nTwo: `a.b`. Three?\n\n| x | y |\n|---|---|\n| `r` | z |\n\n"
    text += f"- Four.\n- Five. `Six`.\n\n## {EXEMPT}\n\n- Seven.\n"
    expected = ["One.", "Two: `a.b`.", "Three?", "`r` | z", "Four.", "Five.", "`Six`."]
    assert sentences(text) == expected
