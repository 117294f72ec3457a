"""Pages that are sent: whatever a KPI and a knob are called, nothing of a table lies outside of them."""

import csv
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, sync_playwright

from kinband.cli import main
from kinband.planning import Change, ChangePlan, Origin
from kinband.stats import Estimate

REWARD, KNOB = "DL user throughput >5Mbps, share of all users [%]", "ElectricalAntennaTiltOfTheSector"
OUTSIDE = "[...document.querySelectorAll('.scroll')].map(one => one.scrollWidth - one.clientWidth)"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        pytest.skip("needs a browser: apt-get install chromium")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-gpu"])
        yield opened
        opened.close()


def outside(browser: Browser, file: Path, width: int) -> list[int]:
    page = browser.new_page(viewport={"width": width, "height": 900})
    page.goto(file.as_uri())
    found: list[int] = page.evaluate(OUTSIDE)
    page.close()
    return found


@pytest.mark.parametrize("width", [1280, 1920, 390])
def test_a_plan_and_a_report_fit_their_page(width: int, browser: Browser, tmp_path: Path) -> None:
    gain = Estimate(12.3, 11.5, 13.1)
    changes = [
        Change(
            f"NUE10{n}_A", {KNOB: 2}, {KNOB: 6}, expected=80.1, expected_unchanged=67.8, gain=gain, std=0.3,
            std_alone=0.4, own_rows=190, borrowed=0.6, lenders=(("SAA1011_A", 0.02),), reason="It gains. " * 20,
            by_hour=dict.fromkeys(range(24), gain),
        )
        for n in range(10, 13)
    ]  # fmt: skip
    ChangePlan((KNOB,), tuple(changes), (), reward=REWARD).write(tmp_path / "plan", origin=Origin())
    assert max(outside(browser, tmp_path / "plan" / "plan.html", width)) == 0
    log, rng = tmp_path / "log.csv", np.random.default_rng(2)
    with log.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["station", "time", KNOB, REWARD])
        for hour in range(24 * 6):
            when = np.datetime64("2024-05-01T00") + np.timedelta64(hour, "h")
            for n in range(14):
                on = n < 3 and hour >= 96
                writer.writerow([f"s{n}", f"{when}:00", 6 if on else 2, f"{70 + 5 * on + rng.normal():.2f}"])
    assert main(["impact", str(log), "--configuration", KNOB, "--reward", REWARD, "--out", str(tmp_path)]) == 0
    assert max(outside(browser, tmp_path / "impact.html", width)) == 0
