"""The mutation tester: what it changes, what it leaves alone, and that its tables are current."""

import ast
import shutil

import pytest

import mutants
import mutate

SOURCE = b'''"""A docstring."""
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    import json
LIMIT: Annotated[int, Field(ge=3, le="x")] = 5
def f(a, b=True):
    """Another."""
    if a < 2 and not b:
        raise ValueError("a message for people")
    for each in a:
        g(each)
        continue
    b += 1
    c = a - 1
    assert c
    return f"caf\xc3\xa9 {c or 'word'}" if a in b else None
'''


def test_each_mutant_changes_one_thing_and_still_compiles():
    finder = mutants.Finder("m.py", SOURCE)
    finder.visit(ast.parse(SOURCE))
    changes = {(each.old, each.new) for each in finder.mutants}
    assert changes >= {
        ("3", "4"), ('"x"', "'XXxXX'"), ("5", "6"), ("True", "False"), ("a < 2", "((a) <= (2))"),
        ("a < 2 and not b", "((a < 2) or (not b))"), ("not b", "(b)"), ("2", "3"),
        ("a < 2 and not b", "(not (a < 2 and (not b)))"), ("g(each)", "pass"),
        ('raise ValueError("a message for people")', "pass"), ("continue", "break"),
        ("b += 1", "b = 1"), ("c = a - 1", "c = None"), ("a - 1", "((a) + (1))"),
        ("a in b", "((a) not in (b))"), ("'word'", "'XXwordXX'"),
    }  # fmt: skip
    assert not any("docstring" in old or "Another" in old or "json" in old for old, _ in changes)
    assert ("c", "None") not in changes
    for mutant in finder.mutants:
        assert mutants.mutated(SOURCE, mutant) != SOURCE
        compile(mutants.mutated(SOURCE, mutant), "m.py", "exec")


@pytest.mark.parametrize("room", mutate.ROOMS)
def test_every_room_has_modules_and_every_module_tests_that_exist(room):
    modules = mutate.modules_of(room)
    assert modules
    for module in modules:
        for stage in mutate.stages_of(module):
            assert stage
            assert all((mutate.ROOT / name).is_file() for name in stage), (module, stage)


def test_a_sample_is_the_same_for_the_same_seed(capsys, monkeypatch):
    drawn = []
    for seed in ("7", "7", "8"):
        words = ["mutate.py", "dialects", "--only", "dialects/ralph.py", "--list"]
        monkeypatch.setattr("sys.argv", [*words, "--sample", "5", "--seed", seed])
        assert mutate.main() == 0
        drawn.append(capsys.readouterr().out)
    assert drawn[0] == drawn[1] != drawn[2]


def test_a_mutant_lives_in_a_copy_and_the_tree_stays_as_it_is(tmp_path):
    module = "dialects/ralph.py"
    path = mutate.ROOT / mutate.PACKAGE / module
    before = path.read_bytes()
    mutant = next(iter(mutate.mutants_of([module])))
    place = mutate.Workplace(tmp_path / "copy", 60)
    copy = place.folder / mutate.PACKAGE / module
    seen = []

    def look(files):
        seen.append((copy.read_bytes(), files))
        return "survived" if len(seen) == 1 else "killed"

    place.test = look
    assert place.try_one(mutant) == "killed"
    assert [content for content, _ in seen] == [mutants.mutated(before, mutant)] * 2
    assert [files for _, files in seen] == mutate.stages_of(module)[:2]
    assert copy.read_bytes() == before == path.read_bytes()
    assert all(path.is_symlink() for path in place.folder.rglob("node_modules"))


@pytest.mark.parametrize("loop", ["while True: pass", "import time; time.sleep(1000)"])
def test_a_mutant_that_loops_or_waits_for_ever_times_out(tmp_path, monkeypatch, loop):
    monkeypatch.setattr(mutate, "HANGING", 2)
    place = mutate.Workplace(tmp_path / "copy", 2)
    (place.folder / "test_loop.py").write_text(f"def test_loop():\n    {loop}\n")
    assert place.test(["test_loop.py"]) == "timeout"


def test_the_lines_of_a_mutant_are_those_of_its_statement_without_the_ones_inside():
    source = b"if (\n    a\n    and b\n):\n    c = f(\n        d,\n    )\nelse:\n    e = 1\n"
    lines = {
        each.old: (*mutate._lines_of(source, each),)
        for each in mutants_in(source)
        if each.old in ("a\n    and b", "1") or each.old.startswith("c =")
    }
    assert lines == {
        "a\n    and b": (1, 2, 3, 4),
        "c = f(\n        d,\n    )": (5, 6, 7),
        "1": (9,),
    }


def mutants_in(source):
    finder = mutants.Finder("m.py", source)
    finder.visit(ast.parse(source))
    return finder.mutants


def test_a_mutant_is_tried_with_the_tests_that_run_its_lines_the_fastest_first(tmp_path):
    module = "dialects/one.py"
    code, folder = tmp_path / mutate.PACKAGE / module, tmp_path / "tests"
    for path, text in {
        code: "def f(x):\n    if x:\n        return 1\n    return 2\n",
        folder / "test_one.py": "import time\nfrom tracklog.dialects.one import f\n"
        "def test_slow():\n    time.sleep(0.2)\n    assert f(1) == 1\n"
        "def test_fast(): assert f(1) == 1\ndef test_other(): assert f(0) == 2\n"
        "def test_red(): assert f(1) == 2\n",
        tmp_path / "src/tracklog/__init__.py": "",
        tmp_path / "src/tracklog/dialects/__init__.py": "",
        tmp_path / "pytest.ini": "[pytest]\naddopts = -p pytest_cov -p xdist",
    }.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    shutil.copytree(mutate.ROOT / "scripts", tmp_path / "scripts")
    place = mutate.Workplace.__new__(mutate.Workplace)
    place.folder, place.limit = tmp_path, 60
    traces = place.trace(["tests/test_one.py"])
    assert len(traces.seconds) == 3, "a test that fails without a mutant says nothing"
    by_line = {each.line: each for each in mutants_in(code.read_bytes())}
    portions = traces.portions_of(by_line[3]._replace(module=module), 100)
    assert portions == [["tests/test_one.py::test_fast", "tests/test_one.py::test_slow"]]
    assert traces.portions_of(by_line[4]._replace(module=module), 100) == [
        ["tests/test_one.py::test_other"]
    ]
