"""AG-UI: a run as its clients want it, whole or while it goes on, whenever they come."""

import json
import subprocess

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from support import sampling as samples
from support.collecting import Collector, Events, collector
from support.exporting import (
    A_TALK,
    DIALECTS,
    FLIGHTS,
    RUN,
    export_runs,
    facts_of,
    generated,
    records,
    runs_of,
    sample,
    text,
)
from support.exporting import told as recorded_as
from support.forking import Tracklog
from support.soaking import SOAK
from support.waiting import eventually
from support.watching import check_events, check_stream, events_of, frames_of, shown
from tracklog.cli import tracklog
from tracklog.dialects import tracklog as native
from tracklog.formats import registry as formats
from tracklog.formats.export import export
from tracklog.formats.exporters import fact_fields
from tracklog.formats.importers import run_id
from tracklog.formats.live import Live
from tracklog.home import registry
from tracklog.home.home import Home
from tracklog.intake.intake import Intake
from tracklog.journal.journal import Journal
from tracklog.journal.stores.memory import MemoryStore
from tracklog.model.fact import (
    Answered,
    Asked,
    Began,
    Called,
    Decided,
    Ended,
    Linked,
    Moved,
    Noted,
    Returned,
    Said,
    Spent,
)
from tracklog.reading.replay import replay
from tracklog.testing import lines_of_file

AGUI = formats.exporter("agui")


def one(*facts, **more):
    """The run of some facts."""
    return export_runs(recorded_as(*facts, **more))[0]


def stream(run, **options):
    out = b"".join(export(run, "agui", options))
    check_stream(out)
    return events_of(out)


def kinds(events):
    return [event["type"] for event in events]


def test_a_conversation_becomes_a_valid_stream():
    events = stream(one(*A_TALK))
    kinds = [event["type"] for event in events]
    assert kinds[0] == "RUN_STARTED"
    assert kinds[-1] == "RUN_FINISHED"
    assert events[0]["threadId"] == events[0]["runId"] == RUN
    start = kinds.index("TOOL_CALL_START")
    assert kinds[start : start + 3] == ["TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END"]
    assert events[start + 1]["delta"] == '{"path":"a.py"}'
    thought = kinds.index("REASONING_START")
    assert kinds[thought : thought + 5] == [
        "REASONING_START",
        "REASONING_MESSAGE_START",
        "REASONING_MESSAGE_CONTENT",
        "REASONING_MESSAGE_END",
        "REASONING_END",
    ]
    assert events[-1]["outcome"] == {"type": "success"}
    (usage,) = events[-1]["usage"]
    assert usage == {
        "provider": "anthropic",
        "model": "m-1",
        "inputTokens": 100,
        "outputTokens": 20,
        "totalTokens": 120,
        "cachedInputTokens": 40,
    }


def test_a_failed_run_closes_what_is_open_and_ends_with_its_error():
    events = stream(
        one(
            Began(what="run"),
            Began(what="step", step="build"),
            Ended(what="run", outcome="failed", passed=False, error="disk full"),
        )
    )
    assert [event["type"] for event in events[-2:]] == ["STEP_FINISHED", "RUN_ERROR"]
    assert events[-1]["message"] == "disk full"


def test_a_question_interrupts_the_run_and_its_answer_resumes_it():
    facts = [
        Began(what="run"),
        text("hello", agent="a"),
        Asked(question_id="q1", text="Which port?", what="clarification"),
        Answered(question_id="q1", answer="8080"),
        Ended(what="run", passed=True),
    ]
    events = stream(one(*facts))
    kinds = [event["type"] for event in events]
    asked = kinds.index("RUN_FINISHED")
    assert kinds[asked - 2 : asked] == ["STATE_SNAPSHOT", "MESSAGES_SNAPSHOT"]
    assert [message["content"] for message in events[asked - 1]["messages"]] == ["hello"]
    (interrupt,) = events[asked]["outcome"]["interrupts"]
    assert (interrupt["id"], interrupt["message"]) == ("q1", "Which port?")
    resumed = events[asked + 1]
    assert resumed["type"] == "RUN_STARTED"
    assert resumed["threadId"] == events[0]["threadId"]
    assert resumed["input"]["resume"][0]["interruptId"] == "q1"
    assert resumed["input"]["resume"][0]["payload"] == "8080"


def test_the_raw_copy_is_the_line():
    recorded = recorded_as(*A_TALK)
    raws = [e for e in stream(export_runs(recorded)[0], raw="yes") if e["type"] == "RAW"]
    assert [event["event"] for event in raws] == [json.loads(r.line) for r in recorded]
    assert {event["source"] for event in raws} == {"tracklog"}


def test_a_stream_is_read_back_by_our_importer(tmp_path):
    path = tmp_path / "run.sse"
    path.write_bytes(b"".join(export(one(*A_TALK), "agui")))
    lines, _, _ = lines_of_file(formats.importer("agui"), path)
    heard = facts_of(records(lines, "tracklog"))
    words = [block.get("text") for f in heard if isinstance(f, Said) for block in f.blocks]
    assert [each for each in words if each] == ["Please fix it.", "I look.", "Done."]
    assert [(f.tool, f.call_id) for f in heard if isinstance(f, Called)] == [
        ("read", "call_1"),
        ("shell", "call_2"),
    ]
    assert {f.call_id: f.output for f in heard if isinstance(f, Returned)}["call_1"] == "x = 1"
    assert [f.what for f in heard if isinstance(f, Ended)] == ["run"]


