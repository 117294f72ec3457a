"""The report of the demonstration: what it promises is in it, it loads nothing, its numbers are those of the runs."""

import json
import re
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kinband import ConfigurationSpace, Trace
from kinband.environments.trace import LEAST
from kinband.errors import BadInputError
from kinband.experiments.city import CityLog, city_beside, city_log_of
from kinband.experiments.demo import ALONE, SHARED, Demonstration, Played, demo_cases, run_demo
from kinband.experiments.report.findings import FIXED, HINDSIGHT, Findings, for_operators, headline, words_of
from kinband.experiments.report.page import write_report
from kinband.experiments.report.pictures import family_colours
from kinband.experiments.runner import Case, Learner
from kinband.kernels import RBF
from kinband.model import Model
from kinband.similarity import TaskMatrix

HOSTILE = ("1001", "<script>alert(1)</script>", "a\"b'c&d", "$x_{1}$", "1005", "1006")
THRESHOLDS = range(-112, -83, 7)
HEADINGS = (
    "What you see",
    "Who did how well",
    "How soon, at what risk, for how many",
    "How far from the best",
    "Satisfied users gained",
    "Who is like whom, and who gains",
    "How far to trust it",
    "What it would set over the day",
    "What the words mean",
    "How this was made",
)


def small_trace(names: tuple[str, ...] = HOSTILE, *, rows: int = 40, seed: int = 4) -> Trace:
    """A log in the columns of the simulator: the best threshold of a station falls with its load."""
    rng = np.random.default_rng(seed)
    n = rows * len(names)
    start, step = np.datetime64("2024-05-13T14:00"), np.timedelta64(9, "m")
    columns: dict[str, Any] = {
        "station": np.repeat(names, rows),
        "time": np.tile(start + np.arange(rows) * step, len(names)),
    }
    columns["users"], columns["cqi_share"] = rng.uniform(5, 60, n), rng.random(n)
    columns["handover_threshold_dbm"] = rng.choice(list(THRESHOLDS), n)
    off = (columns["handover_threshold_dbm"] + 90 + columns["users"] / 4) / 40
    columns["reward"] = np.clip(0.95 - off**2 + 0.02 * rng.normal(size=n), 0, 1)
    trace = Trace.from_frame(columns, {"configuration": ["handover_threshold_dbm"]})
    return trace.with_space(ConfigurationSpace(handover_threshold_dbm=THRESHOLDS))


