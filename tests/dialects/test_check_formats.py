"""`tracklog check` as a gate: levels, exit codes, formats for programs, graphs."""

from functools import partial
from urllib.parse import unquote, urlsplit

import orjson
import pytest

from support import forking
from support import sampling as samples

tracklog = partial(forking.tracklog, None)
ODD = samples.ROOT / "dialects/kahn-agent/odd"
ERROR = ODD / "thinking-to-converged@illegal-transition.jsonl"
WARNING = ODD / "an-audit-without-agent-id@agent-id-absent.jsonl"
INFO = ODD / "never-ends@no-end.jsonl"
CLEAN = samples.ROOT / "dialects/kahn-agent/good/converges.jsonl"
SLY = b'{"ts":"2026-05-05T09:00:00.000Z","run_id":"r1","event":"agent_run_start","agent_id":"A%\\n::error::x,y:z","task":"t"}\n'


def levels_of(path) -> set[str]:
    done = tracklog("check", "--json", path)
    return {
        each["level"] for each in map(orjson.loads, done.stdout.splitlines()) if "level" in each
    }


def test_the_samples_have_the_levels_that_they_stand_for():
    assert "error" in levels_of(ERROR)
    assert levels_of(WARNING) >= {"warning"}
    assert "error" not in levels_of(WARNING)
    assert levels_of(INFO) == {"info"}
    assert levels_of(CLEAN) == set()


@pytest.mark.parametrize("format", ["text", "json", "github", "sarif"])
@pytest.mark.parametrize(
    ("path", "codes"),
    [(ERROR, (1, 1, 1)), (WARNING, (0, 1, 1)), (INFO, (0, 0, 1)), (CLEAN, (0, 0, 0))],
    ids=["error", "warning", "info", "clean"],
)
def test_findings_at_the_level_that_was_asked_for_exit_1(path, codes, format):
    found = [
        tracklog("check", "--format", format, "--fail-on", level, path).returncode
        for level in ("error", "warning", "info")
    ]
    assert tuple(found) == codes


def test_errors_fail_by_default_and_a_refused_line_always_does():
    assert tracklog("check", ERROR).returncode == 1
    assert tracklog("check", WARNING).returncode == 0
    assert tracklog("check", "--fail-on", "error", given=b"nope\n").returncode == 1
    assert tracklog("check", "--fail-on", "error", ERROR, "no-such-file").returncode == 2
    assert tracklog("check", "--fail-on", "never", ERROR).returncode == 2


def test_json_is_an_alias_of_the_format():
    assert (
        tracklog("check", "--json", ERROR).stdout
        == tracklog("check", "--format", "json", ERROR).stdout
    )


def test_github_shows_a_line_per_finding_and_nothing_of_a_line_gets_out_of_it():
    out = tracklog("check", "--format", "github", ERROR).stdout.decode()
    first = out.splitlines()[0]
    assert first.startswith("::error file=")
    assert ",line=2,title=illegal-transition::coder: thinking -> converged" in first
    assert "::notice" in out
    sly = tracklog("check", "--format", "github", given=SLY).stdout.decode()
    assert len(sly.splitlines()) == 1
    assert sly.startswith("::error line=1,title=wrong-pattern::/agent_id: ")
    assert "%25" in sly


def test_github_escapes_the_name_of_a_file(tmp_path):
    path = tmp_path / "a,b:c%d.jsonl"
    path.write_bytes(ERROR.read_bytes())
    out = tracklog("check", "--format", "github", path).stdout.decode()
    assert "a%2Cb%3Ac%25d.jsonl,line=2," in out