@pytest.mark.parametrize("name", [b"Said", b"Called", b"Returned", b"Ended"])
def test_where_the_carried_fact_is_broken_the_events_own_words_are_read(name, tmp_path):
    path = tmp_path / "run.sse"
    whole = b"".join(export(one(*A_TALK), "agui"))
    broken = whole.replace(b'"fact":"%b"' % name, b'"fact":"%b?"' % name)
    assert broken != whole
    path.write_bytes(broken)
    lines, _, _ = lines_of_file(formats.importer("agui"), path)
    heard = facts_of(records(lines, "tracklog"))
    words = [block.get("text") for f in heard if isinstance(f, Said) for block in f.blocks]
    assert [each for each in words if each] == ["Please fix it.", "I look.", "Done."]
    assert [f.tool for f in heard if isinstance(f, Called)] == ["read", "shell"]
    assert {f.call_id: f.output for f in heard if isinstance(f, Returned)}["call_1"] == "x = 1"
    assert [f.what for f in heard if isinstance(f, Ended)] == ["run"]


# what each fact becomes


ROWS = {
    "Began run": (Began(what="run"), ["RUN_STARTED"]),
    "Began step": (Began(what="step", step="build"), ["STEP_STARTED"]),
    "Began agent": (Began(what="agent", agent="coder"), ["CUSTOM"]),
    "Ended run": (Ended(what="run", outcome="done", passed=True), ["RUN_FINISHED"]),
    "Ended run, neither way": (Ended(what="run", outcome="partial"), ["RUN_FINISHED"]),
    "Ended run, failed": (Ended(what="run", outcome="failed", passed=False), ["RUN_ERROR"]),
    "Ended step that never began": (Ended(what="step", step="build"), ["CUSTOM"]),
    "Said": (
        text("hello"),
        ["TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END"],
    ),
    "thought": (
        Said(role="thought", blocks=({"type": "thinking", "thinking": "hm"},)),
        [
            "REASONING_START",
            "REASONING_MESSAGE_START",
            "REASONING_MESSAGE_CONTENT",
            "REASONING_MESSAGE_END",
            "REASONING_END",
        ],
    ),
    "opaque reasoning": (
        Said(role="assistant", blocks=({"type": "thinking", "opaque": "AAECAw=="},)),
        ["REASONING_ENCRYPTED_VALUE"],
    ),
    "nothing said": (Said(role="assistant", blocks=()), ["CUSTOM"]),
    "Called": (
        Called(tool="ls", call_id="c", input={}),
        ["TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END"],
    ),
    "Called with nothing": (Called(tool="ls", call_id="c"), ["TOOL_CALL_START", "TOOL_CALL_END"]),
    "Returned": (Returned(call_id="c", output="x"), ["TOOL_CALL_RESULT"]),
    "Asked": (
        Asked(question_id="q"),
        ["STATE_SNAPSHOT", "MESSAGES_SNAPSHOT", "RUN_FINISHED"],
    ),
    "Answered, though nobody asked": (Answered(question_id="q", answer=1), ["CUSTOM"]),
    "Moved": (Moved(from_="a", to="b", phase="working"), ["CUSTOM"]),
    "Decided": (Decided(verdict="pass"), ["CUSTOM"]),
    "Linked": (Linked(kind="sub-run", child="other"), ["CUSTOM"]),
    "Spent": (Spent(key="k", usage={"input_tokens": 1}), ["CUSTOM"]),
    "Noted": (Noted(label="title", text="A run"), ["CUSTOM"]),
    "copied Ended": (Ended(what="run", passed=True, copied=True), ["CUSTOM"]),
    "copied Asked": (Asked(question_id="q", copied=True), ["CUSTOM"]),
    "copied Said": (
        text("before", copied=True),
        ["TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END"],
    ),
}


@pytest.mark.parametrize("row", ROWS)
def test_a_fact_becomes_these_events(row):
    fact, wanted = ROWS[row]
    before = [] if row == "Began run" else [Began(what="run")]
    events = stream(one(*before, fact))
    assert kinds(events)[len(before) :] == wanted
    if wanted == ["CUSTOM"]:
        assert events[-1]["name"] == f"tracklog.{type(fact).__name__.lower()}"
        assert events[-1]["value"] == fact_fields(fact) | (
            {"blocks": []} if isinstance(fact, Said) else {}
        )


@pytest.mark.parametrize(
    ("role", "theirs"),
    [
        ("user", "user"),
        ("system", "system"),
        ("world", "developer"),
        ("note", "developer"),
        ("assistant", "assistant"),
        ("belief", "assistant"),
    ],
)
def test_whoever_speaks_has_a_role_there(role, theirs):
    start = stream(one(Began(what="run"), text("x", role, agent="coder")))[1]
    assert (start["role"], start["name"]) == (theirs, "coder")


