"""Runs every benchmark, or those that are named: `python bench check emit`."""

import sys
from importlib import import_module
from pathlib import Path

NOT_BENCHES = {"__main__", "corpus", "timing"}


def main() -> None:
    folder = Path(__file__).parent
    names = sorted(path.stem for path in folder.glob("*.py") if path.stem not in NOT_BENCHES)
    for name in sys.argv[1:] or names:
        print(f"\n{name}: {import_module(name).__doc__.splitlines()[0]}", flush=True)
        import_module(name).main()


main()
