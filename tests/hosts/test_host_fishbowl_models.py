"""Players on a model server: a small real one that answers, fails, stalls and limits."""

from collections.abc import Iterator
from contextlib import contextmanager

import orjson
import pytest

from support.serving import CUT, HANG, STALL, WHOLE
from support.serving import serving as model_server
from tracklog import Log
from tracklog.home.home import Home
from tracklog.hosts._endpoint import ModelFailed
from tracklog.hosts.fishbowl import endpoint, show
from tracklog.hosts.fishbowl.conductor import Conductor
from tracklog.hosts.fishbowl.endpoint import PlayerEndpoint
from tracklog.hosts.fishbowl.manifest import Manifest
from tracklog.hosts.fishbowl.models import Prompt
from tracklog.hosts.fishbowl.scenario import BadScenario, Scenario

pytest.importorskip("openai", reason="the client for model servers is an extra")


@contextmanager
def serving(*said) -> Iterator[tuple[str, list[dict]]]:
    with model_server(*said) as (url, asked):
        yield f"{url}#m", asked


def a_prompt(**changes) -> Prompt:
    extra = ["winner", "scores"]
    manifest = {"name": "anna", "persona": "Dry.", "may_emit": ["agent.spoke"]}
    player = Manifest.model_validate({**manifest, "output_extra_fields": extra})
    told = Prompt(player, ["agent.spoke"], "s", "Win.", "A room.", [], ["bert"], None, 0, 1)
    for name, value in changes.items():
        setattr(told, name, value)
    return told


def asked_of(url: str, prompt: Prompt, **options):
    model = PlayerEndpoint(url, "secret", **options)
    try:
        return model.reply(prompt)
    finally:
        model.close()


def test_a_reply_is_the_object_in_what_the_model_wrote():
    with serving('Sure! {"kind":"agent.spoke","text":"Hm.","winner":"bert"} Anything else?') as (
        url,
        asked,
    ):
        reply = asked_of(url, a_prompt(secret="It was me.", correction="'Zed' cannot win."))
    assert (reply.kind, reply.tokens) == ("agent.spoke", 7)
    assert reply.payload == {"text": "Hm.", "winner": "bert"}
    (request,) = asked
    assert (request["path"], request["model"]) == ("/v1/chat/completions", "m")
    assert request["key"] == "Bearer secret"
    told = " ".join(message["content"] for message in request["messages"])
    for part in ("anna", "Dry.", "A room.", "bert", "It was me.", "cannot win", "scores"):
        assert part in told


@pytest.mark.parametrize(
    ("said", "kind", "text"),
    [
        ("Just words.", "agent.spoke", "Just words."),
        ("{broken", "agent.spoke", "{broken"),
        ('```json\n{"text":"Hm."}\n```', "agent.spoke", "Hm."),
        ('{"kind":"run.finished","text":"Ha."}', "run.finished", "Ha."),
    ],
)
def test_sloppy_replies_are_read_as_far_as_they_go(said, kind, text):
    reply = endpoint.reply_in(said, a_prompt(), 1)
    assert reply is not None
    assert (reply.kind, reply.payload["text"]) == (kind, text)


def test_a_model_may_abstain_and_an_empty_reply_is_a_failure():
    assert endpoint.reply_in('{"kind": null}', a_prompt(), 1) is None
    with pytest.raises(ModelFailed, match="empty"):
        endpoint.reply_in("  ", a_prompt(), 1)


def test_a_server_that_limits_is_asked_again():
    with serving(429, 503, '{"text":"At last."}') as (url, asked):
        assert asked_of(url, a_prompt()).payload["text"] == "At last."
    assert len(asked) == 3


@pytest.mark.parametrize("answer", [401, 500, STALL, ("Half of it", HANG)])
def test_a_server_that_fails_or_stalls_is_a_failed_turn(answer):
    with serving(answer) as (url, _), pytest.raises(ModelFailed, match="m: "):
        asked_of(url, a_prompt(), patience=0.5)


def test_an_answer_that_breaks_off_is_no_answer():
    with serving(("Half of it", CUT)) as (url, _), pytest.raises(ModelFailed, match="broke off"):
        asked_of(url, a_prompt())


def test_a_server_that_does_not_stream_is_read_as_well():
    with serving(("Hm.", WHOLE)) as (url, asked):
        assert asked_of(url, a_prompt()).payload["text"] == "Hm."
    assert asked[0]["stream"] is True


def test_a_run_on_a_server_survives_its_failures(tmp_path):
    with serving(401, '{"kind":"agent.spoke","text":"Here."}') as (url, _):
        scenario = Scenario.model_validate(
            {
                "name": "play",
                "goal": "Go.",
                "genesis_text": "Here.",
                "ticks": 2,
                "profiles": {"fast": url},
                "cast": [
                    {
                        "name": "anna",
                        "persona": "Dry.",
                        "may_emit": ["agent.spoke"],
                        "schedule": {"tick_every": 1},
                    }
                ],
            }
        )
        cast = show.models(scenario, {"OPENAI_API_KEY": "k"})
        with Home(tmp_path, durability="os") as home:
            Conductor(Log(home), scenario, "r", cast).play()
            events = [orjson.loads(record.line) for record in home.journal.records()]
        cast["anna"].close()
    assert [event["kind"] for event in events[2:]] == [
        "turn.skipped", "agent.spoke", "run.finished",
    ]  # fmt: skip
    assert events[0]["payload"]["cast"]["anna"] == {
        "model_endpoint": None, "model_profile": "fast", "model": "m",
    }  # fmt: skip
    assert events[-1]["payload"]["tokens"] == 7


def test_an_endpoint_that_is_none_is_refused_before_anything_is_played():
    scenario = Scenario.model_validate(
        {
            "name": "play",
            "goal": "Go.",
            "genesis_text": "Here.",
            "cast": [{"name": "anna", "persona": "Dry.", "model_endpoint": "model://cara"}],
        }
    )
    with pytest.raises(BadScenario, match="neither offline:"):
        show.models(scenario, {})
