"""Signed notes: a text with signature lines, and the keys that sign and verify them.

The formats are those of C2SP: `signed-note` and, for the signatures of witnesses,
`tlog-cosignature`. Ed25519 comes from the package `cryptography`, which is an extra.
"""

import base64
import os
import re
import time
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tracklog.journal.archive.objects import FolderObjects
from tracklog.model.errors import BadCheckpoint, BadPlug, NotSigned

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

ED25519, COSIGNATURE = 1, 4
"""The types of signatures: over the text, and of a witness, over a time and the text."""

LARGEST = 1 << 20
"""Bytes of a note; a larger one is not read."""

_DASH = "—"
_COSIGNED = 72
"""Bytes of the signature of a witness: the time, and Ed25519."""
_NAME = re.compile(r"[^\s+]+")
_SECRET = "PRIVATE+KEY+"  # noqa: S105  # the beginning of every key file


class Signature(NamedTuple):
    """One signature line."""

    name: str
    id: bytes
    value: bytes

    def __str__(self) -> str:
        return f"{_DASH} {self.name} {_base64(self.id + self.value)}\n"


class Note(NamedTuple):
    """A text and its signatures."""

    text: str
    signatures: tuple[Signature, ...]

    def __str__(self) -> str:
        return f"{self.text}\n{''.join(map(str, self.signatures))}"

    def witnesses(self) -> "list[Signed]":
        """Who signed it as a witness, and when, by the lines alone: no signature is verified."""
        timed = (each for each in self.signatures if len(each.value) == _COSIGNED)
        return [Signed(each.name, int.from_bytes(each.value[:8], "big")) for each in timed]

    def signed(self, *more: Signature) -> "Note":
        """The note with more signatures; a new one replaces that of the same key."""
        keys = {(each.name, each.id) for each in more}
        others = [each for each in self.signatures if (each.name, each.id) not in keys]
        return Note(self.text, (*others, *more))


class Signed(NamedTuple):
    """Who signed a note, and for a witness, when (seconds since 1970)."""

    name: str
    at: int | None = None


def read_note(content: bytes) -> Note:
    """The note in a file or in an answer."""
    try:
        whole = content.decode() if len(content) <= LARGEST else ""
    except UnicodeDecodeError:
        whole = ""
    text, blank, lines = whole.rpartition("\n\n")
    if not blank or not lines.endswith("\n") or any(c < " " and c != "\n" for c in whole):
        raise BadCheckpoint("this is no signed note", "`tracklog checkpoint --out FILE` writes one")
    return Note(text + "\n", tuple(map(read_signature, lines[:-1].split("\n"))))


def read_signature(line: str) -> Signature:
    """The signature on a line."""
    parts = line.split(" ")
    value = _unbase64(parts[2]) if len(parts) == 3 and parts[0] == _DASH else b""
    if len(value) < 5 or not _NAME.fullmatch(parts[1]):
        raise BadCheckpoint(f"this is no signature line: {line[:80]!r}", "is the note complete?")
    return Signature(parts[1], value[:4], value[4:])


class Verifier:
    """A public key with its name: `name+id+key`."""

    def __init__(self, name: str, kind: int, key: bytes) -> None:
        if not _NAME.fullmatch(name):
            raise BadCheckpoint(
                f"{name!r} cannot be the name of a key", "it has no blank and no plus"
            )
        self.name, self.kind, self.key = name, kind, key
        self.id = sha256(name.encode() + b"\n" + bytes([kind]) + key).digest()[:4]

    def __str__(self) -> str:
        return f"{self.name}+{self.id.hex()}+{_base64(bytes([self.kind]) + self.key)}"

    @classmethod
    def of(cls, text: str) -> "Verifier":
        """The key in a text, as `tracklog checkpoint` prints it."""
        name, _, rest = text.strip().partition("+")
        id, _, encoded = rest.partition("+")
        key = _unbase64(encoded)
        if len(key) == 33 and key[0] in (ED25519, COSIGNATURE) and _NAME.fullmatch(name):
            made = cls(name, key[0], key[1:])
            if made.id.hex() == id:
                return made
        raise BadCheckpoint(
            f"{text.strip()[:80]!r} is no key", "a key is NAME+8 hexadecimal digits+base64"
        )

    def verified(self, text: str, signature: Signature) -> Signed | None:
        """Who signed the text with this key, and when; None when the signature is wrong."""
        value, at, message = signature.value, None, text.encode()
        if self.kind == COSIGNATURE:
            at, value = int.from_bytes(value[:8], "big"), value[8:]
            message = _cosigned(at, text)
        public = _public(self.key)
        from cryptography.exceptions import InvalidSignature  # noqa: PLC0415  # an extra

        try:
            public.verify(value, message)
        except InvalidSignature:
            return None
        return Signed(self.name, at)


