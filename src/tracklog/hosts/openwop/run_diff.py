"""Compare two runs: their events one by one, and the states in which they ended."""

from collections.abc import Mapping
from itertools import zip_longest
from typing import Any

import orjson

from tracklog import Body
from tracklog.hosts.openwop.runlog import RunLog
from tracklog.hosts.openwop.wires import Wire

STATE = ("variables", "channels")


def diff_of(a: RunLog, b: RunLog, wire: Wire) -> dict[str, Any]:
    """The differences; of runs that have not both ended, only the events that both have."""
    is_cut = not (a.ended and b.ended)
    rows: list[dict[str, Any]] = []
    pairs = zip if is_cut else zip_longest
    for number, (first, second) in enumerate(pairs(a.events, b.events)):
        if first is not None and second is not None and _essence(first) == _essence(second):
            continue
        op = "added" if first is None else "removed" if second is None else "changed"
        row: dict[str, Any] = {"seq": number, "op": op}
        for name, log, event in (("aEvent", a, first), ("bEvent", b, second)):
            if event is not None:
                row[name] = orjson.Fragment(wire.event(log.lines[number], event, log))
        rows.append(row)
    data: dict[str, Any] = {"divergedAtSeq": rows[0]["seq"] if rows else None, "eventDiffs": rows}
    data["stateDiff"] = _state(wire.snapshot(a.as_json(), a), wire.snapshot(b.as_json(), b))
    return {**data, "truncated": True} if is_cut else data


def _essence(event: Body) -> tuple[Any, ...]:
    """The parts of an event that a replay repeats: not its ids, and not its time."""
    payload = event["payload"]
    if isinstance(payload, dict) and payload.get("runId") == event["runId"]:
        payload = {**payload, "runId": None}
    cause = str(event.get("causationId", "")).rpartition("-")[2]
    return event["type"], event.get("nodeId"), payload, cause


def _state(a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[str, Any]:
    data: dict[str, Any] = {}
    if a["status"] != b["status"]:
        data["status"] = {"a": a["status"], "b": b["status"]}
    for part in STATE:
        first, second = a.get(part, {}), b.get(part, {})
        rows = {
            name: {side: has[name] for side, has in (("a", first), ("b", second)) if name in has}
            for name in sorted(first.keys() | second.keys())
            if (name in first, first.get(name)) != (name in second, second.get(name))
        }
        data |= {part: rows} if rows else {}
    return data
