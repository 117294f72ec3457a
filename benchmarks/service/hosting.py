"""What a load test talks to: a service, or a bare handler that does one insert, each in a process of its own.

A service has the controller of `problem` on an empty ledger, or goes on with what a ledger holds ("past").

The bare handler is the least that any service of this kind does: FastAPI reads a small JSON body, and one row is
written and committed through the same engine with the same settings (`ledger.engines`) in a thread of the same pool.

Run as `python -m benchmarks.service.hosting service URL SEED STATIONS ROWS`; the first line that it prints is where
it listens, and with which token.
"""

import json
import os
import sys
from contextlib import closing
from typing import Any

from fastapi import Body, FastAPI
from sqlalchemy import Column, Integer, MetaData, Table, Text

from benchmarks.service.problem import load_controller
from kinband.controller import Controller
from kinband.errors import BadInputError
from kinband.service import running
from kinband.service.access.middleware import Limiter, failure_limits
from kinband.service.access.tokens import Tokens
from kinband.service.api import Limits
from kinband.service.ledger import Ledger
from kinband.service.operations import Operations

_ROWS = Table(
    "kinband_load_bare",
    MetaData(),
    Column("seq", Integer, primary_key=True, autoincrement=True),
    Column("payload", Text, nullable=False),
)


def bare_app(ledger: Ledger) -> FastAPI:
    """Return an application whose one handler inserts a row into the database of a ledger."""
    with ledger.connected(writes=True) as connection:
        _ROWS.create(connection, checkfirst=True)
    app = FastAPI(openapi_url=None)

    @app.post("/insert", status_code=201)
    def insert(payload: dict[str, Any] = Body()) -> dict[str, int]:  # noqa: B008
        with ledger.connected(writes=True) as connection:
            made = connection.execute(_ROWS.insert().values(payload=json.dumps(payload)))
        key = made.inserted_primary_key
        return {"seq": 0 if key is None else int(key[0])}

    return app


def remove_bare(url: str) -> None:
    """Take the table of the bare handler out of a database again."""
    with closing(Ledger.open(url)) as ledger, ledger.connected(writes=True) as connection:
        _ROWS.drop(connection, checkfirst=True)


def host(kind: str, url: str, *, seed: int, stations: int, rows: int) -> None:
    """Serve until a signal comes.

    Args:
        kind: "service", "past" or "bare".
        url: The ledger, or the database of the bare handler.
        seed: Draws the controller; of no matter for a past, as are the others.
        stations: How many it decides for.
        rows: How many rows it knows.
    """
    place = running.Place("127.0.0.1", 0)
    with running.take_socket(place) as taken, closing(Ledger.open(url)) as ledger:
        if kind == "bare":
            app, token = bare_app(ledger), ""
        else:
            controller = None if kind == "past" else load_controller(seed, stations=stations, rows=rows)
            app, token = _service(ledger, controller)

        def ready() -> None:
            sys.stdout.write(
                json.dumps({"port": taken.getsockname()[1], "token": token, "process": os.getpid()}) + "\n"
            )
            sys.stdout.flush()

        running.run(app, place, taken, level="warning", ready=ready)


def _service(ledger: Ledger, controller: Controller | None) -> tuple[FastAPI, str]:
    """Return a service and a token to come in with; it limits nobody, for the limit is not what is measured."""
    operations = Operations.open(ledger, controller, mode="autonomous", actor="load")
    tokens = Tokens(ledger)
    token = tokens.create(f"load-{len(tokens.list())}", "admin", by="load").token
    free = Limits(Limiter(rate=1e9, burst=1e9), failure_limits())
    return running.application(operations, tokens=tokens, limits=free), token


def main(arguments: list[str]) -> None:
    """Read the command line of the process."""
    kind, url, *numbers = arguments
    if kind not in ("service", "past", "bare") or len(numbers) != 3:
        raise BadInputError("give service, past or bare, a database, a seed, and how many stations and rows")
    seed, stations, rows = map(int, numbers)
    host(kind, url, seed=seed, stations=stations, rows=rows)


if __name__ == "__main__":
    main(sys.argv[1:])
