"""The report: one HTML page with everything in it, and its pictures as files beside it."""

import platform
from html import escape
from pathlib import Path

import numpy as np

from kinband.experiments.city.stage import LOG_ROWS
from kinband.experiments.demo import SHARED, Demonstration
from kinband.experiments.report.audit_page import audit_pictures, audit_section
from kinband.experiments.report.findings import (
    FIXED,
    HINDSIGHT,
    WINDOW,
    Findings,
    Words,
    about_families,
    day_table,
    family_table,
    for_operators,
    headline,
    introduction,
    named,
    operator_table,
    setting,
    standings_table,
    tiles,
    words_of,
)
from kinband.experiments.report.pictures import day_picture, heat_picture, map_picture, regret_picture, users_picture
from kinband.experiments.report.style import CSS, PAGE, Picture, figure, note, section
from kinband.version import __version__


def write_report(demo: Demonstration, folder: Path, *, command: str) -> list[Path]:
    """Write the page and its pictures into a folder that exists, and return the files, the page first."""
    findings = Findings(demo)
    words = words_of(findings)
    pictures = pictures_of(findings, words)
    page = folder / "report.html"
    page.write_text(report_html(findings, words, pictures, command=command), encoding="utf-8")
    return [page, *(picture.write(folder) for picture in pictures.values())]


def pictures_of(findings: Findings, words: Words) -> dict[str, Picture]:
    """Return the pictures of a report by name; what cannot be drawn from its log is left out."""
    city, what = findings.demo.stage.city, f"below the best attainable{',' if words.percent else ''}{words.points}"
    pictures = [regret_picture(findings, words.labels, y=what, near=f"{words.near} below")]
    if findings.demo.stage.counts_users:
        pictures.append(users_picture(findings, words.labels, y="satisfied users gained"))
    pictures.append(heat_picture(findings, stations=words.stations))
    if city is not None:
        pictures.append(map_picture(findings, city))
    titles = {station: named(findings, station) for station in findings.demo.stage.days}
    if findings.demo.audit is not None:
        pictures += audit_pictures(findings.demo.audit).values()
    if (day := day_picture(findings, titles, knob=words.knob)) is not None:
        pictures.append(day)
    return {picture.name: picture for picture in pictures}


def report_html(findings: Findings, words: Words, pictures: dict[str, Picture], *, command: str) -> str:
    """Return the page."""
    title = f"{len(findings.stations):,} {words.stations} that learn together"
    parts = [
        _what_you_see(findings, words),
        tiles(findings, words),
        section("Who did how well", standings_table(findings, words) + note(_ABOUT_TABLE)),
        _operators(findings, words),
        _regret(findings, pictures["regret"], words),
        _users(findings, pictures["users"]) if "users" in pictures else "",
        _similarity(findings, words, pictures),
        _trust(findings, pictures),
        _day(findings, words, pictures["day"]) if "day" in pictures else "",
        section("What the words mean", _glossary(findings, words)),
        section("How this was made", _made(findings, words, command)),
    ]
    subtitle = f"kinband {__version__}, {findings.runs} paired runs of {findings.decisions:,} decisions"
    return PAGE.substitute(
        title=escape(title),
        subtitle=escape(subtitle),
        version=__version__,
        css=CSS,
        body="\n".join(filter(None, parts)),
    )


_ABOUT_TABLE = (
    "Means over runs; beneath them 95 % intervals, by bootstrap over runs that meet the same states in every way of "
    "deciding. The last line is a yardstick, not a way to decide: nobody knows its setting before the runs are over."
)


def _what_you_see(findings: Findings, words: Words) -> str:
    text = f"<p>{escape(introduction(findings, words))}</p>"
    return section("What you see", f'{text}<p class="verdict">{escape(headline(findings))}</p>')


def _operators(findings: Findings, words: Words) -> str:
    about = (
        f"A trial is a round: every {words.station} decides once. The network counts as within {words.near} of the "
        f"best when the mean of {WINDOW} rounds over all {words.stations} and runs is, in expectation; users are those "
        f"of these rounds, or of the last where it never is. The {LOG_ROWS} random trials of the log come before."
    )
    text = f"<p>{escape(for_operators(findings, words))}</p>"
    return section("How soon, at what risk, for how many", text + operator_table(findings, words) + note(about))


def _regret(findings: Findings, picture: Picture, words: Words) -> str:
    fixed, best = (findings.standings[name].regret.mean() / len(findings.stations) for name in (FIXED, HINDSIGHT))
    below, single = (words.difference(regret).lstrip("+") for regret in (fixed, best))
    text = (
        "What the best setting of each round is expected to earn less what the chosen one is, the mean over "
        f"{words.stations} and {WINDOW} rounds about each; bands are two standard errors over runs. What runs today "
        f"is {below}{words.points} below on average, the best single setting {single}."
    )
    return section("How far from the best", figure(picture, text))


