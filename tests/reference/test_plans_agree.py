"""Change plans for a period against the textbook: covariances by loops, an explicit inverse, every mean a sum."""

from typing import Any

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from kinband import ConfigurationSpace
from kinband.contexts import ContextEncoder, StateScaler
from kinband.kernels import RBF, Constant, FixedTasks, Kernel, Matern52
from kinband.likelihood import Shocks, log_marginal_likelihood
from kinband.planning import Limits, Period, Present
from kinband.planning.evidence import EvidenceRows, GroupPosterior, averaged, evidence_rows
from kinband.planning.making import Group, RankedChange, Rules, plan_group
from kinband.records import Samples

VALUES = (0, 2, 4, 6)
STATIONS = ("a", "b", "c")


class World:
    """Rows of three stations with days and spells, a kernel with random parameters, and a period for each station."""

    def __init__(self, seed: int, *, split: bool, days: bool = False) -> None:
        rng = np.random.default_rng(seed)
        n = 40
        W = rng.normal(size=(3, 2))
        self.K_Z = W @ W.T + np.diag(rng.uniform(0.1, 1.0, 3))
        self.scale, self.v, self.level = rng.uniform(0.5, 2.0, 2), rng.uniform(0.3, 3.0), rng.uniform(0.1, 1.0)
        self.split = split
        self.noise, self.shocks = rng.uniform(0.02, 0.5), Shocks(rng.uniform(0.05, 1.0), rng.uniform(0.05, 1.0))
        self.mean = rng.normal()
        self.tasks, self.load, self.arms = rng.integers(0, 3, n), rng.random(n), rng.integers(0, 4, n)
        self.day, self.spell = rng.integers(0, 3, n), rng.integers(0, 12, n)
        self.y = rng.normal(size=n) + 0.6 * np.array(VALUES)[self.arms]
        self.space, self.scaler = ConfigurationSpace(tilt=VALUES), StateScaler.from_ranges({"load": (0.0, 1.0)})
        self.encoder = ContextEncoder(self.scaler, self.space)
        self.periods = {
            name: Period(rng.random((9, 1)), rng.integers(0, 3, 9), np.arange(9) // 3 if days else None)
            for name in STATIONS
        }

    @property
    def kernel(self) -> Kernel:
        if self.split:
            return RBF(self.scale.tolist(), variance=self.v) + Constant(self.level)
        return Matern52(self.scale.tolist(), variance=self.v) + Constant(self.level)

    def k(self, one: Any, other: Any) -> float:
        r2 = float((((one - other) / self.scale) ** 2).sum())
        if self.split:
            return float(self.v * np.exp(-0.5 * r2) + self.level)
        r = np.sqrt(5.0 * r2)
        return float(self.v * (1 + r + r * r / 3) * np.exp(-r) + self.level)

    def x(self, load: Any, arm: Any) -> Any:
        return np.append(self.scaler.transform(np.array([[load]]))[0], self.space.features[arm])

    def samples(self) -> Samples:
        X = np.array([self.x(load, arm) for load, arm in zip(self.load, self.arms, strict=True)])
        names = ("load", "tilt")
        return Samples(STATIONS, self.tasks, X, self.y, None, names, days=self.day, spells=self.spell)

    def covariance(self) -> Any:
        """Of all rewards, entry by entry."""
        X, n = self.samples().X, len(self.y)
        C = np.empty((n, n))
        for i in range(n):
            for j in range(n):
                C[i, j] = self.K_Z[self.tasks[i], self.tasks[j]] * self.k(X[i], X[j])
                C[i, j] += self.shocks.day * (self.day[i] == self.day[j])
                C[i, j] += self.shocks.spell * (self.spell[i] == self.spell[j])
                C[i, j] += self.noise * (i == j)
        return C

    def believed(self, task: int, terms: list[tuple[float, Any]], *, alone: bool = False) -> tuple[float, float]:
        """Mean and standard deviation of a weighted sum of f of one station, from all rows or its own alone."""
        X, C = self.samples().X, self.covariance()
        rows = np.flatnonzero(self.tasks == task) if alone else np.arange(len(self.y))
        C = C[np.ix_(rows, rows)]
        c = [sum(w * self.K_Z[self.tasks[i], task] * self.k(X[i], x) for w, x in terms) for i in rows]
        prior = sum(w * v * self.K_Z[task, task] * self.k(x, z) for w, x in terms for v, z in terms)
        a = np.linalg.inv(C) @ np.array(c)
        mean = sum(w for w, _ in terms) * self.mean + float(a @ (self.y[rows] - self.mean))
        return mean, float(np.sqrt(prior - a @ np.array(c)))

    def average(self, name: str, arm: int, hour: int | None = None) -> list[tuple[float, Any]]:
        """f̄ as a weighted sum: over the rows of an hour, or over hours that count alike."""
        period = self.periods[name]
        assert period.hours is not None
        terms: list[tuple[float, Any]] = []
        hours = sorted(set(period.hours.tolist())) if hour is None else [hour]
        for one in hours:
            rows = np.flatnonzero(period.hours == one)
            terms += [(1 / len(hours) / len(rows), self.x(period.states[t, 0], arm)) for t in rows]
        return terms

    def gain(self, name: str, arm: int, present: int, hour: int | None = None) -> tuple[float, float]:
        terms = self.average(name, arm, hour) + [(-w, x) for w, x in self.average(name, present, hour)]
        return self.believed(STATIONS.index(name), terms)

    def of_days(self, name: str, arm: int, present: int, hour: int | None = None) -> float:
        """Variance of the gain of the days to come, from the gain without each of the period's three."""
        whole = self.periods[name]
        assert whole.hours is not None
        without = []
        for day in range(3):
            rows = np.arange(9) // 3 != day
            if hour is not None and not (rows & (whole.hours == hour)).any():
                return 0.0  # one day has it
            if hour is None or ((~rows) & (whole.hours == hour)).any():
                self.periods[name] = Period(whole.states[rows], whole.hours[rows])
                without.append(self.gain(name, arm, present, hour)[0])
        self.periods[name] = whole
        D = len(without)
        return (D - 1) / D * sum((one - sum(without) / D) ** 2 for one in without) * (1 + D / 7)

    def plan(self, present: int) -> dict[str, Any]:
        told = evidence_rows(self.samples(), self.noise)
        evidence = GroupPosterior(self.kernel, self.K_Z, told, mean=self.mean, shocks=self.shocks)
        group = Group.of(self.encoder, STATIONS, evidence)
        now = {name: Present({}, {"tilt": VALUES[present]}, self.periods[name]) for name in STATIONS}
        found = plan_group(group, now, Rules(None, 0.0, Limits(self.space)))
        return dict(zip(STATIONS, found, strict=True))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("split", [True, False], ids=["product kernel", "other kernel"])
def test_gains_over_a_period_agree(seed: int, split: bool) -> None:
    world, present = World(seed, split=split), seed % len(VALUES)
    proposed = 0
    for name, one in world.plan(present).items():
        task = STATIONS.index(name)
        means = [world.believed(task, world.average(name, arm))[0] for arm in range(len(VALUES))]
        best = int(np.argmax(means))
        if best == present:
            assert one.why == "best already"
            continue
        gain, std = world.gain(name, best, present)
        change = one.change if isinstance(one, RankedChange) else one
        assert dict(change.proposed) == {"tilt": VALUES[best]}
        assert change.gain.value == pytest.approx(gain, abs=1e-8)
        assert [change.gain.low, change.gain.high] == pytest.approx([gain - 1.96 * std, gain + 1.96 * std], abs=1e-4)
        if isinstance(one, RankedChange):
            proposed += 1
            assert change.expected == pytest.approx(means[best], abs=1e-8)
            assert change.std == pytest.approx(world.believed(task, world.average(name, best))[1], abs=1e-8)
            alone = world.believed(task, world.average(name, best), alone=True)[1]
            assert change.std_alone == pytest.approx(alone, abs=1e-8)
            for hour, found in change.by_hour.items():
                mean, spread = world.gain(name, best, present, hour)
                assert [found.value, found.high] == pytest.approx([mean, mean + 1.96 * spread], abs=1e-4)
        else:
            assert change.gain.low <= 0
    assert proposed or present == 3


@pytest.mark.parametrize("seed", range(4))
def test_that_days_differ_widens_the_interval_of_a_gain(seed: int) -> None:
    world, seen = World(seed, split=True, days=True), 0
    for name, one in world.plan(0).items():
        change = one.change if isinstance(one, RankedChange) else one
        if change.proposed is None or change.gain is None or dict(change.proposed) == {"tilt": 0}:
            continue
        arm = VALUES.index(change.proposed["tilt"])
        gain, std = world.gain(name, arm, 0)
        std = np.hypot(std, np.sqrt(world.of_days(name, arm, 0)))
        assert [change.gain.value, change.gain.high] == pytest.approx([gain, gain + 1.96 * std], abs=1e-4)
        for hour, found in one.change.by_hour.items() if isinstance(one, RankedChange) else ():
            gain, std = world.gain(name, arm, 0, hour)
            variance = world.of_days(name, arm, 0, hour)
            assert [found.value, found.high] == pytest.approx(
                [gain, gain + 1.96 * np.hypot(std, np.sqrt(variance))], abs=1e-4
            )
            seen += variance > 0
    assert seen


@pytest.mark.parametrize("seed", range(4))
def test_the_likelihood_of_shocks_is_that_of_the_whole_covariance(seed: int) -> None:
    world = World(seed, split=True)
    value = log_marginal_likelihood(
        world.samples(), world.kernel, tasks=FixedTasks(world.K_Z), noise=world.noise, mean=world.mean,
        shocks=world.shocks,
    )  # fmt: skip
    assert value == pytest.approx(multivariate_normal.logpdf(world.y, np.full(40, world.mean), world.covariance()))


@pytest.mark.parametrize("seed", range(4))
def test_means_of_rows_in_the_same_state_say_exactly_what_the_rows_say(seed: int) -> None:
    world = World(seed, split=True)
    world.load = np.round(world.load, 0)  # two states: rows repeat
    told = evidence_rows(world.samples(), world.noise)
    few = averaged(told, most=24, columns=[1])
    assert len(few) <= 24 < len(told) == few.count.sum()
    (mean, known), (mean_of_few, known_of_few) = (said(world, rows, None) for rows in (told, few))
    assert [mean_of_few, known_of_few] == pytest.approx([mean, known], abs=1e-9)
    # With shocks, rows of different spells that are taken together lose which of them earned what: never more is known.
    assert said(world, few, world.shocks)[1] <= said(world, told, world.shocks)[1] + 1e-9


def said(world: World, rows: EvidenceRows, shocks: Shocks | None) -> tuple[float, float]:
    """What is expected at one context of station b, and by how much rows reduce its variance."""
    evidence = GroupPosterior(world.kernel, world.K_Z, rows, mean=world.mean, shocks=shocks)
    c = evidence.kernel.cross(rows.tasks, rows.X, np.array([1]), np.array([world.x(0.3, 2)]))
    return float(evidence.means(c)[0]), float((evidence.solved(c) ** 2).sum())
