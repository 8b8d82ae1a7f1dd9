"""A home gives back what it opened."""

from pathlib import Path

from support.collecting import start
from tracklog.home.home import Home


def test_a_closed_home_has_no_open_file(tmp_path):
    def descriptors() -> int:
        return len(list(Path("/dev/fd").iterdir()))

    before = descriptors()
    with Home(tmp_path / "home") as home:
        home.intake.admit([start("a"), b"no line of a dialect"], "kahn-agent")
        home.index.catch_up()
        home.blobs.put(b"a value")
        during = descriptors()
        home.refused.journal.last  # noqa: B018  # opens the journal of refused lines
    assert during > before
    assert descriptors() == before
