"""Lay the handover decisions of the simulated city beside those of handoverlab, a simulator of other authors.

handoverlab (PyPI: handoverlab, by Mostafa Jalili Sanjarani and Yasser Elmi Sola) has an engine of its own for layer-3
filters, events and times to trigger. The same users walk and drive through our city, and both see the same received
powers of all cells of both layers: our network through its own measuring code, handoverlab's engine with its rule "A3
within a carrier, A5 between carriers". Its A5 is set so that it is our rule: down where the serving cell is below the
threshold, whatever the target; up where the target is above threshold + 4 dB, whatever the serving cell. Link failures
and delays are switched off there; there are none here. Path loss, line of sight and walls are compared as well.

Run it: python -m pip install handoverlab, then python tools/cross_check_handoverlab.py
"""

# ruff: noqa: T201  (a report on the screen is all it does)

from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import numpy as np

from kinband.arrays import FloatArray, IntArray
from kinband.environments.radio import Network, Parameters, PowerMap, build_map, draw_layout
from kinband.environments.radio.city import Float32Array
from kinband.environments.radio.parameters import Mobility, Radio
from kinband.environments.radio.propagation import line_of_sight_probability, path_loss_db, wall_loss_db

STATIONS, WALKERS, SECONDS, THRESHOLD_DBM = 21, 240, 600.0, -100.0
SPEEDS_KMH = (3.0, 30.0, 60.0)


@dataclass(frozen=True)
class Handover:
    """A change of cell: in which period, by whom, and to which cell (layer · S + sector)."""

    period: int
    user: int
    cell: int


def walks(city: PowerMap, period_s: float) -> Iterator[Float32Array]:
    """Power from all cells in every period, (WALKERS, L, S): straight ways at three speeds, back at the borders."""
    rng, size = np.random.default_rng(11), np.array(city.layout.extent_m)
    start, angle = rng.uniform(0, size, (WALKERS, 2)), rng.uniform(0, 2 * np.pi, WALKERS)
    speed = np.resize(SPEEDS_KMH, WALKERS) / 3.6
    velocity = np.column_stack([np.cos(angle), np.sin(angle)]) * speed[:, None]
    for period in range(int(SECONDS / period_s)):
        folded = np.abs((start + velocity * period * period_s + size) % (2 * size) - size)
        yield city.at(folded[:, 0], folded[:, 1])


def dbm(power: Float32Array) -> FloatArray:
    """The powers of one period, (WALKERS, L·S)."""
    return np.asarray(10 * np.log10(power.astype(np.float64)).reshape(len(power), -1))


def first_cells(city: PowerMap) -> IntArray:
    """The cell that our network starts a user on, (WALKERS,)."""
    levels = dbm(next(walks(city, 1.0))).reshape(WALKERS, -1, len(city.layout.names))
    layer = np.where(levels[:, 0].max(axis=1) >= THRESHOLD_DBM, 0, 1)
    return np.asarray(layer * levels.shape[2] + levels[np.arange(WALKERS), layer].argmax(axis=1))


def our_handovers(city: PowerMap, rules: Mobility, *, period_s: float, every: int = 1) -> list[Handover]:
    """What our network decides when it is shown every so many of the powers."""
    step_s = period_s * every
    network = Network(city, Parameters(mobility=rules, step_s=step_s), seed=1)
    at, S = np.arange(WALKERS), network.sectors
    network.people.alive[:] = np.arange(len(network.people.alive)) < WALKERS
    network.thresholds[:] = THRESHOLD_DBM
    found = list[Handover]()
    for period, power in enumerate(walks(city, period_s)):
        if period % every:
            continue
        network._receive(at, power)
        if period == 0:
            network._attach(at)
        before = network.layer[at] * S + network.sector[at]
        network._measure()
        network.now += step_s
        after = network.layer[at] * S + network.sector[at]
        found += [Handover(period, int(user), int(after[user])) for user in np.flatnonzero(after != before)]
    return found


