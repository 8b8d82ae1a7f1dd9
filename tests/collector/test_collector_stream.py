"""The live stream: nothing is missed, nobody is waited for."""

import asyncio
import contextlib
import resource
import socket
import threading
import time
from datetime import datetime

import orjson
import pytest

from support.collecting import Collector, Events, collector, start, tool
from support.soaking import SOAK
from support.waiting import eventually
from tracklog.collector.stream import Hub
from tracklog.collector.watching import StreamFilter, Watcher
from tracklog.home.home import Home
from tracklog.model.errors import StoreBroken
from tracklog.web.limits import Limits


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with collector(tmp_path_factory.mktemp("home"), "--durability", "os") as made:
        yield made


def last(server) -> int:
    return server.get("/api/events", params={"limit": 1}).json()["last"]


def test_a_watcher_receives_the_frames_of_the_journal(server):
    with Events(server) as events:
        assert b"text/event-stream" in events.head
        hello = events.next()
        assert hello["event"] == "heartbeat"
        told = orjson.loads(hello["data"])
        assert (told["first"], told["last"]) == (1, last(server))
        assert abs(datetime.fromisoformat(told["now"]).timestamp() - time.time()) < 60
        assert int(hello["id"]) == last(server)
        odd = b'{"x":  1.50, ' + start("verbatim")[1:]
        seq = server.post([odd]).json()["last_seq"]
        event = events.next()
        assert event["id"] == str(seq)
        assert odd.decode() in event["data"]
        with Home(server.home, readonly=True) as home:
            assert event["data"].encode() == home.store.read(seq - 1, 1)[0]


def test_streams_are_counted_while_they_are_connected(server):
    server.post([start("counted")])

    def count() -> str:
        return server.get("/metrics").text.partition("\ntracklog_streams ")[2].partition("\n")[0]

    assert eventually(lambda: count() == "0")
    with Events(server), Events(server, path="/api/export/agui/kahn/counted/live"):
        assert eventually(lambda: count() == "2")
    assert eventually(lambda: count() == "0")


class _Line:
    """What a watcher is told goes here; a line that was closed says so by raising."""

    def __init__(self, *, closed: bool) -> None:
        self.closed, self.told = closed, b""
        self.transport, self.flow, self.write_paused, self.on_lost = self, self, False, None

    def write(self, said: bytes) -> None:
        self._check_open()
        self.told += said

    def set_write_buffer_limits(self, most: int) -> None:
        self._check_open()

    def _check_open(self) -> None:
        if self.closed:
            raise RuntimeError("the handler is closed")


def test_one_who_left_without_a_word_does_not_silence_the_others(tmp_path):
    async def watch(home: Home) -> bytes:
        hub = Hub(home, Limits())
        left, leaving, stays = lines = [_Line(closed=each) for each in (True, False, False)]
        watchers = [Watcher(line, StreamFilter(), home.journal.last) for line in lines]
        leaving.closed = True
        serving = [asyncio.create_task(hub.serve(each)) for each in watchers]
        await asyncio.sleep(0)
        home.intake.admit([start("heard")], "kahn-agent")
        async with asyncio.timeout(30):
            while not stays.told:
                hub.poke()
                await asyncio.sleep(0.01)
            await asyncio.gather(*serving[:2])
        await hub.stop()
        await serving[2]
        assert left.told == leaving.told == b""
        return stays.told

    with Home(tmp_path / "home", durability="os") as home:
        assert b'"heard"' in asyncio.run(watch(home))


@pytest.mark.parametrize("wanted", ["records", "news"])
def test_a_stream_goes_on_after_a_journal_that_could_not_be_read(tmp_path, monkeypatch, wanted):
    """As while the database is away; afterwards the collector stops without an error, too."""
    away = StoreBroken("the database cannot be reached", "wait")

    async def watch(home: Home) -> bytes:
        hub, line = Hub(home, Limits()), _Line(closed=False)
        watcher = Watcher(line, StreamFilter(), home.journal.last)
        read = home.store.read
        asked = asyncio.Event()

        def refuse(*_: object) -> list[bytes]:
            asked.set()
            raise away

        with hub.news_of("heard") as news:
            serving = asyncio.create_task(
                hub.serve(watcher) if wanted == "records" else news.wait()
            )
            await asyncio.sleep(0)
            monkeypatch.setattr(home.store, "read", refuse)
            async with asyncio.timeout(60):
                await asked.wait()
                monkeypatch.setattr(home.store, "read", read)
                home.intake.admit([start("heard")], "kahn-agent")
                while not (line.told if wanted == "records" else news.is_set()):
                    hub.poke()
                    await asyncio.sleep(0.01)
            await hub.stop()
            await serving
        return line.told

    with Home(tmp_path / "home", durability="os") as home:
        assert (b'"heard"' in asyncio.run(watch(home))) == (wanted == "records")


