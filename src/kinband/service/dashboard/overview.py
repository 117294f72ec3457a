"""The first page: how the network does, on a map and in a few figures; the stop switch and the mode of all stations."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from statistics import fmean
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from kinband.service.dashboard.charts import Line, thinned, time_chart
from kinband.service.dashboard.dashboard import Dashboard, Sent, Text
from kinband.service.dashboard.map import COLOURS, MODE_COLOURS, network_map
from kinband.service.dashboard.rows import SLOTS, look_of, names_of, sites_of
from kinband.service.dashboard.text import figure, signed
from kinband.service.operations import MODES, Operations
from kinband.service.operations.records import checked_mode
from kinband.stats import counted

_WORST = 8


def add_pages(dashboard: Dashboard) -> None:
    """Add the page and what its forms are sent to."""
    operations = dashboard.operations

    @dashboard.router.get("/")
    def first(request: Request, colour: Text = "") -> Response:
        return dashboard.show(request, "overview.html", lambda: overview(operations, colour))

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


def overview(operations: Operations, colour: str) -> dict[str, Any]:
    """Return what the page shows; anything but a known `colour` is the first of them."""
    colour = colour if colour in COLOURS else "reward"
    names, now = names_of(operations), operations.now()
    with operations.looking() as read_model:
        looks = [look_of(state, read_model, names) for state in read_model.stations.values() if state.active]
        gain, fleet = read_model.gain(), read_model.fleet()
        refused, mode = read_model.refused(now.date()), read_model.mode
    known = sorted((look for look in looks if look.recent is not None), key=lambda look: look.recent or 0.0)
    ends = _range([look.recent or 0.0 for look in known])
    modes = Counter(look.mode for look in looks)
    return {
        "colour": colour,
        **network_map(looks, colour, ends=ends, sites=sites_of(operations), now=now),
        "ends": ends if known and colour == "reward" else None,
        "gain": gain,
        "recent": fmean(look.recent or 0.0 for look in known) if known else None,
        "known": len(known),
        "slots": SLOTS,
        "refused": refused,
        "rails_stop": operations.guard.rails.stop,
        "mode": mode,
        "modes": [(name, MODE_COLOURS[name], modes[name]) for name in MODES if modes[name]],
        "frozen": sum(look.frozen is not None for look in looks),
        "stations": len(looks),
        "worst": known[:_WORST],
        "fleet": _fleet_chart(fleet),
        "fleet_words": _fleet_words(fleet),
    }


def _range(known: Sequence[float]) -> tuple[float, float]:
    """Return the ends of the colours: all but the outermost twentieth of the stations lies between them."""
    if not known:
        return 0.0, 1.0
    cut = len(known) // 20
    return known[cut], known[-1 - cut]


# --- Reward over time -----------------------------------------------------------------------------------------------

Fleet = Sequence[tuple[datetime, float, float | None, int]]


def _fleet_chart(fleet: Fleet) -> str:
    times, (reward, fixed) = thinned([at for at, *_ in fleet], [row[1] for row in fleet], [row[2] for row in fleet])
    lines = [Line("fixed, expected", fixed, "two"), Line("reward", reward, "one")]
    return time_chart(times, lines, says=_fleet_words(fleet), height=230)


def _fleet_words(fleet: Fleet) -> str:
    if not fleet:
        return "No reward is known yet."
    gains = [reward - fixed for _, reward, fixed, _ in fleet if fixed is not None]
    span = fleet[-1][0] - fleet[0][0]
    long = counted(span.days, "day") if span.days >= 2 else f"{24 * span.days + round(span.seconds / 3600)} hours"
    words = (
        f"Mean reward of all stations over {counted(len(fleet), 'slot')}, {long}: {figure(fleet[-1][1])} in the last."
    )
    if not gains:
        return words
    return f"{words} On average {signed(fmean(gains))} against what the fixed configuration was expected to earn."
