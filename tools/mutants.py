"""How much the tests of a room notice: `python tools/mutants.py guardrails posterior service/ledger --count 200`.

A mutant is the room's source with one small fault (cosmic-ray's operators: a comparison turned, a number moved by one,
a `not` added, a loop that never runs). It is killed if one of the room's own tests fails. Places are drawn at random
with a seed, each once, then one of the faults possible there; one that cosmic-ray cannot make is passed over. The tree
of a commit is copied into a temporary folder, so the work tree is never touched. cosmic-ray may live in an environment
of its own: KINBAND_PYTHON then names the interpreter that runs the tests.

Before that all tests run once, without a fault, and `reached.py` notes which statements each of them reaches. Against
a mutant only those run that reach its statement, quick ones first; all of them where it is no statement of a function.
A statement that no test reaches leaves a survivor. So a survivor may be one that another test would have noticed, by
what an earlier one left behind (a fixture of a module) or in another process: the share is never too high.
"""

# ruff: noqa: T201, S603, S607  (a report on the screen is all it does; it runs git, tar and pytest)

import argparse
import ast
import json
import os
import random
import subprocess
import sys
import tempfile
from dataclasses import dataclass
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
    parser.add_argument("--again", action="store_true", help="try again what survived according to the file")
    args = parser.parse_args()
    if find_spec("cosmic_ray") is None:
        sys.exit("the faults are cosmic-ray's, which is not installed: python -m pip install cosmic-ray")
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        archive = subprocess.run(["git", "archive", args.at], cwd=ROOT, check=True, capture_output=True).stdout
        subprocess.run(["tar", "-x", "-C", folder], input=archive, check=True)
        for room in args.rooms:
            judge(room, tree, count=args.count, seed=args.seed, write=args.write, again=args.again)


def judge(room: str, tree: Path, *, count: int, seed: int, write: Path | None, again: bool) -> None:
    """Run the tests of a room against its mutants, and print what was found."""
    source, tests = paths(room, tree)
    by_test = measured(source, tests, tree)
    known = {key: noticed for key, noticed in recorded(room, write).items() if noticed or not again}
    killed = seen = 0
    for file, name, occurrence, line in places(source, seed=seed):
        key = f"{room}:{file.relative_to(tree)}:{line}:{name}:{occurrence}"
        if key not in known:
            chosen = reaching(by_test, file, line)
            noticed = tried(file, name, occurrence, chosen=chosen, tree=tree)
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


@dataclass(frozen=True)
class Reach:
    """How long a test takes, and which lines it reaches, by file."""

    seconds: float
    lines: dict[str, set[int]]


def measured(source: Path, tests: list[str], tree: Path) -> dict[str, Reach]:
    """Run all tests once without a fault and return what each reaches; quick files first, and quick tests in them."""
    write = tree / "reached.json"
    if not passes(tests, tree, timeout=900.0, REACHED=str(source), WRITE=str(write)):
        sys.exit(f"tests fail without any fault: {' '.join(tests)}")
    rows = json.loads(write.read_text())
    found = {name: Reach(row["seconds"], {f: set(n) for f, n in row["lines"].items()}) for name, row in rows.items()}
    if not any(reach.lines for reach in found.values()):
        sys.exit(f"no test reaches {source}: is another copy of kinband imported?")
    by_file: dict[str, float] = {}
    for name, reach in found.items():
        by_file[file_of(name)] = by_file.get(file_of(name), 0.0) + reach.seconds
    return dict(sorted(found.items(), key=lambda one: (by_file[file_of(one[0])], file_of(one[0]), one[1].seconds)))


def file_of(test: str) -> str:
    """Return the file of a test."""
    return test.partition("::")[0]


def reaching(by_test: dict[str, Reach], file: Path, line: int) -> dict[str, Reach]:
    """Return the tests that reach the statement of a line, all where it is not in a function."""
    stretch = statement(file.read_text(), line)
    if stretch is None:
        return by_test
    wanted = set(range(stretch[0], stretch[1] + 1))
    return {name: reach for name, reach in by_test.items() if wanted & reach.lines.get(str(file), set())}


def statement(text: str, line: int) -> tuple[int, int] | None:
    """Return first and last line of the innermost statement, without the statements in it; None outside functions."""
    inside, found = False, None
    node: Any = ast.parse(text)
    while True:
        parts = (ast.stmt, ast.ExceptHandler, ast.match_case)
        within = [part for part in statements(node, parts) if first_line(part) <= line <= last_line(part)]
        if not within:
            break
        inside = inside or isinstance(node, ast.FunctionDef)
        node = within[0]
        below = [first_line(part) for part in statements(node, parts)]
        found = (first_line(node), max(first_line(node), min([*below, last_line(node) + 1]) - 1))
    body = isinstance(node, ast.FunctionDef | ast.ClassDef)
    return found if inside and not body else None


def statements(node: ast.AST, parts: tuple[type[ast.AST], ...]) -> list[Any]:
    """Return the statements right below a node."""
    return [child for child in ast.iter_child_nodes(node) if isinstance(child, parts)]


def first_line(node: Any) -> int:
    """Return the line on which a statement begins, its decorators included."""
    if isinstance(node, ast.match_case):
        return int(node.pattern.lineno)
    return int(min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", ()))]))


def last_line(node: Any) -> int:
    """Return the last line of a statement."""
    end = node.body[-1].end_lineno if isinstance(node, ast.match_case) else node.end_lineno
    return int(end or 0)


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


def tried(file: Path, name: str, occurrence: int, *, chosen: dict[str, Reach], tree: Path) -> bool | None:
    """Return whether tests notice one fault, as they do one that never ends; None where it cannot be made.

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
    if not chosen:
        return False
    names = tree / "chosen.json"
    names.write_text(json.dumps(list(chosen)))
    timeout = 3.0 * sum(reach.seconds for reach in chosen.values()) + 30.0
    file.write_text(after)
    try:
        return not passes(list(dict.fromkeys(map(file_of, chosen))), tree, timeout=timeout, CHOSEN=str(names))
    finally:
        file.write_text(before)


def passes(tests: list[str], tree: Path, *, timeout: float, **told: str) -> bool:
    """Return whether tests pass; the first that fails ends the run. What `reached.py` is told, it is told by name."""
    command = [os.environ.get("KINBAND_PYTHON", sys.executable), "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
    quiet = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    quiet |= {"PYTHONPATH": f"{tree / 'src'}{os.pathsep}{ROOT / 'tools'}"}
    if "CHOSEN" in told:
        quiet["PYTHONDONTWRITEBYTECODE"] = "1"  # what the run without a fault has compiled stays
    quiet |= {f"KINBAND_{name}": value for name, value in told.items()}
    try:
        done = subprocess.run(
            [*command, "-p", "reached", *tests],
            cwd=tree,
            env={**os.environ, **quiet},
            timeout=timeout,
            capture_output=True,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


if __name__ == "__main__":
    main()
