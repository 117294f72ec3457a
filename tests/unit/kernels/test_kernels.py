"""Kernels by hand and against scikit-learn: values, names, columns, refusals, storage."""

import json
import math
import subprocess
import sys
from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process import kernels as sk

from kinband.arrays import FloatArray
from kinband.errors import BadInputError
from kinband.kernels import (
    RBF,
    Categorical,
    Kernel,
    Linear,
    Matern32,
    Matern52,
    MultiTaskKernel,
    Product,
    SklearnKernel,
    Sum,
    as_kernel,
    default_kernel,
    kernel_from_dict,
)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20_260_731)


def one(kernel: Kernel, x: list[float], y: list[float]) -> float:
    return float(kernel(np.array([x]), np.array([y]))[0, 0])


# Values by hand


def test_rbf_of_one_length_scale_away_falls_by_the_square_root_of_e() -> None:
    assert one(RBF(0.4, variance=2.5), [1.0, 3.0], [1.4, 3.0]) == pytest.approx(2.5 * math.exp(-0.5))


def test_each_column_is_measured_in_its_own_length_scale() -> None:
    value = one(RBF([0.5, 2.0], variance=3.0), [0.0, 0.0], [1.0, 4.0])  # two length-scales away in both
    assert value == pytest.approx(3.0 * math.exp(-0.5 * (4 + 4)))


def test_columns_of_a_group_share_a_length_scale() -> None:
    grouped = RBF([0.5, 2.0], groups=[1, 0, 1])
    apart = RBF([2.0, 0.5, 2.0])
    assert one(grouped, [0.1, 0.2, 0.3], [0.7, -0.4, 1.3]) == one(apart, [0.1, 0.2, 0.3], [0.7, -0.4, 1.3])
    assert RBF(0.7, groups=[0, 1, 1]).length_scale == (0.7, 0.7)


def test_matern_kernels_follow_their_formulas() -> None:
    r = math.hypot(0.6 / 0.5, 0.8 / 2.0)
    x, y = [0.6, 0.0], [0.0, 0.8]
    s = math.sqrt(3) * r
    assert one(Matern32([0.5, 2.0], variance=1.7), x, y) == pytest.approx(1.7 * (1 + s) * math.exp(-s))
    s = math.sqrt(5) * r
    expected = 1.7 * (1 + s + s**2 / 3) * math.exp(-s)
    assert one(Matern52([0.5, 2.0], variance=1.7), x, y) == pytest.approx(expected)


def test_linear_kernel_is_a_weighted_inner_product_plus_bias() -> None:
    assert one(Linear(2.0, bias=0.25, columns=[0, 2]), [1.0, 9.0, 3.0], [2.0, 9.0, -1.0]) == pytest.approx(-1.75)


def test_categories_count_as_equal_or_different_only() -> None:
    kernel = Categorical([0.5, 2.0], variance=1.3)
    assert one(kernel, [3.0, 1.0], [3.0, 1.0]) == pytest.approx(1.3)
    assert one(kernel, [3.0, 1.0], [4.0, 1.0]) == pytest.approx(1.3 * math.exp(-4.0))
    assert one(kernel, [3.0, 1.0], [9.0, 1.0]) == pytest.approx(1.3 * math.exp(-4.0))
    assert one(kernel, [3.0, 1.0], [9.0, 0.0]) == pytest.approx(1.3 * math.exp(-4.0 - 0.25))


def test_kernels_add_and_multiply(rng: np.random.Generator) -> None:
    X, Y = rng.normal(size=(4, 2)), rng.normal(size=(3, 2))
    a, b, c = RBF(0.6, variance=1.7), Linear(0.8, bias=0.3), Matern32(1.9)
    combined = a * b + c
    assert isinstance(combined, Sum)
    assert isinstance(combined.left, Product)
    np.testing.assert_allclose(combined(X, Y), a(X, Y) * b(X, Y) + c(X, Y))
    np.testing.assert_allclose(combined.diag(X), a.diag(X) * b.diag(X) + c.diag(X))


def test_rbf_over_two_sets_of_columns_is_the_product_of_two(rng: np.random.Generator) -> None:
    X, Y = rng.normal(size=(5, 3)), rng.normal(size=(4, 3))
    joint = RBF([0.5, 0.9, 1.8], variance=2.2)
    product = RBF([0.5, 0.9], variance=2.2, columns=[0, 1]) * RBF(1.8, columns=[2])
    np.testing.assert_allclose(joint(X, Y), product(X, Y))


