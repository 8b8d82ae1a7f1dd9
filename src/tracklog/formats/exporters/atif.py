"""atif: the run as an agent trajectory, ATIF v1.7, with its sub-runs inside."""

from collections.abc import Iterator, Mapping
from typing import Any

from tracklog.formats.exporters import (
    MAPPING,
    Exporter,
    ExportRecord,
    ExportRun,
    Options,
    Spend,
    as_text,
    blob_path,
    carried,
    dumps,
    every,
    fact_fields,
    some,
    words_of,
)
from tracklog.formats.exporters._turns import VOICES, CallCopies, ModelTurns, Turn
from tracklog.formats.loss import Fate
from tracklog.model.fact import (
    FACTS,
    Block,
    Called,
    Fact,
    Linked,
    Noted,
    Returned,
    Said,
    Spent,
    blob_of,
)

VERSION = "ATIF-v1.7"
IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")
DIGITS = 9
"""Of a cost in dollars: sums of fractions would end with the errors of binary numbers."""
Step = dict[str, Any]


def write(run: ExportRun, _options: Options) -> Iterator[bytes]:
    # A result belongs to the step of its call, however late it came: the document is built in
    # memory.
    yield dumps(_trajectory(run)) + b"\n"


def _trajectory(run: ExportRun) -> dict[str, Any]:
    steps = _TrajectorySteps(run)
    for entry in run.records():
        for place, fact in enumerate(entry.facts):
            borne = steps.add(entry, place, fact)["extra"]["tracklog"]["facts"]
            borne.append(carried(entry, fact))
    below = [_trajectory(child) for child in run.below]
    opening = run.opening
    software = opening.get("software") or {}
    agents = list(run.summary.get("agents") or ())
    name = opening.get("agent") or software.get("name") or (agents[0] if agents else run.family)
    agent: dict[str, Any] = {
        "name": str(name),
        "version": str(software.get("version") or "unknown"),
    }
    if opening.get("model"):
        agent["model_name"] = str(opening["model"])
    own = _metrics(run.spends)
    document: dict[str, Any] = {
        "schema_version": VERSION,
        "session_id": run.root[1],
        "trajectory_id": run.id,
        "agent": agent,
        "steps": steps.numbered(),
        "final_metrics": _totals(own, below, max(1, len(steps.steps))),
        "extra": {"tracklog": {"mapping": MAPPING, "family": run.family, **_outcome(run)}},
    }
    return document | ({"subagent_trajectories": below} if below else {})


def _outcome(run: ExportRun) -> dict[str, Any]:
    keys = ("status", "outcome", "passed", "score", "seconds", "title")
    return {key: run.summary[key] for key in keys if run.summary.get(key) is not None}


def _totals(own: dict[str, Any], below: list[dict[str, Any]], steps: int) -> dict[str, Any]:
    """The totals of the run and all runs below it; the split is written beside them, where known."""
    names = {
        "prompt_tokens": "total_prompt_tokens",
        "completion_tokens": "total_completion_tokens",
        "cached_tokens": "total_cached_tokens",
        "cost_usd": "total_cost_usd",
    }
    totals: dict[str, Any] = {}
    split: dict[str, Any] = {}
    for ours, theirs in names.items():
        inner = [each["final_metrics"][theirs] for each in below if theirs in each["final_metrics"]]
        if ours in own or inner:
            totals[theirs] = round(own.get(ours, 0) + sum(inner), DIGITS)
        if ours in own and below:
            split[f"root_{ours}"] = own[ours]
        if inner:
            split[f"subagent_{ours}"] = round(sum(inner), DIGITS)
    totals["total_steps"] = steps
    return totals | ({"extra": split} if split else {})


def _metrics(spends: tuple[Spend, ...] | list[Spend]) -> dict[str, Any]:
    names = {
        "input_tokens": "prompt_tokens",
        "output_tokens": "completion_tokens",
        "cached_tokens": "cached_tokens",
    }
    metrics: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    for spend in spends:
        for name, amount in spend.amounts.items():
            place, key = (metrics, names[name]) if name in names else (extra, name)
            place[key] = place.get(key, 0) + amount
        if spend.cost_usd is not None:
            metrics["cost_usd"] = round(metrics.get("cost_usd", 0.0) + spend.cost_usd, DIGITS)
        if spend.provider:
            extra["provider"] = spend.provider
    return metrics | ({"extra": {"tracklog": extra}} if extra else {})


