"""From runs to the numbers that a report shows: every one with its interval over pairs of runs on the same seed."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kinband.arrays import FloatArray
from kinband.experiments.demo import ALONE, SHARED, Demonstration
from kinband.experiments.metrics import Estimate, mean_of, saving_of
from kinband.similarity import TaskMatrix

FIXED = "fixed"
"""What runs today, all the time."""

HINDSIGHT = "hindsight"
"""The single configuration that would have earned most: a yardstick, not a learner."""

NEAR = 0.005
"""Half a point: how far from the best attainable a network has as good as arrived, as a share of the reward's range."""

WINDOW = 5
"""Rounds whose mean has to be that near: in one round, chance in the states alone could do it."""

ALIKE = 0.7
"""How alike the stations of a group are, on average."""
NO_GROUP = "in no group"
FIFTHS = ("most typical", "rather typical", "in between", "rather peculiar", "most peculiar")
_MOST, _COVERED = 6, 0.8  # groups are shown where so few of them hold that share of the stations


@dataclass(frozen=True, eq=False)
class Standing:
    """One line of the table.

    Attributes:
        name: The learner.
        rewards: Mean reward over stations in each round of each run, (runs, T).
        regret: Regret of each round, summed over stations, (runs, T).
        gained: Satisfied users more than with today's configuration, in each round, (runs, T); nan where users are not
            counted.
        saved: Share of the regret of learning alone that is saved by sharing; None for others, or where there is none.
        worse: Share of its decisions that are expected to earn less than today's configuration, by run, (runs,).
        far_worse: The same, less by more than `Findings.near`.
        arrived: Round by which the network is near the best attainable, in all runs together; None where it never is.
        arrivals: The same in every run.
    """

    name: str
    rewards: FloatArray
    regret: FloatArray
    gained: FloatArray
    saved: Estimate | None
    worse: FloatArray
    far_worse: FloatArray
    arrived: int | None
    arrivals: tuple[int | None, ...]

    @property
    def reward(self) -> Estimate:
        """Mean reward over stations and rounds."""
        return mean_of(self.rewards.mean(axis=1))

    @property
    def total_regret(self) -> Estimate:
        """Regret of a run."""
        return mean_of(self.regret.sum(axis=1))

    @property
    def gain(self) -> Estimate | None:
        """Satisfied users more than today, mean over rounds; None where users are not counted."""
        return None if np.isnan(self.gained).any() else mean_of(self.gained.mean(axis=1))


