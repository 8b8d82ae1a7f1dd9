"""A short form of `make fuzz`: what reads bytes from outside fails on nothing."""

import pytest

import fuzz


@pytest.mark.parametrize("target", fuzz.TARGETS)
def test_no_input_from_outside_makes_a_reader_fail(target, tmp_path):
    found = fuzz.fuzz(target, inputs=150, seed=2, folder=tmp_path)
    assert (found["inputs"], found["failures"]) == (150, 0)
    assert found["lines"] > 20
    stored = {path.suffix for path in (tmp_path / target).iterdir()}
    assert stored <= {".input"}


def test_a_failure_is_stored_and_counted(tmp_path, monkeypatch, capsys):
    def failing(_stack):
        def run(data):
            assert b"A" not in data

        return run

    monkeypatch.setitem(fuzz.TARGETS, "notes", failing)
    assert fuzz.main(["notes", "--inputs", "30", "--corpus", str(tmp_path)]) == 1
    assert "| notes | 30 |" in capsys.readouterr().out
    assert list((tmp_path / "notes").glob("*.failure"))
