"""Problems with a known truth that are made of data; `problem_of` knows them by name.

- "measured:x264:kbs": a bundled table and one of its outcomes (`bundled_measured`).
- "measured:<file>:<outcome>": a table of one's own, whose task column is `task`, on the log scale; less is better, and
  "measured:<file>:<outcome>:max" where more is.
- "measured:<folder>": a table that `store_table` has put there.
- "classes:digits", "classes:wine", and "classes:digits:relabelled": classes as arms (`ClassificationBandit`).
- Any of them followed by ":40" has 40 tasks.

Their logs are drawn by the seed of a case.
"""

import hashlib
import json
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from kinband.contexts import StateScaler
from kinband.environments import ClassificationBandit
from kinband.environments.measured import BUNDLED, MeasuredEnvironment, MeasuredTable, bundled_measured, read_measured
from kinband.errors import BadInputError
from kinband.experiments.play.problem import Problem
from kinband.trace.files import NOTE_KEY, read_parquet, write_table

_TASK, _SCORE = "measured task", "measured score"  # no knob is called so


def table_problem(environment: str, *, log_rows: int, seed: int) -> Problem | None:
    """Return the problem of that name; None for one that is not of this module.

    Example:
        >>> len(table_problem("measured:gcc:exec:5", log_rows=3, seed=1).log)
        15
    """
    kind, _, which = environment.partition(":")
    rng = np.random.default_rng([seed, 2])
    if kind == "measured":
        table = _measured(which)
        return Problem(table, table.log(log_rows, rng), StateScaler.identity(()))
    if kind == "classes":
        classes = _classes(which, seed)
        return Problem(classes, classes.log(log_rows, rng))
    return None


def store_table(table: MeasuredTable, folder: Path) -> Path:
    """Write a table below a folder, and return where; the same runs are always in the same place."""
    space = table.space
    columns: dict[str, Any] = {_TASK: [table.tasks[task] for task in table.task.tolist()]}
    columns |= {name: [space[arm][name] for arm in table.arm.tolist()] for name in space.knobs}
    note = {"columns": {}, "categories": [space.feature_names[column] for column in space.categorical]}
    with tempfile.TemporaryDirectory(dir=folder) as fresh:
        file = Path(fresh) / "table.parquet"
        write_table(file, {**columns, _SCORE: table.score}, note=note)
        place = folder / f"table-{hashlib.sha256(file.read_bytes()).hexdigest()[:12]}"
        place.mkdir(exist_ok=True)
        return file.replace(place / file.name).parent


def read_table(place: Path, *, tasks: int | None = None) -> MeasuredTable:
    """Read what `store_table` wrote."""
    frame = read_parquet(place / "table.parquet")
    categories = json.loads(frame.schema.metadata[NOTE_KEY])["categories"]
    knobs = [name for name in frame.column_names if name not in (_TASK, _SCORE)]
    return MeasuredTable.from_frame(
        frame, _SCORE, goal="max", scale="linear", task=_TASK, knobs=knobs, categories=categories, tasks=tasks
    )


@lru_cache(maxsize=2)
def _measured(which: str) -> MeasuredEnvironment:
    parts, tasks = _parted(which)
    if Path(":".join(parts)).is_dir():
        return MeasuredEnvironment(read_table(Path(":".join(parts)), tasks=tasks))
    more = parts[-1] == "max" and bool(parts.pop())
    *source, outcome = parts
    if not source:
        raise BadInputError(f"a measured problem is called measured:TABLE:OUTCOME, got 'measured:{which}'")
    if ":".join(source) in BUNDLED:
        return bundled_measured(source[0], outcome, tasks=tasks)
    return read_measured(":".join(source), outcome, goal="max" if more else "min", tasks=tasks)


def _classes(which: str, seed: int) -> ClassificationBandit:
    (data, *how), tasks = _parted(which)
    if how not in ([], ["relabelled"]):
        raise BadInputError(f"a problem of classes is called classes:DATA or classes:DATA:relabelled, got {which!r}")
    count = {} if tasks is None else {"tasks": tasks}
    return ClassificationBandit(data, relabelled=bool(how), seed=seed, **count)  # type: ignore[arg-type]


def _parted(which: str) -> tuple[list[str], int | None]:
    """The parts of a name, and the number of tasks at its end."""
    parts = which.split(":")
    return (parts[:-1], int(parts[-1])) if len(parts) > 1 and parts[-1].isdigit() else (parts, None)
