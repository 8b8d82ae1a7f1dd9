"""Secrets: found, named, never shown, taken out where that is asked for."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.collecting import Collector
from support.forking import tracklog
from tracklog.formats.importing import Importing
from tracklog.home.home import Home
from tracklog.intake import secrets
from tracklog.recording.recorder import Recorder

LETTERS = "Zk9QmW3xVb7TnR5yLcD1sFhJ8pGqE2uA4wXoN6iKtBzMrYvCgHdSfUjPeOl0"


def made(prefix: str, size: int) -> str:
    """Something that looks like a secret; put together here, so that no scanner cries."""
    return prefix + (LETTERS * 5)[:size]


SECRETS = {
    "aws-access-key": "AKIA" + "IOSFODNN7EXAMPL2".replace("7", "4").replace("0", "2"),
    "github-token": made("ghp_", 36),
    "gitlab-token": made("glpat-", 20),
    "anthropic-key": made("sk-ant-api03-", 40),
    "openai-key": made("sk-proj-", 40),
    "slack-token": "xoxb-" + "123456789012-" + made("", 24),
    "google-key": made("AIza", 35),
    "stripe-key": made("sk_live_", 24),
    "npm-token": made("npm_", 36),
    "huggingface-token": made("hf_", 34),
    "jwt": ".".join(("eyJhbGciOiJIUzI1NiJ9", "eyJzdWIiOiIxMjM0NTY3ODkwIn0", made("", 43))),
    "private-key": "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA7\nq0+/=\n-----END RSA PRIVATE KEY-----",
}
AROUND = {
    "aws-secret-key": ("aws_secret_access_key = ", made("", 40)),
    "url-password": ("postgres://app:", "hunter2pass", "@db.example.org/x"),
    "authorization": ("Authorization: Bearer ", made("", 30)),
    "assignment": ('password = "', "tr0ub4dor-and-3x", '"'),
}


def line_of(text, **more) -> bytes:
    body = {"id": "i1", "run": "r1", "fact": "Said", "role": "user"}
    body |= {"blocks": [{"type": "text", "text": text}], **more}
    return orjson.dumps({**body, "origin": {"writer": "cli", "fidelity": "observed"}})


@pytest.mark.parametrize("kind", sorted(SECRETS))
def test_a_secret_is_found_inside_a_line_and_inside_json_in_a_line(kind):
    for text in (f"use {SECRETS[kind]} now", orjson.dumps({"a": [SECRETS[kind]]}).decode()):
        line = line_of(text)
        assert [found.name for found in secrets.find(line)] == [kind]
        clean, names = secrets.redact(line)
        assert names == (kind,)
        assert orjson.loads(clean)["run"] == "r1"
        assert f"[redacted:{kind}]" in orjson.loads(clean)["blocks"][0]["text"]
        assert secrets.find(clean) == []


@pytest.mark.parametrize("kind", sorted(AROUND))
def test_a_secret_that_is_known_by_what_stands_before_it_is_found(kind):
    before, secret, *after = AROUND[kind]
    clean, names = secrets.redact(line_of(before + secret + "".join(after)))
    assert names == (kind,)
    assert secret.encode() not in clean
    assert orjson.dumps(before)[1:-1] in clean


@pytest.mark.parametrize(
    "text",
    [
        "the token was refused",
        "password: changeme-please-1234",
        'api_key = os.environ["OPENAI_API_KEY"]',
        "https://example.org/a:b@c",
        "commit 3f786850e387550fdab836ed7e6dc881de23001b",
        "sk-learn is a library, xoxo, npm_config_registry",
        "token_count: 123456789012",
        "run 3f1c1f2e-9a5b-4c7d-8e21-0a1b2c3d4e5f",
    ],
)
def test_what_is_no_secret_is_left_alone(text):
    line = line_of(text)
    assert secrets.redact(line) == (line, ())


@given(st.text(), st.sampled_from(sorted(SECRETS)))
def test_only_the_secret_is_taken_out_and_the_line_stays_json(text, kind):
    secret = SECRETS[kind]
    line = line_of(f"{text} {secret} {text}")
    clean, names = secrets.redact(line)
    assert kind in names
    said = orjson.loads(clean)["blocks"][0]["text"]
    assert secret not in said
    if names == (kind,):
        assert said.startswith(text[:1])


@given(st.binary())
def test_any_bytes_can_be_scanned(content):
    clean, names = secrets.redact(content)
    assert (clean == content) == (not names)


def test_a_masker_takes_secrets_out_of_an_event_and_leaves_its_ids():
    event = {
        "seq": 1,
        "run_id": "r",
        "type": "tool.call",
        "payload": {
            "input": {"env": {"API_KEY": "Zk9QmW3xVb7TnR5y"}, "n": 1},
            "blocks": [f"x {SECRETS['jwt']}"],
        },
    }
    masked = secrets.masker()(event)
    assert masked["payload"]["input"] == {"env": {"API_KEY": "[redacted:assignment]"}, "n": 1}
    assert masked["payload"]["blocks"] == ["x [redacted:jwt]"]
    assert (masked["seq"], masked["run_id"], masked["type"]) == (1, "r", "tool.call")


def test_a_masker_leaves_what_is_no_secret_wherever_it_stands():
    plain = {
        "note": "hello", "count": 3, "none": None, "yes": True, "list": ["a", {"b": "c"}, 1.5],
        "deep": {"API_KEY": "short", "text": "the token was refused", "half": "\ud800"},
    }  # fmt: skip
    event = {"seq": 1, "run_id": "r", "type": "tool.call", "payload": {"input": plain, "id": "x"}}
    assert secrets.masker()(event) == event
    jwt = SECRETS["jwt"]
    event["payload"]["input"] = {"said": f"a {jwt} b", "list": [{"x": jwt}], "note": "hello"}
    assert secrets.masker()(event)["payload"] == {
        "input": {"said": "a [redacted:jwt] b", "list": [{"x": "[redacted:jwt]"}], "note": "hello"},
        "id": "x",
    }


def test_secrets_names_the_place_that_erase_takes_and_never_the_secret(tmp_path):
    secret = SECRETS["anthropic-key"]
    lines = [line_of("hello"), line_of(f"key {secret}", id="i2"), line_of("bye", id="i3")]
    tracklog(tmp_path / "home", "record", given=b"\n".join(lines) + b"\n")
    found = tracklog(tmp_path / "home", "secrets")
    assert found.returncode == 1
    assert found.stdout == b"tracklog:r1 2  anthropic-key\n"
    assert secret.encode() not in found.stdout + found.stderr
    run, seq = found.stdout.decode().split()[:2]
    erased = tracklog(tmp_path / "home", "erase", run, seq, "--reason", "a key", "--yes")
    assert erased.returncode == 0
    again = tracklog(tmp_path / "home", "secrets")
    assert (again.returncode, again.stdout) == (0, b"")
    held = b"".join(path.read_bytes() for path in (tmp_path / "home").rglob("*") if path.is_file())
    assert secret.encode() not in held


def test_secrets_in_what_was_refused_are_found_too(tmp_path):
    bad = b'{"id":"","run":"r1","text":"' + SECRETS["npm-token"].encode() + b'"}\n'
    assert tracklog(tmp_path / "home", "record", "--dialect", "tracklog", given=bad).returncode == 1
    found = tracklog(tmp_path / "home", "secrets")
    assert found.stdout == b"refused 1  npm-token\n"


def test_record_redacts_where_asked_and_that_is_on_record(tmp_path):
    secret = SECRETS["github-token"]
    done = tracklog(tmp_path / "home", "record", "--redact", given=line_of(f"key {secret}") + b"\n")
    assert done.returncode == 0
    with Home(tmp_path / "home", readonly=True) as home:
        [record] = home.journal.read(0, 10)
        assert list(record.redacted) == ["github-token"]
        assert secret.encode() not in record.line


def test_import_redacts_lines_and_blobs(tmp_path):
    secret, big = SECRETS["openai-key"], "word " * 20_000
    messages = [
        {"id": "m1", "timestamp": "2026-05-05T09:00:00.000Z", "type": "user", "content": secret},
        {"id": "m2", "timestamp": "2026-05-05T09:00:01.000Z", "type": "user",
         "content": f"{big}{secret}"},
    ]  # fmt: skip
    session = {"sessionId": "s", "projectHash": "h", "messages": messages}
    path = tmp_path / "session-x.json"
    path.write_bytes(orjson.dumps(session))
    plain, clean = tmp_path / "plain", tmp_path / "clean"
    with Home(plain) as home:
        Importing(home).bring([path])
        records = iter(home.journal.read(0, 100))
        leaks = list(secrets.leaks(records, home.blobs.get))
    assert [(leak.kind, leak.blob is not None) for leak in leaks] == [
        ("openai-key", False),
        ("openai-key", True),
    ]
    with Home(clean, redact=secrets.redact) as home:
        Importing(home).bring([path])
        assert list(secrets.leaks(iter(home.journal.read(0, 100)), home.blobs.get)) == []
    held = b"".join(each.read_bytes() for each in clean.rglob("*") if each.is_file())
    assert secret.encode() not in held


@pytest.mark.parametrize("first", [None, secrets.redact])
def test_a_line_imported_with_or_without_its_secrets_is_not_recorded_again(first, tmp_path):
    secret, big = SECRETS["github-token"], "word " * 20_000
    path = tmp_path / "session-x.jsonl"
    message = {"id": "m", "timestamp": "2026-05-05T09:00:00.000Z", "type": "user"}
    contents = [f"a {secret}", f"{big}{secret}", "plain"]
    path.write_bytes(
        b"".join(
            orjson.dumps(each) + b"\n"
            for each in [
                {"sessionId": "s", "projectHash": "h"},
                *({**message, "id": f"m{n}", "content": text} for n, text in enumerate(contents)),
            ]
        )
    )
    with Home(tmp_path / "home", redact=first) as home:
        kept = Importing(home).bring([path]).lines
        blobs = [blob for record in home.journal.read(0, 100) for blob in _blobs(record.line)]
    assert [blob.get("redacted") for blob in blobs] == [["github-token"] if first else None]
    with Home(tmp_path / "home", redact=None if first else secrets.redact) as home:
        again = Importing(home).bring([path], again=True)
        assert again.lines == {"duplicate": kept["accepted"]}
        held = b"".join(record.line for record in home.journal.read(0, 100))
    assert (secret.encode() in held) == (first is None)


def _blobs(line):
    left = [orjson.loads(line)]
    while left:
        each = left.pop()
        if isinstance(each, dict):
            if "$blob" in each:
                yield each["$blob"]
            left += each.values()
        elif isinstance(each, list):
            left += each


def test_another_line_under_the_id_of_a_redacted_one_is_refused(tmp_path):
    with Home(tmp_path / "home", redact=secrets.redact) as home:
        assert home.intake.admit([line_of(SECRETS["jwt"])], "tracklog")[0].verdict == "accepted"
        assert home.intake.admit([line_of(SECRETS["jwt"])], "tracklog")[0].verdict == "duplicate"
        other = line_of(SECRETS["jwt"], role="assistant")
        assert home.intake.admit([other], "tracklog")[0].verdict == "refused"


def conversation(path, said):
    """One answer of Claude Code, which may still go on: its reader remembers what it said."""
    message = {
        "id": "m1",
        "role": "assistant",
        "model": "x",
        "content": [{"type": "text", "text": said}],
    }
    path.write_bytes(
        orjson.dumps(
            {
                "type": "assistant", "uuid": "u1", "sessionId": "3f1c1f2e-9a5b-4c7d-8e21-0a1b2c3d4e5f",
                "timestamp": "2026-05-05T09:00:00.000Z", "requestId": "r1", "message": message,
            },
            option=orjson.OPT_APPEND_NEWLINE,
        )
    )  # fmt: skip
    return path


def holding(home, secret):
    return [
        each for each in home.rglob("*") if each.is_file() and secret.encode() in each.read_bytes()
    ]


def test_what_a_reader_remembers_of_a_source_is_redacted_too(tmp_path):
    secret = SECRETS["github-token"]
    path = conversation(tmp_path / "c.jsonl", secret)
    with Home(tmp_path / "home", redact=secrets.redact) as home:
        assert Importing(home).bring([path]).lines["accepted"]
    assert list((tmp_path / "home" / "sources").iterdir())
    assert holding(tmp_path / "home", secret) == []


def test_what_was_erased_is_nowhere_and_stays_out_when_it_is_imported_again(tmp_path):
    secret = SECRETS["github-token"]
    path = conversation(tmp_path / "c.jsonl", secret)
    with Home(tmp_path / "home") as home:
        Importing(home).bring([path])
        [leak] = secrets.leaks(iter(home.journal.read(0, 10)), home.blobs.get)
        home.erase(leak.run, leak.seq, reason="a token", by="me")
    assert holding(tmp_path / "home", secret) == []
    with Home(tmp_path / "home") as home:  # another process: it knows what the journal says
        assert Importing(home).bring([path], again=True).lines["accepted"] == 0
        assert list(secrets.leaks(iter(home.journal.read(0, 10)), home.blobs.get)) == []


def test_erasing_a_record_takes_the_blob_that_only_it_spoke_of(tmp_path):
    with Home(tmp_path / "home") as home:
        name = home.blobs.put(SECRETS["jwt"].encode())
        blob = {"$blob": {"sha256": name, "bytes": 1, "media_type": "text/plain"}}
        home.intake.admit([line_of(blob)], "tracklog")
        [leak] = secrets.leaks(iter(home.journal.read(0, 10)), home.blobs.get)
        assert (leak.kind, leak.blob) == ("jwt", name)
        done = home.erase("r1", leak.seq, reason="a token", by="me")
        assert done.also == (f"blobs/{name}",)
        assert list(home.blobs.list()) == []


EVERY_SECRET = " ".join([*SECRETS.values(), *("".join(parts) for parts in AROUND.values())])


def awf_lines(text: str) -> list[bytes]:
    """A prompt, a system prompt, a reply, and a call with its arguments and its result."""
    run = "3f1c1f2e-9a5b-4c7d-8e21-0a1b2c3d4e5f"
    word = {"type": "text", "fidelity": "agent_emitted", "text": text}
    tool = {"name": "sh", "call_id": "t", "fidelity": "router", "output": None, "input": None}
    call = {"type": "tool_use", "fidelity": "router", "tool_name": "sh", "tool_id": "t"}
    call["tool_input"] = {"env": text, text: 1}
    result = {"type": "tool_result", "tool_id": "t", "fidelity": "router", "tool_content": text}
    said = [
        ("message.user", {"role": "user", "blocks": [word], "system_prompt": text}),
        ("message.assistant", {"role": "assistant", "blocks": [word]}),
        ("tool.call", {**tool, "input": {"env": text, text: 1}, "blocks": [call]}),
        ("tool.result", {**tool, "output": text, "blocks": [result]}),
    ]
    envelope = {"run_id": run, "path": "a", "iteration": 0, "timestamp": "2026-05-05T09:00:00Z"}
    return [
        orjson.dumps({"seq": n, "type": kind, **envelope, "payload": payload})
        for n, (kind, payload) in enumerate(said, 1)
    ]


@pytest.mark.requirement("AWF-71")
@pytest.mark.parametrize("way", ["record", "serve"])
def test_no_secret_is_masked_by_default_on_the_way_into_a_journal(tmp_path, way):
    lines = awf_lines(EVERY_SECRET)
    assert {found.name for found in secrets.find(lines[0])} >= {*SECRETS, *AROUND} - {"assignment"}
    if way == "record":
        given = b"\n".join(lines) + b"\n"
        done = tracklog(tmp_path, "record", "--dialect", "awf", given=given)
        assert done.returncode == 0, done.stderr
    else:
        collector = Collector(tmp_path)
        try:
            assert collector.post(lines, "awf").json()["accepted"] == len(lines)
        finally:
            collector.stop()
    with Home(tmp_path, readonly=True) as home:
        records = home.journal.read()
        assert [record.line for record in records] == lines
        assert [tuple(record.redacted) for record in records] == [()] * len(lines)


@pytest.mark.requirement("AWF-71", "AWF-21")
def test_a_workflow_records_prompt_system_prompt_and_arguments_with_their_secrets(tmp_path):
    (tmp_path / "plugins.py").write_text("def show(env): return env\n")
    flow = {
        "name": "leaky",
        "tools": {"show": "plugins.py:show"},
        "steps": [
            {"name": "ask", "kind": "agent", "prompt": EVERY_SECRET, "on_error": "continue",
             "agent": {"command": ["cat"], "system": EVERY_SECRET, "stdin": "{{prompt}}"}},
            {"name": "call", "kind": "operation", "tool": "show", "input": {"env": EVERY_SECRET}},
        ],
    }  # fmt: skip
    (tmp_path / "flow.yaml").write_bytes(orjson.dumps(flow))  # JSON is YAML
    done = tracklog(tmp_path / "home", "host", "workflow", tmp_path / "flow.yaml")
    assert done.returncode == 0, done.stderr
    with Home(tmp_path / "home", readonly=True) as home:
        records = home.journal.read()
        told = [orjson.loads(record.line) for record in records if record.family == "awf"]
    assert not any(record.redacted for record in records)
    (asked,) = [body["payload"] for body in told if body["type"] == "message.user"]
    assert {block.get("part"): block["text"] for block in asked["blocks"]} == {
        "system_prompt": EVERY_SECRET, "prompt": EVERY_SECRET,
    }  # fmt: skip
    (called,) = [body["payload"] for body in told if body["type"] == "tool.call"]
    assert called["input"] == {"env": EVERY_SECRET}
    (returned,) = [body["payload"] for body in told if body["type"] == "tool.result"]
    assert returned["output"] == EVERY_SECRET


@pytest.mark.requirement("AWF-71", "AWF-72")
def test_a_recorder_masks_no_secret_by_default(tmp_path):
    bodies = [orjson.loads(line) for line in awf_lines(EVERY_SECRET)]
    with Recorder.open(bodies[0]["run_id"], tmp_path) as recorder:
        for body in bodies:
            recorder.record(body["type"], body["payload"], path="a")
    written = [orjson.loads(line) for line in recorder.path.read_bytes().splitlines()]
    assert [line["payload"] for line in written] == [body["payload"] for body in bodies]


def test_the_name_of_an_assignment_stands_at_most_forty_bytes_before_it():
    value = made("", 30).encode()
    near = secrets.NEAR - len(b"api_key")
    assert secrets.NEAR == 40
    for blanks, found in ((near, ["assignment"]), (near + 1, [])):
        line = b"#" * 50 + b"api_key" + b" " * blanks + b'="' + value + b'"'
        assert [each.name for each in secrets.find(line)] == found


@pytest.mark.parametrize(
    ("value", "bits"), [(b"aaaa", 0), (b"abab", 1), (b"abcd", 2), (b"aabc", 1.5)]
)
def test_entropy_is_measured_in_bits_per_character(value, bits):
    assert secrets.entropy(value) == pytest.approx(bits)
