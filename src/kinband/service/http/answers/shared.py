"""What answers of all kinds share: an example each, for the schema."""

from typing import Any

from pydantic import ConfigDict

Knobs = dict[str, Any]
"""A configuration: values by knob."""


def answer(example: dict[str, Any]) -> ConfigDict:
    """Return how an answer is set up: it cannot be changed, and the schema shows an example.

    Example:
        >>> answer({"status": "ok"})["json_schema_extra"]
        {'examples': [{'status': 'ok'}]}
    """
    return ConfigDict(frozen=True, json_schema_extra={"examples": [example]})
