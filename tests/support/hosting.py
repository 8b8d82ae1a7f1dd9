"""An OpenWOP host to talk to, in a thread or in a process of its own; all it writes is checked."""

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import threading
import time
from pathlib import Path

import httpx
import jsonschema_rs
import orjson
import uvicorn

from support.collecting import ENVIRONMENT
from support.forking import Tracklog
from support.openwop_v2 import SNAPSHOT as SNAPSHOT_V2
from support.openwop_v2 import check_v2
from support.plain_http import NO_CERTIFICATES
from support.waiting import eventually
from tracklog import Log
from tracklog.collector import server
from tracklog.collector.app import Collector
from tracklog.collector.protocol import connections_with
from tracklog.dialects.checking import check
from tracklog.home import registry
from tracklog.home.home import Home
from tracklog.hosts.openwop.mounted import app_of
from tracklog.hosts.openwop.own_lines import own_lines
from tracklog.hosts.openwop.runlog import RunLog
from tracklog.hosts.openwop.settings import Settings
from tracklog.model.lines import Line
from tracklog.web.guard import Guard
from tracklog.web.limits import Limits

TOKEN = "a-long-word-that-nobody-guesses"
SCHEMAS = {
    schema["$id"]: schema
    for schema in (
        json.loads(path.read_text())
        for path in (Path(__file__).parents[1] / "samples/openwop/schemas").glob("*.json")
    )
}
BASE = "https://openwop.dev/spec/v1/"
REGISTRY = jsonschema_rs.Registry(list(SCHEMAS.items()))
ENDED = ("completed", "failed", "cancelled")
RFC_ONLY = {"writing", "coding", "research", "general"}


def validator(name: str, part: str = "") -> jsonschema_rs.Draft202012Validator:
    schema = {"$ref": f"{BASE}{name}.schema.json{part}"}
    return jsonschema_rs.Draft202012Validator(schema, registry=REGISTRY, validate_formats=True)


ENVELOPE, SNAPSHOT, ERROR = (
    validator(name) for name in ("run-event", "run-snapshot", "error-envelope")
)
_INDEX = SCHEMAS[f"{BASE}run-event-payloads.schema.json"]["$defs"]["_typeIndex"]["properties"]
PAYLOADS = {kind: validator("run-event-payloads", ref["$ref"]) for kind, ref in _INDEX.items()}


def check_events(lines: list[bytes], tolerated: str = "") -> None:
    """Every line fits the published schemas and our own, and surprises nobody.

    The one exception is the kind of a breach that the published list does not have.
    """
    for line in lines:
        event = orjson.loads(line)
        ENVELOPE.validate(event)
        faults = list(PAYLOADS[event["type"]].iter_errors(event["payload"]))
        if event["payload"].get("kind") == "confidence-escalation-suppressed":
            faults = [fault for fault in faults if list(fault.instance_path) != ["kind"]]
        assert not faults, (event, [fault.message for fault in faults])
    found = [
        each.finding
        for each in check(
            [Line(number, 0, line, len(line)) for number, line in enumerate(lines, 1)],
            [registry.dialect("openwop")],
        )
        if hasattr(each, "finding")
    ]
    found = [f for f in found if f.level != "info" and f.name != tolerated]
    assert not found, found


def check_snapshot(snapshot: dict) -> None:
    """As published, but for the words that RFC 0002 has and the published AgentRef has not."""
    told = json.loads(json.dumps(snapshot))
    if "agent" in told:
        told["agent"].pop("agentSharing", None)
        if told["agent"].get("modelClass") in RFC_ONLY:
            del told["agent"]["modelClass"]
    # The schema was corrected after the copy here was made: a number, on snapshots only.
    assert type(told["engineVersion"]) is int
    told["engineVersion"] = str(told["engineVersion"])
    SNAPSHOT.validate(told)


