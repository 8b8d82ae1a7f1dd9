"""The one way in: what is accepted is stored once, what is refused is stored apart, also after a retry."""

import base64
import errno
import hashlib
import io
import shutil
import threading
import time
from collections import Counter
from multiprocessing import get_context

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support import sampling as samples
from tracklog.dialects import checking
from tracklog.dialects.schemas import schema_of
from tracklog.dialects.tracklog import line as native_line
from tracklog.home import registry
from tracklog.home.home import Home
from tracklog.intake import secrets
from tracklog.intake.intake import Intake, admit
from tracklog.intake.resuming import admit_stream
from tracklog.journal.disk import Disk
from tracklog.journal.frame import Mark
from tracklog.journal.journal import Journal, JournalEntry
from tracklog.journal.offsets import JournalOffsets, pack, unpack
from tracklog.journal.refused import SEGMENT_SIZE, SEGMENTS, RefusedLines, line_of
from tracklog.journal.segments import segment_path
from tracklog.journal.stores.file import FileStore
from tracklog.journal.stores.memory import MemoryStore
from tracklog.model.errors import JournalFull, KeyReused, NotDurable, Overtaken, StoreBroken
from tracklog.model.event import Refusal
from tracklog.model.fact import Noted
from tracklog.model.lines import split

requirement = pytest.mark.requirement

KAHN = b'{"ts":"2026-05-05T09:00:00.000Z","run_id":"r1","event":"agent_run_start","agent_id":"a","task":"t"}'


def spoke(id: str, text: str = "hello", run: str = "stage-1", **changes) -> bytes:
    body = {
        "id": id, "run_id": run, "turn": 1, "kind": "agent.spoke", "actor": "ada",
        "payload": {"text": text}, "created_at": "2026-05-05T09:00:00Z", "schema_version": 1,
    }  # fmt: skip
    return orjson.dumps({**body, **changes})


def message(seq: int, text: str = "hello") -> bytes:
    body = {
        "seq": seq, "run_id": "3f1c1f2e-9a5b-4c7d-8e21-0a1b2c3d4e5f", "type": "message.assistant",
        "path": "a", "iteration": 0, "timestamp": "2026-05-05T09:00:00.000000Z",
        "payload": {"role": "assistant", "blocks": [{"type": "text", "fidelity": "router", "text": text}]},
    }  # fmt: skip
    return orjson.dumps(body)


@pytest.fixture
def journal():
    with Journal(MemoryStore()) as journal:
        yield journal


def intake_of(journal, **options):
    return Intake(journal, registry.dialects(), **options)


def words(verdicts):
    return [(each.verdict, each.seq) for each in verdicts]


def test_what_begins_or_ends_takes_all_before_it_to_the_disk_where_that_is_the_promise(tmp_path):
    with Journal(FileStore(tmp_path, durability="lifecycle")) as journal:
        intake = intake_of(journal, lifecycle=True)
        intake.admit([spoke("1")], "fishbowl")
        assert (journal.last, journal.durable) == (1, 0)
        intake.admit([spoke("2"), KAHN])
        assert (journal.last, journal.durable) == (3, 3)


def test_lines_get_numbers_in_order_and_come_out_as_they_went_in(journal):
    lines = [KAHN, spoke("1"), message(1)]
    assert words(intake_of(journal).admit(lines)) == [
        ("accepted", 1),
        ("accepted", 2),
        ("accepted", 3),
    ]
    assert [record.line for record in journal.read()] == lines
    assert [record.dialect for record in journal.read()] == ["kahn-agent", "fishbowl", "awf"]


def test_a_bad_line_does_not_hold_up_the_others(journal):
    first, second, third = intake_of(journal).admit([KAHN, b"nope", KAHN], "kahn-agent")
    assert (first.seq, second.seq, third.seq) == (1, None, 2)
    assert second.verdict == "refused"
    assert second.problems[0].message.startswith("not JSON")


def test_two_equal_kahn_lines_are_two_events(journal):
    assert words(intake_of(journal).admit([KAHN, KAHN])) == [("accepted", 1), ("accepted", 2)]


@requirement("BOWL-2", "BOWL-58")
def test_the_same_identity_twice_is_stored_once_and_an_invalid_line_not_at_all(journal):
    intake = intake_of(journal)
    bad = spoke("2", kind="nodot")
    verdicts = intake.admit([spoke("1"), spoke("1"), bad], "fishbowl")
    assert words(verdicts) == [("accepted", 1), ("duplicate", 1), ("refused", None)]
    assert words(intake.admit([spoke("1")])) == [("duplicate", 1)]
    assert journal.last == 1


def test_key_order_alone_is_no_other_line(journal):
    intake = intake_of(journal)
    reordered = orjson.dumps(dict(reversed(orjson.loads(spoke("1")).items())))
    assert words(intake.admit([spoke("1"), reordered])) == [("accepted", 1), ("duplicate", 1)]


@requirement("BOWL-56")
def test_the_same_identity_with_another_line_is_refused_and_history_stays(journal):
    intake = intake_of(journal)
    intake.admit([spoke("1", "before")])
    (verdict,) = intake.admit([spoke("1", "after")])
    assert verdict.verdict == "refused"
    assert "came before in this run" in verdict.problems[0].message
    assert [record.line for record in journal.read()] == [spoke("1", "before")]


