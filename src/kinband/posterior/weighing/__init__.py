"""Shared and own evidence side by side: every station borrows as far as that has foretold its own rewards.

`weights` keeps the weight of sharing for each station, `posterior` mixes two posteriors by it, `mixture` says how
predictions of the mixture hang together.
"""

from kinband.posterior.weighing.posterior import WeighedPosterior
from kinband.posterior.weighing.weights import BORROWS, SharingWeights

__all__ = ["BORROWS", "SharingWeights", "WeighedPosterior"]
