"""`kinband similarity`: how alike the stations of a log are, in a table, a picture and two files."""

import csv
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.text import Text

from kinband.arrays import FloatArray, IntArray
from kinband.cli.options import (
    AsJson,
    LogFile,
    LogOptions,
    RayAddress,
    Rows,
    Seed,
    Workers,
    check_log,
    first_lines,
    make_folder,
    noted,
    used_rows,
    with_options,
)
from kinband.cli.render import echo_json, echo_lines, say, show, table
from kinband.errors import BadInputError
from kinband.model import Model, learn_model
from kinband.parallel import processes
from kinband.planning.network import (
    GROUP_ROWS,
    ONE_MODEL,
    CompareStations,
    group_similarity,
    learn_network,
    of_stations,
    shards_of,
)
from kinband.progress import stage
from kinband.records import Samples
from kinband.similarity import Coregionalisation, TaskMatrix, similarity_from
from kinband.similarity.base import without_level
from kinband.similarity.matrix import sharing_text
from kinband.similarity.shards import Shards
from kinband.stats import counted
from kinband.trace import Trace
from kinband.trace.answers import some_of
from kinband.trace.table import station_numbers

_SHOWN = 20  # groups of a large network listed on the screen; groups.csv lists all
_PAIRS = 3  # most and least alike pairs shown
_ROUNDING = 1e-9
_ALIKE = 0.7  # similarity within a group; joint, which knows how much all have in common, begins from there
_RANKING = (
    "similarity is a ranking, who is more alike than whom: the median pair has about 0.61 in any log, however alike "
    "stations are"
)


class Method(StrEnum):
    """The estimators that measure similarity."""

    joint = "joint"
    embedding = "embedding"
    prediction = "prediction"
    coregionalisation = "coregionalisation"


class Sigma(StrEnum):
    """How the embedding turns distance into similarity."""

    median = "median"
    median_norm = "median_norm"
    likelihood = "likelihood"


_SECONDS = {  # that a group of GROUP_ROWS rows takes on one core, about
    Method.joint: 10.0,
    Method.embedding: 0.5,
    Method.prediction: 1.5,
    Method.coregionalisation: 30.0,
}
_NOISE = {  # what they call the noise variance
    Method.embedding: "regularisation",
    Method.prediction: "noise",
}
METHODS = {
    Method.joint: "by what all have in common and who is alike in the rest, as a controller does by default (joint)",
    Method.embedding: "by how much the distributions of rewards differ (conditional embedding)",
    Method.prediction: "by how well one station's rows predict another's rewards (average R²)",
    Method.coregionalisation: "by what makes the log most likely (coregionalisation)",
}


@with_options
def similarity(
    trace: LogFile,
    columns: LogOptions = LogOptions(),
    method: Annotated[Method, typer.Option(help="How similarity is measured.")] = Method.embedding,
    sigma: Annotated[
        Sigma | None,
        typer.Option(help="With embedding: what sets how fast similarity falls; median if not given."),
    ] = None,
    alike: Annotated[
        float | None,
        typer.Option(
            min=-1.0,
            max=1.0,
            help="Similarity within a group, on average; if not given 0.7, with joint halfway from the median pair to "
            "the most alike.",
        ),
    ] = None,
    rows: Rows = None,
    seed: Seed = 0,
    workers: Workers = 0,
    ray: RayAddress = None,
    out: Annotated[Path, typer.Option(help="Folder for the matrix and its picture.")] = Path("out/similarity"),
    as_json: AsJson = False,
) -> None:
    """Measure how alike the stations of a log are: who could learn from whom.

    More than 200 stations are put into groups of up to 100 that answer alike to settings, and compared within these.

    Example: kinband similarity export.csv --station cell --reward good_share --configuration tilt
    """
    if sigma is not None and method is not Method.embedding:
        raise BadInputError(f"--sigma belongs to --method embedding, not to {method.value}")
    notes: list[str] = []
    with noted(notes):
        log = columns.read(trace)
        if len(log.stations) < 2:
            raise BadInputError(f"{trace} holds one station, {log.stations[0]!r}: similarity takes at least two")
        check_log(log)
        make_folder(out, reads=[trace], writes=["similarity.csv", "groups.csv"])
        used = used_rows(log, rows, seed=seed).with_space(log.space())
        asked = first_lines(log, used, quiet=as_json)
        shards = _measured(used, method, sigma=sigma, seed=seed, workers=workers, ray=ray)
        files = _write(shards, out)
    if method is Method.embedding and sigma in (None, Sigma.median):
        notes.append(_RANKING)
    if method is Method.coregionalisation and (dropped := _not_looked_at(shards, used)):
        notes.append(dropped)
    results = _results(shards, used, alike=alike) | {"files": [str(file) for file in files], "notes": notes}
    results |= {"answers": asked.to_dict()}
    if as_json:
        echo_json(results)
        return
    _print(results)
    echo_lines(notes=notes, files=files)


