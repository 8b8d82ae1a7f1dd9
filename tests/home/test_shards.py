"""A record with several shards: each line is stored once, and answers are those of one journal."""

import json
import re
import subprocess
import sys
import threading

import httpx
import orjson
import psycopg
import pytest

from support import sampling
from support.fleets import Node
from support.servers import postgres, store_url, tenant
from tracklog.answers import registry as questions
from tracklog.home import registry
from tracklog.home.home import Home
from tracklog.journal.archive.objects import open_objects
from tracklog.journal.archive.shipping import Archiver
from tracklog.journal.archive.verify import verify_archive
from tracklog.journal.backup import backup
from tracklog.journal.blobs import FileBlobs
from tracklog.journal.postgres.tenants import set_quota, set_setting
from tracklog.journal.shard_copies import backup_all
from tracklog.journal.sharding import Numbers, cursor_text, ends_of, shard_of
from tracklog.journal.verify import verify
from tracklog.model.errors import BadFormat, BadQuery, KeyReused, OverQuota, TracklogError
from tracklog.testing import Clock

SHARDS = 4
NDJSON = {"Content-Type": "application/x-ndjson"}


def made(where, shards: int = SHARDS) -> str:
    """The URL of a new record with shards."""
    url = store_url(where)
    registry.storage(url, shards=shards).close()
    return url


@pytest.fixture
def databases(tmp_path):
    """The URLs of three empty databases, each of which may have a shard."""
    names = [f"{tenant(tmp_path)}_{n}" for n in range(3)]
    with psycopg.connect(postgres().url, autocommit=True) as connection:
        for name in names:
            connection.execute(f"CREATE DATABASE {name}")
    place = postgres().url.rpartition("/")[0]
    yield [f"{place}/{name}?connect_timeout=120" for name in names]
    with psycopg.connect(postgres().url, autocommit=True) as connection:
        for name in names:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def noted(number: int, run: str) -> bytes:
    origin = {"writer": "test", "fidelity": "observed"}
    native = {"id": f"{number:032x}", "run": run, "at": "2026-05-05T09:00:00Z", "fact": "Noted"}
    more = {"label": "n", "text": f"word{number} shared", "data": {"n": number}}
    return orjson.dumps({**native, **more, "origin": origin})


def nameless(number: int, run: str) -> bytes:
    """A line without an identity."""
    known = {"ts": "2026-05-05T09:00:00.000Z", "run_id": run, "event": "tool_invocation"}
    more = {"agent_id": "a", "step": number, "tool_name": "Read", "duration_s": 0.1, "ok": True}
    return orjson.dumps({**known, **more})


