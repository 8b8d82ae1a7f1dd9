"""The contents of a run: its steps, its messages, its text, its tool calls."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from tracklog.dialects.awf import ZERO_TIME, dialect
from tracklog.journal.frame import Record
from tracklog.model.event import Body, Event
from tracklog.recording.transcript.reader import (
    CLASSES,
    Flaw,
    TranscriptEvent,
    TranscriptReader,
    payload_class,
)
from tracklog.recording.transcript.state import State, is_locked, is_ours, state_of
from tracklog.recording.transcript.tools import Tools, TranscriptCall


@dataclass(slots=True)
class RunEvent:
    """One event of a run: with tolerances applied, and the original beside it."""

    reading: TranscriptEvent
    body: Body
    segment: int
    """The segment, from 0; a new one begins wherever the numbering starts again."""

    @property
    def seq(self) -> int | None:
        return self.reading.seq

    @property
    def type(self) -> str:
        return self.reading.type

    @property
    def at(self) -> str | None:
        """UTC, as precise as the source; None where it is unknown."""
        at = self.body.get("timestamp")
        return at if isinstance(at, str) and at != ZERO_TIME else None

    @property
    def payload(self) -> Body:
        """The payload where it is an object, else a stand-in."""
        payload = self.body.get("payload")
        if isinstance(payload, list):
            return {"blocks": payload}
        return payload if isinstance(payload, dict) else {}

    @property
    def blocks(self) -> list[Body]:
        """Its content blocks."""
        blocks = self.payload.get("blocks")
        items = blocks if isinstance(blocks, list) else []
        return [block for block in items if isinstance(block, dict)]


@dataclass(slots=True)
class TranscriptStep:
    """One step: its start and its end where they exist, and the events inside."""

    name: str
    kind: str
    path: str
    iteration: int
    attempt: int
    frames: list[Body]
    started: RunEvent | None
    completed: RunEvent | None = None
    child_run_id: str | None = None
    inside: list[RunEvent] = field(default_factory=list)

    @property
    def error(self) -> str | None:
        payload = self.completed.payload if self.completed else {}
        return payload.get("error") or None

    @property
    def status(self) -> str | None:
        """The status as written, or as the error implies; None while the step runs."""
        if self.completed is None:
            return None
        status = self.completed.payload.get("status")
        return status if isinstance(status, str) else "failed" if self.error else "ok"


class MessageView(NamedTuple):
    """One message, with its text parts."""

    role: str
    blocks: list[Body]
    event: RunEvent
    step: TranscriptStep | None

    @property
    def text(self) -> str:
        """Its text blocks, joined without a separator: a foreign writer may cut at every delta."""
        return "".join(str(block.get("text", "")) for block in self._texts())

    @property
    def prompt(self) -> str | None:
        """The prompt of a user message."""
        return self._part("prompt", 0)

    @property
    def system_prompt(self) -> str | None:
        """The composed system prompt of a user message."""
        return self._part("system_prompt", 1)

    def _texts(self) -> list[Body]:
        return [block for block in self.blocks if block.get("type") == "text"]

    def _part(self, name: str, place: int) -> str | None:
        texts = self._texts()
        marked = [block for block in texts if "part" in block]
        if marked:
            block_of_part = next((block for block in marked if block["part"] == name), None)
        else:  # unmarked: the first is the prompt, the second the system prompt
            block_of_part = texts[place] if len(texts) > place else None
        return (
            None
            if block_of_part is None or self.role != "user"
            else str(block_of_part.get("text", ""))
        )


class TranscriptRun:
    """The events of one run, from one file or several."""

    def __init__(
        self, run_id: str, readings: Iterable[TranscriptEvent], files: Iterable[Path] = ()
    ) -> None:
        self.run_id = run_id
        self.files = list(files)
        self.events = list(_run_events(readings))

    @cached_property
    def parent_run_id(self) -> str | None:
        """The parent run, from any of its events: a foreign writer leaves it out on some."""
        parents = (event.body.get("parent_run_id") for event in self.events)
        return next((parent for parent in parents if isinstance(parent, str) and parent), None)

    @cached_property
    def ours(self) -> bool:
        """Whether our recorder wrote it."""
        return any(is_ours(event.body) for event in self.events if event.type == "run.started")

    @property
    def state(self) -> State:
        """The state of the run; the locks of its files are tested on each call."""
        locked = any(is_locked(path) for path in self.files)
        return state_of((event.reading.body for event in self.events), locked=locked)

    @property
    def segments(self) -> int:
        return self.events[-1].segment + 1 if self.events else 0

    @property
    def began(self) -> str | None:
        return self.events[0].at if self.events else None

    @property
    def ended(self) -> str | None:
        return self.events[-1].at if self.events else None

    @cached_property
    def steps(self) -> list[TranscriptStep]:
        """Every step, in the order of the starts, each with the events inside."""
        return _steps(self.events)

    @cached_property
    def messages(self) -> list[MessageView]:
        """Every message, in order."""
        homes = {id(event): step for step in self.steps for event in step.inside}
        return [
            MessageView(
                str(event.payload.get("role", "")), event.blocks, event, homes.get(id(event))
            )
            for event in self.events
            if _class_of(event) == "message"
        ]

    @property
    def text(self) -> str:
        """All text of the assistant."""
        return "".join(message.text for message in self.messages if message.role == "assistant")

    def message(self, back: int = 1) -> MessageView | None:
        """The last message, or the n-th from the end."""
        return self.messages[-back] if 0 < back <= len(self.messages) else None

    @cached_property
    def tools(self) -> list[TranscriptCall]:
        """Every tool call once, in the order of the calls; AWF-37: the router's report takes
        precedence.
        """
        tools = Tools()
        homes = {id(event): step.path for step in self.steps for event in step.inside}
        for place, event in enumerate(self.events):
            home = homes.get(id(event))
            if event.type == "tool.call":
                tools.call(place, event.payload, home)
            elif event.type == "tool.result":
                tools.result(event.payload)
            elif _class_of(event) == "message":
                tools.blocks(place, event.blocks, home)
        return tools.once()

    def result_of(self, step: TranscriptStep) -> tuple[Any, bool | None]:
        """The result of a step, and whether it had output: a foreign boolean says only the latter."""
        payload = step.completed.payload if step.completed else {}
        result, had = payload.get("result"), payload.get("had_output")
        if isinstance(result, bool) and not self.ours:
            return None, result
        return result, had if isinstance(had, bool) else None

    def filter(
        self,
        types: Iterable[str] | None = None,
        step: str | None = None,
        tool: str | None = None,
        since: str | None = None,
        until: str | None = None,
    ) -> Iterator[RunEvent]:
        """Events of these types, of a step's path, of a tool, between two times (UTC)."""
        wanted = None if types is None else set(types)
        for event in self.events:
            if wanted is not None and event.type not in wanted:
                continue
            if step is not None and event.body.get("path") != step:
                continue
            if tool is not None and tool not in _tool_names(event):
                continue
            if (since and (event.at or "") < since) or (until and (event.at or "~") >= until):
                continue
            yield event