def test_entries_of_a_large_batch_equal_those_of_its_parts_bit_for_bit(rng: np.random.Generator) -> None:
    X, Y = rng.normal(size=(1003, 6)), rng.normal(size=(29, 6))
    for kernel in (RBF(np.full(6, 1.3)), Matern32(0.9), Matern52(1.7), Linear(0.4), Categorical(0.8)):
        K = kernel(X, Y)
        for part in (slice(0, 1), slice(1, 8), slice(500, 1003)):
            np.testing.assert_array_equal(kernel(X[part], Y), K[part])
            np.testing.assert_array_equal(kernel(Y, X[part]), K[part].T)


# Against scikit-learn


@pytest.mark.parametrize("seed", range(5))
def test_values_equal_those_of_scikit_learn(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, Y = rng.normal(size=(7, 3)), rng.normal(size=(5, 3))
    scales, variance, sigma = rng.uniform(0.3, 3.0, size=3), rng.uniform(0.2, 5.0), rng.uniform(0.2, 2.0)
    pairs: list[tuple[Kernel, Any]] = [
        (RBF(scales), sk.RBF(scales)),
        (Matern32(scales), sk.Matern(scales, nu=1.5)),
        (Matern52(scales), sk.Matern(scales, nu=2.5)),
    ]
    pairs = [(k.with_theta(np.append(k.theta[:-1], np.log(variance))), variance * other) for k, other in pairs]
    pairs.append((Linear(1.0, bias=sigma**2), sk.DotProduct(sigma)))
    for ours, theirs in pairs:
        np.testing.assert_allclose(ours(X, Y), theirs(X, Y), rtol=1e-12)
        np.testing.assert_allclose(ours.diag(X), theirs.diag(X), rtol=1e-12)


# Parameters


def test_fixed_parameters_stay_out_of_theta_and_keep_their_value() -> None:
    kernel = RBF([0.5, 2.0], variance=3.0, fixed=["variance"])
    np.testing.assert_allclose(kernel.theta, np.log([0.5, 2.0]))
    moved = kernel.with_theta(np.log([0.7, 4.0]))
    assert moved.variance == 3.0
    assert moved.length_scale == pytest.approx((0.7, 4.0))


def test_bounds_are_those_given_in_logarithms() -> None:
    kernel = Matern52([0.5, 2.0], length_scale_bounds=(0.1, 20), variance_bounds=(0.01, 100))
    np.testing.assert_allclose(np.exp(kernel.bounds), [(0.1, 20), (0.1, 20), (0.01, 100)])


def test_names_tell_columns_groups_and_repetitions() -> None:
    features = ["users", "load", "threshold"]
    assert RBF([0.5, 2.0, 3.0]).bind(features).names[2] == "rbf.length_scale[threshold]"
    grouped = RBF(0.5, columns=["threshold", "users"], groups=[0, 0]).bind(features)
    assert grouped.names == ("rbf.length_scale[threshold+users]", "rbf.variance")
    triple = Linear(0.5) + (Linear(2.0) + Linear(3.0, bias=0.4))
    assert triple.names == ("linear.variance", "linear.variance(2)", "linear.variance(3)", "linear.bias")


def test_bias_of_zero_is_no_parameter() -> None:
    assert Linear(0.5).names == ("linear.variance",)
    assert Linear(0.5, bias=0.2, fixed=["variance"]).names == ("linear.bias",)


def test_kernels_are_values() -> None:
    kernel = RBF(np.array([0.5, 2.0]), variance=3.0)
    assert kernel == RBF((0.5, 2.0), variance=3.0)
    assert hash(kernel) == hash(RBF([0.5, 2.0], variance=3.0))
    other: Kernel = Matern32([0.5, 2.0], variance=3.0)
    assert kernel != other
    assert kernel != RBF([0.5, 2.5], variance=3.0)
    assert kernel * Linear(0.3) == RBF([0.5, 2.0], variance=3.0) * Linear(0.3)
    with pytest.raises(FrozenInstanceError):
        kernel.variance = 2.0  # type: ignore[misc]


def test_repr_shows_what_was_given_and_reads_as_code() -> None:
    kernel = (RBF([0.5, 2.0], columns=[0, 1]) + Linear(0.3)) * Categorical(0.7, fixed=["variance"])
    text = repr(kernel)
    assert text == (
        "(RBF(length_scale=(0.5, 2.0), columns=(0, 1)) + Linear(variance=0.3)) * "
        "Categorical(length_scale=0.7, fixed=('variance',))"
    )
    assert eval(text, {"RBF": RBF, "Linear": Linear, "Categorical": Categorical}) == kernel  # noqa: S307


# Columns


def test_bound_names_select_the_same_columns_as_positions(rng: np.random.Generator) -> None:
    X = rng.normal(size=(4, 3))
    named = RBF([0.5, 2.0], columns=["threshold", "users"]) * Linear(0.4, columns=["load"])
    bound = named.bind(["users", "load", "threshold"])
    assert bound == RBF([0.5, 2.0], columns=[2, 0]) * Linear(0.4, columns=[1])
    assert bound.bind(["users", "load", "threshold"]) == bound
    np.testing.assert_allclose(
        bound(X, X), RBF([0.5, 2.0])(X[:, [2, 0]], X[:, [2, 0]]) * Linear(0.4)(X[:, [1]], X[:, [1]])
    )


def test_unbound_names_are_refused_when_evaluated() -> None:
    with pytest.raises(BadInputError, match=r"'load': call kernel\.bind"):
        RBF(columns=["load"])(np.zeros((1, 2)), np.zeros((1, 2)))


def test_unknown_columns_are_refused_with_the_known_ones() -> None:
    with pytest.raises(BadInputError, match="'speed', the contexts have users, load"):
        RBF(columns=["speed"]).bind(["users", "load"])
    with pytest.raises(BadInputError, match="column 2, the contexts have users, load"):
        Linear(columns=[2]).bind(["users", "load"])
    with pytest.raises(BadInputError, match="column 2, contexts have 2 columns"):
        Linear(columns=[2])(np.zeros((1, 2)), np.zeros((1, 2)))
    with pytest.raises(BadInputError, match="twice"):
        RBF(columns=["load", 1]).bind(["users", "load"])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RBF(0.0), "length_scale must be above zero"),
        (lambda: RBF([0.5, float("nan")]), "length_scale must be finite"),
        (lambda: RBF([[0.5]]), "a number or a list of numbers"),  # type: ignore[list-item]
        (lambda: RBF([]), "a number or a list of numbers"),
        (lambda: RBF(0.5, variance=-1), "variance must be above zero"),
        (lambda: RBF([0.5, 2.0], columns=[0, 1, 2]), "2 length-scales for 3 columns"),
        (lambda: RBF(0.5, columns=[1, 1]), "different names or positions"),
        (lambda: RBF(0.5, columns=[-1]), "different names or positions"),
        (lambda: RBF(0.5, columns="load"), "write \\['load'\\]"),
        (lambda: RBF(0.5, groups=[0, 2]), "without gaps"),
        (lambda: RBF([0.5, 1.0, 2.0], groups=[0, 1]), "each of 2 groups"),
        (lambda: RBF(0.5, columns=[0, 1, 2], groups=[0, 1]), "each of 3 columns"),
        (lambda: RBF(0.5, fixed=["noise"]), "parameters are length_scale, variance"),
        (lambda: RBF(0.5, variance_bounds=(2.0, 1.0)), "must ascend"),
        (lambda: RBF(0.5, variance_bounds=(1.0,)), "a lower and an upper limit"),
        (lambda: Linear(bias=-0.1), "must not be negative"),
        (lambda: RBF(0.5).with_theta(np.zeros(3)), "theta must have 2 entries"),
    ],
)
def test_bad_arguments_are_refused_in_one_sentence(make: Any, message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        make()


def test_contexts_of_another_width_are_refused() -> None:
    with pytest.raises(BadInputError, match="2 length-scales for 3 columns"):
        RBF([0.5, 2.0])(np.zeros((2, 3)), np.zeros((1, 3)))


# The default kernel


def test_default_kernel_treats_numbers_and_categories_apart() -> None:
    kernel = default_kernel(["load", "vendor", "threshold"], categorical=[1], variance=0.2)
    assert kernel == RBF([1.0, 1.0], variance=0.2, columns=[0, 2]) * Categorical([1.0], columns=[1], fixed=["variance"])


def test_default_kernel_without_numbers_or_without_categories() -> None:
    assert default_kernel(["load"], fixed=["variance"]) == RBF([1.0], columns=[0], fixed=["variance"])
    assert default_kernel(["vendor", "band"], categorical=["vendor", "band"]) == Categorical([1.0, 1.0], columns=[0, 1])
    with pytest.raises(BadInputError, match="at least one feature"):
        default_kernel([])


# The product with tasks


def test_multi_task_kernel_multiplies_task_and_context_similarities(rng: np.random.Generator) -> None:
    K_Z = np.array([[1.5, 0.4, 0.0], [0.4, 0.9, 0.2], [0.0, 0.2, 2.0]])
    kernel = MultiTaskKernel(RBF(0.8, variance=1.7), K_Z)
    X, Y = rng.normal(size=(5, 2)), rng.normal(size=(4, 2))
    m = np.array([0, 1, 2, 1, 0])
    for n in (np.array([2, 0, 1, 1]), np.array([1, 1, 1, 1])):
        expected = [
            [K_Z[m[i], n[j]] * one(kernel.context, X[i].tolist(), Y[j].tolist()) for j in range(4)] for i in range(5)
        ]
        np.testing.assert_allclose(kernel.cross(m, X, n, Y), expected, rtol=1e-14)
    np.testing.assert_allclose(kernel.diag(m, X), np.diag(kernel.cross(m, X, m, X)), rtol=1e-14)


def test_arms_of_one_station_give_the_same_bits_as_arms_of_many(rng: np.random.Generator) -> None:
    A = rng.normal(size=(4, 4))
    kernel = MultiTaskKernel(Matern52(0.8), A @ A.T)
    X, Y = rng.normal(size=(9, 2)), rng.normal(size=(5, 2))
    tasks = rng.integers(0, 4, size=9)
    mixed = kernel.cross(tasks, X, np.array([2, 2, 2, 2, 1]), Y)
    np.testing.assert_array_equal(kernel.cross(tasks, X, np.full(4, 2), Y[:4]), mixed[:, :4])


def test_multi_task_kernel_keeps_its_own_matrix_and_compares_by_value() -> None:
    K_Z = np.array([[1.0, 0.5], [0.5, 1.0]])
    kernel = MultiTaskKernel(RBF(0.8), K_Z)
    K_Z[0, 0] = 7.0
    assert kernel.K_Z[0, 0] == 1.0
    assert kernel == MultiTaskKernel(RBF(0.8), np.array([[1.0, 0.5], [0.5, 1.0]]))
    assert kernel != MultiTaskKernel(RBF(0.8), K_Z)
    with pytest.raises(BadInputError, match="positive semi-definite"):
        MultiTaskKernel(RBF(0.8), np.array([[1.0, 1.5], [1.5, 1.0]]))


# scikit-learn's kernels


def foreign_kernels() -> list[Any]:
    return [
        sk.ConstantKernel(1.7) * sk.RBF([0.6, 1.4]),
        sk.ConstantKernel(0.3, constant_value_bounds="fixed") * sk.Matern(0.9, nu=1.5) + sk.DotProduct(0.7),
        sk.Exponentiation(sk.RationalQuadratic(0.8, 1.9), 2),
        sk.PairwiseKernel(gamma=0.4, metric="rbf"),
        sk.ExpSineSquared(0.7, 2.3, periodicity_bounds=[0.5, 9.0]),
    ]


@pytest.mark.parametrize("index", range(5))
def test_scikit_learn_kernels_keep_values_parameters_and_bounds(index: int, rng: np.random.Generator) -> None:
    obj = foreign_kernels()[index]
    kernel = as_kernel(obj)
    X, Y = rng.normal(size=(5, 2)), rng.normal(size=(3, 2))
    np.testing.assert_allclose(kernel(X, Y), obj(X, Y), rtol=1e-14, atol=1e-15)  # in tiles, the last bit may differ
    np.testing.assert_allclose(kernel.diag(X), np.diag(obj(X)))
    np.testing.assert_array_equal(kernel.theta, obj.theta)
    np.testing.assert_array_equal(kernel.bounds, obj.bounds)
    assert len(kernel.names) == len(obj.theta)
    moved = kernel.with_theta(kernel.theta + 0.3)
    np.testing.assert_allclose(moved.theta, obj.theta + 0.3)
    np.testing.assert_array_equal(kernel.theta, obj.theta)


@pytest.mark.parametrize("index", range(5))
def test_scikit_learn_kernels_survive_storage_as_json_exactly(index: int, rng: np.random.Generator) -> None:
    kernel = SklearnKernel(foreign_kernels()[index], columns=["load", "users"]).bind(["users", "load"])
    kernel = kernel.with_theta(kernel.theta + rng.uniform(-0.5, 0.5, size=len(kernel.theta)))
    back = kernel_from_dict(json.loads(json.dumps(kernel.to_dict())))
    assert back == kernel
    assert back.names == kernel.names
    np.testing.assert_array_equal(back.theta, kernel.theta)
    X = rng.normal(size=(4, 2))
    np.testing.assert_array_equal(back(X, X), kernel(X, X))


def test_scikit_learn_kernels_mix_with_ours(rng: np.random.Generator) -> None:
    X = rng.normal(size=(4, 2))
    theirs = sk.RationalQuadratic(0.8, 1.9)
    mixed = RBF(0.6, columns=[0]) * theirs + SklearnKernel(theirs, columns=[1])
    expected = RBF(0.6)(X[:, :1], X[:, :1]) * theirs(X) + theirs(X[:, 1:])
    np.testing.assert_allclose(mixed(X, X), expected)
    with pytest.raises(BadInputError, match="wrap its own by as_kernel"):
        as_kernel(theirs * RBF(0.6))


def test_changing_the_scikit_learn_object_later_changes_nothing() -> None:
    obj = sk.RBF(0.6)
    kernel = SklearnKernel(obj)
    obj.length_scale = 9.0
    assert kernel.obj.length_scale == 0.6


def test_noise_inside_a_scikit_learn_kernel_is_refused() -> None:
    with pytest.raises(BadInputError, match="give its level as noise="):
        as_kernel(sk.RBF(0.6) + sk.WhiteKernel(0.1))


def test_several_kernels_in_one_are_refused() -> None:
    with pytest.raises(BadInputError, match="CompoundKernel"):
        as_kernel(sk.CompoundKernel([sk.RBF(0.6), sk.RBF(0.7)]))


@pytest.mark.parametrize("thing", [None, 2.0, "rbf", RBF, sk.RBF])
def test_other_things_are_no_kernels(thing: object) -> None:
    with pytest.raises(BadInputError, match="a kernel must be one of"):
        as_kernel(thing)
    with pytest.raises(BadInputError, match="a kernel must be one of"):
        RBF(0.5) * thing


# Storage


class OwnRBF(sk.RBF):  # type: ignore[misc]
    """A kernel class of a user."""


def test_classes_of_others_are_not_stored() -> None:
    with pytest.raises(BadInputError, match="cannot store OwnRBF"):
        SklearnKernel(OwnRBF(0.5)).to_dict()


def test_parameters_that_are_code_are_not_stored() -> None:
    def metric(x: FloatArray, y: FloatArray, gamma: float) -> float:
        return float(x @ y)

    with pytest.raises(BadInputError, match="cannot store a kernel parameter of type function"):
        SklearnKernel(sk.PairwiseKernel(metric=metric)).to_dict()


@pytest.mark.parametrize("name", ["clone", "np", "Hyperparameter", "KernelOperator.__init__", "missing", None, 3])
def test_loading_builds_nothing_but_scikit_learn_kernels(name: object) -> None:
    with pytest.raises(BadInputError, match="is not a kernel class"):
        kernel_from_dict({"kind": "sklearn", "obj": {"class": name, "params": {}}})


def test_loading_builds_no_class_that_scikit_learn_only_carries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sk, "OwnRBF", OwnRBF, raising=False)
    with pytest.raises(BadInputError, match="is not a kernel class"):
        kernel_from_dict({"kind": "sklearn", "obj": {"class": "OwnRBF", "params": {}}})


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        ({"kind": "cosine"}, "unknown kind of kernel 'cosine'"),
        ({"kind": ["rbf"]}, "unknown kind of kernel"),
        ({"length_scale": 0.5}, "a mapping with a kind"),
        ("rbf", "a mapping with a kind"),
        ({"kind": "rbf", "width": 0.5}, "no field width"),
        ({"kind": "rbf", "length_scale": -0.5}, "above zero"),
        ({"kind": "sum", "left": {"kind": "rbf"}}, "a mapping with a kind"),
        ({"kind": "sklearn"}, "a kernel must be one of"),
        ({"kind": "sklearn", "obj": {"class": "RBF", "params": {"width": 1.0}}}, "cannot rebuild the kernel RBF"),
        ({"kind": "sklearn", "obj": {"class": "Kernel"}}, "cannot rebuild the kernel Kernel"),
    ],
)
def test_damaged_descriptions_are_refused(stored: Any, message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        kernel_from_dict(stored)


def test_importing_kernels_loads_neither_scikit_learn_nor_scipy() -> None:
    code = (
        "import sys, kinband.kernels, kinband.likelihood; print([m for m in ('sklearn', 'scipy') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
