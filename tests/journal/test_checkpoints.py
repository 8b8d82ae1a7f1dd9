"""Signed checkpoints: what was signed cannot be rewritten without being found."""

import base64
import json
import os
import random
import subprocess
import sys
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from support import tlog
from support.attacking import ATTACKS, RUNS, attacked, grown, renumbered, rewritten
from support.failing import HastyDisk
from support.offline import SCRIPT, load_script
from tracklog.home.home import Home
from tracklog.journal.checkpoints import notes, tree
from tracklog.journal.checkpoints.checkpoint import (
    KEY,
    Checkpoint,
    Checkpoints,
    compare,
    last_checkpoint,
    own_key,
    read_checkpoint,
)
from tracklog.journal.checkpoints.notes import Note, Signer, Verifier, read_note
from tracklog.journal.checkpoints.trees import FILE, Added, Trees
from tracklog.journal.frame import record, run_of, seq_of
from tracklog.journal.journal import JournalEntry
from tracklog.journal.proof import check_proof, prove, prove_all
from tracklog.journal.storages.file import FileStorage
from tracklog.journal.storages.memory import MemoryStorage
from tracklog.journal.stores.file import FileStore
from tracklog.model.errors import BadCheckpoint, BadPlug, NotExtended, NotProven
from tracklog.model.fact import Noted
from tracklog.testing import Clock

AT = "2026-05-05T09:00:00.000Z"


script = load_script()


def leaves_of(count):
    return [sha256(b"%d" % n).digest() for n in range(count)]


def tree_of(leaves):
    made = Trees()
    made.add(Added(at, ("kahn", f"r{at % 3}"), leaf) for at, leaf in enumerate(leaves, 1))
    return made


def stored(home, count=12):
    storage = FileStorage(str(home))
    storage.store.close()
    storage.store = FileStore(home, segment_size=400, disk=HastyDisk())
    grown(storage, count)
    return storage


@given(st.integers(1, 700), st.data())
@settings(max_examples=40, deadline=None)
@example(256, None)
@example(257, None)
def test_roots_and_proofs_are_those_of_rfc_6962(size, data):
    leaves = leaves_of(size)
    with tree_of(leaves) as made:
        old, index = (
            (data.draw(st.integers(1, size)), data.draw(st.integers(0, size - 1)))
            if data
            else (1, 0)
        )
        assert made.root() == tlog.mth(leaves)
        assert made.root(old) == tlog.mth(leaves[:old])
        path = tree.inclusion(made.records.node, index, size)
        assert path == tlog.path(index, leaves)
        tlog.check_inclusion(index, size, leaves[index], path, made.root())
        with pytest.raises(ValueError):
            tlog.check_inclusion(index, size, b"another", path, made.root())
        hash = tree.leaf_hash(leaves[index])
        assert tree.root_of(hash, index, size, path) == made.root()
        assert script.tree_climb(hash, index, size, path) == made.root()
        assert tree.root_of(hash, index, size, [*path, hash]) is None
        assert size == 1 or tree.root_of(hash, index, size, path[:-1]) != made.root()
        proof = tree.consistency(made.records.node, old, size)
        assert proof == ([] if old == size else tlog.proof(old, leaves))
        before, after = made.root(old), made.root()
        if old < size:
            tlog.check_consistency(old, size, before, after, proof)
            with pytest.raises(ValueError):
                tlog.check_consistency(old, size, bytes(32), after, proof)
        assert tree.is_extension(old, size, before, after, proof)
        assert not tree.is_extension(old, size, bytes(32), after, proof)
        assert not tree.is_extension(old, size, before, bytes(32), proof)
        assert not tree.is_extension(old, size, before, after, [*proof, hash])
        assert script.tree_root(map(tree.leaf_hash, leaves)) == made.root()


def test_a_tree_grows_to_the_same_root_however_it_is_fed(tmp_path):
    leaves = leaves_of(70_000)
    with Trees(tmp_path / FILE) as grown_tree:
        for start in range(0, len(leaves), 23_000):
            part = enumerate(leaves[start : start + 23_000], start + 1)
            with grown_tree.changing():
                grown_tree.add(Added(at, ("kahn", f"r{at % 700}"), leaf) for at, leaf in part)
    runs = {f"r{n}": [] for n in [*range(1, 700), 0]}
    for at, leaf in enumerate(leaves, 1):
        runs[f"r{at % 700}"].append((at, leaf))
    entries = [script.run_entry(("kahn", run), each, 70_000) for run, each in runs.items()]
    with Trees(tmp_path / FILE, readonly=True) as again:
        assert (again.size, again.runs) == (70_000, 700)
        assert again.root() == script.tree_root(map(tree.leaf_hash, leaves))
        assert again.runs_root() == tlog.mth(entries)


