"""The recorder: what it writes, whatever happens to the disk, the process or the caller."""

import asyncio
import dis
import errno
import gc
import itertools
import json
import os
import random
import re
import signal
import stat
import subprocess
import sys
import textwrap
import threading
import time
import types
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support import forking
from support.transcribing import FailingDisk, Short, bodies, called, opened, run_id, said, step
from support.waiting import eventually
from tracklog.model.errors import (
    InvalidEvent,
    MaskFailed,
    RecorderClosed,
    ReentrantCall,
    TranscriptFinished,
    TranscriptLocked,
    UnsafeTranscript,
    WriteFailed,
)
from tracklog.recording import fanout
from tracklog.recording import recorder as recorders
from tracklog.recording.fanout import Gap
from tracklog.recording.recorder import NullRecorder, Recorder, end_interrupted
from tracklog.recording.transcript import TranscriptReader, verify_chain

ENVELOPE = ["seq", "run_id", "type", "path", "iteration", "timestamp", "payload"]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.requirement("AWF-6", "AWF-63")
def test_the_file_is_named_after_the_run_in_the_transcripts_folder(tmp_path):
    run = run_id()
    with Recorder.open(run, tmp_path / "storage") as recorder:
        recorder.record("run.started", step("review", "workflow"))
    assert recorder.path == tmp_path / "storage" / "transcripts" / f"{run}.jsonl"
    assert [body["run_id"] for body in bodies(recorder.path)] == [run]


@pytest.mark.requirement("AWF-58", "AWF-73")
@pytest.mark.parametrize("umask", [0o000, 0o077, 0o777])
def test_file_and_folders_are_for_the_owner_alone_whatever_the_umask(tmp_path, umask):
    before = os.umask(umask)
    try:
        with opened(tmp_path) as recorder:
            recorder.record("step.started", step())
    finally:
        os.umask(before)
    assert mode(recorder.path) == 0o600
    assert mode(recorder.path.parent) == 0o700
    assert mode(recorder.path.parent.parent) == 0o700


@pytest.mark.requirement("AWF-59")
def test_the_descriptor_appends_and_does_not_follow_links_or_outlive_an_exec(tmp_path):
    flags = []

    class Watching(FailingDisk):
        def open(self, path, given, mode=0o600):
            if path.suffix == ".jsonl":
                flags.append(given)
            return super().open(path, given, mode)

    opened(tmp_path, disk=Watching()).close()
    wanted = os.O_APPEND | os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    assert flags == [wanted]


def test_a_loose_file_of_ours_is_tightened(tmp_path):
    with opened(tmp_path) as recorder:
        recorder.record("step.started", step())
    recorder.path.chmod(0o644)
    opened(tmp_path, recorder.run_id).close()
    assert mode(recorder.path) == 0o600


def test_a_loose_folder_is_warned_of_or_refused(tmp_path, caplog):
    folder = tmp_path / "storage" / "transcripts"
    folder.mkdir(parents=True)
    folder.chmod(0o755)
    opened(tmp_path).close()
    assert "0755" in caplog.text
    with pytest.raises(UnsafeTranscript) as refused:
        opened(tmp_path, strict_perms=True)
    assert "chmod 700" in refused.value.hint


def test_what_is_no_regular_file_of_ours_is_refused_untouched(tmp_path):
    run = run_id()
    path = tmp_path / "storage" / "transcripts" / f"{run}.jsonl"
    path.parent.mkdir(parents=True, mode=0o700)
    target = tmp_path / "elsewhere"
    target.write_bytes(b"mine\n")
    path.symlink_to(target)
    with pytest.raises(UnsafeTranscript):
        opened(tmp_path, run)
    assert target.read_bytes() == b"mine\n"
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(UnsafeTranscript):
        opened(tmp_path, run)
    path.unlink()
    path.mkdir()
    with pytest.raises(UnsafeTranscript):
        opened(tmp_path, run)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_somebody_else_is_refused(tmp_path):
    with opened(tmp_path) as recorder:
        recorder.record("step.started", step())
    os.chown(recorder.path, 12345, 12345)
    with pytest.raises(UnsafeTranscript):
        opened(tmp_path, recorder.run_id)


@pytest.mark.requirement("AWF-63")
@pytest.mark.parametrize(
    "bad",
    ["", "run-1", "../x", "A" * 36, "7DA9247C-E99E-4852-AC0A-AAF196AE31FA",
     "7da9247c-e99e-1852-ac0a-aaf196ae31fa", "7da9247c-e99e-4852-ac0a-aaf196ae31fa\n", None, 5],
)  # fmt: skip
def test_an_id_that_is_no_uuid_v4_is_refused_and_none_is_minted(tmp_path, bad):
    with pytest.raises(UnsafeTranscript):
        Recorder.open(bad, tmp_path)
    with pytest.raises(UnsafeTranscript):
        Recorder.open(run_id(), tmp_path, bad or "x")
    assert list(tmp_path.rglob("*.jsonl")) == []


def test_a_converter_may_use_any_safe_id(tmp_path):
    opened(tmp_path, "thread.42_b-c", allow_any_id=True).close()
    for bad in ("../x", ".hidden", "a/b", "a" * 129, "a\n"):
        with pytest.raises(UnsafeTranscript):
            opened(tmp_path, bad, allow_any_id=True)


@pytest.mark.requirement("AWF-7", "AWF-9", "AWF-10", "AWF-11", "AWF-12", "AWF-61", "AWF-77")
def test_an_event_has_the_envelope_in_its_order_and_extras_last(tmp_path):
    with opened(tmp_path) as recorder:
        entry = recorder.record(
            "tool.call",
            called(),
            "each_file.check",
            2,
            step_seq=1,
            attempt=2,
            mine={"b": 1, "a": 2},
        )
    body = json.loads(entry.line)
    assert list(body) == [*ENVELOPE, "elapsed_ms", "step_seq", "attempt", "mine"]
    assert (body["seq"], body["path"], body["iteration"]) == (1, "each_file.check", 2)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", body["timestamp"])
    assert list(body["mine"]) == ["b", "a"]
    assert list(body["payload"]) == ["name", "call_id", "input", "output", "fidelity", "blocks"]
    assert recorder.path.read_bytes() == entry.line + b"\n"
    assert b" " not in entry.line.replace(b"T0", b"")


def test_keys_in_another_order_are_put_into_theirs(tmp_path):
    block = {"text": "x", "turn": 0, "fidelity": "router", "type": "text"}
    with opened(tmp_path) as recorder:
        for _ in range(2):
            recorder.record("message.user", {"mine": 1, "blocks": [block], "role": "user"})
            recorder.record(
                "step.completed", {"status": "ok", "error": "e", "kind": "k", "name": "n"}
            )
    for body in bodies(recorder.path)[::2]:
        assert list(body["payload"]) == ["role", "blocks", "mine"]
        assert list(body["payload"]["blocks"][0]) == ["type", "fidelity", "text", "turn"]
    for body in bodies(recorder.path)[1::2]:
        assert list(body["payload"]) == ["name", "kind", "error", "status"]


@pytest.mark.requirement("AWF-11")
def test_time_is_utc_and_a_naive_time_is_refused(tmp_path):
    with opened(tmp_path, clock=lambda: 1_777_971_600_123_456_789) as recorder:
        recorder.record("step.started", step())
        berlin = timezone(timedelta(hours=2))
        recorder.record("step.started", step(), timestamp=datetime(2026, 5, 5, 9, tzinfo=berlin))
        with pytest.raises(InvalidEvent):
            recorder.record("step.started", step(), timestamp=datetime(2026, 5, 5, 9))  # noqa: DTZ001
        with pytest.raises(InvalidEvent):
            recorder.record("step.started", step(), timestamp="2026-05-05T09:00:00Z")
    times = [body["timestamp"] for body in bodies(recorder.path)]
    assert times == ["2026-05-05T09:00:00.123456Z", "2026-05-05T07:00:00.000000Z"]


