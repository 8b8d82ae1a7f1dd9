"""Tamper evidence: what was changed is named, and a run can be proven far from its journal."""

import contextlib
import errno
import itertools
import json
import os
import shutil
import subprocess
import sys
import threading
from hashlib import sha256

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from support.failing import FailingDisk, HastyDisk
from support.offline import SCRIPT, load_script
from tracklog.journal import merkle
from tracklog.journal.comparing import RecordFault, verify_store
from tracklog.journal.frame import tombstone
from tracklog.journal.journal import Journal, JournalEntry
from tracklog.journal.proof import check_proof, prove
from tracklog.journal.segments import blocks, chain_path, firsts, segment_path
from tracklog.journal.stores import Group, Head
from tracklog.journal.stores.file import FileStore
from tracklog.journal.stores.memory import MemoryStore
from tracklog.journal.verify import anchor_of, head, verify
from tracklog.model.errors import BadFormat, JournalFull, NoSuchRecord
from tracklog.testing import Clock

AT = "2026-05-05T09:00:00.000Z"


script = load_script()


def grow(home, groups=((1,), (2, 3), (4, 5, 6), (7, 8), (9,)), **options):
    options = {"segment_size": 200, "disk": HastyDisk(), **options}
    store = FileStore(home, **options)
    journal = Journal(store, Clock())
    for group in groups:
        journal.append(
            [JournalEntry("spoken", "kahn", f"r{n % 3}", b'{"n":%d}' % n) for n in group]
        )
    return store


def judged(home, anchor=None):
    """The first bad record by both implementations, which must agree on whether there is one."""
    report = verify(home, anchor)
    try:
        fault = script.Journal(home / "journal", anchor and tuple(anchor)).check()
    except (ValueError, KeyError, TypeError):
        fault = (0, "cannot be read")
    assert report.ok == (fault is None), (report.faults, fault)
    return report


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    home = tmp_path_factory.mktemp("sound") / "home"
    store = grow(home)
    store.erase(5, reason="a secret", by="me", at=AT)
    store.close()
    assert len(firsts(home / "journal")) == 4
    return home


@pytest.fixture
def home(sound, tmp_path):
    shutil.copytree(sound, tmp_path / "home")
    return tmp_path / "home"


def test_a_sound_journal_verifies(home):
    report = judged(home)
    assert report.ok
    assert (report.records, report.head.through, report.erased) == (9, 9, [5])
    assert report.head == head(home)
    assert anchor_of(str(report.head)) == report.head


def test_a_fault_is_reported_with_its_record_where_it_has_one():
    assert str(RecordFault(3, "was changed")) == "record 3: was changed"
    assert str(RecordFault(0, "the file `format` is missing")) == "the file `format` is missing"


def test_an_empty_journal_verifies(tmp_path):
    FileStore(tmp_path).close()
    report = judged(tmp_path)
    assert report.ok
    assert report.records == 0
    assert head(tmp_path) == report.head


class Died(BaseException):
    """The end of a process."""


class DyingDisk(FailingDisk):
    """After so many calls the process is gone: nothing more is done."""

    def _count(self, name):
        self.calls.append(name)
        if len(self.calls) > self.fail_at:
            raise Died


class FullDisk(HastyDisk):
    """After so many new files and writes there is no room for another."""

    def __init__(self, left):
        self.left = left

    def open(self, path, flags, mode=0o600):
        if flags & os.O_CREAT and not path.exists():
            self._take()
        return super().open(path, flags, mode)

    def write(self, fd, block):
        self._take()
        return super().write(fd, block)

    def _take(self):
        self.left -= 1
        if self.left < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("disk_of", [DyingDisk, FullDisk])
def test_a_journal_verifies_wherever_its_writer_stopped(tmp_path, disk_of):
    """As it stands there, before any other writer comes: also between two segments."""
    groups, waited = ((1,), (2, 3), (4, 5, 6), (7,)), 0
    for step in itertools.count():
        home = tmp_path / str(step)
        try:
            grow(home, groups, disk=disk_of(step)).close()
            done = True
        except (Died, JournalFull, OSError):
            done = False
        if not firsts(home / "journal"):
            continue  # it had not begun
        report = judged(home)
        assert report.ok, (step, report.faults)
        waited += any("no segment begins" in note for note in report.notes)
        last = report.head.through
        store = FileStore(home, disk=HastyDisk())
        Journal(store, Clock()).append([JournalEntry("spoken", "kahn", "r", b'{"n":9}')])
        store.close()
        assert judged(home).records > last
        assert list((home / "journal").glob("*.next")) == []
        if done:
            break
    assert waited, "no step was between two segments"


