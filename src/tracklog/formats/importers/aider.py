"""aider: the chat history of Aider, a Markdown file of all sessions in a folder, and its analytics."""

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from tracklog.formats.importers import (
    Form,
    Importer,
    LineWriter,
    Raw,
    Reader,
    Signs,
    SourceFile,
    beginning,
    count,
    run_id,
    score,
    utc_time,
    word,
)
from tracklog.formats.importers._snapshots import open_run, text_block
from tracklog.formats.providers import obj, usage
from tracklog.model.fact import Ended, Noted, Said, Spent

NAME = "aider"
CHAT, LLM = ".aider.chat.history.md", ".aider.llm.history"
STARTED = "# aider chat started at "
SESSION = re.compile(
    r"^# aider chat started at (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)[ \t]*\r?$", re.MULTILINE
)
TOKENS = re.compile(
    r"Tokens: ([\d.,]+k?) sent(?:, ([\d.,]+k?) cache write)?(?:, ([\d.,]+k?) cache hit)?"
    r"(?:, ([\d.,]+k?) received)?\.?(?: Cost: \$([\d.]+) (?:message|request|send))?"
)
MODEL = re.compile(r"(?:Main model|Models?): (\S+)")
VERSION = re.compile(r"Aider v(\S+)")
RESULT = re.compile(r"(?:Applied edit to |Commit [0-9a-f]{7})")
ERROR = re.compile(r"^(?:\S*(?:Error|Exception)\b|The API provider|Unable to).*", re.MULTILINE)
FORWARDED = re.compile(r"(/[a-z-]+ (.+))\n+\2", re.DOTALL)
QUARTER = 900
FENCE = "```"


class SessionPiece(NamedTuple):
    """A piece of a session: what a person typed, what the program printed, or an answer."""

    kind: str
    text: str


class ChatReader(Reader):
    """Reads all sessions of a file, each as a run; the file has no other time than their start."""

    def identify(self, raw: Raw) -> str | None:
        session = next(sessions(str(raw.value)), None)
        return run_of(session[0], session[1], self.source) if session else None

    def record(self, raw: Raw) -> None:
        for started, number, text in sessions(str(raw.value)):
            self._session(started, number, text)

    def _session(self, started: str, number: int, text: str) -> None:
        self.out.run = self.out.keys[_name(started, number)] = run_of(started, number, self.source)
        at = utc_time(started.replace(" ", "T"))
        blocks = list(blocks_of(text))
        head = "\n".join(each.text for each in blocks[:3] if each.kind == "printed")
        model, version = MODEL.search(head), VERSION.search(head)
        self._model, self._began = model[1] if model else None, at
        self.out.about_revised("start", f"{model and model[1]} {version and version[1]}")
        path = self.source.path.absolute()
        open_run(self.out, NAME, _name(started, number), at=at, model=self._model,
                 version=version[1] if version else None,
                 cwd=str(path.parent) if path.name == CHAT else None)  # fmt: skip
        self.out.report.mapped["session"] += 1
        for place, block in enumerate(blocks):
            self.out.about_revised(f"block/{place}")
            self.out.report.mapped[block.kind] += 1
            typed = self._once(block.text) if block.kind == "typed" else block.text
            text = self.out.lift.text(typed)
            if block.kind == "typed":
                self.out.write(Said(role="user", blocks=(text_block(text),)))
            elif block.kind == "answer":
                fact = Said(role="assistant", blocks=(text_block(text),), model=self._model)
                self.out.write(fact)
            else:
                self._printed(place, block.text)

    def _once(self, text: str) -> str:
        """What a person typed; a command that passes a text on stands there twice: as typed, as sent."""
        twice = FORWARDED.fullmatch(text)
        if twice is None:
            return text
        self.out.report.ignored["a prompt: compared, a copy"] += 1
        return twice[1]

    def _printed(self, place: int, text: str) -> None:
        """What the program printed: notes, and the counts of a request."""
        label = "result" if RESULT.search(text) else "error" if ERROR.match(text) else "output"
        failed = ERROR.search(text) if label != "error" else None
        lifted = self.out.lift.text(text)
        if isinstance(lifted, str):
            self.out.write(Noted(label=label, kind="printed", text=lifted))
        else:
            self.out.write(Noted(label=label, kind="printed", data=lifted))
        if failed:  # between other lines
            self.out.write(Noted(label="error", kind="printed", text=failed[0]))
        for number, fields in enumerate(TOKENS.finditer(text)):
            sent, written, hit, received, cost = fields.groups()
            known = usage(
                {"printed": fields[0]},
                input_tokens=_whole(_amount(sent), _amount(hit)),
                cached_tokens=_amount(hit),
                cache_write_tokens=_amount(written),
                output_tokens=_amount(received),
            )
            spent = Spent(
                key=f"{self.out.run}/{place}/{number}",
                model=self._model,
                usage=known,
                cost_usd=float(cost) if cost and float(cost) > 0 else None,
                group=self.out.run,
                bound="lower",
            )
            self.out.write(spent, at=self._began, clock="session")  # the file has no other time


