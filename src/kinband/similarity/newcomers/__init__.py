"""How alike a station without data is to those that have some: from what is known of its site.

- `descriptors`: what describes a station, checked, column by column.
- `kernel`: which stations' descriptors are alike, and the weights a newcomer gives to the others.
- `fitting`: that kernel fitted to a task matrix by leaving stations out, and how well it predicts rows held out.
- `likeness`: the newcomer's row of the task matrix, from descriptors, from the network's average or as given.

**The idea.** A positive semi-definite K_Z is a table of inner products of feature vectors, one a station. The
newcomer's vector is predicted as a combination Σ wⱼφⱼ of the vectors there are, by kernel ridge regression on
descriptors with weights not below zero; what the combination leaves open is the newcomer's own, in a direction nobody
has. Its row is then K_Z w with the usual diagonal, so that the longer matrix is positive semi-definite whatever the
weights are, and the newcomer is identical to nobody. Kernels on task descriptors are those of Bonilla, Agakov and
Williams (2007, "Kernel multi-task learning using task-specific features"); there they are fitted together with the
context kernel by likelihood, here to a task matrix that has been learned already. Not in the paper.
"""

from kinband.similarity.newcomers.descriptors import Descriptors, check_kinds, checked_descriptors
from kinband.similarity.newcomers.fitting import HeldOut, fit_descriptor_kernel, held_out, useful_descriptor_kernel
from kinband.similarity.newcomers.kernel import DescriptorKernel
from kinband.similarity.newcomers.likeness import average_row, descriptor_row, given_row, with_row

__all__ = [
    "DescriptorKernel",
    "Descriptors",
    "HeldOut",
    "average_row",
    "check_kinds",
    "checked_descriptors",
    "descriptor_row",
    "fit_descriptor_kernel",
    "given_row",
    "held_out",
    "useful_descriptor_kernel",
    "with_row",
]
