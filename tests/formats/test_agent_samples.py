"""What a correct import of each sample yields: counts, tokens, cost, models, links.

The samples and where they come from: `tests/samples/importers/SOURCES*.md`.
"""

import math
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import orjson
import pytest

from support.asking import ask
from support.forking import tracklog
from support.importing import yields
from tracklog.formats import registry
from tracklog.formats.importers import head_of
from tracklog.formats.importing import Importing
from tracklog.formats.recognition import recognition
from tracklog.home.home import Home
from tracklog.testing import built, lines_of_file

SAMPLES = Path(__file__).parents[1] / "samples" / "importers"
ROO = "roo/tasks/bc93a6f7-cd2e-4686-a832-46e3cd14d338/ui_messages.json"

EXPECTED = {
    "opencode/opencode-subagent.db": {
        "runs": 2, "prompts": 2, "calls": 19, "failed": 0, "open": 0, "children": 1,
        "input": 24_448 + 170_493, "cached": 11_389 + 136_346, "output": 450 + 2_484,
        "models": {"claude-sonnet-4.6"}, "project": "/home/dev/Projects/_nvim/opencode.nvim",
        "titles": {"Task tool rendering location search",
                   "Find task tool rendering (@explore subagent)"},
        "first": "2026-03-05T12:49:10.448Z", "last": "2026-03-05T12:50:53.777Z"},
    "opencode/storage-tool-denied/storage/session/29d43526f88157cd4edd071b899dd01f240b771b"
    "/ses_471829192ffebHW9UmQGzvCDMj.json": {
        "runs": 1, "prompts": 1, "injected": 2, "calls": 1, "failed": 1, "input": 20_614,
        "output": 23, "models": {"gpt-4.1"}},
    "opencode/storage-aborted/storage/session/b0b749d27ca2e03482d36bfe846b01ce40ba759b"
    "/ses_5d8282fbbfferOT3q8sNddDbV7.json": {
        "runs": 1, "prompts": 1, "injected": 2, "calls": 0, "input": None, "output": None,
        "outcomes": {"MessageAbortedError"}},
    "cline/sessions/1784094124598_rruoq/1784094124598_rruoq.messages.json": {
        "runs": 1, "prompts": 5, "calls": 11, "open": 0, "failed": 0, "input": 630_254,
        "cached": 534_435, "output": 4_395, "cost": 2.036023, "forks": 1,
        "project": "/Users/example/dev/cline"},
    "cline/success.messages.json": {
        "runs": 1, "prompts": 1, "calls": 1, "open": 0, "input": 21, "cached": 3, "written": 1,
        "output": 8, "cost": 0.13, "models": {"claude-sonnet-4-6"}},
    ROO: {
        "runs": 1, "prompts": 5, "calls": 16, "failed": 0, "input": 177 + 367_595 + 628_379,
        "cached": 628_379, "written": 367_595, "output": 9_823, "cost": 1.568996,
        "models": {"claude-sonnet-4-20250514"}, "project": "d:/dev/roo-extensions"},
    "roo/tasks/8c06d62c-1ee2-4c3a-991e-c9483e90c8aa/api_conversation_history.json": {
        "runs": 1, "calls": 1, "open": 0, "models": {"anthropic/claude-sonnet-4"}},
    "cline/legacy/tasks/1767225600000/api_conversation_history.json": {
        "prompts": 1, "calls": 0, "input": 10, "output": 2, "models": {"synthetic-model"},
        "project": "/home/example/projects/demo", "titles": {"Say hello"}},
    "roo/made/tasks/1767225700000/api_conversation_history.json": {
        "prompts": 1, "input": 12, "output": 4, "project": "/home/example/projects/demo"},
    "kilo/tasks/legacy-task-1/api_conversation_history.json": {"calls": 1, "open": 0},
    "kilo/tasks/legacy-reasoning-1/api_conversation_history.json": {"thoughts": 4, "calls": 0},
    "kilo/tasks/019d3df5-d5d9-73dc-bc2c-43a6304ac62c/api_conversation_history.json": {
        "prompts": 1, "injected": 1, "calls": 1},
    "vscode-chat/chatSessions/35a2ecbc-1144-4ac2-993e-1ca6850280a3.jsonl": {
        "runs": 1, "prompts": 9, "calls": 2, "input": None, "output": 1_005, "lower": True,
        "models": {"capi-noe-ptuc-h200-oswe-vscode-prime"}, "outcomes": {"cancelled", "complete"},
        "project": "/Users/budi-fixture/workspaces/vscode-0.47.0-chat"},
    "vscode-chat/chatSessions/cop-s1.json": {
        "runs": 1, "prompts": 2, "answers": 2, "calls": 1, "errors": 1, "models": {"gpt-4.1"}},
    "vscode-chat/chatSessions/session-01-today.json": {
        "runs": 1, "prompts": 5, "answers": 5, "input": 226, "output": 1_983},
    "qwen/62f46b9e-7582-45ac-89fa-0404ee427f66.jsonl": {
        "runs": 1, "prompts": 1, "spends": 3, "calls": 2, "failed": 1, "open": 0, "input": 29_373,
        "cached": 14_686, "output": 63, "reasoning": 9, "models": {"mock-model"},
        "project": "/tmp/proj/qwen"},
    "qwen/019f0000-0000-7000-8000-000000000004.jsonl": {
        "runs": 1, "prompts": 2, "withdrawn": 1, "calls": 1, "input": 12, "output": 4},
    "pi/2026-11-16T16-33-43-603Z_01a1e535-14b2-7366-a486-c7fd91da597e.jsonl": {
        "runs": 1, "prompts": 1, "calls": 2, "failed": 1, "input": 1_057 + 1_054, "cached": 1_054,
        "output": 63, "cost": 0.0012884, "models": {"mock-model"}, "project": "/tmp/proj/pi"},
    "pi/v1_selected_lines.jsonl": {
        "runs": 1, "compactions": 2, "calls": 4, "input": 134_619, "cached": 92_865,
        "written": 38_967, "output": 384, "cost": 0.313511, "models": {"claude-opus-4-5"},
        "forks": 1},
    "pi/v3_with_compaction.jsonl": {"runs": 1, "compactions": 2, "prompts": 2, "input": 24},
    "openclaw/openclaw-agent.sqlite": {
        "runs": 1, "prompts": 1, "calls": 2, "failed": 1, "input": 2 * 11_731, "cached": 11_731,
        "output": 63, "reasoning": 9, "cost": 0.01303, "models": {"mock-model"}},
    "openclaw/large.jsonl": {"runs": 1, "prompts": 1, "injected": 1, "calls": 2, "open": 0},
    "goose/sessions.db": {
        "runs": 1, "prompts": 1, "injected": 1, "calls": 2, "failed": 1, "input": 3_767,
        "cached": 1_883, "output": 63, "lower": True, "models": {"mock-model"},
        "titles": {"hello.py prints: hello from the fixture."}, "project": "/tmp/proj/goose"},
    "goose/session-export.json": {
        "runs": 1, "prompts": 1, "injected": 1, "calls": 2, "failed": 1, "input": 3_767,
        "cached": 1_883, "output": 63},
    "kimi/wire_1_5.jsonl": {
        "runs": 1, "prompts": 1, "calls": 2, "failed": 1, "input": 3_662 + 3_661, "cached": 3_661,
        "output": 63, "models": {"mock-model"}, "project": "/tmp/proj/kimi"},
    "kimi/wire_1_4_retries.jsonl": {
        "runs": 1, "prompts": 3, "answers": 0, "calls": 0, "output": None, "titles": {"hi"},
        "outcomes": {"cancelled", "completed"}},
    "cursor/composer-global-state.vscdb": {
        "runs": 1, "prompts": 2, "answers": 2, "calls": 2, "open": 0, "failed": 0, "input": None,
        "titles": {"Synthetic v0.16 Composer session"}, "project": "/fixture/v016/project",
        "findings": 1},
    "cursor/legacy-2024-workspace.vscdb": {
        "runs": 4, "prompts": 4, "answers": 4, "calls": 0, "input": None,
        "models": {"claude-3.5-sonnet"}},
    "cursor/cli-store/store.db": {
        "runs": 1, "prompts": 0, "findings": 1, "titles": {"Test Session"},
        "models": {"claude-4-sonnet"}},
    "cursor/agent-transcripts/test-session.jsonl": {
        "prompts": 2, "calls": 2, "open": 2, "titles": {"run ls command"}},
    "cursor/agent-transcripts/turn-ended.jsonl": {"prompts": 1, "calls": 5, "outcomes": {"success"}},
    "cursor/agent-transcripts/schema_drift.jsonl": {"calls": 1, "open": 0, "models": {"cursor-auto"}},
    "cursor/agent-transcripts/subagent/subagents/child.jsonl": {"parents": 1, "prompts": 1},
    "inspect/2026-11-16T16-30-02-00-00_demo_JDGksYBKonHTW5VsDS8bfv.eval": {
        "runs": 2, "prompts": 2, "calls": 4, "failed": 2, "open": 0, "spends": 6,
        "input": 2 * (420 + 240), "cached": 2 * 240, "output": 2 * 57, "reasoning": 2 * 13,
        "titles": {"demo s1", "demo s2"}, "models": {"mockllm/model"}},
    "inspect/2026-11-16T16-42-24-00-00_demo_UPQ3BTn2idR9UEGWsTjVhh.json": {
        "runs": 1, "prompts": 1, "calls": 2, "failed": 1, "input": 420 + 240, "cached": 240,
        "output": 57, "reasoning": 13},
    "inspect/log_formats.json": {"runs": 1, "prompts": 1, "answers": 1, "input": 66, "output": 2},
    "inspect/log_formats.eval": {"runs": 1, "prompts": 1, "answers": 1, "input": 66, "output": 2},
    "inspect/log_message_deduplication.eval": {"runs": 1, "calls": 5, "open": 0, "answers": 6},
    "inspect/log_tool_call_error.json": {"runs": 1, "calls": 11, "failed": 11},
    "openhands/sdk_events.jsonl": {
        "runs": 1, "calls": 3, "failed": 2, "torn": 1, "input": 107_458, "cached": 68_193,
        "output": 1_347, "models": {"litellm_proxy/minimax-m2.7"}},
    "openhands/v0_trajectory_basic.json": {
        "runs": 1, "prompts": 1, "calls": 1, "open": 0, "spends": 2, "input": 3_486 + 4_646,
        "output": 1_135 + 177, "models": {"claude-3-5-sonnet-20241022"}},
    "openhands/v1_11_5_cli_default/base_state.json": {"runs": 1, "models": {"gpt-4o-mini"}},
    "aider/.aider.chat.history.md": {
        "runs": 1, "prompts": 1, "answers": 1, "input": 2_800, "output": 21, "cost": 0.0073,
        "lower": True, "models": {"openai/gpt-4o"}},
    "aider/analytics.jsonl": {"runs": 1, "spends": 1, "input": 2_829, "output": 21, "cost": 0.007283},
    "aider/chat-history.slice.md": {
        "runs": 3, "prompts": 5, "answers": 4, "spends": 3, "input": 31_360, "output": 1_321,
        "models": {"claude-3-5-sonnet-20240620"}},
    "aider/sample-analytics.tail.jsonl": {"runs": 21, "spends": 9},
    "antigravity/brain/self-correction/.system_generated/logs/transcript.jsonl": {
        "runs": 1, "prompts": 1, "calls": 2, "failed": 1, "open": 0,
        "models": {"Gemini 3.1 Pro (Low)"}},
    "antigravity/brain/subagent/.system_generated/logs/transcript.jsonl": {
        "runs": 1, "prompts": 1, "calls": 1, "children": 1, "errors": 1},
    "antigravity/cli_small.jsonl": {"runs": 1, "findings": 1, "prompts": 2},
    "antigravity/conversations/18ee78b4-4643-45db-85df-8abd89b51b1b.db": {
        "runs": 1, "spends": 3, "input": 9_835 + 2_093 + 2_464 + 8_111 + 16_270 + 16_316,
        "cached": 8_111 + 16_270 + 16_316, "output": 3 * 282, "reasoning": 3 * 281},
    "droid/session_store_large.jsonl": {
        "runs": 1, "prompts": 2, "calls": 1, "open": 0, "titles": {"Stage0 Droid Large"},
        "project": "/tmp/large"},
    "droid/session_store_schema_drift.jsonl": {"prompts": 1, "injected": 1},
    "droid/stream_json_schema_drift.jsonl": {
        "prompts": 1, "injected": 1, "calls": 1, "failed": 1, "errors": 1, "input": 10, "output": 5,
        "models": {"droid-model"}},
    "hermes/sessions-export.jsonl": {
        "runs": 1, "prompts": 1, "calls": 2, "failed": 1, "open": 0, "input": 2_772 + 2_771,
        "cached": 2_771, "output": 63, "reasoning": 9, "models": {"mock-model"},
        "titles": {"hello.py prints: hello from the fixture."}, "project": "/tmp/proj/hermes"},
    "hermes/session_legacy_large.json": {
        "runs": 1, "prompts": 1, "calls": 1, "open": 0, "models": {"gpt-5.2"}},
    "amp/T-019ca26f-5555-6666-7777-888888888888.json": {
        "runs": 1, "prompts": 2, "answers": 2, "input": 5_000 + 10 + 8_000 + 40, "cached": 8_000,
        "written": 40, "output": 300, "lower": True,
        "models": {"gpt-5.6-sol", "claude-sonnet-4-20250514"}},
    "amp/T-tooluse.json": {
        "prompts": 1, "thoughts": 1, "calls": 1, "open": 0, "project": "myrepo"},
    "zed/threads.db": {
        "runs": 2, "prompts": 2, "answers": 2, "thoughts": 2, "input": None,
        "titles": {"legacy zed thread", "read the zed thread store"},
        "project": "/workspace/registry-demo"},
    "crush/crush.db": {
        "runs": 2, "prompts": 2, "calls": 3, "failed": 1, "open": 0, "errors": 1, "parents": 1,
        "input": 1_500, "output": 50, "cost": 0.0125, "lower": True, "models": {"claude-sonnet-4-6"}},
    "langsmith/sdk_runs.jsonl": {
        "runs": 1, "prompts": 1, "calls": 2, "failed": 1, "spends": 1, "input": 120, "cached": 60,
        "output": 9, "reasoning": 4, "models": {"mock-model"}, "titles": {"agent"}},
    "langsmith/py_wrap_openai_reasoning.batch.json": {
        "runs": 1, "prompts": 1, "answers": 1, "spends": 1, "input": 43, "output": 2_497,
        "reasoning": 1_408, "models": {"o1-mini"}},
    "langfuse/claude-agent-2025-12-22.trace.json": {
        "runs": 1, "spends": 4, "calls": 2, "open": 0, "input": 34, "output": 232, "cost": 0.003582,
        "models": {"claude-sonnet-4-5-20250929"}},
    "langfuse/autogen-2025-06-06.trace.json": {
        "runs": 1, "spends": 1, "input": 41, "output": 3, "cost": 0.000025, "models": {"gpt-4o"}},
}  # fmt: skip


