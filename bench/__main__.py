"""Runs every benchmark, or those that are named: `python bench check emit`.

Each in a process of its own: what one has in memory is not counted for the next.
"""

import argparse
import ast
import subprocess
import sys
from pathlib import Path

from timing import table

NOT_BENCHES = {"__main__", "against", "corpus", "costs", "timing"}
ON_REQUEST = {"peers"}
"""What installs more than a bench should by itself."""


def main() -> int:
    folder = Path(__file__).parent
    names = sorted(
        path.stem for path in folder.glob("*.py") if path.stem not in NOT_BENCHES | ON_REQUEST
    )
    worst, rows = 0, []
    for name in _asked(folder, [*names, *sorted(ON_REQUEST)]) or names:
        path = folder / f"{name}.py"
        print(f"\n{name}: {_about(path)}", flush=True)
        with subprocess.Popen([sys.executable, str(path)], stdout=subprocess.PIPE) as bench:
            assert bench.stdout is not None
            for line in map(bytes.decode, bench.stdout):
                print(line, end="", flush=True)
                rows += [line.rstrip()] if line.endswith((" met\n", " SHORT\n")) else []
        worst = worst or bench.returncode
    print()
    table(rows)
    short = sum(row.endswith(" SHORT") for row in rows)
    print(f"\n{len(rows) - short} goals met, {short} short")
    return worst


def _asked(folder: Path, names: list[str]) -> list[str]:
    """The benchmarks that are named on the command line; its help lists them all."""
    parser = argparse.ArgumentParser(
        prog="python bench",
        description="Run every benchmark, or those that are named.",
        epilog="\n".join(f"  {name:<16}{_about(folder / f'{name}.py')}" for name in names),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    about = f"of those below; without any, all but {', '.join(sorted(ON_REQUEST))}"
    parser.add_argument("name", nargs="*", metavar="NAME", help=about)
    asked: list[str] = parser.parse_args().name
    for name in asked:
        if name not in names:
            parser.error(f"there is no benchmark {name!r}; there are: {', '.join(names)}")
    return asked


def _about(path: Path) -> str:
    return (ast.get_docstring(ast.parse(path.read_text())) or "").partition("\n")[0]


sys.exit(main())
