"""Tenants of one database: none reaches what another one has, and each records what it may."""

import psycopg
import pytest

from support.collecting import tool
from support.cutting import Relay
from support.pooling import TransactionPooler
from support.servers import postgres, store_url, tenant
from support.waiting import eventually
from tracklog.home.home import Home
from tracklog.journal.postgres.connections import Address, Database
from tracklog.journal.postgres.tenants import make_owner, quota_of, set_quota
from tracklog.journal.storages.postgresql import PostgresStorage
from tracklog.model.errors import BadFormat, OverQuota, StoreBroken, TracklogError
from tracklog.testing import frames_of
from tracklog.web.trouble import trouble_of


@pytest.fixture
def opened(tmp_path, monkeypatch):
    """Opens the storage at a URL, and closes it behind the test."""
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    storages: list[PostgresStorage] = []

    def open_storage(url: str) -> PostgresStorage:
        storages.append(PostgresStorage(url.removeprefix("postgresql:"), folders=tmp_path))
        return storages[-1]

    yield open_storage
    for each in storages:
        each.close()


def address_of(url: str) -> Address:
    return Address(url.removeprefix("postgresql:"))


def test_a_tenant_with_a_role_of_its_own_reaches_no_other(tmp_path, opened):
    urls = [store_url(tmp_path / name) for name in ("a", "b")]
    addresses = [address_of(url) for url in urls]
    for address in addresses:
        make_owner(address)
        make_owner(address)  # it is there
    one, other = (opened(url) for url in urls)
    make_owner(addresses[0])  # with its tables, too
    assert one.database.ask("SELECT current_user::text")[0][0] == addresses[0].owner
    other.store.append(frames_of([b"{}"]))
    with pytest.raises(StoreBroken, match="permission denied"):
        one.database.ask(f"SELECT last FROM {addresses[1].schema}.head")
    # A login that has this role only records, asks and verifies as usual.
    name, word = f"login_{tenant(tmp_path)}", "a-password-of-a-test"
    with psycopg.connect(postgres().url, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {name} LOGIN PASSWORD '{word}'")
        connection.execute(f"GRANT {addresses[0].owner}, {addresses[0].asker} TO {name}")
    mine, theirs = (
        f"postgresql://{name}:{word}@127.0.0.1:{postgres().port}/postgres?tenant={each.tenant}"
        for each in addresses
    )
    with Home(mine) as home:
        home.intake.admit([tool("r")], "kahn-agent")
        home.index.catch_up()
        assert [row[0] for row in home.index.query("SELECT seq FROM runs").rows] == [1]
        assert home.storage.verify().verdict == "proven"
    with pytest.raises(TracklogError, match="permission denied"):
        opened(theirs)
    assert other.store.last == 1


def test_tables_that_belong_to_somebody_else_do_not_get_a_role(tmp_path, opened):
    url = store_url(tmp_path)
    opened(url)
    with pytest.raises(BadFormat, match="another role"):
        make_owner(address_of(url))


def test_a_tenant_records_what_it_may_over_all_collectors(tmp_path, opened):
    url = store_url(tmp_path)
    stores = [opened(url).store for _ in range(2)]
    database, schema = opened(url).database, address_of(url).schema
    assert quota_of(database, schema) is None
    stores[0].append(frames_of([b"{}"] * 50))
    set_quota(database, schema, 1, 0)
    stores[0].append(frames_of([b"{}"] * 500))  # larger than what may come at once: it passes
    for store in stores:
        with pytest.raises(OverQuota) as error:
            store.append(frames_of([b"{}"]))
        trouble = trouble_of(error.value)
        assert trouble.status == 429
        assert 400 < int(trouble.headers["Retry-After"]) <= 500
    set_quota(database, schema, 0, 1)
    with pytest.raises(OverQuota, match="per day"):
        stores[1].append(frames_of([b"{}"]))
    used = quota_of(database, schema).used_today
    assert used > 0  # those that came since there is a limit
    set_quota(database, schema, 0, used + 1)
    stores[1].append(frames_of([b"{}"]))
    with pytest.raises(OverQuota):
        stores[0].append(frames_of([b"{}"]))
    with psycopg.connect(postgres().url, autocommit=True) as connection:
        connection.execute(f"UPDATE {schema}.quota SET day = day - 1")
    stores[0].append(frames_of([b"{}"]))  # a new day
    set_quota(database, schema, 0, 0)
    stores[1].append(frames_of([b"{}"] * 1000))
    assert (stores[0].last, stores[1].read(1551, 5) != []) == (1552, True)


def test_one_connection_serves_two_tenants_each_with_its_own_role(tmp_path):
    addresses = [address_of(store_url(tmp_path / name)) for name in ("a", "b")]
    plain = address_of(store_url(tmp_path / "plain"))  # it has no role of its own
    for address in addresses:
        make_owner(address)
    databases = [Database(each, writing=True) for each in (*addresses, plain)]
    ask = "SELECT current_user::text, pg_backend_pid(), session_user::text"
    rows = [database.ask(ask)[0] for _ in range(2) for database in databases]
    users = [row[0] for row in rows]
    assert users == [addresses[0].owner, addresses[1].owner, rows[0][2]] * 2
    assert len({row[1] for row in rows}) == 1  # the same connection
    with databases[0].connection() as one, databases[1].connection() as other:
        both = [each.execute(ask).fetchone()[:2] for each in (one, other)]
    assert [user for user, _ in both] == [addresses[0].owner, addresses[1].owner]
    assert both[0][1] != both[1][1]  # two at once need two
    databases[0].close()
    databases[0].close()
    assert databases[1].ask("SELECT 1") == [(1,)]
    for database in databases[1:]:
        database.close()
    with psycopg.connect(postgres().url) as connection:
        ended = "SELECT count(*) FROM pg_stat_activity WHERE pid = ANY(%s)"
        pids = [pid for _, pid, *_ in (*rows, *both)]
        assert eventually(lambda: connection.execute(ended, (pids,)).fetchone() == (0,))


def test_a_connection_that_is_lost_is_tried_again_however_long_it_took(tmp_path):
    """One that is slow may take as long as the patience: it is tried once more all the same."""
    relay = Relay(postgres().port)
    try:
        url = store_url(tmp_path).replace(f":{postgres().port}/", f":{relay.port}/")
        database = Database(address_of(url), writing=True)
        relay.cut_at = b"SELECT 'tried'"
        assert database.ask("SELECT 'tried'::text", patience=1e-9) == [("tried",)]
        assert relay.cuts == 1
        relay.cut_at = b"SELECT 'once'"
        with pytest.raises(StoreBroken):
            database.ask("SELECT 'once'::text", patience=0)
        database.close()
    finally:
        relay.close()


def test_a_pooler_that_mixes_the_sessions_of_its_clients_is_refused(tmp_path):
    """Behind it a tenant would get the role of another one, and a lock would be anybody's."""
    pooler = TransactionPooler(postgres().port)
    try:
        url = store_url(tmp_path).replace(f":{postgres().port}/", f":{pooler.port}/")
        with pytest.raises(BadFormat, match="gives each transaction another connection") as raised:
            PostgresStorage(url.removeprefix("postgresql:"), folders=tmp_path)
        assert "session pooling" in str(raised.value.hint)
        assert postgres().password not in str(raised.value)
        with psycopg.connect(postgres().url) as connection:  # nothing was made
            made = "SELECT to_regnamespace(%s)"
            assert connection.execute(made, (address_of(url).schema,)).fetchone() == (None,)
    finally:
        pooler.close()
