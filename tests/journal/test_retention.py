"""Erasing one record, pruning old segments, keeping blobs: what goes is gone, what stays verifies."""

import base64
import errno
import os
import stat
from hashlib import sha256

import pytest

from support.failing import FailingDisk, HastyDisk
from tracklog.journal.blobs import FileBlobs
from tracklog.journal.journal import Erased, Journal, JournalEntry
from tracklog.journal.segments import firsts
from tracklog.journal.stores.file import FileStore
from tracklog.journal.verify import head, verify
from tracklog.model.errors import BlobDamaged, NoSuchBlob, NoSuchRecord, StoreBroken
from tracklog.testing import Clock

AT = "2026-05-05T09:00:00.000Z"
SECRET = b'{"key":"sk-very-secret-0123456789"}'


def opened(home, **options):
    return FileStore(home, **{"disk": HastyDisk(), "segment_size": 500, **options})


def everywhere(home):
    return b"".join(path.read_bytes() for path in home.rglob("*") if path.is_file())


class TestErase:
    def test_the_bytes_are_gone_and_the_rest_verifies(self, tmp_path):
        store = opened(tmp_path)
        journal = Journal(store, Clock())
        for number in range(1, 10):
            line = SECRET if number == 4 else b'{"n":%d}' % number
            journal.append([JournalEntry("spoken", "kahn", f"r{number % 2}", line)])
        noted = head(tmp_path)
        before = journal.read(3, 1)[0]
        done = store.erase(4, reason="leaked key", by="an operator", at=AT)
        assert (done.seq, done.run) == (4, ("kahn", "r0"))
        assert SECRET not in everywhere(tmp_path)
        assert b"sk-very-secret" not in everywhere(tmp_path)
        erased = journal.read(3, 1)[0]
        assert erased == before._replace(
            line=b"", erased=Erased(done.leaf, "leaked key", "an operator", AT)
        )
        assert [each.seq for each in journal.records()] == list(range(1, 10))
        assert [each.seq for each in journal.records(run=("kahn", "r0"))] == [2, 4, 6, 8]
        report = verify(tmp_path, noted)
        assert (report.ok, report.erased) == (True, [4])
        assert store.erase(4, reason="again", by="me", at=AT) == done._replace(also=())
        assert journal.append([JournalEntry("spoken", "kahn", "r0", b"{}")]) == range(10, 11)
        assert verify(tmp_path, head(tmp_path)).ok

    def test_a_record_in_the_middle_of_a_segment_of_megabytes_can_be_erased(self, tmp_path):
        store = opened(tmp_path, segment_size=1 << 30)
        journal = Journal(store, Clock())
        wide = b'{"pad":"%b"}' % (b"x" * 100_000)
        for number in range(50):
            journal.append(
                [JournalEntry("spoken", "kahn", "r", SECRET if number == 37 else wide)] * 2
            )
        store.erase(75, reason="leaked key", by="me", at=AT)
        store.erase(76, reason="leaked key", by="me", at=AT)
        assert SECRET not in everywhere(tmp_path)
        assert len(list(journal.records())) == 100
        report = verify(tmp_path)
        assert (report.ok, report.erased) == (True, [75, 76])

    @pytest.mark.parametrize("seq", [1, 5, 9])
    def test_any_record_of_any_segment_can_be_erased(self, tmp_path, seq):
        store = opened(tmp_path, segment_size=1 << 20)
        journal = Journal(store, Clock())
        journal.append([JournalEntry("spoken", "kahn", "r", b'{"n":%d}' % n) for n in range(1, 10)])
        store.erase(seq, reason="why", by="me", at=AT)
        assert [each.seq for each in journal.records() if each.erased] == [seq]
        assert verify(tmp_path).erased == [seq]

    def test_a_reader_with_the_old_file_in_its_hand_reads_on(self, tmp_path):
        store = opened(tmp_path, segment_size=1 << 20)
        journal = Journal(store, Clock())
        journal.append(
            [JournalEntry("spoken", "kahn", "r", b'{"n":%d}' % n) for n in range(1, 101)]
        )
        other = Journal(FileStore(tmp_path, readonly=True))
        seen = [each.seq for each in other.read(0, 40)]
        store.erase(7, reason="why", by="me", at=AT)
        journal.append([JournalEntry("spoken", "kahn", "r", b'{"n":101}')])
        while found := other.read(seen[-1], 40):
            seen += [each.seq for each in found]
        assert seen == list(range(1, 102))
        assert [each.seq for each in other.records(run=("kahn", "r"))] == seen

    def test_other_writers_go_on(self, tmp_path):
        one, two = opened(tmp_path), opened(tmp_path)
        first, second = Journal(one, Clock()), Journal(two, Clock())
        first.append([JournalEntry("spoken", "kahn", "r", SECRET)])
        second.append([JournalEntry("spoken", "kahn", "r", b"{}")])
        one.erase(1, reason="why", by="me", at=AT)
        assert second.append([JournalEntry("spoken", "kahn", "r", b"{}")]) == range(3, 4)
        assert first.append([JournalEntry("spoken", "kahn", "r", b"{}")]) == range(4, 5)
        assert verify(tmp_path).ok

    def test_an_erasure_that_failed_elsewhere_is_finished_by_doing_it_again(self, tmp_path):
        store = opened(tmp_path)
        Journal(store, Clock()).append([JournalEntry("spoken", "kahn", "r", SECRET)])
        (tmp_path / "quarantine" / "a.torn").mkdir()  # cannot be read as a file
        (tmp_path / "quarantine" / "b.torn").write_bytes(SECRET)
        with pytest.raises(StoreBroken, match=r"a\.torn"):
            store.erase(1, reason="leaked key", by="me", at=AT)
        (tmp_path / "quarantine" / "a.torn").rmdir()
        assert not verify(tmp_path).ok
        done = store.erase(1, reason="leaked key", by="me", at=AT)
        assert done.also == ("quarantine/b.torn",)
        assert SECRET not in everywhere(tmp_path)
        report = verify(tmp_path)
        assert (report.ok, report.erased) == (True, [1])

    def test_quarantine_and_refused_are_cleaned_too(self, tmp_path):
        store = opened(tmp_path)
        journal = Journal(store, Clock())
        journal.append([JournalEntry("spoken", "kahn", "r", SECRET)])
        (tmp_path / "quarantine" / "old.torn").write_bytes(b"before" + SECRET + b"behind")
        refused = Journal(opened(tmp_path, folder="refused"), Clock())
        kept = base64.b64encode(SECRET)
        refused.append([JournalEntry("spoken", "kahn", "r", b'{"line":"%b"}' % kept)])
        refused.append([JournalEntry("spoken", "kahn", "r", b'{"line":"b3RoZXI="}')])
        done = store.erase(1, reason="why", by="me", at=AT)
        assert done.also == ("quarantine/old.torn", "refused/1")
        assert SECRET not in everywhere(tmp_path)
        assert kept not in everywhere(tmp_path)
        assert (tmp_path / "quarantine" / "old.torn").read_bytes() == b'before{"erased":true}behind'
        assert [bool(each.erased) for each in refused.records()] == [True, False]
        assert verify(tmp_path).ok
        assert verify(tmp_path, folder="refused").ok

    def test_a_number_that_is_not_there_is_refused(self, tmp_path):
        store = opened(tmp_path)
        for seq in (0, 1, 99):
            with pytest.raises(NoSuchRecord, match=f"no record {seq}"):
                store.erase(seq, reason="why", by="me", at=AT)

    def test_cut_short_by_any_failure_it_can_be_done_again(self, tmp_path):
        def erase(home, fail_at):
            disk = HastyDisk()
            store = opened(home, disk=disk)
            journal = Journal(store, Clock())
            for number in range(1, 9):
                journal.append(
                    [JournalEntry("spoken", "kahn", "r", SECRET if number == 3 else b"{}")]
                )
            failing = store.writer.disk = FailingDisk(fail_at, errno.EIO)
            failed = False
            try:
                store.erase(3, reason="why", by="me", at=AT)
            except Exception:  # noqa: BLE001 - whatever it is, doing it again must help
                failed = True
            store.writer.disk = disk
            return store, failed, failing.calls

        calls = len(erase(tmp_path / "count", None)[2])
        assert calls > 8
        for at in range(calls):
            home = tmp_path / str(at)
            store, failed, _ = erase(home, at)
            assert failed
            store.close()
            again = opened(home)
            again.erase(3, reason="why", by="me", at=AT)
            assert SECRET not in everywhere(home), at
            assert verify(home).erased == [3], at
            assert Journal(again, Clock()).append([JournalEntry("s", "k", "r", b"{}")]) == range(
                9, 10
            )


