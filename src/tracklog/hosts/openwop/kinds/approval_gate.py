"""`core.approvalGate`: people accept or reject; a quorum, a list of approvers and a time limit hold."""

from collections.abc import Iterator, Mapping
from typing import Any

from tracklog.hosts.openwop.definitions import Node, Refused
from tracklog.hosts.openwop.exceptions import BadAnswer, NotAllowed
from tracklog.hosts.openwop.kinds._kind import (
    NodeKind,
    Outputs,
    Site,
    check_timeout,
    invalid,
    is_conformance,
)
from tracklog.hosts.openwop.questions import VOTE
from tracklog.hosts.openwop.schemas import faults_against
from tracklog.hosts.openwop.step import Step

ACTIONS = ("accept", "reject", "refine", "edit-accept")
NEEDED = {"refine": "refineFeedback", "edit-accept": "editedArtifactData"}
"""What an action is nothing without."""
FEEDBACK = {
    "type": "object",
    "required": ["scope"],
    "additionalProperties": False,
    "properties": {
        "scope": {"enum": ["whole", "section", "items"]},
        "sectionPath": {"type": "string"},
        "itemIds": {"type": "array", "items": {"type": "string"}},
        "tags": {"type": "array", "items": {"type": "string"}},
        "text": {"type": "string"},
    },
}
"""What `refineFeedback` must be."""
POLICIES = ("single-veto", "majority")
ASKED = ("requiredApprovals", "rejectionPolicy", "approversList")
"""The configuration that the request repeats, so that clients know whom to ask."""


class Votes:
    """The votes on one gate."""

    def __init__(self, config: Mapping[str, Any], *, is_conformance: bool) -> None:
        self.needed = int(config.get("requiredApprovals", 1))
        self.approvers: list[str] | None = config.get("approversList")
        self.is_majority = config.get("rejectionPolicy") == "majority"
        self._is_conformance = is_conformance
        self.votes: dict[str, str] = {}

    def admit(self, by: str, value: Any, *, is_manual: bool) -> str:
        """Who votes: the holder of the key; tests of conformance may name somebody else."""
        if is_manual and (self.needed > 1 or self.approvers is not None):
            raise BadAnswer(
                "this gate counts votes: answer it over OpenWOP, with a key of one's own"
            )
        voter = value.get("voter") if isinstance(value, dict) else None
        if self._is_conformance and isinstance(voter, str) and voter:
            by = voter
        if self.approvers is not None and by not in self.approvers:
            raise NotAllowed(f"{by} is not one of the approvers")
        return by

    def count(self, by: str, action: str) -> bool:
        """Count a vote; whether the gate is decided."""
        self.votes[by] = action
        rejects = sum(each == "reject" for each in self.votes.values())
        if rejects and (not self.is_majority or rejects > self.needed / 2):
            return True
        return len(self.votes) - rejects >= self.needed


async def run(step: Step) -> Outputs:
    config, name = step.config, step.node.id
    actions = config.get("actions", ["accept", "reject"])
    asked = {
        "artifactId": name,
        "artifactType": step.node.artifact or "workflow-node",
        "title": config.get("title", name),
    }
    asked |= {"description": config["description"]} if "description" in config else {}
    asked |= {key: config[key] for key in ASKED if key in config}
    schema: dict[str, Any] = {"type": "object", "required": ["action"]}
    schema |= {"properties": {"action": {"enum": actions}}}

    def settle(value: Any) -> tuple[dict[str, Any], Mapping[str, Any]]:
        given = value if isinstance(value, dict) else {"action": value}
        action = given.get("action")
        if not isinstance(action, str) or action not in actions:
            raise BadAnswer(f"action is one of {', '.join(actions)}")
        if action in NEEDED and NEEDED[action] not in given:
            raise BadAnswer(f"{action} needs {NEEDED[action]}")
        for fault in (
            faults_against(FEEDBACK, given["refineFeedback"]) if action == "refine" else ()
        ):
            raise BadAnswer(f"refineFeedback: {fault}")
        answer = {key: given[key] for key in VOTE if key in given}
        return answer, answer

    votes = Votes(config, is_conformance=is_conformance(step.x.definition.id))
    answer, _ = await step.ask(
        "approval", {**asked, "actions": actions}, schema, None, {}, settle, ballot=votes
    )
    return answer


def check(node: Node, site: Site) -> Iterator[Refused]:  # noqa: ARG001  # the signature of a kind
    config = node.config
    actions = config.get("actions", ["accept", "reject"])
    if not isinstance(actions, list) or not actions or not all(a in ACTIONS for a in actions):
        yield invalid(f"{node.id}: actions are some of {', '.join(ACTIONS)}", field="actions")
    needed = config.get("requiredApprovals", 1)
    if isinstance(needed, bool) or not isinstance(needed, int) or needed < 1:
        text = f"{node.id}: requiredApprovals is a whole number, 1 or more"
        yield invalid(text, field="requiredApprovals")
    elif needed > 1 and not {*actions} <= {"accept", "reject"}:
        text = f"{node.id}: of several people only accept and reject are counted"
        yield invalid(text, field="actions")
    if config.get("rejectionPolicy", "single-veto") not in POLICIES:
        text = f"{node.id}: rejectionPolicy is one of {', '.join(POLICIES)}"
        yield invalid(text, field="rejectionPolicy")
    approvers = config.get("approversList")
    if approvers is not None:
        if not isinstance(approvers, list) or not all(isinstance(each, str) for each in approvers):
            yield invalid(f"{node.id}: approversList is a list of names", field="approversList")
        elif isinstance(needed, int) and len({*approvers}) < needed:
            text = f"{node.id}: there are fewer approvers than approvals are required"
            yield invalid(text, field="approversList")
    yield from check_timeout(node)


kind = NodeKind(
    type="core.approvalGate",
    run=run,
    config=frozenset({"title", "description", "actions", "timeoutMs", *ASKED}),
    check=check,
)
