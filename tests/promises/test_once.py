"""The section "Recorded once": identities, batch keys, offsets of files and of pipes."""

import json
import os
import subprocess
import threading
import time
from hashlib import sha256
from itertools import islice, permutations
from pathlib import Path
from uuid import UUID

import orjson
import pytest

from promises.command import TRACKLOG, Serving, environment, lines_of, run
from support.collecting import start, tool
from support.forking import tracklog
from support.sessions import SESSION, claude
from support.waiting import eventually

SAMPLES = Path(__file__).parents[1] / "samples" / "dialects"
WITH_IDENTITY = {
    "fishbowl": "a-judged-contest",
    "openwop": "a-cancelled-run",
    "awf": "a-whole-run",
    "tracklog": "every-fact",
}
OTHER_RUN = "7c0a1c9e-2b7e-4a53-9c57-1f1b8a6f0d11"
WITHOUT = ("kahn-ci", "kahn-agent", "ralph")


def sample(dialect: str) -> list[bytes]:
    folder = SAMPLES / dialect / "good"
    path = folder / f"{WITH_IDENTITY.get(dialect)}.jsonl"
    path = path if path.exists() else min(folder.glob("*.jsonl"))
    return path.read_bytes().split(b"\n")[:-1]


def of_another_run(line: bytes, run: str = OTHER_RUN) -> bytes:
    body = orjson.loads(line)
    (key,) = {"run_id", "runId", "run"} & body.keys()
    return orjson.dumps(body | {key: run})


def other(line: bytes) -> bytes:
    """The same identity with something else in it."""
    body = orjson.loads(line)
    for key in ("timestamp", "created_at", "at"):
        if key in body:
            body[key] = "2026-05-05T23:59:59Z"
    return orjson.dumps(body)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with Serving(tmp_path_factory.mktemp("home"), "--durability", "os") as made:
        yield made


def counts(answer) -> tuple[int, int, int]:
    assert answer.status_code == 200, answer.text
    return tuple(answer.json()[name] for name in ("accepted", "duplicate", "refused"))


def last(server: Serving) -> int:
    return server.get("/api/events").json()["last"]


# Identities


@pytest.mark.promise(
    "An event with an identity (in the dialects `fishbowl`, `openwop`, `awf` and `tracklog`)",
)
@pytest.mark.parametrize("dialect", WITH_IDENTITY)
def test_an_event_with_an_identity_is_recorded_once(server, dialect):
    lines = [of_another_run(line, str(UUID(int=1))) for line in sample(dialect)]
    lines = [line for line in lines if b'"by":"ada"' not in line]  # only an operator may say so
    assert counts(server.post(lines, dialect)) == (len(lines), 0, 0)
    before = last(server)
    assert counts(server.post(lines, dialect)) == (0, len(lines), 0)
    assert counts(server.http.post("/api/events", content=b"\n".join(lines), headers={
        "Content-Type": "application/x-ndjson"})) == (0, len(lines), 0)  # fmt: skip  # one request
    done = run("record", "--home", server.home, "--dialect", dialect, input=b"\n".join(lines))
    assert done.stderr.startswith(b"0 accepted, %d duplicate" % len(lines))
    assert last(server) == before


@pytest.mark.promise(
    "If an event with other content has the same identity",
    "`awf` is the exception: there it is recorded, with a finding",
)
@pytest.mark.parametrize("dialect", WITH_IDENTITY)
def test_the_same_identity_with_a_different_line(server, dialect):
    line = of_another_run(sample(dialect)[0])
    assert counts(server.post([line], dialect)) == (1, 0, 0)
    respelled = json.dumps(dict(reversed(orjson.loads(line).items()))).encode()
    assert counts(server.post([respelled], dialect)) == (0, 1, 0)
    changed = other(line)
    assert changed != line
    if dialect != "awf":
        answer = server.post([changed], dialect)
        assert counts(answer) == (0, 0, 1)
        (verdict,) = answer.json()["verdicts"]
        assert verdict["problems"][0]["message"]
        return
    assert counts(server.post([changed], dialect)) == (1, 0, 0)
    found = run("findings", f"awf:{OTHER_RUN}", "--json", "--home", server.home).stdout.splitlines()
    assert "seq-dup" in [orjson.loads(finding)["name"] for finding in found]


