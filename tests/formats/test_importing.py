"""Importing as a whole: what it remembers, and what becomes of it when it is cut off."""

import gzip
import os
import re
import signal
import subprocess
import time
from itertools import count, islice

import orjson
import pytest
import zstandard

from support import sampling
from support.asking import ask
from support.forking import script, tracklog
from support.sessions import AT, SESSION, claude
from tracklog.answers.doctor import doctor
from tracklog.formats import registry
from tracklog.formats.importers import SourceReading, cloudevents, copilot, gemini, opened
from tracklog.formats.importers.agui import reader as agui
from tracklog.formats.importing import Importing
from tracklog.home.home import Home

THREAD = "019982b8-3422-79e0-8b3b-05abaf4f3c3e"
ROLLOUT = f"rollout-2026-05-05T09-00-00-{THREAD}.jsonl"


def codex():
    yield {"timestamp": AT, "type": "session_meta", "payload": {"id": THREAD, "cwd": "/tmp"}}
    for n in count():
        item = {
            "type": "agent_message",
            "id": f"i{n}",
            "content": [{"type": "text", "text": str(n)}],
        }
        told = {"type": "item_completed", "turn_id": f"t{n}", "item": item}
        begun = {"type": "task_started", "turn_id": f"t{n}"}
        call = {"type": "function_call", "name": "shell", "arguments": "{}", "call_id": f"c{n}"}
        said = [{"type": "output_text", "text": f"said {n}"}]
        message = {"type": "message", "role": "assistant", "content": said}
        for kind, payload in (
            ("event_msg", begun),
            ("event_msg", told),
            ("response_item", call),
            ("response_item", message),
        ):
            yield {"timestamp": AT, "type": kind, "payload": payload}


def codex_printed():
    yield {"type": "thread.started", "thread_id": THREAD}
    for n in count():
        item = {"id": f"item_{n}", "type": "command_execution", "command": f"ls {n}"}
        yield {"type": "item.started", "item": {**item, "status": "in_progress"}}


def gemini_lines():
    yield {"sessionId": SESSION, "projectHash": "h", "startTime": AT}
    for n in count():
        yield {"id": f"m{n}", "type": "gemini", "timestamp": AT, "content": f"said {n}"}


def copilot_events():
    yield {"type": "session.start", "id": "e", "timestamp": AT, "data": {"sessionId": SESSION}}
    for n in count():
        call = {"toolCallId": f"c{n}", "toolName": "bash", "arguments": {}}
        yield {"type": "tool.execution_start", "id": f"s{n}", "timestamp": AT, "data": call}
        told = {"toolCallId": f"a{n}", "agentName": "explore"}
        yield {"type": "subagent.started", "id": f"b{n}", "timestamp": AT, "data": told}


def openai_responses():
    for n in count():
        output = [{"type": "message", "role": "assistant", "content": [
            {"type": "output_text", "text": f"said {n}"}]}]  # fmt: skip
        response = {
            "id": f"resp_{n}",
            "object": "response",
            "status": "completed",
            "output": output,
        }
        if n:
            response["previous_response_id"] = f"resp_{n - 1}"
        request = {"input": f"asked {n}", "previous_response_id": f"resp_{n - 1}" if n else None}
        yield {"request": request, "response": response}


def agui_events():
    yield {"type": "RUN_STARTED", "threadId": "t", "runId": "r"}
    for n in count():
        yield {"type": "TEXT_MESSAGE_START", "messageId": f"m{n}", "role": "assistant"}
        yield {"type": "TEXT_MESSAGE_CONTENT", "messageId": f"m{n}", "delta": f"said {n}"}
        yield {"type": "TEXT_MESSAGE_END", "messageId": f"m{n}"}


def cloud_events():
    for n in count():
        yield {"specversion": "1.0", "id": f"{n}", "source": "/x", "type": "t", "subject": f"s{n}"}


LONG = {
    "claude": (f"{SESSION}.jsonl", claude),
    "codex": (ROLLOUT, codex),
    "codex, printed": ("printed.jsonl", codex_printed),
    "gemini": ("session-2026-05-05T09-00-cfa1e878.jsonl", gemini_lines),
    "copilot": (f"{SESSION}/events.jsonl", copilot_events),
    "openai": ("responses.jsonl", openai_responses),
    "agui": ("events.jsonl", agui_events),
    "cloudevents": ("events.jsonl", cloud_events),
}


