"""Nothing is accepted without effect: every property is carried out, describes, or is refused.

The tables are complete: they are compared with the published schemas, with the kinds of nodes, and
with the options of the official clients.
"""

import json
import re
from pathlib import Path

import httpx
import pytest

from support.hosting import BASE, SCHEMAS, Host, flow, put
from support.openwop_clients import about, fields_of, requests_of
from tracklog import TracklogError
from tracklog.dialects.checking import check  # noqa: F401  # loads the dialects first
from tracklog.dialects.openwop.manifest import AgentManifest
from tracklog.hosts.openwop.definitions import DefinitionRefused
from tracklog.hosts.openwop.http import HEADERS, SINGLE
from tracklog.hosts.openwop.kinds import KINDS
from tracklog.hosts.openwop.options import BODY, CONFIGURABLE, NOT_DONE, OVERLAY
from tracklog.hosts.openwop.routes import POLL, QUERY, HostRoute, routes_of
from tracklog.hosts.openwop.schemas import PUBLISHED
from tracklog.hosts.openwop.settings import Key, Settings, digest, read_settings
from tracklog.hosts.openwop.webhooks import HOOK, HOOK_OF_V2
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
    "id": DESCRIBES, "sourceNodeId": DONE, "targetNodeId": DONE, "triggerRule": DONE,
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


MANIFEST = {
    "agentId": DONE, "systemPrompt": DONE, "toolAllowlist": DONE, "confidence": DONE,
    "persona": DESCRIBES, "modelClass": DESCRIBES, "label": DESCRIBES, "description": DESCRIBES,
    "evalSuiteRef": DESCRIBES,
    "systemPromptRef": "prompts/run.md", "requiresCapabilities": ["a"],
    "memoryShape": {"longTerm": True}, "handoff": {"taskSchemaRef": "a"},
    "promptLibraryRef": "a", "promptOverrides": {"a": "b"},
}  # fmt: skip


def test_each_member_of_a_manifest_is_in_the_table():
    names = {each.alias or name for name, each in AgentManifest.model_fields.items()}
    assert names == MANIFEST.keys()


@pytest.mark.parametrize("name", [n for n, w in MANIFEST.items() if w not in (DONE, DESCRIBES)])
def test_an_agent_that_needs_what_is_not_carried_out_is_refused_with_its_workflows(tmp_path, name):
    made = {"agentId": "core.x", "persona": "A", "modelClass": "general", "systemPrompt": "Be."}
    made |= {name: MANIFEST[name]}
    if name == "systemPromptRef":
        del made["systemPrompt"]
    node = {"id": "a", "typeId": "core.noop", "agent": {"agentId": "core.x"}}
    flows = put(tmp_path / "flows", flow("pins", [node]))
    manifests = put(tmp_path / "agents", made)
    with Host(tmp_path / "home", workflows=flows, manifests=manifests) as host:
        assert host.engine.agents.names() == []
        assert any(name in fault for fault in host.engine.workflows.faults)
        response = host.http.post("/v1/runs", json={"workflowId": "pins"})
        assert (response.status_code, response.json()["details"]["field"]) == (400, "agent")
    good = {**made, "systemPrompt": "Be.", "memoryShape": {"conversation": True, "longTerm": False}}
    if name != "memoryShape":
        del good[name]
    put(tmp_path / "agents", good)
    with Host(tmp_path / "home", workflows=flows, manifests=manifests) as host:
        assert host.engine.agents.names() == ["core.x"]
        host.until(host.start("pins"), "completed")


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


EFFECTS_OF_A_WORKFLOW = {
    "": {
        "id": "test_every_fixture_is_served_as_it_was_published_and_runs",
        "nodes": "test_identity_passes_through_and_nodes_end_in_order",
        "edges": "test_edges_say_what_happens_when_a_node_fails",
        "variables": "test_variables_are_mapped_into_a_child_and_back",
        "settings": "test_a_run_that_takes_longer_than_its_definition_allows_is_ended",
        "configurableSchema": "test_options_are_checked_against_the_schema_of_the_workflow",
        "isActive": "test_a_workflow_that_is_not_active_is_shown_and_not_run",
        "status": "test_a_workflow_that_is_not_active_is_shown_and_not_run",
        "channels": "test_messages_go_to_a_channel_once_each_and_name_their_group",
    },
    "WorkflowNode": {
        "id": "test_identity_passes_through_and_nodes_end_in_order",
        "typeId": "test_every_fixture_is_served_as_it_was_published_and_runs",
        "config": "test_each_property_of_a_configuration_has_a_test_of_its_effect",
        "inputs": "test_identity_passes_through_and_nodes_end_in_order",
        "disabled": "test_a_node_that_is_disabled_is_passed",
        "agent": "test_a_pin_is_on_the_nodes_and_on_the_snapshot_as_it_was_written",
        "outputSensitivity": "test_a_sensitive_output_is_masked_in_the_outputs_of_the_run_too",
        "artifactType": "test_an_edited_or_refined_artifact_is_passed_on",
    },
    "WorkflowEdge": {
        "sourceNodeId": "test_edges_say_what_happens_when_a_node_fails",
        "targetNodeId": "test_edges_say_what_happens_when_a_node_fails",
        "triggerRule": "test_edges_say_what_happens_when_a_node_fails",
    },
    "WorkflowTrigger": {
        "enabled": "test_a_workflow_whose_manual_trigger_is_not_enabled_is_begun_by_no_client",
    },
    "WorkflowVariable": {
        "name": "test_variables_are_mapped_into_a_child_and_back",
        "type": "test_an_input_has_the_type_that_the_workflow_declares",
        "required": "test_a_child_that_is_begun_wrongly_fails_its_parent_and_says_why",
        "defaultValue": "test_variables_are_mapped_into_a_child_and_back",
        "sensitive": "test_a_sensitive_value_is_masked_wherever_it_is_copied",
    },
    "ChannelDeclaration": {"schema": "test_a_message_fits_the_schema_of_its_channel"},
    "WorkflowMetadata": {},
    "WorkflowSettings": {
        "timeout": "test_a_run_that_takes_longer_than_its_definition_allows_is_ended",
        "maxRetries": "test_a_node_that_fails_is_tried_again_and_every_attempt_is_on_record",
        "maxLoopbackIterations": "test_a_loop_ends_at_its_cap",
    },
}  # fmt: skip
EFFECTS_OF_A_MANIFEST = {
    "agentId": "test_manifests_declare_agents_once_and_never_one_of_the_hosts_own",
    "systemPrompt": "test_the_model_gets_the_system_prompt_of_a_manifest",
    "toolAllowlist": "test_a_tool_outside_the_allowlist_is_never_dispatched_and_that_is_on_record",
    "confidence": "test_the_threshold_is_the_runs_then_the_manifests_then_seven_tenths",
}
"""The test that fails when a property has no effect."""


