"""A value that is mended at a point must not cut the slope there: 0 for 0/0, a table's value at its node.

Every elementwise function is asked for its derivative at the points where formulas choose: where the differences to the
left and to the right agree, it is smooth, and the derivative is theirs.
"""

import numpy as np
import pytest

import zenith
import zenith.numpy as znp
from tests.transforms.compare import jax_and_numpy
from zenith.numpy import elementwise

POINTS = np.array([-2.0, -1.0, -0.5, -0.0, 0.0, 0.25, 0.5, 1.0, 2.0, 3.0])
STEP, LARGEST = 1e-6, 1e4  # a slope beyond is that of a jump
SPECIAL = [n for n in znp.special.__all__ if n not in ("logsumexp", "softmax", "log_softmax", "polygamma")]
OWN = ("sinc", "i0", "nan_to_num", "angle")
OF_TWO = {"beta", "betaln", "gammainc", "gammaincc", "rel_entr", "xlog1py", "xlogy"}
POLES = ("special.beta", "special.betaln")  # at negative integers that poles cancel the slope is nan
UNNEEDED = {"divmod", "bitwise_count", "spacing", "nextafter"}  # several results, bits


def _functions(count):
    """Every function of so many floats that gives floats, by name."""
    found = {f"special.{n}": getattr(znp.special, n) for n in SPECIAL if (n in OF_TWO) == (count == 2)}
    for name in (n for n in elementwise.__all__ if n not in UNNEEDED):
        ufunc = getattr(np, name)
        if ufunc.nin == count and "d" * count + "->d" in ufunc.types:
            found[name] = getattr(znp, name)
    return found | ({n: getattr(znp, n) for n in OWN} if count == 1 else {})


UNARY, BINARY = _functions(1), _functions(2)


def _compare(functions, args):
    """Derivatives by each argument against differences, for all functions in one program."""
    names = list(functions)
    every = zenith.jit(lambda *a: [functions[n](*a) for n in names], backend="reference")
    with np.errstate(all="ignore"):
        for which in range(len(args)):
            moved = [every(*(a + shift if i == which else a for i, a in enumerate(args))) for shift in (-STEP, 0, STEP)]
            own = lambda x, i=which: [functions[n](*args[:i], x, *args[i + 1 :]) for n in names]  # noqa: E731
            _, slopes = zenith.jvp(own, (args[which],), (np.ones_like(args[which]),))
            for name, slope, low, middle, high in zip(names, slopes, *moved, strict=True):
                left, right, whole = (middle - low) / STEP, (high - middle) / STEP, (high - low) / (2 * STEP)
                smooth = np.isfinite(whole) & (np.abs(whole) < LARGEST)
                if name in POLES:
                    smooth &= np.all([a > 0 for a in args], axis=0)
                smooth &= np.abs(left - right) < 1e-3 * (1 + np.abs(whole))
                np.testing.assert_allclose(slope[smooth], whole[smooth], 1e-4, 1e-4, err_msg=f"{name} {which}")
                assert smooth.any() or name in ("sign", "heaviside")


def test_functions_of_one_number():
    assert len(UNARY) > 50
    _compare(UNARY, (POINTS,))


def test_functions_of_two_numbers():
    assert len(BINARY) > 15
    x, y = (g.ravel() for g in np.meshgrid(POINTS, POINTS))
    _compare(BINARY, (x, y))


NODES, VALUES = np.array([0.0, 1.0, 2.5, 3.0]), np.array([1.0, 5.0, 2.0, 2.5])
QUERIES = np.array([0.0, 0.5, 1.0, 2.5, 3.0, 2.75])


@pytest.mark.parametrize("which", [0, 1, 2])
@pytest.mark.parametrize("options", [{}, {"left": -1.0, "right": 7.0}, {"period": 4.0}], ids=str)
def test_interpolation_at_nodes(which, options):
    """The slope on the right of a node, as in JAX; at the last node the line on its left goes on."""
    jax, jnp = jax_and_numpy()
    args, weights = (QUERIES, NODES, VALUES), np.arange(1.0, 7)
    found = zenith.grad(lambda *a: np.sum(weights * np.interp(*a, **options)), argnums=which)(*args)
    expected = jax.grad(lambda *a: jnp.sum(weights * jnp.interp(*a, **options)), argnums=which)(*args)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_interpolation_has_the_values_of_numpy():
    inf, nan = np.inf, np.nan
    for values in (VALUES, np.array([1.0, inf, inf, 2]), np.array([nan, 1, -inf, 3]), np.array([1e308, -1e308, 0, 1])):
        for nodes in (NODES, np.array([0.0, 1.0, 1.0, 3.0]), np.array([0.0, 1.0, 3.0, 3.0]), np.array([0, 1, 2, inf])):
            queries = np.array([*QUERIES, -1, 4, nan, inf, 1.5])
            with np.errstate(all="ignore"):
                found = zenith.jit(lambda *a: np.interp(*a), backend="reference")(queries, nodes, values)
                np.testing.assert_array_equal(found, np.interp(queries, nodes, values), err_msg=f"{nodes} {values}")


def test_unwrapped_angles_move_as_they_are():
    angles = np.array([0.0, np.pi, 2 * np.pi, 0.5, 0.5 + np.pi])
    _, slopes = zenith.jvp(lambda p: np.unwrap(p), (angles,), (np.arange(1.0, 6),))
    np.testing.assert_array_equal(slopes, np.arange(1.0, 6))
    np.testing.assert_array_equal(zenith.jit(np.unwrap, backend="reference")(angles), np.unwrap(angles))


def test_factors_of_zero_count_in_sums_of_exponentials():
    x, factors = np.array([0.5, 1000.0, 2.0, -np.inf]), np.array([0.0, 0.0, 1.0, 0.0])
    value, found = zenith.value_and_grad(lambda w: znp.special.logsumexp(x, b=w))(factors)
    assert value == 2.0
    np.testing.assert_allclose(found[[0, 2, 3]], np.exp(x[[0, 2, 3]] - 2.0), rtol=1e-12)
