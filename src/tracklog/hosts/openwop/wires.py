"""The versions of the protocol: each renders the same runs, and reads the same requests."""

from typing import Any, Protocol

from tracklog import Body
from tracklog.hosts.openwop.failures import Failure
from tracklog.hosts.openwop.runlog import RunLog
from tracklog.hosts.openwop.settings import Key


class Wire(Protocol):
    """One version of the protocol."""

    version: str
    prefix: str
    """The beginning of its paths."""

    def run_of(self, text: str, key: Key) -> str:
        """The name of a run, from what a path or a body calls it."""

    def reply(self, data: dict[str, Any], tenant: str) -> dict[str, Any]:
        """The body of an answer."""

    def snapshot(self, data: dict[str, Any], log: RunLog) -> dict[str, Any]:
        """The state of a run."""

    def event(self, line: bytes, event: Body, log: RunLog) -> bytes:
        """An event, as JSON."""

    def kind(self, kind: str) -> str:
        """The name of a type of event."""

    def failure(self, failure: Failure) -> Failure:
        """An error, with the code that this version has for it."""

    def body(self, body: dict[str, Any]) -> dict[str, Any]:
        """The request to begin a run, in the form of the first version."""

    def place(self, option: str) -> str:
        """The place of an option in a request to begin a run."""


LINKS = ("eventsUrl", "statusUrl")


class Version1:
    """Version 1: the journal's own events, byte for byte."""

    version, prefix = "1.0", "/v1"

    def run_of(self, text: str, key: Key) -> str:  # noqa: ARG002  # the signature of a wire
        return text

    def reply(self, data: dict[str, Any], tenant: str) -> dict[str, Any]:  # noqa: ARG002
        return {key: f"/v1{value}" if key in LINKS else value for key, value in data.items()}

    def snapshot(self, data: dict[str, Any], log: RunLog) -> dict[str, Any]:  # noqa: ARG002
        return data

    def event(self, line: bytes, event: Body, log: RunLog) -> bytes:  # noqa: ARG002
        return line

    def kind(self, kind: str) -> str:
        return kind

    def failure(self, failure: Failure) -> Failure:
        if failure.code == "interrupt_token_invalid":
            return Failure("interrupt_not_found", failure.message)
        return failure

    def body(self, body: dict[str, Any]) -> dict[str, Any]:
        return body

    def place(self, option: str) -> str:
        return f"configurable.{option}"
