"""The `kinband` command: its sub-commands, and a process in which whatever happens becomes a sentence and an exit code.

The commands are loaded in functions rather than above, and each when it is called: that takes a while, in which a user
may already press Ctrl-C.
"""

import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any

from kinband.version import __version__

COMMANDS = {
    "demo": "demo:demo",
    "counters": "counters:counters",
    "reproduce": "reproduce:reproduce",
    "compare": "compare:compare",
    "look": "look:look",
    "similarity": "similarity:similarity",
    "simulate": "simulate:simulate",
    "evaluate": "evaluate:evaluate",
    "conform": "conform:conform_command",
    "design": "design:design",
    "recommend": "recommend:recommend",
    "apply": "apply:apply_command",
    "confirm": "apply:confirm_command",
    "rollback": "apply:rollback_command",
    "impact": "impact:impact",
    "audit": "audit:audit_command",
    "replay": "replay:replay",
    "ledger": "ledger:ledger_app",
    "serve": "serve:serve",
    "notify": "notify:notify",
    "token": "token:token_app",
}
"""Where each command is: a module of this package, and a function or a group of commands in it."""

_ABOUT = "Decide, slot after slot, which configuration each base station should run; similar stations share experience."
_SETTINGS = {"help_option_names": ["-h", "--help"]}


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
    if arguments is not None:
        return run(commands, given)
    if not sys.warnoptions:
        warnings.simplefilter("ignore")  # what concerns the user is gathered and said by the commands
    try:
        return run(commands, given)
    except Exception as error:
        if sys.flags.dev_mode:
            raise
        return _fail(_fault(error), 1)


def commands() -> Any:
    """Return the typer application of all commands, each of which is loaded when it is called."""
    import typer
    from typer.core import TyperGroup

    class Commands(TyperGroup):
        """The commands by name."""

        def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
            return list(COMMANDS)

        def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
            return _command(cmd_name) if cmd_name in COMMANDS else None

    app = typer.Typer(
        name="kinband", cls=Commands, no_args_is_help=True, pretty_exceptions_enable=False, context_settings=_SETTINGS
    )

    def show_version(wanted: bool) -> None:
        if wanted:
            typer.echo(f"kinband {__version__}")
            raise typer.Exit

    option = typer.Option(False, "--version", callback=show_version, is_eager=True, help="Show the version and exit.")

    @app.callback(help=_ABOUT)
    def kinband(version: bool = option) -> None:
        del version

    return app


def _command(name: str) -> Any:
    """Load a command."""
    import typer

    module, _, function = COMMANDS[name].partition(":")
    with ctrl_c_ends_at_once():
        found = getattr(import_module(f"kinband.cli.{module}"), function)
    if not isinstance(found, typer.Typer):
        alone = typer.Typer(add_completion=False, context_settings=_SETTINGS)
        alone.command(name)(found)
        found = alone
    command = typer.main.get_command(found)
    command.name = name
    return command


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
        return in_options(error)
    if isinstance(error, OSError):
        reason = (error.strerror or str(error).partition("\n")[0]).lower()
        return f"cannot use {error.filename} ({reason}): choose another path" if error.filename else reason
    if isinstance(error, MemoryError):
        return "there is not enough memory for this: use fewer rows, stations or slots"
    if isinstance(error, BrokenProcessPool):
        return (
            "a process was ended from outside, perhaps because memory ran out; finished work is kept: try --workers 1"
        )
    if not hasattr(error, "format_message"):  # what a usage error of the command line's own has
        raise error
    return f"{error.format_message()} (try: {_help_of(error, name)})" if error.format_message() else ""


