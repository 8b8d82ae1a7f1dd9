"""Tool calls: several reports of one call, joined."""

from dataclasses import dataclass
from typing import Any

from tracklog.folds import MOST, UNREPORTED, Position, end_rank, rank, text_of, when, whole, word
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

    @property
    def failed(self) -> bool:
        return self.ok is False and self.counts


Calls = dict[str, Any]
"""The calls of a run by name: a list of a `Call`'s fields; True once it was seen from end to end, so
that nothing can change it, or the two records that tell of it; a text is the name of the original
that this one is a copy of."""


def original_call(calls: Calls, name: str) -> tuple[str, Any]:
    """The name under which a call is stored, of which this may be another report, and its state."""
    while isinstance(original := calls.get(name), str):
        name = original
    return name, original


def is_settled(state: Any) -> bool:
    """Whether nothing can change a call any more."""
    return state is True or (isinstance(state, list) and len(state) == 2)


def join_call(
    calls: Calls,
    position: Position,
    fact: Called | Returned,
    *,
    places: bool = False,
    model: str | None = None,
) -> tuple[list[Call], list[Call]]:
    """Merge one more report of a call: returns what no longer counts, and what counts instead.

    Copies are known by their call id or by the provider's; of two tellings the one that was
    seen counts, whichever came first. A made-up id is forgotten once it has returned.
    With `places` it is noted which records of the call count, whose it is, and the model.
    """
    own_name = call_name(position, fact)
    name, original = original_call(calls, own_name)
    if (name != own_name) if original is None else is_settled(original):
        return [], []  # nothing can change it, or it has returned and was forgotten
    before = [Call(*original)] if original else []
    made_up = fact.synthetic_id is True
    call = (
        Call(*original)
        if original
        else Call(
            at=when(position),
            made_up=made_up,
            unnamed=made_up or position.unnamed,
            agent=word(fact.agent),
            model=model,
        )
    )
    call.agent = call.agent or word(fact.agent)
    if isinstance(fact, Called):
        _called(call, position, fact)
        copy = f"={provider}" if (provider := word(fact.provider_call_id)) else name
        if copy != name and not isinstance(known := calls.get(copy), str):
            if is_settled(known):
                calls[name] = copy
                return before, []
            if known:
                before.append(Call(*known))
                _merge(call, before[-1])
            calls[copy] = name
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
    return before, [call]


def _called(call: Call, position: Position, fact: Called) -> None:
    if (far := rank(fact)) < call.called:
        call.tool, call.called, call.at = text_of(fact.tool), far, when(position)
        call.called_seq = position.seq


def _returned(call: Call, position: Position, fact: Returned) -> None:
    if call.tool is None:
        call.tool = word(fact.tool)
    far, ok = rank(fact), fact.ok if isinstance(fact.ok, bool) else None
    if call.open or end_rank(far, ok) < end_rank(call.returned, call.ok):
        call.returned, call.ok = far, ok
        call.returned_seq = position.seq
        call.micros = whole(fact.seconds, 1_000_000)
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
