"""Write requirements-service.txt: what the service needs, in the versions of constraints.txt, with all hashes.

    python tools/lock.py

Names come from what is installed here, for the least Python that kinband takes; hashes from the index that pip uses.
`pip install --require-hashes -r requirements-service.txt` then takes nothing that was changed since.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path
from urllib.parse import unquote
from urllib.request import urlopen

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
LOCK = ROOT / "requirements-service.txt"
EXTRAS = ("service", "oidc", "telemetry")
_HEAD = """\
# Exact versions with hashes of all that the service and its extras need, made by python tools/lock.py.
# pip install --require-hashes -r requirements-service.txt, then: pip install --no-deps kinband
"""
_FILE = re.compile(r'href="(?:[^"#]*/)?([^"#/]+)#sha256=([0-9a-f]{64})"')


def needed() -> list[str]:
    """Return the names of all packages that kinband with its service needs on this platform, itself left out."""
    found, todo = dict[str, None](), [("kinband", extra) for extra in ("", *EXTRAS)]
    seen = set(todo)
    while todo:
        name, extra = todo.pop()
        for text in distribution(name).requires or ():
            wanted = Requirement(text)
            if wanted.marker is None or wanted.marker.evaluate({"extra": extra}):
                for further in ("", *wanted.extras):
                    if (one := (canonicalize_name(wanted.name), further)) not in seen:
                        seen.add(one)
                        todo.append(one)
                found[canonicalize_name(wanted.name)] = None
    return sorted(found)


def pinned() -> dict[str, str]:
    """Return the versions of constraints.txt."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pairs = (line.split("==") for line in lines if "==" in line and not line.startswith("#"))
    return {canonicalize_name(name.strip()): version.strip() for name, version in pairs}


def index() -> str:
    """Return the address of the index that pip uses."""
    told = subprocess.run(
        [sys.executable, "-m", "pip", "config", "get", "global.index-url"], capture_output=True, text=True, check=False
    )
    if told.returncode == 0:
        return told.stdout.strip().rstrip("/")
    usual = "from pip._internal.models.index import PyPI; print(PyPI.simple_url)"
    asked = subprocess.run([sys.executable, "-c", usual], capture_output=True, text=True, check=True)  # noqa: S603
    return asked.stdout.strip().rstrip("/")


def hashes(name: str, version: str, *, url: str) -> Iterator[str]:
    """Give the hashes of all files of a version, from the page of the index (PEP 503)."""
    with urlopen(f"{url}/{name}/", timeout=60) as answer:  # noqa: S310
        page = answer.read().decode()
    for file, found in _FILE.findall(page):
        parts = unquote(file).removesuffix(".tar.gz").removesuffix(".zip").split("-")
        ours = [i for i, part in enumerate(parts) if part == version]
        if ours and canonicalize_name("-".join(parts[: ours[0]])) == name:
            yield found


def main() -> None:
    """Write the file."""
    versions, url, lines = pinned(), index(), [_HEAD]
    for name in needed():
        found = sorted(hashes(name, versions[name], url=url))
        if not found:
            raise SystemExit(f"the index {url} has no file of {name} {versions[name]}")
        lines.append(" \\\n    ".join([f"{name}=={versions[name]}", *(f"--hash=sha256:{one}" for one in found)]) + "\n")
    LOCK.write_text("".join(lines), encoding="utf-8")
    sys.stdout.write(f"{LOCK.name}: {len(lines) - 1} packages\n")


if __name__ == "__main__":
    main()
