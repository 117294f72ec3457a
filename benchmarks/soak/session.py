"""One session: two hosts on one fresh ledger, clients, one kind of fault again and again, and the checker at the end.

Time passes thirty times as fast as it does, for the clocks and stopwatches of all processes, so that a pause of four
seconds is one of two minutes and rails in minutes hold back what they should in a session of one.
"""

import gzip
import json
import shutil
import tempfile
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from tests.support.ledger_stores import fresh_database, postgres_server
from tests.support.pace import Pace, write_pace
from tests.support.service_faults import database_on, small_file_system
from tests.support.service_process import Options, ServiceProcess, make_tokens

from benchmarks.soak import faults
from benchmarks.soak.checker import Anomaly, checked, times_of
from benchmarks.soak.clients import Crowd, Network, Sender
from benchmarks.soak.history import Log, Row, Watcher, rows_of
from benchmarks.soak.oracle import Limits
from benchmarks.soak.results import Result
from benchmarks.soak.synced import built, watched
from kinband.errors import KinbandError
from kinband.service.ledger import Ledger, replay

SPEED = 30.0
START = datetime(2026, 11, 20, 10, 35, tzinfo=UTC)
BEFORE_MIDNIGHT = datetime(2026, 11, 20, 23, 35, tzinfo=UTC)
CLIENTS = 4
NAMES = ["a", "b", "c", "d", "e", "f"]
REPLAYED = 12
"""Decisions of a session that are decided again."""

LIMITS = Limits(
    values=(2, 4, 6, 8, 10), highest=8, lower={"c": 6}, step=4, min_time=150, per_day=12, per_round=3, round=100,
    retry_after=600, neighbours=(frozenset("ab"), frozenset("de")), frozen=frozenset("f"),
    windows=tuple((60 * hour + minute, 60 * hour + minute + 4) for hour in range(24) for minute in (12, 42)),
)  # fmt: skip
"""The rails below, for the oracle."""

BY_NIGHT = replace(LIMITS, maintenance=tuple(
    (60 * hour + minute, 60 * hour + minute + 4) for hour in (0, 1, 2, 10, 11, 12, 13, 23)
    for minute in (2, 8, 18, 24, 30, 36, 48, 54)
))  # fmt: skip
"""The same with maintenance windows, which open and close during a session: for those whose orders are confirmed."""


def _lines(windows: Sequence[tuple[int, int]]) -> str:
    return "\n".join(
        f'  - {{days: mon-sun, from: "{begin // 60:02}:{begin % 60:02}", to: "{end // 60:02}:{end % 60:02}"}}'
        for begin, end in windows
    )


RAILS = f"""\
zone: UTC
knobs: {{tilt: {{max: 8, step: 4}}}}
stations: {{c: {{tilt: {{max: 6}}}}}}
changes: {{min_time: 150s, per_day: 12, per_round: 3, round: 100s, neighbours_together: no}}
neighbours: {{a: [b], d: [e]}}
freeze: [f]
fallback: {{drop: 0.25, slots: 2, before: 6, within: 1h, retry_after: 10min}}
forbidden:
{_lines(LIMITS.windows)}
"""
RAILS_BY_NIGHT = f"""\
{RAILS.replace("10min}", "10min, outside_windows: yes}")}\
maintenance:
{_lines(BY_NIGHT.maintenance)}
"""


@dataclass(frozen=True)
class Session:
    """What is tried.

    Attributes:
        fault: One of `faults.FAULTS`.
        store: "sqlite" or "postgresql".
        number: Of the session among those of its kind; it draws everything.
        times: How often the fault comes.
        confirmed: Whether a network manager confirms orders, in maintenance windows; else they count as carried out.
    """

    fault: str
    store: str
    number: int
    times: int
    confirmed: bool = False

    @property
    def name(self) -> str:
        """What its files are called."""
        return f"{self.fault}-{self.store}-{self.number:02}-{self.times}{'-confirmed' * self.confirmed}"

    @property
    def seed(self) -> list[int]:
        """What everything is drawn from."""
        return [*self.name.encode()]


class Unable(Exception):  # noqa: N818 - a reason, not an error
    """Why something cannot be tried on this machine."""


