"""Docs fail the build: every command shown is run, every link leads somewhere, nothing is undocumented."""

import contextlib
import json
import os
import re
import selectors
import signal
import subprocess
import sys
import tomllib
from itertools import chain
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

import derive
import site_build as site
from support.collecting import collector, lasting_port
from tracklog.cli import tracklog as group
from tracklog.home import registry

ROOT = Path(__file__).parents[1]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    ROOT / "contracts/README.md",
]


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
    """Types the commands of pages into one shell, which begins in a clone and knows nothing else.

    Each command is entered once, as soon as the one before has ended, as if all were pasted:
    what a page starts with `&` is not waited for, unless the page itself does so.
    Two things are not as printed: a server gets a port of its own, and `make setup`, which was
    done before, only says what it would do.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "typed"
        self.folder.mkdir()
        user = folder / "user"
        user.mkdir()
        self.clone = clone(folder / "clone")
        ours = str(Path(sys.executable).parent)
        path = [each for each in os.environ["PATH"].split(":") if each != ours]
        self.shell = subprocess.Popen(
            ["bash", "--norc", "--noprofile", "-c", DRIVER],
            cwd=self.clone,
            env={"HOME": str(user), "PATH": ":".join(path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        self.port = str(lasting_port())
        self.jobs: list[tuple[str, Path, str]] = []
        """What was started with `&`, where its output goes, and what is shown of that."""
        self.typed = 0

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
        out = self._type(command)
        if command.endswith(" &"):
            self.jobs.append((command, out, shown))
        else:
            assert self._is(out.read_text(), shown), (command, out.read_text())

    def left_over(self) -> str:
        """What a page leaves behind in its shell: jobs, another folder, another home."""
        left = """jobs; [ "$PWD" = "%s" ] || pwd; env | grep -E '^(TRACKLOG|OTEL)_'"""
        return self._type(f"{left % self.clone}; true").read_text()

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


@pytest.fixture
def terminal(tmp_path):
    with contextlib.closing(Terminal(tmp_path)) as opened:
        yield opened


TRIED = [page for page in PAGES if sessions(page)]
READ = sorted(TRIED, key=lambda page: ("README.md", "tutorial.md", page.name).index(page.name))
"""As somebody reads them who reads all: the README first, then the tutorial."""


@pytest.mark.parametrize("page", TRIED, ids=lambda page: page.name)
def test_a_page_read_from_top_to_bottom_in_a_bare_shell_works_as_printed(page, terminal):
    terminal.read(page)
    assert terminal.left_over() == ""


@pytest.mark.long
def test_all_pages_read_one_after_the_other_in_one_shell_work_as_printed(terminal):
    assert [page.name for page in READ[:2]] == ["README.md", "tutorial.md"]
    for page in READ:
        terminal.read(page)
        assert terminal.left_over() == "", page.name


@pytest.mark.parametrize(
    ("leaves", "named"),
    [
        ("sleep 60 &", "sleep 60"),
        ("cd ..", "/"),
        ("export TRACKLOG_HOME=$PWD/home", "TRACKLOG_HOME"),
    ],
)
def test_what_a_page_leaves_behind_is_seen(tmp_path, terminal, leaves, named):
    page = tmp_path / "page.md"
    page.write_text(f"# A page\n\n```console\n$ {leaves}\n```\n")
    terminal.read(page)
    assert named in terminal.left_over()


@pytest.mark.parametrize(
    ("lacks", "why"),
    [
        ('cp "$CONTRACTS/kahn_agent_emit.py" .', "unbound variable"),
        ("tracklog --version", "command not found"),
        ("cp kahn_agent_emit.py copy.py", "cannot stat|No such file"),
    ],
)
def test_a_page_that_needs_what_it_does_not_print_fails(tmp_path, terminal, lacks, why):
    page = tmp_path / "page.md"
    page.write_text(f"# A page\n\n```console\n$ {lacks}\n```\n")
    with pytest.raises(AssertionError, match=why):
        terminal.read(page)


HTTP_AGENT = """
export class HttpAgent {
  abortController = new AbortController();
  constructor({ url, headers = {} }) { this.url = url; this.headers = headers; }
  async runAgent(_, { onMessagesChanged }) {
    const answer = await fetch(this.url, this.requestInit({}));
    for (const line of (await answer.text()).split("\\n"))
      if (line.includes('"MESSAGES_SNAPSHOT"'))
        onMessagesChanged({ messages: JSON.parse(line.slice("data: ".length)).messages });
  }
}
"""
"""As much of the client of AG-UI as its page names: it sends what `requestInit` returns."""


def test_the_sample_of_the_page_on_ag_ui_gets_the_messages_of_a_run(tmp_path):
    page = (ROOT / "docs/how-to/watch-in-an-ag-ui-front-end.md").read_text()
    sample = page.split("```js\n")[1].split("```")[0]
    lines = re.findall(r"^\{.*\}$", page, re.MULTILINE)[:3]
    client = tmp_path / "node_modules/@ag-ui/client"
    client.mkdir(parents=True)
    (client / "package.json").write_text('{"type": "module", "exports": "./index.js"}')
    (client / "index.js").write_text(HTTP_AGENT)
    node = subprocess.run([ROOT / "scripts/node"], capture_output=True, text=True, check=True)
    path = ":".join(filter(None, [node.stdout.strip(), os.environ["PATH"]]))
    with collector(tmp_path / "home") as server:
        assert server.post([each.encode() for each in lines]).json()["accepted"] == 3
        url = f'"http://127.0.0.1:{server.port}/api/export'
        (tmp_path / "sample.mjs").write_text(sample.replace('"/api/export', url))
        done = subprocess.run(
            ["node", "sample.mjs"],
            cwd=tmp_path,
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert "toolCalls" in done.stdout, done.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_of_a_page_is_in_a_session_that_is_run(page):
    assert not re.findall(r"^```(?:sh|bash|shell|zsh)$", page.read_text(), re.MULTILINE)


SET_BY_THE_SHELL = r"(?:LINES|COLUMNS|SECONDS|RANDOM|GROUPS|UID|EUID|PPID|HOSTNAME|REPLY|OPTARG)"
"""Variables that an interactive shell sets by itself, also after a page has set them."""


@pytest.mark.parametrize("page", TRIED, ids=lambda page: page.name)
def test_a_page_sets_no_variable_that_an_interactive_shell_sets(page):
    commands = [command for session in sessions(page) for command, _ in steps(session)]
    assert [each for each in commands if re.search(rf"\b{SET_BY_THE_SHELL}=", each)] == []


@pytest.mark.parametrize("page", TRIED, ids=lambda page: page.name)
def test_a_page_keeps_its_record_in_a_folder_that_can_be_thrown_away(page):
    """Nobody who follows a page writes into the record that is their own."""
    commands = [command for session in sessions(page) for command, _ in steps(session)]
    first = next(
        n
        for n, each in enumerate(commands)
        if re.search(r"\btracklog (?!demo|--version|.*--demo)|^python ", each)
    )
    assert "export TRACKLOG_HOME=$PWD/home" in commands[:first]
    assert 'cd "$(mktemp -d)"' in commands[:first]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def anchors(page: Path) -> set[str]:
    """The anchors of a page: its headings, as GitHub and the site write them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    plain = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title) for title in titles]
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in plain}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_to_a_section_leads_to_a_heading(page):
    for target, anchor in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", page.read_text()):
        there = page.parent / target if target else page
        assert anchor in anchors(there), f"{target}#{anchor}"


