"""The tiles and tables of the page, as HTML; everything that came from outside is escaped."""

from collections import Counter
from html import escape

import numpy as np

from kinband.experiments.demo import ALONE, SHARED
from kinband.experiments.report.findings import FIXED, HINDSIGHT, Family, Findings
from kinband.experiments.report.html import cell, table
from kinband.experiments.report.html import tiles as tiles_of
from kinband.experiments.report.sector_map import family_colours
from kinband.experiments.report.words import Words, arrivals, interval, setting, trials, typeset


def tiles(findings: Findings, words: Words) -> str:
    """Return the headline numbers."""
    ours, today = findings.standings[SHARED], findings.standings[FIXED]
    more, saved, gain = ours.reward.value - today.reward.value, ours.saved, ours.gain
    shown = setting(findings.demo.stage.space[findings.demo.stage.today])
    means = f"{words.number(ours.reward.value)} with sharing, {words.number(today.reward.value)} with {shown}"
    parts = [(words.difference(more) + words.points, f"{words.reward}: {means}")]
    if saved is not None:
        text = f"of the regret of learning alone saved by sharing (95 %: {interval(saved, '.0%')})"
        parts.append((typeset(f"{saved.value:.0%}"), text))
    if gain is not None:
        users = findings.users.sum(axis=2).mean()
        text = f"satisfied users at any time, of {users:,.0f} connected (95 %: {interval(gain, ',.0f')})"
        parts.append((typeset(f"{gain.value:+,.0f}"), text))
    rounds = f"{findings.rounds} rounds of {len(findings.stations):,} {words.stations}"
    parts.append((f"{findings.decisions:,}", f"decisions in each of {findings.runs} runs: {rounds}"))
    return tiles_of(parts)


def standings_table(findings: Findings, words: Words) -> str:
    """Return who earned what, with intervals."""
    counted = findings.standings[SHARED].gain is not None
    head = ["how it is decided", words.reward, "regret", "regret saved against alone"]
    rows: list[tuple[str, list[str]]] = []
    for name, standing in findings.standings.items():
        saved, gain = standing.saved, standing.gain
        cells = [
            escape(words.labels[name]),
            cell(words.number(standing.reward.value), _rewards(standing.reward.low, standing.reward.high, words)),
            cell(f"{standing.total_regret.value:.1f}", interval(standing.total_regret, ".1f")),
            "–" if saved is None else cell(typeset(f"{saved.value:.1%}"), interval(saved, ".1%")),
        ]
        if counted:
            zero = gain is None or name == FIXED
            cells.append("–" if gain is None or zero else cell(typeset(f"{gain.value:+,.0f}"), interval(gain, ",.0f")))
        rows.append(({SHARED: "ours", HINDSIGHT: "yardstick"}.get(name, ""), cells))
    return table([*head, *(["satisfied users gained"] if counted else [])], rows)


def operator_table(findings: Findings, words: Words) -> str:
    """Return what an operator asks: how soon, at what risk, and for how many users."""
    counted = findings.demo.stage.counts_users
    today = setting(findings.demo.stage.space[findings.demo.stage.today])
    head = ["how it is decided", f"trials until within {words.near} of the best", f"decisions worse than {today}"]
    head += [f"worse by more than {words.near}", *(["users gained by then"] if counted else [])]
    rows = []
    for name in (SHARED, ALONE):
        standing = findings.standings[name]
        cells = [
            escape(words.labels[name]),
            cell(trials(standing.arrived, findings), f"{arrivals(standing, findings)} in single runs"),
        ]
        cells += [f"{standing.worse.mean():.0%}", f"{standing.far_worse.mean():.1%}"]
        gain = findings.gain_by(name, standing.arrived or findings.rounds)
        cells += [typeset(f"{gain:+,.0f}")] if counted else []
        rows.append(("ours" if name == SHARED else "", cells))
    return table(head, rows)


def family_table(findings: Findings, words: Words) -> str:
    """Return what the members of each family have in common, and what sharing brought them."""
    colours, city = family_colours(findings.families), findings.demo.stage.city
    counted = findings.demo.stage.counts_users
    head = [words.stations, "number", *(["mostly"] if city and city.kinds else [])]
    head += [*(["users each"] if counted else []), "today", "shared", "gain over today", "gain over alone"]
    rows = []
    for family in findings.families:
        mean = findings.of_family(family)
        swatch = f'<span class="swatch" style="background: {colours[family.name]}"></span>'
        cells = [f"{swatch}{escape(family.name)}", str(len(family.stations))]
        cells += [escape(_kinds(findings, family))] if city and city.kinds else []
        cells += [f"{mean['users']:.0f}"] if counted else []
        cells += [words.number(mean[FIXED]), words.number(mean[SHARED])]
        cells += [words.difference(mean[SHARED] - mean[FIXED]), words.difference(mean[SHARED] - mean[ALONE])]
        rows.append(("", cells))
    return table(head, rows)


def day_table(findings: Findings, words: Words) -> str:
    """Return for the stations whose day is shown what is expected of the settings chosen, and of today's."""
    stage = findings.demo.stage
    head = [words.station, "expected, as chosen", f"expected at {setting(stage.space[stage.today])}", "most to gain at"]
    rows = []
    for station in findings.chosen():
        best, today = findings.expected(station)
        gains = np.where(np.isnan(best), -np.inf, best - today)
        place = int(gains.argmax())
        hours = f"{stage.hours[place]}–{stage.hours[place] + 1} h"
        knob = setting({name: findings.agreed(station)[place] for name in stage.space.knobs})
        when = f"{hours}: {words.difference(float(gains[place]))}{words.points}, {knob}"
        means = [words.number(float(np.nanmean(hourly))) for hourly in (best, today)]
        rows.append(("", [escape(named(findings, station)), *means, escape(when)]))
    return table(head, rows)


def named(findings: Findings, station: str) -> str:
    """Return a station's name with its kind of place, if that is known."""
    city = findings.demo.stage.city
    kind = city.kind_of(station) if city else None
    return f"{station} ({kind})" if kind else station


def _kinds(findings: Findings, family: Family) -> str:
    city = findings.demo.stage.city
    kinds = Counter(city.kind_of(name) for name in family.stations) if city else Counter[str | None]()
    (most, count), *_ = kinds.most_common()
    return f"{most} ({count})"


def _rewards(low: float, high: float, words: Words) -> str:
    return f"{words.number(low)} to {words.number(high)}"
