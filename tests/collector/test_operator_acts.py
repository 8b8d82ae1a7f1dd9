"""Every act of an operator is recorded with who did it: a closed table over commands and routes."""

import os
import pwd
import re
import time
from itertools import chain
from pathlib import Path
from uuid import uuid4

import click
import orjson
import pytest

from support.collecting import collector, tool
from support.forking import tracklog
from support.servers import store_url
from tracklog.answers.registry import question_names
from tracklog.cli import tracklog as root
from tracklog.collector import alerts, settings
from tracklog.collector.routes import ROUTES
from tracklog.home.home import OPERATIONS, Home
from tracklog.hosts import _notes
from tracklog.hosts.openwop.routes import ROUTES as OPENWOP
from tracklog.journal.archive.shipping import archive
from tracklog.model.own_notes import OWN_FAMILY, OWN_RUNS
from tracklog.web import token_changes

ME = pwd.getpwuid(os.getuid()).pw_name
ROOT = Path(__file__).parents[2]
PLAY = ROOT / "examples/fishbowl/biscuit.yaml"
READS = "only reads"
LINES = "adds events of agents; what its lines say of themselves is all that it adds"
OUTSIDE = "changes nothing of a record: only files beside it"

QUIET_COMMANDS = {
    **dict.fromkeys(question_names(), READS),
    **dict.fromkeys(
        ["alerts_check", "alerts_list", "alerts_ready", "alerts_tables", "alerts_try", "blob", "check", "convert", "dialects", "events", "export", "host_fishbowl_check", "schema", "secrets", "status", "store_status", "tail", "token_list", "verify", "witness_status"],
        READS,
    ),
    **dict.fromkeys(["exec", "follow", "import", "mcp", "record", "reimport"], LINES),
    **dict.fromkeys(["completion", "connect", "emitter", "repair"], OUTSIDE),
    "demo": "invented data, in a home of its own",
    "dev_postgres": "a database for tests, in a folder of its own",
    "doctor": "only reads; --accept is an act",
    "host_openwop_conformance": "asks another host, which has its own record",
    "host_openwop_serve": "serves; what clients do there is recorded by itself",
    "rebuild": "the index is a cache; no record is changed",
    "serve": "serves; what clients do there is recorded by itself",
    "store_init": "makes a store without a record; a copy can only be made into an empty one",
    "witness_serve": "serves; a witness has its own record of what it refused",
}  # fmt: skip  # one row per reason
QUIET_ROUTES = {
    **dict.fromkeys(
        ("POST /api/events", "POST /api/events/{dialect}", "POST /api/hooks/{agent}"), LINES
    ),
    **dict.fromkeys(("POST /v1/traces", "POST /v1/logs"), LINES),
    "POST /v1/metrics": "stores nothing",
    "POST /api/convert/{dialect}": READS,
    "POST /login": "changes nothing: the browser gets a cookie",
}


def leaves(command, context, path=()):
    if not isinstance(command, click.Group):
        yield "_".join(path)
        return
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        inner = click.Context(found, info_name=name, parent=context)
        yield from leaves(found, inner, (*path, name))


def run(home, *arguments, code=0, **options):
    done = tracklog(home, *arguments, **options)
    assert done.returncode == code, (arguments, done.stdout, done.stderr)
    return done.stdout.decode()


def events(home, name, *options):
    rows = [
        orjson.loads(line) for line in run(home, "events", name, "--json", *options).splitlines()
    ]
    return [row["event"] for row in rows if row["event"]]  # an erased one has none


def authors(home, label, run_name="tracklog:operations", *options):
    """Who did it, by each note with this label."""
    notes = [each for each in events(home, run_name, *options) if each.get("label") == label]
    assert all(f"by {each['data']['by']}" in each["text"] for each in notes if "text" in each)
    return [each["data"]["by"] for each in notes]