@pytest.mark.promise(
    "Lines of `kahn-ci`, `kahn-agent` and `ralph` have no identity",
    "A line that is sent again is recognised only",
)
@pytest.mark.parametrize("dialect", WITHOUT)
def test_equal_lines_without_an_identity_are_two_events(server, dialect):
    line = sample(dialect)[0]
    assert counts(server.post([line, line], dialect)) == (2, 0, 0)
    assert counts(server.post([line], dialect)) == (1, 0, 0)
    key = {"Idempotency_Key": f"none-{dialect}"}
    assert counts(server.post([line], dialect, **key)) == (1, 0, 0)
    before = last(server)
    assert server.post([line], dialect, **key).json()["replayed"] is True
    assert last(server) == before


# Batch keys


@pytest.mark.promise(
    "A batch that is sent again with its key gets the first answer again",
)
@pytest.mark.parametrize("verbose", ["", "?verbose=true"])
def test_a_key_with_the_same_lines_gets_the_first_answer(server, verbose):
    """Of each kind of verdict: accepted, a duplicate, a duplicate inside the batch, refused."""
    known, new = sample("fishbowl")[:2]
    server.post([known], "fishbowl")
    name = f"bowl-{verbose}"
    new = new.replace(b'"run_id":"bowl', b'"run_id":"x' + name.encode())
    lines, key = [known, new, b"{}", new], {"Idempotency-Key": f"same{verbose}"}
    headers = {"Content-Type": "application/x-ndjson", **key}

    def post(to: Serving):
        return to.http.post(
            f"/api/events/fishbowl{verbose}", content=b"\n".join(lines), headers=headers
        )

    first = post(server)
    assert counts(first) == (1, 2, 1)
    assert "replayed" not in first.json()
    with Serving(server.home, "--durability", "os") as again:
        for each in (server, again, again):
            answer = post(each)
            assert answer.status_code == 200
            assert answer.json() == first.json() | {"replayed": True}


@pytest.mark.promise(
    "A batch is all lines of one `POST`",
    "Its sender can give it a name, the batch key",
)
def test_a_key_is_sent_in_the_address_or_in_a_header(server):
    line, headers = tool("keys"), {"Content-Type": "application/x-ndjson"}
    before = last(server)
    answer = server.http.post("/api/events/kahn-agent?batch=way", content=line, headers=headers)
    assert "replayed" not in answer.json()
    assert server.post([line], Idempotency_Key="way").json()["replayed"] is True
    assert last(server) == before + 1


@pytest.mark.promise(
    "A batch that has the key of another batch is refused with 409",
)
@pytest.mark.promise(
    "Two batches are the same if",
)
def test_a_key_with_other_lines_is_409(server):
    lines = [tool("conflict", step=n) for n in range(3)]
    assert counts(server.post(lines, Idempotency_Key="c")) == (3, 0, 0)
    before = last(server)
    others = [lines[:2], [*lines, lines[0]], lines[::-1], [lines[0].replace(b" ", b""), *lines[1:]]]
    others = [each for each in others if each != lines] + [[tool("conflict", step=9)]]
    for each in others:
        answer = server.post(each, Idempotency_Key="c")
        assert answer.status_code == 409
        assert answer.json()["hint"]
    headers = {"Content-Type": "application/x-ndjson", "Idempotency-Key": "c"}
    answer = server.http.post("/api/events", content=b"\n".join(lines), headers=headers)
    assert answer.status_code == 409, "lines whose dialect is not named are another batch"
    assert last(server) == before
    assert counts(server.post([*lines, b"{}"], Idempotency_Key="d")) == (3, 0, 1)
    answer = server.post([*lines, b'{"mended":1}'], Idempotency_Key="d")
    assert answer.status_code == 409, "a refused line counts"


