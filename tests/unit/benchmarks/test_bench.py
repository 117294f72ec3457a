"""What a benchmark measures: ratios, sums over sizes, and a limit that is the real arithmetic."""

import json
from pathlib import Path

import numpy as np
import pytest
from benchmarks.speed.__main__ import SUITES, cost_figure, main
from benchmarks.speed.benches import plain_pair
from benchmarks.speed.measure import BareFactor, Measured, controller_of, machine, states_of, summed


def test_ratios_count_how_many_times_faster_where_that_is_the_aim() -> None:
    slower = Measured("a", "ours", 3.0, "limit", 2.0, aim="at most 1.3")
    faster = Measured("b", "ours", 0.5, "peer", 10.0, aim="at least 5")
    assert (slower.ratio, slower.met) == (1.5, False)
    assert (faster.ratio, faster.met) == (20.0, True)
    assert Measured("c", "limit", 2.0).met is None
    assert Measured("c", "limit", 2.0).to_dict()["ratio"] is None


def test_a_run_is_summed_from_some_of_its_sizes() -> None:
    # Powers are exact between sizes; below the first and above the last the cost is theirs.
    assert summed([2, 5, 8], [8.0, 125.0, 512.0], up_to=9) == pytest.approx(8 + sum(n**3 for n in range(2, 9)) + 512)


@pytest.mark.parametrize("rows", [5, 128, 300])
def test_the_bare_sweep_does_the_work_of_a_forward_substitution(rows: int) -> None:
    rng = np.random.default_rng(rows)
    factor = BareFactor(rows, rng=rng)
    R = rng.standard_normal((rows, 4))
    L = np.linalg.inv(factor.sweep(np.eye(rows)))  # the matrix that it solves with
    assert np.allclose(np.triu(L, 1), 0.0, atol=1e-9)
    assert np.allclose(L @ factor.sweep(R), R)


def test_a_plain_pair_is_the_product_of_both_kernels_summed() -> None:
    x, y = np.zeros((2, 6)), np.zeros((2, 1))
    assert plain_pair((x, y), (x, y)) == pytest.approx(4 * 0.03)  # variance 0.03, outcomes all equal


def test_controllers_with_and_without_structure_decide_alike() -> None:
    rngs = [np.random.default_rng(6) for _ in range(2)]
    plain, shared = (controller_of(rng, structure=s, rows=300) for rng, s in zip(rngs, (False, True), strict=True))
    states = states_of(np.random.default_rng(7))
    for station, decision in plain.ask_all(states).items():
        other = shared.ask(station, states[station])
        assert other.arm == decision.arm
        assert other.mean == pytest.approx(decision.mean, abs=1e-9)


def test_the_machine_is_recorded() -> None:
    found = machine(threads=2)
    assert found["threads"] == 2
    assert {"processor", "python", "numpy", "kinband"} <= set(found)


def test_every_benchmark_runs_small_and_leaves_its_results(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulator", "--quick", "--json", "--threads", "1", "--out", str(tmp_path)]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert json.loads((tmp_path / "simulator.json").read_text(encoding="utf-8")) == printed
    names = [line["name"] for line in printed["measured"]]
    assert names == ["simulator.limit", "simulator.step", "simulator.budget"]
    assert all(line["seconds"] > 0 and line["met"] is None for line in printed["measured"])


def test_decisions_on_the_sparse_posterior_are_timed_early_and_late_and_drawn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sparse", "--quick", "--json", "--threads", "1", "--out", str(tmp_path)]) == 0
    measured = {line["name"]: line for line in json.loads(capsys.readouterr().out)["measured"]}
    assert list(measured) == ["sparse.limit", "sparse.early", "sparse.late"]
    assert [size for size, _ in measured["sparse.late"]["by_size"]] == [1000, 2000]
    assert measured["sparse.late"]["reference_seconds"] == measured["sparse.early"]["seconds"]
    assert (tmp_path / "sparse.png").stat().st_size > 10_000


def test_without_costs_by_size_nothing_is_drawn(tmp_path: Path) -> None:
    assert not cost_figure([Measured("a", "ours", 1.0).to_dict()], [tmp_path / "none.png"])
    assert not list(tmp_path.iterdir())


def test_an_unknown_benchmark_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["speed"]) == 2
    said = capsys.readouterr().err
    assert all(name in said for name in SUITES)
