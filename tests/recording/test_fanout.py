"""The fan-out: bounded, drop-newest, told and healed; no subscriber ever holds up a write."""

import asyncio
import logging
import threading
import time

import pytest

from support.transcribing import FailingDisk, bodies, called, opened, said, step
from support.waiting import eventually
from tracklog.recording.fanout import FanOut, Gap
from tracklog.recording.transcript import Entry


def entry(seq, type="step.started") -> Entry:
    return Entry(seq, type, b'{"seq":%d,"type":"%b"}' % (seq, type.encode()))


def publish(fanout, *numbers) -> None:
    for number in numbers:
        fanout.publish(entry(number))


def seqs(found) -> list:
    return [each if isinstance(each, Gap) else each.seq for each in found]


@pytest.mark.requirement("AWF-50")
def test_a_buffer_holds_256_events_by_default():
    fanout = FanOut()
    heard = fanout.subscribe()
    assert heard.buffer == 256
    publish(fanout, *range(1, 300))
    fanout.close()
    assert seqs(heard) == [*range(1, 257), Gap(257, 299, 43)]


@pytest.mark.parametrize("buffer", [0, -1, 2.5, "8", None, True])
def test_a_buffer_size_that_is_no_integer_is_refused(buffer):
    with pytest.raises(ValueError, match="buffer"):
        FanOut().subscribe(buffer=buffer)


@pytest.mark.requirement("AWF-49", "AWF-52")
def test_two_subscribers_receive_the_same_and_a_filtered_one_its_part():
    fanout = FanOut()
    one, two = fanout.subscribe(), fanout.subscribe()
    tools = fanout.subscribe(types=["tool.call", "tool.result"])
    kinds = ["step.started", "tool.call", "tool.result", "step.completed"]
    for seq, kind in enumerate(kinds, 1):
        fanout.publish(entry(seq, kind))
    fanout.close()
    assert list(one) == list(two) == [entry(seq, kind) for seq, kind in enumerate(kinds, 1)]
    assert seqs(tools) == [2, 3]


@pytest.mark.requirement("AWF-51")
def test_a_full_buffer_drops_what_arrives_until_it_drains():
    fanout = FanOut()
    heard = fanout.subscribe(buffer=4)
    publish(fanout, *range(1, 6))
    assert seqs([next(heard) for _ in range(4)]) == [1, 2, 3, 4]
    assert next(heard) == Gap(5, 5, 1)
    publish(fanout, 6)
    assert next(heard).seq == 6


@pytest.mark.requirement("AWF-52", "AWF-53")
def test_drops_are_counted_exactly_and_each_subscriber_s_own():
    fanout = FanOut()
    slow, quick = fanout.subscribe("slow", buffer=2), fanout.subscribe("quick", buffer=20)
    publish(fanout, *range(1, 11))
    stats = fanout.stats()
    assert (stats.published, stats.dropped_total) == (10, 8)
    first, second = stats.subscribers
    assert (first.name, first.enqueued, first.dropped, first.lag) == ("slow", 2, 8, 2)
    assert (first.first_dropped_seq, first.last_dropped_seq, first.high_water) == (3, 10, 2)
    assert (second.name, second.enqueued, second.dropped, second.high_water) == ("quick", 10, 0, 10)
    fanout.close()
    assert seqs(slow) == [1, 2, Gap(3, 10, 8)]
    assert seqs(quick) == list(range(1, 11))
    assert slow.stats().gaps == 1
    assert quick.stats().delivered == 10


def test_a_gap_comes_at_its_place_in_the_middle_merged_and_before_the_end():
    fanout = FanOut(run_id="r")
    heard = fanout.subscribe(buffer=2)
    publish(fanout, 1, 2, 3, 4)
    assert next(heard).seq == 1
    publish(fanout, 5)  # the gap rides in front of it
    publish(fanout, 6, 7)
    fanout.close()
    assert seqs(heard) == [2, Gap(3, 4, 2, "r"), 5, Gap(6, 7, 2, "r")]


def test_a_gap_counts_only_what_was_asked_for():
    fanout = FanOut()
    heard = fanout.subscribe(buffer=1, types=["tool.call"])
    for seq, kind in enumerate(["tool.call", "step.started", "tool.call", "step.started"] * 2, 1):
        fanout.publish(entry(seq, kind))
    fanout.close()
    assert seqs(heard) == [1, Gap(3, 7, 3)]


