"""Find secrets in lines: keys, tokens and passwords. It names their kind and never shows them.

The detectors read the bytes of JSON lines, so that redaction changes no other byte.
One list serves the scan, the redact hook of the intake and the masker of the recorder.
"""

import re
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator, Mapping
from math import log2
from typing import Any, NamedTuple

from tracklog.model.event import REDACTED, Body


class Detector(NamedTuple):
    """One kind of secret."""

    name: str
    pattern: re.Pattern[bytes]
    """Its first group is the secret; without a group all of it is."""
    anchors: tuple[bytes, ...]
    """In lower case; without any of them there is nothing to find."""
    is_secret: Callable[[bytes], bool] = lambda _found: True
    before: re.Pattern[bytes] | None = None
    """What must stand right before the pattern, in lower case: looked for only where it fits."""


class Secret(NamedTuple):
    """A secret's place in some bytes."""

    name: str
    start: int
    end: int


def entropy(value: bytes) -> float:
    """In bits per character."""
    counts = [value.count(byte) for byte in set(value)]
    return -sum(count / len(value) * log2(count / len(value)) for count in counts)


def _looks_random(value: bytes) -> bool:
    """A password that somebody chose or a machine made, and not a word, a path or a placeholder."""
    has_letter = re.search(rb"[A-Za-z]", value) is not None
    has_digit = re.search(rb"[0-9]", value) is not None
    return has_letter and has_digit and entropy(value) >= 3.2 and not _TAKEN.search(value)


_TAKEN = re.compile(rb"redacted|example|xxxx|\*\*\*\*|placeholder|your[_-]|changeme", re.IGNORECASE)
_QUOTE = rb"""(?:\\*["'`])?"""
_NAMES = rb"api[_-]?key|apikey|secret[_-]?key|secret|access[_-]?key|auth[_-]?token|access[_-]?token"
_NAMES += rb"|refresh[_-]?token|client[_-]?secret|private[_-]?key|password|passwd|pwd|token"

DETECTORS: tuple[Detector, ...] = (
    Detector(
        "private-key",
        re.compile(
            rb"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----"
            rb"(?:[A-Za-z0-9+/=:,. \t\r\n-]|\\+[nrt])*"
        ),
        (b"private key",),
    ),
    Detector(
        "aws-access-key",
        re.compile(rb"(?<![A-Za-z0-9])((?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16})(?![A-Za-z0-9])"),
        (b"akia", b"asia", b"abia", b"acca"),
    ),
    Detector(
        "aws-secret-key",
        re.compile(
            rb"aws[\w .-]{0,30}(?:secret|key)[\w .-]{0,20}" + _QUOTE + rb"\s*[:=]\s*" + _QUOTE
            + rb"([A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])",
            re.IGNORECASE,
        ),
        (b"aws",),
    ),
    Detector(
        "github-token",
        re.compile(rb"(?<![A-Za-z0-9])(gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_\w{22,255})"),
        (b"ghp_", b"gho_", b"ghu_", b"ghs_", b"ghr_", b"github_pat_"),
    ),
    Detector("gitlab-token", re.compile(rb"(?<!\w)(glpat-[\w-]{20,})"), (b"glpat-",)),
    Detector(
        "anthropic-key", re.compile(rb"(?<![\w-])(sk-ant-[a-z0-9]{2,12}-[\w-]{20,})"), (b"sk-ant-",)
    ),
    Detector(
        "openai-key",
        re.compile(
            rb"(?<![\w-])(sk-(?:proj|svcacct|admin|None)-[\w-]{20,}"
            rb"|sk-[A-Za-z0-9]{20}T3BlbkFJ[A-Za-z0-9]{20}|sk-[A-Za-z0-9]{48})(?![\w-])"
        ),
        (b"sk-",),
    ),
    Detector(
        "slack-token",
        re.compile(
            rb"(?<!\w)(xox[abeoprs]-(?:[A-Za-z0-9]+-)*[A-Za-z0-9]{10,})"
            rb"|hooks\.slack\.com/services/(T\w+/B\w+/\w{16,})"
        ),
        (b"xox", b"hooks.slack.com"),
    ),
    Detector(
        "google-key",
        re.compile(
            rb"(?<![\w-])(AIza[\w-]{35}|ya29\.[\w-]{20,}|GOCSPX-[\w-]{28})(?![\w-])"
        ),
        (b"aiza", b"ya29.", b"gocspx-"),
    ),
    Detector(
        "stripe-key",
        re.compile(rb"(?<!\w)((?:sk|rk)_(?:live|test)_[A-Za-z0-9]{16,})"),
        (b"k_live_", b"k_test_"),
    ),
    Detector("npm-token", re.compile(rb"(?<!\w)(npm_[A-Za-z0-9]{36})(?!\w)"), (b"npm_",)),
    Detector(
        "pypi-token", re.compile(rb"(?<!\w)(pypi-AgEIcHlwaS5vcmc[\w-]{50,})"), (b"pypi-ageichlwas5vcmc",)
    ),
    Detector(
        "huggingface-token", re.compile(rb"(?<!\w)(hf_[A-Za-z0-9]{34,})(?!\w)"), (b"hf_",)
    ),
    Detector(
        "jwt",
        re.compile(rb"(?<![\w.-])(eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{8,})"),
        (b"eyj",),
    ),
    Detector(
        "url-password",
        re.compile(
            rb"[a-z][a-z0-9+.-]{1,20}://[^\s/:@\"'\\<>]{1,64}:([^\s/:@\"'\\<>]{3,128})@", re.IGNORECASE
        ),
        (b"://",),
        lambda found: not _TAKEN.search(found) and not found.startswith((b"$", b"{", b"%")),
    ),
    Detector(
        "authorization",
        re.compile(
            rb"(?:authorization|x-api-key)" + _QUOTE + rb"\s*[:=,]\s*" + _QUOTE
            + rb"(?:(?:bearer|basic|token)\s+)?([A-Za-z0-9._~+/=-]{16,})",
            re.IGNORECASE,
        ),
        (b"authorization", b"x-api-key"),
        _looks_random,
    ),
    Detector(
        "assignment",
        re.compile(rb"(?:[:=]|=>)\s*" + _QUOTE + rb"([A-Za-z0-9_./+=~!@#%^&*-]{12,256})"),
        (b"key", b"secret", b"token", b"pass", b"pwd"),
        _looks_random,
        re.compile(rb"(?:" + _NAMES + rb")" + _QUOTE + rb"\s*\Z"),
    ),
)  # fmt: skip  # one detector per row where it fits
"""In order: where two find the same place, the first names it."""


