def _encoding() -> Callable[[Any], str]:
    """Compact JSON, non-ASCII raw, NaN refused; with the encoder in C built once, if there is one."""
    plain = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    try:
        inside: Any = json.encoder
        quote, make = inside.encode_basestring, inside.c_make_encoder
        chunks: Any = make(None, plain.default, quote, None, ":", ",", False, False, False)

        def fast(value: Any) -> str:
            return "".join(chunks(value, 0))

        probe = {"é": [1, 0.5, None, True, '"']}
        return fast if fast(probe) == plain.encode(probe) else plain.encode
    except (AttributeError, TypeError):  # another Python has another encoder inside
        return plain.encode


_dumps = _encoding()
_fresh: list[str] = []
# A child must not use the ids that its parent drew.
os.register_at_fork(after_in_child=_fresh.clear)
_VARIANT = dict(zip("0123456789abcdef", "89ab" * 4, strict=True))


def new_id() -> str:
    """A fresh UUID v4."""
    while True:
        try:
            return _fresh.pop()
        except IndexError:  # one call to the system for many
            drawn = os.urandom(16 * 64).hex()
            _fresh.extend(_uuid4(drawn[at : at + 32]) for at in range(0, len(drawn), 32))


def _uuid4(drawn: str) -> str:
    variant = _VARIANT[drawn[16]]
    return f"{drawn[:8]}-{drawn[8:12]}-4{drawn[13:16]}-{variant}{drawn[17:20]}-{drawn[20:]}"


def _at(at: "str | datetime | None", digits: int = 6) -> str:
    """A time as JSON text: now, or as given; a datetime must know its zone."""
    if at is None:
        now = str(time.time_ns())  # ten digits of seconds until the year 2286
        return f'"{_second(now[:10])}.{now[10 : 10 + digits]}Z"'
    if isinstance(at, str):
        return _name(at, "/at")
    if at.tzinfo is None:
        hint = "give it a zone: datetime.now(UTC)"
        raise Invalid(Problem("/at", f"{at} does not say in which zone it is", hint))
    fine = "microseconds" if digits == 6 else "milliseconds"
    return f'"{at.astimezone(UTC).replace(tzinfo=None).isoformat(timespec=fine)}Z"'


@lru_cache(maxsize=4)
def _second(second: str) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(int(second)))


_quoted = lru_cache(maxsize=1024)(_dumps)


def _text(value: Any, at: str) -> str:
    if not isinstance(value, str):
        raise Invalid(Problem(at, f"{value!r} is no string", "write a string"))
    return _quoted(value) if len(value) < 128 else _dumps(value)


def _name(value: Any, at: str) -> str:
    if not value:
        raise Invalid(Problem(at, "a name is missing", "write a string that is not empty"))
    return _text(value, at)


def _escaped(value: Any, at: str) -> str:
    return _name(value, at)[1:-1]


@lru_cache(maxsize=1024)
def _kind(kind: str) -> str:
    if not isinstance(kind, str) or not _KIND.fullmatch(kind):
        hint = "lower-case words joined by dots, like agent.spoke"
        raise Invalid(Problem("/kind", f"{kind!r} is no kind", hint))
    return f'"{kind}"'


def _count(value: Any, at: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise Invalid(Problem(at, f"{value!r} does not belong here", "a whole number, 0 or more"))
    return value


def _object(value: Any, at: str) -> str:
    text = _json({} if value is None else value, at)
    if text[0] != "{":
        raise Invalid(Problem(at, f"{value!r:.60} is no JSON object", "write a dict"))
    return text


def _more(extra: Mapping[str, Any], own: frozenset[str]) -> str:
    """Keys that stand behind the envelope's own."""
    if not extra:
        return ""
    if not own.isdisjoint(extra):
        key = min(own.intersection(extra))
        hint = "leave it out, or use the argument that is there for it"
        raise Invalid(Problem(f"/{key}", f"{key} is written by the emitter", hint))
    return "," + _object(extra, "")[1:-1]


def _json(value: Any, at: str) -> str:
    try:
        return _dumps(value)
    except (TypeError, ValueError, RecursionError) as error:
        found = [*_unwritable(at, value)] or [Problem(at, str(error), "write what JSON can hold")]
        raise Invalid(*found) from error


_BREAKS = re.compile("[\x85\u2028\u2029\ud800-\udfff]")
"""What awf escapes: where naive splitters cut a line, and lone surrogates."""
