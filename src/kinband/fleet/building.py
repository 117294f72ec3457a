"""How a fleet comes about: from what the user declares, or from a log; one set of settings per shard."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from kinband.controller import Settings
from kinband.controller.config import checked_seed
from kinband.controller.setup import checked_space, cold_settings
from kinband.errors import BadInputError, NotFoundError
from kinband.fleet.shards import Shards, shard_stations
from kinband.model import SimilarityLike, learn_model
from kinband.records import Samples
from kinband.space import ConfigurationSpace
from kinband.trace import Trace


def declared_settings(
    space: ConfigurationSpace, shards: Shards, *, log: Samples | None, seed: int, **common: Any
) -> list[Settings]:
    """Return the settings of every shard of a fleet that is declared."""
    if not isinstance(shards, Shards):
        raise BadInputError(f"shards must be Shards, got {type(shards).__name__}: shard_stations() makes them")
    parts = [part.stations for part in shards.parts]
    logs: Sequence[Samples | None] = [None] * len(parts) if log is None else split_samples(log, parts)
    return [
        cold_settings(space, part.stations, similarity=part, log=rows, seed=shard_seed(seed, shard), **common)
        for shard, (part, rows) in enumerate(zip(shards.parts, logs, strict=True))
    ]


def settings_of_trace(
    trace: Trace,
    space: ConfigurationSpace | None,
    *,
    similarity: SimilarityLike,
    blocks: Mapping[str, Hashable] | None,
    size: int,
    start: bool,
    seed: int,
    given: Mapping[str, Any],
    **common: Any,
) -> tuple[list[Settings], Shards]:
    """Return the settings of a fleet that has learned from a trace, and its shards.

    Every block has one model (scaling, kernel, similarity, noise and mean), learned from the rows of its stations; the
    shards inside it share all but the similarity, of which each has its part.
    """
    if not isinstance(trace, Trace):
        raise BadInputError(f"from_trace takes a Trace, got {type(trace).__name__}: Trace.read(path) makes one")
    trace = trace.with_space(trace.space() if space is None else checked_space(space))
    settings: list[Settings] = []
    found: list[Shards] = []
    for number, rows in enumerate(_rows_of_blocks(trace, blocks)):
        part = trace.select(rows)
        encoder = part.encoder()
        samples = part.samples(encoder)
        model = learn_model(samples, similarity, rng=np.random.default_rng([seed, 0, number]), log=part, **given)
        shards = shard_stations(model.similarity, size=size)
        logs = split_samples(samples, [part.stations for part in shards.parts])
        for alike, log in zip(shards.parts, logs, strict=True):
            settings.append(
                cold_settings(
                    encoder.space, alike.stations, state=encoder.state, similarity=alike, kernel=model.kernel,
                    noise=model.noise, mean=model.mean, features=None, log=log if start else None,
                    seed=shard_seed(seed, len(settings)), **common,
                )
            )  # fmt: skip
        found.append(shards)
    parts = tuple(part for shards in found for part in shards.parts)
    return settings, Shards(parts, sum(s.kept for s in found), sum(s.cut for s in found))


def split_samples(samples: Samples, parts: Sequence[tuple[str, ...]]) -> list[Samples]:
    """Return the rows of each group of stations, with tasks numbered anew.

    Example:
        >>> log = Samples(("a", "b"), np.array([1, 0, 1]), np.zeros((3, 1)), np.array([1.0, 2.0, 3.0]), None, ("load",))
        >>> [(part.stations, part.tasks.tolist(), part.y.tolist()) for part in split_samples(log, [("b",), ("a",)])]
        [(('b',), [0, 0], [1.0, 3.0]), (('a',), [0], [2.0])]
    """
    place = {name: (shard, task) for shard, names in enumerate(parts) for task, name in enumerate(names)}
    if missing := [name for name in samples.stations if name not in place]:
        raise NotFoundError(f"the log has {len(missing)} station(s) that are in no shard, such as {missing[0]!r}")
    where = np.array([place[name] for name in samples.stations], dtype=np.int64).reshape(-1, 2)
    shards, tasks = where[samples.tasks, 0], where[samples.tasks, 1]
    renumbered = replace(samples, tasks=tasks)
    return [
        replace(renumbered.take(np.flatnonzero(shards == shard)), stations=names) for shard, names in enumerate(parts)
    ]


def shard_seed(seed: int, shard: int) -> int:
    """Return the seed of a shard: shards with one seed in common would draw the same numbers.

    Example:
        >>> shard_seed(7, 0) == shard_seed(7, 0) != shard_seed(7, 1)
        True
    """
    return int(np.random.SeedSequence([checked_seed(seed), shard]).generate_state(1)[0])


def _rows_of_blocks(trace: Trace, blocks: Mapping[str, Hashable] | None) -> list[Any]:
    """Return which rows belong to each block, (n,) booleans, in order of the blocks' first station."""
    if blocks is None:
        return [np.ones(len(trace), dtype=np.bool_)]
    if missing := [name for name in trace.stations if name not in blocks]:
        raise NotFoundError(f"blocks does not say where station {missing[0]!r} belongs")
    numbers: dict[Hashable, int] = {}
    for name in trace.stations:
        numbers.setdefault(blocks[name], len(numbers))
    of_row = np.array([numbers[blocks[name]] for name in trace.station.tolist()])
    return [of_row == number for number in range(len(numbers))]
