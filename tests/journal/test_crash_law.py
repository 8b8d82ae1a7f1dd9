"""The crash law: whatever a crash leaves, a retry of all that was not acknowledged makes it whole.

For every prefix of bytes of every file, and every loss that missing syncs allow: open, send again
under the same key what was not acknowledged, and each line is there exactly once, the numbers have
no gap, `verify` proves it, and what was acknowledged is where it was.
"""

import contextlib
import errno
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.failing import HastyDisk, RememberingDisk
from support.soaking import SEED, SOAK
from tracklog.answers.doctor import accept, doctor
from tracklog.home.home import Home
from tracklog.home.registry import dialect
from tracklog.intake.intake import Intake
from tracklog.intake.resuming import admit_stream
from tracklog.journal.journal import Journal, JournalEntry, Mark
from tracklog.journal.segments import chain_path, firsts, segment_path
from tracklog.journal.stores.file import FileStore
from tracklog.journal.verify import verify
from tracklog.model.errors import JournalFull, NotAppended
from tracklog.testing import Clock

KAHN = dialect("kahn-ci")  # its lines have no identity: only the key can tell a retry


def line(number: int, pad: int = 0) -> bytes:
    return (
        b'{"ts":"2026-05-05T09:00:00.000Z","run_id":"r1","event":"node_transition",'
        b'"node_id":"%d%b","from":"pending","to":"ready"}' % (number, b"x" * pad)
    )


def batches_of(*sizes: int, pad: int = 0) -> dict[str, list[bytes]]:
    """Batches by key, of that many lines each, no two lines alike."""
    numbers = iter(range(sum(sizes)))
    return {
        f"k{n}": [line(next(numbers), pad) for _ in range(size)] for n, size in enumerate(sizes)
    }


def chain_of(lists) -> list[bytes]:
    return [each for one in lists for each in one]


def opened(home: Path, disk=None, **options) -> Intake:
    store = FileStore(home, disk=disk or HastyDisk(), **options)
    return Intake(Journal(store, Clock()), [KAHN])


def retried(home: Path, batches: dict[str, list[bytes]], acknowledged: dict[str, range]) -> None:
    """Opens, sends everything again under its key, and holds the law to it."""
    intake = opened(home)
    for key, lines in batches.items():
        verdicts = intake.admit(lines, "kahn-ci", batch=key)
        assert {each.verdict for each in verdicts} == {"accepted"}
        seqs = [each.seq for each in verdicts]
        assert seqs == list(range(seqs[0], seqs[0] + len(lines)))
        if key in acknowledged:
            assert verdicts.replayed
            assert seqs == list(acknowledged[key])
    records = list(intake.journal.records())
    assert [each.seq for each in records] == list(range(1, len(records) + 1))
    assert sorted(each.line for each in records) == sorted(chain_of(batches.values()))
    intake.journal.close()
    report = verify(home)
    assert report.ok, report.faults
    assert report.records == len(records)


def grown(home: Path, batches, **options) -> dict[str, range]:
    intake = opened(home, **options)
    numbers = {
        key: [verdict.seq for verdict in intake.admit(lines, "kahn-ci", batch=key)]
        for key, lines in batches.items()
    }
    intake.journal.close()
    return {key: range(seqs[0], seqs[-1] + 1) for key, seqs in numbers.items()}


@pytest.mark.long
def test_a_kill_at_every_byte_of_the_last_write_loses_and_doubles_nothing(tmp_path):
    """A kill leaves the page cache: all before is there, and a prefix of what was being written."""
    batches = batches_of(1, 3, 2, 5)
    whole = tmp_path / "whole"
    numbers = grown(whole, batches)
    segment = segment_path(whole / "journal", 1).read_bytes()
    chain = chain_path(whole / "journal", 1).read_bytes()
    frames, links = segment.splitlines(keepends=True), chain.splitlines(keepends=True)
    for last, key in enumerate(batches):
        acknowledged = {each: numbers[each] for each in list(batches)[:last]}
        before = sum(map(len, frames[: numbers[key].start - 1]))
        after = sum(map(len, frames[: numbers[key].stop - 1]))
        known = b"".join(links[: last + 1])
        cuts = [(cut, known) for cut in range(before, after + 1)]
        written = links[last + 1]
        cuts += [(after, known + written[:at]) for at in range(len(written) + 1)]
        for cut, chained in cuts:
            home = tmp_path / "cut"
            (home / "journal").mkdir(parents=True)
            (home / "format").write_bytes(b"2\n")
            segment_path(home / "journal", 1).write_bytes(segment[:cut])
            chain_path(home / "journal", 1).write_bytes(chained)
            retried(home, batches, acknowledged)
            shutil.rmtree(home)


