"""The section "An acknowledged line survives": what each durability leaves after power loss.

A command under test logs which bytes were synced; power loss is a copy of its home with those alone.
"""

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import orjson
import pytest

from promises.command import TRACKLOG, Serving, environment, head, lines_of, run
from promises.power import Syncs
from support.collecting import ends, start, tool
from support.forking import tracklog
from support.waiting import eventually

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/fd").is_dir() or not hasattr(os, "fdatasync"),
    reason="syncs are logged by the paths of open files",
)
BEGAN, CALLED, ENDED = start("r"), tool("r"), ends("r")


@pytest.fixture
def syncs(tmp_path):
    return Syncs(tmp_path / "syncs")


class Recording:
    """`tracklog record --json` on a pipe."""

    def __init__(
        self, home: Path, durability: str, syncs: Syncs, dialect: str = "kahn-agent"
    ) -> None:
        words = [TRACKLOG, "record", "--home", str(home), "--json", "--durability", durability]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen(
            [*words, "--dialect", dialect], env=environment(**syncs.env), **pipes
        )

    def acknowledged(self, line: bytes) -> int:
        """The number that is printed for a line."""
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()
        return orjson.loads(self.process.stdout.readline())["seq"]

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate()


@contextlib.contextmanager
def recording(home: Path, durability: str, syncs: Syncs, dialect: str = "kahn-agent"):
    process = Recording(home, durability, syncs, dialect)
    try:
        yield process
    finally:
        process.kill()


@pytest.mark.promise("`tracklog record --json` prints the number")
@pytest.mark.promise("`sync` (a journal's default) |")
def test_sync(tmp_path, syncs):
    home = tmp_path / "home"
    with recording(home, "sync", syncs) as process:
        for number, line in enumerate([BEGAN, CALLED, CALLED], 1):
            before = syncs.begun()
            assert process.acknowledged(line) == number
            assert syncs.begun() == before + 1, "one sync of the segment per commit group"
        left = syncs.after_power_loss(home, tmp_path / "left")
    assert lines_of(home, "r") == [BEGAN, CALLED, CALLED], "after a kill"
    assert lines_of(left, "r") == [BEGAN, CALLED, CALLED], "after power loss"


@pytest.mark.promise("`tracklog record --json` prints the number")
def test_no_number_is_printed_before_the_sync_has_returned(tmp_path, syncs):
    home = tmp_path / "home"
    with recording(home, "sync", syncs) as process:
        process.acknowledged(BEGAN)
        syncs.wait()
        before, numbers = syncs.begun(), []
        waiting = threading.Thread(target=lambda: numbers.append(process.acknowledged(CALLED)))
        waiting.start()
        assert eventually(lambda: syncs.begun() > before)
        assert numbers == []
        syncs.wait(on=False)
        waiting.join(60)
        assert numbers == [2]


APPEND = """
import sys, tracklog
with tracklog.open(sys.argv[1]) as log:
    for line in sys.stdin.buffer:
        print(log.append(line.rstrip(), "kahn-agent").seq, flush=True)
"""


@pytest.mark.promise("`tracklog record --json` prints the number of a record, and `Log.append`")
def test_no_number_is_returned_to_a_program_before_the_sync_has_returned(tmp_path, syncs):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(
        [sys.executable, "-c", APPEND, str(tmp_path / "home")],
        env=environment(**syncs.env),
        **pipes,
    ) as process:

        def append(line: bytes) -> int:
            process.stdin.write(line + b"\n")
            process.stdin.flush()
            return int(process.stdout.readline())

        assert append(BEGAN) == 1
        syncs.wait()
        before, numbers = syncs.begun(), []
        waiting = threading.Thread(target=lambda: numbers.append(append(CALLED)))
        waiting.start()
        assert eventually(lambda: syncs.begun() > before)
        assert numbers == []
        syncs.wait(on=False)
        waiting.join(60)
        assert numbers == [2]
        left = syncs.after_power_loss(tmp_path / "home", tmp_path / "left")
        process.stdin.close()
    assert lines_of(left, "r") == [BEGAN, CALLED]


def held(server: Serving) -> int:
    """Bytes of requests that wait for their answers."""
    return int(re.search(r"tracklog_held_bytes (\d+)", server.get("/metrics").text)[1])


