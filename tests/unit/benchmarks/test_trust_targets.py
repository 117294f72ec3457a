"""Targets, their table, and how runs are kept."""

import json
import math
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.metrics import ratio_of, saving_gap_of
from benchmarks.trust import PARTS, measured, parts_named
from benchmarks.trust.table import BEGIN, END, cells, draw_targets, in_words, kept, markdown, to_json, write_into
from benchmarks.trust.targets import Call, Part, Runner, Size, Target, target_of

from kinband.errors import BadInputError, NotFoundError
from kinband.stats import Estimate
from kinband.version import __version__


def line(value: float = 0.4, low: float = 0.3, high: float = 0.5, **given: Any) -> Target:
    usual: dict[str, Any] = {"aim": 0.35, "sense": "at least", "runs": 20} | given
    return target_of("part", "name", Estimate(value, low, high), **usual)


@pytest.mark.parametrize(
    ("sense", "judge", "aim", "met"),
    [
        ("at least", "limit", 0.3, True),
        ("at least", "limit", 0.31, False),
        ("at least", "value", 0.4, True),
        ("at least", "value", 0.41, False),
        ("at most", "limit", 0.51, True),
        ("at most", "limit", 0.5, False),  # the upper limit must be below
        ("at most", "value", 0.4, True),
        ("at most", "value", 0.39, False),
    ],
)
def test_a_target_is_judged_by_the_limit_that_speaks_against_it_or_by_its_value(
    sense: str, judge: str, aim: float, met: bool
) -> None:
    assert line(sense=sense, judge=judge, aim=aim).met is met


@pytest.mark.parametrize("given", [{"runs": 19}, {"size": Size(short=True)}, {"runs": 40, "least_runs": 50}])
def test_a_short_run_is_judged_by_nobody(given: dict[str, Any]) -> None:
    target = line(aim=0.0, **given)
    assert (target.met, target.short, kept(target)) == (None, True, "short run")


def test_what_was_not_promised_is_neither_kept_nor_missed() -> None:
    target = line(aim=None)
    assert (target.met, cells(target)[2], kept(target)) == (None, "-", "-")


@pytest.mark.parametrize("given", [{"runs": 0}, {"runs": -3}, {"seed": 0}])
def test_a_size_without_runs_or_seeds_is_refused(given: dict[str, int]) -> None:
    with pytest.raises(BadInputError, match=f"{next(iter(given))} must be 1 or more, got {next(iter(given.values()))}"):
        Size(**given)  # type: ignore[arg-type]


def test_a_command_names_what_is_not_usual_and_no_folder() -> None:
    size = Size(runs=3, seed=5, short=True, trace="/home/somebody/table.parquet")
    assert size.command("safety") == "python -m benchmarks.trust safety --quick --runs 3 --seed 5 --trace table.parquet"


def enumerated(statistic: Any, runs: int) -> tuple[list[float], float]:
    """All equally likely resamples of a bootstrap, sorted, and the statistic of the runs themselves."""
    return sorted(statistic(list(picks)) for picks in product(range(runs), repeat=runs)), statistic(list(range(runs)))


def within(limit: float, values: list[float], share: float) -> bool:
    """Whether a limit found by 4,000 draws lies where all resamples have it, give or take four standard errors."""
    doubt = 4 * math.sqrt(share * (1 - share) / 4000)
    low, high = (values[round(q * (len(values) - 1))] for q in (share - doubt, share + doubt))
    return low - 1e-12 <= limit <= high + 1e-12


def test_a_ratio_has_the_limits_of_all_resamples() -> None:
    rng = np.random.default_rng(3)
    ours, theirs = rng.uniform(2, 9, 5), rng.uniform(2, 9, 5)
    values, ratio = enumerated(lambda p: sum(ours[i] for i in p) / sum(theirs[i] for i in p), 5)
    found = ratio_of(ours, theirs)
    assert found.value == pytest.approx(ratio)
    assert within(found.low, values, 0.025)
    assert within(found.high, values, 0.975)


def test_a_gap_of_savings_has_the_limits_of_all_resamples() -> None:
    a, b, c, d = np.random.default_rng(4).uniform(2, 9, (4, 5))

    def gap(p: list[int]) -> float:
        ours, theirs = (1 - float(sum(x[i] for i in p) / sum(y[i] for i in p)) for x, y in ((a, b), (c, d)))
        return ours - theirs

    values, whole = enumerated(gap, 5)
    found = saving_gap_of(a, b, other=c, other_baseline=d)
    assert found.value == pytest.approx(whole)
    assert within(found.low, values, 0.025)
    assert within(found.high, values, 0.975)


def test_one_run_gives_a_ratio_without_an_interval() -> None:
    found = ratio_of(np.array([3.0]), np.array([4.0]))
    assert found.value == pytest.approx(0.75)
    assert math.isnan(found.low)
    assert math.isnan(found.high)


def test_the_sentence_counts_what_is_kept_names_what_is_missed_and_says_what_was_short() -> None:
    targets = [line(aim=0.2), line(aim=0.9), line(aim=None), line(aim=0.2, runs=2)]
    said = in_words(targets)
    assert said.startswith("1 of 2 target(s) kept. Missed: part, name. Not judged: 1 target(s), short run")
    assert in_words([line(aim=None)]) == "No target was measured."


