"""The first events of a fork, and the answers to requests that begin a run."""

from collections.abc import Mapping
from typing import Any

from tracklog import Body
from tracklog.hosts.openwop.definitions import Definition
from tracklog.hosts.openwop.event_writer import was_cut_off
from tracklog.hosts.openwop.kinds import is_pure
from tracklog.hosts.openwop.runlog import RunLog, Snapshot, new_event


def started(name: str, event: Body) -> dict[str, Any]:
    """The answer to the client that began a run; each version of the protocol completes its links."""
    return {
        "runId": name,
        "status": "running",
        "workflowId": event["payload"]["workflowId"],
        "startedAt": event["timestamp"],
        "eventsUrl": f"/runs/{name}/events",
        "statusUrl": f"/runs/{name}",
    }


def forked(name: str, source: str, start: int, mode: str, status: str) -> dict[str, Any]:
    data = {"runId": name, "sourceRunId": source, "fromSeq": start, "mode": mode}
    return {**data, "status": status, "eventsUrl": f"/runs/{name}/events"}


def open_question(events: list[Body], start: int) -> Body | None:
    """The question that is open before an event of a run; None if there is none."""
    snapshot = Snapshot()
    for event in events[:start]:
        snapshot.apply(event)
    return snapshot.question


def with_start(events: list[Body], start: int, definition: Definition) -> list[Body]:
    """The events of a run; the node in which a replay of it begins is started there once more.

    Only a node that a replay executes is: one that has no events but its start and its end.
    """
    begun = events[start - 1] if start else None
    if begun is None or begun["type"] != "node.started" or was_cut_off(events[start]):
        return events
    if not is_pure(definition.nodes[begun["nodeId"]]):
        return events
    later = [_moved(event, start) for event in events[start:]]
    return [*events[:start], {**begun, "sequence": start}, *later]


def _moved(event: Body, start: int) -> Body:
    """An event one place further back, for one more before it."""
    name, _, number = str(event.get("causationId", "")).rpartition("-")
    cause = {"causationId": f"{name}-{int(number) + 1}"} if int(number or 0) >= start else {}
    return {**event, **cause, "sequence": event["sequence"] + 1}


def beginning(log: RunLog, events: list[Body], at: str, about: Mapping[str, Any]) -> list[Body]:
    """The first events of a fork: those of its source, under its own name and options."""
    copies = [copied(log, event, at) for event in events]
    copies[0]["host"] = about
    if overlay := about["fork"].get("overlay"):  # so that its log alone has the options
        begun = copies[0]["payload"]
        merged = {**begun.get("configurable", {}), **overlay}
        copies[0]["payload"] = {**begun, "configurable": merged}
    return copies


def copied(log: RunLog, event: Body, at: str) -> Body:
    """An event of another run as one of this: the same number and payload, ids of our own."""
    cause = event.get("causationId")
    if isinstance(cause, str):
        number = cause.rpartition("-")[2]
        cause = log.event_id(int(number)) if number.isdigit() else None
    return new_event(
        log, event["sequence"], at, event["type"], event["payload"], event.get("nodeId"), cause
    )
