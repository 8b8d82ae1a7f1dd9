"""Cut anywhere, killed anytime, failed everywhere: what was acknowledged is there, once, in order."""

import errno
import os
import random
import shutil
import signal
import subprocess
import time

import pytest

from support.failing import FailingDisk, HastyDisk, RememberingDisk, ShortDisk
from support.forking import script
from support.soaking import SEED, SOAK
from support.waiting import eventually
from tracklog.journal.journal import Journal, JournalEntry
from tracklog.journal.segments import chain_path, firsts, segment_path
from tracklog.journal.stores.file import FileStore
from tracklog.journal.verify import verify
from tracklog.model.errors import BadFormat, JournalFull, NotAppended, NotDurable, StoreBroken
from tracklog.testing import Clock


def entries(*numbers, run="r1"):
    return [JournalEntry("spoken", "spoken", run, b'{"n":%d,"t":"\xc3\xa9"}' % n) for n in numbers]


def kept(home, **options):
    """What is there after opening, each line by its number."""
    journal = Journal(FileStore(home, disk=HastyDisk(), **options))
    found = [int(each.line[5:].split(b",")[0]) for each in journal.records()]
    seqs = [each.seq for each in journal.records()]
    assert seqs == list(range(1, len(seqs) + 1))
    journal.close()
    return found


@pytest.fixture
def grown(tmp_path):
    """A journal of one segment with groups of 1, 2 and 3, and the same as plain bytes."""
    home = tmp_path / "home"
    journal = Journal(FileStore(home), Clock())
    for group in ((1,), (2, 3), (4, 5, 6), (7,)):
        journal.append(entries(*group))
    journal.close()
    return home


def test_cut_at_every_byte_every_complete_group_is_there_and_the_rest_in_quarantine(
    grown, tmp_path
):
    path, links = segment_path(grown / "journal", 1), chain_path(grown / "journal", 1)
    whole = path.read_bytes()
    header = links.read_bytes().splitlines(keepends=True)[0]
    ends = [sum(map(len, whole.splitlines(keepends=True)[:n])) for n in (0, 1, 3, 6, 7)]
    for cut in range(len(whole) + 1):
        home = tmp_path / "cut"
        shutil.copytree(grown, home)
        segment_path(home / "journal", 1).write_bytes(whole[:cut])
        chain_path(home / "journal", 1).write_bytes(header)  # the others never got to the disk
        end = max(each for each in ends if each <= cut)
        before = whole[:end].count(b"\n")
        journal = Journal(FileStore(home, disk=HastyDisk()))
        assert [each.seq for each in journal.records()] == list(range(1, before + 1))
        torn = whole[end:cut]
        aside = [each.read_bytes() for each in (home / "quarantine").glob("*.torn")]
        assert aside == ([torn] if torn else [])
        assert ("torn-tail" in [finding.name for finding in journal.findings]) == bool(torn)
        assert journal.append(entries(99)) == range(before + 1, before + 2)
        assert verify(home).ok
        journal.close()
        assert kept(home) == [*range(1, before + 1), 99]
        shutil.rmtree(home)


def test_a_chain_cut_at_every_byte_loses_no_record(grown, tmp_path):
    whole = chain_path(grown / "journal", 1).read_bytes()
    for cut in range(len(whole)):
        home = tmp_path / "cut"
        shutil.copytree(grown, home)
        chain_path(home / "journal", 1).write_bytes(whole[:cut])
        report = verify(home)
        assert report.notes or not report.ok
        assert kept(home) == [1, 2, 3, 4, 5, 6, 7]
        assert verify(home).ok
        shutil.rmtree(home)


def test_a_missing_chain_is_made_again(grown):
    chain_path(grown / "journal", 1).unlink()
    assert kept(grown) == [1, 2, 3, 4, 5, 6, 7]
    assert verify(grown).ok


