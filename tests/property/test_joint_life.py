"""A controller that shares by the joint model, through its life: newcomers and reasons."""

from typing import Any

import numpy as np
import pytest

from kinband import ConfigurationSpace, Controller, Trace
from kinband.diagnostics import Account, account_of, audit, audit_of

SPACE = ConfigurationSpace(tilt=range(6))
SIGNS = {"a": 1.0, "b": 1.0, "c": 1.0, "d": -1.0, "e": -1.0}


def trace_of(seed: int, *, rows: int = 60) -> Trace:
    rng = np.random.default_rng(seed)
    columns: dict[str, Any] = {"station": list(SIGNS) * (rows // 5), "load": rng.random(rows)}
    columns["tilt"] = rng.integers(0, 6, rows)
    sign = np.array([SIGNS[name] for name in columns["station"]])
    columns["reward"] = 0.5 + 0.2 * sign * np.cos(columns["tilt"] / 1.6) + 0.05 * rng.normal(size=rows)
    return Trace.from_frame(columns, {"configuration": ["tilt"]})


def play(controller: Controller, rounds: int, *, seed: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    made: list[Any] = []
    for _ in range(rounds):
        decisions = controller.ask_all({name: {"load": float(rng.random())} for name in controller.stations})
        made += decisions.values()
        for name, decision in decisions.items():
            wave = 0.2 * SIGNS.get(name, 1.0) * np.cos(decision.arm / 1.6)
            controller.tell(decision.id, float(0.5 + wave + 0.05 * rng.normal()))
    return made


def test_a_log_is_learned_to_the_same_bits_again() -> None:
    first, second = (Controller.from_trace(trace_of(8), SPACE, seed=2) for _ in range(2))
    assert np.array_equal(first.setup.K_Z, second.setup.K_Z)
    assert play(first, 2, seed=1) == play(second, 2, seed=1)


@pytest.mark.parametrize("seed", range(3))
def test_a_newcomer_of_whom_nothing_is_known_is_as_like_the_others_as_they_are_on_average(seed: int) -> None:
    controller = Controller.from_trace(trace_of(seed), SPACE, seed=seed)
    K_Z = np.asarray(controller.setup.K_Z)
    controller.add_station("new")
    row = controller.current.K_Z[-1]
    average = K_Z[~np.eye(5, dtype=bool)].mean()
    assert row[:5].mean() == pytest.approx(average, abs=1e-9)
    np.testing.assert_allclose(row[:5], average * 5 * K_Z.sum(axis=1) / K_Z.sum(), atol=1e-9)  # all count the same
    assert row[5] == pytest.approx(1.0)
    assert np.linalg.eigvalsh(controller.current.K_Z).min() > 0
    assert controller.ask("new", {"load": 0.5}).std is not None


def test_reasons_and_audits_say_how_much_is_shared() -> None:
    controller = Controller.from_trace(trace_of(1), SPACE, seed=1)
    play(controller, 2, seed=2)
    details = controller.similarity.details
    said = f"Stations share {100 * details['shared']:.0f} % of what is learned with all"
    assert said in controller.explain(controller.ask("a", {"load": 0.4}).id).text
    account = account_of(controller)
    found = audit_of([Account.from_arrays(list(SIGNS), account.arrays())])
    assert found.to_dict() == audit(controller).to_dict()
    assert any(line.startswith(said) for line in found.words)
    assert found.parts == pytest.approx({name: details[name] for name in ("shared", "similar", "own")})
    older = {name: array for name, array in account.arrays().items() if name != "parts"}
    assert not audit_of([Account.from_arrays(list(SIGNS), older)]).parts


def test_nothing_is_said_where_the_model_does_not_say() -> None:
    for given in ({"similarity": "embedding"}, {"policy": "kernel-ucb"}, {"start": False}):
        controller = Controller.from_trace(trace_of(1), SPACE, seed=1, **given)
        decision = controller.ask("a", {"load": 0.4})
        assert "Stations share" not in controller.explain(decision.id).text
