"""What the stage's engine promises, by what it plays."""

import itertools
import signal
import subprocess
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from support.collecting import Collector
from support.forking import Tracklog, tracklog
from tracklog import Log
from tracklog.dialects import fishbowl as speech
from tracklog.dialects.checking import checker
from tracklog.dialects.rules import Lint
from tracklog.folds import leaderboard
from tracklog.home.home import Home
from tracklog.hosts._endpoint import ModelFailed
from tracklog.hosts.fishbowl import agents, conductor, finale, judge, show
from tracklog.hosts.fishbowl.agents import NotAuthorised, authorise
from tracklog.hosts.fishbowl.conductor import Conductor, RunContested
from tracklog.hosts.fishbowl.governor import BudgetExceeded, Governor, PlayLimits
from tracklog.hosts.fishbowl.manifest import Manifest
from tracklog.hosts.fishbowl.memory import Mind, Remark
from tracklog.hosts.fishbowl.models import PlayerReply, Prompt
from tracklog.hosts.fishbowl.offline import Offline
from tracklog.hosts.fishbowl.recorded_show import RecordedShow
from tracklog.hosts.fishbowl.scenario import BadScenario, Competition, Scenario, load

requirement = pytest.mark.requirement
EXAMPLES = sorted((Path(__file__).parents[2] / "examples" / "fishbowl").glob("*.yaml"))

FIELDS = ["id", "run_id", "turn", "kind", "actor", "payload", "created_at", "schema_version"]
ENDING = {
    "reason", "winner", "winner_kind", "winning_model", "winning_models", "turns", "tokens",
}  # fmt: skip


class Scripted:
    """Says what it was given, one after the other; an exception is raised, a function is asked."""

    offline = False
    name = "scripted"

    def __init__(self, *replies) -> None:
        self.replies = list(replies)
        self.prompts: list[Prompt] = []

    def reply(self, prompt: Prompt) -> PlayerReply | None:
        self.prompts.append(prompt)
        reply = self.replies.pop(0) if self.replies else None
        if isinstance(reply, Exception):
            raise reply
        return reply(prompt) if isinstance(reply, Callable) else reply


def player(name: str, **changes) -> dict:
    grants = {"may_emit": ["agent.spoke"], "schedule": {"tick_every": 1, "max_consecutive": 99}}
    return {"name": name, "persona": "Somebody.", **grants, **changes}


def a_judge(name: str = "host", **changes) -> dict:
    own = {"role": "judge", "may_emit": ["judge.verdict"], "output_extra_fields": ["winner"]}
    return player(name, **{**own, "schedule": {}, **changes})


def scene(*cast: dict, **changes) -> Scenario:
    told = {"name": "play", "goal": "Go on.", "genesis_text": "It smells of {seed}.", "ticks": 3}
    return Scenario.model_validate({**told, "cast": list(cast), **changes})


def spoke(
    text: str = "Hello.", kind: str = "agent.spoke", tokens: int = 5, **payload
) -> PlayerReply:
    return PlayerReply(kind, {"text": text, **payload}, tokens)


def ruled(winner=..., text: str = "So be it.", tokens: int = 10, **payload) -> PlayerReply:
    named = {} if winner is ... else {"winner": winner}
    return PlayerReply("judge.verdict", {"text": text, **named, **payload}, tokens)


@pytest.fixture
def home(tmp_path):
    with Home(tmp_path / "home", durability="os") as opened:
        yield opened


def conduct(home: Home, scenario: Scenario, models=None, run: str = "r", **options) -> Conductor:
    cast = {name: Offline() for name in scenario.players} | (models or {})
    clock = itertools.count(1_750_000_000).__next__
    return Conductor(Log(home), scenario, run, cast, **{"clock": clock, **options})


def kept(home: Home, run: str = "r") -> list[dict]:
    return [orjson.loads(r.line) for r in home.journal.records(run=("fishbowl", run))]


def played(home: Home, scenario: Scenario, models=None, **options) -> list[dict]:
    conduct(home, scenario, models, **options).play()
    return kept(home, options.get("run", "r"))


def verdict_of(events: list[dict]) -> dict:
    return next(e["payload"] for e in reversed(events) if e["kind"] == "judge.verdict")


@requirement("BOWL-17", "BOWL-18")
@pytest.mark.parametrize(
    ("may_emit", "kind", "mode", "emitted"),
    [
        (["agent.spoke"], "agent.spoke", "strict", ("agent.spoke", None)),
        (["agent.spoke"], "agent.spoke", "coerce", ("agent.spoke", None)),
        (["clue.found", "agent.spoke"], "agent.thought", "strict", None),
        (["clue.found", "agent.spoke"], "agent.thought", "coerce", ("clue.found", "agent.thought")),
        ([], "agent.spoke", "strict", None),
        ([], "agent.spoke", "coerce", None),
        (["agent.spoke"], "agent.reflected", "strict", None),
        (["agent.spoke"], "agent.reflected", "coerce", ("agent.spoke", "agent.reflected")),
        (["agent.reflected"], "agent.spoke", "coerce", None),
        (["agent.reflected"], "agent.reflected", "strict", ("agent.reflected", None)),
        (["agent.spoke"], "run.finished", "strict", None),
        (["agent.spoke"], "judge.verdict", "strict", None),
    ],
)
def test_may_emit_alone_decides(may_emit, kind, mode, emitted):
    manifest = Manifest.model_validate(player("a", may_emit=may_emit))
    if emitted is None:
        with pytest.raises(NotAuthorised, match="may not emit"):
            authorise(manifest, kind, mode)
    else:
        assert authorise(manifest, kind, mode) == emitted


@requirement("BOWL-17", "BOWL-18")
def test_a_player_that_oversteps_loses_that_turn_and_only_that_one(home):
    model = Scripted(spoke("I declare myself the end.", "run.finished"), spoke("Sorry."))
    events = played(home, scene(player("a"), ticks=2), {"a": model})
    assert [e["kind"] for e in events if e["actor"] == "a"] == ["agent.spoke"]
    (skipped,) = [e for e in events if e["kind"] == "turn.skipped"]
    assert (skipped["actor"], skipped["turn"]) == ("conductor", 1)
    assert skipped["payload"]["error"] == "NotAuthorised"
    # Intake would have accepted it: it knows shapes, and nobody's rights.
    line = {**events[0], "id": "x", "actor": "a", "kind": "run.finished"}
    (verdict,) = home.intake.admit([orjson.dumps(line)], "fishbowl")
    assert verdict.verdict == "accepted"


def test_coerced_speech_says_what_it_was(home):
    model = Scripted(spoke("Psst.", "oracle.spoke"))
    events = played(home, scene(player("a"), ticks=1, authority="coerce"), {"a": model})
    (said,) = [e for e in events if e["actor"] == "a"]
    assert said["kind"] == "agent.spoke"
    assert said["payload"]["_coerced_from"] == "oracle.spoke"


@requirement("BOWL-15")
def test_a_scenario_invents_a_kind_and_other_players_receive_it(home):
    crier = player("crier", may_emit=["crier.announced"])
    deaf = player("deaf", schedule={}, subscribes_to=["agent.spoke"])
    keen = player("keen", schedule={}, subscribes_to=["crier.announced"])
    events = played(home, scene(crier, deaf, keen, ticks=1))
    assert [e["actor"] for e in events if e["turn"] == 1 and e["actor"] != "conductor"] == [
        "crier", "keen",
    ]  # fmt: skip
    assert {e["kind"] for e in events if e["actor"] == "crier"} == {"crier.announced"}


