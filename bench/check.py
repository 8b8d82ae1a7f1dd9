"""What checking a line costs, against parsing alone and against building models."""

import orjson
from jsonschema_rs import Draft202012Validator

from corpus import corpus
from timing import goal, interleaved, micros
from tracklog.dialects.checking import batch_checker, checker
from tracklog.dialects.schemas import schema_of
from tracklog.home import registry

COUNT = 100_000
BATCH = 64


def each(do, lines) -> None:
    for line in lines:
        do(line)


def pairs(jobs) -> None:
    for do, line in jobs:
        do(line)


def validated(shapes) -> None:
    loads = orjson.loads
    for valid, line in shapes:
        valid(loads(line))


def main() -> None:
    mixed = corpus(COUNT)
    lines = [line for _, line in mixed]
    sizes = sorted(map(len, lines))
    print(f"{COUNT:,} events, {sizes[0]} to {sizes[-1]} bytes, median {sizes[COUNT // 2]}")
    dialects = {name: registry.dialect(name) for name in {name for name, _ in mixed}}
    checks = {name: checker(dialect) for name, dialect in dialects.items()}
    jobs = [(checks[name], line) for name, line in mixed]
    bodies = [(dialects[name], orjson.loads(line)) for name, line in mixed]
    models = [
        (dialect.kinds.get(body[dialect.kind_key], dialect.frame).model_validate_json, line)
        for (dialect, body), line in zip(bodies, lines, strict=True)
    ]
    assert all(hasattr(check(line), "body") for check, line in jobs), "the corpus must be good"
    compiled = {
        shape: Draft202012Validator(schema_of(shape), validate_formats=True).is_valid
        for shape in {build.__self__ for build, _ in models}
    }
    shapes = [(compiled[build.__self__], line) for build, line in models]
    del bodies
    alike: dict[str, list[bytes]] = {}
    for name, line in mixed:
        alike.setdefault(name, []).append(line)
    check_all = {name: batch_checker(dialect) for name, dialect in dialects.items()}
    batches = [
        (check_all[name], of[at : at + BATCH])
        for name, of in alike.items()
        for at in range(0, len(of), BATCH)
    ]

    times = interleaved(
        {
            "orjson.loads": lambda: each(orjson.loads, lines),
            "parse and validate": lambda: validated(shapes),
            "check": lambda: pairs(jobs),
            "check in batches": lambda: pairs(batches),
            "pydantic": lambda: pairs(models),
        }
    )
    for name, seconds in times.items():
        print(f"  {name:<18} {seconds / COUNT * 1e6:6.2f} µs per event")
    parse, valid, whole = (times[k] for k in ("orjson.loads", "parse and validate", "check"))
    parts = {"parse": parse, "validate": valid - parse, "envelope and event": whole - valid}
    shares = ", ".join(f"{name} {part / whole:.0%}" for name, part in parts.items())
    print(f"  where a check's time goes: {shares}")
    said = {name: micros(seconds, COUNT) for name, seconds in times.items()}
    goal(
        "check in batches / orjson.loads",
        times["check in batches"] / parse,
        at_most=2.2,
        floor=said["orjson.loads"],
        ours=said["check in batches"],
    )
    goal(
        "pydantic models / check",
        times["pydantic"] / whole,
        at_least=1.1,
        peer=said["pydantic"],
        ours=said["check"],
    )


if __name__ == "__main__":
    main()
