"""`tracklog connect`: record an agent live, by hooks in its own configuration."""

import difflib
import os
import sys
import urllib.error
import urllib.request
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tracklog.cli import _names, _table
from tracklog.cli import _terminal as terminal
from tracklog.model.errors import TracklogError

if TYPE_CHECKING:
    from tracklog.formats.hooks import Hook
    from tracklog.formats.hooks._connecting import AgentConnection, Change

URL = "http://127.0.0.1:4318"


@click.command(
    epilog="""\b
Examples:
  tracklog connect claude               (shows the change, and asks)
  tracklog connect codex --yes
  tracklog connect gemini --url http://127.0.0.1:4319
  TRACKLOG_TOKEN_FILE=token tracklog connect copilot
  tracklog connect --list
  tracklog connect claude --remove

\b
The agents: claude, codex, copilot, gemini, opencode. A token is read from TRACKLOG_TOKEN, or from
the file that TRACKLOG_TOKEN_FILE names, and written to a file that only you can read.
Exit code: 0 done, or nothing to do; 1 not changed, because you said no; 2 usage or I/O.""",
)
@click.argument("name", required=False, shell_complete=_names.of("hooks"), metavar="[NAME]")
@click.option(
    "--list", "is_list", is_flag=True, help="Show what is connected, and the last events."
)
@click.option("--remove", is_flag=True, help="Undo the change.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--url", default=URL, show_default=True, help="The address of the collector.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per agent.")
def command(
    name: str | None, is_list: bool, remove: bool, yes: bool, url: str, as_json: bool
) -> None:
    """Connect the agent NAME: programs that it calls at each step (hooks) send events to a collector.

    Shows the change to the agent's own configuration, asks, and writes it. Everything else in that
    file stays. The hooks wait for two seconds at most, and never stop the agent. While no collector
    runs, nothing is recorded; `tracklog import` can add it later.
    """
    from tracklog.formats import registry
    from tracklog.formats.hooks._connecting import Connections

    connections = Connections(Path.home(), os.environ)
    if is_list or name is None:
        hooks = registry.hooks() if name is None else [registry.hook(name)]
        _list([connections.state(hook) for hook in hooks], as_json=as_json)
        return
    hook = registry.hook(name)
    if remove:
        changes = connections.remove(hook)
        if not changes:
            _say(f"{hook.title} is not connected; there is nothing to remove", as_json=as_json)
    else:
        changes = connections.connect(hook, _address(url), _token())
        changes = [each for each in changes if each.changes]
        if not changes:
            _say(f"{hook.title} is connected already", as_json=as_json)
    if changes and not _change(changes, yes=yes):
        _say("nothing was changed", as_json=as_json)
        sys.exit(1)
    if not remove:
        _advise(hook, url)
    elif changes:
        _say(f"{hook.title} is no longer connected", as_json=as_json)
    if as_json:
        terminal.put_json(asdict(connections.state(hook)))


def _token() -> str | None:
    from tracklog.cli.serve import token_of

    return token_of()


def _address(url: str) -> str:
    if not url.startswith(("http://", "https://")) or any(each.isspace() for each in url):
        raise TracklogError(f"{url!r} is no address of a collector", f"give one such as {URL}")
    return url.rstrip("/")


def _change(changes: "list[Change]", *, yes: bool) -> bool:
    """Show the changes and make them, unless a person says no."""
    from tracklog.formats.hooks._connecting import apply_changes

    for change in changes:
        for line in _difference(change).splitlines():
            click.echo(terminal.printable(line), err=True)
    if not yes:
        if not sys.stdin.isatty():
            raise TracklogError(
                "there is no terminal to ask on", "add --yes, if the change is right"
            )
        if not click.confirm("Write this?", default=True, err=True):
            return False
    apply_changes(changes)
    return True


def _difference(change: "Change") -> str:
    """A change as a diff; of our own files only what happens to them."""
    path = change.path
    if change.secret or change.mode is not None:
        what = "removes" if change.after is None else "writes"
        rights = "" if change.mode is None or change.after is None else f" (mode {change.mode:04o})"
        return f"{what} {path}{rights}\n"
    lines = difflib.unified_diff(
        (change.before or "").splitlines(),
        (change.after or "").splitlines(),
        str(path) if change.before is not None else "/dev/null",
        str(path) if change.after is not None else "/dev/null",
        lineterm="",
    )
    return "\n".join(lines) + "\n"


def _advise(hook: "Hook", url: str) -> None:
    """Say what is still missing, so that nobody waits for events that cannot come."""
    if hook.advice:
        click.echo(hook.advice, err=True)
    trouble = _trouble(hook, _address(url))
    click.echo(trouble or f"{hook.title} is connected; its next session is recorded", err=True)


def _trouble(hook: "Hook", url: str) -> str | None:
    """Why the collector would not accept events; None where it would."""
    token, headers = _token(), {"Content-Type": "application/json"}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    request = urllib.request.Request(f"{url}/api/hooks/{hook.name}", b"{}", headers)  # noqa: S310  # http, as checked
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        opener.open(request, timeout=30).close()
    except urllib.error.HTTPError as error:
        error.close()
        if error.code in (400, 200):  # it refuses this empty event, as expected
            return None
        if error.code == 401:
            return (
                f"the collector at {url} wants a token: set TRACKLOG_TOKEN (or TRACKLOG_TOKEN_FILE) "
                f"and run `tracklog connect {hook.name}` again"
            )
        return f"the collector at {url} answers with status {error.code}; `tracklog connect --list` says what it refuses"
    except (OSError, ValueError):
        return f"no collector answers at {url}: start one with `tracklog serve`"
    return None


def _list(states: "list[AgentConnection]", *, as_json: bool) -> None:
    if as_json:
        for state in states:
            terminal.put_json(asdict(state))
        return
    columns = [
        _table.Column("agent", lambda row: row.agent),
        _table.Column("connected", lambda row: "yes" if row.connected else "no"),
        _table.Column("last event", lambda row: row.last_event or "never"),
        _table.Column("last refusal", lambda row: row.last_refusal or "never"),
        _table.Column("reason", lambda row: row.refusal, cut=20, wrap=True),
        _table.Column("file", lambda row: row.config, rank=1, cut=20),
    ]
    _table.put(states, columns, "there are no agents")


def _say(text: str, *, as_json: bool) -> None:
    click.echo(terminal.printable(text), err=as_json)
