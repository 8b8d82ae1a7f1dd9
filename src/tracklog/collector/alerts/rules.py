"""The file of rules: its shape, and what is wrong with one, with the place of each fault."""

import re
from collections.abc import Mapping
from datetime import datetime
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path
from string import Formatter
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from tracklog.hosts._yaml_text import NotYaml, read_yaml
from tracklog.model.errors import TracklogError
from tracklog.model.event import Body

Severity = Literal["info", "warning", "critical"]
Scalar = str | float | bool | None
"""The value of a field of a row."""
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_COMPARISON = re.compile(r"(>=|<=|!=|>|<)\s*(\S+)")


class BadRules(TracklogError):
    """A file of rules is not valid; the message has every fault."""


def duration_seconds(value: object) -> float:
    """A duration, written as a number of seconds or such as 5m."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhdw])", str(value))
    if found is None:
        raise ValueError("write a duration such as 30s, 5m, 4h, 1d or 2w")
    return float(found[1]) * _UNITS[found[2]]


def _repeat(value: object) -> float | None:
    return None if value == "never" else duration_seconds(value)


Seconds = Annotated[float, BeforeValidator(duration_seconds), Field(ge=0)]
Condition = bool | float | str | list[str | float]
Table = Literal[
    "runs", "questions", "costs", "outcomes", "loops", "findings", "journal", "models",
    "checkpoints",
]  # fmt: skip  # one row
"""Where rows come from; `tables` makes them."""


class _RuleModel(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Target(_RuleModel):
    """Where messages go: one or several ways."""

    bell: bool = False
    desktop: bool = False
    post: str | None = None
    """An address that gets an HTTP POST."""
    style: Literal["json", "slack", "discord", "teams", "ntfy"] = Field("json", alias="as")
    topic: str | None = None
    """The topic of ntfy."""
    allow_private: bool = False
    """Whether the address may be on this machine or in a private network."""
    url: str | None = None
    """A service in the notation of apprise."""

    @model_validator(mode="after")
    def _some_way(self) -> "Target":
        if not (self.bell or self.desktop or self.post or self.url):
            raise ValueError("say how: bell, desktop, post or url")
        if self.post and not re.match(r"https?://[^/]", self.post):
            raise ValueError("post must be an address that begins with http:// or https://")
        if self.style == "ntfy" and self.post and not self.topic:
            raise ValueError("ntfy needs a topic")
        return self


class Silence(_RuleModel):
    """A time during which matching alerts are recorded, but not sent."""

    match: dict[str, str] = Field(min_length=1)
    until: datetime
    by: str
    because: str

    def covers(self, values: Mapping[str, Scalar], now: float) -> bool:
        return now < self.until.timestamp() and all(
            name in values and fnmatchcase(str(values[name]), pattern)
            for name, pattern in self.match.items()
        )


class Rule(_RuleModel):
    """When an alert begins, and who is told."""

    name: str = Field(pattern=r"^[a-z][a-z0-9-]{0,63}$")
    of: Table
    when: dict[str, Condition] = Field(min_length=1)
    after: Seconds = Field(0.0, alias="for")
    """How long the condition must hold first."""
    keep_firing_for: Seconds = 0.0
    over: Seconds = 86_400.0
    """For costs and outcomes: how far back they are added up."""
    by: str | None = None
    """For costs and outcomes: what they are added up by."""
    severity: Severity = "warning"
    to: list[str] = []
    repeat: Annotated[float | None, BeforeValidator(_repeat)] = 14_400.0
    resolved: bool = True
    """Whether the end is told, too."""
    summary: str | None = None

    def holds(self, values: Mapping[str, Scalar]) -> bool:
        """Whether a row fulfils all conditions."""
        return all(_fits(values.get(name), wanted) for name, wanted in self.when.items())

    def limit(self, name: str, values: Mapping[str, Scalar]) -> float | None:
        """The number that a field of a row must exceed; None where the rule is not about that row."""
        wanted = self.when.get(name)
        found = _COMPARISON.fullmatch(wanted) if isinstance(wanted, str) else None
        others = ((other, each) for other, each in self.when.items() if other != name)
        if found is None or found[1] not in (">", ">="):
            return None
        return float(found[2]) if all(_fits(values.get(o), each) for o, each in others) else None


def _fits(value: Scalar, wanted: Condition) -> bool:
    if isinstance(wanted, list):
        return any(_fits(value, each) for each in wanted)
    if isinstance(wanted, bool) or not isinstance(wanted, str):
        return value == wanted
    compared = _COMPARISON.fullmatch(wanted)
    if compared is None:
        return value is not None and fnmatchcase(str(value), wanted)
    if value is None or isinstance(value, str):
        return compared[1] == "!=" and value != compared[2]
    number, limit = float(value), float(compared[2])
    return {
        ">": number > limit,
        ">=": number >= limit,
        "<": number < limit,
        "<=": number <= limit,
        "!=": number != limit,
    }[compared[1]]


class RuleFile(_RuleModel):
    """The targets, the silences and the rules."""

    version: Literal[1]
    to: dict[str, Target]
    defaults: Body = {}
    silences: list[Silence] = []
    rules: list[Rule] = Field(min_length=1)

    @model_validator(mode="before")
    @classmethod
    def _with_defaults(cls, value: Any) -> Any:
        if not isinstance(value, dict) or not isinstance(value.get("rules"), list):
            return value
        defaults = value.get("defaults") or {}
        rules = [
            {**defaults, **each} if isinstance(each, dict) else each for each in value["rules"]
        ]
        return {**value, "rules": rules}


def parse(text: str | bytes, fields: Mapping[str, tuple[str, ...]]) -> RuleFile:
    """The rules of a text; `fields` are the fields of each table. Raises `BadRules`."""
    try:
        _, content = read_yaml(text.encode() if isinstance(text, str) else text)
        if not isinstance(content, dict):
            raise BadRules(
                "the file is empty" if content is None else "the file has no `rules:`",
                "`tracklog alerts ready` prints rules to begin with",
            )
        file = RuleFile.model_validate(content)
    except ValidationError as error:
        faults = [
            f"{'.'.join(map(str, each['loc'])) or 'the file'}: {each['msg']}"
            for each in error.errors()
        ]
        raise BadRules("; ".join(faults), "see docs/how-to/get-alerts.md") from error
    except NotYaml as error:
        raise BadRules(str(error), "correct it at that place") from error
    faults = [fault for rule in file.rules for fault in _faults(rule, file, fields[rule.of])]
    names = [rule.name for rule in file.rules]
    faults += [f"rules: {name} is there twice" for name in {*names} if names.count(name) > 1]
    if faults:
        raise BadRules("; ".join(faults), "`tracklog alerts tables` lists the fields of each table")
    return file


def _faults(rule: Rule, file: RuleFile, fields: tuple[str, ...]) -> list[str]:
    used = {name for _, name, _, _ in Formatter().parse(rule.summary or "") if name}
    faults = [_unknown(rule.name, name, fields) for name in [*rule.when, *sorted(used)]]
    for name, wanted in rule.when.items():
        found = _COMPARISON.fullmatch(wanted) if isinstance(wanted, str) else None
        if found and found[1] != "!=" and not re.fullmatch(r"-?\d+(\.\d+)?", found[2]):
            faults.append(f"{rule.name}: {name} is compared with {found[2]!r}, which is no number")
    faults += [
        f"{rule.name}: there is no target {name!r} in `to`"
        for name in rule.to
        if name not in file.to
    ]
    if not rule.to:
        faults.append(f"{rule.name}: `to` names no target")
    return [fault for fault in faults if fault]


def _unknown(rule: str, name: str, fields: tuple[str, ...]) -> str:
    if name in fields:
        return ""
    near = get_close_matches(name, fields, n=1)
    return f"{rule}: there is no field {name!r}" + (f", did you mean {near[0]}?" if near else "")


def load(path: Path, fields: Mapping[str, tuple[str, ...]]) -> RuleFile:
    """The rules of a file."""
    return parse(path.read_bytes(), fields)
