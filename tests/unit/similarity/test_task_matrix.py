"""The task matrix: checks, names, order, files, pictures, and the nearest correlation matrix."""

import json
from pathlib import Path

import numpy as np
import pytest

from kinband.arrays import FloatArray
from kinband.errors import BadInputError, NotFoundError, SavedStateError
from kinband.similarity import ProjectionWarning, TaskMatrix, nearest_correlation
from kinband.similarity.matrix import FORMAT


def matrix_of(size: int, *, seed: int, rank: int = 3) -> FloatArray:
    """A random correlation matrix with entries of both signs."""
    Z = np.random.default_rng(seed).standard_normal((size, rank))
    K = Z @ Z.T + 0.3 * np.eye(size)
    scale = np.sqrt(np.diag(K))
    return np.asarray(K / np.outer(scale, scale))


def named(size: int, *, seed: int = 3) -> TaskMatrix:
    return TaskMatrix(
        tuple(f"bs {m}" for m in range(size)),
        matrix_of(size, seed=seed),
        "embedding",
        {"sigma": 0.1 + 0.2, "rows": 7},
    )


def two_groups() -> TaskMatrix:
    """Stations a, c, e belong together, and b, d."""
    K = np.array([[1.0 if (i - j) % 2 == 0 else 0.1 for j in range(5)] for i in range(5)])
    return TaskMatrix(tuple("abcde"), 0.9 * K + 0.1 * np.eye(5), "given")


def test_a_complex_matrix_is_refused_and_not_cut_down_to_its_real_part() -> None:
    K_Z = np.array([[1, 0.5j], [-0.5j, 1]])
    for matrix in (K_Z, K_Z.tolist()):
        with pytest.raises(BadInputError, match=r"must be (real )?numbers"):
            TaskMatrix(("x", "y"), matrix, "given")


def test_between_looks_up_by_name_in_either_order() -> None:
    alike = TaskMatrix(("x", "y", "z"), np.array([[1.0, 0.2, 0.3], [0.2, 1.0, 0.4], [0.3, 0.4, 1.0]]), "given")
    assert alike.between("y", "z") == alike.between("z", "y") == 0.4
    with pytest.raises(NotFoundError, match="no station 'w'"):
        alike.between("x", "w")


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([[1.0, 0.5], [0.4, 1.0]], "symmetric"),
        ([[1.0, 1.5], [1.5, 1.0]], "not positive semi-definite"),
        ([[1.0]], "one row for each of 2 stations"),
        ([[1.0, float("nan")], [0.1, 1.0]], "nan"),
    ],
)
def test_what_is_no_kernel_is_refused(matrix: list[list[float]], message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        TaskMatrix(("a", "b"), np.array(matrix), "given")


def test_stations_must_have_different_names() -> None:
    with pytest.raises(BadInputError, match="'a' is named twice"):
        TaskMatrix(("a", "a"), np.eye(2), "given")


def test_details_must_fit_into_json() -> None:
    with pytest.raises(BadInputError, match="JSON"):
        TaskMatrix(("a",), np.eye(1), "given", {"kernel": object()})


def test_matrix_cannot_be_written_to_and_is_a_copy() -> None:
    K = np.eye(2)
    alike = TaskMatrix(("a", "b"), K, "given")
    K[0, 1] = 0.5
    assert alike.between("a", "b") == 0.0
    with pytest.raises(ValueError, match="read-only"):
        alike.matrix[0, 0] = 2.0


def test_reindex_picks_and_reorders() -> None:
    alike = named(5)
    part = alike.reindex(["bs 4", "bs 1"])
    assert part.stations == ("bs 4", "bs 1")
    assert part.between("bs 1", "bs 4") == alike.between("bs 1", "bs 4")
    assert part.details == alike.details
    with pytest.raises(NotFoundError, match="'bs 9'"):
        alike.reindex(["bs 9"])


def test_order_puts_groups_side_by_side() -> None:
    places = two_groups().order().tolist()
    assert sorted(places) == [0, 1, 2, 3, 4]
    halves = [m % 2 for m in places]
    assert halves in ([0, 0, 0, 1, 1], [1, 1, 0, 0, 0])


@pytest.mark.parametrize("size", [1, 2])
def test_order_and_groups_of_very_few_stations(size: int) -> None:
    alike = TaskMatrix(tuple("ab"[:size]), np.eye(size), "independent")
    assert sorted(alike.order().tolist()) == list(range(size))
    assert alike.groups() == [(name,) for name in "ab"[:size]]


def test_groups_follow_the_cut() -> None:
    alike = two_groups()
    assert sorted(tuple(sorted(group)) for group in alike.groups(alike=0.5)) == [("a", "c", "e"), ("b", "d")]
    assert len(alike.groups(alike=0.95)) == 5
    assert len(alike.groups(alike=0.05)) == 1


def test_groups_of_covariances_are_those_of_correlations() -> None:
    scale = np.diag([0.1, 3.0, 20.0, 0.5, 1.0])
    scaled = TaskMatrix(tuple("abcde"), scale @ two_groups().matrix @ scale, "given")
    assert np.allclose(scaled.correlation(), two_groups().matrix)
    assert sorted(tuple(sorted(group)) for group in scaled.groups()) == [("a", "c", "e"), ("b", "d")]


def test_npz_gives_back_everything_to_the_bit(tmp_path: Path) -> None:
    alike = named(6)
    alike.save(tmp_path / "alike.npz")
    again = TaskMatrix.load(tmp_path / "alike.npz")
    assert again.stations == alike.stations
    assert np.array_equal(again.matrix, alike.matrix)
    assert (again.method, again.details) == (alike.method, alike.details)


def test_csv_gives_back_names_numbers_and_method_to_the_bit(tmp_path: Path) -> None:
    names = ('Depot, "north"', "Zürich\nWest", " 3714")
    alike = TaskMatrix(names, matrix_of(3, seed=8), "prediction")
    alike.save(tmp_path / "alike.csv")
    again = TaskMatrix.load(tmp_path / "alike.csv")
    assert again.stations == names
    assert np.array_equal(again.matrix, alike.matrix)
    assert again.method == "prediction"


def test_csv_written_by_a_spreadsheet_is_read(tmp_path: Path) -> None:
    path = tmp_path / "hand.csv"
    path.write_bytes(b"\xef\xbb\xbf,a,b\r\na,1,0.25\r\nb,0.25,1\r\n")
    assert TaskMatrix.load(path).between("a", "b") == 0.25
    assert TaskMatrix.load(path).method == "given"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no table"),
        ("given,a,b\na,1,0\n", "same stations"),
        ("given,a,b\nb,1,0\na,0,1\n", "same order"),
        ("given,a,b\na,1,0\nb,0\n", "1 numbers for station 'b', expected 2"),
        ("given,a,b\na,1,high\nb,high,1\n", "not a number"),
        ("given,a,b\na,1,2\nb,2,1\n", "not positive semi-definite"),
        ("given,a,a\na,1,0\na,0,1\n", "named twice"),
    ],
)
def test_csv_that_is_no_task_matrix_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(BadInputError, match=message):
        TaskMatrix.load(path)


