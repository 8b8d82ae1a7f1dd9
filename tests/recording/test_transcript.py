"""Reading transcripts: every flaw named at its place, everything else read, to the end."""

import asyncio
import io
import json
import os
import re
import threading
import time

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from support.transcribing import bodies, called, opened, run_id, said, step
from tracklog.cli import tracklog as cli
from tracklog.model.errors import InvalidEvent, TranscriptLocked
from tracklog.recording.recorder import Recorder
from tracklog.recording.transcript import (
    Flaw,
    Follow,
    TranscriptEvent,
    TranscriptReader,
    examine,
    lint,
    load,
    repair,
    tree,
    verify_chain,
)

RUN = "7da9247c-e99e-4852-ac0a-aaf196ae31fa"


def body(seq=1, type="step.started", payload=None, **more) -> dict:
    return {
        "seq": seq,
        "run_id": RUN,
        "type": type,
        "path": "a",
        "iteration": 0,
        "timestamp": "2026-05-05T09:00:00.000000Z",
        "payload": step() if payload is None else payload,
        **more,
    }


def line(seq=1, *args, **more) -> bytes:
    return json.dumps(body(seq, *args, **more), separators=(",", ":")).encode()


def read(data: bytes, **options):
    events, flaws = TranscriptReader(data, **options).read_all()
    return [event.seq for event in events], [
        (flaw.name, flaw.number, flaw.offset) for flaw in flaws
    ]


@pytest.mark.requirement("AWF-4", "AWF-46")
def test_a_hundred_recorded_events_are_read_without_a_flaw_byte_for_byte(tmp_path):
    with opened(tmp_path, durability="os") as recorder:
        written = [
            recorder.record("message.assistant", said(f"é{n}\u2028")).line for n in range(100)
        ]
    events, flaws = TranscriptReader(recorder.path).read_all()
    assert flaws == []
    assert [event.line for event in events] == written
    assert [event.seq for event in events] == list(range(1, 101))
    assert all(event.known for event in events)
    content = recorder.path.read_bytes()
    for event in events:
        assert content[event.offset :].startswith(event.line + b"\n")
        assert content[: event.offset].count(b"\n") == event.number - 1


@pytest.mark.parametrize("source", ["path", "text", "stream", "bytes"])
def test_any_source_gives_the_same(tmp_path, source):
    path = tmp_path / "x.jsonl"
    path.write_bytes(line(1) + b"\n" + line(2) + b"\n")
    path.chmod(0o600)
    given = {
        "path": path,
        "text": str(path),
        "stream": io.BytesIO(path.read_bytes()),
        "bytes": path.read_bytes(),
    }[source]
    assert read(given) == ([1, 2], [])


def test_empty_input_and_blank_lines_give_nothing():
    assert read(b"") == ([], [])
    assert read(b"\n\n  \n\r\n") == ([], [])
    assert read(b"\n" + line(1) + b"\n\n" + line(2) + b"\n") == ([1, 2], [])


def test_crlf_is_accepted_and_a_byte_order_mark_is_reported():
    assert read(line(1) + b"\r\n" + line(2) + b"\r\n") == ([1, 2], [])
    assert read(b"\xef\xbb\xbf" + line(1) + b"\n") == ([1], [("bom", 1, 0)])


@pytest.mark.parametrize("size", [1 << 20, 100 << 20])
def test_a_line_has_no_cap(size):
    data = (
        line(1) + b"\n" + line(2, "message.assistant", said("x" * size)) + b"\n" + line(3) + b"\n"
    )
    assert read(data) == ([1, 2, 3], [])


