"""What stations like this one run: rules, deviations, what is refused, and the arithmetic by a witness of its own."""

from typing import Any

import numpy as np
import pytest

from kinband.errors import BadInputError
from kinband.planning.conformity import ALIKE, LEAST, Forest, conform, mixture, probabilities

Runs = dict[str, dict[str, Any]]


def town_and_country(stations: int = 90, *, seed: int = 0) -> tuple[Runs, dict[str, dict[str, Any]]]:
    """Stations that run 6 in town and 2 in the country, and what is known of them."""
    rng = np.random.default_rng(seed)
    towns = {f"s{n}": bool(rng.random() < 0.5) for n in range(stations)}
    described = {
        name: {"land_use": "town" if town else "country", "azimuth": float(rng.integers(360)), "id": name}
        for name, town in towns.items()
    }
    return {name: {"tilt": 6 if town else 2} for name, town in towns.items()}, described


def test_a_station_that_breaks_a_clear_rule_deviates_and_nobody_else_does() -> None:
    runs, described = town_and_country()
    odd = next(name for name in runs if described[name]["land_use"] == "town")
    runs[odd]["tilt"] = 2
    (tilt,) = conform(runs, described)
    assert [(one.station, one.runs, one.usual) for one in tilt.deviations] == [(odd, 2, 6)]
    one = tilt.deviations[0]
    assert one.of == ALIKE
    assert one.like == 0
    assert one.usual_like == ALIKE
    assert tilt.held_out.value == pytest.approx(1 - 1 / len(runs))
    assert tilt.told
    assert tilt.follows[0][0] == "land_use"


def test_without_a_rule_nobody_deviates_and_the_knob_is_not_told() -> None:
    runs, described = town_and_country()
    rng = np.random.default_rng(1)
    for own in runs.values():
        own["tilt"] = int(rng.choice([2, 4, 6]))
    (tilt,) = conform(runs, described)
    assert not tilt.deviations
    assert not tilt.told


def test_exceptions_to_a_rule_that_holds_half_of_the_time_are_no_deviations() -> None:
    runs, described = town_and_country(300)
    rng = np.random.default_rng(2)
    for own in runs.values():
        own["tilt"] = own["tilt"] if rng.random() < 0.5 else int(rng.choice([2, 4, 6, 8]))
    (tilt,) = conform(runs, described)
    assert tilt.told
    assert len(tilt.deviations) <= 0.02 * len(runs)


def test_a_knob_with_one_value_conforms() -> None:
    runs, described = town_and_country()
    (tilt,) = conform({name: {"tilt": 4} for name in runs}, described)
    assert (tilt.values, tilt.deviating, tilt.deviations, tilt.held_out.value) == (1, 0.0, (), 1.0)


def test_stations_without_a_value_or_a_description_are_left_out() -> None:
    runs, described = town_and_country(60)
    runs["s0"], described["s1"] = {}, {}
    (tilt,) = conform(runs, described)
    assert tilt.stations == 58


def test_missing_numbers_are_no_fault() -> None:
    runs, described = town_and_country(60)
    for name in list(described)[::3]:
        del described[name]["azimuth"]
    assert conform(runs, described)[0].held_out.value > 0.95


def test_the_share_and_the_sharpness_are_where_a_grid_finds_them() -> None:
    rng = np.random.default_rng(3)
    votes = rng.dirichlet([0.3, 0.3, 0.3], size=200) + 0.005
    votes /= votes.sum(axis=1, keepdims=True)
    code = np.array([rng.choice(3, p=row) for row in votes])
    code[:14] = votes[:14].argmin(axis=1)

    def log_posterior(share: float, sharpness: float) -> float:
        total = 0.0
        for row, value in zip(votes, code, strict=True):
            powers = [p**sharpness for p in row]
            total += np.log((1 - share) * powers[value] / sum(powers) + share / 3)
        odds = np.log(share / (0.2 - share))  # at most one in five deviates
        return float(total - ((odds + 1) / 0.6) ** 2 / 2 - np.log(sharpness) ** 2 / 2)

    share, sharpness = mixture(votes, code)
    best = log_posterior(share, sharpness)
    for a in np.linspace(0.005, 0.195, 20):
        for b in np.linspace(0.3, 3.0, 14):
            assert best >= log_posterior(float(a), float(b)) - 1e-6


def test_bayes_rule_by_hand() -> None:
    # a rule that gives the value 1/5, sharpened by 2 to 1/17; one of ten deviates, to one of two values
    odd = probabilities(np.array([[0.2, 0.8]]), np.array([0]), deviating=0.1, sharpness=2.0)
    assert odd[0] == pytest.approx(0.05 / (0.05 + 0.9 / 17))


def test_stations_are_alike_as_often_as_they_share_a_leaf() -> None:
    leaves = np.array([[1, 1, 1], [1, 1, 2], [1, 2, 2], [3, 3, 3]])
    forest = Forest(np.full((4, 2), 0.5), np.ones(1), leaves)
    assert forest.alike(np.array([0]))[0].tolist() == [1, 2]


@pytest.mark.parametrize(
    ("runs", "described", "code"),
    [
        ({f"s{n}": {"tilt": n % 2} for n in range(LEAST - 1)}, {"x": 1.0}, "too_few_stations_to_conform"),
        ({f"s{n}": {"tilt": n} for n in range(200)}, {"x": 1.0}, "no_rule"),
    ],
)  # fmt: skip
def test_what_can_have_no_rule_is_refused(runs: Runs, described: dict[str, Any], code: str) -> None:
    with pytest.raises(BadInputError) as refused:
        conform(runs, dict.fromkeys(runs, described))
    assert refused.value.code == code


def test_names_do_not_describe() -> None:
    runs = {f"s{n}": {"tilt": n % 2} for n in range(40)}
    with pytest.raises(BadInputError, match="nothing describes the stations") as refused:
        conform(runs, {name: {"id": name} for name in runs})
    assert refused.value.code == "no_descriptors"
