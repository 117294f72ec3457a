"""Every claim about learning with its measured value: `make claims`, or `python -m benchmarks.claims`.

Runs are kept in `out/claims`, one file each; interrupted, the command goes on where it stopped, and asked again it only
reads. `--quick` is a look in three minutes, with few seeds. `--peers` lets other people's learners play as well.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import cost, newcomers
from benchmarks.findings import (
    FULL,
    LEARNERS,
    QUICK,
    Claim,
    Finding,
    Size,
    counted_plans,
    finding,
    geometric_mean,
    held,
    tuned,
    tuning_plans,
)
from benchmarks.peers import FULL as PEERS_FULL
from benchmarks.peers import (
    MISSING,
    QUICK_TASKS,
    TASKS,
    PeerFinding,
    botorch_installed,
    botorch_savings,
    measure_peers,
    peer_claims,
    peer_contests,
    peer_table,
    peers_plain,
)
from benchmarks.peers import QUICK as PEERS_QUICK
from benchmarks.running import play_all
from benchmarks.runs import BETAS, EMBEDDING, JOINT, POOLED, Contest, Plan, contests
from benchmarks.studies.newcomers import AVERAGE, DESCRIBED
from kinband.errors import BadInputError
from kinband.experiments.pages import check_place, write_between
from kinband.stats import Estimate

SAVED = {"x264 bitrate": 0.50, "x264 time": 0.50, "gcc exec": 0.25, "nodejs": 0.15}
"""What the joint model is to save of learning alone."""

MARKS = "<!-- make claims: begin -->", "<!-- make claims: end -->"
"""The lines of a page between which the tables go."""

_LONG = "40 rounds"  # of contests that take half an hour more
_SLOW = ("ColO-RAN", "smooth")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print the table, and write it beside the runs."""
    given = _parser().parse_args(arguments)
    size, folder = (QUICK if given.quick else FULL), Path(given.out)
    if given.coloran is not None and not Path(given.coloran).is_file():
        print(f"there is no file {given.coloran}: make it as docs/extend.md says", file=sys.stderr)
        return 2
    chosen = [c for c in contests(given.coloran) if not given.only or any(word in c.name for word in given.only)]
    if not given.long:
        chosen = [c for c in chosen if _LONG not in c.name]
    if given.quick:
        chosen = [c for c in chosen if not c.name.startswith(_SLOW)]
    if not chosen:
        print(f"no problem is called {' or '.join(given.only)}", file=sys.stderr)
        return 2
    if given.write is not None:
        try:
            check_place(given.write, MARKS)  # before the work, not after it
        except BadInputError as error:
            print(error, file=sys.stderr)
            return 2
    findings = measure(chosen, size, folder, workers=given.workers)
    met = _peers(given, folder) if given.peers else []
    claims = [*claims_of(findings), *peer_claims(met)]
    if given.newcomers:
        claims += newcomer_claims(size, folder, workers=given.workers)
    if given.cost:
        claims += cost_claims(folder)
    text = page(findings, claims, size, peers=met)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "table.md").write_text(text, encoding="utf-8")
    (folder / "table.json").write_text(json.dumps(_plain(findings, claims, met), indent=1), encoding="utf-8")
    print(text)
    if given.write is not None:
        write_between(given.write, text, MARKS)
    if any(found.contest.real for found in findings):
        from benchmarks.figure import draw

        draw(findings, folder / "savings.png", others=None if given.quick else botorch_savings(met))
        print(f"figure: {folder / 'savings.png'}")
    if given.coloran is None:
        print("left out: ColO-RAN, whose table is given with --coloran (docs/extend.md says how to make it)")
    if given.peers and not botorch_installed():
        print(MISSING)
    return 0


def measure(chosen: Sequence[Contest], size: Size, folder: Path, *, workers: int | None) -> list[Finding]:
    """Play whatever is not on disk, and return what was found on every problem."""
    tuning_jobs = [plan.job(folder) for contest in chosen for plan in tuning_plans(contest, size)]
    play_all(tuning_jobs, workers=workers, what="choosing β")
    counted: list[Plan] = []
    for contest in chosen:
        tuning = tuned(contest, size, folder)
        beta = {name: min(by_beta, key=by_beta.__getitem__) for name, by_beta in tuning.items()}
        counted += counted_plans(contest, size, beta)
    play_all([plan.job(folder) for plan in counted], workers=workers, what="playing")
    return [finding(contest, size, folder) for contest in chosen]