def test_elapsed_is_monotonic_whatever_the_clock_does(tmp_path):
    wall, steady = iter([5_000_000_000, 1_000_000_000]), iter([0, 7_000_000, 9_500_000])
    with opened(tmp_path, clock=lambda: next(wall), monotonic=lambda: next(steady)) as recorder:
        recorder.record("step.started", step())
        recorder.record("step.started", step())
    assert [body["elapsed_ms"] for body in bodies(recorder.path)] == [7, 9]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec=None)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    with opened(tmp_path_factory.mktemp("shared"), durability="os") as recorder:
        yield recorder


@pytest.mark.requirement("AWF-71")
@given(value=json_values)
def test_every_json_value_is_read_back_as_it_was_given(shared, value):
    entry = shared.record("tool.call", called(input=value))
    assert entry.body["payload"]["input"] == value
    assert json.loads(entry.line)["payload"]["input"] == value
    assert len(entry.line.decode().splitlines()) == 1


def test_splitters_controls_and_surrogates_are_escaped_and_the_rest_is_raw(tmp_path):
    text = "a\u0085b\u2028c\u2029d\x00e\x1f\ud800é😀"
    with opened(tmp_path) as recorder:
        plain = recorder.record("message.assistant", said("é\u2028😀"))
        entry = recorder.record("message.assistant", said(text, big=2**70))
    assert rb"\u2028" in plain.line
    assert "é".encode() in plain.line
    for escape in (rb"\u0085", rb"\u2028", rb"\u2029", rb"\u0000", rb"\u001f", rb"\ud800"):
        assert escape in entry.line
    assert "é😀".encode() in entry.line
    assert entry.body["payload"]["blocks"][0]["text"] == text
    assert entry.body["payload"]["big"] == 2**70


@pytest.mark.requirement("AWF-15", "AWF-26", "AWF-34", "AWF-74")
@pytest.mark.parametrize(
    ("type", "payload", "more"),
    [
        ("", step(), {}),
        ("run.paused", step(), {}),
        ("Run.started", step(), {}),
        (5, step(), {}),
        ("step.started", None, {}),
        ("step.started", [], {}),
        ("step.started", {"name": "x"}, {}),
        ("step.started", step(result=float("nan")), {}),
        ("step.started", step(extra=[{"deep": float("inf")}]), {}),
        ("step.started", step(extra={1: 2}), {}),
        ("step.started", step(extra=b"bytes"), {}),
        ("step.started", step(Kind="x"), {}),
        ("step.started", step(role="x"), {}),
        ("step.started", step(call_id="x"), {}),
        ("message.user", said(), {}),
        ("message.assistant", said() | {"blocks": None}, {}),
        ("message.assistant", said() | {"blocks": [{"type": "image", "fidelity": "router"}]}, {}),
        ("message.assistant", said() | {"blocks": [{"type": "Text", "fidelity": "router"}]}, {}),
        ("message.assistant", said() | {"blocks": [{"type": "text", "text": "x"}]}, {}),
        (
            "message.assistant",
            said() | {"blocks": [{"type": "text", "fidelity": "me", "text": ""}]},
            {},
        ),
        ("message.assistant", said() | {"blocks": [{"type": "text", "fidelity": "router"}]}, {}),
        (
            "message.assistant",
            said() | {"blocks": [{"type": "thinking", "fidelity": "router"}]},
            {},
        ),
        ("tool.call", {k: v for k, v in called().items() if k != "blocks"}, {}),
        ("tool.call", called() | {"fidelity": "guess"}, {}),
        ("tool.call", called(kind="x"), {}),
        ("step.started", step(), {"seq": 7}),
        ("step.started", step(), {"Seq": 7}),
        ("step.started", step(), {"chain": "x"}),
        ("step.started", step(), {"lost": {"count": 1}}),
        ("step.started", step(), {"step_seq": 0}),
        ("step.started", step(), {"step_seq": True}),
        ("step.started", step(), {"frames": "x"}),
        ("step.started", step(), {"extra": float("nan")}),
        ("step.started", step(), {"iteration": -1}),
        ("step.started", step(), {"iteration": True}),
        ("step.started", step(), {"path": None}),
        ("run.started", step(), {"path": "build"}),
        ("step.started", step(), {"child_run_id": run_id()}),
        ("step.call_workflow.started", step(), {}),
        ("step.call_workflow.started", step(), {"child_run_id": "child"}),
    ],
)
def test_an_invalid_event_is_refused_with_a_hint_and_changes_nothing(tmp_path, type, payload, more):
    with opened(tmp_path) as recorder:
        recorder.record("step.started", step())
        before = recorder.path.read_bytes()
        with pytest.raises(InvalidEvent) as refused:
            recorder.record(type, payload, **more)
        assert refused.value.hint
        assert recorder.path.read_bytes() == before
        assert recorder.record("step.completed", step()).seq == 2


def test_an_opaque_thought_needs_no_text(tmp_path):
    block = {"type": "thinking", "fidelity": "agent_emitted", "opaque": "b64"}
    with opened(tmp_path) as recorder:
        recorder.record("message.assistant", said() | {"blocks": [block]})
    assert bodies(recorder.path)[0]["payload"]["blocks"] == [block]


@pytest.mark.requirement("AWF-2", "AWF-8", "AWF-62")
def test_numbers_start_at_one_and_earlier_bytes_never_change(tmp_path):
    seen = b""
    with opened(tmp_path) as recorder:
        for number in range(1, 50):
            assert recorder.record("step.started", step(str(number))).seq == number
            content = recorder.path.read_bytes()
            assert content.startswith(seen)
            seen = content
    assert [body["seq"] for body in bodies(recorder.path)] == list(range(1, 50))


