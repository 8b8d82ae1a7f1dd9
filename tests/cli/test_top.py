"""The fleet on a real terminal: live, by keys, at any size, and left as it was found."""

import codecs
import contextlib
import os
import re
import signal
import subprocess
import sys
import termios
import time
import unicodedata
from dataclasses import astuple, replace

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support import sampling as samples
from support.forking import tracklog
from support.waiting import readable
from tracklog.answers.top import Fleet, agent_row
from tracklog.cli._screen import keys_of
from tracklog.dialects import tracklog as native
from tracklog.folds import agents as agents_fold
from tracklog.folds.runs import STATUSES
from tracklog.home.home import Home
from tracklog.journal.frame import stamp
from tracklog.model.fact import (
    Answered,
    Asked,
    Began,
    Called,
    Ended,
    Moved,
    Noted,
    Returned,
    Said,
    Spent,
)

PATIENCE = 60
SLY = "\x1b[2J\x1b]0;gotcha\x07\r\nfake\u202e\x9b31m"


class Terminal:
    """As much of a terminal as this program speaks to: places, erasing, and the other screen."""

    SEQUENCE = re.compile(r"\x1b\[(\??)([0-9;]*)([A-Za-z])")

    def __init__(self, columns=80, rows=24):
        self.master, self.slave = os.openpty()
        self.alternate, self.cursor, self.at = False, True, (0, 0)
        self.left, self.heard = "", b""
        self.decoder = codecs.getincrementaldecoder("utf-8")()  # a read may end inside a character
        self.over = []
        """Lines that ran over."""
        self.resize(columns, rows)
        self.modes = termios.tcgetattr(self.slave)

    def resize(self, columns, rows):
        self.columns, self.rows = columns, rows
        self.cells = [[" "] * columns for _ in range(rows)]
        termios.tcsetwinsize(self.slave, (rows, columns))

    @property
    def lines(self):
        return ["".join(row).rstrip() for row in self.cells]

    def read(self, seconds=0.1):
        if not readable(self.master, seconds):
            return
        with contextlib.suppress(OSError):
            block = os.read(self.master, 65536)
            self.heard += block
            self.take(self.decoder.decode(block))

    def take(self, text):
        text, self.left = self.left + text, ""
        while text:
            if text[0] == "\x1b":
                found = self.SEQUENCE.match(text)
                if found is None and len(text) < 20:
                    self.left = text
                    return
                assert found, f"a sequence that nobody should send: {text[:20]!r}"
                self.obey(*found.groups())
                text = text[found.end() :]
            else:
                self.put(text[0])
                text = text[1:]

    def obey(self, private, numbers, what):
        given = [int(n) for n in numbers.split(";") if n]
        row, column = self.at
        match private + what:
            case "H":
                self.at = (given[0] - 1, given[1] - 1)
            case "K" if row >= self.rows:
                pass  # made for the old size
            case "K":
                self.cells[row][column:] = [" "] * (self.columns - column)
            case "J":
                self.cells = [[" "] * self.columns for _ in range(self.rows)]
            case "?h" | "?l" if given == [1049]:
                self.alternate = what == "h"
            case "?h" | "?l" if given == [25]:
                self.cursor = what == "h"
            case "m":
                pass
            case _:
                raise AssertionError(f"nobody should send {private}{numbers}{what}")

    def put(self, character):
        row, column = self.at
        if character in "\r\n":
            self.at = (row + (character == "\n"), 0)
            return
        assert character.isprintable(), f"{character!r} reached the terminal"
        wide = 2 if unicodedata.east_asian_width(character) in "WF" else 1
        if self.alternate and row < self.rows:
            if column + wide > self.columns:
                self.over.append(self.lines[row])
            else:
                self.cells[row][column] = character
        self.at = (row, column + wide)


