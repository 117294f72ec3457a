"""A short form of `make soak`: of two services at one ledger one is paused at its work, and all promises hold.

Kills, outages and full disks have shorter forms of their own (`test_service_kill.py`, `test_service_outage.py`), wrong
clocks in `tests/property/test_clock.py`.
"""

from pathlib import Path

import pytest
from benchmarks.soak.session import Session, run


@pytest.mark.parametrize("confirmed", [False, True])
def test_a_service_that_is_paused_breaks_no_promise_when_it_goes_on(tmp_path: Path, confirmed: bool) -> None:
    found = run(Session("pause", "sqlite", 0, 2, confirmed=confirmed), keep=tmp_path)
    assert found.anomalies == []
    assert found.counts.get("ordered", 0) >= 3 * confirmed
    assert found.counts["pause"] == 2
    assert found.acknowledged > 20
    assert found.replayed > 0
