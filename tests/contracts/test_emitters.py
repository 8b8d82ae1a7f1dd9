"""The emitters that a sister repository copies: their bytes, their promises, their solitude."""

import ast
import errno
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
import tokenize
from collections import Counter
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import emitters
from tracklog import __version__
from tracklog.dialects.checking import checker
from tracklog.dialects.rules import Lint
from tracklog.home import registry
from tracklog.model.event import Event

ROOT = Path(__file__).parents[2]
CONTRACTS = ROOT / "contracts"
FILES = sorted(CONTRACTS.glob("*_emit.py"))
VECTORS = CONTRACTS / "vectors"
TS = "2026-05-05T09:00:00.000Z"
UUID4 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


def load(name):
    spec = importlib.util.spec_from_file_location(name, CONTRACTS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


kahn, agent, native = load("kahn_emit"), load("kahn_agent_emit"), load("tracklog_emit")
SIBLINGS = {"kahn-ci": (kahn, kahn.Emitter), "kahn-agent": (agent, agent.AgentEmitter)}


def untagged(value):
    """A value of a vector: what JSON cannot say is tagged."""
    if isinstance(value, list):
        return [untagged(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    match list(value.items()):
        case [("$text", pieces)]:
            return "".join(piece * times for piece, times in pieces)
        case [("$int", digits)]:
            return int(digits)
        case [("$float", word)]:
            return float(word)
    return {key: untagged(inner) for key, inner in value.items()}


def vectors(*names):
    """The vectors of the named files, each with what writes it."""
    return [
        pytest.param(name, untagged(vector), id=f"{name}: {vector['name'][:70]}")
        for name in names
        for vector in json.loads((VECTORS / f"{name}.json").read_text())["vectors"]
    ]


def emit(name, vector, path):
    """The bytes that a vector's call leaves in a fresh file."""
    environ, bound = vector.get("environment", {}), vector.get("bound", {})
    if name in SIBLINGS:
        emitter = SIBLINGS[name][1](
            path, "fresh", environ=environ, validate=vector.get("validate", False)
        )
        if "TRACKLOG_RUN_ID" in environ:
            emitter = SIBLINGS[name][1](path, environ=environ)
    else:
        emitter = native.Emitter.file(path, environ=environ)
    arguments = {{"from": "from_"}.get(key, key): v for key, v in vector["arguments"].items()}
    with emitter:
        getattr(emitter.bind(**bound), vector["call"])(**arguments)
    return path.read_bytes()


EMITTED = ("kahn-agent", "kahn-ci", "fishbowl", "openwop", "awf", "tracklog")
CHECKS = {name: checker(registry.dialect(name)) for name in EMITTED}


def invalid(name):
    return SIBLINGS[name][0].Invalid if name in SIBLINGS else native.Invalid


@pytest.mark.requirement("KAHN-57", "RALPH-10", "RALPH-11")
@pytest.mark.parametrize(("name", "vector"), vectors(*EMITTED))
def test_a_vector_gives_exactly_its_bytes(name, vector, tmp_path):
    path = tmp_path / "events.jsonl"
    if "error" in vector:
        with pytest.raises(invalid(name)) as refused:
            emit(name, vector, path)
        assert vector["error"] in [problem.pointer for problem in refused.value.problems]
        assert all(problem.message and problem.hint for problem in refused.value.problems)
        assert not path.exists() or path.read_bytes() == b""
    else:
        assert emit(name, vector, path).decode() == vector["line"]


@pytest.mark.requirement("KAHN-56")
@pytest.mark.parametrize(("name", "vector"), vectors(*EMITTED))
def test_a_line_of_a_vector_is_accepted_by_the_check(name, vector):
    if "line" in vector:
        result = CHECKS[name](vector["line"].encode().removesuffix(b"\n"))
        assert isinstance(result, Event) == vector.get("accepted", True), result


@pytest.mark.parametrize("name", EMITTED)
def test_every_call_of_an_emitter_has_a_vector(name):
    called = {vector.values[1]["call"] for vector in vectors(name) if "line" in vector.values[1]}
    assert called == (set(SIBLINGS[name][0].EVENTS) if name in SIBLINGS else {name})


@pytest.mark.requirement("RALPH-8", "RALPH-9")
@pytest.mark.parametrize(("name", "vector"), vectors("kahn-outcomes"))
def test_the_functions_beside_the_emitter_agree_with_their_vectors(name, vector):
    function = getattr(kahn, vector["function"])
    if "error" in vector:
        with pytest.raises(kahn.Invalid) as refused:
            function(**vector["arguments"])
        assert [problem.pointer for problem in refused.value.problems] == [vector["error"]]
    else:
        assert function(**vector["arguments"]) == vector["result"]


def test_an_outcome_that_is_none_has_no_worst():
    with pytest.raises(ValueError, match="perfect"):
        kahn.worst(["clean", "perfect"])


def test_each_emitter_is_what_its_template_and_the_shared_parts_give():
    made = emitters.files()
    assert sorted(each for each in made if each.suffix == ".py") == FILES
    for path, text in made.items():
        assert path.read_text() == text
        version, origin = (line.lstrip("#/ ") for line in text.splitlines()[:2])
        assert version.startswith(f"tracklog {__version__}, emitter ")
        assert origin.startswith("Generated from contracts/")


def test_the_emitters_share_every_part_byte_for_byte():
    texts = [path.read_text() for path in FILES]
    parts = set(emitters.SOURCE.glob("*.py")) - set(emitters.SOURCE.glob("emit_*.py"))
    assert len(parts) == 13
    fewer = {"kahn.py": 2, "values.py": 1}
    for part in parts:
        holders = sum(part.read_text() in text for text in texts)
        assert holders == fewer.get(part.name, 3), part.name


@pytest.mark.requirement("KAHN-60", "RALPH-3")
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_an_emitter_imports_the_standard_library_only(path):
    imported = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            imported.add(node.module.partition(".")[0])
        elif isinstance(node, ast.Name):
            assert node.id != "__import__"
    assert imported <= sys.stdlib_module_names
    assert "importlib" not in imported


USES = {
    "kahn_emit": """
with Emitter("out.jsonl", "ci-1", validate=True) as run:
    run.run_start(total_nodes=1)
    run.node_transition(node_id="lint", from_="pending", to="ready")
    run.node_transition(node_id="lint", from_="ready", to="running", attempt=1)
    checks = [done_when_result(cmd="ruff check", rc=0, duration_s=0.8)]
    run.node_attempt(
        node_id="lint", attempt=1, duration_s=0.9, converged=True, done_when_results=checks
    )
    run.node_transition(node_id="lint", from_="running", to="done")
    outcome = outcome_of(done=1, failed=0, blocked=0)
    run.run_end(outcome=outcome, done=1, failed=0, blocked=0, total_duration_s=1.2)
""",
    "kahn_agent_emit": """
with AgentEmitter("out.jsonl", "agent-coder-1", validate=True) as run:
    coder = run.bind(agent_id="coder")
    coder.agent_run_start(task="Add /v2/health")
    coder.agent_transition(step=0, from_="thinking", to="failed")
    run.audit_checkpoint(agent_id=None, checkpoint_id="audit:rls", result="pass", duration_s=1)
    coder.agent_run_end(
        outcome=AgentOutcome.PARTIAL, total_steps=1, total_tool_calls=0,
        total_audit_checkpoints=0, audits_passed=0, audits_failed=0, total_duration_s=1,
    )
""",
    "tracklog_emit": """
with Emitter.file("out.jsonl") as emitter:
    run = emitter.bind(run=new_id(), actor="host")
    run.fishbowl("run.started")
    run.openwop("run.started", {"workflowId": "w"})
    run.bind(run=new_id()).awf("run.started", {"name": "w", "kind": "workflow"})
    run.tracklog("Began", what="run")
""",
}


@pytest.mark.requirement("KAHN-60", "RALPH-3", "RALPH-4", "RALPH-38")
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_an_emitter_works_where_it_is_copied_to(path, tmp_path):
    """Isolated, without site packages, in a folder that holds nothing else."""
    ralph = tmp_path / "ralph"
    ralph.mkdir()
    shutil.copy(path, ralph)
    code = f"import sys; sys.path.insert(0, '.')\nfrom {path.stem} import *\n{USES[path.stem]}"
    command = [sys.executable, "-I", "-S", "-W", "error", "-c", code]
    subprocess.run(command, cwd=ralph, check=True, env={})
    names = {"kahn_emit": ["kahn-ci"], "kahn_agent_emit": ["kahn-agent"]}
    lines = (ralph / "out.jsonl").read_bytes().splitlines()
    lints = Lint([registry.dialect(name) for name in EMITTED])
    dialects = names.get(path.stem, ["fishbowl", "openwop", "awf", "tracklog"])
    for number, line in enumerate(lines):
        event = CHECKS[dialects[number % len(dialects)]](line)
        assert isinstance(event, Event), event
        assert [finding.name for finding in lints.add(event)] == []
    assert len(lines) >= 4


@pytest.mark.requirement("KAHN-4", "RALPH-2", "RALPH-15")
@pytest.mark.parametrize(
    ("name", "schema"), [("kahn-ci", "transitions"), ("kahn-agent", "agent_transitions")]
)
def test_an_emitter_exposes_exactly_the_events_of_its_schema(name, schema):
    module, emitter = SIBLINGS[name]
    declared = json.loads((CONTRACTS / f"schemas/{schema}.schema.json").read_text())
    frames = [branch["$ref"].rpartition("/")[2] for branch in declared["oneOf"]]
    shapes = {
        frame["properties"]["event"]["const"]: frame
        for frame in (declared["$defs"][frame] for frame in frames)
    }
    assert list(module.EVENTS) == list(shapes)
    exposed = [key for key, method in vars(emitter).items() if key[0] != "_" and key != "ask"]
    assert exposed == list(shapes)
    for kind, fields in module.EVENTS.items():
        assert callable(getattr(module, kind))
        assert list(fields) == list(shapes[kind]["properties"])
        required = {key for key, field in fields.items() if field.required}
        # K2: the emitter always writes the one key whose absence a reader tolerates.
        always = {"agent_id"} if kind == "audit_checkpoint" else set()
        assert required == set(shapes[kind]["required"]) | always


@pytest.mark.requirement("RALPH-9", "RALPH-41", "KAHN-16", "KAHN-17", "KAHN-18")
def test_the_enums_are_those_of_the_contract():
    ci, agents = (registry.dialect(name).kinds for name in SIBLINGS)
    for enum, shape, key in [
        (kahn.Status, ci["node_transition"], "to"),
        (kahn.Outcome, ci["run_end"], "outcome"),
        (agent.AgentStatus, agents["agent_transition"], "to"),
        (agent.AgentOutcome, agents["agent_run_end"], "outcome"),
        (agent.AuditResult, agents["audit_checkpoint"], "result"),
    ]:
        assert list(enum) == shape.model_json_schema()["properties"][key]["enum"]
    assert not set(vars(kahn)) & {"AgentStatus", "AgentOutcome", "AuditResult"}
    assert not set(vars(agent)) & {"Status", "Outcome"}


def test_the_native_emitter_knows_the_words_of_its_dialects():
    assert frozenset(registry.dialect("awf").kinds) == native.AWF_TYPES
    facts = frozenset(registry.dialect("tracklog").kinds) - {"Marked"}  # only people mark
    assert facts == native.FACTS


@pytest.mark.requirement("KAHN-55")
@pytest.mark.parametrize("name", SIBLINGS)
def test_an_event_is_written_with_the_time_now_in_milliseconds_with_z(name, tmp_path):
    before = datetime.now(UTC) - timedelta(milliseconds=1)
    with SIBLINGS[name][1](tmp_path / "a", "r", environ={}) as run:
        written = [some(name, run), run.emit({"event": "x"})]
    for line in written:
        ts = json.loads(line)["ts"]
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", ts)
        assert before <= datetime.fromisoformat(ts) <= datetime.now(UTC)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("abc~/é"), inner, max_size=3)
    ),
    max_leaves=5,
)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
counts = st.integers(0, 2**53) | st.integers(0, 99).map(float)
seconds = st.floats(0, allow_nan=False, allow_infinity=False) | st.integers(0, 2**60)
times = st.datetimes(datetime(1000, 1, 1), datetime(9999, 12, 31)).map(  # noqa: DTZ001 - written as UTC
    lambda at: at.isoformat(timespec="milliseconds") + "Z"
)
VALUES = {
    "ts": times,
    "run_id": st.from_regex(r"[a-zA-Z0-9][a-zA-Z0-9_-]{0,63}", fullmatch=True),
    "agent_id": st.from_regex(r"[a-z0-9][a-z0-9:-]{0,63}", fullmatch=True),
    "node_id": st.from_regex(r"[a-z0-9][a-z0-9-]{0,63}", fullmatch=True),
    "checkpoint_id": st.from_regex(r"[a-z0-9][a-z0-9:.-]{0,127}", fullmatch=True),
    "result": st.sampled_from(agent.AuditResult),
    "evidence": st.dictionaries(texts, json_values, max_size=3),
    "convergence_score": st.floats(0, 1),
    "attempt": st.integers(1, 99),
    "ok": st.booleans(),
    "converged": st.booleans(),
    "exit_code": st.integers(1, 255),
    "output_summary": texts | st.integers(2040, 2060).map(lambda size: "é" * size),
    "done_when_results": st.lists(
        st.fixed_dictionaries(
            {"cmd": texts, "rc": st.integers(-9, 255), "duration_s": seconds},
            optional={"tail": texts | st.integers(1360, 1370).map("水".__mul__), "x": json_values},
        ),
        max_size=3,
    ),
}
EXTRA = st.dictionaries(st.sampled_from(["x", "y", "ä", "usage", "phase"]), json_values, max_size=3)


