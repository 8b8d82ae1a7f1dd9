"""`core.approvalGate`: a person accepts or rejects."""

from collections.abc import Iterator, Mapping
from typing import Any

from tracklog.hosts.openwop.definitions import Node, Refused
from tracklog.hosts.openwop.exceptions import BadAnswer
from tracklog.hosts.openwop.kinds._kind import NodeKind, Outputs, Site, invalid
from tracklog.hosts.openwop.step import Step

ACTIONS = ("accept", "reject", "refine", "edit-accept", "ask")


async def run(step: Step) -> Outputs:
    config, name = step.config, step.node.id
    actions = config.get("actions", ["accept", "reject"])
    asked = {
        "artifactId": name,
        "artifactType": "workflow-node",
        "title": config.get("title", name),
    }
    asked |= {"description": config["description"]} if "description" in config else {}
    schema: dict[str, Any] = {"type": "object", "required": ["action"]}
    schema |= {"properties": {"action": {"enum": actions}}}

    def settle(value: Any) -> tuple[dict[str, Any], Mapping[str, Any]]:
        action = value.get("action") if isinstance(value, dict) else value
        if not isinstance(action, str) or action not in actions or action == "ask":
            raise BadAnswer(
                f"action is one of {', '.join(each for each in actions if each != 'ask')}"
            )
        return {"action": action}, {"action": action}

    answer, _ = await step.ask("approval", {**asked, "actions": actions}, schema, None, {}, settle)
    return answer


def check(node: Node, site: Site) -> Iterator[Refused]:  # noqa: ARG001  # the signature of a kind
    actions = node.config.get("actions", ["accept", "reject"])
    if not isinstance(actions, list) or not actions or not all(a in ACTIONS for a in actions):
        yield invalid(f"{node.id}: actions are some of {', '.join(ACTIONS)}")


kind = NodeKind(
    type="core.approvalGate",
    run=run,
    config=frozenset({"title", "description", "actions"}),
    check=check,
)
