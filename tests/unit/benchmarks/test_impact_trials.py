"""The rule of own slots, as the tables of impact measure it, is that of the guard."""

from datetime import UTC, datetime, timedelta
from math import inf

import numpy as np
from benchmarks.impact.trials import Spot, rolled_back, stations_once, watched

from kinband.arrays import FloatArray
from kinband.guardrails import Changed, Fallback, History, Rails, Rewarded
from kinband.guardrails.falls import Loss, fall_after_change

START, HOUR = datetime(2026, 1, 1, tzinfo=UTC), timedelta(hours=1)


def guarded(Y: FloatArray, spot: Spot, rule: Fallback, *, loss: float) -> float:
    """Slots until the guard itself takes the change of a station back, slot by slot."""
    made = START + spot.before * HOUR
    rows = [(k, n) for k in range(spot.before) for n in range(Y.shape[1])]
    past = History.of([Rewarded(START + k * HOUR, f"s{n}", float(Y[spot.slot - spot.before + k, n])) for k, n in rows])
    past = past.after([Changed(made, f"s{spot.station}", arm=1, before=0)])
    for k in range(spot.after):
        row = Y[spot.slot + k] - loss * (np.arange(Y.shape[1]) == spot.station)
        past = past.after([Rewarded(made + k * HOUR, f"s{n}", float(value)) for n, value in enumerate(row)])
        fall = fall_after_change(Rails(fallback=rule), past, f"s{spot.station}", running=1)
        if fall is not None:
            return float(fall.slots) if isinstance(fall, Loss) else float(k + 1)
    return inf


def test_both_rules_of_the_tables_are_those_of_the_guard() -> None:
    rng, found = np.random.default_rng(2), []
    evening = 0.1 * np.sin(np.arange(48) / 4)[:, None]
    Y = 0.8 + evening * rng.uniform(0.5, 1.5, 12) + 0.02 * rng.normal(size=(48, 12))
    for spot in list(stations_once(Y, before=30, after=18))[:6]:
        for loss in (0.0, 0.06):
            for rule in (Fallback(0.05, 3), Fallback(0.1, 6), Fallback(0.02, 1, before=6), Fallback(0.05, 30)):
                assert rolled_back(Y, spot, rule, loss=loss) == guarded(Y, spot, rule, loss=loss)
                found.append(rolled_back(Y, spot, rule, loss=loss))
            by_controls = Fallback(rate=0.05, within=18 * HOUR)
            assert watched(Y, spot, loss=loss) == guarded(Y, spot, by_controls, loss=loss)
            found.append(watched(Y, spot, loss=loss))
    assert len(set(found)) > 4  # some at once, some later, some never
