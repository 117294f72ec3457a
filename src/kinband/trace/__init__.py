"""The tabular log, validated at the door: `table` is the log, `rows` are its clean columns and ways to pick from them.

`files` and `roles` bring a log in, `values`, `times` and `rewards` clean its columns, `weighted` makes one reward of
several, `lines` says where in a file a row is.
"""

from kinband.trace.columns import ColumnMap
from kinband.trace.table import Trace

__all__ = ["ColumnMap", "Trace"]
