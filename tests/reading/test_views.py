"""Every view of a run agrees on its calls, failures, tokens, cost, status, first and last time.

The views are listed in `support.views`: a view that is added to the product is added there. The
journals come from `support.journals`.
"""

import tempfile
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from itertools import permutations
from pathlib import Path

import orjson
import pytest
from hypothesis import Phase, given, settings

from support import sampling
from support.asking import ask
from support.collecting import collector
from support.forking import tracklog as forked
from support.journals import FILES, SOURCES, imported, journals, line, made, said
from support.views import (
    EXPORTS,
    LOG,
    NOT_ANSWERS,
    OTHER_ROUTES,
    QUESTIONS,
    SERVED,
    SUMMARY,
    TOTALS,
    VIEWS,
    Look,
    differences_served,
    disagreements,
    runs,
    shown,
    summary,
    unlisted,
)
from tracklog import Log
from tracklog.answers import Question
from tracklog.answers.registry import question, question_names, questions
from tracklog.collector.routes import ROUTES
from tracklog.dialects import tracklog as native
from tracklog.formats import registry as formats
from tracklog.formats.convert import convert as convert_to
from tracklog.formats.export import export, export_run_of
from tracklog.formats.importing import Importing
from tracklog.home import registry
from tracklog.home.home import Home
from tracklog.model.fact import Began, Called, Ended, Linked, Returned, Said, Spent

SAMPLES = Path(__file__).parents[1] / "samples"


@settings(max_examples=20, deadline=None)
@given(journals())
def test_every_view_of_a_run_agrees(journal):
    with tempfile.TemporaryDirectory() as folder, made(folder, journal) as home:
        assert disagreements(home) == []


def test_calls_that_turn_out_to_be_one_are_one_in_every_view():
    facts = [
        {"fact": "Called", "tool": "Read", "call_id": "c2", "provider_call_id": "c2"},
        {"fact": "Called", "tool": "Bash", "call_id": "c3"},
        {"fact": "Called", "tool": "Bash", "call_id": "c3", "provider_call_id": "c2"},
        {"fact": "Returned", "call_id": "c2", "ok": False},
    ]
    origin = {"writer": "live", "fidelity": "observed"}
    lines = [
        orjson.dumps({"id": str(n), "run": "one", **fact, "origin": origin})
        for n, fact in enumerate(facts)
    ]
    with (
        tempfile.TemporaryDirectory() as folder,
        made(folder, [("line", line) for line in lines]) as home,
    ):
        assert disagreements(home) == []


