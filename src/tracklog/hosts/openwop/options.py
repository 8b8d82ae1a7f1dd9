"""The options of a run: which are carried out, and the faults of those that are not."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tracklog.hosts.openwop.definitions import Definition, DefinitionRefused
from tracklog.hosts.openwop.mock_provider import OPTION, check_provider
from tracklog.hosts.openwop.schemas import placed_faults
from tracklog.hosts.openwop.settings import VERBOSITIES, Key

MOST_TAGS, LONGEST_TAG = 100, 256
BODY = frozenset(
    {"workflowId", "inputs", "configurable", "tags", "metadata", "tenantId", "scopeId"}
)
"""The members of a request to begin a run that are carried out."""
OVERLAY = frozenset({"configurable", "tags", "metadata"})
"""The options that a branch may have of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """The options of a run, beside its workflow and inputs."""

    configurable: Mapping[str, Any] = field(default_factory=dict)
    labels: Mapping[str, Any] = field(default_factory=dict)
    """Tags, metadata and scope: they are recorded with the run."""


def _refused(name: str, message: str) -> DefinitionRefused:
    return DefinitionRefused("validation_error", message, field=name)


NOT_DONE = frozenset(
    """callbackUrl residency mode evalSuiteRef agentId evalModes baselineRunId fixtureRuns workspaceId
    parentRunId priority""".split()  # noqa: SIM905  # a list of words
)
"""Members of requests that the protocol knows and this host does not carry out."""


def refuse_unknown(body: Mapping[str, Any], known: Iterable[str], place: str = "") -> None:
    """Refuse a member of a request that asks for something which the host does not do.

    Bodies are closed in both versions of the protocol. `place` is that of the body in the request.
    """
    names = sorted(known)
    for name in sorted(body.keys() - set(names)):
        if name in NOT_DONE:
            text = f"{name} is not carried out here"
        else:
            text = f"there is no member {name[:50]!r} here; there are: {', '.join(names) or 'none'}"
        raise _refused(place + name, text)


Place = Callable[[str], str]
"""The place of an option in a request, for the message about a fault."""


def read_options(
    body: Mapping[str, Any],
    key: Key,
    tenant: str,
    definition: Definition | None,
    place: Place,
    outer: str = "",
    base: Mapping[str, Any] | None = None,
) -> RunOptions:
    """The options of a request, checked; `DefinitionRefused` says what cannot be done.

    `outer` is the place of the options in the request, where they are not its body. `base` has the
    options of the source of a fork, which those of the request complete.
    """
    configurable = body.get("configurable", {})
    if not isinstance(configurable, dict):
        raise _refused(f"{outer}configurable", "configurable must be an object")
    check_configurable(configurable, key, definition, lambda name: outer + place(name), base)
    labels: dict[str, Any] = {}
    if "tags" in body:
        labels["tags"] = checked_tags(body["tags"], f"{outer}tags")
    if "metadata" in body:
        if not isinstance(body["metadata"], dict):
            raise _refused(f"{outer}metadata", "metadata must be an object")
        labels["metadata"] = body["metadata"]
    for name in ("tenantId", "scopeId"):
        if body.get(name) is None:
            continue
        if not isinstance(body[name], str) or not 1 <= len(body[name]) <= 256:
            raise _refused(name, f"{name} is a text of 1 to 256 characters")
        labels[name] = body[name]
    if labels.pop("tenantId", tenant) != tenant:
        raise DefinitionRefused(
            "forbidden", f"this key acts for the tenant {tenant}", field="tenantId"
        )
    return RunOptions(configurable=configurable, labels=labels)


def checked_tags(tags: Any, place: str) -> list[str]:
    """The tags of a run, or of the runs that a subscription is for."""
    if (
        not isinstance(tags, list)
        or len(tags) > MOST_TAGS
        or not all(isinstance(each, str) and 1 <= len(each) <= LONGEST_TAG for each in tags)
    ):
        text = f"tags are at most {MOST_TAGS} texts of 1 to {LONGEST_TAG} characters"
        raise _refused(place, text)
    return tags


