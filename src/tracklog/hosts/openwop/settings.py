"""The settings of a host, and the capabilities that it announces because of them."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

from tracklog import TracklogError
from tracklog.hosts._yaml_text import NotYaml, read_yaml

ENGINE = 1
"""The version of the engine; a run of a newer one is read and not executed."""
LOG_VERSION = 2
SYSTEM = "core.system"
"""The agent id of tool calls that no agent makes (WOP-61)."""
TEST_PREFIX = "hk_test_"
"""The beginning of the tokens of tests, by which they are recognised."""
DEFAULT_ROLE = "worker"
"""The harness role of an agent that has no other."""
ECHO = "openwop.echo:echo"
"""A tool that every host has: it returns its arguments."""
UNPRIVILEGED = "conformance-unprivileged"
"""A principal that holds no scope, for tests of the tool hooks."""

Verbosity = Literal["summary", "full", "off"]
VERBOSITIES = ("summary", "full", "off")

GATES: Mapping[str, str] = {
    "agent.reasoned": "reasoning_events",
    "agent.reasoning.delta": "reasoning_events",
    "agent.toolCalled": "tool_events",
    "agent.toolReturned": "tool_events",
    "agent.handoff": "handoff_events",
    "agent.decided": "decision_events",
}
"""The flag without which a type of event is not written (WOP-75)."""


WRITE = frozenset(
    {
        "artifacts:read",
        "audit:read",
        "manifest:read",
        "runs:create",
        "runs:read",
        "runs:cancel",
        "approvals:respond",
        "webhooks:manage",
    }
)
"""The scopes that `write` stands for; it is older than they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A token, its principal, and what it allows."""

    digest: bytes
    """The hash of the token, by which it is found."""
    token: str = field(default="", repr=False, compare=False)
    """The token itself, only in memory: it is masked in everything that is written."""
    principal: str = "default"
    scopes: frozenset[str] = frozenset()
    """Without a scope nothing is allowed."""
    tenant: str | None = None
    """The tenant that it acts for, where that is not the host's own."""
    test: bool = False
    """Whether it may ask for what only tests need."""
    operator: bool = False
    """Whether it is the token of the operator, who may do everything."""

    def may(self, scope: str) -> bool:
        """Whether the key holds a scope; `*` is every scope, `write` stands for those of `WRITE`."""
        if self.scopes & {"*", scope}:
            return True
        return scope in WRITE and "write" in self.scopes


