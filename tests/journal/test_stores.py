"""Every store passes the suite; the file store does what only files can do."""

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tracklog.home import registry
from tracklog.journal import frame
from tracklog.journal.segments import chain_path, firsts, runs_path, segment_path
from tracklog.journal.segments.places import SegmentRuns, load_runs
from tracklog.journal.stores import file
from tracklog.journal.stores.file import FileStore
from tracklog.journal.stores.memory import MemoryStore
from tracklog.journal.verify import verify
from tracklog.model.errors import BadFormat, StoreBroken, UnknownName
from tracklog.testing import StoreSuite, frames_of


class TestMemory(StoreSuite):
    keeps = False

    def open(self, where):
        return MemoryStore()


class TestFile(StoreSuite):
    def open(self, where):
        return FileStore(where)


class TestFileWithoutMemoryOfItsRuns(StoreSuite):
    """A store that appended to too many runs asks the table that all writers share."""

    @pytest.fixture(autouse=True)
    def _no_memory(self, monkeypatch):
        monkeypatch.setattr(file, "OWN_RUNS", 0)

    def open(self, where):
        return FileStore(where)


class TestFileOfSmallSegments(StoreSuite):
    """A segment for every group or two: every test crosses many rolls."""

    def open(self, where):
        return FileStore(where, segment_size=200, durability="os")


class TestFileOfAnotherFolder(StoreSuite):
    def open(self, where):
        return FileStore(where, folder="refused", durability="lifecycle")


class TestFileByInterval(StoreSuite):
    def open(self, where):
        return FileStore(where, durability="interval", interval=0.01)


def numbers(frames):
    return [frame.seq_of(each) for each in frames]


def test_storages_are_chosen_by_path_or_url(tmp_path, monkeypatch):
    assert isinstance(registry.storage("memory:").store, MemoryStore)
    monkeypatch.chdir(tmp_path)
    for place in (tmp_path, str(tmp_path), f"file:{tmp_path}", "file:home", Path("memory:")):
        storage = registry.storage(place, durability="os")
        assert isinstance(storage.store, FileStore)
        assert storage.store.durability == "os"
        storage.close()
    assert (tmp_path / "home" / "format").exists()
    assert {"file", "memory"} <= set(registry.storage_names())
    with pytest.raises(UnknownName, match="no storage for 'tape:/dev/st0'") as error:
        registry.storage("tape:/dev/st0")
    assert "file:" in error.value.hint


def test_files_are_for_their_owner_alone(tmp_path):
    store = FileStore(tmp_path / "deep" / "home")
    store.append(frames_of([b"{}"]))
    store.read(0, 1, ("spoken", "r1"))
    store.close()
    for path in (tmp_path / "deep").rglob("*"):
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600), path


def test_a_home_says_its_format_and_a_newer_one_is_refused(tmp_path):
    FileStore(tmp_path).close()
    assert (tmp_path / "format").read_bytes() == b"2\n"
    (tmp_path / "format").write_bytes(b"3\n")
    with pytest.raises(BadFormat, match="knows the formats up to 2"):
        FileStore(tmp_path)


def test_segments_roll_by_size_and_are_named_after_their_first_record(tmp_path):
    store = FileStore(tmp_path, segment_size=1000, durability="os")
    for _ in range(50):
        store.append(frames_of([b"{}"]))
    known = firsts(tmp_path / "journal")
    assert len(known) > 3
    for first in known:
        text = segment_path(tmp_path / "journal", first).read_bytes()
        assert text == b"" or frame.seq_of(text) == first
    assert numbers(store.read(0, 100)) == list(range(1, 51))
    assert verify(tmp_path).ok


def test_two_stores_of_one_home_see_each_other(tmp_path):
    one, two = (FileStore(tmp_path, segment_size=2000, durability="os") for _ in range(2))
    for number in range(40):
        writer = (one, two)[number % 2]
        assert writer.append(frames_of([b"{}"])) == number + 1
        assert one.last == two.last == number + 1
    assert numbers(one.read(0, 100)) == numbers(two.read(0, 100)) == list(range(1, 41))
    assert verify(tmp_path).ok


