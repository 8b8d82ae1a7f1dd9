"""Changes to an event before it is written: mask secrets, shorten long values."""

from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Any, Literal, NamedTuple

from tracklog.dialects.awf.line import ENVELOPE, canonical
from tracklog.model.errors import InvalidEvent, MaskFailed
from tracklog.model.event import Body
from tracklog.recording.recorder import draft
from tracklog.recording.transcript.entry import loads

Masker = Callable[[Body], Body]
OnMaskError = Literal["refuse", "placeholder"]

FIXED = ("seq", "run_id", "parent_run_id", "child_run_id", "type")
"""Keys that a masker must not change."""
PLACEHOLDER = "[masked:error]"
WORDS = frozenset(
    [
        "type",
        "fidelity",
        "role",
        "kind",
        "status",
        "name",
        "tool_name",
        "call_id",
        "tool_id",
        "provider_call_id",
        "message_id",
        "parent_tool_id",
        "part",
        "provider",
        "model",
        "producer",
        "stop_reason",
    ]
)
"""Keys of payloads and blocks whose strings are fixed words, names or ids."""
SHORTEST = 64
"""Strings up to this many bytes are never cut: the mark would be longer."""


def mask(line: bytes, masker: Masker, on_error: OnMaskError) -> tuple[bytes, bool]:
    """The line after masking, and whether a placeholder replaced it."""
    event = loads(line)
    try:
        masked = masker(loads(line))
        return _checked(masked, event), False
    except Exception as error:
        if on_error == "placeholder":
            return canonical(_hidden(event)), True
        if isinstance(error, MaskFailed):
            raise
        raise MaskFailed(
            f"the masker failed on {event['type']}: {type(error).__name__}: {error}",
            'fix the masker, or open the recorder with on_mask_error="placeholder"',
        ) from error


def _checked(masked: Any, event: Body) -> bytes:
    if not isinstance(masked, dict):
        raise MaskFailed(f"the masker returned {masked!r}", "return the event, changed or not")
    for key in FIXED:
        if masked.get(key) != event.get(key):
            raise MaskFailed(f"the masker changed {key}", "change only the payload and extra keys")
    try:
        draft.check(masked)
        return canonical(masked)
    except InvalidEvent as error:
        raise MaskFailed(
            f"what the masker returned is no event: {error.message}", error.hint
        ) from error


def _hidden(event: Body) -> Body:
    """The event with every free text replaced: the content is hidden, the event stays."""
    envelope = {key: value for key, value in event.items() if key in ENVELOPE}
    envelope["payload"] = _hide(event["payload"], words=True)
    ours = ("step_seq", "attempt", "elapsed_ms", "seam", "lost", "span_id", "parent_span_id")
    extras = {key: value for key, value in event.items() if key not in ENVELOPE}
    return envelope | {
        key: value if key in ours else _hide(value, words=False) for key, value in extras.items()
    }


def _hide(value: Any, *, words: bool) -> Any:
    if isinstance(value, str):
        return PLACEHOLDER
    if isinstance(value, list):
        return [_hide(each, words=words) for each in value]
    if not isinstance(value, dict):
        return value
    # Only payloads and their blocks have fixed words; everything below them is free text.
    return {
        key: part if words and key in WORDS else _hide(part, words=words and key == "blocks")
        for key, part in value.items()
    }


class _Text(NamedTuple):
    size: int
    owner: dict[str, Any]
    """The nearest object around the string."""
    key: str
    """Its place in the owner: a key, and the positions in lists below it."""
    holder: Any
    place: Any
    value: Any


def shorten(line: bytes, limit: int) -> bytes:
    """The line in at most `limit` bytes, if cutting strings is enough; its structure stays the
    same.

    The longest strings are cut first; the object around each gets a mark with the original size.
    """
    event = loads(line)
    while len(line) > limit:
        longest = max(_texts(event["payload"]), key=lambda text: text.size, default=None)
        if longest is None or longest.size <= SHORTEST:
            break
        _cut(longest, len(line) - limit)
        line = canonical(event)
    return line


def _texts(payload: dict[str, Any]) -> Iterator[_Text]:
    """Every string that may still be cut; fixed words and ids are not."""
    waiting: list[tuple[bool, _Text]] = _parts(payload, words=True)
    while waiting:
        words, text = waiting.pop()
        owner, name, part = text.owner, text.key, text.value
        if isinstance(part, str):
            cut = [mark.get("key") for mark in _listed(owner.get("truncated", ()))]
            if name not in cut and not (words and name in WORDS):
                yield text._replace(size=len(_bytes(part)))
        elif isinstance(part, list):
            inner = words and name == "blocks"
            for at, each in enumerate(part):
                waiting.append((inner, _Text(0, owner, f"{name}/{at}", part, at, each)))
        elif isinstance(part, dict):
            waiting += _parts(part, words=words and text.holder is payload.get("blocks"))


def _parts(value: dict[str, Any], *, words: bool) -> list[tuple[bool, _Text]]:
    return [
        (words, _Text(0, value, key, value, key, part))
        for key, part in value.items()
        if key != "truncated"
    ]


def _cut(text: _Text, excess: int) -> None:
    raw = _bytes(text.value)
    mark = {"key": text.key, "bytes": len(raw), "sha256": sha256(raw).hexdigest()}
    room = len(raw) - excess - len(canonical({"truncated": mark}))
    head = raw[: max(0, room)].decode("utf-8", "ignore")
    text.holder[text.place] = head
    marks = _listed(text.owner.get("truncated", ()))
    text.owner["truncated"] = [*marks, mark] if marks else mark


def _listed(marks: Any) -> list[Any]:
    return (
        [marks] if isinstance(marks, dict) else [mark for mark in marks if isinstance(mark, dict)]
    )


def _bytes(value: str) -> bytes:
    return value.encode("utf-8", "surrogatepass")
