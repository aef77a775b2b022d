"""Padding against NumPy: every mode and element type, widths beyond the array, options, what is refused."""

import numpy as np
import pytest

import zenith.numpy as znp
from tests.numpy.comparison import DTYPES, check, run_traced, values
from zenith.errors import ArgumentError, ShapeError, UnsupportedError
from zenith.numpy.padding import _OPTIONS

MODES = [m for m in _OPTIONS if m != "empty"]
NUMBERS = [np.dtype(t) for t in ("int32", "int64", "float16", "float32", "float64")]
WIDTHS = (2, (1, 3), ((0, 2), (4, 1)), {-1: (5, 7)})


@pytest.mark.parametrize("mode", MODES)
def test_modes(mode):
    for width in WIDTHS:
        check(lambda xp, a, w=width: xp.pad(a, w, mode), values(np.dtype("f8"), (3, 4), 1))
    for dtype in NUMBERS:
        check(lambda xp, a: xp.pad(a, (2, 1), mode=mode), values(dtype, (5,), 2))


@pytest.mark.parametrize("mode", ["reflect", "symmetric", "wrap", "edge"])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_widths_beyond_the_array(mode, size):
    x = values(np.dtype("f8"), (size,), 3)
    check(lambda xp, a: xp.pad(a, (7, 11), mode=mode), x)
    if mode in ("reflect", "symmetric"):
        check(lambda xp, a: xp.pad(a, (7, 11), mode=mode, reflect_type="odd"), x)
        check(
            lambda xp, a: xp.pad(a, 2, mode=mode, reflect_type="odd"), np.arange(12, dtype=np.int32).reshape(3, 4) ** 2
        )


@pytest.mark.parametrize("mode", ["maximum", "mean", "median", "minimum"])
def test_statistics_of_some_elements(mode):
    x = values(np.dtype("i8"), (4, 5), 4)
    for length in (2, 99, ((1, 3), (2, 2))):
        check(lambda xp, a, n=length: xp.pad(a, ((1, 2), (2, 0)), mode=mode, stat_length=n), x)


def test_values_at_the_ends():
    x = values(np.dtype("f4"), (2, 3), 5)
    check(lambda xp, a: xp.pad(a, 2, constant_values=((1, 2), (3, 4))), x)
    check(lambda xp, a: xp.pad(a, (3, 1), mode="linear_ramp", end_values=((5, -4), (0, 2.5))), x)
    check(lambda xp, a: xp.pad(a, 4, mode="linear_ramp", end_values=(5, -4)), np.array([3, 8, 1], np.int32))
    check(lambda xp, a: xp.pad(a.astype(bool), 1, constant_values=True), x)
    assert znp.pad(x, 1, "empty").shape == (4, 5)


def test_a_width_may_be_a_size():
    check(lambda xp, a: xp.pad(a, ((0, a.shape[0]), (0, 0)), mode="symmetric"), values(np.dtype("f4"), (3, 2), 6))


def test_what_is_refused():
    x = np.arange(3.0)
    with pytest.raises(UnsupportedError, match="pad with a function"):
        run_traced(lambda a: np.pad(a, 1, mode=lambda *args: None), x)
    with pytest.raises(ArgumentError, match="pad: 'mirror' is no mode"):
        run_traced(lambda a: np.pad(a, 1, mode="mirror"), x)
    with pytest.raises(ArgumentError, match="mode 'edge' has no option end_values"):
        run_traced(lambda a: np.pad(a, 1, mode="edge", end_values=1), x)
    with pytest.raises(ArgumentError, match="is no reflect_type"):
        znp.pad(x, 1, mode="reflect", reflect_type="both")
    with pytest.raises(ShapeError, match="a width is negative"):
        znp.pad(x, -1)
    with pytest.raises(ShapeError, match="mode 'wrap' has nothing to repeat"):
        run_traced(lambda a: np.pad(a, 1, mode="wrap"), np.zeros(0))
    with pytest.raises(ShapeError, match="stat_length must be 1 or more"):
        znp.pad(x, 1, mode="mean", stat_length=0)
    assert np.array_equal(znp.pad(x.astype(DTYPES[0]), 1), [0, 0, 1, 1, 0])
