"""Every view of a run agrees on its calls, failures, tokens, cost, status, first and last time.

The views are listed in `VIEWS` and `SERVED`; a view that is added to the product is added there.
"""

import re
import tempfile
from collections import Counter
from dataclasses import replace
from hashlib import sha256
from itertools import permutations
from pathlib import Path

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support import sampling
from support.asking import ask
from support.collecting import collector
from support.forking import tracklog as forked
from tracklog.answers.duplicates import same_conversation
from tracklog.dialects import tracklog as native
from tracklog.formats import registry as formats
from tracklog.formats.convert import convert as convert_to
from tracklog.formats.export import export, flight_of
from tracklog.formats.importing import Importing
from tracklog.home import registry
from tracklog.home.home import Home
from tracklog.model.fact import Began, Called, Ended, Linked, Noted, Returned, Said, Spent

SAMPLES = Path(__file__).parents[1] / "samples"
SUMMARY = {
    "calls": "tool_calls", "failures": "tool_failures", "tokens": "tokens", "cost": "cost_usd",
    "status": "status", "first": "first_at", "last": "last_at", "title": "title",
}  # fmt: skip  # what the law is about, and what a row calls it


def summary(row):
    """What a row tells of a run: of the fields of the law, those that it has."""
    return {name: row[key] for name, key in SUMMARY.items() if key in row}


class Looked:
    """A home at one moment, and what every view of it says."""

    def __init__(self, home):
        self.home, self.index = home, home.index
        self.index.catch_up()
        self.now = max((each.received for each in home.journal.records()), default="")

    def run(self, key):
        return tuple(key.split(":", 1))


def _rows(rows, key):
    return next(row for row in rows if f"{row['family']}:{row['run']}" == key)


def runs(look, key):
    return summary(_rows(ask(look.home, "runs", now=look.now, limit=None), key))


def show(look, key):
    return summary(ask(look.home, "show", run=key, now=look.now))


def show_at(look, key):
    return summary(ask(look.home, "show", run=key, at=look.home.journal.last))


def board(look, key):
    return summary(_rows(ask(look.home, "board", limit=10_000, now=look.now)["runs"], key))


def tree(look, key):
    rows = ask(look.home, "tree", run=key, around=True, now=look.now)
    return summary(next(row["run"] for row in rows if row["key"] == key))


def top(look, key):
    return summary(_rows(ask(look.home, "top", now=look.now)["runs"], key))


def compared(look, key):
    deltas = ask(look.home, "diff", a=key, b=key, now=look.now)["deltas"]
    return summary({name: each["a"] for name, each in deltas.items()})


def costs(look, key):
    if key in same_conversation(look.index):
        return {}  # another run tells the same conversation, and is counted
    found = [row for row in ask(look.home, "costs", by="run") if row["of"] == key]
    row = found[0] if found else {"total_tokens": None, "cost_usd": None}
    return {"tokens": row["total_tokens"], "cost": row["cost_usd"]}


def told_facts(look, key):
    """The facts that the story shows."""
    told = ask(look.home, "story", run=key, limit=100_000)["records"]
    return [
        fact
        for record in told
        if not record.get("superseded")
        for fact in record["facts"]
        if not fact.get("again")
    ]


def story(look, key):
    """Calls as the story shows them, each once."""
    facts = [fact for fact in told_facts(look, key) if not fact.get("copied")]
    kinds = Counter(fact["fact"] for fact in facts)
    torn = sum(fact["fact"] == "Returned" and fact.get("torn", False) for fact in facts)
    failed = sum(fact["fact"] == "Returned" and fact.get("ok") is False for fact in facts)
    return {"calls": kinds["Called"] + torn, "failures": failed}


def sql(look, key):
    sql = "SELECT tool_calls, tool_failures, first_at, last_at FROM runs WHERE family=? AND run=?"
    family, run = (part.replace("'", "''") for part in look.run(key))
    sql = sql.replace("family=?", f"family='{family}'").replace("run=?", f"run='{run}'")
    [row] = ask(look.home, "query", sql=sql)["rows"]
    return dict(zip(("calls", "failures", "first", "last"), row, strict=True))