def test_sarif_has_the_shape_of_2_1_0(tmp_path):
    path = tmp_path / "ä b%.jsonl"
    path.write_bytes(ERROR.read_bytes() + SLY)
    log = orjson.loads(tracklog("check", "--format", "sarif", path).stdout)
    assert log["version"] == "2.1.0"
    assert log["$schema"].endswith("sarif-2.1.0.json")
    (run,) = log["runs"]
    driver = run["tool"]["driver"]
    assert driver["name"] == "tracklog"
    rules = [rule["id"] for rule in driver["rules"]]
    assert len(rules) == len(set(rules))
    assert run["invocations"] == [{"executionSuccessful": True}]
    for result in run["results"]:
        assert result["level"] in ("error", "warning", "note")
        assert rules[result["ruleIndex"]] == result["ruleId"]
        assert result["message"]["text"]
        (location,) = result["locations"]
        place = location["physicalLocation"]
        uri = urlsplit(place["artifactLocation"]["uri"])
        assert (uri.scheme, unquote(uri.path)) == ("file", str(path))
        assert place.get("region", {"startLine": 1})["startLine"] >= 1
    found = {result["ruleId"]: result["level"] for result in run["results"]}
    assert found == {"illegal-transition": "error", "wrong-pattern": "error", "no-end": "note"}


def test_sarif_of_nothing_and_of_a_file_that_is_not_there_is_still_a_log():
    log = orjson.loads(tracklog("check", "--format", "sarif", CLEAN).stdout)
    assert log["runs"][0]["results"] == []
    done = tracklog("check", "--format", "sarif", "no-such-file")
    assert done.returncode == 2
    (told,) = orjson.loads(done.stdout)["runs"][0]["invocations"]
    assert told["executionSuccessful"] is False
    assert "no-such-file" in told["toolExecutionNotifications"][0]["message"]["text"]


NODE = {
    "id": "a", "deliverable": "d", "depends_on": [], "touches": [],
    "parallel_safe": True, "done_when": ["true"],
}  # fmt: skip


def graph(**depends):
    nodes = [{**NODE, "id": name, "depends_on": on} for name, on in depends.items()]
    return {"version": 1, "nodes": nodes}


@pytest.mark.parametrize("name", ["graph.json", "plan.json"])
@pytest.mark.parametrize(
    ("body", "code"),
    [
        (graph(a=[], b=["a"]), None),
        (graph(a=[], b=["x"]), "unknown-dependency"),
        (graph(a=[], b=["c"], c=["b"]), "cycle"),
        (graph(a=["b"], b=["a"]), "no-root"),
        ({**graph(), "nodes": [NODE, NODE]}, "node-id-reused"),
        ({**graph(), "nodes": [{**NODE, "depends_on": ["x"]}, NODE]}, "unknown-dependency"),
        ({**graph(), "nodes": [{**NODE, "depends_on": ["a"]}, NODE]}, "cycle"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_a_graph_is_checked_as_one_document(tmp_path, name, body, code):
    path = tmp_path / name
    path.write_bytes(orjson.dumps(body, option=orjson.OPT_INDENT_2))
    done = tracklog("check", "--json", path)
    verdict, *found = map(orjson.loads, done.stdout.splitlines())
    assert (verdict["verdict"], verdict["kind"]) == ("accepted", "graph")
    assert done.stderr == b""
    names = {each["finding"] for each in found}
    assert code is None or code in names
    assert done.returncode == (0 if code is None else 1)
    assert all(each["level"] == "error" for each in found)


@pytest.mark.parametrize(
    ("data", "pointer", "word"),
    [
        (b"[1]", "", "a list"),
        (b"{", "", "not JSON"),
        (b"", "", "not JSON"),
        (b"{}", "/nodes", "nodes is missing"),
        (orjson.dumps({**graph(a=[]), "version": 2}), "/version", "2 is not 1"),
        (orjson.dumps({"version": 1, "nodes": []}), "/nodes", "at least 1"),
        (orjson.dumps(graph(A=[])), "/nodes/0/id", "does not match"),
        (orjson.dumps(graph(a=[], b=["a", "a"])), "/nodes/1/depends_on", "unique"),
    ],
)
def test_a_graph_of_another_shape_is_refused_with_every_place(tmp_path, data, pointer, word):
    path = tmp_path / "graph.json"
    path.write_bytes(data)
    done = tracklog("check", "--json", path)
    assert done.returncode == 1
    (verdict,) = map(orjson.loads, done.stdout.splitlines())
    told = {each["pointer"]: each["message"] for each in verdict["problems"]}
    assert word in told[pointer]


def test_a_json_file_of_lines_is_checked_line_by_line(tmp_path):
    path = tmp_path / "events.json"
    path.write_bytes(CLEAN.read_bytes())
    assert b"8 accepted" in tracklog("check", path).stdout
