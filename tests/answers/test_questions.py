"""What is derived from a question: its types, its schema, its verb and its route."""

import ast
import importlib
import inspect
import subprocess
import sys
from collections.abc import Mapping, MutableMapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

import orjson
import pytest
from typing_extensions import is_typeddict

from support import sampling as samples
from support.asking import ask
from support.collecting import Collector
from support.forking import tracklog
from tracklog.answers import Question
from tracklog.answers.registry import questions
from tracklog.collector.openapi import document
from tracklog.collector.routes import ROUTES
from tracklog.dialects import tracklog as native
from tracklog.home.home import Home
from tracklog.model.fact import Called, Fact, Said

RUN = "kahn:agent-coder-1"
GIVEN: dict[str, dict[str, Any]] = {
    "show": {"run": RUN},
    "story": {"run": RUN},
    "run-spends": {"run": RUN},
    "spans": {"run": RUN},
    "turns": {"run": RUN},
    "density": {"run": RUN},
    "graph": {"run": RUN},
    "conversation": {"run": "tracklog:looping"},
    "audits": {"window": "all"},
    "search": {"query": "the"},
    "hits": {"query": "the"},
    "why": {"run": RUN, "seq": None},
    "diff": {"a": RUN, "b": "kahn:agent-coder-2"},
    "traces": {"run": [RUN]},
    "series": {
        "metric": ["calls"],
        "by": "tool",
        "since": "2026-05-01",
        "until": "2026-05-20",
        "tz": "UTC",
    },
    "query": {"sql": "SELECT run FROM runs ORDER BY run"},
}
"""What a question is asked with."""
ANSWERS = "tracklog.answers"
SOURCE = Path(__file__).parents[2] / "src/tracklog"
CLOCKS = ("silent_seconds", "waiting_seconds", "age_seconds", "now", "begin")
"""What is another number a moment later."""
OWN = {"query"}
"""Verbs whose `--json` is made of the answer, and not the answer itself; none has a route."""


def looping():
    """A run that says something and calls a tool again and again."""
    facts: list[Fact] = [Said(role="user", blocks=({"type": "text", "text": "the same"},))]
    facts += [Called(tool="Read", call_id=str(n), input={"path": "/a"}) for n in range(4)]
    for n, fact in enumerate(facts):
        origin = {"writer": "live", "fidelity": "observed"}
        yield native.line(fact, id=f"{n:032x}", run="looping", at=None, origin=origin)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    path = tmp_path_factory.mktemp("fleet") / "home"
    with Home(path, durability="os") as opened:
        for sample in samples.of("good"):
            opened.intake.admit(samples.lines_of(sample), samples.dialect_of(sample))
        opened.intake.admit(list(looping()), "tracklog")
        opened.index.catch_up()
        GIVEN["why"]["seq"] = opened.index.state("runs", RUN).last_seq
    return path


@pytest.fixture(scope="module")
def server(home):
    server = Collector(home)
    yield server
    server.stop()


every_question = pytest.mark.parametrize("question", questions(), ids=lambda each: each.name)


def timeless(value):
    """The same value without what changes with the clock."""
    if isinstance(value, dict):
        return {key: timeless(each) for key, each in value.items() if key not in CLOCKS}
    return [timeless(each) for each in value] if isinstance(value, list) else value


def on_the_command_line(question: Question) -> list[str]:
    words = [question.name, "--json"]
    given = GIVEN.get(question.name, {})
    for param in question.params:
        if param.argument in given:
            value = given[param.argument]
            for each in value if isinstance(value, list) else [value]:
                words += [] if param.required else [f"--{param.name}"]
                words.append(str(each))
    return words


def over_http(question: Question, server: Collector) -> Any:
    given = dict(GIVEN.get(question.name, {}))
    path = question.routes[0]
    if "{run}" in path:
        path = path.format(**dict(zip(("family", "run"), given.pop("run").split(":"), strict=True)))
    names = {each.argument: each.name for each in question.params}
    answer = server.get(path, params={names[key]: value for key, value in given.items()})
    assert answer.status_code == 200, answer.text
    return answer.json()


@every_question
def test_a_program_gets_the_same_json_from_python_the_verb_and_http(home, server, question):
    given = GIVEN.get(question.name, {})
    usual = {each.argument: each.default for each in question.params if each.default is not None}
    with Home(home, readonly=True) as opened:
        opened.index.catch_up()
        answer = timeless(ask(opened, question.name, **usual | given))
    done = tracklog(home, *on_the_command_line(question))
    assert done.returncode in (0, 1), done.stderr
    lines = [timeless(orjson.loads(line)) for line in done.stdout.splitlines()]
    if question.name not in OWN:
        assert (lines if question.row else lines[0]) == answer
    if question.routes:
        assert timeless(over_http(question, server)) == answer
    assert answer, "the home holds something to be asked"


OPEN = {"tracklog.answers.story.StoryBlock"}
"""A block of AWF, as its agent reported it: it may have keys that only the agent knows."""


