"""A progress bar on standard error, for anything longer than two seconds."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Step = Callable[..., None]
"""Takes a word on what was done, and how much it was; one by default."""


@contextmanager
def progress(total: float | None, *, quiet: bool = False) -> Iterator[Step]:
    """Show a bar up to `total`, with the time left, or a spinner where nobody knows; yields a function that steps."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("time left"),
        TimeRemainingColumn(elapsed_when_finished=True),
    )
    console = Console(stderr=True, quiet=quiet)
    # Runs last minutes: look back far to tell how fast they are.
    with Progress(*columns, console=console, transient=True, speed_estimate_period=900) as shown:
        task = shown.add_task("", total=total)

        def step(what: str, amount: float = 1.0) -> None:
            shown.update(task, advance=amount, description=what)

        yield step
