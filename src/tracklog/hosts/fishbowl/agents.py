"""The turn of a player: ask its model, and check the reply against its manifest.

A judge that names an invalid winner is asked once more here: a verdict is a turn like any other.
"""

from collections.abc import Callable, Collection
from dataclasses import replace

from tracklog import Body, TracklogError
from tracklog.hosts._endpoint import ModelFailed
from tracklog.hosts.fishbowl import judge
from tracklog.hosts.fishbowl.manifest import VERDICT, Manifest
from tracklog.hosts.fishbowl.models import PlayerModel, PlayerReply, Prompt
from tracklog.hosts.fishbowl.scenario import Competition

Ask = Callable[[str | None], PlayerReply | None]
"""Ask the model; the second time with a correction."""


class NotAuthorised(TracklogError):
    """A player sent an event of a kind that its manifest does not allow."""

    def __init__(self, player: Manifest, kind: str) -> None:
        granted = ", ".join(player.may_emit) or "nothing"
        super().__init__(
            f"{player.name} may not emit {kind}",
            f"its manifest allows {granted}; add the kind to may_emit if the player may use it",
        )


def authorise(player: Manifest, kind: str, mode: str = "strict") -> tuple[str, str | None]:
    """The kind that is emitted, and the original one if it was changed.

    F5: only `may_emit` decides; no kind is allowed implicitly.
    """
    if kind in player.may_emit:
        return kind, None
    allowed = player.content_kinds
    if mode == "strict" or not allowed:
        raise NotAuthorised(player, kind)
    return allowed[0], kind


def take_turn(
    model: PlayerModel,
    prompt: Prompt,
    contest: Competition,
    cast: Collection[str],
    mode: str = "strict",
) -> PlayerReply | None:
    """The event of a player in its turn; None if it says nothing.

    Raises `NotAuthorised` or `ModelFailed`; then nothing of the reply is recorded as an event.
    """

    def ask(correction: str | None) -> PlayerReply | None:
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
    if not judge.has_text(payload):
        raise ModelFailed(
            f"the reply of {prompt.player.name} has no text", "a reply needs a `text`"
        )
    if coerced_from is not None:
        payload = payload | {"_coerced_from": coerced_from}
    return reply._replace(kind=kind, payload=payload)


def validate_winner(
    first: PlayerReply,
    ask: Ask | None,
    player: Manifest,
    contest: Competition,
    cast: Collection[str],
) -> PlayerReply:
    """The verdict with a valid winner, or without one.

    In a competition the winner is validated whatever the manifest declares. After an invalid one
    the judge is asked once more. `ask` is None if nobody can be asked, as with a tape.
    """
    payload = judge.with_clean_scores(first.payload, player, contest, cast)
    if not judge.has_winner(contest):
        return first._replace(payload=judge.without_winner(payload))
    first = first._replace(payload=payload)
    names = judge.vocabulary(contest, cast)
    if judge.is_valid_winner(payload, names):
        return first
    try:
        second = ask(judge.correction(payload["winner"], names)) if ask else None
    except ModelFailed:
        second = None
    if second is None:
        return first._replace(payload=judge.no_contest(payload))
    if judge.replaces_first(second.payload, names):
        settled = judge.with_clean_scores(second.payload, player, contest, cast)
    else:
        settled = judge.no_contest(payload)  # F11: the text of the first reply is used
    # BOWL-43: both calls count.
    return first._replace(
        payload=settled,
        tokens=first.tokens + second.tokens,
        cost=first.cost + second.cost,
        calls=first.calls + second.calls,
    )


def _fit(player: Manifest, payload: Body) -> Body:
    """The declared fields of a reply, and the winner, which a verdict may have without declaring it."""
    allowed = {"text", "winner", *player.output_extra_fields}
    fit = {key: value for key, value in payload.items() if key in allowed}
    if isinstance(fit.get("text"), str):
        fit["text"] = fit["text"].strip()
    return fit
