"""Lifts large values out of JSON: a blob in their place, with type, size and a preview."""

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
"""Keys whose text nobody can read: it is never decoded, and lifted only for its length."""

Put = Callable[[bytes], str]
"""Keeps a content; the SHA-256 it is found by."""
Redact = Callable[[bytes], tuple[bytes, Sequence[str]]]
"""From a content to what may be kept of it, and the names of what was taken out."""


def hashed(content: bytes) -> str:
    """The name of a content that is kept nowhere."""
    return sha256(content).hexdigest()


class Lift:
    """Lifts what is too long out of values; what was lifted is counted by its media type."""

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
        """What stands in the place of a content; what was taken out of it is on record there."""
        taken: Sequence[str] = ()
        if self._redact is not None:
            content, taken = self._redact(content)
            if taken and preview:
                preview = content[: 4 * PREVIEW].decode("utf-8", "replace")[:PREVIEW]
        about: dict[str, Any] = {
            "sha256": self._put(content),
            "bytes": len(content),
            "media_type": media_type,
        }
        if preview:
            about["preview"] = preview
        if taken:
            about["redacted"] = list(taken)
        if self._lifted:
            self._lifted(media_type)
        return {"$blob": about}

    def text(self, text: str) -> Any:
        """A text as it is, or lifted out for its length."""
        if len(text) <= LONG:
            return text
        return self.blob(_bytes(text), "text/plain", text[:PREVIEW])

    def value(self, value: Any, key: str = "") -> Any:
        """A value with everything long in it lifted out; it is not changed itself."""
        if isinstance(value, str):
            return value if len(value) <= MEDIA else self._string(value, key)
        if isinstance(value, dict):
            media = _media_type(value)
            if media and isinstance(value.get("data"), str) and len(value["data"]) > MEDIA:
                rest = {k: self.value(each, k) for k, each in value.items() if k != "data"}
                return {**rest, "data": self._decoded(value["data"], media)}
            return {k: self.value(each, k) for k, each in value.items()}
        if isinstance(value, list):
            return [self.value(each, key) for each in value]
        return value

    def whole(self, value: Any) -> Any:
        """Any value, lifted out as JSON."""
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
        if _is_base64(text):  # of what, nobody says: the very text is kept
            return self.blob(_bytes(text), "text/plain", text[:PREVIEW])
        return self.text(text)

    def _decoded(self, text: str, media_type: str, whole: str | None = None) -> Any:
        try:
            content = b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            # No base64, though it looks so: the very text is kept.
            return self.blob(_bytes(whole or text), "text/plain", (whole or text)[:PREVIEW])
        return self.blob(content, media_type)


def _is_base64(text: str) -> bool:
    """Whether a long word is base64 and no other: it has letters of both kinds, and digits."""
    begin = text[:PREVIEW]
    mixed = any(map(str.isdigit, begin)) and not (begin.islower() or begin.isupper())
    return mixed and _BASE64.fullmatch(text) is not None


def _media_type(value: dict[str, Any]) -> str | None:
    for key in ("media_type", "mimeType", "mime_type", "mediaType"):
        if isinstance(found := value.get(key), str):
            return found
    return None


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
