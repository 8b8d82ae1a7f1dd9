"""`tracklog emitter`: the files are those of `contracts/`, and a copy is compared with them."""

import json
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from tracklog import __version__
from tracklog.cli import tracklog
from tracklog.cli.emitter import EMITTERS

ROOT = Path(__file__).parents[2]
TS = ROOT / "contracts" / "ts"
TEXTS = {name: (ROOT / "contracts" / file).read_text() for name, file in EMITTERS.items()}
each = pytest.mark.parametrize("name", EMITTERS)


def emitter(*arguments):
    return CliRunner().invoke(tracklog, ["emitter", *map(str, arguments)])


@each
def test_the_printed_emitter_is_the_file_and_its_first_line_names_the_version(name):
    printed = emitter(name)
    assert printed.exit_code == 0
    assert printed.output == TEXTS[name]
    assert f" tracklog {__version__}, emitter {name};" in printed.output.splitlines()[0]


def test_without_a_name_the_names_are_listed():
    assert emitter().output.split() == list(EMITTERS)


@each
def test_a_printed_copy_is_current_also_without_its_name_and_from_another_version(name, tmp_path):
    copy = tmp_path / "copy"
    copy.write_text(TEXTS[name].replace(f"tracklog {__version__},", "tracklog 0.0.7,", 1))
    for arguments in ((name,), ()):
        checked = emitter(*arguments, "--check", copy)
        assert (checked.exit_code, checked.output) == (0, f"{copy}: current ({name} of 0.0.7)\n")


@given(name=st.sampled_from(list(EMITTERS)), line=st.integers(1, 10**6), removed=st.booleans())
@settings(max_examples=12, deadline=None)
def test_a_copy_with_one_other_line_differs_and_the_line_is_named(
    tmp_path_factory, name, line, removed
):
    lines = TEXTS[name].splitlines(keepends=True)
    place = 1 + line % (len(lines) - 1)
    lines[place : place + 1] = [] if removed else [f"{lines[place].rstrip()} changed\n"]
    copy = tmp_path_factory.mktemp("copy") / "copy"
    copy.write_text("".join(lines))
    checked = emitter(name, "--check", copy)
    assert checked.exit_code == 1
    assert f"tracklog emitter {name} > {copy}" in checked.output
    named = int(checked.output.split("first at line ")[1].split()[0])
    assert named == place + 1 if not removed else named >= place + 1


def test_a_copy_of_another_emitter_differs_and_an_unknown_file_must_be_named(tmp_path):
    copy = tmp_path / "emit.py"
    copy.write_text(TEXTS["python-ci"])
    checked = emitter("python-agent", "--check", copy)
    assert checked.exit_code == 1
    assert "an unknown version" in checked.output
    copy.write_text("print('mine')\n")
    assert emitter("python-ci", "--check", copy).exit_code == 1
    refused = emitter("--check", copy)
    assert refused.exit_code != 0
    assert "which emitter" in str(refused.exception)


WRITE = """
const { AgentEmitter, Emitter, TracklogEmitter, KAHN_AGENT, lineOf } = await import(process.argv[1]);
const ts = "2026-05-05T09:00:00.000Z";
const run = new AgentEmitter("agent.jsonl", { runId: "r1" });
run.bind({ agent_id: "coder" }).agentRunStart({ ts, task: "Add /v2/health" });
run.close();
const ci = new Emitter("ci.jsonl", { runId: "r2" });
ci.runStart({ ts, total_nodes: 3 });
ci.close();
console.log(typeof TracklogEmitter, typeof lineOf, KAHN_AGENT.dialect);
"""


def test_the_typescript_file_compiles_alone_under_strict_settings_and_writes_as_the_package_does(
    tmp_path,
):
    (tmp_path / "emit.ts").write_text(emitter("typescript").output)
    (tmp_path / "node.d.ts").write_text((TS / "src" / "node.d.ts").read_text())
    (tmp_path / "package.json").write_text('{"type": "module"}')
    options = json.loads((TS / "tsconfig.json").read_text())["compilerOptions"]
    own = {"noEmit": False, "declaration": False}
    (tmp_path / "tsconfig.json").write_text(
        json.dumps({"compilerOptions": options | own, "include": ["*.ts"]})
    )
    tsc = TS / "node_modules" / "typescript" / "bin" / "tsc"
    done = subprocess.run(["node", tsc], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    wrote = []
    for code in (tmp_path / "emit.js", TS / "dist" / "emit.js"):
        folder = tmp_path / code.parent.name
        folder.mkdir(exist_ok=True)
        ran = subprocess.run(
            ["node", "--input-type=module", "-e", WRITE, code.as_uri()],
            cwd=folder, capture_output=True, text=True, check=True,
        )  # fmt: skip
        files = sorted(folder.glob("*.jsonl"))
        wrote.append((ran.stdout, *(path.read_bytes() for path in files)))
    assert wrote[0] == wrote[1]
    assert len(wrote[0]) == 3
