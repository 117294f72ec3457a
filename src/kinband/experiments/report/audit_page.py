"""The page of an audit: one HTML file with everything in it, and its pictures as files beside it."""

import re
from html import escape
from pathlib import Path

from kinband.diagnostics import Audit, Calibrated, Transferred
from kinband.diagnostics.calibration import FITS, Interval
from kinband.diagnostics.transfer import EVEN, HURTS
from kinband.experiments.report.audit_pictures import calibration_picture, lending_picture
from kinband.experiments.report.findings import typeset
from kinband.experiments.report.style import CSS, PAGE, Picture, cell, figure, note, section, table, tiles
from kinband.version import __version__

_ROWS = 300  # stations of the table


def write_audit(audit: Audit, folder: Path, *, title: str) -> list[Path]:
    """Write the page and its pictures into a folder that exists, and return the files, the page first."""
    pictures = audit_pictures(audit)
    page = folder / "audit.html"
    page.write_text(audit_html(audit, pictures, title=title), encoding="utf-8")
    return [page, *(picture.write(folder) for picture in pictures.values())]


def audit_pictures(audit: Audit) -> dict[str, Picture]:
    """Return the pictures of an audit by name; what cannot be drawn is left out."""
    found = [calibration_picture(audit.calibration), lending_picture(audit)]
    return {picture.name: picture for picture in found if picture is not None}


def audit_html(audit: Audit, pictures: dict[str, Picture], *, title: str) -> str:
    """Return the page."""
    parts = [
        _words(audit),
        _tiles(audit),
        section("Do intervals hold what they promise?", figure(pictures["calibration"], _ABOUT_CALIBRATION)),
        section("Who borrows from whom", figure(pictures["lending"], _ABOUT_LENDING)) if "lending" in pictures else "",
        section("Station by station", _table(audit) + note(_ABOUT_TABLE)),
        section("What the words mean", _glossary()),
    ]
    count = f"{len(audit.stations):,} stations, {audit.rewards:,} rewards of {audit.decisions:,} decisions"
    return PAGE.substitute(
        title=escape(title),
        subtitle=escape(f"kinband {__version__}, {count}"),
        version=__version__,
        css=CSS,
        body="\n".join(filter(None, parts)),
    )


def audit_section(audit: Audit, pictures: dict[str, Picture]) -> str:
    """Return the sentences and pictures of an audit for a page that is about something else."""
    lines = "".join(f"<li>{escape(_signs(line))}</li>" for line in audit.words)
    shown = [(name, text) for name, text in _CAPTIONS if name in pictures]
    return f"<ul>{lines}</ul>" + "".join(figure(pictures[name], text) for name, text in shown)


_ABOUT_CALIBRATION = (
    "Left: every reward has a place in the distribution that was predicted when asking. If predictions are right, all "
    "parts hold the same share; bars high at both ends say that intervals are too narrow, a hump that they are too "
    "wide, a slope that predictions are off. The band is where a bar lies by chance in 95 of 100 cases. Right: rewards "
    "inside the 50, 80 and 95 % intervals; each dot is a station (orange: too narrow, blue: too wide), the diamond all "
    "of them with a 95 % interval."
)
_ABOUT_LENDING = (
    "Each row is a station and says whose rewards its latest decisions rested on, with the beliefs of the time; its "
    "own are left out. The bars are what it borrowed in all."
)
_CAPTIONS = (("calibration", _ABOUT_CALIBRATION), ("lending", _ABOUT_LENDING))
_ABOUT_TABLE = (
    "Intervals are 95 % ones. Flags allow for looking at many stations at once: on average at most 5 % of them are "
    "false (Benjamini and Hochberg 1995). Stations with a flag come first."
)


def _words(audit: Audit) -> str:
    first, *rest = audit.words
    items = "".join(f"<li>{escape(_signs(line))}</li>" for line in rest)
    return section("What it says", f'<p class="verdict">{escape(_signs(first))}</p><ul>{items}</ul>')


