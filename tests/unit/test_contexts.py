"""State scaling and contexts: arithmetic by hand, and refusals."""

import json
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from kinband.contexts import ContextEncoder, StateScaler
from kinband.errors import BadInputError, SavedStateError
from kinband.space import ConfigurationSpace


@pytest.fixture
def encoder() -> ContextEncoder:
    state = StateScaler(("load", "users"), np.array([0.5, 100.0]), np.array([0.25, 40.0]))
    return ContextEncoder(state, ConfigurationSpace(tilt=[2, 6], scheduler=["rr", "pf", "mt"]))


def test_fit_standardises_by_mean_and_standard_deviation() -> None:
    S = np.random.default_rng(3).normal([4.0, -70.0], [0.3, 9.0], size=(50, 2))
    scaled = StateScaler.fit(["a", "b"], S).transform(S)
    np.testing.assert_allclose(scaled.mean(axis=0), 0, atol=1e-13)
    np.testing.assert_allclose(scaled.std(axis=0), 1, rtol=1e-13)


def test_features_that_never_vary_are_ignored_with_a_warning() -> None:
    # The mean of seven times 0.1 is not 0.1 in floating point: the third column looks as if it varied.
    S = np.column_stack([np.arange(7.0), np.full(7, 3.0), np.full(7, 0.1)])
    with pytest.warns(UserWarning, match=r"'b', 'c' never vary"):
        scaler = StateScaler.fit(["a", "b", "c"], S)
    assert scaler.constant == ("b", "c")
    assert scaler.transform([[3.0, 99.0, -5.0]]).tolist() == [[0.0, 0.0, 0.0]]
    assert scaler.transform([3.0, 99.0, -5.0]).shape == (3,)


def test_ranges_give_the_moments_of_a_uniform_distribution() -> None:
    scaler = StateScaler.from_ranges({"load": (0, 1), "rsrp": (-120, -60)})
    assert scaler.centre.tolist() == [0.5, -90.0]
    np.testing.assert_allclose(scaler.scale, [math.sqrt(1 / 12), math.sqrt(3600 / 12)], rtol=1e-15)
    assert scaler.constant == ()


def test_identity_changes_nothing() -> None:
    S = np.array([[1.5, -2.0]])
    assert StateScaler.identity(["a", "b"]).transform(S).tolist() == S.tolist()


def test_a_row_follows_names_not_the_order_of_the_mapping(encoder: ContextEncoder) -> None:
    state: dict[str, Any] = {"users": np.int64(7), "load": Decimal("0.25")}
    assert encoder.state.row(state).tolist() == [0.25, 7.0]


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"load": 1}, "lacks 'users': give exactly 'load', 'users'"),
        ({}, "lacks 'load', 'users'"),
        ({"load": 1, "users": 2, "usres": 3}, "has unknown 'usres'"),
        ({"load": 1, "usres": 3}, "lacks 'users' and has unknown 'usres'"),
        ({"load": math.nan, "users": 2}, "'load' must be finite, got nan"),
        ({"load": 1, "users": -math.inf}, "'users' must be finite"),
        ({"load": "0.5", "users": 2}, "'load' must be a number, got '0.5'"),
        ({"load": None, "users": 2}, "'load' must be a number, got None"),
        ({"load": 1.7e308, "users": 2}, r"'load' is 1\.7e\+308, which is too large to compute with: repair it"),
        ([1, 2], "must be a mapping"),
    ],
)
def test_a_bad_state_is_refused_by_the_names_of_its_features(encoder: ContextEncoder, state: Any, message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        encoder.contexts(state)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: StateScaler.fit(["a"], np.zeros((0, 1))), "no rows"),
        (lambda: StateScaler.fit(["a"], np.zeros((3, 2))), "2 column.* 1 feature"),
        (lambda: StateScaler.fit(["a"], np.zeros(3)), "2 dimension"),
        (lambda: StateScaler.fit(["a"], [[math.nan]]), "nan"),
        (lambda: StateScaler.fit(["a", "b"], [[1.0, 2.0], [3.0, -1e200]]), r"'b' is -1e\+200 in row 2, .* too large"),
        (
            lambda: StateScaler.fit(["a", "b"], [[1.7e308, 2.0], [1.7e308, 2.0]]),
            "'a' is 1.7e.308 in row 1, .* too large",
        ),
        (lambda: StateScaler.identity(["a", "a"]), "'a' twice"),
        (lambda: StateScaler.identity([""]), "non-empty"),
        (lambda: StateScaler.from_ranges({"a": (1, 1)}), "low < high"),
        (lambda: StateScaler.from_ranges({"a": (0, math.inf)}), "finite"),
        (lambda: StateScaler.from_ranges({"a": (-1.7e308, 1.7e308)}), r"range of 'a' is -1\.7e\+308 .* too large"),
        (lambda: StateScaler.from_ranges({"a": 3}), r"must be \(low, high\)"),  # type: ignore[dict-item]
        (lambda: StateScaler(("a",), np.zeros(1), -np.ones(1)), "negative"),
        (lambda: StateScaler(("a",), np.zeros(2), np.ones(1)), "1 names, 2 centres"),
        (lambda: StateScaler.identity(["a"]).transform([[1.0, 2.0]]), r"shape \(1, 2\)"),
        (lambda: ContextEncoder(StateScaler.identity(["tilt"]), ConfigurationSpace(tilt=[1])), "'tilt' twice"),
    ],
)
def test_bad_scalers_are_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        make()


