"""Placebo changes with a daily pattern, day shocks and autocorrelation: intervals hold, and false alarms are rare."""

import numpy as np
from benchmarks.impact.trials import judged, judged_together, spots, watched
from benchmarks.impact.worlds import SLOTS, Streets, drawn

NETWORKS, EACH = 30, 5
COUNT = NETWORKS * EACH


def test_intervals_hold_and_nothing_is_taken_for_a_loss_at_the_rates_that_are_stated() -> None:
    single, together, false, found = [], [], [], []
    for seed in range(NETWORKS):
        Y, rng = drawn(Streets(stations=30, days=14), seed=seed), np.random.default_rng(seed)
        for spot in spots(Y, rng, count=EACH, before=5 * SLOTS, after=2 * SLOTS):
            single.append(judged(Y, spot)[0].gain.side(0.0) == 0)
            false.append(np.isfinite(watched(Y, spot, loss=0.0)))
            found.append(np.isfinite(watched(Y, spot, loss=0.1)))
        together.append(judged_together(Y, rng, changes=8, before=5 * SLOTS, after=2 * SLOTS).side(0.0) == 0)
    spread = 3 * np.sqrt(0.05 * 0.95 / COUNT)  # changes of one network hang together a little: three, not two
    assert np.mean(single) >= 0.95 - spread
    assert np.mean(false) <= 0.05 + spread
    assert np.mean(together) >= 0.95 - 3 * np.sqrt(0.05 * 0.95 / NETWORKS)
    assert np.mean(found) >= 0.9
