"""Series: a metric over time, in buckets, in any time zone."""

import tempfile
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise, permutations
from zoneinfo import ZoneInfo

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.asking import ask
from support.collecting import collector
from support.forking import tracklog
from support.journals import journals, made
from tracklog.answers import prices
from tracklog.answers._series_query import METRICS, OF_TURNS
from tracklog.answers.buckets import BUCKETS, cut, minute_of, time_of
from tracklog.answers.buckets import zone as zone_of
from tracklog.answers.costs import costs
from tracklog.answers.duplicates import same_conversation
from tracklog.answers.spends import price_by
from tracklog.dialects import tracklog as native
from tracklog.folds import costs as costs_fold
from tracklog.folds import series as series_fold
from tracklog.home.home import Home
from tracklog.journal.frame import stamp
from tracklog.model.errors import BadQuery, UnknownName
from tracklog.model.fact import (
    Answered,
    Asked,
    Began,
    Called,
    Decided,
    Ended,
    Returned,
    Said,
    Spent,
)

ZONES = ("UTC", "Europe/Zurich", "America/St_Johns", "Asia/Kathmandu", "Pacific/Apia")
NOW = "2026-05-05T12:00:00.000Z"


def line(n, fact, run="r", at="2026-05-05T10:00:00Z"):
    origin = {"writer": "importer", "fidelity": "reconstructed"}
    return native.line(fact, id=f"{n:032x}", run=run, at=at, origin=origin)


def recorded(path, facts):
    """A home with these facts, each of a run and a time."""
    home = Home(path, durability="os")
    facts = [
        (run, at, replace(fact, key=f"k{n}") if isinstance(fact, Spent) else fact)
        for n, (run, at, fact) in enumerate(facts)
    ]
    lines = [line(n, fact, run, f"2026-05-{at}Z") for n, (run, at, fact) in enumerate(facts)]
    verdicts = home.intake.admit(lines, "tracklog")
    assert [each.problems for each in verdicts if each.problems] == []
    home.index.catch_up()
    return home


def says(role, **more):
    return Said(role=role, blocks=({"type": "text", "text": "x"},), **more)


def spent(**more):
    return Spent(
        model="claude-sonnet-4-5", usage={"input_tokens": 1000, "output_tokens": 100}, **more
    )


def of(home, metric, **given):
    return ask(home, "series", metric=[metric], **{"now": NOW, "tz": "UTC"} | given)


def keys(answer):
    return {each["key"]: each["sum"] for each in answer["keys"]}


@given(
    st.integers(978_307_200, 2_114_380_800),
    st.integers(1, 60 * 24 * 400),
    st.sampled_from(BUCKETS),
    st.sampled_from(ZONES),
)
def test_buckets_cover_a_range_without_gap_or_overlap(begin, minutes, bucket, name):
    since = datetime.fromtimestamp(begin, ZoneInfo(name))
    until = since + timedelta(minutes=minutes)
    try:
        buckets = cut(since, until, bucket)
    except BadQuery:
        assert bucket in ("1m", "5m", "15m", "1h")
        return
    spans = buckets.spans
    assert spans[0][0] == minute_of(since)
    assert spans[-1][1] == buckets.end >= minute_of(until)
    assert all(first < last for first, last in spans)
    assert all(one[1] == other[0] for one, other in pairwise(spans))
    for edge in buckets.edges:
        if bucket in ("1d", "1w", "1mo"):
            assert (edge.hour, edge.minute) == (0, 0) or edge.utcoffset() != edges_before(edge)
        assert bucket != "1w" or edge.weekday() == 0
        assert bucket != "1mo" or edge.day == 1
    if bucket == "auto":
        assert len(spans) <= 122


def edges_before(edge):
    """The offset an hour earlier: a midnight that a change of the clock skipped is moved."""
    return (edge.astimezone(UTC) - timedelta(hours=2)).astimezone(edge.tzinfo).utcoffset()


