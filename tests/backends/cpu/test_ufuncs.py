"""Inner loops of NumPy's and SciPy's ufuncs in kernels: every primitive that has them, in programs and in loops."""

import numpy as np
import pytest

import zenith
from tests.backends.running import call, plan_of
from tests.backends.running import compiled as run_compiled
from tests.ir.cases import SUPPORTED, named
from zenith.backends.cpu import machine, ufuncs
from zenith.backends.cpu.link import link_kernels
from zenith.backends.cuda.target import cuda_target
from zenith.errors import UnsupportedError
from zenith.ir.dims import dims
from zenith.ir.lowering import HostCall
from zenith.ir.primitive import Primitive
from zenith.ir.text import parse
from zenith.ir.types import float64
from zenith.trace import InputSpec, trace
from zenith.trace.bind import b

CALLED = [(p, t) for p, t in SUPPORTED if isinstance(p.lowering, HostCall) and p.lowering.inner_loops]
TOLERANCES = {2: 2e-2, 4: 1e-5, 8: 1e-12}  # of the largest element, by bytes of a real number
RNG = np.random.default_rng(3)


def test_there_are_such_primitives():
    assert {"solve", "cholesky", "eigh", "svd", "fft", "rfft", "irfft", "gammainc"} <= {p.name for p, _ in CALLED}


@pytest.mark.parametrize(("primitive", "dtype"), named(CALLED))
def test_in_a_loop_they_compute_what_python_does(primitive: Primitive, dtype):
    """Of operands that differ from turn to turn, so that no call is moved out of the loop."""
    for sample in primitive.samples(dtype.numpy):
        operands = [np.asarray(v) for v in sample.values]

        def turn(i, results, *given, params=sample.params):
            given = [x * (i + 1).astype(x.dtype) / 3 for x in given]
            found = getattr(b, primitive.name)(*given, **params)
            return (found if isinstance(found, (tuple, list)) else (found,))[0]

        @zenith.jit
        def program(*given, turn=turn):
            return zenith.fori_loop(0, 3, lambda i, r: turn(i, r, *given), turn(np.int64(0), None, *given))

        expected = primitive.evaluate([np.asarray(v) for v in operands], sample.params)[0]
        found = program(*operands)
        assert found.dtype == expected.dtype
        tolerance = TOLERANCES[dtype.real.numpy.itemsize]
        np.testing.assert_allclose(found.astype(complex), expected.astype(complex), tolerance, tolerance)


def inverse_root(a, n):
    """The inverse root of a matrix, by the iteration of Denman and Beavers."""
    z = np.eye(a.shape[0], dtype=a.dtype)
    for _ in range(n):
        a, z = 0.5 * (a + np.linalg.inv(z)), 0.5 * (z + np.linalg.inv(a))
    return z


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
def test_loops_of_all_sizes_are_one_program(dtype):
    compiled = zenith.jit(inverse_root)
    for n in (5, 6, 17, 0):
        a = RNG.standard_normal((n, n)).astype(dtype)
        a = a @ a.conj().T + np.eye(n, dtype=dtype)
        found, expected = compiled(a, 8), inverse_root(a, 8)
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=1e-3 if dtype == np.float32 else 1e-10, atol=1e-6)
    assert compiled.cache_info().misses <= 2  # matrices of at most four rows have a program of their own


def test_matrices_without_a_result_leave_the_others_of_their_stack_alone():
    a = RNG.standard_normal((40, 6, 6)) + 4 * np.eye(6)
    a[7] = 0.0
    found = zenith.jit(lambda a: np.linalg.inv(a))(a)
    assert np.isnan(found[7]).all()
    kept = np.delete(np.arange(40), 7)
    np.testing.assert_allclose(found[kept], np.linalg.inv(a[kept]), rtol=1e-10)
    definite = a @ a.swapaxes(-1, -2)
    definite[11] *= -1
    found = zenith.jit(lambda a: np.linalg.cholesky(a))(definite)
    kept = np.delete(np.arange(40), [7, 11])
    assert np.isnan(found[11]).all()
    np.testing.assert_allclose(found[kept], np.linalg.cholesky(definite[kept]), rtol=1e-10)


