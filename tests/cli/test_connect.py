"""`tracklog connect`: an agent's configuration is changed, its hooks send, and all of it is undone."""

import json
import os
import shutil
import socket
import stat
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from support.collecting import collector
from support.forking import tracklog
from tracklog.formats import registry
from tracklog.formats.hooks import FILES

SETTINGS = '{\n    "model": "opus",\n    "hooks": {\n        "Stop": [{"hooks": [{"type": "command", "command": "say done"}]}]\n    },\n    "größe": 1\n}'
CONFIG = {
    "claude": ".claude/settings.json",
    "codex": ".codex/hooks.json",
    "copilot": ".copilot/hooks/tracklog.json",
    "gemini": ".gemini/settings.json",
    "opencode": ".config/opencode/plugins/tracklog.js",
}
MERGED = ("claude", "codex", "gemini")
NOBODY = "http://127.0.0.1:1"
TOKEN = "a-long-random-word-for-tests"


class Person:
    """A home folder, and the command in it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        home.mkdir()
        kept = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("TRACKLOG", "XDG_"))
        }
        for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "COPILOT_HOME"):
            kept.pop(name, None)
        self.env = {**kept, "HOME": str(home)}
        self.folder = home / ".config/tracklog/hooks"

    def connect(self, *words: str, **environment: str) -> subprocess.CompletedProcess:
        return tracklog(None, "connect", *words, env={**self.env, **environment})

    def state(self, agent: str) -> dict:
        return json.loads(self.connect(agent, "--list", "--json").stdout)

    def hook(
        self, agent: str, event: str, body: object, command: str = ""
    ) -> subprocess.CompletedProcess:
        """Run the hook as the agent does: the command of its configuration, in a shell."""
        command = command or f"sh '{self.folder / 'hook.sh'}' {agent} {event} || true"
        return subprocess.run(
            ["sh", "-c", command],
            input=json.dumps(body).encode(),
            env=self.env,
            capture_output=True,
            timeout=60,
            check=False,
        )

    def until(
        self, event: str, body: object, done: Callable[[dict], bool], command: str = ""
    ) -> dict:
        """Send an event until that shows: a hook that waited for two seconds has given up."""
        end = time.monotonic() + 60
        while True:
            quiet = self.hook("claude", event, body, command)
            assert (quiet.returncode, quiet.stdout, quiet.stderr) == (0, b"", b"")
            if done(state := self.state("claude")):
                return state
            assert time.monotonic() < end, state


@pytest.fixture
def person(tmp_path):
    return Person(tmp_path / "person")


@pytest.mark.parametrize("agent", CONFIG)
def test_the_change_is_shown_and_undone_exactly(person, agent):
    path = person.home / CONFIG[agent]
    if agent in MERGED:
        path.parent.mkdir(parents=True)
        path.write_text(SETTINGS)
        path.chmod(0o640)
    done = person.connect(agent, "--yes", "--url", NOBODY)
    assert done.returncode == 0, done.stderr
    shown = done.stderr.decode()
    assert f"+++ {path}" in shown.splitlines()
    assert "start one with `tracklog serve`" in shown
    if agent in MERGED:
        written = json.loads(path.read_text())
        assert (written["model"], written["größe"]) == ("opus", 1)
        assert written["hooks"]["Stop"][0] == json.loads(SETTINGS)["hooks"]["Stop"][0]
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert person.state(agent)["connected"]
    assert b"connected already" in person.connect(agent, "--yes", "--url", NOBODY).stdout
    assert person.connect(agent, "--remove", "--yes").returncode == 0
    if agent in MERGED:
        assert path.read_text() == SETTINGS
    else:
        assert not path.exists()
    assert not person.folder.exists()
    assert not person.state(agent)["connected"]
    assert b"nothing to remove" in person.connect(agent, "--remove", "--yes").stdout


@pytest.mark.parametrize("agent", MERGED)
def test_what_was_changed_since_stays_when_the_hooks_are_removed(person, agent):
    path = person.home / CONFIG[agent]
    person.connect(agent, "--yes", "--url", NOBODY)
    written = json.loads(path.read_text())
    written["new"] = True
    written["hooks"].setdefault("Stop", []).append(
        {"hooks": [{"type": "command", "command": "bell"}]}
    )
    path.write_text(json.dumps(written))
    person.connect(agent, "--remove", "--yes")
    assert json.loads(path.read_text()) == {
        "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "bell"}]}]}, "new": True,
    }  # fmt: skip  # one table


def test_nothing_is_written_without_a_yes(person):
    said = person.connect("claude")
    assert (said.returncode, list(person.home.rglob("*"))) == (2, [])
    assert b"add --yes" in said.stderr


@pytest.mark.parametrize(
    "text", ["{ // a comment\n}", "[]", '{"hooks": 5}', '{"hooks": {"Stop": 1}}', "\xff"]
)
def test_a_configuration_of_another_form_is_not_touched(person, text):
    path = person.home / CONFIG["claude"]
    path.parent.mkdir()
    path.write_bytes(text.encode("latin-1"))
    said = person.connect("claude", "--yes")
    assert said.returncode == 2
    assert str(path).encode() in said.stderr
    assert path.read_bytes() == text.encode("latin-1")


def test_an_unknown_agent_is_named_with_those_there_are(person):
    said = person.connect("cursor", "--yes")
    assert said.returncode == 2
    assert b"claude, codex, copilot, gemini, opencode" in said.stderr


def test_the_hook_sends_with_its_token_and_says_what_was_refused(person, tmp_path):
    event = {
        "session_id": "11111111-2222-4333-8444-555555555555",
        "hook_event_name": "SessionStart",
    }
    with collector(tmp_path / "home", TRACKLOG_TOKEN=TOKEN) as server:
        said = person.connect("claude", "--yes", "--url", server.url)
        assert b"wants a token" in said.stderr
        state = person.until("SessionStart", event, lambda now: "401" in (now["refusal"] or ""))
        assert state["last_event"] is None
        assert state["refusal"].startswith("SessionStart: status 401: ")
        said = person.connect("claude", "--yes", "--url", server.url, TRACKLOG_TOKEN=TOKEN)
        assert b"is connected" in said.stderr
        assert TOKEN.encode() not in said.stdout + said.stderr
        secret = person.folder / "authorization"
        assert stat.S_IMODE(secret.stat().st_mode) == 0o600
        settings = json.loads((person.home / CONFIG["claude"]).read_text())
        assert TOKEN not in json.dumps(settings)
        (group,) = settings["hooks"]["SessionStart"]
        command = group["hooks"][0]["command"]
        person.until("SessionStart", event, lambda now: now["last_event"] is not None, command)
        (row,) = server.get("/api/runs", headers={"Authorization": f"Bearer {TOKEN}"}).json()
        assert row["run"] == event["session_id"]


def test_the_hook_never_stops_the_agent(person):
    person.connect("codex", "--yes", "--url", NOBODY)
    (group,) = json.loads((person.home / CONFIG["codex"]).read_text())["hooks"]["PreToolUse"]
    command = group["hooks"][0]["command"]
    quiet = person.hook("codex", "PreToolUse", {}, command)
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (0, b"", b"")
    assert person.state("codex")["refusal"] == "PreToolUse: no collector answered"
    # A collector that accepts and never answers.
    with socket.create_server(("127.0.0.1", 0)) as silent:
        (person.folder / "url").write_text(f"http://127.0.0.1:{silent.getsockname()[1]}\n")
        quiet = person.hook("codex", "PreToolUse", {}, command)
        assert (quiet.returncode, quiet.stdout, quiet.stderr) == (0, b"", b"")
    shutil.rmtree(person.folder)
    gone = person.hook("codex", "PreToolUse", {}, command)
    assert (gone.returncode, gone.stdout) == (0, b"")


def test_the_route_of_hooks_is_guarded_as_the_others_are(tmp_path):
    body = {"session_id": "s", "hook_event_name": "SessionStart"}
    with collector(tmp_path / "home", TRACKLOG_TOKEN=TOKEN) as server:
        own = {"Authorization": f"Bearer {TOKEN}"}
        for agent in CONFIG:
            path = f"/api/hooks/{agent}"
            for status, headers in [
                (401, {}),
                (403, {**own, "Origin": "https://evil.example"}),
                (421, {**own, "Host": "evil.example"}),
                (415, {**own, "Content-Type": "text/plain"}),
                (400, own),
            ]:
                wrong = server.http.post(
                    path, content=b"{}", headers={"Content-Type": "application/json", **headers}
                )
                assert wrong.status_code == status, (agent, status, wrong.text)
        good = server.http.post("/api/hooks/claude", json=body, headers=own)
        assert (good.status_code, good.json()) == (200, {})
        assert server.http.post("/api/hooks/cursor", json=body, headers=own).status_code == 404


def test_the_plugin_of_claude_code_has_the_hooks_that_connect_writes():
    plugin = FILES / "claude-plugin"
    assert json.loads((plugin / ".claude-plugin/plugin.json").read_text())["name"] == "tracklog"
    for hook in registry.hooks():
        assert (FILES / hook.snippet).is_file()
    for groups in json.loads((plugin / "hooks/hooks.json").read_text())["hooks"].values():
        assert groups[0]["hooks"][0]["command"].startswith(
            'sh "${CLAUDE_PLUGIN_ROOT}/hook.sh" claude '
        )
