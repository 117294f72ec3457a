"""From a log to what policies would have earned."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinband.arrays import BoolArray, FloatArray, IntArray, positive_number
from kinband.contexts import ContextEncoder
from kinband.controller.config import checked_seed
from kinband.errors import BadInputError
from kinband.kernels import as_kernel
from kinband.likelihood import refuse_large
from kinband.model import Model, SimilarityLike, learn_model
from kinband.ope.estimators import (
    Propensities,
    by_model,
    doubly_robust,
    effective_samples,
    estimated_propensities,
    given_propensities,
    inverse_propensity,
    logged,
)
from kinband.ope.targets import (
    RECOMMENDED,
    USUAL,
    Beliefs,
    Choices,
    Chooser,
    Parts,
    Support,
    Target,
    chosen,
    fixed,
    part,
    support_of,
    tried_rows,
)
from kinband.ope.targets import usual as usual_of
from kinband.parallel import carried_out
from kinband.planning.network import ONE_MODEL, NetworkModel, Quantity, group_network, group_similarity
from kinband.records import Samples
from kinband.similarity import TaskMatrix
from kinband.similarity.shards import Shards
from kinband.stats import Estimate
from kinband.trace import Trace
from kinband.trace.answers import suspicious_states
from kinband.trace.table import rows_by_station, station_numbers

# --- What the model predicts for the later rows of a log, fold by fold, and how well it knows the averages it
# reports
#
# The judge of a fold has learned the other folds of the later rows, and none of the earlier ones: a policy that was
# learned from the earlier rows has picked what looked best in them, luck included, and a judge who had seen the same
# luck would confirm it. Kernel, similarity, noise and prior mean are few numbers and come from the earlier rows.

_POINTS = 400  # at which the posterior of an average is computed

Tick = Callable[..., None]


@dataclass(frozen=True, eq=False)
class Predicted:
    """Predictions for n later rows, each from a model that has not seen the row's fold.

    Attributes:
        ran: For what ran, m, (n,).
        wanted: For what the policy wants, q, (n,).
        usual: For what is usual, (n,).
        variance: Of the mean of `wanted`, by the model's own doubt.
        variance_of_usual: Of the mean of `usual`, likewise.
        variance_of_gain: Of the mean of the difference.
        variance_untried: Of what the decisions that were never tried add to the mean of `wanted`.
    """

    ran: FloatArray
    wanted: FloatArray
    usual: FloatArray
    variance: float
    variance_of_usual: float
    variance_of_gain: float
    variance_untried: float


def predict(
    model: Model,
    rows: Samples,
    encoder: ContextEncoder,
    *,
    fold: IntArray,
    learn: BoolArray,
    wanted: Choices,
    usual: Choices,
    untried: FloatArray,
    tick: Tick | None = None,
) -> Predicted:
    """Return what models learned on other folds predict for each row.

    Args:
        model: Kernel, task matrix, noise and prior mean.
        rows: The later rows, with their configurations' numbers.
        encoder: Made their contexts.
        fold: Fold of each row, (n,).
        learn: Which rows may be learned from, (n,): of very long logs, some.
        wanted: What the policy would run.
        usual: What it is compared with.
        untried: Shares of what is wanted that were never tried, (n, c), else 0.
        tick: Called after each fold.
    """
    n, p = len(rows), len(encoder.state.names)
    if rows.arms is None:
        raise AssertionError("rows of a trace have numbered configurations")
    ran, means = rows.arms[:, None], (np.empty(n), np.empty(n), np.empty(n))
    doubts = np.zeros(4)
    folds = np.unique(fold)
    for k in folds.tolist():
        mine = np.flatnonzero(fold == k)
        beliefs = Beliefs.learn(model, rows.take((fold != k) & learn), encoder)
        tasks, S = rows.tasks[mine], rows.X[mine, :p]
        means[0][mine] = beliefs.at(tasks, S, ran[mine])[:, 0]
        for mean, choices in zip(means[1:], (wanted, usual), strict=True):
            mean[mine] = choices.take(mine).average(beliefs.at(tasks, S, choices.arms[mine]))
        doubts += len(mine) / n * _doubts(beliefs, rows, mine, wanted=wanted, usual=usual, untried=untried)
        if tick is not None:
            tick(f"fold {k + 1} of {len(folds)}")
    # Judges of different folds share most of their rows, so their errors are taken to go together.
    return Predicted(*means, *(doubts**2).tolist())


def _doubts(
    beliefs: Beliefs, rows: Samples, mine: IntArray, *, wanted: Choices, usual: Choices, untried: FloatArray
) -> FloatArray:
    """Standard deviations of the mean over a fold of what is wanted, of the usual, of their difference, and of what was
    wanted and never tried, (4,).

    Of a large fold, rows at even distances stand for all.
    """
    count = max(1, _POINTS // (wanted.arms.shape[1] + 1))
    some = mine if len(mine) <= count else mine[np.linspace(0, len(mine) - 1, count).astype(np.int64)]
    arms = np.hstack([wanted.arms[some], usual.arms[some]])
    shares = np.hstack([wanted.shares[some], -usual.shares[some]]) / len(some)
    p, c = len(beliefs.encoder.state.names), arms.shape[1]
    tasks, S = np.repeat(rows.tasks[some], c), np.repeat(rows.X[some, :p], c, axis=0)
    ours = np.arange(c) < wanted.arms.shape[1]
    never = np.hstack([untried[some], np.zeros(usual.arms[some].shape)]) / len(some)
    parts = (shares * ours, shares * ~ours, shares, never)
    return np.array([beliefs.spread(tasks, S, arms.ravel(), weights=part.ravel()) for part in parts])


# --- What an evaluation found, for machines and in words ------------------------------------------------------------

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
        >>> gain = Estimate(0.04, 0.02, 0.06)
        >>> judgement = Judgement(MODEL, Estimate(0.85, 0.83, 0.87), Estimate(0.81, 0.79, 0.83), gain, gain)
        >>> judgement.to_dict()["against_log"]
        {'value': 0.04, 'low': 0.02, 'high': 0.06}
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
        >>> from kinband.ope import evaluate
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


# --- From a log and a policy to what the policy would have earned: the parts put together ---------------------------

Policy = str | Mapping[str, Any] | Chooser | Target


def evaluate(
    trace: Trace,
    policy: Policy = "recommend",
    *,
    propensity: ArrayLike | None = None,
    similarity: SimilarityLike | Shards = "joint",
    model: Model | None = None,
    learn_share: float = 0.5,
    folds: int = 5,
    rows: int | None = None,
    clip: float | None = None,
    seed: int = 0,
    workers: int | None = 1,
    ray: str | None = None,
    tick: Tick | None = None,
) -> Evaluation:
    """Return what a policy would have earned on the later rows of a log, by three estimators.

    Args:
        trace: The log.
        policy: "recommend", "usual", a configuration for all stations, or a function of station and state that returns
            a configuration or one probability per configuration of the space.
        propensity: Probability with which the log chose what it ran, (n,), or of all configurations, (n, N); estimated
            from frequencies if not given.
        similarity: How alike the stations are.
        model: A model learned before; by default it is learned from the earlier rows.
        learn_share: The share of every station's rows that are learned from, its earliest.
        folds: How many folds the later rows are cut into.
        rows: The most rows of a station that a model is learned from, drawn at random; all if not given.
        clip: Cuts weights above this, which biases the answer; nothing is cut if not given.
        seed: Draws rows and starts of searches.
        workers: Processes, where a large network is judged in groups; None or 0 for one per core.
        ray: The Ray cluster to run on instead, "host:port" or "auto".
        tick: Called with a word after each step, and how much of 2 + folds steps it was: the model, the policy, every
            fold.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> log = {"station": ["a", "b"] * 100, "load": rng.random(200), "tilt": rng.integers(0, 3, 200)}
        >>> log["reward"] = 0.5 + 0.1 * log["tilt"] + 0.02 * rng.normal(size=200)
        >>> trace = Trace.from_frame(log, {"configuration": ["tilt"]})
        >>> found = evaluate(trace, {"tilt": 2}, propensity=np.full(200, 1 / 3), similarity="pooled")
        >>> found.value.low < 0.7 < found.value.high
        True
    """
    seed = checked_seed(seed)
    if not isinstance(trace, Trace):
        raise BadInputError(
            f"evaluate takes a Trace, got {type(trace).__name__}: Trace.from_frame(table) or Trace.read(path) makes one"
        )
    refuse_large(trace.reward)
    if model is not None and not isinstance(model, Model):
        raise BadInputError(f"model must be a kinband.model.Model, or None to learn one, got {model!r:.60}")
    space = trace.space()
    trace = trace.with_space(space)
    arms = space.indices(trace.configuration)
    steps = tick or (lambda _: None)
    given = None if propensity is None else given_propensities(propensity, trace, arms)
    limit = None if clip is None else positive_number(clip, name="clip")
    early = _early_target(policy, trace)  # an unknown configuration is refused before any work
    parts = part(trace, arms, share=learn_share, folds=folds)
    earlier, later = trace.select(parts.earlier), trace.select(parts.later)
    usual = usual_of(trace.station[parts.earlier], arms[parts.earlier]).choices(later.station, later.state)
    name, wanted = RECOMMENDED, None
    if policy == "usual":
        name, wanted = USUAL, usual
    elif early is not None:
        name, wanted = early.name, early.choices(later.station, later.state)
    found = (given or estimated_propensities(trace, arms, rows=parts.later, fold=parts.fold)).take(parts.later)
    asked = _Asked(usual, wanted, parts.fold, _kept(later, rows, seed=seed), found.full)
    network = _network(_sampled(earlier, rows, seed=seed), similarity=similarity, model=model, seed=seed)
    steps("learned the model")
    wanted, predicted = _judged(network, trace, arms, later, asked, workers=workers, ray=ray, tick=steps)
    return _evaluation(
        name, trace, arms=arms, parts=parts, wanted=wanted, usual=usual,
        predicted=predicted, found=found, limit=limit,
    )  # fmt: skip


# --- A large network, group by group --------------------------------------------------------------------------------
#
# Groups of similar stations learn apart and share no rows, so their judges' errors are independent, and variances of
# means add up. Everything else of an evaluation is a sum over rows.


@dataclass(frozen=True, eq=False)
class _Asked:
    """What is asked of n later rows.

    Attributes:
        usual: What they are compared with.
        wanted: What the policy would run; None for what is to be recommended.
        fold: Fold of each, (n,).
        learn: Which may be learned from, (n,).
        possible: The log's own probabilities of all configurations, (n, N), where they are known.
    """

    usual: Choices
    wanted: Choices | None
    fold: IntArray
    learn: BoolArray
    possible: FloatArray | None

    def take(self, rows: IntArray) -> "_Asked":
        wanted = None if self.wanted is None else self.wanted.take(rows)
        possible = None if self.possible is None else self.possible[rows]
        return _Asked(self.usual.take(rows), wanted, self.fold[rows], self.learn[rows], possible)


def _network(used: Trace, *, similarity: SimilarityLike | Shards, model: Model | None, seed: int) -> NetworkModel:
    """The earlier rows with their model, as one group or, in a large network, several."""
    encoder, M = used.encoder(), len(used.stations)
    if isinstance(similarity, Shards) and M <= ONE_MODEL:
        similarity = similarity.matrix(used.stations)
    if model is None and M > ONE_MODEL and not isinstance(similarity, TaskMatrix):
        return group_network(used.samples(encoder), encoder, similarity=similarity, log=used, seed=seed)
    assert not isinstance(similarity, Shards)  # noqa: S101  # it was made a matrix
    encoder, learned = learn(used, similarity=similarity, model=model, seed=seed)
    rows = Quantity(used.samples(encoder), learned, learned.similarity)
    return NetworkModel(encoder, rows, (np.arange(M),), seed)


def _judged(
    network: NetworkModel,
    trace: Trace,
    arms: IntArray,
    later: Trace,
    asked: _Asked,
    *,
    workers: int | None,
    ray: str | None,
    tick: Tick,
) -> tuple[Choices, Predicted]:
    """Return what the policy would run in the later rows, and what models say of them."""
    place = {name: m for m, name in enumerate(network.stations)}
    logged = np.array([place[name] for name in trace.stations])[station_numbers(trace)]
    samples = later.samples(network.encoder, stations=network.stations)
    mine, one = network.rows(samples.tasks), len(network.groups) == 1
    calls = {
        number: (
            partial(_judge, seed=network.seed, tick=tick if one else None),
            (
                network.encoder, network.reward.model, network.similarity_in(number), network.samples_in(number, own),
                network.samples_in(number, mine[number], samples), asked.take(mine[number]),
                (np.searchsorted(network.groups[number], logged[whole]), arms[whole]),
            ),
        )
        for number, (own, whole) in enumerate(zip(network.rows(), network.rows(logged), strict=True))
    }  # fmt: skip
    found: dict[int, tuple[Choices, Predicted]] = {}
    for number, answer in carried_out(calls, workers=workers, ray=ray):
        found[number] = answer
        if not one:
            tick(f"judged {len(found):,} of {len(calls):,} groups", (len(np.unique(asked.fold)) + 1) / len(calls))
    return _together([found[number] for number in range(len(calls))], mine)


def _judge(
    encoder: ContextEncoder,
    model: Model,
    alike: SimilarityLike,
    earlier: Samples,
    later: Samples,
    asked: _Asked,
    logged: tuple[IntArray, IntArray],
    *,
    seed: int,
    tick: Tick | None,
) -> tuple[Choices, Predicted]:
    """Return what the policy would run in the later rows of a group, and what models say of them."""
    model = replace(model, similarity=group_similarity(earlier, model, similarity=alike, seed=seed))
    wanted = asked.wanted
    if wanted is None:
        beliefs = Beliefs.learn(model, earlier, encoder)
        wanted = Choices.certain(beliefs.best(later.tasks, later.X[:, : len(encoder.state.names)]))
    if tick is not None:
        tick("asked the policy")
    station, ran = logged
    tried = tried_rows(wanted, later.tasks, log_station=station, ran=ran, possible=asked.possible)
    return wanted, predict(
        model, later, encoder, fold=asked.fold, learn=asked.learn, wanted=wanted, usual=asked.usual,
        untried=np.where(tried == 0, wanted.shares, 0.0), tick=tick,
    )  # fmt: skip


def _together(found: Sequence[tuple[Choices, Predicted]], rows: Sequence[IntArray]) -> tuple[Choices, Predicted]:
    """Put the answers of groups together; variances of means add up, as groups share no rows."""
    if len(found) == 1:
        return found[0]
    every, order = [one for _, one in found], np.argsort(np.concatenate(rows))
    weight = np.array([len(own) for own in rows]) / len(order)
    chosen = [wanted for wanted, _ in found]
    wanted = Choices(*(np.concatenate([getattr(one, name) for one in chosen])[order] for name in ("arms", "shares")))
    ran, ours, theirs = (
        np.concatenate([getattr(p, name) for p in every])[order] for name in ("ran", "wanted", "usual")
    )
    doubts = ("variance", "variance_of_usual", "variance_of_gain", "variance_untried")
    sums = (float(weight**2 @ np.array([getattr(one, name) for one in every])) for name in doubts)
    return wanted, Predicted(ran, ours, theirs, *sums)


def learn(
    earlier: Trace, *, similarity: SimilarityLike, model: Model | None = None, rows: int | None = None, seed: int = 0
) -> tuple[ContextEncoder, Model]:
    """Return the encoder and the model of the earlier rows, as a controller made from them would have."""
    used = _sampled(earlier, rows, seed=seed)
    encoder = used.encoder()
    if model is None:
        samples = used.samples(encoder)
        return encoder, learn_model(samples, similarity, rng=np.random.default_rng([seed, 0]), log=used)
    tasks = model.similarity.reindex(used.stations)
    return encoder, Model(as_kernel(model.kernel).bind(encoder.features), tasks, model.noise, model.mean)


def _early_target(policy: Policy, trace: Trace) -> Target | None:
    """The policy as far as it needs no log; None for what is usual or to be recommended."""
    space = trace.space()
    match policy:
        case "recommend" | "usual":
            return None
        case str():
            raise BadInputError(f"unknown policy {policy!r}: choose recommend, usual or a configuration")
        case Mapping():
            return fixed(policy, space)
        case Target():
            return policy
    if callable(policy):
        return chosen(policy, space, trace.state_names)
    raise BadInputError(f"a policy is a name, a configuration or a function of station and state, got {policy!r:.60}")


def _sampled(trace: Trace, rows: int | None, *, seed: int) -> Trace:
    return trace if rows is None else trace.sample(rows, np.random.default_rng([seed, 1]))


def _kept(later: Trace, rows: int | None, *, seed: int) -> BoolArray:
    """Which of the later rows the judges may learn from, (n,)."""
    kept = np.full(len(later), rows is None)
    rng = np.random.default_rng([seed, 2])
    for own in [] if rows is None else rows_by_station(later):
        kept[rng.choice(own, size=min(rows or 0, len(own)), replace=False)] = True
    return kept


def _weights(choices: Choices, arms: IntArray, p: FloatArray, limit: float | None) -> FloatArray:
    w = choices.probability(arms) / p
    return w if limit is None else np.minimum(w, limit)


def _evaluation(
    name: str,
    trace: Trace,
    *,
    arms: IntArray,
    parts: Parts,
    wanted: Choices,
    usual: Choices,
    predicted: Predicted,
    found: Propensities,
    limit: float | None,
) -> Evaluation:
    """Put the numbers together."""
    later, ran, r = trace.station[parts.later], arms[parts.later], trace.reward[parts.later]
    w, v = (_weights(choices, ran, found.ran, limit) for choices in (wanted, usual))
    uncut = _weights(wanted, ran, found.ran, None)
    cut = None if limit is None else (int((uncut > limit).sum()), limit)
    support = support_of(wanted, later, log_station=trace.station, ran=arms, space=trace.space(), possible=found.full)
    mean_weight = by_model(uncut).interval(parts.unit)
    same = wanted.same_as(usual)
    warnings = [
        *map(str, suspicious_states(trace)),
        *support.warnings(),
        *found.warnings,
        *_weight_warnings(mean_weight, support.never),
        *_cut_warnings(cut, mean_weight.value, float(w.mean())),
    ]
    if not parts.in_time:
        warnings.append("the log has no time: the order of its rows was taken for it (name its column, --time)")
    return Evaluation(
        name,
        rows_learned=len(parts.earlier),
        rows_judged=len(parts.later),
        unit=parts.kind,
        units=int(parts.unit.max()) + 1,
        folds=len(np.unique(parts.fold)),
        log=logged(r).interval(parts.unit),
        judgements=_judgements(r, w, v, predicted=predicted, unit=parts.unit, same=same),
        effective_rows=effective_samples(w),
        effective_by_station=_effective_by_station(later, w),
        mean_weight=float(w.mean()),
        propensities=found.source,
        clipped=cut,
        support=support,
        warnings=tuple(warnings),
        same=same,
    )


def _effective_by_station(station: NDArray[np.str_], w: FloatArray) -> dict[str, float]:
    """How many rows the weights (n,) of each station (n,) are worth."""
    names, number = np.unique(station, return_inverse=True)
    ends = np.cumsum(np.bincount(number.ravel()))
    own = np.split(w[np.argsort(number.ravel(), kind="stable")], ends[:-1])
    return {name: effective_samples(weights) for name, weights in zip(names.tolist(), own, strict=True)}


def _judgements(
    r: FloatArray, w: FloatArray, v: FloatArray, *, predicted: Predicted, unit: IntArray, same: bool
) -> tuple[Judgement, ...]:
    """The three answers for weights w of the policy and v of the usual, (n,)."""
    every = np.ones(len(r), dtype=np.bool_)
    m, q, u = predicted.ran, predicted.wanted, predicted.usual
    pairs = {
        MODEL: (by_model(q, variance=predicted.variance), by_model(u, variance=predicted.variance_of_usual)),
        WEIGHTS: (inverse_propensity(w, r), inverse_propensity(v, r)),
        BOTH: (doubly_robust(w, r, m=m, q=q, variance=predicted.variance_untried), doubly_robust(v, r, m=m, q=u)),
    }
    answers = []
    for method, (ours, usual) in pairs.items():
        model = method == MODEL
        differ, doubt = (every, predicted.variance_of_gain) if model else (w != v, ours.variance)
        gain = ours.minus(usual, differ=differ, variance=doubt, exact=same)
        over = ours.minus(logged(r), differ=every, variance=ours.variance)
        found = (part_.interval(unit) for part_ in (ours, usual, gain, over))
        answers.append(Judgement(method, *found))
    return tuple(answers)


def _weight_warnings(mean: Estimate, never: float) -> list[str]:
    """Doubt propensities whose weights, as they are before any is cut, do not average 1."""
    if not mean.known or mean.low <= 1 - never <= mean.high or mean.low <= 1 <= mean.high:
        return []
    return [
        f"the weights average {mean:.2f}, and with the right propensities they would average 1: how configurations "
        "were chosen has changed, depended on more than was taken into account, or left some of what the policy wants "
        "impossible"
    ]


def _cut_warnings(cut: tuple[int, float] | None, before: float, after: float) -> list[str]:
    if cut is None or not cut[0]:
        return []
    cuts = "1 weight was" if cut[0] == 1 else f"{cut[0]:,} weights were"
    return [
        f"{cuts} cut at {cut[1]:g}, so that they average {after:.2f} instead of {before:.2f}, which biases the two "
        "estimates that use them"
    ]
