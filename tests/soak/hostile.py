"""Hostile inputs: lines and requests that were changed at random; tracebacks and 5xx are counted."""

import os
from collections import Counter
from pathlib import Path

import fuzz

CORPUS = Path(".fuzz")


def lines(_number: int) -> Counter[str]:
    """Lines of every dialect."""
    return _run("lines", 20_000)


def requests(_number: int) -> Counter[str]:
    """Requests to every route of a collector."""
    return _run("http", 2_000)


def _run(target: str, inputs: int) -> Counter[str]:
    seed = int.from_bytes(os.urandom(4), "big")
    found = fuzz.fuzz(target, inputs, seed, CORPUS, traced_every=100)
    return Counter(inputs=inputs, failures=found["failures"])
