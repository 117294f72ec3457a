"""A task matrix that is zero between groups holds the same numbers as the whole one, and no more than it has."""

import numpy as np
import pytest

from kinband.arrays import FloatArray
from kinband.errors import BadInputError
from kinband.kernels import RBF, BlockMatrix, MultiTaskKernel, components, in_blocks, leading, same_matrix
from kinband.similarity.newcomers import average_row, correlations, given_row, with_row


def drawn(seed: int, *, tasks: int = 17, groups: int = 5) -> tuple[FloatArray, BlockMatrix]:
    """A matrix of groups whose members lie scattered, whole and in blocks."""
    rng = np.random.default_rng(seed)
    of, B = rng.integers(0, groups, tasks), rng.normal(size=(tasks, 3))
    whole = np.where(np.equal.outer(of, of), B @ B.T, 0.0) + np.diag(rng.uniform(0.1, 1.0, tasks))
    members = [np.flatnonzero(of == g) for g in np.unique(of)]
    members = [rng.permutation(m) for m in members]
    return whole, BlockMatrix.of(members, [whole[np.ix_(m, m)] for m in members])


@pytest.mark.parametrize("seed", range(4))
def test_it_is_indexed_as_the_whole_matrix_is(seed: int) -> None:
    whole, blocks = drawn(seed)
    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, 17, 6), rng.integers(0, 17, 9)
    for index in (np.s_[3], np.s_[-1, :-1], np.s_[:, 4], np.s_[2:9, a], np.s_[a, 5], np.s_[a, a[::-1]], np.ix_(a, b)):
        np.testing.assert_array_equal(blocks[index], whole[index])
    assert blocks[4, 4] == whole[4, 4]
    np.testing.assert_array_equal(np.asarray(blocks), whole)
    np.testing.assert_array_equal(blocks.diagonal(), np.diagonal(whole))
    np.testing.assert_allclose(blocks @ whole[0], whole @ whole[0], atol=1e-12)
    assert blocks.sum() == pytest.approx(whole.sum(), abs=1e-12)
    assert blocks.shape == whole.shape


@pytest.mark.parametrize("seed", range(4))
def test_what_is_asked_of_a_matrix_has_the_same_answer_in_both_forms(seed: int) -> None:
    whole, blocks = drawn(seed)
    some = np.random.default_rng(seed).permutation(17)[:8]
    assert [m.tolist() for m in components(blocks)] == [m.tolist() for m in components(whole)]
    np.testing.assert_array_equal(np.asarray(blocks.taken(some)), whole[np.ix_(some, some)])
    np.testing.assert_array_equal(np.asarray(leading(blocks, 6)), whole[:6, :6])
    np.testing.assert_allclose(np.asarray(correlations(blocks)), correlations(whole), atol=1e-12)
    np.testing.assert_allclose(average_row(blocks), average_row(whole), atol=1e-12)
    names = [f"s{m}" for m in range(17)]
    rows = [given_row(K, names, {"s3": 0.2, "s9": 0.1}, newcomer="n") for K in (blocks, whole)]
    np.testing.assert_allclose(rows[0], rows[1], atol=1e-12)
    X, tasks = np.linspace(0, 1, 8)[:, None], some
    one, other = (MultiTaskKernel(RBF(0.5), K) for K in (blocks, whole))
    np.testing.assert_allclose(one.cross(tasks, X, tasks[:5], X[:5]), other.cross(tasks, X, tasks[:5], X[:5]))
    assert one == other
    assert same_matrix(blocks, whole)
    assert same_matrix(in_blocks(whole), blocks)
    assert not same_matrix(blocks, 2.0 * whole)


@pytest.mark.parametrize("like", [(), (2,), (2, 3, 11)])
def test_a_task_behind_makes_one_group_of_those_it_is_like(like: tuple[int, ...]) -> None:
    whole, blocks = drawn(1)
    w = np.zeros(17)
    w[list(like)] = 0.3
    row = np.append(whole @ w, w @ whole @ w + 0.5)
    longer = with_row(blocks, row)
    assert isinstance(longer, BlockMatrix)
    np.testing.assert_array_equal(np.asarray(longer), with_row(whole, row))
    for matrix in (blocks, whole):
        with pytest.raises(BadInputError, match="semi-definite"):
            with_row(matrix, np.append(10.0 * whole[0], 0.1))


def test_blocks_that_are_none_are_refused() -> None:
    with pytest.raises(BadInputError, match="entries"):
        BlockMatrix([0, 0, 1], [1.0, 0.0, 0.0, 1.0])
    with pytest.raises(BadInputError, match="semi-definite"):
        BlockMatrix([0, 0], [1.0, 2.0, 2.0, 1.0])
    with pytest.raises(BadInputError, match="above zero"):
        BlockMatrix([0, 1], [1.0, 0.0])
    with pytest.raises(BadInputError, match="nan"):
        BlockMatrix([0], [float("nan")])