def test_a_segment_that_somebody_removed_is_missing_whatever_a_crash_leaves(home):
    first = firsts(home / "journal")[-1]
    for path in (segment_path, chain_path):
        path(home / "journal", first).unlink()
    assert RecordFault(first, "the segment that begins with it is missing") in judged(home).faults


def test_a_leaf_is_the_plain_hash_of_the_frame(home):
    frame = segment_path(home / "journal", 1).read_bytes().split(b"\n")[0]
    link = json.loads(chain_path(home / "journal", 1).read_bytes().split(b"\n")[1])
    assert link["root"] == sha256(frame).hexdigest()
    assert (
        link["chain"]
        == sha256(b"\2" + bytes(32) + (1).to_bytes(8, "big") + sha256(frame).digest()).hexdigest()
    )


def files_of(home):
    return sorted(p for p in (home / "journal").iterdir() if p.suffix in (".jsonl", ".chain"))


def test_any_flipped_byte_of_frames_and_chains_is_found(home):
    for path in files_of(home):
        whole = path.read_bytes()
        for at in range(len(whole)):
            path.write_bytes(whole[:at] + bytes([whole[at] ^ (1 << at % 8)]) + whole[at + 1 :])
            assert not judged(home).ok, (path.name, at)
        path.write_bytes(whole)
    assert judged(home).ok


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_a_flipped_byte_is_always_found(sound, tmp_path_factory, data):
    home = tmp_path_factory.mktemp("flip") / "home"
    shutil.copytree(sound, home)
    path = data.draw(st.sampled_from(files_of(home)))
    whole = bytearray(path.read_bytes())
    if whole:
        at = data.draw(st.integers(0, len(whole) - 1))
        whole[at] ^= data.draw(st.integers(1, 255))
        path.write_bytes(whole)
        assert not judged(home).ok
    shutil.rmtree(home)


@pytest.mark.parametrize("seq", [1, 2, 3, 4, 6, 8, 9])
def test_the_first_bad_record_is_named(home, seq):
    for path in files_of(home):
        text = path.read_bytes()
        path.write_bytes(text.replace(b'{"n":%d}' % seq, b'{"n":0}'))
    report = judged(home)
    assert report.faults[0].seq == seq
    assert "changed" in report.faults[0].why


def change(path, edit):
    lines = path.read_bytes().split(b"\n")[:-1]
    path.write_bytes(b"".join(line + b"\n" for line in edit(lines)))


def test_a_removed_record_is_found(home):
    change(segment_path(home / "journal", 4), lambda lines: [lines[0], *lines[2:]])
    assert judged(home).faults[0].seq == 5


def test_an_inserted_record_is_found(home):
    change(segment_path(home / "journal", 1), lambda lines: [lines[0], lines[0], *lines[1:]])
    assert judged(home).faults[0].seq == 2


def test_records_in_another_order_are_found(home):
    change(segment_path(home / "journal", 1), lambda lines: [lines[0], lines[2], lines[1]])
    report = judged(home)
    assert report.faults[0].seq == 2
    assert "record 3 stands in its place" in report.faults[0].why


def test_a_record_behind_the_last_is_found(home):
    last = firsts(home / "journal")[-1]
    change(segment_path(home / "journal", last), lambda lines: [*lines, b'{"seq":10,"x":1}'])
    assert judged(home).faults[0].seq == 10


@pytest.mark.parametrize("place", [0, 1, 2, 3])
def test_a_missing_segment_is_found(home, place):
    first = firsts(home / "journal")[place]
    segment_path(home / "journal", first).unlink()
    chain_path(home / "journal", first).unlink()
    report = judged(home)
    assert not report.ok
    assert first in [fault.seq for fault in report.faults]


def test_a_missing_chain_file_is_found(home):
    chain_path(home / "journal", 4).unlink()
    assert judged(home).faults[0].seq == 4


