"""What several pages show: configurations by name, a decision as a row of a table, a station as map and lists have it.

A decision that a rule of safety held back may have an expected gain below nought, as a trial has, and is the opposite
of one: the rule returns to what is known to be safe (docs/learning.md). Pages tell the two apart.
"""

import re
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple

from kinband.records import best_of
from kinband.service.dashboard.text import knobs, sentence, time_text, value_text
from kinband.service.ledger import Event
from kinband.service.operations import DecisionRecord, Operations, ReadModel, StationState
from kinband.service.operations.records import REWARD, Called, expected_gain
from kinband.service.schemas import Site
from kinband.space import ConfigurationSpace

SLOTS = 24
"""Over how many slots "recent" goes."""

_MOMENT = re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?\+00:00")  # as sentences of the record have times

Moves = tuple[tuple[str, str, str], ...]
"""Knobs that move: name, old value, new value."""


class Names:
    r"""The configurations of a space by arm in words, and what people call the reward, knobs and features.

    Example:
        >>> names = Names(ConfigurationSpace(tilt_deg=[2, 4]), {"tilt_deg": Called("Tilt", "°")})
        >>> names.text(1), names.words("keeps tilt_deg=2: tilt_deg=4 is too far"), names.kpi
        ('Tilt 4\xa0°', 'keeps Tilt 2\xa0°: Tilt 4\xa0° is too far', Called(name='reward', unit=''))
    """

    def __init__(self, space: ConfigurationSpace, called: Mapping[str, Called] | None = None) -> None:
        self.space, self._called = space, called or {}
        self.kpi = self._called.get("reward", REWARD)
        self._texts: dict[int | None, str] = {}  # pages name the same ones many times
        knobs = sorted((name for name in self._called if name in space.knobs), key=len, reverse=True)
        either = "|".join(map(re.escape, knobs))
        self._said = re.compile(rf"(?<![\w.])({either})(?:=(-?[\w.+-]*[\w+-]))?(?!\w)") if knobs else None

    def called(self, name: str) -> Called:
        """Return what people call a knob or a feature."""
        return self._called.get(name) or Called(name)

    def shown(self, arm: int | None) -> Mapping[str, Any] | None:
        """Return a configuration under the names of people, with units."""
        return self.named(self.configuration(arm))

    def named(self, configuration: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        """Return a configuration under the names of people, with units."""
        if configuration is None or not self._called:
            return configuration
        return {self.called(name).name: self.value(name, value) for name, value in configuration.items()}

    def value(self, name: str, value: object) -> str:
        """Return the value of a knob with its unit."""
        return "\N{NO-BREAK SPACE}".join(filter(None, [value_text(value), self.called(name).unit]))

    def words(self, text: str) -> str:
        """Return a sentence of the record under the names of people, with its times as pages have them."""
        text = _MOMENT.sub(lambda found: f"{time_text(found[0])} UTC", text)
        return text if self._said is None else self._said.sub(self._word, text)

    def _word(self, found: re.Match[str]) -> str:
        known, value = self.called(found[1]), found[2]
        return known.name if value is None else f"{known.name} {self.value(found[1], value.replace('-', '−'))}"

    def sentence(self, event: Event) -> str:
        """Return an event as one sentence."""
        text = sentence(event, self.shown)
        return text if event.kind == "names" else self.words(text)

    def configuration(self, arm: int | None) -> Mapping[str, Any] | None:
        """Return a configuration, None for an arm that does not exist."""
        return self.space[arm] if arm is not None and 0 <= arm < len(self.space) else None

    def text(self, arm: int | None) -> str:
        """Return a configuration in words."""
        if arm not in self._texts:
            self._texts[arm] = knobs(self.shown(arm))
        return self._texts[arm]

    def moves(self, before: int | None, after: int) -> Moves:
        """Return the knobs that move from one configuration to another, each with its old and its new value."""
        old, new = self.configuration(before) or {}, self.configuration(after) or {}
        return tuple(
            (self.called(knob).name, value_text(old[knob]) if knob in old else "?", self.value(knob, value))
            for knob, value in new.items()
            if knob not in old or old[knob] != value
        )


def names_of(operations: Operations) -> Names:
    """Return the configurations to choose from; the same as long as nobody says that things are called otherwise."""
    with operations.looking() as read_model:
        return _named(operations.space, tuple(read_model.called.items()))


@lru_cache(maxsize=16)
def _named(space: ConfigurationSpace, called: tuple[tuple[str, Called], ...]) -> Names:
    return Names(space, dict(called))


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
        """Whether it is made to learn: what runs is expected to earn more now, and no rule of safety wants it."""
        return self.held is None and self.now is not None and self.now < 0.0

    @property
    def now(self) -> float | None:
        """What is expected to be gained in the state that it was decided in; None where that is not known."""
        before, proposed = self.record.scored(self.record.running)[0], self.record.scored(self.record.wanted)[0]
        if before is not None and proposed is not None:
            return proposed - before
        return None if self.gain is None else self.gain[0]

    @property
    def mark(self) -> str:
        """What the change is called: a trial, held back by a rule, good for now alone; else empty."""
        if self.held is not None:
            return f"held back by the {self.held.by}"
        return "trial" if self.trial else "for now" if self.gain is not None and self.gain[0] < 0.0 else ""


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
        reason="" if verdict is None or (record.status == "kept" and passed) else names.words(verdict.reason),
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


# --- A station as map and lists show it -----------------------------------------------------------------------------


class Hope(NamedTuple):
    """What a station could gain: by how much the best configuration is expected to earn more than what runs, and it."""

    gain: float
    best: str


class Look(NamedTuple):
    """A station as map and lists show it.

    Attributes:
        station: Its name.
        mode: Its mode.
        running: What it runs, in words.
        recent: Its mean reward of late.
        gain: Its mean gain a slot.
        changed: When it last changed.
        changed_by: Who changed it.
        frozen: Why it is frozen; None if it is not.
        frozen_by: "person" or "rails"; empty if it is not frozen.
        held: Why the rails freeze it; None if they do not.
        active: Whether it is decided for.
        status: What became of its last decision; empty where there is none.
        rewards: Its last known rewards, oldest first.
        hope: What it could gain, by the beliefs of its last decision; None where that is nothing, or not known.
    """

    station: str
    mode: str
    running: str
    recent: float | None
    gain: float | None
    changed: datetime | None
    changed_by: str
    frozen: str | None
    frozen_by: str
    held: str | None
    active: bool
    status: str
    rewards: tuple[float, ...]
    hope: Hope | None


class Looks:
    """Stations as map and lists show them, each kept until an event is about it.

    Example:
        >>> Looks().of.__name__
        'of'
    """

    def __init__(self) -> None:
        self._kept: dict[str, tuple[int, Look]] = {}

    def of(self, operations: Operations, names: Names) -> list[Look]:
        """Return all stations, those that have left among them."""
        held = frozen_by_rails(operations)
        with operations.looking() as read_model:
            touched, everybody, found = read_model.touched, read_model.touched_all, list[Look]()
            for name, state in read_model.stations.items():
                seq, look = self._kept.get(name, (-1, None))
                if look is None or seq < everybody or seq < touched.get(name, 0) or look.held != held.get(name):
                    look = _look_of(state, read_model, names, held.get(name))
                    self._kept[name] = read_model.seq, look
                found.append(look)
            return found


def _look_of(state: StationState, read_model: ReadModel, names: Names, held: str | None) -> Look:
    rewards, gain = read_model.last_rewards(state.station), read_model.gain(state.station)
    last = None if state.last is None else read_model.decisions[state.last]
    by = "person" if state.frozen is not None else "rails" if held is not None else ""
    return Look(
        station=state.station, mode=state.mode, running=names.text(state.running),
        recent=sum(rewards) / len(rewards) if rewards else None, gain=gain.mean if gain.slots else None,
        changed=state.changed, changed_by=state.changed_by,
        frozen=held if state.frozen is None else state.frozen, frozen_by=by, held=held, active=state.active,
        status="" if last is None else last.status, rewards=rewards,
        hope=None if last is None or not state.active else hope_of(last, state.running, names),
    )  # fmt: skip


def hope_of(record: DecisionRecord, running: int | None, names: Names) -> Hope | None:
    """Return what a station could gain by what was believed when it was last decided for; None where that is nothing.

    Args:
        record: Its last decision.
        running: What it runs.
        names: The configurations.
    """
    (now, _), best = record.scored(running), best_of(record.decision)
    if now is None or best is None or best.mean is None or best.arm == running or best.mean <= now:
        return None
    return Hope(best.mean - now, names.text(best.arm))


def frozen_by_rails(operations: Operations) -> dict[str, str]:
    """Return which stations the rails freeze today, and why."""
    rails = operations.guard.rails
    if not rails.freeze:
        return {}
    today = operations.now().astimezone(rails.zone).date()
    return {one.station: one.why or "it is on the freeze list" for one in rails.freeze if one.holds(today)}
