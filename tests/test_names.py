"""The models under the names of the contracts' own documents."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

import tracklog
from tracklog import names

requirement = pytest.mark.requirement

TS = "2026-05-05T09:00:00.000Z"
KAHN = {"ts": TS, "run_id": "r1"}
RUN = "3f1c1f2e-9a5b-4c7d-8e21-0a1b2c3d4e5f"
RUN_START = {**KAHN, "event": "run_start", "total_nodes": 1, "actor": "rocky"}
NODE_TRANSITION = {
    **KAHN, "event": "node_transition", "node_id": "p", "from": "pending", "to": "ready",
    "outcome": "clean", "convergence_score": 0.5,
}  # fmt: skip
NODE_ATTEMPT = {
    **KAHN, "event": "node_attempt", "node_id": "p", "attempt": 1, "duration_s": 1.0,
    "converged": True, "done_when_results": [],
}  # fmt: skip
RUN_END = {
    **KAHN, "event": "run_end", "outcome": "clean", "done": 1, "failed": 0, "blocked": 0,
    "total_duration_s": 1.0,
}  # fmt: skip
AGENT = {**KAHN, "agent_id": "coder"}
AGENT_RUN_START = {**AGENT, "event": "agent_run_start", "task": "t"}
AGENT_TRANSITION = {
    **AGENT, "event": "agent_transition", "step": 0, "from": "thinking", "to": "tool_call",
}  # fmt: skip
TOOL_INVOCATION = {
    **AGENT, "event": "tool_invocation", "step": 0, "tool_name": "Read", "duration_s": 0.5,
    "ok": True,
}  # fmt: skip
AUDIT_CHECKPOINT = {
    **KAHN, "event": "audit_checkpoint", "agent_id": None, "checkpoint_id": "audit:rls",
    "result": "pass", "duration_s": 0.5,
}  # fmt: skip
AGENT_RUN_END = {
    **AGENT, "event": "agent_run_end", "outcome": "converged", "total_steps": 1,
    "total_tool_calls": 0, "total_audit_checkpoints": 0, "audits_passed": 0, "audits_failed": 0,
    "total_duration_s": 1.0,
}  # fmt: skip
BLOCK = {"type": "text", "fidelity": "router", "text": "hello"}
EXCHANGE = {
    "seq": 1, "run_id": RUN, "type": "message.assistant", "path": "a", "iteration": 0,
    "timestamp": "2026-05-05T09:00:00Z", "payload": {"role": "assistant", "blocks": [BLOCK]},
}  # fmt: skip
GRAPH = {
    "version": 1,
    "nodes": [
        {"id": "a", "deliverable": "d", "depends_on": [], "touches": [], "parallel_safe": True,
         "done_when": ["true"]}
    ],
}  # fmt: skip
MESSAGE = {"messageId": "m1", "from": "user", "content": "hi", "ts": 1}

GOOD_AND_BAD = {
    "AgentEvent": (AUDIT_CHECKPOINT, {**AGENT, "event": "agent_paused"}),
    "AgentId": ("claude-subagent:explore", "A"),
    "AgentOutcome": ("escaped", "failed"),
    "AgentRef": ({"agentId": "host:me", "agentSharing": "isolated"}, {}),
    "AgentRunEnd": (AGENT_RUN_END, AGENT_RUN_START),
    "AgentRunStart": (AGENT_RUN_START, AGENT),
    "AgentStatus": ("blocked-on-clarification", "blocked_on_clarification"),
    "AgentTransition": (AGENT_TRANSITION, AGENT),
    "AuditCheckpoint": (AUDIT_CHECKPOINT, AGENT),
    "AuditResult": ("warn", "ok"),
    "CheckpointId": ("audit:test-coverage.unit", ".a"),
    "ContentBlock": (BLOCK, {"type": "text", "fidelity": "rumour", "text": "x"}),
    "ConversationMessage": (MESSAGE, {}),
    "ErrorEnvelope": ({"error": "boom", "message": "it broke"}, {}),
    "ExchangeEvent": (EXCHANGE, {**EXCHANGE, "payload": {}}),
    "FishbowlEvent": (
        {"id": "1", "run_id": "r", "turn": 0, "kind": "agent.spoke", "actor": "ada",
         "payload": {"text": "hi"}, "created_at": "2026-05-05T09:00:00Z", "schema_version": 1},
        {"kind": "Spoke"},
    ),
    "Graph": (GRAPH, {"version": 2, "nodes": []}),
    "KahnEvent": (RUN_START, {**RUN_START, "event": "prompt_start"}),
    "NodeAttempt": (NODE_ATTEMPT, KAHN),
    "NodeStatus": ("blocked", "thinking"),
    "NodeTransition": (NODE_TRANSITION, {**NODE_TRANSITION, "outcome": "failed"}),
    "OrchestratorDecision": ({"kind": "ask-user", "prompt": "which?"}, {"kind": "shrug"}),
    "Outcome": ("clean_with_flake", "converged"),
    "RunEnd": (RUN_END, KAHN),
    "RunEventType": ("agent.reasoned", "agent.dreamed"),
    "RunStart": (RUN_START, KAHN),
    "ToolInvocation": (TOOL_INVOCATION, AGENT),
}  # fmt: skip
OTHERS = {"AgentManifest", "ConversationTurn", "CORE_EVENT_KINDS", "FanOut", "aggregate_24h"}
OTHERS |= {"AGENT_SHARING", "FISHBOWL_KIND", "OPENWOP_TYPES", "PUBLISHED_ONLY_CLASSES"}
OTHERS |= {"RFC_ONLY_CLASSES", "check_manifest", "importance"}


@requirement("RALPH-14", "RALPH-15", "RALPH-34")
@pytest.mark.parametrize("name", GOOD_AND_BAD)
def test_each_name_of_the_contracts_validates_its_sample_and_nothing_else(name):
    shape = getattr(tracklog, name)
    good, bad = GOOD_AND_BAD[name]
    assert TypeAdapter(shape).validate_python(good) is not None
    with pytest.raises(ValidationError):
        TypeAdapter(shape).validate_python(bad)
    if isinstance(shape, type) and issubclass(shape, BaseModel):
        dumped = shape.model_validate(good).model_dump(by_alias=True, exclude_unset=True)
        assert dumped == good


def test_every_public_name_is_there_and_listed():
    assert {*GOOD_AND_BAD, *OTHERS} == {*names.__all__} == {*tracklog._API["tracklog.names"]}
    for name in names.__all__:
        assert getattr(tracklog, name) is getattr(names, name)
        assert name in dir(tracklog)
    with pytest.raises(AttributeError, match="NoSuchName"):
        _ = tracklog.NoSuchName


@requirement("RALPH-15", "RALPH-16")
def test_a_kahn_event_is_one_of_four_frames():
    for body, frame in (
        (RUN_START, tracklog.RunStart),
        (NODE_TRANSITION, tracklog.NodeTransition),
        (NODE_ATTEMPT, tracklog.NodeAttempt),
        (RUN_END, tracklog.RunEnd),
    ):
        assert type(tracklog.KahnEvent.model_validate(body).root) is frame
        extra = {**body, "deviation": {"severity": "minor"}}
        assert tracklog.KahnEvent.model_validate(extra).root.deviation == {"severity": "minor"}


def test_an_exchange_event_of_an_unknown_type_is_stored():
    body = {**EXCHANGE, "type": "step.retried", "payload": {"why": "flaky"}}
    event = tracklog.ExchangeEvent.model_validate(body)
    assert (event.root.type, event.root.payload) == ("step.retried", {"why": "flaky"})


def test_importing_the_package_imports_no_model():
    code = (
        "import sys, tracklog; assert tracklog.__version__;"
        "assert not {'pydantic', 'orjson', 'tracklog.names'} & sys.modules.keys();"
        "from tracklog import KahnEvent; assert 'pydantic' in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


FACTS = (
    "Began", "Ended", "Moved", "Called", "Returned", "Said", "Decided", "Asked", "Answered",
    "Linked", "Spent", "Noted", "Marked",
)  # fmt: skip
SHARED = {
    "State": ("folds. dialects.", "the state of a fold, or of the rules of a dialect, in its file"),
    "Question": (
        "answers dialects.openwop.shapes",
        "what can be asked of a record; OpenWOP's own name in its published schema",
    ),
    "Problem": ("model.event collector.shapes", "one problem, and its JSON"),
    "Verdict": ("intake.verdicts collector.shapes", "one verdict, and its JSON"),
    "Tombstone": ("journal.retention collector.shapes", "one erasure, and its JSON"),
    "RunStart": ("dialects.kahn_ci.shapes dialects.ralph", "ralph is a profile of kahn-ci"),
    "NodeTransition": ("dialects.kahn_ci.shapes dialects.ralph", "ralph is a profile of kahn-ci"),
    **dict.fromkeys(
        FACTS, ("model.fact dialects.tracklog.shapes", "one fact, and its line in our own dialect")
    ),
}
"""The class names that two modules share: which modules (a dot at the end: all in it), and why."""


def classes():
    """The classes of the package, also the private ones: the modules of each name."""
    source = Path(tracklog.__file__).parent
    found = {}
    for path in sorted(source.rglob("*.py")):
        module = ".".join(path.relative_to(source).with_suffix("").parts).removesuffix(".__init__")
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name.lstrip("_"), []).append(module)
    return found


def allowed(name, module):
    places = SHARED.get(name, ("", ""))[0].split()
    return any(module == each or (each[-1] == "." and module.startswith(each)) for each in places)


def test_a_class_name_means_one_thing():
    """A reader who finds the name of a class in two modules does not know which one is meant."""
    shared = {name: modules for name, modules in classes().items() if len(modules) > 1}
    unclear = {
        name: modules
        for name, modules in shared.items()
        if not all(allowed(name, each) for each in modules)
    }
    assert not unclear, "rename one of them, or list the name in SHARED with the reason"
    assert shared.keys() == SHARED.keys(), "a name that is not shared any more is still listed"