def native(fact, name, **fields):
    origin = {"writer": "me", "fidelity": "observed"}
    return orjson.dumps({"id": uuid4().hex, "run": name, "fact": fact, "origin": origin, **fields})


@pytest.fixture
def home(tmp_path):
    """A home with an old run, of which some segments are full, and a question."""
    path = tmp_path / "home"
    old = time.time() - 40 * 86400
    with Home(path, clock=lambda: old, segment_size=1000) as opened:
        for step in range(20):
            opened.intake.admit([tool("old", step)], "kahn-agent")
            if step == 9:
                archive(opened.storage, str(tmp_path / "early"))
    with Home(path) as opened:
        opened.intake.admit([native("Asked", "asks", question_id="q", text="ok?")], "tracklog")
    return path


def _answer(home, _):
    run(home, "answer", "q", "yes")
    (line,) = [each for each in events(home, "asks") if each["fact"] == "Answered"]
    return [line["by"]]


def _mark(home, _):
    run(home, "mark", "old", "--tag", "x", "--by", "ada")
    (line,) = [each for each in events(home, "old") if each.get("fact") == "Marked"]
    assert line["claimed_by"] == "ada"
    return [line["by"]]


def _erase(home, _):
    run(home, "erase", "old", "3", "--reason", "a secret", "--yes")
    eve = {**os.environ, "TRACKLOG_HOME": str(home), "LOGNAME": "eve"}
    run(home, "erase", "old", "4", "--reason", "one more", "--by", "ada", "--yes", env=eve)
    first, second = authors(home, "erasure", "old")
    assert second == f"ada ({ME})"  # neither another name nor the environment hides the user
    return [first]


def _prune(home, _):
    run(home, "prune", "--older-than", "30d")
    return authors(home, "pruned", "old")


def _prune_archive(home, tmp_path):
    run(home, "prune", "--older-than", "30d", "--archive", tmp_path / "early", "--archive-too")
    return authors(home, "archive-pruned")


def _archive(home, tmp_path):
    run(home, "archive", tmp_path / "archive")
    run(home, "archive", tmp_path / "archive")  # nothing is new: nothing is done
    run(home, "archive", tmp_path / "archive", "--behind")
    assert "head 22:" in run(home, "verify", tmp_path / "archive")  # with the note itself
    return authors(home, "archive")


def _restore(home, tmp_path):
    run(home, "archive", tmp_path / "archive")
    run(home, "restore", tmp_path / "archive", tmp_path / "restored")
    assert "proven" in run(tmp_path / "restored", "verify")
    return authors(tmp_path / "restored", "restore")


def _backup(home, tmp_path):
    run(home, "backup", tmp_path / "copy")
    run(home, "backup", tmp_path / "copy", code=2)  # it is there already: nothing is done
    assert authors(tmp_path / "copy", "backup") == [ME]
    return authors(home, "backup")


def _copy(home, tmp_path):
    run(home, "store", "copy", f"file:{home}", f"file:{tmp_path / 'copy'}")
    url = store_url(tmp_path)
    for _ in range(2):  # it can be repeated
        run(home, "store", "copy", f"file:{home}", url)
    assert authors(None, "copy", "tracklog:operations", "--store", url) == [ME] * 3
    password = re.search(r":([^:@]+)@", url)[1]
    assert password not in str(events(home, "tracklog:operations"))
    return set(authors(home, "copy"))


def _limit(home, tmp_path):
    url = store_url(tmp_path)
    run(home, "record", "--store", url, given=tool("a") + b"\n")
    run(home, "store", "limit", url, "--max-rate", "500")
    return authors(home, "limit", "tracklog:operations", "--store", url)


def _checkpoint(home, tmp_path):
    run(home, "checkpoint", "--out", tmp_path / "checkpoint")
    run(home, "checkpoint", "--out", tmp_path / "checkpoint")  # nothing is new: the same one
    assert "proven" in run(home, "verify", "--checkpoint", tmp_path / "checkpoint")
    assert (tmp_path / "checkpoint").read_text().split("\n")[1] == "22"
    return authors(home, "checkpoint")