def exported(look, key):
    """What an exporter is given to write."""
    return summary(flight_of(look.home, look.run(key)).summary)


def atif(look, key):
    whole = orjson.loads(b"".join(export(flight_of(look.home, look.run(key)), "atif")))
    own = replace(flight_of(look.home, look.run(key)), below=())
    alone = orjson.loads(b"".join(export(own, "atif")))
    calls = [call for step in alone["steps"] for call in step.get("tool_calls", ())]
    metrics = alone["final_metrics"]
    known = [metrics.get(f"total_{name}_tokens") for name in ("prompt", "completion")]
    told = whole["extra"]["tracklog"]
    found = {"status": told["status"], "title": told.get("title")}
    found |= {"calls": len(calls)} if not _has_torn_or_copied(look, key) else {}
    tokens = ask(look.home, "show", run=key, now=look.now)["tokens"]
    if None not in known and tokens is not None:
        found["prompt and completion"] = sum(known)
    return found


def html(look, key):
    page = b"".join(export(replace(flight_of(look.home, look.run(key)), below=()), "html")).decode()
    stats = dict(re.findall(r"<dt>([^<]+)</dt><dd>(?:<[^>]+>)?([^<]*)", page))
    calls, failures = 0, 0
    if "tool calls" in stats:
        calls = int(re.match(r"[\d,]+", stats["tool calls"])[0].replace(",", ""))
        failed = re.search(r"([\d,]+) failed", stats["tool calls"])
        failures = int(failed[1].replace(",", "")) if failed else 0
    tokens = int(stats["tokens"].replace(",", "")) if "tokens" in stats else None
    return {"calls": calls, "failures": failures, "tokens": tokens, "status": stats["status"]}


def _has_torn_or_copied(look, key):
    """Whether a format shows a call that is not counted, or the other way round."""
    return any(fact.get("torn") or fact.get("copied") for fact in told_facts(look, key))


VIEWS = {
    "runs": runs, "show": show, "show --at": show_at, "board": board, "tree": tree, "top": top,
    "diff": compared, "costs": costs, "story": story, "query": sql, "export": exported,
    "export atif": atif, "export html": html,
}  # fmt: skip  # every view of one run
WHOLE = ("tools", "costs")
"""Views of all runs together: they are the sum of what the runs say."""


def disagreements(home):
    """By run, what its views do not agree on."""
    look = Looked(home)
    found = []
    keys = [f"{family}:{run}" for family, run in sorted(home.runs())]
    keys = [key for key in keys if look.index.state("runs", key).run]
    for key in keys:
        said = {name: view(look, key) for name, view in VIEWS.items()}
        for name, view in said.items():
            for field, value in view.items():
                if field in said["runs"] and value != said["runs"][field]:
                    found.append((key, field, f"runs: {said['runs'][field]}", f"{name}: {value}"))
    left = same_conversation(look.index)
    own = {key: runs(look, key) for key in keys if key not in left}
    tools = ask(look.home, "tools")
    for name, key in (("calls", "calls"), ("failures", "failures")):
        total, summed = sum(row[key] for row in tools), sum(row[name] for row in own.values())
        if total != summed:
            found.append(("all runs", name, f"runs: {summed}", f"tools: {total}"))
    if any(row["tool"] in ("", None) for row in tools if not row["calls"]):
        found.append(("all runs", "tools", "a tool without a name", ""))
    return found


# Journals


def line(run, n, fact, *, mapping=None, clock=None, family=None, key=None, path="/a/file.jsonl"):
    """A native line: live, or, with a mapping, read from the n-th record of a file."""
    record = key or f"{run}-record-{n}"
    origin = {"writer": "live", "fidelity": "observed"}
    if mapping is not None:
        raw = sha256(record.encode()).hexdigest()
        origin = {"writer": "importer", "fidelity": "reconstructed", "mapping": mapping}
        origin |= {"path": path, "offset": n, "raw": raw}
        origin |= {"record": record} if n % 2 else {}
    body = native.body_of(fact)
    id = sha256(repr((run, n, mapping, body)).encode()).hexdigest()[:32]
    at = None if clock is None else f"2026-05-05T{9 + clock // 60:02}:{clock % 60:02}:00Z"
    return native.line(
        fact, id=id, run=run, at=at, origin=origin, **({"family": family} if family else {})
    )


