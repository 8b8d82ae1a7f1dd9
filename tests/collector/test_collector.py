"""The collector over real sockets: lines in, answers out."""

import gzip
import itertools
import os
import pwd
import re
import threading
import time
import zlib
from pathlib import Path

import httpx
import orjson
import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.collecting import NDJSON, asks, began, collector, ends, start, tool
from support.forking import tracklog
from support.soaking import SOAK
from support.waiting import eventually
from tracklog.formats import registry
from tracklog.home.home import Home
from tracklog.journal import proof as proofs
from tracklog.journal.frame import stamp

RUNS = (f"run-{n}" for n in itertools.count())


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with collector(tmp_path_factory.mktemp("home"), "--max-body", str(1 << 20)) as made:
        yield made


@pytest.fixture
def run():
    return next(RUNS)


def stored(server, run: str) -> list[bytes]:
    """The lines of a run as another process reads them."""
    with Home(server.home, readonly=True) as home:
        return [record.line for record in home.journal.records() if record.run == run]


def test_lines_are_stored_byte_for_byte_and_numbered(server, run):
    odd = b'{"task":"caf\\u00e9 \xc3\xa9", ' + start(run)[1:]
    answer = server.post([odd, tool(run)]).json()
    assert answer["accepted"] == 2
    assert answer["duplicate"] == answer["refused"] == 0
    assert answer["verdicts"] == []
    assert stored(server, run) == [odd, tool(run)]
    frames = server.get("/api/events", params={"run": run}).json()["events"]
    assert [frame["seq"] for frame in frames] == [answer["last_seq"] - 1, answer["last_seq"]]


def test_a_bad_line_does_not_hold_up_the_others_and_says_what_is_wrong(server, run):
    answer = server.post([start(run), b"nope", b"", tool(run, step=-1), tool(run)]).json()
    assert (answer["accepted"], answer["refused"]) == (2, 2)
    assert [verdict["line"] for verdict in answer["verdicts"]] == [2, 4]
    assert answer["verdicts"][1]["problems"][0]["pointer"] == "/step"
    assert answer["verdicts"][1]["problems"][0]["hint"]
    assert stored(server, run) == [start(run), tool(run)]


def test_the_hint_of_a_refusal_says_what_can_be_done_over_http(server):
    """And names no option of the command line."""
    lines = b'{"no":"event"}\n'
    headers = {"Content-Type": "application/x-ndjson"}
    answer = server.http.post("/api/events", content=lines, headers=headers).json()
    (problem,) = answer["verdicts"][0]["problems"]
    assert "POST to /api/events/NAME" in problem["hint"]
    assert "--dialect" not in problem["hint"]


def test_verbose_reports_every_line(server, run):
    answer = server.post([start(run), tool(run)], params={"verbose": "1"}).json()
    assert [verdict["verdict"] for verdict in answer["verdicts"]] == ["accepted"] * 2
    assert answer["verdicts"][1]["seq"] == answer["last_seq"]


def test_a_byte_order_mark_is_dropped_and_reported(server, run):
    answer = server.post(b"\xef\xbb\xbf" + start(run)).json()
    assert (answer["accepted"], answer["bom"]) == (1, True)
    assert stored(server, run) == [start(run)]
    assert "bom" not in server.post([tool(run)]).json()


@pytest.mark.parametrize("how", ["header", "query"])
def test_a_batch_sent_again_under_its_key_is_stored_once(server, run, how):
    key = {"headers": {"Idempotency-Key": run}} if how == "header" else {"params": {"batch": run}}
    first = server.post([start(run), tool(run)], **key).json()
    again = server.post([start(run), tool(run)], **key).json()
    assert again == {**first, "replayed": True}
    assert first["accepted"] == 2
    assert len(stored(server, run)) == 2
    other = server.post([start(run)], **key)
    assert other.status_code == 409
    assert "key" in other.json()["hint"]


@pytest.mark.parametrize("how", ["query", "header"])
def test_a_batch_key_that_is_too_long_is_refused(server, run, how):
    params = {"batch": "k" * 257} if how == "query" else {}
    headers = {"Idempotency-Key": "k" * 257} if how == "header" else {}
    answer = server.post([start(run)], params=params, headers=headers)
    assert answer.status_code == 400
    assert "256" in answer.json()["error"]


def test_two_different_batch_keys_in_one_request_are_refused(server, run):
    """Which of them a retry must have would be a guess."""
    keys = {"params": {"batch": f"{run}-a"}, "headers": {"Idempotency-Key": f"{run}-b"}}
    answer = server.post([start(run)], **keys)
    assert answer.status_code == 400
    assert "two different keys" in answer.json()["error"]
    assert answer.json()["hint"] == "send one of them; nothing was recorded"
    assert stored(server, run) == []
    same = {"params": {"batch": run}, "headers": {"Idempotency-Key": run}}
    assert server.post([start(run)], **same).json()["accepted"] == 1
    assert server.post([start(run)], params={"batch": run}).json()["replayed"] is True