@pytest.mark.promise(
    "Several collectors on one home know each other's batch keys",
)
def test_two_collectors_on_one_home_take_a_batch_once(server):
    with Serving(server.home, "--durability", "os") as second:
        before, answers = last(server), []

        def post(to: Serving) -> None:
            for n in range(30):
                lines = [tool("both", step=n), tool("both", step=n)]
                answers.append((n, to.post(lines, Idempotency_Key=f"both-{n}").json()))

        senders = [threading.Thread(target=post, args=(each,)) for each in (server, second)]
        for sender in senders:
            sender.start()
        for sender in senders:
            sender.join(120)
        for n in range(30):
            one, two = (answer for number, answer in answers if number == n)
            assert one | {"replayed": True} == two | {"replayed": True}
            assert sorted([one.get("replayed", False), two.get("replayed", False)]) == [False, True]
        assert last(server) == before + 60
        assert second.post([tool("both")], Idempotency_Key="both-0").status_code == 409


@pytest.mark.promise(
    "A batch key is remembered only if at least one line of its batch was recorded",
    "A batch whose lines were all refused is checked again",
)
def test_a_key_under_which_all_was_refused_is_free(server):
    key = {"Idempotency_Key": "free"}
    assert counts(server.post([b"{}"], **key)) == (0, 0, 1)
    answer = server.post([tool("free")], **key)
    assert counts(answer) == (1, 0, 0)
    assert "replayed" not in answer.json()
    assert server.post([b"{}"], **key).status_code == 409


@pytest.mark.promise("The last 100,000 keys and file offsets are remembered")
def test_the_last_100_000_keys_are_remembered(tmp_path):
    """The journal is written as its format is documented; opening it gives it its chain."""
    line, count = tool("r"), 100_003
    digest = sha256(b"kahn-agent\n" + line).hexdigest().encode()
    frame = (
        b'{"seq":%d,"received":"2026-05-05T09:00:00.000Z","dialect":"kahn-agent","family":"kahn",'
        b'"run":"r","mark":["batch:k%d",1,"%b","a1"],"event":%b}\n'
    )
    with Serving(tmp_path, "--durability", "os") as server:  # how a mark is written
        server.post([line], Idempotency_Key="k1")
    segment = tmp_path / "journal" / f"{1:020d}.jsonl"
    written = orjson.loads(segment.read_bytes())
    expected = orjson.loads(frame % (1, 1, digest, line))
    assert written == expected | {"received": written["received"]}
    (tmp_path / "marks.json").unlink()
    with segment.open("ab") as file:
        file.writelines(frame % (n, n, digest, line) for n in range(2, count + 1))
    with Serving(tmp_path, "--durability", "os") as server:
        assert last(server) == count
        for known in (4, 5, count):
            answer = server.post([line], Idempotency_Key=f"k{known}").json()
            assert (answer.get("replayed"), answer["last_seq"]) == (True, known)
        assert "replayed" not in server.post([line], Idempotency_Key="k3").json()


@pytest.mark.promise("The last 100,000 keys and file offsets are remembered")
def test_the_offset_of_a_file_is_one_of_the_last_100_000(tmp_path):
    """The journal is continued as its format is documented; opening it gives it its chain."""
    home, path, line = tmp_path / "home", tmp_path / "run.jsonl", tool("r")
    path.write_bytes(line + b"\n")
    assert record(home, path).startswith(b"1 accepted")
    segment = home / "journal" / f"{1:020d}.jsonl"
    digest = sha256(b"kahn-agent\n" + line).hexdigest().encode()
    frame = (
        b'{"seq":%d,"received":"2026-05-05T09:00:00.000Z","dialect":"kahn-agent","family":"kahn",'
        b'"run":"r","mark":["batch:k%d",1,"%b","a1"],"event":%b}\n'
    )
    with segment.open("ab") as file:
        file.writelines(frame % (n, n, digest, line) for n in range(2, 100_001))
    assert record(home, path).startswith(b"0 accepted, 1 duplicate")
    assert record(home, "--key", "one more", given=line + b"\n").startswith(b"1 accepted")
    assert record(home, path).startswith(b"1 accepted"), "it is not among the last any more"