@pytest.mark.parametrize(("line", "seq", "after"), [(1, 1, 2), (2, 2, 4), (3, 4, 7)])
def test_a_removed_chain_line_blames_chain_lines_and_no_record(tmp_path, line, seq, after):
    """The records of the group are passed over; those after it are in their places."""
    home = tmp_path / "home"
    grow(home, ((1,), (2, 3), (4, 5, 6), (7,)), segment_size=1 << 20).close()
    change(chain_path(home / "journal", 1), lambda lines: [*lines[:line], *lines[line + 1 :]])
    report = judged(home)
    assert [fault.seq for fault in report.faults] == [seq, after]
    assert all("chain line" in fault.why for fault in report.faults)
    assert report.records == 7 - (after - seq)


def test_a_tail_cut_with_its_chain_is_caught_by_an_anchor_only(tmp_path):
    home = tmp_path / "home"
    store = grow(home, segment_size=1 << 20)
    noted = head(home)
    store.append(lambda first: Group([], [], {}))
    store.close()
    change(segment_path(home / "journal", 1), lambda lines: lines[:6])
    change(chain_path(home / "journal", 1), lambda lines: lines[:4])
    assert judged(home).ok
    report = judged(home, noted)
    assert report.faults[0].seq == 7
    assert "the tail was cut" in report.faults[0].why
    assert report.notes[-1].startswith("restore the journal from a backup or an archive before")


def test_an_anchor_of_the_past_still_holds_and_a_rewritten_history_does_not(tmp_path):
    home, forged = tmp_path / "home", tmp_path / "forged"
    store = grow(home)
    noted = head(home)
    journal = Journal(store, Clock())
    journal.append([JournalEntry("spoken", "kahn", "r1", b"{}")])
    assert judged(home, noted).ok
    grow(forged, groups=((1,), (2, 3), (4, 5, 66), (7, 8), (9,), (10,))).close()
    assert judged(forged).ok
    report = judged(forged, noted)
    assert report.faults[0].seq == 9
    assert "anchor" in report.faults[0].why


def test_an_anchor_that_is_none_is_refused():
    for text in ("", "9", "9:abc", "x:" + "0" * 64, "9:" + "G" * 64):
        with pytest.raises(BadFormat, match="is not an anchor"):
            anchor_of(text)


def test_a_tombstone_that_nobody_chained_is_found(home):
    path = segment_path(home / "journal", 1)
    change(path, lambda ls: [tombstone(ls[0], merkle.leaf(ls[0]), "none", "forger", AT), *ls[1:]])
    report = judged(home)
    assert report.faults[0].seq == 1
    assert "tombstone" in report.faults[0].why


def test_a_changed_tombstone_is_found(home):
    path = segment_path(home / "journal", 4)
    path.write_bytes(path.read_bytes().replace(b"a secret", b"A secret"))
    assert judged(home).faults[0].seq == 5


def test_a_live_journal_verifies_while_it_is_written(tmp_path):
    store = grow(tmp_path)
    journal = Journal(store, Clock())
    for number in range(20):
        journal.append([JournalEntry("spoken", "kahn", "r", b'{"n":%d}' % number)])
        assert judged(tmp_path).ok


def test_a_torn_tail_that_was_never_acknowledged_is_a_note(home):
    last = firsts(home / "journal")[-1]
    with segment_path(home / "journal", last).open("ab") as file:
        file.write(b'{"seq":10,"rec')
    report = judged(home)
    assert report.ok
    assert "no whole group" in report.notes[-1]


@given(st.lists(st.binary(min_size=32, max_size=32), min_size=1, max_size=200), st.data())
@example([bytes(32)] * 65, None)
def test_every_leaf_has_a_path_to_the_root_and_no_other_leaf_takes_it(leaves, data):
    top = merkle.root(leaves)
    assert top == script.root(leaves)
    indexes = range(len(leaves)) if data is None else [data.draw(st.integers(0, len(leaves) - 1))]
    for index in indexes:
        path = merkle.path(leaves, index)
        assert merkle.climb(leaves[index], index, len(leaves), path) == top
        assert script.climb(leaves[index], index, len(leaves), path) == top
        other = bytes([leaves[index][0] ^ 1]) + leaves[index][1:]
        assert merkle.climb(other, index, len(leaves), path) != top
        assert merkle.climb(leaves[index], index, len(leaves), [*path, top]) is None
        if path:
            assert merkle.climb(leaves[index], index, len(leaves), path[:-1]) is None


