"""A run told as a story: what each record means, whatever its dialect."""

from dataclasses import fields
from typing import get_type_hints

import orjson
import pytest
from click.testing import CliRunner

from support import sampling as samples
from support.asking import ask
from tracklog.answers.story import MOST, StoryBlock, StoryFact
from tracklog.cli import tracklog
from tracklog.dialects.checking import understand
from tracklog.home import registry
from tracklog.home.home import Home
from tracklog.model.fact import BLOCK_KEYS, NATIVE_FACTS

GOOD = [path for path in samples.of("good") if samples.lines_of(path)]


@pytest.fixture
def home(tmp_path):
    with Home(tmp_path / "home") as home:
        yield home


def story(home: Home, run: str, **options) -> dict:
    return ask(home, "story", run=run, **options)


def admit(home: Home, dialect: str, *bodies: dict) -> None:
    home.intake.admit([orjson.dumps(body) for body in bodies], dialect)


def said(n: int, text: str, run: str = "r1") -> dict:
    origin = {"writer": "test", "fidelity": "observed"}
    body = {"id": f"{n:032x}", "run": run, "at": "2026-05-05T09:00:00Z", "fact": "Said"}
    block = {"type": "text", "fidelity": "agent_emitted", "text": text}
    return body | {"role": "assistant", "agent": "coder", "blocks": [block], "origin": origin}


@pytest.mark.parametrize("path", GOOD, ids=samples.name_of)
def test_every_record_of_every_dialect_is_in_the_story_with_its_meaning(path, home):
    home.intake.admit(samples.lines_of(path), samples.dialect_of(path))
    runs = {(record.family, record.run) for record in home.journal.records()}
    rows = {row["seq"]: row for run in runs for row in story(home, ":".join(run))["records"]}
    for record in home.journal.records():
        row = rows.pop(record.seq)
        dialect = registry.dialect(record.dialect)
        names = [type(fact).__name__ for fact in facts(dialect, record)]
        assert [fact["fact"] for fact in row["facts"]] == names
    assert rows == {}


def facts(dialect, record):
    return list(dialect.facts(understand(dialect, record.line)))


def test_pages_follow_each_other_and_together_are_the_run(home):
    admit(home, "tracklog", *(said(n, f"word {n}") for n in range(25)))
    whole = story(home, "r1")
    assert whole["next"] is None
    assert len(whole["records"]) == 25
    found, after = [], 0
    while after is not None:
        page = story(home, "r1", after=after, limit=10)
        found += page["records"]
        after = page["next"]
    assert found == whole["records"]


def test_the_last_records_before_a_number_are_found_wherever_they_stand(home):
    for n in range(30):
        other = [said(100 * n + k, "else", run="other") for k in range(1, n)]
        admit(home, "tracklog", said(100 * n, f"word {n}"), *other)
    whole = story(home, "r1")["records"]
    for before in range(1, home.journal.last + 3):
        page = story(home, "r1", limit=4, before=before)
        known = [record for record in whole if record["seq"] < before]
        assert page["records"] == known[-4:]
        after = page["next"] if known else 0
        assert after is None or story(home, "r1", after=after)["records"] == whole[len(known) :]


def test_a_long_text_is_cut_and_the_record_has_all_of_it(home):
    admit(home, "tracklog", said(1, "x" * (MOST + 1)))
    (record,) = story(home, "r1")["records"]
    text = record["facts"][0]["blocks"][0]["text"]
    assert text == "x" * (MOST - 1) + "…"
    assert record["cut"] is True
    (whole,) = story(home, "r1", whole=True)["records"]
    assert whole["facts"][0]["blocks"][0]["text"] == "x" * (MOST + 1)
    assert not whole["cut"]
    (kept,) = home.journal.records()
    assert b"x" * (MOST + 1) in kept.line


def test_a_record_of_which_nothing_was_cut_does_not_say_so(home):
    many = said(1, "short")
    many["extra"] = {"padding": ["y" * 100] * MOST}
    admit(home, "tracklog", many)
    (record,) = story(home, "r1")["records"]
    assert record["bytes"] > MOST
    assert not record["cut"]


def returned(n: int, output: object) -> dict:
    origin = {"writer": "test", "fidelity": "observed"}
    body = {"id": f"{n:032x}", "run": "r1", "at": "2026-05-05T09:00:00Z", "fact": "Returned"}
    return body | {"tool": "Bash", "call_id": "c1", "ok": True, "output": output, "origin": origin}


def shown(home, *arguments):
    done = CliRunner().invoke(tracklog, ["story", "r1", "--home", str(home.path), *arguments])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_all_shows_long_texts_to_their_end_and_less_says_that_it_is_less(home):
    admit(home, "tracklog", said(1, "word " * 2000 + "the end of the text"))
    admit(home, "tracklog", returned(2, "line\n" * 2000 + "the end of the output"))
    whole, less = shown(home, "--all"), shown(home)
    assert "the end of the text" in whole
    assert "the end of the output" in whole
    assert "the end" not in less
    assert less.count("more lines; --all shows them") == 2


def test_an_error_is_no_detail(home):
    note = {"id": f"{1:032x}", "run": "r1", "at": "2026-05-05T09:00:00Z", "fact": "Noted"}
    note |= {"origin": {"writer": "test", "fidelity": "observed"}}
    admit(home, "tracklog", note | {"label": "error", "text": "API Error: 529 overloaded"})
    admit(home, "tracklog", note | {"id": f"{2:032x}", "label": "plan", "text": "first this"})
    assert "error: API Error: 529 overloaded" in shown(home)
    assert "first this" not in shown(home)


