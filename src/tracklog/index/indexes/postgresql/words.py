"""The word search: texts and terms as PostgreSQL stores and asks for them.

Words are cut here and not by the server, so that they are the same whatever its language is, and the
same that the index of a folder finds: letters and digits, without case and accents.
"""

import re
import unicodedata

_WORD = re.compile(r"[^\W_]+")
_LONGEST = 1000  # bytes of a word; PostgreSQL takes 2046
_PLACES = 250  # of one word that are stored; PostgreSQL takes 255
_LAST = 16_383  # PostgreSQL counts no further
_SMALL = 1 << 15  # characters of a text whose words are far below the limit
_MOST = 1 << 19  # bytes of the words of one record; PostgreSQL takes a megabyte


def vector(text: str) -> str:
    """The words of a text with their places, as a `tsvector`."""
    words = _words(text)
    if len(words) <= _PLACES and len(text) < _SMALL:  # no limit is near
        entries: dict[str, str] = {}
        for n, word in enumerate(words, 1):
            entries[word] = f"{entries[word]},{n}" if word in entries else f"'{word}':{n}"
        return " ".join(entries.values())
    places: dict[str, list[int]] = {}
    size = 0
    for n, word in enumerate(words, 1):
        known = places.setdefault(word, [])
        if not known:
            size += len(word) * 4 + 8
        if len(known) < _PLACES:
            known.append(min(n, _LAST))
            size += 2
        if size > _MOST:
            break
    return " ".join(f"'{word}':{','.join(map(str, at))}" for word, at in places.items())


def asked(terms: "list[str] | tuple[str, ...]") -> str:
    """The terms as a `tsquery`; empty when there is no word in them."""
    return " & ".join(filter(None, map(_term, terms)))


def _term(term: str) -> str:
    words = [f"'{word}'" for word in _words(term)]
    if words and term.endswith("*"):
        words[-1] += ":*"
    return "(" + " <-> ".join(words) + ")" if words else ""


def _words(text: str) -> list[str]:
    if not text.isascii():
        parts = unicodedata.normalize("NFD", text)
        text = "".join(each for each in parts if not unicodedata.combining(each))
    words = _WORD.findall(text.lower())
    return [each if len(each) <= 250 else _cut(each) for each in words]


def _cut(word: str) -> str:
    return word.encode(errors="replace")[:_LONGEST].decode(errors="ignore")
