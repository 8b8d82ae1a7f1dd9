"""Alerts: the rules that are refused, when an incident fires and ends, and the replay of a record."""

from pathlib import Path

import orjson
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from support.attacking import asked
from tracklog.cli import tracklog
from tracklog.collector.alerts import RUN
from tracklog.collector.alerts.history import replay
from tracklog.collector.alerts.incidents import step
from tracklog.collector.alerts.rules import BadRules, parse
from tracklog.collector.alerts.tables import FIELDS, TABLES, Row
from tracklog.folds import epoch_ms
from tracklog.home.home import Home
from tracklog.journal.checkpoints.checkpoint import Checkpoints
from tracklog.journal.checkpoints.notes import read_signature
from tracklog.journal.checkpoints.witness import Witness
from tracklog.journal.frame import stamp
from tracklog.log import Log
from tracklog.model.fact import Asked, Began, Ended, Noted, Spent

NOW = 1_780_000_000.0
READY = Path(__file__).parents[2] / "src/tracklog/collector/alerts/ready.yaml"


def rules(*lines: str, head: str = "version: 1\nto: {desk: {bell: true}}\n"):
    return parse(head + "rules:\n" + "".join(f"  - {{{line}}}\n" for line in lines), FIELDS)


def alerts(*arguments):
    return CliRunner().invoke(tracklog, ["alerts", *map(str, arguments)])


def test_the_ready_rules_are_valid_and_use_every_table(tmp_path):
    path = tmp_path / "alerts.yaml"
    path.write_text(alerts("ready").output)
    assert alerts("check", path).output == f"{path}: 12 rules, no fault\n"
    assert len({rule.of for rule in parse(path.read_text(), FIELDS).rules}) == len(TABLES)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: [", "not YAML"),
        ("[]", "the file has no `rules:`"),
        ("", "the file is empty"),
        ("version: 2\nto: {}\nrules: []", "version"),
        ("version: 1\nto: {x: {}}\nrules: []", "say how"),
        ("version: 1\nto: {x: {post: ftp://y}}\nrules: []", "http"),
        (
            "version: 1\nto: {x: {bell: true}}\nrules: [{name: a, of: run, when: {x: 1}, to: [x]}]",
            "rules.0.of",
        ),
        (
            "version: 1\nto: {x: {bell: true}}\nrules: [{name: a, of: runs, when: {statu: x}, to: [x]}]",
            "did you mean status",
        ),
        (
            "version: 1\nto: {x: {bell: true}}\nrules: [{name: a, of: runs, when: {cost: '> x'}, to: [x]}]",
            "no number",
        ),
        (
            "version: 1\nto: {x: {bell: true}}\nrules: [{name: a, of: runs, when: {cost: 1}, to: [y]}]",
            "no target 'y'",
        ),
        (
            "version: 1\nto: {x: {bell: true}}\nrules: [{name: a, of: runs, when: {cost: 1}}]",
            "names no target",
        ),
        (
            "version: 1\nto: {x: {bell: true}}\nrules: [{name: a, of: runs, when: {cost: 1}, for: soon, to: [x]}]",
            "a duration such as",
        ),
    ],
)
def test_a_fault_of_a_file_is_named_with_its_place(text, words, tmp_path):
    with pytest.raises(BadRules, match=words):
        parse(text, FIELDS)
    path = tmp_path / "alerts.yaml"
    path.write_text(text)
    assert alerts("check", path).exit_code != 0


looks = st.lists(
    st.tuples(st.integers(1, 100), st.sets(st.sampled_from(["a", "b"]))), min_size=1, max_size=30
)


@given(looks, st.integers(0, 150), st.integers(0, 150), st.none() | st.integers(1, 200))
@settings(max_examples=150, deadline=None)
def test_an_incident_fires_once_after_its_time_repeats_and_ends_once(looks, wait, keep, repeat):
    again = "never" if repeat is None else f"{repeat}s"
    (rule,) = rules(
        f"name: r, of: runs, when: {{cost: '> 0'}}, for: {wait}s, keep_firing_for: {keep}s, "
        f"repeat: {again}, to: [desk]"
    ).rules
    now, incidents = NOW, {}
    begun: dict[str, float] = {}  # when the row appeared, for good or until it was gone
    gone: dict[str, float] = {}
    notified: dict[str, float] = {}
    for seconds, keys in looks:
        now += seconds
        rows = {"r": [Row(key, {"cost": 1.0}) for key in sorted(keys)]}
        incidents, changes = step([rule], rows, incidents, now)
        states = {change.key: change.state for change in changes}
        assert len(states) == len(changes)
        for key in ("a", "b"):
            if key in keys:
                begun.setdefault(key, now)
                gone.pop(key, None)
                if key not in notified:
                    expected = "firing" if now - begun[key] >= wait else None
                else:
                    due = repeat is not None and now - notified[key] >= repeat
                    expected = "repeated" if due else None
            elif key in notified:
                expected = "resolved" if now - gone.setdefault(key, now) >= keep else None
            else:
                begun.pop(key, None)
                expected = None
            assert states.get(key) == expected, key
            if expected in ("firing", "repeated"):
                notified[key] = now
            elif expected == "resolved":
                del notified[key], begun[key], gone[key]


