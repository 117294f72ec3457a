"""The tabular log, validated at the door: `table` is the log, its clean columns and ways to pick from them.

`files` brings a log in, `columns` finds which column is what and cleans it, `rewards` makes one reward of several.
"""

from kinband.trace.columns import ColumnMap
from kinband.trace.table import Trace

__all__ = ["ColumnMap", "Trace"]
