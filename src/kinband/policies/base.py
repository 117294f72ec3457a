"""What a policy is asked and answers, and what it is built from."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from kinband.arrays import FloatArray
from kinband.errors import BadInputError, CannotCorrectError
from kinband.kernels import Kernel, TaskCovariance
from kinband.policies.exploration import Constant, Exploration
from kinband.posterior import INDUCING_POINTS, BlockedPosterior, Column, Posterior, Prediction, make_posterior
from kinband.records import Choice, Observation, Query

if TYPE_CHECKING:
    from kinband.cluster import OnRay

# --- What a policy is: it answers queries and learns from rewards. Yours plugs in wherever ours do ------------------
#
# A policy has two methods. `choose` answers a query without changing what the policy believes; `learn` takes in one
# reward. Everything random comes from the generator handed to `choose`, which is keyed by the decision, so that a
# replay draws the same numbers. What `choose` wants to see again with the reward goes into the choice's policy_state
# (JSON-able, stored in the log); work it would rather not repeat goes into its cache (never stored).
#
# A policy is built from a `PolicySpec` by a factory, so that it can be built again and taught the log anew. Run
# `kinband.policies.check_policy(factory)` on yours.
#
# Further methods make a policy faster, each by itself: `choose_round` decides many stations together, `learn_log` takes
# in a log at once, `correct` puts a reward right in place, `extend_tasks` takes in a longer task matrix, `state` and
# `restore` store beliefs as arrays. The functions below use them where a policy has them, and do without elsewhere.


class Policy(Protocol):
    """Chooses arms and learns from what they earn.

    Example:
        >>> class Greediest:
        ...     '''Plays the arm with the largest first feature; learns nothing.'''
        ...     def choose(self, query, rng):
        ...         arms = query.arms
        ...         return Choice(arm=int(arms[query.X[arms, 0].argmax()]), arms=arms)
        ...     def learn(self, observation):
        ...         pass
        >>> query = Query(0, np.array([[0.1], [0.9]]), np.array([True, True]))
        >>> Greediest().choose(query, np.random.default_rng(0)).arm
        1
    """

    def choose(self, query: Query, rng: np.random.Generator) -> Choice:
        """Return an allowed arm; must not change what the policy believes."""

    def learn(self, observation: Observation) -> None:
        """Take in one reward."""


@runtime_checkable
class KeepsState(Protocol):
    """A policy whose beliefs can be stored as plain arrays and taken up again, bit for bit."""

    def state(self) -> dict[str, Any]:
        """Return the beliefs as arrays by name."""

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take up what `state` returned."""


def choose_round(policy: Policy, queries: Sequence[Query], rngs: Sequence[np.random.Generator]) -> list[Choice]:
    """Return one choice per query, all from the same beliefs (Algorithm 1)."""
    together = getattr(policy, "choose_round", None)
    if together is None:
        return [policy.choose(query, rng) for query, rng in zip(queries, rngs, strict=True)]
    return list(together(queries, rngs))


def learn_log(policy: Policy, observations: Sequence[Observation]) -> None:
    """Take in many rewards, in order."""
    at_once = getattr(policy, "learn_log", None)
    if at_once is not None:
        at_once(observations)
        return
    for observation in observations:
        policy.learn(observation)


def correct(policy: Policy, index: int, reward: float) -> None:
    """Replace the reward of the index-th observation learned.

    Where the policy cannot, or its posterior has not kept the rows, this raises `CannotCorrectError`, and everything
    has to be learned anew.
    """
    in_place = getattr(policy, "correct", None)
    if in_place is None:
        raise CannotCorrectError("the policy cannot correct a reward in place: learn the log again")
    in_place(index, reward)


def extend_tasks(policy: Policy, factory: "PolicyFactory", spec: "PolicySpec") -> None:
    """Take in the tasks of a longer spec in place, or raise `CannotCorrectError`.

    Ours follow a pattern, empty and of the same factory (`extend_like`), since a factory may use the task matrix in
    its own way; one of the user's own is handed the matrix (`extend_tasks`), if it has that.
    """
    if (follow := getattr(policy, "extend_like", None)) is not None:
        follow(factory(spec))
    elif (take := getattr(policy, "extend_tasks", None)) is not None:
        take(spec.K_Z)
    else:
        raise CannotCorrectError("the policy cannot take in tasks in place: learn the log again")


