"""An audit in sentences: first how far to trust predictions, then what sharing did, then every station to look at."""

from collections.abc import Sequence
from math import exp, sqrt

from kinband.counting import counted
from kinband.trust.calibration import ABOVE, BELOW, FITS, NARROW, RATE, WIDE, Calibrated, Calibration
from kinband.trust.statistics import Interval
from kinband.trust.transfer import EVEN, HELPS, HURTS, Transfer, Transferred

_NAMED = 5  # stations named in a sentence


def calibration_words(found: Calibration) -> list[str]:
    """Return what is to be said of intervals."""
    all_ = found.overall
    inside = _percent(all_.coverage[0.8])
    rewards = counted(all_.rewards, "reward")
    lines = [f"{inside[0]} of {rewards} lay inside the interval that should hold 80 % (95 %: {inside[1]})."]
    lines.append(_whole(all_))
    lines += _flag_lines(found)
    return lines


def transfer_words(found: Transfer) -> list[str]:
    """Return what is to be said of sharing, a sentence for every station that it seems to hurt."""
    all_ = found.overall
    lines = [_earned(all_)] if all_.rewards else []
    if all_.borrowed is not None:
        worth = f"{all_.worth:.1f}" if all_.worth is not None else "0"
        lines.append(
            f"In its latest decisions a station borrowed {100 * all_.borrowed:.0f} % of its evidence on average, worth "
            f"{worth} rewards of its own in the same state."
        )
    helped = found.flagged(HELPS)
    if helped:
        lines.append(
            f"Sharing helped {_count(helped, found.stations)} to foretell: {_named([s.name for s in helped])}."
        )
    lines += [hurt_text(station) for station in found.flagged(HURTS)]
    if all_.rewards and not found.flagged(HURTS):
        lines.append("There is no station that sharing seems to hurt.")
    return [*lines, *(f"{note[0].upper()}{note[1:]}." for note in found.notes)]


def hurt_text(station: Transferred) -> str:
    """Return the sentence on a station that sharing seems to hurt.

    Example:
        >>> print(hurt_text(Transferred("3714", 40, Interval(-0.11, -0.18, -0.04), -4.4, lenders={"12": 0.4})))
        Sharing seems to hurt 3714: its 40 rewards were less likely by a factor of 0.90 each than by its own rows alone
        (-0.11 nats, 95 % -0.18 to -0.04); it borrows most from 12 (40 %). Look at whether they are alike.
    """
    gain, lenders = station.gain, list((station.lenders or {}).items())[:3]
    most = ", ".join(f"{name} ({100 * share:.0f} %)" for name, share in lenders)
    borrows = f"; it borrows most from {most}. Look at whether they are alike" if most else ""
    digits, rewards = gain.decimals(2), counted(station.rewards, "reward was", "rewards were")
    span = "" if gain.low is None else f", 95 % {gain.low:+.{digits}f} to {gain.high:+.{digits}f}"
    return (
        f"Sharing seems to hurt {station.name}: its {rewards} less likely by a factor of "
        f"{exp(gain.value):.2f} each than by its own rows alone ({gain.value:+.{digits}f} nats{span}){borrows}."
    )


def _whole(all_: Calibrated) -> str:
    spread = all_.spread
    factor = sqrt(spread.value)
    span = "" if spread.low is None else f" (95 %: {spread.low:.2f} to {spread.high:.2f})"
    said = f"The mean of z², 1 if widths and noise are right, is {spread.value:.2f}{span}"
    match all_.verdict:
        case "too narrow":
            text = f"{said}: on the whole, intervals are too narrow, by a factor of {factor:.2f}."
        case "too wide":
            wider = f"by a factor of {1 / factor:.2f}" if factor > 0.01 else "by far"
            text = f"{said}: on the whole, intervals are wider than they need be, {wider}."
        case _:
            text = f"{said}: {_unflagged(all_)}."
    if all_.drift:
        text += f" Rewards run {all_.drift}, by {abs(all_.bias.value):.2f} standard deviations on average."
    return text


def _unflagged(all_: Calibrated) -> str:
    """Return what is to be said of widths that are neither too narrow nor too wide by share inside and mean of z²."""
    inside, spread = all_.coverage[0.8].side(0.8), all_.spread.side(1.0)
    return {
        (0, 0): "on the whole, nothing speaks against the widths",
        (0, 1): "as many rewards lay inside as promised, yet a few lie far outside",
        (0, -1): "as many rewards lay inside as promised, and the others lie nearer than expected",
        (1, 0): "more rewards lay inside than promised, which the mean of z² does not bear out, as a few lie far "
        "outside or there are too few rounds",
        (1, 1): "more rewards lay inside than promised, yet a few lie far outside",
        (-1, 0): "fewer rewards lay inside than promised, which the mean of z² does not bear out, as none lies far "
        "outside or there are too few rounds",
        (-1, -1): "fewer rewards lay inside than promised, yet none lies far outside",
    }[inside, spread]


def _flag_lines(found: Calibration) -> list[str]:
    """Return a sentence for every kind of flag that some station carries."""
    what = {
        NARROW: ("promises too much: its intervals are", "promise too much: their intervals are", " too narrow"),
        WIDE: ("promises too little: its intervals are", "promise too little: their intervals are", " too wide"),
        ABOVE: ("earns", "earn", " more than predicted"),
        BELOW: ("earns", "earn", " less than predicted"),
    }
    lines = []
    for verdict, (one, several, text) in what.items():
        flagged = found.flagged(verdict)
        if flagged:
            names, verb = _named([s.name for s in flagged]), one if len(flagged) == 1 else several
            lines.append(f"{_count(flagged, found.stations)} {verb}{text}: {names}.")
    if not any(s.verdict != FITS or s.drift for s in found.stations):
        lines.append(f"No single station stands out, at a false discovery rate of {100 * RATE:.0f} %.")
    return lines


def _earned(all_: Transferred) -> str:
    gain = all_.gain
    digits = Interval(gain.value, None, None).decimals(3)
    span = "" if gain.low is None else f" (95 % over stations: {gain.low:+.{digits}f} to {gain.high:+.{digits}f})"
    text = {
        HELPS: "sharing helps to foretell rewards",
        HURTS: "sharing makes predictions worse",
        EVEN: "sharing makes no clear difference to predictions",
    }[all_.verdict]
    return (
        f"Over all stations {text}: {gain.value:+.{digits}f} nats a reward{span}, {all_.total:+.0f} in all, against "
        "the same model on each station's own rows."
    )


def _percent(share: Interval) -> tuple[str, str]:
    low, high = share.low or 0.0, 1.0 if share.high is None else share.high
    return f"{100 * share.value:.1f} %", f"{100 * low:.1f} to {100 * high:.1f} %"


def _count(some: Sequence[object], every: Sequence[object]) -> str:
    return f"{len(some):,} of {counted(len(every), 'station')}"


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
