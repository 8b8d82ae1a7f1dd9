"""Checks the sample flights of every dialect, and shows what is odd in one of them."""

import subprocess
import sys
from pathlib import Path

SAMPLES = Path(__file__).parent.parent / "tests/samples/dialects"


def tracklog(*arguments: str | Path) -> int:
    words = [str(argument) for argument in arguments]
    shown = " ".join(word.removeprefix(f"{SAMPLES.parent.parent.parent}/") for word in words)
    print(f"\n$ tracklog {shown}", flush=True)
    return subprocess.run([sys.executable, "-m", "tracklog", *words], check=False).returncode


def main() -> int:
    codes = [tracklog("dialects")]
    for folder in sorted(SAMPLES.iterdir()):
        flight = max((folder / "good").glob("*.jsonl"), key=lambda path: path.stat().st_size)
        codes.append(tracklog("check", "--dialect", folder.name, flight))
    tracklog("check", SAMPLES / "kahn-agent/odd/thinking-to-converged@illegal-transition.jsonl")
    tracklog("check", SAMPLES / "kahn-agent/bad/statuses@to.jsonl")
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
