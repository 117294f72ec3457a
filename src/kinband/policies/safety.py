"""The list of constraints of a controller, and a policy that asks them before it changes anything.

An operator gives rules by `Controller(safety=[Conservative(...), Floor(...), SwitchingCost(...)])` and floors of other
KPIs by `kpis=[KpiFloor(...)]`. In which order they judge: `constraints`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, isinf
from typing import Any

import numpy as np

from kinband.arrays import FloatArray
from kinband.errors import BadInputError, CannotCorrectError
from kinband.policies.base import KeepsState, Policy, PolicyFactory, PolicySpec, choose_round, correct, learn_log
from kinband.policies.budget import Budget, Conservative, RewardBudget, Work
from kinband.policies.calibration import NOTE as CALIBRATED
from kinband.policies.calibration import Calibration
from kinband.policies.constraints import BUDGET, FLOOR, NOTE, Constraint, Draft, Floor, SwitchingCost
from kinband.policies.exploration import exploration_from_dict, exploration_to_dict
from kinband.policies.kpi_floors import CONSIDERED, KPI, Kpi, KpiFloors
from kinband.policies.ucb import UCB
from kinband.posterior import Posterior, Prediction
from kinband.records import Choice, Observation, PolicyState, Query

__all__ = [
    "Conservative",
    "Constrained",
    "Floor",
    "Rule",
    "Safety",
    "SafetyLike",
    "SwitchingCost",
    "constrained",
    "safety_from",
    "safety_from_dict",
    "safety_to_dict",
]

# --- The rules that a controller is given, and their JSON -----------------------------------------------------------

Rule = Conservative | Floor | SwitchingCost


@dataclass(frozen=True)
class Safety:
    """The rules of a controller, at most one of each kind."""

    conservative: Conservative | None = None
    floor: Floor | None = None
    cost: SwitchingCost | None = None


SafetyLike = Rule | Sequence[Rule] | Safety | None


def safety_from(given: SafetyLike) -> Safety | None:
    """Return the rules that one rule, several or none stand for."""
    if given is None or isinstance(given, Safety):
        return given
    rules: list[Any] = list(given) if isinstance(given, list | tuple) else [given]
    found: dict[str, Any] = {}
    for rule in rules:
        if not isinstance(rule, Rule):
            raise BadInputError(
                f"safety takes Conservative(...), Floor(...), SwitchingCost(...) or a list of them, got {rule!r:.60}"
            )
        name = _NAMES[type(rule)]
        if name in found:
            raise BadInputError(f"safety holds {type(rule).__name__} twice: give each rule once")
        found[name] = rule
    return Safety(**found) if found else None


_NAMES: dict[type, str] = {Conservative: "conservative", Floor: "floor", SwitchingCost: "cost"}


def safety_to_dict(safety: Safety) -> dict[str, Any]:
    """Return rules as JSON-able values."""
    return {name: _rule_to_dict(getattr(safety, name)) for name in _NAMES.values()}


def safety_from_dict(values: Mapping[str, Any]) -> Safety:
    """Return the rules that `safety_to_dict` wrote."""
    rules: dict[str, Any] = {name: _rule_from_dict(kind, values[name]) for kind, name in _NAMES.items()}
    return Safety(**rules)


def _rule_to_dict(rule: Rule | None) -> dict[str, Any] | None:
    if rule is None:
        return None
    values = dict(vars(rule))
    if values.get("of") == "expected":
        del values["of"]  # what was promised before rewards could be
    if "delta" in values and values["delta"] is None:
        del values["delta"]  # what is not calibrated, as nothing was at first
    if "bounds" in values and values["bounds"] is not None:
        values["bounds"] = exploration_to_dict(values["bounds"])
    # JSON has no infinity.
    return {name: None if isinstance(v, float) and isinf(v) else v for name, v in values.items()}


def _rule_from_dict(kind: type, values: Mapping[str, Any] | None) -> Rule | None:
    if values is None:
        return None
    given = dict(values)
    if given.get("bounds") is not None:
        given["bounds"] = exploration_from_dict(given["bounds"])
    if kind is Conservative:
        given.setdefault("of", "expected")
    if kind is Floor and given["drop"] is None:
        given["drop"] = inf
    rule: Rule = kind(**given)
    return rule


# --- A policy under constraints -------------------------------------------------------------------------------------


class Constrained:
    """Plays what a policy wants as far as its constraints let it.

    Args:
        inner: The policy that scores.
        constraints: What decisions have to keep, in the order in which they judge.
    """

    def __init__(self, inner: Policy, constraints: Sequence[Constraint]) -> None:
        self.inner, self.constraints = inner, tuple(constraints)

    @property
    def budget(self) -> Budget | None:
        """The budget that trials are paid from, if one is kept."""
        return next((one for one in self.constraints if isinstance(one, Budget)), None)

    def choose(self, query: Query, rng: np.random.Generator) -> Choice:
        """Return what the policy inside wants if the constraints let it, else what they put in its place."""
        [query] = self._narrowed([query])
        if isinstance(self.inner, UCB) and type(self.inner).choose is UCB.choose:
            plain, seen = self.inner.consider(query, rng)
            return self._judged([query], [plain], [rng], seen=seen)[0]
        return self._judged([query], [self.inner.choose(query, rng)], [rng])[0]

    def choose_round(self, queries: Sequence[Query], rngs: Sequence[np.random.Generator]) -> list[Choice]:
        """Decide many stations from the same beliefs and one budget, in the order given."""
        queries = self._narrowed(queries)
        return self._judged(queries, choose_round(self.inner, queries, rngs), rngs) if queries else []

    def learn(self, observation: Observation) -> None:
        """Learn one reward, and let the constraints take it in with what is known now."""
        o = observation
        self.inner.learn(replace(o, cache=o.cache.played) if isinstance(o.cache, Work) else o)
        for constraint in self.constraints:
            constraint.learn([o])

    def learn_log(self, observations: Sequence[Observation]) -> None:
        """Learn many rewards that no decision of ours led to."""
        learn_log(self.inner, observations)
        for constraint in self.constraints:
            constraint.learn(observations)

    def correct(self, index: int, reward: float) -> None:
        """Replace the reward of the index-th observation learned."""
        for constraint in self.constraints:
            constraint.correct_reward()
        correct(self.inner, index, reward)

    def correct_kpis(self, index: int, kpis: Mapping[str, tuple[float, float | None]]) -> None:
        """Replace KPIs of the index-th observation learned."""
        for constraint in self.constraints:
            constraint.correct_kpis(index, kpis)

    def extend_like(self, pattern: "Constrained") -> None:
        """Take in the tasks that a policy of the same factory, with nothing learned, was built for."""
        inner: Any = self.inner
        if not hasattr(inner, "extend_like"):
            raise CannotCorrectError("the policy under constraints cannot take in tasks in place: learn the log again")
        for constraint, empty in zip(self.constraints, pattern.constraints, strict=True):
            constraint.check_like(empty)
        inner.extend_like(pattern.inner)
        for constraint, empty in zip(self.constraints, pattern.constraints, strict=True):
            constraint.extend_like(empty)

    def _narrowed(self, queries: Sequence[Query]) -> Sequence[Query]:
        for constraint in self.constraints:
            queries = constraint.narrow(queries)
        return queries

    def _judged(
        self,
        queries: Sequence[Query],
        plain: Sequence[Choice],
        rngs: Sequence[np.random.Generator],
        *,
        seen: Prediction | None = None,
    ) -> list[Choice]:
        """Let the constraints judge what the policy wants, one after the other."""
        drafts = [
            Draft(query, choice, _score(choice), choice.arm, self.inner, rng, ahead=i, prediction=seen)
            for i, (query, choice, rng) in enumerate(zip(queries, plain, rngs, strict=True))
        ]
        for constraint in self.constraints:
            drafts = constraint.judge(drafts)
        return [
            replace(
                draft.plain, arm=draft.arm, score=None if draft.plain.score is None else draft.score,
                policy_state=self._policy_state(draft),
                cache=cache if draft.replaced is None else Work(cache, draft.replaced),
            )
            for draft, cache in zip(drafts, self._caches(drafts), strict=True)
        ]  # fmt: skip

    def _policy_state(self, draft: Draft) -> PolicyState:
        noted = {NOTE: draft.note} if draft.note else {}
        for constraint in self.constraints:
            noted |= constraint.policy_state(draft)
        return {**draft.plain.policy_state, **noted, **_calibrated(draft)}

    def _caches(self, drafts: Sequence[Draft]) -> list[Any]:
        """Return the work kept for updates; it is done anew where another arm is played and scores left none behind."""
        caches = [d.plain.cache if d.arm == d.plain.arm else d.column(d.arm) for d in drafts]
        changed = [i for i, d in enumerate(drafts) if d.arm != d.plain.arm and d.prediction is None]
        if changed and isinstance(self.inner, UCB):
            X = np.array([drafts[i].query.X[drafts[i].arm] for i in changed])
            found = self.inner.posterior.predict([drafts[i].query.task for i in changed], X)
            for position, i in enumerate(changed):
                caches[i] = found.column(position)
        return caches


class StoredConstrained(Constrained):
    """The same around a policy whose beliefs can be stored."""

    def state(self) -> dict[str, Any]:
        """Return the beliefs as arrays by name."""
        inner: Any = self.inner
        return {**inner.state(), **{name: a for one in self.constraints for name, a in one.state().items()}}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take up what `state` returned."""
        inner: Any = self.inner
        inner.restore({name: array for name, array in state.items() if not name.startswith("kpi")})
        for constraint in self.constraints:
            constraint.restore(state)