@pytest.mark.promise("`sync` (a journal's default) |")
def test_one_sync_is_shared_by_all_who_wait_for_it(tmp_path, syncs):
    with Serving(tmp_path / "home", **syncs.env) as server:
        server.post([BEGAN])
        syncs.wait()
        before = syncs.begun()
        senders = [
            threading.Thread(target=server.post, args=([tool("r", step=n)],)) for n in range(8)
        ]
        senders[0].start()
        assert eventually(lambda: syncs.begun() == before + 1)
        one = held(server)
        for sender in senders[1:]:
            sender.start()
        assert eventually(lambda: held(server) == 8 * one)
        syncs.wait(on=False)
        for sender in senders:
            sender.join(60)
        assert server.get("/api/events").json()["last"] == 9
        assert syncs.begun() - before == 2


@pytest.mark.promise("`interval` |")
def test_interval(tmp_path, syncs):
    home = tmp_path / "home"
    with recording(home, "interval", syncs) as process:
        assert [process.acknowledged(line) for line in (BEGAN, CALLED)] == [1, 2]
        segment = home / "journal" / f"{1:020d}.jsonl"
        assert eventually(lambda: syncs.sizes().get(segment) == segment.stat().st_size)
        left = syncs.after_power_loss(home, tmp_path / "left")
        syncs.wait()
        assert process.acknowledged(ENDED) == 3, "no line waits for a sync"
        syncs.wait(on=False)
    assert lines_of(home, "r") == [BEGAN, CALLED, ENDED], "after a kill"
    assert lines_of(left, "r") == [BEGAN, CALLED], "after power loss"


@pytest.mark.promise("`lifecycle` (a Recorder's default) |")
@pytest.mark.promise("With `lifecycle`, a journal syncs at")
def test_lifecycle(tmp_path, syncs):
    home = tmp_path / "home"
    with recording(home, "lifecycle", syncs) as process:
        assert [process.acknowledged(line) for line in (BEGAN, CALLED)] == [1, 2]
        early = syncs.after_power_loss(home, tmp_path / "early")
        assert [process.acknowledged(line) for line in (ENDED, CALLED)] == [3, 4]
        late = syncs.after_power_loss(home, tmp_path / "late")
    assert lines_of(home, "r") == [BEGAN, CALLED, ENDED, CALLED], "after a kill"
    assert lines_of(early, "r") == [BEGAN]
    assert lines_of(late, "r") == [BEGAN, CALLED, ENDED]


FACTS = [
    ({"fact": "Began", "what": "run"}, True),
    ({"fact": "Said", "role": "user", "blocks": [{"type": "text", "text": "hello"}]}, False),
    ({"fact": "Began", "what": "agent", "agent": "a"}, True),
    ({"fact": "Called", "tool": "Read", "call_id": "c", "input": {}}, False),
    ({"fact": "Began", "what": "step", "step": "s"}, True),
    ({"fact": "Noted", "label": "x"}, False),
    ({"fact": "Ended", "what": "step", "step": "s"}, True),
    ({"fact": "Returned", "tool": "Read", "call_id": "c", "ok": True}, False),
    ({"fact": "Ended", "what": "agent", "agent": "a"}, True),
    ({"fact": "Ended", "what": "run"}, True),
]


@pytest.mark.promise("With `lifecycle`, a journal syncs at each line")
def test_the_lines_that_cause_a_sync_of_a_journal(tmp_path, syncs):
    with recording(tmp_path / "home", "lifecycle", syncs, "tracklog") as process:
        for number, (fact, expected) in enumerate(FACTS, 1):
            before, origin = syncs.begun(), {"writer": "test", "fidelity": "observed"}
            line = {"id": f"{number}", "run": "r", "at": "2026-05-05T09:00:00Z", "origin": origin}
            assert process.acknowledged(orjson.dumps(line | fact)) == number
            assert (fact, syncs.begun() > before) == (fact, expected)


