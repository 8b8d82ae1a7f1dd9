"""The classic tasks of Cline, Roo and Kilo: a folder of documents that are rewritten.

The messages of the user interface are the complete record; the API history adds the exact input of
calls and their results, as far as it was not condensed.
"""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tracklog.formats.importers import Raw, count, run_id, utc_time, word
from tracklog.formats.importers._block_facts import block_facts
from tracklog.formats.importers._exchanges import reply_of
from tracklog.formats.importers._snapshots import (
    SnapshotReader,
    open_run,
    parsed,
    read_json,
    text_block,
    thought_block,
    without,
)
from tracklog.formats.importers.cline.history import (
    ANSWERS,
    FAILED,
    INJECTED,
    RESULT,
    TYPED,
    ApiCall,
    calls_of,
    context_of,
    gathered,
    texts_of,
)
from tracklog.formats.importers.cline.joins import PLACE, UI, joined_calls, task_with
from tracklog.formats.importers.cline.sessions import NAME
from tracklog.formats.providers import Body, items, obj, usage
from tracklog.model.fact import Answered, Asked, Called, Linked, Noted, Returned, Said, Spent

API, OLD = "api_conversation_history.json", "claude_messages.json"
ITEM, META, INDEX = "history_item.json", "task_metadata.json", "taskHistory.json"
CANCELLED = "user_cancelled"
ERRORS = {"error", "diff_error", "error_retry", "api_req_failed", "mistake_limit_reached"}
REQUEST = ("tokensIn", "tokensOut", "cacheWrites", "cacheReads", "cost")
NEW_TASK = ("newTask", "new_task")
UI_FIELDS = ("ts", "type", "ask", "say", "text", "partial")


