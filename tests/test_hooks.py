"""The hooks before a commit: they call the project's own tools, and download nothing."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
CONFIG = ROOT / ".pre-commit-config.yaml"
REPOS = yaml.safe_load(CONFIG.read_text())["repos"]
HOOKS = {hook["id"]: hook for repo in REPOS for hook in repo["hooks"]}


def test_every_hook_is_local_and_its_command_is_one_that_set_up_installs():
    assert [repo["repo"] for repo in REPOS] == ["local"]
    for hook in HOOKS.values():
        assert hook["language"] == "system"
        command = hook["entry"].split()[0]
        assert command == "make" or (ROOT / command).exists(), hook["id"]


@pytest.fixture
def clone(tmp_path):
    """A repository with the configuration, the tools, and a fault of each kind."""
    files = ("pyproject.toml", "biome.jsonc", CONFIG.name)
    for name in files:
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / ".venv").symlink_to(ROOT / ".venv")
    (tmp_path / "console").mkdir()
    (tmp_path / "console" / "node_modules").symlink_to(ROOT / "console" / "node_modules")
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "odd.py").write_text("import os\nx = [1,2]\n")
    (tmp_path / "console" / "odd.ts").write_text("var x = [1,2]\nexport { x }\n")
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    subprocess.run(["git", "add", "src", "console/odd.ts", *files], cwd=tmp_path, check=True)
    return tmp_path


@pytest.mark.parametrize(
    ("hook", "word"), [("ruff", "F401"), ("ruff-format", "reformatted"), ("biome", "")]
)
def test_a_hook_finds_a_fault_and_nothing_is_downloaded(clone, tmp_path_factory, hook, word):
    home = tmp_path_factory.mktemp("pre-commit")
    away = "http://127.0.0.1:9"  # nobody listens there
    environ = {**os.environ, "PRE_COMMIT_HOME": str(home), "HTTPS_PROXY": away, "HTTP_PROXY": away}
    command = [Path(sys.executable).with_name("pre-commit"), "run", hook, "--all-files"]
    ran = subprocess.run(
        command, cwd=clone, env=environ, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert "Failed" in ran.stdout
    assert word in ran.stdout
    if hook == "biome":
        assert (clone / "console" / "odd.ts").read_text() != "var x = [1,2]\nexport { x }\n"