@settings(max_examples=15, deadline=None)
@given(journals(), st.sampled_from(("1d", "1w", "1mo")), st.sampled_from(ZONES))
def test_a_total_does_not_depend_on_buckets_or_zones(journal, bucket, name):
    with tempfile.TemporaryDirectory() as folder, made(folder, journal) as home:
        home.index.catch_up()
        now = max((each.received for each in home.journal.records()), default=NOW)
        asked = {"since": "2024-12-31", "until": "2027-01-01T12:00Z", "now": now}
        for metric in METRICS.keys() - set(OF_TURNS):
            one = ask(home, "series", metric=[metric], bucket="1d", tz="UTC", **asked)
            other = ask(home, "series", metric=[metric], bucket=bucket, tz=name, **asked)
            assert one["total"] == other["total"], metric


@settings(max_examples=10, deadline=None)
@given(journals(), st.integers(1, 7))
def test_the_size_of_batches_changes_no_total(journal, size):
    with tempfile.TemporaryDirectory() as folder, made(folder, journal) as home:
        home.index.catch_up()
        spans, kinds = [(0, 2**40)], {kind for kind, _ in METRICS.values()}
        once = {kind: home.index.totals(kind, spans, by="agent") for kind in kinds}
        again = home.index
        with again.index.turn(5):
            again._clear()
            again._folding.resume()
            while records := home.journal.read(again._folding.at, size):
                again._folding.apply(records)
        for kind, rows in once.items():
            assert sorted(again.totals(kind, spans, by="agent")) == sorted(rows), kind


def test_a_spend_that_was_counted_before_has_no_price_in_its_hour(tmp_path):
    """Else the hour of another one, which has no price, would be a lower bound of nothing."""
    used = {"input_tokens": 1, "output_tokens": 1}
    lines = (
        line(1, Spent(key="m", model="gpt-5", usage=used), at="2026-05-05T09:00:00Z", run="one"),
        line(2, Spent(key="m", model="gpt-5", usage=used), at="2026-05-05T10:00:00Z", run="two"),
        line(3, Spent(key="n", usage=used), at="2026-05-05T10:00:00Z", run="three"),
    )
    with Home(tmp_path) as home:
        home.intake.admit(lines, "tracklog")
        home.index.catch_up()
        [hour] = ask(home, "hours", count=1, now="2026-05-05T10:30:00Z")
    assert (hour["total_tokens"], hour["computed_usd"], hour["lower_bound"]) == (2, None, False)


@settings(max_examples=15, deadline=None)
@given(journals())
def test_an_hour_has_what_its_spends_come_to(journal):
    """From the sums of the index the same as from every spend, which takes as long as there are runs."""
    names = ("total_tokens", "cost_usd", "computed_usd", "lower_bound")
    with tempfile.TemporaryDirectory() as folder, made(folder, journal) as home:
        home.index.catch_up()
        slow = {int(row.of): row for row in costs(home, "hour")}
        for hour, row in slow.items():
            now = stamp(hour * 3600 + 1800)
            [quick] = ask(home, "hours", count=1, now=now)
            spent = {name: getattr(row, name) for name in names}
            assert {name: quick[name] for name in names} == pytest.approx(spent), now


WAYS = ("all", "agent", "model", "provider", "project")


@settings(max_examples=15, deadline=None)
@given(journals())
def test_costs_from_the_sums_of_the_index_are_those_of_every_spend(journal):
    """By any one or two names, and in every field, however many runs record a spend."""
    with tempfile.TemporaryDirectory() as folder, made(folder, journal) as home:
        home.index.catch_up()
        every = [state for _, state in home.index.states("costs")]
        projects = {key: state.cwd for key, state in home.index.states("runs")}
        left, price = same_conversation(home.index), price_by(prices.load(home.path))
        for names in [*([way] for way in WAYS), *map(list, permutations(WAYS[1:], 2))]:
            slow = costs_fold.answer(every, *names, price=price, duplicates=left, projects=projects)
            assert ask(home, "costs", by=names) == slow, names