def _measured(used: Trace, method: Method, *, sigma: Sigma | None, seed: int, workers: int, ray: str | None) -> Shards:
    """Return the similarity that a controller made from the same rows finds: first the kernel, then the measure."""
    what = f"{len(used):,} rows of {counted(len(used.stations), 'station')}"
    given: dict[str, Any] = {} if sigma is None else {"sigma": sigma.value}
    compare: CompareStations = partial(_compared, method=method.value, seed=seed, **given)
    if len(used.stations) <= ONE_MODEL:
        with stage(f"comparing {what}"):
            samples = used.samples()
            how = "joint" if method is Method.joint else "independent"
            model = learn_model(samples, how, rng=np.random.default_rng([seed, 0]))
            whole = model.similarity if method is Method.joint else compare(samples, model)
            return Shards((whole,), kept=0.0, cut=0.0)
    with stage(f"learning from {what}"):
        network = learn_network(used, similarity="joint" if method is Method.joint else "independent", seed=seed)
    if method is Method.embedding:  # one scale for all groups, as their medians differ
        scales = compare(of_stations(network.reward.samples, network.sample()), network.reward.model).details
        given = {name: scales[name] for name in ("sigma", "outcome_length_scale")}
        compare = partial(compare, **given)
    what = f"comparing {counted(len(used.stations), 'station')} within {counted(len(network.groups), 'group')}"
    seconds = _SECONDS[method] * len(used) / GROUP_ROWS / processes(workers)
    with stage(what, len(used.stations), seconds=seconds) as step:
        return shards_of(network, compare, workers=workers, ray=ray, tick=lambda done: step("comparing", done))


def _compared(samples: Samples, model: Model, *, method: str, seed: int, **given: Any) -> TaskMatrix:
    """How alike some stations are, with the kernel and noise of all."""
    if method == Method.joint:
        return group_similarity(samples, model, similarity="joint", seed=seed)
    kernel = without_level(model.kernel) if method == Method.embedding else model.kernel
    options: dict[str, Any] = {"kernel": kernel, "seed": seed}
    if noise := _NOISE.get(Method(method)):
        options[noise] = model.noise
    return similarity_from(method, **options, **given).fit(samples)


def _not_looked_at(shards: Shards, used: Trace) -> str:
    """Say that the likelihood looks at some rows only, where that is so."""
    rows = dict(zip(used.stations, np.bincount(station_numbers(used)).tolist(), strict=True))
    most, largest = Coregionalisation.max_rows or 0, max(sum(rows[s] for s in part.stations) for part in shards.parts)
    where = "" if len(shards) == 1 else " of each group"
    return f"WARNING: coregionalisation looks at {most:,} rows{where}, drawn at random" if largest > most else ""


def _write(shards: Shards, out: Path) -> list[Path]:
    """Write one matrix as a table and a picture, too; of many, who is in which group."""
    if len(shards) == 1:
        (whole,) = shards.parts
        files = [out / f"similarity.{suffix}" for suffix in ("npz", "csv", "png")]
        for file in files[:2]:
            whole.save(file)
        whole.heatmap(files[2], title=f"How alike {len(whole)} stations are ({whole.method})")
        return files
    files = [out / "similarity.npz", out / "groups.csv"]
    shards.save(files[0])
    with files[1].open("w", newline="", encoding="utf-8") as text:
        writer = csv.writer(text)
        writer.writerow(["station", "group", "alike"])
        for number, part in enumerate(shards.parts, start=1):
            alike = (part.correlation().sum(axis=1) - 1.0) / max(len(part) - 1, 1)
            rows = zip(part.stations, alike.tolist(), strict=True)
            writer.writerows([name, number, f"{value:.3f}"] for name, value in rows)
    return files


def _results(shards: Shards, used: Trace, *, alike: float | None) -> dict[str, Any]:
    similarities = [_pairs(part) for part in shards.parts]
    every = np.concatenate(similarities)
    median, equal = float(np.median(every)), bool(np.ptp(every) <= _ROUNDING)
    counts = dict(zip(used.stations, np.bincount(station_numbers(used)).tolist(), strict=True))
    names = shards.parts[0].stations if len(shards) == 1 else used.stations
    results = {
        "method": shards.parts[0].method,
        "details": dict(shards.parts[0].details) if len(shards) == 1 else {},
        "stations": {name: counts[name] for name in names},
        "median_likeness": median,
        "least_likeness": float(every.min()),
        "all_equal": equal,
    }
    if len(shards) > 1:
        groups = zip(shards.parts, similarities, strict=True)
        results |= {
            "groups": [list(part.stations) for part in shards.parts],
            "median_in_group": [float(np.median(own)) if len(own) else None for _, own in groups],
            "mean_within_groups": shards.within,
            "mean_between_groups": shards.between,
        }
    else:
        results |= _groups(shards.parts[0], every, alike=alike, equal=equal)
    order = np.argsort(-every, kind="stable")
    results["most_alike"] = _named(shards, order[:_PAIRS], every)
    least = order[::-1][: max(0, min(_PAIRS, len(order) - _PAIRS))]
    return results | {"least_alike": [] if equal else _named(shards, least, every)}


