"""exec: an agent is run, passed through unchanged, and recorded, however it ends."""

import fcntl
import json
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import textwrap
import threading
import time
from pathlib import Path

import pytest

from support.asking import ask
from support.forking import Tracklog, tracklog
from support.transcribing import bodies, run_id
from support.waiting import eventually, readable
from tracklog.answers.tree import tree as tree_of
from tracklog.cli import _child
from tracklog.formats.exec import recover
from tracklog.formats.importing import Importing
from tracklog.formats.output_recorder import OutputRecorder
from tracklog.formats.providers import normalise
from tracklog.home.home import Home
from tracklog.intake import secrets
from tracklog.recording.recorder import Recorder

SAMPLES = Path(__file__).parents[1] / "samples" / "importers"
CODEX = (SAMPLES / "codex" / "exec_json_stream.jsonl").read_bytes()
SESSION = "0a1b2c3d-4e5f-4061-8071-2a3b4c5d6e70"


def lines(*objects) -> bytes:
    return b"".join(json.dumps(each).encode() + b"\n" for each in objects)


def said(id, *content, **more):
    message = {
        "id": id,
        "role": "assistant",
        "model": "claude-sonnet-4-5",
        "content": list(content),
    }
    return {"type": "assistant", "message": message, "session_id": SESSION, **more}


USE = {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"path": "a.py"}}
RESULT = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "x = 1"}
USAGE = {"input_tokens": 10, "cache_read_input_tokens": 90, "output_tokens": 25}
CLAUDE = lines(
    {"type": "system", "subtype": "init", "session_id": SESSION, "model": "claude-sonnet-4-5"},
    said("msg_1", {"type": "text", "text": "Reading."}, USE),
    {"type": "user", "message": {"role": "user", "content": [RESULT]}, "session_id": SESSION},
    said("msg_2", {"type": "text", "text": "It is 1."}),
    {"type": "result", "subtype": "success", "is_error": False, "result": "It is 1.",
     "session_id": SESSION, "usage": USAGE, "total_cost_usd": 0.01, "num_turns": 2},
)  # fmt: skip


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