def test_half_a_group_is_never_adopted_and_its_numbers_are_given_out_again(tmp_path):
    grown(tmp_path, batches_of(2, 4))
    path = segment_path(tmp_path / "journal", 1)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:4]))  # two of the four are there, with their line ends
    links = chain_path(tmp_path / "journal", 1)
    links.write_bytes(b"".join(links.read_bytes().splitlines(keepends=True)[:2]))
    reader = FileStore(tmp_path, readonly=True)
    assert reader.last == 2
    reader.close()
    assert not list((tmp_path / "quarantine").iterdir()), "a read-only open moves nothing"
    store = FileStore(tmp_path)
    assert store.last == 2
    assert [finding.name for finding in store.findings] == ["torn-tail"]
    (aside,) = (tmp_path / "quarantine").iterdir()
    assert aside.read_bytes() == b"".join(lines[2:4])
    store.close()


def test_a_read_only_open_sees_complete_groups_whose_chain_lines_are_lost(tmp_path):
    numbers = grown(tmp_path, batches_of(1, 3, 2))
    links = chain_path(tmp_path / "journal", 1)
    links.write_bytes(b"".join(links.read_bytes().splitlines(keepends=True)[:2]))
    with segment_path(tmp_path / "journal", 1).open("ab") as file:
        file.write(b'{"seq":7,"received":"2026-05-05T09:00:00.000Z"')
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    store = FileStore(tmp_path, readonly=True)
    assert store.last == max(map(max, numbers.values())) == 6
    assert len(store.read(0, 99)) == 6
    store.close()
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}


PAGE = 64
"""A page of the model: small, so that a small group lies on several."""


def leave(disk: RememberingDisk, target: Path, chance: random.Random) -> None:
    """What a loss of power may leave: of the pages that were not synced any, NULs for the others."""
    for name in sorted(disk.names.keys() | disk.safe_names):
        inode = disk.safe_names.get(name, disk.names.get(name))
        safe = name in disk.safe_names
        place = target / name.relative_to(disk.root)
        if not place.parent.is_dir() or (not safe and chance.random() < 0.5):
            continue
        if inode is None:
            place.mkdir(mode=0o700, exist_ok=True)
            continue
        place.write_bytes(torn(inode, chance))


def torn(inode, chance: random.Random) -> bytes:
    now = bytearray(inode.synced)
    for change in inode.changes:
        if isinstance(change, int):
            del now[change:]
            now.extend(bytes(max(0, change - len(now))))
        else:
            offset, block = change
            now.extend(bytes(max(0, offset + len(block) - len(now))))
            now[offset : offset + len(block)] = block
    size = chance.randint(min(len(inode.synced), len(now)), len(now))
    result = bytearray(now[:size])
    for start in range(0, size, PAGE):
        changed = bytes(now[start : start + PAGE]) != inode.synced[start : start + PAGE]
        if changed and chance.random() < 0.4:  # this page never got to the disk
            old = inode.synced[start : min(start + PAGE, size)]
            old += bytes(min(PAGE, size - start) - len(old))
            result[start : start + PAGE] = old
    return bytes(result)


class Crash(Exception):
    """The power is gone."""