RUNS = ("alpha", "beta", "gamma")
words = st.sampled_from(["Fix it", "[Request interrupted by user]", "Done.", ""])
calls = st.sampled_from(["c1", "c2", "c3"])
copied = st.booleans().filter(bool) | st.just(False) | st.just(False)


def said(role, text):
    return Said(role=role, blocks=({"type": "text", "text": text},), model="gpt-5")


facts = st.one_of(
    st.builds(Began, what=st.just("run"), model=st.just("gpt-5"), task=st.none() | words),
    st.builds(said, st.sampled_from(["user", "assistant", "thought"]), words),
    st.builds(Called, tool=st.sampled_from(["Read", "Bash"]), call_id=calls,
              provider_call_id=st.none() | st.sampled_from(["p1", "c2"]), copied=copied),
    st.builds(Returned, call_id=calls, ok=st.sampled_from([True, False, None]),
              error=st.none() | st.just("no"), status=st.none() | st.just("cancelled"),
              copied=copied),
    st.builds(Spent, key=st.sampled_from(["m1", "m2", "m3"]), model=st.just("gpt-5"),
              usage=st.fixed_dictionaries({"input_tokens": st.integers(0, 9), "output_tokens": st.integers(0, 9)}),
              cost_usd=st.none() | st.just(0.25), copied=copied),
    st.builds(Ended, what=st.just("run"), passed=st.sampled_from([True, False, None])),
)  # fmt: skip

sources = st.lists(st.tuples(facts, st.none() | st.integers(0, 500)), min_size=1, max_size=8)
"""What a file tells, fact by fact, with or without a time."""
samples = st.sampled_from(sampling.of("good"))


@st.composite
def journals(draw):
    """What is done to a home, one after the other: (what, argument…)."""
    done = []
    for run in draw(st.lists(st.sampled_from(RUNS), min_size=1, max_size=3, unique=True)):
        source = draw(sources)
        mappings = draw(st.sampled_from([(None,), ("1",), ("1", "2"), ("2", "1"), ("9", "10")]))
        for mapping in mappings:
            mine = source if mapping in (None, "1", "9") else draw(st.permutations(source))
            for fact, clock in mine:
                place = source.index((fact, clock))
                done.append(("line", line(run, place, fact, mapping=mapping, clock=clock)))
    if draw(st.booleans()):
        fork = Linked(kind=draw(st.sampled_from(["fork", "sub-run", "resume"])), parent="alpha")
        done.append(("line", line("beta", 90, fork)))
    if draw(st.booleans()):
        back = Noted(label="withdrawn", data={"from": "alpha-record-1"})
        done.append(("line", line("alpha", 91, back, mapping="1", key="back")))
    if draw(st.booleans()):
        one = Linked(kind="alias", system="claude", alias="one conversation")
        done.append(("line", line("alpha", 92, one)))
        done.append(("line", line("twin", 93, one, family="awf")))
        for n, (fact, clock) in enumerate(draw(sources)):
            done.append(("line", line("twin", n, fact, clock=clock, family="awf")))
    done += [("sample", sample) for sample in draw(st.lists(samples, max_size=2))]
    done = draw(st.permutations(done)) if draw(st.booleans()) else done
    erased = draw(st.lists(st.integers(1, 8), max_size=1))
    return [*done, *(("erase", seq) for seq in erased)]


def made(folder, journal):
    """A home in which all of that was done."""
    home = Home(folder, durability="os")
    for what, part in journal:
        if what == "line":
            [verdict] = home.intake.admit([part], "tracklog")
            assert verdict.verdict != "refused", verdict
        elif what == "sample":
            home.intake.admit(sampling.lines_of(part), sampling.dialect_of(part))
        else:
            record = next(iter(home.journal.read(part - 1, 1)), None)
            if record is not None and record.seq == part:
                home.erase(f"{record.family}:{record.run}", part, reason="a secret", by="me")
    return home