def test_what_fails_in_the_middle_leaves_the_trees_as_they_were(tmp_path):
    with Trees(tmp_path / FILE) as made:
        with made.changing():
            made.add([Added(1, ("kahn", "a"), bytes(32))])
        root, runs = made.root(), made.runs_root()

        def fail():
            with made.changing():
                made.add([Added(2, ("kahn", "b"), bytes(32))])
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            fail()
        assert (made.size, made.root(), made.runs_root()) == (1, root, runs)


def test_a_note_published_by_others_is_verified():
    """The example in the documentation of golang.org/x/mod/sumdb/note."""
    key = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
    text = (
        "If you think cryptography is the answer to your problem,\n"
        "then you don't know what your problem is.\n\n"
        "— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n"
    )
    note = read_note(text.encode())
    assert str(note) == text
    assert [each.name for each in notes.verified(note, [Verifier.of(key)])] == ["PeterNeumann"]
    assert script.unsigned(text, [key]) is None
    changed = text.replace("answer", "anwser")
    with pytest.raises(BadCheckpoint, match="wrong"):
        notes.verified(read_note(changed.encode()), [Verifier.of(key)])
    assert script.unsigned(changed, [key]) == key


@pytest.mark.parametrize("kind", [notes.ED25519, notes.COSIGNATURE])
def test_a_key_signs_what_an_independent_verifier_accepts(kind):
    signer = Signer("example.com/log", kind, bytes(range(32)))
    again = Signer.of(str(signer))
    text = Checkpoint("example.com/log", 3, bytes(32), 1, bytes(32)).text
    note = Note(text, (again.sign(text, 1_700_000_000),))
    lines, time = tlog.opened(str(note), str(signer.verifier))
    assert lines == text.splitlines()
    assert time == (1_700_000_000 if kind == notes.COSIGNATURE else None)
    assert script.unsigned(str(note), [str(signer.verifier)]) is None
    assert str(Verifier.of(str(signer.verifier))) == str(signer.verifier)


@pytest.mark.parametrize("url", ["file", "memory"])
def test_a_checkpoint_is_verified_by_an_implementation_of_the_format_text(url, tmp_path):
    storage = stored(tmp_path / "home") if url == "file" else MemoryStorage()
    if url == "memory":
        grown(storage)
    storage.store.erase(5, reason="a secret", by="me", at=AT)
    with Checkpoints(storage, origin="example.com/journal") as checkpoints:
        first = checkpoints.make()
        assert checkpoints.make() == first
        grown(storage, 7, 13)
        second = checkpoints.make()
        proof = checkpoints.consistency(12, 19)
        key = str(checkpoints.key)
    origin, size, root, (runs,) = tlog.body(tlog.opened(str(second), key)[0])
    frames = storage.store.read(0, 100)
    leaves = [script.leaf_of(frame, json.loads(frame), {}) for frame in frames]
    assert (origin, size, root) == ("example.com/journal", 19, tlog.mth(leaves))
    _, old, old_root, _ = tlog.body(tlog.opened(str(first), key)[0])
    assert (old, old_root) == (12, tlog.mth(leaves[:12]))
    assert proof == tlog.proof(12, leaves)
    tlog.check_consistency(12, 19, old_root, root, proof)
    states = {}
    for frame, leaf in zip(frames, leaves, strict=True):
        run = run_of(frame)
        count, digest = states.get(run, (0, bytes(32)))
        states[run] = count + 1, sha256(digest + seq_of(frame).to_bytes(8, "big") + leaf).digest()
    entries = [
        json.dumps([*run, count, digest.hex()], separators=(",", ":")).encode()
        for run, (count, digest) in states.items()
    ]
    assert runs.split() == ["runs", str(len(states)), base64.b64encode(tlog.mth(entries)).decode()]
    assert not compare(storage, Checkpoint.of(first.text)).faults
    assert not compare(storage, Checkpoint.of(second.text)).faults
    assert str(own_key(storage)) == key
    assert last_checkpoint(storage) == second
    storage.close()