@pytest.mark.parametrize("key", [{"params": {"batch": ""}}, {"headers": {"Idempotency-Key": ""}}])
def test_an_empty_batch_key_is_refused_and_not_taken_for_no_key(server, run, key):
    """Its sender believes that a retry is recognised."""
    answer = server.post([start(run)], **key)
    assert answer.status_code == 400
    assert answer.json()["error"] == "the batch key is empty"
    assert "Idempotency-Key" in answer.json()["hint"]
    assert server.post([start(run)]).json()["accepted"] == 1


def test_the_dialect_may_be_left_out(server, run):
    answer = server.http.post("/api/events", content=start(run), headers=NDJSON).json()
    assert answer["accepted"] == 1


def test_an_unknown_dialect_is_reported_with_the_list_of_dialects(server, run):
    answer = server.post([start(run)], dialect="kahn")
    assert answer.status_code == 404
    assert "kahn-agent" in answer.json()["hint"]


@pytest.mark.parametrize(
    ("body", "word"),
    [
        (orjson.dumps({"run_id": "x", "event": "y"}, option=orjson.OPT_INDENT_2), "jq -c ."),
        (orjson.dumps([{"run_id": "x"}]), "jq -c '.[]'"),
    ],
)
def test_a_pretty_printed_body_gets_a_hint(server, body, word):
    answer = server.post(body).json()
    assert answer["accepted"] == 0
    assert word in answer["hint"]


@pytest.mark.parametrize(
    ("encoding", "pack"), [("gzip", gzip.compress), ("zstd", zstandard.compress)]
)
def test_packed_bodies_are_unpacked(server, run, encoding, pack):
    lines = b"\n".join([start(run), *(tool(run, step=n) for n in range(500))])
    headers = {"Content-Encoding": encoding}
    assert server.post(pack(lines), headers=headers).json()["accepted"] == 501
    twice = pack(lines + b"\n") + pack(tool(run, step=501))
    assert server.post(twice, headers=headers).json()["accepted"] == 502


@pytest.mark.parametrize(
    ("encoding", "packed"),
    [
        ("gzip", b"nope"),
        ("gzip", gzip.compress(b"{}", mtime=0)[:-4]),
        ("gzip", gzip.compress(b"{}", mtime=0) + b"tail"),
        ("zstd", b"nope"),
        ("zstd", zstandard.compress(b"{}" * 99)[:-3]),
    ],
)
def test_a_body_that_cannot_be_unpacked_is_an_error(server, encoding, packed):
    answer = server.post(packed, headers={"Content-Encoding": encoding})
    assert answer.status_code == 400
    assert encoding in answer.json()["error"]


def test_an_unknown_encoding_is_refused(server, run):
    answer = server.post([start(run)], headers={"Content-Encoding": "br"})
    assert answer.status_code == 415
    assert answer.headers["accept-encoding"] == "gzip, zstd"


@pytest.mark.parametrize("encoding", ["gzip", "zstd", None])
def test_a_body_over_the_limit_is_refused_unpacked_or_not(server, encoding):
    large = b" " * (3 << 20)
    body = {"gzip": gzip.compress(large), "zstd": zstandard.compress(large), None: large}[encoding]
    headers = {"Content-Encoding": encoding} if encoding else {}
    answer = server.post(body, headers=headers)
    assert answer.status_code == 413
    assert "several" in answer.json()["hint"]


def test_a_large_body_in_pieces_arrives_completely(server, run):
    lines = [tool(run, step=n) for n in range(4000)]

    def pieces():
        whole = b"\n".join(lines)
        for at in range(0, len(whole), 70_001):
            yield whole[at : at + 70_001]

    answer = server.http.post("/api/events/kahn-agent", content=pieces(), headers=NDJSON).json()
    assert answer["accepted"] == 4000
    assert stored(server, run) == lines


def test_a_line_over_the_cap_is_refused_alone(tmp_path):
    with collector(tmp_path, "--max-line", "2000") as server:
        answer = server.post([start("a"), tool("a", output_summary="x" * 2100), tool("a")]).json()
        assert (answer["accepted"], answer["refused"]) == (2, 1)
        assert "2,000" in answer["verdicts"][0]["problems"][0]["message"]


