"""The collector is killed under load, again and again; and held to its own document."""

import asyncio
import http.client
import random
import threading
import time

import httpx
import orjson
import pytest
import schemathesis
from schemathesis.checks import not_a_server_error
from schemathesis.config import SchemathesisConfig
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from support.collecting import NDJSON, Collector, asks, collector, start, tool
from support.soaking import SEED, SOAK
from support.waiting import eventually
from tracklog.home.home import Home
from tracklog.journal.verify import verify

KILLS = 20 * SOAK


class Producer(threading.Thread):
    """Sends numbered lines; a batch that has a key again and again, until it is acknowledged."""

    def __init__(self, name: str, where: "dict[str, int]", keyed: bool) -> None:
        super().__init__(daemon=True)
        self.run_id, self.where, self.keyed = name, where, keyed
        self.acknowledged: list[int] = []
        self.unsure: set[int] = set()
        self.stopping = False

    def run(self) -> None:
        step = 0
        while not self.stopping:
            steps = range(step, step + 5)
            step += 5
            while not self.stopping and not self._sent(steps):
                if not self.keyed:
                    break  # it may be there, and without a key it cannot be sent again

    def _sent(self, steps: range) -> bool:
        body = b"\n".join(tool(self.run_id, step=n) for n in steps)
        key = {"Idempotency-Key": f"{self.run_id}-{steps[0]}"} if self.keyed else {}
        line = http.client.HTTPConnection("127.0.0.1", self.where["port"], timeout=10)
        try:
            line.connect()
        except OSError:
            time.sleep(0.05)  # nobody is there
            return False
        try:
            line.request("POST", "/api/events/kahn-agent", body, {**NDJSON, **key})
            answer = line.getresponse()
            said = orjson.loads(answer.read())
        except (OSError, http.client.HTTPException, orjson.JSONDecodeError):
            self.unsure |= set(steps)
            return False
        finally:
            line.close()
        assert answer.status == 200
        assert said["accepted"] + said["duplicate"] == 5
        self.acknowledged += steps
        self.unsure -= set(steps)
        return True


@pytest.mark.long
def test_killed_twenty_times_under_load_every_acknowledged_line_is_there_once(tmp_path):
    chance = random.Random(SEED)
    server = Collector(tmp_path)
    where = {"port": server.port}
    producers = [Producer(f"p{n}", where, keyed=n % 2 == 0) for n in range(4)]
    for producer in producers:
        producer.start()
    for _ in range(KILLS):
        before = [len(each.acknowledged) for each in producers]
        assert eventually(
            lambda old=before: all(
                len(each.acknowledged) > count for each, count in zip(producers, old, strict=True)
            ),
            30,
        )
        time.sleep(chance.uniform(0, 0.1))
        server.kill()
        server = Collector(tmp_path)
        where["port"] = server.port
    for producer in producers:
        producer.stopping = True
    for producer in producers:
        producer.join(20)
    assert server.stop() == 0
    with Home(tmp_path, readonly=True) as home:
        records = list(home.journal.records())
    assert [record.seq for record in records] == list(range(1, len(records) + 1))
    for producer in producers:
        assert len(producer.acknowledged) > KILLS
        steps = [
            orjson.loads(record.line)["step"] for record in records if record.run == producer.run_id
        ]
        assert len(steps) == len(set(steps)), "a line is there twice"
        assert set(producer.acknowledged) <= set(steps), "an acknowledged line is missing"
        assert set(steps) <= set(producer.acknowledged) | producer.unsure
    assert not verify(tmp_path).faults


@pytest.fixture(scope="module")
def documented(tmp_path_factory):
    with collector(tmp_path_factory.mktemp("home"), "--durability", "os") as server:
        server.post([start("run-1"), tool("run-1"), asks("run-1", "q1"), start("run-2")])
        yield server


@pytest.mark.long
def test_the_document_is_true(documented):
    """Every operation, with good and with bad input, answers as the document says."""
    document = documented.get("/api/openapi.json").json()
    assert document["openapi"].startswith("3.1")
    waiting = {"/api/stream"}
    for path in waiting:
        del document["paths"][path]
    schema = schemathesis.openapi.from_dict(document, config=SchemathesisConfig())
    schema.config.update(base_url=documented.url)
    operations = [each.ok() for each in schema.get_all_operations()]
    assert len(operations) > 25
    checks = [
        not_a_server_error,
        status_code_conformance,
        content_type_conformance,
        response_schema_conformance,
    ]
    for operation in operations:
        _hold(operation, checks, documented)


def _hold(operation, checks, server) -> None:
    from hypothesis import HealthCheck, given, settings  # noqa: PLC0415

    quiet = settings(max_examples=12 * SOAK, deadline=None, suppress_health_check=list(HealthCheck))

    @quiet
    @given(case=operation.as_strategy())
    def hold(case):
        if operation.path.endswith("/answer") and operation.method == "get":
            case.query["wait"] = 0
        response = case.call(timeout=20)
        case.validate_response(response, checks=checks)

    hold()


def test_a_stop_under_load_loses_nothing_that_was_acknowledged(tmp_path):
    async def load(url: str, kept: list[int]) -> None:
        async with httpx.AsyncClient(base_url=url, trust_env=False) as client:
            for n in range(100_000):
                try:
                    answer = await client.post(
                        "/api/events/kahn-agent", content=tool("r", step=n), headers=NDJSON
                    )
                except httpx.TransportError:
                    return
                if answer.status_code == 200:
                    kept.append(answer.json()["last_seq"])

    async def many(url: str, kept: list[int]) -> None:
        await asyncio.gather(*(load(url, kept) for _ in range(8)))

    for _ in range(3 * SOAK):
        server = Collector(tmp_path)
        kept: list[int] = []
        loading = threading.Thread(target=lambda k=kept, u=server.url: asyncio.run(many(u, k)))
        loading.start()
        assert eventually(lambda k=kept: len(k) > 50, 30)
        assert server.stop() == 0
        loading.join(20)
        with Home(tmp_path, readonly=True) as home:
            assert max(kept) <= home.journal.last
        assert len(kept) == len(set(kept))
