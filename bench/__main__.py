"""Runs every benchmark, or those that are named: `python bench check emit`.

Each in a process of its own: what one has in memory is not counted for the next.
"""

import ast
import subprocess
import sys
from pathlib import Path

NOT_BENCHES = {"__main__", "corpus", "timing"}
ON_REQUEST = {"peers"}
"""What installs more than a bench should by itself."""


def main() -> int:
    folder = Path(__file__).parent
    names = sorted(
        path.stem for path in folder.glob("*.py") if path.stem not in NOT_BENCHES | ON_REQUEST
    )
    worst = 0
    for name in sys.argv[1:] or names:
        path = folder / f"{name}.py"
        about = ast.get_docstring(ast.parse(path.read_text())) or ""
        print(f"\n{name}: {about.splitlines()[0]}", flush=True)
        worst = max(worst, subprocess.run([sys.executable, str(path)], check=False).returncode)
    return worst


sys.exit(main())
