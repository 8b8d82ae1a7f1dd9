"""ATIF: trajectories of agents, v1.x."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from tracklog.formats.importers import (
    Form,
    Importer,
    Raw,
    Reader,
    Signs,
    by_signs,
    count,
    run_id,
    utc_time,
    word,
)
from tracklog.formats.importers._carried import Carried, carried
from tracklog.model.fact import Began, Called, Fact, Linked, Noted, Returned, Role, Said, Spent

NAME = "atif"
ROLES: dict[str, Role] = {"user": "user", "agent": "assistant", "system": "system"}
TRAJECTORY = (
    "schema_version", "session_id", "trajectory_id", "agent", "steps", "final_metrics",
    "continued_trajectory_ref", "subagent_trajectories",
)  # fmt: skip  # one row
STEP = (
    "step_id", "source", "message", "timestamp", "observation", "is_copied_context",
    "llm_call_count", "model_name", "reasoning_content", "tool_calls", "metrics",
)  # fmt: skip  # one row
CALL = ("tool_call_id", "function_name", "arguments")
RESULT = ("source_call_id", "content", "subagent_trajectory_ref")
TOTALS = {
    "total_prompt_tokens": "input_tokens",
    "total_completion_tokens": "output_tokens",
    "total_cached_tokens": "cached_tokens",
}


class _Sum(NamedTuple):
    """The totals of the steps of a trajectory."""

    own: dict[str, int]
    whole: dict[str, int]
    """The totals with its sub-agents."""


class AtifReader(Reader):
    """Reads trajectories, each with those that are embedded in it."""

    def identify(self, raw: Raw) -> str | None:
        for value in raw.value if isinstance(raw.value, list) else [raw.value]:
            if isinstance(value, dict) and (native := _native(value)):
                return run_id(NAME, native)
        return None

    def record(self, raw: Raw) -> None:
        for value in raw.value if isinstance(raw.value, list) else [raw.value]:
            if isinstance(value, dict) and isinstance(value.get("steps"), list):
                native = _native(value)
                self._trajectory(raw, value, run_id(NAME, native) if native else self.out.run)
            else:
                part = _part(raw, value)
                self.out.unknown("record", self.out.about(part, bare=True))

    def _trajectory(self, raw: Raw, value: dict[str, Any], run: str, parent: str = "") -> _Sum:
        self.out.report.mapped["trajectory"] += 1
        native = _native(value) or run
        head = {key: each for key, each in value.items() if key not in ("steps", "final_metrics")}
        head.pop("subagent_trajectories", None)
        fields = self.out.about(_part(raw, head), key=native)
        steps = value["steps"]
        times = [utc_time(step.get("timestamp")) for step in steps if isinstance(step, dict)]
        ours = "mapping" in _ours(value)  # then the carried facts have their own times, or none
        first = None if ours else next((at for at in times if at), None)
        self._open(fields, run, parent, first, ours=ours)
        spent: dict[str, int] = {}
        at: str | None = None
        for place, step in enumerate(steps):
            at = self._step(_part(raw, step), run, native, place, at, spent) or at
        whole = dict(spent)
        for each in _listed(value.get("subagent_trajectories")):
            if isinstance(each, dict) and isinstance(each.get("steps"), list):
                child = _native(each)
                below = self._trajectory(raw, each, run_id(NAME, child) if child else run, run)
                whole = {k: whole.get(k, 0) + below.whole.get(k, 0) for k in whole | below.whole}
        if not ours:  # the facts carried by its steps are more exact
            self._totals(raw, value.get("final_metrics"), run, _Sum(spent, whole), at)
        return _Sum(spent, whole)

    def _open(
        self, fields: dict[str, Any], run: str, parent: str, at: str | None, *, ours: bool
    ) -> None:
        """Write its beginning and its names; one of our exports has its beginning in a step."""
        agent = fields.get("agent")
        agent = agent if isinstance(agent, dict) else {}
        name, version = word(agent.get("name")), word(agent.get("version"))
        software = {"name": name} | ({"version": version} if version else {}) if name else None
        extra = {key: each for key, each in fields.items() if key not in TRAJECTORY}
        known = ("name", "version", "model_name")
        if rest := {key: each for key, each in agent.items() if key not in known}:
            extra["agent"] = rest
        began = Began(
            what="run", agent=name, software=software, model=word(agent.get("model_name"))
        )
        clock = "first step" if at else None

        def write(fact: Fact, extra: dict[str, Any] | None = None) -> None:
            self.out.write(fact, run=run, at=at, extra=extra, clock=clock)

        if not ours:
            write(began, extra or None)
        for key in ("trajectory_id", "session_id"):
            # The session's id belongs to its root, although sub-agents repeat it.
            if (alias := word(fields.get(key))) and not (parent and key == "session_id"):
                write(Linked(kind="alias", system=NAME, alias=alias))
        if parent and not ours:
            write(Linked(kind="sub-run", parent=parent))
        if ref := fields.get("continued_trajectory_ref"):
            inner = ref.get("trajectory_id") if isinstance(ref, dict) else ref
            other = inner if isinstance(inner, str) else orjson.dumps(ref, default=str).decode()
            write(Linked(kind="resume", child=other))

    def _step(
        self,
        raw: Raw,
        run: str,
        native: str,
        place: int,
        before: str | None,
        spent: dict[str, int],
    ) -> str | None:
        if not isinstance(raw.value, dict):
            self.out.unknown("step", self.out.about(raw, bare=True), run=run)
            return None
        step_id = raw.value.get("step_id", place + 1)
        step = self.out.about(raw, key=f"{native}/{step_id}")
        self.out.report.mapped["step"] += 1
        own = utc_time(step.get("timestamp"))
        if (ours := _carried(step)) is not None:
            for each in ours:
                each.write(self.out, run=run)
            return own
        clock = "previous" if own is None and before else None
        for fact, extra in _facts(step, native, step_id, run):
            self.out.write(fact, run=run, at=own or before, extra=extra, clock=clock)
            if isinstance(fact, Spent) and not fact.copied:
                for key, amount in (fact.usage or {}).items():
                    if key != "raw":
                        spent[key] = spent.get(key, 0) + amount
        return own

    def _totals(self, raw: Raw, final: Any, run: str, summed: _Sum, at: str | None) -> None:
        """Compare the stated totals with the sum of the steps; they are never added."""
        if not isinstance(final, dict):
            return
        self.out.about(_part(raw, {"run": run, "final_metrics": final}), key=f"{run}/totals")
        self.out.write(Noted(label="totals", kind="final_metrics", data=final), run=run, at=at)
        wrong = {
            theirs: {"told": total, "steps": summed.own.get(ours, 0)}
            for theirs, ours in TOTALS.items()
            if (total := count(final.get(theirs))) is not None
            and total not in (summed.own.get(ours, 0), summed.whole.get(ours, 0))
        }
        if wrong:
            text = f"the totals differ from the sum of the steps: {', '.join(sorted(wrong))}"
            finding = {"name": "totals-differ", **wrong}
            self.out.write(Noted(label="finding", text=text, data=finding), run=run, at=at)


def _native(value: dict[str, Any]) -> str | None:
    return word(value.get("trajectory_id")) or word(value.get("session_id"))


def _part(raw: Raw, value: Any) -> Raw:
    """A piece of the document, as a record of its own."""
    return raw._replace(data=orjson.dumps(value), value=value, exact=True, flaws=())


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


FactWithExtra = tuple[Fact, dict[str, Any] | None]
"""A fact, and further data under the format's own names."""