def test_a_key_is_for_its_owner_alone_and_an_origin_stays(tmp_path):
    storage = stored(tmp_path / "home")
    with Checkpoints(storage, origin="a.example/b") as first:
        note = first.make()
    assert (tmp_path / "home" / KEY).stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "home" / FILE).stat().st_mode & 0o777 == 0o600
    with Checkpoints(storage) as again:
        assert again.make() == note
    with pytest.raises(BadCheckpoint, match=r"that of 'a[.]example/b'"):
        Checkpoints(storage, origin="other")
    with pytest.raises(BadCheckpoint, match="not signed by x"):
        read_checkpoint(note, [Signer("x", 1, bytes(32)).verifier])


def test_without_its_package_a_signature_names_the_line_that_installs_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.asymmetric", None)
    with pytest.raises(BadPlug) as raised:
        Checkpoints(stored(tmp_path / "home"))
    assert raised.value.hint == "pip install 'tracklog[sign]'"
    assert not (tmp_path / "home" / KEY).exists()


def test_what_is_pruned_stays_provable(tmp_path):
    storage = stored(tmp_path / "home", 20)
    with Checkpoints(storage) as checkpoints:
        note = checkpoints.make()
        pruned = storage.store.prune("2030", at=AT)
        assert pruned.through
        who = b'{"fact":"Noted","label":"prune","data":{"through":%d,"by":"ada"}}' % pruned.through
        note_of_it = JournalEntry("tracklog", "tracklog", "operations", who)
        grown(storage, 4, 21).append([note_of_it])
        compared = compare(storage, Checkpoint.of(note.text))
        assert not compared.faults
        assert compared.notes == (
            f"the runs were not compared: records up to {pruned.through} were pruned",
        )
        later = checkpoints.make()
        key = str(checkpoints.key)
    storage.store.close()
    assert Checkpoint.of(later.text).size == 25
    for index, each in enumerate((note, later)):
        path = tmp_path / f"checkpoint-{index}"
        path.write_text(str(each))
        arguments = [SCRIPT, tmp_path / "home", "--checkpoint", path, "--key", key]
        done = subprocess.run(
            [sys.executable, *arguments], check=False, capture_output=True, text=True
        )
        assert (done.returncode, done.stderr) == (0, ""), done.stdout


def test_what_was_pruned_before_the_first_checkpoint_is_not_in_the_way(tmp_path):
    storage = stored(tmp_path / "home", 20)
    assert storage.store.prune("2030", at=AT).through
    with Checkpoints(storage) as checkpoints:
        note = checkpoints.make()
    assert not compare(storage, Checkpoint.of(note.text)).faults


def test_only_what_is_on_disk_is_signed(tmp_path, monkeypatch):
    with Home(tmp_path / "home", durability="os") as home:
        home.record_fact(("tracklog", "r"), Noted(label="a"))
        sizes, sync = {}, os.fsync

        def noted(fd):
            sync(fd)
            sizes[Path(f"/proc/self/fd/{fd}").readlink().name] = os.fstat(fd).st_size

        monkeypatch.setattr(os, "fsync", noted)
        with Checkpoints(home.storage) as checkpoints:
            assert Checkpoint.of(checkpoints.make().text).size == 1
        (segment,) = (tmp_path / "home" / "journal").glob("*.jsonl")
        assert sizes[segment.name] == segment.stat().st_size > 0


def test_a_damaged_record_is_not_signed(tmp_path):
    storage = stored(tmp_path / "home", 20)
    path = min((tmp_path / "home" / "journal").glob("*.jsonl"))
    path.write_bytes(path.read_bytes().replace(b'{"n":2}', b'{"n":3}'))
    with Checkpoints(storage) as checkpoints, pytest.raises(NotProven, match="nothing after it"):
        checkpoints.make()
    assert last_checkpoint(storage) is None


@pytest.fixture(scope="module")
def signed():
    """A journal, the checkpoint of its first 30 records, and the key."""
    storage = MemoryStorage()
    grown(storage, 30)
    with Checkpoints(storage) as checkpoints:
        note = checkpoints.make()
        proofs = {run: prove_all(storage, ("kahn", run)) for run in RUNS}
        grown(storage, 10, 31)
        yield storage, note, checkpoints.key, proofs
    storage.close()


def test_every_attack_on_what_was_signed_is_found(signed):
    storage, note, key, _ = signed
    frames, stated = storage.store.read(0, 100), Checkpoint.of(note.text)
    chance, found, tried = random.Random(1), 0, 0
    for number in range(900):
        kind, size = ATTACKS[number % len(ATTACKS)], stated.size
        frames_now = frames
        while frames_now[:size] == frames[:size]:  # a copy behind what was signed is no attack
            frames_now = attacked(kind, frames, size, chance)
        forged = rewritten(frames_now)
        tried += 1
        found += bool(compare(forged, stated).faults)
        forged.close()
    assert found == tried == 900
    with closing(rewritten(frames)) as same:
        assert not compare(same, stated).faults
    assert read_checkpoint(note, [key])


