"""Arrays of other libraries on the CPU, by DLPack: what is asked of them, and who may write what."""

import ctypes
import gc
import weakref

import ml_dtypes
import numpy as np
import pytest
import torch

import zenith
import zenith.numpy as znp
from tests.backends.cuda.test_dlpack import capsule
from zenith.api.leaves import KEYS
from zenith.arrays.capsules import _Versioned, ask, on_host, read
from zenith.errors import ArgumentError, DTypeError

READ_ONLY, COPIED = 1, 2
CPU = (1, 0)


class Namespace:
    """An array namespace that imports what other libraries export, as its users would have it do."""

    @staticmethod
    def from_dlpack(array):
        return Foreign(np.from_dlpack(array))

    @staticmethod
    def asarray(array):
        return Foreign(array.copy())


class Foreign:
    """An array of a library that Zenith has never heard of, which notes what it is asked."""

    def __init__(self, values):
        self.values, self.asked = values, []
        self.shape, self.dtype, self.ndim = values.shape, values.dtype, values.ndim

    def __array_namespace__(self):
        return Namespace

    def __dlpack_device__(self):
        return CPU

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        self.asked.append({"stream": stream, "max_version": max_version, "dl_device": dl_device, "copy": copy})
        return self.values.__dlpack__(max_version=max_version, copy=copy)


class Older(Foreign):
    """The protocol of 2021: no versions, no copies."""

    def __dlpack__(self, *, stream=None):
        self.asked.append({"stream": stream})
        return self.values.__dlpack__()


class Immutable(Foreign):
    """A library whose arrays nobody may write, with a capsule that says so; it copies when it likes."""

    flags = READ_ONLY

    def __dlpack__(self, *, max_version, copy=None):
        given = self.values.copy() if self.flags & COPIED else self.values
        strides = [s // given.itemsize for s in given.strides]
        made = capsule(given.ctypes.data, given.shape, strides, given.dtype, given)
        _Versioned.from_address(_pointer(made)).flags = self.flags
        return made


class Generous(Immutable):
    flags = COPIED


def _pointer(made):
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    return get(made, b"dltensor_versioned")


@pytest.fixture(scope="module")
def double():
    return zenith.jit(lambda x: x * 2)


@pytest.mark.parametrize("kind", [Foreign, Older, Immutable, Generous])
def test_arguments_and_results_are_the_librarys(double, kind):
    for values in (np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4).T[:, ::2], np.ones((0, 3))):
        x = kind(values)
        found = double(x)
        assert type(found) is Foreign
        np.testing.assert_array_equal(found.values, values * 2)


def test_what_the_library_is_asked(double):
    x, y = Foreign(np.ones((1, 2))), Older(np.ones((1, 2)))
    double(x), double(y)
    assert x.asked == [{"stream": None, "max_version": (1, 0), "dl_device": None, "copy": None}]
    assert y.asked == [{"stream": None}]  # the call with a version fails before it begins


def test_one_program_serves_all_sizes(double):
    program = zenith.jit(lambda x: x + 1)
    for rows in (2, 5):
        assert program(Foreign(np.ones((rows, 3)))).values.shape == (rows, 3)
    assert program.cache_info().misses == 1


@pytest.mark.parametrize("backend", ["cpu", "lanes", "reference"])
def test_bfloat16_comes_and_goes(backend):
    """NumPy exports no bfloat16, PyTorch does: the library makes results of a NumPy array."""

    class Narrow(Foreign):
        def __dlpack__(self, *, max_version=None):
            return torch.tensor(self.values.astype(np.float32)).bfloat16().__dlpack__(max_version=max_version)

    values = np.arange(4).astype(ml_dtypes.bfloat16)
    found = zenith.jit(lambda x: x + 1, backend=backend)(Narrow(values))
    assert found.values.dtype == values.dtype and found.values.astype(float).tolist() == [1, 2, 3, 4]


def test_results_are_handed_over_without_a_copy(double, monkeypatch):
    """They begin at 64 bytes, as JAX demands of memory that it shall not copy."""
    given = []
    monkeypatch.setattr(Namespace, "from_dlpack", staticmethod(lambda a: given.append(a) or Foreign(np.from_dlpack(a))))
    found = double(Foreign(np.ones((5, 3))))
    assert given[0].ctypes.data == found.values.ctypes.data and given[0].ctypes.data % 64 == 0


def test_transforms_give_the_librarys_arrays():
    x = Foreign(np.arange(3.0))
    found = zenith.grad(lambda x: (x**2).sum())(x)
    assert type(found) is Foreign and found.values.tolist() == [0, 2, 4]


