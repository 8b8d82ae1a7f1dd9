"""The evaluator: recorded, sent at least once, silenced, the same after a restart."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import orjson
import pytest
from click.testing import CliRunner

from support.collecting import collector
from support.waiting import eventually
from tracklog.cli import tracklog
from tracklog.collector.alerts import RUN
from tracklog.collector.alerts.delivery import NotDelivered, deliver
from tracklog.collector.alerts.evaluator import CHANGE, Evaluator, notes
from tracklog.collector.alerts.incidents import AlertChange
from tracklog.collector.alerts.rules import BadRules, Target
from tracklog.collector.alerts.worker import AlertWorker
from tracklog.home.home import Home
from tracklog.log import Log
from tracklog.model.fact import Began, Ended

RULES = """
version: 1
to: {desk: {post: "%s", allow_private: true}}
rules:
  - {name: failed, of: runs, when: {status: failed}, repeat: never, to: [desk], summary: "{title} failed"}
"""
CHANGED = AlertChange(
    1_780_000_000.0, "id1", "failed", "k", "firing", "critical", "it failed", ("desk",)
)


class Receiver:
    """A web server that remembers what it got, and answers with a status."""

    def __init__(self) -> None:
        self.got: list[dict] = []
        self.status = 200
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.got.append(orjson.loads(body))
                self.send_response(receiver.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/hook"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def receiver():
    made = Receiver()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture
def rules(tmp_path, receiver):
    path = tmp_path / "alerts.yaml"
    path.write_text(RULES % receiver.url)
    return path


def fail(home, run, *, passed=False):
    log = Log(home)
    log.append_fact(("tracklog", run), Began(what="run", task=f"Task {run}"))
    log.append_fact(("tracklog", run), Ended(what="run", passed=passed))


def test_a_change_is_recorded_and_sent_once_also_after_a_restart(tmp_path, rules, receiver):
    with Home(tmp_path / "home", durability="os") as home:
        fail(home, "before")
        evaluator = Evaluator(home, rules, deliver)
        assert evaluator.look() == []  # known at the start
        fail(home, "a")
        (change,) = evaluator.look()
        assert (change.state, change.summary) == ("firing", "Task a failed")
        assert evaluator.look() == []
        again = Evaluator(home, rules, deliver)
        assert again.look() == []
        assert [each["summary"] for each in receiver.got] == ["Task a failed"]
        assert receiver.got[0]["id"] == change.id
        assert [note.label for note in notes(home)].count(CHANGE) == 1


def test_a_pending_alert_is_recorded_and_a_restart_does_not_reset_its_time(
    tmp_path, rules, receiver
):
    rules.write_text(rules.read_text().replace("repeat: never", "for: 60s, repeat: never"))
    now = [1_780_000_000.0]
    with Home(tmp_path / "home", durability="os", clock=lambda: now[0]) as home:

        def look(after: float) -> list[str]:
            now[0] += after
            return [each.state for each in Evaluator(home, rules, deliver).look()]

        assert look(0) == []
        fail(home, "a")
        assert [look(0), look(40), look(30), look(15)] == [[], [], ["firing"], []]
        fail(home, "b")
        assert look(10) == []
        fail(home, "b", passed=True)
        assert look(100) == []
        labels = [(note.label, note.data.get("key")) for note in notes(home)]
    assert [each for each in labels if each[0] not in ("alerts-started", "alert-sent")] == [
        ("alert-pending", "tracklog:a"),
        ("alert", None),
        ("alert-pending", "tracklog:b"),
        ("alert-lapsed", "tracklog:b"),
    ]
    assert [each["summary"] for each in receiver.got] == ["Task a failed"]


def test_of_two_collectors_on_one_store_one_evaluates_and_the_other_follows(
    tmp_path, rules, receiver
):
    with (
        Home(tmp_path / "home", durability="os") as home,
        Home(tmp_path / "home", durability="os") as other,
    ):
        Evaluator(home, rules, deliver).look()  # the baseline
        first, second = (AlertWorker(each, rules, None, every=0.05) for each in (home, other))
        first.start()
        try:
            assert eventually(lambda: first.evaluator is not None)
            second.start()
            fail(home, "a")
            assert eventually(lambda: len(receiver.got) == 1)
            assert second.evaluator is None
            first.close()
            assert eventually(lambda: second.evaluator is not None)
            fail(home, "b")
            assert eventually(lambda: len(receiver.got) == 2)
        finally:
            first.close()
            second.close()
        assert [each["summary"] for each in receiver.got] == ["Task a failed", "Task b failed"]


def test_what_was_not_received_is_sent_again_with_the_same_id_also_after_a_restart(
    tmp_path, rules, receiver
):
    with Home(tmp_path / "home", durability="os") as home:
        evaluator = Evaluator(home, rules, deliver)
        evaluator.look()
        fail(home, "a")
        receiver.status = 503
        with pytest.raises(NotDelivered, match="503"):
            evaluator.look()
        with pytest.raises(NotDelivered):
            Evaluator(home, rules, deliver).look()
        listed = ["alerts", "list", "--home", str(tmp_path / "home")]
        assert "(not sent to desk)" in CliRunner().invoke(tracklog, listed).output
        receiver.status = 200
        last = Evaluator(home, rules, deliver)
        last.look()
        last.look()
        assert len(receiver.got) == 3
        assert len({each["id"] for each in receiver.got}) == 1
        assert "(to desk)" in CliRunner().invoke(tracklog, listed).output


def test_a_silence_of_another_process_is_obeyed_and_alerts_are_listed(tmp_path, rules, receiver):
    place = tmp_path / "home"
    run = CliRunner().invoke
    with Home(place, durability="os") as home:
        evaluator = Evaluator(home, rules, deliver)
        evaluator.look()
        words = ["--match", "run=quiet-*", "--for", "1h", "--by", "ada", "--because", "a test"]
        done = run(tracklog, ["alerts", "silence", "--home", str(place), *words])
        assert done.exit_code == 0, done.output
        fail(home, "quiet-1")
        fail(home, "loud")
        evaluator.look()
    assert [each["summary"] for each in receiver.got] == ["Task loud failed"]
    listed = run(tracklog, ["alerts", "list", "--home", str(place)]).output
    assert "silenced by ada (" in listed
    assert "): a test" in listed
    assert "(to desk)" in listed


def test_the_alerts_themselves_are_no_run_that_a_rule_sees(tmp_path, rules, receiver):
    with Home(tmp_path / "home", durability="os") as home:
        evaluator = Evaluator(home, rules, deliver)
        evaluator.look()
        Log(home).append_fact(RUN, Ended(what="run", passed=False))
        assert evaluator.look() == []


@pytest.mark.parametrize("style", ["json", "slack", "discord", "teams", "ntfy"])
def test_each_service_gets_its_own_shape_without_secrets(receiver, style):
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    target = Target.model_validate(
        {"post": receiver.url, "as": style, "topic": "t", "allow_private": True}
    )
    deliver(CHANGED._replace(summary=f"it failed with {secret}"), "desk", target, "http://console")
    (body,) = receiver.got
    text = orjson.dumps(body).decode()
    assert "it failed" in text
    assert secret not in text
    assert "http://console" in text
    first = {"json": "id", "slack": "attachments", "discord": "content"}
    assert (first | {"teams": "attachments", "ntfy": "topic"})[style] in body


def test_a_private_address_is_refused_unless_it_is_allowed(receiver):
    with pytest.raises(NotDelivered, match="allow_private"):
        deliver(CHANGED, "desk", Target(post=receiver.url))
    assert receiver.got == []


@pytest.mark.filterwarnings("ignore:'imghdr' is deprecated")  # of apprise, before Python 3.13
def test_a_service_of_apprise_is_notified_and_a_bad_url_is_found_at_the_start(receiver, tmp_path):
    host = receiver.url.removeprefix("http://")
    for url in (f"json://{host}", "mailto://ada:word@tracklog.invalid?smtp=10.0.0.1"):
        with pytest.raises(NotDelivered, match="allow_private"):
            deliver(CHANGED, "desk", Target(url=url))
    assert receiver.got == []
    target = Target(url=f"json://{host}", allow_private=True)
    deliver(CHANGED, "desk", target, "http://console")
    assert receiver.got[0]["message"] == "it failed\nhttp://console"
    assert "http" not in str(receiver.got[0].get("attachments", ""))
    path = tmp_path / "alerts.yaml"
    path.write_text(RULES.replace("post:", "url:") % "no-such-service://x")
    path.write_text(path.read_text().replace(", allow_private: true", ""))
    done = CliRunner().invoke(tracklog, ["alerts", "check", str(path)])
    assert "desk: apprise does not understand the url" in str(done.exception)


def test_a_collector_evaluates_its_rules_and_refuses_a_bad_file(tmp_path, rules, receiver):
    with collector(tmp_path / "home", "--alerts", rules, "--durability", "os") as server:
        eventually(lambda: b"alerts-started" in server.http.get("/api/events").content)
    rules.write_text("version: 1\n")
    with pytest.raises(AssertionError, match="rules"):
        collector(tmp_path / "other", "--alerts", rules).__enter__()


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "10.0.0.9", "localhost"])
def test_a_target_that_may_not_be_reached_is_a_fault_of_the_rules(tmp_path, host):
    file = tmp_path / "rules.yaml"
    allowed = RULES % f"http://{host}:9/hook"
    file.write_text(allowed.replace(", allow_private: true", ""))
    checked = CliRunner().invoke(tracklog, ["alerts", "check", str(file)])
    assert isinstance(checked.exception, BadRules)
    assert "`allow_private: true` permits it" in str(checked.exception)
    with Home(tmp_path / "home", durability="os") as home, pytest.raises(BadRules):
        AlertWorker(home, file, None)
    file.write_text(allowed)
    assert CliRunner().invoke(tracklog, ["alerts", "check", str(file)]).exit_code == 0
