"""Write the golden files anew: `python -m tests.golden.record`, after a change that is meant to change what they say.

What changed, and why, is then said in docs/decisions.md. Ledgers are written once and stay: those of yesterday must
open for ever, so a new one gets a new name.
"""

import gzip
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from tests.golden.cases import MAKE, STATIONS, TODAY, log, plain, run
from tests.golden.lives import LEDGERS, Clock, lead, opened

from kinband.service.api import create_app
from kinband.service.ledger import Ledger

HERE = Path(__file__).parent / "files"

_COLUMNS = [
    "--station",
    "cell",
    "--time",
    "hour",
    "--reward",
    "good",
    "--configuration",
    "tilt",
    "--configuration",
    "power",
]
COMMANDS: dict[str, list[str]] = {
    "similarity": ["similarity", "log.csv", *_COLUMNS, "--method", "joint", "--json"],
    "embedding": ["similarity", "log.csv", *_COLUMNS, "--json"],
    "recommend": ["recommend", "log.csv", "--now", "now.csv", *_COLUMNS, "--json"],
    "evaluate": ["evaluate", "log.csv", *_COLUMNS, "--policy", "recommend", "--json"],
    "compare": [
        "compare",
        "log.csv",
        *_COLUMNS,
        "--log-rows",
        "8",
        "--slots",
        "20",
        "--runs",
        "2",
        "--workers",
        "1",
        "--json",
    ],
    "audit": ["audit", "state", "--json"],
    "replay": ["replay", "ledger.db", "d000012", "--json"],
    "explain": ["audit", "state", "--decision", "d000012", "--json"],
}
"""Commands whose answer for machines is kept, run in the folder that `prepare` makes."""


def prepare(folder: Path) -> None:
    """Put the files that commands read into a folder: a log, the stations now, a saved state and a ledger."""
    frame = log()
    frame.to_csv(folder / "log.csv", index=False)
    now = frame.tail(len(STATIONS)).drop(columns=["good"]).assign(**TODAY)
    now.to_csv(folder / "now.csv", index=False)
    run("plain")[0].save(folder / "state")
    (folder / "ledger.db").write_bytes(gzip.decompress((HERE / "ledgers" / "plain.db.gz").read_bytes()))


def answer(name: str, folder: Path) -> Any:
    """Return what a command answers."""
    done = subprocess.run(
        [sys.executable, "-m", "kinband", *COMMANDS[name]], cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise AssertionError(f"kinband {' '.join(COMMANDS[name])} failed: {done.stderr}")
    return json.loads(done.stdout)


def openapi() -> Any:
    """The interface of the service, as programs see it."""
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger.open(Path(folder) / "ledger.db")
        schema = create_app(opened(ledger, "plain", Clock(), new=True), tokens=None, insecure_local=True).openapi()
        ledger.close()
    return schema


def write(name: str, value: Any) -> None:
    """Write a golden file, one line an entry of lists of records."""
    file = HERE / f"{name}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(value, list):
        text = "[\n" + ",\n".join(json.dumps(entry) for entry in value) + "\n]\n"
    else:
        text = json.dumps(value, indent=1, sort_keys=True) + "\n"
    file.write_text(text, encoding="utf-8")


def main() -> None:
    """Write everything but ledgers that are there."""
    for name in MAKE:
        write(f"runs/{name}", [plain(decision) for decision in run(name)[1]])
    for name in LEDGERS:
        kept = HERE / "ledgers" / f"{name}.db.gz"
        if kept.exists():
            continue
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "ledger.db"

            def keep(db: Path, kept: Path = kept) -> None:
                kept.write_bytes(gzip.compress(db.read_bytes(), mtime=0))

            decided = lead(file, name, keep=keep)
        write(f"ledgers/{name}", decided)
    write("openapi", openapi())
    with tempfile.TemporaryDirectory() as made:
        prepare(Path(made))
        for name in COMMANDS:
            write(f"commands/{name}", answer(name, Path(made)))


def same(ours: Any, golden: Any, *, tolerance: float, where: str = "") -> list[str]:
    """Return where two answers differ: in shape, in words, or in numbers by more than rounding."""
    if isinstance(golden, dict) and isinstance(ours, dict):
        found = [f"{where}/{key}: missing" for key in golden if key not in ours]
        found += [f"{where}/{key}: new" for key in ours if key not in golden]
        for key in golden.keys() & ours.keys():
            found += same(ours[key], golden[key], tolerance=tolerance, where=f"{where}/{key}")
        return found
    if isinstance(golden, list) and isinstance(ours, list):
        if len(ours) != len(golden):
            return [f"{where}: {len(ours)} entries, not {len(golden)}"]
        pairs = enumerate(zip(ours, golden, strict=True))
        return [d for i, (a, b) in pairs for d in same(a, b, tolerance=tolerance, where=f"{where}/{i}")]
    if isinstance(golden, float) and isinstance(ours, int | float) and not isinstance(ours, bool):
        alike = np.isclose(ours, golden, rtol=tolerance, atol=tolerance, equal_nan=True)
        return [] if alike else [f"{where}: {ours} is not {golden}"]
    return [] if ours == golden else [f"{where}: {ours!r} is not {golden!r}"]


if __name__ == "__main__":
    main()