CAST = ("anna", "bert", "host")
NAMES = (*CAST, "herd", "spy")
TEAMS = {"spy": ["anna"], "herd": ["bert"]}
BAD = "Zorro"


def contest(kind: str, **changes) -> Scenario:
    teams = {"teams": TEAMS} if kind == "versus" else {}
    quiet = {"schedule": {}}
    return scene(
        player("anna", **quiet, model_endpoint="model://anna"),
        player("bert", **quiet),
        a_judge(**changes),
        ticks=1,
        competition={"kind": kind, **teams},
    )


@requirement(
    "BOWL-28", "BOWL-37", "BOWL-38", "BOWL-39", "BOWL-40", "BOWL-41", "BOWL-42", "BOWL-43",
    "BOWL-44",
)  # fmt: skip
@pytest.mark.parametrize("kind", ["judged", "versus"])
@pytest.mark.parametrize(
    ("first", "second", "calls", "winner", "text"),
    [
        (ruled(text="1"), None, 1, ..., "1"),
        (ruled(None, "1"), None, 1, None, "1"),
        (ruled("", "1"), None, 1, "", "1"),
        (ruled("bert", "1"), None, 1, "bert", "1"),
        (ruled(BAD, "1"), ruled("bert", "2"), 2, "bert", "2"),
        (ruled(7, "1"), ruled("bert", "2"), 2, "bert", "2"),
        (ruled([], "1"), ruled("bert", "2"), 2, "bert", "2"),
        (ruled("bert ", "1"), ruled("bert", "2"), 2, "bert", "2"),
        (ruled(BAD, "1"), ruled(BAD, "2"), 2, "no contest", "1"),
        (ruled(BAD, "1"), ruled(text="2"), 2, "no contest", "1"),
        (ruled(BAD, "1"), ruled(None, "2"), 2, "no contest", "1"),
        (ruled(BAD, "1"), ruled("", "2"), 2, "no contest", "1"),
        (ruled(BAD, "1"), ruled("bert", ""), 2, "no contest", "1"),
        (ruled(BAD, "1"), None, 2, "no contest", "1"),
        (ruled(BAD, "1"), ModelFailed("gone"), 2, "no contest", "1"),
    ],
)
def test_an_unknown_winner_is_asked_for_exactly_once_more(
    home, kind, first, second, calls, winner, text
):
    model = Scripted(first, second, ruled("anna", "a third reply"))
    events = played(home, contest(kind), {"host": model})
    payload, (end, *_) = verdict_of(events), [e for e in events if e["kind"] == "run.finished"]
    assert len(model.prompts) == calls
    assert payload["text"] == text
    paid = first.tokens + (second.tokens if isinstance(second, PlayerReply) and calls == 2 else 0)
    assert end["payload"]["tokens"] == paid
    if winner == "no contest":
        assert payload["no_contest"] is True
        assert "winner" not in payload
        assert end["payload"]["winner"] is None
        assert end["payload"]["winning_models"] == []
        return
    assert "no_contest" not in payload
    if kind == "versus" and winner == "bert":
        assert (payload["accused"], payload["winner"]) == ("bert", "spy")
    else:
        assert payload.get("winner", ...) == winner
    if calls == 2:
        assert model.prompts[0].correction is None
        assert "bert" in (model.prompts[1].correction or "")


@requirement("BOWL-43")
def test_the_governor_meters_the_second_call(home):
    model = Scripted(ruled(BAD, tokens=110), ruled("bert", tokens=132))
    stage = conduct(home, contest("judged"), {"host": model})
    stage.play()
    events = kept(home)
    assert verdict_of(events)["_tokens"] == 242
    assert events[-1]["payload"]["tokens"] == 242
    spent = stage.state.governor
    assert (spent.tokens, spent.calls) == (242, 2)
    spent.limits = PlayLimits(max_total_tokens=242)
    with pytest.raises(BudgetExceeded, match="max_total_tokens"):
        spent.check(now=0.0)
    assert conduct(home, stage.scenario).state.governor.tokens == 242


@requirement("BOWL-37", "BOWL-38", "BOWL-39", "BOWL-40", "BOWL-42")
@pytest.mark.parametrize("kind", ["judged", "versus"])
@pytest.mark.parametrize(
    "changes",
    [
        {"output_extra_fields": []},
        {"output_extra_fields": ["mood"]},
        {"output_extra_fields": ["scores"]},
        {"role": "worker"},
        {"role": "worker", "output_extra_fields": []},
    ],
)
def test_an_invalid_winner_is_refused_whatever_the_manifest_declares(home, kind, changes):
    piece = contest(kind)
    manifest = Manifest.model_validate(a_judge(**changes, schedule={"tick_every": 1}))
    piece = piece.model_copy(update={"cast": [*piece.cast[:2], manifest]})
    bananas, mended = ruled("bananas", "1"), ruled("bert", "2")
    stubborn, sorry = Scripted(bananas, bananas), Scripted(bananas, mended)
    events = played(home, piece, {"host": stubborn})
    payload = verdict_of(events)
    assert (payload["text"], payload["no_contest"]) == ("1", True)
    assert "winner" not in payload
    assert events[-1]["payload"]["winner"] is None
    assert events[-1]["payload"]["winning_models"] == []
    assert len(stubborn.prompts) == 2
    events = played(home, piece, {"host": sorry}, run="mended")
    payload = verdict_of(events)
    assert "no_contest" not in payload
    assert events[-1]["payload"]["winner"] == ("bert" if kind == "judged" else "spy")
    assert len(sorry.prompts) == 2


@requirement("BOWL-24")
@pytest.mark.parametrize("winner", ["anna", BAD, None, 7])
@pytest.mark.parametrize("declared", [["winner"], []])
def test_without_a_competition_a_verdict_has_no_winner(home, winner, declared):
    model = Scripted(ruled(winner))
    events = played(home, contest("none", output_extra_fields=declared), {"host": model})
    assert verdict_of(events) == {"text": "So be it.", "_tokens": 10}
    assert events[-1]["payload"]["winner"] is None
    assert len(model.prompts) == 1


def test_a_recorded_winner_who_left_the_cast_is_no_winner_when_it_is_played_again(home):
    played(home, contest("judged"), {"host": Scripted(ruled("anna"))}, run="first")
    renamed = scene(
        player("anne", schedule={}), player("bert", schedule={}), a_judge(), ticks=1,
        competition={"kind": "judged"},
    )  # fmt: skip
    tape = RecordedShow(Log(home), "first", renamed)
    models = {name: tape.model(Offline()) for name in renamed.players}
    events = played(home, renamed, models, run="second", tape=tape)
    payload = verdict_of(events)
    assert payload["no_contest"] is True
    assert "winner" not in payload
    assert events[-1]["payload"]["winner"] is None
    same = RecordedShow(Log(home), "first", contest("judged"))
    models = {name: same.model(Offline()) for name in renamed.players | {"anna": None}}
    events = played(home, contest("judged"), models, run="third", tape=same)
    assert events[-1]["payload"]["winner"] == "anna"