def digest(token: str) -> bytes:
    return sha256(token.encode()).digest()


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolProgram:
    """A program that an agent may call: arguments as JSON on its input, the result on its output."""

    id: str
    command: tuple[str, ...]
    scopes: tuple[str, ...] = ()
    """The scopes that a principal must hold."""
    per_second: float = 0.0
    """Calls in a second by one principal; 0 for any number."""
    burst: int = 1
    seconds: float = 60.0
    """The longest time of a call."""
    idempotent: bool = False
    """Whether a call whose end was not seen may be repeated."""
    environment: tuple[str, ...] = ()
    """Environment variables that it gets beside the usual ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelServer:
    """An OpenAI-compatible endpoint."""

    base_url: str
    name: str
    key: str | None = field(default=None, repr=False)
    seconds: float = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings, from which both the advertised capabilities and the behaviour follow."""

    reasoning_events: bool = True
    tool_events: bool = True
    handoff_events: bool = True
    decision_events: bool = True
    verbosity: Verbosity = "summary"
    token_limit: int = 512
    streaming: bool = True
    escalation: Literal["escalate", "suppress"] = "escalate"
    wire_aliases: bool = True
    tenant: str = "default"
    max_node_executions: int = 1000
    max_run_duration_ms: int = 30 * 86_400_000
    clarification_rounds: int = 3
    """Answers to one clarification that may be refused; one more ends the run."""
    max_request_bytes: int = 1 << 20
    conformance: bool = True
    """Whether the published conformance workflows are offered."""
    seams: bool = False
    """Whether the routes are there that only tests need."""
    keys: tuple[Key, ...] = ()
    workflows: tuple[Path, ...] = ()
    manifests: tuple[Path, ...] = ()
    roles: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The tools of each harness role; a role that is not named here has all of them."""
    agent_roles: Mapping[str, str] = field(default_factory=dict)
    tools: Mapping[str, ToolProgram] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Values that are never written, by name."""
    token_secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Secrets that sign the tokens of questions, by name; the first signs, all of them are accepted."""
    webhook_hosts: tuple[str, ...] = ()
    """Hosts of webhooks that may have a private address and need no HTTPS."""
    webhook_attempts: int = 5
    webhook_backoff_ms: int = 1000
    """The pause before the second attempt; it doubles each time."""
    model: ModelServer | None = None
    """None for the offline stub."""

    @property
    def scopes(self) -> frozenset[str]:
        """The scopes that a key can have: those of the routes and those of the tools."""
        return WRITE.union({"*", "write"}, *(tool.scopes for tool in self.tools.values()))

    @property
    def all_secrets(self) -> dict[str, str]:
        """Every secret of the settings but the tokens of keys, by name."""
        signing = {f"token-secret-{name}": value for name, value in self.token_secrets.items()}
        model = {"model-key": self.model.key} if self.model and self.model.key else {}
        return {**signing, **model, **self.secrets}

    @property
    def tenants(self) -> frozenset[str]:
        """The tenants that somebody can act for."""
        return frozenset({self.tenant, *(key.tenant for key in self.keys if key.tenant)})

    @property
    def agents_supported(self) -> bool:
        return all(
            (self.reasoning_events, self.tool_events, self.handoff_events, self.decision_events)
        )

    @property
    def serves_v2(self) -> bool:
        """Whether the second major version is served: its enum has no suppressed escalation."""
        return self.escalation == "escalate"

    @property
    def orchestrates(self) -> bool:
        """Whether supervisors are offered: not by a host that suppresses escalation."""
        return self.escalation == "escalate" and self.agents_supported

    def writes(self, kind: str) -> bool:
        """Whether events of that type are advertised, and so may be written."""
        if kind == "agent.reasoning.delta" and not self.streaming:
            return False
        gate = GATES.get(kind)
        return gate is None or bool(getattr(self, gate))


HINT = "see docs/how-to/run-an-openwop-host.md and examples/openwop in the repository"
_PLAIN = {
    each.name: each.type
    for each in fields(Settings)
    if each.name
    not in (
        "keys",
        "workflows",
        "manifests",
        "roles",
        "agent_roles",
        "tools",
        "secrets",
        "token_secrets",
        "webhook_hosts",
        "model",
    )
}


def read_settings(path: Path, environment: Mapping[str, str]) -> dict[str, Any]:
    """The options of `Settings` in a file; it names secrets and never contains them.

    A key, a secret or a model's key is the name of an environment variable.
    """
    file = _file(path)
    options: dict[str, Any] = {}
    faults: list[str] = []
    for name, value in file.items():
        try:
            options[name] = _setting(path, str(name), value, environment)
        except TracklogError as error:
            faults.append(error.message)
    faults += [_bad(path, fault).message for fault in _faults_of_roles(options)]
    faults += [_bad(path, fault).message for fault in _faults_of_tools(file, options)]
    if faults:
        raise TracklogError("\n".join(faults), HINT)
    return options


def read_keys(
    path: Path, environment: Mapping[str, str]
) -> tuple[tuple[Key, ...], tuple[str, ...]]:
    """The keys in a file of settings, and what is wrong with the others."""
    return _keys(path, _file(path).get("keys", []), environment)


def _keys(
    path: Path, value: Any, environment: Mapping[str, str]
) -> tuple[tuple[Key, ...], tuple[str, ...]]:
    keys: dict[bytes, Key] = {}
    faults: list[str] = []
    for entry in _list(path, "keys", value):
        try:
            key = _key(path, entry, environment)
        except TracklogError as error:
            faults.append(error.message)
            continue
        if keys.setdefault(key.digest, key) is not key:
            other = keys[key.digest].principal
            fault = f"has one token for two keys, of {other!r} and {key.principal!r}"
            faults.append(_bad(path, fault).message)
    return tuple(keys.values()), tuple(faults)


def _file(path: Path) -> dict[str, Any]:
    try:
        _, file = read_yaml(path.read_bytes())
    except NotYaml as error:
        raise _bad(path, f"cannot be read: {error}") from None
    if not isinstance(file, dict):
        raise _bad(path, "holds no mapping")
    return file


def _faults_of_roles(options: Mapping[str, Any]) -> Iterator[str]:
    """Names of tools and roles that there are not: a wrong name must not change what is allowed."""
    roles, tools = options.get("roles", {}), options.get("tools", {})
    for role, listed in roles.items():
        for tool in listed:
            if {tool, f"openwop:{tool}"}.isdisjoint({ECHO, *tools}):
                yield f"has the role {role!r} with the tool {tool!r}, which is not in tools"
    for agent, role in options.get("agent_roles", {}).items():
        if role not in roles and role != DEFAULT_ROLE:
            yield f"gives {agent} the role {role!r}, which is not in roles"


def _faults_of_tools(file: Mapping[str, Any], options: Mapping[str, Any]) -> Iterator[str]:
    """Variables that a tool must not get: tokens, and what signs for the host."""
    keys = [each for each in file.get("keys", ()) if isinstance(each, dict)]
    own = {each.get("token") for each in keys}
    if "token_secrets" in options:  # and so it is a mapping
        own |= {*file["token_secrets"].values()}
    for tool in options.get("tools", {}).values():
        for name in tool.environment:
            if name in own or name.startswith("TRACKLOG_"):
                yield f"gives the tool {tool.id} the variable {name!r}, which only the host may have"


def _setting(path: Path, name: str, value: Any, environment: Mapping[str, str]) -> Any:
    match name:
        case "workflows" | "manifests":
            return tuple(path.parent / str(each) for each in _list(path, name, value))
        case "roles":
            roles = _map(path, name, value)
            return {
                str(role): tuple(map(str, _list(path, f"roles.{role}", tools)))
                for role, tools in roles.items()
            }
        case "agent_roles":
            return {str(k): str(v) for k, v in _map(path, name, value).items()}
        case "tools":
            tools = [_tool(path, each) for each in _list(path, name, value)]
            return {tool.id: tool for tool in tools}
        case "webhook_hosts":
            return tuple(str(each).lower() for each in _list(path, name, value))
        case "secrets" | "token_secrets":
            names = _map(path, name, value)
            return {k: _from(path, environment, v) for k, v in names.items()}
        case "keys":
            keys, wrong = _keys(path, value, environment)
            if wrong:
                raise TracklogError("\n".join(wrong), HINT)
            return keys
        case "model":
            return _model(path, _map(path, name, value), environment)
        case _ if name in _PLAIN:
            return _plain(path, name, value)
    known = ", ".join(each.name for each in fields(Settings))
    raise _bad(path, f"has an unknown setting {name!r}; there are: {known}")


def _bad(path: Path, message: str) -> TracklogError:
    return TracklogError(f"{path} {message}", HINT)


LEAST = {"max_run_duration_ms": 1000}
"""The lowest values that the protocol allows, where that is not 1."""


def _plain(path: Path, name: str, value: Any) -> Any:
    if name == "verbosity" and value is False:
        return "off"  # as YAML reads that word
    _check_type(path, name, value, type(Settings.__dataclass_fields__[name].default))
    if name == "tenant":
        return _tenant(path, value)
    options = {"verbosity": VERBOSITIES, "escalation": ("escalate", "suppress")}.get(name)
    if options is not None and value not in options:
        raise _bad(path, f"has {name}: {value!r}; it is one of {', '.join(options)}")
    least = LEAST.get(name, 1)
    if isinstance(value, int) and not isinstance(value, bool) and value < least:
        raise _bad(path, f"has {name}: {value}, which is less than {least}")
    return value


def _list(path: Path, name: str, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise _bad(path, f"has {name}, which is no list")
    return value


def _map(path: Path, name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _bad(path, f"has {name}, which is no mapping")
    return value


def _from(path: Path, environment: Mapping[str, str], name: Any) -> str:
    if not isinstance(name, str) or not environment.get(name):
        raise _bad(path, f"names the environment variable {name!r}, which is not set")
    return environment[name]


TYPES = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}


def _check_type(path: Path, name: str, value: Any, wanted: type) -> None:
    """Refuse a value of another type; a whole number is also a number, but true is not."""
    allowed = (int, float) if wanted is float else wanted
    if not isinstance(value, allowed) or (wanted is not bool and isinstance(value, bool)):
        raise _bad(path, f"has {name}: {value!r}, which is not {TYPES[wanted]}")


def _tenant(path: Path, tenant: str) -> str:
    """A tenant; it is the first part of ids, so it has no slash."""
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,128}", tenant):
        text = "which is not 1 to 128 letters, digits, or . _ -"
        raise _bad(path, f"has the tenant {tenant!r}, {text}")
    return tenant


def _tool(path: Path, entry: Any) -> ToolProgram:
    entry = dict(_map(path, "tools", entry))
    name = entry.get("id")
    if ":" not in str(name or ""):
        raise _bad(path, f"has the tool {name!r}, which is no <scope>:<tool-id>")
    known = {each.name: each.default for each in fields(ToolProgram)}
    if unknown := sorted(map(str, entry.keys() - known.keys())):
        raise _bad(path, f"has {unknown[0]!r} for the tool {name}; there are: {', '.join(known)}")
    command = entry.pop("command", None)
    if not isinstance(command, list) or not command:
        raise _bad(path, f"has a tool without a command: {name!r}")
    scopes = tuple(map(str, _list(path, "scopes", entry.pop("scopes", []))))
    place = f"environment of the tool {name}"
    given = tuple(map(str, _list(path, place, entry.pop("environment", []))))
    for option, value in entry.items():
        wanted = str if option == "id" else type(known[option])
        _check_type(path, f"{option} of the tool {name}", value, wanted)
    command = tuple(map(str, command))
    return ToolProgram(command=command, scopes=scopes, environment=given, **entry)


def _key(path: Path, entry: Any, environment: Mapping[str, str]) -> Key:
    entry = _map(path, "keys", entry)
    if "token" not in entry:
        raise _bad(path, f"has a key without a token: {entry.get('principal')!r}")
    token = _from(path, environment, entry["token"])
    if unknown := sorted(map(str, entry.keys() - KEY)):
        raise _bad(path, f"has a key with {unknown[0]!r}; there are: {', '.join(KEY)}")
    tenant, test = entry.get("tenant"), entry.get("test", False)
    if not isinstance(test, bool):
        raise _bad(path, f"has a key with test: {test!r}, which is neither true nor false")
    if test and not token.startswith(TEST_PREFIX):
        raise _bad(
            path, f"has a key with test: true, whose token does not begin with {TEST_PREFIX}"
        )
    return Key(
        digest=digest(token),
        token=token,
        principal=str(entry.get("principal", "default")),
        scopes=frozenset(map(str, _list(path, "scopes", entry.get("scopes", [])))),
        tenant=None if tenant is None else _tenant(path, str(tenant)),
        test=test,
    )


KEY = ("token", "principal", "scopes", "tenant", "test")


def _model(path: Path, data: dict[str, Any], environment: Mapping[str, str]) -> ModelServer:
    known = [each.name for each in fields(ModelServer)]
    if unknown := sorted(map(str, data.keys() - {*known})):
        raise _bad(path, f"has a model with {unknown[0]!r}; there are: {', '.join(known)}")
    key = _from(path, environment, data["key"]) if "key" in data else None
    if not isinstance(data.get("base_url"), str) or not isinstance(data.get("name"), str):
        raise _bad(path, "has a model without a base_url or a name")
    seconds = data.get("seconds", 120.0)
    _check_type(path, "seconds of the model", seconds, float)
    return ModelServer(base_url=data["base_url"], name=data["name"], key=key, seconds=seconds)
