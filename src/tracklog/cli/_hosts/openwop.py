"""`tracklog host openwop`, and the host inside a collector."""

import os
import secrets
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from tracklog.cli import _home, _options
from tracklog.cli._hosts import record_stop
from tracklog.cli._tapes import print_report, tape_options
from tracklog.cli._verbs import VerbGroup, given

F = TypeVar("F", bound=Callable[..., Any])
"""The settings file of a host inside a collector."""


def _offers(verb: F) -> F:
    """The options for the files of a host."""
    path = click.Path(path_type=Path, exists=True)
    for option in (
        click.option("--agents", multiple=True, type=path, metavar="PATH",
                     help="An agent manifest, or a folder of them."),
        click.option("--workflows", multiple=True, type=path, metavar="PATH",
                     help="A workflow, or a folder of them; may be repeated."),
        click.option("--config", type=path, metavar="FILE", help="A YAML file of settings."),
    ):  # fmt: skip
        verb = option(verb)
    return verb


@click.group(
    cls=VerbGroup,
    usual="serve",
    alone=True,
    subcommand_metavar="[serve] | run | stop | conformance [ARGS]...",
    epilog="""\b
Examples:
  tracklog host openwop --port 4400
  TRACKLOG_TOKEN=secret tracklog host openwop --config host.yaml
  curl -H 'Authorization: Bearer secret' -H 'Content-Type: application/json' \\
    -d '{"workflowId": "conformance-agent-reasoning"}' http://127.0.0.1:4319/v1/runs
  tracklog host openwop run conformance-agent-reasoning
  tracklog host openwop run review --config host.yaml --input article='Rain.'
  tracklog host openwop run conformance-agent-reasoning --tape RUN
  tracklog host openwop stop RUN
  TRACKLOG_TOKEN=secret tracklog host openwop conformance http://127.0.0.1:4319""",
)
def command() -> None:
    """Run OpenWOP workflows: serve them to clients, or run one here.

    The model is a stub that always gives the same answer, unless the settings name a model
    server. `tracklog host openwop serve --help` shows all options of the server.
    """


@command.command(
    epilog="""\b
Examples:
  tracklog host openwop stop RUN""",
)
@click.argument("run")
@_home.home_option
def stop(run: str, home: Path) -> None:
    """End RUN; the host that runs it is notified."""
    from tracklog.hosts.openwop.runlog import ask_to_end

    record_stop(home, run, ask_to_end)


