"""Make the host from its settings: alone, or as a part of a collector."""

import secrets
from collections.abc import Mapping
from pathlib import Path

from tracklog import Log, TracklogError
from tracklog.hosts.openwop.engine import Engine
from tracklog.hosts.openwop.http import App
from tracklog.hosts.openwop.keys import KeyFile, Keys
from tracklog.hosts.openwop.settings import Settings, read_settings
from tracklog.web import logs
from tracklog.web.guard import Guard

CONFIG = "TRACKLOG_OPENWOP_CONFIG"


def mount(journal: Log, guard: Guard, environment: Mapping[str, str], place: Path | None) -> App:
    """The host as a part of a collector, with the collector's token; without one a key is made.

    What it offers is a settings file, or a folder of workflows.
    """
    path = environment.get(CONFIG)
    workflows: tuple[Path, ...] = ()
    if place is not None and place.is_dir():
        workflows = (place,)
    elif place is not None:
        path = str(place)
    settings = settings_of(Path(path) if path else None, environment, workflows)
    key_file = KeyFile(Path(path), environment) if path else None
    if guard.token is not None or settings.keys:
        return app_of(journal, guard, settings, guard.token, key_file)
    made = secrets.token_urlsafe(24)
    app = app_of(journal, guard, settings, made, key_file)
    app.made_key = made
    return app


def settings_of(
    config: Path | None,
    environment: Mapping[str, str],
    workflows: tuple[Path, ...] = (),
    agents: tuple[Path, ...] = (),
    *,
    test_seams: bool = False,
) -> Settings:
    """The settings of a file, with those of the command line and the environment."""
    options = read_settings(config, environment) if config else {}
    options["workflows"] = (*options.get("workflows", ()), *workflows)
    options["manifests"] = (*options.get("manifests", ()), *agents)
    options["seams"] = options.get("seams", False) or test_seams
    return Settings(**options)


def app_of(
    journal: Log,
    guard: Guard | None,
    settings: Settings,
    token: str | None,
    key_file: KeyFile | None = None,
) -> App:
    """The host; what is wrong with its workflows and agents is logged."""
    if token is not None and len(token) < 1:
        raise TracklogError("the token is empty", "set TRACKLOG_TOKEN to a long random word")
    keys = Keys(settings, token, key_file)
    engine = Engine(journal, settings, keys)
    for fault in engine.workflows.faults:
        logs.log("warning", "refused", fault=fault)
    return App(engine, guard)
