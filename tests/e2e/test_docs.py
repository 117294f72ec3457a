"""The pages tell the truth: code names exist, links lead somewhere, Python blocks run, commands print what is shown.

Blocks fenced as `python` run in order in one namespace a page, in an empty folder: as doctests if they hold a prompt,
as plain code if not. Commands of blocks fenced as `console` run between them, in the same folder, and print what the
block shows, as far as another machine would: words are the same, numbers nearly so, and `...` stands for anything.
Those of `TOO_LONG` are not run; their options must exist. Blocks that are not meant to run carry another name (`text`,
`bash`) or none.
"""

import ast
import dataclasses
import doctest
import importlib
import importlib.util
import inspect
import os
import re
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

import pytest

import kinband
from kinband import ControllerConfig
from kinband.cli import main

ROOT = Path(__file__).parents[2]
NAMED = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"]
PAGES = [*NAMED, *sorted(str(page.relative_to(ROOT)) for page in (ROOT / "docs").glob("*.md"))]
WITH_NAMES = ["docs/paper.md"]

FENCE = re.compile(r"^(?P<mark>```+|~~~+)(?P<kind>[^\n`]*)\n(?P<body>.*?)^(?P=mark)[ \t]*$", re.MULTILINE | re.DOTALL)
CODE_SPAN = re.compile(r"`([^`\n]+)`")
CODE_NAME = re.compile(r"(?P<path>kinband(?:\.\w+)+)(?:\((?P<argument>\w+)=\))?")
LINK = re.compile(r"\]\(\s*<?([^)\s>]+)>?[^)]*\)|^\[[^\]]+\]:\s*(\S+)|(?:src|href)=\"([^\"]+)\"", re.MULTILINE)
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS

TOO_LONG = {
    "python -m benchmarks.city": "minutes",
    "kinband compare": "half a minute",
    "kinband simulate": "minutes",
}
NUMBER = re.compile(r"(?<![\w.])[+-]?\d+(?:,\d{3})*(?:\.\d+)?(?!\w)")
NEARLY, DIGITS, SMALL = 0.05, 5, 0.001  # how far numbers may be off: a share, units of the last digit, in any case


def text_of(page: str) -> str:
    """The text of a page; a page at the root that is not there is a failure."""
    return (ROOT / page).read_text(encoding="utf-8")


# --- Code names ---------------------------------------------------------------------------------------------


def resolve(name: str) -> Any:
    """What a dotted path stands for, or an error that says which part of it does not exist."""
    parts = name.split(".")
    found: Any = importlib.import_module(parts[0])
    for number, part in enumerate(parts[1:], start=2):
        try:
            found = step(found, part)
        except AttributeError as error:
            raise AttributeError(f"{'.'.join(parts[:number])} does not exist") from error
    return found


def step(owner: Any, part: str) -> Any:
    """An attribute, a sub-module, a field without default, or an attribute that instances get."""
    if hasattr(owner, part):
        return getattr(owner, part)
    is_package = isinstance(owner, ModuleType) and hasattr(owner, "__path__")
    if is_package and importlib.util.find_spec(f"{owner.__name__}.{part}"):
        return importlib.import_module(f"{owner.__name__}.{part}")
    if isinstance(owner, type) and part in instance_attributes(owner):
        return None
    raise AttributeError(part)


def instance_attributes(owner: type) -> set[str]:
    """Fields of a dataclass, annotations, and what methods assign to `self`."""
    names = {field.name for field in dataclasses.fields(owner)} if dataclasses.is_dataclass(owner) else set()
    for cls in owner.__mro__:
        names |= set(inspect.get_annotations(cls))
        if cls.__module__.startswith("kinband"):
            names |= assigned_to_self(cls)
    return names


def assigned_to_self(cls: type) -> set[str]:
    tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
    stored = (node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store))
    return {node.attr for node in stored if isinstance(node.value, ast.Name) and node.value.id == "self"}


def check_name(span: str) -> None:
    """Raise unless a code span names something that exists, down to the argument."""
    match = CODE_NAME.fullmatch(span)
    if match is None:
        raise ValueError(f"`{span}` is no path such as `kinband.theory.log_g` or `kinband.theory.log_g(noise=)`")
    found, argument = resolve(match["path"]), match["argument"]
    if argument is not None and argument not in arguments_of(found):
        raise AttributeError(f"{match['path']} has no argument {argument!r}")