@pytest.mark.promise("The last 100,000 keys and file offsets are remembered")
@pytest.mark.promise(
    "`tracklog prune` deletes the oldest segments",
)
def test_a_key_is_forgotten_with_its_records(tmp_path):
    batch = [start("old"), tool("old")]
    with Serving(tmp_path, "--durability", "os") as server:
        server.post(batch, Idempotency_Key="k")
    done = run("prune", "--older-than", "0d", "--open-too", "--home", tmp_path, "--json")
    assert done.returncode == 0, done.stderr
    assert orjson.loads(done.stdout)["records"] == 2
    with Serving(tmp_path, "--durability", "os") as server:
        answer = server.post(batch, Idempotency_Key="k").json()
        assert (answer["accepted"], answer.get("replayed")) == (2, None)
        assert answer["last_seq"] > 4, "numbers are not given out again"
    report = orjson.loads(run("verify", "--json", "--home", tmp_path).stdout)
    notes = 2  # who pruned, and for the run what it lacks
    assert (report["ok"], report["first"], report["records"]) == (True, 3, notes + 2)


# Files and pipes


def record(home: Path, *arguments: object, given: bytes = b"") -> bytes:
    """The last line on standard error: how many were accepted, duplicate, refused."""
    done = tracklog(home, "record", *arguments, given=given)
    assert done.returncode == 0, done.stderr
    return done.stderr.splitlines()[-1]


@pytest.mark.parametrize("verb", ["import", "follow --once"])
@pytest.mark.promise("`import` and `follow --once` record a last line without a line end")
@pytest.mark.promise("If it is not, the line is *torn*")
def test_a_last_line_without_a_line_end_is_recorded_when_it_is_complete(tmp_path, verb):
    home, path = tmp_path / "home", tmp_path / "run.jsonl"
    lines = [tool("r", step=n) for n in range(4)]
    whole = b"\n".join(lines)
    states = {lines[0][:-20]: (1, 0), whole[:-20]: (1, 3), whole: (0, 4), whole + b"\n": (0, 4)}
    for content, (code, number) in states.items():
        path.write_bytes(content)
        done = tracklog(home, *verb.split(), path)
        assert (done.returncode, b"not stored" in done.stderr) == (code, bool(code))
        place = b"run.jsonl, line %d: " % (content.count(b"\n") + 1)
        assert (place in done.stderr) == bool(code)
        there = lines_of(home, "r") if number else []
        assert [line for line in there if b'"imported"' not in line] == lines[:number]


@pytest.mark.promise("If it is not, the line is *torn*")
def test_a_torn_record_of_an_agent_is_reported_and_recorded_when_it_is_complete(tmp_path):
    home, path = tmp_path / "home", tmp_path / f"{SESSION}.jsonl"
    whole = b"".join(orjson.dumps(each) + b"\n" for each in islice(claude(), 6))
    for content, code in ((whole[:-20], 1), (whole[:-1], 0)):
        path.write_bytes(content)
        done = tracklog(home, "import", path)
        assert (done.returncode, b"line 6: the last record is torn" in done.stderr) == (
            code,
            bool(code),
        )
    assert tracklog(tmp_path / "whole", "import", path).returncode == 0
    rows = tracklog(tmp_path / "whole", "runs", "--json").stdout.splitlines()
    runs = {orjson.loads(row)["run"] for row in rows}
    assert runs
    for name in runs:
        assert set(lines_of(tmp_path / "whole", name)) <= set(lines_of(home, name))


@pytest.mark.promise("`follow` and `record FILE` store their offset in the journal")
@pytest.mark.promise(
    "A line that is sent again is recognised only by its batch key, or by its offset"
)
@pytest.mark.promise("`record --again` records the lines of a file once more")
@pytest.mark.parametrize("dialect", [(), ("--dialect", "kahn-agent")])
@pytest.mark.parametrize("rotated", [False, True])
def test_a_recorded_file_that_was_renamed_is_read_on_where_it_was(tmp_path, dialect, rotated):
    home, path, old = tmp_path / "home", tmp_path / "run.jsonl", tmp_path / "run.jsonl.1"
    lines = [tool("r", output=str(n)) for n in range(6)]
    path.write_bytes(b"\n".join(lines[:3]) + b"\n")
    assert tracklog(home, "record", *dialect, path).returncode == 0
    path.rename(old)
    with old.open("ab") as file:
        file.write(lines[3] + b"\n")
    if rotated:
        path.write_bytes(lines[4] + b"\n" + lines[5] + b"\n")
    for _ in range(2):
        for each in (old, path) if rotated else (old,):
            assert tracklog(home, "record", *dialect, each).returncode == 0
    assert lines_of(home, "r") == lines[: 6 if rotated else 4]


