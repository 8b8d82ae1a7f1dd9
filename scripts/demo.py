"""Checks the sample flights of every dialect, and shows what is odd in one of them."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
SAMPLES = Path("tests/samples/dialects")


def tracklog(*arguments: str | Path) -> int:
    words = [str(argument) for argument in arguments]
    print(f"\n$ tracklog {' '.join(words)}", flush=True)
    command = [sys.executable, "-m", "tracklog", *words]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


def main() -> int:
    codes = [tracklog("dialects")]
    for folder in sorted((ROOT / SAMPLES).iterdir()):
        flight = max((folder / "good").glob("*.jsonl"), key=lambda path: path.stat().st_size)
        codes.append(tracklog("check", "--dialect", folder.name, flight.relative_to(ROOT)))
    tracklog("check", SAMPLES / "kahn-agent/odd/thinking-to-converged@illegal-transition.jsonl")
    tracklog("check", SAMPLES / "kahn-agent/bad/statuses@to.jsonl")
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
