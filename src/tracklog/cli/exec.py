"""`tracklog exec`: run an agent and record it as it happens."""

import contextlib
import os
import re
import resource
import shutil
import signal
import sys
import threading
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

import click

from tracklog.cli import _child, _home
from tracklog.cli._terminal import print_error
from tracklog.model.errors import TracklogError

if TYPE_CHECKING:
    from tracklog.formats.exec import Recording
    from tracklog.formats.providers import ReplyStatus

RUN_ENV, PARENT_ENV = "TRACKLOG_RUN_ID", "TRACKLOG_PARENT_RUN_ID"
UUID4 = re.compile("[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
NOT_FOUND = 127
NOT_EXECUTABLE = 126
TIMED_OUT = 124
PATIENCE = 30.0
"""Seconds that finishing the recording may take once the command has ended."""


@click.command(
    name="exec",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    epilog="""\b
Examples:
  tracklog exec -- claude -p "review this" --output-format stream-json --verbose
  tracklog exec -- codex exec --json "fix the tests"
  tracklog exec --timeout 600 -- gemini -p "…" --output-format stream-json

\b
Exit code: that of the command; 124 timed out, 126 cannot be run, 127 not found.""",
)
@click.argument("command", nargs=-1, required=True, metavar="-- COMMAND [ARGS]...")
@_home.home_option
@click.option(
    "--provider",
    metavar="NAME",
    help="The agent (claude, codex, …) whose output this is, if the name of the command does not show it.",
)
@click.option("--timeout", type=click.FloatRange(min=0, min_open=True), metavar="SECONDS",
              help="End the command after this time.")  # fmt: skip
@click.option("--tee-raw", is_flag=True, help="Also store its raw output beside the transcript.")
@click.option("--redact", is_flag=True, help="Redact secrets in the recording.")
@click.option("-v", "--verbose", is_flag=True, help="Print the id of the run to standard error.")
def command(
    command: tuple[str, ...],
    home: Path,
    provider: str | None,
    timeout: float | None,
    tee_raw: bool,
    redact: bool,
    verbose: bool,
) -> None:
    """Run an agent, pass its output through unchanged, and record the run as it happens.

    The agent gets the input, signals and terminal of this command. It never waits for the
    recording, and an error of the recording does not stop it. A JSON stream is recorded as messages and tool calls, any other output as text.
    """
    if tee_raw and redact:
        raise click.UsageError("--tee-raw stores every byte, so it cannot be used with --redact")
    if shutil.which(command[0]) is None:
        there = Path(command[0]).exists()
        print_error(
            f"{command[0]} {'cannot be run' if there else 'is not found'}",
            "check its name and its mode; everything after -- is run unchanged",
        )
        sys.exit(NOT_EXECUTABLE if there else NOT_FOUND)
    run_id, parent, environment = _named(os.environ)
    output = _child.OutputQueue()
    try:
        child = _child.Child(command, environment, output)
    except OSError as error:
        print_error(
            f"{command[0]} cannot be run: {error.strerror}", "is it a program, or a script?"
        )
        sys.exit(NOT_EXECUTABLE)
    options: _RecordingOptions = {
        "provider": provider, "tee_raw": tee_raw, "redact": redact,
        "run_id": run_id, "parent_run_id": parent,
    }  # fmt: skip  # a row for the options, a row for the names
    clerk = _Clerk(output, home, command, options)
    clerk.start()
    ended = child.wait(timeout)
    clerk.end(_status(ended), ended)
    child.release()
    with contextlib.suppress(OSError, TracklogError):  # the command's exit code is the answer
        _home.warn_of_damage(home)
    if verbose:
        click.echo(f"recorded as {run_id}", err=True)
    if ended.timed_out:
        sys.exit(TIMED_OUT)
    if ended.signal is not None:
        _die_of(ended.signal)
    sys.exit(ended.exit_code)


def _named(environment: Mapping[str, str]) -> tuple[str, str | None, dict[str, str]]:
    """The id of our run, the id of its parent, and the environment in which the command finds us as
    its parent.

    The parent may have chosen the id, as emitters do for their children.
    """
    given, parent = environment.get(RUN_ENV, ""), environment.get(PARENT_ENV, "")
    run_id = given if UUID4.fullmatch(given) else str(uuid.uuid4())
    theirs = {key: value for key, value in environment.items() if key != RUN_ENV}
    return run_id, parent if UUID4.fullmatch(parent) else None, {**theirs, PARENT_ENV: run_id}


def _status(ended: _child.CommandEnd) -> "ReplyStatus":
    if ended.timed_out:
        return "timeout"
    if ended.signal is not None:
        return "killed"
    return "error" if ended.exit_code else "ok"


def _die_of(number: int) -> None:
    """End as the command ended, so that our parent sees the same status."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    sys.stdout.flush()
    sys.stderr.flush()
    if number not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    sys.exit(128 + number)  # where the signal could not end us


class _RecordingOptions(TypedDict):
    """How a command is recorded."""

    provider: str | None
    tee_raw: bool
    redact: bool
    run_id: str | None
    parent_run_id: str | None


class _Clerk(threading.Thread):
    """Records in a thread of its own: an error here does not stop the agent."""

    def __init__(
        self,
        output: _child.OutputQueue,
        home: _home.Place,
        command: tuple[str, ...],
        options: _RecordingOptions,
    ) -> None:
        super().__init__(name="tracklog-clerk", daemon=True)
        self._output, self._home, self._command = output, home, command
        self._options = options
        self._ended: tuple[ReplyStatus, _child.CommandEnd] | None = None
        self._is_reported = threading.Event()
        self._failure: Exception | None = None

    def run(self) -> None:
        try:
            self._record()
        except Exception as error:  # noqa: BLE001  # nothing of the recording reaches the agent
            self._failure = error

    def end(self, status: "ReplyStatus", ended: _child.CommandEnd) -> None:
        """Wait until everything is recorded, with a limit; errors are printed."""
        self._ended = (status, ended)
        self._is_reported.set()
        until = time.monotonic() + PATIENCE
        while self.is_alive() and time.monotonic() < until:
            self.join(0.2)
            if signal.sigpending() & {signal.SIGINT, signal.SIGTERM}:
                break  # the caller has waited long enough
        if self.is_alive():
            print_error(
                "the recording is not finished",
                "everything written so far is in the transcripts of the home; `tracklog doctor`",
            )
        elif self._failure is not None:
            print_error(
                f"the run was not recorded completely: {self._failure}",
                "the command itself was not affected; `tracklog doctor` examines the home",
            )

    def _record(self) -> None:
        from tracklog.formats.exec import Recording

        place = self._home
        store = (place.url, place.stores) if isinstance(place, _home.RemoteStore) else None
        folder = _home.folder_of(place)
        with Recording(folder, self._command, store=store, **self._options) as recording:
            self._listen(recording)
            self._is_reported.wait()
            assert self._ended is not None
            status, ended = self._ended
            code = ended.exit_code if ended.signal is None else 128 + ended.signal
            recording.finish(status, code, ended.stderr)

    def _listen(self, recording: "Recording") -> None:
        while (chunk := self._output.get()) is not None:
            if isinstance(chunk, int):
                recording.miss(chunk)
            else:
                recording.feed(chunk)
