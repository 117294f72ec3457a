"""The pages: a report of the demonstration, and one of an audit; each an HTML file with everything in it.

What they say stands in the templates, which share the style of the dashboard; here are the tables as text, and the
pictures, which are also written as files beside the page.
"""

import platform
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kinband.diagnostics import Audit, Calibrated, Transferred
from kinband.diagnostics.calibration import FITS
from kinband.diagnostics.transfer import EVEN, HURTS
from kinband.experiments.city import LOG_ROWS, City
from kinband.experiments.demo import ALONE, SHARED, Demonstration
from kinband.experiments.report.findings import (
    ALIKE,
    FIXED,
    HINDSIGHT,
    WINDOW,
    Family,
    Findings,
    Words,
    arrivals,
    for_operators,
    headline,
    interval,
    named,
    setting,
    trials,
    typeset,
    words_of,
)
from kinband.experiments.report.pictures import (
    Picture,
    calibration_picture,
    day_picture,
    family_colours,
    heat_picture,
    lending_picture,
    map_picture,
    regret_picture,
    users_picture,
)
from kinband.html import environment, style_sheet
from kinband.similarity.matrix import sharing_text
from kinband.stats import Estimate
from kinband.version import __version__

if TYPE_CHECKING:
    from jinja2 import Environment

Cell = str | tuple[str, str]
"""Text, or text with what stands beneath it."""
Table = tuple[list[str], list[tuple[str, list[Cell]]]]
"""Heads of the columns; of every row its look or its colour, and its cells."""


@cache
def _templates() -> "Environment":
    made = environment("kinband.experiments.report")
    made.filters["typeset"] = typeset
    made.globals |= {"setting": setting, "style": style_sheet(), "version": __version__}
    return made


def _render(template: str, **shown: Any) -> str:
    return _templates().get_template(template).render(**shown)


def _write(folder: Path, name: str, page: str, pictures: dict[str, Picture]) -> list[Path]:
    """Write a page and its pictures into a folder that exists, and return the files, the page first."""
    path = folder / f"{name}.html"
    path.write_text(page, encoding="utf-8")
    return [path, *(picture.write(folder) for picture in pictures.values())]


# --- The report of the demonstration --------------------------------------------------------------------------------


def write_report(demo: Demonstration, folder: Path, *, command: str) -> list[Path]:
    """Write the report and its pictures into a folder that exists, and return the files, the page first."""
    findings = Findings(demo)
    words = words_of(findings)
    pictures = report_pictures(findings, words)
    return _write(folder, "report", report_html(findings, words, pictures, command=command), pictures)


def report_pictures(findings: Findings, words: Words) -> dict[str, Picture]:
    """Return the pictures of a report by name; what cannot be drawn from its log is left out."""
    stage = findings.demo.stage
    what = f"below the best attainable{',' if words.percent else ''}{words.points}"
    titles = {station: named(findings, station) for station in stage.days}
    pictures = [
        regret_picture(findings, words.labels, y=what, near=f"{words.near} below"),
        users_picture(findings, words.labels, y="satisfied users gained") if stage.counts_users else None,
        heat_picture(findings, stations=words.stations),
        map_picture(findings, stage.city) if stage.city is not None else None,
        *(audit_pictures(findings.demo.audit).values() if findings.demo.audit is not None else ()),
        day_picture(findings, titles, knob=words.knob),
    ]
    return {picture.name: picture for picture in pictures if picture is not None}


def report_html(findings: Findings, words: Words, pictures: dict[str, Picture], *, command: str) -> str:
    """Return the page."""
    stage, correlation = findings.demo.stage, findings.similarity.correlation()
    regret = (findings.standings[name].regret.mean() / len(findings.stations) for name in (FIXED, HINDSIGHT))
    return _render(
        "report.html",
        title=f"{len(findings.stations):,} {words.stations} that learn together",
        subtitle=f"{findings.runs} paired runs of {findings.decisions:,} decisions",
        findings=findings,
        words=words,
        pictures=pictures,
        command=command,
        headline=headline(findings),
        for_operators=for_operators(findings, words),
        tiles=_tiles(findings, words),
        standings=_standings(findings, words),
        operators=_operators(findings, words),
        families=_families(findings, words),
        days=_days(findings, words) if "day" in pictures else None,
        period=_period(stage.city),
        below=[words.difference(each).lstrip("+") for each in regret],
        pairs=correlation[np.triu_indices(len(correlation), 1)],
        sharing=sharing_text(findings.similarity.details),
        source="the trace that comes with kinband" if stage.source == "bundled" else Path(stage.source).name,
        seeds=[run.case.seed for run in findings.demo.of(SHARED)],
        log_rows=LOG_ROWS,
        window=WINDOW,
        alike=f"{ALIKE:g}",
        python=platform.python_version(),
        numpy=np.__version__,
    )


