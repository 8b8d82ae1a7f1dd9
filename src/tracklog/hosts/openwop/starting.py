"""Begin runs: new ones, sub-runs and forks of others."""

import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tracklog.hosts import Announce
from tracklog.hosts.openwop.definitions import Definition
from tracklog.hosts.openwop.exceptions import Newer
from tracklog.hosts.openwop.forks import beginning, forked, started, with_start
from tracklog.hosts.openwop.kinds import supervisor
from tracklog.hosts.openwop.masking import Masks
from tracklog.hosts.openwop.mock_provider import masked_tokens
from tracklog.hosts.openwop.options import RunOptions, inherited
from tracklog.hosts.openwop.redaction import Redactor
from tracklog.hosts.openwop.requests import Request
from tracklog.hosts.openwop.runlog import RunLog, line_of, new_event
from tracklog.hosts.openwop.settings import ENGINE

if TYPE_CHECKING:
    from tracklog.hosts.openwop.engine import Engine

COPIED = ("tags", "metadata", "scopeId")
"""The labels of a run, which its forks have, too."""


class Starter:
    """Writes the first events of runs, which the engine then carries out."""

    def __init__(self, engine: "Engine") -> None:
        self._engine = engine

    async def create(
        self,
        definition: Definition,
        inputs: Mapping[str, Any],
        configurable: Mapping[str, Any],
        host: Mapping[str, Any],
        *,
        name: str | None = None,
        request: Request | None = None,
        redactor: Redactor | None = None,
        announce: Announce | None = None,
    ) -> RunLog:
        """Begin a run; on return its first event is in the journal."""
        engine = self._engine
        live = definition.inputs(inputs, is_closed=name is None)
        is_new, name = name is None, name or f"run-{uuid.uuid4()}"
        log = RunLog(name, engine.own)
        if not engine.leases.take(log.run):
            return engine.log(name)  # another process has begun it just now
        if not is_new:
            log.refresh(engine.journal)
        if log.events:  # it was begun before, and not ended
            engine.leases.release(log.run)
            engine.reader.open.add(name)
            engine.take_up(name)
            return engine.log(name)
        engine.runs.add(log)
        masks = Masks(definition, host.get("hidden", ()))
        log.redactor = redactor
        redactor = masks.secrets(redactor or engine.redactor, live)
        payload = {"workflowId": definition.id, "inputs": masks.show(live), "transport": "rest"}
        payload["configurable"] = masked_tokens(configurable, redactor)
        about = self._about(definition, host)
        event = new_event(
            log,
            0,
            engine.now(log),
            "run.started",
            redactor.payload(payload),
            host={**about, **self._cleaned(about, redactor)},
        )
        try:
            notes = (request.note(201, started(log.name, event)),) if request else ()
            if announce is not None:
                await announce(name)
            await engine.write(log, [line_of(event)], notes)
        except BaseException:
            engine.runs.drop(name)
            engine.leases.release(log.run)
            raise
        engine.reader.open.add(name)
        engine.go_on(log, live=live)
        return log

    async def child(
        self,
        name: str,
        workflow: str,
        inputs: Mapping[str, Any],
        configurable: Mapping[str, Any],
        parent: Mapping[str, Any],
        redactor: Redactor,
    ) -> RunLog:
        """A sub-run, with the options of its parent; it is begun, unless it was before."""
        engine = self._engine
        log = engine.log(name)
        if not log.events:
            definition = engine.workflows.known[workflow]
            options = inherited(configurable, definition)
            return await self.create(
                definition, inputs, options, parent, name=name, redactor=redactor
            )
        if not log.ended:
            engine.reader.open.add(name)
        return log

    async def fork(
        self,
        source: RunLog,
        mode: str,
        start: int,
        options: RunOptions,
        caller: Mapping[str, Any],
        request: Request | None = None,
    ) -> tuple[RunLog, int]:
        """Begin a run with the first events of another: replayed from the log, or live from there on."""
        engine = self._engine
        definition = engine.workflows.known.get(source.snapshot.workflow)
        old = source.snapshot.host
        if definition is None or int(old.get("engine", 0)) > ENGINE:
            raise Newer
        events = list(source.events)
        name = f"run-{uuid.uuid4()}"
        log = RunLog(name, engine.own)
        engine.leases.take(log.run)
        fork: dict[str, Any] = {"sourceRunId": source.name, "mode": mode, "fromSeq": start}
        if source.ended or source.snapshot.interrupt is not None:
            fork["through"] = len(events)  # without it, a replay waits for the end of its source
        if options.configurable:
            overlay = masked_tokens(options.configurable, engine.redactor)
            fork["overlay"] = engine.redactor.clean(overlay)
        data = _labels(old)
        # The owner stays the same; the rights are those of the key that made the fork.
        data["owner"] = old.get("owner", old.get("principal", "default"))
        data |= self._cleaned(options.labels, engine.redactor)
        own = {key: caller[key] for key in caller if key != "tenant" or "tenant" in old}
        data |= own
        about = self._about(definition, {**data, "fork": fork})
        is_waiting = engine.control.status(source).startswith("waiting-")
        if mode == "replay" and is_waiting and source.snapshot.interrupt is None:
            events = with_start(events, start, definition)  # a child run waits
        else:
            events = events[: max(start, 1)]
        copies = beginning(log, events, engine.now(log), about)
        notes: tuple[bytes, ...] = ()
        if request is not None:
            reply = forked(name, source.name, start, mode, "running")
            notes = (request.note(201, reply),)
        try:
            await engine.write(log, [line_of(event) for event in copies], notes)
        except BaseException:
            engine.leases.release(log.run)
            raise
        engine.runs.add(log)
        if log.ended:
            engine.leases.release(log.run)
        else:
            engine.reader.open.add(name)
            engine.go_on(log)
        return log, start

    def _cleaned(self, host: Mapping[str, Any], redactor: Redactor) -> dict[str, Any]:
        """The labels of a run without secrets; runs are compared by their scope, in the same form."""
        labels = _labels(host)
        same = {key: labels.pop(key) for key in ("scopeId",) if key in labels}
        found: dict[str, Any] = redactor.clean(labels) | self._engine.redactor.clean(same)
        return found

    def _about(self, definition: Definition, host: Mapping[str, Any]) -> dict[str, Any]:
        """The host's own data on the first event, with which the run can be continued from its log alone."""
        data = {
            "instance": self._engine.instance,
            "engine": ENGINE,
            "definition": definition.fingerprint,
        }
        node = definition.supervisor
        if node is not None:
            data["orchestrator"] = supervisor.agent(definition.id, node)
        return {**data, **host}


def _labels(host: Mapping[str, Any]) -> dict[str, Any]:
    """What a client said of a run, among the host's own data."""
    return {key: host[key] for key in COPIED if key in host}
