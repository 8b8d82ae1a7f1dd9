"""The importers: what agents leave on disk, told as native lines."""

import os
import shutil
from collections import Counter
from pathlib import Path

import orjson
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.asking import ask
from support.soaking import SOAK
from tracklog.answers.tree import tree as tree_of
from tracklog.cli import tracklog
from tracklog.dialects.tracklog import line_id
from tracklog.formats import registry
from tracklog.formats.importers import Lift, LineWriter, Raw, run_id, utc_time
from tracklog.formats.importers._records import DAMAGED, events, records
from tracklog.formats.importing import Importing
from tracklog.home.home import Home
from tracklog.model.fact import Noted
from tracklog.testing import ImporterSuite, lines_of_file

SAMPLES = Path(__file__).parents[1] / "samples" / "importers"
CLAUDE, CODEX = SAMPLES / "claude", SAMPLES / "codex"
SESSION = "cfa1e878-62b5-4e40-b281-bbf9b250d766"
THREAD = "019982b8-3422-79e0-8b3b-05abaf4f3c3e"
ROLLOUT = CODEX / f"rollout-2025-09-25T15-12-14-{THREAD}.jsonl"
PARENT = "0a1b2c3d-4e5f-4061-8071-2a3b4c5d6e7f"
CHILD = "131b7347-fea5-45d3-8327-8000e3cf2a40"

WITH_SAMPLES = [name for name in registry.importer_names() if (SAMPLES / name).is_dir()]


@pytest.mark.parametrize("name", WITH_SAMPLES)
class TestEveryImporter(ImporterSuite):
    """The suite, on every importer of the folder that has samples."""

    rounds = 12 * SOAK

    @pytest.fixture(autouse=True)
    def _chosen(self, name):
        self.importer, self.samples = registry.importer(name), SAMPLES / name


def told(name, path, **options):
    lines, _, report = lines_of_file(registry.importer(name), path, **options)
    return [orjson.loads(line) for line in lines], report


def of(bodies, fact, **fields):
    return [
        body
        for body in bodies
        if body["fact"] == fact and all(body.get(key) == value for key, value in fields.items())
    ]


def write(path, *values, end=b"\n"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\n".join(map(orjson.dumps, values)) + end)
    return path


def claude(kind="user", n=1, **more):
    return {
        "type": kind,
        "uuid": f"u{n}",
        "parentUuid": f"u{n - 1}" if n > 1 else None,
        "sessionId": SESSION,
        "timestamp": f"2026-05-05T09:00:{n:02}.000Z",
        "cwd": "/tmp",
        "version": "2.1.0",
        **more,
    }


def codex(kind, n=1, **payload):
    return {"timestamp": f"2026-05-05T09:00:{n:02}Z", "type": kind, "payload": payload}


def meta(thread=THREAD, **more):
    return codex("session_meta", id=thread, cwd="/tmp", cli_version="0.50.0", **more)


@pytest.fixture
def home(tmp_path):
    with Home(tmp_path / "home", durability="os") as opened:
        yield opened


def costs(home):
    home.index.catch_up()
    return {row["of"].partition(":")[2]: row for row in ask(home, "costs")}


@pytest.mark.parametrize(
    ("tool", "native", "agent", "run"),
    [
        ("codex", THREAD, "", "ccaa664d-f560-4adf-a669-7ce101fa96c2"),
        ("claude", PARENT, "a0ad4f44468bdf20d", CHILD),
        ("claude", PARENT, "", PARENT),
        ("claude", PARENT.upper(), "", PARENT),
    ],
)
def test_run_ids_are_those_of_the_vectors(tool, native, agent, run):
    assert run_id(tool, native, agent) == run


def test_line_ids_are_those_of_the_vectors():
    out = LineWriter("codex", "1", "somewhere")
    out.run = "ccaa664d-f560-4adf-a669-7ce101fa96c2"
    data = b'{ "type": "x" }'
    out.about(Raw(0, data, orjson.loads(data)))
    assert out.write(Noted(label="x")) == "b4b7b0087dfc6123ffefc3e73d4cc525"
    assert out.write(Noted(label="x")) == line_id("codex", "1", out.run, data, n=1)


def test_equal_records_without_time_and_key_are_distinguished_and_others_are_not():
    out = LineWriter("codex", "1", "somewhere")
    out.run = "r"
    data = b'{"type":"x"}'
    ids = []
    for bare in (True, True, False, False):
        out.about(Raw(0, data, orjson.loads(data)), bare=bare)
        ids.append(out.write(Noted(label="x")))
    assert ids == [line_id("codex", "1", "r", data, k) for k in (0, 1, 0, 0)]


@pytest.mark.parametrize(
    ("given", "at"),
    [
        ("2026-05-05T09:00:00.123456789Z", "2026-05-05T09:00:00.123456789Z"),
        ("2026-05-05T09:00:00+02:00", "2026-05-05T07:00:00Z"),
        ("2026-05-05 09:00:00", "2026-05-05T09:00:00Z"),
        (1_777_777_777, "2026-05-03T03:09:37Z"),
        (1_777_777_777_250, "2026-05-03T03:09:37.25Z"),
        ("2026-02-30T09:00:00Z", None),
        ("yesterday", None),
        (True, None),
        (-5, None),
        ({"at": 1}, None),
    ],
)
def test_a_time_is_written_in_utc_or_not_at_all(given, at):
    assert utc_time(given) == at


def cut(data: bytes, *, final=True, offset=0, tmp=None):
    path = tmp / "file.jsonl"
    path.write_bytes(data)
    with path.open("rb") as file:
        return list(records(file, offset, lambda body: "type" in body, final=final))


DAMAGE = {
    "nul-tail": (b'{"type":"a"}\n' + b"\0" * 300, [{"type": "a"}]),
    "nul-inside": (b'{"type":"a\0b"}\n', [{"type": "a\0b"}]),
    "glued": (b'{"type":"a","da{"type":"b","x":1}\n', [{"type": "b", "x": 1}]),
    "newline-in-string": (b'{"type":"a","x":"one\ntwo"}\n', [{"type": "a", "x": "one\ntwo"}]),
    "bad-utf8": (b'{"type":"a\xff"}\n', [{"type": "a�"}]),
    "surrogate": (b'{"type":"\\ud83d"}\n', [{"type": "�"}]),
    "torn-tail": (b'{"type":"a"}\n{"type":"b","x":"ha', [{"type": "a"}]),
    "irreparable": (b'{"type":"a"}\n%%%\n{"type":"b"}\n', [{"type": "a"}, {"type": "b"}]),
    "bom": (b'\xef\xbb\xbf{"type":"a"}\n', [{"type": "a"}]),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_each_class_of_damage_is_named_and_what_can_be_read_is(name, tmp_path):
    data, wanted = DAMAGE[name]
    found = cut(data, tmp=tmp_path)
    assert [raw.value for raw in found if raw.value is not DAMAGED] == wanted
    assert name in {flaw for raw in found for flaw, _ in raw.flaws}


@pytest.mark.parametrize("name", [each for each in DAMAGE if each != "newline-in-string"])
def test_each_class_of_damage_is_named_in_a_stream_of_events_too(name, tmp_path):
    data, wanted = DAMAGE[name]
    path = tmp_path / "file.sse"
    bom = b"\xef\xbb\xbf" if data.startswith(b"\xef\xbb\xbf") else b""
    lines = data.removeprefix(bom).split(b"\n")
    path.write_bytes(bom + b"\n".join(b"data: " + line if line else b"" for line in lines))
    with path.open("rb") as file:
        found = list(events(file, 0, lambda body: "type" in body, final=True))
    assert [raw.value for raw in found if raw.value is not DAMAGED] == wanted
    flaws = {flaw for raw in found for flaw, _ in raw.flaws}
    assert name in flaws or name == "bom"


@pytest.mark.parametrize("last", [b"1", b"[1]", b'{"type":"b","x":[{"type":"c"}'])
def test_the_last_event_of_a_stream_is_read_when_it_is_complete(last, tmp_path):
    path = tmp_path / "file.sse"
    path.write_bytes(b'data: {"type":"a"}\n\ndata: ' + last)
    with path.open("rb") as file:
        found = list(events(file, 0, lambda body: "type" in body, final=True))
    assert [raw.value for raw in found if raw.value is not DAMAGED] == [{"type": "a"}]
    assert [flaw for raw in found for flaw, _ in raw.flaws] == ["torn-tail"]
    assert found[-1].through == found[-1].offset


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\u0085", "\x0b", "\x0c"])
def test_only_a_line_feed_ends_a_line(separator, tmp_path):
    raw = f'{{"type":"a{separator}b"}}\r\n{{"type":"c"}}\n'.encode()
    found = cut(raw, tmp=tmp_path)
    if separator >= "\x85":  # the others may not stand raw in JSON, and are mended or set aside
        assert [each.value for each in found] == [{"type": f"a{separator}b"}, {"type": "c"}]
    assert found[-1].value == {"type": "c"}


def test_a_last_line_without_its_end_is_waited_for_unless_nothing_more_comes(tmp_path):
    data = b'{"type":"a"}\n{"type":"b"}'
    assert [raw.value for raw in cut(data, final=False, tmp=tmp_path)] == [{"type": "a"}]
    assert [raw.value for raw in cut(data, tmp=tmp_path)] == [{"type": "a"}, {"type": "b"}]


def test_a_line_too_long_to_hold_is_passed_over_and_named(tmp_path):
    path = tmp_path / "long.jsonl"
    path.write_bytes(b'{"type":"a"}\n{"x":"' + b"x" * 5000 + b'"}\n{"type":"b"}\n')
    with path.open("rb") as file:
        found = list(records(file, 0, lambda _: True, final=True, cap=1000))
    assert [raw.value for raw in found if raw.value is not DAMAGED] == [
        {"type": "a"},
        {"type": "b"},
    ]
    assert found[1].flaws[0][0] == "oversized"
    assert found[1].offset == 13


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.binary(max_size=40) | st.sampled_from([b'{"type":"a"}', b"[1]", b"{", b'"x', b"\0"])
    )
)
def test_every_complete_readable_line_is_read_whatever_stands_around_it(tmp_path, lines):
    data = b"\n".join(lines) + b"\n"
    wanted = Counter()
    for line in data.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        try:
            wanted[orjson.dumps(orjson.loads(line.removesuffix(b"\r")))] += 1
        except orjson.JSONDecodeError:
            continue
    found = Counter(
        orjson.dumps(raw.value) for raw in cut(data, tmp=tmp_path) if raw.value is not DAMAGED
    )
    assert wanted <= found


