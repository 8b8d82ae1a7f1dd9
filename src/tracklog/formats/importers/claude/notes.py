"""Records of Claude Code that are neither messages nor calls: titles, modes, marks, the end."""

from typing import Any

from tracklog.formats.importers import in_seconds, word
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
    body = line.body
    subtype = word(body.get("subtype")) or "system"
    rest, line.extra = line.extra or {}, None
    rest.pop("subtype", None)
    text = word(body.get("content"))
    label = LABELS.get(subtype, subtype)
    held: Any = rest
    if subtype == "compact_boundary":
        meta = body.get("compactMetadata")
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
    leaf = word(line.body.get("leafUuid"))
    text = word(line.body.get("summary"))
    line.write_fact(Noted(label="title", kind="summary", text=text), cause=leaf)


def title(line: ClaudeRecord) -> None:
    text = word(line.body.get(TITLES[line.kind])) or word(line.body.get("title"))
    rest, line.extra = line.extra, None
    line.write_fact(Noted(label="title", kind=line.kind, text=text, data=None if text else rest))


def mode(line: ClaudeRecord) -> None:
    to = line.body.get(MODES[line.kind])
    modes = line.state.setdefault("modes", {})
    before = modes.get(line.kind)
    modes[line.kind] = to
    change = {"to": to} if before is None else {"from": before, "to": to}
    line.extra = None
    line.write_fact(Noted(label="mode-change", kind=line.kind, data=change))


def pull_request(line: ClaudeRecord) -> None:
    rest, line.extra = line.extra, None
    text = word(line.body.get("prUrl")) or word(line.body.get("url"))
    line.write_fact(Noted(label="result", kind=line.kind, text=text, data=rest))


def small(line: ClaudeRecord) -> None:
    rest, line.extra = line.extra, None
    line.write_fact(Noted(label=line.kind, kind=line.kind, data=rest or None))


def result(line: ClaudeRecord) -> None:
    """The end of a printed stream, or a small record of the same name."""
    body = line.body
    if "is_error" not in body and "subtype" not in body:
        small(line)
        return
    rest, line.extra = line.extra or {}, None
    failed = body.get("is_error")
    ended = Ended(
        what="run",
        outcome=word(body.get("subtype")),
        passed=not failed if isinstance(failed, bool) else None,
        seconds=in_seconds(body.get("duration_ms"), 1000),
    )
    line.write_fact(ended)
    line.write_fact(Noted(label="totals", kind="result", data=rest))
    if text := word(body.get("result")):
        line.write_fact(Noted(label="result", kind="result", text=text))


def stream_event(line: ClaudeRecord) -> None:
    """A piece of a complete line that is in the file as well."""
    line.out.report.ignored["stream_event (partial)"] += 1
    line.out.report.mapped["stream_event"] -= 1
