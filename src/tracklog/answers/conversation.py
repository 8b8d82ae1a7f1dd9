"""The messages of a run, in order."""

from dataclasses import dataclass

from tracklog.answers import Question, key_of, run_param
from tracklog.folds import conversation as conversation_fold
from tracklog.folds import rows_of, run_of, text_in
from tracklog.home.home import Home
from tracklog.model.fact import Said


@dataclass(frozen=True, slots=True)
class MessagePart:
    """A part of a message, from one record."""

    seq: int
    role: str
    characters: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRow:
    """One message."""

    family: str
    run: str
    message_id: str | None
    agent: str | None
    to: str | None
    step: str | None
    model: str | None
    stop_reason: str | None
    injected: bool
    """A program put it in, not a person."""
    copied: bool
    """It was copied from the history of another run."""
    withdrawn: bool
    seq: int
    at_ms: int
    parts: list[MessagePart]


def conversation(home: Home, run: str) -> list[MessageRow]:
    """The messages of a run, complete, from its own records."""
    key = key_of(home, run)
    states = (state for _, state in home.index.states("conversation", rows_of(*run_of(key))))
    rows = conversation_fold.answer(states)
    wanted = {part["seq"] for row in rows for part in row["parts"]}
    texts = {
        (record.seq, conversation_fold.mark_of(words)): words
        for record in home.journal.records(run=run_of(key))
        if record.seq in wanted
        for fact in home.facts_in(record)
        if isinstance(fact, Said) and (words := text_in(fact.blocks))
    }
    return [
        MessageRow(
            **(
                row
                | {
                    "parts": [
                        MessagePart(
                            part["seq"],
                            part["role"],
                            part["characters"],
                            texts.get((part["seq"], part["mark"]), ""),
                        )
                        for part in row["parts"]
                    ]
                }
            )
        )
        for row in rows
    ]


question = Question(
    name="conversation",
    about="List the messages of a run, in order and in full.",
    ask=conversation,
    params=(run_param(),),
    paths=("/api/runs/{family}/{run}/conversation",),
    examples=("conversation agent-coder-1 --json",),
)
