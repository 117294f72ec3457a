"""A fair comparison: who plays, what is paired, what the result says, and what is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import kinband
from kinband import Trace
from kinband.environments import MeasuredTable, SyntheticBandit
from kinband.errors import BadInputError, NotFoundError
from kinband.experiments.compare import Comparison, compare, in_words, learner_of
from kinband.experiments.runner import Case, Curve, Learner
from kinband.policies import PolicySpec
from kinband.records import Choice, Observation, Query

SMALL: dict[str, Any] = {"seeds": 2, "rounds": 2, "log_rows": 3, "n_jobs": 1, "betas": [0.3]}


class Half:
    """A similarity of one's own."""

    def fit(self, log: Any) -> Any:
        return 0.5 * np.eye(len(log.stations)) + 0.5


class FirstArm:
    """A policy of one's own."""

    def __init__(self, spec: PolicySpec) -> None:
        self.seen = 0

    def choose(self, query: Query, rng: np.random.Generator) -> Choice:
        return Choice(int(query.arms[0]), query.arms)

    def learn(self, observation: Observation) -> None:
        self.seen += 1


def table() -> MeasuredTable:
    rng = np.random.default_rng(3)
    columns = {"task": np.repeat(["a", "b", "c"], 6), "level": np.tile(np.arange(6), 3), "seconds": rng.gamma(4, 1, 18)}
    return MeasuredTable.from_frame(columns, "seconds", goal="min")


def trace() -> Trace:
    rng = np.random.default_rng(5)
    columns = {"station": np.repeat(["a", "b"], 24), "time": np.tile(np.arange(24), 2), "load": rng.random(48)}
    columns |= {"tilt": rng.integers(0, 4, 48), "reward": rng.random(48)}
    return Trace.from_frame(columns, {"configuration": ["tilt"]})


@pytest.mark.parametrize(
    ("given", "similarity", "policy"),
    [
        ("joint", "joint", "ucb"),
        ("independent", "independent", "kernel-ucb"),
        ("thompson", "joint", "thompson"),
        ("linucb", "independent", "linucb"),
        (Learner("x", "pooled"), "pooled", "ucb"),
    ],
)
def test_a_name_says_where_similarity_comes_from_and_how_it_is_decided(
    given: Any, similarity: str, policy: str
) -> None:
    found = learner_of(given)
    assert (found.similarity, found.policy) == (similarity, policy)


def test_objects_are_told_apart_by_what_they_can() -> None:
    half = Half()
    assert learner_of(half).similarity is half
    assert learner_of(half).name == "Half"
    assert (learner_of(FirstArm).policy, learner_of(FirstArm).similarity) == (FirstArm, "joint")
    assert learner_of(np.eye(2), "mine").name == "mine"
    with pytest.raises(NotFoundError) as caught:
        learner_of("magic")
    assert (caught.value.argument, "joint" in caught.value.hint) == ("learners", True)
    with pytest.raises(BadInputError, match="a learner is a name"):
        learner_of(3)


def test_learners_and_problems_of_ones_own_are_compared_with_ours() -> None:
    learners = {"half": Half(), "first arm": FirstArm, "pooled": "pooled"}
    problems = {"bandit": SyntheticBandit(), "table": table(), "log": trace(), "gcc": "gcc:exec:4"}
    found = compare(learners, problems, **SMALL)
    assert found.problems == ("bandit", "table", "log", "gcc")
    assert found.learners == ("independent", "half", "first arm", "pooled")
    summary = found.summary()
    assert len(summary) == 4 * 4
    assert set(summary["verdict"]) == {"-", "too few runs"}  # of two runs nothing can be told
    assert (summary["regret_low"] <= summary["regret"]).all()
    frame = found.frame()
    assert len(frame) == 4 * 4 * 2 * 2  # problems, learners, seeds, rounds
    assert (frame.groupby(["problem", "learner", "seed"])["regret"].diff().dropna() >= 0).all()


def test_what_is_saved_is_counted_in_pairs_of_one_seed() -> None:
    found = compare("pooled", "gcc:exec:4", **SMALL)
    last = found.frame().query("round == 2").pivot(index="seed", columns="learner", values="regret")
    saved = 1 - last["pooled"].sum() / last["independent"].sum()
    assert found.standings("gcc:exec:4")["pooled"].saved.value == pytest.approx(saved)  # type: ignore[union-attr]
    again = compare("pooled", "gcc:exec:4", **(SMALL | {"n_jobs": 2}))
    pd.testing.assert_frame_equal(found.frame(), again.frame())


def test_every_learner_plays_with_the_weight_that_suited_it_on_other_seeds() -> None:
    how = SMALL | {"betas": [0.1, 3.0], "tuning_seeds": [7, 8], "cold": True}
    found = compare(["pooled"], "gcc:exec:4", **how)
    assert found.betas["gcc:exec:4"]["pooled"] in (0.1, 3.0)
    assert found.betas["gcc:exec:4"]["independent"] in (0.1, 3.0, "krause-ong")
    assert set(found.frame()["start"]) == {"log", "cold"}
    assert set(found.frame()["seed"]) == {1, 2}
    with pytest.raises(BadInputError) as caught:
        compare("pooled", "gcc:exec:4", **(how | {"seeds": [7]}))
    assert caught.value.argument == "seeds"