GOOD = line(1)
DAMAGES = {
    "syntax": (b'{"seq":1,"run_id', ["syntax"], 0),
    "prose": (b"Traceback (most recent call last):", ["syntax"], 0),
    "number": (b"42", ["not_object"], 0),
    "string": (b'"x"', ["not_object"], 0),
    "array": (b"[1]", ["not_object"], 0),
    "null": (b"null", ["not_object"], 0),
    "nan": (GOOD.replace(b'"iteration":0', b'"iteration":NaN'), ["syntax"], 0),
    "torn prefix": (GOOD[:90] + GOOD, ["glued"], 1),
    "torn in a payload": (line(1, "message.assistant", said())[:200] + GOOD, ["glued"], 1),
    "two objects": (GOOD + GOOD, ["glued"], 2),
    "two and a torn one": (GOOD + b" " + GOOD + GOOD[:50], ["glued"], 2),
    "raw nul": (GOOD.replace(b"build", b"bu\0ild"), ["nul"], 1),
    "nul fill": (b"\0" * 50, ["nul_fill"], 0),
    "nul fill before": (b"\0" * 50 + GOOD, ["nul_fill"], 1),
    "nul fill behind": (GOOD + b"\0" * 50, ["nul_fill"], 1),
    "bad utf8": (GOOD.replace(b"build", b"bu\xffild"), ["utf8"], 1),
    "no type": (b'{"seq":1}', ["no_type"], 1),
    "type is no string": (b'{"seq":1,"type":5}', ["no_type"], 1),
    "key twice": (GOOD[:-1] + b',"seq":7}', ["dup_key"], 1),
    "key twice inside": (GOOD.replace(b'"kind":', b'"name":"b","kind":'), ["dup_key"], 1),
    "wrong type": (GOOD.replace(b'"iteration":0', b'"iteration":"0"'), ["bad_field"], 1),
    "boolean number": (GOOD.replace(b'"iteration":0', b'"iteration":true'), ["bad_field"], 1),
    "payload of another class": (line(1, "step.started", said()), ["payload_mismatch"], 1),
    "payload missing": (line(1, "message.user", []), ["payload_mismatch"], 1),
    "unknown fidelity": (line(1, "tool.call", called() | {"fidelity": "me"}), ["bad_field"], 1),
}


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_bad_line_is_one_problem_at_its_place_and_all_others_are_read(damage, place):
    bad, names, events = DAMAGES[damage]
    lines = [line(11), line(12)]
    lines.insert(place, bad)
    data = b"".join(each + b"\n" for each in lines)
    offset = sum(len(each) + 1 for each in lines[:place])
    found, flaws = TranscriptReader(data).read_all()
    assert {(flaw.number, flaw.offset) for flaw in flaws} == {(place + 1, offset)}
    assert {flaw.name for flaw in flaws} == set(names)
    assert all(flaw.message for flaw in flaws)
    assert len(found) == 2 + events
    assert {11, 12} <= {event.seq for event in found}


def test_a_last_line_without_its_end_is_torn_or_only_unterminated():
    whole, cut = line(1) + b"\n" + line(2), line(1) + b"\n" + line(2)[:40]
    offset = len(line(1)) + 1
    assert read(whole) == ([1, 2], [("unterminated", 2, offset)])
    assert read(cut) == ([1], [("torn", 2, offset)])
    assert read(line(1) + b"\n\0\0\0") == ([1], [("nul_fill", 2, offset)])


def test_for_every_byte_at_which_a_file_is_cut_every_complete_line_is_read():
    data = b"".join(
        each + b"\n" for each in (line(1), line(2, "message.assistant", said("é")), line(3))
    )
    for size in range(len(data) + 1):
        seqs, flaws = read(data[:size])
        whole = data[:size].count(b"\n")
        complete = data[size : size + 1] == b"\n"
        assert seqs == list(range(1, whole + 1 + complete))
        torn = size > 0 and data[size - 1 : size] != b"\n"
        assert [name for name, _, _ in flaws] == ["unterminated" if complete else "torn"] * torn


@settings(max_examples=200)
@given(st.lists(st.binary(max_size=60) | st.just(line(1)) | st.just(line(2)[:70]), max_size=6))
def test_no_bytes_make_the_reader_raise_or_stop(chunks):
    data = b"\n".join(chunks)
    for found in TranscriptReader(data):
        assert found.offset < len(data)


def test_a_nul_survives_as_a_character():
    (event,), _ = TranscriptReader(line(1).replace(b"build", b"bu\0ild") + b"\n").read_all()
    assert event.body["payload"]["name"] == "bu\0ild"
    assert b"\0" in event.line


@pytest.mark.requirement("AWF-25")
@pytest.mark.parametrize("strict", [False, True])
def test_an_unknown_type_is_surfaced_intact_and_never_raised(strict):
    data = line(1, "run.paused", {"why": "lunch"}, mine=1) + b"\n"
    (event,), flaws = TranscriptReader(data, strict=strict).read_all()
    assert (event.type, event.known, event.body["mine"]) == ("run.paused", False, 1)
    assert event.line + b"\n" == data
    assert [(flaw.name, flaw.level) for flaw in flaws] == [("unknown_type", "error")] * strict
    assert all("run.paused" in flaw.message for flaw in flaws)


@pytest.mark.parametrize("strict", [False, True])
def test_an_unknown_block_is_surfaced_intact(strict):
    block = {"type": "hologram", "fidelity": "router", "depth": 3}
    data = line(1, "message.assistant", said() | {"blocks": [block]}) + b"\n"
    (event,), flaws = TranscriptReader(data, strict=strict).read_all()
    assert event.body["payload"]["blocks"] == [block]
    assert [flaw.name for flaw in flaws] == ["unknown_block"] * strict
    assert all("hologram" in flaw.message for flaw in flaws)


def test_integers_beyond_64_bits_and_surrogates_stay_exact_in_views(tmp_path):
    raw = line(1, "message.assistant", said("a\ud800b", big=2**70))
    run = one_run(story(tmp_path, raw))
    assert run.messages[0].text == "a\ud800b"
    assert run.events[0].payload["big"] == 2**70


