"""Linear algebra and Fourier transforms on the device: calls of CuPy, with NumPy in its stead."""

import inspect

import numpy as np
import pytest

import zenith
from tests.backends.cuda.arrays import cupy, on_device, on_host
from tests.backends.cuda.fake_cupy import FACTORS, TRANSFORMS, fake_cupy
from zenith.backends.cuda import cupy_calls
from zenith.backends.cuda.capture import CaptureError
from zenith.errors import DeviceError
from zenith.ir.lowering import HostCall
from zenith.ir.primitive import all_primitives
from zenith.trace.bind import bind

BY_NAMESPACE = [p for p in all_primitives() if isinstance(p.lowering, HostCall) and p.lowering.in_namespace]


@pytest.fixture
def libraries(gpu):
    """Both libraries of CuPy, on the driver without a device."""
    with fake_cupy(gpu) as found:
        yield found


def copies(gpu, function, *arrays):
    """The results of a jitted function, and the copies between host and device of one call."""
    given = [on_device(a) for a in arrays]
    function(*given)
    before = len(gpu.copies)
    found = function(*given)
    return found, gpu.copies[before:]


@pytest.mark.parametrize("primitive", BY_NAMESPACE, ids=[p.name for p in BY_NAMESPACE])
def test_every_primitive_gives_the_same_on_the_device_and_the_host(gpu, libraries, primitive):
    """All samples of all types in one program, which copies nothing to the host."""
    samples = [s for t in "fdFD" for s in primitive.samples(np.dtype(t))]
    bounds = np.cumsum([0, *(len(s.values) for s in samples)])

    @zenith.jit
    def program(*values):
        return [bind(primitive, *values[a:b], **s.params) for a, b, s in zip(bounds, bounds[1:], samples, strict=False)]

    found, moved = copies(gpu, program, *(v for s in samples for v in s.values))
    assert not moved and {name.split(".")[0] for name, _ in libraries.calls} == {primitive.lowering.module}
    for results, sample in zip(found, samples, strict=True):
        results = results if isinstance(results, tuple | list) else (results,)
        for result, wanted in zip(results, primitive.evaluate(sample.values, sample.params), strict=True):
            assert on_host(result).dtype == wanted.dtype
            np.testing.assert_array_equal(on_host(result), wanted)


def test_kernels_before_and_after_are_in_the_order_of_the_stream(gpu, libraries, rng):
    @zenith.jit
    def residual(a, y):
        return a @ np.linalg.solve(a * 2, np.tanh(y)) * 2 - np.tanh(y)

    a, y = (rng.standard_normal((n, n, m)) for n, m in ((5, 5), (5, 2)))
    a += 9 * np.eye(5)
    gpu.on_stream(7)
    gpu.delayed = []
    found = residual(on_device(a), on_device(y))
    gpu.finish()
    np.testing.assert_allclose(on_host(found), 0, atol=1e-12)
    assert libraries.calls == [("linalg.solve", 7)]


def test_a_matrix_without_a_result_gives_nan_and_leaves_its_stack_alone(gpu, libraries):
    a = np.array([np.eye(5), np.zeros((5, 5)), 2 * np.eye(5)])
    found, moved = copies(gpu, zenith.jit(np.linalg.inv), a)
    assert not moved
    np.testing.assert_array_equal(on_host(found), [np.eye(5), np.full((5, 5), np.nan), np.eye(5) / 2])
    factor = zenith.jit(np.linalg.cholesky)(on_device(-a))
    assert np.isnan(on_host(factor)).all()


def test_arrays_without_elements(gpu, libraries):
    step = zenith.jit(lambda x: np.fft.fft(x) + np.linalg.det(x[..., :0, :0])[..., None, None])
    for n in (0, 2):
        x = np.ones((n, 3, 4), np.complex64)
        np.testing.assert_array_equal(on_host(step(on_device(x))), np.fft.fft(x) + 1)


def test_gradients_stay_on_the_device(gpu, libraries, rng):
    def loss(x):
        return np.sum(np.abs(np.fft.rfft(x)) ** 2) + np.sum(np.linalg.svd(x.reshape(6, 6))[1])

    x = rng.standard_normal(36)
    found, moved = copies(gpu, zenith.jit(zenith.grad(loss)), x)
    assert not moved
    np.testing.assert_allclose(on_host(found), zenith.grad(loss)(x), rtol=1e-10)


def test_no_graph_is_made_and_a_capture_is_refused(gpu, libraries, rng):
    step = zenith.jit(lambda x: np.exp(np.fft.ifft(np.sin(x)).real))
    x = on_device(rng.standard_normal(8).astype(np.complex64))
    for _ in range(4):
        step(x)
    assert "it calls the routine cupy.fft.fft" in str(step.explain())
    gpu.on_stream(5)
    with gpu.graphs.capture(5), pytest.raises(CaptureError, match=r"cupy\.fft\.fft[\s\S]*test_cupy_calls\.py"):
        step(x)


def test_without_a_library_of_cupy_the_host_computes_and_explains(gpu, rng):
    step = zenith.jit(lambda x: np.linalg.qr(x)[1])
    x = rng.standard_normal((6, 5))
    with cupy_calls.LINALG.using(None, "libcusolver.so.12 is missing"):
        found, moved = copies(gpu, step, x)
        np.testing.assert_allclose(on_host(found), np.linalg.qr(x)[1])
        assert moved and "cupy.linalg.qr" in step.lower(on_device(x)).as_text("plan")
        assert "libcusolver.so.12 is missing" in str(step.explain())


def test_callbacks_stay_on_the_host(gpu, libraries):
    seen = []
    step = zenith.jit(lambda x: zenith.pure_callback(lambda a: seen.append(type(a)) or a, x, x) + 1)
    step(on_device(np.ones(3)))
    assert seen == [np.ndarray] and not libraries.calls


def test_an_error_of_the_library_names_the_line(gpu, libraries, monkeypatch):
    def fail(*given, **options):
        raise RuntimeError("CUSOLVER_STATUS_INTERNAL_ERROR")

    monkeypatch.setattr(libraries.names.linalg, "eigh", fail)
    step = zenith.jit(np.linalg.eigh)
    with pytest.raises(DeviceError, match=r"cupy\.linalg\.eigh: CUSOLVER_STATUS[\s\S]*test_cupy_calls\.py"):
        step(on_device(np.eye(5)))


def test_cupy_has_every_function_with_the_options_that_are_given():
    """CuPy takes whatever the stand-in takes."""
    for library, functions in (("fft", TRANSFORMS), ("linalg", FACTORS)):
        for name, options in functions.items():
            assert set(options) <= set(inspect.signature(getattr(getattr(cupy, library), name)).parameters)


def test_arrays_are_made_over_the_memory_of_somebody_else(gpu):
    given = on_device(np.arange(12.0))
    array = cupy_calls.CupyArrays().over(given.data.ptr + 16, (2, 5), np.dtype(np.float64), 0)
    assert array.data.ptr == given.data.ptr + 16 and array.flags.c_contiguous
    np.testing.assert_array_equal(on_host(array), np.arange(2.0, 12.0).reshape(2, 5))
