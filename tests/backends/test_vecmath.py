"""Every elementary function, compiled and on arrays, against a wider type: special values, then errors in ulp."""

import math
import platform
import re
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import llvmlite.binding
import numba
import numpy as np
import pytest

from zenith.backends.cpu import vector_math
from zenith.backends.vecmath import FUNCTIONS, ULP, numpy_functions
from zenith.ir.ops.reference import erfinv
from zenith.ir.ops.special_reference import BERNOULLI, bessel, digamma, erfcinv, erfcx, lgamma

UNARY = [name for name, function in FUNCTIONS.items() if function.arity == 1]
BINARY = [name for name, function in FUNCTIONS.items() if function.arity == 2]
HOT = ("exp", "tanh", "sigmoid", "erf", "log")
HALF = 1 << 19
"""Points of each of the two float32 samples of a function: any bit pattern, and where its values vary."""

BESSEL = ("bessel_i0", "bessel_i0e", "bessel_i1", "bessel_i1e")
SERIES = ("digamma", "erfcx", "erfcinv", *BESSEL)
"""Functions whose references are series in the widest type, which take long: fewer points."""

needs_longdouble = pytest.mark.skipif(
    np.finfo(np.longdouble).nmant <= np.finfo(np.float64).nmant, reason="no type wider than float64 on this machine"
)

reads_assembly = pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64") or not llvmlite.binding.get_host_cpu_features().get("fma"),
    reason="reads x86 assembly with fused multiply-add",
)

# Where a function takes ordinary values; any bit pattern is mostly huge or tiny.
RANGES = {
    "exp": (-105.0, 90.0),
    "exp2": (-151.0, 129.0),
    "expm1": (-20.0, 20.0),
    "sigmoid": (-105.0, 20.0),
    "log": (0.0, 10.0),
    "log2": (0.0, 10.0),
    "log10": (0.0, 10.0),
    "log1p": (-1.0, 10.0),
    "arccosh": (1.0, 4.0),
    "arcsin": (-1.0, 1.0),
    "arccos": (-1.0, 1.0),
    "arctanh": (-1.0, 1.0),
    "erfc": (-4.0, 27.5),
    "erfcx": (-27.0, 40.0),
    "erfinv": (-1.0, 1.0),
    "erfcinv": (0.0, 2.0),
    "sin": (-1e4, 1e4),
    "cos": (-1e4, 1e4),
    "lgamma": (-10.0, 30.0),
    "digamma": (-10.0, 30.0),
    "bessel_i0": (-60.0, 60.0),
    "bessel_i0e": (-60.0, 60.0),
    "bessel_i1": (-60.0, 60.0),
    "bessel_i1e": (-60.0, 60.0),
    "tan": (-1e4, 1e4),
}


# --- references in the next wider type


def erf_series(x: np.ndarray) -> np.ndarray:
    """erf(x) = 2 x / sqrt(pi) exp(-x**2) sum (2 x**2)**n / (1 3 5 ... (2 n + 1)): no cancellation, for |x| <= 7."""
    term = np.ones_like(x)
    total = np.ones_like(x)
    for n in range(1, 250):
        term = term * (2 * x * x) / (2 * n + 1)
        total = total + term
    return 2 * x / np.sqrt(np.arccos(x.dtype.type(-1))) * gaussian(x) * total


def gaussian(x: np.ndarray) -> np.ndarray:
    """exp(-x**2), with the square split so that its rounding is not magnified."""
    high = x.astype(np.float32).astype(x.dtype)
    return np.exp(-high * high) * np.exp(-(x - high) * (x + high))


def erf_reference(x: np.ndarray) -> np.ndarray:
    return np.where(np.abs(x) > 7, np.sign(x), erf_series(np.clip(x, -7, 7)))


def erfc_reference(x: np.ndarray) -> np.ndarray:
    """Laplace's continued fraction from 1 on, evaluated backwards; below, the complement of erf."""
    far = np.clip(x, 1, 30)
    fraction = far
    for n in range(600, 0, -1):
        fraction = far + (n / x.dtype.type(2)) / fraction
    tail = gaussian(far) / (fraction * np.sqrt(np.arccos(x.dtype.type(-1))))
    return np.where(x > 1, tail, 1 - erf_reference(x))


