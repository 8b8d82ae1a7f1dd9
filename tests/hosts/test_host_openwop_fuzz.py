"""A short form of the fuzz of an OpenWOP host; `make fuzz` has the long one.

No answer is a failure of the host, the host always starts again, and what it accepts has an effect.
"""

import contextlib
import random
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from support.hosting import TOKEN, Process, flow, put
from support.openwop_fuzz import ODD, Case, Fuzz, bases, cases, changed, places, workflows
from support.soaking import SOAK
from support.waiting import eventually

SHARE = min(1.0, 0.05 * SOAK)
"""The part of all combinations that is tried."""
SEED = random.SystemRandom().randrange(10**6) if SOAK > 1 else 7
ODD_ID = "agent-id-form"
ENDED = ("completed", "failed", "cancelled")
STILL = (*ENDED, "waiting-approval", "waiting-input", "waiting-external", "paused")


def known(host: Process, major: int) -> tuple[str, list[Case]]:
    """A run that ended, and requests to it and to others that wait."""
    run, asked = host.start("conformance-multi-node"), host.start("many")
    paused, other = host.start("conformance-cancellable"), host.start("many")
    host.until(run, "completed")
    host.until(asked, "waiting-approval")
    token = host.until(other, "waiting-approval")["interrupt"]["interruptToken"]
    return run, cases(major, run, asked, paused, token)


def many(name: str) -> dict:
    """A gate that no answer of one person opens: it can be answered again and again."""
    return flow(name, [{"id": "gate", "typeId": "core.approvalGate",
                        "config": {"requiredApprovals": 2}}])  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("major", [1, 2])
def test_no_odd_member_of_a_request_is_a_failure_or_without_effect(tmp_path, major):
    flows = str(put(tmp_path / "flows", many("many"))[0])
    arguments = ("--workflows", flows, "--test-seams")
    with Process(tmp_path / "home", *arguments) as host, Fuzz(host.url, SEED) as fuzz:
        _, requests = known(host, major)
        fuzz.bodies(major, requests, SHARE)
        assert fuzz.faults == [], (SEED, len(fuzz.faults))
        assert fuzz.sent > 100
        print(f"{fuzz.sent} requests, {fuzz.accepted} accepted")
        host.end(signal.SIGKILL)
    with Process(tmp_path / "home", *arguments) as host:
        rows = host.http.get("/runs").json()["runs"]
        assert rows
        for row in rows:
            name = row["runId"].rpartition("/")[2]
            for head in ("/v1", ""):
                assert host.http.get(f"{head}/runs/{name}").status_code == 200
                assert host.http.get(f"{head}/runs/{name}/events").status_code == 200


@pytest.mark.long
def test_no_odd_path_parameter_or_header_is_a_failure(tmp_path):
    flows = str(put(tmp_path / "flows", many("many"))[0])
    with Process(tmp_path / "home", "--workflows", flows) as host, Fuzz(host.url, SEED) as fuzz:
        run, _ = known(host, 1)
        fuzz.lines(run, SHARE)
        faults = [each for each in fuzz.faults if each[1] != "no field"]
        assert faults == [], SEED
        print(f"{fuzz.sent} requests, {fuzz.accepted} accepted")


@pytest.mark.long
def test_no_odd_workflow_is_a_failure_or_keeps_the_host_from_its_start(tmp_path):
    made = [*bases(), *workflows(240 * SOAK, SEED)]
    begun = refused = 0
    for number, batch in enumerate(made[at : at + 240] for at in range(0, len(made), 240)):
        folder = tmp_path / f"flows-{number}"
        flows = str(put(folder, *batch)[0])
        with Process(tmp_path / f"home-{number}", "--workflows", flows, tolerated=ODD_ID) as host:
            runs = {}
            for each in batch:
                body = {"workflowId": each["id"]}
                answer = host.http.post("/v1/runs", json=body)
                assert answer.status_code in (201, 400, 422), (each, answer.text)
                if answer.status_code == 201:
                    runs[each["id"]] = answer.json()["runId"]
                    assert host.http.get(f"/v1/workflows/{each['id']}").json() == each
                else:
                    assert each not in bases(), answer.text
                    refused += 1
                    assert answer.json()["details"].keys() & {"field", "requiredCapability"}
            for name, run in runs.items():
                snapshot = host.until(run, *STILL)
                assert snapshot.get("error", {}).get("code") != "internal_error", (name, snapshot)
                newer = host.http.get(f"/runs/{run}/events")
                assert newer.status_code == 200, (name, newer.text)
            begun += len(runs)
            host.end(signal.SIGKILL)
        with Process(tmp_path / f"home-{number}", "--workflows", flows, tolerated=ODD_ID) as host:
            for run in runs.values():
                assert host.until(run, *STILL)["runId"] == run
    print(f"{len(made)} workflows: {begun} begun, {refused} refused")
    assert begun
    assert refused


@pytest.mark.long
def test_odd_requests_of_many_and_kills_leave_a_host_that_goes_on(tmp_path):
    flows = str(put(tmp_path / "flows", many("many"), *bases())[0])
    chance = random.Random(SEED)
    arguments = ("--workflows", flows, "--test-seams")
    wrong: list[object] = []
    sent = [0]

    def abuse(url: str, requests: list[Case], seed: int, over: threading.Event) -> None:
        own = random.Random(seed)
        headers = {"Authorization": f"Bearer {TOKEN}"}
        with httpx.Client(base_url=url, headers=headers, timeout=60, trust_env=False) as http:
            while not over.is_set():
                case = own.choice(requests)
                body = case.body
                for _ in range(own.randrange(3)):
                    with contextlib.suppress(KeyError, IndexError, TypeError):
                        path = own.choice([*places(body)])
                        body = changed(body, path, own.choice(ODD))
                again = {"Idempotency-Key": f"a-key-that-is-long-enough-{own.randrange(20)}"}
                sent[0] += 1
                try:
                    answer = http.request(
                        case.method,
                        case.path,
                        json=body,
                        headers=again if own.random() < 0.5 else {},
                    )
                except httpx.TransportError:
                    return  # the host was killed
                if answer.status_code >= 500:
                    wrong.append((case.name, body, answer.text))

    for number in range(2 * SOAK):
        with Process(tmp_path / "home", *arguments) as host:
            requests = known(host, 1)[1] + known(host, 2)[1]
            requests += [Case("odd", "POST", "/v1/runs", {"workflowId": each["id"]})
                         for each in bases()]  # fmt: skip
            over = threading.Event()
            with ThreadPoolExecutor(4) as pool:
                work = [pool.submit(abuse, host.url, requests, SEED * 100 + number * 4 + n, over)
                        for n in range(4)]  # fmt: skip
                over.wait(chance.uniform(0.3, 1.5))
                host.process.kill()
                over.set()
                for each in work:
                    each.result()
            host.end()
        assert wrong == [], SEED
    with Process(tmp_path / "home", *arguments) as host:
        cursor: str | None = ""
        seen = 0
        while cursor is not None:
            page = host.http.get("/runs", params={"cursor": cursor} if cursor else {}).json()
            for row in page["runs"]:
                seen += 1
                name = row["runId"].rpartition("/")[2]
                assert eventually(
                    lambda name=name: (
                        host.snapshot(name)["status"] in STILL
                        or host.snapshot(name)["workflowId"] == "conformance-cancellable"
                    )
                ), name
                assert host.http.get(f"/runs/{name}/events").status_code == 200
            cursor = page.get("nextCursor")
        assert seen
        print(f"{sent[0]} requests, {2 * SOAK} kills, {seen} runs")
