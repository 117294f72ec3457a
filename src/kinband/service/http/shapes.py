"""From records of operations to answers: the one place that knows both."""

from collections.abc import Mapping, Sequence
from typing import Any

from kinband.guard import Rails, Verdict
from kinband.packed import Alternative
from kinband.service import ledger
from kinband.service.http import answers
from kinband.service.operations import Card, Item, Outlook, Picture, Point, RailsOnRecord, Site
from kinband.service.operations.outlooks import expected_gain, foretold
from kinband.space import ConfigurationSpace

SLOTS = 24
"""Slots over which a station's recent reward is averaged."""


class Shaper:
    """Turns records into answers.

    Args:
        space: The configurations that arms are numbers of.

    Example:
        >>> shaper = Shaper(ConfigurationSpace(tilt=[2, 4]))
        >>> shaper.knobs(1), shaper.knobs(None)
        ({'tilt': 4}, None)
    """

    def __init__(self, space: ConfigurationSpace) -> None:
        self.space = space

    def knobs(self, arm: int | None) -> dict[str, Any] | None:
        """Return the configuration of an arm; None where there is none, or where arms have no names."""
        return None if arm is None or not 0 <= arm < len(self.space) else self.space[arm]

    def decision(self, item: Item) -> answers.Decision:
        """Return a decision."""
        return answers.Decision(**self._decision(item))

    def detail(self, item: Item) -> answers.DecisionDetail:
        """Return a decision with what else was considered."""
        others = [self._alternative(other) for other in item.decision.alternatives]
        return answers.DecisionDetail(**self._decision(item), alternatives=others)

    def decisions(self, items: Sequence[Item]) -> answers.Decisions:
        """Return several decisions."""
        return answers.Decisions(decisions=[self.decision(item) for item in items])

    def plan(self, items: Sequence[Item]) -> answers.Plan:
        """Return what waits, with what is expected of it."""
        return answers.Plan(
            decisions=[answers.Planned(**self._decision(item), expected=expected_of(item)) for item in items]
        )

    def station(self, card: Card, picture: Picture, sites: Mapping[str, Site]) -> answers.Station:
        """Return a station as it stands; the picture must be held."""
        site = sites.get(card.station)
        return answers.Station(
            station=card.station,
            mode=card.mode,
            active=card.active,
            running=self.knobs(card.running),
            before=self.knobs(card.before),
            changed=card.changed,
            changed_by=card.changed_by,
            state=None if card.state is None else dict(card.state),
            last=card.last,
            frozen=card.frozen,
            recent=picture.recent(card.station, SLOTS),
            site=None if site is None else answers.Site(x=site.x, y=site.y, azimuth=site.azimuth),
        )

    def outlook(self, outlook: Outlook) -> answers.Outlook:
        """Return what is believed of every configuration."""
        blank = [None] * len(outlook.arms)
        rows = zip(outlook.arms, outlook.configurations, outlook.mean or blank, outlook.width or blank, strict=True)
        options = [
            answers.Option(arm=arm, configuration=dict(configuration), mean=mean, width=width)
            for arm, configuration, mean, width in rows
        ]
        return answers.Outlook(
            station=outlook.station,
            state=dict(outlook.state),
            options=options,
            choice=outlook.choice,
            running=outlook.running,
            lenders=dict(outlook.lenders),
        )

    def point(self, point: Point) -> answers.Point:
        """Return one slot of a station."""
        return answers.Point(
            at=point.at,
            decision=point.decision,
            configuration=self.knobs(point.arm),
            changed=point.changed,
            reward=point.reward,
            baseline=point.baseline,
        )

    def _decision(self, item: Item) -> dict[str, Any]:
        made = item.decision
        return {
            "id": item.id,
            "station": item.station,
            "slot": item.slot,
            "at": item.at,
            "mode": item.mode,
            "status": item.status,
            "chosen": None if made.configuration is None else dict(made.configuration),
            "proposed": self.knobs(item.wanted),
            "before": self.knobs(item.running),
            "run": self.knobs(item.arm),
            "changes": item.changes,
            "open": item.open,
            "mean": made.mean,
            "width": made.width,
            "score": made.ucb,
            "known": made.known,
            "round": made.round,
            "reward": item.reward,
            "called_off": item.called_off,
            "comment": item.comment,
            "actor": item.actor,
            "decided_by": item.decided_by,
            "verdict": None if item.verdict is None else self._verdict(item.verdict),
        }

    def _verdict(self, verdict: Verdict) -> answers.Verdict:
        refusals = [
            answers.Refusal(code=refusal.code, reason=refusal.reason, configuration=self.knobs(refusal.arm))
            for refusal in verdict.refusals
        ]
        return answers.Verdict(outcome=verdict.outcome, reason=verdict.reason, refusals=refusals)

    def _alternative(self, other: Alternative) -> answers.Alternative:
        knobs = None if other.configuration is None else dict(other.configuration)
        return answers.Alternative(
            arm=other.arm, configuration=knobs, mean=other.mean, width=other.width, score=other.ucb
        )


def expected_of(item: Item) -> answers.Expected:
    """Return what was expected of the change that a decision proposes."""
    proposed, proposed_width = foretold(item, item.wanted) or (None, None)
    before, before_width = foretold(item, item.running) or (None, None)
    gain, low, high = expected_gain(item) or (None, None, None)
    return answers.Expected(
        proposed=proposed, proposed_width=proposed_width, before=before, before_width=before_width,
        gain=gain, gain_low=low, gain_high=high,
    )  # fmt: skip


def modes_of(picture: Picture) -> answers.Modes:
    """Return the modes of a network and whether it is stopped; the picture must be held."""
    modes = {name: card.mode for name, card in picture.cards.items() if card.active}
    return answers.Modes(mode=picture.mode, stopped=picture.stopped, stations=modes)


def rails_of(known: RailsOnRecord, rails: Rails) -> answers.Rails:
    """Return the rails in force."""
    return answers.Rails(
        text=known.text,
        digest=known.digest or None,
        at=known.at,
        actor=known.actor,
        comment=known.comment,
        stop=rails.stop,
        frozen={one.station: one.why for one in rails.freeze},
    )


def stopped_by(item: Item) -> answers.RefusedByRails:
    """Return why rails refuse a decision; it must have been reviewed."""
    assert item.verdict is not None  # noqa: S101
    codes, reason = list(item.verdict.codes), item.verdict.reason
    return answers.RefusedByRails(decision=item.id, station=item.station, rails=codes, reason=reason)


def event_of(event: ledger.Event) -> answers.Event:
    """Return an event.

    Example:
        >>> at = "2026-11-20T10:00:00Z"
        >>> event_of(ledger.Event(1, "applied", at, "", "a", "d1", None, None, None, '{"arm": 2}', "")).payload
        {'arm': 2}
    """
    return answers.Event(
        seq=event.seq,
        kind=event.kind,
        at=event.at,
        actor=event.actor,
        station=event.station,
        decision=event.decision,
        slot=event.slot,
        payload=event.payload,
        checksum=event.checksum,
    )
