"""Nothing is accepted without effect: every property is carried out, describes, or is refused.

The tables are complete: they are compared with the published schemas, with the kinds of nodes, and
with the options of the official clients.
"""

import json

import pytest

from support.hosting import Host, flow, put
from support.openwop_clients import fields_of
from tracklog.dialects.checking import check  # noqa: F401  # loads the dialects first
from tracklog.hosts.openwop.definitions import Refused
from tracklog.hosts.openwop.kinds import KINDS
from tracklog.hosts.openwop.options import BODY, CONFIGURABLE, NOT_DONE
from tracklog.hosts.openwop.schemas import PUBLISHED
from tracklog.hosts.openwop.settings import Settings
from tracklog.hosts.openwop.wire_v2 import AI, RUN, SECTIONS
from tracklog.hosts.openwop.workflows import define

SCHEMA = json.loads((PUBLISHED / "schemas/workflow-definition.schema.json").read_text())

DONE, DESCRIBES = "carried out", "describes"
"""What describes changes nothing in how a run goes, by the words of the specification."""

# Of each property: whether it is carried out or describes, or else a value that is refused.
ROOT = {
    "id": DONE, "nodes": DONE, "edges": DONE, "variables": DONE, "settings": DONE,
    "configurableSchema": DONE, "isActive": DONE, "status": DONE, "channels": DONE,
    "triggers": [{"id": "t", "type": "schedule", "config": {"cron": "* * * * *"}}],
    "tenantId": "somebody-else",
    "defaults": {"promptRefs": {"system": "prompt:a@1.0.0"}},
    "acceptsInheritedArtifacts": [{"type": "x"}],
    "name": DESCRIBES, "description": DESCRIBES, "version": DESCRIBES, "type": DESCRIBES,
    "scopeId": DESCRIBES, "slug": DESCRIBES, "groups": DESCRIBES, "metadata": DESCRIBES,
    "createdAt": DESCRIBES, "updatedAt": DESCRIBES,
}  # fmt: skip
NODE = {
    "id": DONE, "typeId": DONE, "config": DONE, "inputs": DONE, "disabled": DONE, "agent": DONE,
    "outputSensitivity": DONE, "artifactType": DONE,
    "credentialsRef": "vault/x", "settings": {"a": 1}, "envelopeContract": {"a": 1},
    "name": DESCRIBES, "position": DESCRIBES, "notes": DESCRIBES, "groupId": DESCRIBES,
    "outputRole": DESCRIBES, "cardType": DESCRIBES,
}  # fmt: skip
EDGE = {
    "id": DONE, "sourceNodeId": DONE, "targetNodeId": DONE, "triggerRule": DONE,
    "sourceOutput": "approved", "targetInput": "text",
    "condition": {"type": "equals", "left": "a", "right": 1},
    "label": DESCRIBES,
}  # fmt: skip
TRIGGER = {
    "id": DESCRIBES, "name": DESCRIBES, "description": DESCRIBES, "enabled": DONE,
    "type": "webhook", "config": {"a": 1}, "nodeId": "a", "eventType": "x",
}  # fmt: skip
VARIABLE = {
    "name": DONE, "type": DONE, "required": DONE, "defaultValue": DONE, "sensitive": DONE,
    "description": DESCRIBES,
}  # fmt: skip
CHANNEL = {
    "schema": DONE,
    "reducer": "counter", "default": [1], "maxSize": 1, "ttlMs": 1, "options": {"a": 1},
    "access": "private", "schemaVersion": 2, "compatibleWith": [1], "sensitive": True,
}  # fmt: skip
METADATA = {
    "complianceClass": "phi", "complianceConfig": {"maskingMode": "omit"},
    **dict.fromkeys(
        ("createdBy", "createdAt", "updatedBy", "updatedAt", "tags", "category", "author",
         "codeVersion", "customizedAt", "customizedBy", "forkedFrom", "clonedFrom", "clonedAt",
         "customProperties"),
        DESCRIBES,
    ),
}  # fmt: skip
SETTINGS = {
    "timeout": DONE, "maxRetries": DONE, "maxLoopbackIterations": DONE, "logLevel": "debug",
}  # fmt: skip
TABLES = {
    "": ROOT, "WorkflowNode": NODE, "WorkflowEdge": EDGE, "WorkflowTrigger": TRIGGER,
    "WorkflowVariable": VARIABLE, "ChannelDeclaration": CHANNEL, "WorkflowMetadata": METADATA,
    "WorkflowSettings": SETTINGS,
}  # fmt: skip


