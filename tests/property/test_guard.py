"""No sequence of requests gets a forbidden change through, and nothing is refused without need.

The witness below judges one change after the other, literally from the promises of `kinband.guardrails`, with the whole
log at hand. It shares no code with the guard: windows are intervals of wall-clock datetimes, limits are comparisons.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from itertools import permutations
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

from hypothesis import given, settings
from hypothesis import strategies as st

from kinband import ConfigurationSpace
from kinband.errors import BadInputError
from kinband.guardrails import (
    Changed,
    Event,
    Fallback,
    Freeze,
    Frozen,
    Guard,
    History,
    KnobLimit,
    Proposal,
    Rails,
    Resumed,
    Rewarded,
    Stopped,
    Thawed,
    Verdict,
    Window,
    changes_of,
    event_from,
    example_text,
    rails_from_text,
)

STATIONS = ("a", "b", "c", "d")
SPACE = ConfigurationSpace(tilt=[0, 1, 2, 3, 5, 8], mode=["x", "y"])
ZONES = [ZoneInfo("Europe/Berlin"), ZoneInfo("America/New_York"), UTC]
BEGIN = datetime(2026, 3, 28, 20, tzinfo=UTC)  # hours before clocks are changed in Berlin
LONG_AGO = BEGIN - timedelta(days=60)


# --- The witness --------------------------------------------------------------------------------------------


def in_window(window: Window, now: datetime) -> bool:
    """Whether the wall clock shows a time in the interval that begins today or began yesterday."""
    wall = now.astimezone(window.zone).replace(tzinfo=None)
    for day in (wall.date(), wall.date() - timedelta(days=1)):
        begin = datetime.combine(day, time()) + timedelta(minutes=window.start)
        length = window.end - window.start if window.end > window.start else window.end - window.start + 1440
        on = day.weekday() in window.days and (window.first or date.min) <= day <= (window.last or date.max)
        if on and begin <= wall < begin + timedelta(minutes=length):
            return True
    return False


@dataclass
class Witness:
    """Keeps the log and says what may be done."""

    rails: Rails
    log: list[Event] = field(default_factory=list)

    def changes(self) -> list[Changed]:
        return [event for event in self.log if isinstance(event, Changed)]

    def of(self, station: str) -> list[Changed]:
        return [change for change in self.changes() if change.station == station]

    def time(self, now: datetime) -> datetime:
        """What time it is where a clock shows `now`: no earlier than the latest of what was done."""
        return max([now, *(event.at for event in self.log if not isinstance(event, Rewarded))])

    def stopped(self) -> bool:
        switches = [isinstance(event, Stopped) for event in self.log if isinstance(event, Stopped | Resumed)]
        return self.rails.stop or switches[-1:] == [True]

    def frozen(self, station: str, now: datetime) -> bool:
        marks = [isinstance(e, Frozen) for e in self.log if isinstance(e, Frozen | Thawed) and e.station == station]
        today = now.astimezone(self.rails.zone).date()
        listed = [f for f in self.rails.freeze if f.station == station and (f.until is None or f.until >= today)]
        return marks[-1:] == [True] or bool(listed)

    def quiet(self, station: str, now: datetime, *, windows: bool) -> bool:
        """Whether nothing that a person decided is in the way of a change."""
        if self.stopped() or self.frozen(station, now):
            return False
        mine = [w for w in self.rails.forbidden if w.stations is None or station in w.stations]
        if any(in_window(window, now) for window in mine):
            return False
        if self.rails.maintenance is None or not windows:
            return True
        mine = [w for w in self.rails.maintenance if w.stations is None or station in w.stations]
        return any(in_window(window, now) for window in mine)

    def in_range(self, station: str, arm: int) -> bool:
        row = SPACE[arm]
        for limits in (self.rails.knobs, self.rails.stations.get(station, {})):
            for name, limit in limits.items():
                if limit.values is not None and row[name] not in limit.values:
                    return False
                if (limit.low is not None and row[name] < limit.low) or (
                    limit.high is not None and row[name] > limit.high
                ):
                    return False
        return True

    def in_reach(self, station: str, running: int, arm: int) -> bool:
        old, new = SPACE[running], SPACE[arm]
        for limits in (self.rails.knobs, self.rails.stations.get(station, {})):
            for name, limit in limits.items():
                if limit.step is None or old[name] == new[name]:
                    continue
                if isinstance(old[name], str) or abs(old[name] - new[name]) > limit.step:
                    return False
        return True

    def rare_enough(self, station: str, now: datetime, earlier: Sequence[Changed]) -> bool:
        """Whether a change now, with those of the log and those of the same review, is not one too many."""
        rails, day = self.rails, now.astimezone(self.rails.zone).date()
        own = self.of(station)
        if rails.min_time and any(abs(change.at - now) < rails.min_time for change in own):
            return False
        if rails.per_day is not None:
            today = [change for change in own if change.at.astimezone(rails.zone).date() == day]
            if len(today) >= rails.per_day:
                return False
        near = [c for c in self.changes() if c.at == now or abs(c.at - now) < rails.round] + list(earlier)
        if rails.per_round is not None and len(near) >= rails.per_round:
            return False
        beside = {*rails.neighbours.get(station, ())}
        return rails.neighbours_together or not any(change.station in beside for change in near)

    def tried(self, station: str, now: datetime, arm: int) -> bool:
        if self.rails.fallback is None:
            return False
        pause = self.rails.fallback.retry_after
        return any(c.by == "roll-back" and c.before == arm and abs(c.at - now) < pause for c in self.of(station))

    def may(self, station: str, arm: int, *, now: datetime, earlier: Sequence[Changed]) -> bool:
        """Whether an ordinary change keeps all promises."""
        running = self.of(station)[-1].arm
        return (
            self.quiet(station, now, windows=True)
            and self.in_range(station, arm)
            and self.in_reach(station, running, arm)
            and self.rare_enough(station, now, earlier)
            and not self.tried(station, now, arm)
        )

    def back(self, station: str) -> int | None:
        """What it ran last within its ranges and was not taken back."""
        running = self.of(station)[-1].arm
        ran = [c.before for c in self.of(station) if c.by != "roll-back" and c.before not in (None, running)]
        return next((arm for arm in reversed(ran) if arm is not None and self.in_range(station, arm)), None)

    def fell(self, station: str) -> bool:
        """Whether rewards fell after the latest change, a controller's."""
        change, fallback = self.of(station)[-1], self.rails.fallback
        if fallback is None or change.by != "controller":
            return False
        watched = [station] * fallback.own + [*self.rails.neighbours.get(station, ())] * fallback.neighbours
        return any(self._fell(change, whose, fallback) for whose in watched)

    def _fell(self, change: Changed, whose: str, fallback: Fallback) -> bool:
        slots = {e.at: e.reward for e in self.log if isinstance(e, Rewarded) and e.station == whose}
        marks = [c.at for c in self.of(whose) if c is not change]
        for at in list(slots):
            between = [m for m in marks if min(at, change.at) < m <= max(at, change.at)]
            late = fallback.within is not None and at >= change.at + fallback.within
            if late or between:
                del slots[at]
        before = [slots[at] for at in sorted(slots) if at < change.at][-fallback.before :]
        since = [slots[at] for at in sorted(slots) if at >= change.at][-fallback.slots :]
        if not before or len(since) < fallback.slots:
            return False
        earned = sum(before) / len(before)
        drop = fallback.drop or 0.0
        most = drop * abs(earned) if fallback.share else drop
        return all(earned - reward > most + 1e-7 for reward in since)

    def expected(self, proposals: Sequence[Proposal], now: datetime) -> dict[str, int | None]:
        """What each station should run after a review of proposals whose `running` is true."""
        clock, now = now, self.time(now)
        answer: dict[str, int | None] = {}
        made: list[Changed] = []
        for proposal in proposals:
            station, latest = proposal.station, self.of(proposal.station)[-1]
            outside = self.rails.fallback is not None and self.rails.fallback.outside_windows
            back = self.back(station) if self.fell(station) else None
            if back is not None and self.quiet(station, now, windows=not outside):
                answer[station] = back
                made.append(Changed(now, station, back, latest.arm, "roll-back"))
        for proposal in proposals:
            station, running = proposal.station, self.of(proposal.station)[-1].arm
            if station in answer:
                continue
            trusted = now - clock <= timedelta(minutes=1)
            allowed = [
                arm
                for arm in proposal.arms
                if arm == running or (trusted and self.may(station, arm, now=now, earlier=made))
            ]
            answer[station] = allowed[0] if allowed else running
            if answer[station] != running:
                made.append(Changed(now, station, allowed[0], running))
        return answer


