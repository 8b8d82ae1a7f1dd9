"""Fuzz what reads bytes from outside, guided by coverage, and print a table.

    fuzz.py [--inputs N] [--seed N] [--corpus DIR] [TARGET ...]

An input that reaches a line of ours that no other one reached is mutated further; with --corpus it
is stored there, so a later call goes on. What makes a target fail is stored beside it and counted.
Exit code 1 if anything failed.
"""

import argparse
import contextlib
import random
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import tracklog
from fuzz_requests import grpc, http, http_seeds, mcp, mcp_seeds, wire, wire_seeds
from fuzz_sources import SOURCES, otlp_seeds
from tracklog.dialects.checking import checker_for
from tracklog.home import registry
from tracklog.journal import merkle
from tracklog.journal.checkpoints.checkpoint import Checkpoint
from tracklog.journal.checkpoints.notes import Signer, Verifier, read_note
from tracklog.journal.checkpoints.witness import Witness
from tracklog.journal.frame import record
from tracklog.model.errors import TracklogError

SAMPLES = Path(__file__).parents[1] / "tests" / "samples"
SOURCE = str(Path(tracklog.__file__).parent)
WORDS = [
    b"\0",
    b"\n\n",
    b'"',
    b"{}",
    b"[]",
    b"null",
    b"-1",
    b"1e999",
    b"9" * 40,
    b"\xff\xfe",
    b"\xed\xa0\x80",
]
LONGEST = 1 << 14

Target = Callable[[bytes], None]


def lines(stack: contextlib.ExitStack) -> Target:
    """The check of a line of any dialect."""
    del stack
    check = checker_for(registry.dialects())

    def read(data: bytes) -> None:
        for line in data.split(b"\n"):
            check(line)

    return read


def frames(stack: contextlib.ExitStack) -> Target:
    """Records and lines of a chain, as a damaged disk returns them."""
    del stack

    def read(data: bytes) -> None:
        record(data)
        merkle.read(data)

    return read


def notes(stack: contextlib.ExitStack) -> Target:
    """Checkpoints and keys."""
    del stack

    def read(data: bytes) -> None:
        for reader in (
            lambda: Checkpoint.of(read_note(data).text),
            lambda: Verifier.of(data.decode("latin-1")),
        ):
            with contextlib.suppress(TracklogError):
                reader()

    return read


def witness(stack: contextlib.ExitStack) -> Target:
    """Requests to a witness."""
    folder = stack.enter_context(tempfile.TemporaryDirectory())
    made = stack.enter_context(Witness(Path(folder)))
    made.trust(Signer("j", 1, bytes(32)).verifier, "ada")

    def ask(data: bytes) -> None:
        if (status := made.add(data).status) not in (200, 400, 403, 404, 409, 422):
            raise AssertionError(f"it answered {status}")

    return ask


TARGETS = {each.__name__: each for each in (lines, frames, notes, witness, http, wire, mcp, grpc)}
TARGETS |= {name: target for name, (target, _) in SOURCES.items()}


def seeds(target: str) -> list[bytes]:
    """Good inputs to begin with."""
    if target in SOURCES:
        return SOURCES[target][1]()
    files = sorted(SAMPLES.glob("dialects/*/*/*.jsonl"))[:120]
    samples = [line for path in files for line in path.read_bytes().splitlines()[:4] if line]
    key = Signer("j", 1, bytes(32))
    text = Checkpoint("j", 3, bytes(32), 1, bytes(32)).text
    note = f"{text}\n{key.sign(text)}".encode()
    if target == "notes":
        return [note, str(key.verifier).encode()]
    if target == "witness":
        return [b"old 0\n\n" + note, b"old 1\n" + b"A" * 43 + b"=\n\n" + note]
    if target == "frames":
        head = b'{"seq":1,"received":"2026-05-05T09:00:00.000Z","dialect":"awf","run":"r","event":'
        return [head + line + b"}" for line in samples[:50]] + [merkle.opened(0, bytes(32))[:-1]]
    if target == "http":
        return http_seeds(samples)
    if target in ("wire", "mcp"):
        return wire_seeds() if target == "wire" else mcp_seeds()
    if target == "grpc":
        return otlp_seeds()
    return samples


