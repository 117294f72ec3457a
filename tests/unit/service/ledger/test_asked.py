"""What a decision was asked with becomes plain values, and what cannot be meant is refused."""

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from kinband import ConfigurationSpace
from kinband.errors import BadInputError
from kinband.service.ledger.asked import Request, fingerprint, requests_of

SPACE = ConfigurationSpace(tilt=[2, 4, 7])


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (None, None),
        ("2026-11-20", "2026-11-20"),
        (3, 3.0),
        (np.int64(3), 3.0),
        (np.float32(0.5), 0.5),
        (True, "True"),
        (datetime(2026, 11, 20, tzinfo=UTC), "2026-11-20 00:00:00+00:00"),
    ],
)
def test_a_time_is_kept_as_a_number_or_as_text(given: Any, kept: float | str | None) -> None:
    found = Request.of("a", {}, space=SPACE, time=given).time
    assert found == kept
    assert type(found) is type(kept)


def test_what_is_no_number_stays_in_the_state_for_the_controller_to_refuse() -> None:
    state = Request.of("a", {"load": np.int8(3), "busy": True, "name": "x"}, space=SPACE).state  # type: ignore[dict-item]
    assert state == {"load": 3.0, "busy": True, "name": "x"}
    assert [type(value) for value in state.values()] == [float, bool, str]


def test_a_value_that_no_knob_has_is_a_fault_of_the_question() -> None:
    with pytest.raises(BadInputError, match="allowed names what 'a' cannot run") as caught:
        Request.of("a", {}, space=SPACE, allowed={"tilt": [2, 5]})
    assert (caught.value.code, caught.value.argument) == ("no_such_value", "allowed")


def test_what_is_said_of_some_stations_stays_theirs() -> None:
    found = requests_of(
        SPACE, {"a": {}, "b": {}, "c": {}}, allowed={"a": {"tilt": [2]}}, running={"b": {"tilt": 7}}, time=None
    )
    assert [one.allowed for one in found.values()] == [[True, False, False], None, None]
    assert [one.running for one in found.values()] == [None, 2, None]


@pytest.mark.parametrize("name", ["allowed", "running"])
def test_nothing_is_said_of_a_station_that_is_not_asked_for(name: str) -> None:
    said: dict[str, Any] = {"allowed": None, "running": None} | {name: {"b": {"tilt": 2}, "a": {"tilt": 4}}}
    with pytest.raises(BadInputError, match=f"{name} names stations that are not asked for: b$"):
        requests_of(SPACE, {"a": {}}, time=None, **said)


@pytest.mark.parametrize("name", ["states", "allowed", "running"])
def test_what_is_not_given_by_station_is_refused(name: str) -> None:
    said: dict[str, Any] = {"states": {"a": {}}, "allowed": None, "running": None} | {name: ["a"]}
    with pytest.raises(BadInputError, match=f"{name} must be given by station"):
        requests_of(SPACE, said.pop("states"), time=None, **said)


def test_a_call_with_the_same_arguments_has_the_same_digest() -> None:
    one, same, other = (
        Request.of("a", {"load": load}, space=SPACE, running={"tilt": 4}, time=1) for load in (0.5, 0.5, 0.6)
    )
    digests = [fingerprint("ask", asked={"a": request}, noise=np.array([0.1])) for request in (one, same, other)]
    assert digests[0] == digests[1] != digests[2]
    assert fingerprint("ask", x=1, y=2) == fingerprint("ask", y=2, x=1) != fingerprint("tell", x=1, y=2)
