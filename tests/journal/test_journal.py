"""The journal: numbers, bytes, cursors, and groups that are committed together."""

import subprocess
import sys
import threading
import time
import tracemalloc
from datetime import UTC, datetime

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.failing import HastyDisk
from support.forking import script
from support.waiting import eventually
from tracklog.journal.disk import Disk
from tracklog.journal.frame import record, records, stamp
from tracklog.journal.journal import Journal, JournalEntry, Record
from tracklog.journal.stores.file import FileStore
from tracklog.journal.stores.memory import MemoryStore
from tracklog.journal.verify import verify
from tracklog.model.errors import BadLine
from tracklog.model.event import Event
from tracklog.testing import Clock, memory_journal

names = st.text(st.characters(codec="utf-8"), max_size=12)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)
lines = st.dictionaries(names, values, max_size=4).map(orjson.dumps)
entries = st.builds(JournalEntry, dialect=names, family=names, run=names, line=lines)
batches = st.lists(st.lists(entries, min_size=1, max_size=6), max_size=6)


def entry(number, run="r1"):
    return JournalEntry("spoken", "spoken", run, b'{"n":%d}' % number)


@given(
    st.floats(-1e9, 4e9)
    | st.integers(0, 4 * 10**9)
    | st.integers(0, 10**10).map(lambda n: n / 2000)
)
def test_a_time_is_written_with_milliseconds_that_are_cut_not_rounded(seconds):
    text = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
    assert stamp(seconds) == f"{text[:23]}Z"


def test_a_frame_is_exactly_this():
    journal = Journal(MemoryStore(), lambda: 1_777_971_600.0)
    journal.append([JournalEntry("awf", "awf", "r1", b'{ "a" : 1.0 }')])
    journal.append([JournalEntry("ralph", "kahn", 'r"1\\', b"{}")], redacted={0: ["aws-key"]})
    plain, odd = journal.store.read(0, 9)
    assert plain == (
        b'{"seq":1,"received":"2026-05-05T09:00:00.000Z","dialect":"awf","run":"r1",'
        b'"event":{ "a" : 1.0 }}'
    )
    assert odd == (
        b'{"seq":2,"received":"2026-05-05T09:00:00.000Z","dialect":"ralph","family":"kahn",'
        b'"run":"r\\"1\\\\","redacted":["aws-key"],"event":{}}'
    )
    assert journal.read()[1] == Record(
        2, "2026-05-05T09:00:00.000Z", "ralph", "kahn", 'r"1\\', b"{}", ("aws-key",)
    )


def test_an_event_can_be_appended_as_it_is():
    journal = memory_journal()
    event = Event("awf", "awf", "r1", "run.started", None, None, None, None, {}, b'{"k":1}')
    assert journal.append([event]) == range(1, 2)
    assert journal.read()[0].line == b'{"k":1}'


@given(batches)
def test_lines_come_out_as_they_went_in_byte_for_byte(given):
    journal = memory_journal()
    flat = [each for batch in given for each in batch]
    for batch in given:
        journal.append(batch)
    assert [JournalEntry(r.dialect, r.family, r.run, r.line) for r in journal.records()] == flat
    assert [r.seq for r in journal.records()] == list(range(1, len(flat) + 1))
    for frame in journal.store.read(0, 99):
        assert orjson.loads(frame)["seq"] == record(frame).seq
        assert [record(frame)] == records([frame])


@settings(max_examples=25, deadline=None)
@given(batches, st.lists(st.integers(1, 9), min_size=1), st.integers(100, 3000))
def test_reading_in_any_chunking_gives_the_same_records(tmp_path_factory, given, sizes, segment):
    home = tmp_path_factory.mktemp("home")
    journal = Journal(FileStore(home, durability="os", segment_size=segment), Clock())
    flat = [each for batch in given for each in batch]
    for batch in given:
        journal.append(batch)
    cold = Journal(FileStore(home, readonly=True))
    read, turn = [], 0
    while found := cold.read(read[-1].seq if read else 0, sizes[turn % len(sizes)]):
        assert len(found) <= sizes[turn % len(sizes)]
        read += found
        turn += 1
    assert [JournalEntry(r.dialect, r.family, r.run, r.line) for r in read] == flat
    assert read == list(journal.records())
    for run in {(each.family, each.run) for each in flat}:
        alone = [each for each in read if (each.family, each.run) == run]
        assert list(cold.records(run=run)) == alone
        assert cold.read(alone[0].seq, 2, run) == alone[1:3]
    assert verify(home).ok
    journal.close()
    cold.close()


def test_a_line_that_is_two_lines_is_refused_and_nothing_of_its_batch_is_stored():
    journal = memory_journal()
    with pytest.raises(BadLine, match="line end"):
        journal.append([entry(1), JournalEntry("spoken", "spoken", "r", b'{"a":\n1}')])
    assert journal.last == 0
    assert list(journal.append([])) == []


