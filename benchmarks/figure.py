"""The README's picture: what sharing saves of learning alone on real problems, way by way, with intervals."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.findings import Finding
from benchmarks.runs import EMBEDDING, JOINT, POOLED
from kinband.experiments.pages import blank, save
from kinband.stats import Estimate

_STYLES = {
    JOINT: ("kinband's default", "#0b6e4f", "o"),
    EMBEDDING: ("the paper's embedding", "#7a8fa6", "s"),
    POOLED: ("all stations as one", "#c9a227", "D"),
    "BoTorch": ("BoTorch MultiTaskGP (20 tasks)", "#a4508b", "^"),
}
_LOWEST = -1.0  # savings below it are drawn at the edge


def draw(
    findings: Sequence[Finding], file: Path, *, others: Mapping[str, Mapping[str, Estimate]] | None = None
) -> None:
    """Draw the saving of each way of sharing on every real problem; `others` has further ways, by problem."""
    real = [found for found in findings if found.contest.real]
    figure, axes = blank("regret saved of learning alone", "", "What sharing is worth on measurements of real systems")
    ways = [name for name in _STYLES if name in (JOINT, EMBEDDING, POOLED) or others]
    for place, name in enumerate(ways):
        label, colour, marker = _STYLES[name]
        labelled = False
        for row, found in enumerate(reversed(real)):
            if name in (JOINT, EMBEDDING, POOLED):
                saved = found.saved(name)
            elif (found.contest.name in (others or {})) and name in (others or {})[found.contest.name]:
                saved = (others or {})[found.contest.name][name]
            else:
                continue
            y = row + 0.18 * (1 - place)
            value, low, high = (max(_LOWEST, x) for x in (saved.value, saved.low, saved.high))
            axes.plot([low, high], [y, y], color=colour, linewidth=2.2 if name == JOINT else 1.2, alpha=0.8)
            shown = marker if saved.value > _LOWEST else "<"
            size = 7 if name == JOINT else 5
            axes.plot(value, y, shown, color=colour, markersize=size, label=None if labelled else label)
            labelled = True
    axes.axvline(0.0, color="black", linewidth=0.8)
    axes.set_yticks(range(len(real)), [found.contest.name for found in reversed(real)])
    axes.set_xlim(_LOWEST - 0.05, 1.0)
    axes.set_ylim(-0.5, len(real) - 0.5)
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:.0%}")
    axes.grid(axis="x", alpha=0.3)
    figure.legend(frameon=False, loc="outside lower center", ncols=4, fontsize="small")
    figure.set_size_inches(7.5, 0.8 + 0.45 * len(real))
    save(figure, [file])
