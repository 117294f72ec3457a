"""Logs that do not say how far rewards vary: one row, or the same reward again and again."""

import warnings

import pytest

from kinband import ConfigurationSpace, Controller, Trace


@pytest.mark.parametrize("rewards", [[0.7], [0.7] * 6, [0.0] * 6, [-40.0] * 4])
def test_what_was_never_seen_to_vary_is_not_certain(rewards: list[float]) -> None:
    rows = len(rewards)
    log = {"station": ["a"] * rows, "load": [i / rows for i in range(rows)], "tilt": ([2, 4] * rows)[:rows]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a state that one row does not vary
        trace = Trace.from_frame(log | {"reward": rewards}, {"configuration": ["tilt"]})
        controller = Controller.from_trace(trace, ConfigurationSpace(tilt=[2, 4, 6]))
    size = max(abs(rewards[0]), 1.0)
    untried = next(a for a in controller.ask("a", {"load": 0.5}).alternatives if a.arm == 2)
    assert untried.std is not None
    assert 0.02 * size < untried.std < 3.0 * size
    for reward in (0.2 * size, 0.9 * size, 0.3 * size, 0.8 * size):
        controller.tell(controller.ask("a", {"load": 0.5}).id, reward)
    later = controller.ask("a", {"load": 0.5})
    assert later.std is not None
    assert later.std > 0.005 * size
