"""Derivatives of running products, extremes, sums of exponentials where they are delicate: zeros, ties, infinities."""

import numpy as np

import zenith
import zenith.numpy as znp

W = np.array([0.5, -1.0, 2.0, 3.0, 0.25])


def test_zeros_do_no_harm_to_running_products():
    for x in ([2.0, 0.0, 3.0, 4.0, -1.0], [0.0, 0.0, 1.0, 2.0, 3.0], [1e-200, 1e-200, 1e200, 1.0, 2.0]):
        x = np.array(x)
        expected = [sum(W[i] * np.prod(np.delete(x[: i + 1], j)) for i in range(j, 5)) for j in range(5)]
        np.testing.assert_allclose(zenith.grad(lambda x: np.sum(W * np.cumprod(x)))(x), expected, rtol=1e-12)
        _, forward = zenith.jvp(np.cumprod, (x,), (W,))
        columns = [[np.prod(np.delete(x[: i + 1], j)) if j <= i else 0.0 for j in range(5)] for i in range(5)]
        np.testing.assert_allclose(forward, columns @ W, rtol=1e-12)


def test_equal_elements_give_the_derivative_to_the_last():
    x = np.array([1.0, 3.0, 3.0, 2.0, 3.0])
    slope = zenith.grad(lambda x: np.sum(W * np.maximum.accumulate(x)))(x)
    np.testing.assert_array_equal(slope, [W[0], W[1], W[2] + W[3], 0.0, W[4]])
    slope = zenith.grad(lambda x: np.sum(W * np.minimum.accumulate(x)))(-x)
    np.testing.assert_array_equal(slope, [W[0], W[1], W[2] + W[3], 0.0, W[4]])


def test_exponentials_of_any_size():
    x = np.array([-np.inf, 700.0, -700.0, 1400.0, 1400.0])
    shares = np.array([[1, 0, 0, 0, 0], [0, 1, 0, 0, 0], [0, 1, 0, 0, 0], [0, 0, 0, 1, 0], [0, 0, 0, 0.5, 0.5]])
    slope = zenith.grad(lambda x: np.sum(W * np.logaddexp.accumulate(x)))(x)
    np.testing.assert_allclose(slope, W @ shares, rtol=1e-12)


def test_second_derivatives_and_batches():
    x = np.array([[0.5, 2.0, -1.5], [1.0, 0.0, 3.0]])
    single = [zenith.hessian(lambda r: np.sum(np.cumprod(r)))(r) for r in x]
    together = zenith.vmap(zenith.hessian(lambda r: znp.sum(znp.cumprod(r))))(x)
    np.testing.assert_allclose(together, single, rtol=1e-12)
    np.testing.assert_allclose(single[1], [[0, 4, 0], [4, 0, 1], [0, 1, 0]], rtol=1e-12)