@pytest.mark.long
@pytest.mark.parametrize("turn", range(30 * SOAK))
def test_a_loss_of_power_at_any_call_loses_nothing_acknowledged(tmp_path, turn):
    """Under `sync`, with any of the unsynced pages missing, through rolls of segments."""
    batches = batches_of(1, 3, 2, 5, 1, 4, pad=40)
    counted = RememberingDisk(tmp_path / "count")
    calls = []
    counted.moment = lambda: calls.append(1)
    (tmp_path / "count").mkdir()
    grown(tmp_path / "count", batches, disk=counted, segment_size=900)
    chance = random.Random(None if SEED is None else f"{SEED} {turn}")
    for at in sorted(chance.sample(range(len(calls)), min(12, len(calls)))):
        root = tmp_path / f"at{at}"
        root.mkdir()
        disk = RememberingDisk(root)
        left = iter(range(at))

        def moment(left=left):
            if next(left, None) is None:
                raise Crash

        disk.moment = moment
        acknowledged = {}
        intake = None
        try:
            intake = opened(root, disk, segment_size=900)
            for key, lines in batches.items():
                seqs = [each.seq for each in intake.admit(lines, "kahn-ci", batch=key)]
                acknowledged[key] = range(seqs[0], seqs[-1] + 1)
        except Crash:
            pass
        disk.moment = lambda: None
        for fd in list(disk.open_files):
            disk.close(fd)
        if intake is not None:
            intake.journal.store.reader.close()
        after = tmp_path / f"after{at}"
        after.mkdir()
        leave(disk, after, chance)
        retried(after, batches, acknowledged)


@pytest.mark.parametrize("durability", ["os", "interval", "lifecycle"])
def test_weaker_words_lose_only_a_tail_when_power_is_lost(tmp_path, durability):
    """What is left is a prefix of what was acknowledged, whole groups only, and it verifies."""
    chance = random.Random(SEED)
    for turn in range(40 * SOAK):
        root, after = tmp_path / f"home{turn}", tmp_path / f"after{turn}"
        root.mkdir()
        after.mkdir()
        disk = RememberingDisk(root)
        batches = batches_of(*(chance.randint(1, 6) for _ in range(6)), pad=40)
        intake = opened(root, disk, durability=durability, interval=60, segment_size=1500)
        for key, lines in batches.items():
            intake.admit(lines, "kahn-ci", batch=key)
        leave(disk, after, chance)
        intake.journal.close()
        found = opened(after)
        kept = [each.line for each in found.journal.records()]
        every = list(batches.values())
        assert kept in [chain_of(every[:n]) for n in range(len(every) + 1)]
        found.journal.close()
        assert verify(after).ok
        retried(after, batches, {})


@settings(max_examples=40 * SOAK, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_every_file_cut_anywhere_is_repaired_by_a_retry(tmp_path_factory, data):
    """Any prefix of the open segment beside any prefix of its chain that a missing sync allows."""
    home = tmp_path_factory.mktemp("home")
    batches = batches_of(*data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=5)))
    numbers = grown(home, batches)
    segment, chain = segment_path(home / "journal", 1), chain_path(home / "journal", 1)
    # Under `sync` a chain line is written when its group is on disk: the chain may lag, not lead.
    synced = data.draw(st.integers(0, len(batches)))
    frames = segment.read_bytes().splitlines(keepends=True)
    safe = sum(map(len, frames[: sum(len(each) for each in list(batches.values())[:synced])]))
    cut = data.draw(st.integers(safe, segment.stat().st_size))
    lag = b"".join(chain.read_bytes().splitlines(keepends=True)[: synced + 1])
    segment.write_bytes(segment.read_bytes()[:cut])
    chain.write_bytes(lag[: data.draw(st.integers(0, len(lag)))])
    retried(home, batches, {key: numbers[key] for key in list(batches)[:synced]})


