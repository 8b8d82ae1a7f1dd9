"""Nothing that is printed can drive a terminal, whatever names, titles, messages and lines hold."""

import json
import re

import pytest

from support.forking import on_terminal, tracklog
from tracklog.dialects import tracklog as native
from tracklog.model.fact import (
    Asked,
    Began,
    Called,
    Decided,
    Ended,
    Fact,
    Noted,
    Returned,
    Said,
    Spent,
)

COLOUR, TAB = "\x1b[31mred", "\tgap"
"""What we write ourselves, and nobody else may: a colour, and a step to a column."""
EVIL = (
    COLOUR
    + TAB
    + "a\x1b[2J\x1b]0;title\x07\x1bP q\x1b\\\x9b31m\x85\x7f\r\x08\u202eb\u2066c\u200fd\u2028e"
)
CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]"
)
LOOK = re.compile("\x1b\\[(?:0|1|2|3[0-7]|9[0-7])m")
"""What `click.style` writes."""

VERBS = [
    ["runs"], ["runs", "--json"], ["show", EVIL], ["show", EVIL, "--json"], ["story", EVIL],
    ["story", EVIL, "--all"], ["events", EVIL], ["events", EVIL, "--json"],
    ["events", EVIL, "--raw"], ["tree"], ["agents"], ["tools"], ["costs"], ["inbox"],
    ["findings"], ["search", "said"], ["search", EVIL], ["why", EVIL, "2"], ["loops"], ["audits"],
    ["outcomes"], ["verify"], ["doctor"], ["secrets"], ["leaderboard"], ["top", "--once"],
    ["query", "select * from runs"], ["query", "select * from states"],
    ["query", f"select '{EVIL.replace(chr(39), '')}'"],
    ["export", "jsonl", EVIL], ["export", "markdown", EVIL], ["convert", "tracklog", EVIL],
    ["show", "no such run" + EVIL], ["export", EVIL, EVIL], [EVIL], [f"--{EVIL}"],
    ["diff", EVIL, "other"], ["answer", EVIL, EVIL], ["blob", EVIL], ["schema", EVIL],
    ["import", "--from", EVIL, "."], ["record", "--dialect", EVIL, "-"], ["serve", "--host", EVIL],
    ["runs", "--home", "/nowhere/" + EVIL], ["erase", EVIL, "1", "--reason", EVIL, "--yes"],
]  # fmt: skip  # a table
FILES = [
    ["check"], ["check", "--json"], ["record"], ["import"], ["repair", "--dry-run"],
    ["follow", "--once"], ["verify"], ["convert", "tracklog"],
]  # fmt: skip  # a table


def event(fact: Fact, run: str, n: int) -> bytes:
    at, origin = "2026-05-05T09:00:00.000Z", {"writer": "test", "fidelity": "observed"}
    return native.line(fact, id=f"{n}", run=run, at=at, origin=origin)


def name(words: list[str]) -> str:
    return " ".join(words).replace(EVIL, "EVIL").encode("unicode_escape").decode()


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    made = tmp_path_factory.mktemp("home")
    facts = [
        Began(what="run", task=EVIL, model=EVIL, agent=EVIL, cwd=EVIL, git={"branch": EVIL}),
        Said(role="user", blocks=({"type": "text", "text": f"said {EVIL}"},)),
        Said(role="assistant", blocks=({"type": "text", "text": f"said {EVIL}"},), agent=EVIL),
        Called(tool=EVIL, call_id=EVIL, input={EVIL: EVIL}, agent=EVIL),
        Returned(call_id=EVIL, tool=EVIL, ok=False, error=EVIL, agent=EVIL),
        Spent(model=EVIL, key="k", usage={"input_tokens": 5}),
        Decided(verdict=EVIL, by=EVIL, name=EVIL, reason=EVIL, scores={EVIL: 1.0}, agent=EVIL),
        Asked(question_id=EVIL, text=EVIL, options=(EVIL,), agent=EVIL),
        Noted(label=EVIL, data={EVIL: f"sk-ant-api03-{'x' * 95}"}),
    ]
    lines = [event(fact, EVIL, n) for n, fact in enumerate(facts)]
    lines.append(event(Ended(what="run", outcome=EVIL, winner=EVIL), "other", 99))
    done = tracklog(made, "record", "-", given=b"\n".join(lines))
    assert done.returncode == 0, done.stderr
    return made