class World:
    """A folder with a home, and programs that stand in for agents: real files, real processes."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.home = folder, folder / "home"
        self.bin = folder / "bin"
        self.bin.mkdir()

    def agent(self, name: str, code: str, stream: bytes = b"") -> str:
        (self.bin / f"{name}.stream").write_bytes(stream)
        path = self.bin / name
        opening = f"""\
            #!{sys.executable}
            import os, signal, sys, time
            STREAM = open({str(self.bin / f"{name}.stream")!r}, "rb").read()
            def put(data): sys.stdout.buffer.write(data); sys.stdout.buffer.flush()
        """
        path.write_text(textwrap.dedent(opening) + textwrap.dedent(code))
        path.chmod(0o755)
        return str(path)

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "tracklog", "exec", "--home", str(self.home), *arguments]

    def run(self, *arguments: str, **options):
        return tracklog(None, "exec", "--home", self.home, *arguments, **options)

    def start(self, *arguments: str, **options):
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        return Tracklog("exec", "--home", self.home, *arguments, **options)

    def transcript(self) -> list[dict]:
        [path] = (self.home / "transcripts").glob("*.jsonl")
        return bodies(path)

    def message(self) -> dict:
        """The last thing that the agent said."""
        return [e for e in self.transcript() if e["type"] == "message.assistant"][-1]["payload"]

    def blocks(self) -> list[dict]:
        messages = [e for e in self.transcript() if e["type"] == "message.assistant"]
        return [block for each in messages for block in each["payload"]["blocks"]]


@pytest.mark.requirement("AWF-43", "AWF-69", "AWF-22")
@pytest.mark.parametrize(("name", "stream"), [("claude", CLAUDE), ("codex", CODEX)])
def test_the_output_is_passed_through_byte_by_byte_and_recorded_as_blocks(world, name, stream):
    agent = world.agent(name, "put(STREAM)", stream)
    done = world.run("--", agent, "-p", "what is x?")
    alone = subprocess.run([agent, "-p", "what is x?"], stdout=subprocess.PIPE, check=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, alone.stdout, b"")
    kinds = [block["type"] for block in world.blocks()]
    assert kinds == [block["type"] for block in normalise(name, stream).blocks]
    assert (
        world.message()["usage"]["output_tokens"]
        == normalise(name, stream).meta["usage"]["output_tokens"]
    )
    assert world.transcript()[-1]["type"] == "run.completed"


@pytest.mark.parametrize("output", ["x = 1", "cut \ud83d"], ids=["whole", "half a character"])
def test_a_claude_run_is_recorded_turn_by_turn_with_its_calls(world, output):
    stream = CLAUDE.replace(json.dumps(RESULT["content"]).encode(), json.dumps(output).encode())
    world.run("--", world.agent("claude", "put(STREAM)", stream), "-p", "what is x?")
    told = world.transcript()
    assert [event["type"] for event in told] == [
        "run.started", "step.started", "message.user", "tool.call", "tool.result",
        "message.assistant", "message.assistant", "step.completed", "run.completed",
    ]  # fmt: skip
    assert told[2]["payload"]["blocks"][0]["text"] == "what is x?"
    assert (told[4]["payload"]["call_id"], told[4]["payload"]["output"]) == ("toolu_1", output)
    assert told[4]["payload"]["input"] == {"path": "a.py"}
    last = told[6]["payload"]
    assert (last["final"], last["cost_usd"], last["provider_session_id"]) == (True, 0.01, SESSION)
    with Home(world.home, readonly=True) as home:
        assert len(list(home.journal.read(0, 100))) == len(told) + 2  # its name, and how it was run
        home.index.catch_up()
        [row] = ask(home, "costs", by="all")
    assert (row["output_tokens"], row["cost_usd"]) == (25, 0.01)


@pytest.mark.parametrize("code", [0, 1, 3, 255])
def test_the_exit_code_is_the_agents(world, code):
    agent = world.agent("codex", f"put(STREAM); sys.stderr.write('boom'); sys.exit({code})", CODEX)
    done = world.run("--", agent)
    assert (done.returncode, done.stderr) == (code, b"boom")
    last, end = world.message(), world.transcript()[-1]["payload"]
    assert last["status"] == ("error" if code else "ok")
    assert end["status"] == ("failed" if code else "ok")
    assert last.get("stderr_tail") == ("boom" if code else None)


def test_a_crash_in_the_middle_loses_no_output_and_ends_with_the_same_signal(world):
    code = "put(STREAM[: STREAM.index(b'msg_2') + 60]); os.kill(os.getpid(), signal.SIGSEGV)"
    done = world.run("--", world.agent("claude", code, CLAUDE))
    assert done.returncode == -signal.SIGSEGV
    assert [block["type"] for block in world.blocks()][:3] == ["text", "tool_use", "tool_result"]
    assert world.message()["status"] == "killed"
    assert world.transcript()[-1]["type"] == "run.completed"


def test_a_timeout_ends_the_agent_and_is_recorded_as_one(world):
    code = "put(STREAM.split(b'\\n', 2)[0] + b'\\n'); time.sleep(60)"
    began = time.monotonic()
    done = world.run("--timeout", "1", "--", world.agent("codex", code, CODEX))
    assert done.returncode == 124
    assert time.monotonic() - began < 20
    assert world.message()["status"] == "timeout"
    assert world.transcript()[-1]["payload"]["status"] == "timeout"


def test_an_agent_that_does_not_listen_is_killed_after_its_time(world, monkeypatch):
    code = "signal.signal(signal.SIGTERM, signal.SIG_IGN); put(STREAM); time.sleep(60)"
    done = world.run("--timeout", "0.5", "--", world.agent("codex", code, CODEX))
    assert done.returncode == 124
    assert world.message()["status"] == "timeout"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGINT])
def test_signals_are_passed_on_once(world, number):
    code = """
        heard = []
        signal.signal(signal.Signals(int(sys.argv[1])), lambda n, _: heard.append(n))
        put(STREAM)
        while not heard: time.sleep(0.01)
        time.sleep(0.3)
        sys.exit(40 + len(heard))
    """
    running = world.start("--", world.agent("codex", code, CODEX), str(int(number)))
    assert running.stdout.read(10) == CODEX[:10]
    running.send_signal(number)
    out, _ = running.communicate(timeout=30)
    assert running.returncode == 41
    assert CODEX.endswith(out)
    assert world.transcript()[-1]["type"] == "run.completed"


def test_a_terminating_signal_is_recorded_and_seen_by_our_parent(world):
    running = world.start("--", world.agent("codex", "put(STREAM); time.sleep(60)", CODEX))
    assert running.stdout.read(10)
    running.terminate()
    running.communicate(timeout=30)
    assert running.returncode == -signal.SIGTERM
    assert world.message()["status"] == "killed"


def test_standard_input_is_the_agents_own(world):
    agent = world.agent("claude", "put(sys.stdin.buffer.read()[::-1])")
    assert world.run("--", agent, given=b"abc").stdout == b"cba"
    assert world.blocks()[0]["text"] == "cba"


def test_a_program_that_nobody_knows_is_recorded_as_text_and_one_that_speaks_so_is_known(world):
    done = world.run("--", world.agent("greet", "put(b'hello\\n')"))
    assert done.stdout == b"hello\n"
    assert [block["text"] for block in world.blocks()] == ["hello\n"]
    assert world.transcript()[1]["payload"]["kind"] == "command"
    other = World(world.folder / "two") if (world.folder / "two").mkdir() is None else None
    other.run("--", other.agent("wrapper", "put(STREAM)", CLAUDE))
    assert other.message()["provider"] == "claude"
    assert [e["type"] for e in other.transcript()].count("tool.call") == 1


def test_a_reader_that_leaves_ends_the_agent_as_it_would_without_us(world):
    code = "\nwhile True: put(b'x' * 1000 + b'\\n')"
    running = world.start("--", world.agent("greet", code))
    assert running.stdout.read(2000)
    running.stdout.close()
    assert running.wait(timeout=30) in (-signal.SIGPIPE, 1, 120)
    running.stderr.close()


def test_a_command_that_is_not_there_is_reported(world):
    done = world.run("--", "no-such-agent-here")
    assert done.returncode == 127
    assert b"is not found" in done.stderr
    (world.bin / "plain").write_text("x")
    assert world.run("--", str(world.bin / "plain")).returncode == 126
    (world.bin / "odd").write_bytes(b"\x00\x01no program")
    (world.bin / "odd").chmod(0o755)
    done = world.run("--", str(world.bin / "odd"))
    assert done.returncode == 126
    assert b"cannot be run" in done.stderr


def test_the_agent_runs_though_nothing_can_be_recorded(world):
    world.home.write_text("a file where the home should be")
    done = world.run("--", world.agent("codex", "put(STREAM); sys.exit(3)", CODEX))
    assert (done.returncode, done.stdout) == (3, CODEX)
    assert b"not recorded" in done.stderr


def test_both_streams_in_one_file_keep_their_order(world):
    code = "\nfor n in range(200): os.write(1 + n % 2, b'%d\\n' % n)"
    target = world.folder / "out"
    with target.open("wb") as out:
        world.run("--", world.agent("greet", code), stdout=out, stderr=out)
    assert target.read_bytes() == b"".join(b"%d\n" % n for n in range(200))


def on_a_terminal(world, agent, size=(50, 132)):
    """Runs under a terminal of its own, as a shell would: (exit code, output, master)."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))

    def lead():
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    command = world.command("--", agent)
    ends = {"stdin": slave, "stdout": slave, "stderr": slave}
    running = subprocess.Popen(command, **ends, preexec_fn=lead)  # noqa: PLW1509  # no threads here
    os.close(slave)
    return running, master


