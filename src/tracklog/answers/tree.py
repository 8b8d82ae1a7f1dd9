"""The tree of runs: which run began which."""

from dataclasses import dataclass, replace

from tracklog.answers import Question, flag, key_of, newest, now_of, run_param
from tracklog.answers.related import related_runs
from tracklog.answers.run_list import RunList, RunRow
from tracklog.folds import tree as tree_fold
from tracklog.home.home import Home

NEWEST = 1000
"""The runs whose trees are listed unless asked otherwise: those that were recorded last."""
Handoff = tuple[str, str | None, str | None, int, str | None]


@dataclass(frozen=True, slots=True)
class TreeRow:
    """A run in the tree, at its depth, below its parent."""

    key: str
    """`family:run`."""
    depth: int
    parent: str | None
    kind: str | None
    """How its parent began it, such as sub-run, fork or resume."""
    missing: bool
    """Another run names it, and nothing of it was recorded."""
    again: bool
    """The run is also earlier in the list; the runs below it are listed there."""
    handoffs: list[Handoff]
    """Each as its kind (handoff or message), from whom, to whom, its record, and its reason."""
    run: RunRow | None = None
    """Its row; null unless asked for."""


def tree(
    home: Home,
    run: str | None = None,
    around: bool = False,
    newest: int = NEWEST,
    *,
    now: str | None = None,
) -> list[TreeRow]:
    """The runs below one, or those that were recorded last: parents before children.

    A run that was recorded last comes with all that are linked to it, however old they are.
    """
    if run is None:
        branches = _all(home, newest)
    else:
        key = key_of(home, run)
        states = related_runs(home.index, [key])
        branches = tree_fold.answer(states, tree_fold.root(states, key) if around else key)
    rows = list(map(_row, branches))
    return with_runs(home, rows, now) if around else rows


def _row(branch: tree_fold.Branch) -> TreeRow:
    handoffs: list[Handoff] = [tuple(each) for each in branch.handoffs]
    return TreeRow(
        branch.key,
        branch.depth,
        branch.parent,
        branch.kind,
        branch.missing,
        branch.again,
        handoffs,
    )


def _all(home: Home, newest: int) -> list[tree_fold.Branch]:
    index = home.index
    keys = {key for key, _ in index.newest_stored("runs", newest)}
    if len(keys) < newest:  # all of them, so that none need be looked for
        # A run that only ever called tools has no tree state, though it was recorded.
        states = dict(index.states("tree"))
        known = index.load("runs", keys - states.keys())
        return tree_fold.answer(states, None, {key: run.first_seq for key, run in known.items()})
    return tree_fold.answer(related_runs(index, keys))


def with_runs(home: Home, rows: list[TreeRow], now: str | None = None) -> list[TreeRow]:
    """The same rows, each with the row of its run."""
    states = home.index.load("runs", {row.key for row in rows})
    runs = {run.key: run for run in home.cache(RunList).rows(states.values(), now_of(home, now))}
    return [replace(row, run=runs.get(row.key)) for row in rows]


question = Question(
    name="tree",
    about="List the runs below a run; or, if no run is given, those that were recorded last, with all "
    "runs that are linked to them. Parents stand before their children.",
    ask=tree,
    params=(
        replace(run_param(), required=False),
        flag("around", "The complete tree that contains the run, with the row of each run."),
        newest(NEWEST),
    ),
    paths=("/api/tree", "/api/runs/{family}/{run}/tree"),
    examples=("tree", "tree --all", "tree agent-coder-1 --json"),
)