def test_each_property_that_is_carried_out_has_a_test_of_its_effect():
    tables = {**TABLES, "manifest": MANIFEST}
    effects = {**EFFECTS_OF_A_WORKFLOW, "manifest": EFFECTS_OF_A_MANIFEST}
    assert {place: rows.keys() for place, rows in effects.items()} == {
        place: {name for name, word in rows.items() if word == DONE}
        for place, rows in tables.items()
    }
    tests = {test for rows in effects.values() for test in rows.values()}
    assert [test for test in sorted(tests) if not has_test(test)] == []


def test_a_node_that_is_disabled_is_passed(tmp_path):
    nodes = [{"id": name, "typeId": "core.noop"} for name in "abc"]
    nodes[1] |= {"typeId": "core.fail", "disabled": True}
    flows = put(tmp_path / "flows", flow("passes", nodes, [("a", "b"), ("b", "c")]))
    with Host(tmp_path / "home", workflows=flows) as host:
        run = host.start("passes")
        states = host.until(run, "completed")["nodeStates"]
        assert {name: state["status"] for name, state in states.items()} == {
            "a": "completed", "b": "skipped", "c": "completed",
        }  # fmt: skip
        (skipped,) = host.events(run, "node.skipped")
        assert skipped["payload"] == {"nodeId": "b", "reason": "disabled"}


def test_a_message_fits_the_schema_of_its_channel(tmp_path):
    says = [
        {"id": name, "typeId": "core.ai.callPrompt", "config": {"prompt": "p", "channel": "c"}}
        for name in "ab"
    ]
    schema = {"type": "array", "maxItems": 1}
    made = flow(
        "says", says, [("a", "b")], channels={"c": {"reducer": "message", "schema": schema}}
    )
    with Host(tmp_path / "home", workflows=put(tmp_path / "flows", made)) as host:
        run = host.start("says")
        snapshot = host.until(run, "failed")
        assert snapshot["error"]["code"] == "validation_error"
        assert len(snapshot["channels"]["c"]) == 1
        assert host.events(run, "run.failed")[0]["payload"]["failedNodeId"] == "b"


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
    with pytest.raises(DefinitionRefused) as refused:
        define(changed(table, name, TABLES[table][name]), Settings())
    assert refused.value.code == "validation_error"


def test_a_setting_of_a_workflow_that_nobody_knows_is_refused():
    with pytest.raises(DefinitionRefused):
        define(changed("WorkflowSettings", "concurrency", 2), Settings())


@pytest.mark.parametrize("kind", KINDS)
def test_a_node_is_refused_with_a_configuration_that_its_kind_does_not_carry_out(kind):
    node = {"id": "n", "typeId": kind, "config": {"surprise": 1}}
    with pytest.raises(DefinitionRefused) as refused:
        define(flow("conformance-w", [node]), Settings())
    assert "surprise" in refused.value.message


WRONG = {
    "core.approvalGate": {
        "title": ["", 1],
        "description": [1],
        "actions": [["ask"], [], "accept", ["sign"], [1], ["accept", "accept"]],
        "requiredApprovals": [0, -1, True, "2"],
        "rejectionPolicy": ["unanimous", 1],
        "approversList": ["bob", [1], []],
        "timeoutMs": [0, -1, "1", True],
    },
    "core.clarificationGate": {
        "questions": [
            [],
            "a",
            [1],
            [{"id": "a"}],
            [{"id": "a", "question": "?", "schema": {"type": 5}}],
            [{"id": "a", "question": "?", "schema": 5}],
            [{"id": 1, "question": "?"}],
            [{"id": "a", "question": 1}],
            [{"id": "a", "question": "?", "more": 1}],
            [{"id": "a", "question": "?"}, {"id": "a", "question": "?"}],
        ],
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
        "data": [[], {"eventType": "paid", "correlation": {"id": 1}}, {"surprise": 1}],
        "resumeSchema": [[], {"type": 5}],
        "timeoutMs": [0],
    },
    "core.ai.callPrompt": {
        "prompt": ["", 1, "Hello {{name}}", "Hello {{ name }}"],
        "system": [1],
        "tools": ["a:b", [1], [""]],
        "channel": ["c", 1],
    },
    "core.delay": {"delayMs": [-1, 60_001, "1", True]},
    "core.identity": {"emitDuplicateMessageId": [True], "channel": ["c"]},
    "core.orchestrator.supervisor": {"prompt": ["", 1, "{{name}}"]},
    "core.tool.call": {"toolId": ["", 1]},
}
NEEDED = {
    "core.clarificationGate": {"questions": [{"id": "a", "question": "?"}]},
    "core.subWorkflow": {"workflowId": "w"},
    "core.interrupt": {"kind": "external-event", "eventType": "paid", "correlation": {"id": 1}},
    "core.ai.callPrompt": {"prompt": "p"},
    "core.tool.call": {"toolId": "a:b"},
    "core.delay": {"delayMs": 1},
}
NEEDED["core.control.subWorkflow"] = NEEDED["core.subWorkflow"]


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
    with pytest.raises(DefinitionRefused):
        define(flow("w", [{**good, "config": {**good["config"], name: value}}]), Settings())


ODD = [None, True, False, 0, -1, 1.5, "", "x", [], {}, [1], [[]], [{}], [None], {"a": 1}, {"a": {}}]
"""Values of every type, of which a property that is looked at accepts only some."""
ANY_JSON = {("core.tool.call", "arguments")}
"""The properties that are passed on whatever they are."""


def code_of(made: dict) -> str | None:
    """The code with which a workflow is refused, if it is."""
    try:
        define(made, Settings())
    except DefinitionRefused as refused:
        return refused.code
    return None


@pytest.mark.parametrize("kind", KINDS)
def test_each_property_of_a_configuration_is_looked_at(kind):
    """The table comes from the kinds of nodes: whatever is odd is refused, and crashes nothing."""
    channels = {"c": {"reducer": "message"}}
    for name in sorted(KINDS[kind].config):
        accepted = []
        for value in ODD:
            node = {"id": "n", "typeId": kind, "config": {**NEEDED.get(kind, {}), name: value}}
            code = code_of(flow("conformance-w", [node], channels=channels))
            assert code in (None, "validation_error"), (name, value)
            accepted += [value] if code is None else []
        is_any = (kind, name) in ANY_JSON
        assert (len(accepted) == len(ODD)) == is_any, (name, accepted)
        assert is_any or None not in accepted, name  # null is no way to leave a limit out