def test_received_is_the_given_clock():
    journal = memory_journal()
    for number in range(3):
        journal.append([entry(number)])
    stamps = [each.received for each in journal.records()]
    assert stamps == sorted(stamps)
    assert stamps[0] == "2026-05-03T03:09:37.000Z"
    assert stamps[2] == "2026-05-03T03:09:37.002Z"


def test_follow_gives_what_is_there_and_what_comes(tmp_path):
    journal = Journal(FileStore(tmp_path, durability="os", segment_size=2000))
    other = Journal(FileStore(tmp_path, durability="os", segment_size=2000))
    journal.append([entry(0)])

    def write():
        for number in range(1, 100):
            other.append([entry(number, run="r1" if number % 2 else "r2")])
            time.sleep(0.001)

    writer = threading.Thread(target=write)
    writer.start()
    seen = [each.seq for _, each in zip(range(100), journal.follow(), strict=False)]
    assert seen == list(range(1, 101))
    alone = journal.follow(run=("spoken", "r2"))
    assert [each.seq for _, each in zip(range(49), alone, strict=False)] == list(range(3, 101, 2))
    writer.join()


class Counting(Disk):
    def __init__(self):
        self.syncs = 0

    def sync(self, fd):
        self.syncs += 1
        super().sync(fd)


class SlowSync(Counting):
    """A disk on which the gain of a group does not hang on the speed of this one."""

    def sync(self, fd):
        time.sleep(0.002)
        super().sync(fd)