class Top:
    """`tracklog top` in a terminal."""

    def __init__(self, home, *arguments, columns=80, rows=24, program=None, **env):
        self.terminal = Terminal(columns, rows)
        self.resized = False
        slave = self.terminal.slave
        program = program or [sys.executable, "-m", "tracklog", "top", *arguments]
        # The first terminal that the leader of a new session opens is its own: Ctrl-C reaches it.
        opened = ["sh", "-c", 'exec "$@" <"$0" >"$0" 2>"$0"', os.ttyname(slave)]
        self.process = subprocess.Popen(
            [*opened, *program],
            start_new_session=True,
            env={**os.environ, "TERM": "xterm", "TRACKLOG_HOME": str(home), **env},
        )

    def press(self, keys):
        os.write(self.terminal.master, keys.encode())

    def resize(self, columns, rows):
        self.terminal.resize(columns, rows)
        self.resized = True  # what is under way was made for the old size

    def until(self, is_so, what):
        end = time.monotonic() + PATIENCE
        while not is_so(self.terminal.lines):
            assert time.monotonic() < end, f"never {what}: {self.terminal.lines}"
            assert self.process.poll() is None or not what, self.terminal.heard
            self.terminal.read()

    def shows(self, *words):
        self.until(lambda lines: all(word in "\n".join(lines) for word in words), f"shown {words}")
        if not self.resized:
            assert self.terminal.over == []
        return self.terminal.lines

    def shows_no(self, word):
        self.until(lambda lines: word not in "\n".join(lines), f"without {word}")

    def ended(self):
        end = time.monotonic() + PATIENCE
        while self.process.poll() is None:
            assert time.monotonic() < end, "it does not end"
            self.terminal.read()
        while readable(self.terminal.master, 0):
            self.terminal.read(0)
        return self.process.returncode

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.terminal.master)
        os.close(self.terminal.slave)


@pytest.fixture
def started():
    every = []

    def start(*arguments, **options):
        every.append(Top(*arguments, **options))
        return every[-1]

    yield start
    for each in every:
        each.close()


@pytest.fixture
def home(tmp_path):
    with Home(tmp_path / "home", durability="os") as opened:
        yield opened


NUMBER = iter(range(10**9))


def record(home, run, *facts):
    for fact in facts:
        origin = {"writer": "test", "fidelity": "observed"}
        line = native.line(
            fact, id=f"i{next(NUMBER)}", run=run, at=stamp(time.time()), origin=origin
        )
        (verdict,) = home.intake.admit([line], "tracklog")
        assert verdict.seq is not None, verdict


def said(text, role="assistant", **more):
    return Said(role=role, blocks=({"type": "text", "text": text},), **more)


def left_as_found(top):
    terminal = top.terminal
    assert not terminal.alternate
    assert terminal.cursor
    assert termios.tcgetattr(terminal.slave) == terminal.modes
    return True


def place(lines, word):
    return next(n for n, line in enumerate(lines) if word in line)


def test_runs_appear_as_they_are_recorded_and_who_waits_stands_first(home, started):
    top = started(home.path)
    top.shows("no runs yet")
    record(home, "builder", Began(what="run", task="Build it"), said("compiling", agent="ann"))
    lines = top.shows("builder", "compiling", "1 working")
    assert max(map(len, lines)) <= 80
    record(home, "deployer", Began(what="run"), Asked(question_id="q1", text="Which port?"))
    lines = top.shows("deployer", "? Which port?")
    assert place(lines, "deployer") < place(lines, "builder")
    assert "waiting" in lines[place(lines, "deployer")]
    record(
        home,
        "deployer",
        Answered(question_id="q1", answer=8080, by="mara"),
        Spent(key="s1", cost_usd=1.25),
        Ended(what="run", outcome="ok", passed=True),
    )
    lines = top.shows("1 done", "1.25")
    assert place(lines, "builder") < place(lines, "deployer")
    top.press("q")
    assert top.ended() == 0
    assert left_as_found(top)


