"""Elementary functions that kernels call: of arguments that are the same in all elements, and known."""

import ctypes

import numpy as np
import pytest

from zenith.backends.cpu.link import link_kernels
from zenith.backends.scalars import ELEMENTARY
from zenith.backends.vecmath import FUNCTIONS, numpy_functions

KERNEL = """def kernel(begin, end, args):
    out0 = {kind}_buffer(args, 1, 1)
    v1 = {kind}(bool(True))
    v2 = {kind}({name}({words}))
    for i in range(begin, end):
        out0[i] = v2
"""


@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize("name", sorted(set(ELEMENTARY) & set(FUNCTIONS)))
def test_of_a_constant(name, kind):
    """LLVM drops the argument of a function that has one constant for it, and then met one variant of it too many."""
    arity, dtype = FUNCTIONS[name].arity, np.dtype(kind.replace("f", "float"))
    code = link_kernels({"kernel": KERNEL.format(kind=kind, name=name, words=", ".join(["v1"] * arity))})["kernel"]
    out = np.empty(5, dtype)
    words = np.array([0, out.ctypes.data])
    ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 3)(code.address)(0, 5, words.ctypes.data)
    with np.errstate(all="ignore"):
        expected = getattr(numpy_functions, name)(*[np.ones(1, dtype)] * arity)
    np.testing.assert_allclose(out, np.broadcast_to(expected, 5), rtol=1e-5 if kind == "f32" else 1e-13)
