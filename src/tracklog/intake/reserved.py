"""Events that only tracklog itself may write, such as the note of who erased a record."""

from typing import Literal

import orjson

from tracklog.model.event import Passed, Problem, Refusal
from tracklog.model.fact import Answered, Marked, Noted
from tracklog.model.own_notes import HOST_LABELS, IMPORTED, OWN_FAMILY, OWN_RUNS, PRUNED

Source = Literal["tracklog", "reader", "operator", "outside"]
"""Who wrote a line: tracklog itself; a reader of tracklog, from the records of another program; a
client that may operate; or any other program.
"""
TERMINAL = "terminal"
"""Who answered a question that an agent asks in its own terminal."""
RESERVED = "reserved"
"""The code of the refusal."""

_LABELS = frozenset({"erasure", PRUNED, IMPORTED, *HOST_LABELS})
"""Not `source-gone` and `completed`: those say what a reader of logs found, and an export that is
imported elsewhere needs them, or records count there that do not count here.
"""
_BY_OPERATORS = frozenset({Answered.__name__, Marked.__name__})


def without_reserved(results: list[Passed | Refusal], source: Source) -> list[Passed | Refusal]:
    """The results of a check, with a refusal for each event that this source may not write."""
    if source == "tracklog":
        return results
    return [
        refused
        if type(each) is Passed
        and each.dialect == OWN_FAMILY
        and (refused := _refusal(each, source))
        else each
        for each in results
    ]


def _refusal(passed: Passed, source: Source) -> Refusal | None:
    why = _why(passed, source)
    if why is None:
        return None
    problem = Problem(
        why[0], why[1], "only tracklog itself writes this; leave the line out", RESERVED
    )
    return Refusal((problem,), passed.dialect, passed.kind, passed.run)


def _why(passed: Passed, source: Source) -> tuple[str, str] | None:
    """The place and the reason, if an event is reserved."""
    if passed.family == OWN_FAMILY and passed.run in OWN_RUNS:
        return "/run", f"the run {passed.run!r} is tracklog's own"
    if passed.kind == Noted.__name__:
        label = orjson.loads(passed.line).get("label")
        if label in _LABELS:
            return "/label", f"the label {label!r} is tracklog's own"
    elif source == "outside" and passed.kind in _BY_OPERATORS:
        by = orjson.loads(passed.line).get("by")
        if by not in (None, TERMINAL):
            return "/by", f"the line says that {str(by)[:60]!r} did it, which nobody has checked"
    return None
