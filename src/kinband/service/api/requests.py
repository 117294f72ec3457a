"""What is sent to the service: how a body is read, the values that it is made of, and the shape of each."""

import json
from email.message import Message
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    WithJsonSchema,
    field_validator,
    model_validator,
)
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import PydanticCustomError
from starlette.requests import Request

from kinband.service.api.errors import RefusedError
from kinband.service.ledger.events import KINDS
from kinband.service.operations.checks import LONGEST_COMMENT
from kinband.service.operations.review import MOST_TEXT
from kinband.service.schemas import Mode, Status
from kinband.space import Range

# --- How a body is read: JSON as its standard has it, or YAML where a route takes it --------------------------------
#
# Python's own reader takes NaN and Infinity, which are not JSON (RFC 8259), and of a key given twice the last value, in
# silence; here both are refused.

JSON = "application/json"
YAML = frozenset({"application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml", "text/plain"})
"""What YAML is sent as (RFC 9512), and what it was before."""
FILES = frozenset({
    "text/csv", "text/tab-separated-values", "text/plain", "application/csv", "application/xml", "text/xml",
    "application/gzip", "application/x-gzip", "application/octet-stream",
})  # fmt: skip
"""What a file of counters is sent as; what it is, its first bytes say."""


def read_json(body: bytes) -> Any:
    """Return the value of a JSON text, or refuse what is not JSON."""
    try:
        return json.loads(body.decode(), parse_constant=_no_constant, object_pairs_hook=_unique)
    except RefusedError:
        raise
    except UnicodeDecodeError as error:
        raise RefusedError(400, "the body is not JSON: it is not UTF-8") from error
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise RefusedError(400, f"the body is not JSON: {error.msg} at {place}") from error
    except (ValueError, RecursionError) as error:
        raise RefusedError(
            400, "the body is not JSON that can be read: a number too long, or nested too deep"
        ) from error


def _no_constant(name: str) -> Any:
    raise RefusedError(400, f"{name} is not JSON: leave out what is not known")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise RefusedError(400, f"the key {ascii(twice)[:60]} is given twice: give it once")
    return found


class ReadRequest(Request):
    """A request whose body was read before; the framework would turn our sentences into one of its own.

    Args:
        request: The request.
        field: Where YAML goes, if it may come as it is: to the framework it looks like JSON with that one field.
        file: Where a file goes, likewise.
    """

    def __init__(self, request: Request, *, field: str = "", file: str = "") -> None:
        self._field, self._file = field or file, file
        self._value: Any = None
        self._media = _media(request.headers.get("content-type", ""))
        self._plain = bool(self._field) and self._media in (FILES if file else YAML)
        scope = request.scope
        if self._plain:
            others = [pair for pair in scope["headers"] if pair[0] != b"content-type"]
            scope = {**scope, "headers": [*others, (b"content-type", JSON.encode())]}
        super().__init__(scope, request.receive)

    async def read(self) -> None:
        """Read the body, if there is any, or refuse it."""
        body = await self.body()
        if not body:
            return
        if self._plain:
            self._value = {self._field: body if self._file else _decoded(body)}
        elif self._media == JSON:
            self._value = read_json(body)
        elif self._file:
            raise RefusedError(
                415, "the body must be JSON, CSV or a measurement file: send it with the header Content-Type: text/csv"
            )
        elif self._field:
            raise RefusedError(
                415, "the body must be YAML or JSON: send it with the header Content-Type: application/yaml"
            )
        else:
            raise RefusedError(415, "the body must be JSON: send it with the header Content-Type: application/json")

    async def json(self) -> Any:
        """Return the body's value."""
        return self._value


def _media(content_type: str) -> str:
    message = Message()
    message["content-type"] = content_type
    return message.get_content_type() if content_type else ""


def _decoded(body: bytes) -> str:
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = body[: error.start].count(b"\n") + 1
        raise RefusedError(400, f"line {line} is not UTF-8: send the file in that encoding") from error


