"""amp: the threads of Amp, one document each."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tracklog.formats.importers import (
    Form,
    Importer,
    Signs,
    by_signs,
    count,
    inside,
    run_id,
    utc_time,
    word,
)
from tracklog.formats.importers._block_facts import block_facts
from tracklog.formats.importers._editors import path_of
from tracklog.formats.importers._exchanges import reply_of
from tracklog.formats.importers._snapshots import SnapshotReader, exit_code_of, open_run, without
from tracklog.formats.providers import Body, items, obj, usage
from tracklog.model.fact import Ended, Fact, Returned, Role, Spent

NAME = "amp"
MESSAGE = ("role", "messageId", "content", "usage", "state", "protocolMessageID")
THREAD = ("id", "created", "title", "messages", "v", "env")


class AmpReader(SnapshotReader):
    """Reads one thread; sub-agents are not stored in it, so its counts are a lower bound."""

    def run_of(self, value: Body) -> str | None:
        id = word(value.get("id"))
        return run_id(NAME, id) if id else None

    def conversation(self, value: Body) -> None:
        self.about("thread")
        about = without(value, "messages", "v", "title")
        at = utc_time(value.get("created"))
        tree = obj(next(iter(items(obj(obj(value.get("env")).get("initial")).get("trees"))), None))
        cwd = path_of(tree.get("uri")) or word(tree.get("displayName"))
        branch = word(obj(tree.get("repository")).get("ref"))
        open_run(self.out, NAME, value.get("id"), at=at, cwd=cwd,
                 branch=branch and branch.removeprefix("refs/heads/"), title=value.get("title"),
                 extra=without(about, *THREAD[:-1]))  # fmt: skip
        self.out.report.mapped["thread"] += 1
        for place, message in enumerate(items(value.get("messages"))):
            fields = obj(message)
            state = word(obj(fields.get("state")).get("type"))
            if state in ("running", "streaming") and not self.final:
                continue  # it is being written
            id = fields.get("messageId")
            self._message(f"message/{id if id is not None else place}", message, state)

    def _message(self, key: str, message: Any, state: str | None) -> None:
        self.about(key)
        value = obj(message)
        role, fields = word(value.get("role")), obj(value.get("usage"))
        if role not in ("user", "assistant", "system"):
            self.out.unknown(role or "message", value)
            return
        self.out.report.mapped[role] += 1
        meta = obj(value.get("meta"))
        at = utc_time(fields.get("timestamp")) or utc_time(meta.get("sentAt"))
        model = word(fields.get("model"))
        extra: Body | None = without(value, *MESSAGE)
        facts: list[Fact] = []
        plain: list[Any] = []
        content = value.get("content")
        for block in items(content) if not isinstance(content, str) else [content]:
            if obj(block).get("type") == "tool_result" and "run" in obj(block):
                facts.append(_ran(obj(block)))
            else:
                plain.append(block)
        speaks: Role = (
            "assistant" if role == "assistant" else "system" if role == "system" else "user"
        )
        blocks = reply_of("claude", [{"type": "message", "content": plain}]).blocks
        stop = word(obj(value.get("state")).get("stopReason"))
        facts = [*block_facts(blocks, role=speaks, message_id=key, model=model if speaks == "assistant" else None,
                         stop_reason=stop), *facts]  # fmt: skip
        for fact in facts:
            self.put(fact, at, extra)
            extra = None
        self._spent(key, fields, model, at)
        if state in ("cancelled", "error"):
            passed = False if state == "error" else None
            self.put(Ended(what="step", step=key, outcome=state, passed=passed), at)

    def _spent(self, key: str, fields: Body, model: str | None, at: str | None) -> None:
        fresh, output = count(fields.get("inputTokens")), count(fields.get("outputTokens"))
        if not any(map(count, fields.values())):
            return
        read = count(fields.get("cacheReadInputTokens")) or 0
        written = count(fields.get("cacheCreationInputTokens")) or 0
        total = count(fields.get("totalInputTokens"))
        known = usage(
            fields,
            input_tokens=total if total is not None else (fresh or 0) + read + written,
            cached_tokens=read,
            # Of these models the whole prompt that is not cached stands there.
            cache_write_tokens=None if (model or "").startswith("gpt-") else written,
            output_tokens=output,
        )
        spent = Spent(key=f"{self.out.run}/{key}", model=model, usage=known, calls=1, bound="lower")
        self.put(spent, at)


def _ran(block: Body) -> Returned:
    """A result in the newer shape: the run of a tool."""
    run = obj(block.get("run"))
    status, result = word(run.get("status")), run.get("result")
    exit_code = exit_code_of(obj(result).get("exitCode"))
    error = obj(run.get("error")).get("message") or run.get("error")
    wrong = status == "error" or bool(error) or bool(exit_code)
    id = word(block.get("toolUseID")) or word(block.get("tool_use_id"))
    return Returned(
        call_id=id or "unknown",
        ok=None if status == "cancelled" else not wrong,
        output=result,
        error=error,
        status=status,
        exit_code=exit_code,
        synthetic_id=id is None,
    )


SIGNS = (
    Signs({"v": int, "id": re.compile("T-"), "created": int, "messages": list}),
    Signs({"id": str, "messages": list, "env.initial": dict}),
)


def form(path: Path, head: bytes) -> Form:  # noqa: ARG001  # the shape
    return "document"


def find(home: Path, environment: Mapping[str, str]) -> Iterable[Path]:
    share = Path(environment.get("XDG_DATA_HOME") or home / ".local" / "share")
    return inside(share / "amp" / "threads", "T-*.json")


importer = Importer(
    name=NAME,
    about="Amp: the threads that it stores, and exported ones.",
    mapping="2",
    reader=AmpReader,
    recognise=by_signs(SIGNS),
    find=find,
    form=form,
    fits=lambda body: "messages" in body,
    proven="only documents written as tests: no real thread has a licence",
)