@requirement("BOWL-56")
@pytest.mark.parametrize(
    ("before", "after"),
    [(b"1", b"true"), (b"0", b"false"), (b"18446744073709551616", b"18446744073709551617")],
)
def test_what_is_equal_only_to_a_parser_is_another_line(journal, before, after):
    lines = [spoke("1", payload={"x": "?"}).replace(b'"?"', value) for value in (before, after)]
    verdicts = intake_of(journal).admit([*lines, lines[0].replace(b'":', b'": ')])
    assert words(verdicts) == [("accepted", 1), ("refused", None), ("duplicate", 1)]


def test_an_identity_is_the_run_s_own(journal):
    verdicts = intake_of(journal).admit([spoke("1"), spoke("1", run="stage-2")])
    assert words(verdicts) == [("accepted", 1), ("accepted", 2)]


def test_a_restarted_numbering_is_stored_where_the_dialect_says_so(journal):
    verdicts = intake_of(journal).admit([message(1), message(1, "again"), message(1)])
    assert words(verdicts) == [("accepted", 1), ("accepted", 2), ("duplicate", 1)]


def test_a_line_that_was_recorded_under_a_known_identity_is_known_too(journal):
    """In one list, in the next one, and to a door that finds it in the journal."""
    lines = [message(1), message(1, "again"), message(1, "again")]
    kept = [("accepted", 1), ("accepted", 2), ("duplicate", 2)]
    intake = intake_of(journal)
    assert words(intake.admit(lines)) == kept
    told = [message(1, "again"), message(1), message(1, "third")]
    assert words(intake.admit(told)) == [("duplicate", 2), ("duplicate", 1), ("accepted", 3)]
    again = [message(1, "third"), message(1, "again"), message(1)]
    assert words(intake_of(journal).admit(again)) == [("duplicate", n) for n in (3, 2, 1)]


def test_a_native_line_from_a_moved_source_is_the_same_line(journal):
    body = {"id": "1", "run": "r", "fact": "Noted", "label": "x"}
    lines = [
        orjson.dumps({**body, "origin": {"writer": "w", "fidelity": "observed", "path": path}})
        for path in ("/old", "/new")
    ]
    assert words(intake_of(journal).admit(lines)) == [("accepted", 1), ("duplicate", 1)]


def test_a_cold_run_is_rebuilt_from_the_journal(journal):
    intake_of(journal).admit([spoke("1"), spoke("2")])
    assert words(intake_of(journal).admit([spoke("2"), spoke("3")])) == [
        ("duplicate", 2),
        ("accepted", 3),
    ]


def test_memory_is_bounded_and_nothing_is_forgotten_for_it(journal, monkeypatch):
    monkeypatch.setattr("tracklog.intake.identities.MOST_KNOWN", 10)
    intake = intake_of(journal)
    lines = [spoke(str(n), run=f"stage-{n % 20}") for n in range(100)]
    for line in lines:
        intake.admit([line])
    assert sum(map(len, intake._identities._hot.values())) <= 20
    assert {each.verdict for each in intake.admit(lines)} == {"duplicate"}


@pytest.mark.parametrize(
    ("most", "hot"),
    [(6, ["a", "b", "c"]), (5, ["b", "c"]), (4, ["b", "c"]), (3, ["c"]), (1, ["c"])],
)
def test_the_runs_that_were_used_last_stay_in_memory(journal, monkeypatch, most, hot):
    """As many as fit, and always the last one, whose identities are needed now."""
    monkeypatch.setattr("tracklog.intake.identities.MOST_KNOWN", most)
    lines = [spoke(f"{run}{n}", run=run) for run in "abc" for n in range(2)]
    intake_of(journal).admit(lines)
    intake = intake_of(journal)
    for line in lines:
        assert [each.verdict for each in intake.admit([line])] == ["duplicate"]
    assert [key[-1] for key in intake._identities._hot] == hot


@pytest.mark.parametrize("cold", [False, True])
def test_a_run_of_any_length_takes_bounded_memory_and_nothing_is_forgotten(
    cold, journal, monkeypatch
):
    monkeypatch.setattr("tracklog.intake.identities.LONG", 40)
    intake = intake_of(journal)
    for n in range(0, 300, 30):
        told = intake.admit([spoke(str(each)) for each in range(n, n + 30)])
        assert {each.verdict for each in told} == {"accepted"}
        if cold:
            intake = intake_of(journal)
    if not cold:
        [heard] = intake._identities._hot.values()
        assert len(heard) <= 40 + 30
    told = intake.admit([spoke("7"), spoke("299"), spoke("300"), spoke("5", "another")])
    assert [each.verdict for each in told] == ["duplicate", "duplicate", "accepted", "refused"]
    assert [each.seq for each in told[:3]] == [8, 300, 301]
    again = intake.admit([spoke(str(each)) for each in range(300)])
    assert [(each.verdict, each.seq) for each in again] == [
        ("duplicate", seq) for seq in range(1, 301)
    ]


def test_a_line_is_judged_by_what_it_was_written_from_and_refused_by_its_own_words(journal):
    origin = {"writer": "w", "fidelity": "observed"}
    body = {"id": "1", "run": "r", "fact": "Noted", "label": "x", "origin": origin}
    lines = [orjson.dumps(body), orjson.dumps({**body, "run": ""})]
    told = intake_of(journal).admit(lines, "tracklog", bodies=[body, {**body, "run": ""}])
    assert [each.verdict for each in told] == ["accepted", "refused"]
    assert told[1].problems[0].pointer == "/run"
    assert [record.line for record in journal.read()] == lines[:1]


