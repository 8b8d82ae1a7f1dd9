"""What power loss would leave of a home: the bytes that were synced, and no others."""

import shutil
from pathlib import Path

SHIM = Path(__file__).with_name("shim")


class Syncs:
    """The syncs of the commands that are started with `env`."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self.env = {"PYTHONPATH": str(SHIM), "SYNC_FOLDER": str(folder)}

    def fail(self, on: bool = True) -> None:
        self._ask("fail", on)

    def wait(self, on: bool = True) -> None:
        """Syncs of segments do not return meanwhile."""
        self._ask("wait", on)

    def begun(self) -> int:
        """How many syncs of segments that are not empty have begun."""
        lines = self._lines("begun")
        return sum(line.endswith(".jsonl") and not line.startswith("0 ") for line in lines)

    def sizes(self) -> dict[Path, int]:
        """The size of each file when it was last synced."""
        pairs = (line.split(" ", 1) for line in self._lines("synced"))
        return {Path(path): int(size) for size, path in pairs}

    def after_power_loss(self, home: Path, copy: Path) -> Path:
        """A copy of the home in which the journal has only its synced bytes."""
        sizes = self.sizes()
        shutil.copytree(home, copy, ignore=shutil.ignore_patterns("index.db*", "marks.json"))
        for path in (copy / "journal").iterdir():
            size = sizes.get(home / "journal" / path.name, 0)
            with path.open("r+b") as file:
                file.truncate(min(size, path.stat().st_size))
        return copy

    def _ask(self, word: str, on: bool) -> None:
        path = self.folder / word
        path.touch() if on else path.unlink(missing_ok=True)

    def _lines(self, name: str) -> list[str]:
        path = self.folder / name
        return path.read_text().splitlines() if path.exists() else []
