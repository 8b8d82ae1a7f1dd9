"""What it costs to run workflows: 200 mock agents at once, against recording the same lines.

Both are servers in processes of their own, asked over the same sixteen connections.
"""

import asyncio
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from timing import goal
from tracklog.home.home import Home

RUNS, LANES = 200, 16
ROUNDS = int(os.environ.get("ROUNDS", "5"))
TOKEN = "bench"
WORKFLOW = "conformance-agent-reasoning"


class Server:
    """A verb of ours that serves."""

    def __init__(self, home: Path, *verb: str) -> None:
        command = [sys.executable, "-m", "tracklog", *verb, "--home", str(home), "--port", "0"]
        self.process = subprocess.Popen(
            [*command, "--durability", "sync"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "TRACKLOG_TOKEN": TOKEN},
        )
        self.port = int(re.search(r":(\d+) ", self.process.stdout.readline())[1])

    def end(self) -> None:
        self.process.terminate()
        self.process.wait(30)
        self.process.stdout.close()


async def ask(lane: tuple, method: str, path: str, body: bytes = b"", kind: str = "json") -> bytes:
    reader, writer = lane
    head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n"
    head += f"Content-Type: application/{kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    answer = await reader.readuntil(b"\r\n\r\n")
    size = int(re.search(rb"(?i)content-length: (\d+)", answer)[1])
    return await reader.readexactly(size)


async def over_lanes(port: int, jobs: list, work) -> None:
    left = iter(jobs)
    lanes = [await asyncio.open_connection("127.0.0.1", port) for _ in range(LANES)]

    async def one(lane: tuple) -> None:
        for job in left:
            await work(lane, job)

    await asyncio.gather(*map(one, lanes))
    for _, writer in lanes:
        writer.close()


async def run_all(port: int) -> float:
    names: list[str] = []
    body = json.dumps({"workflowId": WORKFLOW}).encode()

    async def begin(lane: tuple, _job: int) -> None:
        names.append(json.loads(await ask(lane, "POST", "/v1/runs", body))["runId"])

    async def end(lane: tuple, name: str) -> None:
        done = b""
        last = 0
        while b'"isComplete":true' not in done:
            path = f"/v1/runs/{name}/events/poll?lastSequence={last}&timeout=30"
            done = await ask(lane, "GET", path)
            last = max([last, *(each["sequence"] for each in json.loads(done)["events"])])

    began = time.perf_counter()
    await over_lanes(port, list(range(RUNS)), begin)
    await over_lanes(port, names, end)
    return time.perf_counter() - began


async def send_all(port: int, lines: list[bytes]) -> float:
    async def one(lane: tuple, line: bytes) -> None:
        await ask(lane, "POST", "/api/events/openwop", line, "x-ndjson")

    began = time.perf_counter()
    await over_lanes(port, lines, one)
    return time.perf_counter() - began


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder, "host")
        host, collector = Server(home, "host", "openwop"), Server(Path(folder, "c"), "serve")
        hosted, sent = [], []
        try:
            for turn in range(ROUNDS + 1):
                took = asyncio.run(run_all(host.port))
                with Home(home, readonly=True) as left:
                    lines = [r.line for r in left.journal.records() if r.dialect == "openwop"]
                lines = lines[-RUNS * 9 :]
                assert len(lines) == RUNS * 9
                lines = [line.replace(b"run-", b"run%d-" % turn) for line in lines]
                other = asyncio.run(send_all(collector.port, lines))
                if turn:
                    hosted.append(len(lines) / took)
                    sent.append(len(lines) / other)
        finally:
            host.end()
            collector.end()
    rates = statistics.median(hosted), statistics.median(sent)
    print(f"  {RUNS} runs at once {rates[0]:10,.0f} events/s, recorded one by one {rates[1]:,.0f}")
    goal("events of hosted runs / the same lines one by one", rates[0] / rates[1], at_least=0.5)


if __name__ == "__main__":
    main()
