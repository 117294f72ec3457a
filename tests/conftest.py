"""What tests of many folders share: one PostgreSQL server, and a ledger's address on either store."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def server() -> Iterator[Any]:
    """A PostgreSQL server for all tests that leave it running; those that stop it start one of their own."""
    from tests.support.ledger_stores import postgres_server

    with postgres_server() as found:
        yield found


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a ledger is kept, on both stores in turn."""
    if request.param == "sqlite":
        return str(tmp_path / "ledger.db")
    from tests.support.ledger_stores import fresh_database

    return fresh_database(request.getfixturevalue("server"))
