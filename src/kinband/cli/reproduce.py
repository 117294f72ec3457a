"""`kinband reproduce`: the paper's figures with intervals, beside the paper's own numbers."""

import csv
import math
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from kinband.cli.options import AsJson, KeptFolder, RayAddress, Workers
from kinband.cli.render import cell, echo_json, echo_lines, show, table
from kinband.errors import BadInputError
from kinband.experiments import readings
from kinband.experiments.compare import LABELS
from kinband.experiments.pages import check_place, marks_of, write_between
from kinband.experiments.paper import (
    FIGURES,
    PRINTED,
    Figure,
    Reproducer,
    Reproduction,
    error_curve,
    error_figure,
    matrices_figure,
    quick,
    regret_figure,
    spread_figure,
)
from kinband.parallel import processes
from kinband.progress import stage
from kinband.stats import Estimate
from kinband.version import __version__

_WHAT = ("regression", "synthetic", "similarity", "sequential", "parallel", "readings")
_TRUE_SIMILARITY = 0.8
_TITLES = {
    "regression": "regression: the similarity with the smallest error, the paper's beside ours (95 % interval)",
    "similarity": "similarity: what the methods make of the same log",
}
_NO_SHARES = ("regression", "similarity")
_NARROW = {"readings": 11}  # columns of numbers, so that the readings have room
_MARKS = marks_of("readings")