# --- What is drawn ------------------------------------------------------------------------------------------


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


minutes = st.integers(0, 95).map(lambda quarter: 15 * quarter)
durations = st.sampled_from([0, 1, 30, 60, 240, 1500]).map(lambda n: timedelta(minutes=n))
days = st.integers(0, 3).map(lambda n: date(2026, 3, 28) + timedelta(days=n))


@st.composite
def windows(draw: st.DrawFn) -> Window:
    start, end = draw(minutes), draw(minutes)
    first, last = draw(maybe(days)), draw(maybe(days))
    if first and last and first > last:
        first, last = last, first
    stations = draw(maybe(st.frozensets(st.sampled_from(STATIONS), min_size=1)))
    try:
        of_week = draw(st.sampled_from([frozenset(range(7)), frozenset({5}), frozenset({6, 0})]))
        return Window(of_week, start, end or 1440, first, last, draw(st.sampled_from(ZONES)), stations)
    except BadInputError:
        return Window(zone=draw(st.sampled_from(ZONES)), start=start, stations=stations)


def limits() -> st.SearchStrategy[dict[str, KnobLimit]]:
    tilt = st.builds(
        KnobLimit,
        low=maybe(st.sampled_from([0, 1])),
        high=maybe(st.sampled_from([3, 5])),
        step=maybe(st.integers(0, 5)),
    )
    mode = st.builds(KnobLimit, step=maybe(st.just(0)), values=maybe(st.just(frozenset({"x"}))))
    return st.fixed_dictionaries({}, optional={"tilt": tilt, "mode": mode})


