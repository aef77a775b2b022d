"""Shape functions against NumPy: fixed and symbolic sizes, sizes 0 and 1."""

import numpy as np
import pytest

import zenith.numpy as znp
from tests.numpy.comparison import check, run_traced, traced, values
from zenith import jit
from zenith.errors import ArgumentError, DTypeError, ShapeError, TraceError

F4 = np.dtype("f4")
SHAPES = ((2, 3, 4), (1, 3, 4), (2, 3, 0), (1, 1, 1))

FUNCTIONS = {
    "reshape": lambda xp, a: xp.reshape(a, (a.shape[0], a.shape[1] * a.shape[2])),
    "reshape back": lambda xp, a: a.reshape(a.shape[1], a.shape[0], a.shape[2]),
    "reshape unknown": lambda xp, a: a.reshape((a.shape[2], -1)) if a.shape[2] > 0 else a,
    "reshape all": lambda xp, a: a.reshape(-1),
    "reshape all by another negative size": lambda xp, a: (a.reshape(-3), xp.reshape(a, (1, -2))),
    "ravel": lambda xp, a: (xp.ravel(a), a.ravel(), a.flatten(), xp.ravel(a, "F"), a.flatten("F")),
    "reshape with the first axis fastest": lambda xp, a: (
        xp.reshape(a, (a.shape[1], -1), order="F") if a.shape[1] > 0 and a.shape[2] > 0 else a
    ),
    "rollaxis": lambda xp, a: (xp.rollaxis(a, 2), xp.rollaxis(a, 0, 3), xp.rollaxis(a, -1, 1)),
    "transpose": lambda xp, a: (
        xp.transpose(a),
        a.T,
        a.transpose(1, 0, 2),
        a.transpose((2, 0, 1)),
        xp.transpose(a, (0, -1, 1)),
    ),
    "matrix transpose": lambda xp, a: (a.mT, xp.matrix_transpose(a)),
    "swapaxes": lambda xp, a: (xp.swapaxes(a, 0, 2), a.swapaxes(-1, 1)),
    "moveaxis": lambda xp, a: (xp.moveaxis(a, 0, -1), xp.moveaxis(a, (0, 1), (2, 0))),
    "expand_dims": lambda xp, a: (xp.expand_dims(a, 0), xp.expand_dims(a, (-1, 1))),
    "squeeze": lambda xp, a: xp.squeeze(xp.expand_dims(a, (0, 2)), (0, 2)),
    "broadcast_to": lambda xp, a: xp.broadcast_to(a, (5, *a.shape)),
    "broadcast_arrays": lambda xp, a: xp.broadcast_arrays(a, a[:, :1] if a.shape[1] > 1 else a),
    "concatenate": lambda xp, a: (
        xp.concatenate([a, a * 2]),
        xp.concatenate((a, a), axis=-1),
        xp.concatenate([a, a], axis=None),
    ),
    "stack": lambda xp, a: (xp.stack([a, a]), xp.stack([a, a + 1], axis=-1)),
    "vstack": lambda xp, a: (xp.vstack([a, a]), xp.hstack([a, a]), xp.dstack([a[..., 0:], a])),
    "column_stack": lambda xp, a: xp.column_stack([a.ravel(), a.ravel()]),
    "tile": lambda xp, a: (xp.tile(a, 2), xp.tile(a, (2, 1, 3)), xp.tile(a, (2, 1, 1, 1))),
    "repeat": lambda xp, a: (xp.repeat(a, 3), xp.repeat(a, 2, axis=1), a.repeat(0, axis=0)),
    "flip": lambda xp, a: (xp.flip(a), xp.flip(a, 1), xp.flip(a, (0, 2)), xp.fliplr(a), xp.flipud(a)),
    "rot90": lambda xp, a: [xp.rot90(a, k) for k in range(-1, 5)],
    "roll": lambda xp, a: (
        xp.roll(a, 1, 0),
        xp.roll(a, -2, axis=1),
        xp.roll(a, 7, 1),
        xp.roll(a, (1, 2), (0, 1)),
        xp.roll(a, 3),
        xp.roll(a, (1, 2), axis=1),
        xp.roll(a, 1, axis=(0, 1, 1)),
        xp.roll(a, np.array([1, -2])),
        xp.roll(a, [4], (2, 0)),
    ),
    "split": lambda xp, a: [*xp.split(a, [1, 2], axis=1), *xp.split(a, [-1], axis=0)],
    "split equal": lambda xp, a: xp.split(a, 3, axis=1) if a.shape[1] == 3 else [a],
    "array_split": lambda xp, a: [*xp.array_split(a, 2, axis=1), *xp.array_split(a, 5, axis=2)],
    "split along named axes": lambda xp, a: [*xp.vsplit(a, [1]), *xp.hsplit(a, [1, 2]), *xp.dsplit(a, [2])],
    "block": lambda xp, a: (xp.block([[a, a], [a * 2, a]]), xp.block([a[0, 0], 1]), xp.block([[a[0], a[0]]])),
    "pad": lambda xp, a: (
        xp.pad(a, 1),
        xp.pad(a, ((1, 0), (0, 2), (3, 3)), constant_values=7),
        xp.pad(a, (1, 2)),
        xp.pad(a, {-1: (0, 1)}),
    ),
    "atleast": lambda xp, a: (xp.atleast_3d(a[0, 0]), xp.atleast_2d(a[0, 0]), xp.atleast_1d(a), xp.atleast_3d(a[0])),
    "shape": lambda xp, a: (
        xp.shape(a)[1] * xp.asarray([1.0, 2.0]),
        xp.size(a) + xp.zeros(1),
        a.size * xp.ones(1),
        xp.ndim(a) + a,
    ),
    "astype": lambda xp, a: (a.astype(np.int32), a.astype("float64"), a.astype(bool), a.astype(np.float32)),
}


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_shape_functions(name, shape):
    check(FUNCTIONS[name], values(F4, shape, 3))