def test_a_message_is_named_after_its_event_and_a_call_is_part_of_the_message_it_was_made_in():
    heard = one(
        Began(what="run"),
        text("I look."),
        Called(tool="ls", call_id="c1", input={"a": 1}),
        Returned(call_id="c1", output="x"),
    )
    events = stream(heard)
    named = {event["type"]: event for event in events}
    assert named["TEXT_MESSAGE_START"]["messageId"] == "id-1"
    # It came as an event of its own.
    assert named["TOOL_CALL_START"]["parentMessageId"] == "id-2"
    assert named["TOOL_CALL_RESULT"]["messageId"] == "id-3"
    mixed = next(p for p in FLIGHTS if samples.name_of(p) == "awf/mixed-blocks-keep-their-order")
    events = stream(export_runs(sample(mixed))[0])
    said = {event["messageId"] for event in events if event["type"] == "TEXT_MESSAGE_START"}
    [call] = [event for event in events if event["type"] == "TOOL_CALL_START"]
    assert call["parentMessageId"] in said


def test_unknown_values_are_left_out_and_a_count_is_an_integer_from_zero():
    usage = {"input_tokens": -1, "output_tokens": 3}
    ended = stream(
        one(
            Began(what="run"),
            Asked(question_id="q"),
            Answered(question_id="q", answer=None),
            Spent(key="k", usage=usage),
            Ended(what="run"),
        )
    )
    assert ended[-1]["usage"] == [{"outputTokens": 3, "totalTokens": 3}]
    [interrupt] = next(e for e in ended if e["type"] == "RUN_FINISHED")["outcome"]["interrupts"]
    assert interrupt == {"id": "q", "reason": "question"}


def test_waiting_questions_are_sent_together_and_each_answer_begins_a_run():
    events = stream(
        one(
            Began(what="run"),
            Began(what="step", step="build"),
            Asked(question_id="q1", text="Which port?"),
            Asked(question_id="q2"),
            text("Meanwhile."),
            Answered(question_id="q1", answer=8080, by="ann"),
            Answered(question_id="q2", answer="no"),
            Ended(what="step", step="build"),
            Ended(what="run", passed=True),
        )
    )
    waiting = [e["outcome"]["interrupts"] for e in events if "interrupts" in e.get("outcome", {})]
    assert [[each["id"] for each in all_] for all_ in waiting] == [["q1"], ["q1", "q2"]]
    resumed = [e["input"]["resume"] for e in events if "input" in e]
    assert [(each["interruptId"], each["payload"]) for [each] in resumed] == [
        ("q1", 8080),
        ("q2", "no"),
    ]
    assert len({event["threadId"] for event in events if "threadId" in event}) == 1
    # The step goes on in each of them, and ends where it does.
    assert kinds(events)[-2:] == ["STEP_FINISHED", "RUN_FINISHED"]


def test_a_question_and_what_it_interrupted_are_read_back_once(tmp_path):
    facts = [
        Began(what="run"),
        Began(what="step", step="build"),
        text("Hello."),
        Asked(question_id="q1", text="Which port?", what="clarification"),
        Asked(question_id="q2", text="Which host?", what="clarification"),
        text("Meanwhile."),
        Answered(question_id="q1", answer=8080, by="ann"),
        Answered(question_id="q2", answer=None),
        Ended(what="step", step="build"),
        Ended(what="run", outcome="done", passed=True),
        Noted(label="title", text="Came late"),
    ]
    path = tmp_path / "run.sse"
    path.write_bytes(b"".join(export(one(*facts), "agui")))
    lines, _, _ = lines_of_file(formats.importer("agui"), path)
    back = facts_of(records(lines, "tracklog"))

    def bare(heard):
        kinds = (Began, Ended, Said, Asked, Answered)
        return [
            {k: v for k, v in fact_fields(f).items() if k not in ("message_id", "fidelity")}
            | {"": type(f)}
            for f in heard
            if isinstance(f, kinds)
        ]

    told = bare(back)
    assert [each for each in bare(facts) if each not in told] == []
    assert sum(each[""] is not Said for each in told) == 8


@pytest.mark.parametrize(
    ("links", "thread"),
    [
        ([], RUN),
        ([("session.id", "s-1")], "s-1"),
        ([("session.id", "s-1"), ("gen_ai.conversation.id", "c-1")], "c-1"),
        ([("claude", "another-name"), ("trace_id", "0af7")], RUN),
    ],
)
def test_the_thread_is_the_conversation_where_one_is_known(links, thread):
    aliases = [Linked(kind="alias", system=system, alias=name) for system, name in links]
    events = stream(one(Began(what="run"), *aliases, Ended(what="run", passed=True)))
    assert {event["threadId"] for event in events if "threadId" in event} == {thread}
    assert {event["runId"] for event in events if "runId" in event} == {RUN}


def test_a_sub_run_is_a_stream_of_its_own_in_the_thread_of_the_run_at_the_top():
    above = recorded_as(
        Began(what="run"),
        Linked(kind="alias", system="session.id", alias="s-1"),
        Linked(kind="sub-run", child="below"),
        run="above",
    )
    below = recorded_as(Began(what="run"), text("I am below."), run="below")
    found = {run.id: run for run in export_runs([*above, *below])}
    started = stream(found["below"])[0]
    assert (started["threadId"], started["runId"]) == ("s-1", "below")
    told = stream(found["above"])
    assert kinds(told) == ["RUN_STARTED", "CUSTOM", "CUSTOM"]
    assert told[-1]["value"]["child"] == "below"


def test_an_imported_thread_is_exported_with_its_id(tmp_path):
    path = tmp_path / "run.jsonl"
    started = {"type": "RUN_STARTED", "threadId": "th-1", "runId": "r-1"}
    path.write_text(json.dumps(started) + "\n")
    lines, _, _ = lines_of_file(formats.importer("agui"), path)
    [imported] = export_runs(records(lines, "tracklog"))
    assert stream(imported)[0]["threadId"] == "th-1"