def test_a_workflow_that_is_odd_anywhere_is_refused_and_crashes_nothing():
    agent = {"agentId": "core.a", "agentSharing": "shared:g", "modelClass": "reasoning"}
    plan = [{"kind": "next-worker", "nextWorkerIds": ["w"]}]
    one, mapping = {"type": "static", "value": 1}, {"a": "v"}
    nodes = [
        {"id": "s", "typeId": "core.orchestrator.supervisor", "agent": agent,
         "config": {"mockDecisions": plan}},
        {"id": "d", "typeId": "core.dispatch",
         "config": {"outputMapping": mapping, "perWorkerOutputMappings": {"w": mapping}}},
        {"id": "c", "typeId": "core.subWorkflow",
         "config": {"workflowId": "w", "outputMapping": mapping}},
        {"id": "i", "typeId": "core.identity", "inputs": {"x": one},
         "outputSensitivity": {"x": True}},
    ]  # fmt: skip
    made = flow("conformance-w", nodes, [("s", "d"), ("d", "s"), ("d", "c"), ("c", "i")],
                variables=[{"name": "v", "type": "string"}], settings={"maxRetries": 1},
                configurableSchema={"properties": {"k": {"type": "string"}}})  # fmt: skip
    define(made, Settings())

    def places(value, path=()):
        if not isinstance(value, dict | list):
            return
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield (*path, key)
            yield from places(each, (*path, key))

    for path in places(made):
        for odd in ODD:
            copy = json.loads(json.dumps(made))
            *outer, last = path
            place = copy
            for key in outer:
                place = place[key]
            place[last] = odd
            assert code_of(copy) in (None, "validation_error", "capability_required"), (path, odd)


def test_an_event_is_recognised_by_equal_json(tmp_path):
    config = {"kind": "external-event", "eventType": "paid", "correlation": {"id": 1, "no": None}}
    node = {"id": "n", "typeId": "core.interrupt", "config": config}
    with Host(tmp_path / "home", workflows=put(tmp_path / "flows", flow("waits", [node]))) as host:
        run = host.start("waits")
        host.until(run, "waiting-external")
        for event in ({"id": True, "no": None}, {"id": "1", "no": None}, {"id": 1}):
            assert host.answer(run, "n", event).status_code == 422, event
        assert host.answer(run, "n", {"id": 1, "no": None}).status_code == 200
        host.until(run, "completed")


TWICE = [
    (flow("w", [{"id": "a", "typeId": "core.noop"}],
          variables=[{"name": "v", "type": "string"}, {"name": "v", "type": "number"}]),
     "variables.name"),
    (flow("w", [{"id": "a", "typeId": "core.identity", "inputs": {
        "x": {"type": "connection", "nodeId": "b", "outputKey": "y", "optional": True}}},
        {"id": "b", "typeId": "core.identity", "inputs": {"y": {"type": "static", "value": 1}}}]),
     "inputs.x"),
    (flow("w", [{"id": "s", "typeId": "core.orchestrator.supervisor"},
                {"id": "d", "typeId": "core.dispatch"}],
          [("s", "d"), ("d", "s", "any_failed")]), "edges"),
    (flow("w", [{"id": "s", "typeId": "core.orchestrator.supervisor"},
                {"id": "t", "typeId": "core.orchestrator.supervisor"}], [("s", "t")]),
     "nodes.agent"),
]  # fmt: skip


@pytest.mark.parametrize(("made", "field"), TWICE)
def test_what_only_one_of_two_could_carry_out_is_refused(made, field):
    with pytest.raises(DefinitionRefused) as refused:
        define(made, Settings())
    assert refused.value.details["field"] == field


def test_a_dispatch_leads_on_to_a_second_supervisor_of_the_same_agent(tmp_path):
    agent = {"agentId": "core.lead"}
    plan = {"mockDecisions": [{"kind": "next-worker", "nextWorkerIds": ["conformance-noop"]}]}
    nodes = [
        {"id": "s", "typeId": "core.orchestrator.supervisor", "agent": agent, "config": plan},
        {"id": "d", "typeId": "core.dispatch"},
        {"id": "t", "typeId": "core.orchestrator.supervisor", "agent": agent, "config": plan},
        {"id": "e", "typeId": "core.dispatch", "config": {"iterationCap": 2}},
        {"id": "f", "typeId": "core.dispatch", "config": {"iterationCap": 2}},
    ]
    made = flow("conformance-on", nodes, [("s", "d"), ("d", "t"), ("t", "e"), ("e", "f")])
    with Host(tmp_path / "home", workflows=put(tmp_path / "flows", made)) as host:
        run = host.start("conformance-on")
        assert host.until(run, "failed")["error"]["code"] == "loop_limit_exceeded"
        begun = [event["nodeId"] for event in host.events(run, "node.started")]
        assert begun == ["s", "d", "t", "e"]  # `f` would be the third dispatch of the run
        breach = host.events(run, "cap.breached")[0]["payload"]
        assert (breach["kind"], breach["limit"], breach["observed"]) == ("loop-iterations", 2, 3)


def test_a_gate_that_cannot_be_rejected_has_no_policy_of_rejections():
    for actions in (["accept"], ["accept", "edit-accept"]):
        config = {"actions": actions, "rejectionPolicy": "single-veto"}
        with pytest.raises(DefinitionRefused) as refused:
            define(
                flow("w", [{"id": "n", "typeId": "core.approvalGate", "config": config}]),
                Settings(),
            )
        assert refused.value.details["field"] == "config.rejectionPolicy"


