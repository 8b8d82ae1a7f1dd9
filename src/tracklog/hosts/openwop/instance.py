"""The identity of a host: it does not continue runs that were imported from elsewhere."""

import contextlib
import os
import uuid
from pathlib import Path

from tracklog import TracklogError, write_file

FILE = "openwop.id"


def instance_of(folder: Path) -> str:
    """The name of the host that uses this folder, chosen once."""
    return made_once(folder / FILE, uuid.uuid4().hex.encode()).decode()


def made_once(path: Path, made: bytes) -> bytes:
    """The content of a private file: what the first process that asked for it has made."""
    if not path.exists():
        part = path.with_name(f"{path.name}.{uuid.uuid4().hex}")
        write_file(part, made)
        try:
            with contextlib.suppress(FileExistsError):
                os.link(part, path)  # in one step: nobody reads half a file
        finally:
            part.unlink()
    if found := path.read_bytes().strip():
        return found
    raise TracklogError(f"{path} is empty", "restore it, or remove it and start the host again")
