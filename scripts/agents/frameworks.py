"""Run real agent frameworks against a fake model server, and compare what tracklog shows.

Each framework is installed from the package index into an environment of its own, outside of the
clone (`~/.cache/tracklog/frameworks`, or TRACKLOG_AGENTS_CACHE). Its agent has one tool that works
the first time and fails the second time. A real collector receives what the framework sends, and
the numbers are compared with what the server counted. The exit code is 1 if a cell is wrong.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent))

from model_server import BAD, CACHED, GOOD, INPUT, OUTPUT, PROMPT, model_server

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(__file__).with_name("frameworks_programs.py")
OTLP = ("opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-http")
INFERENCE = "openinference-instrumentation-"
COLUMNS = ("runs", "calls", "failed", "tokens", "cached", "prompt", "words", "end")
PATIENCE = 300.0
"""Seconds in which the collector must show what was sent."""


class Framework(NamedTuple):
    """What is installed, how it is recorded, and what its own telemetry cannot say."""

    packages: tuple[str, ...]
    channels: tuple[str, ...] = ("otlp",)
    not_carried: Mapping[str, str] = MappingProxyType({})
    """By column, the reason; `adapter` carries everything."""
    variables: Mapping[str, str] = MappingProxyType({})


FRAMEWORKS = {
    "langchain": Framework(
        ("langchain", "langgraph", "langchain-openai", INFERENCE + "langchain", *OTLP),
        ("adapter", "otlp"),
    ),
    "openai-agents": Framework(
        ("openai-agents", INFERENCE + "openai-agents", *OTLP), ("adapter", "otlp")
    ),
    "claude-agent-sdk": Framework(
        ("claude-agent-sdk",),
        ("adapter", "otlp"),
        {"end": "its telemetry has no event for the end of a session"},
    ),
    "pydantic-ai": Framework(("pydantic-ai-slim[openai]", *OTLP)),
    "smolagents": Framework(
        ("smolagents[openai]", INFERENCE + "smolagents", *OTLP),
        not_carried={"cached": "the spans have no count of cached tokens"},
    ),
    "llama-index": Framework(
        ("llama-index-core", "llama-index-llms-openai-like", INFERENCE + "llama-index", *OTLP),
    ),
    "crewai": Framework(
        ("crewai", INFERENCE + "crewai", INFERENCE + "openai", *OTLP),
        variables={"CREWAI_DISABLE_TELEMETRY": "true", "CREWAI_TRACING_ENABLED": "false"},
    ),
    "autogen": Framework(
        ("autogen-agentchat", "autogen-ext[openai]", *OTLP),
        not_carried=dict.fromkeys(
            ("tokens", "cached", "prompt", "words"), "the spans hold neither usage nor messages"
        )
        | {"runs": "the creation of an agent is a trace of its own"},
    ),
    "litellm": Framework(
        ("litellm", "mcp", *OTLP),  # it imports mcp, and does not name it
        not_carried={"failed": "the result of a tool is only a text in the next request"},
        variables={"USE_OTEL_LITELLM_REQUEST_SPAN": "true"},  # else they share the span above
    ),
}


def environment(cache: Path, name: str, packages: tuple[str, ...]) -> Path:
    """The Python of a framework's environment, made or brought up to date."""
    home = cache / name
    python = home / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", home], check=True)
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--upgrade", *packages], check=True)
    subprocess.run([*pip, str(ROOT)], check=True)
    return python