def test_a_reader_follows_a_growing_file_and_its_rolls(tmp_path):
    writer = FileStore(tmp_path, segment_size=3000, durability="os")
    reader = FileStore(tmp_path, readonly=True)
    seen = []

    def follow():
        after = 0
        while after < 500:
            assert reader.wait(after, 20)
            found = numbers(reader.read(after, 7))
            seen.extend(found)
            after = found[-1]

    thread = threading.Thread(target=follow)
    thread.start()
    for _ in range(250):
        writer.append(frames_of([b"{}", b'{"a":1}']))
    thread.join(30)
    assert seen == list(range(1, 501))


def test_a_segment_without_records_and_without_a_chain_has_nothing(tmp_path):
    FileStore(tmp_path).close()
    chain_path(tmp_path / "journal", 1).unlink()
    store = FileStore(tmp_path, readonly=True)
    assert (store.first, store.last) == (1, 0)


def test_a_read_only_store_changes_nothing(tmp_path):
    store = FileStore(tmp_path)
    store.append(frames_of([b"{}"]))
    store.close()
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    reader = FileStore(tmp_path, readonly=True)
    assert reader.last == 1
    with pytest.raises(StoreBroken, match="read-only"):
        reader.append(frames_of([b"{}"]))
    reader.close()
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before
    nothing = FileStore(tmp_path / "none", readonly=True)
    assert (nothing.first, nothing.last, nothing.read(0, 5)) == (1, 0, [])
    assert not (tmp_path / "none").exists()


def test_what_has_no_chain_line_yet_is_not_read_beside_a_writer(tmp_path):
    store = FileStore(tmp_path, durability="os")
    store.append(frames_of([b"{}"]))
    reader = FileStore(tmp_path, readonly=True)
    with segment_path(tmp_path / "journal", 1).open("ab") as file:
        file.write(frames_of([b"{}"])(2).frames[0] + b"\n")
    assert reader.read(0, 10) == store.read(0, 10)
    assert reader.last == store.last == 1


def test_a_place_in_the_middle_is_found_without_reading_what_is_before(tmp_path, monkeypatch):
    store = FileStore(tmp_path, durability="os")
    for start in range(0, 40_000, 1000):
        store.append(
            frames_of(
                [b'{"n":%d,"pad":"%b"}' % (n, b"x" * (n % 300)) for n in range(start, start + 1000)]
            )
        )
    read = 0
    pread = os.pread

    def counted(fd, size, offset):
        nonlocal read
        block = pread(fd, size, offset)
        read += len(block)
        return block

    monkeypatch.setattr(os, "pread", counted)
    for after in (1, 12_345, 20_000, 39_998):
        reader = FileStore(tmp_path, readonly=True)
        read = 0
        assert numbers(reader.read(after, 2)) == [after + 1, after + 2]
        assert read < 400_000