@st.composite
def events(draw, name):
    """An event of the kahn family that is valid, with its keys in any order."""
    module = SIBLINGS[name][0]
    kind = draw(st.sampled_from(sorted(module.EVENTS)))
    enums = {"to": "Status", "from": "Status", "outcome": "Outcome"}
    event = {"event": kind}
    for key, field in module.EVENTS[kind].items():
        if key == "event" or (not field.required and draw(st.booleans())):
            continue
        if key in enums:
            prefix = "Agent" if name == "kahn-agent" else ""
            event[key] = draw(st.sampled_from(getattr(module, prefix + enums[key])))
        else:
            fallback = {int: counts, float: seconds}.get(field.number, texts)
            event[key] = draw(VALUES.get(key, fallback))
    if kind == "audit_checkpoint" and draw(st.booleans()):
        event["agent_id"] = None
    if kind == "node_transition":
        event.pop("attempt", None)
        event |= {"attempt": 1} if event["to"] == "running" else {}
    if kind == "node_attempt" and event["attempt"] == 1:
        event.pop("backoff_s", None)
    if kind == "run_end" and event["outcome"] in ("clean", "clean_with_flake"):
        event.pop("exit_code", None)
    event |= draw(EXTRA)
    return dict(draw(st.permutations(list(event.items()))))


