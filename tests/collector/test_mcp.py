"""MCP: the tools answer as the questions do, in pages, read-only, in both eras of the protocol."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import httpx
import httpx2
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp import StdioServerParameters
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

from support import sampling as samples
from support.collecting import collector
from tracklog.answers.registry import question
from tracklog.collector import operator
from tracklog.collector.mcp.paging import MOST, page
from tracklog.collector.mcp.server import QUESTIONS, make_server, reading
from tracklog.home.home import Home

TRACKLOG = Path(sys.executable).with_name("tracklog")
GOOD = samples.ROOT / "dialects/kahn-agent/good/converges.jsonl"
TOKEN = "a-token-of-the-tests"
both = pytest.mark.parametrize("mode", ["legacy", "auto"])
"""The handshake of the protocol until 2025-11-25, and the one without since 2026-07-28."""
LONG = [
    orjson.dumps(
        {
            "id": f"{n:032x}", "run": "long", "at": f"2026-05-05T09:{n // 60:02}:{n % 60:02}Z",
            "fact": "Said", "role": "assistant",
            "blocks": [{"type": "text", "text": f'{n} "quoted"\n' * 40}],
            "origin": {"writer": "test", "fidelity": "observed"},
        }
    )
    for n in range(300)
]  # fmt: skip


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    place = tmp_path_factory.mktemp("mcp") / "home"
    with Home(place, durability="os") as home:
        verdicts = [*home.intake.admit(GOOD.read_bytes().splitlines(), "kahn-agent")]
        verdicts += home.intake.admit(LONG, "tracklog")
        assert {verdict.verdict for verdict in verdicts} == {"accepted"}, verdicts
        home.index.catch_up()
    return place


@pytest.fixture
def home(place):
    with Home(place, readonly=True) as opened:
        yield opened


async def call(client: Client, tool: str, **arguments):
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    assert len(result.model_dump_json(by_alias=True)) <= 64_000
    assert orjson.loads(result.content[0].text) == result.structured_content
    return result.structured_content


CALLS = {
    "runs": {},
    "show": {"run": "agent-coder-1"},
    "story": {"run": "agent-coder-1"},
    "why": {"run": "agent-coder-1", "seq": 4},
    "search": {"q": "Read"},
    "costs": {"by": ["model"]},
    "series": {"since": "2026-05-05", "until": "2026-05-06", "bucket": "1h", "tz": "UTC"},
    "findings": {},
    "diff": {"a": "agent-coder-1", "b": "long"},
}


@both
def test_every_tool_answers_as_its_question_and_records_nothing(home, mode):
    async def talk():
        async with Client(make_server(reading(home)), mode=mode) as client:
            tools = (await client.list_tools()).tools
            assert [tool.name for tool in tools] == list(QUESTIONS) == list(CALLS)
            assert all(tool.annotations.read_only_hint for tool in tools)
            assert all("answer" in tool.output_schema["properties"] for tool in tools)
            return {name: await call(client, name, **asked) for name, asked in CALLS.items()}

    before = home.journal.last
    answers = asyncio.run(talk())
    now = home.clock()
    home.clock = lambda: now
    for name, asked in CALLS.items():
        keywords = {param.name: param.argument for param in question(name).params}
        direct = question(name).ask(home, **{keywords[key]: each for key, each in asked.items()})
        if answers[name]["page"] is None and name not in ("runs", "show"):  # these have an age
            assert answers[name]["answer"] == orjson.loads(orjson.dumps(direct)), name
    assert home.journal.last == before


@pytest.mark.parametrize(
    "dialect", [path.name for path in sorted((samples.ROOT / "dialects").iterdir())]
)
def test_the_tools_answer_for_each_good_sample_as_their_own_schemas_say(tmp_path, dialect):
    lines = {
        line
        for path in sorted((samples.ROOT / "dialects" / dialect / "good").glob("*.jsonl"))
        for line in path.read_bytes().splitlines()
    }

    async def talk(home):
        async with Client(make_server(reading(home))) as client:
            runs = (await call(client, "runs", limit=1000))["answer"]
            for run in runs:
                for tool in ("show", "story"):
                    await call(client, tool, run=f"{run['family']}:{run['run']}")
            return runs

    with Home(tmp_path / "home", durability="os") as home:
        home.intake.admit(sorted(lines), dialect)
        home.index.catch_up()
        assert asyncio.run(talk(home))


def test_the_pages_of_a_long_answer_are_all_of_it(home):
    async def talk():
        records, skip, pages = [], 0, 0
        async with Client(make_server(reading(home))) as client:
            while skip is not None:
                part = await call(client, "story", run="long", whole=True, skip=skip)
                records += part["answer"]["records"]
                assert part["page"]["of"] == "records"
                assert part["page"]["cut"] is False
                skip, pages = part["page"]["next"], pages + 1
        return records, pages

    records, pages = asyncio.run(talk())
    whole = question("story").ask(home, "long", whole=True)
    assert records == orjson.loads(orjson.dumps(whole.records))
    assert pages > 2


JSON = st.recursive(
    st.none() | st.integers(-(2**53), 2**53) | st.text(max_size=3000),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=20,
)


@given(st.lists(JSON, max_size=12), st.integers(1, 12))
@settings(max_examples=60, deadline=None)
def test_no_page_is_too_large_and_every_item_is_on_one_page(items, times):
    items = items * times
    for answer in (items, {"rows": items, "name": "x"}):
        found, skip, cut = [], 0, False
        while skip is not None:
            part, place = page(answer, skip)
            text = orjson.dumps(part)
            assert len(text) + len(orjson.dumps(text.decode())) <= MOST + 100
            rows = part if isinstance(answer, list) else part["rows"]
            found += rows
            assert place is None or place.next is None or place.next > skip
            cut = cut or (place is not None and place.cut)
            skip = None if place is None else place.next
        assert len(found) == len(items)
        assert cut or found == items


@both
def test_an_error_reaches_the_model_with_its_reason_and_what_to_do(home, mode):
    async def talk():
        async with Client(make_server(reading(home)), mode=mode) as client:
            return [
                await client.call_tool("show", {"run": "nobody"}),
                await client.call_tool("costs", {"by": ["day", "week"]}),
                await client.call_tool("runs", {"status": ["happy"]}),
                await client.call_tool("why", {"run": "long"}),
                await client.call_tool("search", {"q": "x", "limit": "many"}),
                await client.call_tool("runs", {"limit": 0}),
                await client.call_tool("search", {"q": "x", "words": "y"}),
            ]

    texts = [(each.is_error, each.content[0].text) for each in asyncio.run(talk())]
    assert all(is_error for is_error, _ in texts)
    assert "there is no run 'nobody' here; `tracklog runs` lists" in texts[0][1]
    assert "day,model" in texts[1][1]
    assert texts[2][1] == (
        "runs: `status` cannot be 'happy'; allowed are: waiting, failed, lost, working, done"
    )
    assert texts[3][1] == "why: `seq` is missing"
    assert texts[4][1].startswith("search: `limit` should be an integer"), texts[4]
    assert texts[5][1] == "runs: `limit` should be greater than or equal to 1; it is 0"
    assert texts[6][1].startswith("search: `words` is no argument; there are: q, ")


def test_one_value_is_taken_where_several_are_possible(home):
    every = ["done", "working", "lost"]

    async def talk():
        async with Client(make_server(reading(home))) as client:
            return [
                await call(client, "runs", status=status)
                for status in (
                    ["done"],
                    "done",
                    every,
                    ",".join(every),
                    str(every).replace("'", '"'),
                )
            ]

    one, again, two, *others = [
        sorted(row["run"] for row in each["answer"]) for each in asyncio.run(talk())
    ]
    assert one == again != two
    assert [two, two] == others


def test_a_run_is_a_resource(home):
    async def talk():
        async with Client(make_server(reading(home))) as client:
            templates = (await client.list_resource_templates()).resource_templates
            uri = (
                templates[0]
                .uri_template.replace("{family}", "kahn")
                .replace("{run}", "agent-coder-1")
            )
            return (await client.read_resource(uri)).contents[0]

    content = asyncio.run(talk())
    assert content.mime_type == "application/json"
    assert orjson.loads(content.text)["run"] == "agent-coder-1"


@both
def test_an_agent_asks_a_person_through_the_inbox_only_when_it_may(tmp_path, mode):
    with Home(tmp_path / "home", durability="os") as home:

        async def talk():
            async with Client(make_server(reading(home)), mode=mode) as client:
                assert {"ask_person", "answer_of"}.isdisjoint(
                    tool.name for tool in (await client.list_tools()).tools
                )
            async with Client(make_server(reading(home), operate=True), mode=mode) as client:
                names = {tool.name for tool in (await client.list_tools()).tools}
                assert names == {*QUESTIONS, "ask_person", "answer_of"}
                asked = await client.call_tool(
                    "ask_person",
                    {"question": "Deploy?", "choices": ["yes", "no"], "wait_seconds": 0},
                )
                first = asked.structured_content
                assert first["status"] == "open"
                row, _ = operator.give(home, first["question_id"], "yes", by="ada")
                assert (row.text, row.options) == ("Deploy?", ["yes", "no"])
                later = await client.call_tool("answer_of", {"question_id": first["question_id"]})
                unknown = await client.call_tool("answer_of", {"question_id": "x"})
                assert unknown.is_error
                return later.structured_content

        answer = asyncio.run(talk())
        assert (answer["status"], answer["answer"], answer["by"]) == ("answered", "yes", "ada")
        home.index.catch_up()
        (run,) = question("runs").ask(home)
        assert (run.status, run.title) == ("done", "Deploy?")


@both
def test_a_process_on_standard_input_answers(place, mode):
    async def talk():
        command = StdioServerParameters(command=str(TRACKLOG), args=["mcp", "--home", str(place)])
        async with Client(command, mode=mode) as client:
            return await call(client, "runs", limit=1)

    assert len(asyncio.run(talk())["answer"]) == 1


def test_a_collector_answers_at_its_path_behind_its_guard(place):
    async def talk(url, mode, headers):
        async with httpx2.AsyncClient(headers=headers) as http:
            transport = streamable_http_client(f"{url}/mcp", http_client=http)
            async with Client(transport, mode=mode) as client:
                return await call(client, "costs", by=["all"])

    with collector(place, "--mcp", "read", TRACKLOG_TOKEN=TOKEN) as server:
        bearer = {"Authorization": f"Bearer {TOKEN}"}
        for mode in ("legacy", "auto"):
            assert asyncio.run(talk(server.url, mode, bearer))["page"] is None
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        refused = {
            401: {},
            403: {**bearer, "Origin": "https://elsewhere.example"},
            421: {**bearer, "Host": "elsewhere.example"},
        }
        for status, headers in refused.items():
            answer = httpx.post(f"{server.url}/mcp", json=body, headers=headers)
            assert answer.status_code == status, answer.text
            assert answer.json()["hint"]
    with collector(place) as server:
        assert httpx.post(f"{server.url}/mcp", json=body).status_code == 404


BLOCKED = """
import sys
sys.modules["mcp"] = None
from tracklog.__main__ import main
sys.argv = ["tracklog", *sys.argv[1:]]
main()
"""


@pytest.mark.parametrize("arguments", [["mcp"], ["serve", "--port", "0", "--mcp", "read"]])
def test_without_the_extra_the_line_that_installs_it_is_printed(place, arguments):
    ran = subprocess.run(
        [sys.executable, "-c", BLOCKED, *arguments, "--home", place],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert ran.returncode == 2
    assert "pip install 'tracklog[mcp]'" in ran.stderr


def test_nothing_optional_is_imported_before_it_is_needed():
    code = "import sys, tracklog.collector.app, tracklog.cli.serve; print('mcp' in sys.modules)"
    ran = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ}, capture_output=True, text=True, check=True
    )
    assert ran.stdout == "False\n"
