"""`tracklog host workflow`: run a workflow in the foreground, to its end."""

import asyncio
import os
import signal
import sys
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tracklog.cli import _home
from tracklog.cli._hosts import record_stop
from tracklog.cli._tapes import print_report, tape_options
from tracklog.cli._verbs import VerbGroup, given
from tracklog.model.errors import TracklogError

if TYPE_CHECKING:
    from tracklog.hosts.workflow.flow import Loaded
    from tracklog.hosts.workflow.history import History
    from tracklog.hosts.workflow.host_context import RunOutcome
    from tracklog.model.event import Body
    from tracklog.recording.recorder import Recorder
    from tracklog.recording.tape import Tape, TapeReport

CODES = {"ok": 0, "failed": 1, "timeout": 124, "cancelled": 130}


@click.group(
    cls=VerbGroup,
    usual="run",
    subcommand_metavar="FILE | run | stop [ARGS]...",
    epilog="""\b
Examples:
  tracklog host workflow review.yaml
  tracklog host workflow review.yaml --input 'files=["a.py"]' --input who=me
  tracklog host workflow review.yaml --tape RUN      (again, with the recorded answers)
  tracklog host workflow stop RUN""",
)
def command() -> None:
    """Run the steps of a YAML file: agents, commands, tools, loops and other workflows.

    Every step, message and tool call is recorded. If a run was killed, you can resume it with --run;
    otherwise the next run that starts records its end.
    """


@command.command(
    epilog="""\b
Examples:
  tracklog runs --status working
  tracklog host workflow stop 3f1c1f2e-9a5b-4c7d-8e21-0a1b2c3d4e5f""",
)
@click.argument("run")
@_home.home_option
def stop(run: str, home: Path) -> None:
    """End RUN: its current step is ended, and its records stay."""
    from tracklog.hosts.workflow.run_records import ask_to_end

    record_stop(home, run, ask_to_end)


