"""From a log of any size to a plan: groups of similar stations learn apart, on all cores or on a cluster.

A posterior costs the cube of its rows, and comparing everybody with everybody the square of the stations; a network of
thousands is neither. What is common to all (how fast rewards change with a state or a knob, how much they scatter, how
large the shocks of a day are) is learned once, from some of the stations. Then stations are put into groups of
about sixty that answer alike to settings, and every group learns from all of its rows, and is planned for, by itself.

Who answers alike is seen from what each station's own rows say of every setting in a few usual states: its profile.
Groups are cut by halving the network along the direction in which profiles differ most (principal direction divisive
partitioning, Boley 1998), which costs no more than reading them.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from kinband.arrays import FloatArray, IntArray
from kinband.contexts import ContextEncoder
from kinband.drift import TIME_COLUMN
from kinband.guardrails import Rails
from kinband.kernels import components
from kinband.model import Model, Search, SimilarityLike, learn_model
from kinband.parallel import carried_out, processes
from kinband.planning.considerations import (
    ALIKE_AROUND,
    Considerations,
    aged,
    around,
    fading,
    kpi_rows,
    resembling,
    weight_around,
    with_described,
)
from kinband.planning.coverage import StateCoverage, setting_columns
from kinband.planning.evidence import GroupPosterior, averaged, evidence_rows
from kinband.planning.limits import Limits
from kinband.planning.making import (
    MOST_TOLD,
    Group,
    RankedChange,
    Rules,
    check_limits,
    merged,
    not_in_log,
    plan_group,
)
from kinband.planning.period import Present, days_and_spells, with_hour_of_day
from kinband.planning.plan import ChangePlan, LeftAlone
from kinband.planning.waves import Lessons, Staging, lessons, staged
from kinband.records import Samples
from kinband.similarity import Joint, Log, TaskMatrix
from kinband.similarity.newcomers import LEAST as _FEWEST
from kinband.similarity.newcomers import Descriptors, described_similarity
from kinband.similarity.shards import Shards
from kinband.space import ConfigurationSpace
from kinband.trace import Trace
from kinband.trace.answers import suspicious_states

GROUP_STATIONS, SMALLEST, GROUP_ROWS = 100, 30, 6000
"""Most and fewest stations of a group, and rows that it has about; a plan learns from no more stations in one piece."""

ONE_MODEL = 200
"""Stations up to which other commands learn one model, as a controller does: beyond, they go by groups as plans do."""

_SOME = 100  # stations that what is common to all is learned from
_STATES = 3  # usual states in which profiles are looked at
_SETTINGS = 24  # settings in a profile, evenly chosen
_OWN_ROWS = 200  # rows of a station that a profile is made from; of more, like rows are taken together

_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Quantity:
    """The rows of a log with one quantity (the reward, or a KPI), and what is common to all stations in it.

    Attributes:
        samples: The rows in numbers.
        model: Kernel, noise, mean, shocks.
        similarity: How alike stations are, a matrix for each group, or how each group learns it.
    """

    samples: Samples
    model: Model
    similarity: SimilarityLike | Shards

    def in_group(self, members: IntArray, rows: IntArray) -> "Quantity":
        """Return some rows, all that there are of the stations `members`, numbered anew."""
        some, similarity = renumbered(self.samples.take(rows), members), self.similarity
        if isinstance(similarity, TaskMatrix):
            similarity = similarity.reindex(some.stations)
        elif isinstance(similarity, Shards):
            similarity = similarity.matrix(some.stations)
        return replace(self, samples=some, similarity=similarity)


def renumbered(samples: Samples, members: IntArray) -> Samples:
    """Return rows, all of the stations `members` (ascending), with these as the only stations, numbered from 0."""
    stations = tuple(samples.stations[m] for m in members.tolist())
    return replace(samples, stations=stations, tasks=np.searchsorted(members, samples.tasks))


@dataclass(frozen=True, eq=False)
class NetworkModel:
    """A log, and what is common to all of its stations.

    Attributes:
        encoder: From states and configurations to contexts.
        reward: What stations earned.
        groups: The stations that learn together, by number.
        seed: Seed of everything random.
        users: Of how many users or samples a reward of each station is the share, (M,), if that is known.
        considered: What a plan considers beside the rewards.
        kpis: What was measured of the KPIs that have floors, in their order.
        around: What the neighbours of each station earned, where that counts.
    """

    encoder: ContextEncoder
    reward: Quantity
    groups: tuple[IntArray, ...]
    seed: int
    users: FloatArray | None = None
    considered: Considerations = field(default_factory=Considerations)
    kpis: tuple[Quantity, ...] = ()
    around: Quantity | None = None

    @property
    def stations(self) -> tuple[str, ...]:
        """All stations; a task is an index into them."""
        return self.reward.samples.stations

    @property
    def method(self) -> str:
        """How it was found how alike stations are."""
        alike = self.reward.similarity
        alike = alike.parts[0] if isinstance(alike, Shards) else alike
        return alike.method if isinstance(alike, TaskMatrix) else alike if isinstance(alike, str) else "given"

    @cached_property
    def group_of(self) -> IntArray:
        """The group of each station, (M,)."""
        found = np.empty(len(self.stations), dtype=np.int64)
        for number, members in enumerate(self.groups):
            found[members] = number
        return found

    def rows(self, tasks: IntArray | None = None) -> list[IntArray]:
        """Return the rows of each group, of the log or of others with tasks (n,)."""
        of_row = self.group_of[self.reward.samples.tasks if tasks is None else tasks]
        order = np.argsort(of_row, kind="stable")
        return np.split(order, np.searchsorted(of_row[order], np.arange(1, len(self.groups))))

    def samples_in(self, number: int, rows: IntArray, samples: Samples | None = None) -> Samples:
        """Return the rows of a group, of the log or of other samples of its stations, these numbered anew."""
        return renumbered((self.reward.samples if samples is None else samples).take(rows), self.groups[number])

    def sample(self) -> IntArray:
        """Return some stations of all groups, from which what lies between groups is estimated."""
        M = len(self.stations)
        return np.sort(np.random.default_rng([self.seed, 3]).choice(M, min(_SOME, M), replace=False))

    def similarity_in(self, number: int) -> SimilarityLike:
        """Return how alike the stations of a group are, or how it learns that."""
        alike = self.reward.similarity
        if isinstance(alike, Shards):
            return alike.parts[number]
        if isinstance(alike, TaskMatrix):
            return alike.reindex([self.stations[m] for m in self.groups[number].tolist()])
        return alike


# --- What is common to all ------------------------------------------------------------------------------------------


def learn_network(
    trace: Trace,
    space: ConfigurationSpace | None = None,
    *,
    similarity: SimilarityLike | Shards | None = None,
    together: int | None = None,
    size: int | None = None,
    seed: int = 0,
    considered: Considerations | None = None,
) -> NetworkModel:
    """Return what a log says that is common to all of its stations, and who learns together.

    Args:
        trace: The log.
        space: The configurations to choose from; by default those of the log.
        similarity: How alike stations are, a name, a matrix, or a matrix for each group; learned if not given.
        together: Up to so many stations are one group; 100 if not given.
        size: The most stations of a group beyond; if not given, as many as have some 6,000 rows, 30 to 100.
        seed: Seed of everything random.
        considered: What a plan is to consider beside the rewards.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> log = {"station": ["a", "b"] * 30, "load": rng.random(60), "tilt": rng.integers(0, 5, 60)}
        >>> log["reward"] = 1.0 - 0.1 * (log["tilt"] - 3) ** 2 + 0.01 * rng.normal(size=60)
        >>> network = learn_network(Trace.from_frame(log, {"configuration": ["tilt"]}))
        >>> [group.tolist() for group in network.groups]
        [[0, 1]]
    """
    trace = trace.with_space(trace.space() if space is None else space)
    for leak in suspicious_states(trace):
        _log.warning("%s", leak)
    trace = with_hour_of_day(trace)
    encoder, considered = trace.encoder(), considered or Considerations()
    samples = days_and_spells(trace.samples(encoder), trace)
    if considered.drift is not None:
        samples, encoder = aged(trace, samples, encoder, considered.drift)
    similarity, together = _at_the_door(similarity, samples.stations, together)
    how: Any = {"seed": seed, "considered": considered, "together": together}
    reward = _quantity(samples, similarity, log=trace, **how)
    kpis = tuple(_quantity(kpi_rows(samples, floor.name), similarity, **how) for floor in considered.floors)
    there = None
    if considered.neighbours is not None:
        weight_around(considered.neighbours, samples.stations)  # refuses what a plan cannot weigh
        there = _quantity(around(samples, reward.model, trace.time, considered.neighbours), similarity, **how)
    groups = _groups(samples, encoder, reward.model, similarity, together=together, size=size)
    return NetworkModel(encoder, reward, groups, seed, _users(trace, samples), considered, kpis, there)


def group_network(
    samples: Samples,
    encoder: ContextEncoder,
    *,
    similarity: SimilarityLike | Shards | None = None,
    log: Log | None = None,
    together: int | None = None,
    size: int | None = None,
    seed: int = 0,
) -> NetworkModel:
    """Return the same of a log in numbers; `log` is what an estimator of one's own is shown."""
    similarity, together = _at_the_door(similarity, samples.stations, together)
    reward = _quantity(samples, similarity, seed=seed, considered=Considerations(), together=together, log=log)
    groups = _groups(samples, encoder, reward.model, similarity, together=together, size=size)
    return NetworkModel(encoder, reward, groups, seed)