def built(module, event):
    given = {{"from": "from_"}.get(key, key): value for key, value in event.items()}
    return getattr(module, given.pop("event"))(**given)


@pytest.mark.requirement("KAHN-57", "RALPH-11", "RALPH-13", "KAHN-3")
@pytest.mark.parametrize("name", SIBLINGS)
@given(data=st.data())
def test_what_validates_is_accepted_and_comes_out_in_declared_order(name, data):
    module = SIBLINGS[name][0]
    event = data.draw(events(name))
    made = built(module, event)
    assert module.problems(made) == []
    line = module.line_of(made)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    accepted = CHECKS[name](line[:-1])
    assert isinstance(accepted, Event), accepted
    declared = list(module.EVENTS[event["event"]])
    keys = list(json.loads(line))
    assert keys[:3] == ["ts", "run_id", "event"]
    known = [key for key in keys if key in declared]
    unknown = [key for key in keys if key not in declared]
    assert keys == known + unknown
    assert known == [key for key in declared if key in keys]
    given_extra = [key for key in event if key not in declared]
    assert unknown[: len(given_extra)] == given_extra
    assert all(json.loads(line)[key] == event[key] for key in given_extra)


@pytest.mark.parametrize("name", SIBLINGS)
@given(data=st.data())
def test_a_line_that_was_written_is_written_again_alike(name, data):
    module = SIBLINGS[name][0]
    line = module.line_of(built(module, data.draw(events(name))))
    assert module.line_of(module.shape(json.loads(line))) == line


@pytest.mark.parametrize("name", SIBLINGS)
@given(data=st.data())
def test_validation_refuses_what_the_check_refuses(name, data):
    """One field of a good event becomes anything: what passes here passes there."""
    module = SIBLINGS[name][0]
    event = data.draw(events(name))
    key = data.draw(st.sampled_from(sorted(module.EVENTS[event["event"]])))
    change = data.draw(json_values | st.just("gone"))
    changed = {**event, key: change} if change != "gone" else {**event}
    if change == "gone":
        changed.pop(key, None)
    try:
        made = module.shape(changed)
    except module.Invalid as refused:
        assert refused.problems  # noqa: PT017 - one of two good ways
        return
    found = module.problems(made)
    result = CHECKS[name](module.line_of(made)[:-1])
    assert isinstance(result, Event) == (not found), (found, result)


@given(st.floats(0, allow_nan=False, allow_infinity=False))
def test_a_float_field_has_a_point_and_reads_back_the_same(value):
    event = agent.tool_invocation(
        run_id="r", agent_id="a", step=0, tool_name="x", duration_s=value, ok=True
    )
    text = re.search(rb'"duration_s":([^,]+),', agent.line_of(event))[1].decode()
    assert "." in text
    assert float(text) == value


@given(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1000, max_size=1100),
    st.integers(0, 5),
)
def test_of_a_tail_the_last_4096_bytes_are_written(text, times):
    tail = text * times
    attempt = kahn.node_attempt(
        run_id="r",
        node_id="n",
        attempt=1,
        duration_s=1,
        converged=False,
        done_when_results=[kahn.done_when_result(cmd="c", rc=1, duration_s=1, tail=tail)],
    )
    result = attempt["done_when_results"][0]
    kept = result["tail"]
    assert tail.endswith(kept)
    assert len(kept.encode()) <= 4096
    cropped = len(tail.encode()) > 4096
    assert result.get("truncated", False) == cropped
    assert not cropped or len(kept.encode()) > 4096 - 4
    assert cropped or kept == tail


