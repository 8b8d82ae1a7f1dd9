"""Facts as short texts, for a person who knows no dialect."""

from collections.abc import Mapping, Sequence
from math import floor, log10
from typing import Any

from tracklog.folds import text_in, text_of, unlifted
from tracklog.model.fact import (
    Answered,
    Asked,
    Began,
    Called,
    Decided,
    Ended,
    Fact,
    Linked,
    Marked,
    Moved,
    Noted,
    Returned,
    Said,
    Spent,
)

MOST = 2000
"""Characters that are looked at of one value; what is longer stands in its record."""


def summary(facts: Sequence[Fact]) -> str:
    """Facts in a few words on one line, without spends unless there is nothing else."""
    loud = [fact for fact in facts if not isinstance(fact, Spent)] or list(facts)
    phrases = dict.fromkeys(filter(None, map(phrase, loud)))
    return " · ".join(phrases)


def phrase(fact: Fact) -> str:
    """One fact as a line of text."""
    match fact:
        case Began():
            return _joined(f"{_what(fact)} began", fact.task)
        case Ended():
            outcome = _short(fact.outcome or _verdict(fact.passed))
            text = _joined(f"{_what(fact)} ended", outcome, " ")
            return _joined(text, fact.error if fact.error is not None else fact.reason)
        case Moved():
            return _joined(f"{_short(fact.from_) or '?'} → {_short(fact.to)}", fact.reason)
        case Called():
            return f"{_short(fact.tool)}({_arguments(fact.input)})"
        case Returned():
            return _returned(fact)
        case Said():
            return _message(fact)
        case Decided():
            return _decided(fact)
        case Asked():
            return _joined("asks", fact.text or fact.what or fact.question_id)
        case Answered():
            by = f" by {_short(fact.by)}" if fact.by else ""
            return _joined(f"answered{by}", fact.answer)
        case Linked():
            return _linked(fact)
        case Spent():
            return _spent(fact)
        case Noted():
            return _joined(_short(fact.label), fact.text)
        case Marked():
            return _marked(fact)
    return ""


def _message(fact: Said) -> str:
    """The text of a message; thoughts are marked as such."""
    blocks = fact.blocks if isinstance(fact.blocks, tuple | list) else ()
    thoughts = [block for block in blocks if _is_thought(block)]
    if fact.role in ("thought", "belief") or not thoughts:
        text = _line(text_in(blocks))
        return f"({fact.role}) {text}" if text and fact.role in ("thought", "belief") else text
    thought = _line(text_in(thoughts))
    message = _line(text_in([block for block in blocks if not _is_thought(block)]))
    return " ".join(filter(None, (f"(thought) {thought}" if thought else "", message)))


def _is_thought(block: Any) -> bool:
    return isinstance(block, Mapping) and block.get("type") == "thinking"


def _what(fact: Began | Ended) -> str:
    if fact.what == "step" and fact.step is not None:
        return f"step {_short(fact.step)}"
    return _short(fact.what)


def _verdict(passed: bool | None) -> str | None:
    return None if passed is None else "passed" if passed else "failed"


def _returned(fact: Returned) -> str:
    name = _short(fact.tool) or "it"
    if fact.ok is False:
        why = fact.error if fact.error is not None else fact.output
        return _joined(f"{name} failed", why if why is not None else fact.status)
    if fact.ok is None and fact.error is not None:  # neither way, as when it was cancelled
        return _joined(f"{name} {_short(fact.status) or 'did not finish'}", fact.error)
    return _joined(f"{name} returned", fact.output if fact.output is not None else fact.status)


def _decided(fact: Decided) -> str:
    by, name = _short(fact.by), _short(fact.name)
    who = " ".join(filter(None, (by, f"on {name}" if by and name else name))) or "decided"
    verdict = fact.verdict if fact.verdict is not None else _verdict(fact.passed)
    text = _joined(who, fact.score if verdict is None else verdict)
    return _joined(text, fact.reason, " because ")


def _linked(fact: Linked) -> str:
    if fact.kind in ("handoff", "message"):
        text = f"{fact.kind} {_short(fact.from_)} → {_short(fact.to)}"
    elif fact.kind == "alias":
        text = f"known to {_short(fact.system)} as {_short(fact.alias)}"
    else:
        ends = (("parent", fact.parent), ("child", fact.child), ("other", fact.other))
        text = f"{fact.kind}: " + ", ".join(
            f"{end} {_run(run)}" for end, run in ends if run is not None
        )
    return _joined(text, fact.reason)


def _run(named: Any) -> str:
    return _short(named.get("run") if isinstance(named, dict) else named)


def _spent(fact: Spent) -> str:
    usage = fact.usage or {}
    parts = [
        f"{_short(value)} {key.replace('_', ' ')}"
        for key, value in usage.items()
        if not isinstance(value, dict | list)
    ]
    if fact.cost_usd is not None:
        parts.append(dollars(fact.cost_usd))
    return f"spent {', '.join(parts[:4])}" if parts else "spent"


def dollars(value: float) -> str:
    """An amount in US dollars: cents, or the first two digits of what is less than a cent."""
    if not 0 < abs(value) < 0.005:
        return f"${value:,.2f}"
    return f"${value:.{1 - floor(log10(abs(value)))}f}"


def _marked(fact: Marked) -> str:
    of = "" if fact.record is None else f" of record {fact.record}"
    values = {"tag": fact.tag, "score": fact.score, "note": fact.note}
    parts = [f"{name}{of}: {_short(value)}" for name, value in values.items() if value is not None]
    if fact.seen is not None:
        parts.append("seen" if fact.seen else "not seen")
    if fact.withdraws is not None:
        parts.append(f"mark {_short(fact.withdraws)} withdrawn")
    claimed = f" (typed name: {_short(fact.claimed_by)})" if fact.claimed_by else ""
    return _joined("; ".join(parts), fact.by, ", by ") + claimed


def _arguments(value: Any) -> str:
    """The arguments of a call as a person would write them."""
    if value is None:
        return ""
    if isinstance(value, dict):
        return _line(", ".join(f"{_line(str(key))}={_short(each)}" for key, each in value.items()))
    return _short(value)


def _joined(text: str, more: Any, between: str = ": ") -> str:
    return text if more in (None, "", [], {}) else f"{text}{between}{_short(more)}"


def _short(value: Any) -> str:
    if value is None:
        return ""
    return _line(text_of(unlifted(value)))


def _line(text: str) -> str:
    return " ".join(text[:MOST].split()) + ("…" if len(text) > MOST else "")
