"""Hooks: what agents report while they run is the same run as their file and their telemetry."""

import json
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracklog.answers.conversation import conversation
from tracklog.answers.inbox import inbox
from tracklog.collector.hooks import HookIntake
from tracklog.collector.operator import give
from tracklog.collector.otlp import Telemetry
from tracklog.folds import runs as runs_fold
from tracklog.folds._titles import titled
from tracklog.formats import registry
from tracklog.formats.importing import Importing
from tracklog.home.home import Home
from tracklog.model.errors import NotAnswered
from tracklog.web.trouble import Trouble

SAMPLES = Path(__file__).parents[1] / "samples/hooks"
"""Recorded from the real programs, which a fake model told to run one good and one bad command.

The texts of Gemini's responses were removed, and are written here in the form that it sends.
"""
IN_TERMINAL = "answered in the terminal"
NOW = "2026-11-18T09:00:00.000Z"
AGENTS = {
    "claude": ("hooks", "otlp", "import"),
    "codex": ("hooks", "otlp", "import"),
    "gemini": ("hooks", "otlp", "import"),
    "copilot": ("hooks", "otlp", "import"),
    "opencode": ("hooks", "otlp", "import"),
}
"""The channels of each agent."""


class Channels:
    """A home, and what one agent sent to it by each channel."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.home = Home(path / "home", durability="os")
        self.telemetry = Telemetry(self.home)
        self.intake = HookIntake(self.telemetry)

    def send(self, agent: str, event: str, **body: object) -> None:
        hook = registry.hook(agent)
        self.intake.take(hook, hook.event(body) or event, body)

    def bring(self, agent: str, channel: str) -> None:
        for step in self.steps(agent, channel):
            step()

    def steps(self, agent: str, channel: str) -> list[Callable[[], None]]:
        """What a channel brings, one after the other."""
        match channel:
            case "hooks":
                rows = map(json.loads, (SAMPLES / f"{agent}.jsonl").read_text().splitlines())
                return [partial(self.send, agent, row["event"], **row["body"]) for row in rows]
            case "otlp":
                requests = json.loads((SAMPLES / f"{agent}.otlp.json").read_text())
                return [partial(self._otlp, request) for request in requests]
        if agent == "opencode":
            return [lambda: self._import(agent, stored(self.path))]
        return [lambda: self._import(agent, SAMPLES / "files")]

    def growing(self, agent: str) -> list[Callable[[], None]]:
        """The import of an agent's file, line after line, as the file grows."""
        (file,) = (path for path in (SAMPLES / "files" / f".{agent}").rglob("*") if path.is_file())
        copy = self.path / "grown" / file.relative_to(SAMPLES / "files")
        copy.parent.mkdir(parents=True)

        def grow(line: bytes) -> None:
            with copy.open("ab") as end:
                end.write(line)
            self._import(agent, self.path / "grown")

        return [partial(grow, line) for line in file.read_bytes().splitlines(keepends=True)]

    def _otlp(self, request: dict) -> None:
        taken = self.telemetry.take(request["signal"], json.dumps(request["body"]).encode(), True)
        assert not taken.rejected, taken.message

    def _import(self, agent: str, user: Path) -> None:
        importing = Importing(self.home)
        files = [
            path for path in importing.find(user, {}) if importing.importer_of(path).name == agent
        ]
        importing.bring(files)

    def rows(self) -> list[dict]:
        self.home.index.catch_up()
        return [runs_fold.row(state, NOW) for _, state in self.home.index.states("runs")]

    def words(self) -> Counter:
        """How often a person and the agent said each text, in the conversations of all runs."""
        self.home.index.catch_up()
        runs = [state.run for _, state in self.home.index.states("runs")]
        return Counter(
            (part.role, titled(part.text))
            for run in runs
            for message in conversation(self.home, run)
            for part in message.parts
            if titled(part.text)
        )

    def questions(self) -> list:
        self.home.index.catch_up()
        return inbox(self.home, now=NOW)

    def close(self) -> None:
        self.telemetry.close()
        self.home.close()


