"""What the defaults cost: the time of a decision with everything that is on by default, over that of the paper's own.

Three controllers start from the log of the bundled city: by default, by default with a declared running configuration
(which switches a budget on), and to the letter of the paper. They take turns, a decision of one after a decision of the
other, so that whatever else the machine does hits all alike. A decision is asking and telling; estimating the task
matrix again and learning the log again count among the decisions that they happen in.
"""

from time import perf_counter

import numpy as np

from kinband.controller import Controller
from kinband.environments import TraceEnvironment, split_trace
from kinband.experiments.city import LOG_ROWS, city_log_of
from kinband.trace import Trace


def seconds(seed: int, *, decisions: int, stations: int | None = None) -> dict[str, float]:
    """Return the seconds that so many decisions take by default, with a budget, and to the letter of the paper.

    Example:
        >>> sorted(seconds(1, decisions=2, stations=4))
        ['declared', 'default', 'paper']
    """
    log, environment = _city(stations)
    controllers = {
        "default": Controller.from_trace(log, seed=seed),
        "declared": Controller.from_trace(
            log, running=city_log_of("bundled").space[city_log_of("bundled").today], seed=seed
        ),
        "paper": Controller.from_trace(log, paper=True),
    }
    spent = dict.fromkeys(controllers, 0.0)
    environment.reset(seed)
    for t in range(decisions):
        station = environment.stations[t % len(environment.stations)]
        state, truth = environment.slot.states[station], environment.truth(station)
        for name, controller in controllers.items():
            begun = perf_counter()
            decision = controller.ask(station, state)
            controller.tell(decision.id, float(truth.rewards[decision.arm]))
            spent[name] += perf_counter() - begun
        environment.play({})
    return spent


def _city(stations: int | None) -> tuple[Trace, TraceEnvironment]:
    trace = city_log_of("bundled").trace
    names = trace.stations
    places = np.linspace(0, len(names) - 1, len(names) if stations is None else stations).round().astype(int)
    trace = trace.select(np.isin(trace.station, [names[i] for i in places]))
    log, rest = split_trace(trace.with_space(trace.space()), rows_per_station=LOG_ROWS)
    return log, TraceEnvironment(rest)