# --- The values that requests are made of: numbers that are numbers, texts of bounded length, knobs and KPIs --------
#
# Strict on purpose: "0.9" is no number, `true` is none either, and neither are NaN and infinity, which JSON does not
# know. What may come in several forms is checked by one function each, so that a complaint is one sentence and not a
# list of everything that was tried.

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
    """Return a finite number as it came, or say that it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _refused("must be a number, got {given}", value)
    if not abs(value) <= LARGEST:  # nan is not, either
        raise _refused("must be a finite number of at most 1e15, got {given}", value)
    return value


def scalar(value: object) -> Scalar:
    """Return the value of a knob: a number, text, or true or false."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, int | float):
        return number(value)
    raise _refused("must be a number, text, or true or false, got {given}", value)


def measured(value: object) -> float | tuple[float, float]:
    """Return a KPI: a number, or a pair of value and variance."""
    if isinstance(value, list):
        if len(value) != 2:
            raise _refused("must be a number or a pair of value and variance, got {given}", value)
        return number(value[0]), number(value[1])
    return number(value)


def allowed(value: object) -> Choice:
    """Return which configurations may be chosen: values or an interval by knob, or a list of configurations."""
    if isinstance(value, dict) and len(value) <= 100:
        return {_text(knob): _wanted(wanted) for knob, wanted in value.items()}
    if isinstance(value, list) and len(value) <= MOST and all(isinstance(item, dict) for item in value):
        return [{_text(knob): scalar(setting) for knob, setting in item.items()} for item in value]
    raise _refused("must map knobs to values or to {{low, high}}, or list configurations, got {given}", value)


def moment(value: object) -> float | str:
    """Return a time as the controller's clock takes it: a number, or ISO text."""
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
CheckedScalar = Annotated[Scalar, PlainValidator(scalar), WithJsonSchema(_SCALAR)]
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
Configuration = Annotated[dict[Name, CheckedScalar], Field(min_length=1, max_length=100)]
State = Annotated[dict[Name, Number], Field(max_length=1_000)]
Names = Annotated[list[Name], Field(min_length=1, max_length=MOST)]


# --- What requests bring: bodies, strict and closed, and the filters of lists ---------------------------------------
#
# A key that is not known is refused rather than passed over: a misspelt "noise" would otherwise be lost in silence.


def _body(**example: Any) -> ConfigDict:
    return ConfigDict(extra="forbid", strict=True, frozen=True, json_schema_extra={"examples": [example]})


class AskBody(BaseModel):
    """The states of one station or many, to decide for in one round."""

    model_config = _body(
        states={"3714": {"load": 0.4}, "3715": {"load": 0.7}},
        slot="2026-11-20T10",
        running={"3714": {"tilt": 4}},
        allowed={"3715": {"tilt": {"low": 2, "high": 4}}},
    )

    states: Annotated[dict[Name, State], Field(min_length=1, max_length=MOST)] | None = Field(
        default=None, description="State features by station, from the period before the slot."
    )
    stations: Names | None = Field(
        default=None, description="Stations in the state that their counters tell, beside those of `states`."
    )
    slot: Name | None = Field(
        default=None,
        description="Your name of the slot: a station has one decision a slot. An ISO time is when it begins.",
    )
    begins: Name | None = Field(
        default=None,
        alias="from",
        description="When the slot begins, as ISO text, where its name does not say so; without a zone in that of the "
        "rails, else UTC.",
    )
    running: Annotated[dict[Name, Configuration], Field(max_length=MOST)] | None = Field(
        default=None, description="What stations run, where you know better than the record."
    )
    allowed: Annotated[dict[Name, AllowedBody], Field(max_length=MOST)] | None = Field(
        default=None,
        description="Which configurations may be chosen, by station: values or {low, high} by knob, or a list of "
        "configurations.",
    )
    time: Moment | None = Field(default=None, description="When, for a controller with a clock: a number, or ISO text.")

    @model_validator(mode="after")
    def _names_somebody(self) -> "AskBody":
        if self.states is None and self.stations is None:
            raise ValueError("nobody is asked for: give states, or stations whose counters you have sent")
        return self


class AppliedBody(BaseModel):
    """What a station really runs."""

    model_config = _body(configuration={"tilt": 4}, comment="set by hand")

    configuration: Configuration | None = Field(
        default=None, description="What it runs; leave it out if that is what it was told to run."
    )
    comment: Comment = Field(default="", description="Why, for the record.")