@pytest.mark.requirement("KAHN-51")
def test_an_output_that_was_not_cropped_is_refused_by_validation():
    event = {"ts": TS, "run_id": "r", "event": "tool_invocation", "agent_id": "a", "step": 0}
    event |= {"tool_name": "x", "duration_s": 1, "ok": True}
    assert agent.problems({**event, "output_summary": "é" * 2048}) == []
    found = agent.problems({**event, "output_summary": "é" * 2049})
    assert [problem.pointer for problem in found] == ["/output_summary"]


@pytest.mark.requirement("KAHN-52")
@given(st.integers(2040, 2060), st.sampled_from(["x", "é", "😀"]))
def test_an_output_is_cropped_to_2048_characters_and_stands_nowhere_else(size, character):
    output = "START" + character * size + "END"
    event = agent.tool_invocation(
        run_id="r",
        agent_id="a",
        step=0,
        tool_name="x",
        duration_s=1,
        ok=True,
        output_summary=output,
    )
    assert event["output_summary"] == output[:2048]
    assert event.get("output_truncated", False) == (len(output) > 2048)
    assert len(output) <= 2048 or "END" not in agent.line_of(event).decode()


def test_nothing_is_redacted_unless_a_redactor_is_given(tmp_path):
    with agent.AgentEmitter(tmp_path / "a", "r") as run:
        line = run.agent_run_start(agent_id="a", task="token sk-123", key="sk-123")
    assert line.count(b"sk-123") == 2


@pytest.mark.requirement("KAHN-53")
def test_a_redactor_sees_every_free_text_before_it_is_cropped(tmp_path):
    def redact(text):
        return re.sub("sk-[0-9]+", "***", text)

    with agent.AgentEmitter(tmp_path / "a", "sk-1", redact=redact, validate=True) as run:
        coder = run.bind(agent_id="sk-1")
        line = coder.tool_invocation(
            step=0,
            tool_name="t sk-2",
            duration_s=1,
            ok=True,
            output_summary="x" * 2044 + "sk-234567",
            result={"deep": ["sk-3"]},
        )
        raw = run.emit(
            {"event": "agent_run_start", "agent_id": "a", "task": "sk-4", "outcome": "sk-5"}
        )
    event = json.loads(line)
    assert event["output_summary"] == "x" * 2044 + "***"
    assert event["result"] == {"deep": ["***"]}
    assert event["tool_name"] == "t ***"
    assert (event["run_id"], event["agent_id"]) == ("sk-1", "sk-1")
    assert raw.count(b"***") == 2
    with kahn.Emitter(tmp_path / "b", "r", redact=redact) as run:
        check = kahn.done_when_result(cmd="x", rc=1, duration_s=1, tail="sk-234567" + "x" * 4090)
        line = run.node_attempt(
            node_id="n", attempt=1, duration_s=1, converged=False, done_when_results=[check]
        )
    assert b'"tail":"***xxx' in line


def test_a_redactor_that_fails_stops_the_line(tmp_path):
    def redact(text):
        raise LookupError(text)

    with kahn.Emitter(tmp_path / "a", "r", redact=redact) as run, pytest.raises(LookupError):
        run.run_start(total_nodes=1, note="x")
    assert (tmp_path / "a").read_bytes() == b""


def some(name, emitter, number=0, text="x"):
    """One event, by the emitter of that name."""
    if name == "kahn-ci":
        return emitter.run_start(total_nodes=number, text=text)
    if name == "kahn-agent":
        return emitter.agent_run_start(agent_id="a", task=text, number=number)
    return emitter.tracklog("Noted", label="x", text=text, data=number)


def opened(name, path, **options):
    if name in SIBLINGS:
        return SIBLINGS[name][1](path, "r", environ={}, **options)
    return native.Emitter.file(path, environ={}, **options).bind(run="r")


WRITERS = [*SIBLINGS, "tracklog"]
each_writer = pytest.mark.parametrize("name", WRITERS)


def short_write(name):
    return SIBLINGS[name][0].ShortWrite if name in SIBLINGS else native.ShortWrite


@each_writer
def test_an_event_is_one_write_of_the_complete_line(name, tmp_path, monkeypatch):
    written, write = [], os.write
    emitter = opened(name, tmp_path / "a")
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", lambda fd, line: written.append(line) or write(fd, line))
        for number in range(3):
            some(name, emitter, number, "é" * 9000)
    emitter.close()
    assert len(written) == 3
    assert all(line.endswith(b"}\n") and line.count(b"\n") == 1 for line in written)
    assert (tmp_path / "a").read_bytes() == b"".join(written)


@each_writer
def test_a_short_write_raises_and_is_not_continued(name, tmp_path, monkeypatch):
    path, write, calls = tmp_path / "a", os.write, []
    emitter = opened(name, path)
    some(name, emitter, 1)
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", lambda fd, line: calls.append(line) or write(fd, line[:10]))
        with pytest.raises(short_write(name), match="only 10 of"):
            some(name, emitter, 2)
    assert len(calls) == 1
    some(name, emitter, 3)
    emitter.close()
    first, torn, last = path.read_bytes().splitlines()
    assert len(torn) == 10
    assert json.loads(first)
    assert json.loads(last)


@each_writer
def test_a_full_disk_raises_and_writes_nothing(name, tmp_path, monkeypatch):
    path = tmp_path / "a"

    def full(fd, line):
        raise OSError(errno.ENOSPC, "No space left on device")

    emitter = opened(name, path)
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        with pytest.raises(OSError, match="No space left"):
            some(name, emitter)
    some(name, emitter)
    emitter.close()
    assert len(path.read_bytes().splitlines()) == 1


@each_writer
def test_a_torn_line_of_a_crash_does_not_swallow_the_next(name, tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b'{"whole":1}\n{"torn":')
    with opened(name, path) as emitter:
        some(name, emitter)
    lines = path.read_bytes().split(b"\n")
    assert lines[:2] == [b'{"whole":1}', b'{"torn":']
    assert json.loads(lines[2])
    assert lines[3:] == [b""]


