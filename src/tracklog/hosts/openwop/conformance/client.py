"""A client for the scenarios: plain requests, and checks that say what was expected."""

import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import orjson

T = TypeVar("T")
PATIENCE = 30.0
"""Seconds that a run may take to get into a state, and that an answer may take."""


class NotAsExpected(Exception):
    """The host did something else."""


class Skipped(Exception):
    """The host does not announce what a scenario needs."""


class HostResponse(NamedTuple):
    """An answer of the host."""

    status: int
    headers: Mapping[str, str]
    text: bytes

    @property
    def json(self) -> Any:
        return orjson.loads(self.text)


def expect(what: str, found: Any, wanted: Any) -> None:
    """Check that something is as it should be."""
    if found != wanted:
        raise NotAsExpected(f"{what}: {found!r}, and not {wanted!r}"[:300])


def expect_that(what: str, holds: Any) -> None:
    """Check that something holds."""
    if not holds:
        raise NotAsExpected(what[:300])


class Client:
    """Asks one host in one major version of the protocol."""

    def __init__(self, url: str, key: str, major: int) -> None:
        self._url, self._key, self.major = url.rstrip("/"), key, major
        self.prefix = "/v1" if major == 1 else ""

    @cached_property
    def discovery(self) -> dict[str, Any]:
        """The discovery document of the host."""
        document: dict[str, Any] = self.ask("GET", "/.well-known/openwop", key="").json
        return document

    def check_version(self) -> None:
        """Skip a scenario of a version that the host does not serve."""
        document = self.discovery
        versions = document.get("protocolVersions", [document.get("protocolVersion", "")])
        if not any(str(each).startswith(f"{self.major}.") for each in versions):
            raise Skipped(f"the host does not serve version {self.major}")

    def need(self, fixture: str) -> str:
        """The name of a published workflow; without it the scenario is skipped."""
        name = f"conformance-{fixture}"
        if name not in self.discovery.get("fixtures", []):
            raise Skipped(f"the host does not offer {name}")
        return name

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        key: str | None = None,
    ) -> HostResponse:
        """Send a request; its answer, whatever the status."""
        given = {"Accept": "application/json", **(headers or {})}
        if self.major == 2:
            given.setdefault("OpenWOP-Version", "2.0")
        token = self._key if key is None else key
        given |= {"Authorization": f"Bearer {token}"} if token else {}
        data = None if body is None else orjson.dumps(body)
        given |= {"Content-Type": "application/json"} if data is not None else {}
        request = urllib.request.Request(self._url + path, data, given, method=method)  # noqa: S310  # the operator names it
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:  # noqa: S310
                return HostResponse(answer.status, _headers(answer.headers), answer.read())
        except urllib.error.HTTPError as error:
            with error:
                return HostResponse(error.code, _headers(error.headers), error.read())

    def get(self, path: str, **more: Any) -> HostResponse:
        return self.ask("GET", self.prefix + path, **more)

    def post(self, path: str, body: Any, **more: Any) -> HostResponse:
        return self.ask("POST", self.prefix + path, body, **more)

    def refused(self, answer: HostResponse, status: int, *codes: str) -> dict[str, Any]:
        """Check an error: its status, its code, and that the envelope is closed."""
        expect("the status", answer.status, status)
        data: dict[str, Any] = answer.json
        expect_that(
            f"the envelope has {sorted(data)}", data.keys() <= {"error", "message", "details"}
        )
        expect_that(f"the code is {data['error']}", not codes or data["error"] in codes)
        return data

    def start(self, fixture: str, **body: Any) -> str:
        """Begin a run of a published workflow; the id in a path of it."""
        answer = self.post("/runs", {"workflowId": self.need(fixture), **body})
        expect("the status of a run that begins", answer.status, 201)
        return segment(answer.json["runId"])

    def until(self, run: str, *statuses: str) -> dict[str, Any]:
        """The snapshot of a run, once it has one of these statuses."""
        return self.eventually(
            f"the run is not {' or '.join(statuses)}",
            lambda: (
                found if (found := self.get(f"/runs/{run}").json)["status"] in statuses else None
            ),
        )

    def eventually(self, what: str, find: Callable[[], T | None]) -> T:
        """The first result of `find` that is not None."""
        until = time.monotonic() + PATIENCE
        while (found := find()) is None:
            if time.monotonic() > until:
                raise NotAsExpected(what)
            time.sleep(0.05)
        return found

    def events(self, run: str, *kinds: str) -> list[dict[str, Any]]:
        """The events of a run, of all types or of these."""
        found = self.get(f"/runs/{run}/events/poll").json["events"]
        return [each for each in found if not kinds or each["type"] in kinds]


def segment(name: str) -> str:
    """An id as one segment of a path."""
    safe = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"
    return "".join(char if char in safe else f"~{ord(char):02X}" for char in name)


def _headers(headers: Any) -> dict[str, str]:
    return {str(name).lower(): str(value) for name, value in headers.items()}