@pytest.mark.parametrize(
    "fill", [b"\0" * 4096, b"\0" * 100 + b"\n", b"\0" * 10 + b"}\n" + b"\0" * 10]
)
def test_a_tail_of_nul_bytes_goes_to_quarantine(grown, fill):
    with segment_path(grown / "journal", 1).open("ab") as file:
        file.write(fill)
    assert kept(grown) == [1, 2, 3, 4, 5, 6, 7]
    assert [each.read_bytes() for each in (grown / "quarantine").iterdir()] == [fill]
    assert verify(grown).ok


def test_a_last_record_with_nul_bytes_inside_goes_to_quarantine(grown):
    path, links = segment_path(grown / "journal", 1), chain_path(grown / "journal", 1)
    whole = path.read_bytes()
    path.write_bytes(whole[:-20] + bytes(10) + whole[-10:])
    links.write_bytes(b"".join(links.read_bytes().splitlines(keepends=True)[:-1]))
    assert kept(grown) == [1, 2, 3, 4, 5, 6]
    assert verify(grown).ok
    assert any(each.read_bytes().count(b"\0") == 10 for each in (grown / "quarantine").iterdir())


def test_damage_at_the_very_end_is_stepped_over_by_a_reader(grown):
    path = segment_path(grown / "journal", 1)
    whole = path.read_bytes()
    path.write_bytes(whole[:-20] + bytes(10) + whole[-10:])
    journal = Journal(FileStore(grown, disk=HastyDisk()))
    assert [each.seq for each in journal.records()] == [1, 2, 3, 4, 5, 6]
    assert journal.append(entries(99)) == range(8, 9)
    assert [each.seq for each in journal.records()] == [1, 2, 3, 4, 5, 6, 8]
    assert [fault.seq for fault in verify(grown).faults] == [7]


def test_complete_records_without_a_chain_line_are_adopted_and_reported(grown):
    """Their writer was killed between the frames and the chain line."""
    path = segment_path(grown / "journal", 1)
    frame = path.read_bytes().split(b"\n")[6].replace(b'"seq":7', b'"seq":8')
    with path.open("ab") as file:
        file.write(frame + b"\n")
    assert FileStore(grown, readonly=True).last == 8, (
        "a read-only open counts it, and moves nothing"
    )
    store = FileStore(grown)
    assert store.last == 8
    assert [finding.name for finding in store.findings] == ["chained-late"]
    assert verify(grown).ok


CHILD = """
import sys
from tracklog.journal.journal import JournalEntry, Journal
from tracklog.journal.stores.file import FileStore
home, start = sys.argv[1], int(sys.argv[2])
journal = Journal(FileStore(home, segment_size=30_000))
out = sys.stdout.buffer
number = start
while True:
    size = number % 7 + 1
    journal.append([
        JournalEntry("spoken", "spoken", "r1", b'{"n":%d,"pad":"%b"}' % (n, b"x" * (n * 37 % 900)))
        for n in range(number, number + size)
    ])
    number += size
    out.write(b"%d\\n" % number)
    out.flush()
"""


@pytest.mark.long
def test_killed_a_hundred_times_every_acknowledged_line_is_there_once_in_order(tmp_path):
    """Four children at a time into their own journals; each journal is killed again and again."""
    chance = random.Random(SEED)
    homes = {tmp_path / f"home{n}": 1 for n in range(4)}
    kills = 0
    while kills < 104 * SOAK:
        children = {
            home: script(CHILD, home, start, stdout=subprocess.PIPE)
            for home, start in homes.items()
        }
        for child in children.values():  # they are at work, and die wherever they are
            child.stdout.readline()
        for home, child in children.items():
            time.sleep(chance.uniform(0, 0.02))
            child.send_signal(signal.SIGKILL)
            told = child.stdout.read().split()
            child.wait()
            child.stdout.close()
            kills += 1
            journal = Journal(FileStore(home, disk=HastyDisk()))
            lines = [each.line for each in journal.records(max(0, homes[home] - 1))]
            numbers = [int(line[5:].split(b",")[0]) for line in lines]
            assert numbers == list(range(homes[home], homes[home] + len(numbers)))
            if told:
                assert homes[home] + len(numbers) >= int(told[-1])
            homes[home] += len(numbers)
            journal.close()
    for home, count in homes.items():
        assert count > 50
        assert kept(home, readonly=True) == list(range(1, count))
        assert verify(home).ok
        assert len(firsts(home / "journal")) > 1


