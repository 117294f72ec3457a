"""The list of stations, and the page of one: what it earned and ran, what is believed of it, whom it borrows from."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from kinband.errors import BadInputError
from kinband.guardrails import Refusal
from kinband.html.svg import around
from kinband.service.dashboard.charts import Belief, Line, Marker, band_chart, thinned, time_chart
from kinband.service.dashboard.dashboard import Dashboard, Sent, Text
from kinband.service.dashboard.decision import evidence_shares
from kinband.service.dashboard.rows import Look, Names, look_of, names_of, row_of, sites_of
from kinband.service.dashboard.text import BY_WORDS, figure, knobs, time_text, value_text, with_query
from kinband.service.operations import MODES, DecisionRecord, Operations
from kinband.service.operations.read_model import ReportedChange
from kinband.service.operations.records import checked_mode
from kinband.service.paths import read
from kinband.stats import counted


def add_pages(dashboard: Dashboard) -> None:
    """Add the list, the page of a station, and what its forms are sent to."""
    operations = dashboard.operations

    @dashboard.router.get("/stations")
    def all_stations(request: Request, q: Text = "", sort: Text = "", down: Text = "", page: int = 1) -> Response:
        def shown() -> dict[str, Any]:
            return stations(operations, q=q, sort=sort, down=down == "1", page=page)

        return dashboard.show(request, "stations.html", shown)

    @dashboard.router.get("/stations/{name:path}")
    def one_station(request: Request, name: str, evidence: Text = "") -> Response:
        asked = evidence == "1"
        return dashboard.show(
            request, "station.html", lambda: station(operations, read(name), evidence=asked), still=asked
        )

    @dashboard.form("/stations/{name:path}/roll-back", role="operator")
    def roll_back(sent: Sent) -> str:
        state = operations.roll_back(sent.station, comment=sent.comment, actor=sent.actor)
        return f"{sent.station} runs {names_of(operations).text(state.running)} again."

    @dashboard.form("/stations/{name:path}/roll-back-anyway", role="admin")
    def roll_back_anyway(sent: Sent) -> str:
        state = operations.roll_back(sent.station, comment=sent.comment, override=True, actor=sent.actor)
        return f"{sent.station} runs {names_of(operations).text(state.running)} again."

    @dashboard.form("/stations/{name:path}/freeze", role="operator")
    def freeze(sent: Sent) -> str:
        operations.freeze(sent.station, why=sent.comment, actor=sent.actor)
        return f"{sent.station} is frozen: nothing changes it until it is thawed."

    @dashboard.form("/stations/{name:path}/thaw", role="operator")
    def thaw(sent: Sent) -> str:
        operations.thaw(sent.station, why=sent.comment, actor=sent.actor)
        return f"{sent.station} may be changed again."

    @dashboard.form("/stations/{name:path}/mode", role="admin")
    def mode(sent: Sent) -> str:
        operations.set_mode(checked_mode(sent.mode), [sent.station], comment=sent.comment, actor=sent.actor)
        return f"{sent.station} is in {sent.mode} mode."


# --- The list: found by name, sorted by any column, a page at a time ------------------------------------------------

COLUMNS = ("name", "reward", "gain", "mode", "runs", "changed")
"""What the list may be sorted by."""
PAGE = 120
"""Stations on a page."""


def stations(operations: Operations, *, q: str, sort: str, down: bool, page: int) -> dict[str, Any]:
    """Return what the list shows.

    Args:
        operations: Where stations are.
        q: Part of a name; empty for all.
        sort: One of `COLUMNS`; anything else is the first.
        down: Whether the largest comes first.
        page: Which page, from 1.
    """
    sort, names, wanted = sort if sort in COLUMNS else COLUMNS[0], names_of(operations), q.casefold()
    with operations.looking() as read_model:
        found = [
            look_of(state, read_model, names)
            for state in read_model.stations.values()
            if wanted in state.station.casefold()
        ]
    ordered = sorted(found, key=lambda look: _key(look, sort), reverse=down)
    pages = max(1, -(-len(ordered) // PAGE))
    page = min(max(page, 1), pages)
    return {
        "q": q,
        "sort": sort,
        "down": down,
        "looks": ordered[(page - 1) * PAGE : page * PAGE],
        "found": len(ordered),
        "page": page,
        "pages": pages,
        "links": {name: _link(q, name, down=sort == name and not down) for name in COLUMNS},
        "before": _link(q, sort, down=down, page=page - 1) if page > 1 else "",
        "after": _link(q, sort, down=down, page=page + 1) if page < pages else "",
    }


def _key(look: Look, sort: str) -> tuple[Any, ...]:
    """Return what a station is sorted by; what is not known comes first, and names decide between equals."""
    values = {
        "name": (),
        "reward": (look.recent is not None, look.recent or 0.0),
        "gain": (look.gain is not None, look.gain or 0.0),
        "mode": (MODES.index(look.mode),),
        "runs": (look.running,),
        "changed": (look.changed is not None, look.changed),
    }
    return *values[sort], look.station


def _link(q: str, sort: str, *, down: bool, page: int = 1) -> str:
    return with_query("/stations", q=q, sort=sort, down="1" if down else None, page=None if page == 1 else page)


# --- The page of a station ------------------------------------------------------------------------------------------

SHOWN = 500
"""Slots on the charts."""
_DECISIONS, _MOST_KNOBS = 20, 4
_LENDERS, _WORTH = 8, 0.005  # how many are shown, and the smallest share
_BEST = 15  # configurations in a list, beside what runs and what would be chosen


def station(operations: Operations, name: str, *, evidence: bool = False) -> dict[str, Any]:
    """Return what the page of a station shows, or refuse where there is none of that name.

    Args:
        operations: Where it is.
        name: The station.
        evidence: Whether to work out whose experience its last decision rested on where that takes long.
    """
    names = names_of(operations)
    with operations.looking() as read_model:
        state = replace(read_model.station(name))  # as it is now: the original goes on changing
        records, changes = read_model.latest(station=name, limit=SHOWN), read_model.changes(name)
        gain, recent = read_model.gain(name), read_model.recent(name)
    points, back = records[::-1], operations.way_back(name)
    shown = {
        "station_state": state,
        "running": names.text(state.running),
        "before": names.text(state.before),
        "fixed": names.text(state.fixed),
        "undoable": state.before is not None and state.before != state.running,
        "back": "" if isinstance(back, Refusal) else names.text(back),
        "held": back.reason if isinstance(back, Refusal) else "",
        "frozen_by_rails": _frozen_by_rails(operations, name),
        "gain": gain,
        "recent": recent,
        "rows": [row_of(record, names, gains=False) for record in records[:_DECISIONS]],
        "site": sites_of(operations).get(name),
        "reward_chart": _reward_chart(points, name),
        "knob_charts": _knob_charts(points, changes, names) if points else [],
        "whose": sorted({change.by for change in changes} & set(BY_WORDS)),
        "still": evidence,
    }
    return shown | _outlook(operations, name, state.last, evidence=evidence)


def _frozen_by_rails(operations: Operations, name: str) -> str | None:
    """Return why the rails freeze a station; None where they do not."""
    rails = operations.guard.rails
    today = operations.now().astimezone(rails.zone).date()
    held = [freeze for freeze in rails.freeze if freeze.station == name and freeze.holds(today)]
    return held[0].why or "it is on the freeze list" if held else None


def _reward_chart(points: Sequence[DecisionRecord], name: str) -> Markup:
    known = [point.reward for point in points if point.reward is not None]
    if not known:
        return Markup("")
    times, (reward, fixed) = thinned(
        [point.at for point in points], [point.reward for point in points], [point.baseline for point in points]
    )
    says = (
        f"Reward of {name} over {counted(len(points), 'slot')}: mean {figure(sum(known) / len(known))}, "
        f"last {figure(known[-1])}, lowest {figure(min(known))}, highest {figure(max(known))}."
    )
    lines = [Line("fixed, expected", fixed, "two"), Line("reward", reward, "one")]
    return time_chart(times, lines, says=says, height=200, span=(points[0].at, points[-1].at))


def _knob_charts(
    points: Sequence[DecisionRecord], changes: Sequence[ReportedChange], names: Names
) -> list[tuple[str, Markup]]:
    """Return a chart for every knob that moved, or for the first where none did, all over the same time."""
    seen, space = {point.arm for point in points if point.arm is not None}, names.space
    moved = [knob for knob in space.knobs if len({space[arm][knob] for arm in seen}) > 1]
    wanted = (moved or list(space.knobs)[:1])[:_MOST_KNOBS] if seen else []
    shown = [change for change in changes if points[0].at <= change.at <= points[-1].at]
    return [(knob, _knob_chart(points, shown, names, knob=knob)) for knob in wanted]


def _knob_chart(
    points: Sequence[DecisionRecord], changes: Sequence[ReportedChange], names: Names, *, knob: str
) -> Markup:
    """Return the chart of a knob; a category stands at its place in the list of values."""
    values = names.space.knobs[knob]
    categorical = list(names.space.knobs).index(knob) in names.space.categorical
    arms = {arm for change in changes for arm in (change.arm, change.before)} | {point.arm for point in points}
    known = {arm: names.configuration(arm) for arm in arms}
    at = {arm: float(values.index(c[knob]) if categorical else c[knob]) for arm, c in known.items() if c is not None}
    moved = [change for change in changes if change.arm in at and at[change.arm] != at.get(change.before)]
    heights = [at.get(point.arm) for point in points]
    kept = [i for i in range(len(points)) if i in (0, len(points) - 1) or heights[i] != heights[i - 1]]
    times, heights = [points[i].at for i in kept], [heights[i] for i in kept]
    last = next((height for height in reversed(heights) if height is not None), None)
    now = "not known" if last is None else value_text(values[int(last)] if categorical else last)
    return time_chart(
        times,
        [Line(knob, heights, "three", steps=True)],
        says=f"{knob} over time: {counted(len(moved), 'change')}, now {now}.",
        span=(points[0].at, points[-1].at),
        markers=[Marker(c.at, c.by, _change_words(c, names), at[c.arm]) for c in moved],
        height=150,
        bounds=None if categorical else around(heights, margin=0.25, least=2.0),
        names=[value_text(value) for value in values] if categorical else (),
    )


def _change_words(change: ReportedChange, names: Names) -> str:
    who = f" ({change.actor})" if change.actor else ""
    came = "" if change.before is None else f" from {names.text(change.before)}"
    by = BY_WORDS.get(change.by, change.by)
    return f"{time_text(change.at)}:{came} to {names.text(change.arm)}, {by}{who}"


def _outlook(operations: Operations, name: str, last: str | None, *, evidence: bool) -> dict[str, Any]:
    """Return what is believed of the station's configurations, or why nothing is."""
    shown: dict[str, Any] = {
        "outlook_chart": "", "beliefs": [], "lenders": [], "own": None, "of": "", "untold": "Not known yet.",
        "offered": False, "no_outlook": "",
    }  # fmt: skip
    try:
        found = operations.outlook(name)
    except BadInputError as error:
        return shown | {"no_outlook": str(error)}
    shown |= evidence_shares(operations, found, last, evidence=evidence)
    shares: Mapping[str, float] = shown.pop("shares")
    shown["own"] = shares.get(name)
    shown["lenders"] = [(each, part) for each, part in shares.items() if each != name and part >= _WORTH][:_LENDERS]
    if found.mean is None or found.std is None:
        return shown | {"no_outlook": "This policy predicts nothing, so that there is nothing to show."}
    space, rows = operations.space, zip(found.arms, found.configurations, found.mean, found.std, strict=True)
    beliefs = [
        Belief(knobs(configuration), mean, std, running=arm == found.running, chosen=arm == found.choice)
        for arm, configuration, mean, std in rows
    ]
    if len(space.knobs) == 1 and not space.categorical and len(beliefs) > 1:
        values = [float(next(iter(configuration.values()))) for configuration in found.configurations]
        placed = sorted((belief._replace(x=x) for belief, x in zip(beliefs, values, strict=True)), key=lambda b: b.x)
        return shown | {"outlook_chart": band_chart(placed, says=_words(placed, name))}
    best = best_first(beliefs)
    scale = around(end for belief in best for end in belief.interval)
    return shown | {"beliefs": best, "scale": scale, "configurations": len(beliefs)}


def best_first(beliefs: Sequence[Belief]) -> list[Belief]:
    """Return the beliefs of the largest means, with what runs and what would be chosen wherever these stand."""
    ranked = sorted(beliefs, key=lambda belief: -belief.mean)
    return [belief for rank, belief in enumerate(ranked) if rank < _BEST or belief.running or belief.chosen]


def _words(beliefs: Sequence[Belief], name: str) -> str:
    best = max(beliefs, key=lambda belief: belief.mean)
    marked = "; ".join(belief.says for belief in beliefs if belief.running or belief.chosen)
    return f"Expected reward of {name} by configuration with its 95 % interval. Highest mean: {best.says}. {marked}."
