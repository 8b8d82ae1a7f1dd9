"""Map judgements: of a guardrail, an evaluator, or a person who annotates."""

from collections.abc import Mapping
from typing import Any

from tracklog.formats.importers import in_seconds
from tracklog.formats.importers.otlp import genai, messages
from tracklog.formats.importers.otlp.attrs import Names, Used, text
from tracklog.formats.importers.otlp.inference import USED
from tracklog.formats.importers.otlp.item_writer import ItemWriter
from tracklog.formats.importers.otlp.view import SpanView
from tracklog.model.fact import Decided, Noted

VERDICT = USED | Used(frozenset({"output.value"}))


def judged(writer: ItemWriter, span: SpanView, at: str | None) -> None:
    """The verdict of a guardrail or an evaluator."""
    verdict = writer.lifted(genai.parse(span.attrs.get("output.value")))
    extra = writer.rest(VERDICT)
    fact = Decided(verdict=verdict, by=span.name or None, name=span.name or None, about=span.cause)
    if verdict is None:
        writer.write(Noted(label="judge", kind=span.name, data=extra), at=at)
    else:
        writer.write(fact, at=at, extra=extra)


def decided(
    writer: ItemWriter,
    attrs: Mapping[str, Any],
    about: str | None,
    at: str | None,
    clock: str | None = None,
) -> None:
    """The result of an evaluation."""
    score = _number(attrs.get("gen_ai.evaluation.score.value"))
    label = attrs.get("gen_ai.evaluation.score.label")
    name = text(attrs.get("gen_ai.evaluation.name"))
    if score is None and label is None:
        writer.write(Noted(label="evaluation", kind=name, data=dict(attrs)), at=at, clock=clock)
        return
    fact = Decided(
        verdict=label,
        score=score,
        name=name,
        reason=text(attrs.get("gen_ai.evaluation.explanation")),
        about=text(attrs.get("gen_ai.response.id")) or about,
    )
    writer.write(fact, at=at, clock=clock)


def _number(value: Any) -> float | None:
    if isinstance(value, str):
        return in_seconds(value)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def has_evaluations(names: Names) -> bool:
    """Whether one of the names belongs to an evaluation or an annotation of OpenInference."""
    return ".annotation." in names.joined or ".evaluation." in names.joined


def evaluated(writer: ItemWriter, span: SpanView, at: str | None) -> None:
    """Annotations and evaluations of OpenInference, on a span, its trace or its conversation."""
    for prefix in ("", "trace.", "session."):
        for word in ("annotation", "evaluation"):
            rows = messages.nested(span.attrs, f"{prefix}{word}s")
            for row in rows if isinstance(rows, list) else []:
                found = row.get(word) if isinstance(row, dict) else None
                if not isinstance(found, dict):
                    continue
                score = _number(found.get("score"))
                if found.get("label") is None and score is None:
                    # It is stored, although it decides nothing.
                    note = Noted(label=word, kind=text(found.get("name")), data=found)
                    writer.write(note, at=at)
                    continue
                fact = Decided(
                    verdict=found.get("label"),
                    score=score,
                    name=text(found.get("name")),
                    reason=text(found.get("explanation")),
                    by=text(found.get("annotator_kind")) or text(found.get("identifier")),
                    about=span.record if not prefix else None,
                )
                writer.write(fact, at=at)