def _at_the_door(
    similarity: SimilarityLike | Shards | None, stations: tuple[str, ...], together: int | None
) -> tuple[SimilarityLike | Shards, int]:
    """How alike stations are, as a name, an estimator, a matrix or one for each group; and how many are one group."""
    together = GROUP_STATIONS if together is None else together
    if similarity is None:
        return "joint", together
    if isinstance(similarity, Shards):
        similarity = similarity.of(stations)
        return similarity if together < len(stations) else similarity.matrix(stations), together
    if isinstance(similarity, str | TaskMatrix) or hasattr(similarity, "fit"):
        return similarity, together
    return TaskMatrix(stations, np.asarray(similarity, dtype=np.float64), "given"), together


def _quantity(
    samples: Samples,
    similarity: SimilarityLike | Shards,
    *,
    seed: int,
    considered: Considerations,
    together: int,
    log: Log | None = None,
) -> Quantity:
    """Return rows of a log with the model that explains them, learned from some stations if there are many.

    Args:
        samples: The rows.
        similarity: How alike stations are.
        seed: Seed of everything random.
        considered: How fast they cease to count, and what describes stations.
        together: Up to so many stations are one group.
        log: What an estimator of similarity is shown.
    """
    whole = together >= len(samples.stations) or isinstance(similarity, TaskMatrix)
    some = samples if whole else of_stations(samples, _some(samples, similarity, seed=seed))
    first = similarity.matrix(some.stations) if isinstance(similarity, Shards) else similarity
    kernel = None if considered.drift is None else fading(some, considered.drift)
    how: Any = {"kernel": kernel, "search": Search(), "log": log if whole else None}
    model = _explained(some, first, seed=seed, descriptors=considered.descriptors, **how)
    return Quantity(samples, model, model.similarity if whole else similarity)


