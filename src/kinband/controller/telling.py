"""From a reward to what is learned."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from kinband.arrays import FloatArray, positive_number
from kinband.controller.events import NO_KPIS, Asked, Corrected, Ran, Told
from kinband.controller.journal import Journal
from kinband.controller.memory import LastTold
from kinband.controller.setup import Setup, told_number
from kinband.controller.stations import arm_of
from kinband.errors import BadInputError, ConflictError
from kinband.kpis import NeighbourReward
from kinband.policies.base import Policy
from kinband.policies.safety import Constrained
from kinband.trace.rewards import Measured

# --- What ran in the place of a decision: a guard rail replaced it, a person rejected it, or it was only a
# recommendation
#
# Told as if nothing had happened, the reward of one configuration would be learned as that of another. So it is said
# what ran, before the reward is told, and the reward is learned for that, in the state that was asked with. What the
# policy kept of the decision, for an exact and quick update, belongs to what was decided and is not used; the row is
# learned like one of a log.
#
# Stored predictions are used where they were kept, of the best-scored configurations: drift and audits judge a reward
# by what was predicted of what ran, and leave it out where nothing was.


def ran_instead(
    journal: Journal, setup: Setup, policy: Policy, *, decision_id: str, configuration: Mapping[str, Any]
) -> Ran | None:
    """Return the entry that says what a station ran; None where nothing else is on record.

    Args:
        journal: What was decided and told.
        setup: To find the configuration and its context by.
        policy: To bound what it may cost, where a budget is kept; read only.
        decision_id: The decision.
        configuration: What ran.

    Example:
        >>> from kinband import ConfigurationSpace, Controller
        >>> controller = Controller(ConfigurationSpace(tilt=[2, 4]), ["a"], state=["load"])
        >>> decision = controller.ask("a", {"load": 0.3}, allowed=[0])
        >>> made = controller.journal, controller.setup, controller.policy
        >>> entry = ran_instead(*made, decision_id=decision.id, configuration={"tilt": 4})
        >>> entry.arm, entry.x
        (1, array([0.3, 1. ]))
        >>> ran_instead(*made, decision_id=decision.id, configuration={"tilt": 2}) is None
        True
    """
    asked = journal.find(decision_id)
    if decision_id in journal.told:
        raise ConflictError(
            f"decision {decision_id} was already told the reward {journal.reward(decision_id):g}",
            hint="call ran() before telling",
            code="ran_after_told",
            argument="decision",
            value=decision_id,
        )
    space, decision = setup.encoder.space, asked.decision
    arm = arm_of(configuration, space, station=decision.station, said="ran")
    if setup.features is not None and (decision.configuration is None or arm != decision.arm):
        raise BadInputError(
            f"decision {decision_id} was asked with context rows, and only the chosen one is on record: what another "
            "configuration earned cannot be learned, call it off"
        )
    if arm == journal.ran(decision_id):
        return None
    if arm == decision.arm:
        return Ran(decision_id, arm, asked.x)
    x = setup.encoder.contexts(asked.state or {})[arm].copy()
    return Ran(decision_id, arm, x, _lower(policy, asked, x))


def _lower(policy: Policy, asked: Asked, x: FloatArray) -> float | None:
    """What the decision counts with in a budget until its reward is told, with context x (d,) in its place."""
    budget = policy.budget if isinstance(policy, Constrained) else None
    if budget is None:
        return None
    return budget.replaced_lower(asked.decision.policy_state, task=asked.task, x=asked.x, ran=x)


# --- From what a caller tells to what is learned: KPIs become a reward, and neighbours' rewards part of it ----------
#
# What a station earned is noted as told; where neighbours count (`kinband.kpis`), so is what was learned of
# it, and beside whose rewards. A replay learns what was noted and mixes nothing anew; a correction of one reward puts
# right what was learned of every decision that it was mixed into.
#
# Whose reward belongs to a decision: of each neighbour, that of the same round, told in the same call or before it; for
# decisions made alone, that of the same call; and before either, what the caller says that it earned in this slot
# (`others`), which serves cells that decide nothing. `tell_all` takes no further ones, and a station none of whose
# neighbours' came learns its own reward. `tell` brings one reward at a time, so that those of the round may be still to
# come: in their place it takes the last that a neighbour was told, which says nothing of this slot but keeps the reward
# on its level.

KpiValues = Mapping[str, float | tuple[float, float]]
"""KPIs by name: values, or values with their variance."""


def told_entry(
    journal: Journal, setup: Setup, decision_id: str, *, reward: Any, noise: Any, kpis: KpiValues | None
) -> Told:
    """Return what was told of a decision, checked; the reward is made of KPIs where the setup says so."""
    journal.find_untold(decision_id)
    measured = checked_kpis(kpis, setup)
    variance = None if noise is None else positive_number(noise, name="noise")
    value, known = _reward_of(setup, reward, measured)
    return Told(decision_id, setup.check_reward(value), known if variance is None else variance, measured or NO_KPIS)


def told_together(
    journal: Journal,
    setup: Setup,
    *,
    rewards: Mapping[str, float] | None,
    noise: Mapping[str, float] | None,
    kpis: Mapping[str, KpiValues] | None,
) -> list[Told]:
    """Return what was told of many decisions, checked, in the order given."""
    for name, given in (("rewards", rewards), ("noise", noise), ("kpis", kpis)):
        if given is not None and not isinstance(given, Mapping):
            raise BadInputError(f"{name} must be given by decision, as a mapping, got {type(given).__name__}")
    rewards, noise, kpis = rewards or {}, noise or {}, kpis or {}
    ids = list(dict.fromkeys([*rewards, *kpis]))
    if not ids:
        raise BadInputError("nothing was told", hint="give rewards by decision, or kpis", argument="rewards")
    if unknown := [key for key in noise if key not in ids]:
        raise BadInputError(f"noise names decision {unknown[0]!r}, which is not told a reward")
    return [
        told_entry(journal, setup, key, reward=rewards.get(key), noise=noise.get(key), kpis=kpis.get(key))
        for key in ids
    ]


def checked_others(others: KpiValues | None, setup: Setup) -> dict[str, Measured]:
    """Return what neighbours earned that no decision led to, or say who is nobody's neighbour."""
    rule = setup.config.neighbours
    if others is None:
        return {}
    if not isinstance(others, Mapping):
        raise BadInputError(f"others must map neighbours to rewards, got {type(others).__name__}")
    known = set() if rule is None else {name for station in rule.neighbours for name in rule.of(station)}
    if unknown := [name for name in others if name not in known]:
        raise BadInputError(
            f"others names {unknown[0]!r}, which is nobody's neighbour",
            hint="declare it in neighbours=",
            code="no_neighbour",
            argument="others",
        )
    found = {name: _measured(name, value, what="the reward of") for name, value in others.items()}
    return {name: (setup.check_reward(value), noise) for name, (value, noise) in found.items()}


