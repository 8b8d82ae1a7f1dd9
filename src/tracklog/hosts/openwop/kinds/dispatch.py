"""`core.dispatch`: carries out what a supervisor decided."""

from collections.abc import Iterator

from tracklog.hosts.openwop.definitions import DISPATCH, DefinitionRefused, WorkflowNode
from tracklog.hosts.openwop.exceptions import NodeFailed
from tracklog.hosts.openwop.kinds._kind import NodeKind, Outputs, Site, lacks, wrong
from tracklog.hosts.openwop.kinds.clarification_gate import clarify
from tracklog.hosts.openwop.kinds.sub_workflow import mapped_inputs, mapped_outputs
from tracklog.hosts.openwop.schemas import faults_of
from tracklog.hosts.openwop.step import NodeStep

MAPPINGS = {"inputMapping", "outputMapping", "perWorkerInputMappings", "perWorkerOutputMappings"}


async def run(step: NodeStep) -> Outputs:
    x = step.x
    head = x.definition.loops.get(step.node.id)
    decisions = [each for name, each in x.decisions.items() if head in (None, name) and each]
    if not decisions:
        raise NodeFailed("no_pending_decision", "no supervisor has decided anything")
    decided = decisions[-1][-1]
    decision = decided["payload"]["decision"]
    step.cause = decided
    if decision["kind"] == "terminate":
        return {"decision": "terminate"} | (
            {"reason": decision["reason"]} if "reason" in decision else {}
        )
    if decision["kind"] == "ask-user":
        asked = [{"id": "answer", "question": decision["prompt"]}]
        answer = await clarify(step, asked, decided)
        return {"answer": answer["answers"]["answer"]}
    workers = decision["nextWorkerIds"]
    if len(workers) > 1 and step.config.get("fanOutPolicy") == "reject":
        raise NodeFailed("fan_out_unsupported", f"there are {len(workers)} workers at once")
    outputs: Outputs = {}
    for worker in workers:
        mapping = _mapping(step, "Input", worker)
        log = await step.child(worker, mapped_inputs(step, mapping), decided, mapping)
        status = log.snapshot.status
        if status != "completed":
            raise NodeFailed("child_failed", f"{log.name} is {status}", {"childRunId": log.name})
        mapped = mapped_outputs(log.snapshot.variables, _mapping(step, "Output", worker))
        x.variables.update(mapped)  # the next worker may read them
        outputs = {**outputs, **mapped, "childRunId": log.name, "childStatus": status}
    return outputs


def _mapping(step: NodeStep, way: str, worker: str) -> dict[str, str]:
    """The mapping of a worker: its own, or the one for all."""
    default: dict[str, str] = step.config.get(f"{way.lower()}Mapping", {})
    own: dict[str, dict[str, str]] = step.config.get(f"perWorker{way}Mappings", {})
    return own.get(worker, default)


def check(node: WorkflowNode, site: Site) -> Iterator[DefinitionRefused]:
    if not site.settings.orchestrates:
        text = f"{node.id}: this host does not offer agents.dispatch"
        yield lacks(node, "agents.dispatch", text)
    if node.config.get("askUserRouting") == "conversation":
        text = "this host has no conversations; a clarification asks the user"
        capability = "conversationPrimitive"
        yield wrong(node, "askUserRouting", text, requiredCapability=capability)
    for fault in faults_of("dispatch-config", dict(node.config)):
        yield wrong(node, "", fault)


def outputs(node: WorkflowNode) -> frozenset[str]:
    mappings = [node.config.get("outputMapping", {})]
    mappings += node.config.get("perWorkerOutputMappings", {}).values()
    own = {"decision", "reason", "answer", "childRunId", "childStatus"}
    return frozenset(own.union(*mappings))


kind = NodeKind(
    type=DISPATCH,
    run=run,
    config=frozenset({"askUserRouting", "workerDispatchModel", "fanOutPolicy", "iterationCap"})
    | MAPPINGS,
    check=check,
    outputs=outputs,
    answers=frozenset({"answer"}),
)
