"""`core.clarificationGate`: a person answers questions."""

from collections.abc import Iterator, Mapping
from typing import Any

from tracklog import Body
from tracklog.hosts.openwop.definitions import DefinitionRefused, WorkflowNode
from tracklog.hosts.openwop.exceptions import BadAnswer
from tracklog.hosts.openwop.kinds._kind import (
    NodeKind,
    Outputs,
    Site,
    check_timeout,
    fixed_outputs,
    is_text,
    wrong,
)
from tracklog.hosts.openwop.questions import answers_in, refuse_members
from tracklog.hosts.openwop.schemas import fault_of_schema, faults_against
from tracklog.hosts.openwop.step import NodeStep


async def run(step: NodeStep) -> Outputs:
    return await clarify(step, step.config["questions"], step.started)


async def clarify(step: NodeStep, questions: list[dict[str, Any]], cause: Body | None) -> Outputs:
    """Ask a person some questions, and wait for all answers."""

    def settle(value: Any, *, is_new: bool = False) -> tuple[dict[str, Any], Mapping[str, Any]]:
        if isinstance(value, str) and len(questions) == 1:
            value = {"answers": {questions[0]["id"]: value}}
        answers = answers_in(value) if isinstance(value, dict) else None
        if answers is None:
            raise BadAnswer("answer with an object `answers`, one member for each question")
        if is_new:
            refuse_members(value, ["answers"])
            refuse_members(answers, [each["id"] for each in questions], "answers.")
        for question in questions:
            name = question["id"]
            place = f"resumeValue.answers.{name}"
            if answers.get(name) is None:
                raise BadAnswer(f"the question {name!r} is not answered", place)
            if "schema" in question:
                for fault in faults_against(question["schema"], answers[name]):
                    raise BadAnswer(f"{name}: {fault}", place)
        return {"answers": answers}, {"answers": answers}

    asked = {"questions": questions}
    answer, _ = await step.ask("clarification", asked, None, cause, {}, settle)
    return answer


def _is_question(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and value.keys() <= {"id", "question", "schema"}
        and is_text(value.get("id"))
        and is_text(value.get("question"))
        and isinstance(value.get("schema", {}), dict)
    )


def check(node: WorkflowNode, site: Site) -> Iterator[DefinitionRefused]:  # noqa: ARG001  # the signature of a kind
    yield from check_timeout(node)
    asked = node.config.get("questions")
    if not isinstance(asked, list) or not asked or not all(map(_is_question, asked)):
        text = "questions is a list of objects with an id and a question, and perhaps a schema"
        yield wrong(node, "questions", text)
        return
    if len({each["id"] for each in asked}) != len(asked):
        yield wrong(node, "questions", "two questions have the same id")
    for each in asked:
        if "schema" in each and (fault := fault_of_schema(each["schema"])):
            yield wrong(node, "questions", f"the schema of {each['id']!r} is not valid: {fault}")


kind = NodeKind(
    type="core.clarificationGate",
    run=run,
    config=frozenset({"questions", "timeoutMs"}),
    check=check,
    only_asks=True,
    outputs=fixed_outputs("answers"),
    answers=frozenset({"answers"}),
)