def test_the_site_has_every_page_of_the_docs_once_and_is_strict():
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text())

    def paths(entry) -> list[str]:
        if isinstance(entry, str):
            return [entry]
        inner = entry.values() if isinstance(entry, dict) else entry
        return [path for each in inner for path in paths(each)]

    docs = ROOT / "docs"
    pages = sorted(str(path.relative_to(docs)) for path in docs.rglob("*.md"))
    assert sorted(paths(settings["nav"])) == pages
    assert settings["strict"] is True
    assert settings["theme"]["font"] is False  # nothing is loaded from elsewhere


def test_what_a_page_of_the_site_loads_from_elsewhere_is_replaced_or_named(tmp_path):
    (tmp_path / "how-to").mkdir()
    page = tmp_path / "how-to" / "a.html"
    page.write_text(f'<script src="{site.SHIM}"></script><a href="https://example.org">x</a>')
    assert site.local(tmp_path) == []
    assert page.read_text().startswith(f'<script src="../{site.OWN}">')
    assert (ROOT / "docs" / site.OWN).exists()
    page.write_text(
        '<img src="https://example.org/x.png"><link rel=stylesheet href=//example.org/x>'
    )
    assert len(site.local(tmp_path)) == 2


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_file_named_in_a_page_is_there(page):
    for name in re.findall(
        r"`((?:src|tests|contracts|docs|bench|scripts|console)/[\w./-]+)`", page.read_text()
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


def test_every_page_can_be_reached_from_the_readme():
    seen: set[Path] = set()
    left = [ROOT / "README.md"]
    while left:
        page = left.pop()
        seen.add(page)
        for target in re.findall(r"\]\((?!https?:)([^)#]+\.md)[^)]*\)", page.read_text()):
            path = (page.parent / target).resolve()
            left += [path] if path not in seen else []
    assert set(PAGES) - seen == set()


def test_every_variable_of_the_environment_is_documented():
    page = (ROOT / "docs/reference/environment.md").read_text()
    sources = [*(ROOT / "src/tracklog").rglob("*.py"), *(ROOT / "contracts/source").glob("*.py")]
    texts = "\n".join(path.read_text() for path in sources)
    name = re.compile(r"\bTRACKLOG_[A-Z_]+\b")
    assert set(name.findall(page)) == set(name.findall(texts))


def test_every_finding_of_a_sample_is_documented():
    page = (ROOT / "docs/reference/dialects.md").read_text()
    samples = (ROOT / "tests/samples/dialects").glob("*/odd/*.jsonl")
    assert {f"| `{path.stem.rpartition('@')[2]}` |" for path in samples} <= set(
        re.findall(r"^\| `[a-z-]+` \|", page, re.MULTILINE)
    )


def test_every_runtime_dependency_has_its_line_in_the_readme():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    del extras["dev"]
    python = {
        re.match(r"[\w.-]+", each)[0] for each in chain(project["dependencies"], *extras.values())
    } - {"tracklog"}  # the extra `all` names the others
    node = {
        name
        for folder in ("console", "contracts/ts")
        for name in json.loads((ROOT / folder / "package.json").read_text())["dependencies"]
        if name != "@tracklog/contracts"  # our own
    }
    lines = (ROOT / "README.md").read_text().partition("## Dependencies")[2]
    assert {name for name in python | node if f"**{name}**" not in lines} == set()


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
