"""What holds for every storage: proofs, verification, erasing and pruning, whatever stores it."""

import orjson
import pytest

import tracklog
from support.servers import store_url
from tracklog.home.home import Home
from tracklog.journal.comparing import verify_store
from tracklog.journal.proof import check_proof, prove
from tracklog.journal.storages.file import FileStorage
from tracklog.journal.storages.memory import MemoryStorage
from tracklog.testing import (
    BlobSuite,
    Clock,
    CrashSuite,
    OffsetsSuite,
    ProcessSuite,
    RefusedSuite,
    StorageSuite,
)


class TestFile(StorageSuite, BlobSuite, RefusedSuite, OffsetsSuite):
    def open(self, where):
        return FileStorage(str(where), durability="os")


class TestFileOfManyProcesses(ProcessSuite, CrashSuite):
    def url(self, where):
        return f"file:{where / 'home'}"


class TestMemory(StorageSuite, BlobSuite, RefusedSuite, OffsetsSuite):
    keeps = False

    def open(self, where):
        return MemoryStorage()


def line(number: int, run: str = "r1", **more) -> bytes:
    body = {"event": "note", "n": number, "run": run, **more}
    origin = {"writer": "test", "fidelity": "observed"}
    native = {"id": f"{number:032x}", "run": run, "at": "2026-05-05T09:00:00Z", "fact": "Noted"}
    return orjson.dumps({**native, "label": "n", "data": body, "origin": origin})


@pytest.fixture(params=["file", "memory", "postgresql"])
def home(request, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    place = {"file": f"file:{tmp_path}", "memory": "memory:"}.get(request.param)
    place = place or store_url(tmp_path)
    with Home(place, durability="os", clock=Clock(), segment_size=2000) as made:
        yield made


def filled(home: Home, count: int = 30) -> None:
    for number in range(0, count, 3):
        lines = [line(each, f"r{each % 2}") for each in range(number, number + 3)]
        assert {each.verdict for each in home.intake.admit(lines)} == {"accepted"}


def test_records_are_verified_on_any_storage(home):
    filled(home)
    for report in (home.storage.verify(), verify_store(home.store)):
        assert (report.verdict, report.records, report.groups) == ("proven", 30, 10)
        assert report.head == home.store.head()
    assert home.storage.verify(home.store.head()).ok


def test_a_run_is_proven_on_any_storage(home):
    filled(home)
    run = ("tracklog", "r1")
    proof = prove(home.store, run)
    lines = [record.line for record in home.journal.records(run=run)]
    assert check_proof(proof, lines, home.store.head()) == []
    assert check_proof(proof, [lines[0].replace(b"note", b"nope"), *lines[1:]])


def test_an_erased_record_is_gone_and_the_rest_is_proven(home):
    filled(home)
    home.erase("r1", 4, reason="asked for", by="op")
    assert home.store.read(3, 1)[0].endswith(b'"event":null}')
    for report in (home.storage.verify(), verify_store(home.store)):
        assert (report.verdict, report.erased) == ("proven", [4])
    proof = prove(home.store, ("tracklog", "r1"))
    lines = [each.line for each in home.journal.records(run=("tracklog", "r1")) if each.line]
    assert check_proof(proof, lines) == []


def test_pruned_records_are_gone_and_the_rest_is_proven(home):
    filled(home, 60)
    half = home.journal.read(30, 1)[0].received
    done = home.store.prune(half, at=half)
    assert 0 < done.through < 31
    assert home.store.first == done.through + 1 == home.store.origin().through + 1
    for report in (home.storage.verify(), verify_store(home.store)):
        assert (report.verdict, report.first) == ("proven", done.through + 1)
        assert report.records == 60 - done.through
    proof = prove(home.store, ("tracklog", "r1"))
    lines = [record.line for record in home.journal.records(run=("tracklog", "r1"))]
    assert check_proof(proof, lines) == []


def test_a_changed_record_is_named(tmp_path):
    with Home("memory:") as home:
        filled(home)
        home.store._frames[10] = home.store._frames[10].replace(b"note", b"nope")
        report = home.storage.verify()
        assert [fault.seq for fault in report.faults] == [11]


def test_a_log_in_memory_answers_like_any_other():
    with tracklog.open("memory:") as log:
        assert log.append(line(1)).verdict == "accepted"
        assert log.append(line(1)).verdict == "duplicate"
        assert [row.run for row in log.runs()] == ["r1"]
        assert log.verify().verdict == "proven"
        blob = log.home.blobs.put(b"large")
        assert log.home.blobs.get(blob) == b"large"
        assert orjson.loads(log.export("r1", "cloudevents"))
        folder = log.home.path
        assert folder.is_dir()
    assert not folder.exists()