def test_events_are_read_in_pages_and_by_run_dialect_and_kind(server):
    one, two = next(RUNS), next(RUNS)
    server.post([start(one), tool(one), start(two), tool(two)])
    first = server.get("/api/events", params={"run": one, "limit": 1}).json()
    assert [event["event"]["event"] for event in first["events"]] == ["agent_run_start"]
    rest = server.get("/api/events", params={"run": one, "after": first["next"]}).json()
    assert [event["event"]["event"] for event in rest["events"]] == ["tool_invocation"]
    kinds = server.get("/api/events", params={"run": two, "kind": "tool_invocation"}).json()
    assert len(kinds["events"]) == 1
    none = server.get("/api/events", params={"dialect": "awf", "after": first["first"]}).json()
    assert none["events"] == []
    assert none["next"] == none["last"]
    assert server.get("/api/events", params={"run": "no-such-run-here"}).status_code == 404


ANSWERS = {
    "runs": [],
    "agents": [],
    "tools": ["--window", "7d"],
    "loops": [],
    "audits": ["--window", "all"],
    "outcomes": [],
    "leaderboard": [],
    "costs": ["--by", "model"],
    "inbox": [],
    "findings": [],
    "tree": [],
}


def without_ages(rows):
    ages = {"silent_seconds", "waiting_seconds", "age_seconds"}
    return [{key: value for key, value in row.items() if key not in ages} for row in rows]


def without_last(pages):
    return [{key: value for key, value in page.items() if key != "last"} for page in pages]


@pytest.mark.parametrize("verb", ANSWERS)
def test_an_answer_over_http_is_what_the_command_line_prints(server, run, verb):
    server.post([start(run), tool(run), asks(run, f"q-{run}")])
    arguments = ANSWERS[verb]
    asked = {arguments[n].lstrip("-"): arguments[n + 1] for n in range(0, len(arguments), 2)}
    over_http = server.get(f"/api/{verb}", params=asked).json()
    rows = over_http if isinstance(over_http, list) else [over_http]
    assert without_ages(rows) == without_ages(told(server, verb, *arguments))


def told(server, verb, *arguments) -> list[dict]:
    done = tracklog(server.home, verb, "--json", *arguments)
    assert done.returncode == 0, done.stderr
    return [orjson.loads(line) for line in done.stdout.splitlines()]


def test_one_run_is_shown_as_the_command_line_shows_it(server, run):
    last = server.post([start(run), tool(run), tool(run, step=1)]).json()["last_seq"]
    now = server.get(f"/api/runs/kahn/{run}").json()
    assert without_ages([now]) == without_ages(told(server, "show", run))
    assert now["tool_calls"] == 2
    before = server.get(f"/api/runs/kahn/{run}", params={"at": last - 1}).json()
    assert [before] == told(server, "show", run, "--at", str(last - 1))
    assert before["tool_calls"] == 1
    assert server.get(f"/api/runs/kahn/{run}/tree").json() == told(server, "tree", run)
    story = server.get(f"/api/runs/kahn/{run}/story").json()
    assert without_last([story]) == without_last(told(server, "story", run))
    assert server.get(f"/api/runs/kahn/{run}/conversation").json() == []
    why = server.get("/api/why", params={"run": run, "seq": last}).json()
    assert [why] == told(server, "why", run, str(last))


def test_a_run_that_never_was_had_no_past_either(server):
    answer = server.get("/api/runs/kahn/nobody", params={"at": 1})
    assert answer.status_code == 404
    assert "there is no run" in answer.json()["error"]


def test_a_run_of_which_little_is_known_stands_in_the_tree_of_all(server, run):
    noted = began(run, fact="Noted", label="title", text="a name and nothing else")
    assert server.post([noted], "tracklog").json()["accepted"] == 1
    alone = server.get(f"/api/runs/tracklog/{run}/tree").json()
    assert [branch["key"] for branch in alone] == [f"tracklog:{run}"]
    assert alone[0] in server.get("/api/tree").json()


def test_words_are_found(server, run):
    server.post([start(run, task=f"zebra {run}")])
    found = server.get("/api/search", params={"q": f'zebra "{run}"'}).json()
    (row,) = told(server, "search", f'zebra "{run}"')
    assert found == [row | {"title": f"zebra {run}"}]


def test_a_run_id_may_hold_anything(server):
    run = "../../etc/passwd?a=1&b#c %2F é\u2028"
    server.post([began(run)], dialect="tracklog")
    quoted = httpx.URL("http://x/", params={"q": run}).query.decode()[2:].replace("+", "%20")
    shown = server.get(f"/api/runs/tracklog/{quoted}")
    assert shown.json()["run"] == run
    assert server.get("/api/events", params={"run": f"tracklog:{run}"}).json()["events"]
    names = {path.name for path in server.home.rglob("*")}
    assert not {name for name in names if "passwd" in name}


