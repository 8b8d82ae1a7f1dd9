"""The waterfall of a run: what took how long, when, and what it cost; without a script."""

from collections.abc import Iterator

from tracklog.answers.spans import SpanRow, SpansAnswer
from tracklog.folds import epoch_ms
from tracklog.formats.exporters.html.elements import duration, text

_WIDE = 1000
"""Units from the beginning of the run to its end."""
_NARROWEST = 3
_ROWS = 400
_SHARES = (
    ("model", "Model"),
    ("tools", "Tools and sub-runs"),
    ("waiting", "Waiting for a person"),
    ("nothing", "Nothing recorded"),
)


def waterfall(spans: SpansAnswer) -> Iterator[str]:
    """The part of the page; nothing where no time is known."""
    begin = epoch_ms(spans.begin)
    if begin is None or len(spans.rows) < 2 or not spans.seconds:
        return
    yield '<h2 id="waterfall">Waterfall</h2>\n<p class="soft">'
    yield " · ".join(
        f"{label} {duration(seconds)} ({seconds / spans.seconds:.0%})"
        for name, label in _SHARES
        if (seconds := float(getattr(spans.shares, name)))
    )
    yield f". Critical path, underlined: {duration(spans.path_seconds)}.</p>\n"
    yield '<div class="falls"><table>\n<thead><tr><th>Step</th><th>Took</th><th>Cost</th>'
    yield "<th>From the beginning to the end</th></tr></thead>\n<tbody>\n"
    for row in spans.rows[:_ROWS]:
        yield _row(row, begin, spans.seconds)
    yield "</tbody></table></div>\n"
    left = len(spans.rows) - _ROWS
    if left > 0 or spans.cut:
        yield f'<p class="soft">{max(left, 0):,}{"+" if spans.cut else ""} more rows.</p>\n'


def _row(row: SpanRow, begin: int, seconds: float) -> str:
    name = row.name or row.agent or row.kind
    deep = "" if row.depth < 1 else f' class="deep{min(row.depth, 4)}"'
    kind = "failed" if row.failed else "wait" if row.wait else row.kind
    x = ((epoch_ms(row.start) or begin) - begin) / 1000 / seconds * _WIDE
    width = min(max(row.seconds / seconds * _WIDE, _NARROWEST), _WIDE)
    x = min(max(x, 0), _WIDE - width)
    path = f'<rect class="path" x="{x:.1f}" y="12" width="{width:.1f}" height="2"/>'
    bar = (
        f'<svg viewBox="0 0 {_WIDE} 14" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="{kind}" x="{x:.1f}" y="2" width="{width:.1f}" height="9"/>'
        f"{path if row.on_path else ''}</svg>"
    )
    failed = ' <b class="failed">✕ failed</b>' if row.failed else ""
    return (
        f'<tr><td{deep}><a href="#e{row.seq}">{text(name)}</a> '
        f'<span class="soft">{text(row.kind)}</span>{failed}</td>'
        f'<td class="num">{duration(row.seconds)}</td><td class="num">{cost(row)}</td>'
        f'<td class="bar">{bar}</td></tr>\n'
    )


def cost(row: SpanRow) -> str:
    """The cost of a row: `~` where it was computed, `≥` where a part of it is not known."""
    known = [each for each in (row.cost_usd, row.computed_usd) if each is not None]
    if not known:
        return ""
    sign = ("≥ " if row.lower_bound else "") + ("~" if row.computed_usd is not None else "")
    return f"{sign}${sum(known):,.4f}".rstrip("0").rstrip(".")
