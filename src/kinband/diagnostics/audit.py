"""An audit of a controller, in numbers and in words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from math import exp, sqrt
from typing import Any

import numpy as np

from kinband.arrays import FloatArray, IntArray
from kinband.diagnostics.calibration import (
    ABOVE,
    BELOW,
    FITS,
    NARROW,
    RATE,
    WIDE,
    Calibrated,
    Calibration,
    Predictions,
    Recorded,
    calibration_of,
    check_told,
    predictions_of,
    setup_of,
)
from kinband.diagnostics.transfer import (
    EVEN,
    HELPS,
    HURTS,
    MOST_ROWS,
    RECENT,
    Earned,
    EvidenceShares,
    Transfer,
    Transferred,
    earned_of,
    transfer_of,
)
from kinband.errors import BadInputError
from kinband.similarity import TaskMatrix
from kinband.similarity.matrix import sharing_text
from kinband.stats import Estimate, counted

# --- An audit in sentences: first how far to trust predictions, then what sharing did, then every station to look at

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
        lines.append(f"Sharing helped {_count(helped, found.stations)} to predict: {_named([s.name for s in helped])}.")
    lines += [hurt_text(station) for station in found.flagged(HURTS)]
    if all_.rewards and not found.flagged(HURTS):
        lines.append("There is no station that sharing seems to hurt.")
    return [*lines, *(f"{note[0].upper()}{note[1:]}." for note in found.notes)]


def hurt_text(station: Transferred) -> str:
    """Return the sentence on a station that sharing seems to hurt.

    Example:
        >>> print(hurt_text(Transferred("3714", 40, Estimate(-0.11, -0.18, -0.04), -4.4, lenders={"12": 0.4})))
        Sharing seems to hurt 3714: its 40 rewards were less likely by a factor of 0.90 each than by its own rows alone
        (-0.11 nats, 95 % -0.18 to -0.04); it borrows most from 12 (40 %). Look at whether they are alike.
    """
    gain, lenders = station.gain, list((station.lenders or {}).items())[:3]
    most = ", ".join(f"{name} ({100 * share:.0f} %)" for name, share in lenders)
    borrows = f"; it borrows most from {most}. Look at whether they are alike" if most else ""
    digits, rewards = gain.decimals(2), counted(station.rewards, "reward was", "rewards were")
    span = "" if not gain.known else f", 95 % {gain.low:+.{digits}f} to {gain.high:+.{digits}f}"
    return (
        f"Sharing seems to hurt {station.name}: its {rewards} less likely by a factor of "
        f"{exp(gain.value):.2f} each than by its own rows alone ({gain.value:+.{digits}f} nats{span}){borrows}."
    )


def _whole(all_: Calibrated) -> str:
    spread = all_.spread
    factor = sqrt(spread.value)
    span = "" if not spread.known else f" (95 %: {spread.low:.2f} to {spread.high:.2f})"
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
    digits = Estimate(gain.value).decimals(3)
    span = "" if not gain.known else f" (95 % over stations: {gain.low:+.{digits}f} to {gain.high:+.{digits}f})"
    text = {
        HELPS: "sharing helps to predict rewards",
        HURTS: "sharing makes predictions worse",
        EVEN: "sharing makes no clear difference to predictions",
    }[all_.verdict]
    return (
        f"Over all stations {text}: {gain.value:+.{digits}f} nats a reward{span}, {all_.total:+.0f} in all, against "
        "the same model on each station's own rows."
    )


def _percent(share: Estimate) -> tuple[str, str]:
    return f"{100 * share.value:.1f} %", f"{100 * share.low:.1f} to {100 * share.high:.1f} %"


def _count(some: Sequence[object], every: Sequence[object]) -> str:
    return f"{len(some):,} of {counted(len(every), 'station')}"


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


# --- The audit of a controller or a fleet: how far predictions can be trusted, who borrows from whom, what it earned

_PARTS = ("shared", "similar", "own")


@dataclass(frozen=True, eq=False)
class Audit:
    """What came out.

    Attributes:
        calibration: Whether intervals hold what they promise.
        transfer: Who borrowed from whom, and what it earned.
        order: Places of the stations in an order that puts like beside like, (M,).
        decisions: How many were asked for.
        rewards: How many of them have been told and were predicted, as what ran.
        parts: How much of what is learned is shared by all, by those alike, and by none, where the model says so.
    """

    calibration: Calibration
    transfer: Transfer
    order: tuple[int, ...]
    decisions: int
    rewards: int
    parts: Mapping[str, float] = field(default_factory=dict)

    @property
    def stations(self) -> tuple[str, ...]:
        """All stations, in the controller's order."""
        return tuple(station.name for station in self.calibration.stations)

    @property
    def words(self) -> list[str]:
        """What it says in sentences, the most important first."""
        words = [*calibration_words(self.calibration), sharing_text(self.parts), *transfer_words(self.transfer)]
        return [line for line in words if line]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        return {
            "decisions": self.decisions,
            "rewards": self.rewards,
            "stations": len(self.stations),
            "words": self.words,
            "calibration": self.calibration.to_dict(),
            "transfer": self.transfer.to_dict(),
            "parts": dict(self.parts),
        }


