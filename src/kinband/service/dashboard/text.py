"""What pages say: figures, times, configurations, addresses, and events as sentences.

A figure that is not known is a dash; times are UTC. A sentence says who did what to which station, when is said beside
it: it is made from the event's payload, and what a payload does not hold is left out, since an audit log must be able
to show what it does not understand.
"""

import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any
from urllib.parse import urlencode

from markupsafe import Markup, escape

from kinband.service.ledger import Event
from kinband.service.paths import written
from kinband.stats import counted

# --- Figures, times and configurations ------------------------------------------------------------------------------

DASH = "–"
"""What is shown of what is not known."""
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def figure(value: float | None, digits: int = 3) -> str:
    """Return a number for people: so many decimals, fewer where it is large.

    Example:
        >>> figure(0.85312), figure(-12.3456), figure(12345.6), figure(None), figure(float("nan"))
        ('0.853', '−12.35', '12,346', '–', '–')
    """
    if value is None or not math.isfinite(value):
        return DASH
    size = abs(value)
    decimals = digits if size < 10 else max(digits - 1, 0) if size < 100 else max(digits - 2, 0) if size < 1000 else 0
    text = f"{value:,.{decimals}f}"
    return text.replace("-", "−") if _counts(text) else text.lstrip("-")


def _counts(text: str) -> bool:
    """Whether a figure is known and anything but noughts."""
    return text.strip(f"-0.,{DASH}") != ""


def signed(value: float | None, digits: int = 3) -> str:
    """Return a difference, with its sign.

    Example:
        >>> signed(0.0214), signed(-0.0214), signed(0.0), signed(None)
        ('+0.021', '−0.021', '0.000', '–')
    """
    text = figure(value, digits)
    return f"+{text}" if value is not None and value > 0 and _counts(text) else text


def interval(low: float | None, high: float | None) -> str:
    """Return an interval of differences, such as "−0.010 to +0.032"."""
    return f"{signed(low)} to {signed(high)}"


def share(value: float | None) -> str:
    """Return a share in per cent.

    Example:
        >>> share(0.634), share(0.004), share(None)
        ('63 %', 'under 1 %', '–')
    """
    if value is None or not math.isfinite(value):
        return DASH
    return "under 1 %" if 0 < value < 0.005 else f"{100 * value:.0f} %"


def knobs(configuration: Mapping[str, Any] | None) -> str:
    """Return a configuration in words.

    Example:
        >>> knobs({"threshold_dbm": -98, "scheduler": "pf"}), knobs(None)
        ('threshold_dbm −98, scheduler pf', 'not known')
    """
    if configuration is None:
        return "not known"
    return ", ".join(f"{name} {value_text(value)}" for name, value in configuration.items())


def value_text(value: object) -> str:
    """Return the value of a knob.

    Example:
        >>> value_text(-98), value_text(2.5), value_text("rr-1"), value_text(True)
        ('−98', '2.5', 'rr-1', 'on')
    """
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:g}".replace("-", "−") if isinstance(value, int | float) else str(value)


@lru_cache(maxsize=4096)
def breakable(text: str) -> Markup:
    """Return a text that may be broken after underscores, as names of knobs have to be on a phone.

    Example:
        >>> print(breakable("handover_threshold −98 <"))
        handover_<wbr>threshold −98 &lt;
    """
    return escape(text).replace("_", Markup("_<wbr>"))


def begun(text: str) -> str:
    """Return a text that begins with a capital letter.

    Example:
        >>> begun("reward"), begun("HO threshold"), begun("")
        ('Reward', 'HO threshold', '')
    """
    return text[:1].upper() + text[1:]


def utc(moment: datetime | str) -> datetime:
    """Return a time as a UTC `datetime`; text is that of an event."""
    found = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
    if found.tzinfo is UTC:
        return found
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


@lru_cache(maxsize=8192)
def time_text(moment: datetime | str | None) -> str:
    """Return a time to the minute.

    Example:
        >>> time_text("2026-11-20T10:00:00Z"), time_text(None)
        ('20 Nov 2026 10:00', '–')
    """
    if moment is None:
        return DASH
    at = utc(moment)
    return f"{at.day} {_MONTHS[at.month - 1]} {at.year} {at.hour:02}:{at.minute:02}"


