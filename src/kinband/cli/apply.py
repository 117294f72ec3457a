"""`kinband apply`, `kinband confirm` and `kinband rollback`: a change plan out into the network, and back."""

import os
import shlex
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from kinband.cli.ledger import needs_service
from kinband.cli.options import AsJson
from kinband.cli.render import echo_json, echo_lines, show, table
from kinband.counters import CounterMap
from kinband.counters.formulas import number_of
from kinband.deploy import (
    Access,
    Item,
    Receipt,
    apply,
    check,
    confirm,
    items_of,
    read_orders,
    roll_back,
    wave_folder,
    write_bulk_cm,
)
from kinband.errors import BadInputError, ConflictError, KinbandError
from kinband.planning.plan import RECEIPT
from kinband.progress import stage
from kinband.stats import counted

_SHOWN = 40  # rows of a table
PASSWORD, _TOKEN = "KINBAND_NETCONF_PASSWORD", "KINBAND_TOKEN"  # names of variables

PlanArgument = Annotated[Path, typer.Argument(metavar="PLAN", help="The folder that `kinband recommend` wrote.")]
UserOption = Annotated[
    str,
    typer.Option("--user", metavar="NAME", help="User on the nodes, if not that of the SSH configuration or your own."),
]
SshOption = Annotated[
    Path | None,
    typer.Option("--ssh-config", metavar="FILE", help="An OpenSSH configuration: keys, known hosts, users, a proxy."),
]
PasswordOption = Annotated[
    bool, typer.Option("--ask-password", help=f"Ask for a password; a program gives it in {PASSWORD}.")
]
TimeoutOption = Annotated[
    float, typer.Option("--timeout", metavar="SECONDS", min=1.0, max=3600.0, help="How long to wait for an answer.")
]
ServiceOption = Annotated[
    str, typer.Option("--service", metavar="URL", help=f"Tell this service what stations run; its token in {_TOKEN}.")
]

_NEXT = {"Confirm": "confirm", "Undo": "rollback"}


def apply_command(
    plan: PlanArgument,
    mapping: Annotated[
        Path, typer.Option("--map", metavar="FILE", help="The mapping: units, inventory, paths in NETCONF.")
    ],
    netconf: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="The node of objects for which the inventory names none.")
    ] = "",
    seconds: Annotated[
        int, typer.Option("--confirm", min=5, max=86_400, help="Seconds until nodes undo what nobody confirms.")
    ] = 300,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Compare with what runs, and change nothing.")] = False,
    bulk_cm: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Send nothing: write change and roll-back as bulk CM files."),
    ] = None,
    wave: Annotated[
        int | None,
        typer.Option(min=1, help="Which wave of a plan with --waves; its receipt is PLAN/wave-N.", show_default=False),
    ] = None,
    max_age: Annotated[float, typer.Option(metavar="DAYS", min=0.0, help="How old the plan may be.")] = 3.0,
    user: UserOption = "",
    ssh_config: SshOption = None,
    ask_password: PasswordOption = False,
    timeout: TimeoutOption = 30.0,
    as_json: AsJson = False,
) -> None:
    """Carry out a change plan over NETCONF: on all nodes or on none, and undone by itself unless it is confirmed.

    What runs must be what the plan expects; every value is read back. PLAN/applied.csv is the receipt.

    Example: kinband apply tonight --map map.yaml --netconf enb7:830 --confirm 300
    """
    if bulk_cm is not None and (netconf or dry_run):
        raise BadInputError("--bulk-cm writes files and sends nothing: leave out --netconf and --dry-run")
    read = CounterMap.read(mapping)
    orders = read_orders(plan, now=_now(), max_age=timedelta(days=max_age), wave=wave)
    items = items_of(orders, read, node=netconf)
    if bulk_cm is not None:
        files = write_bulk_cm(items, bulk_cm, read.writing.bulk_cm, now=_now())
        _tell(items, [f"{_count(items)} to change."], as_json=as_json, files=files)
        return
    access = _access(user, ssh_config, ask_password=ask_password, timeout=timeout)
    if dry_run:
        with stage("comparing"):
            check(items, access)
        line = f"What runs is what the plan expects; {_count(items)} would change. Nothing was changed."
        _tell(items, [line], as_json=as_json)
        return
    with stage("comparing and changing"):
        receipt = apply(items, plan, access, seconds=seconds, clock=_now, wave=wave)
    plan = plan if wave is None else wave_folder(plan, wave)
    until = f"{receipt.until.astimezone():%H:%M:%S}"
    way_in = [*(["--user", user] if user else []), *(["--ssh-config", str(ssh_config)] if ssh_config else [])]
    lines = [
        f"{_count(items)} changed and read back. Undone by itself at {until} unless confirmed.",
        *(f"{said}: {shlex.join(['kinband', what, str(plan), *way_in])}" for said, what in _NEXT.items()),
    ]
    _tell(items, lines, as_json=as_json, receipt=receipt, files=[plan / RECEIPT])


