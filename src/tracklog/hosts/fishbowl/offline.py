"""The scripted model, which needs no server: the same seed gives the same play.

A reply depends only on the prompt, so a run that was killed continues as if it had not been.
A line may contain `{other}` (who spoke last), `{said}` (what they said), `{topic}` (a word of it),
`{suspect}` (one of the others), `{me}` and `{seed}`, which are filled in.
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from math import gcd
from typing import Any

from tracklog import Body
from tracklog.hosts.fishbowl.manifest import REFLECTION, VERDICT
from tracklog.hosts.fishbowl.models import PlayerReply, Prompt

DEFAULT_LINES: Mapping[str, Sequence[str]] = {
    "agent.spoke": (
        "{other} says “{said}”. I have heard doors creak with more conviction.",
        "Let us not forget {topic}. I certainly cannot, and I have tried.",
        "I agree with {other}, which worries me more than it should worry {other}.",
        "If it is about {topic}, ask {suspect}. {suspect} was seen near it, humming.",
        "Interesting, {other}. And where was your {topic} when we needed it?",
        "I move that we strike “{said}” from the minutes and serve soup.",
        "As {me} I can only say: {topic}, {topic}, and once more {topic}.",
    ),
    "agent.thought": (
        "{other} does not know that I know about {topic}.",
        "Say nothing of {topic}. Smile. Nod. Suspect {suspect}.",
        "Was “{said}” meant for me? It felt as if it was meant for me.",
    ),
    REFLECTION: (
        "It was never about {topic}; it was about {other} all along.",
        "Whoever says {topic} most often has the most to hide, and I have counted.",
        "{suspect} is kinder than I thought, or better at this than I am.",
    ),
    VERDICT: (
        "I have weighed it all, {topic} included, and my eyes keep coming back to {suspect}.",
        "Order! It is {suspect}. I was sure before we began; now I am merely certain.",
    ),
}
LINES_OF_OTHER_KINDS = (
    "{me}, concerning {topic}: it has come to this.",
    "Note it down: {topic}, and {other}.",
)
"""The lines of any other kind of event."""

LINES_ABOUT_A_VISITOR = (
    "Did the ceiling just say “{said}”?",
    "A voice from outside the glass: “{said}”. Everybody act natural.",
    "“{said}”, says the one who paid for a ticket.",
)
MOODS = ("serene", "suspicious", "delighted", "peckish", "solemn", "scandalised", "wistful")
QUOTED = 60
STOP_WORDS = frozenset(
    re.findall(
        "[a-z]+",
        "about after again always because before could every everybody further nothing other"
        " outside recently remarkably should somebody something still their there these those"
        " though which would written",
    )
)
"""Long words that are no topic."""
_LONG = re.compile(r"[^\W\d_]{5,}")
_SENTENCE = re.compile(r"[^.!?“”]+[.!?]?")


class Offline:
    """The model of all scripted players."""

    offline = True

    def reply(self, prompt: Prompt) -> PlayerReply | None:
        kind = _kind(prompt)
        if kind is None:
            return None
        lines = prompt.lines.get(kind) or DEFAULT_LINES.get(kind) or LINES_OF_OTHER_KINDS
        text = _filled(_line(prompt, kind, lines, prompt.remarks_by_kind.get(kind, 0)), prompt)
        if prompt.about is not None and prompt.about.kind == "user.injected":
            visited = _line(prompt, "visited", LINES_ABOUT_A_VISITOR, prompt.remarks)
            text = f"{_filled(visited, prompt)} {text}"
        payload: Body = {"text": text}
        for name in prompt.player.output_extra_fields:
            payload[name] = _extra(prompt, name)
        read = sum(len(remark.text) for remark in prompt.recall)
        return PlayerReply(kind, payload, (read + len(text)) // 4 + 1)

    def close(self) -> None:
        pass


def _draw(prompt: Prompt, salt: str, sides: int) -> int:
    """A random number that is the same for the same prompt."""
    name, turn, remarks = prompt.player.name, prompt.turn, prompt.remarks
    return _number(f"{prompt.seed}|{name}|{turn}|{remarks}|{salt}") % sides


def _number(text: str) -> int:
    return int.from_bytes(blake2b(text.encode("utf-8", "replace"), digest_size=8).digest())


def _kind(prompt: Prompt) -> str | None:
    """The kind of its event; None if it says nothing."""
    kinds = prompt.kinds
    if kinds == [REFLECTION]:
        return REFLECTION
    if VERDICT in kinds:
        if prompt.about is None:
            return VERDICT  # it speaks by its schedule
        kinds = [kind for kind in kinds if kind != VERDICT]
    if not kinds or (prompt.player.role == "observer" and _draw(prompt, "quiet", 3)):
        return None
    if len(kinds) == 1:
        return kinds[0]
    weights = [len(prompt.lines.get(kind, ())) or (1 if prompt.lines else 3) for kind in kinds]
    thrown = _draw(prompt, "kind", sum(weights))
    for kind, weight in zip(kinds, weights, strict=True):
        thrown -= weight
        if thrown < 0:
            return kind
    return kinds[-1]


def _line(prompt: Prompt, kind: str, lines: Sequence[str], times: int) -> str:
    """The next line: each one once before any is repeated, in an order that the seed decides."""
    start, stride = _order(prompt.seed, prompt.player.name, kind, len(lines))
    return lines[(start + stride * times) % len(lines)]


@lru_cache(1024)
def _order(seed: str, name: str, kind: str, count: int) -> tuple[int, int]:
    """The first line of a player, and the step from each line to the next."""
    start = _number(f"{seed}|{name}|{kind}")
    stride = 1 + start % count
    while gcd(stride, count) != 1:
        stride += 1
    return start, stride


def _filled(line: str, prompt: Prompt) -> str:
    if "{" not in line:
        return line
    about = prompt.about or next((each for each in reversed(prompt.recall)), None)
    words = about.text if about else prompt.scene
    other = about.actor if about and about.actor in prompt.others else "somebody"
    if other == "somebody":
        for remark in reversed(prompt.recall):
            if remark.actor in prompt.others:
                other = remark.actor
                break
    others = prompt.others or ["nobody"]
    suspect = others[_draw(prompt, "suspect", len(others))] if "{suspect" in line else ""
    return line.format(
        me=prompt.player.name,
        other=other,
        said=_quoted(words) if "{said" in line else "",
        topic=_topic(words, prompt) if "{topic" in line else "",
        seed=prompt.seed,
        suspect=suspect,
    )


def _quoted(text: str) -> str:
    """The last sentence of a text, cut to a fixed length."""
    sentences = _SENTENCE.findall(text)
    words = (sentences[-1] if sentences else text).strip(" .()")
    return words if len(words) <= QUOTED else words[:QUOTED].rsplit(" ", 1)[0] + " …"


def _topic(text: str, prompt: Prompt) -> str:
    """One of the longest words of a text."""
    names = "-".join([prompt.player.name, *prompt.others]).lower().split("-")
    dull = {*names, *STOP_WORDS}
    found: list[str] = _LONG.findall(text)
    words = [word for word in found if word.lower() not in dull]
    if not words:
        return prompt.seed
    words.sort(key=len, reverse=True)
    return words[_draw(prompt, "topic", min(3, len(words)))].lower()


def _extra(prompt: Prompt, name: str) -> Any:
    # BOWL-45: it names no winner and gives no scores, so the judge is never asked again.
    if name == "winner":
        return None
    return {} if name == "scores" else MOODS[_draw(prompt, name, len(MOODS))]
