"""Hosted runs from the console and the command line: begun, followed, answered, spoken to, ended."""

import json
import os
import pwd
import signal
import subprocess
from pathlib import Path

import httpx
import pytest

from support.collecting import ENVIRONMENT, collector
from support.forking import Tracklog, tracklog
from support.hosting import TOKEN
from support.waiting import eventually

EXAMPLES = Path(__file__).parents[2] / "examples"
HOSTS = ("openwop=openwop/workflows", "fishbowl=fishbowl", "workflow=workflow")
FLOW = """\
name: waits
inputs: {{who: {{default: you, about: Who is greeted.}}}}
steps:
  - {{name: hello, kind: command, run: "echo hello {{{{inputs.who}}}}"}}
  - {{name: wait, kind: command, run: "touch {mark}; exec sleep 600"}}
"""


class Desk(httpx.Client):
    """Asks a collector; every answer is JSON."""

    def __init__(self, url: str) -> None:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        super().__init__(base_url=url, headers=headers, timeout=120, trust_env=False)

    def begin(self, host: str, **body) -> str:
        response = self.post(f"/api/hosts/{host}/runs", json=body)
        assert response.status_code == 200, response.text
        return response.json()["run"]

    def status(self, family: str, run: str) -> str:
        response = self.get(f"/api/runs/{family}/{run}")
        return response.json().get("status", "") if response.status_code == 200 else ""

    def events(self, run: str) -> list[dict]:
        events = self.get("/api/events", params={"run": run}).json()["events"]
        return [each["event"] for each in events]

    def starts(self) -> list[dict]:
        """The notes of starts over HTTP: runs that were started before may still write."""
        notes = self.events("tracklog:operations")
        return [each for each in notes if each["origin"]["writer"] == "collector"]

    def kinds(self, run: str) -> list[str]:
        lines = self.events(run)
        return [line.get("kind") or line.get("type") or line.get("fact") for line in lines]


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    folder = tmp_path_factory.mktemp("control")
    flows = folder / "workflow"
    flows.mkdir()
    (flows / "waits.yaml").write_text(FLOW.format(mark=folder / "begun"))
    (flows / "broken.yaml").write_text("name: [")
    words = []
    for each in HOSTS:
        name, _, place = each.partition("=")
        path = flows if name == "workflow" else EXAMPLES / place
        words += ["--with", f"{name}={path}"]
    options = ["--durability", "os", *words]
    with collector(folder / "home", *options, TRACKLOG_TOKEN=TOKEN) as made, Desk(made.url) as desk:
        desk.folder, desk.home = folder, folder / "home"
        yield desk


def test_the_hosts_say_what_they_can_do_and_what_they_can_run(desk):
    told = {each["host"]: each for each in desk.get("/api/hosts").json()}
    assert told["fishbowl"]["can"] == ["start", "stop", "inject"]
    assert told["workflow"]["can"] == told["openwop"]["can"] == ["start", "stop"]
    names = {each["name"] for each in told["fishbowl"]["programs"]}
    assert (
        names == {"the-missing-biscuit", "inventors-evening", "the-lighthouse"} or len(names) == 3
    )
    (waits,) = told["workflow"]["programs"]  # the broken one is left out
    assert waits == {"name": "waits", "about": "", "inputs": {"who": "you"}}
    assert {"review", "conformance-noop"} <= {each["name"] for each in told["openwop"]["programs"]}


def test_a_show_is_started_gets_a_message_and_is_ended(desk):
    name = desk.get("/api/hosts").json()[0]["programs"][0]["name"]
    run = desk.begin("fishbowl", program=name, seed="rain")
    said = desk.post(f"/api/hosts/fishbowl/runs/{run}/inject", json={"text": "Boo!"})
    assert said.status_code == 200, said.text
    notes = [each for each in desk.events("tracklog:operations") if each["data"]["run"] == run]
    starts = {each["origin"]["writer"]: each["data"]["by"] for each in notes}
    assert starts == {"collector": "operator", "cli": pwd.getpwuid(os.getuid()).pw_name}
    (message,) = [each for each in desk.events(run) if each.get("kind") == "user.injected"]
    assert message["payload"] == {"text": "Boo!", "by": "operator"}
    ended = desk.post(f"/api/hosts/fishbowl/runs/{run}/stop", json={"by": "ann"})
    assert ended.json()["seq"] > said.json()["seq"]
    assert eventually(lambda: "run.finished" in desk.kinds(run))
    late = desk.post(f"/api/hosts/fishbowl/runs/{run}/inject", json={"text": "Boo!"})
    assert late.status_code == 410