def _calibrated(draft: Draft) -> PolicyState:
    """How rules with a rate stand; and what was predicted of what runs, where a decision may not keep it."""
    deployed, plain = draft.query.deployed, draft.plain
    if deployed is None or not deployed.calibrated:
        return {}
    note: dict[str, Any] = {"running": deployed.running}
    here = np.flatnonzero(plain.arms == deployed.running)
    if len(plain.arms) > CONSIDERED and len(here) and plain.mean is not None and plain.std is not None:
        note["predicted"] = [float(plain.mean[here[0]]), float(plain.std[here[0]])]
    return {CALIBRATED: note | {"rules": {name: one.to_dict() for name, one in deployed.calibrated.items()}}}


def _score(choice: Choice) -> FloatArray:
    return np.zeros(len(choice.arms)) if choice.score is None else choice.score


def constrained(factory: PolicyFactory, *, safety: Safety | None = None, kpis: Sequence[Kpi] = ()) -> PolicyFactory:
    """Return a factory of the same policy under rules of safety and floors of KPIs, if there are any."""
    if safety is None and not kpis:
        return factory

    def build(spec: PolicySpec) -> Policy:
        inner = factory(spec)
        constraints = _constraints(inner, spec, safety, kpis)
        kind = StoredConstrained if isinstance(inner, KeepsState) else Constrained
        return kind(inner, constraints)

    return build


