"""Witnesses: what one has seen cannot be rewritten, not even with the key of the journal."""

import contextlib
import random
import shutil
import subprocess
import threading
import time
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from subprocess import PIPE

import httpx
import pytest

from soak import rewrites
from support import tlog
from support.attacking import ALL, Witnessed, asked, grown, rewritten
from support.collecting import Collector, tool
from support.forking import Tracklog, tracklog
from support.waiting import eventually
from tracklog.collector.alerts.rules import parse
from tracklog.collector.alerts.tables import FIELDS, TABLES
from tracklog.collector.publishers import WitnessRefused, open_publisher, publish_all
from tracklog.home.home import Home
from tracklog.journal.checkpoints import tree
from tracklog.journal.checkpoints.checkpoint import KEY, Checkpoint, Checkpoints
from tracklog.journal.checkpoints.notes import Signer, read_note
from tracklog.journal.checkpoints.trees import FILE
from tracklog.journal.checkpoints.witness import Witness
from tracklog.journal.storages.memory import MemoryStorage
from tracklog.model.errors import BadCheckpoint, NotExtended

READY = Path(__file__).parents[2] / "src/tracklog/collector/alerts/ready.yaml"


def test_every_attack_with_the_stolen_key_is_found_after_a_witnessed_checkpoint(tmp_path):
    """96 attacks of every kind; `make soak` tries a thousand."""
    counts = rewrites.tried(12, random.Random(4), tmp_path)
    assert counts == {"rewrites": 96, "found": 96, "missed": 0, **dict.fromkeys(ALL, 12)}


def test_an_attack_that_a_witness_accepts_would_be_missed(tmp_path):
    """The attacks can tell: where nobody compares, they are not found."""
    journal = Witnessed(tmp_path, random.Random(5))
    journal.stated = journal.stated._replace(size=0, root=sha256().digest(), runs=None)
    assert not journal.finds("edit")
    journal.close()


@pytest.mark.parametrize(
    ("change", "status"),
    [
        (lambda old, proof, note: b"old -1\n\n" + note, 400),
        (lambda old, proof, note: b"old 01\n\n" + note, 400),
        (lambda old, proof, note: b"old 0\n" + note, 400),
        (lambda old, proof, note: b"old 0\n" + b"AAAA\n" * 2 + b"\n" + note, 400),
        (lambda old, proof, note: b"old 99\n\n" + note, 400),
        (lambda old, proof, note: b"old 0\n\n" + note.replace(b"a.example", b"b.example", 1), 404),
        (lambda old, proof, note: b"old 0\n\n" + note.replace(b"\n12\n", b"\n13\n"), 403),
        (lambda old, proof, note: b"old 7\n\n" + note, 409),
        (lambda old, proof, note: b"old 5\n\n" + note, 422),
        (lambda old, proof, note: b"", 400),
        (lambda old, proof, note: b"\xff" * 99, 400),
    ],
)
def test_a_witness_answers_as_its_protocol_says(change, status, tmp_path):
    storage = MemoryStorage()
    grown(storage, 5)
    with Checkpoints(storage, origin="a.example/j") as checkpoints, Witness(tmp_path) as witness:
        witness.trust(checkpoints.key, "ada")
        assert asked(witness, checkpoints.consistency, checkpoints.make()).status == 200
        grown(storage, 7, 6)
        note = checkpoints.make()
        answer = witness.add(change(5, [], str(note).encode()))
        assert answer.status == status, answer.body
        assert (answer.body, answer.type) == ("5\n", "text/x.tlog.size") or status != 409
        good = asked(witness, checkpoints.consistency, note)
        assert good.status == 200
        line = f"{note}{good.body}"
        assert tlog.opened(line, str(witness.key))[1] is not None
    storage.close()


def test_a_witness_accepts_no_second_key_of_a_journal_and_no_key_of_a_witness(tmp_path):
    with Witness(tmp_path, "w.example") as witness:
        witness.trust(Signer("j", 1, bytes(32)).verifier, "ada")
        with pytest.raises(BadCheckpoint, match="another key"):
            witness.trust(Signer("j", 1, bytes(31) + b"1").verifier, "ada")
        with pytest.raises(BadCheckpoint, match="key of a witness"):
            witness.trust(witness.key, "ada")
    with pytest.raises(BadCheckpoint, match="is that of"):
        Witness(tmp_path, "other")


