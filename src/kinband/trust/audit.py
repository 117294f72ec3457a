"""The audit of a controller or a fleet: how far predictions can be trusted, who borrows from whom, what it earned."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from kinband.arrays import FloatArray, IntArray
from kinband.errors import BadInputError
from kinband.similarity import TaskMatrix
from kinband.similarity.matrix import sharing_text
from kinband.trust.calibration import Calibration, calibration_of
from kinband.trust.lending import MOST_ROWS, RECENT, Lending
from kinband.trust.told import Predictions, Recorded, check_told, predictions_of, settings_of
from kinband.trust.transfer import Earned, Transfer, earned_of, transfer_of
from kinband.trust.words import calibration_words, transfer_words

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
        lending = self.earned.lending
        lent = {"shares": lending.shares, "worth": lending.worth, "parts": self.parts}
        rest = {"gain": self.earned.gain, "order": self.order, "decisions": np.array(self.decisions)}
        return {**vars(self.made), **lent, **rest}

    @classmethod
    def from_arrays(cls, stations: Sequence[str], arrays: Mapping[str, Any]) -> "Account":
        """Return the account that `arrays` was called on."""
        made = Predictions(**{one.name: arrays[one.name] for one in fields(Predictions)})
        earned = Earned(tuple(stations), made.tasks, arrays["gain"], Lending(arrays["shares"], arrays["worth"]))
        parts = arrays["parts"] if "parts" in arrays else np.full(3, np.nan)  # not written before
        return cls(made, earned, arrays["order"], int(arrays["decisions"]), parts)


def account_of(recorded: Recorded, *, recent: int = RECENT, most_rows: int = MOST_ROWS) -> Account:
    """Return what an audit needs of a controller, or of what keeps its settings and journal.

    Example:
        >>> from kinband import ConfigurationSpace, Controller
        >>> controller = Controller(ConfigurationSpace(tilt=[2, 4]), ["a", "b"], noise=0.25, mean=0.5)
        >>> controller.tell(controller.ask("a").id, 0.4)
        >>> account = account_of(controller)
        >>> again = Account.from_arrays(controller.stations, account.arrays())
        >>> audit_of([again]).to_dict() == audit_of([account]).to_dict()
        True
    """
    settings, made = settings_of(recorded), predictions_of(recorded)
    order = TaskMatrix(settings.stations, settings.K_Z, "given").order()
    earned = earned_of(recorded, made, recent=recent, most_rows=most_rows)
    details = settings.notes.get("details", {}) if len(settings.stations) > 1 else {}
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
        records: Controllers, or what keeps their settings and journals.
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