@settings(max_examples=4, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(journals())
def test_every_view_over_http_agrees(journal):
    with tempfile.TemporaryDirectory() as folder:
        made(folder, journal).close()
        with Home(folder, readonly=True) as home, collector(Path(folder)) as served:
            assert differences_served(home, served.http) == []


@pytest.mark.parametrize("order", [1, -1])
def test_every_view_agrees_on_a_call_that_gets_a_second_name_after_it_has_ended(tmp_path, order):
    """One run, sent twice by programs that count anew: the second names the provider's id too."""
    samples = [SAMPLES / "dialects" / "awf" / "good" / f"{name}.jsonl"
               for name in ("a-whole-run", "both-seams-tell-one-call")]  # fmt: skip  # one list
    with made(tmp_path / "home", [("sample", path) for path in samples[::order]]) as home:
        assert disagreements(home) == []


def test_every_view_is_listed():
    """What shows numbers of runs stands in the list of views, and what is new shows none."""
    for each in questions():
        assert unlisted(each) == set(), f"{each.name}: compare it, or name it in OTHER_NUMBERS"
    assert {*QUESTIONS, *TOTALS} <= set(question_names())
    assert set(EXPORTS) <= set(formats.exporter_names())
    assert {name for name in vars(Log) if name[0] != "_"} == NOT_ANSWERS | {
        name.partition("(")[0] for name in LOG
    }
    routes = {each.path for each in ROUTES if each.method == "GET" or "convert" in each.path}
    without = {path for name in question_names() for path in question(name).routes} - {
        path for name in QUESTIONS for path in question(name).routes
    }
    assert routes == {path.partition("?")[0] for path in SERVED} | without | OTHER_ROUTES.keys()


@dataclass(frozen=True)
class OtherRow:
    run: str
    total_of_calls: int


def test_a_number_of_a_run_under_another_name_is_not_overlooked():
    def other(_home: Home) -> list[OtherRow]:
        return []

    made = Question(name="other", about="Count the calls.", ask=other)
    assert unlisted(made) == {"OtherRow"}


STREAMS = [path for path in FILES if path.suffix == ".jsonl"]


@pytest.mark.parametrize("path", STREAMS, ids=lambda path: f"{path.parent.name}/{path.stem[:30]}")
@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
def test_a_file_that_was_imported_unfinished_shows_each_message_once(tmp_path, path, share):
    with made(tmp_path / "grown", [("grow", (path, share))]) as home:
        grown = messages_of(home)
    with made(tmp_path / "complete", [("grow", (path, 0.0))]) as home:
        assert grown == messages_of(home)


@pytest.mark.parametrize("path", STREAMS, ids=lambda path: f"{path.parent.name}/{path.stem[:30]}")
def test_a_file_that_was_imported_while_its_last_event_was_written_shows_each_message_once(
    tmp_path, path
):
    """Again and again, with another event cut in two each time."""
    content = path.read_bytes()
    last = content.rstrip().rfind(b"\n") + 1
    ends = [len(content) * part // 10 for part in (3, 5, 8)]
    ends += [(last + len(content)) // 2, len(content.rstrip()) - 1, len(content)]
    copy = tmp_path / path.name
    with Home(tmp_path / "grown", durability="os") as home:
        for end in ends:
            copy.write_bytes(content[:end])
            Importing(home).bring([copy])
        grown = messages_of(home)
    with Home(tmp_path / "complete", durability="os") as home:
        Importing(home).bring([copy])
        assert grown == messages_of(home)


def test_what_replaced_a_spend_at_the_end_of_a_file_replaces_it_in_an_export_too(tmp_path):
    """The file ends with the usage of a step; later it has the end of that step, with it."""
    [path] = [each for each in FILES if each.name == "wire_1_5.jsonl"]
    content = path.read_bytes()
    last = content.rindex(b'"type":"usage.record"')
    share = (content.index(b"\n", last) + 1.5) / len(content)
    views = {name: VIEWS[name] for name in ("export cloudevents", "export jsonl")}
    with made(tmp_path / "grown", [("grow", (path, share))]) as home:
        assert any(b'"label":"completed"' in each.line for each in home.journal.records())
        assert disagreements(home, views) == []


def messages_of(home):
    """By run, how often its story shows each message."""
    messages = {
        key: Counter(
            orjson.dumps([fact["role"], fact.get("blocks")])
            for fact in shown(ask(home, "story", run=key, limit=100_000)["records"])
            if fact["fact"] == "Said"
        )
        for key in Look(home).keys
    }
    return {key: counts for key, counts in messages.items() if counts}


def test_a_run_of_which_no_tree_state_is_stored_stands_in_its_own_tree(tmp_path):
    """Another family has a run with the same id, which must not be shown in its place."""
    call = Called(tool="Read", call_id="c1")
    with Home(tmp_path, durability="os") as home:
        lines = [line("one", 1, call), line("one", 2, Began(what="run"), family="awf")]
        lines += [line("one", 3, Spent(key="m1", cost_usd=0.25), family="awf")]
        child = Linked(kind="sub-run", child="one")
        home.intake.admit([*lines, line("above", 4, child)], "tracklog")
        assert disagreements(home) == []
        assert ask(home, "show", run="tracklog:one")["cost_with_sub_runs"] is None
        for root in ("tracklog:above", "tracklog:one"):
            keys = [row["key"] for row in ask(home, "tree", run=root, around=True)]
            assert keys == ["tracklog:above", "tracklog:one"]
        assert [(row["key"], row["depth"]) for row in ask(home, "tree")] == [
            ("awf:one", 0), ("tracklog:above", 0), ("tracklog:one", 1),
        ]  # fmt: skip  # one row
        below = export_run_of(home, ("tracklog", "above")).below
        assert [(each.family, each.id) for each in below] == [("tracklog", "one")]


ONE = Linked(kind="alias", system="claude", alias="one conversation")


@pytest.mark.parametrize("first", ["alpha", "twin"])
@pytest.mark.parametrize("more", [None, "alpha", "twin"])
@pytest.mark.parametrize(
    "usage", [{"input_tokens": 0, "output_tokens": 0}, {"output_tokens": 3}, {}]
)
def test_a_spend_of_two_runs_of_one_conversation_costs_what_either_says(
    tmp_path, first, more, usage
):
    """Whichever of them is counted, and whichever of them reports a cost."""
    family = {"alpha": None, "twin": "awf"}
    plain, priced = Spent(key="m1", usage=usage), Spent(key="m1", usage=usage, cost_usd=0.25)
    second = "twin" if first == "alpha" else "alpha"
    with Home(tmp_path, durability="os") as home:
        lines = [line(run, 1, ONE, family=family[run]) for run in (first, second)]
        lines += [line(first, 2, plain, family=family[first])]
        lines += [line(second, 3, priced, family=family[second])]
        if more:
            other = Spent(key="m2", usage={"output_tokens": 9}, cost_usd=0.5)
            lines += [line(more, 4, other, family=family[more])]
        home.intake.admit(lines, "tracklog")
        assert disagreements(home) == []
        [total] = ask(Look(home).home, "costs", by="all")
        assert total["cost_usd"] == (0.75 if more else 0.25)
        assert total["spends"] == (2 if more else 1)


@pytest.mark.parametrize("more", ["live", "importer"])
def test_a_run_that_two_writers_record_costs_the_same_after_an_export(tmp_path, more):
    """As of an agent's hooks and its log file: the one that reports more counts."""
    spends = [("live", "a", 5), ("importer", "b", 6), (more, "c", 3)]
    with Home(tmp_path, durability="os") as home:
        lines = [
            line("r", n, Spent(key=key, usage={"output_tokens": out}), mapping=mapping, clock=n)
            for n, (writer, key, out) in enumerate(spends, 1)
            for mapping in (["1"] if writer == "importer" else [None])
        ]
        home.intake.admit(lines, "tracklog")
        assert disagreements(home) == []
        [row] = ask(home, "costs", by="all")
        assert row["output_tokens"] == {"live": 8, "importer": 9}[more]
        assert b"spent-again" in b"".join(export(export_run_of(home, ("tracklog", "r")), "agui"))


@pytest.mark.parametrize("sample", sampling.of("good"), ids=sampling.name_of)
def test_every_view_of_a_sample_agrees(tmp_path, sample):
    with made(tmp_path, [("sample", sample)]) as home:
        assert disagreements(home) == []


# Sources that are read more than once


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: f"{path.parent.name}/{path.stem[:30]}")
def test_a_source_counts_once_however_many_mappings_read_it(tmp_path, path):
    with Home(tmp_path / "once", durability="os") as home:
        imported(home, path, "1")
        look = Look(home)
        once = {key: runs(look, ":".join(key)) for key in home.runs()}
        first = {key: len(convert(look, ":".join(key))) for key in home.runs()}
    with Home(tmp_path / "twice", durability="os") as home:
        imported(home, path, "1")
        again = imported(home, path, "2")
        assert again.lines["accepted"]
        assert disagreements(home) == []
        look = Look(home)
        assert {key: runs(look, ":".join(key)) for key in home.runs()} == once
        assert {key: len(convert(look, ":".join(key))) for key in home.runs()} == first


def convert(look, key):
    records = look.home.journal.records(run=look.run(key))
    dialect = registry.dialect("awf")
    return list(convert_to(records, look.home.dialects, dialect, carry=False))


def test_an_export_of_two_mappings_has_each_call_once(tmp_path):
    path = SAMPLES / "importers/claude/real_full_session.jsonl"
    with Home(tmp_path, durability="os") as home:
        imported(home, path, "1")
        [run] = home.runs()
        before = orjson.loads(b"".join(export(export_run_of(Look(home).home, run), "atif")))
        imported(home, path, "2")
        after = orjson.loads(b"".join(export(export_run_of(Look(home).home, run), "atif")))
        assert after["final_metrics"] == before["final_metrics"]
        assert len(after["steps"]) == len(before["steps"])
        events = orjson.loads(b"".join(export(export_run_of(home, run), "cloudevents")))
        old = [event for event in events if event["data"]["origin"].get("mapping") == "1"]
        new = [event for event in events if event["data"]["origin"].get("mapping") == "2"]
        assert all(event.get("tracklogsuperseded") is True for event in old)
        assert not any("tracklogsuperseded" in event for event in new)


def test_a_newer_mapping_counts_though_only_it_knows_the_key_of_a_record(tmp_path):
    raw = sha256(b"a record").hexdigest()
    old = {"writer": "w", "fidelity": "reconstructed", "mapping": "1", "path": "/f", "raw": raw}
    fact = Called(tool="Read", call_id="a")
    with Home(tmp_path, durability="os") as home:
        for n, origin in enumerate([old, old | {"mapping": "2", "record": "key"}]):
            fact = Called(tool="Read", call_id=f"call-{n}")
            home.intake.admit([native.line(fact, id=f"id-{n}", run="r", origin=origin)], "tracklog")
        assert runs(Look(home), "tracklog:r")["calls"] == 1


# Files at rest


def tracklog(home, verb, *arguments, code=0):
    """What a verb prints, in a process of its own."""
    done = forked(home, verb, *arguments)
    assert done.returncode == code, done.stderr
    return done.stdout.decode()


def listed(text):
    return [orjson.loads(row) for row in text.splitlines()]


OTLP = {
    "resourceSpans": [
        {
            "resource": {"attributes": []},
            "scopeSpans": [
                {
                    "spans": [
                        {
                            "traceId": "5b8efff798038103d269b633813fc60c",
                            "spanId": "eee19b7ec3c1b174",
                            "parentSpanId": "eee19b7ec3c1b173",
                            "name": "chat gpt-5",
                            "startTimeUnixNano": "1234567890000000000",
                            "endTimeUnixNano": "1234567891000000000",
                            "attributes": [
                                {
                                    "key": "gen_ai.operation.name",
                                    "value": {"stringValue": "chat"},
                                }
                            ],
                        }
                    ]
                }
            ],
        }
    ]
}


def test_a_file_without_a_recent_clock_does_not_look_alive(tmp_path):
    """Written a moment ago, and received just now: neither says when it happened."""
    files = tmp_path / "files"
    files.mkdir()
    (files / "trace.json").write_bytes(orjson.dumps(OTLP))
    for name in ("openai", "anthropic", "agui", "atif"):
        for sample in (SAMPLES / "importers" / name).iterdir():
            (files / f"{name}-{sample.name}").write_bytes(sample.read_bytes())
    codex = SAMPLES / "importers/codex/exec_json_stream.jsonl"
    (files / codex.name).write_bytes(codex.read_bytes())
    home = tmp_path / "home"
    tracklog(home, "import", files)
    rows = listed(tracklog(home, "runs", "--json"))
    assert len(rows) >= 7
    assert [row["run"] for row in rows if row["status"] in ("working", "waiting")] == []
    for row in rows:
        if row["silent_seconds"] is not None:
            assert row["silent_seconds"] > 86_400
        assert row["seconds"] is None or row["seconds"] < 86_400
    [trace] = [row for row in rows if (row["first_at"] or "").startswith("2009")]
    assert trace["last_activity"].startswith("2009")
    assert "working" not in tracklog(home, "top", "--once")


def span(id, name, begin, end, **attributes):
    """A span below one root; its attributes are texts."""
    told = {f"gen_ai.{key.replace('__', '.')}": value for key, value in attributes.items()}
    return {
        "traceId": "5b8efff798038103d269b633813fc6aa",
        "spanId": id * 16,
        "parentSpanId": "f" * 16,
        "name": name,
        "startTimeUnixNano": str(1_700_000_000_000_000_000 + begin * 10**9),
        "endTimeUnixNano": str(1_700_000_000_000_000_000 + end * 10**9),
        "attributes": [{"key": k, "value": {"stringValue": v}} for k, v in told.items()],
    }


def message(role, text):
    return orjson.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}]).decode()