def _users(findings: Findings, picture: Picture) -> str:
    stage = findings.demo.stage
    today = setting(stage.space[stage.today])
    text = (
        f"How many more users are satisfied at any time than with {today} everywhere: the difference of the shares "
        "times the users connected, summed over the network; means over five rounds, bands of two standard errors. At "
        "first a learner also tries settings that turn out worse."
    )
    return section("Satisfied users gained", figure(picture, text))


def _similarity(findings: Findings, words: Words, pictures: dict[str, Picture]) -> str:
    heat = figure(pictures["similarity"], "Each cell is a pair; the strips carry the colours of the table.")
    if "map" in pictures:
        text = f"Each wedge is a sector{'; the day of those framed is shown below' if 'day' in pictures else ''}."
        shown = f'<div class="pair">{heat}{figure(pictures["map"], text)}</div>'
    else:
        shown = f'<div class="single">{heat}</div>'
    about = f"<p>{escape(about_families(findings, words))}</p>"
    return section("Who is like whom, and who gains", about + shown + family_table(findings, words))


def _trust(findings: Findings, pictures: dict[str, Picture]) -> str:
    if findings.demo.audit is None:
        return ""
    inside = audit_section(findings.demo.audit, pictures)
    return section(
        "How far to trust it", f"{inside}{note('The first of the runs that share; docs/reasons.md says how.')}"
    )


def _day(findings: Findings, words: Words, picture: Picture) -> str:
    city = findings.demo.stage.city
    who = f"A busy {words.station} of each kind of place" if city and city.kinds else f"Some {words.stations}"
    text = (
        f"{who}: the setting that the controller that shares expects to be best, asked after its last round at the "
        "mean state of every hour. Dots are single runs; where they scatter, the settings are about equally good or "
        "not yet told apart."
    )
    return section("What it would set over the day", figure(picture, text) + day_table(findings, words))


def _glossary(findings: Findings, words: Words) -> str:
    one, earned = words.station, "What the log says a station earned in a period; more is better."
    if findings.demo.stage.city:
        earned = (
            "The share of a sector's downloads, on both of its carriers, that were fast enough. Times the users "
            "connected, it gives the satisfied users."
        )
    terms = {
        words.reward.capitalize(): earned,
        "Round": f"Every {one} gets a setting, then every {one} learns from all results (Algorithm 1 of the paper).",
        "Regret": "What the best setting of each round is expected to earn, less what the chosen one is expected to. "
        "Who has learned everything pays none.",
        "Similarity": "1 where two behave alike in all states and settings, 0 where they have nothing in common. How "
        "much all have in common is found by likelihood, together with the kernel; who is alike beyond that by "
        "comparing conditional distributions (conditional kernel embedding).",
        "Alone": "The same learner without similarity: its own kernel by likelihood, the same log, the same β.",
        "β": "How much a setting is favoured for being little known: what counts is the expected reward + β × its "
        f"uncertainty. Here β = {findings.beta}.",
        "95 % interval": "Where the mean over ever more such runs would lie. It knows of the chance in which states "
        "come up, not of other cities or logs.",
    }
    return "<dl>" + "".join(f"<dt>{escape(t)}</dt><dd>{escape(text)}</dd>" for t, text in terms.items()) + "</dl>"


def _made(findings: Findings, words: Words, command: str) -> str:
    stage = findings.demo.stage
    seeds = ", ".join(str(run.case.seed) for run in findings.demo.of(SHARED))
    source = "the trace that comes with kinband" if stage.source == "bundled" else Path(stage.source).name
    city = f", a city drawn from seed {stage.city.seed}" if stage.city else ""
    today = "the threshold the simulated network starts with" if stage.city else "the configuration run most often"
    count = f"{len(findings.stations):,} {words.stations}"
    lines = [
        f"kinband {__version__}, Python {platform.python_version()}, NumPy {np.__version__}.",
        f"Data: {source}{city}; {len(stage.trace):,} rows of {count}.",
        f"The world: each {words.station}'s own smooth fit (Gaussian process) of all its rows, plus noise as large as "
        "what the fit leaves over. So whatever counts as regret could have been saved.",
        f"Log to start from: {LOG_ROWS} random settings of each in states it was in, "
        f"{LOG_ROWS * len(findings.stations):,} in all, earned in that world.",
        f"Seeds {seeds}: they draw the log, the states of every round and the noise, the same for all who decide.",
        f"Sharing and alone: UCB with β = {findings.beta}; kernel, noise and mean by likelihood, each its own.",
        f"Fixed: {setting(stage.space[stage.today])}, {today}.",
    ]
    items = [f"Command: <code>{escape(command)}</code>", *map(escape, lines)]
    return "<ul>" + "".join(f"<li>{item}</li>" for item in items) + "</ul>"