def test_long_values_become_blobs_and_nothing_is_cut():
    kept = {}

    def put(content):
        kept[name := f"{len(kept):064}"] = content
        return name

    lift = Lift(put)
    png = "iVBORw0KGgo" + "A" * 8001
    value = {
        "short": "x" * 100,
        "long": "wörd " * 20_000,
        "url": "data:image/png;base64," + "QUJD" * 3000,
        "source": {"type": "base64", "media_type": "image/jpeg", "data": "QUJD" * 3000},
        "bare": png,
        "unknown": "Q1Jd" * 3000,
        "word": "y" * 9000,
        "signature": "QUJD" * 3000,
        "no": "data:image/png;base64," + "!" * 9000,
    }
    lifted = lift.value(value)
    assert lifted["short"] == value["short"]
    assert lifted["word"] == value["word"]
    assert lifted["signature"] == value["signature"]
    about = {key: lifted[key]["$blob"] for key in ("long", "url", "bare", "unknown", "no")}
    assert kept[about["long"]["sha256"]].decode() == value["long"]
    assert about["long"]["media_type"] == "text/plain"
    assert value["long"].startswith(about["long"]["preview"])
    assert (about["url"]["media_type"], kept[about["url"]["sha256"]]) == (
        "image/png",
        b"ABC" * 3000,
    )
    assert about["url"]["bytes"] == 9000
    assert lifted["source"]["data"]["$blob"]["media_type"] == "image/jpeg"
    assert about["bare"]["media_type"] == "image/png"
    assert kept[about["unknown"]["sha256"]].decode() == value["unknown"]
    assert kept[about["no"]["sha256"]].decode() == value["no"]


def test_a_line_of_many_small_values_is_made_light(tmp_path):
    many = {f"k{n}": "x" * 50 for n in range(60_000)}
    path = write(
        tmp_path / f"{SESSION}.jsonl", claude(message={"role": "user", "content": "hi"}, big=many)
    )
    lines, _, _ = lines_of_file(registry.importer("claude"), path)
    assert max(map(len, lines)) < 1 << 20
    said = next(body for line in lines if (body := orjson.loads(line))["fact"] == "Said")
    assert said["blocks"][0]["text"] == "hi"
    assert said["extra"]["$blob"]["media_type"] == "application/json"


def test_claude_a_real_conversation_gives_its_numbers(home):
    bodies, report = told("claude", CLAUDE / "real_full_session.jsonl")
    assert report.mapped["assistant"] == 27
    responses = {body.get("message_id") for body in of(bodies, "Said", role="assistant")}
    keys = {body["key"].partition(":")[0] for body in of(bodies, "Spent")}
    assert len(keys) == 10
    assert responses <= keys
    assert len(of(bodies, "Said", role="user")) == 2
    calls = {body["call_id"] for body in of(bodies, "Called")}
    returns = {body["call_id"] for body in of(bodies, "Returned")}
    assert (len(calls), len(returns), len(calls - returns)) == (23, 20, 3)
    Importing(home).bring([CLAUDE / "real_full_session.jsonl"])
    row = costs(home)[SESSION]
    assert row["output_tokens"] == 833
    assert row["input_tokens"] == 1223 + 21565 + 185540
    assert (row["cached_tokens"], row["cache_write_tokens"]) == (185540, 21565)
    assert row["lower_bound"]


def test_claude_unusual_shapes_are_all_stored():
    bodies, report = told("claude", CLAUDE / "edge_cases.jsonl")
    assert report.records() == 19
    assert dict(report.unknown) == {
        "a string": 1,
        "a number": 1,
        "an array": 1,
        "no type": 1,
        "user of an unknown shape": 1,
    }
    assert {body["origin"]["raw"] for body in bodies} == {
        __import__("hashlib").sha256(line).hexdigest()
        for line in (CLAUDE / "edge_cases.jsonl").read_bytes().split(b"\n")
    }
    assert len(of(bodies, "Said", injected=True)) == 3
    assert of(bodies, "Noted", label="title")[0]["cause"] == "edge_011"


def test_claude_a_sub_agent_is_a_run_of_its_own_below_its_parent(home):
    Importing(home).bring(Importing(home).below([CLAUDE / "subagent"]))
    home.index.catch_up()
    tree = tree_of(home)
    assert [(branch.key, branch.depth) for branch in tree] == [
        (f"tracklog:{PARENT}", 0),
        (f"tracklog:{CHILD}", 1),
    ]
    bodies, _ = told("claude", next(CLAUDE.glob("subagent/*/subagents/*.jsonl")))
    began = of(bodies, "Began")[0]
    assert (began["extra"]["agentType"], began["extra"]["spawnDepth"]) == ("general-purpose", 1)
    assert began["agent"] == "a0ad4f44468bdf20d"
    call, back = of(bodies, "Called")[0], of(bodies, "Returned")[0]
    assert call["synthetic_id"] is back["synthetic_id"] is True
    assert call["call_id"] == back["call_id"]


def test_claude_a_missing_parent_is_reported(tmp_path):
    shutil.copytree(CLAUDE / "subagent" / PARENT, tmp_path / PARENT)
    bodies, report = told("claude", next(tmp_path.glob("*/subagents/*.jsonl")))
    assert of(bodies, "Noted", label="finding")[0]["data"]["name"] == "parent-missing"
    assert report.repaired["parent-missing"] == 1


def reply(n, *blocks, id="m1", output=5, **more):
    message = {
        "id": id,
        "role": "assistant",
        "model": "claude-x",
        "content": list(blocks),
        "usage": {"input_tokens": 3, "output_tokens": output},
        **more,
    }
    return claude("assistant", n, message=message, requestId="r1")


