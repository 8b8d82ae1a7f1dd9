"""What docs/promises.md and docs/how-to/report-to-a-collector.md promise of emitters, from outside."""

import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from support.collecting import Collector, collector, lasting_port
from support.rude import Rude
from support.soaking import SOAK
from tracklog.home.home import Home

CONTRACTS = Path(__file__).parents[2] / "contracts"
NOBODY = "http://127.0.0.1:9"
GOOD = {"duplicate": 0, "refused": 0, "verdicts": []}

PROGRAM = """
import os, sys, threading, time
sys.path.insert(0, {contracts!r})
import kahn_agent_emit, kahn_emit, tracklog_emit
url, spool, deadline = {url!r}, {spool!r}, {deadline!r}
def native(**more):
    given = dict(spool=spool, environ={{}}, deadline=deadline) | more
    return tracklog_emit.Emitter.http(url, **given).bind(run="r")
def kahn(**more):
    given = dict(run_id="r", url=url, spool=spool, environ={{}}, deadline=deadline) | more
    return kahn_emit.Emitter(**given)
def agent(**more):
    given = dict(run_id="r", url=url, spool=spool, environ={{}}, deadline=deadline) | more
    return kahn_agent_emit.AgentEmitter(**given)
def emit(emitter, number):
    if hasattr(emitter, "tracklog"):
        emitter.tracklog("Noted", label="x", n=number)
    elif hasattr(emitter, "run_start"):
        emitter.run_start(total_nodes=0, n=number)
    else:
        emitter.agent_run_start(agent_id="a", task="t", n=number)
"""


def program(code, url, spool, deadline=2.0, **more):
    """A program that reports to a collector, in a process of its own."""
    head = PROGRAM.format(
        contracts=str(CONTRACTS), url=url, spool=os.fspath(spool), deadline=deadline
    )
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", head + code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **more,
    )


def node(code, url, spool, **more):
    """The same with the TypeScript emitter, as it is built."""
    head = f"""
import {{ writeSync }} from "node:fs";
import {{ createInterface }} from "node:readline";
import {{ AgentEmitter, HttpSink }} from "@tracklog/contracts/emit";
const given = {{ spool: {json.dumps(os.fspath(spool))}, environ: {{}} }};
const url = {json.dumps(url)};
const turn = () => new Promise((then) => setImmediate(then));
const agent = (deadline) => new AgentEmitter(undefined, {{ ...given, url, runId: "r", deadline }});
"""
    return subprocess.Popen(
        ["node", "--input-type=module", "-e", head + code],
        cwd=CONTRACTS / "ts",  # where the package finds itself by its name
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **more,
    )


def ended(process, seconds=120):
    out, err = process.communicate(timeout=seconds)
    assert process.returncode == 0, err
    assert "Traceback" not in err, err
    return out, err


def numbers(lines):
    return [json.loads(line)["n"] for line in lines]


def files(spool, pattern):
    return sorted(Path(spool).glob(f"*/{pattern}"))


