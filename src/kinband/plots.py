"""Plots of what a controller believes and did, each into Matplotlib axes of yours or into new ones, which it returns.

    import matplotlib.pyplot as plt
    from kinband import plots

    figure, (left, right) = plt.subplots(1, 2)
    plots.plot_posterior(controller, "3714", {"load": 0.4}, ax=left)
    plots.plot_history(controller, "3714", ax=right)

The reports draw with the same functions. Matplotlib is loaded when something is drawn, not before.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from kinband.arrays import FloatArray
from kinband.controller import Controller
from kinband.diagnostics import Audit, audit
from kinband.diagnostics.calibration import FITS, LEVELS, NARROW, WIDE
from kinband.errors import BadInputError
from kinband.similarity import TaskMatrix
from kinband.similarity.picture import draw_matrix
from kinband.stats import REACH

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

__all__ = ["plot_calibration", "plot_history", "plot_posterior", "plot_regret", "plot_similarity"]

# --- How plots look: colours for roles and series, told apart by every kind of sight (Okabe and Ito 2008) -----------

INK, FAINT, LINE, PAPER, GREY = "#1c2733", "#5b6875", "#dde3e8", "#ffffff", "#8a939c"
ORANGE, BLUE, PURPLE = "#d55e00", "#0a84c4", "#b5689a"
SERIES = (ORANGE, BLUE, PURPLE, "#009e73", "#e0b73a", "#56b4e9", GREY)
"""Colours of several curves, in this order."""
_DASHED = (0, (4, 2))
_DOTS = 400  # stations that are drawn one by one


def plot_posterior(
    controller: Controller,
    station: str,
    state: Mapping[str, float] | None = None,
    *,
    knob: str | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw what a station is expected to earn by a knob: mean, 95 % band without noise, and what was tried.

    Dots are the rewards known of the station, in whatever states it was. The ring is what would be decided now. Where
    there are several knobs, the others are held at what would be decided.

    Args:
        controller: What has learned.
        station: The station.
        state: Its state, as `ask` takes it.
        knob: Along which knob; the first if not given.
        ax: Where to draw; new axes if not given.

    Example:
        >>> from kinband import ConfigurationSpace
        >>> controller = Controller(ConfigurationSpace(tilt=[2, 4, 6, 8]), ["a"], mean=0.5, seed=0)
        >>> controller.tell(controller.ask("a").id, 0.8)
        >>> plot_posterior(controller, "a").get_xlabel()
        'tilt'
    """
    space, choice = controller.space, controller.consider(station, state)
    knob = next(iter(space.knobs)) if knob is None else knob
    if knob not in space.knobs:
        raise BadInputError(
            f"there is no knob {knob!r:.60}", hint=f"choose from {', '.join(space.knobs)}", argument="knob", value=knob
        )
    if choice.mean is None or choice.std is None:
        raise BadInputError(
            "this policy predicts no rewards", hint="use one that does, such as ucb", argument="controller"
        )
    ax = _axes(ax)
    others = {name: value for name, value in space[choice.arm].items() if name != knob}
    kept = [i for i, arm in enumerate(choice.arms) if _agrees(space[int(arm)], others)]
    values = [space[int(choice.arms[i])][knob] for i in kept]
    named = list(space.knobs).index(knob) in space.categorical
    x = np.array([space.knobs[knob].index(value) for value in values] if named else values, dtype=np.float64)
    order = np.argsort(x)
    x, mean, std = x[order], choice.mean[kept][order], choice.std[kept][order]
    _belief(ax, x, mean, std, named=named)
    _tried(ax, controller, station, knob=knob, named=named)
    here = space.knobs[knob].index(space[choice.arm][knob]) if named else space[choice.arm][knob]
    best = float(choice.mean[list(choice.arms).index(choice.arm)])
    ax.plot([here], [best], "o", markersize=11, markerfacecolor="none", color=INK, label="would be decided", zorder=5)
    if named:
        ax.set_xticks(range(len(space.knobs[knob])), [str(value) for value in space.knobs[knob]])
    ax.set_title(_with_state(station, state), loc="left")
    return finish(ax, x=knob, y="reward", legend=True)


