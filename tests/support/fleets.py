"""Whole collectors on one PostgreSQL, and senders that go on until every batch is acknowledged."""

import os
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import httpx
import orjson

from support.plain_http import NO_CERTIFICATES
from tracklog.journal.frame import records
from tracklog.journal.storages.postgresql import PostgresStorage

BATCH = 10


class Node:
    """A collector in a process of its own; started again it has the same address."""

    def __init__(self, store: str, folder: Path, *options: str) -> None:
        self.store, self.folder, self.options = store, folder, options
        self.port, self.url = 0, ""
        self.process: subprocess.Popen[str] | None = None
        self.start()

    def start(self) -> None:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("TRACKLOG")}
        environment |= {"TRACKLOG_STORE": self.store, "TRACKLOG_HOME": str(self.folder)}
        command = [sys.executable, "-m", "tracklog", "serve", "--port", str(self.port)]
        command += self.options
        self.folder.mkdir(exist_ok=True)
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment
            )
        line = self.process.stdout.readline()
        found = re.search(r"http://[^ ]*:(\d+)", line)
        assert found, (line, (self.folder / "log").read_text())
        self.url, self.port = found[0], int(found[1])

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.terminate()
        code = self.process.wait(60)
        self.process.stdout.close()
        return code


class Load:
    """Threads that send batches under keys, to any collector, until told to stop.

    The lines have no identity: only the key of its batch tells that a line was sent again.
    """

    def __init__(self, nodes: list[Node], senders: int = 3) -> None:
        self.nodes = nodes
        self.acknowledged: list[str] = []
        self.longest = 0.0
        """Seconds that a batch waited for its acknowledgement, at most."""
        self.failures: list[str] = []
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._send, args=(n,)) for n in range(senders)]
        for thread in self._threads:
            thread.start()

    def grows(self, by: int = 5, seconds: float = 60) -> bool:
        """Whether that many more batches are acknowledged within that time."""
        wanted, until = len(self.acknowledged) + by, time.monotonic() + seconds
        while time.monotonic() < until and not self.failures:
            if len(self.acknowledged) >= wanted:
                return True
            time.sleep(0.02)
        return False

    def finish(self) -> list[str]:
        """Stop; every batch that was begun is acknowledged first."""
        self._stop.set()
        for thread in self._threads:
            thread.join(120)
            assert not thread.is_alive(), "a batch was not acknowledged within two minutes"
        assert self.failures == []
        return self.acknowledged

    def _send(self, sender: int) -> None:
        with httpx.Client(timeout=20, verify=NO_CERTIFICATES) as client:
            number = 0
            while not self._stop.is_set():
                key = f"{sender}-{number}"
                self._until_acknowledged(client, key, sender + number)
                number += 1

    def _until_acknowledged(self, client: httpx.Client, key: str, turn: int) -> None:
        body = b"\n".join(_line(f"{key}.{n}", f"run-{key[0]}") for n in range(BATCH))
        began, tries = time.monotonic(), 0
        while True:
            node = self.nodes[(turn + tries) % len(self.nodes)]
            tries += 1
            try:
                answer = client.post(
                    f"{node.url}/api/events/kahn-agent",
                    params={"batch": key},
                    content=body,
                    headers={"Content-Type": "application/x-ndjson"},
                )
            except httpx.HTTPError:
                time.sleep(0.05)
                continue
            if answer.status_code == 200:
                if answer.json()["accepted"] != BATCH:
                    self.failures.append(answer.text[:500])
                    return
                self.acknowledged.append(key)
                self.longest = max(self.longest, time.monotonic() - began)
                return
            if answer.status_code != 503:
                self.failures.append(f"{answer.status_code}: {answer.text[:500]}")
                return
            time.sleep(0.05)


def _line(task: str, run: str) -> bytes:
    return orjson.dumps(
        {
            "ts": "2026-05-05T09:00:00.000Z",
            "run_id": run,
            "event": "agent_run_start",
            "agent_id": "coder",
            "task": task,
        }
    )


def stored(url: str, folder: Path) -> tuple[Counter[str], object]:
    """How often each line is stored, by its name; and what verification says."""
    storage = PostgresStorage(url.removeprefix("postgresql:"), readonly=True, folders=folder)
    try:
        report = storage.verify(storage.store.head())
        counts: Counter[str] = Counter()
        after = 0
        while found := records(storage.store.read(after, 1000)):
            tasks = (orjson.loads(each.line).get("task") for each in found if each.line)
            counts.update(filter(None, tasks))  # spans have none
            assert [each.seq for each in found] == list(range(after + 1, after + 1 + len(found)))
            after = found[-1].seq
        return counts, report
    finally:
        storage.close()


def check_exactly_once(acknowledged: list[str], url: str, folder: Path) -> int:
    """Every acknowledged line is there once, and nothing else; how many lines these are."""
    counts, report = stored(url, folder)
    assert report.verdict == "proven", report.faults
    wanted = Counter(f"{key}.{n}" for key in acknowledged for n in range(BATCH))
    assert counts == wanted, {"lost": list(wanted - counts)[:5], "more": list(counts - wanted)[:5]}
    return len(wanted)