class TestDamageIsNoCrash:
    """Bytes that were on disk and are not as they were are reported, never moved or renumbered."""

    @pytest.fixture
    def home(self, tmp_path):
        grown(tmp_path, batches_of(2, 3, 1))
        return tmp_path

    def reopened(self, home):
        store = FileStore(home, disk=HastyDisk())
        intake = Intake(Journal(store, Clock()), [KAHN])
        (verdict,) = intake.admit([line(99)], "kahn-ci")
        store.close()
        return verdict.seq

    def test_a_flipped_byte_in_the_last_record(self, home):
        path = segment_path(home / "journal", 1)
        bytes_ = bytearray(path.read_bytes())
        bytes_[-5] ^= 1
        path.write_bytes(bytes_)
        assert self.reopened(home) == 7
        assert [fault.seq for fault in verify(home).faults] == [6]
        assert not list((home / "quarantine").iterdir())

    @pytest.mark.parametrize("cut", [20, 150, 400])
    def test_an_end_that_was_cut_off(self, home, cut):
        path = segment_path(home / "journal", 1)
        path.write_bytes(path.read_bytes()[:-cut])
        assert self.reopened(home) == 7, "numbers of acknowledged records are not given again"
        assert not verify(home).ok

    def test_a_sector_of_zeros_in_the_last_record(self, home):
        path = segment_path(home / "journal", 1)
        whole = path.read_bytes()
        path.write_bytes(whole[:-60] + bytes(40) + whole[-20:])
        assert self.reopened(home) == 7
        assert verify(home).faults[0].seq == 6
        assert not list((home / "quarantine").iterdir())


def test_what_was_set_aside_is_reported_until_it_is_accepted(tmp_path):
    grown(tmp_path, batches_of(1))
    with segment_path(tmp_path / "journal", 1).open("ab") as file:
        file.write(b'{"seq":2,"recei')
    FileStore(tmp_path, disk=HastyDisk()).close()
    report = verify(tmp_path)
    assert report.ok
    assert "doctor --accept" in report.notes[0]
    states = {check.name: check for check in doctor(tmp_path, 0)}
    assert states["quarantine"].state == "warning"
    assert "doctor --accept" in states["quarantine"].remedy
    assert len(accept(tmp_path, 0, "ada")) == 1
    assert verify(tmp_path).notes == []
    assert {check.name: check.state for check in doctor(tmp_path, 0)}["quarantine"] == "ok"
    with segment_path(tmp_path / "journal", 1).open("ab") as file:
        file.write(b'{"seq":2,"r')
    FileStore(tmp_path, disk=HastyDisk()).close()
    assert len(verify(tmp_path).notes) == 1, "another one is reported again"


class Faulty(HastyDisk):
    """Fails some calls in a row, from one on; a write stops halfway first."""

    CALLS = ("open", "write", "write_at", "sync", "sync_folder", "truncate", "rename", "remove")

    def __init__(self, at: int = -1, times: int = 0, error: int = errno.EIO) -> None:
        self.bad, self.error, self.calls, self.failed = range(at, at + times), error, 0, 0

    def _call(self, name, *given):
        number, self.calls = self.calls, self.calls + 1
        if number in self.bad:
            self.failed += 1
            if name == "write" and len(given[1]) > 1:
                super().write(given[0], given[1][: len(given[1]) // 2])
            raise OSError(self.error, os.strerror(self.error))
        return getattr(HastyDisk, name)(self, *given)


for _name in Faulty.CALLS:
    setattr(Faulty, _name, lambda self, *given, _name=_name: self._call(_name, *given))


@pytest.mark.long
@pytest.mark.parametrize("durability", ["sync", "lifecycle", "os"])
@pytest.mark.parametrize("times", [1, 2, 3])
@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC], ids=["EIO", "ENOSPC"])
def test_any_call_that_fails_in_a_row_is_got_over_without_a_restart(
    tmp_path, tally, durability, times, error
):
    """Each batch is sent again until it is taken: no wedge, nothing lost or doubled or put aside."""
    batches = batches_of(1, 3, 2, 4)
    counting = Faulty()
    options = {"durability": durability, "segment_size": 700}
    grown(tmp_path / "count", batches, disk=counting, **options)
    opening = Faulty()
    opened(tmp_path / "opening", opening, **options).journal.close()
    for at in range(opening.calls, counting.calls):
        home, disk = tmp_path / f"at{at}", Faulty(at, times, error)
        intake = opened(home, disk, **options)
        for key, lines in batches.items():
            failures: list[str] = []
            while True:
                assert len(failures) < 2 * times + 2, f"call {at} is not got over: {failures}"
                try:
                    intake.admit(lines, "kahn-ci", batch=key)
                    break
                except NotAppended as failed:
                    failures.append(failed.message)
            assert not any("lost" in message for message in failures)
        with contextlib.suppress(NotAppended):
            intake.journal.close()
        assert not list((home / "quarantine").iterdir())
        retried(home, batches, {})
        tally.add(faults=disk.failed, acknowledged=sum(map(len, batches.values())))
    tally.done(f"failing disk, {durability}")


