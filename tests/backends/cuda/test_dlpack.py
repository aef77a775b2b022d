"""Arrays of any library on a GPU by DLPack, on a driver without a device: capsules made here, on its memory."""

import ctypes

import numpy as np
import pytest

import zenith
import zenith.numpy as znp
from tests.backends.cuda.arrays import on_device, on_host
from zenith.arrays import cupy_adapter
from zenith.arrays.capsules import _Device, _Tensor, _Type, _Versioned
from zenith.arrays.dlpack import borrowed
from zenith.errors import ArgumentError, DeviceError, TraceError, UnsupportedError

_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype, _new_capsule.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
CODES = {"i": 0, "u": 1, "f": 2, "b": 6}
RETAINED: list = []


def capsule(address, shape, strides, dtype, owner=None, versioned=True, major=1):
    """A capsule of DLPack for memory of ``owner``, which stays as long as the tests."""
    sizes = (ctypes.c_int64 * len(shape))(*shape)
    steps = None if strides is None else (ctypes.c_int64 * len(shape))(*strides)
    tensor = _Tensor(
        address, _Device(2, 0), len(shape), _Type(CODES[dtype.kind], 8 * dtype.itemsize, 1), sizes, steps, 0
    )
    whole = _Versioned(major, 0, None, None, 0, tensor) if versioned else tensor
    name = b"dltensor_versioned" if versioned else b"dltensor"
    made = _new_capsule(ctypes.addressof(whole), name, None)
    RETAINED.append((sizes, steps, tensor, whole, owner))
    return made


class Namespace:
    """An array namespace: how the library imports arrays of others."""

    @staticmethod
    def from_dlpack(array):
        return BorrowedMemory(on_host(array))

    @staticmethod
    def reshape(array, shape):
        return BorrowedMemory(np.ascontiguousarray(array.values.reshape(shape)))