@pytest.mark.parametrize("how", ["header", "query"])
def test_who_comes_back_has_missed_nothing(server, how):
    first = server.post([start("back"), tool("back")]).json()["last_seq"] - 1
    server.post([tool("back", step=n) for n in range(3000)])
    end = last(server)
    query, headers = ("", {"Last_Event_ID": str(first)}) if how == "header" else ("", {})
    if how == "query":
        query = f"?after={first}"
    with Events(server, query, **headers) as events:
        found = events.records(end - first)
        assert [frame["seq"] for frame in found] == list(range(first + 1, end + 1))
        more = server.post([tool("back", step=4000)]).json()["last_seq"]
        assert [frame["seq"] for frame in events.records(1)] == [more]


def test_who_watches_from_an_answer_on_misses_nothing_since(server):
    told = server.post([start("told")]).json()["last_seq"]
    answer = server.get("/api/runs")
    assert int(answer.headers["Tracklog-Cursor"]) == told
    seq = server.post([start("since")]).json()["last_seq"]
    with Events(server, f"?after={answer.headers['Tracklog-Cursor']}") as events:
        assert [frame["seq"] for frame in events.records(1)] == [seq]


def test_filters_by_run_dialect_and_kind_and_a_run_may_be_named_before_it_begins(server):
    after = last(server)
    with (
        Events(server, "?run=kahn:not-yet") as by_run,
        Events(server, "?run=later") as by_name,
        Events(server, "?kind=agent_run_start") as by_kind,
        Events(server, f"?dialect=awf&after={after}") as by_dialect,
    ):
        for events in (by_run, by_name, by_kind, by_dialect):
            events.next()
        server.post([start("not-yet"), tool("other"), tool("not-yet"), start("later")])
        assert {frame["run"] for frame in by_run.records(2)} == {"not-yet"}
        assert {frame["run"] for frame in by_name.records(1)} == {"later"}
        kinds = [frame["event"]["event"] for frame in by_kind.records(2)]
        assert kinds == ["agent_run_start"] * 2
        by_dialect.socket.settimeout(0.3)
        with pytest.raises(TimeoutError):
            by_dialect.records(1)
    with Events(server, f"?run=not-yet&after={after}") as replayed:
        assert len(replayed.records(2)) == 2


def test_lines_of_another_process_appear_too(server):
    with Events(server) as events, Home(server.home) as home:
        events.next()
        home.intake.admit([start("elsewhere")], "kahn-agent")
        assert events.records(1)[0]["run"] == "elsewhere"


def test_a_gap_is_sent_only_when_records_were_deleted(tmp_path):
    with Home(tmp_path, durability="os", segment_size=20_000) as home:
        home.intake.admit([tool("old", step=n) for n in range(300)], "kahn-agent")
        time.sleep(0.01)
        home.prune(0.001, open_too=True)
        first, end = home.journal.first, home.journal.last
    assert first > 1
    with collector(tmp_path) as server:
        with Events(server, "?after=0") as events:
            assert events.next()["event"] == "heartbeat"
            gap = events.next()
            assert gap["event"] == "gap"
            assert orjson.loads(gap["data"]) == {"after": 0, "next": first}
            assert gap["id"] == str(first - 1)
            assert [f["seq"] for f in events.records(end - first + 1)] == list(
                range(first, end + 1)
            )
        with Events(server, f"?after={first - 1}") as events:
            events.next()
            assert "event" not in events.next()


def test_a_cursor_of_another_journal_gets_a_reset(server):
    with Events(server, "?after=99999999") as events:
        reset = events.next()
        assert reset["event"] == "reset"
        assert orjson.loads(reset["data"]) == {"after": 99999999, "last": last(server)}
        assert events.next()["event"] == "heartbeat"
        server.post([start("anew")])
        assert events.records(1)[0]["run"] == "anew"


def test_a_stream_is_refused_with_a_reason(server):
    assert server.get("/api/stream", params={"dialect": "none"}).status_code == 404
    assert server.get("/api/stream", params={"after": "x"}).status_code == 400
    assert server.get("/api/stream", headers={"Last-Event-ID": "x"}).status_code == 400
    assert server.http.head("/api/stream").status_code == 200


def test_a_stream_ends_when_the_server_stops(tmp_path):
    server = Collector(tmp_path, "--durability", "os")
    with Events(server) as events:
        events.next()
        assert server.stop() == 0
        with pytest.raises(EOFError):
            events.next()


