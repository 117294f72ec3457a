"""Questions that are taken back leave no trace."""

from typing import Any

import pytest

from kinband import ConfigurationSpace, Controller
from kinband.controller.memory import Memory
from kinband.drift import Drift
from kinband.policies.safety import Conservative

SPACE = ConfigurationSpace(tilt=[2, 4, 6])


def made(memory: Memory) -> Controller:
    """A controller around a memory."""
    controller = Controller.from_setup(memory.setup)
    controller._memory = memory
    return controller


@pytest.mark.parametrize(
    "settings",
    [
        {"similarity": "pooled"},
        {"drift": Drift(half_life=100.0, clock="numbers")},
        {"safety": Conservative(0.2), "reward_range": (0, 1)},
    ],
)
def test_what_is_taken_back_leaves_the_controller_as_it_was(settings: dict[str, Any]) -> None:
    timed = "drift" in settings
    controller = Controller(
        SPACE, ["a", "b"], state={"load": (0, 1)}, running={"tilt": 4}, mean=0.5, noise=0.05, seed=3, **settings
    )

    def when(time: float) -> dict[str, Any]:
        return {"time": time} if timed else {}

    first = controller.ask_all({"a": {"load": 0.2}, "b": {"load": 0.4}}, **when(1.0))
    controller.tell(first["a"].id, 0.7)
    controller.ran(first["b"].id, {"tilt": 6})
    count = len(controller.journal)
    controller.ran(first["b"].id, {"tilt": 2})
    further = controller.ask_all({"a": {"load": 0.5}, "b": {"load": 0.9}}, **when(9.0))
    controller.ran(further["a"].id, {"tilt": 2})
    controller.call_off(first["b"].id)
    controller.call_off(further["b"].id)
    memory = controller._memory
    assert memory.take_back(count)
    untouched = Memory(controller.setup, list(controller.journal))
    assert memory.journal.ran(first["b"].id) == 2
    assert (memory.rounds, memory.journal.pending) == (untouched.rounds, untouched.journal.pending)
    assert memory.deployed.pending == untouched.deployed.pending
    one, other = (
        each.ask_all({"a": {"load": 0.6}, "b": {"load": 0.1}}, **when(2.0)) for each in (controller, made(untouched))
    )
    assert repr(one) == repr(other)


def test_what_was_learned_is_not_taken_back() -> None:
    controller = Controller(SPACE, ["a"], mean=0.5, seed=3)
    controller.tell(controller.ask("a").id, 0.7)
    assert not controller._memory.take_back(0)
    assert len(controller.journal) == 2
