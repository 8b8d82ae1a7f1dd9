"""Lines with only the keys that the guides of awf and ralph name, through every way in.

Both guides show fewer keys than their schemas require. Such lines are accepted and their findings
name what is missing; the published schemas stay strict.
"""

import re
from uuid import UUID

import jsonschema_rs
import orjson
import pytest

from support.collecting import NDJSON, collector
from support.forking import tracklog

RUN, CHILD = str(UUID(int=1, version=4)), str(UUID(int=2, version=4))
AT = "2026-05-05T09:00:{:02}.000Z"

RALPH = [
    {"type": "run_start", "run_id": "rocky-1", "ts": AT.format(0), "actor": "rocky"},
    {"type": "node_attempt", "run_id": "rocky-1", "node_id": "p", "attempt": 1, "ts": AT.format(1)},
    {"type": "node_transition", "run_id": "rocky-1", "node_id": "p", "outcome": "partial"},
    {
        "type": "node_transition", "run_id": "rocky-1", "node_id": "p", "outcome": "partial",
        "convergence_score": 0.5, "early_stop_reason": "plateau",
    },
    {"type": "run_end", "run_id": "rocky-1", "outcome": "partial", "ts": AT.format(2)},
]  # fmt: skip


def exchange(seq, kind, path, payload, **more):
    """An event of the awf guide: "a strictly monotonic seq, the workflow run_id, the path of the
    current step, a UTC timestamp, and a typed payload"."""
    envelope = {"seq": seq, "run_id": RUN, "path": path, "timestamp": AT.format(seq)}
    return {**envelope, "type": kind, "payload": payload, **more}


CALL = {"tool_name": "search", "tool_id": "t-1", "tool_input": {"q": "fins"}}
AWF = [
    exchange(1, "run.started", "", {}),
    exchange(2, "step.started", "all.build", {"kind": "agent"}),
    exchange(3, "message.user", "all.build", {"prompt": "Mend it", "system_prompt": "Be brief"}),
    exchange(4, "tool.call", "all.build", {"fidelity": "router", **CALL}),
    exchange(5, "tool.result", "all.build", {"fidelity": "router", "tool_content": "3 fins"}),
    exchange(6, "message.assistant", "all.build", {"blocks": [
        {"type": "text", "text": "It is mended", "fidelity": "agent_emitted"}]}),
    exchange(7, "step.completed", "all.build", {}),
    exchange(8, "step.call_workflow.started", "all.ship", {}, child_run_id=CHILD),
    exchange(9, "step.call_workflow.completed", "all.ship", {}),
    exchange(10, "run.completed", "", {}),
]  # fmt: skip
GUIDES = {
    "ralph": (RALPH, "rocky-1", {"upstream-key"}),
    "awf": (AWF, RUN, {"no-iteration", "no-blocks"}),
}


@pytest.fixture(params=GUIDES)
def guide(request):
    lines, run, findings = GUIDES[request.param]
    return request.param, [orjson.dumps(line) for line in lines], run, findings


def send(way, home, folder, text):
    """The lines through one way in; how many were accepted and refused."""
    file = folder / "lines.jsonl"
    file.write_bytes(text)
    if way == "post":
        with collector(home) as server:
            answer = server.http.post("/api/events", content=text, headers=NDJSON).json()
        return answer["accepted"], answer["refused"]
    words = {"pipe": ["record"], "file": ["record", file], "follow": ["follow", "--once", folder]}
    done = tracklog(home, *words[way], given=text if way == "pipe" else None)
    assert done.returncode == 0, done.stderr
    return tuple(
        int(re.search(rf"(\d+) {word}".encode(), done.stderr + done.stdout)[1])
        for word in ("accepted", "refused")
    )


@pytest.mark.parametrize("way", ["pipe", "file", "follow", "post"])
def test_every_line_is_accepted_unchanged_and_its_findings_name_what_is_missing(
    tmp_path, guide, way
):
    dialect, lines, run, names = guide
    home, folder = tmp_path / "home", tmp_path / "logs"
    folder.mkdir()
    assert send(way, home, folder, b"".join(line + b"\n" for line in lines)) == (len(lines), 0)
    events = tracklog(home, "events", run, "--json").stdout.splitlines()
    assert {orjson.loads(event)["dialect"] for event in events} == {dialect}
    assert tracklog(home, "events", run, "--raw").stdout.splitlines() == lines
    printed = tracklog(home, "findings", "--json").stdout.splitlines()
    found = [orjson.loads(finding) for finding in printed]
    assert names <= {finding["name"] for finding in found}
    assert {finding["level"] for finding in found if finding["name"] in names} == {"warning"}


def test_what_the_lines_say_is_answered(tmp_path):
    home = tmp_path / "home"
    lines = b"".join(orjson.dumps(line) + b"\n" for line in [*RALPH, *AWF])
    assert tracklog(home, "record", given=lines).returncode == 0
    shown = orjson.loads(tracklog(home, "show", "rocky-1", "--json").stdout)
    assert (shown["outcome"], shown["passed"]) == ("partial", False)
    assert b"0.5" in tracklog(home, "query", "--json", "select scores from outcomes").stdout
    shown = orjson.loads(tracklog(home, "show", RUN, "--json").stdout)
    assert (shown["status"], shown["tool_calls"], shown["tool_failures"]) == ("done", 1, 0)
    story = tracklog(home, "story", RUN).stdout.decode()
    for text in ("build", "Mend it", "Be brief", "search", "3 fins", "It is mended"):
        assert text in story
    assert CHILD in tracklog(home, "tree").stdout.decode()


def test_check_accepts_them_with_the_same_findings(tmp_path, guide):
    _, lines, _, names = guide
    file = tmp_path / "lines.jsonl"
    file.write_bytes(b"".join(line + b"\n" for line in lines))
    done = tracklog(None, "check", file)
    assert done.returncode == 0, done.stdout
    assert b"refused  " not in done.stdout
    assert all(name.encode() in done.stdout for name in names)
    assert tracklog(None, "check", "--fail-on", "warning", file).returncode == 1


def test_the_published_schemas_stay_strict():
    for dialect, lines in (("kahn-ci", RALPH), ("ralph", RALPH), ("awf", AWF)):
        schema = orjson.loads(tracklog(None, "schema", dialect).stdout)
        for line in lines:
            body = {**line, "event": line["type"]}
            assert not jsonschema_rs.is_valid(schema, body), (dialect, line)
