"""The settings over HTTP: tokens, prices, storage and checkpoints; each change is a record."""

import re
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
from starlette.responses import Response

from tracklog.answers import prices
from tracklog.answers.costs import costs
from tracklog.collector.checkpointing import newer
from tracklog.collector.setting_shapes import (
    CheckpointState,
    NewToken,
    PriceList,
    PriceRow,
    StorageUse,
    TokenList,
)
from tracklog.folds import number
from tracklog.home.home import act
from tracklog.journal.checkpoints.checkpoint import Checkpoint, Checkpoints, last_checkpoint
from tracklog.journal.disk import Disk, write_file
from tracklog.journal.frame import stamp
from tracklog.model.event import Body
from tracklog.web import bodies, token_changes
from tracklog.web.guard import LOCAL, MASTER
from tracklog.web.tokens import ROLES
from tracklog.web.trouble import Trouble, json_response

if TYPE_CHECKING:
    from tracklog.collector.app import Collector
    from tracklog.home.home import Home
    from tracklog.web.routing import RoutedRequest

RUN = ("tracklog", "settings")
"""The run in which changes of settings are recorded."""
_WRITER = "collector"
_WANTED = 'send {"name": "ci", "role": "write", "days": 90}; roles are write, read, operate, admin'
_PRICE = 'send {"model": "a-model", "input": 3, "output": 15}, in dollars per million tokens'
_EMPTY = 'send {}, or {"by": "ada"}'
_ALWAYS = "2000-01-01"
_BILLION = 1000  # billionths of a dollar per token in a dollar per million tokens
_ISO_DAY = re.compile(r"\d{4}-\d\d-\d\d")


async def tokens(collector: "Collector", call: "RoutedRequest") -> Response:
    """The tokens, without what they are."""

    def listed() -> TokenList:
        now = stamp(collector.home.clock())
        rows = [
            token_changes.row_of(each, now)
            for each in token_changes.tokens_of(collector.home).all()
        ]
        needed = bool(rows) or collector.guard.token is not None
        return {"tokens": rows, "you": call.identity.name, "open": not needed}

    return json_response(await collector.runner.run(listed))


async def create_token(collector: "Collector", call: "RoutedRequest") -> Response:
    """A new token, shown once."""
    body = await bodies.json_object(call.receive, call.headers, collector.held, _WANTED)
    name, role, prefix = body.get("name"), body.get("role"), body.get("run_prefix")
    days = number(body.get("days"))
    if not isinstance(name, str) or not isinstance(role, str) or role not in ROLES:
        raise Trouble(400, "a token needs a name and a role", _WANTED)
    if body.get("days") is not None and (days is None or not 0 < days <= 36_500):
        raise Trouble(400, "/days is not valid", "a number of days above 0, or leave it out")
    if prefix is not None and not isinstance(prefix, str):
        raise Trouble(400, "/run_prefix is no text", _WANTED)

    def create() -> NewToken:
        token, text = token_changes.create(
            collector.home,
            name,
            role,
            by=call.identity.name,
            seconds=None if days is None else days * 86_400,
            run_prefix=prefix or None,
            writer=_WRITER,
        )
        return {"token": text, "row": token_changes.row_of(token, token.created)}

    made = await collector.runner.run(create)
    collector.hub.poke()
    return json_response(made)


async def revoke_token(collector: "Collector", call: "RoutedRequest") -> Response:
    """End a token at once."""
    by = _name(call, await bodies.json_object(call.receive, call.headers, collector.held, _EMPTY))
    home, id = collector.home, call.names["token"]
    other = call.identity is MASTER or call.identity.is_person  # who does not need a stored token
    token = await collector.runner.run(
        lambda: token_changes.revoke(home, id, by=by, writer=_WRITER, last=other)
    )
    collector.hub.poke()
    return json_response(token_changes.row_of(token, stamp(home.clock())))


def _name(call: "RoutedRequest", body: Body) -> str:
    """Who changes something: the name of the token, and without one the name that was typed."""
    typed = body.get("by")
    if call.identity is not LOCAL or typed is None:
        return call.identity.name
    if not isinstance(typed, str) or not 0 < len(typed) <= 256:
        raise Trouble(400, "/by is no text of 1 to 256 characters", _EMPTY)
    return typed


async def price_list(collector: "Collector", call: "RoutedRequest") -> Response:  # noqa: ARG001  # an endpoint
    """The prices of the models that were used."""
    return json_response(await collector.runner.ask(lambda: _price_list(collector.home)))


