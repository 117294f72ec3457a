"""The guard of a service takes back what loses against stations that did not change, also after a restart."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from tests.support.dashboard_network import Network, network

from kinband.service.operations import Operations
from kinband.service.operations.preview import previewed
from kinband.service.operations.records import DecisionRecord

NAMES = [f"s{i:02}" for i in range(14)]
BY_CONTROLS = "fallback: {by: controls, within: 2d}\n"
CHANGED = 30


@pytest.fixture
def web(tmp_path: Path) -> Iterator[Network]:
    """An autonomous network."""
    with network(tmp_path, NAMES, mode="autonomous") as made:
        yield made


def live_on(web: Network, slots: range, *, loss: float, dip: float = 0.0) -> list[DecisionRecord]:
    """Let hours pass in which s03 alone may change, from one on; return its decisions."""
    rng, own = np.random.default_rng(slots.start), []
    space = web.operations.setup.encoder.space
    for number in slots:
        web.clock.now += timedelta(hours=1)
        knob = next(iter(space.knobs))
        values = space.knob(knob)[1].values
        allowed = {name: {knob: [values[0]]} for name in NAMES}
        allowed["s03"] = {knob: [values[0 if number < CHANGED else 1]]}
        made = web.operations.ask(
            {name: {"load": 0.5} for name in NAMES}, slot=web.clock.now.isoformat(), allowed=allowed, actor="nms"
        )
        hour = 0.6 + 0.1 * np.sin(number / 4) - (dip if number >= CHANGED else 0.0)
        lost = {one.id: loss * (one.station == "s03" and one.arm == 1) for one in made}
        web.operations.tell({one.id: hour + 0.01 * rng.normal() - lost[one.id] for one in made}, actor="nms")
        own += [one for one in made if one.station == "s03"]
    return own


def test_a_dip_of_all_takes_nothing_back_and_a_loss_does_in_words_with_figures(web: Network) -> None:
    web.operations.set_rails(BY_CONTROLS, actor="ada")
    own = live_on(web, range(40), loss=0.0, dip=0.3)
    assert {one.status for one in own[CHANGED + 1 :]} == {"kept"}
    assert previewed(web.operations, BY_CONTROLS).counts.total() == 0
    tried = previewed(web.operations, "fallback: {drop: 0.1, slots: 2}\n")
    assert tried.counts["another"] + tried.counts["let through"] > 0  # by its own slots it would be rolled back


def test_a_restart_in_between_gives_the_same_verdicts(web: Network) -> None:
    web.operations.set_rails(BY_CONTROLS, actor="ada")
    live_on(web, range(CHANGED + 1), loss=0.1)
    again = Network(Operations.open(web.operations.ledger, clock=web.clock), web.clock)
    own = live_on(again, range(CHANGED + 1, CHANGED + 8), loss=0.1)
    back = [one for one in own if one.status == "rolled back"]
    assert len(back) == 1
    assert back[0].verdict is not None
    assert "its own reward lost 0.1" in back[0].verdict.reason
    assert "against 13 stations that did not change, over" in back[0].verdict.reason
