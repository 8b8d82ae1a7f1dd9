"""What real programs send over OpenTelemetry is counted right, in whatever order it arrives."""

import json
import random
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.telemetry import Door

RECORDED = Path(__file__).parents[1] / "samples/otlp/recorded"


@dataclass(frozen=True)
class Expected:
    """The numbers of the one run that a recording holds, as the model server and the tools counted."""

    calls: int
    failures: int
    spends: int
    tokens: tuple[int, int, int | None] | None
    """Input, output, and the cached part of the input."""
    agents: tuple[str, ...]
    status: str = "done"
    passed: bool | None = True
    cost: float | None = None
    runs: int = 1


EXPECTED = {
    "langchain": Expected(2, 1, 3, (360, 90, 120), ("forecaster",)),
    "llama-index": Expected(2, 1, 3, (360, 90, 120), ("trip",)),
    "crewai": Expected(2, 1, 3, (360, 90, 120), ("forecaster", "trip")),
    "openai-agents": Expected(
        2, 1, 3, (360, 90, 120), ("Agent workflow", "boss", "helper", "trip")
    ),
    "openai-agents-failed": Expected(
        0, 0, 0, None, ("Agent workflow", "helper"), "failed", passed=False
    ),
    # The server names each try of the broken tool alike.
    "smolagents": Expected(5, 4, 6, (720, 180, None), ("forecaster.run", "trip")),
    "pydantic-ai": Expected(2, 1, 3, (360, 90, 120), ("forecaster",), passed=None),
    # One log record is about the program's own metrics, and names no conversation.
    "codex": Expected(2, 1, 3, (360, 90, 120), ("codex_exec",), "working", None, runs=2),
}


def requests(name):
    return [json.loads(line) for line in (RECORDED / f"{name}.jsonl").read_text().splitlines()]


def numbers(door):
    """Calls, failures, spends, tokens and cost of every run."""
    rows = {
        row["run"]: (row["tool_calls"], row["tool_failures"], row["open_calls"])
        for row in door.runs()
    }
    spent = {
        row["of"].partition(":")[2]: tuple(
            row[key]
            for key in (
                "spends",
                "input_tokens",
                "output_tokens",
                "cached_tokens",
                "cost_usd",
            )
        )
        for row in door.costs()
    }
    return {run: (*row, *spent.get(run, ())) for run, row in rows.items()}


def test_every_recording_has_expected_numbers():
    assert {path.stem for path in RECORDED.glob("*.jsonl")} == EXPECTED.keys()


@pytest.mark.parametrize("name", EXPECTED)
def test_a_recording_of_a_real_program_is_counted_right(name, tmp_path):
    expected, door = EXPECTED[name], Door(tmp_path)
    for request in requests(name):
        assert door.send(request).rejected == 0
    rows = sorted(door.runs(), key=lambda row: row["tool_calls"])
    assert len(rows) == expected.runs
    row = rows[-1]
    found = numbers(door)[row["run"]]
    assert (row["tool_calls"], row["tool_failures"]) == (expected.calls, expected.failures)
    assert row["open_calls"] == 0
    spent = () if expected.tokens is None else (expected.spends, *expected.tokens, expected.cost)
    assert found[3:] == spent
    assert tuple(sorted(row["agents"])) == expected.agents
    assert (row["status"], row["passed"]) == (expected.status, expected.passed)
    door.close()


def items_of(request):
    """Each span or log record of a request as a request of its own."""
    [outer] = request
    for block in request[outer]:
        inner = "scopeSpans" if outer == "resourceSpans" else "scopeLogs"
        for scope in block[inner]:
            key = "spans" if inner == "scopeSpans" else "logRecords"
            for item in scope[key]:
                yield {outer: [{**block, inner: [{**scope, key: [item]}]}]}


@pytest.mark.parametrize("name", EXPECTED)
@pytest.mark.parametrize("seed", range(4))
def test_a_recording_has_the_same_numbers_in_any_order_and_when_sent_twice(name, seed, tmp_path):
    one, other = Door(tmp_path / "one"), Door(tmp_path / "other")
    items = [item for request in requests(name) for item in items_of(request)]
    for request in requests(name):
        one.send(request)
    shuffled = items * 2
    random.Random(seed).shuffle(shuffled)
    for item in shuffled:
        other.send(item)
    assert numbers(other) == numbers(one)
    one.close()
    other.close()