@dataclass(frozen=True, eq=False)
class Account:
    """What an audit needs of one controller, as plain arrays: worked out in one process, it can be read in another.

    Attributes:
        made: Its predictions whose reward is known.
        earned: What sharing did for each of them.
        order: Places of its stations in an order that puts like beside like, (M,).
        decisions: How many were asked for.
        parts: How much of what is learned is shared by all, by those alike, and by none, (3,); nan where not known.
    """

    made: Predictions
    earned: Earned
    order: IntArray
    decisions: int
    parts: FloatArray

    def arrays(self) -> dict[str, Any]:
        """Return everything but names and notes as arrays by name."""
        evidence = self.earned.evidence
        lent = {"shares": evidence.shares, "worth": evidence.worth, "parts": self.parts}
        rest = {"gain": self.earned.gain, "order": self.order, "decisions": np.array(self.decisions)}
        return {**vars(self.made), **lent, **rest}

    @classmethod
    def from_arrays(cls, stations: Sequence[str], arrays: Mapping[str, Any]) -> "Account":
        """Return the account that `arrays` was called on."""
        made = Predictions(**{one.name: arrays[one.name] for one in fields(Predictions)})
        earned = Earned(tuple(stations), made.tasks, arrays["gain"], EvidenceShares(arrays["shares"], arrays["worth"]))
        parts = arrays["parts"] if "parts" in arrays else np.full(3, np.nan)  # not written before
        return cls(made, earned, arrays["order"], int(arrays["decisions"]), parts)


def account_of(recorded: Recorded, *, recent: int = RECENT, most_rows: int = MOST_ROWS) -> Account:
    """Return what an audit needs of a controller, or of what keeps its setup and journal.

    Example:
        >>> from kinband import ConfigurationSpace, Controller
        >>> controller = Controller(ConfigurationSpace(tilt=[2, 4]), ["a", "b"], noise=0.25, mean=0.5)
        >>> controller.tell(controller.ask("a").id, 0.4)
        >>> account = account_of(controller)
        >>> again = Account.from_arrays(controller.stations, account.arrays())
        >>> audit_of([again]).to_dict() == audit_of([account]).to_dict()
        True
    """
    setup, made = setup_of(recorded), predictions_of(recorded)
    order = TaskMatrix(setup.stations, setup.K_Z, "given").order()
    earned = earned_of(recorded, made, recent=recent, most_rows=most_rows)
    details = setup.notes.get("details", {}) if len(setup.stations) > 1 else {}
    parts = np.array([details.get(name, np.nan) for name in _PARTS])
    return Account(made, earned, order, len(recorded.journal.asked), parts)


def audit_of(accounts: Sequence[Account]) -> Audit:
    """Return the audit of controllers whose stations are different."""
    starts = np.cumsum([0, *(len(account.order) for account in accounts)]).tolist()
    return Audit(
        calibration_of([(account.earned.stations, account.made) for account in accounts]),
        transfer_of([account.earned for account in accounts]),
        tuple(start + int(m) for start, account in zip(starts, accounts, strict=False) for m in account.order),
        decisions=sum(account.decisions for account in accounts),
        rewards=sum(len(account.made) for account in accounts),
        parts=_parts(accounts),
    )


def _parts(accounts: Sequence[Account]) -> dict[str, float]:
    """How much is shared, on average over all stations; nothing where some model does not say."""
    parts = np.average([one.parts for one in accounts], axis=0, weights=[len(one.order) for one in accounts])
    return {} if np.isnan(parts).any() else dict(zip(_PARTS, parts.tolist(), strict=True))


def audit(*records: Recorded, recent: int = RECENT, most_rows: int = MOST_ROWS) -> Audit:
    """Return the audit of one controller, or of several whose stations are different, such as the shards of a fleet.

    Args:
        records: Controllers, or what keeps their setups and journals.
        recent: Decisions of each station whose evidence is weighed.
        most_rows: Up to how many rows of related stations evidence is weighed.

    Example:
        >>> from kinband import ConfigurationSpace, Controller
        >>> controller = Controller(ConfigurationSpace(tilt=[2, 4]), ["a", "b"], noise=0.25, mean=0.5)
        >>> for reward in (0.4, 1.1, 0.2):
        ...     controller.tell(controller.ask("a").id, reward)
        >>> audit(controller).words[0]
        '100.0 % of 3 rewards lay inside the interval that should hold 80 % (95 %: 29.2 to 100.0 %).'
    """
    check_told(records)
    for name, count in (("recent", recent), ("most_rows", most_rows)):
        if not isinstance(count, int | np.integer) or isinstance(count, bool) or count < 1:
            raise BadInputError(f"{name} must be a whole number of at least 1, got {count!r:.60}")
    return audit_of([account_of(recorded, recent=recent, most_rows=most_rows) for recorded in records])
