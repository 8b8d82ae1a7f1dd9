"""Settings and alerts over HTTP: what the console shows of them, and that each change is recorded."""

import time

import orjson
import pytest

from support.collecting import Collector, collector, start
from support.forking import tracklog
from tracklog.collector.alerts.evaluator import Evaluator
from tracklog.home.home import Home
from tracklog.journal.frame import stamp
from tracklog.model.fact import Noted

RULES = """
version: 1
to: {desk: {bell: true}}
defaults: {to: [desk]}
rules:
  - {name: failed-run, of: runs, when: {status: failed}, summary: "{run} failed"}
  - {name: long-run, of: runs, when: {status: working}, for: 1h}
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A home in which an alert fired before the collector starts."""
    folder = tmp_path_factory.mktemp("home")
    rules = folder / "alerts.yaml"
    rules.write_text(RULES)
    with Home(folder / "record") as opened:
        evaluator = Evaluator(opened, rules, lambda *_: None)
        evaluator.look()
        now = stamp(time.time())
        failed = {"ts": now, "run_id": "broken", "event": "agent_transition", "agent_id": "coder"}
        failed |= {"step": 0, "from": "thinking", "to": "failed"}
        lines = [start("broken", ts=now), orjson.dumps(failed), start("busy", ts=now)]
        opened.intake.admit(lines, "kahn-agent")
        assert [each.state for each in evaluator.look()] == ["firing"]
    return folder


@pytest.fixture(scope="module")
def server(home):
    served = Collector(home / "record", "--alerts", str(home / "alerts.yaml"))
    yield served
    served.stop()


def notes(home, run):
    with Home(home / "record", readonly=True) as opened:
        records = opened.journal.records(run=("tracklog", run))
        facts = [fact for record in records for fact in opened.facts_in(record)]
    return [fact.data for fact in facts if isinstance(fact, Noted)]


def alerts(server, ready):
    """The alerts, once the collector has looked at its rules."""
    for _ in range(600):
        state = server.get("/api/alerts").json()
        if ready(state):
            return state
        time.sleep(0.1)
    raise AssertionError(state)


def test_what_fires_and_what_is_about_to_is_listed_with_the_rules(server, home):
    ours = {"kahn:broken", "kahn:busy"}  # other tests of this collector make runs as well
    state = alerts(server, lambda each: ours <= {row["key"] for row in each["incidents"]})
    assert state["evaluated"] is True
    assert {(each["rule"], each["state"]) for each in state["incidents"]} == {
        ("failed-run", "firing"),
        ("long-run", "pending"),
    }
    (fired,) = [each for each in state["incidents"] if each["state"] == "firing"]
    assert (fired["key"], fired["summary"]) == ("kahn:broken", "broken failed")
    assert [(each["name"], each["when"], each["seconds"]) for each in state["rules"]] == [
        ("failed-run", "status is failed", 0),
        ("long-run", "status is working", 3600),
    ]
    listed = tracklog(home / "record", "alerts", "list", "--json").stdout.splitlines()
    told = [(each["id"], each["state"], each["at"]) for each in state["changes"]]
    shown = [orjson.loads(line) for line in reversed(listed)]
    assert told == [(each["id"], each["state"], each["at"]) for each in shown]
    assert state["rules"][0]["last_fired"] == told[-1][2]


def test_a_silence_is_recorded_and_covers_what_fires(server, home):
    body = {"match": {"rule": "failed-*"}, "minutes": 30, "because": "a meeting", "by": "ada"}
    answer = server.http.post("/api/alerts/silences", json=body)
    assert answer.status_code == 200, answer.text
    state = alerts(server, lambda each: bool(each["silences"]) and bool(each["incidents"]))
    (silence,) = state["silences"]
    assert (silence["by"], silence["because"]) == ("ada", "a meeting")
    assert silence["until"] == answer.json()["until"]
    (fired,) = [each for each in state["incidents"] if each["rule"] == "failed-run"]
    assert fired["silenced"] == "ada: a meeting"
    assert {"rule": "failed-*"} in [each.get("match") for each in notes(home, "alerts")]
    for wrong in (
        {"match": {}},
        {"minutes": 0},
        {"because": ""},
        {"by": 5},
        {"match": {"rule": 1}},
    ):
        refused = server.http.post("/api/alerts/silences", json=body | wrong)
        assert (refused.status_code, "hint" in refused.json()) == (400, True), wrong