def confirm_command(
    plan: PlanArgument,
    user: UserOption = "",
    ssh_config: SshOption = None,
    ask_password: PasswordOption = False,
    timeout: TimeoutOption = 30.0,
    service: ServiceOption = "",
    as_json: AsJson = False,
) -> None:
    """Have the change of a plan stay, from any machine that has the plan's folder with its receipt.

    Example: kinband confirm tonight
    """
    access = _access(user, ssh_config, ask_password=ask_password, timeout=timeout)
    with stage("confirming"):
        receipt = confirm(plan, access, clock=_now)
    _report(receipt, "confirmed and read back", plan=plan, service=service, as_json=as_json)


def rollback_command(
    plan: PlanArgument,
    user: UserOption = "",
    ssh_config: SshOption = None,
    ask_password: PasswordOption = False,
    timeout: TimeoutOption = 30.0,
    service: ServiceOption = "",
    as_json: AsJson = False,
) -> None:
    """Undo what was carried out of a plan, confirmed or not; where somebody has changed it since, nothing is touched.

    Example: kinband rollback tonight
    """
    access = _access(user, ssh_config, ask_password=ask_password, timeout=timeout)
    with stage("rolling back"):
        receipt = roll_back(plan, access, clock=_now)
    _report(receipt, "as before, and read back", plan=plan, service=service, as_json=as_json)


def _now() -> datetime:
    return datetime.now(UTC)


def _access(user: str, ssh_config: Path | None, *, ask_password: bool, timeout: float) -> Access:
    password = os.environ.get(PASSWORD)
    if ask_password:
        password = typer.prompt("Password", hide_input=True, err=True)
    return Access(user, "" if ssh_config is None else str(ssh_config), password=password, timeout=timeout)


# --- What is told ---------------------------------------------------------------------------------------------------


def _count(items: Sequence[Item]) -> str:
    moving = [item for item in items if item.moves]
    stations, nodes = (len({getattr(item, name) for item in moving}) for name in ("station", "node"))
    return f"{counted(len(moving), 'value')} of {counted(stations, 'station')} on {counted(nodes, 'node')}"


def _tell(
    items: Sequence[Item],
    lines: Sequence[str],
    *,
    as_json: bool,
    receipt: Receipt | None = None,
    files: Sequence[Path] = (),
) -> None:
    moving = [item for item in items if item.moves]
    if as_json:
        changes = [
            {"station": one.station, "knob": one.knob, "present": one.present, "set": one.wanted, "node": one.node,
             "dn": one.dn, "attribute": one.attribute, "before": one.before, "after": one.after}
            for one in moving
        ]  # fmt: skip
        told: dict[str, Any] = {"changes": changes, "files_written": [str(file) for file in files]}
        if receipt is not None:
            told |= {"wave": int(receipt.wave)} if receipt.wave else {}
            told |= {"persist_id": receipt.persist, "until": receipt.until.isoformat(), "states": dict(receipt.states)}
        echo_json(told)
        return
    made = table("station", "knob", "change", "attribute", "node", narrow=True)
    for one in moving[:_SHOWN]:
        made.add_row(
            one.station,
            one.knob,
            f"{one.present} → {one.wanted}",
            f"{one.attribute} {one.before} → {one.after}",
            one.node or "-",
        )
    made.caption = f"and {len(moving) - _SHOWN:,} more" if len(moving) > _SHOWN else None
    show(made)
    echo_lines(*lines, files=files)


def _report(receipt: Receipt, what: str, *, plan: Path, service: str, as_json: bool) -> None:
    if service:
        _tell_service(receipt, service)
    if as_json:
        echo_json(
            {"states": dict(receipt.states), "persist_id": receipt.persist, "files_written": [str(plan / RECEIPT)]}
        )
        return
    echo_lines(f"{_count(receipt.items)}: {what}.", files=[plan / RECEIPT])


# --- What really runs, told to the service --------------------------------------------------------------------------


def _tell_service(receipt: Receipt, url: str) -> None:
    """Report by the present decision of each station what it runs now."""
    with needs_service():
        from kinband.service.client import KinbandClient
    failed: dict[str, KinbandError] = {}
    with KinbandClient(url, os.environ.get(_TOKEN, "")) as client:
        for station, configuration in _runs(receipt).items():
            try:
                _tell_one(client, station, configuration, receipt)
            except KinbandError as error:
                failed[station] = error
    if failed:
        station, why = next(iter(failed.items()))
        missed = f"{counted(len(failed), 'station')}, such as {station} ({why.problem})"
        raise ConflictError(
            f"the network runs it, but the service does not know of {missed}",
            hint="run this again to tell it again",
        )


def _tell_one(client: Any, station: str, configuration: Mapping[str, Any], receipt: Receipt) -> None:
    known = client.station(station)
    if known.last is None:
        raise ConflictError(f"station {station} has no decision yet, by which it could be told")
    state = next(receipt.states[item.node] for item in receipt.items if item.station == station)
    comment, key = f"read back from the network, {receipt.persist}", f"{receipt.persist}-{state}-{known.last}"
    client.applied(known.last, {**(known.running or {}), **configuration}, comment=comment, key=key)


def _runs(receipt: Receipt) -> dict[str, dict[str, Any]]:
    """Return station to knob to what it runs, as the receipt has it."""
    found: dict[str, dict[str, Any]] = {}
    for item in receipt.items:
        text = item.present if receipt.states[item.node] == "undone" else item.wanted
        number = number_of(text)
        value = text if number != number else int(number) if number == int(number) else number
        found.setdefault(item.station, {})[item.knob] = value
    return found
