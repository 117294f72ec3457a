"""How alike stations are: a log in, a task matrix out.

The map of the room:

- `matrix`: `TaskMatrix`, the answer of every estimator, with names and its file; `picture` draws it. And what needs no
  estimation: `Independent`, `Pooled`, `Given` by the user, and `Custom` around the user's own object.
- `embedding`: `Embedding`, the paper's measure: a Gaussian of the distance of conditional kernel embeddings, (18);
  `base` computes the distances, (17) and (20), on rows by station, with a kernel that is given or learned; `landmarks`
  does so in large networks.
- `prediction`: `PredictionSimilarity`, the average R² of predicting each other, (21).
- `coregionalisation`: `Coregionalisation`, K_Z = BBᵀ + diag(v) by marginal likelihood.
- `joint`: `Joint`, partial pooling: what is common to all, to those alike and one's own, in shares found with the rest
  of the model. Ours, not the paper's, and the default.
- `newcomers`: the row of a station without data, from what is known of its site.

An estimator is any object with `fit(log)`; `similarity_from` turns a name, a matrix or such an object into one.

Example:
    >>> import numpy as np
    >>> from kinband.records import Samples
    >>> log = Samples(("a", "b"), np.array([0, 1]), np.zeros((2, 1)), np.zeros(2), None, ("load",))
    >>> similarity_from("pooled").fit(log).between("a", "b")
    1.0
"""

from typing import Any, Protocol, runtime_checkable

from kinband.errors import BadInputError, NotFoundError
from kinband.similarity.base import Log, embedding_distances
from kinband.similarity.coregionalisation import Coregionalisation
from kinband.similarity.embedding import Embedding, ProjectionWarning, nearest_correlation
from kinband.similarity.joint import Joint
from kinband.similarity.matrix import Custom, Given, Independent, Pooled, TaskMatrix
from kinband.similarity.prediction import PredictionSimilarity, r_squared_matrix

__all__ = [
    "NAMES",
    "Coregionalisation",
    "Custom",
    "Embedding",
    "Given",
    "Independent",
    "Joint",
    "Log",
    "Pooled",
    "PredictionSimilarity",
    "ProjectionWarning",
    "Similarity",
    "TaskMatrix",
    "embedding_distances",
    "nearest_correlation",
    "r_squared_matrix",
    "similarity_from",
]


@runtime_checkable
class Similarity(Protocol):
    """Whatever can say how alike the stations of a log are.

    Example:
        >>> isinstance(Embedding(), Similarity)
        True
    """

    def fit(self, log: Log) -> TaskMatrix:
        """Return the task matrix of the stations of a log, in the log's order."""
        ...


_Named = Joint | Embedding | PredictionSimilarity | Coregionalisation | Independent | Pooled

NAMES: dict[str, type[_Named]] = {
    "joint": Joint,
    "embedding": Embedding,
    "prediction": PredictionSimilarity,
    "coregionalisation": Coregionalisation,
    "independent": Independent,
    "pooled": Pooled,
}
"""The estimators that can be asked for by name."""


def similarity_from(value: Any, **options: Any) -> Similarity:
    """Return an estimator from a name, a matrix, a `TaskMatrix`, or an object with `fit(log)`.

    Args:
        value: One of `NAMES`; or numbers (M, M) in the order of the log's stations; or a `TaskMatrix`; or an object.
        options: Arguments of the estimator named, such as `seed`.

    Example:
        >>> similarity_from("embedding", sigma="likelihood").sigma
        'likelihood'
        >>> similarity_from("magic")
        Traceback (most recent call last):
            ...
        kinband.errors.NotFoundError: no similarity is called 'magic': choose joint, embedding, ...
    """
    if isinstance(value, str):
        if value not in NAMES:
            raise NotFoundError(f"no similarity is called {value!r}: choose {', '.join(NAMES)}")
        try:
            return NAMES[value](**options)
        except TypeError as error:
            raise BadInputError(f"similarity {value!r} cannot take these options: {error}") from error
    if options:
        raise BadInputError(f"options {sorted(options)} go with a similarity's name, not with {type(value).__name__}")
    if isinstance(value, type):
        raise BadInputError(f"similarity must be an object, got the class {value.__name__}: write {value.__name__}()")
    if isinstance(value, _Named | Given | Custom):
        return value
    return Custom(value) if hasattr(value, "fit") else Given(value)
