"""The emitters' way to a collector: nothing lost, nothing twice, and the producer never hurt."""

import errno
import importlib.util
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from itertools import groupby
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.collecting import Collector, lasting_port
from support.rude import Rude
from support.soaking import SEED, SOAK
from tracklog.home.home import Home

CONTRACTS = Path(__file__).parents[2] / "contracts"


def load(name):
    spec = importlib.util.spec_from_file_location(f"{name}_of_sinks", CONTRACTS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


MODULES = {
    "kahn-ci": load("kahn_emit"),
    "kahn-agent": load("kahn_agent_emit"),
    "tracklog": load("tracklog_emit"),
}
native = MODULES["tracklog"]
each_emitter = pytest.mark.parametrize("name", MODULES)
NOBODY = "http://127.0.0.1:9"


def opened(name, url, tmp_path, **options):
    module, given = MODULES[name], {"spool": tmp_path / "spool", "environ": {}, **options}
    if name == "tracklog":
        return module.Emitter.http(url, **given).bind(run="r")
    made = module.Emitter if name == "kahn-ci" else module.AgentEmitter
    return made(run_id="r", url=url, **given)


def some(name, emitter, number, text="x"):
    if name == "kahn-ci":
        emitter.run_start(total_nodes=number, text=text)
    elif name == "kahn-agent":
        emitter.agent_run_start(agent_id="a", task=text, total_nodes=number)
    else:
        emitter.tracklog("Noted", label="x", text=text, total_nodes=number)


def sink_of(name, emitter):
    return emitter._shared.sink if name == "tracklog" else emitter._http


def numbers(lines):
    return [json.loads(line)["total_nodes"] for line in lines]


def spooled(tmp_path):
    return sorted((tmp_path / "spool").glob("*/*.spool"))


@each_emitter
def test_lines_arrive_once_in_order_in_their_dialect_with_the_token(name, tmp_path):
    with Rude() as collector:
        with opened(name, collector.url, tmp_path, token="secret") as emitter:
            for number in range(2500):
                some(name, emitter, number)
        assert numbers(collector.lines(name)) == list(range(2500))
        for _, path, headers in collector.asked:
            assert path == f"/api/events/{name}"
            assert headers["Authorization"] == "Bearer secret"
            assert headers["Content-Type"] == "application/x-ndjson"
    assert spooled(tmp_path) == []
    assert len(collector.batches) < 50


@each_emitter
def test_what_is_sent_is_what_a_file_would_hold(name, tmp_path):
    path = tmp_path / "file.jsonl"
    with Rude() as collector:
        environ = {"TRACKLOG_URL": collector.url, "TRACKLOG_SPOOL": str(tmp_path / "spool")}
        module = MODULES[name]
        if name == "tracklog":
            emitter = module.Emitter.file(path, environ=environ).bind(run="r")
        else:
            made = module.Emitter if name == "kahn-ci" else module.AgentEmitter
            emitter = made(path, "r", environ=environ)
        with emitter:
            for number in range(20):
                some(name, emitter, number, "é\u2028 \n")
        assert b"".join(line + b"\n" for line in collector.lines()) == path.read_bytes()


def test_events_of_several_dialects_keep_their_order(tmp_path):
    with Rude() as collector:
        with native.Emitter.http(collector.url, spool=tmp_path / "spool", environ={}) as emitter:
            stage = emitter.bind(run=native.new_id(), actor="host")
            for number in range(6):
                stage.fishbowl("a.b", {"n": number})
                stage.fishbowl("a.b", {"n": number})
                stage.awf("run.started", {"n": number})
                stage.bind(run="w").openwop("a.b", {"n": number})
        said = [json.loads(line) for line in collector.lines()]
        assert [event["payload"]["n"] for event in said] == [n for n in range(6) for _ in range(4)]
        spoken = [dialect for dialect, _ in collector.batches.values()]
        assert [name for name, _ in groupby(spoken)] == ["fishbowl", "awf", "openwop"] * 6


MOODS = [
    "reset",
    (500, {}, {"error": "broken"}),
    "forget",
    (429, {"Retry-After": "0"}, {}),
    "half",
    (503, {"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}, {}),
    "drip",
    (302, {"Location": "http://example.invalid/"}, {}),
    (502, {"Retry-After": "soon"}, {}),
    "forget",
]


@each_emitter
@pytest.mark.parametrize("turn", range(SOAK))
def test_a_rude_collector_gets_every_line_once(name, turn, tmp_path, capfd):
    moods = MOODS[:]
    random.Random(SEED and SEED + turn).shuffle(moods)
    with Rude(*moods) as collector:
        emitter = opened(name, collector.url, tmp_path)
        for number in range(300):
            some(name, emitter, number)
            if number % 30 == 0:
                time.sleep(0.02)
        assert sink_of(name, emitter).flush(60)
        emitter.close()
        assert numbers(collector.lines()) == list(range(300))
        assert collector.conflicts == []
        assert not collector.moods
    assert spooled(tmp_path) == []
    assert "Traceback" not in capfd.readouterr().err


def test_a_collector_that_asks_for_a_pause_gets_it(tmp_path):
    with Rude((429, {"Retry-After": "1"}, {})) as collector:
        emitter = opened("tracklog", collector.url, tmp_path)
        some("tracklog", emitter, 0)
        time.sleep(0.3)
        some("tracklog", emitter, 1)
        emitter._shared.sink.flush(10)
        first, second, *_ = [at for at, *_ in collector.asked]
        assert second - first >= 0.95
        emitter.close()
        assert numbers(collector.lines()) == [0, 1]


@pytest.mark.parametrize(
    ("said", "least", "most"),
    [
        ("2", 2, 2),
        ("1e9", 300, 300),
        ("-1", 0, 0),
        ("nan", 0, 0),
        ("inf", 300, 300),
        ("Fri, 01 Jan 2038 00:00:00 GMT", 300, 300),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0, 0),
        ("tomorrow", 0, 0),
        (None, 0, 0),
    ],
)
def test_retry_after_is_read_within_reason(said, least, most):
    assert least <= native._seconds(said) <= most


@each_emitter
def test_with_the_collector_down_an_event_costs_little_and_the_next_process_sends_it(
    name, tmp_path, capfd
):
    with Rude() as gone:
        url = gone.url
    began = time.perf_counter()
    emitter = opened(name, url, tmp_path, deadline=60)
    for number in range(2000):
        some(name, emitter, number)
    each = (time.perf_counter() - began) / 2000
    assert each < 0.01
    began = time.perf_counter()
    emitter.close()
    assert time.perf_counter() - began < 30
    assert spooled(tmp_path)
    for file in spooled(tmp_path):
        assert file.stat().st_mode & 0o777 == 0o600
        assert file.parent.stat().st_mode & 0o777 == 0o700
    assert capfd.readouterr().err.count("does not answer") == 1
    with Rude(port=gone.server_port) as back:
        with opened(name, url, tmp_path) as emitter:
            some(name, emitter, 2000)
        assert numbers(back.lines()) == list(range(2001))
        assert back.conflicts == []
    assert spooled(tmp_path) == []


def test_a_collector_that_comes_back_gets_the_waiting_lines(tmp_path):
    with Rude() as gone:
        url = gone.url
    emitter = opened("tracklog", url, tmp_path)
    for number in range(100):
        some("tracklog", emitter, number)
        time.sleep(0.002)
    with Rude(port=gone.server_port) as back:
        assert numbers(back.heard(100)) == list(range(100))
        emitter.close()


def test_what_is_meant_for_one_collector_never_goes_to_another(tmp_path):
    with opened("tracklog", NOBODY, tmp_path) as emitter:
        some("tracklog", emitter, 0)
    with Rude() as other:
        with opened("tracklog", other.url, tmp_path) as emitter:
            some("tracklog", emitter, 1)
        assert numbers(other.lines()) == [1]
    assert len(spooled(tmp_path)) == 1


PRODUCER = """
import os, signal, sys, time
sys.path.insert(0, {contracts!r})
from tracklog_emit import Emitter
emitter = Emitter.http({url!r}, spool={spool!r}, environ={{}}, **{options!r}).bind(run="r")
def emit(first, last):
    for number in range(first, last):
        emitter.tracklog("Noted", label="x", total_nodes=number)
"""


def producer(url, tmp_path, code, **options):
    spool = str(tmp_path / "spool")
    head = PRODUCER.format(contracts=str(CONTRACTS), url=url, spool=spool, options=options)
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", head + code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_process_that_just_ends_has_sent_its_lines(tmp_path):
    with Rude() as collector:
        process = producer(collector.url, tmp_path, "emit(0, 3000)")
        assert process.communicate(timeout=60)[1] == ""
        assert process.returncode == 0
        assert numbers(collector.lines()) == list(range(3000))
    assert spooled(tmp_path) == []


def test_a_collector_that_hangs_does_not_delay_the_end_beyond_the_deadline(tmp_path):
    with Rude(*["hang"] * 9) as collector:
        code = "emit(0, 10); time.sleep(0.2); print(time.time(), flush=True)"
        process = producer(collector.url, tmp_path, code, deadline=0.5)
        out, err = process.communicate(timeout=60)
        took = time.time() - float(out)
        assert 0.3 < took < 12  # an answer is waited for longer
        assert (process.returncode, err) == (0, "")
        collector.moods.clear()
        with opened("tracklog", collector.url, tmp_path) as emitter:
            some("tracklog", emitter, 10)
        assert numbers(collector.lines()) == list(range(11))


def test_an_unreachable_collector_does_not_delay_the_end_at_all(tmp_path):
    code = "emit(0, 9); time.sleep(0.3); print(time.time())"
    process = producer(NOBODY, tmp_path, code, deadline=60)
    out, err = process.communicate(timeout=60)
    assert time.time() - float(out) < 30
    assert process.returncode == 0
    assert err.count("\n") == 1
    assert "does not answer" in err


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGTERM])
def test_what_a_killed_process_emitted_is_sent_once_by_the_next(signum, tmp_path):
    with Rude("forget", "hang") as collector:
        code = "emit(0, 500); print('emitted', flush=True); time.sleep(60)"
        process = producer(collector.url, tmp_path, code)
        assert process.stdout.readline() == "emitted\n"
        collector.heard(1)
        process.send_signal(signum)
        process.communicate(timeout=60)
        assert process.returncode == -signum
        collector.moods.clear()
        with opened("tracklog", collector.url, tmp_path) as emitter:
            some("tracklog", emitter, 500)
        assert numbers(collector.lines()) == list(range(501))
        assert collector.conflicts == []
    assert spooled(tmp_path) == []


