"""`MultiTaskRegressor` among scikit-learn's tools: its estimator checks, grid searches, pipelines, routing."""

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_dataframe_column_names_consistency, estimator_checks_generator

from kinband.arrays import FloatArray
from kinband.kernels import RBF, Linear
from kinband.regressor import MultiTaskRegressor
from kinband.similarity import TaskMatrix

# With a task column the checks feed whole numbers, because the regressor's tags say that X holds categories; so
# no check is expected to fail, with or without one.
CHECKED = [
    MultiTaskRegressor(starts=1),
    MultiTaskRegressor(optimise=False),
    MultiTaskRegressor(RBF(0.7, variance=2.0), noise=0.03, mean=0.4, optimise=False, engine="schur"),
    MultiTaskRegressor(task=0, optimise=False),
    MultiTaskRegressor(task=-1, similarity="pooled", optimise=False),
    MultiTaskRegressor(task=0, similarity="embedding", starts=1),
]

ARRAY_API_CHECK = """
import warnings
warnings.simplefilter("error")
from sklearn.utils.estimator_checks import estimator_checks_generator
from kinband.regressor import MultiTaskRegressor
ran = 0
for settings in ({"starts": 1}, {"task": 0, "optimise": False}):
    for model, check in estimator_checks_generator(MultiTaskRegressor(**settings)):
        if "array_api" in str(check):
            check(model)
            ran += 1
print("ran", ran)
"""


def checks() -> list[Any]:
    """Every check of every regressor; those of the array API have a process of their own below."""
    found = []
    for number, model in enumerate(CHECKED):
        for instance, check in estimator_checks_generator(model):
            name = check.func.__name__ if hasattr(check.func, "__name__") else check.func.func.__name__
            if "array_api" not in name:
                found.append(pytest.param(instance, check, id=f"{number}-{name}"))
    return found


@pytest.mark.parametrize(("model", "check"), checks())
def test_the_regressor_passes_every_check_of_scikit_learn(model: Any, check: Any) -> None:
    check(model)