def lifetime(home, disk, durability):
    """Opens, appends through several rolls, erases, prunes; what was acknowledged, and what failed."""
    acknowledged, failures = [], []
    journal = None
    for number in range(12):
        try:
            journal = journal or Journal(
                FileStore(home, disk=disk, segment_size=400, durability=durability), Clock()
            )
            journal.append(entries(2 * number, 2 * number + 1), lifecycle=number % 3 == 0)
            acknowledged += [2 * number, 2 * number + 1]
        except NotAppended as error:
            failures.append(error)
    return journal, acknowledged, failures


@pytest.mark.parametrize("durability", ["sync", "os", "lifecycle"])
@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC], ids=["EIO", "ENOSPC"])
def test_every_call_that_can_fail_is_made_to_fail_once(tmp_path, tally, durability, error):
    counting = FailingDisk()
    lifetime(tmp_path / "count", counting, durability)
    assert {"write", "sync", "open", "sync_folder", "rename", "make_folder"} <= set(counting.calls)
    for at in range(len(counting.calls)):
        home = tmp_path / f"fail{at}"
        disk = FailingDisk(at, error, short=at % 2 == 0)
        journal, acknowledged, failures = lifetime(home, disk, durability)
        where = f"{disk.failed} at {at}"
        assert len(failures) <= 1, where
        assert all(failure.hint for failure in failures), where
        if disk.failed in ("write", "sync") and failures:
            full = error == errno.ENOSPC
            expected = JournalFull if full else (NotDurable, StoreBroken)
            assert isinstance(failures[0], expected), where
        live = [int(each.line[5:].split(b",")[0]) for each in journal.records()]
        assert live == acknowledged, where
        journal.close()
        assert kept(home, segment_size=400) == acknowledged, where
        assert verify(home).ok, where
        tally.add(faults=disk.failed is not None, acknowledged=len(acknowledged))
        shutil.rmtree(home)
    tally.done(f"failing disk, {durability}")


