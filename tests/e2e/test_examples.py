"""The examples run as they stand, without warnings, and print what they promise."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(name: str, folder: Path) -> str:
    """Run an example in an empty folder and return what it prints."""
    command = [sys.executable, "-W", "error", str(EXAMPLES / name)]
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=120, cwd=folder, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_csv_example_reads_a_messy_export_and_decides_well(tmp_path: Path) -> None:
    printed = run("bring_your_own_csv.py", tmp_path)
    assert "240 rows, 4 stations; state: users; configuration: threshold_dbm" in printed  # no repeat, no serial number
    matrix = {name: [float(v) for v in row.split()] for name, row in re.findall(r"^  (\w+)  ([\d. ]+)$", printed, re.M)}
    names = list(matrix)
    one_site = matrix["3714A"][names.index("3714B")]
    assert one_site > matrix["3714A"][names.index("1217A")]
    # 90 is the most that any threshold earns on average; the noise has a standard deviation of 1.5.
    earned = [float(value) for value in re.findall(r"earned ([\d.]+) %", printed)]
    assert len(earned) == 4
    assert min(earned) > 90 - 5 * 1.5
    assert "1217A should run threshold_dbm=" in printed
    assert "decides the same, True" in printed
    assert list(tmp_path.iterdir()) == []


def test_the_policy_example_beats_chance_and_compares_in_pairs(tmp_path: Path) -> None:
    printed = run("write_your_own_policy.py", tmp_path)
    assert "keeps the contract" in printed
    found = {
        name: (float(mean), float(error))
        for name, mean, error in re.findall(r"^  (\w+) +([\d.]+) ± ([\d.]+)$", printed, re.M)
    }
    chance, chance_error = found["random"]
    for name in ("Thompson", "UCB"):
        mean, error = found[name]
        assert mean + 4 * error < chance - 4 * chance_error
    pairs = re.search(r"in pairs: ([+-][\d.]+) ± ", printed)
    assert pairs is not None
    assert float(pairs[1]) == pytest.approx(found["Thompson"][0] - found["UCB"][0], abs=0.011)


def test_the_comparison_example_compares_both_with_ours_on_real_tables(tmp_path: Path) -> None:
    printed = run("compare_your_own.py", tmp_path)
    saved = {}
    for problem in ("gcc:exec:10", "x264:kbs:10"):
        part = printed.partition(f"{problem}\n")[2]
        for name in ("kinband", "mean rewards", "epsilon-greedy", "random"):
            found = re.search(rf"^  {name} +regret .* saved (-?\d+)% ", part, re.M)
            assert found is not None
            saved[problem, name] = int(found[1])
        assert f"most is saved on {problem} by" in printed
        assert saved[problem, "kinband"] > saved[problem, "random"]
    assert (tmp_path / "regret.png").read_bytes().startswith(b"\x89PNG")
    rows = (tmp_path / "runs.csv").read_text().splitlines()[1:]
    assert len(rows) == 2 * 5 * 5 * 5  # problems, learners, seeds, rounds


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_every_example_is_short_and_tested(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) < 80
    assert f'run("{path.name}"' in Path(__file__).read_text(encoding="utf-8")