# what comes in


def read_in(events, folder):
    """What our importer makes of events, as bodies of lines, and its report."""
    path = folder / "events.jsonl"
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    lines, _, report = lines_of_file(formats.importer("agui"), path)
    return [json.loads(line) for line in lines], report


def e(type, **said):
    return {"type": type, **said}


STARTED = e("RUN_STARTED", threadId="th", runId="r", timestamp=1_777_971_600_123)
THOUGHT = {"fact": "Said", "role": "assistant", "blocks": [{"type": "thinking", "thinking": "hmm"}]}
IN: dict[str, tuple[list, list]] = {
    "a run begins": ([], []),
    "a run branches from another": (
        [e("RUN_STARTED", threadId="th", runId="r2", parentRunId="r")],
        [
            {"fact": "Began", "what": "run"},
            {"fact": "Linked", "kind": "alias", "system": "agui", "alias": "r2"},
            {"fact": "Linked", "kind": "alias", "system": "threadId", "alias": "th"},
            {"fact": "Linked", "kind": "branch", "parent": run_id("agui", "r")},
        ],
    ),
    "a run ends well": (
        [e("RUN_FINISHED", threadId="th", runId="r", outcome={"type": "success"}, result={"a": 1})],
        [
            {
                "fact": "Ended",
                "what": "run",
                "outcome": "success",
                "passed": True,
                "extra": {"result": {"a": 1}},
            }
        ],
    ),
    "a run ends, and nobody says how": (
        [e("RUN_FINISHED", threadId="th", runId="r")],
        [{"fact": "Ended", "what": "run"}],
    ),
    "a run fails": (
        [e("RUN_ERROR", message="disk full", code="E1")],
        [{"fact": "Ended", "what": "run", "outcome": "E1", "passed": False, "error": "disk full"}],
    ),
    "what a run took": (
        [
            e(
                "RUN_FINISHED",
                threadId="th",
                runId="r",
                usage=[{"provider": "p", "model": "m", "inputTokens": 3, "outputTokens": -1}],
            )
        ],
        [
            {
                "fact": "Spent",
                "key": "r",
                "provider": "p",
                "model": "m",
                "usage": {
                    "input_tokens": 3,
                    "raw": {"provider": "p", "model": "m", "inputTokens": 3, "outputTokens": -1},
                },
            },
            {"fact": "Ended", "what": "run"},
        ],
    ),
    "steps": (
        [e("STEP_STARTED", stepName="build"), e("STEP_FINISHED", stepName="build")],
        [
            {"fact": "Began", "what": "step", "step": "build"},
            {"fact": "Ended", "what": "step", "step": "build"},
        ],
    ),
    "a message in pieces": (
        [
            e("TEXT_MESSAGE_START", messageId="m", role="developer", name="ann"),
            e("TEXT_MESSAGE_CONTENT", messageId="m", delta="Hel"),
            e("TEXT_MESSAGE_CONTENT", messageId="m", delta="lo"),
            e("TEXT_MESSAGE_END", messageId="m"),
        ],
        [
            {
                "fact": "Said",
                "role": "system",
                "agent": "ann",
                "message_id": "m",
                "blocks": [{"type": "text", "text": "Hello"}],
            }
        ],
    ),
    "a message without a role is a model's": (
        [e("TEXT_MESSAGE_START", messageId="m"), e("TEXT_MESSAGE_END", messageId="m")],
        [{"fact": "Said", "role": "assistant", "message_id": "m", "blocks": []}],
    ),
    "a message in chunks": (
        [
            e("TEXT_MESSAGE_CHUNK", messageId="m", role="user", delta="Hel"),
            e("TEXT_MESSAGE_CHUNK", delta="lo"),
            e("STEP_STARTED", stepName="s"),
        ],
        [
            {
                "fact": "Said",
                "role": "user",
                "message_id": "m",
                "blocks": [{"type": "text", "text": "Hello"}],
            },
            {"fact": "Began", "what": "step", "step": "s"},
        ],
    ),
    "a message that is cut off": (
        [
            e("TEXT_MESSAGE_START", messageId="m", role="assistant"),
            e("TEXT_MESSAGE_CONTENT", messageId="m", delta="Hel"),
        ],
        [
            {
                "fact": "Said",
                "role": "assistant",
                "message_id": "m",
                "blocks": [{"type": "text", "text": "Hel", "partial": True}],
            }
        ],
    ),
    "a call in pieces and its result": (
        [
            e("TOOL_CALL_START", toolCallId="c", toolCallName="ls", parentMessageId="m"),
            e("TOOL_CALL_ARGS", toolCallId="c", delta='{"a"'),
            e("TOOL_CALL_ARGS", toolCallId="c", delta=": 1}"),
            e("TOOL_CALL_END", toolCallId="c"),
            e("TOOL_CALL_RESULT", messageId="m2", toolCallId="c", content="x", role="tool"),
        ],
        [
            {
                "fact": "Called",
                "tool": "ls",
                "call_id": "c",
                "input": {"a": 1},
                "extra": {"parentMessageId": "m"},
            },
            {"fact": "Returned", "call_id": "c", "output": "x", "extra": {"messageId": "m2"}},
        ],
    ),
    "what a source said itself, and what nobody knows": (
        [e("STEP_STARTED", stepName="s", rawEvent={"x": 1}, new=2, metadata={"ag-ui": {}})],
        [
            {
                "fact": "Began",
                "what": "step",
                "step": "s",
                "extra": {"rawEvent": {"x": 1}, "new": 2, "metadata": {"ag-ui": {}}},
            }
        ],
    ),
    "a call in chunks": (
        [
            e("TOOL_CALL_CHUNK", toolCallId="c", toolCallName="ls", delta='{"a"'),
            e("TOOL_CALL_CHUNK", delta=": 1}"),
            e("TOOL_CALL_RESULT", messageId="m2", toolCallId="c", content=""),
        ],
        [
            {"fact": "Called", "tool": "ls", "call_id": "c", "input": {"a": 1}},
            {"fact": "Returned", "call_id": "c", "output": "", "extra": {"messageId": "m2"}},
        ],
    ),
    "reasoning": (
        [
            e("REASONING_START", messageId="t"),
            e("REASONING_MESSAGE_START", messageId="t", role="reasoning"),
            e("REASONING_MESSAGE_CONTENT", messageId="t", delta="h"),
            e("REASONING_MESSAGE_CONTENT", messageId="t", delta="mm"),
            e("REASONING_MESSAGE_END", messageId="t"),
            e("REASONING_END", messageId="t"),
        ],
        [THOUGHT | {"message_id": "t"}],
    ),
    "reasoning in chunks": (
        [
            e("REASONING_MESSAGE_CHUNK", messageId="t", delta="h"),
            e("REASONING_MESSAGE_CHUNK", messageId="t", delta="mm"),
            e("RUN_ERROR", message="cancelled"),
        ],
        [
            THOUGHT | {"message_id": "t"},
            {"fact": "Ended", "what": "run", "passed": False, "error": "cancelled"},
        ],
    ),
    "reasoning as it was once told": (
        [
            e("THINKING_START", title="Plan"),
            e("THINKING_TEXT_MESSAGE_START"),
            e("THINKING_TEXT_MESSAGE_CONTENT", delta="hmm"),
            e("THINKING_TEXT_MESSAGE_END"),
            e("THINKING_END"),
        ],
        [
            {"fact": "Noted", "label": "THINKING_START", "kind": "THINKING_START", "text": "Plan"},
            THOUGHT,
        ],
    ),
    "reasoning that only the model can read": (
        [
            e(
                "REASONING_ENCRYPTED_VALUE",
                subtype="message",
                entityId="m",
                encryptedValue="AA EC+/==",
            )
        ],
        [
            {
                "fact": "Said",
                "role": "assistant",
                "message_id": "m",
                "blocks": [{"type": "thinking", "opaque": "AA EC+/=="}],
                "extra": {"subtype": "message", "entityId": "m"},
            }
        ],
    ),
    "a question and its answer": (
        [
            e(
                "RUN_FINISHED",
                threadId="th",
                runId="r",
                outcome={
                    "type": "interrupt",
                    "interrupts": [
                        {
                            "id": "q",
                            "reason": "approval",
                            "message": "May I?",
                            "toolCallId": "c",
                            "responseSchema": {"type": "boolean"},
                            "expiresAt": "2026-05-05T10:00:00Z",
                        }
                    ],
                },
            ),
            e(
                "RUN_STARTED",
                threadId="th",
                runId="r2",
                input={"resume": [{"interruptId": "q", "status": "resolved", "payload": True}]},
            ),
        ],
        [
            {
                "fact": "Asked",
                "question_id": "q",
                "text": "May I?",
                "what": "approval",
                "call_id": "c",
                "schema": {"type": "boolean"},
                "expires": "2026-05-05T10:00:00Z",
            },
            {"fact": "Began", "what": "run"},
            {"fact": "Linked", "kind": "alias", "system": "agui", "alias": "r2"},
            {"fact": "Linked", "kind": "alias", "system": "threadId", "alias": "th"},
            {"fact": "Answered", "question_id": "q", "answer": True},
        ],
    ),
    "of a snapshot what is new": (
        [
            e("TEXT_MESSAGE_CHUNK", messageId="m1", role="user", delta="Hi"),
            e(
                "MESSAGES_SNAPSHOT",
                messages=[
                    {"id": "m1", "role": "user", "content": "Hi"},
                    {"id": "m2", "role": "system", "content": "Be brief."},
                    {"id": "m3", "role": "reasoning", "content": "hmm", "encryptedValue": "AA=="},
                    {
                        "id": "m4",
                        "role": "assistant",
                        "content": "I look.",
                        "toolCalls": [
                            {
                                "id": "c",
                                "type": "function",
                                "function": {"name": "ls", "arguments": "{}"},
                            }
                        ],
                    },
                    {"id": "m5", "role": "tool", "toolCallId": "c", "content": "x", "error": "no"},
                    {"id": "m6", "role": "activity", "activityType": "PLAN", "content": {"a": 1}},
                ],
            ),
            e("MESSAGES_SNAPSHOT", messages=[{"id": "m2", "role": "system", "content": "Be b"}]),
        ],
        [
            {
                "fact": "Said",
                "role": "user",
                "message_id": "m1",
                "blocks": [{"type": "text", "text": "Hi"}],
            },
            {
                "fact": "Said",
                "role": "system",
                "message_id": "m2",
                "blocks": [{"type": "text", "text": "Be brief."}],
            },
            {
                "fact": "Said",
                "role": "assistant",
                "message_id": "m3",
                "blocks": [
                    {"type": "thinking", "thinking": "hmm"},
                    {"type": "thinking", "opaque": "AA=="},
                ],
            },
            {
                "fact": "Said",
                "role": "assistant",
                "message_id": "m4",
                "blocks": [{"type": "text", "text": "I look."}],
            },
            {"fact": "Called", "tool": "ls", "call_id": "c", "input": {}},
            {"fact": "Returned", "call_id": "c", "output": "x", "error": "no"},
            {
                "fact": "Noted",
                "label": "ACTIVITY_SNAPSHOT",
                "kind": "ACTIVITY_SNAPSHOT",
                "text": "PLAN",
                "data": {
                    "id": "m6",
                    "role": "activity",
                    "activityType": "PLAN",
                    "content": {"a": 1},
                },
            },
        ],
    ),
} | {
    type: (
        [e(type, **said)],
        [
            {"fact": "Noted", "label": type, "kind": type, "data": said}
            | ({"text": text} if text else {})
        ],
    )
    for type, text, said in (
        ("STATE_SNAPSHOT", None, {"snapshot": {"a": None}}),
        ("STATE_DELTA", None, {"delta": [{"op": "remove", "path": "/a"}]}),
        ("ACTIVITY_SNAPSHOT", "PLAN", {"messageId": "m", "activityType": "PLAN", "content": {}}),
        ("ACTIVITY_DELTA", "PLAN", {"messageId": "m", "activityType": "PLAN", "patch": []}),
        ("RAW", None, {"event": {"x": 1}, "source": "elsewhere"}),
        ("CUSTOM", "hello", {"name": "hello", "value": None}),
    )
}
FIRST = [
    {"fact": "Began", "what": "run"},
    {"fact": "Linked", "kind": "alias", "system": "agui", "alias": "r"},
    {"fact": "Linked", "kind": "alias", "system": "threadId", "alias": "th"},
]