def _signs(line: str) -> str:
    """Return a sentence with real minus signs before its numbers; hyphens in names stay."""
    return re.sub(r"(?<![\w-])-(?=\d)", "−", line)


def _tiles(audit: Audit) -> str:
    calibration, transfer = audit.calibration.overall, audit.transfer.overall
    parts = [
        (f"{100 * calibration.coverage[0.8].value:.0f} %", "of rewards inside the interval that should hold 80 %"),
        (f"{calibration.spread.value:.2f}", "mean z²; 1 if widths and noise are right, more if too narrow"),
    ]
    if transfer.rewards:
        parts.append((typeset(f"{transfer.gain.value:+.2f}"), "nats a reward that sharing foretold more, or less"))
    if transfer.borrowed is not None:
        parts.append((f"{100 * transfer.borrowed:.0f} %", "of a station's evidence is borrowed, on average"))
    return tiles(parts)


def _table(audit: Audit) -> str:
    head = [
        "station",
        "rewards",
        "inside 80 %",
        "mean z²",
        "mean z",
        "intervals",
        "gain by sharing",
        "borrowed",
        "worth",
    ]
    pairs = sorted(zip(audit.calibration.stations, audit.transfer.stations, strict=True), key=_urgency)
    rows = [("", _row(*pair)) for pair in pairs[:_ROWS]]
    more = len(pairs) - _ROWS
    return table(head, rows) + (note(f"{more:,} stations more are in the JSON of the command.") if more > 0 else "")


def _urgency(pair: tuple[Calibrated, Transferred]) -> tuple[bool, bool, float]:
    """Sort by flags, then by how little the widths fit."""
    station, sharing = pair
    flagged = station.verdict != FITS or bool(station.drift)
    return sharing.verdict != HURTS, not flagged, min(station.p_spread, station.p_bias)


def _row(station: Calibrated, sharing: Transferred) -> list[str]:
    if not station.rewards:
        return [escape(station.name), "0", *["–"] * 7]
    inside = station.coverage[0.8]
    verdict = escape(", ".join(filter(None, [station.verdict, station.drift])))
    gain = "–"
    if sharing.rewards:
        said = "" if sharing.verdict == EVEN else f" <b>{escape(sharing.verdict)}</b>"
        gain = f"{_interval(sharing.gain, f'+.{sharing.gain.decimals(2)}f')}{said}"
    return [
        escape(station.name),
        f"{station.rewards:,}",
        cell(f"{100 * inside.value:.0f} %", f"{100 * (inside.low or 0):.0f} to {100 * (inside.high or 1):.0f}"),
        _interval(station.spread, ".2f"),
        _interval(station.bias, "+.2f"),
        verdict if verdict == FITS else f"<b>{verdict}</b>",
        gain,
        "–" if sharing.borrowed is None else f"{100 * sharing.borrowed:.0f} %",
        "–" if sharing.worth is None else f"{sharing.worth:,.1f}",
    ]


def _interval(found: Interval, spec: str) -> str:
    if found.low is None or found.high is None:
        return typeset(f"{found.value:{spec}}")
    return cell(typeset(f"{found.value:{spec}}"), typeset(f"{found.low:{spec}} to {found.high:{spec}}"))


def _glossary() -> str:
    terms = {
        "z": "A reward less its prediction, in standard deviations: the width when asking, and the noise.",
        "Mean z²": "1 if widths and noise are right. 4 means that intervals are half as wide as they should be.",
        "Gain by sharing": "How much likelier each reward was under the shared model than under the same model on the "
        "station's own rows, both as of the decision: the mean of the log of that ratio (nats). +0.1 is 10 % likelier.",
        "Borrowed": "The share of the weights of an estimate that lies on other stations' rewards, in the latest "
        "decisions.",
        "Worth": "How many rewards of its own, in the same state, would have narrowed the estimate as much.",
    }
    return "<dl>" + "".join(f"<dt>{escape(t)}</dt><dd>{escape(text)}</dd>" for t, text in terms.items()) + "</dl>"
