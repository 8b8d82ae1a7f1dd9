"""Questions as a program asks them: an answer is its JSON."""

from typing import Any

import orjson

from tracklog.answers.registry import question
from tracklog.home.home import Home


def ask(home: Home, name: str, **given: Any) -> Any:
    """The answer of a home to the question of that name, as JSON says it."""
    return orjson.loads(orjson.dumps(question(name).ask(home, **given)))