class TestRunPlaces:
    """The `.runs` files are derived: missing, torn and stale ones are written again."""

    @pytest.fixture
    def home(self, tmp_path):
        store = FileStore(tmp_path, segment_size=1500, durability="os")
        for number in range(60):
            store.append(frames_of([b'{"n":%d}' % number], run=f"r{number % 4}"))
        assert len(store.read(0, 100, ("spoken", "r2"))) == 15
        store.close()
        return tmp_path

    def saved(self, home):
        found = sorted((home / "journal").glob("*.runs"))
        assert len(found) > 2
        return found

    def check(self, home):
        store = FileStore(home, readonly=True)
        for number in range(4):
            found = store.read(0, 100, ("spoken", f"r{number}"))
            assert numbers(found) == list(range(number + 1, 61, 4))
        return store

    def test_missing(self, home):
        for path in self.saved(home):
            path.unlink()
        self.check(home)
        self.saved(home)

    def test_removed_while_a_reader_knows_them(self, home):
        reader = self.check(home)
        for path in self.saved(home):
            path.unlink()
        assert numbers(reader.read(0, 100, ("spoken", "r2"))) == list(range(3, 61, 4))
        self.saved(home)

    def test_torn_at_every_byte(self, home):
        path = self.saved(home)[1]
        whole = path.read_bytes()
        for cut in range(len(whole)):
            path.write_bytes(whole[:cut])
            self.check(home).close()
            assert path.read_bytes() == whole

    def test_flipped_at_every_byte(self, home):
        path = self.saved(home)[0]
        whole = path.read_bytes()
        for at in range(len(whole)):
            path.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
            self.check(home).close()

    def test_of_a_segment_that_was_rewritten(self, home):
        reader = self.check(home)
        path = self.saved(home)[1]
        old = path.read_bytes()
        store = FileStore(home, segment_size=1500)
        victim = numbers(reader.read(0, 100, ("spoken", "r2")))[4]
        store.erase(victim, reason="secret", by="me", at="2026-05-05T09:00:00.000Z")
        path.write_bytes(old)
        assert numbers(reader.read(0, 100, ("spoken", "r2"))) == list(range(3, 61, 4))
        self.check(home)

    def test_in_a_folder_that_cannot_be_written(self, home):
        for path in self.saved(home):
            path.unlink()
            path.mkdir()  # so that the rename fails, for root too
        self.check(home)


