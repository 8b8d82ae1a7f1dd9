class Batch(NamedTuple):
    """Lines that are sent together: the same key always stands for the same lines."""

    key: str
    dialect: str
    """Empty, where a crash left something else than a line."""
    lines: list[bytes]
    end: int


class SpoolFile:
    """A private file whose lock is held by the one process that writes and forwards it.

    It begins with the place up to which all was taken by the collector, in twenty digits.
    """

    HEAD = 21
    limit = SEGMENT_BYTES

    def __init__(self, path: str, fd: int) -> None:
        self.path, self.fd = path, fd
        self.name = os.path.basename(path).partition(".")[0]

    @classmethod
    def new(cls, folder: str) -> "SpoolFile":
        for _ in range(8):
            path = os.path.join(folder, f"{time.time_ns():020d}-{os.urandom(8).hex()}.spool")
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            if (file := cls._locked(path, fd)) is not None:
                try:
                    file.append(b"%020d\n" % cls.HEAD)
                except OSError:
                    file.remove()
                    raise
                return file
            try:
                os.unlink(path)
            except OSError:
                pass  # another process took it for left behind, and removed it
        raise OSError(f"no file of {folder} can be locked")

    @classmethod
    def left(cls, path: str) -> "SpoolFile | None":
        """The file of a process that is gone, or None: at most one process gets it."""
        try:
            if not stat.S_ISREG(os.lstat(path).st_mode):  # a pipe or a device might not return
                return None
            file = cls._locked(path, os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK))
        except OSError:
            return None
        if file is not None and file.size() <= cls.HEAD:
            file.remove()
            return None
        return file

    @classmethod
    def _locked(cls, path: str, fd: int) -> "SpoolFile | None":
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.stat(path).st_ino == os.fstat(fd).st_ino:
                return cls(path, fd)
        except OSError:
            pass  # another process has it, or had it and is done with it
        os.close(fd)
        return None

    def append(self, data: bytes) -> None:
        written = os.write(self.fd, data)
        if written != len(data):
            end = os.lseek(self.fd, 0, os.SEEK_CUR) - written
            os.ftruncate(self.fd, end)
            os.lseek(self.fd, end, os.SEEK_SET)
            raise OSError(f"only {written} of {len(data)} bytes were written")

    def size(self) -> int:
        return os.fstat(self.fd).st_size

    def read(self, start: int, end: int) -> bytes:
        parts = []
        while start < end and (part := os.pread(self.fd, end - start, start)):
            parts.append(part)
            start += len(part)
        return b"".join(parts)

    def taken(self) -> int:
        """Where to go on: at the start, unless what is written there can be true of this file."""
        digits = os.pread(self.fd, self.HEAD, 0)
        if len(digits) != self.HEAD or digits[-1:] != b"\n" or not digits[:-1].isdigit():
            return self.HEAD
        end = int(digits)
        if self.HEAD <= end <= self.size() and os.pread(self.fd, 1, end - 1) == b"\n":
            return end
        return self.HEAD

    def take(self, end: int) -> None:
        os.pwrite(self.fd, b"%020d" % end, 0)

    def release(self) -> None:
        """Leaves the file to whoever looks for it next."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)

    def remove(self) -> None:
        try:
            os.unlink(self.path)
        except OSError:
            pass  # it is empty, and whoever can will remove it
        self.release()


class SpoolMemory:
    """What stands in for the file where none can be written; it ends with its process."""

    HEAD = 0
    limit = MEMORY_BYTES

    def __init__(self) -> None:
        self.name = os.urandom(16).hex()
        self._bytes, self._dropped = bytearray(), 0

    def append(self, data: bytes) -> None:
        self._bytes += data

    def size(self) -> int:
        return self._dropped + len(self._bytes)

    def read(self, start: int, end: int) -> bytes:
        return bytes(self._bytes[start - self._dropped : end - self._dropped])

    def taken(self) -> int:
        return self._dropped

    def take(self, end: int) -> None:
        del self._bytes[: end - self._dropped]
        self._dropped = end

    def release(self) -> None:
        self._bytes.clear()

    remove = release


_BEFORE = re.compile(rb"[a-z][a-z0-9-]* ")


class Segment:
    """Lines on their way: each with its dialect before it; an empty line ends a batch.

    So does another dialect, and the end of the file once a batch was read up to there. Where a
    batch ends is thus written before anything follows it, for whoever must send it again.
    """

    def __init__(self, store: "SpoolFile | SpoolMemory") -> None:
        self.store = store
        self.done = store.taken()
        self.closed = False
        self._pending = self._count = 0
        self._cut = False

    def append(self, line: bytes, dialect: str) -> None:
        data = b"%b%b %b" % (b"\n" if self._cut else b"", dialect.encode(), line)
        self.store.append(data)
        if self._cut:
            self._pending = self._count = 0
            self._cut = False
        self._pending += len(data)
        self._count += 1
        if self._pending >= BATCH_BYTES or self._count >= BATCH_LINES:
            self._cut = True

    def left(self) -> int:
        """How many bytes were not taken yet."""
        return self.store.size() - self.done

    def reach(self, *, whole: bool = False) -> int:
        """How far to read for the next batch, after which it does not grow; or for all of them."""
        end = self.store.size()
        if whole or end - self.done <= 2 * BATCH_BYTES:
            self._cut = True
        return end

    def batch(self, end: int, behind: int = 0) -> Batch | None:
        """The first lines that were not taken, or the first behind a place, or None."""
        place = max(self.done, behind)
        block, reach = b"", min(end, place + 2 * BATCH_BYTES)
        while True:
            block = self.store.read(place, reach)
            body = block.lstrip(b"\n")
            stop = body.find(b"\n\n")
            if stop >= 0 or reach >= end:
                break
            reach = min(end, reach + 2 * len(block))
        start = place + len(block) - len(body)
        body = body[: stop if stop >= 0 else body.rfind(b"\n") + 1]
        lines = body.removesuffix(b"\n").split(b"\n") if body else []
        if not lines:
            return None
        before = lines[0].partition(b" ")[0] + b" "
        key = f"{self.store.name}-{start}"
        if not _BEFORE.fullmatch(before):
            return Batch(key, "", lines[:1], start + len(lines[0]) + 1)
        known = itertools.takewhile(lambda line: line.startswith(before), lines)
        bare = [line[len(before) :] for line in known]
        through = start + sum(map(len, bare)) + len(bare) * (len(before) + 1)
        return Batch(key, before[:-1].decode(), bare, through)

    def take(self, end: int) -> None:
        self.done = end
        self.store.take(end)