def read_until(master, word: bytes, seconds=60.0) -> bytes:
    held, until = b"", time.monotonic() + seconds
    while word not in held and time.monotonic() < until:
        if readable(master, 0.2):
            try:
                chunk = os.read(master, 4096)
            except OSError:
                break
            held += chunk
    return held


def test_on_a_terminal_the_agent_has_one_of_the_same_size_and_keys_reach_it(world):
    code = """
        put(b'%s %s %dx%d\\n' % (str(os.isatty(0)).encode(), str(os.isatty(1)).encode(),
            *os.get_terminal_size(1)))
        put(b'asked: ')
        put(b'got ' + sys.stdin.buffer.readline())
        seen = []
        signal.signal(signal.SIGWINCH, lambda *_: seen.append(os.get_terminal_size(1)))
        put(b'ready\\n')
        while (99, 40) not in seen: time.sleep(0.01)
        put(b'now %dx%d\\n' % seen[-1])
    """
    running, master = on_a_terminal(world, world.agent("greet", code))
    held = read_until(master, b"asked: ")
    assert b"True True 132x50\r\n" in held
    os.write(master, b"word\n")
    assert b"got word\r\n" in read_until(master, b"ready")
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 99, 0, 0))
    assert b"now 99x40\r\n" in read_until(master, b"99x40\r\n")
    assert running.wait(timeout=30) == 0
    os.close(master)
    assert "got word" in world.blocks()[0]["text"]


