"""Experiments on a real Ray cluster of two nodes give what they give on this machine."""

import importlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kinband.cluster import join
from kinband.experiments.runner import Case, Job, Learner, Prior, run_cases, run_jobs

pytest.importorskip("ray", reason="Ray is not installed: pip install 'kinband[ray]'")

# What Ray itself leaves open when processes come and go.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning:ray.*"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:ray.*"),
]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A cluster of two nodes with one processor each, joined by this process."""
    store = 80 * 2**20
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    head = {"num_cpus": 1, "include_dashboard": False, "object_store_memory": store}
    cluster = importlib.import_module("ray.cluster_utils").Cluster(initialize_head=True, head_node_args=head)
    cluster.add_node(num_cpus=1, object_store_memory=store)
    leave = join(cluster.address, processors=1, timeout=60.0)
    yield cluster.address
    leave()
    cluster.shutdown()


def test_jobs_run_on_the_cluster_and_their_results_come_back(address: str, tmp_path: Path) -> None:
    def double(word: str) -> dict[str, Any]:  # sent as it stands: workers have no tests
        return {"word": 2 * word}

    def fail(reason: str) -> dict[str, Any]:
        raise ValueError(reason)

    jobs = [Job(tmp_path / f"{n}.json", double, (str(n),)) for n in range(5)]
    (tmp_path / "3.json").write_text('{"word": "kept"}')
    seen: list[str] = []
    found = run_jobs(jobs, ray=address, tick=lambda job: seen.append(job.arguments[0]))
    assert sorted(seen) == list("01234")
    assert [one["word"] for one in found] == ["00", "11", "22", "kept", "44"]
    assert [job.read() for job in jobs] == found
    with pytest.raises(ValueError, match="the power went out"):
        run_jobs([Job(tmp_path / "bad.json", fail, ("the power went out",))], ray=address)
    assert sorted(f.stem for f in tmp_path.iterdir()) == list("01234")


def test_experiments_on_the_cluster_give_the_results_of_this_machine(address: str, tmp_path: Path) -> None:
    learner = Learner("embedding", "embedding", beta=0.7)
    cases = [Case("synthetic", learner, 8, seed, log_rows=10, prior=Prior(0.3, 0.1), start=False) for seed in (1, 2, 3)]
    there, here = run_cases(cases, tmp_path / "there", ray=address), run_cases(cases, tmp_path / "here", n_jobs=1)
    for one, other in zip(there, here, strict=True):
        np.testing.assert_array_equal(one.realised, other.realised)
