"""The screen of `tracklog top`: from the data and the view state to lines of text."""

from collections.abc import Sequence
from dataclasses import asdict, astuple, dataclass, field, fields
from typing import TYPE_CHECKING

import click

from tracklog.cli import _table
from tracklog.cli import _terminal as terminal

if TYPE_CHECKING:
    from tracklog.answers.top import TopAgentRow, TopAnswer, TopRunRow

    Row = TopRunRow | TopAgentRow

BEGINNING = 10**9
"""More rows than there are: drawing reduces it to the real number."""
HELP = (
    "up, down, k, j    choose a run",
    "page up, down     a screenful",
    "home, end, g, G   the first, the last",
    "enter             open the run and follow its events",
    "escape            back; in the list: no filter",
    "/                 only those with these words, in any column",
    "a, tab            agents instead of runs, and back",
    "q                 quit",
    "",
    "Waiting runs stand first, then failed, lost, working and done ones.",
    "calls/m is tool calls a minute, over the last five.",
)


@dataclass(slots=True)
class Look:
    """The state of the view."""

    agents: bool = False
    """Whether agents are shown instead of runs."""
    filter: str = ""
    typing: bool = False
    """Whether the filter is being typed."""
    chosen: str | None = None
    """The key of the chosen row; it stays chosen when rows move."""
    top: int = 0
    opened: tuple[str, str] | None = None
    """The open run."""
    back: int = 0
    """Rows below the screen; at 0 new events are followed."""
    help: bool = False
    events: list[str] = field(default_factory=list)
    """The events of the open run, one line each, not cut."""


def key_of(row: "Row") -> str:
    return f"{row.family}:{row.run}:{getattr(row, 'agent', '')}"


def rows_of(view: "TopAnswer", look: Look) -> "Sequence[Row]":
    """The rows that pass the filter."""
    rows = view.agents if look.agents else view.runs
    wanted = look.filter.casefold().split()
    if not wanted:
        return rows
    return [row for row in rows if all(word in _text(row) for word in wanted)]


def _text(row: "Row") -> str:
    values = [getattr(row, each.name) for each in fields(row)]
    parts = [value for value in values if isinstance(value, str)]
    parts += getattr(row, "agents", ())
    return "\n".join(parts).casefold()


def columns(names: _table.RunNames, *, agents: bool) -> list[_table.Column]:
    """The columns of the table."""
    if agents:
        return [
            _table.Column("status", lambda row: row.status),
            _table.Column("agent", lambda row: row.agent, cut=16),
            names.column(rank=1),
            _table.Column(
                "last activity", lambda row: _table.age(row.silent_seconds), 2, right=True
            ),
            _table.Column("says", lambda row: row.says, rank=3, cut=10),
            _table.Column("why", _reason, rank=4, cut=20),
        ]
    return [
        _table.Column("status", lambda row: row.status),
        names.column(),
        _table.Column("age", lambda row: _table.age(row.age_seconds), rank=4, right=True),
        _table.Column("last activity", lambda row: _table.age(row.silent_seconds), 1, right=True),
        _table.Column("agents", lambda row: len(row.agents), rank=6, right=True),
        _table.Column("calls/m", lambda row: _rate(row.calls_per_minute), rank=3, right=True),
        _table.Column("cost", _table.cost, rank=2, right=True),
        _table.Column("asks", lambda row: row.questions or None, rank=5, right=True),
        _table.Column("last text", _words, cut=24),
    ]


def _reason(row: "TopAgentRow") -> str | None:
    return row.outcome or row.reason or row.task


def _rate(calls: float) -> str | None:
    return f"{calls:.1f}" if calls else None


def _words(row: "TopRunRow") -> str | None:
    if row.question:
        return f"? {row.question}"
    return row.words or row.outcome or row.title


def table(
    view: "TopAnswer", look: Look, names: _table.RunNames, size: tuple[int, int]
) -> list[str]:
    """The list: a summary line, the rows that fit, a line about keys."""
    width, height = size
    rows = rows_of(view, look)
    at = next((n for n, row in enumerate(rows) if key_of(row) == look.chosen), None)
    if at is None:  # the chosen row is gone: take its neighbour
        at = max(0, min(look.top, len(rows) - 1))
        look.chosen = key_of(rows[at]) if rows else None
    room = max(1, height - 3)
    look.top = max(0, min(look.top, at, len(rows) - room), at - room + 1)
    visible = rows[look.top : look.top + room]
    cols = columns(names, agents=look.agents)
    texts = [
        [terminal.printable(_table.cell(column.value(row))) for column in cols] for row in visible
    ]
    lines = [head(view, width)]
    if texts:
        table = list(_table.lines(texts, cols, max(1, width - 2)))
        lines.append(f"  {table[0]}")
        for n, line in enumerate(table[1:], look.top):
            plain = terminal.fitted(f"› {click.unstyle(line)}", width)
            lines.append(click.style(plain, reverse=True) if n == at else f"  {line}")
    else:
        lines += ["", terminal.fitted(_nothing(view, look), width)]
    lines += [""] * (height - 1 - len(lines))
    return [*lines[: height - 1], _foot(look, width)]


def _nothing(view: "TopAnswer", look: Look) -> str:
    if look.filter:
        return f"  nothing has {look.filter!r} in it; escape shows all"
    if view.runs:
        return "  no agents were named yet; `a` shows the runs"
    return "  no runs yet; what `tracklog record` keeps appears here"