def test_strict_raises_on_a_known_key_with_an_impossible_value():
    data = line(1, "tool.call", called() | {"fidelity": "me"}) + b"\n"
    with pytest.raises(InvalidEvent, match="fidelity"):
        TranscriptReader(data, strict=True).read_all()


def test_numbers_and_unknown_keys_are_stored_as_they_were_written():
    raw = line(1)[:-1] + b',"big":123456789012345678901234567890,"odd":1.50,"deep":{"x":[1e3]}}'
    (event,), flaws = TranscriptReader(raw + b"\n").read_all()
    assert flaws == []
    assert event.line == raw
    assert event.body["big"] == 123456789012345678901234567890
    assert event.body["deep"] == {"x": [1000.0]}


def test_a_lone_surrogate_is_read_back_equal():
    raw = line(1, "message.assistant", said("a\ud800b"))
    assert rb"\ud800" in raw
    (event,), flaws = TranscriptReader(raw + b"\n").read_all()
    assert flaws == []
    for body in (event.body, event.event.body):
        assert body["payload"]["blocks"][0]["text"] == "a\ud800b"


def test_pretty_printed_input_is_read_when_asked_for():
    pretty = b"\n".join(json.dumps(body(n), indent=2).encode() for n in (1, 2, 3))
    assert read(pretty, multiline=True)[0] == [1, 2, 3]
    assert read(pretty)[0] == []


def test_a_file_that_others_can_read_is_read_with_a_warning(tmp_path, caplog):
    path = tmp_path / "x.jsonl"
    path.write_bytes(line(1) + b"\n")
    path.chmod(0o644)
    assert read(path) == ([1], [])
    assert "0644" in caplog.text


def take(follow) -> list:
    return [each.seq if isinstance(each, TranscriptEvent) else each.name for each in follow.poll()]


def test_following_a_file_gives_complete_lines_and_waits_for_the_rest_of_others(tmp_path):
    path = tmp_path / "x.jsonl"
    follow = Follow(path)
    assert take(follow) == []
    path.write_bytes(b"\xef\xbb\xbf" + line(1) + b"\r\n" + line(2)[:30])
    assert take(follow) == ["bom", 1]
    assert follow.pending == line(2)[:30]
    with path.open("ab") as file:
        file.write(line(2)[30:] + b"\n\nnonsense\n" + line(3))
        file.flush()
        assert take(follow) == [2, "syntax"]
        file.write(b"\n")
    assert take(follow) == [3]
    assert take(follow) == []


