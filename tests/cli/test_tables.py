"""What the answering verbs print: it fits the terminal, a pipe gets all of it, ids stay unambiguous."""

import contextlib
import os
import pty
import re
import subprocess
import termios
import unicodedata
import uuid

import click
import orjson
import pytest
from click.shell_completion import ShellComplete
from hypothesis import given
from hypothesis import strategies as st

from support import forking
from support import sampling as samples
from tracklog.answers.costs import CostRow
from tracklog.answers.runs import runs
from tracklog.cli import _home, _table
from tracklog.dialects import tracklog as native
from tracklog.home.home import Home
from tracklog.model.errors import NoSuchRun
from tracklog.model.fact import Answered, Asked, Began, Called, Linked, Returned, Said, Spent

LONG = "a-run-whose-name-is-longer-than-any-terminal-is-wide-and-then-some-more"
SLY = "\x1b[2J\x07\r\nfake\u202e"
VERBS = [
    ["runs"], ["show", "agent-coder-1"], ["tree"], ["agents"], ["tools"],
    ["audits", "--window", "all"], ["outcomes"], ["inbox"], ["leaderboard"], ["costs"],
    ["costs", "--by", "model"], ["search", "test"], ["findings"], ["why", "agent-coder-1", "{seq}"],
    ["diff", "agent-coder-1", "agent-coder-2"], ["top", "--once"], ["query", "SELECT * FROM runs"],
]  # fmt: skip  # a table


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    path = tmp_path_factory.mktemp("tables") / "home"
    with Home(path, durability="os") as opened:
        for sample in samples.of("good"):
            opened.intake.admit(samples.lines_of(sample), samples.dialect_of(sample))
        for run in (f"{LONG}-1", f"{LONG}-2", "日本語のラン名前はとても長いです", f"sly{SLY}"):
            hostile(opened, run)
        opened.index.catch_up()
    return path


def hostile(home, run):
    facts = [
        Began(what="run", task=f"test {SLY} {'日本' * 60}"),
        Said(role="assistant", blocks=({"type": "text", "text": f"test {SLY} {'x' * 300}"},)),
        Called(tool=f"tool{SLY}{'t' * 90}", call_id="c1", agent=f"agent{SLY}{'a' * 90}", input=SLY),
        Returned(call_id="c1", ok=False, error=SLY),
        Returned(call_id="c9", ok=True),
        Asked(question_id=f"q{SLY}", text=f"{SLY} {'?' * 200}", agent=f"agent{SLY}"),
        Answered(question_id=f"other{SLY}", answer=SLY),
        Spent(
            key="k", model=f"m{SLY}{'m' * 90}", cost_usd=1234567.891, usage={"input_tokens": 10**12}
        ),
        Linked(kind="sub-run", child=f"child{SLY}{'c' * 90}"),
        Linked(kind="handoff", from_=f"a{SLY}", to="b" * 200),
    ]
    lines = [
        native.line(
            fact,
            id=f"{run}-{n}",
            run=run,
            at="2026-05-05T09:00:00Z",
            origin={"writer": "test", "fidelity": "observed"},
        )
        for n, fact in enumerate(facts)
    ]
    assert all(verdict.seq for verdict in home.intake.admit(lines, "tracklog"))


def filled(verb, home):
    if "{seq}" not in verb:
        return verb
    with Home(home, readonly=True) as opened:
        first = next(opened.journal.records(run=("kahn", "agent-coder-1"))).seq
    return [part.format(seq=first + 1) for part in verb]


def environment(home, **more):
    kept = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    return {**kept, "TRACKLOG_HOME": str(home), **more}


EVERY = """
import sys, orjson
from tracklog.cli import tracklog
for verb in orjson.loads(sys.argv[1]):
    print("$", *verb, flush=True)
    try:
        tracklog.main(verb, prog_name="tracklog", standalone_mode=False)
    except SystemExit as stop:
        assert stop.code in (0, 1), stop.code
    sys.stdout.flush()
"""
"""All verbs in one process, whose terminal is the same for all."""


def told(home, verbs):
    return [EVERY, orjson.dumps([filled(verb, home) for verb in verbs]).decode()]


def by_verb(seen):
    parts = seen.split("$ ")[1:]
    return {part.partition("\n")[0].strip(): part.partition("\n")[2] for part in parts}


def on_terminal(columns, home, verbs):
    """What a terminal of that width gets to see of each verb."""
    master, slave = pty.openpty()
    termios.tcsetwinsize(slave, (24, columns))
    reader = forking.script(
        *told(home, verbs),
        stdin=subprocess.DEVNULL,
        stdout=slave,
        stderr=subprocess.PIPE,
        env=environment(home, TERM="xterm"),
    )
    os.close(slave)
    seen = b""
    with contextlib.suppress(OSError):  # the terminal's end is an error to its reader
        while block := os.read(master, 65536):
            seen += block
    os.close(master)
    error = reader.communicate(timeout=60)[1]
    assert reader.returncode == 0, error
    return by_verb(seen.decode().replace("\r\n", "\n"))