@pytest.mark.parametrize("row", IN)
def test_events_become_these_facts(row, tmp_path):
    events, facts = IN[row]
    bodies, report = read_in([STARTED, *events], tmp_path)
    assert not report.unknown
    envelope = {"id", "run", "at", "origin"}
    told = [{key: body[key] for key in body if key not in envelope} for body in bodies]
    assert told == [*FIRST, *facts]
    assert bodies[0]["at"] == "2026-05-05T09:00:00.123Z"
    assert bodies[0]["origin"]["record"] == "r"
    for body in bodies:
        for name in ("message_id", "call_id"):
            record = body["origin"].get("record")
            assert name not in body or record in (
                None,
                body[name],
                "r",
                body.get("extra", {}).get("messageId"),
            )


def test_an_unknown_event_is_stored_and_reported(tmp_path):
    bodies, report = read_in([STARTED, e("SOMETHING_NEW", value=1)], tmp_path)
    assert report.unknown == {"SOMETHING_NEW": 1}
    assert bodies[-1]["kind"] == "SOMETHING_NEW"
    assert bodies[-1]["data"]["value"] == 1


# while it goes on


def kept(recorded) -> Journal:
    journal = Journal(MemoryStore(), clock=lambda: 1_780_000_000.0)
    door = Intake(journal, DIALECTS.values())
    for record in recorded:
        door.admit([record.line], record.dialect)
    return journal