class Accepting(BaseHTTPRequestHandler):
    """A server that stores what is put there."""

    def do_PUT(self):
        self.server.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(204 if "good" in self.path else 500)
        self.end_headers()

    def log_message(self, *arguments):
        pass


def test_a_checkpoint_is_published_to_files_git_and_http(tmp_path):
    storage = MemoryStorage()
    grown(storage, 5)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Accepting)
    server.bodies = []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    base = f"http://127.0.0.1:{server.server_port}"
    clone = tmp_path / "clone"
    git = ["git", "-C", clone, "-c", "user.name=t", "-c", "user.email=t@example.com"]
    subprocess.run(["git", "init", "-q", clone], check=True)
    for key, value in {"user.name": "t", "user.email": "t@example.com"}.items():
        subprocess.run([*git, "config", key, value], check=True)
    places = [
        str(tmp_path / "noted"),
        f"git:{clone}",
        f"{base}/good",
        f"{base}/bad",
        "git:/missing",
    ]
    with Checkpoints(storage) as checkpoints:
        publishers = {place: open_publisher(place) for place in places}
        for count in (1, 2):
            note, failures = publish_all(checkpoints, checkpoints.make(), publishers)
            assert len(failures) == 2
            assert (
                (tmp_path / "noted").read_text() == (clone / "checkpoint").read_text() == str(note)
            )
            log = subprocess.run([*git, "log", "--oneline"], check=True, capture_output=True)
            assert len(log.stdout.splitlines()) == count
            grown(storage, 2, 4 + 2 * count)
    server.shutdown()
    server.server_close()
    assert server.bodies.count(str(note).encode()) == 2
    storage.close()


def test_a_collector_is_witnessed_and_a_rewritten_journal_is_reported(tmp_path):
    home, folder = tmp_path / "home", tmp_path / "witness"
    tracklog(home, "record", given=b"".join(tool("a", step=n) + b"\n" for n in range(3)))
    key = tracklog(home, "checkpoint", "--out", tmp_path / "first").stdout.decode().split()[-1]
    assert tracklog(None, "witness", "trust", key, "--folder", folder).returncode == 0
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with Tracklog("witness", "serve", "--folder", folder, "--port", 0, **pipes) as process:
        url = process.stdout.readline().split()[-1]
        witness_key = process.stdout.readline().split()[-1]
        try:
            noted = tmp_path / "noted"
            options = ("--witness", url, "--publish", str(noted), "--checkpoint-every", "0.2")
            served = Collector(home, *options)
            sent = served.post([tool("a", step=n) for n in range(3, 9)])
            assert sent.status_code == 200
            assert eventually(lambda: noted.exists() and "\n10\n" in noted.read_text(), 60)
            assert eventually(
                lambda: "tracklog_checkpoint_records 10" in served.get("/metrics").text
            )
            assert served.get("/checkpoint").text == noted.read_text()
            badge = served.get("/api/runs/kahn/a/proof?check=true").json()["checkpoint"]
            assert (badge["records"], len(badge["witnesses"])) == (10, 1)
            assert witness_key.startswith(badge["witnesses"][0]["name"] + "+")
            known = Checkpoint.of(read_note((tmp_path / "first").read_bytes()).text)
            again = served.post([], headers={"Tracklog-Seen": "4"}).json()["checkpoint"]
            proof = [bytes.fromhex(each) for each in again.pop("proof")]
            assert again == {key: badge[key] for key in ("origin", "records", "root")}
            after = bytes.fromhex(badge["root"])
            assert tree.is_extension(4, 10, known.root, after, proof)
            page = "/api/runs/kahn/a/proof?check=true&seen="
            shown = served.get(f"{page}4").json()["checkpoint"]
            assert shown.pop("proof") == [each.hex() for each in proof]
            assert shown == badge
            for enough in (10, 11):  # nothing to prove
                assert served.get(f"{page}{enough}").json()["checkpoint"] == badge
            for odd in ("0", "10", "11", "-1", "x", "9" * 30):  # nothing to prove
                ack = served.post([], headers={"Tracklog-Seen": odd}).json()
                assert "proof" not in ack["checkpoint"]
            served.stop()
            arguments = ("--checkpoint", noted, "--key", key, "--key", witness_key)
            done = tracklog(home, "verify", *arguments)
            assert done.returncode == 0, done.stdout
            assert done.stdout.count(b"\nsigned by ") == 2
            shutil.rmtree(home / "journal")
            (home / FILE).unlink()
            tracklog(home, "record", given=b"".join(tool("b", step=n) + b"\n" for n in range(12)))
            assert tracklog(home, "verify").returncode == 0
            assert tracklog(home, "verify", *arguments).returncode == 1
            again = tracklog(home, "checkpoint", "--witness", url)
            assert again.returncode == 1
            assert b"refused the checkpoint" in again.stderr
            noted = tracklog(home, "export", "jsonl", "alerts").stdout
            assert noted.count(b"witness-refused") == 1
            served = Collector(home, *options)
            assert eventually(
                lambda: tracklog(home, "export", "jsonl", "alerts").stdout.count(b"refused") > 1
            )
            served.stop()
            (rule,) = [
                each for each in parse(READY.read_text(), FIELDS).rules if "refused" in each.when
            ]
            with Home(home) as opened:
                (row,) = TABLES["checkpoints"].rows(opened, rule, time.time())
            assert row.values["refused"] is True
            (alert, *_) = httpx.get(f"{url}/alerts").json()
            assert alert["why"].startswith("it does not prove")
            assert read_note(alert["given"].encode()).text.startswith("tracklog/")
            assert len(httpx.get(f"{url}/logs").json()) == 1
            assert httpx.get(f"{url}/key").text == f"{witness_key}\n"
            assert httpx.post(f"{url}/add-checkpoint", content=b"x" * 70_000).status_code == 413
        finally:
            process.terminate()
            process.communicate(timeout=30)
    status = tracklog(None, "witness", "status", "--folder", folder)
    assert status.returncode == 1
    assert b"10 records, signed at" in status.stdout