@pytest.mark.parametrize("kind", [Foreign, Older, Immutable])
def test_borrowed_memory_is_never_written(kind):
    step = zenith.jit(lambda x: x + 1, donate_argnums=0)
    x = kind(np.ones(3))
    assert step(x).values.tolist() == [2, 2, 2] and x.values.tolist() == [1, 1, 1]


def test_read_only_arrays_are_never_written():
    step, x = zenith.jit(lambda x: x + 1, donate_argnums=0), np.ones(3)
    x.flags.writeable = False
    assert step(x).tolist() == [2, 2, 2] and x.tolist() == [1, 1, 1]


@pytest.mark.parametrize(("kind", "writeable"), [(Foreign, True), (Older, False), (Immutable, False)])
def test_the_read_only_flag(kind, writeable):
    """A library that does not say is taken to forbid writing."""
    x = kind(np.arange(3.0))
    found = znp.from_dlpack(x)
    assert found.ctypes.data == x.values.ctypes.data and found.flags.writeable is writeable
    values = np.arange(3.0)
    values.flags.writeable = False
    assert znp.from_dlpack(Foreign(values)).flags.writeable is znp.from_dlpack(values).flags.writeable is False


def test_the_namespace_and_other_libraries_share_memory():
    t = torch.arange(6.0).reshape(2, 3).t()
    x = znp.from_dlpack(t)
    assert x.ctypes.data == t.data_ptr() and x.strides == (4, 12)
    assert torch.from_dlpack(zenith.jit(lambda x: x * 1)(np.ones(3))).tolist() == [1, 1, 1]
    assert znp.from_dlpack(t.bfloat16()).dtype == ml_dtypes.bfloat16


def test_copies():
    x = Foreign(np.arange(3.0))
    copied = znp.from_dlpack(x, copy=True)
    copied[0] = 5
    assert x.values.tolist() == [0, 1, 2] and znp.from_dlpack(Immutable(np.ones(2)), copy=True).flags.writeable
    assert np.shares_memory(znp.from_dlpack(x, copy=False), x.values)
    assert [asked["copy"] for asked in x.asked] == [None, False]
    with pytest.raises(ArgumentError, match="does not export it with copy=False"):
        znp.from_dlpack(Older(np.ones(2)), copy=False)
    with pytest.raises(ArgumentError, match="copied it, and copy=False was asked"):
        znp.from_dlpack(Generous(np.ones(2)), copy=False)
    assert znp.from_dlpack(Generous(np.ones(2)), copy=True).tolist() == [1, 1]


def test_what_cannot_be_borrowed_says_why():
    with pytest.raises(ArgumentError, match=r"the library of the Tensor does not export it: .*detach"):
        znp.from_dlpack(torch.ones(2, requires_grad=True))
    x = np.ones(3, np.float32)
    with pytest.raises(DTypeError, match="element type 2 of 32 bits x 2"):
        made = capsule(x.ctypes.data, (3,), None, x.dtype, x)
        _Versioned.from_address(_pointer(made)).tensor.dtype.lanes = 2
        read(made)


def test_the_capsule_lives_as_long_as_the_array():
    """The capsule's own destructor gives the memory back, not before."""
    values = np.arange(3.0)
    owner = weakref.ref(values)
    view = on_host(read(ask(Foreign(values))))[1:]
    del values
    gc.collect()
    assert owner() is not None and view.tolist() == [1, 2]
    del view
    gc.collect()
    assert owner() is None
    values = np.arange(3.0)
    (rest,) = zenith.jit(lambda x: (x[1:],))(Generous(values))  # the copy is the capsule's alone
    assert rest.values.tolist() == [1, 2]


def test_jax_arrays_in_both_directions(double):
    jax = pytest.importorskip("jax")
    x = jax.numpy.arange(6, dtype=np.float32).reshape(2, 3)
    found = double(x)
    assert isinstance(found, jax.Array) and found.dtype == np.float32
    np.testing.assert_array_equal(np.asarray(found), np.asarray(x) * 2)
    assert not znp.from_dlpack(x).flags.writeable  # JAX says nothing of writing
    narrow = double(x.astype(jax.numpy.bfloat16))
    assert narrow.dtype == jax.numpy.bfloat16 and narrow[1, 2] == 10


def test_a_saved_program_takes_them_in_a_process_that_has_seen_none(tmp_path, monkeypatch):
    program = zenith.jit(lambda x: x - 1)
    program(Foreign(np.ones((2, 2))))
    program.save(tmp_path / "program.zenith")
    monkeypatch.setattr("zenith.arrays.imported_adapter._known", {})
    monkeypatch.delitem(KEYS, Foreign)
    loaded = zenith.load(tmp_path / "program.zenith")
    assert loaded(Foreign(np.full((3, 3), 4.0))).values.tolist() == [[3.0] * 3] * 3