@pytest.mark.parametrize("run", [".", "..", "~.", "~~.."])
def test_a_run_whose_name_a_browser_removes_from_a_path_has_another_address(server, run):
    server.post([began(run)], dialect="tracklog")
    assert server.get(f"/api/runs/tracklog/~{run}").json()["run"] == run
    assert server.get(f"/api/runs/tracklog/~{run}/story").json()["run"] == run


def test_what_is_not_there_is_404_and_what_cannot_be_done_405(server):
    assert server.get("/api/nothing").status_code == 404
    assert server.get("/api/runs/kahn/none").status_code == 404
    refused = server.http.delete("/api/events")
    assert refused.status_code == 405
    assert "POST" in refused.headers["allow"]
    assert server.get("/api/runs", params={"limit": "many"}).status_code == 400
    assert "limit, " in server.get("/api/runs", params={"limt": "5"}).json()["hint"]
    assert server.get("/api/audits", params={"window": "3h"}).status_code == 400


def test_a_question_is_recorded_and_its_answer_is_delivered_by_long_poll(server, run):
    server.post([start(run), asks(run, f"q-{run}")])
    path = f"/api/inbox/q-{run}/answer"
    assert server.get(path, params={"wait": "0"}).status_code == 204
    polled = {}

    def poll():
        with httpx.Client(base_url=server.url, timeout=30, trust_env=False) as client:
            polled["answer"] = client.get(path, params={"wait": "20", "run": f"kahn:{run}"})
            polled["at"] = time.monotonic()

    waiting = threading.Thread(target=poll)
    waiting.start()
    time.sleep(0.3)
    said = {"answer": {"port": 8080}, "by": "ann"}
    given = server.http.post(path, json=said)
    gave = time.monotonic()
    waiting.join(20)
    assert polled["answer"].status_code == 200
    assert polled["answer"].json()["answer"] == {"port": 8080}
    assert polled["answer"].json()["by"] == "ann"
    assert polled["at"] - gave < 15  # not when its time was over
    assert given.json()["seq"] == polled["answer"].json()["seq"]
    line = orjson.loads(stored(server, run)[-1])
    assert (line["fact"], line["family"], line["by"]) == ("Answered", "kahn", "ann")
    assert line["question_id"] == f"q-{run}"


def test_of_two_answers_the_first_counts(server, run):
    server.post([start(run), asks(run, f"q-{run}")])
    path = f"/api/inbox/q-{run}/answer"
    first = server.http.post(path, json={"answer": "yes", "by": "ann"})
    second = server.http.post(path, json={"answer": "no", "by": "bob"})
    assert second.status_code == 409
    assert second.json()["by"] == ["ann"]
    assert second.json()["seq"] == first.json()["seq"]
    again = server.http.post(path, json={"answer": "yes", "by": "ann"})
    assert (again.status_code, again.json()["seq"]) == (200, first.json()["seq"])
    assert len(stored(server, run)) == 3


def test_of_many_answers_at_once_exactly_one_is_recorded(server, run):
    server.post([start(run), asks(run, f"q-{run}")])
    answers = []

    def give(n):
        with httpx.Client(base_url=server.url, timeout=30, trust_env=False) as client:
            said = {"answer": n, "by": f"p{n}"}
            answers.append(client.post(f"/api/inbox/q-{run}/answer", json=said))

    people = [threading.Thread(target=give, args=(n,)) for n in range(8)]
    for person in people:
        person.start()
    for person in people:
        person.join()
    codes = sorted(answer.status_code for answer in answers)
    assert codes == [200] + [409] * 7
    winner = next(answer.json()["by"] for answer in answers if answer.status_code == 200)
    losers = [answer.json()["by"] for answer in answers if answer.status_code == 409]
    assert losers == [[winner]] * 7
    assert len(stored(server, run)) == 3


def test_an_answer_nobody_waits_for_has_one_outcome_each(server, run):
    unknown = server.http.post("/api/inbox/none/answer", json={"answer": 1})
    assert unknown.status_code == 404
    assert server.get("/api/inbox/none/answer").status_code == 404
    assert server.get("/api/inbox/none/answer", params={"wait": "0.2"}).status_code == 204
    server.post([start(run), asks(run, f"q-{run}"), ends(run)])
    assert server.http.post(f"/api/inbox/q-{run}/answer", json={"answer": 1}).status_code == 410
    assert server.get(f"/api/inbox/q-{run}/answer", params={"wait": "5"}).status_code == 410
    for body in (b"nope", b"[]", b'{"by":"x"}', b'{"answer":1,"by":""}', b'{"answer":1,"by":7}'):
        said = server.http.post(
            f"/api/inbox/q-{run}/answer",
            content=body,
            headers={"Content-Type": "application/json"},
        )
        assert said.status_code == 400


