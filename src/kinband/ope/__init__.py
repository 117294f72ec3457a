"""Before the first trial: what a policy would have earned, estimated from a log.

`evaluating` puts it together; `targets` are the policies that can be judged, the rows to judge them by and what the
log can say of them; `estimators` the three formulas with their intervals, and the log's behaviour policy.
"""

from kinband.ope.evaluating import Evaluation, Judgement, evaluate
from kinband.ope.targets import Choices, Support, Target
from kinband.stats import Estimate

__all__ = ["Choices", "Estimate", "Evaluation", "Judgement", "Support", "Target", "evaluate"]
