r"""The three estimators of what a policy would have earned, with intervals.

Each logged row has a reward r, the weight w = π(a|x)/p(a|x) of its configuration a under the policy π against the
log's own habit p, the model's prediction m for what ran, and q = Σ_a π(a|x)·μ̂(x, a) for what the policy wants. Then

    by the model             V = mean q
    by inverse propensity    V = Σ w·r / Σ w                (self-normalised: Hájek 1971, Swaminathan and Joachims 2015)
    doubly robust            V = mean (q + w·(r − m))       (Dudík, Langford and Li 2011, (3))

The model is learned on other folds than the row's own (Chernozhukov et al. 2018), so that m and q are no fit of r. Each
estimate comes with its influence ψ, what every row adds to its error: V̂ − V ≈ mean ψ.

The standard error sums ψ within units, because rows of a unit are dependent, and takes the spread of these sums
(Liang and Zeger 1986). A bootstrap over units estimates the same spread by drawing; this draws nothing. Student's t
takes the place of the normal, with one degree of freedom less than there are units that carry weight: an average that
hangs on five trials is not known as well as one that hangs on five hundred (Cameron and Miller 2015 on few clusters).
"""

from dataclasses import dataclass

import numpy as np

from kinband.arrays import BoolArray, FloatArray, IntArray

LEVEL = 0.95
"""How sure an interval is."""


@dataclass(frozen=True)
class Estimate:
    """A number with its standard error and its 95 % interval; nan where the log cannot tell.

    Example:
        >>> f"{Estimate(0.5, 0.05, 0.4, 0.62):.2f}", f"{Estimate(0.5, np.nan, np.nan, np.nan):.2f}"
        ('0.50 (0.40 to 0.62)', '0.50 (interval unknown)')
    """

    value: float
    error: float
    low: float
    high: float

    def __format__(self, spec: str) -> str:
        if np.isnan(self.value):
            return "unknown"
        if np.isnan(self.low):
            return f"{self.value:{spec}} (interval unknown)"
        return f"{self.value:{spec}} ({self.low:{spec}} to {self.high:{spec}})"

    @property
    def known(self) -> bool:
        """Whether there is an interval."""
        return not np.isnan(self.low)

    def to_dict(self) -> dict[str, float | list[float] | None]:
        """Return the estimate in JSON's types."""
        value = None if np.isnan(self.value) else self.value
        return {"value": value, "interval": [self.low, self.high] if self.known else None}


@dataclass(frozen=True, eq=False)
class Contrast:
    """A value, or a difference of two, and what each row adds to its error.

    Attributes:
        value: The estimate.
        influence: ψ, (n,), with mean 0.
        live: Sets of rows that the estimate hangs on, (n,) each; the smallest says how well it can be known.
        variance: What comes on top of the rows' own scatter, such as the model's.
        exact: Whether it is known without doubt, as the difference of a policy to itself is.

    Example:
        >>> w, r = np.array([2.0, 0.0, 1.0]), np.array([0.9, 0.1, 0.6])
        >>> found = inverse_propensity(w, r)
        >>> round(found.value, 3), found.influence[w > 0].round(3).tolist()
        (0.8, [0.2, -0.2])
    """

    value: float
    influence: FloatArray
    live: tuple[BoolArray, ...]
    variance: float = 0.0
    exact: bool = False

    def interval(self, unit: IntArray) -> Estimate:
        """Return the value with its interval, by rows that belong to units (n,)."""
        from scipy.stats import t

        if np.isnan(self.value):
            return Estimate(np.nan, np.nan, np.nan, np.nan)
        if self.exact:
            return Estimate(self.value, 0.0, self.value, self.value)
        units = min(len(np.unique(unit[live])) for live in self.live)
        if units < 2:
            return Estimate(self.value, np.nan, np.nan, np.nan)
        error = float(np.sqrt(_variance(self.influence, unit) + self.variance))
        slack = error * float(t.ppf(0.5 + LEVEL / 2, units - 1))
        return Estimate(self.value, error, self.value - slack, self.value + slack)

    def minus(self, other: "Contrast", *, differ: BoolArray, variance: float = 0.0, exact: bool = False) -> "Contrast":
        """Return the difference to another estimate from the same rows; what both share cancels.

        Args:
            other: What is subtracted.
            differ: Rows that weigh differently in the two, (n,).
            variance: What comes on top of the rows' own scatter.
            exact: Whether the two are estimates of the same policy.
        """
        influence, live = self.influence - other.influence, (*self.live, *other.live, differ)
        return Contrast(self.value - other.value, influence, live, variance, exact)


def by_model(q: FloatArray, *, variance: float = 0.0) -> Contrast:
    """Return the direct estimate from the model's predictions q (n,) of what the policy wants."""
    return Contrast(float(q.mean()), q - q.mean(), (np.ones(len(q), dtype=np.bool_),), variance)


def inverse_propensity(w: FloatArray, r: FloatArray) -> Contrast:
    """Return the self-normalised estimate from weights w (n,) and rewards r (n,); nan where no row has weight."""
    live = w > 0
    if not live.any():
        return Contrast(np.nan, np.zeros(len(w)), (live,))
    value = float(w @ r / w.sum())
    return Contrast(value, w * (r - value) / w.mean(), (live,))


def doubly_robust(w: FloatArray, r: FloatArray, *, m: FloatArray, q: FloatArray, variance: float = 0.0) -> Contrast:
    """Return the doubly robust estimate from weights w, rewards r, predictions m of what ran and q of what is wanted.

    `variance` is the model's own doubt about what was never tried: there no reward corrects it.

    Example:
        >>> w, r = np.array([2.0, 0.0]), np.array([0.9, 0.1])
        >>> round(doubly_robust(w, r, m=np.array([0.8, 0.3]), q=np.array([0.7, 0.7])).value, 3)
        0.8
    """
    scores = q + w * (r - m)
    return Contrast(float(scores.mean()), scores - scores.mean(), (w > 0,), variance)


def logged(r: FloatArray) -> Contrast:
    """Return what the log itself earned, from rewards r (n,)."""
    return by_model(r)


def effective_samples(w: FloatArray) -> float:
    """Return how many rows of equal weight would be worth weights w (n,), (Σw)²/Σw² (Kish 1965).

    Example:
        >>> effective_samples(np.array([3.0, 3.0, 0.0])), effective_samples(np.zeros(2))
        (2.0, 0.0)
    """
    squares = float(w @ w)
    return float(w.sum()) ** 2 / squares if squares > 0 else 0.0


def _variance(influence: FloatArray, unit: IntArray) -> float:
    """Variance of mean ψ, with ψ (n,) summed within units (n,)."""
    _, number = np.unique(unit, return_inverse=True)
    totals = np.bincount(number, weights=influence)
    G = len(totals)
    return float(totals @ totals) * G / (G - 1) / len(influence) ** 2 if G > 1 else np.nan
