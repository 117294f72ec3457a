"""Make the extract of public measurements that comes with kinband, from a folder with the whole tables.

    python tools/measured_extract.py FOLDER [OUT]

FOLDER holds `SYSTEM.parquet` and `SYSTEM-tasks.parquet` of x264, gcc, nodejs and sqlite (docs/evaluate.md says where
they come from) and LICENSE.MIT. Tasks are drawn by a fixed seed; of x264, from those that have descriptors.
"""

import shutil
import sys
from pathlib import Path

import numpy as np
import pandas as pd

from kinband.environments.measured import BUNDLED

TASKS = {"x264": 60, "nodejs": 100}
OTHER = {"x264": ["size", "fps"], "gcc": ["ctime", "size"], "sqlite": [f"q{number}" for number in range(1, 16)]}
SEED = 0
MOST_BYTES = 1_000_000


def main() -> None:
    """Write the extract, and say how large it is."""
    folder = Path(sys.argv[1])
    out = Path(sys.argv[2]) if len(sys.argv) > 2 else Path("src/kinband/environments/measured/bundled")
    out.mkdir(parents=True, exist_ok=True)
    for system, outcomes in BUNDLED.items():
        table, known = (pd.read_parquet(folder / f"{system}{part}.parquet") for part in ("", "-tasks"))
        table = table[table["task"].isin(chosen(system, table, known))]
        table = table[[name for name in table if name in outcomes or name not in OTHER.get(system, [])]]
        known = known[known["task"].isin(table["task"])]
        for part, frame in (("", table), ("-tasks", known)):
            frame.to_parquet(out / f"{system}{part}.parquet", index=False, compression="zstd", compression_level=19)
    shutil.copyfile(folder / "LICENSE.MIT", out / "LICENSE.MIT")
    size = sum(file.stat().st_size for file in out.glob("*.parquet"))
    if size > MOST_BYTES:
        sys.exit(f"the extract has {size:,} bytes, at most {MOST_BYTES:,} shall be: draw fewer tasks")
    sys.stdout.write(f"{out}: {size:,} bytes\n")


def chosen(system: str, table: pd.DataFrame, known: pd.DataFrame) -> list[str]:
    """Return the tasks to keep: those with descriptors, as many as `TASKS` says."""
    names = table["task"].drop_duplicates()
    described = names[names.isin(known["task"])].to_numpy()
    count = TASKS.get(system, len(described))
    kept: list[str] = np.random.default_rng(SEED).choice(described, count, replace=False).tolist()
    return kept


if __name__ == "__main__":
    main()