def reproduce(
    what: Annotated[str, typer.Argument(help=f"{', '.join(_WHAT)}, or all.")] = "all",
    protocol: Annotated[str, typer.Option(help="paper, fair, or both.")] = "both",
    small: Annotated[bool, typer.Option("--quick", help="Small versions, for a look in minutes.")] = False,
    out: KeptFolder = Path("out/reproduce"),
    workers: Workers = 0,
    ray: RayAddress = None,
    write: Annotated[
        Path | None,
        typer.Option(help="A Markdown page with a place for the table of readings, such as docs/tables/readings.md."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Reproduce the paper's figures, under its own protocol and under a fair one.

    "readings" varies what the print leaves open (whose rows answer, how many, λ, β, length-scale), under its protocol.

    Example: kinband reproduce synthetic --quick
    """
    wanted: tuple[str, ...] = _WHAT if what == "all" else (what,)
    if what != "all" and what not in _WHAT:
        raise BadInputError(f"there is no figure {what!r}: choose one of {', '.join(_WHAT)}, all")
    if protocol not in ("paper", "fair", "both"):
        raise BadInputError(f"protocol must be paper, fair or both, got {protocol!r}")
    protocols = ("paper", "fair") if protocol == "both" else (protocol,)
    if protocol == "fair":  # readings are of the paper's own
        wanted = tuple(name for name in wanted if name != "readings")
    _check_readings(wanted, write)
    out.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = []
    words: list[str] = []
    runner = Reproducer(out, n_jobs=workers or None, ray=ray)
    figures = {name: quick(FIGURES[name]) if small else FIGURES[name] for name in wanted if name in FIGURES}
    open_to_reading = _read_figures(small=small) if "readings" in wanted else []
    seeds = readings.SEEDS[:1] if small else readings.SEEDS
    total = sum(runner.effort(figure, protocols=protocols) for figure in figures.values())
    total += sum(readings.effort(figure, seeds=seeds) for figure in open_to_reading)
    with stage(f"reproducing {', '.join(wanted)}", total or None, seconds=total / processes(workers)) as step:
        runner.tick = step
        for name in wanted:
            if name == "regression":
                step("two-task regression", 0.0)
                rows.append(_regression(out, draws=100 if small else 2000))
            elif name == "similarity":
                step("similarities of 105 stations", 0.0)
                rows += _similarity(runner, out, quick(FIGURES["sequential"]) if small else FIGURES["sequential"])
            elif name == "readings":
                read = [one for figure in open_to_reading for one in readings.carry_out(runner, figure, seeds=seeds)]
                rows += [one.row() for one in read]
                words += readings.in_words(read)
                if write is not None:
                    write_between(write, _page(read, small=small), _MARKS)
            else:
                found = runner.reproduce(figures[name], protocols=protocols)
                rows += _compare(found, out)
                words += [found.reached()] if found.paper is not None else []
    _write(rows, out / "table.csv")
    (out / "table.md").write_text(_markdown(rows, words), encoding="utf-8")
    if as_json:
        echo_json({"rows": [_plain(row) for row in rows], "words": words})
    else:
        _print(rows)
        echo_lines(*words, f"figures and table: {out}" + (f"; readings: {write}" if write is not None else ""))


def _check_readings(wanted: tuple[str, ...], write: Path | None) -> None:
    """Refuse what cannot be written before an hour of work."""
    if not wanted:
        raise BadInputError("readings are of the paper's protocol: leave --protocol out, or say paper")
    if write is None:
        return
    if "readings" not in wanted:
        raise BadInputError("--write takes the table of readings: ask for readings, under the paper's protocol")
    check_place(write, _MARKS)


def _read_figures(*, small: bool) -> list[Figure]:
    return [quick(figure) if small else figure for figure in FIGURES.values()]


def _page(read: list[readings.Found], *, small: bool) -> str:
    """Return the table of readings for a page, with the version that was measured and what measures it."""
    table = _markdown([one.row() for one in read], readings.in_words(read)).replace(
        "| readings: problem |", "| problem |"
    )
    command = "kinband reproduce readings" + (" --quick" if small else "")
    return f"{table}\nMeasured with kinband {__version__} by `{command}`.\n"


def _regression(out: Path, *, draws: int) -> dict[str, Any]:
    curve = error_curve(draws=draws)
    error_figure(curve, _files(out, "regression"), truth=_TRUE_SIMILARITY)
    return {"experiment": "regression", "method": "place of the minimum", "printed": 0.8, "ours": curve.lowest}


def _similarity(runner: Reproducer, out: Path, figure: Figure) -> list[dict[str, Any]]:
    matrices = runner.matrices(figure)
    title = f"Similarity of the bundled city's stations from {figure.log_rows} rows each"
    matrices_figure(matrices, _files(out, "similarity"), labels=LABELS, title=title)
    rows: list[dict[str, Any]] = []
    for name, alike in matrices.items():
        pairs = alike.matrix[np.triu_indices(len(alike), 1)]
        low, middle, high = (float(q) for q in np.quantile(pairs, [0.25, 0.5, 0.75]))
        row = {"experiment": "similarity", "method": name, "quarter of pairs below": low, "median pair": middle}
        rows.append(row | {"quarter of pairs above": high})
    return rows


def _compare(found: Reproduction, out: Path) -> list[dict[str, Any]]:
    name = found.figure.name
    about = f"{found.figure.runs} runs of {found.figure.slots} slots"
    if found.paper is not None:
        title = f"{name}, the paper's protocol, {about}"
        regret_figure(found.paper.curves, _files(out, f"{name}-paper"), labels=LABELS, title=title)
        title = f"{name}: savings over the grid of settings"
        spread = {method: list(savings.values()) for method, savings in found.paper.spread.items()}
        spread_figure(spread, PRINTED[name], _files(out, f"{name}-spread"), labels=LABELS, title=title)
    if found.fair is not None:
        for suffix, curves in (("fair", found.fair.curves[name]), ("fair-cold", found.fair.cold[name])):
            title = f"{name}, fair protocol{', cold' if suffix == 'fair-cold' else ', from the log'}, {about}"
            regret_figure(curves, _files(out, f"{name}-{suffix}"), labels=LABELS, title=title)
    return list(found.rows())


def _files(out: Path, stem: str) -> list[Path]:
    return [out / f"{stem}.png", out / f"{stem}.svg"]


def _print(rows: list[dict[str, Any]]) -> None:
    for name, problem in dict.fromkeys((row["experiment"], row.get("problem")) for row in rows):
        own = [row for row in rows if (row["experiment"], row.get("problem")) == (name, problem)]
        title = _TITLES.get(name, f"{name}: regret saved, the paper's number beside ours (95 % intervals)")
        told = {"experiment"}
        if name == "readings":  # what is the same in all rows goes into the title, terminals are narrow
            title = f"readings, {problem}: regret saved against learning alone, {own[0]['printed']:.0%} printed"
            told |= {"problem", "printed"}
        columns = [column for column in dict.fromkeys(c for row in own for c in row) if column not in told]
        made = table(title=title)
        for column in columns:
            widths: dict[str, Any] = {"min_width": 24} if column == "reading" else {"max_width": _NARROW.get(name)}
            made.add_column(column, overflow="fold", **widths)
        for row in own:
            made.add_row(*(_cell(row.get(column), share=name not in _NO_SHARES) for column in columns))
        show(made)


def _cell(value: Any, *, share: bool) -> str:
    """Return a value for a narrow column: the interval goes below it."""
    if isinstance(value, Estimate):
        return cell(value, ".0%" if share else ".2f")
    return format(value, ".0%" if share else ".2f") if isinstance(value, float) else _text(value, share=share)


def _text(value: Any, *, share: bool) -> str:
    if value is None:
        return "-"
    if isinstance(value, Estimate | float):
        return format(value, ".1%" if share else ".2f")
    return str(value)


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row in JSON's types; what one run cannot tell is null."""
    plain: dict[str, Any] = {}
    for column, value in row.items():
        parts = [value.value, value.low, value.high] if isinstance(value, Estimate) else None
        plain[column] = value if parts is None else [part if math.isfinite(part) else None for part in parts]
    return plain


def _markdown(rows: list[dict[str, Any]], words: list[str]) -> str:
    """Return the tables as Markdown, for a page of results."""
    lines: list[str] = []
    for name in dict.fromkeys(row["experiment"] for row in rows):
        own = [row for row in rows if row["experiment"] == name]
        columns = [column for column in dict.fromkeys(c for row in own for c in row) if column != "experiment"]
        lines += ["", f"| {name}: {' | '.join(columns)} |", "|" + "---|" * len(columns)]
        share = name not in _NO_SHARES
        for row in own:
            cells = (_cell(row.get(column), share=share).replace("\n", " ").replace("%", " %") for column in columns)
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines[1:], "", "\n\n".join(words), ""])


def _write(rows: list[dict[str, Any]], path: Path) -> None:
    columns = list(dict.fromkeys(column for row in rows for column in row))
    with path.open("w", newline="", encoding="utf-8") as opened:
        writer = csv.DictWriter(opened, columns, restval="")
        writer.writeheader()
        for row in rows:
            share = row["experiment"] not in _NO_SHARES
            writer.writerow({c: _text(v, share=share) if v is not None else "" for c, v in row.items()})
