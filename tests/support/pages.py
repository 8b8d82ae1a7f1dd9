"""Pages of the documentation, and a terminal that types their commands."""

import contextlib
import os
import re
import selectors
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from support.collecting import lasting_port

ROOT = Path(__file__).parents[2]


def sessions(page: Path) -> list[str]:
    """The shell sessions of a page, in order."""
    return re.findall(r"^```console\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


def steps(session: str) -> list[tuple[str, str]]:
    """Each command with the output that is shown below it."""
    parts = re.split(r"^\$ ", session, flags=re.MULTILINE)[1:]
    found = []
    for part in parts:
        command, _, output = part.partition("\n")
        while command.endswith("\\") or ("<<'END'" in command and "\nEND" not in command):
            line, _, output = output.partition("\n")
            command += "\n" + line
        found.append((command, output))
    return found


def clone(folder: Path) -> Path:
    """What a reader has after `git clone` and `make setup`: these files, and their environment."""
    folder.mkdir()
    for path in ROOT.iterdir():
        if path.name not in (".git", ".venv", "build", "dist"):
            (folder / path.name).symlink_to(path)
    (folder / ".venv").symlink_to(sys.prefix)
    return folder


OURS = str(Path(sys.executable).parent)
"""The folder of our own programs, which a bare shell does not know."""
DRIVER = """
set -u
trap : TERM
while read -r step; do
    . "$step" </dev/null >"$step.out" 2>&1
    echo done
done
wait
"""
"""One shell for all commands of a page, so that what one sets, or starts, is there for the next."""


class Terminal:
    """Types the commands of pages into one shell, which begins in a folder and knows nothing else.

    Each command is entered once, as soon as the one before has ended, as if all were pasted:
    what a page starts with `&` is not waited for, unless the page itself does so.
    Two things are not as printed: a server gets a port of its own, and `make setup`, which was
    done before, only says what it would do.
    """

    def __init__(
        self, folder: Path, start: Path, programs: Sequence[str] = (), **variables: str
    ) -> None:
        self.folder = folder / "typed"
        self.folder.mkdir()
        user = folder / "user"
        user.mkdir(exist_ok=True)
        self.start = start
        path = [*programs, *(each for each in os.environ["PATH"].split(":") if each != OURS)]
        self.shell = subprocess.Popen(
            ["bash", "--norc", "--noprofile", "-c", DRIVER],
            cwd=start,
            env={"HOME": str(user), "PATH": ":".join(path), **variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        self.port = str(lasting_port())
        self.jobs: list[tuple[str, Path, str]] = []
        """What was started with `&`, where its output goes, and what is shown of that."""
        self.typed = 0
        self._outputs: dict[str, Path] = {}

    def read(self, page: Path) -> None:
        """Enters every command of a page, top to bottom; each prints what is shown below it."""
        for session in sessions(page):
            for command, shown in steps(session):
                self.enter(command, shown)
        for command, out, shown in self.jobs:
            assert self._is(out.read_text(), shown), (command, out.read_text())
        self.jobs.clear()

    def enter(self, command: str, shown: str) -> None:
        """Has the shell carry out one command, and compares what it prints, unless it goes on."""
        command = re.sub(
            r"(tracklog (?:serve|demo))(?=.* &$)(?!.*--port)", r"\1 --port 4318", command
        )
        command = command.replace("4318", self.port).replace("make setup", "make -n setup")
        out = self._outputs[command] = self._type(command)
        if command.endswith(" &"):
            self.jobs.append((command, out, shown))
        else:
            assert self._is(out.read_text(), shown), (command, out.read_text())

    def printed(self, command: str) -> str:
        """What a command printed that was entered."""
        return self._outputs[command].read_text()

    def left_over(self) -> str:
        """What a page leaves behind in its shell: jobs, another folder, another home."""
        left = """jobs; [ "$PWD" = "%s" ] || pwd; env | grep -E '^(TRACKLOG|OTEL)_'"""
        return self._type(f"{left % self.start}; true").read_text()

    def _is(self, printed: str, shown: str) -> bool:
        pattern = re.escape(shown.replace("4318", self.port)).replace("…", ".*")
        return bool(re.fullmatch(pattern, printed, re.DOTALL))

    def _type(self, command: str) -> Path:
        """Has the shell carry it out; the file that holds what it prints."""
        self.typed += 1
        step = self.folder / str(self.typed)
        step.write_text(f"{command}\n")
        self.shell.stdin.write(f"{step}\n".encode())
        self.shell.stdin.flush()
        with selectors.DefaultSelector() as waiting:
            waiting.register(self.shell.stdout, selectors.EVENT_READ)
            ready = waiting.select(300)
        out = step.with_name(f"{step.name}.out")
        assert ready, (command, out.read_text())
        assert self.shell.stdout.readline() == b"done\n", (command, out.read_text())
        return out

    def close(self) -> None:
        """Ends the shell, and what a page that failed started in it."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.shell.pid, signal.SIGTERM)
        self.shell.stdin.close()
        self.shell.stdout.close()
        self.shell.wait(60)