def leaderboard_of(home: Home) -> list[dict]:
    home.index.catch_up()
    return leaderboard.answer(state for _, state in home.index.states("leaderboard"))


@requirement("BOWL-44", "BOWL-45")
@pytest.mark.parametrize("handler", [None, "judged-competition", "spy-host"])
@pytest.mark.parametrize("live", [True, False])
@pytest.mark.parametrize("named", [{}, {"winner": None}, {"winner": ""}])
def test_a_missing_winner_stays_missing(home, handler, live, named):
    kind = "versus" if handler == "spy-host" else "judged"
    declared = {"handler": handler, "output_extra_fields": [*named, "mood"]}
    talk = {"schedule": {"tick_every": 1}}
    teams = {"teams": TEAMS} if kind == "versus" else {}
    piece = scene(
        player("anna", **talk, model_endpoint="model://anna"),
        player("bert", **talk, model_endpoint="model://bert"),
        a_judge(**declared),
        ticks=3,
        competition={"kind": kind, **teams},
    )
    model = Scripted(PlayerReply("judge.verdict", {"text": "It was anna, says host.", **named}))
    model.offline = not live
    events = played(home, piece, {"host": model})
    payload = verdict_of(events)
    assert sum(e["actor"] == "anna" for e in events) == 3
    assert {key: payload[key] for key in payload if key != "_tokens"} == {
        "text": "It was anna, says host.", **named,
    }  # fmt: skip
    end = events[-1]["payload"]
    assert end["reason"] == "verdict"
    assert (end["winner"], end["winner_kind"], end["winning_model"], end["winning_models"]) == (
        None, None, None, [],
    )  # fmt: skip
    assert len(model.prompts) == 1
    assert leaderboard_of(home) == []
    ((_, state),) = home.index.states("leaderboard")
    assert leaderboard.summary(state)["winner"] is None


@requirement("BOWL-45")
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_no_shipped_play_has_a_winner_offline(tmp_path, path):
    done = run_cli(path, "--home", tmp_path, "--run", "r", "--fast", "--json")
    assert done.returncode == 0, done.stderr
    events = [orjson.loads(line) for line in done.stdout.splitlines()]
    rulings = [e["payload"] for e in events if e["kind"] == "judge.verdict"]
    assert all(ruling.get("winner") is None for ruling in rulings)
    assert not {"accused", "correct", "no_contest"} & set().union(*rulings)
    assert events[-1]["payload"]["winner"] is None
    shown = tracklog(tmp_path, "leaderboard", "--json")
    assert (shown.returncode, shown.stdout) == (0, b""), shown


@requirement("BOWL-27", "BOWL-29", "BOWL-30", "BOWL-31", "BOWL-32")
@pytest.mark.parametrize(
    ("pick", "accused", "correct", "winner"),
    [
        ("anna", "anna", True, "herd"),
        ("bert", "bert", False, "spy"),
        ("host", "host", False, "spy"),
        ("spy", "spy", True, "herd"),
        ("herd", "herd", False, "spy"),
        (None, None, None, None),
    ],
)
def test_in_versus_code_stamps_the_team_and_keeps_the_pick(home, pick, accused, correct, winner):
    events = played(home, contest("versus"), {"host": Scripted(ruled(pick))})
    payload = verdict_of(events)
    assert (payload.get("accused"), payload.get("correct"), payload["winner"]) == (
        accused, correct, winner,
    )  # fmt: skip
    assert sum(e["kind"] == "judge.verdict" for e in events) == 1
    assert events[-1]["payload"]["winner_kind"] == (winner and "team")


@requirement("BOWL-24", "BOWL-27", "BOWL-28", "BOWL-32")
def test_in_judged_the_pick_is_the_winner_and_nobody_is_accused(home):
    reply = ruled("anna", accused="bert", correct=True, no_contest=True)
    payload = verdict_of(played(home, contest("judged"), {"host": Scripted(reply)}))
    assert payload == {"text": "So be it.", "winner": "anna", "_tokens": 10}


@requirement("BOWL-26")
@pytest.mark.parametrize("kind", ["judged", "versus", "none"])
def test_a_verdict_has_its_text_and_what_the_manifest_declares_beside_it(home, kind):
    declared = contest(kind, output_extra_fields=["winner", "mood", "aside"])
    reply = ruled("anna", mood="grim", aside={"to": ["bert"]}, gossip="none of it declared")
    model = Scripted(reply)
    payload = verdict_of(played(home, declared, {"host": model}))
    assert payload["text"] == "So be it."
    assert (payload["mood"], payload["aside"]) == ("grim", {"to": ["bert"]})
    assert "gossip" not in payload
    # The extras of a second reply count as well as those of a first.
    model = Scripted(ruled(BAD, mood="grim"), ruled("anna", "2", mood="mild"))
    payload = verdict_of(played(home, declared, {"host": model}, run="again"))
    assert payload["mood"] == ("grim" if kind == "none" else "mild")
    stubborn = Scripted(ruled(BAD, mood="grim"), ruled(BAD, mood="mild"))
    payload = verdict_of(played(home, declared, {"host": stubborn}, run="stubborn"))
    assert payload["mood"] == "grim"


@requirement("BOWL-26")
def test_offline_too_a_verdict_has_the_mood_that_its_manifest_declares(home):
    payload = verdict_of(played(home, contest("judged", output_extra_fields=["mood"])))
    assert payload["mood"]
    assert payload["text"]


def test_a_hidden_side_may_have_any_name():
    side = Competition(kind="versus", teams={"eater": ["anna"], "rest": ["bert"]}, hidden="eater")
    said = judge.with_truth(ruled("anna").payload, side)
    assert (said["winner"], said["correct"]) == ("rest", True)


def test_without_a_hidden_side_code_knows_no_truth():
    side = Competition(kind="versus", teams={"red": ["anna"], "blue": ["bert"]})
    said = judge.with_truth(ruled("red").payload, side)
    assert said == ruled("red").payload


def test_no_contest_is_final():
    payload = {"text": "anna and bert", "no_contest": True}
    side = Competition(kind="versus", teams=TEAMS)
    assert judge.with_truth(payload, side) == payload
    assert judge.with_truth({**payload, "winner": "anna"}, side) == {**payload, "winner": "anna"}


@requirement("BOWL-33", "BOWL-34", "BOWL-35", "BOWL-36")
def test_scores_are_cleaned_where_they_are_declared(home):
    scores = {"anna": 12, "ghost": 5, "bert": -3, "host": "7.5"}
    declared = contest("judged", output_extra_fields=["scores"])
    payload = verdict_of(played(home, declared, {"host": Scripted(ruled(scores=scores))}))
    assert payload["scores"] == {"anna": 10.0, "bert": 0.0, "host": 7.5}
    undeclared = contest("judged")
    events = played(home, undeclared, {"host": Scripted(ruled(scores=scores))}, run="other")
    assert "scores" not in verdict_of(events)


values = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.just([]))


@requirement("BOWL-34", "BOWL-35", "BOWL-36")
@given(st.dictionaries(st.sampled_from([*CAST, "ghost"]), values))
def test_scores_are_floats_in_range_by_player(scores):
    clean = judge.clean_scores(scores, CAST)
    assert set(clean) <= set(CAST)
    assert all(type(mark) is float and 0 <= mark <= 10 for mark in clean.values())


