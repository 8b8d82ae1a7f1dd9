class HttpSink:
    """Sends lines to a collector, from a thread of its own; what it cannot send waits in a spool.

    `write` appends to a private file and returns: it never waits for the network and never raises
    because of it. Batches are sent in order, again and again until the collector has taken them,
    under a key by which it knows a batch that it has already. Taken is what an answer of the
    collector itself says so of, line by line counted; a batch that it refuses for good is set aside
    in `refused.jsonl`. What a process leaves behind is sent by the next one that reports to the
    same collector. Closing and the end of the process wait `deadline` seconds at most, together and
    for all sinks of the process.
    """

    _alive: ClassVar["WeakSet[HttpSink]"] = WeakSet()

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        spool: "str | os.PathLike[str] | None" = None,
        deadline: float = 2.0,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        import hashlib  # noqa: PLC0415 - as in CollectorClient

        environ = os.environ if environ is None else environ
        self._sha256 = hashlib.sha256
        self.url, self.deadline = url.rstrip("/"), deadline
        self._client = CollectorClient(
            self.url, token or environ.get(TOKEN_ENV), environ.get(TOKEN_FILE_ENV), self._warn
        )
        self.folder = os.path.join(_spool(spool, environ), _folder(self.url))
        self._renew()
        _waits.pop("", None)
        HttpSink._alive.add(self)

    def _renew(self) -> None:
        """Nothing on its way, no thread, no lock held: as at the start, and in a child process."""
        self._lock = threading.RLock()
        self._wake, self._hurry = Bell(), Bell()
        self._ticket, self._started = threading.Lock(), False
        self._leaving, self._finished = threading.Event(), threading.Event()
        self._segments: list[Segment] = []
        self._adopted: list[Segment] = []
        self._line: Any = None
        self._closed = self._looked = self._looked_last = False
        self._warned: set[str] = set()
        self._checkpoints: dict[str, tuple[int, str]] = {}
        self._seen = 0
        self.set_aside = 0
        """How many lines were refused for good, and stand in `refused.jsonl`."""
        self._lost = 0
        self._stuck, self._tries, self._strikes = "", 0, 0

    @property
    def lost(self) -> int:
        """How many lines are gone: they had no place left, or the sink was closed before it could
        send what waited in memory alone.
        """
        with self._lock:
            return self._lost + (self._only_in_memory() if self._closed else 0)

    @classmethod
    def from_environment(
        cls, environ: Mapping[str, str] | None = None, **options: Any
    ) -> "HttpSink | None":
        """The sink for the URL in the environment, if there is one; an invalid URL is reported."""
        environ = os.environ if environ is None else environ
        url = environ.get(URL_ENV)
        try:
            return cls(url, environ=environ, **options) if url else None
        except ValueError as error:
            _say(f"{URL_ENV}: {error}; nothing is sent")
            return None

    def write(self, line: bytes, dialect: str, /) -> None:
        """Takes one line with its line end, whole; where there is no place left it is counted."""
        with self._lock:
            if self._closed:
                raise ValueError("the emitter is closed: open another one")
            try:
                self._append(line, dialect)
            except (OSError, ValueError) as error:
                self._lose(f"no line can be kept: {error}")
        self._wake.ring()
        if not self._started:
            self._start()

    def flush(self, deadline: float | None = None) -> bool:
        """Waits until all is with the collector; False when it is not by the deadline."""
        until = time.monotonic() + (self.deadline if deadline is None else deadline)
        self._start()
        self.hurry()
        while not (done := self._looked and not self._left()):
            if time.monotonic() > until or self._finished.is_set():
                break
            time.sleep(0.005)
        return done

    def hurry(self) -> None:
        """Sends what there is now, without waiting for more."""
        self._hurry.ring()
        self._wake.ring()

    def close(self, deadline: float | None = None) -> None:
        """Sends what it can within the deadline, and leaves the rest in the spool.

        Without a deadline of its own it waits for as long as closing may in this process by now.
        """
        self._close()
        if deadline is None:
            deadline = _allowed(self.url, self.deadline * CLOSE_SHARE)
        began = time.monotonic()
        try:
            self._finished.wait(deadline)
        finally:
            _charge(time.monotonic() - began, self.deadline, self.url)

    def get(self, path: str, patience: float) -> tuple[int, bytes, float]:
        """A page of the collector: its status, its bytes, how long to pause; raises Unreachable."""
        connection = self._client.connect(patience)
        try:
            return self._client.exchange(connection, "GET", path, patience)[:3]
        finally:
            connection.close()

    def _append(self, line: bytes, dialect: str) -> None:
        last = self._segments[-1] if self._segments else None
        if last is None or last.closed or last.store.size() >= last.store.limit:
            if last is not None and isinstance(last.store, SpoolMemory):
                if last.left() + len(line) > last.store.limit:
                    raise OSError("the collector is away and the memory is full")
            else:
                last = self._roll()
        try:
            last.append(line, dialect)
        except OSError:
            if isinstance(last.store, SpoolMemory):
                raise
            last.closed = True
            self._segments.append(Segment(SpoolMemory()))
            self._segments[-1].append(line, dialect)

    def _roll(self) -> Segment:
        if sum(segment.left() for segment in self._segments) >= SPOOL_BYTES:
            raise OSError(f"the spool {self.folder} is full")
        try:
            os.makedirs(self.folder, 0o700, exist_ok=True)
            store: SpoolFile | SpoolMemory = SpoolFile.new(self.folder)
        except (OSError, ValueError) as error:
            self._warn("spool", f"{error}: what cannot be sent is kept in memory, up to a limit")
            store = SpoolMemory()
        self._segments.append(Segment(store))
        return self._segments[-1]

    def _lose(self, why: str, lines: int = 1) -> None:
        self._lost += lines
        self._warn("lost", f"{why}; lines are being lost")

    def _only_in_memory(self) -> int:
        """How many lines wait nowhere else."""
        waiting = [each for each in self._segments if isinstance(each.store, SpoolMemory)]
        blocks = (each.store.read(each.done, each.store.size()) for each in waiting)
        return sum(1 for block in blocks for line in block.split(b"\n") if line)

    def _where(self) -> str:
        """Where lines wait that were not sent yet."""
        if any(isinstance(each.store, SpoolMemory) for each in tuple(self._segments)):
            return "lines wait in memory"
        return f"lines are kept in {self.folder}"

    def _say_lost(self) -> None:
        if lost := self.lost:
            self._warn("total", f"{lost} lines were lost")

    def _start(self) -> None:
        # A ticket that is taken once: a signal handler that emits may come between any two steps.
        if not self._ticket.acquire(blocking=False):
            return
        try:
            threading.Thread(target=self._forward, name="tracklog", daemon=True).start()
        except RuntimeError:  # the interpreter is ending: the spool keeps the lines
            self._finished.set()
        self._started = True

    def _close(self) -> None:
        with self._lock:
            self._closed = True
            self._leaving.set()
            if self._ticket.acquire(blocking=False):  # there never was anything to send
                self._finished.set()
        self.hurry()

    def _left(self) -> bool:
        with self._lock:
            return any(segment.left() for segment in (*self._adopted, *self._segments))

    def _forward(self) -> None:
        """What the thread does: batch after batch, oldest first, until the sink is closed."""
        failures = 0
        self._hurry.wait(LINGER)
        try:
            while not (self._closed and failures):
                try:
                    if (found := self._next()) is not None:
                        self._send(*found)
                    elif self._closed and self._looked_last:
                        return
                    else:
                        self._idle()
                    failures = 0
                except Exception as error:  # noqa: BLE001 - a thread that ends would send no more
                    failures += 1
                    if not self._closed:
                        self._pause(failures, error)
                        failures = 0 if self._closed else failures
        finally:
            self._rest()

    def _idle(self) -> None:
        if self._closed:  # a child may have left something meanwhile
            self._looked, self._looked_last = False, True
        elif self._wake.wait(LOOK_AROUND):
            self._hurry.wait(LINGER)
        else:
            self._looked = False

    def _pause(self, failures: int, error: Exception) -> None:
        """Longer from failure to failure, never twice alike, and as long as the collector asks."""
        pause = min(LONGEST_PAUSE, 0.1 * 2 ** min(failures, 12))
        pause *= 0.5 + os.urandom(1)[0] / 510
        if not isinstance(error, Unreachable):
            self._warn("error", f"{type(error).__name__}: {error}")
        elif error.pause > pause:
            self._leaving.wait(error.pause)
            return
        self._hurry.wait(pause)

    def _next(self) -> tuple[Segment, Batch] | None:
        if not self._looked:
            self._look_around()
        while self._adopted:
            first = self._adopted[0]
            end = first.reach()
            if found := first.batch(end):
                return first, found
            if torn := first.store.read(first.done, end).strip(b"\0\n"):
                self._put_aside("", [(torn, "the end of a line is missing")], 0)
            with self._lock:
                self._adopted.pop(0).store.remove()
        while True:
            with self._lock:
                if not self._segments:
                    return None
                first = self._segments[0]
                end = first.reach()
                done = first.done >= end
                if done and (len(self._segments) > 1 or end >= first.store.limit // 8):
                    self._segments.pop(0).store.remove()
                    continue
            if not done and (found := first.batch(end)):
                return first, found
            return None

    def _look_around(self) -> None:
        """Takes over what processes left that are gone."""
        try:
            names = sorted(os.listdir(self.folder))
        except (OSError, ValueError):
            names = []
        for name in names:
            if name.endswith(".spool"):
                file = SpoolFile.left(os.path.join(self.folder, name))
                if file is not None:
                    with self._lock:
                        self._adopted.append(Segment(file))
        self._looked = True

    def _rest(self) -> None:
        """Removes what is done and leaves the rest to the next process."""
        with self._lock:
            if only := self._only_in_memory():
                self._lose("the collector is not back in time", only)
            for segment in (*self._adopted, *self._segments):
                if segment.left():
                    segment.store.release()
                else:
                    segment.store.remove()
            self._adopted, self._segments = [], []
        self._say_lost()
        if self._line is not None:
            self._line.close()
        self._finished.set()

    def _send(self, segment: Segment, batch: Batch) -> None:
        """Sends a batch, and returns when it is taken or set aside."""
        key, dialect, lines, end = batch
        if not dialect:
            self._put_aside("", [(lines[0], "no line of a spool")], 0)
        else:
            try:
                self._deliver(key, dialect, lines)
            except Unreachable as error:
                if not self._others_pass(segment, batch, error):
                    raise
                self._deliver_or_set_aside(key, dialect, lines)
        segment.take(end)

    def _others_pass(self, segment: Segment, batch: Batch, error: Unreachable) -> bool:
        """Whether the collector takes what stands behind a batch that it does not take.

        Asked only after a number of tries, of one batch further back each time: a collector that
        takes nothing is waited for.
        """
        self._tries = self._tries + 1 if self._stuck == batch.key else 1
        if self._stuck != batch.key:
            self._stuck, self._strikes = batch.key, 0
        distance = self._tries - (REFUSALS if error.is_refusal else FAILURES) + 1
        if distance < 1 or self._closed:
            return False
        if (other := self._behind(segment, batch.end, min(distance, FAR))) is None:
            return False
        body = b"\n".join(other.lines) + b"\n"
        try:
            answer = self._post(f"/api/events/{other.dialect}", other.key, body)
        except Unreachable:
            return False
        return answer.counts(len(other.lines)) is not None

    def _behind(self, segment: Segment, place: int, distance: int) -> Batch | None:
        """The batch so many places behind another one, or the last there is."""
        with self._lock:
            row = [*self._adopted, *self._segments]
            row = row[row.index(segment) :]
            ends = [each.reach(whole=True) for each in row]
        found = None
        for each, end in zip(row, ends, strict=True):
            at = place if each is segment else each.done
            while at < end and (batch := each.batch(end, at)):
                if batch.dialect:
                    found, distance = batch, distance - 1
                if not distance:
                    return found
                at = batch.end
        return found

    def _deliver_or_set_aside(self, key: str, dialect: str, lines: list[bytes]) -> None:
        """Once more: what kept it may just be over. If not, it must not hold up the others."""
        try:
            self._deliver(key, dialect, lines, set_aside=self._strikes + 1 >= STRIKES)
        except Unreachable as error:
            self._strikes += 1
            if not error.is_refusal and self._strikes < STRIKES:
                raise
            self._put_aside(dialect, [(line, str(error)) for line in lines], error.status)

    def _deliver(
        self, key: str, dialect: str, lines: list[bytes], *, set_aside: bool = False
    ) -> None:
        """Sends lines, and returns when they are taken or refused for good; raises Unreachable.

        Only the collector itself can refuse them. Of what is too large for something in between,
        the halves are tried, and a single line is kept, unless it is to be set aside.
        """
        path, body = f"/api/events/{dialect}", b"\n".join(lines) + b"\n"
        answer = self._post(path, key, body)
        if answer.status == 409 and answer.version == PROTOCOL:
            # The key stands for other lines there; under one that names these lines they are new.
            answer = self._post(path, f"{key}-{self._sha256(body).hexdigest()[:16]}", body)
        status, ours = answer.status, answer.version == PROTOCOL
        if status == 413 and len(lines) > 1:  # by halves, so that what is small enough arrives
            middle = len(lines) // 2
            self._deliver(f"{key}.0", dialect, lines[:middle], set_aside=set_aside)
            self._deliver(f"{key}.1", dialect, lines[middle:], set_aside=set_aside)
        elif (ours and status in (400, 409, 413, 415, 422)) or (status == 413 and set_aside):
            why = answer.why(self.url, len(lines))
            self._put_aside(dialect, [(line, why) for line in lines], status)
        elif (report := answer.counts(len(lines))) is not None:
            self._compare(report.get("checkpoint"))
            self._heed(dialect, lines, report)
        else:
            why = answer.why(self.url, len(lines))
            if status < 500 and status not in (408, 425, 429):
                kind = "answer" if ours or status != 200 else "foreign"
                self._warn(kind, f"{why}; {self._where()}")
            raise Unreachable(why, answer.pause, status, is_ours=ours)

    def _compare(self, checkpoint: Any) -> None:
        """Warns if the journal of the collector is not the one that it signed before."""
        if not isinstance(checkpoint, dict):
            return
        origin, records, root = (checkpoint.get(name) for name in ("origin", "records", "root"))
        if type(records) is not int or not isinstance(origin, str) or not isinstance(root, str):
            return
        known, hash = self._checkpoints.get(origin, (0, ""))
        same, proof = (records, root) == (known, hash), checkpoint.get("proof")
        if known and not same and not _extends(known, hash, records, root, proof, self._sha256):
            signed = f"it signed {known} records before, and now {records} other ones"
            self._warn("checkpoint", f"the journal of {self.url} was rewritten or cut: {signed}")
        else:
            self._checkpoints[origin] = records, root
            self._seen = records

    def _heed(self, dialect: str, lines: list[bytes], report: dict[str, Any]) -> None:
        """Puts aside the lines that the collector refused."""
        count = report["refused"]
        if not count:
            return
        refused: dict[int, str] = {}
        verdicts = report.get("verdicts")
        for verdict in verdicts if isinstance(verdicts, list) else ():
            if isinstance(verdict, dict) and verdict.get("verdict") == "refused":
                number = verdict.get("line")
                if type(number) is int and 1 <= number <= len(lines):
                    refused[number - 1] = json.dumps(verdict.get("problems"))[:500]
        if len(refused) != count:  # any of them may be among those
            why = f"{count} of these {len(lines)} lines were refused, without saying which"
            refused = dict.fromkeys(range(len(lines)), why)
        self._put_aside(dialect, [(lines[at], refused[at]) for at in sorted(refused)], 200)

    def _put_aside(self, dialect: str, refused: list[tuple[bytes, str]], status: int) -> None:
        path = os.path.join(self.folder, "refused.jsonl")
        left = len(refused)
        try:
            os.makedirs(self.folder, 0o700, exist_ok=True)
            for _ in _set_aside(path, dialect, refused, status):
                left -= 1
                self.set_aside += 1
            self._warn("refused", f"lines were refused: {refused[0][1]}; they are in {path}")
        except (OSError, ValueError) as error:
            with self._lock:
                self._lost += left
            why = refused[0][1]
            self._warn("aside", f"lines were refused: {why}; they cannot be kept: {error}")

    def _post(self, path: str, key: str, body: bytes) -> Answer:
        headers = {"Content-Type": "application/x-ndjson", "Idempotency-Key": key}
        if self._seen:
            headers["Tracklog-Seen"] = str(self._seen)
        for again in (True, False):
            fresh = self._line is None
            self._line = self._line or self._client.connect(PATIENCE)
            try:
                return self._client.exchange(self._line, "POST", path, PATIENCE, body, headers)
            except Unreachable as error:
                self._line.close()
                self._line = None
                if fresh or not again:  # one that had been idle may just have been closed
                    self._warn("down", f"{error}; {self._where()}")
                    raise
        raise AssertionError

    def _warn(self, what: str, text: str) -> None:
        if what not in self._warned:
            self._warned.add(what)
            _say(text)

    @classmethod
    def _forked(cls) -> None:
        # The lines stay with the parent, who holds the lock of their file.
        _waits.clear()
        for sink in list(cls._alive):
            closed = sink._closed
            for segment in (*sink._adopted, *sink._segments):
                segment.store.release()
            sink._renew()
            sink._closed = closed

    @classmethod
    def _end(cls) -> None:
        """Closes what is open when the process ends, all within the longest of their deadlines."""
        sinks = [sink for sink in list(cls._alive) if not sink._finished.is_set()]
        longest = max((_allowed(sink.url, sink.deadline) for sink in sinks), default=0.0)
        began = time.monotonic()
        until = began + longest
        try:
            for sink in sinks:
                sink._close()
            for sink in sinks:
                sink._finished.wait(max(0.0, until - time.monotonic()))
        except KeyboardInterrupt:
            pass  # who asks twice does not want to wait; the spool has the rest
        finally:
            # Another copy of this code may have its turn after this one.
            _charge(time.monotonic() - began, math.inf, *{sink.url for sink in sinks})
            for sink in sinks:
                sink._say_lost()
