"""Running `kinband recommend` as its users do, and counting what its plan is worth where the truth is known."""

import csv
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.evening.logs import Files
from benchmarks.evening.worlds import World, settings_of
from kinband.arrays import BoolArray, FloatArray, IntArray

HARM = 0.1
"""A change is harmful if it loses more than this share of the noise's standard deviation, neighbours counted."""
_ENOUGH = 3  # rows of a setting that a pivot table trusts
_PAUSE = 0.02  # seconds between two looks at the memory

# --- The command ----------------------------------------------------------------------------------------------------


def command(files: Files, out: Path, *, now: bool = True, neighbours: bool = True) -> list[str]:
    """Return what is run; without `now`, the plan is for whatever period the command takes by itself."""
    instant = ["--now", str(files.now)] if now else []
    beside = ["--neighbours", str(files.neighbours)] if neighbours and files.neighbours is not None else []
    program = [sys.executable, "-m", "kinband", "recommend", str(files.log)]
    return [*program, *files.options, *instant, *beside, "--out", str(out), "--replace", "--json"]


@dataclass(frozen=True)
class Answer:
    """What the command did.

    Attributes:
        seconds: How long it took.
        gigabytes: The most memory that it and its children held at a time.
        failed: Why there is no plan, else empty.
        said: What it printed for machines.
        worked: Seconds that it and its children spent on all cores, which other work on the machine hardly changes.
    """

    seconds: float
    gigabytes: float
    failed: str
    said: Mapping[str, Any]
    worked: float = 0.0