def load(*paths: str | Path) -> tuple[dict[str, TranscriptRun], dict[Path, list[Flaw]]]:
    """The runs in some files, by run id, and the flaws of each file.

    Several runs in one file are separated; one run in several files is joined, ordered by the first
    time in each file. The run id in the content counts, not the name of the file.
    """
    parts: dict[str, list[tuple[str, Path, list[TranscriptEvent]]]] = {}
    flaws: dict[Path, list[Flaw]] = {}
    for path in map(Path, paths):
        events, flaws[path] = TranscriptReader(path).read_all()
        by_run: dict[str, list[TranscriptEvent]] = {}
        for reading in events:
            by_run.setdefault(_run_id(reading), []).append(reading)
        for run_id, readings in by_run.items():
            first = next(_run_events(readings)).at or ""
            parts.setdefault(run_id, []).append((first, path, readings))
    runs: dict[str, TranscriptRun] = {}
    for run_id, pieces in parts.items():
        pieces.sort(key=lambda piece: piece[0])
        readings = [reading for _, _, piece in pieces for reading in piece]
        runs[run_id] = TranscriptRun(run_id, readings, [path for _, path, _ in pieces])
    return runs, flaws


def read_transcript(path: Path, run_id: str) -> TranscriptRun | None:
    """One run of a transcript; None where there is no such file, or nothing of the run in it."""
    return load(path)[0].get(run_id) if path.exists() else None


