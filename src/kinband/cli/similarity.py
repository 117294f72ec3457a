"""`kinband similarity`: how alike the stations of a log are, in a table, a picture and two files."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.text import Text

from kinband.cli.options import (
    AsJson,
    LogFile,
    LogOptions,
    Rows,
    Seed,
    check_log,
    first_lines,
    make_folder,
    noted,
    used_rows,
    with_options,
)
from kinband.cli.render import echo_json, echo_lines, say, show, table
from kinband.errors import BadInputError
from kinband.model import learn_model
from kinband.similarity import TaskMatrix, similarity_from
from kinband.similarity.base import without_level
from kinband.similarity.matrix import sharing_text
from kinband.stats import counted
from kinband.trace import Trace
from kinband.trace.answers import some_of

_PAIRS = 3  # most and least alike pairs shown
_ROUNDING = 1e-9
_ALIKE = 0.7  # similarity within a group; joint, which knows how much all have in common, begins from there
_MEDIAN = (
    "the median rule calls the median pair about 0.61 alike in any log: read similarity as a ranking, "
    "or let the log decide how much to share with --sigma likelihood"
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
    out: Annotated[Path, typer.Option(help="Folder for the matrix and its picture.")] = Path("out/similarity"),
    as_json: AsJson = False,
) -> None:
    """Measure how alike the stations of a log are: who could learn from whom.

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
        make_folder(out)
        used = used_rows(log, rows, seed=seed).with_space(log.space())
        asked = first_lines(log, used, quiet=as_json)
        with Console(stderr=True, quiet=as_json).status(f"comparing {len(log.stations)} stations"):
            task_matrix = _measured(used, method, sigma=sigma, seed=seed)
        files = _write(task_matrix, out)
    if method is Method.embedding and sigma in (None, Sigma.median):
        notes.append(_MEDIAN)
    results = _results(task_matrix, used, alike=alike) | {"files": [str(file) for file in files], "notes": notes}
    results |= {"answers": asked.to_dict()}
    if as_json:
        echo_json(results)
        return
    _print(results)
    echo_lines(notes=notes, files=files)


def _measured(used: Trace, method: Method, *, sigma: Sigma | None, seed: int) -> TaskMatrix:
    """Return the similarity that a controller made from the same rows finds: first the kernel, then the measure."""
    samples = used.samples()
    if method is Method.joint:
        return learn_model(samples, "joint", rng=np.random.default_rng([seed, 0])).similarity
    alone = learn_model(samples, "independent", rng=np.random.default_rng([seed, 0]))
    kernel = without_level(alone.kernel) if method is Method.embedding else alone.kernel
    options: dict[str, Any] = {"kernel": kernel, "seed": seed}
    if noise := _NOISE.get(method):
        options[noise] = alone.noise
    if sigma is not None:
        options["sigma"] = sigma.value
    return similarity_from(method.value, **options).fit(samples)


def _write(task_matrix: TaskMatrix, out: Path) -> list[Path]:
    files = [out / f"similarity.{suffix}" for suffix in ("npz", "csv", "png")]
    for file in files[:2]:
        task_matrix.save(file)
    task_matrix.heatmap(files[2], title=f"How alike {len(task_matrix)} stations are ({task_matrix.method})")
    return files


def _results(task_matrix: TaskMatrix, used: Trace, *, alike: float | None) -> dict[str, Any]:
    K_Z, names = task_matrix.correlation(), task_matrix.stations
    first, second = np.triu_indices(len(names), 1)
    similarities = K_Z[first, second]
    order = np.argsort(-similarities, kind="stable")
    equal = bool(np.ptp(similarities) <= _ROUNDING)

    def pairs(chosen: Any) -> list[dict[str, Any]]:
        return [
            {"stations": [names[first[i]], names[second[i]]], "likeness": float(similarities[i])}
            for i in chosen.tolist()
        ]

    counts = dict(zip(*np.unique(used.station, return_counts=True), strict=True))
    halfway = alike is None and task_matrix.method == Method.joint and not equal
    if alike is None:
        alike = 0.5 * float(np.median(similarities) + similarities.max()) if halfway else _ALIKE
    groups = sorted(task_matrix.groups(alike=alike), key=len, reverse=True)
    return {
        "method": task_matrix.method,
        "details": dict(task_matrix.details),
        "stations": {name: int(counts[name]) for name in names},
        "median_likeness": float(np.median(similarities)),
        "least_likeness": float(similarities.min()),
        "all_equal": equal,
        "alike": alike,
        "alike_rule": "halfway" if halfway else "fixed",
        "groups": [list(group) for group in groups],
        "most_alike": pairs(order[:_PAIRS]),
        "least_alike": [] if equal else pairs(order[::-1][: max(0, min(_PAIRS, len(order) - _PAIRS))]),
    }


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
    if results["all_equal"]:
        say(f"All pairs are equally alike: {results['median_likeness']:.2f}")
        return
    for title, pairs in (("Most alike", results["most_alike"]), ("Least alike", results["least_alike"])):
        if said := "; ".join(f"{' and '.join(pair['stations'])} {pair['likeness']:.2f}" for pair in pairs):
            say(f"{title}: {said}")
