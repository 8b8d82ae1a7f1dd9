"""Runs to be exported and converted: those of the samples, and generated ones."""

from dataclasses import fields
from typing import Any, get_args

from hypothesis import strategies as st

from support import sampling as samples
from tracklog.dialects import tracklog as native
from tracklog.dialects.checking import checker, understand
from tracklog.formats.export import export_run
from tracklog.home import registry
from tracklog.intake.intake import Intake
from tracklog.journal.frame import Record
from tracklog.journal.journal import Journal
from tracklog.journal.stores.memory import MemoryStore
from tracklog.model.event import Event
from tracklog.model.fact import (
    FACTS,
    Began,
    Called,
    Decided,
    Ended,
    Fidelity,
    LinkKind,
    Phase,
    Returned,
    Role,
    Said,
    Spent,
    What,
)
from tracklog.reading.replay import replay

DIALECTS = {dialect.name: dialect for dialect in registry.dialects()}
DOORS = {name: checker(dialect) for name, dialect in DIALECTS.items()}
FLIGHTS = samples.of("good") + samples.of("odd")
RUN = "3f1c1f2e-9a5b-4c7d-8e21-0a1b2c3d4e5f"


def records(lines, dialect: str) -> list[Record]:
    """Lines of one dialect as a journal would have numbered them."""
    found = []
    for n, line in enumerate(lines):
        event = understand(DIALECTS[dialect], line)
        received = f"2026-06-01T{n // 3600 % 24:02}:{n // 60 % 60:02}:{n % 60:02}.000Z"
        found.append(Record(n + 1, received, dialect, event.family, event.run, line))
    return found


def sample(path) -> list[Record]:
    """A sample as a journal has it: without what is refused as a reused identity."""
    journal = Journal(MemoryStore(), clock=lambda: 1_780_000_000.0)
    name = samples.dialect_of(path)
    Intake(journal, [DIALECTS[name]]).admit(samples.lines_of(path), name)
    return list(journal.records())


def runs_of(recorded) -> list[tuple[str, str]]:
    return list(dict.fromkeys((record.family, record.run) for record in recorded))


def export_runs(recorded):
    """Every run of some records, each with the runs below it."""
    states = replay(registry.fold("tree"), recorded, DIALECTS)
    return [
        export_run(
            run,
            lambda wanted: [r for r in recorded if (r.family, r.run) == wanted],
            DIALECTS,
            states,
        )
        for run in runs_of(recorded)
    ]


def told(*facts, run: str = RUN, at: str | None = "2026-05-05T09:00:00Z", **more: Any):
    """Facts as native records."""
    origin = {"writer": "test", "fidelity": "observed"} | more.pop("origin", {})
    lines = [
        native.line(fact, id=f"id-{n}", run=run, at=at, origin=origin, **more)
        for n, fact in enumerate(facts)
    ]
    return records(lines, "tracklog")


def facts_of(recorded):
    """What records mean, in order."""
    return [
        fact
        for record in recorded
        for fact in DIALECTS[record.dialect].facts(
            understand(DIALECTS[record.dialect], record.line)
        )
    ]


def text(words, role="assistant", **more):
    return Said(role=role, blocks=({"type": "text", "text": words},), **more)


A_TALK = [
    Began(what="run", agent="coder", task="Fix it", model="m-1", software={"name": "demo"}),
    text("Please fix it.", "user"),
    Said(
        role="assistant",
        agent="coder",
        model="m-1",
        stop_reason="tool_use",
        message_id="msg-1",
        blocks=(
            {"type": "thinking", "thinking": "Read first."},
            {"type": "text", "text": "I look."},
        ),
    ),
    Called(agent="coder", tool="read", call_id="call_1", input={"path": "a.py"}),
    Called(agent="coder", tool="shell", call_id="call_2", input="ls"),
    Spent(
        agent="coder",
        key="msg-1",
        provider="anthropic",
        model="m-1",
        usage={"input_tokens": 100, "output_tokens": 20, "cached_tokens": 40},
        cost_usd=0.25,
    ),
    Returned(agent="coder", call_id="call_2", ok=False, error="no such command"),
    text("Done.", agent="coder", model="m-1", message_id="msg-2"),
    Returned(agent="coder", call_id="call_1", ok=True, output="x = 1", seconds=0.5),
    Decided(name="tests", verdict="pass", passed=True, score=0.9, about="call_1"),
    Ended(what="run", outcome="converged", passed=True, seconds=3.0),
]

