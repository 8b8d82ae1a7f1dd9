"""Send a message about an incident: a bell, the desktop, an HTTP POST, or a service of apprise."""

import contextlib
import http.client
import ipaddress
import shutil
import socket
import ssl
import subprocess
import sys
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import orjson

from tracklog.collector.alerts.incidents import AlertChange
from tracklog.collector.alerts.rules import BadRules, RuleFile, Target
from tracklog.intake.secrets import redact
from tracklog.journal.frame import stamp
from tracklog.model.errors import MissingExtra, TracklogError
from tracklog.model.event import Body

_PATIENCE = 10.0
_DISCORD = 2000  # characters of a message
_COLOURS = {"info": "#2f80ed", "warning": "#f2c94c", "critical": "#eb5757"}


class NotDelivered(TracklogError):
    """A message about an alert did not reach its target; it is sent again."""


def deliver(change: AlertChange, name: str, target: Target, console: str | None = None) -> None:
    """Send a message by every way of a target; raises `NotDelivered`."""
    title = f"tracklog: {change.rule} {change.state} ({change.severity})"
    text = redact(change.summary.encode("utf-8", "replace"))[0].decode()
    if target.bell:
        _ring(f"{title}: {text}")
    if target.desktop and (program := shutil.which("notify-send")):
        urgency = "critical" if change.severity == "critical" else "normal"
        command = [program, "-a", "tracklog", "-u", urgency, title, text]
        subprocess.run(command, timeout=_PATIENCE, check=False)  # noqa: S603  # no shell reads it
    if target.post:
        body = _body(change, target, title, text, console)
        _try(name, lambda: _post(target.post or "", body, private=target.allow_private))
    if target.url:
        linked = f"{text}\n{console}" if console else text
        _try(name, lambda: _apprise(target, title, linked, change.severity))


def _ring(text: str) -> None:
    """Ring the bell of the terminal that the collector runs in, with the text where it shows one."""
    if sys.stderr.isatty():
        plain = "".join(each if each.isprintable() else " " for each in text)
        sys.stderr.write(f"\a\033]9;{plain}\007")
        sys.stderr.flush()


def _body(change: AlertChange, target: Target, title: str, text: str, console: str | None) -> Body:
    """The JSON that a service understands; the incident's id is the same in every message."""
    link = f"\n{console}" if console else ""
    match target.style:
        case "slack":
            colour = _COLOURS[change.severity]
            return {"attachments": [{"title": title, "text": f"{text}{link}", "color": colour}]}
        case "discord":
            return {"content": f"**{title}**\n{text}{link}"[:_DISCORD]}
        case "teams":
            block = {"type": "TextBlock", "text": f"**{title}**\n\n{text}{link}", "wrap": True}
            card = {
                "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
                "type": "AdaptiveCard", "version": "1.4", "body": [block],
            }  # fmt: skip  # as the service documents it
            kind = "application/vnd.microsoft.card.adaptive"
            attachment = {"contentType": kind, "contentUrl": None, "content": card}
            return {"type": "message", "attachments": [attachment]}
        case "ntfy":
            return {"topic": target.topic, "title": title, "message": f"{text}{link}"}
    row = {**change._asdict(), "at": stamp(change.at), "to": list(change.to), "summary": text}
    return {**row, "title": title, "console": console}


def _try(name: str, send: Callable[[], None]) -> None:
    try:
        send()
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise NotDelivered(f"{name} was not reached: {error}", "it is tried again") from error


def _post(url: str, body: Body, *, private: bool) -> None:
    """Post JSON to an address that was looked up once, so that it is the one that was checked."""
    parts = urlsplit(url)
    host, secure = parts.hostname or "", parts.scheme == "https"
    port = parts.port or (443 if secure else 80)
    address = _address(host, port, private=private)
    connection = http.client.HTTPConnection(host, port, timeout=_PATIENCE)
    connection.sock = socket.create_connection((address, port), _PATIENCE)
    try:
        if secure:
            context = ssl.create_default_context()
            connection.sock = context.wrap_socket(connection.sock, server_hostname=host)
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        named = host if parts.port is None else f"{host}:{port}"
        headers = {"Content-Type": "application/json", "Host": named}
        connection.request("POST", path, orjson.dumps(body), headers)
        status = connection.getresponse().status
    finally:
        connection.close()
    if not 200 <= status < 300:
        raise ValueError(f"the answer was {status}")


def _address(host: str, port: int, *, private: bool) -> str:
    found = {str(each[4][0]) for each in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)}
    inside = [each for each in found if not ipaddress.ip_address(each).is_global]
    if inside and not private:
        raise ValueError(f"{host} is a private address; `allow_private: true` permits it")
    return min(found)


def check_targets(file: RuleFile, *, look_up: bool = False) -> None:
    """Raise where a target can never be reached: by its address, or because apprise is missing.

    With `look_up` the addresses of names are asked for; otherwise only addresses themselves are checked.
    """
    for name, target in file.to.items():
        host = urlsplit(target.post or "").hostname
        if host and (look_up or _is_address(host)):
            try:
                _address(host, 0, private=target.allow_private)
            except OSError:
                continue  # not found here and now; the address may be found later
            except ValueError as error:
                raise BadRules(f"{name}: {error}", "name an address that may be reached") from error
        if target.url:
            try:
                _sender(target.url)
            except ValueError as error:
                raise BadRules(f"{name}: {error}", "see the list of services of apprise") from error


def _is_address(host: str) -> bool:
    return host == "localhost" or ":" in host or host.replace(".", "").isdigit()


def _sender(url: str) -> Any:
    try:
        import apprise  # noqa: PLC0415  # an extra
    except ImportError as missing:
        raise MissingExtra("this target", "notify", missing) from missing
    # Without this asset a picture on somebody else's server would be named in the message.
    asset = apprise.AppriseAsset(
        app_id="tracklog", app_desc="tracklog", app_url="", image_url_mask="", image_url_logo=""
    )
    sender = apprise.Apprise(asset=asset)
    if not sender.add(url):
        raise ValueError("apprise does not understand the url")
    return sender


def _hosts(sender: Any) -> set[str]:
    """The machines that the url of a service names; of most services it names none."""
    named = [each.host for each in sender if "host" in each.template_tokens]
    named += [getattr(each, "smtp_host", None) for each in sender]
    return set(filter(None, named))


def _apprise(target: Target, title: str, text: str, severity: str) -> None:
    sender = _sender(target.url or "")
    for host in _hosts(sender):
        with contextlib.suppress(socket.gaierror):  # no name of a machine, such as a topic
            _address(host, 0, private=target.allow_private)
    kind = {"info": "info", "warning": "warning", "critical": "failure"}[severity]
    if not sender.notify(title=title, body=text, notify_type=kind):
        raise ValueError("apprise could not send it")
