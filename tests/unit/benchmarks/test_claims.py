"""The measurement of claims: runs that are kept, ratios that can be done by hand, tables that say what was measured."""

from pathlib import Path

import numpy as np
import pytest
from benchmarks.claims import MARKS, claims_of, main, measure, page
from benchmarks.findings import Finding, Size, geometric_mean
from benchmarks.runs import ALONE, BETAS, EMBEDDING, JOINT, POOLED, Contest, contests

DIGITS = Contest("digits", "classes:digits", 2, 4, intervals=False)
SMALL = Size((101,), (1, 2))


def found(name: str, *, joint: list[float], alone: list[float], pooled: list[float]) -> Finding:
    """What made-up runs say of a problem on which the embedding is as good as learning alone."""
    regret = {JOINT: joint, ALONE: alone, POOLED: pooled, EMBEDDING: alone}
    tuning = {who: dict.fromkeys(BETAS, float(np.mean(values))) for who, values in regret.items()}
    best = min((ALONE, POOLED, EMBEDDING), key=lambda who: tuning[who][0.3])
    covered = {JOINT: np.array([0.9, 1.0])}
    shares = {"shared": 0.5, "similar": 0.2, "own": 0.3}
    numbers = {who: np.array(values) for who, values in regret.items()}
    return Finding(
        Contest(name, "drawn:opposed", 1, 1),
        dict.fromkeys(regret, 0.3),
        tuning,
        numbers,
        best,
        shares,
        covered,
        (0.1, 0.2),
    )


def test_runs_are_kept_and_regrets_are_those_on_disk(tmp_path: Path) -> None:
    (first,) = measure([DIGITS], SMALL, tmp_path, workers=1)
    files = {file: file.stat().st_mtime_ns for file in (tmp_path / "runs").iterdir()}
    assert len(files) == 4 * (1 + 2)  # learners times seeds
    (again,) = measure([DIGITS], SMALL, tmp_path, workers=1)
    assert {file: file.stat().st_mtime_ns for file in (tmp_path / "runs").iterdir()} == files
    for name in (JOINT, ALONE, POOLED, EMBEDDING):
        assert first.regret[name].tolist() == again.regret[name].tolist()
        assert ((first.regret[name] >= 0) & (first.regret[name] <= 1)).all()  # a decision that is wrong costs 1
    assert first.best in (ALONE, POOLED, EMBEDDING)
    assert sum(first.shares.values()) == pytest.approx(1.0)
    assert "digits" in page([first], claims_of([first]), SMALL)


def test_ratios_and_savings_are_those_of_sums() -> None:
    one = found("a", joint=[1.0, 2.0], alone=[4.0, 4.0], pooled=[2.0, 2.0])
    assert one.best == POOLED
    assert one.ratio.value == pytest.approx(0.75)
    assert one.saved().value == pytest.approx(1 - 3 / 8)
    assert one.kept.value == pytest.approx((8 - 3) / (8 - 4))
    other = found("b", joint=[3.0, 3.0], alone=[1.0, 1.0], pooled=[4.0, 4.0])
    assert geometric_mean([one, other]).value == pytest.approx(np.sqrt(0.75 * 3.0))


def test_the_table_says_what_is_kept_and_what_is_not() -> None:
    kept, missed = (
        found("a", joint=[1.0, 2.0], alone=[4.0, 4.0], pooled=[2.0, 2.0]),
        found("b", joint=[3.0, 3.0], alone=[1.0, 1.0], pooled=[4.0, 4.0]),
    )
    claims = {(c.what, c.where): c for c in claims_of([kept, missed])}
    assert claims["regret over pooled", "a"].kept is True
    assert claims["regret over alone", "b"].kept is False
    assert claims["predictive 95 % intervals hold", "a"].measured.startswith("95.0%")
    text = page([kept, missed], list(claims.values()), SMALL)
    assert "A short run: nothing is claimed from it." in text
    assert "**no**" in text


def test_what_cannot_be_measured_is_said_before_the_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "nonsense", "--out", str(tmp_path)]) == 2
    assert main(["--coloran", str(tmp_path / "none.parquet")]) == 2
    (tmp_path / "page.md").write_text("no markers\n", encoding="utf-8")
    assert main(["--only", "wine", "--write", str(tmp_path / "page.md"), "--out", str(tmp_path)]) == 2
    said = capsys.readouterr().err.splitlines()
    assert [line.split(":")[0] for line in said][:2] == ["no problem is called nonsense", said[1].split(":")[0]]
    assert MARKS[0] in said[2]
    assert MARKS[1] in said[2]
    assert not (tmp_path / "runs").exists()


def test_coloran_is_played_where_its_table_is_given() -> None:
    names = {contest.name for contest in contests(None)}
    assert {contest.name for contest in contests(Path("x"))} - names == {
        "ColO-RAN, 10 rows", "ColO-RAN, 60 rows", "ColO-RAN, cold"
    }  # fmt: skip