def stored(path: Path) -> Path:
    """A home folder of OpenCode that holds what the events of its plugin say."""
    storage = path / "user/.local/share/opencode/storage"
    for line in (SAMPLES / "opencode.jsonl").read_text().splitlines():
        body = json.loads(line)["body"]
        fields = body["properties"]
        match body["type"]:
            case "session.created" | "session.updated":
                row, place = fields["info"], f"session/global/{fields['sessionID']}"
            case "message.updated":
                row = fields["info"]
                place = f"message/{fields['sessionID']}/{row['id']}"
            case "message.part.updated":
                row = fields["part"]
                place = f"part/{row['messageID']}/{row['id']}"
            case _:
                continue
        file = storage / f"{place}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(row))
    return path / "user"


@pytest.fixture
def channels(tmp_path):
    made = Channels(tmp_path)
    yield made
    made.close()


PROMPT, ANSWER = "Say hello, then fail, then stop.", "All done: one command worked, one failed."
WITHOUT_ANSWER = {("codex", "otlp"), ("copilot", "hooks")}
"""The channels that do not carry what the agent answered."""


def expected_words(agent: str, order: tuple[str, ...]) -> Counter:
    prompt = f'"{PROMPT}"' if agent == "opencode" else PROMPT
    answers = any((agent, channel) not in WITHOUT_ANSWER for channel in order)
    words = {("user", prompt): 1} | ({("assistant", ANSWER): 1} if answers else {})
    if agent == "opencode" and "otlp" in order:
        words[("system", "(removed)")] = 1
    return Counter(words)


COMBINED = [
    (agent, order)
    for agent, of in AGENTS.items()
    for size in range(1, len(of) + 1)
    for order in permutations(of, size)
]


@pytest.mark.parametrize(
    ("agent", "order"), COMBINED, ids=lambda each: each if isinstance(each, str) else "+".join(each)
)
def test_each_combination_of_channels_is_one_run_whose_calls_and_tokens_count_once(
    channels, agent, order
):
    for channel in order:
        channels.bring(agent, channel)
    (row,) = channels.rows()
    assert (row["tool_calls"], row["open_calls"], row["torn_calls"]) == (2, 0, 0)
    told_by_hooks = order == ("hooks",)
    # Codex does not tell its hooks that a command failed, nor OpenCode its telemetry.
    silent = {"codex": ("hooks",), "opencode": ("otlp",)}.get(agent)
    assert row["tool_failures"] == (0 if order == silent else 1)
    # Only OpenCode tells its hooks how many tokens were used.
    tokens = (None, None, None) if told_by_hooks and agent != "opencode" else (360, 90, 120)
    if agent == "opencode" and "otlp" in order:
        tokens = (480, 120, 160)  # with the model call for the title
    assert (row["tokens_in"], row["tokens_out"], row["tokens_cached"]) == tokens
    cost = {
        "claude": 0.00351 if "otlp" in order else None,
        "opencode": None if "otlp" in order else 0.000432,
    }.get(agent)
    assert row["cost_usd"] == (None if cost is None else pytest.approx(cost))
    if "hooks" in order:
        assert (row["ended"], row["status"]) == (True, "done")
    assert channels.words() == expected_words(agent, order)


@pytest.mark.parametrize("agent", [agent for agent in AGENTS if agent != "opencode"])
@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_channels_that_arrive_at_the_same_time_count_once(tmp_path_factory, agent, data):
    """The hooks, the telemetry and the growing file of a session, in any order of arrival."""
    channels = Channels(tmp_path_factory.mktemp("mixed"))
    left = [channels.steps(agent, "hooks"), channels.steps(agent, "otlp"), channels.growing(agent)]
    turns = [number for number, steps in enumerate(left) for _ in steps]
    for number in data.draw(st.permutations(turns)):
        left[number].pop(0)()
        if data.draw(st.integers(0, 9)) == 0:
            channels.home.index.catch_up()
    (row,) = channels.rows()
    words = channels.words()
    channels.close()
    calls = (row["tool_calls"], row["open_calls"], row["torn_calls"], row["tool_failures"])
    assert calls == (2, 0, 0, 1)
    assert (row["tokens_in"], row["tokens_out"], row["tokens_cached"]) == (360, 90, 120)
    assert words == expected_words(agent, AGENTS[agent])


