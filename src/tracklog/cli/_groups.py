"""The groups of commands, in the order of the help: the one table for help, README and docs."""

from collections.abc import Iterable
from typing import NamedTuple

from tracklog.answers.registry import question_names


class VerbSection(NamedTuple):
    """Verbs that belong together, the most used first."""

    name: str
    about: str
    verbs: tuple[str, ...]


GROUPS = (
    VerbSection(
        "Record",
        "get events into the journal",
        ("serve", "record", "follow", "import", "reimport", "exec", "connect", "emitter"),
    ),
    VerbSection(
        "Look",
        "see what the runs did and are doing",
        (
            "runs", "show", "story", "events", "tail", "top", "tree", "agents", "tools", "costs",
            "series", "outcomes", "audits", "leaderboard",
        ),
    ),
    VerbSection(
        "Ask",
        "find events, causes, differences and problems",
        ("search", "why", "diff", "findings", "loops", "query", "mcp"),
    ),
    VerbSection(
        "Answer",
        "answer an agent that waits for a person, and mark runs",
        ("inbox", "answer", "mark", "marks"),
    ),
    VerbSection("Details", "the answers behind single panels of the console", ()),
    VerbSection("Check", "check lines against the formats", ("check", "dialects", "schema")),
    VerbSection("Export", "take runs and large values out", ("export", "convert", "blob")),
    VerbSection(
        "Operate",
        "verify, repair, back up and clean up",
        (
            "status", "verify", "checkpoint", "witness", "token", "doctor", "alerts", "repair", "backup", "archive", "restore", "store", "secrets", "erase", "prune",
            "rebuild", "completion", "dev",
        ),
    ),
    VerbSection("Host", "run workflows, plays and an OpenWOP server; show a demo", ("host", "demo")),
)  # fmt: skip  # a table


QUESTIONS = "Details"
"""The group of a question's verb that is not in the table."""


def grouped(verbs: Iterable[str]) -> list[tuple[VerbSection, list[str]]]:
    """The groups with their commands; commands without a group come last, under Other."""
    there = list(verbs)
    named = {verb for group in GROUPS for verb in group.verbs}
    questions = set(question_names())
    asked = [verb for verb in there if verb not in named and verb in questions]
    rest = [verb for verb in there if verb not in named and verb not in questions]
    groups = [
        (group, [verb for verb in group.verbs if verb in there] + asked * (group.name == QUESTIONS))
        for group in GROUPS
    ]
    groups += [(VerbSection("Other", "", tuple(rest)), rest)] if rest else []
    return [(group, each) for group, each in groups if each]