@dataclass(frozen=True)
class Family:
    """Stations that go together.

    Attributes:
        name: What the report calls it.
        stations: Its members, in the order of the heat map.
    """

    name: str
    stations: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Findings:
    """What a demonstration found.

    Attributes:
        demo: Where it comes from.
    """

    demo: Demonstration

    @cached_property
    def standings(self) -> dict[str, Standing]:
        """The lines of the table by learner; the yardstick of hindsight comes last."""
        earned = {name: self.earned(name) for name in (SHARED, ALONE)}
        earned[FIXED], earned[HINDSIGHT] = self.today, self.offers[..., self.best_arm]
        alone = self._regret(earned[ALONE]).sum(axis=1)
        return {name: self._standing(name, rewards, alone) for name, rewards in earned.items()}

    def _standing(self, name: str, rewards: FloatArray, alone: FloatArray) -> Standing:
        regret, less = self._regret(rewards), self.today - rewards
        a_station = regret / len(self.stations)
        return Standing(
            name,
            rewards.mean(axis=2),
            regret,
            (-less * self.users).sum(axis=2),
            saving_of(regret.sum(axis=1), alone) if name == SHARED and alone.all() else None,
            (less > 0).mean(axis=(1, 2)),
            (less > self.near).mean(axis=(1, 2)),
            arrival(a_station.mean(axis=0), self.near),
            tuple(arrival(run, self.near) for run in a_station),
        )

    def _regret(self, rewards: FloatArray) -> FloatArray:
        """Regret in expectation, summed over stations, (runs, T)."""
        lost: FloatArray = (self.offers.max(axis=3) - rewards).sum(axis=2)
        return lost

    def earned(self, learner: str) -> FloatArray:
        """Return what the choices of a learner are expected to earn, (runs, T, M)."""
        arms = np.array([run.arms for run in self.demo.of(learner)])
        return np.take_along_axis(self.offers, arms[..., None], axis=3)[..., 0]

    def gain_by(self, name: str, rounds: int) -> float:
        """Return the users that are gained over today in the last few of so many rounds, mean over runs."""
        return float(self.standings[name].gained[:, max(0, rounds - WINDOW) : rounds].mean())

    @property
    def today(self) -> FloatArray:
        """What today's configuration is expected to earn, (runs, T, M)."""
        return self.offers[..., self.demo.stage.today]

    @property
    def near(self) -> float:
        """How far from the best attainable is near; rewards of a city are shares of users, which range from 0 to 1."""
        stage = self.demo.stage
        return NEAR if stage.city else NEAR * float(np.ptp(stage.trace.reward))

    @cached_property
    def offers(self) -> FloatArray:
        """What every configuration is expected to earn, (runs, T, M, N)."""
        return np.array([self.demo.offers[run.case.seed] for run in self.demo.of(SHARED)])

    @cached_property
    def users(self) -> FloatArray:
        """Connected users of each station, (runs, T, M); nan where they are not counted."""
        users = np.array([run.users for run in self.demo.of(SHARED)])
        return users if self.demo.stage.counts_users else np.full(users.shape, np.nan)

    @property
    def best_arm(self) -> int:
        """The single configuration that would have earned most in all runs together."""
        return int(self.offers.mean(axis=(0, 1, 2)).argmax())

    @property
    def runs(self) -> int:
        """Runs of each learner."""
        return len(self.demo.of(SHARED))

    @property
    def rounds(self) -> int:
        """Rounds of a run."""
        return self.demo.runs[0].case.slots

    @property
    def decisions(self) -> int:
        """Decisions of a run."""
        return self.rounds * len(self.stations)

    @property
    def stations(self) -> tuple[str, ...]:
        """All stations."""
        return self.demo.stage.trace.stations

    @property
    def beta(self) -> float | str:
        """The weight of the width in UCB."""
        return self.demo.runs[0].case.learner.beta

    @cached_property
    def families(self) -> list[Family]:
        """Groups of like stations where a few of them hold most; else fifths, by mean similarity to all others."""
        groups = [group for group in self.similarity.groups(alike=ALIKE) if len(group) > 1]
        covered = sum(map(len, groups)) / len(self.similarity)
        return self._groups(groups) if 2 <= len(groups) <= _MOST and covered >= _COVERED else self._fifths()

    def _groups(self, groups: list[tuple[str, ...]]) -> list[Family]:
        inside = {name for group in groups for name in group}
        rest = tuple(name for name in self.stations if name not in inside)
        named = [Family(f"group {number}", group) for number, group in enumerate(groups, start=1)]
        return [*named, Family(NO_GROUP, rest)] if rest else named

    def _fifths(self) -> list[Family]:
        order = np.argsort(-self.similarity.correlation().sum(axis=1), kind="stable")
        names = FIFTHS if len(order) >= len(FIFTHS) else FIFTHS[: len(order)]
        parts = np.array_split(order, len(names))
        stations = self.similarity.stations
        return [Family(name, tuple(stations[m] for m in part)) for name, part in zip(names, parts, strict=True)]

    @property
    def similarity(self) -> TaskMatrix:
        """How alike the stations are."""
        return self.demo.model.similarity

    def of_family(self, family: Family) -> dict[str, float]:
        """Return means over a family's stations: users, and rewards with sharing, alone and today."""
        own = np.array([self.stations.index(name) for name in family.stations])
        of_all = {SHARED: self.earned(SHARED), ALONE: self.earned(ALONE), FIXED: self.today, "users": self.users}
        return {name: float(values[:, :, own].mean()) for name, values in of_all.items()}

    @cached_property
    def knob_values(self) -> FloatArray | None:
        """The value of each configuration where there is one knob and it is a quantity, (N,)."""
        space = self.demo.stage.space
        if len(space.knobs) > 1 or space.categorical:
            return None
        return np.array([next(iter(configuration.values())) for configuration in space], dtype=np.float64)

    def chosen(self) -> Mapping[str, FloatArray]:
        """Return for the stations whose day is shown what is best in each hour by every run, (runs, hours)."""
        values = self.knob_values
        means = np.array([run.means for run in self.demo.of(SHARED)])  # (runs, stations, hours, N)
        if values is None or not means.size:
            return {}
        known = ~np.isnan(means).any(axis=3)
        best = np.where(known, values[np.where(known[..., None], means, 0.0).argmax(axis=3)], np.nan)
        return dict(zip(self.demo.stage.days, best.transpose(1, 0, 2), strict=True))

    def agreed(self, station: str) -> FloatArray:
        """Return the value that all runs together expect to earn most in each hour, (hours,); nan where not known."""
        place, values = list(self.demo.stage.days).index(station), self.knob_values
        means = np.mean([run.means[place] for run in self.demo.of(SHARED)], axis=0)  # (hours, N)
        if values is None:
            raise AssertionError("days are shown where there is one quantity to set")
        known = ~np.isnan(means).any(axis=1)
        return np.where(known, values[np.where(known[:, None], means, 0.0).argmax(axis=1)], np.nan)

    def expected(self, station: str) -> tuple[FloatArray, FloatArray]:
        """Return what `agreed` and today's setting are expected to earn in each hour, (hours,); nan where not known."""
        place = list(self.demo.stage.days).index(station)
        means = np.mean([run.means[place] for run in self.demo.of(SHARED)], axis=0)
        return means.max(axis=1), means[:, self.demo.stage.today]


def arrival(regret: FloatArray, near: float) -> int | None:
    """Return the first round by which the mean regret of the last few rounds is small; `regret` is a station's, (T,).

    Example:
        >>> arrival(np.array([0.9, 0.7, 0.2, 0.0, 0.1, 0.1, 0.1]), 0.25), arrival(np.ones(7), 0.25)
        (6, None)
    """
    window = min(WINDOW, len(regret))
    means = np.convolve(regret, np.full(window, 1.0 / window), mode="valid")
    small = np.flatnonzero(means <= near)
    return int(small[0]) + window if len(small) else None
