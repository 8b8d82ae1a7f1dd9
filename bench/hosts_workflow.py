"""What recording adds to a workflow of real processes, and how fast its tape is."""

import asyncio
import json
import os
import sys
import tempfile
import time
import uuid
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from timing import goal, interleaved
from tracklog.hosts.workflow.audit import Audit
from tracklog.hosts.workflow.display import Display
from tracklog.hosts.workflow.engine import HostContext, WorkflowExecution, read
from tracklog.hosts.workflow.history import recorded_in
from tracklog.recording.recorder import NullRecorder, Recorder
from tracklog.recording.tape import Tape
from tracklog.recording.transcript import load

ROUNDS = 9
AGENT = """\
import json, time
def put(**event): print(json.dumps(event), flush=True)
put(type="thread.started", thread_id="t")
for n in range(10):
    time.sleep(0.05)
    run = {"id": f"c{n}", "type": "command_execution", "command": "make test"}
    put(type="item.started", item={**run, "status": "in_progress"})
    end = {"aggregated_output": "ok " * 100, "exit_code": 0, "status": "completed"}
    put(type="item.completed", item={**run, **end})
    put(type="item.completed", item={"id": f"i{n}", "type": "agent_message", "text": "word " * 60})
put(type="turn.completed", usage={"input_tokens": 3, "output_tokens": 2})
"""
"""Sixty lines a second, which is more than any agent prints; real ones think for seconds."""


def flow(folder: Path) -> Path:
    (folder / "agent.py").write_text(AGENT)
    agent = json.dumps({"provider": "codex", "command": [sys.executable, "agent.py"]})
    path = folder / "flow.yaml"
    path.write_text(
        "name: bench\nsteps:\n"
        "  - name: each\n    kind: for_each\n    items: [1, 2, 3, 4]\n    steps:\n"
        f"      - {{name: ask, kind: agent, prompt: hello, agent: {agent}}}\n"
        "      - {name: build, kind: command, run: sleep 0.1}\n"
    )
    return path


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        loaded = read(flow(folder))
        context = HostContext(
            display=Display(lambda _text: None),
            audit=Audit(folder / "audit.jsonl"),
            environment=os.environ,
            storage=folder,
        )

        def run(recorder: Recorder, id: str, tape: Tape | None = None) -> None:
            with recorder:
                work = WorkflowExecution(
                    context, loaded, {}, run_id=id, recorder=recorder, tape=tape
                )
                assert asyncio.run(work.run()).status == "ok"

        def recorded() -> None:
            id = str(uuid.uuid4())
            run(Recorder.open(id, folder, durability="interval"), id)  # as the host opens it

        def bare() -> None:
            run(NullRecorder(), str(uuid.uuid4()))

        id = str(uuid.uuid4())
        run(Recorder.open(id, folder), id)
        told = list(recorded_in(load(folder / "transcripts" / f"{id}.jsonl")[0][id]))

        def played() -> None:
            run(NullRecorder(), str(uuid.uuid4()), Tape(told))

        times = interleaved(
            {"bare": bare, "recorded": recorded, "played": played}, ROUNDS, time.perf_counter
        )
        for job, seconds in times.items():
            print(f"  {job:<34} {seconds * 1e3:8.1f} ms")
        goal("recorded / bare", times["recorded"] / times["bare"], at_most=1.02)
        goal("recorded / played from its tape", times["recorded"] / times["played"], at_least=20)


if __name__ == "__main__":
    main()
