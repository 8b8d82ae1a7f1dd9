"""What any importer must do."""

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import orjson

from tracklog.dialects.checking import checker
from tracklog.formats.importers import Importer, ImportReport, SourcePosition, SourceReading
from tracklog.home import registry
from tracklog.model.event import Event


def lines_of_file(
    importer: Importer, path: Path, after: SourcePosition | None = None, *, final: bool = True
) -> tuple[list[bytes], SourcePosition, ImportReport]:
    """The lines of a file from an offset on, the offset reached, and the report."""
    reading = SourceReading(importer, path)
    lines: list[bytes] = []
    place = SourcePosition()
    for batch in reading.lines(after, final=final):
        lines += batch.lines
        lines += [line for _, line in batch.quoted]
        place = SourcePosition(**orjson.loads(orjson.dumps(batch.place.as_json())))
    return lines, place, reading.report


def built(samples: Path, where: Path) -> Path:
    """A copy of samples that can be damaged; a database that is given as SQL is created."""
    shutil.copytree(samples, where)
    for path in sorted(each for each in where.rglob("*") if each.is_file()):
        path.chmod(0o600)  # a sample may be read-only where it came from
        if path.suffix == ".sql":
            with closing(sqlite3.connect(path.with_suffix(""))) as made:
                made.executescript(path.read_text())
            path.unlink()
    return where


class ImporterSuite:
    """The tests of every importer with its samples, complete and damaged; subclass it and name them."""

    importer: Importer
    samples: Path
    """A folder of files that it recognises."""
    rounds = 12
    """How often each sample is damaged."""

    def files(self, where: Path) -> list[Path]:
        """The samples, copied to a place where they can be damaged."""
        root = built(self.samples, where / "samples")
        paths = [path for path in sorted(root.rglob("*")) if path.is_file()]
        return [path for path in paths if self.recognised(path)]

    def recognised(self, path: Path) -> bool:
        return self.importer.recognise(path, path.read_bytes()[: 64 << 10]) > 0

    def test_it_recognises_its_samples(self, tmp_path: Path) -> None:
        assert self.files(tmp_path)

    def test_the_intake_accepts_every_line(self, tmp_path: Path) -> None:
        for path in self.files(tmp_path):
            self._check(lines_of_file(self.importer, path)[0])

    def test_reading_twice_gives_the_same_lines(self, tmp_path: Path) -> None:
        for path in self.files(tmp_path):
            assert lines_of_file(self.importer, path)[0] == lines_of_file(self.importer, path)[0]

    def test_no_two_lines_have_one_id(self, tmp_path: Path) -> None:
        for path in self.files(tmp_path):
            bodies = [orjson.loads(line) for line in lines_of_file(self.importer, path)[0]]
            by_id: dict[str, object] = {}
            for body in bodies:
                body.pop("origin", None)
                if "id" in body:
                    assert by_id.setdefault(body["id"], body) == body

    def test_neither_path_nor_offset_is_in_an_id(self, tmp_path: Path) -> None:
        for path in self.files(tmp_path):
            before = _ids(lines_of_file(self.importer, path)[0])
            moved = tmp_path / "moved"
            shutil.copytree(tmp_path / "samples", moved)
            there = moved / path.relative_to(tmp_path / "samples")
            assert _ids(lines_of_file(self.importer, there)[0]) == before
            shutil.rmtree(moved)

    def test_a_prefix_and_then_the_rest_give_the_lines_of_the_complete_file(
        self, tmp_path: Path
    ) -> None:
        random = Random(1)  # noqa: S311  # damage, not secrets
        for path in self.files(tmp_path):
            data = path.read_bytes()
            lines = lines_of_file(self.importer, path)[0]
            for _ in range(self.rounds):
                path.write_bytes(data[: random.randrange(len(data) + 1)])
                first, place, _ = lines_of_file(self.importer, path, final=False)
                path.write_bytes(data)
                rest, _, _ = lines_of_file(self.importer, path, place)
                assert current(first + rest) == current(lines)

    def test_whatever_is_cut_shuffled_or_flipped_nothing_raises(self, tmp_path: Path) -> None:
        random = Random(2)  # noqa: S311  # damage, not secrets
        for path in self.files(tmp_path):
            data = path.read_bytes()
            for _ in range(self.rounds):
                path.write_bytes(damaged(data, random))
                self._check(lines_of_file(self.importer, path)[0])
            path.write_bytes(data)

    def test_whatever_fields_are_missing_new_or_of_another_type_nothing_raises(
        self, tmp_path: Path
    ) -> None:
        random = Random(3)  # noqa: S311  # damage, not secrets
        for path in self.files(tmp_path):
            data = path.read_bytes()
            for _ in range(self.rounds):
                path.write_bytes(altered(data, random))
                self._check(lines_of_file(self.importer, path)[0])
            path.write_bytes(data)

    def _check(self, lines: list[bytes]) -> None:
        check = checker(registry.dialect("tracklog"))
        for line in lines:
            if b'"origin"' in line:  # else it is quoted, in a dialect of its own
                assert isinstance(check(line), Event), line


