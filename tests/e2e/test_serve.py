"""`kinband serve` as an operator meets it: started, asked, told, ended by a signal, started again."""

import signal
import socket
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.ledger_stores import OnRecord
from tests.support.serving import Served, served

from kinband import ConfigurationSpace, Controller
from kinband.cli import main
from kinband.kernels import components
from kinband.service.ledger import Ledger
from kinband.service.operations import Operations

RAILS = "knobs: {tilt: {max: 6}}\n"


def controller(seed: int = 5) -> Controller:
    space = ConfigurationSpace(tilt=[2, 4, 6, 8])
    K_Z = [[1, 0.7, 0.2], [0.7, 1, 0.2], [0.2, 0.2, 1]]
    return Controller(
        space, ["3714", "3715", "1217"], state={"load": (0, 1)}, similarity=K_Z, mean=0.8, noise=0.003,
        reward_range=(0, 1), running={"tilt": 4}, seed=seed,
    )  # fmt: skip


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    made = controller()
    made.tell(made.ask("3715", {"load": 0.25}).id, 0.71)
    made.save(tmp_path / "state")
    return tmp_path / "state"


def shown(service: Served, token: str) -> dict[str, Any]:
    """What a service tells of its stations and decisions."""
    with service.client(token) as client:
        decisions = [vars(made) for made in client.decisions()]
        return {"stations": [vars(one) for one in client.stations()], "decisions": decisions, "rails": client.rails()}


