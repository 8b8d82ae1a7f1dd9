"""One fact as HTML."""

from collections.abc import Mapping
from typing import Any

from tracklog.formats.exporters import ExportRecord, as_text, fact_fields, words_of
from tracklog.formats.exporters.html.elements import (
    LONG,
    class_of,
    duration,
    folded,
    look_of,
    pill_of,
    pretty,
    text,
)
from tracklog.model.fact import (
    Asked,
    Began,
    Block,
    Decided,
    Ended,
    Fact,
    Noted,
    Returned,
    Said,
    Spent,
    blob_of,
)


def speech(fact: Said) -> str:
    role = class_of(str(fact.role))
    names = [str(fact.role) if fact.agent else "", f"to {fact.to}" if fact.to else ""]
    names += [fact.model or ""]
    names += [fact.stop_reason or "", "injected" if fact.injected else ""]
    names += ["another run's history" if fact.copied else ""]
    more = " · ".join(filter(None, names))
    small = f"<small>{text(more)}</small>" if more else ""
    blocks = "".join(map(_block, fact.blocks)) or '<p class="small">(nothing)</p>'
    head = f'<div class="who">{text(fact.agent or fact.role)}{small}</div>'
    return f'<div class="fact said {role}">{head}{blocks}</div>'


def _block(block: Block) -> str:
    kind, words = str(block.get("type")), text(words_of(block))
    lifted = next(filter(None, map(blob_of, block.values())), None)
    if lifted is not None:
        size = f"{text(lifted.get('media_type') or 'value')}, {text(lifted.get('bytes'))} bytes"
        note = f'<p class="small">kept apart: {size}, <code>{text(lifted["sha256"])}</code></p>'
        return f'<div class="text">{words}</div>{note}'
    if "opaque" in block:
        return f'<p class="small">{text(kind)}, sealed by its provider</p>'
    if kind == "thinking":
        return f'<div class="thought">{folded("thinking", words, closed=len(words) > LONG)}</div>'
    if kind != "text":
        return f"<pre>{words}</pre>"
    if len(words) > 4 * LONG:
        return folded(f"{len(words):,} characters", words, closed=True)
    return f'<div class="text" dir="auto">{words}</div>'


def side_note(fact: Fact, content: str, more: Any) -> str:
    who = " ".join(text(each) for each in (fact.agent, fact.step) if each)
    head = f'<span class="soft">{who}</span> ' if who else ""
    rest = f' <span class="soft">{text(as_text(more))}</span>' if more else ""
    return f'<p class="fact small">{head}{content}{rest}</p>'


def rest_of(fact: Fact) -> Mapping[str, Any]:
    done = ("agent", "step", "fidelity")
    return {key: value for key, value in fact_fields(fact).items() if key not in done}


def listed(values: Mapping[str, Any]) -> str:
    """Names and values in a row; an object without its brackets."""
    return " · ".join(
        f"{key} {listed(value) if isinstance(value, Mapping) else as_text(value)}"
        for key, value in values.items()
    )


def edge(fact: Began | Ended, title: str) -> str:
    subject = " ".join(text(each) for each in (fact.what, fact.agent, fact.step) if each)
    if isinstance(fact, Began):
        content = f'<div class="text">{text(fact.task)}</div>'
        content = content if fact.task and fact.task != title else ""
        rest = {k: v for k, v in rest_of(fact).items() if k not in ("what", "task")}
        more = listed(rest)
        small = f"<small>{text(more)}</small>" if more else ""
        return (
            f'<div class="fact"><div class="who edge">{subject} began{small}</div>{content}</div>'
        )
    look = look_of(fact.passed)
    outcome = fact.outcome or {"ok": "passed", "bad": "failed"}.get(look)
    pill = pill_of(outcome, look) if outcome else ""
    rest = {k: v for k, v in rest_of(fact).items() if k not in ("what", "outcome", "passed")}
    more = listed(rest)
    small = f"<small>{text(more)}</small>" if more else ""
    return f'<div class="fact who edge">{subject} ended {pill}{small}</div>'


TOKENS = {
    "input_tokens": "in",
    "output_tokens": "out",
    "cached_tokens": "cached",
    "cache_write_tokens": "cache written",
    "reasoning_tokens": "reasoning",
    "total_tokens": "in all",
}


