"""Tools get no secrets of the host and no rights that nobody gave; no secret is readable in parts."""

import asyncio
import contextlib
import json
import sys
from pathlib import Path

import orjson
import pytest

from support.hosting import Host, Process, flow, put
from support.waiting import eventually
from tracklog import TracklogError
from tracklog.hosts.openwop.settings import Key, ToolProgram, digest, read_settings
from tracklog.hosts.openwop.tools import invoke
from tracklog.hosts.workflow import processes

PRINTER = "import json, os, sys; sys.stdin.read(); print(json.dumps(dict(os.environ)))"
TOOL = {"local:print": ToolProgram(id="local:print", command=(sys.executable, "-c", PRINTER))}
CALLS = {"toolId": "local:print", "arguments": {}}
ASKS = {"prompt": "call local:print {}", "tools": ["local:print"]}
TEST_TOKEN = "sk-test-a-long-word-of-a-test"


@pytest.mark.parametrize("kind", ["core.tool.call", "core.ai.callPrompt"])
@pytest.mark.parametrize("name", ["core.nobody", "host:model:w:a", "host:own"])
def test_an_agent_that_nobody_declared_calls_no_tools(tmp_path, kind, name):
    config = CALLS if kind == "core.tool.call" else ASKS
    node = {"id": "a", "typeId": kind, "config": config, "agent": {"agentId": name}}
    flows = put(tmp_path / "flows", flow("pins", [node]))
    with Host(tmp_path / "home", workflows=flows, tools=TOOL) as host:
        for prefix in ("/v1", ""):
            refused = host.http.post(f"{prefix}/runs", json={"workflowId": "pins"})
            assert refused.status_code == 400, refused.text
            assert refused.json()["details"]["field"] == "agent"
        tools = host.engine.agents.allowed(name, ["local:print"], is_pinned=True)
        assert tools == []


def test_an_agent_with_a_manifest_or_a_role_calls_its_tools(tmp_path):
    nodes = [
        {"id": each[-1], "typeId": "core.tool.call", "config": CALLS, "agent": {"agentId": each}}
        for each in ("core.a", "core.b")
    ]
    flows = put(tmp_path / "flows", flow("pins", nodes, [("a", "b")]))
    made = {"agentId": "core.a", "persona": "A", "modelClass": "general", "systemPrompt": "Be."}
    more = {"manifests": put(tmp_path / "agents", {**made, "toolAllowlist": ["local:print"]})}
    more |= {"roles": {"printer": ("local:print",)}, "agent_roles": {"core.b": "printer"}}
    with Host(tmp_path / "home", workflows=flows, tools=TOOL, **more) as host:
        host.until(host.start("pins"), "completed")


def test_a_tool_gets_no_variable_that_it_does_not_need(tmp_path):
    node = {"id": "a", "typeId": "core.tool.call", "config": CALLS}
    flows = put(tmp_path / "flows", flow("prints", [node]))
    tool = {"id": "local:print", "command": [sys.executable, "-c", PRINTER]}
    config = tmp_path / "host.yaml"
    settings = {
        "workflows": [str(flows[0])],
        "keys": [{"token": "CLIENT_ANN", "principal": "ann", "scopes": ["write"]}],
        "token_secrets": {"first": "SIGNING"},
        "tools": [{**tool, "environment": ["WANTED"]}],
    }
    config.write_bytes(orjson.dumps(settings))
    given = {"CLIENT_ANN": "token-of-ann", "SIGNING": "a-secret-that-signs", "WANTED": "yes"}
    with Process(tmp_path / "home", "--config", str(config), **given, OTHER="no") as host:
        run = host.start("prints")
        host.until(run, "completed")
        (returned,) = host.events(run, "agent.toolReturned")
        names = returned["payload"]["result"].keys()
        assert {"PATH", "WANTED"} <= names
        assert not names & {"CLIENT_ANN", "SIGNING", "OTHER"}
        assert not [name for name in names if name.startswith("TRACKLOG")]


