"""A conversation as an importer would have read it: a picture, a compaction, costs, a title."""

import zlib
from collections.abc import Iterator
from hashlib import sha256
from random import Random
from struct import pack
from typing import Any

from tracklog.demo import DemoLine
from tracklog.journal.frame import stamp

_WIDE, _HIGH = 320, 180


def _picture() -> bytes:
    """A small chart as PNG, shown to the agent in the conversation."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return pack(">I", len(body)) + kind + body + pack(">I", zlib.crc32(kind + body))

    def dot(x: int, y: int) -> bytes:
        bar = 40 + (x // 32 * 53) % 120
        return b"\x2f\x6f\xde" if _HIGH - y < bar and x % 32 > 6 else b"\xf4\xf6\xfa"

    rows = b"".join(b"\0" + b"".join(dot(x, y) for x in range(_WIDE)) for y in range(_HIGH))
    head = pack(">IIBBBBB", _WIDE, _HIGH, 8, 2, 0, 0, 0)
    parts = (chunk(b"IHDR", head), chunk(b"IDAT", zlib.compress(rows, 9)), chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


BLOBS = (_picture(),)


class _InventedConversation:
    """One conversation, one line per fact."""

    def __init__(self, run: str, at: float) -> None:
        self.run, self.at, self.count = run, at, 0

    def say(self, fact: str, **fields: Any) -> DemoLine:
        self.count += 1
        self.at += 2
        name = sha256(f"{self.run}/{self.count}".encode()).hexdigest()[:32]
        origin = {"writer": "demo", "fidelity": "reconstructed", "mapping": "1"}
        body = {"id": name, "run": self.run, "at": stamp(self.at), "fact": fact, "agent": "main"}
        return DemoLine(self.at, {**body, **fields, "origin": origin})


def _chat(run: str, at: float, title: str, draw: Random) -> Iterator[DemoLine]:
    talk = _InventedConversation(run, at)
    yield talk.say("Began", what="run", task=title, model="claude-opus-4-1", cwd="/home/ada/shop")
    yield talk.say("Noted", label="title", text=title)
    ask = [{"type": "text", "text": "Why did the basket page become slow last Tuesday?"}]
    yield talk.say("Said", role="user", blocks=ask)
    picture = {"sha256": sha256(BLOBS[0]).hexdigest(), "bytes": len(BLOBS[0])}
    blob = {"$blob": {**picture, "media_type": "image/png"}}
    image = {"type": "stream", "provider_type": "image", "chunk": blob}
    yield talk.say("Said", role="user", blocks=[image])
    for n in range(4):
        call = f"{run}-{n}"
        given = {"command": f"git log --since=tuesday -- basket/{n}"}
        yield talk.say("Called", tool="Bash", call_id=call, input=given)
        ok = draw.random() > 0.2
        result = (
            {"output": f"{draw.randint(1, 9)} commits"} if ok else {"error": "not a repository"}
        )
        took = round(draw.lognormvariate(0, 1), 2)
        yield talk.say("Returned", call_id=call, tool="Bash", ok=ok, seconds=took, **result)
    yield talk.say(
        "Noted", label="compaction", data={"trigger": "auto", "before": 151_000, "after": 22_000}
    )
    words = "A query lost its index: `basket_items(user_id)` was dropped with the old table."
    blocks = [{"type": "thinking", "thinking": "Tuesday is the day of the migration."}]
    yield talk.say("Said", role="assistant", blocks=[*blocks, {"type": "text", "text": words}])
    usage = {"input_tokens": draw.randint(9_000, 60_000), "output_tokens": draw.randint(400, 2_000)}
    cost = round(usage["input_tokens"] * 15e-6 + usage["output_tokens"] * 75e-6, 4)
    spent = {"provider": "anthropic", "model": "claude-opus-4-1", "usage": usage}
    yield talk.say("Spent", key=f"{run}/all", **spent, cost_usd=cost)
    yield talk.say("Ended", what="run", outcome="end_turn", passed=True)


def past(now: float, draw: Random) -> Iterator[DemoLine]:
    titles = ("Slow basket page", "Slow basket page, again", "Rename the shop's modules")
    for n, title in enumerate(titles):
        yield from _chat(f"conversation-{n + 1}", now - 64_000 + n * 19_000, title, draw)


def live(begin: float, cycle: int, draw: Random) -> Iterator[DemoLine]:
    if cycle % 4 == 2:
        yield from _chat(f"conversation-live-{cycle}", begin + 5, "A question in passing", draw)
