"""Run real command-line agents against a fake model server, and compare what tracklog shows.

The newest versions are installed from npm, outside of the clone (`~/.cache/tracklog/programs`, or
TRACKLOG_AGENTS_CACHE). Each agent is told to run a command that works, then one that fails. It is
recorded through its hooks, its telemetry (OTLP) and the import of its own files, in each combination
of them, by a real collector. Every session has a home folder of its own. The record is compared
with what the server counted; the exit code is 1 if a cell is wrong. "Not sent" is what a program
lost itself: a relay before the collector keeps its telemetry, and the spans are not in it.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from command_lines_setup import CHANNELS, COLUMNS, PROGRAMS, Program
from frameworks import collector, rows_of
from model_server import ANSWER, BAD, CACHED, GOOD, INPUT, OUTPUT, PROMPT, Told, model_server
from relay import relay

TRACKLOG = Path(sys.executable).with_name("tracklog")
WAYS = {"+".join(each): each for size in (1, 2, 3) for each in combinations(CHANNELS, size)}
"""Each combination of channels."""


def install(folder: Path) -> None:
    """Install the newest version of each program."""
    folder.mkdir(parents=True, exist_ok=True)
    packages = [f"{program.package}@latest" for program in PROGRAMS.values()]
    options = ["--no-audit", "--no-fund", "--loglevel=error", "--prefix", folder]
    subprocess.run(["npm", "install", *options, *packages], check=True)  # noqa: S607  # make's Node


def prepared(program: Program, user: Path, values: Mapping[str, str], *, otlp: bool) -> list[str]:
    """Write the files of a program; its variables, as NAME=VALUE."""
    files = dict(program.files)
    for path, text in program.otlp_files.items() if otlp else ():
        files[path] = files.get(path, "") + text
    for path, text in files.items():
        file = user / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(filled(text, values))
    variables = {**program.variables, **(program.otlp_variables if otlp else {})}
    return [f"{name}={filled(value, values)}" for name, value in variables.items()]


def filled(text: str, values: Mapping[str, str]) -> str:
    for name, value in values.items():
        text = text.replace(f"<{name}>", value)
    return text


def tried(
    programs: Path, name: str, channels: tuple[str, ...]
) -> tuple[dict[str, tuple[Any, Any]], str | None]:
    """Run one agent; by column what is shown and what the server counted, and what it never sent."""
    program = PROGRAMS[name]
    with tempfile.TemporaryDirectory() as folder, model_server() as (model, told):
        user, home, work = (Path(folder) / each for each in ("user", "home", "work"))
        user.mkdir()
        subprocess.run(["git", "init", "-q", work], check=True)  # noqa: S607  # any git
        path = f"{programs / 'node_modules' / '.bin'}{os.pathsep}{os.environ['PATH']}"
        bare = {"PATH": path, "HOME": str(user), "TERM": "dumb", "LANG": "C.UTF-8", "NO_PROXY": "*"}
        with collector(home) as url, relay(url) as (relayed, sent):
            address = relayed if program.call_spans else url
            values = {"model": model, "collector": address}
            given = prepared(program, user, values, otlp="otlp" in channels)
            variables = bare | dict(each.split("=", 1) for each in given)
            if "hooks" in channels:
                command = [TRACKLOG, "connect", name, "--yes", "--url", url]
                subprocess.run(command, env=bare, check=True, capture_output=True)
            done = subprocess.run(
                [name, *program.arguments, PROMPT], cwd=work, env=variables, text=True,
                stdin=subprocess.DEVNULL, capture_output=True, timeout=1800, check=False,
            )  # fmt: skip  # one call
            if done.returncode:
                raise SystemExit(f"{name} failed:\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
            if "import" in channels:
                command = [TRACKLOG, "import", "--home", home]
                subprocess.run(command, env=bare, check=True, capture_output=True)
            truth = counted(told)
            until = time.monotonic() + 10
            while (shown := recorded(home)) != truth and time.monotonic() < until:
                time.sleep(0.5)
    lost = unsent(program, sent, told) if "otlp" in channels else None
    return {column: (shown[column], truth[column]) for column in COLUMNS}, lost


def unsent(program: Program, sent: Sequence[bytes], told: Told) -> str | None:
    """Which spans of model calls are not in the telemetry that a program sent, if any."""
    content = b"".join(sent)
    calls = told.calls + told.side_calls
    for span in program.call_spans:
        count = content.count(b'"name":"%s"' % span.encode())
        if count < calls:
            return f"its process ended before it had sent all spans {span}: {count} of {calls}"
    return None


def counted(told: Told) -> dict[str, int]:
    """What the server told, by column."""
    commands = [answer for _, answer in told.requests if answer in (GOOD, BAD)]
    requests = told.calls + told.side_calls
    return {
        "runs": 1, "calls": len(commands), "failed": commands.count(BAD), "open": 0,
        "tokens": requests * (INPUT + OUTPUT), "cached": requests * CACHED,
        "prompt": 1, "words": 1, "end": 1,
    }  # fmt: skip  # one table


def recorded(home: Path) -> dict[str, int]:
    """What tracklog shows of the runs of a home, by column."""
    rows = rows_of("runs", "--home", home)
    messages = [
        each for row in rows for each in rows_of("conversation", row["run"], "--home", home)
    ]
    parts = [part for each in messages for part in each["parts"]]
    texts = {
        role: " ".join(str(part["text"]) for part in parts if part["role"] == role)
        for role in ("user", "assistant")
    }
    sums = {"calls": "tool_calls", "failed": "tool_failures", "open": "open_calls",
            "tokens": "tokens", "cached": "tokens_cached"}  # fmt: skip  # one table
    return {
        "runs": len(rows),
        **{column: sum(row[field] or 0 for row in rows) for column, field in sums.items()},
        "prompt": texts["user"].count(PROMPT),
        "words": texts["assistant"].count(ANSWER),
        "end": sum(bool(row["ended"]) for row in rows),
    }


def missing(
    program: Program, channels: tuple[str, ...], column: str, lost: str | None
) -> str | None:
    """Why none of some channels carries a column; all of them together carry what was sent."""
    reasons = [
        (lost if each == "otlp" else None) or program.not_carried.get((each, column))
        for each in channels
    ]
    if (channels == CHANNELS and not lost) or not all(reasons):
        return None
    return "; ".join(str(each) for each in reasons)


def main() -> int:
    """Try all programs, or those that are named; print a table and the reasons."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(PROGRAMS))
    parser.add_argument("--installed", metavar="FOLDER", help="use programs that are there")
    parser.add_argument("--over", choices=WAYS, help="try only these channels")
    given = parser.parse_args()
    default = Path.home() / ".cache" / "tracklog"
    programs = Path(os.environ.get("TRACKLOG_AGENTS_CACHE") or default) / "programs"
    if given.installed:
        programs = Path(given.installed).absolute()
    else:
        install(programs)
    wrong = 0
    reasons: list[str] = []
    print("| agent | over | " + " | ".join(COLUMNS) + " |")
    print("|---" * (len(COLUMNS) + 2) + "|")
    for name in given.names or PROGRAMS:
        program = PROGRAMS[name]
        for over in [given.over] if given.over else WAYS:
            channels = WAYS[over]
            cells = []
            result, lost = tried(programs, name, channels)
            for column, (shown, truth) in result.items():
                reason = missing(program, channels, column, lost)
                if shown == truth:
                    cells.append("right")
                elif reason and (shown < truth or (lost and column == "open")):
                    cells.append("not sent" if lost and lost in reason else "not carried")
                    reasons.append(f"{name}, {over}, {column}: {reason}")
                else:
                    cells.append(f"WRONG {shown}, not {truth}")
                    wrong += 1
            print(f"| {name} | {over} | " + " | ".join(cells) + " |", flush=True)
    print("\nNot carried, and not sent:", *reasons, sep="\n- ")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
