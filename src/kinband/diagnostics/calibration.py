"""Whether predictions hold: what was told, and how often intervals held it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol

import numpy as np

from kinband.arrays import FloatArray, IntArray
from kinband.controller import Setup
from kinband.controller.events import Asked, Estimated, Told
from kinband.controller.journal import Journal
from kinband.controller.stations import CurrentSetup
from kinband.errors import BadInputError
from kinband.stats import Estimate, counted, discoveries, mean_of, mean_square_of, share_of

# --- What was predicted when asking beside what was earned: the decisions of a controller whose reward is known -----
#
# A prediction counts with everything that makes a reward scatter: σ² of f as stored when asking, the controller's
# noise, and what was told of the reward's own variance. Rewards are taken as they stand, corrections included. Where a
# station ran something else than what was decided, it is what was predicted of that which counts; a reward of a
# configuration whose prediction was not kept is left out.

_WIDTHS_OF_THEIR_OWN = ("linucb",)  # policies whose std is no standard deviation


class Recorded(Protocol):
    """What keeps a setup and a journal: a controller, or a shard of a fleet."""

    @property
    def journal(self) -> Journal:
        """What was asked and told."""

    @property
    def setup(self) -> Setup:
        """What it was made with."""


@dataclass(frozen=True, eq=False)
class Predictions:
    """Decisions of one controller whose reward is known, in the order of asking.

    Attributes:
        tasks: Whose they are, (n,).
        X: The contexts of what ran, (n, d).
        mean: Predicted rewards, (n,).
        variance: Their variances, noise included, (n,).
        rewards: What was earned, (n,).
        noise: The part of the variance that is the reward's own, (n,).
        known: How many rewards were known when asking, (n,).
        rounds: Number of the round; decisions alone have numbers of their own, below zero, (n,).
    """

    tasks: IntArray
    X: FloatArray
    mean: FloatArray
    variance: FloatArray
    rewards: FloatArray
    noise: FloatArray
    known: IntArray
    rounds: IntArray

    def __len__(self) -> int:
        return len(self.tasks)

    def take(self, rows: IntArray) -> "Predictions":
        """Return the chosen decisions."""
        return Predictions(**{field.name: getattr(self, field.name)[rows] for field in fields(self)})

    @property
    def z(self) -> FloatArray:
        """Rewards less predictions, in standard deviations, (n,): standard normal if the model is right."""
        found: FloatArray = (self.rewards - self.mean) / np.sqrt(self.variance)
        return found

    @property
    def log_density(self) -> FloatArray:
        """Log density of each reward under its prediction, (n,)."""
        return log_density(self.rewards, self.mean, self.variance)


@dataclass(frozen=True, eq=False)
class Epoch:
    """A stretch of a journal through which one task matrix was in force; stations may join, the rest stays as it is.

    Attributes:
        setup: What was in force at its end.
        asked: Decisions made in it, by id.
        rows: How many rewards were known at its end, the starting log's among them.
    """

    setup: CurrentSetup
    asked: dict[str, Asked]
    rows: int


def epochs_of(recorded: Recorded) -> list[Epoch]:
    """Return the stretches of a journal between which the task matrix was estimated anew, in order."""
    present, epochs, asked = CurrentSetup.of(recorded.setup), [], {}  # type: CurrentSetup, list[Epoch], dict[str, Asked]
    rows = 0 if present.start is None else len(present.start)
    for entry in recorded.journal:
        match entry:
            case Asked():
                asked[entry.decision.id] = entry
            case Told():
                rows += 1
            case Estimated() if entry.triangle:
                epochs.append(Epoch(present, asked, rows))
                asked = {}
        present = present.after(entry)
    return [*epochs, Epoch(present, asked, rows)]


def setup_of(recorded: Recorded, *, at: Asked | None = None) -> CurrentSetup:
    """Return the setup with every station that has ever joined, or as it was when a decision was made."""
    present = CurrentSetup.of(recorded.setup)
    for entry in recorded.journal.lasting(None if at is None else at.decision.id):
        present = present.after(entry)
    return present


def predictions_of(recorded: Recorded) -> Predictions:
    """Return the decisions whose reward is known and whose policy predicted one."""
    setup, policy = recorded.setup, recorded.setup.config.policy
    if policy in _WIDTHS_OF_THEIR_OWN:
        raise BadInputError(f"an audit needs standard deviations, and {policy} has widths of another kind")
    made, journal = _predictions(recorded.journal), recorded.journal
    noise = setup.noise + np.array([told.noise or 0.0 for _, told, _ in made])
    mean, std = (_floats(predicted[i] for _, _, predicted in made) for i in (0, 1))
    alone = (-1 - i if asked.decision.round is None else asked.decision.round for i, (asked, *_) in enumerate(made))
    X = [journal.observation(told).x for _, told, _ in made]
    return Predictions(
        np.array([asked.task for asked, *_ in made], dtype=np.int64),
        np.array(X, dtype=np.float64).reshape(len(made), -1 if made else 0),
        mean,
        std**2 + noise,
        _floats(told.reward for _, told, _ in made),
        noise,
        np.array([asked.decision.known for asked, *_ in made], dtype=np.int64),
        np.array(list(alone), dtype=np.int64),
    )


def epoch_numbers(recorded: Recorded, epochs: Sequence[Epoch]) -> IntArray:
    """Return for each of `predictions_of` the number of its epoch, (n,)."""
    made = _predictions(recorded.journal)
    return np.array([i for asked, *_ in made for i, e in enumerate(epochs) if asked.decision.id in e.asked], np.int64)


def check_told(records: Iterable[Recorded]) -> None:
    """Raise unless there is something to audit."""
    journals = [_journal_of(recorded) for recorded in records]
    told = [(journal, told) for journal in journals for told in journal.told.values()]
    if not told:
        asked = counted(sum(len(journal.asked) for journal in journals), "decision was", "decisions were")
        raise BadInputError(f"there is nothing to audit: {asked} asked for and none was told its reward")
    if not any(_predicted(journal, entry) for journal, entry in told):
        raise BadInputError("there is nothing to audit: the policy predicts no rewards; audit one with a model, as ucb")
    if not any(journal.predicted(entry.id) for journal, entry in told):
        raise BadInputError("there is nothing to audit: of what the stations ran instead, no prediction was kept")


def log_density(rewards: FloatArray, mean: FloatArray, variance: FloatArray) -> FloatArray:
    """Return the log density of rewards (n,) under normal predictions (n,)."""
    found: FloatArray = -0.5 * ((rewards - mean) ** 2 / variance + np.log(2.0 * np.pi * variance))
    return found


def _journal_of(recorded: Recorded) -> Journal:
    journal = getattr(recorded, "journal", None)
    if not isinstance(journal, Journal):
        raise BadInputError(
            f"an audit takes controllers, got {recorded!r:.60}: Controller.load(folder) makes one of a saved state"
        )
    return journal


def _predictions(journal: Journal) -> list[tuple[Asked, Told, tuple[float, float]]]:
    """The decisions whose reward is known, with mean and std that were predicted of it, in the order of asking."""
    told = ((asked, journal.told.get(key)) for key, asked in journal.asked.items())
    found = ((asked, one, journal.predicted(one.id)) for asked, one in told if one is not None)
    return [(asked, one, predicted) for asked, one, predicted in found if predicted is not None]


def _predicted(journal: Journal, told: Told) -> bool:
    return journal.asked[told.id].decision.mean is not None


def _floats(values: Iterable[float]) -> FloatArray:
    return np.array(list(values), dtype=np.float64)


# --- Whether intervals hold what they promise, station by station ---------------------------------------------------
#
# If model and noise are right, the rewards of a station, each less its prediction and over its standard deviation, are
# independent and standard normal (Rosenblatt 1952, Dawid 1984), though the policy chose where to look: it chose by
# what was known. It takes rewards that are told before the station is asked again; where several are awaited at once,
# what one of them teaches comes too late for the others. Between stations of a round they depend on each other, so
# that intervals over all stations are taken over rounds.
#
# A station is flagged where Σz² is too large or too small for χ², at a false discovery rate of 5 % over all stations
# (Benjamini and Hochberg 1995), and the share of rewards inside the 80 % interval says the same; one wild reward does
# not make an interval too narrow. All stations together are judged by the same two, the mean of z² by its interval over
# rounds. Rewards that run above or below their predictions are flagged likewise, by Σz.

LEVELS = (0.5, 0.8, 0.95)
"""The intervals that are looked at."""
BINS = 10
"""Of the histogram."""
RATE = 0.05
"""Share of flags that may be false, on average."""

NARROW, WIDE, FITS = "too narrow", "too wide", "fits"
ABOVE, BELOW = "above predictions", "below predictions"


@dataclass(frozen=True, eq=False)
class Calibrated:
    """How well the predictions of one station, or of all, held.

    Attributes:
        name: The station, or "all".
        rewards: How many were told.
        coverage: Share of rewards inside the 50, 80 and 95 % intervals, by level.
        bias: Mean of z.
        spread: Mean of z²; 1 if widths are right.
        histogram: Rewards by their place in the predicted distribution, in ten parts of equal probability, (10,).
        p_spread: Of the test that the spread is right.
        p_bias: Of the test that there is no bias.
        verdict: "fits", "too narrow" or "too wide".
        drift: "above predictions" or "below predictions" where rewards run so, else empty.

    Example:
        >>> calibrated("a", np.array([0.3, -1.4, 0.8]))
        a: 3 rewards, 67 % inside 80 % intervals, mean z² 0.90, fits
    """

    name: str
    rewards: int
    coverage: dict[float, Estimate]
    bias: Estimate
    spread: Estimate
    histogram: IntArray
    p_spread: float
    p_bias: float
    verdict: str = FITS
    drift: str = ""

    def __repr__(self) -> str:
        if not self.rewards:
            return f"{self.name}: no rewards"
        inside = f"{self.coverage[0.8].value:.0%}".replace("%", " %")
        numbers = f"{counted(self.rewards, 'reward')}, {inside} inside 80 % intervals, mean z² {self.spread.value:.2f}"
        return f"{self.name}: {numbers}, {' and '.join(filter(None, [self.verdict, self.drift]))}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        if not self.rewards:
            return {"station": self.name, "rewards": 0}
        return {
            "station": self.name,
            "rewards": self.rewards,
            "coverage": {f"{level:g}": share.to_dict() for level, share in self.coverage.items()},
            "mean_z": self.bias.to_dict(),
            "mean_z2": self.spread.to_dict(),
            "histogram": self.histogram.tolist(),
            "p_spread": self.p_spread,
            "p_bias": self.p_bias,
            "verdict": self.verdict,
            "drift": self.drift,
        }


def calibrated(name: str, z: FloatArray, *, clusters: IntArray | None = None) -> Calibrated:
    """Return how well predictions held whose errors in standard deviations are z (n,); no flags yet.

    Args:
        name: Whose they are.
        z: Rewards less predictions, over standard deviations.
        clusters: Which of them may depend on each other, (n,); none by default.
    """
    from scipy.special import ndtr, ndtri

    coverage = {level: share_of(int((np.abs(z) <= ndtri(0.5 + level / 2)).sum()), len(z)) for level in LEVELS}
    places = np.minimum((ndtr(z) * BINS).astype(np.int64), BINS - 1)
    return Calibrated(
        name,
        len(z),
        coverage,
        bias=mean_of(z, clusters),
        spread=mean_square_of(z, clusters),
        histogram=np.bincount(places, minlength=BINS),
        p_spread=p_of_spread(z),
        p_bias=p_of_bias(z),
    )


def p_of_spread(z: FloatArray) -> float:
    """Return the two-sided p-value of the test that z (n,) are standard normal, by the χ² of their squares.

    Example:
        >>> round(p_of_spread(np.array([0.1, -0.1, 0.1])), 4), p_of_spread(np.empty(0))
        (0.0027, 1.0)
    """
    from scipy.special import chdtr, chdtrc

    if not len(z):
        return 1.0
    total = float(z @ z)
    return float(min(1.0, 2.0 * min(chdtr(len(z), total), chdtrc(len(z), total))))


def p_of_bias(z: FloatArray) -> float:
    """Return the two-sided p-value of the test that independent standard normal z (n,) have mean 0.

    Example:
        >>> round(p_of_bias(np.full(4, 0.98)), 2)
        0.05
    """
    from scipy.special import ndtr

    return float(2.0 * ndtr(-abs(float(z.sum())) / np.sqrt(len(z)))) if len(z) else 1.0


@dataclass(frozen=True, eq=False)
class Calibration:
    """How far predictions can be trusted.

    Attributes:
        overall: All stations together.
        stations: Every station, in the controller's order.
    """

    overall: Calibrated
    stations: tuple[Calibrated, ...]

    def flagged(self, verdict: str) -> list[Calibrated]:
        """Return the stations of a verdict or drift, the clearest first."""
        found = [s for s in self.stations if verdict in (s.verdict, s.drift)]
        by_bias = verdict in (ABOVE, BELOW)
        return sorted(found, key=lambda s: s.p_bias if by_bias else s.p_spread)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        return {"overall": self.overall.to_dict(), "stations": [station.to_dict() for station in self.stations]}


def calibration_of(parts: Sequence[tuple[Sequence[str], Predictions]]) -> Calibration:
    """Return the calibration of all stations, from the names of each controller and its predictions."""
    stations = [
        calibrated(name, made.z[made.tasks == task]) for names, made in parts for task, name in enumerate(names)
    ]
    z = np.concatenate([made.z for _, made in parts])
    together = calibrated("all", z, clusters=_clusters([made.rounds for _, made in parts]))
    return Calibration(_over_rounds(together), tuple(_flags(stations)))


def _clusters(rounds: Sequence[IntArray]) -> IntArray:
    """Number the rounds of several controllers so that no two have one in common, (n,)."""
    labelled = [np.column_stack([np.full(len(one), number), one]) for number, one in enumerate(rounds)]
    _, place = np.unique(np.concatenate(labelled), axis=0, return_inverse=True)
    return np.asarray(place.ravel(), dtype=np.int64)


def _flags(stations: Sequence[Calibrated]) -> list[Calibrated]:
    """Return stations with their verdicts, at one false discovery rate for each kind of flag."""
    told = [s for s in stations if s.rewards]
    spread = discoveries(np.array([s.p_spread for s in told]), rate=RATE)
    bias = discoveries(np.array([s.p_bias for s in told]), rate=RATE)
    flagged = {
        s.name: _flag(s, spread=bool(wrong), bias=bool(off)) for s, wrong, off in zip(told, spread, bias, strict=True)
    }
    return [flagged.get(s.name, s) for s in stations]


def _flag(station: Calibrated, *, spread: bool, bias: bool) -> Calibrated:
    """Return a station, or all of them, with verdicts: where tests say so, and the share inside says the same."""
    verdict, drift = FITS, ""
    inside = station.coverage[0.8].value
    if spread and station.spread.value > 1.0 and inside < 0.8:
        verdict = NARROW
    elif spread and station.spread.value < 1.0 and inside > 0.8:
        verdict = WIDE
    if bias:
        drift = ABOVE if station.bias.value > 0 else BELOW
    return replace(station, verdict=verdict, drift=drift)


def _over_rounds(all_: Calibrated) -> Calibrated:
    """Return the whole with verdicts by intervals over rounds."""
    return _flag(all_, spread=all_.spread.side(1.0) != 0, bias=all_.bias.side(0.0) != 0)
