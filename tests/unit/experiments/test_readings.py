"""What the print leaves open: whose rows answer, the list of readings, and what is said of made-up curves."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kinband.cli import main
from kinband.errors import BadInputError
from kinband.experiments import paper as comparisons
from kinband.experiments.pages import check_place, marks_of, write_between
from kinband.experiments.paper import FIGURES, Figure, Reproducer, sharing_beta
from kinband.experiments.problems import answers_of
from kinband.experiments.readings import Found, Reading, carry_out, effort, found_of, in_words, readings_of
from kinband.experiments.runner import Case, Curve, Learner, Prior
from kinband.stats import Estimate
from kinband.trace import Trace

# --- Whose rows answer --------------------------------------------------------------------------------------


def small_trace(path: Path) -> Trace:
    """Three stations of 30 rows whose rewards have levels of their own; no two rows are equally far from a third."""
    rng = np.random.default_rng(4)
    station = np.repeat(["a", "b", "c"], 30)
    columns = {"station": station, "time": np.tile(np.arange(30), 3), "load": rng.normal(5, 3, 90)}
    columns |= {"users": rng.gamma(2, 100, 90), "tilt": rng.choice([1, 2, 5], 90)}
    columns["reward"] = rng.random(90) / 3 + np.repeat([0.0, 1 / 3, 2 / 3], 30)
    trace = Trace.from_frame(columns, {"configuration": ["tilt"]})
    trace.write(path)
    return trace


def case_on(environment: str) -> Case:
    learner = Learner("alone", "independent")
    return Case(environment, learner, 5, 1, "sequential", log_rows=5, prior=Prior(1.0, 0.1))


@pytest.mark.parametrize(("suffix", "everybody", "k"), [("", False, 5), (":own:3", False, 3), (":all:7", True, 7)])
def test_a_name_says_whose_rows_answer_and_how_many(suffix: str, everybody: bool, k: int, tmp_path: Path) -> None:
    """Against the k nearest rows by brute force, among those that are not in the log: the last 25 of each station."""
    trace = small_trace(tmp_path / "small.parquet")
    environment = case_on(f"{tmp_path / 'small.parquet'}{suffix}").make_problem().environment
    rest = np.tile(np.arange(30) >= 5, 3)
    states, rewards, stations = trace.state[rest], trace.reward[rest], trace.station[rest]
    tilts, arms = np.asarray(trace.configuration["tilt"])[rest], np.array([1.0, 2.0, 5.0])
    for slot in range(4):
        for station in environment.stations:
            here = np.array(list(environment.slot.states[station].values()))
            asked = [i for i in range(len(rewards)) if everybody or stations[i] == station]
            expected = []
            for tilt in arms:
                away = []
                for i in asked:
                    parts = [*((states[i] - here) / states.std(axis=0)), (tilts[i] - tilt) / arms.std()]
                    away.append((sum(part**2 for part in parts), rewards[i]))
                expected.append(sum(reward for _, reward in sorted(away)[:k]) / k)
            np.testing.assert_allclose(environment.truth(station).rewards, expected, err_msg=f"{station}, slot {slot}")
        environment.play({})


@pytest.mark.parametrize("name", ["bundled:some:5", "bundled:all", "bundled:all:many", "bundled:"])
def test_another_way_to_answer_is_refused(name: str) -> None:
    with pytest.raises(BadInputError, match=re.escape(f"bundled:all:NEIGHBOURS, got {name!r}")):
        answers_of(name)


def test_no_neighbour_at_all_is_refused(tmp_path: Path) -> None:
    small_trace(tmp_path / "small.parquet")
    with pytest.raises(BadInputError, match="neighbours"):
        case_on(f"{tmp_path / 'small.parquet'}:all:0").make_problem()


# --- The list -----------------------------------------------------------------------------------------------

USUAL = Prior(2.0, 0.01)


def words_of(name: str, prior: Prior = USUAL, beta: float | str = 0.3) -> list[str]:
    return [reading.words for reading in readings_of(FIGURES[name], (prior, beta))]


def test_each_thing_is_varied_alone_and_then_some_together() -> None:
    assert words_of("sequential") == [
        "as declared: length-scale 2, λ 0.01, β 0.3, the station's own rows, 5 neighbours",
        *("everybody's rows", "25 neighbours", "100 neighbours"),
        *("length-scale 1", "length-scale 4", "λ 0.1", "λ 0.3", "λ 1", "β 1", "β 2", "β as printed"),
        "everybody's rows, 100 neighbours, length-scale 4, λ 0.1, β 0.3",
        "everybody's rows, 100 neighbours, length-scale 2, λ 0.1, β 1",
        "everybody's rows, 5 neighbours, length-scale 4, λ 0.1, β 0.3",
        "everybody's rows, 5 neighbours, length-scale 2, λ 0.1, β 1",
    ]
    assert words_of("parallel") == words_of("sequential")


def test_the_synthetic_bandit_has_no_rows_to_read() -> None:
    assert words_of("synthetic", Prior(0.3, 0.1), 1.0) == [
        "as declared: length-scale 0.3, λ 0.1, β 1",
        *("length-scale 1", "length-scale 2", "length-scale 4", "λ 0.3", "λ 1", "β 0.3", "β 2", "β as printed"),
        *("length-scale 1, λ 0.1, β 2", "length-scale 1, λ 0.1, β as printed"),
    ]
    assert {reading.slots for reading in readings_of(FIGURES["synthetic"], (USUAL, 1.0))} == {300}


@pytest.mark.parametrize("name", FIGURES)
def test_one_thing_differs_in_what_is_varied_alone(name: str) -> None:
    declared, *others = readings_of(FIGURES[name], (USUAL, 0.3))
    combinations = 2 if name == "synthetic" else 4
    for reading in others[:-combinations]:
        differs = [
            reading.prior.length_scale != declared.prior.length_scale,
            reading.prior.noise != declared.prior.noise,
            reading.beta != declared.beta,
            reading.everybody != declared.everybody,
            reading.neighbours != declared.neighbours,
        ]
        assert sum(differs) == 1, reading.words


def test_the_declared_runs_are_those_of_the_headline() -> None:
    figure = FIGURES["sequential"]
    declared = readings_of(figure, (USUAL, 0.3))[0].cases([1, 2])
    headline = comparisons.baseline_cases(figure, [(USUAL, 0.3)])
    headline += comparisons.sharing_cases(figure, (USUAL, 0.3))
    keys = {case.key for case in headline}
    assert [case.learner.name for case in declared if case.key not in keys] == ["pooled", "pooled"]


def test_a_reading_is_played_by_all_three_at_its_own_values() -> None:
    reading = Reading(FIGURES["parallel"], "some", Prior(4.0, 1.0), "printed", 38, everybody=True, neighbours=100)
    cases = reading.cases([1, 2, 3])
    assert [case.learner.name for case in cases[::3]] == ["independent", "embedding", "pooled"]
    assert {(c.problem, c.prior, c.slots) for c in cases} == {("bundled:all:100", Prior(4.0, 1.0), 38)}
    assert {case.learner.beta for case in cases} == {"printed"}


def test_a_schedule_of_the_baseline_is_its_alone() -> None:
    figure = FIGURES["sequential"]
    assert [sharing_beta(figure, beta) for beta in ("krause-ong", "printed", 0.3)] == [1.0, "printed", 0.3]
    betas = [case.learner.beta for case in readings_of(figure, (USUAL, "krause-ong"))[0].cases([1])]
    assert betas == ["krause-ong", 1.0, 1.0]


# --- The table and its words --------------------------------------------------------------------------------


def made_up(reading: Reading, *, embedding: float, pooled: float) -> Found:
    """Curves of three seeds whose regret alone is 10, 20, 30, and smaller by these shares."""
    left = {"independent": 1.0, "embedding": 1 - embedding, "pooled": 1 - pooled}
    curves = []
    for case in reading.cases([1, 2, 3]):
        regret = np.array([0.0, 10.0 * case.seed * left[case.learner.name]])
        curves.append(Curve(case, np.array([1, 2]), regret, regret, regret, 0.0))
    return found_of(reading, curves)


def some_found(name: str, *pairs: tuple[float, float]) -> list[Found]:
    readings = readings_of(FIGURES[name], (USUAL, 0.3))
    chosen = [readings[0], readings[1], readings[-1]]
    return [made_up(one, embedding=e, pooled=p) for one, (e, p) in zip(chosen, pairs, strict=True)]


def test_a_row_tells_what_is_saved_and_who_reaches_the_print() -> None:
    rows = [one.row() for one in some_found("sequential", (0.13, 0.2), (0.65, 0.7), (0.3, 0.648))]
    assert list(rows[0]) == [
        *("experiment", "problem", "reading", "slots", "embedding saves", "pooled saves", "printed", "reached by"),
    ]
    assert [row["reached by"] for row in rows] == ["none", "embedding and pooled", "pooled"]
    saved = rows[0]["embedding saves"]
    assert isinstance(saved, Estimate)
    assert (saved.value, saved.low, saved.high) == pytest.approx((0.13, 0.13, 0.13))


def test_words_say_where_the_print_is_reached() -> None:
    first, said = in_words(some_found("sequential", (0.13, 0.2), (0.65, 0.1), (0.3, 0.38)))
    assert first == (
        "sequential: 65 % printed; embedding reaches it at 1 of 3 readings (everybody's rows), saves 13 % as declared "
        "and 65 % at most (everybody's rows); pooled reaches it at 0 of 3 readings, saves 20 % as declared and 38 % at "
        "most (everybody's rows, 5 neighbours, length-scale 2, λ 0.1, β 1)."
    )
    assert said == (
        "What the print leaves open moves what the embedding saves by 52 points. The embedding reaches its printed "
        "saving at 1 of 3 readings: without the settings the print can be neither confirmed nor refuted. On the city a "
        "printed saving is reached from everybody's rows alone: all stations then have one reward function, and "
        "sharing is right by construction. Pooling, which asks nobody who is alike, saves more than the embedding at "
        "2 of 3."
    )


def test_words_say_where_it_is_not() -> None:
    found = some_found("synthetic", (0.1, 0.0), (0.2, 0.1), (-0.3, -0.4))
    found += some_found("parallel", (0.1, 0.05), (0.2, 0.1), (0.3, 0.2))
    assert in_words(found)[-1] == (
        "What the print leaves open moves what the embedding saves by 20 to 50 points. No reading gives the embedding "
        "its printed saving: what is varied here does not explain the print. Pooling, which asks nobody who is alike, "
        "saves more than the embedding at 0 of 6."
    )


def test_own_rows_that_reach_it_are_not_called_everybodys() -> None:
    assert "by construction" not in in_words(some_found("parallel", (0.5, 0.5), (0.6, 0.6), (0.7, 0.7)))[-1]


# --- Carried out --------------------------------------------------------------------------------------------


def tiny() -> Figure:
    figure = FIGURES["synthetic"]
    small = replace(figure, slots=4, runs=2, grid=figure.grid[2:4], betas=(0.3, 1.0), spread_slots=3, spread_runs=1)
    return replace(small, finalists=1, similarity_rows=8)


def test_readings_stand_around_what_is_best_for_the_baseline(tmp_path: Path) -> None:
    efforts: list[float] = []
    runner = Reproducer(tmp_path, n_jobs=1, tick=lambda _, effort: efforts.append(effort))
    found = carry_out(runner, tiny(), seeds=[1, 2])
    # The total is told before the best setting is known, which may be one of those that are tried anyway.
    assert sum(efforts) == pytest.approx(effort(tiny(), seeds=[1, 2]), rel=0.2)
    best = runner.reproduce(tiny(), protocols=["paper"]).paper
    assert best is not None
    assert (found[0].reading.prior, found[0].reading.beta) == best.setting
    assert found[0].saved["embedding"] == comparisons.savings(best.curves)["embedding"]


def test_the_command_writes_keeps_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("kinband.cli.reproduce.FIGURES", {"synthetic": tiny()})
    monkeypatch.setattr("kinband.cli.reproduce.quick", lambda figure: figure)
    page, out = tmp_path / "page.md", tmp_path / "out"
    begin, end = marks_of("readings")
    page.write_text(f"# Results\n\n{begin}\nold\n{end}\n\nAfter.\n", encoding="utf-8")
    asked = ["reproduce", "readings", "--quick", "--workers", "1", "--out", str(out)]
    assert main([*asked, "--write", str(page)]) == 0
    assert "71% printed" in " ".join(capsys.readouterr().out.split())
    text = page.read_text(encoding="utf-8")
    assert text.startswith(f"# Results\n\n{begin}\n\n| problem | reading | slots |")
    assert text.endswith(f"by `kinband reproduce readings --quick`.\n\n{end}\n\nAfter.\n")
    assert "old" not in text
    kept = {file: file.stat().st_mtime_ns for file in out.rglob("runs/*.json")}
    assert kept
    assert main([*asked, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert {file: file.stat().st_mtime_ns for file in out.rglob("runs/*.json")} == kept
    assert [row["problem"] for row in told["rows"]] == ["synthetic"] * len(told["rows"])
    assert told["rows"][0]["embedding saves"][1:] == [None, None]  # one seed
    assert (out / "table.csv").read_text().startswith("experiment,problem,reading,slots,embedding saves")


# --- Pages --------------------------------------------------------------------------------------------------


def test_a_page_without_a_place_is_refused_before_work(tmp_path: Path) -> None:
    page, marks = tmp_path / "page.md", marks_of("readings")
    with pytest.raises(BadInputError, match="there is no page"):
        check_place(page, marks)
    page.write_text(f"{marks[1]} before {marks[0]}")
    with pytest.raises(BadInputError, match="no place for the table"):
        check_place(page, marks)
    with pytest.raises(BadInputError, match="no place for the table"):
        write_between(page, "table", marks)
    assert page.read_text() == f"{marks[1]} before {marks[0]}"
