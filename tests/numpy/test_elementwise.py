"""Elementwise functions against NumPy's ufuncs: every pair of element types, edge values, Python numbers."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import zenith
import zenith.numpy as znp
from tests.numpy.comparison import DTYPES, assert_same, check, run_traced, values
from zenith.errors import DTypeError, NumberError
from zenith.trace import dispatch

UFUNCS = sorted(
    {f for f in dispatch._BY_FUNCTION if isinstance(f, np.ufunc) and not f.signature}, key=lambda f: f.__name__
)
UNARY = [f for f in UFUNCS if f.nin == 1 and f.nout == 1]
BINARY = [f for f in UFUNCS if f.nin == 2 and f.nout == 1]
SUPPORTED = set(DTYPES)

EDGES = {
    "b": [False, True],
    "i": [0, 1, -1, 2, 7, -13, 100],
    "u": [0, 1, 2, 7, 13, 100],
    "f": [0.0, -0.0, 1.0, -1.0, 0.5, -0.25, 2.0, 3.7, -5.25, 30.5, np.inf, -np.inf, np.nan, 1e-30, 1e30, -1e30],
}
CORNERS = [0.0, -0.0, 1.0, -1.5, 0.25, 2.0, np.inf, -np.inf, np.nan]
EDGES["c"] = [complex(x, y) for x in CORNERS for y in CORNERS]
NONNEGATIVE_EXPONENT = (np.left_shift, np.right_shift, np.power)


def edges(dtype):
    with np.errstate(over="ignore"):
        return np.array(EDGES[dtype.kind], dtype)


def moderate(x):
    """Operands of a complex power: NumPy knows more cases where one is infinite, and where the result overflows."""
    return x[np.isfinite(x) & (np.abs(x) < 100)]


def computes_in(ufunc, *types):
    """The dtypes NumPy computes in, or None when Zenith must refuse."""
    try:
        loop = ufunc.resolve_dtypes((*types, *[None] * ufunc.nout))
    except TypeError:
        return None
    return loop if set(loop) <= SUPPORTED else None


def expect(ufunc, *operands):
    with np.errstate(all="ignore"):
        return ufunc(*operands)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("ufunc", UNARY, ids=lambda f: f.__name__)
def test_unary(ufunc, dtype):
    x = edges(dtype)
    if computes_in(ufunc, dtype) is None:
        with pytest.raises(DTypeError, match=ufunc.__name__):
            run_traced(ufunc, x)
        return
    if ufunc is np.expm1 and dtype.kind == "c":
        x = x[x.imag != 0]  # NumPy's own is nan for infinity there, where the array API standard says infinity
    expected = expect(ufunc, x)
    assert_same(run_traced(ufunc, x)[0], expected)
    assert_same(getattr(znp, ufunc.__name__)(x), expected)


@pytest.mark.parametrize("ufunc", BINARY, ids=lambda f: f.__name__)
def test_binary_on_every_pair_of_types(ufunc):
    for left, right in itertools.product(DTYPES, DTYPES):
        x, y = edges(left)[:, None], edges(right)
        if ufunc in NONNEGATIVE_EXPONENT and y.dtype.kind in "iu":
            y = np.abs(y) % 8
        if ufunc in (np.power, np.float_power) and "c" in left.kind + right.kind:
            x, y = moderate(x)[:, None], moderate(y)
        if computes_in(ufunc, left, right) is None:
            with pytest.raises(DTypeError, match=ufunc.__name__):
                run_traced(ufunc, x, y)
            continue
        expected = expect(ufunc, x, y)
        assert_same(run_traced(ufunc, x, y)[0], expected)
        assert_same(getattr(znp, ufunc.__name__)(x, y), expected)


@pytest.mark.parametrize("number", [True, 3, 2.5], ids=repr)
@pytest.mark.parametrize("ufunc", BINARY, ids=lambda f: f.__name__)
def test_python_numbers_are_weak(ufunc, number):
    kind = bool if isinstance(number, bool) else type(number)
    key = np.dtype(bool) if kind is bool else kind
    for dtype in DTYPES:
        x = edges(dtype) if dtype.kind == "c" else np.abs(edges(dtype))
        x = moderate(x) if dtype.kind == "c" and ufunc in (np.power, np.float_power) else x
        if computes_in(ufunc, dtype, key) is None:
            with pytest.raises(DTypeError):
                run_traced(lambda a: ufunc(a, number), x)
            continue
        assert_same(run_traced(lambda a: ufunc(a, number), x)[0], expect(ufunc, x, number))
        if ufunc in (*NONNEGATIVE_EXPONENT, np.float_power, np.ldexp):
            continue
        assert_same(run_traced(lambda a: ufunc(number, a), x)[0], expect(ufunc, number, x))


@pytest.mark.parametrize(
    "shapes", [((), (3,)), ((0,), (1,)), ((2, 1), (1, 3)), ((1,), (1,)), ((4, 0), (0,)), ((2, 3), ())]
)
def test_broadcasting(shapes):
    x, y = (values(np.dtype("f4"), s, i) for i, s in enumerate(shapes))
    check(lambda xp, a, b: xp.add(a, b), x, y)
    check(lambda xp, a, b: a * b, x, y)


@given(
    st.lists(st.sampled_from([0, 1, 2, 3]), max_size=3),
    st.lists(st.booleans(), min_size=3, max_size=3),
    st.integers(0, 3),
    st.sampled_from(DTYPES[1:]),
    st.sampled_from(DTYPES[1:]),
)
def test_any_shapes_that_fit(shape, ones, cut, left, right):
    other = [1 if one else n for n, one in zip(shape, ones, strict=False)][min(cut, len(shape)) :]
    x, y = values(left, shape, 1), values(right, other, 2)
    check(lambda xp, a, b: a - b * 2 + (a < b), x, y)


OPERATORS = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "truediv": lambda a, b: a / b,
    "floordiv": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "divmod": lambda a, b: divmod(a, b),
    "pow": lambda a, b: a**2 + b**3,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "neg": lambda a, b: -a,
    "pos": lambda a, b: +a,
    "abs": lambda a, b: abs(a),
    "reflected": lambda a, b: 1 - (2 / (3 + b)) + 5 // (a + 20),
    "reflected power": lambda a, b: 2.0 ** abs(a),
    "inplace": lambda a, b: _inplace(a, b),
}
INTEGER_OPERATORS = {
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "invert": lambda a, b: ~a,
    "lshift": lambda a, b: a << (b & 3),
    "rshift": lambda a, b: a >> (b & 3),
    "reflected": lambda a, b: 5 & (3 | (9 ^ a)),
    "reflected shift": lambda a, b: 64 >> (b & 3),
}


def _inplace(a, b):
    a = a + b
    a += b
    a *= 2
    return a


@pytest.mark.parametrize("dtype", DTYPES[1:], ids=str)
@pytest.mark.parametrize("name", OPERATORS)
def test_operators(name, dtype):
    if dtype.kind == "c" and name in ("floordiv", "mod", "divmod", "reflected"):
        return  # NumPy has none of these for complex numbers
    x, y = values(dtype, (4, 3), 3), values(dtype, (3,), 4)
    y = np.where(y == 0, y.dtype.type(1), y)
    if dtype.kind == "u":
        x, y = np.sort(x) + 9, y
        if name in ("neg", "reflected"):
            return
    check(lambda xp, a, b: OPERATORS[name](a, b), x, y)


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d.kind in "biu"], ids=str)
@pytest.mark.parametrize("name", INTEGER_OPERATORS)
def test_bit_operators(name, dtype):
    if dtype.kind == "b" and "shift" in name:
        return
    check(lambda xp, a, b: INTEGER_OPERATORS[name](a, b), values(dtype, (4, 3), 3), values(dtype, (3,), 4))


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 0.5, -1, -0.5, 2.0])
def test_operator_power_takes_numpys_short_cuts(exponent):
    x = np.array([0.0, -0.0, 1.0, -2.0, 3.0, np.inf, -np.inf, np.nan], np.float32)
    check(lambda xp, a: a**exponent, x)


def test_numpy_arrays_and_scalars_on_the_left():
    x = values(np.dtype("f4"), (2, 3))
    left = np.arange(3.0, dtype=np.float32)
    check(lambda xp, a: left + a, x)
    check(lambda xp, a: np.float32(2) * a, x)
    check(lambda xp, a: np.float64(2) * a, x)
    check(lambda xp, a: [1, 2, 3] + a, x)  # noqa: RUF005


def test_big_python_ints():
    x = np.array([1, 2], np.uint32)
    check(lambda xp, a: a < 2**40, x)
    check(lambda xp, a: a > -1, x)
    check(lambda xp, a: a == -1, x)
    with pytest.raises(NumberError, match="Python integer -1 is out of bounds for uint32"):
        run_traced(lambda a: a + -1, x)
    with pytest.raises(OverflowError):
        znp.add(x, 2**32)


def test_dtype_of_a_ufunc_and_wrong_counts():
    x = values(np.dtype("f4"), (3,))
    check(lambda xp, a: xp.add(a, 1, dtype=np.float64), x)
    with pytest.raises(TypeError, match="add takes 2 operands, not 1"):
        znp.add(x)


def test_methods_of_ufuncs():
    x = values(np.dtype("f8"), (3, 4))
    check(lambda xp, a: np.add.reduce(a), x)
    check(lambda xp, a: np.maximum.reduce(a, axis=1, keepdims=True), x)
    check(lambda xp, a: np.multiply.outer(a, np.arange(2.0)), x)
    check(lambda xp, a: np.add.accumulate(a, axis=1), x)


@pytest.mark.parametrize("ufunc", [np.frexp, np.modf, np.divmod], ids=lambda f: f.__name__)
def test_two_results(ufunc):
    for dtype in DTYPES:
        x = (edges(dtype),) if ufunc.nin == 1 else (edges(dtype)[:, None], edges(dtype))
        if computes_in(ufunc, *[dtype] * ufunc.nin) is None:
            continue
        expected = expect(ufunc, *x)
        for found in (run_traced(ufunc, *x), getattr(znp, ufunc.__name__)(*x)):
            for actual, e in zip(found, expected, strict=True):
                assert_same(actual, e)


@pytest.mark.parametrize("dtype", [np.dtype(t) for t in ("f2", "f4", "f8")], ids=str)
def test_bits_of_numbers(dtype):
    """Numbers of every magnitude, subnormal ones too, with nothing lost."""
    info = np.finfo(dtype)
    generator = np.random.default_rng(0)
    with np.errstate(all="ignore"):
        x = np.ldexp(generator.uniform(-1, 1, 400), generator.integers(info.minexp - 30, info.maxexp + 1, 400))
        special = [
            0.0,
            -0.0,
            np.inf,
            -np.inf,
            np.nan,
            info.tiny,
            -info.tiny,
            info.max,
            info.min,
            info.smallest_subnormal,
        ]
        powers = [info.smallest_subnormal, *(2.0**n for n in (-14, -3, 0, 5))]
        x = np.concatenate([x, special, powers, np.negative(powers)]).astype(dtype)
    y, n = generator.permutation(x), generator.integers(-2200, 2200, x.size) * generator.integers(0, 2, x.size) // 7
    y = np.where(x == y, np.float16(1), y)  # NumPy gives the first of equal float16 zeros
    with np.errstate(all="ignore"):
        adjacent, (mantissa, exponent) = np.nextafter(x, y), np.frexp(x)
        wanted = [adjacent, np.spacing(x), np.ldexp(x, n), mantissa, exponent, x]
    found = run_traced(lambda a, b, k: [np.nextafter(a, b), np.spacing(a), np.ldexp(a, k), *np.frexp(a)], x, y, n)
    found += run_traced(lambda m, e: np.ldexp(m, e), mantissa, exponent)
    for actual, expected in zip(found, wanted, strict=True):
        assert actual.dtype == expected.dtype
        np.testing.assert_array_equal(actual, expected)
        signs = np.signbit(actual) == np.signbit(expected)
        assert (signs | np.isnan(expected)).all()


def test_infinities_by_sign_and_rounding_towards_zero():
    for dtype in (d for d in DTYPES if d.kind != "c"):
        x = edges(dtype)
        check(lambda xp, a: (xp.isposinf(a), xp.isneginf(a), xp.fix(a)), x)


@pytest.mark.parametrize("exponent", [-1, np.int8(-1), np.array([1, -2, 3]), [2, 0, -1]], ids=str)
@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint8, np.int64])
def test_integers_have_no_negative_powers(exponent, dtype):
    x = np.array([1, 0, 2], dtype)
    for function in (np.power, lambda a, e: a**e, znp.power):
        with pytest.raises(DTypeError, match="integers to negative integer powers are not allowed"):
            run_traced(lambda a: function(a, exponent), x)  # noqa: B023
    with pytest.raises(DTypeError, match="integers to negative integer powers are not allowed"):
        znp.power(x, exponent)
    check(lambda xp, a: (xp.power(a, np.abs(exponent)), xp.float_power(a + 1, exponent)), x)


def test_a_negative_power_of_integers_in_floats():
    x = np.array([1, 4, 2])
    check(lambda xp, a: (xp.power(a, -1, dtype=float), xp.power(a, np.float32(-1)), xp.power(a * 1.0, -2)), x)
    check(lambda xp, a: xp.power(a.astype(np.uint64), np.array([-1, 2, -2])), x)  # which are float64 together


def test_mantissas_have_the_derivative_of_a_product_by_a_power_of_two():
    x = np.array([3.0, -0.1, 1e300, 1e-300, 1.0])
    for f in (zenith.grad, lambda f: zenith.jit(zenith.grad(f))):
        slopes = f(lambda a: np.sum(np.frexp(a)[0]))(x)
        np.testing.assert_array_equal(slopes, np.frexp(x)[0] / x)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_angles(dtype):
    check(lambda xp, a: (xp.angle(a), xp.angle(a, deg=True)), edges(dtype))


def test_divisors():
    x = np.array([0, 1, 12, -18, 2**31 - 1, -(2**31), 35], np.int32)
    for dtype in (np.int32, np.int64):
        check(lambda xp, a: (xp.gcd(a[:, None], a), xp.gcd(a, 6)), x.astype(dtype))
        check(lambda xp, a: xp.lcm(a[:, None], a), x[[0, 1, 2, 3, 6]].astype(dtype))
    for dtype in (np.int8, np.int16, np.int32, np.int64):
        limits = np.iinfo(dtype)
        ends = np.array([limits.min, limits.max, limits.max - 1, -1, 0, 1, 2, 6], dtype)
        check(lambda xp, a: (xp.lcm(a[:, None], a), xp.gcd(a[:, None], a)), ends)


def test_scipy_functions_are_found_by_name():
    special = pytest.importorskip("scipy.special")
    x = values(np.dtype("f8"), (5,))
    assert_same(run_traced(special.erf, x)[0], special.erf(x))
    assert_same(run_traced(special.expit, x)[0], special.expit(x))


def test_complex_infinities_are_close_to_themselves():
    x = np.array([complex(np.inf, 0), complex(np.inf, np.inf), complex(-np.inf, 2), 1 + 1j])
    np.testing.assert_array_equal(zenith.jit(np.isclose)(x, x.copy()), [True] * 4)
