"""The public API: what `import tracklog` gives a program."""

import stat
import subprocess
import sys
import threading
import uuid

import orjson
import pytest

import tracklog
from tracklog.model.errors import KeyReused, NoSuchRun, UnknownName

START = {
    "ts": "2026-05-05T09:00:00.000Z", "run_id": "r1", "event": "agent_run_start",
    "agent_id": "coder", "task": "tidy the tests",
}  # fmt: skip
SPENT = {
    "id": "s1", "run": "r2", "at": "2026-05-05T10:00:00Z", "fact": "Spent", "key": "s1",
    "model": "m-1", "cost_usd": 0.25, "origin": {"writer": "me", "fidelity": "reported"},
}  # fmt: skip


@pytest.fixture
def log(tmp_path):
    with tracklog.open(tmp_path / "home") as opened:
        yield opened


def test_events_are_appended_as_mappings_texts_or_bytes_and_read_back_unchanged(log):
    line = orjson.dumps(START)
    verdicts = [log.append(START), log.append(line.decode()), log.append(line, "kahn-agent")]
    assert [each.verdict for each in verdicts] == ["accepted"] * 3
    assert [each.seq for each in verdicts] == [1, 2, 3]
    assert [record.line for record in log.read()] == [line] * 3
    assert [record.seq for record in log.read(after=2, run="r1")] == [3]


def test_a_malformed_event_is_refused_with_its_problems_and_nothing_is_recorded(log):
    verdict = log.append({"ts": START["ts"], "run_id": "r1", "event": "run_end"})
    assert verdict.verdict == "refused"
    assert {problem.pointer for problem in verdict.problems} >= {"/outcome", "/done"}
    assert list(log.read()) == []


def test_a_batch_under_a_key_is_recorded_once(log):
    first = log.admit([START, START], key="k")
    again = log.admit([START, START], key="k")
    assert again == first
    assert again.replayed
    with pytest.raises(KeyReused):
        log.admit([START], key="k")
    assert len(list(log.read())) == 2


def test_questions_see_what_was_appended_before(log):
    log.admit([START, SPENT])
    assert {run.run for run in log.runs()} == {"r1", "r2"}
    assert log.run("r1").status == "working"
    assert [hit.seq for hit in log.search("tidy")] == [1]
    assert [(row.of, row.cost_usd) for row in log.costs("model")] == [("m-1", 0.25)]
    assert log.why("r1", 1).record.seq == 1
    with pytest.raises(NoSuchRun):
        log.run("nobody")


def test_walking_gives_facts_of_any_dialect_and_whether_they_count(log):
    log.admit([START, SPENT])
    facts = [(type(fact), reading.counts) for reading in log.walk() for fact in reading.facts]
    assert facts == [(tracklog.Began, True), (tracklog.Spent, True)]


def test_a_log_is_verified_and_a_run_exported(log):
    log.append(START)
    assert log.verify().ok
    exported = log.export("r1", "cloudevents")
    assert orjson.loads(exported)[0]["data"] == START


def test_a_path_and_a_file_url_are_the_same_place_and_another_scheme_is_named(tmp_path):
    with tracklog.open(f"file:{tmp_path}/home") as log:
        log.append(START)
    with tracklog.open(tmp_path / "home", readonly=True) as log:
        assert len(list(log.read())) == 1
    with pytest.raises(UnknownName, match="no storage for"):
        tracklog.open("http://127.0.0.1:4318")


def test_lines_are_checked_without_a_log():
    good, *_ = tracklog.check([START])
    assert good.result.dialect == "kahn-agent"
    bad, *_ = tracklog.check(b"{}\n", "kahn-agent")
    assert bad.result.problems


@pytest.mark.parametrize("name", sorted(tracklog._MODULES))
def test_every_public_name_can_be_imported(name):
    assert getattr(tracklog, name) is not None
    assert name in dir(tracklog)


def test_importing_the_package_imports_nothing_else():
    code = "import sys; before = {*sys.modules}; import tracklog; print(*{*sys.modules} - before)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "tracklog\n"


def test_a_run_is_named_by_any_of_its_names_or_exactly_by_family_and_id(log):
    log.append(START)
    assert log.find("r1") == log.find("kahn:r1") == ("kahn", "r1")
    assert [record.seq for record in log.read(run=("kahn", "r1"))] == [1]
    assert list(log.read(run=("kahn", "r"))) == []  # a pair is no beginning of a name
    with pytest.raises(NoSuchRun):
        log.find("nobody")


def test_reading_stops_at_a_number_and_knows_the_last(log):
    assert log.last == 0
    log.admit([START, START, START])
    assert [record.seq for record in log.read(after=1, through=2)] == [2]
    assert log.last == 3


def test_waiting_ends_with_a_record_or_with_the_time(log):
    assert not log.wait(0, 0.01)
    log.append(START)
    assert log.wait(0, 60)
    assert not log.wait(1, 0.01)


def test_a_tail_goes_on_with_what_another_thread_appends(log):
    log.append(START)
    seen = []
    for record in log.tail(stop=lambda: len(seen) > 2):
        seen.append(record.seq)
        if record.seq < 3:
            threading.Thread(target=log.append, args=(START,)).start()
    assert seen == [1, 2, 3]