def test_two_journals_witness_each_other(tmp_path):
    names, keys, urls, witness_keys = ("a", "b"), {}, {}, {}
    for name in names:
        given = b"".join(tool(name, step=n) + b"\n" for n in range(4))
        assert tracklog(tmp_path / name, "record", given=given).returncode == 0
        made = tracklog(tmp_path / name, "checkpoint", "--out", tmp_path / "unused")
        keys[name] = made.stdout.decode().split()[-1]
    with contextlib.ExitStack() as stack:
        for name, other in zip(names, reversed(names), strict=True):
            folder = ("--folder", tmp_path / f"{name}-witness")
            assert tracklog(None, "witness", "trust", keys[other], *folder).returncode == 0
            process = Tracklog("witness", "serve", *folder, "--port", 0, stdout=PIPE, text=True)
            stack.enter_context(process)
            stack.callback(process.terminate)
            urls[name] = process.stdout.readline().split()[-1]
            witness_keys[name] = process.stdout.readline().split()[-1]
        for name, other in zip(names, reversed(names), strict=True):
            noted = tmp_path / f"{name}-noted"
            asked = tracklog(
                tmp_path / name, "checkpoint", "--witness", urls[other], "--out", noted
            )
            assert asked.returncode == 0, asked.stderr
            by = ("--key", keys[name], "--key", witness_keys[other])
            done = tracklog(tmp_path / name, "verify", "--checkpoint", noted, *by)
            assert (done.returncode, done.stdout.count(b"\nsigned by ")) == (0, 2)
            strange = tracklog(tmp_path / name, "checkpoint", "--witness", urls[name])
            assert strange.returncode == 2, strange.stderr  # its own witness does not know it
            assert b"is not witnessed here" in strange.stderr


def test_a_journal_that_was_rolled_back_is_refused(tmp_path):
    storage = MemoryStorage()
    grown(storage, 9)
    with Checkpoints(storage) as checkpoints, Witness(tmp_path / "w") as witness:
        witness.trust(checkpoints.key, "ada")
        assert asked(witness, checkpoints.consistency, checkpoints.make()).status == 200
        (tmp_path / KEY).write_bytes((storage.folder / KEY).read_bytes())
        back = rewritten(storage.store.read(0, 6))
        with Checkpoints(back, tmp_path / KEY) as older:
            assert asked(witness, older.consistency, older.make()).status == 409
        (back.folder / FILE).write_bytes((storage.folder / FILE).read_bytes())
        with Checkpoints(back, tmp_path / KEY) as older, pytest.raises(NotExtended):
            older.make()
        (alert,) = witness.alerts()
        assert alert.why == "it has 6 records, and 9 were signed before"
        back.close()
    storage.close()
    assert issubclass(WitnessRefused, Exception)