def piped(home, verbs, stderr=subprocess.PIPE):
    pipes = {"stdout": subprocess.PIPE, "stderr": stderr}
    reader = forking.script(*told(home, verbs), **pipes, env=environment(home))
    seen, error = reader.communicate(timeout=120)
    assert reader.returncode == 0, error
    return by_verb(seen.decode())


def width_of(line):
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in line
    )


@pytest.mark.parametrize("columns", [40, 60, 80, 200])
def test_no_line_is_too_long_and_no_control_character_is_printed(home, columns):
    seen = on_terminal(columns, home, VERBS)
    assert len(seen) == len(VERBS)
    for verb, shown in seen.items():
        lines = click.unstyle(shown).split("\n")
        assert len(lines) > 1, verb
        for line in lines:
            assert line.isprintable(), (verb, line)
            assert width_of(line) <= columns, (verb, line)


def test_a_pipe_gets_everything_in_full_and_nothing_is_obeyed(home):
    seen = piped(home, VERBS)
    for verb, shown in seen.items():
        assert shown.replace("\n", "").isprintable(), verb
    for verb in ("runs", "inbox", "findings", "tree", "costs"):
        assert f"{LONG}-1" in seen[verb], verb
    assert "m" * 90 in seen["costs --by model"]
    assert "?" * 200 in seen["inbox"]
    assert "t" * 90 in seen["tools"]


@pytest.mark.parametrize("columns", [30, 60, 80])
def test_what_is_shown_of_an_id_can_be_asked_for(home, columns):
    with Home(home, readonly=True) as opened:
        opened.index.catch_up()
        names = _home.names(opened)
        short = [row for row in runs(opened) if row.run.isascii() and len(row.run) < 40]
        column = names.column()
        texts = [[column.value(row), "x" * 300] for row in short]
        words = _table.Column("words", lambda row: row, cut=8)
        _, *lines = _table.lines(texts, [column, words], columns)
        for row, line in zip(short, lines, strict=True):
            assert opened.run(line.split("  ")[0]) == (row.family, row.run)


@given(st.sets(st.text("ab:-", min_size=1, max_size=12), min_size=1, max_size=12), st.data())
def test_a_shortened_name_means_one_run(tmp_path_factory, names, data):
    runs = {(data.draw(st.sampled_from(["f", "g"])), name) for name in names}
    keys = sorted(map(":".join, runs))
    called = _table.RunNames(
        lambda prefix, limit: [key for key in keys if key.startswith(prefix)][:limit], "fgh"
    )
    for family, run in runs:
        name = called.of(family, run)
        short = name[: called.least(name)]
        meant = {each for each in runs if short in (each[1], ":".join(each))}
        meant = meant or {
            each for each in runs if each[1].startswith(short) or ":".join(each).startswith(short)
        }
        assert (family, run) in meant
        if ":" not in "".join(names):
            assert meant == {(family, run)}


def test_two_families_that_share_a_run_are_distinguished(tmp_path):
    line = b'{"ts":"2026-05-05T09:00:00.000Z","run_id":"shared-run","event":"agent_run_start","agent_id":"a","task":"x"}'
    origin = {"writer": "test", "fidelity": "observed"}
    native_line = native.line(Began(what="run"), id="1", run="shared-run", origin=origin)
    with Home(tmp_path / "home", durability="os") as home:
        home.intake.admit([line], "kahn-agent")
        home.intake.admit([native_line], "tracklog")
        assert home.run("kahn:shared") == ("kahn", "shared-run")
        with pytest.raises(NoSuchRun):
            home.run("shared-run")
    shown = piped(tmp_path / "home", [["runs"]])["runs"]
    assert "kahn:shared-run" in shown
    assert "tracklog:shared-run" in shown


@pytest.mark.parametrize(
    ("seconds", "word"),
    [(0, "now"), (42, "42s ago"), (180, "3m ago"), (18000, "5h ago"), (10**6, "12d ago")],
)
def test_times_are_printed_for_people(seconds, word):
    assert _table.ago(seconds) == word


@pytest.mark.parametrize(
    ("dollars", "told"),
    [(None, "-"), (0, "$0.00"), (1234.5, "$1,234.50"), (0.005, "$0.01"), (0.0032, "$0.0032"),
     (0.000039, "$0.000039"), (0.00001, "$0.000010")],
)  # fmt: skip  # a table
def test_money_is_printed_without_exponents(dollars, told):
    assert _table.money(dollars) == told


