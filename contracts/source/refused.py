def _set_aside(
    path: str, dialect: str, refused: list[tuple[bytes, str]], status: int
) -> Iterator[None]:
    """Appends refused lines to a private file, and yields after each that it has; raises OSError."""
    # Never blocks, also where a pipe lies in the place of the file.
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_NOFOLLOW
    fd = os.open(path, flags, 0o600)
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(f"{path} is no file")
        size = found.st_size
        if size > REFUSED_BYTES:
            raise OSError(f"{path} is full")
        torn = size and os.pread(fd, 1, size - 1) != b"\n"
        for line, why in refused:
            record = {"status": status, "why": why, "dialect": dialect}
            record["line"] = line.decode(errors="replace")
            text = json.dumps(record, ensure_ascii=False).encode(errors="replace") + b"\n"
            text = b"\n" + text if torn else text
            if os.write(fd, text) != len(text):
                raise OSError(f"{path} cannot be written")
            torn = False
            yield
    finally:
        os.close(fd)
