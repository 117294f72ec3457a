"""From a ledger and a file of rails to operations: what a service starts with, new or once more."""

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kinband.controller import Controller, Setup
from kinband.errors import BadInputError, NotFoundError
from kinband.guardrails import Rails, rails_from_text
from kinband.guardrails.yaml import text_of
from kinband.service.ledger import Event, Ledger
from kinband.service.ledger.restoring import read_setup
from kinband.service.operations import Clock, Mode, Operations
from kinband.service.operations.feeds import Feed
from kinband.service.operations.records import Called
from kinband.service.operations.review import rails_on_record
from kinband.service.schemas import Manner

if TYPE_CHECKING:
    from kinband.cluster import OnRay

_LOG = logging.getLogger("kinband.service")


def setup_on_record(ledger: Ledger) -> Setup | None:
    """Return what the controller of a ledger was made with; None where it has none yet."""
    try:
        return read_setup(ledger)
    except NotFoundError:
        return None


def rails_for(ledger: Ledger, setup: Setup, file: Path | None) -> tuple[Rails | None, str]:
    """Return the rails and the text that they were read from: those of a file, else those on record.

    That no file is named is no reason to drop limits that hold; a file with {} does. Nor is a restart a reason to take
    back what a person put in the place of the file while the service ran, unless the file is another one by now.

    Args:
        ledger: Where rails may be on record.
        setup: What stations there are to begin with, and what they can run.
        file: The file; None to go on with what is on record.
    """
    stations = stations_on_record(ledger, setup)
    told = list(ledger.read(kinds=["rails"], newest_first=True))
    newest = told[0] if told else None
    if file is not None:
        rails, text = rails_in(file, setup, stations=stations)
        if newest is None or not _replaced(told, text):
            return rails, text
        _LOG.warning(
            "%s was in force before and %s has put other rails in its place, which stay in force: change the file "
            "to have it back, or put it in force again",
            file,
            newest.actor or "somebody",
        )
    text = "" if newest is None else str(newest.payload["text"])
    if not text:
        _check_never_any(ledger, told)
        return None, ""
    return rails_on_record(text, setup.encoder.space, stations=stations), text


def _check_never_any(ledger: Ledger, told: Sequence[Event]) -> None:
    """Refuse to go on without rails where there were some that nobody lifted; the newest first."""
    last = next((event for event in told if event.payload["text"]), None)
    if last is not None:
        raise BadInputError(
            f"the ledger {ledger.name} had guard rails (event {last.seq}, {last.at[:10]}) that were dropped without "
            f"anybody lifting them (event {told[0].seq}, {told[0].at[:10]})",
            hint="give --rails with their file, or with a file of {} to lift them",
        )


def stations_on_record(ledger: Ledger, setup: Setup) -> list[str]:
    """Return every station that there is or was: those that the controller was made with, and those that joined."""
    joined = (event.station for event in ledger.read(kinds=["station"]) if event.station)
    return list(dict.fromkeys([*setup.stations, *joined]))


def rails_in(file: Path, setup: Setup, *, stations: Sequence[str]) -> tuple[Rails, str]:
    """Return the rails of a file and its text, or complain with the line; the file is read once.

    Args:
        file: The file.
        setup: What stations can run, and what rewards lie in.
        stations: Every station that the file may name.
    """
    text, span = text_of(file), setup.config.reward_range
    found = rails_from_text(text, setup.encoder.space, stations=stations, reward_range=span, source=str(file))
    return found, text


def _replaced(told: Sequence[Event], text: str) -> bool:
    """Whether a person has put other rails in the place of a file that the last start brought; the newest first."""
    if told[0].payload.get("by") != "person":
        return False
    brought = next((event for event in told if event.payload.get("by") != "person"), None)
    return brought is not None and brought.payload["text"] == text


def open_operations(
    ledger: Ledger,
    *,
    start: Callable[[], Controller] | None = None,
    rails: Path | None = None,
    names: Callable[[], Mapping[str, Called]] = dict,
    mode: Mode | None = None,
    manner: Manner | None = None,
    clock: Clock | None = None,
    feed: Feed | None = None,
    on: "OnRay | None" = None,
) -> Operations:
    """Go on with the operations of a ledger, or start them.

    Args:
        ledger: Where everything is on record.
        start: Makes what an empty ledger starts with; not called for one that has a controller.
        rails: The file of rails; None to go on with those on record.
        names: Tells, once the ledger has begun, what pages call the reward, knobs and features.
        mode: The mode of all stations where none was ever set; "shadow" if not given.
        manner: Who says that an order is carried out; None for what is on record.
        clock: What says the time.
        feed: How counters are read from now on; as is on record if not given.
        on: The Ray cluster on which shards learn; None for this process.
    """
    setup, controller = setup_on_record(ledger), None
    if setup is None:
        if start is None:
            raise BadInputError(
                f"the ledger {ledger.name} is empty: give --start with a log, or with a folder of Controller.save"
            )
        controller = start()
        setup = controller.setup
    found, text = rails_for(ledger, setup, rails)
    for warning in ledger.warnings:
        _LOG.warning(warning)
    operations = Operations.open(
        ledger, controller, rails=found, rails_text=text, names=names(), mode=mode or "shadow", manner=manner,
        clock=clock, feed=feed, on=on, actor="service",
    )  # fmt: skip
    _LOG.info("the head of the ledger %s is %s", ledger.name, ledger.head())
    return operations