def run_of(started: str, number: int, source: SourceFile) -> str:
    """The run of a session: its start, and its file where another one has a session of that second."""
    name, path = _name(started, number), source.path.with_name(CHAT).absolute()
    known = source.others.keyed(name)
    if known is not None and known[0].absolute() not in (path, source.path) and known[0].exists():
        return run_id(NAME, f"{path}\n{name}")
    return run_id(NAME, name)


def _name(started: str, number: int) -> str:
    return f"{started}/{number}" if number else started


def sessions(text: str) -> Iterator[tuple[str, int, str]]:
    """The start of each session, its number among those with the same start, and its text."""
    marks = list(SESSION.finditer(text))
    seen: dict[str, int] = {}
    for mark, following in zip_longest(marks, marks[1:]):
        number = seen[mark[1]] = seen.get(mark[1], -1) + 1
        yield mark[1], number, text[mark.end() : following.start() if following else len(text)]


def blocks_of(text: str) -> Iterator[SessionPiece]:
    """The pieces of a session, in order; the text after a commit is its message, no answer."""
    kind, lines, until = "", list[str](), 0
    every = [each.removesuffix("\r") for each in text.split("\n")]
    for place, line in enumerate([*every, None]):
        if kind == "answer" and place >= until and (line or "").startswith(FENCE):
            until = _fence_end(every, place)
        if line is None:
            next_kind = ""
        elif place < until:
            next_kind = kind  # code may begin as anything
        elif line.startswith("#### "):
            next_kind = "typed"
        elif line.startswith("> "):
            next_kind = "printed"
        elif not line.strip():
            lines.append("")
            continue
        elif kind == "printed" and RESULT.match(_last(lines)) and _last(lines).startswith("Commit"):
            next_kind = "printed"
        else:
            next_kind = "answer"
        if next_kind != kind:
            content = "\n".join(lines).strip()
            if content:
                yield SessionPiece(kind or "answer", content)
            kind, lines = next_kind, []
        if line is not None:
            cut = line[5:] if next_kind == "typed" else line.removeprefix("> ")
            lines.append(cut.rstrip() if next_kind != "answer" else cut)


def _fence_end(lines: list[str], start: int) -> int:
    """The place behind a code block; its start where nothing ends it before the next prompt."""
    for place, line in enumerate(lines[start + 1 :], start + 1):
        if line.rstrip() == FENCE:
            return place + 1
        if line.startswith("#### "):
            break
    return start


def _last(lines: list[str]) -> str:
    return next((each for each in reversed(lines) if each.startswith("Commit ")), "")


def _whole(sent: int | None, hit: int | None) -> int | None:
    """The whole input: some backends count what the cache had beside what was sent."""
    return sent + hit if sent is not None and hit and hit > sent else sent


def _amount(text: str | None) -> int | None:
    """A count as it is printed: `2.8k` is rounded."""
    if not text:
        return None
    text = text.replace(",", "").rstrip(".")
    try:
        return round(float(text[:-1]) * 1000) if text.endswith("k") else round(float(text))
    except ValueError:
        return None