def _accept(home, _):
    (home / "quarantine" / "piece").write_bytes(b"torn")
    run(home, "doctor", "--accept")
    run(home, "doctor", "--accept")  # nothing is left
    assert f'"by":"{ME}"' in (home / "accepted").read_text()
    return authors(home, "accept")


def _token(home, _):
    run(home, "token", "create", "ci", "--role", "write")
    return authors(home, "token", "tracklog:tokens")


def _revoke(home, _):
    run(home, "token", "create", "ci", "--role", "write", "--by", "ada")
    (token,) = orjson.loads((home / "tokens.json").read_bytes())
    run(home, "token", "revoke", token["id"])
    made, revoked = authors(home, "token", "tracklog:tokens")
    assert made == f"ada ({ME})"
    return [revoked]


def _silence(home, _):
    words = ("--match", "rule=x", "--for", "2h", "--by", ME, "--because", "a test")
    run(home, "alerts", "silence", *words)
    run(home, "alerts", "silence", *words[:-3], "ada", *words[-2:])
    first, second = events(home, "tracklog:alerts")
    assert second["data"]["by"] == f"ada ({ME})"
    return [first["data"]["by"]]


def _play(home, _):
    run(home, "host", "fishbowl", "play", PLAY, "--fast", "--run", "play-1")
    return authors(home, "start")


def _unfinished(home):
    body = {"id": uuid4().hex, "run_id": "play-2", "turn": 1, "kind": "run.started"}
    body |= {"actor": "system", "payload": {"scenario": "s", "goal": "g", "seed": "x"}}
    body |= {"created_at": "2026-05-05T09:00:00.000Z", "schema_version": 1}
    run(home, "record", "--dialect", "fishbowl", given=orjson.dumps(body) + b"\n")


def _inject(home, _):
    _unfinished(home)
    run(home, "host", "fishbowl", "inject", "play-2", "The lights go out.")
    return [events(home, "play-2")[-1]["payload"]["by"]]


def _stop_play(home, _):
    _unfinished(home)
    run(home, "host", "fishbowl", "stop", "play-2")
    return [events(home, "play-2")[-1]["payload"]["by"]]


def _workflow(home, tmp_path):
    flow = tmp_path / "flow.yaml"
    flow.write_text("name: f\nsteps:\n  - {name: a, kind: command, run: 'true'}\n")
    run(home, "host", "workflow", "run", flow)
    return authors(home, "start")


def _stop_workflow(home, _):
    (path, *_) = sorted((ROOT / "tests/samples/dialects/awf/good").glob("*.jsonl"))
    line = path.read_bytes().splitlines()[0]  # that it has begun
    run(home, "record", given=line + b"\n")
    name = orjson.loads(line)["run_id"]
    run(home, "host", "workflow", "stop", name)
    return [events(home, name)[-1]["data"]["by"]]


def _openwop(home, _):
    run(home, "host", "openwop", "run", "conformance-noop")
    return authors(home, "start")


def _stop_openwop(home, _):
    with collector(home, "--with", "openwop") as server:
        began = server.http.post(
            "/api/hosts/openwop/runs", json={"program": "conformance-approval", "by": "ada"}
        )
        name = began.json()["run"]
    run(home, "host", "openwop", "stop", name)
    notes = [each for each in events(home, name) if each.get("fact") == "Noted"]
    return [notes[-1]["data"]["by"]]


def _trust(home, tmp_path):
    key = re.search(r"^key (.*)$", run(home, "checkpoint", "--out", tmp_path / "c"), re.MULTILINE)[
        1
    ]
    folder = ("--folder", tmp_path / "witness")
    run(None, "witness", "trust", key, *folder)
    run(None, "witness", "trust", key, *folder)  # it is trusted already
    assert f"{ME} had " in run(None, "witness", "status", *folder)
    status = orjson.loads(run(None, "witness", "status", "--json", *folder))
    return [each["by"] for each in status["changes"]]


