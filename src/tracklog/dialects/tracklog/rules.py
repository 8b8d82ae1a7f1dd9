"""The rules across the lines of a run."""

from dataclasses import dataclass, field
from typing import Any

from tracklog.dialects import text
from tracklog.dialects.tracklog.meaning import SPAN
from tracklog.model.event import Body, Event, Finding


@dataclass(slots=True)
class _State:
    called: set[str] = field(default_factory=set)
    returned: set[str] = field(default_factory=set)
    asked: set[str] = field(default_factory=set)
    ended: bool = False
    spans: set[str] = field(default_factory=set)
    parents: set[str] = field(default_factory=set)
    """The spans that were seen, here or in the parent run, and the spans that were named as
    parents.
    """
    torn: dict[str, tuple[int, str, Finding]] = field(default_factory=dict)
    """By file, the incomplete record at its end: its position, its hash and the finding."""


def rules(state: _State | None, event: Event) -> tuple[_State, list[Finding]]:
    state = state or _State()
    body = event.body
    findings: list[Finding] = []
    if state.torn:
        _complete(state, body["origin"])
    if body.get("copied"):
        return state, findings
    _place_span(state, body)
    match event.kind:
        case "Began" if body["what"] == "run":
            state.ended = False
        case "Ended" if body["what"] == "run":
            if state.ended:
                findings.append(Finding("second-end", "the run ends a second time"))
            state.ended = True
        case "Called":
            state.called.add(body["call_id"])
        case "Returned":
            _check_return(state, body, findings)
        case "Asked":
            state.asked.add(body["question_id"])
        case "Answered" if body["question_id"] not in state.asked:
            # The answer to a question of another family is expected in the log of that family.
            if "family" not in body:
                message = f"{body['question_id']} is answered, but was not asked"
                findings.append(Finding("answer-without-question", message))
        case "Noted" if body["label"] == "finding":
            raised, origin = _raised(body), body["origin"]
            if raised.name == "torn-tail" and "path" in origin:
                place = (origin.get("offset", 0), origin.get("raw", ""), raised)
                state.torn[origin["path"]] = place
            else:
                findings.append(raised)
        case "Noted" if body["label"] == "error":
            findings.append(Finding("error", _error(body)))
    return state, findings


def _complete(state: _State, origin: Body) -> None:
    """Forget an incomplete record when the same or a later position of its file is read."""
    path = origin.get("path")
    if path in state.torn:
        offset, raw, _ = state.torn[path]
        if origin.get("offset", -1) >= offset and origin.get("raw") != raw:
            del state.torn[path]


def _place_span(state: _State, body: Body) -> None:
    """Note a span and its parent; they come in any order, and the parent may never come."""
    record, cause = body["origin"].get("record"), body.get("cause")
    if not _is_span(record):
        return
    is_above = body["fact"] == "Linked" and body["kind"] == "sub-run" and "parent" in body
    state.spans.add(record)
    if cause is not None and _is_span(cause):
        (state.spans if is_above else state.parents).add(cause)


def _is_span(key: Any) -> bool:
    return isinstance(key, str) and len(key) == 49 and SPAN.fullmatch(key) is not None


def _check_return(state: _State, body: Body, findings: list[Finding]) -> None:
    call = body["call_id"]
    # A source may report the result of a call without its begin, under an id that the mapping made.
    if call not in state.called and body.get("synthetic_id") is not True:
        findings.append(Finding("return-without-call", f"{call} returns, but was not called"))
    elif call in state.returned:
        findings.append(Finding("second-return", f"{call} returns a second time"))
    state.returned.add(call)


def _error(body: Body) -> str:
    """The words of an error, wherever the source put them."""
    data = body.get("data")
    places = [body, data, data.get("error") if isinstance(data, dict) else None]
    for place in places:
        if isinstance(place, dict):
            for key in ("text", "message", "error"):
                if value := text(place.get(key)):
                    return value
    return text(body.get("kind")) or "an error"


def _raised(body: Body) -> Finding:
    """The findings of the mapping, as it wrote them."""
    data = body.get("data")
    name = text(data.get("name")) if isinstance(data, dict) else None
    return Finding(
        name or "finding", body.get("text") or body.get("kind") or "reported by its writer"
    )


def rest(state: _State) -> list[Finding]:
    open_calls = [
        Finding("call-not-returned", f"{call} never returned", "info")
        for call in sorted(state.called - state.returned)
    ]
    orphans = [
        Finding("parent-not-seen", f"span {span} is a parent, and was not seen", "info")
        for span in sorted(state.parents - state.spans)
    ]
    return [*open_calls, *orphans, *(finding for _, _, finding in state.torn.values())]