@pytest.fixture
def opened(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    homes: list[Home] = []

    def open_home(place, **options) -> Home:
        options.setdefault("clock", Clock())
        homes.append(Home(place, durability="os", **options))
        return homes[-1]

    yield open_home
    for home in homes:
        home.close()


def tracklog(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "tracklog", *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, check=False)


def test_a_number_contains_the_shard_and_the_number_in_it():
    for shards in (1, 2, 16):
        numbers = [Numbers(shard, shards) for shard in range(shards)]
        every = sorted(of.outer(seq) for of in numbers for seq in range(1, 6))
        assert every == list(range(1, 5 * shards + 1))
        for of in numbers:
            own = list(range(1, 6))
            assert [of.inner(of.outer(seq)) for seq in own] == own
            for after in range(5 * shards + 2):  # those behind any number are the same ones
                assert [seq for seq in own if of.outer(seq) > after] == [
                    seq for seq in own if seq > of.inner(after)
                ]
    assert Numbers(0, 1).outer(7) == 7
    assert shard_of(("f", "r"), 1) == 0
    assert {shard_of(("f", f"r{n}"), 4) for n in range(40)} == {0, 1, 2, 3}


def test_a_cursor_is_read_as_it_was_written():
    assert ends_of(cursor_text((3, 0, 12, 0)), 4) == (3, 0, 12, 0)
    assert cursor_text((3, 0, 12, 0)) == "0.3,2.12"
    assert ends_of(cursor_text((0, 0)), 2) == (0, 0)
    for wrong in ("", "3", "0.1,9.1", "0.x", "0.-1", "a.1", "0.1,"):
        assert ends_of(wrong, 4) is None


def test_every_question_gets_the_answer_of_a_record_in_a_folder(opened, tmp_path):
    places = (tmp_path / "folder", made(tmp_path))
    homes = [opened(place, clock=lambda: 1_778_000_000.0) for place in places]
    for path in sampling.of("good"):
        lines, dialect = sampling.lines_of(path), sampling.dialect_of(path)
        told = [[each.verdict for each in home.intake.admit(lines, dialect)] for home in homes]
        assert told[0] == told[1]
    one, many = homes
    used = {shard_of(run, SHARDS) for run in many.runs()}
    assert used == set(range(SHARDS)), "the samples are in every shard"
    assert many.runs() == one.runs()
    for home in homes:
        assert home.index.catch_up() == []
    runs = sorted(one.runs())
    for run in runs:
        assert [r.line for r in one.journal.records(run=run)] == [
            r.line for r in many.journal.records(run=run)
        ]
    asked = 0
    runs = runs[:: max(1, len(runs) // 12)]
    for question in questions.questions():
        required = [param.name for param in question.params if param.required]
        if question.name in ("query", "traces"):  # below; asked for several runs
            continue
        if required == ["run"]:
            of = [{"run": ":".join(run)} for run in runs]
        elif required in ([], ["q"]):
            of = [dict.fromkeys(required, "agent")]
        else:
            continue
        for arguments in of:
            known = {**arguments, "now": "2026-05-06T00:00:00Z"}
            assert answer(question, one, known) == answer(question, many, known), question.name
            asked += 1
    assert asked > 100


def answer(question, home, arguments):
    """An answer without the numbers of records, in any order."""
    keywords = {param.name: param.argument for param in question.params}
    known = {keywords.get(name, name): value for name, value in arguments.items()}
    known |= {keywords[name]: 10_000 for name in ("limit",) if name in keywords}
    if "now" not in question.ask.__code__.co_varnames and "now" not in str(
        question.ask.__annotations__
    ):
        known.pop("now")
    try:
        found = question.ask(home, **known)
    except TracklogError as error:
        return type(error).__name__
    return plain(json.loads(orjson.dumps(found)))


def plain(value):
    if isinstance(value, dict):
        return {
            k: re.sub(r"\d+", "", v) if k in ("id", "parent") and isinstance(v, str) else plain(v)
            for k, v in value.items()
            if not is_number(k)
        }
    if isinstance(value, list):
        rows = [
            plain(each)
            for each in value
            if not is_across_runs(each) and type(each) is not int  # the number of a handoff
        ]
        return sorted(rows, key=lambda row: json.dumps(row, sort_keys=True))
    return value


def is_across_runs(row) -> bool:
    """A finding that compares runs is made where both are in one shard."""
    return isinstance(row, dict) and row.get("name") == "id-in-another-run"


def is_number(key: str) -> bool:
    return key in (
        "seq",
        "head",
        "last",
        "next",
        "first",
        "through",
        "seen",
        "cursor",
        "after",
    ) or (key.endswith(("_seq", "_seqs")) or key in ("seqs", "causes", "effects"))


def test_a_batch_over_several_shards_is_answered_the_same_when_it_is_sent_again(opened, tmp_path):
    url = made(tmp_path)
    one, other = opened(url), opened(url)
    lines = [nameless(n, f"run{n % 7}") for n in range(40)]
    first = one.intake.admit(lines, "kahn-agent", batch="k")
    again = other.intake.admit(lines, "kahn-agent", batch="k")
    assert list(first) == list(again)
    assert (first.replayed, again.replayed) == (False, True)
    numbers = [each.seq for each in first]
    assert len(set(numbers)) == len(lines)
    assert one.journal.last == len(lines)
    for number, line in zip(numbers, lines, strict=True):
        (record,) = one.journal.read(number - 1, 1)
        assert (record.seq, record.line) == (number, line)
    for lines in ([nameless(99, "run1")], [nameless(99, "elsewhere")]):
        with pytest.raises(KeyReused):
            other.intake.admit(lines, "kahn-agent", batch="k")
    assert one.journal.last == 40
    assert [each.verdict for each in one.intake.admit([noted(1, "x"), noted(2, "y")])] == [
        "accepted",
        "accepted",
    ]
    assert [each.verdict for each in other.intake.admit([noted(2, "y"), noted(1, "x")])] == [
        "duplicate",
        "duplicate",
    ]


def test_a_batch_of_which_one_shard_failed_is_completed_by_sending_it_again(opened, tmp_path):
    home = opened(made(tmp_path))
    lines = [nameless(n, f"run{n}") for n in range(20)]
    broken = home.storage.parts[2].store
    append = broken.append

    def fail(*arguments, **options):
        raise TracklogError("the disk is full", "wait")

    broken.append = fail
    with pytest.raises(TracklogError, match="the disk is full"):
        home.intake.admit(lines, "kahn-agent", batch="k")
    assert 0 < home.journal.last < len(lines)
    broken.append = append
    told = home.intake.admit(lines, "kahn-agent", batch="k")
    assert {each.verdict for each in told} == {"accepted"}
    assert home.journal.last == len(lines)
    assert sorted(record.line for record in home.journal.records()) == sorted(lines)
    assert home.intake.admit(lines, "kahn-agent", batch="k").replayed


def test_the_number_of_shards_is_fixed_and_a_shard_alone_takes_no_lines(tmp_path):
    url = store_url(tmp_path)
    done = tracklog("store", "init", url, "--shards", "3")
    assert done.returncode == 2
    assert b"power of 2" in done.stderr
    done = tracklog("store", "init", url, "--shards", "2", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["shards"] == 2
    assert tracklog("store", "init", url).returncode == 0, "the same again changes nothing"
    done = tracklog("store", "init", url, "--shards", "4")
    assert done.returncode == 2
    assert b"made with 2 shards, and not with 4" in done.stderr
    done = tracklog("record", "--store", f"{url}&shard=1", stdin=noted(1, "r") + b"\n")
    assert done.returncode == 2
    assert b"leave `shard=` out of the URL" in done.stderr
    done = tracklog("record", "--store", f"{url}&shard=2", stdin=noted(1, "r") + b"\n")
    assert done.returncode == 2
    assert b"there is no shard 2" in done.stderr
    done = tracklog("record", "--store", url, stdin=noted(1, "r") + b"\n")
    assert done.returncode == 0, done.stderr
    done = tracklog("store", "status", url, "--json")
    state = json.loads(done.stdout)
    assert (state["shards"], state["last"], len(state["heads"])) == (2, 1, 2)


def test_each_shard_is_verified_copied_and_proven_as_a_journal(opened, tmp_path):
    url = made(tmp_path, 2)
    home = opened(url)
    home.intake.admit([noted(n, f"r{n % 5}") for n in range(50)])
    home.erase(
        "tracklog:r1", next(home.journal.records(run=("tracklog", "r1"))).seq, reason="x", by="o"
    )
    done = tracklog("verify", "--store", url, "--json")
    report = json.loads(done.stdout)
    assert (done.returncode, report["ok"]) == (0, True)
    assert sum(each["records"] for each in report["shards"]) == 51
    assert sum(len(each["erased"]) for each in report["shards"]) == 1
    for shard, each in enumerate(report["shards"]):
        part = opened(f"{url}&shard={shard}", readonly=True).storage
        folder = tmp_path / f"copy{shard}"
        assert str(backup(part, folder)) == each["head"]
        assert str(verify(folder).head) == each["head"]
        assert Archiver(part, open_objects(str(tmp_path / f"archive{shard}"))).ship()
        archived = verify_archive(open_objects(str(tmp_path / f"archive{shard}")))
        assert str(archived.head) == each["head"]
    state = json.loads(tracklog("status", "--store", url, "--json").stdout)
    assert [(each["place"], each["behind"]) for each in state["archives"]] == [
        (str(tmp_path / f"archive{shard}"), 0) for shard in range(2)
    ]
    proof = tmp_path / "proof.json"
    done = tracklog("events", "r3", "--store", url, "--raw", "--proof", str(proof))
    assert done.returncode == 0, done.stderr
    (tmp_path / "lines").write_bytes(done.stdout)
    script = sampling.ROOT.parents[1] / "contracts" / "tracklog_verify.py"
    command = [sys.executable, script, str(tmp_path / "lines"), str(proof)]
    checked = subprocess.run(command, capture_output=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr


class Heard:
    """A client of the live stream: what it heard, and the id of the last event."""

    def __init__(self, url: str, last: str = "", query: str = "") -> None:
        self.lines: list[bytes] = []
        self.last = last
        self._url, self._headers = (
            f"{url}/api/stream{query}",
            {"Last-Event-ID": last} if last else {},
        )
        self._ready, self._done = threading.Event(), threading.Event()
        self._wanted = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._ready.wait(60)

    def _run(self) -> None:
        with httpx.stream("GET", self._url, headers=self._headers, timeout=120) as answer:
            at = ""
            for line in answer.iter_lines():
                if line.startswith("id: "):
                    at = line[4:]
                elif line.startswith("data: ") and line.startswith('data: {"seq"'):
                    self.lines.append(orjson.dumps(orjson.loads(line[6:])["event"]))
                    self.last = at
                elif line.startswith("data: "):
                    self.last = at
                    self._ready.set()
                if self._wanted and len(self.lines) >= self._wanted:
                    self._done.set()
                    return

    def hear(self, count: int) -> list[bytes]:
        self._wanted = count
        assert self._done.wait(60) or len(self.lines) >= count, len(self.lines)
        return self.lines


def test_a_stream_over_shards_is_continued_on_another_collector_without_loss_or_repeat(tmp_path):
    url = made(tmp_path)
    nodes = [Node(url, tmp_path / "a"), Node(url, tmp_path / "b")]
    try:
        lines = [nameless(n, f"run{n % 9}") for n in range(120)]

        def post(node: Node, part: list[bytes], key: str) -> dict:
            answer = httpx.post(
                f"{node.url}/api/events/kahn-agent?batch={key}",
                content=b"\n".join(part),
                headers=NDJSON,
                timeout=60,
            )
            assert answer.status_code == 200, answer.text
            return answer.json()

        watching = Heard(nodes[0].url)
        for n in range(0, 60, 10):
            post(nodes[n // 10 % 2], lines[n : n + 10], f"k{n}")
        first = watching.hear(60)
        assert sorted(first[:60]) == sorted(lines[:60])
        for n in range(60, 120, 10):
            post(nodes[n // 10 % 2], lines[n : n + 10], f"k{n}")
            assert post(nodes[1 - n // 10 % 2], lines[n : n + 10], f"k{n}")["replayed"]
        # Whoever had 60 records goes on elsewhere; the first watcher may have heard more by now.
        rest = Heard(nodes[1].url, watching.last)
        told = rest.hear(120 - len(watching.lines))
        assert sorted(watching.lines + told) == sorted(lines)
        page, cursor, read = None, "", list[bytes]()
        while page is None or page["events"]:
            more = f"&cursor={cursor}" if cursor else ""
            page = httpx.get(f"{nodes[0].url}/api/events?limit=33{more}", timeout=60).json()
            cursor, read = page["cursor"], [*read, *(each["event"] for each in page["events"])]
        assert sorted(map(orjson.dumps, read)) == sorted(lines)
        refused = httpx.get(f"{nodes[0].url}/api/events?after=7", timeout=60)
        assert (refused.status_code, "cursor" in refused.text) == (400, True)
        told = post(nodes[0], [nameless(500, "run1"), nameless(501, "new")], "last")
        asked = f"/api/runs?indexed={told['last_seq']}"
        names = {row["run"] for row in httpx.get(nodes[1].url + asked, timeout=60).json()}
        assert {"run1", "new"} <= names
    finally:
        codes = [node.stop() for node in nodes]
    assert codes == [0, 0]


def test_sql_is_answered_from_the_rows_of_all_shards(opened, tmp_path):
    home = opened(made(tmp_path))
    home.intake.admit([noted(n, f"r{n % 7}") for n in range(40)])
    home.intake.admit([nameless(n, f"k{n}") for n in range(6)], "kahn-agent")
    home.index.catch_up()
    runs = home.index.query("SELECT family, run FROM runs ORDER BY family, run").rows
    assert runs == sorted(home.runs())
    assert {shard_of(run, SHARDS) for run in home.runs()} == set(range(SHARDS))
    ask = "SELECT r.run, count(*) FROM runs r JOIN states s ON s.fold = 'runs' AND s.key = r.family || ':' || r.run GROUP BY 1"
    assert dict(home.index.query(ask).rows) == {run: 1 for _, run in home.runs()}
    seqs = {seq for (seq,) in home.index.query("SELECT seq FROM words", limit=1000).rows}
    noted_seqs = {each.seq for each in home.journal.records() if each.family == "tracklog"}
    assert seqs == noted_seqs
    total = home.index.query("SELECT count(*) FROM calls WHERE tool = 'Read'").rows
    assert total == [(6,)]
    cut = home.index.query("SELECT run FROM runs ORDER BY run", limit=2)
    assert (len(cut.rows), cut.cut) == (2, True)
    for bad in (
        "DELETE FROM runs",
        "SELECT 1; SELECT 2",
        "SELECT * FROM nothing",
        "CREATE VIEW x AS SELECT 1",
    ):
        with pytest.raises(BadQuery):
            home.index.query(bad)
    with pytest.raises(BadQuery, match="nothing") as refused:
        home.index.query("SELECT * FROM nothing")
    assert "runs" in refused.value.hint


def test_all_shards_are_copied_to_a_folder_and_to_a_database_and_back(opened, tmp_path):
    url, again = made(tmp_path / "one", 2), store_url(tmp_path / "two")
    home = opened(url)
    home.intake.admit([noted(n, f"r{n % 5}") for n in range(50)] + [b"refused"])
    blob = home.blobs.put(b"large" * 1000)
    seq = next(home.journal.records(run=("tracklog", "r1"))).seq
    home.erase("tracklog:r1", seq, reason="x", by="o")
    done = tracklog("backup", str(tmp_path / "copy"), "--store", url, "--json")
    assert done.returncode == 0, done.stderr
    heads = [str(part.store.head()) for part in home.storage.parts]  # with the act itself
    assert json.loads(done.stdout)["heads"] == heads
    for n, head in enumerate(heads):
        assert str(verify(tmp_path / "copy" / str(n)).head) == head
    done = tracklog("store", "copy", f"file:{tmp_path / 'copy'}", again)
    assert done.returncode == 0, done.stderr
    assert [line.split()[-1] for line in done.stdout.decode().splitlines()] == heads
    copied = opened(again)
    assert list(copied.journal.records()) == list(home.journal.records())
    assert (copied.blobs.get(blob), len(list(copied.refused.journal.records()))) == (
        b"large" * 1000,
        1,
    )
    assert copied.intake.admit([noted(3, "r3")])[0].verdict == "duplicate"
    # Once more and directly, with what came since; and once more as files: the same bytes.
    home.intake.admit([noted(n, f"r{n % 5}") for n in range(50, 60)])
    third = store_url(tmp_path / "three")
    for target in (again, third):
        done = tracklog("store", "copy", url, target)
        assert done.returncode == 0, done.stderr
    backup_all(home.storage, tmp_path / "now")
    backup_all(opened(third).storage, tmp_path / "third")
    files = [
        {
            each.relative_to(root): each.read_bytes()
            for each in root.rglob("*")
            if each.is_file() and "packs" not in each.parts  # packs have random names
        }
        for root in (tmp_path / "now", tmp_path / "third")
    ]
    assert FileBlobs(tmp_path / "third" / "0").get(blob) == b"large" * 1000
    assert files[0] == files[1]
    done = tracklog("store", "copy", url, made(tmp_path / "four", 4))
    assert done.returncode == 2
    assert b"made with 4 shards, and not with 2" in done.stderr


def test_a_limit_counts_the_records_of_all_shards(opened, tmp_path):
    url = made(tmp_path, 2)
    home = opened(url)
    runs = [
        next(f"r{n}" for n in range(99) if shard_of(("tracklog", f"r{n}"), 2) == shard)
        for shard in (0, 1)
    ]
    assert tracklog("store", "limit", url, "--daily-bytes", "1").returncode == 0  # it is recorded
    for number, run in enumerate(runs, 2):
        with pytest.raises(OverQuota, match="per day"):
            home.intake.admit([noted(number, run)])
    used = json.loads(tracklog("store", "status", url, "--json").stdout)["quota"]["used_today"]
    first = home.storage.parts[0]
    set_quota(first.database, first.address.schema, 0, used + 1)
    assert home.intake.admit([noted(2, runs[1])])[0].verdict == "accepted"
    with pytest.raises(OverQuota):
        home.intake.admit([noted(3, runs[0])])
    assert len(list(home.journal.records(run=("tracklog", runs[1])))) == 1


def test_shards_in_databases_of_their_own_are_one_record(opened, databases, tmp_path, monkeypatch):
    monkeypatch.setenv("TRACKLOG_HOME", str(tmp_path / "home"))
    one, other, third = databases
    urls = f"{one} {other}"
    with pytest.raises(BadFormat, match="shard 0 of 2 is not at"):
        opened(urls)  # what is read or written makes no shard: the URL may be wrong
    done = tracklog("store", "init", one, other)
    assert done.returncode == 0, done.stderr
    assert b"tracklog_main_0 " in done.stdout
    assert b"tracklog_main_1 " in done.stdout
    clock = {"clock": lambda: 1_778_000_000.0}
    home = opened(urls, **clock)
    lines = [noted(n, f"r{n % 5}") for n in range(50)]
    assert {each.verdict for each in home.intake.admit([*lines, b"refused"])} == {
        "accepted",
        "refused",
    }
    places = [part.address.known["dbname"] for part in home.storage.parts]
    lasts = [part.store.last for part in home.storage.parts]
    assert (len(set(places)), sum(lasts), min(lasts) > 0) == (2, 50, True)
    folder = opened(tmp_path / "folder", **clock)
    folder.intake.admit(lines)
    for each in (home, folder):
        assert each.index.catch_up() == []
    asked_at = {"now": "2026-05-06T00:00:00Z"}
    for question in ("runs", "findings", "agents", "series"):
        asked = [answer(questions.question(question), each, asked_at) for each in (home, folder)]
        assert asked[0] == asked[1]
    assert len(home.index.search("shared", 99)) == 50
    # Another collector sees the same: identities, keys, refused lines, large values, limits.
    blob = home.blobs.put(b"large" * 1000)
    second = opened(urls)
    assert {each.verdict for each in second.intake.admit(lines)} == {"duplicate"}
    assert second.blobs.get(blob) == b"large" * 1000
    assert len(list(second.refused.journal.records())) == 1
    assert tracklog("store", "limit", one, other, "--daily-bytes", "1").returncode == 0
    with pytest.raises(OverQuota):
        opened(urls).intake.admit([noted(n, f"r{n % 5}") for n in range(60, 70)])
    assert tracklog("store", "limit", one, other).returncode == 0
    # The command line takes several --store, or one variable.
    done = tracklog("verify", "--store", one, "--store", other, "--json")
    assert [json.loads(done.stdout)["ok"], len(json.loads(done.stdout)["shards"])] == [True, 2]
    monkeypatch.setenv("TRACKLOG_STORE", urls)
    status = json.loads(tracklog("store", "status", "--json").stdout)
    heads = [str(part.store.head()) for part in home.storage.parts]
    assert (status["shards"], status["heads"], status["refused"]) == (2, heads, 1)
    assert status["last"] == sum(part.store.last for part in home.storage.parts)
    done = tracklog("query", "SELECT 1")
    assert (done.returncode, b"several databases" in done.stderr) == (2, True)
    monkeypatch.delenv("TRACKLOG_STORE")
    # Each database by itself is a journal that can be verified, and takes no lines.
    alone = opened(f"{other}&shard=1", readonly=True)
    assert str(alone.store.head()) == heads[1]
    assert alone.storage.verify().ok
    assert backup(alone.storage, tmp_path / "shard")
    # There and back: the same bytes and the same chain.
    assert tracklog("store", "copy", urls, f"file:{tmp_path / 'copy'}").returncode == 0
    heads = [str(part.store.head()) for part in home.storage.parts]  # with the act itself
    done = tracklog("store", "copy", f"file:{tmp_path / 'copy'}", made(tmp_path / "back", 2))
    assert [line.split()[-1] for line in done.stdout.decode().splitlines()] == heads
    # A wrong order, a database too few, and one that belongs to something else are refused.
    for wrong, why in (
        (f"{other} {one}", "shard 0 of 2 is not at"),
        (f"{one} {third}", "shard 1 of 2 is not at"),
        (f"{one} {one}", "the same database"),
        (f"{one} {other} {third}", "no power of 2"),
        (f"{one}&tenant=a {other}&tenant=b", "different tenants"),
        (f"{one}&shard=0 {other}", "is that of one shard"),
        (one, "has one of 2 shards"),
        (other, "has tracklog_main_1, a shard"),
    ):
        with pytest.raises(BadFormat, match=why):
            opened(wrong)
    done = tracklog("store", "init", other, one)
    assert (done.returncode, b"another journal of this tenant" in done.stderr) == (2, True)
    assert postgres().password.encode() not in done.stderr


def test_a_store_that_is_given_twice_is_refused_unless_both_are_databases(tmp_path):
    done = tracklog("runs", "--store", f"file:{tmp_path}", "--store", f"file:{tmp_path}")
    assert (done.returncode, b"--store is given once" in done.stderr) == (2, True)


def test_databases_of_two_stores_are_not_one(opened, databases):
    one, other, _ = databases
    for _again in range(2):  # a second init changes nothing
        assert tracklog("store", "init", one, other).returncode == 0
    home = opened(f"{one} {other}")
    part = home.storage.parts[1]
    set_setting(part.database, part.address.schema, "store", b"that of another store")
    with pytest.raises(BadFormat, match="of different stores"):
        opened(f"{one} {other}")


def test_a_shard_stores_lines_while_the_database_of_the_first_is_away(opened, databases):
    one, other, _ = databases
    assert tracklog("store", "init", one, other).returncode == 0
    home = opened(f"{one} {other}")
    run = next(f"r{n}" for n in range(99) if shard_of(("tracklog", f"r{n}"), 2) == 1)
    assert home.intake.admit([noted(1, run)])[0].verdict == "accepted"
    away(one.rpartition("/")[2].partition("?")[0])
    store = home.storage.parts[1].store
    store._ask_again = 0.0  # or the last answer counts for a second anyway
    assert home.intake.admit([noted(2, run)])[0].verdict == "accepted"
    assert store.last == 2


def away(name: str) -> None:
    """Let nobody use a database any more."""
    with psycopg.connect(postgres().url, autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {name} WITH ALLOW_CONNECTIONS false")
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name,)
        )
