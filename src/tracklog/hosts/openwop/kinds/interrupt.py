"""`core.interrupt`: waits for an event from outside, which is recognised by its correlation."""

from collections.abc import Iterator, Mapping
from typing import Any

from tracklog.hosts.openwop.definitions import Node, Refused
from tracklog.hosts.openwop.exceptions import BadAnswer, Mismatch
from tracklog.hosts.openwop.kinds._kind import NodeKind, Outputs, Site, check_timeout, invalid
from tracklog.hosts.openwop.step import Step

EXTERNAL = "external-event"


async def run(step: Step) -> Outputs:
    correlation: Mapping[str, Any] = step.config["correlation"]
    asked = {"eventType": step.config["eventType"], "correlation": correlation}

    def settle(value: Any) -> tuple[dict[str, Any], None]:
        if not isinstance(value, dict):
            raise BadAnswer("the event is an object")
        for name, wanted in correlation.items():
            if value.get(name) != wanted:
                raise Mismatch(f"the event is for another {name}")
        return dict(value), None

    answer, _ = await step.ask(EXTERNAL, asked, None, None, {}, settle)
    return answer


def check(node: Node, site: Site) -> Iterator[Refused]:  # noqa: ARG001  # the signature of a kind
    config = node.config
    if config.get("kind") != EXTERNAL:
        yield invalid(f"{node.id}: kind is {EXTERNAL}; gates ask people", field="kind")
    if not isinstance(config.get("eventType"), str) or not config["eventType"]:
        yield invalid(f"{node.id}: eventType is missing in its config", field="eventType")
    if not isinstance(config.get("correlation"), dict) or not config["correlation"]:
        text = f"{node.id}: correlation says which event is meant; it is an object"
        yield invalid(text, field="correlation")
    yield from check_timeout(node)


kind = NodeKind(
    type="core.interrupt",
    run=run,
    config=frozenset({"kind", "eventType", "correlation", "timeoutMs"}),
    check=check,
)
