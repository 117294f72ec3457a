"""Calibration: tests and intervals against their definitions, a right model is left alone, a wrong one is flagged."""

import math
import re
from collections.abc import Callable
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

from kinband import ConfigurationSpace, Controller
from kinband.diagnostics import Calibration, audit
from kinband.diagnostics.audit import calibration_words
from kinband.diagnostics.calibration import (
    ABOVE,
    BELOW,
    FITS,
    LEVELS,
    NARROW,
    WIDE,
    Predictions,
    calibrated,
    calibration_of,
    p_of_bias,
    p_of_spread,
    predictions_of,
)
from kinband.errors import BadInputError
from kinband.kernels import RBF
from kinband.stats import mean_square_of

SPACE = ConfigurationSpace(tilt=range(0, 12, 2))
LOADS = np.linspace(0.0, 1.0, 7)
NOISE, MEAN, STATIONS = 0.02, 0.63, 12
KERNEL = RBF([1.7, 0.8], variance=0.045)
GROUPS = np.where(np.arange(STATIONS)[:, None] % 3 == np.arange(STATIONS) % 3, 0.8, 0.15) + 0.2 * np.eye(STATIONS)


def drawn(seed: int, *, rounds: int, truth: float = NOISE, K_Z: Any = GROUPS, **changes: Any) -> Controller:
    """A controller on functions drawn from its own model; `truth` is the noise there is, `K_Z` the similarity."""
    rng = np.random.default_rng(seed)
    names = [f"st-{m:02d}" for m in range(STATIONS)]
    options: dict[str, Any] = {
        "state": {"load": (0, 1)}, "similarity": GROUPS, "kernel": KERNEL, "noise": NOISE, "mean": MEAN, "beta": 0.7,
        "seed": seed,
    }  # fmt: skip
    controller = Controller(SPACE, names, **(options | changes))
    X = np.concatenate([controller.setup.encoder.contexts({"load": load}) for load in LOADS])
    tiny = 1e-10 * np.eye(len(X))
    half = np.linalg.cholesky(K_Z) @ rng.standard_normal((STATIONS, len(X)))
    f = (MEAN + half @ np.linalg.cholesky(KERNEL(X, X) + tiny).T).reshape(STATIONS, len(LOADS), len(SPACE))
    for _ in range(rounds):
        at = rng.integers(0, len(LOADS), STATIONS)
        round_ = controller.ask_all({name: {"load": float(LOADS[i])} for name, i in zip(names, at, strict=True)})
        for m, decision in enumerate(round_.values()):
            error = math.sqrt(truth) * rng.standard_normal()
            controller.tell(decision.id, float(f[m, at[m], decision.arm] + error))
    return controller


def calibration(controller: Controller) -> Calibration:
    return calibration_of([(controller.stations, predictions_of(controller))])


# --- A model that is right, and some that are not -----------------------------------------------------------


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_right_model_is_not_flagged(seed: int) -> None:
    # By chance one run in twenty has a flag of either kind; these seeds are fixed.
    found = calibration(drawn(seed, rounds=30))
    assert found.overall.verdict == FITS
    assert not found.overall.drift
    assert [s.verdict for s in found.stations] == [FITS] * STATIONS
    assert not any(s.drift for s in found.stations)
    for level in LEVELS:  # four standard errors of a share over 360 rewards
        error = math.sqrt(level * (1 - level) / 360)
        assert abs(found.overall.coverage[level].value - level) < 4 * error


def test_half_the_noise_is_flagged_as_too_narrow() -> None:
    found = calibration(drawn(5, rounds=40, truth=2 * NOISE))
    assert found.overall.verdict == NARROW
    assert found.overall.spread.low > 1.0
    assert len(found.flagged(NARROW)) >= STATIONS // 2
    assert not found.flagged(WIDE)


def test_noise_that_is_not_there_is_flagged_as_too_wide() -> None:
    found = calibration(drawn(6, rounds=40, truth=NOISE / 8))
    assert found.overall.verdict == WIDE
    assert len(found.flagged(WIDE)) >= STATIONS // 2
    assert not found.flagged(NARROW)


def made_of(*z: Any) -> list[tuple[tuple[str, ...], Predictions]]:
    """Predictions of 0.5, give or take 0.2, whose errors in standard deviations are the z of each station."""
    tasks, all_ = np.repeat(np.arange(len(z)), [len(one) for one in z]), np.concatenate(z)
    n = len(all_)
    spread, zeros = np.full(n, 0.04), np.zeros(n, dtype=np.int64)
    made = Predictions(
        tasks, np.zeros((n, 1)), np.full(n, 0.5), spread, 0.5 + 0.2 * all_, spread / 2, zeros, np.arange(n)
    )
    return [(tuple(f"s{m}" for m in range(len(z))), made)]


