"""`tracklog serve`: the collector."""

import os
import re
from collections.abc import Collection, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tracklog.cli import _home, _options
from tracklog.model.errors import TracklogError

if TYPE_CHECKING:
    import socket

    from tracklog.collector.app import Collector
    from tracklog.home.home import Home
    from tracklog.web.guard import Guard, Proxy


@click.command(
    epilog="""\b
Examples:
  tracklog serve
  tracklog serve --home ./home --port 4400
  tracklog serve --witness http://witness.example:4319 --publish /mnt/elsewhere/checkpoint
  tracklog serve --store postgresql://tracklog@db.example/tracklog --tenant acme --tenant blue
  tracklog serve --with fishbowl=./plays --with workflow=./workflows
  curl -H 'Content-Type: application/x-ndjson' --data-binary @flight.jsonl \\
    http://127.0.0.1:4318/api/events/kahn-agent
  curl -N http://127.0.0.1:4318/api/stream?after=0

\b
The token is read from TRACKLOG_TOKEN, or from the file that TRACKLOG_TOKEN_FILE names.
Where there is one, every client must send it, also on this machine. A server that other
machines can reach must have one, with at least 16 characters. `tracklog token create`
makes tokens with fewer rights.""",
)
@_home.home_option
@_options.listen_options(4318)
@_options.durability_option
@click.option(
    "--allow-host",
    multiple=True,
    metavar="NAME",
    help="Another host name under which clients reach this machine.",
)
@click.option(
    "--max-body",
    type=click.IntRange(min=1),
    metavar="BYTES",
    help="The largest request, decompressed.  [default: 64 MiB]",
)
@_options.max_line_option
@click.option(
    "--max-rate",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Events per second, over all clients; 0 for no limit.",
)
@_options.redact_option
@click.option(
    "--archive",
    metavar="PLACE",
    help="Copy records to this folder or s3://bucket/prefix, seconds after they are stored.",
)
@_options.hot_option
@click.option(
    "--role",
    type=click.Choice(["all", "collect", "index", "archive"]),
    default="all",
    show_default=True,
    help="The work that this process does, if several processes share a database: receive lines "
    "and answer questions, update the index, archive, or all of it.",
)
@click.option(
    "--tenant",
    "tenants",
    multiple=True,
    metavar="NAME",
    help="The tenant of the database that is served; may be repeated: then the token of a request "
    "decides which tenant it is for.",
)
@click.option(
    "--tls-cert",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="Serve https with this certificate and its chain, as PEM.",
)
@click.option(
    "--tls-key",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="The private key of the certificate, if it is in another file.",
)
@click.option(
    "--trust-proxy",
    multiple=True,
    metavar="ADDRESS",
    help="The address of a proxy that logs people in, and names them in a header; may be repeated.",
)
@click.option(
    "--proxy-header",
    default="X-Forwarded-User",
    show_default=True,
    metavar="NAME",
    help="The header in which that proxy names the user.",
)
@click.option(
    "--proxy-role",
    type=click.Choice(["read", "operate", "admin"]),
    default="operate",
    show_default=True,
    help="What the users of that proxy may do.",
)
@_options.publish_options
@click.option(
    "--checkpoint-every",
    type=click.FloatRange(min=0.1),
    default=60,
    show_default=True,
    metavar="SECONDS",
    help="How often a checkpoint is made, if there are new records.",
)
@click.option(
    "--alerts",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Evaluate the rules of this file, and send alerts; see `tracklog alerts`.",
)
@click.option(
    "--grpc",
    type=click.IntRange(1, 65535),
    is_flag=False,
    flag_value=4317,
    metavar="[PORT]",
    help="Also receive OpenTelemetry over gRPC, on port 4317 or another. Needs tracklog[grpc].",
)
@click.option(
    "--mcp",
    type=click.Choice(["read", "operate"]),
    help="Let agents ask questions at /mcp; `operate` also lets them ask a person. Needs tracklog[mcp].",
)
@click.option(
    "--with",
    "hosts",
    multiple=True,
    metavar="HOST[=PATH]",
    help="A host whose runs clients can start, and the path of its files; may be repeated.",
)
def command(
    home: Path,
    host: str,
    port: int,
    durability: Any,
    allow_host: tuple[str, ...],
    max_body: int | None,
    max_line: int | None,
    max_rate: int,
    redact: bool,
    archive: str | None,
    hot: float | None,
    role: Any,
    tenants: tuple[str, ...],
    tls_cert: str | None,
    tls_key: str | None,
    trust_proxy: tuple[str, ...],
    proxy_header: str,
    proxy_role: str,
    places: tuple[str, ...],
    witnesses: tuple[str, ...],
    checkpoint_every: float,
    alerts: Path | None,
    grpc: int | None,
    mcp: str | None,
    hosts: tuple[str, ...],
) -> None:
    """Receive lines, store them, show them live and answer questions, until Ctrl-C."""
    from tracklog.index.gc_paused import gc_paused

    with gc_paused():
        from tracklog.collector import server
        from tracklog.collector.app import Collector
        from tracklog.collector.grpc import GrpcServer
        from tracklog.collector.tenants import Tenants
        from tracklog.hosts import Keyed
        from tracklog.web import logs
        from tracklog.web.limits import Limits
        from tracklog.web.tokens import FILE as TOKENS
        from tracklog.web.tokens import Tokens

    for name in allow_host:
        if "/" in name:
            raise TracklogError(
                f"{name!r} is not the name of a machine",
                "for example --allow-host recorder.example",
            )
    if hot is not None and (not archive or not isinstance(home, _home.RemoteStore)):
        raise TracklogError(
            "--hot moves old records of PostgreSQL to an archive", "give --store and --archive, too"
        )
    _check_role(role, archive, hosts)
    records = _records(home, tenants)
    several = len(records) > 1
    published = _options.published_to(places, witnesses)
    if several:
        _check_several({"--with": hosts, "--trust-proxy": trust_proxy, "--publish": published})
    known = isinstance(home, Path) and bool(Tokens(home / TOKENS).all())
    token = token_for(host, others=known) if isinstance(home, Path) else token_of()
    proxy = _proxy(trust_proxy, proxy_header, proxy_role)
    tls = server.tls_of(tls_cert, tls_key)
    usual = Limits()
    limits = Limits(
        events_per_second=max_rate, body=max_body or usual.body, line=max_line or usual.line
    )
    with server.listen(host, port) as bound, ExitStack() as undo:
        home_options = {
            "durability": durability,
            "cap": limits.line,
            "redact": _home.redaction(redact),
        }
        where = url_of(bound, tls=tls is not None)
        collectors: dict[str, Collector] = {}
        for name, place in records.items():
            opened = _home.serving(place, **home_options)
            undo.callback(opened.close)
            allowed = _guard(place, opened, host, allow_host, proxy, token, name if several else "")
            collectors[name] = collector = Collector(
                opened, limits=limits, guard=allowed, role=role
            )
            if archive:
                target = f"{archive.rstrip('/')}/{name}" if several else archive
                collector.archive(target, hot, _home.user_name())
            if published:
                collector.sign_checkpoints(published, checkpoint_every)
            if alerts:
                collector.alert(alerts, url_of(bound))
            if mcp:
                collector.offer_mcp(operate=mcp == "operate")
            for each in hosts:
                _mount(collector, each)
        serving: Collector | Tenants = Tenants(collectors) if several else collector
        if grpc:
            pair = server.tls_files(tls_cert, tls_key)
            serving.grpc = GrpcServer(serving, limits, host, grpc, pair)
        undo.pop_all()  # from here on the server closes them

        def ready() -> None:
            of = f", for the tenants {', '.join(collectors)}" if several else ""
            click.echo(f"tracklog is at {where} and stores its journal in {home}{of}")
            if serving.grpc is not None:
                click.echo(f"OpenTelemetry over gRPC is received at {serving.grpc.address}")
            for name, mounted in collector.hosts.items():
                if isinstance(mounted, Keyed) and mounted.made_key:
                    click.echo(f"the key of {name} is {mounted.made_key}")
            logs.log("info", "listening", url=where, home=str(home), durability=durability)

        server.serve(serving, bound, ready, tls)