def test_questions_of_two_runs_with_one_id_are_distinguished_by_the_run(server):
    one, two = next(RUNS), next(RUNS)
    server.post([start(one), asks(one, "same"), start(two), asks(two, "same")])
    for unclear in (
        server.http.post("/api/inbox/same/answer", json={"answer": 1}),
        server.get("/api/inbox/same/answer", params={"wait": "60"}),
    ):
        assert unclear.status_code == 409
        assert sorted(unclear.json()["runs"]) == sorted((f"kahn:{one}", f"kahn:{two}"))
        assert "?run=" in unclear.json()["hint"]
    given = server.http.post(
        "/api/inbox/same/answer", params={"run": one}, json={"answer": 1, "by": "ann"}
    )
    assert (given.status_code, given.json()["run"]) == (200, one)
    open_still = server.get("/api/inbox/same/answer", params={"run": f"kahn:{two}"})
    assert open_still.status_code == 204


def test_a_long_poll_gets_an_answer_from_the_terminal_and_waits_for_a_question_not_asked_yet(
    server, run
):
    path = f"/api/inbox/q-{run}/answer"
    polled = []

    def poll():
        with httpx.Client(base_url=server.url, timeout=30, trust_env=False) as client:
            polled.append(client.get(path, params={"wait": "25", "run": f"kahn:{run}"}))

    waiting = threading.Thread(target=poll)
    waiting.start()
    time.sleep(0.2)
    server.post([start(run), asks(run, f"q-{run}")])
    done = tracklog(server.home, "answer", f"q-{run}", "use 8080", "--by", "ann")
    waiting.join(60)
    assert done.returncode == 0, done.stderr
    assert polled[0].json()["answer"] == "use 8080"
    again = tracklog(server.home, "answer", f"q-{run}", "use 81", "--by", "bob")
    assert again.returncode == 2
    assert f"answered before, by ann ({pwd.getpwuid(os.getuid()).pw_name})" in again.stderr.decode()


def test_a_question_and_its_answer_outlive_the_collector(tmp_path):
    with collector(tmp_path) as first:
        first.post([start("a"), asks("a", "q1"), asks("b", "q2")])
        first.http.post("/api/inbox/q1/answer", json={"answer": "yes", "by": "ann"})
    with collector(tmp_path) as second:
        assert second.get("/api/inbox/q1/answer").json()["answer"] == "yes"
        assert second.get("/api/inbox/q2/answer").status_code == 204
        assert second.http.post("/api/inbox/q2/answer", json={"answer": 2}).status_code == 200


def test_a_question_answered_by_the_agent_itself_is_closed(server, run):
    back = {"ts": "2026-05-05T09:00:03.000Z", "run_id": run, "event": "agent_transition"}
    back |= {"agent_id": "coder", "step": 2, "from": "blocked-on-clarification", "to": "thinking"}
    server.post([start(run), asks(run, f"q-{run}")])
    server.post([orjson.dumps({**back, "reason": f"operator_response:q-{run}", "answer": "ok"})])
    late = server.http.post(f"/api/inbox/q-{run}/answer", json={"answer": "no", "by": "bob"})
    assert late.status_code == 409
    assert "agent itself" in late.json()["error"]


def test_metrics_are_prometheus_text_and_count(server, run):
    server.post([start(run), b"nope"])
    text = server.get("/metrics").text
    names = set()
    for line in text.splitlines():
        if line.startswith("#"):
            assert re.fullmatch(r"# (HELP tracklog_\w+ .+|TYPE tracklog_\w+ (counter|gauge))", line)
        else:
            found = re.fullmatch(r'(tracklog_\w+)(\{(\w+="[^"]*",?)+\})? [0-9.e+]+', line)
            assert found, line
            names.add(found[1])
    assert {"tracklog_lines_total", "tracklog_journal_last", "tracklog_streams"} <= names
    counted = re.search(r'lines_total\{dialect="kahn-agent",verdict="refused"\} (\d+)', text)
    assert int(counted[1]) >= 1


def test_a_console_that_was_not_built_is_reported(tmp_path):
    with collector(tmp_path / "home", limits={}, console=str(tmp_path / "none")) as server:
        page = server.get("/")
        assert page.status_code == 503
        assert page.headers["content-type"].startswith("text/html")
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assert "make setup" in page.text


