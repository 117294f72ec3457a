"""`kinband demo`: a simulated network that learns together, in a table and a report."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from kinband.arrays import finite_number
from kinband.cli.app import ctrl_c_ends_at_once
from kinband.cli.options import AsJson, Workers, about, make_folder
from kinband.cli.render import echo_json, echo_lines, numbers_of, show, table
from kinband.errors import BadInputError
from kinband.experiments.city import LOG_ROWS, CityLog, city_log_of, fingerprint
from kinband.experiments.demo import ALONE, SHARED, demo_cases, demo_effort, run_demo
from kinband.experiments.report.findings import (
    FIXED,
    Findings,
    Words,
    for_operators,
    headline,
    interval,
    trials,
    typeset,
    words_of,
)
from kinband.experiments.report.page import write_report
from kinband.parallel import processes
from kinband.progress import stage
from kinband.stats import Estimate
from kinband.version import __version__


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the report and its pictures.")] = Path("out/demo"),
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of a run; in each, every station decides.")] = 30,
    runs: Annotated[int, typer.Option(min=2, help="Runs, each with a seed of its own; intervals are over runs.")] = 6,
    beta: Annotated[float, typer.Option(min=0.0, help="Weight of the standard deviation in UCB.")] = 0.3,
    trace: Annotated[
        Path | None,
        typer.Option(help="Another trace written by kinband; the bundled city if not given.", show_default=False),
    ] = None,
    workers: Workers = 0,
    as_json: AsJson = False,
) -> None:
    """A network whose stations learn together, against stations that learn alone and a setting that never changes.

    On the bundled city of 105 stations this takes a minute or two on two cores. The report explains itself.

    Example: kinband demo --out out/demo
    """
    finite_number(beta, name="--beta")
    if trace is not None and not trace.is_file():
        raise BadInputError(f"there is no file {trace}: give the path of a trace, or leave --trace out")
    make_folder(out)
    with stage("reading the trace"), ctrl_c_ends_at_once():
        city = city_log_of("bundled") if trace is None else _city_log(trace)
    command = f"kinband demo --rounds {rounds} --runs {runs} --beta {beta:g}" + (f" --trace {trace}" if trace else "")
    cases = demo_cases(city, rounds=rounds, runs=runs, beta=beta)
    with _work_folder(out, city) as folder:
        what = f"{len(city.trace.stations):,} stations, {rounds} rounds, {runs} runs"
        effort = demo_effort(cases)
        with stage(what, effort, seconds=effort / processes(workers)) as step:
            found = run_demo(city, cases, folder, n_jobs=workers or None, step=step)
        with stage("writing the report"):
            files = write_report(found, out, command=command)
    findings = Findings(found)
    results = _results(findings, files, command=command)
    files.append(out / "results.json")
    files[-1].write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    if as_json:
        echo_json(results)
        return
    words = words_of(findings)
    show(_table(findings, words))
    end = f"{found.seconds:.0f} s; report: {files[0]}, pictures beside it"
    echo_lines(headline(findings), for_operators(findings, words), end)


def _city_log(trace: Path) -> CityLog:
    """Read a trace, or point to the command that takes any table."""
    try:
        with about(trace):
            return city_log_of(str(trace))
    except BadInputError as error:
        if error.code not in ("no_column", "column_map", "role_unknown"):
            raise
        hint = "only traces that kinband wrote say so, `kinband compare` takes any"
        raise BadInputError(error.problem, hint=hint) from error


@contextmanager
def _work_folder(out: Path, city: CityLog) -> Iterator[Path]:
    """Give a folder for single runs: after an interruption they are kept and taken up again, in the end they go."""
    folder = out / f".runs-{fingerprint(city.source)}"
    yield folder
    shutil.rmtree(folder)


def _results(findings: Findings, files: list[Path], *, command: str) -> dict[str, Any]:
    city = findings.demo.stage
    return {
        "command": command,
        "kinband": __version__,
        "trace": city.source,
        "rows": len(city.trace),
        "stations": len(findings.stations),
        "rounds": findings.rounds,
        "seeds": [run.case.seed for run in findings.demo.of(SHARED)],
        "beta": findings.beta,
        "today": city.space[city.today],
        "best_single": city.space[findings.best_arm],
        "log_rows": LOG_ROWS,
        "near": findings.near,
        "learners": [
            {
                "learner": name,
                "reward": numbers_of(standing.reward),
                "regret": numbers_of(standing.total_regret),
                "saved": numbers_of(standing.saved),
                "users_gained": numbers_of(standing.gain),
                "trials_until_near": standing.arrived,
                "trials_until_near_by_run": list(standing.arrivals),
                "worse_than_today": float(standing.worse.mean()),
                "far_worse_than_today": float(standing.far_worse.mean()),
            }
            for name, standing in findings.standings.items()
        ],
        "files": [str(file) for file in files],
        "seconds": round(findings.demo.seconds, 1),
    }


def _table(findings: Findings, words: Words) -> Table:
    stations, decisions = f"{len(findings.stations):,} {words.stations}", f"{findings.decisions:,} decisions"
    title = f"{stations}, {findings.runs} runs of {decisions}, β = {findings.beta} (95 % intervals)"
    counted = findings.standings[SHARED].gain is not None
    reward = "satisfied\nusers" if words.percent else "reward"
    near = "trials to\n" + words.near.replace(" a ", " a\n")
    columns = (reward, "regret saved\nagainst alone", near, "worse\nthan\ntoday")
    made = table("how it is decided", numbers=(*columns, *(["users\ngained"] if counted else [])), title=title)
    for name, standing in findings.standings.items():
        learns = name in (SHARED, ALONE)
        cells = [words.number(standing.reward.value), _cell(standing.saved, ".0%")]
        cells += [trials(standing.arrived, findings) if learns else "–"]
        cells += ["–" if name == FIXED else f"{standing.worse.mean():.0%}"]
        if counted:
            gain = None if name == FIXED else standing.gain
            cells.append("–" if gain is None else typeset(f"{gain.value:+,.0f}"))
        made.add_row(Text(words.labels[name]), *cells)
    return made


def _cell(estimate: Estimate | None, spec: str) -> str:
    return "–" if estimate is None else f"{typeset(format(estimate.value, spec))} ({interval(estimate, spec)})"
