"""Which rails hold after a start: the file's, those on record, or those that a person put in the file's place."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from kinband import ConfigurationSpace, Controller
from kinband.errors import BadInputError
from kinband.guardrails import Rails
from kinband.service.ledger import Draft, Ledger
from kinband.service.ledger.restoring import begin
from kinband.service.operations import Operations
from kinband.service.starting import open_operations

FILE, BY_ADA, NEWER = "knobs: {tilt: {step: 4}}\n", "knobs: {tilt: {step: 2}}\n", "knobs: {tilt: {step: 0}}\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    found = tmp_path / "rails.yaml"
    found.write_text(FILE)
    return found


@contextmanager
def started(file: Path, *, named: bool = True) -> Iterator[Operations]:
    with closing(Ledger.open(file.parent / "ledger.db")) as ledger:
        yield open_operations(
            ledger,
            start=lambda: Controller(ConfigurationSpace(tilt=[2, 4, 6]), ["a"], running={"tilt": 2}, seed=3),
            rails=file if named else None,
        )


def text_of(operations: Operations) -> str:
    return operations.rails_in_force()[0].text


def test_a_start_without_a_file_goes_on_with_the_rails_on_record(file: Path) -> None:
    with started(file) as operations:
        assert text_of(operations) == FILE
        operations.set_rails(BY_ADA, actor="ada")
    with started(file, named=False) as operations:
        assert text_of(operations) == BY_ADA
        assert operations.guard.rails.knobs["tilt"].step == 2


def test_a_restart_with_the_same_file_does_not_take_back_what_a_person_put_in_its_place(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with started(file) as operations:
        operations.set_rails(NEWER, actor="bob")
        operations.set_rails(BY_ADA, actor="ada")
    for _ in range(2):
        caplog.clear()
        with started(file) as operations:
            assert text_of(operations) == BY_ADA
            assert len(operations.events(kinds=["rails"])) == 3
        assert "ada has put other rails in its place" in caplog.text


def test_a_file_that_was_changed_is_put_in_force_at_the_next_start(file: Path) -> None:
    with started(file) as operations:
        operations.set_rails(BY_ADA, actor="ada")
    file.write_text(NEWER)
    with started(file) as operations:
        assert text_of(operations) == NEWER
    file.write_text(FILE)
    with started(file) as operations:
        assert text_of(operations) == FILE


def test_rails_on_record_that_can_never_take_effect_hold_on_and_a_file_with_them_is_refused(file: Path) -> None:
    text = "knobs: {tilt: {step: 2}}\nfallback: {drop: 500%, slots: 2}\n"
    with started(file) as operations:
        said = {"digest": "0123456789abcdef", "text": text, "comment": "", "by": "person"}
        operations.ledger.append([Draft("rails", said)])
    with started(file, named=False) as operations:
        assert operations.guard.rails.knobs["tilt"].step == 2
        assert operations.rails_in_force()[1].fallback is not None
    file.write_text(text)
    with pytest.raises(BadInputError, match=r"rails.yaml, line 2: fallback.drop is 500%"), started(file):
        pass


def test_a_file_that_cannot_be_read_is_refused_although_others_hold(file: Path) -> None:
    with started(file) as operations:
        operations.set_rails(BY_ADA, actor="ada")
    file.write_text("knobs: {tilt: {stepp: 4}}\n")
    with pytest.raises(BadInputError, match="line 1"), started(file):
        pass


def test_looking_at_a_ledger_changes_nothing_in_it(file: Path) -> None:
    with started(file) as operations:
        before = operations.ledger.verify()
    with closing(Ledger.open(file.parent / "ledger.db")) as ledger:
        looking = Operations.open(ledger)
        assert ledger.verify() == before
        assert (text_of(looking), looking.guard.rails.knobs["tilt"].step) == (FILE, 4)
    with started(file, named=False) as operations:
        assert text_of(operations) == FILE


def test_looking_at_a_ledger_that_no_service_has_run_with_changes_nothing_in_it(tmp_path: Path) -> None:
    with closing(Ledger.open(tmp_path / "ledger.db")) as ledger:
        with ledger.writing() as writer:
            begin(writer, Controller(ConfigurationSpace(tilt=[2, 4]), ["a"], seed=3), actor="")
        before = ledger.verify()
        assert Operations.open(ledger).read_model.mode == "shadow"
        assert ledger.verify() == before


def test_rails_without_their_text_do_not_take_the_place_of_those_on_record(file: Path) -> None:
    with started(file) as operations, pytest.raises(BadInputError, match="give rails_text"):
        Operations.open(operations.ledger, rails=Rails())


def test_a_service_whose_rails_were_dropped_by_nobody_does_not_start_without(file: Path) -> None:
    with started(file) as operations:
        operations.ledger.append([Draft("rails", {"digest": "", "text": ""})])  # as earlier versions did when looking
    dropped = r"had guard rails \(event 3, .*without anybody lifting them.*--rails"
    with pytest.raises(BadInputError, match=dropped), started(file, named=False):
        pass
    with started(file) as operations:
        assert text_of(operations) == FILE
        operations.set_rails("{}", actor="ada")  # by somebody
    with started(file, named=False) as operations:
        assert text_of(operations) == "{}"
