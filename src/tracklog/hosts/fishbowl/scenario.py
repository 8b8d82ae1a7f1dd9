"""A scenario file: stage, cast, competition, limits; faults are reported when it is loaded."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from itertools import combinations
from pathlib import Path
from typing import Any, Literal, NamedTuple

import orjson
import yaml
from pydantic import Field, ValidationError

from tracklog import TracklogError
from tracklog.hosts._yaml_text import NotYaml, read_yaml
from tracklog.hosts.fishbowl.governor import PlayLimits
from tracklog.hosts.fishbowl.manifest import (
    ENGINE_ACTORS,
    REFLECTION,
    THOUGHT,
    VERDICT,
    Kind,
    Manifest,
    Name,
    Positive,
    StrictManifest,
)

SPY = "spy"
"""The team with this name is the hidden one, if `hidden` names none."""

Loc = tuple[str | int, ...]


class ScenarioFault(NamedTuple):
    """One thing that is wrong with a scenario."""

    place: str
    """File, line and column."""
    at: str
    """Which part of the file it is."""
    message: str

    def __str__(self) -> str:
        return (
            f"{self.place}: {self.at}: {self.message}"
            if self.at
            else f"{self.place}: {self.message}"
        )


class BadScenario(TracklogError):
    """A scenario cannot be played; it has every fault that was found, with its place."""

    def __init__(self, faults: Iterable[ScenarioFault]) -> None:
        self.faults = list(faults)
        text = "\n".join(f"  {fault}" for fault in self.faults)
        count = len(self.faults)
        what = "one fault" if count == 1 else f"{count} faults"
        super().__init__(
            f"the scenario has {what}:\n{text}",
            "correct these faults and start it again; examples/fishbowl in the repository has scenarios",
        )


class Competition(StrictManifest):
    """How a winner is found; without a competition nobody wins."""

    kind: Literal["versus", "judged", "none"] = "none"
    teams: dict[Name, list[Name]] | None = None
    symmetric_seats: list[Name] | None = None
    hidden: Name | None = None

    @property
    def hidden_team(self) -> str | None:
        """The team that the judge must find, if there is one."""
        return self.hidden or (SPY if SPY in (self.teams or {}) else None)


class Scenario(StrictManifest):
    """One play."""

    name: Name
    goal: str
    genesis_text: Name
    """What everybody sees first; `{seed}` stands for the seed."""
    cast: list[Manifest]
    seed: str = "fishbowl"
    ticks: Positive | None = None
    """After this number of turns the judge is asked, or the run ends."""
    competition: Competition = Competition()
    governor: PlayLimits = PlayLimits()
    authority: Literal["strict", "coerce"] = "strict"
    overtime: bool = False
    """Whether the judge still decides after the budget is used up."""
    secrets: dict[Name, str] = Field(default={})
    """Texts that only one player gets; with a hidden team they are revealed with the verdict."""
    profiles: dict[Literal["tiny", "fast", "balanced", "strong"], Name] = Field(default={})
    """The endpoint of each profile, for players that name none."""
    repertoire: dict[Name, dict[Kind, list[Name]]] = Field(default={})
    """The lines of scripted players, by player and kind; see `offline`."""

    @property
    def players(self) -> dict[str, Manifest]:
        return {player.name: player for player in self.cast}

    @property
    def ignored_settings(self) -> list[str]:
        """Settings that have no effect: a stage has no tools to call."""
        return [
            f"{player.name} names tools ({', '.join(player.tools)}), but a play calls no tools"
            for player in self.cast
            if player.tools
        ]

    def digest(self) -> str:
        """A hash of the content, independent of the layout of the file."""
        return sha256(orjson.dumps(self.model_dump(mode="json"))).hexdigest()


def load(path: Path) -> Scenario:
    """The scenario of a file, or `BadScenario` with every fault of it and of its manifests."""
    source = _ScenarioFiles(path)
    body = source.body
    if isinstance(body, dict) and isinstance(body.get("cast"), list):
        body["cast"] = [source.manifest(n, each) for n, each in enumerate(body["cast"])]
    try:
        scenario = Scenario.model_validate(body)
    except ValidationError as error:
        for fault in error.errors():
            if not source.is_missing(fault["loc"]):
                empty = not fault["loc"] and fault["input"] is None
                text = "the file is empty" if empty else fault["msg"]
                source.fault(fault["loc"], text)
        raise BadScenario(source.faults) from None
    for loc, message in check(scenario):
        source.fault(loc, message)
    source.raise_faults()
    return scenario


class _ScenarioFiles:
    """The files of a scenario, and the position of each part in them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.faults: list[ScenarioFault] = []
        self._manifests: dict[int, tuple[Path, yaml.Node | None]] = {}
        self._missing: set[int] = set()
        self._node, self.body = self._read(path)
        self.raise_faults()

    def manifest(self, place: int, written: Any) -> Any:
        """The manifest of a player, from this file or from the file that is named here."""
        if not isinstance(written, str):
            return written
        path = self.path.parent / written
        if not path.is_file():
            self.fault(("cast", place), f"there is no manifest {written!r} beside the scenario")
            self._missing.add(place)
            return written
        node, body = self._read(path)
        self._manifests[place] = path, node
        if node is None:
            self._missing.add(place)
        return body

    def is_missing(self, loc: Loc) -> bool:
        """Whether a part is in a manifest that could not be read, which is a fault already."""
        return len(loc) > 1 and loc[0] == "cast" and loc[1] in self._missing

    def fault(self, loc: Loc, message: str) -> None:
        path, node, rest = self.path, self._node, loc
        if len(loc) > 1 and loc[0] == "cast" and loc[1] in self._manifests:
            path, node = self._manifests[int(loc[1])]
            rest = loc[2:]
        mark = _mark(node, rest)
        place = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else str(path)
        text = message.removeprefix("Value error, ")
        self.faults.append(ScenarioFault(place, ".".join(map(str, loc)), text))

    def raise_faults(self) -> None:
        if self.faults:
            raise BadScenario(self.faults)

    def _read(self, path: Path) -> tuple[yaml.Node | None, Any]:
        try:
            node, value = read_yaml(path.read_bytes())
        except NotYaml as error:
            self.faults.append(ScenarioFault(f"{path}{error.place}", "", error.problem))
            return None, None
        self.faults += _duplicate_keys(path, node)
        return node, value


