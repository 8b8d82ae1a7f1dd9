"""Records of Claude Code that are neither messages nor calls: titles, modes, marks, the end."""

from typing import Any

from tracklog.formats.importers import seconds, word
from tracklog.formats.importers.claude.line import ClaudeRecord
from tracklog.model.fact import Ended, Noted

SYSTEM = {
    "session_start", "init", "turn_duration", "stop_hook_summary", "compact_boundary", "api_error",
    "api_refusal", "model_refusal_fallback", "local_command", "away_summary", "informational",
    "error", "bridge_status", "microcompact_boundary",
}  # fmt: skip
SMALL = {
    "file-history-snapshot", "progress", "queue-operation", "agent-name", "agent-setting",
    "last-prompt", "bridge-session", "worktree-state", "relocated", "frame-link", "started",
    "atis-latch", "tag", "content-replacement", "rate_limit_event", "keep_alive",
}  # fmt: skip
TITLES = {"custom-title": "customTitle", "ai-title": "aiTitle"}
MODES = {"mode": "mode", "permission-mode": "permissionMode"}
LABELS = {
    "compact_boundary": "compaction",
    "microcompact_boundary": "compaction",
    "api_error": "error",
    "error": "error",
    "api_refusal": "refusal",
    "model_refusal_fallback": "model-change",
}


def system(line: ClaudeRecord) -> bool | None:
    said = line.said
    subtype = word(said.get("subtype")) or "system"
    rest, line.extra = line.extra or {}, None
    rest.pop("subtype", None)
    text = word(said.get("content"))
    label = LABELS.get(subtype, subtype)
    held: Any = rest
    if subtype == "compact_boundary":
        meta = said.get("compactMetadata")
        meta = dict(meta) if isinstance(meta, dict) else {}
        before = {"before": meta["preTokens"]} if "preTokens" in meta else {}
        held = {**meta, **before}
    elif subtype == "model_refusal_fallback":
        ends = {
            "from": rest.pop("originalModel", None),
            "to": rest.pop("fallbackModel", None),
        }
        held = {**rest, **{key: value for key, value in ends.items() if value is not None}}
    if subtype not in SYSTEM:
        line.out.report.unknown[f"system/{subtype}"] += 1
        line.out.report.mapped["system"] -= 1
    line.write_fact(Noted(label=label, kind=subtype, text=text, data=held or None))
    return None


def summary(line: ClaudeRecord) -> None:
    line.extra = None
    leaf = word(line.said.get("leafUuid"))
    text = word(line.said.get("summary"))
    line.write_fact(Noted(label="title", kind="summary", text=text), cause=leaf)


def title(line: ClaudeRecord) -> None:
    text = word(line.said.get(TITLES[line.kind])) or word(line.said.get("title"))
    rest, line.extra = line.extra, None
    line.write_fact(Noted(label="title", kind=line.kind, text=text, data=None if text else rest))


def mode(line: ClaudeRecord) -> None:
    to = line.said.get(MODES[line.kind])
    modes = line.state.setdefault("modes", {})
    before = modes.get(line.kind)
    modes[line.kind] = to
    change = {"to": to} if before is None else {"from": before, "to": to}
    line.extra = None
    line.write_fact(Noted(label="mode-change", kind=line.kind, data=change))


def pull_request(line: ClaudeRecord) -> None:
    rest, line.extra = line.extra, None
    text = word(line.said.get("prUrl")) or word(line.said.get("url"))
    line.write_fact(Noted(label="result", kind=line.kind, text=text, data=rest))


def small(line: ClaudeRecord) -> None:
    rest, line.extra = line.extra, None
    line.write_fact(Noted(label=line.kind, kind=line.kind, data=rest or None))


def result(line: ClaudeRecord) -> None:
    """The end of a printed stream, or a small record of the same name."""
    said = line.said
    if "is_error" not in said and "subtype" not in said:
        small(line)
        return
    rest, line.extra = line.extra or {}, None
    failed = said.get("is_error")
    ended = Ended(
        what="run",
        outcome=word(said.get("subtype")),
        passed=not failed if isinstance(failed, bool) else None,
        seconds=seconds(said.get("duration_ms"), 1000),
    )
    line.write_fact(ended)
    line.write_fact(Noted(label="totals", kind="result", data=rest))
    if text := word(said.get("result")):
        line.write_fact(Noted(label="result", kind="result", text=text))


def stream_event(line: ClaudeRecord) -> None:
    """A piece of a complete line that is in the file as well."""
    line.out.report.ignored["stream_event (partial)"] += 1
    line.out.report.mapped["stream_event"] -= 1