def check(seen: str, *, colours: bool) -> None:
    assert seen
    text = seen.replace("\r\n", "\n") if colours else seen
    found = CONTROL.search(LOOK.sub("", text) if colours else text)
    assert found is None, repr(text[max(0, found.start() - 60) : found.end() + 20])
    assert COLOUR not in text
    assert TAB not in text
    assert not re.search("(?<!31m)red\\\\", text), "spelled out, and not dropped"


@pytest.mark.parametrize("words", VERBS, ids=name)
@pytest.mark.promise("Control characters of a record are printed as escapes")
def test_no_verb_prints_what_drives_a_terminal(home, tmp_path, words):
    env = {"HOME": str(tmp_path)}
    if words[0] == "erase":  # on a record of its own
        tracklog(home := tmp_path / "home", "record", "-", given=event(Began(what="run"), EVIL, 1))
    if "--raw" not in words and "--json" not in words and words[0] not in ("export", "convert"):
        done = tracklog(home, *words, given=b"{}\n")
        check((done.stdout + done.stderr).decode(errors="surrogateescape") or "-", colours=False)
    for no_colour in ("", "1"):
        env["NO_COLOR"] = no_colour
        check(on_terminal(100, home, *words, given=b"{}\n", **env) or "-", colours=True)


@pytest.mark.parametrize("words", FILES, ids=name)
@pytest.mark.promise("Control characters of a record are printed as escapes")
def test_no_file_name_drives_a_terminal(tmp_path, words):
    folder = tmp_path / f"in-{EVIL.replace('/', '')}"
    folder.mkdir()
    place = folder / f"{EVIL}.jsonl"
    line = event(Began(what="run", task=EVIL), EVIL, 1)
    place.write_bytes(line + b'\n{"no":"event"}\n{"torn')
    done = tracklog(tmp_path / "home", *words, place)
    if "--json" not in words and words[0] != "convert":
        check((done.stdout + done.stderr).decode(errors="surrogateescape"), colours=False)
    for no_colour in ("", "1"):
        for there in (str(place), f"{place}-is-not-there"):
            home = tmp_path / f"home{no_colour}-{there[-4:]}"
            check(on_terminal(100, home, *words, there, NO_COLOR=no_colour), colours=True)


@pytest.mark.promise("Where the output of `--json`, `--raw` or an export goes to a pipe")
def test_a_pipe_gets_the_bytes_of_a_line_as_they_are(home):
    path = home / "journal" / f"{1:020d}.jsonl"
    frames = path.read_bytes().splitlines()
    stored = [frame.partition(b',"event":')[2][:-1] for frame in frames if b'"other"' not in frame]
    assert b"\xc2\x9b" in stored[0]
    for words in (["events", EVIL, "--raw"], ["export", "jsonl", EVIL]):
        assert tracklog(home, *words).stdout.split(b"\n")[:-1] == stored


@pytest.mark.promise("Where the output of `--json`, `--raw` or an export goes to a pipe")
def test_json_on_a_terminal_means_the_same(home):
    piped = tracklog(home, "runs", "--json").stdout.decode()
    shown = on_terminal(100, home, "runs", "--json").replace("\r\n", "\n")
    parsed = [[json.loads(line) for line in text.split("\n") if line] for text in (piped, shown)]
    assert [row["run"] for row in parsed[0]] == [row["run"] for row in parsed[1]]
    assert EVIL in {row["run"] for row in parsed[1]}
    assert "\x9b" in piped, "a program gets the characters themselves"


def test_our_own_colours_stay(home):
    assert LOOK.search(on_terminal(100, home, "runs"))
