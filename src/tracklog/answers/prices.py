"""List prices by model and day, for spends whose source reports no cost; a home may have its own.

A cost that is computed here is an estimate and is always marked as one: contracts, batches and tiers
differ. A model that is not in the table has no price, and a day before its first one neither.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple, NotRequired, TypedDict

import orjson

from tracklog.model.errors import TracklogError

MILLION = 10**6
OWN = "prices.json"
"""The file in a home whose prices come before ours."""
HINT = (
    'it holds {"models": {"a-model": [{"from": "2026-01-31", "input": 3, "output": 15, '
    '"cache_read": 0.3, "cache_write": 3.75, "cache_write_1h": 6}]}}, in dollars per million tokens'
)

_CACHE = 10_000  # prices by model and day that are held at most
_HOSTED = re.compile(
    r"(?:(?:[a-z]+\.)?anthropic\.)?(claude-[a-z0-9-]+?)(?:-v[0-9]+)?(?::[0-9]+|@(?:[0-9]{8}|default))?"
)
"""A model of Anthropic under the name of a cloud: with its region and version, or with a date."""
_DATE = re.compile(r"-(?:20[0-9]{2}-?[01][0-9]-?[0-3][0-9]|latest)$")


class Price(NamedTuple):
    """What a model costs from a day on, in billionths of a dollar per token."""

    day: str
    input: int
    output: int
    cache_read: int | None
    cache_write: int | None
    cache_write_1h: int | None = None
    """Cache that is kept for an hour; where it has no price of its own, the price of cache writes counts."""
    above: "tuple[int, Price] | None" = None
    """From so many input tokens on, another price."""


class _Rates(TypedDict):
    """Dollars per million tokens, as a list of prices holds them."""

    input: float
    output: float
    cache_read: NotRequired[float | None]
    cache_write: NotRequired[float | None]
    cache_write_1h: NotRequired[float | None]


class _Above(_Rates):
    tokens: int


_Row = TypedDict("_Row", {"from": str, "above": NotRequired[_Above | None]})


class _Listed(_Row, _Rates):
    """The prices of one model from a day on."""


class Cost(NamedTuple):
    """What a spend costs by the list, in billionths of a dollar."""

    amount: int
    complete: bool
    """Else it is a lower bound: something was spent whose price is not known."""


class Prices:
    """The prices that are known, ours and those of a home."""

    def __init__(self, models: Mapping[str, list[Price]], as_of: str) -> None:
        self._models = models
        self._cache: dict[tuple[str | None, str], Price | None] = {}
        self.as_of = as_of
        """The day on which the list was read."""

    def cost(self, model: str | None, amounts: Mapping[str, int], day: str) -> Cost | None:
        """What a spend comes to; None where the model has no price on that day."""
        price = self.at(model, day)
        given, output = amounts.get("input_tokens"), amounts.get("output_tokens")
        if price is None or (given is None and output is None):
            return None
        if price.above and (given or 0) > price.above[0]:
            price = price.above[1]
        complete = given is not None and output is not None
        return total(price, **_tokens(amounts), complete=complete)

    def cost_by_kind(
        self, model: str | None, amounts: Mapping[str, int], day: str
    ) -> dict[str, int]:
        """What each kind of token of a spend comes to; nothing where the model has no price."""
        price = self.at(model, day)
        if price is None:
            return {}
        if price.above and amounts.get("input_tokens", 0) > price.above[0]:
            price = price.above[1]
        return by_kind(price, **_tokens(amounts))

    def at(self, model: str | None, day: str) -> Price | None:
        """The price of a model on a day."""
        cache = self._cache
        if (model, day) not in cache:
            if len(cache) >= _CACHE:
                cache = self._cache = {}
            cache[model, day] = self._price(model, day)
        return cache[model, day]

    @property
    def days(self) -> set[str]:
        """The days on which a price changes."""
        return {price.day for prices in self._models.values() for price in prices}

    @property
    def thresholds(self) -> set[int]:
        """The numbers of input tokens from which on another price holds."""
        every = (price.above for prices in self._models.values() for price in prices)
        return {above[0] for above in every if above is not None}

    def _price(self, model: str | None, day: str) -> Price | None:
        known = next((self._models[name] for name in names(model) if name in self._models), [])
        held = [price for price in known if price.day <= day]
        return held[-1] if held else None


class _PricedTokens(TypedDict):
    """The tokens of a spend that are priced apart."""

    fresh: int
    fresh_and_written: int
    read: int
    written: int
    longer: int
    output: int


def _tokens(amounts: Mapping[str, int]) -> _PricedTokens:
    given = amounts.get("input_tokens", 0)
    read, written = amounts.get("cached_tokens", 0), amounts.get("cache_write_tokens", 0)
    return {
        "fresh": max(0, given - read - written),
        "fresh_and_written": max(0, given - read),
        "read": read,
        "written": written,
        "longer": min(written, amounts.get("cache_write_1h_tokens", 0)),
        "output": amounts.get("output_tokens", 0),
    }


def total(
    price: Price,
    *,
    fresh: int,
    fresh_and_written: int,
    read: int,
    written: int,
    longer: int,
    output: int,
    complete: bool,
) -> Cost:
    """What tokens come to by a price: of one spend, or the sums over many.

    `fresh` is input that was neither read from a cache nor written to it; `longer` the part of what
    was `written` that a cache keeps for an hour.
    """
    amount = output * price.output + read * (price.cache_read or 0)
    if price.cache_write is None:
        fresh = fresh_and_written  # billed as what it is: input
    else:
        each = price.cache_write if price.cache_write_1h is None else price.cache_write_1h
        amount += (written - longer) * price.cache_write + longer * each
    complete = complete and not (read and price.cache_read is None)
    return Cost(amount + fresh * price.input, complete)


def by_kind(
    price: Price,
    *,
    fresh: int,
    fresh_and_written: int,
    read: int,
    written: int,
    longer: int,
    output: int,
) -> dict[str, int]:
    """The same as `total`, each kind of token for itself."""
    if price.cache_write is None:
        writing = (fresh_and_written - fresh) * price.input
    else:
        each = price.cache_write if price.cache_write_1h is None else price.cache_write_1h
        writing = (written - longer) * price.cache_write + longer * each
    return {
        "cache read": read * (price.cache_read or 0),
        "input": fresh * price.input,
        "cache write": writing,
        "output": output * price.output,
    }


def names(model: str | None) -> list[str]:
    """The names under which a model may stand in the list, the most exact first."""
    if not model:
        return []
    last = model.lower().partition("?")[0].rpartition("/")[2]
    hosted = _HOSTED.fullmatch(last)
    plain = _DATE.sub("", hosted[1] if hosted else last)
    return list(dict.fromkeys((last, plain, last.replace(".", "-"), plain.replace(".", "-"))))


def load(home: Path | None = None) -> Prices:
    """Our list, and a home's own before it; the same object as long as both lists are the same."""
    path = home / OWN if home else None
    return _load(path, path.read_bytes() if path is not None and path.exists() else None)