def test_a_removed_home_is_reported_at_once_and_the_next_opening_starts_a_new_one(tmp_path):
    home = tmp_path / "home"
    store = FileStore(home)
    store.append(frames_of([b"{}"]))
    for path in sorted(home.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    home.rmdir()
    with pytest.raises(StoreBroken, match="was removed"):
        store.append(frames_of([b"{}"]))
    again = FileStore(home)
    assert again.append(frames_of([b"{}"])) == 1
    assert store.append(frames_of([b"{}"])) == 2


def test_a_forked_child_has_a_lock_of_its_own(tmp_path):
    store = FileStore(tmp_path, durability="os")
    store.append(frames_of([b"{}"]))
    children = []
    for _ in range(4):
        child = os.fork()
        if child == 0:
            for _ in range(50):
                store.append(frames_of([b"{}"]))
            os._exit(0)
        children.append(child)
    for _ in range(50):
        store.append(frames_of([b"{}"]))
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 4
    assert numbers(store.read(0, 1000)) == list(range(1, 252))
    assert verify(tmp_path).ok


def test_a_line_of_many_megabytes_is_read_back(tmp_path):
    store = FileStore(tmp_path, durability="os")
    big = b'{"a":"%b"}' % (b"x" * (12 << 20))
    store.append(frames_of([b"{}", big, b"{}", big, b"{}"]))
    read, after = [], 0
    while found := store.read(after, 10):
        read += numbers(found)
        after = read[-1]
    assert read == [1, 2, 3, 4, 5]
    cold = FileStore(tmp_path, readonly=True)
    assert numbers(cold.read(3, 1)) == [4]
    assert numbers(cold.read(4, 1)) == [5]
    assert len(store.read(1, 1)[0]) > 12 << 20


def test_memory_stays_bounded_however_many_are_asked_for(tmp_path):
    store = FileStore(tmp_path, durability="os")
    line = b'{"a":"%b"}' % (b"x" * 100_000)
    for _ in range(10):
        store.append(frames_of([line] * 20))
    found = store.read(0, 1_000_000)
    assert 80 <= len(found) <= 100
    assert len(store.read(0, 1_000_000, ("spoken", "r1"))) < 120


def test_a_sidecar_is_written_when_a_run_is_first_asked_for(tmp_path):
    store = FileStore(tmp_path, segment_size=100, durability="os")
    for _ in range(3):
        store.append(frames_of([b"{}"]))
    folder = Path(tmp_path / "journal")
    assert not runs_path(folder, 1).exists()
    store.read(0, 10, ("spoken", "r1"))
    assert runs_path(folder, 1).exists()
    assert chain_path(folder, 1).read_bytes().endswith(b"}\n")


def test_half_a_character_at_the_end_is_no_torn_tail(tmp_path):
    line = rb'{"a":"cut \ud83d"}'
    FileStore(tmp_path).append(frames_of([line]))
    again = FileStore(tmp_path)
    again.append(frames_of([b"{}"]))
    assert again.findings == []
    assert [frame.record(each).line for each in again.read(0, 10)] == [line, b"{}"]


def test_a_sidecar_holds_what_was_saved_and_one_that_cannot_be_saved_is_done_without(tmp_path):
    runs = SegmentRuns(1)
    runs.size = 5
    runs.save(tmp_path / "gone" / "1.runs", "c")
    runs.save(tmp_path / "1.runs", "c")
    assert load_runs(tmp_path / "1.runs", 1, 5, "c") is not None
    for other in ((2, 5, "c"), (1, 6, "c"), (1, 5, "d")):
        assert load_runs(tmp_path / "1.runs", *other) is None


@pytest.mark.parametrize("begin", [0, 10])
@pytest.mark.parametrize("limit", [1, 3])
def test_damage_of_more_than_one_block_does_not_hide_what_is_behind_it(tmp_path, begin, limit):
    store = FileStore(tmp_path)
    store.append(frames_of([b'{"n":%d}' % n for n in range(40)]))
    path = segment_path(tmp_path / "journal", 1)
    lines = path.read_bytes().splitlines(keepends=True)
    bad = [b"#" * 2000 + b"\n" for _ in lines[begin:30]]
    path.write_bytes(b"".join([*lines[:begin], *bad, *lines[30:]]))
    assert numbers(store.read(begin, limit)) == [31, 32, 33][:limit]
    store.close()


@pytest.mark.parametrize("damage", [(0, b'["seq":'), (-1, b"x")])
def test_a_frame_with_a_known_head_and_damaged_ends_is_none(tmp_path, damage):
    store = FileStore(tmp_path)
    store.append(frames_of([b'{"n":1}', b'{"n":2}', b'{"n":3}']))
    good = store.read(0, 9)
    store.close()
    at, bytes_ = damage
    bad = bytes_ + good[2][len(bytes_) :] if at == 0 else good[2][:-1] + bytes_
    found = frame.read([*good, bad])
    assert [each and each.seq for each in found] == [1, 2, 3, None]


NO_STREAMS = """
import os, sys
from tracklog.journal.stores import file
from tracklog.journal.stores.file import FileStore
from tracklog.testing import frames_of
for number in range(3):
    os.close(number)
for shift in range(3):  # so that any of the store's files gets number 0
    held = [os.open(os.devnull, os.O_RDONLY) for _ in range(shift)]
    one = FileStore(sys.argv[1], segment_size=300)
    if held:
        os.close(0)
    for _ in range(4):
        one.append(frames_of([b'{"n":1}']))
        other = FileStore(sys.argv[1])  # waits for ever if the first one does not let it
        other.append(frames_of([b'{"n":2}']))
        other.close()
    one.close()
"""


def test_a_process_without_standard_streams_writes_and_lets_others_write(tmp_path):
    """Its files then have the numbers 0, 1 and 2."""
    words = [sys.executable, "-c", NO_STREAMS, str(tmp_path)]
    assert subprocess.run(words, timeout=120, check=False).returncode == 0
    report = verify(tmp_path)
    assert (report.ok, report.records) == (True, 24)


def test_a_store_has_as_many_open_files_after_a_hundred_segments_as_after_one(tmp_path):
    store = FileStore(tmp_path, segment_size=200, durability="os")
    counts = []
    for _ in range(100):
        store.append(frames_of([b'{"n":1}' * 20]))
        store.read(0, 1000)
        counts.append(len(list(Path("/dev/fd").iterdir())))
    store.close()
    assert len(firsts(tmp_path / "journal")) >= 100
    assert counts[-1] <= counts[2]
