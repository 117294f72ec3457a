"""The first page: how the network does, on a map and in a few figures; the stop switch and the mode of all stations."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from heapq import nlargest, nsmallest
from operator import itemgetter
from statistics import fmean
from typing import Annotated, Any

from fastapi import Depends
from starlette.requests import Request
from starlette.responses import Response

from kinband.service.dashboard.charts import Line, thinned, time_chart
from kinband.service.dashboard.chosen import Filters, Range, range_kept
from kinband.service.dashboard.dashboard import Dashboard, Sent, Text
from kinband.service.dashboard.map import COLOURS, MODE_COLOURS, network_map
from kinband.service.dashboard.map_view import View
from kinband.service.dashboard.rows import SLOTS, names_of, sites_of
from kinband.service.dashboard.text import figure, signed, with_query
from kinband.service.operations import MODES
from kinband.service.operations.records import KEPT_SLOTS, checked_mode
from kinband.stats import counted

_SHOWN = 6


def add_pages(dashboard: Dashboard) -> None:
    """Add the page and what its forms are sent to."""
    operations = dashboard.operations

    @dashboard.router.get("/")
    def first(
        request: Request,
        filters: Annotated[Filters, Depends()],
        chosen: Annotated[Range, Depends()],
        view: Annotated[View, Depends()],
        colour: Text = "",
    ) -> Response:
        return dashboard.show(
            request, "overview.html", lambda: overview(dashboard, colour, filters=filters, chosen=chosen, view=view)
        )

    @dashboard.form("/mode", role="admin", back="/")
    def mode(sent: Sent) -> str:
        operations.set_mode(checked_mode(sent.mode), comment=sent.comment, actor=sent.actor)
        return f"All stations are in {sent.mode} mode, and so will be those that join."

    @dashboard.form("/stop", role="operator", back="/")
    def stop(sent: Sent) -> str:
        operations.stop(why=sent.comment, actor=sent.actor)
        return "Everything is stopped: no station is changed until somebody resumes."

    @dashboard.form("/resume", role="operator", back="/")
    def resume(sent: Sent) -> str:
        operations.resume(why=sent.comment, actor=sent.actor)
        if operations.proposed("resume") is not None:
            return "On record, and still stopped: another person has to resume, too."
        return "Stations may be changed again."

    @dashboard.form("/clock", role="admin", back="/")
    def clock(sent: Sent) -> str:
        operations.set_clock(why=sent.comment, actor=sent.actor)
        return "The clock is right: stations may be changed again."


def overview(dashboard: Dashboard, colour: str, *, filters: Filters, chosen: Range, view: View) -> dict[str, Any]:
    """Return what the page shows.

    Args:
        dashboard: What is shown.
        colour: What the map is coloured by; anything but one of `COLOURS` is the first of them.
        filters: Which stations.
        chosen: Over which time charts go.
        view: What is seen of the map.
    """
    operations = dashboard.operations
    colour = colour if colour in COLOURS else "reward"
    names, now = names_of(operations), operations.now()
    ends, groups = chosen.ends(now), dashboard.groups.of(operations)
    everybody = [look for look in dashboard.looks.of(operations, names) if look.active]
    looks = filters.fit(everybody, groups)
    with operations.looking() as read_model:
        gain, fleet = read_model.gain(), read_model.fleet(KEPT_SLOTS, since=ends.start, until=ends.end)
        refused, mode = read_model.refused(now.date()), read_model.mode
    known = [(look.recent, look) for look in looks if look.recent is not None]
    ramp_ends = _range(sorted(look.recent for look in everybody if look.recent is not None))
    modes = Counter(look.mode for look in looks)
    hopes = [(look.hope.gain, look) for look in looks if look.hope is not None]
    kept, words = range_kept(chosen), _fleet_words(fleet, names.kpi.name, ranged=chosen.name != "all")
    here = {**filters.values, **kept, "colour": "" if colour == "reward" else colour}
    seen = asdict(view) if view.zoom > 1 or view.at else {}
    drawn = network_map(
        everybody,
        colour,
        ends=ramp_ends,
        sites=sites_of(operations),
        now=now,
        view=view,
        wanted={look.station for look in looks},
        names=names,
        kept=with_query("", **kept),
    )
    return {
        "colour": colour,
        "colour_links": {name: with_query("/", **{**here, **seen, "colour": name}) + "#map" for name in COLOURS},
        **drawn,
        "view": view,
        "view_links": drawn["brought"].links("/", **here),
        "here": here,
        "times": chosen.shown("/", **filters.values, colour=here["colour"]),
        "filters": filters.shown("/", groups, **kept, colour=here["colour"]),
        "ends": ramp_ends if known and colour == "reward" else None,
        "gain": gain,
        "recent": fmean(recent for recent, _ in known) if known else None,
        "known": len(known),
        "slots": SLOTS,
        "refused": refused,
        "rails_stop": operations.guard.rails.stop,
        "mode": mode,
        "modes": [(name, MODE_COLOURS[name], modes[name]) for name in MODES if modes[name]],
        "frozen": sum(bool(look.frozen_by) for look in looks),
        "stations": len(looks),
        "everybody": len(everybody),
        "worst": [look for _, look in nsmallest(_SHOWN, known, key=itemgetter(0))],
        "hopes": [look for _, look in nlargest(_SHOWN, hopes, key=itemgetter(0))],
        "fleet": _fleet_chart(fleet, names.kpi.name, says=words),
        "fleet_words": words,
    }


def _range(known: Sequence[float]) -> tuple[float, float]:
    """Return the ends of the colours: all but the outermost twentieth of the stations lies between them."""
    if not known:
        return 0.0, 1.0
    cut = len(known) // 20
    low, high = known[cut], known[-1 - cut]
    digits = 2 - math.floor(math.log10(high - low)) if high > low else 6  # a thousandth of the span cannot be seen
    return round(low, digits), round(high, digits)


# --- Reward over time -----------------------------------------------------------------------------------------------

Fleet = Sequence[tuple[datetime, float, float | None, int]]


def _fleet_chart(fleet: Fleet, kpi: str, *, says: str) -> str:
    times, (reward, fixed) = thinned([at for at, *_ in fleet], [row[1] for row in fleet], [row[2] for row in fleet])
    lines = [Line("fixed, expected", fixed, "two"), Line(kpi, reward, "one")]
    return time_chart(times, lines, says=says, height=230)


def _fleet_words(fleet: Fleet, kpi: str, *, ranged: bool = False) -> str:
    if not fleet:
        return "No reward is known of that time." if ranged else "No reward is known yet."
    gains = [reward - fixed for _, reward, fixed, _ in fleet if fixed is not None]
    span = fleet[-1][0] - fleet[0][0]
    long = counted(span.days, "day") if span.days >= 2 else f"{24 * span.days + round(span.seconds / 3600)} hours"
    words = (
        f"Mean {kpi} of all stations over {counted(len(fleet), 'slot')}, {long}: {figure(fleet[-1][1])} in the last."
    )
    if not gains:
        return words
    return f"{words} On average {signed(fmean(gains))} against what the fixed configuration was expected to earn."