class _TrajectorySteps:
    """The steps of one trajectory, in the order in which each began."""

    def __init__(self, run: ExportRun) -> None:
        self.run = run
        self.steps: list[Step] = []
        self.calls, self.turns = CallCopies(run), ModelTurns()
        self.turn_steps: dict[int, tuple[Turn, Step]] = {}
        self.owner: dict[str, Step] = {}
        """The step of each call."""
        self.children = {child.call: child for child in run.below if child.call}

    def add(self, entry: ExportRecord, place: int, fact: Fact) -> Step:
        """Add a fact; returns the step that holds it."""
        match fact:
            case Said(role=role) if role in VOICES:
                return self._message(entry, fact)
            case Said():
                self.turns.interrupted(fact)
                return self._person(entry, fact)
            case Called():
                return self._call(entry, fact)
            case Returned():
                return self._return(entry, fact)
            case Spent() if place in entry.spends:
                return self._spend(entry, fact, entry.spends[place])
            case Spent():
                return self._beside(entry)  # written before, or counted elsewhere
        return self._system(entry, fact)

    def numbered(self) -> list[Step]:
        """The steps with their numbers; a trajectory has at least one."""
        empty = {"source": "system", "message": "", "extra": {"tracklog": {"facts": []}}}
        return [{"step_id": n, **step} for n, step in enumerate(self.steps or [empty], 1)]

    def _new(self, entry: ExportRecord, source: str) -> Step:
        extra = {"seq": entry.seq, "dialect": entry.record.dialect, "facts": []}
        step: Step = {"source": source, "message": "", "extra": {"tracklog": extra}}
        if entry.event is not None and entry.event.at is not None:
            step = {"timestamp": entry.at, **step}
        self.steps.append(step)
        return step

    def _beside(self, entry: ExportRecord) -> Step:
        """The step that holds a copy, which is not shown again."""
        return self.steps[-1] if self.steps else self._new(entry, "system")

    def _of(self, entry: ExportRecord, turn: Turn) -> Step:
        """The step of a model's turn."""
        if id(turn) not in self.turn_steps:
            step = self._new(entry, "agent")
            self.turn_steps[id(turn)] = turn, step
        return self.turn_steps[id(turn)][1]

    def _message(self, entry: ExportRecord, fact: Said) -> Step:
        step = self._of(entry, self.turns.said(entry, fact))
        for block in fact.blocks:
            thought = fact.role == "thought" or block.get("type") == "thinking"
            words = words_of(block)
            if thought:
                step["reasoning_content"] = _joined(step.get("reasoning_content", ""), words)
            elif (image := _image(block)) is not None:
                parts = step["message"] or []
                if isinstance(parts, str):
                    parts = [{"type": "text", "text": parts}]
                step["message"] = [*parts, image]
            elif isinstance(step["message"], list):
                step["message"].append({"type": "text", "text": words})
            else:
                step["message"] = _joined(step["message"], words)
        if fact.model:
            step["model_name"] = str(fact.model)
        if fact.copied:
            step["is_copied_context"] = True
        return step

    def _person(self, entry: ExportRecord, fact: Said) -> Step:
        step = self._new(entry, "user" if fact.role == "user" else "system")
        images = [image for block in fact.blocks if (image := _image(block)) is not None]
        words = [words_of(block) for block in fact.blocks if _image(block) is None]
        step["message"] = "\n\n".join(filter(None, words))
        if images:
            step["message"] = [{"type": "text", "text": each} for each in words if each] + images
        if fact.copied:
            step["is_copied_context"] = True
        return step

    def _call(self, entry: ExportRecord, fact: Called) -> Step:
        name = self.calls.called(entry, fact)
        if name is None:
            return self._beside(entry)
        step = self._of(entry, self.turns.called(entry, fact, name))
        call: Step = {"tool_call_id": name, "function_name": str(fact.tool)}
        if isinstance(fact.input, Mapping):
            call["arguments"] = dict(fact.input)
        elif fact.input is None:
            call |= {"arguments": {}, "extra": {"arguments_form": "none"}}
        else:
            call |= {"arguments": {"value": fact.input}, "extra": {"arguments_form": "value"}}
        step.setdefault("tool_calls", []).append(call)
        self.owner[name] = step
        return step

    def _return(self, entry: ExportRecord, fact: Returned) -> Step:
        self.turns.interrupted(fact)
        name = self.calls.returned(entry, fact)
        if name is None:
            return self._beside(entry)
        content = "" if fact.output is None else as_text(fact.output)
        if lifted := blob_of(fact.output):
            content = str(lifted.get("preview") or "")
        result: Step = {"content": content or ("" if fact.error is None else as_text(fact.error))}
        step = self.owner.get(name)
        if step is None:
            step = self._new(entry, "system")
        else:
            result = {"source_call_id": name, **result}
            if child := self.children.get(fact.call_id):
                ref = {"trajectory_id": child.id, "session_id": child.root[1]}
                result["subagent_trajectory_ref"] = [ref]
        step.setdefault("observation", {"results": []})["results"].append(result)
        return step

    def _spend(self, entry: ExportRecord, fact: Spent, spend: Spend) -> Step:
        if not (spend.model or spend.amounts.keys() & {"input_tokens", "output_tokens"}):
            return self._system(entry, fact)
        turn = self.turns.spent(entry, fact, spend)
        step = self._of(entry, turn)
        step["metrics"] = _metrics(turn.spends)
        calls = [each.calls if each.calls is not None else 1 for each in turn.spends]
        if sum(calls):
            step["llm_call_count"] = sum(calls)
        if spend.model:
            step.setdefault("model_name", str(spend.model))
        return step

    def _system(self, entry: ExportRecord, fact: Fact) -> Step:
        """A step for a fact that is neither a message nor a call."""
        step = self._new(entry, "system")
        step["message"] = _sentence(fact)
        if isinstance(fact, Noted) and fact.label == "compaction":
            change = fact.data if isinstance(fact.data, Mapping) else {}
            step["extra"]["context_management"] = {
                "type": change.get("type") if change.get("type") in CHANGES else "compaction",
                "boundary": change.get("boundary") or "replace",
            }
        if isinstance(fact, Linked) and fact.kind == "sub-run" and fact.child is not None:
            self._refer(step, fact)
        return step

    def _refer(self, step: Step, fact: Linked) -> None:
        """Refer to a sub-run that no call started, at its link."""
        named = fact.child.get("run") if isinstance(fact.child, Mapping) else fact.child
        for child in self.run.below:
            if child.id == named and not child.call:
                ref = {"trajectory_id": child.id, "session_id": child.root[1]}
                result = {"content": "", "subagent_trajectory_ref": [ref]}
                step["observation"] = {"results": [result]}


