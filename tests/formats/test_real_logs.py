"""What real logs of agents hold is read right: reasoning, errors, failures, tokens, prices."""

from pathlib import Path

import orjson
import pytest

from support.asking import ask
from tracklog.formats import registry
from tracklog.formats.importers import head_of
from tracklog.formats.importing import Importing
from tracklog.formats.recognition import recognition
from tracklog.home.home import Home

SESSION = "0199b2c0-5d3e-7000-8000-0242ac120002"
AT = "2026-05-05T09:00:0{}.000Z"


@pytest.fixture
def brought(tmp_path):
    """A home with the records of one file."""
    homes = []

    def bring(path, *records):
        path = tmp_path / "logs" / path
        path.parent.mkdir(parents=True)
        path.write_bytes(b"".join(orjson.dumps(each) + b"\n" for each in records))
        home = Home(tmp_path / "home", durability="os")
        homes.append(home)
        summary = Importing(home).bring([path])
        assert (summary.unrecognised, summary.refused) == ([], [])
        home.index.catch_up()
        return home

    yield bring
    for home in homes:
        home.close()


def codex(kind, second, **payload):
    return {"timestamp": AT.format(second), "type": kind, "payload": payload}


ROLLOUT = Path(f"sessions/2026/05/05/rollout-2026-05-05T09-00-00-{SESSION}.jsonl")
META = codex("session_meta", 0, id=SESSION, cwd="/w", cli_version="0.50.0", originator="codex")


def copilot(kind, id, **data):
    return {"type": kind, "data": data, "id": id, "timestamp": AT.format(0)}


EVENTS = Path("session-state/s-1/events.jsonl")
START = copilot("session.start", "e1", sessionId="s-1")


def texts(home):
    return orjson.dumps(ask(home, "story", run=ask(home, "runs")[0]["run"])).decode()


def times(home, text):
    """In how many records of the journal a text occurs."""
    return sum(text.encode() in record.line for record in home.journal.records())


def item(text):
    return codex("response_item", 1, type="reasoning", id="rs_1", content=None,
                 summary=[{"type": "summary_text", "text": text}])  # fmt: skip  # one record


def test_codex_reasoning_without_an_equal_item_is_stored_and_an_equal_one_is_not_repeated(brought):
    home = brought(
        ROLLOUT,
        META,
        item("**Looking at the fins**"),
        codex("event_msg", 1, type="agent_reasoning", text="**Looking at the fins**"),
        codex("event_msg", 2, type="agent_reasoning", text="**Only said in an event**"),
    )
    assert times(home, "Looking at the fins") == 1
    assert times(home, "Only said in an event") == 1


ERRORS = {
    "codex": (
        ROLLOUT,
        (META, codex("event_msg", 1, type="error", message="You've hit your usage limit.")),
    ),
    "codex, nested": (
        ROLLOUT,
        (META, codex("event_msg", 1, type="error",
                     error={"message": "You've hit your usage limit."})),
    ),
    "copilot": (
        EVENTS,
        (START, copilot("session.error", "e2", errorType="quota",
                        message="You've hit your usage limit.")),
    ),
}  # fmt: skip  # one record each


@pytest.mark.parametrize("name", ERRORS)
def test_an_error_is_shown_found_and_a_finding(brought, name):
    path, records = ERRORS[name]
    home = brought(path, *records)
    assert "usage limit" in texts(home)
    assert "usage limit" in orjson.dumps(ask(home, "findings")).decode()
    assert ask(home, "search", query="usage limit") != []


def test_a_codex_command_that_exits_with_an_error_is_a_failed_call(brought):
    def call(n, output):
        return (
            codex("response_item", n, type="function_call", name="exec_command",
                  call_id=f"c{n}", arguments='{"cmd":"ls"}'),
            codex("response_item", n, type="function_call_output", call_id=f"c{n}", output=output),
        )  # fmt: skip  # one record each

    good = "Chunk ID: a\nWall time: 0.1 seconds\nProcess exited with code 0\nOutput:\nok"
    bad = "Chunk ID: b\nWall time: 0.1 seconds\nProcess exited with code 1\nOutput:\nno"
    talk = "It printed: Process exited with code 1"
    home = brought(ROLLOUT, META, *call(1, good), *call(2, bad), *call(3, talk))
    [row] = ask(home, "runs")
    assert (row["tool_calls"], row["tool_failures"]) == (3, 1)


def test_a_copilot_shutdown_without_usage_erases_no_known_tokens_and_its_details_are_read(brought):
    details = {"input": {"tokenCount": 400}, "output": {"tokenCount": 50}}
    home = brought(
        EVENTS,
        START,
        copilot("assistant.message", "e2", messageId="m1", content="a", outputTokens=10),
        copilot("session.shutdown", "e3", shutdownType="routine",
                modelMetrics={"m": {"requests": {"count": 1}}}),
        copilot("session.resume", "e4"),
        copilot("session.shutdown", "e5", shutdownType="routine",
                modelMetrics={"m": {"requests": {"count": 1}, "tokenDetails": details}}),
    )  # fmt: skip  # one record each
    [row] = ask(home, "costs", by="all")
    assert (row["input_tokens"], row["output_tokens"]) == (400, 60)


def test_items_of_a_responses_stream_without_an_id_are_no_calls_and_reasoning_comes_once(brought):
    reasoning = {
        "id": None,
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": "Hm, fins."}],
    }
    call = {"id": None, "type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"}
    output = [reasoning, call]
    stream = [
        {
            "type": "response.created",
            "sequence_number": 0,
            "response": {"id": "r1", "object": "response", "model": "m", "output": []},
        }
    ]
    for n, each in enumerate(output):
        stream += [
            {
                "type": "response.output_item.added",
                "sequence_number": 2 * n + 1,
                "output_index": n,
                "item": each,
            },
            {
                "type": "response.output_item.done",
                "sequence_number": 2 * n + 2,
                "output_index": n,
                "item": each,
            },
        ]
    stream.append(
        {
            "type": "response.completed",
            "sequence_number": 9,
            "response": {"id": "r1", "object": "response", "model": "m", "output": output},
        }
    )
    home = brought(Path("stream.jsonl"), *stream)
    assert [row["tool"] for row in ask(home, "tools")] == ["look"]
    assert [row["tool_calls"] for row in ask(home, "runs")] == [1]
    assert times(home, "Hm, fins.") == 1


def claude(n, role, message, **more):
    return {"type": role, "timestamp": AT.format(n), "message": {"role": role, **message}, **more}


def test_the_use_of_a_claude_message_without_an_id_is_counted_and_its_file_recognised(brought):
    usage = {
        "input_tokens": 7,
        "output_tokens": 3,
        "cache_read_input_tokens": 0,
        "cache_creation_input_tokens": 0,
    }
    records = [
        claude(0, "user", {"content": "Mend the fins"}),
        claude(
            1,
            "assistant",
            {
                "type": "message",
                "model": "claude-opus-4-5",
                "content": [{"type": "text", "text": "Done"}],
                "usage": usage,
            },
        ),
        claude(
            2,
            "assistant",
            {
                "type": "message",
                "model": "claude-opus-4-5",
                "content": [{"type": "text", "text": "More"}],
                "usage": usage,
            },
        ),
    ]
    home = brought(Path("projects/-w/session.jsonl"), *records)
    [row] = ask(home, "costs", by="all")
    assert (row["spends"], row["input_tokens"], row["output_tokens"]) == (2, 14, 6)
    path = home.path.parent / "logs/projects/-w/session.jsonl"
    assert recognition(registry.importers(), path, head_of(path)).importer.name == "claude"
