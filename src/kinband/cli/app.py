"""The `kinband` command: its sub-commands, and how errors become one sentence and an exit code."""

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from kinband.cli.demo import demo
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
    try:
        code = app(args=None if arguments is None else list(arguments), standalone_mode=False)
    except typer.Exit as leaving:
        code = leaving.exit_code
    except (KeyboardInterrupt, typer.Abort):
        return _fail("interrupted", 130)
    except KinbandError as error:
        return _fail(str(error), 2)
    except OSError as error:
        return _fail(f"{error.strerror or error}: {error.filename or ''}".rstrip(": "), 2)
    except Exception as error:
        if not hasattr(error, "format_message"):  # a usage error of the command line's own
            raise
        return _fail(f"{error.format_message()} (try: kinband --help)", 2)
    return int(code or 0)


def _fail(sentence: str, code: int) -> int:
    sys.stderr.write(f"kinband: {sentence}\n")
    return code
