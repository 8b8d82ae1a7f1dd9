"""A journal on any storage can be copied to a folder: the same bytes, numbers and chain."""

import pytest

from tracklog.home.home import Home
from tracklog.journal.copying import copy_to_folder
from tracklog.model.errors import BadBackup


def lines(run, count):
    line = '{"id":"%s-%d","run":"%s","fact":"Noted","label":"l","origin":{"writer":"w","fidelity":"observed"}}'
    return [(line % (run, n, run)).encode() for n in range(count)]


def frames(store):
    return store.read(0, 10_000)


def segments(home):
    """The bytes of all segments; a copy may begin a new one at another record."""
    return b"".join(path.read_bytes() for path in sorted((home / "journal").glob("*.jsonl")))


@pytest.mark.parametrize("scheme", ["memory:", "file:"])
def test_a_copy_has_the_same_frames_head_refusals_and_blobs(tmp_path, scheme):
    place = scheme if scheme == "memory:" else f"file:{tmp_path / 'home'}"
    with Home(place, durability="os") as home:
        for run in ("r1", "r2", "r3"):
            home.intake.admit(lines(run, 5), "tracklog")
        home.intake.admit([b"{}"], "tracklog")
        home.erase("tracklog:r2", 7, reason="a secret", by="me")
        home.blobs.put(b"a large value")
        storage = home.storage
        head, records = storage.store.head(), frames(storage.store)
        refused, blobs = frames(storage.refused), list(storage.blobs.list())
        assert copy_to_folder(storage, tmp_path / "copy") == head
        with pytest.raises(BadBackup):
            copy_to_folder(storage, tmp_path / "copy")
    if scheme == "file:":
        assert segments(tmp_path / "copy") == segments(tmp_path / "home")
    with Home(tmp_path / "copy", durability="os") as copy:
        assert frames(copy.store) == records
        assert copy.store.head() == head
        assert frames(copy.storage.refused) == refused
        assert list(copy.blobs.list()) == blobs
        assert copy.storage.verify(head).verdict == "proven"
        [verdict] = copy.intake.admit(lines("r4", 1), "tracklog")
        assert verdict.seq == head.through + 1
