"""Signed tokens: with one, a person without a key can read or answer one question."""

import base64
import hashlib
import hmac
import os
from binascii import Error as NotBase64
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from tracklog.hosts.openwop.instance import made_once

LIFETIME = 1800.0
"""Seconds that a token is good for, at most."""
OWN = "host"
"""The name of the secret that the host made itself."""


class InvalidToken(Exception):
    """A token that this host did not sign."""


class QuestionToken(NamedTuple):
    """The question that a token is for, the principal that got it, and when it expires."""

    run: str
    node: str
    interrupt: str
    principal: str
    expires: float
    intent: str = "resolve"


class QuestionTokens:
    """Signs and reads tokens; several secrets hold at once, so that one can be replaced."""

    def __init__(self, secrets: Mapping[str, bytes]) -> None:
        """The first secret signs; a token names the secret that it was signed with."""
        self._secrets = dict(secrets)
        self._signing = next(iter(secrets))

    def sign(self, token: QuestionToken) -> str:
        """`ow2.hs256.<name of the secret>.<what it allows>.<signature>`."""
        data = {
            "runId": token.run,
            "nodeId": token.node,
            "interruptId": token.interrupt,
            "principal": token.principal,
            "expiresAt": token.expires,
            "intent": token.intent,
        }
        head = f"ow2.hs256.{self._signing}.{_encoded(orjson.dumps(data))}"
        return f"{head}.{self._signature(self._signing, head)}"

    def read(self, text: str) -> QuestionToken:
        """The token of a text; one that was not signed here is `InvalidToken`."""
        head, _, signature = text.rpartition(".")
        parts = head.split(".")
        if len(parts) != 4 or parts[:2] != ["ow2", "hs256"] or parts[2] not in self._secrets:
            raise InvalidToken
        if not hmac.compare_digest(self._signature(parts[2], head), signature):
            raise InvalidToken
        try:
            data = orjson.loads(base64.urlsafe_b64decode(parts[3] + "=" * (-len(parts[3]) % 4)))
            return QuestionToken(
                data["runId"],
                data["nodeId"],
                data["interruptId"],
                data["principal"],
                float(data["expiresAt"]),
                data["intent"],
            )
        except (ValueError, KeyError, TypeError, NotBase64):
            raise InvalidToken from None

    def derive(self, purpose: str) -> str:
        """A secret for one purpose, which need not be stored."""
        key = self._secrets[OWN]
        return hmac.new(key, f"derived:{purpose}".encode(), hashlib.sha256).hexdigest()

    def _signature(self, name: str, head: str) -> str:
        return hmac.new(self._secrets[name], head.encode(), hashlib.sha256).hexdigest()


def _encoded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def secret_of(folder: Path) -> bytes:
    """The secret of the hosts that use this folder, made once; only its user can read it."""
    return made_once(folder / "openwop.secret", os.urandom(32).hex().encode())


def tokens_of(folder: Path, secrets: Mapping[str, str]) -> QuestionTokens:
    """The tokens of a host: signed with the first secret of its settings, or with its own."""
    given: dict[str, Any] = {name: value.encode() for name, value in secrets.items()}
    return QuestionTokens({**given, OWN: secret_of(folder)})
