"""What the demonstration found, in numbers and in words."""

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from kinband.arrays import FloatArray
from kinband.experiments.compare import mean_over_runs, saving_of
from kinband.experiments.demo import ALONE, SHARED, Demonstration
from kinband.similarity import TaskMatrix
from kinband.stats import Estimate

# --- From runs to the numbers that a report shows: every one with its interval over pairs of runs on the same seed

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
        return mean_over_runs(self.rewards.mean(axis=1))

    @property
    def total_regret(self) -> Estimate:
        """Regret of a run."""
        return mean_over_runs(self.regret.sum(axis=1))

    @property
    def gain(self) -> Estimate | None:
        """Satisfied users more than today, mean over rounds; None where users are not counted."""
        return None if np.isnan(self.gained).any() else mean_over_runs(self.gained.mean(axis=1))


class Family(NamedTuple):
    """Stations that go together: what the report calls them, and who they are, in the order of the heat map."""

    name: str
    stations: tuple[str, ...]


class Day(NamedTuple):
    """What would be set in each hour of a station's day; nan where that is not known.

    Attributes:
        chosen: The value that every run expects to earn most, (runs, hours).
        agreed: The value that all runs together do, (hours,).
        best: What that is expected to earn, (hours,).
        today: What today's setting is expected to earn, (hours,).
    """

    chosen: FloatArray
    agreed: FloatArray
    best: FloatArray
    today: FloatArray


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
        """The weight of the standard deviation in UCB."""
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
    def fifths(self) -> bool:
        """Whether the families are fifths, since no clear groups stand out."""
        return self.families[0].name in FIFTHS

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

    def days(self) -> dict[str, Day]:
        """Return the days of the stations that are shown; none where there is not one quantity to set."""
        values = self.knob_values
        means = np.array([run.means for run in self.demo.of(SHARED)])  # (runs, stations, hours, N)
        if values is None or not means.size:
            return {}
        chosen, agreed = _best(means, values), _best(means.mean(axis=0), values)
        best, today = means.mean(axis=0).max(axis=2), means.mean(axis=0)[..., self.demo.stage.today]
        return {
            station: Day(chosen[:, place], agreed[place], best[place], today[place])
            for place, station in enumerate(self.demo.stage.days)
        }


def _best(means: FloatArray, values: FloatArray) -> FloatArray:
    """Return the value of the largest mean (..., N), nan where means are not known."""
    known = ~np.isnan(means.max(axis=-1, keepdims=True))
    return np.where(known[..., 0], values[np.where(known, means, 0.0).argmax(axis=-1)], np.nan)


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


# --- The words of the report. Every number in them comes from the run -----------------------------------------------
#
# A simulated city is spoken of in the words of a radio engineer; of any other log only what the log itself says is
# known, so its stations stay stations and its reward a reward.

_UNITS = {"dbm": "dBm", "db": "dB", "deg": "°", "w": "W", "m": "m", "mhz": "MHz", "ms": "ms", "s": "s"}


@dataclass(frozen=True)
class Words:
    """How a report calls things.

    Attributes:
        stations: Several stations.
        station: One of them.
        reward: What is earned.
        knob: What is set, with its unit.
        labels: The learners.
        percent: Whether a reward is a share, written in per cent.
        near: How far from the best attainable is near, in words.
    """

    stations: str
    station: str
    reward: str
    knob: str
    labels: dict[str, str]
    percent: bool
    near: str

    @property
    def points(self) -> str:
        """The unit of a difference of rewards."""
        return " points" if self.percent else ""

    def number(self, reward: float) -> str:
        """Return a reward as text."""
        return f"{reward:.1%}" if self.percent else f"{reward:.3f}"

    def difference(self, reward: float) -> str:
        """Return a difference of rewards as text, in points where rewards are shares."""
        return typeset(f"{100 * reward:+.1f}") if self.percent else typeset(f"{reward:+.3f}")


def words_of(findings: Findings) -> Words:
    """Return the words that suit what was played on."""
    stage = findings.demo.stage
    today, best = (setting(stage.space[arm]) for arm in (stage.today, findings.best_arm))
    station, one = ("sector", "threshold") if stage.city else ("station", "configuration")
    labels = {
        SHARED: f"{station}s that share",
        ALONE: f"each {station} alone",
        FIXED: f"fixed at {today}, as today",
        HINDSIGHT: f"best single {one} in hindsight, {best}",
    }
    return Words(
        stations=f"{station}s",
        station=station,
        reward="share of satisfied users" if stage.city else "reward",
        knob=" and ".join(map(quantity, stage.space.knobs)),
        labels=labels,
        percent=stage.city is not None,
        near="half a point" if stage.city else f"{findings.near:.2g}",
    )


def typeset(text: str) -> str:
    """Return text with real minus signs before its numbers; hyphens in names stay.

    Example:
        >>> typeset("-4 to +3 at site-7")
        '−4 to +3 at site-7'
    """
    return re.sub(r"(?<![\w-])-(?=\d)", "−", text)


def quantity(name: str) -> str:
    """Return the name of a knob for people, with its unit if the name tells.

    Example:
        >>> quantity("handover_threshold_dbm"), quantity("scheduler")
        ('handover threshold (dBm)', 'scheduler')
    """
    *front, last = name.split("_")
    return f"{' '.join(front)} ({_UNITS[last]})" if front and last in _UNITS else name.replace("_", " ")