def spend(entry: ExportRecord, place: int, fact: Spent) -> str:
    usage = fact.usage if isinstance(fact.usage, Mapping) else {}
    words = [f"{as_text(v)} {TOKENS.get(k, k)}" for k, v in usage.items() if k in TOKENS]
    if fact.cost_usd is not None:
        words.append(f"${fact.cost_usd:g}")
    words += filter(None, (fact.model, fact.provider))
    here = entry.spends.get(place)
    note = "" if here is not None and here.counts else " (counted elsewhere)"
    return side_note(fact, f"spent {text(' · '.join(words))}{note}", None)


def decided(fact: Decided) -> str:
    verdict = fact.verdict if fact.verdict is not None else fact.score
    look = look_of(fact.passed)
    title = text(fact.name or "decision")
    if isinstance(verdict, str | int | float) and len(str(verdict)) < 40:
        pill, content = pill_of(str(verdict), look), ""
    else:
        pill, content = "", f"<pre>{text(pretty(verdict))}</pre>"
    done = ("by", "name", "verdict", "passed", "reason")
    rest = {key: value for key, value in rest_of(fact).items() if key not in done}
    more = f"<pre>{text(pretty(rest))}</pre>" if rest else ""
    names = filter(None, dict.fromkeys((fact.by, fact.agent, fact.step)))
    who = f"<small>{text(' · '.join(map(str, names)))}</small>"
    reason = f'<div class="text">{text(fact.reason)}</div>' if fact.reason else ""
    head = f'<div class="who">{title} {pill}{who}</div>'
    return f'<div class="fact card">{head}{reason}{content}{more}</div>'


def asked(fact: Asked) -> str:
    """A question with everything a person needs to answer it."""
    options = fact.options if isinstance(fact.options, list | tuple) else ()
    more = {
        "one of": "\n".join(map(pretty, options)) or fact.options,
        "to fit": fact.schema,
        "until": fact.expires,
    }
    title = f"asks a person for {text(fact.what)}" if fact.what else "asks a person"
    return card("ask", title, fact, fact.text, more)


def card(look: str, title: str, fact: Fact, words: str | None, more: Mapping[str, Any]) -> str:
    who = text(fact.agent or fact.step or "")
    content = f'<div class="text">{text(words)}</div>' if words else ""
    rest = "".join(
        f"<small>{name}</small><pre>{text(pretty(value))}</pre>"
        for name, value in more.items()
        if value is not None
    )
    head = f'<div class="who">{who} {title} <small>{text(_name(fact))}</small></div>'
    return f'<div class="fact card {look}">{head}{content}{rest}</div>'


def _name(fact: Fact) -> str:
    return str(getattr(fact, "question_id", ""))


def noted(fact: Noted) -> str:
    data = "" if fact.data is None else pretty(fact.data)
    content = f'<span class="text">{text(fact.text)}</span>' if fact.text else ""
    kind = f" {text(fact.kind)}" if fact.kind and fact.kind != fact.label else ""
    head = side_note(fact, f"<b>{text(fact.label)}</b>{kind} {content}", None)
    return head + (folded("data", text(data), closed=True, block=True) if data else "")


def verdict_of(fact: Returned) -> str:
    words = {"ok": "ok", "bad": "failed", "soft": str(fact.status or "returned")}
    look = look_of(fact.ok)
    seconds = f" <small>{duration(float(fact.seconds))}</small>" if fact.seconds is not None else ""
    return pill_of(words[look], look) + seconds


def result_of(fact: Returned, seq: int | None) -> str:
    parts = []
    link = f' <a class="soft" href="#e{seq}">#{seq}</a>' if seq else ""
    for name, value in (("error", fact.error), ("output", fact.output)):
        if value is not None:
            content = text(pretty(value))
            parts.append(folded(f"{name}{link}", content, closed=len(content) > LONG, block=True))
            link = ""
    if fact.exit_code is not None:
        parts.append(f'<p class="small">exit code {text(fact.exit_code)}</p>')
    return "".join(parts) or f'<p class="small">no output{link}</p>'
