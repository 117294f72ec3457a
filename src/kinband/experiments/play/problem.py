"""What a learner meets in an experiment."""

from dataclasses import dataclass

from kinband.contexts import StateScaler
from kinband.experiments.play.referee import Referee
from kinband.records import Samples


@dataclass(frozen=True, eq=False)
class Problem:
    """What a learner meets.

    Attributes:
        environment: What it plays.
        log: What it may learn from beforehand.
        scaler: Scales states, fitted to the log; None where the environment shows context rows only.
        likeness: The log that models are learned from, where it is another than that.
    """

    environment: Referee
    log: Samples
    scaler: StateScaler | None = None
    likeness: Samples | None = None