def test_a_retry_under_its_batch_key_gets_the_first_answer_again(journal):
    refused = RefusedLines(MemoryStore())
    intake = Intake(journal, registry.dialects(), refused=refused)
    lines = [KAHN, b"nope", KAHN]
    first = intake.admit(lines, "kahn-agent", batch="k1")
    assert words(first) == [("accepted", 1), ("refused", None), ("accepted", 2)]
    assert not first.replayed
    for door in (intake, intake_of(journal)):
        again = door.admit(lines, "kahn-agent", batch="k1")
        assert again == first
        assert again.replayed
    assert len(list(refused)) == 1, "a retry puts nothing aside once more"
    assert words(intake.admit([KAHN], "kahn-agent", batch="k2")) == [("accepted", 3)]
    assert journal.last == 3


def test_the_first_answer_comes_again_with_its_duplicates_and_refusals(journal):
    intake = intake_of(journal)
    one, two, changed = message(1), message(2), spoke("e1", text="b")
    intake.admit([one, spoke("e1", text="a")])
    lines = [two, one, two, changed, b"nope", KAHN]
    first = intake.admit(lines, batch="k")
    assert words(first) == [
        ("accepted", 3), ("duplicate", 1), ("duplicate", 3), ("refused", None), ("refused", None),
        ("accepted", 4),
    ]  # fmt: skip
    again = intake_of(journal).admit(lines, batch="k")
    assert words(again) == words(first)
    assert again.replayed
    assert "was refused when its batch was first sent" in again[3].problems[0].message
    assert again[4] == first[4]


@pytest.mark.parametrize("other", [[KAHN, KAHN], [KAHN + b" "], [b"nope"], []])
def test_a_key_that_stood_for_other_lines_is_an_error(journal, other):
    intake = intake_of(journal)
    intake.admit([KAHN], "kahn-agent", batch="k1")
    for door in (intake, intake_of(journal)):
        with pytest.raises(KeyReused):
            door.admit(other, "kahn-agent", batch="k1")
        with pytest.raises(KeyReused):
            door.admit([KAHN], "kahn-ci", batch="k1")
    assert journal.last == 1


def test_a_key_binds_when_a_line_was_stored_and_not_before(journal):
    intake = intake_of(journal)
    assert words(intake.admit([b"nope"], "kahn-agent", batch="k")) == [("refused", None)]
    assert words(intake.admit([KAHN], "kahn-agent", batch="k")) == [("accepted", 1)]


def test_a_key_of_format_1_lets_in_what_is_absent_of_its_batch(journal):
    """Half a batch could be kept under a key that claimed all of it."""
    lines = [KAHN.replace(b'"task":"t"', b'"task":"%d"' % n) for n in range(1, 5)]
    intake = intake_of(journal)
    old = Mark("batch:k", 4)
    kept = [JournalEntry("kahn-agent", "kahn", "r1", line) for line in lines[:2]]
    journal.append(kept, mark=old)
    journal.append([JournalEntry("kahn-agent", "kahn", "r1", KAHN)])
    verdicts = intake.admit(lines, "kahn-agent", batch="k")
    assert words(verdicts) == [("duplicate", 1), ("duplicate", 2), ("accepted", 4), ("accepted", 5)]
    assert words(intake.admit(lines, "kahn-agent", batch="k")) == words(verdicts)
    assert journal.last == 5
    with pytest.raises(KeyReused):
        intake.admit([KAHN], "kahn-agent", batch="k")


def test_a_large_batch_of_format_1_is_compared_to_its_end(tmp_path):
    """A reading of the journal returns 8 MiB at most; the batch has more."""
    pad = b"x" * 2000
    lines = [KAHN.replace(b'"task":"t"', b'"task":"%d %b"' % (n, pad)) for n in range(5000)]
    with Journal(FileStore(tmp_path)) as journal:
        kept = [JournalEntry("kahn-agent", "kahn", "r1", line) for line in lines[:-1]]
        journal.append(kept, mark=Mark("batch:k", len(lines)))
        verdicts = intake_of(journal).admit(lines, "kahn-agent", batch="k")
        assert Counter(each.verdict for each in verdicts) == {"duplicate": 4999, "accepted": 1}
        assert journal.last == 5000


@pytest.mark.parametrize("gone", [1, 2])
def test_a_batch_of_format_1_of_which_a_record_was_erased_is_not_stored_again(tmp_path, gone):
    lines = [KAHN.replace(b'"task":"t"', b'"task":"%d"' % n) for n in range(3)]
    with Home(tmp_path) as home:
        kept = [JournalEntry("kahn-agent", "kahn-agent", "r1", line) for line in lines]
        home.journal.append(kept, mark=Mark("batch:k", 3))
        home.store.erase(gone, reason="r", by="b", at="2026-05-05T09:00:00.000Z")
        verdicts = home.intake.admit(lines, "kahn-agent", batch="k")
        assert words(verdicts) == [("duplicate", 1), ("duplicate", 2), ("duplicate", 3)]


@given(
    st.lists(
        st.tuples(st.sampled_from(["accepted", "refused"]), st.just(0))
        | st.tuples(st.sampled_from(["duplicate", "inside"]), st.integers(0, 9))
    )
)
def test_verdicts_in_a_mark_come_out_as_they_went_in(outcomes):
    assert list(unpack(pack(outcomes))) == outcomes


