"""The board: a page of the list of runs, with counts per status and the values of its filters."""

from typing import Unpack

from tracklog.answers import Question
from tracklog.answers.run_list import RunsAnswer, RunsAsked, listed, params
from tracklog.home.home import Home


def board(home: Home, **asked: Unpack[RunsAsked]) -> RunsAnswer:
    """The runs that need a person first, unless asked otherwise."""
    usual: RunsAsked = {"order": "need", "limit": 200}
    usual.update(asked)
    return listed(home, **usual)


question = Question(
    name="board",
    about="Show a page of the runs, those that need a person first. It also has the number "
    "of runs in each status, and the values of the filters.",
    ask=board,
    params=params("need", 200),
    examples=("board --status failed --json", "board --within 24h --json | jq .counts"),
)
