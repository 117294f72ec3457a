"""What commands print and write."""

import re
import shlex
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn

from kinband.errors import BadInputError
from kinband.similarity import NAMES, TaskMatrix, similarity_from

# --- Folders for results: made and tried before any work, so that nothing is computed that could not be kept --------


def make_folder(out: Path) -> None:
    """Make a folder and try to write to it, or say what is in the way.

    Example:
        >>> make_folder(Path(__file__) / "results")
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: cannot write to ...results (not a directory): choose another folder with --out
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            pass
    except OSError as error:
        reason = "a file of that name is in the way" if out.is_file() else (error.strerror or str(error)).lower()
        raise BadInputError(f"cannot write to {out} ({reason}): choose another folder with --out") from error


# --- A progress bar on standard error for anything longer than two seconds ------------------------------------------

Step = Callable[..., None]
"""Takes a word on what was done, and how much it was; one by default."""


@contextmanager
def progress(total: float | None, *, quiet: bool = False) -> Iterator[Step]:
    """Show a bar up to `total`, with the time left, or a spinner where nobody knows; yields a function that steps."""
    console = Console(stderr=True, quiet=quiet)
    columns = [
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("time left"),
        TimeRemainingColumn(elapsed_when_finished=True),
    ]
    # Runs last minutes: look back far to tell how fast they are.
    with Progress(*columns, console=console, transient=True, speed_estimate_period=900) as shown:
        task = shown.add_task("", total=total)

        def step(what: str, amount: float = 1.0) -> None:
            shown.update(task, advance=amount, description=what)

        yield step


# --- What the library says of state columns that are the reward in other words, in the options of the command line

_LEAK = re.compile(r"(state column (?P<mark>['\"])(?P<name>.*)(?P=mark) is all but the reward .*) \(ignore\)")


def with_ignore(sentence: str) -> str:
    """Return a sentence of `kinband.trace.table` with the option that leaves the column out; any other as it is.

    Example:
        >>> with_ignore("state column 'thr mbps' is all but the reward (...): leave it out of the state (ignore) if")
        "state column 'thr mbps' is all but the reward (...): leave it out of the state (--ignore 'thr mbps') if"
        >>> with_ignore("the log has no time")
        'the log has no time'
    """
    return _LEAK.sub(lambda found: f"{found[1]} (--ignore {shlex.quote(found['name'])})", sentence, count=1)


# --- The option that says how alike stations are, for commands that share experience between them -------------------

LikenessOption = Annotated[
    str | None,
    typer.Option(
        "--similarity",
        metavar="NAME|FILE",
        help=f"How alike stations are: {', '.join(NAMES)}, or a similarity.npz or .csv file; learned if not given.",
    ),
]


def likeness_of(similarity: str | None) -> str | TaskMatrix | None:
    """Return the name or the matrix of a file; an unknown name is refused before any work."""
    if similarity is None:
        return None
    if Path(similarity).suffix.lower() in (".npz", ".csv"):
        return TaskMatrix.load(similarity)
    similarity_from(similarity)
    return similarity
