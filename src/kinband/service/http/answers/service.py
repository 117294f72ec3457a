"""The service itself: whether it lives, and what went wrong."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from kinband.service.http import examples
from kinband.service.http.answers.shared import answer


class Health(BaseModel):
    """Whether the service lives, or is ready."""

    model_config = answer({"status": "ok", "version": "0.1.0"})

    status: Literal["ok"]
    version: str = Field(description="Of kinband.")


class Problem(BaseModel):
    """What went wrong, as RFC 9457 has it, in a sentence that says what to do."""

    model_config = ConfigDict(extra="allow", frozen=True, json_schema_extra={"examples": [examples.PROBLEM]})

    type: str = Field("about:blank", description="Kind of problem.")
    title: str = Field(description="The status in words.")
    status: int = Field(description="The status.")
    detail: str = Field(description="What happened and what to do, in one sentence.")