def test_a_scenario_may_be_sent_and_then_plays_offline(desk):
    cast = [{"name": "anna", "persona": "Dry.", "may_emit": ["agent.spoke"]}]
    cast[0]["schedule"] = {"tick_every": 1}
    body = {"name": "tea", "goal": "Pour.", "genesis_text": "A pot.", "ticks": 1, "cast": cast}
    run = desk.begin("fishbowl", body=body)
    assert eventually(lambda: "run.finished" in desk.kinds(run))
    body["cast"][0]["model_endpoint"] = "https://evil.example/v1#m"
    refused = desk.post("/api/hosts/fishbowl/runs", json={"body": body})
    assert refused.status_code == 400
    assert "cannot use a model server" in refused.json()["error"]
    body["cast"] = []
    assert "nobody" in desk.post("/api/hosts/fishbowl/runs", json={"body": body}).json()["error"]


def test_a_workflow_is_begun_and_ended_with_its_processes(desk):
    run = desk.begin("workflow", program="waits", inputs={"who": "a b; exit 3"})
    assert eventually((desk.folder / "begun").exists)
    assert desk.post(f"/api/hosts/workflow/runs/{run}/stop", json={}).status_code == 200
    path = desk.home / "transcripts" / f"{run}.jsonl"
    last = eventually(lambda: (e := json.loads(path.read_bytes().splitlines()[-1]))["type"]
                      == "run.completed" and e)  # fmt: skip
    assert last["payload"]["status"] == "cancelled"
    bad = desk.post("/api/hosts/workflow/runs", json={"program": "waits", "inputs": {"x": 1}})
    assert (bad.status_code, "no input" in bad.json()["error"]) == (400, True)
    sent = desk.post("/api/hosts/workflow/runs", json={"body": {"name": "rm"}})
    assert sent.status_code == 400


def test_an_openwop_run_is_begun_answered_and_another_one_ended(desk):
    run = desk.begin("openwop", program="conformance-approval")
    asked = eventually(lambda: [q for q in desk.get("/api/inbox").json() if q["run"] == run])
    question = asked[0]["question_id"]

    def answer(text: str) -> None:
        given = {"answer": text, "by": "ann"}
        done = desk.post(f"/api/inbox/{question}/answer?run=openwop:{run}", json=given)
        assert done.status_code == 200, done.text

    answer("perhaps")  # does not fit: it is asked again, and says why
    asked = eventually(lambda: [q for q in desk.get("/api/inbox").json()
                                if q["run"] == run and q["times_asked"] == 2])  # fmt: skip
    assert (asked[0]["state"], asked[0]["options"]) == ("open", ["accept", "reject"])
    assert "one of accept, reject" in asked[0]["text"]
    answer("accept")
    assert eventually(lambda: "run.completed" in desk.kinds(run))
    again = desk.begin("openwop", program="conformance-approval", tape={"run": run})
    assert eventually(lambda: "run.completed" in desk.kinds(again))  # nobody was asked
    slow = desk.begin("openwop", program="conformance-cancellable")
    assert desk.post(f"/api/hosts/openwop/runs/{slow}/stop", json={"by": "ann"}).status_code == 200
    assert eventually(lambda: "run.cancelled" in desk.kinds(slow))
    late = desk.post(f"/api/hosts/openwop/runs/{slow}/stop", json={})
    assert late.status_code == 410


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/api/hosts/nobody/runs", {"program": "x"}, 404),
        ("/api/hosts/fishbowl/runs", {"program": "x"}, 404),
        ("/api/hosts/fishbowl/runs", {}, 400),
        ("/api/hosts/fishbowl/runs", {"program": 3}, 400),
        ("/api/hosts/fishbowl/runs", {"program": "x", "inputs": []}, 400),
        ("/api/hosts/fishbowl/runs", {"program": "x", "tape": {"by": "luck"}}, 400),
        ("/api/hosts/fishbowl/runs/none/stop", {}, 404),
        ("/api/hosts/fishbowl/runs/none/inject", {"text": ""}, 400),
        ("/api/hosts/openwop/runs/none/stop", {}, 404),
        ("/api/hosts/workflow/runs/none/stop", {}, 404),
        ("/api/hosts/workflow/runs/none/inject", {"text": "Boo!"}, 409),
    ],
)
def test_a_request_that_cannot_be_done_gets_an_error_with_a_hint(desk, path, body, status):
    response = desk.post(path, json=body)
    assert response.status_code == status, response.text
    assert response.json()["error"]
    assert response.json()["hint"]