def test_a_run_is_chosen_opened_read_live_and_left_again(home, started):
    for run in ("one", "two", "three"):
        record(home, run, Began(what="run", task=f"task of {run}"))
    top = started(home.path)
    lines = top.shows("three", "two", "one")
    assert lines[place(lines, "› ")].split()[2] == "three"
    top.press("j")
    top.until(lambda lines: "two" in lines[place(lines, "› ")], "two is chosen")
    top.press("\x1b[B")
    top.until(lambda lines: "one" in lines[place(lines, "› ")], "one is chosen")
    top.press("k\x1bOA\x1b[A")
    top.until(lambda lines: "three" in lines[place(lines, "› ")], "the first is chosen")
    top.press("j\r")
    top.shows("task of two", "run began", "escape back")
    record(home, "two", said("while you watch", agent="bob"))
    record(home, "one", said("elsewhere"))
    lines = top.shows("bob: while you watch")
    assert "elsewhere" not in "\n".join(lines)
    top.press("\x1b")
    top.shows("three", "elsewhere", "enter open")
    top.press("q")
    assert top.ended() == 0
    assert left_as_found(top)


def test_an_open_run_is_scrolled_and_followed(home, started):
    record(home, "long", Began(what="run"), *(said(f"line {n:03}.") for n in range(60)))
    top = started(home.path, rows=20)
    top.shows("long")
    top.press("\r")
    top.shows("line 059.")
    top.press("g")
    top.shows("run began", "below; end follows")
    record(home, "long", said("the newest."))
    top.press("\x1b[B")
    top.shows("line 013.")
    assert "the newest." not in "\n".join(top.terminal.lines)
    top.press("G")
    top.shows("the newest.")
    record(home, "long", said("followed."))
    top.shows("followed.")


def test_a_filter_hides_the_rest_and_escape_shows_all(home, started):
    record(home, "alpha", Began(what="run", task="paint the door"))
    record(home, "beta", Began(what="run", task="oil the hinge"))
    top = started(home.path)
    top.shows("alpha", "beta")
    top.press("/DOX\x7fOR")
    top.shows("/DOOR")
    top.press("\x15door")
    top.shows_no("beta")
    top.press("\r")
    top.shows("filter: door", "alpha")
    top.press("\x1b")
    top.shows("alpha", "beta")
    top.press("/nobody\r")
    top.shows("nothing has 'nobody' in it")
    top.press("\x1b")
    top.shows("beta")
    top.press("?")
    top.shows("any key goes back")
    top.press("x")
    top.shows("enter open")


def test_agents_are_listed_with_their_phases(home, started):
    record(
        home,
        "crew",
        Began(what="run"),
        Began(what="agent", agent="ann", task="dig"),
        Began(what="agent", agent="bob", task="fill"),
        Moved(agent="bob", from_="busy", to="stuck", phase="waiting", reason="no shovel"),
    )
    top = started(home.path)
    top.shows("crew")
    top.press("a")
    lines = top.shows("ann", "bob", "no shovel")
    assert "waiting" in lines[place(lines, "bob")]
    assert place(lines, "bob") < place(lines, "ann")
    top.press("a")
    top.shows("last text")


def test_it_follows_the_size_of_its_terminal(home, started):
    for n in range(30):
        record(home, f"run-with-a-long-name-{n:02}", Began(what="run", task="x" * 200))
    top = started(home.path)
    top.shows("run-with-a-long-name-29")
    for columns, rows in ((60, 10), (200, 40), (40, 5), (20, 3), (80, 24)):
        top.resize(columns, rows)
        top.shows("30 runs", "enter")
        top.terminal.over.clear()
        before = len(top.terminal.heard)
        top.press("\x0c")
        last = f"\x1b[{rows};1H".encode()
        top.until(lambda _, at=before, last=last: last in top.terminal.heard[at:], "drawn again")
        assert top.terminal.over == []
    top.shows("run-with-a-long-name-29", "q quit")
    top.press("G")
    lines = top.shows("run-with-a-long-name-00")
    assert "›" in lines[place(lines, "name-00")]
    top.press("q")
    assert top.ended() == 0