CHAT = {"operation__name": "chat", "request__model": "gpt-5"}
TOOL = {"operation__name": "execute_tool", "tool__name": "read", "tool__call__id": "c1"}
SPANS = [
    span("a", "chat", 1, 2, **CHAT, input__messages=message("user", "What is it?")),
    span("b", "execute_tool read", 2, 3, **TOOL, tool__call__result="x"),
    span("c", "chat", 3, 4, **CHAT, output__messages=message("assistant", "It is x.")),
]


@pytest.mark.parametrize("order", list(permutations(range(3))), ids=repr)
def test_a_trace_whose_last_turn_was_answered_is_done_in_any_order_of_arrival(tmp_path, order):
    spans = [SPANS[n] for n in order]
    told = {"resourceSpans": [{"resource": {}, "scopeSpans": [{"spans": spans}]}]}
    (tmp_path / "trace.json").write_bytes(orjson.dumps(told))
    with Home(tmp_path / "home", durability="os") as home:
        Importing(home).bring([tmp_path / "trace.json"])
        assert disagreements(home) == []
        [run] = home.runs()
        assert runs(Look(home), ":".join(run))["status"] == "done"


def test_a_file_without_a_clock_that_is_followed_is_alive_while_it_is_written(tmp_path):
    path = tmp_path / "exec.jsonl"
    sample = (SAMPLES / "importers/codex/exec_json_stream.jsonl").read_bytes()
    path.write_bytes(b"".join(sample.splitlines(keepends=True)[:3]))
    with Home(tmp_path / "home", durability="os") as home:
        Importing(home).bring([path], final=False)
        look = Look(home)
        [run] = home.runs()
        assert runs(look, ":".join(run))["status"] == "working"