def aside(spool):
    (path,) = files(spool, "refused.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


# It never waits.


@pytest.mark.promise(
    "An emitter that sends its lines to a collector never waits",
)
def test_nobody_waits_for_an_emitter_that_is_being_closed(tmp_path):
    """Emitters of one program share a lock, and one that waits for the collector must not hold it."""
    with Rude(*["hang"] * 9) as hanging:
        code = """
slow, quick = native(spool=spool + "/a"), native(spool=spool + "/b")
emit(slow, 0)
emit(quick, 1)
closing = threading.Thread(target=slow.close)
closing.start()
while not slow._shared.sink._closed:
    time.sleep(0.001)
time.sleep(0.1)
emit(quick, 2)
print("emitted while it waits" if closing.is_alive() else "waited", flush=True)
os._exit(0)
"""
        out, _ = ended(program(code, hanging.url, tmp_path, deadline=60.0))
    assert out == "emitted while it waits\n"


# It never raises because of the collector.


@pytest.mark.promise(
    "An emitter that sends its lines to a collector never waits",
)
def test_a_warning_is_printed_once_for_each_kind_of_trouble_and_steers_no_terminal(tmp_path):
    evil = b"\x1b]0;owned\x07\x1b[2J\r\nsecond line"
    with Rude(*[(418, {}, evil)] * 4) as strange:
        _, err = ended(program("with native() as e:\n emit(e, 0)", strange.url, tmp_path, 30.0))
    assert err.count("answers 418") == 1
    assert err.count("\n") == 1
    assert not set("\x1b\x07\r") & set(err)


def test_an_event_that_is_wrong_in_itself_raises_and_an_address_that_is_none_too(tmp_path):
    code = """
try:
    emit(native(), float("nan"))
except tracklog_emit.Invalid as error:
    print(error.problems[0].pointer)
url = "nonsense"
try:
    native()
except ValueError as error:
    print(error)
"""
    out, _ = ended(program(code, NOBODY, tmp_path))
    assert out.startswith("/n\n'nonsense' is no address of a collector")


# It does not delay the end.

CLOSINGS = {
    "all at the end": """
made = [make() for _ in range(5) for make in (native, kahn, agent)]
for number, each in enumerate(made):
    emit(each, number)
time.sleep(0.3)
print("closing", flush=True)
for each in made:
    each.close()
""",
    "one after the other": """
print("closing", flush=True)
for number in range(5):
    for make in (native, kahn, agent):
        with make() as each:
            emit(each, number)
""",
    "some are never closed": """
made = [make() for _ in range(5) for make in (native, kahn, agent)]
for number, each in enumerate(made):
    emit(each, number)
time.sleep(0.3)
print("closing", flush=True)
for each in made[:9]:
    each.close()
""",
}


@pytest.mark.promise(
    "An emitter that sends its lines to a collector never waits",
)
@pytest.mark.promise("All emitters of a program share that deadline")
def test_the_copies_of_the_code_in_one_program_share_the_deadline_of_its_end(tmp_path):
    """Each copy has its own last turn; all of them together wait for one deadline."""
    code = """
import atexit
made = [native(), kahn(), agent()]
for number, each in enumerate(made):
    emit(each, number)
turns = [tracklog_emit.HttpSink._end, kahn_emit.HttpSink._end, kahn_agent_emit.HttpSink._end]
for turn in turns: atexit.unregister(turn)
time.sleep(0.3)
began = time.monotonic()
for each in made: each.close()
for turn in turns: turn()
print(time.monotonic() - began)
"""
    with Rude(*["hang"] * 99) as hanging:
        out, _ = ended(program(code, hanging.url, tmp_path, deadline=6.0))
    assert float(out) < 8  # were each to wait for its own part, nine


@pytest.mark.parametrize("code", CLOSINGS.values(), ids=CLOSINGS)
@pytest.mark.promise(
    "An emitter that sends its lines to a collector never waits",
)
@pytest.mark.promise("All emitters of a program share that deadline")
def test_closing_and_the_end_take_one_deadline_however_many_emitters_there_are(code, tmp_path):
    with Rude(*["hang"] * 999) as hanging:
        process = program(code, hanging.url, tmp_path, deadline=2.0)
        assert process.stdout.readline()
        began = time.monotonic()
        ended(process)
        took = time.monotonic() - began
    assert took < 12  # fifteen emitters would take half a minute, each with its own deadline
    assert len(files(tmp_path, "*.spool")) == 15


def test_a_program_that_closes_many_emitters_has_sent_their_lines(tmp_path):
    """What closing may wait is used up by then; the sending goes on beside the program."""
    code = """
for number in range(60):
    with (native, kahn, agent)[number % 3]() as each:
        emit(each, number)
"""
    with Rude() as kind:
        _, err = ended(program(code, kind.url, tmp_path, deadline=20.0))
        assert err == ""
        assert sorted(numbers(kind.lines())) == list(range(60))
    assert files(tmp_path, "*.spool") == []


# Nothing twice, nothing lost, in order.

EMIT = """
from itertools import count
with agent(deadline=0.2) as run:
    coder = run.bind(agent_id="coder")
    for number in count({first}):
        coder.tool_invocation(step=number, tool_name="Read", duration_s=0.1, ok=True)
        os.write(1, b"%d\\n" % number)
"""
FORWARD_ALL = """
with agent(deadline=60.0) as run:
    print("all sent" if run._http.flush(60) else "not all")
"""
NODE_EMIT = """
const coder = agent(0.2).bind({{ agent_id: "coder" }});
for (let number = {first}; ; number += 1) {{
  coder.toolInvocation({{ step: number, tool_name: "Read", duration_s: 0.1, ok: true }});
  writeSync(1, `${{number}}\\n`);
  await turn();
}}
"""
NODE_FORWARD_ALL = """
console.log(await new HttpSink(url, given).flush(60) ? "all sent" : "not all");
"""
KILLED = {"Python": (program, EMIT, FORWARD_ALL), "TypeScript": (node, NODE_EMIT, NODE_FORWARD_ALL)}


def steps(home):
    with Home(home, readonly=True) as opened:
        records = opened.journal.records(run=("kahn", "r"))
        return [json.loads(record.line)["step"] for record in records]


@pytest.mark.long
@pytest.mark.parametrize(("start", "emitting", "forwarding"), KILLED.values(), ids=KILLED)
@pytest.mark.promise(
    "A line is in a private file before the call returns",
    "It survives `kill -9` of the program",
)
def test_a_program_that_is_killed_at_any_time_has_lost_and_doubled_nothing(
    start, emitting, forwarding, tmp_path
):
    """The lines have no identity: only the key of its batch tells that a line was there before."""
    chance, first = random.Random(7), 0
    returned, possible = set(), set()
    with collector(tmp_path / "home", "--durability", "os") as server:
        for _ in range(8 * SOAK):
            process = start(emitting.format(first=first), server.url, tmp_path / "spool")
            assert process.stdout.readline() == f"{first}\n"
            threading.Timer(chance.uniform(0, 0.3), process.send_signal, [signal.SIGKILL]).start()
            out = process.stdout.read()
            process.communicate(timeout=60)
            assert process.returncode == -signal.SIGKILL
            last = max([first, *(int(line) for line in out.split("\n")[:-1])])
            returned.update(range(first, last + 1))
            possible.update(range(first, last + 2))  # one more may be emitted, and not reported
            first = last + 2
        assert ended(start(forwarding, server.url, tmp_path / "spool"))[0] == "all sent\n"
        assert server.stop() == 0
    found = steps(tmp_path / "home")
    assert len(found) == len(set(found)), "a line is there twice"
    assert returned <= set(found) <= possible
    assert found == sorted(found)
    assert files(tmp_path / "spool", "*") == []


class Between:
    """Hands requests on to a collector; it can lose the answer once the collector has given it."""

    def __init__(self, port):
        self.port, self.lose, self.lost = port, None, 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            with client:
                while request := self._read(client):
                    try:
                        with socket.create_connection(("127.0.0.1", self.port), 30) as behind:
                            behind.sendall(request)
                            answer = self._read(behind)
                    except OSError:
                        break
                    if lose := self.lose:
                        self.lose = None
                        lose()
                        self.lost += 1
                        break
                    client.sendall(answer)

    @staticmethod
    def _read(peer):
        found = b""
        while b"\r\n\r\n" not in found:
            part = peer.recv(1 << 16)
            if not part:
                return b""
            found += part
        head, _, body = found.partition(b"\r\n\r\n")
        size = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        while len(body) < size:
            body += peer.recv(1 << 16)
        return head + b"\r\n\r\n" + body


PARTS = """
with agent(deadline=60.0) as run:
    coder = run.bind(agent_id="coder")
    for number in range(40):
        coder.tool_invocation(step=number, tool_name="Read", duration_s=0.1, ok=True)
        if number % 10 == 9:
            while not run._http.flush(5):
                pass
            print("sent", flush=True)
            sys.stdin.readline()
"""
NODE_PARTS = """
const run = agent(60);
const coder = run.bind({ agent_id: "coder" });
const asked = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
for (let number = 0; number < 40; number += 1) {
  coder.toolInvocation({ step: number, tool_name: "Read", duration_s: 0.1, ok: true });
  if (number % 10 !== 9) continue;
  while (!(await run.http.flush(5)));
  writeSync(1, "sent\\n");
  await asked.next();
}
await run.close();
process.stdin.destroy();
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("start", "emitting"), [(program, PARTS), (node, NODE_PARTS)], ids=["Python", "TypeScript"]
)
@pytest.mark.promise(
    "A line is in a private file before the call returns",
    "It survives `kill -9` of the program",
)
@pytest.mark.promise(
    "A line is removed from the file only when the collector itself",
    "Any other answer, such as that of a proxy",
)
def test_a_collector_that_is_killed_between_write_and_answer_has_every_line_once(
    start, emitting, tmp_path
):
    home = tmp_path / "home"
    server = Collector(home, port=lasting_port())
    between = Between(server.port)
    between.lose = server.kill
    process = start(emitting, between.url, tmp_path / "spool", stdin=subprocess.PIPE)
    for kills in range(1, 5):
        until = time.monotonic() + 60
        while between.lost < kills and time.monotonic() < until:
            time.sleep(0.01)
        assert between.lost == kills
        server = Collector(home, port=server.port)
        assert process.stdout.readline() == "sent\n"
        between.lose = server.kill if kills < 4 else None
        process.stdin.write("\n")
        process.stdin.flush()
    ended(process)
    assert server.stop() == 0
    between.listener.close()
    assert steps(home) == list(range(40))
    assert files(tmp_path / "spool", "*") == []


@pytest.mark.promise(
    "A line is in a private file before the call returns",
    "It survives `kill -9` of the program",
)
def test_what_an_earlier_program_left_comes_first(tmp_path):
    with Rude() as gone:
        url = gone.url
    for number in range(3):
        ended(program(f"with native() as each:\n emit(each, {number})", url, tmp_path))
    assert len(files(tmp_path, "*.spool")) == 3
    for path in files(tmp_path, "*"):
        assert (path.stat().st_mode | path.parent.stat().st_mode) & 0o077 == 0
    with Rude(port=gone.server_port) as back:
        ended(program("with native() as each:\n emit(each, 3)", url, tmp_path, deadline=30.0))
        assert numbers(back.lines()) == [0, 1, 2, 3]


# Only the collector's own acknowledgement is believed.

BATCH = "with native() as each:\n for number in range(20): emit(each, number)"


@pytest.mark.promise(
    "A line is removed from the file only when the collector itself",
    "Any other answer, such as that of a proxy",
)
@pytest.mark.promise(
    "An answer with another status, or without the header",
)
def test_lines_wait_for_a_collector_that_is_too_old_to_name_its_protocol_and_it_is_reported_once(
    tmp_path,
):
    def old(lines):
        return (200, {"Tracklog-Protocol": None}, {"accepted": len(lines), **GOOD})

    with Rude(*[old] * 99) as before:
        code = "with native() as each:\n for n in range(20): emit(each, n); time.sleep(0.05)"
        _, err = ended(program(code, before.url, tmp_path))
        assert err.count("upgrade collectors first") == 1
        assert err.count("\n") == 1
    assert len(files(tmp_path, "*.spool")) == 1
    with Rude(port=before.server_port) as upgraded:
        ended(program("assert native()._shared.sink.flush(60)", before.url, tmp_path))
        assert numbers(upgraded.lines()) == list(range(20))
    assert files(tmp_path, "*") == []


@pytest.mark.promise(
    "A line is removed from the file only when the collector itself",
    "Any other answer, such as that of a proxy",
)
@pytest.mark.parametrize(
    "answer",
    [
        lambda lines: (200, {}, {"accepted": len(lines) - 1, **GOOD}),
        lambda lines: (200, {}, {"accepted": len(lines) + 1, **GOOD}),
        lambda lines: (200, {}, {"accepted": str(len(lines)), **GOOD}),
        lambda _: (200, {}, b"ok"),
        lambda _: (200, {}, []),
        lambda lines: (202, {}, {"accepted": len(lines), **GOOD}),
    ],
    ids=["one too few", "one too many", "no number", "no JSON", "no object", "another status"],
)
def test_an_answer_whose_counts_do_not_add_up_takes_nothing(tmp_path, answer):
    with Rude(*[answer] * 99) as strange:
        ended(program(BATCH, strange.url, tmp_path))
        assert strange.asked
    assert len(files(tmp_path, "*.spool")) == 1
    with Rude(port=strange.server_port) as real:
        ended(program("assert native()._shared.sink.flush(60)", strange.url, tmp_path))
        assert numbers(real.lines()) == list(range(20))


@pytest.mark.promise(
    "A line is removed from the file only when the collector itself",
    "Any other answer, such as that of a proxy",
)
def test_the_page_of_a_portal_takes_nothing(tmp_path):
    page = (200, {"Tracklog-Protocol": None, "Content-Type": "text/html"}, b"<html>log in</html>")
    with Rude(*[page] * 99) as portal:
        _, err = ended(program(BATCH, portal.url, tmp_path, deadline=30.0))
        assert err.count("no collector but a proxy or a portal") == 1
    with Rude(port=portal.server_port) as real:
        ended(program("assert native()._shared.sink.flush(60)", portal.url, tmp_path))
        assert numbers(real.lines()) == list(range(20))


def left_behind(spool, url, lines, name="1", head=b"%020d\n" % 21):
    """The spool of a program that is gone."""
    sys.path.insert(0, str(CONTRACTS))
    try:
        from tracklog_emit import HttpSink  # noqa: PLC0415 - as a program would
    finally:
        sys.path.remove(str(CONTRACTS))
    folder = Path(HttpSink(url, spool=spool, environ={}).folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.spool").write_bytes(head + b"".join(line + b"\n" for line in lines))
    return folder


def noted(number):
    fact = {"id": f"i{number}", "run": "r", "at": "2026-05-05T09:00:00Z", "fact": "Noted"}
    more = {"label": "x", "n": number, "origin": {"writer": "w", "fidelity": "observed"}}
    return json.dumps({**fact, **more}).encode()


FORWARD = "assert native()._shared.sink.flush(60)"


def test_a_key_that_stands_for_other_lines_in_the_collector_costs_no_line(tmp_path):
    with collector(tmp_path / "home", "--durability", "os") as server:
        other = [noted(7), noted(8)]
        key = {"Idempotency-Key": "1-21"}
        assert server.post(other, "tracklog", headers=key).json()["accepted"] == 2
        assert server.post(other[:1], "tracklog", headers=key).status_code == 409
        lines = [b"tracklog " + noted(number) for number in range(3)]
        left_behind(tmp_path / "spool", server.url, lines)
        assert ended(program(FORWARD, server.url, tmp_path / "spool")) == ("", "")
        server.stop()
    with Home(tmp_path / "home", readonly=True) as opened:
        found = numbers(record.line for record in opened.journal.records())
    assert found == [7, 8, 0, 1, 2]


# One batch never holds up the others.


@pytest.mark.parametrize("status", [401, 403, 404, 405, 411, 421, 451])
def test_a_batch_that_alone_is_refused_is_set_aside_and_the_others_go_on(status, tmp_path):
    def picky(lines):
        return (status, {}, {"error": "not this"}) if b"poison" in lines[0] else "kind"

    with Rude(*[picky] * 99) as server:
        lines = [b"awf poison", b"tracklog " + noted(0), b"awf poison", b"tracklog " + noted(1)]
        left_behind(tmp_path, server.url, lines)
        _, err = ended(program(FORWARD, server.url, tmp_path))
        assert numbers(server.lines()) == [0, 1]
    assert [(each["line"], each["status"]) for each in aside(tmp_path)] == [("poison", status)] * 2
    assert err.count("refused.jsonl") == 1
    assert files(tmp_path, "*.spool") == []


@pytest.mark.parametrize("status", [401, 403, 404])
def test_where_everything_is_refused_everything_waits(status, tmp_path):
    with Rude(*[(status, {}, {"error": "who are you?"})] * 999) as strict:
        lines = [line for n in range(3) for line in (b"awf {}", b"tracklog " + noted(n))]
        left_behind(tmp_path, strict.url, lines)
        code = "native()._shared.sink.flush(0)\nsys.stdin.readline()"
        process = program(code, strict.url, tmp_path, stdin=subprocess.PIPE)
        until = time.monotonic() + 60
        while time.monotonic() < until and len(strict.asked) < 6:
            time.sleep(0.02)
        ended(process)
        paths = {path for _, path, _ in strict.asked}
        assert paths == {"/api/events/awf", "/api/events/tracklog"}  # those behind it were tried
    assert files(tmp_path, "refused.jsonl") == []
    with Rude(port=strict.server_port) as right:
        ended(program(FORWARD, strict.url, tmp_path))
        assert len(right.lines()) == 6


FOREIGN = {"Tracklog-Protocol": None}


@pytest.mark.promise(
    "A line is removed from the file only when the collector itself has acknowledged",
    "Any other answer, such as that of a proxy",
)
@pytest.mark.promise("Only the collector itself can refuse a line")
@pytest.mark.parametrize("status", [400, 403, 404, 409, 413, 415, 422])
def test_lines_that_a_proxy_refuses_wait_for_the_collector(status, tmp_path):
    """Each alone, too: what is too large is sent by halves before."""
    with Rude(*[(status, FOREIGN, b"")] * 999) as proxy:
        left_behind(tmp_path, proxy.url, [b"tracklog " + noted(n) for n in range(3)])
        code = "native()._shared.sink.flush(0)\nsys.stdin.readline()"
        process = program(code, proxy.url, tmp_path, stdin=subprocess.PIPE)
        until = time.monotonic() + 60
        while time.monotonic() < until and len(proxy.asked) < 6:
            time.sleep(0.02)
        _, err = ended(process)
        assert len(proxy.asked) >= 6
    assert f"answers {status} without Tracklog-Protocol" in err
    assert files(tmp_path, "refused.jsonl") == []
    with Rude(port=proxy.server_port) as right:
        ended(program(FORWARD, proxy.url, tmp_path))
        assert numbers(right.lines()) == [0, 1, 2]


def test_only_the_line_that_is_too_large_for_a_proxy_is_set_aside_in_the_end(tmp_path):
    def picky(lines):
        return (413, FOREIGN, b"") if any(b"poison" in line for line in lines) else "kind"

    impatient = "tracklog_emit.FAILURES, tracklog_emit.LONGEST_PAUSE = 4, 0.05\n"
    with Rude(*[picky] * 999) as server:
        lines = [b"awf " + noted(0), b"awf poison", b"awf " + noted(1), b"tracklog " + noted(2)]
        left_behind(tmp_path, server.url, lines)
        _, err = ended(program(impatient + FORWARD, server.url, tmp_path))
        assert set(numbers(line for line in server.lines() if line != b"poison")) == {0, 1, 2}
    assert [each["line"] for each in aside(tmp_path)] == ["poison"]
    assert "lines were refused: " in err


@pytest.mark.promise("A line that fails again and again while")
@pytest.mark.parametrize(
    "mood", ["reset", (500, {}, {}), (200, FOREIGN, b""), (403, FOREIGN, b""), (413, FOREIGN, b"")]
)
def test_a_batch_that_alone_always_fails_is_set_aside_in_the_end(mood, tmp_path):
    def picky(lines):
        return mood if b"poison" in lines[0] else "kind"

    impatient = "tracklog_emit.FAILURES, tracklog_emit.LONGEST_PAUSE = 4, 0.05\n"
    with Rude(*[picky] * 99) as server:
        left_behind(tmp_path, server.url, [b"awf poison", b"tracklog " + noted(0)])
        ended(program(impatient + FORWARD, server.url, tmp_path))
        assert numbers(server.lines()) == [0]
    assert [each["line"] for each in aside(tmp_path)] == ["poison"]


def test_a_failure_that_passes_sets_nothing_aside(tmp_path):
    impatient = "tracklog_emit.FAILURES, tracklog_emit.LONGEST_PAUSE = 4, 0.05\n"
    with Rude(*[(503, {}, {})] * 30) as busy:
        lines = [
            line
            for n in range(0, 6, 2)
            for line in (b"awf %b" % noted(n), b"tracklog %b" % noted(n + 1))
        ]
        left_behind(tmp_path, busy.url, lines)
        ended(program(impatient + FORWARD, busy.url, tmp_path))
        assert sorted(numbers(busy.lines())) == list(range(6))
    assert files(tmp_path, "*") == []


@pytest.mark.promise(
    "Only the collector itself can refuse a line; it is then moved to `refused.jsonl`"
)
def test_lines_that_the_collector_refuses_are_set_aside_and_hold_up_no_others(tmp_path):
    with collector(tmp_path / "home", "--durability", "os") as server:
        left_behind(
            tmp_path / "spool",
            server.url,
            [
                b'klingon {"n":1}', b"tracklog " + noted(0), b'tracklog {"no":"fact"}',
                b"tracklog " + noted(1),
            ],
        )  # fmt: skip  # one list
        ended(program(FORWARD, server.url, tmp_path / "spool"))
        server.stop()
    with Home(tmp_path / "home", readonly=True) as opened:
        assert numbers(record.line for record in opened.journal.records()) == [0, 1]
    put, refused = aside(tmp_path / "spool")
    assert (put["status"], put["dialect"], put["line"]) == (404, "klingon", '{"n":1}')
    assert (refused["dialect"], refused["line"]) == ("tracklog", '{"no":"fact"}')
    assert "fact" in str(refused)
    assert files(tmp_path / "spool", "*.spool") == []


# Bounded, and counted.


@pytest.mark.parametrize("url", ["hanging", NOBODY])
@pytest.mark.promise(
    "If no private file can be made, lines wait in memory",
)
def test_lines_that_only_memory_held_are_counted_to_the_last(url, tmp_path):
    (tmp_path / "spool").write_text("no folder")
    code = """
each = native()
for number in range(100):
    emit(each, number)
    if number == 50: time.sleep(0.2)
each.close()
print(each._shared.sink.lost)
"""
    with Rude(*["hang"] * 99) as hanging:
        process = program(code, hanging.url if url == "hanging" else url, tmp_path / "spool", 0.5)
        out, err = ended(process)
    assert out == "100\n"
    assert err.count("100 lines were lost") == 1
    assert err.count("kept in memory") == 1


@pytest.mark.promise(
    "If no private file can be made, lines wait in memory",
)
def test_lines_in_memory_are_counted_too_where_nobody_closes_the_emitter(tmp_path):
    (tmp_path / "spool").write_text("no folder")
    code = "each = native()\nfor number in range(100): emit(each, number)"
    with Rude(*["hang"] * 99) as hanging:
        _, err = ended(program(code, hanging.url, tmp_path / "spool", 0.5))
    assert err.count("100 lines were lost") == 1


def test_a_child_counts_its_own_losses_alone(tmp_path):
    (tmp_path / "spool").write_text("no folder")
    code = """
tracklog_emit.SpoolMemory.limit = 1
each = native()
for number in range(10): emit(each, number)
before = each._shared.sink.lost
child = os.fork()
if child == 0:
    print(each._shared.sink.lost, flush=True)
    os._exit(0)
os.waitpid(child, 0)
print(before > 0)
"""
    out, _ = ended(program(code, NOBODY, tmp_path / "spool"))
    assert out == "0\nTrue\n"


# Odd paths.


def _loop(path):
    path.symlink_to(path.name)


ODD = {
    "a file": lambda path: path.write_text("x"),
    "a pipe": os.mkfifo,
    "a device": lambda path: path.symlink_to("/dev/null"),
    "an endless device": lambda path: path.symlink_to("/dev/zero"),
    "a loop of links": _loop,
    "a link to nothing": lambda path: path.symlink_to("nothing/here"),
    "a folder": lambda path: path.mkdir(),
}
each_odd = pytest.mark.parametrize("make", ODD.values(), ids=ODD)


@each_odd
@pytest.mark.promise(
    "If no private file can be made, lines wait in memory",
)
def test_where_no_spool_can_be_made_the_lines_are_sent_from_memory(make, tmp_path):
    make(tmp_path / "spool")
    with Rude() as kind:
        _, err = ended(program(BATCH, kind.url, tmp_path / "spool", deadline=30.0))
        assert numbers(kind.lines()) == list(range(20))
    is_folder = (tmp_path / "spool").is_dir()
    assert err.count("kept in memory") == (0 if is_folder else 1)
    assert err.count("\n") == (0 if is_folder else 1)


@pytest.mark.parametrize("spool", ["x\0y", "x" * 5000, "/proc/nothing", "/dev/null/x"])
def test_a_path_that_no_folder_can_have_is_reported_once_and_costs_nothing(spool, tmp_path):
    with Rude() as kind:
        process = program(BATCH, kind.url, spool, deadline=30.0, cwd=tmp_path)
        _, err = ended(process)
        assert numbers(kind.lines()) == list(range(20))
    assert (err.count("kept in memory"), err.count("\n")) == (1, 1)


@each_odd
def test_odd_things_that_lie_in_a_spool_are_left_alone_and_hold_up_nobody(make, tmp_path):
    with Rude() as kind:
        folder = left_behind(tmp_path, kind.url, [b"tracklog " + noted(20)])
        if make is not ODD["a file"]:  # which may be anybody's spool
            make(folder / "0.spool")
            make(folder / "2.spool")
        ended(program(BATCH, kind.url, tmp_path, deadline=30.0))
        assert sorted(numbers(kind.lines())) == list(range(21))


@each_odd
def test_refused_lines_that_cannot_be_set_aside_are_counted_as_lost(make, tmp_path):
    verdict = {"line": 1, "verdict": "refused", "problems": []}
    refusal = {"accepted": 0, "duplicate": 0, "refused": 1, "verdicts": [verdict]}
    with Rude((200, {}, refusal)) as picky:
        folder = left_behind(tmp_path, picky.url, [b"tracklog " + noted(0)])
        make(folder / "refused.jsonl")
        code = (
            "sink = native()._shared.sink\nassert sink.flush(60)\nprint(sink.set_aside, sink.lost)"
        )
        code += "\nemit(native(), 1)"
        out, err = ended(program(code, picky.url, tmp_path))
        assert numbers(picky.lines()) == [1]
    path = folder / "refused.jsonl"
    kept = path.is_file() and not path.is_symlink()
    assert out == ("1 0\n" if kept else "0 1\n")
    if kept:
        assert len(path.read_text().splitlines()) == 2  # what stood there has its own line
    else:
        assert err.count("1 lines were lost") == 1


@each_odd
def test_an_odd_token_file_keeps_nobody_waiting(make, tmp_path):
    make(tmp_path / "token")
    with Rude() as kind:
        code = BATCH.replace(
            "native()", f"native(environ={{'TRACKLOG_TOKEN_FILE': {str(tmp_path / 'token')!r}}})"
        )
        ended(program(code, kind.url, tmp_path / "spool", deadline=30.0))
        assert numbers(kind.lines()) == list(range(20))


# What a spool file says of itself.

HEADS = {
    "beyond the end": b"%020d\n" % 10_000_000,
    "inside a line": b"%020d\n" % 30,
    "before the first line": b"%020d\n" % 3,
    "no number": b"x" * 20 + b"\n",
    "zeros of a lost page": b"\0" * 21,
    "a number too long": b"9" * 20 + b"\n",
}


@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
def test_a_mark_that_cannot_be_true_of_its_file_loses_no_line(head, tmp_path):
    with Rude() as kind:
        left_behind(tmp_path, kind.url, [b"tracklog " + noted(n) for n in range(5)], head=head)
        ended(program(FORWARD, kind.url, tmp_path))
        assert numbers(kind.lines()) == list(range(5))
    assert files(tmp_path, "*") == []


def test_a_mark_that_is_true_is_believed(tmp_path):
    lines = [b"tracklog " + noted(n) for n in range(5)]
    with Rude() as kind:
        head = b"%020d\n" % (21 + len(lines[0]) + 1)
        left_behind(tmp_path, kind.url, lines, head=head)
        ended(program(FORWARD, kind.url, tmp_path))
        assert numbers(kind.lines()) == [1, 2, 3, 4]