def changed(table: str, name: str, value) -> dict:
    """A workflow with one more property at its place."""
    nodes = [{"id": "a", "typeId": "core.noop"}, {"id": "b", "typeId": "core.noop"}]
    made = flow("w", nodes, [("a", "b")], variables=[{"name": "v", "type": "string"}],
                channels={"c": {"reducer": "message"}})  # fmt: skip
    place = {
        "": made,
        "WorkflowNode": made["nodes"][0],
        "WorkflowEdge": made["edges"][0],
        "WorkflowTrigger": made["triggers"][0],
        "WorkflowVariable": made["variables"][0],
        "ChannelDeclaration": made["channels"]["c"],
        "WorkflowMetadata": made["metadata"],
        "WorkflowSettings": made["settings"],
    }[table]
    place[name] = value
    return made


@pytest.mark.parametrize("table", TABLES)
def test_each_property_of_a_definition_is_in_the_table(table):
    schema = SCHEMA["$defs"][table] if table else SCHEMA
    assert schema["properties"].keys() == TABLES[table].keys()


@pytest.mark.parametrize(
    ("table", "name"),
    [
        (table, name)
        for table, rows in TABLES.items()
        for name, word in rows.items()
        if word not in (DONE, DESCRIBES)
    ],
)
def test_what_is_not_carried_out_is_refused_before_a_run_begins(table, name):
    with pytest.raises(Refused) as refused:
        define(changed(table, name, TABLES[table][name]), Settings())
    assert refused.value.code == "validation_error"


def test_a_setting_of_a_workflow_that_nobody_knows_is_refused():
    with pytest.raises(Refused):
        define(changed("WorkflowSettings", "concurrency", 2), Settings())


@pytest.mark.parametrize("kind", KINDS)
def test_a_node_is_refused_with_a_configuration_that_its_kind_does_not_carry_out(kind):
    node = {"id": "n", "typeId": kind, "config": {"surprise": 1}}
    with pytest.raises(Refused) as refused:
        define(flow("conformance-w", [node]), Settings())
    assert "surprise" in refused.value.message


WRONG = {
    "core.approvalGate": {
        "actions": [["ask"], [], "accept", ["sign"]],
        "requiredApprovals": [0, -1, True, "2"],
        "rejectionPolicy": ["unanimous", 1],
        "approversList": ["bob", [1], []],
        "timeoutMs": [0, -1, "1", True],
    },
    "core.clarificationGate": {
        "questions": [[], [{"id": "a"}], [{"id": "a", "question": "?", "schema": {"type": 5}}]],
        "timeoutMs": [0],
    },
    "core.subWorkflow": {
        "workflowId": ["", 1],
        "inputMapping": ["x", {"a": 1}],
        "outputMapping": ["x", {"a": 1}],
        "waitForCompletion": [False],
        "propagateCancellation": [False],
        "onChildFailure": ["ignore"],
    },
    "core.dispatch": {
        "askUserRouting": ["conversation"],
        "workerDispatchModel": ["same-run"],
        "fanOutPolicy": ["parallel"],
        "iterationCap": [0],
        "inputMapping": ["x"],
    },
    "core.interrupt": {
        "kind": ["approval", "custom", 1],
        "eventType": ["", 1],
        "correlation": [{}, "x"],
        "timeoutMs": [0],
    },
    "core.ai.callPrompt": {"prompt": ["", 1]},
    "core.tool.call": {"toolId": ["", 1]},
}
NEEDED = {
    "core.clarificationGate": {"questions": [{"id": "a", "question": "?"}]},
    "core.subWorkflow": {"workflowId": "w"},
    "core.interrupt": {"kind": "external-event", "eventType": "paid", "correlation": {"id": 1}},
    "core.ai.callPrompt": {"prompt": "p"},
    "core.tool.call": {"toolId": "a:b"},
}


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        (kind, name, value)
        for kind, rows in WRONG.items()
        for name, values in rows.items()
        for value in values
    ],
)
def test_a_wrong_value_of_a_configuration_is_refused(kind, name, value):
    good = {"id": "n", "typeId": kind, "config": NEEDED.get(kind, {})}
    define(flow("w", [good]), Settings())
    with pytest.raises(Refused):
        define(flow("w", [{**good, "config": {**good["config"], name: value}}]), Settings())


