"""A change plan: its steps, reasons and files."""

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from kinband.arrays import BoolArray, finite_number
from kinband.controller.explain import configuration_text, listed
from kinband.counting import counted
from kinband.errors import BadInputError
from kinband.space import ConfigurationSpace
from kinband.stats import Estimate

# --- A change plan: the stations to change with the gain expected of each, and those left alone with the reason why

Why = Literal[
    "not in the log",
    "state incomplete",
    "state unfamiliar",
    "configuration unknown",
    "no other choice",
    "never tried",
    "best already",
    "gain too small",
    "gain not certain",
    "beyond the limit",
]
"""Why a station is left alone, in a few words that a program can count."""


@dataclass(frozen=True)
class Change:
    """One station to be changed.

    Gains and widths are those of the expected reward f; a single measurement scatters more, by the noise.

    Attributes:
        station: Whom to change.
        present: What it runs now.
        proposed: What it should run.
        expected: Expected reward of the proposed configuration in the present state.
        expected_unchanged: Expected reward of the present one.
        gain: The difference of the two, with its 95 % interval.
        std: Standard deviation of the estimate for the proposed configuration.
        std_alone: What it would be from the station's own rows alone.
        own_rows: How many rows of the station itself were told.
        borrowed: Share of the estimate that rests on other stations' rows, 0 to 1.
        lenders: The three largest lenders with their shares.
        reason: The same in words.

    Example:
        >>> change = Change("a", {"tilt": 2}, {"tilt": 4}, expected=0.9, expected_unchanged=0.8, std=0.02,
        ...     gain=Estimate(0.1, 0.05, 0.15), std_alone=0.03, own_rows=40, borrowed=0.3, lenders=(), reason="...")
        >>> f"{change.gain:+.2f}"
        '+0.10 (+0.05 to +0.15)'
    """

    station: str
    present: Mapping[str, Any]
    proposed: Mapping[str, Any]
    expected: float
    expected_unchanged: float
    gain: Estimate
    std: float
    std_alone: float
    own_rows: int
    borrowed: float
    lenders: tuple[tuple[str, float], ...]
    reason: str


@dataclass(frozen=True)
class LeftAlone:
    """One station that stays as it is.

    Attributes:
        station: Who.
        present: What it runs now, as far as it is known.
        why: One of a few fixed phrases.
        reason: The same in a sentence.

    Example:
        >>> LeftAlone("a", {"tilt": 2}, "best already", "Nothing is better.").why
        'best already'
    """

    station: str
    present: Mapping[str, Any]
    why: Why
    reason: str


