"""The sums that the index stores are those of its states, whatever the size of its batches."""

import tempfile
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from support.journals import journals, made
from tracklog.folds import MARK, summed
from tracklog.folds._cells import AMOUNTS, LENGTHS, Label, cell_of, longer
from tracklog.index.folding import SUMS

EVER = [(-(2**40), 2**40)]


def cells_of(home):
    """By kind, names, part and the minute in which a time of some length begins: what the states add."""
    sums: Counter = Counter()
    for fold in home.index.folds.values():
        for _, state in home.index.states(fold.name) if fold.cells else ():
            cells = fold.cells(state)
            for key, amounts in cells.amounts.items():
                cell = cell_of(key, cells.names)
                for length in (1, *LENGTHS):
                    kind = cell.kind if length == 1 else longer(cell.kind, length)
                    begin = cell.minute // length * length
                    for place, amount in enumerate(amounts):
                        sums[kind, MARK.join(cell.label), cell.part, begin, place] += amount
    return {name: amount for name, amount in sums.items() if amount}


def stored(home, kinds, minutes):
    """The same from the cells that are stored."""
    sums = {}
    spans, by = [(each, each + 1) for each in minutes], ",".join(Label._fields)
    for kind in kinds:
        amounts = AMOUNTS.get(kind.partition("/")[0], 1)
        for row in home.index.index.totals(kind, spans, by=by, amounts=amounts):
            for place, amount in enumerate(row.amounts):
                if amount:
                    sums[kind, row.name, row.part, minutes[row.span], place] = amount
        everything = home.index.index.totals(kind, EVER, amounts=1)
        assert sum(row.amounts[0] for row in everything) == sum(
            amount for of, amount in sums.items() if of[0] == kind and of[-1] == 0
        )
    return sums


@settings(max_examples=15, deadline=None)
@given(journals(), st.integers(1, 9))
def test_what_is_stored_for_all_runs_is_what_the_states_of_the_runs_add_up_to(journal, size):
    with tempfile.TemporaryDirectory() as folder, made(folder, journal) as home:
        index = home.index
        index.rebuild()
        with index.index.turn(5):
            index._clear()
            index._folding.resume()
            while records := home.journal.read(index._folding.at, size):
                index._folding.apply(records)
        expected = cells_of(home)
        kinds, minutes = {of[0] for of in expected}, sorted({of[3] for of in expected})
        assert stored(home, kinds, minutes) == expected
        for fold in index.folds.values():
            if fold.sums is not None:
                every = (fold.sums(key, state) for key, state in index.states(fold.name))
                rows = dict(index.index.states(SUMS + fold.name, limit=10**6))
                assert index.summed(fold.name, rows) == summed(every), fold.name
