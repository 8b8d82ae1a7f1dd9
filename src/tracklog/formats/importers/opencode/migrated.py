"""Sessions of Kilo that its newer program made from the tasks of its older one.

Such a session and its task are one run. The ids of the session and of its messages begin with
`migrated`, and end with the beginning of a SHA-1 of the task's id.
"""

from hashlib import sha1
from pathlib import Path

from tracklog.formats.importers._editors import KILO, storages

MIGRATED = "ses_migrated_"
MESSAGE = "msg_migrated_"
SYSTEM = "cline"
"""The importer of the tasks, and the system of their names."""
LEAST = 8
"""Digits of a hash that are enough to recognise an id."""


def task_of(path: Path, session: str, slug: str | None) -> str | None:
    """The task that a session was made from: its slug, or the name of a folder that has the hash."""
    if not session.startswith(MIGRATED):
        return None
    digits = session[len(MIGRATED) :]
    if slug and _has(slug, digits):
        return slug
    for folder in _folders(path):
        for task in sorted(folder.iterdir()):
            if _has(task.name, digits):
                return task.name
    return None


def folder_of(path: Path, task: str) -> Path | None:
    """The folder of a task, if it is still there."""
    places = (folder / task for folder in _folders(path))
    return next((each for each in places if any(each.glob("*.json"))), None)


def _has(id: str, digits: str) -> bool:
    digest = sha1(id.encode("utf-8", "replace"), usedforsecurity=False).hexdigest()
    return len(digits) >= LEAST and digest.startswith(digits.lower())


def _folders(path: Path) -> list[Path]:
    """The folders of tasks of the user who has a database."""
    places = [home / KILO for home in path.absolute().parents]
    for home in path.absolute().parents:
        places += (storage / KILO for storage in storages(home, {}))
    return [each / "tasks" for each in places if (each / "tasks").is_dir()]