@lru_cache(maxsize=4096)  # many rows of a table are of one slot
def time_tag(moment: datetime | str | None) -> Markup:
    """Return a time as an element that carries it in full.

    Example:
        >>> print(time_tag("2026-11-20T10:00:00Z"))
        <time datetime="2026-11-20T10:00:00Z" title="20 Nov 2026 10:00:00 UTC">20 Nov 2026 10:00</time>
    """
    if moment is None:
        return escape(DASH)
    at = utc(moment).replace(microsecond=0, tzinfo=None)
    full = Markup('<time datetime="{}Z" title="{}:{:02} UTC">{}</time>')
    return full.format(at.isoformat(), time_text(at), at.second, time_text(at))


def lasting(span: timedelta) -> str:
    """Return how long something lasts, roughly.

    Example:
        >>> lasting(timedelta(minutes=90)), lasting(timedelta(days=3)), lasting(timedelta(seconds=9))
        ('1 hour', '3 days', 'less than a minute')
    """
    seconds = span.total_seconds()
    for size, name in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= size:
            return counted(int(seconds // size), name)
    return "less than a minute"


def ago(age: timedelta) -> str:
    """Return how long ago something was, roughly."""
    return f"{lasting(age)} ago" if age >= timedelta(minutes=1) else "just now"


# --- Addresses of pages ---------------------------------------------------------------------------------------------
#
# How a name stands in a path is told in `service.paths`. Routes take the rest of a decoded path: what forms are sent to
# ends with what they do, so that slashes in names mislead nobody.


def station_url(name: str, action: str = "") -> str:
    """Return the address of a station's page or of an action on it.

    Example:
        >>> station_url("3714"), station_url("a/b", "freeze")
        ('/stations/3714', '/stations/a%2Fb/freeze')
    """
    return f"/stations/{written(name)}" + (f"/{action}" if action else "")


def decision_url(decision_id: str) -> str:
    """Return the address of a decision's page."""
    return f"/decisions/{written(decision_id)}"


def with_query(path: str, **values: object) -> str:
    """Return an address with those values that are there.

    Example:
        >>> with_query("/audit", station="a b", kind="", before=None)
        '/audit?station=a+b'
    """
    given = {key: value for key, value in values.items() if value not in (None, "")}
    return f"{path}?{urlencode(given)}" if given else path


def own_path(given: str) -> str:
    r"""Return where to go after signing in: a path of this service, or the first page for anything else.

    Example:
        >>> own_path("/plan?x=1"), own_path("//evil.example"), own_path("https://evil.example"), own_path("/\\evil")
        ('/plan?x=1', '/', '/', '/')
    """
    good = given.startswith("/") and not given.startswith(("//", "/\\")) and given.isprintable() and "\\" not in given
    return given if good else "/"


# --- What happened, in words: one phrase a status, one sentence an event --------------------------------------------

Space = Callable[[int], Mapping[str, Any] | None]
"""Configurations by arm; None where there is no such arm."""

STATUS_WORDS = {
    "shadow": "recorded only",
    "kept": "no change wanted",
    "waiting": "waits for approval",
    "approved": "approved, waits for its window",
    "ordered": "ordered, not confirmed yet",
    "applied": "carried out",
    "not made": "not made by the network",
    "failed": "could not be carried out",
    "refused": "refused by the guard",
    "rejected": "rejected by a person",
    "rolled back": "rolled back",
    "expired": "expired",
}
"""What became of a decision."""

MODE_WORDS = {
    "shadow": "decisions are recorded, nothing is changed",
    "assist": "a person approves every change",
    "autonomous": "changes are carried out at once, within the guard rails",
}
"""What a mode means."""

KIND_WORDS = {
    "started": "start",
    "decision": "decision",
    "ran": "ran something else",
    "outcome": "outcome",
    "correction": "correction",
    "station": "station",
    "similarity": "similarity",
    "observation": "observation",
    "verdict": "guard's verdict",
    "approval": "approval or rejection",
    "order": "order",
    "manner": "who confirms orders",
    "applied": "change",
    "mode": "mode",
    "switch": "stop or freeze",
    "proposal": "first of two people",
    "rails": "guard rails",
    "names": "names",
    "access": "access",
    "feed": "how counters are read",
    "counters": "counters",
}
"""Kinds of events, as a list to choose from names them."""

BY_WORDS = {
    "controller": "by the controller",
    "operator": "by an operator",
    "roll-back": "rolled back by the guard",
    "network": "by the network manager",
}
"""Who changed a configuration."""

_SENTENCES = {  # by kind, and after a slash by what the payload says; the plain kind is for all else
    "started": "{who} started the ledger",
    "decision": "the controller chose {chosen} for {station}{asked}{expecting}",
    "ran": "{station} runs {entered} in the slot of {decision}",
    "outcome": "{who} reported the reward {reward} of {station} for {decision}",
    "outcome/called-off": "{who} called off decision {decision} of {station}: no reward will come",
    "correction": "{who} corrected the reward of {station} for {decision} to {reward}",
    "station": "the controller noticed that {station} has changed and learns it anew",
    "station/joined": "{who} added station {station}",
    "station/left": "{who} removed station {station}",
    "station/returned": "{who} took station {station} back in",
    "similarity": "the controller estimated anew how alike the stations are{known}",
    "observation": "{who} reported measurements{of}",
    "verdict": "the guard {outcome} {decision} of {station} ({status}){because}",
    "approval": "{who} rejected {decision} of {station}",
    "approval/approved": "{who} approved {decision} of {station}",
    "approval/refused": "{who} approved {decision} of {station}, which the guard refused{because}",
    "order": "the change {decision} of {station} is {status}",
    "order/waiting": "{who} took the approval of {decision} of {station} back",
    "order/rejected": "{who} took the approval of {decision} of {station} back",
    "order/ordered": "the change {decision} of {station} was ordered",
    "order/sent": "{who} began to carry out {decision} of {station}",
    "order/unsent": "{who} left {station} as it was, or found it so, instead of {decision}",
    "order/made": "{who} carried out {decision} of {station}",
    "order/applied": "{who} confirmed {decision} of {station}",
    "order/rolled back": "{who} confirmed the roll-back {decision} of {station}",
    "order/failed": "{who} could not carry out {decision} of {station}",
    "order/refused": "the guard refused {decision} of {station} when it was due",
    "order/expired": "the change {decision} of {station} expired",
    "manner": "{who} had orders count as carried out {when_made}",
    "applied": "{station} was changed{came} to {to}",
    "applied/roll-back": "the guard rolled {station} back{came} to {to}",
    "applied/operator": "{who} rolled {station} back{came} to {to}",
    "applied/network": "{who} reported that {station} went{came} to {to}",
    "applied/taken back": "{who} reported that {station} never changed to {before} and runs {to}",
    "mode": "{who} put {whom} into {mode} mode",
    "switch": "{who} turned a switch",
    "switch/stopped": "{who} stopped everything",
    "switch/resumed": "{who} resumed operation{second}",
    "switch/clockset": "{who} set the clock right, which shows {shown}",
    "switch/frozen": "{who} froze {station}",
    "switch/thawed": "{who} thawed {station}",
    "proposal": "{who} asked for what takes two people",
    "proposal/resume": "{who} wants to resume, which takes a second person",
    "proposal/rails": "{who} wants guard rails {digest} in force, which takes a second person",
    "rails": "{who} put guard rails {digest} in force{second}",
    "rails/lifted": "{who} lifted all guard rails{second}",
    "names": "{who} said what things are called{given}",
    "access": "{who} {action} the token {name}{role}",
    "access/created": "{who} signed in through the identity provider{role}",
    "access/revoked": "{who} signed {name} out",
    "feed": "{who} said how counters are read",
    "counters": "{who} sent counters",
}
_UNKNOWN = "{who} recorded an event of kind {kind}{about}"


def sentence(event: Event, space: Space) -> str:
    """Return an event as one sentence."""
    said = event.payload
    form = _SENTENCES.get(f"{event.kind}/{_variant(event.kind, said)}", _SENTENCES.get(event.kind, _UNKNOWN))
    text = form.format_map(_facts(event, said, space))
    comment = said.get("comment")
    end = f": “{comment}”." if isinstance(comment, str) and comment else "."
    return (f"The {text[4:]}" if text.startswith("the ") else text) + end


def _variant(kind: str, said: Mapping[str, Any]) -> str:
    """Return which of the sentences of its kind an event has."""
    match kind:
        case "outcome" | "station":
            return str(said.get("entry", {}).get("entry"))
        case "switch":
            return str(said.get("event", {}).get("event"))
        case "proposal":
            return str(said.get("act"))
        case "approval":
            return "refused" if said.get("status") == "refused" else "approved" if said.get("approved") else ""
        case "order":
            confirmed = said.get("status") != "applied" or "verdict" not in said
            return str(said.get("status")) if confirmed else "ordered"
        case "applied":
            return "taken back" if said.get("taken_back") else str(said.get("by"))
        case "access":
            return str(said.get("action")) if "subject" in said else ""
        case "rails":
            return "lifted" if not said.get("digest") or str(said.get("text", "")).strip() == "{}" else ""
    return ""


def _facts(event: Event, said: Mapping[str, Any], space: Space) -> dict[str, str]:
    """Return what sentences are made of."""
    who, station = event.actor or "the service", event.station
    entry, verdict = said.get("entry", {}), said.get("verdict") or {}
    reason, own = str(verdict.get("reason", "")).rstrip("."), entry.get("own")
    reward = entry.get("reward") if own in (None, []) else own
    return {
        "who": who,
        "kind": event.kind,
        "station": station,
        "decision": str(event.decision or "the roll-back"),
        "of": f" of {station}" if station else "",
        "about": f" about {station}" if station else "",
        "asked": "" if who == "the service" else f" when {who} asked",
        "chosen": _arm(space, entry.get("arm")) if _known(space, entry) else knobs(entry.get("configuration")),
        "entered": _arm(space, entry.get("arm")),
        "expecting": _expecting(list(entry.get("scores") or ())),
        "reward": figure(reward[0] if isinstance(reward, list) else reward),
        "known": f" from {counted(entry['rows'], 'reward')}" if isinstance(entry.get("rows"), int) else "",
        "outcome": str(verdict.get("outcome", "reviewed")),
        "status": STATUS_WORDS.get(str(said.get("status")), str(said.get("status"))),
        "because": f": {reason}" if reason else "",
        "to": _arm(space, said.get("arm")),
        "before": _arm(space, said.get("before")),
        "came": "" if said.get("before") is None else f" from {_arm(space, said['before'])}",
        "mode": str(said.get("mode")),
        "when_made": "once confirmed" if said.get("manner") == "confirmed" else "at once",
        "whom": _some(said.get("stations")),
        "digest": str(said.get("digest")),
        "second": f", as {said['with']} had asked" if said.get("with") else "",
        "given": _given_names(said.get("names")),
        "action": str(said.get("action", "changed")),
        "name": str(said.get("name", "")),
        "shown": f"{time_text(said.get('event', {}).get('at'))} UTC",
        "role": f" with the role {said['role']}" if said.get("role") else "",
    }


def _known(space: Space, entry: Mapping[str, Any]) -> bool:
    """Whether the space has what was chosen, or the entry does not tell."""
    return not entry.get("configuration") or (isinstance(entry.get("arm"), int) and space(entry["arm"]) is not None)


def _arm(space: Space, arm: object) -> str:
    found = space(arm) if isinstance(arm, int) else None
    return knobs(found) if found is not None else "an unknown configuration" if arm is None else f"configuration {arm}"


def _expecting(scores: list[float | None]) -> str:
    known = len(scores) >= 2 and None not in scores[:2]
    return f", expecting {figure(scores[0])} ± {figure(scores[1])}" if known else ""


def _given_names(names: Mapping[str, list[str]] | None) -> str:
    known = [f"{key} is {', '.join(filter(None, one))}" for key, one in (names or {}).items()]
    return f": {'; '.join(known)}" if known else ""


def _some(stations: list[str] | None) -> str:
    if stations is None:
        return "all stations"
    shown = ", ".join(stations[:5])
    return shown if len(stations) <= 5 else f"{shown} and {len(stations) - 5:,} more"
