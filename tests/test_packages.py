"""The packages: what they hold, that a release has a console, that the same sources give the same bytes."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from itertools import chain
from pathlib import Path

import pytest
import yaml

import tracklog
from tracklog.cli.emitter import EMITTERS

ROOT = Path(__file__).parents[1]
TS = ROOT / "contracts" / "ts"
PAGE = b"<!doctype html>"


def sources(folder: Path) -> Path:
    """A clone without a console, and without what only tests and the console need."""
    left_out = shutil.ignore_patterns("__pycache__", "console", "node_modules", "dist", "test")
    shutil.copytree(ROOT / "src", folder / "src", ignore=left_out)
    shutil.copytree(ROOT / "contracts", folder / "contracts", ignore=left_out)
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "CHANGELOG.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    return folder


def with_console(folder: Path) -> Path:
    (folder / "src/tracklog/console/assets").mkdir(parents=True)
    (folder / "src/tracklog/console/index.html").write_bytes(PAGE)
    (folder / "src/tracklog/console/assets/a.js").write_bytes(b"1")
    return folder


def build(folder: Path, *options: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", *options, "."],
        cwd=folder, env={**os.environ, **env}, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Both packages, built twice from copies of other folders and times; the first two paths."""
    hashes = []
    for time in (1_600_000_000, 1_700_000_000):
        folder = with_console(sources(tmp_path_factory.mktemp("clone")))
        for path in folder.rglob("*"):
            os.utime(path, (time, time))
        ran = build(folder, TRACKLOG_RELEASE="1", SOURCE_DATE_EPOCH="1780000000")
        assert ran.returncode == 0, ran.stderr
        packages = sorted((folder / "dist").iterdir())
        hashes.append([(p.name, hashlib.sha256(p.read_bytes()).hexdigest()) for p in packages])
    return packages, hashes


def test_the_same_sources_give_the_same_bytes(built):
    _, (first, second) = built
    assert len(first) == 2
    assert first == second


def test_the_wheel_holds_the_console_the_emitters_and_the_schemas_and_runs_alone(built, tmp_path):
    (wheel, _), _ = built
    with zipfile.ZipFile(wheel) as opened:
        names = set(opened.namelist())
        opened.extractall(tmp_path)
    assert "tracklog/console/index.html" in names
    held = {f"tracklog/contracts/{file}" for file in EMITTERS.values()}
    held |= {f"tracklog/contracts/schemas/{p.name}" for p in ROOT.glob("contracts/schemas/*.json")}
    assert held <= names
    code = "from tracklog.__main__ import main; main()"
    for name, file in EMITTERS.items():
        ran = subprocess.run(
            [sys.executable, "-c", code, "emitter", name],
            cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(tmp_path)},
            capture_output=True, check=True,
        )  # fmt: skip
        assert ran.stdout == (ROOT / "contracts" / file).read_bytes()
    where = "import tracklog; print(tracklog.__file__)"
    ran = subprocess.run(
        [sys.executable, "-c", where],
        env={**os.environ, "PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert ran.stdout.strip() == str(tmp_path / "tracklog" / "__init__.py")


def test_the_source_archive_holds_the_console_and_nothing_that_it_does_not_need(built):
    (_, archive), _ = built
    with tarfile.open(archive) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    assert {"src/tracklog/console/index.html", "hatch_build.py", "PKG-INFO"} <= names
    folders = {name.partition("/")[0] for name in names if "/" in name}
    assert folders == {"src", "contracts"}
    assert not any(name.startswith("contracts/ts/") for name in names)


def test_a_release_without_the_console_fails_and_another_build_warns(tmp_path):
    folder = sources(tmp_path / "clone")
    ran = build(folder, "--wheel", TRACKLOG_RELEASE="1")
    assert ran.returncode != 0
    assert "no console" in ran.stdout + ran.stderr
    assert not list(folder.glob("dist/*.whl"))
    ran = build(folder, "--wheel", TRACKLOG_RELEASE="")
    assert ran.returncode == 0
    assert "no console" in ran.stdout + ran.stderr


def test_the_npm_package_can_be_published_has_our_version_and_packs_what_it_exports():
    package = json.loads((TS / "package.json").read_text())
    assert package["version"] == tracklog.__version__
    assert "private" not in package
    ran = subprocess.run(
        ["npm", "pack", "--dry-run", "--json"], cwd=TS, capture_output=True, text=True, check=True
    )
    (packed,) = json.loads(ran.stdout)
    names = {file["path"] for file in packed["files"]}
    assert {
        "package.json",
        "README.md",
        "dist/emit.js",
        "dist/emit.d.ts",
        "dist/stream.js",
    } <= names
    assert {name for name in names if not name.startswith("dist/")} == {"package.json", "README.md"}
    assert "dist/.ready" not in names


def test_the_extra_all_has_every_extra_but_the_developers():
    text = (ROOT / "pyproject.toml").read_text()
    extras = re.search(r"\[project\.optional-dependencies\]\n(.*?)\n\[", text, re.DOTALL)[1]
    names = set(re.findall(r"^(\w+) = \[", extras, re.MULTILINE)) - {"all", "dev"}
    assert (
        set(re.search(r'^all = \["tracklog\[(.*)\]"\]', extras, re.MULTILINE)[1].split(","))
        == names
    )
    page = (ROOT / "docs/first-steps.md").read_text()
    assert {name for name in names if f"`tracklog[{name}]`" not in page} == set()


def test_the_unit_of_the_page_is_the_unit_of_the_repository_and_systemd_accepts_it(tmp_path):
    unit = (ROOT / "packaging/tracklog.service").read_text()
    assert f"```ini\n{unit}```" in (ROOT / "docs/how-to/operate.md").read_text()
    if shutil.which("systemd-analyze"):
        path = tmp_path / "tracklog.service"
        path.write_text(unit.replace("%h/.local/bin/tracklog", sys.executable))
        ran = subprocess.run(
            ["systemd-analyze", "verify", "--user", path],
            env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert "tracklog.service:" not in ran.stderr


def test_the_container_installs_the_wheel_runs_as_a_user_and_starts_a_command_that_exists():
    text = (ROOT / "packaging/Containerfile").read_text()
    lines = [line for line in text.replace("\\\n", " ").splitlines() if not line.startswith("#")]
    steps = [line.partition(" ")[::2] for line in lines if line]
    assert ("COPY", "dist/*.whl /packages/") in steps
    assert ("USER", "tracklog") in steps
    command = [yaml.safe_load(words) for step, words in steps if step in ("ENTRYPOINT", "CMD")]
    name, *arguments = chain(*command)
    ran = subprocess.run(
        [Path(sys.executable).with_name(name), *arguments],
        env={"PATH": os.environ["PATH"], "TRACKLOG_HOME": "/nowhere"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 2
    assert "there is no token" in ran.stderr  # so the options are known, and it needs one
