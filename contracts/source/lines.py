DEPTH = 200


def _unwritable(at: str, value: Any, within: tuple[int, ...] = ()) -> Iterator[Problem]:
    """The places whose value is no JSON."""
    if id(value) in within:
        yield Problem(at, "the value contains itself", "write a tree")
    elif len(within) > DEPTH:
        yield Problem(at, f"nested deeper than {DEPTH} levels", "flatten it")
    elif isinstance(value, dict):
        for key, inner in value.items():
            name = str(key).replace("~", "~0").replace("/", "~1")
            if not isinstance(key, str):
                yield Problem(f"{at}/{name}", f"the key {key!r} is no string", "use string keys")
            yield from _unwritable(f"{at}/{name}", inner, (*within, id(value)))
    elif isinstance(value, (list, tuple)):
        for number, inner in enumerate(value):
            yield from _unwritable(f"{at}/{number}", inner, (*within, id(value)))
    elif isinstance(value, float) and not math.isfinite(value):
        yield Problem(at, f"{value} is no JSON number", "leave the key out, or write a number")
    elif value is not None and not isinstance(value, (str, int, float)):
        kind = type(value).__name__
        yield Problem(at, f"a {kind} is no JSON value", "turn it into text, numbers, lists, dicts")


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:  # a lone surrogate has no bytes in UTF-8: U+FFFD stands for it
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()
