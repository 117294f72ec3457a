"""False alarms come no more often than was promised, and changes are seen soon."""

import numpy as np

from kinband import ConfigurationSpace, Controller
from kinband.controller.events import ChangePoint
from kinband.drift import ChangeDetector, Drift, Reset
from kinband.kernels import RBF


def run_lengths(rng: np.random.Generator, *, shift: float, count: int, most: int, run_length: float) -> list[int]:
    """How many residuals it takes until an alarm, cut off at `most`."""
    found = []
    for _ in range(count):
        evidence = ChangeDetector()
        zs = rng.standard_normal(most) + shift
        n = 0
        for z in zs:
            evidence.add(float(z))
            n += 1
            if evidence.value >= run_length:
                break
        found.append(n)
    return found


def test_false_alarms_within_n_decisions_are_no_more_than_n_over_the_run_length() -> None:
    rng, most, run_length, count = np.random.default_rng(17), 60, 200.0, 250
    alarms = sum(n < most for n in run_lengths(rng, shift=0.0, count=count, most=most, run_length=run_length))
    promised = most / run_length
    error = np.sqrt(promised * (1 - promised) / count)
    assert alarms / count <= promised + 3 * error


def test_the_mean_run_is_at_least_the_run_length() -> None:
    rng, run_length, count = np.random.default_rng(18), 50.0, 120
    lengths = np.array(run_lengths(rng, shift=0.0, count=count, most=1500, run_length=run_length), dtype=np.float64)
    error = lengths.std() / np.sqrt(count)
    assert lengths.mean() >= run_length - 3 * error


def test_a_large_shift_is_seen_within_a_few_decisions() -> None:
    rng = np.random.default_rng(19)
    lengths = np.array(run_lengths(rng, shift=-3.0, count=200, most=50, run_length=2000.0), dtype=np.float64)
    # λ = 3 gains 4.5 nats a residual on average, and log(2000) and the log of six shifts are to be earned.
    assert lengths.mean() <= np.log(2000 * 6) / 4.5 + 2.0


def test_a_controller_whose_model_is_right_seldom_resets() -> None:
    """Rewards drawn from the controller's own prior: residuals are standard normal, given what is known."""
    rng, kernel, noise, decisions, run_length = np.random.default_rng(20), RBF(0.7, variance=0.04), 0.01, 40, 100.0
    space, resets, runs = ConfigurationSpace(knob=range(4)), 0, 12
    for run in range(runs):
        drift = Drift(reset=Reset(run_length))
        controller = Controller(space, ["a"], kernel=kernel, noise=noise, beta=0.5, drift=drift, seed=run)
        X = space.features
        f = np.linalg.cholesky(kernel(X, X) + 1e-10 * np.eye(4)) @ rng.standard_normal(4)
        for _ in range(decisions):
            decision = controller.ask("a")
            controller.tell(decision.id, float(f[decision.arm] + np.sqrt(noise) * rng.standard_normal()))
        resets += any(isinstance(entry, ChangePoint) for entry in controller.journal)
    promised = decisions / run_length
    assert resets / runs <= promised + 3 * np.sqrt(promised * (1 - promised) / runs)
