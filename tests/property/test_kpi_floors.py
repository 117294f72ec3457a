"""With floors of several KPIs and neighbours: no floor is broken while it could be kept."""

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.contract.test_replay import BLEND, FLOORS, Life, make


@given(seed=st.integers(0, 10_000))
@settings(max_examples=12, deadline=None)
def test_nothing_that_breaks_a_floor_is_played_while_something_keeps_it(seed: int) -> None:
    controller = Life(make("dense", seed=seed, kpis=FLOORS, neighbours=BLEND), seed).run(40).controller
    beliefs, rng = controller.policy.constraints[0].beliefs, np.random.default_rng(seed)  # type: ignore[attr-defined]
    for station in controller.stations:
        state = {"load": float(rng.normal())}
        allowed = rng.random(6) < 0.7
        allowed[int(rng.integers(6))] = True
        decision = controller.ask(station, state, allowed=allowed)
        X, task = controller.setup.encoder.contexts(state), controller.current.task(station)
        keeps = allowed.copy()
        for belief in beliefs:
            found = belief.posterior.predict(np.full(6, task), X)
            mean = belief.kpi.mean + belief.kpi.scale * found.mean
            std = belief.kpi.floor.beta * belief.kpi.scale * found.std
            floor = belief.kpi.floor
            bound = mean - std - floor.at_least if floor.at_most is None else floor.at_most - mean - std
            assume(np.abs(bound).min() > 1e-9)  # one exactly on its floor tells nothing
            keeps &= bound >= 0
        assert decision.policy_state["kpis"]["open"] == (keeps.sum() or 1)
        assert keeps[decision.arm] == keeps.any() == decision.policy_state["kpis"]["kept"]
