"""The turn of a player: ask it, check the reply against its manifest; validate a winner.

The judge's one re-ask happens here too: a verdict is a turn like any other.
"""

from collections.abc import Callable, Collection
from dataclasses import replace

from tracklog import Body, TracklogError
from tracklog.hosts.fishbowl import judge
from tracklog.hosts.fishbowl.manifest import VERDICT, Manifest
from tracklog.hosts.fishbowl.models import Model, ModelFailed, Prompt, Reply
from tracklog.hosts.fishbowl.scenario import Competition

Ask = Callable[[str | None], Reply | None]
"""Asks the model, with a correction when it is asked once more."""


class NotAuthorised(TracklogError):
    """A player said something of a kind that its manifest does not grant."""

    def __init__(self, player: Manifest, kind: str) -> None:
        granted = ", ".join(player.may_emit) or "nothing"
        super().__init__(
            f"{player.name} may not emit {kind}",
            f"its manifest grants {granted}; add the kind to may_emit if it is meant to",
        )


def authorise(player: Manifest, kind: str, mode: str = "strict") -> tuple[str, str | None]:
    """The kind that is emitted, and the one that it stands for when it was coerced.

    F5: `may_emit` alone decides, and there are no implicit grants.
    """
    if kind in player.may_emit:
        return kind, None
    allowed = player.content_kinds
    if mode == "strict" or not allowed:
        raise NotAuthorised(player, kind)
    return allowed[0], kind


def take_turn(
    model: Model, prompt: Prompt, contest: Competition, cast: Collection[str], mode: str = "strict"
) -> Reply | None:
    """What a player does with its turn; None when it abstains.

    Raises `NotAuthorised` and `ModelFailed`: then nothing of it reaches the stage.
    """

    def ask(correction: str | None) -> Reply | None:
        asked = replace(prompt, correction=correction) if correction else prompt
        reply = model.reply(asked)
        if reply is None or reply.settled:
            return reply
        return reply._replace(payload=_fit(asked.player, reply.payload))

    reply = ask(None)
    if reply is None:
        return None
    kind, coerced_from = authorise(prompt.player, reply.kind, mode)
    if kind == VERDICT:
        again = None if reply.settled else ask
        reply = validate_winner(reply, again, prompt.player, contest, cast)
    payload = reply.payload
    if not judge.usable(payload):
        raise ModelFailed(
            f"{prompt.player.name} said nothing that can be shown", "a reply needs a `text`"
        )
    if coerced_from is not None:
        payload = payload | {"_coerced_from": coerced_from}
    return reply._replace(kind=kind, payload=payload)


def validate_winner(
    first: Reply, ask: Ask | None, player: Manifest, contest: Competition, cast: Collection[str]
) -> Reply:
    """The verdict with a winner who exists, or with none.

    In a competition the winner is validated whatever the manifest declares: an invalid one is
    asked for again, exactly once. `ask` is None where nobody can be asked, as on a tape.
    """
    payload = judge.with_clean_scores(first.payload, player, contest, cast)
    if not judge.has_winner(contest):
        return first._replace(payload=judge.without_winner(payload))
    first = first._replace(payload=payload)
    names = judge.vocabulary(contest, cast)
    if judge.names_nobody_else(payload, names):
        return first
    try:
        second = ask(judge.correction(payload["winner"], names)) if ask else None
    except ModelFailed:
        second = None
    if second is None:
        return first._replace(payload=judge.no_contest(payload))
    if judge.settles(second.payload, names):
        settled = judge.with_clean_scores(second.payload, player, contest, cast)
    else:
        settled = judge.no_contest(payload)  # F11: the first reply's text ships
    # BOWL-43: both calls are paid for.
    return first._replace(
        payload=settled,
        tokens=first.tokens + second.tokens,
        cost=first.cost + second.cost,
        calls=first.calls + second.calls,
    )


def _fit(player: Manifest, payload: Body) -> Body:
    """What the manifest declares, and the winner: a verdict may name one, declared or not."""
    allowed = {"text", "winner", *player.output_extra_fields}
    fit = {key: value for key, value in payload.items() if key in allowed}
    if isinstance(fit.get("text"), str):
        fit["text"] = fit["text"].strip()
    return fit