def test_the_last_hours_have_tools_and_cost(tmp_path):
    with collector(tmp_path / "home", limits={}) as server:
        now = time.time()
        spent = {"usage": {"input_tokens": 10, "output_tokens": 5}, "cost_usd": 0.5}
        for n, ok in enumerate((True, False)):
            line = {
                "ts": stamp(now),
                "run_id": "a",
                "event": "tool_invocation",
                "agent_id": "coder",
                "step": n,
                "tool_name": "Read",
                "duration_s": 0.5,
                "ok": ok,
                **spent,
            }
            server.post([orjson.dumps(line)], dialect="kahn-agent")
        rows = server.get("/api/hours?count=3").json()
        assert len(rows) == 3
        assert [row["begin"] for row in rows] == sorted(row["begin"] for row in rows)
        assert (rows[0]["calls"], rows[0]["cost_usd"]) == (None, None)
        last = rows[-1] if rows[-1]["calls"] else rows[-2]  # the hour may just have ended
        assert (last["calls"], last["failures"], last["total_tokens"]) == (2, 1, 30)
        assert last["cost_usd"] == 1.0
        assert last["p95_seconds"] == pytest.approx(0.5, rel=0.06)


def test_working_agents_have_the_status_that_they_reported(tmp_path):
    with collector(tmp_path / "home", limits={}) as server:
        move = {"event": "agent_transition", "step": 0, "from": "thinking", "to": "tool_call"}
        for run in ("a", "b"):
            head = {"ts": stamp(time.time()), "run_id": run, "agent_id": "coder"}
            start = {**head, "event": "agent_run_start", "task": "t"}
            server.post(map(orjson.dumps, (start, {**head, **move})), dialect="kahn-agent")
        ends = {"event": "agent_run_end", "outcome": "aborted", "total_duration_s": 1}
        counts = ("steps", "tool_calls", "audit_checkpoints")
        ends |= {f"total_{name}": 0 for name in counts} | {"audits_passed": 0, "audits_failed": 0}
        server.post([orjson.dumps({**head, **ends})], dialect="kahn-agent")
        (row,) = server.get("/api/agents/now").json()
        assert (row["run"], row["agent"], row["status"]) == ("a", "coder", "tool_call")
        assert row["phase"] == "working"


def test_a_console_that_was_built_is_served_and_nothing_beside_it(tmp_path):
    built = tmp_path / "console"
    (built / "assets").mkdir(parents=True)
    (built / "index.html").write_text("<!doctype html><title>console</title>")
    (built / "assets" / "app.js").write_text("go()")
    (tmp_path / "secret").write_text("secret")
    with collector(tmp_path / "home", limits={}, console=str(built)) as server:
        page = server.get("/")
        assert "console" in page.text
        assert "script-src 'self'" in page.headers["content-security-policy"]
        script = server.get("/assets/app.js")
        assert (script.text, script.headers["x-content-type-options"]) == ("go()", "nosniff")
        assert "javascript" in script.headers["content-type"]
        for path in ("/../secret", "/assets/..%2f..%2fsecret", "/%2e%2e/secret", "//secret"):
            rude = server.raw()
            rude.sendall(
                f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
            )
            answer = b""
            while read := rude.recv(1 << 16):
                answer += read
            rude.close()
            assert b" 404 " in answer
            assert b"secret" not in answer.split(b"\r\n\r\n")[1]


def test_more_events_than_the_rate_are_asked_to_come_again(tmp_path):
    with collector(tmp_path, "--max-rate", "10") as server:
        codes = [server.post([tool("a", step=n)] * 30).status_code for n in range(3)]
        assert codes[0] == 200
        assert codes[-1] == 429
        last = server.post([tool("a")])
        assert last.status_code == 429
        assert int(last.headers["retry-after"]) >= 1


@settings(max_examples=60 * SOAK, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.one_of(st.binary(max_size=300), st.text(max_size=200).map(str.encode)))
def test_no_body_is_a_failure_of_ours(server, body):
    answer = server.post(body)
    assert answer.status_code == 200
    told = answer.json()
    assert told["accepted"] + told["duplicate"] + told["refused"] == len(
        [line for line in body.removeprefix(b"\xef\xbb\xbf").split(b"\n") if line.strip()]
    )


@settings(max_examples=60 * SOAK, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_no_packed_body_is_a_failure_of_ours(server, data):
    encoding = data.draw(st.sampled_from(["gzip", "zstd"]))
    inner = data.draw(st.binary(max_size=200))
    pack = zstandard.compress if encoding == "zstd" else gzip.compress
    packed = bytearray(pack(inner))
    for _ in range(data.draw(st.integers(0, 4))):
        packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(packed)))
    answer = server.post(bytes(packed[:cut]), headers={"Content-Encoding": encoding})
    assert answer.status_code in (200, 400, 413)