@pytest.mark.parametrize("agent", AGENTS)
def test_a_collector_that_starts_again_in_the_middle_counts_the_same(tmp_path, agent):
    lines = (SAMPLES / f"{agent}.jsonl").read_text().splitlines()
    for line in lines:  # each in a process of its own, as far as memory goes
        row, one = json.loads(line), Channels(tmp_path)
        one.send(agent, row["event"], **row["body"])
        one.close()
    again = Channels(tmp_path)
    (row,) = again.rows()
    again.close()
    assert (row["tool_calls"], row["open_calls"], row["ended"]) == (2, 0, True)


def test_equal_calls_without_an_id_are_as_many_as_there_were(channels):
    def event(name, **more):
        channels.send("gemini", name, session_id="s", hook_event_name=name, **more)

    for _ in range(3):
        event("BeforeTool", tool_name="read_file", tool_input={"path": "a"})
        event(
            "AfterTool",
            tool_name="read_file",
            tool_input={"path": "a"},
            tool_response={"llmContent": "x"},
        )
    (row,) = channels.rows()
    assert (row["tool_calls"], row["open_calls"], row["tool_failures"]) == (3, 0, 0)


def ask(channels):
    common = {"session_id": "11111111-2222-4333-8444-555555555555"}
    tool = {"tool_name": "Bash", "tool_input": {"command": "rm -r build"}, "tool_use_id": "t1"}
    channels.send("claude", "", hook_event_name="PreToolUse", **common, **tool)
    channels.send("claude", "", hook_event_name="PermissionRequest", **common, **tool)
    return common, tool


def test_a_permission_is_in_the_inbox_and_can_be_answered_only_in_the_terminal(channels):
    ask(channels)
    (question,) = channels.questions()
    assert (question.state, question.answerable, question.what) == ("open", False, "permission")
    assert question.text == "May Bash run: rm -r build"
    assert channels.rows()[0]["status"] == "waiting"
    with pytest.raises(NotAnswered, match="own terminal"):
        give(channels.home, question.question_id, "yes", by="ada")
    assert channels.questions()[0].state == "open"


@pytest.mark.parametrize(
    ("event", "more", "state", "answer"),
    [
        ("PostToolUse", {"tool_name": "Bash", "tool_use_id": "t1"}, "answered", "allowed"),
        ("PreToolUse", {"tool_name": "Read", "tool_use_id": "t2"}, "answered", IN_TERMINAL),
        ("UserPromptSubmit", {"prompt": "no, do not"}, "answered", IN_TERMINAL),
        ("SessionEnd", {"reason": "other"}, "abandoned", None),
    ],
)
def test_the_next_call_or_the_end_of_the_session_closes_the_question(
    channels, event, more, state, answer
):
    common, _ = ask(channels)
    channels.send("claude", "", hook_event_name=event, **common, **more)
    (question,) = channels.questions()
    assert (question.state, question.answer) == (state, answer)


def test_a_permission_without_an_id_is_about_the_only_open_call(channels):
    """As Claude Code 2.1 asks; of two open calls nobody can say which it is about."""
    common = {"session_id": "11111111-2222-4333-8444-555555555555", "tool_name": "Bash"}
    for id in ("t1", "t2"):
        channels.send("claude", "", hook_event_name="PreToolUse", tool_use_id=id, **common)
        channels.send("claude", "", hook_event_name="PermissionRequest", **common)
    channels.send("claude", "", hook_event_name="PostToolUse", tool_use_id="t1", **common)
    questions = {each.call_id: each.answer for each in channels.questions()}
    assert questions == {"t1": IN_TERMINAL, None: IN_TERMINAL}
    channels.send("claude", "", hook_event_name="PermissionRequest", **common)
    channels.send("claude", "", hook_event_name="PostToolUse", tool_use_id="t2", **common)
    questions = {each.call_id: each.answer for each in channels.questions()}
    assert questions["t2"] == "allowed"


