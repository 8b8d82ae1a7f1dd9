"""The section "Stored bytes": what comes out is what went in."""

import base64
from hashlib import sha256

import orjson
import pytest

from promises.command import Serving, lines_of, run
from support.collecting import tool

VALUES = {
    "spellings of one letter": '"\\u00e9 é e\u0301"'.encode(),
    "a large integer": b"123456789012345678901234567890",
    "more digits than a double has": b"0.1000000000000000055511151231257827000",
    "a trailing zero": b"1.50",
    "an exponent": b"1E+2",
    "minus zero": b"-0.0",
    "the smallest double": b"5e-324",
    "the order of keys": b'{"b":1,"a":2,"":3}',
    "a key twice": b'{"a":1,"a":2}',
    "blanks and tabs": b'[ 1 ,\t2,{ "a" : null } ]',
    "escapes": b'"\\/ \\u0041 \\ud83d\\ude00 \\u0000 \\u2028"',
    "odd characters": '"\u2028\u202e\ufeff\x7f\x85\U0010ffff"'.encode(),
    "deep nesting": b"[" * 100 + b"]" * 100,
}
AROUND = {"before": (b" \t ", b""), "behind": (b"", b"  \t")}
SECRET = b"sk-ant-api03-" + b"x" * 95


def noted(name: str, data: bytes) -> bytes:
    return (
        b'{"id":%b,"run":"r","at":"2026-05-05T09:00:00Z","fact":"Noted","label":"x",'
        b'"origin":{"writer":"test","fidelity":"observed"},"data":%b}' % (orjson.dumps(name), data)
    )


def frames(home, folder: str = "journal") -> list[dict]:
    paths = sorted((home / folder).glob("*.jsonl"))
    return [orjson.loads(line) for path in paths for line in path.read_bytes().splitlines()]


@pytest.mark.promise("A line is stored and returned byte for byte as it was sent")
@pytest.mark.promise("Nothing is masked, cut or reformatted")
def test_bytes_out_are_bytes_in(tmp_path):
    lines = [noted(name, value) for name, value in VALUES.items()]
    line = noted("x", b"1")
    lines += [b + line.replace(b'"x"', b'"%b"' % name.encode(), 1) + a
              for name, (b, a) in AROUND.items()]  # fmt: skip  # one expression
    lines += [noted("a secret", b'"%b"' % SECRET), noted("long", b'"%b"' % (b"y" * 1_000_000))]
    half = len(lines) // 2
    with Serving(tmp_path / "home", "--durability", "os") as server:
        assert server.post(lines[:half], "tracklog").json()["accepted"] == half
        path = tmp_path / "lines.jsonl"
        path.write_bytes(b"\r\n".join(lines[half:]))  # line ends of another system
        assert run("record", path, "--home", server.home).returncode == 0
        stored = b"\n".join(lines) + b"\n"
        assert server.get("/api/export/jsonl/tracklog/r").content == stored
        answer = server.get("/api/events?limit=1000").content
        assert [line for line in lines if b'"event":' + line not in answer] == []
        frames = []
        with server.http.stream("GET", "/api/stream?after=0") as stream:
            text = b""
            for part in stream.iter_raw():
                *whole, text = (text + part).split(b"\n")
                frames += [each for each in whole if each.startswith(b'data: {"seq"')]
                if len(frames) == len(lines):
                    break
        assert [frame.split(b'"event":', 1)[1][:-1] for frame in frames] == lines
    assert lines_of(tmp_path / "home", "r") == lines


@pytest.mark.promise(
    "A record names what was redacted in it",
    "Lines of `kahn-ci`, `kahn-agent` and `ralph` are never redacted",
)
@pytest.mark.promise("Nothing is masked, cut or reformatted, unless")
def test_redaction_is_on_record_and_leaves_kahn_lines_alone(tmp_path):
    native, kahn = noted("1", b'"%b"' % SECRET), tool("k", output=SECRET.decode())
    for number in (2, 0):  # sent again, both have been recorded before
        for line, dialect in ((native, "tracklog"), (kahn, "kahn-agent")):
            done = run("record", "--redact", "--dialect", dialect, "--key", dialect,
                       "--home", tmp_path, input=line + b"\n")  # fmt: skip  # one command
            assert done.stderr.startswith(b"1 accepted" if number else b"0 accepted, 1 duplicate")
    first, second = frames(tmp_path)
    assert first["redacted"]
    assert "redacted" not in second
    assert lines_of(tmp_path, "k") == [kahn]
    (stored,) = lines_of(tmp_path, "r")
    assert SECRET not in stored
    assert b"[redacted:" in stored
    assert not any(SECRET in each.read_bytes() and b"kahn" not in each.read_bytes()
                   for each in tmp_path.rglob("*") if each.is_file())  # fmt: skip  # one expression


@pytest.mark.promise(
    "A refused line is stored in separate files, with the reasons",
)
def test_refused_lines_are_stored_apart(tmp_path):
    short, long = b'{"event":"agent_run_start"', b'{"long":"' + b"\xc3\xa9" * 50_000
    with Serving(tmp_path, "--durability", "os", "--max-line", 200_000) as server:
        answer = server.post([short, tool("r"), long]).json()
        assert (answer["accepted"], answer["refused"]) == (1, 2)
        reasons = [verdict["problems"] for verdict in answer["verdicts"]]
        path = tmp_path.with_name(f"{tmp_path.name}.jsonl")
        path.write_bytes(b'{"too":"' + b"z" * 300_000 + b'"}\n')
        done = run("record", path, "--home", tmp_path, "--max-line", 200_000)
        assert done.returncode == 1
    stored = [frame["event"] for frame in frames(tmp_path, "refused")]
    expected = [short, long, path.read_bytes()[:-1]]
    assert [each["problems"] for each in stored[:2]] == reasons
    assert stored[2]["problems"][0]["message"]
    for each, line in zip(stored, expected, strict=True):
        assert (each["size"], each["sha256"]) == (len(line), sha256(line).hexdigest())
        assert base64.b64decode(each["line"]) == line[: 64 << 10]
    path.unlink()


@pytest.mark.promise(
    "These files hold the last 32 MiB of refused lines",
)
@pytest.mark.parametrize("size", [25, 125])
def test_the_last_32_mib_of_refused_lines_are_stored(tmp_path, size):
    """Of each line about 90,000 bytes are stored: 500 of them are 45 MB."""
    with Serving(tmp_path, "--durability", "os") as server:
        for first in range(0, 500, size):
            lines = [b'{"n":%d,"x":"' % (first + n) + b"x" * 65_536 for n in range(size)]
            assert server.post(lines).json()["refused"] == size
    stored = sum(path.stat().st_size for path in (tmp_path / "refused").glob("*.jsonl"))
    assert 28 << 20 < stored < 38 << 20
    numbers = [
        int(base64.b64decode(frame["event"]["line"])[5:].split(b",")[0])
        for frame in frames(tmp_path, "refused")
    ]
    assert numbers == list(range(numbers[0], 500)), "the oldest are dropped"
