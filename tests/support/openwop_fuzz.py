"""Odd requests and odd workflows for an OpenWOP host; what it accepts must show."""

import json
import random
from collections.abc import Iterator
from typing import Any, NamedTuple

import httpx

from support.hosting import TOKEN, flow

Path = tuple[str | int, ...]

DEEP: Any = "end"
for _ in range(60):
    DEEP = [DEEP]
ODD: list[Any] = [
    None, True, False, 0, 1, -1, 1.5, 1e308, 2**63, 2**64 - 1, "", "x", "x" * 300, "\0", "../../etc",
    "ünï ☃ \U0001f600", "2026-01-01T00:00:00Z", [], {}, [1], [[]], [None], {"a": 1}, {"": None}, DEEP,
]  # fmt: skip
"""Values of every type; a member that is looked at accepts only some of them."""
RAW = [
    b"\xff",
    b'"\\ud800"',
    b"1e999",
    b"NaN",
    b"[" * 2000 + b"]" * 2000,
    b"9" * 400,
    b'{"a":1,"a":2}',
]
"""What is no value at all, or none that can be kept."""
WORDS = [
    "",
    "x",
    "-1",
    "0",
    "1",
    "1e9",
    "9" * 30,
    "null",
    "a,b",
    "%00",
    "ü",
    "default/x",
    "x" * 400,
]
"""For parameters and headers."""

FREE = {
    ("metadata",),
    ("runOptionsOverlay", "metadata"),
    ("inputs", "payload"),
    ("resumeValue",),
    ("args",),
}
"""Members with whatever a client wants."""


class Case(NamedTuple):
    """A request that is fine; its members are then changed one by one."""

    name: str
    method: str
    path: str
    body: dict[str, Any]


OPTIONS = {
    "recursionLimit": 50, "runTimeoutMs": 60_000, "maxLoopIterations": 3, "escalationThreshold": 0.5,
    "reasoningVerbosity": "full", "model": "m", "temperature": 0.5, "maxTokens": 9,
}  # fmt: skip
NESTED = {
    "version": 1,
    "run": {"recursionLimit": 50, "runTimeoutMs": 60_000, "maxLoopIterations": 3,
            "escalationThreshold": 0.5},
    "ai": {"reasoningVerbosity": "full", "model": "m", "temperature": 0.5, "maxTokens": 9},
    "distillation": None, "budget": None, "extensions": None,
}  # fmt: skip
LABELS = {"tags": ["a"], "metadata": {"k": {"deep": [1]}}}


def cases(major: int, run: str, asked: str, paused: str, token: str) -> list[Case]:
    """The requests of a version that have a body."""
    head = "/v1" if major == 1 else ""
    options = OPTIONS if major == 1 else NESTED
    create = {"workflowId": "conformance-identity", "inputs": {"payload": {"x": 1}},
              "configurable": options, "tenantId": "default", "scopeId": "s", **LABELS}  # fmt: skip
    overlay = {"configurable": options, **LABELS}
    vote = {"action": "accept", "feedback": "fine"}
    hook = {"url": "https://93.184.216.34/x", "events": ["run.completed"], "tags": ["a"],
            "secret": "a-secret-of-the-client-0123456789"}  # fmt: skip
    hook |= {"tenantId": "default"} if major == 1 else {}
    seam = {"principal": "p", "toolName": "t", "requiredScopes": ["s"], "args": {"a": 1},
            "simulateRateLimitExhausted": False, "simulateToolError": False}  # fmt: skip
    return [
        Case("create", "POST", f"{head}/runs", create),
        Case("cancel", "POST", f"{head}/runs/{run}/cancel", {"reason": "why"}),
        Case("bulk", "POST", f"{head}/runs:bulk-cancel", {"runIds": [run], "reason": "why"}),
        Case("pause", "POST", f"{head}/runs/{paused}:pause",
             {"reason": "why", "drainPolicy": "immediate"}),
        Case("resume", "POST", f"{head}/runs/{paused}:resume", {"reason": "why"}),
        Case("fork", "POST", f"{head}/runs/{run}:fork",
             {"mode": "branch", "fromSeq": 1, "runOptionsOverlay": overlay}),
        Case("answer", "POST", f"{head}/runs/{asked}/interrupts/gate", {"resumeValue": vote}),
        Case("token", "POST", f"{head}/interrupts/{token}", {"resumeValue": vote}),
        Case("webhook", "POST", f"{head}/webhooks", hook),
        Case("seam", "POST", f"{head}/host/sample/toolhooks/invoke", seam),
    ]  # fmt: skip