@pytest.mark.requirement("AWF-8", "AWF-13", "AWF-49", "AWF-55", "AWF-60", "AWF-76")
def test_64_threads_times_1000_events_are_numbered_in_file_order_and_broadcast_order(tmp_path):
    with opened(tmp_path, durability="os") as recorder:
        heard = recorder.subscribe(buffer=64_000)

        def work(thread):
            for place in range(1000):
                recorder.record("step.started", step(f"{thread}/{place}"))

        threads = [threading.Thread(target=work, args=(n,)) for n in range(64)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    found = bodies(recorder.path)
    assert [body["seq"] for body in found] == list(range(1, 64_001))
    assert len({body["payload"]["name"] for body in found}) == 64_000
    lines = recorder.path.read_bytes().split(b"\n")[:-1]
    assert [entry.line for entry in heard] == lines
    for thread in range(64):  # each thread's events in its own order
        own = [n for n in (body["payload"]["name"] for body in found) if n.startswith(f"{thread}/")]
        assert own == [f"{thread}/{place}" for place in range(1000)]


@pytest.mark.requirement("AWF-60")
def test_every_line_is_one_write_whatever_its_size(tmp_path):
    sizes = []

    class Counting(FailingDisk):
        def write(self, fd, block):
            sizes.append(len(block))
            return super().write(fd, block)

    with opened(tmp_path, disk=Counting()) as recorder:
        lines = [
            recorder.record("message.assistant", said("x" * size)).line
            for size in (10, 16 << 10, 1 << 20)
        ]
    assert sizes == [len(line) + 1 for line in lines]
    assert recorder.path.read_bytes().count(b"\n") == 3


@pytest.mark.requirement("AWF-13", "AWF-76")
@pytest.mark.parametrize("fault", [errno.ENOSPC, errno.EIO, Short(0), Short(10)])
def test_a_failed_write_leaves_the_file_as_it_was_and_nothing_is_broadcast(tmp_path, fault):
    disk = FailingDisk()
    with opened(tmp_path, disk=disk) as recorder:
        heard = recorder.subscribe()
        recorder.record("step.started", step("one"))
        before = recorder.path.read_bytes()
        disk.fail("write", fault)
        with pytest.raises(WriteFailed) as failed:
            recorder.record("step.started", step("two"))
        assert failed.value.hint
        assert recorder.path.read_bytes() == before
        assert recorder.health() == "ok"
        assert recorder.record("step.started", step("three")).seq == 2
    assert [entry.seq for entry in heard] == [1, 2]
    assert [body["payload"]["name"] for body in bodies(recorder.path)] == ["one", "three"]


def test_when_cutting_back_fails_the_recorder_is_broken_until_it_succeeds(tmp_path):
    disk = FailingDisk()
    with opened(tmp_path, disk=disk) as recorder:
        recorder.record("step.started", step("one"))
        disk.fail("write", Short(10))
        disk.fail("truncate", errno.EIO, errno.EIO)
        for _ in range(2):
            with pytest.raises(WriteFailed):
                recorder.record("step.started", step("two"))
        assert recorder.health() == "broken"
        recorder.record("step.started", step("three"))
        assert recorder.health() == "ok"
    assert [body["payload"]["name"] for body in bodies(recorder.path)] == ["one", "three"]
    assert [body["seq"] for body in bodies(recorder.path)] == [1, 2]


def test_without_a_lock_a_failed_write_is_not_cut_and_the_next_line_stands_alone(tmp_path):
    disk = FailingDisk()
    with opened(tmp_path, disk=disk, lock="off") as recorder:
        recorder.record("step.started", step("one"))
        disk.fail("write", Short(10))
        with pytest.raises(WriteFailed):
            recorder.record("step.started", step("two"))
        recorder.record("step.started", step("three"))
    events, flaws = TranscriptReader(recorder.path).read_all()
    assert [event.seq for event in events] == [1, 2]
    assert [flaw.name for flaw in flaws] == ["syntax"]
    assert disk.calls.count("truncate") == 0


@pytest.mark.parametrize("durability", ["os", "interval", "lifecycle", "sync"])
def test_each_durability_syncs_when_it_says(tmp_path, durability):
    disk = FailingDisk()
    with opened(tmp_path, disk=disk, durability=durability, fsync_interval=60) as recorder:
        counts = []
        for type, payload, more in (
            ("run.started", step("r", "workflow"), {}),
            ("step.started", step(), {}),
            ("tool.call", called(), {}),
            ("message.assistant", said(), {}),
            ("step.completed", step(), {}),
            ("step.call_workflow.started", step(), {"child_run_id": run_id()}),
            ("run.completed", step("r", "workflow"), {}),
        ):
            before = disk.calls.count("sync")
            recorder.record(type, payload, **more)
            counts.append(disk.calls.count("sync") - before)
        durable = recorder.durable_seq
        before = disk.calls.count("sync")
    after = disk.calls.count("sync") - before
    assert (
        counts
        == {
            "os": [0] * 7,
            "interval": [0] * 7,
            "lifecycle": [1, 0, 0, 1, 1, 1, 1],
            "sync": [1] * 7,
        }[durability]
    )
    assert (durable, after) == ((0, 1) if durability in ("os", "interval") else (7, 0))
    assert recorder.durable_seq == 7


def test_lifecycle_is_the_default_and_promises_its_durable_number(tmp_path):
    with opened(tmp_path) as recorder:
        assert recorder.options.durability == "lifecycle"
        recorder.record("message.assistant", said())
        recorder.record("tool.call", called())
        assert recorder.stats().durable_seq == 1
        assert recorder.stats().last_seq == 2


def test_interval_syncs_in_the_background_while_dirty(tmp_path):
    disk = FailingDisk()
    with opened(tmp_path, disk=disk, durability="interval", fsync_interval=0.01) as recorder:
        recorder.record("tool.call", called())
        assert eventually(lambda: recorder.durable_seq == 1)
        syncs = disk.calls.count("sync")
        time.sleep(0.05)
        assert disk.calls.count("sync") == syncs


def test_sync_comes_before_the_broadcast(tmp_path):
    disk = FailingDisk()
    with opened(tmp_path, disk=disk, durability="sync") as recorder:
        order = []
        heard = recorder.subscribe()
        offer = recorder._fanout.offer
        recorder._fanout.offer = lambda entry: (order.append(list(disk.calls)), offer(entry))
        recorder.record("tool.call", called())
        assert order[0][-2:] == ["write", "sync"]
        assert next(heard).seq == 1


def test_a_failed_sync_degrades_and_the_durable_number_stops_for_good(tmp_path):
    disk = FailingDisk()
    recorder = opened(tmp_path, disk=disk, durability="sync")
    heard = recorder.subscribe()
    recorder.record("tool.call", called())
    disk.fail("sync", errno.EIO)
    assert recorder.record("tool.call", called()).seq == 2
    assert recorder.health() == "degraded"
    assert recorder.record("tool.call", called()).seq == 3
    assert recorder.durable_seq == 1
    recorder.close()
    assert recorder.durable_seq == 1
    assert [entry.seq for entry in heard] == [1, 2, 3]


def test_the_new_file_s_name_is_put_on_disk(tmp_path):
    folders = []

    class Watching(FailingDisk):
        def sync_folder(self, path):
            folders.append(path.name)
            super().sync_folder(path)

    opened(tmp_path, disk=Watching()).close()
    assert folders == [tmp_path.name, "storage", "transcripts"]


@pytest.mark.requirement("AWF-8", "AWF-62")
def test_reopening_continues_the_numbers_marks_the_seam_and_keeps_the_bytes(tmp_path):
    with opened(tmp_path) as first:
        first.record("run.started", step("r", "workflow"))
        first.record("step.started", step())
    before = first.path.read_bytes()
    with opened(tmp_path, first.run_id) as second:
        second.record("step.completed", step())
        second.record("step.started", step())
    assert second.path.read_bytes().startswith(before)
    found = bodies(second.path)
    assert [body["seq"] for body in found] == [1, 2, 3, 4]
    assert found[2]["seam"] == {"after_seq": 2, "reason": "reopen"}
    assert "seam" not in found[3]


def test_a_finished_run_goes_on_only_when_asked_and_says_so(tmp_path):
    with opened(tmp_path) as first, first.run("r"):
        pass
    with pytest.raises(TranscriptFinished) as refused:
        opened(tmp_path, first.run_id)
    assert "resume=True" in refused.value.hint
    with opened(tmp_path, first.run_id, resume=True) as second, second.run("r"):
        pass
    found = bodies(second.path)
    assert "resumed" not in found[0]["payload"]
    assert (found[2]["seq"], found[2]["payload"]["resumed"]) == (3, True)
    assert found[2]["seam"]["after_seq"] == 2


def test_the_highest_number_counts_in_a_file_that_is_not_ours(tmp_path):
    run = run_id()
    path = tmp_path / "storage" / "transcripts" / f"{run}.jsonl"
    path.parent.mkdir(parents=True, mode=0o700)
    path.write_bytes(b'{"seq":9,"type":"step.started"}\nnot json\n{"seq":2,"type":"x"}\nbroken\n')
    with opened(tmp_path, run) as recorder:
        assert recorder.record("step.started", step()).seq == 10
    assert path.read_bytes().startswith(b'{"seq":9,"type":"step.started"}\nnot json\n')


def test_for_every_byte_at_which_a_file_is_cut_complete_lines_survive_and_the_tail_is_saved(
    tmp_path,
):
    with opened(tmp_path, durability="os") as recorder:
        recorder.record("run.started", step("r", "workflow"))
        recorder.record("message.assistant", said("é\u2028"))
        recorder.record("tool.call", called())
    whole = recorder.path.read_bytes()
    starts = [0, *(place + 1 for place, byte in enumerate(whole) if byte == 10)]
    folder = recorder.path.parent
    for size in range(len(whole) + 1):
        for old in folder.iterdir():
            old.unlink()
        recorder.path.write_bytes(whole[:size])
        with opened(tmp_path, recorder.run_id, durability="os", strict_perms=True) as again:
            entry = again.record("step.started", step("after"))
        start = max(place for place in starts if place <= size)
        lines = whole[:start].count(b"\n")
        content = recorder.path.read_bytes()
        quarantine = folder / f"{recorder.run_id}.torn-{start}"
        if size == start:  # cut between lines
            assert content.startswith(whole[:start])
            assert not quarantine.exists()
        elif whole[size : size + 1] == b"\n":  # only the line end is gone
            lines += 1
            assert content.startswith(whole[: size + 1])
            assert entry.body["seam"]["reason"] == "missing_lf"
        else:
            assert content.startswith(whole[:start])
            assert quarantine.read_bytes() == whole[start:size]
            assert mode(quarantine) == 0o600
            seam = {"after_seq": lines, "reason": "torn_tail"}
            seam |= {"repaired_bytes": size - start, "quarantine": quarantine.name}
            assert entry.body["seam"] == seam
        assert [body["seq"] for body in bodies(recorder.path)] == list(range(1, lines + 2))


def test_nul_fill_goes_to_quarantine_and_a_second_one_at_the_same_place_too(tmp_path):
    with opened(tmp_path) as recorder:
        recorder.record("step.started", step())
    size = recorder.path.stat().st_size
    for fill in (b"\0" * 100, b"\0" * 200, b"\0" * 200):
        with recorder.path.open("ab") as file:
            file.write(fill)
        opened(tmp_path, recorder.run_id).close()
        assert recorder.path.stat().st_size == size
    kept = sorted(recorder.path.parent.glob("*.torn-*"))
    assert [path.read_bytes() for path in kept] == [b"\0" * 100, b"\0" * 200]


KILLED = """
import sys
from tracklog.recording.recorder import Recorder
run, storage, durability = sys.argv[1:]
with Recorder.open(run, storage, durability=durability) as recorder:
    if recorder.stats().last_seq == 0:
        recorder.record("run.started", {"name": "r", "kind": "workflow"})
    while True:
        entry = recorder.record("step.started", {"name": "x" * 300, "kind": "command"})
        sys.stdout.write(f"{entry.seq}\\n")
        sys.stdout.flush()
"""


def test_killed_at_random_every_acknowledged_line_is_there_once_in_order(tmp_path):
    run = run_id()
    chance = random.Random(4)
    acknowledged = 0
    for _ in range(12):
        durability = chance.choice(["os", "sync"])
        child = forking.script(KILLED, run, tmp_path, durability, stdout=subprocess.PIPE, text=True)
        try:
            first = child.stdout.readline()
            time.sleep(chance.random() * 0.05)
        finally:
            child.kill()
            rest = child.stdout.read()
            child.wait()
            child.stdout.close()
        told = [int(line) for line in (first + rest).split("\n")[:-1]]
        assert told, "the child recorded nothing"
        acknowledged = told[-1]
        events, flaws = TranscriptReader(tmp_path / "transcripts" / f"{run}.jsonl").read_all()
        assert {flaw.name for flaw in flaws} <= {"torn", "unterminated"}
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        assert len(events) >= acknowledged
    with Recorder.open(run, tmp_path) as recorder:
        assert recorder.record("step.started", step()).seq > acknowledged


def test_an_interrupted_run_can_be_given_its_end(tmp_path):
    recorder = opened(tmp_path)
    recorder.record("run.started", step("review", "workflow"))
    with pytest.raises(TranscriptLocked):
        Recorder.open(recorder.run_id, tmp_path / "storage")
    assert end_interrupted(recorder.path) is None  # it is running
    recorder._writer.file.close()  # as a crash does: no end, no lock
    end = end_interrupted(recorder.path).body
    assert end["payload"]["status"] == "interrupted"
    assert end["payload"]["synthetic"] is True
    assert end_interrupted(recorder.path) is None


def test_a_second_writer_in_this_process_is_refused(tmp_path):
    with opened(tmp_path) as recorder:
        recorder.record("step.started", step())
        before = recorder.path.read_bytes()
        with pytest.raises(TranscriptLocked) as refused:
            opened(tmp_path, recorder.run_id)
        assert refused.value.hint
        assert recorder.path.read_bytes() == before
    opened(tmp_path, recorder.run_id).close()


RACE = """
import sys, time
from tracklog.model.errors import TranscriptLocked
from tracklog.recording.recorder import Recorder
run, storage, at = sys.argv[1:]
while time.time() < float(at):
    pass
try:
    recorder = Recorder.open(run, storage)
except TranscriptLocked:
    print("locked", flush=True)
else:
    recorder.record("run.started", {"name": "r", "kind": "workflow"})
    print("won", flush=True)
sys.stdin.read()
"""


def test_of_four_processes_that_race_for_a_transcript_one_wins(tmp_path):
    ends = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    words = [RACE, run_id(), tmp_path, time.time() + 0.5]
    racers = [forking.script(*words, **ends) for _ in range(4)]
    words = sorted(racer.stdout.readline().strip() for racer in racers)
    for racer in racers:
        racer.communicate()
    assert words == ["locked", "locked", "locked", "won"]


def test_after_a_fork_the_child_is_refused_and_the_parent_writes_on(tmp_path):
    script = textwrap.dedent("""
        import os, sys
        from tracklog.model.errors import ForkedRecorder, TranscriptLocked
        from tracklog.recording.recorder import Recorder
        recorder = Recorder.open(sys.argv[1], sys.argv[2])
        step = {"name": "x", "kind": "command"}
        recorder.record("step.started", step)
        child = os.fork()
        if not child:
            refused = 0
            for call in (lambda: recorder.record("step.started", step), recorder.subscribe):
                try:
                    call()
                except ForkedRecorder as error:
                    refused += bool(error.hint)
            try:
                Recorder.open(sys.argv[1], sys.argv[2])
            except TranscriptLocked:
                refused += 1
            recorder.close()
            os._exit(refused)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
        assert recorder.record("step.started", step).seq == 2
        recorder.close()
        Recorder.open(sys.argv[1], sys.argv[2]).close()
        print("well")
    """)
    command = [sys.executable, "-c", script, run_id(), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("well\n", "")


def test_the_lock_of_a_killed_parent_does_not_outlive_it_in_its_forks(tmp_path):
    script = textwrap.dedent("""
        import os, sys, time
        from tracklog.recording.recorder import Recorder
        recorder = Recorder.open(sys.argv[1], sys.argv[2])
        recorder.record("step.started", {"name": "x", "kind": "command"})
        child = os.fork()
        if not child:
            time.sleep(30)
            os._exit(0)
        print(child, flush=True)
        time.sleep(30)
    """)
    run = run_id()
    command = [sys.executable, "-c", script, run, str(tmp_path)]
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    child = int(parent.stdout.readline())
    try:
        with pytest.raises(TranscriptLocked):
            Recorder.open(run, tmp_path)
        parent.kill()
        parent.wait()
        Recorder.open(run, tmp_path).close()
    finally:
        os.kill(child, signal.SIGKILL)
        parent.stdout.close()


def test_a_call_from_inside_a_call_is_refused_and_does_not_hang(tmp_path):
    calls = []

    def masker(event):
        for call in (
            lambda: recorder.record("step.started", step()),
            recorder.subscribe,
            recorder.close,
        ):
            with pytest.raises(ReentrantCall) as refused:
                call()
            calls.append(refused.value.hint)
        return event

    with opened(tmp_path, masker=masker) as recorder:
        recorder.record("step.started", step())
    assert len(calls) == 3
    assert len(bodies(recorder.path)) == 1


def test_an_interrupt_at_any_time_leaves_complete_lines_no_gap_and_a_recorder_that_goes_on(
    tmp_path,
):
    """Ctrl-C again and again, wherever it hits."""
    chance, interrupted, armed = random.Random(7), 0, [False]

    def handler(*_):
        if armed[0]:
            armed[0] = False
            raise KeyboardInterrupt

    gc.collect()
    gc.disable()  # else the interrupt hits somebody else's finalizer
    before = signal.signal(signal.SIGALRM, handler)
    try:
        with opened(tmp_path, durability="os") as recorder:
            heard = recorder.subscribe(buffer=1 << 20)
            for _ in range(2000):
                try:
                    armed[0] = True
                    signal.setitimer(signal.ITIMER_REAL, 1e-6 + chance.random() * 2e-4)
                    for _ in range(50):
                        recorder.record("step.started", step())
                    armed[0] = False
                except KeyboardInterrupt:
                    interrupted += 1
                signal.setitimer(signal.ITIMER_REAL, 0)
            last = recorder.record("step.started", step())
    finally:
        armed[0] = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        gc.enable()
    found = bodies(recorder.path)
    assert interrupted > 100
    assert [body["seq"] for body in found] == list(range(1, len(found) + 1))
    told: list[int] = []
    for each in heard:
        told += range(each.first_seq, each.last_seq + 1) if isinstance(each, Gap) else [each.seq]
    assert told == list(range(1, last.seq + 1))  # what was not broadcast is told as a gap


def unprotected(code: types.CodeType) -> Iterator[str]:
    """Where a loop in a `with` block goes back without a way to the block's end.

    There a signal's handler may raise, so whatever the block holds would stay held.
    """
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from unprotected(inner)
    instructions = list(dis.Bytecode(code))
    names = {instruction.offset: instruction.opname for instruction in instructions}
    after = dict(itertools.pairwise(names))
    entries = dis.Bytecode(code).exception_entries
    ends = {each.target for each in entries if names[after[each.target]] == "WITH_EXCEPT_START"}
    for instruction in instructions:
        if instruction.opname.startswith("JUMP_BACKWARD") and not any(
            each.start <= instruction.offset < each.end for each in entries
        ):
            before = {each.target for each in entries if each.end <= instruction.offset}
            behind = {each.target for each in entries if each.start > instruction.offset}
            if ends & before & behind:
                yield f"{code.co_qualname}:{instruction.positions.lineno}"


def test_no_loop_of_a_recorder_can_leave_a_lock_held():
    """Python 3.12 and 3.13 do not protect every one: the loop belongs into a function of its own."""
    house = Path(fanout.__file__).parent
    files = [house / "fanout.py", *(house / "recorder").rglob("*.py")]
    found = [
        f"{file.name}: {each}"
        for file in files
        for each in unprotected(compile(file.read_text(), file, "exec"))
    ]
    assert found == []


@pytest.mark.requirement("AWF-56")
def test_closing_three_times_is_closing_once_and_nothing_is_recorded_afterwards(tmp_path):
    recorder = opened(tmp_path)
    recorder.record("step.started", step())
    for _ in range(3):
        recorder.close()
    assert recorder.health() == "closed"
    before = recorder.path.read_bytes()
    with pytest.raises(RecorderClosed) as refused:
        recorder.record("step.started", step())
    assert refused.value.hint
    assert recorder.emit("step.started", step()) is None
    assert recorder.path.read_bytes() == before


def test_it_closes_in_an_event_loop_too(tmp_path):
    async def work():
        async with (
            opened(tmp_path) as recorder,
            recorder.run("r") as run,
            run.step("s", "agent") as one,
        ):
            one.user("hi")
        return recorder

    recorder = asyncio.run(work())
    assert recorder.health() == "closed"
    assert [body["type"] for body in bodies(recorder.path)][-1] == "run.completed"


def test_a_null_recorder_accepts_anything_and_keeps_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    threads = threading.active_count()
    with NullRecorder() as recorder:
        assert recorder.record("nonsense", object(), seq=5) is None
        assert recorder.emit("nonsense") is None
        assert list(recorder.subscribe(after_seq=0)) == []
        with recorder.run("r") as run, run.step("s", "agent") as one, one.tool("t") as call:
            call.output = 1
            with run.call_workflow("child", run_id()) as sub:
                sub.child.record("run.started", step())
        assert isinstance(recorder.child("x"), NullRecorder)
        assert recorder.stats().written == recorder.durable_seq == 0
        assert recorder.tee(tmp_path / "copy").join()
    assert recorder.health() == "closed"
    assert threading.active_count() == threads
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def patient(monkeypatch):
    """A disk that failed is not tried again by itself, however slowly the test goes on."""
    for pause in ("FIRST_PAUSE", "LONGEST_PAUSE"):
        monkeypatch.setattr(f"tracklog.recording.recorder.spill.{pause}", 3600.0)


def test_degrade_keeps_events_in_order_and_writes_them_first(tmp_path, caplog, patient):
    disk = FailingDisk()
    with opened(tmp_path, disk=disk) as recorder:
        recorder.emit("step.started", step("one"))
        disk.fail("write", errno.ENOSPC)
        assert recorder.emit("step.started", step("two")) is None
        assert recorder.emit("step.started", step("three")) is None  # too early to try again
        assert (recorder.stats().spilled, recorder.health()) == (2, "degraded")
        entry = recorder.record("step.started", step("four"))
        assert entry.seq == 4
        assert recorder.health() == "ok"
    found = bodies(recorder.path)
    assert [body["payload"]["name"] for body in found] == ["one", "two", "three", "four"]
    assert [body["seq"] for body in found] == [1, 2, 3, 4]
    assert "step.started" in caplog.text
    assert "ENOSPC" in caplog.text
    assert not any("lost" in body for body in found)


def test_the_disk_is_tried_again_after_a_pause_that_doubles(tmp_path, monkeypatch):
    disk, now = FailingDisk(), [100.0]
    monkeypatch.setattr(recorders.recorder.time, "monotonic", lambda: now[0])
    with opened(tmp_path, disk=disk) as recorder:
        disk.fail("write", *[errno.ENOSPC] * 4)
        tried = []
        for _ in range(200):
            before = disk.calls.count("write")
            recorder.emit("step.started", step())
            if disk.calls.count("write") > before:
                tried.append(round(now[0] - 100.0, 2))
            now[0] += 0.01
        assert tried[:5] == [0.0, 0.05, 0.15, 0.35, 0.75]
    assert [body["seq"] for body in bodies(recorder.path)] == list(range(1, 201))


def test_what_overflows_is_counted_and_the_next_event_says_how_many_were_lost(tmp_path, patient):
    disk = FailingDisk()
    with opened(tmp_path, disk=disk) as recorder:
        recorder._spill._limit = 3
        disk.fail("write", errno.ENOSPC)
        for name in "abcde":
            recorder.emit("step.started", step(name))
        assert recorder.stats().lost == 2
        recorder.record("step.started", step("f"))
        recorder.record("step.started", step("g"))
    found = bodies(recorder.path)
    assert [body["payload"]["name"] for body in found] == ["a", "b", "c", "f", "g"]
    assert [body.get("lost") for body in found] == [None, None, None, {"count": 2}, None]


def test_the_spill_is_bounded_in_bytes_too(tmp_path, patient):
    disk = FailingDisk()
    with opened(tmp_path, disk=disk) as recorder:
        disk.fail("write", errno.ENOSPC)
        for _ in range(10):
            recorder.emit("message.assistant", said("x" * (1 << 20)))
        assert recorder.stats().spilled == 7
        assert recorder.stats().lost == 3


def test_ignore_gives_up_and_reports_it_and_fail_raises(tmp_path):
    disk = FailingDisk()
    with opened(tmp_path, disk=disk, on_error="ignore") as recorder:
        disk.fail("write", errno.EIO)
        assert recorder.emit("step.started", step("one")) is None
        assert recorder.emit("nonsense", None) is None
        recorder.emit("step.started", step("two"))
    assert [body.get("lost") for body in bodies(recorder.path)] == [{"count": 2}]
    with opened(tmp_path, disk=disk, on_error="fail") as recorder:
        disk.fail("write", errno.EIO)
        with pytest.raises(WriteFailed):
            recorder.emit("step.started", step("one"))
        with pytest.raises(InvalidEvent):
            recorder.emit("nonsense", None)


def test_a_disk_that_fails_while_opening_is_tried_again(tmp_path):
    disk = FailingDisk()
    disk.fail("open", errno.ENOSPC, errno.ENOSPC)
    with opened(tmp_path, disk=disk) as recorder:
        assert recorder.health() == "broken"
        assert recorder.emit("run.started", step("r", "workflow")) is None
        assert recorder.record("step.started", step()).seq == 2
        assert recorder.health() == "ok"
    assert [body["type"] for body in bodies(recorder.path)] == ["run.started", "step.started"]
    disk.fail("open", errno.ENOSPC)
    with pytest.raises(WriteFailed):
        opened(tmp_path, disk=disk, on_error="fail")


def test_what_waits_is_written_at_close(tmp_path):
    disk = FailingDisk()
    recorder = opened(tmp_path, disk=disk)
    disk.fail("write", errno.ENOSPC)
    recorder.emit("step.started", step())
    recorder.close()
    assert len(bodies(recorder.path)) == 1


def test_a_run_goes_on_without_a_transcript_that_cannot_be_had(tmp_path, caplog):
    with opened(tmp_path) as recorder:
        other = Recorder.try_open(recorder.run_id, tmp_path / "storage")
        assert isinstance(other, NullRecorder)
        assert "without a transcript" in caplog.text


@pytest.mark.requirement("AWF-71", "AWF-72")
def test_nothing_is_masked_by_default(tmp_path):
    secret = "API_KEY=sk-live-0123456789 PASSWORD=hunter2"
    with opened(tmp_path) as recorder:
        assert recorder.options.masker is None
        recorder.record("tool.call", called(input={"env": secret}))
    assert bodies(recorder.path)[0]["payload"]["input"] == {"env": secret}


@pytest.mark.requirement("AWF-72")
def test_a_masker_sees_each_event_once_with_its_number_before_disk_and_broadcast(tmp_path):
    seen = []

    def masker(event):
        seen.append((event["seq"], event["payload"]["input"]))
        event["payload"]["input"] = "[masked]"
        event["payload"]["blocks"][0]["tool_input"] = "[masked]"
        return event

    with opened(tmp_path, masker=masker) as recorder:
        heard = recorder.subscribe()
        for secret in ("s3cret", "t0ken"):
            recorder.record("tool.call", called(input=secret))
        assert recorder.stats().masked == 2
    assert seen == [(1, "s3cret"), (2, "t0ken")]
    content = recorder.path.read_bytes()
    assert b"s3cret" not in content
    assert b"t0ken" not in content
    assert [entry.line for entry in heard] == content.split(b"\n")[:-1]


@pytest.mark.parametrize(
    "masker",
    [
        lambda event: 1 / 0,
        lambda event: None,
        lambda event: event | {"seq": 9},
        lambda event: event | {"type": "step.completed"},
        lambda event: event | {"run_id": "x"},
        lambda event: event | {"parent_run_id": "x"},
        lambda event: event | {"payload": None},
        lambda event: event | {"payload": {"name": float("nan"), "kind": "k"}},
    ],
)
def test_a_masker_that_fails_or_oversteps_refuses_the_event(tmp_path, masker):
    with opened(tmp_path, masker=masker) as recorder:
        heard = recorder.subscribe()
        with pytest.raises(MaskFailed) as refused:
            recorder.record("step.started", step("s3cret"))
        assert refused.value.hint
        assert recorder.stats().mask_errors == 1
    assert recorder.path.read_bytes() == b""
    assert list(heard) == []


def test_or_every_free_text_is_replaced_and_words_and_ids_stay(tmp_path):
    def masker(_):
        raise RuntimeError

    with opened(tmp_path, masker=masker, on_mask_error="placeholder") as recorder:
        recorder.record(
            "tool.call", called(input={"name": "s3cret", "n": [1, "t0ken"]}), "a.b", step_seq=3,
            note="pr1vate",
        )  # fmt: skip
    body = bodies(recorder.path)[0]
    assert not [word for word in ("s3cret", "t0ken", "pr1vate") if word in json.dumps(body)]
    assert body["payload"]["call_id"] == "call-1"
    assert body["payload"]["name"] == "read"
    assert body["payload"]["input"] == {"name": "[masked:error]", "n": [1, "[masked:error]"]}
    assert body["payload"]["blocks"][0]["type"] == "tool_use"
    assert (body["step_seq"], body["note"]) == (3, "[masked:error]")


def test_long_strings_are_cut_longest_first_with_a_mark_and_structure_stays(tmp_path):
    long, longer = "ä" * 3000, "b" * 9000
    with opened(tmp_path, max_event_bytes=4096) as recorder:
        recorder.record("tool.call", called(input={"keep": "short", "one": long, "two": [longer]}))
        recorder.record("step.started", step())
        assert recorder.stats().truncated == 1
    first, second = bodies(recorder.path)
    assert len(recorder.path.read_bytes().split(b"\n")[0]) <= 4096
    owners = [first["payload"]["input"], first["payload"]["blocks"][0]["tool_input"]]
    for owner in owners:
        assert owner["keep"] == "short"
        marks = owner["truncated"]
        for mark in marks if isinstance(marks, list) else [marks]:
            original = {"one": long, "two/0": longer}[mark["key"]]
            assert mark["bytes"] == len(original.encode())
            assert mark["sha256"] == sha256(original.encode()).hexdigest()
            kept = owner["one"] if mark["key"] == "one" else owner["two"][0]
            assert original.startswith(kept)
    assert "truncated" not in second["payload"]


def test_without_a_limit_a_line_has_no_cap(tmp_path):
    with opened(tmp_path) as recorder:
        recorder.record("message.assistant", said("x" * (20 << 20)))
    assert len(bodies(recorder.path)[0]["payload"]["blocks"][0]["text"]) == 20 << 20


def test_the_chain_holds_over_seams_and_is_the_last_key(tmp_path):
    with opened(tmp_path, integrity="chain") as recorder:
        recorder.record("run.started", step("r", "workflow"))
        recorder.record("step.started", step(), mine=1)
    with opened(tmp_path, recorder.run_id) as again:  # goes on with the chain it finds
        again.record("step.completed", step())
    for body in bodies(recorder.path):
        assert list(body)[-1] == "chain"
    proof = verify_chain(recorder.path)
    assert proof.sound
    assert (proof.lines, proof.unchained) == (3, 0)
    assert proof.head == bodies(recorder.path)[-1]["chain"]


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"durability": "never"}, "durability"),
        ({"on_error": "panic"}, "on_error"),
        ({"integrity": "tree"}, "integrity"),
        ({"lock": "shared"}, "lock"),
        ({"fsync_interval": 0}, "fsync_interval"),
        ({"max_event_bytes": 0}, "max_event_bytes"),
    ],
)
def test_an_option_with_a_wrong_value_is_named(tmp_path, options, word):
    with pytest.raises(ValueError, match=word):
        opened(tmp_path, **options)