def their_handovers(city: PowerMap, rules: Mobility, *, period_s: float, rule: Any) -> list[Handover]:
    """What handoverlab's engine decides on the same powers with a class of rules."""
    chunk_of = import_module("handoverlab.channel.source").Chunk.from_rsrp
    substeps = 4  # a command is carried out a few of these after its measurement, before the next one
    powers = [dbm(power) for power in walks(city, period_s)]
    world = still_world(city, rules, periods=len(powers), period_s=period_s, substeps=substeps)
    chosen = rule(
        off_db=rules.a3_offset_db,
        ttt_s=rules.time_to_trigger_s,
        a5_ttt_s=rules.time_to_trigger_s,
        a5_hys_db=rules.a2_hysteresis_db,
        a5_thresh1_dbm=1e3,  # up: whatever the serving cell
        a5_thresh2_dbm=THRESHOLD_DBM + rules.return_margin_db,
        a5_down_thresh1_dbm=THRESHOLD_DBM,
        a5_down_thresh2_dbm=-1e3,  # down: whatever the target
    )
    engine = import_module("handoverlab.engine.core").Engine(world, chosen, "full")
    for period, power in enumerate(powers):
        chunk = chunk_of(period * substeps, np.repeat(power[None], substeps, axis=0), substeps)
        if period == 0:
            engine._init(chunk)
            engine.serv[:] = first_cells(city)
        engine.advance(chunk)
    attached = [row for row in engine.trace if row["event"] == "attach"]
    return [Handover(int(row["t"] / period_s + 1e-6), row["ue"], row["cell"]) for row in attached]


def still_world(city: PowerMap, rules: Mobility, *, periods: int, period_s: float, substeps: int) -> Any:
    """What handoverlab's engine must know besides powers: nothing moves, fails or takes time."""
    traffic_of, S = import_module("handoverlab.traffic"), len(city.layout.names)
    protocol: dict[str, Any] = {
        "step_s": period_s / substeps,
        "l1_period_s": period_s,
        "l3_k": rules.filter_coefficient,
    }
    protocol |= {"prep_s": 0.0, "exec_s": 0.0, "exec_can_fail": False, "rrc_detail": "simple"}
    protocol |= {"qout_db": -300.0, "qin_db": -299.0}
    settings = {f"protocol.{name}": value for name, value in protocol.items()}
    settings |= {"run.warmup_s": 0.0, "run.duration_s": periods * period_s}
    scenario = import_module("handoverlab").builtin_scenario("smoke").with_overrides(settings)
    traffic, nowhere = scenario.traffic, np.zeros((periods * substeps, WALKERS))
    services = traffic_of.assign_services(traffic.services, WALKERS, np.random.default_rng(0))
    return SimpleNamespace(
        scenario=scenario,
        seed=1,
        x=nowhere,
        y=nowhere,
        heading=nowhere,
        speed=np.zeros(WALKERS),
        n_cells=2 * S,
        cell_sites=np.tile(city.layout.sites[city.layout.site], (2, 1)),
        nominal_cell=None,
        cell_center=None,
        services=traffic_of.ServiceTable(traffic.services, services, traffic.rate_scale),
        bg_load=np.zeros(2 * S),
        offered=None,
        indoor=None,
        ntn=None,
        ext=SimpleNamespace(cell_carrier=np.repeat([1, 0], S)),  # it numbers carriers by frequency
    )


def one_timer_per_layer(rule: Any) -> Any:
    """Handoverlab's rule with our candidates: the strongest cell of a layer, and one timer for the layer."""

    class Strongest(rule):  # type: ignore[misc]
        def entering(self, obs: Any, offsets: Any) -> tuple[Any, Any]:
            single, _ = super().entering(obs, offsets)
            carrier, users = self.ctx.cell_carrier, np.arange(len(obs.serving))
            condition, score = np.zeros_like(single), np.zeros(single.shape)
            for layer in np.unique(carrier):
                cells, other = np.flatnonzero(carrier == layer), carrier[obs.serving] != layer
                best = cells[obs.meas_dbm[:, cells].argmax(axis=1)]
                condition[:, cells] = (single[users, best] & (other | (best != obs.serving)))[:, None]
                score[:, cells] = obs.meas_dbm[:, cells] + 1e4 * other[:, None]  # between layers first
            return condition, score

    return Strongest


def per_user_hour(found: list[Handover], city: PowerMap) -> str:
    """Handovers per user-hour, by kind."""
    S, counts = len(city.layout.names), dict.fromkeys(("down", "up", "within"), 0)
    cell = dict(enumerate(first_cells(city).tolist()))
    for change in sorted(found, key=lambda change: change.period):
        way = change.cell // S - cell[change.user] // S
        counts["down" if way > 0 else "up" if way < 0 else "within"] += 1
        cell[change.user] = change.cell
    hours = WALKERS * SECONDS / 3600
    return ", ".join(f"{count / hours:.1f} {kind}" for kind, count in counts.items())


