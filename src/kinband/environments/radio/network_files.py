"""A simulated city as an operator's network exports it: measurement files, a log of changes, a mapping, an inventory.

Sites are managed elements, sectors are cells: what a sector counts over all its layers stands under one EUtranCellFDD,
as the reward is that of the sector. Names are those of TS 32.425, PEE.Energy that of TS 28.552, and a2ThresholdRsrp =
dBm + 140; the standard has none for packets by their size or for the energy at full load, and those begin with VS. as a
maker's own do. The load below which carriers sleep is part of a structure in TS 28.541, and esLoadThreshold here.
Counts and bytes are whole numbers, means have four digits and kWh seven, so that what is read back differs from the log
in the fourth digit.
"""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from kinband.counters.exporting import Measured, write_changes
from kinband.environments.radio.city import Layout
from kinband.environments.radio.environment import KNOB, SLEEP_KNOB
from kinband.environments.radio.network import Report
from kinband.environments.radio.parameters import CQI_LEVELS, GOOD_CQI
from kinband.environments.radio.sleeping import Energy
from kinband.environments.radio.trace_writer import ENERGY_SAVED, REWARD, SATISFIED, SimulatedTrace
from kinband.errors import BadInputError

PREFIX = "DC=kinband,SubNetwork=1"
INVENTORY = "inventory.csv"

_BELOW, _FROM = "DRB.IPThrDlDist.Bin1", "DRB.IPThrDlDist.Bin2"  # 5 Mbps is the edge
_CQI = tuple(f"CARR.WBCQIDist.Bin{level}" for level in range(CQI_LEVELS))
_COUNTERS = ("RRC.ConnMean", "DRB.UEActive", _BELOW, _FROM, *_CQI)
_COUNTERS += ("VS.SduDlSmall", "VS.SduDl", "VS.SduDlVolumeSmall", "VS.SduDlVolume")
_TAKEN, _FULL = "PEE.Energy", "VS.EnergyFullLoad"  # kWh, of all carriers of a sector


@dataclass(frozen=True)
class _Kind:
    """What the files of a city say of its knob and its reward: in the mapping, and as an attribute with an offset."""

    counters: tuple[str, ...]
    rewards: str
    knob: str
    attribute: str
    offset: float


_GOOD = f"{_FROM} / ({_BELOW} + {_FROM})  # sessions with 5 Mbps or more"
_HANDOVER = _Kind(
    _COUNTERS,
    f"kpis:\n  {REWARD}: {_GOOD}\n",
    f"reward: {REWARD}\nsamples: {_BELOW} + {_FROM}\nknobs: {{{KNOB}: {{attribute: a2ThresholdRsrp, unit: lte-rsrp}}}}",
    "a2ThresholdRsrp",
    140.0,
)
_SLEEP = _Kind(
    (*_COUNTERS, _TAKEN, _FULL),
    f"kpis:\n  {ENERGY_SAVED}: 1 - {_TAKEN} / {_FULL}  # against all carriers at full load\n  {SATISFIED}: {_GOOD}\n",
    f"reward: {ENERGY_SAVED}\nknobs: {{{SLEEP_KNOB}: {{attribute: esLoadThreshold}}}}",
    "esLoadThreshold",
    0.0,
)

_MAPPING = f"""\
# What the measurement files of the simulated city mean: kinband counters DIR --map this --cm FILE --out log.parquet
station: {{object: EUtranCellFDD, name: "{{EUtranCellFDD}}"}}
{{rewards}}state:
  active_users: DRB.UEActive
  cqi_share: ({" + ".join(_CQI[GOOD_CQI:])}) / max(1, {" + ".join(_CQI)})
  small_packet_sdu_share: VS.SduDlSmall / max(1, VS.SduDl)
  small_packet_volume_share: VS.SduDlVolumeSmall / max(1, VS.SduDlVolume)
  users: RRC.ConnMean
{{knob}}
configuration: {{kind: changes}}
inventory: {INVENTORY}
"""