@pytest.mark.requirement("AWF-3", "AWF-16", "AWF-17", "AWF-64", "AWF-65", "AWF-66")
def test_a_recorded_run_answers_the_queries_it_must_answer(tmp_path):
    with (
        opened(tmp_path) as recorder,
        recorder.run("review", inputs_sha256="ab") as run,
        run.step("each_file", "for_each") as loop,
    ):
        for index in range(2):
            with loop.step("check", "agent", index=index) as one:
                one.user("look at it", "be brief")
                with one.tool("read", {"path": "a.py"}) as call:
                    call.output = {"content": "x"}
                one.assistant([{"type": "text", "fidelity": "agent_emitted", "text": "fine"}])
    found = bodies(recorder.path)
    assert [body["seq"] for body in found] == list(range(1, 17))
    start, end = found[0], found[-1]
    assert (start["type"], end["type"]) == ("run.started", "run.completed")
    assert list(start["payload"])[:2] == ["name", "kind"]
    assert start["payload"]["schema_version"] == 1
    assert start["payload"]["producer"].startswith("tracklog/")
    assert end["payload"]["status"] == "ok"
    texts = [
        block["text"]
        for body in found
        if body["type"] == "message.assistant"
        for block in body["payload"]["blocks"]
        if block["type"] == "text"
    ]
    assert texts == ["fine", "fine"]
    assert {b["payload"]["fidelity"] for b in found if b["type"] == "tool.call"} == {"router"}
    kinds = [
        (b["seq"], b["path"], b["payload"]["kind"]) for b in found if b["type"] == "step.started"
    ]
    assert kinds == [(2, "each_file", "for_each"), (3, "each_file.check", "agent"),
                     (9, "each_file.check", "agent")]  # fmt: skip