def test_runs_that_are_kept_are_not_run_again(tmp_path: Path) -> None:
    said: list[str] = []
    first = compare("pooled", table(), folder=tmp_path, progress=lambda what, _: said.append(what), **SMALL)
    assert said == ["playing"] * 4
    files = {file: file.stat().st_mtime_ns for file in tmp_path.glob("*/*")}
    again = compare("pooled", table(), folder=tmp_path, **SMALL)
    assert {file: file.stat().st_mtime_ns for file in tmp_path.glob("*/*")} == files
    pd.testing.assert_frame_equal(first.frame(), again.frame())


def test_a_result_shows_itself_in_a_terminal_a_notebook_and_a_figure() -> None:
    found = compare(["pooled"], {"one": "gcc:exec:4", "two": "nodejs:ops:4"}, **SMALL)
    assert "2 learners, 2 paired runs each" in repr(found)
    assert "<table" in found._repr_html_()
    panels = found.plot()
    assert [panel.get_title(loc="left") for panel in panels] == ["one", "two"]
    axes = Figure().add_subplot()
    assert found.plot(axes, problem="two") is axes
    assert len(axes.lines) == 2
    with pytest.raises(BadInputError, match="room for one problem"):
        found.plot(axes)
    assert isinstance(compare("pooled", "gcc:exec:4", **SMALL).plot(), Axes)


@pytest.mark.parametrize("problem", ["gcc:size", "nowhere.csv", 3, object()])
def test_a_problem_that_is_none_is_refused_before_any_work(problem: Any) -> None:
    with pytest.raises((BadInputError, NotFoundError)):
        compare("pooled", problem, **SMALL)


def test_two_of_one_name_are_refused() -> None:
    for learners, problems in (([Half(), Half()], "gcc:exec:4"), ("pooled", [table(), MeasuredTable, table()][::2])):
        with pytest.raises(BadInputError, match="pass a dict"):
            compare(learners, problems, **SMALL)


def test_it_is_public() -> None:
    assert kinband.compare is compare


# --- In words ---------------------------------------------------------------------------------------------------


def curves(*, start: bool = True, **regrets: list[float]) -> list[Curve]:
    made = []
    for name, values in regrets.items():
        for seed, value in enumerate(values, start=1):
            case = Case("x", Learner(name, name), 4, seed, "sequential", start=start)
            made.append(Curve(case, np.array([4]), np.array([value]), np.array([value]), np.array([0.0]), 0.0))
    return made


def comparison(alone: list[float], shared: list[float]) -> Comparison:
    warm = curves(independent=alone, embedding=shared, prediction=[20.0, 20.0, 20.0])
    cold = curves(independent=[10.0] * 3, embedding=[12.0] * 3, prediction=[8.0] * 3)
    betas: dict[str, dict[str, float | str]] = {"x": {"independent": "krause-ong", "embedding": 0.3, "prediction": 1.0}}
    return Comparison(("independent", "embedding", "prediction"), betas, {"x": warm}, {"x": cold})


@pytest.mark.parametrize(
    ("alone", "shared", "answer"),
    [
        ([10.0, 10.0, 10.0], [6.0, 7.0, 8.0], "Sharing helps here: conditional embedding saves 30% (20% to 40%) of"),
        ([10.0, 10.0, 10.0], [12.0, 13.0, 14.0], "Sharing hurts here: even the best, conditional embedding, costs 30%"),
        ([10.0, 10.0, 10.0], [8.0, 10.0, 12.0], "Sharing makes no clear difference here: the best, conditional"),
        ([20.0, 0.0, 10.0], [12.0, 0.0, 6.0], "Sharing helps here: conditional embedding saves 40% (40% to 40%)"),
        ([0.0, 0.0, 0.0], [8.0, 10.0, 12.0], "There is nothing to save here"),
    ],
)  # fmt: skip
def test_the_answer_follows_the_interval_of_the_best(alone: list[float], shared: list[float], answer: str) -> None:
    said = in_words(comparison(alone, shared), "x")
    assert said.startswith(answer)
    assert ("the best is mutual R² and saves 20%" in said) == (max(alone) > 0)


def test_standings_say_for_every_learner_what_it_paid_and_saved() -> None:
    found = comparison([10.0, 20.0, 30.0], [5.0, 10.0, 15.0])
    rows, cold = found.standings("x"), found.standings("x", cold=True)
    assert (rows["independent"].saved, rows["independent"].beta) == (None, "krause-ong")
    assert rows["independent"].regret.value == pytest.approx(20.0)
    saved = rows["embedding"].saved
    assert saved is not None
    assert (saved.value, saved.low, saved.high) == pytest.approx((0.5, 0.5, 0.5))
    assert cold["prediction"].saved is not None
    assert cold["prediction"].saved.value == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("shared", "verdict"),
    [([5.0] * 5, "better"), ([15.0] * 5, "worse"), ([5.0, 15.0, 5.0, 15.0, 10.0], "no clear difference")],
)
def test_a_verdict_takes_a_whole_interval_and_runs_enough(shared: list[float], verdict: str) -> None:
    both = curves(independent=[10.0] * 5, pooled=shared)
    found = Comparison(("independent", "pooled"), {"x": {"independent": 1.0, "pooled": 1.0}}, {"x": both})
    assert found.standings("x")["pooled"].verdict == verdict
