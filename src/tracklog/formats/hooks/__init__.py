"""Hooks: what an agent reports while it runs, through the hooks of its own configuration.

To add an agent: a file here named after it, with at its end `hook = Hook(...)`. Its `write` maps one
event to facts of the run that the importer of the same name derives from the agent's file: so the
hooks, the file and OTLP are one run, and each call counts once. Nothing raises: a field of a wrong
type is ignored, an unknown event is stored as `Noted`. What `tracklog connect` writes into the
agent's configuration is the file that `snippet` names, in the folder `files`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tracklog.formats.hooks._writing import TERMINAL, HookedRun, HookWriter, rest_of
from tracklog.model.event import Body

__all__ = [
    "FILES",
    "MAPPING",
    "TERMINAL",
    "Hook",
    "HookWriter",
    "HookedRun",
    "at_home",
    "name_in",
    "rest_of",
]

MAPPING = "1"
FILES = Path(__file__).parent / "files"
"""The files that are copied into configurations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """The hooks of one agent."""

    name: str
    """The same as that of its importer: both give one run."""
    title: str
    """What people call the agent."""
    session: Callable[[Body], str | None]
    """The id of the conversation that an event belongs to."""
    write: Callable[[HookWriter, str, Body], None]
    """Maps an event: the writer, the name of the event, the event."""
    event: Callable[[Body], str | None]
    """The name of an event, where the event itself has it."""
    config: Callable[[Path, Mapping[str, str]], Path]
    """The file of the agent's configuration, from the home folder and the environment."""
    snippet: str
    """The file in `files` with what is added to the configuration."""
    place: Literal["merged", "own"] = "merged"
    """Whether the snippet is merged into a file of the agent, or is a file of its own."""
    agent: Callable[[Body], str] = lambda _: ""
    """The id of the sub-agent whose run an event belongs to; empty for the main one."""
    advice: str = ""
    """What a person must do after connecting."""

    def read(self, event: Body) -> tuple[str | None, str]:
        """The conversation of an event, and its sub-agent."""
        return self.session(event), self.agent(event)


def at_home(*parts: str, variable: str = "") -> Callable[[Path, Mapping[str, str]], Path]:
    """A path below the home folder; the environment variable, if set, replaces the first part."""

    def path(home: Path, environment: Mapping[str, str]) -> Path:
        given = environment.get(variable) if variable else None
        folder = Path(given) if given else home / parts[0]
        return folder.joinpath(*parts[1:])

    return path


def name_in(*keys: str) -> Callable[[Any], str | None]:
    """Reads the first of these keys that holds a text."""

    def read(event: Any) -> str | None:
        found = (event.get(key) for key in keys)
        return next((each for each in found if isinstance(each, str) and each), None)

    return read