def write_network_files(
    made: SimulatedTrace, pm: str | Path, cm: str | Path, *, mapping: str | Path | None = None, gzipped: bool = False
) -> list[Path]:
    """Write the measurement files of a city and its configuration, and return the files but those of measurements.

    Args:
        made: The city.
        pm: The folder of the measurement files, one for each period and site; new, or empty.
        cm: The CSV file of the configuration, a log of changes.
        mapping: Where to write the mapping that `kinband counters` reads them with, and beside it the inventory; not
            written if not given.
        gzipped: Whether to gzip the measurement files.

    Example:
        >>> from kinband.environments.radio import simulate_trace
        >>> made = simulate_trace(3, days=1, hours=(18, 18.1), period_minutes=1.0)
        >>> write_network_files(made, "pm", "cm.xml")
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: cm.xml should be a .csv file: the configuration is written as a log of changes
    """
    folder, settings = Path(pm), Path(cm)
    asked = made.metadata["arguments"]
    check_network_files(
        folder, settings, mapping, minutes=asked["period_minutes"], hours=tuple(asked["hours"]), days=asked["days"]
    )
    folder.mkdir(parents=True, exist_ok=True)
    for path in (settings, *([Path(mapping)] if mapping else [])):
        path.parent.mkdir(parents=True, exist_ok=True)
    kind = _SLEEP if ENERGY_SAVED in made.columns else _HANDOVER
    for one in _measured(made, kind):
        one.write(folder, gzipped=gzipped)
    write_changes(settings, kind.attribute, _changes(made, kind.offset))
    if mapping is None:
        return [settings]
    inventory = Path(mapping).with_name(INVENTORY)
    Path(mapping).write_text(_MAPPING.replace("{rewards}", kind.rewards).replace("{knob}", kind.knob), encoding="utf-8")
    with inventory.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([["dn"], *([name] for name in _names(made.layout))])
    return [settings, Path(mapping), inventory]


def check_network_files(
    pm: str | Path,
    cm: str | Path,
    mapping: str | Path | None,
    *,
    minutes: float,
    hours: tuple[float, float],
    days: int,
) -> None:
    """Refuse what could not be written or would not come back from its files, before anything is simulated."""
    folder = Path(pm)
    if minutes != round(minutes):
        raise BadInputError(
            f"a period of {minutes:g} minutes does not fit the names of measurement files: choose whole minutes"
        )
    if days > 1 and hours[1] - hours[0] + minutes / 60 > 24:
        raise BadInputError(
            "the period before each day's first is in the measurement files too: end the days a period earlier"
        )
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BadInputError(f"{folder} is there and not empty: choose another folder for the measurement files")
    if Path(cm).suffix != ".csv":
        raise BadInputError(f"{cm} should be a .csv file: the configuration is written as a log of changes")
    for path in [] if mapping is None else [Path(mapping), Path(mapping).with_name(INVENTORY)]:
        if path.exists():
            raise BadInputError(f"{path} exists: write the mapping into another folder, or leave out --map to keep it")


def _measured(made: SimulatedTrace, kind: _Kind) -> Iterator[Measured]:
    names, sites = made.layout.names, made.layout.site.tolist()
    for period in made.periods:
        end = period.begin + timedelta(seconds=period.seconds)
        rows = _rows(period.report, period.seconds / 3600)
        for site in sorted(set(sites)):
            cells = {f"{_CELL}={name}": row for name, own, row in zip(names, sites, rows, strict=True) if own == site}
            yield Measured(PREFIX, f"ManagedElement={site + 1}", period.begin, end, kind.counters, cells)


_CELL = "ENBFunction=1,EUtranCellFDD"


def _rows(report: Report, hours: float) -> list[tuple[str, ...]]:
    """The counters of each sector as text."""
    missed = report.sessions - report.satisfied
    means = zip(report.users, report.active_users, strict=True)
    counts = zip(missed, report.satisfied, *report.cqi_reports.T, *report.packets, *report.volume_bytes, strict=True)
    energy = [()] * len(missed) if report.energy is None else _kwh(report.energy, hours)
    return [
        (*(f"{mean:.4f}" for mean in own), *(f"{count:.0f}" for count in others), *taken)
        for own, others, taken in zip(means, counts, energy, strict=True)
    ]


def _kwh(energy: Energy, hours: float) -> list[tuple[str, ...]]:
    full = energy.full_w.sum() * hours / 1000
    return [(f"{taken:.7f}", f"{full:.7f}") for taken in energy.watts.sum(axis=0) * hours / 1000]


def _names(layout: Layout) -> list[str]:
    """The distinguished names of the sectors."""
    sites = layout.site.tolist()
    return [f"{PREFIX},ManagedElement={s + 1},{_CELL}={name}" for s, name in zip(sites, layout.names, strict=True)]


def _changes(made: SimulatedTrace, offset: float) -> Iterator[tuple[str, datetime, str]]:
    names = _names(made.layout)
    held = [""] * len(names)
    for period in made.periods:
        for n, threshold in enumerate(period.thresholds):
            coded = f"{threshold + offset:g}"
            if coded != held[n]:
                held[n] = coded
                yield names[n], period.begin, coded
