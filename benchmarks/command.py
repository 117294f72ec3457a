"""Benchmarks as commands: whatever happens becomes one sentence and an exit code, as with `kinband` itself."""

from collections.abc import Callable, Sequence

import typer

from kinband.cli.app import run


def command(function: Callable[..., None], module: str, arguments: Sequence[str]) -> int:
    """Run a function as the command line of a module of this folder, and return its exit code."""
    app = typer.Typer(add_completion=False, context_settings={"help_option_names": ["-h", "--help"]})
    app.command()(function)
    return run(lambda: app, arguments, name=f"python -m {module}")
