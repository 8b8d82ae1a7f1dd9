"""Small pieces of HTML: escaped text, a label, a collapsible section, a duration."""

import html
import json
from typing import Any

from tracklog.formats.exporters import dumps

LONG = 1200
"""The length from which a text is collapsed."""


def text(value: Any) -> str:
    """Any text, escaped; control characters are shown as pictures."""
    escaped = html.escape(str(value))
    return escaped.translate(_PICTURES)


_PICTURES = {code: 0x2400 + code for code in range(32) if chr(code) not in "\n\t"} | {127: 0x2421}


def duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s"


def class_of(name: str) -> str:
    """A name that is valid as a CSS class."""
    return name if name.isascii() and name.isalpha() else "soft"


def pill_of(word: str, look: str) -> str:
    return f'<span class="pill {look}">{text(word)}</span>'


def look_of(passed: Any) -> str:
    """The CSS class of success and of failure."""
    return "ok" if passed is True else "bad" if passed is False else "soft"


def folded(title: str, content: str, *, closed: bool, block: bool = False) -> str:
    inner = f"<pre>{content}</pre>" if block else f'<div class="text">{content}</div>'
    is_open = "" if closed else " open"
    return f"<details{is_open}><summary>{title}</summary>{inner}</details>"


def pretty(value: Any) -> str:
    """A value for reading: text unchanged, JSON indented."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, indent=2, ensure_ascii=False, default=str)
    except (ValueError, RecursionError):
        return dumps(value).decode("utf-8", "replace")