@pytest.mark.parametrize(
    ("row", "shown"),
    [
        ({"cost_usd": 0.1, "computed_usd": None}, "$0.10"),
        ({"cost_usd": None, "computed_usd": 0.00045}, "~$0.00045"),
        ({"cost_usd": 0.1, "computed_usd": 9.71, "lower_bound": True}, "≥~$9.81"),
        ({"cost_usd": 2.0, "computed_usd": None, "upper_bound": True}, "≤$2.00"),
        ({"cost_usd": None, "computed_usd": None, "lower_bound": True}, "-"),
    ],
)
def test_money_has_one_format_with_a_mark_for_what_was_computed_and_for_a_bound(row, shown):
    known = dict.fromkeys(CostRow.__dataclass_fields__) | row
    assert _table.cost(CostRow(**known)) == shown


def test_every_verb_prints_money_in_that_format(home):
    verbs = [["runs"], ["costs"], ["show", f"{LONG}-1"], ["top", "--once"]]
    verbs += [["story", f"{LONG}-1", "--all"], ["events", f"{LONG}-1"]]
    verbs += [["diff", f"{LONG}-1", "agent-coder-1"]]
    for verb, shown in piped(home, verbs).items():
        assert "$1,234,567.89" in shown, verb
        assert not re.search(r"(?<!\$)1,?234,?567", shown), verb


@pytest.mark.parametrize("verb", ["runs", "costs"])
def test_the_help_of_verbs_with_money_explains_its_marks(verb):
    shown = " ".join(forking.tracklog(None, verb, "--help").stdout.decode().split())
    for words in ("~$0.10 computed from list prices", "≥$0.10 this or more"):
        assert words in shown


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_whatever_a_table_cuts_ends_with_an_ellipsis(tmp_path, columns):
    origin = {"writer": "test", "fidelity": "observed"}
    runs = {str(uuid.UUID(int=n * 10**37)) for n in range(1, 9)}
    said = {"agent": "an-agent-of-some-length", "text": f"test {'word ' * 40}"}
    lines = [
        native.line(fact, id=f"{run}-{n}", run=run, at="2026-05-05T09:00:00Z", origin=origin)
        for run in runs
        for n, fact in enumerate(
            [
                Began(what="run", task=said["text"], agent=said["agent"]),
                Returned(call_id="c9", ok=True),
                Spent(key=run, cost_usd=1.5, usage={"input_tokens": 10}),
            ]
        )
    ]
    with Home(tmp_path / "home", durability="os") as home:
        home.intake.admit(lines, "tracklog")
    verbs = [["runs"], ["costs"], ["findings"], ["search", "test"], ["top", "--once"]]
    for verb, shown in on_terminal(columns, tmp_path / "home", verbs).items():
        ids = re.findall(r"(?<![0-9a-f-])[0-9a-f]{6,8}(?:-[0-9a-f]*)*\S?", click.unstyle(shown))
        assert len(ids) >= len(runs) or verb == "findings", shown  # it may leave the column out
        assert all(each.strip() in runs or each.endswith("…") for each in ids), (verb, ids)


def test_wide_shows_on_a_terminal_what_a_pipe_gets(home):
    verbs = [["runs", "--wide"], ["inbox", "--wide"], ["findings", "--wide"], ["costs", "--wide"]]
    seen = on_terminal(60, home, verbs)
    for verb in verbs:
        shown = click.unstyle(seen[" ".join(verb)])
        assert f"{LONG}-1" in shown, verb
        assert f"{LONG}-1…" not in shown, verb


def test_a_shortened_id_can_be_pasted_with_its_ellipsis(home):
    with Home(home, readonly=True) as opened:
        assert opened.run(f"{LONG}-1") == opened.run(f"tracklog:{LONG}-1…")
        assert opened.run("agent-coder-1…")[1] == "agent-coder-1"
        with pytest.raises(NoSuchRun):
            opened.run("nobody…")


def test_records_in_a_pipe_have_the_complete_id_of_their_run(home):
    seen = piped(home, [["tail", "--run", f"{LONG}-1"], ["events", f"{LONG}-1"]])
    for verb, shown in seen.items():
        assert f"  {LONG}-1  " in shown, verb


@pytest.mark.parametrize("columns", [40, 80, 120])
def test_the_inbox_wraps_a_long_question_and_loses_no_word_of_it(tmp_path, columns):
    question = " ".join(f"word{n}" for n in range(60))
    asks = Asked(question_id="3f1c1f2e-9a5b-4c7d-8e21-0a1b2c3d4e5f", text=question)
    line = native.line(asks, id="1", run="r1", origin={"writer": "test", "fidelity": "observed"})
    with Home(tmp_path / "home", durability="os") as home:
        home.intake.admit([line], "tracklog")
    shown = click.unstyle(on_terminal(columns, tmp_path / "home", [["inbox"]])["inbox"])
    assert asks.question_id in shown or columns == 40  # where there is no room for it at all
    assert "…" not in shown or columns == 40
    assert [word for word in shown.split() if word.startswith("word")] == question.split()
    assert all(width_of(line) <= columns for line in shown.splitlines())


