"""Notes on a run beside its own events, such as the wish that it end; its host reads them."""

import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tracklog.dialects import tracklog as native
from tracklog.journal.frame import Run, stamp
from tracklog.model.errors import NotAppended
from tracklog.model.fact import Noted

if TYPE_CHECKING:
    from tracklog.home.home import Home


def note(home: "Home", run: Run, label: str, said: Mapping[str, Any]) -> bytes:
    """A line about a run that is no event of its own dialect."""
    return native.line(
        Noted(label=label, data=dict(said)),
        id=uuid.uuid4().hex,
        run=run[1],
        at=stamp(home.clock()),
        family=run[0],
        origin={"writer": "host", "fidelity": "observed"},
    )


def put(home: "Home", run: Run, label: str, said: Mapping[str, Any]) -> int:
    """Records such a line; its number."""
    (verdict,) = home.intake.admit([note(home, run, label, said)], native.dialect.name)
    if verdict.seq is None:
        why = "; ".join(problem.message for problem in verdict.problems)
        raise NotAppended(f"{label} was not recorded: {why}", "see `tracklog doctor`")
    return verdict.seq