def run(session: Session, *, keep: Path) -> Result:
    """Run a session; where it finds an anomaly, what it rests on is kept in a folder."""
    found, begun = Result(session.name, session.fault, session.store), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="kb-soak-") as name:
        folder = Path(name)
        try:
            _run(session, folder, found)
        except Unable as reason:
            found.left_out = str(reason)
        except Exception:  # the harness or the service: somebody has to look
            found.anomalies.append(asdict(Anomaly("the session ends", traceback.format_exc()[:3000])))
        if found.anomalies:
            _keep(folder, keep / session.name, found)
    found.seconds = round(time.monotonic() - begun, 1)
    return found


def _keep(folder: Path, into: Path, found: Result) -> None:
    into.mkdir(parents=True, exist_ok=True)
    (into / "result.json").write_text(json.dumps(asdict(found), indent=1))
    for file in [path for path in folder.rglob("*") if path.is_file() and path.stat().st_size < 200_000_000]:
        with file.open("rb") as source, gzip.open(into / f"{file.name}.gz", "wb") as packed:
            shutil.copyfileobj(source, packed)


def _run(session: Session, folder: Path, found: Result) -> None:
    rng = np.random.default_rng(session.seed)
    with ExitStack() as stack:
        store = _store(session, folder, stack)
        start = BEFORE_MIDNIGHT if session.number % 3 == 2 else START
        pace = Pace(start, time.monotonic(), SPEED)
        clocks = [folder / f"clock{i}" for i in range(2)]
        for clock in clocks:
            write_pace(clock, pace)
        hosts = [stack.enter_context(_host(store, clock, folder, session)) for clock in clocks]
        log = stack.enter_context(closing(Log(folder / "history.jsonl")))
        _between(session, folder, store, hosts, pace, clocks, log=log, rng=rng, found=found)


@dataclass(frozen=True)
class _Store:
    url: str
    server: Any = None
    disk: Path | None = None
    places: tuple[Path, Path] = (Path(), Path())
    environment: Mapping[str, str] = field(default_factory=dict)


def _store(session: Session, folder: Path, stack: ExitStack) -> _Store:
    """Make a fresh store, on a disk of its own where it is to be full or to lose writes."""
    if session.store == "sqlite":
        (folder / "disk").mkdir()
        url = str(folder / "disk" / "ledger.db")
        if session.fault != "lost":
            return _Store(url)
        (folder / "synced").mkdir()
        library = built(folder)
        if library is None:
            raise Unable("no C compiler: install gcc to have writes lost")
        files, copies = folder / "disk", folder / "synced"
        return _Store(url, places=(files, copies), environment=watched(library, files=files, copies=copies))
    server = stack.enter_context(postgres_server())
    if session.fault != "full":
        return _Store(fresh_database(server), server)
    place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kb-disk-")))
    try:
        disk = stack.enter_context(small_file_system(place, "48m"))
    except PermissionError as error:
        raise Unable(f"no right to mount a small disk ({error})") from error
    return _Store(database_on(server, disk), server, disk)


@contextmanager
def _host(store: _Store, clock: Path, folder: Path, session: Session) -> Iterator[ServiceProcess]:
    options = Options(
        store.url, timeout=4.0, rails=RAILS_BY_NIGHT if session.confirmed else RAILS, seed=session.number + 1,
        names=list(NAMES), snapshot_every=60, pace=str(clock), manner="confirmed" if session.confirmed else "assumed",
    )  # fmt: skip
    process = ServiceProcess(options, folder / f"{clock.name}.log", environment=store.environment)
    try:
        process.start()
        yield process
    finally:
        process.end()