class Client:
    """Asks a host over HTTP, and checks the shape of every answer."""

    url: str

    def __init__(self, url: str, token: str | None = TOKEN) -> None:
        headers = {"Accept": "application/json"}
        headers |= {"Authorization": f"Bearer {token}"} if token else {}
        self.http = httpx.Client(
            base_url=url, headers=headers, timeout=120, trust_env=False, verify=NO_CERTIFICATES,
            event_hooks={"response": [self._look]},
        )  # fmt: skip
        self.url = url

    @staticmethod
    def _look(response: httpx.Response) -> None:
        if response.status_code >= 400:
            response.read()
            ERROR.validate(response.json())

    def __enter__(self):
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()

    def start(self, workflow: str, **body) -> str:
        response = self.http.post("/v1/runs", json={"workflowId": workflow, **body})
        assert response.status_code == 201, response.text
        said = response.json()
        assert isinstance(said["runId"], str)
        assert isinstance(said["status"], str)
        return said["runId"]

    def snapshot(self, run: str) -> dict:
        response = self.http.get(f"/v1/runs/{run}")
        assert response.status_code == 200, response.text
        check_snapshot(response.json())
        return response.json()

    def until(self, run: str, *statuses: str, seconds: float = 60) -> dict:
        """The snapshot, once the run has that status."""
        found = eventually(
            lambda: (s := self.snapshot(run))["status"] in (statuses or ENDED) and s, seconds
        )
        assert found, self.snapshot(run)
        return found

    def events(self, run: str, *kinds: str) -> list[dict]:
        response = self.http.get(f"/v1/runs/{run}/events")
        assert response.status_code == 200, response.text
        found = response.json()["events"]
        return [event for event in found if not kinds or event["type"] in kinds]

    def run(self, workflow: str, *kinds: str, **body) -> list[dict]:
        """The events of a run that ended."""
        name = self.start(workflow, **body)
        self.until(name)
        return self.events(name, *kinds)

    def answer(self, run: str, node: str, value, **more) -> httpx.Response:
        body = {"resumeValue": value}
        return self.http.post(f"/v1/runs/{run}/interrupts/{node}", json=body, **more)

    def fork(self, run: str, **body) -> httpx.Response:
        return self.http.post(f"/v1/runs/{run}:fork", json=body)

    def stream(self, run: str, query: str = "", **headers: str) -> list[tuple[str, str, object]]:
        """Everything of a stream, until the server closes it: id, event, data."""
        asked = {"Accept": "text/event-stream", **headers}
        frames = []
        with self.http.stream("GET", f"/v1/runs/{run}/events{query}", headers=asked) as response:
            response.read()
            assert response.status_code == 200, response.text
        for block in response.text.split("\n\n"):
            pairs = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line)
            if "data" in pairs:
                frames.append((pairs["id"], pairs["event"], json.loads(pairs["data"])))
        return frames


class _Quiet(server.Server):
    """A server in a thread, which signals do not reach."""

    @contextlib.contextmanager
    def capture_signals(self):
        yield


class Host(Client):
    """A host in a thread of the test; on leaving, everything it wrote is checked."""

    def __init__(
        self, home: Path, *, token: str | None = TOKEN, tolerated: str = "", clock=time.time,
        is_checked: bool = True, **settings,
    ) -> None:  # fmt: skip
        self._tolerated, self._is_checked = tolerated, is_checked
        self.home = Home(home, durability="os", clock=clock)
        guard = Guard(token)
        self.app = app_of(Log(self.home), guard, Settings(**settings), token)
        self.engine = self.app.engine
        self.collector = Collector(self.home, guard=guard)
        self.collector.hosts["openwop"] = self.app
        bound = server.listen("127.0.0.1", 0)
        http = connections_with(Limits(), self.collector.counts)
        options = {"http": http, "ws": "none", "lifespan": "off"}
        options |= {"log_config": None, "access_log": False, "timeout_graceful_shutdown": 10}
        self._server = _Quiet(uvicorn.Config(self.collector, **options), self.collector)
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._server.serve(sockets=[bound]))
        )
        self._thread.start()
        eventually(lambda: self._server.started)
        super().__init__(f"http://127.0.0.1:{bound.getsockname()[1]}", token)
        self._bound = bound
        self._clients: list[Client] = []

    def client(self, token: str) -> Client:
        """Somebody else who asks this host, with a key of their own."""
        self._clients.append(Client(self.url, token))
        return self._clients[-1]

    def close(self) -> None:
        for client in (self, *self._clients):
            client.http.close()
        self._server.should_exit = True
        self._thread.join(120)
        assert not self._thread.is_alive()
        self._bound.close()
        lines = written(self.home) if self._is_checked else []
        if self.engine.settings.serves_v2 and self._is_checked:
            self._check_v2()
        self.collector.close()
        check_events(lines, self._tolerated)

    def _check_v2(self) -> None:
        """Every event of the host's own runs can be read in version 2, and is closed."""
        wire, runs = self.engine.wires["2.0"], {}
        for record in self.home.journal.records():
            if record.dialect == "openwop":
                runs.setdefault(record.run, RunLog(record.run, self.engine.own))
        for log in runs.values():
            log.refresh(self.engine.journal)
            if log.snapshot.host.get("instance") != self.engine.instance:
                continue
            for line, event in zip(log.lines, log.events, strict=True):
                check_v2(wire.event(line, event, log))
            SNAPSHOT_V2.validate(wire.snapshot(log.as_json(), log))

    def __enter__(self) -> "Host":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def written(home: Home) -> list[bytes]:
    """The host's own lines, run after run, each run in its order."""
    lines = [record for record in home.journal.records() if record.dialect == "openwop"]
    return [record.line for record in sorted(lines, key=lambda r: (r.run, r.seq))]


