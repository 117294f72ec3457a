"""The table of targets in words: for a page, for machines, and the sentence that sums it up."""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.trust.targets import SHORT, Target
from kinband.experiments.pages import marks_of, save, write_between
from kinband.version import __version__

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# --- The table in words ---------------------------------------------------------------------------------------------

HEAD = ("part", "target", "aim", "measured", "runs", "kept")
BEGIN, END = marks_of("trust")
"""The lines of a page between which `write_into` puts the table."""


def cells(target: Target) -> tuple[str, ...]:
    """Return a target as the words of a row, under `HEAD`.

    Example:
        >>> row = Target("safety", "runs broken", 0.05, "at most", 0.02, 0.0, 0.11, 50, True, judge="value")
        >>> cells(row)
        ('safety', 'runs broken', 'at most 5.0%', '2.0% (0.0% to 11.0%)', '50', 'yes')
    """
    return (
        target.part,
        target.name,
        aim_of(target),
        f"{target.estimate:{target.style}}",
        str(target.runs),
        kept(target),
    )


def aim_of(target: Target) -> str:
    """Return what was promised, and of which: of the value, or of the limit of its interval."""
    if target.aim is None:
        return "-"
    limits = {"at most": "upper limit below", "at least": "lower limit at least"}
    return f"{limits[target.sense] if target.judge == 'limit' else target.sense} {target.aim:{target.style}}"


def kept(target: Target) -> str:
    """Return whether a target is kept, in a word."""
    if target.short:
        return "short run"
    return "-" if target.met is None else "yes" if target.met else "no"


def in_words(targets: Sequence[Target]) -> str:
    """Return in a sentence or two how many targets are kept, and which are not."""
    promised = [target for target in targets if target.aim is not None]
    judged = [target for target in promised if target.met is not None]
    missed = [f"{target.part}, {target.name}" for target in judged if not target.met]
    words = [f"{len(judged) - len(missed)} of {len(judged)} target(s) kept."] if judged else []
    words += [f"Missed: {'; '.join(missed)}."] if missed else []
    if len(judged) < len(promised):
        words.append(f"Not judged: {len(promised) - len(judged)} target(s), {SHORT}.")
    return " ".join(words) or "No target was measured."


def markdown(targets: Sequence[Target]) -> str:
    """Return the table for a page, with the version that was measured and what measures it."""
    lines = [HEAD, ["---"] * len(HEAD), *map(cells, targets)]
    rows = ["| " + " | ".join(line) + " |" for line in lines]
    notes = [f"- {target.part}, {note}" for target in targets for note in notes_of([target])]
    commands = ", ".join(f"`{command}`" for command in dict.fromkeys(target.command for target in targets))
    about = f"Measured with kinband {__version__} by {commands}; intervals are 95 %."
    return "\n".join([*rows, "", in_words(targets), about, "", *notes]).rstrip() + "\n"


def notes_of(targets: Sequence[Target]) -> list[str]:
    """Return what else to know of targets, a line each."""
    return [f"{target.name}: {target.note}" for target in targets if target.note]


def to_json(targets: Sequence[Target]) -> str:
    """Return the table for machines; what one run cannot tell is null.

    Example:
        >>> '"low": null' in to_json([Target("a", "b", None, "at most", 1.0, float("nan"), 2.0, 1, None)])
        True
    """
    plain = [{name: _finite(value) for name, value in asdict(target).items()} for target in targets]
    return json.dumps({"kinband": __version__, "targets": plain, "words": in_words(targets)}, indent=1, allow_nan=False)


def write_into(page: Path, targets: Sequence[Target]) -> None:
    """Put the table into a page, between the lines `BEGIN` and `END`, in the place of what was there."""
    write_between(page, markdown(targets), (BEGIN, END))


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


# --- Targets as a picture: what was measured with its interval, and the line that it must keep to -------------------
#
# Targets that share an aim share a panel; the side of the line that breaks the promise is shaded.

_KEPT, _MISSED, _OPEN = "#0072B2", "#D55E00", "#777777"


def draw_targets(targets: Sequence[Target], path: Path, *, title: str) -> None:
    """Draw targets that have an aim; those without are left to the table."""
    from matplotlib.figure import Figure

    panels: dict[tuple[float, str, str], list[Target]] = {}
    for target in targets:
        if target.aim is not None:
            panels.setdefault((target.aim, target.sense, _said(target)), []).append(target)
    heights = [len(rows) + 1.2 for rows in panels.values()]
    figure = Figure(figsize=(9.0, 0.34 * sum(heights) + 0.8), layout="constrained")
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    axes = figure.subplots(len(panels), 1, squeeze=False, gridspec_kw={"height_ratios": heights})[:, 0]
    for panel, ((aim, sense, said), rows) in zip(axes, panels.items(), strict=True):
        _panel(panel, rows, aim=aim, sense=sense, said=said)
    save(figure, [path])


def _said(target: Target) -> str:
    """What a target is about, without the problem that it was measured on."""
    _, parted, rest = target.name.partition(": ")
    return rest if parted else target.name


def _panel(axes: "Axes", rows: Sequence[Target], *, aim: float, sense: str, said: str) -> None:
    for i, row in enumerate(rows):
        colour = {True: _KEPT, False: _MISSED, None: _OPEN}[row.met]
        axes.plot([row.low, row.high], [i, i], color=colour, linewidth=2.2, solid_capstyle="round")
        axes.plot(row.value, i, "o", color=colour, markersize=7)
    low, high = axes.get_xlim()
    low, high = min(low, aim - 0.08 * (high - low)), max(high, aim + 0.08 * (high - low))
    axes.set_xlim(low, high)
    axes.axvspan(*((aim, high) if sense == "at most" else (low, aim)), color=_MISSED, alpha=0.08, linewidth=0)
    axes.axvline(aim, color="#333333", linewidth=1, linestyle="--")
    axes.set_yticks(range(len(rows)), [row.name.partition(": ")[0] for row in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    if rows[0].style.endswith("%"):
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axes.set_title(f"{said} ({sense} {aim:{rows[0].style}})", loc="left", fontsize=9)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
