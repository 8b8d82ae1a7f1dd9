"""The command of a question: its parameters are the options; its answer is a table or JSON."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tracklog.answers import Arguments, Param, Question
from tracklog.answers.registry import question as question_of
from tracklog.cli import _home, _table
from tracklog.cli import _terminal as terminal

if TYPE_CHECKING:
    from tracklog.home.home import Home

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


@dataclass
class QuestionCall:
    """A question asked on the command line."""

    question: Question
    path: Path
    home: "Home"
    parameters: Arguments
    """Every option of the verb."""

    @cached_property
    def names(self) -> _table.RunNames:
        """The names of the runs of the home."""
        return _home.names(self.home)

    def answer(self, **other: Any) -> Any:
        """The answer, with the given options or with others; with `--all` nothing is left out."""
        known = {param.argument for param in self.question.params}
        arguments = {name: value for name, value in self.parameters.items() if name in known}
        if self.parameters.get("all"):
            arguments |= dict.fromkeys(known & {"limit", "newest"}, sys.maxsize)
        return self.question.ask(self.home, **(arguments | other))


Show = Callable[[Any, QuestionCall], None]
"""Prints an answer for a person."""


def verb(
    name: str,
    show: Show | None = None,
    *decorators: Decorator,
    notes: str = "",
    as_json: Callable[[Any, QuestionCall], Any] | None = None,
    exit_code: Callable[[Any], int] | None = None,
) -> click.Command:
    """The verb of a question; `show` prints its answer, else it is a table of its fields.

    The decorators add options of the verb's own, `notes` stand below the examples of its help,
    `as_json` turns an answer into the output of `--json`, where that is not the answer itself, and
    `exit_code` gives the exit code, where that depends on the answer.
    """
    question = question_of(name)

    def run(home: Path, json: bool, **parameters: Any) -> None:
        with _home.asking(home) as opened:
            call = QuestionCall(question, opened.path, opened, parameters)
            answer = call.answer()
            if json:
                put_json(as_json(answer, call) if as_json else answer)
            else:
                (show or _fields)(answer, call)
        if exit_code is not None:
            sys.stdout.flush()
            sys.exit(exit_code(answer))

    each = "One JSON object per row." if question.row else "One JSON object."
    command: Callable[..., Any] = click.option("--json", is_flag=True, help=each)(run)
    command = terminal.wide_option(command)
    for decorator in reversed(decorators):
        command = decorator(command)
    for param in reversed([param for param in question.params if not _is_argument(param)]):
        command = _option(param)(command)
    command = _home.read_option(command)
    for param in reversed([param for param in question.params if _is_argument(param)]):
        command = _argument(param)(command)
    return click.command(name=name, help=_help(question), epilog=_epilog(question, notes))(command)


def put_more(rows: Sequence[Any], call: QuestionCall) -> None:
    """Print that there may be more rows than these, and how to see them."""
    if not call.parameters["all"] and len(rows) >= call.parameters["limit"]:
        sys.stdout.flush()
        click.echo("there may be more; --all shows all", err=True)


all_option = click.option("--all", is_flag=True, help="Leave nothing out, however much there is.")


def put_json(answer: Any) -> None:
    """An answer for a program: one row per line, or all of it on one line."""
    for each in answer if isinstance(answer, list) else [answer]:
        terminal.put_json(each)


def _is_argument(param: Param) -> bool:
    return param.run or param.required


def _argument(param: Param) -> Decorator:
    if param.run:
        return _home.run_argument(param.name, required=param.required)
    label = param.keyword or param.name
    return click.argument(label, metavar=label.upper(), type=_type(param))


def _option(param: Param) -> Decorator:
    flag = f"--{param.name.replace('_', '-')}"
    if param.kind == "boolean":
        return click.option(flag, param.argument, is_flag=True, help=param.about)
    about = f"{param.about} The option may be repeated." if param.many else param.about
    split = _split(param) if param.many and param.options else None
    return click.option(
        flag,
        param.argument,
        type=click.STRING if split else _type(param),
        callback=split,
        metavar=f"[{'|'.join(param.options)}]" if split else None,
        shell_complete=_complete(param) if split else None,
        default=None if param.many else param.default,
        multiple=param.many,
        show_default=not param.many and param.default is not None,
        help=about,
    )


def _split(param: Param) -> Callable[..., tuple[str, ...]]:
    """Takes several values at once, cut by commas, as a query does."""
    choice = click.Choice(list(param.options))

    def split(ctx: click.Context, option: click.Parameter, given: Sequence[str]) -> tuple[str, ...]:
        words = [word.strip() for each in given for word in each.split(",") if word.strip()]
        return tuple(choice.convert(word, option, ctx) for word in words) or param.default or ()

    return split


def _complete(param: Param) -> Callable[..., list[str]]:
    return lambda ctx, option, begun: [each for each in param.options if each.startswith(begun)]  # noqa: ARG005  # click's signature


def _type(param: Param) -> click.ParamType[Any]:
    if param.options:
        return click.Choice(list(param.options))
    least = param.least  # the upper bound is meant for a shared server
    if param.kind == "integer":
        return click.IntRange(min=None if least is None else int(least))
    if param.kind == "number":
        return click.FloatRange(min=least)
    return click.STRING


def _help(question: Question) -> str:
    """The first sentence as a paragraph, as in the list of commands; then the other sentences."""
    first, dot, more = question.about.partition(". ")
    return f"{first}.\n\n{more}" if dot else question.about


def _epilog(question: Question, notes: str) -> str:
    lines = "\n".join(f"  tracklog {example}" for example in question.examples)
    examples = f"\b\nExamples:\n{lines}" if lines else ""
    return "\n\n".join(filter(None, (examples, f"\b\n{notes}" if notes else "")))


def _fields(answer: Any, call: QuestionCall) -> None:
    """A table of rows, or the fields of one answer, one below the other."""
    row = call.question.row
    if row is None:
        for each in fields(answer):
            click.echo(
                f"{each.name:<18}  {terminal.printable(_table.cell(getattr(answer, each.name)))}"
            )
        return
    columns = [
        _table.Column(each.name.replace("_", " "), _reader(each.name), rank=n, cut=16)
        for n, each in enumerate(fields(row))
    ]
    _table.put(answer, columns, "nothing; `tracklog runs` shows what was recorded")


def _reader(name: str) -> Callable[[Any], Any]:
    return lambda row: getattr(row, name)
