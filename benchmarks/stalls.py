"""How long anybody waits for a busy service: 105 stations with as many rewards as are wanted, while all else goes on.

    python -m benchmarks.stalls --rewards 105000 --folder out/stalls

A past is written into a ledger once, through the controller's own journal. Then, for every kind of long work
(a correction that has everything learned anew, a newcomer, a snapshot, evidence, files of everything), a round is
asked for and told again and again, and everything is stopped and resumed, while that work goes on in other threads of
the same process. The table says how often each was called meanwhile and how long it took at most. With `--apart` the
seven kinds of stations share nothing, so that a newcomer that is like two of them has everything learned anew, too.
"""

import argparse
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from itertools import count
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.service.problem import STATIONS, station_names
from kinband import ConfigurationSpace, Controller
from kinband.controller.events import Asked, Entry, Told
from kinband.kernels import RBF
from kinband.records import Decision
from kinband.service.ledger import Ledger
from kinband.service.operations import Operations
from kinband.service.tables import csv_text

SPACE = ConfigurationSpace(handover_threshold_dbm=range(-112, -83))


def new_controller(stations: int, points: int, *, apart: bool = False) -> Controller:
    """Return the controller: seven kinds of stations, one state feature, a sparse posterior."""
    kinds = np.arange(stations) % 7
    rng = np.random.default_rng(3)
    A = rng.standard_normal((7, 4))[kinds] + 0.3 * rng.standard_normal((stations, 4))
    D2 = ((A[:, None] - A[None]) ** 2).sum(axis=-1)
    alike = np.exp(-0.2 * D2) * (kinds[:, None] == kinds if apart else 1.0)
    return Controller(
        SPACE, station_names(stations), state={"load": (0, 1)}, similarity=alike,
        kernel=RBF([0.5, 1.0], variance=0.02), noise=0.0004, mean=0.8, beta=0.5, engine="sparse",
        inducing_points=points, running={"handover_threshold_dbm": -98}, reward_range=(0, 1), seed=1,
    )  # fmt: skip


def past_of(controller: Controller, rewards: int) -> Iterator[Entry]:
    """Give so many decisions and their rewards, round after round, of arms at random."""
    rng, names, encoder = np.random.default_rng(1), controller.stations, controller.setup.encoder
    for number in range(rewards // len(names)):
        load, asked = float(rng.random()), list[str]()
        contexts = encoder.contexts({"load": load})
        for task, name in enumerate(names):
            arm = int(rng.integers(len(SPACE)))
            key = f"d{number * len(names) + task + 1:06d}"
            made = Decision(key, name, arm, dict(SPACE[arm]), None, None, None, known=number * len(names), round=number)
            asked.append(key)
            yield Asked(made, task, contexts[arm], {"load": load})
        for key in asked:
            yield Told(key, float(np.clip(0.8 + 0.1 * rng.standard_normal(), 0, 1)), None)


def write_past(url: str, *, stations: int, rewards: int, points: int, apart: bool) -> None:
    """Write a past into an empty ledger, with a snapshot at its end."""
    empty = new_controller(stations, points, apart=apart)
    controller = Controller.resume(empty.setup, past_of(empty, rewards))
    with closing(Ledger.open(url)) as ledger:
        Operations.open(ledger, controller, mode="autonomous").turns.snapshot()


# --- What goes on, and who waits ------------------------------------------------------------------------------------


class Stopwatch:
    """The longest times of calls by name."""

    def __init__(self) -> None:
        self.took = dict[str, list[float]]()

    def time(self, name: str, call: Callable[[], object]) -> None:
        """Make a call and note how long it took."""
        begun = perf_counter()
        call()
        self.took.setdefault(name, []).append(perf_counter() - begun)


def work_of(operations: Operations) -> Mapping[str, Callable[[], object]]:
    """Return the kinds of long work by name."""
    told = list(operations.controller.journal.told)
    rewards, newcomers = count(), count()
    one, other = operations.controller.stations[:2]
    last = list(operations.controller.journal.asked)[-1]

    def export() -> None:
        after = 0
        while block := operations.events(after=after, limit=500):
            csv_text([[event.seq, event.text] for event in block])
            after = block[-1].seq

    def newcomer() -> None:
        name = f"new{len(told)}-{next(newcomers)}"
        operations.add_station(name, similarity={one: 0.4, other: 0.3}, running={"handover_threshold_dbm": -98})

    return {
        "nothing": threading.Event().wait,
        "a correction": lambda: operations.correct(told[0], 0.5 + next(rewards) / 1e6),
        "a newcomer": newcomer,
        "a snapshot": operations.turns.snapshot,
        "evidence": lambda: operations.explain(last),
        "an export of all events": export,
    }


def measured(operations: Operations, work: Callable[[], object] | None, *, seconds: float) -> Stopwatch:
    """Ask, tell, stop and look for some seconds at least and until the work is done; return how long all of it took."""
    watch, numbers, over = Stopwatch(), count(), threading.Event()
    names = operations.controller.stations

    def at_work() -> None:
        if work is not None:
            watch.time("the work itself", work)

    thread = threading.Thread(target=at_work)
    begun = perf_counter()

    def switches() -> None:
        while not over.wait(0.2):
            watch.time("stop", operations.stop)
            watch.time("ready", operations.check_ready)
            operations.resume()

    other = threading.Thread(target=switches)
    thread.start()
    other.start()
    while perf_counter() < begun + seconds or thread.is_alive():
        name = names[next(numbers) % len(names)]
        made = list[Any]()
        watch.time("ask", lambda: made.extend(operations.ask({name: {"load": 0.4}})))  # noqa: B023
        watch.time("tell", lambda: operations.tell({made[0].id: 0.8}))  # noqa: B023
        watch.time("look", lambda: operations.decision(made[0].id))  # noqa: B023
    over.set()
    thread.join()
    other.join()
    return watch


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rewards", type=int, default=10_000)
    parser.add_argument("--stations", type=int, default=STATIONS)
    parser.add_argument("--points", type=int, default=512, help="inducing points")
    parser.add_argument("--apart", action="store_true", help="kinds of stations share nothing")
    parser.add_argument("--folder", type=Path, default=Path("out/stalls"))
    parser.add_argument("--ledger", help="an empty database instead of a file in the folder")
    parser.add_argument("--seconds", type=float, default=8.0, help="of each measurement, at least")
    parser.add_argument("--only", help="this kind of work alone")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    url = given.ledger or str(given.folder / f"{given.rewards}{'-apart' * given.apart}.db")
    begun = perf_counter()
    if not Path(url).exists():
        write_past(url, stations=given.stations, rewards=given.rewards, points=given.points, apart=given.apart)
        print(f"the past was written in {perf_counter() - begun:.0f} s", flush=True)
    begun = perf_counter()
    with closing(Ledger.open(url)) as ledger:
        operations = Operations.open(ledger)
        print(f"opened in {perf_counter() - begun:.1f} s, {len(operations.controller):,} rewards", flush=True)
        operations.resume()
        for name, work in work_of(operations).items():
            if given.only in (None, name):
                watch = measured(operations, None if name == "nothing" else work, seconds=given.seconds)
                most = {what: [len(took), round(max(took), 3)] for what, took in watch.took.items()}
                print(json.dumps({"meanwhile": name, **most}), flush=True)


if __name__ == "__main__":
    main()
