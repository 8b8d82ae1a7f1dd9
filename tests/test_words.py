"""Texts that users read are in ordinary words: phrases of a private idiom do not come back."""

import re
from pathlib import Path

import pytest

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
)
"""Write instead: intake, most urgent first, related, duplicates, raw JSON, recorded, repaired."""
IDIOM = re.compile("|".join(rf"\b(?:{each})" for each in BANNED), re.IGNORECASE)
CODE = re.compile(r"^```(?:python|ts|js|toml|yaml)\n.*?^```", re.MULTILINE | re.DOTALL)
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted(path for path in (ROOT / "contracts").glob("*/README.md")),
]
CONSOLE = sorted((ROOT / "console/src").rglob("*.ts*"))


def found(text: str) -> list[str]:
    """The banned phrases of a text, each with some words around it."""
    return [text[max(0, hit.start() - 30) : hit.end() + 30] for hit in IDIOM.finditer(text)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_uses_ordinary_words(page):
    """The pages on the command line and on HTTP are made of the help texts, so these count too."""
    assert found(CODE.sub("", page.read_text())) == []


@pytest.mark.parametrize("source", CONSOLE, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_console_shows_ordinary_words(source):
    """Comments of the sources count as well: they are read by whoever changes it next."""
    assert found(source.read_text()) == []


@pytest.mark.parametrize(
    ("text", "hits"),
    [("Refused at the door.", 1), ("The doorbell rings; kindly wait.", 0), ("What was heard", 1)],
)
def test_a_banned_phrase_is_found_and_a_longer_word_is_not(text, hits):
    assert len(found(text)) == hits
