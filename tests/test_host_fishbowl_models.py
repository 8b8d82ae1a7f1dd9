"""Players on a model server: a small real one that answers, fails, stalls and limits."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import orjson
import pytest

from tracklog.home import Home
from tracklog.hosts.fishbowl import endpoint, show
from tracklog.hosts.fishbowl.conductor import Conductor
from tracklog.hosts.fishbowl.endpoint import Endpoint
from tracklog.hosts.fishbowl.manifest import Manifest
from tracklog.hosts.fishbowl.models import ModelFailed, Prompt
from tracklog.hosts.fishbowl.scenario import BadScenario, Scenario

pytest.importorskip("openai", reason="the client for model servers is an extra")


def completion(content: str | None, tokens: int = 7) -> dict:
    message = {"role": "assistant", "content": content}
    return {
        "id": "c-1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 1, "completion_tokens": tokens - 1, "total_tokens": tokens},
    }


@contextmanager
def serving(*answers) -> Iterator[tuple[str, list[dict]]]:
    """A model server with these answers: text, a status, or seconds to stall; the last repeats."""
    left, asked = list(answers), []

    class Answering(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            size = int(self.headers["Content-Length"])
            asked.append(
                {
                    "path": self.path,
                    "key": self.headers["Authorization"],
                    **json.loads(self.rfile.read(size)),
                }
            )
            answer = left.pop(0) if len(left) > 1 else left[0]
            if isinstance(answer, float):
                time.sleep(answer)
            status = answer if isinstance(answer, int) else 200
            told = completion(answer if isinstance(answer, str) else "late")
            body = json.dumps(told if status == 200 else {"error": {"message": "no"}}).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Retry-After", "0")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_arguments):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1#m", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def a_prompt(**changes) -> Prompt:
    extra = ["winner", "scores"]
    manifest = {"name": "anna", "persona": "Dry.", "may_emit": ["agent.spoke"]}
    player = Manifest.model_validate({**manifest, "output_extra_fields": extra})
    told = Prompt(player, ["agent.spoke"], "s", "Win.", "A room.", [], ["bert"], None, 0, 1)
    for name, value in changes.items():
        setattr(told, name, value)
    return told


def asked_of(url: str, prompt: Prompt, **options):
    model = Endpoint(url, "secret", **options)
    try:
        return model.reply(prompt)
    finally:
        model._client.close()


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
    reply = endpoint.heard(said, a_prompt(), 1)
    assert reply is not None
    assert (reply.kind, reply.payload["text"]) == (kind, text)


def test_a_model_may_abstain_and_an_empty_reply_is_a_failure():
    assert endpoint.heard('{"kind": null}', a_prompt(), 1) is None
    with pytest.raises(ModelFailed, match="empty"):
        endpoint.heard("  ", a_prompt(), 1)


def test_a_server_that_limits_is_asked_again():
    with serving(429, 503, '{"text":"At last."}') as (url, asked):
        assert asked_of(url, a_prompt()).payload["text"] == "At last."
    assert len(asked) == 3


@pytest.mark.parametrize("answer", [401, 500, 0.6])
def test_a_server_that_fails_or_stalls_is_a_failed_turn(answer):
    with serving(answer) as (url, _), pytest.raises(ModelFailed, match="m: "):
        asked_of(url, a_prompt(), patience=0.15)


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
            Conductor(home, scenario, "r", cast).play()
            events = [orjson.loads(record.line) for record in home.journal.records()]
        cast["anna"]._client.close()
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
