"""What a journal keeps packed comes back bit for bit, and takes little room."""

import json
import sys
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinband import ConfigurationSpace, Controller
from kinband.controller.events import entry_to_dict
from kinband.records import Alternatives, PackedState

states = st.dictionaries(st.text(max_size=8), st.floats(allow_nan=False), max_size=7)


@given(states)
def test_a_packed_state_is_the_mapping_it_was_made_from(state: dict[str, float]) -> None:
    packed = PackedState(state)
    assert isinstance(packed, Mapping)
    assert (list(packed), list(packed.values())) == (list(state), list(state.values()))
    assert json.dumps(dict(packed)) == json.dumps(state)  # bit for bit, and in the same order
    assert packed == state
    assert all(packed[name] == value for name, value in state.items())


@given(states, st.text(max_size=8))
def test_a_name_it_does_not_have_is_a_key_error(state: dict[str, float], name: str) -> None:
    state.pop(name, None)
    packed = PackedState(state)
    assert name not in packed
    with pytest.raises(KeyError):
        packed[name]


def test_states_of_the_same_features_share_their_names() -> None:
    some = [PackedState({"load": 0.1 * i, "users": float(i)}) for i in range(3)]
    assert len({id(one._names) for one in some}) == 1
    assert sys.getsizeof(some[0]) + sys.getsizeof(some[0]._packed) < sys.getsizeof(dict(some[0]))


@given(st.lists(st.tuples(st.integers(0, 2**31 - 1), *[st.none() | st.floats(allow_nan=False)] * 3), max_size=9))
def test_packed_alternatives_are_those_they_were_made_from(
    rows: list[tuple[int, float | None, float | None, float | None]],
) -> None:
    assert [(one.arm, one.mean, one.std, one.ucb) for one in Alternatives(rows)] == rows


def test_a_controller_keeps_and_writes_the_state_that_it_was_asked_with() -> None:
    controller = Controller(ConfigurationSpace(tilt=[2, 4]), ["a"], state=["users", "load"], seed=5)
    controller.ask("a", {"load": 0.3, "users": 7})
    [entry] = controller.journal
    assert entry_to_dict(entry)["state"] == {"load": 0.3, "users": 7.0}