def test_a_bomb_stops_at_the_limit(tmp_path):
    bombs = {
        "gzip": zlib.compressobj(9, wbits=31),
        "zstd": zstandard.ZstdCompressor(19).compressobj(),
    }
    with collector(tmp_path, "--max-body", str(8 << 20)) as server:
        for encoding, made in bombs.items():
            zeros = b"0" * (1 << 20)
            packed = b"".join([made.compress(zeros) for _ in range(400)] + [made.flush()])
            answer = server.post(packed, headers={"Content-Encoding": encoding})
            assert answer.status_code == 413
        peak = int(re.search(r"VmHWM:\s+(\d+)", _status(server))[1]) if _status(server) else 0
        assert peak < 300_000  # kB; the bombs hold 400 MB


def test_a_body_that_takes_too_much_cpu_time_to_unpack_is_refused(tmp_path):
    made = zlib.compressobj(9, wbits=31)
    parts = [
        made.compress(b"0123456789" * 9) + made.flush(zlib.Z_FULL_FLUSH) for _ in range(60_000)
    ]
    packed = b"".join([*parts, made.flush()])
    with collector(tmp_path, limits={"unpack_seconds": 0.001}) as server:
        answer = server.post(packed, headers={"Content-Encoding": "gzip"})
        assert (answer.status_code, "more than 0.001 s" in answer.json()["error"]) == (413, True)
        assert server.post(gzip.compress(tool("a")), headers={"Content-Encoding": "gzip"}).json()
        assert "tracklog_held_bytes 0" in server.get("/metrics").text


def test_the_window_of_a_zstd_frame_counts_as_memory_that_is_held(tmp_path):
    long = zstandard.ZstdCompressionParameters.from_level(3, window_log=23, format=0)
    made = zstandard.ZstdCompressor(compression_params=long).compressobj()
    packed = made.compress(tool("a") + b"\n") + made.flush()
    lines = "Host: localhost\r\nContent-Type: application/x-ndjson\r\nContent-Encoding: zstd\r\n"
    head = f"POST /api/events HTTP/1.1\r\n{lines}Content-Length: {len(packed)}\r\n\r\n".encode()
    with collector(tmp_path) as server, server.raw() as slow:
        slow.sendall(head + packed[:-5])
        assert eventually(lambda: f"tracklog_held_bytes {8 << 20}" in server.get("/metrics").text)
        slow.sendall(packed[-5:])
        assert b'"accepted":1' in slow.recv(1000)
        assert "tracklog_held_bytes 0" in server.get("/metrics").text


def _status(server) -> str:
    try:
        return Path(f"/proc/{server.process.pid}/status").read_text()
    except OSError:
        return ""


def test_sync_posts_that_come_together_are_all_there(server):
    runs = [next(RUNS) for _ in range(16)]

    def send(run):
        with httpx.Client(base_url=server.url, timeout=60, trust_env=False) as client:
            for n in range(20):
                client.post("/api/events/kahn-agent", content=tool(run, step=n), headers=NDJSON)

    senders = [threading.Thread(target=send, args=(run,)) for run in runs]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    for run in runs:
        assert stored(server, run) == [tool(run, step=n) for n in range(20)]


def test_lines_of_another_process_are_answered_for_too(server, run):
    with Home(server.home) as home:
        home.intake.admit([start(run)], "kahn-agent")
    shown = eventually(lambda: server.get(f"/api/runs/kahn/{run}").status_code == 200)
    assert shown


def test_two_runs_are_compared(server):
    one, two = next(RUNS), next(RUNS)
    server.post([start(one), tool(one), start(two), tool(two, ok=False)])
    found = server.get("/api/diff", params={"a": one, "b": two}).json()
    done = tracklog(server.home, "diff", one, two, "--json")
    ages = {"deltas"}
    shown = orjson.loads(done.stdout)
    assert {k: v for k, v in found.items() if k not in ages} == {
        k: v for k, v in shown.items() if k not in ages
    }
    assert not found["same"]


def test_a_run_is_exported_as_the_command_line_writes_it(server, run):
    server.post([start(run), tool(run)])
    assert "jsonl" in registry.exporter_names()
    for name in registry.exporter_names():
        answer = server.get(f"/api/export/{name}/kahn/{run}")
        assert answer.status_code == 200
        assert answer.headers["content-disposition"] == "attachment"
        done = tracklog(server.home, "export", name, run)
        assert (answer.content, done.returncode) == (done.stdout, 0)
    report = server.get(f"/api/export/atif/kahn/{run}", params={"report": "1"}).json()
    assert report["totals"].keys() == {"kept", "carried", "dropped", "synthesised"}
    strict = server.get(f"/api/export/atif/kahn/{run}", params={"strict": "1"})
    assert strict.status_code == (200 if report["lossless"] else 409)
    assert server.get("/api/export/none/kahn/x").status_code == 404
    assert server.get("/api/export/jsonl/kahn/none").status_code == 404