def verified(note: Note, keys: Sequence[Verifier]) -> list[Signed]:
    """Which of these keys signed a note. Other signatures are ignored; a wrong one is an error."""
    known = {(key.name, key.id): key for key in keys}
    found: list[Signed] = []
    for each in note.signatures:
        key = known.get((each.name, each.id))
        if key is None:
            continue
        signed = key.verified(note.text, each)
        if signed is None:
            raise NotSigned(
                f"the signature of {each.name} is wrong",
                "the note was changed, or it was made by somebody else",
            )
        found.append(signed)
    return found


class Signer:
    """A private key with its name."""

    def __init__(self, name: str, kind: int, seed: bytes) -> None:
        self._key, self._seed = _private(seed), seed
        self.verifier = Verifier(name, kind, self._key.public_key().public_bytes_raw())

    def __str__(self) -> str:
        """The content of a key file."""
        key = self.verifier
        return f"{_SECRET}{key.name}+{key.id.hex()}+{_base64(bytes([key.kind]) + self._seed)}"

    @classmethod
    def of(cls, text: str) -> "Signer":
        """The key in the text of a key file."""
        name, _, rest = text.strip().removeprefix(_SECRET).partition("+")
        id, _, encoded = rest.partition("+")
        seed = _unbase64(encoded)
        if text.startswith(_SECRET) and len(seed) == 33 and seed[0] in (ED25519, COSIGNATURE):
            made = cls(name, seed[0], seed[1:])
            if made.verifier.id.hex() == id:
                return made
        raise BadCheckpoint("the key file holds no private key", f"it begins with {_SECRET}")

    def sign(self, text: str, at: int | None = None) -> Signature:
        """The signature of a text; that of a witness has the time, which is now if none is given."""
        key = self.verifier
        if key.kind == COSIGNATURE:
            seconds = int(time.time()) if at is None else at
            value = seconds.to_bytes(8, "big") + self._key.sign(_cosigned(seconds, text))
        else:
            value = self._key.sign(text.encode())
        return Signature(key.name, key.id, value)


def signer(path: Path, name: str, kind: int = ED25519) -> Signer:
    """The private key in a file, which is made with this name where there is none."""
    _private(bytes(32))  # before a file is made
    try:
        return Signer.of(path.read_text())
    except FileNotFoundError:
        pass
    except OSError as error:
        raise BadCheckpoint(
            f"the key {path} cannot be read: {error.strerror or error}",
            "only its owner can read it",
        ) from error
    made = Signer(name, kind, os.urandom(32))
    if FolderObjects(path.parent).create(path.name, f"{made}\n".encode()):
        return made
    return Signer.of(path.read_text())  # another process was quicker


def _cosigned(at: int, text: str) -> bytes:
    return f"cosignature/v1\ntime {at}\n{text}".encode()


def _private(seed: bytes) -> "Ed25519PrivateKey":
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519  # noqa: PLC0415  # an extra
    except ImportError as missing:
        raise _missing(missing) from missing
    return ed25519.Ed25519PrivateKey.from_private_bytes(seed)


def _public(key: bytes) -> "Ed25519PublicKey":
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519  # noqa: PLC0415  # an extra
    except ImportError as missing:
        raise _missing(missing) from missing
    return ed25519.Ed25519PublicKey.from_public_bytes(key)


def _missing(error: ImportError) -> BadPlug:
    return BadPlug(
        f"signatures need a package that is not installed: {error.name}",
        "pip install 'tracklog[sign]'",
    )


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _unbase64(text: str) -> bytes:
    """The bytes of exact base64; none where it is none."""
    try:
        content = base64.b64decode(text, validate=True)
    except ValueError:
        return b""
    return content if _base64(content) == text else b""
