"""What an emitter takes for an acknowledgement: the table that the TypeScript tests read, too."""

import importlib.util
import json
import re
import socket
import threading
from pathlib import Path

import pytest

CONTRACTS = Path(__file__).parents[2] / "contracts"
TABLE = json.loads((CONTRACTS / "vectors/acknowledgements.json").read_text())
LINES = [line.encode() for line in TABLE["lines"]]
PROTOCOL = [["Tracklog-Protocol", "1"]]


def load(name):
    spec = importlib.util.spec_from_file_location(f"{name}_of_answers", CONTRACTS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


native = load("tracklog_emit")


class Scripted:
    """Gives the answers of a vector, byte by byte as they stand there, then acknowledges all."""

    def __init__(self, answers):
        self.answers, self.requests = list(answers), []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()

    def _serve(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            with client, client.makefile("rb") as reader:
                while self._answer(client, reader):
                    pass

    def _answer(self, client, reader):
        head = {}
        if not reader.readline():
            return False
        while line := reader.readline().strip():
            name, _, value = line.decode().partition(": ")
            head[name.lower()] = value
        lines = reader.read(int(head["content-length"])).splitlines()
        self.requests.append((head["idempotency-key"], lines))
        if self.answers:
            answer = self.answers.pop(0)
        else:
            counts = f'{{"accepted":{len(lines)},"duplicate":0,"refused":0}}'
            answer = {"status": 200, "headers": PROTOCOL, "body": counts}
        framing = answer.get("framing", "length")
        client.sendall(written(answer, framing))
        return framing in ("length", "chunked")


def written(answer, framing):
    """The bytes of an answer; one that is short ends before it says that it does."""
    body = answer["body"].encode()
    headers = [*answer["headers"]]
    if framing in ("length", "short"):
        headers.append(["Content-Length", str(len(body) + (framing == "short"))])
    elif "chunked" in framing:
        headers.append(["Transfer-Encoding", "chunked"])
        end = b"" if framing == "short chunked" else b"0\r\n\r\n"
        body = b"%x\r\n%b\r\n%b" % (len(body), body, end)
    else:
        headers.append(["Connection", "close"])
    lines = [f"HTTP/1.1 {answer['status']} Said", *(f"{name}: {is_}" for name, is_ in headers)]
    return "".join(f"{line}\r\n" for line in lines).encode() + b"\r\n" + body


def left_behind(sink):
    """The lines of a program that is gone: one batch, however slow the machine is."""
    folder = Path(sink.folder)
    folder.mkdir(parents=True)
    text = b"".join(b"tracklog " + line + b"\n" for line in LINES)
    (folder / "1.spool").write_bytes(b"%020d\n" % 21 + text)


@pytest.mark.parametrize("vector", TABLE["vectors"], ids=lambda vector: vector["name"])
def test_only_an_acknowledgement_of_the_collector_itself_takes_a_batch_out_of_the_spool(
    vector, tmp_path, capfd
):
    with Scripted(vector["answers"]) as server:
        sink = native.HttpSink(server.url, spool=tmp_path, environ={})
        left_behind(sink)
        assert sink.flush(60)
        requests = server.requests[:]
        sink.write(b'{"n":4}\n', "tracklog")
        assert sink.flush(60)
        sink.close()
        assert server.requests[len(requests) :] == [(server.requests[-1][0], [b'{"n":4}'])]
    key = requests[0][0]
    assert [each.removeprefix(key) for each, _ in requests] == vector["requests"]
    for sent, lines in requests:
        parts = {".0": LINES[:1], ".1": LINES[1:]}
        assert lines == parts.get(sent.removeprefix(key), LINES)
    aside = Path(sink.folder) / "refused.jsonl"
    put = [json.loads(line) for line in aside.read_text().splitlines()] if aside.exists() else []
    assert [json.loads(each["line"])["n"] for each in put] == vector["aside"]
    assert (sink.set_aside, sink.lost) == (len(put), 0)
    assert [path.name for path in Path(sink.folder).iterdir()] == ["refused.jsonl"] * bool(put)
    warnings = capfd.readouterr().err.splitlines()
    assert len(warnings) <= 2
    assert all(line.startswith("tracklog: ") for line in warnings)
    assert not any(re.search(r"\(\)|: *(;|$)", line) for line in warnings), "a reason is given"


@pytest.mark.parametrize("vector", TABLE["checkpoints"], ids=lambda vector: vector["name"])
def test_an_emitter_complains_about_a_journal_that_was_cut_or_rewritten(vector, tmp_path, capfd):
    counts = {"accepted": 1, "duplicate": 0, "refused": 0}
    answers = [
        {"status": 200, "headers": PROTOCOL, "body": json.dumps({**counts, "checkpoint": seen})}
        for seen in vector["seen"]
    ]
    with Scripted(answers) as server:
        sink = native.HttpSink(server.url, spool=tmp_path, environ={})
        for line in answers:
            sink.write(b'{"n":1}\n', "tracklog")
            assert sink.flush(60), line
        sink.close()
    warnings = capfd.readouterr().err
    assert ("was rewritten or cut" in warnings) == vector["warns"]