def test_lines_are_converted_with_a_report_of_losses_and_nothing_is_recorded(server, run):
    before = server.get("/api/events").json()["last"]
    lines = b"\n".join([start(run), b"nope", tool(run)])
    answer = server.http.post("/api/convert/tracklog", content=lines, headers=NDJSON).json()
    assert {line["fact"] for line in answer["lines"]} >= {"Began", "Called"}
    assert answer["refused"][0]["line"] == 2
    assert answer["report"]["totals"]["kept"] > 0
    assert server.get("/api/events").json()["last"] == before
    back = b"\n".join(map(orjson.dumps, answer["lines"]))
    again = server.http.post("/api/convert/kahn-agent", content=back, headers=NDJSON).json()
    assert again["lines"] == [orjson.loads(start(run)), orjson.loads(tool(run))]
    server.post([start(run)])
    kept = server.http.post("/api/convert/tracklog", params={"run": run}, headers=NDJSON).json()
    assert kept["lines"][0]["run"] == run


def test_a_run_is_proven_and_a_blob_is_handed_out(server, run):
    server.post([start(run), tool(run)])
    proof = server.get(f"/api/runs/kahn/{run}/proof").json()
    lines = [start(run), tool(run)]
    assert not list(proofs.check_proof(proof, lines))
    assert list(proofs.check_proof(proof, lines[:1]))
    with Home(server.home) as home:
        name = home.blobs.put(b"\x89PNG")
    found = server.get(f"/api/blobs/{name}")
    assert (found.content, found.headers["content-type"]) == (
        b"\x89PNG",
        "application/octet-stream",
    )
    assert "sandbox" in found.headers["content-security-policy"]
    for bad in ("0" * 64, "../../format", "%2e%2e%2fformat"):
        assert server.get(f"/api/blobs/{bad}").status_code == 404


def test_an_expired_question_is_answered_by_nobody(server, run):
    origin = {"writer": "test", "fidelity": "observed"}
    asked = {"id": f"a-{run}", "run": run, "fact": "Asked", "question_id": f"q-{run}"}
    asked |= {"text": "ok?", "expires": "2026-01-01T00:00:00Z", "origin": origin}
    server.post([began(run), orjson.dumps(asked)], dialect="tracklog")
    late = server.http.post(f"/api/inbox/q-{run}/answer", json={"answer": 1})
    assert late.status_code == 410
    assert "expired" in late.json()["error"]
    assert server.get(f"/api/inbox/q-{run}/answer", params={"wait": "3"}).status_code == 410


def test_a_question_asked_again_waits_again_and_can_be_answered_again(server, run):
    server.post([start(run), asks(run, f"q-{run}")])
    path = f"/api/inbox/q-{run}/answer"
    first = server.http.post(path, json={"answer": 1, "by": "ann"}).json()
    server.post([asks(run, f"q-{run}")])
    assert server.get(path).status_code == 204
    second = server.http.post(path, json={"answer": 2, "by": "bob"})
    assert second.status_code == 200
    assert second.json()["seq"] > first["seq"]
    assert server.get(path).json()["answer"] == 2


def test_an_answer_is_delivered_completely_however_long(server, run):
    server.post([start(run), asks(run, f"q-{run}")])
    said = {"text": "x" * 50_000, "list": [1, 2.5, None, True]}
    path = f"/api/inbox/q-{run}/answer"
    assert server.http.post(path, json={"answer": said, "by": "ann"}).status_code == 200
    assert server.get(path).json()["answer"] == said


def test_a_storm_of_questions_is_answered_from_one_catching_up(server, run):
    found = []

    def ask():
        with httpx.Client(base_url=server.url, timeout=60, trust_env=False) as client:
            found.append(client.get(f"/api/runs/kahn/{run}").json()["tool_calls"])

    for step in range(3):
        server.post([tool(run, step=step * 100 + n) for n in range(100)])
        found.clear()
        storm = [threading.Thread(target=ask) for _ in range(20)]
        for each in storm:
            each.start()
        for each in storm:
            each.join()
        assert found == [100 * (step + 1)] * 20


def test_what_was_accepted_is_in_the_next_answer(server, run):
    for n in range(1, 30):
        server.post([tool(run, step=n)])
        assert server.get(f"/api/runs/kahn/{run}").json()["tool_calls"] == n


def test_secrets_are_taken_out_where_that_is_asked_for(tmp_path):
    secret = "ghp_" + "a1B2c3D4e5" * 4
    with collector(tmp_path, "--redact") as server:
        server.post([began("r", task=f"use {secret}")], dialect="tracklog")
        frame = server.get("/api/events").json()["events"][0]
        assert secret not in orjson.dumps(frame).decode()
        assert frame["redacted"]
    assert not [
        path
        for path in tmp_path.rglob("*")
        if path.is_file() and secret.encode() in path.read_bytes()
    ]
