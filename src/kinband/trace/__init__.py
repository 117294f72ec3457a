"""The tabular log, validated at the door: `table` is the log, `files` and `roles` bring it in, `values` cleans it."""

from kinband.trace.roles import ColumnMap
from kinband.trace.table import Trace

__all__ = ["ColumnMap", "Trace"]