class BorrowedMemory:
    """An array of a library that Zenith has never heard of."""

    versioned = True

    def __init__(self, values):
        self.values, self.streams = values, []
        self.shape, self.dtype, self.ndim = values.shape, values.dtype, values.ndim
        self.owner = on_device(values)

    def __array_namespace__(self):
        return Namespace

    def __dlpack_device__(self):
        return (2, 0)

    def __dlpack__(self, *, stream=None, max_version=None):
        self.streams.append((stream, max_version))
        strides = [s // self.dtype.itemsize for s in self.values.strides]
        return capsule(self.owner.data.ptr, self.shape, strides, self.dtype, self.owner)


class Older(BorrowedMemory):
    """The protocol without versions."""

    def __dlpack__(self, *, stream=None):
        self.streams.append((stream, None))
        return capsule(self.owner.data.ptr, self.shape, None, self.dtype, self.owner, versioned=False)


@pytest.mark.parametrize("kind", [BorrowedMemory, Older])
def test_in_and_out_without_a_copy(gpu, kind):
    x = kind(np.arange(6, dtype=np.float32).reshape(2, 3))
    gpu.current_stream = 9
    step = zenith.jit(lambda x: np.exp(x))
    found = step(x)
    assert type(found) is BorrowedMemory
    np.testing.assert_allclose(found.values, np.exp(x.values), rtol=1e-6)
    assert x.streams == [(9, (1, 0) if kind is BorrowedMemory else None)]
    assert x.owner.data.ptr in gpu.launches[0].buffers
    step(kind(np.ones((4, 3), np.float32)))
    assert step.cache_info().misses == 1


@pytest.mark.parametrize(("current", "written"), [(0, 1), (2, 2), (77, 77)])
def test_the_stream_is_the_one_of_the_results_library(gpu, current, written):
    """The legacy default stream, 0 in CUDA, is 1 in DLPack, and 2 the one of each thread in both."""
    gpu.current_stream = current
    x, y = BorrowedMemory(np.ones(3, np.float32)), Older(np.ones(3, np.float32))
    zenith.jit(lambda x, y: x + y)(x, y)
    assert x.streams == [(written, (1, 0))] and y.streams == [(written, None)]


def test_borrowed_memory_is_never_written(gpu):
    """Nobody knows who else has the memory, and whether it is read-only: a donated array is left alone."""
    step = zenith.jit(lambda x: x + 1, donate_argnums=0)
    x = BorrowedMemory(np.ones(3, np.float32))
    found = step(x)
    assert found.values.tolist() == [2, 2, 2] and on_host(x.owner).tolist() == [1, 1, 1]


@pytest.mark.parametrize("kind", [BorrowedMemory, Older])
def test_errors_inside_a_library_are_not_taken_for_an_older_protocol(gpu, kind):
    class Failing(kind):
        fails = False

        def __dlpack__(self, **given):
            found = super().__dlpack__(**given)
            if Failing.fails:
                raise TypeError("from inside")
            return found

    step, x = zenith.jit(lambda x: x + 1), Failing(np.ones(3, np.float32))
    step(x)
    Failing.fails = True
    with pytest.raises(TypeError, match="from inside"):
        step(x)
    assert len(x.streams) == 2 and x.streams[0] == x.streams[1]


def test_arrays_that_are_not_dense_are_copied_by_their_library(gpu):
    values = np.arange(6, dtype=np.float32).reshape(2, 3).T
    found = zenith.jit(lambda x: x * 2)(BorrowedMemory(values))
    np.testing.assert_array_equal(found.values, values * 2)


def test_arrays_are_retained_until_they_are_read(gpu):
    step = zenith.jit(lambda x: x + 1)
    step(BorrowedMemory(np.ones(3, np.float32)))
    (lease,) = step._specializer.latest.executable._leases
    gpu.delayed = []
    for pending in (1, 2, 3):  # the driver without a device takes no event for done while work waits
        step(BorrowedMemory(np.ones(3, np.float32)))
        assert len(lease.events) == pending
    gpu.finish()
    gpu.delayed = None
    step(BorrowedMemory(np.ones(3, np.float32)))
    assert len(lease.events) == len(gpu.events) == 1


def test_any_later_call_releases_arrays_that_were_read(gpu):
    step = zenith.jit(lambda x, y: (x, y)[0] + 1)
    step(BorrowedMemory(np.ones(3, np.float32)), on_device(np.ones(3, np.float32)))
    executable = step._specializer.latest.executable
    (lease,) = executable._leases
    assert len(lease.events) == len(gpu.events) == 1
    adapter = cupy_adapter(0)
    given = [on_device(np.ones(3, np.float32))] * len(executable.plan.inputs)
    executable.run(given, [adapter] * len(given), dict.fromkeys(executable.plan.symbols, 3), adapter)
    assert not lease.events and not gpu.events


def test_arrays_are_retained_when_a_step_raises_after_kernels_were_launched(gpu):
    def fail(x):
        raise ValueError("no")

    shape = zenith.ShapeDtypeStruct((3,), np.float32)
    step = zenith.jit(lambda x: zenith.pure_callback(fail, shape, np.exp(x)) + x)
    with pytest.raises(Exception, match="no"):
        step(BorrowedMemory(np.ones(3, np.float32)))
    (lease,) = step._specializer.latest.executable._leases
    ((_, (arrays, _)),) = lease.events
    assert arrays[0].address in gpu.launches[0].buffers


def test_mixed_libraries_wait_for_each_other(gpu):
    """The capsule says nothing of CuPy's own array: both are on CuPy's stream here, so that nobody waits."""
    add = zenith.jit(lambda x, y: x + y)
    found = add(on_device(np.ones(3, np.float32)), BorrowedMemory(np.ones(3, np.float32)))
    assert on_host(found).tolist() == [2.0] * 3 and not gpu.waits


def test_numpy_arrays_are_borrowed_by_both_protocols():
    x = np.arange(6, dtype=np.int64).reshape(2, 3)
    for found in (borrowed(x.__dlpack__(max_version=(1, 0))), borrowed(x.__dlpack__())):
        assert (found.address, found.shape, found.dtype) == (x.ctypes.data, (2, 3), np.int64)
    assert borrowed(x.T.__dlpack__()) is None
    assert borrowed(x[:, :1].T.__dlpack__()) is None
    assert borrowed(np.empty((0, 3)).__dlpack__()).address == 0


def test_later_versions_are_refused():
    x = np.ones(3)
    with pytest.raises(UnsupportedError, match="version 2 of DLPack"):
        borrowed(capsule(x.ctypes.data, (3,), None, x.dtype, major=2))


def test_arrays_on_other_devices_are_converted_by_hand(gpu):
    class OnRocm(BorrowedMemory):
        def __dlpack_device__(self):
            return (10, 0)

    with pytest.raises(TraceError, match=r"numpy\.asarray"):
        zenith.jit(lambda x: x + 1)(OnRocm(np.ones(3)))


def test_the_namespace_copies_nothing_from_a_gpu_unless_asked(gpu):
    """``device="cpu"`` goes to the library, which may not know how."""
    x = BorrowedMemory(np.ones(3, np.float32))
    with pytest.raises(DeviceError, match='device="cpu"'):
        znp.from_dlpack(x)
    with pytest.raises(ArgumentError, match=r"does not export it with dl_device=\(1, 0\)"):
        znp.from_dlpack(x, device="cpu")

    class Copying(BorrowedMemory):
        def __dlpack__(self, **given):
            self.given = given
            return self.values.__dlpack__(max_version=given["max_version"])

    y = Copying(np.arange(3.0))
    assert znp.from_dlpack(y, device="cpu").tolist() == [0, 1, 2]
    assert y.given == {"max_version": (1, 0), "dl_device": (1, 0)}