def _peers(given: argparse.Namespace, folder: Path) -> list[PeerFinding]:
    """What peers find on the problems that are asked for."""
    size, tasks = (PEERS_QUICK, QUICK_TASKS) if given.quick else (PEERS_FULL, TASKS)
    chosen = [c for c in peer_contests(tasks) if not given.only or any(word in c.name for word in given.only)]
    return measure_peers(chosen, size, folder, workers=given.workers)


def claims_of(findings: Sequence[Finding]) -> list[Claim]:
    """Return every claim that the findings can tell of."""
    claims = [_no_worse(found) for found in findings]
    if len(findings) > 1:
        mean = geometric_mean(findings)
        claims.append(
            Claim(
                "regret over the best fixed sharing",
                "geometric mean",
                "upper limit 0.97",
                f"{mean:.3f}",
                mean.high <= 0.97,
            )
        )
    for found in findings:
        if (least := SAVED.get(found.contest.name)) is not None:
            saved = found.saved()
            claims.append(
                Claim("saved of alone", found.contest.name, f"{least:.0%}", f"{saved:.0%}", saved.value >= least)
            )
    opposed = [found for found in findings if found.contest.environment == "drawn:opposed"]
    claims += [_kept(found) for found in opposed if not np.isnan(found.kept.value)]
    return [*claims, *map(_intervals, findings)]


def _kept(found: Finding) -> Claim:
    kept = found.kept
    return Claim("kept of the best fixed sharing", found.contest.name, "90%", f"{kept:.0%}", kept.value >= 0.9)


def _no_worse(found: Finding) -> Claim:
    ratio = found.ratio
    return Claim(
        f"regret over {found.best}",
        found.contest.name,
        "at most 1.05, lower limit at most 1",
        f"{ratio:.3f}",
        ratio.value <= 1.05 and ratio.low <= 1.0,
    )


def _intervals(found: Finding) -> Claim:
    share, aimed = held(found), found.contest.intervals
    kept = 0.92 <= share.value <= 0.98 if aimed else None
    return Claim(
        "predictive 95 % intervals hold", found.contest.name, "92% to 98%" if aimed else "-", f"{share:.1%}", kept
    )


def newcomer_claims(size: Size, folder: Path, *, workers: int | None) -> list[Claim]:
    """Let newcomers join on real tables, and return what their first decisions save of starting alone."""
    play_all([draw.job(folder) for draw in newcomers.draws(size)], workers=workers, what="newcomers")
    claims = []
    for found in (newcomers.welcome(arrival, size, folder) for arrival in newcomers.ARRIVALS):
        name, least = found.arrival.name, newcomers.SAVED.get(found.arrival.name, 0.0)
        first = f"saved of alone in a newcomer's first {found.arrival.decisions} decisions"
        described, average = found.saved[DESCRIBED], found.saved[AVERAGE]
        used = f"{first}, described (used in {found.used:.0%} of draws)"
        claims.append(Claim(used, name, f"{least:.0%}", f"{described:.0%}", described.value >= least))
        claims.append(Claim(f"{first}, on average", name, "-", f"{average:.0%}", None))
    return claims


def cost_claims(folder: Path) -> list[Claim]:
    """Return what learning the default model and deciding with it costs, measured one after the other."""
    play_all([cost.job(measured, folder) for measured in (*cost.LEARNINGS, None)], workers=1, what="cost")
    claims = []
    for learning in cost.LEARNINGS:
        spent = cost.read(learning, folder)["seconds"]
        what = f"105 stations x {learning.rows} rows: model"
        claims.append(Claim(what, "bundled city", f"{learning.within:g} s", f"{spent:.1f} s", spent <= learning.within))
    spent = cost.read(None, folder)
    ratio = spent["default"] / spent["paper"]
    what = f"time of {cost.DECISIONS} decisions over paper=True"
    return [*claims, Claim(what, "bundled city", f"at most {cost.RATIO}", f"{ratio:.2f}", ratio <= cost.RATIO)]


