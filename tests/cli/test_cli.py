"""The command line as a person and as a program meet it: real processes, real files."""

import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import click
import orjson
import pytest

from support import forking
from support import sampling as samples
from tracklog import __version__
from tracklog.answers.registry import question_names
from tracklog.cli import tracklog as group
from tracklog.cli._groups import GROUPS, grouped
from tracklog.home import registry

GOOD = samples.ROOT / "dialects/kahn-agent/good/converges.jsonl"
START = b'{"ts":"2026-05-05T09:00:00.000Z","run_id":"r1","event":"agent_run_start","agent_id":"a","task":"t"}\n'


tracklog = partial(forking.tracklog, None)


def objects(done):
    return [orjson.loads(line) for line in done.stdout.splitlines()]


def test_all_accepted_exits_0_and_counts():
    done = tracklog("check", GOOD)
    assert done.returncode == 0
    assert done.stdout.decode().endswith("8 accepted (kahn-agent 8), 0 refused, 0 findings\n")
    assert done.stderr == b""


def test_something_refused_exits_1_and_shows_place_message_and_hint():
    done = tracklog("check", given=START + START.replace(b'"a"', b'"A"'))
    assert done.returncode == 1
    text = done.stdout.decode()
    assert "line 2    refused  kahn-agent agent_run_start" in text
    assert '/agent_id  "A" does not match' in text
    assert "first a letter or a digit" in text


def test_json_has_an_object_per_line_then_the_findings():
    done = tracklog("check", "--json", given=START + b"nope\n\n" + START)
    first, second, third, *found = objects(done)
    assert {k: first[k] for k in ("line", "verdict", "dialect", "kind", "run", "problems")} == {
        "line": 1,
        "verdict": "accepted",
        "dialect": "kahn-agent",
        "kind": "agent_run_start",
        "run": "r1",
        "problems": [],
    }
    assert (second["line"], second["verdict"], second["dialect"]) == (2, "refused", None)
    assert set(second["problems"][0]) == {"pointer", "message", "hint", "code"}
    assert (third["line"], third["verdict"]) == (4, "accepted")
    assert found[0]["finding"] == "second-start"
    assert found[0]["line"] == 4
    assert all({"finding", "line", "message"} <= set(each) for each in found)
    assert done.returncode == 1


def test_verbose_shows_accepted_lines_too():
    assert (
        b"line 1    accepted kahn-agent agent_run_start  run r1"
        in tracklog("check", "-v", given=START).stdout
    )


