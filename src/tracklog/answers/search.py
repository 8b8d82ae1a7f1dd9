"""Search: the records that contain some words."""

from dataclasses import dataclass, replace
from itertools import islice

from tracklog.answers import WINDOWS, Question, flag, limit, one_of, run_param, since, text
from tracklog.folds import runs as runs_fold
from tracklog.home.home import Home
from tracklog.index.search_text import marked, terms
from tracklog.journal.frame import Record
from tracklog.model.errors import NoSuchRun, UnknownName

LOOKED_AT = 5_000
"""Records with these words that a search looks at when it is filtered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRow:
    """A record that contains all the words."""

    seq: int
    received: str
    at: str | None
    """When, by the clock of its emitter."""
    dialect: str
    family: str
    run: str
    title: str | None
    """The title of the run."""
    excerpt: str
    text: str | None
    """All the text of the record; null if asked to be brief."""


def search(
    home: Home,
    query: str,
    run: str | None = None,
    dialect: str | None = None,
    within: str | None = None,
    brief: bool = False,
    limit: int = 20,
    *,
    now: str | None = None,
) -> list[SearchRow]:
    """The records with all the words of a query, the newest first."""
    if dialect is not None and dialect not in home.dialects:
        known = ", ".join(sorted(home.dialects))
        raise UnknownName(f"there is no dialect {dialect!r}", f"the dialects are: {known}")
    try:
        of = None if run is None else home.run(run)
    except NoSuchRun:  # it has no text
        return []
    begin = since(home, within, now) or ""

    def fits(record: Record) -> bool:
        return (
            record.received >= begin
            and dialect in (None, record.dialect)
            and of in (None, (record.family, record.run))
        )

    narrow = bool(begin or dialect or of)
    between = None
    if of is not None:  # between its first and its last record are few of other runs
        state = home.index.state("runs", ":".join(of))
        between = (state.first_seq, state.last_seq)
    hits = home.index.search(query, LOOKED_AT if narrow else limit, between)
    wanted = terms(query)
    return [
        SearchRow(
            seq=hit.record.seq,
            received=hit.record.received,
            at=hit.at,
            dialect=hit.record.dialect,
            family=hit.record.family,
            run=hit.record.run,
            title=runs_fold.title(
                home.index.state("runs", f"{hit.record.family}:{hit.record.run}")
            ),
            excerpt="".join(piece for piece, _ in marked(hit.text, wanted)),
            text=None if brief else hit.text,
        )
        for hit in islice((hit for hit in hits if fits(hit.record)), limit)
    ]


question = Question(
    name="search",
    about="List the records that contain all these words, the newest first. Tasks, prompts, "
    "replies, thoughts, tool arguments and results, errors, reasons, questions and answers are "
    "searched. A long text that is stored as a blob is searched only at its beginning.",
    ask=search,
    params=(
        text("q", 'Words, "words in quotes", or beginnings*.', required=True, keyword="query"),
        replace(
            run_param("Only this run: its id, the beginning of it, or `family:run`."),
            run=False,
            required=False,
        ),
        text("dialect", "Only this dialect."),
        one_of("within", "Only records that were recorded in this time.", WINDOWS, default="all"),
        flag("brief", "Without the text."),
        limit(20),
    ),
    refusals={404: "There is no such dialect."},
    examples=(
        "search timeout",
        """search '"connection refused" api'     (a phrase, and a word anywhere)""",
        "search 'migrat*' --json",
    ),
)
