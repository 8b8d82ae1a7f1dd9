"""The runs: status, outcome, agents, tools, cost."""

from typing import Unpack

from tracklog.answers import Question
from tracklog.answers.run_list import RunRow
from tracklog.answers.run_params import RunsAsked, listed, params
from tracklog.home.home import Home


def runs(home: Home, **asked: Unpack[RunsAsked]) -> list[RunRow]:
    """The runs, the latest active first unless asked otherwise."""
    return listed(home, **asked).runs


question = Question(
    name="runs",
    about="List the runs, the most recently active first: status, outcome, agents, tools, cost.",
    ask=runs,
    params=params("activity", 50),
    examples=(
        "runs",
        "runs --status waiting --status failed",
        "runs --lost-after 60          (lost: without an event for a minute)",
        "runs --limit 200 --json",
    ),
)