@pytest.mark.requirement("AWF-21", "AWF-23", "AWF-24", "AWF-74", "AWF-77")
def test_messages_and_tools_carry_their_step_and_their_blocks(tmp_path):
    with opened(tmp_path) as recorder, recorder.run("r") as run, run.step("a", "agent") as one:
        one.user("prompt", "system")
        with one.tool("read", {"p": 1}, provider_call_id="toolu_1") as call:
            call.output = "text"
        one.tool_call("bash", "toolu_2", {"cmd": "ls"})
        one.tool_result("bash", "toolu_2", {"cmd": "ls"}, "a\n")
    _, start, user, use, result, theirs, theirs_result, *_ = bodies(recorder.path)
    for body in (user, use, result, theirs, theirs_result):
        assert (body["step_seq"], body["path"]) == (start["seq"], "a")
    assert [(b["part"], b["text"]) for b in user["payload"]["blocks"]] == [
        ("prompt", "prompt"), ("system_prompt", "system")]  # fmt: skip
    assert use["payload"]["call_id"] == result["payload"]["call_id"]
    assert use["payload"]["provider_call_id"] == "toolu_1"
    assert result["payload"]["output"] == "text"
    assert result["payload"]["input"] == {"p": 1}
    (block,) = use["payload"]["blocks"]
    assert (block["type"], block["tool_id"]) == ("tool_use", use["payload"]["call_id"])
    (block,) = result["payload"]["blocks"]
    assert (block["type"], block["tool_content"]) == ("tool_result", "text")
    assert theirs["payload"]["fidelity"] == theirs_result["payload"]["fidelity"] == "agent_emitted"