@pytest.mark.promise("`os` |")
def test_os(tmp_path, syncs):
    home = tmp_path / "home"
    with recording(home, "os", syncs) as process:
        assert [process.acknowledged(line) for line in (BEGAN, CALLED, ENDED)] == [1, 2, 3]
    assert lines_of(home, "r") == [BEGAN, CALLED, ENDED], "after a kill"
    assert not any(size for path, size in syncs.sizes().items() if path.suffix == ".jsonl")


RECORDER = """
import json, sys, uuid
from pathlib import Path
from tracklog.recording.recorder import Recorder

folder, word = sys.argv[1], sys.argv[2:]
recorder = Recorder.open(str(uuid.uuid4()), folder, **({"durability": word[0]} if word else {}))
step = {"name": "build", "kind": "command"}
text = {"role": "assistant", "blocks": [
    {"type": "text", "fidelity": "agent_emitted", "text": "hello"}]}
for kind, payload in (
    ("run.started", {"name": "review", "kind": "workflow"}), ("step.started", step),
    ("message.assistant", text), ("step.started", step), ("step.completed", step),
    ("step.started", step), ("run.completed", {"name": "review", "kind": "workflow"}),
):
    recorder.record(kind, payload, path="" if kind.startswith("run.") else "build")
    print(json.dumps([kind, recorder.durable_seq, str(recorder.path)]), flush=True)
    sys.stdin.readline()
"""
DURABLE = {
    (): [1, 1, 3, 3, 5, 5, 7],
    ("lifecycle",): [1, 1, 3, 3, 5, 5, 7],
    ("sync",): [1, 2, 3, 4, 5, 6, 7],
    ("os",): [0, 0, 0, 0, 0, 0, 0],
}


@pytest.mark.promise("`Recorder.durable_seq` is")
@pytest.mark.promise("`lifecycle` (a Recorder's default) |")
@pytest.mark.promise("With `lifecycle`, a Recorder syncs at")
@pytest.mark.parametrize("word", DURABLE, ids=lambda word: word[0] if word else "default")
def test_a_recorder_says_how_much_of_its_file_is_synced(tmp_path, syncs, word):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(
        [sys.executable, "-c", RECORDER, str(tmp_path / "storage"), *word],
        env=environment(**syncs.env),
        **pipes,
    ) as process:
        for expected in DURABLE[word]:
            _, durable, path = orjson.loads(process.stdout.readline())
            synced = Path(path).read_bytes()[: syncs.sizes().get(Path(path), 0)]
            assert (durable, synced.count(b"\n")) == (expected, expected)
            process.stdin.write(b"\n")
            process.stdin.flush()
        process.stdin.close()


