"""Start, continue, stop or speak to a play: what the command line calls."""

import os
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import orjson

from tracklog import Body, Log, NoSuchRun, TracklogError
from tracklog.hosts import RunOver
from tracklog.hosts._endpoint import is_endpoint
from tracklog.hosts.fishbowl import FAMILY
from tracklog.hosts.fishbowl.conductor import Conductor, turn_lock
from tracklog.hosts.fishbowl.models import OFFLINE, PlayerModel
from tracklog.hosts.fishbowl.offline import Offline
from tracklog.hosts.fishbowl.recorded_show import RecordedShow
from tracklog.hosts.fishbowl.scenario import BadScenario, Scenario, ScenarioFault
from tracklog.hosts.fishbowl.state import STOP

GROUP_SIZE = 128
"""How many events of scripted players are written together if nobody watches."""
KEY = "OPENAI_API_KEY"


class RunTaken(TracklogError):
    """Another process plays this run."""


def models(
    scenario: Scenario, environment: Mapping[str, str] = os.environ
) -> dict[str, PlayerModel]:
    """The model of each player: that of its endpoint or of its profile, else the scripted one."""
    made: dict[str, PlayerModel] = {}
    faults = []
    for player in scenario.cast:
        url = player.model_endpoint or scenario.profiles.get(player.model_profile) or OFFLINE
        if url.startswith(OFFLINE):
            made[player.name] = Offline()
        elif is_endpoint(url):
            from tracklog.hosts.fishbowl.endpoint import PlayerEndpoint  # noqa: PLC0415  # an extra

            made[player.name] = PlayerEndpoint(url, environment.get(KEY, "none"))
        else:
            text = f"{url!r} is neither {OFFLINE}NAME nor https://HOST/v1#MODEL"
            faults.append(ScenarioFault(scenario.name, f"the model of {player.name}", text))
    if faults:
        raise BadScenario(faults)
    return made


@contextmanager
def conducting(
    journal: Log,
    scenario: Scenario,
    run: str | None = None,
    *,
    seed: str | None = None,
    together: bool = False,
    watch: Callable[[Body], None] = lambda _body: None,
    environment: Mapping[str, str] = os.environ,
    tape: RecordedShow | None = None,
) -> Iterator[Conductor]:
    """A conductor of a new or unfinished run, with the lease of that run."""
    run = run or f"{scenario.name}-{uuid.uuid4().hex[:8]}"
    cast = models(scenario, environment)
    if tape is not None:
        cast = {name: tape.model(model) for name, model in cast.items()}
        seed = seed or tape.seed
    leases = journal.leases()
    try:
        if not leases.take((FAMILY, run)):
            raise RunTaken(
                f"another process plays the run {run}", "choose another name for this one"
            )
        free = together and all(model.offline for model in cast.values())
        yield Conductor(
            journal, scenario, run, cast, seed=seed, group=GROUP_SIZE if free else 1, watch=watch,
            tape=tape,
        )  # fmt: skip
    finally:
        leases.close()
        for model in cast.values():
            model.close()


def inject(journal: Log, run: str, text: str, label: str | None = None, by: str = "") -> int:
    """Record a remark of a visitor in a run; returns the number of the record."""
    with turn_lock(journal):
        turn, over = _where(journal, run)
        if over:
            raise RunOver(f"the run {run} has ended", "`tracklog runs` shows which have not")
        payload = {"text": text} | ({"label": label} if label else {}) | ({"by": by} if by else {})
        body = {
            "id": uuid.uuid4().hex,
            "run_id": run,
            "turn": turn + 1,
            "kind": "user.injected",
            "actor": "visitor",
            "payload": payload,
            "created_at": journal.now(),
            "schema_version": 1,
        }
        (verdict,) = journal.admit([orjson.dumps(body)], FAMILY)
    if verdict.seq is None:
        raise TracklogError(
            "; ".join(problem.message for problem in verdict.problems), "change the text"
        )
    return verdict.seq


def stop(journal: Log, run: str, by: str = "") -> int:
    """Record the request of a visitor to end the run; the conductor reads it and ends the run."""
    return inject(journal, run, f"The curtain, please{f', says {by}' if by else ''}.", STOP, by)


def is_over(journal: Log, run: str) -> bool:
    """Whether a run has ended."""
    return is_begun(journal, run) and _where(journal, run)[1]


def is_begun(journal: Log, run: str) -> bool:
    """Whether a run has any record."""
    return any(True for _ in journal.read(run=(FAMILY, run)))


def _where(journal: Log, run: str) -> tuple[int, bool]:
    """The turn that a run has reached, and whether it is over."""
    turn, over, known = 0, False, False
    for record in journal.read(run=(FAMILY, run)):
        event = journal.event(record) if record.dialect == FAMILY else None
        if event is not None:
            known = True
            turn = max(turn, int(event.body["turn"]))
            over = over or event.kind == "run.finished"
    if not known:
        raise NoSuchRun(f"there is no fishbowl run {run!r}", "`tracklog runs` lists the runs")
    return turn, over