@settings(max_examples=40, deadline=None)
@given(journals())
def test_every_view_of_a_run_agrees(journal):
    with tempfile.TemporaryDirectory() as folder, made(folder, journal) as home:
        assert disagreements(home) == []


def test_a_run_of_which_no_tree_state_is_kept_stands_in_its_own_tree(tmp_path):
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
        below = flight_of(home, ("tracklog", "above")).below
        assert [(each.family, each.run) for each in below] == [("tracklog", "one")]


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
        [total] = ask(Looked(home).home, "costs", by="all")
        assert total["cost_usd"] == (0.75 if more else 0.25)
        assert total["spends"] == (2 if more else 1)


@pytest.mark.parametrize("sample", sampling.of("good"), ids=sampling.name_of)
def test_every_view_of_a_sample_agrees(tmp_path, sample):
    with made(tmp_path, [("sample", sample)]) as home:
        assert disagreements(home) == []


# Sources that are read more than once


def imported(home, path, mapping=None):
    """Brings a file into a home, under another version of its mapping if asked."""
    importing = Importing(home)
    if mapping is not None:
        importer = importing.importer_of(path)
        changed = {each.name: each for each in formats.importers()}
        changed[importer.name] = replace(importer, mapping=mapping)
        importing = Importing(home, changed.values())
    return importing.bring([path])


FILES = sorted(
    path
    for path in (SAMPLES / "importers").rglob("*.json*")
    if path.suffix in (".json", ".jsonl") and not path.name.endswith(".meta.json")
)


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem[:30]}")
def test_a_source_counts_once_however_many_mappings_read_it(tmp_path, path):
    with Home(tmp_path / "once", durability="os") as home:
        imported(home, path, "1")
        assert disagreements(home) == []
        look = Looked(home)
        once = {key: runs(look, ":".join(key)) for key in home.runs()}
        first = {key: len(convert(look, ":".join(key))) for key in home.runs()}
    with Home(tmp_path / "twice", durability="os") as home:
        imported(home, path, "1")
        again = imported(home, path, "2")
        assert again.lines["accepted"]
        assert disagreements(home) == []
        look = Looked(home)
        assert {key: runs(look, ":".join(key)) for key in home.runs()} == once
        assert {key: len(convert(look, ":".join(key))) for key in home.runs()} == first


def convert(look, key):
    records = look.home.journal.records(run=look.run(key))
    dialect = registry.dialect("awf")
    return list(convert_to(records, look.home.dialects, dialect, carry=False))


def test_an_export_of_two_mappings_tells_each_call_once(tmp_path):
    path = SAMPLES / "importers/claude/real_full_session.jsonl"
    with Home(tmp_path, durability="os") as home:
        imported(home, path, "1")
        [run] = home.runs()
        before = orjson.loads(b"".join(export(flight_of(Looked(home).home, run), "atif")))
        imported(home, path, "2")
        after = orjson.loads(b"".join(export(flight_of(Looked(home).home, run), "atif")))
        assert after["final_metrics"] == before["final_metrics"]
        assert len(after["steps"]) == len(before["steps"])
        events = orjson.loads(b"".join(export(flight_of(home, run), "cloudevents")))
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
        assert runs(Looked(home), "tracklog:r")["calls"] == 1


# Files at rest


def tracklog(home, verb, *arguments):
    """What a verb prints, in a process of its own."""
    done = forked(home, verb, *arguments)
    assert done.returncode == 0, done.stderr
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
def test_a_trace_whose_last_turn_was_answered_is_done_in_whatever_order_it_is_told(tmp_path, order):
    spans = [SPANS[n] for n in order]
    told = {"resourceSpans": [{"resource": {}, "scopeSpans": [{"spans": spans}]}]}
    (tmp_path / "trace.json").write_bytes(orjson.dumps(told))
    with Home(tmp_path / "home", durability="os") as home:
        Importing(home).bring([tmp_path / "trace.json"])
        assert disagreements(home) == []
        [run] = home.runs()
        assert runs(Looked(home), ":".join(run))["status"] == "done"


