"""Rails files: what is read, and what is refused, in one sentence with the line."""

import re
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from kinband import ConfigurationSpace
from kinband.errors import BadInputError
from kinband.guardrails import (
    Changed,
    Fallback,
    Freeze,
    Guard,
    History,
    KnobLimit,
    Rails,
    Rewarded,
    Window,
    example_text,
    rails_from_text,
    read_rails,
)
from kinband.guardrails.falls import fall_after_change
from kinband.guardrails.model import zone_named

SPACE = ConfigurationSpace(threshold_dbm=range(-112, -83), scheduler=["pf", "rr", "max"], idle=[False, True])
STATIONS = ["3714", "3715", "3716", "3720", "3721", "007", "NO"]
BERLIN = zone_named("Europe/Berlin")


def read(text: str) -> Rails:
    return rails_from_text(text, SPACE, stations=STATIONS)


def complaint(text: str) -> str:
    with pytest.raises(BadInputError) as caught:
        read(text)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_example_says_what_its_comments_say() -> None:
    rails = read(example_text())
    assert rails == Rails(
        zone=BERLIN,
        knobs={
            "threshold_dbm": KnobLimit(low=-108, high=-88, step=3),
            "scheduler": KnobLimit(values=frozenset({"pf", "rr"})),
        },
        stations={"3714": {"threshold_dbm": KnobLimit(high=-94)}},
        min_time=timedelta(hours=4),
        per_day=2,
        per_round=10,
        round=timedelta(hours=1),
        neighbours_together=False,
        neighbours={"3714": frozenset({"3715", "3716"})},
        maintenance=(
            Window(frozenset(range(5)), 22 * 60, 5 * 60, zone=BERLIN),
            Window(frozenset({5, 6}), zone=BERLIN),
        ),
        forbidden=(
            Window(first=date(2026, 12, 23), last=date(2027, 1, 2), zone=BERLIN, why="end of the year"),
            Window(frozenset({5}), 14 * 60, 19 * 60, zone=BERLIN, stations=frozenset({"3716"}), why="stadium"),
            Window(start=0, end=30, zone=UTC, why="counters are collected"),
        ),
        freeze=(Freeze("3720"), Freeze("3721", date(2026, 5, 1), "antenna swap")),
        fallback=Fallback(
            0.05,
            3,
            share=True,
            before=24,
            rate=0.05,
            within=timedelta(days=4),
            retry_after=timedelta(days=7),
            outside_windows=True,
        ),
        two_people=frozenset({"approve", "rails", "resume"}),
    )
    Guard(rails, SPACE)


def test_an_empty_mapping_limits_nothing() -> None:
    assert read("{}") == Rails()


def test_names_and_times_are_what_was_written_whatever_yaml_makes_of_them() -> None:
    rails = read("freeze: [007, NO]\nforbidden: [{from: 22:00, to: 5:00}]\nknobs: {idle: {values: [off]}}")
    assert [freeze.station for freeze in rails.freeze] == ["007", "NO"]
    assert (rails.forbidden[0].start, rails.forbidden[0].end) == (1320, 300)
    assert rails.knobs["idle"] == KnobLimit(values=frozenset({False}))


def test_days_may_go_over_the_end_of_the_week() -> None:
    assert read("forbidden: [{days: fri-mon}]").forbidden[0].days == {4, 5, 6, 0}
    assert read("forbidden: [{days: [Mon, wed-thu]}]").forbidden[0].days == {0, 2, 3}