names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12) | st.sampled_from(
    ["coder", "read", "call_1", "step.a", "<b>&\"'", "a\nb", "x" * 200, "ünï", "#"]
)
lifted = st.builds(
    lambda letter, kind: {
        "$blob": {"sha256": letter * 64, "bytes": 9, "media_type": kind, "preview": "so it began"}
    },
    st.sampled_from("ab0"),
    st.sampled_from(["text/plain", "image/png", "application/json"]),
)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | names | lifted,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)
numbers = st.integers(0, 10**6) | st.floats(0, 1e6)
blocks = st.one_of(
    (names | lifted).map(lambda text: {"type": "text", "text": text}),
    names.map(lambda text: {"type": "thinking", "thinking": text, "signature": "c2lnbg=="}),
    names.map(lambda text: {"type": "command", "command": text}),
    values.map(lambda chunk: {"type": "stream", "chunk": chunk, "provider_type": "image"}),
    st.just({"type": "thinking", "opaque": "AAECAw=="}),
)
OF: dict[str, st.SearchStrategy[Any]] = {
    "what": st.sampled_from(get_args(What)),
    "phase": st.sampled_from(get_args(Phase)),
    "role": st.sampled_from(get_args(Role)),
    "fidelity": st.sampled_from(get_args(Fidelity)),
    "blocks": st.lists(blocks, max_size=3).map(tuple),
    "options": st.lists(values, max_size=2).map(tuple),
    "winning_models": st.lists(names, max_size=2).map(tuple),
    "software": names.map(lambda name: {"name": name, "version": "1"}),
    "git": st.dictionaries(names, names, max_size=2),
    "usage": st.dictionaries(
        st.sampled_from(["input_tokens", "output_tokens", "cached_tokens", "total_tokens"]),
        st.integers(0, 10**6),
    ),
    "scores": st.dictionaries(names, numbers, max_size=2),
    "expires": st.just("2026-05-05T10:00:00Z"),
    "bound": st.sampled_from(["lower", "upper"]),
    "exit_code": st.integers(-1, 255),
    "calls": st.integers(0, 5),
    "confidence": st.floats(0, 1),
    "threshold": st.floats(0, 1),
    "call_id": st.sampled_from(["c1", "c2", "c3"]),
    "provider_call_id": st.sampled_from(["c2", "p1"]),
    "parent_call_id": st.sampled_from(["c1", "c3"]),
    "message_id": st.sampled_from(["m1", "m2", "id-1"]),
    "about": st.sampled_from(["c1", "m1", "id-0", "nobody"]),
    "question_id": st.sampled_from(["q1", "q2"]),
    "key": st.sampled_from(["k1", "k2", "m1"]),
    "step": st.sampled_from(["0", "1", "2", "build", "build.test", "build#1"]),
    "agent": st.sampled_from(["coder", "Critic", "a b"]),
    **dict.fromkeys(("score", "seconds", "cost_usd", "credits"), numbers),
    **dict.fromkeys(("input", "output", "error", "verdict", "evidence"), values),
    **dict.fromkeys(("schema", "answer", "context", "data"), values),
    **dict.fromkeys(("parent", "child", "other"), names),
}


def _strategy(kind):
    required, optional = {}, {}
    for item in fields(kind):
        made = OF.get(item.name, names)
        if "bool" in str(item.type):
            made = st.booleans()
        if kind.__name__ == "Linked" and item.name == "kind":
            made = st.sampled_from(get_args(LinkKind))
        (required if "MISSING" in repr(item.default) else optional)[item.name] = made
    return st.fixed_dictionaries(required, optional=optional).map(lambda given: kind(**given))


facts = st.one_of([_strategy(kind) for kind in FACTS])


BESIDE: dict[str, st.SearchStrategy[Any]] = {
    "cause": st.sampled_from(["id-0", "elsewhere"]),
    "extra": st.dictionaries(st.sampled_from(["seen", "by the way"]), values, min_size=1),
    "nobody knows": names,
}
"""What a line may say that no fact tells."""


@st.composite
def generated(draw, most: int = 12):
    """A native run of facts that intake accepts."""
    origin = {"writer": "test", "fidelity": "observed"}
    lines = [native.line(FACTS[0](what="run"), id="first", run="run 7", origin=origin)]
    for n, fact in enumerate(draw(st.lists(facts, min_size=1, max_size=most))):
        at = draw(st.sampled_from([None, f"2026-05-05T09:00:{n:02}Z", "2026-05-05T08:00:00.5Z"]))
        origin = {"writer": "test", "fidelity": fact.fidelity}
        more = draw(st.fixed_dictionaries({}, optional=BESIDE))
        line = native.line(fact, id=f"id-{n}", run="run 7", at=at, origin=origin, **more)
        if isinstance(DOORS["tracklog"](line), Event):
            lines.append(line)
    return records(lines, "tracklog")