def current(lines: list[bytes]) -> list[bytes]:
    """The lines that count, in order: each once; of a record that changed, those of the last
    content, in any order.
    """
    bodies = [orjson.loads(line) for line in lines]
    last = {
        (body["run"], body["origin"]["record"]): body["origin"]["raw"]
        for body in bodies
        if body.get("origin", {}).get("revised")
    }
    if not last:
        return lines
    current_lines = {
        line
        for line, body in zip(lines, bodies, strict=True)
        if not body["origin"].get("revised")
        or last[body["run"], body["origin"]["record"]] == body["origin"]["raw"]
    }
    return sorted(current_lines)


def _ids(lines: list[bytes]) -> list[str | None]:
    return [orjson.loads(line).get("id") for line in lines]


ODD: tuple[Any, ...] = (
    None,
    0,
    -1,
    1.5,
    True,
    "",
    [],
    {},
    ["a"],
    {"a": 1},
    10**18,
    "2026-13-45T99:99:99Z",
)
"""Values that a field may have in another version of a program."""


def altered(data: bytes, random: Random) -> bytes:
    """JSON, or lines of it, as another version might write it; anything else is unchanged."""
    try:
        return orjson.dumps(_altered(orjson.loads(data), random))
    except orjson.JSONDecodeError:
        return b"\n".join(_altered_line(line, random) for line in data.split(b"\n"))


def _altered_line(line: bytes, random: Random) -> bytes:
    try:
        return orjson.dumps(_altered(orjson.loads(line), random))
    except orjson.JSONDecodeError:
        return line


def _altered(value: Any, random: Random) -> Any:
    objects = [each for each in _objects(value) if each]
    for fields in random.sample(objects, min(len(objects), random.randrange(3))):
        key = random.choice(list(fields))
        match random.randrange(4):
            case 0:
                del fields[key]
            case 1:
                fields[key] = random.choice(ODD)
            case 2:
                fields["added"] = random.choice(ODD)
            case _ if isinstance(fields[key], str):
                fields[key] = f"new {fields[key]}"
    return value


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    """Every object in a value, itself included."""
    if isinstance(value, dict):
        yield value
    for each in (
        value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    ):
        yield from _objects(each)


def damaged(data: bytes, random: Random) -> bytes:
    """Bytes to which something happened: cut, shuffled by lines, flipped, filled with NUL."""
    broken = bytearray(data)
    match random.randrange(5):
        case 0:
            return data[: random.randrange(len(data) + 1)]
        case 1:
            lines = data.split(b"\n")
            random.shuffle(lines)
            return b"\n".join(lines)
        case 2:
            for _ in range(random.randrange(1, 30)):
                broken[random.randrange(len(broken))] = random.randrange(256)
            return bytes(broken)
        case 3:
            start = random.randrange(len(data))
            return data[:start] + b"\0" * random.randrange(1, 500) + data[start:]
        case _:
            start = random.randrange(len(data))
            return data[:start] + data[start + random.randrange(200) :]
