"""Making and choosing arrays against NumPy, with traced sizes, and element types."""

import inspect
from collections import UserList

import numpy as np
import pytest

import zenith
import zenith.numpy as znp
from tests.numpy.comparison import DTYPES, assert_same, check, run_traced, traced, values
from zenith.errors import ArgumentError, DeviceError, DTypeError, ShapeError, TraceError
from zenith.ir.interpret import interpret
from zenith.trace import dispatch

F4 = np.dtype("f4")

MAKERS = {
    "zeros": lambda xp: (xp.zeros(3), xp.zeros((2, 0), np.int32), xp.zeros((), bool)),
    "ones": lambda xp: (xp.ones((2, 3)), xp.ones(2, dtype="float32")),
    "full": lambda xp: (xp.full((2,), 7), xp.full((2, 1), 2.5, np.float32), xp.full(2, True), xp.full(3, [1, 2, 3])),
    "arange": lambda xp: (
        xp.arange(5),
        xp.arange(2, 9, 3),
        xp.arange(5, 0, -2),
        xp.arange(3.0),
        xp.arange(0, 1, 0.25),
        xp.arange(4, dtype=np.float32),
        xp.arange(3, 1),
        xp.arange(1, 2, 0.5, np.float32),
    ),
    "linspace": lambda xp: (
        xp.linspace(0, 1, 5),
        xp.linspace(2, -3, 7, endpoint=False),
        xp.linspace(1, 1, 1),
        xp.linspace(0, 1, 0),
        xp.linspace(0, 10, 4, dtype=np.float32),
        xp.linspace(0, 9, 4, dtype=np.int32),
    ),
    "eye": lambda xp: (xp.eye(3), xp.eye(2, 4, 1, dtype=np.int32), xp.eye(3, k=-1, dtype=bool), xp.identity(2)),
    "tri": lambda xp: (xp.tri(3), xp.tri(2, 4, 1, dtype=np.int32), xp.tri(3, k=-1)),
    "meshgrid": lambda xp: [
        *xp.meshgrid(xp.arange(3), xp.arange(2.0)),
        *xp.meshgrid(xp.arange(3), xp.arange(2), indexing="ij"),
    ],
    "array": lambda xp: (xp.array([1, 2.5]), xp.asarray([[1], [2]]), xp.array(3, np.float32), xp.array([1], ndmin=3)),
}


@pytest.mark.parametrize("name", MAKERS)
def test_makers(name):
    expected = MAKERS[name](np)
    for actual, e in zip(MAKERS[name](znp), expected, strict=True):
        assert_same(actual, e)
        assert actual.flags.writeable
    for actual, e in zip(run_traced(lambda a: list(MAKERS[name](znp)), np.zeros(1)), expected, strict=True):
        assert_same(actual, e)


LIKE = {
    "zeros_like": lambda xp, a: (xp.zeros_like(a), xp.ones_like(a, dtype=np.int32), xp.empty_like(a) * 0),
    "full_like": lambda xp, a: (xp.full_like(a, 3), xp.full_like(a, 2, shape=(2, 2))),
    "array of rows": lambda xp, a: xp.stack([a, a]) + xp.copy(a),
    "where": lambda xp, a: (xp.where(a > 0, a, 0), xp.where(a, 1, 2), xp.where(a > 0, a[:1], -1.5)),
    "select": lambda xp, a: xp.select([a > 1, a > 0], [a, a * 2], default=3),
    "clip": lambda xp, a: (
        xp.clip(a, 0, 1),
        a.clip(-1, None),
        xp.clip(a, None, 0.5),
        xp.clip(a, a * 0, a * 0 + 2),
        xp.clip(a, min=1),
    ),
    "round": lambda xp, a: (
        (xp.round(a), a.round()) if a.dtype.kind == "b" else (xp.round(a), xp.round(a, 1), a.round(2), xp.round(a, -1))
    ),
    "nan_to_num": lambda xp, a: xp.nan_to_num(a),
    "isclose": lambda xp, a: (xp.isclose(a, a * 1.000001), xp.isclose(a, a + 1, equal_nan=True)),
    "diff": lambda xp, a: (xp.diff(a), xp.diff(a, axis=0), xp.diff(a, 2)),
    "diff between ends": lambda xp, a: (
        xp.diff(a, prepend=1),
        xp.diff(a, axis=0, append=a[:1]),
        xp.diff(a, 2, 1, a, 0),
    ),
    "equivalence": lambda xp, a: (xp.array_equiv(a, a[:1]), xp.array_equiv(a * 0, 0), xp.array_equiv(a, a[:, :2])),
    "triangles": lambda xp, a: (xp.tril(a), xp.triu(a), xp.tril(a, 1), xp.triu(a, -1)),
    "sinc": lambda xp, a: xp.sinc(a),
}


