"""What an import yields, by the views of a home."""

import orjson
import pytest

from support.asking import ask
from tracklog.formats.importing import Importing
from tracklog.home.home import Home


def yields(path, tmp_path):
    """What the views of a home say after an import of one file, or of all below a folder."""
    with Home(tmp_path / "home", durability="os") as home:
        importing = Importing(home)
        summary = importing.bring(importing.below([path]) if path.is_dir() else [path])
        assert not summary.refused
        home.index.catch_up()
        rows, spends = ask(home, "runs"), ask(home, "costs", by="all")
        bodies = [orjson.loads(record.line) for record in home.journal.records()]
    spent = spends[0] if spends else {}
    said = [body for body in bodies if body["fact"] == "Said"]
    links = [body for body in bodies if body["fact"] == "Linked"]
    return {
        "runs": len(rows),
        "prompts": sum(b["role"] == "user" and not b.get("injected") for b in said),
        "injected": sum(b.get("injected", False) for b in said),
        "answers": sum(
            b["role"] == "assistant" and any("text" in each for each in b["blocks"]) for b in said
        ),
        "thoughts": sum(each["type"] == "thinking" for b in said for each in b["blocks"]),
        "calls": sum(row["tool_calls"] for row in rows),
        "failed": sum(row["tool_failures"] for row in rows),
        "open": sum(row["open_calls"] for row in rows),
        "torn": sum(row["torn_calls"] for row in rows),
        "input": spent.get("input_tokens"),
        "cached": spent.get("cached_tokens"),
        "written": spent.get("cache_write_tokens"),
        "output": spent.get("output_tokens"),
        "reasoning": spent.get("reasoning_tokens"),
        "spends": spent.get("spends", 0),
        "lower": spent.get("lower_bound"),
        "cost": spent.get("cost_usd") and pytest.approx(spent["cost_usd"], abs=1e-6),
        "models": {body["model"] for body in bodies if "model" in body},
        "titles": {row["title"] for row in rows},
        "project": next((row["project"] for row in rows if row["project"]), None),
        "branch": next((row["branch"] for row in rows if row["branch"]), None),
        "children": sum(b["kind"] == "sub-run" and "child" in b for b in links),
        "parents": sum(b["kind"] == "sub-run" and "parent" in b for b in links),
        "forks": sum(b["kind"] == "fork" for b in links),
        "errors": sum(b["fact"] == "Noted" and b["label"] == "error" for b in bodies),
        "findings": sum(b["fact"] == "Noted" and b["label"] == "finding" for b in bodies),
        "withdrawn": sum(b["fact"] == "Noted" and b["label"] == "withdrawn" for b in bodies),
        "compactions": sum(b["fact"] == "Noted" and b["label"] == "compaction" for b in bodies),
        "outcomes": {b["outcome"] for b in bodies if b["fact"] == "Ended" and "outcome" in b},
        "first": min((row["first_at"] for row in rows if row["first_at"]), default=None),
        "last": max((row["last_at"] for row in rows if row["last_at"]), default=None),
    }
