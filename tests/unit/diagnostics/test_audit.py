"""The audit: densities and shares against a naive posterior of then; what helps and what hurts; words, data, page."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.reference import naive

from kinband import ConfigurationSpace, Controller
from kinband.cli.audit import _transfer_row
from kinband.contexts import StateScaler
from kinband.controller.attribution import told_rows_of
from kinband.controller.events import Asked, Told
from kinband.diagnostics import audit
from kinband.diagnostics.audit import hurt_text
from kinband.diagnostics.calibration import log_density, predictions_of
from kinband.diagnostics.transfer import (
    EVEN,
    HELPS,
    HURTS,
    Transferred,
    earned_of,
    evidence_shares_of,
    log_density_alone,
    transfer_of,
)
from kinband.experiments.report.page import audit_html, audit_pictures, write_audit
from kinband.kernels import RBF
from kinband.records import Samples
from kinband.stats import Estimate

SPACE = ConfigurationSpace(tilt=range(0, 10, 2))
SCALES, VARIANCE, NOISE, MEAN = [1.9, 0.8], 0.06, 0.009, 0.55
K_Z = np.array([[1.1, 0.8, 0.3], [0.8, 0.9, 0.1], [0.3, 0.1, 1.4]])
NAMES = ("a", "b", "c")


def played(seed: int = 1, *, rounds: int = 6, similarity: Any = K_Z, **changes: Any) -> Controller:
    """Rewards that come late and out of order, after a log of four rows; some are still awaited."""
    rng = np.random.default_rng(seed)
    scaler = StateScaler.from_ranges({"load": (0.0, 1.0)})
    X = np.hstack([scaler.transform(rng.random((4, 1))), SPACE.features[rng.integers(0, len(SPACE), 4)]])
    start = Samples(NAMES, np.array([0, 2, 1, 0]), X, rng.normal(0.5, 0.2, 4), None, ("load", "tilt"))
    options: dict[str, Any] = {
        "state": scaler, "similarity": similarity, "kernel": RBF(SCALES, variance=VARIANCE), "noise": NOISE,
        "mean": MEAN, "beta": 0.8, "log": start, "seed": seed,
    }  # fmt: skip
    controller = Controller(SPACE, list(NAMES), **(options | changes))
    for _ in range(rounds):
        controller.ask_all({station: {"load": float(rng.random())} for station in NAMES})
        for key in rng.permutation(controller.pending)[:3]:
            noise = float(rng.uniform(0.001, 0.03)) if rng.random() < 0.5 else None
            controller.tell(str(key), float(rng.normal(0.5, 0.2)), noise=noise)
    return controller


def then(controller: Controller, decision: str) -> naive.Data:
    """The rows that a decision could know, entry by entry from the journal."""
    start = controller.setup.start
    assert start is not None
    rows = [(int(t), x, float(y), NOISE) for t, x, y in zip(start.tasks, start.X, start.y, strict=True)]
    for entry in controller.journal:
        if isinstance(entry, Asked) and entry.decision.id == decision:
            break
        if isinstance(entry, Told):
            asked = controller.journal.find(entry.id)
            rows.append((asked.task, asked.x, entry.reward, NOISE + (entry.noise or 0.0)))
    tasks, X, y, noise = zip(*rows, strict=True)
    return naive.Data(np.array(tasks), np.array(X), np.array(y), np.array(noise))


def told(controller: Controller) -> list[Asked]:
    return [asked for key, asked in controller.journal.asked.items() if key in controller.journal.told]


# --- What it earned -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_rewards_are_predicted_with_and_without_the_others_as_a_naive_posterior_does(seed: int) -> None:
    controller = played(seed)
    made = predictions_of(controller)
    alone = log_density_alone(controller.setup, told_rows_of(controller.setup, controller.journal), made)
    k = naive.ard_rbf(SCALES, VARIANCE)
    for i, asked in enumerate(told(controller)):
        data, reward = then(controller, asked.decision.id), controller.journal.told[asked.decision.id]
        mine = data.tasks == asked.task
        own = naive.Data(data.tasks[mine], data.X[mine], data.y[mine], data.noise[mine])
        for rows, found in ((data, made.log_density[i]), (own, alone[i])):
            point = np.array([asked.task]), asked.x[None]
            mean = naive.posterior_mean(rows, k, K_Z, *point, mean=MEAN)[0]
            variance = naive.posterior_variance(rows, k, K_Z, *point)[0] + NOISE + (reward.noise or 0.0)
            off = (reward.reward - mean) ** 2 / variance
            assert found == pytest.approx(-0.5 * (off + math.log(2 * math.pi * variance)), abs=1e-7)


def test_the_gain_of_a_station_is_the_mean_of_its_differences_with_students_interval() -> None:
    controller = played(rounds=9)
    made = predictions_of(controller)
    alone = log_density_alone(controller.setup, told_rows_of(controller.setup, controller.journal), made)
    found = transfer_of([earned_of(controller, made)])
    for task, station in enumerate(found.stations):
        gain = (made.log_density - alone)[made.tasks == task]
        assert station.rewards == len(gain)
        assert station.gain.value == pytest.approx(gain.mean())
        assert station.total == pytest.approx(gain.sum())
        reach = (station.gain.high - station.gain.value) / (gain.std(ddof=1) / math.sqrt(len(gain)))
        assert 1.96 < reach < 4.31  # quantiles of Student's t from many degrees of freedom to two
    assert found.overall.total == pytest.approx((made.log_density - alone).sum())


def test_where_nothing_is_shared_nothing_is_earned_or_borrowed() -> None:
    for controller in (played(similarity=np.diag([1.1, 0.7, 1.6])), played(policy="cgp-ucb")):
        found = audit(controller).transfer
        assert [(s.total, s.verdict, s.borrowed, s.lenders) for s in found.stations] == [(0.0, EVEN, 0.0, {})] * 3
        assert [s.worth for s in found.stations] == pytest.approx([0.0] * 3, abs=1e-9)
        assert found.shares == pytest.approx(np.eye(3))


def test_kin_that_are_kin_help_and_one_that_is_none_is_hurt_and_named() -> None:
    controller = misjudged()
    found = audit(controller)
    odd = found.transfer.flagged(HURTS)
    assert [station.name for station in odd] == ["s7"]
    helped = {station.name for station in found.transfer.flagged(HELPS)}
    assert len(helped) > 1
    assert "s7" not in helped
    sentence = next(line for line in found.words if line.startswith("Sharing seems to hurt"))
    assert sentence.startswith(f"Sharing seems to hurt s7: its {odd[0].rewards} rewards")
    assert not any("no station that sharing seems to hurt" in line for line in found.words)


def misjudged() -> Controller:
    """Eight stations believed to be nearly one; seven are, and the last runs upside down."""
    rng = np.random.default_rng(21)
    names = [f"s{m}" for m in range(8)]
    controller = Controller(
        SPACE, names, similarity=0.9 * np.ones((8, 8)) + 0.1 * np.eye(8), kernel=RBF([0.9, 1.1], variance=0.05),
        state={"load": (0, 1)}, noise=0.006, mean=0.5, beta=0.5, seed=3,
    )  # fmt: skip
    for _ in range(20):
        load = rng.random(8)
        round_ = controller.ask_all({name: {"load": float(load[m])} for m, name in enumerate(names)})
        for m, decision in enumerate(round_.values()):
            value = 0.25 * math.cos(decision.arm + 6 * load[m]) * (-1.0 if m == 7 else 1.0)
            controller.tell(decision.id, float(0.5 + value + math.sqrt(0.006) * rng.standard_normal()))
    return controller


# --- Who borrows from whom ----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [1, 2])
def test_the_matrix_holds_the_mean_shares_of_the_latest_decisions_as_of_each(seed: int) -> None:
    controller, recent = played(seed), 3
    rows = told_rows_of(controller.setup, controller.journal)
    found = evidence_shares_of(controller, rows, recent=recent)
    k = naive.ard_rbf(SCALES, VARIANCE)
    for task in range(3):
        latest = [asked for asked in controller.journal.asked.values() if asked.task == task][-recent:]
        expected, worth = np.zeros((recent, 3)), np.zeros(recent)
        for i, asked in enumerate(latest):
            data, point = then(controller, asked.decision.id), (np.array([task]), asked.x[None])
            K = naive.multitask_gram(k, K_Z, data.tasks, data.X, data.tasks, data.X) + np.diag(data.noise)
            a = np.abs(np.linalg.solve(K, naive.multitask_gram(k, K_Z, data.tasks, data.X, *point)))[:, 0]
            expected[i] = [a[data.tasks == m].sum() / a.sum() for m in range(3)]
            own = naive.Data(*(column[data.tasks == task] for column in data))
            both = (naive.posterior_variance(one, k, K_Z, *point)[0] for one in (data, own))
            worth[i] = NOISE * (1 / next(both) - 1 / next(both))
        assert found.shares[task] == pytest.approx(expected.mean(axis=0), abs=1e-9)
        assert found.worth[task] == pytest.approx(worth.mean(), rel=1e-6)
    assert found.shares.sum(axis=1) == pytest.approx(np.ones(3))


def test_explaining_a_decision_and_auditing_it_agree() -> None:
    controller = played()
    rows = told_rows_of(controller.setup, controller.journal)
    found = evidence_shares_of(controller, rows, recent=1)
    for task, station in enumerate(NAMES):
        key = [key for key, asked in controller.journal.asked.items() if asked.task == task][-1]
        evidence = controller.explain(key).evidence
        assert evidence is not None
        assert {name: found.shares[task][m] for m, name in enumerate(NAMES)} == pytest.approx(dict(evidence.shares))
        assert found.worth[task] == pytest.approx(evidence.borrowed_worth)
        assert evidence.station == station


def test_beyond_so_many_rows_the_matrix_is_left_out_and_said_to_be() -> None:
    found = audit(played(), most_rows=5)
    assert found.transfer.shares is None
    assert all(s.borrowed is None for s in found.transfer.stations)
    assert found.transfer.overall.rewards > 0
    assert any("is left out for 3 stations: more than 5 rows would be weighed" in line for line in found.words)


def test_policies_that_share_in_their_own_way_are_calibrated_and_no_more() -> None:
    found = audit(played(policy="super-ucb", options={"horizon": 99}))
    assert found.calibration.overall.rewards == found.rewards > 0
    assert found.transfer.overall.rewards == 0
    assert found.transfer.shares is None
    json.dumps(found.to_dict(), allow_nan=False)


# --- All of it ----------------------------------------------------------------------------------------------


def test_several_controllers_are_audited_as_one() -> None:
    one, two = played(1), played(2)
    both, first, second = audit(one, two), audit(one), audit(two)
    assert both.rewards == first.rewards + second.rewards
    assert [s.rewards for s in both.calibration.stations] == [
        s.rewards for part in (first, second) for s in part.calibration.stations
    ]
    assert both.calibration.overall.histogram.tolist() == (
        first.calibration.overall.histogram + second.calibration.overall.histogram
    ).tolist()  # fmt: skip
    assert both.transfer.shares is not None
    assert first.transfer.shares is not None
    assert both.transfer.shares[:3, :3] == pytest.approx(first.transfer.shares)
    assert not both.transfer.shares[:3, 3:].any()
    assert sorted(both.order) == list(range(6))


def test_a_station_that_joined_is_audited_with_the_others() -> None:
    controller = played()
    controller.add_station("d", similarity={"a": 0.7})
    for reward in (0.4, 0.6):
        controller.tell(controller.ask("d", {"load": 0.3}).id, reward)
    found = audit(controller)
    assert found.stations == ("a", "b", "c", "d")
    assert found.calibration.stations[3].rewards == 2
    assert next(iter(found.transfer.stations[3].lenders or {})) == "a"


def test_auditing_changes_nothing() -> None:
    left, right = played(), played()
    audit(left)
    assert left.ask("a", {"load": 0.42}) == right.ask("a", {"load": 0.42})


def test_an_audit_survives_json_and_says_first_how_many_rewards_lay_inside() -> None:
    found = audit(played())
    data = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    inside = data["calibration"]["overall"]["coverage"]["0.8"]["value"]
    assert data["words"][0].startswith(f"{100 * inside:.1f} % of {found.rewards} rewards")
    assert [s["station"] for s in data["transfer"]["stations"]] == list(NAMES)
    for station in data["transfer"]["stations"]:
        assert station["borrowed"] == pytest.approx(sum(station["lenders"].values()))


def test_the_page_holds_everything_and_loads_nothing(tmp_path: Path) -> None:
    found = audit(played(similarity=K_Z))
    files = write_audit(found, tmp_path, title="Audit of <state>")
    assert [file.name for file in files] == ["audit.html", "calibration.png", "lending.png"]
    page = files[0].read_text(encoding="utf-8")
    assert "Audit of &lt;state&gt;" in page
    assert page.count("<svg") == 4  # two pictures, wide and narrow
    assert "http" not in page.replace("http-equiv", "")
    for name in NAMES:
        assert f'<th scope="row">{name}</th>' in page


def test_names_on_the_page_are_escaped_and_keep_their_hyphens() -> None:
    controller = Controller(SPACE, ["<b>-1", "x-2"], similarity="pooled", noise=0.01, mean=0.5)
    for _ in range(6):
        for decision in controller.ask_all({"<b>-1": {}, "x-2": {}}).values():
            controller.tell(decision.id, 0.5)
    found = audit(controller)
    page = audit_html(found, audit_pictures(found), title="t")
    assert "&lt;b&gt;-1" in page
    assert "x-2" in page
    assert "<b>-1" not in page


def test_log_densities_add_up_to_one() -> None:
    grid = np.linspace(-6, 8, 20_001)
    density = np.exp(log_density(grid, np.full(len(grid), 0.7), np.full(len(grid), 0.8)))
    assert np.trapezoid(density, grid) == pytest.approx(1.0)


def test_a_small_gain_that_is_sure_is_not_shown_as_none() -> None:
    small = Transferred("a", 900, Estimate(0.0031, 0.0007, 0.0055), 2.8, verdict=HELPS)
    assert _transfer_row(small)[1] == "+0.0031\n+0.0007 to +0.0055"
    large = Transferred("a", 900, Estimate(0.31, 0.07, 0.55), 279.0, verdict=HELPS)
    assert _transfer_row(large)[1] == "+0.31\n+0.07 to +0.55"
    hurt = Transferred("a", 900, Estimate(-0.0031, -0.0055, -0.0007), -2.8, verdict=HURTS)
    assert "(-0.0031 nats, 95 % -0.0055 to -0.0007)" in hurt_text(hurt)