def places(value: Any, path: Path = ()) -> Iterator[Path]:
    """Every place in a JSON value, the whole left out."""
    if isinstance(value, dict | list):
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield (*path, key)
            yield from places(each, (*path, key))


def at(value: Any, path: Path) -> Any:
    for key in path:
        value = value[key]
    return value


def changed(value: Any, path: Path, odd: Any) -> Any:
    """A copy of a value with something else at one place."""
    copy = json.loads(json.dumps(value))
    at(copy, path[:-1])[path[-1]] = odd
    return copy


def is_free(path: Path) -> bool:
    return any(path[: len(free)] == free for free in FREE)


class Fuzz:
    """Sends odd requests to a host, and remembers what it should not have answered."""

    def __init__(self, url: str, seed: int) -> None:
        headers = {"Authorization": f"Bearer {TOKEN}", "Accept": "application/json"}
        self.http = httpx.Client(base_url=url, headers=headers, timeout=60, trust_env=False)
        self.random = random.Random(seed)
        self.faults: list[tuple[Any, ...]] = []
        self.sent = self.accepted = 0

    def ask(self, what: Any, method: str, path: str, **given: Any) -> httpx.Response | None:
        """An answer; it is never a failure of the host, and a refusal says what is wrong."""
        self.sent += 1
        try:
            answer = self.http.request(method, path, **given)
        except (httpx.LocalProtocolError, UnicodeEncodeError, httpx.InvalidURL):
            return None  # what no client can send
        if answer.status_code >= 500:
            self.faults.append((what, answer.status_code, answer.text[:300]))
        elif answer.status_code >= 400:
            body = answer.json()
            if not {"error", "message"} <= body.keys() <= {"error", "message", "details"}:
                self.faults.append((what, "no envelope", answer.text[:300]))
            if answer.status_code == 400 and "field" not in body.get("details", {}):
                self.faults.append((what, "no field", answer.text[:300]))
        else:
            self.accepted += 1
        return answer

    def __enter__(self) -> "Fuzz":
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()

    # Bodies.

    def bodies(self, major: int, known: list[Case], share: float) -> None:
        """Each member of each request, with each odd value."""
        for case in known:
            for path in places(case.body):
                for odd in ODD:
                    if self.random.random() < share:
                        self.member(major, case, path, odd)
            for path in ((), *places(case.body)):
                if isinstance(at(case.body, path), dict) and not is_free(path):
                    self.unknown(case, path)
            for raw in RAW:
                what = (case.name, major, raw[:20])
                answer = self.ask(what, case.method, case.path, content=raw)
                if answer is not None and answer.status_code != 400:
                    self.faults.append((what, answer.status_code, answer.text[:300]))

    def member(self, major: int, case: Case, path: Path, odd: Any) -> None:
        body = changed(case.body, path, odd)
        what = (case.name, major, path, odd)
        answer = self.ask(what, case.method, case.path, json=body)
        if answer is None or answer.status_code >= 400 or case.name not in ("create", "fork"):
            return
        # What was accepted must show in the run.
        name = answer.json()["runId"].rpartition("/")[2]
        head = "/v1" if major == 1 else ""
        shown = self.http.get(f"{head}/runs/{name}").json()
        given = body if case.name == "create" else body["runOptionsOverlay"] or {}
        for label in ("tags", "metadata"):
            if given.get(label) is not None and shown.get(label) != given[label]:
                self.faults.append((what, label, shown.get(label)))
        if given.get("configurable") is not None:
            options = without_null(given["configurable"])
            self._compare(what, options, without_null(shown.get("configurable")))
        if case.name == "create" and (body["inputs"] or {}).get("payload") is not None:
            self._compare(what, body["inputs"]["payload"], shown["variables"].get("payload"))

    def _compare(self, what: Any, given: Any, shown: Any) -> None:
        if json.dumps(given, sort_keys=True) != json.dumps(shown, sort_keys=True):
            self.faults.append((what, "without effect", given, shown))

    def unknown(self, case: Case, path: Path) -> None:
        """A member that nobody knows is refused, wherever it is."""
        body = json.loads(json.dumps(case.body))
        at(body, path)["surprise"] = 1
        answer = self.ask((case.name, path, "surprise"), case.method, case.path, json=body)
        if answer is not None and answer.status_code < 400:
            self.faults.append((case.name, path, "an unknown member is accepted"))

    # Paths, parameters and headers.

    def lines(self, run: str, share: float) -> None:
        """Odd ids, parameters and headers, alone and two at a time."""
        names = ["streamMode", "types", "bufferMs", "resumable", "lastSequence", "afterSequence",
                 "timeout", "limit", "cursor", "workflowId", "status", "against", "cb", "fromSeq",
                 "toSeq", "tenantId", "surprise"]  # fmt: skip
        headers = ["OpenWOP-Version", "OpenWOP-Client-Version", "Idempotency-Key", "X-Dedup",
                   "OpenWOP-Dedup", "Last-Event-ID", "X-Force-Engine-Version", "If-None-Match",
                   "OpenWOP-Force-Engine-Version", "Authorization", "Accept", "Content-Type",
                   "Host", "Origin", "Content-Encoding"]  # fmt: skip
        urls = [f"{head}{part}" for head in ("/v1", "") for part in (
            f"/runs/{run}", f"/runs/{run}/events", f"/runs/{run}/events/poll",
            f"/runs/{run}:diff", "/runs", "/workflows/conformance-noop", f"/runs/{run}/artifacts/x",
            "/audit/verify", "/webhooks/x/dead-letters", "/host/effect-seams", "/openapi.json",
            f"/runs/{run}/effects")] + ["/.well-known/openwop"]  # fmt: skip
        for url in urls:
            for name in names:
                for word in WORDS:
                    if self.random.random() < share and (name, word) != ("timeout", "1e9"):
                        self.ask((url, name, word), "GET", url, params={name: word})
            for name in headers:
                for word in WORDS:
                    if self.random.random() < share:
                        self.ask((url, name, word), "GET", url, headers={name: word.encode()})
            for _ in range(round(20 * share)):
                both = {self.random.choice(headers): self.random.choice(WORDS).encode()
                        for _ in "ab"}  # fmt: skip
                query = {self.random.choice(names): self.random.choice(WORDS) for _ in "ab"}
                self.ask((url, both, query), "GET", url, headers=both, params=query)
        for head in ("/v1", ""):
            for word in (*WORDS, "~", "~2", "~2F", "default~2F", "a:b", "~00", "%ff"):
                for part in ("/runs/{}", "/runs/{}/events", "/runs/{}:fork", "/workflows/{}",
                             "/webhooks/{}", "/interrupts/{}", "/runs/{}/interrupts/{}"):  # fmt: skip
                    url = head + part.replace("{}", word)
                    for method in ("GET", "POST", "DELETE", "PUT"):
                        self.ask((method, url), method, url)


