"""How alike a station that has changed is to the others, and to its own past: its new row of the task matrix.

Every station lives in an *era*, which counts how often it has changed. Stations of one era are as alike as ever.
Between eras, likeness is multiplied by `kept`, that of a station with its own past included: with stations i, j in eras
e, f

    likeness = K[i, j] · (1 if e = f else kept),

K being the task matrix before anything changed. An entry-wise product of two positive semi-definite tables is one too
(Schur 1911), so the longer matrix always is, whoever changes and however often. Stations that change are so taken to
change alike: where a third of a network is upgraded over night, that third goes on learning together, and where all of
it is, the network starts anew as one. What they knew before is held for true by no more than `kept`.

Once stations have joined it need no longer be such a product, and a row may
claim more than is possible. Such a row is replaced by the part of it that the vectors of the other tasks can bear.
"""

from collections.abc import Mapping

import numpy as np

from kinband.arrays import FloatArray
from kinband.errors import BadInputError
from kinband.kernels import components
from kinband.similarity.newcomers import with_row

_OWN = 1e-6  # share of its variance that a row leaves to the station itself where it has to be cut back


def renewed_row(K_Z: FloatArray, task: int, *, former: Mapping[int, int], kept: float) -> FloatArray:
    """Return the row of the task after `task` of the same station, behind the M there are, its variance last, (M + 1,).

    Args:
        K_Z: Task matrix, (M, M).
        task: The station's present task.
        former: By task, the one that the same station had before it changed.
        kept: What likeness between eras is multiplied by.

    Example:
        >>> K_Z = np.array([[1.0, 0.8], [0.8, 1.0]])
        >>> renewed_row(K_Z, 0, former={}, kept=0.5).tolist()
        [0.5, 0.4, 1.0]
        >>> K_Z = np.array([[1.0, 0.8, 0.5], [0.8, 1.0, 0.4], [0.5, 0.4, 1.0]])  # task 2 is what became of task 0
        >>> renewed_row(K_Z, 1, former={2: 0}, kept=0.5).tolist()  # as like it as ever: both have changed once
        [0.4, 0.5, 0.8, 1.0]
    """
    first, era = _origin(task, former)
    origins = [_origin(other, former) for other in range(len(K_Z))]
    ours = np.array([origin for origin, _ in origins])
    held = np.array([1.0 if then == era + 1 else kept for _, then in origins])
    row = np.append(held * K_Z[first, ours], K_Z[first, first])
    try:
        with_row(K_Z, row)
    except BadInputError:
        return _borne(K_Z, row)
    return row


def _borne(K_Z: FloatArray, row: FloatArray) -> FloatArray:
    """Return the part of a row (M + 1,) that the tasks of K_Z (M, M) can bear; groups it does not name stay apart."""
    found = np.append(np.zeros(len(K_Z)), row[-1])
    named = [members for members in components(K_Z) if row[members].any()]
    kin = np.sort(np.concatenate(named))
    within = K_Z[np.ix_(kin, kin)]
    w = np.linalg.pinv(within, rcond=1e-9, hermitian=True) @ row[kin]
    strength = float(w @ within @ w)
    found[kin] = within @ w * np.sqrt(min(1.0, (1.0 - _OWN) * row[-1] / strength))
    return found


def _origin(task: int, former: Mapping[int, int]) -> tuple[int, int]:
    """The first task of the same station, and how often it had changed by then."""
    era = 0
    while task in former:
        task, era = former[task], era + 1
    return task, era
