"""What the protocol demands of a host, row by row: each has a test with the exact wire."""

from pathlib import Path

import pytest

from support.hosting import Host, flow, put
from tracklog import NotAppended

GATE = {"id": "gate", "typeId": "core.approvalGate"}

ROWS = {
    # Version 1: what must hold.
    "quorum": "test_a_gate_is_open_only_after_so_many_people_accepted",
    "rejection policies": "test_a_gate_is_closed_by_one_veto_or_by_a_majority",
    "timeoutMs of a gate": "test_a_question_is_rejected_when_its_time_is_up_also_after_a_restart",
    "approversList": "test_only_the_approvers_that_are_listed_may_answer",
    "mappings of a sub-workflow": "test_variables_are_mapped_into_a_child_and_back",
    "configurableSchema": "test_options_are_checked_against_the_schema_of_the_workflow",
    "a scope for each route": "test_each_route_needs_its_own_scope_and_no_other_one_will_do",
    "keys without scopes": "test_a_key_without_scopes_is_named_when_the_host_starts",
    "X-Force-Engine-Version, mockProvider": "test_what_only_tests_may_ask_for_is_refused_to_others",
    "runTimeoutMs": "test_a_run_ends_when_its_own_time_or_that_of_the_host_is_up",
    "X-Dedup": "test_only_one_run_of_a_scope_is_active_when_that_is_asked_for",
    "callbackUrl": "test_an_option_that_is_wrong_or_not_carried_out_is_refused",
    "bulk cancel": "test_several_runs_are_ended_at_once_each_on_its_own",
    "pause after the node": "test_a_run_is_paused_after_its_node_and_goes_on_later",
    "pause at once": "test_a_run_is_paused_at_once_and_its_node_begins_again",
    "what cannot be paused": (
        "test_what_waits_for_a_person_or_was_never_paused_is_not_paused_or_resumed"
    ),
    "webhooks": "test_events_are_delivered_signed_until_they_are_unsubscribed",
    "private addresses": "test_nothing_is_sent_to_a_private_address",
    "tokens of questions": "test_a_token_shows_and_answers_one_question_without_a_key",
    "expiry of tokens": "test_a_token_does_not_outlive_its_question_and_dies_with_its_run",
    "a capability that is required": (
        "test_a_node_that_requires_what_the_host_does_not_provide_fails_its_run_unexecuted"
    ),
    "roots without a version": "test_a_host_that_suppresses_escalation_serves_only_version_1",
    "an unknown workflow": "test_what_cannot_be_begun_is_refused_in_the_closed_envelope",
    "fromSeq, labels of a branch": (
        "test_a_branch_has_labels_of_its_own_and_a_fork_begins_inside_its_source"
    ),
    "a question of a cancelled run": "test_a_run_that_waits_is_cancelled_with_its_question",
    "resolvedAt, resolvedBy": "test_a_gate_is_open_only_after_so_many_people_accepted",
    "parents and children": "test_a_run_waits_when_its_child_waits",
    "stream-text": "test_a_run_of_tests_streams_the_tokens_of_a_mock_provider",
    "external events": "test_an_event_from_outside_resumes_the_run_that_it_is_for",
    "clarificationRounds": "test_too_many_answers_that_do_not_fit_end_a_clarification",
    "maxRequestBodyBytes": "test_an_error_has_the_code_of_the_version_of_the_request",
    "inputs and outcome": (
        "test_tool_events_have_the_names_that_clients_read_beside_those_of_the_rfc"
    ),
    "types=": "test_each_type_of_agent_event_can_be_subscribed_to",
    "the snapshot in OpenAPI": (
        "test_the_document_of_the_routes_has_the_snapshot_and_our_own_parameter"
    ),
    # Version 2.
    "versions": "test_another_major_version_on_a_path_of_this_one_is_refused",
    "discovery": "test_discovery_is_closed_and_one_resource_with_that_of_version_1",
    "bound ids": (
        "test_a_run_is_known_by_its_bound_id_in_every_spelling_and_by_its_bare_id"
    ),
    "owner": "test_a_fork_has_the_owner_of_its_source_and_the_rights_of_its_maker",
    "owner of an older run": "test_a_run_from_before_there_were_tenants_has_an_owner",
    "tenants": "test_a_tenant_sees_only_its_own_runs",
    "closed bodies": "test_bodies_are_closed_and_keys_of_retries_have_a_grammar",
    "options": "test_each_option_of_version_2_is_carried_out_or_refused",
    "envelopes and names of events": (
        "test_events_have_a_closed_envelope_and_the_names_of_version_2"
    ),
    "agents and supervisors": "test_the_other_names_of_agents_and_supervisors",
    "nothing is dropped": "test_nothing_of_the_journal_is_lost_in_the_rendering",
    "answers of people": "test_an_approval_is_one_shape_with_who_resolved_it",
    "poll": "test_a_poll_has_five_keys_and_a_cursor",
    "streams": "test_a_stream_has_the_names_and_shapes_of_version_2",
    "cancel, pause, bulk cancel": "test_pause_and_cancel_and_bulk_cancel",
    "tokens": "test_a_token_of_version_2",
    "codes": "test_each_code_is_registered_with_its_status",
    "codes on the wire": "test_an_error_has_the_code_of_the_version_of_the_request",
    "codes of failed runs": "test_a_code_that_version_2_does_not_have_is_in_the_details",
    "a type without a name": "test_a_type_that_version_2_does_not_have_fails_the_read",
    "GET /runs": "test_runs_are_listed_by_page_and_only_those_of_the_tenant",
    "effects": "test_effects_are_the_calls_of_tools",
    "webhooks that last": "test_a_delivery_that_fails_is_tried_again_also_after_a_restart",
    "dead letters": (
        "test_a_delivery_that_never_succeeds_is_a_dead_letter_and_holds_up_nothing"
    ),
    "shape of a delivery": "test_a_webhook_of_version_2_gets_what_version_2_shows",
    "ETag of a snapshot": "test_a_snapshot_is_not_sent_again_when_it_is_unchanged",
    # The official clients.
    "client 1.8.0": "test_the_client_of_version_1_does_everything",
    "client 2.7.0": "test_the_client_of_version_2_does_everything",
}  # fmt: skip


