"""Clients of a service that ask and tell at once, come again until they are answered, and remember what they heard.

And the witness: an undisturbed `Operations` in this process that is given the calls on record in their order, with the
time that is on record. Its own record must be the same, event by event and character by character, whatever happened to
the processes that made the first one.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from tests.golden.record import same
from tests.support.service_process import Options, open_operations

from kinband.records import TOLERANCE
from kinband.service.api.requests import OutcomeBody
from kinband.service.api.routes import by_decision
from kinband.service.ledger import Event, Ledger, replay
from kinband.service.ledger.events import check_chain


@dataclass(frozen=True)
class Sent:
    """What was sent under a key, and by whom."""

    path: str
    body: dict[str, Any]
    actor: str


@dataclass(frozen=True)
class Later:
    """An answer that says: later; to whom, what, and after how many seconds it came."""

    who: int
    status: int
    body: dict[str, Any]
    headers: httpx.Headers
    seconds: float


@dataclass
class Heard:
    """What a crowd has sent and heard; threads share it.

    Attributes:
        sent: By key, as it is on record: with the name of who used it.
        decisions: Id by station and slot, as answered.
        rewards: By decision, as acknowledged.
        told: Decisions of which it was answered that they had been told before.
        conflicts: Keys of calls that were answered so.
        later: Answers that said: later.
        answers: How many answers came, by status.
        broken: How many requests were under way when the connection broke.
        shut: How many found nobody to talk to.
    """

    sent: dict[str, Sent] = field(default_factory=dict)
    decisions: dict[tuple[str, str], str] = field(default_factory=dict)
    rewards: dict[str, float] = field(default_factory=dict)
    told: set[str] = field(default_factory=set)
    conflicts: set[str] = field(default_factory=set)
    later: list[Later] = field(default_factory=list)
    answers: Counter[int] = field(default_factory=Counter)
    broken: int = 0
    shut: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def copy(self) -> "Heard":
        """Return what was heard until now."""
        with self.lock:
            return Heard({}, dict(self.decisions), dict(self.rewards), set(self.told), set(self.conflicts))

    @property
    def acknowledged(self) -> int:
        """How many decisions and rewards were acknowledged."""
        with self.lock:
            return len(self.decisions) + len(self.rewards)

    @property
    def good(self) -> int:
        """How many calls were acknowledged, new or once more."""
        return self.answers[200] + self.answers[201]


class Crowd:
    """Threads that ask for the same slots and tell what came of it, each until it is answered.

    Args:
        bases: Where each client goes, now; their number is that of the clients.
        tokens: Texts of tokens by name; clients share them in turn.
        options: Of the service.
        seed: Draws who asks for whom.
        pause: Seconds between two calls of a client, on average.
        name: Begins the names of slots and keys.
    """

    def __init__(
        self,
        bases: Sequence[Callable[[], str]],
        tokens: dict[str, str],
        options: Options,
        *,
        seed: int,
        pause: float = 0.02,
        name: str = "s",
    ) -> None:
        self.heard = Heard()
        self._bases, self._tokens, self._options = bases, list(tokens.items()), options
        self._seed, self._pause, self._name = seed, pause, name
        self._over = threading.Event()
        self._front = 0
        self._errors: list[BaseException] = []
        self._threads = [threading.Thread(target=self._live, args=(i,)) for i in range(len(bases))]

    def __enter__(self) -> "Crowd":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(timeout=60)

    def end(self) -> None:
        """Let everybody finish the call under way, and pass on what went wrong."""
        self.__exit__()
        assert not any(thread.is_alive() for thread in self._threads)
        self.check()

    def check(self) -> None:
        """Pass on what went wrong in a thread."""
        if self._errors:
            raise self._errors[0]

    def wait_for(self, more: int, *, seconds: float = 60.0) -> None:
        """Wait until so many more calls were acknowledged, and at least one that was new."""
        wanted, known, until = self.heard.good + more, self.heard.acknowledged, time.monotonic() + seconds
        while self.heard.good < wanted or self.heard.acknowledged == known:
            self.check()
            assert time.monotonic() < until, f"{more} acknowledgements did not come in {seconds} s"
            time.sleep(0.002)

    def _live(self, who: int) -> None:
        try:
            with httpx.Client(timeout=30) as http:
                slot = 0
                while not self._over.is_set():
                    self._hour(http, who, slot)
                    with self.heard.lock:
                        self._front = max(self._front, slot)
                        slot = max(slot + 1, self._front - 2)  # who is late catches up: they ask for the same slots
        except BaseException as error:
            self._errors.append(error)
            self._over.set()

    def _hour(self, http: httpx.Client, who: int, number: int) -> None:
        """Ask for some stations, and tell what they earned; now and then say the same twice."""
        rng, slot = np.random.default_rng([self._seed, who, number]), f"{self._name}{number}"
        names = self._options.names
        wanted = [name for name in names if rng.random() < 0.7] or [names[number % len(names)]]
        body = {"slot": slot, "states": {name: {"load": load_of(slot, name)} for name in wanted}}
        answer = self._told(http, who, "/v1/decisions", body, f"ask-{slot}-{who}")
        if answer is None:
            return
        assert answer.status_code in (200, 201), answer.text
        made = {(item["station"], slot): item for item in answer.json()["decisions"]}
        self._remember_decisions(made)
        if rng.random() < 0.2:
            again = self._told(http, who, "/v1/decisions", body, f"ask-{slot}-{who}")
            if again is not None:
                assert again.status_code == 200, again.text
                self._remember_decisions({(d["station"], slot): d for d in again.json()["decisions"]})
        time.sleep(float(rng.uniform(0, 2 * self._pause)))
        if rng.random() < 2 / len(self._bases):  # so that most are told, some by several
            rewards = {item["id"]: reward_of(item["id"], item["run"]["tilt"]) for item in made.values()}
            self._tell(http, who, rewards, twice=bool(rng.random() < 0.2))
            time.sleep(float(rng.uniform(0, 2 * self._pause)))

    def _remember_decisions(self, made: dict[tuple[str, str], Any]) -> None:
        with self.heard.lock:
            for where, item in made.items():
                assert self.heard.decisions.setdefault(where, item["id"]) == item["id"], f"{where} was decided twice"

    def _tell(self, http: httpx.Client, who: int, rewards: dict[str, float], *, twice: bool) -> None:
        """Tell rewards together; one by one where somebody else has told some of them."""
        outcomes = [{"decision": name, "reward": reward} for name, reward in rewards.items()]
        key = f"tell-{self._name}{who}-{'-'.join(rewards)}"
        answer = self._told(http, who, "/v1/outcomes", {"outcomes": outcomes}, key)
        if answer is not None and answer.status_code == 200 and twice:
            answer = self._told(http, who, "/v1/outcomes", {"outcomes": outcomes}, key)
        if answer is None:
            return
        if answer.status_code == 409:
            assert "already" in answer.json()["detail"], answer.text
            with self.heard.lock:
                self.heard.conflicts.add(f"{self._tokens[who % len(self._tokens)][0]}: {key}")
                self.heard.told |= rewards.keys() if len(rewards) == 1 else set()
            if len(rewards) > 1:
                for name, reward in rewards.items():
                    self._tell(http, who, {name: reward}, twice=False)
            return
        assert answer.status_code == 200, answer.text
        with self.heard.lock:
            for item in answer.json()["decisions"]:
                assert item["reward"] == rewards[item["id"]]
                self.heard.rewards[item["id"]] = item["reward"]

    def _told(self, http: httpx.Client, who: int, path: str, body: dict[str, Any], key: str) -> httpx.Response | None:
        """Send until there is an answer other than "later"; None where it is over before."""
        actor, token = self._tokens[who % len(self._tokens)]
        headers = {"Authorization": f"Bearer {token}", "Idempotency-Key": key}
        with self.heard.lock:
            self.heard.sent[f"{actor}: {key}"] = Sent(path, body, actor)
        while True:
            began = time.monotonic()
            try:
                answer = http.post(f"{self._bases[who]()}{path}", json=body, headers=headers)
            except httpx.ConnectError:
                self.heard.shut += 1
            except httpx.TransportError:
                self.heard.broken += 1
            else:
                with self.heard.lock:
                    self.heard.answers[answer.status_code] += 1
                    if answer.status_code != 503:
                        return answer
                    seconds = time.monotonic() - began
                    self.heard.later.append(Later(who, 503, answer.json(), answer.headers, seconds))
            if self._over.is_set():
                return None
            time.sleep(0.03)


def load_of(slot: str, station: str) -> float:
    """What a station measures in a slot."""
    return float(np.random.default_rng([3, *slot.encode(), *station.encode()]).random())


def reward_of(decision: str, tilt: int) -> float:
    """What a tilt earns in the slot of a decision."""
    return 0.8 - 0.01 * (tilt - 6) ** 2 + 0.1 * float(np.random.default_rng([5, *decision.encode()]).normal())


def check_once(ledger: Ledger, heard: Heard) -> int:
    """Check that all that was acknowledged is on record once, and return how many events there are."""
    events = list(ledger.read())
    assert check_chain(events)[0] == len(events)
    decided = Counter((event.station, event.slot) for event in events if event.kind == "decision")
    outcomes = Counter(event.decision for event in events if event.kind == "outcome")
    keys = Counter(event.key for event in events if event.key is not None)
    for counted in (decided, outcomes, keys):
        assert all(number == 1 for number in counted.values()), [what for what, n in counted.items() if n > 1]
    ids = {(event.station, event.slot): event.decision for event in events if event.kind == "decision"}
    assert {where: ids.get(where) for where in heard.decisions} == heard.decisions
    rewards = {str(e.decision): e.payload["entry"]["reward"] for e in events if e.kind == "outcome"}
    assert {decision: rewards.get(decision) for decision in heard.rewards} == heard.rewards
    assert heard.told <= rewards.keys()
    assert not heard.conflicts & keys.keys()  # nobody is told of a conflict with oneself
    return len(events)


def check_replay(ledger: Ledger, *, sample: int, seed: int) -> None:
    """Check that some decisions are decided again as they were."""
    ids = [str(event.decision) for event in ledger.read(kinds=["decision"])]
    for decision in np.random.default_rng(seed).choice(ids, size=min(sample, len(ids)), replace=False):
        assert replay(ledger, str(decision)).same, decision


class Witness:
    """Operations that nobody disturbs, in a ledger of their own.

    Args:
        options: Of the service.
        folder: For the ledger.
    """

    def __init__(self, options: Options, folder: Path) -> None:
        self._now = datetime.now(UTC)
        self._ledger = Ledger.open(folder / "witness.db")
        self._operations = open_operations(self._ledger, options, clock=lambda: self._now)
        self._seen = self._mine = 0

    def follow(self, ledger: Ledger, sent: dict[str, Sent]) -> None:
        """Do what is on record since the last time, and check that it leads to the same record."""
        events = [event for event in ledger.read(after=self._seen) if event.kind != "access"]
        times = {event.decision: event.payload["at"] for event in events if event.kind == "verdict"}
        for event in events:
            if event.key is not None:
                one = sent[event.key]
                self._repeat(one, event.key.removeprefix(f"{one.actor}: "), at=times.get(event.decision))
        mine = list(self._ledger.read(after=self._mine))
        assert same(list(map(_said, mine)), list(map(_said, events)), tolerance=TOLERANCE) == []
        if events:
            self._seen, self._mine = events[-1].seq, mine[-1].seq

    def _repeat(self, sent: Sent, key: str, *, at: str | None) -> None:
        if at is not None:
            self._now = datetime.fromisoformat(at)
        if sent.path == "/v1/decisions":
            self._operations.ask(sent.body["states"], slot=sent.body["slot"], key=key, actor=sent.actor)
        else:
            said = by_decision([OutcomeBody(**outcome) for outcome in sent.body["outcomes"]])
            self._operations.tell(**said, key=key, actor=sent.actor)

    def close(self) -> None:
        """Give back the ledger."""
        self._ledger.close()


def _said(event: Event) -> list[Any]:
    """All that an event says, but when, and what it is chained to."""
    return [event.kind, event.actor, event.station, event.decision, event.round, event.slot, event.key, event.payload]