def test_claude_one_response_on_several_lines_is_one_message_and_one_spend(tmp_path, home):
    text = {"type": "text", "text": "Hello"}
    use = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}}
    path = write(
        tmp_path / f"{SESSION}.jsonl",
        reply(1, text, output=1),
        reply(2, text, use, output=40),
        claude("attachment", 3, attachment={"type": "queued_command", "prompt": "and then?"}),
        reply(4, text, use, output=40, stop_reason="tool_use"),
    )
    bodies, _ = told("claude", path)
    said = of(bodies, "Said", role="assistant")
    assert [body["blocks"] for body in said] == [[text]]
    assert said[0]["message_id"] == "m1"
    assert len(of(bodies, "Called")) == 1
    assert of(bodies, "Said", role="user")[0]["blocks"] == [{"type": "text", "text": "and then?"}]
    Importing(home).bring([path])
    assert costs(home)[SESSION]["output_tokens"] == 40


def test_claude_a_longer_copy_takes_the_place_of_the_shorter(tmp_path, home):
    path = write(
        tmp_path / f"{SESSION}.jsonl",
        reply(1, {"type": "text", "text": "Hel"}),
        reply(2, {"type": "text", "text": "Hello"}),
        reply(3, {"type": "text", "text": "Hello, world"}),
        reply(4, {"type": "text", "text": "Another"}),
    )
    bodies, _ = told("claude", path)
    assert [body["data"] for body in of(bodies, "Noted", label="withdrawn")] == [
        {"from": "u1"},
        {"from": "u2"},
    ]
    Importing(home).bring([path])
    home.index.catch_up()
    (row,) = ask(home, "conversation", run=f"tracklog:{SESSION}")
    assert [part["text"] for part in row["parts"]] == ["Hello, world", "Another"]


def test_claude_a_prompt_that_goes_on_from_further_back_leaves_a_branch(tmp_path, home):
    def prompt(n, text, parent):
        message = {"role": "user", "content": text}
        return claude(n=n, parentUuid=parent, message=message)

    def answer(n, text, parent):
        return {**reply(n, {"type": "text", "text": text}, id=f"m{n}"), "parentUuid": parent}

    records = [
        prompt(1, "first", None),
        answer(2, "yes", "u1"),
        prompt(3, "wrong", "u2"),
        answer(4, "no", "u3"),
        claude("system", n=5, subtype="turn_duration", parentUuid="u4"),
        prompt(6, "right", "u2"),
        answer(7, "fine", "u6"),
        claude("system", n=8, subtype="turn_duration", parentUuid="u7"),
        prompt(9, "next", "u8"),
        prompt(10, "in a circle", "u10"),
    ]
    path = write(tmp_path / f"{SESSION}.jsonl", *records)
    Importing(home).bring([path])
    home.index.catch_up()
    rows = ask(home, "conversation", run=f"tracklog:{SESSION}")
    assert [(row["parts"][0]["text"], row["withdrawn"]) for row in rows] == [
        ("first", False), ("yes", False), ("wrong", True), ("no", True),
        ("right", False), ("fine", False), ("next", False), ("in a circle", False),
    ]  # fmt: skip
    assert costs(home)[SESSION]["output_tokens"] == 15  # what was taken back was paid for


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_claude_what_was_printed_and_its_file_count_once(tmp_path, home, order):
    held = reply(2, {"type": "text", "text": "yes"})
    printed = {"type": "assistant", "session_id": SESSION, "message": held["message"]}
    started = {"type": "system", "subtype": "init", "session_id": SESSION}
    held["message"]["model"] = "claude-sonnet-4-5"
    total = {"total_cost_usd": 0.5, "usage": held["message"]["usage"]}
    ended = {"type": "result", "subtype": "success", "session_id": SESSION, "is_error": False}
    paths = [
        write(tmp_path / "printed.jsonl", started, printed, ended | total),
        write(tmp_path / f"{SESSION}.jsonl", held),
    ]
    for n in order:
        Importing(home).bring([paths[n]])
        assert costs(home)[SESSION]["output_tokens"] == 5
        (paid,) = ask(home, "costs")
        assert (paid["calls"], paid["cost_usd"]) == (1, None)  # a total is never added
        assert paid["computed_usd"] == pytest.approx((3 * 3 + 5 * 15) / 1e6)
        (run,) = ask(home, "runs", now="2026-05-06T00:00:00.000Z")
        assert (run["cost_usd"], run["computed_usd"]) == (None, paid["computed_usd"])


def test_claude_what_no_person_typed_is_injected(tmp_path):
    texts = {
        "<system-reminder>x</system-reminder>": True,
        "Caveat: The messages below were generated while running local commands": True,
        "<command-name>/clear</command-name>": True,
        "what does <command-name> mean?": False,
        "plain": False,
    }
    records = [
        claude(n=n, message={"role": "user", "content": text}) for n, text in enumerate(texts, 1)
    ]
    records += [
        claude(n=10, isMeta=True, message={"role": "user", "content": "meta"}),
        claude(n=11, isCompactSummary=True, message={"role": "user", "content": "so far"}),
        claude(
            n=12, origin={"kind": "task-notification"}, message={"role": "user", "content": "x"}
        ),
        claude(
            n=13, message={"role": "user", "content": "<ide_selection>y</ide_selection>\nfix it"}
        ),
    ]
    bodies, _ = told("claude", write(tmp_path / f"{SESSION}.jsonl", *records))
    said = [
        ("".join(block["text"] for block in body["blocks"]), body.get("injected", False))
        for body in of(bodies, "Said")
    ]
    assert said == [
        *texts.items(),
        ("meta", True),
        ("so far", True),
        ("x", True),
        ("<ide_selection>y</ide_selection>\n", True),
        ("fix it", False),
    ]


def test_claude_errors_compaction_titles_and_modes_have_their_labels(tmp_path):
    path = write(
        tmp_path / f"{SESSION}.jsonl",
        claude(
            "system",
            1,
            subtype="compact_boundary",
            compactMetadata={"trigger": "auto", "preTokens": 9},
        ),
        claude("system", 2, subtype="api_error", error={"status": 529}, retryInMs=500),
        claude("system", 3, subtype="model_refusal_fallback", originalModel="a", fallbackModel="b"),
        claude("system", 4, subtype="turn_duration", durationMs=7),
        {"type": "ai-title", "aiTitle": "A title", "sessionId": SESSION},
        {"type": "permission-mode", "permissionMode": "plan", "sessionId": SESSION},
        {"type": "permission-mode", "permissionMode": "default", "sessionId": SESSION},
        {"type": "pr-link", "prUrl": "https://example.com/1", "sessionId": SESSION},
        claude(
            "assistant",
            5,
            isApiErrorMessage=True,
            message={"content": [{"type": "text", "text": "API Error"}]},
        ),
        claude("some-day", 6, what=1),
    )
    bodies, report = told("claude", path)
    notes = {body["label"]: body for body in of(bodies, "Noted")}
    assert notes["compaction"]["data"] == {"trigger": "auto", "preTokens": 9, "before": 9}
    assert notes["model-change"]["data"] == {"from": "a", "to": "b"}
    assert notes["turn_duration"]["data"] == {"durationMs": 7}
    assert notes["title"]["text"] == "A title"
    assert notes["mode-change"]["data"] == {"from": "plan", "to": "default"}
    assert notes["result"]["text"] == "https://example.com/1"
    assert len(of(bodies, "Noted", label="error")) == 2
    assert notes["some-day"]["data"]["what"] == 1
    assert dict(report.unknown) == {"some-day": 1}


@pytest.mark.parametrize(
    ("after", "status"),
    [([], "failed"), ([("yes", 6)], "done"), ([("yes", 6), (None, 7)], "failed")],
)
def test_claude_a_session_that_breaks_off_with_an_error_has_failed(tmp_path, home, after, status):
    def error(n):
        words = [{"type": "text", "text": "API Error: 529"}]
        return claude("assistant", n, isApiErrorMessage=True, message={"content": words})

    later = [
        error(n) if text is None else reply(n, {"type": "text", "text": text}) for text, n in after
    ]
    asked = claude(n=1, message={"role": "user", "content": "hi"})
    Importing(home).bring([write(tmp_path / f"{SESSION}.jsonl", asked, error(2), *later)])
    home.index.catch_up()
    [row] = ask(home, "runs")
    assert (row["status"], row["title"]) == (status, "hi")
    answer = ask(home, "series", metric=["runs"], by="outcome", since="2020-01-01")
    assert [each["key"] for each in answer["keys"]] == [status]


