"""The paper to the letter, and what a controller learned from a log does without it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kinband import ConfigurationSpace, Controller, Trace
from kinband.drift import Drift
from kinband.errors import BadInputError
from kinband.kernels import RBF
from kinband.kpis import KpiFloor, NeighbourReward
from kinband.policies import Floor
from kinband.policies.exploration import Constant

SPACE = ConfigurationSpace(knob=range(6))
STATIONS = ["a", "b", "c", "d"]
ALIKE = 0.9 * np.ones((4, 4)) + 0.1 * np.eye(4)
FLOOR = KpiFloor("p", at_least=0.3, confidence=0.7, mean=0.6, deviation=0.2, noise=0.01)


def make(**changes: Any) -> Controller:
    options: dict[str, Any] = {
        "similarity": ALIKE, "kernel": RBF(0.9, variance=0.06), "noise": 0.012, "mean": 0.0, "running": {"knob": 1},
        "seed": 3,
    }  # fmt: skip
    return Controller(SPACE, STATIONS, **(options | changes))


def trace_of(rows: int = 48) -> Trace:
    rng = np.random.default_rng(4)
    columns: dict[str, Any] = {"station": ["a", "b", "c"] * (rows // 3), "load": rng.random(rows)}
    columns["knob"] = rng.integers(0, 6, rows)
    columns["reward"] = 0.5 + 0.2 * np.cos(columns["knob"] / 1.6) + 0.1 * rng.normal(size=rows)
    return Trace.from_frame(columns, {"configuration": ["knob"]})


def from_trace(**given: Any) -> Controller:
    options: dict[str, Any] = {"kernel": RBF([1.1, 0.9], variance=0.07), "noise": 0.012}
    return Controller.from_trace(trace_of(), SPACE, **(options | given))


@pytest.mark.parametrize(
    "beyond",
    [
        {"safety": Floor(0.1)},
        {"kpis": [FLOOR]},
        {"neighbours": NeighbourReward({"a": ["b"]}, weight=0.5)},
        {"reward": {"p": 1.0}},
        {"drift": Drift()},
        {"engine": "sparse"},
        {"mean": 0.5},
        {"options": {"rounds": "aware"}},
    ],
    ids=lambda given: next(iter(given)),
)
def test_the_papers_way_refuses_what_goes_beyond_it(beyond: dict[str, Any]) -> None:
    with pytest.raises(BadInputError, match="paper=True"):
        make(paper=True, **beyond)


def test_the_papers_way_decides_as_a_plain_controller_does(tmp_path: Path) -> None:
    plain, paper = make(engine="exact"), make(paper=True)
    for controller in (plain, paper):
        for i in range(20):
            controller.tell(controller.ask(STATIONS[i % 4]).id, 0.1 * (i % 7))
    assert [a.decision for a in plain.journal.asked.values()] == [a.decision for a in paper.journal.asked.values()]
    assert paper.setup.config.engine == "exact"
    assert make(paper=True, engine="schur").setup.config.engine == "schur"
    paper.save(tmp_path / "state")
    assert Controller.load(tmp_path / "state").setup.config.paper


def test_from_a_log_sharing_is_joint_unless_a_similarity_is_named() -> None:
    usual = from_trace()
    assert usual.similarity.method == "joint"
    assert sum(usual.similarity.details[name] for name in ("shared", "similar", "own")) == pytest.approx(1.0)
    assert from_trace(similarity="embedding").similarity.method == "embedding"
    assert usual.setup.config.beta == Constant(0.3)
    assert from_trace(beta=2.0).setup.config.beta == Constant(2.0)


def test_from_a_log_the_papers_way_is_the_embedding_around_zero() -> None:
    paper, plain = from_trace(paper=True), from_trace(similarity="embedding", mean=0.0, engine="exact", beta=1.0)
    assert (paper.setup.notes["similarity"], paper.setup.mean) == ("embedding", 0.0)
    assert np.array_equal(paper.setup.K_Z, plain.setup.K_Z)
    assert paper.ask("b", {"load": 0.4}) == plain.ask("b", {"load": 0.4})
    for beyond in ({"mean": 0.3}, {"kpis": [FLOOR]}, {"similarity": "joint"}):
        with pytest.raises(BadInputError, match="paper=True"):
            from_trace(paper=True, **beyond)
