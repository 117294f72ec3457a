"""Who talks to the services: clients that ask, tell and report for a network, and a person at the stop switch.

Each sends the same again under its key until it is answered, at the other host where one does not answer, and writes
down when it began and what it heard. The network does what it is told as long as an answer is valid, and reports what
runs where an order was overtaken.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import httpx
import numpy as np
from tests.support.pace import Pace
from tests.support.service_crowd import load_of

from benchmarks.soak.history import Log, Operation

TRIES = 400
"""How often the same is sent at most."""


@dataclass
class Network:
    """What stations run, and what was reported of it; threads share it.

    Attributes:
        names: The stations.
        runs: What each runs, as far as it was told.
        reported: What was reported, by decision.
        refused: How often which status was answered.
    """

    names: Sequence[str]
    runs: dict[str, Any] = field(default_factory=dict)
    reported: dict[str, Any] = field(default_factory=dict)
    refused: dict[int, int] = field(default_factory=dict)


class Sender:
    """Sends operations until they are answered.

    Args:
        bases: Gives where the hosts listen now.
        token: The text of its token.
        actor: Its name.
        log: Keeps operations.
        over: Set when it is to end.
    """

    def __init__(
        self, bases: Callable[[], Sequence[str]], token: str, *, actor: str, log: Log, over: threading.Event
    ) -> None:
        self._bases, self._actor, self._log, self._over = bases, actor, log, over
        self._http = httpx.Client(timeout=20, headers={"Authorization": f"Bearer {token}"})
        self.errors: list[str] = []

    def send(
        self,
        what: str,
        path: str,
        *,
        body: Mapping[str, Any],
        key: str,
        host: int,
        method: str = "POST",
        heard: Callable[[Any], Mapping[str, Any]] = lambda _: {},
    ) -> Operation:
        """Send until there is an answer other than "later", and return the operation."""
        began, sent = time.monotonic(), 0
        answer: httpx.Response | None = None
        while sent < TRIES and (sent == 0 or not self._over.is_set()):
            answer = self._once(method, path, body, key=key, host=host + sent)
            sent += 1
            if answer is not None and answer.status_code not in (429, 502, 503, 504):
                break
            answer = None
            time.sleep(0.05)
        said: Any = {}
        if answer is not None and answer.status_code in (200, 201):
            said = heard(answer.json())
        elif answer is not None and (answer.status_code >= 500 or answer.status_code in (400, 401, 403, 422)):
            self.errors.append(f"{what} {key}: {answer.status_code} {answer.text:.300}")
        status, ended = (0, None) if answer is None else (answer.status_code, time.monotonic())
        operation = Operation(what, f"{self._actor}: {key}", body, began, ended, status, said, sent)
        self._log.add(operation)
        return operation

    def _once(self, method: str, path: str, body: Mapping[str, Any], *, key: str, host: int) -> httpx.Response | None:
        bases = self._bases()
        try:
            url = f"{bases[host % len(bases)]}{path}"
            return self._http.request(method, url, json=body, headers={"Idempotency-Key": key})
        except httpx.TransportError:
            return None

    def get(self, path: str, *, host: int) -> Any:
        """Return what a page says, None where there is no answer."""
        try:
            answer = self._http.get(f"{self._bases()[host % len(self._bases())]}{path}")
        except httpx.TransportError:
            return None
        return answer.json() if answer.status_code == 200 else None

    def close(self) -> None:
        """Give back connections."""
        self._http.close()


class Crowd:
    """Clients and a person, each in a thread of its own.

    Args:
        bases: Gives where the hosts listen now.
        tokens: Texts of tokens by name; the last is the person's.
        network: What is run.
        log: Keeps operations.
        pace: How time passes.
        seed: Draws who does what.

    Attributes:
        over: Set when all of them are to end.
    """

    def __init__(
        self,
        bases: Callable[[], Sequence[str]],
        tokens: Mapping[str, str],
        network: Network,
        *,
        log: Log,
        pace: Pace,
        seed: int,
    ) -> None:
        self._network, self._log, self._pace, self._seed = network, log, pace, seed
        self.over, self._front, self._crashed = threading.Event(), 0, list[str]()
        self._senders = [Sender(bases, token, actor=name, log=log, over=self.over) for name, token in tokens.items()]
        lives = [self._ask_and_tell] * (len(tokens) - 1) + [self._switch]
        self._threads = [
            threading.Thread(target=self._live, args=(life, i), daemon=True) for i, life in enumerate(lives)
        ]

    def __enter__(self) -> "Crowd":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        for thread in self._threads:
            thread.join(timeout=60)
        self._crashed += [f"{thread.name} goes on" for thread in self._threads if thread.is_alive()]
        for sender in self._senders:
            sender.close()

    @property
    def errors(self) -> list[str]:
        """Answers that should not have been, and threads that ended."""
        return [*self._crashed, *(error for sender in self._senders for error in sender.errors)]

    def wait_for(self, more: int, *, seconds: float = 60.0) -> bool:
        """Wait until so many more operations were acknowledged; False where they were not."""
        wanted, until = self._log.acknowledged + more, time.monotonic() + seconds
        while self._log.acknowledged < wanted:
            if time.monotonic() > until or self._crashed:
                return False
            time.sleep(0.01)
        return True

    def _live(self, life: Callable[[Sender, np.random.Generator, int], None], who: int) -> None:
        rng = np.random.default_rng([self._seed, who])
        try:
            while not self.over.is_set():
                life(self._senders[who], rng, who)
        except Exception as error:  # a broken harness must not look like a sound service
            self._crashed.append(f"a client ended: {error!r}")
            self.over.set()

    def _ask_and_tell(self, sender: Sender, rng: np.random.Generator, who: int) -> None:
        """Ask for some stations, do as is said, and tell what they earned."""
        slot, key = f"s{self._front}", f"{who}-{self._front}"
        self._front += rng.random() < 0.4
        wanted = [name for name in self._network.names if rng.random() < 0.6] or [self._network.names[0]]
        body = {"slot": slot, "states": {name: {"load": load_of(slot, name)} for name in wanted}}
        key = f"ask-{key}-{rng.integers(1 << 40):x}"
        one = sender.send("ask", "/v1/decisions", body=body, key=key, host=int(rng.integers(2)), heard=self._heard)
        if one.done and rng.random() < 0.3:
            self.over.wait(float(rng.uniform(0, 0.3)))
            host = int(rng.integers(2))
            one = sender.send("ask", "/v1/decisions", body=body, key=key, host=host, heard=self._heard)
        if one.done:
            self._act(sender, rng, one)
        self.over.wait(float(rng.uniform(0, 0.5)))

    def _heard(self, said: Any) -> Mapping[str, Any]:
        """Keep what counts of an answer."""
        kept = ("id", "station", "chosen", "proposed", "before", "run", "held", "valid_until", "status", "open")
        return {
            "decisions": [
                {name: item[name] for name in kept}
                | {"verdict": {name: item["verdict"][name] for name in ("outcome", "reason")}}
                | {"reported": self._network.reported.get(item["id"])}
                for item in said["decisions"]
            ]
        }

    def _act(self, sender: Sender, rng: np.random.Generator, one: Operation) -> None:
        """Set what is to run, as long as that is valid; report what runs where something holds it; tell rewards."""
        now, rewards = self._pace.at(time.monotonic()), dict[str, float]()
        for item in one.answer["decisions"]:
            name, valid = item["station"], datetime.fromisoformat(item["valid_until"]) > now
            if item["held"] is None and valid:
                self._network.runs[name] = item["run"]
            runs = self._network.runs.get(name, item["before"])
            if item["held"] is not None and item["status"] == "applied" and item["open"] and rng.random() < 0.5:
                self._report(sender, rng, item["id"], runs)
            if item["open"]:
                rewards[item["id"]] = reward_of(item["id"], load_of(one.body["slot"], name), runs["tilt"])
        if rewards and rng.random() < 0.6:
            outcomes = [{"decision": name, "reward": reward} for name, reward in rewards.items()]
            body, key = {"outcomes": outcomes}, f"tell-{rng.integers(1 << 60):x}"
            sender.send("tell", "/v1/outcomes", body=body, key=key, host=int(rng.integers(2)))

    def _report(self, sender: Sender, rng: np.random.Generator, decision: str, runs: Any) -> None:
        self._network.reported[decision] = runs
        body, key = {"configuration": runs}, f"report-{rng.integers(1 << 60):x}"
        sender.send("report", f"/v1/decisions/{decision}/applied", body=body, key=key, host=int(rng.integers(2)))

    def _switch(self, sender: Sender, rng: np.random.Generator, _: int) -> None:
        """Stop everything for a moment, or freeze a station, at either host."""
        self.over.wait(float(rng.uniform(0.5, 3)))
        name = f"{rng.integers(1 << 60):x}"
        acts = [("freeze", "PUT"), ("thaw", "DELETE")] if rng.random() < 0.3 else [("stop", "POST"), ("resume", "POST")]
        station = self._network.names[int(rng.integers(len(self._network.names)))]
        for what, method in acts:
            path = f"/v1/stations/{station}/freeze" if method != "POST" else f"/v1/{what}"
            body = {"why": "the soak"}
            key, host = f"{what}-{name}", int(rng.integers(2))
            for _ in range(20):  # what was begun is ended, or nothing would change any more
                if sender.send(what, path, body=body, key=key, host=host, method=method).done or self.over.is_set():
                    break
            self.over.wait(float(rng.uniform(0.3, 1.0)))


def reward_of(decision: str, load: float, tilt: float) -> float:
    """Return what a tilt earns: a high one under load and a low one without, so that every slot wants a change."""
    noise = float(np.random.default_rng([5, *decision.encode()]).normal())
    return 0.5 + 0.15 * (load - 0.5) * (tilt - 5) + 0.03 * noise
