"""`tracklog host openwop`, and the host inside a collector."""

import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tracklog.cli import _home
from tracklog.errors import TracklogError

if TYPE_CHECKING:
    from tracklog.collector.guard import Guard
    from tracklog.home import Home
    from tracklog.hosts.openwop.http import App
    from tracklog.hosts.openwop.settings import Settings

CONFIG = "TRACKLOG_OPENWOP_CONFIG"
"""Names the settings file of a host inside a collector."""


@click.command(
    epilog="""\b
Examples:
  tracklog host openwop --port 4400
  TRACKLOG_TOKEN=secret tracklog host openwop --workflows ./flows --agents ./agents
  curl -H 'Authorization: Bearer secret' -H 'Content-Type: application/json' \\
    -d '{"workflowId": "conformance-agent-reasoning"}' http://127.0.0.1:4400/v1/runs
\b
The key is read from TRACKLOG_TOKEN, or from the file that TRACKLOG_TOKEN_FILE names; where there
is none, one is made and said. The collector's own routes and the console are there too.""",
)
@_home.home_option
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=4319, show_default=True,
              help="0 takes any that is free.")  # fmt: skip
@click.option("--config", type=click.Path(path_type=Path, exists=True, dir_okay=False),
              metavar="FILE", help="A YAML file of settings.")  # fmt: skip
@click.option("--workflows", multiple=True, type=click.Path(path_type=Path, exists=True),
              metavar="PATH", help="A workflow, or a folder of them; may be given again.")  # fmt: skip
@click.option("--agents", multiple=True, type=click.Path(path_type=Path, exists=True),
              metavar="PATH", help="An agent manifest, or a folder of them.")  # fmt: skip
@click.option("--durability", type=click.Choice(_home.DURABILITIES), default="sync",
              show_default=True, help="What an answer promises: see docs/promises.md.")  # fmt: skip
@click.option("--test-seams", is_flag=True, help="Offer the routes that only tests need.")
def command(
    home: Path,
    host: str,
    port: int,
    config: Path | None,
    workflows: tuple[Path, ...],
    agents: tuple[Path, ...],
    durability: Any,
    test_seams: bool,
) -> None:
    """Serve workflows to OpenWOP clients, and keep all that their runs do, until Ctrl-C."""
    from tracklog.cli.serve import token_of  # noqa: PLC0415  # slow to import
    from tracklog.collector import guard, logs, server  # noqa: PLC0415
    from tracklog.collector.app import Collector  # noqa: PLC0415
    from tracklog.home import Home  # noqa: PLC0415

    token = token_of()
    made = token is None and secrets.token_urlsafe(24)
    settings = settings_of(config, os.environ, workflows, agents, test_seams=test_seams)
    with server.listen(host, port) as bound:
        opened = Home(home, durability=durability)
        for found in opened.store.findings:
            logs.say("warning", found.message, finding=found.name)
        door = guard.Guard(token or made or None, (host,))
        app = app_of(opened, door, settings, token or made or None, os.environ)
        collector = Collector(opened, guard=door)
        collector.mounted.append(app)
        address, taken = bound.getsockname()[:2]
        shown = f"[{address}]" if ":" in address else address
        where = f"http://{shown}:{taken}"

        def ready() -> None:
            click.echo(f"the host is at {where} and keeps its record in {home}")
            if made:
                click.echo(f"its key is {made}")
            known = app.engine.workflows
            logs.say("info", "listening", url=where, workflows=len(known.known), home=str(home))

        server.serve(collector, bound, ready)


def mount(home: "Home", guard: "Guard", environment: Mapping[str, str]) -> "App":
    """The host as a part of a collector, with the collector's token."""
    from tracklog.cli.serve import token_of  # noqa: PLC0415  # slow to import

    path = environment.get(CONFIG)
    settings = settings_of(Path(path) if path else None, environment)
    return app_of(home, guard, settings, token_of(), environment)


def settings_of(
    config: Path | None,
    environment: Mapping[str, str],
    workflows: tuple[Path, ...] = (),
    agents: tuple[Path, ...] = (),
    *,
    test_seams: bool = False,
) -> "Settings":
    """What a file says, and what was said beside it."""
    from tracklog.hosts.openwop.settings import Settings, read_settings  # noqa: PLC0415

    options = read_settings(config, environment) if config else {}
    options["workflows"] = (*options.get("workflows", ()), *workflows)
    options["manifests"] = (*options.get("manifests", ()), *agents)
    options["seams"] = options.get("seams", False) or test_seams
    return Settings(**options)


def app_of(
    home: "Home",
    guard: "Guard",
    settings: "Settings",
    token: str | None,
    environment: Mapping[str, str],
) -> "App":
    """The host, with everything that was wrong about its workflows and agents said."""
    from tracklog.collector import logs  # noqa: PLC0415  # slow to import
    from tracklog.hosts.openwop.engine import Engine  # noqa: PLC0415
    from tracklog.hosts.openwop.http import App  # noqa: PLC0415
    from tracklog.hosts.openwop.settings import Key, digest  # noqa: PLC0415

    if token is not None and len(token) < 1:
        raise TracklogError("the token is empty", "set TRACKLOG_TOKEN to a long random word")
    engine = Engine(home, settings, environment)
    for fault in engine.workflows.faults:
        logs.say("warning", "refused", fault=fault)
    own = (Key(digest=digest(token)),) if token else ()
    return App(engine, guard, (*own, *settings.keys))
