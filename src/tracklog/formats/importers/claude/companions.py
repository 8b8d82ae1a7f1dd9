"""Files that Claude Code stores beside its conversations: large outputs, lists, typed prompts.

An output belongs to the call whose id is its name. They are all noted and never counted: the
conversation has the call, the result and the prompt.
"""

import re
from pathlib import Path
from typing import Any

from tracklog.formats.importers import Raw, Reader, moment, run_id, word
from tracklog.formats.importers.claude.files import NAME
from tracklog.model.fact import Noted

RESULTS = "tool-results"
TODOS = "todos"
HISTORY = "history.jsonl"
_TODO = re.compile(r"(.{36})-agent-(.+)")


def is_output(path: Path) -> bool:
    """Whether a file is an output that was too large for its conversation."""
    return path.parent.name == RESULTS


def is_list(path: Path) -> bool:
    """Whether a file is an agent's list of tasks."""
    return path.parent.name == TODOS and _TODO.fullmatch(path.stem) is not None


class OutputReader(Reader):
    """Reads one output: a note on the run of its conversation, its text in a blob."""

    def identify(self, raw: Raw) -> str | None:  # noqa: ARG002  # the path tells
        places = self.source.path.absolute().parts
        agents = [name[6:] for name in places[:-2] if name.startswith("agent-")]
        session = places[places.index("subagents") - 1] if "subagents" in places else places[-3]
        return run_id(NAME, session, agents[-1] if agents else "")

    def record(self, raw: Raw) -> None:
        call = self.source.path.name.partition(".")[0]
        self.out.about(raw, key=call, lift=False)
        output = self.out.lift.blob(raw.data, "text/plain", str(raw.value)[:200])
        held = {"call_id": call, "output": output}
        self.out.write(Noted(label="tool-result", kind=RESULTS, data=held))
        self.out.report.mapped[RESULTS] += 1


class ListReader(Reader):
    """Reads one list of tasks: a note on the run of its agent."""

    def identify(self, raw: Raw) -> str | None:  # noqa: ARG002  # the path tells
        found = _TODO.fullmatch(self.source.path.stem)
        if found is None:
            return None
        session, agent = found[1], found[2]
        return run_id(NAME, session, "" if agent == session else agent)

    def record(self, raw: Raw) -> None:
        value = self.out.about(raw, bare=True)
        self.out.report.mapped[TODOS] += 1
        if value:
            self.out.write(Noted(label=TODOS, kind=TODOS, data=value))


class ClaudeHistoryReader(Reader):
    """Reads the typed prompts: a note for each, on the run of its conversation."""

    def identify(self, raw: Raw) -> str | None:  # noqa: ARG002  # each says whose it is
        return run_id(NAME, "history")

    def record(self, raw: Raw) -> None:
        value = raw.value
        if not isinstance(value, dict):
            self.out.unknown("history", self.out.about(raw, bare=True))
            return
        at = moment(value.get("timestamp"))
        said: dict[str, Any] = self.out.about(raw, bare=at is None)
        session = word(said.get("sessionId"))
        rest = {
            key: each
            for key, each in said.items()
            if key not in ("display", "timestamp", "sessionId") and each not in ({}, None)
        }
        text = word(said.get("display"))
        noted = Noted(label="typed", kind="history", text=text, data=rest or None)
        self.out.write(noted, at=at, run=run_id(NAME, session) if session else None)
        self.out.report.mapped["history"] += 1
