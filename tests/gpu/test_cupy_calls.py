"""Linear algebra and Fourier transforms by CuPy on the GPU, against NumPy's on the host.

Factors that a matrix determines up to signs are compared by the matrix that they multiply to. With ``ZENITH_GPU=fake``
NumPy replaces CuPy.
"""

from contextlib import ExitStack

import numpy as np
import pytest

import zenith
from tests.backends.cuda.fake_cupy import fake_cupy
from tests.gpu.device import FAKE, download, upload
from zenith.backends.cuda import cupy_calls
from zenith.backends.cuda.driver import driver

SHAPES = ((6, 6), (3, 5, 5), (2, 40, 40))  # one matrix, stacks for Jacobi's method and for others


@pytest.fixture(autouse=True)
def called():
    """CuPy's linear algebra and Fourier transforms can be called."""
    with ExitStack() as stack:
        if FAKE:
            stack.enter_context(fake_cupy(driver()))
        for door in cupy_calls.DOORS.values():
            if why := door.problem():
                pytest.skip(f"{door.name} cannot be called: {why}")
        yield


def matrices(shape, dtype):
    rng = np.random.default_rng(5)
    found = rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
    return (found + 8 * np.eye(shape[-1])).astype(dtype) if np.dtype(dtype).kind == "c" else \
        (found.real + 8 * np.eye(shape[-1])).astype(dtype)  # fmt: skip


def adjoint(x):
    return np.conj(np.swapaxes(x, -1, -2))


def from_eigenvalues(a):
    values, vectors = np.linalg.eigh(a @ adjoint(a))
    return values, vectors * values[..., None, :] @ adjoint(vectors)


def from_singular_values(a):
    u, s, vh = np.linalg.svd(a[..., :-1, :], full_matrices=False)
    return s, u * s[..., None, :] @ vh


def from_factors(a):
    q, r = np.linalg.qr(a[..., :, :-1])
    return q @ r, adjoint(q) @ q


PROGRAMS = {
    "solve": lambda a: np.linalg.solve(a, adjoint(a)),
    "cholesky": lambda a: np.linalg.cholesky(a @ adjoint(a)),
    "determinants": lambda a: (np.linalg.det(a), *np.linalg.slogdet(-a)),
    "eigenvalues": from_eigenvalues,
    "singular values": from_singular_values,
    "complete vectors": lambda a: np.abs(np.linalg.det(np.linalg.svd(a[..., :2, :])[2])),
    "factors": from_factors,
    "complete factors": lambda a: np.abs(np.linalg.det(np.linalg.qr(a[..., :, :2], "complete")[0])),
    "transforms": lambda a: (np.fft.fftn(a), np.fft.ifft(a, axis=-2), np.fft.rfft(a.real), np.fft.irfft(a, 7)),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.complex128], ids=lambda t: np.dtype(t).name)
@pytest.mark.parametrize("name", PROGRAMS)
def test_values(name, dtype):
    step = zenith.jit(PROGRAMS[name])
    bound = 2e-4 if np.finfo(dtype).bits == 32 else 1e-10
    for shape in SHAPES:
        a = matrices(shape, dtype)
        found, wanted = step(upload(a)), PROGRAMS[name](a)
        pairs = zip(found, wanted, strict=True) if isinstance(wanted, tuple) else [(found, wanted)]
        for result, want in pairs:
            result = download(result)
            assert result.dtype == want.dtype
            np.testing.assert_allclose(result, want, bound, bound * np.abs(want).max())
    programs = step._specializer.specializations()
    assert not any(program.executable.refused for program in programs)


def test_a_matrix_without_a_result_gives_nan_and_leaves_its_stack_alone():
    a = np.array([np.eye(5), np.zeros((5, 5)), 2 * np.eye(5)])
    wanted = np.array([np.eye(5), np.full((5, 5), np.nan), np.eye(5) / 2])
    np.testing.assert_array_equal(download(zenith.jit(np.linalg.inv)(upload(a))), wanted)
    signs = zenith.jit(lambda a: np.linalg.slogdet(a)[0])(upload(a))
    np.testing.assert_array_equal(download(signs), [1, 0, 1])
    assert np.isnan(download(zenith.jit(np.linalg.cholesky)(upload(-a[0])))).all()


def test_kernels_around_are_in_order_on_any_stream(real):
    step = zenith.jit(lambda x: np.exp(np.fft.irfft(np.fft.rfft(np.sin(x)) * 2)) + 1)
    x = np.random.default_rng(0).standard_normal((64, 4096))
    given = upload(x)
    for stream in (real.cuda.Stream(non_blocking=True), real.cuda.Stream(), real.cuda.Stream.null):
        real.cuda.get_current_stream().synchronize()
        with stream:
            np.testing.assert_allclose(download(step(given)), np.exp(2 * np.sin(x)) + 1, 1e-10)


def test_gradients():
    def loss(x):
        return np.sum(np.abs(np.fft.rfft(x)) ** 2) + np.sum(np.linalg.svd(x.reshape(6, 6))[1])

    x = np.random.default_rng(1).standard_normal(36)
    np.testing.assert_allclose(download(zenith.jit(zenith.grad(loss))(upload(x))), zenith.grad(loss)(x), 1e-9)