class Strange(BaseException):
    """Neither an error nor a cancellation."""


@pytest.mark.requirement("AWF-17", "AWF-18")
@pytest.mark.parametrize("kind", ["agent", "command", "operation", "terminal", "parallel",
                                  "for_each", "while", "my_custom"])  # fmt: skip
@pytest.mark.parametrize(
    ("raised", "status"),
    [
        (None, "ok"),
        (ValueError("bad"), "failed"),
        (TimeoutError("slow"), "timeout"),
        (asyncio.CancelledError(), "cancelled"),
        (GeneratorExit(), "cancelled"),
        (KeyboardInterrupt(), "interrupted"),
        (Strange("odd"), "interrupted"),
    ],
)
def test_every_end_is_recorded_however_the_body_ends(tmp_path, kind, raised, status):
    def work():
        with recorder.run("r") as run, run.step("s", kind), run.tool("t"):
            if raised is not None:
                raise raised

    with opened(tmp_path, durability="os") as recorder:
        if raised is None:
            work()
        else:
            with pytest.raises(type(raised)):
                work()
    types = [body["type"] for body in bodies(recorder.path)]
    assert types == ["run.started", "step.started", "tool.call", "tool.result", "step.completed",
                     "run.completed"]  # fmt: skip
    _, start, _, result, one, run = bodies(recorder.path)
    assert one["step_seq"] == start["seq"]
    assert (start["payload"]["kind"], one["payload"]["kind"]) == (kind, kind)
    assert (one["payload"]["status"], run["payload"]["status"]) == (status, status)
    assert ("error" in one["payload"]) == ("error" in result["payload"]) == (raised is not None)