# The list of runs in the console


def test_the_board_says_the_same_as_the_command_line_of_imported_sessions(tmp_path):
    home = tmp_path / "home"
    tracklog(home, "import", SAMPLES / "importers")
    rows = listed(tracklog(home, "runs", "--json", "--limit", "100"))
    with collector(home) as served:
        board = {row["run"]: row for row in served.http.get("/api/board").json()["runs"]}
        api = {row["run"]: row for row in served.http.get("/api/runs?limit=100").json()}
        lately = served.http.get("/api/board?within=7d").json()
        for row in rows:
            there, same = board[row["run"]], api[row["run"]]
            for name in ("cost_usd", "computed_usd", "lower_bound", "last_activity", "model",
                         "project", "branch", *SUMMARY.values()):  # fmt: skip
                assert there.get(name) == row[name] == same[name], (row["run"], name)
            shown = served.http.get(f"/api/runs/{row['family']}/{row['run']}").json()
            assert summary(shown) == summary(row)
    begin = (
        datetime.now(UTC) - timedelta(days=7)
    ).isoformat()  # by the times of the events, not of the import
    expected = [row["run"] for row in rows if (row["last_activity"] or "") >= begin]
    assert sorted(row["run"] for row in lately["runs"]) == sorted(expected)
    assert len(expected) < len(rows)
    real = next(row for row in rows if row["title"] == "Hey")
    assert real["computed_usd"] is not None
    assert (real["model"], bool(real["project"]), bool(real["branch"])) == (
        real["model"], True, True,
    )  # fmt: skip
    assert real["model"].startswith("claude-")
    assert real["last_activity"].startswith("2025-10")


