"""The memory of a collector that gets 5,000 events a second, and is asked for the runs meanwhile."""

import os
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from pathlib import Path

from soak.kills import Batches, Request, Server, ended

RATE, BATCH = 5_000, 500
AGENTS, RUN = 100, 5_000
"""Agents that are at work at the same time, and events of a run: there are always new runs."""
FULL = 110_000
"""Batches of one line and of one run each that come first: so many keys and runs fill the caches."""
CONNECTIONS = 16
PAUSE = 5.0
"""Seconds between two samples, and between two questions: each makes the index catch up."""
MINUTES = float(os.environ.get("SOAK_MINUTES_OF_MEMORY", "60"))
"""One turn is one stretch: a slope needs time."""
WARM = 0.3
"""The part of it that is not counted: what the caches had from before is replaced."""


def turn(_number: int) -> Counter[str]:
    """One stretch; the slope is in kilobytes an hour, of the samples after the warm-up."""
    with tempfile.TemporaryDirectory(prefix="tracklog-soak-") as folder:
        return _stretch(Path(folder) / "home", 60 * MINUTES)


def _stretch(home: Path, seconds: float) -> Counter[str]:
    process, port = _served(home)
    _fill(port)
    request, begun, sent, samples = Request(port), time.monotonic(), 0, []
    over, answers = threading.Event(), Counter[int]()
    asking = threading.Thread(target=_ask, args=(port, over, answers))
    asking.start()
    try:
        while (now := time.monotonic() - begun) < seconds:
            if len(samples) <= now // PAUSE:
                samples.append((now, _resident(process)))
            if sent > now * RATE:
                time.sleep(sent / RATE - now)
                continue
            request.send(FULL + sent // BATCH, [_line(sent + each) for each in range(BATCH)])
            while (status := request.hear()) is None:
                pass
            assert status == 200, status
            sent += BATCH
    finally:
        over.set()
        asking.join()
        request.socket.close()
        ended(process)
    counted = [each for each in samples if each[0] >= WARM * seconds]
    return Counter(
        seconds_of_load=round(seconds),
        events=sent,
        questions=answers[200],
        unanswered=answers.total() - answers[200],
        events_per_second=round(sent / seconds),
        kilobytes_per_hour=round(_slope(counted) * 3600),
        kilobytes_at_most=max(size for _, size in samples),
    )


def _ask(port: int, over: threading.Event, answers: Counter[int]) -> None:
    """Ask for the runs again and again, and count the answers by status; 0 is none."""
    while not over.wait(PAUSE):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/runs", timeout=60) as answer:
                answer.read()
                answers[answer.status] += 1
        except OSError:
            answers[0] += 1


def _fill(port: int) -> None:
    """Send many small batches, each with its key and of a new run, over several connections."""
    requests = [Request(port) for _ in range(CONNECTIONS)]
    for first in range(0, FULL, CONNECTIONS):
        for number, request in enumerate(requests, first):
            request.send(number, [_event(f"first-{number}", "a", number)])
        for request in requests:
            while (status := request.hear()) is None:
                pass
            assert status == 200, status
    for request in requests:
        request.socket.close()


def _line(number: int) -> bytes:
    """The next line: the agents take turns, and each begins a new run after some time."""
    turn, agent = divmod(number, AGENTS)
    return _event(f"a{agent}-{turn // RUN}", f"a{agent}", number)


def _event(run: str, agent: str, number: int) -> bytes:
    return (
        b'{"ts":"2026-05-05T09:00:00.000Z","run_id":"%b","event":"agent_run_start",'
        b'"agent_id":"%b","task":"%d %b"}' % (run.encode(), agent.encode(), number, b"x" * 60)
    )


def _served(home: Path) -> tuple[int, int]:
    server = Server(home, Batches("", large=False))
    for request in server._requests:
        request.socket.close()
    return server.process, server.port


def _resident(process: int) -> int:
    """Kilobytes."""
    for row in Path(f"/proc/{process}/status").read_text().splitlines():
        if row.startswith("VmRSS:"):
            return int(row.split()[1])
    raise AssertionError("the collector has ended")


def _slope(samples: list[tuple[float, int]]) -> float:
    """By least squares, in kilobytes a second."""
    times, sizes = zip(*samples, strict=True)
    middle, mean = sum(times) / len(times), sum(sizes) / len(sizes)
    spread = sum((each - middle) ** 2 for each in times)
    return sum((at - middle) * (size - mean) for at, size in samples) / spread if spread else 0.0