@pytest.mark.parametrize("dtype", DTYPES[1:], ids=str)
@pytest.mark.parametrize("name", LIKE)
def test_functions_of_one_array(name, dtype):
    for shape in ((2, 3), (0, 3), (1, 1)):
        check(LIKE[name], values(dtype, shape, 7))


def test_special_values():
    x = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1.5])
    for name in ("nan_to_num", "isclose", "clip", "round"):
        check(LIKE[name], x)
    check(lambda xp, a: xp.sinc(a[:3]), x)
    check(lambda xp, a: xp.nan_to_num(a, nan=3.0, posinf=1.0, neginf=-1.0), x)


def test_answers_as_arrays():
    x = values(F4, (2, 3))
    assert run_traced(lambda a: [np.allclose(a, a), np.array_equal(a, a + 1), np.array_equal(a, a)], x) == [
        True,
        False,
        True,
    ]
    assert run_traced(lambda a: np.array_equal(a, np.zeros(2)), x) == [False]


def test_traced_sizes_make_shapes():
    def function(a):
        n, d = a.shape
        arrays = [znp.zeros((n, d)), znp.ones(n, np.float32), znp.full((n, 2), n), znp.arange(n), znp.arange(1, n, 2)]
        return [
            *arrays,
            znp.arange(n, 0, -1),
            znp.linspace(0, 1, n),
            znp.eye(n),
            znp.tri(n, d),
            znp.arange(n, dtype=np.float32),
            znp.arange(0.5, n),
            znp.arange(n, -0.25, -0.75),
        ]

    graph = traced(function, values(F4, (4, 3))).graph
    for n, d in ((4, 3), (7, 2), (2, 2)):
        expected = [np.zeros((n, d)), np.ones(n, np.float32), np.full((n, 2), n), np.arange(n), np.arange(1, n, 2)]
        expected += [np.arange(n, 0, -1), np.linspace(0, 1, n), np.eye(n), np.tri(n, d), np.arange(n, dtype=np.float32)]
        expected += [np.arange(0.5, n), np.arange(n, -0.25, -0.75)]
        for actual, e in zip(interpret(graph, np.zeros((n, d), np.float32)), expected, strict=True):
            assert_same(actual, e)


def test_steps_with_traced_sizes_have_short_binary_forms():
    with pytest.raises(TraceError, match="long binary forms"):
        traced(lambda a: znp.arange(0, a.shape[0], 0.1), values(F4, (4,)))


def test_like_makes_numpys_own_functions_traced():
    found = traced(lambda a: [np.ones((a.shape[0], 2), like=a), np.arange(a.shape[0], like=a)], values(F4, (4,)))
    assert found.specialized == ()
    assert [str(v.type) for v in found.graph.outputs] == ["f64[s0_0, 2]", "i64[s0_0]"]


def test_nested_lists_of_traced_values():
    x = values(F4, (3,))
    found = run_traced(lambda a: znp.array([[a[0], 1.0], [2, a.shape[0]]]), x)[0]
    assert_same(found, np.array([[x[0], 1], [2, 3]], np.float32))


