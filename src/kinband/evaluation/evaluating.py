"""From a log and a policy to what the policy would have earned: the parts put together."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kinband.arrays import BoolArray, FloatArray, IntArray, positive_number
from kinband.contexts import ContextEncoder
from kinband.controller.config import checked_seed
from kinband.errors import BadInputError
from kinband.evaluation.beliefs import Beliefs
from kinband.evaluation.estimators import (
    Estimate,
    by_model,
    doubly_robust,
    effective_samples,
    inverse_propensity,
    logged,
)
from kinband.evaluation.judging import Predicted, Tick, predict
from kinband.evaluation.parts import Parts, part
from kinband.evaluation.propensities import Propensities, estimated_propensities, given_propensities
from kinband.evaluation.result import BOTH, MODEL, WEIGHTS, Evaluation, Judgement
from kinband.evaluation.support import support_of, tried_rows
from kinband.evaluation.targets import Choices, Chooser, Chosen, Fixed, Recommended, Target, Usual, check_chooser
from kinband.kernels import as_kernel
from kinband.likelihood import refuse_large
from kinband.model import Model, SimilarityLike, learn_model
from kinband.trace import Trace
from kinband.trace.table import reward_in_state

LEARN_ROWS = 2000
"""Rows of each part that models are learned from, spread over the stations, unless the caller says otherwise."""

Policy = str | Mapping[str, Any] | Chooser | Target


def evaluate(
    trace: Trace,
    policy: Policy = "recommend",
    *,
    propensity: ArrayLike | None = None,
    similarity: SimilarityLike = "joint",
    model: Model | None = None,
    learn_share: float = 0.5,
    folds: int = 5,
    rows: int | None = None,
    clip: float | None = None,
    seed: int = 0,
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
        rows: The most rows of a station that a model is learned from, drawn at random; 2,000 in all if not given.
        clip: Cuts weights above this, which biases the answer; nothing is cut if not given.
        seed: Draws rows and starts of searches.
        tick: Called with a word after each step: the model, the policy, every fold.

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
    fixed = _early_target(policy, trace)  # an unknown configuration is refused before any work
    parts = part(trace, arms, share=learn_share, folds=folds)
    encoder, learned = learn(trace.select(parts.earlier), similarity=similarity, model=model, rows=rows, seed=seed)
    steps("learned the model")
    target = fixed or Recommended(learned_beliefs(trace.select(parts.earlier), learned, encoder, rows=rows, seed=seed))
    later = trace.select(parts.later)
    usual = Usual.of(trace.station[parts.earlier], arms[parts.earlier]).choices(later.station, later.state)
    wanted = usual if isinstance(target, Usual) else target.choices(later.station, later.state)
    steps("asked the policy")
    samples = later.samples(encoder, stations=learned.similarity.stations)
    kept = _kept(later, rows, seed=seed)
    found = (given or estimated_propensities(trace, arms, rows=parts.later, fold=parts.fold)).take(parts.later)
    tried = tried_rows(wanted, later.station, log_station=trace.station, ran=arms, possible=found.full)
    untried = np.where(tried == 0, wanted.shares, 0.0)
    predicted = predict(
        learned, samples, encoder, fold=parts.fold, learn=kept, wanted=wanted, usual=usual, untried=untried, tick=steps
    )
    return _evaluation(
        target.name, trace, arms=arms, parts=parts, wanted=wanted, usual=usual, predicted=predicted,
        found=found, limit=limit,
    )  # fmt: skip


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


def learned_beliefs(
    earlier: Trace, model: Model, encoder: ContextEncoder, *, rows: int | None = None, seed: int = 0
) -> Beliefs:
    """Return what the model believes after the earlier rows."""
    return Beliefs.learn(model, _sampled(earlier, rows, seed=seed).samples(encoder), encoder)


def _early_target(policy: Policy, trace: Trace) -> Target | None:
    """The policy as far as it needs no learning; None for what is to be recommended."""
    space = trace.space()
    match policy:
        case "recommend":
            return None
        case "usual":
            return Usual({})
        case str():
            raise BadInputError(f"unknown policy {policy!r}: choose recommend, usual or a configuration")
        case Mapping():
            return Fixed.of(policy, space)
        case Target():
            return policy
    if callable(policy):
        check_chooser(policy)
        return Chosen(policy, space, trace.state_names)
    raise BadInputError(f"a policy is a name, a configuration or a function of station and state, got {policy!r:.60}")


def _sampled(trace: Trace, rows: int | None, *, seed: int) -> Trace:
    count = max(1, LEARN_ROWS // len(trace.stations)) if rows is None else rows
    return trace.sample(count, np.random.default_rng([seed, 1]))


def _kept(later: Trace, rows: int | None, *, seed: int) -> BoolArray:
    """Which of the later rows the judges may learn from, (n,)."""
    count = max(2, LEARN_ROWS // len(later.stations)) if rows is None else rows
    kept = np.zeros(len(later), dtype=np.bool_)
    rng = np.random.default_rng([seed, 2])
    for station in later.stations:
        own = np.flatnonzero(later.station == station)
        kept[rng.choice(own, size=min(count, len(own)), replace=False)] = True
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
        *reward_in_state(trace),
        *support.warnings(),
        *found.warnings,
        *_weight_warnings(mean_weight, support.never),
        *_cut_warnings(cut, mean_weight.value, float(w.mean())),
    ]
    if not parts.in_time:
        warnings.append("the log has no time: the order of its rows was taken for it (name the column with time)")
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
        effective_by_station={s: effective_samples(w[later == s]) for s in np.unique(later).tolist()},
        mean_weight=float(w.mean()),
        propensities=found.source,
        clipped=cut,
        support=support,
        warnings=tuple(warnings),
        same=same,
    )


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
        f"the weights average {mean:.2f}, and with the right propensities they would average 1: the log's habits "
        "changed, depended on more than was taken into account, or left some of what the policy wants impossible"
    ]


def _cut_warnings(cut: tuple[int, float] | None, before: float, after: float) -> list[str]:
    if cut is None or not cut[0]:
        return []
    cuts = "1 weight was" if cut[0] == 1 else f"{cut[0]:,} weights were"
    return [
        f"{cuts} cut at {cut[1]:g}, so that they average {after:.2f} instead of {before:.2f}, which biases the two "
        "estimates that use them"
    ]
