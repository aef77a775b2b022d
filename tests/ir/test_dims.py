"""Sizes behave like the integers that their symbols have."""

from __future__ import annotations

import ast
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from zenith.ir.dims import (
    Dim,
    dim,
    dims,
    divide_exactly,
    maximum,
    minimum,
    parse,
    product,
    prove_at_least,
    prove_equal,
    solve,
    symbol,
)

Tree = Any  # an int, a name, or (operation, left, right)
_OPERATIONS = {
    "+": (lambda a, b: a + b, lambda a, b: a + b),
    "-": (lambda a, b: a - b, lambda a, b: a - b),
    "*": (lambda a, b: a * b, lambda a, b: a * b),
    "//": (lambda a, b: a // b, lambda a, b: a // b),
    "%": (lambda a, b: a % b, lambda a, b: a % b),
    "max": (maximum, max),
    "min": (minimum, min),
}
NAMES = ("n", "m", "k")
trees: st.SearchStrategy[Tree] = st.recursive(
    st.one_of(st.integers(-4, 6), st.sampled_from(NAMES)),
    lambda inner: st.tuples(st.sampled_from(sorted(_OPERATIONS)), inner, inner),
    max_leaves=6,
)
environments = st.fixed_dictionaries({name: st.integers(0, 7) for name in NAMES})


def build(tree: Tree) -> Dim:
    """The size that a tree describes; a division by zero is no example."""
    if isinstance(tree, int | str):
        return dim(tree) if isinstance(tree, int) else symbol(tree)
    kind, left, right = tree
    try:
        return _OPERATIONS[kind][0](build(left), build(right))
    except ZeroDivisionError:
        assume(False)
        raise


def compute(tree: Tree, values: dict[str, int]) -> int:
    """The same, with Python's integers."""
    if isinstance(tree, int | str):
        return tree if isinstance(tree, int) else values[tree]
    kind, left, right = tree
    try:
        return int(_OPERATIONS[kind][1](compute(left, values), compute(right, values)))
    except ZeroDivisionError:
        assume(False)
        raise


def spelled(text: str) -> Dim:
    return parse(ast.parse(text, mode="eval").body)


@given(trees, environments)
def test_a_size_is_the_integer_of_its_symbols(tree: Tree, values: dict[str, int]) -> None:
    expected = compute(tree, values)
    assert build(tree).evaluate(values) == expected


@given(trees)
def test_the_text_parses_back(tree: Tree) -> None:
    assert spelled(str(build(tree))) == build(tree)


@given(trees, trees, trees)
def test_ring_laws(a_tree: Tree, b_tree: Tree, c_tree: Tree) -> None:
    a, b, c = build(a_tree), build(b_tree), build(c_tree)
    assert a + b == b + a and a * b == b * a
    assert (a + b) + c == a + (b + c) and (a * b) * c == a * (b * c)
    assert a * (b + c) == a * b + a * c
    assert a - a == 0 and a + 0 == a == a * 1 and a * 0 == 0 and b - a == -(a - b)
    assert hash(a + b) == hash(b + a)


@given(trees, trees, environments)
def test_substitution_is_evaluation_of_the_replaced(tree: Tree, inner: Tree, values: dict[str, int]) -> None:
    replaced = compute(inner, values)
    expected = compute(tree, {**values, "n": replaced})
    try:
        assert build(tree).substitute({"n": build(inner)}).evaluate(values) == expected
    except ZeroDivisionError:
        assume(False)


@given(trees, trees, environments)
def test_proofs_are_sound(a: Tree, b: Tree, values: dict[str, int]) -> None:
    x, y = compute(a, values), compute(b, values)
    assert prove_equal(build(a), build(b)) in (None, x == y)
    assert prove_at_least(build(a), build(b)) in (None, x >= y)


@given(trees, environments)
def test_a_solution_solves(tree: Tree, values: dict[str, int]) -> None:
    equation = build(tree)
    solution = solve(equation)
    assume(solution is not None)
    assert solution is not None
    name, value = solution
    assert name not in value.symbols()
    assert equation.substitute({name: value}) == 0


@given(trees, trees, environments)
def test_exact_division_undoes_a_product(a: Tree, b: Tree, values: dict[str, int]) -> None:
    x, y = build(a), build(b)
    assume(y != 0)
    quotient = divide_exactly(x * y, y)
    if quotient is not None:
        assert quotient * y == x * y


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (symbol("n") * 2 + 1, "2*n + 1"),
        (1 - symbol("n"), "-n + 1"),
        (symbol("n") * symbol("m") // 2, "((m*n)//2)"),
        (symbol("k") // (symbol("m") * symbol("n")), "(k//(m*n))"),
        ((symbol("n") * 4) // 2, "2*n"),
        (symbol("n") * symbol("m") // symbol("n"), "m"),
        ((symbol("n") * symbol("n") * 6 + symbol("n") * 9) // (symbol("n") * 12), "((2*n + 3)//4)"),
        ((symbol("n") + 1) % 3, "((n + 1)%3)"),
        (maximum(symbol("n"), 1), "max(1, n)"),
        (maximum(symbol("n") + 2, symbol("n")), "n + 2"),
        (minimum(symbol("n") + 2, symbol("n")), "n"),
        (product([symbol("n"), 3, symbol("n")]), "3*n*n"),
        (dim(0), "0"),
    ],
)
def test_normal_forms(size: Dim, text: str) -> None:
    assert str(size) == repr(size) == text


def test_what_is_proved() -> None:
    n, m = symbol("n"), symbol("m")
    assert prove_equal(n, n) is True and prove_equal(n, n + 1) is False and prove_equal(n, m) is None
    assert prove_at_least(n + 2, 1) is True and prove_at_least(n, n + 1) is False and prove_at_least(n, 1) is None
    assert prove_at_least((n - 5) // 2, 0) is None, "a floor division can be negative"
    assert prove_at_least(minimum(n - 5, m), 0) is None and prove_at_least(maximum(n - 5, m), 0) is True
    assert prove_equal((n - 5) // 2 + 1, 0) is None
    k = (n - 3) // 2
    assert prove_at_least(n * n * k, n * k) is None, "so can its multiples"


def test_constants_are_integers() -> None:
    assert dim(3) == 3 and hash(dim(3)) == hash(3) and dim(3).static == 3 and symbol("n").static is None
    assert symbol("n") != 3 and symbol("n") != "n"
    assert dims([1, symbol("n")]) == (dim(1), symbol("n"))
    assert 2 * symbol("n") == symbol("n") + symbol("n") and 2 + symbol("n") == symbol("n") + 2


def test_errors() -> None:
    n = symbol("n")
    with pytest.raises(KeyError, match=r"size m \+ n has symbols without a value: \['m'\]"):
        (n + symbol("m")).evaluate({"n": 1})
    with pytest.raises(ValueError, match="a size is named by a Python identifier, not '2x'"):
        symbol("2x")
    for divide in (lambda: n // 0, lambda: n % 0, lambda: (n // symbol("m")).evaluate({"n": 1, "m": 0})):
        with pytest.raises(ZeroDivisionError, match="a size is divided by 0"):
            divide()
    for text in ("n ** 2", "f(n)", "1.5", "n if m else k", "True"):
        with pytest.raises(ValueError, match="not a size"):
            spelled(text)