EFFECTS = {
    "core.approvalGate": {
        "title": "test_the_client_of_version_1_does_everything",
        "description": "test_what_a_question_says_comes_from_its_configuration",
        "actions": "test_an_edited_or_refined_artifact_is_passed_on",
        "requiredApprovals": "test_a_gate_is_open_only_after_so_many_people_accepted",
        "rejectionPolicy": "test_a_gate_is_closed_by_one_veto_or_by_a_majority",
        "approversList": "test_only_the_approvers_that_are_listed_may_answer",
        "timeoutMs": "test_a_question_is_rejected_when_its_time_is_up_also_after_a_restart",
    },
    "core.clarificationGate": {
        "questions": "test_interrupt_clarification",
        "timeoutMs": "test_a_question_is_rejected_when_its_time_is_up_also_after_a_restart",
    },
    "core.delay": {"delayMs": "test_a_run_is_paused_after_its_node_and_goes_on_later"},
    "core.dispatch": {
        "askUserRouting": "test_what_has_only_one_value_here_is_accepted_with_that_one",
        "workerDispatchModel": "test_what_has_only_one_value_here_is_accepted_with_that_one",
        "fanOutPolicy": "test_a_dispatch_that_fails_says_why_and_ends_the_run",
        "iterationCap": "test_a_loop_ends_at_its_cap",
        "inputMapping": "test_a_supervisor_hands_variables_from_one_worker_to_the_next",
        "outputMapping": "test_a_supervisor_hands_variables_from_one_worker_to_the_next",
        "perWorkerInputMappings": "test_a_supervisor_hands_variables_from_one_worker_to_the_next",
        "perWorkerOutputMappings": "test_a_supervisor_hands_variables_from_one_worker_to_the_next",
    },
    "core.fail": {},
    "core.noop": {},
    "conformance.requiresMissing": {},
    "core.identity": {
        "emitDuplicateMessageId": "test_messages_go_to_a_channel_once_each_and_name_their_group",
        "channel": "test_messages_go_to_a_channel_once_each_and_name_their_group",
    },
    "core.interrupt": {
        "kind": "test_an_event_from_outside_resumes_the_run_that_it_is_for",
        "eventType": "test_an_event_from_outside_resumes_the_run_that_it_is_for",
        "correlation": "test_an_event_from_outside_resumes_the_run_that_it_is_for",
        "data": "test_an_event_from_outside_resumes_the_run_that_it_is_for",
        "resumeSchema": "test_an_event_from_outside_resumes_the_run_that_it_is_for",
        "timeoutMs": "test_an_event_from_outside_resumes_the_run_that_it_is_for",
    },
    "core.conformance.mock-agent": dict.fromkeys(
        ("agentId", "mockReasoning", "mockToolCalls", "mockHandoff", "mockDecision",
         "mockConfidence"),
        "test_the_five_events_come_in_order_within_their_node_and_in_both_spellings",
    ),
    "core.ai.callPrompt": {
        "prompt": "test_a_model_answers_and_is_given_tools_and_their_results",
        "system": "test_a_model_answers_and_is_given_tools_and_their_results",
        "tools": "test_a_model_answers_and_is_given_tools_and_their_results",
        "channel": "test_messages_go_to_a_channel_once_each_and_name_their_group",
    },
    "core.subWorkflow": {
        "workflowId": "test_variables_are_mapped_into_a_child_and_back",
        "inputMapping": "test_variables_are_mapped_into_a_child_and_back",
        "outputMapping": "test_variables_are_mapped_into_a_child_and_back",
        "waitForCompletion": "test_what_has_only_one_value_here_is_accepted_with_that_one",
        "propagateCancellation": "test_what_has_only_one_value_here_is_accepted_with_that_one",
        "onChildFailure": "test_a_sub_workflow_gives_its_outputs_and_a_failed_one_fails_its_parent",
    },
    "core.orchestrator.supervisor": {
        "prompt": "test_a_supervisor_asks_a_model_for_its_decision",
        "mockDecisions": "test_a_supervisor_dispatches_children_and_ends_with_terminate",
        "mockDispatchPlan": "test_a_supervisor_dispatches_children_and_ends_with_terminate",
        "mockConfidence": "test_a_supervisor_that_is_not_sure_holds_its_decision",
        "mockPendingDecision": "test_a_supervisor_that_is_not_sure_holds_its_decision",
    },
    "core.tool.call": {
        "toolId": "test_a_call_is_on_record_before_it_is_made_and_its_end_after",
        "arguments": "test_a_call_is_on_record_before_it_is_made_and_its_end_after",
    },
}  # fmt: skip
"""The test that fails when a property of a configuration has no effect."""
EFFECTS["core.control.subWorkflow"] = EFFECTS["core.subWorkflow"]


def test_each_property_of_a_configuration_has_a_test_of_its_effect():
    assert {kind: each.config for kind, each in KINDS.items()} == {
        kind: rows.keys() for kind, rows in EFFECTS.items()
    }
    texts = [path.read_text() for path in sorted(Path(__file__).parent.glob("test_*.py"))]
    missing = [
        (kind, name, test)
        for kind, rows in EFFECTS.items()
        for name, test in rows.items()
        if not any(f"def {test}(" in text for text in texts)
    ]
    assert not missing


@pytest.mark.parametrize(
    ("node", "field"),
    [
        ({"typeId": "core.tool.call", "config": {"toolId": "a:b"}}, "config.toolId"),
        (
            {"typeId": "core.ai.callPrompt", "config": {"prompt": "p", "tools": ["b"]}},
            "config.tools",
        ),
        ({"typeId": "core.subWorkflow", "config": {"workflowId": "nobody"}}, "config.workflowId"),
        ({"typeId": "core.subWorkflow", "config": {"workflowId": "asleep"}}, "config.workflowId"),
        ({"typeId": "core.subWorkflow", "config": {"workflowId": "deep"}}, "config.toolId"),
    ],
)
def test_a_run_that_needs_what_is_not_here_does_not_begin(tmp_path, node, field):
    tool = {"id": "t", "typeId": "core.tool.call", "config": {"toolId": "a:b"}}
    made = [
        flow("lacks", [{"id": "n", **node}]),
        flow("asleep", [{"id": "a", "typeId": "core.noop"}], isActive=False),
        flow("deep", [tool]),
    ]
    with Host(tmp_path / "home", workflows=put(tmp_path / "flows", *made)) as host:
        assert any("lacks" in fault or "deep" in fault for fault in host.engine.workflows.faults)
        for path in ("/v1/runs", "/runs"):
            response = host.http.post(path, json={"workflowId": "lacks"})
            assert (response.status_code, response.json()["error"]) == (400, "validation_error")
            assert response.json()["details"]["field"] == field
        begun = httpx.post(
            f"{host.url}/api/hosts/openwop/runs", json={"program": "lacks"},
            headers=host.http.headers, trust_env=False,
        )  # fmt: skip
        assert (begun.status_code, "is not here" in begun.json()["error"]) == (400, True)
        assert host.http.get("/runs").json()["runs"] == []


def test_each_place_in_a_prompt_is_filled_once(tmp_path):
    ports = {
        "a": {"type": "static", "value": "{{b}}"},
        "b": {"type": "static", "value": {"x": True}},
        "c": {"type": "variable", "variableName": "nobody", "optional": True},
    }
    prompt = "{{a}} {{ b }} <{{c}}> {{ not a name }}"
    node = {
        "id": "n",
        "typeId": "core.ai.callPrompt",
        "config": {"prompt": prompt},
        "inputs": ports,
    }
    with Host(tmp_path / "home", workflows=put(tmp_path / "flows", flow("fills", [node]))) as host:
        asked, ask = [], host.engine.model.ask

        async def listening(messages, *more):
            asked.append(messages[-1]["content"])
            return await ask(messages, *more)

        host.engine.model.ask = listening
        host.until(host.start("fills"), "completed")
        assert asked == ['{{b}} {"x":true} <> {{ not a name }}']


def test_what_has_only_one_value_here_is_accepted_with_that_one():
    """Other values are in the table of those that are refused."""
    send = {"askUserRouting": "clarification", "workerDispatchModel": "child-run"}
    child = {"workflowId": "w", "waitForCompletion": True, "propagateCancellation": True}
    for kind, config in (("core.dispatch", send), ("core.subWorkflow", child)):
        define(flow("w", [{"id": "n", "typeId": kind, "config": config}]), Settings())
        assert all(WRONG[kind][name] for name in config)
    define(flow("w", [{"id": "n", "typeId": "core.dispatch", "config": {"askUserRouting": "auto"}}]),
           Settings())  # fmt: skip


def test_arguments_of_a_tool_come_from_one_place():
    node = {"id": "n", "typeId": "core.tool.call", "config": {"toolId": "a:b", "arguments": {}},
            "inputs": {"x": {"type": "static", "value": 1}}}  # fmt: skip
    with pytest.raises(DefinitionRefused):
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
    with pytest.raises(DefinitionRefused):
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


