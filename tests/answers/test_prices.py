"""Prices: what is computed where no cost was reported, and what is said about that."""

from pathlib import Path

import orjson
import pytest

from support.asking import ask
from support.forking import tracklog
from tracklog.answers import prices
from tracklog.formats.importing import Importing
from tracklog.home.home import Home
from tracklog.model.errors import TracklogError

M = 10**6


def test_every_listed_price_is_a_number_from_a_day_on():
    known = prices.load()
    assert known.as_of
    for model, rows in known._models.items():
        assert model == model.lower()
        assert [row.day for row in rows] == sorted(row.day for row in rows)
        for row in rows:
            assert len(row.day) == 10
            assert 0 < row.input < row.output
            assert row.cache_read is None or row.cache_read < row.input


def test_cached_written_and_fresh_tokens_are_priced_apart():
    amounts = {
        "input_tokens": 3 * M,
        "cached_tokens": M,
        "cache_write_tokens": M,
        "output_tokens": M,
    }
    cost = prices.load().cost("claude-sonnet-4-5-20250929", amounts, "2026-01-01")
    assert cost == (round((3 + 0.3 + 3.75 + 15) * 10**9), True)


def test_what_is_cached_for_an_hour_has_a_price_of_its_own():
    amounts = {"input_tokens": 2 * M, "cache_write_tokens": 2 * M, "output_tokens": 0}
    known = prices.load()
    shorter = known.cost("claude-sonnet-4-5", amounts, "2026-01-01")
    longer = known.cost("claude-sonnet-4-5", {**amounts, "cache_write_1h_tokens": M}, "2026-01-01")
    assert (shorter.amount, longer.amount) == (round(7.5 * 10**9), round((3.75 + 6) * 10**9))


def test_a_price_holds_from_its_day_on():
    known, amounts = prices.load(), {"input_tokens": M, "output_tokens": 0}
    assert known.cost("o3", amounts, "2025-04-01") is None
    assert known.cost("o3", amounts, "2025-05-01") == (10 * 10**9, True)
    assert known.cost("o3", amounts, "2025-07-01") == (2 * 10**9, True)


def test_more_input_may_have_another_price():
    known = prices.load()
    low = known.cost("gemini-2.5-pro", {"input_tokens": 200_000, "output_tokens": 0}, "2026-05-01")
    high = known.cost("gemini-2.5-pro", {"input_tokens": 400_000, "output_tokens": 0}, "2026-05-01")
    assert (low.amount, high.amount) == (250_000_000, 1_000_000_000)


def test_what_is_not_known_makes_a_lower_bound_and_no_model_has_no_price():
    known = prices.load()
    assert known.cost("gpt-5", {"output_tokens": M}, "2026-01-01") == (10 * 10**9, False)
    spent = {"input_tokens": M, "cached_tokens": M // 2, "output_tokens": 0}
    assert known.cost("gemini-3-flash-preview", spent, "2026-01-01").complete is False
    assert known.cost("nobody-1", {"output_tokens": M}, "2026-01-01") is None
    assert known.cost(None, {"output_tokens": M}, "2026-01-01") is None
    assert known.cost("gpt-5", {"total_tokens": M}, "2026-01-01") is None


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("claude-haiku-4.5", "claude-haiku-4-5"),
        ("anthropic/claude-opus-4-1-20250805", "claude-opus-4-1"),
        ("gpt-5-mini-2025-08-07", "gpt-5-mini"),
        ("openai.gpt-5?reasoning=high", "openai.gpt-5"),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "claude-sonnet-4-5"),
        ("bedrock/anthropic.claude-3-5-sonnet-20241022-v2:0", "claude-3-5-sonnet"),
        ("claude-sonnet-4-5@20250929", "claude-sonnet-4-5"),
        ("claude-3-5-sonnet-v2@20241022", "claude-3-5-sonnet"),
        ("claude-opus-4-6@default", "claude-opus-4-6"),
    ],
)
def test_dates_and_providers_in_a_models_name_do_not_matter(model, name):
    assert name in prices.names(model)


@pytest.mark.parametrize(
    "model", ["claude-opus-4-8-fast", "anthropic/claude-sonnet-4-6:free", "my.claude-opus-4-1"]
)
def test_another_service_of_a_known_model_has_no_price_of_the_list(model):
    assert prices.load().at(model, "2026-10-01") is None


def spend(key, **more):
    body = {"id": key, "run": "r1", "at": "2026-05-05T09:00:00Z", "fact": "Spent", "key": key}
    return orjson.dumps({**body, **more, "origin": {"writer": "t", "fidelity": "reported"}})


@pytest.fixture
def home(tmp_path):
    with Home(tmp_path / "home", durability="os") as opened:
        yield opened