def print_same(said: str, ours: list[Handover], theirs: list[Handover]) -> None:
    """Print how many of our handovers are theirs too."""
    near = {replace(change, period=change.period + late) for change in theirs for late in (-1, 0, 1)}
    same, close = len(set(ours) & set(theirs)), len(set(ours) & near)
    print(
        f"  {said}: {len(ours):,} ours, {len(theirs):,} theirs; of ours {same:,} ({same / len(ours):.1%}) with the same"
    )
    print(f"    user, cell and period, {close / len(ours):.1%} at most one period apart")


def compare_handovers() -> None:
    """The same powers through both, from the plainest setting to that of the simulator."""
    theirs = import_module("handoverlab.rules.builtin").A3A5
    ours, city = one_timer_per_layer(theirs), build_map(draw_layout(STATIONS, seed=0), Parameters())
    plain = Mobility(sample_error_db=0.0, filter_coefficient=0)
    usual = replace(plain, filter_coefficient=4)
    second = replace(usual, time_to_trigger_s=1.0)  # what 0.64 s becomes in steps of one second
    for said, period_s, rules, told, rule in (
        ("every 0.32 s, no filter", 0.32, plain, plain, theirs),
        ("every 0.32 s, no filter, our candidates", 0.32, plain, plain, ours),
        ("every 0.32 s, filter k = 4", 0.32, usual, usual, theirs),
        ("every second, filter k = 4", 1.0, usual, second, theirs),
        ("every second, filter k = 4, our candidates", 1.0, usual, second, ours),
    ):
        mine = our_handovers(city, rules, period_s=period_s)
        print_same(said, mine, their_handovers(city, told, period_s=period_s, rule=rule))
    for every in (5, 1):
        mine = our_handovers(city, usual, period_s=0.2, every=every)
        print(f"  per user-hour, ours in steps of {0.2 * every:g} s: {per_user_hour(mine, city)}")
    fine = their_handovers(city, usual, period_s=0.2, rule=theirs)
    print(f"  per user-hour, theirs every 0.2 s: {per_user_hour(fine, city)}")


def compare_formulas() -> None:
    """Path loss, line of sight and walls of TR 38.901."""
    formulas = import_module("handoverlab.channel.pathloss")
    distance, radio = np.geomspace(10, 5000, 2000), Radio()
    heights = {"base_height_m": radio.base_height_m, "user_height_m": radio.user_height_m}
    for ghz in (2.6, 1.8, 0.8):
        for sight, formula in ((True, formulas.uma_los), (False, formulas.uma_nlos)):
            ours = path_loss_db(distance, np.full(len(distance), sight), frequency_ghz=ghz, **heights)
            apart, exact = (np.abs(ours - formula(distance, ghz, c=c)).max() for c in (formulas.C_TR, formulas.C0))
            name = "LOS" if sight else "NLOS"
            print(f"  path loss, {ghz} GHz, {name}: up to {apart:.2g} dB apart, {exact:.2g} dB with our speed of light")
        for high, kind in ((False, "low"), (True, "high")):
            walls = wall_loss_db(ghz, high=high), formulas.o2i_wall_loss_db(kind, ghz)
            print(f"  wall of a {kind}-loss building, {ghz} GHz: ours {walls[0]:.2f} dB, theirs {walls[1]:.2f} dB")
    chance = np.abs(line_of_sight_probability(distance) - formulas.p_los_uma(distance)).max()
    print(f"  probability of line of sight: up to {chance:.2g} apart")


def main() -> None:
    """Print the comparison."""
    if find_spec("handoverlab") is None:
        print("skipped: handoverlab is not installed; python -m pip install handoverlab brings it")
        return
    print(f"kinband's radio network beside handoverlab {import_module('handoverlab').__version__}")
    compare_formulas()
    print(f"{WALKERS} users at {', '.join(f'{v:g}' for v in SPEEDS_KMH)} km/h for {SECONDS:g} s, {STATIONS} sectors")
    compare_handovers()


if __name__ == "__main__":
    main()
