"""The suites for plug-ins find what is wrong with a plug-in, and name it."""

import subprocess
import sys

import pytest

HEAD = """
from tracklog.journal.stores.memory import MemoryStore
from tracklog.testing import StoreSuite
"""
BROKEN = {
    "test_frames_come_out_as_they_went_in": """
class Trims(MemoryStore):
    def read(self, after, limit, run=None, **more):
        frames = super().read(after, limit, run, **more)
        return [b" ".join(each.split()) for each in frames]

class TestTrims(StoreSuite):
    keeps = False

    def open(self, where):
        return Trims()
""",
    "test_one_run_can_be_read_alone": """
class Mixes(MemoryStore):
    def read(self, after, limit, run=None, **more):
        return super().read(after, limit, None, **more)

class TestMixes(StoreSuite):
    keeps = False

    def open(self, where):
        return Mixes()
""",
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_store_with_a_fault_fails_the_test_of_that_fault(name, tmp_path):
    path = tmp_path / "test_broken.py"
    path.write_text(HEAD + BROKEN[name])
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-n0",
        "-p",
        "no:cacheprovider",
        "-k",
        name,
        path,
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    assert name in done.stdout
