"""The controller: ask which configuration a station should run, tell what it earned, ask again.

This is where the rooms meet: states and configurations become contexts, a policy chooses among them, the decision is
recorded, and its reward, whenever it comes, teaches the policy. Asking records a pending decision and never changes
what is believed about rewards; only telling does. The journal is the truth and the policy's beliefs are a cache of it:
after saving and loading, or after a replay of the journal, every later decision is the same up to rounding, because ids
are counted, random numbers are keyed by (seed, decision), and beliefs come from one routine in one order.
"""

import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
from numpy.typing import ArrayLike

from kinband.controller.asking import State, decision_from, queries_for, query_for, with_deployed
from kinband.controller.attribution import KnownRows
from kinband.controller.config import ConfigKeywords, ControllerConfig, config_from
from kinband.controller.events import Asked, CalledOff, Entry, Estimated, Left, Told
from kinband.controller.explain import MOST_ROWS, Explanation, explain
from kinband.controller.journal import Journal
from kinband.controller.making import (
    DescriptorsLike,
    Running,
    StateLike,
    cold_setup,
    setup_from_log,
    setup_from_trace,
)
from kinband.controller.memory import Memory
from kinband.controller.setup import Setup
from kinband.controller.stations import CurrentSetup, joining, similarities_of
from kinband.controller.telling import (
    KpiValues,
    checked_others,
    correction,
    ran_instead,
    told_entry,
    told_together,
    with_neighbours,
)
from kinband.drift import timed_state
from kinband.html import table
from kinband.policies import Policy, PolicyFactory
from kinband.policies.base import check_choice, choose_round
from kinband.records import Choice, Decision, Observation, Query, Samples
from kinband.similarity import TaskMatrix
from kinband.space import Allowed, ConfigurationSpace
from kinband.trace import Trace

if TYPE_CHECKING:
    from pandas import DataFrame

    from kinband.cluster import OnRay

_log = logging.getLogger(__name__)


