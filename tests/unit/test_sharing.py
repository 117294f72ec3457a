"""Sharing that adapts: when the matrix is estimated, what an estimate changes, who borrows how far; the paper's way."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kinband import (
    ConfigurationSpace,
    Conservative,
    Controller,
    Drift,
    Floor,
    KpiFloor,
    NeighbourReward,
    Sharing,
    Trace,
)
from kinband.controller.adapting import posterior_of
from kinband.controller.journal import Asked, Estimated, Renewed, Told
from kinband.controller.sharing import sharing_from
from kinband.drift import Reset
from kinband.errors import BadInputError, NotPositiveDefiniteError
from kinband.kernels import RBF
from kinband.posterior import WeighedPosterior
from kinband.records import Samples
from kinband.similarity import Blended

SPACE = ConfigurationSpace(knob=range(6))
STATIONS = ["a", "b", "c", "d"]
ALIKE = 0.9 * np.ones((4, 4)) + 0.1 * np.eye(4)
NOISE, MEAN = 0.012, 0.5
FLOOR = KpiFloor("p", at_least=0.3, confidence=0.7, mean=0.6, deviation=0.2, noise=0.01)


def make(stations: list[str] = STATIONS, **changes: Any) -> Controller:
    M = len(stations)
    options: dict[str, Any] = {
        "similarity": ALIKE[:M, :M], "kernel": RBF(0.9, variance=0.06), "noise": NOISE, "mean": MEAN,
        "running": {"knob": 1}, "sharing": Sharing(first=4, again=1.5), "seed": 3,
    }  # fmt: skip
    return Controller(SPACE, stations, **(options | changes))


def tell(controller: Controller, count: int, *, seed: int = 0, free: bool = True) -> None:
    """Rewards of stations in turn, those of b and d the opposite of those of the others; free to choose or not."""
    rng = np.random.default_rng(seed)
    for i in range(count):
        names = list(controller.stations)
        decision = controller.ask(names[i % len(names)], allowed=None if free else [int(rng.integers(6))])
        sign = -1.0 if decision.station in "bd" else 1.0
        reward = 0.5 + 0.25 * sign * math.cos(decision.arm / 1.6) + 0.1 * float(rng.normal())
        controller.tell(decision.id, reward)


def log_of(rows: int, *, stations: list[str] = STATIONS, seed: int = 1) -> Samples:
    rng = np.random.default_rng(seed)
    tasks, X = np.arange(rows) % len(stations), SPACE.features[rng.integers(0, 6, rows)]
    return Samples(tuple(stations), tasks, X, rng.normal(0.5, 0.2, rows), None, ("knob",))


def estimates(controller: Controller) -> list[Estimated]:
    return [entry for entry in controller.journal if isinstance(entry, Estimated)]


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is ever clearly better than what is in force."""
    monkeypatch.setattr(Blended, "weigh", lambda *_, **__: None)


# --- When -----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("kept")
@pytest.mark.parametrize(("first", "again"), [(4, 1.5), (3, 2.0), (5, 1.1), (2, 3.7)])
def test_the_matrix_is_estimated_when_rows_have_grown_by_the_factor(first: int, again: float) -> None:
    controller = make(sharing=Sharing(first=first, again=again))
    tell(controller, 60)
    expected = [4 * first]
    while math.ceil(again * expected[-1]) <= 60:
        expected.append(max(math.ceil(again * expected[-1]), expected[-1] + 1))
    assert [entry.rows for entry in estimates(controller)] == expected
    places = [i for i, entry in enumerate(controller.journal) if isinstance(entry, Estimated)]
    told = [sum(isinstance(e, Told) for e in list(controller.journal)[:place]) for place in places]
    assert told == expected  # each right behind the reward that made it due


@pytest.mark.usefixtures("kept")
def test_with_a_log_the_first_estimate_waits_until_rows_have_grown_beyond_it() -> None:
    controller = make(log=log_of(20), sharing=Sharing(first=2, again=1.5))
    tell(controller, 26)
    assert [entry.rows for entry in estimates(controller)] == [30, 45]