def test_a_home_without_room_to_recover_can_be_read_and_recovers_when_there_is(tmp_path):
    batches = batches_of(2, 3)
    grown(tmp_path, batches)
    with segment_path(tmp_path / "journal", 1).open("ab") as file:
        file.write(b'{"seq":6,"received":"2026-05-05T09:00:00.000Z"')
    full = FullDisk()
    intake = opened(tmp_path, full)
    assert [finding.name for finding in intake.journal.findings] == ["not-recovered"]
    assert len(list(intake.journal.records())) == 5
    for _ in range(2):
        with pytest.raises(JournalFull):
            intake.admit([line(50)], "kahn-ci", batch="new")
    full.full = False
    assert intake.admit([line(50)], "kahn-ci", batch="new")[0].seq == 6
    intake.journal.close()
    retried(tmp_path, {**batches, "new": [line(50)]}, {"new": range(6, 7)})


class FullDisk(HastyDisk):
    """Has no room for a new byte."""

    full = True

    def write(self, fd, block):
        if self.full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().write(fd, block)


CLAIM = """
import sys
from tracklog.model.errors import KeyReused
from tracklog.home.home import Home
home, worker, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
line = b'{"ts":"2026-05-05T09:00:00.000Z","run_id":"r1","event":"node_transition","node_id":"%d-%d","from":"pending","to":"ready"}'
with Home(home, durability="os") as opened:
    for turn in range(rounds):
        sys.stdin.readline()
        other = turn % 5 == 4
        lines = [line % (turn, n + 100 * worker * other) for n in range(3)]
        try:
            verdicts = opened.intake.admit(lines, "kahn-ci", batch=f"k{turn}")
            print("replayed" if verdicts.replayed else "first", [v.seq for v in verdicts], flush=True)
        except KeyReused:
            print("409", flush=True)
"""