def _duplicate_keys(path: Path, node: yaml.Node | None) -> Iterator[ScenarioFault]:
    """Find keys that occur twice: YAML takes the last one without a warning, here it is a fault."""
    if isinstance(node, yaml.MappingNode):
        seen = set()
        for key, value in node.value:
            if key.value in seen:
                mark = key.start_mark
                place = f"{path}:{mark.line + 1}:{mark.column + 1}"
                yield ScenarioFault(place, str(key.value), "the key occurs twice")
            seen.add(key.value)
            yield from _duplicate_keys(path, value)
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            yield from _duplicate_keys(path, value)


def _mark(node: yaml.Node | None, loc: Loc) -> yaml.Mark | None:
    """The position of a part; of a missing part, that of its parent."""
    mark = node.start_mark if node else None
    for step in loc:
        if isinstance(node, yaml.MappingNode):
            pairs = [(key, value) for key, value in node.value if key.value == str(step)]
            if not pairs:
                break
            mark, node = pairs[-1][0].start_mark, pairs[-1][1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(step, int):
            if step >= len(node.value):
                break
            node = node.value[step]
            mark = node.start_mark
        else:
            break
    return mark


def check(scenario: Scenario) -> Iterator[tuple[Loc, str]]:
    """Find faults between the parts of a scenario whose parts are each well formed."""
    names = Counter(player.name for player in scenario.cast)
    if not names:
        yield ("cast",), "nobody is in the cast"
    for place, player in enumerate(scenario.cast):
        yield from _check_player(scenario, place, player, names)
    for part in ("secrets", "repertoire"):
        for name in getattr(scenario, part):
            if name not in names:
                yield (part, name), f"{name!r} is not in the cast"
    for name, kinds in scenario.repertoire.items():
        known = scenario.players.get(name)
        for kind, lines in kinds.items():
            if known and kind not in known.may_emit:
                yield ("repertoire", name, kind), f"{name} may not emit {kind}"
            for n, line in enumerate(lines):
                if problem := template_fault(line):
                    yield ("repertoire", name, kind, n), problem
            if not lines:
                yield ("repertoire", name, kind), "there are no lines to say"
    yield from _check_contest(scenario, names)


def _check_player(
    scenario: Scenario, place: int, player: Manifest, names: Mapping[str, int]
) -> Iterator[tuple[Loc, str]]:
    loc: Loc = ("cast", place)
    if names[player.name] > 1:
        yield (*loc, "name"), f"{names[player.name]} players are called {player.name!r}"
    if player.name in ENGINE_ACTORS | {scenario.name}:
        yield (*loc, "name"), f"{player.name!r} is the name of an actor that is no player"
    if THOUGHT in player.subscribes_to:
        yield (*loc, "subscribes_to"), "agent.thought is private: nobody receives another's"
    if player.memory.reflection_threshold is not None and REFLECTION not in player.may_emit:
        # F5: no kind is allowed implicitly
        yield (*loc, "may_emit"), "a player that reflects needs agent.reflected in may_emit"
    if player.role == "judge" and VERDICT not in player.may_emit:
        yield (*loc, "may_emit"), "a judge needs judge.verdict in may_emit"
    if player.handler is not None and player.role != "judge":
        yield (*loc, "handler"), "only a judge has a handler"
    wanted = {"spy-host": "versus", "judged-competition": "judged"}.get(player.handler or "")
    if wanted and scenario.competition.kind != wanted:
        yield (*loc, "handler"), f"{player.handler} needs a competition of the kind {wanted}"


def _check_contest(scenario: Scenario, names: Mapping[str, int]) -> Iterator[tuple[Loc, str]]:
    contest, loc = scenario.competition, ("competition",)
    teams, seats = contest.teams, contest.symmetric_seats
    if contest.kind != "versus":
        for part in ("teams", "symmetric_seats", "hidden"):
            if getattr(contest, part) is not None:
                yield (*loc, part), f"{part} belongs to versus, and the kind is {contest.kind}"
    elif teams is None and seats is None:
        yield loc, "versus needs teams or symmetric_seats"
    if contest.kind != "none" and not any(player.role == "judge" for player in scenario.cast):
        yield loc, "a competition needs a judge in the cast"
    if teams is not None:
        yield from _check_teams(contest, teams, names)
    if seats is not None:
        yield from _check_seats(scenario, seats, names)


def _check_teams(
    contest: Competition, teams: Mapping[str, list[str]], names: Mapping[str, int]
) -> Iterator[tuple[Loc, str]]:
    loc: Loc = ("competition", "teams")
    if not teams:
        yield loc, "there is no team"
    for label, members in teams.items():
        if not members:
            yield (*loc, label), "the team has no members"
        if label in names:
            yield (*loc, label), f"{label!r} is also the name of a player"
        for n, member in enumerate(members):
            if member not in names:
                yield (*loc, label, n), f"{member!r} is not in the cast"
            if member in members[:n]:
                yield (*loc, label, n), f"{member!r} is named twice"
    for one, other in combinations(teams, 2):
        for member in dict.fromkeys(teams[one]):
            if member in teams[other]:
                yield (*loc, other), f"{member!r} is also in the team {one!r}"
    if contest.hidden is not None and contest.hidden not in teams:
        yield ("competition", "hidden"), f"there is no team {contest.hidden!r}"
    elif contest.hidden_team is not None and len(teams) != 2:
        yield loc, f"with a hidden team there must be two teams, and there are {len(teams)}"


def _check_seats(
    scenario: Scenario, seats: list[str], names: Mapping[str, int]
) -> Iterator[tuple[Loc, str]]:
    loc: Loc = ("competition", "symmetric_seats")
    if len(set(seats)) < 2:
        yield loc, "there are fewer than two seats"
    apart = {"name", "model_profile", "model_endpoint", "hue"}
    known = [scenario.players[seat] for seat in seats if seat in names]
    for n, seat in enumerate(seats):
        if seat not in names:
            yield (*loc, n), f"{seat!r} is not in the cast"
        elif scenario.players[seat].model_dump(exclude=apart) != known[0].model_dump(exclude=apart):
            yield (*loc, n), f"{seat} and {known[0].name} differ in more than the model"


SLOTS = ("me", "other", "topic", "said", "seed", "suspect")
"""What a line of a repertoire may contain in braces: who speaks, who spoke last, a word of what they
said, all of it, the seed, and one of the others."""


def template_fault(line: str) -> str | None:
    """What is wrong with a line of a repertoire; None if nothing is."""
    try:
        line.format(**dict.fromkeys(SLOTS, ""))
    except (KeyError, IndexError, ValueError, AttributeError):
        return f"in braces only these are allowed: {', '.join(f'{{{slot}}}' for slot in SLOTS)}"
    return None
