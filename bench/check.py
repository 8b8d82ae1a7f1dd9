"""What the check at the door costs, against parsing alone and against building models."""

import orjson

from corpus import corpus
from timing import goal, interleaved
from tracklog import registry
from tracklog.check import checker

COUNT = 200_000


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
    del bodies

    loads = orjson.loads
    times = interleaved(
        {
            "orjson.loads": lambda: [loads(line) for line in lines] and None,
            "check": lambda: [check(line) for check, line in jobs] and None,
            "pydantic": lambda: [build(line) for build, line in models] and None,
        },
        rounds=5,
    )
    for name, seconds in times.items():
        print(f"  {name:<14} {seconds / COUNT * 1e6:6.2f} µs per event")
    goal("check a line / orjson.loads", times["check"] / times["orjson.loads"], at_most=2.8)
    goal("pydantic models / check", times["pydantic"] / times["check"], at_least=1.1)


if __name__ == "__main__":
    main()