async def set_price(collector: "Collector", call: "RoutedRequest") -> Response:
    """A price of this home; it comes before ours."""
    body = await bodies.json_object(call.receive, call.headers, collector.held, _PRICE)
    model, since = body.get("model"), body.get("since") or _ALWAYS
    if not isinstance(model, str) or not 0 < len(model) <= 256:
        raise Trouble(400, "/model is no text of 1 to 256 characters", _PRICE)
    if not isinstance(since, str) or not _is_day(since):
        raise Trouble(400, "/since is no day", "write it such as 2026-01-31")
    rates = {name: _rate(body, name) for name in ("input", "output", "cache_read", "cache_write")}
    if rates["input"] is None or rates["output"] is None:
        raise Trouble(400, "a price needs /input and /output", _PRICE)
    home = collector.home

    def store() -> PriceList:
        known = {name: each for name, each in rates.items() if each is not None}
        with home.storage.leases() as leases:
            leases.take("prices", None)
            path = home.path / prices.OWN
            own = orjson.loads(path.read_bytes()) if path.exists() else {"models": {}}
            prices.load(home.path)  # a file that cannot be read is not replaced
            rows = [each for each in own["models"].get(model, []) if each["from"] != since]
            own["models"][model] = [*rows, {"from": since, **known}]
            content = orjson.dumps(own, option=orjson.OPT_INDENT_2) + b"\n"
            write_file(Disk(), path, content)
        price = act("price", call.identity.name, model=model, **{"from": since, **known})
        home.record_fact(RUN, price, writer=_WRITER)
        return _price_list(home)

    answer = await collector.runner.ask(store)
    collector.hub.poke()
    return json_response(answer)


def _is_day(text: str) -> bool:
    if not _ISO_DAY.fullmatch(text):
        return False
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _rate(body: Body, name: str) -> float | None:
    value = body.get(name)
    rate = number(value)
    if value is not None and (rate is None or not 0 <= rate <= 1e6):
        raise Trouble(400, f"/{name} is not valid", "dollars per million tokens, 0 or more")
    return rate


def _price_list(home: "Home") -> PriceList:
    known = prices.load(home.path)
    path = home.path / prices.OWN
    own = orjson.loads(path.read_bytes())["models"] if path.exists() else {}
    owned = {name.lower() for name in own}
    today = datetime.fromtimestamp(home.clock(), UTC).date().isoformat()
    used = [row.of for row in costs(home, ["model"]) if row.of]
    models = [*used, *(name for name in own if name not in used)]
    return {"prices": [_price(known, owned, each, today) for each in models], "as_of": known.as_of}


def _price(known: prices.Prices, own: set[str], model: str, day: str) -> PriceRow:
    price = known.at(model, day)
    if price is None:
        return PriceRow(
            model=model, input=None, output=None, cache_read=None, cache_write=None,
            source=None, since=None,
        )  # fmt: skip  # one line of arguments
    return {
        "model": model,
        "input": price.input / _BILLION,
        "output": price.output / _BILLION,
        "cache_read": None if price.cache_read is None else price.cache_read / _BILLION,
        "cache_write": None if price.cache_write is None else price.cache_write / _BILLION,
        "source": "own" if own.intersection(prices.names(model)) else "list",
        "since": None if price.day == _ALWAYS else price.day,
    }


async def storage(collector: "Collector", call: "RoutedRequest") -> Response:  # noqa: ARG001  # an endpoint
    """How much space the journal, its large values and its index take on the disk."""
    return json_response(await collector.runner.run(lambda: _storage(collector.home)))


def _storage(home: "Home") -> StorageUse:
    journal, path = home.journal, home.path
    first, last = journal.first, journal.last
    files = [each for each in path.glob("index.db*") if each.is_file()]
    try:
        free = shutil.disk_usage(path).free
    except OSError:
        free = 0
    return {
        "records": max(last - first + 1, 0),
        "first": first,
        "last": last,
        "journal_bytes": _size(path / "journal"),
        "blob_bytes": _size(path / "blobs"),
        "index_bytes": sum(map(_bytes, files)),
        "free_bytes": free,
        "local": (path / "journal").is_dir(),
    }


def _size(folder: Path) -> int:
    return sum(_bytes(each) for each in folder.rglob("*")) if folder.is_dir() else 0


def _bytes(path: Path) -> int:
    try:
        return path.stat().st_size if path.is_file() else 0
    except OSError:  # it went while we looked
        return 0


async def checkpoints(collector: "Collector", call: "RoutedRequest") -> Response:  # noqa: ARG001  # an endpoint
    """The last checkpoint, who signed it, and what is newer."""
    return json_response(await collector.runner.run(lambda: _checkpoints(collector)))


async def make_checkpoint(collector: "Collector", call: "RoutedRequest") -> Response:
    """Sign everything that is stored."""
    by = _name(call, await bodies.json_object(call.receive, call.headers, collector.held, _EMPTY))
    home = collector.home

    def make() -> CheckpointState:
        if newer(home) > 0:
            home.record_act(act("checkpoint", by), writer=_WRITER)
        with Checkpoints(home.storage) as made:
            made.make()
        return _checkpoints(collector)

    state = await collector.runner.run(make)
    collector.hub.poke()
    return json_response(state)


def _checkpoints(collector: "Collector") -> CheckpointState:
    home = collector.home
    note = last_checkpoint(home.storage)
    if note is None:
        stated, witnesses = None, []
    else:
        stated = Checkpoint.of(note.text)
        witnesses = [{"name": each.name, "at": stamp(each.at or 0)} for each in note.witnesses()]
    size = 0 if stated is None else stated.size
    return {
        "origin": None if stated is None else stated.origin,
        "records": size,
        "newer": max(home.journal.last - size, 0),
        "witnesses": witnesses,  # type: ignore[typeddict-item]
        "made_here": collector.checkpointer is not None,
    }
