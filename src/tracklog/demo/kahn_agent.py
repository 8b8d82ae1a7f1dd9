"""Coders, testers and a release agent: tools, audits, one that waits, one lost, one that failed."""

from collections.abc import Iterator
from random import Random
from typing import Any

from tracklog.demo import DemoLine
from tracklog.journal.frame import stamp

_TASKS = (
    ("coder", "Add a health endpoint to the billing service"),
    ("tester", "Find out why checkout_test is flaky"),
    ("reviewer", "Review the retry logic of the payment client"),
    ("docs", "Explain the new rate limits in the handbook"),
    ("coder", "Replace the hand-written parser by the generated one"),
    ("tester", "Cover the empty-basket path"),
)
_TOOLS = (
    ("Read", 0.04, 0.01, "src/billing/client.py", "142 lines"),
    ("Grep", 0.12, 0.02, "retry", "9 matches in 4 files"),
    ("Bash", 6.5, 0.22, "pytest -q tests/billing", "31 passed"),
    ("Edit", 0.08, 0.06, "src/billing/client.py", "1 hunk applied"),
    ("WebFetch", 2.2, 0.12, "https://docs.example.com/limits", "200, 18 kB"),
)
_FAULTS = ("exit code 1: 2 failed, 29 passed", "timed out after 30 s", "old text was not found")
_AUDITS = (("audit:licences", 0.0), ("audit:row-level-security", 0.35), ("audit:secrets", 0.12))
_MODELS = (("claude-sonnet-4-5", 3e-6, 15e-6), ("gpt-5-mini", 0.25e-6, 2e-6))
WAITING = "release-2-4-1"
QUESTION = "rollout"
_CALLS = {True: 5, False: 4}  # the tools of the release agent before it asks, and of the others


class _InventedAgent:
    """One agent of one run: numbers its events by step and stamps them with its clock."""

    def __init__(self, run: str, agent: str, at: float, draw: Random) -> None:
        self.run, self.agent, self.at, self.draw = run, agent, at, draw
        self.begin, self.step, self.status = at, 0, "thinking"
        self.calls, self.audits, self.passed = 0, 0, 0

    def say(self, event: str, **more: Any) -> DemoLine:
        head = {"ts": stamp(self.at), "run_id": self.run, "event": event, "agent_id": self.agent}
        return DemoLine(self.at, head | more)

    def move(self, to: str, **more: Any) -> DemoLine:
        self.at += self.draw.uniform(0.2, 1.5)
        fields = {"step": self.step, "from": self.status, "to": to, **more}
        self.status = to
        return self.say("agent_transition", **fields)

    def call(self, n: int) -> Iterator[DemoLine]:
        tool, seconds, risk, given, output = _TOOLS[n % len(_TOOLS)]
        took = round(seconds * self.draw.lognormvariate(0, 0.6), 3)
        ok = self.draw.random() >= risk
        yield self.move("tool_call", reason=f"tool_call:{tool}")
        self.at += took
        result = {"output_summary": output} if ok else {"error": self.draw.choice(_FAULTS)}
        model, dear, dearer = _MODELS[n % len(_MODELS)]
        usage = {
            "input_tokens": self.draw.randint(2_000, 18_000),
            "output_tokens": self.draw.randint(80, 900),
        }
        cost = usage["input_tokens"] * dear + usage["output_tokens"] * dearer
        spent = {"model": model, "usage": usage, "cost_usd": round(cost, 6)}
        yield self.say(
            "tool_invocation",
            step=self.step,
            tool_name=tool,
            duration_s=took,
            ok=ok,
            input_summary=given,
            **result,
            **spent,
        )
        self.calls += 1
        yield self.move("tool_result")
        self.step += 1

    def think(self) -> Iterator[DemoLine]:
        """Return from a tool's result to a status in which it can ask, call or give up."""
        for status in ("response", "reflect", "thinking"):
            yield self.move(status)

    def end(self, outcome: str, score: float | None = None) -> DemoLine:
        self.at += 0.1
        failed = self.audits - self.passed
        audits = {"total_audit_checkpoints": self.audits, "audits_passed": self.passed}
        fields = {"outcome": outcome, "total_steps": self.step, "total_tool_calls": self.calls}
        took = {"total_duration_s": round(self.at - self.begin, 3)}
        kiln = {} if score is None else {"convergence_score": score}
        return self.say("agent_run_end", **fields, **audits, audits_failed=failed, **took, **kiln)


