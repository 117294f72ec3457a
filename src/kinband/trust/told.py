"""What was predicted when asking beside what was earned: the decisions of a controller whose reward is known.

A prediction counts with everything that makes a reward scatter: σ² of f as stored when asking, the controller's noise,
and what was told of the reward's own variance. Rewards are taken as they stand, corrections included. Where a station
ran something else than what was decided, it is what was predicted of that which counts; a reward of a configuration
whose prediction was not kept is left out.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from itertools import takewhile
from typing import Protocol

import numpy as np

from kinband.arrays import FloatArray, IntArray
from kinband.controller import Settings
from kinband.controller.events import Asked, Estimated, Journal, Told
from kinband.controller.roster import InForce
from kinband.counting import counted
from kinband.errors import BadInputError

_WIDTHS_OF_THEIR_OWN = ("linucb",)  # policies whose width is no standard deviation


class Recorded(Protocol):
    """What keeps settings and a journal: a controller, or a shard of a fleet."""

    @property
    def journal(self) -> Journal:
        """What was asked and told."""

    @property
    def settings(self) -> Settings:
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

    Example:
        >>> from kinband import ConfigurationSpace, Controller
        >>> controller = Controller(ConfigurationSpace(tilt=[2, 4]), ["a"], noise=0.25, mean=0.5)
        >>> controller.tell(controller.ask("a").id, 1.0)
        >>> found = predictions_of(controller)
        >>> found.variance, found.z.round(3)
        (array([1.25]), array([0.447]))
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
        settings: What was in force at its end.
        asked: Decisions made in it, by id.
        rows: How many rewards were known at its end, the starting log's among them.
    """

    settings: InForce
    asked: dict[str, Asked]
    rows: int


def epochs_of(recorded: Recorded) -> list[Epoch]:
    """Return the stretches of a journal between which the task matrix was estimated anew, in order.

    Example:
        >>> from kinband import ConfigurationSpace, Controller
        >>> controller = Controller(ConfigurationSpace(tilt=[2, 4]), ["a"])
        >>> controller.tell(controller.ask("a").id, 0.5)
        >>> [(list(epoch.asked), epoch.rows) for epoch in epochs_of(controller)]
        [(['d000001'], 1)]
    """
    present, epochs, asked = InForce.of(recorded.settings), [], {}  # type: InForce, list[Epoch], dict[str, Asked]
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


def settings_of(recorded: Recorded, *, at: Asked | None = None) -> InForce:
    """Return the settings with every station that has ever joined, or as they were when a decision was made.

    Example:
        >>> from kinband import ConfigurationSpace, Controller
        >>> controller = Controller(ConfigurationSpace(tilt=[2, 4]), ["a"])
        >>> asked = controller.journal.find(controller.ask("a").id)
        >>> _ = controller.add_station("b", similarity={"a": 0.8})
        >>> settings_of(controller).stations, settings_of(controller, at=asked).stations
        (('a', 'b'), ('a',))
    """
    present, journal = InForce.of(recorded.settings), recorded.journal
    if not journal.moved and not journal.shaping:
        return present
    for entry in takewhile(lambda entry: entry is not at, journal):
        present = present.after(entry)
    return present


def predictions_of(recorded: Recorded) -> Predictions:
    """Return the decisions whose reward is known and whose policy predicted one."""
    settings = recorded.settings
    if settings.policy in _WIDTHS_OF_THEIR_OWN:
        raise BadInputError(f"an audit needs standard deviations, and {settings.policy} has widths of another kind")
    made, journal = _foretold(recorded.journal), recorded.journal
    noise = settings.noise + np.array([told.noise or 0.0 for _, told, _ in made])
    mean, width = (_floats(foretold[i] for _, _, foretold in made) for i in (0, 1))
    alone = (-1 - i if asked.decision.round is None else asked.decision.round for i, (asked, *_) in enumerate(made))
    X = [journal.observation(told).x for _, told, _ in made]
    return Predictions(
        np.array([asked.task for asked, *_ in made], dtype=np.int64),
        np.array(X, dtype=np.float64).reshape(len(made), -1 if made else 0),
        mean,
        width**2 + noise,
        _floats(told.reward for _, told, _ in made),
        noise,
        np.array([asked.decision.known for asked, *_ in made], dtype=np.int64),
        np.array(list(alone), dtype=np.int64),
    )


def epoch_numbers(recorded: Recorded, epochs: Sequence[Epoch]) -> IntArray:
    """Return for each of `predictions_of` the number of its epoch, (n,)."""
    made = _foretold(recorded.journal)
    return np.array([i for asked, *_ in made for i, e in enumerate(epochs) if asked.decision.id in e.asked], np.int64)


def check_told(records: Iterable[Recorded]) -> None:
    """Raise unless there is something to audit.

    Example:
        >>> check_told(["state"])
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: an audit takes controllers, got 'state': Controller.load(folder) makes one of ...
    """
    journals = [_journal_of(recorded) for recorded in records]
    told = [(journal, told) for journal in journals for told in journal.told.values()]
    if not told:
        asked = counted(sum(len(journal.asked) for journal in journals), "decision was", "decisions were")
        raise BadInputError(f"there is nothing to audit: {asked} asked for and none was told its reward")
    if not any(_predicted(journal, entry) for journal, entry in told):
        raise BadInputError("there is nothing to audit: the policy predicts no rewards; audit one with a model, as ucb")
    if not any(journal.foretold(entry.id) for journal, entry in told):
        raise BadInputError("there is nothing to audit: of what the stations ran instead, no prediction was kept")


def log_density(rewards: FloatArray, mean: FloatArray, variance: FloatArray) -> FloatArray:
    """Return the log density of rewards (n,) under normal predictions (n,).

    Example:
        >>> log_density(np.array([0.5]), np.array([0.5]), np.array([1.0])).round(3)
        array([-0.919])
    """
    found: FloatArray = -0.5 * ((rewards - mean) ** 2 / variance + np.log(2.0 * np.pi * variance))
    return found


def _journal_of(recorded: Recorded) -> Journal:
    journal = getattr(recorded, "journal", None)
    if not isinstance(journal, Journal):
        raise BadInputError(
            f"an audit takes controllers, got {recorded!r:.60}: Controller.load(folder) makes one of a saved state"
        )
    return journal


def _foretold(journal: Journal) -> list[tuple[Asked, Told, tuple[float, float]]]:
    """The decisions whose reward is known, with mean and width that were predicted of it, in the order of asking."""
    told = ((asked, journal.told.get(key)) for key, asked in journal.asked.items())
    found = ((asked, one, journal.foretold(one.id)) for asked, one in told if one is not None)
    return [(asked, one, foretold) for asked, one, foretold in found if foretold is not None]


def _predicted(journal: Journal, told: Told) -> bool:
    return journal.asked[told.id].decision.mean is not None


def _floats(values: Iterable[float]) -> FloatArray:
    return np.array(list(values), dtype=np.float64)