def mutated(data: bytes, corpus: list[bytes], chance: random.Random) -> bytes:
    """The input with a few random changes."""
    text = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 4, 8))):
        at = chance.randrange(len(text) + 1)
        kind = chance.randrange(6)
        if kind == 0 and text:
            text[at % len(text)] ^= 1 << chance.randrange(8)
        elif kind == 1:
            text[at:at] = chance.choice(WORDS)
        elif kind == 2:
            del text[at : at + chance.randrange(1, 9)]
        elif kind == 3:
            other = chance.choice(corpus)
            begin = chance.randrange(len(other) + 1)
            text[at : at + chance.randrange(9)] = other[begin : begin + chance.randrange(1, 65)]
        elif kind == 4:
            text[at:at] = text[at : at + chance.randrange(1, 33)]
        else:
            text[at : at + 1] = bytes([chance.randrange(256)])
    return bytes(text[:LONGEST])


class Coverage:
    """Collects the lines of ours that run, in every thread that begins after it was made."""

    def __init__(self) -> None:
        self.seen: set[tuple[CodeType, int]] | None = None
        threading.settrace(self._trace)

    def _trace(self, frame: FrameType, event: str, _value: Any) -> Any:
        seen = self.seen
        if seen is None:
            return None
        if event == "call":
            return self._trace if frame.f_code.co_filename.startswith(SOURCE) else None
        seen.add((frame.f_code, frame.f_lineno))
        return self._trace

    @contextlib.contextmanager
    def traced(self, seen: set[tuple[CodeType, int]]) -> Iterator[None]:
        """Collect what runs now."""
        self.seen = seen
        sys.settrace(self._trace)
        try:
            yield
        finally:
            sys.settrace(None)
            self.seen = None

    def close(self) -> None:
        """Let threads that begin later be."""
        threading.settrace(None)  # type: ignore[arg-type]  # the default, as documented


def fuzz(
    target: str, inputs: int, seed: int, folder: Path | None, traced_every: int = 1
) -> dict[str, int]:
    """Run so many inputs; what happened, as counts. Only some are traced, which is slow."""
    chance = random.Random(f"{target} {seed}")  # noqa: S311  # no secret
    corpus, reached, failures = seeds(target), set[tuple[CodeType, int]](), 0
    if folder is not None:
        (folder / target).mkdir(parents=True, exist_ok=True)
        corpus += [path.read_bytes() for path in sorted((folder / target).glob("*.input"))]
    begun = len(corpus)
    with contextlib.ExitStack() as stack:
        coverage = stack.enter_context(contextlib.closing(Coverage()))
        run = TARGETS[target](stack)
        for number in range(inputs):
            data = (
                corpus[number] if number < begun else mutated(chance.choice(corpus), corpus, chance)
            )
            seen: set[tuple[CodeType, int]] = set()
            kind = ""
            try:
                every = number % traced_every == 0
                with coverage.traced(seen) if every else contextlib.nullcontext():
                    run(data)
            except Exception as error:  # noqa: BLE001  # this is what is looked for
                failures, kind = failures + 1, ".failure"
                place = traceback.extract_tb(error.__traceback__)[-1]
                where = f"{Path(place.filename).name}:{place.lineno}"
                print(f"{target}: {where}: {data[:200]!r}: {error!r}"[:1500], file=sys.stderr)
            if not seen <= reached and number >= begun:
                corpus.append(data)
                kind = kind or ".input"
            reached |= seen
            if kind and folder is not None:
                (folder / target / (sha256(data).hexdigest()[:16] + kind)).write_bytes(data)
    return {"inputs": inputs, "corpus": len(corpus), "lines": len(reached), "failures": failures}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("targets", nargs="*", choices=[*TARGETS, []], metavar="TARGET")
    parser.add_argument("--inputs", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--corpus", type=Path)
    given = parser.parse_args(arguments)
    print(
        "| target | inputs | corpus | lines reached | failures | seconds |\n|---|---|---|---|---|---|"
    )
    failed = False
    for target in given.targets or TARGETS:
        start = time.monotonic()
        found = fuzz(target, given.inputs, given.seed, given.corpus)
        row = [
            target,
            *(f"{count:,}" for count in found.values()),
            f"{time.monotonic() - start:.0f}",
        ]
        print(f"| {' | '.join(row)} |", flush=True)
        failed = failed or found["failures"] > 0
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
