"""What a call shares with another: memory of arguments and results, captured arrays, keys of static values."""

import sys

import numpy as np
import pytest

import zenith
from zenith.errors import ArgumentError, TraceError

torch = pytest.importorskip("torch")
TABLE = np.zeros(3)
STATE = {"n": np.zeros(1)}


@zenith.jit
def _set_first(x, y):
    x[0] = 5.0
    return y * 1.0


def test_written_tensors_share_no_memory_with_others():
    x = torch.zeros(4)
    assert _set_first(x[:2], x[2:]).tolist() == [0, 0] and x.tolist() == [5, 0, 0, 0]
    for pair in ((x, x), (x, x[:]), (x[1:], x), (x.numpy(), x[1:]), (x, x.numpy())):
        with pytest.raises(ArgumentError, match="whose memory is also that of"):
            _set_first(*pair)


def test_elements_of_a_written_array_do_not_overlap():
    windows = np.lib.stride_tricks.as_strided(np.zeros(4), (3, 2), (8, 8))
    with pytest.raises(ArgumentError, match="whose elements overlap each other"):
        _set_first(windows, np.zeros(2))
    x = np.zeros(6)
    _set_first(x[::-2], np.zeros(2))
    assert x.tolist() == [0, 0, 0, 0, 0, 5]


class _Counter:
    def __init__(self):
        self.n = np.zeros(1)

    @zenith.jit
    def step(self, x):
        self.n[0] += 1
        return x + self.n[0]


@zenith.jit
def _counted(x):
    STATE["n"][0] += 1
    return x + STATE["n"][0]


@pytest.mark.parametrize("function", [_Counter().step, _counted])
def test_arrays_in_objects_and_dicts_are_captured_too(function):
    with pytest.raises(TraceError, match="writes into an array that it captures"):
        function(1.0)
    assert STATE["n"][0] == 0


def test_a_view_that_cannot_be_written_shows_what_its_array_is_given():
    @zenith.jit
    def program(x):
        buffer = TABLE * 1.0
        rows = np.broadcast_to(buffer, (2, 3))
        before = x + rows
        buffer[0] = 5.0
        return before, x + rows

    before, after = program(np.zeros((2, 3)))
    assert not before.any() and after[:, 0].tolist() == [5, 5]


def test_an_argument_named_twice_has_two_gradients():
    first, second = zenith.grad(lambda x: (x * x).sum(), argnums=(0, 0))(np.ones(2))
    first += 1
    assert second.tolist() == [2, 2]
    for transform in (zenith.jacfwd, zenith.jacrev):
        one, other = transform(lambda x: x * x, argnums=(0, -1))(np.array([1.0, 2.0]))
        assert one.tolist() == other.tolist() == [[2, 0], [0, 4]]


def test_cotangents_have_the_structure_of_their_argument():
    @zenith.custom_vjp
    def weighted(p):
        return p["w"] * 2.0 + p["b"] * 3.0

    weighted.defvjp(lambda p: (weighted(p), ()), lambda r, g: ((2.0 * g, 3.0 * g),))
    with pytest.raises(TraceError, match="another structure"):
        zenith.grad(weighted)({"w": 1.0, "b": 1.0})


def test_equal_static_values_that_differ():
    function = zenith.jit(lambda x, r: x * r.stop, static_argnames="r")
    assert [function(1.0, range(0, stop, 2)) for stop in (3, 4)] == [3, 4]


def test_names_of_sizes_do_not_collide():
    total, zeros = zenith.jit(lambda size_a, a0: (size_a.sum(), np.zeros(a0)))(np.ones(3), 5)
    assert total == 3 and zeros.shape == (5,)


def test_sizes_and_floats_of_numpys_promote_as_numpys():
    x = np.ones(3, np.float32)
    for function in (lambda x: x * (x.shape[0] * np.float64(0.5)), lambda x: x * (x.shape[0] / np.float64(2))):
        assert zenith.jit(function)(x).dtype == np.float64
    assert zenith.jit(lambda x: x * (x.shape[0] * 0.5))(x).dtype == np.float32


def test_an_ejected_file_takes_what_it_was_made_for(tmp_path, monkeypatch):
    @zenith.jit
    def difference(d):
        first, second = d.values()
        return first - second.sum()

    a, b = np.ones(1), np.zeros(1)
    difference({"a": a, "b": b})
    difference.eject(tmp_path / "ejected_difference.py")
    monkeypatch.syspath_prepend(tmp_path)
    import ejected_difference

    assert ejected_difference.difference({"a": a, "b": b}) == 1
    with pytest.raises(TypeError, match="is made for a dict with"):
        ejected_difference.difference({"b": b, "a": a})
    with pytest.raises(TypeError, match="has rules of its own"):
        ejected_difference.difference({"a": a, "b": np.ma.array(b)})
    sys.modules.pop("ejected_difference")


def test_a_profile_leaves_arguments_alone():
    @zenith.jit
    def increased(x):
        x += 1

    x = np.zeros(4)
    increased(x)
    increased.profile(x)
    assert x.max() <= 2


@pytest.mark.parametrize("view", [lambda a: a.T, lambda a: a[:, ::2], lambda a: a[::-1], np.asfortranarray])
def test_rows_of_arguments_with_strides_are_written(view):
    def first(x):
        x[0] = 5.0
        return x

    def sums(x):
        for k in range(1, len(x)):
            x[k] += x[k - 1]
        return x.sum()

    for function in (first, sums):
        own, plain = (np.arange(24.0).reshape(4, 6) for _ in range(2))
        np.testing.assert_array_equal(zenith.jit(function)(view(own)), function(view(plain)))
        np.testing.assert_array_equal(own, plain)
