"""What a shard can be asked to do, and the shards that a worker holds.

A call is a frozen record that is applied to a controller and answers with the journal entries it made, so that whoever
keeps the log can add them there. Calls, answers and origins are plain values: they travel between machines. A worker
holds the controllers of some shards; a shard that it does not hold, or that has fallen out of step with its log, comes
with its origin, the settings and the log it is rebuilt from, which gives the same beliefs bit for bit.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

from numpy.typing import ArrayLike

from kinband.controller import Controller, Settings
from kinband.controller.asking import State
from kinband.controller.events import CalledOff, Corrected, Entry, Told
from kinband.errors import KinbandError
from kinband.policies.base import KeepsState
from kinband.space import Allowed


class Call(Protocol):
    """Something to be done by one shard.

    Attributes:
        learns: Whether it changes what the shard believes.
    """

    learns: ClassVar[bool]

    def apply(self, controller: Controller) -> Any:
        """Do it, and return what the caller needs."""


@dataclass(frozen=True, eq=False)
class AskOne:
    """Decide for one station (Algorithm 2)."""

    learns: ClassVar[bool] = False
    station: str
    state: State | None
    contexts: ArrayLike | None
    allowed: Allowed

    def apply(self, controller: Controller) -> list[Entry]:
        """Return the decision as it was recorded."""
        decision = controller.ask(self.station, self.state, contexts=self.contexts, allowed=self.allowed)
        return [controller.journal.find(decision.id)]


@dataclass(frozen=True, eq=False)
class AskRound:
    """Decide for many stations in one round (Algorithm 1)."""

    learns: ClassVar[bool] = False
    states: Mapping[str, State] | None
    contexts: Mapping[str, ArrayLike] | None
    allowed: Mapping[str, Allowed] | None

    def apply(self, controller: Controller) -> list[Entry]:
        """Return the decisions as they were recorded, in the order of the stations asked for."""
        decisions = controller.ask_all(self.states, contexts=self.contexts, allowed=self.allowed)
        return [controller.journal.find(decision.id) for decision in decisions.values()]


@dataclass(frozen=True)
class TellMany:
    """Report what decisions earned, in this order."""

    learns: ClassVar[bool] = True
    rewards: tuple[Told, ...]

    def apply(self, controller: Controller) -> list[Entry]:
        """Return the rewards."""
        for told in self.rewards:
            controller.tell(told.id, told.reward, noise=told.noise)
        return list(self.rewards)


@dataclass(frozen=True)
class Correct:
    """Replace a reward."""

    learns: ClassVar[bool] = True
    corrected: Corrected

    def apply(self, controller: Controller) -> list[Entry]:
        """Return the correction."""
        controller.correct(self.corrected.id, self.corrected.reward)
        return [self.corrected]


@dataclass(frozen=True)
class CallOff:
    """Stop waiting for a reward."""

    learns: ClassVar[bool] = False
    called_off: CalledOff

    def apply(self, controller: Controller) -> list[Entry]:
        """Return the entry."""
        controller.call_off(self.called_off.id)
        return [self.called_off]


@dataclass(frozen=True)
class GetReady:
    """Do nothing but be there: a shard is built when it is first called."""

    learns: ClassVar[bool] = False

    def apply(self, controller: Controller) -> list[Entry]:
        """Return nothing."""
        del controller
        return []


@dataclass(frozen=True)
class ShowBeliefs:
    """Return the beliefs as plain arrays, None where the policy cannot."""

    learns: ClassVar[bool] = False

    def apply(self, controller: Controller) -> dict[str, Any] | None:
        """Return the beliefs."""
        policy = controller.policy
        return policy.state() if isinstance(policy, KeepsState) else None


@dataclass(frozen=True, eq=False)
class Origin:
    """What a shard is built from.

    Attributes:
        settings: Its fixed part.
        entries: Its log.
        beliefs: Stored beliefs that spare learning the first entries anew; None if there are none.
        covered: How many entries the stored beliefs have learned.
        held: Whether the worker's own beliefs about this shard still hold; only its log is then put back.
    """

    settings: Settings
    entries: tuple[Entry, ...]
    beliefs: Mapping[str, Any] | None = None
    covered: int = 0
    held: bool = False

    def controller(self) -> Controller:
        """Return the controller that has learned the log, the same whichever way it is built."""
        later = self.entries[self.covered :]
        if self.beliefs is None or any(isinstance(entry, Corrected) for entry in later):
            return Controller.resume(self.settings, self.entries)
        controller = Controller.resume(self.settings, self.entries, beliefs=self.beliefs)
        if isinstance(controller.policy, KeepsState):  # else everything has been learned anew
            for entry in later:
                if isinstance(entry, Told):
                    controller.policy.learn(controller.journal.observation(entry))
        return controller


class Worker:
    """Holds the controllers of some shards and carries out calls on them.

    Example:
        >>> from kinband import ConfigurationSpace, Controller
        >>> origin = Origin(Controller(ConfigurationSpace(tilt=[2, 4]), ["a"]).settings, ())
        >>> worker = Worker()
        >>> worker.run(0, AskOne("a", None, None, None), origin)[0].decision.id
        'd000001'
    """

    def __init__(self) -> None:
        self._controllers: dict[int, Controller] = {}

    def run(self, shard: int, call: Call, origin: Origin | None) -> Any:
        """Carry out a call on a shard, built from its origin first where one is given."""
        if origin is not None:
            self._controllers[shard] = self._with_beliefs(shard, origin).controller()
        return call.apply(self._controllers[shard])

    def _with_beliefs(self, shard: int, origin: Origin) -> Origin:
        if not origin.held:
            return origin
        beliefs = ShowBeliefs().apply(self._controllers[shard])
        return replace(origin, beliefs=beliefs, covered=len(origin.entries))

    def answer(self, shard: int, call: Call, origin: Origin | None) -> Any:
        """Like `run`, with an error of ours as the answer: it then arrives on another machine as it is."""
        try:
            return self.run(shard, call, origin)
        except KinbandError as error:
            return error
