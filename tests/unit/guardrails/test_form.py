"""The common keys of a rails file as a form, and back: nothing that a form does not know is lost."""

from dataclasses import replace
from typing import Any

import pytest

from kinband import ConfigurationSpace
from kinband.errors import BadInputError
from kinband.guardrails import example_text, rails_from_text
from kinband.guardrails.form import Form, form_of, text_with

SPACE = ConfigurationSpace(threshold_dbm=range(-110, -80), scheduler=["pf", "rr", "max"])
STATIONS = ["3714", "3715", "3716", "3720", "3721"]
KNOBS = ["threshold_dbm", "scheduler"]


def read(text: str) -> Any:
    return rails_from_text(text, SPACE, stations=STATIONS)


def test_a_form_that_is_sent_as_it_came_changes_nothing() -> None:
    text = example_text()
    assert text_with(text, form_of(text, KNOBS)) == text


def test_one_field_changes_one_rail_and_its_section_alone() -> None:
    text = example_text()
    form = form_of(text, KNOBS)
    changed = text_with(text, replace(form, changes={**form.changes, "min_time": "6h"}))
    assert read(changed) == replace(read(text), min_time=read("changes: {min_time: 6h}").min_time)
    kept, now = text.splitlines(), changed.splitlines()
    assert [line for line in kept if line not in now] == [line for line in kept if line.startswith("  ") and line in (
        text[text.index("changes:") : text.index("\nneighbours:")]
    )]  # fmt: skip
    assert "# what is written" not in changed
    assert "zone: Europe/Berlin         # whose days" in changed


def test_limits_keep_the_keys_that_the_form_has_no_field_for() -> None:
    form = form_of(example_text(), KNOBS)
    assert form.knobs["scheduler"] == {"min": "", "max": "", "step": ""}
    knobs = {**form.knobs, "threshold_dbm": {"min": "-105", "max": "", "step": "3"}}
    changed = read(text_with(example_text(), replace(form, knobs=knobs)))
    limit = changed.knobs["threshold_dbm"]
    assert (limit.low, limit.high, limit.step) == (-105, None, 3)
    assert changed.knobs["scheduler"].values == {"pf", "rr"}


def test_lists_are_lines_and_what_a_window_says_besides_stays() -> None:
    form = form_of(example_text(), KNOBS)
    assert form.lists["freeze"].splitlines()[0] == "3720"
    assert "why: stadium" in form.lists["forbidden"]
    more = form.lists["freeze"] + "\n 3716 \n\n"
    changed = read(text_with(example_text(), replace(form, lists={**form.lists, "freeze": more, "forbidden": ""})))
    assert [one.station for one in changed.freeze] == ["3720", "3721", "3716"]
    assert str(changed.freeze[1].until) == "2026-05-01"
    assert changed.forbidden == ()


@pytest.mark.parametrize("text", ["", "{}", "{}\n", "# nothing yet\n{}\n"])
def test_a_file_begins_with_a_form(text: str) -> None:
    form = Form(
        knobs={"threshold_dbm": {"min": "", "max": "-90", "step": "2"}},
        changes={"per_day": "2"},
        lists={"maintenance": "days: mon-fri, from: '22:00', to: '05:00'\ndays: sun", "freeze": "3714"},
        fallback={"drop": "5%", "slots": "3", "outside_windows": "on"},
    )
    made = read(text_with(text, form))
    assert made.knobs["threshold_dbm"].step == 2
    assert made.fallback.outside_windows
    assert len(made.maintenance) == 2
    assert made == read(text_with(text_with(text, form), form))


def test_a_fallback_by_controls_needs_one_field() -> None:
    made = read(text_with("zone: UTC\n", Form(fallback={"by": "controls", "rate": "", "drop": "", "slots": ""})))
    assert (made.fallback.rate, made.fallback.drop) == (0.05, None)
    form = form_of(example_text(), KNOBS)
    assert form.fallback["rate"] == "5%"
    emptied = {**form.fallback, "by": "", "rate": "", "retry_after": "1d"}
    assert read(text_with(example_text(), replace(form, fallback=emptied))).fallback.rate is None


def test_what_is_emptied_goes_and_a_file_without_rails_is_still_one() -> None:
    text = "changes:\n  min_time: 4h\nfallback: {drop: 5%, slots: 3}\n"
    empty = Form(changes={"min_time": ""}, fallback={"drop": "", "slots": ""})
    assert text_with(text, empty) == "{}\n"
    assert read("{}\n") == read(text_with(text, empty))


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"changes": {"min_time": "soon"}}, "changes.min_time must be a time with its unit"),
        ({"changes": {"min_time": "4h, per_day: 9"}}, "changes.min_time must be a time with its unit"),
        ({"knobs": {"threshold_dbm": {"min": "low", "max": "", "step": ""}}}, "threshold_dbm.min must be a number"),
        ({"lists": {"freeze": "nobody"}}, "there is no station 'nobody'"),
        ({"lists": {"freeze": '3714", "3715'}}, "there is no station"),
        ({"lists": {"maintenance": "days: {"}}, "this is not YAML"),
        ({"fallback": {"drop": "5%"}}, "fallback needs slots"),
    ],
)
def test_nonsense_is_refused_when_the_text_is_read(change: dict[str, object], complaint: str) -> None:
    with pytest.raises(BadInputError, match=complaint):
        read(text_with("zone: UTC\n", Form(**change)))  # type: ignore[arg-type]


def test_nonsense_that_is_no_text_is_refused_at_once() -> None:
    with pytest.raises(BadInputError, match="a window of maintenance is written as"):
        text_with("zone: UTC\n", Form(lists={"maintenance": "at night"}))
    with pytest.raises(BadInputError, match="rails, line 1: this is not YAML"):
        form_of("knobs: [", KNOBS)
    with pytest.raises(BadInputError, match="cannot be changed by a form"):
        text_with("{zone: UTC, stop: on}", Form(changes={"min_time": "4h"}))
