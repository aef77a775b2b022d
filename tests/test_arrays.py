"""Adapters: what they say about arrays is true, and what Zenith cannot use is refused with a fix."""

import ml_dtypes
import numpy as np
import pytest
import torch

import zenith
from zenith.arrays import NUMPY, adapter_for, torch_adapter
from zenith.errors import DeviceError, DTypeError, UnsupportedError
from zenith.ir.types import DTYPES, float32

BASE = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
PACKED = np.zeros(3, np.dtype([("a", "i1"), ("b", "f4")]))
VIEWS = {
    "dense": BASE,
    "transposed": BASE.T,
    "reversed": BASE[::-1, :, ::-2],
    "repeated": np.broadcast_to(BASE[0, 0], (5, 4)),
    "empty": BASE[:, :0],
    "scalar": np.array(3.0, np.float32),
    "unit axes": BASE[:1, :, :1],
}


def frozen(array):
    copy = array.copy()
    copy.setflags(write=False)
    return copy


@pytest.mark.parametrize("name", VIEWS)
def test_numpy_address_and_shape(name):
    x = VIEWS[name]
    adapter = adapter_for(x)
    assert adapter is NUMPY
    assert adapter.address(x) == x.ctypes.data
    assert adapter.shape(x) == x.shape
    expected = (x.ctypes.data if x.size else 0) if x.flags.c_contiguous else None
    assert adapter.dense_address(x) == expected


def test_numpy_address_of_what_cannot_be_written():
    assert NUMPY.address(frozen(BASE)) != 0


@pytest.mark.parametrize("name", [n for n in VIEWS if n != "reversed"])
def test_torch_sees_the_same_memory(name):
    x = torch.from_numpy(VIEWS[name].copy() if name == "repeated" else VIEWS[name])
    adapter = adapter_for(x)
    assert adapter is torch_adapter()
    assert adapter.address(x) == x.data_ptr()
    assert adapter.shape(x) == tuple(x.shape)
    assert adapter.dense_address(x) == (x.data_ptr() if x.is_contiguous() else None)
    np.testing.assert_array_equal(adapter.numpy(x), x.numpy())


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("adapter", [NUMPY, torch_adapter()], ids=["numpy", "torch"])
def test_every_element_type_goes_round(adapter, dtype):
    for made in (adapter.empty((2, 3), dtype), adapter.maker((2, 3), dtype)()):
        assert adapter.dtype(made) == dtype and adapter.shape(made) == (2, 3)
        assert adapter.dense_address(made) == adapter.address(made)
    adapter.check(made, "x")
    view = adapter.numpy(made)
    assert view.dtype == dtype.numpy
    view[...] = 1
    restored = adapter.from_numpy(view)
    assert adapter.address(restored) == adapter.address(made)
    assert np.real(adapter.numpy(restored)).astype(np.float64).sum() == 6


@pytest.mark.parametrize(
    ("array", "error", "text"),
    [
        (
            np.zeros(2, "M8[s]"),
            DTypeError,
            r"x: Zenith has no element type for datetime64.*\n  fix: pass an array of numbers: bool, int8",
        ),
        (np.zeros(2, ">f4"), DTypeError, r'bytes are swapped: pass x.astype\(x.dtype.newbyteorder\("="\)\)'),
        (np.zeros(2, np.clongdouble), DTypeError, r"x.astype\(numpy.complex128\)"),
        (np.zeros(2, np.longdouble), DTypeError, r"x.astype\(numpy.float64\)"),
        (np.array([1, None]), DTypeError, r"x.astype\(numpy.float64\)"),
        (np.array(["a"]), DTypeError, "pass an array of numbers"),
        (PACKED, DTypeError, "pass an array of numbers"),
        (np.ma.masked_array([1.0]), UnsupportedError, r"MaskedArray.*\n  fix: pass x.filled\(value\)"),
        (np.zeros(2, ml_dtypes.float8_e4m3fn), DTypeError, "float8_e4m3fn"),
    ],
)
def test_numpy_arrays_that_are_refused(array, error, text):
    with pytest.raises(error, match=text):
        NUMPY.check(array, "x")


def test_a_field_of_a_packed_record_is_not_dense():
    assert NUMPY.dense_address(PACKED["b"]) is None
    np.testing.assert_array_equal(zenith.jit(lambda x: x + 1)(PACKED["b"]), PACKED["b"] + 1)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (2, 3, 4)])
def test_torch_makes_dense_tensors_of_any_shape(shape):
    make = torch_adapter().maker(shape, DTYPES[0])
    made = make()
    assert made.shape == shape and made.is_contiguous() and made.stride() == torch.empty(shape).stride()
    assert make() is not made and not make().is_inference()
    with torch.inference_mode():
        assert make().is_inference()


class Subclass(torch.Tensor):
    pass


@pytest.mark.parametrize(
    ("tensor", "error", "text"),
    [
        (torch.zeros(2, requires_grad=True), UnsupportedError, r"x requires a gradient(.|\n)*torch.no_grad\(\)"),
        (torch.zeros(2, device="meta"), DeviceError, r"on device meta(.|\n)*x.cpu\(\)"),
        (torch.zeros(2).to_sparse(), UnsupportedError, r"x.to_dense\(\)"),
        (torch.zeros(2, dtype=torch.float8_e5m2), DTypeError, r"torch.float8_e5m2(.|\n)*x.to\(torch.float32\)"),
        (torch.zeros(2, dtype=torch.complex64).conj().imag, UnsupportedError, "resolve_neg"),
        (torch.zeros(2, dtype=torch.complex64).conj(), UnsupportedError, "resolve_conj"),
        (torch.zeros(2).as_subclass(Subclass), UnsupportedError, "Subclass"),
    ],
)
def test_tensors_that_are_refused(tensor, error, text):
    with pytest.raises(error, match=text):
        torch_adapter().check(tensor, "x")


def test_gradients_may_be_lost_where_the_user_says_so():
    x = torch.zeros(2, requires_grad=True)
    for context in (torch.no_grad(), torch.inference_mode()):
        with context:
            torch_adapter().check(x, "x")
    torch_adapter().check(torch.nn.Parameter(torch.zeros(2), requires_grad=False), "x")


def test_results_are_on_the_cpu_whatever_the_default_device_is():
    with torch.device("meta"):
        assert torch_adapter().empty((2,), float32).is_cpu


def test_other_objects_have_no_adapter():
    assert adapter_for([1.0]) is None and adapter_for(1.0) is None and adapter_for("x") is None


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_every_view_computes(backend):
    double = zenith.jit(lambda x: x + x, backend=backend)
    for x in [*VIEWS.values(), frozen(BASE), np.asfortranarray(BASE)]:
        np.testing.assert_array_equal(double(x), x + x, strict=True)
