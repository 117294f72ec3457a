"""A progress bar on standard error for anything longer than two seconds."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn


@contextmanager
def progress(total: int | None, *, quiet: bool = False) -> Iterator[Callable[[str], None]]:
    """Show a bar of `total` steps, or a spinner where nobody knows how many; yields a function that takes a step."""
    console = Console(stderr=True, quiet=quiet)
    columns = [
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    ]
    with Progress(*columns, console=console, transient=True) as shown:
        task = shown.add_task("", total=total)
        yield lambda what: shown.update(task, advance=1, description=what)
