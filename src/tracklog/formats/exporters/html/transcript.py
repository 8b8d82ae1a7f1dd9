"""The records of a run, each as an article of the page."""

from collections import deque
from collections.abc import Iterator

from tracklog.formats.exporters import ExportRecord, ExportRun, nanoseconds
from tracklog.formats.exporters._turns import CallCopies
from tracklog.formats.exporters.html.cards import (
    asked,
    card,
    decided,
    edge,
    listed,
    noted,
    rest_of,
    result_of,
    side_note,
    speech,
    spend,
    verdict_of,
)
from tracklog.formats.exporters.html.elements import class_of, pill_of, pretty, text
from tracklog.model.fact import (
    Answered,
    Asked,
    Began,
    Called,
    Decided,
    Ended,
    Fact,
    Moved,
    Noted,
    Returned,
    Said,
    Spent,
)

AHEAD = 500
"""How many records ahead a call's result is looked for, to be shown beside it."""


class Transcript:
    """The records of one run, each call beside its result where that is near enough."""

    def __init__(self, title: str, run: ExportRun) -> None:
        self.title, self.called = title, CallCopies(run)
        self.results: dict[str, tuple[ExportRecord, Returned]] = {}
        self.names: dict[tuple[int, int], str | None] = {}
        """The name of the call of a fact, by its record and position; None for a copy."""
        self.begun: dict[str, int] = {}
        """The record of each call."""
        self.shown: set[str] = set()
        self.start: int | None = None

    def ahead(self, entries: Iterator[ExportRecord]) -> Iterator[ExportRecord]:
        """The records in order, each with those that follow it closely."""
        waiting: deque[ExportRecord] = deque()
        for entry in entries:
            self._look(entry)
            waiting.append(entry)
            if len(waiting) > AHEAD:
                yield waiting.popleft()
        yield from waiting

    def _look(self, entry: ExportRecord) -> None:
        for place, fact in enumerate(entry.facts):
            if isinstance(fact, Called):
                self.names[entry.seq, place] = self.called.called(entry, fact)
            elif isinstance(fact, Returned):
                name = self.called.returned(entry, fact)
                self.names[entry.seq, place] = name
                if name is not None:
                    self.results[name] = entry, fact

    def article(self, entry: ExportRecord, *, lines: bool) -> str:
        at_ns = nanoseconds(entry.at)
        self.start = at_ns if self.start is None else self.start
        since = (at_ns - self.start) / 1e9
        here = f'<a href="#e{entry.seq}">#{entry.seq}</a>'
        at = text(entry.at)
        time = f'<time datetime="{at}" title="{at}">{_since(since)}</time>'
        opening = f'<article id="e{entry.seq}">\n<div class="when">{here}{time}</div>\n<div>'
        parts = [opening]
        if entry.event is None:
            parts.append(self._unread(entry))
        if entry.superseded:
            parts.append('<p class="small">superseded: another record replaces it</p>')
        for place, fact in enumerate(entry.facts):
            parts.append(self._fact(entry, place, fact))
        for name, message, level in entry.findings:
            content = f"<b>{text(name)}</b> {text(message)}"
            parts.append(f'<p class="found {class_of(level)}">{content}</p>')
        if lines and entry.record.line:
            line = entry.record.line.decode("utf-8", "replace")
            kind = text(f"{entry.record.dialect} {entry.kind}")
            parts.append(
                f'<details class="raw"><summary>{kind}</summary><pre>{text(line)}</pre></details>'
            )
        return "".join(parts) + "</div>\n</article>\n"

    def _unread(self, entry: ExportRecord) -> str:
        stone = entry.record.erased
        if stone is None:
            return '<p class="small bad">This record cannot be read any more.</p>'
        line = f"Erased by {text(stone.by)} on {text(stone.at)}: {text(stone.reason)}"
        return f'<p class="small bad">{line}</p>'

    def _fact(self, entry: ExportRecord, place: int, fact: Fact) -> str:
        match fact:
            case Said():
                return speech(fact)
            case Called():
                return self._call(entry, place, fact)
            case Returned():
                return self._return(entry, place, fact)
            case Spent():
                return spend(entry, place, fact)
            case Began() | Ended():
                return edge(fact, self.title)
            case Moved():
                way = f"{text(fact.from_ or '?')} → <b>{text(fact.to)}</b>"
                return side_note(fact, way, fact.reason)
            case Decided():
                return decided(fact)
            case Asked():
                return asked(fact)
            case Answered():
                by = f"is answered by {text(fact.by)}" if fact.by else "is answered"
                return card("ask", by, fact, None, {"answer": fact.answer})
            case Noted():
                return noted(fact)
        return side_note(fact, f"<b>{type(fact).__name__.lower()}</b>", listed(rest_of(fact)))

    def _call(self, entry: ExportRecord, place: int, fact: Called) -> str:
        name = self.names.pop((entry.seq, place), None)
        if name is None:
            return side_note(fact, f"the same call of <b>{text(fact.tool)}</b>, repeated", None)
        self.begun[name] = entry.seq
        result = self.results.pop(name, None)
        state, output = pill_of("open", "waiting"), ""
        if result is not None:
            self.shown.add(name)
            elsewhere = result[0].seq if result[0].seq != entry.seq else None
            state, output = verdict_of(result[1]), result_of(result[1], elsewhere)
        elif name not in self.shown:
            output = '<p class="small">no result so far</p>'
        who = f" <small>{text(fact.agent)}</small>" if fact.agent else ""
        given = "" if fact.input is None else f"<pre>{text(pretty(fact.input))}</pre>"
        head = f'<span class="name mono">{text(fact.tool)}</span>{who} {state}'
        return f'<div class="fact card tool"><div class="who">{head}</div>{given}{output}</div>'

    def _return(self, entry: ExportRecord, place: int, fact: Returned) -> str:
        name = self.names.pop((entry.seq, place), None)
        if name is None:
            return side_note(fact, "the same result, repeated", None)
        call = self.begun.pop(name, None)
        if name in self.shown:
            self.shown.discard(name)
            if call == entry.seq:
                return ""
            way = f'<a href="#e{call}">#{call}</a>'
            return side_note(
                fact, f"result of {text(fact.tool or fact.call_id)}, shown at {way}", None
            )
        self.results.pop(name, None)
        back = f' <a href="#e{call}">called at #{call}</a>' if call else ""
        head = (
            f'<span class="name mono">{text(fact.tool or fact.call_id)}</span> {verdict_of(fact)}'
        )
        result = result_of(fact, None)
        return f'<div class="fact card tool"><div class="who">{head}{back}</div>{result}</div>'


def _since(seconds: float) -> str:
    sign, seconds = ("−" if seconds < 0 else "+"), abs(seconds)
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(int(minutes), 60)
    whole = f"{hours}:{minutes:02}" if hours else f"{minutes}"
    return f"{sign}{whole}:{rest:04.1f}"
