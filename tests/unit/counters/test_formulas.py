"""Formulas mean what arithmetic says, and nothing else."""

from math import isnan, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinband.counters.formulas import Leaf, evaluate, leaves_of, parse_formula
from kinband.errors import BadInputError


def value(text: str, **counters: str) -> float:
    formula = parse_formula(text)
    columns = {leaf: np.array([leaf.read(counters.get(leaf.counter))]) for leaf in leaves_of(formula)}
    return float(evaluate(formula, columns, 1)[0])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a / b", 0.75),
        ("1 - a / b", 0.25),
        ("2 * (a + b) - -1", 15.0),
        ("a - b - 1", -2.0),
        ("8 / b / 2", 1.0),
        ("v[2]", 5.0),
        ("sum(v)", 12.0),
        ("sum(v[1:]) / sum(v)", 0.75),
        ("max(v[:2], a)", 4.0),
        ("min(v[0], b, 2*a)", 3.0),
        ("sum(a, b)", 7.0),
        ("1e2 * .5", 50.0),
    ],
)
def test_formulas_are_arithmetic(text: str, expected: float) -> None:
    assert value(text, a="3", b="4", v="3,4,5") == pytest.approx(expected)


@pytest.mark.parametrize("text", ["a / z", "z / z", "a + gone", "v[7]", "sum(v[5:])", "sum(w)", "nil * 2", "word"])
def test_what_is_missing_makes_the_result_missing(text: str) -> None:
    assert isnan(value(text, a="3", z="0", v="3,4,5", w="1,,2", nil="NIL", word="hello"))


def test_names_may_be_quoted() -> None:
    formula = parse_formula("'1526726737' / 'L.Thrp (kbit)'")
    assert [leaf.counter for leaf in leaves_of(formula)] == ["1526726737", "L.Thrp (kbit)"]


def test_other_formulas_have_names() -> None:
    rate = parse_formula("Succ / Att")
    assert parse_formula("rate", {"rate": rate}) == rate


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a +",
        "(a",
        "a b",
        "a $ b",
        "v[a]",
        "v[1.5]",
        "v[1:2]",
        "sum()",
        "__import__('os')",
        "a ** b",
        "(" * 99 + "a" + ")" * 99,
        "a+" * 2000 + "a",
    ],
)
def test_what_is_no_formula_is_refused(text: str) -> None:
    with pytest.raises(BadInputError, match="formula"):
        parse_formula(text)


def test_a_vector_in_place_of_a_number_is_refused_with_advice() -> None:
    with pytest.raises(BadInputError, match=r"holds 3 values .*sum\(v\)"):
        value("v + 1", v="3,4,5")


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=5))
def test_a_long_sum_agrees_with_python(numbers: list[float]) -> None:
    text = " + ".join(f"c{n} * {n + 1}" for n in range(len(numbers)))
    written = {f"c{n}": repr(number) for n, number in enumerate(numbers)}
    assert value(text, **written) == pytest.approx(sum((n + 1) * x for n, x in enumerate(numbers)), abs=1e-6)


def test_a_leaf_is_written_as_it_is_read() -> None:
    for text in ("a.b", "a[3]", "sum(a)", "min(a[2:5])", "'a b'", "max(a[:4])"):
        assert str(parse_formula(text)) == text
    assert isnan(Leaf("a").read(None))
    assert nan != Leaf("a").read("3")
