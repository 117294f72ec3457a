"""Benchmarks of what decides: exact and sparse posteriors, rounds, similarity, shards, and the simulator."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from time import perf_counter

import numpy as np

from benchmarks.speed import peers
from benchmarks.speed.measure import (
    ARMS,
    NOISE,
    STATE,
    STATIONS,
    BareFactor,
    Measured,
    bench_kernel,
    controller_of,
    log_of,
    median_time,
    states_of,
    summed,
)
from kinband import ConfigurationSpace, Samples
from kinband.arrays import FloatArray
from kinband.cluster import OnRay
from kinband.contexts import ContextEncoder, StateScaler
from kinband.controller import Controller
from kinband.environments.radio import Network, Parameters, build_map, draw_layout
from kinband.kernels import RBF
from kinband.policies import UCB
from kinband.posterior import INDUCING_POINTS
from kinband.similarity.base import embedding_products
from kinband.similarity.landmarks import landmark_products
from kinband.similarity.shards import DescriptorSimilarity, coarse_blocks, shard_blocks

# --- Sequential decisions, exact ------------------------------------------------------------------------------------

Tick = Callable[[str], None]
_SIZES = (128, 512, 1024, 1536, 2048, 2560, 3072, 3584, 4000)
_PEER_SIZES = (250, 1000, 2500, 4000)


def bench_exact(*, decisions: int = 4000, tick: Tick = lambda _: None) -> Iterator[Measured]:
    """Time a run of sequential decisions, with and without the structure of shared states, against everything else."""
    tick("bare sweeps")
    sizes = [n for n in _SIZES if n < decisions] + [decisions]
    sweeps = [_bare_sweep(n) for n in sizes]
    bare = summed(sizes, sweeps, up_to=decisions)
    limit = f"bare sweeps of {ARMS} columns"
    yield Measured("exact.limit", f"{limit}, {decisions:,} sizes", bare, by_size=tuple(zip(sizes, sweeps, strict=True)))
    ours: dict[bool, float] = {}
    for structure in (False, True):
        name = "structure" if structure else "plain"
        tick(f"controller, {name}")
        steps = _run(decisions, structure=structure)
        ours[structure] = float(steps.sum())
        aim, what = "at most 0.8" if structure else "at most 1.3", f"{decisions:,} decisions, {name}"
        yield Measured(f"exact.run.{name}", what, ours[structure], limit, bare, aim, _around(sizes, steps))
    for name, aims in (("schur", (3, 5)), ("scikit-learn", (60, 60)), ("botorch", (130, 130))):
        tick(name)
        step = peers.STEPS[name]
        if not peers.available(name):
            continue
        few = _peer_sizes(name, decisions)
        seconds = [step(n) for n in few]
        total = summed(few, seconds, up_to=decisions)
        by_size = tuple(zip(few, seconds, strict=True))
        yield Measured(f"exact.{name}", f"{name}, summed from {len(few)} sizes", total, by_size=by_size)
        for structure, times in zip((False, True), aims, strict=True):
            kind = "structure" if structure else "plain"
            yield Measured(
                f"exact.{kind}.against.{name}", f"ours ({kind})", ours[structure], name, total, f"at least {times}"
            )


def _peer_sizes(name: str, decisions: int) -> Sequence[int]:
    sizes = _SIZES if name == "schur" else _PEER_SIZES
    return [n for n in sizes if n < decisions] + [decisions]


def _bare_sweep(n: int) -> float:
    rng = np.random.default_rng(n)
    factor, R = BareFactor(n, rng=rng), rng.standard_normal((n, ARMS))
    return median_time(lambda: factor.sweep(R), budget=0.3)


def _run(decisions: int, *, structure: bool) -> FloatArray:
    """Seconds of every decision of a run through the controller, ask and tell, (decisions,)."""
    rng = np.random.default_rng(1)
    controller, states = controller_of(rng, structure=structure), states_of(rng)
    stations, rewards = list(states), rng.normal(0.8, 0.1, size=decisions)
    steps = np.empty(decisions)
    for t in range(decisions):
        station = stations[t % len(stations)]
        begun = time.perf_counter()
        controller.tell(controller.ask(station, states[station]).id, float(rewards[t]))
        steps[t] = time.perf_counter() - begun
    return steps


def _around(sizes: Sequence[int], steps: FloatArray) -> tuple[tuple[int, float], ...]:
    """The median of the decisions around each size."""
    return tuple((n, float(np.median(steps[max(0, n - 25) : n + 25]))) for n in sizes)


# --- A parallel round: 105 stations with 29 arms each, decided from the same beliefs --------------------------------


def bench_round(*, rows: int = 4000, tick: Callable[[str], None] = lambda _: None) -> Iterator[Measured]:
    """Time a round against one triangular solve of the plain shape, (rows, rows) with 3,045 right-hand sides."""
    rng = np.random.default_rng(2)
    tick("one triangular solve")
    solve = _solve(rows, rng)
    limit = f"one solve of {STATIONS * ARMS:,} columns"
    yield Measured("round.limit", f"{limit}, n = {rows:,}", solve)
    for structure in (False, True):
        name = "structure" if structure else "plain"
        tick(f"round, {name}")
        controller = controller_of(np.random.default_rng(3), structure=structure, rows=rows)
        states = states_of(rng)
        seconds = median_time(partial(controller.ask_all, states), least=2)
        aim = "at most 0.6" if structure else "at most 1.3"
        yield Measured(f"round.{name}", f"round of {STATIONS} stations, {name}", seconds, limit, solve, aim)


def _solve(rows: int, rng: np.random.Generator) -> float:
    from scipy.linalg import solve_triangular

    L = np.asfortranarray(np.tril(1e-3 * rng.standard_normal((rows, rows))) + np.eye(rows))
    R = np.asfortranarray(rng.standard_normal((rows, STATIONS * ARMS)))
    return median_time(lambda: solve_triangular(L, R, lower=True, check_finite=False), least=2)


# --- Embedding distances (20) of 105 stations with 539 rows each, against two plain matrix products per pair --------
#
# Then a thousand stations by landmarks, whose work grows with their number instead of its square.

ROWS = 539
MANY = 1000
"""Stations that are compared by landmarks."""

PATIENCE = 120.0
"""Seconds that this may take on two cores."""


def bench_similarity(
    *, rows: int = ROWS, many: int = MANY, tick: Callable[[str], None] = lambda _: None
) -> Iterator[Measured]:
    """Time all pairs; the plain way is timed on a few pairs and multiplied."""
    rng = np.random.default_rng(4)
    log = log_of(STATIONS * rows, rng)
    stations = [(log.X[log.tasks == m], log.y[log.tasks == m][:, None]) for m in range(STATIONS)]
    pairs = STATIONS * (STATIONS + 1) // 2
    tick("two products per pair")
    plain = median_time(lambda: plain_pair(stations[0], stations[1]), least=3) * pairs
    limit = "two products per pair"
    yield Measured("similarity.limit", f"{limit}, {pairs:,} pairs of {rows} rows", plain)
    tick("all pairs")
    outcome = RBF(float(log.y.std()))
    ours = median_time(
        lambda: embedding_products(stations, bench_kernel(), regularisation=NOISE, outcome_kernel=outcome),
        least=1,
        budget=0.0,
    )
    yield Measured("similarity.exact", f"embedding products of {STATIONS} stations", ours, limit, plain, "at least 5")
    tick(f"{many:,} stations by landmarks")
    begun = time.perf_counter()
    made = landmark_products(
        _similar_stations(many, rows, rng), bench_kernel(), regularisation=NOISE, outcome_kernel=outcome, rng=rng
    )
    seconds = time.perf_counter() - begun
    what = f"{many:,} stations by {made.landmarks:,} landmarks; similarity off by {made.error:.3f} at most"
    yield Measured("similarity.landmarks", what, seconds, f"{PATIENCE:g} s", PATIENCE, "at most 1")


def _similar_stations(count: int, rows: int, rng: np.random.Generator) -> list[tuple[FloatArray, FloatArray]]:
    """Stations whose rewards follow ten kinds of response to states that differ between them."""
    made = []
    for m in range(count):
        log = log_of(rows, rng)
        X = log.X + np.append(0.5 * rng.standard_normal(log.X.shape[1] - 1), 0.0)
        y = 0.8 + 0.1 * np.sin(X[:, 0] + m % 10) - 0.02 * X[:, -1] ** 2 + 0.05 * rng.standard_normal(rows)
        made.append((X, y[:, None]))
    return made


def plain_pair(one: tuple[FloatArray, FloatArray], other: tuple[FloatArray, FloatArray]) -> float:
    """Return tr(A K B L) of (20) by two products, for a pair of stations with rows X (n, d) and outcomes Y (n, 1).

    A and B stand for the stations' own inverses, which are made once and not counted; here they are identities.

    Example:
        >>> x, y = np.array([[0.0] * 6]), np.array([[0.5]])
        >>> round(plain_pair((x, y), (x, y)), 3)
        0.03
    """
    (X, Y), (X_other, Y_other) = one, other
    K, L = bench_kernel()(X, X_other), RBF(0.1)(Y, Y_other)
    A, B = np.eye(len(X)), np.eye(len(X_other))
    return float(np.vdot(A @ K @ B, L))


# --- Sparse ---------------------------------------------------------------------------------------------------------
#
# A decision is timed through the controller, ask and tell, early and late in one run. What lies between is told to the
# policy directly, without asking, which changes beliefs just as much and takes less time. The limit is the bare
# arithmetic of scoring: two products of a square matrix of as many rows as there are points with one column per arm.

EARLY = 10_000
LATE = 40_000
DECISIONS = 400
"""Decisions timed at either end."""

_CHUNK = 10_000


def bench_sparse(
    *,
    early: int = EARLY,
    late: int = LATE,
    inducing_points: int = INDUCING_POINTS,
    tick: Callable[[str], None] = lambda _: None,
) -> Iterator[Measured]:
    """Time decisions early and late, against each other, the bare arithmetic and an exact posterior."""
    rng = np.random.default_rng(5)
    tick("bare products")
    A, B = rng.standard_normal((inducing_points, inducing_points)), rng.standard_normal((inducing_points, ARMS))
    bare = median_time(lambda: A @ (A @ B))
    yield Measured("sparse.limit", f"two products of {inducing_points} points with {ARMS} arms", bare)
    tick(f"learning {early:,} rows")
    controller = controller_of(rng, structure=True, engine="sparse", rows=early, inducing_points=inducing_points)
    tick(f"decisions at {early:,} rows")
    first = _decision(controller, rng)
    here = f"one decision, {inducing_points} points"
    yield Measured("sparse.early", f"{here}, {early:,} rows known", first, "two bare products", bare)
    _learn(controller, late - early, rng, tick)
    tick(f"decisions at {late:,} rows")
    last = _decision(controller, rng)
    reference = f"at {early:,} rows"
    by_size = ((early, first), (late, last))
    yield Measured("sparse.late", f"{here}, {late:,} rows known", last, reference, first, "at most 1.2", by_size)


def _decision(controller: Controller, rng: np.random.Generator) -> float:
    """Median seconds of a decision through the controller, ask and tell."""
    states, times = states_of(rng), []
    for t in range(DECISIONS):
        name = f"s{t % len(states)}"
        state = dict(zip(STATE, rng.standard_normal(len(STATE)).tolist(), strict=True))
        begun = time.perf_counter()
        controller.tell(controller.ask(name, state).id, float(rng.normal(0.8, 0.1)))
        times.append(time.perf_counter() - begun)
    return float(np.median(times))


def _learn(controller: Controller, rows: int, rng: np.random.Generator, tick: Callable[[str], None]) -> None:
    """Let the policy learn random rows, in blocks that are never kept together."""
    policy = controller.policy
    if not isinstance(policy, UCB):
        raise TypeError(f"expected UCB, got {type(policy).__name__}")
    for done in range(0, rows, _CHUNK):
        tick(f"learning, {done:,} of {rows:,} rows between")
        log = log_of(min(_CHUNK, rows - done), rng)
        policy.posterior.update(log.tasks, log.X, log.y)


# --- The simulator --------------------------------------------------------------------------------------------------

BUDGET = 0.02
"""Seconds that a step may take on one core."""


def bench_simulator(*, sectors: int = 105, tick: Callable[[str], None] = lambda _: None) -> Iterator[Measured]:
    """Time steps at a busy hour, against one pass over the powers that all users receive from all cells."""
    tick("drawing a city")
    parameters = Parameters()
    network = Network(build_map(draw_layout(sectors), parameters), parameters, seed=1, hour=18.0)
    network.run_period(np.full(sectors, -100.0), seconds=30)
    tick("steps")
    seconds = median_time(network.step, least=20, budget=2.0)
    users, cells = int(network.people.alive.sum()), network.layers * network.sectors
    powers = np.random.default_rng(0).random((users, network.layers, network.sectors), dtype=np.float32)
    one_pass = median_time(lambda: powers.sum(axis=2).max(axis=1), least=20)
    rate = users * cells / seconds
    what = f"one step, {users:,} users, {cells} cells: {rate / 1e6:.0f} million users x cells a second"
    yield Measured("simulator.limit", "one pass over all received powers", one_pass)
    yield Measured("simulator.step", what, seconds, "one pass over all received powers", one_pass)
    yield Measured("simulator.budget", "one step", seconds, f"{BUDGET:g} s of one core", BUDGET, "at most 1")


# --- A round of a country: thousands of stations in shards of up to 100, each of which knows 2,000 rewards ----------
#
# Scoring an arm of a station is a forward substitution of one column: n² operations, n being the rewards its shard
# knows. With M stations and N arms a round is M·N·n² of them: 1.2·10¹² for 10,000 stations, 29 arms and 2,000 rewards a
# shard. The round is timed, then products of the shapes that all arms' columns take, on plain arrays, in the same run.
# Their ratio can fall below 1, because a posterior that knows that the arms of a station share its state need not solve
# all their columns.

_REACH = 1.5  # distance over which stations resemble each other
_PANEL = 128  # rows that are solved at once, as in the factor of the exact posterior
_STATE = ("users", "load", "quality", "interference")
_ARMS = 29


def bench_shards(
    *,
    stations: int = 10_000,
    rows: int = 2_000,
    size: int = 100,
    ray: str | None = None,
    seed: int = 0,
    tick: Callable[[str], None] = lambda _: None,
) -> Iterator[Measured]:
    """Time a round of a controller with shards against the bare products that all arms' columns would take.

    Shards are in this process; with `ray` on the cluster at that address, or on one of its own for "local".

    Example:
        >>> [line.name for line in bench_shards(stations=6, rows=8, size=3)]
        ['shards.limit', 'shards.round', 'shards.tell', 'shards.build', 'shards.split']
    """
    rng, names = np.random.default_rng(seed), [f"st{m:05d}" for m in range(stations)]
    places = rng.random((stations, 2)) * np.sqrt(stations)  # one station per unit of area
    tick("sharding")
    alike = DescriptorSimilarity(names, places, scale=_REACH / float(places.std()))
    begun = perf_counter()
    shards = shard_blocks(coarse_blocks(names, places, size=max(1000, size)), alike, rng=rng, size=size)
    split = perf_counter() - begun
    tick("building")
    encoder = ContextEncoder(StateScaler.identity(_STATE), ConfigurationSpace(threshold_dbm=range(-112, -112 + _ARMS)))
    log = _log(shards.stations, [len(part) for part in shards.parts], encoder, rows=rows, rng=rng)
    with nullcontext() if ray is None else OnRay(None if ray == "local" else ray) as on:
        begun = perf_counter()
        controller = Controller(
            encoder.space, shards.stations, state=_STATE, similarity=shards.matrix(), kernel=RBF(1.5), noise=0.05,
            mean=0.8, engine="auto", log=log, seed=seed, on=on,
        )  # fmt: skip
        build = perf_counter() - begun
        states = {name: dict(zip(_STATE, rng.normal(size=4).tolist(), strict=True)) for name in names}
        tick("a round")
        begun = perf_counter()
        decisions = controller.ask_all(states)
        round_ = perf_counter() - begun
        tick("telling")
        begun = perf_counter()
        controller.tell_all({d.id: 0.8 for d in decisions.values()})
        tell = perf_counter() - begun
    tick("bare products")
    columns = [len(part) * _ARMS for part in shards.parts]
    products = _products(rows, columns, rng=rng)
    limit = f"the bare products of {rows**2 * sum(columns) / 1e9:,.0f}e9 operations"
    country = f"{stations:,} stations in {len(shards)} shards, n = {rows:,} in each"
    yield Measured("shards.limit", limit, products)
    yield Measured("shards.round", f"round of {country}", round_, limit, products, aim="at most 1.3")
    yield Measured("shards.tell", f"telling all {stations:,} rewards", tell)
    yield Measured("shards.build", f"building {len(shards)} shards from their logs", build)
    yield Measured("shards.split", f"sharding; {shards.lost:.0%} of similarity lies between shards", split)


def _log(
    stations: tuple[str, ...], sizes: list[int], encoder: ContextEncoder, *, rows: int, rng: np.random.Generator
) -> Samples:
    """Return `rows` rewards for every shard, its stations drawn at random."""
    first = np.repeat(np.cumsum([0, *sizes[:-1]]), rows)
    tasks = first + rng.integers(0, np.repeat(sizes, rows))
    arms = rng.integers(0, len(encoder.space), size=len(tasks))
    S = rng.normal(size=(len(tasks), len(encoder.state.names)))
    y = 0.8 + 0.1 * np.sin(S[:, 0] + 0.1 * arms) + 0.05 * rng.normal(size=len(tasks))
    return Samples(stations, tasks, encoder.encode(S, arms), y, None, encoder.features, encoder.categorical, arms)


def _products(rows: int, columns: list[int], *, rng: np.random.Generator) -> float:
    """Return the seconds of products of panels with what a forward substitution multiplies them by, once per shard."""
    L, R = rng.normal(size=(rows, rows)), rng.normal(size=(rows, max(columns)))
    begun = perf_counter()
    for m in columns:
        _sweep(L, np.ascontiguousarray(R[:, :m]))
    return perf_counter() - begun


def _sweep(L: FloatArray, R: FloatArray) -> None:
    for start in range(0, len(L), _PANEL):
        stop = min(start + _PANEL, len(L))
        rest = R[start:stop] - L[start:stop, :start] @ R[:start]
        np.matmul(L[start:stop, start:stop], rest)