def test_verdicts_in_a_mark_are_short():
    outcomes = [("accepted", 0)] * 3 + [("refused", 0)] * 2
    outcomes += [("duplicate", 7), ("duplicate", 8), ("duplicate", 3), ("inside", 0)]
    assert pack(outcomes) == "a3 r2 d7+2 d3+1 i0+1"


def test_a_cache_of_marks_is_gone_on_with(tmp_path):
    path = tmp_path / "marks.json"
    with Journal(FileStore(tmp_path)) as journal:
        intake = Intake(journal, registry.dialects(), offsets=JournalOffsets(journal, path))
        intake.admit([KAHN, KAHN], "kahn-agent", batch="k")
        intake.offsets.save()
        assert JournalOffsets(journal, path)._cursor == 2, "nothing is read again"


@pytest.mark.parametrize(
    "spoil",
    [
        lambda cache: b"",
        lambda cache: b"[]",
        lambda cache: cache[:-9],
        lambda cache: orjson.dumps({**orjson.loads(cache), "cursor": 2}),
        lambda cache: orjson.dumps({**orjson.loads(cache), "cursor": -1}),
        lambda cache: orjson.dumps({**orjson.loads(cache), "cursor": 99}),
        lambda cache: orjson.dumps({**orjson.loads(cache), "link": "1:00"}),
        lambda cache: orjson.dumps({**orjson.loads(cache), "places": {"batch:k": ["x"]}}),
        lambda cache: orjson.dumps({**orjson.loads(cache), "places": {"batch:k": [1, 2, 3, 4]}}),
        lambda cache: cache.replace(b'"batch:k"', b'"batch:j"'),
        lambda cache: cache.replace(b'"a2"', b'"a3"'),
    ],
)
def test_an_odd_cache_of_marks_is_made_again(tmp_path, spoil):
    path = tmp_path / "marks.json"
    with Journal(FileStore(tmp_path)) as journal:
        intake = Intake(journal, registry.dialects(), offsets=JournalOffsets(journal, path))
        intake.admit([KAHN, KAHN], "kahn-agent", batch="k")
        intake.admit([KAHN], "kahn-agent", mark=Mark("file:a", 9))
        right = intake.offsets.place("batch:k")
        intake.offsets.save()
    path.write_bytes(spoil(path.read_bytes()))
    with Journal(FileStore(tmp_path)) as journal:
        assert JournalOffsets(journal, path).place("batch:k") == right


def test_a_cache_of_marks_of_another_history_is_not_believed(tmp_path):
    for name, key in (("one", "a"), ("two", "b")):
        with Journal(FileStore(tmp_path / name)) as journal:
            intake = Intake(
                journal,
                registry.dialects(),
                offsets=JournalOffsets(journal, tmp_path / name / "marks.json"),
            )
            intake.admit([KAHN], "kahn-agent", batch=key)
            intake.offsets.save()
    shutil.copy(tmp_path / "one/marks.json", tmp_path / "two/marks.json")
    with Journal(FileStore(tmp_path / "two")) as journal:
        marks = JournalOffsets(journal, tmp_path / "two/marks.json")
        assert marks.place("batch:a") is None
        assert marks.place("batch:b") is not None


def test_a_key_is_not_remembered_past_pruning(tmp_path):
    with Home(tmp_path, segment_size=1) as home:
        home.intake.admit([KAHN], "kahn-agent", batch="k")
        home.clock = lambda: time.time() + 100
        home.prune(1, open_too=True)
        again = home.intake.admit([KAHN], "kahn-agent", batch="k")
        assert not again.replayed
        assert again[0].seq > 1


@pytest.mark.parametrize("verdicts", [b'"a3"', b'"a1"', b'"x2"', b'"a9"'])
def test_a_damaged_mark_is_reported_and_nothing_is_stored_again(tmp_path, verdicts):
    with Home(tmp_path) as home:
        home.intake.admit([KAHN, KAHN], "kahn-agent", batch="k")
    (tmp_path / "marks.json").unlink()
    path = segment_path(tmp_path / "journal", 1)
    path.write_bytes(path.read_bytes().replace(b'"a2"', verdicts))
    with Home(tmp_path) as home:
        with pytest.raises(StoreBroken, match=r"record 1, .* is damaged"):
            home.intake.admit([KAHN, KAHN], "kahn-agent", batch="k")
        assert home.journal.last == 2


def test_a_mark_stays_with_its_records(tmp_path):
    with Journal(FileStore(tmp_path)) as journal:
        intake = Intake(
            journal, registry.dialects(), offsets=JournalOffsets(journal, tmp_path / "marks.json")
        )
        intake.admit([KAHN, KAHN], "kahn-agent", mark=Mark("file:a", 200))
        intake.offsets.save()
        place = intake.offsets.place("file:a")
        intake.admit([KAHN], "kahn-agent", mark=Mark("file:a", 300), place=place)
        with pytest.raises(Overtaken):
            intake.admit([KAHN], "kahn-agent", mark=Mark("file:a", 400), place=place)
    with Journal(FileStore(tmp_path)) as journal:
        assert JournalOffsets(journal, tmp_path / "marks.json").place("file:a")[:2] == (300, 3)
        assert JournalOffsets(journal).place("file:a")[:2] == (300, 3)
        assert JournalOffsets(journal).place("file:b") is None