@every_question
def test_an_answer_is_made_of_frozen_dataclasses_and_of_no_bare_dict(question):
    seen: set[type] = set()
    ahead = [question.result]
    while ahead:
        kind = ahead.pop()
        assert kind not in (dict, Mapping, list, tuple, Any), f"{question.name} has a bare {kind}"
        if get_origin(kind) in (dict, Mapping, MutableMapping):
            assert not {Any, object} & {*get_args(kind)}, f"{question.name} answers with {kind}"
        ahead += [each for each in get_args(kind) if not isinstance(each, str)]
        if kind in seen or not (is_dataclass(kind) or is_typeddict(kind)):
            continue
        seen.add(kind)
        if is_dataclass(kind):
            assert kind.__dataclass_params__.frozen, kind
            assert "__slots__" in vars(kind), kind
            assert inspect.getdoc(kind), kind
        config = getattr(kind, "__pydantic_config__", {})
        if config.get("extra") == "allow":
            assert f"{kind.__module__}.{kind.__name__}" in OPEN
        ahead += get_type_hints(kind).values()
    assert seen


JSON_OBJECT = ("components", "schemas", "JsonObject")
"""The one schema of an object whose keys only its writer knows."""
SAYS = {"type", "$ref", "anyOf", "const", "enum"}
"""The keys of a schema of which one says what a value is."""


def bare(value, place=()):
    """Where a document says of a value only that it is an object, or nothing."""
    if isinstance(value, dict):
        open_keys = not isinstance(value.get("additionalProperties"), dict)
        if value.get("type") == "object" and not value.get("properties") and open_keys:
            if place != JSON_OBJECT:
                yield place
        elif place[-1:] == ("schema",) and place[-2:-1] != ("properties",) and not SAYS & {*value}:
            yield place
        for key, each in value.items():
            yield from bare(each, (*place, key))
    elif isinstance(value, list):
        for n, each in enumerate(value):
            yield from bare(each, (*place, n))


def test_the_openapi_document_has_no_bare_object():
    empty = {"type": "object", "properties": {}}
    for each in (empty, {"type": "object"}, {"type": "object", "additionalProperties": True}, {}):
        assert list(bare({"schema": each})) == [("schema",)]
    assert list(bare(document(ROUTES))) == []


def asked_by_shells():
    """The functions of answers that a shell imports, and those of the classes that it imports."""
    for room in ("cli", "collector", "log.py"):
        place = SOURCE / room
        for path in place.rglob("*.py") if place.is_dir() else (place,):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(ANSWERS):
                    module = importlib.import_module(node.module)
                    yield from (getattr(module, each.name) for each in node.names)


def signatures(kind):
    """Every function of a function, a class or a module, without those with an underscore."""
    if inspect.isfunction(kind):
        yield kind
    elif inspect.isclass(kind) or inspect.ismodule(kind):
        own = kind.__name__ if inspect.ismodule(kind) else kind.__module__
        for name, each in vars(kind).items():
            if inspect.isfunction(each) and each.__module__ == own and name[0] != "_":
                yield each


def parts(kind):
    """A type and all that it is made of."""
    yield kind
    for each in get_args(kind):
        yield from parts(each)


def test_no_untyped_value_goes_from_an_answer_to_a_shell():
    """JSON as its emitter wrote it is `JsonValue`; a parameter and its question are made of it."""
    found = {each for kind in asked_by_shells() for each in signatures(kind)}
    assert len(found) > 15
    for each in found:
        hints = get_type_hints(each, localns={"Home": Home})
        kinds = {part for hint in hints.values() for part in parts(hint)}
        allowed = {Any} if each.__module__ == ANSWERS else set()
        assert not kinds & ({Any, dict, list} - allowed), (each, hints)


@every_question
def test_the_schema_of_an_answer_has_the_name_of_its_dataclass_and_all_its_fields(question):
    made = document(ROUTES)
    for path in question.routes:
        content = made["paths"][path]["get"]["responses"]["200"]["content"]
        schema = content["application/json"]["schema"]
        kind, named = question.row or question.result, schema
        if question.row:
            named = schema["items"]
        elif isinstance(kind, UnionType):  # one, or a list of them
            kind, several = get_args(kind)
            named, listed = schema["anyOf"]
            assert (several, listed) == (list[kind], {"type": "array", "items": named})
        assert named == {"$ref": f"#/components/schemas/{kind.__name__}"}
        names = [each.name for each in fields(kind)]
        shape = made["components"]["schemas"][kind.__name__]
        assert list(shape["properties"]) == shape["required"] == names


PAGE = Path(__file__).parents[2] / "docs/how-to/add-a-question.md"


def test_one_more_question_is_one_file(tmp_path, home):
    """The file of another package gives a verb, a table, a route and a schema."""
    (tmp_path / "manners.py").write_text(PAGE.read_text().split("```python\n")[1].split("```")[0])
    info = tmp_path / "manners-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: manners\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[tracklog.answers]\nquick = manners:question\n")
    program = (
        "import sys, json\n"
        "sys.argv[1:] = ['quick', '--most', '1', '--json', '--home', sys.argv[1]]\n"
        "from tracklog.collector.openapi import document\n"
        "from tracklog.collector.routes import ROUTES\n"
        "made = document(ROUTES)\n"
        "print(json.dumps([made['paths']['/api/quick']['get']['parameters'][0]['name'],\n"
        "    made['components']['schemas']['QuickRow']['required']]), flush=True)\n"
        "from tracklog.__main__ import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(home)],
        env={"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    shape, *rows = map(orjson.loads, done.stdout.splitlines())
    assert shape == ["most", ["run", "calls"]], done.stderr
    assert {"run": "fishbowl:bowl-1", "calls": 0} in rows
    assert "tracklog:looping" not in [row["run"] for row in rows]  # it has four calls
