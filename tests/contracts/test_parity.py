"""Python and TypeScript own their models each; what they accept is one thing, and so is what is published."""

import fcntl
import importlib
import json
import runpy
import shutil
import subprocess
from functools import cache
from pathlib import Path

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema_rs import Draft202012Validator
from pydantic import ValidationError

from support import parity
from support import sampling as samples
from tracklog.dialects.checking import checker, parse, upcast
from tracklog.dialects.schemas import contract, published, schema_of
from tracklog.home import registry
from tracklog.model.event import Event, Problem, Refusal

ROOT = Path(__file__).parents[2]
CONTRACTS = ROOT / "contracts"
TS = CONTRACTS / "ts"
DIST = TS / "dist"
PINNED = CONTRACTS / "schemas" / "transitions.schema.json"
LAYER = {"run_start": ["actor"], "node_transition": ["outcome"]}
"""K24: what the profile requires on top of upstream."""

DIALECTS = {dialect.name: dialect for dialect in registry.dialects()}
DOCUMENTS = {name: shape for d in DIALECTS.values() for name, shape in d.documents.items()}
UPSTREAM = parity.branches(json.loads(PINNED.read_text()), "event")
FRAMES = [name for name, dialect in DIALECTS.items() if dialect.kinds.keys() & UPSTREAM.keys()]

each_dialect = pytest.mark.parametrize("name", DIALECTS)
each_document = pytest.mark.parametrize("name", DOCUMENTS)
each_frame = pytest.mark.parametrize("name", FRAMES)


@pytest.fixture(scope="session")
def built():
    """The TypeScript package, built when its sources are newer than what was built of them."""
    assert shutil.which("npm"), (
        "node and npm are needed: the parity of the contracts is proven here"
    )
    sources = [*TS.glob("src/**/*.ts"), TS / "package.json", *TS.glob("tsconfig*.json")]
    stamp = DIST / "schemas.js"
    with (TS / "package.json").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests may run in several processes
        if not stamp.exists() or stamp.stat().st_mtime < max(s.stat().st_mtime for s in sources):
            if not (TS / "node_modules" / "typescript").exists():
                run("npm", "ci", "--silent", cwd=TS)
            shutil.rmtree(DIST, ignore_errors=True)
            run("npm", "run", "--silent", "build", cwd=TS)
    return DIST


@pytest.fixture(scope="session")
def zod(built):
    """What zod derives: the contract of every dialect, and the other documents."""
    return json.loads(run("node", built / "schemas.js"))


def run(*command, cwd=ROOT, feed=b""):
    done = subprocess.run(command, cwd=cwd, input=feed, capture_output=True, check=False)
    assert done.returncode == 0, (command, done.stdout.decode(), done.stderr.decode())
    return done.stdout


def pydantic_branches(name):
    return parity.branches(contract(DIALECTS[name]), DIALECTS[name].kind_key)


def zod_branches(zod, name):
    assert name in zod["dialects"], (
        f"{name} has no second implementation in contracts/ts/src/dialects"
    )
    return parity.branches(zod["dialects"][name], DIALECTS[name].kind_key)


@pytest.fixture
def derive(monkeypatch):
    """The script that writes the derived files, with its schemas alone."""
    monkeypatch.syspath_prepend(ROOT / "scripts")
    script = importlib.import_module("derive")
    monkeypatch.setattr(script.reference, "pages", dict)
    return script


@pytest.mark.requirement("KAHN-1", "RALPH-2", "WOP-93", "WOP-97")
def test_published_schemas_are_the_derived_ones(derive):
    assert derive.stale() == []
    names = {path.name for path in derive.derived()}
    assert names == {f"{name}.schema.json" for name in published(DIALECTS.values())}
    assert {"agent_transitions.schema.json", "graph.schema.json"} < names
    assert {"openwop.schema.json", "agent_manifest.schema.json"} < names
    assert PINNED.name not in names
    assert PINNED.exists()
    assert (CONTRACTS / "kahn_emit.py").exists()


def test_a_schema_that_was_edited_or_left_over_is_stale(derive, tmp_path, monkeypatch):
    folder = tmp_path / "schemas"
    shutil.copytree(CONTRACTS / "schemas", folder)
    monkeypatch.setattr(derive, "SCHEMAS", folder)
    assert derive.stale() == []
    edited = min(derive.derived())
    edited.write_text(edited.read_text().replace('"type": "string"', '"type": "number"', 1))
    (folder / "orphan.schema.json").write_text("{}")
    assert derive.stale() == sorted([edited.name, "orphan.schema.json"])