def test_lists_of_traced_values_are_operands():
    x = values(F4, (2,))
    assert_same(run_traced(lambda a: a + [a[1], 2.5], x)[0], x + np.array([x[1], 2.5], np.float32))  # noqa: RUF005


def test_other_sequences_of_traced_values_say_what_to_use():
    with pytest.raises(TraceError, match="converting it to a NumPy array needs the values"):
        run_traced(lambda a: znp.add(UserList([a, a]), 1), values(F4, (2,)))


def test_foreign_byte_order_is_read():
    x = np.arange(3, dtype=">f4")
    assert_same(znp.add(x, 1), np.arange(1, 4, dtype=np.float32))


def test_types_of_traced_arrays():
    def function(a):
        assert np.result_type(a, 1.0) == np.float32
        assert znp.result_type(a, np.float64, 1) == np.float64
        assert np.can_cast(a, np.float64)
        assert not np.iscomplexobj(a)
        assert np.isrealobj(a)
        assert np.ndim(a) == 2
        assert a.dtype == np.float32
        assert (a.itemsize, a.nbytes, np.size(a), np.shape(a)) == (4, 24, 6, (2, 3))
        return np.real(a)

    run_traced(function, values(F4, (2, 3)), symbolic=False)


def test_rounding_of_integers_to_tens():
    for dtype in (np.int8, np.int32, np.int64, np.uint16):
        x = np.array([4, 5, 14, 15, 25, 96, 126], dtype)
        check(lambda xp, a: (xp.round(a, -1), xp.round(a, -2), a.round(-1), xp.round(a, 1)), x)


def test_triangles_of_a_row():
    check(lambda xp, a: (xp.triu(a), xp.tril(a), xp.tril(a, 1), xp.triu(a, -1)), np.arange(1.0, 4))
    with pytest.raises(ShapeError, match="a triangle needs an array with axes"):
        run_traced(lambda a: np.tril(a[0]), np.zeros(3))


def test_what_cannot_be_made():
    with pytest.raises(ShapeError, match="a shape has a negative size"):
        znp.zeros((2, -1))
    with pytest.raises(DTypeError, match="Zenith has no element type for float128"):
        znp.zeros(3, np.longdouble)
    with pytest.raises(DTypeError, match="not an array: list"):
        znp.add([1, [2]], 1)
    with pytest.raises(TraceError, match="the step of arange cannot be zero"):
        znp.arange(0, 3, 0)
    with pytest.raises(TraceError, match="the step of arange cannot be zero"):
        run_traced(lambda a: znp.arange(0, a.shape[0], 0), np.zeros(3))
    for make in (
        lambda d: znp.zeros(3, device=d),
        lambda d: znp.arange(3, device=d),
        lambda d: znp.asarray(3, device=d),
    ):
        with pytest.raises(DeviceError, match=r"there is no device 'moon' in zenith\.numpy"):
            make("moon")
    with pytest.raises(TraceError, match="a bound of arange must be known before the program runs"):
        run_traced(lambda a: znp.arange(a.sum()), np.zeros(3))
    with pytest.raises(TraceError, match="a size must be known before the program runs"):
        run_traced(lambda a: znp.zeros(a.sum()), np.zeros(3))


ENDS = {"linspace": (-1.0, 2.0), "logspace": (-1.0, 2.0), "geomspace": (0.5, 16.0)}


