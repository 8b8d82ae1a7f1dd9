"""Write the end of a run that was killed before it could write its own."""

from pathlib import Path

from tracklog.recording.recorder.recorder import Recorder
from tracklog.recording.transcript.entry import Entry
from tracklog.recording.transcript.views import load


def end_interrupted(path: str | Path) -> Entry | None:
    """End an interrupted run of ours with a synthetic `run.completed`; None if it is not
    interrupted.

    TranscriptLocked if its writer is still alive.
    """
    path = Path(path)
    run = load(path)[0].get(path.stem)
    if run is None or run.state != "interrupted":
        return None
    start = next(event for event in run.events if event.type == "run.started")
    with Recorder.open(run.run_id, path.parent.parent, run.parent_run_id) as recorder:
        end = {"name": start.payload["name"], "kind": "workflow"}
        end |= {"error": "the run was interrupted", "status": "interrupted", "synthetic": True}
        return recorder.record("run.completed", end)
