"""Questions to people: the forms of an answer, the votes on it, and its time limit."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from tracklog import Body
from tracklog.hosts.openwop.exceptions import BadAnswer
from tracklog.hosts.openwop.schemas import faults_of

RATIFY = {
    "type": "object",
    "anyOf": [
        {"required": ["answers"]},
        {"required": ["decision"]},
        {"required": ["action"], "properties": {"action": {"enum": ["accept", "reject"]}}},
    ],
}


class Settle(Protocol):
    """The check of an answer."""

    def __call__(
        self, value: Any, *, is_new: bool = False
    ) -> tuple[dict[str, Any], Mapping[str, Any] | None]:
        """The normal form of an answer and, where there is one, the body of the event of its kind.

        A new answer has only members that were asked for; recorded ones may be of an older host.
        """


SPLIT = "votes-are-split"
"""The reason why a question is rejected when all have voted and neither side has enough votes."""
VOTE = ("action", "feedback", "refineFeedback", "editedArtifactData")
"""The members of an answer to an approval that are recorded and passed on."""


def refuse_members(value: Mapping[str, Any], known: Iterable[str], place: str = "") -> None:
    """Refuse the members of an answer that nobody asked for; `place` is in `resumeValue`."""
    names = list(known)
    for name in value.keys() - {*names}:
        text = f"the answer has {str(name)[:50]!r}; it may have: {', '.join(names)}"
        raise BadAnswer(text, f"resumeValue.{place}{name}")


def _accept_members(value: Mapping[str, Any], known: Iterable[str], place: str = "") -> None:
    """Accept all members of a recorded answer."""


class GivenAnswer(NamedTuple):
    """An answer, and who gave it."""

    value: Any
    by: str
    is_final: bool = False
    """Whether it is recorded that it resolved the question."""
    is_timeout: bool = False
    is_recorded: bool = False
    is_split: bool = False
    """Whether it stands for votes of which neither side has enough."""
    is_new: bool = False
    """Whether it is given now."""
    at: str | None = None
    """The time at which it resolved the question, if that is recorded."""


class Ballot(Protocol):
    """The votes on a question that several people decide."""

    @property
    def votes(self) -> Mapping[str, str]: ...

    @property
    def rejected_by(self) -> list[str]: ...

    @property
    def is_split(self) -> bool:
        """Whether nobody can vote any more, and no side has enough votes."""

    def admit(self, by: str, value: Any, *, is_manual: bool) -> str:
        """The voter; `NotAllowed` if that person may not vote."""

    def count(self, by: str, action: str) -> bool:
        """Count a vote; whether the question is decided."""


class PendingAnswer:
    """An answer that is not in the log yet."""

    def __init__(
        self,
        node: str,
        value: Any,
        by: str,
        note: Callable[[str], bytes] | None = None,
        *,
        manual: bool = False,
    ) -> None:
        self.node, self.value, self.by, self.note = node, value, by, note
        """The note of the request, made with the status in which the answer leaves the run."""
        self.manual = manual
        """Whether it was given at the console or the command line: no request waits for the result."""
        self.taken: asyncio.Future[None] = asyncio.get_running_loop().create_future()


def deadline_of(requested: Body) -> float | None:
    """The time at which a question without an answer is rejected, in seconds since 1970."""
    timeout = requested["payload"].get("timeoutMs")
    if not timeout:
        return None
    return datetime.fromisoformat(requested["timestamp"]).timestamp() + float(timeout) / 1000


def ratifying(pending: Any, *, clarifies: bool, supervises: bool = False) -> Settle:
    """The forms in which a pending decision may be confirmed, replaced or rejected."""

    def settle(
        value: Any, *, is_new: bool = False
    ) -> tuple[dict[str, Any], Mapping[str, Any] | None]:
        refuse = refuse_members if is_new else _accept_members
        if isinstance(value, str) and value in ("accept", "reject"):
            value = {"action": value}
        if not isinstance(value, dict):
            raise BadAnswer("answer with answers.decision, decision, or action accept or reject")
        given = answers_in(value)
        if given is not None and "decision" in given:
            refuse(value, ["answers"])
            refuse(given, ["decision"], "answers.")
            decision = given["decision"]
        elif "decision" in value:
            refuse(value, ["decision"])
            decision = value["decision"]
        elif value.get("action") in ("accept", "reject"):
            refuse(value, ["action"])
            if value["action"] == "reject":
                return {"action": "reject"}, None
            decision = pending
        elif supervises and "kind" in value:
            decision = value
        else:
            raise BadAnswer("answer with answers.decision, decision, or action accept or reject")
        if supervises and (faults := faults_of("orchestrator-decision", decision)):
            raise BadAnswer(f"that is no decision of a supervisor: {faults[0]}")
        answers = {"answers": {"decision": decision}}
        return answers, answers if clarifies else None

    return settle


def answers_in(value: Mapping[str, Any]) -> dict[str, Any] | None:
    given = value.get("answers")
    if isinstance(given, dict):
        return given
    if not isinstance(given, list) or not all(
        isinstance(each, dict) and each.keys() == {"id", "answer"} for each in given
    ):
        return None
    found = {str(each["id"]): each["answer"] for each in given}
    return found if len(found) == len(given) else None