@pytest.mark.usefixtures("kept")
def test_a_loaded_controller_waits_as_long_as_the_one_that_was_saved(tmp_path: Path) -> None:
    controller = make(log=log_of(20), sharing=Sharing(first=2, again=1.5))
    tell(controller, 4)
    controller.save(tmp_path / "state")
    for other in (Controller.load(tmp_path / "state"), Controller.load(tmp_path / "state", rebuild=True)):
        tell(other, 8)
        assert [entry.rows for entry in estimates(other)] == [30]


@pytest.mark.usefixtures("kept")
def test_without_a_factor_or_a_second_station_nothing_is_estimated() -> None:
    never, alone = make(sharing=Sharing(again=None, first=2)), make(["a"], sharing=Sharing(first=2))
    for controller in (never, alone):
        tell(controller, 20)
        assert estimates(controller) == []
    alone.add_station("b", similarity={"a": 0.5})
    tell(alone, 1)
    assert [entry.rows for entry in estimates(alone)] == [21]


@pytest.mark.usefixtures("kept")
def test_only_stations_that_are_there_count_towards_the_first_estimate() -> None:
    fewer, more = make(sharing=Sharing(first=5)), make(sharing=Sharing(first=5))
    for name in ("c", "d"):
        fewer.remove_station(name)
    more.add_station("e", similarity={"a": 0.4})
    for controller, rows in ((fewer, 10), (more, 25)):
        tell(controller, 26)
        assert estimates(controller)[0].rows == rows


# --- What an estimate changes -----------------------------------------------------------------------------------


def test_a_matrix_that_misleads_is_replaced_and_everything_is_learned_by_the_new_one() -> None:
    controller = make()
    tell(controller, 40, free=False)
    found = [entry for entry in estimates(controller) if entry.triangle]
    assert found
    K_Z = controller.in_force.K_Z
    kind = np.array([0, 1, 0, 1])
    same = (kind[:, None] == kind) & ~np.eye(4, dtype=bool)
    assert K_Z[same].min() > K_Z[kind[:, None] != kind].max()  # they all were 0.9
    assert np.array_equal(K_Z[np.tril_indices(4)], found[-1].triangle)
    assert (found[-1].common or 0) + (found[-1].alike or 0) <= 0.9 + 1e-9
    # The same log, told to a controller that had the new matrix all along, leaves the same beliefs but for rounding.
    fresh = make(similarity=K_Z, sharing=Sharing(again=None))
    for entry in controller.journal:
        if isinstance(entry, Told):
            asked = controller.journal.find(entry.id)
            fresh.tell(fresh.ask(asked.decision.station, allowed=[asked.decision.arm]).id, entry.reward)
    assert fresh.borrowing == pytest.approx(controller.borrowing)
    for station in STATIONS:
        ours, theirs = controller.ask(station), fresh.ask(station)
        mine, other = ({a.arm: a for a in decision.alternatives} for decision in (ours, theirs))
        assert {arm: a.mean for arm, a in mine.items()} == pytest.approx({arm: a.mean for arm, a in other.items()})
        assert {arm: a.width for arm, a in mine.items()} == pytest.approx({arm: a.width for arm, a in other.items()})


def test_a_matrix_that_is_kept_leaves_the_beliefs_as_they_are(kept: None) -> None:
    controller, never = make(), make(sharing=Sharing(again=None))
    for one in (controller, never):
        tell(one, 30)
    assert estimates(controller)
    assert not any(entry.triangle for entry in estimates(controller))
    assert not controller.journal.shaping
    mine, theirs = controller.policy.state(), never.policy.state()  # type: ignore[attr-defined]
    assert all(np.array_equal(mine[name], theirs[name]) for name in mine)


