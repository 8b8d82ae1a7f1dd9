"""How long a call took, from the times of its begin and its end."""

from datetime import datetime


def between(began: str | None, ended: str | None) -> float | None:
    """The seconds between two times; None where one is not known."""
    if not began or not ended:
        return None
    try:
        spent = datetime.fromisoformat(ended) - datetime.fromisoformat(began)
    except ValueError:
        return None
    return max(0.0, spent.total_seconds())
