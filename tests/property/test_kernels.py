"""Laws that every kernel obeys, for random kernels on random contexts."""

import json

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kinband.arrays import FloatArray
from kinband.kernels import RBF, Categorical, Constant, Kernel, Linear, Matern32, Matern52, kernel_from_dict

FEATURES = ("users", "load", "threshold", "vendor", "band")
NUMERIC, CODES = (0, 1, 2), (3, 4)

seeds = st.integers(0, 2**32 - 1)
positive = st.floats(0.3, 3.0)


@st.composite
def scaled_kernels(draw: st.DrawFn) -> Kernel:
    """An RBF, Matérn or categorical kernel with one, grouped, or one length-scale for each column."""
    cls = draw(st.sampled_from([RBF, Matern32, Matern52, Categorical]))
    pool = CODES if cls is Categorical else NUMERIC
    columns = draw(st.lists(st.sampled_from(pool), min_size=1, unique=True))
    groups, length_scale = None, draw(positive | st.lists(positive, min_size=len(columns), max_size=len(columns)))
    if len(columns) > 1 and draw(st.booleans()):
        groups = [0, *(1 for _ in columns[1:])]
        length_scale = [draw(positive), draw(positive)]
    fixed = draw(st.sampled_from([(), ("variance",), ("length_scale",)]))
    return cls(length_scale, variance=draw(positive), columns=columns, groups=groups, fixed=fixed)


@st.composite
def linear_kernels(draw: st.DrawFn) -> Kernel:
    columns = draw(st.none() | st.just(NUMERIC))
    return Linear(draw(positive), bias=draw(st.just(0.0) | positive), columns=columns)


def _pair(children: st.SearchStrategy[Kernel]) -> st.SearchStrategy[Kernel]:
    def combine(left: Kernel, right: Kernel, product: bool) -> Kernel:
        from kinband.kernels import Product, Sum

        return Product(left, right) if product else Sum(left, right)

    return st.builds(combine, children, children, st.booleans())


levels = st.builds(Constant, positive, fixed=st.sampled_from([(), ("variance",)]))
kernels = st.recursive(scaled_kernels() | linear_kernels() | levels, _pair, max_leaves=3)


def contexts(rng: np.random.Generator, n: int) -> FloatArray:
    """n contexts: three numbers and two category codes."""
    return np.hstack([rng.normal(size=(n, 3)), rng.integers(0, 3, size=(n, 2)).astype(np.float64)])


@settings(deadline=None, max_examples=60)
@given(kernel=kernels, seed=seeds)
def test_kernel_matrix_is_symmetric_and_positive_semi_definite(kernel: Kernel, seed: int) -> None:
    X = contexts(np.random.default_rng(seed), 12)
    K = kernel(X, X)
    np.testing.assert_array_equal(K, K.T)
    assert np.linalg.eigvalsh(K)[0] > -1e-10 * np.trace(K)


@settings(deadline=None, max_examples=60)
@given(kernel=kernels, seed=seeds, n=st.integers(1, 19), m=st.integers(1, 9))
def test_entry_computed_alone_equals_entry_in_a_batch_bit_for_bit(kernel: Kernel, seed: int, n: int, m: int) -> None:
    rng = np.random.default_rng(seed)
    X, Y = contexts(rng, n), contexts(rng, m)
    K = kernel(X, Y)
    alone = [[kernel(x[None], y[None])[0, 0] for y in Y] for x in X]
    np.testing.assert_array_equal(K, alone)
    np.testing.assert_array_equal(kernel(np.asfortranarray(X), np.repeat(Y, 2, axis=0)[::2]), K)


@settings(deadline=None, max_examples=60)
@given(kernel=kernels, seed=seeds)
def test_diag_is_the_diagonal_of_the_matrix_bit_for_bit(kernel: Kernel, seed: int) -> None:
    X = contexts(np.random.default_rng(seed), 7)
    np.testing.assert_array_equal(kernel.diag(X), np.diag(kernel(X, X)))


@settings(deadline=None, max_examples=60)
@given(kernel=kernels, seed=seeds)
def test_matrix_of_vjp_is_the_matrix_of_the_call(kernel: Kernel, seed: int) -> None:
    X = contexts(np.random.default_rng(seed), 7)
    np.testing.assert_array_equal(kernel.vjp(X)[0], kernel(X, X))


@settings(deadline=None, max_examples=60)
@given(kernel=kernels)
def test_kernel_survives_storage_as_json_exactly(kernel: Kernel) -> None:
    for k in (kernel, kernel.bind(FEATURES)):
        back = kernel_from_dict(json.loads(json.dumps(k.to_dict())))
        assert back == k
        assert back.names == k.names
        np.testing.assert_array_equal(back.theta, k.theta)
        np.testing.assert_array_equal(back.bounds, k.bounds)


@settings(deadline=None, max_examples=60)
@given(kernel=kernels, seed=seeds)
def test_theta_names_and_bounds_have_one_entry_for_each_free_parameter(kernel: Kernel, seed: int) -> None:
    p = len(kernel.theta)
    assert len(set(kernel.names)) == len(kernel.names) == p
    assert kernel.bounds.shape == (p, 2)
    theta = np.random.default_rng(seed).uniform(-1, 1, size=p)
    moved = kernel.with_theta(theta)
    np.testing.assert_allclose(moved.theta, theta, rtol=0, atol=1e-15)
    assert moved.names == kernel.names
    assert type(moved) is type(kernel)


@settings(deadline=None, max_examples=60)
@given(kernel=kernels, seed=seeds)
def test_evaluating_a_kernel_leaves_the_contexts_alone(kernel: Kernel, seed: int) -> None:
    X = contexts(np.random.default_rng(seed), 5)
    before = X.copy()
    kernel(X, X)
    K, pullback = kernel.vjp(X)
    W = np.ones_like(K)
    pullback(W)
    np.testing.assert_array_equal(X, before)
    np.testing.assert_array_equal(W, np.ones_like(K))