def test_costs_of_a_run_with_several_models_agents_and_providers_count_it_once_each(tmp_path):
    facts = [
        ("r", "03T10:00:00", Spent(model="a", cost_usd=1.0, agent="x", provider="p")),
        ("r", "03T11:00:00", Spent(model="b", cost_usd=1.0, agent="x", provider="p")),
        ("r", "04T10:00:00", Spent(model="a", cost_usd=1.0, agent="y", provider="q")),
        ("s", "04T10:00:00", Spent(model="a", cost_usd=1.0, agent="x", provider="q")),
    ]
    with recorded(tmp_path, facts) as home:

        def runs(*by, **more):
            rows = ask(home, "costs", by=by, tz="UTC", **more)
            return {(row["begin"], row["of"], row["also_of"]): row["runs"] for row in rows}

        assert runs("all") == {(None, None, None): 2}
        assert runs("model") == {(None, "a", None): 2, (None, "b", None): 1}
        assert runs("agent", "provider") == {
            (None, "x", "p"): 1, (None, "x", "q"): 1, (None, "y", "q"): 1
        }  # fmt: skip  # one table
        assert runs("day") == {("2026-05-03", None, None): 1, ("2026-05-04", None, None): 1}
        assert runs("all", since="2026-05-04") == {(None, None, None): 1}
        assert runs("all", limit=0) == {}
        assert [row["of"] for row in ask(home, "costs", by="model", after=1)] == ["b"]
        assert [row["of"] for row in ask(home, "costs", newest=1)] == ["tracklog:s"]


def test_a_spend_that_two_runs_record_is_in_the_sums_once(tmp_path):
    told = [("r", "k", 1), ("s", "k", 7), ("s", "own", 1), ("t", "k", 1)]
    with Home(tmp_path, durability="os") as home:
        lines = [
            line(n, Spent(model="m", agent=run, key=key, usage={"output_tokens": tokens}), run)
            for n, (run, key, tokens) in enumerate(told)
        ]
        for each in lines:  # one by one: what was added is taken out again later
            home.intake.admit([each], "tracklog")
            home.index.catch_up()
        rows = {row["of"]: row for row in ask(home, "costs", by="agent")}
        assert {of: (row["runs"], row["output_tokens"]) for of, row in rows.items()} == {
            "r": (1, 7), "s": (1, 1)
        }  # fmt: skip  # one table
        [row] = ask(home, "costs", by="model")
        assert (row["runs"], row["spends"], row["output_tokens"]) == (2, 2, 8)