def test_binary_file_called_csv_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    path.write_bytes(bytes(range(128, 256)))
    with pytest.raises(BadInputError, match="not a table of text"):
        TaskMatrix.load(path)


def test_text_called_npz_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bad.npz"
    path.write_text("station,a,b", encoding="utf-8")
    with pytest.raises(SavedStateError, match="not a task matrix"):
        TaskMatrix.load(path)


def test_truncated_npz_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "cut.npz"
    named(4).save(path)
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(SavedStateError, match="damaged"):
        TaskMatrix.load(path)


def test_npz_of_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.npz"
    np.savez(path, weights=np.eye(2))
    with pytest.raises(SavedStateError, match="not a task matrix"):
        TaskMatrix.load(path)


def test_pickled_objects_are_never_loaded(tmp_path: Path) -> None:
    path = tmp_path / "pickled.npz"
    np.savez(path, matrix=np.array([{"a": 1}], dtype=object), about=np.array("{}"))
    with pytest.raises(SavedStateError, match="not a task matrix"):
        TaskMatrix.load(path)


def test_npz_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "new.npz"
    about = {"format": FORMAT, "version": 99, "stations": ["a"], "method": "given", "details": {}}
    np.savez(path, matrix=np.eye(1), about=np.array(json.dumps(about)))
    with pytest.raises(SavedStateError, match=r"version 99.*upgrade"):
        TaskMatrix.load(path)


def test_npz_with_too_few_names_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "short.npz"
    about = {"format": FORMAT, "version": 1, "stations": ["a"], "method": "given", "details": {}}
    np.savez(path, matrix=np.eye(2), about=np.array(json.dumps(about)))
    with pytest.raises(BadInputError, match="one row for each of 1 stations"):
        TaskMatrix.load(path)


def test_unknown_endings_and_missing_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"\.npz or \.csv"):
        named(2).save(tmp_path / "alike.json")
    with pytest.raises(BadInputError, match="there is no file"):
        TaskMatrix.load(tmp_path / "absent.npz")
    with pytest.raises(BadInputError, match=r"\.png, \.svg or \.pdf"):
        named(2).heatmap(tmp_path / "alike.bmp")


