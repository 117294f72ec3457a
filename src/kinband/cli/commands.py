"""The sub-commands of `kinband`, put together; each is loaded when it is called."""

from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from kinband.cli.app import ctrl_c_ends_at_once
from kinband.version import __version__

COMMANDS = {
    "demo": "demo:demo",
    "reproduce": "reproduce:reproduce",
    "compare": "compare:compare",
    "similarity": "similarity:similarity",
    "simulate": "simulate:simulate",
    "evaluate": "evaluate:evaluate",
    "recommend": "recommend:recommend",
    "audit": "audit:audit_command",
    "replay": "replay:replay",
    "ledger": "ledger:ledger_app",
    "serve": "serve:serve",
    "token": "token:token_app",
}
"""Where each command is: a module of this package, and a function or a group of commands in it."""


class Commands(TyperGroup):
    """The commands by name."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        """Return their names, in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        """Load a command; None for a name that is not one."""
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name].partition(":")
        with ctrl_c_ends_at_once():
            found = getattr(import_module(f"kinband.cli.{module}"), name)
        if not isinstance(found, typer.Typer):
            alone = typer.Typer(add_completion=False, context_settings=_SETTINGS)
            alone.command(cmd_name)(found)
            found = alone
        command = typer.main.get_command(found)
        command.name = cmd_name
        return command


_SETTINGS = {"help_option_names": ["-h", "--help"]}

app = typer.Typer(
    name="kinband",
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings=_SETTINGS,
)


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
