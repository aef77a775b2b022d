"""Second derivatives of every primitive: all orders of forward and reverse mode agree with differences of gradients."""

import numpy as np
import pytest

from tests.ir.cases import READ_ONE_TRIANGLE, named, with_rule
from tests.transforms.checks import hessian_vector_products
from zenith import grad
from zenith.ir.primitive import NoRule
from zenith.ir.types import bfloat16, float16, float32, float64
from zenith.trace.bind import bind

SMOOTH = [(p, t) for p, t in with_rule("jvp") if t == float64 and not isinstance(p.vjp, NoRule)]
STEP = 1e-6


def problem(primitive, sample):
    """A number that depends on a sample's floating-point arguments through the primitive, and these arguments."""
    arrays = [np.asarray(v) for v in sample.values]
    moving = [i for i, a in enumerate(arrays) if a.dtype.kind == "f"]

    def number(floats):
        given = list(arrays)
        for i, value in zip(moving, floats, strict=True):
            given[i] = value
        results = bind(primitive, *given, **sample.params)
        results = results if isinstance(results, tuple) else (results,)
        return sum(np.sum(np.sin(r)) for r in results if r.dtype.kind == "f") + 0.0

    return number, [arrays[i] for i in moving]


@pytest.mark.parametrize(("primitive", "dtype"), named(SMOOTH))
def test_second_derivatives_are_differences_of_gradients(primitive, dtype):
    for seed, sample in enumerate(primitive.samples(dtype.numpy)):
        if sample.params.get("dtype") in (float32, float16, bfloat16):
            continue  # too coarse for differences
        number, args = problem(primitive, sample)
        rng = np.random.default_rng(seed)
        direction = [rng.uniform(-1, 1, a.shape) for a in args]
        if primitive.name in READ_ONE_TRIANGLE:
            direction = [(d + np.swapaxes(d, -1, -2)) / 2 for d in direction]
        with np.errstate(all="ignore"):
            up, down = (grad(number)([a + s * d for a, d in zip(args, direction, strict=True)]) for s in (STEP, -STEP))
            found = [product(args, direction) for product in hessian_vector_products(number, lambda f: f)]
        for i, (u, d) in enumerate(zip(up, down, strict=True)):
            for product in found:
                np.testing.assert_allclose(product[i], (u - d) / (2 * STEP), rtol=1e-5, atol=1e-5)
                np.testing.assert_allclose(product[i], found[0][i], rtol=1e-9, atol=1e-9)