def test_what_is_there_at_the_start_and_what_arrives_late_is_never_reported():
    (rule,) = rules("name: r, of: runs, when: {status: failed}, repeat: 1m, to: [desk]").rules
    row = Row("old", {"status": "failed"})
    late = Row("late", {"status": "failed"}, stamp(NOW - 8000))
    fresh = Row("fresh", {"status": "failed"}, stamp(NOW - 10))
    incidents, changes = step([rule], {"r": [row]}, {}, NOW, baseline=True)
    assert changes == []
    incidents, changes = step([rule], {"r": [row, late, fresh]}, incidents, NOW + 100)
    assert [change.key for change in changes] == ["fresh"]
    incidents, changes = step([rule], {"r": []}, incidents, NOW + 200)
    assert [(change.key, change.state) for change in changes] == [("fresh", "resolved")]
    assert incidents == {}


def test_a_silence_is_on_record_and_nobody_is_notified_until_it_is_over():
    head = (
        "version: 1\nto: {desk: {bell: true}}\n"
        f"silences: [{{match: {{agent: 'nightly-*'}}, until: {stamp(NOW + 100)}, by: ada, because: test}}]\n"
    )
    file = rules("name: r, of: runs, when: {status: lost}, repeat: 60s, to: [desk]", head=head)
    rows = {"r": [Row(name, {"status": "lost", "agent": name}) for name in ("nightly-1", "day")]}
    incidents, changes = step(file.rules, rows, {}, NOW, file.silences)
    assert {(each.key, each.to, each.silenced) for each in changes} == {
        ("nightly-1", (), "ada: test"),
        ("day", ("desk",), None),
    }
    _, changes = step(file.rules, rows, incidents, NOW + 120, file.silences)
    assert {each.to for each in changes} == {("desk",)}


@pytest.fixture
def history(tmp_path):
    """A run that asks at 100 and is answered at 1000 seconds; one that fails at 2000."""
    clock = [NOW]
    with Home(tmp_path / "home", durability="os", clock=lambda: clock[0]) as home:
        log = Log(home)

        def put(at, run, fact):
            clock[0] = NOW + at
            log.append(log.fact_line(("tracklog", run), fact, at=stamp(clock[0])), "tracklog")

        put(0, "asker", Began(what="run", task="Deploy"))
        put(100, "asker", Asked(question_id="q", text="Now?"))
        put(1000, "asker", Ended(what="run", passed=True))
        put(1500, "loser", Began(what="run", task="Try"))
        put(2000, "loser", Ended(what="run", passed=False, outcome="broken"))
        put(2100, RUN[1], Noted(label="alert", data={}))
        clock[0] = NOW + 4000
        yield home


def test_a_replay_says_what_would_have_fired_and_changes_nothing(history):
    file = rules(
        "name: waiting, of: questions, when: {status: open}, for: 5m, to: [desk]",
        "name: failed, of: runs, when: {status: failed}, repeat: never, to: [desk]",
        "name: any, of: runs, when: {run: alerts}, to: [desk]",
    )
    before = history.journal.last
    changes = list(replay(history, file, NOW - 1, NOW + 4000))
    assert [(each.rule, each.state) for each in changes] == [
        ("waiting", "firing"),
        ("waiting", "resolved"),
        ("failed", "firing"),
    ]
    first, last, failed = (each.at - NOW for each in changes)
    assert 400 <= first <= 600
    assert 1000 <= last <= 1500
    assert 2000 <= failed <= 2300
    assert history.journal.last == before
    assert list(replay(history, file, NOW + 3000, NOW + 4000)) == []  # known at the start


def test_try_prints_the_alerts_of_a_home(history, tmp_path):
    path = tmp_path / "alerts.yaml"
    path.write_text(READY.read_text())
    home = tmp_path / "home"
    done = alerts("try", path, "--home", home, "--since", stamp(NOW - 1), "--json")
    assert done.exit_code == 0, done.output
    rows = [orjson.loads(line) for line in done.output.splitlines()]
    assert {"waiting", "failed-run"} <= {row["rule"] for row in rows}
    assert all(epoch_ms(row["at"]) for row in rows)
    text = alerts("try", path, "--home", home, "--since", stamp(NOW - 1)).output
    assert "asks: Now?" in text
    assert "nothing was sent" in text
    assert "late" not in text
    none = alerts("try", path, "--home", home, "--since", stamp(NOW + 90_000)).output
    assert none.startswith("0 alerts")
    assert "more than an hour late" in none