def test_nothing_is_begun_by_a_page_elsewhere_or_without_the_token(desk):
    body = {"program": "conformance-noop"}
    before = desk.starts()
    cross = {"Origin": "http://evil.example"}
    path = "/api/hosts/openwop/runs"
    assert desk.post(path, json=body, headers=cross).status_code == 403
    assert desk.post(path, content=json.dumps(body)).status_code == 415
    assert desk.post(path, json=body, headers={"Authorization": "Bearer x"}).status_code == 401
    assert desk.starts() == before
    desk.begin("openwop", **body)
    assert len(desk.starts()) == len(before) + 1


def test_the_command_line_begins_and_ends_runs_too(tmp_path):
    home = ["--home", str(tmp_path / "home")]
    done = tracklog(None, "host", "openwop", "run", "conformance-agent-reasoning", "--json", *home)
    assert done.returncode == 0, done.stderr
    kinds = [json.loads(line)["type"] for line in done.stdout.splitlines()]
    assert (kinds[0], kinds[-1]) == ("run.started", "run.completed")
    slow = Tracklog(
        "host", "openwop", "run", "conformance-cancellable", "--json", *home,
        env=ENVIRONMENT, stdout=subprocess.PIPE,
    )  # fmt: skip
    run = json.loads(slow.stdout.readline())["runId"]
    stopped = tracklog(None, "host", "openwop", "stop", run, *home)
    assert stopped.returncode == 0, stopped.stderr
    out, _ = slow.communicate(timeout=60)
    assert slow.returncode == 130
    assert json.loads(out.splitlines()[-1])["type"] == "run.cancelled"
    assert tracklog(None, "host", "openwop", "stop", run, *home).returncode == 2


@pytest.mark.long
def test_a_show_that_a_collector_left_goes_on_when_it_is_back(tmp_path):
    cast = [{"name": "anna", "persona": "Dry.", "may_emit": ["agent.spoke"]}]
    cast[0]["schedule"] = {"tick_every": 1, "max_consecutive": 99}
    body = {"name": "long", "goal": "Pour.", "genesis_text": "A pot.", "ticks": 5, "cast": cast}
    options = ["--durability", "os", "--with", "fishbowl"]
    with collector(tmp_path, *options, TRACKLOG_TOKEN=TOKEN) as made, Desk(made.url) as desk:
        run = desk.begin("fishbowl", body=body)
        assert eventually(lambda: desk.kinds(run).count("agent.spoke") >= 2)
        made.process.send_signal(signal.SIGTERM)
        assert made.process.wait(60) == 0
    with collector(tmp_path, *options, TRACKLOG_TOKEN=TOKEN) as made, Desk(made.url) as desk:
        assert eventually(lambda: "run.finished" in desk.kinds(run))
        assert desk.kinds(run).count("run.started") == 1
        assert desk.kinds(run).count("agent.spoke") == 5
        assert eventually(lambda: not list((tmp_path / "hosts" / "fishbowl").iterdir()))
