"""Acts that a server carries out are recorded with who asked for them, before they begin."""

import asyncio
import os
import pwd
from pathlib import Path

import httpx2
import orjson
import pytest
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

from support.collecting import collector, tool
from support.forking import tracklog
from support.waiting import eventually

ME = pwd.getpwuid(os.getuid()).pw_name
EXAMPLES = Path(__file__).parents[2] / "examples"
HOSTS = {
    "workflow": EXAMPLES / "workflow",
    "fishbowl": EXAMPLES / "fishbowl",
    "openwop": EXAMPLES / "openwop/workflows",
}


def records(home, run):
    lines = tracklog(home, "events", run, "--json").stdout.splitlines()
    return [orjson.loads(line) for line in lines]


def acts(home, label):
    rows = records(home, "tracklog:operations")
    return [row for row in rows if row["event"].get("label") == label]


def token_of(home):
    made = tracklog(home, "token", "create", "eve", "--role", "admin", "--json")
    return {"Authorization": f"Bearer {orjson.loads(made.stdout)['token']}"}


def test_a_collector_that_archives_says_who_started_it(tmp_path):
    home, archive = tmp_path / "home", tmp_path / "archive"
    tracklog(home, "record", given=tool("a") + b"\n")
    with collector(home, "--archive", str(archive)):
        assert eventually(lambda: acts(home, "archive"))
    (row,) = acts(home, "archive")
    data = row["event"]["data"]
    assert (data["target"], data["records"], data["by"]) == (str(archive), 1, ME)
    with collector(home, "--archive", str(archive)):
        assert eventually(lambda: len(acts(home, "archive")) == 2)


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_a_question_over_mcp_names_the_token(tmp_path, mode):
    home = tmp_path / "home"
    head = token_of(home)

    async def talk(url):
        async with httpx2.AsyncClient(headers=head) as http:
            transport = streamable_http_client(f"{url}/mcp", http_client=http)
            async with Client(transport, mode=mode) as client:
                asked = await client.call_tool(
                    "ask_person", {"question": "Deploy?", "wait_seconds": 0}
                )
                return asked.structured_content

    with collector(home, "--mcp", "operate") as server:
        asked = asyncio.run(talk(server.url))
    (row,) = acts(home, "ask")
    assert row["event"]["data"]["by"] == "eve"
    assert row["event"]["data"]["question"] == asked["question_id"]
    assert row["seq"] < min(each["seq"] for each in records(home, asked["run"]))


@pytest.mark.parametrize("host", HOSTS)
def test_who_starts_a_run_is_on_record_before_its_first_event(tmp_path, host):
    home = tmp_path / "home"
    head = token_of(home)
    with collector(home, "--with", f"{host}={HOSTS[host]}") as server:
        server.http.headers.update(head)
        hosts = {each["host"]: each for each in server.http.get("/api/hosts").json()}
        programs = [each["name"] for each in hosts[host]["programs"]]
        program = next((each for each in programs if "approval" in each), programs[0])
        started = server.http.post(
            f"/api/hosts/{host}/runs", json={"program": program}, timeout=120
        )
        assert started.status_code == 200, started.text
        run, family = started.json()["run"], started.json()["family"]
        rows = [
            row
            for row in acts(home, "start")
            if (row["event"]["data"]["run"], row["event"]["data"]["by"]) == (run, "eve")
        ]
        assert len(rows) == 1
        assert rows[0]["seq"] < records(home, f"{family}:{run}")[0]["seq"]
