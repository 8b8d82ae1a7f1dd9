"""Ranges of time cut into buckets, in a time zone: minutes, hours, days, weeks and months."""

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import pairwise
from typing import NamedTuple
from zoneinfo import ZoneInfo

from tracklog.answers.ranges import ABOUT, DAYS_AGO, point
from tracklog.journal.frame import stamp
from tracklog.model.errors import BadQuery

LENGTHS = {"1m": 1, "5m": 5, "15m": 15, "1h": 60, "3h": 180, "6h": 360, "1d": 1440}
"""Buckets by name, in minutes; those of less than a day begin at local midnight and go on from there."""
BUCKETS = ("auto", *LENGTHS, "1w", "1mo")
MOST_BUCKETS = 5000
_AUTO = 120  # buckets of a chart, at most


class Buckets(NamedTuple):
    """A range of time, cut into buckets."""

    begin: int
    """Minutes since 1970; the first and the last bucket may begin before it and end after it."""
    end: int
    edges: list[datetime]
    """The begin of each bucket and the end of the last one, in the time zone."""
    seconds: int | None
    """The length of a bucket; None where they differ, as months do."""

    @property
    def spans(self) -> list[tuple[int, int]]:
        """The minutes of each bucket that lie in the range."""
        minutes = [minute_of(each) for each in self.edges]
        return [(max(self.begin, first), min(self.end, last)) for first, last in pairwise(minutes)]

    @property
    def partial_last(self) -> bool:
        """Whether the last bucket goes on after the range."""
        return self.end < minute_of(self.edges[-1])


def minute_of(at: datetime) -> int:
    """The minute since 1970 that a time is in."""
    return int(at.timestamp() // 60)


class _Local(tzinfo):
    """The time zone of this machine, with its summer time."""

    def utcoffset(self, at: datetime | None) -> timedelta | None:
        return None if at is None else at.replace(tzinfo=None).astimezone().utcoffset()

    def dst(self, at: datetime | None) -> timedelta | None:  # noqa: ARG002  # the name is datetime's
        return None

    def tzname(self, at: datetime | None) -> str | None:
        return None if at is None else at.replace(tzinfo=None).astimezone().tzname()

    def fromutc(self, at: datetime) -> datetime:
        return datetime.fromtimestamp(at.replace(tzinfo=UTC).timestamp()).replace(tzinfo=self)  # noqa: DTZ006  # it is local


def zone(name: str | None) -> tzinfo:
    """The time zone of an IANA name; the local one where none is given."""
    if name is None:
        return _Local()
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise BadQuery(
            f"there is no time zone {name!r}", "write a name such as Europe/Zurich or UTC"
        ) from None


def time_of(text: str, now: datetime) -> datetime:
    """A time as it was written; one without a zone is in that of `now`. A day is its beginning."""
    if text in DAYS_AGO:
        text = (now.date() - timedelta(days=DAYS_AGO[text])).isoformat()
    with suppress(ValueError):
        at = datetime.fromisoformat(text)
        text = (at if at.tzinfo else at.replace(tzinfo=now.tzinfo)).isoformat()
    at_ms = point(text, stamp(now.timestamp()))
    if at_ms is None:
        raise BadQuery("a time is empty", f"give {ABOUT}")
    try:
        return datetime.fromtimestamp(at_ms / 1000, now.tzinfo)
    except (ValueError, OverflowError, OSError):
        raise BadQuery(f"{text[:50]!r} is too far away", f"give {ABOUT}") from None


def cut(since: datetime, until: datetime, bucket: str) -> Buckets:
    """The buckets of a range."""
    begin, end = minute_of(since), minute_of(until - timedelta(microseconds=1)) + 1
    if begin >= end:
        raise BadQuery(f"nothing lies between {since} and {until}", "give since before until")
    if bucket == "auto":
        bucket = next(
            (name for name, length in LENGTHS.items() if (end - begin) / length <= _AUTO), "1w"
        )
        bucket = "1mo" if bucket == "1w" and (end - begin) / (7 * 1440) > _AUTO else bucket
    length = LENGTHS.get(bucket)
    if (end - begin) / (length or 7 * 1440) > MOST_BUCKETS:
        raise BadQuery(
            f"there would be more than {MOST_BUCKETS} buckets of {bucket}", "choose a longer one"
        )
    edges = [each for each in _edges(since, end, bucket) if minute_of(each) > begin]
    first = max(
        (each for each in _edges(since, begin + 1, bucket) if minute_of(each) <= begin),
        key=minute_of,
    )
    fixed = length if length is not None and length < 1440 else None
    return Buckets(begin, end, [first, *edges], fixed * 60 if fixed else _DAYS.get(bucket))


_DAYS = {"1d": 86_400, "1w": 7 * 86_400}


def _edges(since: datetime, end: int, bucket: str) -> Iterator[datetime]:
    """The times at which buckets begin, from one before `since` to the first at or after `end`."""
    day = since.replace(hour=0, minute=0, second=0, microsecond=0)
    if bucket == "1w":
        day -= timedelta(days=day.weekday())
    elif bucket == "1mo":
        day = day.replace(day=1)
    while True:
        after = _next(day, bucket)
        for each in _of_day(day, after, LENGTHS.get(bucket, 1440)):
            yield each
            if minute_of(each) >= end:
                return
        day = after


def _next(day: datetime, bucket: str) -> datetime:
    """The next local midnight at which a day, a week or a month begins."""
    if bucket == "1mo":
        return (day + timedelta(days=32)).replace(day=1)
    return day + timedelta(days=7 if bucket == "1w" else 1)


def _of_day(day: datetime, after: datetime, length: int) -> Iterator[datetime]:
    """The buckets of a local day, which may have 23 or 25 hours."""
    if length >= 1440:
        yield day
        return
    first, last = minute_of(day), minute_of(after)
    for minute in range(first, last, length):
        yield datetime.fromtimestamp(minute * 60, day.tzinfo)
