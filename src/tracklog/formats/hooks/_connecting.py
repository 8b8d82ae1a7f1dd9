"""Connect an agent: change its configuration so that its hooks send events, and undo that again."""

import json
import os
import re
import shlex
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from tracklog.formats.hooks import FILES, Hook
from tracklog.formats.providers import items, obj
from tracklog.model.errors import TracklogError

SCRIPT = "claude-plugin/hook.sh"
HERE = "@HERE@"
HOOK = "@HOOK@"
IN_PLUGIN = 'sh "${CLAUDE_PLUGIN_ROOT}/hook.sh"'
_OURS = re.compile(r"tracklog/hooks/hook\.sh['\"]? ")


@dataclass(frozen=True, slots=True)
class Change:
    """One file as it is and as it shall be; None where there is no file."""

    path: Path
    before: str | None
    after: str | None
    mode: int | None = None
    """The rights of a file that others must not read, or that is run."""
    secret: bool = False
    """Its content is not shown."""

    @property
    def changes(self) -> bool:
        return self.before != self.after


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentConnection:
    """What is known of an agent."""

    agent: str
    connected: bool
    config: str
    """The file of the agent that is changed."""
    last_event: str | None
    """When an event was accepted last."""
    last_refusal: str | None
    """When an event was refused last, or did not reach a collector."""
    refusal: str | None
    """Why."""


class Connections:
    """The agents of one person, and the folder with what their hooks read."""

    def __init__(self, home: Path, environment: Mapping[str, str]) -> None:
        self._home, self._environment = home, environment
        given = environment.get("XDG_CONFIG_HOME")
        self.folder = (Path(given) if given else home / ".config") / "tracklog" / "hooks"

    def config(self, hook: Hook) -> Path:
        """The file of the agent; where it is a link, the file that it leads to."""
        return Path(os.path.realpath(hook.config(self._home, self._environment)))

    def connect(self, hook: Hook, url: str, token: str | None) -> list[Change]:
        """The changes that connect an agent; the first is that of its own configuration."""
        path = self.config(hook)
        before = _read(path)
        snippet = self._snippet(hook)
        after = snippet if hook.place == "own" else _merged(path, before, json.loads(snippet))
        changes = [Change(path, before, after)]
        script = (FILES / SCRIPT).read_text()
        changes.append(self._own("hook.sh", script, 0o755))
        changes.append(self._own("url", f"{url}\n", 0o644))
        if token is not None:
            line = f"Authorization: Bearer {token}\n"
            changes.append(self._own("authorization", line, 0o600, secret=True))
        if before != after:
            print_ = sha256(after.encode()).hexdigest()
            state = {"path": str(path), "before": before, "after": print_}
            changes.append(self._own(f"{hook.name}.json", json.dumps(state) + "\n", 0o600))
        return changes

    def remove(self, hook: Hook) -> list[Change]:
        """The changes that undo it; none where the agent is not connected."""
        path = self.config(hook)
        now = _read(path)
        state = self._state(hook)
        if now is None or not self._is_in(hook, now):
            after = now
        elif state.get("after") == sha256(now.encode()).hexdigest() and state.get("path") == str(
            path
        ):
            before = state.get("before")  # nobody changed it since: it becomes what it was
            after = before if isinstance(before, str) else None
        elif hook.place == "own":
            after = None
        else:
            after = _without(path, now)
        names = [f"{hook.name}.{end}" for end in ("json", "sent", "refused")]
        if not any(self.is_connected(each) for each in self._others(hook)):
            names += ["hook.sh", "url", "authorization"]
        own = [
            Change(self.folder / name, _read(self.folder / name), None, secret=True)
            for name in names
        ]
        return [each for each in (Change(path, now, after), *own) if each.changes]

    def is_connected(self, hook: Hook) -> bool:
        """Whether the configuration of an agent has our hooks."""
        text = _read(self.config(hook))
        return text is not None and self._is_in(hook, text)

    def state(self, hook: Hook) -> AgentConnection:
        """What is known of an agent."""
        sent, refused = (self.folder / f"{hook.name}.{end}" for end in ("sent", "refused"))
        when, why = _refusal(_read(refused))
        return AgentConnection(
            agent=hook.name,
            connected=self.is_connected(hook),
            config=str(self.config(hook)),
            last_event=_changed(sent),
            last_refusal=when,
            refusal=why,
        )

    def _is_in(self, hook: Hook, text: str) -> bool:
        if hook.place == "own":
            return True
        with suppress(ValueError):
            return any(True for _ in _our_groups(json.loads(text)))
        return False

    def _others(self, hook: Hook) -> list[Hook]:
        from tracklog.formats import registry  # noqa: PLC0415  # it imports the hooks

        return [each for each in registry.hooks() if each.name != hook.name]

    def _snippet(self, hook: Hook) -> str:
        text = (FILES / hook.snippet).read_text()
        if hook.snippet.endswith(".js"):
            return text.replace(f'"{HERE}"', json.dumps(str(self.folder)), 2)
        command = json.dumps(f"sh {shlex.quote(str(self.folder / 'hook.sh'))}")[1:-1]
        return text.replace(HOOK, command).replace(json.dumps(IN_PLUGIN)[1:-1], command)

    def _own(self, name: str, text: str, mode: int, *, secret: bool = False) -> Change:
        path = self.folder / name
        return Change(path, _read(path), text, mode, secret)

    def _state(self, hook: Hook) -> Mapping[str, Any]:
        with suppress(ValueError):
            return obj(json.loads(_read(self.folder / f"{hook.name}.json") or "{}"))
        return {}