@each_writer
def test_the_file_is_synced_when_it_is_closed_and_with_sync_after_each_line(
    name, tmp_path, monkeypatch
):
    synced = []
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", synced.append)
        with opened(name, tmp_path / "a") as emitter:
            some(name, emitter)
            assert not synced
        assert len(synced) == 1
        emitter.close()
        assert len(synced) == 1
        with opened(name, tmp_path / "b", durability="sync") as emitter:
            some(name, emitter)
            some(name, emitter)
            assert len(synced) == 3
    with pytest.raises(ValueError, match="'os' or 'sync'"):
        opened(name, tmp_path / "c", durability="maybe")


@each_writer
def test_a_failing_sync_is_not_swallowed_and_leaks_no_descriptor(name, tmp_path, monkeypatch):
    def failing(fd):
        raise OSError(errno.EIO, "Input/output error")

    emitter = opened(name, tmp_path / "a")
    some(name, emitter)
    before = len(list(Path("/dev/fd").iterdir()))
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", failing)
        with pytest.raises(OSError, match="Input/output"):
            emitter.close()
    assert len(list(Path("/dev/fd").iterdir())) == before - 1


@each_writer
def test_a_closed_emitter_says_so(name, tmp_path):
    emitter = opened(name, tmp_path / "a")
    emitter.close()
    with pytest.raises(ValueError, match="closed"):
        some(name, emitter)


@each_writer
def test_a_missing_folder_is_reported_when_the_emitter_is_made(name, tmp_path):
    with pytest.raises(FileNotFoundError):
        opened(name, tmp_path / "no" / "a")


@each_writer
def test_a_pipe_can_be_written_to(name):
    reader, writer = os.pipe()
    with opened(name, f"/dev/fd/{writer}") as emitter:
        some(name, emitter)
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        assert json.loads(file.read())


@each_writer
def test_what_is_written_does_not_depend_on_what_was_refused(name, tmp_path):
    emitter = opened(name, tmp_path / "a")
    loop = []
    loop.append(loop)
    for bad in (float("nan"), float("inf"), {1, 2}, b"bytes", loop, {(1, 2): 3}, object()):
        with pytest.raises(invalid(name)) as refused:
            some(name, emitter, text=[bad])
        assert refused.value.problems[0].pointer
    emitter.close()
    assert (tmp_path / "a").read_bytes() == b""


