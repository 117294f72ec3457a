"""How much the tests of a room notice: `python tools/mutants.py guardrails posterior service/ledger --count 200`.

A mutant is the room's source with one small fault (cosmic-ray's operators: a comparison turned, a number moved by one,
a `not` added, a loop that never runs). It is killed if one of the room's own tests fails. Places are drawn at random
with a seed, each once, then one of the faults possible there; one that cosmic-ray cannot make is passed over. The tree
of a commit is copied into a temporary folder, so the work tree is never touched. cosmic-ray may live in an environment
of its own: KINBAND_PYTHON then names the interpreter that runs the tests.
"""

# ruff: noqa: T201, S603, S607  (a report on the screen is all it does; it runs git, tar and pytest)

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent

# What tests a room beside its unit tests and the examples in its docstrings.
BESIDE = {
    "guardrails": ("tests/property/test_guard.py",),
    "posterior": (
        *("tests/property/test_posteriors.py", "tests/property/test_shared_state.py", "tests/property/test_sparse.py"),
        "tests/reference",
    ),
    "service/ledger": ("tests/contract/test_ledger*.py",),
}
_LEFT_OUT = ("BitOr", "Variable")  # `int | None`: faults in types say nothing about tests; others want arguments


def main() -> None:
    """Draw mutants, run the tests against each, and print the share that was killed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rooms", nargs="*", default=list(BESIDE), help="folders of src/kinband (%(default)s)")
    parser.add_argument("--at", default="HEAD", help="the commit whose code and tests are looked at")
    parser.add_argument("--count", type=int, default=200, help="how many mutants a room")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--write", type=Path, help="a file of JSON lines that is added to; drawn mutants in it are kept"
    )
    args = parser.parse_args()
    if find_spec("cosmic_ray") is None:
        sys.exit("the faults are cosmic-ray's, which is not installed: python -m pip install cosmic-ray")
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        archive = subprocess.run(["git", "archive", args.at], cwd=ROOT, check=True, capture_output=True).stdout
        subprocess.run(["tar", "-x", "-C", folder], input=archive, check=True)
        for room in args.rooms:
            judge(room, tree, count=args.count, seed=args.seed, write=args.write)


def judge(room: str, tree: Path, *, count: int, seed: int, write: Path | None) -> None:
    """Run the tests of a room against its mutants, and print what was found."""
    source, tests = paths(room, tree)
    began = time.perf_counter()
    if not passes(tests, tree, timeout=900.0):
        sys.exit(f"the tests of {room} fail without any fault: {' '.join(tests)}")
    usual = time.perf_counter() - began
    known = recorded(room, write)
    killed = seen = 0
    for file, name, occurrence, line in places(source, seed=seed):
        key = f"{room}:{file.relative_to(tree)}:{line}:{name}:{occurrence}"
        if key not in known:
            noticed = tried(file, name, occurrence, tests=tests, tree=tree, timeout=3.0 * usual + 30.0)
            if noticed is None:
                continue
            known[key] = noticed
            if write is not None:
                with write.open("a") as lines:
                    lines.write(json.dumps({"mutant": key, "killed": noticed}) + "\n")
        seen, killed = seen + 1, killed + known[key]
        print(f"{seen:>4} of {count}, {killed} killed  {'' if known[key] else 'SURVIVED ' + key}", flush=True)
        if seen == count:
            break
    print(f"{room}: {killed} of {seen} mutants killed ({killed / max(1, seen):.1%})")


def paths(room: str, tree: Path) -> tuple[Path, list[str]]:
    """Return the folder of a room and its tests, examples in docstrings included."""
    source = f"src/kinband/{room}"
    if not (tree / source).is_dir():
        sys.exit(f"there is no room {room!r} at that commit")
    patterns = (f"tests/unit/{room}", *BESIDE.get(room, ()))
    return tree / source, [*(str(p.relative_to(tree)) for one in patterns for p in sorted(tree.glob(one))), source]


def recorded(room: str, write: Path | None) -> dict[str, bool]:
    """Return the mutants that an earlier run has judged."""
    if write is None or not write.exists():
        return {}
    rows = [json.loads(line) for line in write.read_text().splitlines()]
    return {row["mutant"]: row["killed"] for row in rows if row["mutant"].startswith(f"{room}:")}


def places(source: Path, *, seed: int) -> list[tuple[Path, str, int, int]]:
    """Return every place of a room with one fault drawn for it, in random order: file, operator, occurrence, line."""
    from cosmic_ray.ast import get_ast
    from cosmic_ray.plugins import get_operator, operator_names

    found: dict[tuple[Path, Any], list[tuple[str, int]]] = {}
    for file in sorted(source.rglob("*.py")):
        tree = get_ast(file.read_text())
        for name in operator_names():
            if any(part in name for part in _LEFT_OUT):
                continue
            operator, occurrence = get_operator(name)(), 0
            for node in walk(tree):
                for start, _stop in operator.mutation_positions(node):
                    found.setdefault((file, start), []).append((name, occurrence))
                    occurrence += 1
    rng = random.Random(seed)
    keys = sorted(found)
    rng.shuffle(keys)
    return [(file, *rng.choice(found[file, start]), start[0]) for file, start in keys]


def walk(node: Any) -> Any:
    """Yield a node of cosmic-ray's syntax tree and all below it, in the order in which it counts occurrences."""
    yield node
    for child in getattr(node, "children", ()):
        yield from walk(child)


def tried(file: Path, name: str, occurrence: int, *, tests: list[str], tree: Path, timeout: float) -> bool | None:
    """Return whether the tests notice one fault, as they do one that never ends; None where it cannot be made.

    An operator may find a place that it cannot change: that of exceptions does not know names with a dot.
    """
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator

    before = file.read_text()
    try:
        after = mutate_code(before, get_operator(name)(), occurrence)
    except AttributeError:
        return None
    if after is None:
        return None
    file.write_text(after)
    try:
        return not passes(tests, tree, timeout=timeout)
    finally:
        file.write_text(before)


def passes(tests: list[str], tree: Path, *, timeout: float) -> bool:
    """Return whether tests pass; the first that fails ends the run."""
    command = [os.environ.get("KINBAND_PYTHON", sys.executable), "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
    quiet = {"OPENBLAS_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(tree / "src")}
    try:
        done = subprocess.run(
            [*command, *tests], cwd=tree, env={**os.environ, **quiet}, timeout=timeout, capture_output=True, check=False
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


if __name__ == "__main__":
    main()