def test_claude_a_session_that_only_copied_another_is_done_and_has_its_title(tmp_path, home):
    lines = [
        claude(n=1, message={"role": "user", "content": "hi"}),
        reply(2, {"type": "tool_use", "id": "t", "name": "Bash", "input": {}}),
    ]
    fork = "3f1c1f2e-9a5b-4c7d-8e21-0a1b2c3d4e5f"
    write(tmp_path / f"{SESSION}.jsonl", *lines)
    copy = write(tmp_path / f"{fork}.jsonl", *({**each, "sessionId": fork} for each in lines))
    Importing(home).bring([tmp_path / f"{SESSION}.jsonl"])
    Importing(home).bring([copy])
    home.index.catch_up()
    rows = {row["run"]: row for row in ask(home, "runs")}
    assert {run: (row["status"], row["title"]) for run, row in rows.items()} == {
        SESSION: ("lost", "hi"),
        fork: ("done", "hi"),
    }
    asked = claude(n=9, message={"role": "user", "content": "other"}, sessionId=fork)
    write(copy, *({**each, "sessionId": fork} for each in lines), asked)
    Importing(home).bring([copy])
    home.index.catch_up()
    rows = {row["run"]: row for row in ask(home, "runs")}
    assert (rows[fork]["status"], rows[fork]["title"]) == ("lost", "other")


def test_claude_the_copies_of_a_fork_are_written_once_and_it_is_linked(tmp_path, home):
    copied = [
        claude(n=1, message={"role": "user", "content": "hi"}),
        reply(2, {"type": "text", "text": "yes"}),
    ]
    fork = "3f1c1f2e-9a5b-4c7d-8e21-0a1b2c3d4e5f"
    one = write(tmp_path / f"{SESSION}.jsonl", *copied)
    mine = [{**each, "sessionId": fork} for each in copied]
    own = claude(n=9, message={"role": "user", "content": "other"}, sessionId=fork)
    two = write(tmp_path / f"{fork}.jsonl", *mine, own)
    os.utime(one, (1, 1))
    Importing(home).bring([two, one])
    home.index.catch_up()
    bodies = [orjson.loads(record.line) for record in home.journal.records()]
    assert {body["run"] for body in bodies if body.get("copied")} == {fork}
    assert [
        body["blocks"][0]["text"] for body in of(bodies, "Said", run=fork) if not body.get("copied")
    ] == ["other"]
    link = of(bodies, "Linked", kind="fork")[0]
    assert (link["run"], link["parent"], link["origin"]["fidelity"]) == (fork, SESSION, "inferred")
    assert sum(row["output_tokens"] for row in costs(home).values()) == 5


def test_claude_a_sub_agent_among_its_parents_records_is_a_run_of_its_own(tmp_path):
    use = {"type": "tool_use", "id": "t1", "name": "Task", "input": {"prompt": "look"}}
    path = write(
        tmp_path / f"{SESSION}.jsonl",
        reply(1, use),
        claude(n=2, isSidechain=True, parentUuid=None, message={"role": "user", "content": "look"}),
        claude(n=3, isSidechain=True, message={"role": "user", "content": "more"}),
        claude(n=4, parentUuid="u1", message={"role": "user", "content": "thanks"}),
    )
    bodies, _ = told("claude", path)
    child = run_id("claude", SESSION, "u2")
    link = of(bodies, "Linked", kind="sub-run")[0]
    assert (link["run"], link["child"], link["call_id"]) == (SESSION, child, "t1")
    assert link["origin"]["fidelity"] == "inferred"
    said = [(body["run"], body["blocks"][0]["text"]) for body in of(bodies, "Said", role="user")]
    assert said == [(child, "look"), (child, "more"), (SESSION, "thanks")]


def test_claude_a_result_names_the_sub_agent_that_its_call_began(tmp_path):
    result = [{"type": "tool_result", "tool_use_id": "t1", "content": "done"}]
    record = claude(
        message={"role": "user", "content": result},
        toolUseResult={"agentId": "abc", "totalDurationMs": 1500},
    )
    bodies, _ = told("claude", write(tmp_path / f"{PARENT}.jsonl", record))
    link = of(bodies, "Linked", kind="sub-run")[0]
    assert (link["child"], link["call_id"]) == (run_id("claude", PARENT, "abc"), "t1")
    assert of(bodies, "Returned")[0]["seconds"] == 1.5


def test_codex_a_real_rollout_gives_its_numbers(home):
    bodies, report = told("codex", ROLLOUT)
    prompts = of(bodies, "Said", role="user")
    assert [body.get("injected", False) for body in prompts] == [True, False]
    calls = {body["call_id"] for body in of(bodies, "Called")}
    assert len(calls) == 34
    assert {body["call_id"] for body in of(bodies, "Returned")} == calls
    thoughts = [
        block
        for body in of(bodies, "Said")
        for block in body["blocks"]
        if block["type"] == "thinking"
    ]
    assert (len(thoughts), sum(bool(block["thinking"]) for block in thoughts)) == (33, 32)
    assert all(block["opaque"] for block in thoughts)
    assert report.opaque["encrypted_content"] == 33
    answers_given = [
        body
        for body in of(bodies, "Said", role="assistant")
        if any(block["type"] == "text" for block in body["blocks"])
    ]
    assert len(answers_given) == 1
    assert answers_given[0]["model"] == "gpt-5-codex"
    assert not report.unknown
    Importing(home).bring([ROLLOUT])
    row = costs(home)["ccaa664d-f560-4adf-a669-7ce101fa96c2"]
    assert (row["input_tokens"], row["cached_tokens"]) == (536_834, 472_320)
    assert (row["output_tokens"], row["reasoning_tokens"]) == (6_654, 4_096)
    assert not row["lower_bound"]


def test_codex_a_printed_stream_gives_its_numbers():
    bodies, _ = told("codex", CODEX / "exec_json_stream.jsonl")
    back = of(bodies, "Returned")
    assert [(each["exit_code"], each["ok"]) for each in back] == [(0, True)]
    blocks = [block["type"] for body in of(bodies, "Said") for block in body["blocks"]]
    assert Counter(blocks) == {"thinking": 2, "text": 1}
    spent = of(bodies, "Spent")
    assert [(each["usage"]["input_tokens"], each["usage"]["output_tokens"]) for each in spent] == [
        (6087, 204)
    ]
    assert not any("at" in body for body in bodies)


def test_codex_lines_of_the_first_generation_are_understood():
    bodies, report = told("codex", CODEX / "schema_drift.jsonl")
    assert [body["role"] for body in of(bodies, "Said")] == ["user", "assistant"]
    call, back = of(bodies, "Called")[0], of(bodies, "Returned")[0]
    assert (call["tool"], call["synthetic_id"], back["call_id"]) == (
        "translate",
        True,
        call["call_id"],
    )
    assert back["output"] == "hola"
    assert of(bodies, "Noted", label="world_state")
    assert not report.repaired
    assert not report.unknown


def usage(total, output):
    return {"total_token_usage": {"input_tokens": total, "output_tokens": output}}


def test_codex_only_changes_of_the_total_are_spent_and_a_drop_is_a_new_base(tmp_path):
    counts = [usage(100, 10), usage(100, 10), usage(300, 30), usage(50, 5), None]
    path = write(
        tmp_path / ROLLOUT.name,
        meta(),
        *[codex("event_msg", n, type="token_count", info=each) for n, each in enumerate(counts, 1)],
    )
    bodies, _ = told("codex", path)
    spent = [
        (each["usage"]["input_tokens"], each["usage"]["output_tokens"])
        for each in of(bodies, "Spent")
    ]
    assert spent == [(100, 10), (200, 20), (50, 5)]
    assert len({each["key"] for each in of(bodies, "Spent")}) == 3


