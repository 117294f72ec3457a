"""The sub-commands of `kinband`, put together."""

from typing import Annotated

import typer

from kinband.cli.audit import audit_command
from kinband.cli.bench import bench
from kinband.cli.check_city import check_city
from kinband.cli.compare import compare
from kinband.cli.demo import demo
from kinband.cli.evaluate import evaluate
from kinband.cli.ledger import ledger_app
from kinband.cli.recommend import recommend
from kinband.cli.replay import replay
from kinband.cli.reproduce import reproduce
from kinband.cli.serve import serve
from kinband.cli.similarity import similarity
from kinband.cli.simulate import simulate
from kinband.cli.token import token_app
from kinband.cli.trust import trust
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
app.command()(evaluate)
app.command()(recommend)
app.command("audit")(audit_command)
app.command()(trust)
app.command()(replay)
app.add_typer(ledger_app, name="ledger")
app.command()(serve)
app.add_typer(token_app, name="token")
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