class OutcomeBody(BaseModel):
    """What one decision earned: a reward, or the KPIs that it is made of."""

    model_config = _body(decision="d000001", reward=0.91, noise=0.0004)

    decision: Name = Field(description="Id of the decision.")
    reward: Number | None = Field(default=None, description="What it earned.")
    noise: Variance | None = Field(default=None, description="The reward's own variance, where it is known.")
    kpis: Annotated[dict[Name, Measured], Field(min_length=1, max_length=100)] | None = Field(
        default=None, description="KPIs by name: a value, or value and variance."
    )
    station: Name | None = Field(default=None, description="Its station, to be checked against the record.")

    @model_validator(mode="after")
    def _says_something(self) -> "OutcomeBody":
        if self.reward is None and self.kpis is None:
            raise ValueError("an outcome needs a reward, or kpis")
        if self.noise is not None and self.reward is None:
            raise ValueError("noise belongs to a reward: give both, or variances with the kpis")
        return self


class OutcomesBody(BaseModel):
    """What decisions earned, in any order; all of it is recorded, or nothing."""

    model_config = _body(outcomes=[{"decision": "d000001", "reward": 0.91}, {"decision": "d000002", "reward": 0.78}])

    outcomes: Annotated[list[OutcomeBody], Field(min_length=1, max_length=MOST)] = Field(
        description="One for each decision."
    )
    others: Annotated[dict[Name, Measured], Field(max_length=MOST)] | None = Field(
        default=None, description="Rewards of neighbours that no decision led to, by station."
    )

    @model_validator(mode="after")
    def _names_each_once(self) -> "OutcomesBody":
        seen: set[str] = set()
        for outcome in self.outcomes:
            if outcome.decision in seen:
                raise ValueError(f"decision {outcome.decision!r:.60} has two outcomes: send one")
            seen.add(outcome.decision)
        return self


class CountersBody(BaseModel):
    """What was measured: rows of stations and periods by column, as a log has them."""

    model_config = _body(rows=[{"station": "3714", "time": "2026-11-20T09:00Z", "load": 0.4, "reward": 0.91}])

    rows: (
        Annotated[
            list[Annotated[dict[Name, CheckedScalar | None], Field(min_length=1, max_length=1_000)]],
            Field(min_length=1, max_length=MOST),
        ]
        | None
    ) = Field(default=None, description="Rows; which column is what was said when the service was started.")
    file: SkipJsonSchema[bytes | None] = None

    @field_validator("file", mode="before")
    @classmethod
    def _as_it_is(cls, given: object) -> object:
        if isinstance(given, str):
            raise ValueError("a file is sent as it is, with its Content-Type, such as text/csv, not within JSON")
        return given

    @model_validator(mode="after")
    def _has_something(self) -> "CountersBody":
        if self.rows is None and self.file is None:
            raise ValueError('there are no rows: send {"rows": [...]}, CSV or a measurement file')
        return self


class CorrectionBody(BaseModel):
    """A better value of what was told before."""

    model_config = _body(decision="d000001", reward=0.89)

    decision: Name = Field(description="Id of the decision.")
    reward: Number | None = Field(default=None, description="What it earned, put right.")
    kpis: Annotated[dict[Name, Measured], Field(min_length=1, max_length=100)] | None = Field(
        default=None, description="KPIs to put right: a value, or value and variance."
    )

    @model_validator(mode="after")
    def _says_something(self) -> "CorrectionBody":
        if self.reward is None and self.kpis is None:
            raise ValueError("a correction needs a reward, or kpis")
        return self


class ApprovalBody(BaseModel):
    """What a person says about decisions that wait."""

    model_config = _body(decisions=["d000001", "d000002"], approve=True, comment="agreed with the regional team")

    decisions: Names = Field(description="Ids of decisions that wait.")
    approve: bool = Field(description="true to carry them out, false to reject them.")
    comment: Comment = Field(default="", description="Why, for the record.")


class WithdrawalBody(BaseModel):
    """Approvals that are taken back."""

    model_config = _body(decisions=["d000001"], comment="the event was moved")

    decisions: Names = Field(description="Ids of decisions that are approved and not ordered yet.")
    comment: Comment = Field(default="", description="Why, for the record.")


