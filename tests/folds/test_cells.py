"""Laws of cells: what is added up by hour and by day is what the minutes come to."""

from hypothesis import given
from hypothesis import strategies as st

from tracklog.folds._cells import LENGTHS, Cell, Label, in_pieces, longer, with_sums

minutes = st.integers(-5000, 5000)
spans = st.lists(st.tuples(minutes, minutes).map(sorted).map(tuple), max_size=4)
cells = st.dictionaries(
    st.builds(
        Cell,
        st.just("calls"),
        minutes,
        st.just(0),
        st.builds(Label, st.sampled_from("ab"), st.just("m"), st.just("t")),
    ),
    st.lists(st.integers(-9, 9), min_size=2, max_size=2),
    max_size=20,
)


@given(spans)
def test_the_pieces_of_a_span_are_its_minutes_each_once(spans: list[tuple[int, int]]) -> None:
    found: dict[int, list[int]] = {number: [] for number in range(len(spans))}
    for length, pieces in in_pieces(spans).items():
        for number, (first, last) in pieces:
            assert first % length == last % length == 0
            found[number] += range(first, last)
    assert [sorted(found[n]) for n in found] == [list(range(*span)) for span in spans]


@given(spans)
def test_no_shorter_pieces_are_taken_where_a_day_or_an_hour_fits(
    spans: list[tuple[int, int]],
) -> None:
    pieces = in_pieces(spans)
    for longest, shorter in ((LENGTHS[0], LENGTHS[1]), (LENGTHS[1], 1)):
        for _, (first, last) in pieces.get(shorter, ()):
            assert last - first < 2 * longest
            assert -(-first // longest) * longest + longest > last


@given(cells)
def test_the_sums_of_hours_and_days_are_those_of_their_minutes(
    cells: dict[Cell, list[int]],
) -> None:
    changes = [*cells.items(), *cells.items()]  # a cell may change twice
    rows = list(with_sums(changes))
    every = dict(rows)
    assert len(every) == len(rows)
    twice = {cell: [2 * amount for amount in amounts] for cell, amounts in cells.items()}
    assert {cell: every.get(cell, [0, 0]) for cell in cells} == twice
    for length in LENGTHS:
        expected: dict[Cell, list[int]] = {}
        for cell, amounts in twice.items():
            begin = cell.minute // length * length
            row = expected.setdefault(
                cell._replace(kind=longer("calls", length), minute=begin), [0, 0]
            )
            row[:] = [one + other for one, other in zip(row, amounts, strict=True)]
        found = {
            cell: [*each] for cell, each in every.items() if cell.kind == longer("calls", length)
        }
        assert found == {cell: row for cell, row in expected.items() if any(row)}