def turn(n, id, total=None):
    found = [
        codex("event_msg", n, type="task_started", turn_id=id),
        codex(
            "response_item",
            n,
            type="message",
            role="user",
            content=[{"type": "input_text", "text": id}],
        ),
    ]
    if total:
        found.append(codex("event_msg", n, type="token_count", info=usage(total, total // 10)))
    return found


def test_codex_a_fork_does_not_repeat_its_parents_turns(tmp_path, home):
    child = "019982b8-3422-79e0-8b3b-05abaf4f3c3f"
    one = write(tmp_path / ROLLOUT.name, meta(), *turn(1, "t1", 100), *turn(2, "t2", 300))
    two = write(
        tmp_path / f"rollout-2026-05-05T09-00-00-{child}.jsonl",
        meta(child, forked_from_id=THREAD),
        meta(),
        *turn(5, "t1", 100),
        *turn(6, "t2", 300),
        *turn(7, "t3", 350),
    )
    summary = Importing(home).bring([one, two])
    assert summary.report().ignored["copied from the parent"] == 6
    found = costs(home)
    assert found[run_id("codex", child)]["input_tokens"] == 50
    assert found[run_id("codex", THREAD)]["input_tokens"] == 300
    bodies = [orjson.loads(record.line) for record in home.journal.records()]
    mine = of(bodies, "Said", run=run_id("codex", child))
    assert [body["blocks"][0]["text"] for body in mine] == ["t3"]
    assert of(bodies, "Linked", kind="fork")[0]["parent"] == run_id("codex", THREAD)


def test_codex_without_its_parent_a_fork_is_counted_completely_as_an_upper_bound(tmp_path, home):
    path = write(tmp_path / ROLLOUT.name, meta(forked_from_id="gone"), *turn(1, "t1", 100))
    Importing(home).bring([path])
    row = costs(home)[run_id("codex", THREAD)]
    assert (row["input_tokens"], row["upper_bound"]) == (100, True)


def test_codex_turns_of_a_fork_that_was_read_before_its_parent_count_once(tmp_path, home):
    child = "019982b8-3422-79e0-8b3b-05abaf4f3c3f"
    name = f"rollout-2026-05-05T09-00-00-{child}.jsonl"
    copied = [*turn(5, "t1", 100), *turn(6, "t2", 300)]
    two = write(tmp_path / name, meta(child, forked_from_id=THREAD), *copied, *turn(7, "t3", 350))
    Importing(home).bring([two])
    one = write(tmp_path / ROLLOUT.name, meta(), *turn(1, "t1", 100), *turn(2, "t2", 300))
    Importing(home).bring([one])
    assert sum(row["input_tokens"] for row in costs(home).values()) == 350


def test_codex_a_sub_agent_is_linked_from_both_ends(tmp_path):
    spawn = {"subagent": {"thread_spawn": {"parent_thread_id": "p1", "depth": 1}}}
    path = write(
        tmp_path / ROLLOUT.name,
        meta(source=spawn),
        codex("event_msg", 2, type="collab_agent_spawn_end", call_id="c1", new_thread_id="n1"),
    )
    bodies, _ = told("codex", path)
    up, down = of(bodies, "Linked", kind="sub-run")
    assert up["parent"] == run_id("codex", "p1")
    assert (down["child"], down["call_id"]) == (run_id("codex", "n1"), "c1")


def test_codex_each_message_of_a_paginated_rollout_is_written_once(tmp_path):
    said = {"type": "AgentMessage", "id": "i1", "content": [{"type": "Text", "text": "hello"}]}
    answer = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "hello"}],
    }
    items = [
        codex("event_msg", 1, type="item_completed", turn_id="t1", item=said),
        codex("response_item", 2, **answer),
    ]
    for order in (items, items[::-1], items[:1], items[1:]):
        bodies, _ = told("codex", write(tmp_path / ROLLOUT.name, meta(), *order))
        assert [body["blocks"][0]["text"] for body in of(bodies, "Said")] == ["hello"]


def test_codex_inline_images_become_blobs(tmp_path, home):
    url = "data:image/png;base64," + "QUJD" * 50_000
    content = [{"type": "input_image", "image_url": url}, {"type": "input_text", "text": "see"}]
    path = write(
        tmp_path / ROLLOUT.name,
        meta(),
        codex("response_item", 1, type="message", role="user", content=content),
    )
    summary = Importing(home).bring([path])
    assert summary.report().lifted == {"image/png": 1}
    said = next(
        body
        for record in home.journal.records()
        if (body := orjson.loads(record.line))["fact"] == "Said"
    )
    blob = said["blocks"][0]["chunk"]["image_url"]["$blob"]
    assert (blob["bytes"], blob["media_type"]) == (150_000, "image/png")
    assert home.blobs.get(blob["sha256"]) == b"ABC" * 50_000


def test_codex_a_raw_nul_survives(tmp_path):
    path = write(tmp_path / ROLLOUT.name, meta(), *turn(1, "aXb"))
    path.write_bytes(path.read_bytes().replace(b'"text":"aXb"', b'"text":"a\0b"'))
    bodies, report = told("codex", path)
    assert of(bodies, "Said")[0]["blocks"][0]["text"] == "a\0b"
    assert report.repaired == {"nul-inside": 1}
    assert of(bodies, "Noted", label="finding")[0]["kind"] == "nul-inside"


def test_codex_a_packed_rollout_is_the_same_conversation(tmp_path, home):
    import zstandard  # noqa: PLC0415  # here alone

    packed = tmp_path / f"{ROLLOUT.name}.zst"
    packed.write_bytes(zstandard.ZstdCompressor().compress(ROLLOUT.read_bytes()))
    first = Importing(home).bring([ROLLOUT])
    second = Importing(home).bring([packed])
    assert second.lines == {"duplicate": first.lines["accepted"]}


LISTED = {
    "claude": [
        *[("system", {"subtype": subtype}) for subtype in (
            "session_start", "init", "turn_duration", "stop_hook_summary", "compact_boundary",
            "api_error", "api_refusal", "model_refusal_fallback", "local_command", "away_summary",
            "informational", "error", "bridge_status",
        )],
        *[(kind, {}) for kind in (
            "summary", "file-history-snapshot", "progress", "queue-operation", "custom-title",
            "ai-title", "agent-name", "agent-setting", "last-prompt", "mode", "permission-mode",
            "pr-link", "bridge-session", "worktree-state", "relocated", "frame-link", "started",
            "result", "atis-latch", "tool_use", "tool_result",
        )],
        ("user", {"message": {"content": "hi"}}),
        ("assistant", {"message": {"content": "hi"}}),
        ("attachment", {"attachment": {"type": "plan_mode"}}),
    ],
    "codex": [
        *[("response_item", {"type": kind, "content": "x"}) for kind in (
            "message", "reasoning", "function_call", "function_call_output", "custom_tool_call",
            "custom_tool_call_output", "local_shell_call", "tool_search_call", "tool_search_output",
            "web_search_call", "image_generation_call", "agent_message", "compaction",
            "context_compaction", "ghost_snapshot", "additional_tools", "other",
        )],
        *[("event_msg", {"type": kind}) for kind in (
            "user_message", "agent_message", "agent_reasoning", "token_count", "task_started",
            "turn_started", "task_complete", "turn_aborted", "exec_command_end", "patch_apply_end",
            "mcp_tool_call_end", "web_search_end", "image_generation_end", "view_image_tool_call",
            "dynamic_tool_call_request", "dynamic_tool_call_response", "collab_agent_spawn_end",
            "collab_waiting_end", "collab_close_end", "sub_agent_activity", "thread_rolled_back",
            "undo_completed", "error", "context_compacted", "entered_review_mode",
            "exited_review_mode", "guardian_assessment", "thread_goal_updated",
            "thread_name_updated", "thread_settings_applied",
        )],
        ("event_msg", {"type": "item_completed", "item": {"type": "AgentMessage", "content": "x"}}),
        *[(kind, {"x": 1}) for kind in (
            "turn_context", "compacted", "world_state", "security_risk_score",
            "inter_agent_communication", "inter_agent_communication_metadata",
        )],
    ],
}  # fmt: skip  # lists of words, in rows


ANY = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=5) | st.just("2026-05-05T09:00:00Z"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(
        ["type", "content", "message", "id", "text", "info", "output", "item", "usage", "input"]
    ), inner, max_size=4),
    max_leaves=8,
)  # fmt: skip  # the keys are the point


@settings(
    deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.data())
