"""Several KPIs and neighbours: what a station answers for beyond one number of its own.

Three parts, each switched on by one argument of a `Controller`, alone or together. `WeightedReward` makes the reward of
several KPIs (its home is `kinband.trace.weighted`, since logs use it too). `KpiFloor` keeps another KPI above a floor,
or below a ceiling, predicted by a posterior of its own: `floors` says what a floor is, `models` where the model of a
KPI comes from, `beliefs` what is believed of it, `policy` how it narrows the choice and `within` how that goes together
with safe trials. `NeighbourReward` lets a station earn what its neighbours earn. How to use them: docs/kpis.md.
"""

from kinband.kpis.floors import Kpi, KpiFloor, KpisLike
from kinband.kpis.neighbours import NeighbourReward
from kinband.trace.weighted import Measured, WeightedReward

__all__ = ["Kpi", "KpiFloor", "KpisLike", "Measured", "NeighbourReward", "WeightedReward"]