@pytest.mark.parametrize(("shift", "drift"), [(0.9, ABOVE), (-0.9, BELOW)])
def test_rewards_that_run_to_one_side_are_flagged_by_it(shift: float, drift: str) -> None:
    level = np.array([NormalDist().inv_cdf((i + 0.5) / 20) for i in range(20)])
    found = calibration_of(made_of(level, level + shift, level))
    assert [s.drift for s in found.stations] == ["", drift, ""]
    assert found.overall.drift == drift
    assert [s.name for s in found.flagged(drift)] == ["s1"]


def test_one_wild_reward_does_not_make_a_station_too_narrow() -> None:
    level = np.array([NormalDist().inv_cdf((i + 0.5) / 40) for i in range(40)])
    wild = np.append(level[:-1], 9.0)
    calm, jumpy = calibration_of(made_of(level, wild)).stations
    assert calm.p_spread > 0.5
    assert jumpy.p_spread < 1e-6
    assert jumpy.coverage == calm.coverage
    assert jumpy.verdict == FITS


def of_normal(n: int, *, scale: float = 1.0) -> Any:
    """Errors as even as n of a normal distribution can be."""
    return scale * np.array([NormalDist().inv_cdf((i + 0.5) / n) for i in range(n)])


def test_a_few_wild_rewards_do_not_make_the_whole_too_narrow_either() -> None:
    wild = [np.append(of_normal(39, scale=0.5), size) for size in (7.0, -8.0, 6.5, -7.5)]
    found = calibration_of(made_of(*wild)).overall
    assert found.coverage[0.8].side(0.8) == 1  # more inside than promised
    assert found.spread.value > 1.0  # though their squares are large on average
    assert found.verdict == FITS
    inside, whole, *_ = calibration_words(calibration_of(made_of(*wild)))
    assert inside.startswith("97.5 % of 160 rewards")  # 39 of 40, all of them within 1.28
    assert "more rewards lay inside than promised" in whole
    assert "nothing speaks against" not in whole


@pytest.mark.parametrize(
    ("z", "verdict", "words"),
    [
        (of_normal(80), FITS, "nothing speaks against the widths"),
        (of_normal(80, scale=1.6), NARROW, "intervals are too narrow, by a factor of 1.5"),
        (of_normal(80, scale=0.5), WIDE, "intervals are wider than they need be, by a factor of 2.0"),
        (np.append(of_normal(300, scale=0.91), [9.0] * 8), FITS, "as many rewards lay inside as promised, yet a few"),
        (np.tile([0.6, -0.6, 0.6, -0.6, 1.4], 40), FITS, "as many .* the others lie nearer than expected"),
        (np.tile([1.3, -0.2, -1.3, 0.1, 0.3], 40), FITS, "fewer rewards lay inside than promised, yet none"),
        (np.append(np.tile([1.3, -0.2, -1.3, 0.1, 0.3], 40), [5.0, -6.0]), FITS, "fewer rewards .* not bear out"),
    ],
)
def test_the_whole_is_said_to_be_what_share_inside_and_mean_square_say_together(
    z: Any, verdict: str, words: str
) -> None:
    found = calibration_of(made_of(z))
    assert found.overall.verdict == verdict
    assert re.search(words, calibration_words(found)[1])


def test_one_station_is_spoken_of_as_one() -> None:
    level = of_normal(40)
    words = " ".join(calibration_words(calibration_of(made_of(level, 3 * level, level))))
    assert "1 of 3 stations promises too much: its intervals are too narrow: s1." in words
    words = " ".join(calibration_words(calibration_of(made_of(level, 3 * level, 3 * level))))
    assert "2 of 3 stations promise too much: their intervals are too narrow: s1, s2." in words
    assert calibration_words(calibration_of(made_of(level[:1])))[0].startswith("0.0 % of 1 reward lay inside")


# --- From the journal ---------------------------------------------------------------------------------------