def _rest(holder: Any, known: tuple[str, ...]) -> dict[str, Any] | None:
    """The keys that no field of a line covers."""
    if not isinstance(holder, dict):
        return None
    return {key: each for key, each in holder.items() if key not in known} or None


def _facts(step: dict[str, Any], native: str, step_id: Any, run: str) -> Iterator[FactWithExtra]:
    """The facts of a step: messages, calls, results, cost."""
    name, copied = str(step_id), step.get("is_copied_context") is True
    common: dict[str, Any] = {"step": name, "copied": copied}
    model = word(step.get("model_name"))
    source = word(step.get("source")) or "system"
    blocks = [*_thought(step.get("reasoning_content")), *_parts(step.get("message"))]
    fact = Said(
        role=ROLES.get(source, "world"),
        blocks=tuple(blocks),
        message_id=f"{native}/{name}",
        model=model,
        **common,
    )
    yield fact, _rest(step, STEP)
    extra = step.get("extra")
    change = extra.get("context_management") if isinstance(extra, dict) else None
    if isinstance(change, dict):
        data = {"trigger": change.get("type"), **change}
        yield Noted(label="compaction", kind="context_management", data=data, **common), None
    for place, call in enumerate(_listed(step.get("tool_calls"))):
        yield _called(call, f"{name}/{place}", common), _rest(call, CALL)
    observed = step.get("observation")
    results = observed.get("results") if isinstance(observed, dict) else None
    for result in _listed(results):
        yield from _returned(result, common, run)
    metrics = step.get("metrics")
    if isinstance(metrics, dict) and (usage := _usage(metrics)) is not None:
        cost = metrics.get("cost_usd")
        spent = Spent(
            key=f"{native}/{name}",
            model=model,
            usage=usage,
            cost_usd=cost if isinstance(cost, int | float) and not isinstance(cost, bool) else None,
            calls=count(step.get("llm_call_count")),
            **common,
        )
        yield spent, None