def run(arguments: Sequence[str], folder: Path, *, limit: float) -> Answer:
    """Run a command for at most so many seconds and return its answer; what it prints is kept in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    printed, complained = folder / "answer.json", folder / "stderr.txt"
    begun, most, worked = time.monotonic(), 0.0, _worked()
    with printed.open("wb") as out, complained.open("wb") as err:
        process = subprocess.Popen(arguments, stdout=out, stderr=err)  # noqa: S603 (our own command)
        while process.poll() is None:
            most = max(most, resident(process.pid))
            if time.monotonic() - begun > limit:
                process.kill()
                process.wait()
                return Answer(limit, most, f"stopped after {limit:g} s", {})
            time.sleep(_PAUSE)
    seconds, worked = time.monotonic() - begun, _worked() - worked
    if process.returncode:
        last = complained.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
        why = " ".join(last).replace(f"{folder}{os.sep}", "")  # the place of a file on this machine tells nobody else
        return Answer(seconds, most, f"exit code {process.returncode}: {why}", {}, worked)
    return Answer(seconds, most, "", json.loads(printed.read_text(encoding="utf-8")), worked)


def _worked() -> float:
    """Seconds of all cores that children which have ended spent, theirs included."""
    spent = os.times()
    return spent.children_user + spent.children_system


def resident(pid: int) -> float:
    """Return the memory that a process and its children hold, in GB; those that have just ended hold none.

    Example:
        >>> 0.01 < resident(os.getpid()) < 100
        True
    """
    folder = Path("/proc") / str(pid)
    try:
        pages = int((folder / "statm").read_text(encoding="ascii").split()[1])
        children = [c for task in (folder / "task").iterdir() for c in (task / "children").read_text("ascii").split()]
    except (OSError, IndexError):
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e9 + sum(resident(int(child)) for child in children)


# --- A plan as numbers ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Plan:
    """What each station is to run, and which gains were stated.

    Attributes:
        chosen: The setting of each station, (M,).
        who, what: Station and setting of each stated gain, (n,).
        low, high: The ends of its interval, (n,).
    """

    chosen: IntArray
    who: IntArray
    what: IntArray
    low: FloatArray
    high: FloatArray


def read_plan(world: World, files: Files, folder: Path, said: Mapping[str, Any]) -> Plan:
    """Return the plan of a folder; gains of stations left alone count where the answer states them."""
    stations = {name: m for m, name in enumerate(files.names)}
    arms = {tuple(setting): arm for arm, setting in enumerate(settings_of(world.recipe.knobs).tolist())}
    chosen, stated = world.present.copy(), []
    for row in _rows(folder / "plan.csv"):
        m, arm = stations[row["station"]], arms[tuple(float(row[f"set_{knob}"]) for knob in files.knobs)]
        chosen[m] = arm
        stated.append((m, arm, float(row["gain_low"]), float(row["gain_high"])))
    for left in said.get("left_alone", []):
        if left.get("proposed") and left.get("low") is not None and left.get("high") is not None:
            arm = arms[tuple(float(left["proposed"][knob]) for knob in files.knobs)]
            stated.append((stations[left["station"]], arm, float(left["low"]), float(left["high"])))
    who, what, low, high = np.array(stated, dtype=float).reshape(-1, 4).T
    return Plan(chosen, who.astype(np.int64), what.astype(np.int64), low, high)


def reasons(folder: Path) -> Counter[str]:
    """Return why stations are left alone, and how many for each reason."""
    return Counter(row["why"] for row in _rows(folder / "left_alone.csv"))


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def pivot(world: World) -> IntArray:
    """Return what a pivot table would set, (M,): each station's best mean reward over three rows or more.

    A station that has no two such settings to compare gets the setting with the best mean over stations.

    Example:
        >>> from benchmarks.evening.worlds import Recipe, draw
        >>> pivot(draw(Recipe(stations=3, hours=96), np.random.default_rng(0))).shape
        (3,)
    """
    M, N = world.own.shape
    flat = (np.arange(M)[:, None] * N + world.arms).ravel()
    count = np.bincount(flat, minlength=M * N).reshape(M, N)
    total = np.bincount(flat, weights=world.rewards.ravel(), minlength=M * N).reshape(M, N)
    mean = np.divide(total, count, out=np.full((M, N), np.nan), where=count > 0)
    seen = (count > 0).sum(axis=0)
    overall = np.divide(np.nansum(mean, axis=0), seen, out=np.full(N, -np.inf), where=seen > 0)
    trusted = np.where(count >= _ENOUGH, mean, -np.inf)
    compared = (count >= _ENOUGH).sum(axis=1) >= 2
    return np.where(compared, trusted.argmax(axis=1), int(overall.argmax()))


# --- Scores ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Worth:
    """What a choice of settings does in truth.

    Attributes:
        gained: Sum of the gains in mean reward over the week, in Mbit/s, neighbours counted.
        changes: How many stations change.
        harmful: How many of the changes lose.
    """

    gained: float
    changes: int
    harmful: int


@dataclass(frozen=True)
class Score:
    """How good one plan is; without a plan, nothing is gained.

    Attributes:
        name, seed: Which log.
        kinband, pivot, oracle: What the plan does, what a pivot table does, and what is possible.
        held, stated: How many intervals of gains hold the truth, of how many.
        answer: Time, memory and failure of the command.
        rows, used: Rows of the log, and how many of them were learned from.
    """

    name: str
    seed: int
    kinband: Worth
    pivot: Worth
    oracle: Worth
    held: int
    stated: int
    answer: Answer
    rows: int
    used: int


def worth(world: World, chosen: IntArray) -> Worth:
    """Return what it does in truth to set each station to what is chosen, (M,)."""
    each = np.arange(len(chosen))
    gain = world.worth[each, chosen] - world.worth[each, world.present]
    harm = gain < -HARM * world.recipe.noise
    return Worth(float(gain.sum()), int((chosen != world.present).sum()), int(harm.sum()))


def oracle(world: World) -> IntArray:
    """Return the best setting of each station among those in the log, (M,)."""
    logged = np.isin(np.arange(world.worth.shape[1]), world.arms)
    return np.asarray(np.where(logged[None], world.worth, -np.inf).argmax(axis=1))


def held(world: World, plan: Plan, *, together: bool = False) -> BoolArray:
    """Return which stated intervals hold the station's own true gain, or that with its neighbours together, (n,)."""
    mean = world.worth if together else world.own
    gain = mean[plan.who, plan.what] - mean[plan.who, world.present[plan.who]]
    return np.asarray((plan.low <= gain) & (gain <= plan.high))


def _together(said: Mapping[str, Any]) -> bool:
    """Whether the gains that were stated are those with the neighbours."""
    return any(change.get("around") is not None for change in said.get("changes", []))


def score(name: str, seed: int, world: World, *, plan: Plan, answer: Answer, rows: int | None = None) -> Score:
    """Judge a plan on the stations of a world, which may be the first of those that it was made for, from `rows`."""
    M = len(world.names)
    ours = plan.who < M
    mine = Plan(plan.chosen[:M], plan.who[ours], plan.what[ours], plan.low[ours], plan.high[ours])
    kept = held(world, mine, together=_together(answer.said))
    return Score(
        name,
        seed,
        kinband=worth(world, mine.chosen),
        pivot=worth(world, pivot(world)),
        oracle=worth(world, oracle(world)),
        held=int(kept.sum()),
        stated=len(kept),
        answer=answer,
        rows=world.arms.size if rows is None else rows,
        used=int(answer.said.get("rows_used", 0)),
    )


def nothing(world: World) -> Plan:
    """Return the plan of a command that gave none."""
    none = np.zeros(0)
    return Plan(world.present, none.astype(np.int64), none.astype(np.int64), none, none)
