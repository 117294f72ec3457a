"""The bundled trace is what the simulator makes today: its first period, simulated again."""

from datetime import timedelta

import numpy as np

from kinband.environments.radio import KNOB, STATE_NAMES, Network, Parameters, build_map, draw_layout
from kinband.environments.radio.environment import knob_of
from kinband.environments.radio.trace_writer import (
    FIRST_DAY,
    REWARD,
    SAMPLES,
    _day,
    _period_bounds,
    _random_thresholds,
    _rows,
)
from kinband.trace import Trace


def test_the_first_period_of_the_bundled_trace_is_simulated_again() -> None:
    stations, days, bounds = 105, 5, _period_bounds((14.0, 22.0), 60 * 40 / 9)
    periods = len(bounds) - 1
    parameters = Parameters()
    knob = knob_of(parameters)
    plan = _random_thresholds(knob, stations, days * periods, 12 / periods, np.random.default_rng((0, 5)))
    city = build_map(draw_layout(stations, seed=0), parameters)
    network = Network(city, parameters, seed=(0, 0), hour=14.0 - bounds[1] / 3600)
    held = np.vstack([np.full(stations, parameters.start_threshold_dbm), plan[:1]])
    before, period = _day(network, held, bounds, start=FIRST_DAY + timedelta(hours=14))
    rows = _rows(city.layout.names, before.report, period, knob)
    bundled = Trace.bundled()
    first = bundled.select(np.arange(stations))
    assert bundled.sample_count is not None
    assert first.station.tolist() == rows["station"].tolist()
    np.testing.assert_array_equal(first.configuration[KNOB], rows[KNOB])
    # Another processor may round a logarithm differently, and a user may then change cell a step later; who comes
    # and what they want does not depend on it. So nearly all rows agree to the last digit or by a session or two.
    users = STATE_NAMES.index("users")
    np.testing.assert_allclose(first.state[:, users].sum(), rows["users"].sum(), rtol=1e-3)
    assert (np.abs(first.reward - rows[REWARD]) < 0.02).mean() > 0.9
    assert (np.abs(bundled.sample_count[:stations] / rows[SAMPLES] - 1) < 0.02).mean() > 0.9