def test_a_file_without_a_clock_that_is_followed_is_alive_while_it_is_written(tmp_path):
    path = tmp_path / "exec.jsonl"
    sample = (SAMPLES / "importers/codex/exec_json_stream.jsonl").read_bytes()
    path.write_bytes(b"".join(sample.splitlines(keepends=True)[:3]))
    with Home(tmp_path / "home", durability="os") as home:
        Importing(home).bring([path], final=False)
        look = Looked(home)
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
    assert lately["runs"] == []  # all of them ended long ago
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
        assert runs(Looked(home), "tracklog:r")["failures"] == 0
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
        tracklog(home, "import", path)
        assert "torn-tail" in tracklog(home, "findings", "--json")
        path.write_bytes(until + lines[n])
        tracklog(home, "import", path)
        assert "torn-tail" not in tracklog(home, "findings", "--json")


@pytest.mark.parametrize(
    "sample",
    [path for path in FILES if path.suffix == ".jsonl" and path.read_bytes().endswith(b"}\n")],
    ids=lambda path: f"{path.parent.name}/{path.stem[:30]}",
)
def test_no_torn_tail_is_left_whatever_its_source_is_a_file_of(tmp_path, sample):
    """The parts of a streamed answer are told where the stream begins."""
    whole = sample.read_bytes()
    last = whole.splitlines(keepends=True)[-1]
    path = tmp_path / sample.name
    with Home(tmp_path / "home", durability="os") as home:
        for data, torn in ((whole[: -len(last) // 2], True), (whole, False)):
            path.write_bytes(data)
            Importing(home).bring([path])
            look = Looked(home)
            names = {each["name"] for each in ask(look.home, "findings", now=look.now)}
            assert ("torn-tail" in names) is torn


def test_a_torn_record_that_says_nothing_when_it_is_whole_is_found_no_more(tmp_path):
    sample = next((SAMPLES / "importers/codex").glob("rollout-*.jsonl")).read_bytes()
    lines = sample.splitlines(keepends=True)
    n = next(n for n, each in enumerate(lines) if b'"type":"user_message"' in each)
    path, home = tmp_path / "rollout-x.jsonl", tmp_path / "home"
    path.write_bytes(b"".join(lines[:n]) + lines[n][:-20])
    tracklog(home, "import", path)
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
        assert runs(Looked(home), "tracklog:r")["title"] is None
        more = f"<system-reminder>be nice</system-reminder>\nFix <b>it</b> {text}"
        home.intake.admit([line("r", 3, said("user", more), mapping="1", clock=2)], "tracklog")
        assert runs(Looked(home), "tracklog:r")["title"] == "Fix <b>it</b>" or text[:1] == "C"


def test_a_sub_run_is_called_by_what_it_was_asked_for(tmp_path):
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


def test_a_result_whose_call_was_not_heard_is_of_an_unknown_tool(tmp_path):
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
            b"".join(export(flight_of(Looked(home).home, ("awf", "r")), "cloudevents"))
        )
    with Home(tmp_path / "two", durability="os") as home:
        summary = Importing(home).bring([path])
        assert list(home.runs()) == [("awf", "r")]
        [(why, count)] = summary.by_importer["cloudevents"].ignored.items()
        assert lost in why
        assert count == 1


def test_views_agree_while_records_of_either_mapping_are_erased(tmp_path):
    path = SAMPLES / "importers/claude/edge_cases.jsonl"
    with Home(tmp_path, durability="os") as home:
        imported(home, path, "1")
        imported(home, path, "2")
        [run] = home.runs()
        half = home.journal.last // 2
        for seq in (3, half + 3, half - 2, 2 * half - 2):
            home.erase(":".join(run), seq, reason="a secret", by="me")
            assert disagreements(home) == []
