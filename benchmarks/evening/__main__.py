"""The table: `python -m benchmarks.evening`."""

import sys
from collections.abc import Sequence
from pathlib import Path
from shutil import rmtree
from typing import Annotated

import numpy as np
import typer

from benchmarks.command import command as as_command
from benchmarks.evening.logs import LOGS, Log, write
from benchmarks.evening.scoring import HARM, Score, Worth, command, nothing, read_plan, reasons, run, score
from kinband.errors import BadInputError
from kinband.experiments.pages import check_place, marks_of, write_between
from kinband.stats import LEVEL, Estimate
from kinband.version import __version__

MARKS = marks_of("evening")
"""The lines of a page between which the table goes."""
HEAD = (
    "log",
    "gain, of what is possible",
    "a pivot's",
    "changes",
    "harmful (95 %)",
    "a pivot's",
    "intervals hold (95 %)",
    "rows used",
    "s",
    "CPU s",
    "GB",
)


def evening(
    quick: Annotated[bool, typer.Option("--quick", help="A look in minutes: small logs, one seed.")] = False,
    only: Annotated[list[str] | None, typer.Option(help="Logs whose name holds this; repeat for several.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Networks drawn of each kind.")] = 3,
    first: Annotated[int, typer.Option(min=0, help="The first seed; 1 to 10 were looked at in development.")] = 11,
    large: Annotated[bool, typer.Option("--large", help="The city of 20,000 cells, too.")] = False,
    now: Annotated[bool, typer.Option(help="Hand over the last hour as --now, or leave it out.")] = True,
    neighbours: Annotated[bool, typer.Option(help="Hand over who is a neighbour of whom, or leave it out.")] = True,
    limit: Annotated[float, typer.Option(min=1.0, help="Seconds after which a run is stopped.")] = 3600.0,
    out: Annotated[Path, typer.Option(help="Folder for plans and the table.")] = Path("out/evening"),
    write: Annotated[
        Path | None, typer.Option(help="A page to put the table into, such as docs/tables/evening.md.")
    ] = None,
) -> None:
    """Judge `kinband recommend` on logs whose truth is known, beside a pivot table.

    Example: python -m benchmarks.evening --only varied --seeds 5
    """
    chosen = named(only or [], quick=quick, large=large)
    if write is not None:
        check_place(write, MARKS)
    numbers = range(first, first + (1 if quick else seeds))
    files = {"now": now, "neighbours": neighbours}
    scores = [one for log in chosen for seed in numbers for one in judged(log, seed, out, limit=limit, **files)]
    text = page(scores)
    out.mkdir(parents=True, exist_ok=True)
    (out / "table.md").write_text(text, encoding="utf-8")
    if write is not None:
        write_between(write, text, MARKS)
    print(text)


def named(only: Sequence[str], *, quick: bool, large: bool) -> list[Log]:
    """Return the logs that are asked for."""
    chosen = [log for log in LOGS if (log.quick or not quick) and (large or not log.large)]
    chosen = [log for log in chosen if not only or any(word in log.name for word in only)]
    if not chosen:
        raise BadInputError(f"no log is called {' or '.join(only)}: there are {'; '.join(log.name for log in LOGS)}")
    return chosen


def judged(log: Log, seed: int, out: Path, *, limit: float, **handed: bool) -> list[Score]:
    """Draw a log, run the command on it and return the score, and that of the first stations if asked for.

    What is `handed` over beside the log, `command` takes.
    """
    folder = out / f"{''.join(c if c.isalnum() else '-' for c in log.name)}-{seed}"
    rmtree(folder, ignore_errors=True)
    world = log.world(seed)
    files = write(log, world, folder)
    answer = run(command(files, folder / "plan", **handed), folder, limit=limit)
    plan = nothing(world) if answer.failed else read_plan(world, files, folder / "plan", answer.said)
    files.log.unlink()  # a city's takes 100 MB, and the seed draws it again
    scores = [score(log.name, seed, world, plan=plan, answer=answer)]
    if log.also is not None:
        part = f"{log.name}: its first {log.also}", seed, world.first(log.also)
        scores.append(score(*part, plan=plan, answer=answer, rows=scores[0].rows))
    left = {} if answer.failed else dict(reasons(folder / "plan"))
    print(_line(scores[0], left), file=sys.stderr, flush=True)
    return scores