def test_refused_lines_are_stored_with_their_verdict(journal):
    refused = RefusedLines(MemoryStore())
    intake = intake_of(journal, refused=refused)
    intake.admit([KAHN, b"nope", spoke("1", "a"), spoke("1", "b")])
    first, second = refused
    assert line_of(first) == b"nope"
    assert first["problems"][0]["message"].startswith("not JSON")
    assert (line_of(second), second["dialect"]) == (spoke("1", "b"), "fishbowl")


def test_if_refusals_cannot_be_stored_nothing_is_and_all_can_be_sent_again(journal, tmp_path):
    class Full(Disk):
        full = True

        def write(self, fd, block):
            if self.full:
                raise OSError(errno.ENOSPC, "no space left")
            return super().write(fd, block)

    disk = Full()
    disk.full = False
    refused = RefusedLines(FileStore(tmp_path, folder="refused", disk=disk))
    disk.full = True
    intake = intake_of(journal, refused=refused)
    for lines in ([KAHN, b"nope"], [spoke("1", "a"), spoke("1", "b")]):
        with pytest.raises(JournalFull):
            intake.admit(lines)
        assert journal.last == 0
    disk.full = False
    assert words(intake.admit([KAHN, b"nope"])) == [("accepted", 1), ("refused", None)]
    refused.close()


def test_what_is_refused_is_redacted_too(journal):
    refused = RefusedLines(MemoryStore())
    redact = lambda line: (line.replace(b"hunter2", b"[gone]"), ["password"])  # noqa: E731
    bad = message(1, "hunter2").replace(b'"seq":1', b'"seq":"one"')
    kahn = KAHN.replace(b'"t"', b'["hunter2"]')
    intake = intake_of(journal, refused=refused, redact=redact)
    assert {each.verdict for each in intake.admit([bad], "awf")} == {"refused"}
    assert {each.verdict for each in intake.admit([kahn], "kahn-agent")} == {"refused"}
    scrubbed, verbatim = refused
    assert b"hunter2" not in line_of(scrubbed)
    assert line_of(verbatim) == kahn


def test_a_line_over_the_cap_is_refused_and_stored_in_part(journal):
    refused = RefusedLines(MemoryStore())
    line = b'{"a":"' + b"x" * 200_000 + b'"}'
    (verdict,) = intake_of(journal, refused=refused, cap=100_000).admit([line])
    assert "the cap is 100,000" in verdict.problems[0].message
    (kept,) = refused
    assert kept["size"] == len(line)
    assert line.startswith(base64.b64decode(kept["line"]))
    assert len(line_of(kept)) == 64 << 10


def test_the_last_32_mib_of_refused_lines_are_stored():
    assert SEGMENT_SIZE * SEGMENTS == 32 << 20


def test_refusals_are_bounded(tmp_path):
    options = {"folder": "refused", "durability": "os", "segment_size": 1000, "segments": 2}
    refused = RefusedLines(FileStore(tmp_path, **options))
    with Journal(MemoryStore()) as journal:
        intake = intake_of(journal, refused=refused)
        for _ in range(50):
            intake.admit([b"nope"])
    assert len(list((tmp_path / "refused").glob("*.jsonl"))) <= 4
    assert 0 < len(list(refused)) < 50
    refused.close()


def test_a_redactor_is_asked_and_what_it_took_is_on_record(journal):
    def redact(line: bytes):
        return (
            (line.replace(b"hunter2", b"[gone]"), ["password"])
            if b"hunter2" in line
            else (line, ())
        )

    intake = intake_of(journal, redact=redact)
    intake.admit([message(1), message(2, "hunter2")])
    clean, scrubbed = journal.read()
    assert (clean.redacted, scrubbed.redacted) == ((), ("password",))
    assert b"hunter2" not in scrubbed.line
    assert orjson.loads(scrubbed.line)["payload"]["blocks"][0]["text"] == "[gone]"


@requirement("KAHN-54", "AWF-71")
def test_nothing_is_redacted_by_default_and_kahn_lines_never(journal):
    secret = KAHN.replace(b'"t"', b'"hunter2"')
    intake_of(journal).admit([secret, message(1, "hunter2")])
    intake_of(journal, redact=lambda line: (line.replace(b"hunter2", b""), ["x"])).admit([secret])
    assert [record.line for record in journal.read()] == [secret, message(1, "hunter2"), secret]
    assert [record.redacted for record in journal.read()] == [(), (), ()]


def test_a_redactor_that_breaks_a_line_gets_it_refused(journal):
    intake = intake_of(journal, redact=lambda line: (b"", ["all"]))
    (verdict,) = intake.admit([message(1)])
    assert verdict.verdict == "refused"
    assert journal.last == 0


@pytest.mark.parametrize("path", samples.of("good") + samples.of("odd"), ids=samples.name_of)
def test_every_sample_comes_out_byte_for_byte(path):
    dialect = registry.dialect(samples.dialect_of(path))
    with Journal(MemoryStore()) as journal:
        verdicts = admit(journal, dialect, samples.lines_of(path))
        kept = [
            line
            for line, v in zip(samples.lines_of(path), verdicts, strict=True)
            if v.verdict == "accepted"
        ]
        assert [record.line for record in journal.read(limit=10_000)] == kept
        assert {v.verdict for v in verdicts} <= {"accepted", "duplicate", "refused"}
        if samples.mark_of(path) not in ("id-reused", "event-id-reused"):
            assert "refused" not in {v.verdict for v in verdicts}


