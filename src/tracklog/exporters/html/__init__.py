"""html: the run as one page that needs nothing else, to be read, printed, sent and kept."""

import html
import json
from base64 import b64encode
from collections import deque
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any

from tracklog.exporters import (
    Calls,
    Exporter,
    Flight,
    Heard,
    Option,
    Options,
    blob_of,
    dumps,
    every,
    nanoseconds,
    plain,
    text_of,
    utc,
    words_of,
)
from tracklog.exporters.html.style import CSS
from tracklog.fact import (
    FACTS,
    Answered,
    Asked,
    Began,
    Block,
    Called,
    Decided,
    Ended,
    Fact,
    Linked,
    Moved,
    Noted,
    Returned,
    Said,
    Spent,
)
from tracklog.loss import Fate

AHEAD = 500
"""How many records further a call's result is looked for, to be shown beside it."""
LONG = 1200
"""Characters from which on a text is folded away until it is wanted."""


def write(flight: Flight, options: Options) -> Iterator[bytes]:
    for part in _page(flight, lines=options["lines"] == "yes"):
        yield part.encode("utf-8", "replace")


def _page(flight: Flight, *, lines: bool) -> Iterator[str]:
    digest = b64encode(sha256(CSS.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    title = _text(_title(flight))
    yield (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{title} · tracklog</title>\n<style>{CSS}</style>\n</head>\n<body>\n"
    )
    yield f"<header>\n{_head(flight, 'h1')}</header>\n<main>\n"
    found: list[tuple[int | None, str, str, str]] = []
    for number, each in enumerate(flight):
        if number:
            yield f'<section class="below" id="r{number}">\n{_head(each, "h2")}'
        else:
            yield _contents(flight)
        yield from _transcript(each, found, lines=lines)
        yield "</section>\n" if number else ""
    yield from _findings(found)
    yield "</main>\n<footer><p>"
    yield f"Written by tracklog from the records of {_text(flight.family)}:{_text(flight.run)}."
    yield " Every event can be linked to as <code>#e</code> and its number.</p></footer>\n"
    yield "</body>\n</html>\n"


def _text(value: Any) -> str:
    """Any text, made inert; what cannot be seen is shown by its picture."""
    said = html.escape(str(value))
    return said.translate(_PICTURES)


_PICTURES = {code: 0x2400 + code for code in range(32) if chr(code) not in "\n\t"} | {127: 0x2421}


def _title(flight: Flight) -> str:
    return str(flight.summary.get("title") or flight.run)


def _head(flight: Flight, tag: str) -> str:
    row = flight.summary
    status = str(row.get("status") or "working")
    software = flight.opening.get("software") or {}
    names = [software.get("name"), software.get("version")]
    names = [" ".join(str(each) for each in names if each), *(row.get("dialects") or ())]
    said = " · ".join(["flight record", *filter(None, names)])
    parts = [f'<p class="over">{_text(said)}</p>\n']
    parts.append(f"<{tag}>{_text(_title(flight))}</{tag}>\n")
    if _title(flight) != flight.run:
        parts.append(f'<p class="run mono">{_text(flight.run)}</p>\n')
    parts.append("<dl>\n")
    pill = f'<span class="pill {_word(status)}">{_text(status)}</span>'
    parts.append(_stat("status", pill))
    for name, value in _stats(flight):
        parts.append(_stat(name, _text(value)))
    parts.append("</dl>\n")
    if flight.proof:
        head = flight.proof.get("head") or {}
        place = f"{head.get('through')}:{head.get('chain')}"
        said = f"Proven against the journal's chain, head <code>{_text(place)}</code>."
        parts.append(f'<p class="proof"><span class="ok">✓</span> {said}</p>\n')
    elif tag == "h1":
        parts.append('<p class="proof">Not proven: the page was written without a proof.</p>\n')
    return "".join(parts)


def _stat(name: str, value: str) -> str:
    return f"<div><dt>{name}</dt><dd>{value}</dd></div>\n"


def _stats(flight: Flight) -> Iterator[tuple[str, str]]:
    row = flight.summary
    if row.get("outcome") is not None:
        yield "outcome", str(row["outcome"])
    if row.get("score") is not None:
        yield "score", f"{row['score']:g}"
    if row.get("seconds") is not None:
        yield "duration", _span(float(row["seconds"]))
    if row.get("cost_usd") is not None:
        yield "cost", f"${row['cost_usd']:,.4f}".rstrip("0").rstrip(".")
    if row.get("tokens") is not None:
        yield "tokens", f"{row['tokens']:,}"
    if row.get("tool_calls"):
        failed = f", {row['tool_failures']:,} failed" if row.get("tool_failures") else ""
        yield "tool calls", f"{row['tool_calls']:,}{failed}"
    if row.get("agents"):
        yield "agents", ", ".join(map(str, row["agents"]))
    if row.get("first_seq"):
        yield "records", f"{row['first_seq']} – {row['last_seq']}"
    if row.get("first_at") or row.get("first_received"):
        began = utc(row.get("first_at")) or str(row.get("first_received"))
        yield "began", f"{began[:10]} {began[11:19]} UTC"


def _span(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s"


def _contents(flight: Flight) -> str:
    """The runs below, each with a link to it."""
    rows = [
        f'<li><a href="#r{number}">{_text(_title(each))}</a> '
        f'<span class="soft">{_text(each.summary.get("status") or "")}</span></li>\n'
        for number, each in enumerate(flight)
        if number
    ]
    return (
        f'<h2>Runs below</h2>\n<ul class="list">{"".join(rows)}</ul>\n' if rows else "<h2></h2>\n"
    )


def _transcript(
    flight: Flight, found: list[tuple[int | None, str, str, str]], *, lines: bool
) -> Iterator[str]:
    page = _Transcript(_title(flight))
    for heard in page.ahead(flight.heard()):
        found += [(heard.seq, *finding) for finding in heard.findings]
        yield page.article(heard, lines=lines)
    found += [(None, *finding) for finding in flight.findings]


def _findings(found: list[tuple[int | None, str, str, str]]) -> Iterator[str]:
    if not found:
        return
    yield '<h2 id="findings">Findings</h2>\n<ul class="list">\n'
    for seq, name, message, level in found:
        where = f'<a href="#e{seq}">#{seq}</a> ' if seq else ""
        yield f'<li><b class="{_word(level)}">{_text(name)}</b> {where}{_text(message)}</li>\n'
    yield "</ul>\n"


def _word(name: str) -> str:
    """A name that may stand as a class."""
    return name if name.isascii() and name.isalpha() else "soft"


class _Transcript:
    """The records of one run, each call beside its result where that is near enough."""

    def __init__(self, title: str) -> None:
        self.title, self.called = title, Calls()
        self.results: dict[str, tuple[Heard, Returned]] = {}
        self.names: dict[tuple[int, int], str | None] = {}
        """The name of the call that a fact tells of, by its record and place; None for a copy."""
        self.begun: dict[str, int] = {}
        """Where each call was made."""
        self.shown: set[str] = set()
        self.start: int | None = None

    def ahead(self, heards: Iterator[Heard]) -> Iterator[Heard]:
        """The records in order, each when those that follow it closely are known."""
        waiting: deque[Heard] = deque()
        for heard in heards:
            self._look(heard)
            waiting.append(heard)
            if len(waiting) > AHEAD:
                yield waiting.popleft()
        yield from waiting

    def _look(self, heard: Heard) -> None:
        for place, fact in enumerate(heard.facts):
            if isinstance(fact, Called):
                self.names[heard.seq, place] = self.called.called(heard, fact)
            elif isinstance(fact, Returned):
                name = self.called.returned(heard, fact)
                self.names[heard.seq, place] = name
                if name is not None:
                    self.results[name] = heard, fact

    def article(self, heard: Heard, *, lines: bool) -> str:
        moment = nanoseconds(heard.at)
        self.start = moment if self.start is None else self.start
        since = (moment - self.start) / 1e9
        here = f'<a href="#e{heard.seq}">#{heard.seq}</a>'
        at = _text(heard.at)
        time = f'<time datetime="{at}" title="{at}">{_since(since)}</time>'
        opening = f'<article id="e{heard.seq}">\n<div class="when">{here}{time}</div>\n<div>'
        parts = [opening]
        if heard.event is None:
            parts.append(self._unread(heard))
        for place, fact in enumerate(heard.facts):
            parts.append(self._fact(heard, place, fact))
        for name, message, level in heard.findings:
            said = f"<b>{_text(name)}</b> {_text(message)}"
            parts.append(f'<p class="found {_word(level)}">{said}</p>')
        if lines and heard.record.line:
            line = heard.record.line.decode("utf-8", "replace")
            kind = _text(f"{heard.record.dialect} {heard.kind}")
            parts.append(
                f'<details class="raw"><summary>{kind}</summary><pre>{_text(line)}</pre></details>'
            )
        return "".join(parts) + "</div>\n</article>\n"

    def _unread(self, heard: Heard) -> str:
        stone = heard.record.erased
        if stone is None:
            return '<p class="small bad">This record cannot be read any more.</p>'
        said = f"Erased by {_text(stone.by)} on {_text(stone.at)}: {_text(stone.reason)}"
        return f'<p class="small bad">{said}</p>'

    def _fact(self, heard: Heard, place: int, fact: Fact) -> str:
        match fact:
            case Said():
                return _said(fact)
            case Called():
                return self._call(heard, place, fact)
            case Returned():
                return self._return(heard, place, fact)
            case Spent():
                return _spent(heard, place, fact)
            case Began() | Ended():
                return _edge(fact, self.title)
            case Moved():
                way = f"{_text(fact.from_ or '?')} → <b>{_text(fact.to)}</b>"
                return _small(fact, way, fact.reason)
            case Decided():
                return _decided(fact)
            case Asked():
                return _card("ask", "asks a person", fact, fact.text, {"options": fact.options})
            case Answered():
                return _card("ask", "is answered", fact, None, {"answer": fact.answer})
            case Noted():
                return _noted(fact)
        return _small(fact, f"<b>{type(fact).__name__.lower()}</b>", _listed(_rest(fact)))

    def _call(self, heard: Heard, place: int, fact: Called) -> str:
        name = self.names.pop((heard.seq, place), None)
        if name is None:
            return _small(fact, f"the same call of <b>{_text(fact.tool)}</b>, told again", None)
        self.begun[name] = heard.seq
        result = self.results.pop(name, None)
        state, told = _pill("open", "waiting"), ""
        if result is not None:
            self.shown.add(name)
            elsewhere = result[0].seq if result[0].seq != heard.seq else None
            state, told = _verdict(result[1]), _result(result[1], elsewhere)
        elif name not in self.shown:
            told = '<p class="small">no result so far</p>'
        who = f" <small>{_text(fact.agent)}</small>" if fact.agent else ""
        given = "" if fact.input is None else f"<pre>{_text(_pretty(fact.input))}</pre>"
        head = f'<span class="name mono">{_text(fact.tool)}</span>{who} {state}'
        return f'<div class="fact card tool"><div class="who">{head}</div>{given}{told}</div>'

    def _return(self, heard: Heard, place: int, fact: Returned) -> str:
        name = self.names.pop((heard.seq, place), None)
        if name is None:
            return _small(fact, "the same result, told again", None)
        call = self.begun.pop(name, None)
        if name in self.shown:
            self.shown.discard(name)
            if call == heard.seq:
                return ""
            way = f'<a href="#e{call}">#{call}</a>'
            return _small(
                fact, f"result of {_text(fact.tool or fact.call_id)}, shown at {way}", None
            )
        self.results.pop(name, None)
        back = f' <a href="#e{call}">called at #{call}</a>' if call else ""
        head = f'<span class="name mono">{_text(fact.tool or fact.call_id)}</span> {_verdict(fact)}'
        told = _result(fact, None)
        return f'<div class="fact card tool"><div class="who">{head}{back}</div>{told}</div>'


def _since(seconds: float) -> str:
    sign, seconds = ("−" if seconds < 0 else "+"), abs(seconds)
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(int(minutes), 60)
    whole = f"{hours}:{minutes:02}" if hours else f"{minutes}"
    return f"{sign}{whole}:{rest:04.1f}"


def _pill(word: str, look: str) -> str:
    return f'<span class="pill {look}">{_text(word)}</span>'


def _look(passed: Any) -> str:
    """How something that went well looks, and how something that did not."""
    return "ok" if passed is True else "bad" if passed is False else "soft"


def _verdict(fact: Returned) -> str:
    words = {"ok": "ok", "bad": "failed", "soft": str(fact.status or "returned")}
    look = _look(fact.ok)
    seconds = f" <small>{_span(float(fact.seconds))}</small>" if fact.seconds is not None else ""
    return _pill(words[look], look) + seconds


def _result(fact: Returned, seq: int | None) -> str:
    parts = []
    link = f' <a class="soft" href="#e{seq}">#{seq}</a>' if seq else ""
    for name, value in (("error", fact.error), ("output", fact.output)):
        if value is not None:
            said = _text(_pretty(value))
            parts.append(_folded(f"{name}{link}", said, closed=len(said) > LONG, block=True))
            link = ""
    if fact.exit_code is not None:
        parts.append(f'<p class="small">exit code {_text(fact.exit_code)}</p>')
    return "".join(parts) or f'<p class="small">no output{link}</p>'


def _folded(title: str, said: str, *, closed: bool, block: bool = False) -> str:
    inner = f"<pre>{said}</pre>" if block else f'<div class="text">{said}</div>'
    is_open = "" if closed else " open"
    return f"<details{is_open}><summary>{title}</summary>{inner}</details>"


def _pretty(value: Any) -> str:
    """A value to be read: text as it is, JSON with room."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, indent=2, ensure_ascii=False, default=str)
    except (ValueError, RecursionError):
        return dumps(value).decode("utf-8", "replace")


def _said(fact: Said) -> str:
    role = _word(str(fact.role))
    names = [str(fact.role) if fact.agent else "", f"to {fact.to}" if fact.to else ""]
    names += [fact.model or ""]
    names += [fact.stop_reason or "", "injected" if fact.injected else ""]
    names += ["another run's history" if fact.copied else ""]
    more = " · ".join(filter(None, names))
    small = f"<small>{_text(more)}</small>" if more else ""
    blocks = "".join(map(_block, fact.blocks)) or '<p class="small">(nothing)</p>'
    head = f'<div class="who">{_text(fact.agent or fact.role)}{small}</div>'
    return f'<div class="fact said {role}">{head}{blocks}</div>'


def _block(block: Block) -> str:
    kind, words = str(block.get("type")), _text(words_of(block))
    lifted = next(filter(None, map(blob_of, block.values())), None)
    if lifted is not None:
        size = f"{_text(lifted.get('media_type') or 'value')}, {_text(lifted.get('bytes'))} bytes"
        note = f'<p class="small">kept apart: {size}, <code>{_text(lifted["sha256"])}</code></p>'
        return f'<div class="text">{words}</div>{note}'
    if "opaque" in block:
        return f'<p class="small">{_text(kind)}, sealed by its provider</p>'
    if kind == "thinking":
        return f'<div class="thought">{_folded("thinking", words, closed=len(words) > LONG)}</div>'
    if kind != "text":
        return f"<pre>{words}</pre>"
    if len(words) > 4 * LONG:
        return _folded(f"{len(words):,} characters", words, closed=True)
    return f'<div class="text" dir="auto">{words}</div>'


def _small(fact: Fact, said: str, more: Any) -> str:
    who = " ".join(_text(each) for each in (fact.agent, fact.step) if each)
    head = f'<span class="soft">{who}</span> ' if who else ""
    rest = f' <span class="soft">{_text(text_of(more))}</span>' if more else ""
    return f'<p class="fact small">{head}{said}{rest}</p>'


def _rest(fact: Fact) -> Mapping[str, Any]:
    told = ("agent", "step", "fidelity")
    return {key: value for key, value in plain(fact).items() if key not in told}


def _listed(values: Mapping[str, Any]) -> str:
    """Names and values in a row: those of an object without its brackets."""
    return " · ".join(
        f"{key} {_listed(value) if isinstance(value, Mapping) else text_of(value)}"
        for key, value in values.items()
    )


def _edge(fact: Began | Ended, title: str) -> str:
    subject = " ".join(_text(each) for each in (fact.what, fact.agent, fact.step) if each)
    if isinstance(fact, Began):
        said = f'<div class="text">{_text(fact.task)}</div>'
        said = said if fact.task and fact.task != title else ""
        rest = {k: v for k, v in _rest(fact).items() if k not in ("what", "task")}
        more = _listed(rest)
        small = f"<small>{_text(more)}</small>" if more else ""
        return f'<div class="fact"><div class="who edge">{subject} began{small}</div>{said}</div>'
    look = _look(fact.passed)
    outcome = fact.outcome or {"ok": "passed", "bad": "failed"}.get(look)
    pill = _pill(outcome, look) if outcome else ""
    rest = {k: v for k, v in _rest(fact).items() if k not in ("what", "outcome", "passed")}
    more = _listed(rest)
    small = f"<small>{_text(more)}</small>" if more else ""
    return f'<div class="fact who edge">{subject} ended {pill}{small}</div>'


TOKENS = {
    "input_tokens": "in",
    "output_tokens": "out",
    "cached_tokens": "cached",
    "cache_write_tokens": "cache written",
    "reasoning_tokens": "reasoning",
    "total_tokens": "in all",
}


def _spent(heard: Heard, place: int, fact: Spent) -> str:
    usage = fact.usage if isinstance(fact.usage, Mapping) else {}
    words = [f"{text_of(v)} {TOKENS.get(k, k)}" for k, v in usage.items() if k in TOKENS]
    if fact.cost_usd is not None:
        words.append(f"${fact.cost_usd:g}")
    words += filter(None, (fact.model, fact.provider))
    note = "" if place in heard.spends else " (counted elsewhere)"
    return _small(fact, f"spent {_text(' · '.join(words))}{note}", None)


def _decided(fact: Decided) -> str:
    verdict = fact.verdict if fact.verdict is not None else fact.score
    look = _look(fact.passed)
    title = _text(fact.name or "decision")
    if isinstance(verdict, str | int | float) and len(str(verdict)) < 40:
        pill, said = _pill(str(verdict), look), ""
    else:
        pill, said = "", f"<pre>{_text(_pretty(verdict))}</pre>"
    told = {"agent", "step", "name", "verdict", "passed", "reason"}
    rest = {key: value for key, value in plain(fact).items() if key not in told}
    more = f"<pre>{_text(_pretty(rest))}</pre>" if rest else ""
    who = f"<small>{_text(fact.by or fact.agent or '')}</small>"
    reason = f'<div class="text">{_text(fact.reason)}</div>' if fact.reason else ""
    head = f'<div class="who">{title} {pill}{who}</div>'
    return f'<div class="fact card">{head}{reason}{said}{more}</div>'


def _card(look: str, title: str, fact: Fact, words: str | None, more: Mapping[str, Any]) -> str:
    who = _text(fact.agent or fact.step or "")
    said = f'<div class="text">{_text(words)}</div>' if words else ""
    rest = "".join(
        f"<pre>{_text(_pretty(value))}</pre>" for value in more.values() if value is not None
    )
    head = f'<div class="who">{who} {title} <small>{_text(_name(fact))}</small></div>'
    return f'<div class="fact card {look}">{head}{said}{rest}</div>'


def _name(fact: Fact) -> str:
    return str(getattr(fact, "question_id", ""))


def _noted(fact: Noted) -> str:
    data = "" if fact.data is None else _pretty(fact.data)
    said = f'<span class="text">{_text(fact.text)}</span>' if fact.text else ""
    kind = f" {_text(fact.kind)}" if fact.kind and fact.kind != fact.label else ""
    head = _small(fact, f"<b>{_text(fact.label)}</b>{kind} {said}", None)
    return head + (_folded("data", _text(data), closed=True, block=True) if data else "")


def fates(options: Options) -> dict[str, Fate]:
    carried: Fate = "carried" if options["lines"] == "yes" else "dropped"
    shown = {
        "Said": "role blocks agent model to stop_reason",
        "Called": "tool input agent",
        "Returned": "output error tool exit_code",
        "Moved": "from to agent step reason",
        "Began": "what task agent step model software host cwd git counts",
        "Asked": "question_id text agent",
        "Answered": "question_id answer agent",
        "Noted": "label kind text data agent step",
        "Spent": "usage cost_usd model provider agent step",
    }
    kept: dict[str, Fate] = {
        f"{fact}.{name}": "kept" for fact, names in shown.items() for name in names.split()
    }
    kept |= every("kept", (Ended, Decided, Linked))
    return every(carried, FACTS) | kept | {"unreadable": carried, "sub-run": "kept"}


exporter = Exporter(
    name="html",
    about="One self-contained page, to be read, printed, sent and kept.",
    media_type="text/html; charset=utf-8",
    suffix=".html",
    write=write,
    fates=fates,
    proof="inside",
    options={
        "lines": Option("Each line as it is, folded below its event.", ("yes", "no"), "yes"),
    },
)