def test_an_interrupt_typed_on_the_terminal_reaches_the_agent_once(world):
    code = """
        heard = []
        signal.signal(signal.SIGINT, lambda n, _: heard.append(n))
        put(b'ready\\n')
        while not heard: time.sleep(0.01)
        time.sleep(0.3)
        sys.exit(40 + len(heard))
    """
    running, master = on_a_terminal(world, world.agent("greet", code))
    read_until(master, b"ready")
    os.write(master, b"\x03")
    read_until(master, b"never", 1.5)
    assert running.wait(timeout=30) == 41
    os.close(master)


def test_recording_that_is_too_slow_misses_and_says_so_and_the_agent_does_not_wait():
    took = []
    for _ in range(5):  # the machine does not stand still in each of five
        heard = _child.OutputQueue(most=100)
        began = time.monotonic()
        for _ in range(1000):
            heard.put(b"x" * 10)
        took.append(time.monotonic() - began)
    assert min(took) < 1
    heard.close()
    got = list(iter(heard.get, None))
    assert sum(len(each) for each in got if isinstance(each, bytes)) == 100
    assert [each for each in got if isinstance(each, int)] == [9900]


def test_a_reply_may_be_one_message_per_call(tmp_path):
    with Recorder.open(run_id(), tmp_path) as recorder:
        scribe = OutputRecorder(recorder, ["claude"], by_turn=False)
        scribe.begin()
        for start in range(0, len(CLAUDE), 100):
            scribe.feed(CLAUDE[start : start + 100])
        scribe.finish("ok", 0)
    told = [e for e in bodies(recorder.path) if e["type"] == "message.assistant"]
    assert [block["type"] for block in told[0]["payload"]["blocks"]] == [
        "text", "tool_use", "tool_result", "text",
    ]  # fmt: skip
    assert len(told) == 1
    assert "turn" not in told[0]["payload"]


def test_missed_bytes_are_reported_in_the_transcript(tmp_path):
    with Recorder.open(run_id(), tmp_path) as recorder:
        scribe = OutputRecorder(recorder, ["codex", "exec"])
        scribe.begin()
        first, rest = CODEX[:400], CODEX[400:]
        scribe.feed(first)
        scribe.miss(5000)
        scribe.feed(rest)
        scribe.finish("ok", 0)
    message = [e for e in bodies(recorder.path) if e["type"] == "message.assistant"][-1]["payload"]
    assert message["report"]["dropped_bytes"] == 5000
    assert message["usage"]["output_tokens"] == 204


def test_any_amount_of_plain_output_is_stored_in_bounded_space(tmp_path):
    with Recorder.open(run_id(), tmp_path) as recorder:
        scribe = OutputRecorder(recorder, ["claude"])
        scribe.begin()
        for n in range(2000):
            scribe.feed(b"line %d of a long text\n" % n * 50)
        assert scribe._normaliser is None
        scribe.finish("ok", 0)
    [message] = [e for e in bodies(recorder.path) if e["type"] == "message.assistant"]
    [block] = message["payload"]["blocks"]
    assert block["text"].startswith("line 0 of")
    assert block["text"].endswith("line 1999 of a long text\n")
    assert len(block["text"]) < 600_000
    assert block["truncated"]["bytes"] > 2_000_000


def kinds_in(home: Path) -> list[str]:
    return [event["type"] for path in home.glob("transcripts/*.jsonl") for event in bodies(path)]