@pytest.fixture(scope="session")
def samples(tmp_path_factory):
    return built(SAMPLES, tmp_path_factory.mktemp("samples") / "importers")


@pytest.mark.parametrize("name", EXPECTED, ids=str)
def test_an_import_of_a_sample_yields_what_is_expected(samples, tmp_path, name):
    found = yields(samples / name, tmp_path)
    expected = EXPECTED[name]
    assert {key: found[key] for key in expected} == expected


@pytest.mark.parametrize("name", EXPECTED, ids=str)
def test_every_record_of_a_sample_is_mapped(samples, name):
    path = samples / name
    found = recognition(registry.importers(), path, head_of(path)).importer
    _, _, report = lines_of_file(found, path)
    assert not report.unknown, report.unknown


def test_all_agents_are_imported_into_one_home_and_nothing_is_recorded_twice(samples, tmp_path):
    with Home(tmp_path / "home", durability="os") as home:
        importing = Importing(home)
        first = importing.bring(importing.below([samples]))
        assert (first.refused, first.unread, first.ambiguous) == ([], [], {})
        names = {Path(each).relative_to(samples).parts[0] for each in first.unrecognised}
        assert names == {"grok", "opencode", "otel"}  # what no importer reads
        again = Importing(home).bring(importing.below([samples]))
        assert (again.lines, again.unchanged) == ({}, first.files)
        anew = Importing(home).bring(importing.below([samples]), again=True)
        assert set(anew.lines) == {"duplicate"}
        home.index.catch_up()
        rows = ask(home, "runs")
        assert len(rows) == len(first.runs)
        [total] = ask(home, "costs", by="all")
        assert "mock-model" in total["unpriced_models"]
        projects = ask(home, "costs", by="project")
        assert {row["of"] for row in projects} <= {row["project"] for row in rows}
        assert len(projects) > 10
        for name in ("runs", "total_tokens", "cost_usd"):
            assert math.fsum(row[name] or 0 for row in projects) == pytest.approx(total[name])
        [qwen] = (row for row in projects if row["of"] == "/tmp/proj/qwen")
        assert (qwen["runs"], qwen["total_tokens"], qwen["cost_usd"]) == (1, 29_436, None)


