"""Array types and the checks made where numbers enter the package.

Inner code trusts its arrays; only constructors and other doors call these functions.
"""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinband.errors import BadInputError

if TYPE_CHECKING:
    from pandas import DataFrame

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


def finite_array(values: ArrayLike, *, name: str, ndim: int) -> FloatArray:
    """Return `values` as float64 with `ndim` dimensions, or say which entry is missing or infinite.

    Example:
        >>> finite_array([1, 2], name="reward", ndim=1)
        array([1., 2.])
        >>> finite_array([1, float("nan")], name="reward", ndim=1)
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: reward holds nan at position 1: ...
    """
    try:
        if isinstance(values, np.ndarray) and np.iscomplexobj(values):  # which NumPy would cut down to its real part
            raise BadInputError(f"{name} must be real numbers, got complex ones")
        array = np.asarray(values, dtype=np.float64)
    except BadInputError:
        raise
    except (TypeError, ValueError, OverflowError) as error:
        raise BadInputError(f"{name} must be numbers: {error}") from error
    if array.ndim != ndim:
        raise BadInputError(f"{name} must have {ndim} dimension(s), got shape {array.shape}")
    bad = np.argwhere(~np.isfinite(array))
    if len(bad):
        where = int(bad[0][0]) if ndim == 1 else tuple(map(int, bad[0]))
        raise BadInputError(
            f"{name} holds {array[tuple(bad[0])]} at position {where}: remove or repair missing and infinite values"
        )
    return array


def finite_number(value: Any, *, name: str) -> float:
    """Return `value` as a finite float, or say what came instead.

    Example:
        >>> finite_number(3, name="noise")
        3.0
        >>> finite_number(True, name="noise")
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: noise must be a number, got True
        >>> finite_number(10**5000, name="noise")
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: noise is too large to compute with: give it in a larger unit
    """
    if isinstance(value, bool | np.bool_):
        raise BadInputError(f"{name} must be a number, got {value!r}")
    try:
        number = float(value)
    except OverflowError as error:
        raise BadInputError(f"{name} is too large to compute with: give it in a larger unit") from error
    except (TypeError, ValueError) as error:
        raise BadInputError(f"{name} must be a number, got {value!r}") from error
    if not np.isfinite(number):
        raise BadInputError(f"{name} must be finite, got {number}")
    return number


def positive_number(value: Any, *, name: str) -> float:
    """Return `value` as a finite float above zero, or say what came instead.

    Example:
        >>> positive_number(0.5, name="noise")
        0.5
    """
    number = finite_number(value, name=name)
    if number <= 0:
        raise BadInputError(f"{name} must be above zero, got {number:g}")
    return number


def data_frame(columns: Mapping[str, Any]) -> "DataFrame":
    """Return columns by name as a pandas data frame, or say what to install: nothing else here needs pandas.

    Example:
        >>> data_frame({"tilt": [2, 4]})["tilt"].tolist()
        [2, 4]
    """
    try:
        from pandas import DataFrame
    except ModuleNotFoundError as error:
        raise BadInputError("data frames need pandas: pip install pandas") from error
    return DataFrame(dict(columns))


def free_name(name: str, taken: Collection[str]) -> str:
    """Return a name that is not taken, with as many underscores as that takes.

    Example:
        >>> free_name("reward", {"reward", "load"})
        'reward_'
    """
    while name in taken:
        name += "_"
    return name