def without_null(value: Any) -> Any:
    """Options without those that are null, and sections with none: both are taken as absent."""
    if not isinstance(value, dict):
        return value
    found = {key: without_null(each) for key, each in value.items() if each is not None}
    return {key: each for key, each in found.items() if each != {}}


# Workflows.

AGENT = {"agentId": "core.a", "agentSharing": "shared:g", "modelClass": "reasoning"}
PORTS = {
    "a": {"type": "static", "value": 1},
    "b": {"type": "variable", "variableName": "v", "optional": True},
}
LEAD = {"mockDecisions": [{"kind": "next-worker", "nextWorkerIds": ["conformance-noop"]},
                          {"kind": "terminate", "reason": "enough"}]}  # fmt: skip
EVENT = {"kind": "external-event", "eventType": "paid", "correlation": {"id": 1}, "timeoutMs": 5000,
         "resumeSchema": {"type": "object", "required": ["id"]}}  # fmt: skip
VARIABLES = [{"name": "v", "type": "string", "defaultValue": "d"},
             {"name": "s", "type": "object", "sensitive": True}]  # fmt: skip


def bases() -> list[dict[str, Any]]:
    """Workflows with every kind of node, every property that is carried out, and every edge."""
    gate = {"title": "t", "description": "d", "actions": ["accept", "reject"], "requiredApprovals": 2,
            "rejectionPolicy": "majority", "approversList": ["ann", "bob"], "timeoutMs": 5000}  # fmt: skip
    asks = {
        "questions": [{"id": "q", "question": "?", "schema": {"type": "string"}}],
        "timeoutMs": 5,
    }
    child = {"workflowId": "conformance-identity", "inputMapping": {"payload": "v"},
             "outputMapping": {"out": "payload"}, "waitForCompletion": True,
             "onChildFailure": "absorb"}  # fmt: skip
    agent = {"mockReasoning": {"summary": "s", "streamChunks": ["a", "b"]},
             "mockToolCalls": [{"toolId": "mcp:a", "arguments": {"x": 1}, "result": {"y": 2}}],
             "mockHandoff": {"toAgentId": "core.b", "reason": "r"},
             "mockDecision": {"decision": {"d": 1}, "confidence": 0.9}}  # fmt: skip
    more = {"variables": VARIABLES, "settings": {"timeout": 60_000, "maxRetries": 1},
            "configurableSchema": {"properties": {"k": {"type": "string"}}},
            "channels": {"c": {"reducer": "message"}}}  # fmt: skip
    first = [
        {"id": "i", "typeId": "core.identity", "inputs": PORTS, "outputSensitivity": {"a": True}},
        {"id": "g", "typeId": "core.approvalGate", "config": gate, "artifactType": "report"},
        {"id": "n", "typeId": "core.noop", "disabled": False},
        {"id": "f", "typeId": "core.fail"},
    ]
    second = [
        {"id": "q", "typeId": "core.clarificationGate", "config": asks},
        {"id": "x", "typeId": "core.interrupt", "config": EVENT},
    ]
    third = [
        {"id": "c", "typeId": "core.subWorkflow", "config": child},
        {"id": "p", "typeId": "core.ai.callPrompt", "agent": AGENT,
         "config": {"prompt": "Say {{b}}", "system": "Be.", "channel": "c"}, "inputs": {"b": PORTS["b"]}},
        {"id": "t", "typeId": "core.tool.call",
         "config": {"toolId": "openwop.echo:echo", "arguments": {"x": [1]}}},
        {"id": "w", "typeId": "core.delay", "config": {"delayMs": 1}},
        {"id": "m", "typeId": "core.conformance.mock-agent", "agent": AGENT, "config": agent},
    ]  # fmt: skip
    fourth = [
        {"id": "s", "typeId": "core.orchestrator.supervisor", "agent": AGENT, "config": LEAD},
        {"id": "d", "typeId": "core.dispatch",
         "config": {"fanOutPolicy": "reject", "iterationCap": 5, "askUserRouting": "clarification"}},
    ]  # fmt: skip
    return [
        flow("conformance-a", first, [("i", "g"), ("g", "n"), ("n", "f"), ("f", "n", "any_failed")][:3],
             **more),
        flow("conformance-b", second, [("q", "x", "all_complete")], **more),
        flow("conformance-c", third, [("c", "p"), ("p", "t"), ("t", "w"), ("w", "m")], **more),
        flow("conformance-d", fourth, [("s", "d"), ("d", "s")], **more),
    ]  # fmt: skip


def workflows(count: int, seed: int) -> list[dict[str, Any]]:
    """Changed workflows: one odd value at one place, or two at two; each with an id of its own."""
    chance, every = random.Random(seed), []
    for base in bases():
        spots = [path for path in places(base) if path != ("id",)]
        every += [(base, (path,), (odd,)) for path in spots for odd in ODD]
        every += [(base, tuple(chance.sample(spots, 2)), tuple(chance.sample(ODD, 2)))
                  for _ in range(len(spots))]  # fmt: skip
    found = []
    for number, (base, paths, odds) in enumerate(chance.sample(every, min(count, len(every)))):
        made = base
        for path, odd in zip(paths, odds, strict=True):
            try:
                made = changed(made, path, odd)
            except (KeyError, IndexError, TypeError):
                continue  # its place is gone
        found.append({**made, "id": f"conformance-odd-{number}"})
    return found
