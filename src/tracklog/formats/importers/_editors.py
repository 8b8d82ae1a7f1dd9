"""Where editors keep the data of their extensions, and how they name folders."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from tracklog.formats.importers import word

EDITORS = ("Code", "Code - Insiders", "VSCodium", "Cursor", "Windsurf")
KILO = "kilocode.kilo-code"
"""The extension Kilo, whose tasks its newer program copies into a database."""


def user_folders(home: Path, environment: Mapping[str, str]) -> Iterator[Path]:
    """The folders of a user's data, one for each editor, existing or not."""
    roots = [home / ".config", home / "Library" / "Application Support"]
    if windows := environment.get("APPDATA"):
        roots.append(Path(windows))
    for root in roots:
        yield from (root / editor / "User" for editor in EDITORS)
    yield home / ".vscode-server" / "data" / "User"


def storages(home: Path, environment: Mapping[str, str]) -> Iterator[Path]:
    """The folders in which editors keep the data of extensions."""
    return (user / "globalStorage" for user in user_folders(home, environment))


DRIVE = re.compile(r"/[A-Za-z]:")


def path_of(uri: Any) -> str | None:
    """The path of a file URI; that of Windows begins with its drive."""
    path = unquote(urlparse(word(uri) or "").path)
    return (path[1:] if DRIVE.match(path) else path) or None