def _work(
    agent: _InventedAgent, task: str, calls: int, *, pause: float = 1.0
) -> Iterator[DemoLine]:
    yield agent.say("agent_run_start", task=task, model=_MODELS[0][0])
    for _ in range(calls):
        if agent.status != "thinking":
            agent.at += agent.draw.uniform(0.5, 3) * pause
            yield from agent.think()
        yield from agent.call(agent.draw.randrange(len(_TOOLS)))


def _finish(agent: _InventedAgent) -> Iterator[DemoLine]:
    yield agent.move("response")
    yield agent.move("reflect")
    yield agent.move("converged")
    for name, risk in _AUDITS:
        agent.at += agent.draw.uniform(0.3, 2)
        result = "fail" if agent.draw.random() < risk else "pass"
        agent.audits, agent.passed = agent.audits + 1, agent.passed + (result == "pass")
        took = round(agent.draw.uniform(0.2, 3), 2)
        yield agent.say("audit_checkpoint", checkpoint_id=name, result=result, duration_s=took)
    yield agent.end("converged", round(agent.draw.uniform(0.72, 0.99), 2))


def past(now: float, draw: Random) -> Iterator[DemoLine]:
    for n in range(22):
        name, task = _TASKS[n % len(_TASKS)]
        agent = _InventedAgent(f"{name}-{n + 1:02}", name, now - 86_000 + n * 3_700, draw)
        yield from _work(agent, task, draw.randint(3, 9))
        yield from _finish(agent)
    failed = _InventedAgent("tester-flaky-checkout", "tester", now - 5_400, draw)
    yield from _work(failed, "Run the whole suite ten times", 6)
    yield from failed.think()
    yield failed.move("failed", reason="budget: ten runs cost more than was allowed")
    yield failed.end("aborted")
    hasty = _InventedAgent("docs-in-a-hurry", "docs", now - 9_000, draw)
    yield hasty.say("agent_run_start", task="Fix a typo in the handbook")
    yield hasty.move("converged", reason="it looked fine")
    yield hasty.end("converged", 0.41)
    lost = _InventedAgent("migrator-orders", "migrator", now - 2_900, draw)
    yield from _work(lost, "Move the orders table to the new cluster", 4)
    yield from lost.think()
    yield lost.move("tool_call", reason="tool_call:Bash")
    waits = _InventedAgent(WAITING, "release", now - 700, draw)
    yield from _work(waits, "Release 2.4.1", _CALLS[True])
    yield from waits.think()
    waits.at = max(waits.at, now - 380)
    yield waits.move(
        "blocked-on-clarification",
        reason=f"clarification:{QUESTION}",
        question="The canary in eu-west is healthy, but p95 rose from 180 to 240 ms. "
        "Roll 2.4.1 out everywhere, stay in eu-west, or go back?",
        options=["roll out everywhere", "stay in eu-west", "go back"],
    )


def live(begin: float, cycle: int, draw: Random) -> Iterator[DemoLine]:
    for n in range(2):
        name, task = _TASKS[(cycle * 2 + n) % len(_TASKS)]
        agent = _InventedAgent(f"{name}-live-{cycle + 1:03}{'ab'[n]}", name, begin + n * 17, draw)
        yield from _work(agent, task, _CALLS[False], pause=1.6)
        if cycle % 3 == 1 and n == 0:
            yield from agent.think()
            yield agent.move(
                "blocked-on-clarification",
                reason=f"clarification:branch-{cycle}",
                question="Two branches have this change. Which one shall I build on?",
                options=["main", "release/2.5"],
            )
        else:
            yield from _finish(agent)


def reply(run: str, question: str, answer: Any, at: float) -> Iterator[DemoLine]:
    name = {QUESTION: "release"}.get(question, run.split("-", maxsplit=1)[0])
    if question != QUESTION and not question.startswith("branch-"):
        return
    agent = _InventedAgent(run, name, at, Random(question))  # noqa: S311  # the same dice every time
    agent.calls = agent.step = _CALLS[question == QUESTION]
    agent.status = "blocked-on-clarification"
    yield agent.move("thinking", reason=f"operator_response:{question}", answer=answer)
    for n in (2, 0, 3):
        yield from agent.call(n)
        yield from agent.think()
    yield from agent.call(2)
    yield from _finish(agent)
