"""Wrong kinds of things at the doors of the library: one sentence that says what was expected and what came."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kinband import ConfigurationSpace, Controller, TaskMatrix, Trace
from kinband.contexts import StateScaler
from kinband.controller.storage import load_controller, save_controller
from kinband.drift import Drift
from kinband.errors import BadInputError, KinbandError
from kinband.ope import evaluate
from kinband.policies import SwitchingCost
from kinband.space import Categories, Range

LOG: dict[str, Any] = {
    "station": ["a", "b", "b"],
    "load": [0.1, 0.2, 0.3],
    "tilt": [2, 4, 6],
    "reward": [0.5, 0.6, 0.7],
}
COLUMNS = {"configuration": ["tilt"]}
TRACE = Trace.from_frame(LOG, COLUMNS)
SPACE = ConfigurationSpace(tilt=[2, 4, 6])
ALIKE = TaskMatrix(("a", "b"), np.eye(2), "given")
LONG = Trace.from_frame(
    {"station": ["a", "b"] * 20, "tilt": [2, 4, 6, 4] * 10, "reward": np.linspace(0.4, 0.9, 40)}, COLUMNS
)
RNG = np.random.default_rng(0)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    TRACE.write(tmp_path / "log.csv")
    (tmp_path / "file").write_text("in the way")
    return tmp_path


def _from_trace(_: Path, given: dict[str, Any]) -> Controller:
    return Controller.from_trace(LONG, similarity="pooled", **given)


def _learned(**odd: float) -> Controller:
    """A controller of a log whose third row holds something odd; large numbers must not make NumPy warn either."""
    log: dict[str, Any] = {"station": ["a", "b"] * 20, "tilt": [2, 4, 6, 4] * 10, "load": np.linspace(0.1, 0.9, 40)}
    log["reward"] = np.linspace(0.4, 0.9, 40) ** 2
    return Controller.from_trace(
        Trace.from_frame({**log, **{n: np.where(np.arange(40) == 2, v, log[n]) for n, v in odd.items()}}, COLUMNS)
    )


def _asked() -> Controller:
    controller = Controller(SPACE, ["a"])
    controller.ask("a")
    return controller


DOORS: list[tuple[str, Callable[[Path, Any], object], Any, str]] = [
    ("reading a path", lambda _, odd: Trace.read(odd), None, "path of a trace must be text or a path, got None"),
    ("reading a number", lambda _, odd: Trace.read(odd), 3, "path of a trace .* got 3"),
    ("writing", lambda _, odd: TRACE.write(odd), None, "path of a trace .* got None"),
    ("a range", lambda f, odd: Trace.read(f / "log.csv", reward_range=odd), 1, r"reward_range must be .* got 1"),
    ("three limits", lambda f, odd: Trace.read(f / "log.csv", reward_range=odd), (0, 1, 2), "reward_range must be"),
    ("limits of text", lambda f, odd: Trace.read(f / "log.csv", reward_range=odd), ("a", "b"), "must be a number"),
    ("limits upside down", lambda f, odd: Trace.read(f / "log.csv", reward_range=odd), (1, 0), "lowest below its high"),
    ("a delimiter", lambda f, odd: Trace.read(f / "log.csv", delimiter=odd), 3, "delimiter must be one character"),
    ("a long delimiter", lambda f, odd: Trace.read(f / "log.csv", delimiter=odd), "::", "delimiter must be one char"),
    ("a decimal", lambda f, odd: Trace.read(f / "log.csv", decimal_point=odd), 3, "decimal_point must be one char"),
    (
        "a sentinel",
        lambda f, odd: _learned(reward=odd),
        1.7e308,
        "the reward is 1.7e.308 in row 3 of those learned from",
    ),
    (
        "a large state",
        lambda f, odd: _learned(load=odd),
        1e200,
        "state feature 'load' is 1e.200 in row 3, .* too large",
    ),
    (
        "a half-life without times",
        lambda f, odd: _from_trace(f, {"drift": odd}),
        Drift("learned"),
        "add a time column, or give a half-life in decisions",
    ),
    ("a cost", lambda _, odd: SwitchingCost(odd), True, "must be a number, got True"),
    ("columns", lambda f, odd: Trace.read(f / "log.csv", odd), {1: 2}, "roles in columns are .* got 1"),
    ("a sample", lambda _, odd: TRACE.sample(odd, RNG), "3", "rows_per_station must be a whole number .* got '3'"),
    ("half a row", lambda _, odd: TRACE.sample(odd, RNG), 1.5, "rows_per_station must be a whole number"),
    ("chance", lambda _, odd: TRACE.sample(2, odd), 7, "rng must be a generator .* got 7"),
    ("an encoder", lambda _, odd: TRACE.samples(odd), SPACE, "encoder must be a ContextEncoder"),
    ("stations", lambda _, odd: TRACE.samples(stations=odd), 3, "stations must be a list of names, got 3"),
    (
        "configurations",
        lambda _, odd: ConfigurationSpace.from_list(odd),
        None,
        "must be a list of mappings .* got None",
    ),
    ("one configuration", lambda _, odd: ConfigurationSpace.from_list(odd), {"tilt": 2}, "must be a list of mappings"),
    ("categories", lambda _, odd: ConfigurationSpace.from_list(list(SPACE), categories=odd), 3, "list of knobs, got 3"),
    ("an arm", lambda _, odd: SPACE[odd], "2", "named by its number, .* got '2'"),
    ("columns of knobs", lambda _, odd: SPACE.indices(odd), None, "configuration columns are None"),
    ("a column of a knob", lambda _, odd: SPACE.indices({"tilt": odd}), 2, "must be a list, one per row, got 2"),
    ("a limit", lambda _, odd: Range(odd), "a", "Range takes numbers, got 'a'"),
    ("no limit", lambda _, odd: Range(2, odd), None, "Range takes numbers, got None"),
    ("categories of none", lambda _, odd: Categories(odd), None, "takes a list of values, got None"),
    ("ranges", lambda _, odd: StateScaler.from_ranges(odd), [("load", 0, 1)], "ranges must be a mapping"),
    ("names", lambda _, odd: StateScaler.identity(odd), 3, "state features must be a list of names, got 3"),
    ("a state", lambda _, odd: StateScaler.identity(["load"]).transform(odd), ["much"], "must be numbers"),
    ("tasks", lambda _, odd: TaskMatrix(odd, np.eye(2), "given"), 3, "stations must be a list of names, got 3"),
    ("storing a matrix", lambda _, odd: ALIKE.save(odd), None, "path of a task matrix .* got None"),
    ("loading a matrix", lambda _, odd: TaskMatrix.load(odd), None, "path of a task matrix .* got None"),
    ("drawing a matrix", lambda _, odd: ALIKE.heatmap(odd), None, "path of a picture .* got None"),
    ("a matrix below a file", lambda f, odd: ALIKE.save(f / odd), "file/k.npz", "none can be made"),
    ("a trace onto a folder", lambda f, odd: TRACE.write(f / odd), "folder.csv", "is a directory"),
    ("loading a controller", lambda _, odd: Controller.load(odd), None, "path of a saved controller .* got None"),
    (
        "saving a controller",
        lambda _, odd: Controller(SPACE, ["a"]).save(odd),
        3,
        "path of a saved controller .* got 3",
    ),
    ("a null character", lambda _, odd: Controller(SPACE, ["a"]).save(odd), "a\0b", "must not hold a null character"),
    *((f"the seed {odd!r}", _from_trace, {"seed": odd}, "seed must be a whole number") for odd in (-1, "x", 1.5, None)),
    *(
        (f"the range {odd!r}", _from_trace, {"running": {"tilt": 2}, "reward_range": odd}, "reward_range must be")
        for odd in (5, "ab", (None, None), (0, 1, 2))
    ),
    ("a log of a judge", lambda _, odd: evaluate(odd, "usual"), LOG, "evaluate takes a Trace, got dict: Trace.from_fr"),
    ("a cut", lambda _, odd: evaluate(LONG, "usual", clip=odd), True, "clip must be a number, got True"),
    ("the seed of a judge", lambda _, odd: evaluate(LONG, "usual", seed=odd), -1, "seed must be a whole number"),
    ("chances", lambda _, odd: evaluate(LONG, "usual", propensity=odd), "p", "propensities must be numbers, one for"),
    ("chances of text", lambda _, odd: evaluate(LONG, "usual", propensity=odd), ["p"] * 40, "propensities must be num"),
    (
        "a model",
        lambda _, odd: evaluate(LONG, "usual", model=odd),
        5,
        r"model must be a kinband\.model\.Model, .* got 5",
    ),
    ("a policy", lambda _, odd: evaluate(LONG, odd), lambda state: {"tilt": 2}, "is called with station and state"),
    ("most rows", lambda _, odd: _asked().explain("d000001", most_rows=odd), "x", "most_rows must be a whole number"),
    ("a reward of text", lambda _, odd: _asked().tell("d000001", odd), "0.5", "reward must be a number, got '0.5'"),
    ("a true reward", lambda _, odd: _asked().tell("d000001", odd), True, "reward must be a number, got True"),
]


@pytest.mark.parametrize(("door", "odd", "message"), [pytest.param(*door[1:], id=door[0]) for door in DOORS])
def test_what_cannot_be_right_gets_one_sentence(
    door: Callable[[Path, Any], object], odd: Any, message: str, files: Path
) -> None:
    (files / "folder.csv").mkdir()
    with pytest.raises(BadInputError, match=message) as caught:
        door(files, odd)
    assert "\n" not in str(caught.value)


def test_a_task_matrix_makes_its_folder(tmp_path: Path) -> None:
    for name in ("alike.npz", "alike.csv"):
        ALIKE.save(tmp_path / "new" / "folder" / name)
        assert TaskMatrix.load(tmp_path / "new" / "folder" / name).stations == ("a", "b")


def test_a_controller_is_not_saved_where_something_is_in_the_way(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    controller = Controller(SPACE, ["a"])
    with pytest.raises(BadInputError, match=r"nothing can be saved in .*file"):
        controller.save(files / "file" / "state")
    with pytest.raises(BadInputError, match="is not a saved controller"):
        controller.save(files / "file")
    monkeypatch.chdir(files)
    with pytest.raises(BadInputError, match="present folder"):
        save_controller(controller, ".", beliefs=True)
    assert sorted(path.name for path in files.iterdir()) == ["file", "log.csv", "log.csv.columns.json"]


def test_a_controller_can_be_loaded_from_the_present_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    controller = Controller(SPACE, ["a"])
    controller.tell(controller.ask("a").id, 0.5)
    controller.save(tmp_path / "state")
    monkeypatch.chdir(tmp_path / "state")
    for name in (".", "../state"):
        assert len(load_controller(name, policy=None, rebuild=False)) == 1


def test_every_refusal_is_one_of_ours() -> None:
    odd: list[Any] = [None, 1, 1.5, "x", b"x", [], [1], {}, {"a": 1}, object(), True, np.nan, np.ones(2), {1, 2}]
    doors: list[Callable[[Any], object]] = [
        Trace.read,
        lambda o: Trace.from_frame(o, COLUMNS),
        lambda o: Trace.from_frame({**LOG, "load": o}, COLUMNS),
        lambda o: Trace.from_frame({**LOG, "station": [o] * 3}, COLUMNS),
        lambda o: Trace.from_frame({**LOG, "tilt": [o] * 3}, COLUMNS),
        lambda o: Trace.from_frame(LOG, o),
        TRACE.select,
        TRACE.with_space,
        ConfigurationSpace.from_list,
        SPACE.index,
        SPACE.indices,
        SPACE.mask,
        StateScaler.from_ranges,
        lambda o: StateScaler.from_ranges({"load": o}),
        lambda o: TaskMatrix(o, np.eye(2), "given"),
        lambda o: TaskMatrix(("a", "b"), o, "given"),
        TaskMatrix.load,
    ]
    said: list[str] = []
    for door in doors:
        for thing in odd:
            try:
                door(thing)
            except KinbandError as error:
                said.append(str(error))
    assert len(said) > 100
    assert [sentence for sentence in said if "\n" in sentence] == []


def test_stations_may_come_one_by_one() -> None:
    assert Controller(SPACE, (f"s{i}" for i in range(3))).stations == ("s0", "s1", "s2")  # type: ignore[arg-type]
    with pytest.raises(BadInputError, match="stations must be a list of names"):
        Controller(SPACE, (i for i in range(3)))  # type: ignore[arg-type]
