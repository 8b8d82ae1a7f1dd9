"""A newcomer who has a wheel, the page of first steps and sessions of agents, and nothing else."""

import contextlib
import json
import re
import subprocess
import sys
import sysconfig
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from support.pages import ROOT, Terminal

SAMPLES = ROOT / "tests/samples/importers"
SESSION = "5f3c1a52-7d6e-4b1a-9f1e-0a1b2c3d4e5f"
DAY = re.compile(rb"\d{4}-\d\d-\d\d(?=T\d\d:\d\d)")
NOON = datetime.now().astimezone().replace(hour=12, minute=0, second=0, microsecond=0)


def wheel(folder: Path) -> Path:
    """A folder with a wheel of this clone."""
    options = ["--no-isolation", "--wheel", "--outdir", folder]
    subprocess.run([sys.executable, "-m", "build", *options, ROOT], check=True, capture_output=True)
    return folder


def dependencies(folder: Path) -> Path:
    """What pip would download: all packages of our environment, without tracklog and pip."""
    folder.mkdir()
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if not re.match(r"_?tracklog|pip\b|.*\.pth$", path.name):
            (folder / path.name).symlink_to(path)
    return folder


def some_days_ago(sample: str, days: int) -> bytes:
    """A sample as if its last day was so many days ago."""
    text = (SAMPLES / sample).read_bytes()
    last = max(datetime.fromisoformat(each.decode()) for each in DAY.findall(text))
    by = NOON.replace(tzinfo=None).date() - timedelta(days=days) - last.date()

    def moved(day: re.Match[bytes]) -> bytes:
        return (datetime.fromisoformat(day[0].decode()) + by).date().isoformat().encode()

    return DAY.sub(moved, text)


def failing_session() -> bytes:
    """A long session of yesterday, the most expensive: no database for its test, then the API fails."""

    def line(n: int, kind: str, content: object, **more: object) -> str:
        at = (NOON - timedelta(days=1) + timedelta(seconds=n)).astimezone(UTC)
        usage = {"input_tokens": 4_000_000, "output_tokens": 20_000} if n == 2 else {}
        message = {"role": kind, "content": content, "id": f"m{n}", "model": "claude-sonnet-4-5"}
        head = {"type": kind, "uuid": f"u{n}", "sessionId": SESSION, "cwd": "/src/shop"}
        stamp = {"timestamp": f"{at:%Y-%m-%dT%H:%M:%S}.000Z", "requestId": f"r{n}"}
        return json.dumps(head | stamp | more | {"message": message | {"usage": usage}})

    call = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "pytest"}}
    error = {"type": "tool_result", "tool_use_id": "t1", "is_error": True}
    thoughts = {"type": "text", "text": "I read the next file. " * 100}
    lines = [
        line(1, "user", "Make the checkout tests pass"),
        *(line(n, "assistant", [thoughts]) for n in range(3, 60)),  # more than a page
        line(2, "assistant", [call]),
        line(61, "user", [error | {"content": "ConnectionRefusedError: no database"}]),
        line(62, "assistant", [{"type": "text", "text": "API Error: 529"}], isApiErrorMessage=True),
    ]
    return "\n".join([*lines, ""]).encode()


def sessions_of_agents(user: Path) -> None:
    """Put sessions where agents store them."""
    rollout = "rollout-2025-09-25T15-12-14-019982b8-3422-79e0-8b3b-05abaf4f3c3e.jsonl"
    gemini = "session-2025-10-29T10-36-453aa339.json"
    shop = ".claude/projects/-src-shop"
    files = {
        f"{shop}/{SESSION}.jsonl": failing_session(),
        f"{shop}/1b2c3d4e-5f60-4172-8394-a5b6c7d8e9f0.jsonl": some_days_ago(
            "claude/real_full_session.jsonl", 1
        ),
        f".codex/sessions/2025/09/25/{rollout}": some_days_ago(f"codex/{rollout}", 2),
        f".gemini/tmp/shop/chats/{gemini}": some_days_ago(f"gemini/{gemini}", 3),
    }
    for path, content in files.items():
        (user / path).parent.mkdir(parents=True, exist_ok=True)
        (user / path).write_bytes(content)


@pytest.mark.long
def test_the_first_steps_lead_from_a_wheel_to_costs_an_alert_and_an_answer_over_mcp(tmp_path):
    sessions_of_agents(tmp_path / "user")
    settings = {
        "PIP_NO_INDEX": "1",
        "PIP_NO_DEPS": "1",
        "PYTHONPATH": str(dependencies(tmp_path / "dependencies")),
    }
    python = str(Path(sys.base_prefix) / "bin")
    terminal = Terminal(tmp_path, wheel(tmp_path / "download"), [python], **settings)
    with contextlib.closing(terminal):
        terminal.read(ROOT / "docs/first-steps.md")
        assert terminal.left_over() == ""
        where = "python -c 'import tracklog; print(tracklog.__file__)'"
        terminal.enter(where, f"{tmp_path}/user/tracklog-env/…\n")
    days = terminal.printed("tracklog costs --by day")
    for ago in (1, 2, 3):
        assert re.search(rf"^{NOON - timedelta(days=ago):%Y-%m-%d} .*\$\d", days, re.MULTILINE)
    assert "`tracklog costs --by day`" in terminal.printed("tracklog import")
    assert "Make the checkout tests pass" in terminal.printed("tracklog runs --since yesterday")
    title, called, stopped = terminal.printed("python ask.py").splitlines()
    assert re.fullmatch(r"Make the checkout tests pass failed 12\.\d+ USD", title)
    assert "ConnectionRefusedError: no database" in called
    assert "API Error: 529" in stopped
