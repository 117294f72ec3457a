"""What of the ledger is worth telling, and messages made of it.

Everything that one transaction recorded about one topic is one notice: all that a round leaves for a person to approve,
or all changes that the network is to make. A notice follows from the events alone, its id too, so that whoever reads
them again tells the same. A message holds the notices of a while.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Any

from kinband.service.dashboard.text import Space, knobs, sentence
from kinband.service.ledger import Event

READ = ("verdict", "approval", "order", "applied", "switch", "rails", "proposal")
"""Kinds of events that are looked at."""
MOST_CHANGES = 1_000
"""Changes that a notice lists; how many there are beyond, it says."""
MOST_NOTICES = 50
"""Notices of a message; further ones are in the next."""
_LINES = 20  # changes that a mail lists of a notice

_ONE_MANY = {
    "approvals": ("{} change waits for approval", "{} changes wait for approval"),
    "orders": ("{} change is to be made in the network", "{} changes are to be made in the network"),
    "failed": ("{} change could not be made in the network", "{} changes could not be made in the network"),
    "expired": ("{} approved change has expired", "{} approved changes have expired"),
    "roll-backs": ("{} change was taken back by the guard", "{} changes were taken back by the guard"),
}


@dataclass(frozen=True)
class Notice:
    """Something worth telling.

    Attributes:
        id: The same whenever it is told.
        topic: What it is about; one of `settings.TOPICS`.
        at: When it happened.
        text: What, in a sentence.
        seq: The last event it is made of; 0 where it comes from none.
        changes: The changes it is about, as JSON-able values.
        more: How many changes there are beyond those.
    """

    id: str
    topic: str
    at: str
    text: str
    seq: int = 0
    changes: tuple[Mapping[str, Any], ...] = ()
    more: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return it as a message holds it."""
        said: dict[str, Any] = {"id": self.id, "topic": self.topic, "at": self.at, "text": self.text}
        if self.changes:
            said |= {"changes": list(self.changes), "more": self.more}
        return said


def id_of(*parts: str) -> str:
    """Return an id that follows from what it is of."""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:24]


def notices_of(events: Iterable[Event], space: Space) -> Iterator[Notice]:
    """Give what is worth telling of events, in their order.

    Args:
        events: Those of the kinds `READ`, in order; whole transactions.
        space: Configurations by arm.
    """
    for at, recorded in groupby(events, key=lambda event: event.at):
        together = list(recorded)
        found: dict[str, list[tuple[Event, Mapping[str, Any]]]] = {}
        for event in together:
            for topic, change in _told(event, event.payload, space):
                found.setdefault(topic, []).append((event, change))
        for topic, pairs in found.items():
            first, changes = pairs[0][0], [change for _, change in pairs if change]
            text = _counted(topic, changes) if changes else " ".join(sentence(event, space) for event, _ in pairs[:3])
            yield Notice(
                id_of(topic, first.checksum), topic, at, text, together[-1].seq,
                tuple(changes[:MOST_CHANGES]), max(len(changes) - MOST_CHANGES, 0),
            )  # fmt: skip


def _told(event: Event, said: Mapping[str, Any], space: Space) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Give the topics of an event, with the change that it is about."""
    if said.get("status") in ("ordered", "failed", "expired") and event.kind in ("verdict", "approval", "order"):
        yield from _ordered(event, said, space)
        return
    match event.kind:
        case "verdict" if said["status"] == "waiting":
            verdict = said["verdict"]
            change = _change(event, verdict["running"], verdict["arm"], space)
            yield "approvals", change | ({"gain": said["gain"]} if "gain" in said else {})
        case "applied" if said["by"] != "network" and not said.get("reported") and said["arm"] != said["before"]:
            change = _change(event, said["before"], said["arm"], space) | {"by": said["by"]}
            yield "orders", change
            if said["by"] == "roll-back":
                yield "roll-backs", change
        case "switch" if said["event"]["event"] in ("stopped", "resumed"):
            yield "stop", {}
        case "switch" if said["event"]["event"] == "clockset":
            yield "clock", {}
        case "proposal":
            yield "approvals", {}
        case "rails" if said.get("by") == "person":
            yield "rails", {}


def _ordered(event: Event, said: Mapping[str, Any], space: Space) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Give the topics of a change that the network manager is to make, or that came to nothing after its approval."""
    verdict = said.get("verdict") or {}
    change = _change(event, verdict.get("running"), verdict.get("arm"), space)
    change |= {name: said[name] for name in ("until", "comment") if said.get(name)}
    if said["status"] in ("failed", "expired"):
        yield said["status"], change
        return
    yield "orders", change
    if verdict.get("outcome") == "rolled back":
        yield "roll-backs", change


