"""Arrays with labels or masks, which a program would lose: refused, with what to write; and that it works."""

import numpy as np
import pytest

import zenith
import zenith.numpy as znp
from zenith.errors import UnsupportedError, ValueTypeError


def double(x):
    return 2 * np.tanh(x)


CALLS = [zenith.jit(double, backend="reference"), zenith.vmap(double), zenith.grad(lambda x: double(x).sum())]


@pytest.fixture
def pandas():
    return pytest.importorskip("pandas")


@pytest.fixture
def xarray():
    return pytest.importorskip("xarray")


def refused(call, value, what):
    with pytest.raises(ValueTypeError, match=rf"x is a {what}, whose labels a program would lose") as caught:
        call(value)
    assert caught.value.where.file == __file__
    return caught.value.fix


@pytest.mark.parametrize("call", CALLS)
def test_pandas(pandas, call):
    x = pandas.Series([1.0, 2.0], index=["a", "b"])
    assert "pass x.to_numpy(), and label the result: pandas.Series(result, x.index)" in refused(
        call, x, "pandas.Series"
    )
    result = call(x.to_numpy())
    assert list(pandas.Series(result, x.index).index) == ["a", "b"]
    x = pandas.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]})
    assert "pandas.DataFrame(result, x.index, x.columns)" in refused(call, x, "pandas.DataFrame")
    assert pandas.DataFrame(call(x.to_numpy()), x.index, x.columns).b[0] == call(x.to_numpy())[0, 1]
    assert "to_numpy" in refused(call, x.columns, "pandas.Index")


def test_pandas_calls_compiled_functions(pandas):
    frame = pandas.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]})
    pandas.testing.assert_frame_equal(frame.apply(CALLS[0], raw=True), double(frame))


def test_what_is_no_array_of_numbers_is_refused(pandas):
    """Of those that functions of arrays take, as NumPy's do: ``zenith.numpy`` and captured ones."""
    words = pandas.DataFrame({"a": [1, 2], "b": ["x", "y"]})
    assert znp.tanh(pandas.Series([0.0])).tolist() == [0]
    for call in (znp.tanh, zenith.jit(lambda x: x + words)):
        with pytest.raises(TypeError, match="no element type for object"):
            call(words) if call is znp.tanh else call(np.ones(2))


@pytest.mark.parametrize("call", CALLS)
def test_xarray(xarray, call):
    x = xarray.DataArray(np.ones((2, 3)), dims=("time", "place"))
    assert "xarray.apply_ufunc(f, x)" in refused(call, x, "xarray.DataArray")
    found = xarray.apply_ufunc(call, x)
    assert found.dims == ("time", "place") and np.array_equal(found.values, call(x.to_numpy()))


@pytest.mark.parametrize("mask", [[False, True], False])
@pytest.mark.parametrize("call", [*CALLS, znp.tanh])
def test_masks(call, mask):
    """Also without a masked element: what NumPy computes of it, such as logarithms, masks elements."""
    x = np.ma.array([1.0, 2.0], mask=mask)
    with pytest.raises(UnsupportedError, match="MaskedArray") as caught:
        call(x)
    assert "x.filled(value)" in caught.value.fix
    assert call(x.filled(0)).shape == (2,)


@pytest.mark.parametrize("call", CALLS)
def test_other_arrays(call):
    class Own:
        def __array__(self, dtype=None, copy=None):
            return np.ones(2)

    with pytest.raises(ValueTypeError, match="x is a Own, an array of a library that Zenith does not know") as caught:
        call(Own())
    assert caught.value.fix == "pass numpy.asarray(x)"