NEAR = 40
"""Bytes before an assignment in which its name must stand."""


def find(content: bytes) -> list[Secret]:
    """Every secret in some bytes, in order, none inside another."""
    lower = content.lower()
    secrets: list[Secret] = []
    for detector in DETECTORS:
        if not any(anchor in lower for anchor in detector.anchors):
            continue
        for match in detector.pattern.finditer(content):
            group = match.lastindex or 0
            start, end = match.span(group)
            begin = match.start()
            if detector.before and not detector.before.search(lower, max(0, begin - NEAR), begin):
                continue
            apart = all(end <= each.start or start >= each.end for each in secrets)
            if apart and detector.is_secret(match[group]):
                secrets.append(Secret(detector.name, start, end))
    return sorted(secrets, key=lambda each: each.start)


def redact(content: bytes) -> tuple[bytes, tuple[str, ...]]:
    """The bytes without their secrets, and the names of those; what is no secret stays as it is."""
    secrets = find(content)
    if not secrets:
        return content, ()
    pieces, place = [], 0
    for each in secrets:
        pieces += [content[place : each.start], f"{REDACTED}{each.name}]".encode()]
        place = each.end
    return b"".join([*pieces, content[place:]]), tuple(dict.fromkeys(each.name for each in secrets))


def masker() -> Callable[[Body], Body]:
    """The same for a recorder: takes secrets out of an event before it reaches the disk."""

    def mask(event: Body) -> Body:
        return {key: value if key in UNMASKED else _masked(value) for key, value in event.items()}

    return mask


UNMASKED = ("seq", "run_id", "parent_run_id", "child_run_id", "type")
"""What a masker may not touch."""


def _masked(value: Any) -> Any:
    if isinstance(value, str):
        raw = value.encode("utf-8", "surrogatepass")
        clean, names = redact(raw)
        return clean.decode("utf-8", "surrogatepass") if names else value
    if isinstance(value, dict):
        # A secret may be known as one only by the key before it.
        return {key: _masked_as(key, each) for key, each in value.items()}
    return [_masked(each) for each in value] if isinstance(value, list) else value


def _masked_as(key: str, value: Any) -> Any:
    if not isinstance(value, str):
        return _masked(value)
    head = f"{key}=".encode("utf-8", "surrogatepass")
    clean, names = redact(head + value.encode("utf-8", "surrogatepass"))
    if not names or not clean.startswith(head):
        return _masked(value)
    return clean[len(head) :].decode("utf-8", "surrogatepass")


class Leak(NamedTuple):
    """A record in which there is a secret."""

    family: str
    run: str
    seq: int
    kind: str
    times: int
    blob: str | None = None
    """The blob that holds it, which the record names."""


_BLOB = re.compile(rb'"\$blob":\{"sha256":"([0-9a-f]{64})"')


def leaks(
    records: Iterator[Any], blob: Callable[[str], bytes | None] = lambda _name: None
) -> Iterator[Leak]:
    """The places of secrets in records, and in the blobs that they name."""
    scanned: dict[str, dict[str, int]] = {}
    for record in records:
        here = (record.family, record.run, record.seq)
        for kind, times in _counted(record.line).items():
            yield Leak(*here, kind, times)
        for name in dict.fromkeys(_BLOB.findall(record.line)):
            known = name.decode()
            if known not in scanned:
                scanned[known] = _counted(blob(known) or b"")
            for kind, times in scanned[known].items():
                yield Leak(*here, kind, times, known)


def refused_leaks(refusals: Iterable[Mapping[str, Any]]) -> Iterator[Leak]:
    """The same in lines that were refused; they have no run, and are given up after a while."""
    for refusal in refusals:
        for kind, times in _counted(b64decode(refusal["line"])).items():
            yield Leak("", REFUSED, refusal["seq"], kind, times)


REFUSED = "refused"


def _counted(content: bytes) -> dict[str, int]:
    counts: dict[str, int] = {}
    for each in find(content):
        counts[each.name] = counts.get(each.name, 0) + 1
    return counts
