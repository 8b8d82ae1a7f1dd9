"""`tracklog series`: a metric over time, a row of bars for each name."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from tracklog.cli import _question, _table

if TYPE_CHECKING:
    from tracklog.answers.series import Series, SeriesKey

BARS = "▁▂▃▄▅▆▇█"
_NARROW = 60  # columns of bars, at most


def _show(answer: "Series | list[Series]", call: _question.QuestionCall) -> None:
    for number, each in enumerate(answer if isinstance(answer, list) else [answer]):
        if number:
            click.echo()
        by_turn = call.parameters["bucket"] == "turn"
        _put(each, is_all=call.parameters["since"] == "all", by_turn=by_turn)


def _put(answer: "Series", *, is_all: bool, by_turn: bool) -> None:
    total = _amount(answer.unit, answer.total, answer)
    before = _amount(answer.unit, answer.before)
    since = f" from {answer.at[0]}" if answer.at else ""
    if by_turn:
        click.echo(f"{answer.metric} of {len(answer.at)} turns{since}: {total}")
    else:
        click.echo(f"{answer.metric}{since}: {total}, in the time before: {before}")
    highest = max((value or 0 for key in answer.keys for value in key.values), default=0)
    columns = [
        _table.Column(answer.unit, lambda key: _amount(answer.unit, key.sum, key), right=True),
        _table.Column("over time", lambda key: bars(key.values, highest), rank=1),
        _table.Column(answer.by if answer.by != "none" else "of", _name, cut=24),
    ]
    more = "`tracklog runs` shows what was recorded" if is_all else "try --since all"
    _table.put(answer.keys, columns, f"nothing of this was recorded in this time; {more}")


def _name(key: "SeriesKey") -> str | None:
    return "all others" if key.other else key.key


def _amount(unit: str, value: float | None, of: "Series | SeriesKey | None" = None) -> str:
    if value is None:
        return _table.NOTHING
    if unit == "usd":
        bound = "≥" if of and of.lower_bound else ""
        return _table.money(value, f"{bound}~" if of and of.computed else bound)
    if unit == "seconds":
        return _table.duration_text(value)
    return f"{value:.1%}" if unit == "share" else f"{value:,.0f}"


def bars(values: Sequence[float | None], highest: float) -> str:
    """Values as bars between nothing and the highest; a dot where nothing was recorded,
    an underscore where nothing of this was.
    """
    width = -(-len(values) // _NARROW)
    parts = [values[at : at + width] for at in range(0, len(values), width)]
    known = [[value for value in part if value is not None] for part in parts]
    return "".join(_bar(max(part), highest) if part else "·" for part in known)


def _bar(value: float, highest: float) -> str:
    if value <= 0 or highest <= 0:
        return "_"
    return BARS[min(len(BARS) - 1, int(value / highest * len(BARS)))]


command = _question.verb("series", _show, notes=_table.MONEY)