def test_a_gap_is_json_that_no_reader_takes_for_an_event():
    body = Gap(5, 6, 2, "r").body
    assert body == {"gap": {"run_id": "r", "first_seq": 5, "last_seq": 6, "count": 2}}


@pytest.mark.requirement("AWF-14")
def test_a_hundred_publishes_to_a_stuck_subscriber_do_not_wait():
    fanout = FanOut()
    fanout.subscribe(buffer=1)
    took = []
    for n in range(10):  # the machine does not stand still in each of ten
        began = time.monotonic()
        publish(fanout, *range(100 * n + 1, 100 * n + 101))
        took.append(time.monotonic() - began)
    assert min(took) < 0.5


@pytest.mark.requirement("AWF-14", "AWF-55")
def test_a_stuck_subscriber_never_delays_a_write_and_the_file_is_complete(tmp_path):
    with opened(tmp_path, durability="os") as recorder:
        stuck = recorder.subscribe(buffer=8)
        took = []
        for _ in range(2000):
            began = time.perf_counter()
            recorder.record("tool.call", called())
            took.append(time.perf_counter() - began)
        assert sorted(took)[1000] < 0.002
        assert recorder.stats().fanout.dropped_total == 1992
    assert [body["seq"] for body in bodies(recorder.path)] == list(range(1, 2001))
    assert seqs(stuck) == [*range(1, 9), Gap(9, 2000, 1992, recorder.run_id)]


@pytest.mark.requirement("AWF-51", "AWF-53", "AWF-55")
def test_a_slow_reader_gets_a_count_of_missed_events_and_the_disk_has_all(tmp_path):
    got: list = []
    with opened(tmp_path, durability="os") as recorder:
        heard = recorder.subscribe(buffer=8)

        def read():
            for each in heard:
                got.append(each)
                time.sleep(0.001)

        thread = threading.Thread(target=read)
        thread.start()
        took = []
        for _ in range(200):
            began = time.monotonic()
            recorder.record("tool.call", called())
            took.append(time.monotonic() - began)
        assert sorted(took)[100] < 2 / 200
    thread.join()
    received = [each.seq for each in got if not isinstance(each, Gap)]
    lost = [seq for each in got if isinstance(each, Gap) for seq in range(*each.range)]
    lost += [each.last_seq for each in got if isinstance(each, Gap)]
    stats = heard.stats()
    assert stats.delivered + stats.dropped == 200
    assert sorted(received + lost) == list(range(1, 201))
    assert len(bodies(recorder.path)) == 200


def test_healing_under_load_gives_every_number_once_and_in_order(tmp_path):
    got: list = []
    with opened(tmp_path, durability="os") as recorder:
        heard = recorder.subscribe(buffer=4, heal=True)
        reader = threading.Thread(target=lambda: got.extend(heard))
        reader.start()

        def write():
            for _ in range(1500):
                recorder.record("tool.call", called())

        writers = [threading.Thread(target=write) for _ in range(4)]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
    reader.join()
    assert seqs(got) == list(range(1, 6001))
    assert [each.line for each in got] == recorder.path.read_bytes().split(b"\n")[:-1]
    assert heard.stats().healed == heard.stats().dropped


def test_a_gap_can_be_healed_by_hand_and_only_with_what_was_asked_for(tmp_path):
    with opened(tmp_path) as recorder:
        heard = recorder.subscribe(buffer=1, types=["tool.call"])
        for _ in range(3):
            recorder.record("tool.call", called())
            recorder.record("step.started", step())
    first, gap = list(heard)
    assert (first.seq, gap.range, gap.count) == (1, (3, 5), 2)
    assert seqs(heard.heal(gap)) == [3, 5]


def test_a_range_that_cannot_be_read_stays_a_gap(tmp_path):
    recorder = opened(tmp_path)
    heard = recorder.subscribe(buffer=1, heal=True)
    for _ in range(3):
        recorder.record("tool.call", called())
    recorder.path.rename(tmp_path / "moved")
    recorder.close()
    assert seqs(heard) == [1, Gap(2, 3, 2, recorder.run_id)]


def test_a_file_put_in_the_place_of_the_transcript_is_not_believed(tmp_path):
    recorder = opened(tmp_path)
    heard = recorder.subscribe(buffer=1, heal=True)
    for _ in range(3):
        recorder.record("tool.call", called())
    content = recorder.path.read_bytes()
    recorder.path.rename(tmp_path / "moved")
    recorder.path.write_bytes(content.replace(b"read", b"fake"))
    recorder.close()
    assert seqs(heard) == [1, Gap(2, 3, 2, recorder.run_id)]


