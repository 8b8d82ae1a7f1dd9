"""Runs every benchmark, or those that are named: `python bench check emit`.

Each in a process of its own: what one has in memory is not counted for the next.
"""

import ast
import subprocess
import sys
from pathlib import Path

NOT_BENCHES = {"__main__", "against", "corpus", "costs", "timing"}
ON_REQUEST = {"peers"}
"""What installs more than a bench should by itself."""


def main() -> int:
    folder = Path(__file__).parent
    names = sorted(
        path.stem for path in folder.glob("*.py") if path.stem not in NOT_BENCHES | ON_REQUEST
    )
    worst, met, short = 0, 0, []
    for name in sys.argv[1:] or names:
        path = folder / f"{name}.py"
        about = ast.get_docstring(ast.parse(path.read_text())) or ""
        print(f"\n{name}: {about.splitlines()[0]}", flush=True)
        with subprocess.Popen([sys.executable, str(path)], stdout=subprocess.PIPE) as bench:
            assert bench.stdout is not None
            for line in map(bytes.decode, bench.stdout):
                print(line, end="", flush=True)
                met += line.endswith(" met\n")
                short += [f"{name}: {line.strip()}"] if line.endswith(" SHORT\n") else []
        worst = max(worst, bench.returncode)
    print(f"\n{met} goals met, {len(short)} short", *short, sep="\n  ")
    return worst


sys.exit(main())