def with_neighbours(
    told: Sequence[Told],
    journal: Journal,
    rule: NeighbourReward | None,
    last: LastTold,
    *,
    others: Mapping[str, Measured],
    alone: bool,
    gone: frozenset[str] = frozenset(),
) -> list[Told]:
    """Return rewards told together with their neighbours' mixed in.

    Args:
        told: What came in one call.
        journal: What was decided and told before.
        rule: Whose rewards count, if any do.
        last: What was told last.
        others: Neighbours' rewards of this slot that no decision led to.
        alone: Whether rewards are told one by one, so that the last known stand in for those to come.
        gone: Stations that have left, whose last rewards stand in for nothing.
    """
    if rule is None:
        return list(told)
    decided = {one.id: journal.asked[one.id].decision for one in told}
    together = {(decided[one.id].round, decided[one.id].station): one for one in told}
    found = []
    for one in told:
        number, station = decided[one.id].round, decided[one.id].station
        mates: dict[str, Told] = {}
        given = {name: others[name] for name in rule.of(station) if name in others}
        for name in rule.of(station):
            if name in given:
                continue
            stands_in = alone and name not in gone
            mate = together.get((number, name)) or _earlier(journal, last, number, name, alone=stands_in)
            if mate is not None:
                mates[name] = mate
        found.append(_mixed(one, station, mates, given, rule))
    return found