@given(st.binary(max_size=300))
def test_a_chain_line_is_read_exactly_or_not_at_all(text):
    assert merkle.read(text) is None
    line, after = merkle.group(bytes(32), 3, [bytes(32)] * 3)
    assert merkle.read(line[:-1]).chain == after
    assert merkle.read(line) is None


def proven(home, run, anchor=None):
    with contextlib.closing(FileStore(home, readonly=True)) as store:
        return prove(store, run, anchor)


class TestProofs:
    @pytest.fixture
    def exported(self, home):
        journal = Journal(FileStore(home, readonly=True))
        records = list(journal.records(run=("kahn", "r2")))
        lines = [each.line for each in records if not each.erased]
        return lines, proven(home, ("kahn", "r2"))

    def faults(self, told, lines, anchor=None):
        """By both implementations, which must agree."""
        found = check_proof(told, lines, anchor)
        try:
            fault = script.check_proof(told, lines, anchor and tuple(anchor))
        except (ValueError, KeyError, TypeError, AttributeError):
            fault = (0, "")
        assert (found == []) == (fault is None), (found, fault)
        return found

    def test_an_exported_run_is_proven(self, home, exported):
        lines, told = exported
        assert [each["seq"] for each in told["records"]] == [2, 5, 8]
        assert lines == [b'{"n":2}', b'{"n":8}']
        assert self.faults(told, lines) == []
        assert self.faults(told, lines, head(home)) == []
        assert self.faults(json.loads(json.dumps(told)), lines) == []

    def test_frames_prove_as_well_as_lines(self, home, exported):
        _, told = exported
        reader = FileStore(home, readonly=True)
        frames = [f for f in reader.read(0, 99, ("kahn", "r2")) if b'"erased"' not in f]
        assert self.faults(told, frames) == []

    def test_a_changed_missing_or_added_line_is_found(self, exported):
        lines, told = exported
        assert self.faults(told, [b'{"n":3}', lines[1]])[0].seq == 2
        assert self.faults(told, [lines[0], b'{"n":8 }'])[0].seq == 8
        assert self.faults(told, lines[:1])[0].seq == 8
        assert self.faults(told, lines[::-1])[0].seq == 2
        assert self.faults(told, [*lines, b"{}"])

    def test_another_anchor_is_found(self, home, exported):
        lines, told = exported
        assert self.faults(told, lines, head(home)._replace(chain="0" * 64))

    def test_any_changed_word_of_the_proof_is_found(self, exported):
        lines, told = exported

        def words(value, path=()):
            if isinstance(value, dict):
                for key, each in value.items():
                    yield from words(each, (*path, key))
            elif isinstance(value, list):
                for key, each in enumerate(value):
                    yield from words(each, (*path, key))
            else:
                yield path, value

        for path, value in list(words(told)):
            if path == ("format",):
                continue
            forged = json.loads(json.dumps(told))
            spot = forged
            for key in path[:-1]:
                spot = spot[key]
            spot[path[-1]] = value + 1 if isinstance(value, int) else value[:-1] + "~"
            assert self.faults(forged, lines), path

    def test_a_proof_up_to_an_anchor_stays_short(self, home):
        noted = head(home)
        store = FileStore(home, disk=HastyDisk(), segment_size=500)
        journal = Journal(store, Clock())
        for number in range(30):
            journal.append([JournalEntry("spoken", "kahn", "other", b'{"n":%d}' % number)])
        short, long = proven(home, ("kahn", "r1"), noted), proven(home, ("kahn", "r1"))
        assert len(short["links"]) + 30 == len(long["links"])
        lines = [each.line for each in journal.records(run=("kahn", "r1"))]
        assert self.faults(short, lines, noted) == self.faults(long, lines) == []

    def test_a_run_that_is_not_there_has_no_proof(self, home):
        with pytest.raises(NoSuchRecord, match="no record of run"):
            proven(home, ("kahn", "never"))


