"""What the changes of a month brought, from a ledger."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from tests.support.dashboard_network import Network, network

from kinband.cli.app import main
from kinband.errors import BadInputError
from kinband.service.impact import impact_of, month_named

NAMES = [f"s{i:02}" for i in range(14)]


@pytest.fixture
def web(tmp_path: Path) -> Iterator[Network]:
    """A network in November in which nobody changes but those of whom it is reported."""
    with network(tmp_path, NAMES, mode="shadow") as made:
        yield made


def live_on(web: Network, losses: dict[str, tuple[int, float]], *, slots: int = 44, back: int = 99) -> None:
    """Let hours pass: stations are reported to run something else from a slot on, which costs so much, until one."""
    rng, ran = np.random.default_rng(7), dict[str, int]()
    for number in range(slots):
        web.clock.now += timedelta(hours=1)
        made = web.operations.ask({name: {"load": 0.5} for name in NAMES}, slot=web.clock.now.isoformat(), actor="nms")
        for one in made:
            ran.setdefault(one.station, int(one.arm or 0))
            if number == losses.get(one.station, (-1, 0))[0]:
                web.operations.applied(one.id, {"threshold_dbm": -98}, actor="nms")
            if number == back and one.station in losses:
                web.operations.applied(one.id, web.operations.setup.encoder.space[ran[one.station]], actor="nms")
        hour = 0.1 * np.sin(number / 4)
        rewards = {}
        for one in made:
            since, loss = losses.get(one.station, (back, 0.0))
            rewards[one.id] = 0.6 + hour + 0.01 * rng.normal() - (loss if since <= number < back else 0.0)
        web.operations.tell(rewards, actor="nms")


def test_the_changes_of_a_month_are_judged_by_stations_that_did_not_change(web: Network, tmp_path: Path) -> None:
    live_on(web, {"s03": (28, 0.1), "s05": (28, -0.05)})
    found = impact_of(web.operations, "2026-11")
    gains = {one.station: one.verdicts["reward"].gain for one in found.judged}
    assert set(gains) == {"s03", "s05"}
    assert gains["s03"].low < -0.1 < gains["s03"].high < 0
    assert 0 < gains["s05"].low < 0.05 < gains["s05"].high
    assert (found.period, found.per_day) == ("changes of 2026-11", 17)  # the median of 17, 24 and 3
    page = found.write(tmp_path)[0].read_text(encoding="utf-8")
    assert "changes of 2026-11" in page


def test_what_was_undone_is_said_to_be_and_is_no_change_of_its_own_kind(web: Network) -> None:
    live_on(web, {"s03": (28, 0.1)}, back=36)
    found = impact_of(web.operations, "2026-11")
    assert [one.change.rolled_back for one in found.judged if one.station == "s03"][:1] == [True]
    assert found.judged[0].after == 8


def test_a_month_without_a_change_and_one_without_rewards_are_refused(web: Network) -> None:
    with pytest.raises(BadInputError, match="no reward around this month is on record"):
        impact_of(web.operations, "2026-11")
    live_on(web, {}, slots=3)
    with pytest.raises(BadInputError, match="no change was made in 2026-11"):
        impact_of(web.operations, "2026-11")


@pytest.mark.parametrize("text", ["2026-13", "november", "", "2026-11-01"])
def test_a_month_has_a_year_and_a_number(text: str) -> None:
    with pytest.raises(BadInputError, match="a month is a year and a number such as 2026-11"):
        month_named(text)


def test_neighbours_by_the_rails_are_not_compared_with(web: Network) -> None:
    live_on(web, {"s03": (28, 0.1)})
    around = ", ".join(f'"{name}"' for name in NAMES if name not in ("s00", "s03"))
    web.operations.set_rails(f'neighbours: {{"s03": [{around}]}}', actor="ada")
    found = impact_of(web.operations, "2026-11")
    assert [one.why for one in found.unjudged] == ["no controls"]


def test_the_command_writes_one_file_and_says_what_came_of_the_month(
    web: Network, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    live_on(web, {"s03": (28, 0.1)})
    ledger, out = web.operations.ledger.name, tmp_path / "report"
    assert main(["ledger", "impact", ledger, "--month", "2026-11", "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert "The changes harmed: -0.1" in said
    assert (out / "impact.html").is_file()
    assert main(["ledger", "impact", ledger, "--month", "2026-10", "--out", str(out)]) == 2
    assert "no " in capsys.readouterr().err