def _records(home: _home.Place, tenants: tuple[str, ...]) -> dict[str, _home.Place]:
    """The record of each tenant by its name; without names the one record that is meant."""
    if not tenants:
        return {"": home}
    if not isinstance(home, _home.RemoteStore):
        raise TracklogError("--tenant is for a database", "give --store postgresql://..., too")
    if "tenant=" in home.url.partition("?")[2]:
        raise TracklogError(
            "the URL names a tenant, too", "leave it out there, or leave --tenant out"
        )
    if len(set(tenants)) < len(tenants):
        raise TracklogError("a tenant is named twice", "name each of them once")
    return {name: home.of_tenant(name) for name in tenants}


def _check_several(options: Mapping[str, Collection[str]]) -> None:
    """Refuse options that say nothing of a tenant, where several are served."""
    given = [name for name, values in options.items() if values]
    if given:
        raise TracklogError(
            f"{given[0]} is for one tenant",
            "start a collector of its own for it, with one --tenant",
        )
    if token_of() is not None:
        raise TracklogError(
            "the token of the environment is of no tenant",
            "unset it; `tracklog token create --store URL?tenant=NAME` makes one for a tenant",
        )


def _guard(
    place: _home.Place,
    opened: "Home",
    host: str,
    names: tuple[str, ...],
    proxy: "Proxy | None",
    token: str | None,
    tenant: str,
) -> "Guard":
    """Who may use a record; one tenant of several always asks for a token."""
    from tracklog.web import logs
    from tracklog.web.guard import Guard
    from tracklog.web.token_changes import tokens_of
    from tracklog.web.tokens import FILE

    tokens = tokens_of(opened)
    known = bool(tokens.all())
    if tenant and not known:
        logs.log("warning", f"tenant {tenant} has no token: nobody can use it")
    if isinstance(place, _home.RemoteStore) and not tenant:
        _check_token(token, host, others=known)
    if token is None and not known and isinstance(place, _home.RemoteStore):
        for folder in (place.folder, opened.path):
            _check_old_tokens(folder / FILE)
    return Guard(token, (*names, host), tokens=tokens, proxy=proxy, always=bool(tenant))


