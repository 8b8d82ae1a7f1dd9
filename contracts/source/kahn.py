def now_ts() -> str:
    """The time now, as the contract writes it: UTC, milliseconds, Z."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Field(NamedTuple):
    """What the contract says of one key."""

    wanted: str
    fits: Callable[[Any], bool]
    number: type | None = None
    """int or float: how its digits are written, whatever number was given."""
    free: bool = False
    """Whether it is text of the producer's own, which a redactor may change."""
    required: bool = True
    items: "Mapping[str, Field] | None" = None
    """The keys of each object in it, where it is a list of objects."""


def _is_ts(value: Any) -> bool:
    if not isinstance(value, str) or not _TS.fullmatch(value):
        return False
    try:
        datetime.fromisoformat(value[:-1])
    except ValueError:
        return False
    return True


def _is_number(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool)


def _matches(pattern: str, wanted: str) -> Field:
    # K4: the whole string, so that "coder\n" is refused.
    match = re.compile(pattern).fullmatch
    return Field(wanted, lambda value: isinstance(value, str) and match(value) is not None)


def _one_of(values: Iterable[str]) -> Field:
    known = [str(value) for value in values]
    return Field("one of " + ", ".join(known), lambda v: isinstance(v, str) and v in known)


def _whole(least: int | None = None) -> Field:
    def fits(value: Any) -> bool:
        return _is_number(value) and value == int(value) and (least is None or value >= least)

    return Field("a whole number" + ("" if least is None else f", {least} or more"), fits, int)


def _optional(field: Field) -> Field:
    return field._replace(required=False)


_TS = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z")
TS = Field("UTC with milliseconds and Z, like 2026-05-05T09:00:00.000Z", _is_ts)
RUN_ID = _matches(
    r"[a-zA-Z0-9][a-zA-Z0-9_-]{0,63}", "1 to 64 of A-Z a-z 0-9 _ -, first a letter or a digit"
)
TEXT = Field("a string", lambda value: isinstance(value, str), free=True)
BOOL = Field("true or false", lambda value: isinstance(value, bool))
COUNT = _whole(0)
SECONDS = Field("a number of seconds, 0 or more", lambda v: _is_number(v) and v >= 0, float)
BASE = {"ts": TS, "run_id": RUN_ID, "event": TEXT._replace(free=False)}


def problems(event: Mapping[str, Any]) -> list[Problem]:
    """Every fault of an event: its shape, and what JSON has no word for."""
    kind = event.get("event")
    known = isinstance(kind, str) and kind in EVENTS
    wrong = () if known else (_refused("/event", kind, "one of " + ", ".join(EVENTS)),)
    fields = EVENTS[str(kind)] if known else BASE
    found = [*wrong, *_faults("", event, fields), *_unwritable("", event)]
    return list({problem.pointer: problem for problem in reversed(found)}.values())[::-1]


def _faults(at: str, body: Mapping[str, Any], fields: Mapping[str, Field]) -> Iterator[Problem]:
    for key, field in fields.items():
        here = f"{at}/{key}"
        if key not in body:
            if field.required:
                yield Problem(here, f"{key} is missing", f"add it: {field.wanted}")
        elif not field.fits(body[key]):
            yield _refused(here, body[key], field.wanted)
        elif field.items:
            for number, item in enumerate(body[key]):
                yield from _faults(f"{here}/{number}", item, field.items)


def _refused(at: str, value: Any, wanted: str) -> Problem:
    if value is None:  # KAHN-40
        return Problem(at, "null stands here", f"leave the key out, or write {wanted}")
    try:
        shown = repr(value)
    except ValueError:  # an integer of thousands of digits
        shown = "so long a number"
    shown = shown if len(shown) <= 60 else shown[:59] + "…"
    return Problem(at, f"{shown} does not belong here", f"write {wanted}")


def _event(
    event: str, ts: str | None, run_id: str, given: dict[str, Any], extra: dict[str, Any]
) -> dict[str, Any]:
    fields = EVENTS[event]
    said = {key: value for key, value in given.items() if fields[key].required or value is not None}
    at = now_ts() if ts is None else ts
    return shape({"ts": at, "run_id": run_id, "event": event, **said, **extra})


def shape(event: Mapping[str, Any]) -> dict[str, Any]:
    """The event as it is written (K17): keys in declared order, unknown keys as given, cropped."""
    fields = EVENTS.get(str(event.get("event")), {})
    return _settle(_ordered(event, fields))


def _ordered(body: Mapping[str, Any], fields: Mapping[str, Field]) -> dict[str, Any]:
    ordered = {key: body[key] for key in fields if key in body}
    ordered.update(body)
    for key, field in fields.items():
        value = ordered.get(key)
        if field.number is float and isinstance(value, int) and not isinstance(value, bool):
            try:
                ordered[key] = float(value)
            except OverflowError:
                raise Invalid(_refused(f"/{key}", value, field.wanted)) from None
        elif field.number is int and isinstance(value, float) and value.is_integer():
            ordered[key] = int(value)
    return ordered


def line_of(event: Mapping[str, Any]) -> bytes:
    """The canonical line of a shaped event (K17), with its line end."""
    try:
        text = _text(event, EVENTS.get(str(event.get("event")), {}))
    except (TypeError, ValueError, RecursionError) as error:
        found = [*_unwritable("", event)] or [Problem("", str(error), "write what JSON can hold")]
        raise Invalid(*found) from error
    return _utf8(text + "\n")


