"""The `kinband` command as a process: whatever happens becomes one sentence and an exit code.

The commands are loaded here rather than above, and each when it is called: that takes a while, in which a user may
already press Ctrl-C.
"""

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from kinband.cli.interrupts import ctrl_c_ends_at_once, interrupted, remember
from kinband.version import __version__


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Example:
        >>> main(["--version"])
        kinband ...
        0
    """
    given = sys.argv[1:] if arguments is None else list(arguments)
    if given == ["--version"]:  # at once, for whoever asks often
        sys.stdout.write(f"kinband {__version__}\n")
        return 0
    remember(given)
    return run(_commands, given)


def _commands() -> Any:
    from kinband.cli.commands import app

    return app


def run(load: Callable[[], Any], arguments: Sequence[str], *, name: str = "kinband") -> int:
    """Run a command line and return its exit code.

    Args:
        load: Returns the typer application.
        arguments: What was typed behind the name.
        name: What the command line is called, for sentences.
    """
    try:
        with ctrl_c_ends_at_once():
            _use_one_thread()
            app = load()
        import typer

        try:
            code = app(args=list(arguments), prog_name=name, standalone_mode=False)
        except typer.Exit as leaving:
            code = leaving.exit_code
        except typer.Abort:
            code = 130
    except KeyboardInterrupt:
        code = 130
    except Exception as error:
        if not _interrupted(error):
            return _fail(_sentence(error, name), 2)
        code = 130
    return _fail(interrupted(), 130) if code == 130 else int(code or 0)


def _use_one_thread() -> None:
    """Let BLAS use one thread unless the user says otherwise.

    Commands spread over processes where that pays; BLAS threads on top of them, or beside other busy programs, wait for
    each other and make a command many times slower.
    """
    if "OPENBLAS_NUM_THREADS" not in os.environ:
        from threadpoolctl import threadpool_limits

        os.environ["OPENBLAS_NUM_THREADS"] = "1"  # for libraries that are loaded later
        threadpool_limits(1)


def _interrupted(error: BaseException | None) -> bool:
    """Whether Ctrl-C is behind an error: a library that is loaded just then may turn it into one of its own."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def _sentence(error: Exception, name: str) -> str:
    """Return what to tell the user of an error that is no fault of the program; any other goes on its way."""
    from concurrent.futures.process import BrokenProcessPool

    from kinband.errors import KinbandError

    if isinstance(error, KinbandError):
        return str(error).replace("run the fleet in this process", "leave --ray out")
    if isinstance(error, OSError):
        reason = (error.strerror or str(error).partition("\n")[0]).lower()
        return f"cannot use {error.filename} ({reason}): choose another path" if error.filename else reason
    if isinstance(error, MemoryError):
        return "there is not enough memory for this: use fewer rows, stations or slots"
    if isinstance(error, BrokenProcessPool):
        return "a process was ended from outside, perhaps for want of memory; finished work is kept: try --workers 1"
    if not hasattr(error, "format_message"):  # what a usage error of the command line's own has
        raise error
    return f"{error.format_message()} (try: {_help_of(error, name)})" if error.format_message() else ""


def _help_of(error: Any, name: str) -> str:
    """Return what to type for help on the command that could not be understood."""
    context, words = getattr(error, "ctx", None), ["--help"]
    while context is not None and context.parent is not None:
        words.insert(0, context.info_name)
        context = context.parent
    return " ".join([name, *words])


def _fail(sentence: str, code: int) -> int:
    if sentence:
        sys.stderr.write(f"kinband: {sentence}\n")
    return code
