"""Sliding windows against NumPy, their derivative, and that no window is ever in memory."""

import numpy as np
import pytest

import zenith
import zenith.numpy as znp
from tests.numpy.comparison import DTYPES, check, run_traced, values
from zenith.errors import AxisError, ShapeError, TraceError, UnsupportedError

F8 = np.dtype("f8")
windows = np.lib.stride_tricks.sliding_window_view


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_windows(dtype):
    x = values(dtype, (5, 6))
    check(lambda xp, a: xp.lib.stride_tricks.sliding_window_view(a, (2, 3)), x)


@pytest.mark.parametrize(
    ("shape", "axis"), [(3, 0), (2, -1), ((2, 3), (1, 0)), ((2, 2), (0, 0)), ((2, 1, 2), (1, 0, 1)), ((), ())], ids=str
)
def test_axes(shape, axis):
    check(lambda xp, a: xp.lib.stride_tricks.sliding_window_view(a, shape, axis=axis), values(F8, (4, 5, 2)))
    assert znp.sliding_window_view is znp.lib.stride_tricks.sliding_window_view


def test_a_window_of_all_elements():
    x = values(F8, (4,))
    check(lambda xp, a: xp.lib.stride_tricks.sliding_window_view(a, a.shape[0]), x)


def test_a_running_mean_has_a_derivative():
    x = values(F8, (7,))
    mean = lambda a: np.mean(windows(a, 3), axis=-1)  # noqa: E731
    found = zenith.grad(lambda a: np.sum(mean(a) * np.arange(5.0)))(x)
    np.testing.assert_allclose(found, np.convolve(np.arange(5.0), np.ones(3) / 3))
    np.testing.assert_allclose(zenith.jit(mean)(x), mean(x))


def test_a_reduction_of_windows_is_one_kernel():
    lowered = zenith.jit(lambda a: np.max(windows(a, 5), axis=-1)).lower(values(F8, (100,)))
    assert len(lowered.cost_analysis().kernels) == 1


def test_what_has_no_windows_is_refused():
    x = values(F8, (3, 4))
    for shape, axis, text in ((5, 0, "a window of 5 in an axis of"), (0, 0, "has an element"), (2, None, "1 sizes of")):
        with pytest.raises(ShapeError, match=text):
            run_traced(lambda a, s=shape, i=axis: windows(a, s, i), x)
        with pytest.raises(ShapeError, match=text):
            znp.sliding_window_view(x, shape, axis)
    with pytest.raises(AxisError, match="axis 2 is out of bounds"):
        run_traced(lambda a: windows(a, 1, 2), x)
    with pytest.raises(UnsupportedError, match="windows to read, and none to write"):
        run_traced(lambda a: windows(a, 1, 0, writeable=True), x)
    with pytest.raises(TraceError, match="read-only"):
        run_traced(lambda a: windows(a * 2, 1, 0).fill(0), x)