def test_rewards_are_learned_even_where_no_estimate_can_be_made(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise NotPositiveDefiniteError("raise the noise")

    monkeypatch.setattr(Blended, "weigh", fails)
    controller = make()
    tell(controller, 20)
    assert len(controller) == 20
    assert [(entry.rows, entry.triangle) for entry in estimates(controller)] == [(16, ())]
    assert controller.in_force.K_Z.tolist() == ALIKE.tolist()
    assert "after 16 rows sharing could not be estimated anew: raise the noise" in caplog.text


def test_a_decision_of_the_past_is_explained_by_the_matrix_of_then() -> None:
    controller = make()
    tell(controller, 40, free=False)
    place = next(i for i, e in enumerate(controller.journal) if isinstance(e, Estimated) and e.triangle)
    asked = [e for e in list(controller.journal)[:place] if isinstance(e, Asked)][-1]
    reason = controller.explain(asked.decision.id)
    assert reason.evidence is not None
    assert reason.evidence.width == pytest.approx(asked.decision.width)
    last = controller.ask("a")
    assert controller.explain(last.id).evidence.width == pytest.approx(last.width)  # type: ignore[union-attr]


def test_a_budget_is_counted_anew_reward_by_reward_also_under_floors_of_kpis() -> None:
    extras: list[dict[str, Any]] = [{}, {"kpis": [FLOOR]}]
    for extra in extras:
        controller = make(safety=Conservative(0.3), **extra)
        tell(controller, 40)
        assert any(entry.triangle for entry in estimates(controller))
        controller.rebuild()
        taught: Any = controller.in_force.factory()(controller.in_force.setting())
        for row in controller.observations():
            taught.learn(row)
        ours: Any = controller.policy
        mine, theirs = (getattr(p, "inner", p) if extra else p for p in (ours, taught))
        assert np.any(mine.budget.settled != 0.0)
        np.testing.assert_allclose(mine.budget.settled, theirs.budget.settled, atol=1e-9)


def test_levels_of_super_ucb_learn_their_own_decisions_alone_after_an_estimate() -> None:
    controller = make(policy="super-ucb", options={"horizon": 60}, beta=1.0)
    tell(controller, 40)
    assert any(entry.triangle for entry in estimates(controller))
    policy: Any = controller.policy
    levels = [controller.decision(key).memo["level"] for key in controller.journal.told]
    assert [len(level) for level in policy.levels] == [levels.count(s + 1) for s in range(len(policy.levels))]
    assert len(set(levels)) > 1


# --- Who borrows how far ----------------------------------------------------------------------------------------


def test_a_decision_keeps_the_weight_that_it_was_made_with_and_asking_moves_none() -> None:
    controller = make(sharing=Sharing(again=None))
    tell(controller, 13)
    before = controller.borrowing
    assert before is not None
    made = controller.ask_all({name: {} for name in STATIONS})
    assert {name: decision.memo["sharing"] for name, decision in made.items()} == before == controller.borrowing
    assert len({*before.values()}) > 1
    assert json.loads(json.dumps(before)) == before


@pytest.mark.parametrize(
    "extra",
    [{"safety": Floor(0.4)}, {"kpis": [FLOOR]}, {"kpis": [FLOOR], "safety": Conservative(0.3)}, {"policy": "thompson"}],
    ids=["floor", "KPIs", "both", "thompson"],
)
def test_weights_are_found_below_floors_and_rules(extra: dict[str, Any]) -> None:
    controller = make(sharing=Sharing(again=None), **extra)
    tell(controller, 12)
    posterior = posterior_of(controller.policy)
    assert isinstance(posterior, WeighedPosterior)
    assert controller.borrowing == dict(zip(STATIONS, posterior.weights.of(np.arange(4)).tolist(), strict=True))


def test_without_weights_nothing_is_said_of_borrowing() -> None:
    plain = make(sharing=None)
    tell(plain, 5)
    assert plain.borrowing is None
    assert "sharing" not in plain.ask("a").memo
    for changes in ({"sharing": Sharing(weighed=False)}, {"policy": "random"}, {"policy": "linucb"}):
        assert make(**changes).borrowing is None


def test_weights_go_with_the_stations_that_are_there() -> None:
    controller = make(sharing=Sharing(again=None))
    tell(controller, 40)
    posterior: Any = posterior_of(controller.policy)
    controller.remove_station("c")
    controller.add_station("e", similarity={"a": 0.3})
    found = controller.borrowing
    assert found is not None
    assert list(found) == ["a", "b", "d", "e"]
    assert found["e"] == posterior.weights.fleet
    assert found["d"] == float(posterior.weights.of(3))


def test_a_station_that_has_changed_borrows_as_a_newcomer() -> None:
    controller = make(sharing=Sharing(again=None), drift=Drift(reset=Reset(3.0, kept=0.4)))
    tell(controller, 8)
    for reward in [0.5] * 12 + [-0.5] * 8:
        controller.tell(controller.ask("a", allowed=[0]).id, reward)
        if any(isinstance(entry, Renewed) for entry in controller.journal):
            break
    posterior: Any = posterior_of(controller.policy)
    assert controller.in_force.task("a") == 4
    assert controller.borrowing is not None
    assert controller.borrowing["a"] == posterior.weights.fleet != float(posterior.weights.of(0))


def test_a_corrected_reward_leaves_the_weights_of_a_controller_that_was_told_it_right() -> None:
    wrong, right = make(sharing=Sharing(again=None)), make(sharing=Sharing(again=None))
    for controller in (wrong, right):
        for i, station in enumerate(STATIONS * 4):
            reward = 5.0 if controller is wrong and i == 3 else 0.5 + 0.02 * (i % 7)
            controller.tell(controller.ask(station, allowed=[i % 6]).id, reward)
    assert wrong.borrowing != right.borrowing
    wrong.correct("d000004", 0.5 + 0.02 * 3)
    assert wrong.borrowing == right.borrowing
    mine, theirs = wrong.policy.state(), right.policy.state()  # type: ignore[attr-defined]
    assert all(np.array_equal(mine[name], theirs[name]) for name in mine)


# --- What is declared, and what is stored -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"again": 1}, "factor above 1"),
        ({"again": float("nan")}, "again"),
        ({"again": "often"}, "again"),
        ({"first": 1}, "from 2 on"),
        ({"first": 2.5}, "from 2 on"),
        ({"first": True}, "from 2 on"),
        ({"weighed": 1}, "True or False"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInputError, match=words):
        Sharing(**given)


def test_rules_by_name_and_what_is_none() -> None:
    assert sharing_from("adaptive") == sharing_from(True) == Sharing()
    assert sharing_from(None) is sharing_from(False) is None
    assert make(sharing="adaptive").settings.sharing == Sharing()
    for wrong in ("often", 3, Sharing):
        with pytest.raises(BadInputError, match='sharing is "adaptive"'):
            make(sharing=wrong)


def test_the_papers_own_update_cannot_be_weighed() -> None:
    with pytest.raises(BadInputError, match="choose engine='auto'"):
        make(engine="schur")


def test_what_is_not_used_is_not_written_and_what_is_comes_back(tmp_path: Path) -> None:
    plain, adaptive = make(sharing=None, running=None), make(sharing=Sharing(weighed=True, again=3.5, first=7))
    for name, controller in (("plain", plain), ("adaptive", adaptive)):
        tell(controller, 5)
        controller.save(tmp_path / name)
    manifests = {name: json.loads((tmp_path / name / "manifest.json").read_text()) for name in ("plain", "adaptive")}
    assert "sharing" not in manifests["plain"]["settings"]
    assert manifests["plain"]["schema"] == 1
    assert manifests["adaptive"]["schema"] == 3
    assert Controller.load(tmp_path / "adaptive").settings.sharing == Sharing(weighed=True, again=3.5, first=7)


def test_an_estimate_in_a_log_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    controller = make()
    tell(controller, 40, free=False)
    entries = list(controller.journal)
    place = next(i for i, e in enumerate(entries) if isinstance(e, Estimated) and e.triangle)
    found = entries[place]
    assert isinstance(found, Estimated)
    for triangle in (found.triangle[:-1], (1.0, 7.0, *found.triangle[2:])):  # too short, and no task matrix
        edited = [*entries[:place], Estimated(found.rows, found.common, found.alike, triangle), *entries[place + 1 :]]
        with pytest.raises(BadInputError):
            Controller.resume(controller.settings, edited)


# --- The paper's way ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "beyond",
    [
        {"sharing": "adaptive"},
        {"safety": Floor(0.1)},
        {"kpis": [FLOOR]},
        {"neighbours": NeighbourReward({"a": ["b"]}, weight=0.5)},
        {"reward": {"p": 1.0}},
        {"drift": Drift()},
        {"engine": "sparse"},
        {"mean": 0.5},
        {"options": {"rounds": "aware"}},
    ],
    ids=lambda given: next(iter(given)),
)
def test_the_papers_way_refuses_what_goes_beyond_it(beyond: dict[str, Any]) -> None:
    with pytest.raises(BadInputError, match="paper=True"):
        make(paper=True, **({"sharing": None, "mean": 0.0} | beyond))


