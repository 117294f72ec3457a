"""`kinband serve --demo`: within seconds there are decisions, a plan, refusals, and what is approved is what runs."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest
from tests.support.ledger_stores import OnRecord
from tests.support.serving import served

from kinband.cli import main
from kinband.service.client import KinbandClient
from kinband.service.schemas import Decision

Found = TypeVar("Found")

SMALL = ("--demo", "--stations", "8", "--speed", "120")


def eventually(look: Callable[[], Found | None], *, seconds: float = 90.0) -> Found:
    until = time.monotonic() + seconds
    while (found := look()) is None:
        assert time.monotonic() < until, "it did not happen in time"
        time.sleep(0.2)
    return found


def plan_of(client: KinbandClient) -> Decision | None:
    return next(iter(client.plan()), None)


def test_a_demonstration_shows_everything_and_runs_what_a_person_approves(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.db"
    with served(*SMALL, "--ledger", str(ledger)) as service:
        operator, admin = (service.read_until(rf"{role}\s+(kb_\S+)") for role in ("operator", "admin"))
        with service.client(operator) as client:
            stations = client.stations()
            assert {one.mode for one in stations} == {"autonomous", "assist", "shadow"}
            assert all(one.site is not None and one.site.azimuth is not None for one in stations)
            statuses = {made.status for made in client.decisions(page=500)}
            assert {"applied", "kept", "refused", "shadow"} <= statuses
            kinds = {event.kind for event in client.events(page=1000)}
            assert {"decision", "verdict", "approval", "applied", "outcome", "correction", "mode", "switch"} <= kinds
            first = next(client.decisions()).id
            assert eventually(lambda: next(client.decisions()).id != first or None)

            # Whether one of a few stations on trial wants a change is luck of the hour; that none of all does is not.
            with service.client(admin) as chief:
                chief.set_mode("assist", comment="a person looks first")
                rails = chief.set_rails(chief.rails().text + "# looked at by a person\n").rails
            waiting = eventually(lambda: plan_of(client))
            [approved] = client.approve([waiting.id], comment="go on")
            runs = {
                "applied": [waiting.proposed],
                "refused": [waiting.before],
                "approved": [waiting.before, waiting.proposed],
            }
            ended = eventually(lambda: None if (now := client.decision(waiting.id)).open else now)
            assert ended.run in runs[approved.status]  # a full round or its window may keep it for a while
            assert ended.reward is not None or ended.called_off
        code, errors = service.end()
    assert code == 0, errors
    assert "Traceback" not in errors

    with served(*SMALL, "--ledger", str(ledger)) as service:  # kept: it goes on, with new tokens
        with service.client(service.read_until(r"admin\s+(kb_\S+)")) as client:
            assert client.decision(waiting.id).run == ended.run
            assert client.rails() == rails  # those of a person, not the demonstration's own
            newest = next(client.decisions()).id
            assert eventually(lambda: next(client.decisions()).id != newest or None)
        assert service.end()[0] == 0


def test_a_ledger_of_another_network_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from kinband import ConfigurationSpace, Controller
    from kinband.service.ledger import Ledger

    ledger = Ledger.open(tmp_path / "ledger.db")
    OnRecord(ledger, Controller(ConfigurationSpace(tilt=[2, 4]), ["a", "b"], seed=2))
    ledger.close()
    assert main(["serve", *SMALL, "--port", "0", "--ledger", str(tmp_path / "ledger.db")]) == 2
    assert "is not of a demonstration with 8 stations" in capsys.readouterr().err
