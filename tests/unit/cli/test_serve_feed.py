"""What is said on the command line of how counters are read."""

from pathlib import Path

import pytest

from kinband.cli.options import LogOptions
from kinband.cli.serve import StartOptions
from kinband.errors import BadInputError
from kinband.service.operations.feeds import Feed

MAPPING = "station: {object: Cell}\nreward: Good / All\nknobs: {tilt: {attribute: tilt}}\n"


def test_options_about_columns_a_profile_and_a_mapping_make_a_feed(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text("station: Cell Name\nreward: good\nper-cent: on\ndelimiter: ';'\n")
    (tmp_path / "m.yaml").write_text(MAPPING)
    said = StartOptions(columns=LogOptions(profile=tmp_path / "p.yaml"), mapping=tmp_path / "m.yaml", period="15min")
    columns = {"station": "Cell Name", "reward": "good"}
    assert said.feed() == Feed(columns, {"delimiter": ";"}, True, MAPPING, 900.0)
    assert said.given() == []
    assert StartOptions().feed() is None


@pytest.mark.parametrize("text", ["", "soon", "0min", "-1h", "15"])
def test_a_period_has_a_unit(text: str) -> None:
    with pytest.raises(BadInputError, match="--period"):
        StartOptions(period=text).feed()


def test_mappings_that_cannot_be_read_file_by_file_are_refused_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "m.yaml").write_text(MAPPING + "counters: {Good: {cumulative: true}}\n")
    with pytest.raises(BadInputError, match="the cumulative counter 'Good', whose growth takes two periods"):
        StartOptions(mapping=tmp_path / "m.yaml").feed()
    (tmp_path / "m.yaml").write_text("station: Cell\n")
    with pytest.raises(BadInputError, match=r"m\.yaml, line 1"):
        StartOptions(mapping=tmp_path / "m.yaml").feed()
