"""A rule that holds for many files: one test asks it of all, and names all that break it."""

from collections.abc import Callable, Iterable
from typing import Any


def for_each(cases: Iterable[Any]) -> Callable[[Callable[[Any], None]], Callable[[], None]]:
    """A case takes less time than pytest takes for a test, so all cases are one test."""

    def of_all(rule: Callable[[Any], None]) -> Callable[[], None]:
        def test() -> None:
            asked, broken = 0, {}
            for asked, case in enumerate(cases, 1):  # noqa: B007  # the last number counts them
                try:
                    rule(case)
                except AssertionError as error:
                    broken[str(case)] = str(error)
            text = "".join(f"\n{case}: {error}" for case, error in broken.items())
            assert not broken, f"{len(broken)} of {asked} break this rule:{text}"
            assert asked, "a rule that was asked of nothing proves nothing"

        test.__name__, test.__doc__, test.__module__ = rule.__name__, rule.__doc__, rule.__module__
        return test

    return of_all