fallbacks = st.builds(
    Fallback,
    drop=st.sampled_from([0.0, 0.1, 0.3]),
    slots=st.integers(1, 2),
    share=st.booleans(),
    before=st.integers(1, 3),
    own=st.sampled_from([True, True, False]),
    neighbours=st.booleans(),
    within=maybe(st.sampled_from([timedelta(hours=2), timedelta(days=1)])),
    retry_after=durations,
    outside_windows=st.booleans(),
)

PARTS: dict[str, st.SearchStrategy[Any]] = {
    "stop": st.just(True),
    "knobs": limits(),
    "stations": st.dictionaries(st.sampled_from(STATIONS), limits(), min_size=1, max_size=2),
    "min_time": durations,
    "per_day": st.integers(0, 3),
    "per_round": st.integers(0, 3),
    "neighbours_together": st.just(False),
    "maintenance": st.lists(windows(), min_size=1, max_size=3).map(tuple),
    "forbidden": st.lists(windows(), min_size=1, max_size=2).map(tuple),
    "freeze": st.lists(st.builds(Freeze, st.sampled_from(STATIONS), maybe(days)), min_size=1, max_size=2).map(tuple),
}


@st.composite
def all_rails(draw: st.DrawFn) -> Rails:
    """A few rails at a time: with all of them nothing would ever change."""
    chosen = {name: draw(PARTS[name]) for name in draw(st.sets(st.sampled_from(list(PARTS)), max_size=3))}
    around = draw(st.sampled_from([{}, {"a": frozenset("b")}, {"a": frozenset("bc"), "d": frozenset("c")}]))
    zone, lasting = draw(st.sampled_from(ZONES)), draw(durations)
    return Rails(zone=zone, round=lasting, neighbours=around, fallback=draw(fallbacks | maybe(fallbacks)), **chosen)


MINUTES = [0, 1, 15, 15, 30, 40, 60, 60, 60, 90, 400, -1, -50, -200]
KINDS = ["ask"] * 8 + ["earn"] * 10 + ["resume"] * 3 + ["thaw"] * 2 + ["operator", "freeze", "stop"]


def happening(kind: str, witness: Witness, now: datetime, rng: Random) -> Iterator[Event]:
    """What happens beside reviews."""
    station = rng.choice(STATIONS)
    match kind:
        case "earn":
            yield from (Rewarded(now, name, rng.choice([0.2, 0.6, 0.6, 0.9])) for name in STATIONS)
        case "operator":
            yield Changed(now, station, rng.randrange(len(SPACE)), witness.of(station)[-1].arm, "operator")
        case "freeze" | "thaw":
            yield Frozen(now, station) if kind == "freeze" else Thawed(now, station)
        case "stop" | "resume":
            yield Stopped(now) if kind == "stop" else Resumed(now)


def wishes(witness: Witness, rng: Random) -> list[Proposal]:
    """Proposals for some stations, in any order, each with a few configurations; often what was just left."""
    proposals = []
    for name in rng.sample(STATIONS, rng.randint(1, 4)):
        latest = witness.of(name)[-1]
        arms = rng.sample(range(len(SPACE)), rng.choice([0, 0, 1, 2, 4]))
        left = [latest.before] if latest.before is not None and rng.random() < 0.3 else []
        proposals.append(Proposal(name, latest.arm, list(dict.fromkeys([*left, *arms]))))
    return proposals


@settings(max_examples=250, deadline=None)
@given(rails=all_rails(), seed=st.integers(0, 2**32))
def test_the_guard_does_what_its_promises_say_and_nothing_else(rails: Rails, seed: int) -> None:
    rng = Random(seed)
    guard, witness, now = Guard(rails, SPACE), Witness(rails), BEGIN
    witness.log += [Changed(LONG_AGO, name, rng.randrange(len(SPACE)), None, "operator") for name in STATIONS]
    history = History.of(witness.log)
    for _ in range(40):
        now += timedelta(minutes=rng.choice(MINUTES))
        kind = rng.choice(KINDS)
        new = list(happening(kind, witness, now, rng))
        if kind == "ask":
            proposals = wishes(witness, rng)
            verdicts = guard.review(proposals, history, now=now)
            assert {name: verdict.arm for name, verdict in verdicts.items()} == witness.expected(proposals, now)
            for proposal in proposals:
                check_verdict(verdicts[proposal.station], proposal)
            new += changes_of(verdicts.values(), now)
        witness.log += new
        history = history.after(new)
    assert history == History.of([event_from(event.to_dict()) for event in witness.log])


