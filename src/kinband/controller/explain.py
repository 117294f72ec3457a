"""Why a decision was made, in words and as data.

Scores are those that were stored when asking; whose evidence they rested on, `attribution` works out.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from math import erf, floor, log10, sqrt
from typing import Any

import numpy as np

from kinband.arrays import FloatArray
from kinband.controller.asking import ALTERNATIVES
from kinband.controller.attribution import (
    Evidence,
    KnownRows,
    closest_rows,
    evidence_of,
    related,
    task_matrix_of,
    told_rows_of,
)
from kinband.controller.events import Asked
from kinband.controller.journal import Journal
from kinband.controller.setup import Setup
from kinband.errors import BadInputError, NotPositiveDefiniteError
from kinband.kernels import TaskCovariance
from kinband.policies.constraints import BUDGET, FLOOR
from kinband.policies.kpi_floors import KPI
from kinband.posterior.base import Rows
from kinband.records import Alternative, Alternatives, Decision
from kinband.similarity.matrix import sharing_text
from kinband.space import in_words
from kinband.stats import listed

# --- Why not the runner-up: how far it lay behind, how sure that is, and what would have put it first ---------------
#
# The difference of two estimates is surer than either where both are uncertain for the same reason, so its variance
# takes their covariance: σ(a − b)² = σ(a)² + σ(b)² − 2cov(a, b). One more reward r of the runner-up b, in the same
# state and with noise λ, would move its mean by (r − f̂(b))σ(b)²/(σ(b)² + λ) and that of the chosen a in proportion to
# cov(a, b), and narrow both; the reward at which the two scores (12) meet follows from that.


@dataclass(frozen=True)
class Comparison:
    """What was chosen against the runner-up, as of the decision.

    Attributes:
        difference: Expected reward of what was chosen, less that of the runner-up.
        deviation: Standard deviation of that difference; None where it was not weighed.
        probability: That what was chosen earns more, under the model; None likewise.
        needed_mean: Expected reward with which the runner-up, as uncertain as it was, would have come first; None where
            scores did not decide.
        needed_reward: One more reward of the runner-up in the same state that would have put it first; None where no
            single reward would, or where it was not worked out.

    Example:
        >>> Comparison(0.02, 0.01, 0.977, needed_mean=0.93, needed_reward=None).to_dict()["difference"]
        0.02
    """

    difference: float
    deviation: float | None
    probability: float | None
    needed_mean: float | None
    needed_reward: float | None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)


def compare(
    decision: Decision, runner_up: Alternative | None, *, C: FloatArray | None, beta: float | None, noise: float
) -> Comparison | None:
    """Return how a decision stands against its runner-up; None where one of them has no scores.

    Args:
        decision: With its scores as stored when asking.
        runner_up: Likewise.
        C: Covariance of f at the two, (2, 2), if it was worked out.
        beta: Weight of a standard deviation in the scores, if it is known.
        noise: Variance of one more reward.
    """
    if runner_up is None or runner_up.mean is None or decision.mean is None:
        return None
    difference = decision.mean - runner_up.mean
    deviation = None if C is None else sqrt(max(float(C[0, 0] + C[1, 1] - 2 * C[0, 1]), 0.0))
    held_back = "held_back" in decision.policy_state.get("safety", {})
    if held_back or decision.ucb is None or runner_up.ucb is None:
        return Comparison(difference, deviation, _probability(difference, deviation), None, None)
    gap = max(decision.ucb - runner_up.ucb, 0.0)
    reward = None if C is None or beta is None else needed_reward(C, gap=gap, beta=beta, noise=noise)
    reward = None if reward is None else runner_up.mean + reward
    return Comparison(difference, deviation, _probability(difference, deviation), runner_up.mean + gap, reward)


def needed_reward(C: FloatArray, *, gap: float, beta: float, noise: float) -> float | None:
    """Return by how much a reward of the runner-up must beat its mean to close a gap of scores; None if none can.

    Args:
        C: Covariance of f at what was chosen and at the runner-up, (2, 2).
        gap: By how much the score of what was chosen is larger.
        beta: Weight of a standard deviation in the scores.
        noise: Variance of the reward.

    Example:
        >>> import numpy as np
        >>> needed_reward(np.array([[0.1, 0.0], [0.0, 0.1]]), gap=0.2, beta=0.0, noise=0.1)
        0.4
    """
    a, b, both = float(C[0, 0]), float(C[1, 1]), float(C[0, 1])
    slope = (b - both) / (b + noise)
    if slope <= 1e-12:
        return None
    narrower_a = sqrt(max(a - both**2 / (b + noise), 0.0)) - sqrt(max(a, 0.0))
    narrower_b = sqrt(b * noise / (b + noise)) - sqrt(b)
    return (gap - beta * (narrower_b - narrower_a)) / slope


def _probability(difference: float, deviation: float | None) -> float | None:
    """That a normal variable of this mean and deviation is above zero."""
    if not deviation:
        return None
    return 0.5 * (1.0 + erf(difference / (deviation * sqrt(2.0))))


# --- An explanation in words: short sentences that make one paragraph, each from numbers that are also given as data

_LENDERS = 3  # how many are named
_SHARE = 0.005  # a share below half a per cent is not worth a word


def configuration_text(configuration: Mapping[str, Any] | None, arm: int) -> str:
    """Return a configuration in words.

    Example:
        >>> configuration_text({"tilt": 4, "scheduler": "pf"}, 3), configuration_text(None, 3)
        ('tilt=4, scheduler=pf', 'arm 3')
    """
    return f"arm {arm}" if configuration is None else in_words(configuration)


def configuration_of(decision: Decision, arm: int) -> Mapping[str, Any] | None:
    """Return the configuration of any arm that a decision could have chosen; None where arms have no names.

    Example:
        >>> scored = Alternatives([(1, 0.9, 0.1, 1.0)], [{"tilt": 2}, {"tilt": 4}])
        >>> configuration_of(Decision("d1", "a", 1, {"tilt": 4}, 0.9, 0.1, 1.0, scored), 0)
        {'tilt': 2}
    """
    scored = decision.alternatives
    return scored.configuration(arm) if isinstance(scored, Alternatives) else None


def choice_text(decision: Decision) -> str:
    """Say what was chosen and what was expected of it."""
    what = configuration_text(decision.configuration, decision.arm)
    if decision.mean is None or decision.std is None:
        return f"{decision.station} should run {what}; the policy predicts nothing."
    known = "1 reward" if decision.known == 1 else f"{decision.known:,} rewards"
    return (
        f"{decision.station} should run {what}: expected reward {decision.mean:.3f}, give or take "
        f"{decision.std:.3f} (one standard deviation), with {known} known so far."
    )


def kpis_text(decision: Decision, floors: Mapping[str, str]) -> str:
    """Say what was expected of KPIs that have a floor, given in words by KPI, and how many configurations keep it.

    Example:
        >>> note = {"open": 3, "kept": True, "arms": [1], "means": {"load": [0.5]}, "widths": {"load": [0.1]}}
        >>> decision = Decision("d1", "a", 1, None, 0.9, 0.1, 1.0, policy_state={"kpis": note})
        >>> kpis_text(decision, {"load": "at most 0.9"})
        'load, which must be at most 0.9, is expected to be 0.500, give or take 0.100. 3 configurations keep to that.'
    """
    note = decision.policy_state.get("kpis")
    if note is None:
        return ""
    said = [
        f"{name}, which must be {floors.get(name, 'within limits')}, is expected to be {means[0]:.3f}, give or take "
        f"{note['widths'][name][0]:.3f}."
        for name, means in note["means"].items()
    ]
    overruled = "held_back" in decision.policy_state.get("safety", {})
    match note.get("fallback"):
        case str() if overruled:
            end = "No configuration is sure to keep to that, and a rule of safety had the last word."
        case "running":
            end = "No configuration is sure to keep to that: the station keeps what it runs."
        case "closest":
            end = "No configuration is sure to keep to that: this one comes closest."
        case _:
            end = f"{note['open']:,} configuration{' keeps' if note['open'] == 1 else 's keep'} to that."
            end += "" if note["kept"] else " This one does not: a rule of safety had the last word."
    return " ".join([*said, end])


def rates_text(decision: Decision) -> str:
    """Say how rules with a rate have fared, and the quantiles that their bounds were made with.

    Example:
        >>> rate = {"quantile": 2.1, "rows": 120, "missed": 7, "trials": 30, "trials_missed": 2}
        >>> made = Decision("d1", "a", 1, None, 0.9, 0.1, 1.0, policy_state={"calibrated": {"rules": {"floor": rate}}})
        >>> print(rates_text(made))
        The floor took bounds of 2.10 standard deviations: 7 of 120 rewards had missed theirs, 2 of 30 in trials.
    """
    said = decision.policy_state.get("calibrated", {}).get("rules", {})
    names = {rule: f"floor of {rule.removeprefix(KPI)}" if rule.startswith(KPI) else rule for rule in said}
    return " ".join(
        f"The {names[rule]} took bounds of {one['quantile']:.2f} standard deviations: {one['missed']:,} of "
        f"{one['rows']:,} rewards had missed theirs, {one['trials_missed']:,} of {one['trials']:,} in trials."
        for rule, one in said.items()
        if rule != BUDGET  # which is widened and has no quantile of its own
    )


def against_text(runner_up: Alternative | None, found: Comparison | None) -> str:
    """Say how far the runner-up lay behind, and what would have put it first."""
    if runner_up is None:
        return "There was no alternative."
    if found is None or runner_up.ucb is None or runner_up.std is None:
        return ""
    what = configuration_text(runner_up.configuration, runner_up.arm)
    apart = None if found.needed_mean is None else told_apart(runner_up.mean or 0.0, found.needed_mean)
    expected = f"{runner_up.mean:.3f}" if apart is None else apart[0]
    text = f"Next came {what} (expected {expected}, give or take {runner_up.std:.3f})"
    if found.deviation is not None and found.probability is not None:
        text += (
            f", a difference of {found.difference:+.3f}, give or take {found.deviation:.3f}: the choice earns more "
            f"with probability {percent(found.probability)}"
        )
    if apart is None:
        return f"{text}."
    one_more = "" if found.needed_reward is None else f", or one more reward of {found.needed_reward:.3f} in this state"
    return f"{text}. To come first it would have needed an expected reward of {apart[1]}{one_more}."


def evidence_text(found: Evidence) -> str:
    """Say whose evidence the estimate rests on, and how much of it was borrowed.

    Example:
        >>> print(evidence_text(Evidence("a", {"a": 0.9, "b": 0.1}, 8, 40, 1.0, 0.2, 0.1, 6.0, 18.75)))
        90 % of the evidence is from its own 8 rewards and 10 % borrowed, most from b (10 %). What was borrowed is worth
        18.8 rewards of its own in this state: alone the standard deviation would be 0.200, not 0.100.
    """
    if not found.shares:
        return "No reward known so far says anything about this state: the estimate is the prior."
    own = f"its own {found.own_rows:,} reward{'' if found.own_rows == 1 else 's'}"
    lent = 1.0 - found.own_share
    if lent < _SHARE:
        return f"The evidence is {own}, worth {worth_text(found.own_worth)} in this very state; none is borrowed."
    named = [f"{name} ({percent(share)})" for name, share in found.lenders.items() if share >= _SHARE][:_LENDERS]
    most = f", most from {listed(named)}" if named else f" from {len(found.lenders):,} stations"
    start = f"{percent(found.own_share).capitalize()} of the evidence is from {own} and {percent(lent)} borrowed{most}."
    if not found.own_rows:
        start = f"It has no rewards of its own: all evidence is borrowed{most}."
    apart = told_apart(found.std_alone, found.std)
    alone = "" if apart is None else f": alone the standard deviation would be {apart[0]}, not {apart[1]}"
    return f"{start} What was borrowed is worth {worth_text(found.borrowed_worth)} of its own in this state{alone}."


def told_apart(one: float, other: float) -> tuple[str, str] | None:
    """Return two numbers with the decimals that tell them apart, at least three; None where four decimals do not.

    Example:
        >>> told_apart(0.2, 0.1), told_apart(0.00712, 0.00688), told_apart(0.00712, 0.00713)
        (('0.200', '0.100'), ('0.00712', '0.00688'), None)
    """
    if f"{one:.4f}" == f"{other:.4f}":
        return None
    decimals = max(3, 1 - floor(log10(abs(one - other))))
    return f"{one:.{decimals}f}", f"{other:.{decimals}f}"


def worth_text(worth: float) -> str:
    """Return a number of rewards.

    Example:
        >>> worth_text(3.42), worth_text(0.02)
        ('3.4 rewards', 'less than a tenth of one reward')
    """
    return f"{worth:,.1f} rewards" if worth >= 0.1 else "less than a tenth of one reward"


def approximate_text(decision: Decision, found: Evidence) -> str:
    """Say so where the controller's own std is another one, as a sparse posterior's may be."""
    stored = decision.std
    if stored is None or abs(stored - found.std) <= 0.02 * max(stored, found.std):
        return ""
    if "sharing" in decision.policy_state:
        return f"(An earlier version decided, with weights of sharing that are no longer used, and took {stored:.3f}.)"
    return f"(The evidence is weighed exactly; the controller itself, which approximates, took {stored:.3f}.)"


def outcome_text(reward: float | None, learned: float | None = None) -> str:
    """Say what came of it, and what was learned where neighbours' rewards are mixed in.

    Example:
        >>> outcome_text(0.9, 0.75)
        'It earned 0.900, and with its neighbours 0.750, which was learned.'
    """
    if reward is None:
        return ""
    if learned is None or learned == reward:
        return f"It earned {reward:.3f}."
    return f"It earned {reward:.3f}, and with its neighbours {learned:.3f}, which was learned."


def ran_text(decision: Decision, ran: int | None, *, told: bool) -> str:
    """Say what the station ran, where that is something else.

    Example:
        >>> scored = Alternatives([(1, 0.9, 0.1, 1.0)], [{"tilt": 2}, {"tilt": 4}])
        >>> ran_text(Decision("d1", "a", 1, {"tilt": 4}, 0.9, 0.1, 1.0, scored), 0, told=True)
        'The station ran tilt=2 instead; its reward was learned for that.'
    """
    if ran is None:
        return ""
    what = configuration_text(configuration_of(decision, ran), ran)
    return f"The station ran {what} instead; its reward {'was' if told else 'will be'} learned for that."


def percent(share: float) -> str:
    """Return a share in whole per cent; what is nearly all or nearly nothing does not become it.

    Example:
        >>> percent(0.634), percent(0.9999), percent(0.002)
        ('63 %', 'over 99 %', 'under 1 %')
    """
    if 0.0 < share < 0.005 or 0.995 < share < 1.0:
        return "under 1 %" if share < 0.5 else "over 99 %"
    return f"{100 * share:.0f} %"


# --- Why one configuration was chosen and no other: the best there was, a trial, or what a rule of safety left ------
#
# A score is what the policy maximised, less the cost of switching for all but what runs; that is how decisions keep it.

EXPLOITATION, TRIAL, HELD_BACK, UNSCORED = "exploitation", "trial", "held back", "unscored"
"""What a decision was."""


@dataclass(frozen=True)
class Ground:
    """Why a decision was made.

    Attributes:
        kind: One of the four above.
        text: One or two sentences.
    """

    kind: str
    text: str


def ground_of(decision: Decision, setup: Setup | None = None) -> Ground:
    """Return why a decision was made; without the setup, nothing is said of costs and of what was not allowed.

    Example:
        >>> others = (Alternative(1, {"tilt": 2}, 0.9, 0.1, 1.0), Alternative(0, {"tilt": 0}, 0.95, 0.01, 0.96))
        >>> ground = ground_of(Decision("d1", "a", 1, {"tilt": 2}, 0.9, 0.1, 1.0, others))
        >>> ground.kind, ground.text.split(":")[0]
        ('trial', 'It is a trial')
    """
    note = decision.policy_state.get("safety", {})
    if "held_back" in note:
        return Ground(HELD_BACK, held_back_text(decision))
    best = max((a for a in decision.alternatives if a.mean is not None), key=lambda a: a.mean or 0.0, default=None)
    if best is None or best.mean is None or decision.mean is None:
        return Ground(UNSCORED, "")
    cost = 0.0 if setup is None or setup.rules is None or setup.rules.cost is None else setup.rules.cost.cost
    kept_by = _rival_but_for(decision, cost) if decision.arm == note.get("running") else None
    if kept_by is not None:
        return Ground(HELD_BACK, _cost_text(decision, kept_by, cost))
    if decision.mean < best.mean:
        return Ground(TRIAL, _trial_text(decision.mean, best))
    return Ground(EXPLOITATION, _best_text(decision, setup))


def held_back_text(decision: Decision) -> str:
    """Say what a rule of safety would not let the station try."""
    note = decision.policy_state["safety"]
    arm = note["held_back"]
    held = configuration_of(decision, arm)
    why = "might earn too little beside what runs" if note["by"] == FLOOR else "is more than the budget bears"
    return f"A trial of {configuration_text(held, arm)} was held back: it {why}.{_instead_text(decision)}"


def _instead_text(decision: Decision) -> str:
    """Say what a station goes on with where its budget bears no trial."""
    note = decision.policy_state["safety"]
    if note["by"] != BUDGET:
        return ""
    if decision.arm != note["running"]:
        return " The station goes back to what was declared, which costs the budget nothing."
    sure = ", which surely earns no less than what was declared" if "x" in note else ", which is what was declared"
    return f" The station stays with what it runs{sure}."


def _rival_but_for(decision: Decision, cost: float) -> Alternative | None:
    """Return the alternative that would have won, had switching cost nothing; None where what runs would have."""
    others = [a for a in decision.alternatives if a.arm != decision.arm and a.ucb is not None]
    rival = max(others, key=lambda a: a.ucb or 0.0, default=None)
    if rival is None or rival.ucb is None or decision.ucb is None or rival.ucb + cost <= decision.ucb:
        return None
    return rival


def _cost_text(decision: Decision, rival: Alternative, cost: float) -> str:
    ahead = (rival.ucb or 0.0) + cost - (decision.ucb or 0.0)
    return (
        f"The station stays with what it runs: a change must score more than {cost:g} better, and the best of them, "
        f"{configuration_text(rival.configuration, rival.arm)}, scored {ahead:.3g} better."
    )


def _trial_text(mean: float, best: Alternative) -> str:
    return (
        f"It is a trial: another configuration ({configuration_text(best.configuration, best.arm)}) is expected to "
        f"earn {(best.mean or 0.0) - mean:.3f} more, but too little is known about this one to rule it out."
    )


def _best_text(decision: Decision, setup: Setup | None) -> str:
    """Say that nothing is expected to earn more, and among how many that was asked."""
    scored = len(decision.alternatives)
    if scored >= ALTERNATIVES:
        return f"None of the {ALTERNATIVES} configurations that scored best is expected to earn more."
    every = scored if setup is None or setup.features is not None else len(setup.encoder.space)
    if scored == every:
        return "No other configuration is expected to earn more."
    if scored == 1:
        return f"Of {every:,} configurations it is the only one that could be chosen."
    return f"None of the {scored:,} of {every:,} configurations that could be chosen is expected to earn more."


# --- Why a decision was made: one paragraph of words and the same as data -------------------------------------------
#
# Scores are those that were stored when asking. Whose evidence they rested on is worked out anew from the journal, by
# an exact posterior of the rows that were known *then*: what has been told since changes nothing about a decision of
# the past. That costs the cube of the rows that bear on it, a second for some 4,000, so that beyond `MOST_ROWS` it is
# left out, and said to be.

MOST_ROWS = 5000
"""Rows up to which evidence is weighed unless told otherwise; the matrix then takes 200 MB for two seconds."""


@dataclass(frozen=True)
class Explanation:
    """A reason in words, and the numbers it is made of; all of it as of the decision.

    Attributes:
        id: The decision.
        text: One paragraph.
        decision: The decision with its scored alternatives, as stored when asking.
        explores: Whether a configuration with a larger expected reward was passed over to learn; None if unscored.
        runner_up: The best-scored alternative that was not chosen.
        reward: What the decision earned, None while it is awaited.
        kind: "exploitation", "trial", "held back" (a rule of safety stepped in) or "unscored".
        against: The choice against the runner-up; None where there are no scores.
        evidence: Whose rewards the estimate rests on, and how much was borrowed; None where it was left out.
        left_out: What was left out of the evidence, or why all of it was; else empty.
        ran: Arm of what the station ran instead; None where nobody said that it ran something else.

    Example:
        >>> from kinband import ConfigurationSpace, Controller
        >>> controller = Controller(ConfigurationSpace(tilt=[2, 4]), stations=["a"], seed=1)
        >>> print(controller.explain(controller.ask("a").id).text)
        a should run tilt=...: expected reward 0.000, give or take 1.000 ...
    """

    id: str
    text: str
    decision: Decision
    explores: bool | None
    runner_up: Alternative | None
    reward: float | None
    kind: str = "unscored"
    against: Comparison | None = None
    evidence: Evidence | None = None
    left_out: str = ""
    ran: int | None = None

    def __str__(self) -> str:
        return self.text

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        decision = self.decision
        considered = [
            _plain(alternative, chosen=alternative.arm == decision.arm) for alternative in decision.alternatives
        ]
        return {
            "id": self.id,
            "station": decision.station,
            "text": self.text,
            "kind": self.kind,
            "arm": decision.arm,
            "configuration": None if decision.configuration is None else dict(decision.configuration),
            "mean": decision.mean,
            "std": decision.std,
            "known": decision.known,
            "reward": self.reward,
            "ran": None if self.ran is None else {"arm": self.ran, "configuration": _named(decision, self.ran)},
            "considered": considered,
            "runner_up": None if self.runner_up is None else _plain(self.runner_up, chosen=False),
            "against": None if self.against is None else self.against.to_dict(),
            "evidence": None if self.evidence is None else self.evidence.to_dict(),
            "left_out": self.left_out,
            "safety": dict(decision.policy_state.get("safety", {})),
            "kpis": dict(decision.policy_state.get("kpis", {})),
            **({"calibrated": dict(rates)} if (rates := decision.policy_state.get("calibrated")) else {}),
        }


def explain(
    asked: Asked,
    *,
    reward: float | None,
    setup: Setup | None = None,
    journal: Journal | None = None,
    most_rows: int = MOST_ROWS,
    known: KnownRows | None = None,
    ran: int | None = None,
) -> Explanation:
    """Return the explanation of a recorded decision.

    Args:
        asked: The decision with its context.
        reward: What it earned, if that is known.
        setup: Of the controller that made it; without them, nothing is said of evidence.
        journal: Likewise; the rows known then come from it.
        most_rows: Up to how many rows evidence is weighed; beyond, it is left out.
        known: The rows at hand: with these, the `most_rows` closest are weighed where there are more.
        ran: Arm of what the station ran, where the journal does not say.
    """
    if isinstance(most_rows, bool) or not isinstance(most_rows, int | np.integer) or most_rows < 0:
        raise BadInputError(f"most_rows must be a whole number of rows from 0 on, got {most_rows!r:.60}")
    decision = asked.decision
    runner_up = next((a for a in decision.alternatives if a.arm != decision.arm), None)
    ground = ground_of(decision, setup)
    explores = None if decision.mean is None else ground.kind == TRIAL
    evidence, C, left_out = _evidence_and_covariance(
        asked, runner_up, setup=setup, journal=journal, most_rows=most_rows, known=known
    )
    against = _compared(decision, runner_up, C=C, setup=setup)
    learned = None if journal is None else journal.told.get(decision.id)
    ran = _instead(decision, journal) if ran in (None, decision.arm) else ran
    sentences = [
        choice_text(decision),
        ground.text,
        kpis_text(decision, {} if setup is None else {kpi.name: kpi.floor.text() for kpi in setup.kpis}),
        rates_text(decision),
        against_text(runner_up, against),
        "" if evidence is None else evidence_text(evidence),
        left_out or ("" if evidence is None else approximate_text(decision, evidence)),
        _sharing(evidence, setup),
        ran_text(decision, ran, told=reward is not None),
        outcome_text(reward, None if learned is None else learned.reward),
    ]
    text = " ".join(sentence for sentence in sentences if sentence)
    kind = ground.kind
    return Explanation(decision.id, text, decision, explores, runner_up, reward, kind, against, evidence, left_out, ran)


def _sharing(evidence: Evidence | None, setup: Setup | None) -> str:
    """Say how much stations share, where a model says so and there is somebody to share with."""
    if evidence is None or setup is None or not evidence.other_rows:
        return ""
    if setup.config.policy not in ("ucb", "thompson"):
        return ""
    return sharing_text(setup.notes.get("details", {}))


def _instead(decision: Decision, journal: Journal | None) -> int | None:
    """The arm that a station ran in the place of what was decided, None where nobody said so."""
    if journal is None or decision.id not in journal.asked:
        return None
    ran = journal.ran(decision.id)
    return None if ran == decision.arm else ran


def _evidence_and_covariance(
    asked: Asked,
    runner_up: Alternative | None,
    *,
    setup: Setup | None,
    journal: Journal | None,
    most_rows: int,
    known: KnownRows | None,
) -> tuple[Evidence | None, FloatArray | None, str]:
    """Return the evidence, the covariance with the runner-up, and what was left out of them."""
    if setup is None or journal is None or asked.decision.mean is None:
        return None, None, ""
    K_Z = task_matrix_of(setup)
    if K_Z is None:
        return None, None, "Whose evidence it rests on is not known for this policy."
    if known is not None:
        return _from_the_closest(asked, runner_up, known, setup=setup, journal=journal, K_Z=K_Z, most=most_rows)
    count = _bearing(asked, setup, journal, K_Z)
    if count > most_rows:
        return None, None, _too_many(count, most_rows)
    rows = told_rows_of(setup, journal, known=asked.decision.known)
    return _weighed(asked, runner_up, rows, setup=setup, K_Z=K_Z)


def _from_the_closest(
    asked: Asked,
    runner_up: Alternative | None,
    known: KnownRows,
    *,
    setup: Setup,
    journal: Journal,
    K_Z: TaskCovariance,
    most: int,
) -> tuple[Evidence | None, FloatArray | None, str]:
    """Return the same from so many rows at most, the closest of those that bear on a decision."""
    rows = known.of(setup, journal, known=asked.decision.known)
    part = np.flatnonzero(np.isin(rows.tasks, related(K_Z, asked.task)))
    if not most or len(part) <= most:
        left_out = "" if len(part) <= most else _too_many(len(part), most)
        return (None, None, left_out) if left_out else _weighed(asked, runner_up, rows, setup=setup, K_Z=K_Z)
    bearing = Rows(rows.tasks[part], rows.X[part], rows.y[part], rows.noise[part])
    closest = closest_rows(bearing, asked.task, asked.x, most=most, setup=setup, K_Z=K_Z)
    evidence, C, left_out = _weighed(asked, runner_up, closest, setup=setup, K_Z=K_Z)
    if evidence is not None:
        own = int(np.count_nonzero(bearing.tasks == asked.task))
        evidence = replace(evidence, own_rows=own, other_rows=len(part) - own)
        left_out = f"(Weighed from the {most:,} rewards that are closest to it, of {len(part):,}.)"
    return evidence, C, left_out


def _weighed(
    asked: Asked, runner_up: Alternative | None, rows: Rows, *, setup: Setup, K_Z: TaskCovariance
) -> tuple[Evidence | None, FloatArray | None, str]:
    """Return the evidence that rows are, and the covariance with the runner-up."""
    X = _contexts(asked, runner_up, setup)
    try:
        evidence, C = evidence_of(rows, asked.task, X=X, setup=setup, K_Z=K_Z)
    except NotPositiveDefiniteError:
        return None, None, "Whose evidence it rests on cannot be worked out: rewards repeat with too little noise."
    return evidence, C if len(X) > 1 else None, ""


def _too_many(count: int, most_rows: int) -> str:
    return (
        f"Whose evidence it rests on is left out: {count:,} rewards bear on it, and weighing more than {most_rows:,} "
        "takes long (most_rows allows it)."
    )


def _bearing(asked: Asked, setup: Setup, journal: Journal, K_Z: TaskCovariance) -> int:
    """How many of the rewards known to a decision are of stations that share with its own."""
    start = np.empty(0) if setup.start is None else setup.start.tasks
    told = journal.rows.part(0, max(asked.decision.known - len(start), 0)).task
    kin = related(K_Z, asked.task)
    return int(np.isin(start, kin).sum() + np.isin(told, kin).sum())


def _contexts(asked: Asked, runner_up: Alternative | None, setup: Setup) -> FloatArray:
    """The context that was chosen and, where states tell it, that of the runner-up, (1 or 2, d)."""
    if runner_up is None or setup.features is not None:
        return asked.x[None]
    return np.stack([asked.x, setup.encoder.contexts(asked.state or {})[runner_up.arm]])


def _compared(
    decision: Decision, runner_up: Alternative | None, *, C: FloatArray | None, setup: Setup | None
) -> Comparison | None:
    if setup is None:
        return compare(decision, runner_up, C=None, beta=None, noise=1.0)
    beta = None
    # In an aware round, standard deviations are those that others' picks leave.
    aware = decision.round is not None and setup.config.options.get("rounds") == "aware"
    if setup.config.policy == "ucb" and setup.features is None and not aware:
        arms = len(setup.encoder.space)
        beta = setup.exploration.beta(known=decision.known, arms=arms, noise=setup.noise)
    found = compare(decision, runner_up, C=C, beta=beta, noise=setup.noise)
    if found is not None and setup.config.policy == "thompson":  # a draw decided, which means nothing a second time
        return replace(found, needed_mean=None)
    return _in_range(found, setup)


def _in_range(found: Comparison | None, setup: Setup) -> Comparison | None:
    """Return a comparison without a reward that cannot come."""
    span = setup.config.reward_range
    if found is None or found.needed_reward is None or span is None or found.needed_reward <= span[1]:
        return found
    return replace(found, needed_reward=None)


def _named(decision: Decision, arm: int) -> dict[str, Any] | None:
    named = configuration_of(decision, arm)
    return None if named is None else dict(named)


def _plain(alternative: Alternative, *, chosen: bool) -> dict[str, Any]:
    return {
        "arm": alternative.arm,
        "configuration": None if alternative.configuration is None else dict(alternative.configuration),
        "mean": alternative.mean,
        "std": alternative.std,
        "score": alternative.ucb,
        "chosen": chosen,
    }