def arguments_of(function: Any) -> set[str]:
    """Names of the arguments of a function or class, those that it takes as `**given: Unpack[...]` among them."""
    parameters = inspect.signature(function).parameters
    unpacked = (get_args(p.annotation) for p in parameters.values() if p.kind is inspect.Parameter.VAR_KEYWORD)
    return set(parameters) | {name for kinds in unpacked for kind in kinds for name in inspect.get_annotations(kind)}


def prose(text: str) -> str:
    """A page without its blocks of code."""
    return FENCE.sub("", text)


def kinband_names(text: str) -> list[str]:
    return [span for span in CODE_SPAN.findall(prose(text)) if span.startswith("kinband.")]


def code_cells(text: str) -> Iterator[str]:
    """The cells under "code" of every table of a page."""
    column: int | None = None
    for line in prose(text).splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if not cells:
            column = None
        elif column is None:
            column = cells.index("code") if "code" in cells else -1
        elif column >= 0 and set(cells[column]) - set("-: "):
            yield cells[column]


@pytest.mark.parametrize("page", WITH_NAMES)
def test_every_code_name_exists(page: str) -> None:
    names = kinband_names(text_of(page))
    assert len(names) > 20, "the page names too little code: has its form changed?"
    for name in names:
        check_name(name)


@pytest.mark.parametrize("page", WITH_NAMES)
def test_code_columns_hold_full_paths_and_nothing_else_in_backticks(page: str) -> None:
    cells = list(code_cells(text_of(page)))
    assert cells
    for cell in cells:
        spans = CODE_SPAN.findall(cell)
        assert spans or cell == "—", f"{cell!r} names no code: write a path in backticks, or a dash"
        for span in spans:
            check_name(span)


@pytest.mark.parametrize(
    "name",
    [
        "kinband.posterior.ExactPosterior",
        "kinband.records.Query.task",  # a field without default
        "kinband.policies.SuperUCB.levels",  # assigned in __init__
        "kinband.policies.super_ucb.super_beta",  # in a sub-module
        "kinband.controller.Controller(beta=)",
    ],
)
def test_the_checker_finds_what_exists(name: str) -> None:
    check_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "kinband.nowhere",
        "kinband.theory.nothing",
        "kinband.posterior.ApproximatePosterior",
        "kinband.records.Query.weight",
        "kinband.controller.Controller(betta=)",
        "ExactPosterior",
    ],
)
def test_the_checker_notices_what_does_not(name: str) -> None:
    with pytest.raises((AttributeError, ValueError)):
        check_name(name)


# --- The map ----------------------------------------------------------------------------------------------------

FILE = re.compile(r"[\w.-]+(?:/[\w.-]+)+|\w+\.(?:py|md|css|toml)")


def missing_files(text: str) -> list[str]:
    """Files and folders that a text names and that are neither in the package nor beside it."""
    package = ROOT / "src" / "kinband"
    named = [span for span in CODE_SPAN.findall(prose(text)) if FILE.fullmatch(span)]
    found = {name for name in named if any((at / name).exists() for at in (ROOT, package))}
    alone = {name for name in named if "/" not in name and any(package.rglob(name))}  # of the room that was named
    return [name for name in named if name not in found | alone]


def test_every_file_on_the_map_of_the_house_exists() -> None:
    assert missing_files(text_of("CONTRIBUTING.md")) == []
    said = "`policies/ucb.py`, `tests/unit`, `ucb.py`, `kinband.theory`, `nowhere.py`, `no/such.py`"
    assert missing_files(said) == ["nowhere.py", "no/such.py"]


@pytest.mark.parametrize("page", [page for page in PAGES if page != "CHANGELOG.md"])
def test_scripts_and_tests_that_a_page_names_exist(page: str) -> None:
    text = text_of(page)
    files = re.findall(r"\b(?:tests|tools|examples|benchmarks)/[\w/]+\.\w+", text)
    modules = [name.replace(".", "/") for name in re.findall(r"python -m (benchmarks[\w.]*\w)", text)]
    assert [name for name in files if not (ROOT / name).exists()] == []
    assert [name for name in modules if not ((ROOT / name).is_dir() or (ROOT / f"{name}.py").exists())] == []


def test_every_room_is_on_the_map_of_the_house() -> None:
    rooms = {path.name for path in (ROOT / "src" / "kinband").iterdir() if not path.name.startswith(("_", "py.typed"))}
    assert [room for room in sorted(rooms) if f"`{room}`" not in text_of("CONTRIBUTING.md")] == []


