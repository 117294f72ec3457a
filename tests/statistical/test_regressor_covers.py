"""Intervals of a station that a regressor never saw hold its rewards as often as they say."""

import numpy as np
from tests.unit.test_regressor import city

from kinband.regressor import MultiTaskRegressor


def test_the_std_of_an_unseen_station_covers_what_is_its_own() -> None:
    # 12 seeds of three unseen stations: z of whole curves depends, so that the share is judged over stations.
    inside, ratios = [], []
    for seed in range(12):
        frame, y = city(seed, own=0.4, stations=15)
        out = frame["station"] >= "s12"
        model = MultiTaskRegressor(task="station", similarity="coregionalisation", starts=1, random_state=0)
        model.fit(frame[~out], y[~out])
        mean, std = model.predict(frame[out], return_std=True, include_noise=True)
        inside += [(np.abs(y[out] - mean) <= 1.96 * std).reshape(3, -1).mean(axis=1)]
        known = model.predict(frame[~out], return_std=True, include_noise=True)[1]
        ratios.append(std.mean() / known.mean())
    share = np.concatenate(inside)
    assert share.mean() > 0.95 - 4 * share.std() / np.sqrt(len(share))
    assert share.mean() > 0.8
    assert min(ratios) > 1.5  # wider than for stations with rows