def test_predictions_are_those_of_asking_with_all_that_makes_a_reward_scatter() -> None:
    controller = drawn(9, rounds=2)
    late, open_ = controller.ask("st-00", {"load": 0.5}), controller.ask("st-01", {"load": 0.2})
    controller.tell(late.id, 0.9, noise=0.07)
    controller.correct("d000003", 0.123)
    found = predictions_of(controller)
    assert len(found) == 2 * STATIONS + 1
    assert open_.id in controller.pending
    assert late.mean is not None
    assert late.std is not None
    assert found.z[-1] == pytest.approx((0.9 - late.mean) / math.sqrt(late.std**2 + NOISE + 0.07))
    assert found.rewards[2] == 0.123
    density = math.exp(found.log_density[-1])
    spread = late.std**2 + NOISE + 0.07
    expected = math.exp(-((0.9 - late.mean) ** 2) / (2 * spread)) / math.sqrt(2 * math.pi * spread)
    assert density == pytest.approx(expected)
    assert found.rounds[:STATIONS].tolist() == [0] * STATIONS
    assert len(set(found.rounds.tolist())) == 3


def test_stations_of_a_round_count_as_one_in_the_interval_of_all() -> None:
    z = np.repeat(np.array([1.4, -0.2, 0.9, -1.3]), 25)
    together, apart = calibrated("all", z, clusters=np.repeat(np.arange(4), 25)), calibrated("all", z)
    assert together.spread.value == pytest.approx(apart.spread.value)
    few = mean_square_of(np.array([1.4, -0.2, 0.9, -1.3]))
    assert (together.spread.low, together.spread.high) == pytest.approx((few.low, few.high))
    assert apart.spread.high < together.spread.high


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Controller(SPACE, ["a"]), "0 decisions were asked for and none was told"),
        (lambda: asked(Controller(SPACE, ["a"])), "1 decision was asked for and none was told"),
        (lambda: asked(Controller(SPACE, ["a"], policy="random"), 0.5), "predicts no rewards"),
        (lambda: asked(Controller(SPACE, ["a"], policy="linucb"), 0.5), "widths of another kind"),
    ],
)
def test_what_cannot_be_audited_gets_one_sentence(make: Callable[[], Controller], sentence: str) -> None:
    with pytest.raises(BadInputError, match=sentence):
        audit(make())


@pytest.mark.parametrize("odd", ["x", None, 3, {"state": 1}])
def test_what_is_no_controller_is_refused_by_name(odd: Any) -> None:
    with pytest.raises(BadInputError, match=r"an audit takes controllers, got .*: Controller.load\(folder\)"):
        audit(odd)


@pytest.mark.parametrize("odd", [0, -1, 2.5, "3", True, None])
@pytest.mark.parametrize("name", ["recent", "most_rows"])
def test_numbers_of_rows_are_whole_numbers(name: str, odd: Any) -> None:
    controller = asked(Controller(SPACE, ["a"]), 0.5)
    with pytest.raises(BadInputError, match=f"{name} must be a whole number of at least 1, got"):
        audit(controller, **{name: odd})


def asked(controller: Controller, reward: float | None = None) -> Controller:
    decision = controller.ask("a")
    if reward is not None:
        controller.tell(decision.id, reward)
    return controller


# --- By definition ------------------------------------------------------------------------------------------


def test_calibrated_by_hand() -> None:
    found = calibrated("a", np.array([0.0, 0.5, -0.7, 1.5, -2.5, 2.2]))
    # The 50 % interval ends at 0.674, the 80 % one at 1.282, the 95 % one at 1.960.
    assert [found.coverage[level].value for level in LEVELS] == pytest.approx([2 / 6, 3 / 6, 4 / 6])
    assert found.bias.value == pytest.approx(1.0 / 6)
    assert found.spread.value == pytest.approx((0.25 + 0.49 + 2.25 + 6.25 + 4.84) / 6)
    # Φ: 0.5, 0.69, 0.24, 0.93, 0.006, 0.986
    assert found.histogram.tolist() == [1, 0, 1, 0, 0, 1, 1, 0, 0, 2]


def test_p_values_are_those_of_draws() -> None:
    rng = np.random.default_rng(11)
    draws = rng.standard_normal((20_000, 6))
    for z in (np.array([1.9, -2.2, 0.4, 1.6, -1.4, 2.0]), np.array([0.1, 0.2, -0.3, 0.1, 0.0, -0.2])):
        above = float(((draws**2).sum(axis=1) >= z @ z).mean())
        assert p_of_spread(z) == pytest.approx(2 * min(above, 1 - above), abs=0.015)  # four standard errors
        assert p_of_bias(z) == pytest.approx(float((abs(draws.sum(axis=1)) >= abs(z.sum())).mean()), abs=0.015)
