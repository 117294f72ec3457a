"""Context kernels, task models and their product (7).

What a model believes before it sees data. `RBF`, `Matern32`, `Matern52`, `Linear`, `Categorical` and
`Constant` say how rewards vary with the context, alone or added and multiplied; `FixedTasks`, `GaussianTasks`,
`PartialPooling` and `FactorTasks` say how alike stations are; `MultiTaskKernel` is the product of the two.
scikit-learn's kernel objects are welcome too, through `as_kernel`.

Example:
    >>> from kinband.kernels import RBF, Categorical, kernel_from_dict
    >>> numbers = RBF([0.5, 2.0], columns=["load", "threshold"])
    >>> kernel = numbers * Categorical(columns=["vendor"], fixed=["variance"])
    >>> kernel = kernel.bind(["load", "vendor", "threshold"])
    >>> kernel_from_dict(kernel.to_dict()) == kernel
    True
"""

from kinband.kernels.base import Kernel, KernelBase, Parameter, Product, Pullback, Sum
from kinband.kernels.blocks import (
    BlockMatrix,
    TaskCovariance,
    as_task_covariance,
    check_task_matrix,
    components,
    in_blocks,
    leading,
    same_matrix,
)
from kinband.kernels.functions import RBF, Categorical, Constant, Forgetting, Linear, Matern32, Matern52
from kinband.kernels.serial import SklearnKernel, as_kernel, default_kernel, kernel_from_dict
from kinband.kernels.tasks import (
    FactorTasks,
    FixedTasks,
    GaussianTasks,
    MultiTaskKernel,
    PartialPooling,
    TaskModel,
)

__all__ = [
    "RBF",
    "BlockMatrix",
    "Categorical",
    "Constant",
    "FactorTasks",
    "FixedTasks",
    "Forgetting",
    "GaussianTasks",
    "Kernel",
    "KernelBase",
    "Linear",
    "Matern32",
    "Matern52",
    "MultiTaskKernel",
    "Parameter",
    "PartialPooling",
    "Product",
    "Pullback",
    "SklearnKernel",
    "Sum",
    "TaskCovariance",
    "TaskModel",
    "as_kernel",
    "as_task_covariance",
    "check_task_matrix",
    "components",
    "default_kernel",
    "in_blocks",
    "kernel_from_dict",
    "leading",
    "same_matrix",
]
