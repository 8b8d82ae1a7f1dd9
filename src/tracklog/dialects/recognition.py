"""Recognise the dialect of a line, and give a hint where the result is not certain."""

from collections.abc import Iterable, Mapping

import orjson

from tracklog.dialects import Dialect
from tracklog.model.event import Body, Problem, Refusal

REMEMBERED = 100_000
"""How many runs of profiles are remembered."""

BY_OPTION = "--dialect {}"
"""How the sender names a dialect on the command line."""


def recognise(
    body: Body, dialects: Iterable[Dialect], option: str = BY_OPTION
) -> Dialect | Refusal:
    """The one dialect of a body; when two fit equally well, both are named and none is guessed.

    `option` is how the sender can name it.
    """
    claims = sorted(((d.claim(body), d.name, d) for d in dialects), reverse=True)
    best = claims[0][0] if claims else 0
    fitting = [dialect for claim, _, dialect in claims if claim == best]
    if best < 0.5:
        code, message = "unrecognised", "no dialect is recognised in this object"
        hint = f"name it:  {option.format('NAME')}; `tracklog dialects` lists them"
    elif len(fitting) > 1:
        names = sorted(dialect.name for dialect in fitting)
        code, message = "ambiguous", f"ambiguous: this could be {' or '.join(names)}"
        hint = f"name one, for example {option.format(names[0])}"
    else:
        return fitting[0]
    return Refusal((Problem("", message, hint, code),))


class Recogniser:
    """Recognises bodies one by one, and remembers which runs are in a profile.

    A line of a profile may have none of the keys that only the profile has. It is then read like
    the other lines of its run, as soon as one of them shows the profile.
    """

    def __init__(self, dialects: Iterable[Dialect]) -> None:
        dialects = list(dialects)
        self._known = [dialect for dialect in dialects if dialect.guessed]
        self._profiles = [dialect for dialect in dialects if dialect.profile_of]
        self._keys = [b'"%s"' % key.encode() for each in self._profiles for key in each.own_keys]
        self._runs: dict[tuple[str, str], Dialect] = {}
        self.option = BY_OPTION
        """How the sender of a line can name its dialect."""

    def of(self, body: Body) -> Dialect | Refusal:
        """The dialect of a body, by its own keys or by earlier lines of its run."""
        profile = self.note(body)
        if profile is not None:
            return profile
        dialect = recognise(body, self._known, self.option)
        if isinstance(dialect, Refusal) or not self._runs:
            return dialect
        return self._runs.get((dialect.name, str(dialect.read(body)[0])), dialect)

    def note(self, body: Body) -> Dialect | None:
        """The profile that a body shows by its keys; its run is remembered."""
        for profile in self._profiles:
            if profile.shows(body):
                if len(self._runs) >= REMEMBERED:
                    self._runs.pop(next(iter(self._runs)), None)
                self._runs[profile.profile_of, str(profile.read(body)[0])] = profile
                return profile
        return None

    def look_ahead(self, lines: Iterable[bytes]) -> None:
        """Remember the runs that show a profile anywhere in these lines."""
        for line in lines:
            if not any(key in line for key in self._keys):
                continue
            try:
                body = orjson.loads(line)
            except orjson.JSONDecodeError:
                continue
            if isinstance(body, dict):
                self.note(body)


class Hints:
    """Hints, each given once, about lines whose dialect was recognised and is not certain."""

    def __init__(self, dialects: Iterable[Dialect], option: str = BY_OPTION) -> None:
        self._profiles: Mapping[str, str] = {
            dialect.profile_of: dialect.name for dialect in dialects if dialect.profile_of
        }
        self._names = {*self._profiles, *self._profiles.values()}
        self._option = option
        self._given: set[str] = set()
        self._runs: dict[str, str] = {}

    def of(self, dialect: str | None, run: str | None) -> str | None:
        """The hint for a line that was read as that dialect; None where none is due."""
        if dialect not in self._names:
            return None
        before = self._runs.get(run or "", dialect)
        if len(self._runs) < REMEMBERED:
            self._runs[run or ""] = dialect
        if before != dialect:
            profile = self._profiles.get(dialect, dialect)
            flag = self._option.format(profile)
            return self._once(
                f"mixed {run}",
                f"lines of the run {run} were read as {before} and now as {dialect}; "
                f"if all are {profile}, say so: {flag}",
            )
        profile = self._profiles.get(dialect, "")
        if not profile:
            return None
        flag = self._option.format(profile)
        return self._once(
            dialect,
            f"read as {dialect}: no key tells these lines from {profile}; "
            f"if they are {profile}, say so: {flag}",
        )

    def _once(self, name: str, hint: str) -> str | None:
        if name in self._given or len(self._given) > 20:
            return None
        self._given.add(name)
        return hint