@pytest.mark.parametrize("shape", LONG)
def test_what_is_remembered_of_a_file_does_not_grow_with_it(shape, tmp_path, monkeypatch):
    from tracklog.formats.importers import _exchanges, _line_writer, _live_calls  # noqa: PLC0415  # the limits, made small

    for module in (agui, cloudevents, copilot, gemini, _live_calls):
        monkeypatch.setattr(module, "LONG", 256)
    monkeypatch.setattr(_line_writer, "EQUALS", 256)
    monkeypatch.setattr(_exchanges, "MOST_PRINTS", 256)
    monkeypatch.setattr(_exchanges, "CHAINS", 4)
    name, records = LONG[shape]
    importer = registry.importer(shape.partition(",")[0])

    def remembered(many):
        path = tmp_path / str(many) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"".join(orjson.dumps(each) + b"\n" for each in islice(records(), many)))
        *_, last = SourceReading(importer, path).lines(final=False)
        kept = {key: value for key, value in last.place.kept.items() if key != "runs"}
        assert sum(last.place.kept["runs"].values()) >= many / 4
        return len(orjson.dumps([last.place.state, kept]))

    assert remembered(6000) < 2.2 * remembered(1000)  # half of it is forgotten at once


def test_what_a_checkpoint_leaves_out_is_taken_back_and_what_it_keeps_is_not(tmp_path):
    messages = [
        {"id": id, "type": "user", "timestamp": AT, "content": f"word {id}"} for id in "abcd"
    ]
    path = tmp_path / "session-2026-05-05T09-00-cfa1e878.jsonl"
    lines = [
        {"sessionId": SESSION, "projectHash": "h", "startTime": AT},
        *messages,
        {"$set": {"messages": [messages[0], messages[2], messages[3]]}},
    ]
    path.write_bytes(b"".join(orjson.dumps(each) + b"\n" for each in lines))
    with Home(tmp_path / "home", durability="os") as home:
        Importing(home).bring([path])
        home.index.catch_up()
        rows = ask(home, "conversation", run=f"tracklog:{SESSION}")
        words = [(row["parts"][0]["text"], row["withdrawn"]) for row in rows]
        again = Importing(home).bring([path], again=True)
    assert words == [("word a", False), ("word b", True), ("word c", False), ("word d", False)]
    assert set(again.lines) == {"duplicate"}


IMPORT = """
import sys
from pathlib import Path
from tracklog.formats import importing
from tracklog.home.home import Home
from tracklog.formats.importers import _reading

_reading.STEP, importing.SAVED = 8 << 10, 32 << 10
with Home(Path(sys.argv[1]), durability="os") as home:
    importing.Importing(home).bring([Path(sys.argv[2])])
"""


def lines_of(home):
    return [record.line for record in home.journal.records()]


def test_an_import_that_is_killed_anywhere_goes_on_without_loss_or_double(tmp_path):
    path = tmp_path / f"{SESSION}.jsonl"
    path.write_bytes(b"".join(orjson.dumps(each) + b"\n" for each in islice(claude(), 1500)))
    with Home(tmp_path / "whole", durability="os") as home:
        Importing(home).bring([path])
        whole = lines_of(home)
    segments, cut = tmp_path / "home" / "journal", 0

    def size():
        return sum(each.stat().st_size for each in segments.rglob("*") if each.is_file())

    for share in (0.1, 0.4, 0.7):
        wanted = share * sum(map(len, whole))
        with script(IMPORT, tmp_path / "home", path) as child:
            while child.poll() is None and (not segments.exists() or size() < wanted):
                time.sleep(0.001)
            cut += child.poll() is None
            child.kill()
    with Home(tmp_path / "home", durability="os") as home:
        before = home.journal.last
        Importing(home).bring([path])
        assert lines_of(home) == whole
    assert cut
    assert 0 < before <= len(whole)


