"""Claims about newcomers and about cost: who joins, what is kept on disk, and when a claim is kept."""

import json
from pathlib import Path

import numpy as np
import pytest
from benchmarks import cost
from benchmarks.claims import cost_claims
from benchmarks.findings import Size
from benchmarks.newcomers import ARRIVALS, Arrival, Draw, draws, parted, run, scene_of, welcome
from benchmarks.studies.newcomers import ALONE, AVERAGE, DESCRIBED, joined

from kinband.environments.measured import bundled_measured
from kinband.experiments.runner import run_jobs

TINY = Arrival("tiny", "measured:gcc:exec", 3, network=8, newcomers=3, rounds=1, decisions=2)


@pytest.mark.parametrize("arrival", ARRIVALS, ids=lambda arrival: arrival.name)
def test_nobody_in_the_network_has_the_descriptors_of_a_newcomer(arrival: Arrival) -> None:
    system, outcome = arrival.environment.split(":")[1:]
    environment = bundled_measured(system, outcome)
    for seed in range(5):
        network, late = parted(environment, arrival, seed)
        seen = [environment.descriptors[task] for task in network]
        assert not any(environment.descriptors[task] in seen for task in late)
        assert len(network) <= 40
        assert len(late) >= min(10, len(environment.stations) // 4)


def test_alone_has_the_kernel_noise_and_mean_of_the_network_and_shares_nothing() -> None:
    scene, _ = scene_of(Draw(TINY, 1), 0.3)
    alone, ours = joined(scene, ALONE).setup, scene.controller.setup
    assert (repr(alone.kernel), alone.noise, alone.mean) == (repr(ours.kernel), ours.noise, ours.mean)
    assert alone.stations == scene.newcomers
    assert alone.start is None
    assert np.array_equal(alone.K_Z, np.eye(len(scene.newcomers)))
    assert len(joined(scene, DESCRIBED).stations) == len(ours.stations) + len(scene.newcomers)


def test_a_draw_is_the_same_again_and_sums_up_to_savings(tmp_path: Path) -> None:
    size = Size((101,), (1, 2))
    assert len(run_jobs([draw.job(tmp_path) for draw in draws(size, [TINY])], n_jobs=1)) == 3
    assert run(Draw(TINY, 1))["regret"] == Draw(TINY, 1).job(tmp_path).read()["regret"]
    found = welcome(TINY, size, tmp_path)
    regret = [Draw(TINY, seed).job(tmp_path).read()["regret"] for seed in (1, 2)]
    ours, alone = (sum(one[start][str(found.beta[start])] for one in regret) for start in (AVERAGE, ALONE))
    assert found.saved[AVERAGE].value == pytest.approx(1 - ours / alone)


def test_cost_is_held_against_its_aims(tmp_path: Path) -> None:
    found = [{"seconds": 4.0}, {"seconds": 61.0}, {"default": 1.2, "paper": 1.0}]
    for measured, values in zip((*cost.LEARNINGS, None), found, strict=True):
        file = cost.job(measured, tmp_path).file
        assert file is not None
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(values))
    claims = cost_claims(tmp_path)
    assert [claim.kept for claim in claims] == [True, False, True]
    assert [claim.measured for claim in claims] == ["4.0 s", "61.0 s", "1.20"]


def test_the_model_of_a_short_log_is_timed() -> None:
    assert cost.learn(cost.Learning(2, 10.0))["seconds"] > 0