def test_a_recording_that_was_killed_is_finished_by_the_next_one(world):
    slow = world.agent("codex", "put(STREAM[:500]); time.sleep(60)", CODEX)
    running = world.start("--", slow)
    assert running.stdout.read(10)
    assert eventually(lambda: "run.started" in kinds_in(world.home))
    running.kill()
    running.communicate(timeout=30)
    with Home(world.home) as home:
        [run] = recover(home)
        home.index.catch_up()
        [row] = ask(home, "runs", now="2026-05-05T09:00:00.000Z")
        assert (row["run"], row["outcome"]) == (run, "interrupted")
        assert recover(home) == []


def test_a_recording_and_the_import_of_its_conversation_are_counted_once(world):
    world.run("--", world.agent("claude", "put(STREAM)", CLAUDE), "-p", "what is x?")
    at = "2026-05-05T09:00:0{}.000Z"
    common = {"sessionId": SESSION, "cwd": "/w", "version": "2.1.0", "isSidechain": False}

    def record(n, kind, message, **more):
        ids = {"uuid": f"u{n}", "parentUuid": f"u{n - 1}" if n else None, "timestamp": at.format(n)}
        return {**common, **ids, "type": kind, "message": message, **more}

    def answer(id, *content, output):
        usage = {"input_tokens": 5, "cache_read_input_tokens": 45, "output_tokens": output}
        message = {"id": id, "type": "message", "role": "assistant", "model": "claude-sonnet-4-5"}
        return {**message, "content": list(content), "usage": usage}

    log = lines(
        record(0, "user", {"role": "user", "content": "what is x?"}),
        record(1, "assistant", answer("msg_1", USE, output=10), requestId="r1"),
        record(2, "user", {"role": "user", "content": [RESULT]}),
        record(3, "assistant", answer("msg_2", {"type": "text", "text": "It is 1."}, output=15)),
    )
    path = world.folder / "projects" / f"{SESSION}.jsonl"
    path.parent.mkdir()
    path.write_bytes(log)
    with Home(world.home) as home:
        assert Importing(home).bring([path]).lines["refused"] == 0
        home.index.catch_up()
        [row] = ask(home, "costs", by="all")
        assert (row["output_tokens"], row["input_tokens"]) == (25, 100)
        assert [(each["tool"], each["calls"]) for each in ask(home, "tools")] == [("Read", 1)]
        assert len(ask(home, "runs", now="2026-05-05T09:00:00.000Z")) == 2


THREAD = "019982b8-3422-79e0-8b3b-05abaf4f3c3e"
AT = "2026-05-05T09:00:0{}.000Z"


def codex_record(n, kind, **payload):
    return {"timestamp": AT.format(n), "type": kind, "payload": payload}


def copilot_event(n, kind, **data):
    return {"type": kind, "data": data, "id": f"e{n}", "timestamp": AT.format(n), "parentId": None}


COPILOT = [
    copilot_event(0, "session.start", sessionId=SESSION, copilotVersion="1", selectedModel="gpt-5"),
    copilot_event(1, "assistant.message", messageId="m1", content="Reading.", outputTokens=20,
                  toolRequests=[{"toolCallId": "c1", "name": "view", "arguments": {"path": "a"}}]),
    copilot_event(2, "tool.execution_start", toolCallId="c1", toolName="view", arguments={}),
    copilot_event(3, "tool.execution_complete", toolCallId="c1", success=True,
                  result={"content": "x = 1"}),
    copilot_event(4, "assistant.message", messageId="m2", content="It is 1.", outputTokens=5),
]  # fmt: skip  # one event each
GEMINI_CALL = {
    "id": "c1", "name": "read_file", "args": {"path": "a"}, "status": "success",
    "result": [{"functionResponse": {"id": "c1", "name": "read_file", "response": {"output": "x"}}}],
}  # fmt: skip