def test_the_papers_way_decides_as_a_plain_controller_does(tmp_path: Path) -> None:
    plain, paper = make(sharing=None, mean=0.0, engine="exact"), make(sharing=None, mean=0.0, paper=True)
    for controller in (plain, paper):
        tell(controller, 20)
    assert [a.decision for a in plain.journal.asked.values()] == [a.decision for a in paper.journal.asked.values()]
    assert paper.settings.engine == "exact"
    assert make(sharing=None, mean=0.0, paper=True, engine="schur").settings.engine == "schur"
    paper.save(tmp_path / "state")
    assert json.loads((tmp_path / "state" / "manifest.json").read_text())["schema"] == 1


def trace_of(rows: int = 48) -> Trace:
    rng = np.random.default_rng(4)
    columns: dict[str, Any] = {"station": ["a", "b", "c"] * (rows // 3), "load": rng.random(rows)}
    columns["knob"] = rng.integers(0, 6, rows)
    columns["reward"] = 0.5 + 0.2 * np.cos(columns["knob"] / 1.6) + 0.1 * rng.normal(size=rows)
    return Trace.from_frame(columns, {"configuration": ["knob"]})


def from_trace(**given: Any) -> Controller:
    options: dict[str, Any] = {"kernel": RBF([1.1, 0.9], variance=0.07), "noise": NOISE}
    return Controller.from_trace(trace_of(), SPACE, **(options | given))


def test_from_a_log_sharing_is_learned_and_kept_in_check_unless_a_similarity_is_named() -> None:
    usual = from_trace()
    assert usual.settings.notes["similarity"] == "blended"
    assert usual.settings.sharing == Sharing()
    assert set(usual.borrowing or {}) == {"a", "b", "c"}
    named = from_trace(similarity="embedding")
    assert (named.settings.notes["similarity"], named.settings.sharing, named.borrowing) == ("embedding", None, None)
    unchecked, both = from_trace(sharing=False), from_trace(similarity="pooled", sharing="adaptive")
    assert (unchecked.settings.notes["similarity"], unchecked.settings.sharing) == ("blended", None)
    assert (both.settings.notes["similarity"], both.settings.sharing) == ("pooled", Sharing())


def test_from_a_log_the_papers_way_is_the_embedding_around_zero() -> None:
    paper, plain = from_trace(paper=True), from_trace(similarity="embedding", mean=0.0, engine="exact")
    assert (paper.settings.notes["similarity"], paper.settings.mean, paper.settings.sharing) == ("embedding", 0.0, None)
    assert np.array_equal(paper.settings.K_Z, plain.settings.K_Z)
    assert paper.ask("b", {"load": 0.4}) == plain.ask("b", {"load": 0.4})
    for beyond in ({"sharing": "adaptive"}, {"mean": 0.3}, {"kpis": [FLOOR]}):
        with pytest.raises(BadInputError, match="paper=True"):
            from_trace(paper=True, **beyond)


def test_nothing_is_borrowed_where_there_is_nobody_to_borrow_from() -> None:
    alone = Controller(ConfigurationSpace(tilt=[2, 4]), ["a", "b", "c"], similarity=np.eye(3), sharing="adaptive")
    assert alone.borrowing == {"a": 0.0, "b": 0.0, "c": 0.0}


@pytest.mark.parametrize("again", ["2", np.array([2.0, 3.0]), True + 0.0])
def test_a_factor_that_is_none_is_refused_when_the_rule_is_made(again: Any) -> None:
    with pytest.raises(BadInputError, match="again is a factor above 1"):
        Sharing(again=again)


def test_a_sharing_that_is_no_rule_is_refused_in_a_sentence() -> None:
    with pytest.raises(BadInputError, match="sharing is"):
        Controller(ConfigurationSpace(tilt=[2, 4]), ["a"], sharing=np.array([1, 2]))  # type: ignore[arg-type]


def test_a_reward_beyond_all_numbers_is_said_at_the_next_decision_and_can_be_put_right() -> None:
    controller = Controller(ConfigurationSpace(tilt=[2, 4]), ["a", "b"], similarity="pooled", sharing="adaptive")
    decision = controller.ask("a")
    with np.errstate(all="ignore"):
        controller.tell(decision.id, 1e160)
        with pytest.raises(BadInputError, match="not finite: look for an absurd reward"):
            controller.ask("b")
    controller.correct(decision.id, 0.8)
    assert controller.ask("a").mean is not None
