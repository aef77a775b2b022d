"""Donated arguments: results in their memory, and nothing else changed."""

import itertools

import numpy as np
import pytest
import torch

import zenith
from zenith import optim
from zenith.errors import TraceError

RNG = np.random.default_rng(7)
SIZES = [8, 8, 8, 8, 4]


def network():
    return [(RNG.standard_normal((m, n)) / 3, np.zeros(n)) for m, n in itertools.pairwise(SIZES)]


def loss(params, x, y):
    for w, b in params:
        x = np.tanh(x @ w + b)
    return np.mean((x - y) ** 2)


def step_of(optimizer, **options):
    def step(params, state, x, y):
        value, gradient = zenith.value_and_grad(loss)(params, x, y)
        updates, state = optimizer.update(gradient, state, params)
        return value, optim.apply_updates(params, updates), state

    return zenith.jit(step, **options)


def leaves(tree):
    return [array for array in zenith.tree.flatten(tree)[0] if isinstance(array, np.ndarray) and array.ndim]


def addresses(arrays):
    return {array.ctypes.data for array in arrays}


@pytest.mark.parametrize(
    "make", [lambda: optim.sgd(0.1, momentum=0.9), lambda: optim.adamw(0.01)], ids=["sgd", "adamw"]
)
def test_training_with_donated_weights_gives_the_same_bits_and_needs_less_memory(make):
    params, x, y = network(), RNG.standard_normal((5, 8)), RNG.standard_normal((5, 4))
    optimizer = make()
    plain, giving = step_of(optimizer), step_of(optimizer, donate_argnums=(0, 1))
    ours = zenith.tree.unflatten(zenith.tree.flatten(params)[1], [np.array(a) for a in zenith.tree.flatten(params)[0]])
    state, own_state = optimizer.init(params), optimizer.init(ours)
    for _ in range(4):
        value, params, state = plain(params, state, x, y)
        before = addresses(leaves((ours, own_state)))
        own_value, ours, own_state = giving(ours, own_state, x, y)
        after = leaves((ours, own_state))
        assert value == own_value
        for a, b in zip(leaves((params, state)), after, strict=True):
            np.testing.assert_array_equal(a, b)
        assert len(before & addresses(after)) >= len(after) // 2
        assert len(addresses(after)) == len(after), "no two results share memory"
    assert giving.cache_info().misses == 1


def test_a_result_waits_for_the_last_reader_of_the_memory_that_it_takes():
    """``first`` is read by the last kernel: no earlier result may take its memory."""

    def both(first, second):
        early = np.exp(second) @ second
        late = (first @ early) + first
        return early, late

    rng = np.random.default_rng(1)
    first, second = rng.standard_normal((6, 6)), rng.standard_normal((6, 6))
    wanted = zenith.jit(both)(first, second)
    found = zenith.jit(both, donate_argnums=(0, 1))(first.copy(), second.copy())
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(a, b)


def test_only_donated_arguments_are_written():
    def f(a, b):
        c = np.sin(a) @ np.cos(b)
        return np.tanh(c) @ c

    a, b = RNG.standard_normal((4, 4)), RNG.standard_normal((4, 4))
    old_a, old_b = a.copy(), b.copy()
    wanted = zenith.jit(f)(a, b)
    found = zenith.jit(f, donate_argnums=1)(a, b)
    np.testing.assert_array_equal(a, old_a)
    np.testing.assert_array_equal(found, wanted)
    assert found is b
    np.testing.assert_array_equal(zenith.jit(f, donate_argnums=-2)(a, old_b), wanted)


def giving():
    return zenith.jit(lambda a, b: np.tanh(np.sin(a) @ b) @ b[:, :1], donate_argnums=(0,)), zenith.jit(
        lambda a, b: (np.sin(a) @ b) @ np.cos(b), donate_argnums=(0, 1)
    )


def test_what_cannot_be_given_away_is_left_alone():
    _, f = giving()
    a, b = RNG.standard_normal((4, 4)), RNG.standard_normal((4, 4))
    wanted = (np.sin(a) @ b) @ np.cos(b)
    whole = RNG.standard_normal((8, 4))
    whole[:4], copies = a, [a.copy(), b.copy()]
    frozen = a.copy()
    frozen.setflags(write=False)
    for first in (whole[:4], frozen, np.asfortranarray(a)):
        np.testing.assert_allclose(f(first, b.copy()), wanted, rtol=1e-12)
        np.testing.assert_array_equal(first, copies[0])
    same = RNG.standard_normal((4, 4))
    original = same.copy()
    np.testing.assert_allclose(f(same, same), (np.sin(original) @ original) @ np.cos(original), rtol=1e-12)
    np.testing.assert_array_equal(same, original)
    torch.testing.assert_close(f(torch.from_numpy(a), torch.from_numpy(b)), torch.from_numpy(wanted))


def test_tensors_are_donated_too():
    f = zenith.jit(lambda a, b: (np.sin(a) @ b) @ np.cos(b), donate_argnums=0)
    a, b = torch.randn(4, 4), torch.randn(4, 4)
    wanted = (torch.sin(a) @ b) @ torch.cos(b)
    found = f(a, b)
    torch.testing.assert_close(found, wanted)
    assert found is a


def test_wrong_numbers_are_refused():
    with pytest.raises(TraceError, match="no argument -3 to be donated"):
        zenith.jit(lambda a, b: a, donate_argnums=-3)
    with pytest.raises(TraceError, match="static and donated at once"):
        zenith.jit(lambda a, b: a, donate_argnums=0, static_argnums=0)


def test_explain_says_how_many_results_are_in_donated_memory():
    f = zenith.jit(lambda a, b: (np.sin(a) @ b) @ np.cos(b), donate_argnums=0)
    f(RNG.standard_normal((4, 4)), RNG.standard_normal((4, 4)))
    assert "1 arguments are donated" in " ".join(str(f.explain()).split())


def test_a_donated_argument_keeps_its_shape():
    """Though a result with fewer elements, whose number depends on values, has its memory."""
    selected = zenith.jit(lambda x: x[x > 0], donate_argnums=0)
    x = np.random.default_rng(0).standard_normal(100_000)
    view, expected = x[:], x[x > 0]
    found = selected(x)
    assert x.shape == view.shape == (100_000,) and found.tolist() == expected.tolist()
    view[:] = 1  # and its memory is there
