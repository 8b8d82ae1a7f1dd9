"""A question in SQL over the index."""

from dataclasses import dataclass

from tracklog.answers import Param, Question, integer, text
from tracklog.home.home import Home


@dataclass(frozen=True, slots=True)
class QueryAnswer:
    """The rows of a SELECT."""

    columns: list[str]
    rows: list[list[str | int | float | None]]
    """Bytes as hexadecimal digits."""
    cut: bool
    """There are more rows than were asked for."""


def query(home: Home, sql: str, limit: int = 1000, seconds: float = 10) -> QueryAnswer:
    """The answer to one SELECT, which can change nothing; else `BadQuery`."""
    answer = home.index.query(sql, limit=limit, seconds=seconds)
    rows = [
        [value.hex() if isinstance(value, bytes) else value for value in row] for row in answer.rows
    ]
    return QueryAnswer(answer.columns, rows, answer.cut)


question = Question(
    name="query",
    about="Run an SQL query on the index, which has tables such as runs, calls and findings. "
    "The query must be one SELECT; it can change nothing.",
    ask=query,
    params=(
        text("sql", "One SELECT.", required=True),
        integer("limit", "Return at most this many rows.", least=1, default=1000),
        Param(
            name="seconds",
            about="Stop the query after this time.",
            kind="number",
            least=0.1,
            default=10,
        ),
    ),
    paths=(),  # only for a user with the files: over HTTP it could block the server
    examples=(
        'query "SELECT run, outcome FROM runs WHERE passed = 0"',
        'query "SELECT name, count(*) AS n FROM findings GROUP BY name ORDER BY n DESC"',
        """query "SELECT name FROM sqlite_schema WHERE type = 'view'"     (lists the tables)""",
        'query "SELECT * FROM calls" --json | jq',
    ),
)
