"""What several pages show: configurations by name, a decision as a row of a table, a station as map and lists have it.

A decision that a rule of safety held back may have an expected gain below nought, as a trial has, and is the opposite
of one: the rule returns to what is known to be safe (docs/learning.md). Pages tell the two apart.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from kinband.service.dashboard.text import knobs, value_text
from kinband.service.operations import DecisionRecord, Operations, ReadModel, StationState
from kinband.service.operations.records import expected_gain
from kinband.service.schemas import Site
from kinband.space import ConfigurationSpace

SLOTS = 24
"""Over how many slots "recent" goes."""

Moves = tuple[tuple[str, str, str], ...]
"""Knobs that move: name, old value, new value."""


class Names:
    """The configurations of a space by arm, in words."""

    def __init__(self, space: ConfigurationSpace) -> None:
        self.space = space
        self._texts: dict[int | None, str] = {}  # pages name the same ones many times

    def configuration(self, arm: int | None) -> Mapping[str, Any] | None:
        """Return a configuration, None for an arm that does not exist."""
        return self.space[arm] if arm is not None and 0 <= arm < len(self.space) else None

    def text(self, arm: int | None) -> str:
        """Return a configuration in words."""
        if arm not in self._texts:
            self._texts[arm] = knobs(self.configuration(arm))
        return self._texts[arm]

    def moves(self, before: int | None, after: int) -> Moves:
        """Return the knobs that move from one configuration to another, each with its old and its new value."""
        old, new = self.configuration(before) or {}, self.configuration(after) or {}
        return tuple(
            (knob, value_text(old[knob]) if knob in old else "?", value_text(value))
            for knob, value in new.items()
            if knob not in old or old[knob] != value
        )


def names_of(operations: Operations) -> Names:
    """Return the configurations to choose from."""
    return Names(operations.space)


def sites_of(operations: Operations) -> dict[str, Site]:
    """Return where sectors stand; nobody who decides is waited for."""
    return operations.sites


class Held(NamedTuple):
    """A decision that a rule held back: which rule, what is done instead, for a table, and all of it in a sentence."""

    by: str
    instead: str
    sentence: str


def held_of(record: DecisionRecord, names: Names) -> Held | None:
    """Return what held a decision back, by what the policy noted; None where nothing did."""
    note = record.decision.policy_state.get("safety") or {}
    if "held_back" not in note:
        return None
    by, tried, chosen = str(note.get("by", "rule")), names.text(note["held_back"]), names.text(record.decision.arm)
    start = f"The {by} held back a trial of {tried}: the station"
    if record.decision.arm == record.running:
        return Held(by, f"stays with {chosen}, no trial of {tried}", f"{start} stays with {chosen}.")
    short, long = ("back to", "goes back to") if by == "budget" else ("takes", "takes")
    return Held(by, f"{short} {chosen}, not on to {tried}", f"{start} {long} {chosen}.")


class Row(NamedTuple):
    """A decision as a row of a table.

    Attributes:
        record: The decision.
        before: What ran.
        wanted: What should run; of a refusal, what was refused.
        moves: The knobs that would move, with old and new value; none where nothing is to be changed.
        rails: The rails that refused something, where the guard did not let through what was chosen.
        reason: What the guard said; empty where it had nothing to review.
        gain: The gain expected of the change and the ends of its interval; None where nothing changes or none is known.
        held: What a rule of safety held back; None where none did.
    """

    record: DecisionRecord
    before: str
    wanted: str
    moves: Moves
    rails: tuple[str, ...]
    reason: str
    gain: tuple[float, float, float] | None
    held: Held | None

    @property
    def trial(self) -> bool:
        """Whether it is made to learn: what runs is expected to earn more, and no rule of safety wants the change."""
        return self.held is None and self.gain is not None and self.gain[0] < 0.0

    @property
    def mark(self) -> str:
        """What the change is called: a trial, or held back by a rule; empty where it is neither."""
        return f"held back by the {self.held.by}" if self.held is not None else "trial" if self.trial else ""


def row_of(record: DecisionRecord, names: Names, *, gains: bool = True) -> Row:
    """Return a decision as a row; without `gains`, which take looking for scores, none is given."""
    verdict = record.verdict
    passed = verdict is None or verdict.outcome == "allowed"
    wanted = record.decision.arm if record.status == "refused" else record.wanted
    return Row(
        record=record,
        before=names.text(record.running),
        wanted=names.text(wanted),
        moves=names.moves(record.running, wanted) if wanted != record.running else (),
        rails=() if verdict is None or passed else verdict.codes,
        reason="" if verdict is None or (record.status == "kept" and passed) else verdict.reason,
        gain=expected_gain(record) if gains and record.changes else None,
        held=held_of(record, names),
    )


def named_slot(slot: str | None) -> str:
    """Return the caller's name of a slot, unless it is a time, which is shown anyway.

    Example:
        >>> named_slot("2026-11-20T10:00:00+00:00"), named_slot("busy hour"), named_slot(None)
        ('', 'busy hour', '')
    """
    try:
        datetime.fromisoformat(slot or "")
    except ValueError:
        return slot or ""
    return ""


class Look(NamedTuple):
    """A station as map and lists show it: what it runs in words, its mean reward of late, its mean gain a slot."""

    station: str
    mode: str
    running: str
    recent: float | None
    gain: float | None
    changed: datetime | None
    changed_by: str
    frozen: str | None
    active: bool


def look_of(state: StationState, read_model: ReadModel, names: Names) -> Look:
    """Return a station as map and lists show it."""
    recent, gain = read_model.recent(state.station, SLOTS), read_model.gain(state.station)
    return Look(
        state.station, state.mode, names.text(state.running), recent, gain.mean if gain.slots else None, state.changed,
        state.changed_by, state.frozen, state.active,
    )  # fmt: skip