def apply_changes(changes: list[Change]) -> None:
    """Make the changes, our own files first, so that no hook runs a script that does not exist."""
    for change in reversed(changes):
        try:
            if change.after is None:
                change.path.unlink(missing_ok=True)
            else:
                _replace(change.path, change.after, change.mode)
        except OSError as error:
            raise TracklogError(
                f"{change.path} was not changed: {error.strerror or error}",
                "make it writable for you, and try again; the other files are as they were shown",
            ) from error
    for folder in {change.path.parent for change in changes if change.after is None}:
        with suppress(OSError):
            folder.rmdir()  # if nothing is left in it


def _replace(path: Path, text: str, mode: int | None) -> None:
    """Write a file that is complete or as before; its rights stay."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if mode is None:
        with suppress(OSError):
            mode = stat.S_IMODE(path.stat().st_mode)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    made = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        made.chmod(0o644 if mode is None else mode)
        made.replace(path)
    except BaseException:
        with suppress(OSError):
            made.unlink()
        raise


def _read(path: Path) -> str | None:
    try:
        return path.read_bytes().decode()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise TracklogError(
            f"{path} is no UTF-8 text", "correct the file, and try again"
        ) from error
    except OSError as error:
        raise TracklogError(
            f"{path} cannot be read: {error.strerror or error}", "make it readable for you"
        ) from error


def _merged(path: Path, before: str | None, snippet: Mapping[str, Any]) -> str:
    """The text of a configuration with our hooks in it, and everything else as it was."""
    document = _parsed(path, before, snippet) if before and before.strip() else {}
    if any(True for _ in _our_groups(document)):
        document = _cleaned(document)
    hooks = document.setdefault("hooks", {})
    lists = [hooks.get(event, []) for event in snippet["hooks"]] if isinstance(hooks, dict) else [0]
    if not all(isinstance(each, list) for each in lists):
        raise _unknown_form(path, snippet)
    for event, groups in snippet["hooks"].items():
        hooks[event] = [*hooks.get(event, []), *groups]
    return _spelled(document, before)


def _without(path: Path, text: str) -> str:
    return _spelled(_cleaned(_parsed(path, text, {})), text)


def _parsed(path: Path, text: str, snippet: Mapping[str, Any]) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except ValueError:
        raise _unknown_form(path, snippet) from None
    if not isinstance(document, dict):
        raise _unknown_form(path, snippet)
    return document


def _unknown_form(path: Path, snippet: Mapping[str, Any]) -> TracklogError:
    shown = json.dumps(snippet, indent=2)
    return TracklogError(
        f"{path} is not plain JSON of the known form, so it is not changed",
        f"take out its comments, or change it by hand:\n{shown}"
        if snippet
        else "change it by hand",
    )


def _our_groups(document: Any) -> Iterator[tuple[str, Any]]:
    for event, groups in obj(obj(document).get("hooks")).items():
        for group in items(groups):
            hooks = items(obj(group).get("hooks"))
            if any(_OURS.search(str(obj(each).get("command"))) for each in hooks):
                yield event, group


def _cleaned(document: dict[str, Any]) -> dict[str, Any]:
    """The document without our hooks, and without what is empty then."""
    ours = [group for _, group in _our_groups(document)]
    hooks: dict[str, Any] = {}
    for event, groups in document["hooks"].items():
        left = [each for each in groups if each not in ours] if isinstance(groups, list) else groups
        if left or left == groups:
            hooks[event] = left
    rest = {key: value for key, value in document.items() if key != "hooks"}
    return (
        {key: hooks if key == "hooks" else value for key, value in document.items()}
        if hooks
        else rest
    )


def _spelled(document: Mapping[str, Any], before: str | None) -> str:
    """JSON with the indent of the text before, and its line end."""
    found = re.search(r"\n([ \t]+)\S", before or "")
    indent = found[1] if found else "  "
    text = json.dumps(document, indent=indent, ensure_ascii=False)
    return text if before and not before.endswith("\n") else f"{text}\n"


def _changed(path: Path) -> str | None:
    from datetime import UTC, datetime  # noqa: PLC0415  # only for the list

    try:
        at = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    except OSError:
        return None
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def _refusal(text: str | None) -> tuple[str | None, str | None]:
    """When an event was refused, and why, as the hook noted it."""
    if not text:
        return None, None
    head, _, rest = text.partition("\n")
    body, _, status = rest.rstrip("\n").rpartition("\n")
    when, _, event = head.partition(" ")
    why = "no collector answered" if status in ("", "000") else f"status {status}"
    with suppress(ValueError):
        answer = obj(json.loads(body)).get("error")
        message = obj(answer).get("message") if isinstance(answer, dict) else answer
        why = f"{why}: {message}" if message else why
    return when, f"{event}: {why}"
