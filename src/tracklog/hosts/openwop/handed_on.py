"""The ids of runs in what nodes hand on to each other: outputs, inputs, variables and errors.

A node gives the id of its child run like any other value, and a mapping may hand it on to other runs
of the same tree: up, down or sideways. Version 2 binds ids to a tenant, these ones, too.
"""

import re
from collections.abc import Callable
from typing import Any

from tracklog import Body, Log, Record, body_of
from tracklog.hosts.openwop.own_lines import OwnLines
from tracklog.hosts.openwop.runlog import FAMILY, RunLog

ID = re.compile(r"run-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
VALUES, TEXTS = ("outputs", "inputs", "variables"), ("error", "lastError")
"""Members with values, where only a whole text is an id, and with messages, which contain ids."""
MOST = 10_000


class HandedOn:
    """Binds the ids of runs of one tree, wherever they were handed on to."""

    def __init__(self, journal: Log | None, own: OwnLines | None) -> None:
        self._journal, self._own = journal, own
        self._parents: dict[str, str | None] = {}
        """The parent of each run that was looked up; it never changes."""

    def bind(self, data: Body, log: RunLog, bound: Callable[[str], str]) -> Body:
        """A payload or a snapshot, with ids of runs as `bound` has them."""
        if not log.snapshot.children and "parentRunId" not in log.snapshot.host:
            return data
        near: set[str] = set()

        def one(name: str) -> str:
            if not near:
                near.update(log.snapshot.children)
                # The children of a replay are those of its source.
                near.update(self._root(each) for each in [log.name, *log.snapshot.children][:2])
            is_related = name in near or self._root(name) in near
            return bound(name) if is_related else name

        def each(value: Any, *, is_text: bool) -> Any:
            if isinstance(value, dict):
                return {key: each(inner, is_text=is_text) for key, inner in value.items()}
            if isinstance(value, list):
                return [each(inner, is_text=is_text) for inner in value]
            if not isinstance(value, str):
                return value
            if is_text:
                return ID.sub(lambda hit: one(hit[0]), value)
            return one(value) if ID.fullmatch(value) else value

        for key in (*VALUES, *TEXTS):
            if isinstance(data.get(key), dict):
                data[key] = each(data[key], is_text=key in TEXTS)
        return data

    def _root(self, name: str) -> str:
        """The run at the top of the tree of a run; for a name that is none, the name."""
        while (parent := self._parent(name)) is not None:
            name = parent
        return name

    def _parent(self, name: str) -> str | None:
        if name in self._parents or self._journal is None:
            return self._parents.get(name)
        for record in self._journal.read(0, (FAMILY, name)):
            if record.line and record.dialect == FAMILY and self._is_own(record):
                if len(self._parents) >= MOST:
                    self._parents.clear()
                parent = body_of(record).get("host", {}).get("parentRunId")
                self._parents[name] = parent
                return parent if isinstance(parent, str) else None
        return None

    def _is_own(self, record: Record) -> bool:
        return self._own is not None and self._own.has_event(record, body_of(record))
