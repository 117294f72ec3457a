"""The words of the report. Every number in them comes from the run.

A simulated city is spoken of in the words of a radio engineer; of any other log only what the log itself says is known,
so its stations stay stations and its reward a reward.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from kinband.experiments.city.stage import LOG_ROWS, Stage
from kinband.experiments.demo import ALONE, SHARED
from kinband.experiments.metrics import Estimate
from kinband.experiments.report.findings import ALIKE, FIFTHS, FIXED, HINDSIGHT, Findings, Standing
from kinband.similarity.matrix import sharing_text

_UNITS = {"dbm": "dBm", "db": "dB", "deg": "°", "w": "W", "m": "m", "mhz": "MHz", "ms": "ms", "s": "s"}


@dataclass(frozen=True)
class Words:
    """How a report calls things.

    Attributes:
        stations: Several stations.
        station: One of them.
        reward: What is earned.
        knob: What is set, with its unit.
        labels: The learners.
        percent: Whether a reward is a share, written in per cent.
        near: How far from the best attainable is near, in words.
    """

    stations: str
    station: str
    reward: str
    knob: str
    labels: dict[str, str]
    percent: bool
    near: str

    @property
    def points(self) -> str:
        """The unit of a difference of rewards."""
        return " points" if self.percent else ""

    def number(self, reward: float) -> str:
        """Return a reward as text."""
        return f"{reward:.1%}" if self.percent else f"{reward:.3f}"

    def difference(self, reward: float) -> str:
        """Return a difference of rewards as text, in points where rewards are shares."""
        return typeset(f"{100 * reward:+.1f}") if self.percent else typeset(f"{reward:+.3f}")


def words_of(findings: Findings) -> Words:
    """Return the words that suit what was played on."""
    stage = findings.demo.stage
    today, best = (setting(stage.space[arm]) for arm in (stage.today, findings.best_arm))
    station, one = ("sector", "threshold") if stage.city else ("station", "configuration")
    labels = {
        SHARED: f"{station}s that share",
        ALONE: f"each {station} alone",
        FIXED: f"fixed at {today}, as today",
        HINDSIGHT: f"best single {one} in hindsight, {best}",
    }
    return Words(
        stations=f"{station}s",
        station=station,
        reward="share of satisfied users" if stage.city else "reward",
        knob=" and ".join(map(quantity, stage.space.knobs)),
        labels=labels,
        percent=stage.city is not None,
        near="half a point" if stage.city else f"{findings.near:.2g}",
    )


def typeset(text: str) -> str:
    """Return text with real minus signs before its numbers.

    Example:
        >>> typeset("-4 to +3")
        '−4 to +3'
    """
    return text.replace("-", "−")


def quantity(name: str) -> str:
    """Return the name of a knob for people, with its unit if the name tells.

    Example:
        >>> quantity("handover_threshold_dbm"), quantity("scheduler")
        ('handover threshold (dBm)', 'scheduler')
    """
    *front, last = name.split("_")
    return f"{' '.join(front)} ({_UNITS[last]})" if front and last in _UNITS else name.replace("_", " ")


def setting(configuration: dict[str, Any]) -> str:
    """Return a configuration for people.

    Example:
        >>> setting({"handover_threshold_dbm": -100}), setting({"tilt": 4, "scheduler": "pf"})
        ('−100 dBm', 'tilt 4, scheduler pf')
    """
    if len(configuration) == 1:
        name, value = next(iter(configuration.items()))
        *front, unit = name.split("_")
        if front and unit in _UNITS:
            return f"{_value(value)} {_UNITS[unit]}"
    return ", ".join(f"{name.replace('_', ' ')} {_value(value)}" for name, value in configuration.items())


def _value(value: Any) -> str:
    return str(value) if isinstance(value, str | bool) else typeset(f"{value:g}")


def interval(estimate: Estimate, spec: str) -> str:
    """Return the 95 % interval of an estimate as text.

    Example:
        >>> interval(Estimate(0.2, -0.01, 0.25), ".0%")
        '−1% to 25%'
    """
    return typeset(f"{estimate.low:{spec}} to {estimate.high:{spec}}")


def headline(findings: Findings) -> str:
    """Say in a few sentences what came out."""
    saved = findings.standings[SHARED].saved
    if saved is None:
        return "Learning alone has a run without regret: there is nothing to save." + _users_gained(findings)
    around = interval(saved, ".0%")
    if saved.low > 0:
        first = f"Sharing saved {saved.value:.0%} of the regret of learning alone (95 % interval: {around})."
    elif saved.high < 0:
        more = interval(Estimate(-saved.value, -saved.high, -saved.low), ".0%")
        first = f"Sharing raised the regret of learning alone by {-saved.value:.0%} (95 % interval: {more})."
    else:
        first = (
            f"These runs do not settle whether sharing saves regret against learning alone (95 % interval: {around})."
        )
    return first + _users_gained(findings)


def _users_gained(findings: Findings) -> str:
    stage, gains = findings.demo.stage, {name: line.gain for name, line in findings.standings.items()}
    shared, alone, best = gains[SHARED], gains[ALONE], gains[HINDSIGHT]
    if shared is None or alone is None or best is None:
        return ""
    today, single = (setting(stage.space[arm]) for arm in (stage.today, findings.best_arm))
    users, more = findings.users.sum(axis=2).mean(), "more" if shared.value >= 0 else "fewer"
    return typeset(
        f" With it, {abs(shared.value):,.0f} {more} of {users:,.0f} connected users were satisfied at any time than "
        f"with {today} everywhere (95 % interval: {interval(shared, ',.0f')}); learning alone gained "
        f"{alone.value:,.0f}. The best single setting for all, {single}, would have gained {best.value:,.0f}, had "
        "anybody known it beforehand."
    )


def trials(arrived: int | None, findings: Findings) -> str:
    """Return the trials a station until the network is near the best attainable, as text."""
    return f"more than {findings.rounds}" if arrived is None else str(arrived)


def arrivals(standing: Standing, findings: Findings) -> str:
    """Return the fewest and the most trials of single runs, as text."""
    late = findings.rounds + 1
    first, *_, last = sorted(standing.arrivals, key=lambda count: count or late)
    return f"{trials(first, findings)} to {trials(last, findings)}"


def for_operators(findings: Findings, words: Words) -> str:
    """Say how soon the network is near the best attainable, what was risked, and what is gained by then."""
    return " ".join(filter(None, (_how_soon(findings, words), _at_what_risk(findings, words), _by_then(findings))))


def _how_soon(findings: Findings, words: Words) -> str:
    shared, alone = (findings.standings[name].arrived for name in (SHARED, ALONE))
    where = f"within {words.near} of the best attainable"
    if shared is None and alone is None:
        return f"Neither sharing nor learning alone came {where} in {findings.rounds} rounds."
    if shared == alone:
        return f"The network came {where} after {shared} trials a {words.station}, with sharing as alone."
    late = findings.rounds + 1
    (first, soon), (second, then) = sorted(
        (("with sharing", shared), ("alone", alone)), key=lambda way: late if way[1] is None else way[1]
    )
    rest = f"not in {findings.rounds}" if then is None else f"after {then}"
    single = " and ".join(arrivals(findings.standings[name], findings) for name in (SHARED, ALONE))
    return (
        f"The network came {where} after {soon} trials a {words.station} {first}, {second} {rest}; in single runs it "
        f"took {single}, sharing first."
    )


def _at_what_risk(findings: Findings, words: Words) -> str:
    stage = findings.demo.stage
    shared, alone = (findings.standings[name] for name in (SHARED, ALONE))
    return (
        f"Of the decisions, {shared.worse.mean():.0%} with sharing and {alone.worse.mean():.0%} alone were in "
        f"expectation worse than {setting(stage.space[stage.today])}, {shared.far_worse.mean():.1%} and "
        f"{alone.far_worse.mean():.1%} by more than {words.near}."
    )


def _by_then(findings: Findings) -> str:
    arrived = findings.standings[SHARED].arrived
    if arrived is None or not findings.demo.stage.counts_users:
        return ""
    shared, alone = (findings.gain_by(name, arrived) for name in (SHARED, ALONE))
    return typeset(
        f"By trial {arrived}, sharing satisfied {abs(shared):,.0f} {'more' if shared >= 0 else 'fewer'} users than "
        f"today's setting, learning alone {abs(alone):,.0f} {'more' if alone >= 0 else 'fewer'}."
    )


def introduction(findings: Findings, words: Words) -> str:
    """Say what is shown, for somebody who has not read the paper."""
    stage, count = findings.demo.stage, len(findings.stations)
    ways = (
        f"kinband starts from {LOG_ROWS} random trials of every {words.station} and learns on, round by round. This "
        f"page compares three ways to decide: {words.stations} that share what they learn, as far as the log says that "
        f"they have something in common, {words.stations} that each learn alone, and "
        f"{setting(stage.space[stage.today])} all the time."
    )
    if stage.city is None:
        return (
            f"The log holds {count:,} stations, each of which runs one of {len(stage.space)} configurations and earns "
            "a reward. In every round each station is in a state that it was once in, and what a configuration earns "
            f"there is a smooth fit of all its measurements, plus noise. {ways}"
        )
    return (
        f"A simulated city has {count:,} sectors on {stage.city.sites} sites, each with a fast carrier and a "
        "far-reaching one. One number is to be set, the handover threshold: a phone whose signal on the fast carrier "
        "falls below it moves to the other. Set too low, phones cling to a poor signal; too high, they crowd the "
        f"slower carrier. The right value depends on the sector and on its load. {_round(stage)} every sector chooses "
        f"one of {len(stage.space)} thresholds and earns {_satisfied(stage)}. {ways}"
    )


def _round(stage: Stage) -> str:
    minutes = stage.city.period_minutes if stage.city else None
    if minutes is None:
        return "In every round"
    whole, seconds = divmod(round(60 * minutes), 60)
    return f"In every round of {whole} min {seconds} s" if seconds else f"In every round of {whole} min"


def _satisfied(stage: Stage) -> str:
    rate = stage.city.good_bps if stage.city else None
    faster = "" if rate is None else f", those with {rate / 1e6:g} Mbit/s or more"
    return f"the share of its users that are satisfied{faster}"


def _about_sharing(findings: Findings, words: Words) -> str:
    """Say how much is shared, where that was learned."""
    said = sharing_text(findings.demo.model.similarity.details)
    if not said:
        return f" What one {words.station} earned counts for another by as much as they are alike."
    return f" How much to share is learned as well. {said}"


def about_families(findings: Findings, words: Words) -> str:
    """Say what the colours of the map and the heat map stand for."""
    K_Z = findings.similarity.correlation()
    pairs = K_Z[np.triu_indices(len(K_Z), 1)]
    start = (
        f"Similarity is what the {LOG_ROWS} rows of every {words.station} in the log of the first run say of how "
        f"rewards follow from state and setting; pairs range from {pairs.min():.2f} to {pairs.max():.2f}."
        f"{_about_sharing(findings, words)}"
    )
    if findings.families[0].name in FIFTHS:
        return (
            f"{start} No clear groups stand out here, so the colours tell how typical a {words.station} is: fifths by "
            "mean similarity to all others."
        )
    return f"{start} The colours are groups whose members are {ALIKE:g} alike or more on average."
