"""`core.approvalGate`: people accept or reject; a quorum, a list of approvers and a time limit hold."""

from collections.abc import Iterator, Mapping
from typing import Any

from tracklog.hosts.openwop.definitions import DefinitionRefused, WorkflowNode
from tracklog.hosts.openwop.exceptions import BadAnswer, NotAllowed
from tracklog.hosts.openwop.kinds._kind import (
    NodeKind,
    Outputs,
    Site,
    check_timeout,
    fixed_outputs,
    is_conformance,
    is_text,
    is_texts,
    wrong,
)
from tracklog.hosts.openwop.questions import VOTE, refuse_members
from tracklog.hosts.openwop.schemas import faults_against
from tracklog.hosts.openwop.step import NodeStep

ACTIONS = ("accept", "reject", "refine", "edit-accept")
NEEDED = {"refine": "refineFeedback", "edit-accept": "editedArtifactData"}
"""The member of an answer that an action needs."""
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
"""The schema of `refineFeedback`."""
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
        """The voter: the principal of the key; conformance tests may name another one."""
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

    @property
    def rejected_by(self) -> list[str]:
        """The people who rejected, in the order of their votes."""
        return [name for name, action in self.votes.items() if action == "reject"]

    def count(self, by: str, action: str) -> bool:
        """Count a vote; whether the gate is decided."""
        self.votes[by] = action
        return self._is_accepted or self._is_rejected or self.is_split

    @property
    def is_split(self) -> bool:
        """Whether every approver has voted, and neither side has enough votes."""
        if self.approvers is None or not self.votes.keys() >= {*self.approvers}:
            return False
        return not self._is_accepted and not self._is_rejected

    @property
    def _is_accepted(self) -> bool:
        return len(self.votes) - len(self.rejected_by) >= self.needed

    @property
    def _is_rejected(self) -> bool:
        rejects = len(self.rejected_by)
        return bool(rejects) and (not self.is_majority or rejects > self.needed / 2)


async def run(step: NodeStep) -> Outputs:
    config, name = step.config, step.node.id
    is_test = is_conformance(step.x.definition.id)
    actions = config.get("actions", ["accept", "reject"])
    asked = {
        "artifactId": name,
        "artifactType": step.node.artifact or "workflow-node",
        "title": config.get("title", name),
    }
    asked |= {"description": config["description"]} if "description" in config else {}
    asked |= {key: config[key] for key in ASKED if key in config}
    schema: dict[str, Any] = {"type": "object", "required": ["action"]}
    needed = {"refine": {"refineFeedback": FEEDBACK}, "edit-accept": {"editedArtifactData": {}}}
    schema["properties"] = {"action": {"enum": actions}, "feedback": {"type": "string"}}
    for action in actions:
        schema["properties"] |= needed.get(action, {})

    def settle(value: Any, *, is_new: bool = False) -> tuple[dict[str, Any], Mapping[str, Any]]:
        given = value if isinstance(value, dict) else {"action": value}
        action = given.get("action")
        if not isinstance(action, str) or action not in actions:
            raise BadAnswer(f"action is one of {', '.join(actions)}")
        if action in NEEDED and NEEDED[action] not in given:
            raise BadAnswer(f"{action} needs {NEEDED[action]}")
        members = ["action", "feedback", *([NEEDED[action]] if action in NEEDED else ())]
        if is_new:
            refuse_members(given, [*members, *(["voter"] if is_test else ())])
        if is_new and not isinstance(given.get("feedback", ""), str):
            raise BadAnswer("feedback is a text", "resumeValue.feedback")
        for fault in (
            faults_against(FEEDBACK, given["refineFeedback"]) if action == "refine" else ()
        ):
            raise BadAnswer(f"refineFeedback: {fault}", "resumeValue.refineFeedback")
        answer = {key: given[key] for key in VOTE if key in given}
        return answer, answer

    votes = Votes(config, is_conformance=is_test)
    answer, _ = await step.ask(
        "approval", {**asked, "actions": actions}, schema, None, {}, settle, ballot=votes
    )
    return answer


def check(node: WorkflowNode, site: Site) -> Iterator[DefinitionRefused]:  # noqa: ARG001  # the signature of a kind
    config = node.config
    actions = config.get("actions", ["accept", "reject"])
    if not is_texts(actions) or not {*actions} <= {*ACTIONS} or len({*actions}) != len(actions):
        yield wrong(node, "actions", f"actions are some of {', '.join(ACTIONS)}, each once")
        return
    if not is_text(config.get("title", node.id)):
        yield wrong(node, "title", "title is a text that is not empty")
    if not isinstance(config.get("description", ""), str):
        yield wrong(node, "description", "description is a text")
    needed = config.get("requiredApprovals", 1)
    if isinstance(needed, bool) or not isinstance(needed, int) or needed < 1:
        text = "requiredApprovals is a whole number, 1 or more"
        yield wrong(node, "requiredApprovals", text)
    elif needed > 1 and not {*actions} <= {"accept", "reject"}:
        text = "of several people only accept and reject are counted"
        yield wrong(node, "actions", text)
    if config.get("rejectionPolicy", "single-veto") not in POLICIES:
        text = f"rejectionPolicy is one of {', '.join(POLICIES)}"
        yield wrong(node, "rejectionPolicy", text)
    if "rejectionPolicy" in config and "reject" not in actions:
        text = "rejectionPolicy is for gates whose actions have reject"
        yield wrong(node, "rejectionPolicy", text)
    if "approversList" in config:
        approvers = config["approversList"]
        if not is_texts(approvers):
            yield wrong(node, "approversList", "approversList is a list of names")
        elif isinstance(needed, int) and len({*approvers}) < needed:
            text = "there are fewer approvers than approvals are required"
            yield wrong(node, "approversList", text)
    yield from check_timeout(node)


kind = NodeKind(
    type="core.approvalGate",
    run=run,
    config=frozenset({"title", "description", "actions", "timeoutMs", *ASKED}),
    check=check,
    only_asks=True,
    has_artifact=True,
    outputs=fixed_outputs(*VOTE),
    answers=frozenset(VOTE),
)