def follow(journal, run, after):
    """What one is told who joins there, and then of each record."""
    tree = replay(registry.fold("tree"), journal.records(), DIALECTS)
    live = Live(run, journal, DIALECTS, tree, AGUI, AGUI.chosen())
    begin, pieces = live.join(after), []
    while (said := live.read_on(limit=1)) is not None:
        pieces.append((live.over, live.cursor, said))
    return begin, pieces


def check_every_join(recorded):
    journal = kept(recorded)
    for run in runs_of(journal.records()):
        _, whole = follow(journal, run, 0)
        check_stream(b"".join(said for *_, said in whole))
        for after in range(journal.last + 1):
            begin, rest = follow(journal, run, after)
            check_stream(begin + b"".join(said for *_, said in rest))
            # What comes is the same for all; what was, a client has after either.
            assert rest == [each for each in whole if each[0] or each[1] > after]
            before = b"".join(said for over, at, said in whole if at <= after and not over)
            assert _unordered(shown(events_of(begin))) == _unordered(shown(events_of(before)))


def _unordered(messages):
    """A result whose call was never heard stands anywhere."""
    results = sorted(json.dumps(each) for each in messages if each["role"] == "tool")
    return [each for each in messages if each["role"] != "tool"], results


@settings(max_examples=30 * SOAK)
@given(generated())
def test_whenever_one_joins_the_rules_hold_and_nothing_is_missed(recorded):
    check_every_join(recorded)


@pytest.mark.parametrize(
    "path", [path for path in samples.of("good") if path.stat().st_size < 4000], ids=samples.name_of
)
def test_in_every_sample_one_can_join_at_every_record(path):
    check_every_join(sample(path))


@settings(max_examples=20 * SOAK)
@given(generated(), st.data())
def test_a_run_is_a_legal_stream_however_far_it_came(recorded, data):
    end = data.draw(st.integers(1, len(recorded)))
    for run in export_runs(recorded[:end]):
        stream(run)


