"""What a log of thousands of stations takes of `kinband design`, `similarity` and `serve --start`: seconds and memory.

    python -m benchmarks.thousands --stations 20000 --out out/thousands

The log is that of a city in which every station tried a few settings in 96 hours (`benchmarks.evening`). A service is
ended when it is ready. Processor time counts a command and the processes that it waited for, memory is the most that
one of them took; beside other work seconds are longer.
"""

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import httpx

from benchmarks.evening.logs import Log, write
from benchmarks.evening.worlds import Recipe

HOURS, SEED = 96, 11
LONGEST = 3 * 3600.0


def taken(command: Sequence[str], *, ready: str | None = None) -> str:
    """Run a command and return what it took, in a sentence.

    Args:
        command: Arguments of kinband.
        ready: The address that answers when a service is ready, which is ended then.
    """
    begun, whole = time.perf_counter(), [sys.executable, "-m", "kinband", *command]
    process = subprocess.Popen(whole, stdout=subprocess.DEVNULL)  # noqa: S603
    until = None
    if ready is not None and _answers(ready, process):
        until = time.perf_counter()
        process.send_signal(signal.SIGTERM)
    _, status, used = os.wait4(process.pid, 0)
    seconds = (until or time.perf_counter()) - begun
    code = process.returncode = os.waitstatus_to_exitcode(status)
    ended = "" if code == 0 else f", exit code {code}"
    return f"{seconds:.0f} s, {used.ru_utime + used.ru_stime:.0f} of CPU, {used.ru_maxrss / 1e6:.2f} GB{ended}"


def _answers(address: str, process: subprocess.Popen[bytes]) -> bool:
    until = time.perf_counter() + LONGEST
    while process.poll() is None and time.perf_counter() < until:
        with suppress(httpx.HTTPError):
            if httpx.get(address, timeout=2.0).status_code == 200:
                return True
        time.sleep(0.5)
    return False


def main() -> None:
    """Write the log, and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stations", type=int, default=5000)
    parser.add_argument("--out", type=Path, default=Path("out/thousands"), help="a folder, for log and ledger")
    parser.add_argument("--port", type=int, default=8791)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    log = Log(f"city of {given.stations}", Recipe(given.stations, HOURS, begins=4, tried=(3, 6), hold=6))
    files, ledger = write(log, log.world(SEED), given.out), given.out / f"{time.time_ns()}.db"
    columns = ["--station", "cell", "--time", "time", "--reward", "rate_mbps", "--configuration", "tilt"]
    said = [str(files.log), *columns]
    serve = ["serve", "--ledger", str(ledger), "--start", *said, "--port", str(given.port), "--insecure-local"]
    print(f"{given.stations:,} stations x {HOURS} rows, seed {SEED}", flush=True)
    for name, command, ready in (
        ("design", ["design", *said, "--out", str(given.out / "design"), "--replace"], None),
        ("similarity", ["similarity", *said, "--out", str(given.out / "similarity")], None),
        ("serve --start", serve, f"http://127.0.0.1:{given.port}/readyz"),
    ):
        print(f"{name}: {taken(command, ready=ready)}", flush=True)


if __name__ == "__main__":
    main()
