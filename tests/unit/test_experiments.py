"""Running and comparing: jobs that can be interrupted, paired savings, curves that come back as they were stored."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from kinband.experiments.metrics import mean_of, saving_of
from kinband.experiments.paper.comparisons import FIGURES, best_betas, best_settings, final_regrets, quick, savings
from kinband.experiments.paper.regression import error_curve
from kinband.experiments.play.cases import Case, Learner, Prior, read_model
from kinband.experiments.play.runs import Curve, run_cases
from kinband.experiments.pool import Job, run_jobs
from kinband.version import __version__


def write_word(file: Path, word: str) -> None:
    file.write_text(word)


def write_half_and_fail(file: Path, word: str) -> None:
    file.write_text(word[: len(word) // 2])
    raise RuntimeError("the power went out")


USUAL = Prior(0.3, 0.1)


def case(name: str = "independent", *, seed: int = 1, slots: int = 6, beta: float = 1.0) -> Case:
    learner = Learner(name, name, beta=beta)
    return Case("t", "paper", "synthetic", learner, "parallel", slots, seed, log_rows=12, prior=USUAL)


SLOW_JOBS = """
import os, time
from pathlib import Path
from kinband.experiments.pool import Job, run_jobs

def note_and_wait(file, folder):
    (Path(folder) / f"worker-{os.getpid()}").touch()
    time.sleep(120)

if __name__ == "__main__":
    run_jobs([Job(Path(f"job-{i}"), note_and_wait, (".",)) for i in range(2)], workers=2)
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


@pytest.mark.parametrize("workers", [1, 2])
def test_jobs_that_are_done_are_not_run_again(tmp_path: Path, workers: int) -> None:
    (tmp_path / "b").write_text("kept")
    jobs = [Job(tmp_path / name, write_word, (name,)) for name in "abc"]
    seen: list[str] = []
    assert run_jobs(jobs, workers=workers, tick=lambda job: seen.append(job.file.name)) == 2
    assert (tmp_path / "b").read_text() == "kept"
    assert (tmp_path / "c").read_text() == "c"
    assert sorted(seen) == ["a", "b", "c"]
    assert run_jobs(jobs, workers=workers) == 0


@pytest.mark.parametrize("workers", [1, 2])
def test_a_job_that_fails_leaves_no_file_and_keeps_the_others(tmp_path: Path, workers: int) -> None:
    good = Job(tmp_path / "good", write_word, ("good",))
    run_jobs([good])
    bad = [Job(tmp_path / name, write_half_and_fail, ("badly",)) for name in ("bad", "worse")]
    with pytest.raises(RuntimeError, match="power"):
        run_jobs([good, *bad], workers=workers)
    assert [f.name for f in tmp_path.iterdir()] == ["good"]


def test_savings_are_over_pairs() -> None:
    # Seeds differ by a factor of ten; in pairs the saving is exactly 20 % for every one of them.
    baseline = np.array([1.0, 10.0, 100.0])
    saved = saving_of(0.8 * baseline, baseline)
    assert (saved.value, saved.low, saved.high) == pytest.approx((0.2, 0.2, 0.2))


def test_one_run_gives_no_interval() -> None:
    assert f"{saving_of(np.array([5.0]), np.array([10.0])):.0%}" == "50% (one run, no interval)"


def test_intervals_cover_the_mean_about_as_often_as_they_say() -> None:
    rng = np.random.default_rng(3)
    inside = 0
    for _ in range(400):
        estimate = mean_of(rng.normal(0.3, 1.0, size=20))
        inside += estimate.low <= 0.3 <= estimate.high
    # A percentile bootstrap of 20 values covers a little less than 95 %: at least 90 %, minus 3 standard errors.
    assert inside / 400 > 0.90 - 3 * np.sqrt(0.9 * 0.1 / 400)


def test_results_carry_their_case_and_come_back(tmp_path: Path) -> None:
    cases = [case(seed=seed) for seed in (1, 2)]
    curves = run_cases(cases, tmp_path, workers=1)
    again = run_cases(cases, tmp_path, workers=1)
    for one, two in zip(curves, again, strict=True):
        assert one.realised.tolist() == two.realised.tolist()
        assert one.slot.tolist() == [1, 2, 3, 4, 5, 6]
        assert (np.diff(one.realised) >= 0).all()
    about = json.loads(pq.read_schema(tmp_path / "runs" / f"{cases[0].key}.parquet").metadata[b"kinband"])
    assert about["kinband"] == __version__
    assert about["case"]["seed"] == 1
    assert read_model(tmp_path / "models" / f"{cases[0].model_key}.npz").noise == 0.1


def test_processes_give_the_same_results_as_one(tmp_path: Path) -> None:
    cases = [case(name, seed=2) for name in ("independent", "embedding")]
    one = run_cases(cases, tmp_path / "one", workers=1)
    two = run_cases(cases, tmp_path / "two", workers=2)
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
