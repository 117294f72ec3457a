"""Operations with real policies, rules and knobs: the next best, what is learned, what is shown."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.operations_life import NOON, SPACE, Clock, Wish, ask, begin, learned, rails, want, whole, wishful

from kinband import ConfigurationSpace, Controller
from kinband.contexts import ContextEncoder, StateScaler
from kinband.drift import Drift
from kinband.errors import BadInputError, ConflictError, NotFoundError
from kinband.kernels import RBF
from kinband.kpis import KpiFloor, NeighbourReward
from kinband.policies import POLICIES
from kinband.policies.safety import Conservative, Floor
from kinband.records import Decision, Samples
from kinband.service.ledger import Draft, Ledger
from kinband.service.ledger.replaying import replay
from kinband.service.operations import Operations, RailsOnRecord
from kinband.service.operations.outlooks import sites_of
from kinband.service.operations.turns import Call, Turn


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    opened = Ledger.open(tmp_path / "ledger.db")
    yield opened
    opened.close()


def again(operations: Operations) -> Operations:
    """What a restart makes of the ledger; its rails are given, but not put on record."""
    policy = operations.setup.config.policy
    own = None if isinstance(policy, str) else policy
    return Operations.open(operations.ledger, rails=operations.guard.rails, clock=Clock(), policy=own)


# --- The next best ------------------------------------------------------------------------------------------


def test_the_next_best_is_the_best_by_score_of_all_that_the_rails_allow(ledger: Ledger) -> None:
    space = ConfigurationSpace(tilt=range(5), power=[40, 43, 46], scheduler=["pf", "rr"])
    rng = np.random.default_rng(11)
    limits = rails("knobs:\n  tilt: {step: 1}\n  power: {max: 43}\n  scheduler: {step: 0}\n", space)
    running = {"tilt": 2, "power": 40, "scheduler": "rr"}
    controller = Controller(
        space, ["a", "b"], state=["load"], similarity=[[1, 0.7], [0.7, 1]], noise=0.05, mean=0.3, beta=0.7, seed=4,
        running=running,
    )  # fmt: skip
    operations = Operations.open(ledger, controller, rails=limits, clock=Clock(), mode="autonomous")
    seen = set()
    for _ in range(12):
        load, now = float(rng.random()), {s: space[int(operations.read_model.stations[s].running or 0)] for s in "ab"}
        weighed = operations.controller.consider("a", {"load": load}, running=now["a"])
        [record] = operations.ask({"a": {"load": load}})
        assert weighed.score is not None
        allowed = [
            arm
            for arm in range(len(space))
            if abs(space[arm]["tilt"] - now["a"]["tilt"]) <= 1
            and space[arm]["power"] <= 43
            and space[arm]["scheduler"] == now["a"]["scheduler"]
        ]
        assert record.arm in allowed
        assert weighed.score[record.arm] == pytest.approx(weighed.score[allowed].max(), abs=1e-12)
        seen.add(record.verdict.outcome if record.verdict else None)
        operations.tell({record.id: float(rng.normal(0.3, 0.5))})
    assert "replaced" in seen


@pytest.mark.parametrize("tilt", [90, 55, 3])
def test_where_the_best_32_are_out_of_reach_all_configurations_are_held_against_the_rails(
    ledger: Ledger, tilt: int
) -> None:
    space = ConfigurationSpace(tilt=range(100))
    controller = wishful_of(space, running={"tilt": 10})
    operations = Operations.open(
        ledger, controller, rails=rails("knobs:\n  tilt: {step: 4}\n", space), clock=Clock(), policy=Wish.build,
        mode="autonomous",
    )  # fmt: skip
    made = {record.station: record for record in operations.ask({"a": want(tilt), "b": want(12)})}
    assert len(made["a"].decision.alternatives) == 32
    assert made["a"].arm == (14 if tilt > 10 else 6)
    assert made["b"].arm == 12
    operations.tell({record.id: 0.5 for record in made.values()})
    assert [arm for _, arm, _ in learned(operations)] == [made["a"].arm, 12]


def wishful_of(space: ConfigurationSpace, **given: Any) -> Controller:
    return Controller(space, ["a", "b", "c"], state=["want"], policy=Wish.build, **given)


def test_the_best_few_are_all_refused_and_what_runs_is_among_them(ledger: Ledger) -> None:
    operations = begin(ledger, text="knobs:\n  tilt: {step: 1}\n", mode="autonomous")
    record = operations.ask({"a": want(4)}, allowed={"a": {"tilt": [0, 3, 4, 5]}})[0]
    assert (record.status, record.arm) == ("refused", 0)
    narrow = operations.ask({"b": want(4)}, allowed={"b": {"tilt": [1, 4]}})[0]
    assert (narrow.status, narrow.arm) == ("applied", 1)


def taught(known: int = 1, **rules: Any) -> Controller:
    """A controller that knows configurations 0 and 5 of some stations well, and nothing of those between."""
    X = ContextEncoder(StateScaler.identity(()), SPACE).contexts({})
    arms, tasks = np.array([0, 5] * 6 * known), np.repeat(np.arange(known), 12)
    log = Samples(("a", "b", "c"), tasks, X[arms], np.where(arms, 0.9, 0.5), None, ("tilt",))
    return Controller(SPACE, ["a", "b", "c"], kernel=RBF(0.2), noise=0.01, mean=0.2, beta=2.0, running={"tilt": 0},
                      log=log, seed=2, **rules)  # fmt: skip


def test_what_is_unknown_scores_best() -> None:
    free = taught().consider("a")
    assert free.score is not None
    assert free.score[1:5].min() > free.score[[0, 5]].max()


def under(ledger: Ledger, rule: Any, text: str = "knobs:\n  tilt: {step: 1}\n", known: int = 1) -> Operations:
    return Operations.open(ledger, taught(known, safety=rule), rails=rails(text), clock=Clock(), mode="autonomous")


def test_what_rules_of_safety_keep_from_a_station_is_said_of_what_rails_let_it_reach(ledger: Ledger) -> None:
    record = under(ledger, Floor(0.1)).ask({"a": {}})[0]
    assert (record.decision.arm, record.status) == (0, "kept")
    note = record.decision.policy_state["safety"]
    assert (note["held_back"], note["by"]) == (1, "floor")  # and not 4, which the step forbids


def test_what_is_declared_is_asked_for_though_the_rails_refuse_it(ledger: Ledger) -> None:
    record = under(ledger, Conservative(0.02)).ask({"a": {}}, running={"a": {"tilt": 3}})[0]
    assert (record.decision.arm, record.arm, record.status) == (0, 3, "refused")
    assert record.verdict is not None
    assert record.verdict.codes == ("step",)


def earned(operations: Operations, slots: int = 2) -> None:
    """Slots in which `a` earns more than it did as declared: what the budget has for one trial."""
    for _ in range(slots):
        made = operations.ask({"a": {}}, running={"a": {"tilt": 5}})
        operations.tell({made[0].id: 0.9})


def test_the_budget_is_spent_on_what_rails_let_stations_run(ledger: Ledger) -> None:
    operations = under(ledger, Conservative(0.02))
    earned(operations)
    free = operations.controller.consider("a", running={"tilt": 0})
    assert free.arm == 4  # which the budget would bear, but no more
    records = operations.ask({name: {} for name in "abc"}, running={name: {"tilt": 0} for name in "abc"}, slot="1")
    first, *others = records
    assert (first.decision.arm, first.arm, first.status) == (1, 1, "applied")
    assert first.verdict is not None
    assert (first.verdict.outcome, first.verdict.asked, first.verdict.codes) == ("replaced", 4, ("step",))
    assert [(one.arm, one.decision.policy_state["safety"]["by"]) for one in others] == [(0, "budget")] * 2
    assert [one.id for one in operations.ask({name: {} for name in "abc"}, slot="1")] == [one.id for one in records]
    replayed = replay(ledger, first.id)
    assert (replayed.again.arm, replayed.same) == (1, True)
    with pytest.raises(ConflictError, match="other configurations allowed"):
        operations.ask({"a": {}}, allowed={"a": {"tilt": [0, 1]}}, slot="1")


def test_a_station_that_may_not_change_spends_nothing_of_the_budget(ledger: Ledger) -> None:
    operations = under(ledger, Conservative(0.02), "freeze: [a]\n", known=2)
    earned(operations)
    records = {one.station: one for one in operations.ask({"a": {}, "b": {}}, running={s: {"tilt": 0} for s in "ab"})}
    assert (records["a"].status, records["b"].status) == ("refused", "applied")
    verdict = records["a"].verdict
    assert verdict is not None
    assert (verdict.asked, verdict.codes) == (4, ("freeze",))


def test_a_station_that_runs_something_surely_better_stays_when_the_budget_bears_no_trial(ledger: Ledger) -> None:
    operations = Operations.open(ledger, taught(safety=Conservative(0.02)), clock=Clock(), mode="autonomous")
    record = operations.ask({"a": {}}, running={"a": {"tilt": 5}})[0]
    assert (record.decision.arm, record.status) == (5, "kept")
    assert record.decision.policy_state["safety"]["by"] == "budget"


def test_a_policy_without_scores_has_no_next_best(ledger: Ledger) -> None:
    controller = Controller(SPACE, ["a", "b", "c"], policy="fixed", options={"arm": 4}, running={"tilt": 0})
    operations = Operations.open(
        ledger, controller, rails=rails("knobs:\n  tilt: {step: 2}\n"), clock=Clock(), mode="autonomous"
    )
    record = operations.ask({"a": {}})[0]
    assert (record.status, record.arm, record.baseline) == ("refused", 0, None)
    assert operations.ask({"a": {}}, running={"a": {"tilt": 3}})[0].arm == 4


# --- Policies, KPIs, drift ----------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_runs_in_operation_and_after_a_restart(ledger: Ledger, policy: str) -> None:
    options = {"fixed": {"arm": 1}, "super-ucb": {"horizon": 50}}.get(policy)
    controller = Controller(SPACE, ["a", "b", "c"], state=["load"], policy=policy, options=options,
                            running={"tilt": 2}, reward_range=(0, 1), seed=8)  # fmt: skip
    operations = Operations.open(ledger, controller, rails=rails("knobs:\n  tilt: {step: 2}\n"), mode="autonomous")
    for n in range(3):
        made = operations.ask({"a": {"load": 0.2 * n}, "b": {"load": 0.5}})
        operations.tell({record.id: 0.4 + 0.1 * n for record in made})
        assert [arm for _, arm, _ in learned(operations)][-2:] == [record.arm for record in made]
    outlook = operations.outlook("a")
    assert (outlook.station, outlook.running) == ("a", operations.read_model.stations["a"].running)
    restarted = again(operations)
    assert whole(restarted) == {**whole(operations), "rails": whole(restarted)["rails"]}
    present, runs = operations.controller, SPACE[operations.read_model.stations["c"].running or 0]
    expected = present.consider("c", {"load": 0.9}, running=runs).arm
    assert restarted.ask({"c": {"load": 0.9}})[0].decision.arm == expected


def test_kpis_and_neighbours_rewards_come_along(ledger: Ledger) -> None:
    rule = NeighbourReward({"a": ["b"], "b": ["a"]}, weight=0.25, others=["macro"])
    floor = KpiFloor("drops", at_most=0.5, mean=0.1, deviation=0.1, noise=0.001)
    controller = Controller(SPACE, ["a", "b", "c"], kpis=[floor], neighbours=rule, mean=0.4, running={"tilt": 1})
    operations = Operations.open(ledger, controller, clock=Clock())
    made = [record.id for record in operations.ask({"a": {}, "b": {}})]
    told = operations.tell(dict(zip(made, (0.8, 0.4), strict=True)), kpis={made[0]: {"drops": 0.2}})
    assert [record.reward for record in told] == [0.8, 0.4]  # its own: what is learned has the neighbour's in it
    assert [one.reward for one in operations.controller.observations()] == pytest.approx([0.7, 0.5])
    expected = sum(0.4 - 0.4 + learned - 0.4 for learned in (0.7, 0.5))
    assert operations.read_model.gain().total == pytest.approx(expected)
    operations.correct(made[0], 1.0)
    assert operations.read_model.gain("b").total == pytest.approx(0.75 * 0.4 + 0.25 * 1.0 - 0.4)
    assert operations.read_model.gain("a").total == pytest.approx(0.75 * 1.0 + 0.25 * 0.4 - 0.4)
    assert operations.read_model.recent("a") == 1.0
    assert whole(again(operations)) == whole(operations)


def test_a_controller_with_a_clock_is_asked_with_times(ledger: Ledger) -> None:
    controller = Controller(
        SPACE, ["a", "b", "c"], state=["load"], running={"tilt": 2}, drift=Drift(20, clock="numbers")
    )
    limits = rails("knobs:\n  tilt: {step: 1}\n")
    operations = Operations.open(ledger, controller, rails=limits, clock=Clock(), mode="autonomous")
    for hour in range(4):
        records = operations.ask({"a": {"load": 0.2}, "b": {"load": 0.6}}, time=hour)
        operations.tell({record.id: 0.1 * hour for record in records})
    station_state = operations.read_model.stations["a"]
    assert (station_state.clock, station_state.state) == (3.0, {"load": 0.2})
    assert len(operations.outlook("a").arms) == len(SPACE)
    with pytest.raises(BadInputError):
        operations.ask({"a": {"load": 0.2}}, time=1)
    assert whole(again(operations)) == {**whole(operations), "rails": RailsOnRecord()}


def test_a_station_that_starts_anew_keeps_its_state(ledger: Ledger) -> None:
    controller = Controller(SPACE, ["a", "b", "c"], noise=0.0004, mean=0.8, reward_range=(0, 1), drift=Drift(),
                            running={"tilt": 2}, seed=1)  # fmt: skip
    operations = Operations.open(ledger, controller, clock=Clock(), mode="shadow")
    for n in range(40):
        operations.tell({operations.ask({"a": {}})[0].id: 0.8 if n < 20 else 0.2})
    assert len(operations.controller.journal.joined) > 0
    assert list(operations.read_model.stations) == ["a", "b", "c"]
    assert operations.ask({"a": {}})[0].running == 2
    assert whole(again(operations)) == whole(operations)


# --- What is shown ------------------------------------------------------------------------------------------


def test_slots_that_were_asked_for_one_by_one_are_shown_as_one(ledger: Ledger) -> None:
    clock = Clock()
    operations = begin(ledger, clock=clock)
    for hour in range(3):
        for station, reward in (("a", 0.2), ("b", 0.4), ("c", 0.9)):
            record = operations.ask({station: want(0)}, slot=f"hour {hour}")[0]
            operations.tell({record.id: reward + 0.1 * hour})
            clock.pass_(seconds=1)
        clock.pass_(hours=1)
    rows = operations.read_model.fleet()
    assert [row[1] for row in rows] == pytest.approx([0.5, 0.6, 0.7])
    assert [row[3] for row in rows] == [3, 3, 3]
    assert [len(operations.read_model.fleet(last)) for last in (1, 2)] == [1, 2]
    assert [station_state.station for station_state, _ in operations.read_model.worst(2)] == ["a", "b"]
    assert operations.read_model.recent("c", 2) == pytest.approx(1.05)
    assert operations.read_model.recent("a", 1) == pytest.approx(0.4)


def test_gains_are_over_what_the_declared_configuration_was_expected_to_earn(ledger: Ledger) -> None:
    operations = begin(ledger, mode="autonomous")
    rewards = {"a": [0.3, -0.4, 0.5], "b": [1.0, 0.2]}
    gained: dict[str, list[float]] = {"a": [], "b": []}
    for station, earned in rewards.items():
        for n, reward in enumerate(earned):
            record = ask(operations, **{station: n + 1})[station]
            operations.tell({record.id: reward})
            gained[station].append(reward - -(n + 1.001) / 2)  # what `Wish` says of tilt 0
    for station, values in gained.items():
        gain, half = operations.read_model.gain(station), 1.96 * np.std(values, ddof=1) / np.sqrt(len(values))
        assert gain.total == pytest.approx(sum(values))
        assert gain.slots == len(values)
        assert gain.high - gain.mean == pytest.approx(half, rel=1e-3)
    assert operations.read_model.gain().total == pytest.approx(sum(map(sum, gained.values())))
    assert operations.read_model.gain("c").slots == 0
    points = operations.read_model.points("a", last=2)
    assert [(p.arm, p.changed, p.reward) for p in points] == [(2, True, -0.4), (3, True, 0.5)]
    with pytest.raises(NotFoundError):
        operations.read_model.gain("nobody")


def test_decisions_are_listed_newest_first_and_page_by_page(ledger: Ledger) -> None:
    operations = begin(ledger)
    for tilt in (0, 1, 2, 0, 3):
        ask(operations, a=tilt, b=0)
    read_model = operations.read_model
    assert [i.id for i in read_model.latest(limit=3)] == ["d000010", "d000009", "d000008"]
    assert [i.id for i in read_model.latest(limit=3, before="d000008")] == ["d000007", "d000006", "d000005"]
    assert [i.decision.arm for i in read_model.latest(station="a", status="shadow")] == [3, 2, 1]
    assert read_model.latest(station="c") == []
    with pytest.raises(NotFoundError):
        read_model.latest(before="d999999")


def test_outlooks_say_what_is_believed_and_need_a_state(ledger: Ledger) -> None:
    controller = Controller(SPACE, ["a", "b", "c"], state=["load"], similarity="pooled", mean=0.4, running={"tilt": 1})
    operations = Operations.open(ledger, controller, clock=Clock())
    with pytest.raises(BadInputError, match="was never asked for"):
        operations.outlook("a")
    made = operations.ask({"a": {"load": 0.3}, "b": {"load": 0.3}})
    operations.tell({record.id: 0.9 for record in made})
    outlook = operations.outlook("a")
    assert outlook.mean is not None
    assert outlook.std is not None
    assert outlook.mean[1] > 0.6
    assert min(outlook.std) == outlook.std[1]
    assert sum(outlook.lenders.values()) == pytest.approx(1)
    assert set(outlook.lenders) == {"a", "b"}
    assert operations.outlook("a") is outlook  # nothing has happened since
    operations.remove_station("a")
    with pytest.raises(BadInputError, match="was removed"):
        operations.outlook("a")


def test_sites_come_from_descriptors(ledger: Ledger) -> None:
    east = {"x_m": 5, "y_m": 7, "azimuth_cos": 1.0, "azimuth_sin": 0.0}
    geo = {"longitude": 10.0, "latitude": 50.0, "azimuth_deg": 370}
    sites = sites_of({"a": east, "b": geo, "c": {"x_m": "far", "y_m": 2}, "d": {"x_m": True, "y_m": 2}})
    assert (sites["a"].x, sites["a"].y) == (5, 7)
    assert sites["a"].azimuth == pytest.approx(90)
    assert sites["b"].azimuth == 10
    assert set(sites) == {"a", "b"}
    operations = begin(ledger, wishful(descriptors={s: {"x_m": float(i), "y_m": 0.0} for i, s in enumerate("abc")}))
    assert {name: site.x for name, site in operations.sites.items()} == {"a": 0.0, "b": 1.0, "c": 2.0}


def test_what_people_did_can_be_found_on_record(ledger: Ledger) -> None:
    operations = begin(ledger, mode="assist", text="changes: {per_day: 3}\n", actor="root")
    made = ask(operations, a=3)
    operations.approve([made["a"].id], actor="ada", comment="ok")
    operations.set_mode("shadow", ["b"], comment="audit", actor="bob")
    assert [e.kind for e in operations.events(actor="ada")] == ["approval", "ran", "applied"]
    assert [e.kind for e in operations.events(actor="root")] == ["started", "mode", "rails"]
    assert operations.events(kinds=["rails"])[0].payload["text"] == "changes: {per_day: 3}\n"
    assert [e.kind for e in operations.events(station="b", newest_first=True, limit=1)] == ["mode"]
    assert {e.decision for e in operations.events(decision=made["a"].id)} == {made["a"].id}
    seq = operations.read_model.seq
    begin(ledger, text="changes: {per_day: 3}\n", mode="autonomous")
    assert len(operations.events(after=seq)) == 0  # neither mode nor rails are new
    begin(ledger, text="changes: {per_day: 2}\n")
    assert [e.kind for e in operations.events(after=seq)] == ["rails"]


# --- Doors --------------------------------------------------------------------------------------------------


def test_bad_input_is_refused_in_one_sentence_and_leaves_no_trace(ledger: Ledger) -> None:
    operations = begin(ledger, mode="assist")
    record = ask(operations, a=3)["a"]
    before, controller = whole(operations), operations.controller
    bad: list[tuple[type[Exception], Any]] = [
        (BadInputError, lambda: operations.ask({})),
        (NotFoundError, lambda: operations.ask({"nobody": want(1)})),
        (BadInputError, lambda: operations.ask({"a": {}})),
        (BadInputError, lambda: operations.ask({"a": want(1)}, running={"a": {"tilt": 77}})),
        (BadInputError, lambda: operations.ask({"a": want(1)}, running={"b": {"tilt": 1}})),
        (NotFoundError, lambda: operations.tell({"d9": 0.1})),
        (BadInputError, lambda: operations.tell({record.id: float("nan")})),
        (ConflictError, lambda: operations.correct(record.id, 0.1)),
        (BadInputError, lambda: operations.approve([])),
        (BadInputError, lambda: operations.approve(record.id)),
        (NotFoundError, lambda: operations.approve([record.id, "d9"])),
        (BadInputError, lambda: operations.reject([record.id], comment="x" * 2001)),
        (BadInputError, lambda: operations.reject([record.id], comment=None)),  # type: ignore[arg-type]
        (BadInputError, lambda: operations.set_mode("shadow", "abc")),
        (BadInputError, lambda: operations.set_mode("shadow", [])),
        (NotFoundError, lambda: operations.freeze("nobody")),
        (NotFoundError, lambda: operations.applied("d9")),
        (BadInputError, lambda: operations.stop(why="x", key="a\nb")),
        (BadInputError, lambda: operations.stop(why=3)),  # type: ignore[arg-type]
        (NotFoundError, lambda: operations.decision("d9")),
        (NotFoundError, lambda: operations.roll_back("nobody")),
    ]
    for kind, call in bad:
        with pytest.raises(kind) as found:
            call()
        assert "\n" not in str(found.value)
    assert whole(operations) == before
    assert operations.controller is controller  # nothing had to be read anew


def test_a_clock_without_a_zone_is_refused(ledger: Ledger) -> None:
    operations = begin(ledger, clock=lambda: datetime(2026, 3, 4))
    with pytest.raises(BadInputError, match="the time of the clock must be a datetime with a time zone"):
        ask(operations, a=1)


def test_a_rate_is_calibrated_in_shadow_mode_and_stands_where_it_stood_after_a_restart(ledger: Ledger) -> None:
    operations = Operations.open(ledger, taught(safety=Floor(9.0, delta=0.25)), clock=Clock(), mode="shadow")
    wanted = []
    for reward in (-9.0, 0.5, 0.5, 0.5, 0.5):
        [record] = operations.ask({"a": {}})
        assert record.arm == 0
        wanted.append(record.decision.arm)
        operations.tell({record.id: reward})
    assert wanted[:4] == [0] * 4  # until enough is known, nothing is proposed but what has run
    assert wanted[4] != 0
    for one in (operations, again(operations)):
        rate = one.controller._memory.calibrated.rules["floor"]
        assert (rate.every.rows, rate.every.missed, rate.trials.rows) == (5, 1, 0)


def test_a_bad_mode_does_not_start_a_ledger(ledger: Ledger) -> None:
    with pytest.raises(BadInputError, match="a mode is one of"):
        begin(ledger, wishful(), mode="off")
    assert list(ledger.read()) == []
    with pytest.raises(NotFoundError, match="has no controller yet"):
        Operations.open(ledger)


def test_several_threads_share_operations(ledger: Ledger) -> None:
    operations, failed = begin(ledger, mode="autonomous"), list[BaseException]()

    def work(station: str) -> None:
        try:
            for n in range(6):
                record = operations.ask({station: want(n % 6)}, slot=str(n), key=f"{station} {n}")[0]
                operations.tell({record.id: 0.1 * n})
                with operations.looking() as read_model:
                    assert read_model.decisions[record.id].reward == 0.1 * n
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(station,)) for station in "abcabc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(isinstance(error, ConflictError) for error in failed)  # a reward that the twin has told before
    assert len(operations.read_model.decisions) == 18
    assert whole(again(operations)) == whole(operations)


def test_a_ledger_that_was_put_back_is_read_anew(ledger: Ledger, tmp_path: Path) -> None:
    operations = begin(ledger, mode="autonomous")
    ask(operations, a=3)
    with (
        closing(sqlite3.connect(tmp_path / "ledger.db")) as source,
        closing(sqlite3.connect(tmp_path / "copy.db")) as to,
    ):
        source.backup(to)
    ask(operations, a=5, b=2)
    ledger.close()
    (tmp_path / "copy.db").replace(tmp_path / "ledger.db")
    for rest in ("-wal", "-shm"):
        (tmp_path / f"ledger.db{rest}").unlink(missing_ok=True)
    with pytest.raises(Exception, match="went back"):
        ask(operations, c=1)
    assert ask(operations, c=1)["c"].id == "d000002"
    assert [station_state.running for station_state in operations.read_model.stations.values()] == [3, 0, 1]
    assert whole(again(operations)) == whole(operations)


def test_events_of_others_do_not_disturb_the_picture(ledger: Ledger) -> None:
    operations = begin(ledger, mode="assist")
    ledger.append([Draft("observation", {"load": 0.3}, station="a"), Draft("access", {"token": "t"})])
    operations.refresh()

    def decide(turn: Turn) -> Decision:
        made = turn.controller.ask("b", want(4))
        turn.append()
        return made

    made = operations.turns.run(Call("past the guard"), decide)  # and so taken to have run
    assert (operations.read_model.stations["b"].running, operations.decision(made.id).verdict) == (4, None)
    record = ask(operations, b=4)["b"]
    assert (record.status, record.running) == ("kept", 4)
    assert whole(again(operations)) == whole(operations)


def test_time_zones_of_the_clock_do_not_matter(ledger: Ledger) -> None:
    elsewhere = NOON.astimezone(timezone(timedelta(hours=-5)))
    operations = begin(ledger, clock=Clock(elsewhere), mode="autonomous")
    record = ask(operations, a=2)["a"]
    assert (record.at, record.at.tzinfo, operations.now().tzinfo) == (NOON, UTC, UTC)


@pytest.mark.parametrize("text", ["", "knobs: {tilt: {max: 5}}"])
@pytest.mark.parametrize("mode", ["autonomous", "assist"])
def test_no_change_rests_on_a_state_far_from_all_that_the_controller_was_made_for(
    ledger: Ledger, text: str, mode: str
) -> None:
    made = wishful(state={"want": (0, 5)})
    operations = begin(ledger, made, text, mode=mode)
    for absurd in (1e9, -1e9, 40.0):
        record = ask(operations, a=absurd)["a"]
        assert record.verdict is not None
        if record.verdict.asked != record.running:
            assert (record.status, record.arm, record.verdict.codes) == ("refused", 0, ("state",))
            assert "standard deviations from what this controller was made for" in record.verdict.reason
        operations.tell({record.id: 0.1})
    record = ask(operations, a=4.9, b=1e9)["a"]
    assert record.status == {"autonomous": "applied", "assist": "waiting"}[mode]
    assert operations.read_model.stations["b"].running == 0


def test_a_roll_back_is_made_whatever_the_state(ledger: Ledger) -> None:
    text, clock = "fallback: {drop: 0.1, slots: 2, watch: [own]}", Clock()
    operations = begin(ledger, wishful(state={"want": (0, 5)}), text, mode="autonomous", clock=clock)
    for wish, reward in ((-2, 0.9), (4.9, 0.1), (4.9, 0.1), (1e9, 0.1)):
        record = ask(operations, a=wish)["a"]
        operations.tell({record.id: reward})
        clock.pass_(hours=1)
    assert (record.status, record.arm) == ("rolled back", 0)
