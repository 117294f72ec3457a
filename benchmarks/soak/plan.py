"""What is tried how often, what came of it, and the table at the end."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.soak.damage import Damage, damaged
from benchmarks.soak.results import Result
from benchmarks.soak.session import Session, run

STORES = ("sqlite", "postgresql")


@dataclass(frozen=True)
class Size:
    """How much is tried, on each store where it says nothing else.

    Attributes:
        sessions: How many of each fault.
        times: How often the fault comes in each.
        flips: Bits that are flipped, of files of both stores.
        cuts: Files that are truncated.
    """

    sessions: dict[str, int]
    times: dict[str, int]
    flips: dict[str, int]
    cuts: int


FULL = Size(
    sessions={"kill": 10, "pause": 5, "clock": 5, "skew": 2, "full": 1, "lost": 2, "away": 1},
    times={"kill": 50, "pause": 10, "clock": 10, "skew": 10, "full": 8, "lost": 15, "away": 10},
    flips={"sqlite": 900, "postgresql": 100},
    cuts=200,
)
"""1,000 kills, 100 pauses, 100 clock steps and more, a half on each store; 1,000 flips."""

QUICK = Size(
    sessions=dict.fromkeys(FULL.sessions, 1),
    times={"kill": 8, "pause": 3, "clock": 3, "skew": 2, "full": 2, "lost": 3, "away": 2},
    flips={"sqlite": 40, "postgresql": 4},
    cuts=10,
)

ON_ONE = {"lost": "sqlite", "away": "postgresql"}
"""Faults that come on one store alone."""


def tasks(size: Size, *, only: Sequence[str] = ()) -> list[Session | Damage]:
    """Return everything that is to be tried, the stores in turn; every other session has its orders confirmed."""
    found: list[Session | Damage] = []
    for turn, (fault, number) in enumerate(size.sessions.items()):
        stores = (ON_ONE[fault],) if fault in ON_ONE else STORES
        found += [
            Session(fault, store, i, size.times[fault], confirmed=(turn + i + STORES.index(store)) % 2 == 1)
            for i in range(number)
            for store in stores
        ]
    found += [Damage("flips", store, times) for store, times in size.flips.items()]
    found.append(Damage("cuts", "sqlite", size.cuts))
    return [one for one in found if not only or one.fault in only]


def do(task: Session | Damage, folder: Path) -> Result:
    """Do a task, unless that was done before, and keep what came of it."""
    file = folder / f"{task.name}.json"
    if not file.exists():
        found = run(task, keep=folder / "anomalies") if isinstance(task, Session) else damaged(task)
        new = file.with_suffix(".new")
        new.write_text(json.dumps(asdict(found), indent=1))
        new.replace(file)
    return Result(**json.loads(file.read_text()))


def line(found: Result) -> str:
    """Say in a line what came of a task."""
    if found.left_out:
        return f"{found.name}: left out, {found.left_out}"
    counts = ", ".join(f"{what} {number:,}" for what, number in found.counts.items())
    done = f"{found.name}: {counts}; {found.acknowledged:,} acknowledged"
    return f"{done}; {len(found.anomalies)} anomalies, {found.seconds:.0f} s"


def table(results: Sequence[Result]) -> Iterator[str]:
    """Give the lines of the table: by fault and store, what was done and what came of it."""
    groups: dict[tuple[str, str], list[Result]] = {}
    for one in results:
        groups.setdefault((one.fault, one.store), []).append(one)
    figures = f"{'acknowledged':>14}{'events':>10}{'changes':>9}{'replayed':>10}{'anomalies':>11}"
    yield f"{'fault':8}{'store':12}{figures}  done"
    for (fault, store), some in sorted(groups.items()):
        yield _row(fault, store, some)
    yield _row("all", "", results)
    for one in results:
        if one.left_out:
            yield f"{one.name} was left out: {one.left_out}"
        for anomaly in one.anomalies:
            yield f"{one.name}: {anomaly['promise']}: {anomaly['what']:.400}"


def _row(fault: str, store: str, some: Sequence[Result]) -> str:
    counts = Counter[str]()
    for one in some:
        counts.update(one.counts)
    sums = [sum(getattr(one, name) for one in some) for name in ("acknowledged", "events", "changes", "replayed")]
    done = ", ".join(f"{what} {number:,}" for what, number in sorted(counts.items()))
    figures = "".join(f"{number:>{width},}" for number, width in zip(sums, (14, 10, 9, 10), strict=True))
    return f"{fault:8}{store:12}{figures}{sum(len(one.anomalies) for one in some):>11}  {done}"
