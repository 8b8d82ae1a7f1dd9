"""Hosts killed with SIGKILL after every single event: nothing is done twice, and nothing by half."""

import json
import os
import signal
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import pytest
from test_host_fishbowl import (
    PlayerReply,
    Prompt,
    a_judge,
    conduct,
    kept,
    player,
    scene,
    without_time,
)

from support.forking import in_a_process
from support.transcribing import bodies, run_id
from tracklog.cli._hosts.workflow import command
from tracklog.home.home import Home
from tracklog.hosts.workflow import processes
from tracklog.journal.disk import Disk
from tracklog.journal.verify import verify
from tracklog.recording.recorder.writer import TranscriptWriter
from tracklog.recording.transcript import lint

KILLED = -signal.SIGKILL


def die(*_arguments: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Judge:
    """Names somebody who does not play, and when it is asked once more, one who does."""

    offline = False
    name = "judge"

    def reply(self, prompt: Prompt) -> PlayerReply:
        winner = "bex" if prompt.correction else "nobody-here"
        return PlayerReply("judge.verdict", {"text": "It is settled.", "winner": winner}, tokens=10)

    def close(self) -> None:
        pass


CONTEST = scene(
    player("ann", memory={"reflection_threshold": 1}, may_emit=["agent.spoke", "agent.reflected"]),
    player("bex", model_endpoint="model://bex", subscribes_to=["agent.spoke"]),
    a_judge(),
    competition={"kind": "judged"},
    ticks=2,
)


def play(home: str, watch) -> None:
    with Home(home, durability="os") as opened:
        conduct(opened, CONTEST, {"host": Judge()}, watch=watch).play()


def test_a_contest_killed_after_every_event_is_the_contest_that_it_would_have_been(tmp_path):
    """Each process keeps one event, and is killed; the next one goes on."""
    play(str(tmp_path / "calm"), lambda _event: None)
    with Home(tmp_path / "calm", readonly=True) as home:
        whole = kept(home)
    kinds = Counter(event["kind"] for event in whole)
    assert {"run.started", "agent.spoke", "agent.reflected", "judge.verdict"} < set(kinds)
    assert whole[-1]["payload"]["winner"] == "bex"
    verdict = next(e["payload"] for e in whole if e["kind"] == "judge.verdict")
    assert (verdict["_tokens"], verdict["_calls"]) == (20, 2)
    for number in count(1):
        code = in_a_process(play, str(tmp_path / "killed"), die)
        with Home(tmp_path / "killed", readonly=True) as home:
            events = kept(home)
        assert without_time(events) == without_time(whole[:number])
        assert code == (0 if len(events) < number else KILLED)
        if code == 0:
            break
    assert number == len(whole) + 1


def play_until_a_write(home: str, cut: int) -> None:
    """Plays, and dies in the middle of the write of that number."""
    left, write = count(1), Disk.write

    def mortal(disk, fd, block):
        if next(left) != cut:
            return write(disk, fd, block)
        os.write(fd, block[: len(block) // 2])
        return die()

    Disk.write = mortal
    play(home, lambda _event: None)


@pytest.mark.long
def test_a_contest_killed_inside_every_write_is_the_contest_that_it_would_have_been(
    tmp_path, tally
):
    play(str(tmp_path / "calm"), lambda _event: None)
    with Home(tmp_path / "calm", readonly=True) as home:
        whole = without_time(kept(home))
    for cut in count(1):
        path = tmp_path / str(cut)
        if (code := in_a_process(play_until_a_write, str(path), cut)) == 0:
            break
        assert code == KILLED
        play(str(path), lambda _event: None)
        with Home(path, readonly=True) as home:
            events = without_time(kept(home))
        there, wanted = (Counter(map(json.dumps, each)) for each in (events, whole))
        tally.add(kills=1, inside=1, acknowledged=len(whole))
        tally.add(lost=(wanted - there).total(), doubled=(there - wanted).total())
        assert verify(path).faults == []
    tally.done("host, fishbowl")
    assert tally.counts["kills"] > len(whole)


AGENT = """\
echo '{"type":"thread.started","thread_id":"t-1"}'
echo '{"type":"turn.started"}'
echo '{"type":"item.completed","item":{"id":"i1","type":"agent_message","text":"Fine."}}'
echo '{"type":"turn.completed","usage":{"input_tokens":3,"output_tokens":2}}'
echo agent >> marks
"""


CHILD = """\
name: child
steps:
  - {name: inside, kind: command, run: "echo inside >> marks"}
"""
FLOW = """\
name: all
steps:
  - {name: ask, kind: agent, prompt: Well, agent: {provider: codex, command: [sh, agent.sh]}}
  - name: both
    kind: parallel
    branches:
      left: [{name: l, kind: command, run: "echo left >> marks"}]
      right: [{name: r, kind: command, run: "echo right >> marks"}]
  - name: each
    kind: for_each
    items: [x, y]
    steps: [{name: one, kind: command, run: "echo {{item}} >> marks"}]
  - name: rounds
    kind: while
    condition: "{{steps.turn.result}} != 1"
    steps: [{name: turn, kind: command, run: "echo turn{{index}} >> marks; echo {{index}}"}]
  - {name: down, kind: call_workflow, workflow: child.yaml}
  - {name: last, kind: command, run: "echo last >> marks"}
"""
MARKS = {
    "ask": "agent", "both.l": "left", "both.r": "right", "each.one 0": "x", "each.one 1": "y",
    "rounds.turn 0": "turn0", "rounds.turn 1": "turn1", "inside": "inside", "last": "last",
}  # fmt: skip
"""What each step does, by its place."""


def host(path: str, home: str, id: str, cut: int) -> None:
    """Runs a flow as the command line does, and dies when so many lines are written."""
    left, write, one_by_one = count(1), TranscriptWriter.write, threading.RLock()

    def mortal(*given):
        with one_by_one:  # branches write at once, and none may come behind the last line
            entry = write(*given)
            if next(left) == cut:
                die()
            return entry

    TranscriptWriter.write = mortal
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    command.main(["run", path, "--home", home, "--run", id])


def transcripts(home: Path) -> list[list[dict]]:
    return [bodies(file) for file in sorted((home / "transcripts").glob("*.jsonl"))]


def done(home: Path) -> set[str]:
    """The marks of the steps whose end is recorded."""
    ends = [e for events in transcripts(home) for e in events if e["type"] == "step.completed"]
    found = set()
    for end in ends:
        if end["payload"]["kind"] in ("command", "agent") and not end["payload"].get("synthetic"):
            place = end["path"]
            found.add(MARKS.get(f"{place} {end['iteration']}") or MARKS[place])
    return found


def killed_after(folder: Path, cut: int) -> bool:
    """Kills a host after so many lines and lets the next go on; whether it lived that long."""
    folder.mkdir()
    for name, text in (("agent.sh", AGENT), ("child.yaml", CHILD), ("all.yaml", FLOW)):
        (folder / name).write_text(text)
    home, id, marks = folder / "home", run_id(), folder / "marks"
    call = (host, str(folder / "all.yaml"), str(home), id)
    code = in_a_process(*call, cut)
    if code == 0:
        return False
    assert code == KILLED
    assert sum(map(len, transcripts(home))) == cut
    before, marked = done(home), Counter(marks.read_text().split() if marks.exists() else ())
    assert before <= set(marked)
    assert in_a_process(*call, 0) == 0
    after = Counter(marks.read_text().split())
    assert set(after) == set(MARKS.values()) == done(home)
    for mark, times in after.items():  # what had ended is not begun again, what had not may be
        assert times == 1 or (mark not in before and times == 2), (cut, mark, after)
    files = sorted((home / "transcripts").glob("*.jsonl"))
    assert len(files) == 2
    for file in files:
        events = bodies(file)
        ends = [e for e in events if e["type"] == "run.completed"]
        assert ends == [events[-1]], cut
        assert ends[0]["payload"]["status"] == "ok"
        assert [flaw.name for flaw in lint(file)] == [], cut
        begun = [e["seq"] for e in events if e["type"].endswith("started") and e["path"]]
        assert sorted(begun) == sorted(e["step_seq"] for e in events
                                       if e["type"].endswith("completed") and e["path"])  # fmt: skip
        assert processes.end_leftovers(file.stem) == 0
    audit = [json.loads(line) for line in (home / "audit.jsonl").read_text().splitlines()]
    said = Counter((each["execution_id"], each["event"]) for each in audit)
    assert len(said) == 4
    assert set(said.values()) == {1}, cut
    with Home(home, readonly=True) as opened:
        lines = [record.line for record in opened.journal.records() if record.dialect == "awf"]
    assert Counter(lines) == Counter(b for file in files for b in file.read_bytes().splitlines())
    return True


@pytest.mark.long
def test_a_flow_killed_after_every_line_goes_on_and_no_step_that_ended_runs_again(tmp_path):
    with ThreadPoolExecutor(2) as pool:
        lived = list(pool.map(lambda cut: killed_after(tmp_path / str(cut), cut), range(1, 35)))
    lines = lived.index(False)
    assert lines == 33
    assert not any(lived[lines:])