@pytest.mark.parametrize("name", ["CLIENT_ANN", "SIGNING", "TRACKLOG_TOKEN"])
def test_the_variables_of_the_host_cannot_be_given_to_a_tool(tmp_path, name):
    tool = {"id": "local:print", "command": ["true"], "environment": [name]}
    keys = [{"token": "CLIENT_ANN", "scopes": ["write"]}]
    settings = {"tools": [tool], "keys": keys, "token_secrets": {"first": "SIGNING"}}
    path = tmp_path / "host.yaml"
    path.write_bytes(orjson.dumps(settings))
    with pytest.raises(TracklogError, match=name):
        read_settings(path, {"CLIENT_ANN": "token-of-ann", "SIGNING": "a-secret-that-signs"})


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_key_is_masked_in_what_a_tool_prints(tmp_path, stream):
    tokens = {"CLIENT_ANN": "token-of-ann-1", "SIGNING": "a-secret-that-signs", "MODEL": "key-of-m"}
    values = [*tokens.values(), "token-of-the-operator"]
    print_all = f"import sys; print({' '.join(values)!r}, file=sys.{stream}); "
    print_all += "sys.exit(0)" if stream == "stdout" else "sys.exit(1)"
    node = {"id": "a", "typeId": "core.tool.call", "config": CALLS}
    flows = put(tmp_path / "flows", flow("prints", [node]))
    settings = {
        "workflows": [str(flows[0])],
        "keys": [{"token": "CLIENT_ANN", "principal": "ann", "scopes": ["write"]}],
        "token_secrets": {"first": "SIGNING"},
        "model": {"base_url": "http://127.0.0.1:9/v1", "name": "m", "key": "MODEL"},
        "tools": [{"id": "local:print", "command": [sys.executable, "-c", print_all]}],
    }
    config = tmp_path / "host.yaml"
    config.write_bytes(orjson.dumps(settings))
    options = ["--config", str(config)]
    with Process(tmp_path / "home", *options, token=values[-1], **tokens) as host:
        run = host.start("prints")
        host.until(run)
        seen = json.dumps([host.events(run), host.snapshot(run)])
        assert seen.count("[REDACTED:") >= len(values)
    kept = b"".join(path.read_bytes() for path in (tmp_path / "home").rglob("*") if path.is_file())
    for value in values:
        assert value not in seen, value
        assert value.encode() not in kept, value


@pytest.mark.parametrize("size", [1, 3, 5])
def test_a_sensitive_value_is_masked_over_the_borders_of_chunks(tmp_path, size):
    secret = "hunter22-and-more"
    hidden = {"name": "pin", "type": "string", "required": True, "sensitive": True}
    node = {"id": "a", "typeId": "core.ai.callPrompt", "config": {"prompt": "Say it."}}
    flows = put(tmp_path / "flows", flow("says", [node], variables=[hidden]))
    key = Key(digest=digest(TEST_TOKEN), principal="t", scopes=frozenset({"*"}), test=True)
    text = f"It is {secret}, isn't it?"
    tokens = [text[at : at + size] for at in range(0, len(text), size)]
    with Host(tmp_path / "home", workflows=flows, keys=(key,)) as host:
        client = host.client(TEST_TOKEN)
        mock = {"id": "stream-text", "config": {"tokens": tokens}}
        options = {"mockProvider": mock}
        run = client.start("says", inputs={"pin": secret}, configurable=options)
        client.until(run, "completed")
        chunks = [each["payload"]["chunk"] for each in client.events(run, "output.chunk")]
        assert len(chunks) == len(tokens)
        assert "".join(chunks) == "It is [REDACTED:pin], isn't it?"
        shown = client.snapshot(run)["configurable"]["mockProvider"]["config"]["tokens"]
        assert "".join(shown) == "".join(chunks)
        frames = client.stream(run, "?streamMode=messages")
        assert "".join(frame[2]["payload"]["chunk"] for frame in frames) == "".join(chunks)
        fork = client.fork(run, mode="replay").json()["runId"]
        client.until(fork, "completed")
        again = [each["payload"]["chunk"] for each in client.events(fork, "output.chunk")]
        assert again == chunks


@pytest.mark.parametrize("host", ["openwop", "workflow"])
def test_a_program_that_is_cancelled_while_it_starts_leaves_nothing(tmp_path, host):
    """Its own child has the pipes: nobody waits for the end of that one."""
    mark = f"/{tmp_path.name}-{host}"
    command = ("sh", "-c", f"(sleep 60; : {mark}) & wait")

    async def started() -> None:
        if host == "openwop":
            await invoke("local:slow", {"local:slow": tool}, {})
        else:
            await processes.run(command, run_id="r", feed=bytes, environment={}, cwd=tmp_path)

    async def main() -> None:
        for turns in range(24):
            task = asyncio.ensure_future(started())
            for _ in range(turns % 12):
                await asyncio.sleep(0)
            task.cancel()
            async with asyncio.timeout(30):
                with contextlib.suppress(asyncio.CancelledError):
                    await task

    tool = ToolProgram(id="local:slow", command=command, seconds=300)
    asyncio.run(main())
    assert eventually(lambda: not [*groups_of(mark)])


def groups_of(mark: str):
    """The processes of each program with this mark in its command."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if mark.encode() in path.read_bytes():
                yield path