@command.command(
    epilog="""\b
Examples:
  TRACKLOG_TOKEN=secret tracklog host openwop conformance http://127.0.0.1:4319
  TRACKLOG_TOKEN_FILE=token tracklog host openwop conformance http://127.0.0.1:4319 --major 2

\b
The key is read from TRACKLOG_TOKEN, or from the file that TRACKLOG_TOKEN_FILE names. The scenarios
start runs on that host. They are our own, and not the published suite of the protocol.
Exit code: 0 nothing failed, 1 a scenario failed, 2 nothing was tested.""",
)
@click.argument("url")
@click.option("--major", type=click.Choice(["1", "2"]), multiple=True,
              help="Only this version of the protocol; may be repeated.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="One JSON object for each scenario.")
def conformance(url: str, major: tuple[str, ...], as_json: bool) -> None:
    """Ask the OpenWOP host at URL whether it does what the protocol says."""
    from dataclasses import asdict

    from tracklog.cli import _terminal as terminal
    from tracklog.cli.serve import token_of
    from tracklog.hosts.openwop.conformance import run_all
    from tracklog.model.errors import TracklogError

    token, majors = token_of() or "", tuple(int(each) for each in major) or (1, 2)
    _reach(url, token, majors)
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for result in run_all(url, token, majors):
        counts[result.outcome] += 1
        if as_json:
            terminal.put_json(asdict(result))
            continue
        line = f"{result.outcome:<8} v{result.major}  {result.name:<28} {result.why}"
        click.echo(terminal.printable(line.rstrip()))
    if not as_json:
        click.echo(", ".join(f"{number} {word}" for word, number in counts.items()))
    if not counts["passed"] and not counts["failed"]:
        raise TracklogError(
            "nothing was tested: every scenario was skipped",
            "see why above; ask for another --major, or let the host offer its conformance workflows",
        )
    sys.exit(1 if counts["failed"] else 0)


def _reach(url: str, token: str, majors: tuple[int, ...]) -> None:
    """Ask once whether an OpenWOP host is there and takes the key, instead of failing everywhere."""
    from http.client import HTTPException

    from tracklog.hosts.openwop.conformance.client import Client
    from tracklog.model.errors import TracklogError

    next_step = "check the address; `tracklog host openwop serve` starts a host"
    try:
        answer = Client(url, "", 1).ask("GET", "/.well-known/openwop")
    except (OSError, ValueError, HTTPException) as error:
        why = getattr(error, "reason", error)
        raise TracklogError(f"no host answers at {url}: {why}", next_step) from error
    try:
        document = answer.json
    except ValueError:
        document = None
    names = {"protocolVersion", "protocolVersions"}
    if answer.status != 200 or not isinstance(document, dict) or not names & document.keys():
        what = "without a discovery document" if answer.status == 200 else f"{answer.status}"
        text = f"there is no OpenWOP host at {url}: /.well-known/openwop answers {what}"
        raise TracklogError(text, next_step)
    if all(Client(url, token, each).get("/runs/nobody").status == 401 for each in majors):
        text = f"the host at {url} " + ("refuses this key" if token else "asks for a key")
        raise TracklogError(text, "set TRACKLOG_TOKEN to a key of that host that may do everything")


@command.command(
    name="run",
    epilog="""\b
Examples:
  tracklog host openwop run conformance-agent-reasoning
  tracklog host openwop run review --config host.yaml --input article='Rain.'

\b
Answer its questions with `tracklog answer`.
Exit code: 0 it completed, 1 it failed or differs from the tape, 130 it was cancelled.""",
)
@click.argument("workflow")
@_home.home_option
@_offers
@click.option("--input", "inputs", multiple=True, metavar="KEY=VALUE",
              help="An input of the run: JSON, or else text; may be repeated.")  # fmt: skip
@tape_options
@click.option("--json", "as_json", is_flag=True, help="The events, one JSON object each.")
def run_here(
    workflow: str,
    home: Path,
    config: Path | None,
    workflows: tuple[Path, ...],
    agents: tuple[Path, ...],
    inputs: tuple[str, ...],
    tape: str | None,
    by: Any,
    on_miss: Any,
    as_json: bool,
) -> None:
    """Run WORKFLOW here, and print its events until it has ended; Ctrl-C cancels it."""
    from tracklog import Log
    from tracklog.cli._hosts._openwop_run import carry_out
    from tracklog.home.home import act
    from tracklog.hosts import TapeOptions, Wanted
    from tracklog.hosts.openwop.mounted import app_of, settings_of

    settings = settings_of(config, os.environ, workflows, agents)
    options = TapeOptions(run=tape, by=by, miss=on_miss) if tape else None
    wanted = Wanted(program=workflow, inputs=dict(map(given, inputs)), tape=options)
    with _home.writing(home) as opened:
        app = app_of(Log(opened), None, settings, None)

        def begun(run: str) -> None:
            opened.record_act(act("start", _home.user_name(), host="openwop", run=run))

        status, report = carry_out(app, wanted, begun, as_json=as_json)
    left = report is not None and print_report(report)
    sys.exit({"completed": 1 if left else 0, "cancelled": 130}.get(status, 1))


@command.command(
    epilog="""\b
Examples:
  TRACKLOG_TOKEN_FILE=token tracklog host openwop serve --config host.yaml

\b
The key is read from TRACKLOG_TOKEN, or from the file that TRACKLOG_TOKEN_FILE names; if there is
none, one is generated and printed. The routes and the console of a collector are served, too.""",
)
@_home.home_option
@_options.listen_options(4319)
@_offers
@_options.durability_option
@click.option("--test-seams", is_flag=True, help="Offer the routes that only tests need.")
def serve(
    home: Path,
    host: str,
    port: int,
    config: Path | None,
    workflows: tuple[Path, ...],
    agents: tuple[Path, ...],
    durability: Any,
    test_seams: bool,
) -> None:
    """Serve workflows to OpenWOP clients, and record everything their runs do, until Ctrl-C."""
    from tracklog import Log
    from tracklog.cli.serve import long_enough, token_of
    from tracklog.collector import server
    from tracklog.collector.app import Collector
    from tracklog.hosts.openwop.keys import KeyFile
    from tracklog.hosts.openwop.mounted import app_of, settings_of
    from tracklog.web import guard, logs

    token = long_enough(token_of(), host)
    made = token is None and secrets.token_urlsafe(24)
    settings = settings_of(config, os.environ, workflows, agents, test_seams=test_seams)
    with server.listen(host, port) as bound:
        opened = _home.serving(home, durability=durability)
        guarding = guard.Guard(token or made or None, (host,))
        keys = KeyFile(config, os.environ) if config else None
        app = app_of(Log(opened), guarding, settings, token or made or None, keys)
        collector = Collector(opened, guard=guarding)
        collector.hosts["openwop"] = app
        address, taken = bound.getsockname()[:2]
        name = f"[{address}]" if ":" in address else address
        where = f"http://{name}:{taken}"

        def ready() -> None:
            click.echo(f"the host is at {where} and stores its journal in {home}")
            if made:
                click.echo(f"its key is {made}")
            known = app.engine.workflows
            logs.log("info", "listening", url=where, workflows=len(known.known), home=str(home))

        server.serve(collector, bound, ready)
