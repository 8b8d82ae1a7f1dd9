"""The SQL of the index in PostgreSQL: its tables, a view per fold, and who may ask them."""
# ruff: noqa: S608  # the names of schemas and folds are ours, and quoted

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from tracklog import __version__
from tracklog.folds._cells import MOST_AMOUNTS, Label
from tracklog.journal.postgres.connections import Address
from tracklog.journal.postgres.schema import index_prefix

LABELS = Label._fields
"""The names of a cell."""
AMOUNTS = tuple(f"a{number}" for number in range(MOST_AMOUNTS))
CELL = ("kind", "minute", "part", *LABELS)
"""What a cell is known by."""
CELL_TYPES = ", ".join(["text[]", "bigint[]", "bigint[]", *["bytea[]"] * len(LABELS)])
_TABLES = """
CREATE SCHEMA {s};
CREATE TABLE {s}.meta(name text PRIMARY KEY, value text NOT NULL);
CREATE TABLE {s}.states(fold text COLLATE "C", key bytea, seq bigint NOT NULL, state bytea NOT NULL,
  PRIMARY KEY (fold, key)) WITH (fillfactor = 70);
CREATE TABLE {s}.findings(id bigserial PRIMARY KEY, seq bigint NOT NULL, family bytea NOT NULL,
  run bytea NOT NULL, name bytea NOT NULL, level text NOT NULL, message bytea NOT NULL);
CREATE INDEX findings_by_run ON {s}.findings(family, run, seq, id);
CREATE INDEX findings_by_seq ON {s}.findings(seq, id);
CREATE TABLE {s}.silent(seq bigint PRIMARY KEY);
CREATE TABLE {s}.names(name bigint, seq bigint, PRIMARY KEY (name, seq));
CREATE TABLE {s}.cells(kind text COLLATE "C", minute bigint, part bigint, {labels}, {amounts},
  PRIMARY KEY (kind, minute, part, {names}));
CREATE TABLE {s}.words(seq bigint PRIMARY KEY, said tsvector NOT NULL);
CREATE INDEX words_said ON {s}.words USING gin(said);
INSERT INTO {s}.meta VALUES('cursor', '0'), ('epoch', gen_random_uuid()::text);
-- PostgreSQL's text cannot hold U+0000: it is shown as U+FFFD.
CREATE FUNCTION {s}.readable(bytea) RETURNS text IMMUTABLE PARALLEL SAFE LANGUAGE sql AS $$
  SELECT CASE WHEN position('\\x00'::bytea IN $1) = 0 THEN convert_from($1, 'UTF8')
  ELSE convert_from(decode(regexp_replace(encode($1, 'escape'),
    '(?<!\\\\)((?:\\\\\\\\)*)\\\\000', '\\1\\\\357\\\\277\\\\275', 'g'), 'escape'), 'UTF8') END $$;
CREATE FUNCTION {s}.as_json(bytea) RETURNS json IMMUTABLE PARALLEL SAFE LANGUAGE sql AS $$
  SELECT CASE WHEN position('\\\\u0000'::bytea IN $1) = 0 THEN convert_from($1, 'UTF8')::json
  ELSE regexp_replace(convert_from($1, 'UTF8'),
    '(?<!\\\\)((?:\\\\\\\\)*)\\\\u0000', '\\1\\\\ufffd', 'g')::json END $$;
CREATE SCHEMA {v};
CREATE VIEW {v}.states AS SELECT fold, {s}.readable(key) COLLATE "C" AS key, seq,
  {s}.as_json(state)::text AS state FROM {s}.states;
CREATE VIEW {v}.findings AS SELECT seq, {s}.readable(family) COLLATE "C" AS family,
  {s}.readable(run) COLLATE "C" AS run, {s}.readable(name) COLLATE "C" AS name, level,
  {s}.readable(message) AS message FROM {s}.findings;
CREATE VIEW {v}.silent AS SELECT seq FROM {s}.silent;
CREATE VIEW {v}.words AS SELECT seq, said FROM {s}.words;
"""
_ROLE = """
DO $$ BEGIN
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '{role}') THEN
    CREATE ROLE {role} NOLOGIN;
    GRANT {role} TO CURRENT_USER;
  END IF;
EXCEPTION WHEN insufficient_privilege OR duplicate_object OR unique_violation THEN
  NULL;  -- an administrator makes it
END $$;
"""
_GRANTS = """
DO $$ BEGIN
  IF EXISTS (SELECT FROM pg_roles WHERE rolname = '{role}') THEN
    GRANT USAGE ON SCHEMA {v} TO {role};
    GRANT SELECT ON ALL TABLES IN SCHEMA {v} TO {role};
  END IF;
END $$;
"""
_RUN = "split_part(x.key, chr(31), 1)"
_BY_KEY = {
    "family": f"split_part({_RUN}, ':', 1)",
    "run": f"substr({_RUN}, position(':' IN {_RUN}) + 1)",
}
"""What of a state its key says."""