def test_control_c_is_not_swallowed_and_loses_nothing(tmp_path):
    with Rude(*["hang"] * 9) as collector:
        code = """
print("ready", flush=True)
number = 0
try:
    while True:
        emit(number, number + 1)
        number += 1
except KeyboardInterrupt:
    print(number, time.time(), flush=True)
    raise
"""
        process = producer(collector.url, tmp_path, code, deadline=30)
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        emitted, at = process.stdout.readline().split()
        err = "".join(iter(process.stderr.readline, "KeyboardInterrupt\n")) + "KeyboardInterrupt\n"
        time.sleep(0.3)  # it waits for the collector now: who asks twice is not made to wait
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        err += process.communicate(timeout=60)[1]
        assert time.time() - float(at) < 25
        assert process.returncode == -signal.SIGINT
        assert "KeyboardInterrupt" in err
        assert "Exception ignored" not in err
        collector.moods.clear()
        with opened("tracklog", collector.url, tmp_path) as emitter:
            assert emitter._shared.sink.flush(20)
        found = numbers(collector.lines())
        assert found[: int(emitted)] == list(range(int(emitted)))
        assert len(found) - int(emitted) in (0, 1)  # the one that was interrupted


def test_processes_that_share_a_spool_send_what_was_left_once(tmp_path):
    with Rude() as gone:
        url = gone.url
    for first in (0, 100):
        process = producer(url, tmp_path, f"emit({first}, {first + 100})")
        process.communicate(timeout=60)
    assert len(spooled(tmp_path)) == 2
    with Rude(port=gone.server_port) as back:
        heirs = [
            producer(url, tmp_path, f"emit({200 + n}, {201 + n}); emitter._shared.sink.flush(20)")
            for n in range(4)
        ]
        for heir in heirs:
            assert heir.communicate(timeout=60)[1] == ""
        assert sorted(numbers(back.lines())) == list(range(204))
        assert back.conflicts == []
        assert numbers(back.lines()).index(0) < numbers(back.lines()).index(99)
    assert spooled(tmp_path) == []