NOT_SERVED = {
    "CreateAnnotationRequest", "ListPromptsRequest", "PutContentSectionRequest",
    "PutWorkspaceFileRequest", "RenderPromptRequest", "ReviseProposalRequest",
    "RotateWebhookSecretRequest", "SubmitProposalRequest", "UiPluginRequest",
}  # fmt: skip
"""Requests of the clients to routes that are not here; they are answered with 404."""
BODIES = {
    "CancelRunRequest": {"reason"},
    "PauseRunRequest": {"reason", "drainPolicy"},
    "ResumeRunRequest": {"reason"},
    "BulkCancelRunsRequest": {"runIds", "reason"},
    "ForkRunRequest": {"fromSeq", "mode", "runOptionsOverlay"},
    "ResolveInterruptRequest": {"resumeValue"},
    "RegisterWebhookRequest": {"url", "events", "secret", "tags"},
}
"""What clients can send to the routes that change something; all of it is carried out."""


@pytest.mark.parametrize("version", ["1.8.0", "2.7.0"])
def test_each_request_of_a_client_has_only_members_that_are_carried_out(version):
    assert {name: fields_of(version, name) for name in BODIES} == BODIES
    others = requests_of(version) - BODIES.keys() - {"CreateRunRequest"}
    assert others <= NOT_SERVED
    assert BODIES["RegisterWebhookRequest"] == {*HOOK_OF_V2}
    assert {*HOOK} - {*HOOK_OF_V2} == {"tenantId"}  # of version 1


LABELS = "test_a_branch_has_labels_of_its_own_and_a_fork_begins_inside_its_source"
PAUSE = "test_a_run_is_paused_after_its_node_and_goes_on_later"
CUT = "test_a_fork_has_the_events_before_its_beginning_and_no_later_one"
SIGNED = "test_a_webhook_is_signed_with_the_given_secret_and_only_for_runs_with_its_tags"
DELIVERED = "test_events_are_delivered_signed_until_they_are_unsubscribed"
EFFECTS_OF_A_REQUEST = {
    "CreateRunRequest": {
        "workflowId": "test_every_fixture_is_served_as_it_was_published_and_runs",
        "inputs": "test_identity_passes_through_and_nodes_end_in_order",
        "configurable": "test_each_option_of_a_run_has_a_test_of_its_effect",
        "tags": "test_a_run_is_begun_ends_and_can_be_looked_at",
        "metadata": "test_a_run_is_begun_ends_and_can_be_looked_at",
        "tenantId": "test_a_tenant_sees_only_its_own_runs",
        "scopeId": "test_a_scope_with_an_active_run_is_a_conflict_for_now",
    },
    "CancelRunRequest": {
        "reason": "test_cancelling_ends_a_run_and_a_second_time_changes_nothing"
    },
    "PauseRunRequest": {
        "reason": PAUSE, "drainPolicy": "test_a_run_is_paused_at_once_and_its_node_begins_again",
    },
    "ResumeRunRequest": {"reason": PAUSE},
    "BulkCancelRunsRequest": {
        "runIds": "test_each_row_of_a_bulk_cancel",
        "reason": "test_several_runs_are_ended_at_once_each_on_its_own",
    },
    "ForkRunRequest": {"fromSeq": CUT, "mode": CUT, "runOptionsOverlay": LABELS},
    "runOptionsOverlay": {
        "configurable": "test_a_fork_has_the_options_of_its_source_that_its_workflow_requires",
        "tags": LABELS, "metadata": LABELS,
    },
    "ResolveInterruptRequest": {
        "resumeValue": "test_an_approval_takes_one_of_its_actions_and_a_rejection_ends_the_run"
    },
    "RegisterWebhookRequest": {
        "url": DELIVERED, "events": DELIVERED, "secret": SIGNED, "tags": SIGNED,
        "tenantId": "test_a_tenant_sees_only_its_own_runs",
    },
}  # fmt: skip
"""The test that fails when a member of a request has no effect."""


def test_each_member_of_a_request_has_a_test_of_its_effect():
    ours = {
        "CreateRunRequest": BODY,
        "runOptionsOverlay": OVERLAY,
        "RegisterWebhookRequest": {*HOOK},
    }
    assert {name: {*rows} for name, rows in EFFECTS_OF_A_REQUEST.items()} == {**BODIES, **ours}
    tests = {test for rows in EFFECTS_OF_A_REQUEST.values() for test in rows.values()}
    assert [test for test in sorted(tests) if not has_test(test)] == []


# Bodies are closed. Of version 2: "The createRun body is closed" (spec/v2/core/runs.md). Of
# version 1: "the composed request is closed here with `unevaluatedProperties: false`, so undeclared
# properties still fail" (api/openapi.yaml, createRun); we hold the other bodies to the same rule.
CLOSED = [
    ("/runs", {"workflowId": "conformance-noop", "surprise": 1}, "surprise"),
    ("/runs", {"workflowId": "conformance-noop", "surprise": None}, "surprise"),
    ("/runs", {"workflowId": "conformance-noop", "version": "1"}, "version"),
    ("/runs", {"workflowId": "conformance-noop", "workflowVersion": 1}, "workflowVersion"),
    ("/runs", {"workflowId": "conformance-noop", "inputs": {"x": 1}}, "inputs.x"),
    ("/runs:bulk-cancel", {"runIds": ["a"], "surprise": 1}, "surprise"),
    ("/runs:bulk-cancel", {"runIds": ["a"], "filter": {"status": "running"}}, "filter"),
    ("/runs/{run}/cancel", {"surprise": 1}, "surprise"),
    ("/runs/{run}:pause", {"surprise": 1}, "surprise"),
    ("/runs/{run}:resume", {"surprise": 1}, "surprise"),
    ("/runs/{run}:resume", {"reason": 5}, "reason"),
    ("/runs/{run}:fork", {"mode": "replay", "surprise": 1}, "surprise"),
    ("/runs/{run}:fork", {"mode": "replay", "surprise": None}, "surprise"),
    ("/runs/{run}:fork", {"mode": "branch", "fromSeq": 1, "runOptionsOverlay": {"inputs": {}}},
     "runOptionsOverlay.inputs"),
    ("/runs/{run}/interrupts/gate", {"resumeValue": {"action": "accept"}, "surprise": 1},
     "surprise"),
    ("/runs/{run}/interrupts/gate", {"resumeValue": {"action": "accept", "bogus": 1}},
     "resumeValue.bogus"),
    ("/runs/{run}/interrupts/gate",
     {"resumeValue": {"action": "accept", "editedArtifactData": {"a": 1}}},
     "resumeValue.editedArtifactData"),
    ("/webhooks", {"url": "https://93.184.216.34/x", "events": ["run.completed"], "x": 1}, "x"),
]  # fmt: skip