def tables_of(address: Address) -> str:
    """The schema of the index. Each version has its own: collectors of two versions can run side
    by side during an upgrade.
    """
    return index_prefix(address) + re.sub(r"[^a-z0-9]+", "_", __version__.lower())[:8]


def views_of(address: Address) -> str:
    """The schema of what `query` can ask."""
    return f"{tables_of(address)}_views"


def role_of(address: Address) -> str:
    """The role that `query` has: it can read the views, and nothing else."""
    return address.asker


def role_sql(address: Address) -> list[str]:
    """What an administrator runs where the user of the database may not make roles."""
    role = role_of(address)
    user = address.known.get("user") or "tracklog"
    return [f"CREATE ROLE {role} NOLOGIN;", f"GRANT {role} TO {quoted(str(user))};"]


def statements(
    address: Address, fields: Mapping[str, Mapping[str, Any]], listed: Iterable[str]
) -> Iterator[str]:
    """The statements that drop the index and make an empty one, in one transaction."""
    s, v, role = tables_of(address), views_of(address), role_of(address)
    yield f"DROP SCHEMA IF EXISTS {v} CASCADE; DROP SCHEMA IF EXISTS {s} CASCADE"
    labels, amounts = (
        ", ".join(f"{name} {kind} NOT NULL" for name in names)
        for names, kind in ((LABELS, "bytea"), (AMOUNTS, "bigint"))
    )
    yield _TABLES.format(s=s, v=v, labels=labels, amounts=amounts, names=", ".join(LABELS))
    for fold, names in fields.items():
        yield _view(s, v, fold, names)
    for n, fold in enumerate(listed):
        of = f"{s}.states(seq DESC, key DESC) WHERE fold = {literal(fold)}"
        yield f"CREATE INDEX newest_{n} ON {of}"
    yield _ROLE.format(role=role)
    yield _GRANTS.format(role=role, v=v)


def totals(by: str, where: Mapping[str, Collection[str]], amounts: int) -> str:
    """The sums of the cells of a kind, for spans of minutes."""
    names = [each for each in by.split(",") if each in LABELS]
    name = " || '\\x1f'::bytea || ".join(names) or "''::bytea"
    sums = ", ".join(f"sum({each})::bigint" for each in AMOUNTS[:amounts])
    matched = "".join(f" AND {field} = ANY(%s::bytea[])" for field in where)
    return (
        f"SELECT n - 1, {name}, part, {sums}"
        " FROM unnest(%s::bigint[], %s::bigint[]) WITH ORDINALITY AS spans(first, last, n)"
        " JOIN {s}.cells ON minute >= first AND minute < last"
        f" WHERE kind = %s{matched} GROUP BY 1, 2, 3 HAVING sum(a0) <> 0 ORDER BY 1, 2, 3"
    )


def _view(s: str, v: str, fold: str, fields: Mapping[str, Any]) -> str:
    """A table of a fold's states, as a person would ask for it."""
    parts = [f"x.{name}" for name in ("key", "seq") if name not in fields]
    parts += [f"{_column(name, usual)} AS {quoted(name)}" for name, usual in fields.items()]
    of = (
        f'SELECT {s}.readable(key) COLLATE "C" AS key, seq, {s}.as_json(state) AS state'
        f" FROM {s}.states WHERE fold = {literal(fold)}"
    )
    name = quoted(fold.replace("-", "_"))
    return f"CREATE VIEW {v}.{name} AS SELECT {', '.join(parts)} FROM ({of}) AS x"


def _column(name: str, usual: Any) -> str:
    value = f"(x.state ->> {literal(name)})"
    if name in _BY_KEY:
        return f'coalesce({value}, {_BY_KEY[name]}) COLLATE "C"'
    if isinstance(usual, bool):
        return f"CASE {value} WHEN 'true' THEN 1 WHEN 'false' THEN 0 ELSE {int(usual)} END"
    if isinstance(usual, int | float):
        return f"coalesce({value}::numeric, {usual!r})"
    if isinstance(usual, list | dict):
        return f"coalesce({value}, {literal(json.dumps(usual))})"
    return f'coalesce({value}, {literal(usual)}) COLLATE "C"'


def literal(value: str | None) -> str:
    """A text as SQL writes it."""
    return "NULL" if value is None else "'{}'".format(value.replace("'", "''"))


def quoted(name: str) -> str:
    """A name as SQL writes it."""
    return '"{}"'.format(name.replace('"', '""'))