def test_odd_scores_are_dropped_or_clamped():
    odd = {"a": float("nan"), "b": True, "c": float("inf"), "d": float("-inf"), "e": 10**400}
    assert judge.clean_scores(odd, "abcde") == {"c": 10.0, "d": 0.0, "e": 10.0}
    ignored = judge.with_clean_scores(
        {"scores": 5}, Manifest.model_validate(a_judge(output_extra_fields=["scores"])),
        Competition(kind="judged"), CAST,
    )  # fmt: skip
    assert ignored == {}


STARTED = {
    "cast": {
        "anna": {"model_endpoint": "model://cara", "model": "routed"},
        "bert": {"model_endpoint": "model://bex"},
        "carl": {"model_endpoint": None, "model": "routed"},
        "both": {"model_endpoint": "model://both"},
    },
    "competition": {"teams": {"red": ["bert", "carl", "anna"], "both": ["anna"], "blue": ["carl"]}},
}


@requirement(
    "BOWL-46", "BOWL-47", "BOWL-48", "BOWL-49", "BOWL-50", "BOWL-51", "BOWL-52", "BOWL-54",
    "BOWL-63",
)  # fmt: skip
@pytest.mark.parametrize(
    ("reason", "winner", "told"),
    [
        ("verdict", "anna", ("anna", "agent", "model://cara", ["model://cara"])),
        ("verdict", "carl", ("carl", "agent", None, [])),
        ("verdict", "both", ("both", "agent", "model://both", ["model://both"])),
        ("verdict", "red", ("red", "team", None, ["model://bex", "model://cara"])),
        ("verdict", "blue", ("blue", "team", None, [])),
        ("verdict", BAD, (BAD, None, None, [])),
        ("verdict", "", (None, None, None, [])),
        ("verdict", None, (None, None, None, [])),
        ("budget", "anna", (None, None, None, [])),
        ("tick_cap", "anna", (None, None, None, [])),
        ("user_stop", "red", (None, None, None, [])),
    ],
)
def test_a_winner_is_attributed_when_the_end_is_stamped(reason, winner, told):
    end = finale.finish(reason, STARTED, {"winner": winner}, 4, 9)
    keys = ("winner", "winner_kind", "winning_model", "winning_models")
    assert tuple(end[key] for key in keys) == told
    assert set(end) == ENDING
    assert (end["reason"], end["turns"], end["tokens"]) == (reason, 4, 9)


@requirement("BOWL-24", "BOWL-46", "BOWL-49", "BOWL-53", "BOWL-54", "BOWL-62")
def test_the_winner_reaches_the_summary_and_the_leaderboard(home):
    events = played(home, contest("judged"), {"host": Scripted(ruled("anna"))})
    home.index.catch_up()
    states = [state for _, state in home.index.states("leaderboard")]
    (row,) = leaderboard.answer(states)
    for key in ("winner", "winner_kind", "winning_model", "winning_models"):
        assert row[key] == events[-1]["payload"][key]
    assert (row["winner"], row["winning_model"]) == ("anna", "model://anna")


def test_a_run_ends_the_instant_there_is_a_verdict(home):
    events = played(home, scene(a_judge(schedule={"tick_every": 1}), player("a"), ticks=9))
    assert [e["kind"] for e in events][-2:] == ["judge.verdict", "run.finished"]
    assert events[-1]["payload"]["turns"] == 1


@requirement("BOWL-45")
@pytest.mark.parametrize("kind", ["judged", "versus", "none"])
def test_the_offline_cast_names_no_winner_and_plays_the_same_show(tmp_path, kind):
    manifest = Manifest.model_validate(a_judge(output_extra_fields=["winner", "scores", "mood"]))
    prompt = Prompt(manifest, ["judge.verdict"], "s", "g", "", [], ["anna"], None, 0, 1)
    model = Offline()
    reply = model.reply(prompt)
    assert reply is not None
    assert (reply.payload["winner"], reply.payload["scores"]) == (None, {})
    assert reply == model.reply(prompt)
    logs = []
    for place in ("one", "two"):
        with Home(tmp_path / place, durability="os") as home:
            logs.append(played(home, contest(kind)))
    assert logs[0] == logs[1]
    assert "no_contest" not in verdict_of(logs[0])


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
@pytest.mark.parametrize("group", [1, 64])
def test_the_same_seed_is_the_same_log_to_the_byte(tmp_path, path, group):
    logs = []
    for n in range(2):
        with Home(tmp_path / str(n), durability="os") as home:
            scenario = load(path)
            played(home, scenario, group=group if n else 1)
            logs.append([record.line for record in home.journal.records()])
    assert logs[0] == logs[1]
    with Home(tmp_path / "other", durability="os") as home:
        conduct(home, load(path), seed="another").play()
        assert [record.line for record in home.journal.records()] != logs[0]


@requirement("BOWL-55", "BOWL-25")
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_what_is_played_has_no_finding_and_only_the_envelope(home, path):
    events = played(home, load(path))
    lint, checked = Lint([speech.dialect]), checker(speech.dialect)
    found = []
    for event in events:
        found += lint.add(checked(orjson.dumps(event)))
        assert list(event) == FIELDS
        assert event["schema_version"] == 1
    assert found == []
    assert events[0]["kind"] == "run.started"
    assert events[-1]["kind"] == "run.finished"
    assert {"seed", "goal", "scenario", "cast"} <= set(events[0]["payload"])
    assert set(events[-1]["payload"]) == ENDING
    assert len([e for e in events if e["actor"] in load(path).players]) > 15


def without_time(events: Iterable[dict]) -> list[dict]:
    return [{key: value for key, value in e.items() if key != "created_at"} for e in events]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_cut_between_any_two_events_a_run_goes_on_as_it_would_have(tmp_path, path):
    scenario = load(path)
    with Home(tmp_path / "whole", durability="os") as home:
        whole = played(home, scenario)
    for cut in range(len(whole)):
        with Home(tmp_path / str(cut), durability="os") as home:
            home.intake.admit(map(orjson.dumps, whole[:cut]), "fishbowl")
            conduct(home, scenario, group=1 + 63 * (cut % 2)).play()
            assert without_time(kept(home)) == without_time(whole)


def test_killed_while_it_plays_it_is_started_again_and_says_nothing_twice(tmp_path):
    path, told = EXAMPLES[0], []
    words = ["play", path, "--home", tmp_path / "home", "--run", "r"]
    for _ in range(2):
        process = show_of(*words, "--speed", "15")
        for _ in range(12):
            process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        process.communicate()
        with Home(tmp_path / "home", readonly=True) as home:
            told.append(len(kept(home)))
    done = run_cli(*words, "--fast")
    assert done.returncode == 0, done.stderr
    with Home(tmp_path / "home", readonly=True) as home:
        events = kept(home)
    assert 0 < told[0] < told[1] < len(events)
    with Home(tmp_path / "other", durability="os") as home:
        assert without_time(events) == without_time(played(home, load(path)))