class Process(Client):
    """A host in a process of its own, as an operator starts it."""

    def __init__(
        self, home: Path, *arguments: str, verb: str = "host openwop", token: str = TOKEN,
        tolerated: str = "", is_checked: bool = True, **environment: str,
    ) -> None:  # fmt: skip
        self._tolerated, self._is_checked = tolerated, is_checked
        options = ["--home", home, "--port", "0", "--durability", "os"]
        environment = {**ENVIRONMENT, "TRACKLOG_TOKEN": token, **environment}
        self.place = home
        self.process = Tracklog(
            *verb.split(), *options, *arguments,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, text=True,
        )  # fmt: skip
        self.said: list[str] = []
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        found = re.search(r"http://\S+:\d+", self.process.stdout.readline())
        assert found, self.said
        super().__init__(found[0], token)

    def _listen(self) -> None:
        with self.process.stderr:
            self.said += self.process.stderr

    def end(self, number: int = signal.SIGTERM) -> int:
        self.http.close()
        if self.process.poll() is None:
            self.process.send_signal(number)
        code = self.process.wait(120)
        self._listener.join(60)
        self.process.stdout.close()
        return code

    def __enter__(self) -> "Process":
        return self

    def __exit__(self, *exception: object) -> None:
        self.end()
        with Home(self.place, readonly=True) as home:
            check_events(written(home) if self._is_checked else [], self._tolerated)


def signed(home: Home, lines: list[bytes]) -> list[bytes]:
    """Changed lines of a host, as a host on the same home would have written them."""
    own, found = own_lines(Log(home)), []
    for line in lines:
        event = orjson.loads(line)
        event["eventId"] = own.event_id(event["runId"], event["sequence"])
        if "causationId" in event:
            number = int(event["causationId"].rpartition("-")[2])
            event["causationId"] = own.event_id(event["runId"], number)
        found.append(orjson.dumps(event))
    return found


def flow(name: str, nodes: list[dict], edges: list[tuple[str, str]] = (), **more) -> dict:
    """A workflow definition; nodes have an id, a typeId, and what they need."""
    place = {"position": {"x": 0, "y": 0}, "config": {}, "inputs": {}}
    return {
        "id": name,
        "name": name,
        "version": "1.0",
        "nodes": [{"name": node["id"], **place, **node} for node in nodes],
        "edges": [
            {"id": f"e{n}", "sourceNodeId": edge[0], "targetNodeId": edge[1]}
            | ({"triggerRule": edge[2]} if len(edge) > 2 else {})
            for n, edge in enumerate(edges)
        ],
        "triggers": [{"id": "manual", "type": "manual", "enabled": True}],
        "variables": [],
        "metadata": {"tags": []},
        "settings": {"timeout": 600_000},
        **more,
    }


def put(folder: Path, *documents: dict) -> tuple[Path, ...]:
    """The documents as files of a folder, for a host to load."""
    folder.mkdir(exist_ok=True)
    for document in documents:
        name = document.get("id") or document["agentId"]
        (folder / f"{name}.json").write_bytes(orjson.dumps(document))
    return (folder,)


def mock(name: str, config: dict, **agent) -> dict:
    node = {"id": name, "typeId": "core.conformance.mock-agent", "config": config}
    return {**node, "agent": agent} if agent else node


def pairs(events: list[dict]) -> list[tuple]:
    """What a replay must repeat, byte for byte."""
    return [(e["type"], e.get("nodeId"), orjson.dumps(e["payload"])) for e in events]


__all__ = ["TOKEN", "Client", "Host", "Process", "flow", "mock", "os", "pairs", "put", "time"]
