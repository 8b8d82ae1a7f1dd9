"""Milliseconds for questions to a journal, asked of DuckDB over the JSONL itself."""

import sys

# A script's own folder comes first in the path, and this file has the name of the package.
sys.path.pop(0)

import json
import time
from statistics import median

import duckdb

ROUNDS = 3
COLUMNS = (
    "{seq: 'BIGINT', received: 'VARCHAR', dialect: 'VARCHAR', family: 'VARCHAR', run: 'VARCHAR',"
    " event: 'JSON'}"
)


def main():
    files, told = sys.argv[1], json.loads(sys.argv[2])
    # One pattern holds for one file and for many; nothing is loaded before it is asked for.
    source = (
        f"read_json('{files}', format = 'newline_delimited', columns = {COLUMNS},"
        " maximum_object_size = 33554432)"
    )
    latest = (
        "SELECT coalesce(family, dialect) AS of, run, max(seq) AS last, min(received),"
        f" max(received), count(*) FROM {source} GROUP BY of, run ORDER BY last DESC LIMIT 50"
    )
    one = f"SELECT seq, event FROM {source} WHERE run = ? ORDER BY seq LIMIT 200"
    rare = f"SELECT seq FROM {source} WHERE contains(event::VARCHAR, ?) ORDER BY seq LIMIT 50"
    # One dialect of the four that tell of tools: it is not made to know the others.
    tools = (
        "SELECT (event->>'tool_name') AS tool, count(*),"
        " avg(CASE WHEN (event->>'ok') = 'true' THEN 0 ELSE 1 END),"
        " quantile_cont((event->>'duration_s')::DOUBLE, 0.95)"
        f" FROM {source} WHERE dialect = 'kahn-agent' AND (event->>'event') = 'tool_invocation'"
        " AND (event->>'ts') >= ? GROUP BY tool"
    )
    past = (
        "SELECT count(*), count(*) FILTER ((event->>'event') = 'tool_invocation'),"
        " count(*) FILTER ((event->>'ok') = 'false'), arg_max((event->>'to'), seq), max(received)"
        f" FROM {source} WHERE run = 'long' AND seq <= ?"
    )
    questions = {
        "latest 50 runs": (latest, []),
        "the events of one run": (one, [told["run"]]),
        "a rare word": (rare, [told["rare"]]),
        "failure rate and p95 per tool, 24 h": (tools, [told["since"]]),
        "a run of 30,000 events as it was": (past, [told["last"]]),
    }
    connection = duckdb.connect()
    taken = {}
    for name, (sql, given) in questions.items():
        seconds = []
        for _ in range(ROUNDS):
            began = time.perf_counter()
            assert connection.execute(sql, given).fetchall()
            seconds.append(time.perf_counter() - began)
        taken[name] = median(seconds) * 1000
    print(json.dumps(taken))


main()
