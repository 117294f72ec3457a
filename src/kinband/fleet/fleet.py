"""A fleet: shards of stations behind one face."""

from collections.abc import Hashable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, Unpack

from numpy.typing import ArrayLike

from kinband.arrays import positive_number
from kinband.controller import Explanation, Settings
from kinband.controller.asking import State, queries_for, query_for
from kinband.controller.config import ConfigKeywords, ControllerConfig, config_from
from kinband.controller.events import Asked, CalledOff, Corrected, Entry, Told
from kinband.controller.explain import explain
from kinband.controller.settings import StateLike
from kinband.errors import BadInputError, NotFoundError
from kinband.fleet.engine import (
    AheadLog,
    AskOne,
    AskRound,
    Call,
    CallOff,
    Correct,
    Engine,
    FleetError,
    GetReady,
    InProcess,
    ShardLog,
    ShowBeliefs,
    TellMany,
    fleet_id,
    split_id,
)
from kinband.fleet.saving import folder_of, load_logs, save_logs
from kinband.fleet.shards import Shards, declared_settings, settings_of_trace
from kinband.policies import PolicyFactory
from kinband.records import Decision, Samples
from kinband.similarity.matrix import check_stations
from kinband.space import Allowed, ConfigurationSpace
from kinband.trace import Trace

# --- The books of a fleet: the log of every shard, the engine that works on them, and how the two stay together -----
#
# A call on many shards is carried out by the engine, then recorded: on disk first, where the fleet is kept, then in
# the logs. When anything fails before that, nothing is recorded, and the engine puts the shards concerned back to
# their logs before they are used again. Recording itself is not interrupted half-way, not even by Ctrl-C.


class Books:
    """Keeps the logs and has calls carried out.

    Args:
        logs: One per shard.
        on: The engine.

    Example:
        >>> from kinband import ConfigurationSpace, Controller
        >>> from kinband.fleet.engine import InProcess
        >>> log = ShardLog(0, Controller(ConfigurationSpace(tilt=[2, 4]), ["a"]).settings)
        >>> Books([log], InProcess()).home("a")
        0
    """

    def __init__(self, logs: Sequence[ShardLog], on: Engine) -> None:
        if not logs:
            raise BadInputError("a fleet needs at least one shard")
        self.stations = check_stations([name for log in logs for name in log.settings.stations])
        self.logs = logs
        self._shard_of = {name: log.shard for log in logs for name in log.settings.stations}
        self._on, self._open = on, True
        self._ahead: AheadLog | None = None
        on.open(logs)
        try:
            on.run({log.shard: GetReady() for log in logs})  # what cannot work fails here, not tonight
        except BaseException:
            on.close()
            raise

    def home(self, station: str) -> int:
        """Return the shard of a station."""
        try:
            return self._shard_of[station]
        except (KeyError, TypeError):
            raise NotFoundError(f"unknown station {station!r}: this fleet runs {len(self._shard_of)} others") from None

    def find(self, decision_id: str, *, standing: str = "find") -> tuple[ShardLog, Asked]:
        """Return a decision and the log it stands in; `standing` is the journal's check of it."""
        shard, local = split_id(decision_id)
        if shard >= len(self.logs):
            raise NotFoundError(f"no decision has the id {decision_id!r}: there are {len(self.logs)} shards")
        return self.logs[shard], self.logs[shard].find(local, standing=standing)

    def carry_out(self, calls: Mapping[int, Call]) -> dict[int, list[Any]]:
        """Run calls and record the entries they answer with; all or nothing."""
        self._check_open()
        try:
            answers = self._on.run(calls)
            with ThreadPoolExecutor(1) as scribe:  # Ctrl-C reaches the main thread only, which waits for the scribe
                scribe.submit(self._record, answers).result()
        except BaseException:
            # After Ctrl-C while recording the entries count and the shards have them: putting back changes nothing.
            self._on.forget(calls, learned=any(call.learns for call in calls.values()))
            raise
        return answers

    def beliefs(self, shard: int) -> Mapping[str, Any] | None:
        """Return what a shard believes, as plain arrays."""
        self._check_open()
        shown: Mapping[str, Any] | None = self._on.run({shard: ShowBeliefs()})[shard]
        return shown

    def keep(self, folder: Path) -> None:
        """Write every call to a saved fleet before it is answered."""
        self._ahead = AheadLog(folder)

    def saved(self, folder: Path) -> None:
        """Begin a new log where the fleet is kept, after it was saved there."""
        if self._ahead is not None and self._ahead.folder == folder:
            self.keep(folder)

    def close(self) -> None:
        """Let the engine go; the logs stay."""
        self._open = False
        self._on.close()

    def _record(self, answers: Mapping[int, Sequence[Entry]]) -> None:
        if self._ahead is not None:
            self._ahead.write(answers)
        for shard, entries in answers.items():
            self.logs[shard].add(entries)

    def _check_open(self) -> None:
        if not self._open:
            raise FleetError("this fleet has been closed: load it again to go on")