def test_no_command_writes_the_pinned_schema(derive, tmp_path, monkeypatch):
    monkeypatch.setattr(derive, "SCHEMAS", tmp_path)
    assert derive.main([]) == 0
    assert list(tmp_path.iterdir())
    assert not (tmp_path / PINNED.name).exists()


@pytest.mark.requirement("RALPH-35")
@each_dialect
def test_pydantic_and_zod_derive_the_same_contract(zod, name):
    assert parity.differences(pydantic_branches(name), zod_branches(zod, name)) == []


@pytest.mark.requirement("RALPH-35", "WOP-97")
@each_document
def test_pydantic_and_zod_derive_the_same_document(zod, name):
    ours, theirs = schema_of(DOCUMENTS[name]), zod["documents"][name]
    assert parity.differences(parity.normal(ours), parity.normal(theirs)) == []


def contract_mutants(zod, name):
    """By kind, every change of one rule in the contract of a dialect, and what was changed."""
    for branch in parity.shapes(zod["dialects"][name]):
        ((kind, _),) = parity.branches(branch, DIALECTS[name].kind_key).items()
        for what, mutant in parity.mutants(branch):
            yield kind, what, mutant


@pytest.mark.requirement("RALPH-35")
@each_dialect
def test_one_changed_rule_breaks_the_parity_of_a_contract(zod, name):
    ours, mutants = pydantic_branches(name), list(contract_mutants(zod, name))
    assert mutants
    assert [
        what
        for kind, what, mutant in mutants
        if not parity.differences(ours[kind], parity.normal(mutant))
    ] == []


def test_the_contracts_together_have_every_kind_of_rule(zod):
    tried = {what for name in DIALECTS for _, what, _ in contract_mutants(zod, name)}
    assert {what.partition(" at ")[0] for what in tried} == set(parity.MUTATIONS)


@pytest.mark.requirement("RALPH-35")
@each_document
def test_one_changed_rule_breaks_the_parity_of_a_document(zod, name):
    ours = parity.normal(schema_of(DOCUMENTS[name]))
    mutants = list(parity.mutants(zod["documents"][name]))
    assert mutants
    assert [w for w, m in mutants if not parity.differences(ours, parity.normal(m))] == []


def frames_of(side, zod, name):
    return pydantic_branches(name) if side == "pydantic" else zod_branches(zod, name)


def layer_of(name):
    """What a dialect asks for above upstream: nothing, unless it is a profile and never guessed."""
    return {} if DIALECTS[name].guessed else LAYER


@pytest.mark.requirement("RALPH-1", "RALPH-15", "RALPH-17", "RALPH-19", "RALPH-36", "RALPH-39")
@pytest.mark.parametrize("side", ["pydantic", "zod"])
@each_frame
def test_frames_are_upstreams(zod, side, name):
    assert parity.drift(frames_of(side, zod, name), UPSTREAM, layer_of(name)) == []


def test_upstream_has_a_dialect_and_a_profile_of_its_frames():
    assert sorted(DIALECTS[name].guessed for name in FRAMES) == [False, True]


@pytest.mark.requirement("RALPH-36")
@pytest.mark.parametrize("side", ["pydantic", "zod"])
@each_frame
def test_one_changed_rule_is_drift(zod, side, name):
    frames = frames_of(side, zod, name)
    survivors = []
    for kind, frame in frames.items():
        declared = UPSTREAM[kind]["properties"]
        for what, mutant in parity.mutants(frame):
            _, _, place = what.partition(" at /properties/")
            if place and place.split("/")[0] not in declared:
                continue  # a rule of the layer, which upstream says nothing about
            if what == "a property dropped at /" and declared.keys() <= mutant["properties"].keys():
                continue
            changed = parity.normal(mutant)
            if not parity.drift({**frames, kind: changed}, UPSTREAM, layer_of(name)):
                survivors.append(what)
    assert survivors == []


@pytest.mark.requirement("RALPH-36")
@each_frame
def test_a_new_required_key_is_drift(name):
    frames = pydantic_branches(name)
    for kind, frame in frames.items():
        changed = {**frame, "required": sorted([*frame["required"], "mutant"])}
        assert parity.drift({**frames, kind: changed}, UPSTREAM, layer_of(name))


@pytest.mark.requirement("RALPH-36")
def test_a_missing_or_a_fifth_frame_is_drift():
    frames = pydantic_branches(FRAMES[0])
    four = dict(frames)
    gone = four.popitem()[0]
    assert parity.drift(four, UPSTREAM, {})
    assert parity.drift({**frames, "mutant": frames[gone]}, UPSTREAM, {})


