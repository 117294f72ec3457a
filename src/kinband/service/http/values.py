"""The values that requests are made of: numbers that are numbers, texts of bounded length, knobs and KPIs.

Strict on purpose: "0.9" is no number, `true` is none either, and neither are NaN and infinity, which JSON does not
know. What may come in several forms is checked by one function each, so that a complaint is one sentence and not a list
of everything that was tried.
"""

from typing import Annotated, Any

from pydantic import Field, PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from kinband.service.operations.texts import LONGEST_COMMENT
from kinband.space import Range

LARGEST = 1e15
"""Numbers beyond this are refused: no counter is as large, and their squares would overflow."""
MOST = 10_000
"""Stations, decisions or outcomes in one request."""
LONGEST = 500
"""Characters of a name, as in the ledger."""

_NUMBER = {"type": "number", "minimum": -LARGEST, "maximum": LARGEST}
_NUMBERS = {"type": "array", "items": _NUMBER, "minItems": 2, "maxItems": 2}
_SCALAR = {"anyOf": [_NUMBER, {"type": "string", "maxLength": LONGEST}, {"type": "boolean"}]}
_INTERVAL = {
    "type": "object",
    "properties": {"low": _NUMBER, "high": _NUMBER},
    "additionalProperties": False,
    "minProperties": 1,
}
_KNOBS = {"type": "object", "additionalProperties": _SCALAR, "minProperties": 1, "maxProperties": 100}

Scalar = bool | int | float | str
Choice = dict[str, Any] | list[dict[str, Any]]


def number(value: object) -> float:
    """Return a finite number as it came, or say that it is none.

    Example:
        >>> number(0.9), number(-3)
        (0.9, -3)
        >>> number(True)
        Traceback (most recent call last):
            ...
        pydantic_core...PydanticCustomError: must be a number, got true
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _refused("must be a number, got {given}", value)
    if not abs(value) <= LARGEST:  # nan is not, either
        raise _refused("must be a finite number of at most 1e15, got {given}", value)
    return value


def scalar(value: object) -> Scalar:
    """Return the value of a knob: a number, text, or true or false.

    Example:
        >>> scalar("pf"), scalar(True), scalar(-98)
        ('pf', True, -98)
    """
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, int | float):
        return number(value)
    raise _refused("must be a number, text, or true or false, got {given}", value)


def measured(value: object) -> float | tuple[float, float]:
    """Return a KPI: a number, or a pair of value and variance.

    Example:
        >>> measured(0.98), measured([0.98, 0.0004])
        (0.98, (0.98, 0.0004))
    """
    if isinstance(value, list):
        if len(value) != 2:
            raise _refused("must be a number or a pair of value and variance, got {given}", value)
        return number(value[0]), number(value[1])
    return number(value)


def allowed(value: object) -> Choice:
    """Return which configurations may be chosen: values or an interval by knob, or a list of configurations.

    Example:
        >>> allowed({"tilt": {"low": 2, "high": 4}, "scheduler": ["pf"]})
        {'tilt': Range(low=2, high=4), 'scheduler': ['pf']}
        >>> allowed([{"tilt": 2}])
        [{'tilt': 2}]
    """
    if isinstance(value, dict) and len(value) <= 100:
        return {_text(knob): _wanted(wanted) for knob, wanted in value.items()}
    if isinstance(value, list) and len(value) <= MOST and all(isinstance(item, dict) for item in value):
        return [{_text(knob): scalar(setting) for knob, setting in item.items()} for item in value]
    raise _refused("must map knobs to values or to {{low, high}}, or list configurations, got {given}", value)


def moment(value: object) -> float | str:
    """Return a time as the controller's clock takes it: a number, or ISO text.

    Example:
        >>> moment("2026-11-20T10:00:00Z"), moment(12)
        ('2026-11-20T10:00:00Z', 12)
    """
    return _text(value) if isinstance(value, str) else number(value)


def _wanted(value: object) -> Any:
    if isinstance(value, dict):
        if not value or not value.keys() <= {"low", "high"}:
            raise _refused("an interval has low, high or both, got {given}", value)
        low, high = (number(value[end]) if end in value else None for end in ("low", "high"))
        if low is not None and high is not None and low > high:
            raise _refused("an interval needs low <= high, got {given}", value)
        return Range(**{name: end for name, end in (("low", low), ("high", high)) if end is not None})
    if isinstance(value, list):
        if len(value) > MOST:
            raise _refused("lists too many values, got {given}", value)
        return [scalar(item) for item in value]
    return scalar(value)


def _text(value: object) -> str:
    if not isinstance(value, str) or len(value) > LONGEST:
        raise _refused("must be text of up to 500 characters, got {given}", value)
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise _refused("must be text that UTF-8 can hold, got {given}", ascii(value)) from error
    return value


def _refused(sentence: str, value: object) -> PydanticCustomError:
    words = "true" if value is True else "false" if value is False else "null" if value is None else repr(value)
    return PydanticCustomError("value_error", sentence, {"given": ascii(words)[1:-1][:60]})


Number = Annotated[float, PlainValidator(number), WithJsonSchema(_NUMBER)]
Variance = Annotated[float, Field(strict=True, gt=0, le=LARGEST, allow_inf_nan=False)]
Setting = Annotated[Scalar, PlainValidator(scalar), WithJsonSchema(_SCALAR)]
Measured = Annotated[
    float | tuple[float, float], PlainValidator(measured), WithJsonSchema({"anyOf": [_NUMBER, _NUMBERS]})
]
Moment = Annotated[
    float | str, PlainValidator(moment), WithJsonSchema({"anyOf": [_NUMBER, {"type": "string", "maxLength": LONGEST}]})
]
AllowedBody = Annotated[
    Choice,
    PlainValidator(allowed),
    WithJsonSchema(
        {
            "anyOf": [
                {
                    "type": "object",
                    "additionalProperties": {
                        "anyOf": [_SCALAR, {"type": "array", "items": _SCALAR, "maxItems": MOST}, _INTERVAL]
                    },
                    "maxProperties": 100,
                },
                {"type": "array", "items": _KNOBS, "maxItems": MOST},
            ]
        }
    ),
]

Name = Annotated[str, Field(strict=True, min_length=1, max_length=LONGEST, pattern=r"^[^\x00-\x1f\x7f]+$")]
Comment = Annotated[
    str, Field(strict=True, max_length=LONGEST_COMMENT, pattern=r"^[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]*$")
]
"""What people say, in one line or several."""
Configuration = Annotated[dict[Name, Setting], Field(min_length=1, max_length=100)]
State = Annotated[dict[Name, Number], Field(max_length=1_000)]
Names = Annotated[list[Name], Field(min_length=1, max_length=MOST)]
