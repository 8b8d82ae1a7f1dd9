"""A draft: an event that is checked and encoded, and has no number yet."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from jsonschema_rs import Draft202012Validator

from tracklog import __version__
from tracklog.dialects.awf.line import ENVELOPE
from tracklog.dialects.awf.rules import UUID4
from tracklog.dialects.awf.shapes import KINDS
from tracklog.model import problems
from tracklog.model.errors import InvalidEvent, UnsafeTranscript
from tracklog.recording.recorder.forms import (
    FORMS,
    JSON,
    JSON_HINT,
    REMEMBERED,
    Form,
    check_keys,
    encode,
)

SAFE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
MARK = "tracklog/"
PRODUCER = f"{MARK}{__version__}"
SCHEMA_VERSION = 1
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
RESERVED = ("elapsed_ms", "seam", "lost", "chain")
"""Extra keys that only the recorder may set."""


Draft = tuple[str, bytes, bytes, int | None, bytes, int | None]
"""An event without its number: its type; its head, from the comma after the number through the
quote before the time; its payload; the number of its step; its other extra keys, each with a comma
in front; and its time in nanoseconds since 1970, None for the time of writing. A plain tuple,
because it is cheap.
"""


class Drafts:
    """Makes the drafts of one run: refuses invalid events and encodes the others."""

    def __init__(
        self,
        run_id: str,
        parent_run_id: str | None,
        *,
        resumes: Callable[[], bool] = lambda: False,
        any_id: bool = False,
    ) -> None:
        self.run_id, self.parent_run_id = run_id, parent_run_id
        self._resumes = resumes
        self._any_id = any_id
        self._heads: dict[tuple[str, str, int, str | None], tuple[bytes, Form]] = {}
        self._extras: set[tuple[str, ...]] = set()

    def draft(
        self,
        kind: str,
        payload: Any,
        path: str,
        iteration: int,
        child_run_id: str | None,
        step_seq: int | None,
        extras: dict[str, Any],
    ) -> Draft:
        """The draft of an event; InvalidEvent if it must not be written."""
        try:
            head, form = self._heads[kind, path, iteration, child_run_id]
        except (KeyError, TypeError):
            head, form = self._head(kind, path, iteration, child_run_id)
        encoded = form.spell(payload if kind != "run.started" else self._marked(payload))
        if step_seq is not None and (step_seq.__class__ is not int or step_seq < 1):
            raise InvalidEvent(f"step_seq is {step_seq!r}", "give the number of the step's start")
        if not extras:
            return kind, head, encoded, step_seq, b"", None
        at = nanoseconds(extras.pop("timestamp")) if "timestamp" in extras else None
        return kind, head, encoded, step_seq, self._spell_extras(extras), at

    def _head(
        self, kind: str, path: str, iteration: int, child_run_id: str | None
    ) -> tuple[bytes, Form]:
        if not isinstance(kind, str) or kind not in KINDS:  # AWF-15
            known = ", ".join(KINDS)
            raise InvalidEvent(f"{kind!r} is no type of event", f"the types are: {known}")
        if not isinstance(path, str):
            raise InvalidEvent(f"path is {path!r}", "give step names joined by dots, or ''")
        if kind.startswith("run.") and path:
            raise InvalidEvent(f"{kind} has the path {path!r}", "events of the run have no path")
        if isinstance(iteration, bool) or not isinstance(iteration, int) or iteration < 0:
            raise InvalidEvent(f"iteration is {iteration!r}", "give a whole number, 0 or more")
        self._check_child(kind, child_run_id)
        envelope = {
            "run_id": self.run_id,
            "parent_run_id": self.parent_run_id,
            "child_run_id": child_run_id,
            "type": kind,
            "path": path,
            "iteration": iteration,
        }
        present = {key: value for key, value in envelope.items() if value is not None}
        head = b"," + encode(present)[1:-1] + b',"timestamp":"'
        if len(self._heads) >= REMEMBERED:
            self._heads.clear()
        self._heads[kind, path, iteration, child_run_id] = head, FORMS[kind]
        return head, FORMS[kind]

    def _check_child(self, kind: str, child_run_id: str | None) -> None:
        calls = kind.startswith("step.call_workflow.")
        if calls and child_run_id is None:  # AWF-19
            raise InvalidEvent(f"{kind} without child_run_id", "give the id of the child run")
        if not calls and child_run_id is not None:
            raise InvalidEvent(
                f"child_run_id on {kind}", "only step.call_workflow.* names a child run"
            )
        if child_run_id is not None:
            fault = id_fault(child_run_id, any_id=self._any_id)
            if fault:
                raise InvalidEvent(*fault)

    def _marked(self, payload: Any) -> Any:
        if not isinstance(payload, dict):
            return payload  # the check of the payload reports the problem
        marks = {"schema_version": SCHEMA_VERSION, "producer": PRODUCER}
        resumed = {"resumed": True} if self._resumes() else {}
        return {**payload, **marks, **resumed}

    def _spell_extras(self, extras: dict[str, Any]) -> bytes:
        keys = tuple(extras)
        if keys not in self._extras:
            check_keys(keys, (*ENVELOPE, *RESERVED), "the envelope")
            if len(self._extras) >= REMEMBERED:
                self._extras.clear()
            self._extras.add(keys)
        given = {key: value for key, value in extras.items() if value is not None}
        if not given:
            return b""
        try:
            valid = _extras_check().is_valid(given)
        except ValueError as error:
            raise InvalidEvent(f"an extra key is no JSON: {error}", JSON_HINT) from None
        if not valid:
            fault = next(iter(_extras_check().iter_errors(given)))
            place = problems.pointer(fault.instance_path)
            raise InvalidEvent(f"{place}: {fault.message}", "step_seq and attempt count from 1")
        return b"," + encode(given)[1:-1]


def check(event: dict[str, Any]) -> None:
    """InvalidEvent if the payload or an extra key of an event must not be written."""
    FORMS[event["type"]].spell(event.get("payload"))
    extras = {key: value for key, value in event.items() if key not in ENVELOPE}
    if not _extras_check().is_valid(extras):
        raise InvalidEvent("an extra key has a value that may not be written", JSON_HINT)


def id_fault(run_id: Any, *, any_id: bool = False) -> tuple[str, str] | None:
    """AWF-63: a run id is a lower-case UUID v4; it becomes the name of a file."""
    pattern = SAFE_ID if any_id else UUID4
    if isinstance(run_id, str) and pattern.fullmatch(run_id):
        return None
    hint = "give the run's UUID v4 in lower case: str(uuid.uuid4())"
    if any_id:
        hint = "1 to 128 of A-Z a-z 0-9 . _ -, first a letter or a digit"
    return f"{run_id!r} is no run id", hint


def check_id(run_id: Any, *, any_id: bool = False) -> None:
    """Refuse to open a transcript for an invalid run id."""
    fault = id_fault(run_id, any_id=any_id)
    if fault:
        raise UnsafeTranscript(*fault)


def nanoseconds(at: Any) -> int:
    """The time in nanoseconds since 1970."""
    if not isinstance(at, datetime) or at.utcoffset() is None:
        raise InvalidEvent(f"the timestamp {at!r} has no zone", "give an aware datetime")
    return (at - EPOCH) // timedelta(microseconds=1) * 1000


@cache
def _extras_check() -> Draft202012Validator:
    number = {"type": "integer", "minimum": 1}
    return Draft202012Validator(
        {
            "type": "object",
            "properties": {
                "step_seq": number,
                "attempt": number,
                "frames": {"type": "array", "items": {"type": "object"}},
                "span_id": {"type": "string"},
                "parent_span_id": {"type": "string"},
            },
            "additionalProperties": {"$ref": "#/$defs/Json"},
            "$defs": {"Json": JSON},
        }
    )
