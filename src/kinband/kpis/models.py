"""Where the model of a KPI comes from: declared, or fitted to a log.

Stations that are alike in what they earn are taken to be alike in their KPIs, so every KPI shares the task matrix of
the reward. Declared, a KPI also shares the reward's kernel, in its own units: what makes two situations alike for one
makes them alike for the other, until data say otherwise. From a log, kernel, noise and mean are fitted by
`kinband.model`, the search beginning at the reward's kernel: that a share of dropped calls moves with the load twice as
fast as the reward does is there to be seen, and a width that is too narrow would let floors be broken.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from kinband.arrays import FloatArray
from kinband.errors import BadInputError
from kinband.kernels import Kernel
from kinband.kpis.floors import Kpi, KpiFloor, filled
from kinband.model import Search, learn_model
from kinband.records import Samples
from kinband.similarity import TaskMatrix

_FEWEST = 3  # rows that a model is fitted to at least


def declared_kpis(floors: Sequence[KpiFloor], kernel: Kernel, K_Z: FloatArray, *, width: int) -> tuple[Kpi, ...]:
    """Return KPIs whose model is declared, with the reward's kernel over contexts of `width` features.

    Example:
        >>> from kinband.kernels import RBF
        >>> floor = KpiFloor("load", at_most=0.9, mean=0.5, deviation=0.1, noise=0.01)
        >>> round(declared_kpis([floor], RBF(0.5, variance=0.25), np.eye(2), width=3)[0].scale, 9)
        0.2
    """
    return tuple(_declared(floor, kernel, K_Z, width=width) for floor in floors)


def fitted_kpis(
    floors: Sequence[KpiFloor], samples: Samples, *, kernel: Kernel, similarity: TaskMatrix, rng: np.random.Generator
) -> tuple[Kpi, ...]:
    """Return KPIs whose model is fitted to the log where it has them, else as declared.

    Args:
        floors: What must hold.
        samples: The log, with KPIs as columns.
        kernel: The reward's kernel, where the search begins.
        similarity: How alike the stations are.
        rng: Draws rows.
    """
    return tuple(_fitted(floor, samples, kernel=kernel, similarity=similarity, rng=rng) for floor in floors)


def _declared(floor: KpiFloor, kernel: Kernel, K_Z: FloatArray, *, width: int) -> Kpi:
    missing = [name for name in ("mean", "deviation", "noise") if getattr(floor, name) is None]
    if missing or floor.deviation is None:
        raise BadInputError(
            f"KPI {floor.name!r} has no log to be learned from: declare {', '.join(f'{name}=' for name in missing)} in "
            "its KpiFloor, or start from a trace that has it among its kpis"
        )
    # One standard deviation from the middle of all states: for most kernels as good a place as any.
    variance = float(kernel.diag(np.ones((1, width)))[0] * np.mean(np.diagonal(K_Z)))
    return Kpi(floor, kernel, floor.deviation / variance**0.5)


def _fitted(
    floor: KpiFloor, samples: Samples, *, kernel: Kernel, similarity: TaskMatrix, rng: np.random.Generator
) -> Kpi:
    values = samples.kpis.get(floor.name)
    known = np.zeros(len(samples), dtype=np.bool_) if values is None else np.isfinite(values)
    declared = floor.mean is not None and floor.deviation is not None and floor.noise is not None
    if values is None or declared or np.count_nonzero(known) < _FEWEST:
        return _declared(floor, kernel, similarity.matrix, width=samples.X.shape[1])
    rows = replace(samples.take(known), noise=None)
    y = values[known]
    centre, spread = float(y.mean()), float(y.std()) or 1.0
    unit = float(np.sqrt(kernel.diag(rows.X).mean() * np.mean(np.diagonal(similarity.matrix))))
    scale = spread / unit  # in units of g the search begins where the reward's ended
    model = learn_model(
        replace(rows, y=(y - centre) / scale), similarity, rng=rng, kernel=kernel,
        noise=None if floor.noise is None else floor.noise / scale**2,
        mean=None if floor.mean is None else (floor.mean - centre) / scale,
        search=Search(kernel=True, noise=floor.noise is None, mean=floor.mean is None, starts=1),
    )  # fmt: skip
    moved = float(np.sqrt(model.kernel.diag(rows.X).mean() * np.mean(np.diagonal(similarity.matrix))))
    stretch = 1.0 if floor.deviation is None else floor.deviation / (moved * scale)
    found = filled(floor, mean=centre + scale * model.mean, noise=model.noise * scale**2, deviation=moved * scale)
    return Kpi(found, model.kernel, scale * stretch)