def _check_old_tokens(path: Path) -> None:
    """Refuse to be open to all, where somebody made tokens in the folder beside a database."""
    from tracklog.web.tokens import Tokens

    if Tokens(path).active():
        raise TracklogError(
            f"the tokens of a database are in the database, and not in {path}",
            "make them again with `tracklog token create --store URL`, or move that file away",
        )


def _check_role(role: str, archive: str | None, hosts: tuple[str, ...]) -> None:
    """Refuse options that belong to another role."""
    if role == "archive" and not archive:
        raise TracklogError("--role archive needs an archive", "name it with --archive")
    if role in ("collect", "index") and archive:
        raise TracklogError(
            f"--role {role} does not archive", "give --archive to a process with the role archive"
        )
    if role in ("index", "archive") and hosts:
        raise TracklogError(f"--role {role} has no hosts", "give --with to one with --role collect")


def token_for(host: str, *, others: bool = False) -> str | None:
    """The token to require; a server that other machines can reach must have one, or others."""
    token = token_of()
    _check_token(token, host, others=others)
    return token


def _check_token(token: str | None, host: str, *, others: bool) -> None:
    from tracklog.web import guard

    if token is None and not others and not guard.is_loopback(host):
        raise TracklogError(
            f"{host} can be reached from other machines, and there is no token",
            "set TRACKLOG_TOKEN or TRACKLOG_TOKEN_FILE, or make a token with `tracklog token create`, "
            "or listen on 127.0.0.1",
        )
    long_enough(token, host)


def long_enough(token: str | None, host: str) -> str | None:
    """The token; refused where other machines can reach us and it is short."""
    from tracklog.web import guard

    if token is not None and len(token) < guard.SHORTEST and not guard.is_loopback(host):
        raise TracklogError(
            f"{host} can be reached from other machines, and the token has {len(token)} characters",
            f"it needs {guard.SHORTEST} at least: set {_A_TOKEN}",
        )
    return token


def _proxy(addresses: tuple[str, ...], header: str, role: str) -> "Proxy | None":
    """The proxy whose header names the user; None without its addresses."""
    from tracklog.web.guard import Proxy, address

    for each in addresses:
        if not address(each):
            raise TracklogError(
                f"{each!r} is not an address", "for example --trust-proxy 127.0.0.1"
            )
    known = frozenset(map(address, addresses))
    return Proxy(known, header.lower().encode(), role) if known else None


def url_of(bound: "socket.socket", *, tls: bool = False) -> str:
    """The URL for a browser."""
    address, taken = bound.getsockname()[:2]
    host = f"[{address}]" if ":" in address else address
    return f"http{'s' * tls}://{host}:{taken}"


def _mount(collector: "Collector", word: str) -> None:
    from tracklog import Log, hosts
    from tracklog.journal.sharding import Sharded

    name, _, place = word.partition("=")
    path = _home.expanded(Path(place)) if place else None
    if path is not None and not path.exists():
        raise TracklogError(
            f"{path} does not exist", f"name a file or a folder with what {name} runs"
        )
    plug = hosts.host(name)
    if isinstance(collector.home.storage, Sharded):
        raise TracklogError(
            f"the host {name} cannot run on a store with several shards",
            "give it a tenant with one shard; other collectors can serve this store",
        )
    if plug.mount is None:
        raise TracklogError(
            f"the host {name!r} has nothing to serve", f"start it by itself: `tracklog host {name}`"
        )
    collector.hosts[name] = plug.mount(Log(collector.home), collector.guard, os.environ, path)


def token_of() -> str | None:
    """The token from the environment or from a file, never from the arguments, which other users
    can see.
    """
    path = os.environ.get("TRACKLOG_TOKEN_FILE")
    token = _token_in(_home.expanded(Path(path))) if path else os.environ.get("TRACKLOG_TOKEN")
    if token is None:
        return None
    token = token.strip()
    if not token:
        raise TracklogError("the token is empty", f"set {_A_TOKEN}, or unset it")
    if not re.fullmatch(r"[!-~]+", token, re.ASCII):
        raise TracklogError(
            "the token contains characters that no client can send: a space, a line end, or non-ASCII",
            f"set {_A_TOKEN}",
        )
    return token


_A_TOKEN = "TRACKLOG_TOKEN to a long random word, as `openssl rand -hex 32` makes it"  # noqa: S105  # a hint


def _token_in(path: Path) -> str:
    from tracklog.web import logs

    try:
        token = path.read_text(errors="replace")
        mode = path.stat().st_mode
    except OSError as error:
        raise TracklogError(
            f"the token cannot be read from {path}: {error.strerror or error}",
            "TRACKLOG_TOKEN_FILE must name a file that contains the token",
        ) from None
    if mode & 0o077:
        logs.log("warning", "others may read the token", hint=f"chmod 600 {path}")
    return token
