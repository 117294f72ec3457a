"""From a messy export to decisions: read it, see who is alike, ask, tell, explain, save.

The export made here has what exports have: a byte-order mark, semicolons, decimal commas, names of its own, a serial
number that must not become a feature, rewards in per cent, and a row that came twice. Put your own file in its place.

Run it: python examples/bring_your_own_csv.py
"""

import csv
import tempfile
from pathlib import Path

import numpy as np

from kinband import ConfigurationSpace, Controller, Trace

BEST_DBM = {"3714A": -103, "3714B": -102, "1217A": -92, "1217B": -93}  # what the log knows and kinband does not


def good_share(cell: str, users: float, threshold: int, rng: np.random.Generator) -> float:
    """Per cent of users above 5 Mbit/s; more users move the best threshold up."""
    peak = BEST_DBM[cell] + 0.06 * (users - 50)
    return float(np.clip(90 - 60 * ((threshold - peak) / 30) ** 2 + rng.normal(0, 1.5), 0, 100))


def write_export(path: Path, rng: np.random.Generator) -> None:
    rows = []
    for number in range(240):
        cell = list(BEST_DBM)[number % 4]
        users, threshold = rng.uniform(5, 95), int(rng.integers(-112, -83))
        time = f"2024-05-{1 + number // 96:02d}T{number // 4 % 24:02d}:00"
        values = (f"{users:.1f}", threshold, f"{good_share(cell, users, threshold, rng):.2f}")
        rows.append([number, cell, time, *(str(value).replace(".", ",") for value in values)])
    rows.append(rows[-1])  # exported twice
    with path.open("w", newline="", encoding="utf-8-sig") as file:
        csv.writer(file, delimiter=";").writerows([["no", "Cell Name", "Hour", "Users avg", "A2 thr", "Good %"], *rows])


def main() -> None:
    rng = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "export.csv"
        write_export(path, rng)
        columns = {
            "station": "Cell Name",
            "time": "Hour",
            "reward": "Good %",
            "state": {"users": "Users avg"},  # naming the state leaves the serial number out
            "configuration": {"threshold_dbm": "A2 thr"},
        }
        trace = Trace.read(path, columns, reward_range=(0, 100), duplicates="drop", delimiter=";", decimal_point=",")
        print(f"read {trace}")

        space = ConfigurationSpace(threshold_dbm=range(-112, -83))
        controller = Controller.from_trace(trace, space, similarity="embedding", beta=1.0, seed=0)
        print("how alike the cells are:")
        for name, row in zip(controller.stations, controller.similarity.matrix, strict=True):
            print(f"  {name}  " + "  ".join(f"{value:.2f}" for value in row))

        states = {cell: {"users": float(rng.uniform(20, 80))} for cell in controller.stations}
        decisions = controller.ask_all(states)
        for cell, decision in decisions.items():
            threshold = space[decision.arm]["threshold_dbm"]
            earned = good_share(cell, states[cell]["users"], threshold, rng)
            controller.tell(decision.id, reward=earned)  # any order, any delay
            print(f"{cell} with {states[cell]['users']:.0f} users ran {threshold} dBm and earned {earned:.1f} %")
        print(controller.explain(decisions["1217A"].id))

        controller.save(Path(folder) / "state")
        again = Controller.load(Path(folder) / "state")
        same = again.ask("3714A", {"users": 50.0}).arm == controller.ask("3714A", {"users": 50.0}).arm
        print(f"saved and loaded: decides the same, {same}")


if __name__ == "__main__":
    main()