def test_an_id_says_that_everything_up_to_it_was_sent():
    facts = [
        Began(what="agent", agent="a"),
        text("one", agent="a"),
        Ended(what="agent", agent="a", outcome="converged", passed=True),
    ]
    journal = kept(recorded_as(*facts))
    _, whole = follow(journal, ("tracklog", RUN), 0)
    frames = frames_of(b"".join(said for *_, said in whole))
    numbers = [number for number, _ in frames]
    # Of three frames of a message the last; the end of the last agent only with the run's.
    assert numbers == [None, 1, None, None, 2, None, 3]
    assert [event["type"] for _, event in frames][-2:] == ["CUSTOM", "RUN_FINISHED"]


def test_a_client_that_joins_gets_the_present_state():
    facts = [
        Began(what="run"),
        Began(what="step", step="build"),
        Moved(agent="a", from_="idle", to="editing", phase="working"),
        text("Hello.", agent="a"),
        Asked(question_id="q", text="Which port?"),
    ]
    journal = kept(recorded_as(*facts))
    begin, rest = follow(journal, ("tracklog", RUN), 4)
    started, messages, state, step = events_of(begin)
    assert started["type"] == "RUN_STARTED"
    assert messages["messages"] == [
        {"id": "id-3", "role": "assistant", "content": "Hello.", "name": "a"}
    ]
    assert state["snapshot"] == {"a": "editing"}
    assert step["stepName"] == "build"
    assert [kinds(events_of(said)) for *_, said in rest] == [
        ["STEP_FINISHED", "STATE_SNAPSHOT", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]
    ]
    # One who comes while a person is waited for sees what is asked.
    begin, rest = follow(journal, ("tracklog", RUN), None)
    assert events_of(begin)[-1]["outcome"]["interrupts"][0]["message"] == "Which port?"
    assert rest == []


# over HTTP, and on the command line


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with collector(tmp_path_factory.mktemp("home"), "--durability", "os") as made:
        yield made


def lines(run, *facts, first=0):
    origin = {"writer": "test", "fidelity": "observed"}
    return [
        native.line(fact, id=f"{run}-{first + n}", run=run, at=None, origin=origin)
        for n, fact in enumerate(facts)
    ]


def post(server, run, *facts, first=0) -> int:
    answer = server.post(lines(run, *facts, first=first), "tracklog").json()
    assert answer["accepted"] == len(facts)
    return answer["last_seq"]


class Watched(Events):
    """One who watches a run."""

    def __init__(self, server, run, query="", **headers):
        super().__init__(server, query, path=f"/api/export/agui/tracklog/{run}/live", **headers)
        self.cursor = None
        self.heard = []

    def take(self):
        frame = self.next()
        assert "event" not in frame
        self.cursor = frame.get("id", self.cursor)
        self.heard.append(json.loads(frame["data"]))
        return self.heard[-1]

    def until(self, kind):
        """Everything up to the next event of this kind."""
        found = [self.take()]
        while found[-1]["type"] != kind:
            found.append(self.take())
        return found

    def end(self):
        with pytest.raises(EOFError):
            self.next()
        check_events(self.heard)


def test_a_late_client_gets_a_snapshot_and_then_every_event_until_the_end(server):
    post(server, "late", Began(what="run"), text("Hello.", agent="a"))
    with Watched(server, "late") as watched:
        assert b"text/event-stream" in watched.head
        started, messages, state = watched.until("STATE_SNAPSHOT")
        assert (started["type"], state["snapshot"]) == ("RUN_STARTED", {})
        assert [each["content"] for each in messages["messages"]] == ["Hello."]
        post(server, "another", Began(what="run"))
        post(server, "late", text("And?", "user"), first=2)
        assert watched.until("TEXT_MESSAGE_END")[1]["delta"] == "And?"
        post(server, "late", Ended(what="run", outcome="done", passed=True), first=3)
        assert kinds(watched.until("RUN_FINISHED")) == ["RUN_FINISHED"]
        watched.end()


def test_who_comes_back_has_what_one_has_who_stayed(server):
    post(server, "back", Began(what="run"), text("one"))
    with Watched(server, "back", "?after=0") as stayed:
        with Watched(server, "back", "?after=0") as left:
            left.until("TEXT_MESSAGE_END")
        post(server, "back", Called(tool="ls", call_id="c"), text("two"), first=2)
        with Watched(server, "back", Last_Event_ID=left.cursor) as back:
            post(server, "back", Returned(call_id="c", output="x"), Ended(what="run"), first=4)
            for each in (stayed, back):
                each.until("RUN_FINISHED")
                each.end()
    assert kinds(back.heard)[:3] == ["RUN_STARTED", "MESSAGES_SNAPSHOT", "STATE_SNAPSHOT"]
    assert shown(back.heard) == shown(stayed.heard)
    assert [each["role"] for each in shown(stayed.heard)] == [
        "assistant",
        "assistant",
        "tool",
        "assistant",
    ]
    assert back.cursor == stayed.cursor


def test_an_answer_goes_on_in_the_same_stream(server):
    post(server, "asks", Began(what="run"), Asked(question_id="q-live", text="Which port?"))
    with Watched(server, "asks", "?after=0") as watched:
        asked = watched.until("RUN_FINISHED")[-1]
        assert asked["outcome"]["interrupts"][0]["id"] == "q-live"
        answered = server.http.post("/api/inbox/q-live/answer", json={"answer": 8080})
        assert answered.status_code == 200
        [resumed] = watched.until("RUN_STARTED")
        assert resumed["input"]["resume"][0]["payload"] == 8080
        post(server, "asks", Ended(what="run", passed=True), first=2)
        watched.until("RUN_FINISHED")
        watched.end()


