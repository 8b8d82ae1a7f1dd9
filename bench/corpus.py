"""A corpus of mixed events, 200 to 1,500 bytes each, the same on every machine.

A run has some 90 events, as a fleet's have: a million events are 11,000 runs.
"""

import random

import orjson

WORDS = (
    "agent",
    "tool",
    "read",
    "file",
    "line",
    "test",
    "build",
    "error",
    "retry",
    "plan",
    "answer",
)


def _prose(rng: random.Random, size: int) -> str:
    words: list[str] = []
    while sum(map(len, words)) + len(words) < size:
        words.append(rng.choice(WORDS))
    return " ".join(words)


def _at(n: int, digits: int = 3) -> str:
    seconds, fraction = n // 10, str(n % 10).ljust(digits, "0")
    return f"2026-05-{5 + seconds // 86400 % 20:02}T{seconds // 3600 % 24:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{fraction}Z"


def _kahn_agent(rng: random.Random, n: int, text: str) -> dict:
    body = {"ts": _at(n), "run_id": f"run-{n // 540}"}
    if n % 3:
        body |= {"event": "tool_invocation", "agent_id": "coder:a", "step": n, "tool_name": "Read"}
        return body | {"duration_s": rng.random(), "ok": True, "output_summary": text}
    body |= {"event": "agent_transition", "agent_id": "coder:a", "step": n}
    return body | {"from": "thinking", "to": "tool_call", "reason": text}


def _kahn_ci(rng: random.Random, n: int, text: str) -> dict:
    result = {"cmd": "make test", "rc": 1, "duration_s": rng.random(), "tail": text}
    body = {"ts": _at(n), "run_id": f"ci-{n // 540}", "event": "node_attempt", "node_id": "api"}
    return body | {
        "attempt": 1,
        "duration_s": 1.5,
        "converged": False,
        "done_when_results": [result],
    }


def _fishbowl(rng: random.Random, n: int, text: str) -> dict:
    body = {"id": f"{n:032x}", "run_id": f"stage-{n // 540}", "turn": n, "kind": "agent.spoke"}
    body |= {"actor": "ada", "payload": {"text": text, "mood": rng.choice(WORDS)}}
    return body | {"created_at": _at(n, 6), "schema_version": 1}


def _openwop(rng: random.Random, n: int, text: str) -> dict:
    payload = {"agentId": "core.system", "toolId": "mcp:search", "toolName": "mcp:search"}
    payload |= {"callId": f"work:0:{n}", "arguments": {"q": text, "limit": rng.randrange(50)}}
    body = {"eventId": f"evt-{n}", "runId": f"run-{n // 540}", "sequence": n, "timestamp": _at(n)}
    return body | {
        "type": "agent.toolCalled",
        "nodeId": "work",
        "payload": payload,
        "schemaVersion": 1,
    }


def _awf(rng: random.Random, n: int, text: str) -> dict:
    run = f"3f1c1f2e-9a5b-4c7d-8e21-{n // 540:012x}"
    block = {"type": "text", "fidelity": "agent_emitted", "text": text}
    payload = {"role": "assistant", "blocks": [block], "provider": "codex", "status": "ok"}
    body = {"seq": n + 1, "run_id": run, "type": "message.assistant", "path": "each.check"}
    return body | {"iteration": rng.randrange(3), "timestamp": _at(n, 6), "payload": payload}


def _tracklog(rng: random.Random, n: int, text: str) -> dict:
    origin = {"writer": "claude", "fidelity": "reconstructed", "mapping": "1", "raw": f"{n:064x}"}
    body = {"id": f"{n:032x}", "run": f"session-{n // 540}", "at": _at(n), "fact": "Returned"}
    return body | {
        "call_id": f"c{n}",
        "ok": True,
        "output": text,
        "seconds": rng.random(),
        "origin": origin,
    }


DIALECTS = {
    "kahn-agent": _kahn_agent,
    "kahn-ci": _kahn_ci,
    "fishbowl": _fishbowl,
    "openwop": _openwop,
    "awf": _awf,
    "tracklog": _tracklog,
}


def corpus(count: int, seed: int = 1, start: int = 0) -> list[tuple[str, bytes]]:
    """That many (dialect, line), the dialects taking turns; those from `start` on."""
    rng = random.Random(seed + start)
    names = list(DIALECTS)
    lines = []
    for n in range(start, start + count):
        name = names[n % len(names)]
        size = min(int(rng.lognormvariate(5.6, 0.7)), 1200)
        lines.append((name, orjson.dumps(DIALECTS[name](rng, n, _prose(rng, size)))))
    return lines


def long_run(count: int, start: int, first: int, seed: int = 7) -> list[tuple[str, bytes]]:
    """That many (dialect, line) of one run that never ends, from its `start` on.

    It goes on where a corpus of `first` events ends.
    """
    rng = random.Random(seed + start)
    lines = []
    for n in range(start, start + count):
        size = min(int(rng.lognormvariate(5.6, 0.7)), 1200)
        body = _kahn_agent(rng, n, _prose(rng, size)) | {"ts": _at(first + n), "run_id": "long"}
        lines.append(("kahn-agent", orjson.dumps(body)))
    return lines
