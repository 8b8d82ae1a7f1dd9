"""The contexts of Kimi CLI: what its model is sent. They are read where a session has no wire."""

from tracklog.formats.importers import Raw, Reader, Signs, run_id, word
from tracklog.formats.importers._snapshots import open_run, parsed, read_json, text_block, without
from tracklog.formats.importers.kimi.wire import NAME, WIRE, blocks_of, state_of
from tracklog.formats.providers import Body, items, obj
from tracklog.model.fact import Called, Noted, Returned, Said

CONTEXT = Signs({"role": {"_system_prompt", "_checkpoint", "_usage"}})
FAILED = "<system>ERROR"
"""How the result of a call that failed begins."""


class ContextReader(Reader):
    """Reads one context. It has no times; after a compaction or a step back a new file begins."""

    def identify(self, raw: Raw) -> str | None:
        named = word(obj(raw.value).get("role")) is not None
        return run_id(NAME, self.source.path.parent.name) if named else None

    def record(self, raw: Raw) -> None:
        value = self.out.about(raw, bare=True)
        fields = obj(value)
        role = word(fields.get("role"))
        if not self.state.get("open"):
            self._open()
        if role is None:
            self.out.unknown("record", value)
            return
        self.out.report.mapped[role] += 1
        rest = without(fields, "role", "content", "tool_calls", "tool_call_id")
        blocks = tuple(blocks_of(fields.get("content")))
        if role == "tool":
            self._returned(fields, rest)
        elif role == "assistant":
            self._assistant(fields, rest)
        elif role == "user":
            hidden = str(fields.get("content")).startswith("<system")
            self.out.write(Said(role="user", blocks=blocks, injected=hidden), extra=rest or None)
        elif role in ("system", "_system_prompt"):
            fact = Said(role="system", blocks=blocks, injected=True)
            self.out.write(fact, extra=rest or None)
        else:
            data = without(fields, "role")
            self.out.write(Noted(label=role.lstrip("_") or role, kind=role, data=data or None))

    def _open(self) -> None:
        self.state["open"] = True
        state = obj(read_json(state_of(self.source.path.with_name(WIRE))))
        cwd = word(state.get("cwd")) or state.get("workDir")
        with self.out.revised("session"):
            open_run(self.out, NAME, self.source.path.parent.name, program="kimi-cli", cwd=cwd,
                     title=state.get("title"))  # fmt: skip

    def _assistant(self, fields: Body, rest: Body) -> None:
        blocks = list(blocks_of(fields.get("content")))
        if blocks or not fields.get("tool_calls"):
            self.out.write(Said(role="assistant", blocks=tuple(blocks)), extra=rest or None)
        for place, call in enumerate(map(obj, items(fields.get("tool_calls")))):
            function, id = obj(call.get("function")), word(call.get("id"))
            called = Called(
                tool=word(function.get("name")) or "unknown",
                call_id=id or f"{self.out.mark()['hash'][:16]}/{place}",
                input=parsed(function.get("arguments")),
                synthetic_id=id is None,
            )
            self.out.write(called)

    def _returned(self, fields: Body, rest: Body) -> None:
        content, id = fields.get("content"), word(fields.get("tool_call_id"))
        first = next(iter(blocks_of(content)), text_block(None))
        back = Returned(
            call_id=id or "unknown",
            ok=not str(first.get("text", "")).startswith(FAILED),
            output=content,
            synthetic_id=id is None,
        )
        self.out.write(back, extra=rest or None)