def test_a_run_that_has_ended_is_sent_once(server):
    last = post(server, "over", Began(what="run"), text("x"), Ended(what="run", passed=False))
    with Watched(server, "over") as watched:
        told = watched.until("RUN_ERROR")
        watched.end()
    assert kinds(told) == ["RUN_STARTED", "MESSAGES_SNAPSHOT", "STATE_SNAPSHOT", "RUN_ERROR"]
    path = "/api/export/agui/tracklog/over/live"
    again = server.get(path, headers={"Last-Event-ID": str(last)})
    assert (again.status_code, again.content) == (204, b"")  # so that a browser stays away
    post(server, "over", Noted(label="title", text="Late"), first=3)
    late = server.get(path, headers={"Last-Event-ID": str(last)})
    check_stream(late.content)
    assert kinds(events_of(late.content))[-3:] == ["RUN_STARTED", "CUSTOM", "RUN_ERROR"]


def test_records_of_another_process_are_sent_too(server):
    post(server, "elsewhere", Began(what="run"))
    with Watched(server, "elsewhere") as watched, Home(server.home) as home:
        watched.until("STATE_SNAPSHOT")
        home.intake.admit(lines("elsewhere", text("From afar."), first=1), "tracklog")
        assert watched.until("TEXT_MESSAGE_END")[1]["delta"] == "From afar."


def test_what_cannot_be_followed_is_refused_with_a_reason(server):
    post(server, "here", Began(what="run"))
    live = "/api/export/{}/tracklog/{}/live".format
    assert server.get(live("agui", "nowhere")).status_code == 404
    whole = server.get(live("atif", "here"))
    assert whole.status_code == 404
    assert "agui" in whole.json()["hint"]
    assert server.get(live("agui", "here"), headers={"Last-Event-ID": "x"}).status_code == 400
    assert server.get(live("agui", "here"), params={"option": "raw=perhaps"}).status_code == 404
    assert server.http.head(live("agui", "here")).status_code == 200
    # A cursor from another journal misses nothing: what was is told anyway.
    with Watched(server, "here", "?after=99999999") as watched:
        assert kinds(watched.until("STATE_SNAPSHOT"))[0] == "RUN_STARTED"


def test_a_gap_is_sent_heartbeats_are_comments_and_a_client_that_reads_nothing_is_closed(tmp_path):
    with Home(tmp_path, durability="os", segment_size=20_000) as home:
        home.intake.admit(lines("old", *(text("x" * 100) for _ in range(300))), "tracklog")
        assert eventually(lambda: home.prune(0.001, open_too=True) and home.journal.first > 1)
        home.intake.admit(lines("old", text("Still here."), first=300), "tracklog")
        first, end = home.journal.first, home.journal.last
    limits = {"stalled_seconds": 1, "heartbeat_seconds": 0.2}
    with collector(tmp_path, limits=limits) as server:
        path = "/api/export/agui/tracklog/old/live"
        with Watched(server, "old", "?after=0") as watched:
            started, gap = watched.until("CUSTOM")
            assert started["type"] == "RUN_STARTED"
            assert (gap["name"], gap["value"]) == ("tracklog.gap", {"after": 0, "next": first})
            assert watched.cursor == str(first - 1)
            while watched.cursor != str(end):
                watched.take()
            beat = f": heartbeat, the journal ends at {end}\n\n".encode()
            while beat not in watched._text:
                watched._text += watched._chunk()
            check_events(watched.heard)
        with Watched(server, "old", f"?after={first - 1}") as abreast:
            abreast.until("TEXT_MESSAGE_END")
            assert "tracklog.gap" not in [event.get("name") for event in abreast.heard]
        stuck = server.raw()
        stuck.sendall(f"GET {path}?after=0 HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        n = 301
        while "tracklog_streams_closed_total 1" not in server.get("/metrics").text:
            post(server, "old", *(text("x" * 20_000) for _ in range(50)), first=n)
            n += 50
        stuck.close()


def test_a_stream_ends_when_the_server_stops(tmp_path):
    server = Collector(tmp_path, "--durability", "os")
    post(server, "r", Began(what="run"))
    with Watched(server, "r") as watched:
        watched.until("STATE_SNAPSHOT")
        assert server.stop() == 0
        watched.end()


def test_the_command_line_follows_a_run_to_its_end(tmp_path):
    with Home(tmp_path / "home", durability="os") as home:
        home.intake.admit(lines("r", Began(what="run"), text("one")), "tracklog")
        arguments = ["export", "agui", "r", "--follow", "--home", str(home.path)]
        follower = Tracklog(*arguments, stdout=subprocess.PIPE)
        with follower.stdout as said:
            heard = b""
            while b"TEXT_MESSAGE_END" not in heard:
                heard += said.readline()
            home.intake.admit(lines("r", text("two"), Ended(what="run"), first=2), "tracklog")
            heard += said.read()
        assert follower.wait(30) == 0
    check_stream(heard)
    assert [each["content"] for each in shown(events_of(heard))] == ["one", "two"]
    refused = CliRunner().invoke(tracklog, [*arguments, "--strict"])
    assert refused.exit_code == 2
    assert "--follow" in refused.output