def test_a_wrong_type_costs_the_field_and_never_the_record(tmp_path, data):
    name = data.draw(st.sampled_from(["claude", "codex"]))
    kind, more = data.draw(st.sampled_from(LISTED[name]))
    wrong = {**more, **data.draw(st.dictionaries(st.sampled_from(
        ["message", "content", "toolUseResult", "timestamp", "uuid", "arguments", "output", "call_id",
         "summary", "name", "item", "info", "compactMetadata", "attachment", "action", "result", "duration",
         "usage", "isSidechain", "agentId", "model", "turn_id", "error", "git", "source", "text"]
    ), ANY, max_size=4))}  # fmt: skip  # the keys are the point
    record = {**claude(kind, 3), **wrong} if name == "claude" else codex(kind, 3, **wrong)
    path = tmp_path / (f"{SESSION}.jsonl" if name == "claude" else ROLLOUT.name)
    first = claude(message={"role": "user", "content": "hi"}) if name == "claude" else meta()
    lines, _, report = lines_of_file(registry.importer(name), write(path, first, record))
    assert report.records() == 2
    ImporterSuite()._check(lines)


@settings(
    deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.data())
def test_damage_anywhere_loses_no_complete_readable_record(tmp_path, data):
    sample = data.draw(st.sampled_from([CLAUDE / "real_full_session.jsonl", ROLLOUT]))
    name = "claude" if sample.parent == CLAUDE else "codex"
    lines = sample.read_bytes().split(b"\n")[:-1]
    lines = data.draw(st.permutations(lines[:30]))
    broken = bytearray(b"\n".join(lines) + b"\n")
    for _ in range(data.draw(st.integers(0, 5))):
        broken[data.draw(st.integers(0, len(broken) - 1))] = data.draw(st.integers(0, 255))
    broken = broken[: data.draw(st.integers(0, len(broken)))]
    path = tmp_path / (f"{SESSION}.jsonl" if name == "claude" else ROLLOUT.name)
    path.write_bytes(broken)
    told_lines, _, report = lines_of_file(registry.importer(name), path)
    readable = [line for line in bytes(broken).split(b"\n") if line.strip() and _is_json(line)]
    assert report.records() >= len(readable)
    ImporterSuite()._check(told_lines)


def _is_json(line):
    try:
        orjson.loads(line)
    except orjson.JSONDecodeError:
        return False
    return True


@settings(
    deadline=None, max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.integers(0, 101_514), max_size=4))
def test_a_growing_file_is_brought_in_once_however_it_grew(tmp_path, cuts):
    data = (CLAUDE / "real_full_session.jsonl").read_bytes()
    path = tmp_path / f"{SESSION}.jsonl"
    shutil.rmtree(tmp_path / "grown", ignore_errors=True)
    with Home(tmp_path / "grown", durability="os") as home:
        for place in [*sorted(cuts), len(data)]:
            path.write_bytes(data[:place])
            Importing(home).bring([path], final=place == len(data))
        seen = [orjson.loads(record.line)["id"] for record in home.journal.records()]
    assert seen == [
        orjson.loads(line)["id"] for line in lines_of_file(registry.importer("claude"), path)[0]
    ]


def test_a_second_import_takes_nothing_and_opens_nothing(home, tmp_path):
    path = shutil.copy(ROLLOUT, tmp_path / ROLLOUT.name)
    assert Importing(home).bring([path]).lines["accepted"] == 147
    path.chmod(0)
    again = Importing(home).bring([path])
    assert (again.files, again.unchanged, again.lines, again.unread) == (0, 1, {}, [])


def test_without_the_cache_everything_is_read_again_to_no_effect(home):
    Importing(home).bring([ROLLOUT])
    shutil.rmtree(home.path / "sources")
    assert Importing(home).bring([ROLLOUT]).lines == {"duplicate": 147}
    assert Importing(home).bring([ROLLOUT], again=True).lines == {"duplicate": 147}


def three(tmp_path, *texts):
    records = [claude(n=n, message={"role": "user", "content": t}) for n, t in enumerate(texts, 1)]
    return write(tmp_path / f"{SESSION}.jsonl", *records)


def prompts(home):
    bodies = [orjson.loads(record.line) for record in home.journal.records()]
    return [body["blocks"][0]["text"] for body in of(bodies, "Said")]


@pytest.mark.parametrize(
    ("texts", "why"),
    [
        (("one", "two", "three"), None),
        (("one",), "truncated"),
        (("another", "two", "three"), "replaced"),
        (("one", "TWO", "three"), "replaced"),
    ],
)
def test_appended_truncated_and_replaced_files_are_distinguished(texts, why, tmp_path, home):
    Importing(home).bring([three(tmp_path, "one", "two")])
    summary = Importing(home).bring([three(tmp_path, *texts)])
    assert summary.again == ({why: 1} if why else {})
    assert summary.lines["refused"] == 0
    assert set(prompts(home)) == {"one", "two", *texts}
    assert len(prompts(home)) == len({"one", "two", *texts})


def test_a_file_under_another_name_goes_on_where_it_was(tmp_path, home):
    path = three(tmp_path, "one", "two")
    Importing(home).bring([path])
    path = path.rename(path.with_name(f"{SESSION}.old.jsonl"))
    with path.open("ab") as file:
        file.write(orjson.dumps(claude(n=3, message={"role": "user", "content": "three"})) + b"\n")
    importing = Importing(home)
    assert importing.bring([path]).lines == {"accepted": 1}
    assert importing.look_for_gone() == []


def test_a_deleted_source_is_reported_once_and_its_records_stay(tmp_path, home):
    path = three(tmp_path, "one")
    Importing(home).bring([path])
    path.unlink()
    assert Importing(home).look_for_gone() == [str(path)]
    assert Importing(home).look_for_gone() == []
    bodies = [orjson.loads(record.line) for record in home.journal.records()]
    gone = of(bodies, "Noted", label="source-gone")
    assert [(body["run"], body["data"]["path"]) for body in gone] == [(SESSION, str(path))]
    assert prompts(home) == ["one"]
    home.index.catch_up()
    [row] = ask(home, "runs", now="2026-05-05T10:00:00.000Z")
    assert row["source_gone"]
    assert row["silent_seconds"] > 3000  # a note on its file is no sign of life
    three(tmp_path, "one", "two")
    Importing(home).bring([path])
    assert prompts(home) == ["one", "two"]
    home.index.catch_up()
    [row] = ask(home, "runs", now="2026-05-05T10:00:00.000Z")
    assert row["source_gone"] is None


def test_a_cache_that_is_ahead_of_its_journal_is_not_believed(tmp_path):
    path = three(tmp_path, "one")
    with Home(tmp_path / "a", durability="os") as home:
        Importing(home).bring([path])
    (tmp_path / "b").mkdir()
    shutil.copytree(tmp_path / "a" / "sources", tmp_path / "b" / "sources")
    with Home(tmp_path / "b", durability="os") as home:
        assert Importing(home).bring([path]).lines["accepted"] == 3


def test_a_better_mapping_maps_every_record_again(tmp_path, home):
    from dataclasses import replace  # noqa: PLC0415  # here alone

    path = three(tmp_path, "one")
    Importing(home).bring([path])
    better = replace(registry.importer("claude"), mapping="9")
    summary = Importing(home, [better]).bring([path])
    assert (summary.again, summary.lines) == ({"mapping": 1}, {"accepted": 3})
    home.index.catch_up()
    assert len(list(home.index.states("conversation"))) == 1


def test_a_home_that_an_older_version_filled_is_read_again_with_a_notice(tmp_path):
    from dataclasses import replace  # noqa: PLC0415  # here alone

    path = write(tmp_path / f"{SESSION}.jsonl", reply(1, {"type": "text", "text": "Hello"}))
    with Home(tmp_path / "home", durability="os") as home:
        Importing(home, [replace(registry.importer("claude"), mapping="0")]).bring([path])
        kept = home.journal.last

    def run(*words):
        done = CliRunner().invoke(tracklog, [*map(str, words), "--home", str(home.path)])
        assert done.exit_code == 0, done.output
        return done.stdout

    again = run("import", path)
    assert f"{kept} accepted, 0 duplicate, 0 refused" in again
    assert "read from the start again, because the mapping has a new version: 1" in again
    assert "0 files read" in run("import", path)
    assert f"0 accepted, {kept} duplicate, 0 refused" in run("reimport")
    assert run("story", SESSION).count("Hello") == 1
    with Home(home.path, readonly=True) as home:
        assert home.journal.last == 2 * kept  # what was imported before stays recorded
        assert costs(home)[SESSION]["output_tokens"] == 5


