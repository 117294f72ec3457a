"""Policies by name, and a check of one's own."""

import json
from dataclasses import replace
from typing import Any

import numpy as np

from kinband.errors import BadInputError, NotFoundError
from kinband.kernels import RBF
from kinband.policies.base import Policy, PolicyFactory, Setting, check_choice
from kinband.policies.baselines import FixedArm, LinUCB, RandomArm, build_cgp_ucb, build_kernel_ucb, build_pooled_ucb
from kinband.policies.exploration import Constant
from kinband.policies.super_ucb import SuperUCB
from kinband.policies.thompson import Thompson
from kinband.policies.ucb import UCB
from kinband.records import Choice, Observation, Query

# --- Policies by name, and what else may stand for one --------------------------------------------------------------

POLICIES: dict[str, PolicyFactory] = {
    "ucb": UCB.build,
    "thompson": Thompson.build,
    "super-ucb": SuperUCB.build,
    "kernel-ucb": build_kernel_ucb,
    "cgp-ucb": build_cgp_ucb,
    "linucb": LinUCB.build,
    "pooled": build_pooled_ucb,
    "random": RandomArm.build,
    "fixed": FixedArm.build,
}


def policy_factory(policy: Any) -> PolicyFactory:
    """Return the factory that a name, a factory, or a class with `build` stands for.

    Example:
        >>> policy_factory("ucb") is POLICIES["ucb"]
        True
        >>> policy_factory(RandomArm())
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: a policy must be a name or a factory that builds it from a Setting, not a ...
    """
    if isinstance(policy, str):
        if policy not in POLICIES:
            raise NotFoundError(f"unknown policy {policy!r}: choose one of {', '.join(POLICIES)}, or pass a factory")
        return POLICIES[policy]
    if isinstance(policy, type) and hasattr(policy, "build"):
        build: PolicyFactory = policy.build
        return build
    if not callable(policy):
        kind = type(policy).__name__
        raise BadInputError(f"a policy must be a name or a factory that builds it from a Setting, not a {kind}")
    factory: PolicyFactory = policy
    return factory


# --- A check list for policies, ours and yours: run it on a factory and read what it says ---------------------------
#
# The checks are those the controller relies on. The first that fails raises, and names itself in `argument`.

_TASKS, _ARMS, _FEATURES, _QUERIES = 3, 6, 2, 24

CHECKS = {
    "choice": "every choice is an allowed arm, listed among those it scored, with finite numbers of its own length",
    "policy_state": "what a choice leaves for its reward survives JSON",
    "asking": "choosing twice gives the same arm: asking changes no beliefs",
    "generator": "the same generators give the same arms to another policy of the same factory",
    "replay": "a policy that is taught the log of another decides as that one does",
}
"""What `check_policy` tries, by name."""

_ADVICE = {
    "choice": "return a Choice of one of query.arms, with one mean, std and score per arm in Choice.arms",
    "policy_state": "put plain numbers, strings, lists and dicts into it",
    "asking": "keep what choose() works out in the Choice it returns, and change beliefs in learn() alone",
    "generator": "draw from the generator that choose() is handed, and from no other",
    "replay": "learn from nothing but the observations that learn() is given",
}


def check_policy(
    policy: "str | PolicyFactory", *, options: dict[str, Any] | None = None, seed: int = 0
) -> dict[str, str]:
    """Run the check list on a policy, by name or by its factory, and return what was tried.

    Raises on the first check that fails: `argument` names it, `problem` says what was seen, `hint` what to do.

    Example:
        >>> from kinband.policies import UCB, check_policy
        >>> list(check_policy(UCB))
        ['choice', 'policy_state', 'asking', 'generator', 'replay']
    """
    factory = policy_factory(policy)
    setting = Setting(
        RBF(0.7), np.full((_TASKS, _TASKS), 0.5) + 0.5 * np.eye(_TASKS), noise=0.05, arms=_ARMS, mean=0.3,
        exploration=Constant(1.3), options=options or {},
    )  # fmt: skip
    queries = _queries(np.random.default_rng(seed))
    online, again, taught = factory(setting), factory(setting), factory(setting)
    arms, log = _run(online, queries, seed)
    _same(arms, _run(again, queries, seed)[0], "generator", "two policies of one factory, asked alike, differ")
    for observation in log:
        taught.learn(observation)
    after = _choose_all(online, queries, seed)
    _same(after, _choose_all(taught, queries, seed), "replay", "online and taught from the log, policies differ")
    return {name: f"{said}: held in {_QUERIES} queries" for name, said in CHECKS.items()}


def _queries(rng: np.random.Generator) -> list[Query]:
    queries = []
    for _ in range(_QUERIES):
        allowed = rng.random(_ARMS) < 0.6
        allowed[0] = True  # a policy bound to one arm can pass
        queries.append(Query(int(rng.integers(_TASKS)), rng.random((_ARMS, _FEATURES)), allowed))
    return [Query(q.task, q.X, np.ones(_ARMS, dtype=bool)) if i % 2 else q for i, q in enumerate(queries)]


def _run(policy: Policy, queries: list[Query], seed: int) -> tuple[list[int], list[Observation]]:
    """Let a policy choose and learn; return its arms, and its observations as a log would give them back."""
    arms: list[int] = []
    log: list[Observation] = []
    for step, query in enumerate(queries):
        choice = _checked(policy.choose(query, np.random.default_rng([seed, step])), query, step)
        twice = policy.choose(query, np.random.default_rng([seed, step]))
        _same([choice.arm], [twice.arm], "asking", f"asked twice, before any reward, query {step + 1} got two answers")
        reward = float(np.sin(3.0 * query.X[choice.arm].sum() + query.task))
        logged = Observation(
            query.task,
            query.X[choice.arm],
            choice.arm,
            reward,
            policy_state=json.loads(json.dumps(choice.policy_state)),
        )
        policy.learn(replace(logged, cache=choice.cache))
        arms.append(choice.arm)
        log.append(logged)
    return arms, log


def _checked(choice: Choice, query: Query, step: int) -> Choice:
    try:
        return check_choice(choice, query)
    except BadInputError as error:
        name = "policy_state" if error.code == "policy_state" else "choice"
        raise _failed(name, f"query {step + 1} of {_QUERIES}: {error.problem}", value=choice) from error


def _choose_all(policy: Policy, queries: list[Query], seed: int) -> list[int]:
    return [policy.choose(query, np.random.default_rng([seed, 1000 + i])).arm for i, query in enumerate(queries)]


def _same(first: list[int], second: list[int], check: str, problem: str) -> None:
    if first != second:
        place = next(i for i, (a, b) in enumerate(zip(first, second, strict=True)) if a != b)
        raise _failed(check, f"{problem}: arm {first[place]} and arm {second[place]}", value=(first, second))


def _failed(check: str, problem: str, *, value: Any) -> BadInputError:
    said = f"the policy fails the check {check!r} ({CHECKS[check]}); {problem}"
    return BadInputError(said, hint=_ADVICE[check], code="policy_check", argument=check, value=value)