def test_a_truth_value_is_a_state_of_0_or_1_as_it_is_in_a_log(encoder: ContextEncoder) -> None:
    state: dict[str, Any] = {"load": True, "users": np.False_}
    assert encoder.state.row(state).tolist() == [1.0, 0.0]


def test_large_states_are_scaled_as_long_as_that_can_be_done(encoder: ContextEncoder) -> None:
    assert encoder.state.transform([[1e200, 0.0]]).tolist() == [[4e200, -2.5]]
    with pytest.raises(BadInputError, match=r"'users' is inf in row 2"):
        encoder.state.transform([[0.0, 1.0], [0.0, math.inf]])


def test_contexts_are_the_scaled_state_beside_the_features_of_every_configuration(encoder: ContextEncoder) -> None:
    X = encoder.contexts({"load": 1.0, "users": 60})
    assert encoder.features == ("load", "users", "tilt", "scheduler")
    assert encoder.categorical == (3,)
    assert X.tolist() == [[2.0, -1.0, tilt, code] for tilt in (-1.0, 1.0) for code in (0.0, 1.0, 2.0)]


def test_encoding_rows_gives_the_same_bits_as_asking(encoder: ContextEncoder) -> None:
    rng = np.random.default_rng(8)
    S, arms = rng.normal(size=(20, 2)), rng.integers(6, size=20)
    X = encoder.encode(S, arms)
    for row in range(20):
        asked = encoder.contexts(dict(zip(("load", "users"), S[row], strict=True)))[arms[row]]
        assert asked.tobytes() == X[row].tobytes()


def test_an_empty_state_leaves_the_configuration_features() -> None:
    space = ConfigurationSpace(tilt=[2, 6])
    encoder = ContextEncoder(StateScaler.fit([], np.empty((4, 0))), space)
    assert encoder.contexts({}).tolist() == space.features.tolist()
    assert encoder.encode(np.empty((3, 0)), np.array([1, 1, 0])).tolist() == [[1.0], [1.0], [-1.0]]
    with pytest.raises(BadInputError, match="has unknown 'load': give an empty state"):
        encoder.contexts({"load": 1})


@pytest.mark.parametrize(
    ("arms", "message"),
    [([0, 6], "0 to 5"), ([-1, 0], "0 to 5"), ([0], "2 whole numbers"), ([0.0, 1.0], "whole numbers")],
)
def test_arms_outside_the_space_are_refused(encoder: ContextEncoder, arms: list[Any], message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        encoder.encode(np.zeros((2, 2)), np.array(arms))


def test_scalers_are_values(encoder: ContextEncoder) -> None:
    again = ContextEncoder.from_dict(json.loads(json.dumps(encoder.to_dict())))
    assert again == encoder
    assert hash(again.state) == hash(encoder.state)
    assert encoder.state != StateScaler.identity(["load", "users"])
    assert encoder.state != "scaler"
    with pytest.raises(ValueError, match="read-only"):
        encoder.state.centre[0] = 3


@pytest.mark.parametrize("saved", [{}, {"state": {}, "space": {}}, {"state": {"names": ["a"]}, "space": {}}])
def test_damaged_descriptions_are_refused(saved: dict[str, Any]) -> None:
    with pytest.raises(SavedStateError, match="not a saved"):
        ContextEncoder.from_dict(saved)
