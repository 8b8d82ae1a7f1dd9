"""How fast the console is with long runs, many runs and much news, as Chromium itself measures it.

NEWS_SECONDS says how long it is told 1,000 events a second; the goal is a minute.
"""

import gzip
import http.client
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import orjson

from timing import goal
from tracklog.home.home import Home
from tracklog.journal.frame import stamp

ROOT = Path(__file__).parents[1]
BUILT = ROOT / "src/tracklog/console"
SECONDS = int(os.environ.get("NEWS_SECONDS", "60"))
LONG, MANY, RATE = 100_003, 100_000, 1_000


def said(run: str, n: int, at: float) -> bytes:
    kinds = ("agent.spoke", "agent.thought", "world.observed", "clue.found")
    text = f"line {n}: **nobody** drinks milk here but the cat. " * (1 + n % 4)
    return orjson.dumps(
        {
            "id": f"{run}/{n}/{at}",
            "run_id": run,
            "turn": n,
            "kind": kinds[n % 4],
            "actor": f"agent-{n % 7}",
            "payload": {"text": text},
            "created_at": stamp(at),
            "schema_version": 1,
        }
    )


def began(n: int, at: float) -> bytes:
    head = {"ts": stamp(at), "run_id": f"run-{n}", "event": "agent_run_start"}
    return orjson.dumps({**head, "agent_id": f"agent-{n % 40}", "task": f"Mend part {n}"})


def fill(path: Path) -> None:
    now = time.time()
    with Home(path, durability="os") as home:
        lines = [said("long", n, now - 3600 + n / 40) for n in range(LONG)]
        for begin in range(0, LONG, 5_000):
            home.intake.admit(lines[begin : begin + 5_000])
        for begin in range(0, MANY, 5_000):
            ages = ((n, now - 60 - n * 24) for n in range(begin, begin + 5_000))  # over 28 days
            home.intake.admit([began(n, at) for n, at in ages], "kahn-agent")
        home.index.catch_up()


@contextmanager
def served(path: Path) -> Iterator[str]:
    tracklog = Path(sys.executable).with_name("tracklog")
    options = ("--home", str(path), "--port", "0", "--durability", "os")
    process = subprocess.Popen(
        [str(tracklog), "serve", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:
        assert process.stdout is not None
        yield process.stdout.readline().split()[3]
    finally:
        process.terminate()
        process.wait()


def tell(url: str, stop: threading.Event, counts: list[int]) -> None:
    """A thousand lines a second on a connection that stays open; who was held up catches up."""
    connection = http.client.HTTPConnection(url.removeprefix("http://"))
    head = {"Content-Type": "application/x-ndjson"}
    began, n = time.monotonic(), 0
    while not stop.wait(0.1):
        due = int((time.monotonic() - began) * RATE)
        body = b"\n".join(said("news", k, time.time()) for k in range(n, due))
        connection.request("POST", "/api/events/fishbowl", body, head)
        connection.getresponse().read()
        counts[0] = n = due


def in_browser(url: str, part: str) -> dict[str, float]:
    script = ROOT / "console/browser/measure.mjs"
    printed = subprocess.run(
        ["node", str(script), url, part, str(SECONDS), str(LONG)],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    measured: dict[str, float] = json.loads(printed.splitlines()[-1])
    return measured


def sizes() -> None:
    """What a browser loads at the start, and the largest part that it loads later."""
    parts = {path.name: len(gzip.compress(path.read_bytes(), 9)) for path in BUILT.rglob("*.js")}
    page = (BUILT / "index.html").read_text()
    start = sum(size for name, size in parts.items() if name in page)
    later = max(size for name, size in parts.items() if name not in page)
    goal("script at the start, gzipped", start / 1000, "kB", at_most=120)
    goal("the largest later part, gzipped", later / 1000, "kB", at_most=90)


def main() -> None:
    sizes()
    with tempfile.TemporaryDirectory() as folder:
        fill(Path(folder) / "home")
        with served(Path(folder) / "home") as url:
            in_browser(url, "fleet")  # warm: the server has read its files
            found = in_browser(url, "fleet")
            goal(f"{MANY:,} runs: from the click to the list", found["open"], "ms", at_most=500)
            goal(f"{MANY:,} runs: from the answer to the list", found["paint"], "ms", at_most=300)
            found = in_browser(url, "insights")
            of = "insights of 30 days"
            goal(f"{of}: from the answers to the charts", found["paint"], "ms", at_most=300)
            found = in_browser(url, "long")
            of = f"{LONG:,} events"
            goal(f"{of}: from the answer to the screen", found["first"], "ms", at_most=300)
            goal(f"{of}: from the link to the header", found["header"], "ms", at_most=300)
            goal(f"{of}: the slider's end in the first frame", found["slider"], "", at_least=LONG)
            goal(f"{of}: to a moment that was not read yet", found["early"], "ms", at_most=1000)
            goal(f"{of}: to any moment", found["point"], "ms", at_most=1000)
            goal(f"{of}: the longest task until all was read", found["read"], "ms", at_most=50)
            goal(f"{of}: the longest task while scrolling", found["task"], "ms", at_most=50)
            goal(f"{of}: memory, all of it read", found["heap"], "MB", at_most=50)
            goal(f"{of}: more memory after scrolling", found["grown"], "MB", at_most=10)
            found = in_browser(url, "link")
            goal(f"{of}: from a link to record 40,000", found["open"], "ms", at_most=1000)
            stop, counts = threading.Event(), [0]
            sender = threading.Thread(target=tell, args=(url, stop, counts))
            sender.start()
            try:
                began = time.monotonic()
                found = in_browser(url, "news")
                rate = counts[0] / (time.monotonic() - began)
            finally:
                stop.set()
                sender.join()
            about = f"{SECONDS} s of news"
            goal(f"{about}: events a second", rate, "/s", at_least=0.95 * RATE)
            of = f"{about}: the slowest of {found['interactions']:.0f} interactions"
            goal(of, found["slowest"], "ms", at_most=100)
            more = f"{about}: more memory in the last three quarters"
            goal(more, found["grown"], "MB", at_most=20)


if __name__ == "__main__":
    main()