def test_a_file_of_a_living_process_is_left_alone(tmp_path):
    with Rude("hang") as collector:
        slow = opened("tracklog", collector.url, tmp_path)
        some("tracklog", slow, 0)
        while not collector.asked:
            time.sleep(0.01)
        with opened("tracklog", collector.url, tmp_path) as quick:
            some("tracklog", quick, 1)
        assert numbers(collector.lines()) == [1]
        assert len(spooled(tmp_path)) == 1
        slow.close()


def test_a_forked_child_sends_its_own_lines_and_no_others(tmp_path):
    with Rude() as collector:
        code = """
emit(0, 50)
child = os.fork()
emit(*((100, 150) if child == 0 else (50, 100)))
if child == 0:
    sys.exit()
os.waitpid(child, 0)
"""
        process = producer(collector.url, tmp_path, code)
        assert process.communicate(timeout=60)[1] == ""
        assert sorted(numbers(collector.lines())) == list(range(150))
        assert collector.conflicts == []
    assert spooled(tmp_path) == []


def test_what_a_child_left_that_ended_abruptly_is_sent_by_its_parent(tmp_path):
    with Rude() as collector:
        code = """
emit(0, 1)
child = os.fork()
if child == 0:
    emit(1, 50)
    os._exit(0)
os.waitpid(child, 0)
"""
        process = producer(collector.url, tmp_path, code)
        assert process.communicate(timeout=60)[1] == ""
        assert sorted(numbers(collector.lines())) == list(range(50))
    assert spooled(tmp_path) == []