CONVERSATIONS = {
    "claude": (
        CLAUDE,
        f"{SESSION}.jsonl",
        lines(*[
            {"sessionId": SESSION, "cwd": "/w", "version": "2.1.0", "isSidechain": False,
             "uuid": f"u{n}", "parentUuid": None, "timestamp": AT.format(n), "type": kind,
             "message": message}
            for n, (kind, message) in enumerate([
                ("user", {"role": "user", "content": "what is x?"}),
                ("assistant", {"id": "msg_1", "role": "assistant", "model": "claude-sonnet-4-5",
                               "content": [USE], "usage": {"input_tokens": 50, "output_tokens": 10}}),
                ("user", {"role": "user", "content": [RESULT]}),
                ("assistant", {"id": "msg_2", "role": "assistant", "model": "claude-sonnet-4-5",
                               "content": [{"type": "text", "text": "It is 1."}],
                               "usage": {"input_tokens": 50, "output_tokens": 15}}),
            ])
        ]),
        25,
    ),
    "codex": (
        lines(
            {"type": "thread.started", "thread_id": THREAD},
            {"type": "turn.started"},
            {"type": "item.completed", "item": {"id": "item_0", "type": "command_execution",
             "command": "cat a", "aggregated_output": "x", "exit_code": 0, "status": "completed"}},
            {"type": "item.completed", "item": {"id": "item_1", "type": "agent_message", "text": "1"}},
            {"type": "turn.completed", "usage": {"input_tokens": 100, "output_tokens": 25}},
        ),
        f"rollout-2026-05-05T09-00-00-{THREAD}.jsonl",
        lines(
            codex_record(0, "session_meta", id=THREAD, cwd="/w", cli_version="1"),
            codex_record(1, "turn_context", turn_id="t", model="gpt-5-codex"),
            codex_record(2, "response_item", type="function_call", name="shell", call_id="call_1",
                         arguments='{"command": ["cat", "a"]}'),
            codex_record(3, "response_item", type="function_call_output", call_id="call_1", output="x"),
            codex_record(4, "response_item", type="message", role="assistant",
                         content=[{"type": "output_text", "text": "1"}]),
            codex_record(5, "event_msg", type="token_count", info={
                "total_token_usage": {"input_tokens": 100, "output_tokens": 25}}),
        ),
        25,
    ),
    "gemini": (
        lines(
            {"type": "init", "session_id": SESSION, "model": "gemini-2.5-pro"},
            {"type": "tool_use", "tool_name": "read_file", "tool_id": "c1", "parameters": {}},
            {"type": "tool_result", "tool_id": "c1", "status": "success", "output": "x"},
            {"type": "message", "role": "assistant", "content": "1"},
            {"type": "result", "status": "success",
             "stats": {"input_tokens": 100, "output_tokens": 25, "total_tokens": 125}},
        ),
        "session-2026-05-05T09-00-0a1b2c3d.jsonl",
        lines(
            {"sessionId": SESSION, "projectHash": "h", "startTime": AT.format(0)},
            {"id": "m1", "timestamp": AT.format(1), "type": "gemini", "content": "", "model": "gemini-2.5-pro",
             "toolCalls": [GEMINI_CALL], "tokens": {"input": 50, "output": 10, "total": 60}},
            {"id": "m2", "timestamp": AT.format(2), "type": "gemini", "content": "1", "model": "gemini-2.5-pro",
             "tokens": {"input": 50, "output": 15, "total": 65}},
        ),
        25,
    ),
    "copilot": (
        lines(*COPILOT, {"type": "result", "sessionId": SESSION, "exitCode": 0}),
        f"session-state/{SESSION}/events.jsonl",
        lines(*COPILOT),
        25,
    ),
}  # fmt: skip  # conversations to be read