def test_cancelling_the_work_does_not_cancel_the_recording_of_its_end(tmp_path):
    async def work():
        async with opened(tmp_path) as recorder:

            async def endless():
                async with recorder.run("r") as run, run.step("s", "agent") as one, one.tool("t"):
                    inside.set()
                    await asyncio.sleep(600)

            inside = asyncio.Event()
            task = asyncio.create_task(endless())
            await inside.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        return recorder

    found = bodies(asyncio.run(work()).path)
    ends = [(body["type"], body["payload"].get("status")) for body in found[-3:]]
    assert ends == [("tool.result", None), ("step.completed", "cancelled"),
                    ("run.completed", "cancelled")]  # fmt: skip


def test_a_command_step_has_its_command_and_its_exit_code(tmp_path):
    with opened(tmp_path) as recorder, recorder.run("r") as run:
        with run.step("build", "command", command="make all") as one:
            one.exit_code, one.output, one.stderr = 2, "some", "no rule"
        with run.step("test", "command") as one:
            one.exit_code = 3
        with run.step("docs", "command", capture_output=True) as one:
            one.exit_code, one.output, one.stderr, one.result = 0, "out", "", {"pages": 3}
        with run.step("soft", "operation") as one:
            one.error = "not today"
        with run.step("later", "operation") as one:
            one.status = "skipped"
    found = bodies(recorder.path)
    block = found[1]["payload"]["blocks"]
    assert block == [{"type": "command", "fidelity": "router", "command": "make all"}]
    ends = [b["payload"] for b in found if b["type"] == "step.completed"]
    assert [end["status"] for end in ends] == ["failed", "failed", "ok", "failed", "skipped"]
    assert [end.get("error") for end in ends] == ["no rule", "exit code 3", None, "not today", None]
    assert (ends[0]["exit_code"], ends[0]["had_output"]) == (2, True)
    assert "output" not in ends[0]
    assert (ends[2]["output"], ends[2]["result"]) == ("out", {"pages": 3})
    assert list(ends[2])[:3] == ["name", "kind", "result"]