def test_each_row_has_its_test():
    texts = [path.read_text() for path in Path(__file__).parent.glob("test_host_openwop*.py")]
    missing = {row for row, test in ROWS.items() if not any(f"def {test}(" in t for t in texts)}
    assert missing == set()


CODES = {
    "an unknown run": ((404, "run_not_found"), (404, "not_found")),
    "an unknown workflow": ((404, "workflow_not_found"), (404, "not_found")),
    "a node that asks nothing": ((404, "interrupt_not_found"), (404, "not_found")),
    "an unknown subscription": ((404, "subscription_not_found"), (404, "not_found")),
    "a run of an unknown workflow": ((400, "validation_error"), (400, "validation_error")),
    "a large body": ((413, "request_too_large"), (413, "payload_too_large")),
    "a fork behind the end": ((422, "fork_out_of_range"), (422, "fork_point_invalid")),
    "a run of a newer engine": ((422, "engine_version_mismatch"), (409, "version_conflict")),
    "another method": ((405, "method_not_allowed"), (404, "not_found")),
    "another host": ((421, "misdirected_request"), (403, "forbidden")),
    "a full disk": ((503, "unavailable"), (503, "service_unavailable")),
}


@pytest.mark.parametrize("major", [1, 2])
def test_an_error_has_the_code_of_the_version_of_the_request(tmp_path, major, monkeypatch):
    prefix = "/v1" if major == 1 else ""
    noop = {"workflowId": "conformance-noop"}
    with Host(tmp_path, max_request_bytes=2000) as host:
        run = host.start("conformance-approval")
        host.until(run, "waiting-approval")
        lines = host.engine.known(run).lines
        newer = [each.replace(run.encode(), b"run-of-a-newer-engine") for each in lines]
        newer = [each.replace(b'"engine":1', b'"engine":2') for each in newer]
        host.home.intake.admit(newer, "openwop")
        ask = host.http
        fork = {"mode": "branch", "fromSeq": 99}
        answers = {
            "an unknown run": ask.get(f"{prefix}/runs/run-nobody"),
            "an unknown workflow": ask.get(f"{prefix}/workflows/nobody"),
            "a node that asks nothing": ask.post(
                f"{prefix}/runs/{run}/interrupts/x", json={"resumeValue": {"action": "accept"}}
            ),
            "an unknown subscription": ask.delete(f"{prefix}/webhooks/hook-x"),
            "a run of an unknown workflow": ask.post(f"{prefix}/runs", json={"workflowId": "x"}),
            "a large body": ask.post(f"{prefix}/runs", json={**noop, "tags": ["x" * 3000]}),
            "a fork behind the end": ask.post(f"{prefix}/runs/{run}:fork", json=fork),
            "a run of a newer engine": ask.post(
                f"{prefix}/runs/run-of-a-newer-engine:fork", json={"mode": "replay"}
            ),
            "another method": ask.patch(f"{prefix}/runs", json={}),
            "another host": ask.get(f"{prefix}/runs/{run}", headers={"Host": "example.com"}),
        }

        def full(*_lines, **_more):
            raise NotAppended("the disk is full", "make room")

        with monkeypatch.context() as patched:
            patched.setattr(host.engine, "_admit", full)
            answers["a full disk"] = ask.post(f"{prefix}/runs", json=noop)
        assert "retry-after" in answers["a full disk"].headers
        found = {what: (each.status_code, each.json()["error"]) for what, each in answers.items()}
        assert found == {what: codes[major - 1] for what, codes in CODES.items()}
        assert {each.headers["openwop-version"] for each in answers.values()} == {f"{major}.0"}


def test_a_run_from_before_there_were_tenants_has_an_owner(tmp_path):
    with Host(tmp_path / "home", workflows=put(tmp_path / "flows", flow("asks", [GATE]))) as host:
        run = host.start("asks")
        host.until(run, "waiting-approval")
        lines = host.engine.known(run).lines
        old = [each.replace(run.encode(), b"run-of-a-former-host") for each in lines]
        old[0] = old[0].replace(b'"tenant":"default",', b"").replace(b',"tenant":"default"', b"")
        assert old[0] != lines[0].replace(run.encode(), b"run-of-a-former-host")
        host.home.intake.admit(old, "openwop")
        owner = host.http.get("/runs/default~2Frun-of-a-former-host").json()["owner"]
        assert owner["subject"]["issuer"] == "urn:openwop:legacy"
        assert host.http.get(f"/runs/{run}").json()["owner"] == {
            "tenant": "default",
            "subject": {**owner["subject"], "issuer": "urn:tracklog:api-key"},
        }
        (begun, *_) = host.http.get("/runs/run-of-a-former-host/events").json()["events"]
        assert begun["payload"]["owner"] == owner
