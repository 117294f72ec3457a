"""How far a growing sum may stray, at all times at once: two bounds that a budget of rewards keeps in reserve.

*Scatter.* Rewards scatter independently around what is expected of them, so that a sum with variance v strays by about
√v, and at all times together by little more. With probability 1 − δ no sum of sub-Gaussian terms is ever above

    √(2(v + ρ) log(√((v + ρ)/ρ)/(2δ) + 1)).

This is Robbins' (1970) boundary, which mixes the supermartingales exp(ls − l²v/2) over l ≥ 0 with a half-normal weight
of precision ρ, in the closed form of Howard, Ramdas, McAuliffe and Sekhon (2021). With x² = s²/(v + ρ) the mixture is
2√(ρ/(v + ρ)) Φ(x) exp(x²/2), which passes 1/δ no later than the form says, because 1 − Φ(x) ≤ exp(−x²/2).

*Doubt.* What is believed wrongly is wrong again and again: errors σᵢzᵢ, each zᵢ standard normal given all that was
known when σᵢ was, may hang together in any way, and their sum may grow like Q = Σσᵢ. To unite bounds of every term over
time costs √(4 log n) times each σᵢ. The sum costs less. Take a falling density w on q ≥ 0 and φ(z) = exp(tz). Then

    E Σ σᵢ w(Qᵢ) φ(zᵢ) = exp(t²/2) E Σ σᵢ w(Qᵢ) ≤ exp(t²/2) ∫ w = exp(t²/2),

so by Markov's inequality the sum stays below exp(t²/2)/δ for good with probability 1 − δ. Then Σ σᵢ φ(zᵢ) ≤
exp(t²/2)/(δ w(Q)) up to any time, and φ is convex: φ(Σσᵢzᵢ/Q) ≤ Σ σᵢ φ(zᵢ)/Q. Hence at all times

    Σσᵢzᵢ ≤ Q (t/2 + log(1/(δ Q w(Q)))/t).

With w(q) = κ q₀^κ (q + q₀)^(−1−κ) the last logarithm grows like κ log Q: at δ = 0.05 the sum is bounded by 3.2 to 3.5
times Q, where the union of Krause and Ong (2011) takes 5.9 times every σᵢ after a thousand decisions.
"""

from math import log, log1p, sqrt

_TAIL = 0.25  # κ: how slowly the density falls


def scatter_allowance(variance: float, *, unit: float, delta: float) -> float:
    """Return what a sum of independent terms, `variance` in all, stays below at all times with probability 1 − δ.

    Args:
        variance: v, of the sum so far.
        unit: ρ, the variance around which the bound is tightest; fixed beforehand.
        delta: δ.

    Example:
        >>> [round(scatter_allowance(n * 0.01, unit=0.01, delta=0.05), 2) for n in (0, 1, 100)]
        [0.0, 0.33, 3.05]
    """
    if variance <= 0.0:
        return 0.0
    ratio = (variance + unit) / unit
    return sqrt(2.0 * (variance + unit) * log1p(sqrt(ratio) / (2.0 * delta)))


def doubt_allowance(std: float, *, unit: float, delta: float) -> float:
    """Return what a sum of errors, whose standard deviations are `std` in all, stays below with probability 1 − δ.

    Args:
        std: Q, the sum of standard deviations so far.
        unit: q₀, the std around which the bound is tightest; fixed beforehand.
        delta: δ.

    Example:
        >>> [round(doubt_allowance(std, unit=0.1, delta=0.05) / std, 2) for std in (0.1, 1.0, 100.0)]
        [3.24, 3.19, 3.5]
    """
    if std <= 0.0:
        return 0.0
    known = log(1.0 / (_TAIL * delta))
    t = sqrt(2.0 * (known + 1.0))
    u = std / unit
    return std * (t / 2.0 + (known + log1p(1.0 / u) + _TAIL * log1p(u)) / t)
