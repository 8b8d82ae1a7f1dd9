_waits: dict[str, tuple[float, float]] = vars(sys).setdefault("_tracklog_waits", {})
"""Seconds that closing has waited of late, and as of when: for each collector, and under "" for all
since an emitter was last made. Other copies of this code in the process share it."""


def _spent(url: str) -> float:
    spent, at = _waits.get(url, (0.0, 0.0))
    return max(0.0, spent - REGAINED * (time.monotonic() - at))


def _allowed(url: str, deadline: float) -> float:
    """How many seconds closing may still wait now; a process that goes on regains them slowly."""
    return max(0.0, deadline - max(_spent(url), _spent("")))


def _charge(waited: float, deadline: float, *urls: str) -> None:
    for account in (*urls, ""):
        spent = _spent(account)
        _waits[account] = (max(spent, min(spent + waited, deadline)), time.monotonic())


os.register_at_fork(after_in_child=HttpSink._forked)
atexit.register(HttpSink._end)


_TOKEN = re.compile(r"[\x21-\x7e]+")
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def _target(url: str) -> tuple[str, str, int | None, str]:
    from urllib.parse import urlsplit  # noqa: PLC0415 - only for who reports to a collector

    parts = urlsplit(url)
    if "@" in parts.netloc:
        raise ValueError(f"an address holds no secret: give a token, or set {TOKEN_ENV}")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        hint = "write one like http://127.0.0.1:4318"
        raise ValueError(f"{url!r} is no address of a collector: {hint}")
    return parts.scheme, parts.hostname, parts.port, parts.path.rstrip("/")


def _spool(given: "str | os.PathLike[str] | None", environ: Mapping[str, str]) -> str:
    state = environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    if state.startswith("~"):  # nobody's home: there is no place that is ours alone
        state = os.devnull
    return os.fspath(given or environ.get(SPOOL_ENV) or os.path.join(state, "tracklog", "spool"))


def _folder(url: str) -> str:
    """Each collector has its own: what was meant for one never goes to another."""
    import hashlib  # noqa: PLC0415 - as above

    return (
        re.sub(r"[^A-Za-z0-9.-]+", "_", url)[:80]
        + "-"
        + hashlib.sha256(url.encode()).hexdigest()[:8]
    )


def _seconds(after: str | None) -> float:
    """What Retry-After says, in seconds, within reason."""
    if not after:
        return 0.0
    try:
        wait = float(after)
    except ValueError:
        from email.utils import parsedate_to_datetime  # noqa: PLC0415 - rarely a date

        try:
            wait = parsedate_to_datetime(after).timestamp() - time.time()
        except ValueError:
            return 0.0
    return min(wait, 300.0) if wait > 0 else 0.0


def _no_json(word: str) -> None:
    raise ValueError(f"{word} is no JSON")


def _short(answer: bytes) -> str:
    return answer[:300].decode(errors="replace").strip()


def _say(text: str) -> None:
    text = _CONTROLS.sub("�", text)  # what others said must not steer a terminal
    try:
        print(f"tracklog: {text}", file=sys.stderr)
    except (OSError, ValueError, AttributeError, RuntimeError):
        pass  # there is no stderr, and a warning must not be what breaks the producer