COMMANDS = {
    "alerts_silence": _silence,
    "answer": _answer,
    "archive": _archive,
    "backup": _backup,
    "checkpoint": _checkpoint,
    "doctor --accept": _accept,
    "erase": _erase,
    "host_fishbowl_inject": _inject,
    "host_fishbowl_play": _play,
    "host_fishbowl_stop": _stop_play,
    "host_openwop_run": _openwop,
    "host_openwop_stop": _stop_openwop,
    "host_workflow_run": _workflow,
    "host_workflow_stop": _stop_workflow,
    "mark": _mark,
    "prune": _prune,
    "prune --archive-too": _prune_archive,
    "restore": _restore,
    "store_copy": _copy,
    "store_limit": _limit,
    "token_create": _token,
    "token_revoke": _revoke,
    "witness_trust": _trust,
}


def test_every_command_is_an_act_on_record_or_says_why_not():
    known = set(leaves(root, click.Context(root)))
    acts = {each.partition(" --")[0] for each in COMMANDS}
    both = {each for each in acts & set(QUIET_COMMANDS) if each != "doctor"}
    assert (acts | set(QUIET_COMMANDS), both) == (known, set())


@pytest.mark.parametrize("name", COMMANDS)
def test_an_act_on_the_command_line_is_on_record_with_who_did_it(home, tmp_path, name):
    assert list(COMMANDS[name](home, tmp_path)) == [ME]
    own = {"alerts", "operations", "settings", "tokens"}
    listed = [orjson.loads(line)["run"] for line in run(home, "runs", "--json").splitlines()]
    assert not own & set(listed), "an act is no run"


def test_acts_on_a_database_are_on_record_with_who_did_them(tmp_path):
    url = store_url(tmp_path)
    place = ("--store", url)
    run(None, "record", *place, given=tool("old", 1) + b"\n" + tool("old", 2) + b"\n")
    run(None, "erase", "old", "1", "--reason", "a secret", "--yes", *place)
    run(None, "archive", tmp_path / "archive", *place)
    run(None, "backup", tmp_path / "copy", *place)
    run(None, "checkpoint", "--out", tmp_path / "checkpoint", *place)
    made = run(None, "token", "create", "ci", "--role", "write", "--json", *place)
    run(None, "token", "revoke", orjson.loads(made)["id"], *place)
    silence = ("--match", "rule=x", "--for", "2h", "--by", ME, "--because", "a test")
    run(None, "alerts", "silence", *silence, *place)
    run(None, "host", "fishbowl", "play", PLAY, "--fast", "--run", "play-1", *place)
    assert authors(None, "erasure", "old", *place) == [ME]
    for label in ("archive", "backup", "checkpoint", "start"):
        assert authors(None, label, "tracklog:operations", *place) == [ME], label
    assert authors(None, "token", "tracklog:tokens", *place) == [ME] * 2
    assert authors(None, "alert-silence", "tracklog:alerts", *place) == [ME]


HOSTED = "/api/hosts/fishbowl/runs"


def _http_answer(server, _):
    assert server.http.post("/api/inbox/q/answer", json={"answer": 1}).status_code == 200
    (line,) = [each for each in events(server.home, "asks") if each["fact"] == "Answered"]
    return [line["by"]]


def _http_mark(server, _):
    assert server.http.post("/api/marks", json={"run": "old", "seen": True}).status_code == 200
    (line,) = [each for each in events(server.home, "old") if each.get("fact") == "Marked"]
    return [line["by"]]


def _posted(path, body, label, run_name="tracklog:operations", method="POST"):
    def act(server, _):
        done = server.http.request(method, path, json=body)
        assert done.status_code == 200, done.text
        return authors(server.home, label, run_name)

    return act


def _http_views(server, _):
    body = {"views": [{"name": "Failed", "page": "", "query": "status=failed"}]}
    for _ in range(2):  # the same views are no change
        assert server.http.put("/api/views", json=body).status_code == 200
    return authors(server.home, "views", "tracklog:settings")