def test_a_copy_of_a_recorded_file_is_another_file(tmp_path):
    home, path, copy = tmp_path / "home", tmp_path / "run.jsonl", tmp_path / "copy.jsonl"
    lines = [tool("r", output=str(n)) for n in range(3)]
    for each in (path, copy):
        each.write_bytes(b"\n".join(lines) + b"\n")
        assert tracklog(home, "record", each).returncode == 0
    assert lines_of(home, "r") == [*lines, *lines]


@pytest.mark.promise(
    "A file that was replaced by another one is read from its start",
)
def test_a_file_is_continued_where_it_stopped(tmp_path):
    home, path = tmp_path / "home", tmp_path / "run.jsonl"
    lines = [tool("r", step=n) for n in range(6)]
    path.write_bytes(b"\n".join(lines[:3]) + b"\n")
    assert record(home, path).startswith(b"3 accepted")
    (home / "marks.json").unlink()  # a cache: the journal has the offset
    assert record(home, path).startswith(b"0 accepted, 3 duplicate")
    with path.open("ab") as file:
        file.write(b"\n".join(lines[3:]) + b"\n")
    assert record(home, path).startswith(b"3 accepted")
    assert lines_of(home, "r") == lines
    assert record(home, path, "--again").startswith(b"6 accepted")
    another = [tool("r", step=n, output="another") for n in range(8)]
    path.write_bytes(b"\n".join(another) + b"\n")
    assert record(home, path).startswith(b"8 accepted")
    assert lines_of(home, "r") == [*lines, *lines, *another]


@pytest.mark.promise(
    "`record`, `follow` and `import` continue a file where another of them stopped"
)
@pytest.mark.parametrize("replaced", [False, True])
@pytest.mark.parametrize("order", list(permutations(["record", "follow", "import"])))
def test_a_file_is_continued_by_another_command(tmp_path, order, replaced):
    home, path = tmp_path / "home", tmp_path / "run.jsonl"
    arguments = {"record": ["record"], "follow": ["follow", "--once"], "import": ["import"]}
    before = [tool("r", step=0, output="before")] if replaced else []
    if replaced:
        path.write_bytes(before[0] + b"\n")
        record(home, path)
    lines = [tool("r", step=n) for n in range(6)]
    for n, command in enumerate(order, 1):
        path.write_bytes(b"\n".join(lines[: 2 * n]) + b"\n")
        tracklog(home, *arguments[command], path)
    for command in order:  # nothing is new
        tracklog(home, *arguments[command], path)
    assert [line for line in lines_of(home, "r") if b"tool_invocation" in line] == [*before, *lines]


@pytest.mark.promise(
    "`record`, `follow` and `import` continue a file where another of them stopped"
)
@pytest.mark.promise(
    "A pipe that does not begin with all bytes that were read under its key before"
)
@pytest.mark.parametrize("named", [0, 1])
def test_it_is_the_same_dialect_whether_it_is_named_or_recognised(tmp_path, named):
    home, path = tmp_path / "home", tmp_path / "run.jsonl"
    lines = [tool("r", step=n) for n in range(3)]
    text = b"\n".join(lines) + b"\n"
    path.write_bytes(text)
    words = [["--dialect", "kahn-agent"], []]
    assert record(home, path, *words[named]).startswith(b"3 accepted")
    assert record(home, path, *words[not named]).startswith(b"0 accepted, 3 duplicate")
    for command in (["follow", "--once"], ["follow", "--once", *words[0]], ["import"]):
        assert tracklog(home, *command, path).returncode == 0
    piped = [tool("p", step=n) for n in range(3)]
    given = b"\n".join(piped) + b"\n"
    assert record(home, "--key", "k", *words[named], given=given).startswith(b"3 accepted")
    again = record(home, "--key", "k", *words[not named], given=given)
    assert again.startswith(b"0 accepted, 3 duplicate")
    refused = tracklog(home, "record", "--key", "k", *words[not named], given=text)
    assert refused.returncode == 2
    recorded = [line for line in lines_of(home, "r") if b"tool_invocation" in line]
    assert (recorded, lines_of(home, "p")) == (lines, piped)