def head(view: "TopAnswer", width: int | None) -> str:
    """The number of runs by status."""
    total = sum(astuple(view.counts))
    words: list[tuple[str, str | None]] = [(terminal.count(total, "run"), None)]
    words += [
        (f"{n:,} {status}", _table.COLOURS[status])
        for status, n in asdict(view.counts).items()
        if n
    ]
    right = f"record {view.last:,}  {view.now[11:19]} UTC"
    plain = "  ".join(word for word, _ in words)
    if width is None:
        return f"{plain}  {right}"
    if len(plain) + len(right) + 2 > width:
        return terminal.fitted(plain, width)
    line = "  ".join(click.style(word, fg=colour, bold=True) for word, colour in words)
    return f"{line}{' ' * (width - len(plain) - len(right))}{right}"


def _foot(look: Look, width: int) -> str:
    if look.typing:
        return terminal.fitted(f"/{look.filter}▏", width).rstrip()
    keys = "enter open  / filter  a agents  ? help  q quit"
    if look.agents:
        keys = keys.replace("a agents", "a runs")
    if look.filter:
        keys = f"filter: {look.filter}  escape all  {keys}"
    return click.style(terminal.fitted(keys, width), dim=True)


def opened(
    row: "TopRunRow | None", look: Look, names: _table.RunNames, size: tuple[int, int]
) -> list[str]:
    """One run: its state, and its last events."""
    width, height = size
    assert look.opened is not None, "a run is open"
    lines = [_title(row, names.of(*look.opened), width)]
    if row is not None:
        lines += [terminal.fitted(line, width) for line in _facts(row)]
    lines.append("")
    room = max(1, height - len(lines) - 1)
    look.back = max(0, min(look.back, len(look.events) - room))
    end = len(look.events) - look.back
    lines += [
        terminal.fitted(line, width).rstrip() for line in look.events[max(0, end - room) : end]
    ]
    lines += [""] * (height - 1 - len(lines))
    below = f"{look.back:,} below; end follows  " if look.back else ""
    foot = f"{below}up down scroll  escape back  q quit"
    return [*lines[: height - 1], click.style(terminal.fitted(foot, width), dim=True)]


def _title(row: "TopRunRow | None", name: str, width: int) -> str:
    status = row.status if row else ""
    named = terminal.printable(name)
    room = max(4, width - len(status) - 2)
    named = terminal.fitted(named, min(room, terminal.cells(named)))
    label = click.style(status, fg=_table.COLOURS.get(status), bold=True)
    return f"{click.style(named, bold=True)}  {label}"


def _facts(row: "TopRunRow") -> list[str]:
    calls = [terminal.count(row.tool_calls, "call")]
    calls += [f"{row.tool_failures:,} failed"] if row.tool_failures else []
    calls += [f"{row.open_calls:,} open"] if row.open_calls else []
    money = "" if (paid := _table.cost(row)) == _table.NOTHING else paid
    tokens = terminal.count(row.tokens, "token") if row.tokens else ""
    last = f"last event {_table.ago(row.silent_seconds)}"
    parts = [row.outcome or "", f"age {_table.age(row.age_seconds)}", last, ", ".join(calls)]
    phases = [f"{name} {phase or ''}".strip() for name, phase in row.phases.items()]
    lines = [_table.cell(row.title)] if row.title else []
    lines.append("  ".join(filter(None, [*parts, tokens, money])))
    lines += [f"agents: {', '.join(phases)}"] if phases else []
    lines += [f"? {_table.cell(row.question)}"] if row.question else []
    return lines


def help_lines(size: tuple[int, int]) -> list[str]:
    """The help for the keys."""
    width, height = size
    lines = [click.style("tracklog top", bold=True), "", *HELP]
    lines = [terminal.fitted(click.unstyle(line), width).rstrip() for line in lines]
    return [
        *lines[: height - 1],
        click.style(terminal.fitted("any key goes back", width), dim=True),
    ]


def pressed(key: str, look: Look, rows: "Sequence[Row]", height: int) -> bool:
    """Handle a key; returns whether to go on."""
    if look.help:
        look.help = False
    elif look.typing:
        _typed(key, look)
    elif key == "q":
        return False
    elif key == "?":
        look.help = True
    elif look.opened is not None:
        _scrolled(key, look, height)
    else:
        _chose(key, look, rows, height)
    return True


def _typed(key: str, look: Look) -> None:
    match key:
        case "enter":
            look.typing = False
        case "escape":
            look.typing, look.filter = False, ""
        case "backspace":
            look.filter = look.filter[:-1]
        case "clear":
            look.filter = ""
        case _ if len(key) == 1:
            look.filter += key


def _scrolled(key: str, look: Look, height: int) -> None:
    match key:
        case "escape" | "backspace" | "h":
            look.opened, look.events, look.back = None, [], 0
        case "up" | "k":
            look.back += 1
        case "down" | "j":
            look.back -= 1
        case "page up":
            look.back += max(1, height - 6)
        case "page down":
            look.back -= max(1, height - 6)
        case "home" | "g":
            look.back = BEGINNING
        case "end" | "G":
            look.back = 0


def _chose(key: str, look: Look, rows: "Sequence[Row]", height: int) -> None:
    at = next((n for n, row in enumerate(rows) if key_of(row) == look.chosen), 0)
    page = max(1, height - 4)
    steps = {"up": -1, "k": -1, "down": 1, "j": 1, "page up": -page, "page down": page}
    steps |= {"home": -len(rows), "g": -len(rows), "end": len(rows), "G": len(rows)}
    if key in steps and rows:
        look.chosen = key_of(rows[max(0, min(at + steps[key], len(rows) - 1))])
    elif key == "enter" and rows:
        look.opened = (rows[at].family, rows[at].run)
    elif key == "/":
        look.typing = True
    elif key == "escape":
        look.filter = ""
    elif key in ("a", "tab"):
        look.agents, look.chosen, look.top = not look.agents, None, 0