def test_a_finished_run_is_done_and_another_scenario_is_another_run(home):
    scenario = scene(player("a"))
    events = played(home, scenario)
    again = conduct(home, scenario)
    assert again.done
    again.play()
    assert kept(home) == events
    with pytest.raises(RunContested, match="another scenario"):
        conduct(home, scene(player("a"), goal="Something else."))


def test_an_old_run_is_read_as_the_current_version_and_continued(tmp_path):
    def upcast_v0_v1(body):
        words = {"text": body.pop("words")} if "words" in body else {}
        return body | {"payload": body.get("payload", {}) | words, "schema_version": 1}

    grown = replace(speech.dialect, upcasts={0: upcast_v0_v1})
    scenario = scene(player("a"))
    with Home(tmp_path / "new", durability="os") as home:
        whole = played(home, scenario)
    old = []
    for event in whole[:3]:
        body = {**event, "schema_version": 0}
        if "text" in body["payload"]:
            body["payload"] = dict(body["payload"])
            body["words"] = body["payload"].pop("text")
        old.append(orjson.dumps(body))
    with Home(tmp_path / "old", durability="os", dialects=[grown]) as home:
        verdicts = home.intake.admit(old, "fishbowl")
        assert {verdict.verdict for verdict in verdicts} == {"accepted"}
        conduct(home, scenario).play()
        lines = [record.line for record in home.journal.records()]
    assert lines[:3] == old
    assert without_time(map(orjson.loads, lines[3:])) == without_time(whole[3:])


def test_two_do_not_play_one_run(home):
    scenario = scene(player("a"))
    with show.conducting(Log(home), scenario, "r"):
        second = show.conducting(Log(home), scenario, "r")
        with pytest.raises(show.RunTaken):
            second.__enter__()
    with show.conducting(Log(home), scenario, "r") as free:
        free.play()


def test_a_remark_of_a_visitor_advances_the_turn(home):
    listener = player("a", schedule={}, subscribes_to=["user.injected"])
    stage = conduct(home, scene(listener, ticks=6))
    for _ in range(2):
        stage.advance()
    show.inject(Log(home), "r", "The lights go out.", "weather")
    stage.play()
    events = kept(home)
    (visit,) = [e for e in events if e["kind"] == "user.injected"]
    (answer,) = [e for e in events if e["actor"] == "a"]
    assert visit["payload"] == {"text": "The lights go out.", "label": "weather"}
    assert (visit["actor"], visit["turn"], answer["turn"]) == ("visitor", 1, 2)
    assert "The lights go out" in answer["payload"]["text"]


def test_events_of_any_client_are_read_in_their_order(home):
    stage = conduct(home, scene(player("a"), ticks=4), group=64)
    said = {**SHOUT, "run_id": "r", "turn": 1}
    stage.advance()  # under way, and not kept yet
    home.intake.admit([orjson.dumps(said)], "fishbowl")
    stage.play()
    events = kept(home)
    assert events[0]["kind"] == "user.injected"
    assert sum(e["kind"] == "run.started" for e in events) == 1
    assert events[-1]["payload"]["reason"] == "tick_cap"
    ids = [e["id"] for e in events]
    assert len(ids) == len(set(ids))


SHOUT = {
    "id": "shout", "run_id": "r", "turn": 1, "kind": "user.injected", "actor": "visitor",
    "payload": {"text": "Boo!"}, "created_at": "2026-05-05T09:00:00Z", "schema_version": 1,
}  # fmt: skip


def test_who_speaks_while_a_model_thinks_comes_first(home):
    def slowly(_prompt):
        show.inject(Log(home), "r", "Fire!")
        return spoke("As I was saying.")

    stage = conduct(home, scene(player("a"), ticks=3), {"a": Scripted(slowly)})
    stage.play()
    turns = [e["turn"] for e in kept(home)]
    assert turns == sorted(turns)
    kinds = [e["kind"] for e in kept(home)]
    assert kinds.index("user.injected") < kinds.index("agent.spoke")


def test_who_writes_between_the_check_and_the_write_is_seen_once_and_in_order(home):
    """A collector that is sent an event of the run does not wait for the lock of the turn."""
    seen = []
    stage = conduct(home, scene(player("a"), ticks=3), watch=lambda body: seen.append(body["id"]))
    stage.advance()
    admit, turn = stage.journal.admit, stage.state.turn

    def late(lines, dialect):
        stage.journal.admit = admit
        home.intake.admit([orjson.dumps({**SHOUT, "turn": turn})], dialect)
        return admit(lines, dialect)

    stage.journal.admit = late
    stage.play()
    events = kept(home)
    assert [event["id"] for event in events].count("shout") == 1
    assert seen == [event["id"] for event in events], "each is shown once, in the journal's order"
    again = conduct(home, scene(player("a"), ticks=3))
    assert again.state.events == stage.state.events == len(events)


def test_a_visitor_ends_a_run_and_no_remark_is_accepted_after(home):
    stage = conduct(home, scene(player("a"), ticks=50))
    for _ in range(4):
        stage.advance()
    show.stop(Log(home), "r")
    assert stage.play()["reason"] == "user_stop"
    with pytest.raises(show.RunOver):
        show.inject(Log(home), "r", "More!")


def test_interrupted_it_says_so_on_record(tmp_path):
    process = show_of(EXAMPLES[0], "--home", tmp_path, "--run", "r")
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    assert "user_stop" in out
    with Home(tmp_path, readonly=True) as home:
        assert kept(home)[-1]["payload"]["reason"] == "user_stop"


@pytest.mark.parametrize(
    ("limits", "calls", "turn", "reason"),
    [
        ({}, [], 100, None),
        ({}, [], 101, "max_turns"),
        ({"max_turns": 3}, [], 3, None),
        ({"max_turns": 3}, [], 4, "max_turns"),
        ({}, [(1, 0)] * 7, 1, None),
        ({}, [(1, 0)] * 8, 1, "max_calls_per_turn"),
        ({"max_calls_per_turn": 999}, [(1, 0)] * 499, 1, None),
        ({"max_calls_per_turn": 999}, [(1, 0)] * 500, 1, "max_total_calls"),
        ({}, [(10**9, 0)], 1, None),
        ({"max_total_tokens": 10}, [(9, 0)], 1, None),
        ({"max_total_tokens": 10}, [(5, 0), (5, 0)], 1, "max_total_tokens"),
        ({}, [(0, 10.0**6)], 1, None),
        ({"hourly_budget_usd": 1.0}, [(0, 0.5)], 1, None),
        ({"hourly_budget_usd": 1.0}, [(0, 0.5), (0, 0.5)], 1, "hourly_budget_usd"),
    ],
)
def test_every_bound_trips_where_it_says(limits, calls, turn, reason):
    governor = Governor(PlayLimits.model_validate(limits))
    governor.begin_turn(turn)
    for tokens, cost in calls:
        governor.record_call(tokens, cost, at=0.0)
    if reason is None:
        governor.check(now=1.0)
        return
    with pytest.raises(BudgetExceeded) as trip:
        governor.check(now=1.0)
    assert trip.value.reason == reason
    governor.reset()
    governor.check(now=1.0)
    assert governor.limits == PlayLimits.model_validate(limits)


def test_an_hour_later_there_is_money_again():
    governor = Governor(PlayLimits(hourly_budget_usd=1.0))
    governor.record_call(0, 2.0, at=0.0)
    with pytest.raises(BudgetExceeded):
        governor.check(now=3599.0)
    governor.check(now=3600.0)