def test_a_service_that_was_ended_and_started_again_goes_on_where_it_was(
    tmp_path: Path, saved: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger, rails = str(tmp_path / "ledger.db"), tmp_path / "rails.yaml"
    rails.write_text(RAILS)
    assert main(["token", "create", "--ledger", ledger, "--name", "nms", "--role", "operator"]) == 0
    token = capsys.readouterr().out.strip()
    options = ("--ledger", ledger, "--rails", str(rails), "--start", str(saved), "--mode", "autonomous")
    with served(*options) as service:
        with service.client(token) as client:
            made = client.ask({"3714": {"load": 0.4}, "1217": {"load": 0.9}}, slot="10:00")
            told = client.tell({made[0].id: 0.83})
        assert [decision.station for decision in made] == ["3714", "1217"]
        assert told[0].reward == 0.83
        before = shown(service, token)
        code, errors = service.end()
    assert code == 0, errors
    assert "GET /v1/stations" in errors
    assert token not in errors
    assert "slot=" not in errors
    late = ("--running", "tilt=2", "--similarity", "pooled", "--configuration", "tilt", "--reward-range", "0", "1")
    with served(*options[:2], "--mode", "shadow", "--start", str(tmp_path / "gone.csv"), *late) as service:
        after = shown(service, token)
        code, errors = service.end(signal.SIGINT)
    assert code == 0, errors
    assert "not used: --start, --mode, --running, --similarity, --configuration\n" in errors  # the range is the same
    assert after == before
    assert after["rails"].text == RAILS  # those on record stay in force, although no file was named
    assert len(after["decisions"]) == 3  # and that of the saved controller


def test_a_log_is_learned_from_and_without_a_token_the_way_to_one_is_told(tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    lines = ["station,time,load,tilt,reward"]
    for n in range(90):
        load, reward = rng.random(2).round(3)
        lines.append(
            f"{'abc'[n % 3]},2026-03-{1 + n // 24:02d} {n % 24:02d}:00,{load},{rng.choice([2, 4, 6])},{reward}"
        )
    (tmp_path / "log.csv").write_text("\n".join(lines))
    options = ("--ledger", str(tmp_path / "l.db"), "--start", str(tmp_path / "log.csv"), "--configuration", "tilt")
    with served(*options, "--reward-range", "0", "1", "--similarity", "pooled") as service:
        assert "(3 stations, shadow, ledger" in service.said[0]
        code, errors = service.end()
    assert code == 0, errors
    assert "kinband token create --ledger" in errors


def network(folder: Path) -> Path:
    """Write the log of twelve stations of two kinds, which want a small or a large tilt."""
    rng, lines = np.random.default_rng(0), ["station,time,load,tilt,reward"]
    for m in range(12):
        for hour in range(24):
            tilt = int(rng.integers(0, 7))
            reward = 0.6 - 0.02 * (tilt - (1 if m % 2 else 5)) ** 2 + 0.01 * rng.normal()
            lines.append(f"c{m:02d},2026-01-01 {hour:02d}:00,{rng.random():.3f},{tilt},{reward:.4f}")
    (folder / "network.csv").write_text("\n".join(lines) + "\n")
    return folder / "network.csv"


def test_a_network_in_shards_is_served_and_goes_on_with_one_ledger(tmp_path: Path) -> None:
    ledger, log = str(tmp_path / "ledger.db"), network(tmp_path)
    options = ("--ledger", ledger, "--insecure-local", "--mode", "autonomous")
    states = {f"c{m:02d}": {"load": 0.5} for m in range(12)}
    with (
        served(*options, "--start", str(log), "--configuration", "tilt", "--shards", "6") as service,
        service.client("") as client,
    ):
        made = client.ask(states, slot="10:00")
        client.tell({decision.id: 0.5 for decision in made})
    with served(*options) as service, service.client("") as client:
        assert [d.id for d in client.ask(states, slot="10:00")] == [d.id for d in made]  # from the record
        assert len(client.ask(states, slot="11:00")) == 12
    with closing(Ledger.open(ledger)) as opened:
        controller = Operations.open(opened).controller
    assert [len(members) for members in components(controller.current.K_Z)] == [6, 6]


def test_without_access_control_anybody_on_the_machine_may_ask_and_the_log_says_so(tmp_path: Path, saved: Path) -> None:
    with served("--ledger", str(tmp_path / "l.db"), "--start", str(saved), "--insecure-local") as service:
        with service.client() as client:
            assert client.ask({"3714": {"load": 0.1}}, slot="a")[0].status in ("shadow", "kept")
            assert len(list(client.decisions(slot="a", page=1))) == 1
        code, errors = service.end()
    assert (code, "no token yet" in errors) == (0, False)
    line = next(line for line in errors.splitlines() if "GET /v1/decisions" in line)
    at, level, logger, request = line.split()[:4]
    assert (at[10], at[-1], level, logger) == ("T", "Z", "INFO", "uvicorn.access")
    assert len(request) == 16
    assert "?" not in line


def bad(*options: str) -> Callable[[Path], list[str]]:
    return lambda folder: [option.format(folder=folder) for option in options]


LEDGER = ("--ledger", "{folder}/l.db", "--port", "0")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (bad(), "a service needs a ledger: give --ledger, or --demo"),
        (bad(*LEDGER), "there is no ledger {folder}/l.db: check its name, or give --start with a log, or with a fol"),
        (bad(*LEDGER, "--start", "{folder}/none.csv"), "there is no"),
        (bad(*LEDGER, "--start", "{folder}"), "holds no saved controller"),
        (bad(*LEDGER, "--start", "{folder}", "--configuration", "tilt"), "are for logs, leave them out"),
        (
            bad(*LEDGER, "--start", "{folder}/log.csv", "--configuration", "tilt", "--running", "tilt"),
            "--running takes KNOB=VALUE",
        ),
        (bad(*LEDGER, "--start", "{folder}/log.csv", "--similarity", "astrology"), "astrology"),
        (bad(*LEDGER, "--insecure-local", "--host", "192.0.2.1"), "for this machine alone"),
        (bad(*LEDGER, "--insecure-local", "--host", "example.org"), "for this machine alone"),
        (bad(*LEDGER, "--host", "no such host"), "there is no host"),
        (bad(*LEDGER, "--tls-cert", "{folder}/log.csv"), "give both --tls-cert and --tls-key"),
        (bad(*LEDGER, "--tls-cert", "{folder}/log.csv", "--tls-key", "{folder}/log.csv"), "not a certificate"),
        (bad(*LEDGER, "--tls-cert", "{folder}/no.pem", "--tls-key", "{folder}/no.pem"), "there is no such file"),
        (bad(*LEDGER, "--log-level", "loud"), "--log-level is one of debug, info, warning, error"),
        (bad(*LEDGER, "--mode", "manual"), "a mode is one of shadow, assist, autonomous"),
        (bad(*LEDGER, "--port", "70000"), "--port"),
        (bad("--ledger", "mysql://me@db/x", "--port", "0"), "SQLite or PostgreSQL"),
        (bad("--demo", "--mode", "assist"), "--demo brings a network of its own: leave out --mode"),
        (bad("--demo", "--running", "tilt=4"), "--demo brings a network of its own: leave out --running"),
        (bad("--demo", "--reward-range", "0", "1"), "leave out --reward-range"),
        (bad("--demo", "--port", "0", "--stations", "3"), "6 to 105 stations, got 3"),
        (bad("--demo", "--speed", "0"), "--speed"),
    ],
)
def test_bad_options_end_with_one_sentence(
    options: Callable[[Path], list[str]], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = "\n".join(f"{'ab'[n % 2]},{2 + n % 3},{n / 9}" for n in range(9))
    (tmp_path / "log.csv").write_text(f"station,tilt,reward\n{rows}\n")
    assert main(["serve", *options(tmp_path)]) == 2
    errors = capsys.readouterr().err
    assert sentence.format(folder=tmp_path) in errors
    assert "Traceback" not in errors
    assert not (tmp_path / "l.db").exists()  # what cannot be started leaves no ledger behind


def test_a_ledger_without_a_controller_asks_for_a_start(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ledger = str(tmp_path / "l.db")
    assert main(["token", "create", "--ledger", ledger, "--name", "nms"]) == 0
    assert main(["serve", "--ledger", ledger, "--port", "0"]) == 2
    assert "is empty: give --start with a log, or with a folder" in capsys.readouterr().err


def test_rails_that_cannot_be_read_leave_no_ledger(
    tmp_path: Path, saved: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rails = tmp_path / "rails.yaml"
    rails.write_text("zone: UTC\nfallback: {drop: 2, slots: 3}\n")
    ledger = str(tmp_path / "l.db")
    assert main(["serve", "--ledger", ledger, "--start", str(saved), "--rails", str(rails), "--port", "0"]) == 2
    assert "rails.yaml, line 2: fallback.drop is 2, and rewards from 0 to 1 cannot fall" in capsys.readouterr().err
    assert not (tmp_path / "l.db").exists()


@pytest.mark.parametrize(("given", "known"), [(("0", "100"), (0.0, 1.0)), (("0", "1"), None)])
def test_a_range_of_rewards_other_than_the_one_on_record_is_refused(
    given: tuple[str, str], known: tuple[float, float] | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(Ledger.open(tmp_path / "l.db")) as ledger:
        OnRecord(ledger, Controller(ConfigurationSpace(tilt=[2, 4]), ["a"], reward_range=known))
    assert main(["serve", "--ledger", str(tmp_path / "l.db"), "--port", "0", "--reward-range", *given]) == 2
    started = "0 1" if known else "none"
    assert f"is {' '.join(given)}, but the ledger was started with {started}: leave it out" in capsys.readouterr().err


def test_a_port_that_is_taken_is_said_before_anything_is_opened(
    tmp_path: Path, saved: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert main(["serve", "--ledger", str(tmp_path / "l.db"), "--start", str(saved), "--port", port]) == 2
    assert f"port {port} of 127.0.0.1 is taken" in capsys.readouterr().err
    assert not (tmp_path / "l.db").exists()


def test_without_the_extra_the_way_to_it_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "kinband.service.running", raising=False)
    assert main(["serve", "--ledger", "l.db"]) == 2
    assert "the service needs uvicorn: pip install 'kinband[service]'" in capsys.readouterr().err
