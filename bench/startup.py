"""How long `tracklog --version` takes to start, against importing click alone."""

import subprocess
import sys

from timing import goal, interleaved


def run(*arguments: str) -> None:
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)


def main() -> None:
    times = interleaved(
        {
            "import click": lambda: run("-c", "import click"),
            "tracklog --version": lambda: run("-m", "tracklog", "--version"),
        },
    )
    for name, seconds in times.items():
        print(f"  {name:<20} {seconds * 1000:6.1f} ms")
    goal(
        "tracklog --version / import click",
        times["tracklog --version"] / times["import click"],
        at_most=2,
        floor=f"{times['import click'] * 1000:.0f} ms",
        ours=f"{times['tracklog --version'] * 1000:.0f} ms",
    )


if __name__ == "__main__":
    main()
