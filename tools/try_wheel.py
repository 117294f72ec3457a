"""Whether what is released works by itself: `python tools/try_wheel.py dist`, after `python -m build`.

The wheel must hold every file of `src/kinband`, the sdist what a distributor builds and tests from. Then the wheel
alone is installed into an empty environment, outside of the clone, and the main commands run there on a small log.
"""

# ruff: noqa: S603, T201  (it runs commands and reports on the screen)

import argparse
import random
import subprocess
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
IN_SDIST = (
    "README.md",
    "LICENSE",
    "CHANGELOG.md",
    "CITATION.cff",
    "Makefile",
    "constraints.txt",
    "tests/e2e/test_docs.py",
)


def main() -> None:
    """Check the one wheel and the one sdist of a folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the wheel and the sdist are")
    folder = parser.parse_args().folder
    (wheel,), (sdist,) = list(folder.glob("*.whl")), list(folder.glob("*.tar.gz"))
    if missing := missing_files(wheel, sdist):
        raise SystemExit(f"not released: {', '.join(missing)}")
    print(f"{wheel.name} and {sdist.name} hold what they must")
    with tempfile.TemporaryDirectory() as place:
        try_commands(wheel.resolve(), Path(place))
    print("installed by itself, the wheel demonstrates, recommends and serves")


def missing_files(wheel: Path, sdist: Path) -> list[str]:
    """Return the files of the package that the wheel lacks, and those that the sdist lacks."""
    package = [file for file in (ROOT / "src" / "kinband").rglob("*") if file.is_file()]
    wanted = {str(file.relative_to(ROOT / "src")) for file in package if "__pycache__" not in file.parts}
    with zipfile.ZipFile(wheel) as held:
        lacking = wanted - set(held.namelist())
    with tarfile.open(sdist) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    return sorted(lacking | ({f"src/{name}" for name in wanted} | set(IN_SDIST)) - inside)


def try_commands(wheel: Path, place: Path) -> None:
    """Install a wheel into an empty environment and run the main commands there."""
    venv.create(place / "venv", with_pip=True)
    python = place / "venv" / "bin" / "python"

    def run(*words: str) -> None:
        done = subprocess.run([str(python), "-m", *words], cwd=place, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"python -m {' '.join(words)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")

    pinned = ("--quiet", "--constraint", str(ROOT / "constraints.txt"))
    run("pip", "install", *pinned, str(wheel))
    write_log(place / "log.csv", place / "now.csv")
    run("kinband", "demo", "--rounds", "2", "--runs", "2", "--out", "demo")
    run("kinband", "recommend", "log.csv", "--now", "now.csv", "--configuration", "tilt", "--out", "plan")
    run("pip", "install", *pinned, f"{wheel}[service]")
    run("kinband", "token", "create", "--ledger", "ledger.db", "--name", "ada", "--role", "admin")
    run("kinband", "ledger", "verify", "ledger.db")
    run("kinband", "serve", "--help")
    for made in ("demo/report.html", "plan/plan.csv", "plan/plan.html", "plan/rollback.csv", "ledger.db"):
        if not (place / made).is_file():
            raise SystemExit(f"{made} was not written")


def write_log(log: Path, now: Path) -> None:
    """Write a small log of three stations, and how they are now."""
    rng = random.Random(0)
    lines = ["station,load,tilt,reward"]
    for station in "abc" * 30:
        load, tilt = rng.random(), rng.choice([2, 4, 6, 8])
        lines.append(f"{station},{load},{tilt},{0.9 - ((tilt - 4 - 3 * load) / 10) ** 2 + rng.gauss(0, 0.02)}")
    log.write_text("\n".join(lines) + "\n", encoding="utf-8")
    now.write_text("station,load,tilt\na,0.5,2\nb,0.5,2\nc,0.5,2\n", encoding="utf-8")


if __name__ == "__main__":
    main()
