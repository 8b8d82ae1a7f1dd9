"""Scenarios that ask any OpenWOP host over HTTP whether it does what the protocol says.

They are our own, written from the specification; they are not the published suite. A scenario that
needs a workflow or a capability which the host does not announce is skipped.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tracklog.hosts.openwop.conformance.client import Client, NotAsExpected, Skipped

Scenario = Callable[[Client], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioResult:
    """The result of a scenario."""

    name: str
    major: int
    outcome: str
    """`passed`, `failed` or `skipped`."""
    why: str = ""


def run_all(url: str, key: str, majors: tuple[int, ...] = (1, 2)) -> Iterator[ScenarioResult]:
    """Run the scenarios of these major versions, one after the other."""
    from tracklog.hosts.openwop.conformance import scenarios_v1, scenarios_v2  # noqa: PLC0415  # a circle

    for major, module in ((1, scenarios_v1), (2, scenarios_v2)):
        if major not in majors:
            continue
        client = Client(url, key, major)
        for scenario in module.SCENARIOS:
            yield _result(scenario, client, major)


def _result(scenario: Scenario, client: Client, major: int) -> ScenarioResult:
    name = scenario.__name__.replace("_", "-")
    try:
        client.check_version()
        scenario(client)
    except Skipped as skipped:
        return ScenarioResult(name=name, major=major, outcome="skipped", why=str(skipped))
    except NotAsExpected as error:
        return ScenarioResult(name=name, major=major, outcome="failed", why=str(error))
    except (OSError, KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        why = f"{type(error).__name__}: {error}"
        return ScenarioResult(name=name, major=major, outcome="failed", why=why)
    return ScenarioResult(name=name, major=major, outcome="passed")
