"""`core.interrupt`: waits for an event from outside, which is recognised by its correlation."""

from collections.abc import Iterator, Mapping
from typing import Any

from tracklog.hosts.openwop.definitions import DefinitionRefused, WorkflowNode
from tracklog.hosts.openwop.exceptions import BadAnswer, Mismatch
from tracklog.hosts.openwop.kinds._kind import (
    NodeKind,
    Outputs,
    Site,
    check_timeout,
    invalid,
    wrong,
)
from tracklog.hosts.openwop.schemas import fault_of_schema, faults_against, is_equal
from tracklog.hosts.openwop.step import NodeStep

EXTERNAL = "external-event"
DATA = ("eventType", "correlation")


def _asked(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The event that the node waits for: in `data`, as in the fixtures, or beside it."""
    asked: Mapping[str, Any] = config.get("data", config)
    return {name: asked[name] for name in DATA if name in asked}


async def run(step: NodeStep) -> Outputs:
    asked, schema = _asked(step.config), step.config.get("resumeSchema")
    correlation: Mapping[str, Any] = asked["correlation"]
    event_type = asked["eventType"]

    def settle(value: Any, *, is_new: bool = False) -> tuple[dict[str, Any], None]:
        if not isinstance(value, dict):
            raise BadAnswer("the event is an object")
        for name in sorted(step.x.definition.sensitive() & value.keys()) if is_new else ():
            text = f"{name} is sensitive, and an event is recorded as it comes"
            raise BadAnswer(text, f"resumeValue.{name}")
        if value.get("eventType", event_type) != event_type:
            raise Mismatch(f"the event has another type than {event_type}")
        for name, wanted in correlation.items():
            if name not in value or not is_equal(value[name], wanted):
                raise Mismatch(f"the event is for another {name}")
        for fault in faults_against(schema, value) if schema is not None else ():
            raise BadAnswer(fault)
        return dict(value), None

    answer, _ = await step.ask(EXTERNAL, asked, schema, None, {}, settle)
    return answer


def check(node: WorkflowNode, site: Site) -> Iterator[DefinitionRefused]:  # noqa: ARG001  # the signature of a kind
    config = node.config
    if config.get("kind") != EXTERNAL:
        yield wrong(node, "kind", f"kind is {EXTERNAL}; gates ask people")
    data = config.get("data", {})
    if not isinstance(data, dict) or data.keys() - {*DATA} or (data and {*DATA} & config.keys()):
        text = f"data has {' and '.join(DATA)}, which then are not beside it"
        yield wrong(node, "data", text)
        return
    asked = _asked(config)
    if not isinstance(asked.get("eventType"), str) or not asked["eventType"]:
        yield wrong(node, "eventType", "eventType is missing in its config")
    if not isinstance(asked.get("correlation"), dict) or not asked["correlation"]:
        text = "correlation says which event is meant; it is an object"
        yield wrong(node, "correlation", text)
    if "resumeSchema" in config:
        schema = config["resumeSchema"]
        fault = fault_of_schema(schema) if isinstance(schema, dict) else "it is no object"
        if fault:
            yield wrong(node, "resumeSchema", f"resumeSchema is not valid: {fault}")
    for name in sorted(node.sensitive):
        text = f"{node.id}: an event is recorded as it comes, so it is not masked"
        yield invalid(f"outputSensitivity.{name}", text, nodeId=node.id)
    yield from check_timeout(node)


kind = NodeKind(
    type="core.interrupt",
    run=run,
    config=frozenset({"kind", "data", "resumeSchema", "timeoutMs", *DATA}),
    check=check,
    only_asks=True,
)