def test_to_begin_a_turn_again_does_not_forget_its_calls():
    governor = Governor(PlayLimits(max_calls_per_turn=9))
    governor.begin_turn(2)
    governor.record_call(1, 0.0, 0.0)
    for turn, calls in ((2, 1), (1, 1), (3, 0)):
        governor.begin_turn(turn)
        assert (governor.calls_this_turn, governor.turn) == (calls, max(turn, 2))


def test_a_text_is_recorded_without_the_space_around_it(home):
    events = played(home, scene(player("ada"), ticks=1), {"ada": Scripted(spoke("  Hello. \n"))})
    assert [e["payload"]["text"] for e in events if e["kind"] == "agent.spoke"] == ["Hello."]


def test_what_a_reply_cost_is_recorded_and_nothing_where_it_cost_nothing(home):
    replies = [spoke()._replace(cost=0.25), spoke()]
    events = played(home, scene(player("ada"), ticks=2), {"ada": Scripted(*replies)})
    said = [e["payload"] for e in events if e["kind"] == "agent.spoke"]
    assert [each.get("_cost_usd") for each in said] == [0.25, None]
    assert ["_cost_usd" in each for each in said] == [True, False]


def test_the_first_event_says_of_the_competition_only_what_the_scenario_does(home):
    events = played(home, load(next(path for path in EXAMPLES if path.stem == "inventors")))
    competition = events[0]["payload"]["competition"]
    assert competition["kind"] != "none"
    assert None not in competition.values()


@pytest.mark.parametrize(("by", "says"), [("ann", "The curtain, please, says ann."), ("", "The curtain, please.")])  # fmt: skip
def test_who_asks_for_the_end_is_named(home, by, says):
    stage = conduct(home, scene(player("ada"), ticks=9))
    stage.advance()
    show.stop(Log(home), "r", by)
    assert kept(home)[-1]["payload"]["text"] == says


def test_a_run_out_of_budget_is_closed_and_says_which_bound(home):
    stage = conduct(home, scene(player("a"), ticks=None, governor={"max_total_calls": 2}))
    with pytest.raises(BudgetExceeded) as trip:
        stage.play()
    assert trip.value.reason == "max_total_calls"
    events = kept(home)
    assert events[-1]["payload"]["reason"] == "budget"
    assert sum(e["actor"] == "a" for e in events) == 2
    assert conduct(home, stage.scenario).done


def test_in_overtime_the_judge_rules_ungated_and_the_close_is_corrected(home):
    piece = contest("judged").model_copy(
        update={"governor": PlayLimits(max_turns=2), "ticks": None, "overtime": True}
    )
    stage = conduct(home, piece, {"host": Scripted(ruled("anna"))})
    with pytest.raises(BudgetExceeded):
        stage.play()
    events = kept(home)
    assert [e["kind"] for e in events[-3:]] == ["run.finished", "judge.verdict", "run.finished"]
    assert [e["payload"]["reason"] for e in (events[-3], events[-1])] == ["budget", "verdict"]
    assert events[-1]["payload"]["winner"] == "anna"


def test_an_error_costs_a_turn_and_never_the_run(home):
    model = Scripted(RuntimeError("boom"), ModelFailed("no server"), None, spoke("Back."))
    stage = conduct(home, scene(player("a"), ticks=4), {"a": model})
    stage.play()
    events = kept(home)
    errors = [e["payload"]["error"] for e in events if e["kind"] == "turn.skipped"]
    assert errors == ["RuntimeError", "ModelFailed"]
    assert stage.state.agent_errors == 2
    assert [e["turn"] for e in events if e["actor"] == "a"] == [4]  # it abstained in the third
    assert events[-1]["payload"]["tokens"] == 5


def test_nobody_is_triggered_by_itself_or_acts_too_often_in_a_row(home):
    echo = player("echo", schedule={}, subscribes_to=["agent.spoke", "world.observed"])
    keen = player("keen", schedule={"tick_every": 1, "max_consecutive": 2}, subscribes_to=[])
    alone = played(home, scene(echo, ticks=5))
    assert sum(e["actor"] == "echo" for e in alone) == 1
    keen_alone = played(home, scene(keen, ticks=5), run="other")
    assert sum(e["actor"] == "keen" for e in keen_alone) == 2


def remarks(mind: Mind, *said: tuple[str, str]) -> None:
    for place, (actor, kind) in enumerate(said):
        mind.notice(Remark(place, place, kind, actor, f"{actor} {place}"))


def a_mind(**changes) -> Mind:
    return Mind(Manifest.model_validate(player("me", **changes)))


def test_a_player_receives_what_is_public_or_subscribed_and_no_thought():
    mind = a_mind(subscribes_to=["clue.found"])
    others = [
        "world.observed", "judge.verdict", "user.injected", "run.started", "agent.reflected",
        "agent.spoke", "oracle.spoke", "clue.found", "agent.thought", "image.generated",
    ]  # fmt: skip
    mind.player.memory.window = 8
    remarks(mind, *(("you", kind) for kind in others))
    assert [each.kind for each in mind.recall()] == others[:8]
    remarks(mind, ("me", "agent.thought"))
    assert mind.recall()[-1].kind == "agent.thought"


def test_a_window_keeps_the_last_and_salience_what_matters():
    said = [("you", "user.injected"), *[("you", "agent.spoke")] * 9]
    near = a_mind(memory={"window": 3})
    remarks(near, *said)
    assert [each.place for each in near.recall()] == [7, 8, 9]
    salient = a_mind(memory={"window": 20, "use_salience": True, "salience_top_k": 3})
    remarks(salient, *said)
    assert [each.place for each in salient.recall()] == [0, 8, 9]


@pytest.mark.parametrize("cost", [0.5, 0.0])
def test_what_a_reflection_cost_is_recorded_and_nothing_where_it_cost_nothing(home, cost):
    thinker = player(
        "t", subscribes_to=["agent.spoke"], may_emit=["agent.spoke", "agent.reflected"],
        memory={"reflection_threshold": 1.5}, schedule={},
    )  # fmt: skip
    thought = spoke("Hm.", "agent.reflected")._replace(cost=cost)
    model = Scripted(
        *(lambda p: thought if p.kinds == ["agent.reflected"] else spoke() for _ in range(9))
    )
    events = played(home, scene(player("a"), thinker, ticks=4), {"t": model})
    paid = [e["payload"] for e in events if e["kind"] == "agent.reflected"]
    assert paid
    assert {each.get("_cost_usd") for each in paid} == {cost or None}
    assert {"_cost_usd" in each for each in paid} == {bool(cost)}


@pytest.mark.parametrize("who", ["host", "ada"])
def test_only_a_verdict_that_was_due_at_the_end_is_skipped_as_forced(home, who):
    cast = (player("ada"), a_judge())
    models = {who: Scripted(*[ModelFailed("no", "again")] * 9)}
    events = played(home, scene(*cast, competition={"kind": "judged"}), models)
    skipped = [e["payload"] for e in events if e["kind"] == "turn.skipped"]
    assert skipped
    assert {each["agent"] for each in skipped} == {who}
    assert [each.get("forced") for each in skipped][-1] == (True if who == "host" else None)
    assert all("forced" not in each or each["forced"] is True for each in skipped)