def _sentence(fact: Fact) -> str:
    """A short text for a fact, in the words of the source where it has any."""
    values = fact_fields(fact)
    subject = values.get("step") or values.get("agent") or values.get("what")
    keys = ("task", "text", "to", "outcome", "verdict", "answer", "reason", "label", "kind")
    words = next((values[key] for key in keys if values.get(key) is not None), None)
    head = " ".join(filter(None, (subject, type(fact).__name__.lower())))
    return head if words is None else f"{head}: {as_text(words)}"


CHANGES = ("compaction", "pruning", "injection")


def _joined(before: str, words: str) -> str:
    return f"{before}\n\n{words}" if before and words else before or words


def _image(block: Block) -> dict[str, Any] | None:
    """An image that is stored as a blob, as a part with its file name; never its bytes."""
    lifted = blob_of(block.get("chunk"))
    if lifted is None or lifted.get("media_type") not in IMAGES:
        return None
    source = {"media_type": lifted["media_type"], "path": blob_path(lifted)}
    return {"type": "image", "source": source}


def fates(_options: Options) -> dict[str, Fate]:
    """Each step carries the facts it was made from; fields that the format can express are kept."""
    carried_fates = every("carried", FACTS) | (
        some("kept", Called, "tool call_id input")
        | some("kept", Returned, "call_id output")
        | some("kept", Said, "role blocks model copied")
        | some("kept", Spent, "model usage cost_usd calls")
        | {"at": "kept", "sub-run": "kept"}
    )
    return {
        name: fate for name, fate in carried_fates.items() if not name.endswith(".synthetic_id")
    }


def synthesised(run: ExportRun, _options: Options) -> Iterator[str]:
    software = run.opening.get("software") or {}
    if not software.get("version"):
        yield "agent.version"
    if not (run.opening.get("agent") or software.get("name") or run.summary.get("agents")):
        yield "agent.name"


exporter = Exporter(
    name="atif",
    about="ATIF v1.7: the run as an agent trajectory, with its sub-runs inside.",
    media_type="application/json",
    suffix=".atif.json",
    write=write,
    fates=fates,
    synthesised=synthesised,
)
