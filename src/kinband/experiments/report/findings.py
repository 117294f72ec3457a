"""From runs to the numbers that a report shows: every one with its interval over pairs of runs on the same seed."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kinband.arrays import FloatArray
from kinband.experiments.demo import ALONE, FIXED, SHARED, Demonstration
from kinband.experiments.metrics import Estimate, mean_of, saving_of
from kinband.similarity import TaskMatrix

HINDSIGHT = "hindsight"
"""The single configuration that would have earned most: a yardstick, not a learner."""

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
        saved: Share of the regret of learning alone that is saved; None for learning alone, or where it has no regret.
    """

    name: str
    rewards: FloatArray
    regret: FloatArray
    gained: FloatArray
    saved: Estimate | None

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
        played: dict[str, tuple[FloatArray, FloatArray]] = {}
        for name in (SHARED, ALONE, FIXED):
            runs = self.demo.of(name)
            played[name] = np.array([run.rewards for run in runs]), np.array([run.regret for run in runs])
        best = self.offers.max(axis=3) - self.offers[..., self.best_arm]
        played[HINDSIGHT] = self.offers[..., self.best_arm], best.sum(axis=2)
        today, alone = played[FIXED][0], played[ALONE][1].sum(axis=1)
        return {
            name: Standing(
                name,
                rewards.mean(axis=2),
                regret,
                ((rewards - today) * self.users).sum(axis=2),
                None if name == ALONE or not alone.all() else saving_of(regret.sum(axis=1), alone),
            )
            for name, (rewards, regret) in played.items()
        }

    @cached_property
    def offers(self) -> FloatArray:
        """What every configuration would have earned, (runs, T, M, N)."""
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
        return self.demo.likeness or self.demo.model.similarity

    def of_family(self, family: Family) -> dict[str, float]:
        """Return means over a family's stations: users, and rewards with sharing, alone and today."""
        own = np.array([self.stations.index(name) for name in family.stations])
        rewards = {
            name: np.mean([run.rewards[:, own] for run in self.demo.of(name)]) for name in (SHARED, ALONE, FIXED)
        }
        return {name: float(mean) for name, mean in rewards.items()} | {"users": float(self.users[:, :, own].mean())}

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