def correction(journal: Journal, setup: Setup, decision_id: str, *, reward: Any, kpis: KpiValues | None) -> Corrected:
    """Return the entry that puts a decision's reward or KPIs right, and all that was learned from them."""
    told = journal.find_told(decision_id)
    measured = checked_kpis(kpis, setup)
    if reward is None and not measured:
        raise BadInputError("a correction needs a reward, or kpis")
    right = {**told.kpis, **measured}
    own = own_of(told)[0]
    if reward is not None and setup.config.reward is not None:
        raise BadInputError(
            f"the reward of this controller is {setup.config.reward}: correct kpis alone, and no reward"
        )
    if reward is not None:
        own = setup.check_reward(reward)
    elif setup.config.reward is not None and any(name in setup.config.reward.weights for name in measured):
        own = setup.check_reward(setup.config.reward.of(right)[0])
    rule = setup.config.neighbours
    if rule is None:
        return Corrected(told.id, own, kpis=measured)
    values = {told.id: own}
    others = {
        one.id: _learned(one, journal, rule, values) for one in journal.told.values() if told.id in one.neighbours
    }
    learned = _learned(told, journal, rule, values)
    return Corrected(told.id, learned, None if told.own is None else own, others, measured)


def own_of(told: Told) -> Measured:
    """Return what a decision itself earned, and the variance of that.

    Example:
        >>> own_of(Told("d1", 0.7, None, own=(0.9, 0.01))), own_of(Told("d1", 0.7, None))
        ((0.9, 0.01), (0.7, None))
    """
    return (told.reward, told.noise) if told.own is None else told.own


def checked_kpis(kpis: KpiValues | None, setup: Setup) -> dict[str, Measured]:
    """Return KPIs with what is known of their variance, or say which is not known here or is no number."""
    if kpis is None:
        return {}
    if not isinstance(kpis, Mapping):
        raise BadInputError(f"kpis must map names to values, got {type(kpis).__name__}")
    known = dict.fromkeys([kpi.name for kpi in setup.kpis])
    known |= dict.fromkeys([] if setup.config.reward is None else setup.config.reward.weights)
    for name in kpis:
        if name not in known:
            listed = ", ".join(map(repr, known)) or "none: declare reward= or kpis= when making it"
            raise BadInputError(f"KPI {name!r} is not known to this controller, which has {listed}")
    return {name: _measured(name, value) for name, value in kpis.items()}


def _measured(name: str, value: object, *, what: str = "KPI") -> Measured:
    if not isinstance(value, tuple | list):
        return told_number(value, name=f"{what} {name!r}"), None
    if len(value) != 2:
        raise BadInputError(f"{what} {name!r} is a value, or a value with its variance, got {value!r:.60}")
    noise = None if value[1] is None else positive_number(value[1], name=f"the variance of {what} {name!r}")
    return told_number(value[0], name=f"{what} {name!r}"), noise


def _reward_of(setup: Setup, reward: Any, measured: Mapping[str, Measured]) -> Measured:
    if setup.config.reward is None:
        if reward is None:
            hint = "give it, or declare reward= to have it made of kpis"
            raise BadInputError("a reward must be told", hint=hint, code="reward_missing", argument="reward")
        return reward, None
    if reward is not None:
        raise BadInputError(f"the reward of this controller is {setup.config.reward}: tell kpis alone, and no reward")
    return setup.config.reward.of(measured)


def _earlier(journal: Journal, last: LastTold, number: int | None, name: str, *, alone: bool) -> Told | None:
    """The reward of a neighbour that was told before."""
    key = None if number is None else last.in_round.get((number, name))
    if key is None and alone:
        key = last.latest.get(name)
    return None if key is None else journal.told[key]


def _mixed(
    told: Told, station: str, mates: Mapping[str, Told], given: Mapping[str, Measured], rule: NeighbourReward
) -> Told:
    if not (mates or given) or not rule.weight_of(station):
        return told
    own, neighbours = own_of(told), tuple(mate.id for mate in mates.values())
    reward, noise = rule.mixed(station, own, {name: own_of(mate) for name, mate in mates.items()} | dict(given))
    return replace(told, reward=reward, noise=noise, own=own, neighbours=neighbours, others=dict(given))


def _learned(told: Told, journal: Journal, rule: NeighbourReward, values: Mapping[str, float]) -> float:
    """What is learned of a decision with some own rewards put right."""

    def right(key: str) -> Measured:
        own = own_of(told if key == told.id else journal.told[key])
        return values.get(key, own[0]), own[1]

    if told.own is None:
        return right(told.id)[0]
    others = {journal.asked[key].decision.station: right(key) for key in told.neighbours} | dict(told.others)
    return rule.mixed(journal.asked[told.id].decision.station, right(told.id), others)[0]
