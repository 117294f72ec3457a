"""The tabular log, validated at the door: `table` is the log, its clean columns and ways to pick from them.

`files` and `columns` bring a log in, `values` cleans its cells, `rewards` makes one reward of several.
"""

from kinband.trace.columns import ColumnMap
from kinband.trace.table import Trace

__all__ = ["ColumnMap", "Trace"]
