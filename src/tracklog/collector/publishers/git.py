"""`git:/path/of/a/clone`: a commit for each checkpoint, which is pushed if there is a remote."""

import subprocess
from pathlib import Path

from tracklog.collector.publishers import NotPublished, check_continued
from tracklog.journal.archive.objects import FolderObjects
from tracklog.journal.checkpoints.checkpoint import Checkpoint, Checkpoints
from tracklog.journal.checkpoints.notes import Note, Signature

_PATIENCE = 60.0


class GitPublisher:
    """Commits the file `checkpoint` of a clone."""

    def __init__(self, place: str) -> None:
        self._folder = Path(place).expanduser()

    def publish(self, note: Note, checkpoints: Checkpoints) -> list[Signature]:
        self._git("rev-parse", "--git-dir")  # before a file is written
        path = self._folder / "checkpoint"
        old = path.read_bytes() if path.is_file() else None
        check_continued(str(path), old, note, checkpoints)
        FolderObjects(self._folder).put("checkpoint", str(note).encode())
        self._git("add", "checkpoint")
        if self._git("status", "--porcelain", "checkpoint"):
            stated = Checkpoint.of(note.text)
            self._git("commit", "-m", f"{stated.origin}: {stated.size} records", "checkpoint")
        if self._git("remote"):
            self._git("push")
        return []

    def _git(self, *words: str) -> str:
        command = ["git", "-C", str(self._folder), *words]
        try:
            done = subprocess.run(  # noqa: S603  # fixed words, and the folder that was named
                command, capture_output=True, text=True, check=False, timeout=_PATIENCE
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise NotPublished(f"git cannot be run: {error}", "install git") from error
        if done.returncode:
            last = (done.stderr or done.stdout).strip().rpartition("\n")[2]
            raise NotPublished(
                f"the checkpoint was not committed to {self._folder}: {last}",
                "name a clone in which this user can commit and push",
            )
        return done.stdout


publisher = GitPublisher