def test_a_notification_that_the_agent_waits_for_a_person_is_a_question(channels):
    common = {"session_id": "11111111-2222-4333-8444-555555555555"}
    notice = {"notification_type": "agent_needs_input", "message": "A notice to acknowledge"}
    channels.send("claude", "", hook_event_name="Notification", **common, **notice)
    (question,) = channels.questions()
    assert (question.state, question.answerable) == ("open", False)
    assert question.text == "A notice to acknowledge"
    idle = {"notification_type": "idle_prompt", "message": "Claude is waiting for your input"}
    channels.send("claude", "", hook_event_name="Stop", **common)
    channels.send("claude", "", hook_event_name="Notification", **common, **idle)
    (question,) = channels.questions()
    assert question.state == "answered"


@pytest.mark.parametrize(
    ("event", "more"),
    [
        ("Stop", {"last_assistant_message": "I may not."}),
        ("PermissionDenied", {"tool_name": "Bash", "tool_use_id": "t1"}),
        ("UserPromptSubmit", {"prompt": "then not"}),
        ("SessionEnd", {"reason": "other"}),
    ],
)
def test_a_call_that_was_denied_is_closed_and_a_later_result_still_counts(channels, event, more):
    """Claude Code reports no result of a call that it denies by itself."""
    common = {"session_id": "11111111-2222-4333-8444-555555555555"}
    tool = {"tool_name": "Bash", "tool_input": {"command": "rm -r build"}, "tool_use_id": "t1"}
    channels.send("claude", "", hook_event_name="PreToolUse", **common, **tool)
    assert channels.rows()[0]["open_calls"] == 1
    channels.send("claude", "", hook_event_name=event, **common, **more)
    (row,) = channels.rows()
    assert (row["tool_calls"], row["open_calls"], row["tool_failures"]) == (1, 0, 0)
    channels.send("claude", "", hook_event_name="PostToolUseFailure", error="x", **common, **tool)
    (row,) = channels.rows()
    assert (row["tool_calls"], row["open_calls"], row["tool_failures"]) == (1, 0, 1)


def test_a_subagent_is_a_run_of_its_own_below_the_session(channels):
    common = {"session_id": "11111111-2222-4333-8444-555555555555"}
    sub = {**common, "agent_id": "a1", "agent_type": "Explore"}
    channels.send("claude", "", hook_event_name="SessionStart", source="startup", **common)
    channels.send("claude", "", hook_event_name="SubagentStart", **sub)
    channels.send(
        "claude", "", hook_event_name="PreToolUse", tool_name="Read", tool_use_id="t", **sub
    )
    channels.send(
        "claude", "", hook_event_name="SubagentStop", last_assistant_message="done", **sub
    )
    main, below = channels.rows()
    assert (main["tool_calls"], main["ended"]) == (0, False)
    assert (below["tool_calls"], below["ended"]) == (1, True)


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("body", [{}, {"session_id": 5}, {"properties": [1]}])
def test_an_event_without_a_session_is_refused(channels, agent, body):
    with pytest.raises(Trouble, match="names no session"):
        channels.send(agent, "", **body)


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("wrong", [None, 5, [], "text", {"a": [1]}])
def test_fields_of_any_type_are_stored_and_break_nothing(channels, agent, wrong):
    """Each field of each recorded event, one at a time, with another type."""
    for line in (SAMPLES / f"{agent}.jsonl").read_text().splitlines():
        row = json.loads(line)
        ids = ("session_id", "sessionId", "hook_event_name", "type")
        for key in row["body"].keys() - set(ids):
            if key == "properties":
                inner = row["body"]["properties"]
                body = {
                    **row["body"],
                    key: {**dict.fromkeys(inner, wrong), "sessionID": "ses_sample"},
                }
            else:
                body = {**row["body"], key: wrong}
            channels.send(agent, row["event"], **body)
    assert len(channels.rows()) == 1