@pytest.mark.promise(
    "You choose the durability with `--durability`",
)
def test_the_same_four_words_are_taken_everywhere(tmp_path):
    words = "sync|interval|lifecycle|os"
    for verb in ("record", "serve"):
        assert f"--durability [{words}]".encode() in run(verb, "--help").stdout
    code = """
import sys, uuid
import tracklog
from tracklog import Recorder
for word in sys.argv[2].split("|"):
    tracklog.open(f"{sys.argv[1]}/{word}", durability=word).close()
    Recorder.open(str(uuid.uuid4()), sys.argv[1], durability=word).close()
for call in (
    lambda: Recorder.open(str(uuid.uuid4()), sys.argv[1], durability="never"),
    lambda: tracklog.open(sys.argv[1], durability="never"),
):
    try:
        call()
    except ValueError as error:
        print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path), words], capture_output=True, check=True
    )
    assert done.stdout.count(b"one of") == 2


@pytest.mark.promise(
    "The accepted lines of a batch are recorded completely or not at all",
)
def test_after_power_loss_inside_a_batch_none_of_its_lines_is_there(tmp_path):
    """The end of the segment is missing, or a page in the middle of it holds zeros."""
    home = tmp_path / "home"
    with Serving(home, "--durability", "os") as server:
        server.post([BEGAN])
        segment = home / "journal" / f"{1:020d}.jsonl"
        first = segment.stat().st_size
        server.post([tool("r", step=n) for n in range(200)])
        server.stop(signal.SIGKILL)
    whole = segment.read_bytes()
    links = segment.with_suffix(".chain")
    text = links.read_bytes().splitlines(keepends=True)
    links.write_bytes(b"".join(text[:2]))  # it may be later on disk than the segment
    half = (first + len(whole)) // 2
    page = half - half % 4096
    lost = [whole[:half], whole[:-1]]
    lost += [whole[:page] + bytes(4096) + whole[page + 4096 :]]
    for left in lost:
        segment.write_bytes(left)
        assert lines_of(home, "r") == [BEGAN]
    assert run("record", "--home", home, input=CALLED + b"\n").returncode == 0
    assert lines_of(home, "r") == [BEGAN, CALLED]
    assert run("verify", "--home", home).returncode == 0


@pytest.mark.promise(
    "On a full disk, a failed write or a failed sync the caller gets an error",
)
@pytest.mark.promise("After such an error no half-written record is ever read")
@pytest.mark.promise("The next append works again as soon as the disk does")
def test_a_failed_sync(tmp_path, syncs):
    home = tmp_path / "home"
    with Serving(home, **syncs.env) as server:
        assert server.post([BEGAN]).status_code == 200
        syncs.fail()
        for _ in range(2):
            answer = server.post([CALLED], Idempotency_Key="k")
            assert answer.status_code == 503
            assert answer.headers["retry-after"]
            assert [each["seq"] for each in server.get("/api/events").json()["events"]] == [1]
        done = run("record", "--home", home, "--json", input=CALLED + b"\n", env=syncs.env)
        assert (done.returncode, done.stdout) == (2, b"")
        assert done.stderr.startswith(b"error: ")
        syncs.fail(on=False)
        answer = server.post([CALLED], Idempotency_Key="k").json()
        assert (answer["accepted"], answer["last_seq"]) == (1, 2)
    assert lines_of(home, "r") == [BEGAN, CALLED]
    assert run("verify", "--home", home).returncode == 0


@pytest.mark.promise("The next append works again as soon as the disk does")
def test_a_running_follow_waits_until_the_disk_works_again(tmp_path, syncs):
    home, path = tmp_path / "home", tmp_path / "run.jsonl"
    path.write_bytes(BEGAN + b"\n")
    words = [TRACKLOG, "follow", path, "--home", home, "--every", "0.1"]
    with subprocess.Popen(
        words, env=environment(**syncs.env), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as follow:
        try:
            assert eventually(lambda: tracklog(home, "verify").stdout.startswith(b"1 record"))
            syncs.fail()
            with path.open("ab") as file:
                file.write(CALLED + b"\n")
            assert follow.stderr.readline().startswith(b"error: ")
            assert follow.poll() is None
            assert lines_of(home, "r") == [BEGAN]
            syncs.fail(on=False)
            assert eventually(lambda: lines_of(home, "r") == [BEGAN, CALLED])
        finally:
            follow.terminate()
    assert run("verify", "--home", home).returncode == 0


@pytest.mark.promise("A record is committed before a stream sends it")
def test_nobody_reads_a_record_before_it_is_synced(tmp_path, syncs):
    """Neither where it was written, nor in another process that reads the same home."""
    home = tmp_path / "home"
    with Serving(home, **syncs.env) as writer, Serving(home) as reader:
        writer.post([BEGAN])
        syncs.wait()
        streams = [each.raw(head("GET", "/api/stream?after=0")) for each in (writer, reader)]
        texts = [b"", b""]

        def read(until: bytes, seconds: float) -> list[bool]:
            """Whether each stream has sent this within a time."""
            for number, stream in enumerate(streams):
                stream.settimeout(seconds)
                with contextlib.suppress(TimeoutError):
                    while until not in texts[number]:
                        texts[number] += stream.recv(1 << 16)
            return [until in text for text in texts]

        assert read(b"\nid: 1\n", 60) == [True, True]
        before = syncs.begun()
        sender = threading.Thread(target=writer.post, args=([CALLED],))
        sender.start()
        assert eventually(lambda: syncs.begun() > before)
        early = read(b"\nid: 2\n", 1)
        seen = [each.get("/api/events").json()["last"] for each in (writer, reader)]
        syncs.wait(on=False)
        sender.join(60)
        assert (early, seen) == ([False, False], [1, 1])
        assert read(b"\nid: 2\n", 60) == [True, True]
        for stream in streams:
            stream.close()
