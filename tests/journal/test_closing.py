"""Databases are closed by their owner: Python 3.13 reports those that the collector has to close."""

import gc
import sqlite3
from functools import partial

import orjson
import pytest

from tracklog.home.home import Home


class Watched(sqlite3.Connection):
    """A connection that remembers whether it was closed."""

    every: list["Watched"] = []  # noqa: RUF012  # of all of them

    def __init__(self, *arguments, **options) -> None:
        super().__init__(*arguments, **options)
        self.shut = False
        self.every.append(self)

    def close(self) -> None:
        super().close()
        self.shut = True


@pytest.fixture
def connections(monkeypatch):
    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Watched))
    monkeypatch.setattr(Watched, "every", [])
    gc.disable()  # it is to find nothing, and to hide nothing
    yield Watched.every
    gc.enable()


def noted(run: str, first: int, last: int) -> list[bytes]:
    origin = {"writer": "w", "fidelity": "observed"}
    return [
        orjson.dumps(
            {"id": f"{run}-{n}", "run": run, "fact": "Noted", "label": "x", "origin": origin}
        )
        for n in range(first, last)
    ]


@pytest.mark.parametrize("kept", [10**6, 30])
def test_a_home_that_is_closed_has_closed_every_database(tmp_path, monkeypatch, connections, kept):
    """Those of the index, of its readers, of long runs, and of long runs that left the memory."""
    monkeypatch.setattr("tracklog.intake.identities.LONG", 20)
    monkeypatch.setattr("tracklog.intake.identities.MOST_KNOWN", kept)
    with Home(tmp_path / "home") as home:
        for n in range(0, 150, 30):
            for run in ("one", "two", "three"):
                told = home.intake.admit(noted(run, n, n + 30), "tracklog")
                assert {each.verdict for each in told} == {"accepted"}
        again = home.intake.admit(noted("one", 0, 150), "tracklog")
        assert {each.verdict for each in again} == {"duplicate"}
        home.index.catch_up()
        assert home.index.index.query("SELECT count(*) FROM states", limit=1).rows
        home.index.search("x")
    assert len(connections) > 3
    assert [each for each in connections if not each.shut] == []


def test_an_intake_that_is_used_after_it_was_closed_still_knows_what_was_recorded(
    tmp_path, monkeypatch, connections
):
    monkeypatch.setattr("tracklog.intake.identities.LONG", 20)
    with Home(tmp_path / "home") as home:
        home.intake.admit(noted("one", 0, 100), "tracklog")
        home.intake.close()
        assert all(each.shut for each in connections)
        again = home.intake.admit(noted("one", 0, 100), "tracklog")
        assert {each.verdict for each in again} == {"duplicate"}
    assert all(each.shut for each in connections)
