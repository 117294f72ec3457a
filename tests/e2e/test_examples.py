"""The examples run as they stand, without warnings, and print what they promise."""

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.support import netconf

from kinband.cli import main
from kinband.impact.changes import read_orders
from kinband.trace import Trace

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(name: str, folder: Path) -> str:
    """Run an example in an empty folder and return what it prints."""
    command = [sys.executable, "-W", "error", str(EXAMPLES / name)]
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=500, cwd=folder, env=environment
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


def test_the_example_from_files_to_impact_plans_writes_and_judges(tmp_path: Path) -> None:
    printed = run("files_to_impact.py", tmp_path)
    city = tmp_path / "out" / "files-to-impact"
    settings = re.findall(r"a2ThresholdRsrp>(\d+)<", (city / "change.xml").read_text(encoding="utf-8"))
    planned = re.findall(r"^\d{4},.*", (city / "tonight" / "plan.csv").read_text(encoding="utf-8"), re.M)
    assert "$ kinband counters pm --map map.yaml" in printed
    assert 2 <= len(planned) <= 4
    assert len(settings) == len(planned)
    assert f"{len(planned)} changes of {len(planned)} judged" in printed
    assert "<script" not in (city / "impact" / "impact.html").read_text(encoding="utf-8")


def test_the_energy_example_saves_and_keeps_its_users_satisfied(tmp_path: Path) -> None:
    printed = run("energy_saving.py", tmp_path)
    city = tmp_path / "out" / "energy-saving"
    orders = {order.station: int(order.set["sleep_threshold_percent"]) for order in read_orders(city / "tonight")}
    assert len(orders) == 8
    assert "a floor would be broken" in printed
    settings = re.findall(r"esLoadThreshold>(\d+)<", (city / "change.xml").read_text(encoding="utf-8"))
    assert sorted(map(int, settings)) == sorted(orders.values())
    judged = r"The changes helped: \+([\d.]+) in energy_saved on average \(95 % interval \+([\d.]+) to \+([\d.]+)\)"
    found = re.search(judged, printed)
    assert found is not None
    gain, low, high = map(float, found.groups())
    later = Trace.read(city / "later.parquet")
    assert later.time is not None
    changed, after = np.isin(later.station, list(orders)), later.time > np.datetime64("2024-05-21")
    saved = [later.reward[changed & on].mean() for on in (~after, after)]
    assert saved[1] - saved[0] == pytest.approx(gain, abs=0.05)
    assert low < gain < high
    assert later.reward[after].mean() > later.reward[~after].mean()  # the whole city takes less
    satisfied = later.kpis["satisfied_users"]
    assert min(satisfied[(later.station == name) & after].mean() for name in orders) >= 0.95
    assert satisfied[after].mean() >= 0.95


CELL = "/c:ManagedElement[id={ManagedElement}]/ENBFunction[id=1]/EUtranCellFDD[id={id}]/attributes"
NETCONF = f"""
netconf:
  namespaces: {{c: "{netconf.SPACE}"}}
  paths: {{handover_threshold_dbm: "{CELL}/a2ThresholdRsrp"}}
"""


@pytest.mark.skipif(bool(netconf.MISSING), reason=netconf.WHY)
def test_the_example_from_files_to_impact_goes_out_to_a_real_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    example = runpy.run_path(str(EXAMPLES / "files_to_impact.py"))
    example["make_a_plan"]()
    with Path("map.yaml").open("a") as mapping:
        mapping.write(NETCONF)
    present = netconf.settings_at_the_end(Path("cm.csv"))
    planned = read_orders(Path("tonight"))
    wanted = present | {int(order.station): int(order.set["handover_threshold_dbm"]) + 140 for order in planned}
    with netconf.network(1) as (server,):
        (server.home / "startup.xml").write_text(netconf.node_of_all_sites(Path("inventory.csv"), present))
        server.start(fresh=False)
        assert server.cells() == present
        key = ["--ssh-config", str(server.ssh_config)]
        assert main(["apply", "tonight", "--map", "map.yaml", "--netconf", server.name, "--confirm", "60", *key]) == 0
        assert main(["confirm", "tonight", *key]) == 0
        assert server.cells() == wanted != present
    example["judge"]()
    said = capsys.readouterr().out
    n = len(planned)
    assert f"{n} values of {n} stations on 1 node: confirmed and read back." in " ".join(said.split())
    assert f"{n} changes of {n} judged" in said
    assert netconf.settings_at_the_end(Path("cm-later.csv")) == wanted


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_every_example_is_short_and_tested(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) < 80
    assert f'run("{path.name}"' in Path(__file__).read_text(encoding="utf-8")