def test_a_failed_write_that_cannot_be_taken_back_is_never_read(tmp_path):
    class Stuck(FailingDisk):
        stuck = False

        def write(self, fd, block):
            if self.stuck:
                os.write(fd, block[: len(block) // 2])
                raise OSError(errno.EIO, "Input/output error")
            return super().write(fd, block)

        def truncate(self, fd, size):
            if self.stuck:
                raise OSError(errno.EIO, "Input/output error")
            super().truncate(fd, size)

    disk = Stuck()
    journal = Journal(FileStore(tmp_path, disk=disk))
    journal.append(entries(1))
    disk.stuck = True
    for _ in range(3):
        with pytest.raises(StoreBroken):
            journal.append(entries(2, 3))
    assert [each.seq for each in journal.records()] == [1]
    disk.stuck = False
    assert journal.append(entries(4)) == range(2, 3)
    journal.close()
    assert kept(tmp_path) == [1, 4]
    assert verify(tmp_path).ok


def test_after_a_failed_sync_what_was_in_doubt_is_written_again(tmp_path):
    written = []

    class Forgetful(FailingDisk):
        bad = False

        def sync(self, fd):
            if self.bad:
                self.bad = False
                raise OSError(errno.EIO, "Input/output error")
            super().sync(fd)

        def write(self, fd, block):
            written.append(bytes(block))
            return super().write(fd, block)

    disk = Forgetful()
    journal = Journal(FileStore(tmp_path, disk=disk, durability="lifecycle"))
    journal.append(entries(1))
    disk.bad = True
    with pytest.raises(NotDurable, match="did not confirm"):
        journal.append(entries(2), lifecycle=True)
    assert (journal.last, journal.durable) == (1, 0)
    written.clear()
    journal.append(entries(3), lifecycle=True)
    assert b'"n":1' in written[0]
    assert (journal.last, journal.durable) == (2, 2)
    journal.close()
    assert kept(tmp_path) == [1, 3]


def test_a_disk_that_writes_seven_bytes_at_a_time_is_enough(tmp_path):
    journal = Journal(FileStore(tmp_path, disk=ShortDisk()))
    journal.append(entries(1, 2, 3))
    assert [each.seq for each in journal.records()] == [1, 2, 3]
    assert verify(tmp_path).ok


LOSSES = [
    (names, kept_bytes)
    for names in ("safe", "all")
    for kept_bytes in ("none", "half", "all", "holes")
]


def test_power_loss_at_every_step_leaves_what_was_acknowledged(tmp_path):
    """Every call is a moment at which power may go, with every mix of what was not synced."""
    root = tmp_path / "real"
    root.mkdir()
    disk = RememberingDisk(root)
    acknowledged, moments, checked = [], 0, 0

    def lose_power():
        nonlocal moments, checked
        moments += 1
        for number, (names, kept_bytes) in enumerate(LOSSES):
            home = tmp_path / "after"
            home.mkdir()
            disk.leave(home, names=names, bytes_kept=kept_bytes)
            found = kept(home / "home", segment_size=600)
            assert found[: len(acknowledged)] == acknowledged, (moments, names, kept_bytes)
            assert found == list(range(1, len(found) + 1))
            assert verify(home / "home").ok, (moments, number)
            shutil.rmtree(home)
            checked += 1

    disk.moment = lose_power
    journal = Journal(FileStore(root / "home", disk=disk, segment_size=600), Clock())
    for number in range(1, 18, 2):
        journal.append(entries(number, number + 1))
        acknowledged += [number, number + 1]
        lose_power()
    assert len(firsts(root / "home" / "journal")) >= 3
    assert checked > 300


@pytest.mark.parametrize("durability", ["os", "interval"])
def test_power_loss_under_weaker_words_leaves_a_prefix_that_verifies(tmp_path, durability):
    root = tmp_path / "real"
    root.mkdir()
    disk = RememberingDisk(root)
    store = FileStore(
        root / "home", disk=disk, segment_size=600, durability=durability, interval=60
    )
    journal = Journal(store, Clock())
    for number in range(1, 20, 2):
        journal.append(entries(number, number + 1))
        for names, kept_bytes in LOSSES:
            home = tmp_path / "after"
            home.mkdir()
            disk.leave(home, names=names, bytes_kept=kept_bytes)
            found = kept(home / "home", segment_size=600)
            assert found == list(range(1, len(found) + 1))
            assert len(found) >= journal.durable
            assert verify(home / "home").ok
            shutil.rmtree(home)
    journal.close()


def test_power_loss_while_erasing_and_pruning_leaves_the_one_or_the_other(tmp_path):
    root = tmp_path / "real"
    root.mkdir()
    disk = RememberingDisk(root)
    store = FileStore(root / "home", disk=disk, segment_size=300)
    journal = Journal(store, Clock())
    for number in range(1, 9):
        journal.append(entries(number, run=f"r{number}"))

    def lose_power():
        for names, kept_bytes in LOSSES:
            home = tmp_path / "after"
            home.mkdir()
            disk.leave(home, names=names, bytes_kept=kept_bytes)
            again = FileStore(home / "home", segment_size=300)
            first, last = again.first, again.last
            assert first in {1, *firsts(root / "home" / "journal")}
            assert last == 8
            found = {each.seq: each for each in Journal(again).records()}
            assert list(found) == list(range(first, 9))
            assert all(each.erased or each.line for each in found.values())
            again.erase(5, reason="secret", by="me", at="2026-05-05T09:00:00.000Z")
            assert verify(home / "home").ok, (names, kept_bytes)
            again.close()
            shutil.rmtree(home)

    disk.moment = lose_power
    store.erase(5, reason="secret", by="me", at="2026-05-05T09:00:00.000Z")
    cut = store.prune(journal.read(3, 1)[0].received, at="2026-05-05T09:00:00.000Z")
    assert 0 < cut.through < 4
    assert verify(root / "home").ok


def test_a_sync_that_fails_in_the_background_is_an_error_of_the_next_append(tmp_path):
    class Failing(HastyDisk):
        bad = False

        def sync(self, fd):
            if self.bad:
                self.bad = False
                raise OSError(errno.EIO, "Input/output error")

    disk = Failing()
    store = FileStore(tmp_path, disk=disk, durability="interval", interval=0.01)
    journal = Journal(store)
    disk.bad = True
    journal.append(entries(1))
    assert eventually(lambda: store._failed)
    assert (journal.last, journal.durable) == (1, 0)
    with pytest.raises(NotDurable):
        journal.append(entries(2))
    journal.append(entries(3))
    journal.sync()
    assert (journal.last, journal.durable) == (2, 2)
    journal.close()
    assert kept(tmp_path) == [1, 3]


def test_a_chain_that_cannot_be_made_again_stops_the_writer_and_no_reader(tmp_path):
    journal = Journal(FileStore(tmp_path, segment_size=300, disk=HastyDisk()))
    for number in range(1, 10):
        journal.append(entries(number))
    journal.close()
    for first in firsts(tmp_path / "journal")[-2:]:
        chain_path(tmp_path / "journal", first).unlink()
    with pytest.raises(StoreBroken, match=r"the chain of segment .* is lost") as error:
        FileStore(tmp_path, disk=HastyDisk())
    assert "backup" in error.value.hint
    reader = Journal(FileStore(tmp_path, readonly=True))
    assert [each.seq for each in reader.records()] == list(range(1, 10))


def test_a_folder_that_cannot_be_made_is_reported_with_its_remedy(tmp_path):
    with pytest.raises(StoreBroken, match="cannot be written") as error:
        FileStore(tmp_path / ("x" * 300))
    assert "owner and mode" in error.value.hint


@pytest.mark.parametrize("readonly", [False, True])
@pytest.mark.parametrize("home", ["file", "file/home"])
def test_a_file_in_the_place_of_a_home_is_reported_with_its_remedy(tmp_path, home, readonly):
    (tmp_path / "file").write_text("")
    with pytest.raises(BadFormat, match="a file is in its place") as error:
        FileStore(tmp_path / home, readonly=readonly)
    assert "name another place" in error.value.hint
    assert (tmp_path / "file").read_text() == ""


def test_a_lost_segment_is_reported_and_the_numbers_go_on_behind_it(tmp_path):
    with Journal(FileStore(tmp_path, segment_size=300)) as journal:
        for number in range(1, 8):
            journal.append(entries(number))
    last = firsts(tmp_path / "journal")[-1]
    said = chain_path(tmp_path / "journal", last).read_bytes()
    segment_path(tmp_path / "journal", last).unlink()
    with Journal(FileStore(tmp_path, segment_size=300)) as journal:
        (found,) = journal.findings
        assert found.name == "segment-lost"
        assert f"records {last} to 7 is gone" in found.message
        assert journal.append(entries(8)) == range(8, 9)
    assert chain_path(tmp_path / "journal", last).read_bytes() == said
    with Journal(FileStore(tmp_path)) as journal:
        assert not journal.findings
    assert [fault.seq for fault in verify(tmp_path).faults] == [last, last]


def test_a_seal_without_its_next_segment_is_finished_on_opening(tmp_path):
    journal = Journal(FileStore(tmp_path, segment_size=300, disk=HastyDisk()))
    for number in range(1, 8):
        journal.append(entries(number))
    journal.close()
    last = firsts(tmp_path / "journal")[-1]
    segment_path(tmp_path / "journal", last).unlink()  # the power went before its name was safe
    links = chain_path(tmp_path / "journal", last)
    links.write_bytes(links.read_bytes().splitlines(keepends=True)[0])
    found = kept(tmp_path, segment_size=300)
    assert found == list(range(1, last))
    assert verify(tmp_path).ok
