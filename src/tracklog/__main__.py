"""`python -m tracklog` is `tracklog`."""

import sys


def main() -> None:
    """Runs the command line; who interrupts it while it is still being read sees no traceback."""
    try:
        from tracklog.cli import main as run  # noqa: PLC0415  # the longest part of a start
    except KeyboardInterrupt:
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
