"""The logs that are judged, by name, and their files: a plain CSV, or what a vendor's tool writes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.evening.worlds import HANDOVER, REWARD, STATE, Recipe, World, draw


@dataclass(frozen=True)
class Log:
    """A log to judge a plan by.

    Attributes:
        name: What the table calls it.
        recipe: How its network is drawn.
        only: If given, the file has so many of the first stations only.
        also: If given, a plan is judged on so many of the first stations, too.
        vendor: Whether it is written as a vendor's tool writes it.
        quick: Whether it is among those of a quick look.
        large: Whether it is left out unless asked for.
    """

    name: str
    recipe: Recipe
    only: int | None = None
    also: int | None = None
    vendor: bool = False
    quick: bool = False
    large: bool = False

    def world(self, seed: int) -> World:
        """Return the network of a seed."""
        world = draw(self.recipe, np.random.default_rng(seed))
        return world if self.only is None else world.first(self.only)


def _varied() -> list[Log]:
    """Trials at random, hour by hour, in logs of many sizes that begin and end at any hour of the day."""
    tilts = [(24, 96, 4), (40, 120, 15), (60, 144, 21), (100, 96, 9)]
    pairs = [(24, 200, 4), (40, 168, 15), (60, 96, 21), (100, 200, 9)]
    one = [Log(f"varied, {M} x {T}, tilt", Recipe(M, T, begins=at), quick=M == 24) for M, T, at in tilts]
    two = [Log(f"varied, {M} x {T}, threshold x hysteresis", Recipe(M, T, HANDOVER, begins=at)) for M, T, at in pairs]
    return one + two


def _city() -> list[Log]:
    """Few settings tried a cell, six hours each, in many cells; the first 60 of them by themselves, too."""
    some = Recipe(1_500, 96, begins=4, tried=(3, 6), hold=6)
    all_of_it = Recipe(20_000, 96, begins=4, tried=(3, 6), hold=6)
    return [
        Log("city, 1,500 x 96", some, also=60),
        Log("city, its first 60 by themselves", some, only=60),
        Log("city, 20,000 x 96", all_of_it, also=60, large=True),
    ]


def _shocks() -> list[Log]:
    """A setting stays a day, and days differ by more than the noise of an hour."""
    kinds = {
        "days": Recipe(40, hold=24, day_shock=1.5),
        "stations": Recipe(40, hold=24, station_shock=1.5),
        "both": Recipe(40, hold=24, day_shock=1.5, station_shock=1.5),
    }
    return [
        Log(f"shocks, {kind}, 40 x {24 * days}", replace(recipe, hours=24 * days), quick=days == 4)
        for kind, recipe in kinds.items()
        for days in (4, 28)
    ]


LOGS = (
    *_varied(),
    *_city(),
    Log("one setting a station, 60 x 96", Recipe(60, 96, tried=(1, 1), habit=0.6), quick=True),
    *_shocks(),
    Log("leak, nearly the reward, 40 x 120", Recipe(40, 120, leak="reward")),
    Log("leak, moved by the knob, 40 x 120", Recipe(40, 120, leak="knob")),
    Log("vendor's file, 40 x 120", Recipe(40, 120), vendor=True),
    Log("neighbours, 60 x 168", Recipe(60, 168, spill=1.0)),
)
"""Every log; the city of 20,000 cells takes 2 million rows."""


# --- Files and the options that read them ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Files:
    """A log on disk, the stations as they are, the options that say what is what, and what stations are called there.

    Attributes:
        log, now: The two files.
        options: What `kinband recommend` needs to read them.
        knobs: What the file calls each knob.
        names: What the file calls each station.
        neighbours: Who is a neighbour of whom, where that matters.
    """

    log: Path
    now: Path
    options: tuple[str, ...]
    knobs: tuple[str, ...]
    names: tuple[str, ...]
    neighbours: Path | None = None


def write(log: Log, world: World, folder: Path) -> Files:
    """Write the files of a log into a folder, and return where they are and how to read them."""
    folder.mkdir(parents=True, exist_ok=True)
    writer: Callable[[World, Path], Files] = _write_vendor if log.vendor else _write_plain
    return writer(world, folder)


def _options(columns: Mapping[str, str], knobs: tuple[str, ...]) -> tuple[str, ...]:
    named = [part for role, column in columns.items() for part in (f"--{role}", column)]
    return (*named, *(part for knob in knobs for part in ("--configuration", knob)))


def _write_plain(world: World, folder: Path) -> Files:
    log, now, knobs = folder / "log.csv", folder / "states.csv", tuple(world.recipe.knobs)
    world.frame().to_csv(log, index=False)
    world.states().to_csv(now, index=False)
    options = _options({"station": "cell", "time": "time", "reward": REWARD}, knobs)
    return Files(log, now, options, knobs, world.names, _write_neighbours(world, folder))


def _write_neighbours(world: World, folder: Path) -> Path | None:
    """Write the neighbours of a world, if they matter, one pair a line."""
    if not world.links.size:
        return None
    names, each = np.array(world.names), np.repeat(np.arange(len(world.names)), world.links.shape[1])
    pairs = pd.DataFrame({"cell": names[each], "neighbour": names[world.links.ravel()]})
    pairs.to_csv(folder / "neighbours.csv", index=False)
    return folder / "neighbours.csv"


_GERMAN = {
    "cell": "Zellname",
    "time": "Zeitpunkt",
    STATE: "Trägerauslastung",
    "tilt": "Neigung",
    REWARD: "Durchsatz",
}


def _write_vendor(world: World, folder: Path) -> Files:
    """Semicolons, decimal commas, a day first, per cent signs, a title, a header that comes again, NIL and /0."""
    log, now = folder / "bericht.csv", folder / "zustand.csv"
    names = {name: f"Köln-Süd {name}" for name in world.names}
    frame = world.frame().sort_values(["time", "cell"], kind="stable")
    frame["time"] = pd.to_datetime(frame["time"]).dt.strftime("%d.%m.%Y %H:%M")
    rng = np.random.default_rng(len(frame))
    lines = _vendor_lines(frame.replace({"cell": names}), rng)
    header = lines[0]
    again = range(1 + 2_000, len(lines), 2_000)  # a page of the report begins
    pages = [line for at, one in enumerate(lines) for line in ((header, one) if at in again else (one,))]
    log.write_text("\n".join(["Stundenbericht Übertragung;;;;", *pages]) + "\n", encoding="cp1252")
    states = _vendor_lines(world.states().replace({"cell": names}), None)
    now.write_text("\n".join(states) + "\n", encoding="cp1252")
    knobs = tuple(_GERMAN[knob] for knob in world.recipe.knobs)
    columns = {"station": _GERMAN["cell"], "time": _GERMAN["time"], "reward": _GERMAN[REWARD], "delimiter": ";"}
    options = (*_options({**columns, "decimal-point": ","}, knobs), "--skip-bad")
    return Files(log, now, options, knobs, tuple(names.values()))


def _vendor_lines(frame: pd.DataFrame, rng: np.random.Generator | None) -> list[str]:
    """The lines of a table, header first; with a generator, two in a hundred states and rewards were not measured."""
    text = frame.copy()
    text[STATE] = [f"{100 * load:.2f} %".replace(".", ",") for load in frame[STATE]]
    if REWARD in frame:
        text[REWARD] = [f"{rate:.4f}".replace(".", ",") for rate in frame[REWARD]]
    if rng is not None:
        for column, mark in ((STATE, "NIL"), (REWARD, "/0")):
            text[column] = text[column].mask(rng.random(len(text)) < 0.02, mark)
    rows = zip(*(text[column].astype(str) for column in text), strict=True)
    return [";".join(_GERMAN[str(column)] for column in text), *map(";".join, rows)]