@pytest.mark.requirement("KAHN-59")
@each_writer
def test_threads_append_complete_lines_each_in_its_own_order(name, tmp_path):
    path, workers, each = tmp_path / "a", 8, 150
    with opened(name, path) as emitter:

        def work(worker):
            for number in range(each):
                some(name, emitter, number, f"{worker}" * 3000)

        threads = [threading.Thread(target=work, args=(worker,)) for worker in range(workers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert_whole(path, workers, each)


def assert_whole(path, workers, each):
    """Every line of every writer is there once, whole, and in the order of its writer."""
    seen = {}
    for line in path.read_bytes().splitlines():
        event = json.loads(line)
        text = event["text"] if "text" in event else event["task"]
        number = next(event[key] for key in ("total_nodes", "number", "data") if key in event)
        assert len(set(text)) == 1
        seen.setdefault(text[0], []).append(number)
    assert len(seen) == workers
    assert all(numbers == list(range(each)) for numbers in seen.values())


PROCESS = """
import sys; sys.path.insert(0, sys.argv[1])
from {module} import {emitter} as Emitter
worker = sys.argv[3]
emitter = {opened}
for number in range(200):
    emitter.{call}
"""
CALLS = {
    "kahn-ci": (
        "kahn_emit",
        "Emitter",
        'Emitter(sys.argv[2], "r")',
        "run_start(total_nodes=number, text=worker * 3000)",
    ),
    "kahn-agent": (
        "kahn_agent_emit",
        "AgentEmitter",
        'Emitter(sys.argv[2], "r")',
        'agent_run_start(agent_id="a", task=worker * 3000, number=number)',
    ),
    "tracklog": (
        "tracklog_emit",
        "Emitter",
        'Emitter.file(sys.argv[2]).bind(run="r")',
        'tracklog("Noted", label="x", text=worker * 3000, data=number)',
    ),
}


@each_writer
def test_threads_write_one_at_a_time(name, tmp_path, monkeypatch):
    write, inside, most = os.write, [], []

    def slow(fd, line):
        inside.append(fd)
        most.append(len(inside))
        time.sleep(0.005)
        inside.pop()
        return write(fd, line)

    with opened(name, tmp_path / "a") as emitter, monkeypatch.context() as patched:
        patched.setattr(os, "write", slow)
        threads = [threading.Thread(target=some, args=(name, emitter)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert most == [1] * 8


@pytest.mark.requirement("KAHN-59")
@each_writer
def test_processes_append_complete_lines_to_one_file(name, tmp_path):
    module, emitter, made, call = CALLS[name]
    code = PROCESS.format(module=module, emitter=emitter, opened=made, call=call)
    path = tmp_path / "a"
    command = [sys.executable, "-c", code, str(CONTRACTS), str(path)]
    workers = [subprocess.Popen([*command, str(worker)]) for worker in range(3)]
    assert [worker.wait() for worker in workers] == [0, 0, 0]
    assert_whole(path, 3, 200)


@pytest.mark.requirement("KAHN-37", "KAHN-59", "KAHN-61")
def test_agents_that_share_a_file_are_read_back_each_in_its_own_order(tmp_path):
    path = tmp_path / "a"
    with agent.AgentEmitter(path, "fleet-1", validate=True) as run:

        def work(name):
            me = run.bind(agent_id=name)
            me.agent_run_start(task="t")
            for step in range(50):
                me.agent_transition(step=step, from_="thinking", to="tool_call")
                me.agent_transition(step=step, from_="tool_call", to="tool_result")
                me.agent_transition(step=step, from_="tool_result", to="response")
                me.agent_transition(step=step, from_="response", to="reflect")
                me.agent_transition(step=step, from_="reflect", to="thinking")
            me.agent_transition(step=50, from_="thinking", to="failed")
            totals = dict.fromkeys(["total_tool_calls", "total_audit_checkpoints"], 0)
            totals |= dict.fromkeys(["audits_passed", "audits_failed"], 0)
            me.agent_run_end(outcome="partial", total_steps=51, total_duration_s=1, **totals)

        threads = [threading.Thread(target=work, args=(f"a{number}",)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    lint = Lint([registry.dialect("kahn-agent")])
    found = [
        finding
        for line in path.read_bytes().splitlines()
        for finding in lint.add(CHECKS["kahn-agent"](line))
    ]
    assert found == []
    assert list(lint.rest()) == []


def test_numbers_of_a_run_follow_the_file_whichever_emitter_and_thread_wrote(tmp_path):
    path = tmp_path / "a"
    with native.Emitter.file(path, environ={}) as emitter:
        runs = {"openwop": "run-1", "awf": native.new_id()}

        def work():
            for _ in range(100):
                emitter.bind(run=runs["openwop"]).openwop("log.appended", {"level": "info"})
                emitter.bind(run=runs["awf"]).awf("step.started", {"name": "s", "kind": "agent"})

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    assert [line["sequence"] for line in lines if "sequence" in line] == list(range(400))
    assert [line["seq"] for line in lines if "seq" in line] == list(range(1, 401))


def test_a_line_that_was_not_written_uses_no_number(tmp_path, monkeypatch):
    path = tmp_path / "a"
    with native.Emitter.file(path, environ={}) as emitter:
        run = emitter.bind(run="run-1")
        assert run.openwop("run.started", {}) == "evt-run-1-0"
        with pytest.raises(native.Invalid):
            run.openwop("x.y", {"bad": float("nan")})
        with monkeypatch.context() as patched:
            patched.setattr(os, "write", lambda fd, line: 0)
            with pytest.raises(native.ShortWrite):
                run.openwop("x.y", {})
        assert run.openwop("x.y", {}) == "evt-run-1-1"


def test_identities_are_returned_and_serve_as_causes(tmp_path):
    path = tmp_path / "a"
    with native.Emitter.file(path, environ={}) as emitter:
        run = emitter.bind(run="run-1", actor="a", agent="x")
        called = run.openwop("agent.toolCalled", {})
        run.openwop("agent.toolReturned", {}, cause=called)
        spoke = run.fishbowl("agent.spoke", {})
        first = run.tracklog("Noted", label="x")
        run.tracklog("Noted", label="y", cause=first)
        number = run.bind(run=native.new_id()).awf("run.started", None)
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    assert lines[0]["eventId"] == lines[1]["causationId"] == called
    assert lines[2]["id"] == spoke
    assert lines[3]["id"] == lines[4]["cause"] == first
    assert lines[5]["seq"] == number == 1


def test_bind_changes_nothing_but_what_it_returns(tmp_path):
    with native.Emitter.file(tmp_path / "a", environ={}) as emitter:
        one = emitter.bind(run="r1", agent="a", turn=1)
        two = one.bind(agent="b")
        assert (one.run, two.run) == ("r1", "r1")
        one.tracklog("Noted", label="x")
        two.tracklog("Noted", label="x")
        with pytest.raises(TypeError, match=r"actr cannot be bound.*actor"):
            emitter.bind(actr="x")
    with agent.AgentEmitter(tmp_path / "b", "r1", environ={}) as run:
        coder = run.bind(agent_id="coder", lane="blue")
        other = coder.bind(agent_id="critic", run_id="r2")
        coder.agent_run_start(task="t")
        other.agent_run_start(task="t")
        with pytest.raises(TypeError, match="agent_id"):
            run.agent_run_start(task="t")
        with pytest.raises(agent.Invalid, match="run_id"):
            run.bind(run_id="a/b")
    read = [json.loads(line) for line in (tmp_path / "a").read_bytes().splitlines()]
    assert [line["agent"] for line in read] == ["a", "b"]
    read = [json.loads(line) for line in (tmp_path / "b").read_bytes().splitlines()]
    assert [line["agent_id"] for line in read] == ["coder", "critic"]
    assert [line["run_id"] for line in read] == ["r1", "r2"]
    assert [line["lane"] for line in read] == ["blue", "blue"]


def test_a_time_may_be_given_as_a_datetime_that_knows_its_zone(tmp_path):
    at = datetime(2026, 5, 5, 11, 0, 0, 123456, timezone(timedelta(hours=2)))
    with native.Emitter.file(tmp_path / "a", environ={}) as emitter:
        run = emitter.bind(run=native.new_id(), actor="a")
        run.fishbowl("a.b", at=at)
        run.openwop("a.b", at=at)
        run.bind(run=native.new_id()).awf("run.started", at=at)
        run.tracklog("Noted", label="x", at=at)
        with pytest.raises(native.Invalid, match="zone"):
            run.fishbowl("a.b", at=at.replace(tzinfo=None))
    lines = [json.loads(line) for line in (tmp_path / "a").read_bytes().splitlines()]
    times = [
        next(line[key] for key in ("created_at", "timestamp", "at") if key in line)
        for line in lines
    ]
    fine = "2026-05-05T09:00:00.123456Z"
    assert times == [fine, "2026-05-05T09:00:00.123Z", fine, fine]


def test_the_clock_of_a_line_is_now(tmp_path):
    before = datetime.now(UTC) - timedelta(milliseconds=1)
    with native.Emitter.file(tmp_path / "a", environ={}) as emitter:
        run = emitter.bind(run="r")
        run.tracklog("Noted", label="x")
        run.openwop("a.b")
    native_line, openwop = map(json.loads, (tmp_path / "a").read_bytes().splitlines())
    assert before <= datetime.fromisoformat(native_line["at"]) <= datetime.now(UTC)
    assert before <= datetime.fromisoformat(openwop["timestamp"]) <= datetime.now(UTC)
    assert re.fullmatch(r".*\.\d{6}Z", native_line["at"])
    assert re.fullmatch(r".*\.\d{3}Z", openwop["timestamp"])


def test_a_file_of_the_native_emitter_is_private(tmp_path):
    native.Emitter.file(tmp_path / "a", environ={}).close()
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o600


def test_any_object_with_write_and_close_is_a_sink():
    class Kept(list):
        closed = False

        def write(self, line, dialect):
            self.append(line)

        def close(self):
            self.closed = True

    sink = Kept()
    with native.Emitter(sink, environ={}) as emitter:
        emitter.bind(run="r", actor="a").fishbowl("a.b")
    assert sink.closed
    assert [isinstance(CHECKS["fishbowl"](line[:-1]), Event) for line in sink] == [True]


def test_fresh_ids_are_version_4_and_differ_also_after_a_fork():
    ids = [native.new_id() for _ in range(1000)]
    assert all(UUID4.fullmatch(id) for id in ids)
    assert len(set(ids)) == 1000
    code = """
import os, sys; sys.path.insert(0, sys.argv[1])
from tracklog_emit import new_id
new_id()
child = os.fork()
if child: os.waitpid(child, 0)
print(*[new_id() for _ in range(100)], flush=True)
"""
    command = [sys.executable, "-c", code, str(CONTRACTS)]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    drawn = out.split()
    assert len(drawn) == len(set(drawn)) == 200


def test_a_forked_child_numbers_its_parents_run_only_from_a_given_number(tmp_path):
    code = """
import os, sys; sys.path.insert(0, sys.argv[1])
from tracklog_emit import Emitter, Invalid
run = Emitter.file(sys.argv[2]).bind(run="run-1")
run.openwop("run.started")
child = os.fork()
if child:
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    run.openwop("run.completed")
    sys.exit()
try:
    run.openwop("log.appended")
except Invalid as refused:
    print(refused, flush=True)
run.bind(run="run-2", parent="run-1").openwop("run.started")
run.tracklog("Noted", label="x")
run.bind(after=7).openwop("log.appended")
os._exit(0)
"""
    path = tmp_path / "a"
    command = [sys.executable, "-c", code, str(CONTRACTS), str(path)]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert "numbered by the parent process" in out
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    assert [line.get("eventId") for line in lines] == [
        "evt-run-1-0",
        "evt-run-2-0",
        None,
        "evt-run-1-8",
        "evt-run-1-1",
    ]


@each_writer
def test_a_child_that_is_forked_while_a_thread_writes_can_write(name, tmp_path):
    """The lock that the other thread holds at the fork must not hold up the child."""
    module, emitter, made, call = CALLS[name]
    code = f"""
import os, sys, threading; sys.path.insert(0, sys.argv[1])
from {module} import {emitter} as Emitter
import {module} as module
worker, number = sys.argv[3], 0
emitter = {made}
lock = module.Appender._lock if hasattr(module, "Appender") else module._Shared.lock
held, done = threading.Event(), threading.Event()
def hold():
    with lock:
        held.set()
        done.wait()
thread = threading.Thread(target=hold); thread.start(); held.wait()
child = os.fork()
if not child:
    emitter.{call}
    os._exit(0)
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
done.set(); thread.join()
sys.exit(code)
"""
    path = tmp_path / "a"
    command = [sys.executable, "-W", "ignore", "-c", code, str(CONTRACTS), str(path), "0"]
    subprocess.run(command, check=True, timeout=30)
    assert len(path.read_bytes().splitlines()) == 1


TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
CHILD = """
import sys; sys.path.insert(0, sys.argv[1])
from {module} import {emitter} as Emitter
emitter = {opened}
emitter.{call}
print(emitter.child_env()["TRACEPARENT"])
"""
STARTS = {
    "kahn-ci": ("kahn_emit", "Emitter", "Emitter(sys.argv[2])", "run_start(total_nodes=1)"),
    "kahn-agent": (
        "kahn_agent_emit",
        "AgentEmitter",
        "Emitter(sys.argv[2])",
        'agent_run_start(agent_id="a", task="t")',
    ),
    "openwop": (
        "tracklog_emit",
        "Emitter",
        "Emitter.file(sys.argv[2])",
        'openwop("run.started", {"workflowId": "w"})',
    ),
    "awf": (
        "tracklog_emit",
        "Emitter",
        "Emitter.file(sys.argv[2])",
        'awf("run.started", {"name": "w", "kind": "workflow"})',
    ),
    "tracklog": (
        "tracklog_emit",
        "Emitter",
        "Emitter.file(sys.argv[2])",
        'tracklog("Began", what="run")',
    ),
}


@pytest.mark.parametrize("name", STARTS)
def test_a_child_process_links_itself_to_the_run_that_started_it(name, tmp_path):
    path, environ = tmp_path / "a", {"TRACEPARENT": TRACE, "TRACKLOG_RUN_ID": "parent-1"}
    if name in SIBLINGS:
        parent = SIBLINGS[name][1](tmp_path / "p", environ=environ)
    else:
        parent = native.Emitter.file(tmp_path / "p", environ=environ)
    handed = parent.child_env()
    parent.close()
    assert handed["TRACKLOG_PARENT_RUN_ID"] == "parent-1"
    module, emitter, made, call = STARTS[name]
    code = CHILD.format(module=module, emitter=emitter, opened=made, call=call)
    command = [sys.executable, "-c", code, str(CONTRACTS), str(path)]
    env = {**os.environ, **environ, **handed}
    said = subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout
    assert said.strip() == TRACE
    dialect, linked = registry.dialect(name), []
    for line in path.read_bytes().splitlines():
        event = CHECKS[name](line)
        assert isinstance(event, Event), event
        assert event.run == handed["TRACKLOG_RUN_ID"]
        linked += [fact for fact in dialect.facts(event) if type(fact).__name__ == "Linked"]
    assert [(fact.kind, fact.parent) for fact in linked] == [("sub-run", "parent-1")]


def test_an_argument_wins_over_the_environment(tmp_path):
    environ = {"TRACKLOG_RUN_ID": "e", "TRACKLOG_PARENT_RUN_ID": "ep", "TRACEPARENT": TRACE}
    run = kahn.Emitter(tmp_path / "a", "own", parent_run_id="p", traceparent="t", environ=environ)
    assert (run.run_id, run.parent_run_id) == ("own", "p")
    assert run.child_env("c") == {
        "TRACKLOG_RUN_ID": "c",
        "TRACKLOG_PARENT_RUN_ID": "own",
        "TRACEPARENT": "t",
    }
    run.close()
    emitter = native.Emitter.file(tmp_path / "b", environ=environ)
    bound = emitter.bind(run="own", parent="p", traceparent="t")
    assert emitter.run == "e"
    assert bound.child_env("c") == {
        "TRACKLOG_RUN_ID": "c",
        "TRACKLOG_PARENT_RUN_ID": "own",
        "TRACEPARENT": "t",
    }
    emitter.close()


@pytest.mark.parametrize("name", [*SIBLINGS, "tracklog"])
def test_without_an_environment_a_run_has_a_fresh_id_and_no_parent(name, tmp_path):
    made = [
        SIBLINGS[name][1](tmp_path / "a", environ={})
        if name in SIBLINGS
        else native.Emitter.file(tmp_path / "a", environ={})
        for _ in range(2)
    ]
    ids = [getattr(emitter, "run_id", None) or emitter.run for emitter in made]
    assert ids[0] != ids[1]
    assert all(UUID4.fullmatch(id) for id in ids)
    assert not any("TRACEPARENT" in emitter.child_env() for emitter in made)
    for emitter in made:
        emitter.close()


def test_a_run_id_that_is_no_file_name_is_refused_when_the_emitter_is_made(tmp_path):
    for bad in ("../etc", "a b", "r\n", "x" * 65):
        with pytest.raises(kahn.Invalid) as refused:
            kahn.Emitter(tmp_path / "a", bad)
        assert refused.value.problems[0].pointer == "/run_id"
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("name", SIBLINGS)
def test_without_validation_a_wrong_value_is_written_and_the_check_refuses_it(name, tmp_path):
    module, emitter = SIBLINGS[name]
    start = {"kahn-ci": {"total_nodes": -1}, "kahn-agent": {"agent_id": "A", "task": "t"}}[name]
    kind = next(iter(module.EVENTS))
    with emitter(tmp_path / "a", "r", environ={}) as run:
        line = getattr(run, kind)(**start)
    assert not isinstance(CHECKS[name](line[:-1]), Event)
    with emitter(tmp_path / "b", "r", validate=True) as run, pytest.raises(module.Invalid) as no:
        getattr(run, kind)(**start)
    assert str(no.value).startswith("/")
    assert (tmp_path / "b").read_bytes() == b""


def test_an_agent_that_is_no_name_is_a_fault_like_any_other(tmp_path):
    step = {"agent_id": ["a"], "step": 0, "from_": "thinking", "to": "failed"}
    with agent.AgentEmitter(tmp_path / "a", "r", environ={}) as run:
        assert b'"agent_id":["a"]' in run.agent_transition(**step)
    checked = agent.AgentEmitter(tmp_path / "b", "r", environ={}, validate=True)
    with checked as run, pytest.raises(agent.Invalid, match="/agent_id"):
        run.agent_transition(**step)


def test_an_event_that_is_none_is_refused_by_validation():
    for event in ({"event": "agent_paused"}, {"event": 7}, {}):
        found = agent.problems({"ts": TS, "run_id": "r", **event})
        assert [problem.pointer for problem in found] == ["/event"]


def test_a_number_of_thousands_of_digits_is_refused_in_words(tmp_path):
    with kahn.Emitter(tmp_path / "a", "r", environ={}) as run:
        for field in ("total_nodes", "x"):
            with pytest.raises(kahn.Invalid, match="digits"):
                run.run_start(**{"total_nodes": 1, field: 10**5000})
        with pytest.raises(kahn.Invalid, match="so long a number"):
            run.run_end(outcome="clean", done=1, failed=0, blocked=0, total_duration_s=10**5000)


def test_every_fault_is_reported_not_the_first():
    event = {"ts": "now", "run_id": "", "event": "agent_transition", "agent_id": "A", "step": -1}
    pointers = [problem.pointer for problem in agent.problems(event)]
    assert pointers == ["/ts", "/run_id", "/agent_id", "/step", "/from", "/to"]


@pytest.mark.requirement("KAHN-40")
@pytest.mark.parametrize("name", SIBLINGS)
def test_null_is_refused_in_every_declared_field_but_one(name):
    module = SIBLINGS[name][0]
    accepted = Counter()
    for kind, fields in module.EVENTS.items():
        for key in fields:
            pointers = [problem.pointer for problem in module.problems({"event": kind, key: None})]
            if f"/{key}" not in pointers:
                accepted[f"{kind}.{key}"] += 1
    assert list(accepted) == (["audit_checkpoint.agent_id"] if name == "kahn-agent" else [])


@pytest.mark.requirement("KAHN-12")
def test_a_checkpoint_always_writes_its_agent_id(tmp_path):
    with agent.AgentEmitter(tmp_path / "a", "r", environ={}, validate=True) as run:
        line = run.emit(
            {"event": "audit_checkpoint", "checkpoint_id": "c", "result": "warn", "duration_s": 1}
        )
    assert b'"event":"audit_checkpoint","agent_id":null,"checkpoint_id":"c"' in line


def test_the_encoder_in_c_and_the_plain_one_agree():
    plain = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode

    @given(json_values)
    def agree(value):
        assert native._dumps(value) == plain(value)

    agree()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_file_to_copy_says_how_it_is_used(path):
    with tokenize.open(path) as file:
        example = ast.get_docstring(ast.parse(file.read()))
    assert "standard library only" in example
    assert f"from {path.stem} import" in example


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_example_of_a_file_runs(path, tmp_path):
    docstring = ast.get_docstring(ast.parse(path.read_text()))
    code = "\n".join(line[4:] for line in docstring.splitlines() if line.startswith("    "))
    command = [sys.executable, "-W", "error", "-c", code]
    subprocess.run(command, cwd=tmp_path, check=True, env={"PYTHONPATH": str(CONTRACTS)})
    (written,) = tmp_path.glob("*.jsonl")
    lines = written.read_bytes().splitlines()
    door = {"kahn_emit": ["kahn-ci"], "kahn_agent_emit": ["kahn-agent"]}
    dialects = door.get(path.stem, ["fishbowl", "tracklog"])
    events = [CHECKS[dialects[at % len(dialects)]](line) for at, line in enumerate(lines)]
    assert all(isinstance(event, Event) for event in events)
    lint = Lint([registry.dialect(name) for name in dialects])
    found = [finding for event in events for finding in lint.add(event)]
    assert [finding for finding in found if finding.level == "error"] == []
