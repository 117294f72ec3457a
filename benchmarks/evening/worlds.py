"""Networks with a known truth: what every setting of every station earns on average over the week after the log.

Stations are of a few hidden kinds. A kind has a best setting, which moves as load rises and falls over the day, so that
the best of an instant is not the best of the week; a station deviates from its kind, and has a level of its own. The
log's state is the load of the hour before, as counters give it. What a station earns,

    r = level + slope·x − Σ_k bend_k (u_k − peak_k − shift_k·x)² + neighbours + shocks + noise,   x = load − 1/2,

is a square in x, so its mean over a week needs only the mean of x and of x² over that week. Neighbours add to each
other's rewards, so the whole effect of a change is known station by station, too. Knobs u are scaled to 0 … 1.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from types import MappingProxyType
from typing import Literal

import numpy as np
import pandas as pd

from kinband.arrays import FloatArray, IntArray

WEEK = 168
"""Hours that a plan is judged over, from the end of the log."""
BEGUN = "2024-03-04"  # a Monday
REWARD, STATE = "rate_mbps", "load_before"

TILT: Mapping[str, tuple[float, ...]] = MappingProxyType({"tilt": tuple(range(9))})
HANDOVER: Mapping[str, tuple[float, ...]] = MappingProxyType(
    {"threshold": (-110, -106, -102, -98, -94), "hysteresis": (1, 2, 3, 4)}
)


@dataclass(frozen=True)
class Recipe:
    """What a network and its log are like; sizes of shocks and spill are in standard deviations of the noise.

    Attributes:
        stations: How many.
        hours: Rows of each.
        knobs: Values of each knob.
        noise: Standard deviation of a reward around its mean, in Mbit/s.
        begins: The hour of the day at which the log begins.
        tried: Fewest and most settings that a station tried; all of them if None.
        hold: Hours that a setting stays.
        habit: How far what a station usually runs follows the best of its kind, 0 to 1.
        day_shock: Of a day, on all stations.
        station_shock: Of a day, on each station by itself.
        spill: What each of four neighbours loses when a station's first knob goes from one end to the other.
        leak: Whether the log has one more column that is known too late: nearly the reward, or moved by the knob.
    """

    stations: int = 40
    hours: int = 168
    knobs: Mapping[str, tuple[float, ...]] = field(default_factory=lambda: TILT)
    noise: float = 0.5
    begins: int = 0
    tried: tuple[int, int] | None = None
    hold: int = 1
    habit: float = 0.0
    day_shock: float = 0.0
    station_shock: float = 0.0
    spill: float = 0.0
    leak: Literal["reward", "knob"] | None = None


@dataclass(frozen=True, eq=False)
class World:
    """A network of M stations with N settings of K knobs, and its log of T hours.

    Attributes:
        recipe: What it was drawn by.
        names: Of the stations.
        level, slope: Of each station, (M,).
        peak, shift, bend: Of each station and knob, (M, K).
        load: Of each station from the hour before the log to the end of the week after it, (M, 1 + T + WEEK).
        arms: Which setting each station ran, (M, T).
        links: The neighbours of each station, (M, 4), or (M, 0) if they do not matter.
        rewards: What was measured, (M, T).

    Example:
        >>> world = draw(Recipe(stations=6, hours=48), np.random.default_rng(0))
        >>> world.own.shape, world.frame().columns.tolist()
        ((6, 9), ['cell', 'time', 'load_before', 'tilt', 'rate_mbps'])
    """

    recipe: Recipe
    names: tuple[str, ...]
    level: FloatArray
    slope: FloatArray
    peak: FloatArray
    shift: FloatArray
    bend: FloatArray
    load: FloatArray
    arms: IntArray
    links: IntArray
    rewards: FloatArray

    @property
    def present(self) -> IntArray:
        """The setting that each station runs at the end of its log, (M,)."""
        return self.arms[:, -1]

    @cached_property
    def own(self) -> FloatArray:
        """Mean reward of each station with each setting over the week after the log, neighbours left out, (M, N)."""
        x = self.load[:, -WEEK:] - 0.5
        return self._mean(scaled(self.recipe.knobs)[None], x.mean(axis=1)[:, None], (x**2).mean(axis=1)[:, None])

    @cached_property
    def worth(self) -> FloatArray:
        """The same with what its neighbours gain and lose by it, (M, N)."""
        reached = np.bincount(self.links.ravel(), minlength=len(self.names))
        return np.asarray(self.own + reached[:, None] * spilled(self.recipe)[None])

    def _mean(self, u: FloatArray, x: FloatArray, x2: FloatArray) -> FloatArray:
        """Mean reward, (M, n), with knobs u (M or 1, n, K) where x (M, n) and x² have these means."""
        away = u - self.peak[:, None]
        square = away**2 - 2 * away * self.shift[:, None] * x[..., None] + self.shift[:, None] ** 2 * x2[..., None]
        return np.asarray(
            self.level[:, None] + self.slope[:, None] * x - (self.bend[:, None] * square).sum(axis=2), dtype=float
        )

    def expected(self) -> FloatArray:
        """Mean reward in every hour of the log, shocks and noise left out, (M, T)."""
        x = self.load[:, 1:-WEEK] - 0.5
        spill = spilled(self.recipe)[self.arms]
        mean = self._mean(scaled(self.recipe.knobs)[self.arms], x, x**2)
        return np.asarray(mean + spill[self.links].sum(axis=1))

    def first(self, stations: int) -> "World":
        """Return its first stations by themselves."""
        if self.links.size:
            raise ValueError("stations that feel their neighbours cannot be taken out of their network")
        names = ("level", "slope", "peak", "shift", "bend", "load", "arms", "links", "rewards")
        return replace(self, names=self.names[:stations], **{name: getattr(self, name)[:stations] for name in names})

    def frame(self) -> pd.DataFrame:
        """Return the log, hour by hour within each station."""
        M, T = self.arms.shape
        hours = (
            pd.date_range(f"{BEGUN} {self.recipe.begins:02d}:00", periods=T, freq="h")
            .strftime("%Y-%m-%d %H:%M")
            .to_numpy()
        )
        columns = {"cell": np.repeat(self.names, T), "time": np.tile(hours, M)}
        columns |= {STATE: self.load[:, : -WEEK - 1].ravel().round(4)}
        values = settings_of(self.recipe.knobs)[self.arms.ravel()]
        columns |= {knob: values[:, k] for k, knob in enumerate(self.recipe.knobs)}
        columns |= {REWARD: self.rewards.ravel().round(4), **self._leaking()}
        return pd.DataFrame(columns)

    def _leaking(self) -> dict[str, FloatArray]:
        """The column that is measured in the same hour as the reward, if there is one."""
        blur = np.random.default_rng(len(self.names)).normal(size=self.rewards.shape)
        if self.recipe.leak == "reward":
            return {"volume_gb": (0.45 * (self.rewards + 0.1 * self.recipe.noise * blur)).ravel().round(4)}
        if self.recipe.leak == "knob":
            moved = 100 + 60 * scaled(self.recipe.knobs)[self.arms, 0] + 20 * self.load[:, 1:-WEEK] + 2 * blur
            return {"attempts": moved.ravel().round(2)}
        return {}

    def states(self) -> pd.DataFrame:
        """Return the stations as they are at the end of the log: the last hour of the export, and its load."""
        last = self.frame().groupby("cell", sort=False).tail(1).drop(columns=["time", REWARD])
        return last.assign(**{STATE: self.load[:, -WEEK - 1].round(4)})


def settings_of(knobs: Mapping[str, tuple[float, ...]]) -> FloatArray:
    """Return every setting, (N, K), the last knob changing fastest.

    Example:
        >>> settings_of({"a": (1, 2), "b": (5, 6, 7)})[:4].tolist()
        [[1, 5], [1, 6], [1, 7], [2, 5]]
    """
    return np.array(list(product(*knobs.values())))


def scaled(knobs: Mapping[str, tuple[float, ...]]) -> FloatArray:
    """Return every setting with each knob from 0 to 1, (N, K)."""
    values = settings_of(knobs)
    low, high = values.min(axis=0), values.max(axis=0)
    return np.asarray((values - low) / (high - low))


def spilled(recipe: Recipe) -> FloatArray:
    """Return what a setting adds to the reward of each neighbour, (N,)."""
    return np.asarray(-recipe.spill * recipe.noise * scaled(recipe.knobs)[:, 0])


# --- Drawing a world ------------------------------------------------------------------------------------------------


def draw(recipe: Recipe, rng: np.random.Generator) -> World:
    """Return a network with its log; the same recipe and seed give the same one."""
    M, K, kinds = recipe.stations, len(recipe.knobs), int(rng.integers(3, 7))
    kind = rng.integers(kinds, size=M)
    best = _spread(kinds, K, rng)
    way = rng.choice([-1.0, 1.0], size=(kinds, K)) * rng.uniform(0.3, 0.6, size=(kinds, K))
    bend = rng.uniform(2.0, 8.0, size=(kinds, K))
    arms = _arms(recipe, best[kind], rng)
    world = World(
        recipe,
        tuple(f"C{m:05d}" for m in range(1, M + 1)),
        level=rng.normal(20.0, 3.0, size=M),
        slope=rng.normal(-6.0, 1.0, size=M),
        peak=best[kind] + rng.normal(0.0, 0.06, size=(M, K)),
        shift=way[kind] * rng.uniform(0.8, 1.2, size=(M, K)),
        bend=bend[kind] * rng.uniform(0.7, 1.3, size=(M, K)),
        load=_loads(recipe, 24.0 * rng.random(kinds)[kind] / 6.0, rng),
        arms=arms,
        links=_links(M, rng) if recipe.spill else np.zeros((M, 0), dtype=np.int64),
        rewards=np.zeros(arms.shape),
    )
    return replace(world, rewards=world.expected() + _disturbed(recipe, rng))


def _spread(kinds: int, knobs: int, rng: np.random.Generator) -> FloatArray:
    """The best settings of kinds, (kinds, K): apart from each other, in an order of their own on each knob."""
    even = np.linspace(0.15, 0.85, kinds)
    return np.column_stack([rng.permutation(even) for _ in range(knobs)])


def _loads(recipe: Recipe, late: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Loads (M, 1 + T + WEEK): a daily wave that comes some hours late (M,), and what lingers for some hours."""
    hours = recipe.begins + np.arange(-1, recipe.hours + WEEK)
    wave = 0.5 - 0.3 * np.cos(2 * np.pi * (hours - 3 - late[:, None]) / 24)
    linger = np.zeros_like(wave)
    for t in range(1, wave.shape[1]):
        linger[:, t] = 0.8 * linger[:, t - 1] + 0.05 * rng.normal(size=len(late))
    return np.clip(wave + linger, 0.02, 0.98)


