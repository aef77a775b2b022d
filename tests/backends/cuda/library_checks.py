"""Programs whose products are a library's: run on the driver without a device, and compared with NumPy."""

import math

import ml_dtypes
import numpy as np

import zenith
from tests.backends.cuda.arrays import on_device, on_host

BF16 = ml_dtypes.bfloat16
BOUNDS = {np.dtype(np.float32): 2e-6, np.dtype(np.float64): 1e-13, np.dtype(np.float16): 2e-3, np.dtype(BF16): 1.6e-2}


def random(shape, dtype=np.float32, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def run(function, *arrays):
    """The results on the device of a jitted function, and the function."""
    jitted = zenith.jit(function)
    results = jitted(*map(on_device, arrays))
    zenith.synchronize()
    return jitted, [on_host(r) for r in (results if isinstance(results, tuple) else (results,))]


def refusals(jitted):
    """The reasons for which the library refused calls."""
    return [pair for program in jitted._specializer.specializations() for pair in program.executable.refused]


def why_not(jitted):
    """Why the library was not chosen when the program was planned."""
    plans = [program.origin.plan for program in jitted._specializer.specializations()]
    return [dict(group.choice.others)["cublaslt"] for plan in plans for group in plan.groups]


def check(lt, function, *arrays, epilogue="DEFAULT", matmuls=1, kernels=0, wanted=None):
    """The library computes it, with this epilogue, and so many kernels of Zenith after it; values are right."""
    before = len(lt.matmuls), len(lt.driver.launches)
    jitted, results = run(function, *arrays)
    assert len(lt.matmuls) - before[0] == matmuls, refusals(jitted)
    assert len(lt.driver.launches) - before[1] == kernels
    assert {m.problem.epilogue for m in lt.matmuls[before[0] :]} == {epilogue}
    wide = [a.astype(np.float64) for a in arrays]
    reference = (wanted or function)(*wide)
    for found, want in zip(results, reference if isinstance(reference, tuple) else (reference,), strict=True):
        bound = BOUNDS[found.dtype]
        np.testing.assert_allclose(found.astype(np.float64), want, bound, bound * np.abs(want).max(initial=1))
    return jitted


def tanh_gelu(x):
    return 0.5 * x * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x * x * x)))


def tanh_gelu_slope(x):
    c, r = 0.044715, math.sqrt(2.0 / math.pi)
    t = np.tanh(r * (x + c * x * x * x))
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * r * (1 + 3 * c * x * x)


def reasons(jitted):
    """All reasons in reports: for engines that were not chosen, and for kernels next to calls."""
    plans = [program.origin.plan for program in jitted._specializer.specializations()]
    return {why for plan in plans for group in plan.groups for _, why in group.choice.others}
