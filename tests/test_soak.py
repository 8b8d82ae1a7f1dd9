"""A short form of `make soak`: the parts count what they should, and go on where they stopped."""

import os
import signal
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

from soak import __main__ as soak
from soak import kills, memory
from support.forking import in_a_process
from support.waiting import eventually


def killed(program: str, aimed: bool, folder: str) -> None:
    counts = kills.turn(getattr(kills, program), 1, 2, aimed=aimed)
    assert counts["kills"] == 2
    assert counts["acknowledged"] > 0
    assert (counts["lost"], counts["doubled"], counts["faults"]) == (0, 0, 0)
    Path(folder).write_text("done")


@pytest.mark.parametrize("program", ["Writer", "Server"])
def test_a_killed_program_loses_and_doubles_nothing(program, tmp_path):
    """In a process of its own: it forks, and other tests have threads."""
    assert in_a_process(killed, program, False, str(tmp_path / "done")) == 0
    assert (tmp_path / "done").read_text() == "done"


def test_what_is_missing_or_there_twice_is_counted(tmp_path):
    """The judge can tell: it counts a loss and a double."""
    batches = kills.Batches("seed", large=False)
    intake = kills.Intake(
        kills.Journal(kills.FileStore(tmp_path / "home")), [kills.dialect("kahn-agent")]
    )
    first, second = batches.lines(0), batches.lines(1)
    intake.admit(first, "kahn-agent")
    intake.admit(first[:1], "kahn-agent")
    intake.journal.close()
    batches.acknowledged |= {0, 1}
    found = kills.judged(tmp_path / "home", batches)
    assert found == {"lost": len(second), "doubled": 1, "faults": 0}


def test_it_goes_on_where_it_stopped_and_says_what_is_bad(tmp_path, monkeypatch, capsys):
    seen = []

    def turn(number):
        seen.append(number)
        return Counter(kills=4, lost=number == 2, slope=number)

    monkeypatch.setattr(soak, "import_module", lambda _: SimpleNamespace(turn=turn))
    part = soak.Part("m", "turn", "kills", 8, ("lost",), ("slope",))
    monkeypatch.setattr(soak, "PARTS", {"kills": part})
    words = ["--state", str(tmp_path / "state")]
    assert soak.main([*words, "--minutes", "0"]) == 0
    assert "not run" in capsys.readouterr().out
    assert soak.main(words) == 0
    assert seen == [0, 1]
    said = capsys.readouterr().out
    assert "8 kills" in said
    assert "1 slope" in said
    assert soak.main(words) == 0
    assert seen == [0, 1], "its goal is reached"
    monkeypatch.setattr(soak, "PARTS", {"kills": part._replace(goal=12)})
    assert soak.main(words) == 1
    assert "kills: 1 lost" in capsys.readouterr().err


def test_a_slope_is_that_of_a_straight_line():
    assert memory._slope([(0, 10), (10, 30), (20, 50)]) == 2
    assert memory._slope([(0, 7), (10, 7)]) == 0


def left_alone(number: str) -> None:
    kills.forked(_tell_and_wait, number)
    while not Path(number).exists():
        time.sleep(0.01)
    os._exit(0)


def _tell_and_wait(number: str) -> None:
    Path(f"{number}.part").write_text(str(os.getpid()))
    Path(f"{number}.part").replace(number)
    signal.pause()


def test_what_it_started_ends_with_it(tmp_path):
    number = tmp_path / "number"
    assert in_a_process(left_alone, str(number)) == 0
    child = Path(f"/proc/{number.read_text()}")
    assert eventually(
        lambda: not child.exists() or "(zombie)" in (child / "status").read_text(), 60
    )