def test_a_player_reflects_after_enough_remarks(home):
    thinker = player(
        "t", subscribes_to=["agent.spoke"], may_emit=["agent.spoke", "agent.reflected"],
        memory={"reflection_threshold": 1.5}, schedule={},
    )  # fmt: skip
    events = played(home, scene(player("a"), thinker, ticks=6))
    kinds = [e["kind"] for e in events if e["actor"] == "t"]
    # 0.3 + 0.7 of the opening and 0.5 for each remark: after one, then after every third.
    said = ["agent.spoke"]
    assert kinds == [*said, "agent.reflected", *said * 3, "agent.reflected", *said * 2]


def test_every_fault_of_a_scenario_is_reported_with_its_place(tmp_path):
    (tmp_path / "bad.yaml").write_text("name: carl\npersona: 7\nmay_emit: [Nope]\n")
    path = tmp_path / "play.yaml"
    path.write_text(
        "name: play\ngoal: Go.\ngenesis_text: Here.\nwhat: 1\ncast:\n"
        "  - bad.yaml\n  - missing.yaml\n  - name: anna\n    persona: A.\n    role: king\n"
    )
    with pytest.raises(BadScenario) as error:
        load(path)
    places = {(fault.place.removeprefix(f"{tmp_path}/"), fault.at) for fault in error.value.faults}
    assert places == {
        ("play.yaml:4:1", "what"),
        ("play.yaml:7:5", "cast.1"),
        ("play.yaml:10:5", "cast.2.role"),
        ("bad.yaml:2:1", "cast.0.persona"),
        ("bad.yaml:3:12", "cast.0.may_emit.0"),
    }


HOST = a_judge()
AB = [player("anna"), player("bert"), HOST]


@pytest.mark.parametrize(
    ("cast", "changes", "said"),
    [
        ([], {}, "nobody is in the cast"),
        ([player("a"), player("a")], {}, "2 players are called"),
        ([player("visitor")], {}, "no player"),
        ([player("play")], {}, "no player"),
        ([player("a", subscribes_to=["agent.thought"])], {}, "agent.thought is private"),
        ([player("a", memory={"reflection_threshold": 1})], {}, "needs agent.reflected"),
        ([a_judge(may_emit=[])], {}, "needs judge.verdict"),
        ([player("a", handler="spy-host")], {}, "only a judge"),
        ([a_judge(handler="spy-host")], {}, "needs a competition of the kind versus"),
        (AB, {"competition": {"kind": "judged", "teams": TEAMS}}, "teams belongs to versus"),
        (AB, {"competition": {"symmetric_seats": ["anna"]}}, "symmetric_seats belongs to versus"),
        (AB, {"competition": {"kind": "versus"}}, "needs teams or symmetric_seats"),
        (AB[:2], {"competition": {"kind": "judged"}}, "needs a judge"),
        (AB, {"competition": {"kind": "versus", "teams": {}}}, "there is no team"),
        (AB, {"competition": {"kind": "versus", "teams": {"x": []}}}, "has no members"),
        (AB, {"competition": {"kind": "versus", "teams": {"x": ["zed"]}}}, "not in the cast"),
        (AB, {"competition": {"kind": "versus", "teams": {"anna": ["bert"]}}}, "name of a player"),
        (
            AB,
            {"competition": {"kind": "versus", "teams": {"x": ["anna"], "y": ["anna"]}}},
            "also in the team",
        ),
        (
            AB,
            {"competition": {"kind": "versus", "teams": TEAMS, "hidden": "zed"}},
            "there is no team 'zed'",
        ),
        (
            AB,
            {"competition": {"kind": "versus", "teams": {"spy": ["anna"]}}},
            "there must be two teams, and there are 1",
        ),
        (AB, {"competition": {"kind": "versus", "symmetric_seats": ["anna"]}}, "fewer than two"),
        (
            [*AB, player("c", persona="Other.")],
            {"competition": {"kind": "versus", "symmetric_seats": ["anna", "c"]}},
            "differ in more",
        ),
        (AB, {"secrets": {"zed": "x"}}, "not in the cast"),
        (AB, {"repertoire": {"anna": {"clue.found": ["x"]}}}, "may not emit"),
        (AB, {"repertoire": {"anna": {"agent.spoke": ["{nope}"]}}}, "in braces only these"),
        (AB, {"repertoire": {"anna": {"agent.spoke": []}}}, "no lines"),
    ],
)
def test_what_cannot_be_played_is_refused_at_load(tmp_path, cast, changes, said):
    path = tmp_path / "play.yaml"
    told = {"name": "play", "goal": "Go.", "genesis_text": "Here.", "cast": cast, **changes}
    path.write_bytes(orjson.dumps(told))  # JSON is YAML
    with pytest.raises(BadScenario) as error:
        load(path)
    assert any(said in fault.message for fault in error.value.faults), error.value.faults
    assert all(fault.place.startswith(f"{path}:1:") for fault in error.value.faults)


@pytest.mark.parametrize("written", ["a: [", "a: 1\na: 2", "- 1", "", "\tx: 1", "!!python/x 1"])
def test_a_file_that_is_no_scenario_is_an_error_and_never_a_traceback(tmp_path, written):
    path = tmp_path / "play.yaml"
    path.write_text(written)
    with pytest.raises(BadScenario, match=r"play\.yaml") as caught:
        load(path)
    assert ("is empty" in str(caught.value)) == (not written)


@pytest.mark.parametrize("name", ["accused", "correct", "no_contest", "text", "_tokens"])
def test_a_manifest_may_not_declare_what_code_writes(name):
    with pytest.raises(ValidationError, match="not by a player"):
        Manifest.model_validate(player("a", output_extra_fields=[name]))


def test_symmetric_seats_are_alike_but_for_the_model(home):
    seats = [player(name, model_endpoint=f"model://{name}") for name in ("anna", "bert")]
    contest = {"kind": "versus", "symmetric_seats": ["anna", "bert"]}
    piece = scene(*seats, a_judge(), ticks=1, competition=contest)
    end = played(home, piece, {"host": Scripted(ruled("bert"))})[-1]["payload"]
    assert (end["winner"], end["winning_model"]) == ("bert", "model://bert")


@requirement("BOWL-61", "BOWL-58")
def test_the_engine_validates_with_the_model_before_it_appends(home):
    stage = conduct(home, scene(player("a")))
    with pytest.raises(ValidationError):
        stage._emit("Not A Kind", "a", {})
    assert kept(home) == []


@requirement("BOWL-65")
def test_each_rule_lives_where_it_belongs():
    assert speech.FishbowlEnvelope is conductor.FishbowlEvent
    assert agents.validate_winner.__module__.endswith(".agents")
    assert finale.attribute.__module__.endswith(".finale")
    source = Path(agents.__file__).parent
    makers = [p.name for p in source.glob("*.py") if '"winning_models":' in p.read_text()]
    assert makers == ["finale.py"]
    reasks = [p.name for p in source.glob("*.py") if "judge.correction(" in p.read_text()]
    assert reasks == ["agents.py"]


def run_cli(*arguments: object) -> subprocess.CompletedProcess:
    return tracklog(None, "host", "fishbowl", *arguments, given="", text=True)


