"""Known facts, so that nothing is written twice: bounded, and all of it JSON values.

It is a cache: the facts of a run can be read again from the run's own lines.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from typing import Any

import orjson

from tracklog.formats.importers import count

RUNS = 1000
TRACES = 100_000
SPANS = 100_000
FACTS = 20_000
"""The limits: runs, traces, spans, and facts of one run."""

Recall = Callable[[str], Iterable[Mapping[str, Any]]]
"""The lines of a run, parsed, in order."""

_SPAN = re.compile("([0-9a-f]{32})/[0-9a-f]{16}")
CALLED, RETURNED, LOGGED, SPANNED = 1, 2, 4, 8
HISTORY = "in-"
"""The prefix of the id of a message that was the input of a call."""


def digest(kind: str, said: Mapping[str, Any]) -> str:
    """A digest by which a repeated fact of a conversation is recognised."""
    match kind:
        case "Said":
            parts: list[Any] = [kind, said["role"], said["blocks"]]
        case _:
            parts = [kind, said["call_id"]]
    return sha256(orjson.dumps(parts, option=orjson.OPT_SORT_KEYS, default=str)).hexdigest()[:16]


def asked_key(tool: str, given: Any) -> str:
    """The common key of calls of one tool with one input."""
    said = orjson.dumps([tool, given], option=orjson.OPT_SORT_KEYS, default=str)
    return sha256(said).hexdigest()[:16]


def _told(kind: str, origin: Mapping[str, Any], extra: Mapping[str, Any]) -> int:
    """The call of a line, and whether the line is part of a message or stands for the call."""
    known, record = CALLED if kind == "Called" else RETURNED, origin.get("record")
    if origin.get("clock") == "request" or "message_id" in extra:
        return known
    return known | (SPANNED if isinstance(record, str) and _SPAN.fullmatch(record) else LOGGED)


class Past:
    """The known facts of one run."""

    def __init__(self, kept: dict[str, Any]) -> None:
        self.said: list[str] = kept.setdefault("said", [])
        """The digests of all messages, calls and returns, in order."""
        self._often = dict(Counter(self.said))
        self.heard: dict[str, int] = kept.setdefault("heard", {})
        """Those that were the input of a call."""
        self.messages: dict[str, int] = kept.setdefault("messages", {})
        self.calls: dict[str, int] = kept.setdefault("calls", {})
        """CALLED, RETURNED, and the signals that reported the call itself: LOGGED, SPANNED."""
        self.asked: dict[str, list[str]] = kept.setdefault("asked", {})
        """The calls of a tool with one input, by the hash of both."""
        self.joins: dict[str, str] = kept.setdefault("joins", {})
        """The call of an item, by the beginning of the item's hash."""
        self.names: dict[str, int] = kept.setdefault("names", {})
        """The aliases, and other facts that are written once."""
        self.records: dict[str, list[str]] = kept.setdefault("records", {})
        """The hashes of all contents under a key of the source."""
        self.spends: dict[str, list[Any]] = kept.setdefault("spends", {})
        """By key: the trace, and the tokens in and out."""
        self._heard = 0

    def hear(
        self,
        body: Mapping[str, Any],
        origin: Mapping[str, Any],
        extra: Mapping[str, Any] | None = None,
        known: str | None = None,
    ) -> None:
        """Remember a line: its fact, its origin, and its other keys.

        `known` is its digest, where it was computed.
        """
        kind, record = body["fact"], origin.get("record")
        if isinstance(record, str) and "raw" in origin:
            contents = self.records.setdefault(record, [])
            if origin["raw"] not in contents:
                contents.append(origin["raw"])
        match kind:
            case "Said" | "Called" | "Returned":
                self._conversed(known or digest(kind, body), body, origin, extra or {})
            case "Linked" if body["kind"] == "alias":
                self.names[f"alias {body['system']} {body['alias']}"] = 1
            case "Linked":
                self.names[f"{body['kind']} {body.get('child') or body.get('parent')}"] = 1
            case "Spent":
                usage = body.get("usage") or {}
                trace = record.partition("/")[0] if isinstance(record, str) else ""
                amounts = [count(usage.get(key)) or 0 for key in ("input_tokens", "output_tokens")]
                self.spends[body["key"]] = [trace, *amounts]
            case "Noted":
                self.names[f"{body['label']} {body.get('kind')}"] = 1
        self._heard += 1
        if self._heard % 100 == 0:
            for kept in (self.messages, self.calls, self.names):
                _trim(kept, FACTS)
            for more in (self.records, self.spends, self.asked, self.joins):
                _trim(more, FACTS)

    def _conversed(
        self,
        known: str,
        body: Mapping[str, Any],
        origin: Mapping[str, Any],
        extra: Mapping[str, Any],
    ) -> None:
        kind = body["fact"]
        self.said.append(known)
        self._often[known] = self._often.get(known, 0) + 1
        if len(self.said) > FACTS:
            del self.said[: FACTS // 2]
            self._often = dict(Counter(self.said))
        if kind == "Said":
            if id := body.get("message_id"):
                self.messages[id] = 1
                if id.startswith(HISTORY):
                    self.heard[known] = 1
                    _trim(self.heard, FACTS)
        else:
            call, raw = body["call_id"], origin.get("raw", "")
            self.calls[call] = self.calls.get(call, 0) | _told(kind, origin, extra)
            self.joins.setdefault(raw[:16], "" if body.get("synthetic_id") else call)
            if id := extra.get("message_id"):
                self.messages[id] = 1
            if kind == "Called" and not body.get("synthetic_id"):
                calls = self.asked.setdefault(asked_key(body["tool"], body.get("input")), [])
                if call not in calls:
                    calls.append(call)

    def asked_for(self, tool: str, given: Any, by: int) -> str | None:
        """The first call of a tool with that input that no other signal has reported itself."""
        calls = self.asked.get(asked_key(tool, given), ())
        return next((call for call in calls if not self.calls.get(call, 0) & by), None)

    def news(self, told: list[str]) -> list[bool]:
        """Of a history that is sent again and again, the new part.

        The messages after the end of the known facts are new. Where the history does not contain
        that end, a message is new if it occurs more often than it is known.
        """
        start, end = self._overlap(told)
        seen: dict[str, int] = {}
        found = []
        for place, each in enumerate(told):
            seen[each] = seen.get(each, 0) + 1
            if end and place >= start:
                found.append(place >= end)
            else:
                found.append(seen[each] > self._often.get(each, 0))
        return found

    def _overlap(self, told: list[str]) -> tuple[int, int]:
        """The position of the end of the known facts in a history; the longest match."""
        if not self.said:
            return 0, 0
        whole = window = (0, 0)
        for place in range(len(told)):
            if told[place] != self.said[-1]:
                continue
            size = 0
            while (
                size <= place
                and size < len(self.said)
                and (told[place - size] == self.said[-1 - size])
            ):
                size += 1
            start = place - size + 1
            # A window on a history may begin anywhere, after a system message of its own.
            if start == 0:
                whole = (start, place + 1)
            elif start == 1 and size > 1:
                window = (start, place + 1)
        return whole if whole[1] else window

    def was_heard_after(self, last: str | None, told: str) -> bool:
        """Whether an answer was written before, as part of the history of a later call."""
        if told not in self.heard:
            return False
        pairs = zip(self.said, self.said[1:], strict=False)
        return last is None or any(pair == (last, told) for pair in pairs)

    def is_new(self, name: str) -> bool:
        """Whether a fact that is written once is new."""
        return name not in self.names

    def total(self, trace: str) -> tuple[int, int]:
        """The known tokens, in and out, of a trace."""
        rows = [row for row in self.spends.values() if row[0] == trace]
        return sum(row[1] for row in rows), sum(row[2] for row in rows)


class Memory:
    """The known facts of all recent runs."""

    def __init__(self, kept: dict[str, Any] | None = None, recall: Recall | None = None) -> None:
        kept = {} if kept is None else kept
        self.traces: dict[str, str] = kept.setdefault("traces", {})
        """The run of a trace: the first one that was named for it."""
        self.spans: dict[str, list[Any]] = kept.setdefault("spans", {})
        """The run of a span, and its tool call."""
        self.waiting: dict[str, list[str]] = kept.setdefault("waiting", {})
        """The runs of spans whose parent did not arrive yet, by that parent."""
        self._runs: dict[str, dict[str, Any]] = kept.setdefault("runs", {})
        self._recall = recall
        self._pasts: dict[str, Past] = {}

    def past(self, run: str) -> Past:
        """The known facts of a run; read from its lines when they are not in memory."""
        if run not in self._pasts:
            past = Past(self._runs.setdefault(run, {}))
            if self._recall is not None:
                for body in self._recall(run):
                    past.hear(body, body["origin"], body.get("extra"))
            self._pasts[run] = past
        # The least recently used is dropped first.
        self._runs[run] = self._runs.pop(run)
        if len(self._runs) > RUNS:
            self.forget(next(iter(self._runs)))
        return self._pasts[run]

    def forget(self, run: str) -> None:
        """Forget a run, because its lines may not have been stored."""
        self._runs.pop(run, None)
        self._pasts.pop(run, None)

    def bind(self, trace: str, run: str) -> str:
        """The run of a trace: the first one that was named for it."""
        _trim(self.traces, TRACES)
        return self.traces.setdefault(trace, run)

    def hear(self, body: Mapping[str, Any]) -> None:
        """Remember from any line the run of its trace."""
        record = body["origin"].get("record")
        if isinstance(record, str) and (found := _SPAN.fullmatch(record)):
            self.bind(found[1], body["run"])
            self.place(record, body["run"], body.get("call_id"))
            self.waiting.pop(record, None)
            if (cause := body.get("cause")) and cause not in self.spans:
                self.wait(cause, body["run"])

    def place(self, record: str, run: str, call: str | None) -> None:
        """Remember the run of a span."""
        known = self.spans.get(record)
        if known is None or call is not None:
            self.spans[record] = [run, call]
        _trim(self.spans, SPANS)

    def wait(self, parent: str, run: str) -> None:
        """Remember that a parent did not arrive yet."""
        runs = self.waiting.setdefault(parent, [])
        if run not in runs:
            runs.append(run)
        _trim(self.waiting, SPANS)


def _trim(kept: dict[str, Any], most: int) -> None:
    """Drop the oldest entries."""
    if len(kept) > most:
        for key in list(kept)[: len(kept) - most // 2]:
            del kept[key]