def _period(city: City | None) -> str:
    minutes = city.period_minutes if city else None
    if minutes is None:
        return ""
    whole, seconds = divmod(round(60 * minutes), 60)
    return f"{whole} min {seconds} s" if seconds else f"{whole} min"


def _tiles(findings: Findings, words: Words) -> list[tuple[str, str]]:
    """Return the headline numbers, each with what it is."""
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
    return [*parts, (f"{findings.decisions:,}", f"decisions in each of {findings.runs} runs: {rounds}")]


def _standings(findings: Findings, words: Words) -> Table:
    """Return who earned what, with intervals."""
    counted = findings.standings[SHARED].gain is not None
    head = ["how it is decided", words.reward, "regret", "regret saved against alone"]
    rows = []
    for name, standing in findings.standings.items():
        reward, gain = standing.reward, None if name == FIXED else standing.gain
        cells: list[Cell] = [
            words.labels[name],
            (words.number(reward.value), f"{words.number(reward.low)} to {words.number(reward.high)}"),
            _cell(standing.total_regret, ".1f"),
            _cell(standing.saved, ".1%"),
        ]
        rows.append(({SHARED: "ours", HINDSIGHT: "yardstick"}.get(name, ""), cells))
        if counted:
            cells.append(_cell(gain, ",.0f", "+,.0f"))
    return [*head, *(["satisfied users gained"] if counted else [])], rows


def _operators(findings: Findings, words: Words) -> Table:
    """Return what an operator asks: how soon, at what risk, and for how many users."""
    counted = findings.demo.stage.counts_users
    today = setting(findings.demo.stage.space[findings.demo.stage.today])
    head = ["how it is decided", f"trials until within {words.near} of the best", f"decisions worse than {today}"]
    head += [f"worse by more than {words.near}", *(["users gained by then"] if counted else [])]
    rows = []
    for name in (SHARED, ALONE):
        standing = findings.standings[name]
        gain = findings.gain_by(name, standing.arrived or findings.rounds)
        cells: list[Cell] = [
            words.labels[name],
            (trials(standing.arrived, findings), f"{arrivals(standing, findings)} in single runs"),
            f"{standing.worse.mean():.0%}",
            f"{standing.far_worse.mean():.1%}",
            *([typeset(f"{gain:+,.0f}")] if counted else []),
        ]
        rows.append(("ours" if name == SHARED else "", cells))
    return head, rows


def _families(findings: Findings, words: Words) -> Table:
    """Return what the members of each family have in common, and what sharing brought them."""
    colours, city = family_colours(findings.families), findings.demo.stage.city
    counted, kinds = findings.demo.stage.counts_users, bool(city and city.kinds)
    head = [words.stations, "number", *(["mostly"] if kinds else []), *(["users each"] if counted else [])]
    rows = []
    for family in findings.families:
        mean = findings.of_family(family)
        cells: list[Cell] = [
            family.name,
            str(len(family.stations)),
            *([_kinds(city, family)] if city and kinds else []),
            *([f"{mean['users']:.0f}"] if counted else []),
            words.number(mean[FIXED]),
            words.number(mean[SHARED]),
            words.difference(mean[SHARED] - mean[FIXED]),
            words.difference(mean[SHARED] - mean[ALONE]),
        ]
        rows.append((colours[family.name], cells))
    return [*head, "today", "shared", "gain over today", "gain over alone"], rows


def _kinds(city: City, family: Family) -> str:
    (most, count), *_ = Counter(city.kind_of(name) for name in family.stations).most_common()
    return f"{most} ({count})"


