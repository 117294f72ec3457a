"""Lets the reference of the API show the examples of docstrings as code.

Griffe, which reads them for `make docs`, knows a section "Examples:"; the house writes "Example:".
"""

import re
from typing import Any

import griffe


class Examples(griffe.Extension):
    """Read a section "Example:" as griffe's "Examples:"."""

    def on_instance(self, *, obj: Any, **_: Any) -> None:
        """Rename the section in the docstring of one object."""
        if obj.docstring is not None:
            obj.docstring.value = re.sub(r"^Example:$", "Examples:", obj.docstring.value, flags=re.MULTILINE)