class AnalyticsReader(Reader):
    """Reads the analytics of sessions: exact counts, which replace those of the chat history."""

    def identify(self, raw: Raw) -> str | None:
        fields = obj(raw.value)
        return self._run(fields) if {"event", "time"} <= fields.keys() else None

    def _run(self, fields: dict[str, Any]) -> str:
        started = count(fields.get("time")) or 0
        for start, number in self._chats():
            apart = abs(start[1] - started)
            if apart < 15 * 3600 and min(apart % QUARTER, QUARTER - apart % QUARTER) <= 5:
                return run_of(start[0], number, self.source)
        return run_id(NAME, f"{fields.get('user_id')}/{started}")

    def _chats(self) -> list[tuple[tuple[str, int], int]]:
        """The sessions of the chat history beside; their times have no zone."""
        path = self.source.path.with_name(CHAT)
        if not path.is_file():
            return []
        chats = sessions(path.read_text("utf-8-sig", "replace"))
        return [((start, _seconds(start)), number) for start, number, _ in chats]

    def record(self, raw: Raw) -> None:
        value = self.out.about(raw, bare=True)
        fields = obj(value)
        name, given = word(fields.get("event")), obj(fields.get("properties"))
        at = utc_time(fields.get("time"))
        if name is None:
            self.out.unknown("record", value)
            return
        if name == "launched" or not self.state.get("run"):
            self.state["run"] = self.out.run = self._run(fields)
            open_run(self.out, NAME, f"{fields.get('user_id')}/{fields.get('time')}", at=at)
        self.out.run = self.state["run"]
        self.out.report.mapped[name] += 1
        if name == "message_send":
            self._sent(given, at)
        elif name.endswith("exception"):
            text = word(given.get("exception"))
            self.out.write(Noted(label="error", kind=name, text=text, data=given), at=at)
        elif name == "exit":
            reason = word(given.get("reason"))
            self.out.write(Ended(what="run", outcome="exit", reason=reason), at=at)
        else:
            self.out.write(Noted(label=name, kind=name, data=given or None), at=at)

    def _sent(self, given: dict[str, Any], at: str | None) -> None:
        model, cost = word(given.get("main_model")), given.get("cost")
        known = usage(
            given,
            input_tokens=count(given.get("prompt_tokens")),
            output_tokens=count(given.get("completion_tokens")),
        )
        mark = self.out.mark()
        spent = Spent(
            key=f"{self.out.run}/{mark['hash'][:16]}/{mark['k']}",
            model=None if model == "None" else model,
            usage=known,
            cost_usd=cost if isinstance(cost, int | float) and cost > 0 else None,
            calls=1,
            group=self.out.run,
            whole=True,
        )
        self.out.write(spent, at=at)


def _seconds(started: str) -> int:
    try:
        return int(datetime.fromisoformat(started).replace(tzinfo=UTC).timestamp())
    except ValueError:
        return 0


EVENT = Signs({"event": str, "properties": dict, "user_id": str, "time": int})


def recognise(path: Path, head: bytes) -> float:
    text = head.lstrip()
    named = path.name == CHAT  # its beginning may have been cut off
    if (named or text.startswith(STARTED.encode())) and SESSION.search(
        head.decode("utf-8", "replace")
    ):
        return 0.95
    exact = [each for each in beginning(path, head).objects if len(each) == 4]
    return score(path, head, [EVENT]) if exact else 0.0


def companion(path: Path, head: bytes) -> bool:
    """The log of requests, which repeats what the chat history has."""
    return path.name == LLM and head.startswith(b"TO LLM ") and path.with_name(CHAT).is_file()


def reader(source: SourceFile, out: LineWriter, state: dict[str, Any]) -> Reader:
    reads = AnalyticsReader if source.path.suffix == ".jsonl" else ChatReader
    return reads(source, out, state)


def form(path: Path, head: bytes) -> Form:  # noqa: ARG001  # the shape
    return "lines" if path.suffix == ".jsonl" else "text"


def find(home: Path, environment: Mapping[str, str]) -> Iterable[Path]:
    """The file that the environment names; by default it is in the folder of each project."""
    given = environment.get("AIDER_CHAT_HISTORY_FILE")
    places = [Path(given)] if given else [home / CHAT]
    return (path for path in places if path.is_file())


importer = Importer(
    name=NAME,
    about="Aider: the chat history of a folder, and the file of `--analytics-log`.",
    mapping="2",
    reader=reader,
    recognise=recognise,
    find=find,
    form=form,
    companion=companion,
    fits=lambda body: "event" in body,
    proven="files of 0.86 from a test run; a real history of 2024 and real analytics",
)