def _days(findings: Findings, words: Words) -> Table:
    """Return for the stations whose day is shown what is expected of the settings chosen, and of today's."""
    stage = findings.demo.stage
    head = [words.station, "expected, as chosen", f"expected at {setting(stage.space[stage.today])}", "most to gain at"]
    rows = []
    for station, day in findings.days().items():
        gains = np.where(np.isnan(day.best), -np.inf, day.best - day.today)
        place = int(gains.argmax())
        hours = f"{stage.hours[place]}–{stage.hours[place] + 1} h"
        knob = setting(dict.fromkeys(stage.space.knobs, day.agreed[place]))
        when = f"{hours}: {words.difference(float(gains[place]))}{words.points}, {knob}"
        means = [words.number(float(np.nanmean(hourly))) for hourly in (day.best, day.today)]
        rows.append(("", list[Cell]([named(findings, station), *means, when])))
    return head, rows


def _cell(found: Estimate | None, spec: str, shown: str = "") -> Cell:
    """Return a number with its interval beneath; a dash where there is none."""
    if found is None:
        return "–"
    value = typeset(f"{found.value:{shown or spec}}")
    return (value, interval(found, spec)) if found.known else value


# --- The page of an audit -------------------------------------------------------------------------------------------

_ROWS = 300  # stations of the table


def write_audit(audit: Audit, folder: Path, *, title: str) -> list[Path]:
    """Write the page and its pictures into a folder that exists, and return the files, the page first."""
    pictures = audit_pictures(audit)
    return _write(folder, "audit", audit_html(audit, pictures, title=title), pictures)


def audit_pictures(audit: Audit) -> dict[str, Picture]:
    """Return the pictures of an audit by name; what cannot be drawn is left out."""
    found = [calibration_picture(audit), lending_picture(audit)]
    return {picture.name: picture for picture in found if picture is not None}


def audit_html(audit: Audit, pictures: dict[str, Picture], *, title: str) -> str:
    """Return the page; stations with a flag come first in its table."""
    pairs = sorted(zip(audit.calibration.stations, audit.transfer.stations, strict=True), key=_urgency)
    return _render(
        "audit.html",
        title=title,
        subtitle=f"{len(audit.stations):,} stations, {audit.rewards:,} rewards of {audit.decisions:,} decisions",
        audit=audit,
        pictures=pictures,
        rows=[("flagged" if _flagged(*pair) else "", _row(*pair)) for pair in pairs[:_ROWS]],
        more=len(pairs) - _ROWS,
    )


def _flagged(station: Calibrated, sharing: Transferred) -> bool:
    return station.verdict != FITS or bool(station.drift) or (sharing.rewards > 0 and sharing.verdict != EVEN)


def _urgency(pair: tuple[Calibrated, Transferred]) -> tuple[bool, bool, float]:
    """Sort by flags, then by how little the widths fit."""
    station, sharing = pair
    fits = station.verdict == FITS and not station.drift
    return sharing.verdict != HURTS, fits, min(station.p_spread, station.p_bias)


def _row(station: Calibrated, sharing: Transferred) -> Sequence[Cell]:
    if not station.rewards:
        return [station.name, "0", *["–"] * 7]
    inside, gain = station.coverage[0.8], sharing.gain
    earned: Cell = "–"
    if sharing.rewards:
        spec = f"+.{gain.decimals(2)}f"
        said = "" if sharing.verdict == EVEN else f" {sharing.verdict}"
        earned = _cell(gain, spec)
        earned = f"{earned}{said}" if isinstance(earned, str) else (f"{earned[0]}{said}", earned[1])
    return [
        station.name,
        f"{station.rewards:,}",
        (f"{100 * inside.value:.0f} %", f"{100 * inside.low:.0f} to {100 * inside.high:.0f}"),
        _cell(station.spread, ".2f"),
        _cell(station.bias, "+.2f"),
        ", ".join(filter(None, [station.verdict, station.drift])),
        earned,
        "–" if sharing.borrowed is None else f"{100 * sharing.borrowed:.0f} %",
        "–" if sharing.worth is None else f"{sharing.worth:,.1f}",
    ]