def check_verdict(verdict: Verdict, proposal: Proposal) -> None:
    """The outcome is the name of what happened, and every refusal has its reason."""
    asked = proposal.arms[0] if proposal.arms else None
    if verdict.outcome in ("allowed", "refused"):
        kept = verdict.arm == proposal.running
        assert (verdict.arm == asked or (asked is None and kept)) if verdict.outcome == "allowed" else kept
    if verdict.outcome == "replaced":
        assert verdict.arm in proposal.arms[1:]
        assert verdict.changes
    if verdict.outcome in ("replaced", "refused"):
        assert verdict.refusals
    assert all(refusal.reason for refusal in verdict.refusals)
    assert verdict.reason
    assert Verdict.from_dict(verdict.to_dict()) == verdict


@given(rails=all_rails(), lies=st.permutations(range(4)), arm=st.integers(0, len(SPACE) - 1))
@settings(max_examples=30, deadline=None)
def test_a_proposal_that_contradicts_the_history_changes_nothing(rails: Rails, lies: list[int], arm: int) -> None:
    past = History.of([Changed(LONG_AGO, "a", arm=lies[0], before=None)])
    verdict = Guard(rails, SPACE).review([Proposal("a", lies[1], [arm, *lies])], past, now=BEGIN)["a"]
    assert verdict.arm == lies[1]
    assert arm == lies[1] or "running" in verdict.codes


@given(order=st.sampled_from(list(permutations(STATIONS))), most=st.integers(0, 4))
@settings(max_examples=20, deadline=None)
def test_the_first_of_a_round_are_served(order: tuple[str, ...], most: int) -> None:
    guard = Guard(Rails(per_round=most, round=timedelta(hours=1)), SPACE)
    verdicts = guard.review([Proposal(station, 0, [1]) for station in order], History(), now=BEGIN)
    assert [station for station, verdict in verdicts.items() if verdict.changes] == list(order[:most])


@given(window=windows(), start=st.integers(0, 4000), length=st.integers(1, 400))
@settings(max_examples=60, deadline=None)
def test_windows_are_what_a_wall_clock_shows(window: Window, start: int, length: int) -> None:
    for autumn in (False, True):
        night = datetime(2026, 10, 24, 12, tzinfo=UTC) if autumn else BEGIN - timedelta(hours=8)
        for minute in range(start, start + length, 7):
            now = night + timedelta(minutes=minute)
            assert window.holds(now) == in_window(window, now)


LINES = example_text().splitlines()


@given(
    st.lists(
        st.tuples(st.integers(0, len(LINES) - 1), st.sampled_from(["cut", "twice", "indent", "blank", "swap", "word"])),
        min_size=1,
        max_size=3,
    ),
    st.text(alphabet="abc:-[]{}&*!%|>\"'#0129 \n\t", max_size=12),
)
@settings(max_examples=150, deadline=None)
def test_a_damaged_file_is_read_or_refused_in_one_sentence_with_its_line(
    damage: list[tuple[int, str]], word: str
) -> None:
    lines = list(LINES)
    for at, how in damage:
        line = lines[at]
        changed = {"cut": line[: len(line) // 2], "twice": f"{line}\n{line}", "indent": f"  {line}", "blank": ""}
        changed |= {"swap": lines[at - 1], "word": line.partition(":")[0] + ": " + word}
        lines[at] = changed[how]
    refused_with_a_line("\n".join(lines))


@given(st.text(max_size=40) | st.text(alphabet="abknozste:-[]{}&*!?,|>\"'#019.\n ", max_size=60))
@settings(max_examples=150, deadline=None)
def test_any_text_is_read_or_refused_in_one_sentence_with_its_line(text: str) -> None:
    refused_with_a_line(text)


def refused_with_a_line(text: str) -> None:
    space = ConfigurationSpace(threshold_dbm=range(-112, -83), scheduler=["pf", "rr", "max"])
    stations = ["3714", "3715", "3716", "3720", "3721"]
    complaint = "rails, line 0"
    try:
        Guard(rails_from_text(text, space, stations=stations), space)
    except BadInputError as error:
        complaint = str(error)
    assert complaint.startswith("rails, line ")
    assert "\n" not in complaint