def plot_history(controller: Controller, station: str, *, ax: "Axes | None" = None) -> "Axes":
    """Draw what a station earned, decision by decision, over what was predicted when asking; ticks are changes.

    Args:
        controller: What has decided.
        station: The station.
        ax: Where to draw; new axes if not given.

    Example:
        >>> from kinband import ConfigurationSpace
        >>> controller = Controller(ConfigurationSpace(tilt=[2, 4, 6, 8]), ["a"], mean=0.5, seed=0)
        >>> controller.tell(controller.ask("a").id, 0.8)
        >>> plot_history(controller, "a").get_ylabel()
        'reward'
    """
    journal = controller.journal
    asked = [one for one in journal.asked.values() if one.decision.station == station]
    if not asked:
        raise BadInputError(
            f"nothing was decided for {station!r:.60}", hint="ask for it first", argument="station", value=station
        )
    ax, number = _axes(ax), np.arange(1, len(asked) + 1)
    mean, std = (np.array([getattr(one.decision, name) for one in asked], dtype=np.float64) for name in ("mean", "std"))
    reward = np.array([journal.reward(one.decision.id) for one in asked], dtype=np.float64)
    arms = np.array([journal.ran(one.decision.id) for one in asked])
    if np.isfinite(mean).any():
        ax.fill_between(number, mean - REACH * std, mean + REACH * std, color=BLUE, alpha=0.15, linewidth=0)
        ax.plot(number, mean, color=BLUE, linewidth=1.6, label="predicted, 95 % band without noise")
    ax.plot(number, reward, "o", color=ORANGE, markersize=4.5, markeredgewidth=0, label="earned")
    changed = number[1:][np.diff(arms) != 0]
    if len(changed):
        ax.plot(changed, np.full(len(changed), 0.03), "|", color=INK, markersize=9, transform=ax.get_xaxis_transform(),
                clip_on=False, label="changed")  # fmt: skip
    ax.set_title(station, loc="left")
    return finish(ax, x="decision", y="reward", legend=True, whole=True)