def test_the_page_has_a_row_for_each_target_and_the_notes() -> None:
    page = markdown([line(aim=0.2, note="twice as wide"), line(aim=0.9)])
    rows = [row for row in page.splitlines() if row.startswith("| part | name |")]
    assert [row.split("|")[-2].strip() for row in rows] == ["yes", "no"]
    assert all(row.count("|") == 7 for row in rows)
    assert "- part, name: twice as wide" in page
    assert f"kinband {__version__} by `python -m benchmarks.trust part`" in page


def test_json_holds_every_field_and_null_for_what_one_run_cannot_tell() -> None:
    read = json.loads(to_json([line(value=0.7, low=math.nan, high=math.nan, runs=1, style=".3f")]))
    (target,) = read["targets"]
    assert (target["value"], target["low"], target["met"], target["runs"]) == (0.7, None, None, 1)
    assert set(target) == set(Target.__dataclass_fields__)


def test_the_table_takes_its_place_in_a_page_and_leaves_the_rest(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# Before\n\n{BEGIN}\nold\n{END}\n\nAfter.\n")
    for target in (line(aim=0.2), line(aim=0.9)):
        write_into(page, [target])
        text = page.read_text()
        assert text.startswith(f"# Before\n\n{BEGIN}\n")
        assert text.endswith(f"{END}\n\nAfter.\n")
        assert "old" not in text
        assert text.count("| part | name |") == 1
        assert cells(target)[2] in text


def test_a_new_page_gets_a_place_and_one_without_is_refused(tmp_path: Path) -> None:
    write_into(tmp_path / "new.md", [line()])
    assert (tmp_path / "new.md").read_text().startswith(BEGIN)
    (tmp_path / "other.md").write_text(f"{BEGIN} but no end")
    with pytest.raises(BadInputError, match="no place for the table"):
        write_into(tmp_path / "other.md", [line()])
    assert (tmp_path / "other.md").read_text() == f"{BEGIN} but no end"


def noted(seed: int, note: str) -> dict[str, Any]:
    """Leave a trace of every call, so that calls can be counted."""
    with Path(note).open("a") as opened:
        opened.write(f"{seed}\n")
    if seed == 13:
        raise RuntimeError("unlucky")
    return {"seed": seed, "square": seed**2}


def test_records_come_in_order_are_kept_and_are_not_made_again(tmp_path: Path) -> None:
    note, said = tmp_path / "calls", []
    runner = Runner(tmp_path, workers=1, tick=lambda what, effort: said.append((what, effort)))

    def calls(*seeds: int) -> list[Call]:
        return [Call(noted, {"seed": s, "note": str(note)}, effort=float(s)) for s in seeds]

    assert [one["square"] for one in runner.records("squares", calls(2, 5, 3))] == [4, 25, 9]
    assert note.read_text().split() == ["5", "3", "2"]  # long ones first
    assert [one["square"] for one in runner.records("squares", calls(3, 4))] == [9, 16]
    assert note.read_text().split() == ["5", "3", "2", "4"]
    assert said == [("squares", effort) for effort in (5.0, 3.0, 2.0, 3.0, 4.0)]


def test_what_was_finished_before_an_error_is_kept(tmp_path: Path) -> None:
    note, runner = tmp_path / "calls", Runner(tmp_path, workers=1)
    calls = [Call(noted, {"seed": s, "note": str(note)}, effort=-s) for s in (12, 13, 14)]
    with pytest.raises(RuntimeError, match="unlucky"):
        runner.records("squares", calls)
    assert len(list((runner.folder / "records").iterdir())) == 1
    runner.records("squares", [calls[0]])
    assert note.read_text().split() == ["12", "13"]


def test_results_of_another_version_are_another_folder() -> None:
    assert Runner(Path("out")).folder == Path("out") / __version__


def test_parts_come_in_the_order_of_the_table_and_unknown_ones_are_named() -> None:
    assert [part.name for part in parts_named([])] == list(PARTS)
    assert [part.name for part in parts_named(list(reversed(PARTS)))] == list(PARTS)
    with pytest.raises(NotFoundError, match=f"no part 'luck': choose from {', '.join(PARTS)}"):
        parts_named(["safety", "luck"])


def test_a_part_plugs_in_by_what_it_measures_and_what_it_aims_at(tmp_path: Path) -> None:
    size = Size(runs=7)
    one = Part(
        "one",
        "a number",
        effort=lambda _: 1.0,
        measure=lambda asked, runner: (asked.runs, runner.out),
        targets=lambda found, _: [line(value=found[0]), line(value=len(found[1].parts))],
    )
    assert [t.value for t in measured([one], size, Runner(tmp_path))] == [7, len(tmp_path.parts)]


def test_targets_with_an_aim_are_drawn_in_panels_and_others_left_out(tmp_path: Path) -> None:
    found = [
        target_of("sharing", "city: regret", Estimate(0.96, 0.9, 1.02), aim=1.05, sense="at most", runs=20),
        target_of("sharing", "bandit: regret", Estimate(1.2, 1.1, 1.3), aim=1.05, sense="at most", runs=20),
        target_of("sharing", "city: kept", Estimate(0.96, 0.9, 1.02), aim=0.9, sense="at least", runs=20),
        target_of("sharing", "city: told", Estimate(0.96, 0.9, 1.02), aim=None, sense="at least", runs=20),
    ]
    draw_targets(found, tmp_path / "targets.svg", title="sharing")
    drawn = (tmp_path / "targets.svg").read_text()
    assert drawn.count("axes_") >= 2
    assert (tmp_path / "targets.svg").stat().st_size > 5000