def test_squeeze_takes_away_what_is_one_in_each_call():
    fast = jit(lambda x: np.squeeze(x) + x.squeeze())
    for shape in ((1, 5), (2, 5), (1, 7), (3, 4), (1, 1), (2, 1)):
        assert np.array_equal(fast(np.ones(shape)), 2 * np.ones(shape).squeeze()), shape
    assert fast.cache_info().misses == 4, "one for each pattern of ones"


def test_slices_of_one_array_are_joined():
    x = values(F4, (3, 2, 4))
    for axis in (0, 1, -1, None):
        check(lambda xp, a, at=axis: znp.concatenate(a, axis=at) if xp is znp else xp.concatenate([*x], axis=at), x)
    check(lambda xp, a: znp.stack(a, axis=1) if xp is znp else xp.stack([*x], axis=1), x)
    check(lambda xp, a: znp.concatenate(a, dtype="f8") if xp is znp else xp.concatenate([*x], dtype="f8"), x)
    fast = jit(lambda a: znp.concatenate(a, axis=1))
    for n in (1, 3, 5):
        assert np.array_equal(fast(np.ones((n, 2, 4))), np.ones((2, 4 * n)))


def test_split_at_indices_that_cross():
    for indices in ([2, -2], [-3, -2, 9], [3, 1]):
        fast = jit(lambda x, at=indices: np.split(x, at))
        for n in (8, 3, 1, 2, 4):
            x = np.arange(float(n))
            for found, expected in zip(fast(x), np.split(x, indices), strict=True):
                assert np.array_equal(found, expected), (n, indices)


def test_unstack_needs_a_fixed_size():
    check(lambda xp, a: xp.unstack(a[:3], axis=0), values(F4, (3, 2)))


def test_reshape_with_a_symbol_needs_a_divisible_size():
    graph = traced(lambda a: a.reshape(-1, 3), np.zeros(12, np.float32)).graph
    assert [str(g) for g in graph.guards] == ["require((s0_0%3) == 0)"]
    with pytest.raises(ShapeError, match=r"cannot reshape \(s0_0,\) to \(-1, 3\)"):
        run_traced(lambda a: a.reshape(-1, 3), np.zeros(11))


def test_equal_shapes_are_no_nodes():
    graph = traced(lambda a: np.broadcast_to(a.reshape(a.shape), a.shape).transpose(0, 1), np.zeros((2, 3))).graph
    assert len(graph) == 1


def test_arrays_with_more_axes_are_not_broadcast_to_fewer():
    for shape in ((), (4,)):
        with pytest.raises(ShapeError, match="cannot broadcast"):
            jit(lambda x, shape=shape: np.broadcast_to(x, shape))(np.ones((3, 1)))