def _change(event: Event, before: int | None, arm: int | None, space: Space) -> dict[str, Any]:
    was, to = (None if one is None else space(one) for one in (before, arm))
    return {
        "decision": event.decision,
        "station": event.station,
        "from": None if was is None else dict(was),
        "to": None if to is None else dict(to),
    }


def _counted(topic: str, changes: Sequence[Mapping[str, Any]]) -> str:
    one, many = _ONE_MANY[topic]
    text = (one if len(changes) == 1 else many).format(f"{len(changes):,}")
    why = {change["comment"] for change in changes if topic == "expired" and change.get("comment")}
    text = f"{text} ({why.pop()})" if len(why) == 1 else text
    named = ", ".join(str(change["station"]) for change in changes[:3])
    return f"{text}: {named}{f' and {len(changes) - 3:,} more' if len(changes) > 3 else ''}."


# --- Messages -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Message:
    """What is sent: the notices of a while.

    Attributes:
        id: The same whenever it is sent.
        at: When it was made.
        subject: All of it in a line.
        notices: What it tells, as JSON-able values.
        held: What is to be said of it where it was held back; empty where it was not.
        link: Address of the dashboard; empty for none.
    """

    id: str
    at: str
    subject: str
    notices: tuple[Mapping[str, Any], ...]
    held: str = ""
    link: str = ""

    @classmethod
    def of(cls, target: str, notices: Sequence[Notice], *, at: datetime, held: str = "", link: str = "") -> "Message":
        """Return the message that tells a target some notices."""
        if len(notices) == 1:
            subject = notices[0].text
        else:
            topics = Counter(one.topic for one in notices)
            subject = f"{len(notices)} notices: " + ", ".join(f"{count} {name}" for name, count in topics.items())
        ids = id_of(target, *(one.id for one in notices))
        told = tuple(one.to_dict() for one in notices)
        return cls(f"kbm_{ids}", at.isoformat(timespec="seconds"), subject.rstrip("."), told, held, link)

    @classmethod
    def read(cls, stored: Mapping[str, Any]) -> "Message":
        """Return a message that `stored` described."""
        return cls(**{**stored, "notices": tuple(stored["notices"])})

    def stored(self) -> dict[str, Any]:
        """Return it as JSON-able values."""
        return {**vars(self), "notices": list(self.notices)}

    @property
    def body(self) -> bytes:
        """What a webhook gets, as JSON."""
        return json.dumps({**self.stored(), "kinband": 1}, separators=(",", ":"), sort_keys=True).encode()

    @property
    def text(self) -> str:
        """What a mail says."""
        parts = [self.held, *map(_in_words, self.notices), self.link and f"The dashboard: {self.link}/"]
        return "\n\n".join(part for part in parts if part) + f"\n\nmessage {self.id}\n"


def _in_words(notice: Mapping[str, Any]) -> str:
    changes = notice.get("changes", ())
    lines = [f"{notice['at'][:16].replace('T', ' ')} UTC: {notice['text']}"]
    lines += [f"  {one['station']}: {_move(one)}" for one in changes[:_LINES]]
    beyond = len(changes) - _LINES + notice.get("more", 0)
    return "\n".join(lines + ([f"  and {beyond:,} more"] if beyond > 0 else []))


def _move(change: Mapping[str, Any]) -> str:
    """Return what a change is; of one that came to nothing, why, as its event does not say the rest."""
    known = change["from"] is not None or change["to"] is not None
    return f"{knobs(change['from'])} -> {knobs(change['to'])}" if known else str(change.get("comment", "not known"))