def erfinv_reference(x: np.ndarray) -> np.ndarray:
    """Newton's method on erf in the middle and on the logarithm of erfc in the tails, from the rational functions."""
    size, one = np.abs(x), x.dtype.type(1)
    y = erfinv(np.minimum(size.astype(np.float64), 1 - 2.0**-53)).astype(x.dtype)
    for _ in range(3):
        slope = 2 * gaussian(y) / np.sqrt(np.arccos(-one))
        complement = erfc_reference(y)
        middle = (erf_reference(y) - size) / slope
        tail = -np.log(complement / np.where(size < 1, one - size, one)) * complement / slope
        y = y - np.where(size < 0.5, middle, tail)
    return np.where(size > 1, np.nan, np.copysign(np.where(size == 1, np.inf, y), x))


def erfcinv_reference(x: np.ndarray) -> np.ndarray:
    """As erfinv is found in the middle."""
    middle = np.abs(1 - x) < 0.5
    return np.where(middle, erfinv_reference(np.where(middle, 1 - x, 0)), erfcinv(x))


def lgamma_reference(x: np.ndarray) -> np.ndarray:
    """Stirling's series after steps of the recurrence, and the reflection formula."""
    pi = np.arccos(x.dtype.type(-1))
    a = np.where(x < 0, 1 - x, x)
    steps = np.where(a < 30, 30, 0)[..., None] > np.arange(30)
    product = np.sum(np.log(np.where(steps, a[..., None] + np.arange(30), 1)), -1)
    y = a + np.sum(steps, -1)
    series = sum(x.dtype.type(b) / ((2 * i + 2) * (2 * i + 1)) / y ** (2 * i + 1) for i, b in enumerate(BERNOULLI))
    result = (y - 0.5) * (np.log(y) - 1) - 0.5 + np.log(2 * pi) / 2 + series - product
    result = np.where((a == 1) | (a == 2), 0, result)
    reflected = np.log(pi / np.abs(np.sin(pi * (x - np.rint(x))))) - result
    return np.where(np.isinf(x), np.inf, np.where(x < 0, reflected, result))


def least(name: str, x: np.ndarray) -> np.ndarray:
    """The smallest unit of a result's error: next to zeros, that of the terms whose difference it is."""
    if x.dtype == np.float64 and name == "lgamma":
        return np.ones(x.shape)
    if x.dtype == np.float64 and name == "digamma":
        return np.where(x < 0, 1 + np.log1p(np.abs(np.nan_to_num(x))), 0.0)
    return np.zeros(x.shape)


def sigmoid_reference(x: np.ndarray) -> np.ndarray:
    return np.where(x > 0, 1 / (1 + np.exp(-x)), np.exp(x) / (1 + np.exp(x)))


def elementwise(function: Callable[[float], float]) -> Callable[[np.ndarray], np.ndarray]:
    return lambda x: np.array([function(value) for value in x.tolist()])


def reference(name: str, *arguments: np.ndarray) -> np.ndarray:
    """The function in the next wider type: float64 for float32, np.longdouble for float64."""
    single = arguments[0].dtype == np.float32
    own = {
        "erf": elementwise(math.erf) if single else erf_reference,
        "erfc": elementwise(math.erfc) if single else erfc_reference,
        "erfcx": erfcx,
        "erfinv": erfinv if single else erfinv_reference,
        "erfcinv": erfcinv if single else erfcinv_reference,
        "sigmoid": sigmoid_reference,
        "pow": np.power,
        "lgamma": lgamma if single else lgamma_reference,
        "digamma": digamma,
        **{f"bessel_i{n}{e}": partial(bessel, order=n, scaled=bool(e)) for n in (0, 1) for e in ("", "e")},
    }
    wide = np.float64 if single else np.longdouble
    with np.errstate(all="ignore"):
        return (own.get(name) or getattr(np, name))(*(x.astype(wide) for x in arguments)).astype(wide)


# --- the two implementations, the points, and the measure


