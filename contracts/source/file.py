class GrowingFile:
    """A file that only grows: each line is one write, so that lines of many writers never mix.

    durability is "os" (the file is synced when it is closed) or "sync" (after each line).
    """

    mode = 0o600

    def __init__(self, path: "str | os.PathLike[str]", durability: str = "os") -> None:
        if durability not in ("os", "sync"):
            raise ValueError(f"durability {durability!r} is unknown: write 'os' or 'sync'")
        self._sync = durability == "sync"
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        self._fd: int | None = os.open(path, flags, self.mode)
        self._torn = self._unterminated(path)

    def append(self, line: bytes) -> None:
        """Writes one complete line or raises; a short write is never followed by the rest (K19)."""
        if self._fd is None:
            raise ValueError("the emitter is closed: open another one")
        # A line that a crash or a short write left without its end would swallow this one.
        line = b"\n" + line if self._torn else line
        written = os.write(self._fd, line)
        self._torn = written != len(line)
        if self._torn:
            raise ShortWrite(f"only {written} of {len(line)} bytes were written")
        if self._sync:
            os.fsync(self._fd)

    def close(self) -> None:
        """Makes the lines durable and closes the file; a second call does nothing."""
        fd = self._detach()
        if fd is not None:
            try:
                if stat.S_ISREG(os.fstat(fd).st_mode):
                    os.fsync(fd)
            finally:
                os.close(fd)

    def _detach(self) -> int | None:
        fd, self._fd = self._fd, None
        return fd

    def _unterminated(self, path: "str | os.PathLike[str]") -> bool:
        assert self._fd is not None
        status = os.fstat(self._fd)
        if not stat.S_ISREG(status.st_mode) or not status.st_size:
            return False
        try:
            with open(path, "rb", buffering=0) as file:
                before = -1
                while (end := file.seek(-1, os.SEEK_END)) != before:
                    if file.read(1) == b"\n":
                        return False
                    before = end
                    time.sleep(0.02)  # another writer may be in the middle of its line
                return True
        except OSError:  # it cannot be read: a blank line is the lesser harm
            return True