# Stories


def test_a_cancelled_call_failed_in_no_view(tmp_path):
    cancelled = Returned(
        call_id="a", tool="shell", ok=None, status="cancelled", error="by the user"
    )
    with Home(tmp_path, durability="os") as home:
        lines = [line("r", 1, Called(tool="shell", call_id="a"), mapping="1", clock=1)]
        lines += [line("r", 3, cancelled, mapping="1", clock=2)]
        home.intake.admit(lines, "tracklog")
        assert disagreements(home) == []
        assert runs(Look(home), "tracklog:r")["failures"] == 0
    told = tracklog(tmp_path, "story", "r")
    assert "failed" not in told
    assert "shell cancelled: by the user" in told


def test_a_story_prints_a_call_once_and_marks_what_was_only_thought(tmp_path):
    observed = Called(tool="shell", call_id="host-1", provider_call_id="toolu_1")
    blocks = ({"type": "thinking", "thinking": "I wonder"}, {"type": "text", "text": "I look"})
    with Home(tmp_path, durability="os") as home:
        lines = [line("r", 1, Said(role="assistant", blocks=blocks), clock=1)]
        lines += [line("r", 2, Called(tool="shell", call_id="toolu_1"), mapping="1", clock=1)]
        lines += [line("r", 3, observed, clock=1)]
        lines += [line("r", 4, Returned(call_id="host-1", tool="shell", ok=True), clock=2)]
        lines += [line("r", 5, Returned(call_id="toolu_1", ok=True), mapping="1", clock=2)]
        home.intake.admit(lines, "tracklog")
        assert disagreements(home) == []
    told = tracklog(tmp_path, "story", "r")
    assert told.count("→ shell") == 1
    assert told.count("←") == 1
    assert "(thought) I wonder" in told
    assert "(thought) I look" not in told