class StationBody(BaseModel):
    """A station that joins."""

    model_config = _body(name="3716", similarity={"3714": 0.8}, running={"tilt": 4})

    name: Name = Field(description="Its name.")
    descriptors: Annotated[dict[Name, CheckedScalar], Field(max_length=1_000)] | None = Field(
        default=None, description="What describes it, where stations are described."
    )
    similarity: Annotated[dict[Name, Number], Field(max_length=MOST)] | None = Field(
        default=None, description="How like the others it is, from -1 to 1, where you know."
    )
    running: Configuration | None = Field(default=None, description="What it runs.")


class ModeBody(BaseModel):
    """A mode for some stations or for all."""

    model_config = _body(mode="assist", stations=["3714"], comment="trial in the north")

    mode: Mode = Field(description="shadow: record only; assist: a person approves; autonomous: at once.")
    stations: Names | None = Field(default=None, description="For whom; left out, for all and for newcomers.")
    comment: Comment = Field(default="", description="Why, for the record.")


class RailsBody(BaseModel):
    """Guard rails."""

    model_config = _body(yaml="knobs:\n  tilt: {min: 2, max: 6, step: 2}\n", comment="steps of 2 from now on")

    yaml: Annotated[str, Field(max_length=MOST_TEXT)] = Field(description="The text of their file; {} for none.")
    comment: Comment = Field(default="", description="Why, for the record.")
    replaces: Annotated[str, Field(max_length=LONGEST)] | None = Field(
        default=None, description="Digest of those that they are meant to replace; refused if others hold by now."
    )


_WHY = AliasChoices("why", "comment")  # in an emergency nobody should be refused for a synonym


class WhyBody(BaseModel):
    """A reason, for the record."""

    model_config = _body(why="storm over the north")

    why: Comment = Field(default="", description="Why; `comment` is taken too.", validation_alias=_WHY)


class CommentBody(BaseModel):
    """A comment, for the record."""

    model_config = _body(comment="users complained")

    comment: Comment = Field(default="", description="Why.")


class RollBackBody(CommentBody):
    """A comment, and whether to go back in spite of what forbids it."""

    model_config = _body(comment="users complained", override=False)

    override: bool = Field(
        default=False,
        description="An admin may: back to what ran before the last change, whatever that is, also while a stop, a "
        "freeze or a forbidden period holds.",
    )


def _known_kind(kind: str) -> str:
    if kind not in KINDS:
        raise ValueError(f"must be one of {', '.join(KINDS)}, got {kind!r:.40}")
    return kind


Kind = Annotated[str, AfterValidator(_known_kind), Field(json_schema_extra={"enum": list(KINDS)})]


class Filters(BaseModel):
    """Which decisions are listed."""

    model_config = ConfigDict(extra="forbid")

    station: str | None = Field(default=None, max_length=LONGEST, description="Of this station.")
    status: Status | None = Field(default=None, description="With this status.")
    slot: str | None = Field(default=None, max_length=LONGEST, description="Of this slot.")
    before: str | None = Field(
        default=None, max_length=LONGEST, description="Made before this one: the last id you have."
    )
    limit: int = Field(default=50, ge=1, le=500, description="At most so many.")


COMPARED = 500
"""Stations whose task matrix one answer has at most."""


class Alike(BaseModel):
    """Which stations are compared."""

    model_config = ConfigDict(extra="forbid")

    station: list[Annotated[str, Field(max_length=LONGEST)]] | None = Field(
        default=None,
        max_length=COMPARED,
        description="These, in this order; may be given several times. If not given all, of a large network evenly "
        "chosen ones.",
    )


class EventFilters(BaseModel):
    """Which events are listed."""

    model_config = ConfigDict(extra="forbid")

    kind: list[Kind] | None = Field(
        default=None, max_length=20, description="Of these kinds; may be given several times."
    )
    station: str | None = Field(default=None, max_length=LONGEST, description="Of this station.")
    decision: str | None = Field(default=None, max_length=LONGEST, description="Of this decision.")
    actor: str | None = Field(default=None, max_length=LONGEST, description="By this person or program.")
    order: Literal["newest", "oldest"] = Field(default="newest", description="Which come first.")
    after: int = Field(default=0, ge=0, le=int(LARGEST), description="After this number.")
    before: int | None = Field(default=None, ge=1, le=int(LARGEST), description="Before this number.")
    limit: int = Field(default=100, ge=1, le=1_000, description="At most so many.")
