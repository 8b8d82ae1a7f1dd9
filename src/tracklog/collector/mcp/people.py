"""Questions of an agent to a person, through the inbox: asked here, answered there."""

import uuid
from collections.abc import Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from tracklog import Asked, Began, Ended, Log, Run
from tracklog.answers import JsonValue
from tracklog.answers.inbox import InboxRow, inbox
from tracklog.home.home import Home
from tracklog.model.errors import NoSuchQuestion
from tracklog.model.fact import Answered

WRITER = "mcp"
LONGEST_TEXT = 10_000


class PersonAnswer(BaseModel):
    """The state of a question to a person."""

    # No dataclass: for the result of a tool the SDK takes the slots of one for default values.
    model_config = ConfigDict(frozen=True)

    status: Literal["open", "answered", "expired", "abandoned"]
    question_id: str
    run: str
    answer: Any = None
    by: str | None = None


def ask(home: Home, text: str, options: Sequence[str], run: str | None) -> PersonAnswer:
    """Record a question; one that belongs to no run gets a run of its own."""
    log, id = Log(home), f"mcp-{uuid.uuid4()}"
    asked: Run = home.run(run) if run else ("tracklog", id)
    text = text[:LONGEST_TEXT]
    if not run:
        log.append_fact(asked, Began(what="run", task=text), writer=WRITER)
    question = Asked(question_id=id, text=text, options=tuple(options) or None)
    log.append_fact(asked, question, writer=WRITER)
    return PersonAnswer(status="open", question_id=id, run=":".join(asked))


def answer(home: Home, id: str) -> PersonAnswer:
    """The state of a question that was asked here; its own run ends with the answer."""
    for row in inbox(home):
        if row.question_id == id and row.state != "unasked":
            run = f"{row.family}:{row.run}"
            if row.state != "answered":
                return PersonAnswer(status=row.state, question_id=id, run=run)
            given, by = _given(home, row)
            if row.run == id and not home.index.state("runs", run).ended:
                Log(home).append_fact((row.family, row.run), Ended(what="run"), writer=WRITER)
            return PersonAnswer(status="answered", question_id=id, run=run, answer=given, by=by)
    raise NoSuchQuestion(f"nobody asks {id!r}", "use the question_id that ask_person returned")


def _given(home: Home, row: InboxRow) -> tuple[JsonValue, str | None]:
    """The answer from its record: the inbox has only the beginning of it."""
    assert row.answered_seq is not None
    for record in home.journal.read(row.answered_seq - 1, 1):
        for fact in home.facts_in(record):
            if isinstance(fact, Answered):
                return fact.answer, fact.by
    return row.answer, None
