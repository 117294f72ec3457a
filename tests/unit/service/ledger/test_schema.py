"""A schema that has a name stays as it is: databases out there have it, and nothing changes them when kinband is."""

from sqlalchemy import make_url
from sqlalchemy.schema import CreateIndex, CreateTable

from kinband.service.ledger.schema import SCHEMA, metadata

V0005 = """
CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL, PRIMARY KEY (version_num))
CREATE TABLE events (seq BIGINT NOT NULL, kind VARCHAR(32) NOT NULL, at VARCHAR(32) NOT NULL, actor TEXT NOT NULL,
 station TEXT NOT NULL, decision TEXT, round BIGINT, slot TEXT, key TEXT, payload TEXT NOT NULL,
 checksum VARCHAR(64) NOT NULL, PRIMARY KEY (seq))
CREATE INDEX events_actor ON events (actor, seq)
CREATE INDEX events_decision ON events (decision, kind)
CREATE UNIQUE INDEX events_key ON events (kind, key)
CREATE INDEX events_kind ON events (kind, seq)
CREATE INDEX events_round ON events (round)
CREATE UNIQUE INDEX events_slot ON events (station, slot) WHERE kind = 'decision'
CREATE INDEX events_station ON events (station, seq)
CREATE INDEX events_station_kind ON events (station, kind, seq)
CREATE TABLE meta (name VARCHAR(64) NOT NULL, text TEXT NOT NULL, data BYTEA NOT NULL, checksum VARCHAR(64) NOT NULL,
 PRIMARY KEY (name))
CREATE TABLE seals (seq BIGINT NOT NULL, mac VARCHAR(64) NOT NULL, PRIMARY KEY (seq))
CREATE TABLE secrets (name VARCHAR(64) NOT NULL, value TEXT NOT NULL, PRIMARY KEY (name))
CREATE TABLE segments (first BIGINT NOT NULL, last BIGINT NOT NULL, before VARCHAR(64) NOT NULL,
 checksum VARCHAR(64) NOT NULL, digest VARCHAR(64) NOT NULL, PRIMARY KEY (first))
CREATE TABLE snapshots (seq BIGINT NOT NULL, at VARCHAR(32) NOT NULL, kinband VARCHAR(64) NOT NULL,
 size BIGINT NOT NULL, chained VARCHAR(64) NOT NULL, checksum VARCHAR(64) NOT NULL, PRIMARY KEY (seq))
CREATE TABLE tokens (id VARCHAR(8) NOT NULL, name TEXT NOT NULL, role VARCHAR(16) NOT NULL,
 hash VARCHAR(64) NOT NULL, created VARCHAR(32) NOT NULL, expires VARCHAR(32), revoked VARCHAR(32), by TEXT NOT NULL,
 last_used VARCHAR(32), PRIMARY KEY (id))
CREATE INDEX tokens_name ON tokens (name)
CREATE TABLE snapshot_parts (seq BIGINT NOT NULL, part INTEGER NOT NULL, data BYTEA NOT NULL,
 PRIMARY KEY (seq, part), FOREIGN KEY(seq) REFERENCES snapshots (seq) ON DELETE CASCADE)
"""


def test_a_table_that_changes_needs_another_schema() -> None:
    dialect, found = make_url("postgresql+psycopg://").get_dialect()(), list[object]()
    for table in metadata.sorted_tables:
        found.append(CreateTable(table).compile(dialect=dialect))
        indexes = sorted(table.indexes, key=lambda index: str(index.name))
        found += [CreateIndex(index).compile(dialect=dialect) for index in indexes]
    written = [" ".join(str(statement).split()).replace("( ", "(").replace(" )", ")") for statement in found]
    assert written == V0005.strip().replace("\n ", " ").splitlines()
    assert SCHEMA == "v0005"