def run_of(run_id: str, records: Iterable[Record]) -> TranscriptRun:
    """A run from its records in a journal: those that a recorder wrote."""
    lines = [each.line for each in records if each.dialect == dialect.name and each.line]
    return TranscriptRun(
        run_id, TranscriptReader(b"".join(line + b"\n" for line in lines)).read_all()[0]
    )


def frames_of(body: Body) -> list[Body]:
    """The loops and branches around an event; those of a slash path have no names."""
    frames, path = body.get("frames"), body.get("path")
    if isinstance(frames, list):
        return [frame for frame in frames if isinstance(frame, dict)]
    parts = path.split("/")[:-1] if isinstance(path, str) else []
    indices = [part.removeprefix("loop:") for part in parts if part.startswith("loop:")]
    return [{"index": int(index)} for index in indices if index.isdigit()]


def step_name_of(path: str) -> str:
    """The last step of a path, dotted or slashed."""
    return path.rpartition("/")[2] if "/" in path else path.rpartition(".")[2]


def _run_events(readings: Iterable[TranscriptEvent]) -> Iterator[RunEvent]:
    segment, high = 0, 0
    for reading in readings:
        event = reading.event
        body = event.body if isinstance(event, Event) else reading.body
        if reading.seq == 1 and high:
            segment, high = segment + 1, 0
        high = max(high, reading.seq or 0)
        yield RunEvent(reading, body, segment)


def _run_id(reading: TranscriptEvent) -> str:
    run_id = reading.body.get("run_id")
    return run_id if isinstance(run_id, str) else ""


def _class_of(event: RunEvent) -> str:
    fixed = CLASSES.get(event.type.partition(".")[0]) if event.reading.known else None
    return fixed or payload_class(event.body.get("payload"))


def _steps(events: list[RunEvent]) -> list[TranscriptStep]:
    """Starts paired with ends: by the number of the start, else the nearest open step."""
    steps: list[TranscriptStep] = []
    by_seq: dict[tuple[int, Any], TranscriptStep] = {}
    for event in events:
        if event.type in ("step.started", "step.call_workflow.started"):
            steps.append(_step(event, started=event))
            by_seq[event.segment, event.seq] = steps[-1]
            continue
        home = by_seq.get((event.segment, event.body.get("step_seq")))
        if event.type in ("step.completed", "step.call_workflow.completed"):
            home = home or _nearest(steps, event)
            if home is None:
                steps.append(home := _step(event, started=None))
            home.completed = event
        elif not event.type.startswith("run."):
            home = home or _nearest(steps, event) or _only_agent(steps)
            if home is not None:
                home.inside.append(event)
    return steps


def _step(event: RunEvent, started: RunEvent | None) -> TranscriptStep:
    body, payload = event.body, event.payload
    path, attempt = str(body.get("path", "")), body.get("attempt")
    child = body.get("child_run_id")
    return TranscriptStep(
        name=str(payload.get("name") or step_name_of(path)),
        kind=str(payload.get("kind", "")),
        path=path,
        iteration=body["iteration"] if isinstance(body.get("iteration"), int) else 0,
        attempt=attempt if isinstance(attempt, int) else 1,
        frames=frames_of(body),
        started=started,
        child_run_id=child if isinstance(child, str) else None,
    )


def _nearest(steps: list[TranscriptStep], event: RunEvent) -> TranscriptStep | None:
    path, iteration = event.body.get("path"), event.body.get("iteration")
    for step in reversed(steps):
        if step.completed is None and (step.path, step.iteration) == (path, iteration):
            return step
    return None


def _only_agent(steps: list[TranscriptStep]) -> TranscriptStep | None:
    """The only agent step, for an event without an address; None if there are several."""
    agents = [step for step in steps if step.completed is None and step.kind == "agent"]
    return agents[0] if len(agents) == 1 else None


def _tool_names(event: RunEvent) -> set[str]:
    names = {block.get("tool_name") for block in event.blocks}
    if _class_of(event) == "tool":
        names.add(event.payload.get("name"))
    return {name for name in names if isinstance(name, str)}