def test_a_story_ends_behind_what_happened_before_the_end(tmp_path):
    """A trace may tell that its root ended before it tells of what was inside."""
    with Home(tmp_path, durability="os") as home:
        lines = [line("r", 1, Ended(what="run", passed=True), clock=9)]
        lines += [line("r", 2, Called(tool="shell", call_id="a"), clock=3)]
        lines += [line("r", 3, Returned(call_id="a", tool="shell", ok=True), clock=4)]
        home.intake.admit(lines, "tracklog")
    told = tracklog(tmp_path, "story", "r")
    assert told.index("shell returned") < told.index("run ended")


def test_a_story_begins_before_what_happened_after_the_beginning(tmp_path):
    """A trace tells of its root last, because that ends last."""
    with Home(tmp_path, durability="os") as home:
        lines = [line("r", 1, said("user", "Fix it"), clock=2)]
        lines += [line("r", 2, Called(tool="shell", call_id="a"), clock=3)]
        lines += [line("r", 3, Returned(call_id="a", tool="shell", ok=True), clock=4)]
        lines += [line("r", 4, Began(what="run"), clock=1)]
        lines += [line("r", 5, Ended(what="run", passed=True), clock=9)]
        home.intake.admit(lines, "tracklog")
    told = tracklog(tmp_path, "story", "r")
    parts = ("run began", "Fix it", "→ shell", "shell returned", "run ended")
    assert sorted(parts, key=told.index) == list(parts)
    lines = [
        line("r", 6, Began(what="run"), clock=10),
        line("r", 7, said("user", "More"), clock=11),
    ]
    with Home(tmp_path, durability="os") as home:
        home.intake.admit(lines, "tracklog")
    told = tracklog(tmp_path, "story", "r")
    assert told.rindex("run began") > told.index("run ended")