def setting(configuration: dict[str, Any]) -> str:
    """Return a configuration for people.

    Example:
        >>> setting({"handover_threshold_dbm": -100}), setting({"tilt": 4, "scheduler": "pf"})
        ('−100 dBm', 'tilt 4, scheduler pf')
    """
    if len(configuration) == 1:
        name, value = next(iter(configuration.items()))
        *front, unit = name.split("_")
        if front and unit in _UNITS:
            return f"{_value(value)} {_UNITS[unit]}"
    return ", ".join(f"{name.replace('_', ' ')} {_value(value)}" for name, value in configuration.items())


def _value(value: Any) -> str:
    return str(value) if isinstance(value, str | bool) else typeset(f"{value:g}")


def interval(estimate: Estimate, spec: str) -> str:
    """Return the 95 % interval of an estimate as text.

    Example:
        >>> interval(Estimate(0.2, -0.01, 0.25), ".0%")
        '−1% to 25%'
    """
    return typeset(f"{estimate.low:{spec}} to {estimate.high:{spec}}")


def headline(findings: Findings) -> str:
    """Say in a few sentences what came out."""
    saved = findings.standings[SHARED].saved
    if saved is None:
        return "Learning alone has a run without regret: there is nothing to save." + _users_gained(findings)
    around = interval(saved, ".0%")
    if saved.low > 0:
        first = f"Sharing saved {saved.value:.0%} of the regret of learning alone (95 % interval: {around})."
    elif saved.high < 0:
        more = interval(Estimate(-saved.value, -saved.high, -saved.low), ".0%")
        first = f"Sharing raised the regret of learning alone by {-saved.value:.0%} (95 % interval: {more})."
    else:
        first = (
            f"These runs do not settle whether sharing saves regret against learning alone (95 % interval: {around})."
        )
    return first + _users_gained(findings)


def _users_gained(findings: Findings) -> str:
    stage, gains = findings.demo.stage, {name: line.gain for name, line in findings.standings.items()}
    shared, alone, best = gains[SHARED], gains[ALONE], gains[HINDSIGHT]
    if shared is None or alone is None or best is None:
        return ""
    today, single = (setting(stage.space[arm]) for arm in (stage.today, findings.best_arm))
    users, more = findings.users.sum(axis=2).mean(), "more" if shared.value >= 0 else "fewer"
    return typeset(
        f" With it, {abs(shared.value):,.0f} {more} of {users:,.0f} connected users were satisfied at any time than "
        f"with {today} everywhere (95 % interval: {interval(shared, ',.0f')}); learning alone gained "
        f"{alone.value:,.0f}. The best single setting for all, {single}, would have gained {best.value:,.0f}, had "
        "anybody known it beforehand."
    )


def trials(arrived: int | None, findings: Findings) -> str:
    """Return the trials a station until the network is near the best attainable, as text."""
    return f"more than {findings.rounds}" if arrived is None else str(arrived)


def arrivals(standing: Standing, findings: Findings) -> str:
    """Return the fewest and the most trials of single runs, as text."""
    late = findings.rounds + 1
    first, *_, last = sorted(standing.arrivals, key=lambda count: count or late)
    return f"{trials(first, findings)} to {trials(last, findings)}"


def for_operators(findings: Findings, words: Words) -> str:
    """Say how soon the network is near the best attainable, what was risked, and what is gained by then."""
    return " ".join(filter(None, (_how_soon(findings, words), _at_what_risk(findings, words), _by_then(findings))))


def _how_soon(findings: Findings, words: Words) -> str:
    shared, alone = (findings.standings[name].arrived for name in (SHARED, ALONE))
    where = f"within {words.near} of the best attainable"
    if shared is None and alone is None:
        return f"Neither sharing nor learning alone came {where} in {findings.rounds} rounds."
    if shared == alone:
        return f"The network came {where} after {shared} trials a {words.station}, with sharing as alone."
    late = findings.rounds + 1
    (first, soon), (second, then) = sorted(
        (("with sharing", shared), ("alone", alone)), key=lambda way: late if way[1] is None else way[1]
    )
    rest = f"not in {findings.rounds}" if then is None else f"after {then}"
    single = " and ".join(arrivals(findings.standings[name], findings) for name in (SHARED, ALONE))
    return (
        f"The network came {where} after {soon} trials a {words.station} {first}, {second} {rest}; in single runs it "
        f"took {single}, sharing first."
    )


def _at_what_risk(findings: Findings, words: Words) -> str:
    stage = findings.demo.stage
    shared, alone = (findings.standings[name] for name in (SHARED, ALONE))
    return (
        f"Of the decisions, {shared.worse.mean():.0%} with sharing and {alone.worse.mean():.0%} alone were in "
        f"expectation worse than {setting(stage.space[stage.today])}, {shared.far_worse.mean():.1%} and "
        f"{alone.far_worse.mean():.1%} by more than {words.near}."
    )


def _by_then(findings: Findings) -> str:
    arrived = findings.standings[SHARED].arrived
    if arrived is None or not findings.demo.stage.counts_users:
        return ""
    shared, alone = (findings.gain_by(name, arrived) for name in (SHARED, ALONE))
    return typeset(
        f"By trial {arrived}, sharing satisfied {abs(shared):,.0f} {'more' if shared >= 0 else 'fewer'} users than "
        f"today's setting, learning alone {abs(alone):,.0f} {'more' if alone >= 0 else 'fewer'}."
    )


def named(findings: Findings, station: str) -> str:
    """Return a station's name with its kind of place, if that is known."""
    city = findings.demo.stage.city
    kind = city.kind_of(station) if city else None
    return f"{station} ({kind})" if kind else station
