"""What the protocol demands of a host, row by row: each has a test with the exact wire."""

from pathlib import Path

import pytest

from support.hosting import Host, flow, put, signed
from tracklog import NotAppended

GATE = {"id": "gate", "typeId": "core.approvalGate"}

ROWS = {
    # The floor of version 1.
    "auth": "test_without_a_key_or_with_a_wrong_one_the_answer_is_401_in_the_envelope",
    "a key for each route": (
        "test_each_route_with_a_scope_needs_a_key_and_does_nothing_without_one"
    ),
    "interrupt-auth-required-resume": (
        "test_each_route_with_a_scope_needs_a_key_and_does_nothing_without_one"
    ),
    "discovery of version 1": "test_discovery",
    "what discovery says holds": "test_the_document_of_version_1_says_only_what_holds",
    "If-None-Match": "test_discovery_is_not_sent_again_when_it_is_unchanged",
    "runs-lifecycle": "test_runs_lifecycle",
    "the answer to a new run": "test_the_answer_to_a_new_run",
    "eventOrdering": "test_event_ordering",
    "failure-path": "test_failure_path_and_the_shape_of_a_failed_node",
    "idempotency": "test_another_body_under_the_same_key_is_a_conflict_that_names_no_run",
    "webhook-negative": "test_nothing_is_sent_to_a_private_address",
    "interrupt-approval": "test_interrupt_approval",
    "interrupt-clarification": "test_interrupt_clarification",
    "interrupt-parent-child-cascade": "test_a_parent_shows_its_child_and_the_child_its_parent",
    # Version 1: what must hold.
    "1 quorum": "test_a_gate_is_open_only_after_so_many_people_accepted",
    "1 rejection policies": "test_a_gate_is_closed_by_one_veto_or_by_a_majority",
    "1 one vote of each": "test_a_second_vote_of_a_person_is_checked_and_does_not_change_the_first",
    "1 voter": "test_a_voter_is_who_holds_the_key_except_in_tests_of_conformance",
    "2 timeoutMs": "test_a_question_is_rejected_when_its_time_is_up_also_after_a_restart",
    "2 timers and restarts": "test_the_time_of_a_question_goes_on_while_no_host_runs",
    "2 no timeout by a client": "test_a_client_cannot_say_that_the_time_is_up",
    "3 approversList": "test_only_the_approvers_that_are_listed_may_answer",
    "3 approvers in both versions": (
        "test_who_is_no_approver_is_forbidden_and_an_approver_is_not"
    ),
    "4 mappings": "test_variables_are_mapped_into_a_child_and_back",
    "5 configurableSchema": "test_options_are_checked_against_the_schema_of_the_workflow",
    "6 a scope for each route": "test_each_route_needs_its_own_scope_and_no_other_one_will_do",
    "6 all routes": "test_every_route_that_needs_a_scope_is_in_the_table",
    "6 keys without scopes": "test_a_key_without_scopes_is_named_when_the_host_starts",
    "6 order of checks": (
        "test_who_asks_is_checked_before_what_exists_and_that_before_how_it_was_asked"
    ),
    "7 force-engine-version": "test_the_version_of_the_engine_is_chosen_by_test_keys_alone",
    "8 mockProvider": "test_what_only_tests_may_ask_for_is_refused_to_others",
    "9 runTimeoutMs": "test_a_run_ends_when_its_own_time_or_that_of_the_host_is_up",
    "9 out of range": "test_an_option_that_is_wrong_or_not_carried_out_is_refused",
    "10 dedup": "test_a_scope_with_an_active_run_is_a_conflict_for_now",
    "10 other scopes": "test_only_one_run_of_a_scope_is_active_when_that_is_asked_for",
    "11 callbackUrl": "test_an_option_that_is_wrong_or_not_carried_out_is_refused",
    "12 bulk cancel": "test_each_row_of_a_bulk_cancel",
    "12 each on its own": "test_several_runs_are_ended_at_once_each_on_its_own",
    "13 answers to pause and resume": "test_the_answers_to_pause_and_resume",
    "13 pause after the node": "test_a_run_is_paused_after_its_node_and_goes_on_later",
    "13 pause at once": "test_a_run_is_paused_at_once_and_its_node_begins_again",
    "13 what cannot be paused": (
        "test_what_waits_for_a_person_or_was_never_paused_is_not_paused_or_resumed"
    ),
    "14 subscription and delivery": "test_a_subscription_and_its_deliveries_member_by_member",
    "14 signature, nothing of a replay": (
        "test_events_are_delivered_signed_until_they_are_unsubscribed"
    ),
    "14 no redirects, 5 seconds": (
        "test_a_delivery_follows_no_redirect_and_does_not_wait_for_ever"
    ),
    "14 no longer than 5 seconds": "test_a_receiver_that_never_ends_its_answer_is_given_up",
    "14 looked up and pinned": (
        "test_a_name_is_looked_up_for_each_delivery_and_the_checked_address_is_used"
    ),
    "14 tags, own secrets": (
        "test_a_webhook_is_signed_with_the_given_secret_and_only_for_runs_with_its_tags"
    ),
    "14 addresses": "test_only_addresses_that_everybody_can_reach_are_public",
    "14 secrets": (
        "test_a_subscription_is_made_once_for_one_key_and_its_secret_is_stored_nowhere"
    ),
    "15 tokens": "test_a_token_by_all_its_states",
    "15 only for those who may answer": (
        "test_a_token_shows_and_answers_one_question_without_a_key"
    ),
    "15 no token for those who may only read": (
        "test_only_a_snapshot_for_those_who_may_answer_has_a_token"
    ),
    "15 tokens and their question": (
        "test_a_token_does_not_outlive_its_question_and_dies_with_its_run"
    ),
    "15 overlapping secrets": "test_the_secret_of_tokens_is_replaced_without_a_gap",
    "16 a capability that is required": (
        "test_a_node_that_requires_what_the_host_does_not_provide_fails_its_run_unexecuted"
    ),
    "17 roots without a version": "test_a_host_that_suppresses_escalation_serves_only_version_1",
    "18 an unknown workflow": "test_an_option_that_is_wrong_or_not_carried_out_is_refused",
    "19, 20 fromSeq, labels of a branch": (
        "test_a_branch_has_labels_of_its_own_and_a_fork_begins_inside_its_source"
    ),
    "21 a question of a cancelled run": "test_a_run_that_waits_is_cancelled_with_its_question",
    "22 resolvedAt, resolvedBy": "test_who_is_no_approver_is_forbidden_and_an_approver_is_not",
    "23 parents and children": "test_a_parent_shows_its_child_and_the_child_its_parent",
    "23 parents wait": "test_a_run_waits_when_its_child_waits",
    "24 stream-text": "test_a_run_of_tests_streams_the_tokens_of_a_mock_provider",
    "24 testing": "test_what_tests_may_ask_for_is_announced_with_the_prefix_of_their_keys",
    "25 external events": "test_an_event_from_outside_resumes_the_run_that_it_is_for",
    "25 loops": "test_a_loop_that_leads_back_to_a_question_is_refused",
    "refusals under a key": (
        "test_a_refusal_is_repeated_as_one_unless_the_request_itself_was_wrong"
    ),
    "keys of principals": "test_a_key_of_a_retry_is_of_one_principal_and_one_tenant",
    "rejections and edges": "test_a_rejection_follows_the_edge_for_failures",
    "bufferMs, Last-Event-ID, values": (
        "test_a_stream_behind_the_end_is_empty_and_states_begin_with_the_present_one"
    ),
    "Last-Event-ID": "test_a_stream_goes_on_after_the_last_event_that_was_received",
    "both runs of a comparison": "test_runs_of_two_tenants_are_not_compared",
    "clarificationRounds": "test_too_many_answers_that_do_not_fit_end_a_clarification",
    "recursionLimit": "test_the_cap_on_node_executions_ends_a_run_before_the_node_over_it",
    "maxRequestBodyBytes": "test_an_error_has_the_code_of_the_version_of_the_request",
    "inputs and outcome": (
        "test_tool_events_have_the_names_that_clients_read_beside_those_of_the_rfc"
    ),
    "engineVersion of a snapshot": "test_runs_lifecycle",
    "types=": "test_each_type_of_agent_event_can_be_subscribed_to",
    "the snapshot in OpenAPI": (
        "test_the_document_of_the_routes_has_the_snapshot_and_our_own_parameter"
    ),
    # Version 2: what changed.
    "first segments of paths": (
        "test_a_path_of_version_2_that_is_not_served_is_not_found_in_its_envelope"
    ),
    "versions and clients that are not served": (
        "test_a_version_that_is_not_served_is_refused_on_every_path"
    ),
    "paths": "test_there_is_no_path_of_version_2_with_a_prefix",
    "versions": "test_another_major_version_on_a_path_of_this_one_is_refused",
    "the version of every answer": "test_every_answer_says_its_version",
    "versions are not mixed": "test_what_is_not_served_is_not_found_and_versions_are_not_mixed",
    "discovery": "test_discovery_is_closed_and_one_resource_with_that_of_version_1",
    "families": "test_the_complete_document_of_version_2",
    "revocation": "test_a_key_that_is_removed_is_refused_with_the_next_request",
    "bound ids": (
        "test_a_run_is_known_by_its_bound_id_in_every_spelling_and_by_its_bare_id"
    ),
    "ids that are handed on": "test_the_id_of_a_child_is_bound_wherever_it_is_handed_on",
    "owner": "test_a_fork_has_the_owner_of_its_source_and_the_rights_of_its_maker",
    "owner of an older run": "test_a_run_from_before_there_were_tenants_has_an_owner",
    "tenants": "test_a_tenant_sees_only_its_own_runs",
    "closed bodies": "test_bodies_are_closed_and_keys_of_retries_have_a_grammar",
    "options": "test_each_option_of_version_2_is_carried_out_or_refused",
    "each option": "test_each_published_option_of_version_2_is_carried_out_or_refused",
    "envelopes and names of events": (
        "test_events_have_a_closed_envelope_and_the_names_of_version_2"
    ),
    "payloads of agents": "test_each_payload_of_agents_in_both_versions",
    "agents and supervisors": "test_the_other_names_of_agents_and_supervisors",
    "nothing is dropped": "test_nothing_of_the_journal_is_lost_in_the_rendering",
    "nodes": "test_a_node_begins_and_ends_with_the_members_of_version_2",
    "questions and answers": "test_a_question_and_its_answer_member_by_member",
    "modes of streams": "test_a_mode_that_is_none_is_refused_whatever_is_accepted",
    "answers of people": "test_an_approval_is_one_shape_with_who_resolved_it",
    "changes and timeouts": "test_a_change_and_a_timeout_have_the_members_of_version_2",
    "outputs of a completed run": (
        "test_events_have_a_closed_envelope_and_the_names_of_version_2"
    ),
    "poll": "test_a_poll_has_five_keys_and_a_cursor",
    "streams": "test_a_stream_has_the_names_and_shapes_of_version_2",
    "cancel, pause, bulk cancel": "test_pause_and_cancel_and_bulk_cancel",
    "tokens": "test_a_token_of_version_2",
    "codes": "test_each_code_is_registered_with_its_status",
    "codes on the wire": "test_an_error_has_the_code_of_the_version_of_the_request",
    "codes of failed runs": "test_a_code_that_version_2_does_not_have_is_in_the_details",
    "modes of a fork": "test_a_mode_that_is_no_mode_of_a_fork_is_wrong_in_both_versions",
    "GET /runs": "test_runs_are_listed_by_page_and_only_those_of_the_tenant",
    "effects": "test_effects_are_the_calls_of_tools",
    "effect-seams": "test_the_ways_in_which_runs_have_effects",
    "webhooks that last": "test_a_delivery_that_fails_is_tried_again_also_after_a_restart",
    "dead letters": (
        "test_a_delivery_that_never_succeeds_is_a_dead_letter_and_holds_up_nothing"
    ),
    "shape of a delivery": "test_a_webhook_of_version_2_gets_what_version_2_shows",
    "ETag of a snapshot": "test_a_snapshot_is_not_sent_again_when_it_is_unchanged",
    # Where version 2 and RFC 0002 differ.
    "AgentRef": "test_an_agent_has_what_each_version_can_say_of_it",
    "suppressed escalation": "test_a_host_that_suppresses_escalation_serves_only_version_1",
    "escalationThreshold": "test_a_threshold_is_a_number_from_0_to_1_in_version_2_too",
    "none and off": "test_options_are_nested_in_and_out",
    "flags of agents": "test_agents_are_announced_only_when_all_of_their_events_are_written",
    "a type without a name": (
        "test_a_type_of_event_without_a_name_fails_the_read_of_version_2_alone"
    ),
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
        host.home.intake.admit(signed(host.home, newer), "openwop")
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
        host.home.intake.admit(signed(host.home, old), "openwop")
        owner = host.http.get("/runs/default~2Frun-of-a-former-host").json()["owner"]
        assert owner["subject"]["issuer"] == "urn:openwop:legacy"
        assert host.http.get(f"/runs/{run}").json()["owner"] == {
            "tenant": "default",
            "subject": {**owner["subject"], "issuer": "urn:tracklog:api-key"},
        }
        (begun, *_) = host.http.get("/runs/run-of-a-former-host/events").json()["events"]
        assert begun["payload"]["owner"] == owner