def test_the_regressor_passes_the_check_that_needs_the_array_api() -> None:
    # SciPy reads the switch when it is imported, hence another process.
    result = subprocess.run(
        [sys.executable, "-c", ARRAY_API_CHECK],
        env=os.environ | {"SCIPY_ARRAY_API": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.stdout.split() == ["ran", "2"], result.stderr


@pytest.mark.parametrize("task", [None, 0, "col_3"])
def test_names_of_columns_are_held_against_those_of_the_fit(task: str | int | None) -> None:
    model = MultiTaskRegressor(task=task, optimise=False)
    check_dataframe_column_names_consistency("MultiTaskRegressor", model)


def stations_with(*, gains: tuple[float, ...], seed: int, rows: int = 12) -> tuple[pd.DataFrame, FloatArray]:
    """Rows of stations whose rewards are one curve times their gain."""
    rng = np.random.default_rng(seed)
    index = rng.permutation(np.arange(rows * len(gains)) % len(gains))
    load = rng.uniform(0, 1, size=len(index))
    frame = pd.DataFrame(
        {"station": [f"cell-{m}" for m in index], "load": load, "hour": rng.uniform(8, 20, len(index))}
    )
    noise = 0.1 * rng.standard_normal(len(index))
    return frame, np.array(gains)[index] * np.sin(6 * load) + noise


@pytest.mark.parametrize(("gains", "best"), [((1.0, 1.0, 1.0, 1.0), "pooled"), ((1.0, -1.0, 2.5, -2.0), "independent")])
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_grid_search_finds_whether_to_share(gains: tuple[float, ...], best: str, library: str) -> None:
    frame, y = stations_with(gains=gains, seed=3)
    X = frame if library == "pandas" else pl.from_pandas(frame)
    grid = {"similarity": ["independent", "pooled"]}
    model = MultiTaskRegressor(RBF([0.3, 20.0]), task="station", noise=0.02, optimise=False)
    search = GridSearchCV(model, grid, cv=KFold(5, shuffle=True, random_state=1)).fit(X, y)
    assert search.best_params_ == {"similarity": best}
    assert search.best_estimator_.similarity_.method == best


def test_a_measured_similarity_beats_none_where_stations_are_alike() -> None:
    frame, y = stations_with(gains=(1.0, 1.1, 0.9, 1.0), seed=4, rows=8)
    model = MultiTaskRegressor(RBF([0.3, 20.0]), task="station", noise=0.02, optimise=False)
    search = GridSearchCV(
        model, {"similarity": ["independent", "prediction"]}, cv=KFold(4, shuffle=True, random_state=0)
    )
    assert search.fit(frame, y).best_params_ == {"similarity": "prediction"}


def test_a_grid_search_goes_over_noise_and_kernels() -> None:
    frame, y = stations_with(gains=(1.0, 1.2, 0.9), seed=5)
    smooth = RBF([0.3, 20.0])
    grid = {"kernel": [RBF(0.001), smooth, Linear(0.5)], "noise": [1e-2, 1e2]}
    model = MultiTaskRegressor(task="station", similarity="pooled", optimise=False)
    search = GridSearchCV(model, grid, cv=3).fit(frame, y)
    assert search.best_params_ == {"kernel": smooth, "noise": 1e-2}
    assert search.best_score_ > 0.7
    assert search.predict(frame.head(3)).shape == (3,)


def test_folds_may_lack_stations() -> None:
    frame, y = stations_with(gains=(1.0, 1.0, 1.0), seed=6)
    names = tuple(sorted(frame["station"].unique()))
    model = MultiTaskRegressor(RBF([0.3, 20.0]), task="station", noise=0.02, optimise=False)
    known = clone(model).set_params(similarity=TaskMatrix(names, 0.95 + 0.05 * np.eye(3), "given"))
    scores = cross_val_score(known, frame, y, groups=frame["station"], cv=GroupKFold(3), error_score="raise")
    assert scores.min() > 0.5
    pooled = clone(model).set_params(similarity="pooled")
    folds = {"groups": frame["station"], "cv": GroupKFold(3), "error_score": "raise"}
    assert cross_val_score(pooled, frame, y, **folds).min() > 0.5
    assert cross_val_score(model, frame, y, **folds).min() > 0.5  # how much is shared is learned
    apart = clone(model).set_params(similarity="independent")
    assert cross_val_score(apart, frame, y, **folds).max() < 0.5  # the next station is the prior


def test_a_pipeline_scales_numbers_and_passes_the_station_through() -> None:
    frame, y = stations_with(gains=(1.0, 1.1, 0.9), seed=7)
    kernel, numbers = RBF([0.8, 4.0], variance=1.3), ["load", "hour"]
    settings: dict[str, Any] = {"similarity": "pooled", "noise": 0.02, "mean": 0.1, "optimise": False}
    scaler = StandardScaler().fit(frame[numbers])
    by_hand = MultiTaskRegressor(kernel, **settings).fit(scaler.transform(frame[numbers]), y, task=frame["station"])
    expected = by_hand.predict(scaler.transform(frame[numbers]), task=frame["station"])
    columns = ColumnTransformer([("scale", StandardScaler(), numbers)], remainder="passthrough")
    arrays = make_pipeline(columns, MultiTaskRegressor(kernel, task=-1, **settings))
    np.testing.assert_allclose(arrays.fit(frame, y).predict(frame), expected, rtol=1e-10)
    named = ColumnTransformer(
        [("scale", StandardScaler(), numbers)], remainder="passthrough", verbose_feature_names_out=False
    ).set_output(transform="pandas")
    frames = make_pipeline(named, MultiTaskRegressor(kernel, task="station", **settings))
    np.testing.assert_allclose(frames.fit(frame, y).predict(frame), expected, rtol=1e-10)
    search = GridSearchCV(frames, {"multitaskregressor__noise": [0.02, 50.0]}, cv=3).fit(frame, y)
    assert search.best_params_ == {"multitaskregressor__noise": 0.02}


def test_stations_beside_x_are_routed_through_a_search() -> None:
    frame, y = stations_with(gains=(1.0, -1.0), seed=8, rows=20)
    numbers = frame[["load", "hour"]]
    model = MultiTaskRegressor(RBF([0.3, 20.0]), noise=0.02, optimise=False)
    with sklearn.config_context(enable_metadata_routing=True):
        model.set_fit_request(task=True, noise=True).set_score_request(task=True)
        search = GridSearchCV(model, {"similarity": ["independent", "pooled"]}, cv=3)
        search.fit(numbers, y, task=frame["station"], noise=np.full(len(y), 0.01))
        assert search.best_params_ == {"similarity": "independent"}
        assert search.score(numbers, y, task=frame["station"]) > 0.9


def test_a_clone_has_the_same_settings_and_nothing_learned() -> None:
    frame, y = stations_with(gains=(1.0, 1.0), seed=9)
    alike = TaskMatrix(("cell-0", "cell-1"), np.array([[1.0, 0.6], [0.6, 1.0]]), "given")
    model = MultiTaskRegressor(RBF([0.3, 9.0]), task="station", similarity=alike, noise=0.07, mean=0.2, optimise=False)
    model.fit(frame, y)
    copy = clone(model)
    assert not hasattr(copy, "posterior_")
    assert copy.get_params().keys() == model.get_params().keys()
    assert (copy.kernel, copy.task, copy.noise, copy.mean) == (model.kernel, "station", 0.07, 0.2)
    np.testing.assert_array_equal(copy.fit(frame, y).predict(frame), model.predict(frame))
    assert "noise=0.5" in repr(copy.set_params(noise=0.5))


def test_the_score_is_the_coefficient_of_determination() -> None:
    frame, y = stations_with(gains=(1.0, 2.0), seed=10)
    model = MultiTaskRegressor(task="station", optimise=False).fit(frame, y)
    weights = np.random.default_rng(1).uniform(0.2, 3.0, size=len(y))
    left = np.average((y - model.predict(frame)) ** 2, weights=weights)
    total = np.average((y - np.average(y, weights=weights)) ** 2, weights=weights)
    np.testing.assert_allclose(model.score(frame, y, sample_weight=weights), 1 - left / total)