@requirement("WOP-79", "WOP-80", "WOP-98")
def test_reasoning_events_are_read_back_equal_and_in_their_place():
    """A whole flight of an agent: every event and every agent field, among the node events."""
    flights = (samples.ROOT / "dialects/openwop/good").glob("*.jsonl")
    lines = next(
        lines for lines in map(samples.lines_of, sorted(flights))
        if {b"agent.reasoned", b"agent.handoff", b"agent.decided"}
        <= {orjson.loads(line)["type"].encode() for line in lines}
    )  # fmt: skip
    with Journal(MemoryStore()) as journal:
        admit(journal, registry.dialect("openwop"), lines)
        back = [orjson.loads(record.line) for record in journal.read(limit=1000)]
    assert back == [orjson.loads(line) for line in lines]
    agents = [event["payload"]["agent"] for event in back if "agent" in event["payload"]]
    assert agents == [
        orjson.loads(line)["payload"]["agent"] for line in lines if b'"agent":' in line
    ]
    assert agents


ids = st.lists(st.integers(0, 9).map(str), max_size=12)


@given(batches=st.lists(ids, max_size=5), cold=st.booleans())
def test_a_line_that_is_sent_again_is_recorded_once(batches, cold):
    with Journal(MemoryStore()) as journal:
        intake = intake_of(journal)
        for batch in batches:
            if cold:
                intake = intake_of(journal)
            intake.admit([spoke(id) for id in batch])
            intake.admit([spoke(id) for id in batch])
        kept = [orjson.loads(record.line)["id"] for record in journal.read(limit=10_000)]
    assert kept == list(dict.fromkeys(id for batch in batches for id in batch))


lines_of_calls = st.one_of(
    st.builds(spoke, st.sampled_from("123"), st.sampled_from("ab"), st.sampled_from(["s", "t"])),
    st.builds(message, st.integers(1, 3), st.sampled_from("ab")),
    st.sampled_from([KAHN, b"nope"]),
)
calls = st.tuples(st.lists(lines_of_calls, max_size=4), st.sampled_from([None, None, "k", "l"]))


def of_runs(journal):
    runs = {}
    for record in journal.records():
        runs.setdefault((record.dialect, record.run), []).append(record.line)
    return runs


@given(before=st.lists(lines_of_calls, max_size=3), batches=st.lists(calls, max_size=6))
def test_calls_that_are_committed_together_are_answered_as_if_one_came_after_the_other(
    before, batches
):
    with Journal(MemoryStore()) as alone, Journal(MemoryStore()) as together:
        one, other = intake_of(alone), intake_of(together)
        one.admit(before)
        other.admit(before)
        expected = []
        for lines, key in batches:
            try:
                expected.append(one.admit(lines, batch=key))
            except KeyReused as error:
                expected.append(error)
        answers = other.commit([other.check(lines, batch=key) for lines, key in batches])
        assert list(map(type, answers)) == list(map(type, expected))
        for (lines, _), answer, wanted in zip(batches, answers, expected, strict=True):
            if isinstance(answer, KeyReused):
                continue
            assert [each.verdict for each in answer] == [each.verdict for each in wanted]
            assert answer.replayed == wanted.replayed
            for line, verdict in zip(lines, answer, strict=True):
                if verdict.seq is not None:
                    (record,) = together.read(verdict.seq - 1, 1)
                    assert record.line == line
        assert of_runs(together) == of_runs(alone)


def test_calls_of_different_runs_are_committed_in_one_group_and_each_gets_the_failure(tmp_path):
    class Failing(Disk):
        syncs, broken = 0, False

        def sync(self, fd):
            self.syncs += 1
            if self.broken:
                raise OSError(errno.EIO, "broken")
            super().sync(fd)

    disk = Failing()
    with Journal(FileStore(tmp_path, disk=disk)) as journal:
        intake = intake_of(journal)
        runs = [f"run-{n}" for n in range(5)]
        before = disk.syncs
        first = [intake.check([spoke("1", run=run)], batch=run) for run in runs]
        assert [words(each) for each in intake.commit(first)] == [
            [("accepted", n)] for n in range(1, 6)
        ]
        assert disk.syncs == before + 1
        second = [intake.check([spoke("2", run=run)], batch=f"{run}-2") for run in runs]
        disk.broken = True
        assert {type(each) for each in intake.commit(second)} == {NotDurable}
        disk.broken = False
        assert [words(each) for each in intake.commit(second)] == [
            [("accepted", n)] for n in range(6, 11)
        ]


