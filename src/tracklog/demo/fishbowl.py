"""A stage: contests that were judged, and one conversation that continues live."""

from collections.abc import Iterator
from random import Random
from typing import Any

from tracklog.demo import DemoLine
from tracklog.journal.frame import stamp

_CAST = {"cara": "model://haiku", "bex": "model://mini", "dot": "model://flash"}
_TALK = (
    ("cara", "agent.spoke", "The saucer is dry, and nobody here drinks milk but the cat."),
    ("bex", "agent.thought", "If she says cat once more, I shall look under the table."),
    ("dot", "agent.spoke", "There are footprints on the sill. Four of them, and a fifth, smudged."),
    ("bex", "agent.spoke", "A fifth paw? Then it stood on three and scratched itself."),
    ("clerk", "clue.found", "A bell, without its collar, behind the flour."),
    ("cara", "agent.reflected", "The cat wants to be found: it left the bell on purpose."),
    ("dot", "agent.spoke", "I would rather ask the bird. It has been awfully quiet."),
    ("visitor", "user.injected", "Has anybody looked in the oven?"),
    ("bex", "agent.spoke", "The oven is cold. Which is just what a cat would want you to think."),
)


class _Bowl:
    """One run on the stage, in turns."""

    def __init__(self, run: str, at: float) -> None:
        self.run, self.at, self.turn, self.count = run, at, 0, 0

    def say(self, actor: str, kind: str, **payload: Any) -> DemoLine:
        self.count += 1
        return DemoLine(
            self.at,
            {
                "id": f"{self.run}/{self.count}",
                "run_id": self.run,
                "turn": self.turn,
                "kind": kind,
                "actor": actor,
                "payload": payload,
                "created_at": stamp(self.at),
                "schema_version": 1,
            },
        )

    def open(self, scene: str) -> Iterator[DemoLine]:
        cast = {name: {"model_endpoint": of, "model_profile": "fast"} for name, of in _CAST.items()}
        start = {"seed": scene, "goal": "find the cat", "scenario": "kitchen", "cast": cast}
        yield self.say("conductor", "run.started", **start, competition={"kind": "judged"})
        yield self.say("world", "world.observed", text=scene)

    def talk(self, lines: int, pause: float, first: int = 0) -> Iterator[DemoLine]:
        for n in range(first, first + lines):
            actor, kind, text = _TALK[n % len(_TALK)]
            self.at += pause
            self.turn += n % 3 == 0
            yield self.say(actor, kind, text=text)

    def judge(self, winner: str, scores: dict[str, float]) -> Iterator[DemoLine]:
        self.at += 3
        text = f"{winner.capitalize()} looked where nobody else did."
        yield self.say("judge", "judge.verdict", text=text, winner=winner, scores=scores)
        model = _CAST[winner]
        end: dict[str, Any] = {"reason": "verdict", "winner": winner, "winner_kind": "agent"}
        end |= {"winning_model": model, "winning_models": [model]}
        turns = self.turn + 1
        yield self.say("conductor", "run.finished", **end, turns=turns, tokens=410 * self.count)


def past(now: float, draw: Random) -> Iterator[DemoLine]:
    for n, winner in enumerate(("cara", "dot", "cara", "bex")):
        bowl = _Bowl(f"kitchen-{n + 1}", now - 70_000 + n * 17_000)
        yield from bowl.open("A kitchen at night. A saucer, a window that stands open.")
        yield from bowl.talk(draw.randint(7, 14), 4)
        scores = {name: round(draw.uniform(3, 8), 1) for name in _CAST}
        yield from bowl.judge(winner, scores | {winner: 9.0})
    _live = _Bowl("kitchen-tonight", now - 90)
    yield from _live.open("The same kitchen. The window is shut now, and the flour has spilled.")
    yield from _live.talk(9, 9)


def live(begin: float, cycle: int, draw: Random) -> Iterator[DemoLine]:
    bowl = _Bowl("kitchen-tonight", begin + draw.uniform(0, 2))
    bowl.count, bowl.turn = 1_000 * (cycle + 1), 3 * (cycle + 1)
    yield from bowl.talk(6, 9, cycle * 6)