# Findings, titles, tools


@pytest.mark.parametrize("cut", [1, 30, 200])
def test_a_torn_tail_is_found_until_the_rest_of_the_line_has_arrived(tmp_path, cut):
    whole = (SAMPLES / "importers/claude/real_full_session.jsonl").read_bytes()
    lines = whole.splitlines(keepends=True)
    path, home = tmp_path / "session.jsonl", tmp_path / "home"
    for n in (12, len(lines) - 1):
        until = b"".join(lines[:n])
        path.write_bytes(until + lines[n][: max(1, len(lines[n]) - 1 - cut)])
        tracklog(home, "import", path, code=1)
        assert "torn-tail" in tracklog(home, "findings", "--json")
        path.write_bytes(until + lines[n])
        tracklog(home, "import", path)
        assert "torn-tail" not in tracklog(home, "findings", "--json")


@pytest.mark.parametrize(
    "sample",
    [
        path
        for path in SOURCES
        if path.suffix == ".jsonl"
        and path.read_bytes().endswith(b"}\n")
        and path.read_bytes().count(b"\n") > 1
    ],
    ids=lambda path: f"{path.parent.name}/{path.stem[:30]}",
)
def test_no_torn_tail_is_left_whatever_its_source_is_a_file_of(tmp_path, sample):
    """The parts of a streamed answer count where the stream begins.

    A file of one line is not here: half of that line is no file that anything recognises.
    """
    whole = sample.read_bytes()
    last = whole.splitlines(keepends=True)[-1]
    path = tmp_path / sample.name
    with Home(tmp_path / "home", durability="os") as home:
        for data, torn in ((whole[: -len(last) // 2], True), (whole, False)):
            path.write_bytes(data)
            Importing(home).bring([path])
            look = Look(home)
            names = {each["name"] for each in ask(look.home, "findings", now=look.now)}
            assert ("torn-tail" in names) is torn


def test_a_torn_record_without_facts_is_no_finding_when_it_is_complete(tmp_path):
    sample = next((SAMPLES / "importers/codex").glob("rollout-*.jsonl")).read_bytes()
    lines = sample.splitlines(keepends=True)
    n = next(n for n, each in enumerate(lines) if b'"type":"user_message"' in each)
    path, home = tmp_path / "rollout-x.jsonl", tmp_path / "home"
    path.write_bytes(b"".join(lines[:n]) + lines[n][:-20])
    tracklog(home, "import", path, code=1)
    assert "torn-tail" in tracklog(home, "findings", "--json")
    path.write_bytes(b"".join(lines[: n + 1]))
    tracklog(home, "import", path)
    assert "torn-tail" not in tracklog(home, "findings", "--json")


@pytest.mark.parametrize(
    "text",
    [
        "[Request interrupted by user]",
        "[Request interrupted by user for tool use]",
        "<command-name>/clear</command-name>\n<command-message>clear</command-message>",
        "<local-command-stdout></local-command-stdout>",
        "<environment_context>\n  <cwd>/x</cwd>\n</environment_context>",
        "Caveat: The messages below were generated by the user while running local commands.",
        "",
    ],
)
def test_no_title_is_a_text_that_a_program_put_in(tmp_path, text):
    with Home(tmp_path, durability="os") as home:
        lines = [line("r", 1, said("user", text), mapping="1", clock=1)]
        home.intake.admit(lines, "tracklog")
        assert runs(Look(home), "tracklog:r")["title"] is None
        more = f"<system-reminder>be nice</system-reminder>\nFix <b>it</b> {text}"
        home.intake.admit([line("r", 3, said("user", more), mapping="1", clock=2)], "tracklog")
        assert runs(Look(home), "tracklog:r")["title"] == "Fix <b>it</b>" or text[:1] == "C"


def test_the_title_of_a_sub_run_is_its_task(tmp_path):
    home = tmp_path / "home"
    tracklog(home, "import", SAMPLES / "importers/claude/subagent")
    titles = {row["title"] for row in listed(tracklog(home, "runs", "--json"))}
    asked = {"Delegate a repo search to a subagent", "Search the repo for TODO comments"}
    assert titles == asked


def test_a_result_without_a_call_id_is_no_tool_without_a_name(tmp_path):
    path, home = tmp_path / "rollout-y.jsonl", tmp_path / "home"
    meta = {"id": "019982b8-3422-79e0-8b3b-05abaf4f3c3e", "timestamp": "2026-05-05T09:00:00Z"}
    records = [
        {"timestamp": "2026-05-05T09:00:00Z", "type": "session_meta", "payload": meta},
        {
            "timestamp": "2026-05-05T09:00:01Z",
            "type": "response_item",
            "payload": {"type": "function_call_output", "output": "done"},
        },
    ]
    path.write_bytes(b"".join(orjson.dumps(each) + b"\n" for each in records))
    tracklog(home, "import", path)
    assert listed(tracklog(home, "tools", "--json")) == []
    [row] = listed(tracklog(home, "runs", "--json"))
    assert row["tool_calls"] == 0


AGUI_RESULT = {"type": "TOOL_CALL_RESULT", "messageId": "m", "content": "done", "role": "tool"}
AGUI_TOLD = {"id": "m", "role": "tool", "content": "done"}


@pytest.mark.parametrize(
    "event", [AGUI_RESULT, {"type": "MESSAGES_SNAPSHOT", "messages": [AGUI_TOLD]}]
)
def test_a_result_of_ag_ui_without_a_call_id_is_no_call(tmp_path, event):
    path, home = tmp_path / "run.jsonl", tmp_path / "home"
    ends = [
        {"type": name, "threadId": "t", "runId": "r"} for name in ("RUN_STARTED", "RUN_FINISHED")
    ]
    path.write_bytes(b"".join(orjson.dumps(each) + b"\n" for each in (ends[0], event, ends[1])))
    tracklog(home, "import", path)
    assert listed(tracklog(home, "tools", "--json")) == []
    [row] = listed(tracklog(home, "runs", "--json"))
    assert row["tool_calls"] == 0


def test_a_result_without_its_call_belongs_to_an_unknown_tool(tmp_path):
    with Home(tmp_path, durability="os") as home:
        alone = Returned(call_id="c", ok=False, error="exit code 1")
        home.intake.admit([line("r", 1, alone, mapping="1", clock=1)], "tracklog")
        assert disagreements(home) == []
    [_, row] = tracklog(tmp_path, "tools").splitlines()
    assert row.split()[:3] == ["(unknown)", "1", "1"]


@pytest.mark.parametrize("lost", ["erased", "too big"])
def test_an_export_of_events_that_lacks_a_line_is_read_back_as_one_run(tmp_path, lost):
    whole = {"type": "text", "text": "x" * (70_000 if lost == "too big" else 1)}
    with Home(tmp_path / "one", durability="os") as home:
        lines = [line("r", 1, Began(what="run"), family="awf")]
        lines += [line("r", 2, Said(role="user", blocks=(whole,)), family="awf")]
        home.intake.admit([*lines, line("r", 3, Ended(what="run"), family="awf")], "tracklog")
        if lost == "erased":
            home.erase("awf:r", 2, reason="a secret", by="me")
        path = tmp_path / "r.cloudevents.json"
        path.write_bytes(
            b"".join(export(export_run_of(Look(home).home, ("awf", "r")), "cloudevents"))
        )
    with Home(tmp_path / "two", durability="os") as home:
        summary = Importing(home).bring([path])
        assert list(home.runs()) == [("awf", "r")]
        [(why, count)] = summary.by_importer["cloudevents"].ignored.items()
        assert lost in why
        assert count == 1
