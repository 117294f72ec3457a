"""What an evaluation found, for machines and in words."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kinband.evaluation.estimators import Estimate
from kinband.evaluation.support import Support
from kinband.evaluation.targets import USUAL

MODEL, WEIGHTS, BOTH = "model", "inverse propensity", "doubly robust"
_LITTLE = 30.0  # effective rows below which weights tell little
_MUCH = 0.2  # share of decisions never tried above which the model carries the answer


@dataclass(frozen=True)
class Judgement:
    """One estimator's answer.

    Attributes:
        method: "model", "inverse propensity" or "doubly robust".
        value: Mean reward that the policy would have earned.
        usual: The same for every station at its usual configuration.
        against_usual: The difference of the two, in pairs.
        against_log: The difference to what the log earned in the same rows, in pairs.

    Example:
        >>> gain = Estimate(0.04, 0.01, 0.02, 0.06)
        >>> judgement = Judgement(MODEL, Estimate(0.85, 0.01, 0.83, 0.87), Estimate(0.81, 0.01, 0.79, 0.83), gain, gain)
        >>> judgement.to_dict()["against_log"]
        {'value': 0.04, 'interval': [0.02, 0.06]}
    """

    method: str
    value: Estimate
    usual: Estimate
    against_usual: Estimate
    against_log: Estimate

    def to_dict(self) -> dict[str, Any]:
        """Return the answer in JSON's types."""
        numbers = ("value", "usual", "against_usual", "against_log")
        return {"method": self.method} | {name: getattr(self, name).to_dict() for name in numbers}


@dataclass(frozen=True)
class Evaluation:
    """What a policy would have earned on the later rows of a log.

    Attributes:
        policy: The policy in words.
        rows_learned: Earlier rows.
        rows_judged: Later rows.
        unit: What intervals count, "station" or "trial".
        units: How many of these there are.
        folds: How many folds were used.
        log: What the log itself earned.
        judgements: The three estimators' answers.
        effective_rows: How many rows the weights are worth.
        effective_by_station: The same station by station.
        mean_weight: Mean of the weights; near 1 if propensities are right and everything was possible.
        propensities: Where they come from, in words.
        clipped: How many weights were cut, and at what; None if none were to be.
        support: What was never or hardly tried.
        warnings: What to keep in mind, in words.
        same: Whether the policy wants what is usual in all rows judged.

    Example:
        >>> import numpy as np
        >>> from kinband import Trace
        >>> from kinband.evaluation import evaluate
        >>> rng = np.random.default_rng(0)
        >>> log = {"station": ["a", "b"] * 60, "tilt": rng.integers(0, 3, 120)}
        >>> log["reward"] = 0.5 + 0.1 * log["tilt"] + 0.02 * rng.normal(size=120)
        >>> found = evaluate(Trace.from_frame(log, {"configuration": ["tilt"]}), {"tilt": 2}, similarity="pooled")
        >>> found.policy, found.rows_judged, found.unit, found.support.never
        ('tilt=2 everywhere', 60, 'trial', 0.0)
    """

    policy: str
    rows_learned: int
    rows_judged: int
    unit: str
    units: int
    folds: int
    log: Estimate
    judgements: tuple[Judgement, ...]
    effective_rows: float
    effective_by_station: Mapping[str, float]
    mean_weight: float
    propensities: str
    clipped: tuple[int, float] | None
    support: Support
    warnings: tuple[str, ...]
    same: bool = False

    def by(self, method: str) -> Judgement:
        """Return one estimator's answer."""
        return next(judgement for judgement in self.judgements if judgement.method == method)

    @property
    def value(self) -> Estimate:
        """The doubly robust value."""
        return self.by(BOTH).value

    @property
    def verdict(self) -> str:
        """The answer in a sentence, and how far it may be trusted."""
        return f"{self._claim()} {self._trust()}".strip()

    def _claim(self) -> str:
        """What the policy would have earned against the usual, and the usual itself against the log."""
        knob = "=" in self.policy  # its name is written as the log writes it
        policy = self.policy if knob else self.policy[0].upper() + self.policy[1:]
        found, usual = self.by(BOTH), self.policy == USUAL
        gain = found.against_log if usual else found.against_usual
        if not gain.known:
            also = "" if usual else ", or what is usual"
            return f"{policy} cannot be judged: too few rows of the log ran what it wants{also}."
        if self.same and not usual:
            return f"{policy} is the same as {USUAL} in all rows judged."
        other = "what the log itself earned" if usual else "the stations' usual configurations"
        if gain.low > 0:
            change = f"would have earned more than {other}"
        elif gain.high < 0:
            change = f"would have earned less than {other}"
        else:
            change = f"makes no clear difference to {other}"
        return f"{policy} {change}: {gain:+.3g} in mean reward, doubly robust."

    def _trust(self) -> str:
        if self.support.never > _MUCH:
            return (
                f"But {self.support.never:.0%} of its decisions were never tried by their station: there it is the "
                "model's word."
            )
        if self.effective_rows < _LITTLE:
            return f"But the log is worth only {self.effective_rows:.0f} rows of this policy: take it as a hint."
        if self._disagree():
            return "But model and weights disagree: one of them is wrong, so look at the warnings first."
        return ""

    def _disagree(self) -> bool:
        """Whether the model's value is outside what the weights leave possible, and the other way round."""
        model, weights = self.by(MODEL).value, self.by(WEIGHTS).value
        if not (model.known and weights.known):
            return False
        return model.high < weights.low or weights.high < model.low

    def to_dict(self) -> dict[str, Any]:
        """Return everything in JSON's types."""
        return {
            "policy": self.policy,
            "same_as_usual": self.same,
            "answer": self.verdict,
            "rows_learned": self.rows_learned,
            "rows_judged": self.rows_judged,
            "unit": self.unit,
            "units": self.units,
            "folds": self.folds,
            "log": self.log.to_dict(),
            "estimates": [judgement.to_dict() for judgement in self.judgements],
            "effective_rows": self.effective_rows,
            "effective_rows_by_station": dict(self.effective_by_station),
            "mean_weight": self.mean_weight,
            "propensities": self.propensities,
            "clipped": None if self.clipped is None else {"rows": self.clipped[0], "at": self.clipped[1]},
            "support": self.support.to_dict(),
            "warnings": list(self.warnings),
        }
