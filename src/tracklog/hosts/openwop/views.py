"""Views of runs for clients: snapshots, lists, effects, and questions by token."""

import asyncio
import hmac
from typing import TYPE_CHECKING, Any

import orjson
from starlette.responses import Response

from tracklog import __version__
from tracklog.hosts.openwop.calls import HostCall, number
from tracklog.hosts.openwop.discovery import MOST_LETTERS, MOST_RUNS
from tracklog.hosts.openwop.exceptions import Unknown
from tracklog.hosts.openwop.failures import Failure
from tracklog.hosts.openwop.questions import deadline_of
from tracklog.hosts.openwop.runlog import FAMILY, RunLog
from tracklog.hosts.openwop.schemas import STATUSES
from tracklog.hosts.openwop.tokens import LIFETIME, InvalidToken, QuestionToken

if TYPE_CHECKING:
    from tracklog.hosts.openwop.engine import Engine


class Views:
    """Answers about runs, before they are rendered in a version of the protocol."""

    def __init__(self, engine: "Engine") -> None:
        self._engine = engine

    def tenant(self, log: RunLog) -> str:
        """The tenant that a run belongs to; older runs belong to that of the host."""
        tenant: str = log.snapshot.host.get("tenant", self._engine.settings.tenant)
        return tenant

    def state(self, log: RunLog) -> dict[str, Any]:
        """A run with the children that it began; while a child waits for a person, so does the run."""
        control = self._engine.control
        data = {**log.as_json(), "status": control.status(log)}
        children = [
            {"runId": name, "status": control.status(child)}
            for name in log.snapshot.children
            if (child := control.child(log, name)) is not None
        ]
        if children:
            data["childRuns"] = children
        return data

    def snapshot(self, log: RunLog, call: HostCall) -> dict[str, Any]:
        """The state of a run, and for those who may answer its question a token to do so."""
        data = self.state(log)
        if "interrupt" in data:
            data["interrupt"] = self._interrupt(log, call)
        return data

    def _interrupt(self, log: RunLog, call: HostCall) -> dict[str, Any]:
        """The question of a run; a token to answer it only for those who may answer."""
        snapshot = log.snapshot
        assert snapshot.interrupt is not None
        assert snapshot.question is not None
        payload = snapshot.question["payload"]
        data = dict(snapshot.interrupt)
        data |= {
            key: payload[key] for key in ("data", "resumeSchema", "timeoutMs") if key in payload
        }
        if call.key.may("approvals:respond"):
            expires = self._engine.clock() + LIFETIME
            if (deadline := deadline_of(snapshot.question)) is not None:
                expires = min(expires, deadline)
            place = (log.name, data["nodeId"], data["interruptId"])
            text = self._engine.tokens.sign(QuestionToken(*place, call.key.principal, expires))
            data |= {"interruptToken": text, "callbackUrl": f"{call.wire.prefix}/interrupts/{text}"}
        return data

    def question_of(self, call: HostCall) -> tuple[QuestionToken, dict[str, Any]]:
        """The token of a request and the question that it is for."""
        invalid = Failure("interrupt_token_invalid", "this is no token of this host")
        try:
            token = self._engine.tokens.read(call.names["token"])
            log = self._engine.known(token.run)
        except (InvalidToken, Unknown):
            raise invalid from None
        if not self._may_answer(token.principal, self.tenant(log)):
            raise invalid
        asked = log.snapshot.interrupt or {}
        if asked.get("interruptId") != token.interrupt or log.cancel is not None:
            text = "it was answered before, or its run has ended"
            raise Failure("interrupt_already_resolved", text)
        if token.expires <= self._engine.clock():
            raise Failure("interrupt_expired", "the token has expired")
        assert log.snapshot.question is not None
        return token, dict(log.snapshot.question["payload"])

    def _may_answer(self, principal: str, tenant: str) -> bool:
        """Whether a key of a principal allows answers: one that was revoked has left no token."""
        keys = self._engine.keys
        return keys.is_open or any(
            key.may("approvals:respond") for key in keys.of(principal, tenant)
        )

    async def list_runs(self, call: HostCall) -> Response:
        """A page of the caller's runs, the latest first."""
        query = call.query
        limit = min(MOST_RUNS, number(query, "limit", MOST_RUNS, 1, None))
        if query.get("status", STATUSES[0]) not in STATUSES:
            text = f"status is one of {', '.join(STATUSES)}"
            raise Failure("validation_error", text, {"field": "status"})
        before = self._offset(query["cursor"], "runs") if "cursor" in query else None
        rows = await asyncio.to_thread(self._engine.journal.runs, dialect=FAMILY)
        rows = [row for row in rows if before is None or row.first_seq < before]
        rows.sort(key=lambda row: row.first_seq, reverse=True)
        page: dict[str, Any] = {"runs": (found := list[dict[str, Any]]())}
        for at, row in enumerate(rows):
            if len(found) == limit:
                # A cursor is the last run that was looked at: new runs do not move the page.
                page["nextCursor"] = self._cursor(rows[at - 1].first_seq, "runs")
                break
            try:
                log = self._engine.known(row.run)
            except Unknown:
                continue
            data = self.snapshot(log, call)
            wanted = self.tenant(log) == call.tenant and all(
                query.get(name, data[name]) == data[name] for name in ("workflowId", "status")
            )
            if wanted:
                found.append(call.wire.snapshot(data, log))
        return Response(orjson.dumps(page), 200, None, "application/json")

    def _offset(self, cursor: str, purpose: str) -> int:
        """The number in a cursor; one that was made for another list is refused."""
        number = cursor.partition(".")[0]
        good = self._cursor(int(number), purpose) if number.isdecimal() else ""
        if not good or not hmac.compare_digest(good.encode(), cursor.encode()):
            raise Failure("validation_error", "this is no cursor of this list", {"field": "cursor"})
        return int(number)

    def _cursor(self, number: int, purpose: str) -> str:
        return f"{number}.{self._engine.tokens.derive(f'cursor:{purpose}:{number}')[:16]}"

    def artifact(self, log: RunLog, name: str) -> dict[str, Any]:
        """The artifact of an approval gate, as a person edited it."""
        kind, found = "workflow-node", None
        for event in log.events:
            payload = event["payload"]
            if event.get("nodeId") != name:
                continue
            if event["type"] == "interrupt.requested":
                kind = payload["data"].get("artifactType", kind)
            elif event["type"] == "approval.received" and "editedArtifactData" in payload:
                data = {"artifactId": name, "artifactType": kind, "nodeId": name}
                found = {**data, "data": payload["editedArtifactData"]}
        if found is None:
            raise Failure("not_found", "there is no such artifact")
        return {"runId": log.name, **found}

    def dead_letters(self, call: HostCall) -> dict[str, Any]:
        """A page of the deliveries of a subscription that were given up, the latest first."""
        limit = min(MOST_LETTERS, number(call.query, "limit", MOST_LETTERS, 1, None))
        webhook = call.wire.run_of(call.names["webhook"], call.key)
        before = self._offset(call.query["cursor"], webhook) if "cursor" in call.query else None
        letters = self._engine.webhooks.dead_letters(webhook, call.tenant)
        if letters is None:
            raise Failure("subscription_not_found", "there is no such subscription")
        rows = [each for each in letters if before is None or each["seq"] < before]
        page = rows[:limit]
        data: dict[str, Any] = {
            "deliveries": [
                {"webhookId": webhook, **{key: each[key] for key in each.keys() - {"seq"}}}
                for each in page
            ]
        }
        if len(rows) > limit:
            data["nextCursor"] = self._cursor(page[-1]["seq"], webhook)
        return data

    def effects(self, log: RunLog) -> dict[str, Any]:
        """The calls of tools of a run."""
        rows: dict[str, dict[str, Any]] = {}
        attempts: dict[str, int] = {}
        for event in log.events:
            payload, kind = event["payload"], event["type"]
            if kind == "node.started":
                attempts[payload["nodeId"]] = payload.get("attempt", 0)
            elif kind == "agent.toolCalled":
                rows[payload["callId"]] = {
                    "effectId": payload["callId"],
                    "nodeId": event["nodeId"],
                    "attempt": attempts.get(event["nodeId"], 0),
                    "keying": "activity-recipe",
                    "state": "claimed",
                    "at": event["timestamp"],
                    "invocationId": payload["callId"],
                }
            elif kind == "agent.toolReturned" and payload["callId"] in rows:
                rows[payload["callId"]] |= {"state": "completed", "at": event["timestamp"]}
        return {"runId": log.name, "effects": list(rows.values())}

    @staticmethod
    def effect_seams() -> dict[str, Any]:
        """The ways in which runs have effects outside, and why a replay does not repeat them."""
        guard = "a replay takes the recorded answer"
        seams: list[dict[str, Any]] = [
            {"seam": "model", "kind": "http", "guarded": True, "guardedBy": guard},
            {
                "seam": "tool",
                "kind": "other",
                "note": "subprocess",
                "guarded": True,
                "guardedBy": guard,
            },
            {
                "seam": "webhook",
                "kind": "webhook-fanout",
                "guarded": True,
                "guardedBy": "events of a replay are not sent",
            },
        ]
        host = {"name": "tracklog", "build": __version__}
        return {"manifestVersion": "1", "host": host, "seams": seams}