@command.command(
    name="run",
    epilog="""\b
Examples:
  tracklog host workflow run review.yaml --input 'files=["a.py"]' --input who=me
  tracklog host workflow run review.yaml --tape RUN      (again, with the recorded answers)

\b
Exit code: 0 it succeeded, 1 it failed or differs from the tape, 2 it cannot be run,
124 a step timed out, 130 Ctrl-C, or somebody stopped it.""",
)
@click.argument(
    "flow", metavar="FILE", type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@_home.home_option
@click.option("--input", "inputs", multiple=True, metavar="KEY=VALUE",
              help="An input of the workflow: JSON, or else text; may be repeated.")  # fmt: skip
@click.option("--run", "run_id", metavar="UUID",
              help="The id of the run; a killed run is resumed, a finished one stays unchanged.")  # fmt: skip
@tape_options
@click.option("--record/--no-record", default=True, help="Whether the run is recorded.")
def run_flow(
    flow: Path,
    home: Path,
    inputs: tuple[str, ...],
    run_id: str | None,
    tape: str | None,
    by: str,
    on_miss: str,
    record: bool,
) -> None:
    """Run the steps of the workflow FILE, to the end."""
    from tracklog.hosts.workflow.host_context import read

    loaded = read(flow)
    values = dict(map(given, inputs))
    home = _home.local(
        home, "record it in a folder; `tracklog serve --store URL --with workflow` runs it there"
    )
    with _WorkflowRun(home, loaded, run_id, record=record) as host:
        played = host.tape(tape, by, on_miss) if tape else None
        outcome = host.run(values, played)
        code = CODES.get(outcome.status, 1)
        if played is not None and print_report(host.report(tape or "")):
            code = max(code, 1)
    sys.exit(code)


class _WorkflowRun:
    """One run in this process, with its home and its recorder."""

    def __init__(self, home: Path, loaded: "Loaded", run_id: str | None, *, record: bool) -> None:
        from tracklog.hosts.workflow.audit import Audit
        from tracklog.hosts.workflow.run_records import RunRecords
        from tracklog.journal.leases import FileLeases

        self._path, self._loaded, self._record = home, loaded, record
        self._run_id = run_id or str(uuid.uuid4())
        self._again = run_id is not None
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._audit = Audit(home / "audit.jsonl")
        self._leases = FileLeases(home)
        self._records: RunRecords = RunRecords(home, self._audit, self._leases)
        self.tapes: list[Tape] = []
        self._tape_of: Any = lambda _run: None

    def __enter__(self) -> "_WorkflowRun":
        return self

    def __exit__(self, *_: object) -> None:
        self._records.close()
        self._leases.close()

    def tape(self, name: str, by: Any, miss: Any) -> "Tape":
        """The recorded run as a tape, and those of its sub-runs."""
        from tracklog import Log
        from tracklog.hosts.workflow.replaying import tape_of

        with _home.reading(self._path) as home:
            tape, self._tape_of = tape_of(Log(home), name, by, miss, self.tapes)
        return tape

    def report(self, source: str) -> "TapeReport":
        """The report of the tape; it is also stored as a note on the run."""
        from tracklog import Log
        from tracklog.dialects import awf
        from tracklog.hosts._notes import put
        from tracklog.recording import tape as tapes

        report = tapes.tape_report(self.tapes)
        if self._record:
            with _home.writing(self._path) as home:
                run = (awf.dialect.family, self._run_id)
                put(Log(home), run, tapes.TAPE_LABEL, {"source": source, **report})
        return report

    def run(self, inputs: "Body", tape: "Tape | None") -> "RunOutcome":
        """Run it; Ctrl-C and a request to end stop the current step, and that is recorded."""
        from tracklog.hosts.workflow.history import History
        from tracklog.hosts.workflow.host_context import RunOutcome
        from tracklog.hosts.workflow.processes import end_leftovers, guarded
        from tracklog.recording.recorder import NullRecorder, Recorder

        if not self._records.take(self._run_id):
            raise TracklogError(f"another process runs {self._run_id}", "wait for its end")
        self._records.sweep(but=self._run_id)
        history = History.of(self._path / "transcripts" / f"{self._run_id}.jsonl", self._run_id)
        if history.end is not None:
            self._records.settle(self._run_id, self._loaded.flow.name, history.end)
            click.echo(f"the run {self._run_id} has ended already", err=True)
            return RunOutcome(history.end.get("status", "ok"))
        if self._again:
            end_leftovers(self._run_id)
            self._check_same(history, inputs)
        recorder: Recorder = NullRecorder()
        if self._record:
            _home.record_act(self._path, "start", host="workflow", run=self._run_id)
            opening = Recorder.open if history.run else Recorder.try_open
            resume = history.run is not None
            recorder = opening(self._run_id, self._path, durability="interval", resume=resume)
        with recorder, guarded():
            return asyncio.run(self._perform(recorder, inputs, history, tape))

    def _check_same(self, history: "History", inputs: "Body") -> None:
        """Refuse to resume a run with other inputs."""
        from tracklog.hosts.workflow import flow
        from tracklog.hosts.workflow.host_context import fingerprint

        was = (history.start or {}).get("inputs_sha256")
        if was not in (None, fingerprint(flow.given(self._loaded.flow, inputs))):
            raise TracklogError(
                f"{self._run_id} was started with other inputs",
                "give the same inputs as at the start",
            )

    async def _perform(
        self, recorder: "Recorder", inputs: "Body", history: "History", tape: "Tape | None"
    ) -> "RunOutcome":
        from tracklog.hosts.workflow.display import Display
        from tracklog.hosts.workflow.engine import WorkflowExecution
        from tracklog.hosts.workflow.host_context import HostContext, RunOutcome

        context = HostContext(
            display=Display(_put),
            audit=self._audit,
            environment=os.environ,
            storage=self._path,
            opened=self._records.opened,
            tape_of=self._tape_of,
        )
        execution = WorkflowExecution(
            context, self._loaded, inputs,
            run_id=self._run_id, recorder=recorder, history=history, tape=tape,
        )  # fmt: skip
        work = asyncio.create_task(execution.run())
        async with self._records.recording(work.cancel):
            loop = asyncio.get_running_loop()
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(number, work.cancel)
            try:
                return await work
            except asyncio.CancelledError:
                return RunOutcome("cancelled")


def _put(text: bytes) -> None:
    sys.stdout.buffer.write(text)
    sys.stdout.buffer.flush()