def check_configurable(
    options: Mapping[str, Any],
    key: Key,
    definition: Definition | None,
    place: Place,
    base: Mapping[str, Any] | None = None,
) -> None:
    """Refuse an option that is wrong or unknown, or that the workflow does not allow."""
    if OPTION in options:
        check_provider(options[OPTION], key, place(OPTION))
        for name in ("model", "temperature", "maxTokens"):
            if name in options:
                text = f"{name} is for a model, and {OPTION} answers in the place of one"
                raise _refused(place(name), text)
    schema = definition.source.get("configurableSchema") if definition else None
    declared = schema.get("properties", {}) if isinstance(schema, dict) else {}
    for name, value in options.items():
        if name == OPTION:
            continue
        if name in CONFIGURABLE:
            if not CONFIGURABLE[name][0](value):
                raise _refused(place(name), f"{name} is {CONFIGURABLE[name][1]}")
        elif name not in declared:
            names = ", ".join(sorted(map(str, declared.keys() - CONFIGURABLE.keys())))
            others = f"the workflow declares {names}" if names else "the workflow declares none"
            raise _refused(place(name), f"there is no option {name[:50]!r}; {others}")
    if schema is not None and (faults := _faults(schema, declared, {**(base or {}), **options})):
        name = faults[0][0].partition(".")[0]
        text = "; ".join(fault for _, fault in faults)
        whole = place("").partition("configurable")[0] + "configurable"
        raise _refused(place(name) if name else whole, text)


def _faults(
    schema: Any, declared: Mapping[str, Any], options: Mapping[str, Any]
) -> list[tuple[str, str]]:
    """The faults of options against the schema of a workflow.

    The options of the protocol are reserved: a schema may narrow one by declaring it, and one that
    it does not declare is allowed, also where the schema is closed.
    """
    faults = placed_faults(schema, dict(options))
    own = {k: v for k, v in options.items() if k in declared or k not in {OPTION, *CONFIGURABLE}}
    return placed_faults(schema, own) if faults and own.keys() != options.keys() else faults


def declared_options(definition: Definition) -> set[str]:
    """The options that a workflow declares."""
    schema = definition.source.get("configurableSchema")
    return {*schema.get("properties", {})} if isinstance(schema, dict) else set()


def inherited(options: Mapping[str, Any], definition: Definition) -> dict[str, Any]:
    """The options of a child run: those of the protocol, and others that its workflow declares, too."""
    schema = definition.source.get("configurableSchema")
    declared = schema.get("properties", {}) if isinstance(schema, dict) else {}
    found = {k: v for k, v in options.items() if k in {OPTION, *CONFIGURABLE} or k in declared}
    if schema is not None and (faults := _faults(schema, declared, found)):
        text = "; ".join(fault for _, fault in faults)
        raise _refused("configurable", f"it does not allow the options of the run: {text}")
    return found


def _integer(least: int) -> Any:
    return lambda value: (
        isinstance(value, int) and not isinstance(value, bool) and least <= value <= 2**53
    )


def _number(least: float, most: float) -> Any:
    return lambda value: (
        isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= most
    )


CONFIGURABLE = {
    "escalationThreshold": (_number(0, 1), "a number from 0 to 1"),
    "reasoningVerbosity": (VERBOSITIES.__contains__, f"one of {', '.join(VERBOSITIES)}"),
    "recursionLimit": (_integer(1), "a whole number, 1 or more"),
    "runTimeoutMs": (_integer(1), "a whole number of milliseconds, 1 or more"),
    "maxLoopIterations": (_integer(1), "a whole number, 1 or more"),
    "model": (lambda value: isinstance(value, str) and bool(value), "the name of a model"),
    "temperature": (_number(0, 2), "a number from 0 to 2"),
    "maxTokens": (_integer(1), "a whole number, 1 or more"),
}
"""The options that are carried out, each with its check and what it must be."""