def layout(names: tuple[str, ...] = HOSTILE) -> dict[str, Any]:
    """What `kinband simulate` writes beside a trace, as far as a map needs it."""
    sites = -(-len(names) // 3)
    return {
        "seed": 9,
        "arguments": {"period_minutes": 9.0},
        "parameters": {"start_threshold_dbm": -98.0, "traffic": {"good_bps": 5e6}},
        "layout": {
            "names": list(names),
            "sites": [[500.0 * i, 300.0 * i] for i in range(sites)],
            "site": [i // 3 for i in range(len(names))],
            "azimuth_deg": [30.0 + 120 * i for i in range(len(names))],
            "land_use": ["business" if i % 2 else "<b>homes</b>" for i in range(len(names))],
            "hot_spots": [[100.0, 200.0]],
        },
    }


def written(folder: Path, *, city: bool) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    small_trace().write(folder / "city.parquet")
    if city:
        (folder / "city.json").write_text(json.dumps(layout()))
    return str(folder / "city.parquet")


def demonstrate(source: str, folder: Path) -> Demonstration:
    stage = city_log_of(source)
    return run_demo(stage, demo_cases(stage, rounds=3, runs=2, beta=0.4), folder, n_jobs=1)


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Demonstration:
    folder = tmp_path_factory.mktemp("city")
    return demonstrate(written(folder, city=True), folder / "work")


class Tags(HTMLParser):
    """Every tag with its attributes, and the text between them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def page(shown: Demonstration, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("report")
    files = write_report(shown, folder, command="kinband demo --trace '<here>'")
    assert sorted(file.name for file in folder.iterdir()) == sorted(file.name for file in files)
    for picture in files[1:]:
        assert picture.read_bytes().startswith(b"\x89PNG")
    return files[0].read_text(encoding="utf-8")


def test_the_page_has_every_part_it_promises(page: str) -> None:
    read = Tags(page)
    for heading in HEADINGS:
        assert f"<h2>{heading}</h2>" in page
    # Seven pictures, each wide and narrow; every sector has a name to hover over in both maps.
    assert sum(tag == "svg" for tag, _ in read.tags) == 14
    assert sum(tag == "title" for tag, _ in read.tags) == 1 + 2 * len(HOSTILE)
    for words in ("below the best attainable, points", "handover threshold (dBm)", "east (km)", "north (km)", "round"):
        assert words in read.text
    assert "seed 9" in read.text
    assert "240 rows of 6 sectors" in read.text
    assert "5 Mbit/s" in read.text
    assert "every round of 9 min" in read.text
    assert "fixed at −98 dBm" in read.text


def test_the_page_loads_nothing(page: str) -> None:
    read = Tags(page)
    assert not {tag for tag, _ in read.tags} & {"script", "link", "iframe", "object", "embed", "img", "base"}
    for _, attributes in read.tags:
        for name, value in attributes.items():
            if name in ("src", "href", "xlink:href", "srcset", "data"):
                assert value is not None
                assert value.startswith(("data:", "#"))
    assert not re.search(r"https?://|@import|file:", page)
    assert all(target.startswith("#") for target in re.findall(r"url\(\s*['\"]?([^)]*)", page))
    assert "default-src 'none'" in page


def test_names_from_outside_are_text_and_never_markup(page: str) -> None:
    read = Tags(page)
    assert not any(tag in ("script", "b2", "here") for tag, _ in read.tags)
    assert "<script>" not in page
    assert "<b>homes" not in page
    assert "<script>alert(1)</script>" in unescape(page)
    assert "kinband demo --trace '<here>'" in read.text


def test_ids_are_unique_and_every_reference_is_met(page: str) -> None:
    ids = [attributes["id"] for _, attributes in Tags(page).tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert set(re.findall(r"(?:url\(|href=\")#([^)\"]+)", page)) <= set(ids)


def test_pictures_take_their_ink_from_the_page(page: str) -> None:
    pictures = "".join(re.findall(r"<svg.*?</svg>", page, flags=re.DOTALL))
    assert "var(--ink)" in pictures
    assert "var(--faint)" in pictures
    assert "#1c2733" not in pictures
    assert "prefers-color-scheme: dark" in page
    assert "max-width: 640px" in page


def test_the_same_runs_give_the_same_page_bit_for_bit_and_are_not_computed_again(
    shown: Demonstration, page: str, tmp_path: Path
) -> None:
    source = written(tmp_path, city=True)
    again = demonstrate(source, tmp_path / "work")
    for one, two in zip(shown.runs, again.runs, strict=True):
        assert np.array_equal(one.arms, two.arms)
        assert np.array_equal(one.means, two.means, equal_nan=True)
    (tmp_path / "out").mkdir()
    files = write_report(again, tmp_path / "out", command="kinband demo --trace '<here>'")
    assert files[0].read_text(encoding="utf-8") == page
    before = {file: file.stat().st_mtime_ns for file in (tmp_path / "work").rglob("*.json")}
    demonstrate(source, tmp_path / "work")
    assert len(before) >= len(shown.runs)
    assert before == {file: file.stat().st_mtime_ns for file in (tmp_path / "work").rglob("*.json")}


def test_a_log_without_a_layout_has_no_map_and_no_radio_words(tmp_path: Path) -> None:
    demo = demonstrate(written(tmp_path, city=False), tmp_path / "work")
    (tmp_path / "out").mkdir()
    files = write_report(demo, tmp_path / "out", command="kinband demo")
    assert {file.name for file in files} == {
        "report.html", "regret.png", "similarity.png", "day.png", "calibration.png", "lending.png",
    }  # fmt: skip
    text = Tags(files[0].read_text(encoding="utf-8")).text
    assert "sector" not in text
    assert "satisfied" not in text
    assert "the configuration run most often" in text


# --- Numbers, by hand -----------------------------------------------------------------------------------------


def played(name: str, seed: int, *, arms: Any, users: Any) -> Played:
    """A run of the arms (T, M)."""
    case = Case("x", Learner(name, name), len(arms), seed)
    return Played(case, np.array(arms), np.array(users, dtype=float), np.empty((0, 0, 0)))


def by_hand(stage: CityLog, similarity: TaskMatrix, *, shared: Any, alone: Any) -> Findings:
    # Two stations, two rounds, three configurations; today's is the first, the last is best for all together.
    offers = {
        1: np.array([[[0.5, 0.6, 0.9], [0.4, 0.8, 0.7]], [[0.5, 0.9, 0.7], [0.2, 0.3, 0.7]]]),
        2: np.array([[[0.5, 0.5, 0.6], [0.4, 0.5, 0.8]], [[0.5, 0.7, 0.9], [0.1, 0.3, 0.6]]]),
    }
    users = [[10.0, 20.0], [30.0, 40.0]]
    runs = [
        played(name, seed, arms=arms, users=users)
        for name, arms in ((SHARED, shared), (ALONE, alone))
        for seed in (1, 2)
    ]
    return Findings(Demonstration(stage, tuple(runs), offers, Model(RBF(0.7), similarity, 0.02, 0.5), 1.0))


def two_stations(shown: Demonstration) -> tuple[CityLog, TaskMatrix]:
    names = HOSTILE[:2]
    rows = np.isin(shown.stage.trace.station, names)
    stage = replace(shown.stage, trace=shown.stage.trace.select(rows), days={}, today=0)
    return stage, TaskMatrix(names, np.array([[1.0, 0.4], [0.4, 1.0]]), "given")


def test_shares_regrets_and_users_gained_are_those_of_the_runs(shown: Demonstration) -> None:
    stage, similarity = two_stations(shown)
    found = by_hand(stage, similarity, shared=[[2, 2], [2, 2]], alone=[[1, 1], [1, 1]])
    standings = found.standings
    # Best rewards of seed 1: .9 .8 .9 .7, of seed 2: .6 .8 .9 .6; configuration 2 loses .1 + .2 and nothing.
    assert standings[SHARED].regret.sum(axis=1) == pytest.approx([0.3, 0.0])
    assert standings[ALONE].regret.sum(axis=1) == pytest.approx([0.3 + 0.0 + 0.0 + 0.4, 0.1 + 0.3 + 0.2 + 0.3])
    saved = standings[SHARED].saved
    assert saved is not None
    assert saved.value == pytest.approx(1 - 0.3 / 1.6)
    assert standings[SHARED].reward.value == pytest.approx((0.9 + 0.7 + 0.7 + 0.7 + 0.6 + 0.8 + 0.9 + 0.6) / 8)
    # Users gained over configuration 0 in a round, seed 1: .4·10 + .3·20 and .2·30 + .5·40.
    assert standings[SHARED].gained[0] == pytest.approx([10.0, 26.0])
    gain = standings[FIXED].gain
    assert gain is not None
    assert (gain.value, gain.low, gain.high) == (0.0, 0.0, 0.0)
    assert found.best_arm == 2
    assert standings[HINDSIGHT].regret == pytest.approx(standings[SHARED].regret)


def test_the_verdict_follows_the_interval(shown: Demonstration) -> None:
    stage, similarity = two_stations(shown)
    good, bad = [[2, 2], [2, 2]], [[1, 1], [1, 1]]
    assert headline(by_hand(stage, similarity, shared=good, alone=bad)).startswith("Sharing saved 81%")
    # Configuration 0 has regrets 1.7 and 1.4, configuration 1 has 0.7 and 0.9.
    raised = headline(by_hand(stage, similarity, shared=[[0, 0], [0, 0]], alone=bad))
    assert raised.startswith("Sharing raised the regret of learning alone by 94% (95 % interval: 56% to 143%)")
    assert "do not settle" in headline(by_hand(stage, similarity, shared=bad, alone=bad))
    assert "nothing to save" in headline(by_hand(stage, similarity, shared=bad, alone=good))


def test_operators_are_told_how_soon_at_what_risk_and_for_how_many(shown: Demonstration) -> None:
    stage, similarity = two_stations(shown)
    best = {1: [[2, 1], [1, 2]], 2: [[2, 2], [2, 2]]}
    found = by_hand(stage, similarity, shared=[[2, 2], [2, 2]], alone=[[0, 1], [0, 0]])
    words = words_of(found)
    # Of 8 offers configuration 2 beats today's in all; configuration 1 never does worse either.
    assert found.standings[SHARED].worse.tolist() == [0.0, 0.0]
    assert found.standings[SHARED].arrived is None
    assert for_operators(found, words).startswith("Neither sharing nor learning alone came within half a point")
    perfect = [
        replace(run, arms=np.array(best[run.case.seed])) if run.case.learner.name == SHARED else run
        for run in found.demo.runs
    ]
    soon = Findings(replace(found.demo, runs=tuple(perfect)))
    assert soon.standings[SHARED].arrived == 2  # of two rounds, both are looked at
    assert soon.standings[SHARED].arrivals == (2, 2)
    said = for_operators(soon, words)
    assert (
        "after 2 trials a sector with sharing, alone not in 2; in single runs it took 2 to 2 and more than 2 to" in said
    )
    # Gained over today, seed 1: .4·10 + .4·20 and .4·30 + .5·40; seed 2: .1·10 + .4·20 and .4·30 + .5·40.
    assert f"{(12 + 32 + 9 + 32) / 4:.0f} more users" in said
    swapped = Findings(replace(found.demo, runs=tuple(replace(run, case=_other(run.case)) for run in soon.demo.runs)))
    assert "after 2 trials a sector alone, with sharing not in 2;" in for_operators(swapped, words)
    late = by_hand(replace(stage, today=2), similarity, shared=[[0, 2], [2, 2]], alone=[[0, 0], [1, 1]])
    # Less than configuration 2: once in each run with sharing; alone .5 < .9, .4 < .7, .3 < .7, and all four of seed 2.
    assert late.standings[SHARED].worse.tolist() == [0.25, 0.25]
    assert late.standings[ALONE].worse.tolist() == [0.75, 1.0]
    assert "25% with sharing and 88% alone" in for_operators(late, words)


def _other(case: Case) -> Case:
    name = ALONE if case.learner.name == SHARED else SHARED
    return replace(case, learner=replace(case.learner, name=name))


def test_users_are_counted_only_where_rewards_are_known_to_be_shares_of_users(shown: Demonstration) -> None:
    stage, similarity = two_stations(shown)
    found = by_hand(replace(stage, city=None), similarity, shared=[[2, 2], [2, 2]], alone=[[1, 1], [1, 1]])
    assert found.standings[SHARED].gain is None
    assert "users" not in headline(found)
    assert not words_of(found).percent


def test_families_are_groups_where_there_are_some_and_fifths_where_not(shown: Demonstration) -> None:
    names = shown.stage.trace.stations
    block = np.kron(np.eye(2), np.full((3, 3), 0.9)) + 0.1 * np.eye(6)
    grouped = Findings(replace(shown, model=replace(shown.model, similarity=TaskMatrix(names, block, "given"))))
    assert sorted(len(family.stations) for family in grouped.families) == [3, 3]
    assert {frozenset(f.stations) for f in grouped.families} == {frozenset(names[:3]), frozenset(names[3:])}
    typical = np.array([1.0, 0.9, 0.8, 0.7, 0.6, 0.1])
    one_core = np.outer(typical, typical)
    np.fill_diagonal(one_core, 1.0)
    spread = Findings(replace(shown, model=replace(shown.model, similarity=TaskMatrix(names, one_core, "given"))))
    ordered = [name for family in spread.families for name in family.stations]
    assert ordered == list(names)
    assert len(set(family_colours(spread.families).values())) == 5


# --- Doors ------------------------------------------------------------------------------------------------------


def test_today_is_the_start_threshold_of_a_city_and_else_the_most_frequent_configuration(tmp_path: Path) -> None:
    assert city_log_of(written(tmp_path, city=True)).today == THRESHOLDS.index(-98)
    trace = city_log_of(written(tmp_path / "bare", city=False)).trace
    values, counts = np.unique(trace.configuration["handover_threshold_dbm"], return_counts=True)
    stage = city_log_of(str(tmp_path / "bare" / "city.parquet"))
    assert stage.space[stage.today]["handover_threshold_dbm"] == values[counts.argmax()]


def test_the_day_shows_a_busy_station_of_each_kind_at_its_mean_states(tmp_path: Path) -> None:
    stage = city_log_of(written(tmp_path, city=True))
    assert stage.city is not None
    assert sorted(filter(None, map(stage.city.kind_of, stage.days))) == ["<b>homes</b>", "business"]
    station, trace = next(iter(stage.days)), stage.trace
    assert trace.time is not None
    first = (trace.station == station) & (trace.time < np.datetime64("2024-05-13T15:00"))
    assert stage.days[station][14]["users"] == pytest.approx(
        trace.state[first, trace.state_names.index("users")].mean()
    )
    assert stage.hours == (14, 15, 16, 17, 18, 19)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"rows": LEAST - 1}, f"needs {LEAST} of each"),
        ({"names": ("1001",)}, "sharing takes at least two"),
    ],
)
def test_a_trace_that_cannot_be_played_is_refused_at_once(
    tmp_path: Path, change: dict[str, Any], sentence: str
) -> None:
    small_trace(**change).write(tmp_path / "log.parquet")
    with pytest.raises(BadInputError, match=sentence):
        city_log_of(str(tmp_path / "log.parquet"))


def test_a_side_file_that_is_broken_or_belongs_elsewhere_is_refused(tmp_path: Path) -> None:
    source = written(tmp_path, city=True)
    side = tmp_path / "city.json"
    side.write_text(json.dumps(layout(("1", "2", "3"))))
    with pytest.raises(BadInputError, match="names other stations"):
        city_log_of(source)
    wrong = layout()
    wrong["layout"]["azimuth_deg"] = [0.0]
    for broken in ("not json", json.dumps(wrong), json.dumps({"layout": {"names": ["a"]}})):
        side.write_text(broken)
        with pytest.raises(BadInputError, match="kinband simulate"):
            city_beside(tmp_path / "city.parquet")
    side.write_text(json.dumps({"note": "some other file"}))
    assert city_beside(tmp_path / "city.parquet") is None