def test_what_a_line_says_cannot_reach_the_terminal(home, started):
    """The terminal of this test fails on any sequence that is not ours."""
    record(
        home,
        f"run{SLY}",
        Began(what="run", task=SLY),
        Noted(label="title", text=SLY),
        said(SLY, agent=f"agent{SLY}"),
        Asked(question_id=f"q{SLY}", text=SLY, agent=f"agent{SLY}"),
    )
    top = started(home.path, columns=200)
    top.shows("run\\x1b[2J", "waiting")
    top.press("a")
    top.shows("agent\\x1b")
    top.press("a")
    top.shows("waiting")
    top.press("\r")
    top.shows("asks: \\x1b[2J")
    top.press("q")
    assert top.ended() == 0
    assert left_as_found(top)


@pytest.mark.parametrize(
    ("end", "code"),
    [("\x03", 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129), ("q", 0)],
    ids=["Ctrl-C", "SIGTERM", "SIGHUP", "q"],
)
def test_however_it_ends_the_terminal_is_as_it_was(home, started, end, code):
    record(home, "r1", Began(what="run"))
    top = started(home.path)
    top.shows("r1")
    assert top.terminal.alternate
    assert not top.terminal.cursor
    assert termios.tcgetattr(top.terminal.slave) != top.terminal.modes
    if isinstance(end, str):
        top.press(end)
    else:
        top.process.send_signal(end)
    assert top.ended() == code
    assert left_as_found(top)
    assert b"Traceback" not in top.terminal.heard


def test_an_error_leaves_the_terminal_as_it_was_too(tmp_path, started):
    program = (
        "from tracklog.cli._screen import Screen\n"
        "with Screen().entered() as screen:\n"
        "    screen.draw(['here'])\n"
        "    raise RuntimeError('broken')\n"
    )
    top = started(tmp_path, program=[sys.executable, "-c", program])
    assert top.ended() == 1
    assert left_as_found(top)
    assert b"here" in top.terminal.heard
    after = top.terminal.heard.split(b"\x1b[?1049l")[1]
    assert b"RuntimeError: broken" in re.sub(rb"\x1b\[[0-9;]*m", b"", after)  # 3.13 paints it


def test_an_error_on_the_screen_is_printed_after_the_screen_is_left(home, started):
    record(home, "r1", Began(what="run"))
    top = started(home.path)
    top.shows("r1")
    for name in ("index.db", "index.db-wal", "index.db-shm", "index.db.lock"):
        (home.path / name).unlink(missing_ok=True)
    for name in ("index.db", "index.db.lock"):
        (home.path / name).mkdir()
    record(home, "r2", Began(what="run"))
    assert top.ended() == 2
    assert left_as_found(top)
    assert b"error: the index" in top.terminal.heard


def test_a_stop_gives_the_terminal_back_and_going_on_takes_it_again(home, started):
    record(home, "r1", Began(what="run"))
    top = started(home.path)
    top.shows("r1")
    before = len(top.terminal.heard)
    top.process.send_signal(signal.SIGTSTP)  # nobody waits for this group, so it goes on at once
    top.until(lambda _: top.terminal.heard[before:].count(b"\x1b[?1049h") == 1, "entered again")
    assert b"\x1b[?1049l" in top.terminal.heard[before:]
    top.shows("r1")
    top.press("q")
    assert top.ended() == 0
    assert left_as_found(top)


def test_who_wants_no_colours_gets_none(home, started):
    record(home, "r1", Began(what="run"))
    top = started(home.path, NO_COLOR="1")
    top.shows("r1", "›")
    assert not re.search(rb"\x1b\[[1-9][0-9;]*m", top.terminal.heard)


def test_nothing_is_sent_while_nothing_changes_but_the_clock(home, started):
    record(home, "r1", Began(what="run"), Ended(what="run"))
    top = started(home.path)
    top.shows("r1", "done")
    before = len(top.terminal.heard)
    end = time.monotonic() + 2.5
    while time.monotonic() < end:
        top.terminal.read()
    assert len(top.terminal.heard) - before < 1500