UNPRICED = {
    "capi-noe-ptuc-h200-oswe-vscode-prime", "codexresponses.gpt-5.4?reasoning=high", "droid-model",
    "gemini-pro-default", "gpt-5.6-sol", "litellm_proxy/minimax-m2.7", "mock-model",
    "mockllm/model", "ollama/llama3.1", "pi-fixture-model", "synthetic-active-model",
    "synthetic-model",
}  # fmt: skip  # a list to be read
"""The models of the samples that have no list price, or run under the name of a gateway."""


def test_models_without_a_price_are_named_in_costs(samples, tmp_path):
    with Home(tmp_path / "home", durability="os") as home:
        importing = Importing(home)
        importing.bring(importing.below([samples]))
        home.index.catch_up()
        [total] = ask(home, "costs", by="all")
        assert set(total["unpriced_models"]) == UNPRICED
        by_model = {row["of"]: row for row in ask(home, "costs", by="model")}
        assert {of for of, row in by_model.items() if row["unpriced_models"]} == UNPRICED
    printed = tracklog(tmp_path / "home", "costs", "--by", "all")
    assert all(name in printed.stderr.decode() for name in UNPRICED)


def test_credentials_beside_the_chats_of_cursor_are_not_read(samples, tmp_path):
    path = tmp_path / "state.vscdb"
    shutil.copy(samples / "cursor" / "legacy-2024-workspace.vscdb", path)
    with closing(sqlite3.connect(path)) as connection:
        rows = [
            ("cursorAuth/accessToken", "ey-secret-1"),
            ("cursorAuth/refreshToken", "ey-secret-2"),
        ]
        connection.executemany("INSERT INTO ItemTable VALUES (?, ?)", rows)
        connection.execute("INSERT INTO cursorDiskKV VALUES ('secret', 'ey-secret-3')")
        connection.commit()
    store = tmp_path / "store.db"
    shutil.copy(samples / "cursor" / "cli-store" / "store.db", store)
    with closing(sqlite3.connect(store)) as connection:
        (data,) = connection.execute("SELECT value FROM meta WHERE key = '0'").fetchone()
        meta = {**orjson.loads(bytes.fromhex(data)), "blobEncryptionKey": "ey-secret-4"}
        connection.execute("UPDATE meta SET value = ?", (orjson.dumps(meta).hex(),))
        connection.commit()
    for each in (path, store):
        lines, _, _ = lines_of_file(registry.importer("cursor"), each)
        assert lines
        assert not any(b"ey-secret" in line for line in lines)
