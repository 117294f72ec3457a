"""A service that is killed at random moments loses and doubles nothing, and decides as if it had never been killed.

`KINBAND_SOAK` says how often it is killed, 5 times if not given.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.ledger_stores import fresh_database, postgres_server
from tests.support.service_faults import kill_again_and_again

KILLS = int(os.environ.get("KINBAND_SOAK", "5"))


@pytest.fixture(scope="module")
def server() -> Iterator[Any]:
    with postgres_server() as found:
        yield found


def test_kill_9_while_clients_ask_and_tell_on_sqlite(tmp_path: Path) -> None:
    found = kill_again_and_again(str(tmp_path / "ledger.db"), tmp_path, kills=KILLS, seed=41)
    assert found.kills == KILLS
    assert found.broken > 0  # clients were in the midst of something


def test_kill_9_while_clients_ask_and_tell_on_postgresql(server: Any, tmp_path: Path) -> None:
    found = kill_again_and_again(fresh_database(server), tmp_path, kills=KILLS, seed=43)
    assert found.kills == KILLS
    assert found.broken > 0
