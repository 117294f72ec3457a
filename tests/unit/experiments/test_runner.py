"""Running: jobs that can be interrupted, paired savings, curves that come back as they were kept."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kinband.errors import BadInputError
from kinband.experiments.compare import best_betas, final_regrets, mean_over_runs, saving_of
from kinband.experiments.paper import FIGURES, best_settings, error_curve, quick, savings
from kinband.experiments.runner import Case, Curve, Job, Learner, Prior, learn_models, run_cases, run_jobs
from kinband.version import __version__


def say(word: str) -> dict[str, Any]:
    return {"word": word}


def fail(reason: str) -> dict[str, Any]:
    raise RuntimeError(reason)


USUAL = Prior(0.3, 0.1)


def case(name: str = "independent", *, seed: int = 1, slots: int = 6, beta: float = 1.0) -> Case:
    learner = Learner(name, name, beta=beta)
    return Case("synthetic", learner, slots, seed, log_rows=12, prior=USUAL, start=False)


SLOW_JOBS = """
import os, time
from pathlib import Path
from kinband.experiments.runner import Job, run_jobs

def note_and_wait(folder):
    (Path(folder) / f"worker-{os.getpid()}").touch()
    time.sleep(120)

if __name__ == "__main__":
    run_jobs([Job(None, note_and_wait, (".",)) for i in range(2)], n_jobs=2)