def page(findings: Sequence[Finding], claims: Sequence[Claim], size: Size, *, peers: Sequence[PeerFinding] = ()) -> str:
    """Return the tables as Markdown: claims, regrets, what β matters, and peers."""
    short = "" if size.full else " A short run: nothing is claimed from it."
    said = [f"{len(size.counted)} seeds, β chosen on {len(size.tuning)} others.{short}", ""]
    said += _table(
        ["claim", "problem", "aim", "measured (95 %)", "kept"],
        [
            [c.what, c.where, c.aim, c.measured, "-" if c.kept is None else "yes" if c.kept else "**no**"]
            for c in claims
        ],
    )
    said += ["", "Regret a decision (β of each), saving of the joint model, and what it shares:", ""]
    said += _table(
        ["problem", *LEARNERS, "saved of alone", "shared / similar / own", "fit, run (s)"],
        [_regrets(found) for found in findings],
    )
    said += ["", "Regret a decision of the joint model by β, on the seeds that choose:", ""]
    said += _table(
        ["problem", *(f"β = {beta:g}" for beta in BETAS)],
        [[f.contest.name, *(f"{f.tuning[JOINT][beta]:.4f}" for beta in BETAS)] for f in findings],
    )
    if peers:
        seeds = len(next(iter(peers[0].regret.values())))
        said += [
            "",
            f"Peers, on {seeds} seeds with β chosen on one other: regret a decision (β), seconds to fit + play:",
        ]
        said += [""]
        said += _table(*peer_table(peers))
    return "\n".join(said) + "\n"


def _regrets(found: Finding) -> list[str]:
    cells = [
        f"{found.regret[name].mean():.4f} ({found.beta[name]:g})" if name in found.regret else "-" for name in LEARNERS
    ]
    shares = " / ".join(f"{found.shares[part]:.2f}" for part in ("shared", "similar", "own"))
    return [
        found.contest.name,
        *cells,
        f"{found.saved():.0%}",
        shares,
        f"{found.seconds[0]:.1f}, {found.seconds[1]:.1f}",
    ]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows)]


def _plain(findings: Sequence[Finding], claims: Sequence[Claim], peers: Sequence[PeerFinding]) -> dict[str, Any]:
    """Everything as JSON-able values."""
    return {
        "claims": [vars(claim) for claim in claims],
        "problems": {
            found.contest.name: {
                "beta": dict(found.beta),
                "tuning": {name: {str(b): r for b, r in by.items()} for name, by in found.tuning.items()},
                "regret": {name: values.tolist() for name, values in found.regret.items()},
                "saved": {name: _numbers(found.saved(name)) for name in (JOINT, POOLED, EMBEDDING)},
                "best": found.best,
                "shares": dict(found.shares),
            }
            for found in findings
        },
        "peers": peers_plain(peers),
    }


def _numbers(estimate: Estimate) -> list[float]:
    return [estimate.value, estimate.low, estimate.high]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="make claims", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="few seeds on the quick problems: three minutes")
    parser.add_argument("--long", action="store_true", help="also 40 rounds on two of the tables: half an hour more")
    parser.add_argument("--only", nargs="+", metavar="WORD", help="problems whose name holds one of these words")
    parser.add_argument("--coloran", type=Path, help="the table of ColO-RAN, as docs/extend.md makes it")
    parser.add_argument("--newcomers", action="store_true", help="also tasks that join a network: ten minutes")
    parser.add_argument("--cost", action="store_true", help="also seconds, on a machine with nothing else to do")
    parser.add_argument("--peers", action="store_true", help="BoTorch, scikit-learn and others on some of them, too")
    parser.add_argument("--out", default="out/claims", help="where runs are kept (%(default)s)")
    parser.add_argument("--write", type=Path, help="a page to put the tables into, such as docs/tables/claims.md")
    parser.add_argument("--workers", type=int, help="processes; as many as there are cores by default")
    return parser


if __name__ == "__main__":
    sys.exit(main())