@dataclass(frozen=True)
class ChangePlan:
    """What to change, largest gain first, and what not.

    Attributes:
        knobs: Names of the knobs.
        changes: The stations to change.
        left_alone: The others, in the order they were asked for.
        explore: Whether the plan tries what is little known, or plays safe.

    Example:
        >>> plan = ChangePlan(("tilt",), (), (LeftAlone("a", {"tilt": 2}, "best already", "Nothing is better."),))
        >>> plan.to_dict()["left_alone"][0]["why"]
        'best already'
    """

    knobs: tuple[str, ...]
    changes: tuple[Change, ...]
    left_alone: tuple[LeftAlone, ...]
    explore: bool = False

    def write(self, folder: str | Path, *, replace: bool = False) -> list[Path]:
        """Write plan.csv, rollback.csv and left_alone.csv, and return their paths.

        A plan that may have been carried out is not lost by accident: a folder that holds one is refused unless
        `replace` is set.

        Example:
            >>> import tempfile
            >>> plan = ChangePlan(("tilt",), (), ())
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     [path.name for path in plan.write(folder)]
            ['rollback.csv', 'plan.csv', 'left_alone.csv']
        """
        return write_plan(self, Path(folder), replace=replace)

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as JSON-able values."""
        return {
            "explore": self.explore,
            "knobs": list(self.knobs),
            "changes": [_plain(asdict(change)) for change in self.changes],
            "left_alone": [asdict(station) for station in self.left_alone],
        }


def _plain(change: dict[str, Any]) -> dict[str, Any]:
    gain = change["gain"]
    lenders = [{"station": name, "share": share} for name, share in change["lenders"]]
    return change | {"gain": gain["value"], "low": gain["low"], "high": gain["high"], "lenders": lenders}


# --- How far a knob may move in one change: the furthest step from its present value --------------------------------

_ROUNDING = 1e-9


def check_step(space: ConfigurationSpace, knob: str, *, step: float) -> None:
    """Refuse a step that its knob cannot have; 0 keeps a knob of any kind as it is.

    Example:
        >>> check_step(ConfigurationSpace(scheduler=["rr", "pf"]), "scheduler", step=1)
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: knob 'scheduler' holds categories, which have no step: 0 keeps it as it is
    """
    _, found = space.knob(knob)
    if finite_number(step, name=f"the step of {knob!r}") < 0:
        raise BadInputError(f"the step of {knob!r} must not be negative, got {step:g}")
    if found.categorical and step > 0:
        raise BadInputError(f"knob {knob!r} holds categories, which have no step: 0 keeps it as it is")


def within_steps(space: ConfigurationSpace, arm: int, *, steps: Mapping[str, float]) -> BoolArray:
    """Return which configurations are within reach of configuration `arm`, (N,), itself among them.

    Example:
        >>> within_steps(ConfigurationSpace(tilt=[2, 4, 6, 8]), 0, steps={"tilt": 4}).tolist()
        [True, True, True, False]
    """
    allowed = np.ones(len(space), dtype=np.bool_)
    for name, step in steps.items():
        column, knob = space.knob(name)
        codes = space.codes[:, column]
        if knob.categorical:
            allowed &= codes == codes[arm]
            continue
        values = np.array(knob.values, dtype=np.float64)[codes]
        allowed &= np.abs(values - values[arm]) <= step + _ROUNDING * float(np.abs(values).max())
    return allowed


# --- A plan on disk: CSV files that people read in a spreadsheet and scripts read to carry them out -----------------
#
# `plan.csv` and `rollback.csv` have the same target columns, `station` and `set_<knob>` for every knob, so that
# whatever carries out the one undoes it with the other. Numbers are written as they are. Text that a spreadsheet would
# take for a formula is written with an apostrophe before it; text that is itself a number needs none.

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
            f"{folder} already holds a plan, whose roll-back may still be needed",
            hint="choose another folder, or allow it to be replaced",
            code="plan_exists",
            argument="folder",
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
    "std",
    "std_alone",
    "own_rows",
    "borrowed_share",
)


def _change(change: "Change") -> dict[str, Any]:
    numbers = (
        change.gain.value, change.gain.low, change.gain.high, change.expected, change.expected_unchanged,
        change.std, change.std_alone, change.own_rows, change.borrowed,
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


# --- The reasons of a plan in words, for an engineer who has to approve it ------------------------------------------

LENT = 0.005
"""A share below this, half a per cent, is not worth a word."""


def gain_text(gain: Estimate) -> str:
    """Return a gain with its interval.

    Example:
        >>> gain_text(Estimate(0.0381, 0.0117, 0.0645))
        'a gain of +0.0381 (95 % interval +0.0117 to +0.0645)'
    """
    return f"a gain of {gain.value:+.3g} (95 % interval {gain.low:+.3g} to {gain.high:+.3g})"


def share_text(share: float) -> str:
    """Return a share in whole per cent.

    Example:
        >>> share_text(0.634)
        '63 %'
    """
    return f"{100 * share:.0f} %"


def change_reason(expected: float, unchanged: float, *, gain: Estimate, explore: bool = False) -> str:
    """Return why a station should change.

    Example:
        >>> change_reason(0.91, 0.87, gain=Estimate(0.04, 0.01, 0.07))
        'Expected reward 0.91 instead of 0.87, a gain of +0.04 (95 % interval +0.01 to +0.07).'
    """
    text = f"Expected reward {expected:.4g} instead of {unchanged:.4g}, {gain_text(gain)}."
    return f"A trial, which may lose. {text}" if explore and gain.low <= 0 else text


def loan_reason(
    lenders: Sequence[tuple[str, float]], *, borrowed: float, own_rows: int, std: float, alone: float
) -> str:
    """Return whose experience an estimate rests on, and what it would be worth without the others.

    Example:
        >>> print(loan_reason([("b", 0.3), ("c", 0.1)], borrowed=0.4, own_rows=50, std=0.02, alone=0.05))
        40 % of the evidence is borrowed, most from b (30 %) and c (10 %); from its own 50 rows alone the
        standard deviation would be 0.05, not 0.02.
    """
    own = f"its own {own_rows:,} row{'' if own_rows == 1 else 's'}"
    if borrowed < LENT:
        return f"The evidence is {own} (standard deviation {std:.2g})."
    named = [f"{name} ({share_text(share)})" for name, share in lenders if share >= LENT]
    most = f", most from {listed(named)}" if named else ""
    if not own_rows:
        return f"It has no rows of its own: all evidence is borrowed{most} (standard deviation {std:.2g})."
    return (
        f"{share_text(borrowed)} of the evidence is borrowed{most}; from {own} alone the standard deviation "
        f"would be {alone:.2g}, not {std:.2g}."
    )


def uncertain_reason(moves: Mapping[str, Any], gain: Estimate) -> str:
    """Return why a station is left alone although a gain is expected.

    Example:
        >>> uncertain_reason({"tilt": 4}, Estimate(0.01, -0.02, 0.04))
        'tilt=4 is expected to bring a gain of +0.01 (95 % interval -0.02 to +0.04), which may be a loss.'
    """
    return f"{_promise(moves, gain)}, which may be a loss."


def small_reason(moves: Mapping[str, Any], gain: Estimate, *, least: float, explore: bool) -> str:
    """Return why a gain is too small to be worth a change.

    Example:
        >>> print(small_reason({"tilt": 4}, Estimate(0.01, 0.001, 0.02), least=0.05, explore=False))
        tilt=4 is expected to bring a gain of +0.01 (95 % interval +0.001 to +0.02), less than the 0.05 that is
        worth a change.
    """
    less = "even at best less" if explore else "less"
    return f"{_promise(moves, gain)}, {less} than the {least:g} that is worth a change."


def limit_reason(moves: Mapping[str, Any], gain: Estimate, *, most: int) -> str:
    """Return why a change worth making is not made.

    Example:
        >>> print(limit_reason({"tilt": 4}, Estimate(0.03, 0.01, 0.05), most=2))
        tilt=4 is expected to bring a gain of +0.03 (95 % interval +0.01 to +0.05), but others are more
        worthwhile and the plan is limited to 2.
    """
    return f"{_promise(moves, gain)}, but others are more worthwhile and the plan is limited to {most}."


def best_reason(expected: float, std: float, *, choices: int, explore: bool) -> str:
    """Return why the present configuration stays.

    Example:
        >>> best_reason(0.91, 0.02, choices=29, explore=False)
        'None of its 29 choices is expected to earn more than the present 0.91 (standard deviation 0.02).'
    """
    better = "is more worth trying" if explore else "is expected to earn more"
    return f"None of its {choices:,} choices {better} than the present {expected:.4g} (standard deviation {std:.2g})."


def tried_reason(station: str, proposed: Mapping[str, Any], *, similar: int, between: bool) -> str:
    """Return whose trials a change rests on that its station never ran itself.

    Args:
        station: Whom the change is for.
        proposed: What it would run.
        similar: How many stations that it shares with ran that.
        between: Whether the station ran settings on both sides of it.

    Example:
        >>> tried_reason("3714A", {"threshold": -100}, similar=5, between=False)
        '3714A never ran threshold=-100; this rests on 5 similar stations that did.'
        >>> tried_reason("3714A", {"threshold": -100}, similar=0, between=True)
        '3714A never ran threshold=-100, but settings on both sides of it; no similar station did.'
    """
    never = f"{station} never ran {configuration_text(proposed, -1)}"
    others = counted(similar, "similar station") if similar else "no similar station"
    if between:
        return f"{never}, but settings on both sides of it; {others} did."
    if similar:
        return f"{never}; this rests on {others} that did."
    return f"{never}, and {others} did: this is a guess from other settings."


def never_reason(ran: Sequence[Mapping[str, Any]]) -> str:
    """Return why a station has nothing to change to, where all it can learn from ran these configurations.

    Example:
        >>> print(never_reason([{"tilt": 4}]))
        The log holds no trials: of all that this station can learn from, every row ran tilt=4, so nothing can be
        learned about other settings.
        >>> never_reason([{"tilt": 4}, {"tilt": 6}])
        'No other choice lies within what was tried by any station that it can learn from.'
    """
    if len(ran) == 1:
        return (
            "The log holds no trials: of all that this station can learn from, every row ran "
            f"{configuration_text(ran[0], -1)}, so nothing can be learned about other settings."
        )
    return "No other choice lies within what was tried by any station that it can learn from."


def _promise(moves: Mapping[str, Any], gain: Estimate) -> str:
    return f"{configuration_text(moves, -1)} is expected to bring {gain_text(gain)}"