"""


@pytest.mark.skipif(os.name != "posix", reason="needs signals")
def test_workers_end_with_a_parent_that_was_killed(tmp_path: Path) -> None:
    (tmp_path / "slow_jobs.py").write_text(SLOW_JOBS, encoding="utf-8")
    parent = subprocess.Popen([sys.executable, "slow_jobs.py"], cwd=tmp_path)

    def workers() -> list[int]:
        return [int(note.name.split("-")[1]) for note in tmp_path.glob("worker-*")]

    assert eventually(lambda: len(workers()) == 2)
    parent.kill()
    parent.wait()
    assert eventually(lambda: not any(alive(pid) for pid in workers()))


def eventually(holds: Callable[[], bool], *, seconds: float = 60.0) -> bool:
    end = time.monotonic() + seconds
    while not holds() and time.monotonic() < end:
        time.sleep(0.05)
    return holds()


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not (stat.exists() and stat.read_text(encoding="utf-8").rsplit(")", 1)[1].split()[0] == "Z")


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_jobs_that_are_done_are_not_run_again(tmp_path: Path, n_jobs: int) -> None:
    (tmp_path / "b").write_text('{"word": "kept"}')
    jobs = [Job(tmp_path / name, say, (name,)) for name in "abc"]
    seen: list[str] = []
    found = run_jobs(jobs, n_jobs=n_jobs, tick=lambda job: seen.append(job.arguments[0]))
    assert [one["word"] for one in found] == ["a", "kept", "c"]
    assert json.loads((tmp_path / "c").read_text()) == {"word": "c"}
    assert sorted(seen) == ["a", "b", "c"]
    assert run_jobs(jobs, n_jobs=n_jobs) == found


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_job_that_fails_leaves_no_file_and_keeps_the_others(tmp_path: Path, n_jobs: int) -> None:
    good = Job(tmp_path / "good", say, ("good",))
    run_jobs([good])
    bad = [Job(tmp_path / name, fail, ("the power went out",)) for name in ("bad", "worse")]
    with pytest.raises(RuntimeError, match="power"):
        run_jobs([good, *bad], n_jobs=n_jobs)
    assert [f.name for f in tmp_path.iterdir()] == ["good"]


def test_savings_are_over_pairs() -> None:
    # Seeds differ by a factor of ten; in pairs the saving is exactly 20 % for every one of them.
    baseline = np.array([1.0, 10.0, 100.0])
    saved = saving_of(0.8 * baseline, baseline)
    assert (saved.value, saved.low, saved.high) == pytest.approx((0.2, 0.2, 0.2))


def test_one_run_gives_no_interval() -> None:
    assert f"{saving_of(np.array([5.0]), np.array([10.0])):.0%}" == "50% (no interval)"


def test_intervals_cover_the_mean_about_as_often_as_they_say() -> None:
    rng = np.random.default_rng(3)
    inside = 0
    for _ in range(400):
        estimate = mean_over_runs(rng.normal(0.3, 1.0, size=20))
        inside += estimate.low <= 0.3 <= estimate.high
    # A percentile bootstrap of 20 values covers a little less than 95 %: at least 90 %, minus 3 standard errors.
    assert inside / 400 > 0.90 - 3 * np.sqrt(0.9 * 0.1 / 400)


def test_results_carry_their_case_and_come_back(tmp_path: Path) -> None:
    cases = [case(seed=seed) for seed in (1, 2)]
    curves = run_cases(cases, tmp_path, n_jobs=1)
    again = run_cases(cases, tmp_path, n_jobs=1)
    for one, two in zip(curves, again, strict=True):
        assert one.realised.tolist() == two.realised.tolist()
        assert one.slot.tolist() == [1, 2, 3, 4, 5, 6]
        assert (np.diff(one.realised) >= 0).all()
    about = json.loads((tmp_path / "runs" / f"{cases[0].key}.json").read_text())
    assert about["kinband"] == __version__
    assert about["case"]["seed"] == 1
    assert len(list((tmp_path / "models").iterdir())) == 2  # their logs are drawn by the seed


def test_a_model_comes_back_as_it_was_kept(tmp_path: Path) -> None:
    one = Case("synthetic", Learner("e", "embedding"), 3, 1, log_rows=12)
    (learned,), (read,) = learn_models([one], tmp_path, n_jobs=1), learn_models([one], tmp_path, n_jobs=1)
    assert (learned.kernel, learned.noise, learned.mean) == (read.kernel, read.noise, read.mean)
    np.testing.assert_array_equal(learned.similarity.matrix, read.similarity.matrix)
    assert learned.similarity.stations == read.similarity.stations


def test_what_cannot_be_pickled_can_be_run_but_not_kept(tmp_path: Path) -> None:
    class Half:
        def fit(self, log: Any) -> Any:
            return 0.5 * np.eye(len(log.stations)) + 0.5

    one = Case("synthetic", Learner("half", Half()), 2, 1, log_rows=4, prior=USUAL)
    assert len(run_cases([one], n_jobs=1)) == 1
    with pytest.raises(BadInputError) as caught:
        run_cases([one], tmp_path, n_jobs=1)
    assert caught.value.code == "cannot_keep"


def test_processes_give_the_same_results_as_one(tmp_path: Path) -> None:
    cases = [case(name, seed=2) for name in ("independent", "embedding")]
    one = run_cases(cases, tmp_path / "one", n_jobs=1)
    two = run_cases(cases, tmp_path / "two", n_jobs=2)
    assert [c.realised.tolist() for c in one] == [c.realised.tolist() for c in two]


def curve(name: str, seed: int, regret: float, *, beta: float = 1.0, prior: Prior = USUAL) -> Curve:
    made = case(name, seed=seed, beta=beta)
    values = np.array([regret])
    return Curve(Case(**{**vars(made), "prior": prior}), np.array([1]), values, values, values, 0.0)


def test_the_headline_stands_where_the_baseline_is_best() -> None:
    other = Prior(1.0, 0.1)
    curves = [curve("independent", 1, 5.0, prior=other), curve("independent", 2, 6.0, prior=other)]
    curves += [curve("independent", 1, 4.0, beta=0.3, prior=other), curve("independent", 2, 4.5, beta=0.3, prior=other)]
    curves += [curve("independent", 1, 9.0, beta=0.3)]
    assert best_settings(curves, most=1) == [(other, 0.3)]


def test_every_method_gets_its_own_best_beta() -> None:
    curves = [curve("independent", 1, 3.0, beta=1.0), curve("independent", 1, 2.0, beta=2.0)]
    curves += [curve("embedding", 1, 1.0, beta=1.0), curve("embedding", 1, 2.0, beta=2.0)]
    assert best_betas(curves) == {"independent": 2.0, "embedding": 1.0}


def test_savings_match_seeds_whatever_the_order() -> None:
    curves = [curve("independent", 2, 20.0), curve("independent", 1, 10.0), curve("embedding", 1, 5.0)]
    curves.append(curve("embedding", 2, 10.0))
    assert final_regrets(curves)["independent"].tolist() == [10.0, 20.0]
    assert savings(curves)["embedding"].value == pytest.approx(0.5)


def test_a_quick_look_is_a_part_of_the_whole() -> None:
    whole, small = FIGURES["synthetic"], quick(FIGURES["synthetic"])
    assert set(small.grid) <= set(whole.grid)
    assert set(small.betas) <= set(whole.betas)
    assert small.slots < whole.slots


def test_the_error_curve_is_lowest_near_the_truth() -> None:
    # 400 draws: the standard error of the place is about 0.035/2, see tests/statistical/test_two_task_regression.py.
    lowest = error_curve(draws=400, seed=5).lowest
    assert abs(lowest.value - 0.8) < 4 * 0.0175
    assert lowest.low <= lowest.value <= lowest.high