def _text(body: Mapping[str, Any], fields: Mapping[str, Field]) -> str:
    parts = []
    for key, value in body.items():
        field = fields.get(key)
        if field is None:
            text = _json(value)
        elif field.number is float and isinstance(value, float):
            text = _decimal(value)
        elif field.items and field.fits(value):
            text = f"[{','.join(_text(item, field.items) for item in value)}]"
        else:
            text = _json(value)
        parts.append(f"{_json(key)}:{text}")
    return "{" + ",".join(parts) + "}"


_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


def _decimal(value: float) -> str:
    """The shortest digits that read back the same, always with a decimal point: 1.0e-07."""
    if not math.isfinite(value):
        raise ValueError(value)
    text = float.__repr__(value)
    return text if "." in text else text.replace("e", ".0e")


class Appender(GrowingFile):
    """The file of a run, which many threads may write."""

    mode = 0o666
    _lock = threading.RLock()
    """One for the process; re-entrant, for a signal handler that emits."""

    def append(self, line: bytes) -> None:
        with Appender._lock:
            super().append(line)

    def _detach(self) -> int | None:
        with Appender._lock:
            return super()._detach()

    @classmethod
    def _renew(cls) -> None:
        cls._lock = threading.RLock()


# A child must not wait for a lock that another thread of its parent held.
os.register_at_fork(after_in_child=Appender._renew)


def _run_id(value: str) -> str:
    if not RUN_ID.fits(value):
        raise Invalid(_refused("/run_id", value, RUN_ID.wanted))
    return value


class Run:
    """Writes the events of one run to a file, to a collector, or to both.

    The collector is at `url`, or where TRACKLOG_URL says; see HttpSink for token, spool and
    deadline. run_id and parent_run_id come from the environment unless given; a run that has neither gets a
    fresh id. `validate` checks each event; `redact` is called with each free text before it is
    cropped, and what it returns is written; durability is "os" (the file is synced when it is
    closed) or "sync" (after each line). Whatever cannot be written to the file raises; a collector
    that is away does not.
    """

    def __init__(
        self,
        path: "str | os.PathLike[str] | None" = None,
        run_id: str | None = None,
        *,
        url: str | None = None,
        token: str | None = None,
        spool: "str | os.PathLike[str] | None" = None,
        deadline: float = 2.0,
        dialect: str | None = None,
        parent_run_id: str | None = None,
        traceparent: str | None = None,
        validate: bool = False,
        redact: Callable[[str], str] | None = None,
        durability: str = "os",
        environ: Mapping[str, str] | None = None,
    ) -> None:
        environ = os.environ if environ is None else environ
        self.run_id = _run_id(run_id or environ.get(RUN_ENV) or str(uuid.uuid4()))
        parent = parent_run_id or environ.get(PARENT_ENV)
        self.parent_run_id = parent if parent != self.run_id else None
        self.traceparent = traceparent or environ.get(TRACE_ENV)
        self._validate, self._redact = validate, redact
        self._fields: dict[str, Any] = {}
        self._dialect = dialect or DIALECT
        more: dict[str, Any] = {"token": token, "spool": spool, "deadline": deadline}
        self._http = (
            HttpSink(url, environ=environ, **more)
            if url
            else HttpSink.from_environment(environ, **more)
        )
        if path is None and self._http is None:
            raise ValueError(f"events have nowhere to go: give a path or a url, or set {URL_ENV}")
        self._file = None if path is None else Appender(path, durability)

    def bind(self, **fields: Any) -> Self:
        """Another emitter to the same place, whose every event carries these fields too."""
        bound = copy.copy(self)
        bound.run_id = _run_id(fields.pop("run_id", self.run_id))
        bound._fields = {**self._fields, **fields}
        return bound

    def emit(self, event: Mapping[str, Any]) -> bytes:
        """Writes an event given as a dict and returns its line; ts and run_id may be left out."""
        body = {"ts": now_ts(), "run_id": self.run_id, **self._fields, **event}
        return self._append(shape(self._redacted(body, body.get("event"))))

    def child_env(self, run_id: str | None = None) -> dict[str, str]:
        """What a child process needs in its environment to name this run as its parent.

        Merge it: `subprocess.run(command, env={**os.environ, **run.child_env()})`.
        """
        child = {RUN_ENV: run_id or str(uuid.uuid4()), PARENT_ENV: self.run_id}
        return {**child, TRACE_ENV: self.traceparent} if self.traceparent else child

    def close(self) -> None:
        """Syncs and closes the file, and sends what it can, for every emitter that is bound to it."""
        try:
            if self._file is not None:
                self._file.close()
        finally:
            if self._http is not None:
                self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _build(self, build: Callable[..., dict[str, Any]], fields: Mapping[str, Any]) -> bytes:
        given = {"run_id": self.run_id, **self._fields, **fields}
        return self._append(build(**self._redacted(given, build.__name__)))

    def _append(self, event: dict[str, Any]) -> bytes:
        if self.parent_run_id and event.get("event") in STARTS:  # K33
            event.setdefault("parent_run_id", self.parent_run_id)
        if self._validate and (found := problems(event)):
            raise Invalid(*found)
        line = line_of(event)
        if self._file is not None:
            self._file.append(line)
        if self._http is not None:
            self._http.write(line, self._dialect)
        return line

    def _redacted(self, body: dict[str, Any], event: Any) -> dict[str, Any]:
        if self._redact is None:
            return body
        fields = EVENTS.get(str(event), BASE)
        fixed = {key for key, field in fields.items() if not field.free} | {"from_"}
        return {key: value if key in fixed else self._clean(value) for key, value in body.items()}

    def _clean(self, value: Any) -> Any:
        if isinstance(value, str) and self._redact is not None:
            return self._redact(value)
        if isinstance(value, dict):
            return {key: self._clean(inner) for key, inner in value.items()}
        return [self._clean(inner) for inner in value] if isinstance(value, list) else value
