"""A progress bar on a terminal."""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from tracklog.cli._terminal import drawn


@contextmanager
def progress_bar(word: str, least: int = 0) -> Iterator[Callable[[int, int], None]]:
    """Show progress on a terminal, when enough is left to do."""
    bars: list[Callable[[int, int], None]] = []
    with ExitStack() as stack:

        def show(done: int, total: int) -> None:
            if not bars and total - done >= least and sys.stderr.isatty():
                from rich.console import Console
                from rich.progress import Progress

                bar = stack.enter_context(
                    Progress(console=Console(file=drawn(sys.stderr)), transient=True)
                )
                task = bar.add_task(word)
                bars.append(lambda done, total: bar.update(task, completed=done, total=total))
            for update in bars:
                update(done, total)

        yield show
