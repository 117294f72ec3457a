"""Configuration spaces: lookup, features, masks and refusals."""

import json
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kinband.errors import BadInputError, NotFoundError, SavedStateError
from kinband.space import MAX_CONFIGURATIONS, Allowed, Categories, ConfigurationSpace, Range


@pytest.fixture
def space() -> ConfigurationSpace:
    return ConfigurationSpace(threshold=range(-100, -96), scheduler=["rr", "pf"], boost=[False, True])


@pytest.fixture
def pairs() -> ConfigurationSpace:
    return ConfigurationSpace.from_list(
        [{"tilt": 2, "power": 40.0}, {"tilt": 4, "power": 43.0}, {"tilt": 2, "power": 46}]
    )


def test_product_varies_the_last_knob_fastest(space: ConfigurationSpace) -> None:
    assert len(space) == 16
    assert space[0] == {"threshold": -100, "scheduler": "rr", "boost": False}
    assert space[1] == {"threshold": -100, "scheduler": "rr", "boost": True}
    assert space[-1] == {"threshold": -97, "scheduler": "pf", "boost": True}
    assert list(space)[6] == space[6]
    assert dict(space.knobs) == {
        "threshold": (-100, -99, -98, -97),
        "scheduler": ("rr", "pf"),
        "boost": (False, True),
    }


def test_configurations_hold_plain_python_scalars() -> None:
    space = ConfigurationSpace(a=np.arange(3), b=np.array([0.5, 1.5]), c=np.array(["x", "y"]), d=np.array([True]))
    assert [type(value) for value in space[0].values()] == [int, float, str, bool]


def test_single_precision_knobs_take_their_shortest_decimal() -> None:
    space = ConfigurationSpace(offset=np.array([0.1, 0.2], dtype=np.float32))
    assert space[0] == {"offset": 0.1}
    assert space.index({"offset": np.float32(0.2)}) == 1


def test_every_configuration_finds_itself(space: ConfigurationSpace, pairs: ConfigurationSpace) -> None:
    for some in (space, pairs):
        assert [some.index(configuration) for configuration in some] == list(range(len(some)))


@pytest.mark.parametrize("value", [-98, -98.0, np.int16(-98), np.float32(-98), np.float64(-98), -98 + 1e-12])
def test_equal_numbers_of_any_type_find_the_same_configuration(space: ConfigurationSpace, value: Any) -> None:
    assert space.index({"boost": np.True_, "scheduler": np.str_("pf"), "threshold": value}) == 11


def test_a_number_that_differs_by_rounding_is_found() -> None:
    space = ConfigurationSpace(offset=np.arange(-1, 1, 0.1))
    assert space[10] != {"offset": 0}
    assert space.index({"offset": 0}) == 10


def test_a_large_value_does_not_blur_the_small_ones() -> None:
    with pytest.raises(NotFoundError, match=r"nearest known value is 0\.001"):
        ConfigurationSpace(rate=[0.001, 1e6]).index({"rate": 0.0010001})