class TaskReader(SnapshotReader):
    """Reads one task."""

    def identify(self, raw: Raw) -> str | None:
        return run_id(NAME, self._task) if isinstance(raw.value, list) else None

    def run_of(self, value: Body) -> str | None:  # noqa: ARG002  # its folder names it
        return run_id(NAME, self._task)

    def record(self, raw: Raw) -> None:
        if not isinstance(raw.value, list):
            self.out.unknown("value", self.out.about(raw, bare=True))
            return
        self.out.run = run_id(NAME, self._task)
        self.conversation({"list": raw.value})

    def conversation(self, value: Body) -> None:
        path, given = self.source.path, items(value.get("list"))
        is_ui = path.name == UI
        history = items(read_json(history_of(path))) if is_ui else given
        self.model, folder = context_of(history)
        self._names_model = self.model is not None  # Cline's own history does not
        first = next((obj(each).get("ts") for each in given if obj(each).get("ts")), None)
        item = self._open(utc_time(first), folder)
        spent = self._ui(given, history) if is_ui else False
        if not is_ui:
            self._history(history)
        if not spent:
            self._totals(item)

    @property
    def _task(self) -> str:
        return self.source.path.parent.name

    def _open(self, first: str | None, folder: str | None) -> Body:
        path = self.source.path
        item = obj(read_json(path.with_name(ITEM)))
        index = read_json(path.parents[2] / "state" / INDEX) if len(path.parts) > 3 else None
        for each in items(index):
            if obj(each).get("id") == self._task:
                item = {**obj(each), **item}
        meta = obj(read_json(path.with_name(META)))
        used = [obj(each) for each in items(meta.get("model_usage"))]
        model = word(item.get("modelId")) or next((each.get("model_id") for each in used), None)
        self.model = self.model or word(model)
        at = first or utc_time(item.get("ts"))
        fixed = without(
            item, "ts", "tokensIn", "tokensOut", "cacheWrites", "cacheReads", "totalCost"
        )
        self.about("task")
        about = {"id": self._task, **fixed, "metadata": meta}
        parent = word(item.get("parentTaskId"))
        open_run(
            self.out,
            NAME,
            self._task,
            at=at,
            program=program_of(path),
            model=self.model,
            cwd=word(item.get("workspace")) or word(item.get("cwdOnTaskInitialization")) or folder,
            parent=run_id(NAME, parent) if parent else None,
            extra=without(about, "id", "task", "workspace"),
        )
        self._linked = bool(items(item.get("childIds")))
        for child in items(item.get("childIds")):
            if word(child):
                self.put(Linked(kind="sub-run", child=run_id(NAME, child)), at)
        self.out.report.mapped["task"] += 1
        return item

    def _totals(self, item: Body) -> None:
        """Only where no request says what it spent."""
        fields = {key: item[key] for key in (*REQUEST[:4], "totalCost") if item.get(key)}
        if fields:
            self.about("totals")
            spent = self._spent("totals", {**fields, "cost": fields.get("totalCost")})
            if spent:
                self.put(spent, utc_time(item.get("ts")))

    def _spent(self, key: str, fields: Body) -> Spent | None:
        fresh, output = count(fields.get("tokensIn")), count(fields.get("tokensOut"))
        written, read = count(fields.get("cacheWrites")) or 0, count(fields.get("cacheReads")) or 0
        cost = fields.get("cost")
        paid = cost if isinstance(cost, int | float) and cost > 0 else None
        if fresh is None and output is None and paid is None:
            return None
        uncached = (fresh or 0) < read + written or (
            program_of(self.source.path) == NAME and not self._names_model
        )
        total = (fresh or 0) + (read + written if uncached else 0)
        known = usage(
            {key: fields[key] for key in REQUEST if key in fields},
            input_tokens=None if fresh is None else total,
            cached_tokens=read,
            cache_write_tokens=written,
            output_tokens=output,
        )
        return Spent(
            key=f"{self.out.run}/{key}", model=self.model, usage=known, cost_usd=paid, calls=1
        )

    # The messages of the user interface.

    def _ui(self, records: list[Any], history: list[Any]) -> bool:
        """Write the records of the user interface; returns whether one says what was spent."""
        calls = joined_calls(records, calls_of(history))
        numbers: dict[str, int] = defaultdict(int)
        shown = {text for each in records if (text := word(obj(each).get("text")))}
        self._spoke = self._asked = False  # the first text is the prompt
        self._question: str | None = None
        spent = False
        for place, record in enumerate(records):
            fields = obj(record)
            sub = word(fields.get("say")) or word(fields.get("ask")) or "record"
            name = f"{fields.get('ts')}/{fields.get('type')}/{sub}"
            key, numbers[name] = f"{name}/{numbers[name]}", numbers[name] + 1
            if fields.get("partial") is True and not self.final and place == len(records) - 1:
                continue  # it is being written
            if place in calls:
                joined = calls[place]
                if joined is not None:
                    self._call(key, fields, *joined)
                else:
                    self.out.report.ignored["the second copy of a call"] += 1
                continue
            spent = self._record(key, sub, fields, record) or spent
        self._injected(history, shown)
        return spent

    def _record(self, key: str, sub: str, fields: Body, record: Any) -> bool:
        self.about(key)
        value = obj(record) or {"text": record}
        at, text = utc_time(fields.get("ts")), value.get("text")
        model = word(obj(value.get("modelInfo")).get("modelId"))
        self.model = model or self.model
        extra = without(value, *UI_FIELDS)
        self.out.report.mapped[sub] += 1
        if sub in ("api_req_started", "api_req_finished"):  # older versions count at the end
            return self._request(key, sub, parsed(fields.get("text")), at, extra)
        if not text and not extra.keys() - {PLACE, "modelInfo"}:
            return False  # a control of the user interface
        partial = {"partial": True} if fields.get("partial") is True else {}
        if sub == "task" or (sub == "text" and not self._spoke) or sub.startswith("user_feedback"):
            self._spoke = True
            self.put(Said(role="user", blocks=(text_block(text),), message_id=key), at, extra)
            if self._question:
                self.put(Answered(question_id=self._question, answer=text), at)
                self._question = None
        elif sub in ("text", "completion_result", "plan_mode_respond"):
            block = {**text_block(text), **partial}
            fact = Said(role="assistant", blocks=(block,), message_id=key, model=self.model)
            self.put(fact, at, extra)
        elif sub == "reasoning":
            block = {**thought_block(value.get("reasoning") or text), **partial}
            fact = Said(role="assistant", blocks=(block,), message_id=key, model=self.model)
            self.put(fact, at, without(extra, "reasoning"))
        elif sub == "followup":
            asked = parsed(fields.get("text"))
            question = word(obj(asked).get("question")) or word(text)
            options = obj(asked).get("suggest") or obj(asked).get("options")
            self._question = key
            self.put(Asked(question_id=key, text=question, what="question",
                           options=tuple(items(options)) or None), at, extra)  # fmt: skip
        elif sub in ERRORS:
            self.put(Noted(label="error", kind=sub, text=word(text), data=extra or None), at)
        elif sub == "condense_context":
            data = obj(value.get("contextCondense")) or extra
            self.put(Noted(label="compaction", kind=sub, text=word(text), data=data), at)
            if isinstance(cost := data.get("cost"), int | float) and cost > 0:
                self.put(Spent(key=f"{self.out.run}/{key}", model=self.model, cost_usd=cost), at)
        else:
            label = "result" if sub == "subtask_result" else sub
            self.put(Noted(label=label, kind=sub, text=word(text), data=extra or None), at)
        return False

    def _request(self, key: str, kind: str, fields: Any, at: str | None, extra: Body) -> bool:
        fields = obj(fields)
        rest = {**extra, **self.out.lift.value(without(fields, *REQUEST))}
        spent = self._spent(key, fields)
        if spent:
            self.put(spent, at, rest)
        elif rest:
            self.put(Noted(label="request", kind=kind, data=rest), at)
        why = word(fields.get("cancelReason"))
        if why:
            text = word(fields.get("streamingFailedMessage")) or why
            label = "cancelled" if why == CANCELLED else "error"
            self.put(Noted(label=label, kind=why, text=text), at)
        return spent is not None

    def _call(self, key: str, fields: Body, call: ApiCall | None, outputs: list[Body]) -> None:
        """A call of the user interface, with its counterpart in the history."""
        sub = word(fields.get("say")) or word(fields.get("ask")) or "tool"
        result = call.result if call else None
        self.about(key)
        shown, server = parsed(fields.get("text")), None
        body = obj(shown)
        name, given = sub, shown
        if sub == "use_mcp_server":
            name, server = word(body.get("toolName")) or sub, word(body.get("serverName"))
            given = parsed(body.get("arguments"))
        elif sub == "command":
            name, given = "execute_command", {"command": shown}
        elif word(body.get("tool")):
            name, given = body["tool"], without(body, "tool")
        if call is not None:
            name = name if server else call.name
            given = self.out.lift.value(call.input)
        id = call.id if call and call.id else key
        made = not (call and call.id)
        extra = {"shown": shown} if call is not None else None
        self.out.report.mapped[sub] += 1
        self.put(
            Called(tool=name, call_id=id, input=given, tool_server=server, synthetic_id=made),
            utc_time(fields.get("ts")),
            extra,
        )
        if name in NEW_TASK:
            self._sub_task(id, obj(shown) or obj(given), count(fields.get("ts")))
        printed = "".join(word(each.get("text")) or "" for each in outputs)
        wrong = call.failed if call else False
        if call is None and printed:
            wrong = bool(FAILED.match(printed))
        if not (call and call.answered) and not printed:
            return  # it has not returned, or nothing says so
        done = call.at if call and call.at else next((each.get("ts") for each in outputs), None)
        back = Returned(
            call_id=id,
            tool=name,
            ok=not wrong,
            output=self.out.lift.value(result if call and call.answered else printed),
            synthetic_id=made,
        )
        same = printed and str(result or "").find(printed) >= 0
        self.put(back, utc_time(done), None if same or not printed else {"shown": printed})

    def _sub_task(self, call: str, given: Body, ts: int | None) -> None:
        """Link the task that a call started, where only its first text tells which one it is."""
        prompt = word(given.get("content")) or word(given.get("message"))
        child = (
            task_with(self.source.path, prompt, ts) if prompt and ts and not self._linked else None
        )
        if child:
            link = Linked(kind="sub-run", child=run_id(NAME, child), call_id=call)
            self.put(link, utc_time(ts), fidelity="inferred")

    # The API history.

    def _injected(self, history: list[Any], shown: set[str]) -> None:
        """Write the texts of the history that the user interface does not show."""
        for place, message in enumerate(history):
            fields = obj(message)
            role = "assistant" if fields.get("role") == "assistant" else "user"
            hidden = [
                text
                for text in texts_of(fields.get("content"))
                if text.strip() and not RESULT.match(text) and not _is_shown(text, shown)
            ]
            if hidden:
                self.about(f"api/{place}/{fields.get('ts', '')}")
                blocks = tuple(map(text_block, hidden))
                fact = Said(role="user", blocks=blocks, injected=True)
                self.put(fact, utc_time(fields.get("ts")), {"of": f"the API history, {role}"})

    def _history(self, messages: list[Any]) -> None:
        """Write a history that stands alone."""
        for place, message in enumerate(messages):
            self.about(f"api/{place}")
            value = obj(message)
            role = word(value.get("role"))
            if role not in ("user", "assistant", "system"):
                self.out.unknown(role or "message", value)
                continue
            self.out.report.mapped[role] += 1
            at = utc_time(value.get("ts"))
            if role == "user":
                self._typed(value, at)
            else:
                self._reply(place, value, at)

    def _typed(self, value: Body, at: str | None) -> None:
        content = value.get("content")
        for block in gathered(items(content) or [text_block(content)]):
            fields = obj(block)
            text = fields.get("text")
            if fields.get("type") == "tool_result":
                body = {"type": "message", "role": "user", "content": [block]}
                for fact in block_facts(reply_of("claude", [body]).blocks, role="user"):
                    self.put(fact, at)
            elif not isinstance(text, str):
                self.put(
                    Said(role="user", blocks=({**fields, "type": "stream", "chunk": fields},)), at
                )
            elif (mark := RESULT.match(text)) is not None:
                self._answered(mark[1], text[mark.end() :].strip(), at)
            else:
                typed = TYPED.search(text)
                prompt = typed[2] if typed else text
                extra = {"text": text} if typed and typed[0].strip() != text.strip() else None
                hidden = typed is None and (INJECTED.match(text) is not None or text[:1] == "[")
                self.put(
                    Said(role="user", blocks=(text_block(prompt),), injected=hidden), at, extra
                )

    def _answered(self, name: str, text: str, at: str | None) -> None:
        id = self.state.pop("open", None)
        if id:
            back = Returned(call_id=id, tool=name, ok=not FAILED.match(text), output=text,
                            synthetic_id=True)  # fmt: skip
            self.put(back, at)
        else:
            self.put(Said(role="user", blocks=(text_block(text),), injected=True), at)

    def _reply(self, place: int, value: Body, at: str | None) -> None:
        content = value.get("content")
        blocks = reply_of("claude", [{"type": "message", "content": content}]).blocks
        for detail in items(value.get("reasoning_details")):
            thought = obj(detail).get("text") or obj(detail).get("reasoning")
            blocks.insert(0, thought_block(thought))
        if thought := word(value.get("reasoning_content")):
            blocks.insert(0, thought_block(thought))
        if text := word(value.get("text")):
            blocks.insert(
                0, thought_block(text) if value.get("type") == "reasoning" else text_block(text)
            )
        for fact in block_facts(blocks, role="assistant", model=self.model):
            self.put(fact, at)
        named = [call for call in calls_of([value]) if call.id is None]
        for n, call in enumerate(named):
            if call.name in ANSWERS:
                continue
            id = self.state["open"] = f"api/{place}/{n}"
            self.put(Called(tool=call.name, call_id=id, input=call.input, synthetic_id=True), at)


def _is_shown(text: str, shown: set[str]) -> bool:
    """Whether the user interface shows a text, perhaps inside a longer one or without its calls."""
    typed = TYPED.search(text)
    inner = (typed[2] if typed else text).strip()
    return any(inner == each.strip() or inner in each for each in shown)


def program_of(path: Path) -> str:
    """The extension that a task belongs to, by its place."""
    parts = " ".join(path.parts[-8:]).lower()
    if "roo-cline" in parts or "roo" in path.parts or path.with_name(ITEM).is_file():
        return "roo"
    return "kilo" if "kilo" in parts else NAME


def history_of(path: Path) -> Path:
    path_of_history = path.with_name(API)
    return path_of_history if path_of_history.is_file() else path.with_name(OLD)


def beside(path: Path) -> Iterator[Path]:
    yield from (path.with_name(each) for each in (API, OLD, ITEM, META) if each != path.name)
    if len(path.parts) > 3:
        yield path.parents[2] / "state" / INDEX