def test_a_fact_is_appended_to_a_run_of_another_dialect(log):
    log.append(START)
    seq = log.append_fact(("kahn", "r1"), tracklog.Noted(label="seen", data={"by": "me"}))
    (record,) = log.read(after=1)
    assert (record.seq, record.family, record.run) == (seq, "kahn", "r1")
    assert [(fact.label, fact.data) for fact in log.facts_in(record)] == [("seen", {"by": "me"})]
    assert tracklog.body_of(record)["origin"] == {"writer": "api", "fidelity": "observed"}


def test_a_fact_as_a_line_is_recorded_with_events_of_another_dialect(log):
    note = log.fact_line(("kahn", "r1"), tracklog.Noted(label="seen"), at=START["ts"], writer="w")
    log.admit([orjson.dumps(START), note])
    first, second = log.walk("r1")
    assert first.record.group == 2
    assert second.event.at == START["ts"]
    assert second.event.body["origin"]["writer"] == "w"


def test_a_fact_that_is_not_recorded_is_an_error(log):
    with pytest.raises(tracklog.NotAppended, match="seen was not recorded: "):
        log.append_fact(("kahn", ""), tracklog.Noted(label="seen"))


def test_an_event_is_read_as_its_dialect_understands_it(log):
    log.append(START)
    (record,) = log.read()
    assert log.event(record).kind == "agent_run_start"
    assert tracklog.body_of(record) == START
    half = record._replace(line=rb'{"text":"\ud83d"}')
    assert tracklog.body_of(half) == {"text": "\ufffd"}


HOLDER = """
import sys, tracklog
with tracklog.open(sys.argv[1]) as log, log.lease(("awf", "r1")) as mine:
    print(mine, flush=True)
    sys.stdin.read()
"""


def test_a_lease_is_held_by_one_and_released_when_its_process_is_killed(log, tmp_path):
    command = [sys.executable, "-c", HOLDER, log.place]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline() == b"True\n"
        with log.lease(("awf", "r1")) as mine, log.lease("another") as other:
            assert (mine, other) == (False, True)
        with log.lease(("awf", "r2")) as mine:
            assert mine
        holder.kill()
    with log.lease(("awf", "r1"), wait=60) as mine:
        assert mine


def test_two_holders_in_one_process_exclude_each_other_and_closing_releases(log):
    with log.leases() as one, log.leases() as two:
        assert one.take("a")
        assert not one.take("a")  # nor is it taken twice
        assert not two.take("a", wait=0.05)
        two.release("a")  # not its own
        assert not two.take("a")
        one.release("a")
        assert two.take("a")
        two.close()
        two.close()
        assert not two.take("b", wait=None)  # it is closed, and does not wait for ever
        assert one.take("a")


def test_whoever_waits_for_a_lease_gets_it_when_it_is_released(log):
    with log.leases() as one:
        assert one.take("a")
        threading.Timer(0.05, one.release, ["a"]).start()
        with log.lease("a", wait=None) as mine:
            assert mine


def test_a_host_has_a_private_folder_and_files_that_are_complete(log):
    folder = log.folder("mine")
    assert folder == log.folder() / "mine"
    assert stat.S_IMODE(folder.stat().st_mode) & 0o077 == 0
    tracklog.write_file(folder / "cache", b"one")
    tracklog.write_file(folder / "cache", b"two")
    assert [path.name for path in folder.iterdir()] == ["cache"]
    assert (folder / "cache").read_bytes() == b"two"
    assert stat.S_IMODE((folder / "cache").stat().st_mode) & 0o077 == 0


def test_a_log_says_where_it_is_and_what_it_promises(tmp_path):
    with tracklog.open(tmp_path / "home", durability="os") as log:
        assert (log.place, log.durability) == (str(tmp_path / "home"), "os")
        before, now, after = tracklog.stamp(log.clock()), log.now(), tracklog.stamp(log.clock())
        assert before <= now <= after


def test_a_transcript_reaches_the_log_as_it_grows_and_is_read_back(log, tmp_path):
    run_id = str(uuid.uuid4())
    with tracklog.Recorder.open(run_id, log.place) as recorder, recorder.run("review") as run:
        through = log.admit_transcript(recorder.path)
        with run.step("ask", "agent") as step:
            step.user("what is x?")
            step.assistant([{"type": "text", "fidelity": "agent_emitted", "text": "forty"}])
            with step.tool("add", {"a": 1}) as tool:
                tool.output = 2
        assert through < recorder.path.stat().st_size
        assert log.admit_transcript(recorder.path, through) == recorder.path.stat().st_size
    for transcript in (log.transcript(run_id), log.transcript(("awf", run_id))):
        assert transcript.run_id == run_id
        assert [(step.name, step.status) for step in transcript.steps] == [("ask", "ok")]
    from_file = tracklog.read_transcript(recorder.path, run_id)
    assert [step.name for step in from_file.steps] == ["ask"]
    assert tracklog.read_transcript(tmp_path / "none.jsonl", run_id) is None
    model, tool = log.recorded_answers(run_id)
    assert (model.kind, model.lane, model.asked, model.answer["text"]) == (
        "model",
        None,
        None,
        "forty",
    )
    assert (tool.kind, tool.lane, tool.asked["input"]) == ("tool", "add", {"a": 1})
    assert tracklog.Tape([tool]).play("tool", {"tool": "add", "input": {"a": 1}}, "add") == tool
