"""What the service adds to the controller, and how long its pages take, in the table of the other benchmarks."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from benchmarks.speed import Measured
from kinband.errors import BadInputError
from kinband.posterior import INDUCING_POINTS

SERVICE, PAGES = "service", "pages"
"""The names of these benchmarks."""


def measured_service(
    *, quick: bool, ledger: str | None, folder: Path, tick: Callable[[str], None]
) -> tuple[list[Measured], str]:
    """Measure the service; return its lines, and what was asked in words. Small sizes have no aims.

    Args:
        quick: Whether to take small sizes.
        ledger: An empty PostgreSQL database; None for SQLite.
        folder: Where SQLite files are made meanwhile.
        tick: Called with what is measured now.
    """
    try:
        from benchmarks.service.measuring import Load, bench_service
    except ModuleNotFoundError as error:
        raise BadInputError(f"the service needs {error.name}: pip install 'kinband[service]'") from error
    if ledger is not None and not ledger.startswith("postgres"):
        raise BadInputError("--ledger names a PostgreSQL database here: for SQLite leave it out, files are made anew")
    load = Load.quick() if quick else Load()
    found = bench_service(load, ledger=ledger, folder=folder, tick=tick)
    lines = [Measured(**figure.to_dict()) for figure in found]
    model = f"sparse posterior of {INDUCING_POINTS} points that knows {load.rows:,} rows, a budget for trials"
    return [replace(line, aim="") for line in lines] if quick else lines, model


def measured_pages(*, quick: bool, folder: Path, tick: Callable[[str], None]) -> tuple[list[Measured], str]:
    """Measure the pages of the dashboard; return their lines, and what was on record. Small sizes have no aims.

    Args:
        quick: Whether to take small sizes.
        folder: Where a ledger is made meanwhile.
        tick: Called with what is done now.
    """
    try:
        from benchmarks.service.pages import Looks, bench_pages
    except ModuleNotFoundError as error:
        raise BadInputError(f"the service needs {error.name}: pip install 'kinband[service]'") from error
    looks = Looks.quick() if quick else Looks()
    found, events = bench_pages(looks, folder=folder, tick=tick)
    lines = [Measured(**figure.to_dict()) for figure in found]
    record = f"{looks.past.stations} stations, {events:,} events"
    return [replace(line, aim="") for line in lines] if quick else lines, record