@pytest.mark.promise("`record --again` records the lines of a file once more, except")
def test_again_does_not_double_events_with_an_identity(tmp_path):
    path = tmp_path / "bowl.jsonl"
    lines = sample("fishbowl")
    path.write_bytes(b"\n".join(lines) + b"\n")
    for expected in (b"%d accepted, 0 duplicate", b"0 accepted, %d duplicate"):
        assert record(tmp_path / "home", path, "--again").startswith(expected % len(lines))


@pytest.mark.promise("`follow` and `record FILE` store their offset in the journal")
@pytest.mark.promise(
    "A file that was replaced by another one is read from its start",
)
def test_a_followed_file_is_continued_where_it_stopped(tmp_path):
    home, folder = tmp_path / "home", tmp_path / "logs"
    folder.mkdir()
    path = folder / "run.jsonl"
    lines = [tool("r", step=n) for n in range(4)]

    def follow(code: int = 0) -> None:
        assert tracklog(home, "follow", "--once", folder).returncode == code

    path.write_bytes(b"\n".join(lines[:2]) + b"\n" + lines[2][:20])
    follow(1)  # half a line is not read, and reported
    assert lines_of(home, "r") == lines[:2]
    path.write_bytes(b"\n".join(lines) + b"\n")
    follow()
    follow()
    assert lines_of(home, "r") == lines
    another = [tool("r", step=n, output="another") for n in range(5)]
    path.unlink()
    path.write_bytes(b"\n".join(another) + b"\n")
    follow()
    assert lines_of(home, "r") == [*lines, *another]


@pytest.mark.promise(
    "A file that was replaced by another one is read from its start",
)
@pytest.mark.promise(
    "A file counts as replaced if the bytes before the offset",
)
@pytest.mark.promise("When a command starts, and when the file has a new inode, all bytes before")
@pytest.mark.parametrize("verb", ["follow --once", "record"])
@pytest.mark.parametrize("way", ["renamed onto it", "written in place"])
@pytest.mark.parametrize("after", ["", "new3"])
def test_a_file_that_only_begins_alike_is_another_file(tmp_path, verb, way, after):
    """Also one of the same size, and one that is longer than the offset."""
    path, other = tmp_path / "run.jsonl", tmp_path / "other"
    before = [tool("r", output=each) for each in ("same", "old2")]
    new = [tool("r", output=each) for each in ("same", "new2", after) if each]
    path.write_bytes(b"\n".join(before) + b"\n")
    assert tracklog(tmp_path / "home", *verb.split(), path).returncode == 0
    target = other if way == "renamed onto it" else path
    target.write_bytes(b"\n".join(new) + b"\n")
    if target is other:
        other.rename(path)
    for _ in range(2):  # and once only
        assert tracklog(tmp_path / "home", *verb.split(), path).returncode == 0
        assert lines_of(tmp_path / "home", "r") == [*before, *new]


@pytest.mark.promise("A running `follow` compares only the last 4 KiB before the offset")
@pytest.mark.parametrize("way", ["renamed onto it", "written in place"])
def test_a_running_follow_notices_another_file(tmp_path, way):
    home, path, other = tmp_path / "home", tmp_path / "run.jsonl", tmp_path / "other"
    files = [[tool("r", output=each) for each in words] for words in ("ab", "acd", "axde")]
    path.write_bytes(b"\n".join(files[0]) + b"\n")
    words = [TRACKLOG, "follow", path, "--home", home]
    follow = subprocess.Popen(words, env=environment(), stderr=subprocess.DEVNULL)
    try:
        for number, lines in enumerate(files):
            if number:
                target = other if way == "renamed onto it" else path
                target.write_bytes(b"\n".join(lines) + b"\n")
                if target is other:
                    other.rename(path)
            expected = [line for each in files[: number + 1] for line in each]
            until, heard = time.monotonic() + 240, b""
            while heard.split(b"\n")[:-1] != expected and time.monotonic() < until:
                time.sleep(0.2)
                heard = tracklog(home, "events", "r", "--raw").stdout
            assert heard.split(b"\n")[:-1] == expected
    finally:
        follow.terminate()
        follow.wait(60)