# --- Links --------------------------------------------------------------------------------------------------


def relative_links(text: str) -> list[str]:
    """Links of a page that do not leave the repository, code left aside."""
    plain = CODE_SPAN.sub("", prose(text))
    targets = [next(filter(None, groups)) for groups in LINK.findall(plain)]
    return [target for target in targets if not re.match(r"[a-z][a-z0-9+.-]*:", target)]


def anchors(text: str) -> set[str]:
    """What can follow # in a link to the page: its headings as GitHub spells them, and explicit ids."""
    headings = re.findall(r"^#{1,6}\s+(.+?)\s*#*$", prose(text), re.MULTILINE)
    slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return slugs | set(re.findall(r"(?:id|name)=\"([^\"]+)\"", text))


def broken_links(page: Path) -> list[str]:
    """The relative links of a page that lead nowhere."""
    text = page.read_text(encoding="utf-8")
    broken = []
    for link in relative_links(text):
        file, _, anchor = link.partition("#")
        target = page.parent / file if file else page
        dead = file.startswith("/") or not target.exists()
        if dead or (anchor and target.suffix == ".md" and anchor not in anchors(target.read_text(encoding="utf-8"))):
            broken.append(link)
    return broken


@pytest.mark.parametrize("page", PAGES)
def test_every_relative_link_leads_somewhere(page: str) -> None:
    text_of(page)
    assert broken_links(ROOT / page) == []


