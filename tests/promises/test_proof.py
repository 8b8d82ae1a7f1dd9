"""The section "Proof": damage, cut ends, exported runs, erasure, pruning, recovery, old homes."""

import base64
import shutil
import subprocess
import sys
from hashlib import sha256
from itertools import islice
from pathlib import Path

import orjson
import pytest

from promises.command import NDJSON, Serving, lines_of, run
from support.collecting import start, tool
from support.forking import tracklog
from support.sessions import SESSION, claude

CONTRACTS = Path(__file__).parents[2] / "contracts"
FORMAT_1 = Path(__file__).parents[1] / "samples" / "homes" / "format-1"
LINES = [tool("a" if n % 2 else "b", step=n) for n in range(6)]


def script(*arguments: object) -> subprocess.CompletedProcess:
    """The vendorable verifier, with nothing but the standard library."""
    words = [sys.executable, "-I", "-S", CONTRACTS / "tracklog_verify.py", *arguments]
    return subprocess.run(list(map(str, words)), capture_output=True, check=False)


def segment(home: Path) -> Path:
    return home / "journal" / f"{1:020d}.jsonl"


def proven(home: Path, *arguments: object) -> dict:
    """What `verify` reports; its exit code and the vendorable verifier agree."""
    done = tracklog(home, "verify", "--json", *arguments)
    report = orjson.loads(done.stdout)
    assert done.returncode == script(home, *arguments).returncode == (0 if report["ok"] else 1)
    return report


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A home with the records 1, 2 to 5 and 6 in three groups."""
    home = tmp_path_factory.mktemp("home")
    with Serving(home, "--durability", "os") as server:
        for batch in (LINES[:1], LINES[1:5], LINES[5:]):
            server.post(batch)
    return home


@pytest.fixture
def home(recorded, tmp_path):
    return Path(shutil.copytree(recorded, tmp_path / "home"))


def damage(home: Path, number: int) -> bytes:
    """Changes one letter of a record, and returns the file as it is then."""
    lines = segment(home).read_bytes().split(b"\n")
    lines[number - 1] = lines[number - 1].replace(b'"Read"', b'"Reap"')
    segment(home).write_bytes(b"\n".join(lines))
    return segment(home).read_bytes()


@pytest.mark.promise("Each record is hashed, each commit group has a Merkle root")
def test_the_head_is_computed_from_the_records_alone(home):
    """As docs/reference/journal-format.md says."""
    leaves = [sha256(frame).digest() for frame in segment(home).read_bytes().split(b"\n")[:-1]]
    chain = bytes(32)
    for start_, end in ((0, 1), (1, 5), (5, 6)):
        group = leaves[start_:end]
        root = group[0] if len(group) == 1 else sha256(b"\x01" + b"".join(group)).digest()
        chain = sha256(b"\x02" + chain + end.to_bytes(8, "big") + root).digest()
    assert proven(home)["head"] == f"6:{chain.hex()}"


@pytest.mark.promise(
    "`tracklog verify` names the first record that was changed since it was recorded"
)
@pytest.mark.parametrize("number", [1, 3, 6])
def test_a_changed_record_is_named(home, number):
    damage(home, number)
    done = run("verify", "--home", home)
    assert (done.returncode, f"record {number}: ".encode() in done.stdout) == (1, True)
    checked = script(home)
    assert (checked.returncode, f"record {number}".encode() in checked.stdout) == (1, True)


@pytest.mark.promise(
    "`tracklog verify` names the first record that was changed since it was recorded"
)
@pytest.mark.parametrize("kind", ["removed", "swapped", "added", "two changed"])
def test_the_first_bad_record_is_named(home, kind):
    lines = segment(home).read_bytes().split(b"\n")
    if kind == "removed":
        del lines[2]
    elif kind == "swapped":
        lines[2], lines[3] = lines[3], lines[2]
    elif kind == "added":
        lines.insert(2, lines[2])
    else:
        lines[2], lines[4] = (lines[n].replace(b"Read", b"Reap") for n in (2, 4))
    segment(home).write_bytes(b"\n".join(lines))
    report = proven(home)
    assert not report["ok"]
    first = report["faults"][0]["seq"]
    assert first == (4 if kind == "added" else 3), report


@pytest.mark.promise("A damaged record stays in its place, and its number is never given")
@pytest.mark.promise(
    "Commands that write, such as `record` and `import`, first verify a journal",
)
@pytest.mark.promise("The warning names `tracklog doctor`")
def test_damage_is_reported_and_never_renumbered(home, tmp_path):
    damaged = damage(home, 6)  # the last one, which a crash could have left
    done = run("record", "--home", home, "--json", input=tool("a", step=9) + b"\n")
    assert (done.returncode, orjson.loads(done.stdout)["seq"]) == (0, 7)
    assert b"warning: the journal is damaged: record 6: " in done.stderr
    assert b"`tracklog doctor` shows what to do" in done.stderr
    assert segment(home).read_bytes().startswith(damaged)
    path = tmp_path / f"{SESSION}.jsonl"
    path.write_bytes(b"".join(orjson.dumps(each) + b"\n" for each in islice(claude(), 2)))
    done = run("import", path, "--home", home)
    assert b"warning: the journal is damaged: record 6: " in done.stderr
    done = run("doctor", "--home", home, "--json")
    checks = {each["name"]: each for each in map(orjson.loads, done.stdout.splitlines())}
    assert (done.returncode, checks["chain"]["state"]) == (1, "error")
    assert "record 6" in checks["chain"]["message"]
    assert "backup" in checks["chain"]["remedy"]
    assert not list((home / "quarantine").iterdir())
    assert [fault["seq"] for fault in proven(home)["faults"]] == [6]


@pytest.mark.promise("`exec` does this when its command has ended")
@pytest.mark.parametrize("code", [0, 3])
def test_exec_warns_of_damage_when_its_command_has_ended(home, code):
    words = ("exec", "--home", home, "--", "/bin/sh", "-c", f"echo fine; exit {code}")
    done = run(*words)
    assert (done.returncode, done.stdout, done.stderr) == (code, b"fine\n", b"")
    damage(home, 6)
    done = run(*words)
    assert (done.returncode, done.stdout) == (code, b"fine\n")
    assert done.stderr.startswith(b"warning: the journal is damaged: record 6: ")
    assert b"`tracklog doctor` shows what to do" in done.stderr


@pytest.mark.promise(
    "Commands that write, such as `record` and `import`, first verify a journal",
)
def test_a_journal_of_more_than_16_mib_is_not_verified_by_commands_that_write(tmp_path):
    big = [tool("a", step=n, output="x" * (6 << 20)) for n in range(3)]
    with Serving(tmp_path, "--durability", "os") as server:
        server.post(big)
    damage(tmp_path, 1)
    done = run("record", "--home", tmp_path, input=tool("a") + b"\n")
    assert (done.returncode, b"damaged" in done.stderr) == (0, False)
    assert run("verify", "--home", tmp_path).returncode == 1


@pytest.mark.promise(
    "A chain cannot show that its own end was cut off",
    "So store the head that `verify` prints",
)
def test_a_cut_end_is_found_by_an_anchor(home):
    anchor = proven(home)["head"]
    for path in (segment(home), segment(home).with_suffix(".chain")):
        path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    report = proven(home)
    assert (report["ok"], report["records"]) == (True, 5)
    report = proven(home, "--anchor", anchor)
    assert not report["ok"]


@pytest.mark.promise(
    "A chain cannot show that its own end was cut off",
    "So store the head that `verify` prints",
)
def test_an_anchor_holds_while_the_journal_grows(home):
    anchor = proven(home)["head"]
    assert run("record", "--home", home, input=LINES[0] + b"\n").returncode == 0
    assert proven(home, "--anchor", anchor)["records"] == 7


@pytest.mark.promise(
    "Anyone who can write to the folder can rewrite all of it",
    "Only an anchor or a checkpoint that is stored elsewhere shows that",
)
def test_a_rewritten_journal_is_found_by_an_anchor_alone(home, tmp_path):
    anchor = proven(home)["head"]
    other = tmp_path / "other"
    lines = [line.replace(b"Read", b"Reap") for line in LINES]
    assert run("record", "--home", other, input=b"\n".join(lines)).returncode == 0
    assert proven(other)["ok"]
    assert not proven(other, "--anchor", anchor)["ok"]


# An exported run


def export(home: Path, name: str, folder: Path) -> tuple[Path, Path]:
    lines, proof = folder / "run.jsonl", folder / "proof.json"
    done = run("events", name, "--raw", "--proof", proof, "--home", home)
    lines.write_bytes(done.stdout)
    return lines, proof


@pytest.mark.promise("An exported run has a proof (`tracklog events RUN --raw --proof FILE`)")
def test_an_exported_run_is_proven_without_tracklog(home, tmp_path):
    anchor = proven(home)["head"]
    lines, proof = export(home, "a", tmp_path)
    stored = lines.read_bytes()
    assert stored.split(b"\n")[:-1] == LINES[1::2]
    assert script(lines, proof, "--anchor", anchor).returncode == 0
    first, second, third = stored.splitlines(keepends=True)
    changes = {
        "changed": stored.replace(b"Read", b"Reap", 1),
        "swapped": second + first + third,
        "missing": first + third,
        "added": stored + third,
    }
    for kind, changed in changes.items():
        lines.write_bytes(changed)
        assert (kind, script(lines, proof).returncode) == (kind, 1)
    lines.write_bytes(stored)
    assert script(lines, proof, "--anchor", f"6:{'0' * 64}").returncode == 1


@pytest.mark.promise(
    "It does not show that the export is complete",
)
def test_a_line_can_be_left_out_of_an_export_and_not_of_the_journal(home, tmp_path):
    lines, proof = export(home, "a", tmp_path)
    body = orjson.loads(proof.read_bytes())
    del body["records"][1]
    proof.write_bytes(orjson.dumps(body))
    kept = lines.read_bytes().splitlines(keepends=True)
    lines.write_bytes(kept[0] + kept[2])
    assert script(lines, proof).returncode == 0
    frames = segment(home).read_bytes().splitlines(keepends=True)
    segment(home).write_bytes(b"".join(frames[:3] + frames[4:]))
    assert not proven(home)["ok"]


@pytest.mark.promise("A checkpoint is signed, and `tracklog verify --checkpoint FILE` finds each")
@pytest.mark.promise("If a checkpoint was made before the export, the proof also shows")
def test_a_checkpoint_finds_a_rewritten_journal_and_a_line_left_out(home, tmp_path):
    noted = tmp_path / "checkpoint"
    made = orjson.loads(tracklog(home, "checkpoint", "--out", noted, "--json").stdout)
    assert made["records"] == 7  # the last one notes who signed it
    key = ("--checkpoint", noted, "--key", made["key"])
    lines, proof = export(home, "a", tmp_path)
    assert script(lines, proof, *key).stdout.endswith(b"complete up to record 7\n")
    body = orjson.loads(proof.read_bytes())
    del body["records"][1]
    proof.write_bytes(orjson.dumps(body))
    kept = lines.read_bytes().splitlines(keepends=True)
    lines.write_bytes(kept[0] + kept[2])
    assert script(lines, proof, *key).returncode == 1
    del body["complete"]
    proof.write_bytes(orjson.dumps(body))
    assert script(lines, proof, *key).returncode == 1
    assert proven(home, *key)["checkpoint"]["extended"]
    forged = tmp_path / "forged"
    with Serving(forged, "--durability", "os") as server:
        for batch in (LINES[:1], [LINES[2], LINES[1], *LINES[3:5]], LINES[5:]):
            server.post(batch)
    assert proven(forged)["ok"]
    assert proven(forged, *key)["checkpoint"]["extended"] is False


@pytest.mark.promise(
    "`tracklog verify` names the first record that was changed since it was recorded",
    "The verifier names erased records; that an operator erased them is shown by the journal only",
)
def test_a_tombstone_says_that_it_is_one_and_holds_no_event(home, tmp_path):
    assert (
        run("erase", "a", 2, "--home", home, "--reason", "r", "--by", "ann", "--yes").returncode
        == 0
    )
    noted = tmp_path / "checkpoint"
    key = orjson.loads(tracklog(home, "checkpoint", "--out", noted, "--json").stdout)["key"]
    lines, proof = export(home, "a", tmp_path)
    shown = b"without the content of erased records: 2\n"
    done = script(home)
    assert (done.returncode, done.stdout.endswith(shown)) == (0, True), done.stdout
    exported = (lines, proof, "--checkpoint", noted, "--key", key)
    done = script(*exported)  # that it was erased is only a claim of the export
    assert (done.returncode, b"complete up to record" in done.stdout) == (3, True), done.stdout
    assert shown in done.stdout
    head = done.stdout.split()[-1].decode()
    assert run("verify", "--home", home, "--anchor", head).returncode == 0
    assert script(*exported, "--erased", "2,9").returncode == 0
    assert script(*exported, "--erased", "9").returncode == 3
    frames = segment(home).read_bytes()
    forged = frames.replace(b'"event":null', b'"event":{"forged":1}', 1)
    assert forged != frames
    segment(home).write_bytes(forged)
    assert not proven(home)["ok"]
    assert script(home).returncode == 1


# Erasure and pruning

WORD = "zwfqj-xkvbp-hunter2-0123456789"


def holders(home: Path) -> list[str]:
    """The files in which the word stands, as it is or in base64."""
    spellings = [WORD.encode()]
    for shift in range(3):
        text = base64.b64encode(b"\0" * shift + WORD.encode())
        spellings.append(text[4:-4])
    return [
        str(path.relative_to(home))
        for path in sorted(home.rglob("*"))
        if path.is_file() and any(each in path.read_bytes() for each in spellings)
    ]


def native(name: str, **data: object) -> bytes:
    body = {"id": name, "run": "n", "at": "2026-05-05T09:00:00Z", "fact": "Said", "role": "user"}
    body |= {"blocks": [{"type": "text", "text": f"hello {name} {data}"}]}
    return orjson.dumps({**body, "origin": {"writer": "test", "fidelity": "observed"}})


@pytest.mark.promise(
    "`tracklog erase` removes the bytes of one record from every file",
    "It leaves a tombstone with the hash",
)
@pytest.mark.promise("An erased event that has an identity is not recorded again")
def test_an_erased_record_is_nowhere_and_the_rest_still_verifies(tmp_path):
    home, secret = tmp_path / "home", native("2", word=WORD)
    with Serving(home, "--durability", "os") as server:
        server.post([native("1"), secret, native("3")], "tracklog")
        assert server.post([secret], "fishbowl").json()["refused"] == 1
        assert server.get("/api/search?q=hunter2").json()
    torn = b'{"seq":4,"received":"2026-05-05T09:00:00.000Z","dialect":"tracklog","run":"n",'
    with segment(home).open("ab") as file:
        file.write(torn + b'"group":2,"event":' + secret + b"}\n")
    assert run("record", "--home", home, input=native("4") + b"\n").returncode == 0
    before = holders(home)
    assert {Path(each).parts[0] for each in before} >= {"journal", "refused", "quarantine"}
    anchor = proven(home)["head"]
    words = ("--reason", "a password", "--by", "ann", "--yes", "--json", "--home", home)
    done = run("erase", "n", 2, *words)
    assert done.returncode == 0, done.stderr
    assert holders(home) == []
    report = proven(home, "--anchor", anchor)
    assert (report["ok"], report["erased"]) == (True, [2])
    frames = segment(home).read_bytes().splitlines()
    stone = orjson.loads(frames[1])
    assert stone["event"] is None
    assert stone["erased"]["reason"] == "a password"
    assert stone["erased"]["by"].startswith("ann (")
    assert b'"erasure"' in lines_of(home, "n")[-1]
    lines, proof = export(home, "n", tmp_path)
    assert script(lines, proof).returncode == 3, "a run with a tombstone has a proof, too"
    with Serving(home, "--durability", "os") as server:
        for each in (secret, secret.replace(b"hello", b"hullo")):
            answer = server.post([each], "tracklog")
            assert answer.json()["accepted"] == 0
            answer = server.http.post("/api/events", content=each, headers=NDJSON)
            assert answer.json()["accepted"] == 0
    assert run("record", "--home", home, input=secret + b"\n").stderr.startswith(b"0 accepted")
    assert [each for each in holders(home) if not each.startswith("refused")] == []


@pytest.mark.promise(
    "`tracklog erase` removes the bytes of one record from every file",
    "It leaves a tombstone with the hash",
)
def test_several_records_are_erased_under_a_collector_that_goes_on_to_answer(tmp_path):
    of_run = (
        "events?run=n",
        "runs/tracklog/n/proof",
        "runs/tracklog/n/story",
        "export/html/tracklog/n",
    )
    addresses = [f"/api/{each}" for each in of_run]
    with Serving(tmp_path, "--durability", "os") as server:
        server.post([native(str(number)) for number in range(1, 5)], "tracklog")
        for number in (1, 2, 3):
            words = ("--reason", "r", "--yes", "--home", tmp_path)
            done = run("erase", "n", number, *words)
            assert (done.returncode, done.stderr.count(b"\n")) == (0, 0), done.stderr[:500]
            assert [server.get(each).status_code for each in addresses] == [200] * 4
            assert len(server.get("/api/events?run=n").json()["events"]) == 4 + number
        for path in (tmp_path / "journal").glob("*.runs"):
            path.unlink()  # derived, and made again
        assert [server.get(each).status_code for each in addresses] == [200] * 4
    notes = [orjson.loads(line) for line in lines_of(tmp_path, "n") if line and b"erasure" in line]
    assert len(notes) == 3
    assert proven(tmp_path)["erased"] == [1, 2, 3]


@pytest.mark.promise(
    "`tracklog prune` deletes the oldest segments",
    "A record says who pruned; without such a record, `verify` reports a fault",
)
def test_what_is_left_by_pruning_verifies(home):
    words = ("--older-than", "0d", "--open-too", "--json", "--home", home)
    promised = orjson.loads(run("prune", "--dry-run", *words).stdout)
    assert proven(home)["records"] == 6
    done = orjson.loads(run("prune", *words).stdout)
    assert (
        (promised["through"], promised["records"]) == (done["through"], done["records"]) == (6, 6)
    )
    assert not segment(home).exists()
    assert run("record", "--home", home, input=start("a") + b"\n").returncode == 0
    report = proven(home)
    assert (report["ok"], report["first"]) == (True, 7)
    with Serving(home) as server:
        events = server.get("/api/events").json()["events"]
    assert [each["seq"] for each in events] == [7, 8, 9, 10]
    assert any("were pruned by" in each for each in report["notes"])
    for each in events:  # without its notes
        words = ("--reason", "x", "--yes", "--home", home)
        assert run("erase", each["run"], each["seq"], *words).returncode == 0
    shown = run("verify", "--home", home)
    assert (shown.returncode, b"no record says who pruned" in shown.stdout) == (1, True)


@pytest.mark.promise(
    "Before a checkpoint is signed, the records that were signed before are compared with the journal"
)
def test_a_journal_that_was_rewritten_is_not_signed(home, tmp_path):
    assert tracklog(home, "checkpoint", "--out", tmp_path / "noted").returncode == 0
    before = (tmp_path / "noted").read_bytes()
    frames = segment(home).read_bytes().splitlines(keepends=True)
    frames[1] = frames[1].replace(b'"run":"a"', b'"run":"b"')
    segment(home).write_bytes(b"".join(frames))
    done = tracklog(home, "checkpoint", "--out", tmp_path / "noted")
    assert (done.returncode, b"record 2 is not the one" in done.stderr) == (1, True), done.stderr
    assert (tmp_path / "noted").read_bytes() == before


# Damage of the chain


def flip(path: Path, at: int, bit: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= bit
    path.write_bytes(content)


DAMAGE = {
    "a line that cannot be read": (-4, 0x40),
    "a hash that is another one": (-5, 0x01),
    "a line end that is none": (-1, 0x01),
    "a name that is another one": (-75, 0x02),
}


@pytest.mark.promise("A damaged chain stays as it is, too")
@pytest.mark.parametrize("damaged", DAMAGE)
@pytest.mark.parametrize("record", [False, True])
def test_damage_of_the_last_chain_line_is_reported_for_good(home, damaged, record):
    chain = segment(home).with_suffix(".chain")
    if record:
        damage(home, 6)
        assert proven(home)["faults"][0]["seq"] == 6
    flip(chain, *DAMAGE[damaged])
    before = proven(home)
    assert before["faults"][0]["seq"] == 6
    kept, frames = chain.read_bytes(), segment(home).read_bytes()
    for number in (7, 8):
        done = run("record", "--json", "--home", home, input=LINES[0] + b"\n")
        assert orjson.loads(done.stdout)["seq"] == number
        assert b"warning: the journal is damaged: record 6" in done.stderr
        assert b"chained-late" not in done.stderr
    assert chain.read_bytes().startswith(kept)
    assert segment(home).read_bytes().startswith(frames)
    assert proven(home)["faults"][0]["seq"] == 6
    done = run("verify", "--home", home)
    assert (b"NOT intact" in done.stdout, b": proven" in done.stdout) == (True, False)


@pytest.mark.promise(
    "`tracklog verify` names the first record that was changed since it was recorded"
)
def test_a_record_is_not_called_changed_where_only_its_entry_in_the_chain_was(home):
    chain = segment(home).with_suffix(".chain")
    content = chain.read_bytes()
    at = content.rfind(b'"leaves":"') + 10
    other = b"1" if content[at : at + 1] == b"0" else b"0"  # a digit, so the line can be read
    chain.write_bytes(content[:at] + other + content[at + 1 :])
    [fault] = proven(home)["faults"]
    assert fault["why"] == "its entry in the chain was changed"
    chain.write_bytes(content)
    assert proven(home)["faults"] == []


@pytest.mark.promise("A damaged chain stays as it is, too; only a last line")
@pytest.mark.promise("Two kinds of records are not called proven: those that are not chained yet")
@pytest.mark.parametrize("left", ["nothing", "half", "all but its line end"])
def test_the_last_chain_line_is_written_again_after_a_crash(home, left):
    chain = segment(home).with_suffix(".chain")
    whole, head = chain.read_bytes(), proven(home)["head"]
    *before, last = whole.splitlines(keepends=True)
    end = {"nothing": b"", "half": last[: len(last) // 2], "all but its line end": last[:-1]}[left]
    chain.write_bytes(b"".join(before) + end)
    report = orjson.loads(run("verify", "--json", "--home", home).stdout)
    assert (report["ok"], report["unproven"]) == (True, [6])
    done = run("verify", "--home", home)
    assert b"intact, but not all proven" in done.stdout
    assert b": proven" not in done.stdout
    assert run("record", "--home", home, input=LINES[0] + b"\n").returncode == 0
    assert chain.read_bytes().startswith(b"".join(before))
    assert chain.read_bytes().count(b"\n") == whole.count(b"\n") + 1
    report = proven(home, "--anchor", head)
    assert (report["ok"], report["unproven"], report["records"]) == (True, [], 7)


@pytest.mark.promise("A damaged record stays in its place, and its number")
@pytest.mark.promise(
    "Commands that write, such as `record` and `import`, first verify a journal",
)
def test_a_record_whose_chain_line_is_damaged_too_keeps_its_number(home):
    lines = segment(home).read_bytes().split(b"\n")
    lines[5] = b"x" + lines[5][1:]
    segment(home).write_bytes(b"\n".join(lines))
    flip(segment(home).with_suffix(".chain"), *DAMAGE["a line that cannot be read"])
    done = run("record", "--json", "--home", home, input=LINES[0] + b"\n")
    assert orjson.loads(done.stdout)["seq"] == 7
    assert b"chain-damaged" in done.stderr
    assert segment(home).read_bytes().startswith(b"\n".join(lines))
    assert not list((home / "quarantine").iterdir())
    assert proven(home)["faults"][0]["seq"] == 6


@pytest.mark.promise(
    "Commands that write, such as `record` and `import`, first verify a journal",
)
@pytest.mark.parametrize("left", [0, 1, -2])
def test_a_segment_that_was_cut_is_warned_of(tmp_path, left):
    """Of records that were on disk; others are what a loss of power takes.

    A missing line end at the end is mended.
    """
    home = tmp_path
    assert run("record", "--home", home, input=b"\n".join(LINES) + b"\n").returncode == 0
    segment(home).write_bytes(segment(home).read_bytes()[:left])
    for number in (7, 8):
        done = run("record", "--json", "--home", home, input=LINES[0] + b"\n")
        assert (done.returncode, orjson.loads(done.stdout)["seq"]) == (0, number)
        first = 6 if left < 0 else 1
        assert b"warning: the journal is damaged: record %d" % first in done.stderr
        assert b"tracklog doctor" in done.stderr
    for verb in ("serve", "host openwop serve"):
        with Serving(home, verb=verb) as server:
            server.get("/")
        assert any("the journal is damaged" in str(each) for each in server.logs)


def test_a_line_end_that_is_missing_at_the_end_is_repaired(tmp_path):
    assert run("record", "--home", tmp_path, input=b"\n".join(LINES) + b"\n").returncode == 0
    segment(tmp_path).write_bytes(segment(tmp_path).read_bytes()[:-1])
    done = run("record", "--json", "--home", tmp_path, input=LINES[0] + b"\n")
    assert (orjson.loads(done.stdout)["seq"], done.stderr) == (7, b"")
    assert proven(tmp_path)["ok"]


CHAINS_LOST = {
    "nothing": lambda _: b"",
    "half a line": lambda chain: chain[:50],
    "NUL bytes": lambda chain: bytes(len(chain)),
    "NUL bytes at the beginning": lambda chain: bytes(20) + chain[20:],
    "one line without an end": lambda chain: b"x" * len(chain),
    "lines that begin with a NUL byte": lambda chain: b"\0\n" + chain,
}


@pytest.mark.promise("Two kinds of records are not called proven")
@pytest.mark.parametrize("left", CHAINS_LOST)
def test_one_verdict_is_given_when_the_chain_was_lost(home, left):
    """Whatever stands there in its place; its first line is on disk before any record is."""
    chain = segment(home).with_suffix(".chain")
    chain.write_bytes(CHAINS_LOST[left](chain.read_bytes()))
    assert b": proven" not in run("verify", "--home", home).stdout
    assert run("record", "--home", home, input=LINES[0] + b"\n").returncode == 0
    for _ in range(2):
        done = run("verify", "--home", home)
        assert done.returncode == 0, done.stdout
        assert b"cannot be proven any more" in done.stdout
        assert b"7 records: intact, but not all proven" in done.stdout
        assert b": proven" not in done.stdout
    assert b"intact, but not all proven" in run("doctor", "--home", home).stdout
    assert proven(home)["unproven"] == [1]
    assert run("doctor", "--accept", "--home", home).returncode == 0
    assert proven(home)["unproven"] == []


# Recovery, and homes of format 1


@pytest.mark.promise(
    "After a crash, recovery moves incomplete data",
    "`verify` and `doctor` report it until",
)
def test_what_recovery_moved_is_reported_until_it_is_accepted(home):
    with segment(home).open("ab") as file:
        file.write(b'{"seq":7,"received":"2026-05-05T09:00:00.000Z","dialect":"kahn-agent",')
    assert run("record", "--home", home, input=LINES[0] + b"\n").returncode == 0
    (piece,) = (home / "quarantine").iterdir()

    def reported() -> list[bool]:
        verified, checked = run("verify", "--home", home), run("doctor", "--home", home)
        assert (verified.returncode, checked.returncode) == (0, 0)
        return [b"quarantine/" + piece.name.encode() in verified.stdout,
                b"a file with incomplete data" in checked.stdout]  # fmt: skip  # a pair

    assert reported() == [True, True]
    done = run("doctor", "--accept", "--home", home)
    assert (done.returncode, piece.name.encode() in done.stderr) == (0, True)
    assert reported() == [False, False]
    assert piece.exists()
    assert piece.name.encode() in (home / "accepted").read_bytes()


@pytest.mark.promise("A home of format 1 can be read and verified as it is")
def test_a_home_of_format_1(tmp_path):
    home = tmp_path / "home"
    shutil.copytree(FORMAT_1, home)
    tail = home / "journal" / f"{9:020d}.jsonl"
    torn = tail.read_bytes()
    tail.write_bytes(b"")  # as the home was before the write that was cut short
    before = {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}
    lines = lines_of(home, "ci-1")
    assert len(lines) == 8
    assert proven(home)["records"] == 8
    same = {path: path.read_bytes() for path in before}
    assert same == before
    tail.write_bytes(torn)
    assert lines_of(home, "ci-1") == lines, "what has no chain is not read"
    done = run("record", "--home", home, input=tool("new") + b"\n")
    assert done.returncode == 0, done.stderr
    assert (home / "format").read_bytes() == b"2\n"
    assert lines_of(home, "ci-1")[:8] == lines
    report = proven(home)
    assert (report["ok"], report["records"]) == (True, 12)
    assert segment(home).read_bytes() == before[segment(home)]
