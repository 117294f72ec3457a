"""What a station can run: knobs (`knobs`), the finite space of their values (`space`), and what of it is allowed."""

from kinband.configurations.allowed import Allowed, Range
from kinband.configurations.knobs import Categories
from kinband.configurations.space import MAX_CONFIGURATIONS, ConfigurationSpace

__all__ = ["MAX_CONFIGURATIONS", "Allowed", "Categories", "ConfigurationSpace", "Range"]