def test_bytes_before_a_record_on_its_line_are_set_aside(tmp_path, home):
    whole = orjson.dumps(claude(message={"role": "user", "content": "hi"}))
    path = tmp_path / f"{SESSION}.jsonl"
    path.write_bytes(b'{"type":"user","uu' + whole + b"\n")
    Importing(home).bring([path])
    bodies = [orjson.loads(record.line) for record in home.journal.records()]
    found = of(bodies, "Noted", label="finding")[0]["data"]
    assert found["name"] == "glued"
    assert home.blobs.get(found["kept"]["$blob"]["sha256"]) + b"\n" == path.read_bytes()
    assert prompts(home) == ["hi"]


def test_a_dry_run_keeps_nothing(home):
    summary = Importing(home).bring([ROLLOUT], dry=True)
    assert summary.lines == {"told": 147}
    assert home.journal.last == 0
    assert not (home.path / "sources").exists()


def test_files_that_cannot_be_read_or_that_nobody_knows_are_named(tmp_path, home):
    strange = tmp_path / "strange.jsonl"
    strange.write_bytes(b'{"what":"ever"}\n')
    pipe = tmp_path / "pipe.jsonl"
    os.mkfifo(pipe)
    summary = Importing(home).bring([strange, pipe, tmp_path / "missing.jsonl"])
    assert summary.unrecognised == [str(strange)]
    assert [path for path, _ in summary.unread] == [str(pipe), str(tmp_path / "missing.jsonl")]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no full device")
def test_a_full_disk_is_not_reported_as_a_fault_of_the_source(tmp_path, home):
    path = three(tmp_path, "one")
    Importing(home).bring([path])
    [place] = (home.path / "sources").iterdir()
    place.with_suffix(f".{os.getpid()}.new").symlink_to("/dev/full")
    three(tmp_path, "one", "two")
    with pytest.raises(OSError, match="No space left on device"):
        Importing(home).bring([path])


def run(*arguments, code=0, **environment):
    result = CliRunner().invoke(tracklog, arguments, env=environment)
    assert result.exit_code == code, result.output
    return result


@pytest.fixture
def user(tmp_path, monkeypatch):
    """A user with a conversation of each agent in its usual place."""
    place = tmp_path / "user"
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(place))
    monkeypatch.setenv("TRACKLOG_HOME", str(tmp_path / "home"))
    shutil.copytree(CLAUDE / "subagent", place / ".claude" / "projects" / "-tmp")
    sessions = place / ".codex" / "sessions" / "2025" / "09" / "25"
    sessions.mkdir(parents=True)
    shutil.copy(ROLLOUT, sessions)
    archived = place / ".codex" / "archived_sessions"
    archived.mkdir()
    shutil.copy(ROLLOUT, archived)
    return place


def test_import_finds_the_usual_places_and_the_second_time_takes_only_what_is_new(user):
    first = orjson.loads(run("import", "--json").stdout)
    assert (first["files"], first["runs"]) == (3, 3)
    assert set(first["importers"]) >= {"claude", "codex"}
    again = orjson.loads(run("import", "--json").stdout)
    assert (again["files"], again["unchanged"], again["lines"]) == (0, 3, {})


def test_import_uses_the_configured_folders_of_agents(user, tmp_path):
    (user / ".claude").rename(tmp_path / "c")
    (user / ".codex").rename(tmp_path / "x")
    assert orjson.loads(run("import", "--json").stdout)["files"] == 0
    found = run(
        "import", "--json", CLAUDE_CONFIG_DIR=str(tmp_path / "c"), CODEX_HOME=str(tmp_path / "x")
    )
    assert orjson.loads(found.stdout)["files"] == 3


def test_import_says_what_it_did_and_what_it_did_not_understand(user, tmp_path):
    path = write(
        tmp_path / f"{SESSION}.jsonl", claude("some-day"), claude(n=2, message={"content": "x"})
    )
    said = run("import", str(path)).stdout
    assert "1 file read" in said
    assert "not recognised, stored complete: some-day 1" in said
    assert "mapped: user 1" in said


def test_import_of_nothing_says_where_to_look(user):
    shutil.rmtree(user)
    assert "name the files or folders" in run("import").stdout


def test_import_dry_run_and_reimport(user):
    assert "nothing was stored" in run("import", "--dry-run").stdout
    run("import")
    assert "0 accepted" in run("reimport").stdout


def test_follow_without_folders_imports_what_agents_write(user):
    said = run("follow", "--once").stdout
    assert ROLLOUT.name in said
    assert "147 accepted" in said
    assert run("follow", "--once", "--dialect", "awf", code=2)


def test_blob_gives_the_same_bytes_back(tmp_path, home, monkeypatch):
    name = home.blobs.put(b"\x00\xffbytes")
    monkeypatch.setenv("TRACKLOG_HOME", str(home.path))
    assert run("blob", name).stdout_bytes == b"\x00\xffbytes"
    run("blob", name, "-o", str(tmp_path / "out"))
    assert (tmp_path / "out").read_bytes() == b"\x00\xffbytes"


def test_the_importer_of_the_documentation_works(tmp_path):
    page = (Path(__file__).parents[2] / "docs/how-to/add-an-importer.md").read_text()
    made = {"__name__": "morse"}
    exec(page.split("```python\n")[1].split("```")[0], made)
    slip = {"station": "Paris", "text": "STOP", "sent": "1899-05-05T09:00:00Z"}
    write(tmp_path / "samples" / "slips.jsonl", slip, slip, {"station": "Paris"}, 7)
    lines, _, report = lines_of_file(made["importer"], tmp_path / "samples" / "slips.jsonl")
    assert len(lines) == 4
    assert (report.mapped["slip"], report.unknown["slip"]) == (2, 2)

    suite = ImporterSuite()
    suite.importer, suite.samples = made["importer"], tmp_path / "samples"
    for n, name in enumerate(name for name in dir(suite) if name.startswith("test_")):
        (tmp_path / str(n)).mkdir()
        getattr(suite, name)(tmp_path / str(n))


def test_import_with_redact_keeps_no_secret_in_lines_or_blobs(user, tmp_path):
    secret = "ghp_" + "a1B2" * 9
    path = three(tmp_path, f"use {secret}", f"{'words ' * 20_000}{secret}")
    run("import", "--redact", str(path))
    kept = [each for each in (tmp_path / "home").rglob("*") if each.is_file()]
    assert len([each for each in kept if "blobs" in each.parts]) == 1
    assert not [each for each in kept if secret.encode() in each.read_bytes()]
    assert any(b"[redacted:" in each.read_bytes() for each in kept if "blobs" in each.parts)


def test_claude_outputs_too_big_for_a_conversation_are_stored_with_it(user):
    conversation = next((user / ".claude" / "projects" / "-tmp").glob("*.jsonl"))
    results = conversation.with_suffix("") / "tool-results"
    results.mkdir(parents=True)
    (results / "toolu_01.txt").write_text("a line\n" * 20_000)
    (results / "toolu_02.jsonl").write_text('{"type": "user"}\n')
    lists = user / ".claude" / "todos"
    lists.mkdir()
    (lists / f"{conversation.stem}-agent-{conversation.stem}.json").write_text('[{"content": "x"}]')
    (lists / f"{SESSION}-agent-{SESSION}.json").write_text("[]")
    assert orjson.loads(run("import", "--json").stdout)["files"] == 6
    with Home(user.parent / "home") as home:
        lines = [orjson.loads(record.line) for record in home.journal.records()]
        [first, second] = sorted(
            (line for line in lines if line.get("label") == "tool-result"),
            key=lambda line: line["data"]["call_id"],
        )
        assert first["run"] == second["run"] == conversation.stem
        assert first["data"]["call_id"] == "toolu_01"
        blob = home.blobs.get(first["data"]["output"]["$blob"]["sha256"])
        assert blob == b"a line\n" * 20_000
        [todo] = [line for line in lines if line.get("label") == "todos"]
        assert (todo["run"], todo["data"]) == (conversation.stem, [{"content": "x"}])
    assert orjson.loads(run("import", "--json").stdout)["files"] == 0


