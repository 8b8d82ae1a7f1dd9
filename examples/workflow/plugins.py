"""A kind of step that the flow brings itself."""


def loudly(text: str) -> str:
    """The text, louder."""
    return text.upper()