def show_of(*arguments: object) -> subprocess.Popen:
    ends = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return Tracklog("host", "fishbowl", *arguments, **ends, text=True)


def test_a_show_is_printed_and_can_be_checked(tmp_path):
    done = run_cli(str(EXAMPLES[0]), "--home", str(tmp_path), "--fast", "--seed", "rain")
    assert done.returncode == 0, done.stderr
    assert "(seed: rain)" in done.stdout
    assert "ended by verdict" in done.stdout
    assert run_cli("check", *map(str, EXAMPLES)).returncode == 0
    bad = tmp_path / "bad.yaml"
    bad.write_text("name: x\n")
    failed = run_cli("check", str(bad))
    assert failed.returncode == 1
    assert f"{bad}:1:1: goal" in failed.stderr
    assert run_cli(str(bad), "--home", str(tmp_path)).returncode == 2


def test_offline_every_line_is_used_once_before_any_is_repeated(home):
    lines = {"agent.spoke": ["a", "b", "c"], "agent.thought": ["x", "y"]}
    scenario = scene(player("one", may_emit=list(lines)), repertoire={"one": lines}, ticks=40)
    events = played(home, scenario)
    for kind, known in lines.items():
        said = [e["payload"]["text"] for e in events if e["kind"] == kind]
        assert len(said) > 2 * len(known)
        rounds = [said[n : n + len(known)] for n in range(0, len(said), len(known))]
        assert all(sorted(each) == known for each in rounds[:-1])


def test_a_scenario_with_tools_gets_a_warning_that_a_stage_calls_none(tmp_path):
    path = tmp_path / "play.yaml"
    path.write_text(
        "name: play\ngoal: Go on.\ngenesis_text: Now.\nticks: 1\n"
        "cast: [{name: a, persona: Somebody., tools: [search, shell], may_emit: [agent.spoke]}]\n"
    )
    for verb in (["check", path], [path, "--fast", "--home", tmp_path / "home"]):
        done = run_cli(*verb)
        assert done.returncode == 0, done.stderr
        assert "a names tools (search, shell), but a play calls no tools" in done.stderr


def test_a_visitor_speaks_from_another_process(tmp_path):
    with show_of(EXAMPLES[0], "--home", tmp_path, "--run", "r", "--json") as process:
        process.stdout.readline()
        said = run_cli("inject", "r", "I want a refund.", "--home", str(tmp_path))
        assert said.returncode == 0, said.stderr
        until = time.monotonic() + 30
        for line in process.stdout:
            if "“I want a refund”" in orjson.loads(line)["payload"].get("text", ""):
                break
            assert time.monotonic() < until
        assert run_cli("stop", "r", "--home", str(tmp_path)).returncode == 0
        process.communicate(timeout=30)
    with Home(tmp_path, readonly=True) as home:
        assert kept(home)[-1]["payload"]["reason"] == "user_stop"
        turns = [event["turn"] for event in kept(home)]
        assert turns == sorted(turns)


def test_a_visitor_speaks_through_a_collector(tmp_path):
    listener = player("a", schedule={}, subscribes_to=["user.injected"])
    collector = Collector(tmp_path)
    try:
        with Home(tmp_path, durability="os") as home:
            stage = conduct(home, scene(listener, ticks=9))
            for _ in range(3):
                stage.advance()
            sent = collector.post([orjson.dumps(SHOUT)], "fishbowl")
            assert sent.status_code == 200, sent.text
            stage.play()
            actors = [event["actor"] for event in kept(home)]
            assert actors == ["conductor", "play", "visitor", "a", "conductor"]
    finally:
        collector.stop()


def test_offline_a_topic_is_a_long_word_of_the_remark_and_no_name_of_a_player():
    player = Manifest.model_validate(
        {"name": "anna", "persona": "Dry.", "may_emit": ["agent.spoke"]}
    )
    remark = Remark(1, 1, "agent.spoke", "cello", "Cello sings of biscuits")
    prompt = Prompt(
        player=player, kinds=["agent.spoke"], seed="s", goal="", scene="", recall=[remark],
        others=["cello"], about=remark, remarks=0, turn=1,
        lines={"agent.spoke": ["{topic}?"]},
    )  # fmt: skip
    topics = set()
    for seed in map(str, range(30)):
        reply = Offline().reply(replace(prompt, seed=seed))
        topics |= {reply.payload["text"]} if reply else set()
    assert topics == {"biscuits?", "sings?"}


@pytest.mark.parametrize(
    ("lines", "share"),
    [
        ({}, 1 / 2),
        ({"agent.spoke": ["a", "b", "c"]}, 3 / 4),  # one without lines counts as one line
        ({"agent.spoke": ["a"], "agent.thought": ["b", "c", "d"]}, 1 / 4),
    ],
)
def test_offline_a_kind_is_chosen_as_often_as_it_has_lines(lines, share):
    kinds = ["agent.spoke", "agent.thought"]
    player = Manifest.model_validate({"name": "a", "persona": "Dry.", "may_emit": kinds})
    prompt = Prompt(
        player=player, kinds=kinds, seed="", goal="", scene="", recall=[], others=["b"],
        about=None, remarks=0, turn=1, lines=lines,
    )  # fmt: skip
    replies = [Offline().reply(replace(prompt, seed=str(number))) for number in range(2000)]
    spoke = sum(reply is not None and reply.kind == "agent.spoke" for reply in replies)
    assert abs(spoke / 2000 - share) < 0.04
    quiet = player.model_copy(update={"role": "observer"})
    seen = [Offline().reply(replace(prompt, player=quiet, seed=str(n))) for n in range(2000)]
    assert abs(sum(reply is not None for reply in seen) / 2000 - 1 / 3) < 0.04


def test_offline_a_judge_gives_its_verdict_by_schedule_and_never_as_an_answer():
    remark = Remark(1, 1, "agent.spoke", "b", "Biscuits are late.")

    def kinds(about: Remark | None, *may_emit: str) -> set[str | None]:
        judge = Manifest.model_validate({"name": "j", "persona": "Dry.", "may_emit": [*may_emit]})
        prompt = Prompt(
            player=judge, kinds=[*may_emit], seed="", goal="", scene="", recall=[remark],
            others=["b"], about=about, remarks=0, turn=1, lines={},
        )  # fmt: skip
        replies = [Offline().reply(replace(prompt, seed=str(number))) for number in range(20)]
        return {reply and reply.kind for reply in replies}

    assert kinds(None, "judge.verdict", "agent.spoke") == {"judge.verdict"}
    assert kinds(remark, "judge.verdict", "agent.spoke") == {"agent.spoke"}
    assert kinds(remark, "judge.verdict") == {None}
    assert kinds(None, "agent.reflected") == kinds(remark, "agent.reflected") == {"agent.reflected"}


def test_a_player_counts_how_often_it_acted_by_kind():
    mind = Mind(Manifest.model_validate({"name": "a", "persona": "x", "may_emit": ["agent.spoke"]}))
    for place, kind in enumerate(("agent.spoke", "agent.thought", "agent.spoke")):
        mind.notice(Remark(place, 1, kind, "a", "x"))
    assert mind.remarks == 3
    assert mind.remarks_by_kind == {"agent.spoke": 2, "agent.thought": 1}