def test_reported_and_computed_money_are_distinguished(home):
    usage = {"input_tokens": M, "output_tokens": M}
    home.intake.admit(
        [
            spend("a", model="gpt-5", usage=usage, cost_usd=7.5),
            spend("b", model="gpt-5", usage=usage),
        ]
    )
    home.index.catch_up()
    [row] = ask(home, "costs", by="all")
    assert (row["cost_usd"], row["computed_usd"], row["lower_bound"]) == (7.5, 11.25, False)


def test_a_model_without_a_price_makes_the_sum_a_lower_bound(home):
    usage = {"input_tokens": M, "output_tokens": 0}
    home.intake.admit(
        [spend("a", model="gpt-5", usage=usage), spend("b", model="mine", usage=usage)]
    )
    home.index.catch_up()
    [row] = ask(home, "costs", by="all")
    assert (row["computed_usd"], row["lower_bound"]) == (1.25, True)
    assert row["unpriced_models"] == ["mine"]
    assert b"no price is known for mine" in tracklog(home.path, "costs").stderr
    for verb in (["runs"], ["show", "r1"]):
        assert b"~$1.25" in tracklog(home.path, *verb).stdout


def test_the_sums_of_different_writers_are_never_added(home):
    def told(key, writer, output):
        body = orjson.loads(spend(key, usage={"input_tokens": 10, "output_tokens": output}))
        return orjson.dumps({**body, "origin": {"writer": writer, "fidelity": "reported"}})

    log = [told("m1", "log", 5), told("m2", "log", 6)]
    home.intake.admit([*log, told("t1", "telemetry", 4), told("t2", "telemetry", 4)])
    home.index.catch_up()
    [row] = ask(home, "costs", by="all")
    assert (row["output_tokens"], row["input_tokens"], row["spends"]) == (11, 20, 2)
    [run] = ask(home, "runs", now="2026-05-05T10:00:00.000Z")
    assert run["tokens"] == 31


def test_a_home_may_have_prices_of_its_own(home):
    own = {"models": {"mine": [{"from": "2026-01-01", "input": 1, "output": 2}]}}
    (home.path / "prices.json").write_bytes(orjson.dumps(own))
    known = prices.load(home.path)
    assert (
        known.cost("mine", {"input_tokens": M, "output_tokens": M}, "2026-05-05").amount
        == 3 * 10**9
    )
    assert known.cost("gpt-5", {"input_tokens": M, "output_tokens": 0}, "2026-05-05") is not None
    (home.path / "prices.json").write_bytes(b'{"models": {"mine": 3}}')
    with pytest.raises(TracklogError, match="no list of prices") as raised:
        prices.load(home.path)
    assert "dollars per million tokens" in raised.value.hint


def test_the_command_line_marks_what_was_computed(home):
    usage = {"input_tokens": M, "output_tokens": M}
    home.intake.admit([spend("a", model="gpt-5", usage=usage)])
    done = tracklog(home.path, "costs")
    assert b"~$11.25" in done.stdout
    assert f"list prices of {prices.load().as_of}" in done.stderr.decode()
    assert b"prices.json" not in done.stderr
    own = {
        "as_of": "2020-01-01",
        "models": {"gpt-5": [{"from": "2026-01-01", "input": 1, "output": 2}]},
    }
    (home.path / "prices.json").write_bytes(orjson.dumps(own))
    mine = tracklog(home.path, "costs")
    assert b"~$3.00" in mine.stdout
    assert f"by the prices in {home.path}/prices.json, else by the list" in mine.stderr.decode()
    assert f"list prices of {prices.load().as_of}" in mine.stderr.decode()
    (home.path / "prices.json").unlink()
    done = tracklog(home.path, "costs", "--json")
    row = orjson.loads(done.stdout)
    assert (row["cost_usd"], row["computed_usd"]) == (None, 11.25)
    assert done.stderr == b""


SAMPLES = Path(__file__).parents[1] / "samples" / "importers"
BY_HAND = {
    "claude/real_full_session.jsonl": (1_223 * 3 + 21_565 * 3.75 + 185_540 * 0.3 + 833 * 15, 10),
    "codex/rollout-2025-09-25T15-12-14-019982b8-3422-79e0-8b3b-05abaf4f3c3e.jsonl": (
        (536_834 - 472_320) * 1.25 + 472_320 * 0.125 + 6_654 * 10, 35,
    ),
    "gemini/session-2025-10-29T10-36-453aa339.json": (
        (21_694 - 4_029) * 1.25 + 4_029 * 0.31 + 563 * 10, 4,
    ),
}  # fmt: skip
"""What a conversation cost, from its tokens and the list of its day, and how many calls it took."""


@pytest.mark.parametrize("file", BY_HAND)
def test_an_imported_conversation_costs_what_it_does_by_hand(file, home):
    Importing(home).bring([SAMPLES / file])
    home.index.catch_up()
    [row] = ask(home, "costs", by="all")
    cost, calls = BY_HAND[file]
    assert row["computed_usd"] == pytest.approx(cost / M)
    assert row["calls"] == calls
    assert row["lower_bound"] == file.startswith("claude")
