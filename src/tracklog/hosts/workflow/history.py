"""The earlier part of a run, read from its transcript, so that it can continue or be run again."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tracklog import RecordedAnswer, Recorder, TranscriptRun, TranscriptStep, read_transcript

Address = tuple[str, tuple[Any, ...]]
"""A step of a run: its path, and its position in the loops and branches around it."""


def address(path: str, frames: Sequence[Mapping[str, Any]]) -> Address:
    return path, tuple(frame.get("index", frame.get("branch")) for frame in frames)


def lane(where: Address) -> str:
    """The lane of a tape that has the answers of a step."""
    path, frames = where
    return f"{path}#{'.'.join(map(str, frames))}" if frames else path


class History:
    """The steps of a run in its transcript."""

    def __init__(self, run: TranscriptRun | None = None) -> None:
        self.run = run
        self._steps: dict[Address, list[TranscriptStep]] = {}
        for step in run.steps if run else ():
            self._steps.setdefault(address(step.path, step.frames), []).append(step)

    @classmethod
    def of(cls, path: Path, run_id: str) -> "History":
        """The history of a run from its transcript; empty if there is no such file."""
        return cls(read_transcript(path, run_id))

    def tries(self, where: Address) -> list[TranscriptStep]:
        """The attempts at a step, in order."""
        return self._steps.get(where, [])

    def child(self, where: Address) -> str | None:
        """The id of the sub-run of a step, which stays the same (AWF-63)."""
        return next((step.child_run_id for step in self.tries(where)), None)

    @property
    def start(self) -> dict[str, Any] | None:
        """The payload of its first event."""
        events = self.run.events if self.run else []
        return next((event.payload for event in events if event.type == "run.started"), None)

    @property
    def end(self) -> dict[str, Any] | None:
        """The payload of its last event; None if the run was killed and its end was added later."""
        if self.run is None or not self.run.events:
            return None
        last = self.run.events[-1]
        ended = last.type == "run.completed" and not last.payload.get("synthetic")
        return last.payload if ended else None

    def end_open_steps(self, recorder: Recorder) -> None:
        """Write the ends of the steps that had not ended, the innermost first."""
        for step in reversed(self.run.steps if self.run else []):
            if step.completed is not None or step.started is None:
                continue
            payload: dict[str, Any] = {
                "name": step.name,
                "kind": step.kind,
                "error": "the host was killed",
            }
            payload |= {"status": "interrupted", "synthetic": True}
            extras: dict[str, Any] = {"frames": step.frames} if step.frames else {}
            extras |= {"attempt": step.attempt} if step.attempt > 1 else {}
            recorder.emit(
                step.started.type.replace("started", "completed"),
                payload,
                step.path,
                step.iteration,
                step.child_run_id,
                step_seq=step.started.seq,
                **extras,
            )


def recorded_in(run: TranscriptRun) -> Iterator[RecordedAnswer]:
    """The answers of agents, commands and tools in a recorded run, step by step."""
    for step in run.steps:
        where = lane(address(step.path, step.frames))
        if step.kind == "agent":
            yield from _turns(step, where)
            yield from _tools(step, "router")
        elif step.kind == "command" and step.completed is not None:
            started = step.started.blocks if step.started else []
            asked = {"command": started[0].get("command")} if started else None
            yield _recorded("command", where, asked, step.completed.payload, step.completed.seq)
        elif step.completed is not None and step.kind not in CONTAINERS:
            yield from _tools(step)
            if step.kind not in ("operation", "terminal"):
                yield _recorded("plugin", where, None, step.completed.payload, step.completed.seq)


CONTAINERS = ("parallel", "for_each", "while", "call_workflow")


def _recorded(kind: str, where: str, asked: Any, answer: Any, seq: int | None) -> RecordedAnswer:
    return RecordedAnswer(kind=kind, lane=where, asked=asked, answer=answer, seq=seq or 0)


def _turns(step: TranscriptStep, where: str) -> Iterator[RecordedAnswer]:
    """Each prompt with all messages and tool calls up to the next prompt."""
    asked: dict[str, Any] | None = None
    pieces: list[dict[str, Any]] = []
    for event in step.inside:
        if event.type == "message.user":
            parts = {block.get("part"): block.get("text") for block in event.blocks}
            asked = {"prompt": parts.get("prompt"), "system": parts.get("system_prompt")}
            pieces = []
        elif event.type in ("tool.call", "tool.result"):
            if event.payload.get("fidelity") != "router":
                pieces += [{"tool": block} for block in event.blocks]
        elif event.type == "message.assistant":
            meta = {key: each for key, each in event.payload.items() if key not in MESSAGE}
            pieces.append({"blocks": event.blocks, "meta": meta})
            if event.payload.get("final", True):
                blocks = [block for piece in pieces for block in piece.get("blocks", ())]
                answer = {"blocks": blocks, "pieces": pieces}
                yield _recorded("model", where, asked, answer, event.seq)
                pieces = []


MESSAGE = ("role", "blocks")


def _tools(step: TranscriptStep, fidelity: str | None = None) -> Iterator[RecordedAnswer]:
    for event in step.inside:
        if event.type == "tool.result" and fidelity in (None, event.payload.get("fidelity")):
            name, given = event.payload.get("name"), event.payload.get("input")
            asked = {"tool": name, "input": given}
            answer = {key: event.payload.get(key) for key in ("output", "error")}
            yield _recorded("tool", str(name), asked, answer, event.seq)
