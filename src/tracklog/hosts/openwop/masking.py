"""What of a run is masked: sensitive variables and outputs, and everything that was copied from them."""

from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from tracklog.hosts.openwop.definitions import Definition, WorkflowNode
from tracklog.hosts.openwop.exceptions import NodeFailed
from tracklog.hosts.openwop.redaction import Redactor, is_mark, masked
from tracklog.hosts.openwop.runlog import RunLog

INPUTS = ""
"""The place of the inputs of a run, among what is not written."""


class Masks:
    """The names that are masked in one run; each with the name that its mark has."""

    def __init__(self, definition: Definition, inputs: Iterable[str] = ()) -> None:
        """`inputs` are those that are masked in the run which began this one."""
        self._definition = definition
        self._declared = definition.sensitive()
        self.variables = {name: name for name in (*self._declared, *inputs)}
        self._outputs: dict[str, dict[str, str]] = {}
        self.lost: set[str] = set()
        """The variables whose values were not kept: a host that ended knew them."""
        self._lost: dict[str, set[str]] = {}

    def take_inputs(self, log: RunLog, live: Mapping[str, Any] | None) -> dict[str, Any]:
        """The variables that a run begins with: live at its start, later as far as they were kept."""
        written = log.events[0]["payload"].get("inputs", {})
        if live is not None and live != written:
            log.unwritten[INPUTS] = dict(live)
        is_known = live is not None or INPUTS in log.unwritten
        inputs = dict(log.unwritten.get(INPUTS, written))
        self.lost = {name for name in inputs if is_lost(inputs[name], from_log=not is_known)}
        return inputs

    @staticmethod
    def forget(log: RunLog) -> None:
        """Keep nothing of a run that has ended."""
        if log.ended:
            log.unwritten.clear()

    def show(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The variables of a run as everybody may see them."""
        return masked(inputs, self.variables)

    def secrets(self, redactor: Redactor, values: Mapping[str, Any]) -> Redactor:
        """A redactor that also knows the values of variables that are masked."""
        hidden = {self.variables[name]: values[name] for name in self.variables if name in values}
        return redactor.also(hidden, self._definition.text) if hidden else redactor

    def of_ports(self, node: WorkflowNode) -> dict[str, str]:
        """The inputs of a node whose values are masked where they come from."""
        found: dict[str, str] = {}
        for port, value in node.ports.items():
            if value["type"] == "static":
                continue
            if value["type"] == "variable":
                hidden, name = self.variables, value["variableName"]
            else:
                hidden, name = self._outputs.get(value["nodeId"], {}), value["outputKey"]
            if name in hidden:
                found[port] = hidden[name]
        return found

    def of_outputs(self, node: WorkflowNode, *, copies: bool) -> dict[str, str]:
        """The outputs of a node that are masked; `copies` if they are its inputs."""
        copied = self.of_ports(node) if copies else {}
        return copied | {name: name for name in (*self._declared, *node.sensitive)}

    def remember(
        self, node: WorkflowNode, outputs: Mapping[str, Any], *, copies: bool, from_log: bool
    ) -> None:
        """Note the outputs of a node, which are variables of the run from now on.

        Those `from_log` may have marks in them, in the place of what was not kept.
        """
        hidden = self.of_outputs(node, copies=copies)
        self._outputs[node.id] = hidden
        lost = {name for name in outputs if is_lost(outputs[name], from_log=from_log)}
        self._lost[node.id] = lost | (self.lost_ports(node) if copies else set())
        for name in outputs:
            if name in hidden:
                self.variables[name] = hidden[name]
            elif name not in self._declared:
                self.variables.pop(name, None)
        self.lost = (self.lost - outputs.keys()) | self._lost[node.id]

    def lost_ports(self, node: WorkflowNode) -> set[str]:
        """The inputs of a node whose values were not kept."""
        found = set()
        for port, value in node.ports.items():
            if value["type"] == "variable" and value["variableName"] in self.lost:
                found.add(port)
            lost = self._lost.get(value.get("nodeId", ""), set())
            if value["type"] == "connection" and value["outputKey"] in lost:
                found.add(port)
        return found

    def outputs_of(self, node: str, outputs: Mapping[str, Any]) -> dict[str, Any]:
        """The outputs of a node that has ended, as everybody may see them."""
        return masked(outputs, self._outputs.get(node, {}))


def is_lost(value: Any, *, from_log: bool) -> bool:
    """Whether a value, or a part of one that comes from the log, is only a mark."""
    return is_mark(value) or (from_log and b"[REDACTED:" in orjson.dumps(value))


def check_known(lost: Iterable[str]) -> None:
    """Fail where a value is needed that was not kept."""
    for name in sorted(lost):
        text = f"{name} is masked in the log, and its value was not kept"
        raise NodeFailed("sensitive_value_lost", text, {"retryable": False})