@dataclass(frozen=True, eq=False)
class PolicySpec:
    """What a policy is built from.

    Attributes:
        kernel: Context kernel k_X.
        K_Z: Task matrix, (M, M); of stations in groups that share nothing a `kinband.kernels.BlockMatrix`, of which
            `np.asarray` makes an array.
        noise: Variance of a reward beyond what is told of it, λ of the paper.
        mean: Constant prior mean.
        arms: Number of arms N.
        exploration: The β of (12).
        engine: Which posterior: "exact", "schur", "sparse", or "auto" (exact at first, sparse when it has grown).
        inducing_points: Inducing points of a sparse posterior.
        options: Further options of the policy, by name.
        configurations: Features of the arms, (N, f), where contexts are a state followed by one of these; else None.
        on: The cluster that blocks of the posterior live on; None for this process.

    Example:
        >>> from kinband.kernels import RBF
        >>> PolicySpec(RBF(0.5), np.eye(3), noise=0.1, arms=5).exploration
        Constant(value=1.0)
    """

    kernel: Kernel
    K_Z: TaskCovariance
    noise: float
    arms: int
    mean: float = 0.0
    exploration: Exploration = field(default=Constant(1.0))
    engine: str = "exact"
    inducing_points: int = INDUCING_POINTS
    options: Mapping[str, Any] = field(default_factory=dict)
    configurations: FloatArray | None = None
    on: "OnRay | None" = None

    def posterior(self, K_Z: TaskCovariance | None = None) -> BlockedPosterior:
        """Return a posterior with nothing learned yet, on the spec's task matrix or another."""
        return make_posterior(
            self.kernel,
            self.K_Z if K_Z is None else K_Z,
            noise=self.noise,
            mean=self.mean,
            engine=self.engine,
            inducing_points=self.inducing_points,
            configurations=self.configurations,
            on=self.on,
        )


PolicyFactory = Callable[[PolicySpec], Policy]


def check_choice(choice: Choice, query: Query) -> Choice:
    """Return a policy's choice with its arm as a plain number, or say which rule of the contract it breaks."""
    if not isinstance(choice, Choice):
        raise BadInputError(f"the policy must return a Choice, not {type(choice).__name__}")
    arm, N = choice.arm, len(query.X)
    if isinstance(arm, bool) or not isinstance(arm, int | np.integer) or not 0 <= arm < N:
        raise BadInputError(f"the policy chose arm {arm!r} of {N}")
    if not query.allowed[arm]:
        raise BadInputError(f"the policy chose arm {arm}, which is not allowed")
    scored = np.asarray(choice.arms)
    if scored.ndim != 1 or arm not in scored:
        raise BadInputError("the policy must list the chosen arm among the arms it scored")
    for name in ("mean", "std", "score"):
        values = getattr(choice, name)
        if values is None:
            continue
        if np.shape(values) != scored.shape:
            raise BadInputError(f"the policy must give one {name} per scored arm")
        if not np.isfinite(values).all():
            raise BadInputError(
                f"the policy's {name} is not finite: look for an absurd reward or state, and correct it"
            )
    try:
        json.dumps(dict(choice.policy_state), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise BadInputError(f"the policy_state of a choice must survive JSON: {error}", code="policy_state") from error
    return replace(choice, arm=int(arm), arms=scored)


def check_options(spec: "PolicySpec", *known: str) -> Mapping[str, Any]:
    """Return the options of a spec, or say which of them a policy does not know."""
    for name in spec.options:
        if name not in known:
            raise BadInputError(f"the policy has no option {name!r}: it knows {', '.join(known) or 'none'}")
    return spec.options


def pick_best(score: FloatArray, rng: np.random.Generator) -> int:
    """Return the position of the best score (m,); ties, up to rounding, are broken by the generator."""
    best = score.max()
    if not np.isfinite(best):  # beliefs have overflowed; `check_choice` says so
        return 0
    ties = np.flatnonzero(score >= best - 1e-12 * max(1.0, abs(best)))
    return int(ties[0] if len(ties) == 1 else ties[rng.integers(len(ties))])


# --- From observations to updates of a posterior: what every policy with a posterior does in `learn` ----------------
#
# What is told of a reward's variance, p(1−p)/n for a share over n users, says how well it was measured. What its
# context does not explain, the posterior's own noise, comes on top of it; forgetting that made a learner ten times too
# sure.


def learn_block(posterior: Posterior, observations: Sequence[Observation]) -> None:
    """Add many rewards at once, or one, taking up the column solved while choosing where it is still at hand."""
    tasks = np.array([o.task for o in observations], dtype=np.int64)
    noise = posterior.noise + np.array([0.0 if o.noise is None else o.noise for o in observations])
    X, y = np.array([o.x for o in observations]), [o.reward for o in observations]
    cache = observations[0].cache if len(observations) == 1 else None
    posterior.update(tasks, X, y, noise=noise, column=cache if isinstance(cache, Column) else None)


# --- From a round of queries to predictions of all their arms -------------------------------------------------------

_ROUND_ENTRIES = 2**25  # columns of a round are solved in parts of at most this many numbers (256 MB)


def sweeps(posterior: Posterior, queries: Sequence[Query]) -> Iterator[tuple[slice, Prediction, list[int]]]:
    """Predict the allowed arms of queries, in parts whose columns fit into memory together.

    Each part comes with its slice of the queries, and the prediction with how many arms belong to each of them.
    """
    most, start = max(1, _ROUND_ENTRIES // max(1, len(posterior))), 0
    arms = [query.arms for query in queries]
    sizes = [len(one) for one in arms]
    while start < len(queries):
        stop, columns = start + 1, sizes[start]
        while stop < len(queries) and columns + sizes[stop] <= most:
            columns += sizes[stop]
            stop += 1
        part = slice(start, stop)
        tasks = np.repeat([query.task for query in queries[part]], sizes[part])
        X = np.concatenate([q.X[one] for q, one in zip(queries[part], arms[part], strict=True)])
        yield part, posterior.predict(tasks, X), sizes[part]
        start = stop
