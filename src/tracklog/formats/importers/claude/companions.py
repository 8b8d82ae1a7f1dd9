"""Files that Claude Code stores beside its conversations: large outputs, lists, typed prompts.

An output belongs to the call whose id is its name. They are all noted and never counted: the
conversation has the call, the result and the prompt.
"""

import re
from pathlib import Path

from tracklog.formats.importers import Raw, Reader, run_id
from tracklog.formats.importers._prompts import PromptReader
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
        match = _TODO.fullmatch(self.source.path.stem)
        if match is None:
            return None
        session, agent = match[1], match[2]
        return run_id(NAME, session, "" if agent == session else agent)

    def record(self, raw: Raw) -> None:
        value = self.out.about(raw, bare=True)
        self.out.report.mapped[TODOS] += 1
        if value:
            self.out.write(Noted(label=TODOS, kind=TODOS, data=value))


class ClaudeHistoryReader(PromptReader):
    """Reads the prompts that were typed into Claude Code."""

    tool, text, time, conversation = NAME, "display", "timestamp", "sessionId"