def test_a_given_dialect_is_the_only_one_tried():
    done = tracklog("check", "--dialect", "kahn-ci", given=START)
    assert done.returncode == 1
    assert b'/event  "agent_run_start" is not one of the 4 kinds' in done.stdout


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["check", "no-such-file"], "does not exist"),
        (["check", "."], "is a directory"),
        (["check", "--dialect", "klingon", "-"], "there is no dialect 'klingon'"),
        (["check", "--max-line", "0", "-"], "--max-line"),
        (["schema", "klingon"], "there is no schema 'klingon'"),
        (["chekc"], "did you mean `tracklog check`?"),
        (["xyzzy"], "there is no command 'xyzzy'\n  `tracklog --help` shows how"),
    ],
)
def test_wrong_use_exits_2_with_the_next_step(arguments, word, tmp_path):
    done = tracklog(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert word in done.stderr.decode()
    assert b"Traceback" not in done.stderr


def test_an_unreadable_file_does_not_hide_the_others(tmp_path):
    done = tracklog("check", tmp_path / "gone", GOOD)
    assert done.returncode == 2
    assert b"8 accepted" in done.stdout


def test_a_file_that_cannot_be_opened_is_reported(tmp_path):
    done = tracklog("check", tmp_path / ("x" * 300))
    assert done.returncode == 2
    assert b"cannot be read: File name too long" in done.stderr


@pytest.mark.parametrize(
    ("data", "word"),
    [
        (b"", "no lines"),
        (b"\n\n", "no lines"),
        (b'{"a":"\xff"}\n', "not UTF-8: byte 0xff"),
        (START[:30] + b"\0" + START[30:], "NUL bytes"),
        (b"\0" * 40 + b"\n", "NUL bytes"),
        (START.decode().replace("t", "日").encode("utf-16"), "iconv -f UTF-16"),
        ((START * 2).decode().encode("utf-16-le"), "iconv -f UTF-16"),
        ((START * 2).decode().encode("utf-16-be")[2:], "iconv -f UTF-16"),
        (b"\xef\xbb\xbf" + START, "a byte order mark was dropped"),
        (START.replace(b"\n", b"\r\n"), "1 accepted"),
        (START[:40], "torn"),
        (b'{\n "a": 1\n}\n', "one JSON object per line"),
    ],
)
def test_every_kind_of_broken_input_gets_a_clear_word(data, word):
    done = tracklog("check", given=data)
    assert word in done.stdout.decode()
    assert done.stderr == b""


def test_a_line_of_64_mib_is_refused_in_words_and_in_little_memory(tmp_path):
    path = tmp_path / "long.jsonl"
    path.write_bytes(b'{"a":"' + b"x" * (64 << 20) + b'"}\n' + START)
    script = (
        "import sys, tracemalloc; from tracklog.cli import tracklog; tracemalloc.start()\n"
        "try: tracklog.main(['check', sys.argv[1]], standalone_mode=False)\n"
        "except SystemExit: pass\n"
        "print(tracemalloc.get_traced_memory()[1])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, path], capture_output=True, timeout=120, check=True
    )
    *said, peak = done.stdout.decode().splitlines()
    assert "the line has 67,108,872 bytes, the cap is 16,777,216" in "\n".join(said)
    assert "1 accepted" in said[-1]
    assert int(peak) < 40 << 20, "bytes; the line alone has 64 MiB"


def test_a_reader_that_leaves_early_is_no_error():
    done = subprocess.run(
        f"yes '{START.decode().strip()}' | head -n 50000 | {sys.executable} -m tracklog check --json | head -n 1",
        shell=True,
        capture_output=True,
        timeout=120,
        check=True,
    )
    assert done.stderr == b""
    assert len(done.stdout.splitlines()) == 1


@pytest.mark.parametrize(
    "verb", ["check --json FILE", "check -v FILE", "dialects", "schema awf", "--help"]
)
def test_a_reader_that_left_is_distinguished_from_a_refused_line(verb, tmp_path):
    """141, as a shell says it of any program whose reader left; and nothing is said about it."""
    file = tmp_path / "events.jsonl"
    file.write_bytes(START * 2000)
    reader, writer = os.pipe()
    os.close(reader)
    done = tracklog(*verb.replace("FILE", str(file)).split(), stdout=writer)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device here")
@pytest.mark.parametrize("verb", ["check FILE", "check --json FILE", "dialects", "--help"])
def test_output_that_cannot_be_written_is_reported(verb):
    with Path("/dev/full").open("wb") as full:
        done = tracklog(*verb.replace("FILE", str(GOOD)).split(), stdout=full)
    assert done.returncode == 2
    assert done.stderr.decode().splitlines() == [
        "error: reading or writing failed: No space left on device",
        "  check that it exists, its owner and mode, and the free space on its disk",
    ]


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_no_error(closed, tmp_path):
    home, verb = tmp_path / "home", f"{sys.executable} -m tracklog"
    for words in (f"check {GOOD}", f"record --json --home {home} {GOOD}", f"tail --home {home}"):
        done = subprocess.run(
            f"{verb} {words} {closed}", shell=True, capture_output=True, timeout=120, check=False
        )
        assert (done.returncode, done.stderr) == (0, b""), words
    if "<" in closed:
        command = f"{verb} check {closed}"
        done = subprocess.run(command, shell=True, capture_output=True, timeout=120, check=False)
        assert (done.returncode, done.stderr) == (0, b"")


def test_a_file_name_that_is_not_utf8_is_spelled(tmp_path):
    file = os.path.join(os.fsencode(tmp_path), b"caf\xe9.jsonl")  # noqa: PTH118  # bytes
    with open(file, "wb") as out:  # noqa: PTH123  # bytes
        out.write(START)
    judged, *found = objects(tracklog("check", "--json", os.fsdecode(file)))
    assert judged["file"].endswith(r"caf\xe9.jsonl")
    assert found[0]["file"] == judged["file"]


def test_colours_are_for_terminals_only():
    assert b"\x1b[" not in tracklog("check", given=b"nope\n").stdout
    assert "\x1b[31m" in forking.on_terminal(80, None, "check", "-", given=b"nope\n")


@pytest.mark.parametrize("wish", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_who_wants_no_colours_gets_none(wish):
    checked = forking.on_terminal(80, None, "check", "-", given=b"nope\n", **wish)
    assert "refused" in checked
    failed = forking.on_terminal(80, "/nowhere", "events", "nobody", **wish)
    assert "nothing is recorded at" in failed
    assert "\x1b[" not in checked + failed


def test_the_list_of_verbs_cuts_no_sentence():
    said = tracklog("--help").stdout.decode()
    assert "..." not in said.replace("COMMAND [ARGS]...", "")
    assert "Check every line, and print every problem" in said


def test_every_command_has_examples_and_a_sentence_for_each_option():
    from tracklog.cli import tracklog as group  # noqa: PLC0415

    found = {" ".join(names): command for names, command in commands(group)}
    assert {"runs", "store init", "host workflow run"} <= found.keys()
    for path, command in found.items():
        if not path:
            continue  # the program itself
        assert command.help, path
        assert "Examples:" in (command.epilog or ""), path
        options = [param for param in command.params if isinstance(param, click.Option)]
        assert [param.name for param in options if not param.help] == [], path


def test_dialects_lists_every_dialect():
    names = [each["name"] for each in objects(tracklog("dialects", "--json"))]
    assert names == registry.dialect_names()
    shown = tracklog("dialects").stdout.decode()
    assert all(name in shown for name in names)


@pytest.mark.parametrize("name", [*registry.dialect_names(), "graph", "agent_manifest"])
def test_schema_prints_a_schema_that_judges_its_samples(name):
    from jsonschema_rs import Draft202012Validator  # noqa: PLC0415

    done = tracklog("schema", name)
    assert done.returncode == 0
    validator = Draft202012Validator(orjson.loads(done.stdout), validate_formats=True)
    for path in samples.of("good"):
        if samples.dialect_of(path) == name:
            for line in samples.lines_of(path):
                assert validator.is_valid(orjson.loads(line)), (path, line)


def test_an_interruption_while_it_starts_is_no_traceback(tmp_path):
    (tmp_path / "click.py").write_text("raise KeyboardInterrupt  # somebody is quick\n")
    done = subprocess.run(
        [sys.executable, "-m", "tracklog", "--version"],
        capture_output=True,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


def test_version_says_the_version():
    assert tracklog("--version").stdout.decode() == f"tracklog {__version__}\n"


def test_version_imports_nothing_heavy():
    script = "import sys, tracklog.cli; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    heavy = {
        "pydantic",
        "orjson",
        "jsonschema_rs",
        "rich",
        "asyncio",
        "tracklog.dialects",
        "shutil",
    }
    assert not heavy & set(done.stdout.decode().split())


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script(shell):
    assert b"_TRACKLOG_COMPLETE" in tracklog("completion", shell).stdout


def test_every_verb_is_in_one_group_and_help_lists_it_there_once():
    verbs = group.list_commands(None)
    placed = [verb for each in GROUPS for verb in each.verbs]
    assert len(placed) == len(set(placed))
    assert set(placed) <= set(verbs)
    assert set(verbs) - set(placed) < set(question_names()), "a question needs no place"
    shown = forking.tracklog(None, "--help").stdout.decode()
    for (name, *_), members in grouped(verbs):
        section = re.search(rf"^{name} \(.*?\):\n((?:  .*\n)+)", shown, re.MULTILINE)[1]
        assert re.findall(r"^  ([\w-]+)", section, re.MULTILINE) == members
    assert sorted(verb for _, members in grouped(verbs) for verb in members) == sorted(verbs)
    assert "Other" not in shown


@pytest.mark.parametrize(
    "arguments",
    [
        ["no-such-verb"], ["runs", "--no-such-option"], ["runs", "--limit", "few"], ["show"],
        ["runs", "too", "many"], ["follow", "/no/such/folder"], ["check", "/no/such/file"],
        ["schema", "no-such-schema"], ["host", "no-such-host"], ["runs", "--home", "http://x"],
        ["runs", "--demo", "--home", "."], ["host", "fishbowl", "--no-such-option"],
        ["exec"], ["record", "--dialect", "klingon", "/dev/null"],
    ],
)  # fmt: skip  # a table
def test_every_error_is_spelled_alike_and_says_what_to_do_next(arguments, tmp_path):
    done = forking.tracklog(tmp_path / "home", *arguments)
    assert done.returncode == 2
    lines = done.stderr.decode().splitlines()
    assert sum(line.startswith("error: ") for line in lines) == 1, lines
    assert "Error" not in done.stderr.decode()
    assert lines[-1].startswith("  ") or "; " in lines[-1], lines


def commands(command, *names):
    yield names, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            yield from commands(command.get_command(context, name), *names, name)


def test_no_help_text_holds_a_mark_of_its_layout():
    """Click leaves a mark that does not begin a paragraph in the text; it is printed as \\u0008."""
    every = list(commands(group))
    assert len(every) > 45
    # Under its root, as it is asked for: click keeps a verb's help option from its first use.
    root = click.Context(group, info_name="tracklog", **group.context_settings)
    found = {
        names: text
        for names, command in every
        if "\b" in (text := command.get_help(click.Context(command, root, " ".join(names))))
    }
    assert found == {}


@pytest.mark.parametrize("verb", [(), ("store",)])
def test_a_group_without_a_command_prints_its_help_and_no_error(verb):
    done = tracklog(*verb)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.strip() == tracklog(*verb, "--help").stdout.strip()
