"""Send a request with a checkpoint."""

from typing import NamedTuple
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from tracklog.collector.publishers import NotPublished
from tracklog.journal.checkpoints.checkpoint import Checkpoints
from tracklog.journal.checkpoints.notes import Note, Signature

_PATIENCE = 30.0
_LARGEST = 64 << 10


class PublisherResponse(NamedTuple):
    """The answer to a request."""

    status: int
    body: bytes


def send(method: str, url: str, body: bytes) -> PublisherResponse:
    """The answer of a server, whatever its status."""
    headers = {"Content-Type": "text/plain; charset=utf-8"}
    try:
        request = Request(url, body, headers, method=method)  # noqa: S310  # http or https
        with urlopen(request, timeout=_PATIENCE) as answer:  # noqa: S310
            return PublisherResponse(answer.status, answer.read(_LARGEST))
    except HTTPError as error:
        with error:
            return PublisherResponse(error.code, error.read(_LARGEST))
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise NotPublished(f"{url} does not answer: {reason}", "it is tried again") from error


class HttpPublisher:
    """Puts the last checkpoint to a URL."""

    scheme = "http"

    def __init__(self, place: str) -> None:
        self._url = f"{self.scheme}:{place}"

    def publish(self, note: Note, checkpoints: Checkpoints) -> list[Signature]:
        del checkpoints
        answer = send("PUT", self._url, str(note).encode())
        if not 200 <= answer.status < 300:
            raise NotPublished(
                f"{self._url} answered {answer.status}", "it must accept PUT with a text"
            )
        return []
