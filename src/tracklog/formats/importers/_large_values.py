"""Move large values out of JSON into blobs; a reference with type, size and preview replaces them."""

import binascii
import re
from base64 import b64decode
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any

import orjson

LONG = 64 << 10
"""Characters of text that stay in a line."""
MEDIA = 4 << 10
"""Characters of base64 that stay in a line."""
PREVIEW = 200

_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+)?((?:;[\w.+-]+=[^;,\s]*)*);base64,", re.ASCII)
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]+={0,2}", re.ASCII)
_MAGIC = {
    "iVBORw0KGgo": "image/png",
    "/9j/": "image/jpeg",
    "R0lGOD": "image/gif",
    "UklGR": "image/webp",
    "JVBERi0": "application/pdf",
    "SUkq": "image/tiff",
    "T2dnUw": "audio/ogg",
    "SUQz": "audio/mpeg",
    "UEsDB": "application/zip",
}
OPAQUE = {"signature", "encrypted_content", "encryptedContent", "reasoningOpaque", "opaque"}
"""Keys with encrypted text: it is never decoded, and moved to a blob only for its length."""

Put = Callable[[bytes], str]
"""Stores a content; returns its SHA-256."""
Redact = Callable[[bytes], tuple[bytes, Sequence[str]]]
"""From a content to the redacted content, and the names of the redactions."""


def hashed(content: bytes) -> str:
    """The SHA-256 of a content that is not stored."""
    return sha256(content).hexdigest()


class Lift:
    """Moves long values into blobs, and counts them by media type."""

    def __init__(
        self,
        put: Put = hashed,
        lifted: Callable[[str], None] | None = None,
        redact: Redact | None = None,
    ) -> None:
        self._put = put
        self._lifted = lifted
        self._redact = redact

    def blob(self, content: bytes, media_type: str, preview: str | None = None) -> dict[str, Any]:
        """The reference that replaces a content; it lists the redactions."""
        name, content, taken = self.store(content, media_type)
        if taken and preview:
            preview = content[: 4 * PREVIEW].decode("utf-8", "replace")[:PREVIEW]
        about: dict[str, Any] = {"sha256": name, "bytes": len(content), "media_type": media_type}
        if preview:
            about["preview"] = preview
        if taken:
            about["redacted"] = list(taken)
        return {"$blob": about}

    def store(self, content: bytes, media_type: str) -> tuple[str, bytes, Sequence[str]]:
        """Store a content; its SHA-256, what is stored, and the names of the redactions."""
        taken: Sequence[str] = ()
        if self._redact is not None:
            content, taken = self._redact(content)
        if self._lifted:
            self._lifted(media_type)
        return self._put(content), content, taken

    def text(self, text: str) -> Any:
        """A text unchanged, or moved to a blob for its length."""
        if len(text) <= LONG:
            return text
        return self.blob(_bytes(text), "text/plain", text[:PREVIEW])

    def value(self, value: Any, key: str = "") -> Any:
        """A copy of a value with every long part moved to a blob."""
        if isinstance(value, str):
            return value if len(value) <= MEDIA else self._string(value, key)
        if isinstance(value, dict):
            data = value.get("data")
            if isinstance(data, str) and len(data) > MEDIA and (media := _media_type(value)):
                rest = {k: self.value(each, k) for k, each in value.items() if k != "data"}
                return {**rest, "data": self._decoded(data, media)}
            return {k: self.value(each, k) for k, each in value.items()}
        if isinstance(value, list):
            return [self.value(each, key) for each in value]
        return value

    def whole(self, value: Any) -> Any:
        """Any value, moved to a blob as JSON."""
        content = orjson.dumps(value, default=str)
        return self.blob(content, "application/json", content[:PREVIEW].decode("utf-8", "replace"))

    def _string(self, text: str, key: str) -> Any:
        if key in OPAQUE:
            return self.text(text)
        if text.startswith("data:") and (url := _DATA_URL.match(text)):
            return self._decoded(text[url.end() :], url[1] or "text/plain", text)
        for magic, media in _MAGIC.items():
            if text.startswith(magic) and _BASE64.fullmatch(text):
                return self._decoded(text, media)
        if _is_base64(text):  # the media type is not stated: the text is stored unchanged
            return self.blob(_bytes(text), "text/plain", text[:PREVIEW])
        return self.text(text)

    def _decoded(self, text: str, media_type: str, whole: str | None = None) -> Any:
        try:
            content = b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            # It looks like base64 and is not: the text is stored unchanged.
            return self.blob(_bytes(whole or text), "text/plain", (whole or text)[:PREVIEW])
        return self.blob(content, media_type)


def _is_base64(text: str) -> bool:
    """Whether a long word is base64: it has upper-case and lower-case letters and digits."""
    begin = text[:PREVIEW]
    mixed = any(map(str.isdigit, begin)) and not (begin.islower() or begin.isupper())
    return mixed and _BASE64.fullmatch(text) is not None


def _media_type(value: dict[str, Any]) -> str | None:
    for key in ("media_type", "mimeType", "mime_type", "mediaType"):
        if isinstance(media_type := value.get(key), str):
            return media_type
    return None


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
