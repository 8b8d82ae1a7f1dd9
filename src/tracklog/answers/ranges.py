"""Ranges in a question: points in time, absolute or relative to now, and numbers."""

import re
from datetime import datetime, timedelta
from math import nan

from tracklog.folds import epoch_ms
from tracklog.journal.frame import stamp
from tracklog.model.errors import BadQuery

_RELATIVE = re.compile(r"-?(\d{1,6})([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
ABOUT = (
    "a time as in 2026-11-15T16:30:00Z, `now`, `today`, `yesterday`, "
    "or relative to now as in -24h (s, m, h, d, w)"
)
DAYS_AGO = {"today": 0, "yesterday": 1}


def point(text: str | None, now: str) -> int | None:
    """A point in time in milliseconds since 1970; None where none is given.

    A relative one is before `now`, with or without its sign. A time without a zone is in UTC;
    `today` and `yesterday` begin at midnight in the time zone of this machine.
    """
    if not text:
        return None
    if text == "now":
        return epoch_ms(now)
    if text in DAYS_AGO:
        here = datetime.fromtimestamp((epoch_ms(now) or 0) / 1000)  # noqa: DTZ006  # it is local
        day = here.date() - timedelta(days=DAYS_AGO[text])
        return int(datetime.combine(day, datetime.min.time()).timestamp() * 1000)
    if relative := _RELATIVE.fullmatch(text):
        return (epoch_ms(now) or 0) - int(relative[1]) * _SECONDS[relative[2]] * 1000
    at = epoch_ms(text)
    if at is None:
        raise BadQuery(f"{text[:50]!r} is no time", f"give {ABOUT}")
    return at


def numbers(text: str | None, name: str) -> tuple[float, float] | None:
    """The first and the last number of a range; None where none is given."""
    if not text:
        return None
    first, dots, last = text.partition("..")
    try:
        begin, end = float(first or "-inf"), float((last if dots else first) or "inf")
    except ValueError:
        begin, end = nan, nan
    if not begin <= end:
        raise BadQuery(f"{name} is {text[:50]!r}", "give a number, or a range as in 0.5..1")
    return begin, end


def spelled(at: int | None) -> str | None:
    """A point in time as a timestamp."""
    return None if at is None else stamp(at / 1000)