def _arms(recipe: Recipe, best: FloatArray, rng: np.random.Generator) -> IntArray:
    """Which setting each station ran in each hour, (M, T): one that it tried, and at last what it usually runs."""
    U, M = scaled(recipe.knobs), recipe.stations
    liked = 0.5 + recipe.habit * (best - 0.5) + rng.normal(0.0, 0.2, size=best.shape)
    usual = ((U[None] - liked[:, None]) ** 2).sum(axis=2).argmin(axis=1)
    liking = rng.random((M, len(U)))
    liking[np.arange(M), usual] = -1.0  # whatever else was tried, the usual setting was
    order = liking.argsort(axis=1)
    low, high = recipe.tried or (len(U), len(U))
    many = rng.integers(low, high + 1, size=M)
    blocks = -(-recipe.hours // recipe.hold)
    drawn = np.take_along_axis(order, (rng.random((M, blocks)) * many[:, None]).astype(np.int64), axis=1)
    drawn[:, -1] = usual
    return np.repeat(drawn, recipe.hold, axis=1)[:, : recipe.hours]


def _links(stations: int, rng: np.random.Generator) -> IntArray:
    """The four nearest of each station, (M, 4), wherever the stations are."""
    at = rng.random((stations, 2))
    apart = ((at[:, None] - at[None]) ** 2).sum(axis=2)
    return np.asarray(apart.argsort(axis=1)[:, 1:5])


def _disturbed(recipe: Recipe, rng: np.random.Generator) -> FloatArray:
    """Noise and shocks, (M, T)."""
    M, T = recipe.stations, recipe.hours
    day = (recipe.begins + np.arange(T)) // 24
    shocks = recipe.day_shock * rng.normal(size=(1, day[-1] + 1))
    shocks = shocks + recipe.station_shock * rng.normal(size=(M, day[-1] + 1))
    return np.asarray(recipe.noise * (rng.normal(size=(M, T)) + shocks[:, day]))
