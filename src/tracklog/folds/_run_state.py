"""The state of a run: what is known of it so far."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class State:
    family: str = ""
    run: str = ""
    dialects: list[str] = field(default_factory=list)
    title: str | None = None
    named: str | None = None
    """The name of the span that a run is: a title only where nobody gave it a task."""
    task: str | None = None
    prompt: str | None = None
    """Its first task from another agent or program, where no person gave one."""
    model: str | None = None
    """The model that spoke last, else the one it began with."""
    models: list[str] = field(default_factory=list)  # in the order of their first words
    cwd: str | None = None
    branch: str | None = None
    first_seq: int = 0
    last_seq: int = 0
    failed_seq: int = 0
    """Its last failure: that of the run, or of an agent or step."""
    first_received: str = ""
    last_received: str = ""
    alive: str = ""
    """Its last activity: the time of receipt of a live event, or the time in a file that was read.
    Empty as long as that is not known: a file without a clock may be of any age."""
    if_silent: str = "lost"
    """Its status once it is silent: a conversation read from a file is `done` where its last turn
    came to its end, and `failed` where it broke off with an error."""
    history: str | None = None
    """The first task in the history that it copied from another run."""
    first_at: str | None = None
    """The earliest and the latest time of its events, by its own clock."""
    last_at: str | None = None
    skew_ms: int = 0
    """The greatest distance between the emitter's clock and ours."""
    begun: bool = False
    """The begin of the run itself was recorded, so its end is expected."""
    began_ms: int | None = None
    ended: bool = False
    ended_ms: int | None = None
    seconds: float | None = None
    """Its duration, as its end reports it."""
    outcome: str | None = None
    passed: bool | None = None
    score: float | None = None
    agents: dict[str, str] = field(default_factory=dict)
    """Each agent's phase; empty where only acts of it were recorded."""
    ends: dict[str, list[Any]] = field(default_factory=dict)
    """Each agent's end: outcome, passed, score, when."""
    steps: dict[str, str] = field(default_factory=dict)
    turns: dict[str, list[Any]] = field(default_factory=dict)
    """Each agent's last step and how many it had, where steps do not begin and end."""
    asking: dict[str, str] = field(default_factory=dict)
    """Open questions, and who asks."""
    calls: dict[str, Any] = field(default_factory=dict)
    tool_calls: int = 0
    tool_failures: int = 0
    open_calls: int = 0
    """Calls that did not return: they dangle when the run is over."""
    torn_calls: int = 0
    """Calls of which only the return was recorded."""
    spent: dict[str, list[Any]] = field(default_factory=dict)
    """Each spend's group, whether it is the total of the group, its amounts, and its writer."""
    last_spent: str = ""
    """The last spend that has neither key nor group: only its own record can repeat it."""
    sums: dict[str, int] = field(default_factory=dict)
    """The sum of all such spends before it."""
    withdrawn: list[list[int]] = field(default_factory=list)
    """The withdrawn parts: the first and the last record of each."""
    source_gone: str | None = None
    """The time at which the file it was read from was found to be missing."""