def test_broadcast_to_a_size_that_is_equal_in_this_call():
    fast = jit(lambda a, b: np.broadcast_to(b, (2, a.shape[0] // (a.shape[0] // 4))) + a.shape[0])
    b = np.arange(4.0)
    for n in (12, 8):
        assert np.array_equal(fast(np.zeros(n), b), np.broadcast_to(b, (2, 4)) + n)
    assert fast.cache_info().misses == 1
    with pytest.raises(ShapeError, match=r"sizes .* differ"):
        fast(np.zeros(7), b)


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda a: a.reshape(4, 2), r"cannot reshape \(2, 3\) to \(4, 2\)"),
        (lambda a: a.reshape(-1, -1), "reshape: only one size can be negative"),
        (lambda a: np.broadcast_to(a, (2, 4)), r"shapes \(2, 4\) and \(2, 3\) do not fit together"),
        (lambda a: np.concatenate([a, a.T]), r"concatenate along axis 0: shapes \(2, 3\) and \(3, 2\) do not fit"),
        (lambda a: np.concatenate([a, a[0]]), "concatenate along axis 0"),
        (lambda a: np.squeeze(a, 0), "squeeze removes axes of size 1 only"),
        (lambda a: np.broadcast_to(a, (3,)), r"cannot broadcast \(2, 3\) to \(3,\)"),
        (lambda a: np.moveaxis(a, (0, 1), (0,)), "as many sources as destinations"),
        (lambda a: znp.concatenate([]), "concatenate needs at least one array"),
        (lambda a: np.transpose(a, (0, 0)), "no permutation of 2 axes"),
        (lambda a: np.split(a, 2, axis=1), "split into 2 equal parts of an axis of size 3"),
        (lambda a: np.swapaxes(a, 0, 2), "swapaxes: axis 2 is out of bounds"),
        (lambda a: np.pad(a, -1), "pad: a width is negative"),
    ],
)
def test_shapes_that_do_not_fit(function, text):
    with pytest.raises(ValueError, match=text):
        run_traced(function, np.zeros((2, 3)), symbolic=False)


ROWS = np.arange(6.0).reshape(2, 3)


@pytest.mark.parametrize("x", [ROWS, ROWS.T, ROWS[:, ::-1], np.asfortranarray(ROWS), ROWS[:, ::2]], ids=str)
def test_orders_that_the_memory_decides_are_those_of_concrete_arrays(x):
    for order in ("A", "K"):
        np.testing.assert_array_equal(znp.ravel(x, order), np.ravel(x, order))
        np.testing.assert_array_equal(jit(lambda: znp.ravel(x, order) * 1)(), np.ravel(x, order))  # noqa: B023
    np.testing.assert_array_equal(znp.reshape(x, (-1, 1), order="A"), np.reshape(x, (-1, 1), order="A"))


@pytest.mark.parametrize(
    "function",
    [
        lambda a: a.ravel("K"),
        lambda a: a.T.ravel("A"),
        lambda a: (a + 1).flatten("K"),
        lambda a: a.reshape(3, 2, order="A"),
        lambda a: np.ravel(a, "A"),
    ],
)
def test_orders_that_the_memory_decides_are_refused_of_traced_arrays(function):
    with pytest.raises(TraceError, match=r"order '[AK]' depends on how the array is stored"):
        jit(function)(np.asfortranarray(ROWS))


def test_one_axis_has_one_order():
    x = np.arange(5.0)
    check(lambda xp, a: (xp.ravel(a, "K"), a[::-1].ravel("A"), a[:, None].flatten("K"), a[None].ravel("A")), x)
    with pytest.raises(ArgumentError, match="ravel: 'X' is no order"):
        run_traced(lambda a: a.ravel("X"), x)


def test_orders_that_are_none():
    with pytest.raises(ArgumentError, match="reshape: 'K' is no order"):
        run_traced(lambda a: np.reshape(a, (3, 1), order="K"), np.zeros(3))


def test_a_shift_that_the_program_computes():
    x, shifts = values(np.dtype("f4"), (3, 4)), np.array([1, -6, 3])
    check(lambda xp, a, k: [xp.roll(a, k[0]), xp.roll(a, k[1], 1), xp.roll(a, (k[0], k[1]), (0, 1))], x, shifts)
    check(lambda xp, a, k: [xp.roll(a, k[:2], (1, 0)), xp.roll(a[:, :0], k[2], 1), xp.roll(a, (k[0], 1), 0)], x, shifts)
    check(lambda xp, a, k: xp.roll(a, k[0], axis=0), x, shifts.astype(np.uint8))
    with pytest.raises(DTypeError, match="roll: a shift is an integer"):
        run_traced(lambda a: np.roll(a, a[0, 0], 0), x)
    with pytest.raises(ShapeError, match="roll: 3 shifts for 2 axes"):
        run_traced(lambda a: np.roll(a, (1, 2, 3), (0, 1)), x)
