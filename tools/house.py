"""How big the house is, and how many of its files one call runs through: `python tools/house.py`.

Code lines are lines that are neither docstring, comment nor blank. A call runs through a file if a function of it runs
during the call, after a first identical call. `python tools/house.py --package optuna` counts any installed package,
without the calls.
"""

# ruff: noqa: T201  (a report on the screen is all it does)

import argparse
import ast
import asyncio
import io
import sys
import tempfile
import threading
import tokenize
from collections.abc import Callable
from contextlib import redirect_stdout
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def code_lines(source: str) -> int:
    """Return how many lines hold code."""
    skipped = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in skipped:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - docstring_lines(source))


def docstring_lines(source: str) -> set[int]:
    """Return the lines of docstrings, and of strings that stand by themselves."""
    found: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            found.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return found


def size(folder: Path) -> dict[str, int]:
    """Return code lines, modules, classes and protocols under a folder; modules without code do not count."""
    counted = {"code lines": 0, "modules": 0, "classes": 0, "protocols": 0}
    for file in sorted(folder.rglob("*.py")):
        if {"tests", "_tests"} & set(file.relative_to(folder).parts):
            continue
        source = file.read_text(encoding="utf-8")
        lines = code_lines(source)
        classes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ClassDef)]
        counted["code lines"] += lines
        counted["modules"] += 1 if lines else 0
        counted["classes"] += len(classes)
        counted["protocols"] += sum("Protocol" in ast.unparse(base) for c in classes for base in c.bases)
    return counted


def files_of(call: Callable[[], object], folder: Path) -> list[str]:
    """Return the files of a folder through which a call runs, the second time."""
    call()
    seen: set[str] = set()

    def look(frame: Any, _event: str, _argument: object) -> None:
        if frame.f_code.co_filename.startswith(str(folder)):
            seen.add(frame.f_code.co_filename)

    threading.setprofile(look)
    sys.setprofile(look)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return sorted(str(Path(file).relative_to(folder)) for file in seen)


def calls() -> dict[str, Callable[[], object]]:
    """Return the four calls: a cold ask, one with all defaults, a decision over HTTP, and `kinband recommend`."""
    import httpx
    import numpy as np
    import pandas as pd

    from kinband import ConfigurationSpace, Controller, Trace
    from kinband.cli import main
    from kinband.service.api import create_app
    from kinband.service.ledger import Ledger
    from kinband.service.operations import Operations

    rng = np.random.default_rng(0)
    folder = Path(tempfile.mkdtemp())
    log = pd.DataFrame({"station": ["a", "b", "c"] * 30, "load": rng.random(90), "tilt": rng.integers(0, 6, 90)})
    log["reward"] = 0.9 - ((log["tilt"] - 2 - 2 * log["load"]) / 8) ** 2 + 0.02 * rng.normal(size=90)
    log.to_csv(folder / "log.csv", index=False)
    log.tail(3).drop(columns="reward").to_csv(folder / "now.csv", index=False)
    space = ConfigurationSpace(tilt=range(6))
    cold = Controller(space, ["a", "b", "c"], state=["load"])
    default = Controller.from_trace(Trace.from_frame(log, {"configuration": ["tilt"]}))
    ledger = Ledger.open(folder / "ledger.db")
    operations = Operations.open(ledger, Controller(space, ["a", "b", "c"], state=["load"], running={"tilt": 2}))
    app = create_app(operations, tokens=None, insecure_local=True)
    slots = iter(range(1000))

    async def posted(body: dict[str, Any]) -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
            return await client.post("/v1/decisions", json=body)

    def post() -> None:
        answer = asyncio.run(posted({"states": {"a": {"load": 0.5}}, "slot": str(next(slots))}))
        if answer.status_code >= 300:
            raise SystemExit(f"POST /v1/decisions answered {answer.status_code}: {answer.text}")

    def recommend() -> None:
        arguments = ["recommend", str(folder / "log.csv"), "--now", str(folder / "now.csv")]
        arguments += ["--configuration", "tilt", "--out", str(folder / "plan"), "--replace"]
        with redirect_stdout(io.StringIO()):
            try:
                main(arguments)
            except SystemExit as ended:
                if ended.code:
                    raise

    return {
        "cold ask": lambda: cold.ask("a", {"load": 0.5}),
        "default ask": lambda: default.ask("a", {"load": 0.5}),
        "POST /v1/decisions": post,
        "recommend": recommend,
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--package", help="count an installed package in the place of kinband")
    parser.add_argument("--files", action="store_true", help="name the files of every call")
    given = parser.parse_args()
    if given.package:
        spec = find_spec(given.package)
        if spec is None or spec.origin is None:
            raise SystemExit(f"there is no package {given.package}: install it first")
        folder = Path(spec.origin).parent
    else:
        folder = ROOT / "src" / "kinband"
    for what, number in size(folder).items():
        print(f"{what:20} {number:7,}")
    if given.package:
        return
    for what, call in calls().items():
        through = files_of(call, folder)
        print(f"files: {what:20} {len(through)}")
        if given.files:
            print("\n".join(f"    {file}" for file in through))


if __name__ == "__main__":
    main()
