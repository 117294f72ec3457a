"""What holds for every configuration space and state scaler."""

import json
import warnings
from typing import Any

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from kinband.contexts import ContextEncoder, StateScaler
from kinband.space import Categories, ConfigurationSpace

quick = settings(max_examples=40, deadline=None)
integers = st.integers(-(10**6), 10**6)
# Numbers on a grid: a spread far below the size of the numbers would be lost to rounding.
decimals = st.integers(-(10**6), 10**6).map(lambda i: i / 1000)
quantities = st.lists(integers | decimals, min_size=1, max_size=5, unique_by=float)
names = st.lists(st.text(max_size=4), min_size=1, max_size=4, unique=True)
flags = st.lists(st.booleans(), min_size=1, max_size=2, unique=True)
categories = st.builds(Categories, quantities | names | flags)
knob_names = st.text(min_size=1, max_size=6)
products = st.dictionaries(knob_names, quantities | names | flags | categories, min_size=1, max_size=3).map(
    lambda knobs: ConfigurationSpace(**knobs)
)


@st.composite
def lists(draw: st.DrawFn) -> ConfigurationSpace:
    """Some configurations of a product, in any order."""
    whole = draw(products)
    arms = draw(st.lists(st.integers(0, len(whole) - 1), min_size=1, unique=True))
    marked = [whole.feature_names[column] for column in whole.categorical]
    return ConfigurationSpace.from_list([whole[arm] for arm in arms], categories=marked)


spaces = products | lists()
states = st.integers(1, 4).flatmap(
    lambda p: arrays(np.float64, st.tuples(st.integers(1, 8), st.just(p)), elements=st.floats(-1e6, 1e6))
)


def fitted(S: np.ndarray[Any, Any]) -> StateScaler:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # constant columns are drawn on purpose
        return StateScaler.fit([f"s{column}" for column in range(S.shape[1])], S)


@quick
@given(spaces)
def test_a_space_survives_json_exactly(space: ConfigurationSpace) -> None:
    again = ConfigurationSpace.from_dict(json.loads(json.dumps(space.to_dict())))
    assert again == space
    assert repr(list(again)) == repr(list(space))
    assert again.features.tobytes() == space.features.tobytes()
    assert again.categorical == space.categorical


@quick
@given(spaces)
def test_every_configuration_is_found_under_its_own_number(space: ConfigurationSpace) -> None:
    assert [space.index(configuration) for configuration in space] == list(range(len(space)))
    columns = {name: [configuration[name] for configuration in space] for name in space.knobs}
    assert space.indices({name: np.array(c, dtype=object) for name, c in columns.items()}).tolist() == [
        *range(len(space))
    ]


@quick
@given(spaces)
def test_features_have_mean_zero_and_deviation_one_or_are_codes(space: ConfigurationSpace) -> None:
    for column, (name, values) in enumerate(space.knobs.items()):
        feature = space.features[:, column]
        if column in space.categorical:
            assert [values[int(code)] for code in feature] == [configuration[name] for configuration in space]
        elif len(values) == 1:
            assert not feature.any()
        else:
            np.testing.assert_allclose([feature.mean(), feature.std()], [0, 1], atol=1e-6)
            natural = np.array([configuration[name] for configuration in space], dtype=np.float64)
            np.testing.assert_allclose(np.diff(feature) * space.scale(name), np.diff(natural), atol=1e-6)


@quick
@given(spaces, st.data())
def test_a_mask_by_numbers_by_configurations_and_by_booleans_is_the_same(
    space: ConfigurationSpace, data: st.DataObject
) -> None:
    arms = data.draw(st.lists(st.integers(0, len(space) - 1), min_size=1))
    mask = space.mask(arms)
    assert set(np.flatnonzero(mask)) == set(arms)
    assert np.array_equal(space.mask([space[arm] for arm in arms]), mask)
    assert np.array_equal(space.mask(mask), mask)
    assert np.array_equal(space.mask(lambda configuration: space.index(configuration) in arms), mask)


@quick
@given(states)
def test_a_scaler_survives_json_exactly(S: np.ndarray[Any, Any]) -> None:
    scaler = fitted(S)
    again = StateScaler.from_dict(json.loads(json.dumps(scaler.to_dict())))
    assert again == scaler
    assert again.transform(S).tobytes() == scaler.transform(S).tobytes()


@quick
@given(states, st.floats(0.01, 100), st.floats(-50, 50))
def test_scaled_states_do_not_depend_on_the_unit(S: np.ndarray[Any, Any], factor: float, offset: float) -> None:
    # On a grid, so that neither the product nor the sum loses what tells the rows apart.
    S = np.round(S / 100)
    T = S * factor + offset
    np.testing.assert_allclose(fitted(S).transform(S), fitted(T).transform(T), atol=1e-5)


@quick
@given(states, spaces, st.data())
def test_encoding_agrees_with_asking(S: np.ndarray[Any, Any], space: ConfigurationSpace, data: st.DataObject) -> None:
    scaler = fitted(S)
    assume(not set(scaler.names) & set(space.knobs))
    encoder = ContextEncoder(scaler, space)
    row, arm = data.draw(st.integers(0, len(S) - 1)), data.draw(st.integers(0, len(space) - 1))
    asked = encoder.contexts(dict(zip(scaler.names, S[row].tolist(), strict=True)))
    assert asked.shape == (len(space), len(encoder.features))
    assert asked[arm].tobytes() == encoder.encode(S[[row]], np.array([arm]))[0].tobytes()
