"""Arrays of CuPy, PyTorch, JAX and any DLPack library, in and out, without copies."""

import numpy as np
import pytest

import zenith


def double(x):
    return np.exp(x) * 2


def test_cupy_arrays(real, rng):
    x = rng.standard_normal((5, 7), dtype=np.float32)
    run = zenith.jit(double)
    for given in (real.asarray(x), real.asarray(x.T).T, real.asarray(np.repeat(x, 2, 1))[:, ::2]):
        found = run(given)
        assert type(found) is real.ndarray
        np.testing.assert_allclose(real.asnumpy(found), double(x), rtol=1e-6)


def test_torch_tensors(cuda_torch):
    x = cuda_torch.randn(5, 7, device="cuda")
    run = zenith.jit(double)
    for given in (x, x.t(), x[:, ::2]):
        found = run(given)
        assert type(found) is cuda_torch.Tensor and found.is_cuda
        cuda_torch.testing.assert_close(found, cuda_torch.exp(given) * 2, rtol=1e-6, atol=1e-6)


def test_results_of_the_libraries_are_the_same_numbers(real, cuda_torch):
    x = real.arange(12, dtype=np.float32).reshape(3, 4) / 12
    run = zenith.jit(double)
    other = run(cuda_torch.from_dlpack(x))
    np.testing.assert_array_equal(real.asnumpy(run(x)), other.cpu().numpy())


def test_a_result_goes_on_without_a_copy(real, cuda_torch):
    found = zenith.jit(double)(real.ones(1000, np.float32))
    assert cuda_torch.from_dlpack(found).data_ptr() == found.data.ptr


class Exporter:
    """An array that knows DLPack alone, with the array module of CuPy."""

    def __init__(self, array):
        self.array, self.asked = array, []
        self.shape, self.dtype, self.ndim = array.shape, array.dtype, array.ndim

    def __array_namespace__(self):
        import cupy

        return cupy

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __dlpack__(self, *, stream=None, max_version=None):
        self.asked.append((stream, max_version))
        return self.array.__dlpack__(stream=stream)


class BorrowedMemory(Exporter):
    """The same on a tensor of PyTorch."""

    def __init__(self, tensor):
        super().__init__(tensor)
        self.dtype = np.dtype(np.float32)

    def __dlpack__(self, *, stream=None, max_version=None):
        self.asked.append((stream, max_version))
        return self.array.__dlpack__(stream=stream, max_version=max_version)


def test_any_array_with_dlpack(real):
    x = Exporter(real.linspace(0, 1, 9, dtype=np.float32))
    found = zenith.jit(double)(x)
    np.testing.assert_allclose(real.asnumpy(found), double(real.asnumpy(x.array)), rtol=1e-6)
    ((stream, version),) = x.asked
    assert stream not in (None, 0, -1) and version is not None


def test_jax_arrays(real):
    jax = pytest.importorskip("jax")
    try:
        device = jax.devices("gpu")[0]
    except RuntimeError as error:
        pytest.skip(f"JAX sees no GPU: {error}")
    x = jax.device_put(np.linspace(0, 1, 9, dtype=np.float32), device)
    found = zenith.jit(double)(x)
    zenith.synchronize()
    assert isinstance(found, jax.Array) and found.devices() == {device}
    np.testing.assert_allclose(np.asarray(found), double(np.asarray(x)), rtol=1e-6)


def test_streams_of_the_protocol(real):
    """CuPy's current stream is passed to the exporter: 1 is the legacy default, which CUDA calls 0."""
    run, streams = zenith.jit(double), []
    for stream in (real.cuda.Stream.null, real.cuda.Stream(non_blocking=True)):
        with stream:
            x = Exporter(real.linspace(0, 1, 9, dtype=np.float32))
            found = run(x)
            np.testing.assert_allclose(real.asnumpy(found), double(real.asnumpy(x.array)), rtol=1e-6)
        ((asked, _),) = x.asked
        streams.append((asked, stream.ptr or 1))
    assert all(asked == expected for asked, expected in streams)


def test_torchs_results_wait_for_its_own_stream(real, cuda_torch):
    """A tensor exported by DLPack on a side stream: its capsule orders the work after that stream's."""
    side = cuda_torch.cuda.Stream()
    with cuda_torch.cuda.stream(side):
        x = cuda_torch.ones(1 << 22, device="cuda")
        for _ in range(50):
            x = x + 1
        exported = BorrowedMemory(x)
        found = zenith.jit(lambda x: x * 2)(exported)
    assert real.asnumpy(found).tolist()[:3] == [102.0] * 3 and exported.asked[0][1] == (1, 0)


def test_a_copy_on_the_host_is_asked_for(real, cuda_torch):
    x = cuda_torch.arange(3.0, device="cuda")
    with pytest.raises(zenith.errors.DeviceError, match='device="cpu"'):
        zenith.numpy.from_dlpack(x)
    assert zenith.numpy.from_dlpack(real.arange(3.0), device="cpu").tolist() == [0, 1, 2]


def test_the_device_of_the_arrays_chooses_the_backend(real):
    run = zenith.jit(double)
    assert type(run(np.ones(3, np.float32))) is np.ndarray
    assert type(run(real.ones(3, np.float32))) is real.ndarray
    assert run.cache_info().misses == 2
    with pytest.raises(zenith.errors.DeviceError, match="nothing is moved silently"):
        zenith.jit(double, backend="cuda")(np.ones(3, np.float32))