@pytest.mark.parametrize(("suffix", "start"), [(".png", b"\x89PNG"), (".pdf", b"%PDF"), (".svg", b"<?xml")])
def test_heatmap_is_written_in_the_format_of_its_ending(tmp_path: Path, suffix: str, start: bytes) -> None:
    path = tmp_path / f"alike{suffix}"
    named(4).heatmap(path)
    content = path.read_bytes()
    assert content.startswith(start)
    assert len(content) > 4000


def test_heatmap_of_few_stations_shows_names_numbers_and_title(tmp_path: Path) -> None:
    names = ("a $x^2$ & co", "b", "a name that is far too long to be shown in full")
    K = np.array([[1.0, 0.37, -0.25], [0.37, 1.0, 0.5], [-0.25, 0.5, 1.0]])
    TaskMatrix(names, K, "given").heatmap(tmp_path / "k.svg", title="Costs $5 & more")
    text = (tmp_path / "k.svg").read_text(encoding="utf-8")
    for shown in ("a $x^2$ &amp; co", "a name that…own in full", "0.37", "−0.25", "Costs $5 &amp; more"):
        assert shown in text


def test_heatmap_of_many_stations_counts_them_instead_of_naming_them(tmp_path: Path) -> None:
    named(41).heatmap(tmp_path / "k.svg")
    text = (tmp_path / "k.svg").read_text(encoding="utf-8")
    assert "41 stations, ordered by similarity" in text
    assert "bs 7" not in text


def test_heatmap_is_the_same_file_every_time(tmp_path: Path) -> None:
    for name in ("first.svg", "second.svg"):
        named(5).heatmap(tmp_path / name)
    assert (tmp_path / "first.svg").read_bytes() == (tmp_path / "second.svg").read_bytes()


def test_nearest_correlation_of_a_chain_of_equal_entries() -> None:
    """For ones beside the diagonal and c in the corner the answer can be found by hand.

    By symmetry it is [[1, a, b], [a, 1, a], [b, a, 1]] with b = 2a² − 1 on the edge of semi-definiteness, and
    4(a − 1)² + 2(b − c)² is least where its derivative 8(a − 1) + 16a(2a² − 1 − c) vanishes.
    """
    c = -0.35
    C, moved = nearest_correlation(np.array([[1.0, 1.0, c], [1.0, 1.0, 1.0], [c, 1.0, 1.0]]))
    a, b = C[0, 1], C[0, 2]
    assert abs(b - (2 * a**2 - 1)) < 1e-7
    assert abs(8 * (a - 1) + 16 * a * (2 * a**2 - 1 - c)) < 1e-6
    assert abs(moved - max(1 - a, b - c)) < 1e-12


def test_nearest_correlation_leaves_a_correlation_alone() -> None:
    K = matrix_of(6, seed=5)
    np.fill_diagonal(K, 1.0)
    C, moved = nearest_correlation(K)
    assert moved == 0.0
    assert np.array_equal(C, 0.5 * (K + K.T))


def test_nearest_correlation_is_accepted_as_task_matrix() -> None:
    rng = np.random.default_rng(11)
    A = rng.uniform(-1, 1, size=(30, 30))
    C, _ = nearest_correlation(np.triu(A, 1) + np.triu(A, 1).T + np.eye(30))
    TaskMatrix(tuple(map(str, range(30))), C, "projected")
    assert (np.diag(C) == 1.0).all()


def test_nearest_correlation_says_when_it_gives_up_and_is_still_valid() -> None:
    A = np.array([[1.0, 1.0, -1.0], [1.0, 1.0, 1.0], [-1.0, 1.0, 1.0]])
    with pytest.warns(ProjectionWarning, match="after 2 rounds"):
        C, _ = nearest_correlation(A, max_iterations=2)
    TaskMatrix(("a", "b", "c"), C, "projected")


@pytest.mark.parametrize(("A", "message"), [([[1.0, 0.5]], "square"), ([[1.0, 0.5], [0.1, 1.0]], "symmetric")])
def test_nearest_correlation_refuses_what_is_not_symmetric(A: list[list[float]], message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        nearest_correlation(A)


def test_groups_of_many_stations_are_those_of_their_tree_unturned(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    kinds = rng.integers(0, 4, 60)
    K_Z = 0.9 * np.equal.outer(kinds, kinds) + 0.1 * np.eye(60)
    alike = TaskMatrix([f"s{n}" for n in range(60)], K_Z, "given")
    turned = {frozenset(group) for group in alike.groups(alike=0.5)}
    monkeypatch.setattr("kinband.similarity.matrix._TURNED", 10)
    assert {frozenset(group) for group in alike.groups(alike=0.5)} == turned
    assert len(turned) == 4
    assert sorted(alike.order().tolist()) == list(range(60))