@pytest.mark.parametrize("name", ENDS)
def test_as_many_numbers_as_a_size_says(name):
    low, high = ENDS[name]
    for endpoint in (True, False):
        fast = zenith.jit(lambda x, end=endpoint: getattr(znp, name)(low, high, x.shape[0], endpoint=end))
        for count in (3, 1, 0, 2, 7):
            expected = getattr(np, name)(low, high, count, endpoint=endpoint)
            np.testing.assert_allclose(fast(np.ones(count)), expected, rtol=1e-12)
        assert fast.cache_info().misses == 1
    for count in (0, 1, 3):
        check(lambda xp, a, n=count: xp.linspace(a, 2.0, n, retstep=True), np.array([0.5, 1.0]))
        check(lambda xp, a, n=count: xp.linspace(a, 2.0, n, False, retstep=True), np.array([0.5, 1.0]))


@pytest.mark.parametrize("name", ENDS)
def test_numbers_between_two_ends(name):
    low, high = ENDS[name]
    x = values(np.dtype("f8"), (3,), 1, 0.1, 5.0)
    for count in (1, 2, 5):
        check(lambda xp, a, n=count: getattr(xp, name)(a, high, n, axis=-1), x, ulps=64)
        check(lambda xp, a, n=count: getattr(xp, name)(a, a[::-1], n, endpoint=False), x, ulps=64)
        np.testing.assert_allclose(
            getattr(znp, name)(low, high, count), getattr(np, name)(low, high, count), rtol=1e-14
        )
    check(lambda xp, a: xp.linspace(a, 3, 4, retstep=True), x)
    check(lambda xp, a: xp.linspace(a, 9, 4, dtype=np.int32), x)
    check(lambda xp, a: xp.logspace(a, 2, 4, base=np.array([2.0, 3.0, 4.0])), x, ulps=64)
    check(lambda xp, a: xp.logspace(0, 2, 3, base=a), x, ulps=64)
    check(lambda xp, a: xp.logspace(a[:, None], 2, 4, base=a, axis=1), x, ulps=64)
    check(lambda xp, a: xp.geomspace(-a, -9, 3), x, ulps=64)
    check(lambda xp, a: xp.geomspace(a * 1j, 1000j, 4), x, ulps=64)


def test_the_namespace_describes_itself():
    info = znp.__array_namespace_info__()
    assert info.capabilities()["boolean indexing"] and info.devices() == [info.default_device()] == ["cpu"]
    assert info.default_dtypes()["integral"] == np.dtype("int64")
    assert info.dtypes(kind="real floating") == {"float32": np.dtype("f4"), "float64": np.dtype("f8")}
    assert set(info.dtypes(kind=("bool", "signed integer"))) >= {"bool", "int32", "int64"}

    def function(a):
        assert not info.capabilities()["data-dependent shapes"]
        assert a.to_device(a.device) is a is znp.from_dlpack(a)
        assert a.__array_namespace__(api_version="2024.12") is znp
        with pytest.raises(ArgumentError, match=r"no version '1999\.01' of the array API standard"):
            a.__array_namespace__(api_version="1999.01")
        with pytest.raises(DeviceError, match="a traced array cannot be moved to 'cpu'"):
            a.to_device("cpu")
        return a + znp.ones(3, device=a.device)

    assert run_traced(function, np.zeros(3))[0].tolist() == [1.0] * 3
    assert znp.from_dlpack(np.arange(3), copy=True).tolist() == [0, 1, 2]
    with pytest.raises(ArgumentError, match="from_dlpack: list has no __dlpack__"):
        znp.from_dlpack([1])


def test_the_namespace_holds_numpys_names():
    chapters = [m for m in vars(znp).values() if inspect.ismodule(m)]
    public = {name for name, value in vars(znp).items() if not name.startswith("_") and value not in chapters}
    own = {name for name in public if not hasattr(np, name)}
    found = {name for name in own if not name.startswith(("dynamic_", "cumulative_"))}
    assert found == {"attention", "bfloat16", "sliding_window_view", "top_k"}
    assert {name for name in dispatch.names() if "." not in name} - {"flatten"} <= public
    for name in (name for name in dispatch.names() if "." in name):
        module, function = name.split(".")
        assert function in getattr(znp, module).__all__
