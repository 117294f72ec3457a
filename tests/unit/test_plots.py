"""Plots: what is drawn is what is known, into axes that are given or new ones."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from kinband import ConfigurationSpace, Controller, TaskMatrix
from kinband.diagnostics import audit
from kinband.errors import BadInputError
from kinband.plots import plot_calibration, plot_history, plot_posterior, plot_regret, plot_similarity
from kinband.stats import REACH

SPACE = ConfigurationSpace(tilt=[2, 4, 8], scheduler=["pf", "rr"])


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def controller() -> Controller:
    rng = np.random.default_rng(3)
    made = Controller(SPACE, ["a", "b"], state={"load": (0, 1)}, mean=0.6, noise=0.002, similarity="pooled", seed=3)
    for _ in range(8):
        for station in "ab":
            decision = made.ask(station, {"load": float(rng.random())})
            assert decision.configuration is not None
            made.tell(decision.id, 0.5 + 0.03 * decision.configuration["tilt"] + 0.05 * float(rng.normal()))
    made.ask("a", {"load": 0.5})  # which waits for its reward
    return made


def heights_of(ax: Axes) -> Any:
    """Return the heights of the corners of the band of a plot."""
    return np.asarray(ax.collections[0].get_paths()[0].vertices)[:, 1]


def line(ax: Axes, label: str) -> tuple[Any, Any]:
    """Return what a line of a plot shows."""
    found = next(one for one in ax.get_lines() if str(one.get_label()).startswith(label))
    return np.asarray(found.get_xdata()).tolist(), np.asarray(found.get_ydata()).tolist()


def test_a_posterior_shows_means_bands_and_what_was_tried(controller: Controller) -> None:
    ax = plot_posterior(controller, "a", {"load": 0.4})
    choice = controller.consider("a", {"load": 0.4})
    assert choice.mean is not None
    assert choice.std is not None
    kept = [i for i, arm in enumerate(choice.arms) if SPACE[int(arm)]["scheduler"] == SPACE[choice.arm]["scheduler"]]
    assert line(ax, "expected") == ([2.0, 4.0, 8.0], pytest.approx(choice.mean[kept].tolist()))
    assert heights_of(ax).max() == pytest.approx((choice.mean + REACH * choice.std)[kept].max())
    tried, earned = line(ax, "tried (8)")
    own = [one for one in controller.observations() if one.task == 0]
    assert tried == [SPACE[one.arm]["tilt"] for one in own]
    assert earned == [one.reward for one in own]
    assert line(ax, "would be")[0] == [SPACE[choice.arm]["tilt"]]
    assert (ax.get_xlabel(), ax.get_title(loc="left")) == ("tilt", "a: load 0.4")


def test_a_knob_of_names_has_them_as_ticks(controller: Controller) -> None:
    ax = plot_posterior(controller, "a", {"load": 0.4}, knob="scheduler")
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["pf", "rr"]
    assert set(line(ax, "tried")[0]) <= {0, 1}


def test_a_history_shows_what_was_predicted_and_earned_decision_by_decision(controller: Controller) -> None:
    ax = plot_history(controller, "a")
    frame = controller.decisions_frame()
    own = frame[frame["station"] == "a"]
    assert line(ax, "predicted") == (list(range(1, 10)), pytest.approx(own["mean"].tolist()))
    earned = line(ax, "earned")[1]
    assert earned[:8] == pytest.approx(own["reward"].tolist()[:8])
    assert np.isnan(earned[8])
    arms = [controller.journal.ran(key) for key in own["id"]]
    assert line(ax, "changed")[0] == [n + 1 for n in range(1, 9) if arms[n] != arms[n - 1]]


def test_regret_is_the_mean_over_runs_with_two_standard_errors() -> None:
    runs = np.array([[3.0, 1.0, 0.0], [1.0, 1.0, 2.0]])
    frame = pd.DataFrame(
        [("x", seed, t + 1, value) for seed, row in enumerate(runs) for t, value in enumerate(row)],
        columns=["learner", "seed", "round", "regret"],
    )
    for given in ({"x": runs}, frame):
        ax = plot_regret(given, labels={"x": "ours"})
        assert line(ax, "ours") == ([1, 2, 3], [2.0, 1.0, 1.0])
        heights = heights_of(ax)
        assert (heights.min(), heights.max()) == pytest.approx((-1.0, 4.0))  # 2 ± 2, 1 ± 0, 1 ± 2


def test_calibration_puts_the_share_found_over_the_share_promised(controller: Controller) -> None:
    found = audit(controller)
    shares = [100 * found.calibration.overall.coverage[level].value for level in (0.5, 0.8, 0.95)]
    for source in (controller, found):
        ax = plot_calibration(source)
        points = [point for point in ax.get_lines() if point.get_marker() == "D"]
        assert [float(np.asarray(point.get_xdata())[0]) for point in points] == [50, 80, 95]
        assert [float(np.asarray(point.get_ydata())[0]) for point in points] == pytest.approx(shares)


def test_similarity_puts_like_beside_like_and_writes_numbers() -> None:
    K_Z = np.array([[1.0, 0.1, 0.9], [0.1, 1.0, 0.1], [0.9, 0.1, 1.0]])
    ax = plot_similarity(TaskMatrix(("a", "b", "c"), K_Z, "given"))
    names = [tick.get_text() for tick in ax.get_yticklabels()]
    assert abs(names.index("a") - names.index("c")) == 1
    assert sorted({text.get_text() for text in ax.texts}) == ["0.10", "0.90", "1.00"]


def test_plots_draw_into_axes_that_are_given(controller: Controller) -> None:
    _, panels = plt.subplots(1, 5)
    drawn = [
        plot_posterior(controller, "b", {"load": 0.1}, ax=panels[0]),
        plot_history(controller, "b", ax=panels[1]),
        plot_regret({"x": [1.0, 2.0]}, ax=panels[2]),
        plot_calibration(controller, ax=panels[3]),
        plot_similarity(controller.similarity, ax=panels[4]),
    ]
    assert drawn == list(panels)
    assert len(plt.get_fignums()) == 1


def test_what_cannot_be_drawn_is_refused(controller: Controller) -> None:
    with pytest.raises(BadInputError) as knob:
        plot_posterior(controller, "a", {"load": 0.4}, knob="power")
    with pytest.raises(BadInputError) as station:
        plot_history(Controller(SPACE, ["a"]), "a")
    with pytest.raises(BadInputError) as runs:
        plot_regret(pd.DataFrame({"learner": ["x"], "regret": [1.0]}))
    twice = pd.DataFrame({"learner": ["x"] * 2, "seed": [0, 0], "round": [1, 1], "regret": [1.0, 2.0]})
    with pytest.raises(BadInputError) as problems:
        plot_regret(twice)
    with pytest.raises(BadInputError) as policy:
        plot_posterior(Controller(SPACE, ["a"], policy="random"), "a")
    refused = [error.value.argument for error in (knob, station, runs, problems, policy)]
    assert refused == ["knob", "station", "runs", "runs", "controller"]
