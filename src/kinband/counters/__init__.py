"""Counters and configuration as networks export them: 3GPP measurement files and CM dumps in, a `Trace` out.

`pm` reads measurement files, `cm` the configuration, `mapping` says what is what, with `formulas` over counters;
`survey` says what files hold, and `trace` joins all of it to a log.
"""

from kinband.counters.mapping import CounterMap
from kinband.counters.survey import Survey, survey
from kinband.counters.trace import Joined, join, read_trace

__all__ = ["CounterMap", "Joined", "Survey", "join", "read_trace", "survey"]
