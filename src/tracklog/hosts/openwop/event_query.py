"""Which events of a run a request asks for."""

from tracklog import OPENWOP_TYPES
from tracklog.hosts.openwop.calls import HostCall
from tracklog.hosts.openwop.failures import Failure
from tracklog.hosts.openwop.streams import MODES, is_of_type


def modes_of(call: HostCall) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The modes and the types of events that a request asks for."""
    query = call.query
    text = query.get("streamMode", "updates")
    modes = tuple(part.strip() for part in text.split(","))
    if not set(modes) <= set(MODES) or ("values" in modes and len(set(modes)) > 1):
        message = f"streamMode {text[:100]!r} is not supported"
        details = {"field": "streamMode", "supported": list(MODES)}
        raise Failure("unsupported_stream_mode", message, details)
    if query.get("resumable", "true") != "true":
        text = "resumable is true: every stream can be resumed"
        raise Failure("validation_error", text, {"field": "resumable"})
    return (tuple(dict.fromkeys(modes)), _types(call, modes))


def modes_of_list(call: HostCall, modes: tuple[str, ...]) -> tuple[str, ...]:
    """The modes of a list of events, which is no stream; without any it has all events."""
    for name, is_given in (
        ("bufferMs", "bufferMs" in call.query),
        ("Last-Event-ID", call.header("last-event-id") is not None),
    ):
        if is_given:
            text = f"{name} is for a stream: send Accept: text/event-stream"
            raise Failure("validation_error", text, {"field": name})
    if "streamMode" not in call.query:
        return ("debug",)
    if "values" in modes:
        details = {"field": "streamMode", "supported": [each for each in MODES if each != "values"]}
        raise Failure("unsupported_stream_mode", "values is for a stream", details)
    return modes


def _types(call: HostCall, modes: tuple[str, ...]) -> tuple[str, ...]:
    """The types of events that the caller wants; each must be one that there is."""
    if "types" not in call.query:
        return ()
    types = tuple(part.strip() for part in call.query["types"].split(","))
    if not {"updates", "debug"} & set(modes):
        text = "types is for the modes updates and debug"
        raise Failure("validation_error", text, {"field": "types"})
    names = [call.wire.kind(each) for each in OPENWOP_TYPES]
    for each in types:
        if not any(is_of_type(each, name) for name in names):
            text = f"there is no type of event {each[:50]!r}"
            raise Failure("validation_error", text, {"field": "types"})
    return types