def test_a_hundred_thousand_events_take_bounded_memory(tmp_path):
    code = """
import resource
emit(0, 1000)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for first in range(1000, 100_000, 1000):
    for number in range(first, first + 1000):
        emitter.tracklog("Noted", label="x", total_nodes=number, text="x" * 300)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    with Rude(*["hang"] * 9) as collector:
        process = producer(collector.url, tmp_path, code, deadline=0.1)
        out, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (0, "")
        unit = 1 if sys.platform == "linux" else 1024
        assert int(out) / unit < 16_000
        collector.moods.clear()
        with opened("tracklog", collector.url, tmp_path) as emitter:
            assert emitter._shared.sink.flush(60)
        assert numbers(collector.lines()) == list(range(100_000))
    assert spooled(tmp_path) == []


def aside(tmp_path):
    (path,) = (tmp_path / "spool").glob("*/refused.jsonl")
    assert path.stat().st_mode & 0o777 == 0o600
    return [json.loads(line) for line in path.read_text().splitlines()]


def limited(lines):
    """As a proxy does that takes small requests only."""
    return (413, {}, {"error": "too large"}) if sum(map(len, lines)) > 20_000 else "kind"


def test_a_batch_that_is_too_large_is_sent_in_parts_and_a_line_that_is_too_large_put_aside(
    tmp_path, capfd
):
    with Rude(*[limited] * 200) as collector:
        with opened("tracklog", collector.url, tmp_path) as emitter:
            for number in range(200):
                some("tracklog", emitter, number, "y" * (30_000 if number == 77 else 300))
        assert numbers(collector.lines()) == [number for number in range(200) if number != 77]
        assert collector.conflicts == []
    (kept,) = aside(tmp_path)
    assert (kept["status"], kept["dialect"]) == (413, "tracklog")
    assert json.loads(kept["line"])["total_nodes"] == 77
    assert capfd.readouterr().err.count("refused") == 2  # one warning, which names the file
    assert spooled(tmp_path) == []


def test_refused_lines_are_set_aside_with_the_reason_and_reported_once(tmp_path, capfd):
    def picky(lines):
        if json.loads(lines[0])["total_nodes"] == 10:
            return (400, {}, {"error": "no"})
        verdicts = [
            {"line": at, "verdict": "refused", "problems": [{"message": "odd"}]}
            for at, line in enumerate(lines, 1)
            if json.loads(line)["total_nodes"] % 2
        ]
        good = len(lines) - len(verdicts)
        said = {"accepted": good, "duplicate": 0, "refused": len(verdicts)}
        return (200, {}, {**said, "verdicts": verdicts})

    with Rude(*[picky] * 20) as collector:
        emitter = opened("tracklog", collector.url, tmp_path)
        for number in range(9):
            some("tracklog", emitter, number)
            if number % 3 == 2:
                assert emitter._shared.sink.flush(10)
        some("tracklog", emitter, 10)
        emitter.close()
    kept = aside(tmp_path)
    assert [json.loads(each["line"])["total_nodes"] for each in kept] == [1, 3, 5, 7, 10]
    assert [each["status"] for each in kept] == [200] * 4 + [400]
    assert "odd" in kept[0]["why"]
    assert capfd.readouterr().err.count("\n") == 1


def test_a_wrong_token_keeps_the_lines_until_the_right_one_is_in_its_file(tmp_path, capfd):
    def strict(lines):
        right = collector.asked[-1][2].get("Authorization") == "Bearer right"
        return "kind" if right else (401, {}, {"error": "who are you?"})

    token = tmp_path / "token"
    token.write_text("Wr0ng\n")
    with Rude(*[strict] * 99) as collector:
        environ = {"TRACKLOG_TOKEN_FILE": str(token)}
        emitter = opened("tracklog", collector.url, tmp_path, environ=environ)
        some("tracklog", emitter, 0)
        assert not emitter._shared.sink.flush(0.5)
        token.write_text("right\n")
        assert emitter._shared.sink.flush(20)
        emitter.close()
        assert numbers(collector.lines()) == [0]
    err = capfd.readouterr().err
    assert err.count("answers 401") == 1
    assert "Bearer" not in err
    assert "Wr0ng" not in err


def test_a_token_that_no_header_can_hold_is_never_printed(tmp_path, capfd):
    with Rude() as collector:
        with opened("tracklog", collector.url, tmp_path, token="s3cret\nhere") as emitter:
            some("tracklog", emitter, 0)
        assert numbers(collector.lines()) == [0]
        assert "Authorization" not in collector.asked[0][2]
    err = capfd.readouterr().err
    assert "token" in err
    assert "s3cret" not in err


def test_an_answer_without_end_is_not_read_to_its_end_and_acknowledges_nothing(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(native, "ANSWER_BYTES", 100_000)
    said = {"accepted": 1, "duplicate": 0, "refused": 0, "verdicts": ["x" * 9_000_000]}
    with Rude((200, {}, said), (500, {}, said)) as collector:
        emitter = opened("tracklog", collector.url, tmp_path)
        for number in range(2):
            some("tracklog", emitter, number)
            assert emitter._shared.sink.flush(20)
        emitter.close()
        assert numbers(collector.lines()) == [0, 1]
        assert len(collector.asked) == 4


def test_where_no_spool_can_be_written_lines_wait_in_bounded_memory(tmp_path, capfd, monkeypatch):
    (tmp_path / "spool").write_text("no folder")
    monkeypatch.setattr(native, "MEMORY_BYTES", 20_000)
    monkeypatch.setattr(native.SpoolMemory, "limit", 20_000)
    with Rude() as gone:
        url = gone.url
    emitter = opened("tracklog", url, tmp_path)
    for number in range(200):
        some("tracklog", emitter, number)
    sink = emitter._shared.sink
    kept = 200 - sink.lost
    assert 50 < kept < 150
    with Rude(port=gone.server_port) as back:
        assert numbers(back.heard(kept)) == list(range(kept))
        emitter.close()
    err = capfd.readouterr().err
    assert err.count("kept in memory") == 1
    assert "lines are kept in" not in err
    assert f"{200 - kept} lines were lost" in err


def test_a_full_disk_does_not_reach_the_producer(tmp_path, monkeypatch):
    write, full = os.write, threading.Event()

    def writing(fd, data):
        if full.is_set() and data.startswith((b"tracklog ", b"\ntracklog ", b"0000")):
            if len(data) % 2:
                raise OSError(errno.ENOSPC, "No space left on device")
            return write(fd, data[:7])
        return write(fd, data)

    monkeypatch.setattr(os, "write", writing)
    with Rude() as gone:
        url = gone.url
    emitter = opened("tracklog", url, tmp_path)
    for number in range(60):
        some("tracklog", emitter, number, "x" * (number % 3))
        if number == 20:
            full.set()
        if number == 40:
            full.clear()
    with Rude(port=gone.server_port) as back:
        assert numbers(back.heard(60)) == list(range(60))
        emitter.close()
    assert emitter._shared.sink.lost == 0
    assert spooled(tmp_path) == []


def test_a_full_spool_loses_the_newest_and_says_so(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(native, "SPOOL_BYTES", 10_000)
    monkeypatch.setattr(native.SpoolFile, "limit", 4_000)
    with opened("tracklog", NOBODY, tmp_path) as emitter:
        for number in range(200):
            some("tracklog", emitter, number)
    sink = emitter._shared.sink
    assert 100 < sink.lost < 170
    err = capfd.readouterr().err
    assert "is full" in err
    assert f"{sink.lost} lines were lost" in err


def test_what_a_crash_of_the_machine_left_of_a_spool_is_sent_and_the_rest_put_aside(tmp_path):
    with Rude() as gone:
        url = gone.url
    with opened("tracklog", url, tmp_path) as emitter:
        for number in range(3):
            some("tracklog", emitter, number)
    (path,) = spooled(tmp_path)
    path.write_bytes(path.read_bytes() + b"\x00\x00\x00nonsense\n" + b'tracklog {"torn":')
    (path.parent / "0.spool").write_bytes(b"")
    (path.parent / "1.spool").write_bytes(b"\x00" * 40)
    with Rude(port=gone.server_port) as back:
        with opened("tracklog", url, tmp_path) as emitter:
            some("tracklog", emitter, 3)
        assert numbers(back.lines()) == [0, 1, 2, 3]
    assert [each["line"] for each in aside(tmp_path)] == [
        "\x00\x00\x00nonsense",
        'tracklog {"torn":',
    ]
    assert spooled(tmp_path) == []


@each_emitter
def test_an_invalid_address_is_an_error_when_the_emitter_is_made(name, tmp_path, capfd):
    with pytest.raises(ValueError, match="holds no secret") as refused:
        opened(name, "http://ada:s3cret@127.0.0.1:4318", tmp_path)
    assert "s3cret" not in str(refused.value)
    for url in ("127.0.0.1:4318", "ftp://x", "http://", "http://a:port"):
        with pytest.raises(ValueError, match=r"collector|[Pp]ort"):
            opened(name, url, tmp_path)
    with pytest.raises(ValueError, match="TRACKLOG_URL"):
        opened(name, None, tmp_path)
    with pytest.raises(ValueError, match="nowhere"):
        opened(name, None, tmp_path, environ={"TRACKLOG_URL": "nonsense"})
    assert "'nonsense' is no address of a collector" in capfd.readouterr().err


def test_a_wrong_address_in_the_environment_does_not_break_a_producer_that_has_a_file(
    tmp_path, capfd
):
    with native.Emitter.file(tmp_path / "a", environ={"TRACKLOG_URL": "nonsense"}) as emitter:
        emitter.tracklog("Noted", label="x")
    assert (tmp_path / "a").read_bytes().count(b"\n") == 1
    assert "nothing is sent" in capfd.readouterr().err


@each_emitter
def test_a_closed_sink_says_so_and_can_be_closed_again(name, tmp_path):
    emitter = opened(name, NOBODY, tmp_path)
    emitter.close()
    emitter.close()
    with pytest.raises(ValueError, match="closed"):
        some(name, emitter, 0)
    assert not (tmp_path / "spool").exists()


def test_a_producer_without_stderr_is_not_hurt_by_a_warning(tmp_path):
    process = producer(
        NOBODY, tmp_path, "sys.stderr.close()\nemit(0, 9)\ntime.sleep(0.2)\nprint(1)"
    )
    assert process.communicate(timeout=60)[0] == "1\n"


def test_threads_are_sent_each_in_its_own_order(tmp_path):
    with Rude("forget", "reset") as collector:
        emitter = opened("tracklog", collector.url, tmp_path)

        def work(worker):
            for number in range(300):
                some("tracklog", emitter, number, str(worker))

        threads = [threading.Thread(target=work, args=(worker,)) for worker in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert emitter._shared.sink.flush(20)
        emitter.close()
        said = [json.loads(line) for line in collector.lines()]
        for worker in range(4):
            mine = [each["total_nodes"] for each in said if each["text"] == str(worker)]
            assert mine == list(range(300))


def test_a_signal_handler_may_emit(tmp_path):
    with Rude() as collector:
        code = """
