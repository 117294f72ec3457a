"""States and journals of versions in which sharing adapted: they open, go on, and say what is no longer done."""

import math
from typing import Any

import numpy as np
import pytest

from kinband import ConfigurationSpace, Controller
from kinband.controller.attribution import told_rows_of
from kinband.controller.events import Asked, Estimated, Told
from kinband.diagnostics.calibration import epochs_of, setup_of
from kinband.diagnostics.transfer import evidence_shares_of
from kinband.errors import BadInputError
from kinband.kernels import RBF

SPACE = ConfigurationSpace(knob=range(6))
STATIONS = ["a", "b", "c", "d"]
ALIKE = 0.9 * np.ones((4, 4)) + 0.1 * np.eye(4)
IN_TWO = np.kron(np.ones((2, 2)), np.eye(2)) * 0.7 + 0.3 * np.eye(4)


def make(**changes: Any) -> Controller:
    options: dict[str, Any] = {
        "similarity": ALIKE, "kernel": RBF(0.9, variance=0.06), "noise": 0.012, "mean": 0.5, "seed": 3,
    }  # fmt: skip
    return Controller(SPACE, STATIONS, **(options | changes))


def tell(controller: Controller, count: int, *, seed: int = 0) -> None:
    """Rewards of stations in turn, those of b and d the opposite of those of the others."""
    rng = np.random.default_rng(seed)
    for i in range(count):
        decision = controller.ask(STATIONS[i % 4], allowed=[int(rng.integers(6))])
        sign = -1.0 if decision.station in "bd" else 1.0
        controller.tell(decision.id, 0.5 + 0.25 * sign * math.cos(decision.arm / 1.6) + 0.1 * float(rng.normal()))


def new_matrix(rows: int, K_Z: Any = IN_TWO) -> Estimated:
    return Estimated(rows, 0.0, 0.7, tuple(np.asarray(K_Z)[np.tril_indices(4)].tolist()))


def estimated_anew(**changes: Any) -> Controller:
    """A journal with an estimate that kept the matrix in force, and one that replaced it."""
    controller = make(**changes)
    tell(controller, 10)
    controller._memory.apply(Estimated(10))
    tell(controller, 10, seed=1)
    controller._memory.apply(new_matrix(20))
    tell(controller, 8, seed=2)
    return controller


def test_an_estimate_brings_its_matrix_and_everything_is_learned_by_it() -> None:
    controller = estimated_anew()
    assert np.array_equal(controller.current.K_Z, IN_TWO)
    assert controller.similarity.method == "estimated"
    fresh = make(similarity=IN_TWO)
    for entry in controller.journal:
        if isinstance(entry, Told):
            asked = controller.journal.find(entry.id)
            fresh.tell(fresh.ask(asked.decision.station, allowed=[asked.decision.arm]).id, entry.reward)
    for station in STATIONS:
        mine, theirs = ({a.arm: a.mean for a in one.ask(station).alternatives} for one in (controller, fresh))
        assert mine == pytest.approx(theirs)


def test_an_estimate_that_kept_the_matrix_changes_no_belief() -> None:
    controller, never = make(), make()
    for one in (controller, never):
        tell(one, 12)
    controller._memory.apply(Estimated(12))
    assert not controller.journal.shaping
    mine, theirs = controller.policy.state(), never.policy.state()  # type: ignore[attr-defined]
    assert all(np.array_equal(mine[name], theirs[name]) for name in mine)


@pytest.mark.parametrize("wrong", [tuple(range(9)), (1.0, 7.0, 1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)])
def test_an_estimate_that_does_not_fit_is_refused(wrong: tuple[float, ...]) -> None:
    controller = estimated_anew()
    entries = [Estimated(20, 0.0, 0.7, wrong) if e == new_matrix(20) else e for e in controller.journal]
    with pytest.raises(BadInputError):
        Controller.resume(controller.setup, entries)


def test_decisions_are_explained_and_audited_by_the_matrix_of_then() -> None:
    controller = estimated_anew()
    epochs = epochs_of(controller)
    assert [len(epoch.asked) for epoch in epochs] == [20, 8]
    assert np.array_equal(epochs[0].setup.K_Z, ALIKE)
    assert np.array_equal(epochs[1].setup.K_Z, IN_TWO)
    first = controller.journal.find("d000001")
    assert np.array_equal(setup_of(controller, at=first).K_Z, ALIKE)
    place = next(i for i, e in enumerate(controller.journal) if e == new_matrix(20))
    asked = [e for e in list(controller.journal)[:place] if isinstance(e, Asked)][-1]
    reason = controller.explain(asked.decision.id)
    assert reason.evidence is not None
    assert reason.evidence.std == pytest.approx(asked.decision.std)
    found = evidence_shares_of(controller, told_rows_of(controller.setup, controller.journal), recent=4)
    for task in range(4):
        latest = [a.decision.id for a in controller.journal.asked.values() if a.task == task][-4:]
        reasons = [controller.explain(key).evidence for key in latest]
        expected = [np.mean([e.shares.get(name, 0.0) for e in reasons if e]) for name in STATIONS]
        np.testing.assert_allclose(found.shares[task], expected, atol=1e-9)
        assert found.worth[task] == pytest.approx(np.mean([e.borrowed_worth for e in reasons if e]), abs=1e-7)