@cache
def compiled(name: str, dtype: str) -> Any:
    """A compiled loop over arrays, with the flags that kernels use."""
    arity = FUNCTIONS[name].arity
    inputs = ", ".join(f"x{i}" for i in range(arity))
    items = ", ".join(f"x{i}[i]" for i in range(arity))
    namespace: dict[str, Any] = {"vm": vector_math}
    exec(f"def loop({inputs}, out):\n    for i in range(out.size):\n        out[i] = vm.{name}({items})\n", namespace)
    array = numba.types.Array(numba.types.float32 if dtype == "float32" else numba.types.float64, 1, "C")
    signature = numba.void(*[array] * (arity + 1))
    return numba.njit(signature, error_model="numpy", fastmath={"contract"})(namespace["loop"])


def run_compiled(name: str, *arguments: np.ndarray) -> np.ndarray:
    out = np.empty_like(arguments[0])
    compiled(name, out.dtype.name)(*arguments, out)
    return out


def points(name: str, dtype: str, count: int, rng: np.random.Generator) -> np.ndarray:
    """`count` bit patterns, one in each of as many equal intervals, and as many points of the interesting range."""
    bits = np.iinfo(np.uint32 if dtype == "float32" else np.uint64).bits
    step = (1 << bits) // count
    patterns = np.arange(count, dtype=np.uint64) * np.uint64(step) + rng.integers(0, step, count, dtype=np.uint64)
    low, high = RANGES.get(name, (-8.0, 8.0))
    patterns = patterns.astype(f"uint{bits}").view(dtype)
    return np.concatenate([patterns, rng.uniform(low, high, count).astype(dtype)])


def edges(dtype: str) -> np.ndarray:
    info = np.finfo(dtype)
    limits = np.log([info.max, info.smallest_subnormal], dtype=dtype)
    values = [0.0, info.smallest_subnormal, info.tiny, info.eps, 0.5, 1.0, 2.0, 3.0, 1e10, info.max, np.inf]
    values += [1.0 - info.epsneg, 1.0 + info.eps, *np.abs(limits), *np.abs(np.nextafter(limits, np.inf, dtype=dtype))]
    values += [-info.minexp, info.maxexp, info.nmant - info.minexp, info.nmant - info.minexp + 1.0]
    positive = np.array(values, dtype)
    return np.concatenate([positive, -positive, np.array([np.nan], dtype)])