def _explained(
    samples: Samples, similarity: SimilarityLike, *, seed: int, descriptors: Mapping[str, Descriptors], **how: Any
) -> Model:
    """Return the model of some rows; where they do not say who is like whom, what describes the stations does."""
    found = learn_model(samples, similarity, rng=np.random.default_rng([seed, 0]), **how)
    if not isinstance(similarity, str) or similarity != "joint" or found.similarity.details.get("similar"):
        return found
    if len(samples.stations) < _FEWEST or not any(name in descriptors for name in samples.stations):
        return found
    alike = described_similarity([descriptors.get(name, {}) for name in samples.stations])
    if alike is None:
        return found
    return learn_model(samples, Joint(alike, seed=seed), rng=np.random.default_rng([seed, 0]), **how)


def _some(samples: Samples, similarity: SimilarityLike | Shards | None, *, seed: int) -> IntArray:
    """The stations that what is common to all is learned from: of shards, whole ones."""
    M, rng = len(samples.stations), np.random.default_rng([seed, 2])
    if not isinstance(similarity, Shards):
        return rng.choice(M, min(_SOME, M), replace=False)
    place, found = {name: m for m, name in enumerate(samples.stations)}, list[int]()
    for number in rng.permutation(len(similarity)).tolist():
        if len(found) < _SOME:
            found += [place[name] for name in similarity.parts[number].stations]
    return np.array(found, dtype=np.int64)