@pytest.mark.parametrize("prefix", ["/v1", ""])
@pytest.mark.parametrize(("path", "body", "field"), CLOSED)
def test_a_member_of_a_request_that_nobody_knows_is_refused(tmp_path, prefix, path, body, field):
    with Host(tmp_path) as host:
        run = host.start("conformance-approval")
        host.until(run, "waiting-approval")
        response = host.http.post(prefix + path.replace("{run}", run), json=body)
        assert (response.status_code, response.json()["error"]) == (400, "validation_error")
        assert response.json()["details"]["field"] == field
        assert host.snapshot(run)["status"] == "waiting-approval"
        runs = host.http.get("/runs").json()["runs"]
        assert len(runs) == 1  # no run was begun


@pytest.mark.parametrize("path", ["/v1/runs", "/runs"])
def test_a_member_that_is_there_twice_is_refused(tmp_path, path):
    twice = b'{"workflowId": "conformance-noop", "workflowId": "conformance-failure"}'
    with Host(tmp_path) as host:
        response = host.http.post(path, content=twice)
        assert (response.status_code, response.json()["error"]) == (400, "validation_error")
        assert response.json()["details"] == {"field": "workflowId"}


def test_a_webhook_of_version_2_is_of_the_tenant_of_its_key(tmp_path):
    body = {"url": "https://93.184.216.34/x", "events": ["run.failed"], "tenantId": "t"}
    with Host(tmp_path) as host:
        response = host.http.post("/webhooks", json=body)
        assert (response.status_code, response.json()["details"]) == (400, {"field": "tenantId"})


PARAMETERS = [
    ("/workflows/conformance-noop?x=1", "x"),
    ("/runs/{run}?x=1", "x"),
    ("/runs/{run}/events?since=3", "since"),
    ("/runs/{run}/events?streamMode=debug&streamMode=debug", "streamMode"),
    ("/runs/{run}/events?types=bogus", "types"),
    ("/runs/{run}/events?types=", "types"),
    ("/runs/{run}/events?streamMode=values&types=run.*", "types"),
    ("/runs/{run}/events?resumable=maybe", "resumable"),
    ("/runs/{run}/events/poll?types=agent.*", "types"),
    ("/runs/{run}/events/poll?since=3", "since"),
    ("/runs/{run}:diff?against={run}&mode=fast", "mode"),
    ("/runs/{run}/artifacts/a?x=1", "x"),
]
ONLY_1 = [("/v1/runs/{run}/events/poll?afterSequence=3", "afterSequence")]
ONLY_2 = [
    ("/runs?tag=a", "tag"),
    ("/runs?status=bogus", "status"),
    ("/runs?limit=0", "limit"),
    ("/runs/{run}/events/poll?lastSequence=3", "lastSequence"),
    ("/runs/{run}/effects?x=1", "x"),
    ("/host/effect-seams?x=1", "x"),
    ("/webhooks/hook-x/dead-letters?status=500", "status"),
]


@pytest.mark.parametrize(
    ("path", "field"),
    [*((prefix + path, field) for prefix in ("/v1", "") for path, field in PARAMETERS),
     *ONLY_1, *ONLY_2],
)  # fmt: skip
def test_a_parameter_that_nobody_looks_at_is_refused(tmp_path, path, field):
    with Host(tmp_path) as host:
        run = host.start("conformance-noop")
        response = host.http.get(path.replace("{run}", run))
        assert (response.status_code, response.json()["error"]) == (400, "validation_error")
        assert response.json()["details"]["field"] == field
        if field == "limit":
            assert response.json()["message"] == "limit is 1 or more"
        late = host.http.post(f"/v1/runs/{run}/cancel?x=1", json={})
        assert late.json()["details"] == {"field": "x"}


def test_an_answer_has_only_what_was_asked_for(tmp_path):
    with Host(tmp_path) as host:
        run = host.start("conformance-clarification")
        host.until(run, "waiting-input")
        wrong = [
            ({"answers": {"q1": "blue", "q2": "?"}}, "resumeValue.answers.q2"),
            ({"answers": {"q1": "blue"}, "note": "x"}, "resumeValue.note"),
            ({"answers": [{"id": "q1", "answer": "blue", "by": "x"}]}, "resumeValue"),
        ]
        for value, field in wrong:
            response = host.answer(run, "ask", value)
            assert (response.status_code, response.json()["details"]) == (400, {"field": field})
        assert host.answer(run, "ask", {"answers": {"q1": "blue"}}).status_code == 200
        host.until(run, "completed")
        run = host.start("conformance-agent-low-confidence")
        host.until(run, "waiting-approval")
        node = host.snapshot(run)["currentNodeId"]
        response = host.answer(run, node, {"action": "accept", "decision": 1, "x": 1})
        assert response.json()["details"]["field"].startswith("resumeValue.")
        assert host.answer(run, node, {"action": "accept"}).status_code == 200


def test_a_run_with_unknown_inputs_is_refused_at_its_start(tmp_path):
    with Host(tmp_path) as host:
        for more in ({"surprise": 1}, {"seed": "rain"}, {"inputs": {"x": 1}}):
            body = {"program": "conformance-noop", **more}
            response = httpx.post(
                f"{host.url}/api/hosts/openwop/runs", json=body, headers=host.http.headers,
                trust_env=False,
            )  # fmt: skip
            assert response.status_code == 400, more
            assert next(iter(more.get("inputs", more))) in response.json()["error"]
        assert host.http.get("/runs").json()["runs"] == []


def test_an_input_that_a_node_reads_need_not_be_declared(tmp_path):
    node = {"id": "a", "typeId": "core.identity",
            "inputs": {"got": {"type": "variable", "variableName": "given"}}}  # fmt: skip
    with Host(tmp_path / "home", workflows=put(tmp_path / "flows", flow("reads", [node]))) as host:
        run = host.start("reads", inputs={"given": 5})
        assert host.until(run, "completed")["variables"]["got"] == 5


def test_a_delay_has_its_length_in_one_place():
    port = {"delayMs": {"type": "static", "value": 1}}
    for node in ({}, {"inputs": port, "config": {"delayMs": 1}}):
        with pytest.raises(DefinitionRefused) as refused:
            define(flow("w", [{"id": "n", "typeId": "core.delay", **node}]), Settings())
        assert refused.value.details["field"] == "config.delayMs"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("roles: {writer: ['local:wrds']}", "local:wrds"),
        (
            "tools: [{id: 'local:words', command: [wc]}]\nroles: {writer: ['local:wrds']}",
            "local:wrds",
        ),
        ("agent_roles: {core.reviewer: writr}", "writr"),
    ],
)
def test_a_role_names_tools_and_agents_name_roles_that_there_are(tmp_path, text, what):
    path = tmp_path / "host.yaml"
    path.write_text(text)
    with pytest.raises(TracklogError, match=what):
        read_settings(path, {})
    path.write_text(
        "tools: [{id: 'local:words', command: [wc]}]\n"
        "roles: {writer: ['local:words', 'openwop.echo:echo']}\n"
        "agent_roles: {core.reviewer: writer, core.other: worker}\n"
    )
    assert read_settings(path, {})["agent_roles"]["core.reviewer"] == "writer"