def test_a_pipe_gets_one_frame_and_json_its_state(home):
    empty = tracklog(home.path, "top")
    assert (empty.returncode, b"no runs yet" in empty.stdout) == (0, True)
    words = "w" * 150
    record(home, "r1", Began(what="run", task="t"), Called(tool="sh", call_id="c1"), said(words))
    record(home, "r2", Asked(question_id="q", text="May I?"))
    shown = tracklog(home.path, "top").stdout.decode()
    assert words in shown
    assert shown.splitlines()[0].startswith("2 runs  1 waiting  1 working")
    assert "\x1b" not in shown
    state = orjson.loads(tracklog(home.path, "top", "--json").stdout)
    assert [(row["run"], row["status"]) for row in state["runs"]] == [
        ("r2", "waiting"),
        ("r1", "working"),
    ]
    assert state["runs"][0]["question"] == "May I?"
    assert state["runs"][1]["calls_per_minute"] == pytest.approx(0.2)
    assert state["counts"] == {"waiting": 1, "failed": 0, "lost": 0, "working": 1, "done": 0}


def test_once_prints_one_frame_on_a_terminal(home, started):
    record(home, "r1", Began(what="run"))
    top = started(home.path, "--once")
    assert top.ended() == 0
    assert b"1 run" in top.terminal.heard
    assert b"\x1b[?1049h" not in top.terminal.heard


def test_a_watch_sees_what_a_fresh_one_sees(tmp_path):
    """Over every sample, however the records come in: what is kept from look to look is right."""
    now = "2026-05-05T09:10:00.000Z"
    with Home(tmp_path / "home", durability="os") as home:
        fleet = Fleet(home)
        for sample in samples.of("good"):
            home.intake.admit(samples.lines_of(sample), samples.dialect_of(sample))
            view = fleet.look(now)
        fresh = Fleet(home).look(now)
        assert view.counts == fresh.counts
        assert view.last == fresh.last == home.journal.last
        without = [[replace(row, words="") for row in each.runs] for each in (view, fresh)]
        assert without[0] == without[1]
        assert view.agents == fresh.agents


def test_rows_are_ordered_by_need_then_the_latest_first(tmp_path):
    now = "2026-05-05T09:10:00.000Z"
    with Home(tmp_path / "home", durability="os") as home:
        for sample in samples.of("good"):
            home.intake.admit(samples.lines_of(sample), samples.dialect_of(sample))
        view = Fleet(home).look(now)
    for rows in (view.runs, view.agents):
        order = [(STATUSES.index(row.status), -row.last_seq) for row in rows]
        assert order == sorted(order)
        assert len({place for place, _ in order}) > 2
    assert sum(astuple(view.counts)) == len(view.runs)


def test_an_agent_that_worked_in_a_run_that_is_lost_is_lost():
    agent = agents_fold.State(family="f", run="r", agent="a", phase="working")
    assert agent_row(agent, "lost", "2026-05-05T09:00:00.000Z").status == "lost"
    assert agent_row(agent, "waiting", "2026-05-05T09:00:00.000Z").status == "working"


TYPED = st.lists(
    st.sampled_from(["j", "ä", "日", "\x1b[A", "\x1b[5~", "\r", "\x7f", "/"]), max_size=8
)


@given(TYPED, st.data())
def test_keys_are_the_same_in_whatever_pieces_characters_come(typed, data):
    whole = "".join(typed).encode()
    cuts = sorted(data.draw(st.sets(st.integers(0, len(whole)), max_size=3)))
    inside = [n for n in cuts if b"\x1b" not in whole[max(0, n - 4) : n]]  # a lone escape is a key
    found, left = [], b""
    for begin, end in zip([0, *inside], [*inside, len(whole)], strict=True):
        keys, left = keys_of(left + whole[begin:end])
        found += keys
    assert left == b""
    assert found == keys_of(whole)[0]
    assert len(found) == len(typed)


def test_unknown_keys_are_no_keys():
    assert keys_of(b"\x1b[99;5Xq\x00\xff") == (["q"], b"\xff")
    assert keys_of(b"\x1b") == (["escape"], b"")


def test_returned_calls_do_not_count_as_calls(home):
    record(home, "r", Called(tool="t", call_id="c"), Returned(call_id="c", ok=True))
    (row,) = Fleet(home).look().runs
    assert row.calls_per_minute == pytest.approx(0.2)
