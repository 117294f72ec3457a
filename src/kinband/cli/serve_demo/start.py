"""How a demonstration begins: a controller that has learned from a log, rails, modes, and two days that have passed.

The rails are tight enough for every kind of verdict to come up within a few days. Most stations change by themselves,
some wait for a person, some only show what they would do. In the days before the curtain rises, "ada" is on shift: she
approves, rejects and says why, so that the audit log has something to tell.
"""

import warnings
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np

from kinband.cli.serve_demo.clock import SLOT, DemoClock
from kinband.cli.serve_demo.desks import DirectDesk
from kinband.cli.serve_demo.manager import Manager
from kinband.cli.serve_demo.network import DemoNetwork
from kinband.controller import Controller
from kinband.errors import BadInputError
from kinband.policies.safety import Conservative, SwitchingCost
from kinband.similarity import ProjectionWarning

if TYPE_CHECKING:
    from kinband.service.ledger import Ledger
    from kinband.service.operations import Mode, Operations

PASSED = 48
"""Slots that have passed when a demonstration opens."""

_BUDGET = 192  # inducing points: a round of 105 stations in a fifth of a second
_BETA = 0.3  # as in `kinband demo`
_SWITCH = 0.005  # what a change has to promise
_UNATTENDED = 10  # slots before a demonstration opens in which nobody looks at the plan
_ADA = "ada"
_YES = ("agreed", "agreed, the site was surveyed last week", "worth a try", "")
_NO = ("too close to the match", "wait for the new antenna", "not this week")


def demo_controller(network: DemoNetwork, *, seed: int) -> Controller:
    """Return a controller that has learned from the log of a network."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ProjectionWarning)
        return Controller.from_trace(
            network.log, network.space, engine="sparse", budget=_BUDGET, beta=_BETA,
            reward_range=(0.0, 1.0), safety=[Conservative(0.05, delta=0.05), SwitchingCost(_SWITCH)],
            running=network.today, descriptors=network.descriptors, seed=seed,
        )  # fmt: skip


def demo_rails(network: DemoNetwork) -> str:
    """Return the file of rails of a demonstration.

    Example:
        >>> "handover_threshold_dbm: {max: -86, step: 12}" in demo_rails(DemoNetwork(6))
        True
    """
    [knob] = network.space.knobs
    frozen, early = network.stations[4], ", ".join(f'"{name}"' for name in network.stations[:3])
    return f"""\
# The rails of a demonstration. docs/guard.md explains every key.
knobs:
  {knob}: {{max: -86, step: 12}}
stations:
  "{network.stations[1]}":
    {knob}: {{min: -104}}
changes: {{min_time: 3h, per_day: 6, per_round: {max(2, len(network.stations) // 6)}, round: 30min}}
forbidden:
  - {{from: "17:00", to: "19:00", why: commuters are on their way home}}
  - {{from: "07:00", to: "09:00", stations: [{early}], why: the centre wakes up}}
freeze:
  - {{station: "{frozen}", why: antenna swap}}
fallback: {{drop: 25%, slots: 3, before: 12, within: 1d, retry_after: 2d}}
"""


def mode_of(number: int) -> "Mode":
    """Return the mode of a station by its number: most are autonomous.

    Example:
        >>> [mode_of(number) for number in (0, 3, 5)]
        ['autonomous', 'assist', 'shadow']
    """
    if number % 4 == 3:
        return "assist"
    return "shadow" if number % 11 == 5 else "autonomous"


def demo_clock(ledger: "Ledger", *, seconds: float) -> DemoClock:
    """Return the clock of a demonstration: a new one opens now, one that is kept goes on where it was."""
    now = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    last = next(iter(ledger.read(kinds=["decision"], newest_first=True, limit=1)), None)
    if last is None:
        return DemoClock(now - PASSED * SLOT, seconds=seconds)
    then = datetime.fromisoformat(last.at).replace(minute=0, second=0, microsecond=0)
    return DemoClock(then + SLOT, seconds=seconds)


def check_stage(operations: "Operations", network: DemoNetwork) -> None:
    """Refuse a ledger that is of no demonstration, or of one with other stations."""
    with operations.looking() as picture:
        known = [card.station for card in picture.cards.values()]
    if not set(network.stations) <= set(known):
        raise BadInputError(
            f"the ledger {operations.ledger.name} is not of a demonstration with {len(network.stations)} stations: "
            "give --stations as then, or another --ledger"
        )


def set_the_stage(operations: "Operations", network: DemoNetwork) -> None:
    """Set the modes, and freeze a station, as people do."""
    assist = [name for number, name in enumerate(network.stations) if mode_of(number) == "assist"]
    shadow = [name for number, name in enumerate(network.stations) if mode_of(number) == "shadow"]
    operations.set_mode("assist", assist, comment="on trial: a person looks first", actor=_ADA)
    operations.set_mode("shadow", shadow, comment="watched for a week before the trial", actor=_ADA)
    operations.freeze(network.stations[-1], why="measurements with a test car", actor=_ADA)


def play_the_past(
    operations: "Operations", network: DemoNetwork, clock: DemoClock, *, seed: int, tick: Callable[[], None]
) -> Manager:
    """Play the slots that have passed when a demonstration opens; `tick` is called after each.

    Returns the manager, who goes on. The shift ends some hours before, so that there is a plan to be looked at.
    """
    rng = np.random.default_rng([seed, 13])
    manager = Manager(network, DirectDesk(operations), clock, patience=_UNATTENDED, seed=seed)
    for slot in range(PASSED):
        manager.open_slot()
        if slot < PASSED - _UNATTENDED:
            _shift(operations, rng)
        manager.close_slot()
        tick()
    return manager


def _shift(operations: "Operations", rng: np.random.Generator) -> None:
    """Let ada look at the plan: she approves most of it, rejects some, and leaves some."""
    with operations.looking() as picture:
        waiting = [item.id for item in picture.waiting()]
    for decision in waiting:
        chance = rng.random()
        if chance < 0.35:
            operations.approve([decision], comment=str(rng.choice(_YES)), actor=_ADA)
        elif chance < 0.45:
            operations.reject([decision], comment=str(rng.choice(_NO)), actor=_ADA)