def test_of_what_was_lifted_out_the_beginning_the_size_and_the_way_to_the_rest_are_shown(home):
    name = home.blobs.put(b"a long text")
    about = {"sha256": name, "bytes": 1234567, "media_type": "text/plain", "preview": "a lo"}
    lifted = said(1, "") | {"role": "user"}
    lifted["blocks"] = [
        {"type": "text", "fidelity": "agent_emitted", "text": {"$blob": about}},
        {"type": "stream", "fidelity": "agent_emitted", "chunk": {"$blob": about}},
    ]
    admit(home, "tracklog", lifted, returned(2, {"$blob": about}))
    assert shown(home).count("a lo… (1,234,567 bytes of text/plain)") == 3
    assert shown(home, "--all").count(f"tracklog blob {name}") == 3


def test_the_time_of_a_record_is_that_of_its_emitter_however_late_it_was_received(home):
    admit(home, "tracklog", returned(1, "x"))
    done = CliRunner().invoke(tracklog, ["events", "r1", "--home", str(home.path)])
    assert "2026-05-05 09:00:00" in done.stdout
    done = CliRunner().invoke(tracklog, ["search", "x", "--home", str(home.path)])
    assert "2026-05-05 09:00:00" in done.stdout


def retold(n: int, text: str, record: str, mapping: int = 1) -> dict:
    origin = {"writer": "test", "fidelity": "reconstructed", "record": record, "mapping": mapping}
    return said(n, text) | {"origin": origin}


def test_withdrawn_and_repeated_records_are_marked(home):
    back = {"fact": "Noted", "label": "withdrawn", "data": {"from": "two"}}
    took = {key: value for key, value in retold(4, "", "four").items() if key in ("run", "at")}
    took |= {"id": f"{4:032x}", "origin": retold(4, "", "four")["origin"]} | back
    admit(home, "tracklog", retold(1, "old words", "one"), retold(2, "wrong", "two"))
    admit(home, "tracklog", retold(3, "worse", "three"), took, retold(5, "right", "five"))
    admit(home, "tracklog", retold(6, "new words", "one", mapping=2))
    home.index.catch_up()
    marks = ("withdrawn", "superseded")
    told_so = [
        (record["words"], *(mark for mark in marks if record[mark]))
        for page in (story(home, "r1", limit=3), story(home, "r1", after=3))
        for record in page["records"]
    ]
    assert told_so == [
        ("old words", "superseded"), ("wrong", "withdrawn"), ("worse", "withdrawn"),
        ("withdrawn",), ("right",), ("new words",),
    ]  # fmt: skip
    assert orjson.loads(shown(home, "--json"))["records"] == story(home, "r1")["records"]
    text = shown(home)
    assert "withdrawn\n      2  09:00:00  ↶ wrong\n      3  09:00:00  ↶ worse\n" in text
    assert "\n      5  09:00:00  right\n      6  09:00:00  new words\n" in text
    assert "old words" not in text
    assert "replaced later\n      1  09:00:00  ↶ old words\n" in shown(home, "--all")


def test_each_record_begins_with_its_number_and_time_and_a_new_day_with_its_date(home):
    call = returned(3, "x") | {"at": "2026-05-06T10:11:12Z"}
    admit(home, "tracklog", said(1, "one\ntwo"), said(2, "three"), call)
    lines = shown(home).splitlines()
    assert lines[1:] == [
        "coder  2026-05-05 09:00:00",
        "      1  09:00:00  one",
        "                   two",
        "      2  09:00:00  three",
        "                   2026-05-06",
        "      3  10:11:12  ← Bash returned: x",
    ]
    asked = CliRunner().invoke(tracklog, ["why", "r1", "3", "--home", str(home.path)])
    assert asked.exit_code == 0, asked.output


def test_an_erased_record_is_shown_as_erased(home):
    admit(home, "tracklog", said(1, "secret"))
    home.store.erase(1, reason="leaked", by="me", at="2026-05-05T09:00:00.000Z")
    (record,) = story(home, "r1")["records"]
    assert record["kind"] == "erased"
    assert record["erased"] == {"at": "2026-05-05T09:00:00.000Z", "by": "me", "reason": "leaked"}
    assert record["facts"] == []
    assert "· erased" in shown(home)


def test_the_verb_shows_messages_with_their_role_and_calls(tmp_path):
    call = {"id": "c" * 32, "run": "r1", "fact": "Called", "tool": "Read", "call_id": "1"}
    call |= {"input": {"path": "a.py"}, "origin": {"writer": "test", "fidelity": "observed"}}
    with Home(tmp_path) as home:
        admit(home, "tracklog", said(1, "I look into it.\x1b[31m"), call)
    shown = CliRunner().invoke(tracklog, ["story", "r1", "--home", str(tmp_path)])
    assert shown.exit_code == 0
    assert "coder  2026-05-05 09:00:00" in shown.output
    assert "I look into it." in shown.output
    assert "\x1b" not in shown.output
    assert "→ Read(path=a.py)" in shown.output
    told = CliRunner().invoke(tracklog, ["story", "r1", "--home", str(tmp_path), "--json"])
    assert [row["kind"] for row in orjson.loads(told.output)["records"]] == ["Said", "Called"]


def test_a_fact_of_a_story_declares_every_field_of_every_fact():
    names = {each.name.rstrip("_") for kind in NATIVE_FACTS for each in fields(kind)}
    assert {*get_type_hints(StoryFact)} == names | {"fact", "words", "again", "torn"}
    assert {key for keys in BLOCK_KEYS.values() for key in keys} < {*get_type_hints(StoryBlock)}