@pytest.mark.parametrize("shape", [(0, 6), (3, 1), (5, 0, 4), (2, 300, 7), (700, 3), (33, 64), (1, 40, 40)], ids=str)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_transforms_of_rows_and_columns(shape, axis):
    """Blocks of rows and of columns that are whole, cut, and empty; even and odd numbers of points."""
    x = RNG.standard_normal(shape)
    if x.shape[axis] == 0:
        return
    for function in (np.fft.fft, np.fft.ifft, np.fft.rfft, lambda x, axis: np.fft.irfft(x + 1j, axis=axis)):
        if function is not np.fft.fft and x.shape[axis] == 1:
            continue
        found = zenith.jit(lambda x, function=function: function(x, axis=axis))(x)
        expected = function(x, axis=axis)
        assert found.shape == expected.shape and found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("shape", [(2, 0, 2), (0, 3, 2), (2, 3, 0)], ids=str)
def test_sizes_of_0_that_are_known(shape):
    """As vmap and abstract arguments give them."""
    axes = tuple(axis for axis, size in enumerate(shape) if size)
    compiled = zenith.jit(lambda x: np.fft.fftn(x, axes=axes)).lower(zenith.ShapeDtypeStruct(shape, np.complex128))
    assert compiled.compile()(np.zeros(shape, complex)).shape == shape
    for axis in axes:
        graph = parse(
            f"def f(x: f64[{', '.join(map(str, shape))}]) -> (c128[{', '.join(map(str, shape))}]):\n"
            f"    v1 = fft(x, axes=({axis},), inverse=False, norm='backward')\n    return (v1,)"
        )
        assert call(run_compiled(graph, "cpu"), graph, [np.zeros(shape)])[0].shape == shape


def test_long_rows_in_a_loop():
    compiled = zenith.jit(lambda x, n: zenith.fori_loop(0, n, lambda i, x: np.fft.ifft(np.fft.fft(x) * 1j), x))
    x = RNG.standard_normal(70000) + 0j
    np.testing.assert_allclose(compiled(x, 3), x * -1j, rtol=1e-10, atol=1e-10)


def test_a_gpu_refuses_them_in_loops():
    spec = InputSpec("a", float64, dims((7, 7)), (7, 7))
    traced = trace(lambda a: [zenith.fori_loop(0, 3, lambda i, a: np.linalg.inv(a), a)], [spec])
    with pytest.raises(UnsupportedError, match="solve inside a loop or branch"):
        plan_of(traced.graph, cuda_target())


# --- where they are ------------------------------------------------------------------------------------------------


def test_a_loop_is_called_from_python_as_from_machine_code():
    a, y = RNG.standard_normal((2, 6, 6)), RNG.standard_normal((2, 6, 3))
    out = np.empty_like(y)
    steps = (*(x.strides[0] for x in (a, y, out)), *(s for x in (a, y, out) for s in x.strides[1:]))
    ufuncs.inner_loop("numpy.linalg._umath_linalg.solve:dd->d", 3, 2, a, 0, y, 0, out, 0, 2, 6, 3, *steps)
    np.testing.assert_allclose(out, np.linalg.solve(a, y), rtol=1e-12)


@pytest.mark.parametrize("name", ["numpy.linalg._umath_linalg.solve:ii->i", "numpy.linalg._umath_linalg.other:d->d",
                                  "numpy.linalg:d->d"])  # fmt: skip
def test_what_numpy_has_not_is_said(name):
    with pytest.raises(LookupError, match="has no ufunc"):
        ufuncs.find(name)
    assert ufuncs.address_of(ufuncs.symbols(name)[0]) is None


KERNEL = """def kernel(begin, end, args):
    x = f64_buffer(args, 1, 2)
    y = f64_buffer(args, 2, 2)
    inner_loop('numpy.linalg._umath_linalg.NAME:d->d', 2, 1, x, 0, y, 0, 1, 5, 200, 200, 40, 8, 40, 8)
"""


def test_machine_code_that_needs_what_this_numpy_has_not_is_not_loaded():
    with pytest.raises(ValueError, match=r"needs zenith_ufunc\.numpy.*, which this process has not"):
        link_kernels({"kernel": KERNEL.replace("NAME", "other")})


def test_llvm_finds_the_loops_of_what_it_loads():
    """As on other processors than x86-64."""
    code = link_kernels({"kernel": KERNEL.replace("NAME", "cholesky_lo")})["kernel"]
    a = np.cov(RNG.standard_normal((5, 30)))
    found = {}
    for load in (machine.load, machine.load_by_engine):
        loaded, out = load(code.code, code.symbols), np.empty((5, 5))
        words = np.array([0, a.ctypes.data, out.ctypes.data])
        machine.ctypes.CFUNCTYPE(None, *[machine.ctypes.c_int64] * 3)(loaded.addresses[0])(0, 1, words.ctypes.data)
        found[load] = out
    for out in found.values():
        np.testing.assert_allclose(out, np.linalg.cholesky(a), rtol=1e-12)
