"""Write the facts of a framework's run with the emitter, without ever disturbing the run."""

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import cache, wraps
from importlib import import_module, metadata, util
from pathlib import Path
from typing import Any, TypeVar, cast
from uuid import NAMESPACE_URL, uuid5

log = logging.getLogger("tracklog")

URL = "http://127.0.0.1:4318"
"""The collector, if neither the caller nor the environment names one."""
DEPTH = 20
"""How deep a value is written as JSON; what is deeper is written as text."""

LONGEST = 1 << 18
"""Characters of a text that are recorded; a picture in a message can have millions."""

Callback = TypeVar("Callback", bound=Callable[..., None])


def library(module: str, package: str) -> Any:
    """A module of a framework; if it is missing, the error says how to install it."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"{package} is not installed here: pip install {package}", name=error.name
        ) from error


def software_of(package: str) -> dict[str, str]:
    """A framework with its version, as a run names it."""
    try:
        return {"name": package, "version": metadata.version(package)}
    except metadata.PackageNotFoundError:
        return {"name": package}


@cache
def emitter_module() -> Any:
    """The emitter `tracklog_emit.py`: in the package, or in the clone that it is imported from."""
    package = Path(__file__).parents[2]
    folders = (package / "contracts", package.parents[1] / "contracts")
    path = next(each for folder in folders if (each := folder / "tracklog_emit.py").exists())
    spec = util.spec_from_file_location("tracklog.formats.adapters._emitter", path)
    assert spec is not None
    assert spec.loader is not None
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def quietly(method: Callback) -> Callback:
    """A callback whose own failure is logged once and never reaches the agent."""

    @wraps(method)
    def guarded(self: "FactWriter", *args: Any, **kwargs: Any) -> None:
        try:
            method(self, *args, **kwargs)
        except Exception as error:  # noqa: BLE001  # an agent never fails because it is recorded
            if not self._warned:
                self._warned = True
                log.warning("%s was not recorded: %r", method.__name__, error)

    return cast("Callback", guarded)


class FactWriter:
    """Writes facts of any number of runs; `framework` is the name that their events carry."""

    framework = ""

    def __init__(self, url: str | None = None, emitter: Any = None) -> None:
        self._url = url
        self._emitter = emitter
        self._warned = False

    def write(
        self, fact: str, run: str, *, at: Any = None, once: str | None = None, **fields: Any
    ) -> None:
        """Write one fact; with `once`, equal ones of a run are recorded once."""
        known = {name: as_json(value) for name, value in fields.items() if value is not None}
        id = None if once is None else uuid5(NAMESPACE_URL, f"{self.framework}/{run}/{once}").hex
        origin = {"writer": self.framework, "fidelity": "observed"}
        self._emit().bind(run=run).tracklog(fact, id=id, at=at, origin=origin, **known)

    def close(self) -> None:
        """Send what is waiting, for at most two seconds; the rest is sent later."""
        if self._emitter is not None:
            self._emitter.close()

    def _emit(self) -> Any:
        if self._emitter is None:
            module = emitter_module()
            try:
                self._emitter = module.Emitter.http(self._url)
            except ValueError:
                if self._url:
                    raise
                self._emitter = module.Emitter.http(URL)
        return self._emitter


def as_json(value: Any, depth: int = 0) -> Any:
    """A value as JSON; what has no JSON form is written as text."""
    if isinstance(value, str):
        more = len(value) - LONGEST
        return value if more <= 0 else f"{value[:LONGEST]}… ({more} more characters)"
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else str(value)
    if depth >= DEPTH:
        return as_json(str(value))
    if isinstance(value, Mapping):
        return {str(key): as_json(inner, depth + 1) for key, inner in value.items()}
    if isinstance(value, Sequence | set | frozenset) and not isinstance(value, bytes | bytearray):
        return [as_json(inner, depth + 1) for inner in value]
    dump = getattr(value, "model_dump", None)
    if callable(dump) and not isinstance(value, type):
        return as_json(dump(), depth + 1)
    return as_json(str(value))


def described(error: Any) -> str:
    """An exception as one text: its class and its message."""
    return f"{type(error).__name__}: {error}" if isinstance(error, BaseException) else str(error)


def text_blocks(text: str) -> list[dict[str, str]]:
    """A text as the blocks of a message."""
    return [{"type": "text", "text": text}]