def test_an_hour_with_spends_of_every_kind(tmp_path):
    facts = [
        ("r", "03T10:00:00", spent()),
        ("r", "03T11:00:00", spent(cost_usd=2.0)),
        ("s", "03T11:30:00", Spent(model="nobody-knows", usage={"input_tokens": 5})),
        ("s", "03T12:00:00", Spent(model="nobody-knows", usage={"input_tokens": 5})),
        ("s", "03T13:00:00", Spent(model="nobody-knows", cost_usd=1.0, bound="lower")),
        ("s", "03T14:00:00", Spent(model="nobody-knows")),
    ]
    with recorded(tmp_path, facts) as home:
        rows = ask(home, "hours", count=6, now="2026-05-03T15:00:00Z")
        slow = {int(row.of): row for row in costs(home, "hour")}
    for row in rows[:-1]:
        of = slow[int(datetime.fromisoformat(row["begin"]).timestamp()) // 3600]
        for name in ("total_tokens", "cost_usd", "computed_usd", "lower_bound"):
            assert row[name] == getattr(of, name), (row["begin"], name)
    assert (rows[-1]["total_tokens"], rows[-1]["lower_bound"]) == (None, None)


def test_what_was_spent_is_priced_day_by_day_and_what_has_no_price_is_a_bound(tmp_path):
    facts = [
        ("r", "03T10:00:00", spent()),
        ("r", "04T23:59:00", spent(cost_usd=2.0)),
        ("s", "05T00:00:00", Spent(model="nobody-knows", usage={"input_tokens": 5})),
    ]
    with recorded(tmp_path, facts) as home:
        answer = of(home, "cost", since="2026-05-03", until="2026-05-06", bucket="1d", by="model")
    listed = prices.load().cost(
        "claude-sonnet-4-5", {"input_tokens": 1000, "output_tokens": 100}, "2026-05-03"
    )
    computed = listed.amount / 1e9
    assert answer["at"] == [f"2026-05-0{day}T00:00:00+00:00" for day in (3, 4, 5)]
    first, second = answer["keys"]
    assert first["key"] == "claude-sonnet-4-5"
    assert first["values"] == [computed, 2.0, 0]
    assert (first["sum"], first["computed"]) == (2.0 + computed, computed)
    assert (second["key"], second["sum"], second["values"]) == ("nobody-knows", None, [0, 0, 0])
    assert (answer["unknown_runs"], answer["lower_bound"], answer["bucket"]) == (1, True, 86_400)
    assert (answer["partial_last"], answer["unit"]) == (False, "usd")


def test_a_day_begins_at_local_midnight(tmp_path):
    facts = [("r", "04T21:59:59", spent(cost_usd=1.0)), ("r", "04T22:00:00", spent(cost_usd=2.0))]
    with recorded(tmp_path, facts) as home:
        answer = of(
            home, "cost", since="2026-05-04", until="2026-05-06", bucket="1d", tz="Europe/Zurich"
        )
    assert answer["at"] == ["2026-05-04T00:00:00+02:00", "2026-05-05T00:00:00+02:00"]
    assert [each["values"] for each in answer["keys"]] == [[1.0, 2.0]]


def test_nothing_recorded_is_null_and_recorded_without_failure_is_0(tmp_path):
    facts = [
        ("r", "05T09:10:00", Called(tool="Bash", call_id="1")),
        ("r", "05T09:10:02", Returned(call_id="1", ok=True)),
        ("r", "05T11:10:00", Called(tool="Read", call_id="2")),
        ("r", "05T11:10:02", Returned(call_id="2", ok=False)),
    ]
    with recorded(tmp_path, facts) as home:
        given = {"since": "2026-05-05T09:00", "bucket": "1h"}
        failures = of(home, "failures", by="tool", **given)
        share = of(home, "failure_share", **given)
        calls = of(home, "calls", **given | {"since": "2026-05-05T11:00"})
    assert {each["key"]: each["values"] for each in failures["keys"]} == {
        "Read": [0, None, 1],
        "Bash": [0, None, 0],
    }
    assert share["keys"][0]["values"] == [0, None, 1]
    assert (share["total"], failures["total"]) == (0.5, 1)
    assert (calls["total"], calls["before"]) == (1, None)
    assert share["before"] is None


def test_the_length_before_is_compared(tmp_path):
    facts = [("r", "05T10:30:00", spent(cost_usd=3.0)), ("r", "05T11:30:00", spent(cost_usd=1.0))]
    with recorded(tmp_path, facts) as home:
        answer = of(home, "cost", since="-1h")
    assert (answer["total"], answer["before"], len(answer["at"])) == (1.0, 3.0, 60)


def test_a_turn_lasts_from_the_question_or_the_result_to_the_next_message(tmp_path):
    facts = [
        ("r", "05T10:00:00", says("user")),
        ("r", "05T10:00:04", says("assistant", model="m")),
        ("r", "05T10:00:05", Called(tool="Bash", call_id="1")),
        ("r", "05T10:00:20", Returned(call_id="1", ok=True)),
        ("r", "05T10:00:21", says("assistant", model="m")),
        ("r", "05T10:09:00", says("assistant", model="m")),
    ]
    with recorded(tmp_path, facts) as home:
        assert of(home, "turns")["total"] == 2
        assert of(home, "latency_p95")["total"] == pytest.approx(4, rel=0.06)
        assert of(home, "latency_p50")["total"] == pytest.approx(1, rel=0.06)
        classes = keys(of(home, "turns", by="latency_bucket"))
    assert sum(classes.values()) == 2
    assert all(float(name) > 0 for name in classes)


def test_waits_audits_and_runs(tmp_path):
    facts = [
        ("r", "05T10:00:00", Began(what="run", cwd="/p", git={"branch": "main"})),
        ("r", "05T10:01:00", Asked(question_id="q", agent="ann")),
        ("r", "05T10:03:00", Answered(question_id="q", answer="yes")),
        ("r", "05T10:04:00", Decided(name="lint", verdict="no", passed=False, agent="ann")),
        ("r", "05T10:05:00", Ended(what="run", passed=False)),
        ("s", "05T10:06:00", Began(what="run", cwd="/q")),
        ("s", "05T10:07:00", Ended(what="run", passed=True)),
    ]
    with recorded(tmp_path, facts) as home:
        assert of(home, "waits")["total"] == 1
        assert of(home, "wait_p50")["total"] == pytest.approx(120, rel=0.06)
        assert keys(of(home, "audits", by="result")) == {"fail": 1}
        assert keys(of(home, "runs", by="outcome")) == {"done": 1, "failed": 1}
        assert keys(of(home, "runs", by="project")) == {"/p": 1, "/q": 1}
        assert keys(of(home, "runs", by="agent")) == {"ann": 1, None: 1}
        assert of(home, "runs", project=["/p"], branch=["main"])["total"] == 1
        assert of(home, "runs", outcome=["failed"])["total"] == 1
        assert of(home, "runs", project=["/p"], outcome=["done"])["total"] is None
        assert keys(of(home, "audits", by="checkpoint")) == {"lint": 1}


@pytest.mark.parametrize(
    ("metric", "by"), [("runs", "token_kind"), ("cost", "token_kind"), ("cost", "tool"),
                       ("latency_p95", "latency_bucket"), ("audits", "tool")],
)  # fmt: skip  # one row
def test_a_metric_is_not_split_by_what_it_does_not_have(tmp_path, metric, by):
    with (
        recorded(tmp_path, [("r", "05T10:00:00", spent())]) as home,
        pytest.raises(UnknownName, match=f"^{metric} cannot be split by {by}"),
    ):
        of(home, metric, by=by)


def test_a_run_of_several_agents_counts_for_each_of_them_and_once_in_all(tmp_path):
    facts = [
        ("r", "05T10:00:00", Began(what="agent", agent="ann")),
        ("r", "05T10:00:01", Began(what="agent", agent="bob")),
        ("s", "05T10:00:02", Began(what="agent", agent="ann")),
    ]
    with recorded(tmp_path, facts) as home:
        assert keys(of(home, "runs", by="agent")) == {"ann": 2, "bob": 1}
        assert of(home, "runs")["total"] == 2
        assert of(home, "runs", agent=["ann"])["total"] == 2


def test_tokens_by_kind_are_all_tokens(tmp_path):
    usage = {"input_tokens": 100, "cached_tokens": 60, "cache_write_tokens": 10, "output_tokens": 7}
    with recorded(tmp_path, [("r", "05T10:00:00", Spent(model="m", usage=usage))]) as home:
        answer = of(home, "tokens", by="token_kind")
    assert keys(answer) == {"cache read": 60, "input": 30, "cache write": 10, "output": 7}
    assert [each["key"] for each in answer["keys"]] == [
        "cache read",
        "input",
        "cache write",
        "output",
    ]
    assert answer["total"] == 107


def test_more_names_than_asked_for_are_one_row(tmp_path):
    facts = [
        ("r", "05T10:00:00", Called(tool=f"t{n}", call_id=f"{n}-{m}"))
        for n in range(4)
        for m in range(n + 1)
    ]
    with recorded(tmp_path, facts) as home:
        answer = of(home, "calls", by="tool", top=2)
    assert [(each["key"], each["other"], each["sum"]) for each in answer["keys"]] == [
        ("t3", False, 4),
        ("t2", False, 3),
        (None, True, 3),
    ]
    assert answer["total"] == 10


def test_prices_of_ones_own_may_change_at_any_number_of_tokens(tmp_path):
    above = {"tokens": 777, "input": 10, "output": 0}
    own = {"models": {"mine": [{"from": "2026-01-01", "input": 1, "output": 0, "above": above}]}}
    facts = [
        ("r", "05T10:00:00", Spent(model="mine", usage={"input_tokens": n, "output_tokens": 0}))
        for n in (777, 778)
    ]
    with recorded(tmp_path, facts) as home:
        (tmp_path / "prices.json").write_bytes(orjson.dumps(own))
        answer, all_time = of(home, "cost"), ask(home, "costs", by="all")[0]
    assert answer["total"] == pytest.approx((777 + 7780) / 1e6)
    assert answer["total"] == pytest.approx(all_time["computed_usd"])


def test_every_threshold_of_our_prices_has_a_band():
    assert prices.load().thresholds <= set(series_fold.TIERS)


def test_several_metrics_are_a_list_and_over_http_both_ways_of_asking(tmp_path):
    recorded(tmp_path, [("r", "05T10:00:00", spent(cost_usd=3.0))]).close()
    with collector(tmp_path) as served:
        one = served.http.get("/api/series?metric=cost&since=2026-05-01&tz=UTC").json()
        two = served.http.get(
            "/api/series?metric=cost&metric=tokens&since=2026-05-01&tz=UTC"
        ).json()
        same = served.http.get("/api/series?metric=cost,tokens&since=2026-05-01&tz=UTC").json()
        bad = served.http.get("/api/series?since=someday")
        zone = served.http.get("/api/series?tz=Mars/Olympus")
    assert (one["total"], [each["metric"] for each in two]) == (3.0, ["cost", "tokens"])
    assert [each["total"] for each in same] == [3.0, 1100]
    assert (bad.status_code, zone.status_code) == (400, 400)
    assert "no time zone" in zone.text


def test_the_local_zone_has_its_summer_time(monkeypatch):
    monkeypatch.setenv("TZ", "Europe/Zurich")
    time.tzset()
    try:
        summer = datetime(2026, 7, 1, tzinfo=zone_of(None))
        winter = datetime(2026, 1, 1, tzinfo=zone_of(None))
        assert (summer.utcoffset(), winter.utcoffset()) == (timedelta(hours=2), timedelta(hours=1))
        assert datetime.fromtimestamp(summer.timestamp(), zone_of(None)) == summer
    finally:
        monkeypatch.undo()
        time.tzset()


def test_the_command_prints_bars_and_totals(tmp_path):
    recorded(tmp_path, [("r", "05T10:00:00", spent(cost_usd=3.0))]).close()
    shown = tracklog(
        tmp_path,
        "series",
        "--since",
        "2026-05-04",
        "--until",
        "2026-05-07",
        "--by",
        "model",
        "--tz",
        "UTC",
        "--bucket",
        "1d",
    )
    assert shown.returncode == 0, shown.stderr
    assert "claude-sonnet-4-5" in shown.stdout.decode()
    assert "$3.00" in shown.stdout.decode()


def test_costs_by_day_of_nothing_and_of_a_very_old_spend(tmp_path):
    with recorded(tmp_path / "none", [("r", "05T10:00:00", Began(what="run"))]) as home:
        assert ask(home, "costs", by=["day", "model"], tz="UTC") == []
    with Home(tmp_path / "old", durability="os") as home:
        facts = [("1970-01-01T23:30:00Z", 1.0), ("2026-05-05T10:00:00Z", 2.0)]
        lines = [
            line(n, spent(key=f"k{n}", cost_usd=usd), at=at) for n, (at, usd) in enumerate(facts)
        ]
        home.intake.admit(lines, "tracklog")
        home.index.catch_up()
        for by, begins in {
            "day": ["1970-01-02", "2026-05-05"],
            "week": ["1969-12-29", "2026-05-04"],
            "month": ["1970-01-01", "2026-05-01"],
        }.items():
            rows = ask(home, "costs", by=[by], tz="Europe/Zurich")
            assert [(row["begin"], row["cost_usd"]) for row in rows] == [
                *zip(begins, (1.0, 2.0), strict=True)
            ]
        (row,) = ask(home, "costs", by=["all"], since="2026-05-05", until="2026-05-06", tz="UTC")
        assert (row["begin"], row["cost_usd"]) == (None, 2.0)
        assert ask(home, "costs", by=["day"], until="2026-05-05", tz="UTC")[-1]["cost_usd"] == 1.0


@given(
    st.datetimes(datetime(2000, 1, 2), datetime(2060, 1, 1)),  # noqa: DTZ001  # the zone is added
    st.sampled_from(ZONES),
)
def test_today_and_yesterday_begin_at_local_midnight(now, name):
    now = now.replace(tzinfo=zone_of(name))
    days = {"today": now.date(), "yesterday": now.date() - timedelta(days=1)}
    for word, day in days.items():
        assert time_of(word, now) == time_of(day.isoformat(), now)


def test_costs_of_yesterday_are_those_between_two_midnights(tmp_path):
    spends = {"04T21:59:59": 1.0, "04T22:00:00": 2.0, "05T21:59:59": 4.0, "05T22:00:00": 8.0}
    facts = [("r", at, spent(key=at, cost_usd=usd)) for at, usd in spends.items()]
    with recorded(tmp_path, facts) as home:
        given = {"tz": "Europe/Zurich", "now": "2026-05-06T10:00:00Z"}
        rows = ask(home, "costs", by=["day"], since="yesterday", until="today", **given)
    assert [(row["begin"], row["cost_usd"]) for row in rows] == [("2026-05-05", 6.0)]


@pytest.mark.parametrize("question", ["series", "costs"])
def test_an_empty_time_is_refused(tmp_path, question):
    with recorded(tmp_path, [("r", "05T10:00:00", spent())]) as home, pytest.raises(BadQuery):
        ask(home, question, since="")


def test_the_hint_of_an_empty_series_does_not_repeat_the_question(tmp_path):
    recorded(tmp_path, [("r", "05T10:00:00", Began(what="run"))]).close()
    assert b"try --since all" in tracklog(tmp_path, "series").stdout
    assert b"`tracklog runs`" in tracklog(tmp_path, "series", "--since", "all").stdout


def test_the_turns_of_a_run_are_buckets_and_add_up_to_its_turns(tmp_path):
    usage = {"input_tokens": 1000, "cached_tokens": 600, "output_tokens": 50}
    facts = [
        ("r", "05T10:00:00", says("user")),
        ("r", "05T10:00:05", says("assistant")),
        ("r", "05T10:00:05", Spent(model="claude-sonnet-4-5", usage=usage)),
        ("r", "05T10:00:09", says("user")),
        ("r", "05T10:00:12", says("assistant")),
        ("r", "05T10:00:12", Spent(model="ours", usage=usage, cost_usd=0.5)),
    ]
    with recorded(tmp_path, facts) as home:
        rows = ask(home, "turns", run="r")["rows"]
        costs = ask(home, "series", metric=["cost"], by="model", bucket="turn", run="r")
        kinds = ask(home, "series", metric=["tokens"], by="token_kind", bucket="turn", run="r")
        assert costs["at"] == [row["at"] for row in rows]
        assert len(costs["at"]) == 2
        assert [(key["key"], key["values"]) for key in costs["keys"]] == [
            ("ours", [0, 0.5]),
            ("claude-sonnet-4-5", [rows[0]["computed_usd"], 0]),
        ]
        assert costs["total"] == pytest.approx(rows[-1]["total_usd"])
        named = {key["key"]: key["values"][0] for key in kinds["keys"]}
        assert named == {"cache read": 600, "input": 400, "output": 50}
        for wrong in (
            {"bucket": "turn"},
            {"run": "r"},
            {"bucket": "turn", "run": "r", "metric": ["runs"]},
            {"bucket": "turn", "run": "r", "by": "tool"},
        ):
            with pytest.raises(BadQuery):
                ask(home, "series", **{"metric": ["cost"], **wrong})
    shown = tracklog(tmp_path, "series", "--bucket", "turn", "--run", "r").stdout
    assert b"cost of 2 turns" in shown