class TestPrune:
    @pytest.fixture
    def store(self, tmp_path):
        store = opened(tmp_path)
        journal = Journal(store, Clock())
        for number in range(1, 31):
            journal.append(
                [JournalEntry("spoken", "kahn", f"r{number // 6}", b'{"n":%d}' % number)]
            )
        assert len(firsts(tmp_path / "journal")) > 5
        return store

    def moment(self, store, seq):
        return Journal(store).read(seq - 1, 1)[0].received

    def test_old_segments_go_and_the_rest_verifies(self, store, tmp_path):
        noted = head(tmp_path)
        before = sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file())
        reader = Journal(FileStore(tmp_path, readonly=True))
        assert reader.read(0, 1)[0].seq == 1
        done = store.prune(self.moment(store, 20), at=AT)
        assert 10 < done.through < 20
        assert done.records == done.through
        after = sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file())
        assert 0 < done.bytes <= before - after + 4000
        assert after < before
        assert store.first == reader.first == done.through + 1
        assert [each.seq for each in reader.records()] == list(range(done.through + 1, 31))
        assert reader.read(0, 1)[0].seq == done.through + 1
        report = verify(tmp_path, noted)
        assert (report.ok, report.first) == (True, done.through + 1)
        gone = {number // 6 for number in range(1, done.through + 1)}
        left = {number // 6 for number in range(done.through + 1, 31)}
        assert done.whole == tuple(("kahn", f"r{n}") for n in sorted(gone - left))
        assert done.part == tuple(("kahn", f"r{n}") for n in sorted(gone & left))
        assert done.whole
        assert done.part
        assert not list((tmp_path / "journal").glob(f"{1:020d}.*"))
        store.close()
        again = opened(tmp_path)
        assert again.first == done.through + 1
        assert Journal(again).append([JournalEntry("spoken", "kahn", "r", b"{}")]) == range(31, 32)
        assert verify(tmp_path, noted).ok

    def test_an_open_run_stops_it(self, store):
        done = store.prune("9999", at=AT, is_open=lambda run: run == ("kahn", "r1"))
        assert done.through < 8
        assert store.read(7, 1)
        assert store.prune("9999", at=AT, is_open=lambda run: run == ("kahn", "r1")).through == 0

    def test_dry_it_changes_nothing(self, store, tmp_path):
        before = everywhere(tmp_path)
        done = store.prune(self.moment(store, 20), at=AT, dry=True)
        assert done.through > 0
        assert store.first == 1
        assert len(everywhere(tmp_path)) >= len(before)

    def test_everything_may_go_and_numbers_go_on(self, store, tmp_path):
        noted = head(tmp_path)
        done = store.prune("9999", at=AT)
        assert done.through == 30
        assert (store.first, store.last, store.read(0, 9)) == (31, 30, [])
        assert verify(tmp_path, noted).ok
        assert Journal(store).append([JournalEntry("spoken", "kahn", "r", b"{}")]) == range(31, 32)
        assert (store.first, store.last) == (31, 31)
        assert store.prune("9999", at=AT).through == 31
        assert verify(tmp_path).ok

    def test_a_segment_that_vanishes_without_a_record_of_it_is_a_fault(self, store, tmp_path):
        store.prune(self.moment(store, 20), at=AT)
        (tmp_path / "journal" / "pruned").unlink()
        assert verify(tmp_path).faults[0].seq == 1

    def test_a_reader_in_the_middle_of_a_prune_continues_with_the_remaining_records(
        self, store, tmp_path
    ):
        reader = Journal(FileStore(tmp_path, readonly=True))
        seen = [each.seq for each in reader.read(0, 3)]
        store.prune(self.moment(store, 20), at=AT)
        seen += [each.seq for each in reader.records(seen[-1])]
        assert seen == [1, 2, 3, *range(store.first, 31)]

    def test_cut_short_it_is_finished_by_the_next_opening(self, store, tmp_path):
        moment = self.moment(store, 20)
        failing = store.writer.disk = FailingDisk(None)
        removing = failing.remove
        left = [3]

        def remove(path):
            left[0] -= 1
            if left[0] < 0:
                raise OSError(errno.EIO, "Input/output error")
            removing(path)

        failing.remove = remove
        with pytest.raises(Exception, match="cannot be written"):
            store.prune(moment, at=AT)
        store.close()
        again = opened(tmp_path)
        assert again.first > 10
        assert verify(tmp_path).ok
        assert firsts(tmp_path / "journal")[0] == again.first


class TestBlobs:
    def test_put_once_and_got_by_hash(self, tmp_path):
        blobs = FileBlobs(tmp_path)
        name = blobs.put(b"a picture")
        assert name == sha256(b"a picture").hexdigest()
        assert blobs.put(b"a picture") == name
        assert blobs.get(name) == b"a picture"
        assert blobs.size(name) == 9
        assert blobs.size("0" * 64) is None
        path = tmp_path / "blobs" / "sha256" / name[:2] / name[2:]
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700

    def test_they_are_listed_and_collected(self, tmp_path):
        blobs = FileBlobs(tmp_path)
        assert list(blobs.list()) == []
        names = sorted(blobs.put(b"%d" % n) for n in range(20))
        assert list(blobs.list()) == names
        assert blobs.collect(lambda name: name in names[:5], older_than=1) == 0
        assert blobs.collect(lambda name: name in names[:5]) == sum(
            len(b"%d" % n) for n in range(20) if sha256(b"%d" % n).hexdigest() not in names[:5]
        )
        assert list(blobs.list()) == names[:5]

    def test_what_two_put_and_one_pack_lost_is_found_in_the_other(self, tmp_path):
        """However their names sort, and whatever number the file system gives a file again."""
        for n in range(8):
            one, two, reader = (FileBlobs(tmp_path / str(n)) for _ in range(3))
            one.put_all([b"told twice"])
            (old,) = (tmp_path / str(n)).rglob("*.pack")
            os.utime(old, (1, 1))
            two.put_all([b"told twice"])
            name = sha256(b"told twice").hexdigest()
            assert [*reader.list()] == [name]
            assert one.collect(lambda _: False, older_than=2) == 10
            assert reader.get(name) == two.get(name) == b"told twice"
            one.put_all([b"told twice"])
            assert len([*(tmp_path / str(n)).rglob("*.pack")]) == 2

    def test_damage_is_reported_and_never_returned(self, tmp_path):
        blobs = FileBlobs(tmp_path)
        name = blobs.put(b"a picture")
        (tmp_path / "blobs" / "sha256" / name[:2] / name[2:]).write_bytes(b"a pikture")
        with pytest.raises(BlobDamaged, match="does not have the bytes"):
            blobs.get(name)

    def test_what_is_not_there_is_refused(self, tmp_path):
        blobs = FileBlobs(tmp_path)
        for name in ("0" * 64, "../../etc/passwd", "", "A" * 64):
            with pytest.raises(NoSuchBlob):
                blobs.get(name)

    def test_a_failure_leaves_no_half_blob(self, tmp_path):
        counting = FailingDisk(None)
        FileBlobs(tmp_path / "count", counting).put(b"a picture")
        for at in range(len(counting.calls)):
            home = tmp_path / str(at)
            disk = FailingDisk(at, errno.ENOSPC, short=True)
            with pytest.raises(OSError, match="space"):
                FileBlobs(home, disk).put(b"a picture")
            blobs = FileBlobs(home)
            assert [blobs.get(name) for name in blobs.list()] in ([], [b"a picture"])
            assert blobs.get(blobs.put(b"a picture")) == b"a picture"


class TestPacks:
    def test_many_small_blobs_are_one_file_and_one_sync(self, tmp_path):
        disk = FailingDisk(None)
        blobs = FileBlobs(tmp_path, disk)
        blobs.put_all(b"%d" % n for n in range(20))
        assert disk.calls.count("sync") == 1
        blobs.put_all([b"3", b"another", b"x" * (1 << 20)])
        names = sorted(sha256(each).hexdigest() for each in [b"%d" % n for n in range(20)])
        for reader in (blobs, FileBlobs(tmp_path)):
            assert [reader.get(name) for name in names] == [
                b"%d" % n for name in names for n in range(20)
                if sha256(b"%d" % n).hexdigest() == name
            ]  # fmt: skip  # one thing
            assert set(reader.list()) > set(names)
            assert reader.size(sha256(b"another").hexdigest()) == 7
            assert reader.size(sha256(b"x" * (1 << 20)).hexdigest()) == 1 << 20
        assert len(list((tmp_path / "blobs").rglob("*.pack"))) == 1
        (pack,) = (tmp_path / "blobs").rglob("*.pack")
        assert pack.read_bytes().count(b" 1\n3\n") == 1
        assert stat.S_IMODE(pack.stat().st_mode) == 0o600

    def test_what_is_collected_is_gone_from_its_pack_and_the_rest_is_left(self, tmp_path):
        blobs, other = FileBlobs(tmp_path), FileBlobs(tmp_path)
        contents = [b"secret", b"kept", b"", b"more\n"]
        blobs.put_all(contents)
        secret, *names = (sha256(each).hexdigest() for each in contents)
        assert sorted(other.list()) == sorted([secret, *names])
        assert blobs.collect(lambda name: name in names, older_than=1) == 0
        assert blobs.collect(lambda name: name in names) == 6
        (pack,) = (tmp_path / "blobs").rglob("*.pack")
        assert b"secret" not in pack.read_bytes()
        for reader in (blobs, other, FileBlobs(tmp_path)):
            assert [reader.get(name) for name in names] == contents[1:]
            with pytest.raises(NoSuchBlob):
                reader.get(secret)
        blobs.put_all([b"secret"])
        assert other.get(secret) == b"secret"
        blobs.collect(lambda _: False)
        assert not list((tmp_path / "blobs").rglob("*.pack"))
        blobs.put_all([b"kept"])
        assert [*other.list()] == [*FileBlobs(tmp_path).list()] == [names[0]]

    def test_damage_is_reported_and_never_returned(self, tmp_path):
        blobs = FileBlobs(tmp_path)
        blobs.put_all([b"a picture"])
        (pack,) = (tmp_path / "blobs").rglob("*.pack")
        pack.write_bytes(pack.read_bytes().replace(b"a picture", b"a pikture"))
        with pytest.raises(BlobDamaged, match=pack.name):
            blobs.get(sha256(b"a picture").hexdigest())

    def test_a_failure_loses_nothing_that_was_put_before_or_after(self, tmp_path):
        counting = FailingDisk(None)
        counted = FileBlobs(tmp_path / "count", counting)
        counted.put_all([b"first"])
        before = len(counting.calls)
        counted.put_all([b"second", b"third"])
        for at in range(before, len(counting.calls)):
            disk = FailingDisk(at, errno.ENOSPC, short=True)
            blobs = FileBlobs(tmp_path / str(at), disk)
            blobs.put_all([b"first"])
            with pytest.raises(OSError, match="space"):
                blobs.put_all([b"second", b"third"])
            blobs.put_all([b"second", b"fourth"])
            for reader in (blobs, FileBlobs(tmp_path / str(at))):
                for each in (b"first", b"second", b"fourth"):
                    assert reader.get(sha256(each).hexdigest()) == each

    def test_what_was_put_lately_is_left_alone(self, tmp_path):
        blobs = FileBlobs(tmp_path)
        blobs.put(b"x" * (1 << 20))
        blobs.put_all([b"packed"])
        for path in (tmp_path / "blobs").rglob("*"):
            os.utime(path, (1, 1))
        young = blobs.put(b"y" * (1 << 20))
        assert blobs.collect(lambda _: False, older_than=1000) == (1 << 20) + len(b"packed")
        assert [*blobs.list()] == [young]
