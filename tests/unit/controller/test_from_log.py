"""`Controller.from_log`: learned from context rows, asked with `contexts=`, and the same after a restart."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kinband import ConfigurationSpace, Controller, Samples, Trace
from kinband.drift import Drift
from kinband.environments import ClassificationBandit, SyntheticBandit
from kinband.errors import BadInputError
from kinband.kernels import RBF
from kinband.kpis import NeighbourReward

Bandit = SyntheticBandit | ClassificationBandit
BANDITS: dict[str, Any] = {
    "synthetic": lambda: SyntheticBandit(arm_feature=True, seed=4),
    "wine": lambda: ClassificationBandit("wine", tasks=4, seed=4),
}


@pytest.fixture(params=list(BANDITS))
def bandit(request: pytest.FixtureRequest) -> Bandit:
    made: Bandit = BANDITS[request.param]()
    return made


def log_of(bandit: Bandit, rows: int = 15) -> Samples:
    return bandit.log(rows, np.random.default_rng(2))


def played(controller: Controller, bandit: Bandit, rounds: int) -> list[tuple[int, float]]:
    """Play rounds and return arms with what was expected of them."""
    chosen = []
    for _ in range(rounds):
        decisions = controller.ask_all(contexts=bandit.slot.contexts)
        outcomes = bandit.play({station: decision.arm for station, decision in decisions.items()})
        for station, decision in decisions.items():
            controller.tell(decision.id, outcomes[station].reward)
            chosen.append((decision.arm, float(decision.mean or 0.0)))
    return chosen


def test_it_learns_everything_that_is_not_given(bandit: Bandit) -> None:
    log = log_of(bandit)
    controller = Controller.from_log(log, seed=3)
    settings = controller.setup
    assert (controller.similarity.method, settings.features, settings.stations) == ("joint", log.features, log.stations)
    assert settings.kernel.names[0] == f"rbf.length_scale[{log.features[0]}]"
    assert 0.0 < settings.noise < np.var(log.y)
    assert len(controller.observations()) == len(log)
    assert len(controller.space) == bandit.arms
    assert np.isfinite([mean for _, mean in played(controller, bandit, 3)]).all()


def test_it_learns_what_a_trace_of_the_same_rows_teaches() -> None:
    rng = np.random.default_rng(1)
    columns: dict[str, Any] = {"station": ["a", "b", "c"] * 20, "load": rng.random(60), "tilt": rng.integers(0, 4, 60)}
    columns["reward"] = 1.0 - 0.1 * (columns["tilt"] - 2) ** 2 + 0.05 * rng.normal(size=60)
    trace = Trace.from_frame(columns, {"configuration": ["tilt"]})
    one, two = Controller.from_trace(trace, seed=5), Controller.from_log(trace.samples(), trace.space(), seed=5)
    np.testing.assert_array_equal(one.similarity.matrix, two.similarity.matrix)
    assert (one.setup.noise, one.setup.mean) == (two.setup.noise, two.setup.mean)
    X = trace.encoder().contexts({"load": 0.4})
    asked = one.ask("a", {"load": 0.4}), two.ask("a", contexts=X)
    assert asked[0].arm == asked[1].arm
    assert asked[0].mean == pytest.approx(asked[1].mean, abs=1e-12)


def test_it_saves_loads_and_replays(bandit: Bandit, tmp_path: Path) -> None:
    controller = Controller.from_log(log_of(bandit), beta=0.5, seed=3)
    played(controller, bandit, 4)
    controller.save(tmp_path / "state")
    loaded = Controller.load(tmp_path / "state")
    replayed = Controller.resume(controller.setup, list(controller.journal))
    shown = bandit.slot.contexts
    for other in (loaded, replayed):
        assert other.setup.start is not None
        assert other.setup.start.categorical == bandit.categorical
        for station in bandit.stations:
            one, two = (c.consider(station, contexts=shown[station]) for c in (controller, other))
            assert one.arm == two.arm
            assert one.mean is not None
            assert two.mean is not None
            assert one.std is not None
            assert two.std is not None
            np.testing.assert_allclose(one.mean, two.mean, atol=1e-9)
            np.testing.assert_allclose(one.std, two.std, atol=1e-9)


def test_what_is_given_is_left_as_it_is(bandit: Bandit) -> None:
    kernel, M = RBF(0.7, variance=0.3), len(bandit.stations)
    given: dict[str, Any] = {"kernel": kernel, "noise": 0.02, "mean": 0.4, "similarity": np.eye(M), "start": False}
    controller = Controller.from_log(log_of(bandit), policy="thompson", **given)
    settings = controller.setup
    assert (settings.noise, settings.mean, settings.start, settings.config.policy) == (0.02, 0.4, None, "thompson")
    np.testing.assert_array_equal(settings.kernel.theta, kernel.bind(bandit.features).theta)
    np.testing.assert_array_equal(settings.K_Z, np.eye(M))


def test_one_station_learns_by_itself() -> None:
    bandit = ClassificationBandit("wine", tasks=1, seed=1)
    controller = Controller.from_log(log_of(bandit, 30))
    assert controller.similarity.matrix.tolist() == [[1.0]]
    assert controller.ask("t1", contexts=bandit.slot.contexts["t1"]).arm in range(3)


def test_a_paper_controller_and_one_that_forgets_learn_too(bandit: Bandit) -> None:
    assert Controller.from_log(log_of(bandit), paper=True).similarity.method == "embedding"
    controller = Controller.from_log(log_of(bandit), drift=Drift(half_life=50, reset=False))
    assert controller.setup.features is not None
    assert len(controller.setup.features) == len(bandit.features) + 1
    assert played(controller, bandit, 2)


def test_declaring_what_runs_switches_a_budget_on() -> None:
    bandit = ClassificationBandit("wine", tasks=3, seed=2)
    controller = Controller.from_log(log_of(bandit), running={"arm": 1})
    assert controller.setup.rules is not None
    assert Controller.from_log(log_of(bandit), running={"arm": 1}, safety=[]).setup.rules is None


def test_arms_that_are_not_numbered_need_a_space() -> None:
    bandit = SyntheticBandit(seed=1)
    log = replace(log_of(bandit), arms=None)
    with pytest.raises(BadInputError, match=r"does not number its arms: give a space, such as"):
        Controller.from_log(log)
    space = ConfigurationSpace(power=[1, 2, 3, 4, 5])
    assert len(Controller.from_log(log, space).space) == 5


LOG = log_of(SyntheticBandit(seed=1), 6)


@pytest.mark.parametrize(
    ("log", "words"),
    [
        ("export.csv", "from_log takes Samples, got str"),
        (LOG.take(np.zeros(0, dtype=np.int64)), "the log has no rows: there is nothing to learn"),
        (replace(LOG, features=("x0",)), "names 1 feature, its contexts have 2 columns: name every column of X"),
        (replace(LOG, features=("x0", "x0")), "features"),
        (replace(LOG, y=LOG.y[1:]), "tasks of the log has 30 rows, y has 29: give one for each"),
        (replace(LOG, tasks=LOG.tasks + 1), "tasks of the log must be whole numbers from 0 to 4"),
        (
            replace(LOG, tasks=np.asarray(LOG.tasks * 1.0, dtype=object)),
            "tasks of the log must be whole numbers from 0 to 4",
        ),
        (replace(LOG, stations=()), "at least one station"),
        (replace(LOG, categorical=(2,)), "categorical of the log must number columns from 0 to 1"),
        (replace(LOG, y=np.where(LOG.tasks == 1, np.nan, LOG.y)), "y holds nan at position 1"),
    ],
)
def test_a_log_that_cannot_be_right_gets_one_sentence(log: Any, words: str) -> None:
    with pytest.raises(BadInputError, match=words) as caught:
        Controller.from_log(log)
    assert "\n" not in str(caught.value)


def test_settings_that_make_no_sense_are_refused() -> None:
    with pytest.raises(TypeError, match="no setting 'polcy': did you mean 'policy'"):
        Controller.from_log(LOG, polcy="ucb")  # type: ignore[call-arg]
    with pytest.raises(BadInputError, match="use from_trace"):
        Controller.from_log(LOG, neighbours=NeighbourReward({"1": ["2"]}, weight=0.3))
    with pytest.raises(BadInputError, match="takes a log with times"):
        Controller.from_log(LOG, drift=Drift("learned"))
