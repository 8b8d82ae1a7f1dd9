"""Export a run to a foreign format, from its records alone.

The records are read as often as a format needs them, so a long run is never held in memory.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from tracklog.answers.related import related_runs
from tracklog.answers.spans import spans
from tracklog.answers.spends import Spends, spends_elsewhere, spent_by
from tracklog.folds import Position, run_of
from tracklog.folds import costs as costs_fold
from tracklog.folds import runs as runs_fold
from tracklog.folds import tree as tree_fold
from tracklog.folds._spends import DOLLAR, spend_name
from tracklog.formats import registry
from tracklog.formats.coverage import UncoveredFields
from tracklog.formats.exporters import ExportRecord, ExportRun, Spend, span_of
from tracklog.formats.loss import LossReport
from tracklog.home.home import Home
from tracklog.journal import proof as proofs
from tracklog.journal.frame import Record, Run
from tracklog.journal.journal import Journal
from tracklog.model.errors import NotProven
from tracklog.model.event import Event
from tracklog.model.fact import Asked, Began, Decided, Fact, Noted, Spent
from tracklog.reading.record import Dialects
from tracklog.reading.revisions import Revisions
from tracklog.reading.walk import Reading, Walker

RecordsOf = Callable[[Run], Iterable[Record]]
"""The records of a run from the first one, as often as they are requested."""
Tree = Mapping[str, tree_fold.State]
"""How runs belong together, by run."""
Elsewhere = Callable[[str], Spends]
"""The spends of a run that other runs report, by its key."""


def export(
    run: ExportRun, format: str, options: Mapping[str, str] | None = None
) -> Iterator[bytes]:
    """The run in that format, piece by piece; the same bytes on each call."""
    exporter = registry.exporter(format)
    return exporter.write(run, exporter.chosen(options))


def losses(run: ExportRun, format: str, options: Mapping[str, str] | None = None) -> LossReport:
    """The fate of each field of the run in that format."""
    exporter = registry.exporter(format)
    return exporter.losses(run, exporter.chosen(options))


def export_run_now(home: Home, run: Run, *, prove: bool = False) -> ExportRun:
    """The run as it is now, with its proof on request; records appended later are not in it."""
    storage = home.storage_of(run)
    now = storage.store.head()
    # With shards, the number of a record says nothing about the runs of other shards.
    through = now.through if storage is home.storage else None
    export_run = export_run_of(home, run, through=through)
    if not prove:
        return export_run
    proof = proofs.prove_all(storage, run, now)
    records = Journal(storage.store).records(run=run, through=now.through)
    faults = proofs.check_proof(proof, (record.line for record in records if record.line))
    if faults:
        raise NotProven(
            f"this run cannot be proven: {faults[0]}",
            "`tracklog verify` shows more; `export --no-proof` exports it without a proof",
        )
    return replace(export_run, proof=proof)


def export_run_of(home: Home, run: Run, through: int | None = None) -> ExportRun:
    """A run of a home with the runs below it; the index must be up to date."""
    key = ":".join(run)
    states = related_runs(home.index, [key])
    exported = export_run(
        run,
        lambda each: home.journal.records(run=each, through=through),
        home.dialects,
        states,
        lambda each: spends_elsewhere(home.index, each, through),
    )
    # As of its last record, so that the same run makes the same page at any time.
    last = home.index.state("runs", key).last_received
    return replace(exported, spans=(lambda: spans(home, key, now=last)) if last else None)


def export_run(
    run: Run,
    records: RecordsOf,
    dialects: Dialects,
    tree: Tree | None = None,
    others: Elsewhere = lambda _key: Spends(),
) -> ExportRun:
    """A run and the runs below it, as far as the tree knows them.

    A spend belongs to the run that reported it first; `others` gives the reports of other runs.
    """
    states = tree or {}
    children, parents = (_sub_runs(links, states) for links in tree_fold.links(states))
    root = _root(":".join(run), parents)
    resolve = tree_fold.resolver(states)
    family = _Family(records, dialects, states, children, parents, others, resolve)
    return _export_run(run, root, family, {":".join(run)})


class _Family(NamedTuple):
    """A run and the runs around it."""

    records: RecordsOf
    dialects: Dialects
    states: Tree
    children: tree_fold.Links
    parents: tree_fold.Links
    others: Elsewhere
    resolve: tree_fold.resolver
    """Prepared once: with many sub-runs it costs more than all the rest."""


def _sub_runs(links: tree_fold.Links, known: Tree) -> tree_fold.Links:
    """The links between runs of which one is part of the other."""
    return {
        key: {other: kind for other, kind in ends.items() if kind == "sub-run" and other in known}
        for key, ends in links.items()
        if key in known
    }


def root_of(run: Run, states: Tree) -> Run:
    """The run at the top of the tree of a run."""
    return _root(":".join(run), _sub_runs(tree_fold.links(states)[1], states))


def conversation_of(run: Run, root: Run, states: Tree) -> str | None:
    """The conversation that the run, or the run at the top, is part of at its source, under the
    strongest name that an importer has for it.
    """
    for key in dict.fromkeys((":".join(run), ":".join(root))):
        known = dict(reversed(states[key].aliases)) if key in states else {}
        for importer in registry.importers() if known else ():
            for system in importer.conversations:
                if known.get(system):
                    return str(known[system])
    return None


def _root(key: str, parents: tree_fold.Links) -> Run:
    seen = {key}
    while above := [parent for parent in parents.get(key, {}) if parent not in seen]:
        key = above[0]
        seen.add(key)
    return run_of(key)


def _export_run(run: Run, root: Run, family: _Family, seen: set[str]) -> ExportRun:
    records, dialects, states, children, parents, others, _ = family
    key = ":".join(run)
    below = []
    for child in children.get(key, {}):
        if child not in seen:
            seen.add(child)
            one = _export_run(run_of(child), root, family, seen)
            below.append(replace(one, parent=run, call=_call(family, key, child)))
    above = next(iter(parents.get(key, {})), None)
    survey = surveyed(run, lambda: records(run), dialects)
    survey.elsewhere = others(key)
    counted = survey.counted()
    return ExportRun(
        family=run[0],
        id=run[1],
        root=root,
        conversation=conversation_of(run, root, states),
        lines=lambda: export_records(
            records(run), dialects, counted, survey.walker.revisions, survey.outdone()
        ),
        uncovered=_uncovered(dialects),
        summary=survey.summary(),
        opening=survey.opening,
        spends=tuple(spend for spend in counted.values() if spend.counts),
        findings=tuple(survey.walker.at_rest()),
        stepped=survey.stepped,
        asks=survey.asks,
        same_calls=survey.same_calls(),
        judged=frozenset(survey.judged),
        trace=survey.trace,
        own=survey.own,
        parent=run_of(above) if above else None,
        call=_call(family, above, key) if above else None,
        below=tuple(below),
    )


def _uncovered(dialects: Dialects) -> Callable[[Event], Iterator[str]]:
    known: dict[str, UncoveredFields] = {}

    def uncovered(event: Event) -> Iterator[str]:
        if event.dialect not in known:
            known[event.dialect] = UncoveredFields(dialects[event.dialect])
        return known[event.dialect](event)

    return uncovered


def _call(family: _Family, parent: str, child: str) -> str | None:
    """The call with which a run began another, whichever of the two reported it."""
    states, resolve = family.states, family.resolve
    for key, end, other in ((parent, "child", child), (child, "parent", parent)):
        for _, link_end, named, _, call in states[key].links if key in states else ():
            if call and link_end == end and resolve(named) == other:
                return str(call)
    return None


def export_records(
    records: Iterable[Record],
    dialects: Dialects,
    counted: Mapping[str, Spend],
    revisions: Revisions,
    outdone: Collection[str] = (),
) -> Iterator[ExportRecord]:
    """The records of a run, read one after the other, with all revisions known."""
    walker = Walker(dialects, revisions=revisions)
    return (export_record(walker.reread(record), counted, outdone) for record in records)


def export_record(
    reading: Reading, counted: Mapping[str, Spend], outdone: Collection[str] = ()
) -> ExportRecord:
    """A record in the form that exporters take; a record that cannot be read is included.

    A superseded record has its line and event, and no facts: those of the newer mapping count.
    The spends that are `outdone` have no amounts: an export has one writer, whose spends would
    otherwise all be added. Their amounts are in a note.
    """
    record, event, facts, findings, position, dialect, superseded, marks, _ = reading
    if event is None or position is None or dialect is None:
        return ExportRecord(record, None, findings=tuple(findings), identity=str(record.seq))
    unique = dialect.policy.identity == "refuse" and event.id
    identity = str(event.id) if unique else str(record.seq)
    if superseded:
        return ExportRecord(record, event, identity=identity, names=reading.names, superseded=True)
    if outdone:
        facts = list(_without_amounts(position, facts, outdone))
    return ExportRecord(
        record,
        event,
        tuple(facts),
        tuple(findings),
        identity,
        reading.names,
        _spent_here(position, facts, counted),
        marks=tuple(marks),
    )


def _without_amounts(
    position: Position, facts: Sequence[Fact], outdone: Collection[str]
) -> Iterator[Fact]:
    notes = []
    for fact in facts:
        if isinstance(fact, Spent) and spend_name(position, fact) in outdone:
            yield replace(fact, usage=None, cost_usd=None, credits=None, calls=None, bound=None)
            amounts = {"usage": fact.usage, "cost_usd": fact.cost_usd, "credits": fact.credits}
            data = {name: value for name, value in amounts.items() if value is not None}
            note = Noted(label="spent-again", agent=fact.agent, step=fact.step, data=data)
            notes.append(replace(note, fidelity=fact.fidelity))
        else:
            yield fact
    yield from notes


def _spent_here(
    position: Position, facts: Sequence[Fact], counted: Mapping[str, Spend]
) -> dict[int, Spend]:
    """The positions of the facts that are spends, count, and appear here for the first time."""
    spends = {}
    for place, fact in enumerate(facts):
        if isinstance(fact, Spent) and fact.copied is not True:
            spend = counted.get(_spot(position.seq, spend_name(position, fact)))
            if spend is not None:
                spends[place] = spend
    return spends


def _spot(seq: int, name: str) -> str:
    return f"{seq} {name}"


def surveyed(run: Run, records: Callable[[], Iterable[Record]], dialects: Dialects) -> "Survey":
    """A survey of all records of a run; they are read again when some turn out not to count."""
    walker = Walker(dialects)
    survey = Survey(run, walker)
    for record in records():
        survey.add(walker.read(record))
    if walker.changed:
        walker.begin_again()
        survey = Survey(run, walker)
        for record in records():
            survey.add(walker.reread(record))
    return survey


class Survey:
    """The values of a run that are needed before its first line is written."""

    def __init__(self, run: Run, walker: Walker) -> None:
        self.walker = walker
        """The walk that has read the records that were added."""
        self.state = runs_fold.State(family=run[0], run=run[1])
        self.spends: dict[str, costs_fold.State] = {}
        self.elsewhere = Spends()
        """The spends that other runs report: a spend belongs to the run that reported it first."""
        self.opening: dict[str, Any] = {}
        self.trace: str | None = None
        self.own: tuple[str, str, str | None] | None = None
        self.asks = self.stepped = False
        self.judged: set[str] = set()

    def add(self, reading: Reading) -> None:
        """Add the next record of the run."""
        position, event = reading.position, reading.event
        if position is None or event is None or reading.superseded:
            return
        span = span_of(reading.names)
        if self.trace is None and span is not None:
            self.trace = span[0]
        for fact in reading.facts:
            self.state = runs_fold.step(self.state, position, fact)
            self.asks = self.asks or isinstance(fact, Asked)
            if isinstance(fact, Decided) and fact.about is not None:
                self.judged.add(fact.about)
            if isinstance(fact, Spent):
                self._spend(position, fact)
            elif isinstance(fact, Began):
                self._open(fact)
                if fact.what == "run" and span is not None and self.own is None:
                    above = span_of((event.cause,)) if event.cause else None
                    self.own = (*span, above[1] if above else None)

    def _spend(self, position: Position, fact: Spent) -> None:
        key = costs_fold.key(position, fact)
        if key is not None:
            known = self.spends.get(key) or costs_fold.State()
            self.spends[key] = costs_fold.step(known, position, fact)

    def _open(self, fact: Began) -> None:
        if fact.what == "step":
            self.stepped = True
            return
        for name in ("agent", "task", "model", "software", "host", "cwd", "git"):
            value = getattr(fact, name)
            if value is not None:
                self.opening.setdefault(name, value)

    def same_calls(self) -> dict[str, str]:
        """The copies of calls, which may be known as such only after both were reported."""
        calls = self.state.calls.items()
        return {_name_of(copy): _name_of(name) for copy, name in calls if isinstance(name, str)}

    def counted(self) -> dict[str, Spend]:
        """The spends by their position; those that another spend replaces are included with no
        amounts.
        """
        counted = self._own_counted()
        found = {_spot(each.seq, each.key): _spend(each) for each in counted}
        keys = {each.key for each in counted}
        for each in self.spends.values():
            if each.key not in keys:
                spend = _spend(each)
                found[_spot(each.seq, each.key)] = spend._replace(
                    calls=0, amounts=dict.fromkeys(spend.amounts, 0), cost_usd=None, counts=False
                )
        return found

    def _own_counted(self) -> list[costs_fold.State]:
        run = (self.state.family, self.state.run)
        known = costs_fold.counted(*self._all_spends())
        return [each for each in known if (each.family, each.run) == run]

    def outdone(self) -> frozenset[str]:
        """The spends of a writer that do not count, as another writer of the run reports more."""
        writers = {each.writer for each in self._own_counted()}
        return frozenset(
            each.key for each in self.spends.values() if writers and each.writer not in writers
        )

    @property
    def ended(self) -> bool:
        return runs_fold.is_over(self.state)

    def summary(self) -> dict[str, Any]:
        row = runs_fold.row(self.state, self.state.last_received)
        if self.elsewhere.states:
            key = f"{self.state.family}:{self.state.run}"
            row |= spent_by(self._all_spends(), {key})[key].reported()
        return row

    def _all_spends(self) -> Spends:
        return self.elsewhere._replace(states=[*self.spends.values(), *self.elsewhere.states])


def _spend(each: costs_fold.State) -> Spend:
    return Spend(
        each.agent,
        each.provider,
        each.model,
        each.calls,
        {name: amount for name, amount in each.amounts.items() if name != "cost"},
        each.amounts["cost"] / DOLLAR if "cost" in each.amounts else None,
    )


def _name_of(name: str) -> str:
    """What exporters call a call, by its name in the folds."""
    if name[0] == "=":
        return name[1:]
    seq, _, id = name[1:].partition("/")
    return f"{id}#{seq}"
