"""Where an archive is: a folder, or a bucket of object storage."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from tracklog.journal.disk import Disk, make_folders, write_file
from tracklog.model.errors import NoSuchObject, StoreBroken


class Objects(Protocol):
    """Values by name. A value is there completely or not at all."""

    url: str

    def put(self, name: str, content: bytes) -> None:
        """Store a value, durable on return; one of the same name is replaced."""

    def create(self, name: str, content: bytes) -> bool:
        """Store a value unless there is one of this name, and say whether that was done."""

    def get(self, name: str) -> bytes:
        """The value of that name; else `NoSuchObject`."""

    def has(self, name: str) -> bool:
        """Whether there is a value of that name."""

    def delete(self, name: str) -> None:
        """Delete a value, if it is there."""

    def sizes(self, folder: str) -> dict[str, int]:
        """The names in a folder, in order, without those in folders below it; each with its bytes."""


def open_objects(place: str) -> Objects:
    """The objects at a URL `s3://bucket/prefix`, or in a folder."""
    if place.startswith("s3://"):
        from tracklog.journal.archive.s3 import S3Objects  # noqa: PLC0415  # it needs an extra

        return S3Objects(place)
    return FolderObjects(Path(place.removeprefix("file:")).expanduser())


class FolderObjects:
    """Objects as files of a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.url = str(folder)

    def put(self, name: str, content: bytes) -> None:
        path = self._folder / name
        try:
            make_folders(Disk(), path.parent)
            write_file(Disk(), path, content)
        except OSError as error:
            raise self._trouble(error) from error

    def create(self, name: str, content: bytes) -> bool:
        path = self._folder / name
        part = path.with_name(f"{path.name}.{os.getpid()}.part")
        try:
            make_folders(Disk(), path.parent)
            write_file(Disk(), part, content)
            try:
                os.link(part, path)
            except FileExistsError:
                return False
            finally:
                with suppress(FileNotFoundError):
                    part.unlink()
            Disk().sync_folder(path.parent)
        except OSError as error:
            raise self._trouble(error) from error
        return True

    def get(self, name: str) -> bytes:
        try:
            return (self._folder / name).read_bytes()
        except FileNotFoundError:
            raise NoSuchObject(
                f"there is no {name} in {self.url}", "is the archive complete?"
            ) from None
        except OSError as error:
            raise self._trouble(error) from error

    def has(self, name: str) -> bool:
        return (self._folder / name).exists()

    def delete(self, name: str) -> None:
        try:
            (self._folder / name).unlink(missing_ok=True)
        except OSError as error:
            raise self._trouble(error) from error

    def sizes(self, folder: str) -> dict[str, int]:
        try:
            files = sorted((self._folder / folder).iterdir())
            return {each.name: each.stat().st_size for each in files if each.is_file()}
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except OSError as error:
            raise self._trouble(error) from error

    def _trouble(self, error: OSError) -> StoreBroken:
        return StoreBroken(
            f"the archive {self.url} cannot be used: {error.strerror or error}",
            "look at its disk and its rights",
        )