def test_a_cursor_is_handed_over_from_file_to_queue_while_others_write(tmp_path):
    with opened(tmp_path, durability="os") as recorder:
        go = threading.Event()

        def write():
            for _ in range(2000):
                recorder.record("tool.call", called())
            go.wait(10)

        writer = threading.Thread(target=write)
        writer.start()
        heard = []
        for _ in range(20):
            heard.append((recorder.stats().last_seq, recorder.subscribe(after_seq=10, heal=True)))
            time.sleep(0.002)
        go.set()
        writer.join()
        last = recorder.stats().last_seq
    for _, subscription in heard:
        assert seqs(subscription) == list(range(11, last + 1))


def test_a_cursor_reaches_back_over_a_seam_and_finds_its_place_in_a_long_file(tmp_path):
    with opened(tmp_path, durability="os") as recorder:
        for _ in range(1000):
            recorder.record("tool.call", called())
    with opened(tmp_path, recorder.run_id, durability="os") as again:
        for _ in range(1000):
            again.record("tool.call", called())
        for after in (0, 255, 256, 999, 1000, 1001, 1535, 1999, 2000):
            assert seqs(again._writer.read(after + 1, 2000)) == list(range(after + 1, 2001))


def test_after_close_a_subscription_ends_at_once_or_after_its_replay(tmp_path):
    with opened(tmp_path) as recorder:
        recorder.record("tool.call", called())
    assert list(recorder.subscribe()) == []
    assert seqs(recorder.subscribe(after_seq=0)) == [1]
    fanout = FanOut()
    fanout.close()
    fanout.publish(entry(1))
    assert fanout.stats().published == 0


@pytest.mark.requirement("AWF-57")
def test_closing_a_subscription_three_times_keeps_what_is_queued_and_its_count():
    fanout = FanOut()
    heard, other = fanout.subscribe(buffer=2), fanout.subscribe()
    publish(fanout, 1, 2, 3)
    for _ in range(3):
        heard.close()
    publish(fanout, 4)
    assert seqs(heard) == [1, 2, Gap(3, 3, 1)]
    assert fanout.stats().dropped_total == 1
    assert [each.name for each in fanout.stats().subscribers] == [other.name]
    for _ in range(3):
        fanout.close()
    assert seqs(other) == [1, 2, 3, 4]
    heard.close()
    assert fanout.stats().dropped_total == 1


def test_a_blocked_reader_is_woken_by_close():
    fanout = FanOut()
    heard = fanout.subscribe()
    done: list = []
    thread = threading.Thread(target=lambda: done.extend(heard))
    thread.start()
    publish(fanout, 1)
    assert eventually(lambda: done)
    heard.close()
    thread.join(60)
    assert not thread.is_alive()
    assert seqs(done) == [1]


def test_get_waits_only_so_long():
    fanout = FanOut()
    with fanout.subscribe() as heard:
        assert heard.get(timeout=0.01) is None
        publish(fanout, 1)
        assert heard.get(timeout=60).seq == 1
    assert heard.get() is None


@pytest.mark.requirement("AWF-54")
def test_drops_are_warned_of_at_once_and_then_once_per_second_and_subscriber(caplog):
    now = [50.0]
    fanout = FanOut(clock=lambda: now[0])
    fanout.subscribe("one", buffer=1)
    fanout.subscribe("two", buffer=1)

    def warnings():
        found = [
            (record.subscriber, record.dropped, record.first_dropped_seq, record.last_dropped_seq)
            for record in caplog.records
            if record.levelno == logging.WARNING and record.name == "tracklog"
        ]
        caplog.clear()
        return found

    publish(fanout, 1, 2)
    assert warnings() == [("one", 1, 2, 2), ("two", 1, 2, 2)]
    for seq in range(3, 12):
        now[0] += 0.1
        publish(fanout, seq)
    assert warnings() == []
    now[0] += 0.1
    publish(fanout, 12)
    assert warnings() == [("one", 10, 3, 12), ("two", 10, 3, 12)]
    now[0] += 100
    assert warnings() == []
    publish(fanout, 13)
    assert warnings() == [("one", 1, 13, 13), ("two", 1, 13, 13)]