@contextmanager
def collector(home: Path) -> Iterator[str]:
    """The address of a collector with a home of its own, as long as the block runs."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [Path(sys.executable).with_name("tracklog"), "serve", "--port", str(port)]
    log = (home.parent / "collector.log").open("w")
    process = subprocess.Popen([*command, "--home", home], stdout=log, stderr=log)
    url = f"http://127.0.0.1:{port}"
    try:
        until = time.monotonic() + PATIENCE
        while True:
            try:
                urllib.request.urlopen(f"{url}/healthz", timeout=5).close()  # noqa: S310  # loopback
                break
            except OSError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.1)
        yield url
    finally:
        process.terminate()
        process.wait()
        log.close()


def rows_of(*command: Any) -> list[Any]:
    """The rows that a command of tracklog prints with --json."""
    tracklog = Path(sys.executable).with_name("tracklog")
    output = subprocess.run([tracklog, *command, "--json"], check=True, capture_output=True).stdout
    return [json.loads(line) for line in output.splitlines() if line.strip()]


def recorded(home: Path, answer: str) -> dict[str, Any]:
    """What tracklog shows of the runs of a home, by column; `answer` is the last of the model."""
    rows = rows_of("runs", "--home", home)
    messages = [
        each for row in rows for each in rows_of("conversation", row["run"], "--home", home)
    ]
    parts = [part for each in messages for part in each["parts"]]
    texts = {
        role: " ".join(str(part["text"]) for part in parts if part["role"] == role)
        for role in ("user", "assistant")
    }
    return {
        "runs": len(rows),
        "calls": sum(row["tool_calls"] for row in rows),
        "failed": sum(row["tool_failures"] for row in rows),
        "tokens": sum(row["tokens"] or 0 for row in rows),
        "cached": sum(row["tokens_cached"] or 0 for row in rows),
        "prompt": PROMPT in texts["user"],
        "words": answer in texts["assistant"],
        "end": all(row["ended"] for row in rows) and bool(rows),
    }


def tried(python: Path, name: str, channel: str, samples: str | None) -> dict[str, Any]:
    """Run one agent; by column, what was shown and what the server counted."""
    with tempfile.TemporaryDirectory() as folder, model_server() as (model, told):
        home = Path(folder) / "home"
        user = Path(folder) / "user"
        user.mkdir()
        variables = {
            "PATH": os.environ["PATH"], "HOME": str(user), "MODEL_URL": model,
            "MODEL_PROMPT": PROMPT, "MODEL_BAD_COMMAND": BAD, "NO_PROXY": "*",
            **FRAMEWORKS[name].variables,
        }  # fmt: skip  # one table
        if samples:
            variables["SAMPLES"] = samples
        with collector(home) as url:
            done = subprocess.run(
                [python, PROGRAMS, name, channel], env=variables | {"TRACKLOG_URL": url},
                cwd=user, capture_output=True, text=True, timeout=600, check=False,
            )  # fmt: skip  # one call
            if done.returncode:
                raise SystemExit(f"{name} over {channel} failed:\n{done.stderr[-4000:]}")
            commands = [answer for _, answer in told.requests if answer in (GOOD, BAD)]
            texts = [answer for _, answer in told.requests if answer not in (GOOD, BAD)]
            count = told.calls + told.side_calls
            truth = {
                "runs": 1, "calls": len(commands), "failed": commands.count(BAD),
                "tokens": count * (INPUT + OUTPUT), "cached": count * CACHED,
                "prompt": True, "words": True, "end": True,
            }  # fmt: skip  # one table
            until = time.monotonic() + 5
            while (shown := recorded(home, texts[-1])) != truth and time.monotonic() < until:
                time.sleep(0.5)
    return {column: (shown[column], truth[column]) for column in COLUMNS}


def cell(name: str, channel: str, column: str, shown: Any, truth: Any) -> str:
    """A cell of the table: right, not carried, or wrong with both values."""
    if shown == truth:
        return "right"
    if channel != "adapter" and column in FRAMEWORKS[name].not_carried:
        return "not carried"
    return f"WRONG {shown}, not {truth}"


def main() -> int:
    """Try all frameworks, or those that are named; print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(FRAMEWORKS))
    parser.add_argument("--installed", metavar="FOLDER", help="use environments that are there")
    parser.add_argument("--samples", metavar="FOLDER", help="write what the adapters were told")
    given = parser.parse_args()
    default = Path.home() / ".cache" / "tracklog"
    cache = Path(os.environ.get("TRACKLOG_AGENTS_CACHE") or default) / "frameworks"
    wrong = 0
    print("| framework | over | " + " | ".join(COLUMNS) + " |")
    print("|---" * (len(COLUMNS) + 2) + "|")
    for name in given.names or FRAMEWORKS:
        if given.installed:
            python = Path(given.installed) / name / "bin" / "python"
        else:
            python = environment(cache, name, FRAMEWORKS[name].packages)
        for channel in FRAMEWORKS[name].channels:
            samples = None
            if given.samples and channel == "adapter":
                samples = str(Path(given.samples).absolute() / f"{name}.jsonl")
            result = tried(python, name, channel, samples)
            cells = [cell(name, channel, column, *result[column]) for column in COLUMNS]
            wrong += sum(each.startswith("WRONG") for each in cells)
            print(f"| {name} | {channel} | " + " | ".join(cells) + " |", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
