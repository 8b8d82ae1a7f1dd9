"""Docs fail the build: every command shown is run, every link leads somewhere, nothing is undocumented."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner

import derive
from tracklog import registry
from tracklog.cli import tracklog as group
from waiting import eventually

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


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


class Job(NamedTuple):
    command: str
    process: subprocess.Popen[bytes]
    out: Path
    shown: str


class Terminal:
    """Enters the commands of a page in one folder, as a reader would who types them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(folder),
            "TRACKLOG_HOME": str(folder / "home"),
            "COLUMNS": "100",
            "CONTRACTS": str(ROOT / "contracts"),
        }
        self.port = "0"  # any; the first that listens says which
        self.jobs: list[Job] = []

    def enter(self, command: str, shown: str) -> None:
        """Prints what is shown; beside a job, which takes its time, it may be entered again."""
        command = command.replace("tracklog serve &", "tracklog serve --port 4318 &")
        command = command.replace("4318", self.port)
        if command == "fg":
            said, shown = self._foreground(shown)
        elif command.endswith(" &"):
            said = self._background(command.removesuffix(" &"), shown)
        else:
            until = time.monotonic() + 60 * bool(self.jobs)
            while not self._is(said := self._run(command), shown) and time.monotonic() < until:
                time.sleep(0.1)
        assert self._is(said, shown), (command, said)

    def _is(self, said: str, shown: str) -> bool:
        pattern = re.escape(shown.replace("4318", self.port)).replace("…", ".*")
        return bool(re.fullmatch(pattern, said, re.DOTALL))

    def _run(self, command: str) -> str:
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=120,
            check=False,
        )
        return done.stdout.decode()

    def _background(self, command: str, shown: str) -> str:
        out = self.folder / f"job-{len(self.jobs)}.out"
        with out.open("wb") as file:
            process = subprocess.Popen(
                ["bash", "-c", f"exec {command}"],
                cwd=self.folder,
                env=self.environment,
                stdout=file,
                stderr=subprocess.DEVNULL,
            )
        self.jobs.append(Job(command, process, out, shown))
        eventually(lambda: "\n" in out.read_text() or process.poll() is not None)
        if self.port == "0":
            self.port = re.search(r"http://127\.0\.0\.1:(\d+)", out.read_text())[1]
        eventually(lambda: self._is(out.read_text(), shown) or process.poll() is not None)
        return out.read_text()

    def _foreground(self, shown: str) -> tuple[str, str]:
        """The last job, as a shell shows it: its command, then what it still says."""
        job = self.jobs.pop()
        job.process.wait(120)
        first, _, rest = shown.partition("\n")
        return f"{job.command}\n{job.out.read_text()}", f"{first}\n{job.shown}{rest}"

    def close(self) -> None:
        for job in self.jobs:
            job.process.terminate()
            job.process.wait(30)


@pytest.mark.parametrize(
    "page", [page for page in PAGES if sessions(page)], ids=lambda page: page.name
)
def test_every_command_shown_prints_what_is_shown(page, tmp_path):
    """The sessions of a page are run one after the other; a collector gets a port of its own."""
    terminal = Terminal(tmp_path)
    try:
        for session in sessions(page):
            for command, shown in steps(session):
                terminal.enter(command, shown)
    finally:
        terminal.close()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_file_named_in_a_page_is_there(page):
    for name in re.findall(
        r"`((?:src|tests|contracts|docs|bench|scripts)/[\w./-]+)`", page.read_text()
    ):
        assert (ROOT / name).exists(), name


def test_the_derived_files_are_as_derived():
    CliRunner().invoke(group, ["runs", "--help"])  # whoever asked a verb for help before
    assert derive.stale() == []


def test_every_verb_and_every_dialect_is_documented():
    cli = (ROOT / "docs/reference/cli.md").read_text()
    for verb in group.list_commands(None):
        assert f"\n## {verb}\n" in cli
    dialects = (ROOT / "docs/reference/dialects.md").read_text()
    readme = (ROOT / "README.md").read_text()
    for name in registry.dialect_names():
        assert f"\n## {name}\n" in dialects
        assert f"`{name}`" in readme


def test_every_runtime_dependency_has_its_line_in_the_readme():
    project = (ROOT / "pyproject.toml").read_text()
    block = re.search(r"^dependencies = \[(.*?)^\]", project, re.MULTILINE | re.DOTALL)
    readme = (ROOT / "README.md").read_text()
    for name in re.findall(r'"([a-z0-9_.-]+)', block[1]):
        assert f"**{name}**" in readme, name


@pytest.mark.requirement("WOP-99")
def test_the_changelog_names_the_agent_events():
    changes = (ROOT / "CHANGELOG.md").read_text()
    for name in (
        "AgentRef",
        *(
            f"agent.{verb}"
            for verb in ("reasoned", "toolCalled", "toolReturned", "handoff", "decided")
        ),
    ):
        assert f"`{name}`" in changes


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 160