# --- A fleet: many controllers behind the words of one --------------------------------------------------------------
#
# A country has more stations than one posterior can hold. A fleet splits them into shards of stations that resemble
# each other, gives each shard a controller of its own, and routes every question and every reward to the right one.
# Shards run inside this process, or on the machines of a Ray cluster; the decisions are the same.
#
# The fleet keeps the log of every shard. A call on many shards happens as a whole or not at all: entries are added to
# the logs when every shard has answered, and with `keep` they are on disk before the caller gets them. When anything
# fails in between, the shards concerned are rebuilt from their logs before they are used again.


class Fleet:
    """Decides for very many stations: one controller per shard, the words of one controller.

    Args:
        space: The configurations to choose from.
        shards: Which stations learn together (see `shard_stations` and `shard_blocks`).
        state: State features: names, names with their expected (low, high), or a fitted scaler.
        features: Names of the columns of context rows, to be asked with `contexts=` instead of states.
        log: Rows of all stations that beliefs start from.
        on: Where shards run: `InProcess()`, the default, or `OnRay(...)`.
        config: How its controllers work.
        given: Settings by name: fields of `ControllerConfig`.

    Example:
        >>> import numpy as np
        >>> from kinband.fleet import shard_stations
        >>> shards = shard_stations(np.eye(3), stations=["a", "b", "c"], size=2)
        >>> fleet = Fleet(ConfigurationSpace(tilt=[2, 4, 6]), shards, state=["load"], seed=1)
        >>> decisions = fleet.ask_all({name: {"load": 0.3} for name in fleet.stations})
        >>> decisions["c"].id
        's001-d000001'
        >>> fleet.tell_all({decision.id: 0.5 for decision in decisions.values()})
        >>> fleet
        Fleet(3 stations in 2 shards, 3 configurations, 3 told, 0 pending)
    """

    def __init__(
        self,
        space: ConfigurationSpace,
        shards: Shards,
        *,
        state: StateLike = (),
        features: Sequence[str] | None = None,
        log: Samples | None = None,
        on: Engine | None = None,
        config: ControllerConfig | None = None,
        **given: Unpack[ConfigKeywords],
    ) -> None:
        config = config_from(config, given)
        settings = declared_settings(space, shards, config, state=state, features=features, log=log)
        self._begin([ShardLog(shard, made) for shard, made in enumerate(settings)], lost=shards.lost, on=on)

    @classmethod
    def from_trace(
        cls,
        trace: Trace,
        space: ConfigurationSpace | None = None,
        *,
        size: int = 100,
        blocks: Mapping[str, Hashable] | None = None,
        start: bool = True,
        on: Engine | None = None,
        config: ControllerConfig | None = None,
        **given: Unpack[ConfigKeywords],
    ) -> "Fleet":
        """Return a fleet that has learned from a log: a model per block, then shards by the similarity found.

        Args:
            trace: What stations ran and what it earned.
            space: The configurations to choose from; by default those of the trace.
            size: The most stations of a shard.
            blocks: Region, vendor or band of every station: similarity is measured inside a block only, which a log of
                more than a few thousand stations needs. None takes all stations as one block.
            start: Whether beliefs start from the rows of the log.
            on: Where shards run.
            config: How its controllers work; without a similarity it is "embedding", found once per block.
            given: Settings by name: fields of `ControllerConfig`.

        Example:
            >>> import numpy as np
            >>> rng = np.random.default_rng(0)
            >>> columns = {"station": ["a", "b", "c"] * 20, "load": rng.random(60), "tilt": rng.integers(0, 4, 60)}
            >>> columns["reward"] = 1.0 - 0.1 * (columns["tilt"] - 2) ** 2
            >>> trace = Trace.from_frame(columns, {"configuration": ["tilt"]})
            >>> fleet = Fleet.from_trace(trace, size=2, similarity="independent")
            >>> fleet.shards
            (('a', 'b'), ('c',))
            >>> fleet.ask("c", {"load": 0.5}).configuration
            {'tilt': 2}
        """
        config = config_from(config, given)
        settings, shards = settings_of_trace(trace, space, config, blocks=blocks, size=size, start=start)
        return cls.from_settings(settings, lost=shards.lost if blocks is None else None, on=on)

    @classmethod
    def from_settings(
        cls, settings: Sequence[Settings], *, lost: float | None = None, on: Engine | None = None
    ) -> "Fleet":
        """Return a fleet with one shard per set of settings and nothing asked yet."""
        fleet = cls.__new__(cls)
        fleet._begin([ShardLog(shard, made) for shard, made in enumerate(settings)], lost=lost, on=on)
        return fleet

    def __len__(self) -> int:
        """Return how many rewards have been told."""
        return sum(len(log.journal.told) for log in self._books.logs)

    def __repr__(self) -> str:
        size = f"{len(self.stations)} stations in {len(self.shards)} shards, {len(self.space)} configurations"
        return f"Fleet({size}, {len(self)} told, {len(self.pending)} pending)"

    def __enter__(self) -> "Fleet":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def stations(self) -> tuple[str, ...]:
        """The stations decided for, shard by shard."""
        return self._books.stations

    @property
    def shards(self) -> tuple[tuple[str, ...], ...]:
        """The stations of every shard."""
        return tuple(log.settings.stations for log in self._books.logs)

    @property
    def space(self) -> ConfigurationSpace:
        """The configurations to choose from."""
        return self._settings(0).encoder.space

    @property
    def pending(self) -> list[str]:
        """Ids of decisions whose reward is still awaited, shard by shard, oldest first."""
        return [fleet_id(log.shard, local) for log in self._books.logs for local in log.journal.pending]

    def ask(
        self,
        station: str,
        state: State | None = None,
        *,
        contexts: ArrayLike | None = None,
        allowed: Allowed = None,
    ) -> Decision:
        """Decide for one station; the arguments are those of `Controller.ask`."""
        shard = self._books.home(station)
        query_for(self._settings(shard), station, state=state, contexts=contexts, allowed=allowed)
        asked = self._books.carry_out({shard: AskOne(station, state, contexts, allowed)})[shard][0]
        return self._books.logs[shard].named(asked)

    def ask_all(
        self,
        states: Mapping[str, State] | None = None,
        *,
        contexts: Mapping[str, ArrayLike] | None = None,
        allowed: Mapping[str, Allowed] | None = None,
    ) -> dict[str, Decision]:
        """Decide for all given stations in one round; the arguments are those of `Controller.ask_all`.

        All shards decide or none does. The round's number in a decision counts the rounds of its shard.
        """
        stations = _asked_for(states, contexts, allowed)
        parts: dict[int, list[str]] = {}
        for station in stations:
            parts.setdefault(self._books.home(station), []).append(station)
        calls: dict[int, Call] = {
            shard: AskRound(_of(states, names), _of(contexts, names), _of(allowed, names))
            for shard, names in parts.items()
        }
        for shard, call in calls.items():  # a state that lacks a feature is noticed before any shard has decided
            queries_for(self._settings(shard), **vars(call))
        answers = self._books.carry_out(calls)
        decided = {
            asked.decision.station: self._books.logs[shard].named(asked) for shard in calls for asked in answers[shard]
        }
        return {station: decided[station] for station in stations}

    def tell(self, decision_id: str, reward: float, *, noise: float | None = None) -> None:
        """Report what a decision earned, in any order and after any delay."""
        self.tell_all({decision_id: reward}, noise=None if noise is None else {decision_id: noise})

    def tell_all(self, rewards: Mapping[str, float], *, noise: Mapping[str, float] | None = None) -> None:
        """Report what many decisions earned, by their ids; all or nothing.

        Args:
            rewards: What they earned.
            noise: How well each was measured, where that is known: the variance of the reward.
        """
        if not isinstance(rewards, Mapping) or not (noise is None or isinstance(noise, Mapping)):
            raise BadInputError("rewards and noise must be given by decision id, as mappings")
        if unknown := set(noise or {}) - set(rewards):
            raise BadInputError(f"noise names decisions that have no reward here: {', '.join(sorted(unknown))}")
        told: dict[int, list[Told]] = {}
        for decision_id, reward in rewards.items():
            log, asked = self._books.find(decision_id, standing="find_untold")
            known = (noise or {}).get(decision_id)
            variance = None if known is None else positive_number(known, name="noise")
            value = log.settings.check_reward(reward)
            told.setdefault(log.shard, []).append(Told(asked.decision.id, value, variance))
        if told:
            self._books.carry_out({shard: TellMany(tuple(many)) for shard, many in told.items()})

    def correct(self, decision_id: str, reward: float) -> None:
        """Replace a reward that was told before."""
        log, asked = self._books.find(decision_id, standing="find_told")
        corrected = Corrected(asked.decision.id, log.settings.check_reward(reward))
        self._books.carry_out({log.shard: Correct(corrected)})

    def call_off(self, decision_id: str) -> None:
        """Say that a reward will not come, so that it is no longer awaited; a late one is still welcome."""
        log, asked = self._books.find(decision_id, standing="find_untold")
        if asked.decision.id in log.journal.pending:
            self._books.carry_out({log.shard: CallOff(CalledOff(asked.decision.id))})

    def explain(self, decision_id: str) -> Explanation:
        """Return why a decision was made, as of then, and whose evidence of its shard it rests on."""
        log, asked = self._books.find(decision_id)
        reward = log.journal.reward(asked.decision.id)
        reason = explain(asked, reward=reward, settings=log.settings, journal=log.journal)
        return replace(reason, id=decision_id, decision=log.named(asked))

    def decision(self, decision_id: str) -> Decision:
        """Return a decision by id."""
        log, asked = self._books.find(decision_id)
        return log.named(asked)

    def reward(self, decision_id: str) -> float | None:
        """Return the reward of a decision as it stands, None while it is awaited."""
        log, asked = self._books.find(decision_id)
        return log.journal.reward(asked.decision.id)

    def save(self, path: str | PathLike[str], *, beliefs: bool = True) -> None:
        """Write all shards to a folder, without pickle; the old state there stays until the new one is complete.

        Args:
            path: The folder; every shard in it is a saved controller.
            beliefs: Whether to store them too, so that loading need not learn anew. Without, no worker is needed: a
                fleet whose cluster is gone can still be saved.
        """
        folder = folder_of(path)
        save_logs(self._books.logs, folder, beliefs=self._books.beliefs if beliefs else None, lost=self.lost)
        self._books.saved(folder)

    def keep(self, path: str | PathLike[str], *, beliefs: bool = True) -> None:
        """Save, and from now on write every decision and reward to the same folder before the caller gets it."""
        self.save(path, beliefs=beliefs)
        self._books.keep(folder_of(path))

    @classmethod
    def load(
        cls,
        path: str | PathLike[str],
        *,
        policy: PolicyFactory | None = None,
        rebuild: bool = False,
        keep: bool = False,
        on: Engine | None = None,
    ) -> "Fleet":
        """Read a fleet from a folder, with everything that `keep` wrote since it was saved.

        Args:
            path: What `save` or `keep` wrote.
            policy: The factory of a policy of your own, which cannot be stored.
            rebuild: Whether to learn the logs anew rather than to take up stored beliefs; the result is the same.
            keep: Whether to go on writing every decision and reward to the folder.
            on: Where shards run.
        """
        folder = folder_of(path)
        logs, lost = load_logs(folder, policy=policy, rebuild=rebuild)
        fleet = cls.__new__(cls)
        fleet._begin(logs, lost=lost, on=on)
        if keep:
            fleet._books.keep(folder)
        return fleet

    def close(self) -> None:
        """Let go of workers and cluster; what is on record can still be read and saved without beliefs."""
        self._books.close()

    def _begin(self, logs: Sequence[ShardLog], *, lost: float | None, on: Engine | None) -> None:
        self._books = Books(logs, InProcess() if on is None else on)
        self.lost = lost
        """The share of likeness that lies between shards, None where it was not measured."""

    def _settings(self, shard: int) -> Settings:
        return self._books.logs[shard].settings


def _asked_for(
    states: Mapping[str, State] | None,
    contexts: Mapping[str, ArrayLike] | None,
    allowed: Mapping[str, Allowed] | None,
) -> list[str]:
    """Return the stations of a round, after what can only be checked for all shards together."""
    if (states is None) == (contexts is None):
        raise BadInputError("ask_all takes either states or contexts, by station")
    for name, given in (("states", states), ("contexts", contexts), ("allowed", allowed)):
        if given is not None and not isinstance(given, Mapping):
            raise BadInputError(f"{name} must be given by station, as a mapping, got {type(given).__name__}")
    stations = list(states if states is not None else contexts or {})
    if not stations:
        raise BadInputError("ask_all was asked for no station")
    if unknown := set(allowed or {}) - set(stations):
        raise BadInputError(f"allowed names stations that are not asked for: {', '.join(sorted(unknown))}")
    return stations


def _of(given: Mapping[str, Any] | None, names: Sequence[str]) -> dict[str, Any] | None:
    return None if given is None else {name: given[name] for name in names if name in given}