def test_the_checker_notices_broken_links(tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text("# One & two\n", encoding="utf-8")
    page = tmp_path / "page.md"
    good = "[a](other.md) [b](other.md#one--two) ![c](<other.md> 'title') [d](https://example.org/x.md) [e](#top)\n"
    bad = '[f](missing.md) [g](other.md#three) [h](/other.md)\n[i]: gone.md\n<img src="no.png">\n'
    page.write_text(f"# Top\n{good}{bad}`[j](code.md)`\n```text\n[k](block.md)\n```\n", encoding="utf-8")
    assert broken_links(page) == ["missing.md", "other.md#three", "/other.md", "gone.md", "no.png"]


# --- Examples -----------------------------------------------------------------------------------------------


def blocks_to_run(text: str) -> list[tuple[str, int, str]]:
    """The blocks of a page that are to be run, each with its kind and the number of its first line, from 0."""
    blocks = [match for match in FENCE.finditer(text) if match["kind"].strip() in ("python", "console")]
    return [(match["kind"].strip(), text.count("\n", 0, match.start("body")), match["body"]) for match in blocks]


def run_block(code: str, namespace: dict[str, Any], *, page: str, line: int) -> None:
    """Run one block in the namespace of its page; line numbers in errors are those of the page."""
    if ">>>" not in code:
        exec(compile("\n" * line + code, page, "exec"), namespace)  # noqa: S102
        return
    example = doctest.DocTestParser().get_doctest(code, namespace, page, page, line)
    report: list[str] = []
    failed = doctest.DocTestRunner(optionflags=FLAGS).run(example, out=report.append, clear_globs=False).failed
    assert not failed, "".join(report)
    namespace.update(example.globs)


def run_page(text: str, page: str) -> dict[str, Any]:
    """Run the blocks of a page in order and return the names they left."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for kind, line, code in blocks_to_run(text):
        if kind == "python":
            run_block(code, namespace, page=page, line=line)
        else:
            run_console(code)
    return namespace


@pytest.mark.parametrize("page", [page for page in PAGES if page == "README.md" or page not in NAMED])
def test_examples_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = text_of(page)
    monkeypatch.chdir(tmp_path)
    run_page(text, page)


def commands_of(block: str) -> list[tuple[str, str]]:
    """The commands of a block that shows a terminal, each with what it prints there."""
    shown = block.replace("\\\n", " ")
    parts = re.split(r"^\$ ", shown, flags=re.MULTILINE)[1:]
    return [(command, printed) for command, _, printed in (part.partition("\n") for part in parts)]


def run_console(block: str) -> None:
    """Run the commands of a block, but those that take too long, and compare what they print with what is shown."""
    for command, shown in commands_of(block):
        if command.startswith(tuple(TOO_LONG)):
            continue
        program, *words = shlex.split(command)
        assert program == "kinband", f"{command!r} is no command of ours: name the block otherwise, or in TOO_LONG"
        environment = {**os.environ, "COLUMNS": "80", "OPENBLAS_NUM_THREADS": "1"}
        done = subprocess.run(
            [sys.executable, "-m", "kinband", *words], capture_output=True, text=True, check=False, env=environment
        )
        assert done.returncode == 0, done.stderr
        assert prints(done.stdout, shown), f"{command} prints\n{done.stdout}and the page shows\n{shown}"


def prints(printed: str, shown: str) -> bool:
    """Whether a command prints what is shown: the same words, numbers nearly, anything where `...` stands."""
    lines = [_plain(line) for line in printed.rstrip().splitlines()]
    expected = [_plain(line) for line in shown.rstrip().splitlines()]
    pattern = "".join(r"(?:[^\n]*\n)*?" if line == "..." else _pattern(line) for line in expected)
    found = re.fullmatch(pattern, "".join(f"{line}\n" for line in lines))
    numbers = [number for line in expected for number in NUMBER.findall(line)]
    return found is not None and all(_near(a, b) for a, b in zip(found.groups(), numbers, strict=True))


def _pattern(line: str) -> str:
    """A pattern of a line: words as they are, numbers of any value, `...` for anything."""
    pieces = re.split(rf"(\.\.\.|{NUMBER.pattern})", line)
    kinds = (
        "[^\n]*?" if p == "..." else f"({NUMBER.pattern})" if NUMBER.fullmatch(p) else re.escape(p) for p in pieces
    )
    return "".join(kinds) + "\n"


def _plain(line: str) -> str:
    """A line without the widths of a table, which follow its numbers."""
    return re.sub(r"\s+", " ", re.sub(r"[━─]+", "─", line)).strip()


def _near(printed: str, shown: str) -> bool:
    """Whether a number is nearly the one shown; small whole numbers are that number."""
    a, b = (float(text.replace(",", "")) for text in (printed, shown))
    if "." not in shown:
        return abs(a - b) <= NEARLY * abs(b)
    unit = 10.0 ** -len(shown.partition(".")[2])
    return abs(a - b) <= max(NEARLY * abs(b), DIGITS * unit, SMALL) * (1 + 1e-9)


@pytest.mark.parametrize(
    "printed",
    [
        "4 changes, +0.212 (0.1 to 0.3)\n│ a │  1,058 │\nleft: x.csv\n",
        "4 changes, +0.209 (0.1 to 0.3)\n│ a   │ 1,042 │\nleft: x.csv\n",
    ],
)
def test_output_that_is_nearly_the_same_is_what_is_shown(printed: str) -> None:
    assert prints(printed, "4 changes, +0.212 (0.1 to 0.3)\n│ a │ 1,058 │\nleft: x.csv\n")
    assert prints(printed, "4 changes, ...\n...\nleft: x.csv\n")
    assert prints(printed, "...\n│ a │ 1,058 │\n...\n")


@pytest.mark.parametrize(
    "shown",
    [
        "5 changes, +0.212\n│ a │ 1,058 │\n",  # a small whole number
        "4 changes, +0.240\n│ a │ 1,058 │\n",
        "4 changes, -0.212\n│ a │ 1,058 │\n",
        "4 changes, +0.212\n│ b │ 1,058 │\n",
        "4 changes, +0.212\n│ a │ 1,158 │\n",
        "4 changes, +0.212\n",
        "4 changes, +0.212\n│ a │ 1,058 │\nfile: x\n",
        "...\n│ b │ ... │\n",
        "4 changes, ... │ 1,058 │\n",  # which stands for no more than the rest of a line
    ],
)
def test_output_that_is_something_else_is_noticed(shown: str) -> None:
    assert not prints("4 changes, +0.212\n│ a │ 1,058 │\n", shown)


def test_a_block_that_shows_a_terminal_is_run_and_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_page("```console\n$ kinband --version\nkinband 0.1.0\n```\n", "page")
    with pytest.raises(AssertionError, match="and the page shows"):
        run_page("```console\n$ kinband --version\nkinband nine\n```\n", "page")
    with pytest.raises(AssertionError, match=r"there is no file no-such\.csv"):
        run_page("```console\n$ kinband similarity \\\n    no-such.csv\n```\n", "page")


SHOWN = [
    pytest.param(command, id=f"{page}: {command[:50]}")
    for page in PAGES
    for kind, _, block in blocks_to_run(text_of(page))
    if kind == "console"
    for command, _ in commands_of(block)
    if command.startswith("kinband ")
]


@pytest.mark.parametrize("command", SHOWN)
def test_options_of_commands_that_are_shown_exist(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    _, name, *words = shlex.split(command)
    assert main([name, "--help"]) == 0
    known = set(re.findall(r"--[a-z][a-z-]*", capsys.readouterr().out))
    assert {word for word in words if word.startswith("--")} <= known


def test_blocks_of_a_page_share_names_and_others_are_left_alone() -> None:
    text = (
        "```python\na = 2\n```\n```python\n>>> a + 1\n3\n>>> b = a\n```\n```text\na = 5\n```\n```python\nc = b\n```\n"
    )
    assert run_page(text, "page")["c"] == 2


@pytest.mark.parametrize("code", ["assert False", ">>> 1 + 1\n3", ">>> 1 / 0"])
def test_an_example_that_is_wrong_fails(code: str) -> None:
    with pytest.raises(AssertionError):
        run_page(f"text\n```python\n{code}\n```\n", "page")


# --- The reference --------------------------------------------------------------------------------------------


def test_every_public_name_is_in_the_reference_and_every_name_there_exists() -> None:
    listed = re.findall(r"^::: (kinband\S*)", text_of("docs/reference.md"), re.MULTILINE)
    for name in listed:
        resolve(name)
    assert {f"kinband.{name}" for name in kinband.__all__ if not name.startswith("_")} <= set(listed)


# --- Nothing is left out ----------------------------------------------------------------------------------------


def options_of(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> Iterator[tuple[str, str]]:
    """Every option that the help of a command names, or of the commands below it, with the words that are typed."""
    assert main([*words, "--help"]) == 0
    shown = capsys.readouterr().out
    for name in re.findall(r"^│ ([a-z-]+)  ", shown.partition("─ Commands ─")[2], re.MULTILINE):
        yield from options_of((*words, name), capsys)
    yield from ((" ".join(words), option) for option in sorted(set(re.findall(r"--[a-z][a-z-]*", shown))))


def is_named(word: str, text: str) -> bool:
    """Whether an option or a setting stands in a text, not as the beginning of a longer one."""
    return re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", text) is not None


def test_every_option_of_every_command_is_in_the_docs(capsys: pytest.CaptureFixture[str]) -> None:
    pages = "\n".join(map(text_of, PAGES))
    options = list(options_of((), capsys))
    assert len(options) > 100
    assert [found for found in options if not is_named(found[1], pages)] == []


def test_every_setting_of_a_controller_is_in_the_docs() -> None:
    page = text_of("docs/quickstart.md")
    assert [one.name for one in dataclasses.fields(ControllerConfig) if f"`{one.name}=`" not in page] == []


def test_an_option_is_not_taken_for_a_longer_one() -> None:
    assert is_named("--rows", "`--rows 5`")
    assert not is_named("--rows", "`--rows-of 5`, `--log--rows`")


def test_no_decision_is_told_twice() -> None:
    leads = re.findall(r"^- \*\*(.+?)\*\*", text_of("docs/decisions.md"), re.MULTILINE)
    assert len(leads) > 20
    assert sorted(lead.rstrip(".") for lead in leads) == sorted({lead.rstrip(".") for lead in leads})


# --- Figures ------------------------------------------------------------------------------------------------

FIGURE = re.compile(r"[-+]?\d[\d.]*%? \([-+]?\d[\d.]*%? to [-+]?\d[\d.]*%?\)")
QUOTED = re.compile(r"<!-- figures of docs/tables: begin -->(.*?)<!-- figures of docs/tables: end -->", re.DOTALL)


@pytest.mark.parametrize(("page", "least"), [("docs/evidence.md", 100), ("docs/recommend.md", 30)])
def test_figures_that_a_page_quotes_are_those_that_commands_printed(page: str, least: int) -> None:
    tables = (ROOT / "docs" / "tables").glob("*.md")
    printed = {figure for table in tables for figure in FIGURE.findall(table.read_text(encoding="utf-8"))}
    quoted = [figure for part in QUOTED.findall(text_of(page)) for figure in FIGURE.findall(part)]
    assert len(quoted) > least
    assert [figure for figure in quoted if figure not in printed] == []