VERB = """
from tracklog.__main__ import main
from tracklog.formats.importers import _reading

_reading.STEP = 8 << 10
main()
"""


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_an_import_that_is_interrupted_prints_what_it_did_until_then(tmp_path, form):
    first = tmp_path / "logs" / "0" / f"{SESSION}.jsonl"
    second = tmp_path / "logs" / "1" / f"{SESSION[:-1]}0.jsonl"
    for path, size in ((first, 20), (second, 3000)):
        path.parent.mkdir(parents=True)
        path.write_bytes(b"".join(orjson.dumps(each) + b"\n" for each in islice(claude(), size)))
    os.utime(first, (1, 1))
    segments = tmp_path / "home" / "journal"

    def size():
        return sum(each.stat().st_size for each in segments.glob("*.jsonl"))

    verb = ["import", "--home", tmp_path / "home", *form, tmp_path / "logs"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with script(VERB, *verb, **pipes) as child:
        while child.poll() is None and (not segments.exists() or size() < 60_000):
            time.sleep(0.001)
        child.send_signal(signal.SIGINT)
        out, error = child.communicate(timeout=120)
    assert child.returncode == 130, (out, error)
    assert b"stopped; everything that was read so far is stored" in error
    with Home(tmp_path / "home", durability="os") as home:
        kept = home.journal.last
    assert kept < 3000
    if form:
        summary = orjson.loads(out)
        assert summary["files"] == 2
        assert 0 < summary["lines"]["accepted"] <= kept
    else:
        assert out.startswith(b"2 files read (")
        accepted = int(re.search(rb"([0-9,]+) accepted", out)[1].replace(b",", b""))
        assert 0 < accepted <= kept


def test_what_an_import_remembers_is_for_the_owner_alone(tmp_path):
    path = tmp_path / f"{SESSION}.jsonl"
    path.write_bytes(b"".join(orjson.dumps(each) + b"\n" for each in islice(claude(), 3)))
    before = os.umask(0)
    try:
        with Home(tmp_path / "home", durability="os") as home:
            Importing(home).bring([path])
    finally:
        os.umask(before)
    assert list((tmp_path / "home" / "sources").glob("*.json"))
    (seen,) = [
        each for each in doctor(tmp_path / "home", time.time()) if each.name == "permissions"
    ]
    assert seen.state == "ok", seen


def zst(content):
    return zstandard.ZstdCompressor().compress(content)


@pytest.mark.parametrize(("suffix", "pack"), [(".gz", gzip.compress), (".zst", zst)])
@pytest.mark.parametrize("shape", LONG)
def test_a_packed_file_is_known_for_what_is_in_it_and_brings_nothing_twice(
    shape, suffix, pack, tmp_path
):
    name, records = LONG[shape]
    whole = b"".join(orjson.dumps(each) + b"\n" for each in islice(records(), 40))
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(whole)
    packed = path.with_name(f"{path.name}{suffix}")
    packed.write_bytes(pack(whole))
    torn = tmp_path / "torn" / packed.name
    torn.parent.mkdir()
    torn.write_bytes(pack(whole)[:-9])
    with Home(tmp_path / "home", durability="os") as home:
        first = Importing(home).bring([packed])
        again = Importing(home).bring([path])
        cut = Importing(home).bring([torn])
    assert (first.lines["accepted"], first.unrecognised) == (again.lines["duplicate"], [])
    assert not again.lines["accepted"]
    assert not cut.lines["refused"]


def test_all_that_a_torn_archive_still_holds_is_read(tmp_path):
    name, records = LONG["claude"]
    lines = [orjson.dumps(each) + b"\n" for each in islice(records(), 40)]
    path = tmp_path / f"{name}.gz"
    # Two members, as when a file was packed in pieces; of the second only its checksum is missing.
    path.write_bytes(gzip.compress(b"".join(lines[:10])) + gzip.compress(b"".join(lines[10:]))[:-8])
    with opened(path) as file:
        assert file.read() == b"".join(lines)


def test_a_folder_with_good_odd_and_bad_lines_of_every_dialect_can_be_imported(tmp_path):
    """Among them a run whose id is empty, which no note can name."""
    done = tracklog(tmp_path, "import", sampling.ROOT / "dialects")
    assert done.returncode == 1, done.stderr
    assert b"Traceback" not in done.stderr
    with Home(tmp_path, readonly=True) as home:
        assert ("awf", "") in home.runs()
        notes = [each for each in home.journal.records() if b'"label":"imported"' in each.line]
    assert len(notes) > 10
    assert all(each.run for each in notes)
