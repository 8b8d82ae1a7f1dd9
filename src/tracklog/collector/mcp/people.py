"""Questions of an agent to a person, through the inbox: asked here, answered there."""

import uuid
from collections.abc import Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from tracklog import Asked, Began, Ended, Log, Run
from tracklog.answers.inbox import inbox
from tracklog.collector.operator import recorded_answer
from tracklog.home.home import Home, act
from tracklog.model.errors import NoSuchQuestion, TooLate

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


def ask(home: Home, text: str, options: Sequence[str], run: str | None, *, by: str) -> PersonAnswer:
    """Record a question, and whose token asks it; one that belongs to no run gets its own run."""
    log, id = Log(home), f"mcp-{uuid.uuid4()}"
    asked: Run = home.run(run) if run else ("tracklog", id)
    text = text[:LONGEST_TEXT]
    home.record_act(act("ask", by, run=":".join(asked), question=id), writer=WRITER)
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
            try:
                given = recorded_answer(home, row)
            except TooLate:
                return PersonAnswer(status="abandoned", question_id=id, run=run)
            assert given is not None
            if row.run == id and not home.index.state("runs", run).ended:
                Log(home).append_fact((row.family, row.run), Ended(what="run"), writer=WRITER)
            return PersonAnswer(
                status="answered", question_id=id, run=run, answer=given.answer, by=given.by
            )
    raise NoSuchQuestion(f"nobody asks {id!r}", "use the question_id that ask_person returned")
