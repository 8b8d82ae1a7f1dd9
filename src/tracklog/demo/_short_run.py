"""A short run, for a dialect that has no file of its own in the demo."""

from collections.abc import Iterator
from random import Random
from typing import Any

from tracklog.demo import DemoLine
from tracklog.dialects import Dialect, Scene
from tracklog.journal.frame import stamp
from tracklog.model.fact import Began, Called, Ended, Fact, Returned, Said

FACTS: tuple[Fact, ...] = (
    Began(what="run", agent="demo", task="Say hello"),
    Said(role="user", blocks=({"type": "text", "text": "Say hello."},)),
    Called(agent="demo", tool="echo", call_id="call-1", input={"text": "hello"}),
    Returned(agent="demo", tool="echo", call_id="call-1", ok=True, output="hello"),
    Said(role="assistant", agent="demo", blocks=({"type": "text", "text": "hello"},)),
    Ended(what="run", agent="demo", passed=True),
)


class ShortRun:
    """The run in a dialect, as far as the dialect can write it."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect

    def past(self, now: float, draw: Random) -> Iterator[DemoLine]:
        del draw  # it is the same on each start
        memory: dict[str, Any] = {}
        for number, fact in enumerate(FACTS, 1):
            at = now - 3600 + number
            scene = Scene("demo-run", stamp(at), number, f"{number:032x}", memory)
            body = self._dialect.write(fact, scene)
            if body is not None:
                yield DemoLine(at, body)

    def live(self, begin: float, cycle: int, draw: Random) -> Iterator[DemoLine]:
        """Nothing: it has ended."""
        del begin, cycle, draw
        return iter(())
