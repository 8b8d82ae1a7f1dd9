"""Prints each requirement with the tests that prove it; fails on an id that is none."""

import io
import re
import sys
from collections import defaultdict
from contextlib import redirect_stdout
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ID = re.compile(r"\b(?:KAHN|WOP|RALPH|BOWL|AWF)-\d+\b")


def requirements() -> dict[str, str]:
    """Every requirement's sentence, by its id."""
    lines = (ROOT / "tests/requirements.md").read_text().splitlines()
    matches = (re.fullmatch(r"- ([A-Z]+-\d+): (.*)", line) for line in lines)
    return {match[1]: match[2] for match in matches if match}


class Marked:
    """Collects which test carries which id, as a pytest plugin."""

    def __init__(self) -> None:
        self.tests: dict[str, set[str]] = defaultdict(set)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            for mark in item.iter_markers("requirement"):
                for id in mark.args:
                    self.tests[id].add(item.nodeid.split("[")[0])


def typescript(tests: dict[str, set[str]]) -> None:
    """In TypeScript the ids stand in brackets at the start of a test's name."""
    for folder in ("contracts/ts", "console"):
        for path in sorted((ROOT / folder).glob("**/*.test.ts*")):
            if "node_modules" in path.parts:
                continue
            for named in re.findall(
                r"""(?:test|it)(?:\.each\([^)]*\))?\(\s*["'`]\[([^\]]+)\] ([^"'`]*)""",
                path.read_text(),
            ):
                for id in ID.findall(named[0]):
                    tests[id].add(f"{path.relative_to(ROOT)}::{named[1]}")


def main() -> int:
    known, marked = requirements(), Marked()
    with redirect_stdout(io.StringIO()) as printed:
        code = pytest.main(["--collect-only", str(ROOT / "tests")], plugins=[marked])
    if code:
        print(printed.getvalue()[-2000:], "the tests cannot be collected", file=sys.stderr)
        return 1
    typescript(marked.tests)
    for id, sentence in known.items():
        tests = sorted(marked.tests.get(id, ()))
        print(f"{'proven' if tests else 'open  '}  {id:<9} {sentence}")
        for test in tests:
            print(f"{'':18} {test}")
    proven = [id for id in known if id in marked.tests]
    for family in dict.fromkeys(id.split("-")[0] for id in known):
        of = [id for id in known if id.startswith(f"{family}-")]
        print(f"{family:<6} {sum(id in marked.tests for id in of):>3} of {len(of)}")
    print(f"{'all':<6} {len(proven):>3} of {len(known)}")
    unknown = sorted(marked.tests.keys() - known)
    if unknown:
        print(f"no such requirement: {', '.join(unknown)}", file=sys.stderr)
    return bool(unknown)


if __name__ == "__main__":
    sys.exit(main())
