"""`tracklog why`: the causes of an event, and its effects."""

from typing import TYPE_CHECKING

import click

from tracklog.cli import _question
from tracklog.cli import _terminal as terminal

if TYPE_CHECKING:
    from tracklog.answers.why import WhyAnswer, WhyStep

NEAR = 12
"""How many steps are shown at either end of a long chain without --all."""
TIE = 17
"""The width of the column for the link to the cause."""
NARROW = 70
"""The width below which a row has no room for the time."""
ENDS = {
    "prompt": "",
    "start": "no recorded event caused this; there is no prompt before it",
    "unseen": "the chain ends here: a cause was not recorded",
}


def _show(answer: "WhyAnswer", call: _question.QuestionCall) -> None:
    _put(answer, show_all=call.parameters["all"])


def _put(answer: "WhyAnswer", *, show_all: bool) -> None:
    if ENDS[answer.ends]:
        _note(ENDS[answer.ends])
    for unseen in answer.unseen:
        _note(f"record {unseen.seq}: {unseen.message}")
    back = answer.back[::-1]
    ties = [None, *(step.how for step in back)]
    show = _Rows()
    chain = [*zip(back, ties, strict=False), (answer.record, ties[-1])]
    rows = [(step, how or ("prompt" if step.prompt else "start")) for step, how in chain]
    for n in _visible(len(rows) - 1, show_all):
        show.row(*rows[n]) if n is not None else show.gap(len(rows) - 1)
    show.row(*rows[-1], mark="▶", fg="cyan", bold=True)
    for n in _visible(len(answer.forward), show_all):
        if n is None:
            show.gap(len(answer.forward))
        else:
            step = answer.forward[n]
            show.row(step, step.how or "", of=step.of)
    if not answer.forward:
        click.secho("no recorded event followed from it", dim=True)


def _note(text: str) -> None:
    """A sentence, on as many lines as it takes."""
    width = terminal.width()
    text = terminal.printable(text)
    click.secho(text if width is None else click.wrap_text(text, width), fg="yellow")


def _visible(count: int, show_all: bool) -> list[int | None]:
    """The positions of the steps that are shown; None means the steps between."""
    if show_all or count <= 2 * NEAR + 1:
        return list(range(count))
    return [*range(NEAR), None, *range(count - NEAR, count)]


class _Rows:
    """A step on one row: its place, its time, the link to its cause, and a text."""

    def __init__(self) -> None:
        self.width = terminal.width()
        self.above: tuple[str, str, str] | None = None
        self.seq: int | None = None

    def row(
        self,
        step: "WhyStep",
        how: str,
        *,
        of: int | None = None,
        mark: str = "",
        **look: bool | str,
    ) -> None:
        time = terminal.time_text(step.at, step.received)
        where = (time[:10], step.family, step.run)
        if where != self.above:
            self.above = where
            text = f"{'':>12}{time[:10]}  {step.family}:{step.run}"
            click.secho(self._cut(text), dim=True)
        tie = how if of in (None, self.seq) else f"{how} ← {of}"
        self.seq = step.seq
        if self.width is not None and self.width < NARROW:
            head = f"{mark:<2}{step.seq:>6} {tie.split()[0]:<8} "
        else:
            head = f"{mark:<2}{step.seq:>8}  {time[11:19]:<8}  {tie:<{TIE}}  "
        agent = f"{step.agent}: " if step.agent else ""
        text = self._cut(f"{agent}{step.words or step.kind}", len(head))
        click.echo(terminal.printable(head) + click.style(text, **look))  # type: ignore[arg-type]  # click's own names

    def gap(self, count: int) -> None:
        text = f"… {count - 2 * NEAR:,} more between; --all shows them"
        click.secho(self._cut(f"{'':>12}{text}"), dim=True)

    def _cut(self, text: str, used: int = 0) -> str:
        if self.width is None:
            return terminal.printable(text)
        return terminal.fitted(text, max(8, self.width - used)).rstrip()


command = _question.verb(
    "why",
    _show,
    click.option("--all", is_flag=True, help="Show every step, however many there are."),
    notes="`tracklog events RUN` shows the numbers of a run's records.",
)
