"""What a simulated city exports is read back by `kinband counters` as the log that the city writes itself."""

import re
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest

from kinband.counters import join
from kinband.environments.radio import KNOB, SimulatedTrace, simulate_trace, write_network_files
from kinband.environments.radio.network_files import check_network_files
from kinband.errors import BadInputError


@pytest.fixture(scope="module")
def made() -> SimulatedTrace:
    return simulate_trace(6, days=2, hours=(18.0, 18.1), period_minutes=1.0, changes_per_day=3, seed=11)


@pytest.mark.parametrize("gzipped", [False, True])
def test_the_log_comes_back_from_its_files(made: SimulatedTrace, gzipped: bool, tmp_path: Path) -> None:
    cm, mapping = tmp_path / "cm.csv", tmp_path / "map.yaml"
    files = write_network_files(made, tmp_path / "pm", cm, mapping=mapping, gzipped=gzipped)
    assert files == [cm, mapping, tmp_path / "inventory.csv"]
    joined = join(tmp_path / "pm", mapping, cm=cm)
    # 6 periods and the one before them on 2 days, of 2 sites with 3 sectors.
    assert joined.survey.files == 2 * 7 * 2
    assert joined.lost == {"there is no period before it": 2 * 6}
    back, log = joined.trace, made.trace
    assert back.time is not None
    assert log.time is not None
    rows = np.lexsort((log.time, log.station))
    assert back.station.tolist() == log.station[rows].tolist()
    assert back.time.tolist() == log.time[rows].tolist()
    assert back.configuration[KNOB].tolist() == log.configuration[KNOB][rows].tolist()
    assert back.state_names == log.state_names
    assert back.reward_name == "good_throughput_share"
    np.testing.assert_array_equal(back.reward, log.reward[rows])
    np.testing.assert_array_equal(back.sample_count, log.sample_count[rows])  # type: ignore[index]
    # Means are written with four digits. Packets are whole: half a packet of some ten thousand in a minute.
    np.testing.assert_allclose(back.state, log.state[rows], rtol=0, atol=6e-5)


def test_names_times_and_codes_are_those_of_the_standard(made: SimulatedTrace, tmp_path: Path) -> None:
    write_network_files(made, tmp_path / "pm", tmp_path / "cm.csv")
    file = tmp_path / "pm" / "A20240513.1800+0000-1801+0000_1.xml"
    text = file.read_text(encoding="utf-8")
    assert '<granPeriod duration="PT60S" endTime="2024-05-13T18:01:00+00:00"/>' in text
    names = re.findall(r"<measTypes>(.*)</measTypes>", text)[0].split()
    assert {"RRC.ConnMean", "DRB.UEActive", "DRB.IPThrDlDist.Bin2", "CARR.WBCQIDist.Bin15"} <= set(names)
    period = made.periods[1]
    (first, *_) = re.findall(r'EUtranCellFDD=(\d+)"><measResults>(.*)</measResults>', text)
    sector = made.layout.names.index(first[0])
    counted = dict(zip(names, map(float, first[1].split()), strict=True))
    assert counted["DRB.IPThrDlDist.Bin2"] == period.report.satisfied[sector]
    reports = sum(counted[f"CARR.WBCQIDist.Bin{level}"] for level in range(16))
    assert reports == pytest.approx(60 * counted["RRC.ConnMean"], abs=0.01)  # a report a second from everybody
    header, *rows = (tmp_path / "cm.csv").read_text(encoding="utf-8").splitlines()
    assert header == "DN,time,a2ThresholdRsrp"
    assert rows[sector].endswith(f'EUtranCellFDD={first[0]}",2024-05-13T17:59:00+00:00,40')  # -100 dBm
    assert all(28 <= int(row.rpartition(",")[2]) <= 56 for row in rows)


def test_given_thresholds_run_and_begin_before_the_first_period() -> None:
    thresholds = np.array([[-100.0, -90.0, -110.0]] * 3 + [[-95.0, -90.0, -110.0]] * 3)
    make = {"days": 2, "hours": (18.0, 18.05), "period_minutes": 1.0, "seed": 2}
    made = simulate_trace(3, thresholds=thresholds, first_day=datetime(2026, 11, 2), **make)  # type: ignore[arg-type]
    ran = {str(period.begin): period.thresholds.tolist() for period in made.periods}
    assert ran["2026-11-02 17:59:00"] == ran["2026-11-02 18:02:00"] == [-100, -90, -110]
    assert ran["2026-11-03 17:59:00"] == ran["2026-11-03 18:02:00"] == [-95, -90, -110]
    assert sorted(set(made.columns[KNOB].tolist())) == [-110, -100, -95, -90]
    with pytest.raises(BadInputError, match="they need 6 periods and 3 stations"):
        simulate_trace(3, thresholds=thresholds[:2], **make)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"minutes": 40 / 9}, "choose whole minutes"),
        ({"hours": (0.0, 24.0), "days": 2}, "end the days a period earlier"),
        ({"pm": "full"}, "full is there and not empty"),
        ({"cm": "cm.xml"}, r"cm.xml should be a .csv file"),
        ({"mapping": "full/map.yaml"}, "full/map.yaml exists"),
        ({"mapping": "full/other.yaml"}, "full/inventory.csv exists"),
    ],
)
def test_what_would_not_come_back_is_refused(
    changed: dict[str, object], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("full").mkdir()
    Path("full/map.yaml").write_text("mine")
    Path("full/inventory.csv").write_text("mine")
    given = {"pm": "pm", "cm": "cm.csv", "mapping": None, "minutes": 5.0, "hours": (14.0, 22.0), "days": 1} | changed
    with pytest.raises(BadInputError, match=sentence):
        check_network_files(**given)  # type: ignore[arg-type]