def _http_silence(server, _):
    body = {"match": {"rule": "x"}, "minutes": 5, "because": "a test", "by": "somebody"}
    assert server.http.post("/api/alerts/silences", json=body).status_code == 200
    (line,) = events(server.home, "tracklog:alerts")
    return [line["data"]["by"]]


def _http_revoke(server, _):
    made = server.http.post("/api/settings/tokens", json={"name": "x", "role": "read"}).json()
    path = f"/api/settings/tokens/{made['row']['id']}/revoke"
    assert server.http.post(path, json={"by": "somebody"}).status_code == 200
    notes = [each["data"] for each in events(server.home, "tracklog:tokens")]
    return [each["by"] for each in notes if each["name"] == "x" and each["change"] == "revoked"]


def _http_checkpoint(server, _):
    for _ in range(2):  # the second time nothing is new
        made = server.http.post("/api/settings/checkpoints", json={})
        assert (made.status_code, made.json()["newer"]) == (200, 0)
    return authors(server.home, "checkpoint")


def _begun(server):
    program = server.http.get("/api/hosts").json()[0]["programs"][0]["name"]
    return server.http.post(HOSTED, json={"program": program}).json()["run"]


def _http_start(server, _):
    name = _begun(server)
    notes = [
        each for each in events(server.home, "tracklog:operations") if each["data"]["run"] == name
    ]
    notes.sort(key=lambda each: each["origin"]["writer"], reverse=True)
    asked, executed = notes  # who asked for it, and whose process it is
    assert (executed["origin"]["writer"], executed["data"]["by"]) == ("cli", ME)
    return [asked["data"]["by"]]


def _http_stop(server, _):
    name = _begun(server)
    assert server.http.post(f"{HOSTED}/{name}/stop", json={}).status_code == 200
    stop = [each for each in events(server.home, name) if each.get("kind") == "user.injected"]
    return [stop[-1]["payload"]["by"]]


def _http_inject(server, _):
    name = _begun(server)
    said = server.http.post(f"{HOSTED}/{name}/inject", json={"text": "Boo!", "by": "somebody"})
    assert said.status_code == 200
    (line,) = [each for each in events(server.home, name) if each.get("kind") == "user.injected"]
    assert line["payload"]["by"] == "somebody (ops)"  # the typed name does not hide the token
    return ["ops"]


HTTP = {
    "POST /api/alerts/silences": _http_silence,
    "POST /api/hosts/{host}/runs": _http_start,
    "POST /api/hosts/{host}/runs/{run}/inject": _http_inject,
    "POST /api/hosts/{host}/runs/{run}/stop": _http_stop,
    "POST /api/import": _posted("/api/import", {"names": ["aider"]}, "import"),
    "POST /api/inbox/{question}/answer": _http_answer,
    "POST /api/marks": _http_mark,
    "POST /api/settings/checkpoints": _http_checkpoint,
    "POST /api/settings/prices": _posted(
        "/api/settings/prices", {"model": "m", "input": 1, "output": 2}, "price", "tracklog:settings"
    ),
    "POST /api/settings/tokens": _posted(
        "/api/settings/tokens", {"name": "x", "role": "read"}, "token", "tracklog:tokens"
    ),
    "POST /api/settings/tokens/{token}/revoke": _http_revoke,
    "PUT /api/views": _http_views,
}  # fmt: skip  # one row per route


def test_every_route_that_changes_something_is_an_act_on_record_or_says_why_not():
    changing = {f"{each.method} {each.path}" for each in ROUTES if each.method != "GET"}
    assert (set(HTTP) | set(QUIET_ROUTES), set(HTTP) & set(QUIET_ROUTES)) == (changing, set())
    assert not [each.path for each in ROUTES if each.method == "GET" and each.takes]