stage = emitter.bind(actor="a")
signal.signal(signal.SIGALRM, lambda *_: stage.fishbowl("a.b"))
signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
emit(0, 20_000)
signal.setitimer(signal.ITIMER_REAL, 0)
"""
        process = producer(collector.url, tmp_path, code, deadline=20)
        assert process.communicate(timeout=60)[1] == ""
        assert numbers(collector.lines("tracklog")) == list(range(20_000))
        told = collector.lines("fishbowl")
        assert told
        assert all(json.loads(line)["kind"] == "a.b" for line in told)


steps = st.lists(
    st.one_of(
        st.tuples(st.just("line"), st.sampled_from(["awf", "kahn-ci"]), st.integers(0, 3)),
        st.tuples(st.just("send")),
        st.tuples(st.just("lose")),
        st.tuples(st.just("die")),
    ),
    max_size=40,
)


@settings(max_examples=200 * SOAK)
@given(steps)
def test_a_key_stands_for_the_same_lines_whoever_sends_them(tmp_path_factory, steps):
    """Lines are appended, sent, sent in vain and inherited, in any order."""
    folder = str(tmp_path_factory.mktemp("spool"))
    segment = native.Segment(native.SpoolFile.new(folder))
    written, kept, alive = [], {}, True
    for what, *more in [*steps, *[("send",)] * 41]:
        if what == "line" and alive:
            dialect, size = more
            line = b'{"n":%d,"x":"%b"}' % (len(written), b"x" * size * 300_000)
            segment.append(line + b"\n", dialect)
            written.append((dialect, line))
        elif what == "die":
            segment.store.release()
            alive, heir = False, native.SpoolFile.left(segment.store.path)
            if heir is None:
                break  # nothing was left
            segment = native.Segment(heir)
        elif what in ("send", "lose") and (batch := segment.batch(segment.reach())):
            lines = [(batch.dialect, line) for line in batch.lines]
            assert kept.setdefault(batch.key, lines) == lines
            if what == "send":
                segment.take(batch.end)
    assert [line for lines in kept.values() for line in lines] == written
    segment.store.release()


AGENT = """
import sys, time
sys.path.insert(0, {contracts!r})
from kahn_agent_emit import AgentEmitter
with AgentEmitter(run_id={run!r}, url={url!r}, spool={spool!r}, environ={{}}, deadline=30) as run:
    coder = run.bind(agent_id="coder")
    print("begun", flush=True)
    for number in range({count}):
        coder.tool_invocation(step=number, tool_name="Read", duration_s=0.1, ok=True)
        time.sleep(0.001)
    while not run._http.flush(1):
        pass
"""


@pytest.mark.long
def test_a_collector_killed_and_restarted_under_load_records_every_line_once(tmp_path):
    """kahn lines have no identity: only the key of their batch says that they were sent before."""
    home, count = tmp_path / "home", 3000 * SOAK
    server = Collector(home, port=lasting_port())
    fill = {"contracts": str(CONTRACTS), "url": server.url, "spool": str(tmp_path / "spool")}
    fleet = [
        subprocess.Popen(
            [sys.executable, "-c", AGENT.format(run=run, count=count, **fill)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        for run in ("r1", "r2")
    ]
    for each in fleet:
        assert each.stdout.readline() == "begun\n"
    for _ in range(4 * SOAK):
        time.sleep(0.4)
        server.kill()
        time.sleep(0.1)
        server = Collector(home, port=server.port)
    for each in fleet:
        each.communicate(timeout=120 * SOAK)
        assert each.returncode == 0
    assert server.stop() == 0
    with Home(home, readonly=True) as opened:
        for run in ("r1", "r2"):
            records = opened.journal.records(run=("kahn", run))
            steps = [json.loads(record.line)["step"] for record in records]
            assert steps == list(range(count))
    assert spooled(tmp_path) == []
