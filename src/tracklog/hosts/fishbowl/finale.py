"""The end of a run: who won, whether that is an agent or a team, and with which models."""

from collections.abc import Mapping
from typing import Any

from tracklog import Body


def finish(reason: str, started: Body, verdict: Body | None, turns: int, tokens: int) -> Body:
    """The payload of `run.finished`; only here kind and models of the winner are found (BOWL-54)."""
    won = _nobody()
    if reason == "verdict" and verdict is not None:
        won = attribute(verdict.get("winner"), started)
    return {"reason": reason, **won, "turns": turns, "tokens": tokens}


def attribute(winner: Any, started: Body) -> Body:
    """The kind and the models of a winner: a player of the cast, else a team."""
    if not isinstance(winner, str) or not winner:
        return _nobody()
    cast = started.get("cast") or {}
    teams = (started.get("competition") or {}).get("teams") or {}
    if winner in cast:
        endpoint = _endpoint(cast, winner)
        models = [endpoint] if endpoint is not None else []
        return _won(winner, "agent", endpoint, models)
    if winner in teams:
        endpoints = [_endpoint(cast, member) for member in teams[winner]]
        # BOWL-50: a team has no single model, and none is guessed.
        return _won(winner, "team", None, [each for each in endpoints if each is not None])
    return _won(winner, None, None, [])


def _endpoint(cast: Mapping[str, Any], name: str) -> str | None:
    # F6: the endpoint as declared, not the model that a router chose.
    endpoint = (cast.get(name) or {}).get("model_endpoint")
    return endpoint if isinstance(endpoint, str) else None


def _won(winner: str | None, kind: str | None, model: str | None, models: list[str]) -> Body:
    return {
        "winner": winner,
        "winner_kind": kind,
        "winning_model": model,
        "winning_models": models,
    }


def _nobody() -> Body:
    return _won(None, None, None, [])
