"""The state of a run, computed from its events alone."""

from datetime import datetime
from typing import Any

from tracklog import Body
from tracklog.hosts.fishbowl.governor import Governor
from tracklog.hosts.fishbowl.manifest import REFLECTION, VERDICT
from tracklog.hosts.fishbowl.memory import Mind, Remark
from tracklog.hosts.fishbowl.scenario import Scenario

SKIPPED = "turn.skipped"
"""The kind of event for a lost turn: the player failed, or sent an event that it may not send."""

STOP = "stop"
"""The label under which a visitor asks for the end."""


class PlayState:
    """The state of a run; the same events give the same state."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.order = {player.name: n for n, player in enumerate(scenario.cast)}
        self.minds = [Mind(player) for player in scenario.cast]
        self.governor = Governor(scenario.governor)
        self.started: Body | None = None
        self.opened = False
        """The first scene was shown."""
        self.scene = ""
        self.events = 0
        self.turn = 0
        self.cursor = len(scenario.cast)
        """The position of the player that is asked next; after the last one the turn is over."""
        self.verdict: Body | None = None
        self.finished: Body | None = None
        """The payload of the last `run.finished`."""
        self.closes = 0
        self.stopping = False
        self.agent_errors = 0
        self.verdict_failed = False
        """The judge was asked at the end, and gave no verdict."""
        self.last_actor = ""
        self.last_kind = ""
        self.in_a_row = 0

    def step(self, body: Body) -> Remark:
        """Apply the next event, which has passed the checks."""
        kind, actor, payload, turn = body["kind"], body["actor"], body["payload"], body["turn"]
        words = payload.get("text")
        remark = Remark(self.events, turn, kind, actor, words if isinstance(words, str) else "")
        self.events += 1
        self.begin(turn)
        if actor in self.order:
            self._charge(body, payload)
            self.cursor = max(self.cursor, self.order[actor] + 1)
        elif kind == SKIPPED and payload.get("agent") in self.order:
            at = self.order[payload["agent"]]
            self.minds[at].drop_pending()
            self.agent_errors += 1
            self.verdict_failed = self.verdict_failed or payload.get("forced") is True
            self.cursor = max(self.cursor, at + 1)
        else:
            self._stage(kind, actor, payload)
        if kind == VERDICT:
            self.verdict = payload
        if kind != REFLECTION:
            self.in_a_row = self.in_a_row + 1 if actor == self.last_actor else 1
            self.last_actor = actor
        self.last_kind = kind
        for mind in self.minds:
            mind.notice(remark)
        return remark

    def owes_reflection(self) -> Mind | None:
        """The player that has just acted and is due to reflect."""
        if self.last_kind in (REFLECTION, VERDICT) or self.last_actor not in self.order:
            return None
        mind = self.minds[self.order[self.last_actor]]
        return mind if mind.is_full() else None

    def begin(self, turn: int) -> None:
        """Begin a later turn with the first player; an earlier turn changes nothing."""
        if turn > self.turn:
            self.turn, self.cursor = turn, 0
            self.governor.begin_turn(turn)

    def end_turn(self) -> None:
        """Nobody else is asked in this turn."""
        self.cursor = len(self.minds)

    def due(self, mind: Mind) -> bool:
        """Whether a player is asked: it has an event to answer, or its schedule names this turn."""
        schedule, name = mind.player.schedule, mind.player.name
        if self.last_actor == name and self.in_a_row >= schedule.max_consecutive:
            return False
        return mind.pending is not None or self.on_time(mind)

    def on_time(self, mind: Mind) -> bool:
        """Whether its schedule names this turn."""
        every = mind.player.schedule.tick_every
        return every is not None and self.turn % every == 0

    def _stage(self, kind: str, actor: str, payload: Body) -> None:
        """Apply an event of the conductor, the scenario, a visitor or another program."""
        match kind:
            case "run.started":
                self.started = payload
            case "run.finished":
                self.finished, self.closes = payload, self.closes + 1
            case "world.observed":
                self.opened = self.opened or actor == self.scenario.name
                self.scene = _words(payload) or self.scene
            case "user.injected":
                self.stopping = self.stopping or payload.get("label") == STOP
                self.end_turn()  # a visitor's remark is a turn of its own

    def _charge(self, body: Body, payload: Body) -> None:
        # Other programs can write events in a player's name, with any values.
        tokens = _number(payload.get("_tokens")) or 0
        calls = (_number(payload["_calls"]) or 1) if "_calls" in payload else 1
        cost = (_number(payload["_cost_usd"]) or 0.0) if "_cost_usd" in payload else 0.0
        at = datetime.fromisoformat(body["created_at"]).timestamp() if cost else 0.0
        self.governor.record_call(int(tokens), cost, at, int(calls))


def _number(value: Any) -> float | None:
    """The value if it is a number; a boolean is none."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _words(payload: Body) -> str:
    words: Any = payload.get("text")
    return words if isinstance(words, str) else ""
