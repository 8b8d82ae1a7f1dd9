"""Docs fail the build: every command shown is run, every link leads somewhere, nothing is undocumented."""

import contextlib
import os
import re
import selectors
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

import derive
from support.waiting import eventually
from tracklog.cli import tracklog as group
from tracklog.home import registry

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


def clone(folder: Path) -> Path:
    """What a reader has after `git clone` and `make setup`: these files, and their environment."""
    folder.mkdir()
    for path in ROOT.iterdir():
        if path.name not in (".git", ".venv", "build", "dist"):
            (folder / path.name).symlink_to(path)
    (folder / ".venv").symlink_to(sys.prefix)
    return folder


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
    """Types the commands of a page into one shell, which begins in a clone and knows nothing else.

    Two things are not as printed: a server gets a port of its own, and `make setup`, which was
    done before, only says what it would do.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "typed"
        self.folder.mkdir()
        user = folder / "user"
        user.mkdir()
        ours = str(Path(sys.executable).parent)
        path = [each for each in os.environ["PATH"].split(":") if each != ours]
        self.shell = subprocess.Popen(
            ["bash", "--norc", "--noprofile", "-c", DRIVER],
            cwd=clone(folder / "clone"),
            env={"HOME": str(user), "PATH": ":".join(path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        self.port = "0"  # any; the first that listens says which
        self.started = False
        self.typed = 0

    def enter(self, command: str, shown: str) -> None:
        """Prints what is shown; beside a job, which takes its time, it may be entered again."""
        command = re.sub(
            r"(tracklog (?:serve|demo))(?=.* &$)(?!.*--port)", r"\1 --port 4318", command
        )
        command = command.replace("4318", self.port).replace("make setup", "make -n setup")
        if command.endswith(" &"):
            said = self._begin(command, shown)
        else:
            until = time.monotonic() + 60 * self.started
            while not self._is(said := self._type(command).read_text(), shown):
                if time.monotonic() > until:
                    break
                time.sleep(0.1)
        assert self._is(said, shown), (command, said)

    def _is(self, said: str, shown: str) -> bool:
        pattern = re.escape(shown.replace("4318", self.port)).replace("…", ".*")
        return bool(re.fullmatch(pattern, said, re.DOTALL))

    def _type(self, command: str) -> Path:
        """Has the shell carry it out; the file that holds what it prints."""
        self.typed += 1
        step = self.folder / str(self.typed)
        step.write_text(f"{command}\n")
        self.shell.stdin.write(f"{step}\n".encode())
        self.shell.stdin.flush()
        with selectors.DefaultSelector() as waiting:
            waiting.register(self.shell.stdout, selectors.EVENT_READ)
            ready = waiting.select(120)
        out = step.with_name(f"{step.name}.out")
        assert ready, (command, out.read_text())
        assert self.shell.stdout.readline() == b"done\n", (command, out.read_text())
        return out

    def _begin(self, command: str, shown: str) -> str:
        out = self._type(command)
        self.started = True
        if self.port == "0":
            listening = re.compile(r"http://127\.0\.0\.1:(\d+)")
            eventually(lambda: listening.search(out.read_text()))
            self.port = listening.search(out.read_text())[1]
        eventually(lambda: self._is(out.read_text(), shown))
        return out.read_text()

    def close(self) -> None:
        """Ends what the page started and left running; the shell waits for it."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.shell.pid, signal.SIGTERM)
        self.shell.stdin.close()
        self.shell.stdout.close()
        self.shell.wait(60)


def read_aloud(page: Path, folder: Path) -> None:
    """Enters every command of a page, top to bottom, in one shell."""
    terminal = Terminal(folder)
    try:
        for session in sessions(page):
            for command, shown in steps(session):
                terminal.enter(command, shown)
    finally:
        terminal.close()


@pytest.mark.parametrize(
    "page", [page for page in PAGES if sessions(page)], ids=lambda page: page.name
)
def test_a_page_read_from_top_to_bottom_in_a_bare_shell_works_as_printed(page, tmp_path):
    read_aloud(page, tmp_path)


@pytest.mark.parametrize(
    ("lacks", "why"),
    [
        ('cp "$CONTRACTS/kahn_agent_emit.py" .', "unbound variable"),
        ("tracklog --version", "command not found"),
        ("cp kahn_agent_emit.py copy.py", "cannot stat|No such file"),
    ],
)
def test_a_page_that_needs_what_it_does_not_print_fails(tmp_path, lacks, why):
    page = tmp_path / "page.md"
    page.write_text(f"# A page\n\n```console\n$ {lacks}\n```\n")
    with pytest.raises(AssertionError, match=why):
        read_aloud(page, tmp_path)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_of_a_page_is_in_a_session_that_is_run(page):
    assert not re.findall(r"^```(?:sh|bash|shell|zsh)$", page.read_text(), re.MULTILINE)


@pytest.mark.parametrize(
    "page", [page for page in PAGES if sessions(page)], ids=lambda page: page.name
)
def test_a_page_keeps_its_record_in_a_folder_that_can_be_thrown_away(page):
    """Nobody who follows a page writes into the record that is their own."""
    commands = [command for session in sessions(page) for command, _ in steps(session)]
    first = next(
        n
        for n, each in enumerate(commands)
        if re.search(r"\btracklog (?!demo|--version|.*--demo)", each)
    )
    assert "export TRACKLOG_HOME=$PWD/home" in commands[:first]
    assert 'cd "$(mktemp -d)"' in commands[:first]


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


def test_the_readme_says_what_it_is_for_and_how_to_install_it_before_it_names_a_dialect():
    readme = (ROOT / "README.md").read_text()
    names = [name for name in registry.dialect_names() if name != "tracklog"]
    first = min(readme.index(f"`{name}`") for name in names)
    assert readme.index("**For whom.**") < readme.index("## Install") < first
    assert readme.index("$ make setup") < first


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 160
