"""The identity of a host: it does not continue runs that were imported from elsewhere."""

import os
import time
import uuid
from pathlib import Path

from tracklog import TracklogError


def instance_of(folder: Path) -> str:
    """The name of the host that uses this folder, chosen once."""
    path = folder / "openwop.id"
    made = uuid.uuid4().hex
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        for _ in range(100):
            if found := path.read_text().strip():
                return found
            time.sleep(0.01)  # another process is writing it
        raise TracklogError(f"{path} is empty", "remove it and start the host again") from None
    with os.fdopen(fd, "w") as file:
        file.write(made)
        file.flush()
        os.fsync(fd)
    return made
