"""What counts beside the reward, as options: limits and spans in words, and the controller that a service starts."""

from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from kinband.cli import main
from kinband.cli.considerations import ConsiderationOptions, drift_of, floor_of
from kinband.cli.options import LogOptions
from kinband.cli.serve import StartOptions
from kinband.drift import Drift
from kinband.errors import BadInputError


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("drop_rate<=0.01", ("drop_rate", "at_most", 0.01)),
        (" 'drop rate (%)'  >=  -1e-2 ", ("drop rate (%)", "at_least", -0.01)),
        ("a>b <= 3", ("a>b", "at_most", 3.0)),
        ("x ≤ 2", ("x", "at_most", 2.0)),
        ("x ≥ 2", ("x", "at_least", 2.0)),
        ("x == 2", None),
        ("x <= 0,5", None),
        ("x <= inf", None),
        ("x <=", None),
        (">= 1", None),
        ("", None),
    ],
)
def test_a_floor_is_a_column_a_sign_and_a_number(text: str, found: tuple[str, str, float] | None) -> None:
    if found is None:
        with pytest.raises(BadInputError, match="--floor takes a column, <= or >=, and a number"):
            floor_of(text)
    else:
        assert floor_of(text) == found


def test_limits_on_both_sides_are_one_floor() -> None:
    (floor, other) = ConsiderationOptions(floor=["a >= 1", "b <= 3", "a <= 2"]).floors
    assert (floor.name, floor.at_least, floor.at_most, floor.confidence) == ("a", 1.0, 2.0, 0.95)
    assert (other.name, other.at_least, other.at_most) == ("b", None, 3.0)


@pytest.mark.parametrize(
    ("text", "drift"),
    [
        ("14d", Drift(timedelta(days=14), reset=False)),
        ("36 h", Drift(timedelta(hours=36), reset=False)),
        ("2w", Drift(timedelta(weeks=2), reset=False)),
        ("1 row", Drift(1, reset=False, clock="decisions")),
        ("300rows", Drift(300, reset=False, clock="decisions")),
        ("0.5", Drift(0.5, reset=False, clock="numbers")),
        (None, None),
    ],
)
def test_a_span_is_a_half_life_on_its_clock(text: str | None, drift: Drift | None) -> None:
    assert drift_of(text) == drift


@pytest.mark.parametrize("text", ["-1d", "1m", "0", "d", "14 days", "learned", "nan"])
def test_other_spans_are_refused(text: str) -> None:
    with pytest.raises(BadInputError, match="--drift takes a span"):
        drift_of(text)


def log(folder: Path) -> Path:
    rng = np.random.default_rng(2)
    lines = ["station,time,load,tilt,drop,reward"]
    for row in range(90):
        hour = f"2026-03-{1 + row // 72:02d} {row // 3 % 24:02d}:00"
        load, drop, reward = rng.random(3).round(3)
        lines.append(f"{'abc'[row % 3]},{hour},{load},{rng.choice([2, 4])},{drop},{reward}")
    (folder / "log.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "pairs.csv").write_text("station,neighbour\na,b\nnew,a\n", encoding="utf-8")
    (folder / "sites.csv").write_text("station,x\na,1\nb,2\nnew,3\n", encoding="utf-8")
    return folder / "log.csv"


def test_a_service_starts_a_controller_with_all_that_counts(tmp_path: Path) -> None:
    beside = ConsiderationOptions(
        floor=["drop <= 0.9"], neighbours=tmp_path / "pairs.csv", drift="3d", descriptors=tmp_path / "sites.csv"
    )
    columns = LogOptions(configuration=["tilt"])
    start = StartOptions(start=log(tmp_path), similarity="pooled", columns=columns, considered=beside)
    settings = start.controller().setup
    assert [(floor.name, floor.at_most) for floor in settings.config.kpis] == [("drop", 0.9)]
    assert settings.encoder.state.names == ("load", "clock")
    rule, drift = settings.config.neighbours, settings.config.drift
    assert rule is not None
    assert drift is not None
    assert (rule.of("a"), rule.weight_of("a"), rule.others) == ({"b": 1.0, "new": 1.0}, 2 / 3, ("new",))
    assert (drift.half_life, drift.clock, drift.resets) == (3 * 86_400.0, "dates", None)
    assert settings.descriptors == {"a": {"x": 1.0}, "b": {"x": 2.0}}
    assert {"--floor", "--neighbours", "--drift", "--descriptors"} <= set(start.given())


def test_a_saved_controller_takes_none_of_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--ledger", str(tmp_path / "l.db"), "--start", str(tmp_path), "--drift", "3d"]
    assert main(["serve", *options]) == 2
    assert "what counts beside the reward" in capsys.readouterr().err