def _fault(error: Exception) -> str:
    """Return what to tell the user of an error that is a fault of the program."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    what = f"{type(error).__name__}: {error}".removesuffix(": ").replace("\n", " ")
    place = f"{Path(last.filename).name}, line {last.lineno}"
    return f"this is a fault of kinband, please report it: {what} ({place}; `python -X dev -m kinband` shows all of it)"


_HINTS = {
    "all_bad": "name the columns that matter with --state, or leave others out with --ignore",
    "stray": "repair them, skip such rows with --skip-bad, or name the --reward-range if rewards may be so",
    "bad_rows": "repair them, leave columns out with --ignore, or skip such rows with --skip-bad",
    "cannot_keep": "define it in a module",
    "column_map": "name the columns with --configuration, --reward and so on",
    "date_order": "say which comes first with --date-format dmy or --date-format mdy",
    "decimal_comma": "it has a decimal comma, pass --decimal-point ','",
    "decimal_mark": "pass --decimal-point {value!r}, or leave --decimal-point out",
    "delimiter": "pass --delimiter {value!r}",
    "encoding": "name its encoding with --encoding",
    "negative_outcome": "use --linear, or mark failed runs in a column, --failed",
    "no_cluster": "start one with `ray start --head`, join it from this machine with `ray start --address=host:port`, "
    "set RAY_AUTH_MODE=token where it asks for a token, or leave --ray out",
    "no_column": "name the right one with --{argument}",
    "no_knob_varies": "name the knobs with --configuration",
    "no_outcome": "leave outcomes of failed runs empty, or mark them in a column, --failed",
    "no_ray": "pip install 'kinband[ray]', or leave --ray out",
    "no_reward": "name another column with --reward",
    "no_time": "name its column with --time",
    "nothing_in_common": "name the knobs with --configuration, or run some configurations on every task",
    "nothing_to_try": "name more values of a knob with --values, or widen --step and --rails",
    "per_cent": "they look like per cent, say so with --per-cent",
    "plan_exists": "choose another folder, or allow it to be replaced with --replace",
    "propensity": "check --propensity",
    "reward_range": "repair these rows or widen --reward-range",
    "role_unknown": "name the right one with --{argument}, for example {value}",
    "samples_of_a_sum": "leave the column out with --ignore, or give the variance of the sum as noise",
    "short_log": "give a longer log, or a smaller --learn-share",
    "text_among_numbers": "repair it, or leave the column out with --ignore",
    "too_few_rows": "ask for fewer with --log-rows, or leave such stations out with --skip-short",
    "too_few_stations": "give more rows, or ask for fewer with --log-rows",
    "unlike_a_knob": "name the knobs with --configuration, or leave it out with --ignore",
}
"""What to do about an error, by its code, where Python's advice is of no use at a command line."""


def in_options(error: Any) -> str:
    """Return the sentence of an error with advice for the command line."""
    if error.code == "no_column" and error.argument == "kpis":
        return f"{error.problem}: name the right one with --floor, or --kpi"
    hint = _HINTS.get(error.code)
    return str(error) if hint is None else f"{error.problem}: {hint.format(argument=error.argument, value=error.value)}"


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


# --- Ctrl-C while there is nothing to tidy up: the process says so and ends -------------------------------------------
#
# An exception would have to pass through whatever is being loaded just then, and some libraries lose it: Arrow loads
# pandas with its first array and takes an interruption there for a missing pandas.

KEEPING = ("compare", "demo", "reproduce")
"""Commands that keep every run that is finished and go on there when they are called again."""

_called: list[str] = []  # what this process was asked for


def remember(arguments: Sequence[str]) -> None:
    """Keep in mind what was asked for, so that an interruption can say what became of it."""
    _called[:] = arguments


def interrupted() -> str:
    """Return what to say of an interruption."""
    command = next((word for word in _called if not word.startswith("-")), "")
    return "interrupted; work that was finished is kept" if command in KEEPING else "interrupted"


@contextmanager
def ctrl_c_ends_at_once() -> Iterator[None]:
    """End the process on Ctrl-C meanwhile; where somebody else minds the signal, leave it to them."""
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, _end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(number: int, frame: FrameType | None) -> None:
    del number, frame
    os.write(2, f"kinband: {interrupted()}\n".encode())
    os._exit(130)