@pytest.mark.parametrize("name", HTTP)
def test_an_act_over_http_is_on_record_with_the_name_of_its_token(home, tmp_path, name):
    token = run(home, "token", "create", "ops", "--role", "admin", "--by", "ops").strip()
    with collector(home, "--with", f"fishbowl={PLAY.parent}", HOME=str(tmp_path)) as server:
        server.http.headers["Authorization"] = f"Bearer {token}"
        found = HTTP[name](server, tmp_path)
        runs = {each["run"] for each in server.http.get("/api/runs").json()}
        every = server.http.get("/api/board").json()["all"]
    assert set(found) - {f"ops ({ME})"} == {"ops"}  # who made the token itself
    assert not runs & OWN_RUNS
    assert every == len(runs)


def test_every_route_of_the_openwop_host_that_changes_something_is_known():
    """Those of runs are events and notes of the run, with the principal of the key."""
    of_runs = [
        "create",
        "bulk_cancel",
        "cancel",
        "pause",
        "resume",
        "fork",
        "resolve",
        "resolve_by_token",
    ]
    of_host = ["register_webhook", "unregister_webhook"]
    nothing = ["toolhooks"]  # a call of a tool without the call
    changing = {each.name for each in OPENWOP if each.method != "GET"}
    assert {*of_runs, *of_host, *nothing} == changing


def test_the_page_lists_every_act():
    page = (ROOT / "docs/how-to/security.md").read_text()
    table = page.partition("| act |")[2].partition("\n\n")[0]
    told = set(
        re.findall(r"`([^`]+)`", "\n".join(row.split("|")[1] for row in table.splitlines()[2:]))
    )
    commands = {each.replace("_", " ") for each in COMMANDS}
    paths = {each.partition(" ")[2] for each in HTTP}
    assert told == {*(f"tracklog {each}" for each in commands), *paths, "/webhooks"}


def test_the_runs_of_acts_are_known_to_the_folds():
    runs = {alerts.RUN, settings.RUN, token_changes.RUN, OPERATIONS, _notes.OPERATIONS}
    assert runs == {(OWN_FAMILY, each) for each in OWN_RUNS}


def test_acts_change_no_run(home, tmp_path):
    """Neither a status, a time or a count of a run, nor how many runs there are."""

    def seen():
        rows = [orjson.loads(line) for line in run(home, "runs", "--json").splitlines()]
        volatile = ("age_seconds", "silent_seconds")
        rows = [{k: v for k, v in row.items() if k not in volatile} for row in rows]
        board = orjson.loads(run(home, "board", "--json"))
        return rows, board["all"], board["counts"], run(home, "agents", "--json")

    before = seen()
    run(home, "backup", tmp_path / "copy")
    run(home, "archive", tmp_path / "archive")
    run(home, "token", "create", "a", "--role", "read")
    run(home, "checkpoint", "--out", tmp_path / "c")
    assert seen() == before
    for verb in (["rebuild"], ["verify"]):
        run(home, *verb)
    assert seen() == before


def test_an_act_that_cannot_be_recorded_is_carried_out_with_a_warning(home, tmp_path):
    """A journal that cannot be written to: a copy of it, and to accept what was set aside."""
    (home / "quarantine" / "piece").write_bytes(b"torn")
    segment = max((home / "journal").glob("*.jsonl"))
    (home / "format").write_text("1\n")  # an older home is not converted for this
    copied = tracklog(home, "backup", tmp_path / "copy")
    assert (copied.returncode, b"not recorded" in copied.stderr) == (0, True)
    assert (home / "format").read_text() == "1\n"
    (home / "format").write_text("2\n")
    lines = segment.read_bytes().splitlines(keepends=True)
    segment.write_bytes(b"".join(chain(lines[:-1], [lines[-1].replace(b"ok?", b"no?")])))
    accepted = tracklog(home, "doctor", "--accept")  # a damaged journal can be written to
    assert b"accepted piece" in accepted.stderr
    assert authors(home, "accept") == [ME]
