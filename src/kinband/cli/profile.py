"""Profiles: the options that say how a vendor's exports are read, kept in a YAML file.

Keys are spelled as the options of the command line. What is wrong with a profile is said with its line, and an option
on the command line goes before the profile.
"""

from pathlib import Path
from typing import Any

from kinband.errors import BadInputError
from kinband.guardrails.yaml import Entry, entry_of, text_of

_TEXT = ("station", "reward", "time", "samples", "delimiter", "decimal-point", "encoding", "date-format")
_LISTS = ("configuration", "category", "state", "ignore")
_SWITCHES = ("per-cent", "skip-bad")
KEYS = (*_TEXT, *_LISTS, *_SWITCHES, "reward-range")
"""What a profile may hold."""


def read_profile(path: Path) -> dict[str, Any]:
    r"""Return the options of a profile, by the names of their arguments.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp()) / "vendor.yaml"
        >>> _ = file.write_text("station: Cell Name\nconfiguration: [tilt]\nskip-bad: on\n")
        >>> read_profile(file)
        {'station': 'Cell Name', 'configuration': ['tilt'], 'skip_bad': True}
    """
    text = text_of(path)
    if not text.strip():
        raise BadInputError(f"{path}, line 1: the profile is empty: write keys such as station: Cell Name")
    given = entry_of(text, source=str(path)).mapping(KEYS)
    return {name.replace("-", "_"): _value(name, entry) for name, entry in given.items()}


def _value(name: str, entry: Entry) -> Any:
    if name in _SWITCHES:
        return entry.switch()
    if name in _LISTS:
        return [one.text() for one in entry.items()] if entry.kind == "seq" else [entry.text()]
    if name == "reward-range":
        both = [one.number() for one in entry.items()]
        return (both[0], both[1]) if len(both) == 2 else entry.fail("reward-range must be two numbers, such as [0, 1]")
    return entry.text()


def check_saved(path: Path) -> None:
    """Refuse to write a profile over a file that is none."""
    try:
        if path.exists():
            read_profile(path)
    except BadInputError:
        raise BadInputError(
            f"{path} exists and is no profile: choose another name for --save-profile, or remove it"
        ) from None


def write_profile(path: Path, options: dict[str, Any]) -> None:
    """Write options, by the names of their arguments, as a profile."""
    import yaml

    kept = {name.replace("_", "-"): value for name, value in options.items() if value not in (None, False, [], ())}
    kept = {name: list(value) if isinstance(value, tuple) else value for name, value in kept.items() if name in KEYS}
    if not path.parent.is_dir():
        raise BadInputError(f"there is no directory {path.parent} to write to: make it first")
    head = "# How these exports are read; options on the command line go before what is written here.\n"
    path.write_text(head + yaml.safe_dump(kept, sort_keys=False, allow_unicode=True), encoding="utf-8")
