"""The command line: one command per file, and one per question, each a thin call to the library.

To add one: a question in `tracklog.answers` gets a verb without a file here; or a file here named
after the verb, with a click command called `command`. Slow imports are inside the command, so that
`tracklog --version` stays fast.
"""

import keyword
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import click

from tracklog import __version__
from tracklog.cli._terminal import Harmless, colour, print_error
from tracklog.model.errors import ArchiveDamaged, NotExtended, NotSigned, TracklogError

FAILED_CHECK = 1
USAGE = 2
INTERRUPTED = 130
READER_GONE = 141
STDERR = 2


class ReaderGone(Exception):
    """The reader of our output closed the pipe, as `head` does; this is no error."""


@contextmanager
def _pipe_errors() -> Iterator[None]:
    """Click would report a closed pipe as a failure, with the exit code of a refused line."""
    try:
        yield
    except BrokenPipeError:
        raise ReaderGone from None


def _files() -> set[str]:
    """The verbs that have a file of their own."""
    return {
        module.name.rstrip("_").replace("_", "-")  # a verb may be a keyword of Python
        for module in iter_modules(__path__)
        if not module.name.startswith("_")
    }


class Verbs(click.Group):
    """The verbs of the folder and those of the questions, each imported when it is needed."""

    def make_context(self, *arguments: Any, **extra: Any) -> click.Context:
        with _pipe_errors():
            return super().make_context(*arguments, **extra)

    def invoke(self, ctx: click.Context) -> object:
        try:
            with _pipe_errors():
                return super().invoke(ctx)
        except TracklogError as error:
            from tracklog.cli._home import same_record

            error.hint = same_record(error.hint)
            raise

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # click's signature
        from tracklog.answers.registry import question_names

        return sorted({*_files(), *question_names()})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in _files():
            name = cmd_name.replace("-", "_")
            module = import_module(f"{__name__}.{name}{'_' if keyword.iskeyword(name) else ''}")
            command: click.Command = module.command
            return command
        if cmd_name in self.list_commands(ctx):
            from tracklog.cli._question import verb

            return verb(cmd_name)
        return None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The verbs in their groups, each with its complete first sentence; click would cut it."""
        from tracklog.cli._groups import grouped

        names = self.list_commands(ctx)
        verbs = {name: self.get_command(ctx, name) for name in names}
        width = max(map(len, names))
        for group, members in grouped(names):
            title = f"{group.name} ({group.about})" if group.about else group.name
            with formatter.section(title):
                formatter.write_dl(
                    [
                        (name.ljust(width), verb.get_short_help_str(1000))
                        for name in members
                        if (verb := verbs[name]) is not None
                    ]
                )

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError:
            from difflib import get_close_matches

            near = get_close_matches(args[0], self.list_commands(ctx), n=1)
            hint = f"; did you mean `tracklog {near[0]}`?" if near else ""
            raise click.UsageError(f"there is no command {args[0]!r}{hint}", ctx) from None


@click.group(
    cls=Verbs,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    subcommand_metavar="COMMAND [ARGS]...",
    epilog="`tracklog COMMAND --help` shows examples.",
)
@click.version_option(__version__, message="tracklog %(version)s")
def tracklog() -> None:
    """A flight recorder for agent fleets."""


def main() -> None:
    """Run the command line.

    Exit codes do not change between versions: 0 success; 1 bad input or a failed check; 2 wrong
    usage, or a file or server that does not work; 130 interrupted; 141 the reader of the output
    has closed it. `exec` has the exit code of its command, or 124 after a `--timeout`.
    """
    _open_streams()
    code = _exit_code(_run)
    try:
        sys.stdout.flush()
    except OSError:
        code = max(code, _exit_code(sys.stdout.flush)) if code < USAGE else code
        _give_up_output()
    sys.exit(code)


def _run() -> object:
    try:
        return tracklog.main(prog_name="tracklog", standalone_mode=False, color=colour())
    except SystemExit as stop:
        return stop.code


def _print_usage(error: click.UsageError) -> None:
    """Print a usage error like every other error, with a hint.

    A path that does not exist is not a usage error.
    """
    param = error.param if isinstance(error, click.BadParameter) else None
    message = error.format_message().removesuffix(".")
    hint = "`tracklog --help` lists the commands"
    if error.ctx is not None:
        hint = f"`{error.ctx.command_path} --help` shows how"
        missing = isinstance(error, click.MissingParameter)
        if param is not None and isinstance(param.type, click.Path) and not missing:
            message = error.message.removesuffix(".")
            hint = f"name one that exists and that you can read; {hint}"
        else:
            click.echo(error.ctx.get_usage(), err=True, color=error.ctx.color)
    shouted = message[1:2].isupper()
    print_error(message if shouted else f"{message[:1].lower()}{message[1:]}", hint)


def _exit_code(action: Callable[[], object]) -> int:
    """The exit code of an action; an error is printed with a hint."""
    try:
        code = action()
    except click.exceptions.Exit as stop:
        code = stop.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True, color=colour())
        code = USAGE
    except click.UsageError as error:
        _print_usage(error)
        code = USAGE
    except click.ClickException as error:
        print_error(error.message)
        code = USAGE
    except (ArchiveDamaged, NotExtended, NotSigned) as error:
        print_error(error.message, error.hint)
        code = FAILED_CHECK
    except TracklogError as error:
        print_error(error.message, error.hint)
        code = USAGE
    except (KeyboardInterrupt, click.Abort):
        code = INTERRUPTED
    except (ReaderGone, BrokenPipeError):
        _give_up_output()
        code = READER_GONE
    except OSError as error:
        print_error(
            f"{error.filename or 'reading or writing failed'}: {error.strerror or error}",
            "check that it exists, its owner and mode, and the free space on its disk",
        )
        code = USAGE
    return code if isinstance(code, int) else 0


def _open_streams() -> None:
    """Open closed standard streams to /dev/null: else a file of the journal could get their number."""
    while (fd := os.open(os.devnull, os.O_RDWR)) <= STDERR:
        pass
    os.close(fd)
    sys.stdin = sys.stdin or open(os.devnull)  # noqa: SIM115, PTH123  # open until we end
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115, PTH123
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115, PTH123
    sys.stdout, sys.stderr = Harmless(sys.stdout), Harmless(sys.stderr)


def _give_up_output() -> None:
    """Send the remaining output to /dev/null: the reader is gone."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
