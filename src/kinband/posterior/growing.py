"""A posterior takes in further tasks: nothing that it knows changes, and nothing is learned anew.

Covariances between old rows do not depend on tasks that have no rows yet, so the factor of K̃ + diag(noise), an inverse
or a belief at inducing points all stay as they are. What grows is the task matrix that later rows and questions look
into. The present matrix must be the leading block of the new one: tasks come behind those there are, and how alike
those are is not to change. (Changing it means learning the log anew, which is the business of whoever keeps the log.)
"""

from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from kinband.arrays import FloatArray
from kinband.errors import BadInputError
from kinband.kernels import MultiTaskKernel, check_task_matrix


@runtime_checkable
class TakesTasks(Protocol):
    """A posterior that can take in further tasks; every engine of ours can.

    Example:
        >>> from kinband.kernels import RBF
        >>> from kinband.posterior import ExactPosterior
        >>> posterior = ExactPosterior(RBF(0.5), [[1.0]], noise=0.05)
        >>> posterior.update([0], [[0.2]], [0.9])
        >>> posterior.extend_tasks([[1.0, 0.8], [0.8, 1.0]])
        >>> posterior.predict([1], [[0.2]]).mean.round(3)
        array([0.686])
    """

    @property
    def K_Z(self) -> FloatArray:
        """The task matrix, (M, M)."""

    def extend_tasks(self, K_Z: ArrayLike) -> None:
        """Take in further tasks: K_Z (M', M') begins with the present matrix; all or nothing.

        A posterior that would have to join rows that it no longer keeps raises `CannotCorrectError`; its log has to be
        learned anew.
        """


def extended(K_Z: ArrayLike, present: FloatArray) -> FloatArray:
    """Return a task matrix (M', M') that begins with the present one (M, M), or say why it does not.

    Example:
        >>> extended([[1.0, 0.5], [0.5, 1.0]], np.array([[2.0]]))
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: further tasks must leave the likeness of the 1 there are as it is: ...
    """
    larger, M = check_task_matrix(K_Z), len(present)
    if len(larger) < M or not np.array_equal(larger[:M, :M], present):
        raise BadInputError(
            f"further tasks must leave the likeness of the {M} there are as it is: learn the log anew to change it"
        )
    return larger


def extended_kernel(kernel: MultiTaskKernel, K_Z: ArrayLike) -> MultiTaskKernel:
    """Return the product kernel with further tasks.

    Example:
        >>> from kinband.kernels import RBF
        >>> len(extended_kernel(MultiTaskKernel(RBF(), np.eye(1)), np.eye(3)).K_Z)
        3
    """
    return MultiTaskKernel(kernel.context, extended(K_Z, kernel.K_Z))