class TestScript:
    def run(self, *arguments):
        told = subprocess.run(
            [sys.executable, "-I", str(SCRIPT), *map(str, arguments)],
            capture_output=True,
            text=True,
            check=False,
        )
        return told.returncode, told.stdout + told.stderr

    def test_it_needs_nothing_but_the_standard_library(self):
        text = SCRIPT.read_text()
        imported = {line.split()[1] for line in text.splitlines() if line.startswith("import ")}
        assert imported <= sys.stdlib_module_names
        assert "\nfrom " not in text

    def test_a_journal(self, home):
        code, said = self.run(home)
        assert (code, str(head(home)) in said) == (0, True)
        assert self.run(home, "--anchor", head(home))[0] == 0
        assert self.run(home / "journal")[0] == 0
        path = segment_path(home / "journal", 1)
        path.write_bytes(path.read_bytes().replace(b'"n":2', b'"n":7'))
        assert self.run(home) == (
            1,
            "record 2: was changed, moved or removed, or its entry in the chain was\n",
        )

    def test_a_run(self, home, tmp_path):
        lines, proof = tmp_path / "run.jsonl", tmp_path / "proof.json"
        lines.write_bytes(b'{"n":2}\n{"n":8}\n')
        proof.write_text(json.dumps(proven(home, ("kahn", "r2"))))
        code, said = self.run(lines, proof, "--anchor", head(home))
        assert (code, "proven: 2 lines" in said) == (0, True)
        lines.write_bytes(b'{"n":2}\n{"n":9}\n')
        assert self.run(lines, proof)[0] == 1

    def test_what_cannot_be_read_is_no_verdict(self, tmp_path):
        assert self.run()[0] == 2
        assert self.run(tmp_path / "nowhere")[0] == 2
        assert self.run(tmp_path, "--anchor", "nonsense")[0] == 2
        assert self.run("--help")[0] == 0

    def test_a_folder_without_a_journal_is_no_proven_journal(self, tmp_path):
        """Who names the wrong folder must not read that it is proven."""
        code, said = self.run(tmp_path)
        assert (code, "verified" in said) == (2, False)

    @pytest.mark.parametrize(
        "bad", [b"", b"[]", b'{"format":1}', b"\xff\x00", b'{"n":2}\n{"n":8}\n']
    )
    def test_a_file_that_is_no_proof_gets_a_hint_how_to_make_one(self, tmp_path, bad):
        (tmp_path / "run.jsonl").write_bytes(b'{"n":2}\n')
        (tmp_path / "proof.json").write_bytes(bad)
        code, said = self.run(tmp_path / "run.jsonl", tmp_path / "proof.json")
        assert code == 2
        assert "tracklog events RUN --raw --proof PROOF.json > RUN.jsonl" in said


def test_verifying_while_others_append_erase_and_prune_finds_no_fault(tmp_path):
    store = grow(tmp_path, groups=[(n, n + 1) for n in range(1, 200, 2)])
    stop = threading.Event()

    def work():
        other = FileStore(tmp_path, segment_size=200, disk=HastyDisk())
        journal, seq = Journal(other, Clock()), 150
        while not stop.is_set():
            journal.append([JournalEntry("spoken", "kahn", "r", b"{}")])
            other.erase(seq, reason="why", by="me", at=AT)
            if seq % 10 == 0:
                other.prune(journal.read(other.first + 1, 1)[0].received, at=AT)
            seq += 1
        other.close()

    worker = threading.Thread(target=work)
    worker.start()
    try:
        for _ in range(10):
            report = verify(tmp_path)
            assert report.ok, report.faults
    finally:
        stop.set()
        worker.join()
    store.close()
    assert judged(tmp_path).ok


def test_a_store_of_any_kind_is_verified_against_an_anchor():
    with Journal(MemoryStore()) as journal:
        for n in range(3):
            journal.append([JournalEntry("kahn-ci", "kahn", "r", b'{"n":%d}' % n)])
        store = journal.store
        report = verify_store(store)
        assert (report.ok, report.head.through, report.groups) == (True, 3, 3)
        assert verify_store(store, report.head).ok
        forged = verify_store(store, Head(3, "0" * 64))
        assert (forged.ok, "anchor" in forged.faults[0].why) == (False, True)
        longer = verify_store(store, Head(9, report.head.chain))
        assert (longer.ok, "anchor" in longer.faults[0].why) == (False, True)


def test_blocks_are_the_complete_lines_between_two_offsets(tmp_path):
    text = b"one\ntwo\nthree\ntorn"
    (tmp_path / "file").write_bytes(text)
    with (tmp_path / "file").open("rb") as file:
        for start in (0, 4, 8):
            for stop in range(start, len(text) + 1):
                found = b"".join(blocks(file.fileno(), start, stop))
                assert found == text[start : text.rfind(b"\n", start, stop) + 1]
