"""`tracklog story`: the messages and actions of a run, to read from top to bottom."""

import textwrap
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tracklog.cli import _home
from tracklog.cli import _terminal as terminal

if TYPE_CHECKING:
    from tracklog.answers.story import StoryBlock, StoryFact, StoryRecord

WIDEST = 100
LINES = 12
"""How many lines of one text are shown without --all."""
OVER = {"withdrawn": "withdrawn", "superseded": "replaced later"}
"""The reason why a record does not count; a repeated text is shown once, without --all."""
QUIET = ("Spent", "Linked", "Noted")
NARROW = 60
"""The width below which a line has no room for the time."""
MARKS = {"Called": "→", "Returned": "←", "Asked": "?", "Answered": "!", "Decided": "◆"}


@click.command(
    epilog="""\b
Examples:
  tracklog story agent-coder-1
  tracklog story agent-coder-1 --all | less
  tracklog story kahn:nightly --json | jq -r '.records[].words'

\b
Each record begins with its number and its time (UTC): `tracklog why RUN SEQ` takes the number.""",
)
@_home.run_argument()
@_home.read_option
@click.option("--after", type=click.IntRange(min=0), default=0, help="Only after this record.")
@click.option("--all", "whole", is_flag=True, help="Show long texts in full, and details.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(run: str, home: Path, after: int, whole: bool, as_json: bool) -> None:
    """Print RUN as a story: the messages, the tool calls and their results."""
    from tracklog.answers.story import story

    with _home.asking(home) as opened:
        records: list[StoryRecord] = []
        printer = _Printer(whole=whole)
        following: int | None = after
        while following is not None:
            page = story(opened, run, following, whole=whole)
            following = page.next
            if as_json:
                records += page.records
            else:
                for record in _beginning_first(page.records):
                    printer.put(record)
        if not as_json:
            printer.done()
    if as_json:
        terminal.put_json(replace(page, records=records))


def _is_quiet(fact: "StoryFact") -> bool:
    """A fact that is a detail; an error is none, because it may be why the run stopped."""
    return fact["fact"] in QUIET and fact.get("label") != "error"


def _beginning_first(records: "list[StoryRecord]") -> "list[StoryRecord]":
    """The records of a page; the begin of the run comes first.

    The root of a trace is recorded last, because it ends last.
    """
    from tracklog.folds import epoch_ms  # slow to import

    for place, record in enumerate(records):
        if any(fact["fact"] == "Began" and fact["what"] == "run" for fact in record.facts):
            began = epoch_ms(record.at)
            if began is None:
                break
            times = (epoch_ms(each.at) for each in records[:place])
            later = next((n for n, at in enumerate(times) if at is not None and at > began), place)
            return [*records[:later], record, *records[later:place], *records[place + 1 :]]
    return records


class _Printer:
    """Prints records in paragraphs; the speaker is named when it changes."""

    def __init__(self, *, whole: bool) -> None:
        self.whole = whole
        self.width = min(terminal.width() or WIDEST, WIDEST)
        self.speaker: tuple[str, ...] | None = None
        self.margin = "  "
        self.place = ""
        """The number and the time of the current record, until its first line is printed."""
        self.day = ""
        self.ends: list[tuple[StoryRecord, StoryFact]] = []
        """The ends of the run or an agent, which wait for earlier events."""

    def put(self, record: "StoryRecord") -> None:
        over = next((word for key, word in OVER.items() if getattr(record, key)), "")
        if over == OVER["superseded"] and not self.whole:
            return
        self.margin = "  ↶ " if over else "  "
        self._end_before(record)
        time = self._at(record)
        if not record.facts:
            self._line(f"· {record.words}", dim=True)
        for fact in record.facts:
            if self.whole or not (_is_quiet(fact) or fact.get("again")):
                if fact["fact"] == "Ended" and fact["what"] != "step" and record.at:
                    self.ends.append((record, fact))
                    continue
                self._put(record, fact, f"{time}  {over}".rstrip())
        for finding in record.findings:
            self._line(f"⚠ {finding.name}: {finding.message}", fg="yellow")

    def _at(self, record: "StoryRecord") -> str:
        """Start a record; returns its time."""
        time: str = terminal.time_text(record.at, record.received)
        clock = "" if self.width < NARROW else f"  {time[11:19]}"
        self.place, self.time = f"{record.seq:>7}{clock}", time
        return time

    def _end_before(self, record: "StoryRecord | None") -> None:
        """Print the end of the run before later events: a trace has its end first."""
        from tracklog.folds import epoch_ms

        at = epoch_ms(record.at) if record else None
        begins = record is not None and any(fact["fact"] == "Began" for fact in record.facts)
        for ended, fact in list(self.ends):
            end = epoch_ms(ended.at)
            if at is None or end is None or at > end or begins:
                self.ends.remove((ended, fact))
                self._put(ended, fact, self._at(ended))

    def done(self) -> None:
        """Print what waited for the last record."""
        self._end_before(None)

    def _put(self, record: "StoryRecord", fact: "StoryFact", time: str) -> None:
        from tracklog.answers import phrases

        if fact["fact"] == "Said":
            self._name(fact.get("agent") or record.agent or "", fact["role"], time)
            for block in fact["blocks"]:
                self._block(block)
            return
        name = fact["fact"]
        look: terminal.Style = {"dim": True}
        if name in MARKS:
            look = {"fg": "red"} if fact.get("ok") is False else {"fg": "cyan"}
        elif name in ("Began", "Ended"):
            look = {"bold": True}
        self._line(f"{MARKS.get(name, '·')} {fact.get('words') or record.kind}", **look)
        if self.whole:
            for value in (fact.get("input"), fact.get("output"), fact.get("error")):
                inner = value.values() if isinstance(value, dict) else ()
                for each in (value, *inner):
                    if isinstance(each, str) and len(each) > phrases.MOST:
                        self._line(each)
                    self._place(each)

    def _place(self, value: object) -> None:
        """The command for the rest of a text that is stored as a blob."""
        from tracklog.model.fact import blob_of

        if self.whole and (blob := blob_of(value)):
            self._line(f"  tracklog blob {blob['sha256']}", dim=True)

    def _name(self, agent: str, role: str, time: str) -> None:
        if self.speaker == (agent, role, self.margin):
            return
        self.speaker = (agent, role, self.margin)
        who = f"{agent} ({role})" if agent and role != "assistant" else agent or role
        self.day = time[:10]
        click.echo()
        click.secho(terminal.printable(f"{who}  {time}"), fg="green")

    def _block(self, block: "StoryBlock") -> None:
        from tracklog.folds import unlifted

        kind = block.get("type")
        texts = (block.get("text"), block.get("thinking"), block.get("command"), block.get("chunk"))
        text = next(filter(None, texts), None)
        plain_text = unlifted(text)
        if kind in ("tool_use", "tool_result") or not isinstance(plain_text, str):
            return
        self._line(
            f"(thought) {plain_text}" if kind == "thinking" else plain_text, dim=kind == "thinking"
        )
        self._place(text)

    def _line(self, text: str, **look: Any) -> None:
        if self.place and self.time[:10] != self.day:
            self.day = self.time[:10]
            click.secho(f"{'':{len(self.place)}}  {self.day}", dim=True)
        gutter = f"{'':>7}" if self.width < NARROW else f"{'':>17}"
        rows: list[str] = []
        for part in text.splitlines() or [""]:
            rows += textwrap.wrap(
                terminal.printable(part), self.width - len(gutter) - len(self.margin)
            ) or [""]
        if not self.whole and len(rows) > LINES:
            rows[LINES:] = [f"… {len(rows) - LINES} more lines; --all shows them"]
        first, rest = click.style(self.place or gutter, dim=True), click.style(gutter, dim=True)
        self.place = ""
        places = [first] + [rest] * (len(rows) - 1)
        looks = (click.style(row, **look) for row in rows)
        lines = (place + self.margin + row for place, row in zip(places, looks, strict=True))
        click.echo("\n".join(lines))
