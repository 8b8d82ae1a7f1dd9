"""Joins between the files of a classic task: its calls with their results, and its sub-tasks."""

from collections import defaultdict
from pathlib import Path
from typing import Any

import orjson

from tracklog.formats.importers import HEAD, count, word
from tracklog.formats.importers._records import beginning_of
from tracklog.formats.importers._snapshots import parsed
from tracklog.formats.importers.cline.history import ANSWERS, RESULT, ApiCall
from tracklog.formats.providers import Body, items, obj

UI = "ui_messages.json"
CALLS = {"tool", "command", "use_mcp_server", "browser_action_launch", "browser_action"}
OUTPUTS = {"command_output", "mcp_server_response", "browser_action_result", "subtask_result"}
PLACE = "conversationHistoryIndex"
"""The field with the place of the last message that was sent, before the model answered."""
SOON = 600_000
"""Milliseconds in which a task starts that a call asks for."""
Joined = tuple[ApiCall | None, list[Body]]


def joined_calls(records: list[Any], calls: list[ApiCall]) -> dict[int, Joined | None]:
    """The calls of the user interface by their place, each with its counterpart and its outputs.

    Both are divided by the requests, and joined in order: by their times, else by the place in the
    history that a record names, else by the number of the request. None stands for the second copy of a
    call: asked first, then said.
    """
    starts = [ts for each in records if obj(each).get("say") == "api_req_started"
              and (ts := count(obj(each).get("ts"))) is not None]  # fmt: skip
    timed = any(call.ts is not None for call in calls)
    indexed = not timed and any(PLACE in obj(each) for each in records)
    waiting: dict[int, list[ApiCall]] = defaultdict(list)
    for call in calls:
        if call.name not in ANSWERS:
            segment = call.place - 1 if indexed else call.turn
            waiting[_segment(starts, call.ts) if timed else segment].append(call)
    pairs: dict[int, Joined | None] = {}
    last: tuple[int, str] | None = None
    turn = 0
    for place, record in enumerate(records):
        fields = obj(record)
        sub = word(fields.get("say")) or word(fields.get("ask"))
        if sub == "api_req_started":
            turn += 1
            _requested(pairs, last, fields)
            last = None
        if sub in OUTPUTS and last is not None:
            joined = pairs[last[0]]
            assert joined is not None
            joined[1].append(fields)
            pairs[place] = None
        if sub not in CALLS or not word(fields.get("text")):
            continue
        if last is not None and last[1] == fields.get("text"):
            pairs[place] = None
            continue
        here = count(fields.get(PLACE)) if indexed else turn
        here = _segment(starts, count(fields.get("ts"))) if timed else here
        found = waiting[-1 if here is None else here]
        pairs[place] = (found.pop(0) if found else None, [])
        last = (place, fields["text"])
    return pairs


def _requested(pairs: dict[int, Joined | None], last: tuple[int, str] | None, fields: Body) -> None:
    """The request after a call repeats its result, also where the history was condensed."""
    joined = pairs.get(last[0]) if last else None
    request = obj(parsed(fields.get("text"))).get("request")
    if joined is None or not isinstance(request, str) or not (mark := RESULT.match(request)):
        return
    call, outputs = joined
    if not outputs and not (call and call.answered):
        text = request[mark.end() :].partition("<environment_details>")[0].strip()
        outputs.append({"ts": fields.get("ts"), "text": text})


def _segment(starts: list[int], ts: int | None) -> int:
    return sum(start <= ts for start in starts) if ts is not None else -1


def task_with(path: Path, prompt: str, ts: int) -> str | None:
    """The task beside this one that began with a prompt, soon after it was given."""
    for folder in path.parent.parent.iterdir():
        if folder == path.parent:
            continue
        try:
            with (folder / UI).open("rb") as file:
                first = obj(next(iter(_elements(file.read(HEAD))), None))
        except OSError:
            continue
        began = count(first.get("ts"))
        if first.get("text") == prompt and began is not None and ts <= began <= ts + SOON:
            return folder.name
    return None


def _elements(head: bytes) -> list[Any]:
    """The first elements of a list that may be cut."""
    try:
        return items(orjson.loads(head))
    except orjson.JSONDecodeError:
        return items(beginning_of(head))