@pytest.mark.promise("When a command starts, and when the file has a new inode, all bytes before")
def test_a_running_follow_compares_all_bytes_of_a_file_with_a_new_inode(tmp_path):
    """The last 4 KiB before the offset are the same."""
    home, path, other = tmp_path / "home", tmp_path / "run.jsonl", tmp_path / "other"
    same = [tool("r", step=n, output="x" * 500) for n in range(12)]
    old, new = ([tool("r"), tool("r", output=word), *same] for word in ("old", "new"))
    assert sum(map(len, same)) > 4096
    path.write_bytes(b"\n".join(old) + b"\n")
    words = [TRACKLOG, "follow", path, "--home", home]
    follow = subprocess.Popen(words, env=environment(), stderr=subprocess.DEVNULL)

    def recorded(expected: list[bytes]) -> bool:
        return tracklog(home, "events", "r", "--raw").stdout.split(b"\n")[:-1] == expected

    try:
        assert eventually(lambda: recorded(old))
        other.write_bytes(b"\n".join(new) + b"\n")
        other.rename(path)
        assert eventually(lambda: recorded([*old, *new]))
    finally:
        follow.terminate()
        follow.wait(60)


@pytest.mark.promise(
    "With `record --key KEY` a pipe continues where it stopped",
)
@pytest.mark.promise(
    "Without a key, lines that have no identity are recorded again",
)
def test_a_pipe_is_continued_when_it_has_a_key(tmp_path):
    lines = [tool("r", step=n) for n in range(4)]

    def pipe(count: int, *key: str) -> bytes:
        return record(tmp_path, *key, given=b"\n".join(lines[:count]) + b"\n")

    key = ("--key", "nightly")
    assert pipe(2, *key).startswith(b"2 accepted")
    assert pipe(2, *key).startswith(b"0 accepted, 2 duplicate")
    assert pipe(4, *key).startswith(b"2 accepted, 2 duplicate")
    assert lines_of(tmp_path, "r") == lines
    assert pipe(2).startswith(b"2 accepted")
    assert pipe(2).startswith(b"2 accepted")
    assert lines_of(tmp_path, "r") == [*lines, *lines[:2], *lines[:2]]


@pytest.mark.promise(
    "A pipe that does not begin with all bytes that were read under its key",
    "None of its lines is recorded, and none is called a duplicate",
)
@pytest.mark.parametrize("others", [[9], [9, 1, 2], [0, 9, 2], [0, 1], [0, 9, 2, 3, 4], [9] * 5000])
def test_another_pipe_under_the_same_key_is_refused(tmp_path, others):
    lines = [tool("r", step=n) for n in range(10)]
    key = ("--key", "nightly")
    assert record(tmp_path, *key, given=b"\n".join(lines[:3]) + b"\n").startswith(b"3 accepted")
    given = b"".join(lines[n] + b"\n" for n in others)
    for more in ((), ("--json",)):
        done = tracklog(tmp_path, "record", *key, *more, given=given)
        assert (done.returncode, done.stdout) == (2, b"")
        assert b"duplicate" not in done.stderr.replace(b"0 duplicate", b"")
        assert b"give a new stream a key of its own" in done.stderr
    assert lines_of(tmp_path, "r") == lines[:3]


@pytest.mark.promise("Two processes that read one file into one home at the same time")
@pytest.mark.parametrize("verb", ["record", "record --key k", "follow --once"])
def test_two_at_the_same_time_record_a_file_once(tmp_path, verb):
    home, folder = tmp_path / "home", tmp_path / "logs"
    folder.mkdir()
    path = folder / "run.jsonl"
    lines = [tool("r", step=n, output="x" * 500) for n in range(4000)]
    path.write_bytes(b"\n".join(lines) + b"\n")
    assert record(home, os.devnull)  # the home is there
    given = [] if "--key" in verb else [folder if verb.startswith("follow") else path]
    words = [TRACKLOG, *verb.split(), *map(str, given), "--home", str(home)]
    started, quiet = [], subprocess.DEVNULL
    for _ in range(2):
        with path.open("rb") as file:
            started.append(
                subprocess.Popen(words, stdin=file, env=environment(), stdout=quiet, stderr=quiet)
            )
    assert [process.wait(120) for process in started] == [0, 0]
    assert lines_of(home, "r") == lines