@pytest.mark.long
def test_two_processes_race_for_a_key_and_the_batch_is_stored_once_each_time(tmp_path):
    """A thousand races; every fifth with other lines, of which one side is refused."""
    rounds = 1000
    words = [sys.executable, "-c", CLAIM, str(tmp_path)]
    racers = [
        subprocess.Popen(
            [*words, str(worker), str(rounds)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        for worker in range(2)
    ]
    for turn in range(rounds):
        for racer in racers:
            racer.stdin.write("go\n")
            racer.stdin.flush()
        answers = [racer.stdout.readline().split(maxsplit=1) for racer in racers]
        kinds = sorted(answer[0].strip() for answer in answers)
        if turn % 5 == 4:
            assert kinds == ["409", "first"]
        else:
            assert kinds == ["first", "replayed"]
            assert answers[0][1] == answers[1][1], "both are told the same numbers"
    for racer in racers:
        racer.stdin.close()
        assert racer.wait(60) == 0
        racer.stdout.close()
    with Home(tmp_path, readonly=True, index="sqlite::memory:") as home:
        assert home.journal.last == 3 * rounds
    assert verify(tmp_path).ok


RACE = """
import sys
from io import BytesIO
from pathlib import Path
from tracklog.formats.follow import Follower, LinesRead
from tracklog.home.home import Home
from tracklog.intake.resuming import admit_stream
way, root, rounds = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
with Home(root / "home", durability="os") as home:
    follower = Follower(home.intake, [root / "logs"], "kahn-ci", home.path)
    for turn in range(rounds):
        sys.stdin.readline()
        path, accepted = root / f"{turn}.jsonl", 0
        if way == "stream":
            for _, verdicts in admit_stream(home.intake, path.open("rb"), f"key:{turn}", "kahn-ci"):
                accepted += sum(each.verdict == "accepted" for each in verdicts)
        elif way == "follow":
            for heard in follower.poll():
                assert isinstance(heard, LinesRead), heard
                accepted += sum(each.verdict == "accepted" for each in heard.verdicts)
        else:
            lines = path.read_bytes().splitlines()
            verdicts = home.intake.admit(lines, "kahn-ci", batch=str(turn))
            accepted = 0 if verdicts.replayed else sum(each.verdict == "accepted" for each in verdicts)
        print(accepted, flush=True)
"""


@pytest.mark.long
@pytest.mark.parametrize("way", ["stream", "follow", "format 1"])
def test_two_processes_race_for_a_stream_and_each_line_is_stored_once(tmp_path, way):
    """The same file is recorded or followed twice at once, or half a batch of format 1 is mended."""
    rounds, count = 100 * SOAK, 20
    (tmp_path / "logs").mkdir()
    kept = 0
    if way == "format 1":
        with Home(tmp_path / "home", durability="os") as home:
            for turn in range(rounds):
                half = [
                    JournalEntry("kahn-ci", "kahn", "r1", line(1000 * turn + n)) for n in range(5)
                ]
                home.journal.append(half, mark=Mark(f"batch:{turn}", count))
        kept = 5
    words = [sys.executable, "-c", RACE, way, str(tmp_path), str(rounds)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "bufsize": 1}
    racers = [subprocess.Popen(words, **pipes) for _ in range(2)]
    for turn in range(rounds):
        lines = b"".join(line(1000 * turn + n) + b"\n" for n in range(count))
        folder = tmp_path / "logs" if way == "follow" else tmp_path
        (folder / f"{turn}.jsonl").write_bytes(lines)
        for racer in racers:
            racer.stdin.write("go\n")
        accepted = [int(racer.stdout.readline()) for racer in racers]
        assert sum(accepted) == count - kept
    for racer in racers:
        racer.stdin.close()
        assert racer.wait(60) == 0
        racer.stdout.close()
    with Home(tmp_path / "home", readonly=True, index="sqlite::memory:") as home:
        there = [each.line for each in home.journal.records()]
    assert sorted(there) == sorted(line(1000 * t + n) for t in range(rounds) for n in range(count))
    assert verify(tmp_path / "home").ok


def test_after_a_kill_verify_reports_what_is_not_chained_yet_and_no_fault(tmp_path):
    grown(tmp_path, batches_of(1, 3, 2))
    links = chain_path(tmp_path / "journal", 1)
    whole = links.read_bytes().splitlines(keepends=True)
    for left in (b"".join(whole[:-1]), b"".join(whole)[:-20]):
        links.write_bytes(left)
        report = verify(tmp_path)
        assert report.ok, report.faults
        assert report.records == 4
        assert "2 records behind record 4 are not chained" in report.notes[-1]
        torn = [note for note in report.notes if "torn behind record 4, as a crash" in note]
        assert len(torn) == (not left.endswith(b"\n"))
        states = {check.name: check.state for check in doctor(tmp_path, 0)}
        assert states["chain"] == "ok"
    FileStore(tmp_path, disk=HastyDisk()).close()
    assert (verify(tmp_path).records, verify(tmp_path).notes) == (6, [])


@pytest.mark.parametrize("segments", [1, 2])
def test_a_segment_that_is_gone_is_a_fault_and_its_numbers_are_not_given_again(tmp_path, segments):
    size = 1 << 20 if segments == 1 else 900
    grown(tmp_path, batches_of(2, 3, 1, pad=40), segment_size=size)
    last = firsts(tmp_path / "journal")[-1]
    segment_path(tmp_path / "journal", last).unlink()
    assert {fault.seq for fault in verify(tmp_path).faults} == {last}
    intake = opened(tmp_path)
    assert "segment-lost" in [finding.name for finding in intake.journal.findings]
    assert intake.admit([line(99)], "kahn-ci")[0].seq == 7
    intake.journal.close()
    assert not verify(tmp_path).ok, "it stays a fault"


def test_a_chain_that_is_gone_is_made_again_and_that_is_reported(tmp_path):
    grown(tmp_path, batches_of(2, 3))
    chain_path(tmp_path / "journal", 1).unlink()
    assert not verify(tmp_path).ok
    store = FileStore(tmp_path, disk=HastyDisk())
    assert "chain-lost" in [finding.name for finding in store.findings]
    store.close()
    report = verify(tmp_path)
    assert report.ok
    assert "cannot be proven" in report.notes[0]


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_a_line_end_that_arrives_later_makes_no_other_line(tmp_path, end):
    path, home = tmp_path / "run.jsonl", tmp_path / "home"
    path.write_bytes(line(1) + end + line(2))
    for _ in range(2):
        with Home(home) as opened_home, path.open("rb") as file:
            done = list(admit_stream(opened_home.intake, file, "file", "kahn-ci"))
        path.write_bytes(line(1) + end + line(2) + end)
    assert [each.verdict for _, verdicts in done for each in verdicts] == ["duplicate"] * 2
    path.write_bytes(line(1) + end + line(2) + end + line(3))
    with Home(home) as opened_home, path.open("rb") as file:
        done = list(admit_stream(opened_home.intake, file, "file", "kahn-ci"))
    assert [each.verdict for _, verdicts in done for each in verdicts][-1] == "accepted"


class ForgetfulDisk(RememberingDisk):
    """After a failed sync it takes its pages for written, as Linux does: only a new write counts."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.syncs, self.bad = 0, range(0)

    def sync(self, fd):
        number, self.syncs = self.syncs, self.syncs + 1
        if number in self.bad:
            self.open_files[fd].changes = []
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        super().sync(fd)

    def records_left(self, target: Path) -> int:
        """How many records a loss of power would leave, if it came now."""
        target.mkdir()
        self.leave(target, names="safe", bytes_kept="none")
        store = FileStore(target, readonly=True)
        count = len(store.read(0, 10_000))
        store.close()
        shutil.rmtree(target)
        return count


@pytest.mark.parametrize("durability", ["sync", "lifecycle", "interval"])
@pytest.mark.parametrize("times", [1, 2, 3])
def test_what_a_failed_sync_left_in_doubt_is_written_again_before_it_is_called_durable(
    tmp_path, durability, times
):
    """Also records before the group that failed, which were not synced on their own."""
    batches = batches_of(3, 20, 2, 20, 1, 5, pad=600)  # several pages each
    for at in range(7):
        root = tmp_path / f"home{at}"
        root.mkdir()
        disk = ForgetfulDisk(root)
        store = FileStore(root, disk=disk, durability=durability, interval=60)
        journal = Journal(store, Clock())
        disk.bad = range(disk.syncs + at, disk.syncs + at + times)
        for number, lines in enumerate(batches.values()):
            entries = [JournalEntry("kahn-ci", "kahn", "r1", each) for each in lines]
            for _ in range(times + 2):
                with contextlib.suppress(NotAppended):
                    journal.append(entries, lifecycle=number % 2 == 1)
                    break
            else:
                pytest.fail("it is not got over")
            if durability == "interval":
                with contextlib.suppress(NotAppended):
                    journal.sync()
            assert disk.records_left(tmp_path / "after") >= journal.durable
        for _ in range(times + 1):
            with contextlib.suppress(NotAppended):
                journal.sync()
        assert journal.durable == journal.last == 51
        assert disk.records_left(tmp_path / "after") == 51
        disk.bad = range(0)
        store.close()


def test_a_group_is_written_again_if_its_writer_died_of_a_failed_sync(tmp_path):
    """The system tells of a failed sync once: whoever opens the home next does not hear of it."""
    root = tmp_path / "home"
    root.mkdir()
    disk = ForgetfulDisk(root)
    batches = batches_of(2, 300, pad=40)
    intake = opened(root, disk)
    intake.admit(batches["k0"], "kahn-ci", batch="k0")
    disk.bad = range(disk.syncs, disk.syncs + 1)
    disk.truncate = lambda fd, size: _die()
    with pytest.raises(Crash):
        intake.admit(batches["k1"], "kahn-ci", batch="k1")
    del disk.truncate
    for fd in list(disk.open_files):
        disk.close(fd)
    intake.journal.store.reader.close()
    again = opened(root, disk)
    assert again.admit(batches["k1"], "kahn-ci", batch="k1").replayed
    assert disk.records_left(tmp_path / "after") == again.journal.durable == 302
    again.journal.close()


def _die() -> None:
    raise Crash
