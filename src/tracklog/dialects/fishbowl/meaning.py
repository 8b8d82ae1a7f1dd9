"""The facts of an event."""

from collections.abc import Iterator

from tracklog.dialects import number, text
from tracklog.dialects.fishbowl.shapes import ROLES
from tracklog.model.event import Body, Event
from tracklog.model.fact import Began, Decided, Ended, Fact, Noted, Said, Spent


def facts(event: Event) -> Iterator[Fact]:
    payload = event.body["payload"]
    match event.kind:
        case "run.started":
            yield from _started(payload)
        case "run.finished":
            yield from _finished(event.run, payload)
        case "judge.verdict":
            yield from _texts(event, payload)
            yield _decided(event, payload)
        case _:
            texts = list(_texts(event, payload))
            yield from texts or [
                Noted(
                    agent=_agent(event),
                    step=_turn(event),
                    label=event.kind,
                    kind=event.kind,
                    data=payload,
                )
            ]


def _agent(event: Event) -> str | None:
    """The agent that acted; the visitor is a person, not an agent."""
    return None if event.kind == "user.injected" else event.actor


def _turn(event: Event) -> str:
    return str(int(event.body["turn"]))


def _started(payload: Body) -> Iterator[Fact]:
    yield Began(what="run", task=text(payload.get("goal")))
    if scenario := text(payload.get("scenario")):
        yield Noted(label="title", text=scenario)
    yield Noted(label="setup", kind="run.started", data=payload)


def _texts(event: Event, payload: Body) -> Iterator[Fact]:
    # F14: only a non-empty string is rendered, whatever the kind.
    if words := text(payload.get("text")):
        yield Said(
            agent=_agent(event),
            step=_turn(event),
            role=ROLES.get(event.kind, "note"),
            blocks=({"type": "text", "text": words},),
        )


def _decided(event: Event, payload: Body) -> Fact:
    scores, correct = payload.get("scores"), payload.get("correct")
    winner = text(payload.get("winner")) or None
    return Decided(
        agent=event.actor,
        step=_turn(event),
        by=event.actor,
        name="verdict",
        verdict=text(payload.get("text")) or winner or payload,
        winner=winner,
        accused=text(payload.get("accused")),
        correct=correct if isinstance(correct, bool) else None,
        scores={name: mark for name, value in scores.items() if (mark := number(value)) is not None}
        if isinstance(scores, dict)
        else None,
        no_contest=payload.get("no_contest") is True,
    )


def _finished(run: str, payload: Body) -> Iterator[Fact]:
    models = payload.get("winning_models")
    yield Ended(
        what="run",
        outcome=text(payload.get("reason")),
        winner=text(payload.get("winner")) or None,
        winner_kind=text(payload.get("winner_kind")),
        winning_model=text(payload.get("winning_model")),
        winning_models=tuple(model for model in models if isinstance(model, str))
        if isinstance(models, list)
        else None,
        counts=_counts(payload),
    )
    tokens = number(payload.get("tokens"))
    if tokens is not None:
        # The total of the run, repeated by a corrective close: one spend.
        yield Spent(key=f"fishbowl/{run}/tokens", usage={"total_tokens": tokens})


def _counts(payload: Body) -> dict[str, int] | None:
    """The governor's totals, as far as they are numbers."""
    counts = {key: number(payload.get(key)) for key in ("turns", "tokens")}
    return {key: int(n) for key, n in counts.items() if n is not None and 0 <= n < 2**53} or None
