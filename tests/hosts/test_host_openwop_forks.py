"""Forks have the options of their source; replays come out as it did, and end by the limits of time."""

import pytest

from support.hosting import Host, flow, put

NOOP = {"id": "a", "typeId": "core.noop"}


def forked(host: Host, prefix: str, run: str, **body) -> str:
    fork = host.http.post(f"{prefix}/runs/{run}:fork", json=body)
    assert fork.status_code == 201, fork.text
    return fork.json()["runId"].rpartition("/")[2]


# The options of a fork.


@pytest.mark.parametrize("prefix", ["/v1", ""])
def test_a_fork_has_the_options_of_its_source_that_its_workflow_requires(tmp_path, prefix):
    schema = {
        "type": "object",
        "properties": {"tone": {"enum": ["calm", "loud"]}, "model": {"type": "string"}},
        "required": ["tone", "model"],
    }
    flows = put(tmp_path / "flows", flow("toned", [NOOP], configurableSchema=schema))
    options = {"tone": "calm", "model": "x"}
    with Host(tmp_path / "home", workflows=flows) as host:
        run = host.start("toned", configurable=options)
        host.until(run, "completed")
        for mode in ("replay", "branch"):
            name = forked(host, prefix, run, fromSeq=0, mode=mode)
            assert host.until(name, "completed")["configurable"] == options
        changed = {"model": "y"} if prefix else {"version": 1, "ai": {"model": "y"}}
        overlay = {"configurable": changed}
        name = forked(host, prefix, run, fromSeq=0, mode="branch", runOptionsOverlay=overlay)
        assert host.until(name, "completed")["configurable"] == {"tone": "calm", "model": "y"}
        if prefix:
            for wrong in ({"tone": "shrill"}, {"pitch": 1}):
                overlay = {"configurable": wrong}
                body = {"fromSeq": 0, "mode": "branch", "runOptionsOverlay": overlay}
                refused = host.fork(run, **body)
                assert refused.status_code == 400
                field = f"runOptionsOverlay.configurable.{next(iter(wrong))}"
                assert refused.json()["details"]["field"] == field
