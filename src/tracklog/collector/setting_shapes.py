"""The shapes of the settings: what the console shows of tokens, prices, storage, checkpoints, alerts."""

from typing import Literal, NotRequired

from typing_extensions import TypedDict  # pydantic asks for this one before Python 3.12

from tracklog.collector.alerts.rules import Severity
from tracklog.collector.shapes import CheckpointWitness
from tracklog.web.token_changes import TokenRow


class TokenList(TypedDict):
    tokens: list[TokenRow]
    you: str
    """Who asks."""
    open: bool
    """Nobody is asked for a token yet: with the first one, everybody is."""


class TokenBody(TypedDict):
    name: str
    role: Literal["write", "read", "operate", "admin"]
    days: NotRequired[float | None]
    """The number of days after which it ends."""
    run_prefix: NotRequired[str | None]
    """Only for runs whose id begins with this text."""


class NewToken(TypedDict):
    token: str
    """It is shown once, and not stored."""
    row: TokenRow


class ByBody(TypedDict, total=False):
    by: str
    """The name of the person, where no token has one."""


class PriceRow(TypedDict):
    """What a model costs today, in dollars per million tokens."""

    model: str
    input: float | None
    output: float | None
    cache_read: float | None
    cache_write: float | None
    source: Literal["list", "own"] | None
    """The list that comes with tracklog, or a price of this home; null where none is known."""
    since: str | None
    """The first day on which it is valid."""


class PriceList(TypedDict):
    prices: list[PriceRow]
    """Of the models that were used, the most expensive first."""
    as_of: str
    """The day on which the list was read."""


class PriceBody(TypedDict):
    model: str
    input: float
    output: float
    cache_read: NotRequired[float | None]
    cache_write: NotRequired[float | None]
    since: NotRequired[str]
    """The first day on which it is valid, such as 2026-01-31; without it, it is valid for all days."""


class StorageUse(TypedDict):
    records: int
    first: int
    last: int
    journal_bytes: int
    blob_bytes: int
    index_bytes: int
    free_bytes: int
    """On the disk of the home."""
    local: bool
    """The records are files of this home, and not in a database."""


class CheckpointState(TypedDict):
    origin: str | None
    """The name of the journal in its checkpoints; null where none was made."""
    records: int
    """Of the last checkpoint."""
    newer: int
    """Records that are not in it."""
    witnesses: list[CheckpointWitness]
    """Who signed the last checkpoint."""
    made_here: bool
    """This collector makes checkpoints."""


class AlertRuleRow(TypedDict):
    name: str
    of: str
    when: str
    """The conditions, in words of the file."""
    seconds: float
    """How long the conditions must be true before the alert begins."""
    severity: Severity
    to: list[str]
    last_fired: str | None


class IncidentRow(TypedDict):
    id: str
    rule: str
    key: str
    of: str
    """The table that the rule looks at; the key of `runs` is a run."""
    state: Literal["pending", "firing"]
    since: str
    severity: Severity
    summary: str
    silenced: str | None
    """Who silenced it, and why."""


class AlertChangeRow(TypedDict):
    at: str
    id: str
    rule: str
    key: str
    state: Literal["firing", "repeated", "resolved"]
    severity: Severity
    summary: str
    to: list[str]
    """The targets that are notified."""
    sent: list[str]
    """Those of them that a message reached."""
    silenced: str | None


class SilenceRow(TypedDict):
    match: dict[str, str]
    until: str
    by: str
    because: str


class AlertState(TypedDict):
    evaluated: bool
    """This collector looks at the rules; else only what was recorded is known."""
    rules: list[AlertRuleRow]
    incidents: list[IncidentRow]
    changes: list[AlertChangeRow]
    """The last ones, the newest first."""
    silences: list[SilenceRow]
    """Those that have not ended."""


class CostLimit(TypedDict):
    rule: str
    usd: float


class CostLimits(TypedDict):
    limits: list[CostLimit]
    """The lowest first."""


class SilenceBody(TypedDict):
    match: dict[str, str]
    """A pattern for each field; all must match. `rule`, `key` and `severity` are fields, too."""
    minutes: float
    because: str
    by: NotRequired[str]
    """The name of the person, where no token has one."""


class Silenced(TypedDict):
    seq: int
    """The record of it."""
    until: str
