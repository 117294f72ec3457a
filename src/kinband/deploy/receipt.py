"""The receipt: what was sent where and what became of it, in `applied.csv` of the plan's folder.

It is written before the first node is told to change, so that whatever dies later, another process knows the id with
which to confirm or cancel. It holds all that is needed for that: neither plan nor mapping is read again.
"""

import csv
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Literal, Protocol, get_args

from kinband.deploy.orders import Item
from kinband.errors import BadInputError, ConflictError
from kinband.planning.plan import RECEIPT, plain_text, safe_json, write_csv

State = Literal["sending", "pending", "confirmed", "undone"]
"""Of a node: being told, changed until `until` unless confirmed, changed for good, as it was."""

_OF_ITEM = ("station", "knob", "present", "wanted", "node", "dn", "attribute", "before", "after")
_COLUMNS = ("station", "knob", "present", "set", "runs", "state", "at", "until")
_COLUMNS += ("node", "dn", "attribute", "before", "after", "persist_id", "path")  # type: ignore[assignment]


@dataclass(frozen=True)
class Receipt:
    """What was carried out of a plan.

    Attributes:
        items: What was compared and set.
        states: Node to its state.
        runs: What was read back, by path; what is not there was not read.
        persist: The id to confirm or cancel with.
        until: When nodes undo the change by themselves.
        at: When it was last brought up to date.
        wave: Which wave of the plan it was, "" for all of it.

    Example:
        >>> from datetime import UTC
        >>> time = datetime(2026, 11, 1, tzinfo=UTC)
        >>> Receipt((), {}, {}, "kinband-1", until=time, at=time).in_force
        []
    """

    items: tuple[Item, ...]
    states: Mapping[str, State]
    runs: Mapping[str, str]
    persist: str
    until: datetime
    at: datetime
    wave: str = ""

    @property
    def in_force(self) -> list[str]:
        """The nodes that run what the plan set, or may."""
        return [node for node, state in self.states.items() if state != "undone"]

    def on(self, node: str) -> list[Item]:
        """Return what was set on a node."""
        return [item for item in self.items if item.node == node]

    def told(
        self, nodes: Iterable[str], state: State, *, at: datetime, runs: Mapping[str, str] | None = None
    ) -> "Receipt":
        """Return the receipt with another state of some nodes."""
        return replace(
            self, states={**self.states, **dict.fromkeys(nodes, state)}, runs={**self.runs, **(runs or {})}, at=at
        )

    def write(self, plan: Path) -> Path:
        """Write it into the folder of a plan; what was there stays until the new one is whole."""
        file, new = plan / RECEIPT, plan / f".{RECEIPT}.new"
        write_csv(new, [*_COLUMNS, *(["wave"] if self.wave else [])], map(self._row, self.items))
        with new.open("rb") as written:
            os.fsync(written.fileno())
        new.replace(file)
        return file

    def _row(self, item: Item) -> dict[str, str]:
        return {
            "station": item.station,
            "knob": item.knob,
            "present": item.present,
            "set": item.wanted,
            "runs": self.runs.get(key_of(item), ""),
            "state": self.states[item.node],
            "at": self.at.isoformat(timespec="seconds"),
            "until": self.until.isoformat(timespec="seconds"),
            "node": item.node,
            "dn": item.dn,
            "attribute": item.attribute,
            "before": item.before,
            "after": item.after,
            "persist_id": self.persist,
            "path": safe_json(json.dumps(item.path)),
            "wave": self.wave,
        }

    @classmethod
    def read(cls, plan: Path) -> "Receipt":
        """Read the receipt in the folder of a plan."""
        file = plan / RECEIPT
        try:
            with file.open(encoding="utf-8", newline="") as text:
                rows = list(csv.DictReader(text))
            return _receipt(rows)
        except FileNotFoundError as error:
            if waves := sorted(one.parent.name for one in plan.glob(f"wave-*/{RECEIPT}")):
                raise BadInputError(
                    f"{plan} was carried out in waves, and each has a receipt of its own",
                    hint=f"name the wave: {plan / waves[-1]}",
                ) from error
            raise BadInputError(f"{plan} has no {RECEIPT}: nothing of this plan was carried out") from error
        except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
            raise BadInputError(f"{file} is damaged ({error}): look at what the nodes run") from error


def _receipt(rows: list[dict[str, str]]) -> Receipt:
    made = [({name: plain_text(text) for name, text in row.items()}, row["path"]) for row in rows]
    items = tuple(_item(row, path) for row, path in made)
    states: dict[str, State] = {}
    for row, _ in made:
        if row["state"] not in get_args(State):
            raise ValueError(f"state {row['state']!r:.20}")
        states[row["node"]] = row["state"]  # type: ignore[assignment]
    runs = {key_of(item): row["runs"] for item, (row, _) in zip(items, made, strict=True) if row["runs"]}
    first = made[0][0]
    until, at = (datetime.fromisoformat(first[name]) for name in ("until", "at"))
    return Receipt(items, states, runs, first["persist_id"], until=until, at=at, wave=first.get("wave") or "")


def _item(row: Mapping[str, str], path: str) -> Item:
    own = {name: row["set" if name == "wanted" else name] for name in _OF_ITEM}
    steps = tuple((name, tuple((key, text) for key, text in keys)) for name, keys in json.loads(path))
    return Item(**own, path=steps)


def key_of(item: Item) -> str:
    """Return what tells an item from others."""
    return f"{item.node} {item.dn} {item.attribute}"


# --- Where receipts are kept: in the folder of a plan, or in the ledger of a service --------------------------------


class Keeper(Protocol):
    """Where a receipt is kept: before the first node is told to change, and whenever it says something else."""

    @property
    def undo(self) -> str:
        """What undoes the change, for sentences."""
        ...

    def keep(self, receipt: Receipt) -> None:
        """Keep it; what it raises before the first node is told leaves all as they are."""
        ...


@dataclass(frozen=True)
class Folder:
    """The folder of a plan, or of one of its waves, as what keeps a receipt.

    Example:
        >>> Folder(Path("tonight")).undo
        'kinband rollback tonight'
    """

    path: Path

    @property
    def undo(self) -> str:
        """The command that undoes the change."""
        return f"kinband rollback {self.path}"

    def keep(self, receipt: Receipt) -> None:
        """Write the receipt into the folder, which is made if it is not there."""
        self.path.mkdir(exist_ok=True)
        receipt.write(self.path)


# --- Waves: each has a folder of its own in that of the plan --------------------------------------------------------


def wave_folder(plan: Path, wave: int) -> Path:
    """Return where the receipt of a wave is.

    Example:
        >>> wave_folder(Path("tonight"), 2).name
        'wave-2'
    """
    return plan / f"wave-{wave}"


def check_waves_before(plan: Path, wave: int) -> None:
    """Refuse a wave whose predecessors are not confirmed.

    Example:
        >>> check_waves_before(Path("tonight"), 1)
    """
    for earlier in range(1, wave):
        folder = wave_folder(plan, earlier)
        known = Receipt.read(folder).states if (folder / RECEIPT).exists() else {}
        if not known or any(state != "confirmed" for state in known.values()):
            was = "has not been carried out" if not known else "was undone" if "undone" in known.values() else ""
            raise ConflictError(
                f"wave {earlier} of the plan in {plan} {was or 'is not confirmed'}, and wave {wave} builds on it",
                hint="plan again with what runs now" if was == "was undone" else "carry out and confirm it first",
                code="wave_before",
                argument="wave",
                value=wave,
            )
