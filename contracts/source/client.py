class CollectorClient:
    """HTTP to one collector: one exchange at a time, with its token."""

    def __init__(
        self, url: str, token: str | None, token_file: str | None, warn: Callable[[str, str], None]
    ) -> None:
        # A producer that writes files starts faster without it. Not later, in the thread: a child
        # that is forked in the middle of an import has half a module.
        import http.client  # noqa: PLC0415 - see above

        self.url, self._http = url, http.client
        self._where = _target(url)
        self._token, self._token_file, self._warn = token, token_file, warn

    def connect(self, patience: float) -> Any:
        scheme, host, port, _ = self._where
        secure = scheme == "https"
        kind = self._http.HTTPSConnection if secure else self._http.HTTPConnection
        return kind(host, port, timeout=patience)

    def exchange(
        self,
        connection: Any,
        method: str,
        path: str,
        patience: float,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """What the collector answers; raises Unreachable, whatever went wrong."""
        until = time.monotonic() + 2 * patience
        try:
            token = self._secret()
            proof = {"Authorization": f"Bearer {token}"} if token else {}
            try:
                connection.request(
                    method, self._where[3] + path, body, {**(headers or {}), **proof}
                )
            except (BrokenPipeError, ConnectionResetError):
                pass  # who does not want the whole of it may still have said why
            answer = connection.getresponse()
            version = ", ".join(answer.headers.get_all(PROTOCOL_HEADER) or ())
            read = bytearray()
            while part := answer.read1(1 << 16):
                read += part
                if time.monotonic() > until:
                    raise Unreachable(f"{self.url} does not come to an end")
                if len(read) > ANSWER_BYTES:  # nobody has so much to say of a batch
                    connection.close()
                    return Answer(answer.status, b"", 0.0, version)
            if answer.length:
                raise Unreachable(f"{self.url} stopped in the middle of its answer")
            answer.close()
            if answer.will_close:
                connection.close()
            pause = _seconds(answer.headers.get("Retry-After"))
            return Answer(answer.status, bytes(read), pause, version)
        except (OSError, self._http.HTTPException, ValueError) as error:
            why = str(error) or type(error).__name__
            raise Unreachable(f"{self.url} does not answer ({why})") from error

    def _secret(self) -> str | None:
        token = self._token
        try:
            if not token and self._token_file:
                fd = os.open(self._token_file, os.O_RDONLY | os.O_NONBLOCK)
                try:
                    token = os.read(fd, 1 << 16).decode().strip()
                finally:
                    os.close(fd)
        except (OSError, ValueError) as error:
            self._warn("token", f"the token cannot be read: {error}")
        if token and not _TOKEN.fullmatch(token):  # and it must not be told in an error
            self._warn("token", "the token holds what no header can hold; it is not sent")
            return None
        return token
