"""What a command says of its stages, on a terminal and without one, by a clock of our own."""

import io
import sys

import pytest

from kinband import progress
from kinband.progress import expected_text, stage


class Clock:
    """A clock that is put forward."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    monkeypatch.setattr(progress, "_begun", [])
    monkeypatch.setattr(progress, "gigabytes_held", lambda: 0.42)
    return Clock()


def test_without_a_terminal_a_stage_is_one_plain_line_with_seconds_and_memory_so_far(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with stage("reading log.csv", after=0, clock=clock):
        clock.now += 12
    with stage("learning from 90 rows", 9, after=0, clock=clock) as step:
        step("learning")
    said = capsys.readouterr()
    assert said.err == "kinband: 0 s, 0.4 GB: reading log.csv\nkinband: 12 s, 0.4 GB: learning from 90 rows\n"
    assert said.out == ""


def test_a_stage_that_is_over_soon_says_nothing(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with stage("reading log.csv", clock=clock) as step:
        step("reading")
    assert capsys.readouterr().err == ""


def test_what_will_take_long_says_so_at_once(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with stage("planning", seconds=31, gigabytes=1.3, clock=clock):
        pass
    with stage("planning", seconds=29, gigabytes=1.3, clock=clock):
        pass
    assert capsys.readouterr().err == "kinband: 0 s, 0.4 GB: planning (about a minute and 1.3 GB)\n"


def test_a_stage_that_goes_on_says_once_a_minute_how_far_it_is(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with stage("planning for 8 stations", 8, after=0, clock=clock) as step:
        for _ in range(8):
            clock.now += 25
            step("planning")
    with stage("looking", after=0, clock=clock) as step:
        clock.now += 60
        step("still looking")
    said = [line.partition(" GB: ")[2] for line in capsys.readouterr().err.splitlines()]
    assert said == ["planning for 8 stations", "planning, 38%", "planning, 75%", "looking", "still looking"]


def test_on_a_terminal_there_is_a_bar_that_goes_in_the_end(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with stage("planning", 2, clock=clock) as step:
        step("planning")
    assert "kinband:" not in terminal.getvalue()
    assert "planning" in terminal.getvalue()


@pytest.mark.parametrize(
    ("seconds", "gigabytes", "text"),
    [
        (40, 0.0, "about a minute"),
        (89, 0.04, "about a minute"),
        (150, 2.0, "about 2 minutes and 2.0 GB"),
        (5399, 0.0, "about 90 minutes"),
        (9000, 6.0, "about 2.5 hours and 6.0 GB"),
    ],
)
def test_what_is_expected_is_said_in_round_numbers(seconds: float, gigabytes: float, text: str) -> None:
    assert expected_text(seconds, gigabytes) == text