def test_equal_events_of_threads_are_recorded_once(journal):
    intake = intake_of(journal)
    lines = [spoke(str(n)) for n in range(200)]
    numbers: list[list[int]] = []

    def tell():
        numbers.append([intake.admit([line])[0].seq for line in lines])

    threads = [threading.Thread(target=tell) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert journal.last == 200
    assert all(each == numbers[0] for each in numbers)


def _tell(home, start, results):
    with Journal(FileStore(home, durability="os")) as journal:
        intake = intake_of(journal)
        start.wait()
        results.put([intake.admit([spoke(str(n))])[0].seq for n in range(100)])


def test_equal_events_of_processes_are_recorded_once(tmp_path):
    context = get_context("spawn")
    start, results = context.Event(), context.Queue()
    processes = [context.Process(target=_tell, args=(tmp_path, start, results)) for _ in range(4)]
    for process in processes:
        process.start()
    start.set()
    told = [results.get(timeout=60) for _ in processes]
    for process in processes:
        process.join(timeout=60)
    with Journal(FileStore(tmp_path)) as journal:
        kept = [orjson.loads(record.line)["id"] for record in journal.read(limit=10_000)]
    assert sorted(kept, key=int) == [str(n) for n in range(100)]
    assert all(each == told[0] for each in told)


@pytest.mark.parametrize("damage", [(b'"kind":"', b'"kind"~"'), (b'{"id":"2"', b'~"id":"2"')])
def test_a_damaged_record_keeps_nobody_out_of_its_run(tmp_path, damage):
    """What can still be compared is; what was damaged and is told again is kept again."""
    with Journal(FileStore(tmp_path)) as journal:
        intake = intake_of(journal)
        intake.admit([spoke("1"), spoke("2"), spoke("3")])
        (segment,) = (tmp_path / "journal").glob("*.jsonl")
        first, second, third = segment.read_bytes().splitlines(keepends=True)
        segment.write_bytes(first + second.replace(*damage) + third)
        for each in (intake, intake_of(journal)):  # one that remembers, and one that looks it up
            assert words(each.admit([spoke("1"), spoke("3")])) == [
                ("duplicate", 1),
                ("duplicate", 3),
            ]
        assert words(intake_of(journal).admit([spoke("2")])) == [("accepted", 4)]
        assert words(intake.admit([spoke("5")])) == [("accepted", 5)]


def test_a_remembered_identity_whose_record_was_damaged_is_stored_again(tmp_path):
    with Journal(FileStore(tmp_path)) as journal:
        intake = intake_of(journal)
        intake.admit([spoke("1"), spoke("2")])
        (segment,) = (tmp_path / "journal").glob("*.jsonl")
        segment.write_bytes(segment.read_bytes().replace(b'"id":"1"', b'"id"~"1"'))
        assert words(intake.admit([spoke("1"), spoke("2")])) == [("accepted", 3), ("duplicate", 2)]


def test_a_refused_line_is_reported_with_its_dialect_and_its_run():
    refused = RefusedLines(MemoryStore())
    refused.keep([(b"{}", Refusal((), dialect="kahn-ci", run="r7")), (b"?", Refusal(()))])
    assert [(each["dialect"], each["run"]) for each in refused] == [("kahn-ci", "r7"), (None, None)]
    refused.close()


def test_an_identity_belongs_to_a_dialect_whatever_the_family_of_its_run(journal):
    origin = {"writer": "w", "fidelity": "observed"}
    lines = [
        native_line(Noted(label="l"), id="i", run="r", origin=origin, family=family)
        for family in ("kahn", "fishbowl")
    ]
    intake = intake_of(journal)
    assert words(intake.admit(lines)) == [("accepted", 1), ("accepted", 2)]
    assert words(intake.admit(lines)) == [("duplicate", 1), ("duplicate", 2)]
    assert {each.dialect for each in intake.admit(lines)} == {"tracklog"}


def test_verdicts_name_the_dialect_the_kind_and_the_run(journal):
    origin = {"writer": "w", "fidelity": "observed"}
    line = native_line(Noted(label="l"), id="i", run="n", origin=origin, family="kahn")
    for lines in ([line, KAHN], [line], [b"{}", line]):
        verdict = next(
            each for each in intake_of(journal).admit(lines) if each.dialect == "tracklog"
        )
        assert (verdict.kind, verdict.run) == ("Noted", "n")


def test_an_identity_that_comes_again_behind_another_run_is_a_duplicate(journal):
    lines = [
        spoke("1"),
        spoke("2", run="stage-2"),
        spoke("1"),
        spoke("3"),
        spoke("2", run="stage-2"),
    ]
    assert words(intake_of(journal).admit(lines)) == [
        ("accepted", 1), ("accepted", 2), ("duplicate", 1), ("accepted", 3), ("duplicate", 2),
    ]  # fmt: skip


def test_a_redacted_line_is_known_again_and_another_type_of_value_is_another_line(journal):
    intake = intake_of(journal, redact=secrets.redact)
    token = "ghp_" + "a1B2c3D4e5F6" * 3
    kept = spoke("1", f"use {token}")
    assert words(intake.admit([kept, kept])) == [("accepted", 1), ("duplicate", 1)]
    assert [record.redacted for record in journal.read()] == [("github-token",)]
    assert words(intake.admit([kept])) == [("duplicate", 1)]
    # Both differ from each other in nothing but what was taken out of them.
    both = [spoke("2", f"use {token}"), spoke("2", "use [redacted:jwt]")]
    assert words(intake.admit(both)) == [("accepted", 2), ("duplicate", 2)]
    plain = intake_of(journal)
    assert words(plain.admit([kept])) == [("duplicate", 1)]
    for text in (1, ["x"], {"a": 1}, None):
        other = spoke("1", payload={"text": text})
        assert [each.verdict for each in plain.admit([other])] == ["refused"]


def test_a_line_too_deep_to_compare_is_another_line(journal):
    """What cannot be compared could differ in anything, and not only in what was redacted."""
    deep = [b'{"text":%b"%b"%b}' % (b"[" * 1000, word, b"]" * 1000) for word in (b"a", b"b")]
    one, other = (spoke("1").replace(b'{"text":"hello"}', each) for each in deep)
    intake = intake_of(journal)
    assert words(intake.admit([one, one])) == [("accepted", 1), ("duplicate", 1)]
    assert words(intake.admit([other])) == [("refused", None)]


def test_a_stream_goes_on_where_it_stopped_and_another_is_refused_before_any_of_it(journal):
    lines = [KAHN.replace(b'"t"', b'"%d"' % n) for n in range(6)]
    stream = lambda *some: io.BytesIO(b"".join(line + b"\n" for line in some))  # noqa: E731
    intake = intake_of(journal)

    def verdicts(source):
        return [each for _, some in admit_stream(intake, source, "key") for each in words(some)]

    for count in (2, 2, 5):
        known = journal.last
        found = verdicts(stream(*lines[:count]))
        assert [verdict for verdict, _ in found] == (
            ["duplicate"] * known + ["accepted"] * (count - known)
        )
        assert journal.last == count
    with pytest.raises(KeyReused):
        verdicts(stream(lines[5], *lines))
    with pytest.raises(KeyReused):
        verdicts(stream(lines[1]))
    assert journal.last == 5
    assert [record.line for record in journal.read()] == lines[:5]


class Interrupted(io.BytesIO):
    """A stream at whose first read something else happens."""

    def __init__(self, content, happens):
        super().__init__(content)
        self.happens = [happens]

    def read(self, size=-1):
        if self.happens:
            self.happens.pop()()
        return super().read(size)


@pytest.mark.parametrize("same", [True, False])
def test_a_stream_that_another_one_overtakes_under_its_key_is_compared_with_it(journal, same):
    lines = [KAHN.replace(b'"t"', b'"%d"' % n) + b"\n" for n in range(4)]
    intake, first = intake_of(journal), b"".join(lines[:2] if same else lines[2:])

    def overtake():
        assert [*admit_stream(intake, io.BytesIO(first), "key")]

    def verdicts():
        stream = Interrupted(b"".join(lines[:3]), overtake)
        return [each for _, some in admit_stream(intake, stream, "key") for each in words(some)]

    if same:
        assert [verdict for verdict, _ in verdicts()] == ["duplicate", "duplicate", "accepted"]
    else:
        with pytest.raises(KeyReused):
            verdicts()
    assert journal.last == 2 + same


@pytest.mark.parametrize("count", [1, 4, 7, 11])
def test_a_stream_of_many_reads_goes_on_inside_of_any_of_them(journal, count):
    """Lines of 100 kB: a read ends inside of a line, and the offset is inside of a read."""
    lines = [KAHN.replace(b'"t"', b'"%d%b"' % (n, b"x" * 100_000)) for n in range(12)]
    whole = b"".join(line + b"\n" for line in lines)
    end = sum(len(line) + 1 for line in lines[:count])
    intake = intake_of(journal)
    for text, expected in ((whole[:end], count), (whole[: end + 50_000], 0), (whole, 12 - count)):
        done = [each for _, some in admit_stream(intake, io.BytesIO(text), "key") for each in some]
        assert sum(each.verdict == "accepted" for each in done) == expected
    assert [record.line for record in journal.read()] == lines


def test_a_line_is_complete_if_it_has_its_line_end_however_it_is_read():
    """The first line, and those that need a change, take another way than the rest."""
    text = b"first\nplain\nwith CR\r\n" + b"x" * 8 + b"\n" + b"x" * 9 + b"\nlast"
    found = list(split(io.BytesIO(text), cap=8))
    assert [line.whole for line in found] == [True, True, True, True, True, False]
    assert [line.offset for line in found] == [0, 6, 12, 21, 30, 40]
    assert [len(line.sha256) for line in found] == [0, 0, 0, 0, 64, 0]


def test_a_line_of_a_file_that_is_too_long_to_hold_is_put_aside_with_its_size_and_hash(journal):
    refused, text = RefusedLines(MemoryStore()), b"x" * 500
    intake = intake_of(journal, refused=refused, cap=200)
    lines = list(split(io.BytesIO(text + b"\n" + KAHN + b"\n"), cap=200))
    assert words(intake.admit_lines(lines)) == [("refused", None), ("accepted", 1)]
    (kept,) = refused
    assert (kept["size"], kept["sha256"]) == (500, hashlib.sha256(text).hexdigest())
    assert intake_of(journal, cap=200).admit_lines(lines[:1])[0].verdict == "refused"


def test_threads_that_meet_a_kind_at_the_same_time_compile_it_once(journal, monkeypatch):
    good = [path for path in samples.of("good") if samples.dialect_of(path) == "fishbowl"]
    lines = [line for path in good for line in samples.lines_of(path)]
    compiled = []
    begin = threading.Barrier(8)

    def counted(shape):
        compiled.append(shape)
        return schema_of(shape)

    def tell():
        intake = intake_of(journal)
        begin.wait()
        intake.check(lines, "fishbowl")

    monkeypatch.setattr(checking, "schema_of", counted)
    checking._compiled.cache_clear()
    checking._judge_all.cache_clear()
    threads = [threading.Thread(target=tell) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert compiled
    assert len(compiled) == len(set(compiled))