def pairs(dtype: str, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Arguments of pow and arctan2: all pairs of edges, any bits, ordinary values, integral exponents."""
    first, second = (axis.ravel() for axis in np.meshgrid(edges(dtype), edges(dtype)))
    x = [first, points("any", dtype, count, rng), np.exp(rng.uniform(-20, 20, count)).astype(dtype)]
    y = [second, rng.permutation(points("any", dtype, count, rng)), rng.uniform(-8, 8, count).astype(dtype)]
    x.append(-x[-1])
    y.append(rng.integers(-30, 30, count).astype(dtype))
    return np.concatenate(x), np.concatenate(y)


def ulp_error(got: np.ndarray, exact: np.ndarray, floor: Any = 0.0) -> np.ndarray:
    """The difference in units in the last place of the exact value; an infinity counts as the first value too large.

    A value below ``floor`` counts as that.

    Infinite where one is NaN and the other is not, or where zeros differ in sign.
    """
    info = np.finfo(got.dtype)
    top = np.ldexp(exact.dtype.type(1), info.maxexp)
    with np.errstate(invalid="ignore", over="ignore"):  # signalling NaNs among the bit patterns
        rounded = exact.astype(got.dtype)
        value = np.where(np.isinf(got), np.copysign(top, got), got.astype(exact.dtype))
        exact = np.clip(exact, -top, top)
        size = np.where(np.isnan(exact), 1, np.maximum(np.abs(exact), floor))
        exponent = np.clip(np.frexp(size)[1] - 1, info.minexp, info.maxexp - 1)
        error = np.abs(value - exact) / np.ldexp(np.ones_like(exact), exponent - info.nmant)
    wrong_sign = (got == 0) & (rounded == 0) & (np.signbit(got) != np.signbit(exact))
    wrong_nan = np.isnan(got) != np.isnan(exact)
    return np.where(wrong_sign | wrong_nan, np.inf, np.where(np.isnan(exact), 0, error))


def check(name: str, *arguments: np.ndarray, twin_stride: int) -> None:
    """The compiled function and its twin stay within the declared bound of the exact value and of each other."""
    bound = ULP[name][arguments[0].dtype.name]
    exact = reference(name, *arguments)
    result = run_compiled(name, *arguments)
    floor = least(name, arguments[0])
    assert_within(bound, ulp_error(result, exact, floor), result, arguments)
    few = tuple(x[::twin_stride].copy() for x in arguments)
    twin = getattr(numpy_functions, name)(*few)
    assert twin.dtype == arguments[0].dtype
    assert_within(bound, ulp_error(twin, exact[::twin_stride], floor[::twin_stride]), twin, few)
    between = ulp_error(twin, result[::twin_stride].astype(exact.dtype), floor[::twin_stride])
    assert_within(max(bound, 1), between, twin, few)  # two sound roundings of one value may be neighbours


def assert_within(bound: float, error: np.ndarray, got: np.ndarray, arguments: tuple[np.ndarray, ...]) -> None:
    worst = int(np.argmax(error))
    at = ", ".join(repr(x[worst]) for x in arguments)
    assert error[worst] <= bound, f"{error[worst]:.3f} ulp at ({at}): {got[worst]!r}"


# --- the tests


def test_bessel_functions_and_gamma_at_their_ends() -> None:
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -1.0, -2.0])
    wanted = {
        "bessel_i0": [1, 1, np.inf, np.inf, np.nan], "bessel_i0e": [1, 1, 0, 0, np.nan],
        "bessel_i1": [0, -0.0, np.inf, -np.inf, np.nan],
        "bessel_i1e": [0, -0.0, 0, -0.0, np.nan], "lgamma": [np.inf] * 4 + [np.nan, np.inf, np.inf],
        "digamma": [-np.inf, np.inf, np.inf, np.nan, np.nan, np.nan, np.nan],
    }  # fmt: skip
    for name, values in wanted.items():
        for dtype in ("float32", "float64"):
            arguments, expected = x[: len(values)].astype(dtype), np.array(values, dtype)
            for got in (run_compiled(name, arguments), getattr(numpy_functions, name)(arguments)):
                np.testing.assert_array_equal(got, expected)
                signed = ~np.isnan(expected)
                np.testing.assert_array_equal(np.signbit(got[signed]), np.signbit(expected[signed]))


def test_the_bounds_are_the_promised_ones() -> None:
    promised = {name: 4.0 if name == "pow" else 2.0 for name in FUNCTIONS}
    over = {(n, d) for n, bounds in ULP.items() for d, bound in bounds.items() if bound > promised[n]}
    special = {(name, "float64") for name in ("lgamma", "digamma", "erfcx", "erfcinv", *BESSEL)}
    hyperbolic = {(name, "float64") for name in ("sinh", "arcsinh", "arccosh", "arctanh")}
    special |= hyperbolic | {("tan", "float64"), ("erfinv", "float32"), ("erfcinv", "float32")}
    assert over == special  # the reasons are next to the bounds


@pytest.mark.parametrize("name", UNARY)
def test_float32_of_one_argument(name: str, rng: np.random.Generator) -> None:
    count = HALF // 64 if name in SERIES else HALF
    x = np.concatenate([edges("float32"), points(name, "float32", count, rng)])
    check(name, x, twin_stride=16)


@pytest.mark.parametrize("name", BINARY)
def test_float32_of_two_arguments(name: str, rng: np.random.Generator) -> None:
    check(name, *pairs("float32", HALF // 2, rng), twin_stride=16)


@needs_longdouble
@pytest.mark.parametrize("name", UNARY)
def test_float64_of_one_argument(name: str, rng: np.random.Generator) -> None:
    x = np.concatenate([edges("float64"), points(name, "float64", 10_000, rng)])
    check(name, x, twin_stride=1)


@needs_longdouble
@pytest.mark.parametrize("name", BINARY)
def test_float64_of_two_arguments(name: str, rng: np.random.Generator) -> None:
    check(name, *pairs("float64", 5_000, rng), twin_stride=1)


@pytest.mark.parametrize("name", [n for n in sorted(FUNCTIONS) if isinstance(getattr(np, n, None), np.ufunc)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_special_values_are_numpys(name: str, dtype: str) -> None:
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0], dtype)
    arguments = [axis.ravel().copy() for axis in np.meshgrid(*[special] * FUNCTIONS[name].arity)]
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(*arguments)
    got = run_compiled(name, *arguments)
    for kind in (np.isnan, np.isinf, lambda x: x == 0, lambda x: np.signbit(x) & ~np.isnan(x)):
        np.testing.assert_array_equal(kind(got), kind(expected))


def test_powers_of_two_and_ten_are_exact() -> None:
    exponents = np.arange(-37, 39).astype(np.float32)
    np.testing.assert_array_equal(run_compiled("exp2", exponents), np.ldexp(np.float32(1), exponents.astype(int)))
    np.testing.assert_array_equal(run_compiled("log2", np.exp2(exponents)), exponents)
    np.testing.assert_array_equal(run_compiled("log10", 10.0 ** exponents.astype(np.float64)), exponents)


def test_sine_next_to_the_worst_multiples_of_pi() -> None:
    # Found by trying all mantissas: nearest of all to a multiple of pi / 2, and nearest among the largest numbers,
    # which need the last bits of 1 / (2 pi).
    worst = [(16367173, 72), (10741887, 11), (10057457, 62), (12438944, 103), (12438944, 104), (9860544, 97)]
    x = np.array([mantissa * 2.0**exponent for mantissa, exponent in worst], np.float32)
    for name in ("sin", "cos", "tan"):
        check(name, x, twin_stride=1)


@needs_longdouble
def test_float64_sine_next_to_multiples_of_half_pi(rng: np.random.Generator) -> None:
    half = np.arccos(np.longdouble(-1)) / 2
    near = (np.arange(1, 2000) * half).astype(np.float64)
    far = (rng.integers(1, 1 << 29, 5000) * half).astype(np.float64)
    # Numbers around the border to the C library, whose own error is 8 ulp at the worst of all float64.
    border = 2.0**30 * (1 + np.arange(-40, 40) * 1e-3)
    x = np.concatenate([near, far, -far, border, [1e22, 5e-324, 2.0**1023]])
    for name in ("sin", "cos", "tan"):
        check(name, x, twin_stride=1)


def test_a_lane_does_not_depend_on_its_neighbours(rng: np.random.Generator) -> None:
    x = rng.uniform(-100, 100, 64)
    for name in ("sin", "cos", "tan"):
        alone = run_compiled(name, x)
        for value in (1e300, np.inf, np.nan):
            mixed = x.copy()
            mixed[::3] = value
            result = run_compiled(name, mixed)
            np.testing.assert_array_equal(np.delete(result, np.s_[::3]), np.delete(alone, np.s_[::3]))
            with np.errstate(invalid="ignore"):
                np.testing.assert_array_almost_equal_nulp(
                    *np.nan_to_num((result[::3], np.resize(getattr(np, name)(value), 22))), 1
                )


@reads_assembly
@pytest.mark.parametrize("name", ["sin", "cos", "tan", "pow", "sinh", "arctan", "arctan2", "arcsinh"])
def test_loops_over_float64_are_vectorised(name: str) -> None:
    (assembly,) = compiled(name, "float64").inspect_asm().values()
    assert re.search(r"vfn?m(add|sub)\d+pd\s.*%[yz]mm", assembly)


@reads_assembly
@pytest.mark.parametrize("name", HOT)
def test_loops_over_float32_are_vectorised(name: str) -> None:
    (assembly,) = compiled(name, "float32").inspect_asm().values()
    assert re.search(r"vfn?m(add|sub)\d+ps\s.*%[yz]mm", assembly)
    assert not re.search(r"call\w*\s.*\b(expf?|tanhf?|erff?|logf?|fmaf?)\b", assembly)


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_scalars_and_any_shape_on_arrays(name: str) -> None:
    function, arity = getattr(vector_math, name), FUNCTIONS[name].arity
    array = np.full((2, 3), 0.75, np.float32)
    scalar = function(*[np.float32(0.75)] * arity)
    assert isinstance(scalar, np.float32)
    np.testing.assert_array_equal(function(*[array] * arity), np.full((2, 3), scalar), strict=True)
    assert isinstance(function(*[0.75] * arity), np.float64)


def test_other_dtypes_are_refused() -> None:
    with pytest.raises(TypeError, match="no elementary functions for dtype int64; cast to float32 or float64"):
        numpy_functions.exp(np.arange(3))