def _between(
    session: Session,
    folder: Path,
    store: _Store,
    hosts: Sequence[ServiceProcess],
    pace: Pace,
    clocks: Sequence[Path],
    *,
    log: Log,
    rng: np.random.Generator,
    found: Result,
) -> None:
    names = {f"nms-{i}": "operator" for i in range(CLIENTS)} | {"ann": "operator", "root": "admin"}
    names |= {"manager": "operator"} if session.confirmed else {}
    tokens = make_tokens(store.url, names)
    bases = lambda: [host.base for host in hosts]  # noqa: E731
    crowd = Crowd(bases, {k: v for k, v in tokens.items() if k != "root"}, Network(NAMES, session.confirmed),
                  log=log, pace=pace, seed=session.number)  # fmt: skip
    admin = Sender(bases, tokens["root"], actor="root", log=log, over=crowd.over)
    begin, watcher = time.monotonic(), Watcher(store.url)
    world = faults.World(
        hosts, pace, clocks, crowd, admin, watcher, rng, store.server, store.disk, store.places, found.counts
    )
    with closing(admin), watcher:
        with crowd:
            done = 0
            while done < session.times:
                if not crowd.wait_for(int(rng.integers(4, 14))):
                    raise AssertionError(f"no operation was acknowledged for a minute: {crowd.errors}")
                faults.FAULTS[session.fault](world)
                done = found.counts["kill"] if session.fault == "kill" else done + 1
                if store.server is not None and session.fault == "kill" and rng.random() < 0.1:
                    faults.kill_server(world)
            crowd.wait_for(30)
            if session.confirmed:
                crowd.wait_for(3, "confirm")
        time.sleep(0.3)  # for the last look
    errors = [Anomaly("no answer is an error of the service", error) for error in (*crowd.errors, *admin.errors)]
    limits = BY_NIGHT if session.confirmed else LIMITS
    _judge(store, log, watcher, pace, limits, begin=begin, found=found, errors=errors, rng=rng)
    _check_ended(hosts, found)
    if found.anomalies:
        (folder / "rows.json").write_text(json.dumps([asdict(row) for row in rows_of(store.url)]))
        (folder / "sightings.json").write_text(json.dumps([asdict(one) for one in watcher.sightings]))
        (folder / "pace.json").write_text((clocks[0]).read_text())


def _judge(
    store: _Store,
    log: Log,
    watcher: Watcher,
    pace: Pace,
    limits: Limits,
    *,
    begin: float,
    found: Result,
    errors: Sequence[Anomaly],
    rng: np.random.Generator,
) -> None:
    """Have everything checked."""
    rows = rows_of(store.url)
    times = times_of(rows, watcher.sightings, pace.at, begin=begin - 60, end=time.monotonic())
    anomalies = [*errors, *checked(rows, log.operations, watcher.sightings, limits=limits, times=times)]
    anomalies += _decided_again(store.url, rows, rng, found)
    found.anomalies = [asdict(one) for one in anomalies[:50]]
    found.acknowledged, found.events = log.acknowledged(), len(rows)
    for what in ("approved", "ordered", "failed", "expired"):
        count = sum(row.kind in ("verdict", "order") and row.payload["status"] == what for row in rows)
        found.counts |= {what: count} if count else {}
    found.changes = sum(row.kind == "applied" and row.payload["arm"] != row.payload["before"] for row in rows)


def _decided_again(url: str, rows: Sequence[Row], rng: np.random.Generator, found: Result) -> Iterator[Anomaly]:
    """Check that the ledger verifies, and that some decisions come out the same from what was before them."""
    ids = [str(row.decision) for row in rows if row.kind == "decision"]
    try:
        with closing(Ledger.open(url, create=False)) as ledger:
            ledger.verify()
            for number, name in enumerate(rng.choice(ids, size=min(REPLAYED, len(ids)), replace=False)):
                again = replay(ledger, str(name), snapshots=bool(number % 2))
                found.replayed += 1
                if not again.same:
                    yield Anomaly("decided again as it was", f"{name}: {again}"[:500])
    except KinbandError as error:
        yield Anomaly("the ledger verifies", str(error))


def _check_ended(hosts: Sequence[ServiceProcess], found: Result) -> None:
    """Check that the hosts end well, and that nothing unforeseen is in their logs."""
    for host in hosts:
        code, log = host.stop(), host.log_text()
        if code:
            found.anomalies.append(asdict(Anomaly("a service ends well", f"exit code {code}: {log[-1000:]}")))
        _, trace, rest = log.partition("Traceback")
        if trace:
            found.anomalies.append(asdict(Anomaly("no service is surprised", f"{trace}{rest}"[:3000])))