def of_stations(samples: Samples, chosen: IntArray) -> Samples:
    """Return the rows of some stations, numbered anew."""
    return renumbered(samples.take(np.isin(samples.tasks, chosen)), np.sort(chosen))


def _users(trace: Trace, samples: Samples) -> FloatArray | None:
    """Of how many users, or samples, a reward of each station is the share, on average, (M,)."""
    if trace.sample_count is None:
        return None
    known = np.isfinite(trace.sample_count)
    M = len(samples.stations)
    count = np.bincount(samples.tasks[known], minlength=M)
    total = np.bincount(samples.tasks[known], weights=trace.sample_count[known], minlength=M)
    return np.asarray(np.divide(total, count, out=np.full(M, np.nan), where=count > 0))


# --- Who learns together --------------------------------------------------------------------------------------------


def _groups(
    samples: Samples,
    encoder: ContextEncoder,
    model: Model,
    similarity: SimilarityLike | Shards | None,
    *,
    together: int,
    size: int | None,
) -> tuple[IntArray, ...]:
    M = len(samples.stations)
    if isinstance(similarity, TaskMatrix):
        return tuple(components(model.similarity.K_Z))
    if isinstance(similarity, Shards):
        place = {name: m for m, name in enumerate(samples.stations)}
        return tuple(np.array([place[name] for name in part.stations]) for part in similarity.parts)
    if together >= M:
        return (np.arange(M),)
    if size is None:
        rows = float(np.median(np.bincount(samples.tasks, minlength=M)))
        size = int(np.clip(GROUP_ROWS // max(rows, 1.0), SMALLEST, GROUP_STATIONS))
    return tuple(similar_groups(profiles(samples, encoder, model), size=size))


def profiles(samples: Samples, encoder: ContextEncoder, model: Model) -> FloatArray:
    """Return what each station's own rows say of settings in a few usual states, its mean left out, (M, g).

    What is known of a station that tried little lies near what all have in common, which its rows are held against.
    """
    arms = np.unique(
        np.linspace(0, len(encoder.space) - 1, min(_SETTINGS, len(encoder.space))).round().astype(np.int64)
    )
    p = len(encoder.state.names)
    usual = np.quantile(samples.X[:, :p], np.linspace(0, 1, _STATES + 2)[1:-1], axis=0)
    if TIME_COLUMN in encoder.state.names:
        usual[:, p - 1] = 0.0
    points = np.vstack([np.hstack([np.tile(state, (len(arms), 1)), encoder.space.features[arms]]) for state in usual])
    told = evidence_rows(replace(samples, days=None, spells=None), model.noise)
    told = averaged(told, most=_OWN_ROWS * len(samples.stations), columns=setting_columns(encoder))
    order = np.argsort(told.tasks, kind="stable")
    found = np.zeros((len(samples.stations), len(points)))
    for own in np.split(order, np.flatnonzero(np.diff(told.tasks[order])) + 1):
        X = told.X[own]
        K = model.kernel(X, X)
        K[np.diag_indices(len(own))] += told.noise[own]
        level = float(np.average(told.y[own], weights=told.count[own]))
        found[told.tasks[own[0]]] = model.kernel(points, X) @ np.linalg.solve(K, told.y[own] - level)
    return np.asarray(found - found.mean(axis=1, keepdims=True))


def similar_groups(P: FloatArray, *, size: int) -> list[IntArray]:
    """Return stations in groups of about equal size, at most `size`, by profiles P (M, g).

    Example:
        >>> [group.tolist() for group in similar_groups(np.array([[0.0], [5.0], [0.1], [5.2]]), size=2)]
        [[0, 2], [1, 3]]
    """
    return sorted(_cut(P, np.arange(len(P)), -(-len(P) // size)), key=lambda group: int(group[0]))


def _cut(P: FloatArray, members: IntArray, parts: int) -> list[IntArray]:
    if parts == 1:
        return [members]
    centred = P[members] - P[members].mean(axis=0)
    direction = np.linalg.eigh(centred.T @ centred)[1][:, -1]
    order = members[np.argsort(centred @ direction, kind="stable")]
    cut = len(order) * (parts // 2) // parts
    first, second = np.sort(order[:cut]), np.sort(order[cut:])
    return [*_cut(P, first, parts // 2), *_cut(P, second, parts - parts // 2)]


# --- How alike the stations of each group are -------------------------------------------------------------------------

CompareStations = Callable[[Samples, Model], TaskMatrix]
"""From the rows of a group, and what is common to all, to how alike its stations are."""


def group_similarity(
    samples: Samples,
    model: Model,
    *,
    similarity: SimilarityLike,
    seed: int,
    descriptors: Mapping[str, Descriptors] | None = None,
) -> TaskMatrix:
    """Return how alike the stations of a group are: all else is common to the network."""
    if isinstance(similarity, TaskMatrix):
        return similarity
    how: Any = {"kernel": model.kernel, "noise": model.noise, "mean": model.mean}
    how["search"] = Search(kernel=False, noise=False, mean=False, shocks=model.shocks)
    return _explained(samples, similarity, seed=seed, descriptors=descriptors or {}, **how).similarity


def shards_of(
    network: NetworkModel,
    compare: CompareStations | None = None,
    *,
    workers: int | None = None,
    ray: str | None = None,
    tick: Callable[[int], None] | None = None,
) -> Shards:
    """Return how alike stations are, group by group; what lies between groups is estimated from some stations.

    Args:
        network: What is common to all, and who learns together.
        compare: Finds how alike the stations of a group are; as the network says if not given.
        workers: Processes; None or 0 for one per core.
        ray: The Ray cluster to run on instead, "host:port" or "auto".
        tick: Called with the number of stations that have just been compared.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> log = {"station": ["a", "b"] * 30, "load": rng.random(60), "tilt": rng.integers(0, 5, 60)}
        >>> log["reward"] = 1.0 - 0.1 * (log["tilt"] - 3) ** 2 + 0.01 * rng.normal(size=60)
        >>> network = learn_network(Trace.from_frame(log, {"configuration": ["tilt"]}))
        >>> [part.stations for part in shards_of(network, workers=1).parts]
        [('a', 'b')]
    """
    G = len(network.groups)
    calls: dict[int, tuple[Callable[..., Any], tuple[Any, ...]]] = {}
    for number, rows in enumerate(network.rows()):
        found = compare or partial(group_similarity, similarity=network.similarity_in(number), seed=network.seed)
        calls[number] = (found, (network.samples_in(number, rows), network.reward.model))
    if G > 1 and not isinstance(network.reward.similarity, TaskMatrix | Shards):
        some = of_stations(network.reward.samples, network.sample())
        calls[G] = (
            compare or partial(group_similarity, similarity=network.reward.similarity, seed=network.seed),
            (some, network.reward.model),
        )
    parts: dict[int, TaskMatrix] = {}
    for number, part in carried_out(calls, workers=workers, ray=ray):
        parts[number] = part
        if tick is not None and number < G:
            tick(len(part))
    kept = sum(_pairs(part) for number, part in parts.items() if number < G)
    cut = _between(network, parts[G]) if G in parts else 0.0
    return Shards(tuple(parts[number] for number in range(G)), kept, cut, sampled=G in parts)


def _pairs(part: TaskMatrix) -> float:
    """Σ|ρ| over the pairs of some stations."""
    return float(np.abs(part.correlation()).sum() - len(part)) / 2


def _between(network: NetworkModel, alike: TaskMatrix) -> float:
    """Estimate Σ|ρ| over the pairs of stations in different groups from some stations."""
    sample = network.sample()
    group_of = network.group_of
    apart = np.not_equal.outer(group_of[sample], group_of[sample])
    sizes = np.bincount(group_of).astype(np.float64)
    pairs = (sizes.sum() ** 2 - (sizes**2).sum()) / 2
    return float(np.abs(alike.correlation())[apart].mean() * pairs) if apart.any() else 0.0


# --- The plan -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _GroupLog:
    """What one group learns from: all but the similarity of its stations is common to the network.

    Attributes:
        encoder, seed, considered: As in `NetworkModel`.
        reward, kpis, around: As in `NetworkModel`, the group's rows.
        newcomers: Stations without rows that join the group.
        users: Of how many users a reward of each station with rows is the share.
    """

    encoder: ContextEncoder
    reward: Quantity
    seed: int
    considered: Considerations
    newcomers: Sequence[str]
    kpis: Sequence[Quantity]
    around: Quantity | None
    users: FloatArray | None

    def group(self) -> Group:
        """Return what the stations of the group know."""
        considered, users = self.considered, self.users
        stations = (*self.reward.samples.stations, *self.newcomers)
        there = None
        if self.around is not None and considered.neighbours is not None:
            there = self._evidence(self.around, alike=ALIKE_AROUND), weight_around(considered.neighbours, stations)
        return Group.of(
            self.encoder,
            stations,
            self._evidence(self.reward),
            states=StateCoverage.of(self.encoder.state, self.reward.samples.X),  # of all rows, before they are averaged
            users=None if users is None else np.append(users, np.full(len(self.newcomers), np.nan)),
            floors=tuple(zip(considered.floors, map(self._evidence, self.kpis), strict=True)),
            around=there,
        )

    def _evidence(self, quantity: Quantity, *, alike: float = 1.0) -> GroupPosterior:
        """What the group's rows say of one quantity; `alike` is what similarity of stations is multiplied by."""
        samples, model, similarity = quantity.samples, quantity.model, quantity.similarity
        known = self.considered.descriptors
        if isinstance(similarity, Shards):
            similarity = similarity.matrix(samples.stations)
        learned = similarity == "joint" if isinstance(similarity, str) else False
        similarity = group_similarity(samples, model, similarity=similarity, seed=self.seed, descriptors=known)
        if learned:
            similarity = _halfway(similarity, model)
        K_Z = alike * similarity.matrix + (1.0 - alike) * np.diag(np.diagonal(similarity.matrix))
        K_Z = with_described(K_Z, samples.stations, self.newcomers, known)
        rows = averaged(evidence_rows(samples, model.noise), most=MOST_TOLD, columns=setting_columns(self.encoder))
        return GroupPosterior(model.kernel, K_Z, rows, mean=model.mean, shocks=model.shocks)


def _halfway(found: TaskMatrix, model: Model) -> TaskMatrix:
    """Return how alike the stations of a group are: halfway from what their rows say to stations drawn at random.

    A group is made of stations whose rows look alike. The same rows say once more that they are, and that a station is
    so even where it tried nothing: gains there would be too certain. Stations drawn at random, from which the model was
    learned, are chosen by nothing, but less alike than those of a group. The covariance of f where one or the other is
    so, as likely as not, is the mean of both.
    """
    share = float(model.similarity.details["shared"])
    random = np.full(found.matrix.shape, share) + (1.0 - share) * np.eye(len(found))
    return TaskMatrix(found.stations, (found.matrix + random) / 2.0, "joint")


def _planned(
    log: _GroupLog, now: Mapping[str, Present], rules: Rules, *, teach: bool = False
) -> tuple[list[RankedChange | LeftAlone], Lessons | None]:
    """Learn what a group knows, and plan for it: one piece of work for a process."""
    group = log.group()
    found = plan_group(group, now, rules)
    return found, lessons(group, found, now) if teach else None


def plan_network(
    network: NetworkModel,
    now: Mapping[str, Present],
    *,
    explore: bool = False,
    beta: float = 1.0,
    least_gain: float = 0.0,
    max_changes: int | None = None,
    steps: Mapping[str, float] | None = None,
    rails: Rails | None = None,
    workers: int | None = None,
    ray: str | None = None,
    staging: Staging | None = None,
    tick: Callable[[int], None] | None = None,
    **about: Any,
) -> ChangePlan:
    """Return which stations of a network should change, to what and why, and which are better left alone.

    Args:
        network: What the log says.
        now: Present configuration and period by station.
        explore: Whether to propose what is most worth trying rather than what is expected to earn most.
        beta: Weight of the standard deviation when exploring.
        least_gain: Gains below this are not worth a change. When exploring, what counts is the interval's upper end.
        max_changes: The most changes to make, the most worthwhile ones; None for no limit.
        steps: The furthest a knob may move from its present value; 0 keeps it.
        rails: Hard limits: ranges, steps, frozen stations, changes in a round, neighbours.
        workers: Processes; None or 0 for one per core.
        ray: The Ray cluster to run on instead, "host:port" or "auto".
        staging: In how many waves it is carried out, and how much is held back.
        tick: Called with the number of stations that have just been looked at.
        about: What the plan says of itself: `reward` and `period`.

    Example:
        >>> from kinband.planning import latest
        >>> rng = np.random.default_rng(0)
        >>> log = {"station": ["a", "b"] * 30, "tilt": rng.integers(0, 5, 60)}
        >>> log["reward"] = 1.0 - 0.1 * (log["tilt"] - 3) ** 2 + 0.01 * rng.normal(size=60)
        >>> trace = Trace.from_frame(log, {"configuration": ["tilt"]})
        >>> plan = plan_network(learn_network(trace, similarity="pooled"), {"a": Present({}, {"tilt": 0})})
        >>> plan.changes[0].moves
        {'tilt': 3}
    """
    check_limits(max_changes=max_changes, least_gain=least_gain, steps=steps)
    limits = Limits(network.encoder.space, steps or {}, rails or Rails())
    rules = Rules(beta if explore else None, float(least_gain), limits)
    calls, asked = _calls(network, now, rules, teach=staging is not None)
    found: dict[str, RankedChange | LeftAlone] = {}
    known: dict[int, Lessons] = {}
    for i, (answers, learned) in carried_out(calls, workers=workers, ray=ray):
        if learned is not None:
            known[i] = learned
        found |= dict(zip(asked[i], answers, strict=True))
        if tick is not None:
            tick(len(asked[i]))
    for name in now.keys() - found.keys():
        found[name] = not_in_log(name, now[name])
    plan = merged([found[name] for name in now], rules, max_changes=max_changes, **about)
    plan = replace(plan, limits=(*plan.limits, *network.considered.in_words()))
    return plan if staging is None else staged(plan, [known[i] for i in sorted(known)], staging)


_CUBE, _FEW_SECONDS = 2e-11, 1.0  # seconds that a group takes, times the cube of its rows, and beside that
_PROCESS = 0.3  # GB that a process holds beside the rows of its group


def planning_cost(network: NetworkModel, *, workers: int | None = None) -> tuple[float, float]:
    """Return about how many seconds a plan takes and how many GB, from the rows of each group."""
    told = np.minimum([len(rows) for rows in network.rows()], MOST_TOLD).astype(np.float64)
    at_once = min(processes(workers), len(told))
    seconds = float((_CUBE * told**3 + _FEW_SECONDS).sum()) / at_once
    return seconds, at_once * (_PROCESS + 2 * 8e-9 * float(told.max()) ** 2)


def _calls(
    network: NetworkModel, now: Mapping[str, Present], rules: Rules, *, teach: bool
) -> tuple[dict[int, tuple[Callable[..., Any], tuple[Any, ...]]], dict[int, list[str]]]:
    """One piece of work for each group that has stations to plan for, and their names."""
    quantities = [network.reward, *network.kpis, *([] if network.around is None else [network.around])]
    newcomers = _newcomers(network, now)
    parts = [network.rows(quantity.samples.tasks) for quantity in quantities]
    calls: dict[int, tuple[Callable[..., Any], tuple[Any, ...]]] = {}
    asked: dict[int, list[str]] = {}
    for number, members in enumerate(network.groups):
        names = [name for m in members.tolist() if (name := network.stations[m]) in now] + newcomers.get(number, [])
        if not names:
            continue
        asked[number] = names
        reward, *others = (one.in_group(members, rows[number]) for one, rows in zip(quantities, parts, strict=True))
        log = _GroupLog(
            network.encoder,
            reward,
            network.seed,
            network.considered,
            newcomers.get(number, []),
            kpis=others[: len(network.kpis)],
            around=None if network.around is None else others[-1],
            users=None if network.users is None else network.users[members],
        )
        calls[number] = (partial(_planned, teach=teach), (log, {name: now[name] for name in names}, rules))
    return calls, asked


def _newcomers(network: NetworkModel, now: Mapping[str, Present]) -> dict[int, list[str]]:
    """The stations that the log does not have and something describes, by the group that they join."""
    known, stations = network.considered.descriptors, network.stations
    new = [name for name in now if known.get(name) and name not in set(stations)]
    described = np.array([m for m, name in enumerate(stations) if known.get(name)], dtype=np.int64)
    found: dict[int, list[str]] = {}
    for name in new if len(described) else ():
        kin = described[resembling(known[name], [known[stations[m]] for m in described.tolist()])]
        found.setdefault(int(np.bincount(network.group_of[kin]).argmax()), []).append(name)
    return found