def test_a_cut_or_replaced_file_is_reported_and_continues_from_the_cursor(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_bytes(line(1) + b"\n" + line(2) + b"\n" + line(3)[:20])
    follow = Follow(path)
    assert take(follow) == [1, 2]
    os.truncate(path, len(line(1)) + len(line(2)) + 2)  # as a repair does
    assert take(follow) == ["rotated"]
    with path.open("ab") as file:
        file.write(line(3) + b"\n")
    assert take(follow) == [3]
    fresh = tmp_path / "fresh"
    fresh.write_bytes(b"".join(line(n) + b"\n" for n in (1, 2, 3, 4)))
    fresh.replace(path)
    assert take(follow) == ["rotated", 4]
    fresh.write_bytes(json.dumps(body(1) | {"run_id": run_id()}).encode() + b"\n")
    fresh.replace(path)  # another run: nothing of it was told
    assert take(follow) == ["rotated", 1]
    path.write_bytes(b"".join(line(n) + b"\n" for n in (1, 2)))  # longer, and written in place
    assert take(follow) == ["rotated", 1, 2]


def test_a_follower_receives_events_of_a_recorder_in_a_thread_and_in_an_event_loop(tmp_path):
    async def work():
        with opened(tmp_path, durability="os") as recorder:
            over, got = threading.Event(), []
            follow = Follow(recorder.path, poll=0.001, stop=over.is_set)
            thread = threading.Thread(target=lambda: got.extend(each.seq for each in follow))
            thread.start()

            async def listen():
                loop = Follow(recorder.path, poll=0.001, stop=over.is_set)
                return [each.seq async for each in loop]

            task = asyncio.create_task(listen())
            for _ in range(200):
                recorder.record("tool.call", called())
                await asyncio.sleep(0)
            over.set()
            heard = await task
            thread.join()
            return got, heard

    got, heard = asyncio.run(work())
    assert got == heard == list(range(1, 201))


def test_a_very_long_pending_line_is_not_copied_again_and_again(tmp_path):
    path = tmp_path / "x.jsonl"
    follow = Follow(path)
    long = line(1, "message.assistant", said("x" * (32 << 20)))
    path.write_bytes(long)
    began = time.process_time()
    assert take(follow) == []
    with path.open("ab") as file:
        file.write(b"\n")
    assert take(follow) == [1]
    assert time.process_time() - began < 10


def story(tmp_path, *lines: dict | bytes, name: str = RUN):
    path = tmp_path / f"{name}.jsonl"
    raw = [each if isinstance(each, bytes) else json.dumps(each).encode() for each in lines]
    path.write_bytes(b"".join(each + b"\n" for each in raw))
    path.chmod(0o600)
    return path


def one_run(path):
    runs, _ = load(path)
    (run,) = runs.values()
    return run


def test_the_state_of_a_run_follows_its_ends_and_its_lock(tmp_path):
    with opened(tmp_path) as recorder:
        recorder.record("run.started", step("r", "workflow"))
        run = one_run(recorder.path)
        assert run.state == "running"
    assert run.state == "interrupted"
    with opened(tmp_path, recorder.run_id) as again:
        again.record("run.completed", step("r", "workflow", status="ok"))
    assert one_run(recorder.path).state == "complete"
    with pytest.raises(ValueError), opened(tmp_path) as bad, bad.run("r"):
        raise ValueError
    assert one_run(bad.path).state == "failed"
    assert one_run(story(tmp_path, body(1))).state == "unknown"


@pytest.mark.requirement("AWF-35", "AWF-36", "AWF-37", "AWF-41")
def test_tool_calls_are_counted_once_and_the_router_wins(tmp_path):
    with (
        opened(tmp_path, durability="os") as recorder,
        recorder.run("r") as run,
        run.step("a", "agent") as one,
    ):
        with one.tool("read", {"p": 1}, call_id="u-1", provider_call_id="toolu_1") as call:
            call.output = "seen"
        one.tool_call("read", "toolu_1", {"p": 1})
        one.tool_result("read", "toolu_1", {"p": 1}, "claimed")
        one.tool_call("bash", "toolu_2", '{"cmd": "ls"}')
        mark = {"fidelity": "agent_emitted"}
        uses = [
            {"type": "tool_use", **mark, "tool_name": name, "tool_id": id, "tool_input": None}
            for name, id in (("read", "toolu_1"), ("bash", "toolu_2"), ("grep", "toolu_3"))
        ]
        result = {"type": "tool_result", **mark, "tool_id": "toolu_3", "tool_content": "hit"}
        one.assistant([*uses, result])
    tools = one_run(recorder.path).tools
    assert [(tool.name, tool.fidelity) for tool in tools] == [
        ("read", "router"), ("bash", "agent_emitted"), ("grep", "agent_emitted")]  # fmt: skip
    assert [tool.output for tool in tools] == ["seen", None, "hit"]
    assert [tool.returned for tool in tools] == [True, False, True]
    assert tools[1].arguments == {"cmd": "ls"}
    assert {tool.path for tool in tools} == {"a"}


@pytest.mark.requirement("AWF-4", "AWF-77")
def test_steps_messages_and_text_are_read_from_the_file_alone(tmp_path):
    with opened(tmp_path, durability="os") as recorder, recorder.run("r") as run:
        with run.step("loop", "for_each") as loop:
            for index in range(2):
                with loop.step("ask", "agent", index=index) as one:
                    one.user(f"prompt {index}", "system")
                    one.assistant(
                        [{"type": "text", "fidelity": "agent_emitted", "text": f"<{index}>"}]
                    )
        with run.step("last", "command") as one:
            one.exit_code = 1
    told = one_run(recorder.path)
    assert [(s.path, s.iteration, s.kind, s.status) for s in told.steps] == [
        ("loop", 0, "for_each", "ok"), ("loop.ask", 0, "agent", "ok"),
        ("loop.ask", 1, "agent", "ok"), ("last", 0, "command", "failed")]  # fmt: skip
    assert told.steps[3].error == "exit code 1"
    assert told.text == "<0><1>"
    assert [m.prompt for m in told.messages if m.role == "user"] == ["prompt 0", "prompt 1"]
    assert told.messages[0].system_prompt == "system"
    assert told.messages[2].step.iteration == 1
    assert (told.message().text, told.message(3).text, told.message(9)) == ("<1>", "<0>", None)
    assert len(list(told.filter(types=["message.user"], step="loop.ask"))) == 2
    late = told.events[-1].at
    assert [each.type for each in told.filter(since=late)] == ["run.completed"]
    assert "run.completed" not in [each.type for each in told.filter(until=late)]


@pytest.mark.requirement("AWF-4", "AWF-44", "AWF-47", "AWF-48", "AWF-75")
def test_the_files_of_three_levels_give_one_connected_tree(tmp_path):
    ids = [run_id() for _ in range(3)]
    with (
        Recorder.open(ids[0], tmp_path) as recorder,
        recorder.run("top") as top,
        top.call_workflow("mid", ids[1]) as mid,
        mid.child.run("mid") as middle,
        middle.call_workflow("low", ids[2]) as low,
        low.child.run("low"),
    ):
        pass
    paths = [tmp_path / "transcripts" / f"{id}.jsonl" for id in ids]
    (root,), found = tree(load(*paths)[0])
    assert found == []
    assert root.run_id == ids[0]
    assert root.children[0].run_id == ids[1]
    assert root.children[0].children[0].run_id == ids[2]
    (root,), found = tree(load(*paths[:2])[0])  # a file is missing
    assert root.children[0].children[0].run is None
    assert [finding.name for finding in found] == ["link-child"]
    for path in paths:  # each reads alone
        assert one_run(path).state == "complete"


def test_cycles_and_second_parents_are_findings_never_endless(tmp_path):
    a, b, c = (run_id() for _ in range(3))

    def call(run, child, **more):
        link = {"child_run_id": child, **more}
        return body(1, "step.call_workflow.started", step("s", "call_workflow"), **link) | {
            "run_id": run
        }

    paths = [story(tmp_path, call(a, b), name=a), story(tmp_path, call(b, a), name=b),
             story(tmp_path, call(c, b), name=c)]  # fmt: skip
    roots, found = tree(load(*paths)[0])
    assert {finding.name for finding in found} >= {"link-cycle", "link-parent"}
    seen = []

    def walk(node):
        seen.append(node.run_id)
        for child in node.children:
            walk(child)

    for root in roots:
        walk(root)
    assert sorted(seen) == sorted([a, b, c])


def test_row_1_no_markers_or_null_ones_leave_the_state_unknown_and_the_bounds_known(tmp_path):
    raw = [body(1, "run.started"), body(2), body(3, "run.completed")]
    raw[0]["payload"] = raw[2]["payload"] = None
    raw[2]["timestamp"] = "2026-05-05T10:00:00Z"
    run = one_run(story(tmp_path, *raw))
    assert run.state == "unknown"
    assert (run.began[:13], run.ended[:13]) == ("2026-05-05T09", "2026-05-05T10")


def test_row_2_restarted_numbers_are_a_new_segment(tmp_path):
    run = one_run(story(tmp_path, *(body(n) for n in (1, 2, 3, 1, 2))))
    assert [(told.segment, told.seq) for told in run.events] == [
        (0, 1),
        (0, 2),
        (0, 3),
        (1, 1),
        (1, 2),
    ]
    assert run.segments == 2


def test_row_3_disorder_gaps_and_repeats_keep_the_order_of_the_file(tmp_path):
    path = story(tmp_path, *(body(n, mine=place) for place, n in enumerate((1, 5, 3, 3, 9))))
    assert [told.body["mine"] for told in one_run(path).events] == [0, 1, 2, 3, 4]
    assert {"seq-gap", "seq-order", "seq-dup"} <= {flaw.name for flaw in lint(path)}


def test_row_4_the_content_says_which_run_it_is(tmp_path):
    path = story(tmp_path, body(1), name="some-name")
    assert list(load(path)[0]) == [RUN]
    assert "file-name" in {flaw.name for flaw in lint(path)}
    assert list(load(story(tmp_path, body(1) | {"run_id": ""}))[0]) == [""]


def test_check_reports_what_is_wrong_with_one_of_several_transcripts(tmp_path):
    call = body(1, "step.call_workflow.started", step("s", "call_workflow"), child_run_id="gone")
    folder = tmp_path / "transcripts"
    folder.mkdir()
    path = story(folder, call, body(2) | {"run_id": "other"}, name="some-name")
    amiss = {"link-child", "run-id-mixed", "file-name"}
    flaws = {flaw.name: flaw for flaw in lint(path) if flaw.name in amiss}
    assert flaws.keys() == amiss
    done = CliRunner().invoke(cli, ["check", "--json", str(path)])
    told = [row for row in map(json.loads, done.stdout.splitlines()) if "finding" in row]
    told = [row for row in told if row["finding"] in amiss]
    assert [(row["finding"], row["line"], row["message"]) for row in told] == [
        (name, flaws[name].number or None, flaws[name].message)
        for name in ("link-child", "run-id-mixed", "file-name")
    ]
    assert "at end    warning  file-name" in CliRunner().invoke(cli, ["check", str(path)]).stdout
    elsewhere = path.rename(tmp_path / path.name)
    assert "file-name" not in CliRunner().invoke(cli, ["check", str(elsewhere)]).stdout


def test_row_5_several_runs_in_one_file_are_distinguished_and_linked(tmp_path):
    child = run_id()
    call = body(1, "step.call_workflow.started", step("s", "call_workflow"), child_run_id=child)
    path = story(tmp_path, call, body(1) | {"run_id": child, "parent_run_id": RUN}, body(2))
    runs, _ = load(path)
    assert {run: len(told.events) for run, told in runs.items()} == {RUN: 2, child: 1}
    (root,), found = tree(runs)
    assert (root.run_id, root.children[0].run_id, found) == (RUN, child, [])
    assert "run-id-mixed" in {flaw.name for flaw in lint(path)}


def test_row_6_one_run_in_several_files_is_joined_by_time(tmp_path):
    later = body(1) | {"timestamp": "2026-05-05T11:00:00Z", "mine": "later"}
    paths = [story(tmp_path, later, name="b"), story(tmp_path, body(1, mine="first"), name="a")]
    runs, _ = load(*paths)
    assert [told.body["mine"] for told in runs[RUN].events] == ["first", "later"]


def test_row_7_a_parent_named_once_is_the_parent_of_all(tmp_path):
    run = one_run(story(tmp_path, body(1, "tool.call", called()), body(2, parent_run_id="p")))
    assert run.parent_run_id == "p"


def test_row_8_local_times_are_read_in_utc_and_the_zero_time_is_unknown(tmp_path):
    times = ["2026-05-05T11:00:00.123456789+02:00", "2026-05-05T09:00:00Z", "0001-01-01T00:00:00Z"]
    run = one_run(story(tmp_path, *(body(n) | {"timestamp": at} for n, at in enumerate(times, 1))))
    assert [told.at for told in run.events] == ["2026-05-05T09:00:00.123456789Z", times[1], None]
    assert run.events[0].reading.body["timestamp"] == times[0]


def test_row_9_slash_paths_give_unnamed_frames_and_the_step(tmp_path):
    raw = body(1, payload={"name": "", "kind": "agent"}) | {"path": "loop:2/loop:7/review"}
    path = story(tmp_path, raw)
    (one,) = one_run(path).steps
    assert (one.name, one.path) == ("review", "loop:2/loop:7/review")
    assert one.frames == [{"index": 2}, {"index": 7}]
    assert "path-slash" in {flaw.name for flaw in lint(path)}


def test_rows_10_and_13_bare_names_and_strange_kinds_are_accepted(tmp_path):
    call = body(1, "step.call_workflow.started", step("deploy", "workflow-call"), child_run_id="c")
    run = one_run(story(tmp_path, call | {"path": "deploy"}, body(2, payload=step("x", "shell"))))
    assert [(one.name, one.kind) for one in run.steps] == [
        ("deploy", "workflow-call"),
        ("x", "shell"),
    ]


def test_row_11_an_event_without_an_address_belongs_to_the_only_open_agent(tmp_path):
    start = body(1, payload=step("ask", "agent")) | {"path": "ask"}
    message = body(2, "message.assistant", said()) | {"path": "my-workflow"}
    tool = body(3, "tool.call", called()) | {"path": ""}
    run = one_run(story(tmp_path, start, message, tool))
    assert run.messages[0].step is run.steps[0]
    assert run.tools[0].path == "ask"
    second = body(2, payload=step("ask2", "agent")) | {"path": "ask2"}
    run = one_run(story(tmp_path, start, second, message | {"seq": 3}))
    assert run.messages[0].step is None  # two agents: no guess


def test_row_12_a_boolean_result_says_only_whether_there_was_output(tmp_path):
    raw = [body(1), body(2, "step.completed", step(result=True))]
    run = one_run(story(tmp_path, *raw))
    assert run.result_of(run.steps[0]) == (None, True)
    mark = body(1, "run.started", step("r", "workflow", producer="tracklog/0.1"))
    run = one_run(story(tmp_path, mark, *(each | {"seq": each["seq"] + 1} for each in raw)))
    assert run.result_of(run.steps[0]) == (True, None)


def test_row_14_null_blocks_and_blocks_without_their_key_are_empty(tmp_path):
    null = said() | {"blocks": None}
    bare = said() | {"blocks": [{"type": "text", "fidelity": "agent_emitted"}]}
    odd = [body(1, "message.assistant", null), body(2, "message.assistant", bare)]
    listed = body(3, "chat", [{"type": "text", "text": "in a list"}])
    run = one_run(story(tmp_path, *odd, listed, body(4, "note", "scalar")))
    assert run.messages[0].blocks == []
    assert run.messages[1].text == ""
    assert run.events[2].blocks == [{"type": "text", "text": "in a list"}]
    assert run.events[3].payload == {}


def test_rows_15_to_18_tool_values_are_offered_in_one_form_and_stored_raw(tmp_path):
    output = {"Content": [{"Type": "text", "Text": "x"}], "IsError": True}
    call = body(1, "tool.call", called(input='{"a": 1}'))
    result = body(2, "tool.result", called() | {"output": output})
    mark = {"type": "tool_use", "fidelity": "agent_emitted", "tool_name": "bash"}
    stream = {"type": "stream", "fidelity": "agent_emitted", "text": "chunk"}
    loose = body(3, "message.assistant", said() | {"blocks": [mark, mark, stream]})
    run = one_run(story(tmp_path, call, result, loose))
    first, *others = run.tools
    assert (first.input, first.arguments) == ('{"a": 1}', {"a": 1})
    assert first.output == output
    assert first.result == {"content": [{"type": "text", "text": "x"}], "is_error": True}
    assert [(tool.call_id, tool.returned) for tool in others] == [(None, False), (None, False)]
    assert run.messages[0].blocks[2]["chunk"] == "chunk"


def test_rows_19_and_20_two_unmarked_texts_are_prompts_and_deltas_are_joined(tmp_path):
    def text(*texts):
        return [{"type": "text", "fidelity": "router", "text": each} for each in texts]

    user = body(1, "message.user", {"role": "user", "blocks": text("ask", "rules")})
    reply = body(2, "message.assistant", {"role": "assistant", "blocks": text("a", "b", " c")})
    run = one_run(story(tmp_path, user, reply))
    assert (run.messages[0].prompt, run.messages[0].system_prompt) == ("ask", "rules")
    assert run.messages[1].prompt is None
    assert run.text == "ab c"


def test_rows_21_and_22_a_missing_reply_and_escaped_signs_are_accepted(tmp_path):
    raw = line(2, "message.user", {"role": "user", "blocks": [
        {"type": "text", "fidelity": "router", "text": "a<b>&c"}]})  # fmt: skip
    escaped = raw.replace(b"<", rb"\u003c").replace(b">", rb"\u003e").replace(b"&", rb"\u0026")
    failed = body(3, "step.completed", step("ask", "agent", error="died"))
    run = one_run(story(tmp_path, body(1, payload=step("ask", "agent")), escaped, failed))
    assert run.messages[0].prompt == "a<b>&c"
    assert run.steps[0].status == "failed"


def test_row_24_other_keys_and_other_cases_are_stored(tmp_path):
    raw = {"Seq": 1, **body(1), "Extra": {"x": 1}}
    del raw["path"]
    events, flaws = TranscriptReader(story(tmp_path, raw)).read_all()
    assert events[0].body["Extra"] == {"x": 1}
    assert events[0].body["Seq"] == 1
    assert [flaw.name for flaw in flaws] == ["bad_field"]


def test_a_line_without_iteration_is_read_as_iteration_0_and_lint_names_it(tmp_path):
    raw = body(1)
    del raw["iteration"]
    path = story(tmp_path, raw)
    events, flaws = TranscriptReader(path).read_all()
    assert flaws == []
    assert events[0].event.body["iteration"] == 0
    assert "iteration" not in events[0].body
    assert "no-iteration" in {flaw.name for flaw in lint(path)}


def test_lint_names_missing_children_and_open_steps(tmp_path):
    call = body(1, "step.call_workflow.started", step("s", "call_workflow"), child_run_id=run_id())
    names = {flaw.name for flaw in lint(story(tmp_path, call))}
    assert {"link-child", "step-open", "no-start", "no-end"} <= names


@pytest.mark.requirement("AWF-3", "AWF-4")
def test_lint_finds_nothing_in_what_we_recorded(tmp_path):
    with opened(tmp_path) as recorder, recorder.run("r") as run:
        with run.step("a", "agent") as one:
            one.user("x", "y")
            with one.tool("t") as call:
                call.output = 2**70
            one.assistant([{"type": "text", "fidelity": "agent_emitted", "text": "z\ud800"}])
        with run.call_workflow("sub", run_id()) as sub, sub.child.run("sub"):
            pass
    for path in recorder.path.parent.iterdir():
        assert lint(path) == []


REPAIRS = {
    "nul_fill": (line(1) + b"\n" + b"\0" * 512 + line(2) + b"\n", [1, 2]),
    "nul": (line(1).replace(b"build", b"bu\0ild") + b"\n", [1]),
    "glued": (line(1) + line(2) + b"\n" + line(3)[:60] + line(4) + b"\n", [1, 2, 4]),
    "torn": (line(1) + b"\n" + line(2)[:40], [1]),
    "unterminated": (line(1) + b"\n" + line(2), [1, 2]),
    "splitter": (line(1).replace(b"build", "a\u2028b\u2029c\x85d".encode()) + b"\n", [1]),
    "utf8": (line(1).replace(b"build", b"bu\xff\xfeild") + b"\n", [1]),
    "bom": (b"\xef\xbb\xbf" + line(1) + b"\n", [1]),
    "crlf": (line(1) + b"\r\n" + line(2) + b"\r\n", [1, 2]),
    "newline": (line(1).replace(b"build", b"bu\nil\nd") + b"\n" + line(2) + b"\n", [1, 2]),
    "syntax": (line(1) + b"\nnonsense\n" + line(2) + b"\n", [1, 2]),
}


@pytest.mark.parametrize("name", REPAIRS)
def test_repair_heals_what_can_be_healed_keeps_the_original_and_reports(tmp_path, name):
    data, seqs = REPAIRS[name]
    path = tmp_path / "x.jsonl"
    path.write_bytes(data)
    path.chmod(0o640)
    planned = examine(path)
    assert path.read_bytes() == data
    report = repair(path)
    assert report.original.read_bytes() == data
    assert report.changes == planned.changes
    assert name in {flaw for change in report.changes for flaw in change.flaws}
    assert all(change.message and change.number for change in report.changes)
    assert path.stat().st_mode & 0o777 == 0o640
    found, flaws = read(path)
    assert (found, flaws) == (seqs, [])
    assert report.lines == len(seqs)
    assert len(path.read_text().splitlines()) == len(seqs)
    again = repair(path)
    assert (again.changes, again.original) == ((), None)


def test_repair_keeps_every_character_that_it_heals(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_bytes(REPAIRS["splitter"][0] + REPAIRS["nul"][0] + REPAIRS["newline"][0])
    repair(path)
    names = [body["payload"]["name"] for body in bodies(path)]
    assert names == ["a\u2028b\u2029c\x85d", "bu\0ild", "bu\nil\nd", "build"]


def test_repair_finds_glued_lines_of_a_foreign_file_by_how_its_lines_begin(tmp_path):
    whole = b'{"uuid":"1","message":{"content":[{"type":"text","seq":5}]}}'
    path = tmp_path / "foreign.jsonl"
    path.write_bytes(whole + b"\n" + whole[:50] + whole + b"\n[1,2]\n")
    report = repair(path)
    assert path.read_bytes() == whole + b"\n" + whole + b"\n[1,2]\n"
    (change,) = report.changes
    assert (change.number, change.offset, change.action) == (2, len(whole) + 1, "healed")


def test_repair_leaves_a_sound_file_alone_and_a_locked_one_too(tmp_path):
    with opened(tmp_path) as recorder:
        recorder.record("step.started", step())
        before = recorder.path.stat()
        assert repair(recorder.path).changes == ()
        assert recorder.path.stat().st_ino == before.st_ino
        with recorder.path.open("ab") as file:
            file.write(b"torn")
        with pytest.raises(TranscriptLocked) as refused:
            repair(recorder.path)
        assert refused.value.hint


@settings(max_examples=100, deadline=None)
@given(st.lists(st.binary(max_size=80) | st.just(line(1)), max_size=6))
def test_a_repaired_file_has_no_flaw_and_every_complete_line(tmp_path_factory, chunks):
    path = tmp_path_factory.mktemp("repair") / "x.jsonl"
    path.write_bytes(b"\n".join(chunks))
    repair(path)
    content = path.read_bytes()
    assert not content.rpartition(b"\n")[2].strip()
    for each in filter(bytes.strip, content.split(b"\n")):
        json.loads(each)
    assert content.count(line(1)) >= sum(chunk == line(1) for chunk in chunks)


def chained_file(tmp_path, count=5):
    with opened(tmp_path, integrity="chain", durability="os") as recorder:
        for _ in range(count):
            recorder.record("message.assistant", said("é"))
    return recorder.path


def test_any_flipped_byte_is_found_and_its_line_is_named(tmp_path):
    path = chained_file(tmp_path)
    sound = path.read_bytes()
    assert verify_chain(path).sound
    for place in range(len(sound)):
        number = sound[:place].count(b"\n") + 1
        for flip in (0x01, 0x80):
            changed = bytearray(sound)
            changed[place] ^= flip
            path.write_bytes(bytes(changed))
            proof = verify_chain(path)
            assert not proof.sound, place
            if place != len(sound) - 1:
                assert proof.bad.number == number, (place, number, proof)


def test_a_line_taken_out_put_in_or_moved_is_found(tmp_path):
    path = chained_file(tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    for changed, number in (
        ([*lines[:2], *lines[3:]], 3),
        ([lines[1], lines[0], *lines[2:]], 1),
        ([*lines[:3], lines[2], *lines[3:]], 4),
        ([*lines[:2], line(9) + b"\n", *lines[2:]], 3),
        (lines[1:], 1),
    ):
        path.write_bytes(b"".join(changed))
        assert verify_chain(path).bad.number == number


def test_a_cut_tail_is_found_by_an_anchor_only(tmp_path):
    path = chained_file(tmp_path)
    head = verify_chain(path).head
    lines = path.read_bytes().splitlines(keepends=True)
    assert verify_chain(path, anchor=head).sound
    path.write_bytes(b"".join(lines[:3]))
    assert verify_chain(path).sound
    assert not verify_chain(path, anchor=head).sound


def test_lines_before_the_chain_began_are_counted_not_blamed(tmp_path):
    with opened(tmp_path) as recorder:
        recorder.record("step.started", step())
    with opened(tmp_path, recorder.run_id, integrity="chain") as again:
        again.record("step.started", step())
    proof = verify_chain(recorder.path)
    assert (proof.sound, proof.unchained, proof.lines) == (True, 1, 1)
    plain = story(tmp_path, body(1))
    assert not verify_chain(plain).sound


def test_every_flaw_has_a_name_a_place_and_a_message():
    for found in TranscriptReader(b"\n".join(bad for bad, _, _ in DAMAGES.values())):
        if isinstance(found, Flaw):
            assert re.fullmatch("[a-z_0-9]+", found.name)
            assert found.message
