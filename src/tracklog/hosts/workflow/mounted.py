"""The workflow host inside a collector: the workflows of a folder, each run in its own process."""

import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from tracklog import TracklogError, UnknownName
from tracklog.hosts import NotBegun, Program, Wanted
from tracklog.hosts._children import Children
from tracklog.hosts.workflow import FAMILY
from tracklog.hosts.workflow.flow import Loaded, given
from tracklog.hosts.workflow.host_context import read
from tracklog.web import logs

if TYPE_CHECKING:
    from tracklog import Log


class Runner:
    """Starts runs of the workflows in one folder, and of no others, because workflows run commands."""

    def __init__(self, journal: "Log", place: Path | None) -> None:
        self._place = place
        self._children = Children(journal)

    def programs(self) -> list[Program]:
        """The workflows of the folder, by their names."""
        return [
            Program(
                name=name,
                about=each.flow.about,
                inputs={key: it.default for key, it in each.flow.inputs.items()},
            )
            for name, each in self._flows().items()
        ]

    async def begin(self, wanted: Wanted) -> str:
        """Start a run of a workflow."""
        if wanted.program is None:
            raise NotBegun(
                "a workflow that is sent in a request is not run",
                "put it into the folder of `--with workflow=FOLDER`, and name it",
            )
        known = self._flows()
        if wanted.program not in known:
            names = ", ".join(known) or "none; start `tracklog serve --with workflow=FOLDER`"
            raise UnknownName(
                f"there is no workflow {wanted.program!r}", f"the workflows are: {names}"
            )
        loaded, run = known[wanted.program], str(uuid.uuid4())
        given(loaded.flow, wanted.inputs)  # raises if they are wrong
        words = ["workflow", "run", str(loaded.path), "--run", run]
        for key, value in wanted.inputs.items():
            words += ["--input", f"{key}={orjson.dumps(value).decode()}"]
        if wanted.tape is not None:
            tape = wanted.tape
            words += ["--tape", tape.run, "--by", tape.by, "--on-miss", tape.miss]
        if wanted.announce is not None:
            await wanted.announce(run)
        await self._children.begin((FAMILY, run), words)
        return run

    async def start(self) -> None:
        """Do nothing: a run whose host was killed is not continued; the next host ends it."""

    async def stop(self) -> None:
        """End all runs, and record their ends."""
        await self._children.stop()

    def _flows(self) -> dict[str, Loaded]:
        place = self._place
        paths = [] if place is None else [place]
        if place is not None and place.is_dir():
            paths = sorted(place.glob("*.yaml"))
        flows: dict[str, Loaded] = {}
        for path in paths:
            try:
                loaded = read(path)
                flows[loaded.flow.name] = loaded
            except TracklogError as error:
                logs.log("warning", "a workflow cannot be run", path=str(path), why=error.message)
        return flows
