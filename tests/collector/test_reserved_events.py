"""What only tracklog itself may write is refused, whatever way it comes in."""

import time
from uuid import uuid4

import orjson
import pytest

from support.collecting import NDJSON, Collector
from support.forking import tracklog

AT = "2026-05-05T09:00:00.000Z"


def native(fact, run="own", **fields):
    origin = {"writer": "me", "fidelity": "observed"}
    body = {"id": uuid4().hex, "run": run, "fact": fact, "origin": origin, **fields}
    return orjson.dumps(body)


RUNS = {
    f"the run {run}": native("Noted", run, label="erase", data={"by": "ada"})
    for run in ("operations", "tokens", "settings", "alerts")
}
LABELS = {
    label: native("Noted", label=label, data={"seq": 1, "by": "ada"})
    for label in ("erasure", "pruned", "imported")
}
OTHER_FAMILY = {"another family": native("Noted", "a", family="kahn", label="pruned", data={})}
OTHER_FACT = {"a beginning": native("Began", "operations", what="run")}
RESERVED = {**RUNS, **LABELS, **OTHER_FAMILY, **OTHER_FACT}
BY = {
    "an answer": native("Answered", question_id="q", answer=1, by="ada"),
    "a mark": native("Marked", seen=True, by="ada"),
}


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    collector = Collector(tmp_path_factory.mktemp("reserved") / "home")
    yield collector
    collector.stop()


@pytest.mark.parametrize("line", RESERVED)
@pytest.mark.parametrize("way", ["tracklog", None])
def test_it_is_refused_over_http_whoever_sends_it(served, way, line):
    good = native("Noted", label="mine")
    content = good + b"\n" + RESERVED[line] + b"\n"
    path = f"/api/events/{way}" if way else "/api/events"
    sent = served.http.post(path, content=content, headers=NDJSON).json()
    assert (sent["accepted"], sent["refused"]) == (1, 1)
    assert sent["verdicts"][0]["problems"][0]["code"] == "reserved"


@pytest.mark.parametrize("line", [*RESERVED, *BY])
@pytest.mark.parametrize("way", ["record", "import", "follow"])
def test_it_is_refused_in_a_file(tmp_path, way, line):
    home, path = tmp_path / "home", tmp_path / "logs" / "lines.jsonl"
    path.parent.mkdir()
    path.write_bytes(native("Noted", label="mine") + b"\n" + {**RESERVED, **BY}[line] + b"\n")
    arguments = {"record": (path,), "import": (path,), "follow": (path.parent, "--once")}
    done = tracklog(home, way, *arguments[way])
    assert done.returncode == 1, done.stdout + done.stderr
    lines = b"".join(
        tracklog(home, "events", run, "--raw").stdout
        for run in ("own", "operations", "tokens", "settings", "alerts", "kahn:a")
    )
    assert b'"mine"' in lines
    assert orjson.loads({**RESERVED, **BY}[line])["id"].encode() not in lines


def test_a_session_of_a_hook_is_no_run_of_tracklog(served):
    event = {"session_id": "operations", "hook_event_name": "UserPromptSubmit", "prompt": "hi"}
    served.http.post("/api/hooks/claude", json=event)
    assert b"hi" not in tracklog(served.home, "events", "tracklog:operations", "--raw").stdout


def test_telemetry_is_no_note_of_tracklog(served):
    attributes = [
        {"key": key, "value": {"stringValue": "operations"}}
        for key in ("session.id", "gen_ai.conversation.id", "tracklog.run", "conversation.id")
    ]
    record = {"timeUnixNano": str(time.time_ns()), "body": {"stringValue": "forged"}}
    record |= {"attributes": attributes, "eventName": "pruned"}
    scope = {"scope": {"name": "pruned"}, "logRecords": [record]}
    body = {"resourceLogs": [{"resource": {"attributes": attributes}, "scopeLogs": [scope]}]}
    sent = served.http.post("/v1/logs", json=body)
    assert sent.status_code in (200, 400)
    assert b"forged" not in tracklog(served.home, "events", "tracklog:operations", "--raw").stdout


def test_an_operator_writes_under_the_name_of_the_token(tmp_path):
    home = tmp_path / "home"
    made = tracklog(home, "token", "create", "eve", "--role", "admin", "--json")
    token = orjson.loads(made.stdout)["token"]
    served = Collector(home)
    try:
        head = {"Authorization": f"Bearer {token}"}
        for line in BY.values():
            sent = served.post([line], "tracklog", headers=head)
            assert (sent.status_code, sent.json().get("code")) == (403, "reserved")
        for by in ("eve", "ada (eve)"):
            own = native("Marked", seen=True, by=by)
            sent = served.post([own], "tracklog", headers=head)
            assert sent.status_code == 200, sent.text
            assert sent.json()["accepted"] == 1
    finally:
        served.stop()


def test_tracklog_itself_still_writes_it(served):
    sent = served.post([native("Noted", label="mine", run="x")], "tracklog")
    assert sent.json()["accepted"] == 1
    seq = orjson.loads(tracklog(served.home, "events", "x", "--json").stdout.splitlines()[0])["seq"]
    done = tracklog(served.home, "erase", "x", seq, "--reason", "test", "--yes")
    assert done.returncode == 0, done.stderr
    assert b'"erasure"' in tracklog(served.home, "events", "x", "--raw").stdout
