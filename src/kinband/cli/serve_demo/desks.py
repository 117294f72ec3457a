"""Two ways from the manager of a demonstration to the service: in the same process, and over HTTP.

The hours before the service opens are played in the process, which is quick. From then on everything takes the way of a
real network manager: requests with a token of its own, sent by the client that anybody can use.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING

from kinband.cli.serve_demo.manager import Seen
from kinband.errors import ConflictError, NotFoundError
from kinband.space import ConfigurationSpace

if TYPE_CHECKING:
    from kinband.service.client import Decision, KinbandClient
    from kinband.service.operations import Item, Operations

_ACTOR = "network-manager"


class DirectDesk:
    """Asks operations in the same process.

    Args:
        operations: Whom to ask.
    """

    def __init__(self, operations: "Operations") -> None:
        self._operations = operations

    def stations(self) -> list[str]:
        """Return who is decided for."""
        with self._operations.looking() as picture:
            return [card.station for card in picture.cards.values() if card.active]

    def ask(self, states: Mapping[str, Mapping[str, float]], *, slot: str) -> list[Seen]:
        """Ask for a round of decisions."""
        return [_of_item(item) for item in self._operations.ask(states, slot=slot, actor=_ACTOR)]

    def look(self, ids: Iterable[str]) -> list[Seen]:
        """Return decisions as they stand."""
        with self._operations.looking() as picture:
            return [_of_item(picture.item(decision)) for decision in ids]

    def tell(self, rewards: Mapping[str, float]) -> None:
        """Report rewards by decision, all or nothing."""
        self._operations.tell(rewards, actor=_ACTOR)

    def correct(self, decision: str, reward: float) -> None:
        """Put a reward right."""
        self._operations.correct(decision, reward, actor=_ACTOR)

    def call_off(self, decision: str) -> None:
        """Say that no reward will come."""
        self._operations.call_off(decision, actor=_ACTOR)


class HttpDesk:
    """Asks a service over HTTP.

    Args:
        client: How to reach it.
        space: What stations can run.
    """

    def __init__(self, client: "KinbandClient", space: ConfigurationSpace) -> None:
        self._client, self._space = client, space

    def stations(self) -> list[str]:
        """Return who is decided for."""
        return [found.station for found in self._client.stations() if found.active]

    def ask(self, states: Mapping[str, Mapping[str, float]], *, slot: str) -> list[Seen]:
        """Ask for a round of decisions."""
        with _refusals():
            return [self._of(made) for made in self._client.ask(states, slot=slot)]

    def look(self, ids: Iterable[str]) -> list[Seen]:
        """Return decisions as they stand: the latest ones from one list, others one by one."""
        wanted = list(ids)
        listed = self._client.decisions(page=max(1, min(len(wanted), 500)))
        latest = {made.id: made for made in islice(listed, len(wanted))}
        return [self._of(latest.get(key) or self._client.decision(key)) for key in wanted]

    def tell(self, rewards: Mapping[str, float]) -> None:
        """Report rewards by decision, all or nothing."""
        with _refusals():
            self._client.tell(rewards)

    def correct(self, decision: str, reward: float) -> None:
        """Put a reward right."""
        with _refusals():
            self._client.correct(decision, reward)

    def call_off(self, decision: str) -> None:
        """Say that no reward will come."""
        with _refusals():
            self._client.call_off(decision)

    def _of(self, made: "Decision") -> Seen:
        arm = None if made.run is None else self._space.index(made.run)
        return Seen(made.id, made.station, arm, made.run != made.before, made.status == "waiting", made.open)


def _of_item(item: "Item") -> Seen:
    return Seen(item.id, item.station, item.arm, item.arm != item.running, item.status == "waiting", item.open)


@contextmanager
def _refusals() -> Iterator[None]:
    """Turn refusals of the service into the errors that they were inside of it."""
    from kinband.service.client import ServiceError

    try:
        yield
    except ServiceError as error:
        if error.status in (404, 409):
            raise (NotFoundError if error.status == 404 else ConflictError)(error.detail) from error
        raise
