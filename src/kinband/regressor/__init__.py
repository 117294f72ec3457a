"""The model in scikit-learn's words: `estimator` is `MultiTaskRegressor`, `labels` reads stations and noise.

It imports scikit-learn, so the package loads this room on first use only.
"""

from kinband.regressor.estimator import MultiTaskRegressor

__all__ = ["MultiTaskRegressor"]