def _carried(step: dict[str, Any]) -> list[Carried] | None:
    """The facts that a step of one of our exports carries; None for other steps."""
    facts = _ours(step).get("facts")
    if not isinstance(facts, list):
        return None
    bodies = [each for each in map(carried, facts) if each is not None]
    return bodies if len(bodies) == len(facts) else None


def _ours(holder: Any) -> dict[str, Any]:
    """The keys that our exports add."""
    extra = holder.get("extra") if isinstance(holder, dict) else None
    fields = extra.get("tracklog") if isinstance(extra, dict) else None
    return fields if isinstance(fields, dict) else {}


def _called(call: Any, synthetic: str, common: dict[str, Any]) -> Fact:
    fields = call if isinstance(call, dict) else {"arguments": call}
    id, given = word(fields.get("tool_call_id")), fields.get("arguments")
    extra = fields.get("extra")
    form = extra.get("arguments_form") if isinstance(extra, dict) else None
    if form == "none":
        given = None
    elif form == "value" and isinstance(given, dict) and given.keys() == {"value"}:
        given = given["value"]
    return Called(
        tool=word(fields.get("function_name")) or "unknown",
        call_id=id or synthetic,
        input=given,
        synthetic_id=id is None,
        **common,
    )


def _returned(result: Any, common: dict[str, Any], run: str) -> Iterator[FactWithExtra]:
    fields = result if isinstance(result, dict) else {"content": result}
    content, id = fields.get("content"), word(fields.get("source_call_id"))
    extra = fields.get("extra")
    failed = extra.get("is_error") if isinstance(extra, dict) else None
    if id is None:
        yield Said(role="world", blocks=tuple(_parts(content)), **common), _rest(fields, RESULT)
    else:
        ok = not failed if isinstance(failed, bool) else None
        yield Returned(call_id=id, ok=ok, output=content, **common), _rest(fields, RESULT)
    for ref in _listed(fields.get("subagent_trajectory_ref")):
        named = ref if isinstance(ref, dict) else {}
        child = word(named.get("trajectory_id"))
        other = run_id(NAME, child) if child else word(named.get("trajectory_path"))
        if other and other != run:
            yield Linked(kind="sub-run", child=other, call_id=id, **common), None


def _thought(text: Any) -> list[dict[str, Any]]:
    return [{"type": "thinking", "thinking": text}] if _is_text(text) else []


def _is_text(value: Any) -> bool:
    return bool(value) and (
        isinstance(value, str) or (isinstance(value, dict) and "$blob" in value)
    )


def _parts(content: Any) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = []
    for part in content if isinstance(content, list) else [content]:
        if _is_text(part):
            parts.append({"type": "text", "text": part})
        elif isinstance(part, dict) and part.get("type") == "text" and _is_text(part.get("text")):
            parts.append(dict(part))
        elif part not in (None, "") and not (isinstance(part, dict) and part.get("text") == ""):
            kind = (word(part.get("type")) if isinstance(part, dict) else None) or "part"
            parts.append({"type": "stream", "provider_type": kind, "chunk": part})
    return parts


def _usage(metrics: dict[str, Any]) -> dict[str, Any] | None:
    known = {
        "input_tokens": count(metrics.get("prompt_tokens")),
        "cached_tokens": count(metrics.get("cached_tokens")),
        "output_tokens": count(metrics.get("completion_tokens")),
    }
    amounts: dict[str, Any] = {key: each for key, each in known.items() if each is not None}
    if not amounts and metrics.get("cost_usd") is None:
        return None
    rest = {key: each for key, each in metrics.items() if key != "cost_usd"}
    return {**amounts, "raw": rest} if rest else amounts


def form(path: Path, head: bytes) -> Form:  # noqa: ARG001  # the shape
    return "lines" if path.suffix in (".jsonl", ".ndjson") else "document"


SIGNS = (
    Signs({"schema_version": re.compile("ATIF-v1"), "steps": list}, sure=0.98),
    Signs({"schema_version": re.compile("ATIF-v1"), "agent": dict}, sure=0.98),
    Signs({"trajectory_id": str, "steps": list, "agent": dict}),
)


importer = Importer(
    name=NAME,
    about="ATIF: trajectories of agents, v1.x.",
    mapping="1",
    reader=AtifReader,
    recognise=by_signs(SIGNS),
    form=form,
    fits=lambda body: "steps" in body,
    proven="documents of v1.7, written as tests",
)
