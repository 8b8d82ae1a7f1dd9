"""Store the bodies of requests that arrive together under one sync, in a thread of their own."""

import asyncio
import contextlib
import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tracklog.intake.intake import Checked, Intake
    from tracklog.intake.verdicts import Verdicts

_LINES = 8192  # lines of a group, at most: those behind it wait for the next


class Commit:
    """One body that waits to be stored."""

    __slots__ = ("begun", "call", "done", "given_up", "on_end", "result")

    def __init__(self, call: "Checked", done: "asyncio.Future[Verdicts]") -> None:
        self.call, self.done = call, done
        self.begun = self.given_up = False
        self.result: Verdicts | Exception | None = None
        self.on_end: Callable[[], None] | None = None
        """Called in the loop when it has ended after all, where nobody waits for it any more."""


class Late(Exception):  # the name says what happened
    """A body is not stored in time; where it had not begun, it will not be."""

    def __init__(self, commit: Commit) -> None:
        super().__init__()
        self.commit = commit


class Committer:
    """While one group is synced, the bodies of the next are checked and wait here, in order."""

    def __init__(self, intake: "Intake") -> None:
        self._intake = intake
        self._waiting: SimpleQueue[Commit | None] = SimpleQueue()
        self._arrived: list[Commit] = []
        self._mutex = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="committer", daemon=True)
        self._thread.start()

    async def store(self, call: "Checked", seconds: float) -> "Verdicts":
        """The verdicts, when the body is stored; `Late` is raised where that takes too long."""
        loop = asyncio.get_running_loop()
        commit = Commit(call, loop.create_future())
        timer = loop.call_later(seconds, self._expire, commit)
        if not self._arrived:
            loop.call_soon(self._pass_on)
        self._arrived.append(commit)
        try:
            return await commit.done
        finally:
            timer.cancel()

    def _expire(self, commit: Commit) -> None:
        with self._mutex:
            commit.given_up = not commit.begun
        if not commit.done.done():
            commit.done.set_exception(Late(commit))

    def _pass_on(self) -> None:
        """What arrives in one round of the loop is stored together."""
        arrived, self._arrived = self._arrived, []
        for commit in arrived:
            self._waiting.put(commit)

    def close(self) -> None:
        """Store what was queued before, and end."""
        self._pass_on()
        self._waiting.put(None)
        self._thread.join()

    def _run(self) -> None:
        ending = False
        while not ending:
            group, ending = self._next()
            with self._mutex:
                group = [commit for commit in group if not commit.given_up]
                for commit in group:
                    commit.begun = True
            if group:
                self._commit(group)

    def _next(self) -> tuple[list[Commit], bool]:
        """The bodies that wait, and whether these are the last."""
        group: list[Commit] = []
        lines = 0
        commit = self._waiting.get()
        while commit is not None:
            group.append(commit)
            lines += len(commit.call.lines)
            if lines >= _LINES or self._waiting.empty():
                return group, False
            commit = self._waiting.get()
        return group, True

    def _commit(self, group: list[Commit]) -> None:
        try:
            results = self._intake.commit([commit.call for commit in group])
            for commit, result in zip(group, results, strict=True):
                commit.result = result
        except Exception as error:  # noqa: BLE001  # every sender gets it
            for commit in group:
                commit.result = error
        with contextlib.suppress(RuntimeError):  # the loop has ended, and nobody waits
            group[0].done.get_loop().call_soon_threadsafe(_deliver, group)


def _deliver(group: "Sequence[Commit]") -> None:
    for commit in group:
        if commit.done.done():
            if commit.on_end is not None:
                commit.on_end()
        elif isinstance(commit.result, Exception):
            commit.done.set_exception(commit.result)
        elif commit.result is not None:
            commit.done.set_result(commit.result)
