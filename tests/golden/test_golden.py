"""What kinband decided, recorded and answered when these files were written, it decides, opens and answers today."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from tests.golden.cases import MAKE, plain, run
from tests.golden.lives import LEDGERS, go_on
from tests.golden.record import COMMANDS, HERE, answer, openapi, prepare, same

EXACT = 1e-9
FITTED = 1e-6
"""Where a search found the parameters, its last steps depend on the machine's arithmetic."""

_SEARCHED = {"default", "newcomers", "paper", "rows"}


def golden(name: str) -> Any:
    return json.loads((HERE / f"{name}.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", MAKE)
def test_a_run_decides_what_it_decided(name: str) -> None:
    decided = [plain(decision) for decision in run(name)[1]]
    assert same(decided, golden(f"runs/{name}"), tolerance=FITTED if name in _SEARCHED else EXACT) == []


@pytest.mark.parametrize("name", LEDGERS)
def test_a_ledger_opens_and_goes_on(name: str, tmp_path: Path) -> None:
    file = tmp_path / "ledger.db"
    file.write_bytes(gzip.decompress((HERE / "ledgers" / f"{name}.db.gz").read_bytes()))
    assert same(go_on(file, name), golden(f"ledgers/{name}"), tolerance=EXACT) == []


def test_programs_see_the_same_interface() -> None:
    assert same(json.loads(json.dumps(openapi())), golden("openapi"), tolerance=EXACT) == []


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("commands")
    prepare(made)
    return made


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_answers_machines_alike(name: str, folder: Path) -> None:
    assert same(answer(name, folder), golden(f"commands/{name}"), tolerance=FITTED) == []


def test_a_difference_is_seen() -> None:
    was = {"arm": 2, "scored": [[0, 0.5, 0.1]], "why": "best"}
    assert same(was, was, tolerance=EXACT) == []
    assert same(was | {"arm": 3}, was, tolerance=EXACT) == ["/arm: 3 is not 2"]
    assert same(was | {"scored": [[0, 0.5 + 1e-6, 0.1]]}, was, tolerance=EXACT) == ["/scored/0/1: 0.500001 is not 0.5"]
    assert same(was | {"more": 1}, was, tolerance=EXACT) == ["/more: new"]
    assert len(same({"scored": []}, was, tolerance=EXACT)) == 3
