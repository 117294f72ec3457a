"""Who talks to the services: clients that ask, tell and report for a network, and a person at the stop switch; where
orders are confirmed also a network manager, which makes them, cannot make them, or is late.

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
        confirmed: Whether orders alone change that, and are confirmed.
        runs: What each runs, as far as it was told.
        late: Orders that the manager has put off, by decision.
        refused: How often which status was answered.
    """

    names: Sequence[str]
    confirmed: bool = False
    runs: dict[str, Any] = field(default_factory=dict)
    late: dict[str, Any] = field(default_factory=dict)
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
    """Clients, a person and perhaps a network manager, each in a thread of its own.

    Args:
        bases: Gives where the hosts listen now.
        tokens: Texts of tokens by name; the last is the person's, or the network manager's if there is one.
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
        further = [self._switch, *([self._manage] if network.confirmed else [])]
        lives = [self._ask_and_tell] * (len(tokens) - len(further)) + further
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

    def wait_for(self, more: int, what: str = "", *, seconds: float = 60.0) -> bool:
        """Wait until so many more operations, perhaps of one kind, were acknowledged; False where they were not."""
        wanted, until = self._log.acknowledged(what) + more, time.monotonic() + seconds
        while self._log.acknowledged(what) < wanted:
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
                for item in said["decisions"]
            ]
        }

    def _act(self, sender: Sender, rng: np.random.Generator, one: Operation) -> None:
        """Set what is to run, as long as that is valid; report what runs where something holds it; tell rewards."""
        now, rewards = self._pace.at(time.monotonic()), dict[str, float]()
        for item in one.answer["decisions"]:
            name, valid = item["station"], datetime.fromisoformat(item["valid_until"]) > now
            if item["held"] is None and valid and not self._network.confirmed:
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

    def _report(self, sender: Sender, rng: np.random.Generator, decision: str, runs: Any) -> bool:
        body, key = {"configuration": runs}, f"report-{rng.integers(1 << 60):x}"
        path, host = f"/v1/decisions/{decision}/applied", int(rng.integers(2))
        return sender.send("report", path, body=body, key=key, host=host).done

    def _manage(self, sender: Sender, rng: np.random.Generator, _: int) -> None:
        """Look what is ordered, and make it, fail, or put it off until its time is over."""
        self.over.wait(float(rng.uniform(0.1, 0.6)))
        key, host = f"orders-{rng.integers(1 << 60):x}", int(rng.integers(2))
        listed = sender.send("orders", "/v1/orders", body={}, key=key, host=host, method="GET", heard=_listed)
        late, now = self._network.late, self._pace.at(time.monotonic())
        for item in listed.answer["orders"] if listed.done else ():
            if item["status"] != "ordered" or item["held"] or item["id"] in late:
                continue
            match rng.choice(["confirm", "report", "fail", "late"], p=[0.6, 0.15, 0.1, 0.15]):
                case "fail":
                    self._say(sender, rng, "fail", item["id"])
                case "late":
                    late[item["id"]] = item
                case how:
                    self._make(sender, rng, item, reporting=how == "report")
        for item in [one for one in late.values() if datetime.fromisoformat(one["until"]) < now]:
            del late[item["id"]]
            self._make(sender, rng, item, reporting=False)

    def _make(self, sender: Sender, rng: np.random.Generator, item: Mapping[str, Any], *, reporting: bool) -> None:
        """Carry an order out and say so; it is undone where nobody wants it any more."""
        self._network.runs[item["station"]] = item["proposed"]
        told = reporting and self._report(sender, rng, item["id"], item["proposed"])
        if not told and not self._say(sender, rng, "confirm", item["id"]):
            self._network.runs[item["station"]] = item["back"]

    def _say(self, sender: Sender, rng: np.random.Generator, what: str, decision: str) -> bool:
        key, path = f"{what}-{rng.integers(1 << 60):x}", f"/v1/orders/{decision}/{what}"
        heard = lambda said: {"id": said["id"], "status": said["status"]}  # noqa: E731
        return sender.send(what, path, body={}, key=key, host=int(rng.integers(2)), heard=heard).done

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


def _listed(said: Any) -> Mapping[str, Any]:
    """Keep what counts of a list of orders."""
    kept = ("id", "station", "status", "proposed", "back", "until", "held")
    return {"orders": [{name: item[name] for name in kept} for item in said["orders"]]}


def reward_of(decision: str, load: float, tilt: float) -> float:
    """Return what a tilt earns: a high one under load and a low one without, so that every slot wants a change."""
    noise = float(np.random.default_rng([5, *decision.encode()]).normal())
    return 0.5 + 0.15 * (load - 0.5) * (tilt - 5) + 0.03 * noise
