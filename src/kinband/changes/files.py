"""A plan on disk: CSV files that people read in a spreadsheet and scripts read to carry them out.

`plan.csv` and `rollback.csv` have the same target columns, `station` and `set_<knob>` for every knob, so that
whatever carries out the one undoes it with the other. Numbers are written as they are. Text that a spreadsheet would
take for a formula is written with an apostrophe before it; text that is itself a number needs none.
"""

import csv
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kinband.errors import BadInputError

if TYPE_CHECKING:
    from kinband.changes.plan import Change, ChangePlan, LeftAlone

FILES = ("rollback.csv", "plan.csv", "left_alone.csv")
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def write_plan(plan: "ChangePlan", folder: Path, *, replace: bool) -> list[Path]:
    """Write the files of a plan; the roll-back first, so that there is no plan without one."""
    check_folder(folder, replace=replace)
    folder.mkdir(parents=True, exist_ok=True)
    tables = (
        [_target(change.station, change.present) for change in plan.changes],
        [_change(change) for change in plan.changes],
        [_left_alone(station, plan.knobs) for station in plan.left_alone],
    )
    headers = (
        ["station", *_names("set", plan.knobs)],
        ["station", *_names("present", plan.knobs), *_names("set", plan.knobs), *_NUMBERS, "lenders", "reason"],
        ["station", *_names("present", plan.knobs), "why", "reason"],
    )
    paths = [folder / name for name in FILES]
    for path, header, rows in zip(paths, headers, tables, strict=True):
        _write(path, header, rows)
    return paths


def check_folder(folder: Path, *, replace: bool) -> None:
    """Refuse a folder that already holds a plan, unless it may be replaced.

    Example:
        >>> check_folder(Path("no-such-folder"), replace=False)
    """
    if not replace and any((folder / name).exists() for name in FILES):
        raise BadInputError(
            f"{folder} already holds a plan, whose roll-back may still be needed: "
            "choose another folder, or allow it to be replaced"
        )


def safe_text(text: str) -> str:
    r"""Return text that no spreadsheet takes for a formula, and that stays in its cell.

    A carriage return by itself is not quoted, ends a line all the same, and what follows would begin a cell of its own.

    Example:
        >>> safe_text("=HYPERLINK(1)"), safe_text("-98.5"), safe_text("wait\r=1+1")
        ("'=HYPERLINK(1)", '-98.5', 'wait\n=1+1')
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return f"'{text}" if text.startswith(_FORMULA) and not _is_number(text) else text


_NUMBERS = (
    "expected_gain",
    "gain_low",
    "gain_high",
    "expected_reward",
    "expected_reward_unchanged",
    "width",
    "width_alone",
    "own_rows",
    "borrowed_share",
)


def _change(change: "Change") -> dict[str, Any]:
    numbers = (
        change.gain, change.low, change.high, change.expected, change.expected_unchanged,
        change.width, change.width_alone, change.own_rows, change.borrowed,
    )  # fmt: skip
    return {
        **_target(change.station, change.proposed),
        **_columns("present", change.present),
        **{name: _rounded(value) for name, value in zip(_NUMBERS, numbers, strict=True)},
        "lenders": "; ".join(f"{name} {share:.3f}" for name, share in change.lenders),
        "reason": change.reason,
    }


def _left_alone(station: "LeftAlone", knobs: Iterable[str]) -> dict[str, Any]:
    known = {knob: station.present.get(knob) for knob in knobs}
    return {"station": station.station, **_columns("present", known), "why": station.why, "reason": station.reason}


def _target(station: str, configuration: Mapping[str, Any]) -> dict[str, Any]:
    return {"station": station, **_columns("set", configuration)}


def _names(side: str, knobs: Iterable[str]) -> list[str]:
    return [f"{side}_{knob}" for knob in knobs]


def _columns(side: str, configuration: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{side}_{knob}": value for knob, value in configuration.items()}


def _rounded(value: float) -> float:
    """Six significant digits: more would be noise to read."""
    return value if isinstance(value, int) else float(f"{value:.6g}")


def _write(path: Path, header: list[str], rows: list[dict[str, Any]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, header, lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({name: safe_text(v) if isinstance(v, str) else v for name, v in row.items()})


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text == text.strip()