def test_typed_prompts_are_notes_on_their_conversations_and_never_prompts(tmp_path):
    typed = {"display": "fix it", "pastedContents": {}, "timestamp": 1_777_000_000_000,
             "project": "/w", "sessionId": SESSION}  # fmt: skip  # one record
    path = write(tmp_path / "history.jsonl", typed, {**typed, "sessionId": None}, "odd")
    [first, second, _], report = told("claude", path)
    assert (first["run"], first["fact"], first["text"]) == (SESSION, "Noted", "fix it")
    assert first["data"] == {"project": "/w"}
    assert second["run"] != SESSION
    assert report.unknown == {"history": 1}
    path = write(
        tmp_path / "history.jsonl", {"session_id": THREAD, "ts": 1_777_000_000, "text": "go"}
    )
    assert registry.importer("codex").recognise(path, path.read_bytes()) > 0.9
    [line], _ = told("codex", path)
    assert (line["fact"], line["text"]) == ("Noted", "go")
    assert line["run"] == run_id("codex", THREAD)


PRINTED = [
    {"type": "thread.started", "thread_id": THREAD},
    {"type": "turn.started"},
    *[
        {"type": f"item.{utc_time}", "item": {"id": f"item_{n}", "type": kind, "text": "x"}}
        for n, kind in enumerate((
            "agent_message", "reasoning", "command_execution", "file_change", "mcp_tool_call",
            "collab_tool_call", "web_search", "todo_list", "error",
        ))
        for utc_time in ("started", "updated", "completed")
    ],
    {"type": "item.completed", "item": {"id": "i", "item_type": "assistant_message", "text": "x"}},
    {"type": "turn.completed", "usage": {"input_tokens": 1, "output_tokens": 2}},
    {"type": "turn.started"},
    {"type": "turn.failed", "error": {"message": "no"}},
    {"type": "error", "message": "no"},
]  # fmt: skip  # a list to be read


def test_every_printed_item_that_is_known_is_understood(tmp_path):
    lines, report = told("codex", write(tmp_path / "printed.jsonl", *PRINTED))
    assert not report.unknown
    assert len(of(lines, "Called")) == len(of(lines, "Returned")) == 5


BLOCKS = [
    {"type": "text", "text": "x"},
    {"type": "thinking", "thinking": "x", "signature": "s"},
    {"type": "redacted_thinking", "data": "s"},
    {"type": "tool_use", "id": "t1", "name": "Read", "input": {}},
    {"type": "server_tool_use", "id": "t2", "name": "web_search", "input": {}},
    {"type": "web_search_tool_result", "tool_use_id": "t2", "content": []},
    {"type": "fallback", "x": 1},
]


def test_every_part_of_a_claude_message_becomes_a_fact(tmp_path):
    answer = claude("assistant", message={"id": "m", "model": "claude", "content": BLOCKS})
    asked = [{"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "o"}]},
             {"type": "image", "source": {"type": "base64", "data": "", "media_type": "image/png"}},
             {"type": "document", "source": {}}]  # fmt: skip  # one message
    back = claude("user", n=2, message={"role": "user", "content": asked})
    lines, report = told("claude", write(tmp_path / f"{SESSION}.jsonl", answer, back))
    assert not report.unknown
    [first, rest] = [line["blocks"] for line in of(lines, "Said", role="assistant")]
    assert [block["type"] for block in first] == ["text", "thinking", "thinking"]
    assert [block["provider_type"] for block in rest] == ["fallback"]
    assert [line["call_id"] for line in of(lines, "Called")] == ["t1", "t2"]
    assert [line["call_id"] for line in of(lines, "Returned")] == ["t2", "t1"]
    [shown] = of(lines, "Said", role="user")
    assert [block["provider_type"] for block in shown["blocks"]] == ["image", "document"]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.dictionaries(st.sampled_from(
    ["type", "payload", "item", "sessionId", "uuid", "data", "role", "id", "git", "session_id"]
), st.none() | st.integers(0, 9) | st.text(max_size=3) | st.lists(st.integers(0, 9), max_size=2)
   | st.dictionaries(st.text(max_size=2), st.none(), max_size=1)), max_size=5))  # fmt: skip
def test_whatever_a_file_begins_with_every_importer_can_look_at_it(values):
    head = b"".join(orjson.dumps(value) + b"\n" for value in values)
    for importer in registry.importers():
        assert 0 <= importer.recognise(Path("some.jsonl"), head) <= 1
        assert importer.form(Path("some.jsonl"), head) in (
            "lines",
            "document",
            "sse",
            "text",
            "store",
        )


@pytest.mark.parametrize("words", [
    'it answers {"object": "chat.completion.chunk", "id": "chatcmpl-1"}, then {"id": "resp_1"}',
    'the schema is {"schema_version": "ATIF-v1.7", "trajectory_id": "t", "steps": []}',
    '{"specversion": "1.0", "source": "/x"} and {"type": "RUN_STARTED", "threadId": "t"}',
    '{"type": "TEXT_MESSAGE_START"} {"type": "assistant.message", "data": {}}',
])  # fmt: skip
def test_a_conversation_about_a_format_is_not_taken_for_it(words, tmp_path, home):
    mine = write(tmp_path / "mine.jsonl", claude(message={"role": "user", "content": words}))
    assert Importing(home).importer_of(mine).name == "claude"
    other = codex("response_item", type="message", role="user", content=words)
    theirs = write(tmp_path / "theirs.jsonl", meta(), other)
    assert Importing(home).importer_of(theirs).name == "codex"


def test_codex_what_an_editor_put_before_a_request_is_not_the_persons(tmp_path):
    ide = "# Context from my IDE setup:\n\n## Active file: a.py\n\n## My request for Codex:\nfix it"
    around = "<environment_context>\n  <cwd>/w</cwd>\n</environment_context>"
    texts = [[ide], [around, "go on"], [around], ["# Context from my IDE setup:\nno more"]]
    records = [
        codex("response_item", n, type="message", role="user", content=[
            {"type": "input_text", "text": text} for text in each])
        for n, each in enumerate(texts, 1)
    ]  # fmt: skip
    lines, _ = told("codex", write(tmp_path / ROLLOUT.name, meta(), *records))
    said = of(lines, "Said", role="user")
    assert [line.get("injected", False) for line in said] == [False, False, True, False]
    blocks = [block for line in said if not line.get("injected") for block in line["blocks"]]
    typed = [block["text"] for block in blocks if not block.get("injected")]
    assert typed == ["fix it", "go on", "# Context from my IDE setup:\nno more"]
    assert len(blocks) == 5


@pytest.mark.parametrize("name", ["events", "events.log", "events.ndjson"])
def test_a_file_of_lines_of_a_dialect_is_known_by_its_content_whatever_its_name(
    user, tmp_path, name
):
    line = (
        b'{"ts":"2026-05-05T09:00:00.000Z","run_id":"r","event":"agent_run_start",'
        b'"agent_id":"coder","task":"t"}\n'
    )
    (tmp_path / name).write_bytes(line + b'{"ts":"2026')
    done = run("import", str(tmp_path / name), code=1)
    assert "1 accepted, 0 duplicate, 0 refused, of 1 run" in done.stdout
    assert f"{name}, line 2: not stored: the line is torn" in done.stderr


def test_a_text_that_quotes_an_event_is_no_file_of_events(user, tmp_path):
    line = (
        '{"ts":"2026-05-05T09:00:00.000Z","run_id":"r","event":"agent_run_start",'
        '"agent_id":"coder","task":"t"}'
    )
    path = tmp_path / "notes.txt"
    path.write_text(f"An event looks like this:\n\n{line}\n\nMore words.\n")
    done = run("import", str(path), code=2)
    assert "not recognised: 1 (" in done.stdout + done.stderr


def test_an_import_that_recognises_nothing_says_so_and_fails(user, tmp_path):
    (tmp_path / "x.txt").write_text("hello\n")
    done = run("import", str(tmp_path / "x.txt"), code=2)
    assert "not recognised: 1" in done.stdout
    assert "`tracklog record FILE` reads lines of a dialect" in done.stdout