def test_neighbours_may_come_from_elsewhere() -> None:
    text = "neighbours: {3714: [3715]}\nchanges: {neighbours_together: no, round: 1h}"
    around = {"3714": ["3716"], "3720": ["3721"]}
    rails = rails_from_text(text, SPACE, stations=STATIONS, neighbours=around)
    assert rails.neighbours["3714"] == {"3715", "3716"}
    assert rails.neighbours["3721"] == {"3720"}


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("stop: off\nknob: {}", 2, "there is no key 'knob' at the top of the file: did you mean 'knobs'?"),
        ("knobs:\n  threshold_dbm:\n    stepp: 3", 3, "no key 'stepp' in knobs.threshold_dbm: did you mean 'step'?"),
        ("knobs:\n  threshold: {min: -100}", 2, "no key 'threshold' in knobs: did you mean 'threshold_dbm'?"),
        ("stop: on\nstop: off", 2, "stop is given twice, first on line 1: keep one of them"),
        ("knobs:\n  threshold_dbm: {max: E8}", 2, "knobs.threshold_dbm.max must be a number, got 'E8'"),
        ("changes: {per_day: -e1}", 1, "changes.per_day must be a number, got '-e1'"),
        ("stop: maybe", 1, "stop must be on or off, got 'maybe'"),
        ("stop:", 1, "stop is empty: give it a value, or remove the line"),
        ("stop: [on]", 1, "stop must be on or off, got a list"),
        ("stop: !!python/name:os.system x", 1, "stop has the tag 'python/name:os.system': write a plain value"),
        ("- stop", 1, "the file must be a mapping from names to values, got a list"),
        ("", 1, "the file is empty"),
        ("# only a comment", 1, "the file is empty"),
        ("stop: off\nknobs: [", 2, "this is not YAML"),
        ("stop: off\n---\nstop: on", 2, "this is not YAML"),
        ("stop: *switch", 1, "this is not YAML"),
        ("stop: off\nzone: \x07", 2, "a character that YAML does not allow"),
        ("[" * 5000, 1, "nested too deeply"),
        ("knobs: {threshold_dbm: {}}", 1, "limits nothing"),
        ("knobs: {threshold_dbm: {min: low}}", 1, "knobs.threshold_dbm.min must be a number, got 'low'"),
        ("knobs: {threshold_dbm: {min: '-100'}}", 1, "must be a number"),
        ("knobs: {threshold_dbm: {min: 1:30}}", 1, "must be a number"),
        ("knobs: {threshold_dbm: {min: .nan}}", 1, "must be a number"),
        ("knobs: {threshold_dbm: {step: 1e999}}", 1, "at most 1e100"),
        (
            "knobs:\n  threshold_dbm:\n    min: 28",
            2,
            "min is 28, but 'threshold_dbm' goes from -112 to -84: check the unit",
        ),
        ("knobs: {threshold_dbm: {max: -113}}", 1, "max is -113"),
        ("knobs: {threshold_dbm: {min: -90, max: -100}}", 1, "min must not be above max"),
        ("knobs: {threshold_dbm: {min: -99.5, max: -99.2}}", 1, "no value of 'threshold_dbm' is -99.5 to -99.2"),
        ("knobs: {threshold_dbm: {step: -1}}", 1, "step must be a number from 0"),
        ("knobs: {scheduler: {min: 1}}", 1, "categories, which have no min or max"),
        ("knobs: {scheduler: {step: 1}}", 1, "categories, which have no step"),
        ("knobs:\n  scheduler:\n    values:\n      - pf\n      - rrr", 5, "has no value 'rrr'"),
        ("knobs: {scheduler: {values: []}}", 1, "is empty: list at least one value"),
        ("knobs: {scheduler: {values: pf}}", 1, "knobs.scheduler.values must be a list, got 'pf'"),
        ("stations:\n  3717: {threshold_dbm: {min: -100}}", 2, "there is no station '3717': did you mean '37"),
        (
            "knobs: {threshold_dbm: {max: -100}}\nstations:\n  3714: {threshold_dbm: {min: -99}}",
            3,
            "the limits leave station '3714' no configuration",
        ),
        ("changes:\n  min_time: 4", 2, "changes.min_time must be a time with its unit, such as 90s"),
        ("changes: {min_time: 9999999w}", 1, "must be a time with its unit"),
        ("changes: {per_day: 1.5}", 1, "changes.per_day must be a whole number from 0, got 1.5"),
        ("changes: {per_day: -1}", 1, "must be a whole number from 0"),
        ("changes: {per_round: 3}", 1, "changes needs round, such as 1h"),
        ("changes: {round: 1h, neighbours_together: no}", 1, "none are named: add neighbours"),
        ("neighbours:\n  3714: [3714]", 2, "listed as its own neighbour"),
        ("neighbours:\n  3714:\n    - 3715\n    - 99", 4, "there is no station '99'"),
        ("maintenance: []", 1, "maintenance lists no window"),
        ("maintenance: {days: mon}", 1, "maintenance must be a list, got a mapping"),
        ("forbidden:\n  - {why: because}", 2, "forbidden[1] is not a window"),
        ("forbidden:\n  - {days: [mon, funday]}", 2, "must be days such as mon-fri or [sat, sun], got 'funday'"),
        ("forbidden: [{from: 25:00}]", 1, "must be a time of the day from 00:00 to 24:00, got '25:00'"),
        ("forbidden: [{from: 10:00, to: 10:00}]", 1, "is empty"),
        ("forbidden: [{first: 2026-02-30}]", 1, "must be a date such as 2026-12-24"),
        ("forbidden:\n- {first: 2026-05-02,\n   last: 2026-05-01}", 2, "before its first day"),
        ("forbidden: [{from: 10:00, zone: Berlin}]", 1, "there is no time zone 'Berlin'"),
        ("zone: Mars/Olympus", 1, "there is no time zone 'Mars/Olympus'"),
        ("freeze:\n  - 3714\n  - 3799", 3, "there is no station '3799'"),
        ("freeze: [{until: 2026-05-01}]", 1, "freeze[1] names no station"),
        ("fallback: {slots: 3}", 1, "fallback needs drop"),
        ("fallback: {drop: 5%, slots: 0}", 1, "fallback.slots must be a whole number from 1"),
        ("fallback: {drop: -5%, slots: 3}", 1, "fallback.drop must be a number from 0, or a share such as 5%"),
        ("fallback: {drop: much, slots: 3}", 1, "fallback.drop must be a number"),
        ("fallback:\n  slots: 3\n  drop: 500%", 3, "fallback.drop is 500%, and no reward falls by more than all of it"),
        ("fallback: {drop: 100%, slots: 3}", 1, "give a share below 100%"),
        ("fallback: {by: drop}", 1, "fallback.by must be controls, for stations that did not change, or own, for"),
        ("fallback: {by: controls, drop: 5%}", 1, "fallback needs slots"),
        ("fallback: {by: own}", 1, "fallback needs drop"),
        ("fallback:\n  by: controls\n  rate: 60%", 3, "fallback.rate must be a share above 0% and below 50%, such as"),
        ("fallback: {by: controls, rate: 0}", 1, "such as 5%, got 0"),
        ("fallback: {rate: 5%, drop: 5%, slots: 3}", 1, "add by: controls, or remove it"),
        ("!!set {a}", 1, "the file has the tag 'set'"),
        ("fallback: {drop: 1, slots: 3, watch: [all]}", 1, "must be own or neighbours, got 'all'"),
        ("fallback: {drop: 1, slots: 3, watch: []}", 1, "fallback.watch is empty"),
        ("fallback: {drop: 1, slots: 3, watch: [neighbours]}", 1, "none are named: add neighbours"),
        ("maintenance: [{days: sat}]\nfallback: {drop: 1, slots: 3}", 2, "fallback needs outside_windows, on or off"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence_with_its_line(text: str, line: int, words: str) -> None:
    said = complaint(text)
    assert said.startswith(f"rails, line {line}: ")
    assert words in said


@pytest.mark.parametrize(
    ("drop", "low", "high", "fires"),
    [
        ("2", 0, 1, False), ("1", 0, 1, False), ("0.99", 0, 1, True), ("99%", 0, 1, True), ("30", -20, 10, False),
        ("29", -20, 10, True), ("60%", 0.5, 1, False), ("40%", 0.5, 1, True), ("99%", -3, -1, True), ("0%", 2, 3, True),
    ],
)  # fmt: skip
def test_a_fall_that_rewards_cannot_have_is_refused_where_their_range_is_known(
    drop: str, low: float, high: float, fires: bool
) -> None:
    text = f"zone: UTC\nfallback: {{drop: {drop}, slots: 1}}"
    rails = read(text)
    assert rails.fallback is not None
    grid = [low + (high - low) * n / 60 for n in range(61)]
    falls = [fall for before in grid for since in grid if (fall := fell(rails.fallback, before, since))]
    assert bool(falls) == fires  # witness: every pair of rewards, held against each other by the guard's own rule
    if fires:
        assert rails_from_text(text, SPACE, stations=STATIONS, reward_range=(low, high)) == rails
        return
    with pytest.raises(BadInputError, match=r"rails, line 2: fallback\.drop is .* cannot fall by more than that"):
        rails_from_text(text, SPACE, stations=STATIONS, reward_range=(low, high))
    kept = rails_from_text(text, SPACE, stations=STATIONS, reward_range=(low, high), on_record=True)
    assert kept == rails  # what holds already is not taken away for it


def test_a_fallback_by_controls_needs_nothing_more_and_takes_the_other_rule_beside_it() -> None:
    assert read("fallback: {by: controls}").fallback == Fallback(rate=0.05)
    assert read("fallback: {by: controls, rate: 0.02, within: 4d}").fallback == Fallback(
        rate=0.02, within=timedelta(days=4)
    )
    both = "fallback: {by: controls, drop: 0.1, slots: 3}"
    assert read(both).fallback == Fallback(0.1, 3, rate=0.05)
    assert read("fallback: {by: own, drop: 0.1, slots: 3}") == read("fallback: {drop: 0.1, slots: 3}")
    assert rails_from_text("fallback: {by: controls}", SPACE, stations=STATIONS, reward_range=(0, 1)).fallback


def fell(fallback: Fallback, before: float, since: float) -> bool:
    """Whether a change is taken back after one slot before it and one since."""
    at = datetime(2026, 3, 1, tzinfo=UTC)
    earned = [Rewarded(at, "a", before), Rewarded(at + timedelta(hours=2), "a", since)]
    past = History.of([*earned, Changed(at + timedelta(hours=1), "a", arm=1, before=0)])
    return fall_after_change(Rails(fallback=fallback), past, "a", running=1) is not None


def test_an_anchor_that_contains_itself_is_refused() -> None:
    assert complaint("freeze: &x [*x]").endswith("freeze[1] must be a mapping from names to values, got a list")


def test_files_are_read_by_their_path_and_complaints_name_it(tmp_path: Path) -> None:
    path = tmp_path / "rails.yaml"
    path.write_bytes(b"\xef\xbb\xbfstop: on\r\nfreeze: [3714]\r\n")  # as some editors save it
    rails = read_rails(path, SPACE, stations=STATIONS)
    assert (rails.stop, rails.freeze) == (True, (Freeze("3714"),))
    path.write_bytes(b"stop: on\nfreeze: [\xff]\n")
    with pytest.raises(BadInputError, match=r"rails.yaml, line 2: this is not UTF-8"):
        read_rails(path, SPACE, stations=STATIONS)
    with pytest.raises(BadInputError, match="cannot be read"):
        read_rails(tmp_path, SPACE, stations=STATIONS)


def test_a_path_is_never_taken_for_a_text() -> None:
    with pytest.raises(BadInputError, match="stop: on cannot be read"):
        read_rails("stop: on", SPACE, stations=STATIONS)


def test_every_file_on_the_page_can_be_read() -> None:
    page = (Path(__file__).parents[3] / "docs" / "guardrails.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert len(blocks) > 5
    for block in blocks:
        assert rails_from_text(block, SPACE, stations=STATIONS, neighbours={"3714": ["3715"]}) != Rails()


def test_the_yaml_library_is_loaded_when_a_file_is_read_and_not_before() -> None:
    code = "import sys, kinband, kinband.guardrails; print('yaml' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_missing_yaml_library_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'kinband\[service\]'"):
        read("stop: on")
