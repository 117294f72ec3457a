"""What is believed of a station's configurations now, and whose evidence that rests on."""

from datetime import UTC, datetime
from typing import Any

from kinband.arrays import FloatArray
from kinband.changes.borrowing import beliefs_of, borrowed
from kinband.controller import Controller
from kinband.drift import CLOCK
from kinband.errors import BadInputError, KinbandError
from kinband.posterior import AnyPosterior
from kinband.records import Choice
from kinband.service.operations.records import Card, Outlook
from kinband.similarity import TaskMatrix

_LISTED = 8  # lenders
MOST_ROWS = 1_000
"""Beyond how many rewards nobody waits for who lent what unless they ask: it is weighed anew after every event."""
_GROWTH = 1.25  # by how much the rewards known may grow before beliefs that were learned anew are too old


class Lending:
    """Beliefs with their rows, to tell who lent what; where rows are not kept, those of a little while ago serve.

    Example:
        >>> from kinband import ConfigurationSpace
        >>> len(Lending().beliefs(Controller(ConfigurationSpace(tilt=[2, 4]), ["a"])))
        0
    """

    def __init__(self) -> None:
        self._known: tuple[int, int, AnyPosterior] | None = None  # rewards and tasks at that time

    def beliefs(self, controller: Controller) -> AnyPosterior:
        """Return beliefs that keep their rows."""
        if controller.settings.engine != "sparse":
            return beliefs_of(controller)
        told, tasks = len(controller), len(controller.in_force.stations)
        if self._known is None or self._known[1] != tasks or told > _GROWTH * self._known[0] + 1:
            self._known = told, tasks, beliefs_of(controller)
        return self._known[2]


def outlook_of(controller: Controller, card: Card, lending: Lending | None = None) -> Outlook:
    """Return the outlook of a station in the state that it was last asked with.

    Example:
        >>> from kinband import ConfigurationSpace
        >>> controller = Controller(ConfigurationSpace(tilt=[2, 4]), ["a"], mean=0.5)
        >>> outlook_of(controller, Card("a", "shadow", running=1, state={})).mean
        (0.5, 0.5)
    """
    if card.state is None:
        raise BadInputError(f"{card.station!r} was never asked for, so that nothing is known of its state: ask first")
    if not card.active:
        raise BadInputError(f"{card.station!r} was removed: nothing is decided for it")
    space = controller.space
    running = None if card.running is None else space[card.running]
    choice = controller.consider(card.station, card.state, running=running, time=_time(controller, card))
    return Outlook(
        card.station,
        card.state,
        tuple(choice.arms.tolist()),
        tuple(space[arm] for arm in choice.arms.tolist()),
        _values(choice.mean),
        _values(choice.width),
        choice.arm,
        card.running,
        _lenders(controller, card, choice, lending or Lending()),
    )


def rewards_known(controller: Controller) -> int:
    """Return how many rewards a controller has learned from: those of the log that it began with, and those told."""
    start = controller.settings.start
    return len(controller) + (0 if start is None else len(start))


def _time(controller: Controller, card: Card) -> Any:
    """When it was last asked for, as the controller's clock takes it."""
    drift = controller.settings.drift
    if drift is None or not drift.forgets or card.clock is None or drift.clock == "decisions":
        return None
    return datetime.fromtimestamp(card.clock, UTC) if drift.clock == "dates" else card.clock


def _values(column: FloatArray | None) -> tuple[float, ...] | None:
    return None if column is None else tuple(column.tolist())


def _lenders(controller: Controller, card: Card, choice: Choice, lending: Lending) -> dict[str, float]:
    """Whose evidence the choice rests on; nobody's where that cannot be told, as for policies without a model."""
    if rewards_known(controller) > MOST_ROWS:
        return {}
    try:
        beliefs = lending.beliefs(controller)
        state = dict(card.state or {}) | ({} if card.clock is None else {CLOCK: card.clock})
        x = controller.settings.encoder.contexts(state)[choice.arm]
        present = controller.in_force
        tasks = TaskMatrix(present.stations, present.K_Z, "in force", {})
        found = borrowed(beliefs, present.task(card.station), x=x, similarity=tasks)
    except KinbandError:
        return {}
    ranked = sorted(found.items(), key=lambda pair: -pair[1])
    return {station: share for station, share in ranked[:_LISTED] if share > 0}