def _constraints(inner: Policy, spec: PolicySpec, safety: Safety | None, kpis: Sequence[Kpi]) -> list[Constraint]:
    """Return the constraints of a policy in the order in which they judge."""
    floors = [KpiFloors(kpis, spec, alone=safety is None)] if kpis else []
    if safety is None:
        return [*floors]
    if not isinstance(inner, UCB):
        raise BadInputError(
            "safe trials need a policy with a posterior, 'ucb', 'thompson', 'kernel-ucb', 'cgp-ucb' or 'pooled', "
            f"not {type(inner).__name__}"
        )
    rule, budget = safety.conservative, list[Constraint]()
    if rule is not None:
        kind = RewardBudget if rule.of == "rewards" else Budget
        budget = [kind(rule, inner.posterior, tasks=len(spec.K_Z), noise=inner.noise)]
    return [one for one in (safety.cost, *floors, safety.floor, *budget) if one is not None]


def calibrations(safety: Safety | None, kpis: Sequence[Kpi]) -> dict[str, Calibration]:
    """Return what the rates of rules and of floors of KPIs start from, by "floor", "budget" and "kpi: <name>"."""
    found = {f"{KPI}{kpi.name}": Calibration(kpi.floor.delta) for kpi in kpis if kpi.floor.delta is not None}
    if safety is not None and safety.floor is not None and safety.floor.delta is not None:
        found[FLOOR] = Calibration(safety.floor.delta)
    if safety is not None and safety.conservative is not None and safety.conservative.delta is not None:
        found[BUDGET] = Calibration(safety.conservative.delta, sides=2)
    return found


def posterior_of(policy: Policy) -> Posterior | None:
    """Return what a policy believes, below its constraints: its attribute `posterior`; None where it has none."""
    inner = policy.inner if isinstance(policy, Constrained) else policy
    found = getattr(inner, "posterior", None)
    return found if isinstance(found, Posterior) else None