def test_the_tree_draws_siblings_and_leaves_out_runs_without_any(tmp_path):
    origin = {"writer": "test", "fidelity": "observed"}
    links = [("a", "b"), ("a", "c"), ("b", "d"), ("b", "e"), ("c", "f")]
    facts = [(run, Began(what="run")) for run in ("a", "b", "c", "d", "e", "f", "alone")]
    facts += [(parent, Linked(kind="sub-run", child=child)) for parent, child in links]
    lines = [
        native.line(fact, id=str(n), run=run, at="2026-05-05T09:00:00Z", origin=origin)
        for n, (run, fact) in enumerate(facts)
    ]
    with Home(tmp_path / "home", durability="os") as home:
        home.intake.admit(lines, "tracklog")
    verbs = [["tree"], ["tree", "--all"], ["tree", "alone"], ["tree", "--json"]]
    seen = piped(tmp_path / "home", verbs)
    drawn = [
        line.partition("  work")[0].partition("  lost")[0] for line in seen["tree"].splitlines()
    ]
    assert drawn == ["a", "├─ b", "│  ├─ d", "│  └─ e", "└─ c", "   └─ f"]
    assert "alone" in seen["tree --all"]
    assert seen["tree alone"].startswith("alone")
    assert len(seen["tree --json"].splitlines()) == 7


def test_runs_are_listed_by_the_time_of_their_events_not_of_their_import(tmp_path):
    origin = {"writer": "test", "fidelity": "reconstructed"}
    days = {"old": "2026-05-01", "newest": "2026-05-03", "middle": "2026-05-02"}
    for order in (["newest", "old", "middle"], ["old", "middle", "newest"]):
        path = tmp_path / "-".join(order)
        with Home(path, durability="os") as home:
            for run in order:
                said = Said(role="user", blocks=({"type": "text", "text": "x"},))
                at = f"{days[run]}T09:00:00Z"
                home.intake.admit([native.line(said, id=run, run=run, at=at, origin=origin)])
        seen = piped(path, [["runs", "--json"], ["runs", "--json", "--limit", "1"]])
        rows = [orjson.loads(line)["run"] for line in seen["runs --json"].splitlines()]
        assert rows == ["newest", "middle", "old"]
        assert orjson.loads(seen["runs --json --limit 1"])["run"] == "newest"


def test_times_are_exact_in_json(home):
    row = orjson.loads(piped(home, [["runs", "--json"]])["runs --json"].splitlines()[0])
    assert row["last_received"].endswith("Z")
    assert isinstance(row["silent_seconds"], float)


def test_an_empty_answer_says_so_in_words(tmp_path):
    with Home(tmp_path / "home"):
        pass
    empty = [verb for verb in VERBS if verb[0] not in ("show", "why", "diff")]
    for verb, shown in piped(tmp_path / "home", empty, subprocess.STDOUT).items():
        assert shown.strip(), verb


def test_a_shell_completes_the_names_of_runs(home):
    for verb in ("show", "diff agent-coder-1", "export html"):
        env = environment(
            home,
            _TRACKLOG_COMPLETE="bash_complete",
            COMP_WORDS=f"tracklog {verb} agent-cod",
            COMP_CWORD=str(len(verb.split()) + 1),
        )
        done = forking.tracklog(None, env=env)
        found = {line.partition(",")[2] for line in done.stdout.decode().splitlines()}
        assert found == {"agent-coder-1", "agent-coder-2"}


@pytest.mark.parametrize(
    ("said", "begun", "offered"),
    [
        (["check", "--dialect"], "kahn-", ["kahn-agent", "kahn-ci"]),
        (["convert", "x", "--to"], "fish", ["fishbowl"]),
        (["import", "--from"], "clau", ["claude"]),
        (["export"], "at", ["atif"]),
        (["schema"], "gra", ["graph"]),
    ],
)
def test_a_shell_completes_the_names_of_plugs(said, begun, offered):
    from tracklog.cli import tracklog as group  # noqa: PLC0415  # reads every verb

    found = ShellComplete(group, {}, "tracklog", "_TRACKLOG_COMPLETE").get_completions(said, begun)
    assert [each.value for each in found] == offered


def test_every_verb_that_answers_takes_json():
    from tracklog.cli import tracklog as group  # noqa: PLC0415  # reads every verb

    for name in {verb[0] for verb in VERBS}:
        options = [each for each in group.get_command(None, name).params if "--json" in each.opts]
        assert options, name
