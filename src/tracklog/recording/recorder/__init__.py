"""The recorder: one transcript per run, in the agent's own process, without a server.

    with Recorder.open(run_id, "storage") as recorder, recorder.run("review") as run:
        with run.step("build", "command") as step:
            step.exit_code = make()

`record` is synchronous; `async with` and `async for` work where an event loop needs them.
"""

from tracklog.recording.recorder.ending import end_interrupted
from tracklog.recording.recorder.options import Options
from tracklog.recording.recorder.recorder import NullRecorder, Recorder, Stats

__all__ = ["NullRecorder", "Options", "Recorder", "Stats", "end_interrupted"]