@lru_cache(maxsize=16)
def _load(path: Path | None, content: bytes | None) -> Prices:
    ours = orjson.loads(files("tracklog.answers").joinpath(OWN).read_bytes())
    models = {name: _listed(rows) for name, rows in ours["models"].items()}
    as_of = ours["as_of"]
    if content is not None:
        try:
            own = orjson.loads(content)
            models |= {name.lower(): _listed(rows) for name, rows in own["models"].items()}
            as_of = own.get("as_of") or as_of
        except (orjson.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError) as error:
            raise TracklogError(f"{path} is no list of prices: {error!r}", HINT) from None
    return Prices(models, as_of)


def _listed(rows: list[_Listed]) -> list[Price]:
    prices = []
    for row in rows:
        price, above = _price(row, str(row["from"])), row.get("above")
        if above is not None:
            price = price._replace(above=(int(above["tokens"]), _price(above, price.day)))
        prices.append(price)
    return sorted(prices, key=lambda price: price.day)


def _price(rates: _Rates, day: str) -> Price:
    read, write, longer = (
        None if each is None else _nano(each)
        for each in (rates.get("cache_read"), rates.get("cache_write"), rates.get("cache_write_1h"))
    )
    return Price(day, _nano(rates["input"]), _nano(rates["output"]), read, write, longer)


def _nano(dollars: float) -> int:
    """Dollars per million tokens in billionths of a dollar per token."""
    return round(dollars * 10**9 / MILLION)
