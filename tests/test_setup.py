"""What `make` takes from the machine, and what it gets where the machine has none."""

import os
import platform
import re
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
APPLICATIONS = Path("/Applications")
LOCKS = [each.name for each in sorted(ROOT.glob("requirements-*.lock"))]
carries = pytest.mark.skipif(
    (sys.platform, platform.machine()) != ("linux", "x86_64"),
    reason="the npm package has a browser for no other machine",
)
bare = pytest.mark.skipif(
    any(APPLICATIONS.glob("*Chrom*.app")) or any(APPLICATIONS.glob("*Edge.app")),
    reason="a browser that is installed as an application is found first",
)


class Machine:
    """A clone, and a PATH that has what a test puts there and nothing else."""

    def __init__(self, folder: Path) -> None:
        self.clone, self.bin, self.home = (folder / each for each in ("clone", "bin", "home"))
        self.log = folder / "log"
        for each in ("scripts", "console/chromium"):
            shutil.copytree(ROOT / each, self.clone / each, ignore=lambda *_: ["node_modules"])
        for each in ("Makefile", *LOCKS):
            shutil.copy(ROOT / each, self.clone)
        shutil.copy(ROOT / "pyproject.toml", self.clone)
        for each in ("contracts/ts", "console"):
            (self.clone / each).mkdir(parents=True, exist_ok=True)
            (self.clone / each / "package-lock.json").touch()
        for each in ("index.html", "vite.config.ts"):
            (self.clone / "console" / each).touch()
        self.bin.mkdir()
        self.home.mkdir()

    def has(self, *tools: str) -> None:
        """The machine's own tools."""
        for each in tools:
            (self.bin / each).symlink_to(shutil.which(each))

    def stub(self, name: str, does: str, folder: Path | None = None) -> Path:
        path = (folder or self.bin) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{does.replace('LOG', f'{self.log}')}\n")
        path.chmod(0o755)
        return path

    def browser(self, name: str, folder: Path | None = None) -> Path:
        return self.stub(name, f"echo {name} 1.0", folder)

    def run(self, *command: object, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            list(map(str, command)),
            env={"PATH": str(self.bin), "HOME": str(self.home), **env},
            cwd=self.clone, capture_output=True, text=True, check=False,
        )  # fmt: skip

    def node(self) -> str:
        ran = self.run(shutil.which("sh"), self.clone / "scripts" / "node")
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    def make(self, *arguments: object, target: str = "setup") -> str:
        self.has("sh", "find")
        ran = self.run(shutil.which("make"), "-n", target, *arguments)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    def chosen(self, **env: str) -> subprocess.CompletedProcess[str]:
        return self.run(sys.executable, self.clone / "scripts" / "browser.py", **env)

    def asked(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


@pytest.mark.parametrize(
    "version", ["20.19.0", "20.20.2", "22.12.0", "24.0.0", "24.19.0", "31.1.0"]
)
def test_the_node_of_the_machine_is_used_where_it_fits(machine, version):
    machine.stub("node", f"echo v{version}")
    machine.stub("npm", "exit 1")
    assert machine.node() == ""
    assert "scripts/node" not in machine.make()


@pytest.mark.parametrize(
    "version",
    [
        "8.0.0",
        "12.22.12",
        "18.20.4",
        "19.9.0",
        "20.18.3",
        "21.7.3",
        "22.11.0",
        "23.11.1",
        "",
        "x.y",
    ],
)
def test_a_node_that_does_not_fit_is_not_used(machine, version):
    machine.stub("node", f"echo v{version}")
    machine.stub("npm", "exit 1")
    assert machine.node() == f"{machine.clone}/.venv/node\n"


@pytest.mark.parametrize(
    "tools", [{}, {"node": "echo v24.0.0"}, {"npm": ":"}, {"node": "exit 1", "npm": ":"}]
)
def test_without_node_and_npm_set_up_takes_both_from_pypi_before_it_needs_them(machine, tools):
    for name, does in tools.items():
        machine.stub(name, does)
    assert machine.node() == f"{machine.clone}/.venv/node\n"
    steps = machine.make()
    assert steps.index("requirements-dev.lock") < steps.index("scripts/node install")
    assert steps.index("scripts/node install") < steps.index("npm ci")


@pytest.mark.parametrize("folder", ["contracts/ts", "console"])
def test_each_step_that_needs_npm_takes_it_first_whatever_else_was_asked_for(machine, folder):
    """Also when make runs several steps at once, or only this one."""
    steps = machine.make(target=f"{folder}/node_modules/.ready")
    assert steps.index("scripts/node install") < steps.index(f"cd {folder} && npm ci")


def environment(machine: Machine, version: str) -> None:
    """An environment that is ready, made with that version."""
    machine.stub("python", f"echo {version}", machine.clone / ".venv" / "bin")
    (machine.clone / ".venv" / ".ready").touch()


def test_the_environment_is_made_again_for_another_python(machine):
    environment(machine, "3.11.7")
    python = machine.stub("python3.13", "echo 3.13.0")
    assert f"{python} -m venv --clear .venv" in machine.make(f"PYTHON={python}")


def test_the_environment_stays_for_the_same_python_and_where_none_was_asked_for(machine):
    environment(machine, "3.11.7")
    machine.stub("python3", "echo 3.12.1")
    python = machine.stub("python3.11", "echo 3.11.7")
    machine.stub("node", "echo v24.0.0")
    machine.stub("npm", ":")
    assert "-m venv" not in machine.make(f"PYTHON={python}")
    for each in ("sh", "find"):
        (machine.bin / each).unlink()
    assert "-m venv" not in machine.make()


@pytest.mark.parametrize("path", LOCKS)
def test_every_python_package_is_pinned_by_its_hash(path):
    pinned = re.split(r"\n(?=\w)", re.sub(r"(?m)^ *#.*\n?", "", (ROOT / path).read_text()).strip())
    assert pinned
    assert [each for each in pinned if "==" not in each or "--hash=sha256:" not in each] == []


def test_a_package_that_is_needed_with_extras_is_pinned_with_them():
    """pip looks at the newest version of `coverage[toml]` first where only `coverage` is pinned, and
    stops there because that one has no hash: each release of such a package would end every set-up.
    """
    pinned = (ROOT / "requirements-dev.lock").read_text()
    needed = {
        f"{each.name}[{','.join(sorted(each.extras))}]=="
        for package in metadata.distributions()
        for each in map(Requirement, package.requires or ())
        if each.extras and (each.marker is None or each.marker.evaluate({"extra": ""}))
        if f"\n{package.name}==" in pinned
    }
    assert needed
    assert [each for each in needed if f"\n{each}" not in pinned] == []


ADDRESS = re.compile(
    r'"resolved": "http|^\s*\S*registry\s*=|^--\S*(index-url|find-links)', re.MULTILINE
)


def test_no_lock_file_and_no_setting_names_a_registry():
    npm = [ROOT / each for each in ("contracts/ts", "console", "console/chromium")]
    locks = [*ROOT.glob("*.lock"), *(each / "package-lock.json" for each in npm)]
    settings = [each / ".npmrc" for each in (ROOT, *npm)]  # they keep addresses out of the locks
    assert all("omit-lockfile-registry-resolved=true" in each.read_text() for each in settings)
    assert [each for each in locks + settings if ADDRESS.search(each.read_text())] == []


def test_the_browser_that_is_named_is_the_first(machine, tmp_path):
    named = machine.browser("my-browser", tmp_path / "else where")
    machine.browser("chromium")
    assert machine.chosen(CHROMIUM=str(named)).stdout == f"{named}\n"


def test_a_named_browser_that_does_not_start_is_reported_and_another_is_used(machine):
    chromium = machine.browser("chromium")
    ran = machine.chosen(CHROMIUM="/not/there")
    assert ran.stdout == f"{chromium}\n"
    assert ran.stderr == "CHROMIUM=/not/there does not start; looking for another browser\n"


BROWSERS = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"]
BROWSERS += ["microsoft-edge", "microsoft-edge-stable"]


@pytest.mark.parametrize("first", range(len(BROWSERS)))
def test_an_installed_browser_is_used_and_nothing_is_installed(machine, first):
    for name in ("npm", "apt-get", "npx", "sudo"):
        machine.stub(name, f"echo {name} >>LOG; exit 1")
    paths = [machine.browser(name) for name in BROWSERS[first:]]
    assert machine.chosen().stdout == f"{paths[0]}\n"
    assert machine.asked() == []


def test_a_stub_that_only_says_how_to_install_a_browser_is_no_browser(machine):
    machine.stub("chromium", "echo 'install it with another command' >&2; exit 1")
    edge = machine.browser("microsoft-edge")
    assert machine.chosen().stdout == f"{edge}\n"


@bare
def test_an_application_of_macos_is_an_installed_browser(machine):
    folder = machine.home / "Applications" / "Google Chrome.app" / "Contents" / "MacOS"
    chrome = machine.browser("Google Chrome", folder)
    assert machine.chosen().stdout == f"{chrome}\n"


def package(machine: Machine, browser: str) -> None:
    """An npm that installs a package whose browser is that script."""
    made = machine.clone.parent / "package"
    (made / "bin").mkdir(parents=True)
    (made / "lib").mkdir()
    (made / "fonts").mkdir()
    (made / "lib" / "libx.so").touch()
    (made / "chromium").write_text(browser)
    for name, part in (("al2023", "lib"), ("fonts", "fonts"), ("swiftshader", "lib/libx.so")):
        subprocess.run(["tar", "cf", f"{name}.tar", part], cwd=made, check=True)
    pack = """
    const fs = require("node:fs"), zlib = require("node:zlib");
    for (const each of ["al2023.tar", "fonts.tar", "swiftshader.tar", "chromium"])
        fs.writeFileSync(`bin/${each}.br`, zlib.brotliCompressSync(fs.readFileSync(each)));
    """
    subprocess.run(["node", "-e", pack], cwd=made, check=True)
    to = "node_modules/@sparticuz/chromium"
    mkdir, cp = shutil.which("mkdir"), shutil.which("cp")
    machine.stub("npm", f'echo "npm $1" >>LOG; {mkdir} -p {to} && {cp} -r {made}/bin {to}')
    machine.has("node")


@bare
@carries
def test_without_an_installed_browser_the_one_of_the_npm_package_is_used(machine):
    machine.stub("apt-get", "echo apt-get >>LOG")
    package(machine, '#!/bin/sh\necho "$LD_LIBRARY_PATH"\n')
    first = machine.chosen()
    path = Path(first.stdout.strip())
    assert first.returncode == 0, first.stderr
    assert path.is_relative_to(machine.clone / "console" / "chromium")
    assert machine.run(path).stdout == f"{path.parent}/lib\n"
    assert machine.chosen().stdout == first.stdout
    assert machine.asked() == ["npm ci"]  # once, and nothing else


@bare
@carries
def test_a_browser_of_the_npm_package_that_does_not_start_is_not_used(machine):
    package(machine, "#!/bin/sh\nexit 127\n")
    ran = machine.chosen()
    assert ran.returncode == 1
    assert "npm package: the one of the npm package does not start here" in ran.stderr


def machine_without_package(machine: Machine) -> None:
    machine.stub("npm", 'echo "npm $1" >>LOG; echo "the registry cannot be reached" >&2; exit 1')
    machine.has("env", "true")


@bare
def test_without_the_npm_package_apt_installs_one_where_it_may(machine):
    machine_without_package(machine)
    machine.stub("sudo", 'shift; exec "$@"')
    chromium = machine.bin / "chromium"
    does = f"printf '#!/bin/sh\\necho 1\\n' >{chromium}; {shutil.which('chmod')} +x {chromium}"
    machine.stub("apt-get", f'echo "apt-get $1" >>LOG; if [ $1 = install ]; then {does}; fi')
    assert machine.chosen().stdout == f"{chromium}\n"
    npm = ["npm ci"] if (sys.platform, platform.machine()) == ("linux", "x86_64") else []
    assert machine.asked() == [*npm, "apt-get update", "apt-get install"]


@bare
@pytest.mark.parametrize("apt", ["there is none", "it fails", "it may not"])
def test_without_apt_playwright_downloads_one(machine, apt, tmp_path):
    machine_without_package(machine)
    if apt != "there is none":
        machine.stub("apt-get", "exit 100")
    if apt == "it may not" and os.geteuid() != 0:
        machine.stub("sudo", "exit 1")
    browser = machine.browser("chrome", tmp_path / "cache")
    machine.stub("npx", 'echo "npx $*" >>LOG')
    machine.stub("node", f"echo {browser}")
    assert machine.chosen().stdout == f"{browser}\n"
    assert machine.asked()[-1] == "npx --no-install playwright install --no-shell chromium"


@bare
def test_where_no_way_leads_to_a_browser_the_message_says_what_to_do(machine):
    machine_without_package(machine)
    machine.stub("apt-get", "echo 'no such archive' >&2; exit 100")
    machine.stub("sudo", 'shift; exec "$@"')
    machine.stub("npx", "echo 'no network' >&2; exit 1")
    ran = machine.chosen()
    assert (ran.returncode, ran.stdout) == (1, "")
    first, *reasons = ran.stderr.splitlines()
    assert "CHROMIUM=/path/to/it make test" in first
    assert [each.split(":")[0].strip() for each in reasons] == [
        "installed", "npm package", "apt", "Playwright",
    ]  # fmt: skip
    assert "no such archive" in reasons[2]
    assert "no network" in reasons[3]


@bare
def test_a_browser_that_playwright_downloaded_and_that_does_not_start_is_not_used(machine):
    machine_without_package(machine)
    machine.stub("npx", ":")
    machine.stub("node", f"echo {machine.stub('chrome', 'exit 127', machine.home)}")
    ran = machine.chosen()
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "Playwright: the one that Playwright downloaded does not start" in ran.stderr


@bare
@pytest.mark.parametrize("allowed", [True, False])
def test_a_user_without_root_asks_sudo_which_must_not_ask_for_a_password(
    machine, tmp_path, allowed
):
    """A module that Python imports at its start stands in for the user: these tests may be root's."""
    (tmp_path / "user").mkdir()
    (tmp_path / "user" / "sitecustomize.py").write_text("import os\nos.geteuid = lambda: 1000\n")
    machine_without_package(machine)
    chromium = machine.bin / "chromium"
    does = f"printf '#!/bin/sh\\necho 1\\n' >{chromium}; {shutil.which('chmod')} +x {chromium}"
    machine.stub("apt-get", f"if [ $1 = install ]; then {does}; fi")
    answer = 'shift; exec "$@"' if allowed else "echo 'a password is required' >&2; exit 1"
    machine.stub("sudo", f'echo "sudo $*" >>LOG; [ "$1" = -n ] || exit 9; {answer}')
    machine.stub("npx", "exit 1")
    ran = machine.chosen(PYTHONPATH=str(tmp_path / "user"))
    asked = [each for each in machine.asked() if each.startswith("sudo")]
    assert asked[0] == "sudo -n true"
    if allowed:
        assert ran.stdout == f"{chromium}\n"
        assert [each.split()[-1] for each in asked[1:]] == ["-qq", "fonts-dejavu-core"]
    else:
        assert (ran.returncode, asked[1:]) == (1, [])
        assert "a password is required" in ran.stderr
