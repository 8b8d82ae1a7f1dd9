"""The fishbowl host inside a collector: each play is a process of its own."""

import signal
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from tracklog import TracklogError, UnknownName, write_file
from tracklog.hosts import NotBegun, Program, Wanted
from tracklog.hosts._children import Children
from tracklog.hosts.fishbowl import FAMILY, show
from tracklog.hosts.fishbowl.models import OFFLINE
from tracklog.hosts.fishbowl.scenario import BadScenario, Scenario, load
from tracklog.web import logs

if TYPE_CHECKING:
    from tracklog import Log


class PlayStarter:
    """Starts plays of the scenarios in a folder, and of scenarios that are sent in a request."""

    def __init__(self, journal: "Log", place: Path | None) -> None:
        self._journal, self._place = journal, place
        self._children = Children(journal)
        self._folder = journal.folder("fishbowl")

    def programs(self) -> list[Program]:
        """The scenarios that can be played, by their names."""
        return [
            Program(name=each.name, about=each.goal, inputs={"seed": each.seed})
            for each in self._scenarios().values()
        ]

    async def begin(self, wanted: Wanted) -> str:
        """Start a play; its scenario is stored beside the journal until the play is over."""
        scenario = self._scenario(wanted)
        name = uuid.uuid4().hex[:8]
        run = f"{scenario.name}-{name}"
        seed = wanted.seed or wanted.inputs.get("seed")
        options = ["--seed", str(seed)] if seed is not None else []
        if wanted.tape is not None:
            tape = wanted.tape
            options += ["--tape", tape.run, "--by", tape.by, "--on-miss", tape.miss]
        written = {"run": run, "options": options, "scenario": scenario.model_dump(mode="json")}
        path = self._folder / f"{name}.json"
        if wanted.announce is not None:
            await wanted.announce(run)
        write_file(path, orjson.dumps(written))
        await self._play(path)
        return run

    async def start(self) -> None:
        """Continue every unfinished play."""
        leases = self._journal.leases()
        for path in sorted(self._folder.glob("*.json")):
            run = (FAMILY, _read(path).get("run", ""))
            if not leases.take(run):
                continue  # it is being played
            leases.release(run)
            try:
                await self._play(path)
            except TracklogError as error:
                logs.log("warning", "a play cannot be continued", run=run[1], why=error.message)
        leases.close()

    async def stop(self) -> None:
        """Stop all plays; they can be continued."""
        await self._children.stop(signal.SIGKILL)

    async def _play(self, path: Path) -> None:
        written = _read(path)
        run, play = written.get("run", ""), path.with_suffix(".yaml")
        if not run or show.is_over(self._journal, run):
            _forget(path)
            return
        write_file(play, orjson.dumps(written["scenario"]))

        def ended() -> None:
            if show.is_over(self._journal, run) or not show.is_begun(self._journal, run):
                _forget(path)

        words = ["fishbowl", "play", str(play), "--run", run, *written["options"]]
        await self._children.begin((FAMILY, run), words, ended)

    def _scenario(self, wanted: Wanted) -> Scenario:
        if wanted.body is None:
            known = self._scenarios()
            if wanted.program not in known:
                names = ", ".join(known) or "none; start `tracklog serve --with fishbowl=FOLDER`"
                raise UnknownName(
                    f"there is no scenario {wanted.program!r}", f"the scenarios are: {names}"
                )
            return known[wanted.program]
        scenario = _scenario_in(wanted.body)
        asked = [*scenario.profiles.values(), *(each.model_endpoint for each in scenario.cast)]
        if any(each and not each.startswith(OFFLINE) for each in asked):
            # A client must not be able to make this machine send its key to another server.
            raise NotBegun(
                "a scenario that is sent in a request cannot use a model server",
                "put it into the folder of `--with fishbowl=FOLDER`, or remove its endpoints",
            )
        return scenario

    def _scenarios(self) -> dict[str, Scenario]:
        return {each.name: each for each in _read_all(self._place)}


def _scenario_in(body: Any) -> Scenario:
    from pydantic import ValidationError  # noqa: PLC0415  # here alone

    from tracklog.hosts.fishbowl.scenario import ScenarioFault, check  # noqa: PLC0415

    try:
        scenario = Scenario.model_validate(body)
    except ValidationError as error:
        faults = [
            ScenarioFault("body", ".".join(map(str, e["loc"])), e["msg"]) for e in error.errors()
        ]
        raise BadScenario(faults) from None
    found = [
        ScenarioFault("body", ".".join(map(str, loc)), message) for loc, message in check(scenario)
    ]
    if found:
        raise BadScenario(found)
    return scenario


def _read_all(place: Path | None) -> Iterator[Scenario]:
    """The scenarios of a file or a folder; one that cannot be played is logged."""
    if place is None:
        return
    for path in sorted(place.glob("*.yaml")) if place.is_dir() else [place]:
        try:
            yield load(path)
        except BadScenario as error:
            logs.log("warning", "a scenario cannot be played", path=str(path), why=error.message)


def _read(path: Path) -> Mapping[str, Any]:
    try:
        body = orjson.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return body if isinstance(body, dict) else {}


def _forget(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.with_suffix(".yaml").unlink(missing_ok=True)