def test_a_price_that_is_set_counts_at_once_and_is_on_record(server, home):
    line = {"ts": "2026-05-05T09:00:00.000Z", "run_id": "paid", "event": "tool_invocation"}
    line |= {"agent_id": "a", "step": 0, "tool_name": "Read", "duration_s": 1, "ok": True}
    line |= {"model": "our-model", "usage": {"input_tokens": 1_000_000, "output_tokens": 0}}
    assert server.post([orjson.dumps(line)]).status_code == 200
    (row,) = server.get("/api/settings/prices").json()["prices"]
    assert (row["model"], row["source"], row["input"]) == ("our-model", None, None)
    body = {"model": "our-model", "input": 2.5, "output": 10, "cache_read": 0.25}
    (row,) = server.http.post("/api/settings/prices", json=body).json()["prices"]
    assert (row["source"], row["input"], row["cache_read"], row["cache_write"]) == (
        "own",
        2.5,
        0.25,
        None,
    )
    (cost,) = server.get("/api/costs?by=model").json()
    assert cost["computed_usd"] == 2.5
    assert notes(home, "settings")[-1]["model"] == "our-model"
    for wrong in ({"input": -1}, {"output": None}, {"model": ""}, {"since": "May"}):
        assert server.http.post("/api/settings/prices", json=body | wrong).status_code == 400, wrong
    own = home / "record" / "prices.json"
    kept = own.read_bytes()
    own.write_bytes(b"{")
    assert server.http.post("/api/settings/prices", json=body).status_code >= 400
    assert own.read_bytes() == b"{"
    own.write_bytes(kept)


def test_storage_and_checkpoints_are_shown_and_a_checkpoint_is_made(server):
    use = server.get("/api/settings/storage").json()
    assert use["records"] == use["last"] > 3
    assert use["journal_bytes"] > 1000
    assert use["free_bytes"] > 0
    before = server.get("/api/settings/checkpoints").json()
    assert (before["origin"], before["records"]) == (None, 0)
    assert before["newer"] >= use["last"]
    made = server.http.post("/api/settings/checkpoints", json={}).json()
    assert (made["records"] >= before["newer"], made["witnesses"]) == (True, [])
    assert server.get("/checkpoint").text.startswith(made["origin"])


def test_a_token_is_shown_once_listed_and_revoked(tmp_path):
    """In a home of its own: from the first token on, everybody is asked for one."""
    with collector(tmp_path / "record") as server:
        check_tokens(server, tmp_path)


def check_tokens(server, home):
    assert server.get("/api/settings/tokens").json()["open"] is True
    for wrong in (
        {"role": "king"},
        {"name": 5},
        {"days": -1},
        {"run_prefix": 1},
        {"run_prefix": "a"},
        {"name": "\n"},
    ):
        refused = server.http.post(
            "/api/settings/tokens", json={"name": "boss", "role": "admin"} | wrong
        )
        assert refused.status_code == 400, wrong
    first = server.http.post("/api/settings/tokens", json={"name": "boss", "role": "admin"}).json()
    assert server.get("/api/settings/tokens").status_code == 401
    head = {"Authorization": f"Bearer {first['token']}"}
    body = {"name": "ci", "role": "write", "days": 9}
    second = server.http.post("/api/settings/tokens", json=body, headers=head).json()
    listed = server.get("/api/settings/tokens", headers=head)
    assert first["token"] not in listed.text
    assert second["token"] not in listed.text
    state = listed.json()
    assert (state["you"], state["open"]) == ("boss", False)
    rows = tracklog(home / "record", "token", "list", "--json").stdout.splitlines()
    assert state["tokens"] == [orjson.loads(row) for row in rows]
    write = {"Authorization": f"Bearer {second['token']}"}
    assert server.get("/api/settings/tokens", headers=write).status_code == 403
    path = f"/api/settings/tokens/{second['row']['id']}/revoke"
    assert server.http.post(path, json={}, headers=head).json()["state"] == "revoked"
    assert server.post([start("x")], headers=write).status_code == 401
    own = f"/api/settings/tokens/{first['row']['id']}/revoke"
    refused = server.http.post(own, json={}, headers=head)
    assert (refused.status_code, "last token" in refused.json()["error"]) == (409, True)
    assert f"tracklog token revoke {first['row']['id']}" in refused.json()["hint"]
    assert server.get("/api/settings/tokens", headers=head).status_code == 200
    assert (
        server.http.post("/api/settings/tokens/none/revoke", json={}, headers=head).status_code
        == 404
    )
    by = [(each["name"], each["change"], each["by"]) for each in notes(home, "tokens")]
    assert by[1:] == [("ci", "created", "boss"), ("ci", "revoked", "boss")]


def test_the_costs_above_which_rules_fire_about_a_run_are_listed(tmp_path):
    rules = tmp_path / "alerts.yaml"
    rules.write_text("""
version: 1
to: {desk: {bell: true}}
defaults: {to: [desk], of: runs}
rules:
  - {name: very-dear, when: {cost: ">= 9.5"}}
  - {name: dear, when: {cost: "> 5", family: kahn}}
  - {name: other, when: {cost: "> 1", run: "other-*"}}
  - {name: cheap, when: {cost: "< 1"}}
""")
    with collector(tmp_path / "record", "--alerts", str(rules)) as server:
        assert server.post([start("paid")]).status_code == 200
        told = server.get("/api/runs/kahn/paid/cost-limits").json()
        assert told == {"limits": [{"rule": "dear", "usd": 5.0}, {"rule": "very-dear", "usd": 9.5}]}
        assert server.get("/api/runs/kahn/nobody/cost-limits").status_code == 404
    with collector(tmp_path / "record") as server:
        assert server.get("/api/runs/kahn/paid/cost-limits").json() == {"limits": []}
