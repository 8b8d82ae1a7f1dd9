class Bell:
    """Wakes a thread; may be rung from anywhere, also by a signal that interrupts a ringing."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def ring(self) -> None:
        if self._lock.locked():
            try:
                self._lock.release()
            except RuntimeError:
                pass  # somebody else rang at the same moment

    def wait(self, seconds: float) -> bool:
        return self._lock.acquire(timeout=seconds)


class Unreachable(Exception):
    """Nothing was acknowledged; `pause` is how long the collector wants to be left alone."""

    def __init__(
        self, why: str, pause: float = 0.0, status: int = 0, *, is_ours: bool = False
    ) -> None:
        super().__init__(why)
        self.pause, self.status, self.is_ours = pause, status, is_ours

    @property
    def is_refusal(self) -> bool:
        """Whether the collector itself says that its answer will be the same next time."""
        return self.is_ours and 400 <= self.status < 500 and self.status not in (408, 425, 429)


class Answer(NamedTuple):
    """What came back for a request."""

    status: int
    body: bytes
    pause: float
    """For how many seconds the collector wants to be left alone."""
    version: str
    """Of the protocol; only a collector names it."""

    def counts(self, sent: int) -> dict[str, Any] | None:
        """What became of so many lines; None where that is not said in a way to be believed."""
        if self.status != 200 or self.version != PROTOCOL:
            return None
        try:
            report = json.loads(self.body.decode("utf-8-sig"), parse_constant=_no_json)
            counts = [report[name] for name in ("accepted", "duplicate", "refused")]
        except (ValueError, TypeError, KeyError, RecursionError):
            return None
        if any(type(count) is not int or count < 0 for count in counts):
            return None
        return report if sum(counts) == sent else None

    def why(self, url: str, sent: int) -> str:
        """What is wrong with an answer that acknowledges nothing."""
        said = _short(self.body)
        if self.status < 500 and not self.version:
            status = "" if self.status == 200 else f" {self.status}{said and f' ({said})'}"
            return (
                f"{url} answers{status} without {PROTOCOL_HEADER}: it is no collector but a proxy "
                "or a portal, or a collector older than this emitter (upgrade collectors first)"
            )
        if self.version and self.version != PROTOCOL:
            return f"{url} speaks version {self.version} of the protocol, this emitter {PROTOCOL}"
        if self.status == 200:
            return f"{url} does not say what became of {sent} lines: {said or 'it is empty'}"
        return f"{url} answers {self.status}: {said or 'it gives no reason; its log may'}"
