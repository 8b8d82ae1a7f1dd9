"""Play a recorded run again: players and visitors give their recorded answers.

The question to a player is not recorded; it is computed from the events before its answer.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from tracklog import (
    Body,
    Log,
    OnMiss,
    RecordedAnswer,
    ServeBy,
    Tape,
    TapeMiss,
)
from tracklog.hosts._endpoint import ModelFailed
from tracklog.hosts.fishbowl import FAMILY
from tracklog.hosts.fishbowl.manifest import REFLECTION
from tracklog.hosts.fishbowl.memory import Remark
from tracklog.hosts.fishbowl.models import PlayerModel, PlayerReply, Prompt
from tracklog.hosts.fishbowl.scenario import Scenario
from tracklog.hosts.fishbowl.state import SKIPPED, PlayState

VISITOR = "visitor"
METERS = ("_tokens", "_cost_usd", "_calls")


class Failed(ModelFailed):
    """A player that failed in the recorded play, and therefore fails again."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.was = name
        """The recorded name of the error."""


def bodies_of(journal: Log, run: str) -> Iterator[tuple[int, Body]]:
    """The events of a run that can be read, each with the number of its record."""
    for record in journal.read(run=(FAMILY, run)):
        event = journal.event(record) if record.dialect == FAMILY else None
        if event is not None:
            yield record.seq, event.body


class RecordedShow:
    """A recorded play, whose answers are used again with the same scenario or another one."""

    def __init__(
        self,
        journal: Log,
        name: str,
        scenario: Scenario,
        by: ServeBy = "order",
        miss: OnMiss = "error",
    ) -> None:
        family, run = journal.find(name)
        self.seed: str | None = None
        self._by, self._miss = by, miss
        self._scenario = scenario
        self._last = 0
        if family == FAMILY:
            self._recorded = list(self._answers(bodies_of(journal, run)))
        else:
            self._recorded = journal.recorded_answers((family, run))
        self.tape = Tape(self._recorded, by=by, miss=miss)

    def _answers(self, bodies: Iterable[tuple[int, Body]]) -> Iterator[RecordedAnswer]:
        state = PlayState(self._scenario)
        for seq, body in bodies:
            kind, actor, payload = body["kind"], body["actor"], body["payload"]
            self._last = max(self._last, int(body["turn"]))
            who = payload.get("agent") if kind == SKIPPED else actor
            if kind == "run.started":
                self.seed = str(payload.get("seed", self._scenario.seed))
            elif kind == "user.injected" and actor == VISITOR:
                yield RecordedAnswer(
                    kind=VISITOR, lane=None, asked={"place": state.events}, answer=payload, seq=seq
                )
            elif who in state.order:
                mind = state.minds[state.order[who]]
                asked = _question(body["turn"], state.scene, mind.recall())
                yield RecordedAnswer(kind="model", lane=who, asked=asked, answer=body, seq=seq)
            state.step(body)

    def rewind(self, bodies: Iterable[Body]) -> None:
        """Start again after the events that a run has recorded."""
        self.tape = Tape(self._recorded, by=self._by, miss=self._miss)
        cast = self._scenario.players
        for place, body in enumerate(bodies):
            who = body["payload"].get("agent") if body["kind"] == SKIPPED else body["actor"]
            answer = self.tape.next("model", who) if who in cast else None
            if answer is not None:
                self.tape.play("model", answer.asked, who)
            elif body["kind"] == "user.injected":
                self.visitor(place)

    def visitor(self, place: int) -> Body | None:
        """The remark of a visitor after this number of events, if there was one."""
        answer = self.tape.next(VISITOR)
        if answer is None or answer.asked["place"] != place:
            return None
        played = self.tape.play(VISITOR, answer.asked)
        return dict(played.answer) if played else None

    def abstained(self, prompt: Prompt) -> bool:
        """Whether the player was asked at this point of the recorded play and said nothing."""
        if prompt.turn > self._last:
            return False
        answer = self.tape.next("model", prompt.player.name)
        if answer is None or answer.lane is None:
            return answer is None
        turn, kind = answer.answer["turn"], answer.answer["kind"]
        reflects = (kind == REFLECTION) == (prompt.kinds == [REFLECTION])
        fits = kind == SKIPPED or (reflects and kind in prompt.player.may_emit)
        return bool(turn > prompt.turn or (turn == prompt.turn and not fits))

    def model(self, live: PlayerModel) -> "RecordedModel":
        """The model of a player, which looks for a recorded answer first."""
        return RecordedModel(self, live, offline=live.offline or self._miss == "error")


@dataclass(slots=True)
class RecordedModel:
    """A model that gives recorded answers; if there is none, it asks live, or it is a `TapeMiss`."""

    show: RecordedShow
    live: PlayerModel
    offline: bool

    @property
    def name(self) -> Any:
        return getattr(self.live, "name", None)

    def reply(self, prompt: Prompt) -> PlayerReply | None:
        if self.show.abstained(prompt):
            return None
        asked = _question(prompt.turn, prompt.scene, prompt.recall)
        recorded = self.show.tape.play("model", asked, prompt.player.name)
        return self.live.reply(prompt) if recorded is None else _reply(recorded, prompt)

    def close(self) -> None:
        self.live.close()


def _question(turn: int, scene: str, recall: Iterable[Remark]) -> dict[str, Any]:
    rows = [f"{each.actor} [{each.kind}]: {each.text}" for each in recall]
    return {"turn": turn, "scene": scene, "recall": rows}


def _reply(recorded: RecordedAnswer, prompt: Prompt) -> PlayerReply:
    answer = recorded.answer
    if "kind" not in answer:  # of a run of another dialect
        if not prompt.kinds:
            raise TapeMiss(f"{prompt.player.name} may send no event", "add a kind to its may_emit")
        return PlayerReply(prompt.kinds[0], {"text": answer.get("text") or "…"})
    payload = answer["payload"]
    if answer["kind"] == SKIPPED:
        text = str(payload.get("text", ""))
        text = text.removeprefix(f"{prompt.player.name} loses its turn: ")
        raise Failed(str(payload.get("error", "ModelFailed")), text)
    tokens, cost, calls = (payload.get(key, 0) for key in METERS)
    plain = {key: value for key, value in payload.items() if key not in METERS}
    return PlayerReply(answer["kind"], plain, tokens, cost, calls or 1, settled=True)
