"""Workflows: steps, messages with their blocks, tool calls, and nested runs."""

from collections.abc import Iterator
from random import Random
from typing import Any
from uuid import UUID

from tracklog.demo import DemoLine
from tracklog.journal.frame import stamp

_MODEL = "claude-sonnet-4-5"
_FILES = ("client.py", "retry.py", "limits.py")
_REVIEW = """\
I read `{file}` and found **one** thing worth changing:

1. The loop sleeps a *fixed* second between tries; with forty clients that is a thundering herd.

```python
for attempt in range(5):
    wait = min(30, 2**attempt) * random.uniform(0.5, 1.5)
```

| tries | before | after |
|---|---|---|
| 3 | 3 s | 2 to 7 s |
| 5 | 5 s | 8 to 31 s |
"""


class _InventedFlow:
    """One run of a workflow, numbered like its file."""

    def __init__(self, run: str, at: float, parent: str = "") -> None:
        self.run, self.at, self.parent, self.seq = run, at, parent, 0

    def say(self, kind: str, path: str = "", /, **payload: Any) -> DemoLine:
        self.seq += 1
        child = payload.pop("child_run_id", "")
        step = payload.pop("step_seq", 0)
        return DemoLine(
            self.at,
            {
                "seq": self.seq,
                "run_id": self.run,
                **({"parent_run_id": self.parent} if self.parent else {}),
                **({"child_run_id": child} if child else {}),
                "type": kind,
                "path": path,
                "iteration": 0,
                "timestamp": stamp(self.at),
                "payload": payload,
                **({"step_seq": step} if step else {}),
            },
        )

    def step(self, name: str, kind: str) -> tuple[DemoLine, int]:
        line = self.say("step.started", name, name=name, kind=kind)
        return line, self.seq


def _id(draw: Random) -> str:
    return str(UUID(int=draw.getrandbits(128), version=4))


def _text(text: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "fidelity": "router", "text": text, **more}


def _agent_step(
    flow: _InventedFlow, name: str, prompt: str, reply: str, draw: Random, *, fails: bool = False
) -> Iterator[DemoLine]:
    line, of = flow.step(name, "agent")
    yield line
    asked = [_text(prompt, part="prompt")]
    yield flow.say("message.user", name, role="user", blocks=asked, step_seq=of)
    for tool, given, result in (
        ("read", {"path": "src/net/retry.py"}, "def again(call):\n    for _ in range(5): …"),
        ("bash", {"command": "pytest -q tests/net"}, "..F\n1 failed, 2 passed"),
    ):
        call = _id(draw)
        flow.at += draw.uniform(0.5, 2)
        use = {"type": "tool_use", "tool_name": tool, "tool_id": call, "tool_input": given}
        head = {"name": tool, "call_id": call, "input": given, "fidelity": "router"}
        blocks = [{**use, "fidelity": "router"}]
        yield flow.say("tool.call", name, **head, output=None, blocks=blocks, step_seq=of)
        took = draw.lognormvariate(6, 1)
        flow.at += took / 1000
        end = {"type": "tool_result", "tool_id": call, "tool_content": result, "fidelity": "router"}
        wrong = {"error": "exit code 1"} if tool == "bash" else {}
        yield flow.say(
            "tool.result",
            name,
            **head,
            output=result,
            blocks=[end],
            duration_ms=round(took, 1),
            step_seq=of,
            **wrong,
        )
    flow.at += draw.uniform(2, 6)
    usage = {
        "input_tokens": draw.randint(3_000, 22_000),
        "output_tokens": draw.randint(200, 1_400),
        "cache_read_input_tokens": draw.randint(0, 9_000),
    }
    cost = usage["input_tokens"] * 3e-6 + usage["output_tokens"] * 15e-6
    thought = "The test fails only when two clients start within one second. So it is the wait."
    blocks = [
        {"type": "thinking", "fidelity": "agent_emitted", "thinking": thought},
        {"type": "text", "fidelity": "agent_emitted", "text": reply},
    ]
    spent = {"provider": "claude", "model": _MODEL, "usage": usage, "cost_usd": round(cost, 5)}
    yield flow.say("message.assistant", name, role="assistant", blocks=blocks, **spent, step_seq=of)
    over = {"status": "failed", "error": "the reviewer gave up"} if fails else {"status": "ok"}
    yield flow.say("step.completed", name, name=name, kind="agent", **over, step_seq=of)


def _review(at: float, draw: Random, *, fails: bool = False, depth: int = 2) -> Iterator[DemoLine]:
    yield from _below(_InventedFlow(_id(draw), at), draw, fails=fails, depth=depth)


def _below(flow: _InventedFlow, draw: Random, *, fails: bool, depth: int) -> Iterator[DemoLine]:
    names = ("review", "review-file", "suggest")
    name = names[min(2 - depth, 2)]
    yield flow.say("run.started", name=name, kind="workflow", schema_version=1)
    line, of = flow.step("checkout", "command")
    yield line
    command = {"type": "command", "fidelity": "router", "command": "git fetch && git switch retry"}
    yield flow.say("message.user", "checkout", role="user", blocks=[command], step_seq=of)
    flow.at += 1.1
    end = {"name": "checkout", "kind": "command", "status": "ok", "exit_code": 0}
    yield flow.say("step.completed", "checkout", **end, step_seq=of)
    file = _FILES[draw.randrange(3)]
    prompt = f"Review {file}; say what you would change, and why."
    words = _REVIEW.format(file=file)
    yield from _agent_step(flow, "read", prompt, words, draw, fails=fails)
    if depth:
        child = _id(draw)
        call = {"name": "each", "kind": "call_workflow", "child_run_id": child}
        yield flow.say("step.call_workflow.started", "each", **call)
        of = flow.seq
        below = _InventedFlow(child, flow.at + 0.3, flow.run)
        yield from _below(below, draw, fails=fails, depth=depth - 1)
        flow.at = below.at + 0.4
        yield flow.say("step.call_workflow.completed", "each", **call, step_seq=of)
    status = {"status": "failed" if fails else "ok"}
    yield flow.say("run.completed", name=name, kind="workflow", **status)


def past(now: float, draw: Random) -> Iterator[DemoLine]:
    for n in range(6):
        yield from _review(now - 60_000 + n * 9_800, draw, fails=n == 3, depth=2 if n % 2 else 0)


def live(begin: float, cycle: int, draw: Random) -> Iterator[DemoLine]:
    yield from _review(begin + 12, draw, fails=cycle % 5 == 3, depth=1)
