"""The `kinband` command: its sub-commands, and how errors become one sentence and an exit code."""

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from kinband.cli.bench import bench
from kinband.cli.check_city import check_city
from kinband.cli.compare import compare
from kinband.cli.demo import demo
from kinband.cli.recommend import recommend
from kinband.cli.reproduce import reproduce
from kinband.cli.similarity import similarity
from kinband.cli.simulate import simulate
from kinband.errors import KinbandError
from kinband.version import __version__

app = typer.Typer(
    name="kinband",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(demo)
app.command()(reproduce)
app.command()(compare)
app.command()(similarity)
app.command()(simulate)
app.command("check-city")(check_city)
app.command()(recommend)
app.command()(bench)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"kinband {__version__}")
        raise typer.Exit


@app.callback()
def kinband(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Decide, slot after slot, which configuration each base station should run; similar stations share experience."""
    del version


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Example:
        >>> main(["--version"])
        kinband ...
        0
    """
    _use_one_thread()
    try:
        code = app(args=None if arguments is None else list(arguments), standalone_mode=False)
    except typer.Exit as leaving:
        code = leaving.exit_code
    except (KeyboardInterrupt, typer.Abort):
        code = 130
    except KinbandError as error:
        return _fail(str(error), 2)
    except OSError as error:
        return _fail(f"{error.strerror or error}: {error.filename or ''}".rstrip(": "), 2)
    except Exception as error:
        if not hasattr(error, "format_message"):  # a usage error of the command line's own
            raise
        sentence = error.format_message()
        return _fail(f"{sentence} (try: kinband --help)", 2) if sentence else 2
    return _fail("interrupted; finished work is kept", 130) if code == 130 else int(code or 0)


def _use_one_thread() -> None:
    """Let BLAS use one thread unless the user says otherwise.

    Commands spread over processes where that pays; BLAS threads on top of them, or beside other busy programs, wait for
    each other and make a command many times slower.
    """
    if "OPENBLAS_NUM_THREADS" not in os.environ:
        from threadpoolctl import threadpool_limits

        os.environ["OPENBLAS_NUM_THREADS"] = "1"  # for libraries that are loaded later
        threadpool_limits(1)


def _fail(sentence: str, code: int) -> int:
    sys.stderr.write(f"kinband: {sentence}\n")
    return code
