"""The reasons of a plan in words, for an engineer who has to approve it."""

import numpy as np

from kinband.arrays import BoolArray, IntArray
from kinband.controller.explain import configuration_text
from kinband.planning.considerations import breaks
from kinband.planning.coverage import SettingCoverage
from kinband.planning.plan import Change, LeftAlone, Support, decimals_of_ends
from kinband.policies.kpi_floors import KpiFloor
from kinband.stats import REACH, Estimate, counted, listed

NOT_IN_LOG = "The log has no rows of this station, so it is not known which others it resembles."

NEGLIGIBLE = 0.005
"""A share below this, half a per cent, is not worth a word."""


def share_text(share: float) -> str:
    """Return a share in whole per cent."""
    return f"{100 * share:.0f} %"


def _gain_text(gain: Estimate, decimals: int | None = None) -> str:
    spec, ends = _spec(decimals), _spec(None if decimals is None else decimals_of_ends(gain, decimals))
    return f"a gain of {gain.value:+{spec}} (95 % interval {gain.low:+{ends}} to {gain.high:+{ends}})"


def _spec(decimals: int | None, digits: int = 3) -> str:
    """How numbers are written: with so many decimals, or else so many digits."""
    return f".{digits}g" if decimals is None else f".{decimals}f"


def promise(change: Change | LeftAlone, decimals: int | None = None) -> str:
    """Return what a change is expected to bring; nothing where none was looked at."""
    if change.proposed is None or change.gain is None:
        return ""
    return f"{configuration_text(change.moves, -1)} is expected to bring {_gain_text(change.gain, decimals)}"


def gain_reason(change: Change, *, explore: bool, reward: str = "reward", decimals: int | None = None) -> str:
    """Return why a station should change."""
    spec, gain = _spec(decimals, 4), _gain_text(change.gain, decimals)
    expected = f"Expected {reward} {change.expected:{spec}} instead of {change.expected_unchanged:{spec}}"
    trial = "A trial, which may lose. " if explore and change.gain.low <= 0 else ""
    if change.around is None:
        return f"{trial}{expected}, {gain}."
    verb = "gain" if change.around.value >= 0 else "lose"
    there = f"its neighbours {verb} {abs(change.around.value):{_spec(decimals)}} by it"
    return f"{trial}{expected}, and {there}: together {gain}."


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


def evidence_reason(change: Change, decimals: int | None = None) -> str:
    """Return whose rows an estimate rests on, and how certain it would be without those of others."""
    own = f"its own {counted(change.own_rows, 'row')}"
    known, alone = (f"±{REACH * std:{_spec(decimals, 2)}}" for std in (change.std, change.std_alone))
    if change.borrowed < NEGLIGIBLE:
        return f"This is learned from {own}, and known to {known}."
    named = [f"{name} ({share_text(share)})" for name, share in change.lenders if share >= NEGLIGIBLE]
    most = f", most from {listed(named)}" if named else ""
    if not change.own_rows:
        return f"It has no rows of its own: all is learned from other stations{most}, and known to {known}."
    without = f", with {own} alone to {alone}" if alone != known else ""
    return f"{share_text(change.borrowed)} of this is learned from other stations{most}; known to {known}{without}."


def worst_reason(change: Change, decimals: int | None = None) -> str:
    """Return in which hour of the day a change gains least, where it may lose in one."""
    if (worst := change.worst_hour) is None or worst[1].low > 0:
        return ""
    hour, gain = worst
    verb, spec = "loses" if gain.high < 0 else "may lose", _spec(decimals)
    interval = f"95 % interval {gain.low:+{spec}} to {gain.high:+{spec}}"
    return f"At {hour:02d} h it {verb}: {gain.value:+{spec}} ({interval})."


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


def never_reason(tried: SettingCoverage, rows: BoolArray) -> str:
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
            "settings may be one of stations. Trials would tell."
        )
    return "No other choice lies within what was tried by any station that it can learn from."


def never_here_reason(tried: SettingCoverage, ran: IntArray) -> str:
    """Return what is said of a station that never tried anything, where nothing that others ran looks better."""
    known = (
        f"It never ran anything but {configuration_text(tried.space[int(ran[0])], -1)}" if len(ran) else "It never ran"
    )
    return f"{known}: whether another setting is better here is not known. A trial would tell."


def reworded(text: str, one: Change | LeftAlone, *, explore: bool, reward: str, decimals: int) -> str:
    """Return a reason with the reward's own name, and its gains with so many decimals."""
    pairs = [(promise(one), promise(one, decimals))]
    if isinstance(one, Change):
        said = gain_reason(one, explore=explore)
        pairs.append((said, gain_reason(one, explore=explore, reward=reward, decimals=decimals)))
        pairs.append((worst_reason(one), worst_reason(one, decimals)))
        pairs.append((evidence_reason(one), evidence_reason(one, decimals)))
    for before, after in pairs:
        text = text.replace(before, after) if before else text
    return text