def test_every_table_has_the_fields_that_it_says(history):
    (rule,) = rules("name: r, of: runs, when: {cost: 1}, to: [desk]").rules
    history.index.catch_up()
    for table in TABLES.values():
        for row in table.rows(history, rule, NOW + 4000):
            assert set(row.values) == set(table.fields)
            assert row.key


def test_old_runs_that_are_imported_now_are_no_outcomes_of_the_last_hour(history):
    log, now = Log(history), NOW + 4000
    for number in range(6):
        run = ("tracklog", f"old-{number}")
        for fact in (Began(what="run", task="Old"), Ended(what="run", passed=False)):
            log.append(log.fact_line(run, fact, at=stamp(NOW - 90 * 86_400)), "tracklog")
    history.index.catch_up()
    (rule,) = rules("name: r, of: outcomes, over: 1h, when: {failed: '> 0'}, to: [desk]").rules
    (row,) = TABLES["outcomes"].rows(history, rule, now)
    assert (row.values["runs"], row.values["failed"]) == (2, 1)


def test_what_is_recorded_hours_later_counts_for_no_alert_although_its_time_is_asked_for(history):
    log, now = Log(history), NOW + 4000

    def spend(run, ago, cost, model):
        spent = Spent(key=run, cost_usd=cost, model=model)
        for fact in (Began(what="run"), spent, Ended(what="run", passed=False)):
            line = log.fact_line(("tracklog", run), fact, at=stamp(now - ago))
            assert log.append(line, "tracklog").verdict == "accepted"

    spend("imported", 5 * 3600, 70.0, "old-model")
    spend("live", 60, 2.0, "new-model")
    history.index.catch_up()

    def rows(line):
        (rule,) = rules(f"name: r, {line}, to: [desk]").rules
        return {row.key: row.values for row in TABLES[rule.of].rows(history, rule, now)}

    assert rows("of: costs, over: 1d, when: {cost: '> 50'}")["all"]["cost"] == 2.0
    assert rows("of: outcomes, over: 1d, when: {failed: '> 0'}")["all"]["failed"] == 2
    assert list(rows("of: models, when: {new: true}")) == ["new-model"]


def test_a_field_without_a_value_has_words_in_a_summary():
    summary = "{title} ({run}) of {agent} failed: {outcome}"
    (rule,) = rules(f"name: r, of: runs, when: {{run: x}}, summary: '{summary}', to: [desk]").rules
    row = Row("x", {"run": "x", "title": None, "agent": None, "outcome": None})
    _, (change,) = step([rule], {"r": [row]}, {}, NOW)
    assert change.summary == "a run (x) of an agent failed: no outcome"


def test_records_that_no_witness_signed_for_a_time_are_an_alert(tmp_path):
    (rule,) = [
        each for each in parse(READY.read_text(), FIELDS).rules if each.name == "unwitnessed"
    ]
    signed = 0.0

    def looked(home, incidents, after):
        rows = TABLES["checkpoints"].rows(home, rule, signed + after)
        return *step([rule], {rule.name: rows}, incidents, signed + after), rows

    with (
        Home(tmp_path / "home", durability="os") as home,
        Checkpoints(home.storage, origin="a.example/j") as checkpoints,
        Witness(tmp_path / "witness") as witness,
    ):
        log = Log(home)
        log.append_fact(("tracklog", "one"), Began(what="run"), writer="test")
        note = checkpoints.make()
        assert looked(home, {}, 5000) == ({}, [], [])  # nobody asked for a witness
        witness.trust(checkpoints.key, "ada")
        signature = read_signature(asked(witness, checkpoints.consistency, note).body.strip())
        signed = float(checkpoints.add_signatures(note, [signature]).witnesses()[0].at)
        incidents, changes, (row,) = looked(home, {}, 5000)
        assert (incidents, changes, row.values["unwitnessed"]) == ({}, [], 0)
        log.append_fact(("tracklog", "one"), Ended(what="run"), writer="test")
        checkpoints.make()  # the witness is away, or refuses
        incidents, changes, _ = looked(home, {}, 600)
        assert (incidents, changes) == ({}, [])
        incidents, changes, _ = looked(home, {}, 1000)
        assert incidents
        assert not changes
        _, (change,), (row,) = looked(home, incidents, 1400)
        assert row.values == {
            "records": 1, "unwitnessed": 1, "witnessed_seconds": 1400, "refused": False,
        }  # fmt: skip  # one row
        assert "no witness has signed a checkpoint for 1400 seconds" in change.summary
