"""Read a conversation of Claude Code: its run, its copies, its sub-agents."""

import re
from pathlib import Path
from typing import Any

from tracklog.formats.importers import Raw, Reader, remember, run_id, utc_time, word
from tracklog.formats.importers.claude.files import NAME, digest, prompt_of, sub_agent, uuids_in
from tracklog.formats.importers.claude.line import ClaudeRecord
from tracklog.formats.importers.claude.record import write as write_record
from tracklog.model.event import Body
from tracklog.model.fact import Began, Linked

UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


class ClaudeReader(Reader):
    """Reads one file: a conversation, or the work of one of its sub-agents."""

    def identify(self, raw: Raw) -> str | None:
        value = raw.value if isinstance(raw.value, dict) else {}
        session = word(value.get("sessionId")) or word(value.get("session_id"))
        agent, parent = sub_agent(self.source.path)
        if agent:
            if parent is None and session and not session.startswith("agent-"):
                parent = session
            if parent is None:
                return None
            self.state |= {"session": parent, "agent": agent}
            return run_id(NAME, parent, agent)
        stem = self.source.path.name.partition(".")[0]
        native = stem if UUID.fullmatch(stem) else session
        if native is None:
            return None
        self.state["session"] = native
        return run_id(NAME, native)

    def unidentified(self) -> str:
        agent, _ = sub_agent(self.source.path)
        self.state |= {"session": self.source.path.stem, "agent": agent}
        return run_id(NAME, self.source.path.stem, agent or "")

    def record(self, raw: Raw) -> None:
        value, out, state = raw.value, self.out, self.state
        if not isinstance(value, dict):
            out.about(raw, bare=True)
            out.unknown(_kind_of(value), value)
            return
        key = word(value.get("uuid"))
        at = utc_time(value.get("timestamp"))
        body: Body = out.about(raw, key=key, bare=key is None and at is None)
        out.copied = (
            key is not None and ("root" not in state or "copy" in state) and self._is_copy(key)
        )
        out.agent = word(body.get("agentId")) or state.get("agent")
        if body.get("isSidechain") is True and not state.get("agent"):
            home = out.run
            out.run = self._side_run(body, key, at)
            write_record(ClaudeRecord(self, body, key, at))
            out.run = home
        else:
            write_record(ClaudeRecord(self, body, key, at))

    def _is_copy(self, key: str) -> bool:
        """Whether a record is a copy from another conversation that was read before: a fork."""
        state, out = self.state, self.out
        if "root" not in state:
            state["root"] = key
            known = self.source.others.keyed(f"root:{key}")
            if known and known[1] != out.run:
                state["copy"] = [str(known[0]), known[1]]
                out.write(Linked(kind="fork", parent=known[1]), fidelity="inferred")
            else:
                out.keys[f"root:{key}"] = out.run
        if "copy" not in state:
            return False
        if key in self._known(Path(state["copy"][0])):
            return True
        del state["copy"]  # from here on the records belong to this conversation
        return False

    def _known(self, path: Path) -> frozenset[str]:
        if not hasattr(self, "_uuids"):
            self._uuids = frozenset(uuids_in(path))
        return self._uuids

    def _side_run(self, body: Body, key: str | None, at: str | None) -> str:
        """The run of a sub-agent whose records are in its parent's file."""
        sides: dict[str, str] = self.state.setdefault("sides", {})
        parent = word(body.get("parentUuid"))
        agent = word(body.get("agentId"))
        root = agent or (sides.get(parent) if parent else None)
        fresh = root is None or (agent is not None and agent not in sides)
        root = root or key or "side"
        if key:
            remember(sides, key, root)
        if agent:
            remember(sides, agent, agent)
        child = run_id(NAME, self.state["session"], root)
        if fresh:
            call = self._task_for(prompt_of(body))
            link = Linked(kind="sub-run", child=child, call_id=call)
            self.out.write(link, at=at, fidelity="inferred" if call or not agent else None)
            self.out.write(Began(what="run"), run=child, at=at)
        return child

    def _task_for(self, prompt: str | None) -> str | None:
        tasks: dict[str, str] = self.state.get("tasks", {})
        wanted = digest(prompt) if prompt else None
        return next((call for call, known in tasks.items() if known == wanted), None)


def _kind_of(value: Any) -> str:
    names = {str: "a string", bool: "a boolean", list: "an array", type(None): "null"}
    return names.get(type(value), "a number")