@pytest.mark.requirement("RALPH-37", "RALPH-38")
@pytest.mark.parametrize("original", ["schemas/transitions.schema.json", "kahn_emit.py"])
def test_upstream_stands_once_in_the_tree(original):
    wanted = {CONTRACTS / original}
    tracked = run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard").split(
        b"\0"
    )
    paths = [ROOT / path.decode() for path in tracked if path]
    content = (CONTRACTS / original).read_bytes()
    size = len(content)
    copies = {
        path
        for path in paths
        if path.is_file()
        and (
            path.name == Path(original).name
            or (path.stat().st_size == size and path.read_bytes() == content)
        )
    }
    assert copies == wanted


@pytest.mark.requirement("RALPH-37", "RALPH-38")
def test_the_typescript_package_holds_no_schema_and_no_python():
    tracked = run("git", "ls-files", "--cached", "--others", "--exclude-standard", cwd=TS).split()
    names = {Path(path.decode()).name for path in tracked}
    assert not [name for name in names if name.endswith((".schema.json", ".py"))]
    assert not (CONTRACTS / "schemas" / "ralph.schema.json").exists()


def understood(dialect, line):
    """The line as the check understands it: lifted and tolerated; None where it cannot be read."""
    parsed = parse(line, halves=dialect.policy.halves)
    lifted = parsed if isinstance(parsed, Refusal) else upcast(dialect, parsed[0])
    return None if isinstance(lifted, Refusal | Problem) else dialect.tolerate(lifted)[0]


def by_pydantic(dialect, body):
    kind = body.get(dialect.kind_key)
    shape = dialect.kinds.get(kind) if isinstance(kind, str) else None
    if shape is None and dialect.policy.kinds == "open":
        shape = dialect.frame
    try:
        return shape is not None and bool(shape.model_validate(body))
    except ValidationError:
        return False


@cache
def compiled(name):
    return Draft202012Validator(contract(DIALECTS[name]), validate_formats=True)


def by_zod(built, name, lines):
    verdicts = run("node", built / "judge.js", name, feed=b"\n".join(lines) + b"\n").splitlines()
    assert len(verdicts) == len(lines)
    return [json.loads(verdict) for verdict in verdicts]