def test_a_watcher_that_reads_nothing_is_left_behind_and_resumes(server):
    begin = last(server)
    stuck = server.raw()
    stuck.sendall(b"GET /api/stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
    with Events(server) as lively:
        lively.next()
        count = 0
        for _ in range(20):
            count += server.post([tool("big", output_summary="x" * 2000)] * 200).json()["accepted"]
        assert len(lively.records(count)) == count
    found = bytearray()
    stuck.settimeout(20)
    while f"id: {begin + count}\n".encode() not in found[-5000:]:
        found += stuck.recv(1 << 20)
    stuck.close()
    ids = [int(line[4:]) for line in found.split(b"\n") if line.startswith(b"id: ")]
    records = [id for id in ids if id > begin]
    assert records == list(range(begin + 1, begin + count + 1))


def test_a_thousand_watchers_receive_everything_and_ten_stuck_ones_disturb_nobody(tmp_path):
    watchers, events = 1000, 200 * SOAK
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(hard, 8192)
    if wanted < watchers + 200:
        pytest.fail(f"this test needs {watchers + 200} files, and may have {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    try:
        with collector(tmp_path, "--durability", "os") as server:
            asyncio.run(_crowd(server, watchers, events))
            watching = server.get("/metrics").text
            assert "tracklog_streams_closed_total" in watching
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class _Watcher(asyncio.Protocol):
    """Counts ids as they come; the last is all that is kept of them."""

    def __init__(self, count: int) -> None:
        self.wanted, self.seen = count, 0
        self.rest = b""
        self.done = asyncio.get_running_loop().create_future()
        self.joined = asyncio.get_running_loop().create_future()

    def connection_made(self, transport):
        self.transport = transport
        transport.write(b"GET /api/stream HTTP/1.1\r\nHost: localhost\r\n\r\n")

    def data_received(self, data):
        data = self.rest + data
        cut = data.rfind(b"\n") + 1
        self.rest = data[cut:]
        if not self.joined.done() and b"heartbeat" in data:
            self.joined.set_result(None)
        self.seen += data[:cut].count(b'\ndata: {"seq":')
        if self.seen >= self.wanted and not self.done.done():
            self.done.set_result(None)

    def connection_lost(self, error):
        if not self.done.done():
            self.done.set_exception(ConnectionError(f"closed after {self.seen}"))


async def _crowd(server, count: int, events: int) -> None:
    loop = asyncio.get_running_loop()
    stuck = []
    for _ in range(10):
        made = socket.socket()
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        made.connect(("127.0.0.1", server.port))
        made.sendall(b"GET /api/stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
        stuck.append(made)
    crowd = []
    for at in range(0, count, 100):
        made = [
            loop.create_connection(lambda: _Watcher(events), "127.0.0.1", server.port)
            for _ in range(min(100, count - at))
        ]
        crowd += [protocol for _, protocol in await asyncio.gather(*made)]
        await asyncio.gather(*(watcher.joined for watcher in crowd[-100:]))
    slowest = []

    def send():
        for n in range(events):
            began = time.monotonic()
            answer = server.post([tool("crowd", step=n, output_summary="x" * 500)])
            assert answer.status_code == 200
            slowest.append(time.monotonic() - began)

    sending = threading.Thread(target=send)
    sending.start()
    async with asyncio.timeout(180 * SOAK):
        await asyncio.gather(*(watcher.done for watcher in crowd))
    sending.join()
    assert [watcher.seen for watcher in crowd] == [events] * count
    assert sorted(slowest)[len(slowest) // 2] < 5  # who is stuck is given up after 30
    for watcher in crowd:
        watcher.transport.close()
    for made in stuck:
        made.close()
    await asyncio.sleep(0.1)


def test_a_watcher_whose_buffer_stays_full_is_closed_and_heartbeats_carry_the_head(tmp_path):
    limits = {"stalled_seconds": 3, "heartbeat_seconds": 0.3}
    with collector(tmp_path, limits=limits) as server:
        stuck = server.raw()
        stuck.sendall(b"GET /api/stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
        with Events(server) as lively:
            for _ in range(20):
                server.post([tool("big", output_summary="x" * 2000)] * 200)
                assert len(lively.records(200)) == 200
            beat = lively.next()
            assert beat["event"] == "heartbeat"
            told = orjson.loads(beat["data"])
            assert (told["first"], told["last"]) == (1, 4000)
            assert beat["id"] == "4000"
        assert eventually(lambda: "tracklog_streams_closed_total 1" in server.get("/metrics").text)
        stuck.settimeout(60)
        heard = bytearray()
        with contextlib.suppress(ConnectionError):
            while read := stuck.recv(1 << 20):
                heard += read
        stuck.close()
        whole = heard[: heard.rfind(b"\n\n")]
        cursor = int(whole[whole.rfind(b"id: ") + 4 :].split(b"\n")[0])
        assert cursor < 4000
        with Events(server, Last_Event_ID=str(cursor)) as resumed:
            found = resumed.records(4000 - cursor)
            assert [frame["seq"] for frame in found] == list(range(cursor + 1, 4001))