@pytest.mark.requirement("AWF-10")
def test_paths_are_dotted_names_and_loops_count_in_frames_and_iteration(tmp_path):
    with opened(tmp_path, durability="os") as recorder, recorder.run("r") as run:
        with (
            run.step("outer", "for_each") as outer,
            outer.step("mid", "while", index=2) as mid,
            mid.step("leaf", "agent", index=5, attempt=2) as leaf,
        ):
            leaf.user("x")
        with run.step("split", "parallel") as split, split.step("a.b/c%", "command", branch="left"):
            pass
    found = bodies(recorder.path)
    user = next(body for body in found if body["type"] == "message.user")
    assert (user["path"], user["iteration"], user["attempt"]) == ("outer.mid.leaf", 5, 2)
    assert user["frames"] == [{"step": "outer", "index": 2}, {"step": "mid", "index": 5}]
    branch = next(body for body in found if body["payload"].get("name") == "a.b/c%")
    assert branch["path"] == "split.a%2Eb%2Fc%25"
    assert branch["frames"] == [{"step": "split", "branch": "left"}]
    assert branch["iteration"] == 0
    assert all(body["path"] == "" for body in found if body["type"].startswith("run."))
    assert "attempt" not in found[1]


def test_a_tool_may_fail_hard_or_answer_with_a_failure(tmp_path):
    with opened(tmp_path, durability="os") as recorder, recorder.run("r") as run:
        with pytest.raises(ValueError), run.tool("hard", 1):
            raise ValueError("boom")
        with run.tool("soft", 2) as call:
            call.output, call.is_error = {"content": "no such file"}, True
    hard, soft = (b["payload"] for b in bodies(recorder.path) if b["type"] == "tool.result")
    assert (hard["output"], hard["error"]) == (None, "ValueError: boom")
    assert "is_error" not in hard
    assert (soft["output"], soft["is_error"]) == ({"content": "no such file"}, True)
    assert "error" not in soft
    assert soft["blocks"][0]["is_error"] is True


@pytest.mark.requirement(
    "AWF-19", "AWF-20", "AWF-44", "AWF-45", "AWF-46", "AWF-48", "AWF-67", "AWF-75"
)
def test_three_levels_are_three_files_linked_both_ways(tmp_path):
    ids = [run_id() for _ in range(3)]

    def work(recorder, level):
        with recorder.run(f"level-{level}") as run:
            with run.step("talk", "agent") as one:
                one.user("x")
                with one.tool("t"):
                    pass
            if level < 2:
                with run.call_workflow(f"to-{level + 1}", ids[level + 1]) as call:
                    work(call.child, level + 1)

    with Recorder.open(ids[0], tmp_path, durability="os") as recorder:
        work(recorder, 0)
    files = [bodies(tmp_path / "transcripts" / f"{id}.jsonl") for id in ids]
    for level, found in enumerate(files):
        assert [body["seq"] for body in found] == list(range(1, len(found) + 1))
        assert {body["run_id"] for body in found} == {ids[level]}
        parents = {body.get("parent_run_id") for body in found}
        assert parents == {ids[level - 1] if level else None}
        calls = [body for body in found if "child_run_id" in body]
        wanted = ["step.call_workflow.started", "step.call_workflow.completed"] * (level < 2)
        assert [body["type"] for body in calls] == wanted
        assert all(body["child_run_id"] == ids[level + 1] for body in calls)
        assert all(body["payload"]["kind"] == "call_workflow" for body in calls)
    assert len(list((tmp_path / "transcripts").iterdir())) == 3


@pytest.mark.requirement("AWF-17", "AWF-20", "AWF-44")
def test_a_child_that_cannot_start_has_its_two_lines_and_is_closed(tmp_path):
    child = run_id()
    with (
        opened(tmp_path) as recorder,
        recorder.run("r") as run,
        pytest.raises(RecursionError),
        run.call_workflow("deep", child, workflow="deploy"),
    ):
        raise RecursionError("too deep")
    start, end = bodies(recorder.path.with_name(f"{child}.jsonl"))
    assert (start["type"], end["type"]) == ("run.started", "run.completed")
    assert start["payload"]["name"] == "deploy"
    assert "too deep" in end["payload"]["error"]
    assert start["parent_run_id"] == end["parent_run_id"] == recorder.run_id
    done = next(b for b in bodies(recorder.path) if b["type"] == "step.call_workflow.completed")
    assert "too deep" in done["payload"]["error"]
    opened(tmp_path, child, resume=True).close()  # nobody holds it


def test_a_child_whose_file_is_locked_does_not_stop_the_parent(tmp_path, caplog):
    with (
        opened(tmp_path) as other,
        opened(tmp_path) as recorder,
        recorder.run("r") as run,
        run.call_workflow("sub", other.run_id) as call,
    ):
        assert isinstance(call.child, NullRecorder)
    assert "without a transcript" in caplog.text
    assert len(bodies(recorder.path)) == 4


def test_what_the_disk_does_never_disturbs_the_work(tmp_path):
    disk = FailingDisk()
    done = []
    with opened(tmp_path, disk=disk) as recorder:
        disk.fail("write", *[errno.EIO] * 3)
        with recorder.run("r") as run, run.step("s", "agent") as one:
            one.assistant([])
            done.append(1)
    assert done == [1]
    assert [body["seq"] for body in bodies(recorder.path)] == [1, 2, 3, 4, 5]


def test_an_end_waits_two_seconds_for_a_busy_transcript_and_is_written_later(tmp_path, monkeypatch):
    monkeypatch.setattr(recorders.scopes, "DEADLINE", 0.05)
    with opened(tmp_path) as recorder, recorder.run("r") as run:
        steps = [run.step(f"s{n}", "agent") for n in range(3)]
        for one in steps:
            one.begin()
        held, release = threading.Event(), threading.Event()

        def hold():
            with recorder._mutex:
                held.set()
                release.wait(60)

        thread = threading.Thread(target=hold)
        thread.start()
        assert held.wait(60)
        took = []
        for one in steps:  # the machine does not stand still in each of three
            began = time.monotonic()
            one.end()
            took.append(time.monotonic() - began)
        assert min(took) < 2
        release.set()
        thread.join()
    types = [body["type"] for body in bodies(recorder.path)]
    ends = [*["step.started"] * 3, *["step.completed"] * 3]
    assert types == ["run.started", *ends, "run.completed"]


def test_a_signal_handler_that_records_tears_no_line_and_does_not_deadlock(tmp_path):
    refused, busy = [], [False]
    with opened(tmp_path, durability="os") as recorder:

        def handler(*_):
            if busy[0]:
                return  # a slow machine: the next signal is here before this one is done
            busy[0] = True
            try:
                recorder.record("step.started", step("signal"))
            except ReentrantCall:
                refused.append(1)
            busy[0] = False

        before = signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
        try:
            for _ in range(5000):
                recorder.record("step.started", step("main"))
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
    found = bodies(recorder.path)
    assert [body["seq"] for body in found] == list(range(1, len(found) + 1))
    heard = [body["payload"]["name"] for body in found].count("signal")
    assert len(found) == 5000 + heard
    assert heard + len(refused) > 0


def test_stats_count(tmp_path):
    with opened(tmp_path) as recorder:
        recorder.record("message.assistant", said())
        stats = recorder.stats()
    assert (stats.last_seq, stats.durable_seq, stats.written, stats.syncs) == (1, 1, 1, 1)
    assert (stats.failed, stats.spilled, stats.lost, stats.health) == (0, 0, 0, "ok")
    assert stats.fanout.published == 1