class Controller:
    """Decides for many stations, learns from every one of them, and lets similar ones share.

    Args:
        space: The configurations to choose from.
        stations: Station names.
        state: State features: names, names with their expected (low, high), or a fitted scaler.
        features: Names of the columns of context rows, to be asked with `contexts=` instead of states.
        log: Rows that the beliefs start from.
        running: What runs today: one configuration for all stations, or configurations by station.
        descriptors: What is known of stations, by station: position, land use, antenna. Stations that join later start
            from those they resemble (docs/learning.md).
        on: The Ray cluster on which shards learn, `kinband.cluster.OnRay(...)`; by default they do so in this process.
        config: How it works.
        given: Settings by name, such as `similarity=`, `kernel=`, `noise=`, `policy=`, `beta=`, `safety=`, `drift=`,
            `seed=`: all fields of `ControllerConfig`, which describes them. They count before those of `config`.

    Example:
        >>> space = ConfigurationSpace(threshold_dbm=range(-100, -90))
        >>> controller = Controller(space, stations=["a", "b"], state=["load"], similarity=[[1, 0.9], [0.9, 1]])
        >>> decision = controller.ask("a", {"load": 0.3})
        >>> controller.tell(decision.id, reward=0.8)
        >>> len(controller), controller.pending
        (1, [])
    """

    def __init__(
        self,
        space: ConfigurationSpace,
        stations: Sequence[str],
        *,
        state: StateLike = (),
        features: Sequence[str] | None = None,
        log: Samples | None = None,
        running: Running = None,
        descriptors: DescriptorsLike = None,
        on: "OnRay | None" = None,
        config: ControllerConfig | None = None,
        **given: Unpack[ConfigKeywords],
    ) -> None:
        setup = cold_setup(
            space, stations, config_from(config, given), state=state, features=features, log=log, running=running,
            descriptors=descriptors, on=on,
        )  # fmt: skip
        self._memory = Memory(setup)

    @classmethod
    def from_trace(
        cls,
        trace: Trace,
        space: ConfigurationSpace | None = None,
        *,
        start: bool = True,
        running: Running = None,
        descriptors: DescriptorsLike = None,
        on: "OnRay | None" = None,
        config: ControllerConfig | None = None,
        **given: Unpack[ConfigKeywords],
    ) -> "Controller":
        """Return a controller that has learned from a log.

        The kernel, the noise and the prior mean are fitted by marginal likelihood where they are not given, the
        similarity is estimated, and unless `start` is False the beliefs start from the rows of the log. What it takes
        where nothing is said, `ControllerConfig` tells.

        Args:
            trace: The log.
            space: The configurations to choose from; by default those of the log.
            start: Whether beliefs start from the rows of the log.
            running: What runs today: one configuration for all stations, or configurations by station.
            descriptors: What is known of stations, by station.
            on: The Ray cluster on which shards learn; None for this process.
            config: How it works.
            given: Settings by name: fields of `ControllerConfig`.

        Example:
            >>> rng = np.random.default_rng(0)
            >>> columns = {"station": ["a", "b"] * 20, "load": rng.random(40), "tilt": rng.integers(0, 4, 40)}
            >>> columns["reward"] = 1.0 - 0.1 * (columns["tilt"] - 2) ** 2
            >>> trace = Trace.from_frame(columns, {"configuration": ["tilt"]})
            >>> controller = Controller.from_trace(trace, ConfigurationSpace(tilt=range(4)), similarity="pooled")
            >>> controller.ask("a", {"load": 0.5}).configuration
            {'tilt': 2}
        """
        about: Any = {"start": start, "running": running, "descriptors": descriptors, "on": on}
        return cls.from_setup(setup_from_trace(trace, space, config_from(config, given), **about))

    @classmethod
    def from_log(
        cls,
        log: Samples,
        space: ConfigurationSpace | None = None,
        *,
        start: bool = True,
        running: Running = None,
        descriptors: DescriptorsLike = None,
        on: "OnRay | None" = None,
        config: ControllerConfig | None = None,
        **given: Unpack[ConfigKeywords],
    ) -> "Controller":
        """Return a controller that has learned from context rows, and is asked with `contexts=`.

        It is `from_trace` for problems whose contexts are made elsewhere, and takes the same but for `neighbours`.

        Args:
            log: The rows: stations, tasks, contexts and rewards, with the names of the columns.
            space: The arms, where they are configurations; by default those that the log numbers.
            start: Whether beliefs start from the rows of the log.
            running: What runs today.
            descriptors: What is known of stations, by station.
            on: The Ray cluster on which shards learn; None for this process.
            config: How it works.
            given: Settings by name: fields of `ControllerConfig`.

        Example:
            >>> from kinband.environments import SyntheticBandit
            >>> bandit = SyntheticBandit(arm_feature=True, seed=1)
            >>> controller = Controller.from_log(bandit.log(20, np.random.default_rng(0)), beta=0.5)
            >>> decision = controller.ask("3", contexts=bandit.slot.contexts["3"])
            >>> controller.tell(decision.id, bandit.play({"3": decision.arm})["3"].reward)
            >>> controller.similarity.method, len(controller)
            ('joint', 1)
        """
        about: Any = {"start": start, "running": running, "descriptors": descriptors, "on": on}
        return cls.from_setup(setup_from_log(log, space, config_from(config, given), **about))

    @classmethod
    def from_setup(cls, setup: Setup) -> "Controller":
        """Return a controller with nothing asked yet."""
        controller = cls.__new__(cls)
        controller._memory = Memory(setup)
        return controller

    def __len__(self) -> int:
        """Return how many rewards have been told."""
        return len(self.journal.told)

    def __repr__(self) -> str:
        M, N = len(self.stations), len(self.space)
        size = f"{M} station{'s' * (M != 1)}, {N} configuration{'s' * (N != 1)}"
        return f"Controller({size}, {len(self)} told, {len(self.pending)} pending)"

    def _repr_html_(self) -> str:
        last = {one.decision.station: one.decision for one in self.journal.asked.values()}
        known = {name: (made.configuration, self.journal.reward(made.id)) for name, made in last.items()}
        made = Counter(one.decision.station for one in self.journal.asked.values())
        rows = [(name, made[name], *known.get(name, (None, None))) for name in self.stations]
        return table(["station", "decisions", "last chosen", "reward"], rows, caption=repr(self))

    @property
    def setup(self) -> Setup:
        """What the controller was made with; fixed."""
        return self._memory.setup

    @property
    def journal(self) -> Journal:
        """Everything that was asked, told and changed since."""
        return self._memory.journal

    @property
    def stations(self) -> tuple[str, ...]:
        """The stations decided for, those that joined last; those that have left are not among them."""
        return self._memory.current.active

    @property
    def current(self) -> CurrentSetup:
        """The setup with the stations that have come and gone since: what the journal makes of them."""
        return self._memory.current

    @property
    def space(self) -> ConfigurationSpace:
        """The configurations to choose from."""
        return self.setup.encoder.space

    @property
    def similarity(self) -> TaskMatrix:
        """How much the stations share."""
        estimated = any(isinstance(entry, Estimated) for entry in self.journal.shaping)
        notes: Mapping[str, Any] = {"similarity": "estimated"} if estimated else self.setup.notes
        method, details = str(notes.get("similarity", "given")), notes.get("details", {})
        return TaskMatrix(self.current.stations, self.current.K_Z, method, details).reindex(self.stations)

    @property
    def policy(self) -> Policy:
        """The policy with its current beliefs."""
        return self._memory.policy

    @property
    def pending(self) -> list[str]:
        """Ids of decisions whose reward is still awaited, oldest first."""
        return self.journal.pending

    def ask(
        self,
        station: str,
        state: State | None = None,
        *,
        contexts: ArrayLike | None = None,
        allowed: Allowed = None,
        running: Mapping[str, Any] | None = None,
        time: Any = None,
    ) -> Decision:
        """Decide for one station (Algorithm 2).

        Args:
            station: Whom to decide for.
            state: Its state features by name, measured in the period before.
            contexts: Instead of a state, one feature row per arm, (N, d).
            allowed: Which configurations may be chosen (see `ConfigurationSpace.mask`); all by default.
            running: The configuration that the station runs; by default what ran last (see `ran`): the last one decided
                for it and not called off, else the one declared.
            time: When, for a controller whose clock is set: a number or a date, never before that of the last decision.
        """
        query, clock = self._query(station, state, contexts=contexts, allowed=allowed, running=running, time=time)
        return self._record(query, self._choose(query), station=station, state=timed_state(state, clock), number=None)

    def consider(
        self,
        station: str,
        state: State | None = None,
        *,
        contexts: ArrayLike | None = None,
        allowed: Allowed = None,
        running: Mapping[str, Any] | None = None,
        time: Any = None,
    ) -> Choice:
        """Return what would be decided for one station now; nothing is recorded and nothing changes.

        It comes with mean, std and score of every configuration that the policy weighed: all that are allowed, but
        for policies that drop some before they score, as under floors of KPIs. Arguments are those of `ask`, which,
        called next with the same, decides the same.

        Example:
            >>> controller = Controller(ConfigurationSpace(tilt=[2, 4, 6]), ["a"], mean=0.5, seed=4)
            >>> choice = controller.consider("a", allowed={"tilt": [2, 6]})
            >>> choice.arms, choice.mean, len(controller.journal)
            (array([0, 2]), array([0.5, 0.5]), 0)
            >>> controller.ask("a", allowed={"tilt": [2, 6]}).arm == choice.arm
            True
        """
        query, _ = self._query(station, state, contexts=contexts, allowed=allowed, running=running, time=time)
        return replace(self._choose(query), cache=None)

    def ask_all(
        self,
        states: Mapping[str, State] | None = None,
        *,
        contexts: Mapping[str, ArrayLike] | None = None,
        allowed: Mapping[str, Allowed] | None = None,
        running: Mapping[str, Mapping[str, Any]] | None = None,
        time: Any = None,
    ) -> dict[str, Decision]:
        """Decide for all given stations in one round (Algorithm 1): nobody learns until all have decided.

        Args:
            states: State features by station.
            contexts: Instead of states, one feature row per arm, by station.
            allowed: Which configurations may be chosen, by station; all for stations not named.
            running: The configurations that stations run, by station; see `ask` for those not named.
            time: When; see `ask`.
        """
        clock = self._memory.watch.read(time, self.current, self.journal)
        queries = queries_for(self.current, states=states, contexts=contexts, allowed=allowed, clock=clock)
        queries = self._with_deployed(queries, running)
        choices = self._choose_round(list(queries.values()))
        number = self._memory.rounds  # which noting the first decision moves on, as replay does
        timed = {station: timed_state((states or {}).get(station), clock) for station in queries}
        return {
            station: self._record(query, choice, station=station, state=timed[station], number=number)
            for (station, query), choice in zip(queries.items(), choices, strict=True)
        }

    def tell(
        self,
        decision_id: str,
        reward: float | None = None,
        *,
        noise: float | None = None,
        kpis: KpiValues | None = None,
        others: KpiValues | None = None,
    ) -> None:
        """Report what a decision earned, in any order and after any delay; all or nothing.

        Args:
            decision_id: The decision's id.
            reward: What it earned; left out where the reward is made of KPIs.
            noise: How well the reward was measured, if that is known: its variance, such as p(1−p)/n for a share over n
                users. It comes on top of the controller's own noise.
            kpis: Other KPIs by name, as values or as values with their variance; those not given are not learned.
            others: What neighbours earned in the same slot, by name; for the rest see `controller.telling`.
        """
        told = told_entry(self.journal, self.setup, decision_id, reward=reward, noise=noise, kpis=kpis)
        self._learn_told([told], others=others, alone=True)

    def tell_all(
        self,
        rewards: Mapping[str, float] | None = None,
        *,
        noise: Mapping[str, float] | None = None,
        kpis: Mapping[str, KpiValues] | None = None,
        others: KpiValues | None = None,
    ) -> None:
        """Report what many decisions earned in one slot, by their ids, so that neighbours' rewards come together.

        Args:
            rewards: What they earned; left out where the reward is made of KPIs.
            noise: Variances of those rewards for which they are known.
            kpis: Other KPIs, by decision.
            others: What neighbours earned in this slot that no decision is told for, by name.

        Example:
            >>> from kinband.kpis import NeighbourReward
            >>> space, rule = ConfigurationSpace(tilt=[2, 4]), NeighbourReward({"a": ["b"], "b": ["a"]}, weight=0.5)
            >>> controller = Controller(space, ["a", "b"], neighbours=rule)
            >>> made = controller.ask_all({"a": {}, "b": {}})
            >>> controller.tell_all({made["a"].id: 1.0, made["b"].id: 0.5})
            >>> [one.reward for one in controller.observations()], controller.journal.reward(made["b"].id)
            ([0.75, 0.75], 0.5)
        """
        told = told_together(self.journal, self.setup, rewards=rewards, noise=noise, kpis=kpis)
        self._learn_told(told, others=others, alone=False)

    def correct(self, decision_id: str, reward: float | None = None, *, kpis: KpiValues | None = None) -> None:
        """Replace a reward that was told before, KPIs that came with it, or both."""
        self._memory.apply(correction(self.journal, self.setup, decision_id, reward=reward, kpis=kpis))

    def ran(self, decision_id: str, configuration: Mapping[str, Any]) -> None:
        """Say that the station ran something else than what was decided, before its reward is told.

        The reward is then learned as that of what ran. Said several times, the last counts; naming what was decided
        takes back what was said before.

        Args:
            decision_id: The decision's id.
            configuration: What ran: because guard rails replaced the decision, somebody rejected it, or it was only a
                recommendation.

        Example:
            >>> controller = Controller(ConfigurationSpace(tilt=[2, 4, 6]), ["a"], seed=1)
            >>> decision = controller.ask("a", allowed={"tilt": [2, 4]})
            >>> controller.ran(decision.id, {"tilt": 6})
            >>> controller.tell(decision.id, 0.8)
            >>> [(one.arm, one.reward) for one in controller.observations()]
            [(2, 0.8)]
        """
        made = self.journal, self.setup, self.policy
        entry = ran_instead(*made, decision_id=decision_id, configuration=configuration)
        if entry is not None:
            self._memory.append(entry)

    def call_off(self, decision_id: str) -> None:
        """Say that a reward will not come, so that it is no longer awaited; a late one is still welcome."""
        self.journal.find_untold(decision_id)
        if decision_id in self.journal.pending:
            self._memory.append(CalledOff(decision_id))
            self._memory.drop(decision_id)

    def add_station(
        self,
        name: str,
        descriptors: Mapping[str, Any] | None = None,
        similarity: Mapping[str, float] | None = None,
        *,
        running: Mapping[str, Any] | None = None,
    ) -> dict[str, float]:
        """Take in a station that has no data yet, or one that had left, and return how like the others it is.

        Nothing is learned anew: what is known stays as it is, and the newcomer starts from it.

        Args:
            name: Its name. One that had left comes back with what it knew.
            descriptors: What is known of it; it starts from the stations that resemble it. Without any, it starts from
                the network's average.
            similarity: Instead, its correlation with some stations, by station, each from -1 to 1.
            running: The configuration that it runs today.

        Example:
            >>> sites = {"a": {"x_m": 0}, "b": {"x_m": 50}, "c": {"x_m": 900}}
            >>> alike = [[1, 0.9, 0.2], [0.9, 1, 0.2], [0.2, 0.2, 1]]
            >>> space = ConfigurationSpace(tilt=[2, 4])
            >>> controller = Controller(space, list(sites), similarity=alike, descriptors=sites)
            >>> next(iter(controller.add_station("d", {"x_m": 20}))) in ("a", "b")
            True
            >>> controller.ask("d").station
            'd'
        """
        entry = joining(self.setup, self.current, name, descriptors=descriptors, similarity=similarity, running=running)
        self._memory.apply(entry)
        return similarities_of(self.current, name)

    def remove_station(self, name: str) -> list[str]:
        """Stop deciding for a station, and return the ids of its decisions whose reward is still awaited.

        Its rows stay what others learn from. Decisions that are pending stay so: they ran, their rewards may still be
        told, and are learned from; or call them off.

        Example:
            >>> controller = Controller(ConfigurationSpace(tilt=[2, 4]), ["a", "b"])
            >>> decision = controller.ask("a")
            >>> controller.remove_station("a")
            ['d000001']
            >>> controller.tell("d000001", 0.8)
            >>> controller.ask("a")
            Traceback (most recent call last):
                ...
            kinband.errors.NotFoundError: station 'a' was removed: add_station brings it back with what it knew
        """
        self._memory.append(Left(name))
        awaited = [key for key in self.pending if self.decision(key).station == name]
        if awaited:
            words = "station %s was removed with %d decision(s) pending, %s first: tell their rewards, or call them off"
            _log.warning(words, name, len(awaited), awaited[0])
        return awaited

    def explain(self, decision_id: str, *, most_rows: int = MOST_ROWS, known: KnownRows | None = None) -> Explanation:
        """Return why a decision was made, as of then; whose evidence it rests on is weighed up to so many rows.

        Args:
            decision_id: The decision.
            most_rows: How many rows.
            known: The rows at hand: with these, the closest are weighed where there are more.
        """
        asked, reward = self.journal.find(decision_id), self.journal.reward(decision_id)
        setup = self._memory.current_at(asked)
        return explain(asked, reward=reward, setup=setup, journal=self.journal, most_rows=most_rows, known=known)

    def decision(self, decision_id: str) -> Decision:
        """Return a decision by id."""
        return self.journal.find(decision_id).decision

    def decisions_frame(self) -> "DataFrame":
        """Return all decisions as a pandas data frame, in the order of asking: who, in which state, what ran, rewards.

        Example:
            >>> controller = Controller(ConfigurationSpace(tilt=[2, 4]), ["a"], state=["load"], mean=0.5)
            >>> decision = controller.ask("a", {"load": 0.3})
            >>> controller.tell(decision.id, 0.8)
            >>> controller.decisions_frame()[["id", "station", "load", "tilt", "mean", "std", "reward"]].round(2)
                    id station  load  tilt  mean  std  reward
            0  d000001       a   0.3     4   0.5  1.0     0.8
        """
        return self.journal.frame(self.setup)

    def observations(self) -> list[Observation]:
        """Return everything the policy has learned from, in order: the starting log, then the rewards told."""
        return self._memory.observations()

    def rebuild(self) -> None:
        """Forget all beliefs and learn the log again from the start; every later decision stays the same."""
        self._memory = Memory(self.setup, list(self.journal))

    @classmethod
    def resume(
        cls, setup: Setup, entries: Iterable[Entry], *, beliefs: Mapping[str, Any] | None = None
    ) -> "Controller":
        """Return a controller that goes on where a log ends, with stored beliefs or by learning the log again."""
        controller = cls.__new__(cls)
        controller._memory = Memory(setup, entries, beliefs=beliefs)
        return controller

    def save(self, path: str | Path, *, beliefs: bool = True) -> None:
        """Write setup and log to a folder, without pickle; with `beliefs`, loading need not rebuild them."""
        from kinband.controller.storage import save_controller

        save_controller(self, path, beliefs=beliefs)

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        policy: PolicyFactory | None = None,
        rebuild: bool = False,
        on: "OnRay | None" = None,
    ) -> "Controller":
        """Read a controller from a folder.

        Args:
            path: What `save` wrote.
            policy: The factory of a policy of your own, which cannot be stored.
            rebuild: Whether to learn the log again rather than to take up stored beliefs; the result is the same.
            on: The Ray cluster on which shards learn; None for this process.
        """
        from kinband.controller.storage import load_controller

        return load_controller(path, policy=policy, rebuild=rebuild, on=on)

    def _rng(self, ahead: int) -> np.random.Generator:
        """Return the generator of the next decision, or of one so many after it."""
        return np.random.default_rng([self.setup.config.seed, len(self.journal.asked) + ahead])

    def _with_deployed(self, queries: Mapping[str, Query], running: Mapping[str, Any] | None) -> dict[str, Query]:
        """Say in queries what is deployed, which setup and journal tell."""
        memory = self._memory
        return with_deployed(queries, memory.current, self.journal, memory=memory, running=running)

    def _query(
        self,
        station: str,
        state: State | None,
        *,
        contexts: ArrayLike | None,
        allowed: Allowed,
        running: Mapping[str, Any] | None,
        time: Any,
    ) -> tuple[Query, float | None]:
        """Return the query of one station, and what the clock shows."""
        clock = self._memory.watch.read(time, self.current, self.journal)
        query = query_for(self.current, station, state=state, contexts=contexts, allowed=allowed, clock=clock)
        return self._with_deployed({station: query}, None if running is None else {station: running})[station], clock

    def _choose(self, query: Query) -> Choice:
        return check_choice(self.policy.choose(query, self._rng(0)), query)

    def _choose_round(self, queries: Sequence[Query]) -> list[Choice]:
        rngs = [self._rng(i) for i in range(len(queries))]
        choices = choose_round(self.policy, queries, rngs)
        return [check_choice(choice, query) for choice, query in zip(choices, queries, strict=True)]

    def _record(
        self, query: Query, choice: Choice, *, station: str, state: State | None, number: int | None
    ) -> Decision:
        decision = decision_from(
            choice,
            self.space if len(query.X) == len(self.space) else None,
            decision_id=self.journal.next_id,
            station=station,
            known=self._memory.rows,
            number=number,
        )
        self._memory.append(Asked(decision, query.task, query.X[choice.arm].copy(), state))
        self._memory.keep(decision.id, choice.cache)
        return decision

    def _learn_told(self, told: Sequence[Told], *, others: KpiValues | None, alone: bool) -> None:
        """Learn and note rewards that were told together, with their neighbours' where those count."""
        rule, last = self.setup.config.neighbours, self._memory.last_told
        given = checked_others(others, self.setup)
        gone = self.current.gone
        for one in with_neighbours(told, self.journal, rule, last, others=given, alone=alone, gone=gone):
            self._memory.apply_reward(one)
