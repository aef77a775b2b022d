"""What sizes are at least and at most while indices of loops run, against all values that they have."""

from itertools import product

from hypothesis import assume, given
from hypothesis import strategies as st

from zenith.ir.bounds import extremes
from zenith.ir.dims import Dim, dim, maximum, minimum, symbol

N, TURN, J = symbol("n"), symbol("i"), symbol("j")
ATOMS = st.sampled_from([N, TURN, J]) | st.integers(-3, 6).map(dim)
BINARY = st.sampled_from([Dim.__add__, Dim.__sub__, Dim.__mul__, maximum, minimum])


def _joined(formulas: st.SearchStrategy[Dim]) -> st.SearchStrategy[Dim]:
    divided = st.builds(Dim.__floordiv__, formulas, st.integers(1, 4).map(dim) | st.just(J + 1))
    return st.builds(lambda f, a, b: f(a, b), BINARY, formulas, formulas) | divided


FORMULAS = st.recursive(ATOMS, _joined, max_leaves=6)


@given(FORMULAS, st.integers(1, 5))
def test_extremes_hold_in_all_turns(formula, n):
    """Also of products and quotients whose factors are negative in some turns."""
    least, most = extremes(formula, {"i": N - 1, "j": N - TURN - 1})
    assume(not (least.symbols() | most.symbols()) & {"i", "j"})
    for i in range(n):
        for j in range(n - i):
            value = formula.evaluate({"n": n, "i": i, "j": j})
            assert least.evaluate({"n": n}) <= value <= most.evaluate({"n": n})


@given(st.sampled_from([maximum, minimum]), st.sampled_from([maximum, minimum]), ATOMS, ATOMS)
def test_extremes_of_extremes(outer, inner, a, b):
    for found in (outer(a, inner(a, b)), outer(inner(b, a), a)):
        for n, i, j in product(range(4), repeat=3):
            sizes = {"n": n, "i": i, "j": j}
            x, y = a.evaluate(sizes), b.evaluate(sizes)
            expected = (max if outer is maximum else min)(x, (max if inner is maximum else min)(x, y))
            assert found.evaluate(sizes) == expected
    assert maximum(N, minimum(N, TURN)) == N and minimum(N, minimum(TURN, N)) == minimum(N, TURN)


def test_divisors_are_at_least_one():
    k = symbol("k")
    assert extremes(dim(8) // k, {"k": dim(4)}) == (dim(2), dim(8))
    assert extremes(dim(8) % k, {"k": dim(4)}) == (dim(0), dim(3))
