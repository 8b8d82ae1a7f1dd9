"""Docs fail the build: every command shown is run, every link leads somewhere, nothing is undocumented."""

import contextlib
import json
import os
import re
import subprocess
import tomllib
from itertools import chain
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

import derive
import site_build as site
from support.collecting import collector
from support.pages import OURS, ROOT, Terminal, clone, sessions, steps
from tracklog.cli import tracklog as group
from tracklog.home import registry

PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    ROOT / "contracts/README.md",
]


@pytest.fixture
def terminal(tmp_path):
    """A shell in a clone, after `make setup`."""
    with contextlib.closing(Terminal(tmp_path, clone(tmp_path / "clone"))) as opened:
        yield opened


@pytest.fixture
def installed(tmp_path):
    """A shell of somebody who has installed tracklog, and has no clone."""
    start = tmp_path / "start"
    start.mkdir()
    with contextlib.closing(Terminal(tmp_path, start, [OURS])) as opened:
        yield opened


FIRST = ROOT / "docs/first-steps.md"
"""It records what is on the machine of its reader; `test_newcomer.py` follows it."""
TRIED = [page for page in PAGES if sessions(page) and page != FIRST]
IN_A_CLONE = [page for page in TRIED if ". .venv/bin/activate" in page.read_text()]
READ = sorted(TRIED, key=lambda page: ("README.md", "tutorial.md", page.name).index(page.name))
"""As somebody reads them who reads all: the README first, then the tutorial."""


@pytest.mark.parametrize("page", TRIED, ids=lambda page: page.name)
def test_a_page_read_from_top_to_bottom_in_a_bare_shell_works_as_printed(page, request):
    shell = request.getfixturevalue("terminal" if page in IN_A_CLONE else "installed")
    shell.read(page)
    assert shell.left_over() == ""


def test_pages_for_users_need_no_clone():
    names = {page.name for page in IN_A_CLONE}
    developers = ("add-", "README", "CONTRIB")
    assert {name for name in names if not name.startswith(developers)} == set()


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