def test_threads_that_wait_together_are_synced_together(tmp_path):
    disk = SlowSync()
    journal = Journal(FileStore(tmp_path, disk=disk))
    disk.syncs = 0
    numbers = [[] for _ in range(32)]

    def produce(mine):
        for number in range(10):
            mine += journal.append([entry(number)])

    threads = [threading.Thread(target=produce, args=(mine,)) for mine in numbers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(n for mine in numbers for n in mine) == list(range(1, 321))
    assert all(mine == sorted(mine) for mine in numbers)
    assert journal.durable == journal.last == 320
    assert disk.syncs < 80
    assert verify(tmp_path).ok


def test_an_error_reaches_everyone_who_waited_and_the_next_group_is_written(tmp_path):
    class Failing(Disk):
        fails = False

        def write(self, fd, block):
            if self.fails:
                time.sleep(0.01)
                raise OSError(5, "Input/output error")
            return super().write(fd, block)

    disk = Failing()
    journal = Journal(FileStore(tmp_path, disk=disk))
    disk.fails = True
    failures = []

    def produce():
        try:
            journal.append([entry(1)])
        except Exception as error:  # noqa: BLE001 - what reached the thread is the claim
            failures.append(error)

    threads = [threading.Thread(target=produce) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(failures) == 8
    disk.fails = False
    assert journal.append([entry(2)]) == range(1, 2)
    assert [each.line for each in journal.records()] == [b'{"n":2}']


class TestDurability:
    def journal(self, tmp_path, durability, **options):
        disk = Counting()
        journal = Journal(FileStore(tmp_path, durability=durability, disk=disk, **options))
        disk.syncs = 0
        return journal, disk

    def test_sync_is_on_disk_before_it_is_acknowledged(self, tmp_path):
        journal, disk = self.journal(tmp_path, "sync")
        for number in range(3):
            journal.append([entry(number)])
            assert (disk.syncs, journal.durable) == (number + 1, number + 1)

    def test_with_os_nothing_is_synced_until_asked(self, tmp_path):
        journal, disk = self.journal(tmp_path, "os")
        journal.append([entry(1)], lifecycle=True)
        assert (disk.syncs, journal.durable, journal.last) == (0, 0, 1)
        journal.sync()
        assert (disk.syncs, journal.durable) == (1, 1)

    def test_lifecycle_syncs_groups_that_are_marked(self, tmp_path):
        journal, disk = self.journal(tmp_path, "lifecycle")
        journal.append([entry(1)])
        assert journal.durable == 0
        journal.append([entry(2)], lifecycle=True)
        journal.append([entry(3)])
        assert (disk.syncs, journal.durable, journal.last) == (1, 2, 3)

    def test_interval_syncs_soon_and_once_for_many(self, tmp_path):
        journal, disk = self.journal(tmp_path, "interval", interval=0.05)
        for number in range(10):
            journal.append([entry(number)])
        assert disk.syncs <= 1
        assert eventually(lambda: journal.durable == 10)
        assert disk.syncs <= 3


WRITER = """
import sys
from tracklog.journal.journal import JournalEntry, Journal
from tracklog.journal.stores.file import FileStore
home, name, batches, size = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
journal = Journal(FileStore(home, segment_size=size))
sys.stdin.readline()
for number in range(batches):
    seqs = journal.append([JournalEntry("spoken", "spoken", name, b'{"n":%d}' % (2 * number + k)) for k in (0, 1)])
    print(seqs.start, seqs.stop)
"""


def test_eight_processes_write_to_one_journal_at_once(tmp_path):
    writers = [
        script(WRITER, tmp_path, f"w{n}", 60, 20000, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for n in range(8)
    ]
    for writer in writers:  # begin together
        writer.stdin.write(b"\n")
        writer.stdin.flush()
    told = [writer.communicate(timeout=60)[0].split() for writer in writers]
    assert [writer.returncode for writer in writers] == [0] * 8
    journal = Journal(FileStore(tmp_path, readonly=True))
    kept = list(journal.records())
    assert [each.seq for each in kept] == list(range(1, 961))
    for n, spoken in enumerate(told):
        mine = [each for each in kept if each.run == f"w{n}"]
        assert [each.line for each in mine] == [b'{"n":%d}' % k for k in range(120)]
        assert [each.seq for each in mine][::2] == [int(word) for word in spoken[::2]]
        assert list(journal.records(run=("spoken", f"w{n}"))) == mine
    assert len(list((tmp_path / "journal").glob("*.jsonl"))) > 3
    assert verify(tmp_path).ok
    assert not list((tmp_path / "quarantine").iterdir())


def test_a_bad_line_in_the_middle_is_a_finding_and_never_a_stop(tmp_path):
    journal = Journal(FileStore(tmp_path, disk=HastyDisk()))
    for number in range(1, 31):
        journal.append([entry(number, run=f"r{number % 2}")])
    path = tmp_path / "journal" / f"{1:020d}.jsonl"
    text = path.read_bytes().split(b"\n")
    text[9] = b"\0" * len(text[9])
    text[19] = text[19].replace(b'"received"', b'"deceived"')
    path.write_bytes(b"\n".join(text))
    cold = Journal(FileStore(tmp_path, disk=HastyDisk()))
    for size in (1, 3, 100):
        seen, after = [], 0
        while found := cold.read(after, size):
            seen += [each.seq for each in found]
            after = seen[-1]
        assert seen == [n for n in range(1, 31) if n not in (10, 20)]
    told = [finding.message for finding in cold.findings if finding.name == "damaged"]
    assert any("record 10 cannot be read" in message for message in told)
    assert any("record 20 cannot be read" in message for message in told)
    assert len(list(cold.records(run=("spoken", "r1")))) == 15
    assert cold.append([entry(31)]) == range(31, 32)


def test_glued_lines_hide_no_other_record(tmp_path):
    journal = Journal(FileStore(tmp_path, durability="os"))
    for number in range(1, 11):
        journal.append([entry(number)])
    path = tmp_path / "journal" / f"{1:020d}.jsonl"
    text = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join([*text[:3], text[3][:20] + text[4], *text[5:]]))
    cold = Journal(FileStore(tmp_path, readonly=True))
    assert [each.seq for each in cold.records()] == [1, 2, 3, 6, 7, 8, 9, 10]
    assert "records 4 to 5" in cold.findings[0].message


def test_memory_is_flat_while_a_hundred_megabytes_are_read(tmp_path):
    journal = Journal(FileStore(tmp_path, durability="os"))
    wide = b'{"pad":"%b"}' % (b"x" * 1000)
    for _ in range(100):
        journal.append([JournalEntry("spoken", "spoken", "r", wide)] * 1000)
    tracemalloc.start()
    try:
        assert sum(1 for _ in journal.records()) == 100_000
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


def test_a_producer_that_is_interrupted_leaves_the_others_a_leader(tmp_path):
    """Ctrl-C in the middle of waiting, again and again, while others append."""
    program = """
import os, signal, sys, threading, time
from tracklog.model.errors import NotAppended
from tracklog.journal.journal import JournalEntry, Journal
from tracklog.journal.stores.file import FileStore
journal = Journal(FileStore(sys.argv[1]))
entry = [JournalEntry("spoken", "spoken", "r", b"{}")]
def produce():
    kept = 0
    while kept < 150:
        try:
            kept += len(journal.append(entry))
        except NotAppended:
            pass
threads = [threading.Thread(target=produce) for _ in range(4)]
for thread in threads: thread.start()
def interrupt():
    while any(thread.is_alive() for thread in threads):
        time.sleep(0.003)
        os.kill(os.getpid(), signal.SIGUSR1)
def stop(_, frame):
    if appending and frame.f_code.co_filename != "<string>":  # in the journal, not in this program
        raise KeyboardInterrupt
appending = False
signal.signal(signal.SIGUSR1, stop)
threading.Thread(target=interrupt, daemon=True).start()
hit = 0
while True:
    try:
        appending = True
        while any(thread.is_alive() for thread in threads):
            journal.append(entry)
        break
    except (KeyboardInterrupt, NotAppended):
        hit += 1
appending = False
signal.signal(signal.SIGUSR1, signal.SIG_IGN)
for thread in threads: thread.join()
assert journal.append(entry).start > 600
print(hit)
"""
    told = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    assert int(told.stdout) > 3
    assert verify(tmp_path).ok