def _pairs(part: TaskMatrix) -> FloatArray:
    """The similarities of all pairs of stations."""
    return np.asarray(part.correlation()[np.triu_indices(len(part), 1)])


def _named(shards: Shards, chosen: IntArray, every: FloatArray) -> list[dict[str, Any]]:
    """Pairs by their place among all, shard after shard."""
    begins = np.cumsum([0, *(len(part) * (len(part) - 1) // 2 for part in shards.parts)])
    found = []
    for place in chosen.tolist():
        number = int(np.searchsorted(begins, place, side="right")) - 1
        names = shards.parts[number].stations
        first, second = (int(of[place - begins[number]]) for of in np.triu_indices(len(names), 1))
        found.append({"stations": [names[first], names[second]], "likeness": float(every[place])})
    return found


def _groups(whole: TaskMatrix, every: FloatArray, *, alike: float | None, equal: bool) -> dict[str, Any]:
    """Who belongs together, down to some similarity."""
    halfway = alike is None and whole.method == Method.joint and not equal
    if alike is None:
        alike = 0.5 * float(np.median(every) + every.max()) if halfway else _ALIKE
    groups = sorted(whole.groups(alike=alike), key=len, reverse=True)
    rule = "halfway" if halfway else "fixed"
    return {"alike": alike, "alike_rule": rule, "groups": [list(group) for group in groups]}


def _print(results: dict[str, Any]) -> None:
    stations: dict[str, int] = results["stations"]
    low, high = min(stations.values()), max(stations.values())
    each = counted(low, "row") if low == high else f"{low:,} to {high:,} rows"
    opposite = ", below 0 for opposites" if results["least_likeness"] < 0 else ""
    say(
        f"{len(stations):,} stations with {each} each, compared {METHODS[Method(results['method'])]}.\n"
        f"Similarity is 1 for the same reward function, 0 for nothing in common{opposite}; "
        f"the median pair has {results['median_likeness']:.2f}."
    )
    if said := sharing_text(results["details"]):
        say(said)
    _print_shards(results) if "mean_between_groups" in results else _print_groups(results)
    if results["all_equal"]:
        say(f"All pairs are equally alike: {results['median_likeness']:.2f}")
        return
    for title, pairs in (("Most alike", results["most_alike"]), ("Least alike", results["least_alike"])):
        if said := "; ".join(f"{' and '.join(pair['stations'])} {pair['likeness']:.2f}" for pair in pairs):
            say(f"{title}: {said}")


def _print_shards(results: dict[str, Any]) -> None:
    groups: list[list[str]] = results["groups"]
    say(
        f"{len(groups):,} groups of stations that answer alike to settings. Two stations of a group are "
        f"{results['mean_within_groups']:.2f} alike on average, of different groups about "
        f"{results['mean_between_groups']:.2f}:"
    )
    made = table("group", numbers=("stations", "median"), more=("members",))
    for number, (names, median) in enumerate(zip(groups, results["median_in_group"], strict=True), start=1):
        if number <= _SHOWN:
            made.add_row(
                str(number), f"{len(names):,}", "-" if median is None else f"{median:.2f}", Text(some_of(names))
            )
    made.caption = f"and {len(groups) - _SHOWN:,} more in groups.csv" if len(groups) > _SHOWN else None
    show(made)


def _print_groups(results: dict[str, Any]) -> None:
    halfway = results["alike_rule"] == "halfway"
    level = f"{results['alike']:.2f}" if halfway else f"{results['alike']:g}"
    rule = " (halfway from the median pair to the most alike)" if halfway else ""
    say(f"Groups, in which stations are {level} alike or more on average{rule}:")
    made = table(numbers=("stations",), more=("members",))
    for group in (group for group in results["groups"] if len(group) > 1):
        made.add_row(f"{len(group):,}", Text(some_of(group)))
    if alone := [group[0] for group in results["groups"] if len(group) == 1]:
        made.add_row(f"{len(alone):,}", Text(f"in no group: {some_of(alone)}"))
    show(made)