@pytest.mark.parametrize("recorded_first", [True, False])
@pytest.mark.parametrize("name", sorted(CONVERSATIONS))
def test_in_either_order_a_conversation_is_counted_once(world, name, recorded_first):
    stream, place, log, output = CONVERSATIONS[name]
    path = world.folder / "logs" / place
    path.parent.mkdir(parents=True)
    path.write_bytes(log)

    def bring():
        with Home(world.home) as home:
            assert Importing(home).bring([path], only=name).lines["refused"] == 0

    if not recorded_first:
        bring()
    world.run("--", world.agent(name, "put(STREAM)", stream), "-p", "what is x?")
    if recorded_first:
        bring()
    now = "2026-05-05T09:00:00.000Z"
    with Home(world.home) as home:
        home.index.catch_up()
        [row] = ask(home, "costs", by="all")
        assert row["output_tokens"] == output
        assert sum(each["calls"] for each in ask(home, "tools")) == 1
        rows = ask(home, "runs", now=now)
        [other] = [each for each in rows if each["same_as"]]
        [counted] = [each for each in rows if not each["same_as"]]
        assert other["same_as"] == f"{counted['family']}:{counted['run']}"
        shown = ask(home, "show", run=f"{other['family']}:{other['run']}", now=now)
        assert shown["same_as"] == other["same_as"]
        assert all(each["run_count"] == 1 for each in ask(home, "agents"))
        assert len(ask(home, "outcome-runs")) <= 1


def test_a_run_inside_a_run_is_its_child_and_an_id_may_be_chosen(world):
    inner = world.agent("codex", "put(STREAM)", CODEX)
    code = f"""
        import subprocess
        command = [sys.executable, "-m", "tracklog", "exec", "--home", {str(world.home)!r}]
        subprocess.run([*command, "--", {inner!r}], check=True)
    """
    chosen = run_id()
    environment = {**os.environ, "TRACKLOG_RUN_ID": chosen}
    done = world.run("--", world.agent("outer", code), env=environment)
    assert done.stdout == CODEX
    with Home(world.home, readonly=True) as home:
        home.index.catch_up()
        top, below = tree_of(home, run=f"awf:{chosen}")
    assert (top.key, below.depth, below.kind) == (f"awf:{chosen}", 1, "sub-run")


def test_secrets_are_taken_out_of_transcript_and_journal_where_asked(world):
    secret = "ghp_" + "Zk9QmW3xVb7TnR5yLcD1sFhJ8pGqE2uA4wXo"
    stream = CLAUDE.replace(b"x = 1", f"x = {secret}".encode())
    done = world.run("--redact", "--", world.agent("claude", "put(STREAM)", stream))
    assert done.stdout == stream
    held = b"".join(path.read_bytes() for path in world.home.rglob("*") if path.is_file())
    assert secret.encode() not in held
    assert b"[redacted:github-token]" in held
    with Home(world.home, readonly=True) as home:
        assert list(secrets.leaks(iter(home.journal.read(0, 100)))) == []


def test_the_raw_output_is_stored_if_asked_and_only_for_the_owner(world):
    world.run("--tee-raw", "--", world.agent("claude", "put(STREAM)", CLAUDE))
    [raw] = world.home.glob("transcripts/*.raw/0.ndjson")
    assert raw.read_bytes() == CLAUDE
    assert raw.stat().st_mode & 0o777 == 0o600
    assert world.run("--tee-raw", "--redact", "--", "true").returncode == 2


def test_what_is_pruned_or_erased_is_gone_from_the_transcript_too(world):
    world.run("--tee-raw", "--", world.agent("claude", "put(STREAM)", CLAUDE))
    [path] = world.home.glob("transcripts/*.jsonl")
    with Home(world.home, clock=lambda: time.time() + 1000) as home:
        found = [each for each in home.journal.read(0, 100) if b"It is 1." in each.line]
        for record in found:
            done = home.erase(record.run, record.seq, reason="a test", by="me")
            assert f"transcripts/{path.name}" in done.also
        assert b"It is 1." not in path.read_bytes()
        assert home.prune(500).records > 0
    assert not list(world.home.glob("transcripts/*"))


def test_a_flood_of_output_is_passed_through_completely(world):
    code = "\nfor n in range(300): put((b'%d' % n).ljust(65535, b'.') + b'\\n')"
    agent = world.agent("greet", code)
    done = world.run("--", agent)
    alone = subprocess.run([agent], stdout=subprocess.PIPE, check=True)
    assert done.stdout == alone.stdout


def test_a_listener_may_be_asked_from_another_thread():
    heard = _child.OutputQueue()
    got = []
    listener = threading.Thread(target=lambda: got.extend(iter(heard.get, None)))
    listener.start()
    for n in range(100):
        heard.put(b"%d" % n)
    heard.close()
    listener.join(10)
    assert got == [b"%d" % n for n in range(100)]
