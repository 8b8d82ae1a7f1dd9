"""The gates for CI: the composite action of GitHub, the manifest of pre-commit, and stable codes."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import orjson
import pytest
import yaml

from support import sampling as samples
from tracklog.dialects.checking import checker
from tracklog.home import registry
from tracklog.model.event import Refusal
from tracklog.model.problems import CODES

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
DIALECTS = samples.ROOT / "dialects"
ERROR = DIALECTS / "kahn-agent/odd/thinking-to-converged@illegal-transition.jsonl"
CLEAN = DIALECTS / "kahn-agent/good/converges.jsonl"


def act(folder: Path, **given: str) -> subprocess.CompletedProcess[str]:
    """Carry out the action as a runner does; a step that fails ends it. `pip` only notes its call."""
    inputs = {name: each.get("default", "") for name, each in ACTION["inputs"].items()} | given
    stubs = folder / "stubs"
    stubs.mkdir(exist_ok=True)
    (stubs / "python").write_text(f'#!/bin/sh\necho "$@" >> {folder}/installed\n')
    (stubs / "python").chmod(0o755)
    summary = folder / "summary.md"
    base = {
        "PATH": f"{stubs}:{BIN}:{os.environ['PATH']}",
        "GITHUB_ACTION_PATH": str(ROOT),
        "GITHUB_STEP_SUMMARY": str(summary),
        "HOME": str(folder),
    }
    ran = None
    for step in ACTION["runs"]["steps"]:
        if "run" not in step:
            continue
        own = {
            key: re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda name: inputs[name[1]], value)
            for key, value in step.get("env", {}).items()
        }
        ran = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=folder, env=base | own, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if ran.returncode:
            break
    assert ran is not None
    return ran


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "runs" / "deep").mkdir(parents=True)
    shutil.copy(CLEAN, tmp_path / "runs" / "good.jsonl")
    shutil.copy(ERROR, tmp_path / "runs" / "deep" / "bad run.jsonl")
    return tmp_path


def test_the_action_shows_findings_beside_their_lines_and_fails(folder):
    ran = act(folder, files="runs/**/*.jsonl")
    assert ran.returncode == 1
    assert "::error file=runs/deep/bad run.jsonl,line=2,title=illegal-transition::" in ran.stdout
    assert (
        f"install --quiet --disable-pip-version-check {ROOT}" in (folder / "installed").read_text()
    )
    assert "| error | `illegal-transition` | 1 |" in (folder / "summary.md").read_text()


def test_the_action_passes_clean_files_and_has_every_option_of_its_inputs(folder):
    assert act(folder, files="runs/*.jsonl").returncode == 0
    assert "Nothing was found." in (folder / "summary.md").read_text()
    ran = act(folder, files="runs/*.jsonl", dialect="ralph", output="out.json", format="json")
    assert ran.returncode == 1
    rows = map(orjson.loads, (folder / "out.json").read_bytes().splitlines())
    assert {problem["code"] for row in rows for problem in row.get("problems", ())} <= set(CODES)
    ran = act(folder, files="runs/none-*.jsonl")
    assert ran.returncode == 2
    assert "no file matches" in ran.stdout


def test_no_input_of_the_action_is_executed(folder):
    sly = "runs/good.jsonl $(touch pwned) `touch pwned` ; touch pwned"
    for name in ("files", "dialect", "fail-on", "format"):
        act(folder, **{"files": "runs/good.jsonl"} | {name: sly})
    assert not (folder / "pwned").exists()
    assert not any("${{" in step.get("run", "") for step in ACTION["runs"]["steps"])


def test_the_hook_of_the_manifest_runs_in_a_repository_and_finds_the_fault(folder):
    pre_commit = BIN / "pre-commit"
    manifest = ROOT / ".pre-commit-hooks.yaml"
    subprocess.run([pre_commit, "validate-manifest", manifest], check=True)
    (hook,) = yaml.safe_load(manifest.read_text())
    local = {**hook, "language": "system"}  # its own language would download all dependencies
    config = {"repos": [{"repo": "local", "hooks": [local]}]}
    (folder / ".pre-commit-config.yaml").write_text(yaml.safe_dump(config))
    (folder / "notes.txt").write_text("no events\n")
    subprocess.run(["git", "init", "--quiet", folder], check=True)
    subprocess.run(["git", "add", "."], cwd=folder, check=True)
    environ = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"}
    environ["PRE_COMMIT_HOME"] = str(folder / "cache")
    command = [pre_commit, "run", "--all-files"]
    ran = subprocess.run(
        command, cwd=folder, env=environ, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert "illegal-transition" in ran.stdout
    assert "notes.txt" not in ran.stdout
    (folder / "runs" / "deep" / "bad run.jsonl").unlink()
    subprocess.run(["git", "add", "--all"], cwd=folder, check=True)
    ran = subprocess.run(
        command, cwd=folder, env=environ, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def findings() -> set[str]:
    """The names of all findings, from the reference page, which is made from the source."""
    page = (ROOT / "docs/reference/dialects.md").read_text()
    return set(re.findall(r"^\| `([a-z0-9-]+)` \| (?:error|warning|info)", page, re.MULTILINE))


def test_no_code_was_renamed_or_removed():
    """Whoever adds a code adds it to the file; a line of the file is never changed or removed."""
    known = (samples.ROOT / "codes.txt").read_text().split()
    assert known == sorted(set(known))
    assert set(known) == set(CODES) | findings()
    assert set(CODES) & findings() == set()


def test_every_refused_sample_has_problems_with_a_known_code():
    seen = set()
    for path in sorted(DIALECTS.glob("*/bad/*.jsonl")):
        check = checker(registry.dialect(path.parts[-3]))
        for line in path.read_bytes().splitlines():
            result = check(line)
            if isinstance(result, Refusal):
                seen |= {problem.code for problem in result.problems}
    assert seen <= set(CODES)
    assert len(seen) > 10, seen
