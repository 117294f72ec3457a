"""Before the first trial: what a policy would have earned, estimated from a log.

`evaluating` puts it together and `result` is the answer. `parts` tells rows to learn from and rows to judge by,
`targets` are the policies that can be judged, `beliefs` and `judging` the model's predictions, `propensities` and
`frequencies` what the log's own habits were, `estimators` the three formulas with their intervals, `support` what was
never tried.

"""

from kinband.evaluation.estimators import Estimate
from kinband.evaluation.evaluating import Evaluation, Judgement, evaluate
from kinband.evaluation.targets import Choices, Support, Target

__all__ = ["Choices", "Estimate", "Evaluation", "Judgement", "Support", "Target", "evaluate"]