def plot_regret(
    runs: "Mapping[str, Any] | DataFrame",
    *,
    labels: Mapping[str, str] | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw curves over rounds, such as regret: the mean over runs, and two standard errors as a band.

    Args:
        runs: Values by learner, each (runs, rounds) or (rounds,); or a data frame of the columns `learner`, `seed`,
            `round` and `regret`, as `kinband.compare(...).frame()` has them.
        labels: What the legend calls learners, where not as they are.
        ax: Where to draw; new axes if not given.

    Example:
        >>> ax = plot_regret({"shared": [[3, 2, 1], [2, 2, 0]], "alone": [[3, 3, 3], [3, 2, 2]]})
        >>> [text.get_text() for text in ax.get_legend().get_texts()]
        ['shared', 'alone']
    """
    ax, curves = _axes(ax), _curves_of(runs)
    for place, (name, values) in enumerate(curves.items()):
        x, colour = np.arange(1, values.shape[1] + 1), SERIES[place % len(SERIES)]
        draw_band(ax, x, values, colour=colour, label=(labels or {}).get(name, name))
    ax.set_xlim(1, max(2, *(values.shape[1] for values in curves.values())))
    return finish(ax, x="round", y="regret", legend=True, whole=True)


def plot_calibration(
    source: "Controller | Audit", *, ax: "Axes | None" = None, rng: np.random.Generator | None = None
) -> "Axes":
    """Draw how many rewards fell inside 50, 80 and 95 % intervals against what these promise.

    Each dot is a station: orange where its intervals are too narrow, blue where too wide, allowing for many looks. The
    diamonds are all stations together, with a 95 % interval.

    Args:
        source: A controller that was told rewards, or an audit of one.
        ax: Where to draw; new axes if not given.
        rng: Spreads the dots sideways, for the eye alone.

    Example:
        >>> from kinband import ConfigurationSpace
        >>> controller = Controller(ConfigurationSpace(tilt=[2, 4]), ["a"], mean=0.5, noise=0.1, seed=0)
        >>> for reward in (0.4, 0.6, 0.5):
        ...     controller.tell(controller.ask("a").id, reward)
        >>> plot_calibration(controller).get_ylabel()
        'share found (%)'
    """
    found = source if isinstance(source, Audit) else audit(source)
    ax, rng = _axes(ax), np.random.default_rng(0) if rng is None else rng
    told = [s for s in found.calibration.stations if s.rewards][:_DOTS]
    ax.plot([40, 100], [40, 100], color=FAINT, linewidth=1.0, linestyle=_DASHED)
    for level in LEVELS:
        for verdict, colour in ((FITS, GREY), (NARROW, ORANGE), (WIDE, BLUE)):
            share = [100 * s.coverage[level].value for s in told if s.verdict == verdict]
            apart = 100 * level + rng.uniform(-3.0, 3.0, len(share))
            seen = 0.55 if verdict == FITS else 1.0
            ax.plot(apart, share, "o", color=colour, markersize=3.2, markeredgewidth=0, alpha=seen)
        overall = found.calibration.overall.coverage[level]
        value, low, high = 100 * overall.value, 100 * overall.low, 100 * overall.high
        ends = [[value - low], [high - value]] if overall.known else None
        ax.errorbar([100 * level], [value], yerr=ends, fmt="D", color=INK, markersize=5, capsize=4, linewidth=1.6)
    ax.set_xlim(43, 101)
    ax.set_ylim(max(0.0, ax.get_ylim()[0]), 103)
    ax.set_xticks([100 * level for level in LEVELS])
    return finish(ax, x="promised share inside the interval (%)", y="share found (%)")


def plot_similarity(matrix: TaskMatrix, *, title: str | None = None, ax: "Axes | None" = None) -> "Axes":
    """Draw how alike stations are, like beside like; few of them with names and numbers.

    Args:
        matrix: The task matrix, as of `controller.similarity`.
        title: Of the axes; how the matrix was found if not given.
        ax: Where to draw; new axes if not given.

    Example:
        >>> plot_similarity(TaskMatrix(("a", "b"), np.eye(2), "independent")).get_title(loc="left")
        'Similarity by independent'
    """
    ordered = matrix.reindex([matrix.stations[m] for m in matrix.order()])
    ax = _axes(ax)
    draw_matrix(ax, ordered.matrix, stations=ordered.stations)
    ax.set_title(f"Similarity by {matrix.method}" if title is None else title, loc="left", color=INK, parse_math=False)
    return ax


# --- What plots are made of ------------------------------------------------------------------------------------------


def draw_band(ax: "Axes", x: Any, runs: FloatArray, *, colour: str, label: str, dashed: bool = False) -> None:
    """Draw the mean of runs (runs, T) over x (T,), and two standard errors as a band; a dashed line has none."""
    mean = runs.mean(axis=0)
    style: Any = _DASHED if dashed else "-"
    ax.plot(x, mean, color=colour, linewidth=1.4 if dashed else 2.0, linestyle=style, label=label)
    if len(runs) > 1 and not dashed:
        error = 2.0 * runs.std(axis=0, ddof=1) / np.sqrt(len(runs))
        ax.fill_between(x, mean - error, mean + error, color=colour, alpha=0.18, linewidth=0)


def _axes(ax: "Axes | None") -> "Axes":
    if ax is None:
        from matplotlib import pyplot as plt

        _, ax = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
    return ax


def finish(ax: "Axes", *, x: str, y: str, legend: bool = False, whole: bool = False) -> "Axes":
    """Name the axes and quieten them; `whole`, ticks along x are whole numbers."""
    from matplotlib.ticker import MaxNLocator

    ax.set(xlabel=x, ylabel=y)
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(visible=True, axis="y", color=LINE, linewidth=0.8)
    ax.grid(visible=False, axis="x")
    ax.set_axisbelow(True)
    ax.tick_params(length=0)
    if whole:
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    if legend:
        ax.legend(frameon=False, fontsize="small")
    return ax


def _agrees(configuration: Mapping[str, Any], others: Mapping[str, Any]) -> bool:
    return all(configuration[name] == value for name, value in others.items())


def _belief(ax: "Axes", x: FloatArray, mean: FloatArray, std: FloatArray, *, named: bool) -> None:
    """Draw means with their intervals: a line with its band along a quantity, bars of error for names."""
    if named or len(x) == 1:
        ax.errorbar(x, mean, yerr=REACH * std, fmt="s", color=BLUE, markersize=5, capsize=4, label="expected, 95 %")
        return
    ax.fill_between(x, mean - REACH * std, mean + REACH * std, color=BLUE, alpha=0.15, linewidth=0)
    ax.plot(x, mean, color=BLUE, linewidth=2.0, label="expected, 95 % band")


def _tried(ax: "Axes", controller: Controller, station: str, *, knob: str, named: bool) -> None:
    """Draw the rewards known of a station, those of the log that it began with among them."""
    task, values = controller.current.task(station), controller.space.knobs[knob]
    own = [one for one in controller.observations() if one.task == task and one.arm >= 0]
    ran = [controller.space[one.arm][knob] for one in own]
    x = [values.index(value) for value in ran] if named else ran
    if own:
        label = f"tried ({len(own):,})"
        ax.plot(x, [one.reward for one in own], "o", color=ORANGE, alpha=0.6, markersize=4, markeredgewidth=0,
                label=label)  # fmt: skip


def _with_state(station: str, state: Mapping[str, float] | None) -> str:
    known = ", ".join(f"{name} {value:g}" for name, value in (state or {}).items())
    return f"{station}: {known}" if known else station


def _curves_of(runs: "Mapping[str, Any] | DataFrame") -> dict[str, FloatArray]:
    """Return curves by learner, (runs, rounds)."""
    if isinstance(runs, Mapping):
        return {name: np.atleast_2d(np.asarray(values, dtype=np.float64)) for name, values in runs.items()}
    lacking = sorted({"learner", "seed", "round", "regret"} - set(runs.columns))
    if lacking:
        raise BadInputError(
            f"a frame of runs has the columns learner, seed, round and regret, and lacks {', '.join(lacking)}",
            argument="runs",
            value=lacking,
        )
    if runs.duplicated(["learner", "seed", "round"]).any():
        raise BadInputError(
            "a frame of runs has one row for each learner, seed and round",
            hint="take the rows of one problem",
            argument="runs",
        )
    return {
        str(name): own.pivot(index="seed", columns="round", values="regret").to_numpy(dtype=np.float64)
        for name, own in runs.groupby("learner", sort=False)
    }
