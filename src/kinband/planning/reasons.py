"""The reasons of a plan in words, for an engineer who has to approve it."""

import numpy as np

from kinband.arrays import BoolArray, IntArray
from kinband.controller.explain import configuration_text, listed
from kinband.planning.beside import breaks
from kinband.planning.plan import Change, Support
from kinband.planning.seen import Tried
from kinband.policies.kpi_floors import KpiFloor
from kinband.stats import Estimate, counted

NOT_IN_LOG = "The log has no rows of this station, so it is not known which others it resembles."

NEGLIGIBLE = 0.005
"""A share below this, half a per cent, is not worth a word."""


def share_text(share: float) -> str:
    """Return a share in whole per cent."""
    return f"{100 * share:.0f} %"


def _gain_text(gain: Estimate) -> str:
    return f"a gain of {gain.value:+.3g} (95 % interval {gain.low:+.3g} to {gain.high:+.3g})"


def promise(change: Change) -> str:
    """Return what a change is expected to bring."""
    return f"{configuration_text(change.moves, -1)} is expected to bring {_gain_text(change.gain)}"


def gain_reason(change: Change, *, explore: bool) -> str:
    """Return why a station should change."""
    instead = f"{change.expected:.4g} instead of {change.expected_unchanged:.4g}"
    trial = "A trial, which may lose. " if explore and change.gain.low <= 0 else ""
    if change.around is None:
        return f"{trial}Expected reward {instead}, {_gain_text(change.gain)}."
    there = f"its neighbours {'gain' if change.around.value >= 0 else 'lose'} {abs(change.around.value):.3g} by it"
    return f"{trial}Expected reward {instead}, and {there}: together {_gain_text(change.gain)}."


def _kpi_text(name: str, expected: Estimate) -> str:
    interval = f"95 % interval {expected.low:.4g} to {expected.high:.4g}"
    return f"{name} is then expected to be {expected.value:.4g} ({interval})"


def floor_reason(floor: KpiFloor, expected: Estimate) -> str:
    """Return what is expected of a KPI under a change that keeps its floor, or makes it no worse."""
    but = "no worse than today, but not yet " if breaks(floor, expected.value) else ""
    return f"{_kpi_text(floor.name, expected)}, {but}{floor.text()}."


def broken_reason(floor: KpiFloor, expected: Estimate, today: float) -> str:
    """Return why a floor keeps a station from changing."""
    said = f"{_kpi_text(floor.name, expected)}, and must be {floor.text()}"
    return f"{said}; today it is {today:.4g}, and might become worse" if breaks(floor, today) else said


def evidence_reason(change: Change) -> str:
    """Return whose experience an estimate rests on, and what it would be worth without the others."""
    own = f"its own {counted(change.own_rows, 'row')}"
    if change.borrowed < NEGLIGIBLE:
        return f"The evidence is {own} (standard deviation {change.std:.2g})."
    named = [f"{name} ({share_text(share)})" for name, share in change.lenders if share >= NEGLIGIBLE]
    most = f", most from {listed(named)}" if named else ""
    if not change.own_rows:
        return f"It has no rows of its own: all evidence is borrowed{most} (standard deviation {change.std:.2g})."
    return (
        f"{share_text(change.borrowed)} of the evidence is borrowed{most}; from {own} alone the standard deviation "
        f"would be {change.std_alone:.2g}, not {change.std:.2g}."
    )


def worst_reason(change: Change) -> str:
    """Return in which hour of the day a change gains least, where it may lose in one."""
    if (worst := change.worst_hour) is None or worst[1].low > 0:
        return ""
    hour, gain = worst
    verb = "loses" if gain.high < 0 else "may lose"
    return f"At {hour:02d} h it {verb}: {gain.value:+.3g} (95 % interval {gain.low:+.3g} to {gain.high:+.3g})."


def tried_reason(change: Change, support: Support, *, between: bool) -> str:
    """Return whose trials a change rests on, where its station never ran what is proposed; else nothing.

    `between` says whether it ran settings on both sides of it.
    """
    if support.own:
        return ""
    similar = support.stations
    never = f"{change.station} never ran {configuration_text(change.proposed, -1)}"
    others = counted(similar, "similar station") if similar else "no similar station"
    if between:
        return f"{never}, but settings on both sides of it; {others} did."
    if similar:
        return f"{never}; this rests on {others} that did."
    return f"{never}, and {others} did: this is a guess from other settings."


def never_reason(tried: Tried, rows: BoolArray) -> str:
    """Return why a station has nothing to change to, where these rows (n,) are all that it can learn from."""
    ran = np.unique(tried.arms[rows])
    if len(ran) == 1:
        return (
            "The log holds no trials: of all that this station can learn from, every row ran "
            f"{configuration_text(tried.space[int(ran[0])], -1)}, so nothing can be learned about other settings."
        )
    if not tried.compared(rows):
        return (
            "Never tried here, and no station that it can learn from ran two settings: what looks like a difference of "
            "settings may be one of stations. `kinband design` plans trials."
        )
    return "No other choice lies within what was tried by any station that it can learn from."


def never_here_reason(tried: Tried, ran: IntArray) -> str:
    """Return what is said of a station that never tried anything, where nothing that others ran looks better."""
    known = (
        f"It never ran anything but {configuration_text(tried.space[int(ran[0])], -1)}" if len(ran) else "It never ran"
    )
    return f"{known}: whether another setting is better here is not known. `kinband design` plans trials."