def test_a_warning_that_records_is_outside_the_critical_section(tmp_path):
    """A log handler may itself write to the recorder."""

    class Recording(logging.Handler):
        def emit(self, record):
            self.entry = recorder.record("message.assistant", said(record.getMessage()))

    handler = Recording()
    log = logging.getLogger("tracklog")
    log.addHandler(handler)
    try:
        with opened(tmp_path) as recorder:
            recorder.subscribe(buffer=1)
            recorder.record("tool.call", called())
            recorder.record("tool.call", called())
            assert handler.entry.seq == 3
    finally:
        log.removeHandler(handler)


def test_what_has_no_type_or_number_is_not_published(caplog):
    fanout = FanOut()
    heard = fanout.subscribe()
    fanout.publish(Entry(1, "", b"{}"))
    fanout.publish(Entry(None, "step.started", b"{}"))
    fanout.close()
    assert list(heard) == []
    assert len(caplog.records) == 2


def test_what_one_subscriber_does_to_an_event_no_other_sees(tmp_path):
    with opened(tmp_path) as recorder:
        one, two = recorder.subscribe(), recorder.subscribe()
        recorder.record("tool.call", called(input={"a": 1}))
    event = next(one)
    event.body["payload"]["input"]["a"] = 2
    with pytest.raises(AttributeError):
        event.line = b""
    assert next(two).body["payload"]["input"] == {"a": 1}


def test_an_event_loop_receives_what_threads_write_without_being_blocked(tmp_path):
    async def work():
        with opened(tmp_path, durability="os") as recorder:
            heard, ticks = recorder.subscribe(buffer=1000), 0

            async def listen():
                return [each.seq async for each in heard]

            async def tick():
                nonlocal ticks
                while True:
                    ticks += 1
                    await asyncio.sleep(0.001)

            def write():
                for _ in range(300):
                    recorder.record("tool.call", called())
                    time.sleep(0.0001)

            ticker, listener = asyncio.create_task(tick()), asyncio.create_task(listen())
            await asyncio.to_thread(write)
            await asyncio.to_thread(recorder.close)
            found = await asyncio.wait_for(listener, 5)
            ticker.cancel()
            return found, ticks

    found, ticks = asyncio.run(work())
    assert found == list(range(1, 301))
    assert ticks > 5


def test_a_listener_whose_loop_is_closed_disturbs_nobody(tmp_path):
    with opened(tmp_path) as recorder:
        heard = recorder.subscribe()

        async def listen():
            await asyncio.wait_for(anext(heard), 0.01)

        with pytest.raises(TimeoutError):
            asyncio.run(listen())
        heard._wake = lambda: None
        assert recorder.record("tool.call", called()).seq == 1
        assert next(heard).seq == 1


def test_a_tee_copies_every_line_and_is_done_at_close(tmp_path):
    with opened(tmp_path, durability="os") as recorder:
        tee = recorder.tee(tmp_path / "copy.jsonl")
        for _ in range(3000):
            recorder.record("tool.call", called())
    assert tee.error is None
    assert (tmp_path / "copy.jsonl").read_bytes() == recorder.path.read_bytes()
    assert (tmp_path / "copy.jsonl").stat().st_mode & 0o777 == 0o600


def test_a_tee_to_a_missing_folder_ends_and_the_recorder_goes_on(tmp_path, caplog):
    with opened(tmp_path) as recorder:
        tee = recorder.tee(tmp_path / "missing" / "copy.jsonl")
        for _ in range(600):
            recorder.record("tool.call", called())
    assert isinstance(tee.error, OSError)
    assert "has ended" in caplog.text
    assert len(bodies(recorder.path)) == 600


@pytest.mark.requirement("AWF-13", "AWF-76")
def test_no_subscriber_sees_an_event_that_is_not_in_the_file(tmp_path):
    disk = FailingDisk()
    with opened(tmp_path, disk=disk) as recorder:
        heard = recorder.subscribe()
        seen = []
        for place in range(20):
            if place % 3 == 1:
                disk.fail("write", 28)
            recorder.emit("tool.call", called(str(place)))
            while (found := heard.get(timeout=0)) is not None:
                seen.append(found.line)
                assert found.line + b"\n" in recorder.path.read_bytes()
    seen += [each.line for each in heard]
    assert seen == recorder.path.read_bytes().split(b"\n")[:-1]