PUBLISHED_OPTIONS = {
    "run": {"recursionLimit", "runTimeoutMs", "maxLoopIterations", "escalationThreshold"},
    "ai": {"provider", "model", "temperature", "maxTokens", "credentialRef", "promptOverrides",
           "mockProvider", "reasoningVerbosity", "maxRefusals"},
    "distillation": {"tokenBudget"},
    "budget": {*SCHEMAS[f"{BASE}budget-policy.schema.json"]["properties"]},
}  # fmt: skip
"""The options of version 2, by section: the last as published, the others as the client has them."""


@pytest.mark.parametrize(
    ("section", "name"),
    [(section, name) for section, names in PUBLISHED_OPTIONS.items() for name in names],
)
def test_each_published_option_of_version_2_is_carried_out_or_refused(tmp_path, section, name):
    with Host(tmp_path) as host:
        options = {"version": 1, section: {name: ["what is wrong everywhere"]}}
        body = {"workflowId": "conformance-noop", "configurable": options}
        response = host.http.post("/runs", json=body)
        refused = (403, "mock_provider_forbidden") if name == "mockProvider" else None
        assert (response.status_code, response.json()["error"]) == (
            refused or (400, "validation_error")
        )
        assert response.json()["details"]["field"] == f"configurable.{section}.{name}"