@pytest.mark.parametrize(
    ("configuration", "error", "message"),
    [
        ({"threshold": -90, "scheduler": "rr", "boost": True}, NotFoundError, "no value -90: the nearest .* is -97"),
        ({"threshold": "low", "scheduler": "rr", "boost": True}, NotFoundError, "takes numbers, got 'low'"),
        ({"threshold": -98, "scheduler": "rrr", "boost": True}, NotFoundError, "did you mean 'rr'"),
        ({"threshold": -98, "scheduler": "fifo", "boost": True}, NotFoundError, "known values are 'rr', 'pf'"),
        ({"threshold": -98, "scheduler": "rr", "boost": "yes"}, NotFoundError, "takes booleans"),
        ({"threshold": -98, "scheduler": "rr", "tilt": 2}, NotFoundError, "no knob 'tilt'.*'boost'"),
        ({"threshold": -98, "scheduler": "rr"}, BadInputError, "lacks the knob.* 'boost'"),
        ({"threshold": math.nan, "scheduler": "rr", "boost": True}, BadInputError, "finite"),
        ({"threshold": [1], "scheduler": "rr", "boost": True}, BadInputError, "numbers, strings or booleans"),
        (-98, BadInputError, "must be a mapping"),
    ],
)
def test_lookup_says_what_is_not_known(
    space: ConfigurationSpace, configuration: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        space.index(configuration)


def test_a_combination_of_known_values_that_is_not_listed_is_said_so(pairs: ConfigurationSpace) -> None:
    with pytest.raises(NotFoundError, match=r"\{'tilt': 4, 'power': 40.0\} is not listed"):
        pairs.index({"power": 40, "tilt": 4})


def test_there_is_no_configuration_past_the_end(space: ConfigurationSpace) -> None:
    with pytest.raises(NotFoundError, match="no configuration 16"):
        space[16]


def test_columns_are_looked_up_row_by_row(pairs: ConfigurationSpace) -> None:
    columns = {"power": np.array([46.0, 40.0, 43.0, 46.0]), "tilt": np.array([2, 2, 4, 2])}
    assert pairs.indices(columns).tolist() == [2, 0, 1, 2]
    with pytest.raises(NotFoundError, match=r"2 row.* the first is row 2, counted from 1: .* nearest known value is 4"):
        pairs.indices({"power": [46, 40, 40], "tilt": [2, 5, 5]})
    with pytest.raises(BadInputError, match=r"columns are .*'tilt'.* knobs"):
        pairs.indices({"tilt": [2]})


def test_quantities_are_standardised_over_the_configurations(pairs: ConfigurationSpace) -> None:
    tilt = np.array([2.0, 4.0, 2.0])
    np.testing.assert_allclose(pairs.features[:, 0], (tilt - tilt.mean()) / tilt.std(), rtol=1e-14)
    assert pairs.scale("tilt") == pytest.approx(math.sqrt(8 / 9), rel=1e-14)
    assert pairs.feature_names == ("tilt", "power")
    assert pairs.categorical == ()


def test_categories_become_codes_in_the_given_order(space: ConfigurationSpace) -> None:
    assert space.categorical == (1, 2)
    assert space.features[:4, 1:].tolist() == [[0, 0], [0, 1], [1, 0], [1, 1]]
    assert space.scale("scheduler") == 1
    numbers = ConfigurationSpace(mode=Categories([7, 3]))
    assert (numbers.categorical, numbers.features.tolist()) == ((0,), [[0.0], [1.0]])
    listed = ConfigurationSpace.from_list([{"mode": 7}, {"mode": 3}], categories=["mode"])
    assert listed == numbers


def test_a_knob_that_never_varies_has_feature_zero() -> None:
    space = ConfigurationSpace(power=[43.3], tilt=[1, 2])
    assert space.features[:, 0].tolist() == [0, 0]
    assert space.scale("power") == 1
    with pytest.raises(NotFoundError, match="no knob 'x'"):
        space.scale("x")


def test_features_cannot_be_written_to(space: ConfigurationSpace) -> None:
    with pytest.raises(ValueError, match="read-only"):
        space.features[0, 0] = 5


@pytest.mark.parametrize(
    ("allowed", "expected"),
    [
        (None, range(16)),
        ([True] * 2 + [False] * 14, [0, 1]),
        (np.arange(16) == 5, [5]),
        ([3, 1], [1, 3]),
        (np.array([15]), [15]),
        ((arm for arm in (2, 4)), [2, 4]),
        ([{"threshold": -99.0, "scheduler": "rr", "boost": False}], [4]),
        ({"threshold": [-97, -99], "scheduler": "pf", "boost": True}, [7, 15]),
        ({"threshold": -98}, [8, 9, 10, 11]),
        ({"threshold": range(-98, -96), "boost": False, "scheduler": {"rr"}}, [8, 12]),
        ({"threshold": Range(-98.5, -97.5), "scheduler": ["pf"]}, [10, 11]),
        ({"threshold": Range(high=-100), "scheduler": ["pf"]}, [2, 3]),
        ({}, range(16)),
        (lambda c: c["boost"] and c["threshold"] == -97, [13, 15]),
    ],
)
def test_mask_understands_every_form(space: ConfigurationSpace, allowed: Allowed, expected: Any) -> None:
    mask = space.mask(allowed)
    assert mask.dtype == np.bool_
    assert np.flatnonzero(mask).tolist() == list(expected)


@pytest.mark.parametrize(
    ("allowed", "error", "message"),
    [
        ([], BadInputError, "no configuration is allowed"),
        ([False] * 16, BadInputError, "no configuration is allowed"),
        ({"threshold": Range(0, 5)}, BadInputError, "no configuration is allowed"),
        (lambda c: False, BadInputError, "no configuration is allowed"),
        ([True, False], BadInputError, "2 booleans, the space 16"),
        ([16], NotFoundError, "no configuration 16"),
        ([-1], NotFoundError, "no configuration -1"),
        ([0.5], BadInputError, "allowed must be"),
        ([True, 3], BadInputError, "allowed must be"),
        ("rr", BadInputError, "allowed must be"),
        (5, BadInputError, "allowed must be"),
        ({"tilt": [2]}, NotFoundError, "no knob 'tilt'"),
        ({"threshold": range(-98, -90)}, NotFoundError, "no value -96.*-97: allow an interval by Range"),
        ({"scheduler": Range(0, 1)}, BadInputError, "categories, which have no interval"),
        ([{"threshold": -5, "scheduler": "rr", "boost": True}], NotFoundError, "no value -5"),
    ],
)
def test_mask_refuses_what_it_cannot_mean(
    space: ConfigurationSpace, allowed: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        space.mask(allowed)


@pytest.mark.parametrize("power", [101, 400, 5000])
def test_numbers_that_no_float_can_hold_are_refused(space: ConfigurationSpace, power: int) -> None:
    number = -(10**power)
    with pytest.raises(BadInputError, match=r"takes finite numbers up to 1e\+100, got "):
        ConfigurationSpace(tilt=[1, number])
    with pytest.raises(BadInputError, match="finite numbers"):
        space.mask({next(iter(space.knobs)): number})


def test_a_range_must_not_be_upside_down() -> None:
    with pytest.raises(BadInputError, match="low <= high"):
        Range(3, 2)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ConfigurationSpace(), "at least one knob"),
        (lambda: ConfigurationSpace(a=[]), "'a' has no values"),
        (lambda: ConfigurationSpace(a=[1, 2, 1.0]), "'a' lists the value 1.0 twice"),
        (lambda: ConfigurationSpace(a=["x", "x"]), "twice"),
        (lambda: ConfigurationSpace(a=[1, math.nan]), "finite"),
        (lambda: ConfigurationSpace(a=[1, math.inf]), "finite"),
        (lambda: ConfigurationSpace(a=[1, "x"]), "mixes numbers and strings"),
        (lambda: ConfigurationSpace(a=[0, True]), "mixes booleans and numbers"),
        (lambda: ConfigurationSpace(a=[None]), "numbers, strings or booleans, got None"),
        (lambda: ConfigurationSpace(a="rr"), r"a list of values, got 'rr': write \['rr'\]"),
        (lambda: ConfigurationSpace(a=5), "a list of values, got 5"),  # type: ignore[arg-type]
        (lambda: ConfigurationSpace(a={1, 2}), "a set, which has no order"),
        (lambda: ConfigurationSpace(a=range(400), b=range(250)), "product has 100,000 .*from_list"),
        (lambda: ConfigurationSpace(a=range(10**12)), "1,000,000,000,000"),
        (lambda: ConfigurationSpace.from_list([]), "empty"),
        (lambda: ConfigurationSpace.from_list([{}]), "at least one knob"),
        (lambda: ConfigurationSpace.from_list([{"a": 1}, {"b": 1}]), "configuration 1 has the knobs"),
        (lambda: ConfigurationSpace.from_list([{"a": 1}, {"a": 1.0}]), "1 repeats configuration 0"),
        (lambda: ConfigurationSpace.from_list([{"a": 1}, {"a": True}]), "mixes"),
        (lambda: ConfigurationSpace.from_list([{"": 1}]), "non-empty string"),
        (lambda: ConfigurationSpace.from_list([3]), "must be a mapping"),  # type: ignore[list-item]
        (lambda: ConfigurationSpace.from_list({"a": i} for i in range(50_001)), "list has 50,001"),
    ],
)
def test_bad_spaces_are_refused_in_one_sentence(make: Callable[[], object], message: str) -> None:
    with pytest.raises(BadInputError, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_categories_must_name_a_knob() -> None:
    with pytest.raises(NotFoundError, match="'b'"):
        ConfigurationSpace.from_list([{"a": 1}], categories=["b"])


def test_json_gives_back_the_same_space(space: ConfigurationSpace, pairs: ConfigurationSpace) -> None:
    for some in (space, pairs, ConfigurationSpace(a=Categories([0.1, 3]), b=[1 / 3, 2])):
        again = ConfigurationSpace.from_dict(json.loads(json.dumps(some.to_dict())))
        assert again == some
        assert hash(again) == hash(some)
        assert repr(list(again)) == repr(list(some))
        assert again.features.tobytes() == some.features.tobytes()


def test_a_product_equals_the_list_of_its_configurations(space: ConfigurationSpace) -> None:
    assert ConfigurationSpace.from_list(list(space)) == space


@pytest.mark.parametrize(
    "other",
    [
        ConfigurationSpace(a=[2, 1]),
        ConfigurationSpace(b=[1, 2]),
        ConfigurationSpace(a=Categories([1, 2])),
        ConfigurationSpace(a=[1, 2, 3]),
        "a",
    ],
)
def test_spaces_that_differ_are_not_equal(other: object) -> None:
    assert ConfigurationSpace(a=[1, 2]) != other


def test_true_is_not_the_category_one() -> None:
    assert ConfigurationSpace(a=[True, False]) != ConfigurationSpace(a=Categories([1, 0]))


@pytest.mark.parametrize("saved", [{}, {"knobs": 3, "rows": None}, {"knobs": [], "rows": None}, {"knobs": [{}]}])
def test_a_damaged_description_is_refused(saved: dict[str, Any]) -> None:
    with pytest.raises(SavedStateError, match="not a saved configuration space"):
        ConfigurationSpace.from_dict(saved)


def test_the_largest_space_is_quick() -> None:
    start = time.perf_counter()
    space = ConfigurationSpace(a=range(250), b=[f"mode{i}" for i in range(200)])
    configuration = space[MAX_CONFIGURATIONS - 1]
    assert {space.index(configuration) for _ in range(1000)} == {MAX_CONFIGURATIONS - 1}
    assert space.mask({"a": Range(10, 20)}).sum() == 11 * 200
    assert time.perf_counter() - start < 2