def test_the_first_record_that_a_rollback_took_away_is_named(signed):
    storage, note, _, _ = signed
    with closing(rewritten(storage.store.read(0, 20))) as forged:
        (fault,) = compare(forged, Checkpoint.of(note.text)).faults
    assert str(fault) == "record 21: is gone: the checkpoint has 30 records, 20 is the last"


def test_every_omission_from_an_exported_run_is_found(signed):
    storage, note, key, proofs = signed
    chance, found = random.Random(2), 0
    for _ in range(100):
        run = chance.choice(RUNS)
        frames = [frame for frame in storage.store.read(0, 30) if run_of(frame)[1] == run]
        lines = [record(frame).line for frame in frames]
        proof = json.loads(json.dumps(proofs[run]))
        assert not check_proof(proof, lines, None, note, [key])
        assert script.check_proof(proof, lines, None, str(note), [str(key)]) is None
        # What is left out is left out of a journal that was written anew, and proven there.
        kept = list(storage.store.read(0, 30))
        gone = chance.randrange(len(frames))
        if chance.random() < 0.5:
            kept.remove(frames[gone])
        else:  # it belongs to another run there
            at = kept.index(frames[gone])
            kept[at] = kept[at].replace(b'"run":"%b"' % run.encode(), b'"run":"elsewhere"')
        forged = rewritten(renumbered(kept))
        left = [record(frame).line for frame in forged.store.read(0, 99, ("kahn", run))]
        claim = prove(forged.store, ("kahn", run))
        assert not check_proof(claim, left)
        if chance.random() < 0.8:
            claim["complete"] = proof["complete"]
        faults = check_proof(claim, left, None, note, [key])
        other = script.check_proof(claim, left, None, str(note), [str(key)])
        found += bool(faults) and other is not None
        forged.close()
    assert found == 100


def test_a_journal_that_does_not_continue_its_checkpoint_is_not_signed_again(tmp_path):
    storage = stored(tmp_path / "home", 20)
    with Checkpoints(storage) as checkpoints:
        checkpoints.make()
    frames = storage.store.read(0, 100)
    for name, forged_frames in {
        "ends with record 19": frames[:-1],
        "is not the one that was signed": attacked("fork", frames, 20, random.Random(3)),
    }.items():
        forged = rewritten(forged_frames)
        for file in (KEY, FILE):
            (forged.folder / file).write_bytes((tmp_path / "home" / file).read_bytes())
        with Checkpoints(forged) as stolen, pytest.raises(NotExtended, match=name):
            stolen.make()
        forged.close()


def test_the_first_changed_record_is_named_while_its_hashes_are_there(tmp_path):
    storage = stored(tmp_path / "home", 20)
    with Checkpoints(storage) as checkpoints:
        note = checkpoints.make()
    frames = storage.store.read(0, 100)
    frames[6] = frames[6].replace(b'{"n":', b'{"n":4')
    forged = rewritten(frames)
    (forged.folder / FILE).write_bytes((tmp_path / "home" / FILE).read_bytes())
    faults = compare(forged, Checkpoint.of(note.text)).faults
    forged.close()
    assert [str(fault) for fault in faults] == ["record 7: is not the record that was signed"]


def test_an_export_after_a_pruning_does_not_claim_to_be_complete(tmp_path):
    with Home(tmp_path / "home", clock=Clock(), segment_size=400) as home:
        grown(home.storage, 20)
        with Checkpoints(home.storage) as checkpoints:
            checkpoints.make()
        assert "complete" in prove_all(home.storage, ("kahn", "r1"))
        assert home.store.prune("2030", at=AT).through
        grown(home.storage, 3, 21)
        assert "complete" not in prove_all(home.storage, ("kahn", "r1"))


@given(st.binary(max_size=100) | st.text(max_size=40).map(str.encode))
@settings(max_examples=60, deadline=None)
@example(b"a\n1\n\n\xe2\x80\x94 a AAAA\n")
def test_what_is_no_checkpoint_is_an_error_with_a_hint(content):
    with pytest.raises(BadCheckpoint) as raised:
        Checkpoint.of(read_note(content).text)
    assert raised.value.hint