def each_number(value, cure):
    """A value with each of its numbers cured."""
    if isinstance(value, dict):
        return {key: each_number(inner, cure) for key, inner in value.items()}
    if isinstance(value, list):
        return [each_number(inner, cure) for inner in value]
    return cure(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def whole(number):
    """In strict mode 3.0 is no integer to pydantic; the schema and JavaScript take it for one."""
    return int(number) if number == int(number) else number


def small(number):
    """JavaScript cannot hold integers beyond 2^53, so zod refuses them."""
    return number if abs(number) < 2**53 else 7


SPLITS = {"pydantic": whole, "zod": small}
"""The known splits: who refuses what the check accepts, and what would repair it."""


@cache
def judged(built, name):
    """The samples of a dialect on which the judges differ: by no known split, and by which."""
    dialect, check = DIALECTS[name], checker(DIALECTS[name])
    cases = [
        (path, line, understood(dialect, line))
        for kind in ("good", "bad", "odd")
        for path in samples.of(kind)
        if samples.dialect_of(path) == name
        for line in samples.lines_of(path)
    ]
    zods = by_zod(built, name, [line for _, line, _ in cases])
    unlike, splits = [], set()
    for (path, line, body), verdict in zip(cases, zods, strict=True):
        event = check(line)
        accepted = isinstance(event, Event)
        if accepted and event.odd and verdict.get("event") != body:
            unlike.append((samples.name_of(path), line, accepted, "zod understands it otherwise"))
        verdicts = {"zod": verdict["accepted"]}
        if body is not None:
            # What a reader excuses, the published shapes still require.
            excused = accepted and misses_excused(dialect, body)
            verdicts["contract"] = compiled(name).is_valid(body) != excused
            verdicts["pydantic"] = by_pydantic(dialect, body) != excused
        for who in [who for who, said in verdicts.items() if said != accepted]:
            if accepted and who in SPLITS and mended(built, who, dialect, body):
                splits.add(who)
            else:
                unlike.append((samples.name_of(path), line, accepted, who))
    return unlike, splits


def misses_excused(dialect, body):
    """Whether a body lacks a required key that a reader can do without."""
    keys = dialect.excused.get(body.get(dialect.kind_key), frozenset())
    return not keys <= body.keys()


def mended(built, who, dialect, body):
    """Whether a judge accepts a body without what it is known to trip over."""
    cured = each_number(body, SPLITS[who])
    if json.dumps(cured) == json.dumps(body):
        return False
    if who == "pydantic":
        return by_pydantic(dialect, cured)
    return by_zod(built, dialect.name, [json.dumps(cured).encode()])[0]["accepted"]


@each_dialect
def test_every_sample_is_judged_alike(built, name):
    """By the check, by the published contract, by pydantic and by zod."""
    unlike, _ = judged(built, name)
    assert unlike == []


def test_every_known_split_has_a_sample(built):
    assert set.union(*(judged(built, name)[1] for name in DIALECTS)) == set(SPLITS)


@each_dialect
def test_zod_names_the_place_of_a_fault(built, name):
    paths = [path for path in samples.of("bad") if samples.dialect_of(path) == name]
    cases = [(path, line) for path in paths for line in samples.lines_of(path)]
    zods = by_zod(built, name, [line for _, line in cases])
    for (path, line), verdict in zip(cases, zods, strict=True):
        for pointer in samples.pointers_of(path):
            assert pointer in verdict["pointers"], line


MOMENTS = {
    "2024-02-29T00:00:00.000Z": True,
    "2023-02-29T00:00:00.000Z": False,
    "1900-02-29T00:00:00.000Z": False,
    "2000-02-29T00:00:00.000Z": True,
    "2023-04-31T00:00:00.000Z": False,
    "2023-13-01T00:00:00.000Z": False,
    "2023-00-01T00:00:00.000Z": False,
    "2023-01-00T00:00:00.000Z": False,
    "2023-01-01T24:00:00.000Z": False,
    "2023-01-01T00:60:00.000Z": False,
    "2023-01-01T00:00:61.000Z": False,
    "2016-12-31T23:59:60.000Z": True,
    "2016-12-31T12:00:60.000Z": False,
    "0000-01-01T00:00:00.000Z": True,
}
"""Whether a moment exists; a leap second is the last of a UTC day."""


def test_times_get_the_same_verdict_in_all_models(built):
    lines = [
        orjson.dumps({"ts": at, "run_id": "r", "event": "run_start", "total_nodes": 0})
        for at in MOMENTS
    ]
    name = next(name for name in FRAMES if DIALECTS[name].guessed)
    by_check = [isinstance(checker(DIALECTS[name])(line), Event) for line in lines]
    zods = [verdict["accepted"] for verdict in by_zod(built, name, lines)]
    models = [by_pydantic(DIALECTS[name], orjson.loads(line)) for line in lines]
    assert by_check == zods == models == list(MOMENTS.values())


EMIT = runpy.run_path(str(CONTRACTS / "kahn_agent_emit.py"))
WRITE = """
import { readFileSync } from "node:fs";
const { shaped, lineOf, KAHN_AGENT } = await import(process.argv[1]);
for (const line of readFileSync(0, "utf8").trimEnd().split("\\n"))
  process.stdout.write(lineOf(KAHN_AGENT, shaped(KAHN_AGENT, JSON.parse(line))));
"""

long_texts = st.builds(lambda piece, times: piece * times, st.text(), st.integers(2040, 2060))
texts = st.text(st.characters(exclude_categories=()), max_size=9) | long_texts
fractions = st.floats(allow_nan=False, allow_infinity=False).filter(lambda x: x != int(x))
"""In a key that no contract declares, JavaScript cannot tell 65.0 from 65."""
values = st.recursive(
    st.none() | st.booleans() | st.integers(1 - 2**53, 2**53 - 1) | fractions | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('aé"', max_size=3), inner),
    max_leaves=5,
)
seconds = st.floats(0, allow_nan=False, allow_infinity=False) | st.integers(0, 2**53)
invocations = st.fixed_dictionaries(
    {
        "step": st.integers(0, 2**53 - 1),
        "tool_name": texts,
        "duration_s": seconds,
        "ok": st.booleans(),
    },
    optional={"input_summary": texts, "output_summary": texts, "error": texts, "zeta": values},
)


@given(st.lists(invocations, min_size=1))
@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
def test_emitters_of_both_languages_write_the_same_bytes(built, invocations):
    base = {"ts": "2026-05-05T09:00:00.000Z", "run_id": "r", "event": "tool_invocation"}
    lines = [json.dumps({**said, **base, "agent_id": "a"}) for said in invocations]
    ours = [EMIT["line_of"](EMIT["shape"](json.loads(line))) for line in lines]
    code = ["node", "--input-type=module", "-e", WRITE, (built / "emit.js").as_uri()]
    theirs = run(*code, feed="\n".join(lines).encode())
    assert theirs.splitlines(keepends=True) == b"".join(ours).splitlines(keepends=True)