def test_arguments_of_a_tool_come_from_one_place():
    node = {"id": "n", "typeId": "core.tool.call", "config": {"toolId": "a:b", "arguments": {}},
            "inputs": {"x": {"type": "static", "value": 1}}}  # fmt: skip
    with pytest.raises(Refused):
        define(flow("w", [node]), Settings())


@pytest.mark.parametrize(
    ("declared", "given"),
    [
        ("string", 1),
        ("number", "1"),
        ("number", True),
        ("boolean", 0),
        ("object", []),
        ("array", {}),
    ],
)
def test_an_input_has_the_type_that_the_workflow_declares(tmp_path, declared, given):
    noop = {"id": "a", "typeId": "core.noop"}
    made = flow("typed", [noop], variables=[{"name": "v", "type": declared}])
    with Host(tmp_path / "home", workflows=put(tmp_path / "flows", made)) as host:
        body = {"workflowId": "typed", "inputs": {"v": given}}
        response = host.http.post("/v1/runs", json=body)
        assert (response.status_code, response.json()["error"]) == (400, "validation_error")
    with pytest.raises(Refused):
        define({**made, "variables": [{**made["variables"][0], "defaultValue": given}]}, Settings())


@pytest.mark.parametrize(
    "state", [{"isActive": False}, {"status": "draft"}, {"status": "archived"}]
)
def test_a_workflow_that_is_not_active_is_shown_and_not_run(tmp_path, state):
    made = flow("asleep", [{"id": "a", "typeId": "core.noop"}], **state)
    with Host(tmp_path / "home", workflows=put(tmp_path / "flows", made)) as host:
        assert host.http.get("/v1/workflows/asleep").status_code == 200
        response = host.http.post("/v1/runs", json={"workflowId": "asleep"})
        assert (response.status_code, response.json()["details"]) == (400, {"field": "workflowId"})


@pytest.mark.parametrize("version", ["1.8.0", "2.7.0"])
def test_each_option_that_a_client_can_send_is_carried_out_or_refused(tmp_path, version):
    names = fields_of(version, "CreateRunRequest")
    assert names <= BODY | NOT_DONE
    path = "/v1/runs" if version.startswith("1") else "/runs"
    with Host(tmp_path) as host:
        for name in sorted(names & NOT_DONE):
            body = {"workflowId": "conformance-noop", name: "x"}
            response = host.http.post(path, json=body)
            assert (response.status_code, response.json()["error"]) == (400, "validation_error")
            assert response.json()["details"] == {"field": name}


def test_each_option_of_version_2_is_carried_out_or_refused(tmp_path):
    assert fields_of("2.7.0", "RunConfigurable") == {"version", *SECTIONS}
    assert {*RUN, *AI} - {"mockProvider"} == CONFIGURABLE.keys()
    refused = [
        {"run": {"surprise": 1}},
        {"ai": {"provider": "x"}},
        {"ai": {"credentialRef": "x"}},
        {"ai": {"promptOverrides": {}}},
        {"ai": {"maxRefusals": 1}},
        {"distillation": {"tokenBudget": 1}},
        {"budget": {"maxTokens": 1}},
        {"extensions": {"acme": {"a": 1}}},
        {"run.recursionLimit": 5},
        {"surprise": {}},
        {"run": {"recursionLimit": 0}},
        {"run": 5},
    ]
    with Host(tmp_path) as host:
        for options in refused:
            body = {"workflowId": "conformance-noop", "configurable": {"version": 1, **options}}
            response = host.http.post("/runs", json=body)
            assert (response.status_code, response.json()["error"]) == (400, "validation_error")
        nothing = {"version": 1, "ai": {"temperature": 1}} | dict.fromkeys(
            ("run", "distillation", "budget", "extensions")
        )
        body = {"workflowId": "conformance-noop", "configurable": nothing}
        assert host.http.post("/runs", json=body).status_code == 201  # as client 2.7.0 sends it
        bare = {"workflowId": "conformance-noop", "configurable": {"run": {"recursionLimit": 5}}}
        assert host.http.post("/runs", json=bare).status_code == 400  # the version is missing
        odd = {"workflowId": "conformance-noop", "surprise": 1}
        assert host.http.post("/runs", json=odd).status_code == 400
        assert host.http.post("/v1/runs", json=odd).status_code == 201  # bodies of v1 are open
