"""Tool calls: several reports of one call, joined."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tracklog.folds import (
    MOST,
    UNREPORTED,
    Position,
    end_rank,
    integer,
    name_text,
    rank,
    text_of,
    when,
)
from tracklog.model.fact import Called, Returned


def call_name(position: Position, fact: Called | Returned) -> str:
    """The name of a tool call within its run; a made-up id means something in its record only."""
    id = text_of(fact.call_id)
    return f"#{position.seq}/{id}" if fact.synthetic_id is True else f"={id}"


@dataclass(slots=True)
class Call:
    """One tool call, merged from all reports of it."""

    tool: str | None = None
    called: int = UNREPORTED
    """The rank of the best report of the call."""
    at: int = 0
    returned: int = UNREPORTED
    ok: bool | None = None
    micros: int | None = None
    made_up: bool = False
    """Its id was made up, so that no other report can belong to it."""
    unnamed: bool = False
    """The source has no id for it, and what calls it so may have been read from another record."""
    called_seq: int = 0
    """The record of the call and the record of its end that count."""
    returned_seq: int = 0
    agent: str | None = None
    model: str | None = None
    """The model that spoke last when it was called."""

    @property
    def open(self) -> bool:
        return self.returned == UNREPORTED

    @property
    def torn(self) -> bool:
        """It returned, and no record of the call itself exists."""
        return self.called == UNREPORTED and not self.open and not self.made_up

    @property
    def counts(self) -> bool:
        """A result alone, without an id and of nobody knows which tool, is no call."""
        return self.called != UNREPORTED or self.tool is not None or not self.unnamed


Calls = dict[str, Any]
"""The calls of a run by name: a list of a `Call`'s fields; True once it was seen from end to end, so
that nothing can change it, or the two records that tell of it; a text is the name of the original
that this one is a copy of."""


def original_call(calls: Calls, name: str) -> tuple[str, Any]:
    """The name under which a call is stored, of which this may be another report, and its state."""
    original = calls.get(name)
    while isinstance(original, str):
        name, original = original, calls.get(original)
    return name, original


def is_settled(state: Any) -> bool:
    """Whether nothing can change a call any more."""
    return state is True or (isinstance(state, list) and len(state) == 2)


def join_call(
    calls: Calls,
    position: Position,
    fact: Called | Returned,
    count: Callable[[Call, int], None],
    *,
    places: bool = False,
    model: str | None = None,
) -> None:
    """Merge one more report of a call: `count` gets -1 and the call as it counted before, then 1 and
    the call as it counts now.

    Copies are known by their call id or by the provider's; of two reports the observed one counts,
    whichever came first. A made-up id is forgotten once it has returned.
    With `places` it is noted which records of the call count, whose it is, and the model.
    """
    own_name = call_name(position, fact)
    name, original = original_call(calls, own_name)
    made_up = fact.synthetic_id is True
    if original is None:
        if name != own_name:
            return  # it has returned and was forgotten
        call = Call(None, UNREPORTED, when(position))
        call.made_up, call.unnamed, call.model = made_up, made_up or position.unnamed, model
    elif is_settled(original):
        if isinstance(fact, Called):
            _join_settled(calls, name, fact, count)
        return
    else:
        call = Call(*original)
        count(call, -1)
    call.agent = call.agent or name_text(fact.agent)
    if isinstance(fact, Called):
        _called(call, position, fact)
        if fact.provider_call_id is not None and _is_copied(calls, name, call, fact, count):
            return
    else:
        _returned(call, position, fact)
    if made_up and not call.open:
        calls.pop(name, None)
    elif call.called == call.returned == 0:
        calls[name] = [call.called_seq, call.returned_seq] if places else True
    else:
        calls[name] = [call.tool, call.called, call.at, call.returned, call.ok, call.micros]
        if call.unnamed or places:
            calls[name] += [call.made_up, call.unnamed]
        if places:
            calls[name] += [call.called_seq, call.returned_seq, call.agent, call.model]
    count(call, 1)


def _is_copied(
    calls: Calls, name: str, call: Call, fact: Called, count: Callable[[Call, int], None]
) -> bool:
    """Join the report under the provider's id; whether the call is only a copy of that one."""
    copy = _copy_name(fact, name)
    if copy == name or isinstance(known := calls.get(copy), str):
        return False
    if is_settled(known):
        calls[name] = copy
        return True
    if known:
        other = Call(*known)
        count(other, -1)
        _merge(call, other)
    calls[copy] = name
    return False


def _join_settled(
    calls: Calls, name: str, fact: Called, count: Callable[[Call, int], None]
) -> None:
    """What comes under the provider's id is a copy of a call that nothing can change any more."""
    copy = _copy_name(fact, name)
    known = calls.get(copy)
    if copy == name or isinstance(known, str) or is_settled(known):
        return
    if known:
        count(Call(*known), -1)
    calls[copy] = name


def _copy_name(fact: Called, name: str) -> str:
    """The name under which the provider reports a call; its own where there is none."""
    return f"={provider}" if (provider := name_text(fact.provider_call_id)) else name


def _called(call: Call, position: Position, fact: Called) -> None:
    if (far := rank(fact)) < call.called:
        call.tool, call.called, call.at = text_of(fact.tool), far, when(position)
        call.called_seq = position.seq


def _returned(call: Call, position: Position, fact: Returned) -> None:
    if call.tool is None:
        call.tool = name_text(fact.tool)
    far, ok = rank(fact), fact.ok if isinstance(fact.ok, bool) else None
    if call.open or end_rank(far, ok) < end_rank(call.returned, call.ok):
        call.returned, call.ok = far, ok
        call.returned_seq = position.seq
        call.micros = integer(fact.seconds, 1_000_000)
        if call.micros is None and call.called != UNREPORTED and when(position) > call.at:
            call.micros = min((when(position) - call.at) * 1000, MOST)


def _merge(call: Call, copy: Call) -> None:
    call.agent, call.model = call.agent or copy.agent, call.model or copy.model
    if copy.called < call.called:
        call.tool, call.called, call.at = copy.tool, copy.called, copy.at
        call.called_seq = copy.called_seq
    if end_rank(copy.returned, copy.ok) < end_rank(call.returned, call.ok):
        call.returned, call.ok, call.micros = copy.returned, copy.ok, copy.micros
        call.returned_seq = copy.returned_seq