def test_each_option_of_version_2_is_carried_out_or_refused(tmp_path):
    assert fields_of("2.7.0", "RunConfigurable") == {"version", *SECTIONS}
    told = about("2.7.0", "RunConfigurable")
    for section in ("run", "ai", "distillation"):
        listed = re.search(rf"``{section}``\s+\(([^)]*)\)", told)
        assert listed is not None
        assert {*re.findall(r"\w+", listed[1])} == PUBLISHED_OPTIONS[section]
    assert {*PUBLISHED_OPTIONS, "extensions"} == {*SECTIONS}
    assert len(PUBLISHED_OPTIONS["budget"]) == 8
    assert {*SCHEMAS[f"{BASE}run-options.schema.json"]["properties"]} == OVERLAY
    assert {*RUN, *AI} - {"mockProvider"} == CONFIGURABLE.keys()
    refused = [
        {"run": {"surprise": 1}},
        {"ai": {"provider": "x"}},
        {"ai": {"credentialRef": "x"}},
        {"ai": {"promptOverrides": {}}},
        {"ai": {"maxRefusals": 1}},
        {"ai": {"reasoningVerbosity": "off"}},  # that is `none` here
        {"distillation": {}},
        {"budget": {}},
        {"distillation": {"tokenBudget": 1}},
        {"budget": {"maxTokens": 1}},
        {"extensions": {"acme": {"a": 1}}},
        {"extensions": {"tracklog": {"a": 1}}},
        {"extensions": {"tracklog": {"recursionLimit": 5}}},
        {"extensions": {"tracklog": 5}},
        {"run.recursionLimit": 5},
        {"surprise": {}},
        {"run": {"recursionLimit": 0}},
        {"run": 5},
        {"version": True},
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
        assert host.http.post("/v1/runs", json=odd).status_code == 400


# Inputs and outputs of nodes, options, parameters and headers: the tables come from the code.


@pytest.mark.parametrize("kind", KINDS)
def test_an_input_that_a_kind_of_node_does_not_read_is_refused(kind):
    config = NEEDED.get(kind, {})
    surprise = {"surprise": {"type": "static", "value": 1}}
    made = flow("conformance-w", [{"id": "n", "typeId": kind, "config": config}])
    node = define(made, Settings()).nodes["n"]
    made["nodes"][0]["inputs"] = surprise
    if KINDS[kind].ports(node) is None:
        assert READ_BY[kind]
        define(made, Settings())
        return
    with pytest.raises(DefinitionRefused) as refused:
        define(made, Settings())
    assert refused.value.details["field"] == "inputs.surprise"


READ_BY = {
    "core.identity": "test_an_input_that_a_node_reads_need_not_be_declared",
    "core.subWorkflow": "test_a_port_that_the_child_does_not_have_is_refused_before_the_run",
    "core.control.subWorkflow": "test_a_port_that_the_child_does_not_have_is_refused_before_the_run",
    "core.tool.call": "test_arguments_of_a_tool_come_from_one_place",
}
"""The kinds that read whatever inputs they have, each with a test of that."""
OTHERWISE = [
    ({"id": "b", "typeId": "core.identity",
      "inputs": {"x": {"type": "connection", "nodeId": "a", "outputKey": "text"}}}, "inputs.x"),
    ({"id": "b", "typeId": "core.noop", "outputSensitivity": {"text": True}},
     "outputSensitivity.text"),
    ({"id": "b", "typeId": "core.noop", "artifactType": "report"}, "artifactType"),
    ({"id": "b", "typeId": "core.identity", "config": {"channel": "c"}}, "config.channel"),
    ({"id": "b", "typeId": "core.ai.callPrompt", "config": {"prompt": "Hello"},
      "inputs": {"name": {"type": "static", "value": "x"}}}, "inputs.name"),
    ({"id": "b", "typeId": "core.subWorkflow",
      "config": {"workflowId": "w", "inputMapping": {"x": "y"}},
      "inputs": {"x": {"type": "static", "value": 1}}}, "config.inputMapping"),
    ({"id": "b", "typeId": "core.orchestrator.supervisor",
      "config": {"mockDecisions": [], "mockDispatchPlan": []}}, "config.mockDispatchPlan"),
    ({"id": "b", "typeId": "core.orchestrator.supervisor",
      "config": {"mockDecisions": [], "prompt": "p"}}, "config.prompt"),
]  # fmt: skip


@pytest.mark.parametrize(("node", "field"), OTHERWISE)
def test_what_would_have_no_effect_beside_the_rest_is_refused(node, field):
    nodes = [{"id": "a", "typeId": "core.noop"}, node]
    channels = {"c": {"reducer": "message"}}
    with pytest.raises(DefinitionRefused) as refused:
        define(flow("conformance-w", nodes, [("a", "b")], channels=channels), Settings())
    assert refused.value.details["field"] == field


def has_test(name: str) -> bool:
    folder = Path(__file__).parent
    return any(f"def {name}(" in path.read_text() for path in folder.glob("test_*.py"))


OPTIONS = {
    "escalationThreshold": "test_the_threshold_is_the_runs_then_the_manifests_then_seven_tenths",
    "reasoningVerbosity": "test_verbosity_decides_how_much_reasoning_is_recorded",
    "recursionLimit": "test_retries_that_the_limit_of_nodes_ends_are_a_breach_of_it",
    "runTimeoutMs": "test_a_replay_that_waits_ends_by_the_limits_of_time",
    "maxLoopIterations": "test_a_loop_ends_at_its_cap",
    "model": "test_the_stub_keeps_the_options_of_a_run",
    "temperature": "test_the_stub_keeps_the_options_of_a_run",
    "maxTokens": "test_the_stub_keeps_the_options_of_a_run",
}
"""The test that fails when an option of a run has no effect."""


def test_each_option_of_a_run_has_a_test_of_its_effect():
    assert OPTIONS.keys() == CONFIGURABLE.keys()
    assert [name for name, test in OPTIONS.items() if not has_test(test)] == []


def test_the_stub_keeps_the_options_of_a_run(tmp_path):
    node = {"id": "a", "typeId": "core.ai.callPrompt", "config": {"prompt": "one two three"}}
    with Host(tmp_path / "home", workflows=put(tmp_path / "flows", flow("asks", [node]))) as host:
        for options, text, model in (
            ({}, "[0 earlier] one two three", "stub"),
            ({"temperature": 0.5}, "[0 earlier, temperature 0.5] one two three", "stub"),
            ({"model": "m", "maxTokens": 3}, "[0 earlier] one", "m"),
        ):
            run = host.start("asks", configurable=options)
            assert host.until(run, "completed")["variables"]["text"] == text
            assert host.events(run, "provider.usage")[0]["payload"]["model"] == model


def test_options_of_a_model_are_refused_where_none_is_asked(tmp_path):
    tests = Key(digest=digest("tests"), scopes=frozenset({"*"}), test=True)
    with Host(tmp_path, keys=(tests,)) as host:
        for name, value in (("model", "m"), ("temperature", 1), ("maxTokens", 1)):
            options = {"mockProvider": {"id": "stream-text"}, name: value}
            body = {"workflowId": "conformance-noop", "configurable": options}
            refused = host.client("tests").http.post("/v1/runs", json=body)
            assert (refused.status_code, refused.json()["details"]) == (
                400,
                {"field": f"configurable.{name}"},
            )


SEEN = {
    "discovery": {"cb": "test_a_document_can_be_had_past_a_cache"},
    "openapi": {"cb": "test_a_document_can_be_had_past_a_cache"},
    "events": {
        "streamMode": "test_a_list_of_events_is_what_was_asked_for",
        "types": "test_a_list_of_events_is_what_was_asked_for",
        "bufferMs": "test_a_batch_is_sent_at_once_when_the_run_ends",
        "resumable": "test_a_list_of_events_is_what_was_asked_for",
    },
    "poll": {
        "lastSequence": "test_a_poll_is_held_until_there_is_more",
        "afterSequence": "test_a_poll_has_five_keys_and_a_cursor",
        "timeout": "test_a_poll_is_held_until_there_is_more",
        "streamMode": "test_a_poll_has_five_keys_and_a_cursor",
    },
    "diff": {"against": "test_the_id_of_a_child_is_bound_wherever_it_is_handed_on"},
    "list_runs": dict.fromkeys(
        ("limit", "cursor", "workflowId", "status"), "test_runs_are_listed_by_page_and_only_those_of_the_tenant"
    ),
    "dead_letters": dict.fromkeys(
        ("limit", "cursor"), "test_a_delivery_that_never_succeeds_is_a_dead_letter_and_holds_up_nothing"
    ),
    "unregister_webhook": {"tenantId": "test_a_tenant_sees_only_its_own_runs"},
    "verify_audit": dict.fromkeys(("fromSeq", "toSeq"), "not served: always 404"),
}  # fmt: skip
"""The test that fails when a parameter of a route has no effect."""


def test_each_parameter_of_a_route_has_a_test_of_its_effect():
    polled = {"poll": POLL["1"].keys() | POLL["2"].keys()}
    known = {name: rows.keys() for name, rows in QUERY.items()} | polled
    assert {name: rows.keys() for name, rows in SEEN.items()} == known
    tests = {test for rows in SEEN.values() for test in rows.values()} - {"not served: always 404"}
    assert [test for test in sorted(tests) if not has_test(test)] == []


@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_each_route_refuses_parameters_and_headers_that_it_does_not_carry_out(tmp_path, version):
    with Host(tmp_path) as host:
        run = host.start("conformance-noop")
        host.until(run, "completed")
        routes = [HostRoute("GET", "/.well-known/openwop", "discovery", "")]
        routes += routes_of(host.engine.wires[version])
        for route in routes:
            path = route.path.replace("{run}", run).replace("{id}", "conformance-noop")
            path = re.sub(r"{\w+}", "x", path)
            refused = host.http.request(route.method, f"{path}?surprise=1")
            assert refused.status_code == 400, route
            assert refused.json()["details"] == {"field": "surprise"}
            if route.name == "discovery":
                continue
            forced = {"X-Force-Engine-Version": "1"}
            refused = host.http.request(route.method, path, headers=forced)
            assert refused.json()["error"] == "force_engine_version_forbidden", route
            for name, routes_with_it in HEADERS.items():
                if route.name not in routes_with_it:
                    refused = host.http.request(route.method, path, headers={name: "1"})
                    assert (refused.status_code, refused.json()["details"]) == (
                        400,
                        {"field": name},
                    ), route


@pytest.mark.parametrize("names", SINGLE)
@pytest.mark.parametrize("path", ["/v1/runs", "/runs"])
def test_a_header_that_only_holds_once_is_refused_when_it_comes_twice(tmp_path, path, names):
    with Host(tmp_path) as host:
        pairs = [(names[0], "enforce"), (names[-1], "enforce")]
        body = {"workflowId": "conformance-noop"}
        refused = host.http.post(path, json=body, headers=[*host.http.headers.items(), *pairs])
        assert (refused.status_code, refused.json()["error"]) == (400, "validation_error")
        assert refused.json()["details"] == {"field": names[-1]}
        assert host.http.get("/runs").json()["runs"] == []


def test_a_document_can_be_had_past_a_cache(tmp_path):
    with Host(tmp_path) as host:
        for path in ("/.well-known/openwop", "/v1/openapi.json", "/openapi.json"):
            plain, fresh = host.http.get(path), host.http.get(f"{path}?cb=1800000000")
            assert (fresh.status_code, fresh.content) == (200, plain.content)


@pytest.mark.parametrize("prefix", ["/v1", ""])
def test_a_list_of_events_is_what_was_asked_for(tmp_path, prefix):
    with Host(tmp_path) as host:
        run = host.start("conformance-noop")
        host.until(run, "completed")

        def listed(query: str, **headers) -> httpx.Response:
            accept = {"Accept": "application/json", **headers}
            return host.http.get(f"{prefix}/runs/{run}/events{query}", headers=accept)

        def kinds(query: str) -> list[str]:
            return [event["type"] for event in listed(query).json()["events"]]

        assert kinds("") == kinds("?streamMode=debug") == kinds("?resumable=true")
        assert kinds("?streamMode=updates") == ["run.started", "node.completed", "run.completed"]
        assert kinds("?streamMode=messages") == []
        assert kinds("?types=node.*") == ["node.started", "node.completed"]
        for query, field in (("?bufferMs=100", "bufferMs"), ("?resumable=false", "resumable"),
                             ("?streamMode=values", "streamMode")):  # fmt: skip
            assert listed(query).json()["details"]["field"] == field
        late = listed("", **{"Last-Event-ID": "1"})
        assert (late.status_code, late.json()["details"]) == (400, {"field": "Last-Event-ID"})
