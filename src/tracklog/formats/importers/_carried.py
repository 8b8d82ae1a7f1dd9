"""Facts carried by our own exports, to be restored."""

from typing import Any, NamedTuple

import orjson

from tracklog.dialects import tracklog as native
from tracklog.formats.importers._line_writer import LineWriter, utc_time
from tracklog.model.event import Body
from tracklog.model.fact import Fidelity


class Carried(NamedTuple):
    """A fact as its line has it, its time, and its fidelity."""

    body: Body
    at: str | None
    fidelity: Fidelity

    def write(self, out: LineWriter, *, run: str | None = None) -> None:
        out.write(self.body, at=self.at, fidelity=self.fidelity, run=run)


def carried(fields: Any) -> Carried | None:
    """The fact in a carried object; None for an object that is invalid or would make no line.

    A file may contain anything, and claim to be one of our exports.
    """
    name = fields.get("fact") if isinstance(fields, dict) else None
    if not isinstance(name, str) or name not in native.FIELDS:
        return None
    _, known = native.FIELDS[name]
    fidelity = fields.get("fidelity", "observed")
    body = {"fact": name} | {key: value for key, value in fields.items() if key in known}
    origin = {"writer": "import", "fidelity": fidelity}
    try:
        line = orjson.dumps({"id": "1", "run": "1", "origin": origin, **body})
        native.KINDS[name].model_validate_json(line)
    except (TypeError, ValueError):
        return None
    return Carried(body, utc_time(fields.get("at")), fidelity)