def _line(one: Score, left: dict[str, int]) -> str:
    """What is known after a run, in a line."""
    took = f"{one.answer.seconds:.1f} s, {one.answer.worked:.1f} of CPU, {one.answer.gigabytes:.2f} GB"
    if one.answer.failed:
        return f"{one.name}, seed {one.seed}: {one.answer.failed} ({took})"
    alone = ", ".join(f"{count} {why}" for why, count in left.items())
    share = one.kinband.gained / one.oracle.gained
    said = f"{share:.0%} of the gain with {one.kinband.changes} changes, {one.kinband.harmful} harmful"
    return (
        f"{one.name}, seed {one.seed}: {said}, {one.held}/{one.stated} intervals hold; {alone or 'none left'}; {took}"
    )


# --- The table ------------------------------------------------------------------------------------------------------


def page(scores: Sequence[Score]) -> str:
    """Return the table for a page."""
    by_name: dict[str, list[Score]] = {}
    for one in scores:
        by_name.setdefault(one.name, []).append(one)
    lines = [HEAD, ["---"] * len(HEAD), *(cells(name, own) for name, own in by_name.items())]
    drawn = sorted({one.seed for one in scores})
    seeds = f"{len(drawn)} (seed{'s' if len(drawn) > 1 else ''} {', '.join(map(str, drawn))})"
    about = (
        f"Measured with kinband {__version__} by `python -m benchmarks.evening`; networks drawn of each kind: {seeds}. "
        "Gains are true mean gains over the week after the log, in brackets those of the worst and the best network. "
        "*Changes* are kinband's, a pivot table's and those that a perfect plan makes. A change is *harmful* if it "
        f"loses more than {HARM:g} standard deviations of the noise, neighbours counted."
    )
    return "\n".join([*(f"| {' | '.join(line)} |" for line in lines), "", about, *failures(scores)]) + "\n"


def cells(name: str, own: Sequence[Score]) -> list[str]:
    """Return the row of a log over its seeds."""
    ours, pivots, best = ([getattr(one, who) for one in own] for who in ("kinband", "pivot", "oracle"))
    used, rows = (int(np.mean([getattr(one, what) for one in own])) for what in ("used", "rows"))
    return [
        name,
        shared(ours, best),
        shared(pivots, best),
        " / ".join(str(sum(one.changes for one in who)) for who in (ours, pivots, best)),
        harm(ours),
        harm(pivots),
        counted(sum(one.held for one in own), sum(one.stated for one in own)),
        f"{used:,} of {rows:,}",
        f"{np.mean([one.answer.seconds for one in own]):.0f}",
        f"{np.mean([one.answer.worked for one in own]):.0f}",
        f"{max(one.answer.gigabytes for one in own):.2f}",
    ]


def shared(made: Sequence[Worth], best: Sequence[Worth]) -> str:
    """Return what was gained of what is possible, and the worst and best seed of it."""
    each = [one.gained / most.gained for one, most in zip(made, best, strict=True)]
    total = sum(one.gained for one in made) / sum(most.gained for most in best)
    return f"{Estimate(total, min(each), max(each)):.0%}" if len(each) > 1 else f"{total:.0%}"


def harm(made: Sequence[Worth]) -> str:
    """Return how many changes harm, and their share with its interval."""
    return counted(sum(one.harmful for one in made), sum(one.changes for one in made))


def counted(hits: int, count: int) -> str:
    """Return a count and its share.

    Example:
        >>> counted(8, 10), counted(0, 0)
        ('8 of 10: 80% (49% to 94%)', '-')
    """
    return f"{hits:,} of {count:,}: {wilson(hits, count):.0%}" if count else "-"


def wilson(hits: int, count: int) -> Estimate:
    """Return a share with Wilson's interval.

    Example:
        >>> f"{wilson(8, 10):.3f}"
        '0.800 (0.490 to 0.943)'
    """
    from scipy.stats import binomtest

    ends = binomtest(hits, count).proportion_ci(LEVEL, method="wilson")
    return Estimate(hits / count, float(ends.low), float(ends.high))


def failures(scores: Sequence[Score]) -> list[str]:
    """Return a line for every way in which logs got no plan."""
    by_name: dict[str, str] = {one.name: one.answer.failed for one in scores if one.answer.failed}
    return ["", *(f"- {name}: no plan, {why}" for name, why in by_name.items())] if by_name else []


def main(arguments: Sequence[str]) -> int:
    """Run the command and return its exit code."""
    return as_command(evening, "benchmarks.evening", arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
